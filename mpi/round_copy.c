/* See round_copy.h. */
#include "round_copy.h"

#include "base/clock.h"

#include <string.h>

enum { FETCH_AHEAD = 16 };

/* A bad sample's row fields are zero as they come; it is marked, and its held fields are made zero,
 * too. Padding stays marked, whatever the sample. */
static void mark_bad(const struct fragments *fragments, unsigned char *slot, uint32_t batch_index)
{
    slot[fragments->valid_slot_offset + batch_index] = 0;
    for (size_t h = 0; h < fragments->held_count; h++)
        memset(fragment_in_slot(&fragments->held[h], slot, batch_index), 0,
               fragments->held[h].bytes);
}

static void fill_slot(const struct fragments *fragments, const struct fill *fill,
                      const unsigned char *row)
{
    for (size_t f = 0; f < fragments->count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        memcpy(fragment_in_slot(fragment, fill->to.slot, fill->batch_index),
               fragment_in_row(fragment, row, fill->offset), fragment->bytes);
    }
    if (fragments->mask && !row[fragments->valid_row_offset + fill->offset])
        mark_bad(fragments, fill->to.slot, fill->batch_index);
}

static void fill_record(const struct round *round, const struct fill *fill,
                        const unsigned char *row)
{
    const struct fragments *fragments = round->fragments;
    unsigned char *record = round->send + fill->to.remote.record * fragments->packed_bytes;
    for (size_t f = 0; f < fragments->packed_count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        memcpy(record + fragment->record_offset, fragment_in_row(fragment, row, fill->offset),
               fragment->bytes);
    }
    if (fragments->mask)
        record[fragments->valid_record_offset] = row[fragments->valid_row_offset + fill->offset];
}

/* Samples lie scattered in memory: the CPU is told of those that come a little later. */
static void fetch_ahead(const struct round *round, const struct fill *fill)
{
    const struct fragment *first = &round->fragments->all[0];
    const unsigned char *row = row_store_data(round->job->store, *fill->buffer);
    __builtin_prefetch(fragment_in_row(first, row, fill->offset));
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
    const struct fragments *fragments = round->fragments;
    struct row_store *store = round->job->store;
    bool zero_copy = fragments->packed_count < fragments->count;
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
            fill_slot(fragments, fill, row);
        if (!remote || !zero_copy)
            note_use(&uses, *fill->buffer);
    }
    tell_all(&uses);
    uint64_t copy_ns = clock_now_ns() - start_ns;
    worker->copy_ns += copy_ns;
    worker->copy_bytes += (end - begin) * round->job->setup.record_bytes;
    atomic_fetch_add_explicit(&round->times->fill_ns, copy_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}

static void take_record(const struct fragments *fragments, const struct arrival *arrival,
                        const unsigned char *record)
{
    for (size_t f = 0; f < fragments->packed_count; f++) {
        const struct fragment *fragment = &fragments->all[f];
        memcpy(fragment_in_slot(fragment, arrival->slot, arrival->batch_index),
               record + fragment->record_offset, fragment->bytes);
    }
    if (fragments->mask && !record[fragments->valid_record_offset])
        mark_bad(fragments, arrival->slot, arrival->batch_index);
}

void round_scatter_task(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    struct round *round = argument;
    const struct fragments *fragments = round->fragments;
    uint64_t start_ns = clock_now_ns();
    for (uint64_t i = begin; i < end; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        take_record(fragments, arrival,
                    round->received + arrival->record * fragments->packed_bytes);
    }
    uint64_t copy_ns = clock_now_ns() - start_ns;
    worker->copy_ns += copy_ns;
    worker->copy_bytes += (end - begin) * fragments->packed_bytes;
    atomic_fetch_add_explicit(&round->times->scatter_ns, copy_ns, memory_order_relaxed);
    atomic_fetch_sub_explicit(&round->tasks, 1, memory_order_release);
}
