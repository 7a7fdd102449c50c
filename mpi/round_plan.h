/* What one round moves where: worked out by a worker, then carried out by workers.
 *
 * A round's samples reach a trainer's slot in one of three ways; the last two differ by field, as
 * the exchange settles by size:
 *
 *     row  --fill-->  slot                                      its reader is the trainer's reader
 *     row  --fill-->  send buffer  ~~~  receive buffer  --scatter-->  slot
 *     row  ~~~  slot                                            zero-copy
 *
 * Sender and receiver count in the same order (by position), so that neither has to tell the other
 * what is in a message, or which.
 */
#ifndef PENSTOCK_MPI_ROUND_PLAN_H
#define PENSTOCK_MPI_ROUND_PLAN_H

#include "exchange.h"
#include "job.h"
#include "span.h"
#include "windows.h"

enum round_state {
    ROUND_PLANNING,
    ROUND_FILLING,
    ROUND_FILLED,
    ROUND_EXCHANGING,
    ROUND_SCATTERING,
    ROUND_COMPLETE
};

enum { FILL_REMOTE = UINT32_MAX };

/* One of my samples: from its row to a slot, or to another reader. */
struct fill {
    const int32_t *buffer; /* the row's buffer, read once the row is claimed */
    union {
        unsigned char *slot;
        struct {
            uint32_t reader;
            uint32_t record; /* of the send buffer */
        } remote;
    } to;
    uint32_t offset;      /* of the sample in its row */
    uint32_t batch_index; /* of the sample in the slot's batch; FILL_REMOTE: to another reader */
};

/* One sample that comes from another reader to a slot. */
struct arrival {
    unsigned char *slot;
    uint32_t batch_index;
    uint32_t source; /* reader */
    uint64_t record; /* of the receive buffer */
};

/* Where the fields lie in rows, records and slots. */
struct round_field {
    size_t field; /* index in the dataset */
    size_t bytes; /* of one sample */
    size_t row_offset, slot_offset;
    size_t record_offset; /* packed fields */
};

/* Row fields come in two parts: those that are packed into records, then zero-copy
 * ones. Where bad samples are masked, the last packed field is the byte that tells whether the
 * sample could be read: it goes with the sample, wherever that comes from. */
struct round_fields {
    size_t row_count, held_count;
    size_t packed_count; /* of row[] */
    size_t record_bytes; /* of the packed fields, a multiple of 16; 0: none is packed */
    size_t valid;        /* index in row[] of that byte; SIZE_MAX: there is none */
    struct round_field row[DATASET_MAX_FIELDS + 1];
    struct round_field held[DATASET_MAX_FIELDS];
};
void round_fields_init(struct round_fields *ret_fields, const struct dataset *dataset,
                       const struct ring_layout *layout);

/* A field's sample in a row buffer and in a slot. */
static inline const unsigned char *round_field_in_row(const struct round_field *field,
                                                      const unsigned char *row, uint32_t offset)
{
    return row + field->row_offset + offset * field->bytes;
}
static inline unsigned char *round_field_in_slot(const struct round_field *field,
                                                 unsigned char *slot, uint32_t batch_index)
{
    return slot + field->slot_offset + batch_index * field->bytes;
}

/* Where the time of rounds goes: workers' time, all of them together. */
struct round_times {
    _Atomic uint64_t plan_ns, fill_ns, scatter_ns;
};

struct round {
    enum round_state state;
    uint64_t serial;
    struct round_reach reach; /* of `serial` */
    struct windows *windows;
    struct fill *fills;
    uint64_t fill_count, fill_next;
    uint64_t sent_next, sent_count; /* the fill after the last remote one whose row is not needed
                                     * any more, and how many those are; zero-copy fields alone */
    struct arrival *arrivals;
    uint64_t arrival_count, scatter_next;
    unsigned char *send;
    const unsigned char *received;
    struct exchange_counts counts;
    const struct round_fields *fields;
    const struct job *job;
    struct round_times *times;
    _Atomic uint32_t tasks; /* copies under way */
    _Atomic bool planned;   /* the worker is done */
};

/* Empties a round whose epoch, plan and windows are set. */
void round_reset(struct round *round, struct windows *windows);

/* Pool task: counts, fills and arrivals; indices, keys, validity and held fields into the local
 * slots. */
void round_plan_task(struct pool_worker *worker, void *round, uint64_t begin, uint64_t end);

/* The counts alone; touches no slot. Main thread, while stopping. */
void round_plan_counts(struct round *round);

/* Pool tasks: copy fills or arrivals [begin, end). */
void round_fill_task(struct pool_worker *worker, void *round, uint64_t begin, uint64_t end);
void round_scatter_task(struct pool_worker *worker, void *round, uint64_t begin, uint64_t end);

#endif
