/* See plan_quality.h. */
#include "cli/plan/plan_quality.h"

#include "base/size.h"

#include <inttypes.h>

/* The least memory of a reader whose plan is this one. */
static enum status least_memory(const struct run_setup *setup, const struct plan *plan,
                                uint64_t *ret_bytes, struct error *err)
{
    struct budget_demand demand = setup->demand;
    struct budget budget;
    demand.plan = plan;
    demand.limit_bytes = UINT64_MAX / 4;
    enum status status = budget_settle(&demand, &budget, err);
    *ret_bytes = status != STATUS_OK ? 0 : budget.least_bytes;
    return status;
}

static enum status measure_window(const struct config *config, const struct dataset *dataset,
                                  const struct run_setup *setup, uint64_t window_rows,
                                  struct quality_report *report, struct error *err)
{
    struct config changed = *config;
    struct plan plan;
    struct quality_window *window = &report->windows[report->window_count++];
    changed.window_rows = window_rows;
    window->window_rows = window_rows;
    window->configured = window_rows == setup->plan.window_rows;
    enum status status = run_plan_settle(&changed, dataset, &plan, err);
    if (status == STATUS_OK)
        status = least_memory(setup, &plan, &window->least_bytes, err);
    return status != STATUS_OK ? status
                               : quality_measure(&plan, report->epoch, &report->samples,
                                                 &window->quality, &report->uniform, err);
}

/* The sizes to measure, rising. Returns how many. */
static size_t list_sizes(uint64_t own, uint64_t rows, uint64_t ret_sizes[QUALITY_MAX_WINDOWS])
{
    static const struct {
        uint64_t times, part;
    } factors[] = {{1, 64}, {1, 16}, {1, 4}, {1, 1}, {4, 1}, {16, 1}, {64, 1}};
    size_t count = 0;
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++) {
        uint64_t size = own / factors[i].part * factors[i].times;
        if (size >= 1 && size < rows)
            ret_sizes[count++] = size;
    }
    ret_sizes[count++] = rows;
    return count;
}

enum status plan_quality_measure(const struct config *config, const struct dataset *dataset,
                                 const struct run_setup *setup, uint64_t epoch,
                                 struct quality_report *ret_report, struct error *err)
{
    uint64_t sizes[QUALITY_MAX_WINDOWS];
    size_t count = list_sizes(setup->plan.window_rows, setup->plan.row_count, sizes);
    enum status status = STATUS_OK;
    *ret_report = (struct quality_report){.epoch = epoch};
    for (size_t i = 0; i < count && status == STATUS_OK; i++)
        status = measure_window(config, dataset, setup, sizes[i], ret_report, err);
    return status;
}

/* A measure as a share of that of a uniform shuffle, in percent; 100 where both are 0. */
static double percent(double measure, double uniform)
{
    return uniform > 0 ? 100 * measure / uniform : 100;
}

void plan_quality_print(const struct quality_report *report, FILE *out)
{
    fprintf(out,
            "How well samples are mixed, in %s samples of epoch %" PRIu64 ".\n"
            "  share      largest share of a step's samples that comes from one row, on average\n"
            "  distance   median distance of neighbours in the dataset, in percent of a uniform "
            "shuffle's\n"
            "  entropy    of distances between neighbours and between their rows, likewise\n"
            "  memory     least memory of a reader\n\n"
            "%14s %12s %8s %9s %8s\n",
            count_format(report->samples).text, report->epoch, "window_rows", "memory", "share",
            "distance", "entropy");
    for (size_t i = 0; i < report->window_count; i++) {
        const struct quality_window *window = &report->windows[i];
        fprintf(out, "%14s %12s %7.1f%% %8.1f%% %7.1f%%%s%s\n",
                count_format(window->window_rows).text, size_format(window->least_bytes).text,
                100 * window->quality.largest_share,
                percent(window->quality.distance, report->uniform.distance),
                percent(window->quality.entropy, report->uniform.entropy),
                window->configured ? "  this run" : "",
                i + 1 == report->window_count ? "  all rows" : "");
    }
    fprintf(out, "%14s %12s %7.1f%% %8.1f%% %7.1f%%\n", "uniform", "",
            100 * report->uniform.largest_share, 100.0, 100.0);
}

void plan_quality_print_json(const struct quality_report *report, FILE *out)
{
    fprintf(out,
            "{\"epoch\":%" PRIu64 ",\"samples\":%" PRIu64
            ",\"uniform\":{\"largest_share\":%.6f,\"distance\":%.6f,\"entropy_bits\":%.4f},"
            "\"windows\":[",
            report->epoch, report->samples, report->uniform.largest_share, report->uniform.distance,
            report->uniform.entropy);
    for (size_t i = 0; i < report->window_count; i++) {
        const struct quality_window *window = &report->windows[i];
        fprintf(out,
                "%s{\"window_rows\":%" PRIu64 ",\"configured\":%s,\"memory_bytes\":%" PRIu64
                ",\"largest_share\":%.6f,\"distance\":%.6f,\"entropy_bits\":%.4f}",
                i ? "," : "", window->window_rows, window->configured ? "true" : "false",
                window->least_bytes, window->quality.largest_share, window->quality.distance,
                window->quality.entropy);
    }
    fprintf(out, "]}\n");
}
