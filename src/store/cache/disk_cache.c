/* See disk_cache.h and disk_cache_internal.h: opening a disk cache, its counts and warnings. */
#include "store/cache/disk_cache_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, USERS_TIMEOUT_MS = 10000 };

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Opening
 * ------------------------------------------------------------------------------------------ */

static enum status check_owner(int fd, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat");
    if (info.st_uid != geteuid())
        return error_set(err, STATUS_REFUSED,
                         "it belongs to user %ju, this process runs as %ju; choose a directory of "
                         "your own",
                         (uintmax_t)info.st_uid, (uintmax_t)geteuid());
    if (info.st_mode & 022)
        return error_set(err, STATUS_REFUSED,
                         "others may write to it (mode %04o); chmod 700 it, or choose a new one",
                         (unsigned)(info.st_mode & 07777));
    return STATUS_OK;
}

/* The folder `name` of `parent`, made if it is not there; ours, and not a symbolic link. */
static enum status open_own_folder(int parent, const char *name, int *ret_fd, struct error *err)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return error_set_errno(err, STATUS_IO, "create it");
    int fd = openat(parent, name, OPEN_FOLDER);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return error_set(err, STATUS_REFUSED,
                         "it is not a directory or is a symbolic link; give the directory itself");
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "open it");
    enum status status = check_owner(fd, err);
    if (status != STATUS_OK) {
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return STATUS_OK;
}

static enum status open_lock(int folder, int *ret_fd, struct error *err)
{
    *ret_fd = openat(folder, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*ret_fd < 0)
        return error_set_errno(err, STATUS_IO, "open 'lock'");
    return STATUS_OK;
}

/* Joins the processes that have the cache open, and tidies up if there are no others. */
static enum status join_users(struct disk_cache *cache, struct error *err)
{
    enum status status = open_lock(cache->dir_fd, &cache->users_fd, err);
    if (status != STATUS_OK)
        return status;
    bool alone = flock(cache->users_fd, LOCK_EX | LOCK_NB) == 0;
    clean_partial(cache, alone);
    if (!lock_file(cache->users_fd, LOCK_SH, USERS_TIMEOUT_MS))
        return error_set_errno(err, STATUS_IO, "lock 'lock'");
    return STATUS_OK;
}

/* Time of day, which processes compare across runs. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Opens the dataset's folder, locks it against removal, and gives it an entry of the table. */
static enum status join_dataset(struct disk_cache *cache, struct error *err)
{
    char name[FOLDER_NAME_BYTES];
    folder_name(cache->dataset, name);
    enum status status = open_own_folder(cache->dir_fd, name, &cache->folder_fd, err);
    if (status == STATUS_OK)
        status = open_lock(cache->folder_fd, &cache->in_use_fd, err);
    bool alone = status == STATUS_OK && flock(cache->in_use_fd, LOCK_EX | LOCK_NB) == 0;
    if (status == STATUS_OK && !lock_file(cache->in_use_fd, LOCK_SH, USERS_TIMEOUT_MS))
        status = error_set_errno(err, STATUS_IO, "lock 'lock'");
    if (status != STATUS_OK)
        return error_prefix(err, status, "folder '%s': ", name);
    struct table_entry *entry = table_find(cache, cache->dataset);
    if (!entry)
        entry = table_find(cache, 0);
    if (!entry)
        return error_set(err, STATUS_REFUSED,
                         "it holds %d datasets, and no more fit: remove folders of datasets that "
                         "are not needed",
                         TABLE_ENTRIES);
    entry->dataset = cache->dataset;
    entry->used_ns = now_ns();
    if (alone && room_may_be_lost(cache, entry))
        room_recount(cache, entry);
    cache->used_bytes = table_sum(cache);
    if (!table_write(cache, entry))
        return error_set_errno(err, STATUS_IO, "write 'table'");
    return STATUS_OK;
}

static enum status settle_limit(struct disk_cache *cache, uint64_t limit_bytes, struct error *err)
{
    struct statvfs info;
    uint64_t used = table_sum(cache);
    if (limit_bytes == 0) {
        if (fstatvfs(cache->dir_fd, &info) < 0)
            return error_set_errno(err, STATUS_IO, "find out how much is free");
        limit_bytes = used + (uint64_t)info.f_bavail * info.f_frsize / 10 * 9;
    }
    cache->limit_bytes = limit_bytes;
    return STATUS_OK;
}

/* Whether files can be made and renamed as put() does. */
static enum status try_writing(const struct disk_cache *cache, struct error *err)
{
    char from[PARTIAL_NAME_BYTES], to[PARTIAL_NAME_BYTES];
    if (!partial_name(cache, from) || !partial_name(cache, to))
        return error_set_errno(err, STATUS_IO, "name a file");
    int fd = openat(cache->partial_fd, from, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "write to it");
    close(fd);
    if (renameat2(cache->partial_fd, from, cache->partial_fd, to, RENAME_NOREPLACE) < 0) {
        enum status status = error_set_errno(
            err, STATUS_IO, "rename a file in it (give a directory on a disk of this node)");
        unlinkat(cache->partial_fd, from, 0);
        return status;
    }
    unlinkat(cache->partial_fd, to, 0);
    return STATUS_OK;
}

static enum status open_all(struct disk_cache *cache, uint64_t limit_bytes, struct error *err)
{
    enum status status = open_own_folder(AT_FDCWD, cache->path, &cache->dir_fd, err);
    if (status == STATUS_OK)
        status = open_own_folder(cache->dir_fd, "partial", &cache->partial_fd, err);
    if (status == STATUS_OK)
        status = table_open(cache, err);
    if (status != STATUS_OK)
        return status;
    status = join_users(cache, err);
    if (status == STATUS_OK)
        status = try_writing(cache, err);
    if (status == STATUS_OK)
        status = settle_limit(cache, limit_bytes, err);
    if (status == STATUS_OK)
        status = join_dataset(cache, err);
    table_unlock(cache);
    return status;
}

/* Without slashes at the end: they would have a symbolic link followed. */
static char *copy_path(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return strndup(path, length);
}

enum status disk_cache_open(const struct disk_cache_options *options, struct disk_cache **ret_cache,
                            struct error *err)
{
    struct disk_cache *cache = calloc(1, sizeof *cache);
    if (cache)
        cache->path = copy_path(options->path);
    if (!cache || !cache->path) {
        free(cache);
        return error_set(err, STATUS_NO_MEMORY, "disk cache '%s': out of memory", options->path);
    }
    cache->dataset = options->dataset ? options->dataset : 1; /* 0 marks free entries */
    cache->dir_fd = cache->partial_fd = cache->folder_fd = -1;
    cache->table_fd = cache->users_fd = cache->in_use_fd = -1;
    pthread_mutex_init(&cache->table_mutex, NULL);
    pthread_mutex_init(&cache->warning_mutex, NULL);
    enum status status = open_all(cache, options->limit_bytes, err);
    if (status != STATUS_OK) {
        error_prefix(err, status, "disk cache '%s': ", cache->path);
        disk_cache_free(cache);
        return status;
    }
    *ret_cache = cache;
    return STATUS_OK;
}

void disk_cache_free(struct disk_cache *cache)
{
    if (!cache)
        return;
    room_leave(cache);
    close_fd(cache->in_use_fd);
    close_fd(cache->users_fd);
    close_fd(cache->table_fd);
    close_fd(cache->folder_fd);
    close_fd(cache->partial_fd);
    close_fd(cache->dir_fd);
    pthread_mutex_destroy(&cache->warning_mutex);
    pthread_mutex_destroy(&cache->table_mutex);
    free(cache->path);
    free(cache);
}

/* Telling
 * ------------------------------------------------------------------------------------------ */

void disk_cache_warn(struct disk_cache *cache, enum warning kind, const struct error *what)
{
    pthread_mutex_lock(&cache->warning_mutex);
    if (!cache->warned[kind]) {
        cache->warned[kind] = true;
        cache->warnings[kind] = *what;
        error_prefix(&cache->warnings[kind], (enum status)what->status,
                     "disk cache '%s': ", cache->path);
    }
    pthread_mutex_unlock(&cache->warning_mutex);
}

void disk_cache_stats(struct disk_cache *cache, struct disk_cache_stats *ret_stats)
{
    uint64_t used = cache->used_bytes, ahead = cache->ahead_bytes;
    *ret_stats = (struct disk_cache_stats){.limit_bytes = cache->limit_bytes,
                                           .used_bytes = used > ahead ? used - ahead : 0,
                                           .hit_count = cache->hit_count,
                                           .written_count = cache->written_count,
                                           .unwritten_count = cache->unwritten_count,
                                           .corrupt_count = cache->corrupt_count,
                                           .removed_count = cache->removed_count};
}

bool disk_cache_take_warning(struct disk_cache *cache, struct error *ret_warning)
{
    bool found = false;
    pthread_mutex_lock(&cache->warning_mutex);
    for (int kind = 0; kind < WARNING_COUNT && !found; kind++) {
        found = cache->warned[kind] && !cache->told[kind];
        if (found) {
            cache->told[kind] = true;
            *ret_warning = cache->warnings[kind];
        }
    }
    pthread_mutex_unlock(&cache->warning_mutex);
    return found;
}
