/* See ways.h. A long row's price is a sum over all readers. These sums are brought up to date once
 * in as many rows as an eighth of the readers, so that a row costs O(1). */
#include "plan/ways_internal.h"

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
                          .epochs = 1,
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
 * long as they lead the same way. Where all rows are sent, a burden is forgotten slowly. With
 * order.placement local each load is the last one of its row, and few of what rounds wait for are
 * loads: waits say nothing of these. */
void ways_note_waits(struct ways *ways, const struct ways_waits *waits)
{
    if (ways->moved > 0)
        return;
    if (ways->loaded < 1) {
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

struct ways_load ways_read_load(const struct ways *ways, uint32_t reader, double stores)
{
    const struct ways_rates *rates = &ways->rates[reader];
    return (struct ways_load){.work = rates->row_ns * ways->burden,
                              .in = stores * ways->store.row_bytes * rates->byte_ns};
}

struct ways_load ways_move_load(const struct ways *ways, uint32_t reader, double out, double in)
{
    double sample_ns = ways->record_bytes * ways->rates[reader].byte_ns;
    return (struct ways_load){.out = out * sample_ns, .in = in * sample_ns};
}

struct ways_load ways_tape_load(const struct ways *ways, uint32_t reader, double out, double in)
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

void ways_add_planned(struct ways *ways, enum ways_plan plan, uint32_t reader,
                      struct ways_load more)
{
    add(&ways->plans[plan][reader], more, 1);
    if (plan == WAYS_CHOSEN)
        add(&ways->loads[reader], more, 1);
}

void ways_add_store(struct ways *ways, enum ways_plan plan, double rows)
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

double ways_price(const struct ways_load *load, struct ways_load more)
{
    return more.work * slope(load->work) + more.out * slope(load->out) + more.in * slope(load->in);
}

double ways_store_price(const struct ways *ways)
{
    return ways->store.row_ns * ways->burden * slope(ways->store_load);
}

/* --- windows ------------------------------------------------------------------------------ */

void ways_refresh(struct ways *ways)
{
    double all_rows = ways->sent_rows + ways->each_rows + ways->tape_rows;
    ways->in_price = ways->each_price = ways->tape_price = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load received = ways_move_load(ways, r, 0, ways->share[r] * ways_samples(ways));
        struct ways_load read = ways_read_load(ways, r, 1), tape = ways_tape_load(ways, r, 0, 1);
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
        struct ways_load received = ways_move_load(ways, r, 0, ways->share[r] * ways_samples(ways));
        ways->in_price += ways_price(&ways->loads[r], received);
        ways->each_price +=
            ways->wants[r] *
            (ways_price(&ways->loads[r], ways_read_load(ways, r, 1)) + ways_store_price(ways));
        ways->tape_price +=
            ways->wants[r] * ways_price(&ways->loads[r], ways_tape_load(ways, r, 0, 1));
    }
    ways->sent_rows = ways->each_rows = ways->tape_rows = 0;
    ways->stale = ways->reader_count / 8 + 1;
}

double ways_window_ns(struct ways *ways, enum ways_plan plan)
{
    if (!ways->all_known)
        return 0;
    ways_refresh(ways);
    double most = ways->plan_store[plan];
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        const struct ways_load *load = &ways->plans[plan][r];
        most = fmax(most, fmax(load->work, fmax(load->out, load->in)));
    }
    return most;
}

/* How many times faster the best mixture is than sending: links are busy for
 * (1 - s) * sent + s * stored, workers or the store for s * read. In each epoch the share s * kept
 * of what is left to load is loaded, and stays. With order.placement local s is 1. */
static double best_gain(const struct ways *ways, double sent, double stored, double read,
                        double kept)
{
    double share = 1, epochs = ways->epochs;
    if (read > stored && ways->moved == 0)
        share = fmin(sent / (sent - stored + read), 1);
    double took = fmax((1 - share) * sent + share * stored, share * read);
    if (share * kept > 0)
        epochs = (1 - pow(1 - share * kept, ways->epochs)) / (share * kept);
    return took > 0 ? ways->epochs * sent / (epochs * took) : INFINITY;
}

/* The share of what is not with a reader yet that one epoch's rows have. */
static double wanted_share(const struct ways *ways)
{
    if (ways->moved > 0)
        return fmin(ways->moved * ways_samples(ways) / (ways->reader_count - 1), 1);
    return ways->stays * ways->wanted / ways->reader_count;
}

/* The same of EACH or of TAPE, for rows that are all in memory at their homes: of the rows the
 * share s is loaded by those who want them. Notes whether all that stay are. */
static double promised_gain(struct ways *ways)
{
    double elsewhere = ways->moved > 0 ? ways->moved : 1 - 1.0 / ways->reader_count;
    double sent = 0, stored = 0, tape = 0, decode = 0, all_loads = 0;
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        double loads =
            ways->moved > 0 ? ways->share[r] * ways_local_loads(ways) : elsewhere * ways->wants[r];
        struct ways_load read = ways_read_load(ways, r, 1),
                         received = ways_tape_load(ways, r, 0, 1);
        sent = fmax(sent,
                    elsewhere * ways_move_load(ways, r, 0, ways->share[r] * ways_samples(ways)).in);
        all_loads += loads;
        stored = fmax(stored, loads * read.in);
        tape = fmax(tape, loads * received.in);
        decode = fmax(decode, loads * read.work);
    }
    double store = all_loads * ways->store.row_ns * ways->burden;
    double read = fmax(decode, store), kept = wanted_share(ways);
    double each = best_gain(ways, sent, stored, read, kept);
    ways->loads_all = ways->epochs > 1 && fmax(stored, read) <= sent;
    return ways->tape_bytes > 0 ? fmax(each, best_gain(ways, sent, tape, decode, kept)) : each;
}

static void settle_mixing(struct ways *ways)
{
    if (ways->choice == WAYS_AUTO && ways->all_known)
        ways->mixes = promised_gain(ways) > (ways->mixes ? STILL_WORTH_IT : WORTH_IT);
}

void ways_begin_window(struct ways *ways, uint64_t epochs)
{
    ways->epochs = epochs < WAYS_EPOCHS ? (double)epochs : WAYS_EPOCHS;
    settle_mixing(ways);
    ways_refresh(ways);
    for (uint32_t r = 0; r < ways->reader_count; r++) {
        struct ways_load *load = &ways->loads[r];
        *load = (struct ways_load){load->work / 2, load->out / 2, load->in / 2};
    }
    ways->store_load /= 2;
    ways->loaded /= 16;
    for (int p = 0; p < WAYS_PLANS; p++) {
        memset(ways->plans[p], 0, ways->reader_count * sizeof *ways->plans[p]);
        ways->plan_store[p] = 0;
    }
    ways->stale = 0;
}
