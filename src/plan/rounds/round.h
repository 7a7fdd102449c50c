/* Rounds: what one exchange carries, and who sends how much to whom.
 *
 * A round carries `steps_per_round` whole steps, or, where one step is larger than the buffers may
 * be, one of `stripes_per_step` stripes of a step: the same slice of each trainer's batch, so that
 * all receivers stay evenly loaded. Never both. Rounds do not cross epochs.
 *
 * Sender and receiver work out the same counts on their own: both know the order and the owners of
 * rows, and both go through a round's positions in ascending order. Between reader i and reader j,
 * records travel in order of position; a record's index in the message is its rank in that order.
 */
#ifndef PENSTOCK_PLAN_ROUNDS_ROUND_H
#define PENSTOCK_PLAN_ROUNDS_ROUND_H

#include "plan/order/plan.h"
#include "plan/rounds/capacity.h"
#include "plan/rounds/ragged_limits.h"

struct round_shape {
    uint32_t steps_per_round;  /* 1 or more */
    uint32_t stripes_per_step; /* 1 or more; > 1 only with steps_per_round == 1 */
    uint32_t in_flight;        /* rounds under way at once, ROUND_MAX_IN_FLIGHT at most */
    struct round_capacity capacity;
};
enum { ROUND_MAX_IN_FLIGHT = 4 };

/* Fragments of this size and more are zero-copy, a message each, and need no buffers;
 * others are packed into one message for each pair of readers. docs/inside/exchange.md has the
 * measurement. */
enum { ROUND_ZERO_COPY_BYTES = 32 * 1024 };

/* Larger ones are cut into messages of this size: MPI may copy a whole message in one call. */
enum { ROUND_MESSAGE_BYTES = 16 << 20 };

/* What a sample is when it is sent. */
struct round_record {
    uint64_t bytes;            /* of its record */
    uint64_t packed_bytes;     /* of these, that are packed */
    struct plan_ragged ragged; /* its trailer, which is packed, too */
    uint32_t worker_count;     /* threads of a reader, which copy it */
};

/* Chooses the shape: messages of at least about 1 MiB per pair of readers, at most half the slots
 * of a ring. A reader's buffers for a round are at most a quarter of `buffer_limit_bytes`, where
 * that is more than one step, and never more than all of it; all samples may be the longest ones.
 * Where there is room for whatever a reader may have of such a round, it has that; else rounds have
 * a capacity. `steps_per_round` 0 means auto. With one reader nothing is exchanged: a round is one
 * step, or as many as come to about round_alone_bytes() and fit in half the slots, and three rounds
 * are in flight. With more readers two rounds are in flight, and up to four if half the buffer
 * limit has room for them. INVALID, with more than one reader: steps_per_round beyond half the
 * slots or the limit; one record per trainer exceeds the limit; with ragged fields, which know no
 * stripes, a step does. */
MUST_USE enum status round_shape_choose(const struct plan *plan, const struct round_peers *peers,
                                        uint32_t slot_count, const struct round_record *record,
                                        uint32_t steps_per_round, uint64_t buffer_limit_bytes,
                                        struct round_shape *ret_shape, struct error *err);

/* What a round of one reader has, with so many workers to copy its samples: 2 MiB, or 512 KiB each.
 */
uint64_t round_alone_bytes(uint32_t worker_count);

uint64_t rounds_per_epoch(const struct plan *plan, struct round_shape shape);

/* A position, and a round, of an epoch as they are in struct round_item. */
static inline uint64_t round_absolute_position(const struct plan *plan, uint64_t epoch,
                                               uint64_t position)
{
    return epoch * plan->position_count + position;
}
uint64_t round_absolute(const struct plan *plan, struct round_shape shape, uint64_t epoch,
                        uint64_t index);

/* Round `index` of an epoch: steps [first_step, end_step), and of each trainer's batch the samples
 * from stripe*count/stripe_count to (stripe+1)*count/stripe_count. */
struct plan_round {
    uint64_t index;
    uint64_t first_step, end_step;
    uint32_t stripe, stripe_count;
};
struct plan_round round_at(const struct plan *plan, struct round_shape shape, uint64_t index);

/* The most records that any round of this shape carries, over all pairs; and to one of `trainers`.
 */
uint64_t round_max_records(const struct plan *plan, struct round_shape shape);
uint64_t round_max_trainer_records(const struct plan *plan, struct round_shape shape);

/* The most records of a pass: of one reader's rows, and of these to other readers, both without
 * copies for further readers of a group; and to a reader with so many trainers. With
 * order.placement local a stripe may hold any part of a trainer's batch. */
uint64_t round_max_listed(const struct plan *plan, struct round_shape shape);
uint64_t round_max_sent(const struct plan *plan, struct round_shape shape);
uint64_t round_max_received(const struct plan *plan, struct round_shape shape,
                            uint64_t trainer_count);

/* Whether readers agree on the passes of each round. */
static inline bool round_has_passes(struct round_shape shape)
{
    return shape.capacity.listed > 0;
}

/* The positions of the epoch among which the round's are. */
struct round_range round_range_at(const struct plan *plan, const struct plan_round *round);

/* The round's positions in ascending order: one range or, of a stripe, one for each trainer. */
uint32_t round_range_count(const struct plan *plan, const struct plan_round *round);
struct round_range round_range_number(const struct plan *plan, const struct plan_round *round,
                                      uint32_t number);

/* The slice [first, end) of a trainer's batch in `step` that the round carries, as offsets into the
 * batch. */
struct round_slice {
    uint32_t first, end;
};
struct round_slice round_slice_at(const struct plan *plan, const struct plan_round *round,
                                  uint64_t step, uint32_t trainer);

/* Where the locality matters (locality.h) a round carries positions that follow one another: those
 * of `step`, counted from the step's first, are [first, end). */
struct round_slice round_stripe_at(const struct plan *plan, const struct plan_round *round,
                                   uint64_t step);

/* Where the locality matters: the most positions whose destinations are found together, those of a
 * round's steps, or of the step that a round has a stripe of. */
uint64_t round_max_matched(const struct plan *plan, struct round_shape shape);

/* The round that carries a position, where the locality matters. */
uint64_t round_of_position(const struct plan *plan, struct round_shape shape, uint64_t position);

/* The round that carries a recipient's sample, where the locality does not matter. */
uint64_t round_of(const struct plan *plan, struct round_shape shape,
                  struct plan_recipient recipient);

/* One sample that a reader sends: from its row to a trainer. Positions and rounds count through all
 * epochs. */
struct round_item {
    uint64_t position;   /* epoch * position_count + position of the epoch */
    uint64_t round;      /* epoch * rounds_per_epoch() + index in the epoch */
    uint32_t window_row; /* of its row */
    uint32_t offset;     /* the sample's number in its row */
};

/* Rows [first, end) of a window. */
struct round_rows {
    uint64_t first, end;
};
static inline struct round_rows round_rows_all(const struct plan_window *window)
{
    return (struct round_rows){0, window->row_count};
}

/* Rows from `first` on of which `reader` has `capacity` items at most, with the capacity of
 * round_window_expected() or more: one row at least. */
struct round_rows round_rows_from(const struct plan *plan, const struct plan_window *window,
                                  const uint16_t *owners, uint32_t reader, uint64_t first,
                                  uint64_t capacity);

/* All samples of these rows of `window` that `reader` owns, sorted by (round, position): what it
 * must send or deliver, in the order it is due. Padding's repeats included, undelivered trailers
 * left out. `epoch` and `window` may be of a source of a mix (mix.h): then the samples are placed
 * by their draws, in any epoch of the run. `ret_items` must hold as many as round_rows_from()
 * allows, or round_window_capacity() items. Returns their number. `owners` as from
 * assigner_window(). */
uint64_t round_window_items(const struct plan_epoch *epoch, const struct plan_window *window,
                            struct round_shape shape, const uint16_t *owners, uint32_t reader,
                            struct round_rows rows, struct round_item *ret_items);

#endif
