/* See ways.h. A long row's price is a sum over all readers. These sums are brought up to date once
 * in as many rows as an eighth of the readers, so that a row costs O(1). */
#include "plan/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_BURDEN = 0.125, MOST_BURDEN = 1024;
static const double FIRST_STEP = 0.5, LEAST_STEP = 0.125, MOST_STEP = 2;
static const double WORTH_IT = 1.33, STILL_WORTH_IT = 1.15; /* promised_gain() */

uint64_t ways_bytes(uint32_t reader_count)
{
    return reader_count * (sizeof(struct ways_rates) + sizeof(double) +
                           (WAYS_PLANS + 1) * sizeof(struct ways_load));
}

bool ways_init(struct ways *ways, uint32_t reader_count, enum ways_choice choice,
               double record_bytes, uint64_t row_samples, const double *share)
{
    *ways = (struct ways){.reader_count = reader_count,
                          .choice = choice,
                          .record_bytes = record_bytes,
                          .row_samples = row_samples,
                          .share = share,
                          .mixes = choice == WAYS_EACH || choice == WAYS_TAPES,
                          .burden = 1,
                          .burden_step = FIRST_STEP};
    ways->rates = calloc(reader_count, sizeof *ways->rates);
    ways->wants = calloc(reader_count, sizeof *ways->wants);
    ways->loads = calloc(reader_count, sizeof *ways->loads);
    bool complete = ways->rates && ways->wants && ways->loads;
    for (int p = 0; p < WAYS_PLANS; p++) {
        ways->plans[p] = calloc(reader_count, sizeof *ways->plans[p]);
        complete = complete && ways->plans[p];
    }
    return complete;
}

void ways_done(struct ways *ways)
{
    for (int p = 0; p < WAYS_PLANS; p++)
        free(ways->plans[p]);
    free(ways->loads);
    free(ways->wants);
    free(ways->rates);
}

void ways_note_shares(struct ways *ways)
{
    ways->wanted = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        ways->wants[r] = 1 - pow(1 - ways->share[r], (double)ways->row_samples);
        ways->wanted += ways->wants[r];
    }
    ways->stale = 0;
}

/* A reader without trainers may have nothing to read. */
static bool is_known(const struct ways *ways, uint32_t reader)
{
    const struct ways_rates *rates = &ways->rates[reader];
    return rates->byte_ns > 0 && (rates->row_ns > 0 || ways->share[reader] == 0);
}

static void take_rate(double *used, double measured)
{
    if (measured > 0 && fabs(measured - *used) > *used / 8)
        *used = measured;
}

void ways_note_rates(struct ways *ways, uint32_t reader, const struct ways_rates *rates)
{
    struct ways_rates *used = &ways->rates[reader];
    take_rate(&used->row_ns, rates->row_ns);
    take_rate(&used->byte_ns, rates->byte_ns);
    ways->all_known = true;
    for (uint32_t r = 0; r < ways->reader_count; r++)
        ways->all_known = ways->all_known && is_known(ways, r);
    ways->stale = 0;
}

void ways_note_store(struct ways *ways, const struct ways_store *store)
{
    take_rate(&ways->store.row_ns, store->row_ns);
    take_rate(&ways->store.row_bytes, store->row_bytes);
    ways->stale = 0;
}

/* Where rows are read again, the burden goes to where rounds wait for reading as much as for links.
 * Time in which they wait for neither speaks against reading again, a little. Steps get longer as
 * long as they lead the same way. Where all rows are sent, a burden is forgotten slowly. */
void ways_note_waits(struct ways *ways, const struct ways_waits *waits)
{
    if (ways->each < 1) {
        if (waits->links > 0.5 && ways->burden > 1)
            ways->burden -= (ways->burden - 1) / 32;
        ways->stale = 0;
        return;
    }
    double idle = fmax(0, 1 - waits->reads - waits->links);
    double way = waits->reads + idle / 8 - waits->links;
    bool same_way = (way > 0) == (ways->burden_step > 0);
    double step = fabs(ways->burden_step) * (same_way ? 1.5 : 0.5);
    step = fmin(fmax(step, LEAST_STEP), MOST_STEP);
    ways->burden_step = way > 0 ? step : -step;
    ways->burden *= exp2(step * way);
    ways->burden = fmin(fmax(ways->burden, LEAST_BURDEN), MOST_BURDEN);
    ways->stale = 0;
}

/* --- what a row takes of one reader ------------------------------------------------------- */

/* `stores`: times the row comes from the store, if all share one. */
static struct ways_load read_load(const struct ways *ways, uint32_t reader, double stores)
{
    const struct ways_rates *rates = &ways->rates[reader];
    return (struct ways_load){.work = rates->row_ns * ways->burden,
                              .in = stores * ways->store.row_bytes * rates->byte_ns};
}

static struct ways_load move_load(const struct ways *ways, uint32_t reader, double out, double in)
{
    double sample_ns = ways->record_bytes * ways->rates[reader].byte_ns;
    return (struct ways_load){.out = out * sample_ns, .in = in * sample_ns};
}

/* Of the tape of a row: `out` times sent, and `in` times received and decoded. */
static struct ways_load tape_load(const struct ways *ways, uint32_t reader, double out, double in)
{
    const struct ways_rates *rates = &ways->rates[reader];
    double tape_ns = ways->tape_bytes * rates->byte_ns;
    return (struct ways_load){
        .work = in * rates->row_ns * ways->burden, .out = out * tape_ns, .in = in * tape_ns};
}

static void add(struct ways_load *load, struct ways_load more, double times)
{
    load->work += times * more.work;
    load->out += times * more.out;
    load->in += times * more.in;
}

static void add_planned(struct ways *ways, enum ways_plan plan, uint32_t reader,
                        struct ways_load more)
{
    add(&ways->plans[plan][reader], more, 1);
    if (plan == WAYS_CHOSEN)
        add(&ways->loads[reader], more, 1);
}

static void add_store(struct ways *ways, enum ways_plan plan, double rows)
{
    double took = rows * ways->store.row_ns * ways->burden;
    ways->plan_store[plan] += took;
    if (plan == WAYS_CHOSEN)
        ways->store_load += took;
}

/* The derivative of a load's power, but for a factor. */
static double slope(double load)
{
    double squared = load * load;
    return load > 0 ? squared * squared * squared * load : 0;
}
_Static_assert(WAYS_POWER == 8, "slope() is the 7th power");

static double price(const struct ways_load *load, struct ways_load more)
{
    return more.work * slope(load->work) + more.out * slope(load->out) + more.in * slope(load->in);
}

static double store_price(const struct ways *ways)
{
    return ways->store.row_ns * ways->burden * slope(ways->store_load);
}

/* --- windows ------------------------------------------------------------------------------ */

static double samples(const struct ways *ways)
{
    return (double)ways->row_samples;
}

/* Brings the loads of long rows, and the prices, up to date. */
static void refresh(struct ways *ways)
{
    double all_rows = ways->sent_rows + ways->each_rows + ways->tape_rows;
    ways->in_price = ways->each_price = ways->tape_price = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load received = move_load(ways, r, 0, ways->share[r] * samples(ways));
        struct ways_load read = read_load(ways, r, 1), tape = tape_load(ways, r, 0, 1);
        add(&ways->loads[r], received, ways->sent_rows);
        add(&ways->plans[WAYS_CHOSEN][r], received, ways->sent_rows);
        add(&ways->loads[r], read, ways->each_rows * ways->wants[r]);
        add(&ways->plans[WAYS_CHOSEN][r], read, ways->each_rows * ways->wants[r]);
        add(&ways->loads[r], tape, ways->tape_rows * ways->wants[r]);
        add(&ways->plans[WAYS_CHOSEN][r], tape, ways->tape_rows * ways->wants[r]);
        add(&ways->plans[WAYS_ALL_SEND][r], received, all_rows);
        add(&ways->plans[WAYS_ALL_EACH][r], read, all_rows * ways->wants[r]);
    }
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load received = move_load(ways, r, 0, ways->share[r] * samples(ways));
        ways->in_price += price(&ways->loads[r], received);
        ways->each_price +=
            ways->wants[r] * (price(&ways->loads[r], read_load(ways, r, 1)) + store_price(ways));
        ways->tape_price += ways->wants[r] * price(&ways->loads[r], tape_load(ways, r, 0, 1));
    }
    ways->sent_rows = ways->each_rows = ways->tape_rows = 0;
    ways->stale = ways->reader_count / 8 + 1;
}

double ways_window_ns(struct ways *ways, enum ways_plan plan)
{
    if (!ways->all_known)
        return 0;
    refresh(ways);
    double most = ways->plan_store[plan];
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        const struct ways_load *load = &ways->plans[plan][r];
        most = fmax(most, fmax(load->work, fmax(load->out, load->in)));
    }
    return most;
}

/* How many times faster the best mixture is than sending: links are busy for
 * (1 - s) * sent + s * stored, workers or the store for s * read. */
static double best_gain(double sent, double stored, double read)
{
    if (sent <= stored)
        return 1;
    double share = fmin(sent / (sent - stored + read), 1);
    return sent / fmax((1 - share) * sent + share * stored, share * read);
}

/* The same of EACH or of TAPE, for rows that are all in memory at their homes: of the rows the
 * share s is loaded by those who want them. */
static double promised_gain(const struct ways *ways)
{
    double elsewhere = 1 - 1.0 / ways->reader_count, sent = 0, stored = 0, tape = 0, decode = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load read = read_load(ways, r, 1), received = tape_load(ways, r, 0, 1);
        sent = fmax(sent, elsewhere * move_load(ways, r, 0, ways->share[r] * samples(ways)).in);
        stored = fmax(stored, elsewhere * ways->wants[r] * read.in);
        tape = fmax(tape, elsewhere * ways->wants[r] * received.in);
        decode = fmax(decode, elsewhere * ways->wants[r] * read.work);
    }
    double store = ways->wanted * elsewhere * ways->store.row_ns * ways->burden;
    double each = best_gain(sent, stored, fmax(decode, store));
    return ways->tape_bytes > 0 ? fmax(each, best_gain(sent, tape, decode)) : each;
}

static void settle_mixing(struct ways *ways)
{
    if (ways->choice == WAYS_AUTO && ways->all_known)
        ways->mixes = promised_gain(ways) > (ways->mixes ? STILL_WORTH_IT : WORTH_IT);
}

void ways_begin_window(struct ways *ways)
{
    settle_mixing(ways);
    refresh(ways);
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load *load = &ways->loads[r];
        *load = (struct ways_load){load->work / 2, load->out / 2, load->in / 2};
    }
    ways->store_load /= 2;
    ways->each /= 16;
    for (int p = 0; p < WAYS_PLANS; p++) {
        memset(ways->plans[p], 0, ways->reader_count * sizeof *ways->plans[p]);
        ways->plan_store[p] = 0;
    }
    ways->stale = 0;
}

/* --- rows that one reader wants ----------------------------------------------------------- */

void ways_add_read(struct ways *ways, uint32_t reader, bool from_memory)
{
    for (int p = 0; ways->all_known && p < WAYS_PLANS; p++) {
        add_planned(ways, (enum ways_plan)p, reader, read_load(ways, reader, from_memory ? 0 : 1));
        add_store(ways, (enum ways_plan)p, from_memory ? 0 : 1);
    }
}

/* What a row costs a reader that has it in memory. */
static struct ways_load memory_load(const struct ways *ways, uint32_t reader, bool decodes)
{
    return decodes ? read_load(ways, reader, 0) : (struct ways_load){0};
}

static void add_single(struct ways *ways, enum ways_plan plan, uint32_t from, uint32_t to,
                       bool decodes, bool holds, bool each)
{
    if (each) {
        add_planned(ways, plan, to,
                    holds ? memory_load(ways, to, decodes) : read_load(ways, to, 1));
        add_store(ways, plan, holds ? 0 : 1);
        return;
    }
    add_planned(ways, plan, from, move_load(ways, from, samples(ways), 0));
    add_planned(ways, plan, to, move_load(ways, to, 0, samples(ways)));
    if (decodes)
        add_planned(ways, plan, from, read_load(ways, from, 0));
}

static enum ways_way cheapest(double send, double each, double tape)
{
    if (tape < send && tape < each)
        return WAY_TAPE;
    return each < send ? WAY_EACH : WAY_SEND;
}

static enum ways_way cheapest_single(const struct ways *ways, uint32_t from, uint32_t to,
                                     bool decodes, bool holds)
{
    const struct ways_load *sender = &ways->loads[from], *receiver = &ways->loads[to];
    double send = price(sender, move_load(ways, from, samples(ways), 0)) +
                  price(receiver, move_load(ways, to, 0, samples(ways))) +
                  price(sender, memory_load(ways, from, decodes));
    if (holds)
        return !decodes || price(receiver, memory_load(ways, to, decodes)) < send ? WAY_EACH
                                                                                  : WAY_SEND;
    double each = price(receiver, read_load(ways, to, 1)) + store_price(ways);
    double tape = ways->tape_bytes > 0 ? price(sender, tape_load(ways, from, 1, 0)) +
                                             price(receiver, tape_load(ways, to, 0, 1))
                                       : INFINITY;
    return cheapest(send, each, tape);
}

/* The way that is forced on rows that others than their owner may load. */
static enum ways_way forced(const struct ways *ways, bool all_hold)
{
    if (ways->choice == WAYS_TAPES)
        return all_hold ? WAY_EACH : ways->tape_bytes > 0 ? WAY_TAPE : WAY_SEND;
    return ways->choice == WAYS_EACH ? WAY_EACH : WAY_SEND;
}

enum ways_way ways_choose_single(struct ways *ways, uint32_t from, uint32_t to, bool decodes,
                                 bool holds, bool allowed)
{
    enum ways_way way = allowed ? forced(ways, holds) : WAY_SEND;
    if (!ways->all_known)
        return way;
    if (allowed && ways->choice == WAYS_AUTO)
        way = cheapest_single(ways, from, to, decodes, holds);
    if (way == WAY_TAPE) {
        add_planned(ways, WAYS_CHOSEN, from, tape_load(ways, from, 1, 0));
        add_planned(ways, WAYS_CHOSEN, to, tape_load(ways, to, 0, 1));
    } else {
        add_single(ways, WAYS_CHOSEN, from, to, decodes, holds, way == WAY_EACH);
    }
    add_single(ways, WAYS_ALL_SEND, from, to, decodes, holds, way == WAY_EACH && holds);
    add_single(ways, WAYS_ALL_EACH, from, to, decodes, holds, allowed);
    if (!ways->mixes && !holds)
        way = WAY_SEND;
    ways->each += way == WAY_EACH && !holds;
    return way;
}

/* --- rows that many readers want ---------------------------------------------------------- */

/* What a reader that has the row in memory saves of the price of EACH. */
static double saved_price(const struct ways *ways, uint32_t reader, bool decodes)
{
    const struct ways_load *load = &ways->loads[reader];
    struct ways_load saved = read_load(ways, reader, 1);
    saved.work = decodes ? 0 : saved.work;
    return ways->wants[reader] * (price(load, saved) + store_price(ways));
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
            sum += ways->wants[r] * price(load, memory_load(ways, r, row->decodes));
        else
            sum += ways->wants[r] * (price(load, read_load(ways, r, 1)) + store_price(ways));
    }
    return sum;
}

/* The price of TAPE for a row that the sender has as stored. */
static double tape_price(const struct ways *ways, uint32_t from)
{
    const struct ways_load *load = &ways->loads[from];
    double wants = ways->wants[from], sent = ways->wanted - wants;
    struct ways_load own = tape_load(ways, from, sent, wants),
                     all = tape_load(ways, from, 0, wants);
    own.in = 0; /* its own tape is there */
    return ways->tape_price - price(load, all) + price(load, own);
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
        refresh(ways);
    const struct ways_load *load = &ways->loads[from];
    double own = samples(ways) * ways->share[from];
    double own_read = price(load, read_load(ways, from, row->reads));
    double send = ways->in_price - price(load, move_load(ways, from, 0, own)) +
                  price(load, move_load(ways, from, samples(ways) - own, 0)) +
                  (row->reads || row->decodes ? own_read : 0) +
                  (row->reads ? store_price(ways) : 0);
    double each = each_price(ways, row);
    if (row->holder_count > 0 && each <= 0)
        return WAY_EACH;
    return cheapest(send, each, may_tape ? tape_price(ways, from) : INFINITY);
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

/* refresh() adds what all readers receive; the sender receives nothing of it. */
static void add_sender(struct ways *ways, enum ways_plan plan, const struct ways_row *row)
{
    uint32_t from = row->from;
    double own = samples(ways) * ways->share[from];
    add_planned(ways, plan, from, move_load(ways, from, samples(ways) - own, -own));
    if (row->reads || row->decodes)
        add_planned(ways, plan, from, read_load(ways, from, row->reads));
    add_store(ways, plan, row->reads ? 1 : 0);
}

/* refresh() adds what all readers read: this one need not. */
static void take_off(struct ways *ways, enum ways_plan plan, uint32_t reader, bool decodes)
{
    struct ways_load less = read_load(ways, reader, 1);
    less.work *= decodes ? 0 : -ways->wants[reader];
    less.in *= -ways->wants[reader];
    add_planned(ways, plan, reader, less);
    add_store(ways, plan, -ways->wants[reader]);
}

static void add_loaders(struct ways *ways, enum ways_plan plan, const struct ways_row *row)
{
    add_store(ways, plan, ways->wanted);
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
    ways->each += ways->mixes;
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
    struct ways_load own = tape_load(ways, from, ways->wanted - wants, 0);
    own.in = -tape_load(ways, from, 0, wants).in; /* refresh() adds what all receive */
    add_planned(ways, WAYS_CHOSEN, from, own);
    add_sender(ways, WAYS_ALL_SEND, row);
    add_loaders(ways, WAYS_ALL_EACH, row);
    count_row(ways);
}
