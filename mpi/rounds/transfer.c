/* See transfer.h. */
#include "rounds/transfer.h"

static bool nothing_is_zero_copy(const struct round *round)
{
    return round->fragments->messages == 0;
}

void transfer_begin(struct exchange *exchange, uint32_t lane, const struct round *round)
{
    exchange_open(exchange, lane);
    if (nothing_is_zero_copy(round))
        return;
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        const struct fragments *fragments = round->fragments->of[arrival->kind];
        for (size_t f = fragments->packed_count; f < fragments->count; f++)
            exchange_receive(
                exchange, lane, (int)arrival->reader,
                fragment_in_slot(&fragments->all[f], arrival->slot, arrival->batch_index),
                fragments->all[f].bytes);
    }
}

/* `row` NULL: without data. */
static void send_sample(struct exchange *exchange, uint32_t lane, const struct round *round,
                        uint64_t i, const unsigned char *row)
{
    const struct fill *fill = &round->fills[i];
    const struct fragments *fragments = round_fragments_of(round, i);
    const struct fragment_room *room = row && round->rooms ? &round->rooms[i] : NULL;
    if (fill->batch_index != FILL_REMOTE)
        return;
    for (size_t f = fragments->packed_count; f < fragments->count; f++)
        exchange_send(exchange, lane, (int)fill->to.remote.reader,
                      row ? fragment_in_row(&fragments->all[f], row, fill->offset, room) : NULL,
                      fragments->all[f].bytes);
}

void transfer_send(struct exchange *exchange, uint32_t lane, const struct round *round,
                   uint64_t begin, uint64_t end)
{
    if (nothing_is_zero_copy(round))
        return;
    for (uint64_t i = begin; i < end; i++)
        send_sample(exchange, lane, round, i,
                    row_store_data(round->job->store, *round->fills[i].buffer));
}

bool transfer_release(struct exchange *exchange, uint32_t lane, struct round *round)
{
    if (nothing_is_zero_copy(round))
        return false;
    uint64_t before = round->sent_next, sent = exchange_sent(exchange, lane);
    /* Workers that still copy packed fields or trailers of these rows need them, too. A task is
     * counted before its samples are sent. */
    if ((round->fragments->packed_bytes > 0 || round->trailers) &&
        atomic_load_explicit(&round->tasks, memory_order_acquire) > 0)
        return false;
    for (; round->sent_count < sent; round->sent_next++) {
        const struct fill *fill = &round->fills[round->sent_next];
        uint64_t messages = round_fragments_of(round, round->sent_next)->messages;
        if (fill->batch_index != FILL_REMOTE || messages == 0)
            continue;
        if (round->sent_count + messages > sent)
            break;
        row_store_used(round->job->store, *fill->buffer, round_uses_of(round, round->sent_next));
        round->sent_count += messages;
    }
    return round->sent_next > before;
}

static void discard_arrivals(struct exchange *exchange, uint32_t lane, const struct round *round)
{
    for (uint64_t i = 0; i < round->arrival_count; i++) {
        const struct arrival *arrival = &round->arrivals[i];
        exchange_discard(exchange, lane, (int)arrival->reader,
                         round->fragments->of[arrival->kind]->messages);
    }
}

void transfer_abandon(struct exchange *exchange, uint32_t lane, const struct round *round,
                      bool begun)
{
    if (nothing_is_zero_copy(round))
        return;
    if (!begun) {
        exchange_open(exchange, lane);
        discard_arrivals(exchange, lane, round);
    }
    for (uint64_t i = round->fill_next; i < round->fill_count; i++)
        send_sample(exchange, lane, round, i, NULL);
}
