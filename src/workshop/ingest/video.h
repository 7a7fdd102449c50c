/* One video that is open: its packets and its decoder. FFmpeg's libraries are behind this header
 * and picture.h. One thread at a time; calls read files.
 *
 * Errors tell what is wrong with the video (NOT_FOUND, CORRUPT, UNSUPPORTED: another try finds the
 * same) from what is wrong with the machine (IO: the file could not be read; NO_MEMORY). Messages
 * do not name the video.
 */
#ifndef PENSTOCK_WORKSHOP_INGEST_VIDEO_H
#define PENSTOCK_WORKSHOP_INGEST_VIDEO_H

#include "base/error.h"
#include "workshop/ingest/video_file.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdint.h>

/* How a frame is turned before it is shown: transposed, then mirrored. */
struct orientation {
    bool transpose, flip_x, flip_y;
};

struct video {
    char *path;
    struct video_reads reads;
    AVIOContext *io;
    AVFormatContext *format;
    AVStream *stream;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    struct orientation orientation;
    bool untouched;  /* no packet was read yet */
    bool complained; /* FFmpeg logged an error of the decoder, since the video was opened */
};

/* Before all else: FFmpeg's messages go to no terminal. */
void video_start_logging(void);

/* Opens the best video stream, and its decoder with one thread. The caller calls video_close(). */
MUST_USE enum status video_open(const char *path, struct video **ret_video, struct error *err);
void video_close(struct video *video);

/* Whether the error is about the video, and not about the machine. */
bool video_is_bad(enum status status);

/* Reads the next packet of the stream into video->packet. False without an error: the end. */
MUST_USE enum status video_read(struct video *video, bool *ret_read, struct error *err);

/* Goes to a packet at or before `pts`; the decoder is as it was. NOT_FOUND: the file has no index,
 * or nothing there. */
MUST_USE enum status video_seek(struct video *video, int64_t pts, struct error *err);

/* Goes back to the first packet, by opening the video anew: some formats cannot seek there. */
MUST_USE enum status video_rewind(struct video *video, struct error *err);

/* Decodes a packet; NULL: the end. Then video_take() is called until there are no more frames. */
MUST_USE enum status video_send(struct video *video, const AVPacket *packet, struct error *err);

/* Takes a decoded frame into video->frame, whose pts is the best guess. */
MUST_USE enum status video_take(struct video *video, bool *ret_taken, struct error *err);

/* IO: a read of the file has failed, whatever FFmpeg made of that. */
MUST_USE enum status video_check_reads(const struct video *video, struct error *err);

/* What FFmpeg's `number` means: "what: Invalid data found when processing input (moov atom not
 * found)". CORRUPT and UNSUPPORTED, as long as the file can be read and there is memory. */
MUST_USE enum status video_fail(const struct video *video, int number, const char *what,
                                struct error *err);

#endif
