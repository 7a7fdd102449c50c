/* See plan.h: sizes of an epoch, steps, and the trainers' local batches. The order is in order.c.
 */
#include "plan/order/plan.h"

#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "plan/order/keys.h"
#include "plan/order/mix.h"
#include "plan/order/mix_pieces.h"
#include "plan/order/rows_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <xxhash.h>

static const uint64_t MAX_SAMPLES = UINT64_C(1) << 48;
static const uint64_t DEFAULT_WINDOW_BYTES = UINT64_C(16) << 30;
enum { DEFAULT_WINDOW_STEPS = 8, DEFAULT_WINDOW_ROWS = 64 };

uint64_t plan_default_window_rows(uint64_t row_count, uint64_t row_samples, uint64_t row_bytes,
                                  uint64_t global_batch)
{
    uint64_t rows = size_divide_up(DEFAULT_WINDOW_STEPS * global_batch, row_samples);
    if (rows < DEFAULT_WINDOW_ROWS)
        rows = DEFAULT_WINDOW_ROWS;
    if (row_bytes > 0)
        rows = min_u64(rows, DEFAULT_WINDOW_BYTES / row_bytes);
    rows = min_u64(rows, row_count);
    return rows > 0 ? rows : 1;
}

/* Each store has the rows that its frames take. */
static bool stores_are_whole(const struct plan_options *o)
{
    if (o->store_frames[0] != 0 || o->store_rows[0] != 0)
        return false;
    for (size_t i = 0; i < o->store_count; i++) {
        if (o->store_frames[i] > o->store_frames[i + 1])
            return false;
        uint64_t frames = o->store_frames[i + 1] - o->store_frames[i];
        if (o->store_rows[i + 1] - o->store_rows[i] != size_divide_up(frames, o->row_length))
            return false;
    }
    return o->store_frames[o->store_count] == plan_rows_frames(o);
}

static enum status check_stores(const struct plan_options *o, struct error *err)
{
    if (o->store_count > PLAN_MAX_STORES)
        return error_set(err, STATUS_INVALID, "samples of %zu stores: a plan takes up to %d",
                         o->store_count, PLAN_MAX_STORES);
    if (o->store_count > 0 && !stores_are_whole(o))
        return error_set(err, STATUS_INVALID,
                         "the stores of a plan must have its %llu samples, in order, in whole rows",
                         (unsigned long long)o->sample_count);
    return STATUS_OK;
}

/* What tables of 32-bit numbers hold. */
static enum status check_anchors(const struct plan_options *o, struct error *err)
{
    uint64_t rows = plan_rows_all(o);
    if (anchors_row_count(o->anchors) != rows || anchors_count(o->anchors) != o->sample_count)
        return error_set(err, STATUS_INVALID,
                         "the anchors of a plan must be its %llu samples, in its %llu rows",
                         (unsigned long long)o->sample_count, (unsigned long long)rows);
    if (rows > UINT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "%llu rows with anchors: a plan takes up to 2^32-1; raise "
                         "samples.row_chunks",
                         (unsigned long long)rows);
    return STATUS_OK;
}

static enum status check_options(const struct plan_options *o, struct error *err)
{
    if (o->sample_count < 1 || o->sample_count > MAX_SAMPLES)
        return error_set(err, STATUS_INVALID, "%llu samples: a plan takes 1 to 2^48",
                         (unsigned long long)o->sample_count);
    if (o->row_length < 1 || o->row_length > UINT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "chunk rows of %llu samples: a plan takes 1 to 2^32-1",
                         (unsigned long long)o->row_length);
    if (o->global_batch < 1 || o->global_batch > INT32_MAX)
        return error_set(err, STATUS_INVALID, "global batch %llu: must be 1 to 2^31-1",
                         (unsigned long long)o->global_batch);
    if (o->trainer_count < 1 || o->global_batch < o->trainer_count)
        return error_set(err, STATUS_INVALID,
                         "global batch %llu has no sample for each of %u trainers: choose at "
                         "least that many",
                         (unsigned long long)o->global_batch, o->trainer_count);
    uint64_t samples = plan_rows_samples(o);
    if (o->last == PLAN_DROP && o->global_batch > samples)
        return error_set(
            err, STATUS_INVALID,
            "global batch %llu exceeds the dataset's %llu sample%s, so that an epoch has no step: "
            "choose a smaller one, or batch.last pad or partial",
            (unsigned long long)o->global_batch, (unsigned long long)samples,
            count_plural(samples));
    if (o->cuts.items > 0 && o->anchors && anchors_are_weighted(o->anchors))
        return error_set(err, STATUS_UNSUPPORTED,
                         "samples.weight and batch.budget_field are both set: batches by budget "
                         "need each sample once in an epoch; take one of them");
    enum status status = check_stores(o, err);
    if (status == STATUS_OK && o->cuts.items > 0)
        status = plan_cuts_check(&o->cuts, err);
    return status != STATUS_OK || !o->anchors ? status : check_anchors(o, err);
}

static enum status check_window(const struct plan *plan, struct error *err)
{
    if (plan->weighted && mul_sat(plan->copies, plan->row_length) > UINT32_MAX)
        return error_set(
            err, STATUS_INVALID,
            "samples come up to %llu times in an epoch, and rows have %llu frames: with "
            "weights both together make less than 2^32; lower samples.row_chunks or "
            "the greatest weight",
            (unsigned long long)plan->copies, (unsigned long long)plan->row_length);
    if (plan->window_rows > UINT32_MAX)
        return error_set(err, STATUS_INVALID, "window of %llu rows: at most 2^32-1",
                         (unsigned long long)plan->window_rows);
    if ((plan->anchors || plan->cuts.items > 0) && plan->window_most > UINT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "window of %llu samples: at most 2^32-1 where rows have unequal numbers "
                         "of samples; lower order.window_rows",
                         (unsigned long long)plan->window_most);
    return STATUS_OK;
}

enum status plan_init(struct plan *ret_plan, const struct plan_options *options, struct error *err)
{
    const struct plan_options *o = options;
    enum status status = check_options(o, err);
    if (status != STATUS_OK)
        return status;
    struct plan_rows rows;
    plan_rows_count(o, &rows);
    uint64_t window_batch = o->window_batch ? o->window_batch : o->global_batch;
    if (o->cuts.items > 0)
        window_batch = plan_cuts_window_batch(&o->cuts, o->global_batch);
    uint64_t window_rows = o->window_rows
                               ? min_u64(o->window_rows, rows.with_samples)
                               : plan_default_window_rows(rows.with_samples, rows.mean_samples,
                                                          o->row_bytes, window_batch);
    uint64_t window_count = size_divide_up(rows.with_samples, window_rows);
    uint64_t samples = plan_rows_samples(o);
    uint64_t steps =
        o->last == PLAN_DROP ? samples / o->global_batch : size_divide_up(samples, o->global_batch);
    if (o->cuts.items > 0)
        steps = plan_cuts_steps(&o->cuts, o->global_batch, window_count);
    struct plan plan = {
        .sample_count = samples,
        .epoch_samples = samples,
        .row_length = o->row_length,
        .row_samples = rows.most_samples,
        .row_count = rows.with_samples,
        .ever_rows = rows.ever,
        .copies = rows.copies,
        .weighted = o->anchors && anchors_are_weighted(o->anchors),
        .all_rows = rows.all,
        .store_frames = o->store_frames,
        .store_rows = o->store_rows,
        .store_count = o->store_count,
        .anchors = o->anchors,
        .window_rows = window_rows,
        .window_count = window_count,
        .window_least = min_u64(plan_rows_least(&rows, window_rows), samples),
        .window_most = min_u64(plan_rows_most(&rows, window_rows), samples),
        .last_least = plan_rows_last_least(o, &rows, (rows.with_samples - 1) % window_rows + 1),
        .seed = o->seed,
        .shuffle = o->shuffle,
        .global_batch = o->global_batch,
        .last = o->last,
        .trainer_count = o->trainer_count,
        .locality = o->locality,
        .cuts = o->cuts,
        .batch = (uint32_t)size_divide_up(o->global_batch, o->trainer_count),
        .steps_per_epoch = steps,
        .position_count = o->last == PLAN_PARTIAL ? samples : steps * o->global_batch,
    };
    status = check_window(&plan, err);
    if (status == STATUS_OK)
        *ret_plan = plan;
    return status;
}

/* The positions behind the samples go through the last window again and again. */
uint64_t plan_most_copies(const struct plan *plan, uint64_t positions)
{
    assert(!plan->mix);
    if (plan->position_count <= plan->sample_count)
        return plan->copies == 1 ? 1 : max_u64(min_u64(plan->copies, positions), 1);
    uint64_t repeated = plan->position_count - plan->sample_count;
    uint64_t windows = min_u64(size_divide_up(positions, plan->last_least),
                               1 + size_divide_up(repeated, plan->last_least));
    return plan->copies == 1 ? windows : min_u64(mul_sat(windows, plan->copies), positions);
}

static void describe_mix(const struct plan *plan, struct text *text)
{
    const struct plan_mix *mix = plan->mix;
    text_append(text, "mix %" PRIu64 " seed %" PRIu64 " batch %" PRIu64 " last %d\n",
                plan->position_count, plan->seed, plan->global_batch, (int)plan->last);
    if (plan->locality)
        text_append(text, "placement local\n");
    for (uint32_t d = 0; d < mix->source_count; d++)
        text_append(text, "source %" PRIu64 " %016" PRIx64 "\n", plan_weight(plan, d),
                    plan_order_id(&mix->sources[d], 0));
    if (mix->pieces->count > 1)
        text_append(text, "schedule %" PRIu32 " %016" PRIx64 "\n", mix->pieces->count,
                    mix_pieces_hash(mix->pieces));
}

static void describe_order(const struct plan *plan, struct text *text)
{
    const uint64_t whole[] = {0,
                              plan->anchors ? anchors_frames(plan->anchors) : plan->sample_count};
    const uint64_t *stores = plan->store_count > 0 ? plan->store_frames : whole;
    size_t count = plan->store_count > 0 ? plan->store_count : 1;
    text_append(text, "samples %" PRIu64 " rows %" PRIu64 " window %" PRIu64 "\nstores",
                plan->sample_count, plan->row_length, plan->window_rows);
    for (size_t i = 0; i < count; i++)
        text_append(text, " %" PRIu64, stores[i + 1] - stores[i]);
    text_append(text, "\nseed %" PRIu64 " shuffle %d batch %" PRIu64 " last %d\n", plan->seed,
                plan->shuffle, plan->global_batch, (int)plan->last);
    if (plan->locality)
        text_append(text, "placement local\n");
    if (plan->anchors)
        text_append(text, "anchors %016" PRIx64 "\n", anchors_hash(plan->anchors));
    if (plan->cuts.items > 0)
        text_append(text, "budget %" PRIu64 " %016" PRIx64 "\n", plan->cuts.items,
                    plan_cuts_hash(&plan->cuts));
}

uint64_t plan_order_id(const struct plan *plan, uint64_t fingerprint)
{
    struct text text = {0};
    text_append(&text, "penstock order %d\ndataset %016" PRIx64 "\n", PLAN_ORDER_VERSION,
                fingerprint);
    if (plan->source == PLAN_ALL_SOURCES)
        describe_mix(plan, &text);
    else
        describe_order(plan, &text);
    uint64_t id = XXH3_64bits(text.data, text.length);
    text_done(&text);
    return id;
}

/* Whether steps begin where a table of the epoch says. */
static bool has_step_table(const struct plan *plan)
{
    return plan->cuts.items > 0 && plan->source != PLAN_ALL_SOURCES;
}

uint64_t plan_step_first(const struct plan *plan, uint64_t step)
{
    assert(has_step_table(plan) == (plan->step_begins != NULL));
    if (plan->step_begins)
        return plan->step_begins[step];
    return min_u64(step * plan->global_batch, plan->position_count);
}

uint64_t plan_step_of(const struct plan *plan, uint64_t position)
{
    assert(has_step_table(plan) == (plan->step_begins != NULL));
    if (plan->step_begins)
        return find_last_u64(plan->step_begins, 0, plan->steps_per_epoch, position);
    return position / plan->global_batch;
}

uint64_t plan_step_samples(const struct plan *plan, uint64_t step)
{
    assert(step < plan->steps_per_epoch);
    if (plan->cuts.items > 0 && plan->source == PLAN_ALL_SOURCES)
        return plan_mix_cut_samples(plan, plan->first_step + step);
    return plan_step_first(plan, step + 1) - plan_step_first(plan, step);
}

struct plan_local_batch plan_local_batch_at(const struct plan *plan, uint64_t step,
                                            uint32_t trainer)
{
    assert(trainer < plan->trainer_count);
    uint64_t samples = plan_step_samples(plan, step);
    uint64_t first = trainer * samples / plan->trainer_count;
    uint64_t end = (trainer + UINT64_C(1)) * samples / plan->trainer_count;
    return (struct plan_local_batch){plan_step_first(plan, step) + first, (uint32_t)(end - first)};
}

struct plan_recipient plan_recipient_of(const struct plan *plan, uint64_t position)
{
    assert(position < plan->position_count);
    uint64_t step = plan_step_of(plan, position);
    uint64_t offset = position - plan_step_first(plan, step);
    uint64_t samples = plan_step_samples(plan, step);
    uint32_t trainer = plan_trainer_of(plan, offset, samples);
    uint64_t first = trainer * samples / plan->trainer_count;
    return (struct plan_recipient){step, trainer, (uint32_t)(offset - first)};
}

uint64_t plan_sample_key(uint64_t seed, uint64_t epoch, uint64_t index)
{
    return random_u64(random_u64(seed, KEY_SAMPLES, epoch), 0, index);
}
