/* The shared-memory layout of a ring, the same for the reader that fills it and the trainer that
 * maps it.
 *
 * One memfd for each group of trainers (mesh/mesh.h) that a reader serves, sealed against resizing.
 * Without a mesh each trainer is a group, with one member:
 *
 *     0        struct ring_header                  magic, version, sizes, fields; and members:
 *              struct ring_member [member_count]   who each is, and what it has; never written
 * again 4096*k   struct ring_control [member_count]  head, tail, wait flags: one cache line each
 *     data     slot 0 | slot 1 | ... each slot_stride bytes, on pages (of 2 MiB for large slots)
 *
 *     slot     struct slot_header | indices u64[batch] | keys u64[batch] | valid u8[batch]
 *              | field 0 | ...       every array on a boundary of 64 bytes
 *
 *     field    RING_SAMPLES   [batch, shape...]; or of a field that is cut, part after part:
 *                             [batch, shape of the part...]. In a phase of epochs in which samples
 *                             have fewer steps: [batch, steps, rest of the shape...]
 *              RING_ITEMS     [capacity, shape...]: the items of all samples, one after another; or
 *                             of a field that is cut, part after part: [capacity / parts, shape...]
 *              RING_OFFSETS   i64[batch * steps + 1]: step k of sample i has the items from
 *                             offsets[i * steps + k] up to the next offset. The first offset is 0,
 *                             and that behind the last sample is the number of items
 *              RING_PADDED    [batch, bound, shape...], in room for capacity items of that shape
 *
 * The ring has one producer, and each member is a consumer with control words of its own. `head`
 * counts the slots published, and `tail` counts the slots released in order. Both only grow. Slot
 * number n lies at index n % slot_count, and is filled again when all members have released it. A
 * trainer may release in any order, and advances `tail` when the oldest slot is released.
 *
 * A trainer may write to its `tail`, `waits` and both words for wake-ups, and to the arrays of the
 * slots that it leases, unless it shares them: members of a group map slots read-only. Outside the
 * ring it writes to its cursor page (cursor_page.h) and its cursor file
 * (delivery/client/cursor_file.h). The rest is its reader's. Neither side trusts the other's
 * memory. The reader keeps its own copy of the layout and of head, and checks tail and cursor
 * (delivery/server/trainer.c). The trainer copies the header once, and checks the copy before it
 * uses the ring.
 */
#ifndef PENSTOCK_DELIVERY_RING_LAYOUT_H
#define PENSTOCK_DELIVERY_RING_LAYOUT_H

#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"
#include "delivery/ring/order.h"
#include "mesh/mesh.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RING_MAX_FIELDS = 64,
    RING_MAX_RANK = 8,
    RING_NAME_BYTES = 64,
    RING_VERSION = 8,
    RING_MAX_SLOTS = 2048,
    RING_MAX_CUT_AXES = 2,
    RING_MOST_PARTS = 256, /* of all fields together */
    RING_MAX_MEMBERS = 65536,
    RING_MAX_PHASES = 32,
};

#define RING_MAGIC UINT64_C(0x4b434f54534e4550) /* "PENSTOCK", little endian */

/* What a field's array has along its first axis. */
enum ring_kind {
    RING_SAMPLES, /* samples of the batch */
    RING_ITEMS,   /* items of all samples, one sample after another: a ragged field, or a column of
                   * one */
    RING_OFFSETS, /* where the items of each step of each sample begin, and the number of items */
    RING_PADDED,  /* samples of the batch, each of as many items as slot_header.bound says */
};

/* A field, as reader and trainer know it. */
struct ring_field {
    char name[RING_NAME_BYTES]; /* NUL-terminated */
    uint32_t dtype;             /* enum dtype; RING_OFFSETS: int64 */
    uint32_t rank;
    uint64_t shape[RING_MAX_RANK]; /* of a sample; RING_ITEMS and RING_PADDED: of an item;
                                    * RING_OFFSETS: [steps], or none for one step */
    uint64_t sample_bytes;         /* of that shape */
    uint64_t slot_offset;          /* of the field's array in a slot */
    uint64_t capacity;      /* RING_ITEMS, RING_PADDED: how many items the array has room for;
                             * else 0 */
    uint32_t kind;          /* enum ring_kind */
    uint32_t offsets_field; /* RING_ITEMS: which field has the offsets; else 0 */
    uint32_t part_count;    /* of a field that is cut; 0: trainers have it whole */
    uint32_t first_part;    /* in ring_layout.parts: those of all fields follow one another */
    uint32_t cut_axes[RING_MAX_CUT_AXES]; /* of a sample, rising; 1 + the axis, 0: none.
                                           * RING_ITEMS: 1, of the items of each step */
    uint32_t is_absent;                   /* 1: no member has it, and slots have no room for it */
    uint16_t is_torch_chunk[RING_MAX_CUT_AXES]; /* 1: the parts are those of torch.chunk() */
    uint8_t cut_over[RING_MAX_CUT_AXES][MESH_MAX_AXES]; /* axes of the mesh, the last one fastest;
                                                         * 1 + the axis, 0: no more */
};

/* A part of a field that is cut: along each cut axis `lengths` indices, from `begins` on; or half
 * of these from there, and half from `seconds` on, unless that is RING_NO_SECOND. RING_ITEMS: the
 * items of each step are pieces of equal length, and `lengths` and so on count pieces. */
#define RING_NO_SECOND UINT64_MAX
struct ring_part {
    uint64_t sample_bytes; /* of the part of a sample; may be 0 */
    uint64_t slot_offset;
    uint64_t begins[RING_MAX_CUT_AXES], seconds[RING_MAX_CUT_AXES], lengths[RING_MAX_CUT_AXES];
    uint64_t wholes[RING_MAX_CUT_AXES]; /* how many indices the field has */
    uint64_t is_absent;                 /* as of a field */
};

/* From an epoch on, until the next phase: how many steps each field has, which is the first axis of
 * its shape; 0: as the shape says. */
struct ring_phase {
    uint64_t epoch;
    uint32_t steps[RING_MAX_FIELDS];
};

/* What a member has of the ring. */
struct ring_member {
    uint32_t rank;
    uint32_t is_there;               /* 0: nobody is this member */
    uint64_t fields;                 /* bit f: it has field f */
    uint16_t parts[RING_MAX_FIELDS]; /* of each field that is cut: which part */
};

/* As many epochs have no end. Only their rings have slots in reserve for trainers that skip. */
enum { RING_ENDLESS_EPOCHS = 1 << 28 };

/* What the service delivers to a group. struct penstock_info shows the same to a trainer's
 * program. */
struct ring_service {
    uint32_t world_size; /* trainers */
    uint32_t group;      /* whose batches these are */
    struct mesh mesh;
    uint64_t dataset_samples;
    uint64_t steps_per_epoch;
    uint64_t epochs;
    uint64_t start_epoch, start_step;
    struct order order;
};

struct ring_layout {
    uint64_t magic;
    uint32_t version;
    uint32_t field_count;
    uint32_t slot_count;
    uint32_t batch_size;  /* most samples in a slot */
    uint32_t spare_slots; /* how many of slot_count are there only because a round publishes several
                           * steps at once: the trainer may not count on these */
    uint32_t member_count; /* most trainers that share the ring */
    uint32_t part_count;   /* of all fields together */
    uint32_t phase_count;  /* 0: samples have the same steps in all epochs; else the first one
                            * begins with epoch 0 */
    uint64_t members_offset;
    uint64_t control_offset;
    uint64_t data_offset;
    uint64_t slot_stride;
    uint64_t total_bytes;                               /* of the memfd */
    uint64_t indices_offset, keys_offset, valid_offset; /* in a slot */
    struct ring_field fields[RING_MAX_FIELDS];
    struct ring_part parts[RING_MOST_PARTS];
    struct ring_phase phases[RING_MAX_PHASES];
};

struct ring_header {
    struct ring_layout layout;
    struct ring_service service;
};

enum { RING_WAIT_BUCKETS = 9 };

/* How long a trainer has waited for the batches of this ring: waits.h. The 32-bit numbers wrap
 * around. */
struct ring_waits {
    _Atomic uint64_t wait_ns;                    /* inside penstock_next(), for batches taken */
    _Atomic uint64_t released_ms;                /* the time of the last release, since 1970 */
    _Atomic uint32_t taken;                      /* batches taken or passed over */
    _Atomic uint32_t buckets[RING_WAIT_BUCKETS]; /* batches taken, by how long they were waited
                                                  * for */
};

/* A line each for what one side writes. Who sleeps sets its word for wake-ups, and who wakes the
 * sleeper clears it. */
struct ring_control {
    _Alignas(64) _Atomic uint64_t head;          /* reader: slots published */
    _Alignas(64) _Atomic uint64_t tail;          /* trainer: slots released, in order */
    struct ring_waits waits;                     /* trainer */
    _Alignas(64) _Atomic uint32_t trainer_waits; /* wants a wake-up at the next publish */
    _Alignas(64) _Atomic uint32_t reader_waits;  /* wants a wake-up at this tail */
};

_Static_assert(sizeof(struct ring_control) == 256, "shared layout");
_Static_assert(offsetof(struct ring_control, tail) == 64, "shared layout");
_Static_assert(offsetof(struct ring_control, waits) == 72, "shared layout");
_Static_assert(sizeof(struct ring_waits) == 56, "shared layout: fills the line of the tail");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared atomics must be lock-free");

struct slot_header {
    uint64_t epoch, step;
    uint32_t sample_count;
    uint32_t first_position; /* of the first sample, within the step's global batch */
    uint64_t bound;          /* of the step's lengths, with batches by budget; else 0 */
};

_Static_assert(sizeof(struct ring_field) == 208, "shared layout");
_Static_assert(sizeof(struct ring_part) == 88, "shared layout");
_Static_assert(sizeof(struct ring_phase) == 264, "shared layout");
_Static_assert(sizeof(struct ring_member) == 144, "shared layout");
_Static_assert(sizeof(struct ring_layout) == 104 + RING_MAX_FIELDS * sizeof(struct ring_field) +
                                                 RING_MOST_PARTS * sizeof(struct ring_part) +
                                                 RING_MAX_PHASES * sizeof(struct ring_phase),
               "shared layout: no padding, compared byte by byte");
_Static_assert(sizeof(struct mesh) == 328, "shared layout");
_Static_assert(sizeof(struct ring_service) == 424, "shared layout");
_Static_assert(offsetof(struct ring_service, order) == 376, "shared layout");
_Static_assert(sizeof(struct slot_header) == 32, "shared layout");

/* Whether slots begin on huge pages (2 MiB). If so, the ring is a multiple of huge pages. */
static inline bool ring_layout_is_huge(const struct ring_layout *layout)
{
    return layout->data_offset % MEMORY_HUGE_PAGE_BYTES == 0 &&
           layout->slot_stride % MEMORY_HUGE_PAGE_BYTES == 0;
}

/* Fills magic, version, offsets and sizes from names, dtypes, shapes, kinds, capacities,
 * offsets_fields, cut axes, numbers and indices of parts, what is absent, phases, batch_size,
 * slot_count, spare_slots and member_count. Pure; *layout is untouched on failure. INVALID: a count
 * is out of its range, a name is empty or has no NUL, two fields have one name, a dtype or a
 * kind is unknown, a dimension is 0, a field of items has no capacity or no field of
 * offsets, another field has either, offsets are not int64 [steps], a part is not within its field,
 * phases do not rise from epoch 0, or say of a field more steps than it has or of one that has none
 * or is cut, or the ring is beyond 2^48 bytes. */
MUST_USE enum status ring_layout_settle(struct ring_layout *layout, struct error *err);

/* Checks a layout that came from another process: the layout must equal what ring_layout_settle()
 * makes of its names, shapes and counts. `layout` is a private copy that nobody else can change.
 * Pure. UNSUPPORTED: the layout has another version. PROTOCOL: the layout is not a ring's, breaks a
 * rule of ring_layout_settle(), or does not make `memfd_bytes` bytes. */
MUST_USE enum status ring_layout_check(const struct ring_layout *layout, uint64_t memfd_bytes,
                                       struct error *err);

/* Whether what came for a member makes sense in that layout. */
bool ring_member_makes_sense(const struct ring_layout *layout, const struct ring_member *member);

/* How many steps of a field samples of an epoch have; 0: as the field's shape says. Pure. */
uint64_t ring_field_steps(const struct ring_layout *layout, uint32_t field, uint64_t epoch);

/* The layout as a member has it: the fields that it has, and of those that are cut its part alone,
 * with the part's shape and offset. Pure. */
void ring_layout_of_member(const struct ring_layout *layout, const struct ring_member *member,
                           struct ring_layout *ret_layout);

#endif
