/* See round_copy.h. */
#include "round_copy.h"

#include "base/clock.h"

#include <string.h>

enum { FETCH_AHEAD = 16 };

/* Puts one field of a sample into a slot. A bad sample's row fields are zero as they come; it is
 * marked, and its held fields are made zero, too. */
static void put_field(const struct round_fields *fields, size_t f, unsigned char *slot,
                      uint32_t batch_index, const unsigned char *from)
{
    const struct round_field *field = &fields->row[f];
    unsigned char *to = round_field_in_slot(field, slot, batch_index);
    if (f != fields->valid) {
        memcpy(to, from, field->bytes);
    } else if (!*from) {
        *to = 0;
        for (size_t h = 0; h < fields->held_count; h++)
            memset(round_field_in_slot(&fields->held[h], slot, batch_index), 0,
                   fields->held[h].bytes);
    }
}

static void fill_slot(const struct round_fields *fields, const struct fill *fill,
                      const unsigned char *row)
{
    for (size_t f = 0; f < fields->row_count; f++)
        put_field(fields, f, fill->to.slot, fill->batch_index,
                  round_field_in_row(&fields->row[f], row, fill->offset));
}

static void fill_record(const struct round *round, const struct fill *fill,
                        const unsigned char *row)
{
    const struct round_fields *fields = round->fields;
    unsigned char *record = round->send + fill->to.remote.record * fields->record_bytes;
    for (size_t f = 0; f < fields->packed_count; f++) {
        const struct round_field *field = &fields->row[f];
        memcpy(record + field->record_offset, round_field_in_row(field, row, fill->offset),
               field->bytes);
    }
}

/* Samples lie scattered in memory: the CPU is told of those that come a little later. */
static void fetch_ahead(const struct round *round, const struct fill *fill)
{
    const struct round_field *field = &round->fields->row[0];
    const unsigned char *row = row_store_data(round->job->store, *fill->buffer);
    __builtin_prefetch(round_field_in_row(field, row, fill->offset));
}

/* Uses of rows that are over, and not told the row store yet. Workers that tell it of each sample
 * take turns with the row's memory line. */
enum { TOLD_TOGETHER = 256 };
struct uses {
    struct row_store *store;
    int32_t buffers[TOLD_TOGETHER]; /* [buffer modulo their number] */
    uint32_t counts[TOLD_TOGETHER]; /* 0: none */
};

static void tell(struct uses *uses, uint32_t at)
{
    row_store_used(uses->store, uses->buffers[at], uses->counts[at]);
    uses->counts[at] = 0;
}

static void note_use(struct uses *uses, int32_t buffer)
{
    uint32_t at = (uint32_t)buffer % TOLD_TOGETHER;
    if (uses->counts[at] > 0 && uses->buffers[at] != buffer)
        tell(uses, at);
    uses->buffers[at] = buffer;
    uses->counts[at]++;
}

static void tell_all(struct uses *uses)
{
    for (uint32_t at = 0; at < TOLD_TOGETHER; at++)
        if (uses->counts[at] > 0)
            tell(uses, at);
}

void round_fill_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct round *round = argument;
    const struct round_fields *fields = round->fields;
    struct row_store *store = round->job->store;
    bool zero_copy = fields->packed_count < fields->row_count;
    struct uses uses = {.store = store};
    uint64_t start_ns = clock_now_ns();
    for (uint64_t i = begin; i < end; i++) {
        const struct fill *fill = &round->fills[i];
        const unsigned char *row = row_store_data(store, *fill->buffer);
        if (i + FETCH_AHEAD < end)
            fetch_ahead(round, &round->fills[i + FETCH_AHEAD]);
        bool remote = fill->batch_index == FILL_REMOTE;
        if (remote)
            fill_record(round, fill, row);
        else
            fill_slot(fields, fill, row);
        if (!remote || !zero_copy)
            note_use(&uses, *fill->buffer);
    }
    tell_all(&uses);
    uint64_t copy_ns = clock_now_ns() - start_ns;
    worker->copy_ns += copy_ns;
    worker->copy_bytes += (end - begin) * round->job->dataset->record_bytes;
    atomic_fetch_add_explicit(&round->times->fill_ns, copy_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}

void round_scatter_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct round *round = argument;
    const struct round_fields *fields = round->fields;
    uint64_t start_ns = clock_now_ns();
    for (uint64_t i = begin; i < end; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        const unsigned char *record = round->received + arrival->record * fields->record_bytes;
        for (size_t f = 0; f < fields->packed_count; f++)
            put_field(fields, f, arrival->slot, arrival->batch_index,
                      record + fields->row[f].record_offset);
    }
    uint64_t copy_ns = clock_now_ns() - start_ns;
    worker->copy_ns += copy_ns;
    worker->copy_bytes += (end - begin) * fields->record_bytes;
    atomic_fetch_add_explicit(&round->times->scatter_ns, copy_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}
