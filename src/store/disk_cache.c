/* A disk cache: opening it, reading and writing values. See disk_cache.h and
 * disk_cache_internal.h.
 *
 * A value's file is written once under a name in partial/ and renamed into place if nothing is
 * there yet (RENAME_NOREPLACE), so that what is reserved in the table is what lies on the disk,
 * however many write the same value at once. Readers take no lock: what they open is complete, or
 * the hash says otherwise.
 *
 *     | magic 8 | dataset 8 | name 16 | bytes 8 | hash of the bytes 16 | hash of the header 8 |
 * bytes |
 */
#include "store/disk_cache_internal.h"

#include "base/clock.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, USERS_TIMEOUT_MS = 10000 };

static const uint64_t value_magic = 0x316c617664636b70; /* "pkcdval1" */
static const uint64_t full_pause_ns = 10000000000;      /* before room is looked for again */

struct value_header {
    uint64_t magic, dataset;
    XXH128_hash_t name; /* of the key */
    uint64_t bytes;
    XXH128_hash_t hash; /* of the bytes */
    uint64_t check;     /* of what stands before */
};
_Static_assert(sizeof(struct value_header) == 64, "layout of a value's file");

/* "ab/cdef...": where a value stands in its dataset's folder. */
struct value_name {
    char text[34];
};

static struct value_name name_of(XXH128_hash_t hash)
{
    struct value_name name;
    snprintf(name.text, sizeof name.text, "%02x/%014" PRIx64 "%016" PRIx64,
             (unsigned)(hash.high64 >> 56), hash.high64 & UINT64_MAX >> 8, hash.low64);
    return name;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* What went wrong, once for each kind; the message lacks the cache's path. */
static void warn(struct disk_cache *cache, enum warning kind, const struct error *what)
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
    if (status) {
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
    if (status)
        return status;
    bool alone = flock(cache->users_fd, LOCK_EX | LOCK_NB) == 0;
    clean_partial(cache, alone);
    if (!lock_file(cache->users_fd, LOCK_SH, USERS_TIMEOUT_MS))
        return error_set_errno(err, STATUS_IO, "lock 'lock'");
    return STATUS_OK;
}

/* Opens the dataset's folder, locks it against removal, and gives it a slot. */
static enum status join_dataset(struct disk_cache *cache, struct error *err)
{
    char name[FOLDER_NAME_BYTES];
    folder_name(cache->dataset, name);
    enum status status = open_own_folder(cache->dir_fd, name, &cache->folder_fd, err);
    if (!status)
        status = open_lock(cache->folder_fd, &cache->in_use_fd, err);
    if (!status && !lock_file(cache->in_use_fd, LOCK_SH, USERS_TIMEOUT_MS))
        status = error_set_errno(err, STATUS_IO, "lock 'lock'");
    if (status)
        return error_prefix(err, status, "folder '%s': ", name);
    struct table_slot *slot = table_find(cache, cache->dataset);
    if (!slot)
        slot = table_find(cache, 0);
    if (!slot)
        return error_set(err, STATUS_REFUSED,
                         "it holds %d datasets; remove folders of such as are not needed",
                         TABLE_SLOTS);
    slot->dataset = cache->dataset;
    slot->used_s = (uint64_t)time(NULL);
    if (!table_write(cache, slot))
        return error_set_errno(err, STATUS_IO, "write 'table'");
    cache->slot = (uint32_t)(slot - cache->table.slots);
    return STATUS_OK;
}

static enum status settle_limit(struct disk_cache *cache, uint64_t limit_bytes, struct error *err)
{
    struct statvfs info;
    uint64_t used = table_sum(cache);
    cache->used_bytes = used;
    if (limit_bytes == 0) {
        if (fstatvfs(cache->dir_fd, &info) < 0)
            return error_set_errno(err, STATUS_IO, "find out how much is free");
        limit_bytes = used + (uint64_t)info.f_bavail * info.f_frsize / 10 * 9;
    }
    cache->limit_bytes = limit_bytes;
    return STATUS_OK;
}

/* A name in partial/ that no other writer will choose, on any node or in any container. */
static bool partial_name(const struct disk_cache *cache, char ret_name[48])
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(ret_name, 48, "%016" PRIx64 "-%016" PRIx64, cache->dataset, random);
    return true;
}

/* Whether files can be made and renamed as put() does. */
static enum status try_writing(const struct disk_cache *cache, struct error *err)
{
    char from[48], to[48];
    if (!partial_name(cache, from) || !partial_name(cache, to))
        return error_set_errno(err, STATUS_IO, "name a file");
    int fd = openat(cache->partial_fd, from, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "write to it");
    close(fd);
    if (renameat2(cache->partial_fd, from, cache->partial_fd, to, RENAME_NOREPLACE) < 0) {
        enum status status = error_set_errno(
            err, STATUS_IO, "rename a file in it (a disk of this node has to be given)");
        unlinkat(cache->partial_fd, from, 0);
        return status;
    }
    unlinkat(cache->partial_fd, to, 0);
    return STATUS_OK;
}

static enum status open_all(struct disk_cache *cache, uint64_t limit_bytes, struct error *err)
{
    enum status status = open_own_folder(AT_FDCWD, cache->path, &cache->dir_fd, err);
    if (!status)
        status = open_own_folder(cache->dir_fd, "partial", &cache->partial_fd, err);
    if (!status)
        status = try_writing(cache, err);
    if (!status)
        status = table_open(cache, err);
    if (status)
        return status;
    status = join_users(cache, err);
    if (!status)
        status = join_dataset(cache, err);
    if (!status)
        status = settle_limit(cache, limit_bytes, err);
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
    cache->dataset = options->dataset ? options->dataset : 1; /* 0 marks free slots */
    cache->dir_fd = cache->partial_fd = cache->folder_fd = -1;
    cache->table_fd = cache->users_fd = cache->in_use_fd = -1;
    pthread_mutex_init(&cache->table_mutex, NULL);
    pthread_mutex_init(&cache->warning_mutex, NULL);
    enum status status = open_all(cache, options->limit_bytes, err);
    if (status) {
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

/* Reading
 * ------------------------------------------------------------------------------------------ */

static uint64_t check_of(const struct value_header *header)
{
    return XXH3_64bits(header, offsetof(struct value_header, check));
}

static bool header_is_right(const struct disk_cache *cache, const struct value_header *header,
                            XXH128_hash_t name)
{
    return header->magic == value_magic && header->check == check_of(header) &&
           header->dataset == cache->dataset && XXH128_isEqual(header->name, name);
}

/* Up to `size` bytes at `offset`; less only at the end of the file or where the disk fails. */
static size_t read_range(int fd, void *buffer, size_t size, off_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)buffer + done, size - done, offset + (off_t)done);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return done;
}

enum verdict { VALUE_GOOD, VALUE_DAMAGED, VALUE_TOO_LONG };

/* Header and bytes by one call, where the kernel gives them at once. */
static enum verdict read_value(const struct disk_cache *cache, int fd, XXH128_hash_t name,
                               void *buffer, size_t capacity, size_t *ret_size)
{
    struct value_header header;
    char more;
    struct iovec parts[3] = {{&header, sizeof header}, {buffer, capacity}, {&more, 1}};
    ssize_t got;
    do
        got = preadv(fd, parts, 3, 0);
    while (got < 0 && errno == EINTR);
    if (got < (ssize_t)sizeof header || !header_is_right(cache, &header, name))
        return VALUE_DAMAGED;
    if (header.bytes > capacity)
        return VALUE_TOO_LONG;
    size_t size = (size_t)got - sizeof header;
    if (size < header.bytes)
        size += read_range(fd, (char *)buffer + size, header.bytes - size, got);
    if (size != header.bytes || !XXH128_isEqual(XXH3_128bits(buffer, size), header.hash))
        return VALUE_DAMAGED;
    *ret_size = size;
    return VALUE_GOOD;
}

/* Removes a damaged file, unless another one stands there by now. */
static void remove_damaged(struct disk_cache *cache, int fd, const char *name)
{
    struct stat ours, theirs;
    struct error what;
    cache->corrupt_count++;
    (void)error_set(&what, STATUS_CORRUPT,
                    "a damaged value was found and read again from the dataset (%s)", name);
    warn(cache, WARNING_CORRUPT, &what);
    if (fstat(fd, &ours) < 0 || fstatat(cache->folder_fd, name, &theirs, AT_SYMLINK_NOFOLLOW) < 0 ||
        ours.st_ino != theirs.st_ino || !table_lock(cache))
        return;
    if (unlinkat(cache->folder_fd, name, 0) == 0)
        table_give_back(cache, cache->dataset, block_bytes((uint64_t)ours.st_size));
    table_unlock(cache);
}

bool disk_cache_get(struct disk_cache *cache, const char *key, void *buffer, size_t capacity,
                    size_t *ret_size)
{
    XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    struct value_name name = name_of(hash);
    int fd = openat(cache->folder_fd, name.text, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    enum verdict verdict = read_value(cache, fd, hash, buffer, capacity, ret_size);
    if (verdict == VALUE_DAMAGED)
        remove_damaged(cache, fd, name.text);
    close(fd);
    if (verdict != VALUE_GOOD)
        return false;
    cache->hit_count++;
    return true;
}

/* Writing
 * ------------------------------------------------------------------------------------------ */

/* Reserves room in the table, removing what nobody uses if that makes some. */
static bool reserve(struct disk_cache *cache, uint64_t bytes)
{
    if (clock_now_ns() < cache->full_until_ns || !table_lock(cache))
        return false;
    struct table_slot *slot = &cache->table.slots[cache->slot];
    bool ours = slot->dataset == cache->dataset; /* or the table was damaged and made anew */
    bool room = ours && clean_unused(cache, bytes);
    if (room) {
        slot->bytes += bytes;
        room = table_write(cache, slot);
    } else if (ours && bytes <= cache->limit_bytes) {
        cache->full_until_ns = clock_now_ns() + full_pause_ns;
    }
    cache->used_bytes = table_sum(cache);
    table_unlock(cache);
    return room;
}

static void give_back(struct disk_cache *cache, uint64_t bytes)
{
    if (!table_lock(cache))
        return;
    table_give_back(cache, cache->dataset, bytes);
    table_unlock(cache);
}

static bool write_range(int fd, const void *data, size_t size, off_t offset)
{
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(fd, (const char *)data + done, size - done, offset + (off_t)done);
        if (put == 0)
            errno = ENOSPC;
        if (put == 0 || (put < 0 && errno != EINTR))
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}

static bool write_parts(int fd, const struct value_header *header, const void *data)
{
    off_t size = (off_t)(sizeof *header + header->bytes);
    /* All of it at once, so that what a writer that dies leaves has the size that it reserved. */
    if (fallocate(fd, 0, 0, size) < 0 && errno != EOPNOTSUPP)
        return false;
    return write_range(fd, header, sizeof *header, 0) &&
           write_range(fd, data, header->bytes, sizeof *header);
}

/* Into place, making the folder if it is the first there; errno EEXIST if the value is there. */
static bool move_into_place(struct disk_cache *cache, const char *partial, const char *name)
{
    char folder[3] = {name[0], name[1], '\0'};
    for (int tries = 0; tries < 2; tries++) {
        if (renameat2(cache->partial_fd, partial, cache->folder_fd, name, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != ENOENT || (mkdirat(cache->folder_fd, folder, 0700) < 0 && errno != EEXIST))
            return false;
    }
    return false;
}

/* Writes a value's file; errno EEXIST if there is one. Leaves nothing behind on failure. */
static bool write_value(struct disk_cache *cache, const char *name,
                        const struct value_header *header, const void *data)
{
    char partial[48];
    if (!partial_name(cache, partial))
        return false;
    int fd = openat(cache->partial_fd, partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool written = write_parts(fd, header, data);
    int number = errno;
    if (close(fd) < 0 && written) {
        written = false;
        number = errno;
    }
    if (written && move_into_place(cache, partial, name))
        return true;
    if (written)
        number = errno;
    unlinkat(cache->partial_fd, partial, 0);
    errno = number;
    return false;
}

static void stop_writing(struct disk_cache *cache)
{
    struct error what;
    (void)error_set_errno(&what, STATUS_IO, "nothing more is written to it, the run goes on");
    cache->unwritable = true;
    warn(cache, WARNING_UNWRITABLE, &what);
}

void disk_cache_put(struct disk_cache *cache, const char *key, const void *data, size_t size)
{
    XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    struct value_header header = {.magic = value_magic,
                                  .dataset = cache->dataset,
                                  .name = hash,
                                  .bytes = size,
                                  .hash = XXH3_128bits(data, size)};
    struct value_name name = name_of(hash);
    uint64_t bytes = block_bytes(sizeof header + size);
    header.check = check_of(&header);
    if (cache->unwritable || !reserve(cache, bytes)) {
        cache->unwritten_count++;
        return;
    }
    if (write_value(cache, name.text, &header, data)) {
        cache->written_count++;
        return;
    }
    bool already_there = errno == EEXIST;
    if (!already_there) {
        stop_writing(cache);
        cache->unwritten_count++;
    }
    give_back(cache, bytes);
}

/* Telling
 * ------------------------------------------------------------------------------------------ */

void disk_cache_stats(struct disk_cache *cache, struct disk_cache_stats *ret_stats)
{
    *ret_stats = (struct disk_cache_stats){.limit_bytes = cache->limit_bytes,
                                           .used_bytes = cache->used_bytes,
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
