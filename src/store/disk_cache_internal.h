/* The inside of a disk cache, shared by its files. See disk_cache.h for the directory's layout.
 *
 *     disk_cache.c         opening, telling
 *     disk_cache_value.c   reading and writing values
 *     disk_cache_table.c   the table: who uses how much, and the lock around it
 *     disk_cache_clean.c   removing: what writers left behind, and datasets that nobody uses
 *
 * The table is one file of fixed size, in the machine's byte order; every change is made under its
 * flock (and a mutex, since threads share the descriptor):
 *
 *     | magic 8 | boot 8 | entry 0: dataset 8, bytes 8, used_ns 8 | entry 1 | ... | entry 511 |
 */
#ifndef PENSTOCK_STORE_DISK_CACHE_INTERNAL_H
#define PENSTOCK_STORE_DISK_CACHE_INTERNAL_H

#include "store/disk_cache.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TABLE_ENTRIES = 512, BLOCK_BYTES = 4096, FOLDER_NAME_BYTES = 17, PARTIAL_NAME_BYTES = 48 };

struct table_entry {
    uint64_t dataset; /* 0: the entry is free */
    uint64_t bytes;   /* reserved or written, in whole blocks */
    uint64_t used_ns; /* when the dataset was last opened, since 1970 */
};

struct table {
    uint64_t magic;
    uint64_t boot; /* hash of the boot that the sums are of */
    struct table_entry entries[TABLE_ENTRIES];
};
_Static_assert(sizeof(struct table) == 16 + 24 * TABLE_ENTRIES, "layout of the table's file");

enum warning { WARNING_CORRUPT, WARNING_UNWRITABLE, WARNING_COUNT };

struct disk_cache {
    char *path; /* owned, for messages */
    uint64_t dataset, limit_bytes;
    int dir_fd, partial_fd;
    int folder_fd; /* of the dataset */
    int table_fd;  /* locked for each change */
    int users_fd;  /* `lock` of the cache: locked (shared) by every process that has it open */
    int in_use_fd; /* `lock` of the dataset: locked (shared) by every process that uses it */
    pthread_mutex_t table_mutex;
    struct table table; /* as last read under the mutex and the file's lock */

    _Atomic bool unwritable;        /* the disk failed or is full: nothing more is written */
    _Atomic uint64_t full_until_ns; /* nothing could be removed: not tried again before */
    _Atomic uint64_t used_bytes, hit_count, written_count, unwritten_count, corrupt_count,
        removed_count;
    pthread_mutex_t warning_mutex;
    struct error warnings[WARNING_COUNT];
    bool warned[WARNING_COUNT], told[WARNING_COUNT];
};

/* What a file of `size` bytes takes of the limit. */
static inline uint64_t block_bytes(uint64_t size)
{
    return (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

void folder_name(uint64_t dataset, char ret_name[FOLDER_NAME_BYTES]);

/* True for what folder_name() makes. */
bool folder_parse(const char *name, uint64_t *ret_dataset);

/* A name in partial/ that no other writer will choose, on any node or in any container. */
MUST_USE bool partial_name(const struct disk_cache *cache, char ret_name[PARTIAL_NAME_BYTES]);

/* Keeps `what` for disk_cache_take_warning(), the first of its kind; the path is put in front. */
void disk_cache_warn(struct disk_cache *cache, enum warning kind, const struct error *what);

/* flock() that waits no longer than `timeout_ms`; errno EWOULDBLOCK then. */
bool lock_file(int fd, int operation, uint32_t timeout_ms);

/* Opens the table, making one or adding everything up if there is none that can be trusted, and
 * leaves it locked. */
MUST_USE enum status table_open(struct disk_cache *cache, struct error *err);

/* Locks and reads the table: false when others hold it for too long, or it cannot be read. */
MUST_USE bool table_lock(struct disk_cache *cache);
void table_unlock(struct disk_cache *cache);

/* Under the lock. table_write() makes the entry in memory the file's. */
uint64_t table_sum(const struct disk_cache *cache);
struct table_entry *table_find(struct disk_cache *cache, uint64_t dataset);
bool table_write(struct disk_cache *cache, const struct table_entry *entry);
void table_give_back(struct disk_cache *cache, uint64_t dataset, uint64_t bytes);

/* Under the table's lock: removes what dead writers left in partial/; all of it if `alone`, else
 * what is an hour old. */
void clean_partial(struct disk_cache *cache, bool alone);

/* Under the table's lock: removes values of datasets that no process uses, longest unused first,
 * until `bytes` more fit; false if they do not fit in the end. */
bool clean_unused(struct disk_cache *cache, uint64_t bytes);

/* Sum of what the files of a dataset's folder take. */
uint64_t folder_sum(const struct disk_cache *cache, const char *name);

#endif
