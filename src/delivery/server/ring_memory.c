/* See ring_memory.h. */
#include "delivery/server/ring_memory.h"

#include "base/memory.h"
#include "base/size.h"
#include "delivery/ring/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Makes the pages of one ring, and says who its members are. */
struct filler {
    ring_memory_fill *fill; /* NULL: the calling thread */
    void *argument;
    const struct ring_member *members; /* [member_count] */
    uint32_t member_count;
};

/* Lack of memory must be an error here, never SIGBUS later. Kernels without MADV_POPULATE_WRITE
 * allocate the pages with posix_fallocate(), which takes no transparent huge pages. */
static enum status make_present(int memfd, const struct filler *filler, void *memory,
                                uint64_t bytes, struct error *err)
{
    madvise(memory, bytes, MADV_HUGEPAGE);
    int failure = memory_can_populate() ? 0 : posix_fallocate(memfd, 0, (off_t)bytes);
    if (failure == 0)
        failure = filler->fill
                      ? filler->fill(filler->argument, filler->members[0].rank, memory, bytes)
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

static enum status fill_memfd(int memfd, const struct ring_layout *layout,
                              const struct ring_service *service, const struct filler *filler,
                              struct ring *ret_ring, struct error *err)
{
    uint64_t bytes = layout->total_bytes;
    if (ftruncate(memfd, (off_t)bytes) < 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "size a ring to %s", size_format(bytes).text);
    struct ring ring;
    enum status status = ring_map(memfd, bytes, &ring, err);
    if (status != STATUS_OK)
        return status;
    status = make_present(memfd, filler, ring.memory, bytes, err);
    if (status == STATUS_OK)
        status = sealed_make(memfd, err);
    if (status != STATUS_OK) {
        munmap(ring.memory, bytes);
        return status;
    }
    struct ring_header *header = (void *)ring.memory;
    header->layout = *layout;
    header->service = *service;
    memcpy(ring.memory + layout->members_offset, filler->members,
           filler->member_count * sizeof *filler->members);
    ring_lay_out(&ring, layout);
    *ret_ring = ring;
    return STATUS_OK;
}

/* `flags`: of memfd_create(), for the kind of pages. Mapping hugetlb memory reserves its pages, so
 * that the mapping fails where there are too few. */
static enum status create_of(unsigned flags, const struct ring_layout *layout,
                             const struct ring_service *service, const struct filler *filler,
                             struct ring *ret_ring, struct error *err)
{
    int memfd = memfd_create("penstock-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "create shared memory for a ring");
    enum status status = fill_memfd(memfd, layout, service, filler, ret_ring, err);
    if (status != STATUS_OK)
        close(memfd);
    return status;
}

static bool has_transparent_pages(const struct ring *ring)
{
    if (memory_makes_huge_pages())
        return memory_is_huge(ring->memory, ring->bytes);
    return ring->bytes >= MEMORY_HUGE_PAGE_BYTES && memory_shares_huge_pages();
}

enum status ring_memory_create(const struct ring_layout *layout, const struct ring_service *service,
                               const struct ring_member *members, uint32_t member_count,
                               ring_memory_fill *fill, void *fill_argument, struct ring *ret_ring,
                               struct error *err)
{
    const struct filler filler = {fill, fill_argument, members, member_count};
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
    if (status == STATUS_OK && has_transparent_pages(ret_ring))
        ret_ring->pages = RING_PAGES_TRANSPARENT;
    return status;
}

void ring_memory_describe(const struct ring_layout *layout, const uint64_t counts[RING_PAGES_COUNT],
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
                "; as root, 'sysctl vm.nr_hugepages=%" PRIu64
                "' (for each ring of a node) gives them huge ones",
                layout->total_bytes / MEMORY_HUGE_PAGE_BYTES);
}
