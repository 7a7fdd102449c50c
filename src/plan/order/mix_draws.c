/* See mix.h: draws, the steps and positions that they are of, and the samples that they are. */
#include "plan/order/mix.h"

#include "base/number.h"
#include "base/random.h"
#include "base/size.h"
#include "plan/order/keys.h"
#include "plan/order/mix_pieces.h"
#include "plan/order/order_internal.h"

#include <assert.h>

/* What is divided: positions, or with cuts steps. Each pass of a source takes so many. */
static uint64_t pass_length(const struct plan *source)
{
    return source->cuts.items > 0 ? source->steps_per_epoch : source->sample_count;
}

/* The most positions, or with cuts steps, of a source among so many positions. */
static uint64_t most_parts(const struct plan *plan, uint32_t source, uint64_t positions)
{
    if (plan->cuts.items > 0)
        positions = size_divide_up(positions, plan->global_batch);
    return mix_pieces_most(plan->mix->pieces, source, positions);
}

/* The samples of a source's step at most, with cuts; else 1. A step is within a window. */
static uint64_t most_samples(const struct plan *source)
{
    if (source->cuts.items == 0)
        return 1;
    uint64_t most = plan_cuts_most_samples(&source->cuts, source->global_batch);
    return min_u64(most, source->window_most);
}

uint64_t plan_most_draws(const struct plan *plan, uint32_t source, uint64_t positions)
{
    if (!plan->mix)
        return positions;
    return mul_sat(most_parts(plan, source, positions), most_samples(&plan->mix->sources[source]));
}

void plan_mix_most(const struct plan *plan, uint64_t positions, struct plan_mix_most *ret_most)
{
    for (uint32_t d = 0; d < plan->mix->source_count; d++) {
        const struct plan *source = &plan->mix->sources[d];
        uint64_t parts = most_parts(plan, d, positions);
        ret_most->draws[d] = mul_sat(parts, most_samples(source));
        uint64_t passes = parts > 1 ? 1 + size_divide_up(parts - 1, pass_length(source)) : 1;
        ret_most->copies[d] = source->copies == 1
                                  ? passes
                                  : max_u64(1, min_u64(mul_sat(passes, source->copies), parts));
    }
}

bool plan_comes_again(const struct plan *plan, uint32_t source)
{
    return plan->mix &&
           most_parts(plan, source, plan->position_count) > pass_length(plan_source(plan, source));
}

double plan_epoch_passes(const struct plan *plan, uint32_t source)
{
    if (!plan->mix)
        return 1;
    double parts = (double)(plan->cuts.items > 0 ? plan->steps_per_epoch : plan->position_count);
    return parts * plan_mean_share(plan, source) / (double)pass_length(plan_source(plan, source));
}

/* ---- steps with cuts ---- */

struct plan_mix_cut plan_mix_cut_at(const struct plan *plan, uint64_t absolute_step)
{
    uint64_t number;
    uint32_t source = mix_pieces_source(plan->mix->pieces, absolute_step, &number);
    uint64_t steps = pass_length(&plan->mix->sources[source]);
    return (struct plan_mix_cut){source, number / steps, number % steps};
}

/* Where the steps of a source's pass begin; the tables have the pass. */
static const struct plan_cut *known_cut(const struct plan *source, uint64_t pass)
{
    const struct plan_cut *cut = plan_pass_cut(source, pass);
    assert(cut);
    return cut;
}

/* Likewise; the tables get the pass. */
static const struct plan_cut *find_cut(const struct plan *source, uint64_t pass)
{
    const struct plan_cut *cut = plan_pass_cut(source, pass);
    struct plan_epoch epoch;
    if (cut)
        return cut;
    plan_epoch_init(&epoch, source, pass);
    return epoch.cut;
}

/* The draws of a source before its step k. */
static uint64_t draws_before(const struct plan *source, uint64_t k)
{
    uint64_t pass = k / source->steps_per_epoch, step = k % source->steps_per_epoch;
    return pass * source->sample_count + (step ? find_cut(source, pass)->step_begins[step] : 0);
}

void plan_mix_cut_fill(const struct plan *plan, uint64_t absolute_step)
{
    struct plan_mix_cut at = plan_mix_cut_at(plan, absolute_step);
    find_cut(&plan->mix->sources[at.source], at.pass);
}

uint64_t plan_mix_cut_samples(const struct plan *plan, uint64_t absolute_step)
{
    struct plan_mix_cut at = plan_mix_cut_at(plan, absolute_step);
    const uint64_t *begins = known_cut(&plan->mix->sources[at.source], at.pass)->step_begins;
    return begins[at.step + 1] - begins[at.step];
}

uint64_t plan_mix_cut_bound(const struct plan *plan, uint64_t absolute_step)
{
    struct plan_mix_cut at = plan_mix_cut_at(plan, absolute_step);
    const struct plan *source = &plan->mix->sources[at.source];
    uint16_t bucket = known_cut(source, at.pass)->step_buckets[at.step];
    struct plan_epoch epoch;
    if (bucket != PLAN_NO_BUCKET)
        return plan_cuts_bound(&source->cuts, bucket);
    plan_epoch_init(&epoch, source, at.pass);
    return plan_step_bound(&epoch, at.step);
}

/* ---- steps ---- */

/* A step of the run. */
struct step {
    uint64_t epoch, index; /* of the epoch */
    uint64_t first;        /* absolute position */
    uint32_t count;
};

static struct step step_at(const struct plan_mix *mix, uint64_t absolute_step)
{
    const struct plan *outer = &mix->outer;
    uint64_t epoch = absolute_step / outer->steps_per_epoch;
    uint64_t index = absolute_step % outer->steps_per_epoch;
    return (struct step){.epoch = epoch,
                         .index = index,
                         .first = epoch * outer->position_count + index * outer->global_batch,
                         .count = (uint32_t)plan_step_samples(outer, index)};
}

/* Offset in the step -> draw of the step. */
static void permute(const struct plan_mix *mix, const struct step *step,
                    struct permutation *ret_permutation)
{
    uint64_t key = random_u64(mix->outer.seed, KEY_DRAWS, step->epoch);
    permutation_init(ret_permutation, step->count, random_u64(key, 0, step->index));
}

void plan_step_draws(const struct plan *plan, uint64_t absolute_step, uint64_t *ret_first)
{
    const struct plan_mix *mix = plan->mix;
    uint64_t first = plan->cuts.items > 0 ? absolute_step : step_at(mix, absolute_step).first;
    mix_pieces_divide(mix->pieces, first, ret_first);
    for (uint32_t d = 0; plan->cuts.items > 0 && d < mix->source_count; d++)
        ret_first[d] = draws_before(&mix->sources[d], ret_first[d]);
}

void plan_mix_given(const struct plan *plan, uint64_t absolute_step, uint64_t *ret_samples)
{
    const struct plan_mix *mix = plan->mix;
    bool by_steps = plan->cuts.items > 0;
    mix_pieces_divide(mix->pieces, by_steps ? absolute_step : step_at(mix, absolute_step).first,
                      ret_samples);
    for (uint32_t d = 0; by_steps && d < mix->source_count; d++)
        ret_samples[d] = (uint64_t)((unsigned __int128)ret_samples[d] *
                                    mix->sources[d].sample_count / mix->sources[d].steps_per_epoch);
}

uint64_t plan_mix_cut_before(const struct plan *plan, uint64_t absolute_step)
{
    uint64_t given[MIX_MAX_SOURCES], samples = 0;
    plan_mix_given(plan, absolute_step, given);
    for (uint32_t d = 0; d < plan->mix->source_count; d++)
        samples += given[d];
    return samples;
}

void plan_mix_step_at(const struct plan *plan, uint64_t absolute_step,
                      struct plan_mix_step *ret_step)
{
    const struct plan_mix *mix = plan->mix;
    assert(plan->cuts.items == 0);
    struct step step = step_at(mix, absolute_step);
    uint64_t ends[MIX_MAX_SOURCES] = {0};
    ret_step->absolute_step = absolute_step;
    ret_step->first_position = step.first;
    ret_step->source_count = mix->source_count;
    mix_pieces_divide(mix->pieces, step.first, ret_step->first_draws);
    mix_pieces_divide(mix->pieces, step.first + step.count, ends);
    ret_step->begins[0] = 0;
    for (uint32_t d = 0; d < mix->source_count; d++)
        ret_step->begins[d + 1] = ret_step->begins[d] + ends[d] - ret_step->first_draws[d];
    permute(mix, &step, &ret_step->permutation);
}

void plan_mix_step_draws(const struct plan_mix_step *step, uint32_t first_offset, size_t count,
                         struct plan_draw *ret_draws)
{
    enum { BLOCK = 128 };
    for (size_t done = 0; done < count;) {
        uint64_t draws[BLOCK];
        size_t block = min_u64(BLOCK, count - done);
        for (size_t i = 0; i < block; i++)
            draws[i] = first_offset + done + i;
        permutation_apply_many(&step->permutation, draws, block);
        for (size_t i = 0; i < block; i++) {
            uint32_t source =
                (uint32_t)find_last_u64(step->begins, 0, step->source_count, draws[i]);
            ret_draws[done + i] = (struct plan_draw){source, step->first_draws[source] + draws[i] -
                                                                 step->begins[source]};
        }
        done += block;
    }
}

static void draws_of_cut(const struct plan *plan, uint64_t absolute_step, uint64_t offset,
                         size_t count, struct plan_draw *ret_draws)
{
    struct plan_mix_cut at = plan_mix_cut_at(plan, absolute_step);
    const struct plan *source = &plan->mix->sources[at.source];
    uint64_t first =
        at.pass * source->sample_count + known_cut(source, at.pass)->step_begins[at.step] + offset;
    for (size_t i = 0; i < count; i++)
        ret_draws[i] = (struct plan_draw){at.source, first + i};
}

void plan_draws_at(const struct plan *plan, uint64_t epoch, uint64_t first_position, size_t count,
                   struct plan_draw *ret_draws)
{
    const struct plan *outer = &plan->mix->outer;
    struct plan_mix_step step;
    uint64_t index = first_position / outer->global_batch;
    if (plan->cuts.items > 0) {
        draws_of_cut(plan, epoch * outer->steps_per_epoch + index,
                     first_position % outer->global_batch, count, ret_draws);
        return;
    }
    plan_mix_step_at(plan, epoch * outer->steps_per_epoch + index, &step);
    plan_mix_step_draws(&step, (uint32_t)(first_position % outer->global_batch), count, ret_draws);
}

/* ---- draws ---- */

struct plan_pass plan_draw_pass(const struct plan *plan, struct plan_draw draw)
{
    uint64_t samples = plan->mix->sources[draw.source].sample_count;
    return (struct plan_pass){draw.number / samples, draw.number % samples};
}

/* The absolute step that is step `step` of a pass; UINT64_MAX: no run gets there. */
static uint64_t step_of_cut(const struct plan *plan, uint32_t source, uint64_t pass, uint64_t step)
{
    const struct plan_mix *mix = plan->mix;
    uint64_t k = pass * mix->sources[source].steps_per_epoch + step;
    uint64_t at = mix_pieces_undivide(mix->pieces, source, k);
    return at < MIX_FAR ? at : UINT64_MAX;
}

static uint64_t find_step(const struct plan *source, const struct plan_cut *cut, uint64_t position)
{
    return find_last_u64(cut->step_begins, 0, source->steps_per_epoch, position);
}

uint64_t plan_draw_step(const struct plan *plan, struct plan_draw draw)
{
    const struct plan_mix *mix = plan->mix;
    const struct plan *outer = &mix->outer;
    if (plan->cuts.items > 0) {
        const struct plan *source = &mix->sources[draw.source];
        struct plan_pass at = plan_draw_pass(plan, draw);
        uint64_t step =
            at.position ? find_step(source, find_cut(source, at.number), at.position) : 0;
        return step_of_cut(plan, draw.source, at.number, step);
    }
    uint64_t at = mix_pieces_undivide(mix->pieces, draw.source, draw.number);
    if (at >= MIX_FAR)
        return UINT64_MAX;
    return at / outer->position_count * outer->steps_per_epoch +
           at % outer->position_count / outer->global_batch;
}

static bool source_cut_at(const struct plan *plan, struct plan_draw draw,
                          struct plan_source_step *ret_step)
{
    const struct plan *source = &plan->mix->sources[draw.source];
    struct plan_pass at = plan_draw_pass(plan, draw);
    const struct plan_cut *cut = known_cut(source, at.number);
    uint64_t step = find_step(source, cut, at.position), before = draw.number - at.position;
    uint64_t absolute_step = step_of_cut(plan, draw.source, at.number, step);
    if (absolute_step == UINT64_MAX)
        return false;
    *ret_step =
        (struct plan_source_step){.absolute_step = absolute_step,
                                  .epoch = absolute_step / plan->mix->outer.steps_per_epoch,
                                  .step = absolute_step % plan->mix->outer.steps_per_epoch,
                                  .first_position = absolute_step * plan->global_batch,
                                  .first_draw = before + cut->step_begins[step],
                                  .end_draw = before + cut->step_begins[step + 1],
                                  .samples = cut->step_begins[step + 1] - cut->step_begins[step]};
    return true;
}

bool plan_source_step_at(const struct plan *plan, struct plan_draw draw,
                         struct plan_source_step *ret_step)
{
    if (plan->cuts.items > 0)
        return source_cut_at(plan, draw, ret_step);
    uint64_t absolute_step = plan_draw_step(plan, draw);
    if (absolute_step == UINT64_MAX)
        return false;
    struct step step = step_at(plan->mix, absolute_step);
    struct mix_share share =
        mix_pieces_range(plan->mix->pieces, draw.source, step.first, step.first + step.count);
    assert(draw.number - share.first < share.count);
    *ret_step = (struct plan_source_step){.absolute_step = absolute_step,
                                          .epoch = step.epoch,
                                          .step = step.index,
                                          .first_position = step.first,
                                          .first_draw = share.first,
                                          .end_draw = share.first + share.count,
                                          .samples = step.count,
                                          .before = share.before,
                                          .permuted = true};
    permute(plan->mix, &step, &ret_step->permutation);
    return true;
}

void plan_source_step_offsets(const struct plan_source_step *step, uint64_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(numbers[i] - step->first_draw < step->end_draw - step->first_draw);
        numbers[i] += step->before - step->first_draw;
    }
    if (step->permuted)
        permutation_inverse_many(&step->permutation, numbers, count);
}

uint64_t plan_draw_position(const struct plan *plan, struct plan_draw draw)
{
    struct plan_source_step step;
    if (!plan_source_step_at(plan, draw, &step))
        return UINT64_MAX;
    plan_source_step_offsets(&step, &draw.number, 1);
    return step.first_position + draw.number;
}

uint32_t plan_trainer_at(const struct plan_epoch *epoch, uint64_t position)
{
    const struct plan *plan = &epoch->plan;
    if (!plan->mix || plan->cuts.items > 0) /* steps of cuts are a source's own */
        return plan_recipient_of(plan, position).trainer;
    const struct plan *outer = &plan->mix->outer;
    struct plan_draw draw = {plan->source, epoch->epoch * plan->sample_count + position};
    position = plan_draw_position(plan, draw);
    return position == UINT64_MAX
               ? 0
               : plan_recipient_of(outer, position % outer->position_count).trainer;
}

void plan_find(const struct plan *plan, uint64_t epoch, uint64_t position,
               struct plan_found *ret_found)
{
    struct plan_draw draw = {0};
    struct plan_pass at = {epoch, position};
    if (plan->mix) {
        uint64_t step = epoch * plan->steps_per_epoch + position / plan->global_batch;
        if (plan->cuts.items > 0)
            plan_mix_cut_fill(plan, step);
        plan_draws_at(plan, epoch, position, 1, &draw);
        at = plan_draw_pass(plan, draw);
    }
    const struct plan *source = plan_source(plan, draw.source);
    struct plan_epoch pass;
    struct plan_window window;
    plan_epoch_init(&pass, source, at.number);
    uint64_t position_of_pass = plan_unpad(&pass, at.position);
    plan_window_at(&window, &pass, plan_window_of(&pass, position_of_pass));
    struct plan_location location = plan_location_at(&window, position_of_pass);
    uint64_t row = plan_row_at(&pass, window.first_row_position + location.window_row);
    uint64_t frame = plan_frame_at(source, row, location.offset);
    *ret_found =
        (struct plan_found){.source = draw.source,
                            .pass = at.number,
                            .row = row,
                            .frame = frame,
                            .key = plan_sample_key(source->seed, at.number,
                                                   plan_key_index(source, location.offset, frame))};
}
