/* See setup.h: a setup in words and as JSON. */
#include "run/setup.h"

#include "base/size.h"

void run_setup_describe_windows(const struct run_setup *setup, struct text *out)
{
    for (uint32_t d = 0; d < plan_source_count(&setup->plan); d++) {
        const struct plan *source = plan_source(&setup->plan, d);
        text_append(out, "%s%s", d > 0 ? ", " : "windows of ",
                    count_format(source->window_rows).text);
        if (d == 0)
            text_append(out, " row%s", count_plural(source->window_rows));
        if (setup->plan.mix)
            text_append(out, " of source %u%s", d, source->shuffle ? "" : " (not shuffled)");
    }
}

void run_describe_epochs(const struct config *config, struct text *out)
{
    if (config->epochs == 0)
        text_append(out, "endless epochs");
    else
        text_append(out, "%s epoch%s", count_format(config->epochs).text,
                    count_plural(config->epochs));
}

void run_setup_describe_cache(const struct run_setup *setup, struct text *out)
{
    uint64_t kept = setup->budget.keep_rows * setup->demand.reader_count;
    uint64_t rows = setup->plan.ever_rows;
    if (kept == 0)
        text_append(out, "no rows stay for later epochs");
    else
        text_append(out, "%s of %s row%s stay for later epochs, %s",
                    kept < rows ? count_format(kept).text : "all", count_format(rows).text,
                    count_plural(rows),
                    setup->demand.keep == BUDGET_KEEP_STORED ? "as stored" : "decoded");
}

void run_setup_describe_memory(const struct run_setup *setup, struct text *out)
{
    struct budget_demand demand = setup->demand;
    demand.plan = &setup->plan;
    budget_describe(&demand, &setup->budget, out);
}

void run_setup_memory_json(const struct run_setup *setup, struct text *out)
{
    const struct budget *b = &setup->budget;
    const struct {
        const char *name;
        uint64_t bytes;
    } purposes[] = {{"row_buffers", b->rows_bytes},   {"pages", b->pages_bytes},
                    {"stored_rows", b->stored_bytes}, {"held_arrays", b->held_bytes},
                    {"rings", b->rings_bytes},        {"exchange", b->exchange_bytes},
                    {"decoding", b->scratch_bytes},   {"fetches", b->fetch_bytes},
                    {"plan", b->plan_bytes},          {"constants", b->constant_bytes},
                    {"total", b->total_bytes},        {"limit", setup->demand.limit_bytes},
                    {"least", b->least_bytes}};
    for (size_t i = 0; i < sizeof purposes / sizeof purposes[0]; i++)
        text_append(out, "%s\"%s\":%llu", i ? "," : "{", purposes[i].name,
                    (unsigned long long)purposes[i].bytes);
    text_append(out, "}");
}
