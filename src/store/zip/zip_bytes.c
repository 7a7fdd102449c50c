/* The bytes of a zip archive: of a file by pread, of a value of a remote store by ranges, which
 * must be of the version that the archive had when it was opened. Any thread, after opening.
 */
#include "store/zip/zip_internal.h"

#include "base/number.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A large directory takes several requests. */
#define MOST_ASKED_BYTES ((size_t)8 << 20)

struct fetch zip_ask(const struct zip *zip, uint64_t offset, size_t size, void *buffer)
{
    return (struct fetch){.kind = FETCH_RANGE,
                          .key = zip->key,
                          .offset = offset,
                          .size = size,
                          .buffer = buffer,
                          .unchanged = zip->version};
}

enum status zip_judge(const struct zip *zip, const struct fetch *fetch, struct error *err)
{
    enum status status = fetch->status;
    if (status != STATUS_OK && err)
        *err = fetch->error;
    if (status == STATUS_NOT_FOUND)
        return error_prefix(err, STATUS_IO, "the archive is no longer there: ");
    if (status == STATUS_OK && fetch->total > 0 && fetch->total != zip->file_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "the archive '%s' was changed after it was opened: it has %" PRIu64
                         " bytes instead of %" PRIu64,
                         zip->path, fetch->total, zip->file_bytes);
    return status;
}

/* Reading
 * ---------------------------------------------------------------------------------------------- */

static enum status read_file(const struct zip *zip, uint64_t offset, void *buffer, size_t size,
                             struct error *err)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(zip->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (got == 0)
            return error_set(err, STATUS_CORRUPT, "'%s' ends at byte %" PRIu64 ": it was cut short",
                             zip->path, offset + done);
        if (got > 0)
            done += (size_t)got;
        else if (errno != EINTR)
            return error_set_errno(err, STATUS_IO, "read '%s' at byte %" PRIu64, zip->path,
                                   offset + done);
    }
    return STATUS_OK;
}

static enum status read_remote(const struct zip *zip, uint64_t begin,
                               const struct store_range *ranges, size_t count, struct error *err)
{
    struct fetch fetches[STORE_RANGES_AT_ONCE];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK;) {
        size_t used = 0;
        for (; i < count && used < STORE_RANGES_AT_ONCE; i++)
            if (ranges[i].size > 0)
                fetches[used++] =
                    zip_ask(zip, begin + ranges[i].offset, ranges[i].size, ranges[i].buffer);
        if (used > 0)
            fetch_wait(zip->base, fetches, used);
        for (size_t k = 0; k < used && status == STATUS_OK; k++)
            status = zip_judge(zip, &fetches[k], err);
    }
    return status;
}

enum status zip_read_ranges(const struct zip *zip, uint64_t begin, const struct store_range *ranges,
                            size_t count, struct error *err)
{
    enum status status = STATUS_OK;
    if (zip->base)
        return read_remote(zip, begin, ranges, count, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = read_file(zip, begin + ranges[i].offset, ranges[i].buffer, ranges[i].size, err);
    return status;
}

enum status zip_read_at(void *context, uint64_t offset, void *buffer, size_t size,
                        struct error *err)
{
    const struct zip *zip = context;
    uint64_t tail = zip->file_bytes - zip->tail_bytes;
    enum status status = STATUS_OK;
    if (zip->tail && offset >= tail && size <= zip->file_bytes - offset) {
        memcpy(buffer, zip->tail + (offset - tail), size);
        return STATUS_OK;
    }
    size_t most = zip->base ? MOST_ASKED_BYTES : size;
    for (size_t done = 0; done < size && status == STATUS_OK; done += most) {
        size_t piece = min_u64(most, size - done);
        status = zip_read_ranges(zip, offset,
                                 &(struct store_range){done, piece, (char *)buffer + done}, 1, err);
    }
    return status;
}

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static enum status open_file(struct zip *zip, struct error *err)
{
    struct stat info;
    zip->fd = open(zip->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (zip->fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "open '%s'",
                               zip->path);
    if (fstat(zip->fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s'", zip->path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "'%s' is not a file", zip->path);
    zip->file_bytes = (uint64_t)info.st_size;
    zip->modified_ns = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    return STATUS_OK;
}

static enum status find_size(struct zip *zip, struct error *err)
{
    struct fetch fetch = {.kind = FETCH_STAT, .key = zip->key};
    enum status status = fetch_run(zip->base, &fetch, 1, err);
    if (status == STATUS_NOT_FOUND)
        return error_prefix(err, status,
                            "there is no archive (a uri that ends in '/' is of what lies below): ");
    if (status == STATUS_OK && fetch.encoded)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the server sends the archive with a Content-Encoding, and so has no "
                         "ranges of it: store it without one");
    zip->file_bytes = status == STATUS_OK ? fetch.total : 0;
    return status;
}

/* The answer also says which version of the archive this is. */
static enum status read_remote_tail(struct zip *zip, struct error *err)
{
    struct fetch fetch =
        zip_ask(zip, zip->file_bytes - zip->tail_bytes, zip->tail_bytes, zip->tail);
    fetch_wait(zip->base, &fetch, 1);
    enum status status = zip_judge(zip, &fetch, err);
    if (fetch.all)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the server has no ranges: it sends all of the archive where a part is "
                         "asked for: serve it by another server, or unpack it");
    zip->version = fetch.version;
    return status;
}

enum status zip_open_bytes(struct zip *zip, struct error *err)
{
    enum status status = zip->base ? find_size(zip, err) : open_file(zip, err);
    if (status == STATUS_OK) {
        zip->tail_bytes = (size_t)min_u64(zip->file_bytes, ZIP_TAIL_BYTES);
        unsigned char *tail = malloc(zip->tail_bytes ? zip->tail_bytes : 1);
        if (!tail)
            return error_set(err, STATUS_NO_MEMORY, "no memory to open '%s'", zip->path);
        if (!zip->base || zip->tail_bytes == 0)
            status = read_file(zip, zip->file_bytes - zip->tail_bytes, tail, zip->tail_bytes, err);
        zip->tail = tail;
        if (zip->base && zip->tail_bytes > 0)
            status = read_remote_tail(zip, err);
    }
    return status != STATUS_OK && zip->base
               ? error_prefix(err, status, "zip archive '%s': ", zip->path)
               : status;
}
