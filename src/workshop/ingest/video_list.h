/* The list of videos: a text file with a path a line ('#' begins a comment line), a CSV file (.csv)
 * with a column `path` and perhaps `name`, or a folder, whose files are taken in order of name.
 * Paths are relative to the list's folder. A video's name is the name given, or the path as it
 * stands in the list. Main thread. */
#ifndef PENSTOCK_WORKSHOP_INGEST_VIDEO_LIST_H
#define PENSTOCK_WORKSHOP_INGEST_VIDEO_LIST_H

#include "base/error.h"

#include <stddef.h>

struct listed_video {
    char *path, *name;
};

struct video_list {
    size_t count, capacity;
    struct listed_video *videos;
};

/* NOT_FOUND: there is no such file. INVALID: no videos, no text, a CSV file without a column `path`
 * or a row without a path. IO, NO_MEMORY. video_list_done() frees the list, also after an error. */
MUST_USE enum status video_list_read(const char *path, struct video_list *ret_list,
                                     struct error *err);
void video_list_done(struct video_list *list);

#endif
