/* The overview: a file in the run directory of reader 0's node with the metrics files
 * (metrics_file.h) of the readers of other nodes.
 *
 *     RUN_DIR/reader-0.overview   | struct metrics_overview_head | page of reader 0 | of 1 | ...
 *
 * Page r begins at PAGES + r * page_bytes. Pages of readers of the node itself are empty: these
 * readers have files of their own. Reader 0 asks the others only while somebody looks
 * (mpi/account/overview.h): who looks holds a lock on the file, of an open file description (fcntl,
 * F_OFD_SETLK), which ends with its owner. A page that nobody has asked for of late is old.
 */
#ifndef PENSTOCK_METRICS_OVERVIEW_H
#define PENSTOCK_METRICS_OVERVIEW_H

#include "metrics/metrics_file.h"

#include <stdbool.h>

struct metrics_overview_head {
    uint64_t magic;
    uint32_t version;
    uint32_t reader_count;
    uint64_t page_bytes;
};

/* An overview, by whoever writes or reads it. */
struct metrics_overview {
    int fd; /* owned; -1: none */
    uint32_t reader_count;
    uint64_t page_bytes;
};

/* Makes the file for so many readers, with `most_trainers` trainers each. *ret_overview is the
 * caller's, for metrics_overview_close(). IO. */
MUST_USE enum status metrics_overview_create(int dir, uint32_t reader_count, uint32_t most_trainers,
                                             struct metrics_overview *ret_overview,
                                             struct error *err);

/* Whether somebody looks. One system call. */
bool metrics_overview_is_watched(const struct metrics_overview *overview);

/* Writes the page of the snapshot's reader. A failure is left to whoever reads the page. */
void metrics_overview_put(const struct metrics_overview *overview,
                          const struct metrics_snapshot *snapshot);

/* Opens the file to look, until metrics_overview_close(). NOT_FOUND: there is none, as on all nodes
 * but reader 0's, and where all readers are on one node. UNSUPPORTED: another version of Penstock
 * wrote the file. CORRUPT: the file makes no sense. IO. */
MUST_USE enum status metrics_overview_watch(int dir, struct metrics_overview *ret_overview,
                                            struct error *err);

/* Reads the page of reader `reader`. Errors as of metrics_file_read(). */
MUST_USE enum status metrics_overview_get(const struct metrics_overview *overview, uint32_t reader,
                                          struct metrics_snapshot **ret_snapshot,
                                          struct error *err);

/* Closes the file; with fd -1 does nothing. */
void metrics_overview_close(struct metrics_overview *overview);

#endif
