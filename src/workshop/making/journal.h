/* The journal of a dataset that is being made (making.h): files that list the slabs that are done,
 * in DST/<folder>. The folder has room for files of the targets' source, whose names it chooses:
 * journal_remove() removes them, too. */
#ifndef PENSTOCK_WORKSHOP_MAKING_JOURNAL_H
#define PENSTOCK_WORKSHOP_MAKING_JOURNAL_H

#include "base/error.h"
#include "scan/digest.h"
#include "workshop/making/targets.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct journal {
    const char *work, *folder;       /* as of struct targets */
    int folder_fd, file_fd, lock_fd; /* -1: none */
    bool resumed;                    /* an earlier call has left something */
    pthread_mutex_t mutex;
};

/* Makes the directory `path` and the folder in it, or opens those of an interrupted work; both by
 * the names in `targets`, of which nothing else is used. Returns a descriptor of the folder, which
 * the caller closes. INVALID: the directory holds something else. IO. */
MUST_USE enum status journal_open_folder(const char *path, const struct targets *targets,
                                         int *ret_fd, struct error *err);

/* Makes DST and its journal, or opens those of the same plan. `slab_bytes` is what the first
 * process found right, for all. INVALID: DST holds something else, another plan's journal, or is
 * being written by another process. */
MUST_USE enum status journal_open(const char *path, const struct targets *targets, uint32_t part,
                                  uint64_t *slab_bytes, struct journal *journal, struct error *err);
void journal_close(struct journal *journal);

/* Any thread. */
MUST_USE enum status journal_add(struct journal *journal, uint64_t slab,
                                 const struct digest_sum *sum, struct error *err);

/* Reads the journals of all parts into done[slab_count], and sums[slab_count] where done. */
MUST_USE enum status journal_read(const struct journal *journal, uint64_t slab_count, bool *done,
                                  struct digest_sum *sums, struct error *err);

/* Calls take() with each line of all files of a journal's folder whose names begin with `prefix`. A
 * file that goes meanwhile is left out: another process has finished. */
enum { JOURNAL_LINE_BYTES = 1200 }; /* of a line, at most */
typedef void journal_take(void *argument, char *line);
MUST_USE enum status journal_read_lines(int folder_fd, const char *prefix, journal_take *take,
                                        void *argument, struct error *err);

/* Waits until this process is the only one that finishes. */
MUST_USE enum status journal_lock(struct journal *journal, struct error *err);

/* Whether the directory `path` holds a journal with a plan. */
bool journal_has_plan(const char *path, const char *folder);

/* Removes the journal's folder, and what killed writers left in the tree below `path`. */
void journal_remove(struct journal *journal, const char *path);

#endif
