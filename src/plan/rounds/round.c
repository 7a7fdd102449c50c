/* See round.h: shapes of rounds and what each carries. The items of a window are in items.c. */
#include "plan/rounds/round.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/order/mix.h"
#include "plan/rounds/locality.h"

#include <assert.h>

/* One reader exchanges nothing: a round is being copied, one has its copies queued, and one is
 * being planned or published. Workers copy a round in a tenth of a millisecond or more: with
 * smaller ones they wait for one another's wake-ups most of the time. Each has copies to make. */
enum {
    PAIR_MESSAGE_BYTES = 1 << 20,
    LEAST_IN_FLIGHT = 2,
    ALONE_IN_FLIGHT = 3,
    ALONE_ROUND_BYTES = 2 << 20,
    ALONE_WORKER_BYTES = 512 << 10
};

/* A step that is larger than the limit is cut so that each trainer's slice is as large as still
 * fits. */
static enum status stripe_step(const struct plan *plan, uint64_t record_bytes, uint64_t limit,
                               struct round_shape *ret_shape, struct error *err)
{
    uint64_t least = mul_sat(plan->trainer_count, record_bytes);
    uint64_t records = limit / least;
    if (records == 0)
        return error_set(err, STATUS_INVALID,
                         "exchange.buffer_limit %s is below one record of %s for %s: raise "
                         "it to at least %s",
                         size_format(limit).text, size_format(record_bytes).text,
                         count_each(plan->trainer_count, "trainer").text, size_format(least).text);
    *ret_shape =
        (struct round_shape){.steps_per_round = 1,
                             .stripes_per_step = (uint32_t)size_divide_up(plan->batch, records),
                             .in_flight = LEAST_IN_FLIGHT};
    return STATUS_OK;
}

/* Packed bytes of so many steps at most. */
static uint64_t packed_bytes(const struct plan *plan, const struct round_record *record,
                             uint64_t steps)
{
    uint64_t positions = mul_sat(steps, plan->global_batch);
    return add_sat(mul_sat(positions, record->packed_bytes),
                   plan_ragged_trailer(&record->ragged, plan, positions, positions));
}

static enum status check_steps(const struct plan *plan, const struct round_record *record,
                               uint32_t steps, uint64_t most_slots, uint64_t limit,
                               struct error *err)
{
    if (steps > most_slots)
        return error_set(
            err, STATUS_INVALID,
            "exchange.steps_per_round %u: at most half of delivery.slots, which is %llu here",
            steps, (unsigned long long)most_slots);
    if (steps > 1 && packed_bytes(plan, record, steps) > limit)
        return error_set(err, STATUS_INVALID,
                         "exchange.steps_per_round %u: steps of %s exceed exchange.buffer_limit %s",
                         steps, size_format(packed_bytes(plan, record, 1)).text,
                         size_format(limit).text);
    return STATUS_OK;
}

/* Samples of unequal lengths are not cut into stripes. */
static enum status refuse_step(uint64_t step_bytes, uint64_t limit, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "exchange.buffer_limit %s is below a step of the longest samples, which takes "
                     "%s with its ragged fields: raise the limit to at least %lluMiB, or lower "
                     "batch.global_size",
                     size_format(limit).text, size_format(step_bytes).text,
                     (unsigned long long)size_divide_up(step_bytes, UINT64_C(1) << 20));
}

/* Chance decides how much each reader sends. The more rounds are under way, the rarer a link stands
 * idle. */
static uint32_t rounds_in_flight(uint64_t packed_bytes, uint64_t limit_bytes)
{
    if (packed_bytes == 0)
        return ROUND_MAX_IN_FLIGHT;
    uint64_t rounds = mul_sat(LEAST_IN_FLIGHT, limit_bytes) / packed_bytes;
    return (uint32_t)min_u64(rounds, ROUND_MAX_IN_FLIGHT);
}

/* What goes from reader to reader in a step: all samples, or with order.placement local those that
 * a reader has too many of (docs/inside/order.md). */
static uint64_t sent_bytes(const struct plan *plan, uint32_t reader_count, uint64_t bytes)
{
    uint64_t all = mul_sat(plan->global_batch, bytes);
    if (!plan->locality)
        return all;
    return (uint64_t)((double)all * locality_moved(plan, reader_count));
}

/* As many steps as make messages of the size that is wanted, and fit. */
static uint64_t choose_steps(const struct plan *plan, uint32_t reader_count, uint64_t most_slots,
                             const struct round_record *record, uint64_t limit)
{
    uint64_t pairs = (uint64_t)reader_count * reader_count;
    uint64_t bytes = max_u64(add_sat(record->bytes, record->ragged.mean_trailer_bytes), 1);
    uint64_t steps = size_divide_up(mul_sat(pairs, PAIR_MESSAGE_BYTES),
                                    max_u64(sent_bytes(plan, reader_count, bytes), 1));
    steps = min_u64(min_u64(steps, most_slots), plan->steps_per_epoch);
    while (steps > 1 && packed_bytes(plan, record, steps) > limit)
        steps--;
    return steps;
}

uint64_t round_alone_bytes(uint32_t worker_count)
{
    return max_u64(ALONE_ROUND_BYTES, (uint64_t)worker_count * ALONE_WORKER_BYTES);
}

/* Of one reader. */
static uint64_t choose_steps_alone(const struct plan *plan, uint64_t most_slots,
                                   const struct round_record *record, uint32_t steps_per_round)
{
    uint64_t bytes = max_u64(add_sat(record->bytes, record->ragged.mean_trailer_bytes), 1);
    uint64_t steps = round_alone_bytes(record->worker_count) / mul_sat(plan->global_batch, bytes);
    if (steps_per_round > 0)
        steps = steps_per_round;
    return max_u64(min_u64(min_u64(steps, most_slots), plan->steps_per_epoch), 1);
}

enum status round_shape_choose(const struct plan *plan, uint32_t reader_count, uint32_t slot_count,
                               const struct round_record *record, uint32_t steps_per_round,
                               uint64_t buffer_limit_bytes, struct round_shape *ret_shape,
                               struct error *err)
{
    uint64_t most_slots = slot_count < 4 ? 1 : slot_count / 2;
    uint64_t step_bytes = packed_bytes(plan, record, 1);
    if (reader_count == 1) {
        *ret_shape = (struct round_shape){.steps_per_round = (uint32_t)choose_steps_alone(
                                              plan, most_slots, record, steps_per_round),
                                          .stripes_per_step = 1,
                                          .in_flight = ALONE_IN_FLIGHT};
        return STATUS_OK;
    }
    enum status status =
        check_steps(plan, record, steps_per_round, most_slots, buffer_limit_bytes, err);
    if (status != STATUS_OK)
        return status;
    if (step_bytes > buffer_limit_bytes)
        return record->ragged.sample_steps > 0
                   ? refuse_step(step_bytes, buffer_limit_bytes, err)
                   : stripe_step(plan, record->packed_bytes, buffer_limit_bytes, ret_shape, err);
    uint64_t steps = steps_per_round
                         ? steps_per_round
                         : choose_steps(plan, reader_count, most_slots, record, buffer_limit_bytes);
    *ret_shape = (struct round_shape){
        .steps_per_round = (uint32_t)steps,
        .stripes_per_step = 1,
        .in_flight = rounds_in_flight(packed_bytes(plan, record, steps), buffer_limit_bytes)};
    return STATUS_OK;
}

uint64_t plan_ragged_trailer(const struct plan_ragged *ragged, const struct plan *plan,
                             uint64_t positions, uint64_t records)
{
    if (ragged->page_bytes == 0)
        return 0;
    uint64_t most;
    if (plan->mix) {
        struct plan_mix_most draws;
        plan_mix_most(plan, positions, &draws);
        most = ragged->most_mixed_trailer(ragged->dataset, draws.draws, draws.copies, records);
    } else {
        uint64_t copies = plan_most_copies(plan, positions);
        most =
            mul_sat(copies, ragged->most_trailer(ragged->dataset, size_divide_up(records, copies)));
    }
    if (plan->cuts.items == 0)
        return most;
    uint64_t steps = size_divide_up(positions, plan->global_batch);
    return min_u64(most, mul_sat(steps, ragged->step_trailer_bytes));
}

uint64_t rounds_per_epoch(const struct plan *plan, struct round_shape shape)
{
    return size_divide_up(plan->steps_per_epoch, shape.steps_per_round) * shape.stripes_per_step;
}

uint64_t round_absolute(const struct plan *plan, struct round_shape shape, uint64_t epoch,
                        uint64_t index)
{
    return epoch * rounds_per_epoch(plan, shape) + index;
}

struct plan_round round_at(const struct plan *plan, struct round_shape shape, uint64_t index)
{
    uint64_t first_step = index / shape.stripes_per_step * shape.steps_per_round;
    assert(first_step < plan->steps_per_epoch);
    return (struct plan_round){
        .index = index,
        .first_step = first_step,
        .end_step = min_u64(first_step + shape.steps_per_round, plan->steps_per_epoch),
        .stripe = (uint32_t)(index % shape.stripes_per_step),
        .stripe_count = shape.stripes_per_step,
    };
}

uint64_t round_max_records(const struct plan *plan, struct round_shape shape)
{
    return round_max_trainer_records(plan, shape) * plan->trainer_count;
}

uint64_t round_max_trainer_records(const struct plan *plan, struct round_shape shape)
{
    return size_divide_up(plan->batch, shape.stripes_per_step) * shape.steps_per_round;
}

struct round_slice round_slice_at(const struct plan *plan, const struct plan_round *round,
                                  uint64_t step, uint32_t trainer)
{
    uint64_t count = plan_local_batch_at(plan, step, trainer).count;
    return (struct round_slice){
        .first = (uint32_t)(round->stripe * count / round->stripe_count),
        .end = (uint32_t)((round->stripe + UINT64_C(1)) * count / round->stripe_count),
    };
}

/* Stripe p of c samples is [p*c/P, (p+1)*c/P): the same division as of a step among trainers. */
uint64_t round_of(const struct plan *plan, struct round_shape shape,
                  struct plan_recipient recipient)
{
    if (shape.stripes_per_step == 1)
        return recipient.step / shape.steps_per_round;
    uint64_t count = plan_local_batch_at(plan, recipient.step, recipient.trainer).count;
    uint64_t stripe = ((recipient.offset + UINT64_C(1)) * shape.stripes_per_step - 1) / count;
    return recipient.step * shape.stripes_per_step + stripe;
}

struct round_slice round_stripe_at(const struct plan *plan, const struct plan_round *round,
                                   uint64_t step)
{
    uint64_t samples = plan_step_samples(plan, step);
    return (struct round_slice){
        .first = (uint32_t)(round->stripe * samples / round->stripe_count),
        .end = (uint32_t)((round->stripe + UINT64_C(1)) * samples / round->stripe_count),
    };
}

uint64_t round_of_position(const struct plan *plan, struct round_shape shape, uint64_t position)
{
    uint64_t step = plan_step_of(plan, position);
    if (shape.stripes_per_step == 1)
        return step / shape.steps_per_round;
    uint64_t offset = position - plan_step_first(plan, step);
    uint64_t samples = plan_step_samples(plan, step);
    return step * shape.stripes_per_step + ((offset + 1) * shape.stripes_per_step - 1) / samples;
}

uint64_t round_max_received(const struct plan *plan, struct round_shape shape,
                            uint64_t trainer_count)
{
    if (plan->locality == 0 || shape.stripes_per_step == 1)
        return mul_sat(trainer_count, round_max_trainer_records(plan, shape));
    return min_u64(mul_sat(trainer_count, plan->batch), round_max_records(plan, shape));
}

uint64_t round_max_matched(const struct plan *plan, struct round_shape shape)
{
    return mul_sat(shape.steps_per_round, plan->global_batch);
}
