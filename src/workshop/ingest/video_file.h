/* A video's file, as FFmpeg reads it: through functions of ours, which know whether the file could
 * be read. So what FFmpeg says of a file that reads fully is about the video, whatever number it
 * says it with. One thread at a time. */
#ifndef PENSTOCK_WORKSHOP_INGEST_VIDEO_FILE_H
#define PENSTOCK_WORKSHOP_INGEST_VIDEO_FILE_H

#include "base/error.h"

#include <libavformat/avformat.h>

/* Of all files that a video opens. Zero-initialised. */
struct video_reads {
    int failed; /* errno of the first read that failed; 0: none has */
};

/* Opens a regular file that is not empty; `reads` is borrowed until video_file_close(). NOT_FOUND,
 * UNSUPPORTED, CORRUPT: the path is not of such a file. IO. NO_MEMORY. */
MUST_USE enum status video_file_open(const char *path, struct video_reads *reads,
                                     AVIOContext **ret_io, struct error *err);

/* NULL is fine. */
void video_file_close(AVIOContext *io);

/* Lets `format`, whose opaque pointer becomes `reads`, open the files that a playlist names: local
 * files alone, read in the same way. */
void video_file_serve(AVFormatContext *format, struct video_reads *reads);

#endif
