/* One round: its samples, and where each sample goes. Where readers agree on passes (agreement.h),
 * a round of several is listed, filled and sent pass by pass. A worker plans the round
 * (round_plan.h) and writes what does not come with rows (round_dress.h), workers copy samples
 * (round_copy.h), and the main thread sends zero-copy fragments (transfer.h).
 *
 * A sample reaches its trainer's slot on one of three ways. `local`: the row's reader is the
 * trainer's. Between two readers the size of a fragment decides which (run/fragments.h):
 *
 *     local      row --fill--> slot
 *     packed     row --fill--> send buffer ~~~ receive buffer --scatter--> slot
 *     zero-copy  row ~~~ slot
 *
 * Items of ragged fields go the first or the second way, beside the rest of their sample: as its
 * trailer (run/trailers.h).
 */
#ifndef PENSTOCK_MPI_ROUNDS_ROUND_H
#define PENSTOCK_MPI_ROUNDS_ROUND_H

#include "job/session.h"
#include "plan/rounds/locality.h"
#include "rounds/exchange.h"
#include "run/fragment_sources.h"
#include "run/trailers.h"
#include "windows/item_merge.h"
#include "windows/places.h"
#include "windows/span.h"
#include "windows/windows.h"

#include "base/memory.h"

#include <stddef.h>

enum round_state {
    ROUND_PLANNING,
    ROUND_FILLING,
    ROUND_FILLED,
    ROUND_EXCHANGING,
    ROUND_SCATTERING,
    ROUND_COMPLETE,
    ROUND_TRANSFORMING
};

/* What the lists have, as soon as the round is planned. */
enum round_lists {
    LISTS_ROUND, /* all, if it fits: a round of one pass is sent by it */
    LISTS_NOTHING,
    LISTS_PASS, /* the pass that is under way, of several */
};

enum { FILL_REMOTE = UINT32_MAX };

/* One sample of this reader's rows, on its way to a slot or to another reader. */
struct fill {
    const int32_t *buffer; /* index of the row's buffer; valid once the row is claimed */
    union {
        unsigned char *slot;
        struct {
            uint32_t reader;
            uint32_t record; /* of the send buffer, in units */
        } remote;
    } to;
    uint32_t offset;      /* of the sample's frame in its row */
    uint32_t batch_index; /* of the sample in the slot's batch; FILL_REMOTE: to another reader */
};

/* One sample that comes from another reader, on its way to a slot. */
struct arrival {
    unsigned char *slot;
    uint32_t batch_index;
    uint16_t reader; /* that it comes from */
    uint16_t kind;   /* of its fragments */
    uint64_t record; /* of the receive buffer, in units */
};

/* What ragged fields add to a fill or an arrival. */
struct round_trailer {
    uint64_t frame; /* the sample's anchor */
    uint64_t at;    /* where its trailer begins in the send or the receive buffer, in units */
    uint32_t table; /* of the sample's slot: see struct round_trailers */
};

/* A round's trailers. The slots of its steps have a table of starts each: of step s of the round
 * and this reader's ring i the table s * ring_count + i. */
struct round_trailers {
    const struct trailer_sources *trailers; /* borrowed from the rounds, and so is */
    struct found_rows *found;               /* of each worker: see round_copy.h */
    struct round_trailer *fills, *arrivals;
    uint64_t *starts; /* [tables][trailers->starts_count] */
    unsigned char *send;
    const unsigned char *received;
    struct exchange_counts counts; /* of units */
};

/* How long a worker took for rounds. Others look at it, and the worker alone writes. */
struct round_times {
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t plan_ns, fill_ns, scatter_ns;
};
static inline void round_time_add(_Atomic uint64_t *time_ns, uint64_t more_ns)
{
    uint64_t before_ns = atomic_load_explicit(time_ns, memory_order_relaxed);
    atomic_store_explicit(time_ns, before_ns + more_ns, memory_order_relaxed);
}

/* The positions of the steps of a round, with order.placement local: `count` from position `first`
 * on. Of a step that is cut into stripes, one table serves all of its rounds: rounds are planned
 * one after another. See round_match.h. */
struct round_matching {
    struct matcher *matcher; /* NULL: a position is its own destination, and the rest is not used */
    uint64_t first, count;
    uint64_t epoch;
    bool is_whole;                    /* all have their destinations */
    struct place_location *locations; /* [round_max_matched()] of each position */
    uint32_t *destinations;           /* [round_max_matched()] in the position's step */
    const struct window **windows;    /* likewise, of a mix; NULL: there is one source */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t taken;     /* of the positions, by workers */
    _Alignas(MEMORY_LINE_BYTES) _Atomic uint64_t looked_up; /* likewise */
    _Atomic uint32_t workers; /* that plan the round, whatever the placement */
};
_Static_assert(offsetof(struct round_matching, taken) % MEMORY_LINE_BYTES == 0 &&
                   offsetof(struct round_matching, looked_up) % MEMORY_LINE_BYTES == 0,
               "what workers write is not on the line of what all read for each position");

/* Three parts, on lines of memory of their own, so that no thread waits for a line that another one
 * writes: what workers read for each sample, what the main thread notes, and what workers write. */
struct round {
    /* Settled with the lane, or by the plan. */
    uint64_t serial;
    struct round_reach reach; /* of `serial` */
    uint64_t passes, pass;    /* how many; 0: not agreed on yet. Which one is under way */
    uint64_t needed;          /* passes of this reader's lists */
    struct round_range range; /* positions of the epoch that are listed: the pass's */
    enum round_lists lists;
    bool is_matched; /* destinations are known as planning begins */
    struct windows *windows;
    struct fill *fills;
    struct fragment_room *rooms; /* of the fills' samples; NULL: no fragment needs to know */
    uint16_t *fill_kinds;        /* likewise, in round.fragments; NULL: there is one kind */
    uint64_t *keys;              /* likewise; NULL: no fragment has a crop */
    uint16_t *fill_uses; /* how many uses of their rows are over with them; NULL: one each */
    uint64_t fill_count; /* while listing: more than there is room for do not fit */
    struct round_matching *matching; /* borrowed from the rounds */
    struct item_merge *merge;        /* likewise */
    struct arrival *arrivals;
    uint64_t arrival_count;
    unsigned char *send;
    const unsigned char *received;
    struct exchange_counts counts;
    struct round_trailers *trailers; /* NULL: there are no ragged fields */
    const struct fragment_sources *fragments;
    uint32_t phase;               /* of its epoch: which steps of fields samples have */
    size_t unit_bytes;            /* in which records are counted: of one, unless sizes differ */
    const uint32_t *record_units; /* [readers] units of a record to that one; NULL: 1 for all */
    const struct job *job;
    const struct session *session;
    struct round_times *times;  /* [workers, and the owner] */
    struct round_capacity most; /* with copies: of the lists, and of the buffers */
    struct trace_track *trace;

    /* The main thread's. */
    _Alignas(MEMORY_LINE_BYTES) enum round_state state;
    uint64_t fill_next, scatter_next; /* those before are handed out */
    uint64_t sent_next; /* zero-copy fragments: index of the first fill whose row is still needed */
    uint64_t sent_count; /* messages of the fills before sent_next */
    uint64_t since_ns;   /* when its state began, as far as that was traced */
    uint64_t posted_ns;  /* when its exchange was posted */

    _Alignas(MEMORY_LINE_BYTES) _Atomic uint32_t tasks; /* plans and pieces of copies under way */
    _Atomic bool planned;                               /* a worker has listed all */
};
_Static_assert(offsetof(struct round, state) % MEMORY_LINE_BYTES == 0 &&
                   offsetof(struct round, tasks) ==
                       offsetof(struct round, state) + MEMORY_LINE_BYTES &&
                   sizeof(struct round) == offsetof(struct round, tasks) + MEMORY_LINE_BYTES,
               "lines of their own");

/* The table of starts of a slot. */
static inline uint64_t *round_starts(const struct round_trailers *trailers, uint32_t table)
{
    return trailers->starts + table * trailers->trailers->of[0]->starts_count;
}

/* How many uses of a row a fill is. A row is expected to be used as often as the most readers may
 * have one of its samples: where fewer do, the first fill of a sample counts for the rest. */
static inline uint32_t round_uses_of(const struct round *round, uint64_t fill)
{
    return round->fill_uses ? round->fill_uses[fill] : 1;
}

/* The kind of a source's samples on their way to a reader's slots. */
static inline uint32_t round_kind(const struct round *round, uint32_t reader, uint32_t source)
{
    uint32_t classes = round->phase * round->fragments->class_count;
    return (classes + round->session->needs.of[reader]) * round->fragments->source_count + source;
}

static inline const struct fragments *round_kind_here(const struct round *round, uint32_t source)
{
    return round->fragments->of[round_kind(round, (uint32_t)round->job->comm.rank, source)];
}

/* The fragments of a fill's sample, and its source. */
static inline const struct fragments *round_fragments_of(const struct round *round, uint64_t fill)
{
    return round->fragments->of[round->fill_kinds ? round->fill_kinds[fill] : 0];
}
static inline uint32_t round_source_of(const struct round *round, uint64_t fill)
{
    return round->fill_kinds ? round->fill_kinds[fill] % round->fragments->source_count : 0;
}

#endif
