/* A progress line for work that takes longer than two seconds.
 *
 * On a terminal one line is redrawn once a second. Elsewhere a line is printed every ten seconds,
 * so that logs stay short. Work in parts, such as epochs, has one line, with the time that is left
 * of the part. One thread calls all functions.
 */
#ifndef PENSTOCK_BASE_PROGRESS_H
#define PENSTOCK_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label; /* borrowed */
    const char *unit;  /* borrowed, "chunks" */
    uint64_t total;
    uint64_t first;    /* units that were done when the part began */
    uint64_t start_ns; /* of the part */
    uint64_t last_ns;
    bool terminal;
    bool shown;
};

void progress_init(struct progress *progress, const char *label, const char *unit, uint64_t total);

/* Goes on to another part of the work, of which `first` units are done already. */
void progress_part(struct progress *progress, const char *label, uint64_t first, uint64_t total);

/* `done` of `total` units; `bytes` so far for the rate, 0 to leave it out. Cheap: may be called
 * often. */
void progress_update(struct progress *progress, uint64_t done, uint64_t bytes);

/* Ends the line, if there is one. */
void progress_done(struct progress *progress);

#endif
