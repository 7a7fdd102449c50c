/* Makes the rounds, with the memory of their lanes. See rounds.h. */
#include "rounds/round_copy.h"
#include "rounds/rounds_internal.h"

#include "base/size.h"
#include "base/trace.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct fill) == BUDGET_FILL_BYTES, "counted in the budget");
_Static_assert(sizeof(struct fragment_room) == BUDGET_ROOM_BYTES, "counted in the budget");
_Static_assert(sizeof *(struct round){0}.keys == BUDGET_KEY_BYTES, "counted in the budget");
_Static_assert(sizeof(struct arrival) == BUDGET_ARRIVAL_BYTES, "counted in the budget");
_Static_assert(sizeof(struct place_location) + sizeof(uint32_t) == BUDGET_DESTINATION_BYTES,
               "counted in the budget");
_Static_assert(sizeof(struct round_trailer) == BUDGET_TRAILER_BYTES, "counted in the budget");
_Static_assert(sizeof *(struct round_trailers){0}.starts == BUDGET_START_BYTES,
               "counted in the budget");
_Static_assert(sizeof *(struct round){0}.fill_kinds == BUDGET_KIND_BYTES, "counted in the budget");
_Static_assert(sizeof *(struct round){0}.fill_uses == BUDGET_KIND_BYTES, "counted in the budget");
_Static_assert(sizeof *(struct round_matching){0}.windows == BUDGET_MIXED_DESTINATION_BYTES,
               "counted in the budget");

static enum status make_exchange(struct rounds *rounds, uint64_t send, uint64_t receive,
                                 struct error *err)
{
    const struct job *job = rounds->job;
    const struct fragment_sources *fragments = rounds->fragments;
    struct exchange_sizes sizes = {.send_samples = send,
                                   .receive_samples = receive,
                                   .record_bytes = fragments->packed_bytes,
                                   .unit_bytes = rounds->unit_bytes,
                                   .sample_messages = fragments->messages,
                                   .message_bytes = fragments->message_bytes,
                                   .send_trailer_bytes = job->setup.budget.send_trailer_bytes,
                                   .receive_trailer_bytes =
                                       job->setup.budget.receive_trailer_bytes};
    return exchange_new(&job->comm, rounds->lane_count, &sizes, &rounds->exchange, err);
}

/* The lanes' buffers are filled with pages by the workers that will copy there. */
static enum status populate_buffers(struct rounds *rounds, struct error *err)
{
    struct pool_memory lanes[ROUND_MAX_IN_FLIGHT];
    size_t all_bytes = 0;
    for (uint32_t i = 0; i < rounds->lane_count; i++) {
        lanes[i].start = exchange_buffers(rounds->exchange, i, &lanes[i].bytes);
        lanes[i].numa = copies_lane_numa(&rounds->copies, i);
        all_bytes += lanes[i].bytes;
    }
    errno = pool_populate(rounds->job->pool, lanes, rounds->lane_count, NULL, NULL);
    return errno ? error_set_errno(err, STATUS_NO_MEMORY, "exchange buffers of %s",
                                   size_format(all_bytes).text)
                 : STATUS_OK;
}

static enum status matching_init(struct rounds *rounds, struct error *err)
{
    const struct run_setup *setup = &rounds->job->setup;
    struct round_matching *matching = &rounds->matching;
    struct tables *tables = &rounds->tables;
    if (!locality_matters(&setup->plan))
        return STATUS_OK;
    uint64_t count = round_max_matched(&setup->plan, setup->shape);
    matching->matcher = matcher_new(&setup->plan);
    matching->locations = tables_take(tables, count, sizeof *matching->locations);
    matching->destinations = tables_take(tables, count, sizeof *matching->destinations);
    if (setup->plan.mix)
        matching->windows = tables_take(tables, count, sizeof *matching->windows);
    if (!matching->matcher || tables->failed)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the destinations of %llu samples",
                         (unsigned long long)count);
    return STATUS_OK;
}

static enum status merge_init(struct rounds *rounds, struct error *err)
{
    size_t capacity = windows_capacity(rounds->windows);
    item_merge_init(&rounds->merge, capacity, &rounds->tables);
    return rounds->tables.failed
               ? error_set(err, STATUS_NO_MEMORY, "no memory for %zu windows", capacity)
               : STATUS_OK;
}

static struct trace_track *claim_trace(uint32_t lane)
{
    char name[24];
    snprintf(name, sizeof name, "round-%u", lane);
    return trace_claim(name);
}

static enum status all_trailers_init(struct rounds *rounds, struct error *err)
{
    const struct job *job = rounds->job;
    rounds->found = found_rows_new(pool_worker_count(job->pool) + 1);
    if (!rounds->found)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    return trailer_sources_new(job->dataset, &rounds->session->layout, &rounds->trailers, err);
}

/* The trailers' part of a lane, if there are ragged fields. */
static void trailers_init(struct rounds *rounds, uint32_t lane, uint64_t send, uint64_t receive)
{
    const struct job *job = rounds->job;
    struct round_trailers *trailers = &rounds->lane_trailers[lane];
    struct tables *tables = &rounds->tables;
    if (!rounds->trailers)
        return;
    uint64_t slots = (uint64_t)rounds->session->ring_count * job->setup.shape.steps_per_round;
    uint64_t starts = rounds->trailers->of[0]->starts_count;
    assert(starts ==
           plan_ragged_starts(&job->setup.demand.ragged, job->setup.plan.batch)); /* as budgeted */
    *trailers = (struct round_trailers){
        .trailers = rounds->trailers,
        .found = rounds->found,
        .fills = tables_take(tables, send, sizeof *trailers->fills),
        .arrivals = tables_take(tables, receive, sizeof *trailers->arrivals),
        .starts = tables_take(tables, slots * starts, sizeof *trailers->starts)};
    rounds->lanes[lane].trailers = trailers;
    if (rounds->exchange) {
        trailers->send = exchange_send_buffer(rounds->exchange, lane, EXCHANGE_TRAILERS);
        trailers->received = exchange_receive_buffer(rounds->exchange, lane, EXCHANGE_TRAILERS);
        trailers->counts = exchange_counts(rounds->exchange, lane, EXCHANGE_TRAILERS);
    }
}

static enum status lane_init(struct rounds *rounds, uint32_t lane,
                             const struct round_capacity *most, struct error *err)
{
    struct round *round = &rounds->lanes[lane];
    struct tables *tables = &rounds->tables;
    uint64_t send = most->listed, receive = most->received;
    round->trace = claim_trace(lane);
    round->serial = UINT64_MAX; /* none yet */
    round->most = *most;
    round->job = rounds->job;
    round->session = rounds->session;
    round->fragments = rounds->fragments;
    round->times = rounds->times;
    round->matching = &rounds->matching;
    round->merge = &rounds->merge;
    round->fills = tables_take(tables, send, sizeof *round->fills);
    if (rounds->fragments->shifts)
        round->rooms = tables_take(tables, send, sizeof *round->rooms);
    if (rounds->session->groups.most > 1)
        round->fill_uses = tables_take(tables, send, sizeof *round->fill_uses);
    round->unit_bytes = rounds->unit_bytes;
    round->record_units = rounds->record_units;
    if (rounds->fragments->count > 1)
        round->fill_kinds = tables_take(tables, send, sizeof *round->fill_kinds);
    if (rounds->fragments->crops)
        round->keys = tables_take(tables, send, sizeof *round->keys);
    round->arrivals = tables_take(tables, receive, sizeof *round->arrivals);
    if (rounds->exchange) {
        round->send = exchange_send_buffer(rounds->exchange, lane, EXCHANGE_RECORDS);
        round->received = exchange_receive_buffer(rounds->exchange, lane, EXCHANGE_RECORDS);
        round->counts = exchange_counts(rounds->exchange, lane, EXCHANGE_RECORDS);
    }
    trailers_init(rounds, lane, send, receive);
    return tables->failed ? error_set(err, STATUS_NO_MEMORY, "no memory for rounds of %llu samples",
                                      (unsigned long long)send)
                          : STATUS_OK;
}

static enum status lanes_init(struct rounds *rounds, struct error *err)
{
    const struct job *job = rounds->job;
    const struct plan *plan = &job->setup.plan;
    enum status status = STATUS_OK;
    uint64_t copies = rounds->session->groups.most;
    const struct round_capacity most = {
        .listed = copies * round_max_listed(plan, job->setup.shape),
        .sent = copies * round_max_sent(plan, job->setup.shape),
        .received = round_max_received(plan, job->setup.shape, rounds->session->ring_count)};
    if (job->setup.demand.reader_count > 1) {
        agreement_init(&rounds->agreement, &job->comm, rounds->lane_count);
        status = make_exchange(rounds, most.sent, most.received, err);
        if (status == STATUS_OK)
            status = populate_buffers(rounds, err);
        if (status == STATUS_OK)
            status = pace_new(rounds->session, &rounds->pace, err);
    }
    for (uint32_t i = 0; i < rounds->lane_count && status == STATUS_OK; i++)
        status = lane_init(rounds, i, &most, err);
    return status;
}

/* The fragments of samples on their way to each class of readers. INVALID: too many kinds. REFUSED:
 * records are larger than there are buffers for. */
static enum status fragments_init(struct rounds *rounds, struct error *err)
{
    const struct job *job = rounds->job;
    const struct need_classes *needs = &rounds->session->needs;
    enum status status = fragment_sources_new(job->dataset, &job->setup.shares, needs->needs,
                                              needs->count, &rounds->fragments, err);
    if (status != STATUS_OK)
        return status;
    if (rounds->fragments->count > UINT16_MAX)
        return error_set(err, STATUS_INVALID,
                         "readers need %u different parts of samples; at most "
                         "%d are possible",
                         rounds->fragments->count, UINT16_MAX);
    if (rounds->fragments->packed_bytes > job->setup.demand.packed_bytes)
        return error_set(err, STATUS_REFUSED,
                         "readers need records of %s, and there are buffers for %s: start ranks in "
                         "blocks, one node after another, as delivery.mesh has them",
                         size_format(rounds->fragments->packed_bytes).text,
                         size_format(job->setup.demand.packed_bytes).text);
    fragment_sources_set_slots(rounds->fragments, needs->of[job->comm.rank],
                               &rounds->session->layout);
    return STATUS_OK;
}

/* Records are counted as such, where all are as large. */
static enum status units_init(struct rounds *rounds, struct error *err)
{
    const struct need_classes *needs = &rounds->session->needs;
    uint32_t readers = (uint32_t)rounds->job->comm.size;
    rounds->unit_bytes = rounds->fragments->packed_bytes;
    if (needs->count == 1)
        return STATUS_OK;
    rounds->unit_bytes = EXCHANGE_UNIT_BYTES;
    rounds->record_units = tables_take(&rounds->tables, readers, sizeof *rounds->record_units);
    if (rounds->tables.failed)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    for (uint32_t r = 0; r < readers; r++)
        rounds->record_units[r] =
            (uint32_t)(fragment_sources_packed(rounds->fragments, needs->of[r]) /
                       EXCHANGE_UNIT_BYTES);
    return STATUS_OK;
}

static enum status times_init(struct rounds *rounds, struct error *err)
{
    size_t bytes = (pool_worker_count(rounds->job->pool) + 1) * sizeof *rounds->times;
    rounds->times = aligned_alloc(MEMORY_LINE_BYTES, bytes);
    if (!rounds->times)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    memset(rounds->times, 0, bytes);
    return STATUS_OK;
}

enum status rounds_new(const struct session *session, struct windows *windows,
                       struct rounds **ret_rounds, struct error *err)
{
    const struct job *job = session->job;
    struct rounds *rounds = aligned_alloc(MEMORY_LINE_BYTES, sizeof *rounds);
    if (!rounds)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    memset(rounds, 0, sizeof *rounds);
    rounds->job = job;
    rounds->session = session;
    rounds->windows = windows;
    rounds->span = span_rounds(session);
    rounds->lane_count = job->setup.shape.in_flight;
    enum status status = fragments_init(rounds, err);
    if (status == STATUS_OK)
        status = units_init(rounds, err);
    if (status == STATUS_OK)
        status = copies_init(&rounds->copies, session, rounds->lanes, rounds->lane_count, err);
    if (status == STATUS_OK)
        status = times_init(rounds, err);
    if (status == STATUS_OK && job->dataset->ragged_count > 0)
        status = all_trailers_init(rounds, err);
    if (status == STATUS_OK)
        status = matching_init(rounds, err);
    if (status == STATUS_OK && job->setup.plan.mix)
        status = merge_init(rounds, err);
    if (status == STATUS_OK)
        status = lanes_init(rounds, err);
    if (status != STATUS_OK) {
        rounds_free(rounds);
        return status;
    }
    *ret_rounds = rounds;
    return STATUS_OK;
}

void rounds_free(struct rounds *rounds)
{
    if (!rounds)
        return;
    for (uint32_t i = 0; i < rounds->lane_count; i++)
        trace_release(rounds->lanes[i].trace);
    pace_free(rounds->pace);
    exchange_free(rounds->exchange);
    pool_settle(rounds->job->pool); /* helpers that came late are queued perhaps */
    copies_done(&rounds->copies);
    matcher_free(rounds->matching.matcher);
    tables_done(&rounds->tables);
    trailer_sources_free(rounds->trailers);
    free(rounds->found);
    free(rounds->times);
    fragment_sources_free(rounds->fragments);
    free(rounds);
}
