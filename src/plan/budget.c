/* See budget.h.
 *
 * Everything but row buffers has a size that is given; row buffers take what is left. All
 * arithmetic saturates, so that sizes beyond 64 bits end as "limit too low" and not as a small
 * number.
 */
#include "plan/budget.h"

#include "base/size.h"

enum { LEAST_WINDOW_SLOTS = 4, READ_AHEAD_ROWS = 2 };

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = UINT64_MAX;
    (void)size_multiply(a, b, &product);
    return product;
}

static uint64_t window_samples(const struct plan *plan)
{
    return least_of(times(plan->window_rows, plan->row_length), plan->sample_count);
}

/* Windows that the rounds in flight and the next one may touch, one that is being read, one to
 * spare. */
static uint64_t count_window_slots(const struct budget_demand *d)
{
    uint64_t round_positions = times(d->shape.steps_per_round, d->plan->global_batch);
    uint64_t ahead = times(BUDGET_ROUNDS_IN_FLIGHT + 1, round_positions);
    return most_of(LEAST_WINDOW_SLOTS, 2 + size_divide_up(ahead, window_samples(d->plan)));
}

static uint64_t exchange_bytes(const struct budget_demand *d)
{
    if (d->reader_count == 1)
        return 0;
    uint64_t send = times(round_max_records(d->plan, d->shape), d->record_bytes);
    uint64_t receive = times(
        times(d->trainers_served, round_max_trainer_records(d->plan, d->shape)), d->record_bytes);
    return times(BUDGET_ROUNDS_IN_FLIGHT, plus(send, receive));
}

/* Items and rows of the windows that are planned at once, records of the rounds under way, and the
 * assigner's homes. */
static uint64_t plan_bytes(const struct budget_demand *d, uint64_t window_slots)
{
    uint64_t items = times(round_window_capacity(d->plan), sizeof(struct round_item));
    uint64_t rows = times(d->plan->window_rows, BUDGET_WINDOW_ROW_BYTES);
    uint64_t sent = times(round_max_records(d->plan, d->shape), BUDGET_FILL_BYTES);
    uint64_t received =
        times(times(d->trainers_served, round_max_trainer_records(d->plan, d->shape)),
              BUDGET_ARRIVAL_BYTES);
    uint64_t homes = times(d->plan->row_count, sizeof(uint16_t));
    return plus(plus(times(window_slots, plus(items, rows)), homes),
                times(BUDGET_ROUNDS_IN_FLIGHT, plus(sent, received)));
}

static uint64_t buffer_bytes(const struct budget_demand *d)
{
    return plus(d->row_bytes, BUDGET_BUFFER_TABLE_BYTES);
}

/* Row buffers by the assigner's rules. */
struct row_counts {
    uint64_t all;       /* the most rows of an epoch that come to one reader; more are of no use */
    uint64_t least;     /* buffers without which a run could stand still */
    uint64_t preferred; /* and with which reading stays ahead */
};

/* Rows of one sample are given up one by one, but for those of the last window that padding
 * repeats. Others are in use until their window ends, and where a step is exchanged in parts, until
 * all windows end that the step spans. */
static struct row_counts count_rows(const struct budget_demand *d)
{
    const struct plan *plan = d->plan;
    uint64_t window_share = size_divide_up(plan->window_rows, d->reader_count);
    struct row_counts rows = {.all = size_divide_up(plan->row_count, d->reader_count) + 1};
    if (plan->row_length == 1) {
        uint64_t round_share = size_divide_up(round_max_records(plan, d->shape), d->reader_count);
        uint64_t padding =
            plan->position_count - least_of(plan->position_count, plan->sample_count);
        uint64_t repeated = least_of(padding, window_share);
        uint64_t under_way = 2 * (uint64_t)d->worker_count + 2;
        rows.least = under_way + repeated;
        rows.preferred = READ_AHEAD_ROWS * most_of(under_way, round_share) + repeated;
    } else {
        uint64_t spans = size_divide_up(plan->global_batch, window_samples(plan)) + 1;
        bool parts = d->shape.parts_per_step > 1;
        rows.least = times(window_share, 1 + (parts ? least_of(spans, plan->window_count) : 0));
        rows.preferred = times(rows.least, 2);
    }
    rows.least = least_of(rows.least, rows.all);
    rows.preferred = least_of(rows.preferred, rows.all);
    return rows;
}

/* With room for all rows, all are kept and none is transient. Else reading ahead comes first,
 * keeping second. */
static void divide_rows(const struct budget_demand *d, struct row_counts rows, uint64_t buffers,
                        struct budget *budget)
{
    bool keep = d->cache && !d->last_epoch;
    if (keep && buffers >= rows.all) {
        budget->keep_rows = rows.all;
        return;
    }
    budget->transient_rows = least_of(buffers, rows.preferred);
    if (keep)
        budget->keep_rows = least_of(buffers, rows.all) - budget->transient_rows;
}

static enum status refuse(const struct budget_demand *d, const struct budget *b,
                          uint64_t least_rows, struct error *err)
{
    return error_set(
        err, STATUS_NO_MEMORY,
        "readers.memory_limit %s is too low for one reader: it takes at least %lluMiB: row buffers "
        "%s (%llu x "
        "%s), held arrays %s, %u rings %s, exchange %s, scratch of %u threads %s, plan %s; raise "
        "the limit, use more "
        "readers, or lower order.window_rows, delivery.slots, exchange.buffer_limit or "
        "readers.threads",
        size_format(d->limit_bytes).text,
        (unsigned long long)size_divide_up(b->least_bytes, UINT64_C(1) << 20),
        size_format(times(least_rows, buffer_bytes(d))).text, (unsigned long long)least_rows,
        size_format(d->row_bytes).text, size_format(b->held_bytes).text, d->trainers_served,
        size_format(b->rings_bytes).text, size_format(b->exchange_bytes).text, d->worker_count,
        size_format(b->scratch_bytes).text, size_format(b->plan_bytes).text);
}

enum status budget_settle(const struct budget_demand *demand, struct budget *ret_budget,
                          struct error *err)
{
    const struct budget_demand *d = demand;
    struct budget b = {
        .window_slots = count_window_slots(d),
        .held_bytes = d->held_bytes,
        .rings_bytes = times(d->trainers_served, d->ring_bytes),
        .exchange_bytes = exchange_bytes(d),
        .scratch_bytes = times(d->worker_count, d->scratch_bytes),
    };
    b.plan_bytes = plan_bytes(d, b.window_slots);
    uint64_t fixed_bytes = plus(plus(b.held_bytes, b.rings_bytes),
                                plus(plus(b.exchange_bytes, b.scratch_bytes), b.plan_bytes));
    struct row_counts rows = count_rows(d);
    b.least_bytes = plus(fixed_bytes, times(rows.least, buffer_bytes(d)));
    if (b.least_bytes > d->limit_bytes)
        return refuse(d, &b, rows.least, err);
    uint64_t left_bytes = d->limit_bytes - fixed_bytes;
    divide_rows(d, rows, left_bytes / buffer_bytes(d), &b);
    b.rows_bytes = (b.transient_rows + b.keep_rows) * buffer_bytes(d);
    b.total_bytes = fixed_bytes + b.rows_bytes;
    *ret_budget = b;
    return STATUS_OK;
}

static void describe_line(struct text *out, const char *purpose, uint64_t bytes)
{
    text_append(out, "  %-18s %12s", purpose, size_format(bytes).text);
}

void budget_describe(const struct budget_demand *demand, const struct budget *budget,
                     struct text *out)
{
    describe_line(out, "row buffers", budget->rows_bytes);
    text_append(out, "  %s transient + %s kept, %s each\n",
                count_format(budget->transient_rows).text, count_format(budget->keep_rows).text,
                size_format(demand->row_bytes).text);
    describe_line(out, "held arrays", budget->held_bytes);
    text_append(out, "  shared by the readers of a node\n");
    describe_line(out, "rings", budget->rings_bytes);
    text_append(out, "  %u x %s\n", demand->trainers_served, size_format(demand->ring_bytes).text);
    describe_line(out, "exchange", budget->exchange_bytes);
    text_append(out, "  %d rounds in flight, %s records each at most\n", BUDGET_ROUNDS_IN_FLIGHT,
                count_format(round_max_records(demand->plan, demand->shape)).text);
    describe_line(out, "decoding", budget->scratch_bytes);
    text_append(out, "  %u threads\n", demand->worker_count);
    describe_line(out, "plan", budget->plan_bytes);
    text_append(out, "  %s windows at once\n", count_format(budget->window_slots).text);
    describe_line(out, "total", budget->total_bytes);
    text_append(out, "  of at most %s\n", size_format(demand->limit_bytes).text);
}
