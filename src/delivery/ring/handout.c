/* See handout.h. */
#include "delivery/ring/handout.h"

#include "base/size.h"
#include "delivery/ring/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint64_t max_handout_bytes = UINT64_C(1) << 40;

static struct handout_item item_of(const struct handout_source *source, uint64_t *total)
{
    struct handout_item item = {.dtype = source->dtype,
                                .rank = source->rank,
                                .data_bytes = source->data_bytes,
                                .text_bytes = strlen(source->attributes)};
    memcpy(item.name, source->name, strnlen(source->name, sizeof item.name - 1));
    memcpy(item.shape, source->shape, source->rank * sizeof item.shape[0]);
    item.text_offset = *total;
    *total = size_round_up(*total + item.text_bytes + 1, MEMORY_LINE_BYTES);
    if (source->data_bytes > 0)
        item.data_offset = *total;
    *total = size_round_up(*total + item.data_bytes, MEMORY_LINE_BYTES);
    return item;
}

static void write_all(unsigned char *memory, const struct handout_source *sources,
                      uint32_t field_count, uint32_t constant_count, uint64_t total)
{
    struct handout_header *header = (void *)memory;
    struct handout_item *items = (void *)(header + 1);
    uint64_t at = sizeof *header + (field_count + (uint64_t)constant_count) * sizeof *items;
    *header = (struct handout_header){.magic = HANDOUT_MAGIC,
                                      .version = HANDOUT_VERSION,
                                      .field_count = field_count,
                                      .constant_count = constant_count,
                                      .total_bytes = total};
    for (uint32_t i = 0; i < field_count + constant_count; i++) {
        items[i] = item_of(&sources[i], &at);
        memcpy(memory + items[i].text_offset, sources[i].attributes, items[i].text_bytes);
        if (items[i].data_bytes > 0)
            memcpy(memory + items[i].data_offset, sources[i].data, items[i].data_bytes);
    }
}

/* posix_fallocate: a machine without room says so here, not by SIGBUS. */
static enum status fill(int memfd, const struct handout_source *sources, uint32_t field_count,
                        uint32_t constant_count, struct error *err)
{
    uint64_t total = sizeof(struct handout_header) +
                     (field_count + (uint64_t)constant_count) * sizeof(struct handout_item);
    for (uint32_t i = 0; i < field_count + constant_count; i++)
        (void)item_of(&sources[i], &total);
    errno = posix_fallocate(memfd, 0, (off_t)total);
    void *memory =
        errno ? MAP_FAILED : mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (memory == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "make %s for constants and attributes",
                               size_format(total).text);
    write_all(memory, sources, field_count, constant_count, total);
    munmap(memory, total); /* nobody may be able to write when it is sealed */
    return sealed_make_constant(memfd, err);
}

enum status handout_create(const struct handout_source *sources, uint32_t field_count,
                           uint32_t constant_count, int *ret_memfd, struct error *err)
{
    int memfd = memfd_create("penstock-handout", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "create shared memory for constants");
    enum status status = fill(memfd, sources, field_count, constant_count, err);
    if (status != STATUS_OK)
        close(memfd);
    else
        *ret_memfd = memfd;
    return status;
}

/* Whether [offset, offset + bytes) lies in the memory behind the header. */
static bool is_inside(const struct handout *handout, uint64_t offset, uint64_t bytes)
{
    return offset >= sizeof(struct handout_header) && offset <= handout->bytes &&
           bytes <= handout->bytes - offset;
}

static bool item_makes_sense(const struct handout *handout, const struct handout_item *item,
                             bool is_field)
{
    if (!is_inside(handout, item->text_offset, item->text_bytes + 1) ||
        item->text_bytes == UINT64_MAX || handout->memory[item->text_offset + item->text_bytes] ||
        !memchr(item->name, '\0', sizeof item->name) || item->rank > RING_MAX_RANK)
        return false;
    uint64_t bytes = is_field ? 0 : dtype_bytes((enum dtype)item->dtype);
    for (uint32_t d = 0; d < item->rank; d++)
        if (!size_multiply(bytes, item->shape[d], &bytes) || bytes > max_handout_bytes)
            return false;
    if (is_field)
        return item->data_bytes == 0;
    return item->name[0] && bytes > 0 && bytes == item->data_bytes &&
           item->data_offset % MEMORY_LINE_BYTES == 0 &&
           is_inside(handout, item->data_offset, bytes);
}

static enum status check(const struct handout *handout, struct error *err)
{
    const struct handout_header *header = handout_header(handout);
    if (handout->bytes < sizeof *header || header->magic != HANDOUT_MAGIC)
        return error_set(err, STATUS_PROTOCOL, "constants: the memory that came is no handout");
    if (header->version != HANDOUT_VERSION)
        return error_set(err, STATUS_UNSUPPORTED,
                         "constants: version %" PRIu32 ", this library knows version %d; install "
                         "the same release of Penstock on both sides",
                         header->version, HANDOUT_VERSION);
    uint64_t count = header->field_count + (uint64_t)header->constant_count;
    bool fits = header->field_count <= RING_MAX_FIELDS &&
                header->constant_count <= HANDOUT_MAX_CONSTANTS && header->reserved == 0 &&
                header->total_bytes == handout->bytes &&
                count * sizeof(struct handout_item) <= handout->bytes - sizeof *header;
    for (uint32_t i = 0; fits && i < count; i++)
        fits = item_makes_sense(handout, handout_item(handout, i), i < header->field_count);
    return fits ? STATUS_OK
                : error_set(err, STATUS_PROTOCOL,
                            "constants: the handout's sizes and offsets make no sense");
}

enum status handout_open(int memfd, struct handout *ret_handout, struct error *err)
{
    struct handout handout = {0};
    if (!sealed_is_constant(memfd, &handout.bytes) || handout.bytes == 0) {
        close(memfd);
        return error_set(err, STATUS_PROTOCOL, "constants: the memory that came is not sealed");
    }
    /* Private: kernels before 6.7 map no memory as shared that is sealed against writing. */
    void *memory = mmap(NULL, handout.bytes, PROT_READ, MAP_PRIVATE, memfd, 0);
    if (memory == MAP_FAILED)
        error_set_errno(err, STATUS_NO_MEMORY, "map constants of %s",
                        size_format(handout.bytes).text);
    close(memfd);
    if (memory == MAP_FAILED)
        return STATUS_NO_MEMORY;
    handout.memory = memory;
    enum status status = check(&handout, err);
    if (status != STATUS_OK)
        handout_done(&handout);
    else
        *ret_handout = handout;
    return status;
}

void handout_done(struct handout *handout)
{
    if (handout->memory)
        munmap((void *)handout->memory, handout->bytes);
    *handout = (struct handout){0};
}

const struct handout_header *handout_header(const struct handout *handout)
{
    return (const void *)handout->memory;
}

const struct handout_item *handout_item(const struct handout *handout, uint32_t index)
{
    const void *items = handout->memory + sizeof(struct handout_header);
    return (const struct handout_item *)items + index;
}

bool handout_same(const struct handout *a, const struct handout *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->memory, b->memory, a->bytes) == 0);
}
