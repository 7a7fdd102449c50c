/* A cache of stored values (chunks) in a directory of this node, for stores that are slower:
 * written once, checked when read, shared by all processes and runs of the user on this node.
 *
 *     CACHE_DIR/                    0700, ours
 *       table                       who uses how much: one entry a dataset (disk_cache_table.h)
 *       partial/                    values being written, renamed when complete
 *       <dataset, 16 hex digits>/
 *         lock                      locked (shared) by each process that uses the dataset
 *         <2 hex digits>/<30 hex digits>      one value: header, then the bytes as stored
 *
 * A value is named by a 128-bit hash of its key and holds that name, its length and a 128-bit hash
 * of its bytes (XXH3): what was cut off, mixed up or damaged is not used, but removed, counted and
 * read again from the store. Absent values are not recorded.
 *
 * Space: `limit_bytes` holds for the directory, over all datasets and processes. Space is reserved
 * in the table before anything is written, and a reservation that would exceed the limit first
 * removes values of datasets that no process uses, longest unused first. When there are none, or
 * the disk is full, nothing more is written. What is in use is never removed: an epoch that goes
 * round through more than fits would replace everything just before its use.
 *
 * A process that dies leaves its reservation and a file in partial/; the next one to open the cache
 * removes such files when no process has it open, or when they are an hour old. After a reboot, and
 * when the table is damaged, sizes are added up anew.
 *
 * Not meant for directories shared between nodes. Any number of threads may call everything but
 * opening and freeing.
 */
#ifndef PENSTOCK_STORE_DISK_CACHE_H
#define PENSTOCK_STORE_DISK_CACHE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_cache;

struct disk_cache_options {
    const char *path;     /* made if it is not there; its parent must be */
    uint64_t limit_bytes; /* of the whole directory; 0: what it holds and 9/10 of what is free */
    uint64_t dataset;     /* identity: values of one are never taken for another's */
};

/* Opens the cache, for one dataset.
 * IO: cannot be made, opened, locked or written to. REFUSED: it belongs to another user, others may
 * write to it, it is a symbolic link, or too many datasets are in use. All messages name the path,
 * the cause and what to do. */
MUST_USE enum status disk_cache_open(const struct disk_cache_options *options,
                                     struct disk_cache **ret_cache, struct error *err);

/* NULL is fine. What was written stays. */
void disk_cache_free(struct disk_cache *cache);

/* Reads the value of `key` to `buffer`: true, with *ret_size set. false: it is not there, is longer
 * than `capacity`, or was not what was written; the buffer's content is undefined then. */
bool disk_cache_get(struct disk_cache *cache, const char *key, void *buffer, size_t capacity,
                    size_t *ret_size);

/* Whether there is a value of `key`; whether it is good only disk_cache_get() tells. */
bool disk_cache_has(struct disk_cache *cache, const char *key);

/* Writes the value if there is room and it is not there yet. Does not fail: see
 * disk_cache_stats(). Blocks on the disk; nothing is flushed. */
void disk_cache_put(struct disk_cache *cache, const char *key, const void *data, size_t size);

struct disk_cache_stats {
    uint64_t limit_bytes;
    uint64_t used_bytes;      /* by all datasets, as of the last write of this process */
    uint64_t hit_count;       /* values read from the cache */
    uint64_t written_count;   /* values written */
    uint64_t unwritten_count; /* values that there was no room for, or that failed to be written */
    uint64_t corrupt_count;   /* values found damaged */
    uint64_t removed_count;   /* values of other datasets removed to make room */
};
void disk_cache_stats(struct disk_cache *cache, struct disk_cache_stats *ret_stats);

/* What the user should hear of and has not yet: true, and a line in *ret_warning. Each kind (a
 * damaged value; no more writing because the disk failed or is full) is told once. */
bool disk_cache_take_warning(struct disk_cache *cache, struct error *ret_warning);

#endif
