/* What one round moves where: worked out by a worker, then carried out by workers.
 *
 * A round's samples reach a trainer's slot on one of two ways:
 *
 *     row  --fill-->  slot                                      its reader is the trainer's reader
 *     row  --fill-->  send buffer  ~~~  receive buffer  --scatter-->  slot
 *
 * Sender and receiver count in the same order (by position), so that neither has to tell the other
 * what is in a message.
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

enum { FILL_RECORD = UINT32_MAX };

/* One of my samples: from its row to a slot, or to a record of the send buffer. */
struct fill {
    const int32_t *buffer; /* the row's buffer, read once the row is claimed */
    unsigned char *base;   /* slot or record */
    uint32_t offset;       /* of the sample in its row */
    uint32_t seat;         /* of the sample in the slot's batch; FILL_RECORD for a record */
};

/* One sample that comes from another reader: from a record of the receive buffer to a slot. */
struct arrival {
    unsigned char *base; /* slot */
    uint32_t seat;
    uint32_t source; /* reader */
    uint64_t record; /* in the receive buffer */
};

/* Where the fields lie in rows, records and slots. */
struct round_field {
    size_t field; /* index in the dataset */
    size_t bytes; /* of one sample */
    size_t row_offset, record_offset, slot_offset;
};
struct round_fields {
    size_t row_count, held_count;
    struct round_field row[DATASET_MAX_FIELDS];
    struct round_field held[DATASET_MAX_FIELDS];
};
void round_fields_init(struct round_fields *ret_fields, const struct dataset *dataset,
                       const struct ring_layout *layout);

struct round {
    enum round_state state;
    uint64_t serial;
    struct round_reach reach; /* of `serial` */
    struct windows *windows;
    struct fill *fills;
    uint64_t fill_count, fill_next;
    struct arrival *arrivals;
    uint64_t arrival_count, scatter_next;
    unsigned char *send;
    const unsigned char *received;
    struct exchange_counts counts;
    const struct round_fields *fields;
    const struct job *job;
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
