/* Looks at a job for `penstock top`: the metrics of the readers of this node and, on reader 0's
 * node, of all others (metrics/overview.h). Main thread.
 */
#ifndef PENSTOCK_CLI_TOP_TOP_LOOK_H
#define PENSTOCK_CLI_TOP_TOP_LOOK_H

#include "metrics/overview.h"
#include "metrics/verdict.h"

enum { TOP_MOST_READERS = 4096 };

/* The last snapshots of readers that are there, in order of rank. */
struct top_look {
    struct metrics_snapshot *snapshots[TOP_MOST_READERS]; /* owned */
    size_t count;
};

/* Who looks on: the run directory, and the overview, where there is one. */
struct top_watch {
    int dir; /* borrowed */
    struct metrics_overview others;
    uint64_t old_ms[TOP_MOST_READERS]; /* of pages that were there before anybody looked */
};

/* Begins to watch, and waits a little until readers of other nodes have answered. For
 * top_watch_end(), also after a failure. NOT_FOUND: no reader of this node lives, or none has
 * written anything. Else as top_look_take(). */
MUST_USE enum status top_watch_begin(struct top_watch *watch, int dir, struct error *err);
void top_watch_end(struct top_watch *watch);

/* Looks. *ret_look is the caller's, for top_look_done(). NOT_FOUND: as above. UNSUPPORTED, CORRUPT,
 * IO, NO_MEMORY: as metrics_file_read(). */
MUST_USE enum status top_look_take(const struct top_watch *watch, struct top_look *ret_look,
                                   struct error *err);
void top_look_done(struct top_look *look);

/* Each reader of `now`, with what it was `before`; one that is new, with itself. pairs[count]. */
void top_look_pair(const struct top_look *before, const struct top_look *now,
                   struct metrics_pair *pairs);

#endif
