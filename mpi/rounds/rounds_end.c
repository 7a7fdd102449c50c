/* Carries out an end that service_end.c has decided: no rounds beyond the agreed step, or rounds
 * without data. See rounds.h. */
#include "rounds/rounds_internal.h"

#include "base/size.h"
#include "rounds/round_plan.h"
#include "rounds/transfer.h"

uint64_t rounds_hold(struct rounds *rounds)
{
    uint64_t stripes = rounds->job->setup.shape.stripes_per_step;
    uint64_t steps_end = size_round_up(rounds->span.first + rounds->opened, stripes);
    rounds_end_at(rounds, steps_end - rounds->span.first);
    rounds->end_is_open = true;
    return rounds->span.count;
}

void rounds_end_at(struct rounds *rounds, uint64_t count)
{
    uint64_t most = span_rounds(rounds->session).count;
    rounds->span.count = count < most ? count : most;
    rounds->end_is_open = false;
}

void rounds_begin_of(const struct rounds *rounds, uint64_t serial, uint64_t *ret_epoch,
                     uint64_t *ret_step)
{
    const struct run_setup *setup = &rounds->job->setup;
    const struct session *session = rounds->session;
    struct span_index at = span_at(&rounds->span, serial);
    *ret_epoch = at.epoch;
    *ret_step = round_at(&setup->plan, setup->shape, at.index).first_step;
    if (at.epoch == session->start_epoch && *ret_step < session->start_step)
        *ret_step = session->start_step;
}

void rounds_end(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step)
{
    rounds_begin_of(rounds, rounds->span.count, ret_epoch, ret_step);
}

void rounds_reached(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step)
{
    rounds_begin_of(rounds, rounds->opened, ret_epoch, ret_step);
}

uint64_t rounds_begun(const struct rounds *rounds)
{
    return rounds->begun;
}

uint64_t rounds_agreed(const struct rounds *rounds)
{
    return rounds->agreement.posted;
}

/* Lists the pass that is under way, if it is not, and posts it without data. */
static void drain_pass(struct rounds *rounds, struct round *round)
{
    bool begun = round->state != ROUND_PLANNING;
    if (round->lists != LISTS_PASS && round->passes > 1) {
        round_reset_pass(round);
        round_plan_counts(round);
    } else if (!atomic_load(&round->planned)) {
        round_plan_counts(round);
    }
    transfer_abandon(rounds->exchange, rounds_lane_index(rounds, round), round, begun);
    rounds->begun += round->pass == 0 && !begun;
    rounds_post(rounds, round);
    round->state = ROUND_EXCHANGING;
}

/* Posts and completes the rest of the oldest round. False: it is not complete. */
static bool drain_round(struct rounds *rounds, struct round *round)
{
    if (!rounds_agree(rounds, round))
        return false;
    for (;;) {
        if (round->state < ROUND_EXCHANGING)
            drain_pass(rounds, round);
        if (round->state == ROUND_EXCHANGING &&
            !exchange_test(rounds->exchange, rounds_lane_index(rounds, round)))
            return false;
        if (round->pass + 1 == round->passes)
            return true;
        round->state = ROUND_PLANNING;
        round->lists = LISTS_NOTHING;
        round->pass++;
    }
}

/* Opens the next round; false: its windows are not planned. */
static bool drain_open(struct rounds *rounds, struct round *round)
{
    rounds_prepare(rounds, round);
    if (!windows_find(rounds->windows, &round->reach))
        return false;
    round_reset(round, rounds->windows);
    rounds->opened++;
    return true;
}

bool rounds_drain(struct rounds *rounds, uint64_t count, uint64_t agreed)
{
    if (!rounds->exchange)
        return true;
    while (rounds->published < count) {
        struct round *round = rounds_lane_of(rounds, rounds->published);
        if (rounds->opened == rounds->published && !drain_open(rounds, round))
            return false;
        if (!drain_round(rounds, round))
            return false;
        rounds_retire(rounds, round);
    }
    pace_progress(rounds->pace, rounds->published, false, windows_is_assigning(rounds->windows));
    return agreement_drain(&rounds->agreement, agreed) &&
           pace_settled(rounds->pace, rounds->published);
}
