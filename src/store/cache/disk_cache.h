/* A cache of stored values (chunks) in a directory of this node, for stores that are slower. A
 * value is written once and checked at each read. All processes and runs of the user on this node
 * share the cache.
 *
 *     CACHE_DIR/                    0700, ours
 *       lock                        locked (shared) by each process that has the cache open
 *       table                       who uses how much: one entry a dataset (disk_cache_internal.h)
 *       partial/                    values being written, renamed when complete
 *       <dataset, 16 hex digits>/
 *         lock                      locked (shared) by each process that uses the dataset
 *         <2 hex digits>/<30 hex digits>      one value: header, then the bytes as stored
 *
 * A value's name is a 128-bit hash (XXH3) of its key. The header holds this name, the number of
 * bytes and a 128-bit hash of the bytes. A value that is cut off, mixed up or damaged is never
 * used: the cache removes and counts the value, and the caller reads the store again. The cache
 * does not record that a value is absent.
 *
 * Space: `limit_bytes` holds for the directory, over all datasets and processes. A write first
 * reserves its space in the table; while there is plenty, for many values at once (64 of the size,
 * 32 MiB and a 16th of the room that is left, whichever is least). If the reservation would exceed
 * the limit, values of datasets that no process uses are removed first, the dataset that was unused
 * for longest before others. If there still is no room, nothing is written for the next 10 s. If a
 * write fails or the disk is full, this process writes nothing more. Values of a dataset in use are
 * never removed: an epoch that goes round through more than fits would replace everything just
 * before its use.
 *
 * A process that dies leaves its reservation and a file in partial/. The next process to open the
 * cache removes such files, all of them if no other process has the cache open, else those that are
 * an hour old. Sizes of a dataset are added up anew when its processes that died may hold more than
 * a hundredth of the limit, or when room is short, and no process uses the dataset. After a reboot,
 * and when the table is damaged, sizes are added up anew.
 *
 * The directory must not be shared between nodes. Any number of threads may call everything but
 * disk_cache_open() and disk_cache_free(), which one thread calls. All calls block on the disk, but
 * disk_cache_stats() and disk_cache_take_warning().
 */
#ifndef PENSTOCK_STORE_CACHE_DISK_CACHE_H
#define PENSTOCK_STORE_CACHE_DISK_CACHE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct disk_cache;

struct disk_cache_options {
    const char *path; /* copied; the directory is made if missing, its parent must be there */
    uint64_t
        limit_bytes;  /* of the whole directory; 0: what it holds now and 9/10 of what is free */
    uint64_t dataset; /* identity: a dataset never gets the values of another */
};

/* Opens the cache, for one dataset. May wait 80 s for the locks of other processes.
 * IO: the directory cannot be made, opened, locked or written to. REFUSED: the directory belongs to
 * another user, others may write to the directory, its path is a symbolic link, or the cache holds
 * 512 datasets already. NO_MEMORY. All messages name the path, the cause and what to do. */
MUST_USE enum status disk_cache_open(const struct disk_cache_options *options,
                                     struct disk_cache **ret_cache, struct error *err);

/* Closes the cache. The values stay on the disk. May wait a second for the table's lock. NULL is
 * fine. */
void disk_cache_free(struct disk_cache *cache);

/* Reads the value of `key` into `buffer`. True: *ret_size is set. False: there is no such value, or
 * the value is longer than `capacity`, or is damaged. The content of `buffer` is undefined then. */
bool disk_cache_get(struct disk_cache *cache, const char *key, void *buffer, size_t capacity,
                    size_t *ret_size);

/* Whether there is a value of `key`. The value is not checked: only disk_cache_get() does that. */
bool disk_cache_has(struct disk_cache *cache, const char *key);

/* Writes the value of `key`, unless there is one, or no room. `data` is borrowed. Never fails: a
 * value that could not be written is counted in disk_cache_stats(). Nothing is flushed. May wait a
 * second for the table's lock. */
void disk_cache_put(struct disk_cache *cache, const char *key, const void *data, size_t size);

struct disk_cache_stats {
    uint64_t limit_bytes;
    uint64_t used_bytes;      /* by all datasets, when this process last looked at the table */
    uint64_t hit_count;       /* values read from the cache */
    uint64_t written_count;   /* values written */
    uint64_t unwritten_count; /* values without room, and values whose write failed */
    uint64_t corrupt_count;   /* values found damaged */
    uint64_t removed_count;   /* values of other datasets removed to make room */
};
/* Counts of this process, since the opening. */
void disk_cache_stats(struct disk_cache *cache, struct disk_cache_stats *ret_stats);

/* Takes a warning that the user should see: true, with one line in *ret_warning. False: there is
 * none, and *ret_warning is untouched. There are two kinds: a damaged value was found, and nothing
 * more is written because a write failed. Each kind is given once. */
bool disk_cache_take_warning(struct disk_cache *cache, struct error *ret_warning);

#endif
