/* See cursor_file.h. */
#include "delivery/client/cursor_file.h"

#include "base/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t magic = UINT64_C(0x32636c70736e6570); /* "pensplc2", little endian */

/* The file. */
struct content {
    uint64_t magic;
    struct order order;
    uint64_t steps_per_epoch;
    _Atomic uint64_t cursor;
};
_Static_assert(sizeof(struct content) == 72, "shared layout");

struct cursor_file {
    int fd;                  /* locked as long as this process lives, whatever it forks */
    struct content *content; /* mapped */
    char *path;
};

static char *path_of(const char *prefix, uint32_t rank)
{
    char *path;
    return asprintf(&path, "%s%" PRIu32, prefix, rank) < 0 ? NULL : path;
}

/* False: another process has the file. Not flock(): what a dead trainer has forked would keep that
 * lock. */
static bool take_lock(int fd)
{
    const struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &all) == 0;
}

bool cursor_file_await(const char *prefix, uint32_t rank, uint64_t until_ns)
{
    const uint64_t pause_ns = 10000000;
    char *path = path_of(prefix, rank);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
    free(path);
    if (fd < 0)
        return true;
    bool dead = take_lock(fd);
    for (; !dead && clock_now_ns() < until_ns; dead = take_lock(fd))
        clock_sleep_ns(pause_ns);
    close(fd);
    return dead;
}

static bool read_content(const char *path, struct content *ret_content)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    bool whole = read(fd, ret_content, sizeof *ret_content) == sizeof *ret_content;
    close(fd);
    return whole && ret_content->magic == magic && ret_content->steps_per_epoch > 0 &&
           order_makes_sense(&ret_content->order);
}

bool cursor_file_read(const char *prefix, uint32_t rank, struct ring_service *ret_service,
                      uint64_t *ret_cursor)
{
    struct content content;
    char *path = path_of(prefix, rank);
    bool found = path && read_content(path, &content);
    free(path);
    if (!found)
        return false;
    *ret_service =
        (struct ring_service){.steps_per_epoch = content.steps_per_epoch, .order = content.order};
    *ret_cursor = content.cursor;
    return true;
}

/* All of it is allocated, so that a full disk is no SIGBUS later. */
static struct content *map_content(int fd)
{
    void *memory = MAP_FAILED;
    if (posix_fallocate(fd, 0, sizeof(struct content)) == 0)
        memory = mmap(NULL, sizeof(struct content), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

struct cursor_file *cursor_file_open(const char *prefix, uint32_t rank,
                                     const struct ring_service *service, uint64_t cursor)
{
    struct cursor_file *file = calloc(1, sizeof *file);
    if (file)
        file->path = path_of(prefix, rank);
    if (file)
        file->fd =
            file->path ? open(file->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (file && file->fd >= 0) {
        take_lock(file->fd); /* one that still lives has been waited for */
        file->content = map_content(file->fd);
    }
    if (!file || !file->content) {
        cursor_file_close(file);
        return NULL;
    }
    struct content *content = file->content;
    content->order = service->order;
    content->steps_per_epoch = service->steps_per_epoch;
    atomic_store(&content->cursor, cursor);
    content->magic = magic; /* last: until then a new file is none */
    return file;
}

void cursor_file_note(struct cursor_file *file, uint64_t cursor)
{
    if (!file)
        return;
    uint64_t before = atomic_load(&file->content->cursor);
    while (before < cursor &&
           !atomic_compare_exchange_weak(&file->content->cursor, &before, cursor)) {
    }
}

void cursor_file_remove(struct cursor_file *file)
{
    if (file)
        unlink(file->path);
}

void cursor_file_close(struct cursor_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->content)
        munmap(file->content, sizeof *file->content);
    free(file->path);
    free(file);
}
