/* See setup.h. Each step settles one part from the parts before: plan, rounds, ring, memory,
 * resume. */
#include "run/setup.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "plan/locality.h"
#include "run/fragment_sources.h"
#include "run/hand_out.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)DATASET_MAX_FIELDS <= (int)RING_MAX_FIELDS, "every field fits a ring");
_Static_assert((int)DATASET_MAX_RANK <= (int)RING_MAX_RANK, "every shape fits a ring");
_Static_assert((int)DATASET_MAX_SOURCES == (int)MIX_MAX_SOURCES, "every mix has a plan");
_Static_assert((int)DATASET_NAME_BYTES <= (int)RING_NAME_BYTES, "every name fits a ring");

/* What of the plan is a dataset's own. */
static struct plan_options own_options(const struct config *config, const struct dataset *dataset)
{
    return (struct plan_options){.sample_count = dataset->sample_count,
                                 .row_length = dataset->row_length,
                                 .store_frames = dataset->store_frames,
                                 .store_rows = dataset->store_rows,
                                 .store_count = dataset->store_count,
                                 .anchors = dataset->anchors,
                                 .window_rows = config->window_rows,
                                 .row_bytes = dataset->order_row_bytes,
                                 .shuffle = config->shuffle};
}

static uint32_t first_locality(const struct config *config)
{
    return config->placement == PLAN_LOCAL
               ? locality_number((struct locality){.nodes = 1, .readers = 1})
               : 0;
}

static enum status settle_mix(const struct config *config, const struct dataset *dataset,
                              struct plan *ret_plan, struct error *err)
{
    struct plan_options sources[MIX_MAX_SOURCES];
    uint64_t weights[MIX_MAX_SOURCES];
    for (uint32_t d = 0; d < dataset->source_count; d++) {
        sources[d] = own_options(config->sources[d].config, dataset_source(dataset, d));
        weights[d] = config->sources[d].weight;
    }
    const struct plan_mix_options options = {
        .source_count = dataset->source_count,
        .sources = sources,
        .weights = weights,
        .sample_count = config->mix_samples,
        .epochs = config->epochs,
        .seed = config->seed,
        .global_batch = config->global_batch,
        .last = config->last,
        .trainer_count = (uint32_t)config->trainers,
        .locality = first_locality(config),
    };
    return plan_mix_new(&options, ret_plan, err);
}

enum status run_plan_settle(const struct config *config, const struct dataset *dataset,
                            struct plan *ret_plan, struct error *err)
{
    if (dataset->source_count > 0)
        return settle_mix(config, dataset, ret_plan, err);
    struct plan_options options = own_options(config, dataset);
    options.seed = config->seed;
    options.global_batch = config->global_batch;
    options.last = config->last;
    options.trainer_count = (uint32_t)config->trainers;
    options.locality = first_locality(config);
    return plan_init(ret_plan, &options, err);
}

static enum status settle_layout(const struct config *config, const struct dataset *dataset,
                                 uint32_t batch, struct round_shape shape,
                                 struct ring_layout *ret_layout, struct error *err)
{
    struct ring_layout layout = {
        .field_count = (uint32_t)dataset->field_count,
        .slot_count = (uint32_t)config->slots + shape.steps_per_round - 1,
        .spare_slots = shape.steps_per_round - 1,
        .batch_size = batch,
    };
    assert(dataset->field_count <= RING_MAX_FIELDS);
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *from = &dataset->fields[f];
        struct ring_field *to = &layout.fields[f];
        snprintf(to->name, sizeof to->name, "%s", from->name);
        to->dtype = from->dtype;
        to->rank = (uint32_t)from->rank;
        to->sample_bytes = from->sample_bytes;
        memcpy(to->shape, from->shape, (size_t)from->rank * sizeof from->shape[0]);
    }
    enum status status = ring_layout_settle(&layout, err);
    if (!status)
        *ret_layout = layout;
    return status;
}

uint64_t run_memory_limit(const struct config *config, const struct run_shape *shape)
{
    if (config->memory_limit_bytes > 0)
        return config->memory_limit_bytes;
    return shape->node_available_bytes / 2 / shape->readers_on_node;
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
    return dataset->store_count * count * CONNECTION_BYTES;
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

/* A trainer that comes again gives back what it does not hold, before it gets another ring. */
static uint64_t ring_rest_bytes(const struct config *config, const struct ring_layout *layout)
{
    bool again = config->reconnect_timeout_s > 0 || config->restarts > 0;
    return again ? (layout->slot_count - layout->spare_slots) * layout->slot_stride : 0;
}

/* Whether rows are of use once they have been used: in a later epoch, or in a mix in a source's
 * next pass. */
static bool comes_again(const struct config *config, const struct plan *plan)
{
    if (config->epochs > 1 || !plan->mix)
        return config->epochs > 1;
    for (uint32_t d = 0; d < plan_source_count(plan); d++)
        if (plan_most_draws(plan, d, plan->position_count) > plan_source(plan, d)->sample_count)
            return true;
    return false;
}

/* Samples of a mix are always sent. */
static enum status settle_way(const struct config *config, const struct plan *plan,
                              struct run_setup *setup, struct error *err)
{
    setup->way = plan->mix ? WAYS_SEND : config->way;
    if (plan->mix && config->way != WAYS_AUTO && config->way != WAYS_SEND)
        return error_set(err, STATUS_INVALID,
                         "exchange.way: in a mix rows are always sent: set it to auto or send");
    return STATUS_OK;
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
        .trainers_served = shape->trainers_served,
        .worker_count = shape->worker_count,
        .row_bytes = dataset->row_bytes,
        .packed_bytes = fragments->packed_bytes,
        .messages = fragments->messages,
        .shifts = fragments->shifts,
        .crops = fragments->crops,
        .held_bytes = dataset->held_bytes,
        .anchor_bytes = dataset->anchor_bytes,
        .constant_bytes = hand_out_bytes(dataset),
        .scratch_bytes = dataset->scratch_bytes,
        .index_bytes = dataset->index_bytes,
        .ring_bytes = setup->layout.total_bytes,
        .rest_bytes = ring_rest_bytes(config, &setup->layout),
        .keep = config->cache == CACHE_OFF ? BUDGET_KEEP_NOTHING : BUDGET_KEEP_DECODED,
        .last_epoch = !comes_again(config, &setup->plan),
        .without_each = setup->way == WAYS_SEND,
        .limit_bytes = run_memory_limit(config, shape),
    };
}

/* Memory of a node's readers besides their budgets: the program, MPI, the trace's tracks. */
enum { PROGRAM_BYTES = 64 << 20 };

/* "3.91 GiB on node n2, which has least" */
struct available {
    char text[160];
};

static struct available available_text(const struct run_shape *shape)
{
    struct available available;
    bool named = shape->least_node != NULL;
    snprintf(available.text, sizeof available.text, "%s on %s%s%s",
             size_format(shape->node_available_bytes).text, named ? "node " : "this machine",
             named ? shape->least_node : "", named ? ", which has least" : "");
    return available;
}

/* The memory of all readers of a node. */
static uint64_t node_bytes(const struct run_shape *shape, const struct budget *b)
{
    return shape->readers_on_node * (b->total_bytes - b->held_bytes + PROGRAM_BYTES) +
           b->held_bytes;
}

/* A limit that was asked for says nothing of what there is. A machine or a control group that is
 * short of memory answers by killing, later. */
static enum status check_available(const struct config *config, const struct run_shape *shape,
                                   const struct run_setup *setup, struct error *err)
{
    const struct budget *b = &setup->budget;
    uint64_t need = node_bytes(shape, b);
    if (config->memory_limit_bytes == 0 || need <= shape->node_available_bytes)
        return STATUS_OK;
    return error_set(
        err, STATUS_NO_MEMORY,
        "the readers of a node take %s, and memory and control groups leave %s: %u x (row "
        "buffers %s, stored rows %s, %u ring%s %s, exchange %s, scratch of %u thread%s %s, plan "
        "%s, "
        "constants %s, program %s) and held arrays %s; lower readers.memory_limit, which is %s for "
        "each, or let "
        "the job have more memory",
        size_format(need).text, available_text(shape).text, shape->readers_on_node,
        size_format(b->rows_bytes).text, size_format(b->stored_bytes).text, shape->trainers_served,
        count_plural(shape->trainers_served), size_format(b->rings_bytes).text,
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
                size_format(node_bytes(shape, &setup->budget)).text,
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
    return setup->budget.keep_rows * setup->demand.reader_count >= setup->plan.row_count;
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
    if (status || keeps_all(setup) ||
        settle_fetching(config, dataset, shape, low, &less, NULL) != STATUS_OK || !keeps_all(&less))
        return status;
    while (high - low > 1) { /* all rows stay with `low`, and not with `high` */
        uint64_t middle = low + (high - low) / 2;
        status = settle_fetching(config, dataset, shape, middle, &less, err);
        if (status)
            return status;
        *(keeps_all(&less) ? &low : &high) = middle;
    }
    return settle_fetching(config, dataset, shape, low, setup, err);
}

/* A buffer for a row as stored has room for twice the average; larger rows are read by those who
 * want them. */
static uint64_t tape_bytes(uint64_t stored_row_cost)
{
    enum { MOST_TAPE_BYTES = 256 << 20 };
    uint64_t bytes = size_round_up(2 * stored_row_cost, MEMORY_PAGE_BYTES);
    return bytes <= MOST_TAPE_BYTES ? bytes : 0;
}

/* Rows are kept decoded where all of them can be; where not, as stored, if that is what is asked
 * for or is clearly more rows. */
static enum status settle_memory(const struct config *config, const struct dataset *dataset,
                                 const struct run_shape *shape, struct run_setup *setup,
                                 struct error *err)
{
    enum status status = settle_budget(config, dataset, shape, setup, err);
    if (status || setup->demand.last_epoch || shape->stored_row_cost == 0 ||
        !(config->cache == CACHE_STORED || (config->cache == CACHE_AUTO && !keeps_all(setup))))
        return status;
    struct run_setup stored = *setup;
    stored.demand.keep = BUDGET_KEEP_STORED;
    stored.demand.stored_row_bytes = shape->stored_row_cost;
    if (setup->way == WAYS_AUTO || setup->way == WAYS_TAPES) {
        stored.demand.tape_bytes = tape_bytes(shape->stored_row_cost);
        stored.demand.tape_limit_bytes = config->exchange_buffer_bytes;
    }
    status = settle_budget(config, dataset, shape, &stored, err);
    if (status)
        return status;
    uint64_t clearly_more = setup->budget.keep_rows + setup->budget.keep_rows / 4;
    if (config->cache == CACHE_STORED || stored.budget.keep_rows > clearly_more)
        *setup = stored;
    return STATUS_OK;
}

/* The numbers that decide the order of the plan, for a dataset with that fingerprint. */
static struct order order_of(const struct plan *plan, uint64_t fingerprint)
{
    return (struct order){.id = plan_order_id(plan, fingerprint),
                          .fingerprint = fingerprint,
                          .seed = plan->seed,
                          .global_batch = (uint32_t)plan->global_batch,
                          .row_length = (uint32_t)plan->row_length,
                          .window_rows = (uint32_t)plan->window_rows,
                          .shuffle = plan->shuffle,
                          .last = (uint32_t)plan->last,
                          .locality = plan->locality};
}

uint32_t run_locality(const struct run_shape *shape, uint32_t trainer_count)
{
    uint64_t nodes = size_divide_up(shape->reader_count, shape->readers_on_node);
    return locality_number((struct locality){.nodes = (uint32_t)min_u64(nodes, trainer_count),
                                             .readers = shape->readers_on_node});
}

static enum status settle_service(const struct config *config, const struct dataset *dataset,
                                  const struct plan *plan, const struct run_state *resume,
                                  struct ring_service *ret_service, struct error *err)
{
    struct ring_service service = {
        .world_size = plan->trainer_count,
        .dataset_samples = plan->sample_count,
        .steps_per_epoch = plan->steps_per_epoch,
        .epochs = config->epochs,
        .order = order_of(plan, dataset->fingerprint),
    };
    if (resume) {
        enum status status = run_state_check(resume, &service, err);
        if (status)
            return status;
        bool epoch_over = resume->step == plan->steps_per_epoch;
        service.start_epoch = resume->epoch + epoch_over;
        service.start_step = epoch_over ? 0 : resume->step;
    }
    *ret_service = service;
    return STATUS_OK;
}

/* Rows that each reader loads for itself are not necessary: no memory that the node lacks is spent
 * on them. */
static enum status settle_within_node(const struct config *config, const struct dataset *dataset,
                                      const struct run_shape *shape,
                                      const struct fragment_sources *fragments,
                                      struct run_setup *setup, struct error *err)
{
    setup->demand = make_demand(config, dataset, shape, fragments, setup);
    enum status status = settle_memory(config, dataset, shape, setup, err);
    if (!status && check_available(config, shape, setup, err) != STATUS_OK) {
        setup->demand = make_demand(config, dataset, shape, fragments, setup);
        setup->demand.without_each = true;
        status = settle_memory(config, dataset, shape, setup, err);
        if (!status)
            status = check_available(config, shape, setup, err);
    }
    setup->demand.plan = NULL; /* the setup moves */
    return status;
}

static enum status settle_with(const struct config *config, const struct dataset *dataset,
                               const struct run_shape *shape, const struct run_state *resume,
                               const struct fragment_sources *fragments, struct run_setup *setup,
                               struct error *err)
{
    enum status status = settle_way(config, &setup->plan, setup, err);
    if (!status && setup->plan.locality)
        plan_set_locality(&setup->plan, run_locality(shape, setup->plan.trainer_count));
    if (!status)
        status = round_shape_choose(&setup->plan, shape->reader_count, (uint32_t)config->slots,
                                    fragments->record_bytes, fragments->packed_bytes,
                                    (uint32_t)config->steps_per_round,
                                    config->exchange_buffer_bytes, &setup->shape, err);
    if (!status)
        status =
            settle_layout(config, dataset, setup->plan.batch, setup->shape, &setup->layout, err);
    if (!status)
        status = settle_service(config, dataset, &setup->plan, resume, &setup->service, err);
    setup->record_bytes = fragments->record_bytes;
    setup->stored_row_bytes = shape->stored_row_bytes;
    return status ? status : settle_within_node(config, dataset, shape, fragments, setup, err);
}

enum status run_setup_settle(const struct config *config, const struct dataset *dataset,
                             const struct run_shape *shape, const struct run_state *resume,
                             struct run_setup *ret_setup, struct error *err)
{
    struct fragment_sources *fragments;
    enum status status = fragment_sources_new(dataset, &fragments, err);
    if (status)
        return status;
    struct run_setup setup = {0};
    status = run_plan_settle(config, dataset, &setup.plan, err);
    if (!status)
        status = settle_with(config, dataset, shape, resume, fragments, &setup, err);
    fragment_sources_free(fragments);
    if (status)
        plan_mix_free(setup.plan.mix);
    else
        *ret_setup = setup;
    return status;
}

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

void run_setup_describe_cache(const struct run_setup *setup, struct text *out)
{
    uint64_t kept = setup->budget.keep_rows * setup->demand.reader_count;
    uint64_t rows = setup->plan.row_count, replicas = setup->budget.replica_rows;
    if (kept == 0)
        text_append(out, "no rows stay for later epochs");
    else
        text_append(out, "%s of %s row%s stay for later epochs, %s",
                    kept < rows ? count_format(kept).text : "all", count_format(rows).text,
                    count_plural(rows),
                    setup->demand.keep == BUDGET_KEEP_STORED ? "as stored" : "decoded");
    if (replicas > 0)
        text_append(out, ", and every reader keeps what it loads of %s%s",
                    replicas < setup->plan.all_rows ? count_format(replicas).text : "all",
                    replicas < setup->plan.all_rows ? " of them" : "");
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
    } purposes[] = {{"row_buffers", b->rows_bytes},      {"stored_rows", b->stored_bytes},
                    {"held_arrays", b->held_bytes},      {"rings", b->rings_bytes},
                    {"exchange", b->exchange_bytes},     {"decoding", b->scratch_bytes},
                    {"fetches", b->fetch_bytes},         {"plan", b->plan_bytes},
                    {"constants", b->constant_bytes},    {"total", b->total_bytes},
                    {"limit", setup->demand.limit_bytes}};
    for (size_t i = 0; i < sizeof purposes / sizeof purposes[0]; i++)
        text_append(out, "%s\"%s\":%llu", i ? "," : "{", purposes[i].name,
                    (unsigned long long)purposes[i].bytes);
    text_append(out, "}");
}

void run_setup_assigner(const struct run_setup *setup, const uint32_t *reader_of_trainer,
                        struct assigner_options *ret_options)
{
    *ret_options = (struct assigner_options){
        .plan = &setup->plan,
        .reader_count = setup->demand.reader_count,
        .keep_rows = setup->budget.keep_rows,
        .most_rows = setup->budget.most_rows,
        .source_most_rows = setup->budget.source_most_rows,
        .each_rows = setup->budget.each_rows,
        .replica_rows = setup->budget.replica_rows,
        .tape_bytes = setup->budget.tape_buffers > 0 ? max_u64(setup->stored_row_bytes, 1) : 0,
        .way = setup->way,
        .record_bytes = setup->record_bytes,
        .kept_are_read = setup->demand.keep == BUDGET_KEEP_STORED,
        .reader_of_trainer = reader_of_trainer,
    };
}
