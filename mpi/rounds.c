/* See rounds.h. Copies are made by workers of the NUMA node that they write to: of a slot that is
 * where its trainer sits, of a lane's buffers the nodes take turns.
 *
 * Rounds live in a ring of lanes by serial number:
 *
 *     published <= posted <= begun <= opened <= published + shape.in_flight
 *
 * Where there is an exchange, another reader may have something of a round once it is begun, and
 * has all that it needs for it to end once it is posted.
 */
#include "rounds.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/size.h"
#include "pace.h"
#include "round_plan.h"
#include "transfer.h"

#include <errno.h>
#include <stdlib.h>

enum {
    TASK_BYTES = 256 * 1024,
    TASK_MAX_ITEMS = 4096,
    EXCHANGE_BUSY_NS = 5000, /* a look at MPI that took longer has moved data: look again at once */
};

_Static_assert(sizeof(struct fill) == BUDGET_FILL_BYTES, "counted in the budget");
_Static_assert(sizeof(struct arrival) == BUDGET_ARRIVAL_BYTES, "counted in the budget");

/* A trainer's ring, and the NUMA node whose workers copy there. */
struct ring_numa {
    const unsigned char *slots;
    uint32_t numa;
};

struct rounds {
    struct job *job;
    struct windows *windows;
    struct span span;          /* its count is less after an early end */
    bool held;                 /* that is not agreed on yet */
    struct exchange *exchange; /* NULL with one reader */
    struct round_fields fields;
    uint64_t published, posted, begun, opened;
    struct pace *pace;                          /* NULL with one reader */
    uint64_t sent_records[ROUND_MAX_IN_FLIGHT]; /* of the epochs under way, in turn */
    struct round_times times;
    uint64_t exchange_ns;
    uint32_t numa_count;
    struct ring_numa *rings; /* [job->trainer_count], in order of address */
    uint32_t lane_count;
    struct round lanes[ROUND_MAX_IN_FLIGHT]; /* [lane_count] */
};

static struct round *lane_of(struct rounds *rounds, uint64_t serial)
{
    return &rounds->lanes[serial % rounds->lane_count];
}

static bool has_zero_copy(const struct rounds *rounds)
{
    return rounds->exchange && rounds->fields.packed_count < rounds->fields.row_count;
}

static uint32_t lane_index(const struct rounds *rounds, const struct round *round)
{
    return (uint32_t)(round - rounds->lanes);
}

static enum status make_exchange(struct rounds *rounds, uint64_t send, uint64_t receive,
                                 struct error *err)
{
    const struct round_fields *fields = &rounds->fields;
    uint64_t pieces[DATASET_MAX_FIELDS];
    for (size_t i = fields->packed_count; i < fields->row_count; i++)
        pieces[i - fields->packed_count] = fields->row[i].bytes;
    struct exchange_sizes sizes = {.send_samples = send,
                                   .receive_samples = receive,
                                   .record_bytes = fields->record_bytes,
                                   .piece_count = fields->row_count - fields->packed_count,
                                   .piece_bytes = pieces};
    return exchange_new(&rounds->job->comm, rounds->lane_count, &sizes, &rounds->exchange, err);
}

static int by_address(const void *a, const void *b)
{
    const struct ring_numa *left = a, *right = b;
    return left->slots < right->slots ? -1 : left->slots > right->slots;
}

static enum status rings_init(struct rounds *rounds, struct error *err)
{
    const struct job *job = rounds->job;
    rounds->numa_count = pool_placement(job->pool)->numa_count;
    rounds->rings = calloc(job->trainer_count + 1, sizeof *rounds->rings);
    if (!rounds->rings)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    for (uint32_t i = 0; i < job->trainer_count; i++) {
        const struct job_trainer *trainer = &job->trainers[i];
        rounds->rings[i] =
            (struct ring_numa){server_slot(job->server, trainer->peer, 0), trainer->numa};
    }
    qsort(rounds->rings, job->trainer_count, sizeof *rounds->rings, by_address);
    return STATUS_OK;
}

static uint32_t numa_of_slot(const struct rounds *rounds, const unsigned char *slot)
{
    uint32_t low = 0, high = rounds->job->trainer_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (rounds->rings[middle].slots <= slot)
            low = middle;
        else
            high = middle;
    }
    return rounds->rings[low].numa;
}

static uint32_t numa_of_lane(const struct rounds *rounds, uint32_t lane)
{
    return lane % rounds->numa_count;
}

/* The lanes' buffers are filled with pages by the workers that will copy there. */
static enum status populate_buffers(struct rounds *rounds, struct error *err)
{
    struct pool_memory lanes[ROUND_MAX_IN_FLIGHT];
    size_t all_bytes = 0;
    for (uint32_t i = 0; i < rounds->lane_count; i++) {
        lanes[i].start = exchange_buffers(rounds->exchange, i, &lanes[i].bytes);
        lanes[i].numa = numa_of_lane(rounds, i);
        all_bytes += lanes[i].bytes;
    }
    errno = pool_populate(rounds->job->pool, lanes, rounds->lane_count, NULL, NULL);
    return errno ? error_set_errno(err, STATUS_NO_MEMORY, "exchange buffers of %s",
                                   size_format(all_bytes).text)
                 : STATUS_OK;
}

static enum status lanes_init(struct rounds *rounds, struct error *err)
{
    struct job *job = rounds->job;
    uint64_t send = round_max_records(&job->setup.plan, job->setup.shape);
    uint64_t receive =
        job->trainer_count * round_max_trainer_records(&job->setup.plan, job->setup.shape);
    if (job->comm.size > 1) {
        enum status status = make_exchange(rounds, send, receive, err);
        if (status == STATUS_OK)
            status = populate_buffers(rounds, err);
        if (status == STATUS_OK)
            status = pace_new(job, &rounds->pace, err);
        if (status != STATUS_OK)
            return status;
    }
    for (uint32_t i = 0; i < rounds->lane_count; i++) {
        struct round *round = &rounds->lanes[i];
        round->serial = UINT64_MAX; /* none yet */
        round->job = job;
        round->fields = &rounds->fields;
        round->times = &rounds->times;
        round->fills = calloc(send, sizeof *round->fills);
        round->arrivals = calloc(receive ? receive : 1, sizeof *round->arrivals);
        if (!round->fills || !round->arrivals)
            return error_set(err, STATUS_NO_MEMORY, "no memory for rounds of %llu samples",
                             (unsigned long long)send);
        memory_touch(round->fills, send * sizeof *round->fills);
        memory_touch(round->arrivals, receive * sizeof *round->arrivals);
        if (rounds->exchange) {
            round->send = exchange_send_buffer(rounds->exchange, i);
            round->received = exchange_receive_buffer(rounds->exchange, i);
            round->counts = exchange_counts(rounds->exchange, i);
        }
    }
    return STATUS_OK;
}

enum status rounds_new(struct job *job, struct windows *windows, struct rounds **ret_rounds,
                       struct error *err)
{
    struct rounds *rounds = calloc(1, sizeof *rounds);
    if (!rounds)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the rounds");
    rounds->job = job;
    rounds->windows = windows;
    rounds->span = span_rounds(&job->setup);
    rounds->lane_count = job->setup.shape.in_flight;
    round_fields_init(&rounds->fields, job->dataset, &job->setup.layout);
    enum status status = rings_init(rounds, err);
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
    for (uint32_t i = 0; i < rounds->lane_count; i++) {
        free(rounds->lanes[i].fills);
        free(rounds->lanes[i].arrivals);
    }
    pace_free(rounds->pace);
    exchange_free(rounds->exchange);
    free(rounds->rings);
    free(rounds);
}

static bool slots_free(const struct rounds *rounds, uint64_t last_sequence)
{
    const struct job *job = rounds->job;
    for (uint32_t i = 0; i < job->trainer_count; i++)
        if (!server_slot_free(job->server, job->trainers[i].peer, last_sequence))
            return false;
    return true;
}

/* Settles which round comes next in its lane and which windows it takes samples from. */
static void prepare(struct rounds *rounds, struct round *round)
{
    if (round->serial == rounds->opened)
        return;
    round->serial = rounds->opened;
    round_reach_at(&round->reach, &rounds->job->setup, round->serial);
}

static bool windows_ready(struct rounds *rounds, const struct round *round)
{
    for (uint64_t serial = round->reach.first_window; serial <= round->reach.last_window; serial++)
        if (!windows_planned(rounds->windows, serial))
            return false;
    return true;
}

/* Starts the next round if its windows are planned and its slots are free. One round is planned at
 * a time: rounds take their samples from the windows in turn. */
static bool open_next(struct rounds *rounds)
{
    if (rounds->opened == rounds->span.count ||
        rounds->opened == rounds->published + rounds->lane_count)
        return false;
    if (rounds->opened > rounds->published &&
        !atomic_load(&lane_of(rounds, rounds->opened - 1)->planned))
        return false;
    struct round *round = lane_of(rounds, rounds->opened);
    prepare(rounds, round);
    uint64_t steps = round->reach.round.end_step - round->reach.round.first_step;
    if (!windows_ready(rounds, round) ||
        !slots_free(rounds, round->reach.first_sequence + steps - 1))
        return false;
    round_reset(round, rounds->windows);
    if (!pool_submit(rounds->job->pool, 0, POOL_URGENT, round_plan_task, round, 0, 0))
        return false;
    rounds->opened++;
    return true;
}

static bool submit_copies(struct rounds *rounds, struct round *round, uint32_t numa,
                          pool_function *function, uint64_t begin, uint64_t end)
{
    atomic_fetch_add(&round->tasks, 1);
    if (pool_submit(rounds->job->pool, numa, POOL_URGENT, function, round, begin, end))
        return true;
    atomic_fetch_sub(&round->tasks, 1);
    return false;
}

static uint64_t task_items(const struct rounds *rounds)
{
    uint64_t items = TASK_BYTES / (rounds->job->dataset->record_bytes + 1);
    return items < 1 ? 1 : items > TASK_MAX_ITEMS ? TASK_MAX_ITEMS : items;
}

/* How many of the fills from `begin` on have their rows ready, at most `limit`. */
static enum status count_ready(const struct rounds *rounds, const struct round *round,
                               uint64_t begin, uint64_t limit, uint64_t *ret_count,
                               struct error *err)
{
    const struct row_store *store = rounds->job->store;
    uint64_t count = 0;
    for (; count < limit && begin + count < round->fill_count; count++) {
        int32_t buffer = *round->fills[begin + count].buffer;
        if (buffer == ROW_NONE)
            break;
        enum row_state state = row_store_state(store, buffer);
        if (state == ROW_FAILED) {
            *err = *row_store_error(store, buffer);
            return (enum status)err->status;
        }
        if (state != ROW_READY)
            break;
    }
    *ret_count = count;
    return STATUS_OK;
}

static uint32_t numa_of_fill(const struct rounds *rounds, const struct round *round, uint64_t i)
{
    const struct fill *fill = &round->fills[i];
    return fill->batch_index == FILL_REMOTE ? numa_of_lane(rounds, lane_index(rounds, round))
                                            : numa_of_slot(rounds, fill->to.slot);
}

static uint32_t numa_of_arrival(const struct rounds *rounds, const struct round *round, uint64_t i)
{
    return numa_of_slot(rounds, round->arrivals[i].slot);
}

/* Where the copies from `begin` on are made, and the end of those, at most `end`, that are made
 * there, too. They are in order of position, so that each trainer's come together. */
static uint64_t cut(const struct rounds *rounds, const struct round *round,
                    uint32_t (*numa_of)(const struct rounds *, const struct round *, uint64_t),
                    uint64_t begin, uint64_t end, uint32_t *ret_numa)
{
    if (rounds->numa_count == 1) {
        *ret_numa = 0;
        return end;
    }
    *ret_numa = numa_of(rounds, round, begin);
    for (uint64_t i = begin + 1; i < end; i++)
        if (numa_of(rounds, round, i) != *ret_numa)
            return i;
    return end;
}

/* Sends the zero-copy fields of the fills up to `end`. */
static void send(struct rounds *rounds, const struct round *round, uint64_t end)
{
    uint64_t start_ns = clock_now_ns();
    transfer_send(rounds->exchange, lane_index(rounds, round), round, round->fill_next, end);
    rounds->exchange_ns += clock_now_ns() - start_ns;
}

/* Whether workers have anything to do for fills [begin, end). */
static bool copies_needed(const struct rounds *rounds, const struct round *round, uint64_t begin,
                          uint64_t end)
{
    if (rounds->fields.packed_count > 0)
        return true;
    for (uint64_t i = begin; i < end; i++)
        if (round->fills[i].batch_index != FILL_REMOTE)
            return true;
    return false;
}

/* Hands out copies of samples whose rows are ready, in the order they are due, and sends the fields
 * that are zero-copy. Small ends wait for more rows, unless nothing else is being copied. */
static enum status fill(struct rounds *rounds, struct round *round, bool *active, struct error *err)
{
    uint64_t wanted = task_items(rounds);
    while (round->fill_next < round->fill_count) {
        uint64_t ready = 0;
        enum status status = count_ready(rounds, round, round->fill_next, wanted, &ready, err);
        if (status != STATUS_OK)
            return status;
        uint64_t end = round->fill_next + ready;
        bool whole = ready == wanted || end == round->fill_count;
        if (ready == 0)
            return STATUS_OK;
        uint32_t numa;
        uint64_t ready_end = end;
        end = cut(rounds, round, numa_of_fill, round->fill_next, ready_end, &numa);
        if (!whole && end == ready_end && atomic_load(&round->tasks) > 0)
            return STATUS_OK;
        if (copies_needed(rounds, round, round->fill_next, end) &&
            !submit_copies(rounds, round, numa, round_fill_task, round->fill_next, end))
            return STATUS_OK;
        if (rounds->exchange)
            send(rounds, round, end);
        round->fill_next = end;
        *active = true;
    }
    return STATUS_OK;
}

static bool scatter(struct rounds *rounds, struct round *round)
{
    bool active = false;
    uint64_t wanted = task_items(rounds);
    while (round->scatter_next < round->arrival_count) {
        uint64_t left = round->arrival_count - round->scatter_next;
        uint64_t end = round->scatter_next + (left < wanted ? left : wanted);
        uint32_t numa;
        end = cut(rounds, round, numa_of_arrival, round->scatter_next, end, &numa);
        if (!submit_copies(rounds, round, numa, round_scatter_task, round->scatter_next, end))
            return active;
        round->scatter_next = end;
        active = true;
    }
    return active;
}

static void post(struct rounds *rounds, struct round *round)
{
    exchange_post(rounds->exchange, lane_index(rounds, round));
    uint64_t *sent = &rounds->sent_records[round->reach.epoch.epoch % ROUND_MAX_IN_FLIGHT];
    for (int peer = 0; peer < rounds->job->comm.size; peer++)
        *sent += (uint64_t)round->counts.send_counts[peer];
    rounds->posted++;
}

/* Moves MPI on, and gives up rows whose samples have left. */
static bool exchange_complete(struct rounds *rounds, struct round *round, bool *active)
{
    uint64_t start_ns = clock_now_ns();
    bool complete = round->state == ROUND_EXCHANGING &&
                    exchange_test(rounds->exchange, lane_index(rounds, round));
    *active |= transfer_release(rounds->exchange, lane_index(rounds, round), round);
    uint64_t took_ns = clock_now_ns() - start_ns;
    rounds->exchange_ns += took_ns;
    *active |= took_ns > EXCHANGE_BUSY_NS;
    return complete;
}

static bool copies_done(struct round *round)
{
    return atomic_load_explicit(&round->tasks, memory_order_acquire) == 0;
}

static bool may_begin(const struct rounds *rounds, const struct round *round)
{
    return rounds->begun == round->serial && pace_allows(rounds->pace, round->serial);
}

static void begin(struct rounds *rounds, const struct round *round)
{
    transfer_begin(rounds->exchange, lane_index(rounds, round), round);
    rounds->begun++;
}

/* Moves one round on by as many states as it can. */
static enum status advance(struct rounds *rounds, struct round *round, bool *active,
                           struct error *err)
{
    enum round_state before = round->state;
    enum status status = STATUS_OK;
    if (round->state == ROUND_PLANNING && atomic_load(&round->planned) &&
        (!rounds->exchange || may_begin(rounds, round))) {
        if (rounds->exchange)
            begin(rounds, round);
        round->state = ROUND_FILLING;
    }
    if (round->state == ROUND_FILLING) {
        status = fill(rounds, round, active, err);
        if (status == STATUS_OK && round->fill_next == round->fill_count && copies_done(round))
            round->state = rounds->exchange ? ROUND_FILLED : ROUND_COMPLETE;
    }
    if (round->state == ROUND_FILLED && rounds->posted == round->serial) {
        post(rounds, round);
        round->state = ROUND_EXCHANGING;
    }
    if (rounds->exchange && round->state >= ROUND_FILLING && round->state <= ROUND_EXCHANGING &&
        exchange_complete(rounds, round, active))
        round->state = rounds->fields.packed_count > 0 ? ROUND_SCATTERING : ROUND_COMPLETE;
    if (round->state == ROUND_SCATTERING) {
        *active |= scatter(rounds, round);
        if (round->scatter_next == round->arrival_count && copies_done(round))
            round->state = ROUND_COMPLETE;
    }
    *active |= round->state != before;
    return status;
}

/* Hands the steps that are complete with this round to the trainers. */
static void publish(struct rounds *rounds, struct round *round)
{
    const struct job *job = rounds->job;
    const struct plan *plan = &job->setup.plan;
    if (round->reach.round.stripe + 1 < round->reach.round.stripe_count)
        return;
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step;
         step++) {
        uint64_t sequence = round->reach.first_sequence + step - round->reach.round.first_step;
        for (uint32_t i = 0; i < job->trainer_count; i++) {
            const struct job_trainer *trainer = &job->trainers[i];
            struct plan_local_batch local = plan_local_batch_at(plan, step, trainer->rank);
            struct slot_header *header = server_slot(job->server, trainer->peer, sequence);
            *header = (struct slot_header){.epoch = round->reach.epoch.epoch,
                                           .step = step,
                                           .sample_count = local.count,
                                           .first_position =
                                               (uint32_t)(local.first - step * plan->global_batch)};
            server_publish(job->server, trainer->peer);
        }
    }
}

/* The round is over: its lane is free, and so are the windows that no later round needs. */
static void retire(struct rounds *rounds, struct round *round)
{
    bool step_over = round->reach.round.stripe + 1 == round->reach.round.stripe_count;
    windows_retire(rounds->windows,
                   step_over ? round->reach.last_window : round->reach.first_window);
    round->state = ROUND_PLANNING;
    rounds->published++;
}

/* Whether the next round waits for what this reader has to read: for its rows, or because all
 * workers read others, so that nobody plans or copies. */
static bool waits_for_reads(struct rounds *rounds)
{
    const struct round *round = lane_of(rounds, rounds->published);
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
        pace_progress(rounds->pace, rounds->published, waits_for_reads(rounds));
    while (open_next(rounds))
        active = true;
    for (uint64_t serial = rounds->published; serial < rounds->opened; serial++) {
        enum status status = advance(rounds, lane_of(rounds, serial), &active, err);
        if (status != STATUS_OK)
            return status;
    }
    while (rounds->published < rounds->opened) {
        struct round *round = lane_of(rounds, rounds->published);
        if (round->state != ROUND_COMPLETE)
            break;
        publish(rounds, round);
        retire(rounds, round);
        active = true;
    }
    *ret_active = active;
    return STATUS_OK;
}

bool rounds_finished(const struct rounds *rounds)
{
    return rounds->published == rounds->span.count && !rounds->held;
}

uint64_t rounds_hold(struct rounds *rounds)
{
    uint64_t stripes = rounds->job->setup.shape.stripes_per_step;
    uint64_t steps_end = size_round_up(rounds->span.first + rounds->opened, stripes);
    rounds_end_at(rounds, steps_end - rounds->span.first);
    rounds->held = true;
    return rounds->span.count;
}

void rounds_end_at(struct rounds *rounds, uint64_t count)
{
    uint64_t most = span_rounds(&rounds->job->setup).count;
    rounds->span.count = count < most ? count : most;
    rounds->held = false;
}

/* Where a round begins, of this session's first: or where it would, behind the last. */
static void begin_of(const struct rounds *rounds, uint64_t serial, uint64_t *ret_epoch,
                     uint64_t *ret_step)
{
    const struct run_setup *setup = &rounds->job->setup;
    const struct ring_service *service = &setup->service;
    struct span_index at = span_at(&rounds->span, serial);
    *ret_epoch = at.epoch;
    *ret_step = round_at(&setup->plan, setup->shape, at.index).first_step;
    if (at.epoch == service->start_epoch && *ret_step < service->start_step)
        *ret_step = service->start_step;
}

void rounds_end(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step)
{
    begin_of(rounds, rounds->span.count, ret_epoch, ret_step);
}

enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step)
{
    uint64_t most = span_rounds(&rounds->job->setup).count;
    uint64_t serial = rounds->published < most ? rounds->published : most - 1;
    begin_of(rounds, serial, ret_epoch, ret_step);
    if (rounds->published == rounds->span.count)
        return BLOCK_NONE;
    const struct round *round = &rounds->lanes[serial % rounds->lane_count];
    if (round->serial != serial)
        return BLOCK_PLAN;
    if (rounds->opened == rounds->published) {
        uint64_t steps = round->reach.round.end_step - round->reach.round.first_step;
        bool slots = slots_free(rounds, round->reach.first_sequence + (steps ? steps - 1 : 0));
        return slots ? BLOCK_PLAN : BLOCK_SLOTS;
    }
    switch (round->state) {
    case ROUND_PLANNING:
        return atomic_load(&round->planned) ? BLOCK_EXCHANGE : BLOCK_PLAN;
    case ROUND_FILLING:
        return round->fill_next < round->fill_count ? BLOCK_ROWS : BLOCK_COPY;
    case ROUND_FILLED:
    case ROUND_EXCHANGING:
        return BLOCK_EXCHANGE;
    case ROUND_SCATTERING:
    case ROUND_COMPLETE:
        break;
    }
    return BLOCK_COPY;
}

bool rounds_exchanging(const struct rounds *rounds)
{
    uint64_t started = has_zero_copy(rounds) ? rounds->begun : rounds->posted;
    return rounds->exchange && started > rounds->published;
}

uint64_t rounds_take_sent_records(struct rounds *rounds, uint64_t epoch)
{
    uint64_t *sent = &rounds->sent_records[epoch % ROUND_MAX_IN_FLIGHT];
    uint64_t records = *sent;
    *sent = 0;
    return records;
}

struct rounds_times rounds_times(const struct rounds *rounds)
{
    const struct round_times *times = &rounds->times;
    return (struct rounds_times){
        .plan_ns = atomic_load_explicit(&times->plan_ns, memory_order_relaxed),
        .fill_ns = atomic_load_explicit(&times->fill_ns, memory_order_relaxed),
        .scatter_ns = atomic_load_explicit(&times->scatter_ns, memory_order_relaxed),
        .exchange_ns = rounds->exchange_ns,
    };
}

uint64_t rounds_begun(const struct rounds *rounds)
{
    return rounds->begun;
}

/* Opens and posts rounds up to `count`, as far as there are lanes and planned windows. */
static void drain_post(struct rounds *rounds, uint64_t count)
{
    while (rounds->posted < count) {
        struct round *round = lane_of(rounds, rounds->posted);
        if (rounds->opened == rounds->posted) {
            if (rounds->opened == rounds->published + rounds->lane_count)
                return;
            prepare(rounds, round);
            if (!windows_ready(rounds, round))
                return;
            round_reset(round, rounds->windows);
            rounds->opened++;
        }
        if (!atomic_load(&round->planned))
            round_plan_counts(round);
        bool begun = round->serial < rounds->begun;
        transfer_abandon(rounds->exchange, lane_index(rounds, round), round, begun);
        rounds->begun += begun ? 0 : 1;
        post(rounds, round);
        round->state = ROUND_EXCHANGING;
    }
}

bool rounds_drain(struct rounds *rounds, uint64_t count)
{
    if (!rounds->exchange)
        return true;
    drain_post(rounds, count);
    while (rounds->published < rounds->posted) {
        struct round *round = lane_of(rounds, rounds->published);
        if (round->state == ROUND_EXCHANGING &&
            !exchange_test(rounds->exchange, lane_index(rounds, round)))
            return false;
        retire(rounds, round);
        drain_post(rounds, count);
    }
    pace_progress(rounds->pace, rounds->published, false);
    return rounds->published >= count && pace_settled(rounds->pace, rounds->published);
}
