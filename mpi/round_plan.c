/* See round_plan.h. */
#include "round_plan.h"

#include "base/clock.h"

#include <string.h>

void round_fields_init(struct round_fields *ret_fields, const struct dataset *dataset,
                       const struct ring_layout *layout)
{
    *ret_fields = (struct round_fields){0};
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct dataset_field *field = &dataset->fields[i];
        struct round_field place = {.field = i,
                                    .bytes = field->sample_bytes,
                                    .row_offset = field->row_offset,
                                    .record_offset = field->record_offset,
                                    .slot_offset = layout->fields[i].slot_offset};
        if (field->source == FIELD_ROW)
            ret_fields->row[ret_fields->row_count++] = place;
        else
            ret_fields->held[ret_fields->held_count++] = place;
    }
}

void round_reset(struct round *round, struct windows *windows)
{
    round->state = ROUND_PLANNING;
    round->windows = windows;
    round->fill_count = round->fill_next = 0;
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

static void count_displacements(int *counts, int *displacements, int size)
{
    int sum = 0;
    for (int peer = 0; peer < size; peer++) {
        displacements[peer] = sum;
        sum += counts[peer];
        counts[peer] = 0; /* counted again while records are numbered */
    }
}

/* The reader that serves the trainer of a position, and the seat. */
static uint32_t destination(const struct job *job, uint64_t position, struct plan_seat *ret_seat)
{
    *ret_seat = plan_seat_of(&job->setup.plan, position);
    return job->reader_of_trainer[ret_seat->trainer];
}

/* Visits my samples of this round in order; `visit` returns nothing and may be called twice for all
 * of them. */
typedef void visit_item(struct round *round, struct window *window, const struct round_item *item);

static void for_each_item(struct round *round, visit_item *visit, bool take)
{
    for (uint64_t serial = round->reach.first_window; serial <= round->reach.last_window;
         serial++) {
        struct window *window = windows_at(round->windows, serial);
        uint64_t next = window->fill_next;
        for (; next < window->item_count && window->items[next].round == round->reach.round.index;
             next++)
            visit(round, window, &window->items[next]);
        if (take)
            window->fill_next = next;
    }
}

static void count_send(struct round *round, struct window *window, const struct round_item *item)
{
    (void)window;
    struct plan_seat seat;
    uint32_t reader = destination(round->job, item->position, &seat);
    if (reader != (uint32_t)round->job->comm.rank)
        round->counts.send_counts[reader]++;
}

static void list_fill(struct round *round, struct window *window, const struct round_item *item)
{
    const struct job *job = round->job;
    struct fill *fill = &round->fills[round->fill_count++];
    struct plan_seat seat;
    uint32_t reader = destination(job, item->position, &seat);
    fill->buffer = &window->buffers[item->slot];
    fill->offset = item->offset;
    if (reader == (uint32_t)job->comm.rank) {
        fill->base = slot_base(round, find_trainer(job, seat.trainer), seat.step);
        fill->seat = seat.offset;
        return;
    }
    uint64_t record = (uint64_t)round->counts.send_displacements[reader] +
                      (uint64_t)round->counts.send_counts[reader]++;
    fill->base = round->send + record * job->dataset->record_bytes;
    fill->seat = FILL_RECORD;
}

/* One position of one of my trainers: whose row it is in, and which sample that is. */
struct source {
    uint32_t reader;
    uint64_t sample;
};

static struct source find_source(const struct round *round, uint64_t position)
{
    uint64_t unpadded = plan_unpad(&round->reach.epoch, position);
    uint64_t serial = windows_serial_of(round->windows, &round->reach.epoch, unpadded);
    const struct window *window = windows_at(round->windows, serial);
    struct plan_place place = plan_place_at(&window->plan, unpadded);
    uint64_t row = plan_row_at(&round->reach.epoch, window->plan.first_row_position + place.slot);
    return (struct source){.reader = window->owners[place.slot] & ASSIGN_READER_MASK,
                           .sample = row * round->reach.epoch.plan.row_length + place.offset};
}

/* Index, key, validity and held fields of one sample, into its slot. */
static void dress(const struct round *round, unsigned char *slot, uint32_t seat, uint64_t position,
                  uint64_t sample)
{
    const struct ring_layout *layout = &round->job->setup.layout;
    const struct plan *plan = &round->reach.epoch.plan;
    ((uint64_t *)(slot + layout->indices_offset))[seat] = sample;
    ((uint64_t *)(slot + layout->keys_offset))[seat] =
        plan_sample_key(plan->seed, round->reach.epoch.epoch, sample);
    (slot + layout->valid_offset)[seat] = position < plan->sample_count;
    for (size_t i = 0; i < round->fields->held_count; i++) {
        const struct round_field *field = &round->fields->held[i];
        memcpy(slot + field->slot_offset + seat * field->bytes,
               dataset_held_sample(round->job->dataset, field->field, sample), field->bytes);
    }
}

/* Visits the positions of my trainers in this round in ascending order. */
static void list_arrivals(struct round *round, bool dressed)
{
    const struct job *job = round->job;
    uint32_t me = (uint32_t)job->comm.rank;
    for (uint64_t step = round->reach.round.first_step; step < round->reach.round.end_step; step++)
        for (uint32_t i = 0; i < job->trainer_count; i++) {
            const struct job_trainer *trainer = &job->trainers[i];
            struct plan_share share = plan_share_at(&job->setup.plan, step, trainer->rank);
            struct round_slice slice =
                round_slice_at(&job->setup.plan, &round->reach.round, step, trainer->rank);
            unsigned char *slot = dressed ? slot_base(round, trainer, step) : NULL;
            for (uint32_t seat = slice.first; seat < slice.end; seat++) {
                struct source source = find_source(round, share.first + seat);
                if (dressed)
                    dress(round, slot, seat, share.first + seat, source.sample);
                if (source.reader == me)
                    continue;
                round->arrivals[round->arrival_count++] =
                    (struct arrival){.base = slot, .seat = seat, .source = source.reader};
                round->counts.receive_counts[source.reader]++;
            }
        }
}

static void number_arrivals(struct round *round)
{
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        struct arrival *arrival = &round->arrivals[i];
        arrival->record = (uint64_t)round->counts.receive_displacements[arrival->source] +
                          (uint64_t)round->counts.receive_counts[arrival->source]++;
    }
}

static void count_all(struct round *round, bool dressed)
{
    int size = round->job->comm.size;
    if (round->counts.send_counts) {
        memset(round->counts.send_counts, 0, (size_t)size * sizeof(int));
        memset(round->counts.receive_counts, 0, (size_t)size * sizeof(int));
        for_each_item(round, count_send, false);
        count_displacements(round->counts.send_counts, round->counts.send_displacements, size);
    }
    list_arrivals(round, dressed);
    if (round->counts.receive_counts) {
        count_displacements(round->counts.receive_counts, round->counts.receive_displacements,
                            size);
        number_arrivals(round);
    }
}

void round_plan_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)worker;
    (void)begin;
    (void)end;
    struct round *round = argument;
    count_all(round, true);
    for_each_item(round, list_fill, true);
    atomic_store(&round->planned, true);
}

void round_plan_counts(struct round *round)
{
    count_all(round, false);
    for_each_item(round, count_send, true);
    atomic_store(&round->planned, true);
}

void round_fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct round *round = argument;
    struct row_store *store = round->job->store;
    uint64_t start_ns = clock_now_ns();
    for (uint64_t i = begin; i < end; i++) {
        const struct fill *fill = &round->fills[i];
        const unsigned char *row = row_store_data(store, *fill->buffer);
        for (size_t f = 0; f < round->fields->row_count; f++) {
            const struct round_field *field = &round->fields->row[f];
            unsigned char *to = fill->seat == FILL_RECORD
                                    ? fill->base + field->record_offset
                                    : fill->base + field->slot_offset + fill->seat * field->bytes;
            memcpy(to, row + field->row_offset + fill->offset * field->bytes, field->bytes);
        }
        row_store_used(store, *fill->buffer, 1);
    }
    worker->copy_ns += clock_now_ns() - start_ns;
    worker->copy_bytes += (end - begin) * round->job->dataset->record_bytes;
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}

void round_scatter_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct round *round = argument;
    uint64_t start_ns = clock_now_ns();
    for (uint64_t i = begin; i < end; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        const unsigned char *record =
            round->received + arrival->record * round->job->dataset->record_bytes;
        for (size_t f = 0; f < round->fields->row_count; f++) {
            const struct round_field *field = &round->fields->row[f];
            memcpy(arrival->base + field->slot_offset + arrival->seat * field->bytes,
                   record + field->record_offset, field->bytes);
        }
    }
    worker->copy_ns += clock_now_ns() - start_ns;
    worker->copy_bytes += (end - begin) * round->job->dataset->record_bytes;
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}
