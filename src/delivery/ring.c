/* See ring.h. */
#include "delivery/ring.h"

#include "base/memory.h"
#include "base/size.h"
#include "delivery/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* Who makes the pages of which ring. */
struct filler {
    ring_fill *fill; /* NULL: the calling thread */
    void *argument;
    uint32_t rank;
};

/* Lack of memory must be an error here, never SIGBUS later. Kernels that cannot populate allocate
 * first, which takes no transparent huge pages. */
static enum status make_present(int memfd, const struct filler *filler, void *memory,
                                uint64_t bytes, struct error *err)
{
    madvise(memory, bytes, MADV_HUGEPAGE);
    int failure = memory_can_populate() ? 0 : posix_fallocate(memfd, 0, (off_t)bytes);
    if (failure == 0)
        failure = filler->fill ? filler->fill(filler->argument, filler->rank, memory, bytes)
                               : memory_populate(memory, bytes);
    if (failure) {
        errno = failure;
        return error_set_errno(
            err, STATUS_NO_MEMORY,
            "fill a ring of %s with pages (%s available); lower delivery.slots or "
            "the global batch",
            size_format(bytes).text, size_format(memory_available_bytes()).text);
    }
    return STATUS_OK;
}

static enum status map(int memfd, uint64_t bytes, void **ret_memory, struct error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map a ring of %s", size_format(bytes).text);
    *ret_memory = memory;
    return STATUS_OK;
}

static struct ring ring_over(int memfd, void *memory, const struct ring_layout *layout)
{
    return (struct ring){.memory = memory,
                         .bytes = layout->total_bytes,
                         .memfd = memfd,
                         .control = (void *)((unsigned char *)memory + layout->control_offset),
                         .data_offset = layout->data_offset,
                         .slot_stride = layout->slot_stride,
                         .slot_count = layout->slot_count};
}

static enum status fill_memfd(int memfd, const struct ring_layout *layout,
                              const struct ring_service *service, const struct filler *filler,
                              struct ring *ret_ring, struct error *err)
{
    uint64_t bytes = layout->total_bytes;
    if (ftruncate(memfd, (off_t)bytes) < 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "size a ring to %s", size_format(bytes).text);
    void *memory = NULL;
    enum status status = map(memfd, bytes, &memory, err);
    if (status)
        return status;
    status = make_present(memfd, filler, memory, bytes, err);
    if (!status)
        status = sealed_make(memfd, err);
    if (status) {
        munmap(memory, bytes);
        return status;
    }
    struct ring_header *header = memory;
    header->layout = *layout;
    header->service = *service;
    *ret_ring = ring_over(memfd, memory, layout);
    return STATUS_OK;
}

/* `flags`: of memfd_create(), for the kind of pages. Huge ones are set aside by the mapping, so
 * that it fails where there are too few. */
static enum status create_of(unsigned flags, const struct ring_layout *layout,
                             const struct ring_service *service, const struct filler *filler,
                             struct ring *ret_ring, struct error *err)
{
    int memfd = memfd_create("penstock-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "create shared memory for a ring");
    enum status status = fill_memfd(memfd, layout, service, filler, ret_ring, err);
    if (status)
        close(memfd);
    return status;
}

/* Whether shared memory gets transparent huge pages where that is advised. */
static bool has_transparent_pages(void)
{
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    if (file) {
        if (!fgets(line, sizeof line, file))
            line[0] = '\0';
        fclose(file);
    }
    return line[0] && !strstr(line, "[never]") && !strstr(line, "[deny]");
}

enum status ring_create(const struct ring_layout *layout, const struct ring_service *service,
                        ring_fill *fill, void *fill_argument, struct ring *ret_ring,
                        struct error *err)
{
    const struct filler filler = {fill, fill_argument, service->rank};
    bool huge = ring_layout_is_huge(layout);
    if (huge && create_of(MFD_HUGETLB | MFD_HUGE_2MB, layout, service, &filler, ret_ring, NULL) ==
                    STATUS_OK) {
        ret_ring->pages = RING_PAGES_HUGETLB;
        return STATUS_OK;
    }
    uint64_t available = memory_available_bytes();
    if (layout->total_bytes > available)
        return error_set(err, STATUS_NO_MEMORY,
                         "a ring takes %s and only %s are available; lower delivery.slots or the "
                         "global batch",
                         size_format(layout->total_bytes).text, size_format(available).text);
    enum status status = create_of(0, layout, service, &filler, ret_ring, err);
    if (status == STATUS_OK && huge && has_transparent_pages())
        ret_ring->pages = RING_PAGES_TRANSPARENT;
    return status;
}

void ring_describe_pages(const struct ring_layout *layout, const uint64_t counts[RING_PAGES_COUNT],
                         struct text *out)
{
    static const char *const names[] = {"plain pages", "transparent huge pages",
                                        "huge pages set aside (hugetlb)"};
    uint64_t all = 0;
    for (int pages = 0; pages < RING_PAGES_COUNT; pages++)
        all += counts[pages];
    text_append(out, "%" PRIu64 " of %s", all, size_format(layout->total_bytes).text);
    const char *separator = ": ";
    for (int pages = RING_PAGES_COUNT; pages-- > 0;) {
        if (counts[pages] == 0)
            continue;
        text_append(out, "%s%" PRIu64 " of %s", separator, counts[pages], names[pages]);
        separator = ", ";
    }
    if (counts[RING_PAGES_PLAIN] == 0 || !ring_layout_is_huge(layout))
        return;
    text_append(out,
                "; as root, 'echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled' or "
                "'sysctl vm.nr_hugepages=%" PRIu64
                "' (for each ring of a node) gives them huge ones",
                layout->total_bytes / MEMORY_HUGE_PAGE_BYTES);
}

static enum status check_memfd(int memfd, uint64_t *ret_bytes, struct error *err)
{
    if (!sealed_check(memfd, ret_bytes))
        return error_set(err, STATUS_PROTOCOL, "ring: what came is not sealed shared memory");
    if (*ret_bytes < sizeof(struct ring_header))
        return error_set(err, STATUS_PROTOCOL, "ring: %" PRIu64 " bytes do not hold a header",
                         *ret_bytes);
    return STATUS_OK;
}

enum status ring_open(int memfd, struct ring *ret_ring, struct ring_header *ret_header,
                      struct error *err)
{
    uint64_t bytes = 0;
    void *memory = NULL;
    enum status status = check_memfd(memfd, &bytes, err);
    if (!status)
        status = map(memfd, bytes, &memory, err);
    if (status) {
        close(memfd);
        return status;
    }
    memcpy(ret_header, memory, sizeof *ret_header);
    status = ring_layout_check(&ret_header->layout, bytes, err);
    if (status) {
        munmap(memory, bytes);
        close(memfd);
        return status;
    }
    *ret_ring = ring_over(memfd, memory, &ret_header->layout);
    return STATUS_OK;
}

void ring_done(struct ring *ring)
{
    if (ring->memory)
        munmap(ring->memory, ring->bytes);
    if (ring->memfd >= 0)
        close(ring->memfd);
    *ring = (struct ring){.memfd = -1};
}

uint64_t ring_whole_pages(uint64_t offset, uint64_t bytes, uint64_t page_bytes,
                          uint64_t *ret_offset)
{
    uint64_t begin = (offset + page_bytes - 1) / page_bytes * page_bytes;
    uint64_t end = (offset + bytes) / page_bytes * page_bytes;
    *ret_offset = begin;
    return end > begin ? end - begin : 0;
}

/* Slots of a ring on pages that were set aside begin and end on these: any page of the system's
 * divides them. */
void ring_give_back(const struct ring *ring, uint32_t slot)
{
    uint64_t offset = ring->data_offset + slot * ring->slot_stride;
    uint64_t bytes =
        ring_whole_pages(offset, ring->slot_stride, (uint64_t)sysconf(_SC_PAGESIZE), &offset);
    if (bytes > 0)
        (void)madvise(ring->memory + offset, bytes, MADV_REMOVE); /* or it goes later */
}

void ring_publish(struct ring *ring, uint64_t head, int wake_fd)
{
    atomic_store(&ring->control->head, head);
    if (atomic_load(&ring->control->trainer_waits))
        event_signal(wake_fd);
}

enum status event_new(int *ret_fd, struct error *err)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set_errno(err, STATUS_IO, "create an eventfd");
    *ret_fd = fd;
    return STATUS_OK;
}

bool event_check(int fd)
{
    static const char expected[] = "anon_inode:[eventfd]";
    char path[32], target[sizeof expected];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target);
    return length == sizeof expected - 1 && memcmp(target, expected, sizeof expected - 1) == 0 &&
           fcntl(fd, F_GETFL) & O_NONBLOCK;
}

void event_signal(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* a full counter means that the sleeper is woken already */
}

void event_drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got; /* nothing to read when nobody woke us */
}
