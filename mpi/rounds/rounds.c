/* See rounds.h. */
#include "rounds/rounds_internal.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/trace.h"
#include "rounds/round_plan.h"
#include "rounds/transfer.h"

/* A look at MPI that took longer has moved data: look again at once. Not where no round has moved
 * on for long: then another reader's trainers take no batches, and looks take long for other
 * reasons. */
static const uint64_t EXCHANGE_BUSY_NS = 5000, EXCHANGE_PATIENCE_NS = UINT64_C(2000000000);

static bool has_zero_copy(const struct rounds *rounds)
{
    return rounds->exchange && rounds->fragments->messages > 0;
}

/* Whether workers have anything to do for samples that came from other readers. */
static bool scatters(const struct rounds *rounds)
{
    return rounds->fragments->packed_bytes > 0 || rounds->fragments->finishes || rounds->trailers;
}

static bool slots_free(const struct rounds *rounds, uint64_t last_sequence)
{
    const struct job *job = rounds->job;
    for (uint32_t i = 0; i < rounds->session->ring_count; i++)
        if (!server_slot_free(job->server, rounds->session->rings[i].ring, last_sequence) ||
            (job->transform &&
             !transform_slot_free(job->transform, rounds->session->rings[i].ring, last_sequence)))
            return false;
    return true;
}

static uint64_t last_slot(const struct round *round)
{
    const struct round_reach *reach = &round->reach;
    return reach->first_sequence + reach->round.end_step - reach->round.first_step - 1;
}

void rounds_prepare(struct rounds *rounds, struct round *round)
{
    if (round->serial == rounds->opened)
        return;
    round->serial = rounds->opened;
    round_reach_at(&round->reach, rounds->session, round->serial);
}

/* Starts the next round if its windows are planned and its slots are free. One round is planned at
 * a time: rounds take their samples from the windows in turn. */
static bool open_next(struct rounds *rounds)
{
    if (rounds->opened == rounds->span.count ||
        rounds->opened == rounds->published + rounds->lane_count)
        return false;
    if (atomic_load(&rounds->matching.workers) > 0)
        return false;
    struct round *round = rounds_lane_of(rounds, rounds->opened);
    rounds_prepare(rounds, round);
    if (!windows_find(rounds->windows, &round->reach) || !slots_free(rounds, last_slot(round)))
        return false;
    round_reset(round, rounds->windows);
    if (!round_plan_start(round))
        return false;
    round->since_ns = trace_on() ? clock_now_ns() : 0;
    rounds->opened++;
    return true;
}

/* Sends the zero-copy fields of the fills up to `end`. */
static void send(struct rounds *rounds, const struct round *round, uint64_t end)
{
    uint64_t start_ns = clock_now_ns();
    transfer_send(rounds->exchange, rounds_lane_index(rounds, round), round, round->fill_next, end);
    uint64_t end_ns = clock_now_ns();
    rounds->exchange_ns += end_ns - start_ns;
    trace_note(TRACE_EXCHANGE, start_ns, end_ns, round->serial);
}

/* Hands out copies of samples whose rows are ready, in the order they are due, and sends the fields
 * that are zero-copy. */
static enum status fill(struct rounds *rounds, struct round *round, bool *active, struct error *err)
{
    while (round->fill_next < round->fill_count) {
        uint64_t end;
        enum status status =
            copies_next_fills(&rounds->copies, round, rounds_lane_index(rounds, round), &end, err);
        if (status != STATUS_OK || end == round->fill_next)
            return status;
        if (rounds->exchange)
            send(rounds, round, end);
        round->fill_next = end;
        *active = true;
    }
    return STATUS_OK;
}

void rounds_post(struct rounds *rounds, struct round *round)
{
    exchange_post(rounds->exchange, rounds_lane_index(rounds, round));
    struct rounds_sent *sent = &rounds->sent[round->reach.epoch.epoch % ROUND_MAX_IN_FLIGHT];
    uint64_t units = 0;
    for (int peer = 0; peer < rounds->job->comm.size; peer++) {
        uint64_t records = (uint64_t)round->counts.send_counts[peer];
        if (round->record_units)
            records /= max_u64(round->record_units[peer], 1);
        sent->records += records;
        sent->bytes +=
            records * fragment_sources_record(rounds->fragments, rounds->session->needs.of[peer],
                                              round->phase);
        if (round->trailers)
            units += (uint64_t)round->trailers->counts.send_counts[peer];
    }
    sent->bytes += units * TRAILER_UNIT_BYTES;
    sent->further_passes += round->pass > 0;
    round->posted_ns = clock_now_ns();
    rounds->posted += round->pass + 1 == round->passes;
}

/* Newer rounds count for more; one that waited long, for a trainer, for no more than others. */
static void note_posted_time(struct rounds *rounds, const struct round *round)
{
    const uint64_t most_ns = 16000000;
    uint64_t took_ns = min_u64(clock_now_ns() - round->posted_ns, most_ns);
    rounds->posted_ns += took_ns / 8 - rounds->posted_ns / 8;
}

/* Whether the round's exchange is complete. Gives up rows whose samples have left. */
static bool exchange_complete(struct rounds *rounds, struct round *round, bool *active)
{
    uint64_t start_ns = clock_now_ns();
    bool complete = round->state == ROUND_EXCHANGING &&
                    exchange_test(rounds->exchange, rounds_lane_index(rounds, round));
    *active |= transfer_release(rounds->exchange, rounds_lane_index(rounds, round), round);
    uint64_t took_ns = clock_now_ns() - start_ns;
    rounds->exchange_ns += took_ns;
    *active |= took_ns > EXCHANGE_BUSY_NS;
    if (took_ns > EXCHANGE_BUSY_NS)
        trace_note(TRACE_EXCHANGE, start_ns, start_ns + took_ns, round->serial);
    return complete;
}

static bool all_copied(struct round *round)
{
    return atomic_load_explicit(&round->tasks, memory_order_acquire) == 0;
}

static bool may_begin(const struct rounds *rounds, const struct round *round)
{
    return round->pass > 0 ||
           (rounds->begun == round->serial && pace_allows(rounds->pace, round->serial));
}

static void begin(struct rounds *rounds, const struct round *round)
{
    transfer_begin(rounds->exchange, rounds_lane_index(rounds, round), round);
    rounds->begun += round->pass == 0;
}

bool rounds_agree(struct rounds *rounds, struct round *round)
{
    if (round->passes > 0)
        return true;
    agreement_post(&rounds->agreement, round->serial, round->needed);
    round->passes = agreement_passes(&rounds->agreement, round->serial);
    return round->passes > 0;
}

/* Lists the pass that is under way: no two rounds are planned at a time. */
static void list_pass(struct rounds *rounds, struct round *round)
{
    if (atomic_load(&rounds->matching.workers) > 0)
        return;
    round_reset_pass(round);
    if (!round_plan_start(round))
        round->lists = LISTS_NOTHING;
}

/* Whether the pass that is under way is listed. A round of one is, as soon as it is planned. */
static bool is_listed(struct rounds *rounds, struct round *round)
{
    if (round->lists != LISTS_NOTHING && !atomic_load(&round->planned))
        return false;
    if (round->lists == LISTS_ROUND && !rounds_agree(rounds, round))
        return false;
    if (round->lists == LISTS_PASS || round->passes == 1)
        return true;
    list_pass(rounds, round);
    return false;
}

/* A round's next state. The trace has the state before, as a span of the round's track. */
static void enter(struct round *round, enum round_state state)
{
    static const enum trace_kind kinds[] = {[ROUND_PLANNING] = TRACE_ROUND_PLANNED,
                                            [ROUND_FILLING] = TRACE_ROUND_FILLED,
                                            [ROUND_FILLED] = TRACE_ROUND_WAITS,
                                            [ROUND_EXCHANGING] = TRACE_ROUND_EXCHANGED,
                                            [ROUND_SCATTERING] = TRACE_ROUND_SCATTERED,
                                            [ROUND_COMPLETE] = TRACE_ROUND_WAITS,
                                            [ROUND_TRANSFORMING] = TRACE_ROUND_TRANSFORMED};
    if (trace_on()) {
        uint64_t now_ns = clock_now_ns();
        trace_note_in(round->trace, kinds[round->state], round->since_ns, now_ns, round->serial);
        round->since_ns = now_ns;
    }
    round->state = state;
}

/* The pass that is under way has come to its slots. */
static void end_pass(struct round *round)
{
    bool is_last = round->pass + 1 == round->passes;
    enter(round, is_last ? ROUND_COMPLETE : ROUND_PLANNING);
    if (is_last)
        return;
    round->pass++;
    round->lists = LISTS_NOTHING;
}

/* Moves one round on by as many states as it can. */
static enum status advance(struct rounds *rounds, struct round *round, bool *active,
                           struct error *err)
{
    enum round_state before = round->state;
    enum status status = STATUS_OK;
    if (round->state == ROUND_PLANNING && is_listed(rounds, round) &&
        (!rounds->exchange || may_begin(rounds, round))) {
        if (rounds->exchange)
            begin(rounds, round);
        enter(round, ROUND_FILLING);
    }
    if (round->state == ROUND_FILLING) {
        status = fill(rounds, round, active, err);
        if (status == STATUS_OK && round->fill_next == round->fill_count && all_copied(round))
            enter(round, rounds->exchange ? ROUND_FILLED : ROUND_COMPLETE);
    }
    if (round->state == ROUND_FILLED && rounds->posted == round->serial) {
        rounds_post(rounds, round);
        enter(round, ROUND_EXCHANGING);
    }
    if (rounds->exchange && round->state >= ROUND_FILLING && round->state <= ROUND_EXCHANGING &&
        exchange_complete(rounds, round, active)) {
        note_posted_time(rounds, round);
        if (scatters(rounds))
            enter(round, ROUND_SCATTERING);
        else
            end_pass(round);
    }
    if (round->state == ROUND_SCATTERING) {
        *active |= copies_scatter(&rounds->copies, round, rounds_lane_index(rounds, round));
        if (round->scatter_next == round->arrival_count && all_copied(round))
            end_pass(round);
    }
    if (round->state == ROUND_FILLING || round->state == ROUND_SCATTERING)
        copies_call(&rounds->copies, rounds_lane_index(rounds, round));
    *active |= round->state != before;
    return status;
}

/* Whether steps are complete with this round. */
static bool completes_steps(const struct round *round)
{
    return round->reach.round.stripe + 1 == round->reach.round.stripe_count;
}

static uint64_t step_count(const struct round *round)
{
    return round->reach.round.end_step - round->reach.round.first_step;
}

/* Writes the headers of the slots of the steps that are complete with this round, and hands the
 * slots to the transform, if there is one. */
static void finish_slots(struct rounds *rounds, struct round *round)
{
    const struct job *job = rounds->job;
    const struct plan *plan = &round->reach.epoch.plan;
    for (uint64_t s = 0; completes_steps(round) && s < step_count(round); s++) {
        uint64_t step = round->reach.round.first_step + s;
        for (uint32_t i = 0; i < rounds->session->ring_count; i++) {
            const struct job_ring *ring = &rounds->session->rings[i];
            struct plan_local_batch local = plan_local_batch_at(plan, step, ring->group);
            struct slot_header *header =
                server_slot(job->server, ring->ring, round->reach.first_sequence + s);
            *header = (struct slot_header){
                .epoch = round->reach.epoch.epoch,
                .step = step,
                .sample_count = local.count,
                .first_position = (uint32_t)(local.first - plan_step_first(plan, step)),
                .bound = plan_step_bound(&round->reach.epoch, step)};
            if (job->transform)
                transform_submit(job->transform, ring->ring, local.count);
        }
    }
}

/* Whether the transform is done with all steps of the oldest round. */
static bool is_transformed(const struct rounds *rounds, const struct round *round)
{
    const struct job *job = rounds->job;
    for (uint32_t i = 0; completes_steps(round) && i < rounds->session->ring_count; i++)
        if (transform_done(job->transform, rounds->session->rings[i].ring) < step_count(round))
            return false;
    return true;
}

/* Hands the steps that are complete with this round to the trainers. */
static void publish(struct rounds *rounds, const struct round *round)
{
    const struct job *job = rounds->job;
    for (uint64_t s = 0; completes_steps(round) && s < step_count(round); s++)
        for (uint32_t i = 0; i < rounds->session->ring_count; i++) {
            uint32_t ring = rounds->session->rings[i].ring;
            if (job->transform)
                transform_take(job->transform, ring);
            server_publish(job->server, ring);
        }
}

/* The transform gets rounds in their order. */
static bool transform_next(struct rounds *rounds)
{
    struct round *round = rounds_lane_of(rounds, rounds->finished);
    if (rounds->finished == rounds->opened || round->state != ROUND_COMPLETE)
        return false;
    finish_slots(rounds, round);
    rounds->finished++;
    if (rounds->job->transform)
        enter(round, ROUND_TRANSFORMING);
    return true;
}

static bool may_publish(const struct rounds *rounds, const struct round *round)
{
    return rounds->published < rounds->finished &&
           (round->state != ROUND_TRANSFORMING || is_transformed(rounds, round));
}

void rounds_retire(struct rounds *rounds, struct round *round)
{
    bool step_over = round->reach.round.stripe + 1 == round->reach.round.stripe_count;
    windows_retire(rounds->windows, &round->reach, step_over);
    enter(round, ROUND_PLANNING);
    rounds->published++;
}

/* Whether the next round waits for what this reader has to read: for its rows, or because all
 * workers read others, so that nobody plans or copies. */
static bool waits_for_reads(struct rounds *rounds)
{
    const struct round *round = rounds_lane_of(rounds, rounds->published);
    if (rounds->opened == rounds->published)
        return false;
    if (round->state == ROUND_FILLING && round->fill_next < round->fill_count)
        return true;
    bool has_task = round->state == ROUND_PLANNING ? !atomic_load(&round->planned)
                                                   : atomic_load(&round->tasks) > 0;
    return has_task && pool_is_behind(rounds->job->pool);
}

enum status rounds_progress(struct rounds *rounds, bool *ret_active, struct error *err)
{
    bool active = false;
    if (rounds->pace)
        pace_progress(rounds->pace, rounds->published, waits_for_reads(rounds),
                      windows_is_assigning(rounds->windows));
    while (open_next(rounds))
        active = true;
    for (uint64_t serial = rounds->published; serial < rounds->opened; serial++) {
        enum status status = advance(rounds, rounds_lane_of(rounds, serial), &active, err);
        if (status != STATUS_OK)
            return status;
    }
    while (transform_next(rounds))
        active = true;
    while (may_publish(rounds, rounds_lane_of(rounds, rounds->published))) {
        struct round *round = rounds_lane_of(rounds, rounds->published);
        publish(rounds, round);
        rounds_retire(rounds, round);
        active = true;
    }
    if (active)
        rounds->moved_ns = clock_now_ns();
    *ret_active = active;
    return STATUS_OK;
}

bool rounds_look(struct rounds *rounds)
{
    uint64_t start_ns = clock_now_ns();
    bool moved = requests_look(rounds->job->comm.requests);
    uint64_t end_ns = clock_now_ns();
    bool busy = end_ns - start_ns > EXCHANGE_BUSY_NS;
    if (rounds_exchanging(rounds)) {
        rounds->exchange_ns += end_ns - start_ns;
        if (busy)
            trace_note(TRACE_EXCHANGE, start_ns, end_ns, rounds->published);
    }
    return moved || (busy && end_ns - rounds->moved_ns < EXCHANGE_PATIENCE_NS);
}

uint64_t rounds_awaited_slot(const struct rounds *rounds)
{
    const struct round *next = &rounds->lanes[rounds->opened % rounds->lane_count];
    bool may_open = rounds->opened < rounds->span.count &&
                    rounds->opened < rounds->published + rounds->lane_count;
    bool waits = may_open && next->serial == rounds->opened && !slots_free(rounds, last_slot(next));
    return waits ? last_slot(next) : UINT64_MAX;
}

bool rounds_finished(const struct rounds *rounds)
{
    return rounds->published == rounds->span.count && !rounds->end_is_open;
}

enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step)
{
    uint64_t most = span_rounds(rounds->session).count;
    uint64_t serial = rounds->published < most ? rounds->published : most - 1;
    rounds_begin_of(rounds, serial, ret_epoch, ret_step);
    if (rounds->published == rounds->span.count)
        return BLOCK_NONE;
    const struct round *round = &rounds->lanes[serial % rounds->lane_count];
    if (round->serial != serial)
        return BLOCK_PLAN;
    if (rounds->opened == rounds->published) {
        return slots_free(rounds, last_slot(round)) ? BLOCK_PLAN : BLOCK_SLOTS;
    }
    switch (round->state) {
    case ROUND_PLANNING:
        return atomic_load(&round->planned) ? BLOCK_EXCHANGE : BLOCK_PLAN;
    case ROUND_FILLING:
        return round->fill_next < round->fill_count ? BLOCK_ROWS : BLOCK_COPY;
    case ROUND_FILLED:
    case ROUND_EXCHANGING:
        return BLOCK_EXCHANGE;
    case ROUND_TRANSFORMING:
        return BLOCK_TRANSFORM;
    case ROUND_SCATTERING:
    case ROUND_COMPLETE:
        break;
    }
    return BLOCK_COPY;
}

bool rounds_exchanging(const struct rounds *rounds)
{
    bool agrees = round_has_passes(rounds->job->setup.shape);
    uint64_t started = agrees                  ? rounds->agreement.posted
                       : has_zero_copy(rounds) ? rounds->begun
                                               : rounds->posted;
    return rounds->exchange && started > rounds->published;
}

uint64_t rounds_posted_ns(const struct rounds *rounds)
{
    return rounds->posted_ns;
}

struct rounds_sent rounds_take_sent(struct rounds *rounds, uint64_t epoch)
{
    struct rounds_sent *sent = &rounds->sent[epoch % ROUND_MAX_IN_FLIGHT], taken = *sent;
    *sent = (struct rounds_sent){0};
    return taken;
}

struct rounds_times rounds_times(const struct rounds *rounds)
{
    struct rounds_times sum = {.exchange_ns = rounds->exchange_ns};
    for (uint32_t i = 0; i <= pool_worker_count(rounds->job->pool); i++) { /* the owner, too */
        const struct round_times *times = &rounds->times[i];
        sum.plan_ns += atomic_load_explicit(&times->plan_ns, memory_order_relaxed);
        sum.fill_ns += atomic_load_explicit(&times->fill_ns, memory_order_relaxed);
        sum.scatter_ns += atomic_load_explicit(&times->scatter_ns, memory_order_relaxed);
    }
    return sum;
}
