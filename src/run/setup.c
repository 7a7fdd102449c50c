/* See setup.h. Each step settles one part from the parts before: plan, rounds, ring, service,
 * memory. */
#include "run/setup_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/rounds/locality.h"
#include "run/phases.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)DATASET_MAX_SOURCES == (int)MIX_MAX_SOURCES, "every mix has a plan");
_Static_assert((int)CONFIG_ENDLESS_EPOCHS == (int)RING_ENDLESS_EPOCHS, "trainers know");

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
    struct config_weights weights[CONFIG_MAX_WEIGHTS];
    struct plan_mix_entry entries[CONFIG_MAX_WEIGHTS];
    uint32_t count;
    enum status status = config_mix_weights(config, weights, &count, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        entries[i] = (struct plan_mix_entry){weights[i].step, weights[i].ramp, weights[i].of};
    for (uint32_t d = 0; d < dataset->source_count; d++) {
        sources[d] = own_options(config->sources[d].config, dataset_source(dataset, d));
        status = setup_cuts(config, dataset_source(dataset, d), &sources[d].cuts, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "mix.sources: '%s': ", config->sources[d].name);
    }
    const struct plan_mix_options options = {
        .source_count = dataset->source_count,
        .sources = sources,
        .weights = entries[0].weights,
        .entries = entries + 1,
        .entry_count = count - 1,
        .sample_count = config->mix_samples,
        .epochs = config_epochs(config),
        .seed = config->seed,
        .global_batch = config->global_batch,
        .last = *config->budget_field ? PLAN_PARTIAL : config->last,
        .trainer_count = config_group_count(config),
        .locality = first_locality(config),
    };
    return plan_mix_new(&options, ret_plan, err);
}

/* mix.repeat false: one pass is enough of each source. */
static enum status check_repeat(const struct config *config, const struct dataset *dataset,
                                const struct plan *plan, struct error *err)
{
    uint64_t given[MIX_MAX_SOURCES];
    plan_mix_given(plan, plan->mix->end_step, given);
    for (uint32_t d = 0; d < dataset->source_count && !config->mix_repeat; d++) {
        uint64_t samples = plan_source(plan, d)->sample_count;
        if (given[d] > samples)
            return error_set(
                err, STATUS_INVALID,
                "mix.repeat is false, and the %s samples of source '%s' end at step "
                "%s of %s%s: end the run before (order.epochs, mix.samples), give the "
                "source less weight, or set mix.repeat: true",
                count_format(samples).text, config->sources[d].name,
                count_format(plan_draw_step(plan, (struct plan_draw){d, samples})).text,
                config->epochs > 0 ? count_format(plan->mix->end_step).text : "",
                config->epochs > 0 ? "" : "a run without end (order.epochs 0)");
    }
    return STATUS_OK;
}

/* deliver: {pad: bound} takes bounds of the field's own lengths. */
static enum status check_padded(const struct dataset *dataset, const struct plan *plan,
                                struct error *err)
{
    const struct dataset *first = dataset_source(dataset, 0);
    for (size_t r = 0; r < first->ragged_count; r++)
        if (first->ragged[r].form == RAGGED_BOUND && !setup_is_budget(dataset, plan, r))
            return error_set(
                err, STATUS_INVALID,
                "field '%s' has deliver: {pad: bound}: that is for batch.budget_field, "
                "and for fields whose samples are as long; give a number",
                first->ragged[r].name);
    return STATUS_OK;
}

enum status run_plan_settle(const struct config *config, const struct dataset *dataset,
                            struct plan *ret_plan, struct error *err)
{
    if (dataset->source_count > 0) {
        enum status status = settle_mix(config, dataset, ret_plan, err);
        if (status != STATUS_OK) {
            ret_plan->mix = NULL;
            return status;
        }
        status = check_repeat(config, dataset, ret_plan, err);
        if (status == STATUS_OK)
            status = check_padded(dataset, ret_plan, err);
        if (status != STATUS_OK) {
            plan_mix_free(ret_plan->mix);
            ret_plan->mix = NULL;
        }
        return status;
    }
    struct plan_options options = own_options(config, dataset);
    options.seed = config->seed;
    options.global_batch = config->global_batch;
    options.last = config->last;
    options.trainer_count = config_group_count(config);
    options.locality = first_locality(config);
    if (*config->budget_field)
        options.last = PLAN_PARTIAL;
    enum status status = setup_cuts(config, dataset, &options.cuts, err);
    if (status == STATUS_OK)
        status = plan_init(ret_plan, &options, err);
    return status != STATUS_OK ? status : check_padded(dataset, ret_plan, err);
}

bool run_setup_resize(struct run_setup *setup, uint32_t least_trainers, uint32_t trainers)
{
    struct mesh mesh;
    uint32_t members = setup->shares.mesh.rank_count / mesh_group_count(&setup->shares.mesh);
    if (trainers < least_trainers || trainers > setup->most_groups * members ||
        !mesh_resize(&setup->shares.mesh, trainers, &mesh))
        return false;
    setup->shares.mesh = setup->service.mesh = mesh;
    setup->service.world_size = trainers;
    plan_set_trainers(&setup->plan, mesh_group_count(&mesh));
    return true;
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

uint32_t run_trainers_served(const struct config *config, uint64_t reader_count)
{
    uint64_t even = size_divide_up(config->trainers, reader_count);
    return (uint32_t)min_u64(max_u64(even, config->trainers_per_reader), config->trainers);
}

uint32_t run_locality(const struct run_shape *shape, uint32_t trainer_count)
{
    uint64_t nodes = size_divide_up(shape->reader_count, shape->readers_on_node);
    return locality_number((struct locality){.nodes = (uint32_t)min_u64(nodes, trainer_count),
                                             .readers = shape->readers_on_node});
}

/* Of a dataset in Icechunk repositories another snapshot may be all that differs. */
static enum status name_snapshots(const struct dataset *dataset, enum status status,
                                  struct error *err)
{
    struct text snapshots = {0};
    dataset_describe_snapshots(dataset, &snapshots);
    if (err && snapshots.length > 0) {
        snapshots.data[snapshots.length - 1] = '\0';
        status = error_set(err, status,
                           "%.600s (%.400s; if the run began at another one, name that: "
                           "dataset.uri: ...@snapshot:ID)",
                           err->message, snapshots.data);
    }
    text_done(&snapshots);
    return status;
}

static enum status settle_service(const struct config *config, const struct dataset *dataset,
                                  const struct run_setup *setup, const struct run_state *resume,
                                  struct ring_service *ret_service, struct error *err)
{
    const struct plan *plan = &setup->plan;
    struct ring_service service = {
        .world_size = (uint32_t)config->trainers,
        .mesh = setup->shares.mesh,
        .dataset_samples = plan->epoch_samples,
        .steps_per_epoch = plan->steps_per_epoch,
        .epochs = config_epochs(config),
        .order = order_of(plan, dataset->fingerprint),
    };
    if (resume) {
        enum status status = run_state_check(resume, &service, err);
        if (status != STATUS_OK)
            return resume->order.fingerprint == dataset->fingerprint
                       ? status
                       : name_snapshots(dataset, status, err);
        bool epoch_over = resume->step == plan->steps_per_epoch;
        service.start_epoch = resume->epoch + epoch_over;
        service.start_step = epoch_over ? 0 : resume->step;
    }
    *ret_service = service;
    return STATUS_OK;
}

/* Cursors, rounds and positions count through all epochs, in 63 bits. */
static enum status check_epochs(const struct config *config, const struct plan *plan,
                                struct round_shape shape, struct error *err)
{
    uint64_t epochs = config_epochs(config), most;
    uint64_t counted = max_u64(max_u64(plan->position_count, plan->sample_count),
                               max_u64(rounds_per_epoch(plan, shape), plan->steps_per_epoch));
    if (mul_sat(epochs, counted) <= INT64_MAX)
        return STATUS_OK;
    most = INT64_MAX / counted;
    return error_set(err, STATUS_INVALID,
                     "order.epochs: %" PRIu64 " epochs%s of %" PRIu64 " samples, in %" PRIu64
                     " steps, are more than can be counted: set order.epochs to %" PRIu64
                     " or less, or make samples fewer (samples.stride)",
                     epochs, config->epochs ? "" : " (0, no end, counts as so many)",
                     plan->sample_count, plan->steps_per_epoch, most);
}

/* Readers of different classes get records of different sizes. */
static uint64_t mean_record_bytes(const struct setup_delivery *delivery, uint32_t readers)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < readers; r++)
        sum += fragment_sources_most_record(delivery->fragments, delivery->classes.of[r]);
    return sum / readers;
}

double setup_times_mean(void)
{
#ifdef PENSTOCK_FAULTS
    const char *text = getenv("PENSTOCK_ROUND_CAPACITY");
    return text ? strtod(text, NULL) : 0;
#else
    return 0;
#endif
}

/* Sizes are settled for the fewest trainers, whose shares are the largest. */
static void set_groups(const struct run_shape *shape, struct run_setup *setup, uint32_t groups)
{
    plan_set_trainers(&setup->plan, groups);
    if (setup->plan.locality)
        plan_set_locality(&setup->plan, run_locality(shape, groups));
}

static enum status settle_with(const struct config *config, const struct dataset *dataset,
                               const struct run_shape *shape, const struct run_state *resume,
                               const struct setup_delivery *delivery, struct run_setup *setup,
                               struct error *err)
{
    const struct fragment_sources *fragments = delivery->fragments;
    const struct round_record record = {.bytes = fragments->record_bytes,
                                        .packed_bytes = fragments->packed_bytes,
                                        .ragged = setup_ragged(dataset, &setup->plan),
                                        .worker_count = shape->worker_count};
    const struct round_peers peers = {.readers = shape->reader_count,
                                      .rings = shape->ring_count,
                                      .copies = shape->copies,
                                      .times_mean = setup_times_mean()};
    uint32_t slots, members = setup->shares.mesh.rank_count / mesh_group_count(&setup->shares.mesh);
    setup->most_groups = setup->plan.trainer_count;
    set_groups(shape, setup, setup->most_groups);
    enum status status = settle_service(config, dataset, setup, resume, &setup->service, err);
    if (status != STATUS_OK)
        return status;
    set_groups(shape, setup, config_least_trainers(config) / members);
    status = setup_most_slots(config, dataset, shape, setup, &delivery->classes, &slots, err);
    if (status == STATUS_OK)
        status = round_shape_choose(&setup->plan, &peers, slots, &record,
                                    (uint32_t)config->steps_per_round,
                                    config->exchange_buffer_bytes, &setup->shape, err);
    if (status == STATUS_OK)
        status = check_epochs(config, &setup->plan, setup->shape, err);
    if (status == STATUS_OK)
        status = setup_settle_layout(config, dataset, setup, &delivery->classes, shape,
                                     setup->shape, &setup->layout, err);
    setup->record_bytes = mean_record_bytes(delivery, shape->reader_count * setup->partition_count);
    setup->stored_row_bytes = shape->stored_row_bytes;
    if (status == STATUS_OK)
        status = setup_settle_memory(config, delivery->narrowed ? delivery->narrowed : dataset,
                                     shape, fragments, setup, err);
    set_groups(shape, setup, setup->most_groups);
    return status;
}

/* Trainers come in blocks, as many to each reader; or as many as a reader may serve to some. */
static bool spread_mesh(const struct mesh *mesh, struct run_shape *shape)
{
    uint32_t readers = shape->reader_count, rings, copies;
    uint32_t even = (uint32_t)size_divide_up(mesh->rank_count, readers);
    if (!mesh_spread(mesh, readers, &rings, &copies))
        return false;
    shape->ring_count = max_u32(shape->ring_count, rings);
    shape->copies = max_u32(shape->copies, copies);
    if (shape->trainers_served <= even)
        return true;
    if (!mesh_spread(mesh, max_u32(mesh->rank_count / shape->trainers_served, 1), &rings, &copies))
        return false;
    shape->ring_count = max_u32(shape->ring_count, min_u32(rings, shape->trainers_served));
    return true;
}

/* All of them, or the fewest. */
static enum status spread(const struct config *config, const struct mesh *mesh,
                          struct run_shape *shape, struct error *err)
{
    struct mesh least = *mesh;
    shape->ring_count = shape->copies = 0;
    bool fits = mesh_resize(mesh, config_least_trainers(config), &least);
    assert(fits); /* the configuration has been checked */
    (void)fits;
    return spread_mesh(mesh, shape) && spread_mesh(&least, shape)
               ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "no memory for the groups of the mesh");
}

static enum status narrow_for(const struct shares *shares, const struct dataset *whole,
                              const struct needs *needs, struct store_watch *watch,
                              struct dataset **ret_dataset, struct shares *ret_shares,
                              struct error *err)
{
    struct dataset_narrowed *fields = calloc(DATASET_MAX_FIELDS, sizeof *fields);
    struct dataset_narrowing narrowing;
    if (!fields)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a partition of readers");
    partitions_narrow(shares, whole, needs, fields, &narrowing, ret_shares);
    enum status status = dataset_narrow(whole, &narrowing, watch, ret_dataset, err);
    free(fields);
    return status;
}

enum status run_setup_narrow(const struct run_setup *setup, const struct dataset *whole,
                             uint32_t reader_count, uint32_t reader, struct store_watch *watch,
                             struct dataset **ret_dataset, struct shares *ret_shares,
                             uint32_t *ret_partition, struct error *err)
{
    struct need_classes classes;
    enum status status = need_classes_init(&classes, &setup->shares, reader_count, NULL, err);
    if (status == STATUS_OK)
        *ret_partition = classes.of[reader];
    if (status == STATUS_OK)
        status = narrow_for(&setup->shares, whole, &classes.needs[*ret_partition], watch,
                            ret_dataset, ret_shares, err);
    need_classes_done(&classes);
    return status;
}

/* The rows of partitions are settled by the one that keeps most of them. */
static enum status make_partition(const struct dataset *dataset, const struct run_setup *setup,
                                  struct setup_delivery *delivery, struct error *err)
{
    const struct needs *needs = &delivery->classes.needs[setup->partitions.largest];
    struct shares *shares = calloc(1, sizeof *shares);
    if (!shares)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a partition of readers");
    enum status status =
        narrow_for(&setup->shares, dataset, needs, NULL, &delivery->narrowed, shares, err);
    free(shares);
    return status;
}

/* `shape` becomes that of one partition. */
static enum status make_delivery(const struct config *config, const struct dataset *dataset,
                                 struct run_setup *setup, struct run_shape *shape,
                                 struct setup_delivery *delivery, struct error *err)
{
    struct need_classes *classes = &delivery->classes;
    enum status status = need_classes_init(classes, &setup->shares, shape->reader_count, NULL, err);
    if (status == STATUS_OK)
        status = fragment_sources_new(dataset, &setup->shares, classes->needs, classes->count,
                                      &delivery->fragments, err);
    if (status != STATUS_OK)
        return status;
    setup->partition_count = 1;
    bool changes =
        config_least_trainers(config) < config->trainers; /* and with it who needs what */
    if (!partitions_fit(&setup->shares, dataset, classes, shape->reader_count,
                        &setup->partitions) ||
        changes)
        return STATUS_OK;
    shape->copies = partitions_copies(&setup->shares.mesh, classes, shape->reader_count);
    setup->partition_count = classes->count;
    shape->reader_count /= setup->partition_count;
    return shape->copies > 0
               ? make_partition(dataset, setup, delivery, err)
               : error_set(err, STATUS_NO_MEMORY, "no memory for a partition of readers");
}

enum status run_setup_settle(const struct config *config, const struct dataset *dataset,
                             const struct run_shape *given, const struct run_state *resume,
                             struct run_setup *ret_setup, struct error *err)
{
    struct setup_delivery delivery = {0};
    struct run_setup setup = {0};
    struct run_shape shape = *given;
    enum status status = shares_settle(config, dataset, &setup.shares, err);
    if (status == STATUS_OK)
        status = shares_transform(&setup.shares, shape.transform, err);
    if (status == STATUS_OK)
        status = phases_check(dataset, &setup.shares, err);
    if (status == STATUS_OK)
        status = spread(config, &setup.shares.mesh, &shape, err);
    if (status == STATUS_OK)
        status = make_delivery(config, dataset, &setup, &shape, &delivery, err);
    if (status == STATUS_OK)
        status = run_plan_settle(config, dataset, &setup.plan, err);
    if (status == STATUS_OK)
        status = settle_with(config, dataset, &shape, resume, &delivery, &setup, err);
    need_classes_done(&delivery.classes);
    fragment_sources_free(delivery.fragments);
    dataset_free(delivery.narrowed);
    if (status != STATUS_OK)
        plan_mix_free(setup.plan.mix);
    else
        *ret_setup = setup;
    return status;
}

void run_setup_assigner(const struct run_setup *setup, const uint32_t *reader_of_group,
                        struct assigner_options *ret_options)
{
    *ret_options = (struct assigner_options){
        .plan = &setup->plan,
        .reader_count = setup->demand.reader_count,
        .keep_rows = setup->budget.keep_rows,
        .most_rows = setup->budget.most_rows,
        .source_most_rows = setup->budget.source_most_rows,
        .kept_are_read = setup->demand.keep == BUDGET_KEEP_STORED,
        .reader_of_trainer = reader_of_group,
        .copies = setup->demand.copies,
    };
}
