/* The inside of a disk cache, shared by its files. disk_cache.h shows the directory's layout.
 *
 *     disk_cache.c         opening, counts and warnings
 *     disk_cache_value.c   reading and writing values
 *     disk_cache_table.c   the table: who uses how much, and the lock around it
 *     disk_cache_room.c    room for values, reserved in the table for several at once
 *     disk_cache_clean.c   removing: files of dead writers, and datasets that nobody uses
 *
 * The table is one file of fixed size, in the machine's byte order. A process changes the table
 * only under the file's flock, and under a mutex, since its threads share the descriptor:
 *
 *     | magic 8 | boot 8 | entry 0: dataset 8, bytes 8, used_ns 8, writers 8 | ... | entry 511 |
 */
#ifndef PENSTOCK_STORE_CACHE_DISK_CACHE_INTERNAL_H
#define PENSTOCK_STORE_CACHE_DISK_CACHE_INTERNAL_H

#include "store/cache/disk_cache.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TABLE_ENTRIES = 512, BLOCK_BYTES = 4096, FOLDER_NAME_BYTES = 17, PARTIAL_NAME_BYTES = 48 };

struct table_entry {
    uint64_t dataset; /* 0: the entry is free */
    uint64_t bytes;   /* reserved or written, in whole blocks */
    uint64_t used_ns; /* when the dataset was last opened: nanoseconds since 1970 */
    uint64_t writers; /* processes that have room ahead, or died with it */
};

struct table {
    uint64_t magic;
    uint64_t boot; /* hash of the id of the boot in which the sums were made */
    struct table_entry entries[TABLE_ENTRIES];
};
_Static_assert(sizeof(struct table) == 16 + 32 * TABLE_ENTRIES, "layout of the table's file");

enum warning { WARNING_CORRUPT, WARNING_UNWRITABLE, WARNING_COUNT };

struct disk_cache {
    char *path; /* owned, for messages */
    uint64_t dataset, limit_bytes;
    int dir_fd, partial_fd;
    int folder_fd; /* of the dataset */
    int table_fd;  /* locked for each change */
    int users_fd; /* `lock` of the cache: locked (shared) by each process that has the cache open */
    int in_use_fd; /* `lock` of the dataset: locked (shared) by each process that uses the dataset
                    */
    pthread_mutex_t table_mutex;
    struct table table;     /* as last read; used under the mutex and the file's lock */
    _Atomic bool is_writer; /* counted in the entry's writers; as `table` */

    _Atomic bool unwritable;        /* a write failed: nothing more is written */
    _Atomic uint64_t full_until_ns; /* there was no room: not tried again before */
    _Atomic uint64_t ahead_bytes;   /* reserved, and not handed out */
    _Atomic uint64_t used_bytes, hit_count, written_count, unwritten_count, corrupt_count,
        removed_count;
    pthread_mutex_t warning_mutex;
    struct error warnings[WARNING_COUNT];
    bool warned[WARNING_COUNT]; /* warnings[i] is set */
    bool told[WARNING_COUNT];   /* warnings[i] was taken */
};

/* How much of the limit a file of `size` bytes takes. */
static inline uint64_t block_bytes(uint64_t size)
{
    return (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

/* The name of a dataset's folder: 16 hex digits. */
void folder_name(uint64_t dataset, char ret_name[FOLDER_NAME_BYTES]);

/* True, with the dataset: folder_name() makes this name. */
bool folder_parse(const char *name, uint64_t *ret_dataset);

/* Makes a name in partial/ that no other writer will choose, on any node or in any container.
 * False: the kernel gives no random numbers; errno is set. */
MUST_USE bool partial_name(const struct disk_cache *cache, char ret_name[PARTIAL_NAME_BYTES]);

/* Keeps a copy of `what`, with the path in front, for disk_cache_take_warning(). Only the first
 * warning of a kind is kept. Any thread. */
void disk_cache_warn(struct disk_cache *cache, enum warning kind, const struct error *what);

/* flock() that waits `timeout_ms` at most. False: errno is set, to EWOULDBLOCK after the wait. */
bool lock_file(int fd, int operation, uint32_t timeout_ms);

/* Opens the table, and leaves it locked on success. If there is no table that can be trusted, makes
 * one by adding up the files' sizes. IO: the table cannot be opened, locked within 60 s or written.
 */
MUST_USE enum status table_open(struct disk_cache *cache, struct error *err);

/* Locks the table for this thread, and reads it. False: other processes hold the lock for more than
 * a second, or the table cannot be read. */
MUST_USE bool table_lock(struct disk_cache *cache);

/* By the thread that has the lock. */
void table_unlock(struct disk_cache *cache);

/* Bytes of all datasets. Under the table's lock. */
uint64_t table_sum(const struct disk_cache *cache);

/* The entry of a dataset, or the first free entry for 0. NULL: there is none. Under the table's
 * lock. */
struct table_entry *table_find(struct disk_cache *cache, uint64_t dataset);

/* Writes `entry`, of cache->table, to the file. False: errno is set. Under the table's lock. */
bool table_write(struct disk_cache *cache, const struct table_entry *entry);

/* Takes `bytes` off a dataset's entry, and writes the entry. Under the table's lock. */
void table_give_back(struct disk_cache *cache, uint64_t dataset, uint64_t bytes);

/* Removes the files of dead writers in partial/, and gives back their space. `alone`: no other
 * process has the cache open, so all files are removed; else those that are an hour old. Under the
 * table's lock. */
void clean_partial(struct disk_cache *cache, bool alone);

/* Removes the files of dead writers of a dataset that no process uses. Their space is not given
 * back. Under the table's lock. */
void clean_partial_of(struct disk_cache *cache, uint64_t dataset);

/* Removes values of datasets that no process uses until `bytes` more fit. The dataset that was
 * unused for longest comes first. True: they fit. Under the table's lock. */
bool clean_unused(struct disk_cache *cache, uint64_t bytes);

/* How much of the limit the values in a dataset's folder take. */
uint64_t folder_sum(const struct disk_cache *cache, const char *name);

/* Takes `bytes` (whole blocks) for a value: from what this process has reserved ahead, or from the
 * table. False: there is no room, or the table cannot be locked. Any thread. */
bool room_take(struct disk_cache *cache, uint64_t bytes);

/* Returns what room_take() gave, for a value that was not written. Any thread. */
void room_put_back(struct disk_cache *cache, uint64_t bytes);

/* Returns everything to the table. May wait a second for the table's lock; without the lock,
 * nothing is returned, and the next process to open the dataset alone notices. */
void room_leave(struct disk_cache *cache);

/* Whether processes that died may hold more than a hundredth of the limit for the dataset. Such a
 * dataset is to be recounted if no process uses it. Under the table's lock. */
bool room_may_be_lost(const struct disk_cache *cache, const struct table_entry *entry);

/* Adds up what the dataset really takes, and removes files of its dead writers. No process may use
 * the dataset. Under the table's lock. */
void room_recount(struct disk_cache *cache, struct table_entry *entry);

#endif
