/* See setup.h and setup_internal.h: a reader's memory, settled from the plan, the rounds and the
 * rings, within the limit and within what the node has. */
#include "run/setup_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "run/hand_out.h"

#include <stdio.h>

uint64_t run_memory_limit(const struct config *config, const struct run_shape *shape)
{
    if (config->memory_limit_bytes > 0)
        return config->memory_limit_bytes;
    uint32_t divisor = shape->auto_divisor ? shape->auto_divisor : 2;
    return shape->node_available_bytes / divisor / shape->readers_on_node;
}

static uint64_t memory_on_its_way(const struct config *config, const struct run_shape *shape)
{
    uint64_t most = run_memory_limit(config, shape) / 4;
    return min_u64(config->store_fetch_bytes, most);
}

/* For values that are requested a second time. */
static uint64_t second_memory(const struct config *config, const struct run_shape *shape)
{
    return config->store_hedge ? memory_on_its_way(config, shape) / 8 : 0;
}

uint64_t run_fetch_memory(const struct config *config, const struct run_shape *shape)
{
    return memory_on_its_way(config, shape) - second_memory(config, shape);
}

/* Buffers of the connections that a reader may have open. */
static uint64_t connection_memory(const struct config *config, const struct dataset *dataset)
{
    enum { MOST_CONNECTIONS = 256, CONNECTION_BYTES = 64 << 10 };
    uint64_t count = config->store_requests ? config->store_requests : MOST_CONNECTIONS;
    return dataset->opened_count * count * CONNECTION_BYTES;
}

/* The fewest rows that the fetch stage may have on their way: each worker reads one, and as many
 * requests are under way as a store is sent at first. */
static uint64_t least_fetch_rows(const struct config *config, const struct run_shape *shape)
{
    enum { FIRST_REQUESTS = 32 };
    uint64_t requests = config->store_requests ? config->store_requests : FIRST_REQUESTS;
    uint64_t rows = size_divide_up(requests, max_u64(shape->fetch_row_requests, 1));
    return min_u64(shape->worker_count + rows, shape->fetch_rows);
}

/* A trainer that comes again gives back what it does not hold, before it gets another ring. Of a
 * ring that a group shares nobody can give anything back while another one is there. */
static uint64_t ring_rest_bytes(const struct config *config, const struct ring_layout *layout)
{
    bool again = config->reconnect_timeout_s > 0 || config->restarts > 0;
    if (again && layout->member_count > 1)
        return layout->total_bytes;
    return again ? (layout->slot_count - layout->spare_slots) * layout->slot_stride : 0;
}

/* Whether rows are of use once they have been used: in a later epoch, or in a mix in a source's
 * next pass. */
static bool comes_again(const struct config *config, const struct plan *plan)
{
    if (config_epochs(config) > 1 || !plan->mix)
        return config_epochs(config) > 1;
    for (uint32_t d = 0; d < plan_source_count(plan); d++)
        if (plan_comes_again(plan, d))
            return true;
    return false;
}

struct plan_ragged setup_ragged(const struct dataset *dataset, const struct plan *plan)
{
    if (dataset->ragged_count == 0)
        return (struct plan_ragged){0};
    uint64_t sample_steps = 0, last_starts = 0;
    double all = 0, steps = 0; /* bytes of all items, once, and as often as the steps have them */
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged *ragged = &dataset->ragged[r];
        double bytes = (double)ragged->item_count * (double)ragged->trailer_item_bytes;
        all += bytes;
        steps += bytes * (double)max_u64(ragged->step_count, 1);
        sample_steps += max_u64(ragged->step_count, 1) * (ragged->multiple > 0 ? 2 : 1);
        last_starts += ragged->form == RAGGED_BOUND ? 2 : 1;
    }
    return (struct plan_ragged){.dataset = dataset,
                                .page_bytes = dataset->page_bytes,
                                .mean_trailer_bytes =
                                    (uint64_t)(steps / (double)dataset->frame_count),
                                .sample_steps = sample_steps,
                                .last_starts = last_starts,
                                .mean_row_bytes = (uint64_t)(all / (double)dataset->row_count),
                                .step_trailer_bytes = setup_step_trailer(dataset, plan),
                                .most_pages = dataset_most_pages,
                                .most_trailer = dataset_most_trailer,
                                .most_mixed_trailer = mix_most_trailer};
}

/* Fields of a row begin at lines of memory: with partitions, other rows may lose more to that than
 * those of the partition that keeps most. */
static size_t partition_padding(const struct dataset *dataset, const struct run_setup *setup)
{
    return setup->partition_count > 1 ? dataset->field_count * MEMORY_LINE_BYTES : 0;
}

static struct budget_demand make_demand(const struct config *config, const struct dataset *dataset,
                                        const struct run_shape *shape,
                                        const struct fragment_sources *fragments,
                                        const struct run_setup *setup)
{
    return (struct budget_demand){
        .plan = &setup->plan,
        .shape = setup->shape,
        .reader_count = shape->reader_count,
        .ring_count = shape->ring_count,
        .trainers_most = setup->most_groups,
        .copies = shape->copies,
        .times_mean = setup_times_mean(),
        .partition_count = setup->partition_count,
        .worker_count = shape->worker_count,
        .row_bytes = dataset->row_bytes + partition_padding(dataset, setup),
        .packed_bytes = fragments->packed_bytes,
        .ragged = setup_ragged(dataset, &setup->plan),
        .messages = fragments->messages,
        .shifts = fragments->shifts,
        .crops = fragments->crops,
        .has_kinds = fragments->count > 1,
        .held_bytes = dataset->held_bytes,
        .hold_room_bytes = dataset_hold_room(dataset),
        .anchor_bytes = dataset->anchor_bytes,
        .constant_bytes = hand_out_bytes(dataset),
        .scratch_bytes = dataset->scratch_bytes,
        .inflate_bytes = dataset->inflate_bytes,
        .inflated_bytes = dataset->inflated_bytes,
        .index_bytes = dataset->index_bytes,
        .catalogue_bytes = dataset->catalogue_bytes,
        .ring_bytes = setup->layout.total_bytes,
        .rest_bytes = ring_rest_bytes(config, &setup->layout),
        .keep = config->cache == CACHE_OFF ? BUDGET_KEEP_NOTHING : BUDGET_KEEP_DECODED,
        .last_epoch = !comes_again(config, &setup->plan),
        .limit_bytes = run_memory_limit(config, shape),
    };
}

/* Memory of a node's readers besides their budgets: the program, MPI, the trace's tracks. */
enum { PROGRAM_BYTES = 64 << 20 };

/* "3.91 GiB on node n2, which has least" */
struct available {
    char text[256];
};

static struct available available_text(const struct run_shape *shape)
{
    struct available available;
    bool named = shape->least_node != NULL;
    int length =
        snprintf(available.text, sizeof available.text, "%s on %s%s%s",
                 size_format(shape->node_available_bytes).text, named ? "node " : "this machine",
                 named ? shape->least_node : "", named ? ", which has least" : "");
    if (shape->also_bytes > 0)
        snprintf(available.text + length, sizeof available.text - (size_t)length,
                 " (beside the %s that the other runs of --also take there)",
                 size_format(shape->also_bytes).text);
    return available;
}

uint64_t run_setup_node_bytes(const struct run_shape *shape, const struct run_setup *setup)
{
    const struct budget *b = &setup->budget;
    return shape->readers_on_node * (b->total_bytes - b->held_bytes + PROGRAM_BYTES) +
           b->held_bytes;
}

/* A limit that was asked for says nothing of what there is. A machine or a control group that is
 * short of memory answers by killing, later. */
static enum status check_available(const struct config *config, const struct run_shape *shape,
                                   const struct run_setup *setup, struct error *err)
{
    const struct budget *b = &setup->budget;
    uint64_t need = run_setup_node_bytes(shape, setup);
    if (config->memory_limit_bytes == 0 || need <= shape->node_available_bytes)
        return STATUS_OK;
    return error_set(
        err, STATUS_NO_MEMORY,
        "the readers of a node take %s, and memory and control groups leave %s: %u x (row "
        "buffers%s %s, stored rows %s, %u ring%s %s, exchange %s, scratch of %u thread%s %s, plan "
        "%s, "
        "constants %s, program %s) and held arrays %s; lower readers.memory_limit, which is %s for "
        "each, or let "
        "the job have more memory",
        size_format(need).text, available_text(shape).text, shape->readers_on_node,
        b->pages_bytes > 0 ? " and pages" : "", size_format(b->rows_bytes + b->pages_bytes).text,
        size_format(b->stored_bytes).text, setup->demand.ring_count,
        count_plural(setup->demand.ring_count), size_format(b->rings_bytes).text,
        size_format(b->exchange_bytes).text, shape->worker_count, count_plural(shape->worker_count),
        size_format(b->scratch_bytes).text, size_format(b->plan_bytes).text,
        size_format(b->constant_bytes).text, size_format(PROGRAM_BYTES).text,
        size_format(b->held_bytes).text, size_format(config->memory_limit_bytes).text);
}

void run_setup_warn_limit(const struct config *config, const struct run_shape *shape,
                          const struct run_setup *setup, struct text *out)
{
    uint64_t each = shape->node_available_bytes / shape->readers_on_node;
    if (config->memory_limit_bytes <= each)
        return;
    text_append(out,
                "warning: readers.memory_limit is %s for %s of a node, and "
                "memory and control groups leave %s: this run takes %s there, a larger dataset "
                "will be refused; set it to %s, or to auto\n",
                size_format(config->memory_limit_bytes).text,
                count_each(shape->readers_on_node, "reader").text, available_text(shape).text,
                size_format(run_setup_node_bytes(shape, setup)).text,
                size_format(each > PROGRAM_BYTES ? each - PROGRAM_BYTES : each).text);
}

/* Settles a setup's budget with `rows` rows in the fetch stage. What is requested a second time
 * gets the same part of its memory. */
static enum status settle_fetching(const struct config *config, const struct dataset *dataset,
                                   const struct run_shape *shape, uint64_t rows,
                                   struct run_setup *setup, struct error *err)
{
    if (dataset->remote) {
        uint64_t second = second_memory(config, shape), fewer = shape->fetch_rows - rows;
        setup->fetch_bytes = shape->fetch_bytes - fewer * shape->fetch_row_bytes;
        setup->second_bytes = fewer > 0 ? second * rows / shape->fetch_rows : second;
        setup->demand.fetch_rows = rows;
        setup->demand.fetch_bytes =
            setup->fetch_bytes + setup->second_bytes + connection_memory(config, dataset);
    }
    return budget_settle(&setup->demand, &setup->budget, err);
}

static bool keeps_all(const struct run_setup *setup)
{
    return setup->budget.keep_rows * setup->demand.reader_count >= setup->plan.ever_rows;
}

/* Settles the budget of setup->demand. Where fetches take the memory for the last rows, they get as
 * much less as lets all rows stay: reading rows again in each epoch takes longer than reading all
 * of them once with fewer requests. */
static enum status settle_budget(const struct config *config, const struct dataset *dataset,
                                 const struct run_shape *shape, struct run_setup *setup,
                                 struct error *err)
{
    uint64_t low = least_fetch_rows(config, shape), high = shape->fetch_rows;
    enum status status = settle_fetching(config, dataset, shape, high, setup, err);
    struct run_setup less = *setup;
    if (status != STATUS_OK || keeps_all(setup) ||
        settle_fetching(config, dataset, shape, low, &less, NULL) != STATUS_OK || !keeps_all(&less))
        return status;
    while (high - low > 1) { /* all rows stay with `low`, and not with `high` */
        uint64_t middle = low + (high - low) / 2;
        status = settle_fetching(config, dataset, shape, middle, &less, err);
        if (status != STATUS_OK)
            return status;
        *(keeps_all(&less) ? &low : &high) = middle;
    }
    return settle_fetching(config, dataset, shape, low, setup, err);
}

/* Rows are kept decoded where all of them can be; where not, as stored, if that is what is asked
 * for or is clearly more rows. */
static enum status settle_memory(const struct config *config, const struct dataset *dataset,
                                 const struct run_shape *shape, struct run_setup *setup,
                                 struct error *err)
{
    enum status status = settle_budget(config, dataset, shape, setup, err);
    if (status != STATUS_OK || setup->demand.last_epoch || shape->stored_row_cost == 0 ||
        !(config->cache == CACHE_STORED || (config->cache == CACHE_AUTO && !keeps_all(setup))))
        return status;
    struct run_setup stored = *setup;
    stored.demand.keep = BUDGET_KEEP_STORED;
    stored.demand.stored_row_bytes = shape->stored_row_cost;
    status = settle_budget(config, dataset, shape, &stored, err);
    if (status != STATUS_OK)
        return status;
    uint64_t clearly_more = setup->budget.keep_rows + setup->budget.keep_rows / 4;
    if (config->cache == CACHE_STORED || stored.budget.keep_rows > clearly_more)
        *setup = stored;
    return STATUS_OK;
}

enum status setup_settle_memory(const struct config *config, const struct dataset *dataset,
                                const struct run_shape *shape,
                                const struct fragment_sources *fragments, struct run_setup *setup,
                                struct error *err)
{
    setup->demand = make_demand(config, dataset, shape, fragments, setup);
    enum status status = settle_memory(config, dataset, shape, setup, err);
    if (status == STATUS_OK)
        status = check_available(config, shape, setup, err);
    setup->demand.plan = NULL; /* the setup moves */
    return status;
}
