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
    LIMIT_PARTS = 4, /* of the limit, that rounds of several steps have */
    LEAST_IN_FLIGHT = 2,
    ALONE_IN_FLIGHT = 3,
    ALONE_ROUND_BYTES = 2 << 20,
    ALONE_WORKER_BYTES = 512 << 10
};

/* Readers list the samples of all rounds in flight, and of the next one, before they are due. */
enum { AHEAD_BYTES = 160 << 20 };

/* What a shape is chosen from. */
struct choice {
    const struct plan *plan;
    const struct round_peers *peers;
    const struct round_record *record;
    uint64_t limit;
    uint64_t trainers; /* of a reader, at most */
};

/* What one reader has in its buffers for a round: to send, and received. */
static uint64_t buffer_bytes(const struct choice *c, struct round_shape shape)
{
    const struct plan *plan = c->plan;
    uint64_t copies = max_u32(c->peers->copies, 1);
    uint64_t sent = round_max_sent(plan, shape);
    uint64_t received = round_max_received(plan, shape, c->trainers);
    uint64_t positions = mul_sat(shape.steps_per_round, plan->global_batch);
    uint64_t trailers =
        add_sat(mul_sat(copies, plan_ragged_trailer(&c->record->ragged, plan, positions, sent)),
                plan_ragged_trailer(&c->record->ragged, plan, positions, received));
    return add_sat(mul_sat(add_sat(mul_sat(copies, sent), received), c->record->packed_bytes),
                   trailers);
}

/* Rounds with room for whatever a reader may have, and with a capacity. */
static struct round_shape whole_shape(uint64_t steps, uint64_t stripes)
{
    return (struct round_shape){.steps_per_round = (uint32_t)steps,
                                .stripes_per_step = (uint32_t)stripes,
                                .in_flight = LEAST_IN_FLIGHT};
}

static struct round_shape shape_of(const struct choice *c, uint64_t steps, uint64_t stripes)
{
    struct round_shape shape = whole_shape(steps, stripes);
    shape.capacity = round_capacity_expected(c->plan, c->peers, (double)steps / (double)stripes,
                                             round_max_records(c->plan, shape));
    return shape;
}

/* One record for each trainer, in as many passes as it takes. */
static struct round_shape least_shape(const struct choice *c)
{
    struct round_shape shape = shape_of(c, 1, c->plan->batch);
    uint64_t parts = max_u32(c->peers->copies, 1) + UINT64_C(1);
    uint64_t most = max_u64(c->limit / mul_sat(parts, c->record->packed_bytes), 1);
    if (buffer_bytes(c, shape) <= c->limit)
        return shape;
    shape.capacity = (struct round_capacity){
        .listed = round_max_listed(c->plan, shape), .sent = most, .received = most};
    return shape;
}

/* A step that is larger than the limit is cut so that each trainer's slice is as large as still
 * fits. */
static enum status stripe_step(const struct choice *c, struct round_shape *ret_shape,
                               struct error *err)
{
    const struct plan *plan = c->plan;
    uint64_t least = min_u64(mul_sat(plan->trainer_count, c->record->packed_bytes),
                             buffer_bytes(c, shape_of(c, 1, plan->batch)));
    if (least > c->limit)
        return error_set(err, STATUS_INVALID,
                         "exchange.buffer_limit %s is below one record of %s for %s: raise "
                         "it to at least %s",
                         size_format(c->limit).text, size_format(c->record->packed_bytes).text,
                         count_each(plan->trainer_count, "trainer").text, size_format(least).text);
    uint64_t low = 1, high = plan->batch; /* too few stripes, and enough */
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(buffer_bytes(c, shape_of(c, 1, middle)) > c->limit ? &low : &high) = middle;
    }
    *ret_shape = high < plan->batch ? shape_of(c, 1, high) : least_shape(c);
    return STATUS_OK;
}

static enum status check_steps(const struct choice *c, uint32_t steps, uint64_t most_slots,
                               struct error *err)
{
    if (steps > most_slots)
        return error_set(
            err, STATUS_INVALID,
            "exchange.steps_per_round %u: at most half of delivery.slots, which is %llu here",
            steps, (unsigned long long)most_slots);
    if (steps > 1 && buffer_bytes(c, shape_of(c, steps, 1)) > c->limit)
        return error_set(err, STATUS_INVALID,
                         "exchange.steps_per_round %u: steps of %s exceed exchange.buffer_limit %s",
                         steps, size_format(buffer_bytes(c, shape_of(c, 1, 1))).text,
                         size_format(c->limit).text);
    return STATUS_OK;
}

/* Samples of unequal lengths are not cut into stripes. */
static enum status refuse_step(uint64_t step_bytes, uint64_t limit, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "exchange.buffer_limit %s is below a step of the longest samples, of which a "
                     "reader has %s with its ragged fields: raise the limit to at least %lluMiB, "
                     "or lower batch.global_size",
                     size_format(limit).text, size_format(step_bytes).text,
                     (unsigned long long)size_divide_up(step_bytes, UINT64_C(1) << 20));
}

/* Chance decides how much each reader sends. The more rounds are under way, the rarer a link stands
 * idle. */
static uint32_t rounds_in_flight(const struct choice *c, struct round_shape shape)
{
    uint64_t bytes = max_u64(buffer_bytes(c, shape), 1);
    uint64_t listed =
        mul_sat(mul_sat(shape.steps_per_round, c->plan->global_batch), sizeof(struct round_item));
    uint64_t parts = round_has_passes(shape) && shape.steps_per_round > 1 ? 2 : 1;
    uint64_t ahead = max_u64(AHEAD_BYTES / listed, 1) - 1;
    uint64_t rounds = min_u64(c->limit / parts / bytes, ahead);
    return (uint32_t)min_u64(max_u64(rounds, LEAST_IN_FLIGHT), ROUND_MAX_IN_FLIGHT);
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

/* As many steps as make messages of the size that is wanted, with lists that are not too long. */
static uint64_t wanted_steps(const struct choice *c, uint64_t most_slots)
{
    const struct plan *plan = c->plan;
    uint64_t pairs = (uint64_t)c->peers->readers * c->peers->readers;
    uint64_t bytes = max_u64(add_sat(c->record->bytes, c->record->ragged.mean_trailer_bytes), 1);
    uint64_t steps = size_divide_up(mul_sat(pairs, PAIR_MESSAGE_BYTES),
                                    max_u64(sent_bytes(plan, c->peers->readers, bytes), 1));
    uint64_t listed = mul_sat(plan->global_batch, sizeof(struct round_item));
    uint64_t ahead = max_u64(AHEAD_BYTES / (LEAST_IN_FLIGHT + 1) / listed, 1);
    return min_u64(min_u64(min_u64(steps, most_slots), plan->steps_per_epoch), ahead);
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

/* With several readers, rounds of so many steps, or of fewer where they are not `given`. */
static enum status choose_shape(const struct choice *c, uint64_t steps, bool given,
                                struct round_shape *ret_shape, struct error *err)
{
    uint64_t part = c->limit / LIMIT_PARTS;
    struct round_shape shape = whole_shape(steps, 1);
    if (buffer_bytes(c, shape) > part || c->peers->times_mean > 0)
        shape = shape_of(c, steps, 1);
    while (!given && steps > 1 && buffer_bytes(c, shape) > part)
        shape = shape_of(c, --steps, 1);
    uint64_t bytes = buffer_bytes(c, shape);
    if (bytes > c->limit && c->record->ragged.sample_steps > 0)
        return refuse_step(bytes, c->limit, err);
    if (bytes > c->limit)
        return stripe_step(c, ret_shape, err);
    shape.in_flight = rounds_in_flight(c, shape);
    *ret_shape = shape;
    return STATUS_OK;
}

enum status round_shape_choose(const struct plan *plan, const struct round_peers *peers,
                               uint32_t slot_count, const struct round_record *record,
                               uint32_t steps_per_round, uint64_t buffer_limit_bytes,
                               struct round_shape *ret_shape, struct error *err)
{
    uint64_t most_slots = slot_count < 4 ? 1 : slot_count / 2;
    if (peers->readers == 1) {
        *ret_shape = whole_shape(choose_steps_alone(plan, most_slots, record, steps_per_round), 1);
        ret_shape->in_flight = ALONE_IN_FLIGHT;
        return STATUS_OK;
    }
    const struct choice choice = {
        .plan = plan,
        .peers = peers,
        .record = record,
        .limit = buffer_limit_bytes,
        .trainers =
            peers->rings ? peers->rings : size_divide_up(plan->trainer_count, peers->readers)};
    enum status status = check_steps(&choice, steps_per_round, most_slots, err);
    if (status != STATUS_OK)
        return status;
    uint64_t steps = steps_per_round ? steps_per_round : wanted_steps(&choice, most_slots);
    return choose_shape(&choice, steps, steps_per_round > 0, ret_shape, err);
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

uint64_t round_max_listed(const struct plan *plan, struct round_shape shape)
{
    return round_has_passes(shape) ? shape.capacity.listed : round_max_records(plan, shape);
}

uint64_t round_max_sent(const struct plan *plan, struct round_shape shape)
{
    return round_has_passes(shape) ? shape.capacity.sent : round_max_records(plan, shape);
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
    uint64_t all =
        plan->locality == 0 || shape.stripes_per_step == 1
            ? mul_sat(trainer_count, round_max_trainer_records(plan, shape))
            : min_u64(mul_sat(trainer_count, plan->batch), round_max_records(plan, shape));
    return round_has_passes(shape) ? min_u64(all, shape.capacity.received) : all;
}

/* Into slices of the trainers' batches. */
static bool is_split(const struct plan *plan, const struct plan_round *round)
{
    return round->stripe_count > 1 && !locality_matters(plan);
}

struct round_range round_range_at(const struct plan *plan, const struct plan_round *round)
{
    uint64_t first = plan_step_first(plan, round->first_step);
    if (round->stripe_count == 1 || is_split(plan, round))
        return (struct round_range){first, plan_step_first(plan, round->end_step)};
    struct round_slice stripe = round_stripe_at(plan, round, round->first_step);
    return (struct round_range){first + stripe.first, first + stripe.end};
}

uint32_t round_range_count(const struct plan *plan, const struct plan_round *round)
{
    return is_split(plan, round) ? plan->trainer_count : 1;
}

struct round_range round_range_number(const struct plan *plan, const struct plan_round *round,
                                      uint32_t number)
{
    if (!is_split(plan, round))
        return round_range_at(plan, round);
    struct plan_local_batch local = plan_local_batch_at(plan, round->first_step, number);
    struct round_slice slice = round_slice_at(plan, round, round->first_step, number);
    return (struct round_range){local.first + slice.first, local.first + slice.end};
}

uint64_t round_max_matched(const struct plan *plan, struct round_shape shape)
{
    return mul_sat(shape.steps_per_round, plan->global_batch);
}
