/* The handout: what a trainer gets once, when it connects. These are the attributes of fields, and
 * constants, which are arrays that all samples share. One memfd for all trainers of a reader:
 *
 *     0    struct handout_header
 *     32   struct handout_item [field_count], in order of the ring's fields
 *          struct handout_item [constant_count]
 *          texts, each with a NUL, and arrays, each on a boundary of 64 bytes
 *
 * The memfd is sealed against any change, so that a trainer checks the handout once and then may
 * read it at any time. Handouts of the same content are the same bytes. Any thread.
 */
#ifndef PENSTOCK_DELIVERY_RING_HANDOUT_H
#define PENSTOCK_DELIVERY_RING_HANDOUT_H

#include "base/error.h"
#include "delivery/ring/layout.h"

#include <stddef.h>
#include <stdint.h>

enum { HANDOUT_VERSION = 1, HANDOUT_MAX_CONSTANTS = 64 };

#define HANDOUT_MAGIC UINT64_C(0x5455534e4550) /* "PENSUT", little endian */

struct handout_header {
    uint64_t magic;
    uint32_t version;
    uint32_t field_count;
    uint32_t constant_count;
    uint32_t reserved;
    uint64_t total_bytes; /* of the memfd */
};

/* Offsets count from the start of the memfd. */
struct handout_item {
    char name[RING_NAME_BYTES]; /* NUL-terminated; "" for a field, which the ring names */
    uint32_t dtype, rank;       /* of a constant; 0 for a field */
    uint64_t shape[RING_MAX_RANK];
    uint64_t data_bytes, data_offset; /* 0 for a field */
    uint64_t text_bytes, text_offset; /* attributes, as a JSON object; the NUL is not counted */
};

_Static_assert(sizeof(struct handout_header) == 32, "shared layout");
_Static_assert(sizeof(struct handout_item) == 168, "shared layout");

/* What an item is made of: all borrowed. */
struct handout_source {
    const char *name; /* "" for a field */
    uint32_t dtype, rank;
    const uint64_t *shape; /* [rank] */
    const void *data;
    uint64_t data_bytes;
    const char *attributes;
};

/* Makes a handout of field_count + constant_count sources. *ret_memfd is the caller's. NO_MEMORY,
 * IO: the system refuses the memory. */
MUST_USE enum status handout_create(const struct handout_source *sources, uint32_t field_count,
                                    uint32_t constant_count, int *ret_memfd, struct error *err);

/* A handout that another process made; mapped, to be read alone. Zero: none. */
struct handout {
    const unsigned char *memory; /* owned */
    uint64_t bytes;
};

/* Maps and checks a handout. `memfd` is taken, and closed also on failure. PROTOCOL: the memory is
 * not sealed against changes, or is no handout. UNSUPPORTED: another version. NO_MEMORY. */
MUST_USE enum status handout_open(int memfd, struct handout *ret_handout, struct error *err);

/* Unmaps. A zeroed one is fine, and twice, too. */
void handout_done(struct handout *handout);

/* The header, and the item of a field, or of constant `i` with the index field_count + i. Borrowed.
 * Not for a zeroed one. */
const struct handout_header *handout_header(const struct handout *handout);
const struct handout_item *handout_item(const struct handout *handout, uint32_t index);

/* Whether two handouts (or none) say the same. */
bool handout_same(const struct handout *a, const struct handout *b);

#endif
