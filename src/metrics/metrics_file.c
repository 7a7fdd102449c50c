/* See metrics_file.h. */
#include "metrics/metrics_file.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

enum { VERSION = 2, MOST_TRAINERS = 65536, TRIES = 50 };

static const uint64_t MAGIC = UINT64_C(0x534d454b434f5453); /* "STOCKEMS", little endian */

_Static_assert(sizeof(struct metrics_file_head) == 24, "shared layout");
_Static_assert(sizeof(struct metrics_snapshot) % 8 == 0, "shared layout: no padding at the end");

struct name {
    char text[32];
};

static struct name page_name(uint32_t reader)
{
    struct name name;
    snprintf(name.text, sizeof name.text, "reader-%" PRIu32 ".metrics", reader);
    return name;
}

enum status metrics_file_create(int dir, uint32_t reader, int *ret_fd, struct error *err)
{
    struct name name = page_name(reader);
    int fd = openat(dir, name.text, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create '%s' in the run directory", name.text);
    *ret_fd = fd;
    return STATUS_OK;
}

void metrics_file_write(int fd, const struct metrics_snapshot *snapshot)
{
    metrics_file_write_at(fd, 0, snapshot);
}

void metrics_file_write_at(int fd, uint64_t offset, const struct metrics_snapshot *snapshot)
{
    size_t bytes = metrics_snapshot_bytes(snapshot->trainer_count);
    struct metrics_file_head head = {.magic = MAGIC,
                                     .version = VERSION,
                                     .bytes = (uint32_t)bytes,
                                     .checksum = XXH3_64bits(snapshot, bytes)};
    const struct iovec parts[] = {{&head, sizeof head}, {(void *)snapshot, bytes}};
    ssize_t written = pwritev(fd, parts, 2, (off_t)offset);
    (void)written; /* of a page that is not whole the checksum tells */
}

/* Whether the text ends within its `size` bytes. */
static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_possible(const struct metrics_snapshot *snapshot, size_t bytes)
{
    return snapshot->trainer_count <= MOST_TRAINERS &&
           bytes == metrics_snapshot_bytes(snapshot->trainer_count) &&
           snapshot->state < METRICS_STATE_COUNT && ends(snapshot->node, sizeof snapshot->node) &&
           ends(snapshot->version, sizeof snapshot->version) &&
           ends(snapshot->dataset, sizeof snapshot->dataset) &&
           ends(snapshot->listen, sizeof snapshot->listen);
}

/* Reads what is in the file now. TIMEOUT: the page is just being written. */
static enum status read_once(int fd, uint64_t offset, struct metrics_snapshot **ret_snapshot,
                             struct error *err)
{
    struct metrics_file_head head;
    ssize_t got = pread(fd, &head, sizeof head, (off_t)offset);
    if (got == 0 || (got == sizeof head && head.magic == 0 && head.bytes == 0))
        return error_set(err, STATUS_NOT_FOUND, "the page is empty");
    if (got != sizeof head || head.magic != MAGIC)
        return error_set(err, STATUS_TIMEOUT, "the page has no head");
    if (head.version != VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the page has version %" PRIu32 ", and this program reads %d: use the "
                         "penstock of the run",
                         head.version, VERSION);
    if (head.bytes < sizeof **ret_snapshot || head.bytes > metrics_snapshot_bytes(MOST_TRAINERS))
        return error_set(err, STATUS_TIMEOUT, "the page has an impossible size");
    struct metrics_snapshot *snapshot = malloc(head.bytes);
    if (!snapshot)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a page of metrics");
    if (pread(fd, snapshot, head.bytes, (off_t)(offset + sizeof head)) != (ssize_t)head.bytes ||
        XXH3_64bits(snapshot, head.bytes) != head.checksum || !is_possible(snapshot, head.bytes)) {
        free(snapshot);
        return error_set(err, STATUS_TIMEOUT, "the checksum is wrong");
    }
    *ret_snapshot = snapshot;
    return STATUS_OK;
}

enum status metrics_file_read_at(int fd, uint64_t offset, struct metrics_snapshot **ret_snapshot,
                                 struct error *err)
{
    const uint64_t pause_ns = 1000000;
    enum status status = read_once(fd, offset, ret_snapshot, err);
    for (int i = 1; status == STATUS_TIMEOUT && i < TRIES; i++) {
        clock_sleep_ns(pause_ns);
        status = read_once(fd, offset, ret_snapshot, err);
    }
    return status == STATUS_TIMEOUT ? STATUS_CORRUPT : status;
}

enum status metrics_file_read(int dir, uint32_t reader, struct metrics_snapshot **ret_snapshot,
                              struct error *err)
{
    struct name name = page_name(reader);
    int fd = openat(dir, name.text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                               "open '%s' in the run directory", name.text);
    enum status status = metrics_file_read_at(fd, 0, ret_snapshot, err);
    close(fd);
    return status != STATUS_OK ? error_prefix(err, status, "'%s' in the run directory: ", name.text)
                               : STATUS_OK;
}
