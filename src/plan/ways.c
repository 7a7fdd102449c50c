/* See ways.h. A long row's price is a sum over all readers. These sums are brought up to date once
 * in as many rows as an eighth of the readers, so that a row costs O(1). */
#include "plan/ways.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
                          .share = share};
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
    take_rate(&used->row_cpu_ns, rates->row_cpu_ns);
    take_rate(&used->byte_ns, rates->byte_ns);
    take_rate(&used->byte_cpu_ns, rates->byte_cpu_ns);
    take_rate(&used->cores, rates->cores);
    ways->all_known = true;
    for (uint32_t r = 0; r < ways->reader_count; r++)
        ways->all_known = ways->all_known && is_known(ways, r);
    ways->stale = 0;
}

void ways_note_store(struct ways *ways, double row_ns)
{
    take_rate(&ways->store_row_ns, row_ns);
    ways->stale = 0;
}

/* --- what a row takes of one reader ------------------------------------------------------- */

static struct ways_load read_load(const struct ways *ways, uint32_t reader)
{
    const struct ways_rates *rates = &ways->rates[reader];
    return (struct ways_load){.work = rates->row_ns,
                              .cpu = rates->cores > 0 ? rates->row_cpu_ns / rates->cores : 0};
}

static struct ways_load move_load(const struct ways *ways, uint32_t reader, double out, double in)
{
    const struct ways_rates *rates = &ways->rates[reader];
    double out_bytes = out * ways->record_bytes, in_bytes = in * ways->record_bytes;
    return (struct ways_load){
        .out = out_bytes * rates->byte_ns,
        .in = in_bytes * rates->byte_ns,
        .cpu = rates->cores > 0 ? (out_bytes + in_bytes) * rates->byte_cpu_ns / rates->cores : 0};
}

static void add(struct ways_load *load, struct ways_load more, double times)
{
    load->work += times * more.work;
    load->cpu += times * more.cpu;
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
    ways->plan_store[plan] += rows * ways->store_row_ns;
    if (plan == WAYS_CHOSEN)
        ways->store_load += rows * ways->store_row_ns;
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
    return more.work * slope(load->work) + more.cpu * slope(load->cpu) +
           more.out * slope(load->out) + more.in * slope(load->in);
}

static double store_price(const struct ways *ways)
{
    return ways->store_row_ns * slope(ways->store_load);
}

/* --- windows ------------------------------------------------------------------------------ */

static double samples(const struct ways *ways)
{
    return (double)ways->row_samples;
}

/* Brings the loads of long rows, and the prices, up to date. */
static void refresh(struct ways *ways)
{
    ways->in_price = ways->each_price = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load received = move_load(ways, r, 0, ways->share[r] * samples(ways));
        struct ways_load read = read_load(ways, r);
        add(&ways->loads[r], received, ways->sent_rows);
        add(&ways->plans[WAYS_CHOSEN][r], received, ways->sent_rows);
        add(&ways->loads[r], read, ways->each_rows * ways->wants[r]);
        add(&ways->plans[WAYS_CHOSEN][r], read, ways->each_rows * ways->wants[r]);
        add(&ways->plans[WAYS_ALL_SEND][r], received, ways->sent_rows + ways->each_rows);
        add(&ways->plans[WAYS_ALL_EACH][r], read,
            (ways->sent_rows + ways->each_rows) * ways->wants[r]);
    }
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load received = move_load(ways, r, 0, ways->share[r] * samples(ways));
        ways->in_price += price(&ways->loads[r], received);
        ways->each_price +=
            ways->wants[r] * (price(&ways->loads[r], read_load(ways, r)) + store_price(ways));
    }
    ways->sent_rows = ways->each_rows = 0;
    ways->stale = ways->reader_count / 8 + 1;
}

void ways_begin_window(struct ways *ways)
{
    refresh(ways);
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load *load = &ways->loads[r];
        *load = (struct ways_load){load->work / 2, load->cpu / 2, load->out / 2, load->in / 2};
    }
    ways->store_load /= 2;
    for (int p = 0; p < WAYS_PLANS; p++) {
        memset(ways->plans[p], 0, ways->reader_count * sizeof *ways->plans[p]);
        ways->plan_store[p] = 0;
    }
    ways->stale = 0;
}

double ways_window_ns(struct ways *ways, enum ways_plan plan)
{
    if (!ways->all_known)
        return 0;
    refresh(ways);
    double most = ways->plan_store[plan];
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        const struct ways_load *load = &ways->plans[plan][r];
        most = fmax(most, fmax(fmax(load->work, load->cpu), fmax(load->out, load->in)));
    }
    return most;
}

/* --- rows that one reader wants ----------------------------------------------------------- */

void ways_add_read(struct ways *ways, uint32_t reader, bool from_memory)
{
    for (int p = 0; ways->all_known && p < WAYS_PLANS; p++) {
        add_planned(ways, (enum ways_plan)p, reader, read_load(ways, reader));
        add_store(ways, (enum ways_plan)p, from_memory ? 0 : 1);
    }
}

/* What a row costs a reader that has it in memory. */
static struct ways_load memory_load(const struct ways *ways, uint32_t reader, bool decodes)
{
    return decodes ? read_load(ways, reader) : (struct ways_load){0};
}

static void add_single(struct ways *ways, enum ways_plan plan, uint32_t from, uint32_t to,
                       bool decodes, bool holds, bool each)
{
    if (each) {
        add_planned(ways, plan, to, holds ? memory_load(ways, to, decodes) : read_load(ways, to));
        add_store(ways, plan, holds ? 0 : 1);
        return;
    }
    add_planned(ways, plan, from, move_load(ways, from, samples(ways), 0));
    add_planned(ways, plan, to, move_load(ways, to, 0, samples(ways)));
    if (decodes)
        add_planned(ways, plan, from, read_load(ways, from));
}

bool ways_choose_single(struct ways *ways, uint32_t from, uint32_t to, bool decodes, bool holds,
                        bool allowed)
{
    bool each = allowed && ways->choice == WAYS_EACH;
    if (!ways->all_known)
        return each;
    if (allowed && ways->choice == WAYS_AUTO) {
        const struct ways_load *sender = &ways->loads[from], *receiver = &ways->loads[to];
        double send = price(sender, move_load(ways, from, samples(ways), 0)) +
                      price(receiver, move_load(ways, to, 0, samples(ways))) +
                      (decodes ? price(sender, read_load(ways, from)) : 0);
        each = holds ? !decodes || price(receiver, read_load(ways, to)) < send
                     : price(receiver, read_load(ways, to)) + store_price(ways) < send;
    }
    add_single(ways, WAYS_CHOSEN, from, to, decodes, holds, each);
    add_single(ways, WAYS_ALL_SEND, from, to, decodes, holds, false);
    add_single(ways, WAYS_ALL_EACH, from, to, decodes, holds, allowed);
    return each;
}

/* --- rows that many readers want ---------------------------------------------------------- */

/* What a reader that has the row in memory saves of the price of EACH. */
static double saved_price(const struct ways *ways, uint32_t reader, bool decodes)
{
    const struct ways_load *load = &ways->loads[reader];
    return ways->wants[reader] *
           ((decodes ? 0 : price(load, read_load(ways, reader))) + store_price(ways));
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
        double read = price(&ways->loads[r], read_load(ways, r));
        if (holds || (r == row->from && !row->reads))
            sum += ways->wants[r] * (row->decodes ? read : 0);
        else
            sum += ways->wants[r] * (read + store_price(ways));
    }
    return sum;
}

bool ways_prefers_each(struct ways *ways, const struct ways_row *row)
{
    uint32_t from = row->from;
    if (ways->choice != WAYS_AUTO || !ways->all_known)
        return ways->choice == WAYS_EACH;
    if (ways->stale == 0)
        refresh(ways);
    const struct ways_load *load = &ways->loads[from];
    double own = samples(ways) * ways->share[from];
    double own_read = price(load, read_load(ways, from));
    double send = ways->in_price - price(load, move_load(ways, from, 0, own)) +
                  price(load, move_load(ways, from, samples(ways) - own, 0)) +
                  (row->reads || row->decodes ? own_read : 0) +
                  (row->reads ? store_price(ways) : 0);
    double each = each_price(ways, row);
    return each < send || (row->holder_count > 0 && each <= 0);
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
        add_planned(ways, plan, from, read_load(ways, from));
    add_store(ways, plan, row->reads ? 1 : 0);
}

/* refresh() adds what all readers read: this one need not. */
static void take_off(struct ways *ways, enum ways_plan plan, uint32_t reader, bool decodes)
{
    struct ways_load less = read_load(ways, reader);
    less.work *= -ways->wants[reader];
    less.cpu *= -ways->wants[reader];
    if (!decodes)
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
    add_loaders(ways, WAYS_CHOSEN, row);
    add_sender(ways, WAYS_ALL_SEND, row);
    add_loaders(ways, WAYS_ALL_EACH, row);
    count_row(ways);
}
