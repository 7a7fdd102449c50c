/* See round_plan.h. */
#include "round_plan.h"

#include "base/clock.h"

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

/* The trainer in whose local batch a position is. Positions come in ascending order, so that most
 * are in the same local batch as the one before. */
struct recipient_walk {
    struct plan_local_batch local;
    uint32_t reader;
    unsigned char *slot; /* of this reader's trainers */
};

static void walk_to(struct recipient_walk *walk, const struct round *round, uint64_t position)
{
    const struct job *job = round->job;
    if (position - walk->local.first < walk->local.count)
        return;
    struct plan_recipient recipient = plan_recipient_of(&job->setup.plan, position);
    walk->local = plan_local_batch_at(&job->setup.plan, recipient.step, recipient.trainer);
    walk->reader = job->reader_of_trainer[recipient.trainer];
    if (walk->reader == (uint32_t)job->comm.rank)
        walk->slot = slot_base(round, find_trainer(job, recipient.trainer), recipient.step);
}

static void list_fill(struct round *round, const struct recipient_walk *walk, struct window *window,
                      const struct round_item *item)
{
    struct fill *fill = &round->fills[round->fill_count++];
    fill->buffer = &window->buffers[item->window_row];
    fill->offset = item->offset;
    if (walk->reader == (uint32_t)round->job->comm.rank) {
        fill->to.slot = walk->slot;
        fill->batch_index = (uint32_t)(item->position - walk->local.first);
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
            walk_to(&walk, round, item->position);
            list_fill(round, &walk, window, item);
        }
    }
}

/* Consecutive positions of one trainer, all in one window, and what the plan says of them. */
enum { RUN_BLOCK = 256 };
struct run {
    const struct window *window;
    uint64_t position;
    uint32_t batch_index; /* of the first */
    size_t count;
    struct plan_location locations[RUN_BLOCK];
    uint64_t samples[RUN_BLOCK];
};

static void find_samples(struct run *run, uint64_t unpadded)
{
    const struct window *window = run->window;
    const struct plan *plan = &window->epoch.plan;
    plan_locations_at(&window->plan, unpadded, run->count, run->locations);
    for (size_t i = 0; i < run->count; i++)
        run->samples[i] = plan_row_first(plan, window->rows[run->locations[i].window_row]) +
                          run->locations[i].offset;
}

/* Everything in the slot that does not come with the row. */
static void dress(const struct round *round, unsigned char *slot, const struct run *run)
{
    const struct ring_layout *layout = &round->job->setup.layout;
    const struct plan *plan = &round->reach.epoch.plan;
    memcpy(slot + layout->indices_offset + run->batch_index * sizeof *run->samples, run->samples,
           run->count * sizeof *run->samples);
    plan_sample_keys(plan->seed, round->reach.epoch.epoch, run->samples, run->count,
                     (uint64_t *)(slot + layout->keys_offset) + run->batch_index);
    memset(slot + layout->valid_offset + run->batch_index, run->position < plan->sample_count,
           run->count);
    for (size_t f = 0; f < round->fields->held_count; f++) {
        const struct round_field *field = &round->fields->held[f];
        for (size_t i = 0; i < run->count; i++)
            memcpy(round_field_in_slot(field, slot, run->batch_index + (uint32_t)i),
                   dataset_held_sample(round->job->dataset, field->field, run->samples[i]),
                   field->bytes);
    }
}

/* Records are numbered for each reader from 0. */
static void list_run(struct round *round, unsigned char *slot, const struct run *run)
{
    uint32_t me = (uint32_t)round->job->comm.rank;
    for (size_t i = 0; i < run->count; i++) {
        uint32_t source = run->window->owners[run->locations[i].window_row] & ASSIGN_READER_MASK;
        if (source == me)
            continue;
        round->arrivals[round->arrival_count++] =
            (struct arrival){.slot = slot,
                             .batch_index = run->batch_index + (uint32_t)i,
                             .source = source,
                             .record = (uint64_t)round->counts.receive_counts[source]++};
    }
}

/* Sets the run's window and how much of [position, end) is in it. Padding begins a new run. Returns
 * the position with padding resolved. */
static uint64_t cut_run(const struct round *round, struct run *run, uint64_t end)
{
    const struct plan_epoch *epoch = &round->reach.epoch;
    uint64_t unpadded = plan_unpad(epoch, run->position);
    run->window = windows_at(round->windows, windows_serial_of(round->windows, epoch, unpadded));
    uint64_t window_left =
        run->window->plan.first_position + run->window->plan.sample_count - unpadded;
    uint64_t count = end - run->position < window_left ? end - run->position : window_left;
    run->count = count < RUN_BLOCK ? count : RUN_BLOCK;
    return unpadded;
}

/* Goes through one trainer's positions [first, end) of a step; `slot` NULL: counts them alone. */
static void list_slice(struct round *round, struct run *run, unsigned char *slot, uint64_t first,
                       uint64_t end, uint32_t batch_index)
{
    run->batch_index = batch_index;
    for (run->position = first; run->position < end; run->position += run->count) {
        find_samples(run, cut_run(round, run, end));
        if (slot)
            dress(round, slot, run);
        list_run(round, slot, run);
        run->batch_index += (uint32_t)run->count;
    }
}

/* Visits the positions of my trainers in this round in ascending order. */
static void list_arrivals(struct round *round, bool dressed)
{
    const struct job *job = round->job;
    const struct plan *plan = &job->setup.plan;
    struct run run;
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step; step++)
        for (uint32_t i = 0; i < job->trainer_count; i++) {
            const struct job_trainer *trainer = &job->trainers[i];
            uint64_t first = plan_local_batch_at(plan, step, trainer->rank).first;
            struct round_slice slice =
                round_slice_at(plan, &round->reach.round, step, trainer->rank);
            unsigned char *slot = dressed ? slot_base(round, trainer, step) : NULL;
            list_slice(round, &run, slot, first + slice.first, first + slice.end, slice.first);
        }
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
    list_fills(round);
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
