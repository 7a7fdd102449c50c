/* See budget.h.
 *
 * All sizes but that of the row buffers, and of their pages, are given; row buffers take the rest.
 * All arithmetic saturates, so that sizes beyond 64 bits end as "limit too low" and not as a small
 * number.
 */
#include "plan/budget/budget.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/assign/assign.h"
#include "plan/budget/budget_internal.h"
#include "plan/order/tables.h"
#include "plan/rounds/locality.h"

enum { LEAST_WINDOWS = 4, AHEAD_PART = 32 };

static bool keeps_rows(const struct budget_demand *d)
{
    return d->keep != BUDGET_KEEP_NOTHING && !d->last_epoch;
}

/* For which a window's list has room. */
static uint64_t count_items(const struct budget_demand *d, uint32_t source)
{
    const struct round_peers peers = {
        .readers = d->reader_count, .rings = d->ring_count, .times_mean = d->times_mean};
    return round_window_expected(d->plan, source, &peers);
}

/* Items and rows of a window. */
static uint64_t window_bytes(const struct budget_demand *d, uint32_t source)
{
    const struct plan *plan = plan_source(d->plan, source);
    uint64_t partitions = max_u64(d->partition_count, 1);
    uint64_t row = BUDGET_WINDOW_ROW_BYTES + (partitions - 1) * sizeof(uint16_t);
    uint64_t items = mul_sat(count_items(d, source), sizeof(struct round_item));
    uint64_t window = add_sat(items, mul_sat(plan->window_rows, row));
    if (plan->mix)
        window = add_sat(window, BUDGET_MIXED_WINDOW_BYTES);
    return add_sat(window, sizeof(struct plan_epoch));
}

/* Windows of which workers read a row each. More than one take a small part of the memory. */
static uint64_t count_read_windows(const struct budget_demand *d, uint32_t source)
{
    const struct plan *plan = plan_source(d->plan, source);
    uint64_t even = size_divide_up(plan->window_rows, d->reader_count);
    uint64_t fit = d->limit_bytes / AHEAD_PART / window_bytes(d, source);
    return max_u64(1, min_u64(size_divide_up(d->worker_count, even), fit));
}

/* Windows of a source that the rounds in flight and the next one may touch, those that are being
 * read, one to spare. In a mix the last window of a pass, which may be short, lies between others.
 */
static uint64_t count_planned_windows(const struct budget_demand *d, uint32_t source)
{
    const struct plan *plan = plan_source(d->plan, source);
    uint64_t round_positions = mul_sat(d->shape.steps_per_round, d->plan->global_batch);
    uint64_t ahead = mul_sat((uint64_t)d->shape.in_flight + 1, round_positions);
    uint64_t draws = plan_most_draws(d->plan, source, ahead);
    uint64_t last = d->plan->mix ? draws / plan->sample_count + 1 : 0;
    uint64_t touched = size_divide_up(draws, plan->window_least);
    return max_u64(LEAST_WINDOWS, 1 + touched + last + count_read_windows(d, source));
}

/* With more trainers a round may have as many records more, since each share is rounded up. */
static uint64_t rounding(const struct budget_demand *d)
{
    return d->trainers_most > d->plan->trainer_count
               ? mul_sat(d->trainers_most, d->shape.steps_per_round)
               : 0;
}

/* The most records that a reader sends or copies to rings in a pass. */
static uint64_t max_listed(const struct budget_demand *d)
{
    return mul_sat(d->copies, add_sat(round_max_listed(d->plan, d->shape), rounding(d)));
}

/* Those that a reader sends, without copies for further readers; and those that a reader gets. */
static uint64_t max_sent_once(const struct budget_demand *d)
{
    return add_sat(round_max_sent(d->plan, d->shape), rounding(d));
}

static uint64_t max_sent(const struct budget_demand *d)
{
    return mul_sat(d->copies, max_sent_once(d));
}

static uint64_t max_received(const struct budget_demand *d)
{
    return add_sat(round_max_received(d->plan, d->shape, d->ring_count), rounding(d));
}

/* The trailers of so many records of a round. */
static uint64_t trailer_bytes(const struct budget_demand *d, uint64_t records)
{
    uint64_t positions = mul_sat(d->shape.steps_per_round, d->plan->global_batch);
    return d->reader_count > 1 ? plan_ragged_trailer(&d->ragged, d->plan, positions, records) : 0;
}

static uint64_t exchange_bytes(const struct budget_demand *d, const struct budget *b)
{
    if (d->reader_count == 1)
        return 0;
    uint64_t send =
        mul_sat(max_sent(d), add_sat(d->packed_bytes, mul_sat(d->messages, BUDGET_SEND_BYTES)));
    uint64_t receive = mul_sat(
        max_received(d), add_sat(d->packed_bytes, mul_sat(d->messages, BUDGET_RECEIVE_BYTES)));
    uint64_t trailers = add_sat(b->send_trailer_bytes, b->receive_trailer_bytes);
    return mul_sat(d->shape.in_flight, add_sat(add_sat(send, receive), trailers));
}

/* The windows of a source that are planned at once, and the source's tables. */
static uint64_t source_bytes(const struct budget_demand *d, uint32_t source,
                             uint64_t planned_windows)
{
    const struct plan *plan = plan_source(d->plan, source);
    uint64_t tables =
        plan_tables_bytes(plan, plan_epochs_at_once(plan, planned_windows), planned_windows);
    return add_sat(mul_sat(planned_windows, window_bytes(d, source)), tables);
}

/* What workers, and the main thread, remember of the rows whose items they copy. */
static uint64_t found_bytes(const struct budget_demand *d)
{
    uint64_t threads = (uint64_t)d->worker_count + 1;
    return d->ragged.sample_steps == 0 ? 0 : mul_sat(threads, BUDGET_FOUND_BYTES);
}

/* What a round notes of its trailers. */
static uint64_t round_trailers_bytes(const struct budget_demand *d)
{
    uint64_t records = add_sat(max_listed(d), max_received(d));
    uint64_t slots = mul_sat(d->shape.steps_per_round, d->ring_count);
    uint64_t starts = mul_sat(slots, plan_ragged_starts(&d->ragged, d->plan->batch));
    return d->ragged.sample_steps == 0 ? 0
                                       : add_sat(mul_sat(records, BUDGET_TRAILER_BYTES),
                                                 mul_sat(starts, BUDGET_START_BYTES));
}

/* What the windows take, records of the rounds under way, and the assigner's home table, which rank
 * 0 alone has. */
static uint64_t plan_bytes(const struct budget_demand *d, const uint64_t *source_windows)
{
    uint64_t listed =
        mul_sat(max_listed(d), BUDGET_FILL_BYTES + (d->shifts ? BUDGET_ROOM_BYTES : 0) +
                                   (d->crops ? BUDGET_KEY_BYTES : 0) +
                                   (d->has_kinds ? BUDGET_KIND_BYTES : 0) +
                                   (d->copies > 1 ? BUDGET_KIND_BYTES : 0));
    uint64_t destination =
        BUDGET_DESTINATION_BYTES + (d->plan->mix ? BUDGET_MIXED_DESTINATION_BYTES : 0);
    uint64_t received = mul_sat(max_received(d), BUDGET_ARRIVAL_BYTES);
    uint64_t bytes = add_sat(
        mul_sat(max_u64(d->partition_count, 1),
                assigner_bytes(d->plan, d->reader_count, keeps_rows(d))),
        mul_sat(d->shape.in_flight, add_sat(add_sat(listed, received), round_trailers_bytes(d))));
    struct plan most = *d->plan;
    most.trainer_count = max_u32(most.trainer_count, d->trainers_most);
    if (d->plan->locality)
        bytes = add_sat(bytes, add_sat(mul_sat(round_max_matched(d->plan, d->shape), destination),
                                       matcher_bytes(&most)));
    for (uint32_t s = 0; s < plan_source_count(d->plan); s++)
        bytes = add_sat(bytes, source_bytes(d, s, source_windows[s]));
    bytes = add_sat(bytes, plan_schedule_bytes(d->plan));
    return add_sat(bytes, add_sat(found_bytes(d), d->anchor_bytes));
}

static void set_most_rows(const struct budget_rows *rows, uint64_t buffers, bool whole,
                          struct budget *b)
{
    budget_rows_share(rows, buffers, whole, b->source_most_rows);
    b->most_rows = 0;
    for (uint32_t s = 0; s < rows->source_count; s++)
        b->most_rows += b->source_most_rows[s];
}

/* What is left when all rows are kept as stored: a window whose rows all have the same home can be
 * read there, so that none is read from storage again. */
static void widen(const struct budget_rows *rows, uint64_t buffers, struct budget *b)
{
    if (rows->enough > b->transient_rows)
        b->transient_rows += min_u64(buffers, rows->enough - b->transient_rows);
    set_most_rows(rows, b->transient_rows, true, b);
}

/* Rows that stay as stored, in what the row buffers leave; if these are all rows, what is left then
 * goes to more buffers. */
static void keep_stored(const struct budget_demand *d, const struct budget_rows *rows,
                        uint64_t left_bytes, struct budget *b)
{
    uint64_t beside_buffers = left_bytes - budget_buffers_bytes(d, b->buffer_rows);
    b->keep_rows = min_u64(beside_buffers / d->stored_row_bytes, rows->all);
    b->stored_bytes = mul_sat(b->keep_rows, d->stored_row_bytes);
    if (b->keep_rows < rows->all || rows->single)
        return;
    widen(rows, budget_buffers_in(d, left_bytes - b->stored_bytes) - b->buffer_rows, b);
    b->buffer_rows = b->transient_rows;
}

/* With room for all rows decoded, all are kept and none is transient. Else reading ahead comes
 * first, keeping second. Rows of one sample need buffers beyond those for as many as a window may
 * bring in: one that comes to stay may come before one that is to go has had its last use. */
static void divide_rows(const struct budget_demand *d, const struct budget_rows *rows,
                        uint64_t left_bytes, struct budget *b)
{
    uint64_t buffers = budget_buffers_in(d, left_bytes);
    set_most_rows(rows, UINT64_MAX, true, b);
    if (keeps_rows(d) && d->keep == BUDGET_KEEP_DECODED && buffers >= rows->all) {
        b->keep_rows = b->buffer_rows = rows->all;
        return;
    }
    b->transient_rows = min_u64(buffers, rows->preferred);
    set_most_rows(rows, b->transient_rows, false, b);
    if (keeps_rows(d) && d->keep == BUDGET_KEEP_DECODED)
        b->keep_rows = min_u64(buffers, rows->all) - min_u64(b->transient_rows, rows->all);
    b->buffer_rows = b->transient_rows + b->keep_rows;
    if (keeps_rows(d) && d->keep == BUDGET_KEEP_STORED && d->stored_row_bytes > 0)
        keep_stored(d, rows, left_bytes, b);
}

uint64_t budget_source_bytes(const struct budget_demand *demand, const struct budget *budget,
                             uint32_t source)
{
    return source_bytes(demand, source, budget->source_windows[source]);
}

enum status budget_settle(const struct budget_demand *demand, struct budget *ret_budget,
                          struct error *err)
{
    const struct budget_demand *d = demand;
    struct budget b = {
        .held_bytes = d->held_bytes,
        .rings_bytes = mul_sat(d->ring_count, add_sat(d->ring_bytes, d->rest_bytes)),
        .send_trailer_bytes = mul_sat(d->copies, trailer_bytes(d, max_sent_once(d))),
        .receive_trailer_bytes = trailer_bytes(d, max_received(d)),
        .scratch_bytes = add_sat(mul_sat(d->worker_count, d->scratch_bytes),
                                 add_sat(d->index_bytes, d->catalogue_bytes)),
        .fetch_bytes = d->fetch_bytes,
        .constant_bytes = d->constant_bytes,
    };
    b.exchange_bytes = exchange_bytes(d, &b);
    uint64_t idle_bytes = add_sat(b.rings_bytes, b.exchange_bytes);
    b.fetch_bytes = max_u64(b.fetch_bytes, max_u64(d->hold_room_bytes, idle_bytes) - idle_bytes);
    for (uint32_t s = 0; s < plan_source_count(d->plan); s++) {
        b.source_items[s] = count_items(d, s);
        b.source_windows[s] = count_planned_windows(d, s);
        b.planned_windows = add_sat(b.planned_windows, b.source_windows[s]);
    }
    b.plan_bytes = plan_bytes(d, b.source_windows);
    uint64_t fixed_bytes = add_sat(
        add_sat(add_sat(b.held_bytes, b.constant_bytes), b.rings_bytes),
        add_sat(add_sat(b.exchange_bytes, b.scratch_bytes), add_sat(b.plan_bytes, b.fetch_bytes)));
    struct budget_rows rows;
    budget_rows_count(d, &rows);
    b.least_bytes = add_sat(fixed_bytes, budget_buffers_bytes(d, rows.least));
    if (b.least_bytes > d->limit_bytes)
        return budget_refuse(d, &b, rows.least, err);
    uint64_t left_bytes = d->limit_bytes - fixed_bytes;
    divide_rows(d, &rows, left_bytes, &b);
    b.rows_bytes = b.buffer_rows * budget_buffer_bytes(d);
    b.pages = budget_pages(d, b.buffer_rows);
    b.pages_bytes = budget_pages_bytes(d, b.pages);
    b.total_bytes = fixed_bytes + b.rows_bytes + b.pages_bytes + b.stored_bytes;
    b.inflated_bytes =
        min_u64(d->inflated_bytes, d->limit_bytes - min_u64(b.total_bytes, d->limit_bytes));
    b.scratch_bytes += b.inflated_bytes;
    b.total_bytes += b.inflated_bytes;
    *ret_budget = b;
    return STATUS_OK;
}
