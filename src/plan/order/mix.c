/* See mix.h: the plan of a mix, made of those of its sources. */
#include "plan/order/mix.h"

#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "plan/order/keys.h"
#include "plan/order/mix_pieces.h"
#include "plan/order/rows_internal.h"
#include "plan/order/tables.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MOST_POSITIONS = UINT64_C(1) << 48; /* of an epoch */

uint32_t plan_source_count(const struct plan *plan)
{
    return plan->mix ? plan->mix->source_count : 1;
}

const struct plan *plan_source(const struct plan *plan, uint32_t source)
{
    assert(source < plan_source_count(plan));
    return plan->mix ? &plan->mix->sources[source] : plan;
}

uint64_t plan_weight(const struct plan *plan, uint32_t source)
{
    const uint64_t *sums = mix_piece_sums(plan->mix->pieces, 0);
    return sums[source + 1] - sums[source];
}

double plan_mean_share(const struct plan *plan, uint32_t source)
{
    const struct plan_mix *mix = plan->mix;
    uint64_t of_step = plan->cuts.items > 0 ? 1 : plan->global_batch;
    return mix_pieces_share(mix->pieces, source, mul_sat(mix->end_step, of_step));
}

uint32_t plan_entry_count(const struct plan *plan)
{
    return plan->mix ? plan->mix->pieces->entry_count : 0;
}

uint64_t plan_schedule_bytes(const struct plan *plan)
{
    return plan_entry_count(plan) > 0 ? mix_pieces_bytes(plan->mix->pieces) : 0;
}

void plan_set_locality(struct plan *plan, uint32_t locality)
{
    plan->locality = locality;
    if (!plan->mix)
        return;
    plan->mix->outer.locality = locality;
    for (uint32_t d = 0; d < plan->mix->source_count; d++)
        plan->mix->sources[d].locality = locality;
}

static void set_trainers(struct plan *plan, uint32_t trainers)
{
    plan->trainer_count = trainers;
    plan->batch = (uint32_t)size_divide_up(plan->global_batch, trainers);
}

void plan_set_trainers(struct plan *plan, uint32_t trainers)
{
    assert(trainers >= 1 && trainers <= plan->global_batch);
    set_trainers(plan, trainers);
    if (!plan->mix)
        return;
    set_trainers(&plan->mix->outer, trainers);
    for (uint32_t d = 0; d < plan->mix->source_count; d++)
        set_trainers(&plan->mix->sources[d], trainers);
}

/* Steps and positions, as of a dataset with so many samples. */
static enum status init_outer(struct plan_mix *mix, const struct plan_mix_options *o,
                              struct error *err)
{
    uint64_t sample_count = o->sample_count;
    for (uint32_t d = 0; d < o->source_count && o->sample_count == 0; d++)
        sample_count = add_sat(sample_count, plan_rows_samples(&o->sources[d]));
    const struct plan_options options = {.sample_count = sample_count,
                                         .row_length = 1,
                                         .window_rows = 1,
                                         .seed = o->seed,
                                         .global_batch = o->global_batch,
                                         .last = o->last,
                                         .trainer_count = o->trainer_count,
                                         .locality = o->locality};
    enum status status = plan_init(&mix->outer, &options, err);
    mix->source_count = o->source_count;
    mix->outer.mix = mix;
    mix->outer.source = PLAN_ALL_SOURCES;
    mix->outer.sample_count = mix->outer.epoch_samples = mix->outer.position_count;
    mix->end_step = mul_sat(o->epochs, mix->outer.steps_per_epoch);
    mix->outer.row_count = mix->outer.ever_rows = mix->outer.all_rows = 0;
    mix->outer.window_count = 0;
    mix->outer.window_least = UINT64_MAX;
    mix->outer.window_most = 0;
    return status;
}

/* Samples of a step on average, in units of 2^-UNIT_BITS, by the weights of the last piece. */
enum { UNIT_BITS = 16 };

static unsigned __int128 mean_units(const struct plan_mix *mix)
{
    const uint64_t *sums = mix_piece_sums(mix->pieces, mix->pieces->count - 1);
    unsigned __int128 sum = 0;
    for (uint32_t d = 0; d < mix->source_count; d++) {
        const struct plan *source = &mix->sources[d];
        sum += ((unsigned __int128)source->sample_count << UNIT_BITS) / source->steps_per_epoch *
               (sums[d + 1] - sums[d]);
    }
    return sum / sums[mix->source_count];
}

/* The steps of an epoch with cuts, which has as many samples on average as without, and what
 * follows from them. */
static enum status settle_cuts(struct plan_mix *mix, const struct plan_mix_options *o,
                               struct error *err)
{
    struct plan *outer = &mix->outer;
    unsigned __int128 mean = mean_units(mix), all = outer->position_count;
    unsigned __int128 steps = ((all << UNIT_BITS) + mean - 1) / mean;
    assert(o->last == PLAN_PARTIAL);
    if (steps * outer->global_batch > MOST_POSITIONS)
        return error_set(err, STATUS_INVALID,
                         "an epoch of the mix has %llu steps of up to %llu samples, more than 2^48 "
                         "together: lower batch.global_size or mix.samples",
                         (unsigned long long)steps, (unsigned long long)outer->global_batch);
    outer->cuts.items = mix->sources[0].cuts.items;
    outer->steps_per_epoch = (uint64_t)steps;
    outer->position_count = outer->sample_count = outer->steps_per_epoch * outer->global_batch;
    outer->epoch_samples = (uint64_t)((steps * mean) >> UNIT_BITS);
    mix->end_step = mul_sat(o->epochs, outer->steps_per_epoch);
    return STATUS_OK;
}

/* The part of a step that a source gives on average in the piece in which it gives most, rounded
 * up. */
static uint64_t window_batch(const struct plan_mix *mix, uint32_t source)
{
    const struct mix_most *most = &mix->pieces->sources[source];
    unsigned __int128 batch = (unsigned __int128)mix->outer.global_batch * most->part;
    return max_u64(1, (uint64_t)((batch + most->all - 1) / most->all));
}

static enum status init_source(struct plan_mix *mix, const struct plan_mix_options *o,
                               uint32_t number, struct error *err)
{
    struct plan *source = &mix->sources[number];
    struct plan_options options = o->sources[number];
    options.seed = random_u64(o->seed, KEY_SOURCES, number);
    options.global_batch = o->global_batch;
    options.window_batch = window_batch(mix, number);
    options.last = PLAN_PARTIAL;
    options.trainer_count = o->trainer_count;
    options.locality = o->locality;
    enum status status = plan_init(source, &options, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "source %u of the mix: ", number);
    source->mix = mix;
    source->source = number;
    source->row_base = mix->outer.all_rows;
    return STATUS_OK;
}

static void add_to_outer(struct plan *outer, const struct plan *source)
{
    outer->shuffle |= source->shuffle;
    outer->row_count += source->row_count;
    outer->ever_rows += source->ever_rows;
    outer->all_rows += source->all_rows;
    outer->row_length = max_u64(outer->row_length, source->row_length);
    outer->row_samples = max_u64(outer->row_samples, source->row_samples);
    outer->window_rows = max_u64(outer->window_rows, source->window_rows);
    outer->window_count += source->window_count;
    outer->window_least = min_u64(outer->window_least, source->window_least);
    outer->window_most = max_u64(outer->window_most, source->window_most);
}

static enum status settle_pieces(struct plan_mix *mix, struct error *err)
{
    const struct plan *outer = &mix->outer;
    if (outer->cuts.items > 0)
        return mix_pieces_settle(mix->pieces, outer->steps_per_epoch, outer->steps_per_epoch, 1,
                                 err);
    return mix_pieces_settle(mix->pieces, outer->steps_per_epoch, outer->position_count,
                             outer->global_batch, err);
}

enum status plan_mix_new(const struct plan_mix_options *options, struct plan *ret_plan,
                         struct error *err)
{
    struct plan_mix *mix = calloc(1, sizeof *mix + MIX_MAX_SOURCES * sizeof mix->sources[0]);
    if (!mix)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of a mix");
    enum status status = mix_pieces_new(options, &mix->pieces, err);
    if (status == STATUS_OK)
        status = init_outer(mix, options, err);
    for (uint32_t d = 0; d < options->source_count && status == STATUS_OK; d++) {
        status = init_source(mix, options, d, err);
        if (status == STATUS_OK)
            add_to_outer(&mix->outer, &mix->sources[d]);
    }
    if (status == STATUS_OK && mix->sources[0].cuts.items > 0)
        status = settle_cuts(mix, options, err);
    if (status == STATUS_OK)
        status = settle_pieces(mix, err);
    if (status != STATUS_OK) {
        plan_mix_free(mix);
        return status;
    }
    *ret_plan = mix->outer;
    return STATUS_OK;
}

enum status plan_mix_copy(const struct plan *plan, struct plan *ret_plan, struct error *err)
{
    size_t bytes = sizeof *plan->mix + MIX_MAX_SOURCES * sizeof plan->mix->sources[0];
    struct plan_mix *mix = malloc(bytes);
    if (!mix)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the plan of a mix");
    memcpy(mix, plan->mix, bytes);
    enum status status = mix_pieces_copy(plan->mix->pieces, &mix->pieces, err);
    if (status != STATUS_OK) {
        free(mix);
        return status;
    }
    for (uint32_t d = 0; d < mix->source_count; d++) {
        mix->sources[d].mix = mix;
        mix->sources[d].tables = NULL;
    }
    mix->outer.mix = mix;
    *ret_plan = mix->outer;
    plan_set_locality(ret_plan, plan->locality);
    return STATUS_OK;
}

void plan_mix_free(struct plan_mix *mix)
{
    for (uint32_t d = 0; mix && d < mix->source_count; d++)
        plan_tables_free(mix->sources[d].tables);
    if (mix)
        free(mix->pieces);
    free(mix);
}

enum status plan_sources_tables_new(struct plan *plan, const uint64_t *planned_windows,
                                    struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t d = 0; d < plan_source_count(plan) && status == STATUS_OK; d++) {
        struct plan *source = plan->mix ? &plan->mix->sources[d] : plan;
        status = plan_tables_new(source, plan_epochs_at_once(source, planned_windows[d]),
                                 planned_windows[d], err);
    }
    return status;
}

void plan_sources_tables_free(struct plan *plan)
{
    for (uint32_t d = 0; d < plan_source_count(plan); d++) {
        struct plan *source = plan->mix ? &plan->mix->sources[d] : plan;
        plan_tables_free(source->tables);
        source->tables = NULL;
    }
}
