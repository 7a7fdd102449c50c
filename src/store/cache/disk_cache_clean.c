/* See disk_cache_internal.h: removing from a disk cache. Everything is reached by descriptors and
 * without following symbolic links, so that nothing outside the cache can be removed. */
#include "store/cache/disk_cache_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, STALE_S = 3600 };

/* Calls visit(fd of the folder, name, argument) for each entry until it returns false; returns
 * false if it did. */
typedef bool visit_name(int fd, const char *name, void *argument);
static bool each_entry(int parent, const char *name, visit_name *visit, void *argument)
{
    int fd = openat(parent, name, OPEN_FOLDER);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    bool more = true;
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return true;
    }
    for (const struct dirent *entry; more && (entry = readdir(folder));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            more = visit(fd, entry->d_name, argument);
    closedir(folder);
    return more;
}

/* Adding up
 * ------------------------------------------------------------------------------------------ */

static bool add_file(int fd, const char *name, void *argument)
{
    struct stat info;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode))
        *(uint64_t *)argument += block_bytes((uint64_t)info.st_size);
    return true;
}

static bool add_files(int fd, const char *name, void *argument)
{
    return each_entry(fd, name, add_file, argument);
}

uint64_t folder_sum(const struct disk_cache *cache, const char *name)
{
    uint64_t sum = 0;
    each_entry(cache->dir_fd, name, add_files, &sum);
    return sum;
}

/* What writers left behind
 * ------------------------------------------------------------------------------------------ */

struct partial_clean {
    struct disk_cache *cache;
    bool alone;
    uint64_t unused; /* no process uses this dataset; 0: none */
};

static bool is_dead(const struct partial_clean *clean, uint64_t dataset, const struct stat *info)
{
    return clean->alone || (dataset != 0 && dataset == clean->unused) ||
           info->st_mtime + STALE_S <= time(NULL);
}

static bool remove_partial(int fd, const char *name, void *argument)
{
    const struct partial_clean *clean = argument;
    char folder[FOLDER_NAME_BYTES] = "";
    uint64_t dataset = 0;
    struct stat info;
    strncpy(folder, name, sizeof folder - 1);
    bool is_value = folder_parse(folder, &dataset);
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && is_dead(clean, dataset, &info) &&
        unlinkat(fd, name, 0) == 0 && is_value)
        table_give_back(clean->cache, dataset, block_bytes((uint64_t)info.st_size));
    return true;
}

void clean_partial(struct disk_cache *cache, bool alone)
{
    struct partial_clean clean = {cache, alone, 0};
    each_entry(cache->dir_fd, "partial", remove_partial, &clean);
}

void clean_partial_of(struct disk_cache *cache, uint64_t dataset)
{
    struct partial_clean clean = {cache, false, dataset};
    each_entry(cache->dir_fd, "partial", remove_partial, &clean);
}

/* Datasets that nobody uses
 * ------------------------------------------------------------------------------------------ */

struct removal {
    uint64_t wanted, removed; /* bytes */
    uint64_t count;
};

static bool remove_value(int fd, const char *name, void *argument)
{
    struct removal *removal = argument;
    struct stat info;
    if (fstatat(fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && unlinkat(fd, name, 0) == 0) {
        removal->removed += block_bytes((uint64_t)info.st_size);
        removal->count++;
    }
    return removal->removed < removal->wanted;
}

static bool remove_values(int fd, const char *name, void *argument)
{
    bool more = each_entry(fd, name, remove_value, argument);
    if (more)
        unlinkat(fd, name, AT_REMOVEDIR); /* it is empty: not to be looked at again */
    return more;
}

/* What has to be removed so that `bytes` more fit. */
static uint64_t excess(const struct disk_cache *cache, uint64_t bytes)
{
    uint64_t used = table_sum(cache), most = cache->limit_bytes - bytes;
    return used > most ? used - most : 0;
}

/* Removes values of the entry's dataset until `bytes` more fit, unless a process uses the dataset;
 * all values, and it is gone. */
static void remove_dataset(struct disk_cache *cache, struct table_entry *entry, uint64_t bytes)
{
    struct removal removal = {0};
    char name[FOLDER_NAME_BYTES];
    folder_name(entry->dataset, name);
    int folder = openat(cache->dir_fd, name, OPEN_FOLDER);
    int lock = folder < 0 ? -1 : openat(folder, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    bool unused = lock < 0 ? errno == ENOENT : flock(lock, LOCK_EX | LOCK_NB) == 0;
    if (unused && entry->writers > 0)
        room_recount(cache, entry);
    removal.wanted = excess(cache, bytes);
    if (unused && removal.wanted > 0) {
        bool all = each_entry(cache->dir_fd, name, remove_values, &removal);
        entry->bytes -= removal.removed < entry->bytes ? removal.removed : entry->bytes;
        cache->removed_count += removal.count;
        if (all && folder >= 0)
            unlinkat(folder, "lock", 0);
        if (all && (unlinkat(cache->dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT))
            *entry = (struct table_entry){0};
        table_write(cache, entry);
    }
    if (lock >= 0)
        close(lock);
    if (folder >= 0)
        close(folder);
}

static int longest_unused_first(const void *a, const void *b)
{
    const struct table_entry *x = *(struct table_entry *const *)a,
                             *y = *(struct table_entry *const *)b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

bool clean_unused(struct disk_cache *cache, uint64_t bytes)
{
    struct table_entry *others[TABLE_ENTRIES];
    uint32_t count = 0;
    if (bytes > cache->limit_bytes)
        return false;
    if (excess(cache, bytes) == 0)
        return true;
    for (uint32_t i = 0; i < TABLE_ENTRIES; i++) {
        struct table_entry *entry = &cache->table.entries[i];
        if (entry->dataset != 0 && entry->dataset != cache->dataset)
            others[count++] = entry;
    }
    qsort(others, count, sizeof(struct table_entry *), longest_unused_first);
    for (uint32_t i = 0; i < count && excess(cache, bytes) > 0; i++)
        remove_dataset(cache, others[i], bytes);
    return excess(cache, bytes) == 0;
}
