/* See ways.h: the way of a row. */
#include "plan/ways_internal.h"

#include <math.h>

/* --- rows that one reader wants ----------------------------------------------------------- */

void ways_add_read(struct ways *ways, uint32_t reader, bool from_memory)
{
    for (int p = 0; ways->all_known && p < WAYS_PLANS; p++) {
        ways_add_planned(ways, (enum ways_plan)p, reader,
                         ways_read_load(ways, reader, from_memory ? 0 : 1));
        ways_add_store(ways, (enum ways_plan)p, from_memory ? 0 : 1);
    }
}

/* What a row costs a reader that has it in memory. */
static struct ways_load memory_load(const struct ways *ways, uint32_t reader, bool decodes)
{
    return decodes ? ways_read_load(ways, reader, 0) : (struct ways_load){0};
}

static void add_single(struct ways *ways, enum ways_plan plan, uint32_t from, uint32_t to,
                       bool decodes, bool holds, bool each)
{
    if (each) {
        ways_add_planned(ways, plan, to,
                         holds ? memory_load(ways, to, decodes) : ways_read_load(ways, to, 1));
        ways_add_store(ways, plan, holds ? 0 : 1);
        return;
    }
    ways_add_planned(ways, plan, from, ways_move_load(ways, from, ways_samples(ways), 0));
    ways_add_planned(ways, plan, to, ways_move_load(ways, to, 0, ways_samples(ways)));
    if (decodes)
        ways_add_planned(ways, plan, from, ways_read_load(ways, from, 0));
}

static enum ways_way cheapest(double send, double each, double tape)
{
    if (tape < send && tape < each)
        return WAY_TAPE;
    return each < send ? WAY_EACH : WAY_SEND;
}

/* Whether a row that its home has in memory is loaded, since it stays and is not sent again. */
static bool is_loaded(const struct ways *ways, const struct ways_row *row)
{
    return row->stays && ways->mixes && ways->loads_all;
}

/* How often a row is sent, in this epoch and in later ones, that stays if it is loaded. */
static double times_sent(const struct ways *ways, const struct ways_row *row)
{
    return row->stays ? 1 + (ways->epochs - 1) * ways->wanted / ways->reader_count : 1;
}

static enum ways_way cheapest_single(const struct ways *ways, const struct ways_row *row,
                                     uint32_t to, bool holds)
{
    uint32_t from = row->from;
    bool decodes = row->decodes;
    const struct ways_load *sender = &ways->loads[from], *receiver = &ways->loads[to];
    double send = ways_price(sender, ways_move_load(ways, from, ways_samples(ways), 0)) +
                  ways_price(receiver, ways_move_load(ways, to, 0, ways_samples(ways))) +
                  ways_price(sender, memory_load(ways, from, decodes));
    if (holds)
        return !decodes || ways_price(receiver, memory_load(ways, to, decodes)) < send ? WAY_EACH
                                                                                       : WAY_SEND;
    double each = ways_price(receiver, ways_read_load(ways, to, 1)) + ways_store_price(ways);
    double tape = ways->tape_bytes > 0 ? ways_price(sender, ways_tape_load(ways, from, 1, 0)) +
                                             ways_price(receiver, ways_tape_load(ways, to, 0, 1))
                                       : INFINITY;
    return is_loaded(ways, row) ? WAY_EACH : cheapest(send * times_sent(ways, row), each, tape);
}

/* The way that is forced on rows that others than their owner may load. */
static enum ways_way forced(const struct ways *ways, bool all_hold)
{
    if (ways->choice == WAYS_TAPES)
        return all_hold ? WAY_EACH : ways->tape_bytes > 0 ? WAY_TAPE : WAY_SEND;
    return ways->choice == WAYS_EACH ? WAY_EACH : WAY_SEND;
}

enum ways_way ways_choose_single(struct ways *ways, const struct ways_row *row, uint32_t to,
                                 bool holds, bool allowed)
{
    uint32_t from = row->from;
    bool decodes = row->decodes;
    enum ways_way way = allowed ? forced(ways, holds) : WAY_SEND;
    if (!ways->all_known)
        return way;
    if (allowed && ways->choice == WAYS_AUTO)
        way = cheapest_single(ways, row, to, holds);
    if (way == WAY_TAPE) {
        ways_add_planned(ways, WAYS_CHOSEN, from, ways_tape_load(ways, from, 1, 0));
        ways_add_planned(ways, WAYS_CHOSEN, to, ways_tape_load(ways, to, 0, 1));
    } else {
        add_single(ways, WAYS_CHOSEN, from, to, decodes, holds, way == WAY_EACH);
    }
    add_single(ways, WAYS_ALL_SEND, from, to, decodes, holds, way == WAY_EACH && holds);
    add_single(ways, WAYS_ALL_EACH, from, to, decodes, holds, allowed);
    if (!ways->mixes && !holds)
        way = WAY_SEND;
    ways->loaded += way == WAY_TAPE || (way == WAY_EACH && !holds);
    return way;
}

/* --- rows of order.placement local -------------------------------------------------------- */

bool ways_loads_local(const struct ways *ways)
{
    return ways->choice == WAYS_EACH ||
           (ways->choice == WAYS_AUTO && ways->all_known && ways->mixes);
}

void ways_add_local(struct ways *ways)
{
    double loads = ways_local_loads(ways);
    ways->loaded += loads;
    ways->held += loads;
}

/* --- rows that many readers want ---------------------------------------------------------- */

/* What a reader that has the row in memory saves of the price of EACH. */
static double saved_price(const struct ways *ways, uint32_t reader, bool decodes)
{
    const struct ways_load *load = &ways->loads[reader];
    struct ways_load saved = ways_read_load(ways, reader, 1);
    saved.work = decodes ? 0 : saved.work;
    return ways->wants[reader] * (ways_price(load, saved) + ways_store_price(ways));
}

/* The price of EACH for a row that several readers may have in memory, summed up anew: what is left
 * where all have it must be 0. */
static double each_price(const struct ways *ways, const struct ways_row *row)
{
    double sum = 0;
    uint32_t next = 0;
    if (row->holder_count == 0)
        return ways->each_price - (row->reads ? 0 : saved_price(ways, row->from, row->decodes));
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        bool holds = next < row->holder_count && row->holders[next] == r;
        next += holds;
        const struct ways_load *load = &ways->loads[r];
        if (holds || (r == row->from && !row->reads))
            sum += ways->wants[r] * ways_price(load, memory_load(ways, r, row->decodes));
        else
            sum += ways->wants[r] *
                   (ways_price(load, ways_read_load(ways, r, 1)) + ways_store_price(ways));
    }
    return sum;
}

/* The price of TAPE for a row that the sender has as stored. */
static double tape_price(const struct ways *ways, uint32_t from)
{
    const struct ways_load *load = &ways->loads[from];
    double wants = ways->wants[from], sent = ways->wanted - wants;
    struct ways_load own = ways_tape_load(ways, from, sent, wants),
                     all = ways_tape_load(ways, from, 0, wants);
    own.in = 0; /* its own tape is there */
    return ways->tape_price - ways_price(load, all) + ways_price(load, own);
}

enum ways_way ways_prefer(struct ways *ways, const struct ways_row *row)
{
    uint32_t from = row->from;
    bool may_tape = ways->tape_bytes > 0 && !row->reads;
    if (ways->choice == WAYS_TAPES)
        return may_tape ? WAY_TAPE : WAY_SEND;
    if (ways->choice != WAYS_AUTO || !ways->all_known)
        return forced(ways, false);
    if (ways->stale == 0)
        ways_refresh(ways);
    const struct ways_load *load = &ways->loads[from];
    double own = ways_samples(ways) * ways->share[from];
    double own_read = ways_price(load, ways_read_load(ways, from, row->reads));
    double send = ways->in_price - ways_price(load, ways_move_load(ways, from, 0, own)) +
                  ways_price(load, ways_move_load(ways, from, ways_samples(ways) - own, 0)) +
                  (row->reads || row->decodes ? own_read : 0) +
                  (row->reads ? ways_store_price(ways) : 0);
    double each = each_price(ways, row);
    if ((row->holder_count > 0 && each <= 0) || is_loaded(ways, row))
        return WAY_EACH;
    return cheapest(send * times_sent(ways, row), each,
                    may_tape ? tape_price(ways, from) : INFINITY);
}

bool ways_allows_each(const struct ways *ways, const struct ways_row *row)
{
    return ways->mixes || row->holder_count + 1 == ways->reader_count;
}

static void count_row(struct ways *ways)
{
    if (ways->stale > 0)
        ways->stale--;
}

/* ways_refresh() adds what all readers receive; the sender receives nothing of it. */
static void add_sender(struct ways *ways, enum ways_plan plan, const struct ways_row *row)
{
    uint32_t from = row->from;
    double own = ways_samples(ways) * ways->share[from];
    ways_add_planned(ways, plan, from, ways_move_load(ways, from, ways_samples(ways) - own, -own));
    if (row->reads || row->decodes)
        ways_add_planned(ways, plan, from, ways_read_load(ways, from, row->reads));
    ways_add_store(ways, plan, row->reads ? 1 : 0);
}

/* ways_refresh() adds what all readers read: this one need not. */
static void take_off(struct ways *ways, enum ways_plan plan, uint32_t reader, bool decodes)
{
    struct ways_load less = ways_read_load(ways, reader, 1);
    less.work *= decodes ? 0 : -ways->wants[reader];
    less.in *= -ways->wants[reader];
    ways_add_planned(ways, plan, reader, less);
    ways_add_store(ways, plan, -ways->wants[reader]);
}

static void add_loaders(struct ways *ways, enum ways_plan plan, const struct ways_row *row)
{
    ways_add_store(ways, plan, ways->wanted);
    if (!row->reads)
        take_off(ways, plan, row->from, row->decodes);
    for (uint32_t i = 0; i < row->holder_count; i++)
        take_off(ways, plan, row->holders[i], row->decodes);
}

void ways_add_sent(struct ways *ways, const struct ways_row *row)
{
    if (!ways->all_known)
        return;
    ways->sent_rows++;
    add_sender(ways, WAYS_CHOSEN, row);
    add_sender(ways, WAYS_ALL_SEND, row);
    add_loaders(ways, WAYS_ALL_EACH, row);
    count_row(ways);
}

void ways_add_each(struct ways *ways, const struct ways_row *row)
{
    if (!ways->all_known)
        return;
    ways->each_rows++;
    ways->loaded += ways->mixes;
    add_loaders(ways, WAYS_CHOSEN, row);
    add_sender(ways, WAYS_ALL_SEND, row);
    add_loaders(ways, WAYS_ALL_EACH, row);
    count_row(ways);
}

void ways_add_tape(struct ways *ways, const struct ways_row *row)
{
    uint32_t from = row->from;
    double wants = ways->wants[from];
    if (!ways->all_known)
        return;
    ways->tape_rows++;
    ways->loaded += ways->mixes;
    struct ways_load own = ways_tape_load(ways, from, ways->wanted - wants, 0);
    own.in = -ways_tape_load(ways, from, 0, wants).in; /* ways_refresh() adds what all receive */
    ways_add_planned(ways, WAYS_CHOSEN, from, own);
    add_sender(ways, WAYS_ALL_SEND, row);
    add_loaders(ways, WAYS_ALL_EACH, row);
    count_row(ways);
}
