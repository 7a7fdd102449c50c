/* For tests of the disk cache: a cache in a temporary folder, values whose bytes follow from their
 * keys, and what lies on the disk. */
#ifndef PENSTOCK_TESTS_DISK_CACHE_SUPPORT_H
#define PENSTOCK_TESTS_DISK_CACHE_SUPPORT_H

#include "store/cache/disk_cache.h"

#include "base/random.h"
#include "store/cache/disk_cache_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEADER_BYTES = 64, BIG_BYTES = 200000, PLENTY = 1 << 30 };

struct fixture {
    char root[64]; /* holds the cache and what else a test makes */
    char path[80];
};

static inline int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    strcpy(fixture->root, "/tmp/penstock-cache-XXXXXX");
    assert_non_null(mkdtemp(fixture->root));
    snprintf(fixture->path, sizeof fixture->path, "%s/cache", fixture->root);
    *state = fixture;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;
    remove_tree(fixture->root);
    free(fixture);
    return 0;
}

/* NULL if it fails: for forked processes. */
static inline struct disk_cache *try_open(const struct fixture *fixture, uint64_t dataset,
                                          uint64_t limit_bytes)
{
    struct disk_cache_options options = {fixture->path, limit_bytes, dataset};
    struct disk_cache *cache = NULL;
    return disk_cache_open(&options, &cache, NULL) == STATUS_OK ? cache : NULL;
}

static inline struct disk_cache *open_cache(const struct fixture *fixture, uint64_t dataset,
                                            uint64_t limit_bytes)
{
    struct disk_cache_options options = {fixture->path, limit_bytes, dataset};
    struct disk_cache *cache = NULL;
    struct error err;
    if (disk_cache_open(&options, &cache, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    return cache;
}

static inline void refuse(const char *path, enum status expected, const char *why)
{
    struct disk_cache_options options = {path, PLENTY, 1};
    struct disk_cache *cache = NULL;
    struct error err;
    assert_int_equal(disk_cache_open(&options, &cache, &err), expected);
    if (!strstr(err.message, why) || !strstr(err.message, path))
        fail_msg("'%s' and '%s' are not both in: %s", path, why, err.message);
    assert_null(cache);
}

static inline struct disk_cache_stats stats_of(struct disk_cache *cache)
{
    struct disk_cache_stats stats;
    disk_cache_stats(cache, &stats);
    return stats;
}

/* The value of key number `key`: its size and bytes follow of it. */
static inline size_t fill_value(uint64_t key, size_t size, unsigned char *bytes)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(key * 31 + i * (key % 7 + 1) + (i >> 8));
    return size;
}

static inline void put_value(struct disk_cache *cache, uint64_t key, size_t size)
{
    static _Thread_local unsigned char bytes[BIG_BYTES];
    char name[32];
    snprintf(name, sizeof name, "a/c/%llu", (unsigned long long)key);
    disk_cache_put(cache, name, bytes, fill_value(key, size, bytes));
}

/* Whether the value is there; it must be right then. */
static inline bool get_value(struct disk_cache *cache, uint64_t key, size_t size)
{
    static _Thread_local unsigned char expected[BIG_BYTES], bytes[BIG_BYTES];
    char name[32];
    size_t got = SIZE_MAX;
    snprintf(name, sizeof name, "a/c/%llu", (unsigned long long)key);
    if (!disk_cache_get(cache, name, bytes, sizeof bytes, &got))
        return false;
    if (got != size || memcmp(bytes, expected, fill_value(key, size, expected)) != 0)
        abort(); /* also in forked processes and threads, where cmocka is not */
    return true;
}

/* What lies on the disk: bytes in blocks, and files. */
static uint64_t disk_bytes, disk_values, disk_partial;

static inline int add_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    const char *name = path + walk->base;
    bool partial = strstr(path, "/partial/") != NULL;
    if (type != FTW_F || strcmp(name, "lock") == 0 || strcmp(name, "table") == 0)
        return 0;
    disk_bytes += block_bytes((uint64_t)info->st_size);
    disk_partial += partial;
    disk_values += !partial;
    return 0;
}

static inline void look_below(const char *path)
{
    disk_bytes = disk_values = disk_partial = 0;
    nftw(path, add_one, 16, FTW_PHYS);
}

static inline void look_at_disk(const struct fixture *fixture)
{
    look_below(fixture->path);
}

/* The path of the n-th value's file. */
static char found_path[256];
static uint64_t files_to_skip;

static inline int find_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    const char *name = path + walk->base;
    (void)info;
    if (type != FTW_F || strcmp(name, "lock") == 0 || strcmp(name, "table") == 0)
        return 0;
    if (files_to_skip-- > 0)
        return 0;
    snprintf(found_path, sizeof found_path, "%s", path);
    return 1;
}

static inline const char *value_path(const struct fixture *fixture, uint64_t n)
{
    files_to_skip = n;
    assert_int_equal(nftw(fixture->path, find_one, 16, FTW_PHYS), 1);
    return found_path;
}

/* Waits for a child, which must have ended as expected. */
static inline void reap(pid_t child, bool killed)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (killed)
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    else
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
