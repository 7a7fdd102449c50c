/* See round_plan.h. */
#include "round_plan.h"

#include "base/clock.h"
#include "base/divide.h"

#include <assert.h>
#include <string.h>

void round_reset(struct round *round, struct windows *windows)
{
    round->state = ROUND_PLANNING;
    round->windows = windows;
    round->fill_count = round->fill_next = 0;
    round->sent_next = round->sent_count = 0;
    round->arrival_count = round->scatter_next = 0;
    atomic_store(&round->tasks, 0);
    atomic_store(&round->planned, false);
}

/* This reader's trainer of that rank; job->trainers is in order of rank. */
static const struct job_trainer *find_trainer(const struct job *job, uint32_t rank)
{
    uint32_t low = 0, high = job->trainer_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (job->trainers[middle].rank <= rank)
            low = middle;
        else
            high = middle;
    }
    return &job->trainers[low];
}

static unsigned char *slot_base(const struct round *round, const struct job_trainer *trainer,
                                uint64_t step)
{
    uint64_t sequence = round->reach.first_sequence + step - round->reach.round.first_step;
    return server_slot(round->job->server, trainer->peer, sequence);
}

static void sum_displacements(const int *counts, int *displacements, int size)
{
    int sum = 0;
    for (int peer = 0; peer < size; peer++) {
        displacements[peer] = sum;
        sum += counts[peer];
    }
}

/* The trainer in whose local batch a destination is. Where positions are destinations, they come in
 * ascending order, so that most are in the same local batch as the one before. */
struct recipient_walk {
    struct plan_local_batch local;
    uint32_t reader;
    unsigned char *slot; /* of this reader's trainers */
};

/* `destination`: counted from the epoch's first. */
static void walk_to(struct recipient_walk *walk, const struct round *round, uint64_t destination)
{
    const struct job *job = round->job;
    if (destination - walk->local.first < walk->local.count)
        return;
    struct plan_recipient recipient = plan_recipient_of(&job->setup.plan, destination);
    walk->local = plan_local_batch_at(&job->setup.plan, recipient.step, recipient.trainer);
    walk->reader = job->reader_of_trainer[recipient.trainer];
    if (walk->reader == (uint32_t)job->comm.rank)
        walk->slot = slot_base(round, find_trainer(job, recipient.trainer), recipient.step);
}

/* The destination of a position of the round, counted from the epoch's first. */
static uint64_t destination_of(const struct round *round, uint64_t position)
{
    const struct round_matching *matching = &round->matching;
    if (!matching->matcher)
        return position;
    return position - position % round->job->setup.plan.global_batch +
           matching->destinations[position - matching->first];
}

static void list_fill(struct round *round, const struct recipient_walk *walk, struct window *window,
                      const struct round_item *item, uint64_t destination)
{
    struct fill *fill = &round->fills[round->fill_count++];
    fill->buffer = &window->buffers[item->window_row];
    fill->offset = item->offset;
    if (walk->reader == (uint32_t)round->job->comm.rank) {
        fill->to.slot = walk->slot;
        fill->batch_index = (uint32_t)(destination - walk->local.first);
    } else {
        assert(round->counts.send_counts); /* there is another reader */
        fill->to.remote.reader = walk->reader;
        fill->to.remote.record = (uint32_t)round->counts.send_counts[walk->reader]++;
        fill->batch_index = FILL_REMOTE;
    }
}

/* Takes my samples of this round from its windows, in order of position. Records are numbered for
 * each reader from 0. */
static void list_fills(struct round *round)
{
    struct recipient_walk walk = {0};
    for (uint64_t serial = round->reach.first_window; serial <= round->reach.last_window;
         serial++) {
        struct window *window = windows_at(round->windows, serial);
        for (; window->fill_next < window->item_count; window->fill_next++) {
            const struct round_item *item = &window->items[window->fill_next];
            if (item->round != round->reach.round.index)
                break;
            uint64_t destination = destination_of(round, item->position);
            walk_to(&walk, round, destination);
            list_fill(round, &walk, window, item, destination);
        }
    }
}

/* Samples that follow one another in a local batch. */
enum { RUN_BLOCK = 256 };
struct run {
    unsigned char *slot;  /* NULL: the samples are counted alone */
    uint32_t batch_index; /* of the first */
    bool valid;           /* or all are padding */
    size_t count;
    uint64_t samples[RUN_BLOCK];
    uint16_t sources[RUN_BLOCK]; /* the readers of their rows */
};

/* Looks up what the plan says of consecutive positions. */
struct lookup {
    uint64_t position; /* of the next ones */
    const struct window *window;
    struct plan_location locations[RUN_BLOCK];
};

static void find_samples(struct lookup *lookup, uint64_t unpadded, struct run *ret_run)
{
    const struct window *window = lookup->window;
    const struct plan *plan = &window->epoch.plan;
    plan_locations_at(&window->plan, unpadded, ret_run->count, lookup->locations);
    for (size_t i = 0; i < ret_run->count; i++) {
        struct plan_location at = lookup->locations[i];
        ret_run->samples[i] = plan_row_first(plan, window->rows[at.window_row]) + at.offset;
        ret_run->sources[i] = window->owners[at.window_row] & ASSIGN_READER_MASK;
    }
}

/* Looks up the next positions before `end`: as many as are in one window, and all padding or none.
 */
static void look_up(const struct round *round, struct lookup *lookup, uint64_t end,
                    struct run *ret_run)
{
    const struct plan_epoch *epoch = &round->reach.epoch;
    uint64_t unpadded = plan_unpad(epoch, lookup->position);
    const struct window *window =
        windows_at(round->windows, windows_serial_of(round->windows, epoch, unpadded));
    uint64_t window_left = window->plan.first_position + window->plan.sample_count - unpadded;
    uint64_t left = end - lookup->position;
    uint64_t count = left < window_left ? left : window_left;
    lookup->window = window;
    ret_run->count = count < RUN_BLOCK ? count : RUN_BLOCK;
    ret_run->valid = lookup->position < epoch->plan.sample_count;
    find_samples(lookup, unpadded, ret_run);
    lookup->position += ret_run->count;
}

/* Everything in the slot that does not come with the row. */
static void dress(const struct round *round, const struct run *run)
{
    unsigned char *slot = run->slot;
    const struct ring_layout *layout = &round->job->setup.layout;
    memcpy(slot + layout->indices_offset + run->batch_index * sizeof *run->samples, run->samples,
           run->count * sizeof *run->samples);
    plan_sample_keys(round->reach.epoch.plan.seed, round->reach.epoch.epoch, run->samples,
                     run->count, (uint64_t *)(slot + layout->keys_offset) + run->batch_index);
    memset(slot + layout->valid_offset + run->batch_index, run->valid, run->count);
    for (size_t f = 0; f < round->fields->held_count; f++) {
        const struct round_field *field = &round->fields->held[f];
        for (size_t i = 0; i < run->count; i++)
            memcpy(round_field_in_slot(field, slot, run->batch_index + (uint32_t)i),
                   dataset_held_sample(round->job->dataset, field->field, run->samples[i]),
                   field->bytes);
    }
}

/* Records are numbered for each reader from 0. */
static void list_run(struct round *round, const struct run *run)
{
    uint32_t me = (uint32_t)round->job->comm.rank;
    if (run->slot)
        dress(round, run);
    for (size_t i = 0; i < run->count; i++) {
        uint32_t source = run->sources[i];
        if (source == me)
            continue;
        round->arrivals[round->arrival_count++] =
            (struct arrival){.slot = run->slot,
                             .batch_index = run->batch_index + (uint32_t)i,
                             .source = source,
                             .record = (uint64_t)round->counts.receive_counts[source]++};
    }
}

/* Visits the positions of my trainers in this round in ascending order. */
static void list_arrivals(struct round *round, bool dressed)
{
    const struct job *job = round->job;
    const struct plan *plan = &job->setup.plan;
    struct lookup lookup;
    struct run run;
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step; step++)
        for (uint32_t i = 0; i < job->trainer_count; i++) {
            const struct job_trainer *trainer = &job->trainers[i];
            uint64_t first = plan_local_batch_at(plan, step, trainer->rank).first;
            struct round_slice slice =
                round_slice_at(plan, &round->reach.round, step, trainer->rank);
            run.slot = dressed ? slot_base(round, trainer, step) : NULL;
            run.batch_index = slice.first;
            for (lookup.position = first + slice.first; lookup.position < first + slice.end;) {
                look_up(round, &lookup, first + slice.end, &run);
                list_run(round, &run);
                run.batch_index += (uint32_t)run.count;
            }
        }
}

/* Looks up all positions of a step in this round, and gives them destinations. */
static void match_step(struct round *round, struct lookup *lookup, uint64_t step)
{
    const struct plan *plan = &round->job->setup.plan;
    const struct round_matching *matching = &round->matching;
    struct round_slice stripe = round_stripe_at(plan, &round->reach.round, step);
    struct divider trainers = divider_of(plan->trainer_count);
    uint64_t first = step * plan->global_batch + stripe.first - matching->first;
    uint64_t end = step * plan->global_batch + stripe.end;
    lookup->position = step * plan->global_batch + stripe.first;
    for (uint64_t at = first; lookup->position < end;) {
        struct run run;
        look_up(round, lookup, end, &run);
        memcpy(matching->samples + at, run.samples, run.count * sizeof *run.samples);
        memcpy(matching->sources + at, run.sources, run.count * sizeof *run.sources);
        for (size_t i = 0; i < run.count; i++)
            matching->destinations[at + i] =
                locality_trainer(trainers, lookup->window->rows[lookup->locations[i].window_row]);
        at += run.count;
    }
    matcher_match(matching->matcher, round->reach.epoch.epoch, &round->reach.round, step,
                  matching->destinations + first);
}

static void match_all(struct round *round)
{
    const struct plan *plan = &round->job->setup.plan;
    const struct plan_round *reach = &round->reach.round;
    struct lookup lookup;
    round->matching.first = reach->first_step * plan->global_batch +
                            round_stripe_at(plan, reach, reach->first_step).first;
    for (uint64_t step = reach->first_step; step < reach->end_step; step++)
        match_step(round, &lookup, step);
}

/* Visits all positions of a step in this round in ascending order, and lists those whose
 * destinations are my trainers'. A reader's positions have its trainers' destinations in order, so
 * that runs are long. */
static void list_matched(struct round *round, uint64_t step, bool dressed)
{
    const struct plan *plan = &round->job->setup.plan;
    const struct round_matching *matching = &round->matching;
    struct round_slice stripe = round_stripe_at(plan, &round->reach.round, step);
    uint64_t step_first = step * plan->global_batch, next_destination = 0;
    struct recipient_walk walk = {0};
    struct run run = {.slot = NULL};
    for (uint64_t p = step_first + stripe.first; p < step_first + stripe.end; p++) {
        uint64_t destination = destination_of(round, p);
        bool valid = p < plan->sample_count;
        walk_to(&walk, round, destination);
        if (walk.reader != (uint32_t)round->job->comm.rank)
            continue;
        unsigned char *slot = dressed ? walk.slot : NULL;
        if (run.count == RUN_BLOCK || slot != run.slot || destination != next_destination ||
            valid != run.valid) {
            list_run(round, &run);
            run.slot = slot;
            run.batch_index = (uint32_t)(destination - walk.local.first);
            run.valid = valid;
            run.count = 0;
        }
        run.samples[run.count] = matching->samples[p - matching->first];
        run.sources[run.count++] = matching->sources[p - matching->first];
        next_destination = destination + 1;
    }
    list_run(round, &run);
}

/* Records are numbered through, once it is known how many each reader has. */
static void number_records(struct round *round)
{
    const struct exchange_counts *counts = &round->counts;
    int size = round->job->comm.size;
    sum_displacements(counts->send_counts, counts->send_displacements, size);
    sum_displacements(counts->receive_counts, counts->receive_displacements, size);
    for (uint64_t i = 0; i < round->fill_count; i++) {
        struct fill *fill = &round->fills[i];
        if (fill->batch_index == FILL_REMOTE)
            fill->to.remote.record += (uint32_t)counts->send_displacements[fill->to.remote.reader];
    }
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        struct arrival *arrival = &round->arrivals[i];
        arrival->record += (uint64_t)counts->receive_displacements[arrival->source];
    }
}

static void list_all(struct round *round, bool dressed)
{
    size_t counts_bytes = (size_t)round->job->comm.size * sizeof(int);
    bool exchanged = round->counts.send_counts != NULL;
    if (exchanged) {
        memset(round->counts.send_counts, 0, counts_bytes);
        memset(round->counts.receive_counts, 0, counts_bytes);
    }
    if (round->matching.matcher)
        match_all(round);
    list_fills(round);
    if (round->matching.matcher)
        for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step;
             step++)
            list_matched(round, step, dressed);
    else
        list_arrivals(round, dressed);
    if (exchanged)
        number_records(round);
}

void round_plan_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    (void)begin;
    (void)end;
    struct round *round = argument;
    uint64_t start_ns = clock_now_ns();
    list_all(round, true);
    atomic_fetch_add_explicit(&round->times->plan_ns, clock_now_ns() - start_ns,
                              memory_order_relaxed);
    atomic_store(&round->planned, true);
}

void round_plan_counts(struct round *round)
{
    list_all(round, false);
    atomic_store(&round->planned, true);
}
