/* See round_dress.h. */
#include "rounds/round_dress.h"

#include "anchors/anchors.h"
#include "delivery/ring/layout.h"

#include <string.h>

/* The samples that are dressed together: of one source. */
struct samples {
    const struct fragments *fragments; /* of the source: how fields are cut, and which steps
                                        * samples have */
    unsigned char *slot;
    uint32_t batch_index; /* of the first */
    const uint64_t *frames, *keys;
    size_t count;
};

static const struct cutting *cutting_of(const struct samples *samples, size_t f)
{
    return samples->fragments->fields[f].cutting;
}

static unsigned char *place(const struct samples *samples, size_t f, size_t i)
{
    const struct fragment_field *field = &samples->fragments->fields[f];
    return samples->slot + field->offset + (samples->batch_index + i) * field->bytes;
}

static size_t step_bytes(const struct dataset_field *field)
{
    return field->sample_bytes / (field->step_count > 0 ? field->step_count : 1);
}

/* A frame of a held field, or its crop in sample `i`, as step `step` of that sample. */
static void put_frame(const struct dataset *dataset, size_t f, const struct samples *samples,
                      size_t i, size_t step, uint64_t frame)
{
    const struct dataset_field *field = &dataset->fields[f];
    const struct cutting *cutting = cutting_of(samples, f);
    const unsigned char *from = dataset_held_sample(dataset, f, frame);
    unsigned char *at = place(samples, f, i) + step * step_bytes(field);
    if (field->crop)
        from += crop_begin(field->crop, samples->keys[i]);
    if (cutting)
        cutting_put(cutting, samples->slot, samples->batch_index + (uint32_t)i, step, from);
    else if (field->crop)
        crop_box_copy(&field->crop->box, at, from);
    else
        memcpy(at, from, field->frame_bytes);
}

static void put_held(const struct dataset *dataset, size_t f, const struct samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        put_frame(dataset, f, samples, i, 0, samples->frames[i]);
}

/* One step of sample `i` of a held field. */
static void put_step(const struct dataset *dataset, size_t f, const struct samples *samples,
                     size_t i, size_t step, struct anchors_episode episode)
{
    const struct dataset_field *field = &dataset->fields[f];
    const struct cutting *cutting = cutting_of(samples, f);
    int64_t frame = (int64_t)samples->frames[i] + field->steps[step];
    int64_t nearest = frame < (int64_t)episode.first  ? (int64_t)episode.first
                      : frame >= (int64_t)episode.end ? (int64_t)episode.end - 1
                                                      : frame;
    bool clears = frame != nearest && field->fill == SAMPLES_FILL_ZERO;
    if (!clears)
        put_frame(dataset, f, samples, i, step, (uint64_t)nearest);
    else if (cutting)
        cutting_put(cutting, samples->slot, samples->batch_index + (uint32_t)i, step, NULL);
    else
        memset(place(samples, f, i) + step * step_bytes(field), 0, step_bytes(field));
}

static void put_held_steps(const struct dataset *dataset, size_t f, const struct samples *samples)
{
    size_t step_count = samples->fragments->fields[f].step_count;
    for (size_t i = 0; i < samples->count; i++) {
        struct anchors_episode episode = anchors_episode_of(dataset->anchors, samples->frames[i]);
        for (size_t k = 0; k < step_count; k++)
            put_step(dataset, f, samples, i, k, episode);
    }
}

/* A made field that is cut is one of steps: an item each. */
static void make_parts(const struct dataset *dataset, size_t f, const struct samples *samples)
{
    const struct cutting *cutting = cutting_of(samples, f);
    unsigned char whole[DATASET_MAX_STEPS * sizeof(int32_t)];
    for (size_t i = 0; i < samples->count; i++) {
        dataset_make(dataset, f, samples->frames[i], samples->keys[i], whole);
        for (size_t k = 0; k < cutting->step_count; k++)
            cutting_put(cutting, samples->slot, samples->batch_index + (uint32_t)i, k,
                        whole + k * dtype_bytes(dataset->fields[f].dtype));
    }
}

/* Likewise one of steps that are not all of the field's. */
static void make_first(const struct dataset *dataset, size_t f, const struct samples *samples)
{
    unsigned char whole[DATASET_MAX_STEPS * sizeof(int32_t)];
    for (size_t i = 0; i < samples->count; i++) {
        dataset_make(dataset, f, samples->frames[i], samples->keys[i], whole);
        memcpy(place(samples, f, i), whole, samples->fragments->fields[f].bytes);
    }
}

static void make(const struct dataset *dataset, size_t f, const struct samples *samples)
{
    if (cutting_of(samples, f)) {
        make_parts(dataset, f, samples);
        return;
    }
    if (samples->fragments->fields[f].step_count < dataset->fields[f].step_count) {
        make_first(dataset, f, samples);
        return;
    }
    for (size_t i = 0; i < samples->count; i++)
        dataset_make(dataset, f, samples->frames[i], samples->keys[i], place(samples, f, i));
}

/* The fields of samples of one source. */
static void dress_fields(const struct dataset *dataset, const struct samples *samples)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->ragged || samples->fragments->fields[f].is_absent)
            continue; /* see run/trailers.h */
        if (field->source == FIELD_MADE)
            make(dataset, f, samples);
        else if (field->source == FIELD_HELD && field->step_count > 0)
            put_held_steps(dataset, f, samples);
        else if (field->source == FIELD_HELD)
            put_held(dataset, f, samples);
    }
}

/* Keys of a mix, whose samples have a source and a pass each: those of one window together. */
static void put_keys(const struct round_run *run, uint64_t *ret_keys)
{
    uint16_t members[ROUND_RUN_MOST];
    uint64_t indices[ROUND_RUN_MOST], keys[ROUND_RUN_MOST];
    bool is_done[ROUND_RUN_MOST] = {false};
    for (size_t first = 0; first < run->count; first++) {
        const struct window *window = run->windows[first];
        size_t count = 0;
        if (is_done[first])
            continue;
        for (size_t i = first; i < run->count; i++)
            if (run->windows[i] == window) {
                members[count] = (uint16_t)i;
                indices[count++] = run->key_indices[i];
            }
        plan_sample_keys(window->epoch.plan.seed, window->epoch.epoch, indices, count, keys);
        for (size_t k = 0; k < count; k++) {
            ret_keys[members[k]] = keys[k];
            is_done[members[k]] = true;
        }
    }
}

/* Fields of a mix. */
static void dress_mixed(const struct round *round, const struct round_run *run,
                        const uint64_t *keys)
{
    const struct dataset *dataset = round->job->dataset;
    for (size_t i = 0, end; i < run->count; i = end) {
        const struct window *window = run->windows[i];
        for (end = i + 1; end < run->count && run->windows[end] == window;)
            end++;
        const struct samples samples = {round_kind_here(round, window->source),
                                        run->slot,
                                        run->batch_index + (uint32_t)i,
                                        run->frames + i,
                                        keys + i,
                                        end - i};
        dress_fields(dataset_source(dataset, window->source), &samples);
    }
}

void round_dress(const struct round *round, const struct round_run *run)
{
    const struct ring_layout *layout = &round->session->layout;
    const struct plan_epoch *epoch = &round->reach.epoch;
    memcpy(run->slot + layout->indices_offset + run->batch_index * sizeof run->frames[0],
           run->frames, run->count * sizeof run->frames[0]);
    memset(run->slot + layout->valid_offset + run->batch_index, run->valid, run->count);
    uint64_t *keys = (uint64_t *)(run->slot + layout->keys_offset) + run->batch_index;
    if (epoch->plan.mix) {
        put_keys(run, keys);
        dress_mixed(round, run, keys);
        return;
    }
    plan_sample_keys(epoch->plan.seed, epoch->epoch, run->key_indices, run->count, keys);
    const struct samples samples = {
        round_kind_here(round, 0), run->slot, run->batch_index, run->frames, keys, run->count};
    dress_fields(round->job->dataset, &samples);
}
