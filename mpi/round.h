/* One round: which samples it moves, and where. A worker plans it (round_plan.h), workers copy its
 * samples (round_copy.h), the main thread sends what is not copied (transfer.h).
 *
 * A round's samples reach a trainer's slot in one of three ways; the last two differ by field, as
 * the exchange settles by size:
 *
 *     row  --fill-->  slot                                      its reader is the trainer's reader
 *     row  --fill-->  send buffer  ~~~  receive buffer  --scatter-->  slot
 *     row  ~~~  slot                                            zero-copy
 */
#ifndef PENSTOCK_MPI_ROUND_H
#define PENSTOCK_MPI_ROUND_H

#include "exchange.h"
#include "job.h"
#include "round_fields.h"
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
    uint64_t sent_next;  /* zero-copy fields: the fill behind those whose rows are not needed any
                          * more */
    uint64_t sent_count; /* of these, how many are remote */
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

#endif
