/* See disk_cache.h: the files of a disk cache's values.
 *
 * A value's file is written under a name in partial/, then renamed, unless a file has the new name
 * already (RENAME_NOREPLACE). So the disk holds what the table has reserved, however many processes
 * write the same value at once. Readers take no lock: a file that they open is complete, or its
 * hash shows that the file is not.
 *
 *     | magic | dataset | name 16 | bytes | hash of the bytes 16 | hash of the header | bytes ...
 */
#include "store/cache/disk_cache_internal.h"

#include "store/kind/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

static const uint64_t value_magic = 0x316c617664636b70; /* "pkcdval1" */

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

bool partial_name(const struct disk_cache *cache, char ret_name[PARTIAL_NAME_BYTES])
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(ret_name, PARTIAL_NAME_BYTES, "%016" PRIx64 "-%016" PRIx64, cache->dataset, random);
    return true;
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
                    "a damaged value was found, and the chunk is read from the dataset (%s)", name);
    disk_cache_warn(cache, WARNING_CORRUPT, &what);
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
    store_may_wait();
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

bool disk_cache_has(struct disk_cache *cache, const char *key)
{
    store_may_wait();
    struct value_name name = name_of(XXH3_128bits(key, strlen(key)));
    return faccessat(cache->folder_fd, name.text, R_OK, 0) == 0;
}

/* Writing
 * ------------------------------------------------------------------------------------------ */

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

/* Gives a value its name, making the folder if it is the first there; errno EEXIST if the value is
 * there. */
static bool rename_value(struct disk_cache *cache, const char *partial, const char *name)
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
    char partial[PARTIAL_NAME_BYTES];
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
    if (written && rename_value(cache, partial, name))
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
    (void)error_set_errno(&what, STATUS_IO, "nothing more is written to it, and the run goes on");
    cache->unwritable = true;
    disk_cache_warn(cache, WARNING_UNWRITABLE, &what);
}

void disk_cache_put(struct disk_cache *cache, const char *key, const void *data, size_t size)
{
    store_may_wait();
    XXH128_hash_t hash = XXH3_128bits(key, strlen(key));
    struct value_header header = {.magic = value_magic,
                                  .dataset = cache->dataset,
                                  .name = hash,
                                  .bytes = size,
                                  .hash = XXH3_128bits(data, size)};
    struct value_name name = name_of(hash);
    uint64_t bytes = block_bytes(sizeof header + size);
    header.check = check_of(&header);
    if (cache->unwritable || !room_take(cache, bytes)) {
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
    room_put_back(cache, bytes);
    if (cache->unwritable)
        room_leave(cache);
}
