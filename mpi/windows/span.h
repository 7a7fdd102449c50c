/* Numbers rounds and steps through all epochs of a run. Serial 0 is the first one after
 * the start, or after a resume. Pure arithmetic over the plan. Main thread only where
 * plan_epoch_init() is called. */
#ifndef PENSTOCK_MPI_WINDOWS_SPAN_H
#define PENSTOCK_MPI_WINDOWS_SPAN_H

#include "job/session.h"
#include "plan/order/mix.h"

/* A series with `per_epoch` elements in each epoch, which starts at element `first` of
 * `first_epoch`. */
struct span {
    uint64_t per_epoch;
    uint64_t first_epoch, first;
    uint64_t count; /* over all epochs */
};

/* The epoch of an element, and its index within the epoch. */
struct span_index {
    uint64_t epoch, index;
};

static inline struct span_index span_at(const struct span *span, uint64_t serial)
{
    uint64_t absolute = span->first + serial;
    return (struct span_index){span->first_epoch + absolute / span->per_epoch,
                               absolute % span->per_epoch};
}

static inline uint64_t span_serial(const struct span *span, uint64_t epoch, uint64_t index)
{
    return (epoch - span->first_epoch) * span->per_epoch + index - span->first;
}

static inline struct span span_of(uint64_t per_epoch, uint64_t first, uint64_t first_epoch,
                                  uint64_t epochs)
{
    return (struct span){.per_epoch = per_epoch,
                         .first_epoch = first_epoch,
                         .first = first,
                         .count = (epochs - first_epoch) * per_epoch - first};
}

/* The rounds, from the one that carries the first step. */
struct span span_rounds(const struct session *session);

/* What a round needs of one source: draws that follow one another, and the windows that hold them.
 * A draw is a sample, counted through all epochs: without a mix epoch * samples + position, padding
 * resolved. */
struct reach_source {
    uint64_t first_draw, end_draw;
    uint64_t first_window, end_window; /* set by windows_find() */
};

/* One round of the run. */
struct round_reach {
    struct plan_epoch epoch; /* of a mix, its number and plan alone */
    struct plan_round round; /* without the steps before a resumed run's start */
    uint64_t absolute_round; /* as in struct round_item */
    uint64_t epoch_begin;    /* absolute position of the epoch's first */
    uint64_t first_sequence; /* serial of first_step */
    uint32_t source_count;
    struct reach_source sources[MIX_MAX_SOURCES]; /* [source_count] */
};

/* But for the windows. plan_epoch_init() of the round's epoch, and plan_step_draws(). */
void round_reach_at(struct round_reach *ret_reach, const struct session *session, uint64_t serial);

#endif
