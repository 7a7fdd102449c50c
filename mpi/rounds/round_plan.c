/* See round_plan.h. */
#include "rounds/round_plan.h"

#include "rounds/round_match.h"
#include "rounds/round_places.h"

#include "anchors/anchors.h"
#include "base/clock.h"
#include "base/divide.h"
#include "base/number.h"
#include "base/trace.h"

#include <assert.h>
#include <string.h>

static bool has_passes(const struct round *round)
{
    return round_has_passes(round->job->setup.shape);
}

/* Empties the lists, to list the round's positions in `range`. */
static void begin_lists(struct round *round, struct round_range range)
{
    round->state = ROUND_PLANNING;
    round->range = range;
    round->fill_count = round->fill_next = 0;
    round->sent_next = round->sent_count = 0;
    round->arrival_count = round->scatter_next = 0;
    atomic_store(&round->tasks, 0);
    atomic_store(&round->planned, false);
    if (round->matching->matcher)
        round_match_begin(round);
}

static struct round_range whole_range(const struct round *round)
{
    return round_range_at(&round->reach.epoch.plan, &round->reach.round);
}

void round_reset(struct round *round, struct windows *windows)
{
    round->windows = windows;
    round->phase = dataset_phase_of(round->job->dataset, round->reach.epoch.epoch);
    round->passes = has_passes(round) ? 0 : 1;
    round->pass = 0;
    round->lists = LISTS_ROUND;
    begin_lists(round, whole_range(round));
}

void round_reset_pass(struct round *round)
{
    round->lists = LISTS_PASS;
    begin_lists(round, round_range_of_pass(whole_range(round), round->passes, round->pass));
}

static unsigned char *slot_base(const struct round *round, const struct job_ring *ring,
                                uint64_t step)
{
    uint64_t sequence = round->reach.first_sequence + step - round->reach.round.first_step;
    return server_slot(round->job->server, ring->ring, sequence);
}

static void sum_displacements(const int *counts, int *displacements, int size)
{
    int sum = 0;
    for (int peer = 0; peer < size; peer++) {
        displacements[peer] = sum;
        sum += counts[peer];
    }
}

/* The table of starts of that slot. */
static uint32_t table_of(const struct round *round, const struct job_ring *ring, uint64_t step)
{
    uint64_t first = (step - round->reach.round.first_step) * round->session->ring_count;
    return (uint32_t)(first + (uint64_t)(ring - round->session->rings));
}

/* The group in whose local batch a destination is. Where positions are destinations, they come in
 * ascending order, so that most are in the same local batch as the one before. */
struct recipient_walk {
    struct plan_local_batch local;
    const uint32_t *readers; /* [reader_count] that have a ring for the group */
    uint32_t reader_count;
    uint32_t reader;     /* the one of them that a fill is for */
    unsigned char *slot; /* of this reader's ring */
    uint32_t table;      /* likewise, of the slot */
};

/* `destination`: counted from the epoch's first. */
static void walk_to(struct recipient_walk *walk, const struct round *round, uint64_t destination)
{
    if (destination - walk->local.first < walk->local.count)
        return;
    const struct plan *plan = &round->reach.epoch.plan;
    struct plan_recipient recipient = plan_recipient_of(plan, destination);
    const struct session *session = round->session;
    uint32_t group = recipient.trainer, number = session->ring_of_group[group];
    walk->local = plan_local_batch_at(plan, recipient.step, group);
    walk->readers = session->groups.readers + (size_t)group * session->groups.most;
    walk->reader_count = session->groups.counts[group];
    if (number == 0)
        return;
    const struct job_ring *ring = &session->rings[number - 1];
    walk->slot = slot_base(round, ring, recipient.step);
    walk->table = table_of(round, ring, recipient.step);
}

/* The destination of a position of the round, counted from the epoch's first. */
static uint64_t destination_of(const struct round *round, uint64_t position)
{
    const struct round_matching *matching = round->matching;
    if (!matching->matcher)
        return position;
    const struct plan *plan = &round->reach.epoch.plan;
    return plan_step_first(plan, plan_step_of(plan, position)) +
           matching->destinations[position - matching->first];
}

/* The frame of a sample, of which the fill has the number in the row, and how much room the sample
 * has in its episode. */
static void find_frame(struct round *round, struct fill *fill, const struct plan *plan,
                       uint64_t row)
{
    uint64_t frame = plan_frame_at(plan, row, fill->offset);
    fill->offset = (uint32_t)(frame - plan_row_first(plan, row));
    if (!round->rooms)
        return;
    struct anchors_episode episode = anchors_episode_of(plan->anchors, frame);
    round->rooms[fill - round->fills] = (struct fragment_room){
        .before = (uint32_t)min_u64(frame - episode.first, FRAGMENT_MOST_ROOM),
        .behind = (uint32_t)min_u64(episode.end - 1 - frame, FRAGMENT_MOST_ROOM)};
}

/* The key of a sample, which says where its crops lie. */
static void note_key(struct round *round, const struct fill *fill, const struct window *window,
                     const struct round_item *item)
{
    const struct plan_epoch *epoch = &window->epoch;
    uint64_t frame = plan_frame_at(&epoch->plan, window->rows[item->window_row], item->offset);
    round->keys[fill - round->fills] = plan_sample_key(
        epoch->plan.seed, epoch->epoch, plan_key_index(&epoch->plan, item->offset, frame));
}

/* A sample's trailer, which begins behind `units` of those that travel as it does and were counted
 * before: trailers are numbered for each reader from 0, as records. */
static void note_trailer(const struct round_trailers *trailers, uint32_t source, uint64_t frame,
                         uint32_t table, int *units, struct round_trailer *ret_trailer)
{
    *ret_trailer = (struct round_trailer){.frame = frame, .at = (uint64_t)*units, .table = table};
    *units += (int)(dataset_trailer_bytes(trailers->trailers->of[source]->dataset, frame) /
                    TRAILER_UNIT_BYTES);
}

/* Where the sample's trailer goes, or its slot's starts are. `fill` has its offset in the row. */
static void note_fill_trailer(struct round *round, const struct fill *fill,
                              const struct recipient_walk *walk, const struct window *window,
                              uint64_t row)
{
    struct round_trailers *trailers = round->trailers;
    struct round_trailer *trailer = &trailers->fills[fill - round->fills];
    uint64_t frame = plan_row_first(&window->epoch.plan, row) + fill->offset;
    if (fill->batch_index == FILL_REMOTE)
        note_trailer(trailers, window->source, frame, walk->table,
                     &trailers->counts.send_counts[walk->reader], trailer);
    else
        *trailer = (struct round_trailer){.frame = frame, .table = walk->table};
}

static inline void list_fill(struct round *round, const struct recipient_walk *walk,
                             struct window *window, const struct round_item *item,
                             uint64_t destination)
{
    struct fill *fill = &round->fills[round->fill_count];
    if (round->fill_count++ >= round->most.listed)
        return;
    fill->buffer = &window->buffers[item->window_row];
    fill->offset = item->offset;
    if (round->keys)
        note_key(round, fill, window, item);
    if (window->epoch.plan.anchors)
        find_frame(round, fill, &window->epoch.plan, window->rows[item->window_row]);
    if (round->fill_kinds)
        round->fill_kinds[fill - round->fills] =
            (uint16_t)round_kind(round, walk->reader, window->source);
    if (walk->reader == (uint32_t)round->job->comm.rank) {
        fill->to.slot = walk->slot;
        fill->batch_index = (uint32_t)(destination - walk->local.first);
    } else {
        assert(round->counts.send_counts); /* there is another reader */
        fill->to.remote.reader = walk->reader;
        fill->to.remote.record = (uint32_t)round->counts.send_counts[walk->reader]++;
        fill->batch_index = FILL_REMOTE;
    }
    if (round->trailers)
        note_fill_trailer(round, fill, walk, window, window->rows[item->window_row]);
}

static inline void list_item(struct round *round, struct recipient_walk *walk,
                             struct window *window, const struct round_item *item)
{
    uint64_t destination = destination_of(round, item->position - round->reach.epoch_begin);
    walk_to(walk, round, destination);
    for (uint32_t i = 0; i < walk->reader_count; i++) {
        walk->reader = walk->readers[i];
        list_fill(round, walk, window, item, destination);
        if (round->fill_uses && round->fill_count <= round->most.listed)
            round->fill_uses[round->fill_count - 1] =
                (uint16_t)(i == 0 ? round->session->groups.most - walk->reader_count + 1 : 1);
    }
}

/* The first item of a window that is at the round's positions to list, or behind them. */
static uint64_t seek(const struct round *round, const struct window *window)
{
    uint64_t position = round->reach.epoch_begin + round->range.first;
    uint64_t low = 0, high = window->item_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct round_item *item = &window->items[middle];
        bool before = item->round < round->reach.absolute_round ||
                      (item->round == round->reach.absolute_round && item->position < position);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Takes my samples of this round from a window. */
static void list_window(struct round *round, struct recipient_walk *walk, struct window *window)
{
    uint64_t end = round->reach.epoch_begin + round->range.end;
    for (uint64_t i = seek(round, window); i < window->item_count; i++) {
        const struct round_item *item = &window->items[i];
        if (item->round != round->reach.absolute_round || item->position >= end)
            break;
        list_item(round, walk, window, item);
    }
}

/* The same of all windows of a mix, which have positions in turn. */
static void list_merged(struct round *round, struct recipient_walk *walk)
{
    struct item_merge *merge = round->merge;
    struct window *window;
    item_merge_begin(merge, round->reach.absolute_round,
                     round->reach.epoch_begin + round->range.end);
    for (uint32_t s = 0; s < round->reach.source_count; s++)
        for (uint64_t i = round->reach.sources[s].first_window;
             i < round->reach.sources[s].end_window; i++) {
            window = windows_at(round->windows, s, i);
            window->fill_next = seek(round, window);
            item_merge_add(merge, window, &window->fill_next);
        }
    for (; (window = item_merge_first(merge)); item_merge_take(merge))
        list_item(round, walk, window, &window->items[window->fill_next]);
}

/* The same where windows have no lists: by looking up positions [first, end). */
static void list_positions(struct round *round, struct recipient_walk *walk,
                           struct round_range range)
{
    uint32_t me = (uint32_t)round->job->comm.rank;
    uint64_t position = max_u64(range.first, round->range.first);
    uint64_t end = min_u64(range.end, round->range.end);
    while (position < end) {
        struct place places[PLACES_BLOCK];
        size_t count = places_look_up_used(round->windows, &round->reach, &position, end, places);
        for (size_t i = 0; i < count; i++) {
            const struct place *place = &places[i];
            const struct round_item item = {.position = round->reach.epoch_begin + position + i,
                                            .window_row = place->location.window_row,
                                            .offset = place->location.offset};
            if (assign_reader(place->window->owners[item.window_row]) == me)
                list_item(round, walk, place->window, &item);
        }
        position += count;
    }
}

/* In order of position. Records are numbered for each reader from 0. */
static void list_fills(struct round *round)
{
    const struct plan *plan = &round->reach.epoch.plan;
    const struct reach_source *only = &round->reach.sources[0];
    struct recipient_walk walk = {0};
    if (!windows_are_listed(round->windows, &round->reach)) {
        for (uint32_t i = 0; i < round_range_count(plan, &round->reach.round); i++)
            list_positions(round, &walk, round_range_number(plan, &round->reach.round, i));
        return;
    }
    if (plan->mix) {
        list_merged(round, &walk);
        return;
    }
    for (uint64_t i = only->first_window; i < only->end_window; i++)
        list_window(round, &walk, windows_at(round->windows, 0, i));
}

/* The source of a sample of a run. */
static uint32_t source_of(const struct round *round, const struct round_run *run, size_t i)
{
    return round->fragments->source_count > 1 ? run->windows[i]->source : 0;
}

static void note_lengths(const struct round *round, const struct round_run *run)
{
    const struct round_trailers *trailers = round->trailers;
    uint64_t *starts = round_starts(trailers, run->table);
    for (size_t i = 0; i < run->count; i++)
        trailers_note(trailers->trailers->of[source_of(round, run, i)], run->frames[i],
                      run->batch_index + (uint32_t)i, starts);
}

/* Records and trailers are numbered for each reader from 0. */
static void list_run(struct round *round, const struct round_run *run)
{
    uint32_t me = (uint32_t)round->job->comm.rank;
    bool dresses = run->dressed && run->count > 0;
    if (dresses)
        round_dress(round, run);
    if (dresses && round->trailers)
        note_lengths(round, run);
    for (size_t i = 0; i < run->count; i++) {
        uint32_t reader = assign_reader(run->owners[i]);
        if (reader == me)
            continue;
        if (round->arrival_count >= round->most.received) {
            round->arrival_count++;
            continue;
        }
        if (round->trailers)
            note_trailer(round->trailers, source_of(round, run, i), run->frames[i], run->table,
                         &round->trailers->counts.receive_counts[reader],
                         &round->trailers->arrivals[round->arrival_count]);
        round->arrivals[round->arrival_count++] =
            (struct arrival){.slot = run->slot,
                             .batch_index = run->batch_index + (uint32_t)i,
                             .reader = (uint16_t)reader,
                             .kind = (uint16_t)round_kind(round, me, source_of(round, run, i)),
                             .record = (uint64_t)round->counts.receive_counts[reader]++};
    }
}

/* Visits the positions of my rings in this round in ascending order. */
static void list_arrivals(struct round *round, bool dressed)
{
    const struct plan *plan = &round->reach.epoch.plan;
    struct round_run run;
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step; step++)
        for (uint32_t i = 0; i < round->session->ring_count; i++) {
            const struct job_ring *ring = &round->session->rings[i];
            uint64_t first = plan_local_batch_at(plan, step, ring->group).first;
            struct round_slice slice = round_slice_at(plan, &round->reach.round, step, ring->group);
            uint64_t position = max_u64(first + slice.first, round->range.first);
            uint64_t end = min_u64(first + slice.end, round->range.end);
            run.slot = slot_base(round, ring, step);
            run.dressed = dressed;
            run.table = table_of(round, ring, step);
            for (; position < end; position += run.count) {
                run.batch_index = (uint32_t)(position - first);
                round_run_look_up(round, position, end, &run);
                list_run(round, &run);
            }
        }
}

/* Whether a destination in a step is in one of this reader's rings. Most are not: so this is
 * plan_recipient_of() without divisions. */
static bool is_mine(const struct round *round, struct divider step_samples, uint64_t destination)
{
    uint64_t trainers = round->job->setup.plan.trainer_count;
    uint64_t trainer = divide(step_samples, (destination + 1) * trainers - 1);
    return round->session->ring_of_group[trainer] > 0;
}

/* The window that holds a position, without a mix. */
static const struct window *window_at(const struct round *round, uint64_t position)
{
    uint64_t unpadded;
    return places_window(round->windows, &round->reach, position, &unpadded);
}

/* Visits all positions of a step in this round in ascending order, and lists those whose
 * destinations are in my rings. A reader's positions have its rings' destinations in order, so that
 * runs are long. */
static void list_matched(struct round *round, uint64_t step, bool dressed)
{
    const struct plan *plan = &round->reach.epoch.plan;
    struct round_slice stripe = round_stripe_at(plan, &round->reach.round, step);
    struct divider step_samples = divider_of(plan_step_samples(plan, step));
    uint64_t step_first = plan_step_first(plan, step), next_destination = 0;
    struct recipient_walk walk = {0};
    struct round_run run;
    run.slot = NULL;
    run.dressed = dressed;
    run.count = 0;
    uint64_t end = min_u64(step_first + stripe.end, round->range.end);
    for (uint64_t p = max_u64(step_first + stripe.first, round->range.first); p < end; p++) {
        uint64_t destination = destination_of(round, p);
        if (!is_mine(round, step_samples, destination - step_first))
            continue;
        bool valid = p < plan->sample_count;
        walk_to(&walk, round, destination);
        if (run.count == ROUND_RUN_MOST || walk.slot != run.slot ||
            destination != next_destination || valid != run.valid) {
            list_run(round, &run);
            run.slot = walk.slot;
            run.table = walk.table;
            run.batch_index = (uint32_t)(destination - walk.local.first);
            run.valid = valid;
            run.count = 0;
        }
        uint64_t at = p - round->matching->first;
        round_run_add(round, &run,
                      round->matching->windows ? round->matching->windows[at] : window_at(round, p),
                      round->matching->locations[at]);
        next_destination = destination + 1;
    }
    list_run(round, &run);
}

static void sum_counts(const struct exchange_counts *counts, int size)
{
    sum_displacements(counts->send_counts, counts->send_displacements, size);
    sum_displacements(counts->receive_counts, counts->receive_displacements, size);
}

/* Records are numbered through, once it is known how many each reader has, and so are the units of
 * trailers. */
static void number_records(struct round *round)
{
    struct round_trailers *trailers = round->trailers;
    const uint32_t *units = round->record_units;
    int me = round->job->comm.rank;
    for (int peer = 0; units && peer < round->job->comm.size; peer++) {
        round->counts.send_counts[peer] *= (int)units[peer];
        round->counts.receive_counts[peer] *= (int)units[me];
    }
    sum_counts(&round->counts, round->job->comm.size);
    if (trailers)
        sum_counts(&trailers->counts, round->job->comm.size);
    for (uint64_t i = 0; i < round->fill_count; i++) {
        struct fill *fill = &round->fills[i];
        if (fill->batch_index != FILL_REMOTE)
            continue;
        uint32_t reader = fill->to.remote.reader;
        if (units)
            fill->to.remote.record *= units[reader];
        fill->to.remote.record += (uint32_t)round->counts.send_displacements[reader];
        if (trailers)
            trailers->fills[i].at += (uint64_t)trailers->counts.send_displacements[reader];
    }
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        struct arrival *arrival = &round->arrivals[i];
        if (units)
            arrival->record *= units[me];
        arrival->record += (uint64_t)round->counts.receive_displacements[arrival->reader];
        if (trailers)
            trailers->arrivals[i].at +=
                (uint64_t)trailers->counts.receive_displacements[arrival->reader];
    }
}

static void clear_counts(const struct round *round, const struct exchange_counts *counts)
{
    size_t counts_bytes = (size_t)round->job->comm.size * sizeof(int);
    memset(counts->send_counts, 0, counts_bytes);
    memset(counts->receive_counts, 0, counts_bytes);
}

/* All samples of the round's slots are noted. */
static void start_slots(const struct round *round)
{
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step; step++)
        for (uint32_t i = 0; i < round->session->ring_count; i++) {
            const struct job_ring *ring = &round->session->rings[i];
            struct plan_local_batch local =
                plan_local_batch_at(&round->reach.epoch.plan, step, ring->group);
            trailers_start(round->trailers->trailers->of[0], local.count,
                           plan_step_bound(&round->reach.epoch, step),
                           round_starts(round->trailers, table_of(round, ring, step)),
                           slot_base(round, ring, step));
        }
}

/* Lists the positions of a range; true: there is room for all of them. `dressed`: also dresses the
 * samples of this reader's slots. */
static bool list_range(struct round *round, struct round_range range, bool dressed)
{
    uint64_t sent = 0;
    round->range = range;
    round->fill_count = round->arrival_count = 0;
    if (round->counts.send_counts)
        clear_counts(round, &round->counts);
    if (round->counts.send_counts && round->trailers)
        clear_counts(round, &round->trailers->counts);
    list_fills(round);
    if (round->matching->matcher)
        for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step;
             step++)
            list_matched(round, step, dressed);
    else
        list_arrivals(round, dressed);
    for (int peer = 0; round->counts.send_counts && peer < round->job->comm.size; peer++)
        sent += (uint64_t)round->counts.send_counts[peer];
    return round->fill_count <= round->most.listed && sent <= round->most.sent &&
           round->arrival_count <= round->most.received;
}

static bool passes_fit(struct round *round, struct round_range all, uint64_t passes)
{
    for (uint64_t pass = 0; pass < passes; pass++)
        if (!list_range(round, round_range_of_pass(all, passes, pass), false))
            return false;
    return true;
}

/* A round of one pass that fits stays listed. Otherwise its passes will be listed one by one. */
static void list_all(struct round *round, bool dressed)
{
    struct round_range all = round->range;
    if (round->matching->matcher)
        round_match_finish(round);
    round->needed = 1;
    bool fits = list_range(round, all, dressed);
    while (!fits && round->lists == LISTS_ROUND) {
        round->needed *= 2;
        fits = passes_fit(round, all, round->needed);
    }
    assert(fits);
    round->range = all;
    if (round->needed == 1 && round->counts.send_counts)
        number_records(round);
    if (dressed && round->trailers)
        start_slots(round);
}

/* Pool task: one worker of those that share the looking up lists all. The main thread is told of
 * this worker, and of the last one. */
static void plan_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    struct round *round = argument;
    struct round_matching *matching = round->matching;
    uint64_t start_ns = clock_now_ns();
    bool lists = !matching->matcher || round_match_look_up(round);
    if (lists)
        list_all(round, round->lists == LISTS_ROUND);
    uint64_t end_ns = clock_now_ns();
    round_time_add(&round->times[worker->index].plan_ns, end_ns - start_ns);
    trace_note(TRACE_PLAN_ROUND, start_ns, end_ns, round->serial);
    if (lists)
        atomic_store(&round->planned, true);
    atomic_fetch_sub(&round->tasks, 1);
    worker->quiet = atomic_fetch_sub(&matching->workers, 1) > 1 && !lists;
}

bool round_plan_start(struct round *round)
{
    struct pool *pool = round->job->pool;
    struct round_matching *matching = round->matching;
    uint32_t workers = matching->matcher ? round_match_workers(round, pool_worker_count(pool)) : 1;
    for (uint32_t i = 0; i < workers; i++) {
        atomic_fetch_add(&round->tasks, 1);
        atomic_fetch_add(&matching->workers, 1);
        if (!pool_submit_first(pool, pool_idlest_numa(pool), plan_task, round)) {
            atomic_fetch_sub(&round->tasks, 1);
            atomic_fetch_sub(&matching->workers, 1);
            return i > 0;
        }
    }
    return true;
}

void round_plan_counts(struct round *round)
{
    if (round->matching->matcher) {
        round_match_begin(round);
        bool looked_up = round_match_look_up(round);
        assert(looked_up);
        (void)looked_up;
    }
    list_all(round, false);
    atomic_store(&round->planned, true);
}
