/* See overview.h. */
#include "metrics/overview.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { VERSION = 2, PAGES = 64, MOST_READERS = 1 << 20, MOST_PAGE_BYTES = 1 << 24 };

static const uint64_t MAGIC = UINT64_C(0x5745495652455650); /* "PVERVIEW", little endian */
static const char name[] = "reader-0.overview";

_Static_assert(sizeof(struct metrics_overview_head) <= PAGES, "shared layout");

enum status metrics_overview_create(int dir, uint32_t reader_count, uint32_t most_trainers,
                                    struct metrics_overview *ret_overview, struct error *err)
{
    struct metrics_overview_head head = {.magic = MAGIC,
                                         .version = VERSION,
                                         .reader_count = reader_count,
                                         .page_bytes = sizeof(struct metrics_file_head) +
                                                       metrics_snapshot_bytes(most_trainers)};
    int fd = openat(dir, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create '%s' in the run directory", name);
    if (ftruncate(fd, (off_t)(PAGES + reader_count * head.page_bytes)) < 0 ||
        pwrite(fd, &head, sizeof head, 0) != sizeof head) {
        enum status status =
            error_set_errno(err, STATUS_IO, "write '%s' in the run directory", name);
        close(fd);
        return status;
    }
    *ret_overview = (struct metrics_overview){fd, reader_count, head.page_bytes};
    return STATUS_OK;
}

bool metrics_overview_is_watched(const struct metrics_overview *overview)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(overview->fd, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

static uint64_t page_offset(const struct metrics_overview *overview, uint32_t reader)
{
    return PAGES + reader * overview->page_bytes;
}

void metrics_overview_put(const struct metrics_overview *overview,
                          const struct metrics_snapshot *snapshot)
{
    if (snapshot->reader < overview->reader_count)
        metrics_file_write_at(overview->fd, page_offset(overview, snapshot->reader), snapshot);
}

static enum status check(int fd, struct metrics_overview *ret_overview, struct error *err)
{
    struct metrics_overview_head head;
    struct flock all = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (pread(fd, &head, sizeof head, 0) != sizeof head || head.magic != MAGIC)
        return error_set(err, STATUS_CORRUPT, "'%s' in the run directory is no overview", name);
    if (head.version != VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%s' in the run directory has version %" PRIu32
                         ", and this program reads %d: use the penstock of the run",
                         name, head.version, VERSION);
    if (head.reader_count > MOST_READERS || head.page_bytes > MOST_PAGE_BYTES)
        return error_set(err, STATUS_CORRUPT, "'%s' in the run directory makes no sense", name);
    if (fcntl(fd, F_OFD_SETLK, &all) < 0)
        return error_set_errno(err, STATUS_IO, "lock '%s' in the run directory", name);
    *ret_overview = (struct metrics_overview){fd, head.reader_count, head.page_bytes};
    return STATUS_OK;
}

enum status metrics_overview_watch(int dir, struct metrics_overview *ret_overview,
                                   struct error *err)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                               "open '%s' in the run directory", name);
    enum status status = check(fd, ret_overview, err);
    if (status != STATUS_OK)
        close(fd);
    return status;
}

enum status metrics_overview_get(const struct metrics_overview *overview, uint32_t reader,
                                 struct metrics_snapshot **ret_snapshot, struct error *err)
{
    enum status status =
        metrics_file_read_at(overview->fd, page_offset(overview, reader), ret_snapshot, err);
    if (status == STATUS_OK && (*ret_snapshot)->reader != reader) {
        free(*ret_snapshot);
        status = error_set(err, STATUS_CORRUPT, "the page is of another reader");
    }
    return status != STATUS_OK
               ? error_prefix(err, status,
                              "reader %" PRIu32 " in '%s' in the run directory: ", reader, name)
               : STATUS_OK;
}

void metrics_overview_close(struct metrics_overview *overview)
{
    if (overview->fd >= 0)
        close(overview->fd);
    overview->fd = -1;
}
