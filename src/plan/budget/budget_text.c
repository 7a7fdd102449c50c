/* See budget.h: a budget in words. */
#include "plan/budget/budget_internal.h"

#include "base/number.h"
#include "base/size.h"

/* Names the source of a mix whose windows take most of the memory, where a step has several passes
 * over the source: windows of fewer rows would be no help. */
static void name_source(const struct budget_demand *d, const struct budget *b, struct text *out)
{
    uint32_t most = 0;
    for (uint32_t s = 1; s < plan_source_count(d->plan); s++)
        if (budget_source_bytes(d, b, s) > budget_source_bytes(d, b, most))
            most = s;
    const struct plan *source = plan_source(d->plan, most);
    uint64_t draws = plan_most_draws(d->plan, most, d->plan->global_batch);
    if (d->plan->mix && draws > source->sample_count &&
        budget_source_bytes(d, b, most) > b->least_bytes / 2)
        text_append(out,
                    "; most of it is for source %u of the mix, which has %s sample%s and gives %s "
                    "to a step: lower its weight or batch.global_size",
                    most, count_format(source->sample_count).text,
                    count_plural(source->sample_count), count_format(draws).text);
}

static void name_inflated(const struct budget_demand *d, const struct budget *b, struct text *out)
{
    if (mul_sat(d->worker_count, d->inflate_bytes) > b->least_bytes / 2)
        text_append(out,
                    "; most of it is for deflated values of a zip archive, up to %s for each "
                    "thread: write the archive with stored entries (zip -0), or unpack it",
                    size_format(d->inflate_bytes).text);
    if (d->catalogue_bytes > b->least_bytes / 2)
        text_append(out,
                    "; %s of it says where chunks lie: write an Icechunk repository with more and "
                    "smaller manifests (ManifestSplittingConfig), references in several files, or "
                    "zip archives of shards",
                    size_format(d->catalogue_bytes).text);
}

/* ", 120 pages of 1 MiB for ragged fields 120 MiB" */
static void name_pages(const struct budget_demand *d, uint64_t buffers, struct text *out)
{
    uint64_t pages = budget_pages(d, buffers);
    if (pages > 0)
        text_append(out, ", %s page%s of %s for ragged fields %s", count_format(pages).text,
                    count_plural(pages), size_format(d->ragged.page_bytes).text,
                    size_format(budget_pages_bytes(d, pages)).text);
}

enum status budget_refuse(const struct budget_demand *demand, const struct budget *budget,
                          uint64_t least_rows, struct error *err)
{
    const struct budget_demand *d = demand;
    const struct budget *b = budget;
    struct text pages = {0}, advice = {0};
    name_pages(d, least_rows, &pages);
    name_source(d, b, &advice);
    name_inflated(d, b, &advice);
    enum status status = error_set(
        err, STATUS_NO_MEMORY,
        "readers.memory_limit %s is too low for one reader: it takes at least %lluMiB: row buffers "
        "%s (%llu x "
        "%s)%s, held arrays %s, %u ring%s %s, exchange %s, scratch of %u thread%s %s, plan %s, "
        "fetches "
        "%s, constants %s; raise "
        "the limit, use more "
        "readers, or lower order.window_rows, %sdelivery.slots, exchange.buffer_limit, "
        "readers.threads or store.fetch_memory%s",
        size_format(d->limit_bytes).text,
        (unsigned long long)size_divide_up(b->least_bytes, UINT64_C(1) << 20),
        size_format(mul_sat(least_rows, budget_buffer_bytes(d))).text,
        (unsigned long long)least_rows, size_format(d->row_bytes).text,
        pages.data ? pages.data : "", size_format(b->held_bytes).text, d->ring_count,
        count_plural(d->ring_count), size_format(b->rings_bytes).text,
        size_format(b->exchange_bytes).text, d->worker_count, count_plural(d->worker_count),
        size_format(b->scratch_bytes).text, size_format(b->plan_bytes).text,
        size_format(b->fetch_bytes).text, size_format(b->constant_bytes).text,
        pages.data ? "samples.row_chunks, " : "", advice.data ? advice.data : "");
    text_done(&advice);
    text_done(&pages);
    return status;
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
                count_format(budget->transient_rows).text,
                count_format(budget->buffer_rows - budget->transient_rows).text,
                size_format(demand->row_bytes).text);
    if (budget->pages > 0) {
        describe_line(out, "pages", budget->pages_bytes);
        text_append(out, "  %s of %s, for ragged fields: the largest rows together\n",
                    count_format(budget->pages).text, size_format(demand->ragged.page_bytes).text);
    }
    if (budget->stored_bytes > 0) {
        describe_line(out, "stored rows", budget->stored_bytes);
        text_append(out, "  about %s kept, %s each\n", count_format(budget->keep_rows).text,
                    size_format(demand->stored_row_bytes).text);
    }
    describe_line(out, "held arrays", budget->held_bytes);
    text_append(out, "  shared by the readers of a node");
    if (demand->hold_room_bytes > 0)
        text_append(out, "; at the start, chunks of up to %s on their way",
                    size_format(demand->hold_room_bytes).text);
    text_append(out, "\n");
    if (budget->constant_bytes > 0) {
        describe_line(out, "constants", budget->constant_bytes);
        text_append(out, "  as read, and as trainers get them\n");
    }
    describe_line(out, "rings", budget->rings_bytes);
    text_append(out, "  %u x %s", demand->ring_count, size_format(demand->ring_bytes).text);
    if (demand->rest_bytes > 0)
        text_append(out, ", and %s held of the one before", size_format(demand->rest_bytes).text);
    text_append(out, "\n");
    describe_line(out, "exchange", budget->exchange_bytes);
    uint64_t sent = mul_sat(demand->copies, round_max_sent(demand->plan, demand->shape));
    uint64_t received = round_max_received(demand->plan, demand->shape, demand->ring_count);
    text_append(out, "  %u round%s in flight, %s record%s to send and %s to receive each",
                demand->shape.in_flight, count_plural(demand->shape.in_flight),
                count_format(sent).text, count_plural(sent), count_format(received).text);
    if (budget->send_trailer_bytes > 0)
        text_append(out, "; of ragged fields up to %s to send and %s to receive",
                    size_format(budget->send_trailer_bytes).text,
                    size_format(budget->receive_trailer_bytes).text);
    text_append(out, "\n");
    describe_line(out, "decoding", budget->scratch_bytes);
    text_append(out, "  %u thread%s", demand->worker_count, count_plural(demand->worker_count));
    if (demand->inflate_bytes > 0)
        text_append(
            out, "; %s of each to inflate values of a zip archive, and %s for what stays so",
            size_format(demand->inflate_bytes).text, size_format(budget->inflated_bytes).text);
    else if (demand->catalogue_bytes > 0)
        text_append(out, "; %s for manifests, references and directories",
                    size_format(demand->catalogue_bytes).text);
    if (demand->inflate_bytes == 0 && demand->catalogue_bytes > 0 && budget->inflated_bytes > 0)
        text_append(out, ", and %s for further manifests",
                    size_format(budget->inflated_bytes).text);
    text_append(out, "\n");
    if (budget->fetch_bytes > 0) {
        describe_line(out, "fetches", budget->fetch_bytes);
        text_append(out, "  chunks on their way from the store, connections\n");
    }
    describe_line(out, "plan", budget->plan_bytes);
    text_append(out, "  %s window%s at once\n", count_format(budget->planned_windows).text,
                count_plural(budget->planned_windows));
    describe_line(out, "total", budget->total_bytes);
    text_append(out, "  of at most %s\n", size_format(demand->limit_bytes).text);
}
