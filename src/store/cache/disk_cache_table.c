/* See disk_cache_internal.h: the table of a disk cache. */
#include "store/cache/disk_cache_internal.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { OPEN_TIMEOUT_MS = 60000, LOCK_TIMEOUT_MS = 1000, LOCK_SLEEP_NS = 100000 };

static const uint64_t table_magic = 0x3262617464636b70; /* "pkcdtab2" */

void folder_name(uint64_t dataset, char ret_name[FOLDER_NAME_BYTES])
{
    snprintf(ret_name, FOLDER_NAME_BYTES, "%016" PRIx64, dataset);
}

bool folder_parse(const char *name, uint64_t *ret_dataset)
{
    char again[FOLDER_NAME_BYTES];
    if (strlen(name) != FOLDER_NAME_BYTES - 1)
        return false;
    uint64_t dataset = strtoull(name, NULL, 16);
    folder_name(dataset, again);
    if (dataset == 0 || strcmp(name, again) != 0)
        return false;
    *ret_dataset = dataset;
    return true;
}

bool lock_file(int fd, int operation, uint32_t timeout_ms)
{
    uint64_t end_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
    while (flock(fd, operation | LOCK_NB) < 0) {
        if (errno != EINTR && errno != EWOULDBLOCK)
            return false;
        if (clock_now_ns() >= end_ns) {
            errno = EWOULDBLOCK;
            return false;
        }
        clock_sleep_ns(LOCK_SLEEP_NS);
    }
    return true;
}

/* Sums are trusted within the boot that they were made in: what a crash of the machine leaves of
 * files and of the table need not be of one time. */
static uint64_t this_boot(void)
{
    char id[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, id, sizeof id);
    if (fd >= 0)
        close(fd);
    return XXH3_64bits(id, got > 0 ? (size_t)got : 0);
}

static bool read_table(struct disk_cache *cache)
{
    return pread(cache->table_fd, &cache->table, sizeof cache->table, 0) ==
           (ssize_t)sizeof cache->table;
}

static void add_folder(struct disk_cache *cache, const char *name)
{
    uint64_t dataset;
    struct stat info;
    struct table_entry *entry = table_find(cache, 0);
    if (!entry || !folder_parse(name, &dataset) || fstatat(cache->dir_fd, name, &info, 0) < 0)
        return;
    *entry = (struct table_entry){dataset, folder_sum(cache, name),
                                  (uint64_t)info.st_mtime * 1000000000, 0};
}

/* Adds up everything there is. */
static bool make_table(struct disk_cache *cache)
{
    cache->table = (struct table){.magic = table_magic, .boot = this_boot()};
    int fd = openat(cache->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    for (const struct dirent *entry; (entry = readdir(folder));)
        add_folder(cache, entry->d_name);
    closedir(folder);
    return pwrite(cache->table_fd, &cache->table, sizeof cache->table, 0) ==
           (ssize_t)sizeof cache->table;
}

/* Entries of folders that were removed by hand are freed. */
static void forget_removed(struct disk_cache *cache)
{
    for (uint32_t i = 0; i < TABLE_ENTRIES; i++) {
        struct table_entry *entry = &cache->table.entries[i];
        char name[FOLDER_NAME_BYTES];
        folder_name(entry->dataset, name);
        if (entry->dataset == 0 || faccessat(cache->dir_fd, name, F_OK, 0) == 0)
            continue;
        *entry = (struct table_entry){0};
        table_write(cache, entry);
    }
}

enum status table_open(struct disk_cache *cache, struct error *err)
{
    cache->table_fd =
        openat(cache->dir_fd, "table", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (cache->table_fd < 0)
        return error_set_errno(err, STATUS_IO, "open 'table'");
    if (!lock_file(cache->table_fd, LOCK_EX, OPEN_TIMEOUT_MS))
        return error_set_errno(err, STATUS_IO, "lock 'table' (another process holds the lock)");
    pthread_mutex_lock(&cache->table_mutex);
    bool trusted =
        read_table(cache) && cache->table.magic == table_magic && cache->table.boot == this_boot();
    if (!trusted && !make_table(cache)) {
        enum status status = error_set_errno(err, STATUS_IO, "write 'table'");
        table_unlock(cache);
        return status;
    }
    forget_removed(cache);
    return STATUS_OK;
}

bool table_lock(struct disk_cache *cache)
{
    pthread_mutex_lock(&cache->table_mutex);
    if (!lock_file(cache->table_fd, LOCK_EX, LOCK_TIMEOUT_MS)) {
        pthread_mutex_unlock(&cache->table_mutex);
        return false;
    }
    if (!read_table(cache) || cache->table.magic != table_magic) {
        table_unlock(cache);
        return false;
    }
    return true;
}

void table_unlock(struct disk_cache *cache)
{
    flock(cache->table_fd, LOCK_UN);
    pthread_mutex_unlock(&cache->table_mutex);
}

uint64_t table_sum(const struct disk_cache *cache)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < TABLE_ENTRIES; i++)
        sum += cache->table.entries[i].bytes;
    return sum;
}

struct table_entry *table_find(struct disk_cache *cache, uint64_t dataset)
{
    for (uint32_t i = 0; i < TABLE_ENTRIES; i++)
        if (cache->table.entries[i].dataset == dataset)
            return &cache->table.entries[i];
    return NULL;
}

bool table_write(struct disk_cache *cache, const struct table_entry *entry)
{
    off_t offset = (const char *)entry - (const char *)&cache->table;
    return pwrite(cache->table_fd, entry, sizeof *entry, offset) == (ssize_t)sizeof *entry;
}

void table_give_back(struct disk_cache *cache, uint64_t dataset, uint64_t bytes)
{
    struct table_entry *entry = table_find(cache, dataset);
    if (!entry || dataset == 0)
        return;
    entry->bytes -= bytes < entry->bytes ? bytes : entry->bytes;
    table_write(cache, entry);
}
