/* See ring.h. */
#include "delivery/ring/ring.h"

#include "base/memory.h"
#include "base/size.h"
#include "delivery/ring/sealed.h"
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum status ring_map(int memfd, uint64_t bytes, struct ring *ret_ring, struct error *err)
{
    void *memory = memory_map_file(memfd, bytes, PROT_READ | PROT_WRITE);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map a ring of %s", size_format(bytes).text);
    *ret_ring = (struct ring){.memory = memory, .bytes = bytes, .memfd = memfd};
    return STATUS_OK;
}

void ring_lay_out(struct ring *ring, const struct ring_layout *layout)
{
    ring->control = ring_control_of(ring, layout, 0);
    ring->data_offset = layout->data_offset;
    ring->slot_stride = layout->slot_stride;
    ring->slot_count = layout->slot_count;
    ring->is_shared = layout->member_count > 1;
}

static enum status check_memfd(int memfd, uint64_t *ret_bytes, struct error *err)
{
    if (!sealed_check(memfd, ret_bytes))
        return error_set(err, STATUS_PROTOCOL, "ring: the memory that came is not sealed");
    if (*ret_bytes < sizeof(struct ring_header))
        return error_set(err, STATUS_PROTOCOL, "ring: %" PRIu64 " bytes do not hold a header",
                         *ret_bytes);
    return STATUS_OK;
}

/* The layout is checked: the member is in the memory. */
static enum status find_member(struct ring *ring, const struct ring_layout *layout, uint32_t index,
                               struct ring_member *ret_member, struct error *err)
{
    bool exists = index < layout->member_count;
    if (exists)
        memcpy(ret_member, ring->memory + layout->members_offset + index * sizeof *ret_member,
               sizeof *ret_member);
    if (!exists || !ring_member_makes_sense(layout, ret_member))
        return error_set(err, STATUS_PROTOCOL, "ring: there is no member %" PRIu32, index);
    ring->control = ring_control_of(ring, layout, index);
    return STATUS_OK;
}

/* A member that writes to a slot would change what its neighbours train on. */
static enum status protect(const struct ring *ring, const struct ring_layout *layout,
                           struct error *err)
{
    if (!ring->is_shared)
        return STATUS_OK;
    if (mprotect(ring->memory, layout->control_offset, PROT_READ) < 0 ||
        mprotect(ring->memory + layout->data_offset, layout->total_bytes - layout->data_offset,
                 PROT_READ) < 0)
        return error_set_errno(err, STATUS_NO_MEMORY, "map a group's ring of %s",
                               size_format(ring->bytes).text);
    return STATUS_OK;
}

enum status ring_open_whole(int memfd, struct ring *ret_ring, struct ring_header *ret_header,
                            struct error *err)
{
    uint64_t bytes = 0;
    struct ring ring = {.memfd = -1};
    enum status status = check_memfd(memfd, &bytes, err);
    if (status == STATUS_OK)
        status = ring_map(memfd, bytes, &ring, err);
    if (status != STATUS_OK) {
        close(memfd);
        return status;
    }
    memcpy(ret_header, ring.memory, sizeof *ret_header);
    status = ring_layout_check(&ret_header->layout, bytes, err);
    if (status != STATUS_OK) {
        ring_done(&ring);
        return status;
    }
    ring_lay_out(&ring, &ret_header->layout);
    *ret_ring = ring;
    return STATUS_OK;
}

enum status ring_open(int memfd, uint32_t index, struct ring *ret_ring,
                      struct ring_header *ret_header, struct ring_member *ret_member,
                      struct error *err)
{
    struct ring ring;
    enum status status = ring_open_whole(memfd, &ring, ret_header, err);
    if (status != STATUS_OK)
        return status;
    status = find_member(&ring, &ret_header->layout, index, ret_member, err);
    if (status == STATUS_OK)
        status = protect(&ring, &ret_header->layout, err);
    if (status != STATUS_OK) {
        ring_done(&ring);
        return status;
    }
    *ret_ring = ring;
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

/* Slots of a hugetlb ring begin and end on huge pages, which are multiples of the system's page: so
 * a slot is given back whole there. */
void ring_give_back(const struct ring *ring, uint32_t slot)
{
    uint64_t offset = ring->data_offset + slot * ring->slot_stride;
    uint64_t bytes =
        ring_whole_pages(offset, ring->slot_stride, (uint64_t)sysconf(_SC_PAGESIZE), &offset);
    if (bytes > 0 && !ring->is_shared)
        (void)madvise(ring->memory + offset, bytes, MADV_REMOVE); /* on failure the memory goes with
                                                                   * the ring */
}

void ring_publish(struct ring_control *control, uint64_t head, int wake_fd)
{
    atomic_store(&control->head, head);
    wakeup_waiting(&control->trainer_waits, wake_fd);
}
