/* See kept_place.h. */
#include "client/kept_place.h"

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
    _Atomic uint64_t place;
};
_Static_assert(sizeof(struct content) == 72, "as in docs/layouts.md");

struct kept_place {
    int fd;                  /* locked as long as this process lives, whatever it forks */
    struct content *content; /* mapped */
    char *path;
};

static char *path_of(const char *prefix, uint32_t rank)
{
    char *path;
    return asprintf(&path, "%s%" PRIu32, prefix, rank) < 0 ? NULL : path;
}

/* Waits until the process that has the file is dead. Not flock(): what a dead trainer has forked
 * would keep that lock. */
static void await_lock(int fd)
{
    enum { TRIES = 500 };
    const uint64_t pause_ns = 10000000;
    const struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    for (int i = 0; i < TRIES && fcntl(fd, F_SETLK, &all) < 0; i++)
        clock_sleep_ns(pause_ns);
}

static bool read_content(const char *path, struct content *ret_content)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    await_lock(fd);
    bool whole = read(fd, ret_content, sizeof *ret_content) == sizeof *ret_content;
    close(fd);
    return whole && ret_content->magic == magic && ret_content->steps_per_epoch > 0 &&
           order_makes_sense(&ret_content->order);
}

bool kept_place_read(const char *prefix, uint32_t rank, struct ring_service *ret_service,
                     uint64_t *ret_place)
{
    struct content content;
    char *path = path_of(prefix, rank);
    bool found = path && read_content(path, &content);
    free(path);
    if (!found)
        return false;
    *ret_service =
        (struct ring_service){.steps_per_epoch = content.steps_per_epoch, .order = content.order};
    *ret_place = content.place;
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

struct kept_place *kept_place_open(const char *prefix, uint32_t rank,
                                   const struct ring_service *service, uint64_t place)
{
    struct kept_place *kept = calloc(1, sizeof *kept);
    if (kept)
        kept->path = path_of(prefix, rank);
    if (kept)
        kept->fd =
            kept->path ? open(kept->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (kept && kept->fd >= 0) {
        await_lock(kept->fd);
        kept->content = map_content(kept->fd);
    }
    if (!kept || !kept->content) {
        kept_place_close(kept);
        return NULL;
    }
    struct content *content = kept->content;
    content->order = service->order;
    content->steps_per_epoch = service->steps_per_epoch;
    atomic_store(&content->place, place);
    content->magic = magic; /* last: until then a new file is none */
    return kept;
}

void kept_place_note(struct kept_place *kept, uint64_t place)
{
    if (!kept)
        return;
    uint64_t before = atomic_load(&kept->content->place);
    while (before < place && !atomic_compare_exchange_weak(&kept->content->place, &before, place)) {
    }
}

void kept_place_remove(struct kept_place *kept)
{
    if (kept)
        unlink(kept->path);
}

void kept_place_close(struct kept_place *kept)
{
    if (!kept)
        return;
    if (kept->fd >= 0)
        close(kept->fd);
    if (kept->content)
        munmap(kept->content, sizeof *kept->content);
    free(kept->path);
    free(kept);
}
