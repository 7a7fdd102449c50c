/* See transfer.h. */
#include "transfer.h"

static bool nothing_is_zero_copy(const struct round *round)
{
    return round->fragments->packed_count == round->fragments->count;
}

void transfer_begin(struct exchange *exchange, uint32_t lane, const struct round *round)
{
    const struct fragments *fragments = round->fragments;
    exchange_open(exchange, lane);
    if (nothing_is_zero_copy(round))
        return;
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        for (size_t f = fragments->packed_count; f < fragments->count; f++)
            exchange_receive(
                exchange, lane, (int)arrival->source,
                fragment_in_slot(&fragments->all[f], arrival->slot, arrival->batch_index),
                fragments->all[f].bytes);
    }
}

/* `row` NULL: without data, and `fill` is not looked at. */
static void send_sample(struct exchange *exchange, uint32_t lane, const struct round *round,
                        int reader, const unsigned char *row, const struct fill *fill)
{
    const struct fragments *fragments = round->fragments;
    const struct fragment_room *room =
        row && round->rooms ? &round->rooms[fill - round->fills] : NULL;
    for (size_t f = fragments->packed_count; f < fragments->count; f++)
        exchange_send(exchange, lane, reader,
                      row ? fragment_in_row(&fragments->all[f], row, fill->offset, room) : NULL,
                      fragments->all[f].bytes);
}

void transfer_send(struct exchange *exchange, uint32_t lane, const struct round *round,
                   uint64_t begin, uint64_t end)
{
    for (uint64_t i = begin; i < end; i++) {
        const struct fill *fill = &round->fills[i];
        if (fill->batch_index == FILL_REMOTE)
            send_sample(exchange, lane, round, (int)fill->to.remote.reader,
                        row_store_data(round->job->store, *fill->buffer), fill);
    }
}

bool transfer_release(struct exchange *exchange, uint32_t lane, struct round *round)
{
    if (nothing_is_zero_copy(round))
        return false;
    uint64_t before = round->sent_count, sent = exchange_sent(exchange, lane);
    /* Workers that still copy packed fields of these rows need them, too. A task is counted before
     * its samples are sent. */
    if (round->fragments->packed_bytes > 0 &&
        atomic_load_explicit(&round->tasks, memory_order_acquire) > 0)
        return false;
    for (; round->sent_count < sent; round->sent_next++) {
        const struct fill *fill = &round->fills[round->sent_next];
        if (fill->batch_index != FILL_REMOTE)
            continue;
        row_store_used(round->job->store, *fill->buffer, 1);
        round->sent_count++;
    }
    return sent > before;
}

static void abandon_all(struct exchange *exchange, uint32_t lane, const struct round *round)
{
    exchange_open(exchange, lane);
    for (int peer = 0; peer < round->job->comm.size; peer++) {
        for (int i = 0; i < round->counts.send_counts[peer]; i++)
            send_sample(exchange, lane, round, peer, NULL, NULL);
        exchange_discard(exchange, lane, peer, (uint64_t)round->counts.receive_counts[peer]);
    }
}

void transfer_abandon(struct exchange *exchange, uint32_t lane, const struct round *round,
                      bool begun)
{
    if (nothing_is_zero_copy(round))
        return;
    if (!begun) {
        abandon_all(exchange, lane, round);
        return;
    }
    for (uint64_t i = round->fill_next; i < round->fill_count; i++) {
        const struct fill *fill = &round->fills[i];
        if (fill->batch_index == FILL_REMOTE)
            send_sample(exchange, lane, round, (int)fill->to.remote.reader, NULL, fill);
    }
}
