/* See round_dress.h. */
#include "rounds/round_dress.h"

#include "anchors/anchors.h"
#include "delivery/ring/layout.h"

#include <string.h>

/* The samples that are dressed together: of one source. */
struct samples {
    unsigned char *slot;
    uint32_t batch_index; /* of the first */
    const uint64_t *frames, *keys;
    size_t count;
};

static unsigned char *place(const struct samples *samples, const struct ring_field *field, size_t i)
{
    return samples->slot + field->slot_offset + (samples->batch_index + i) * field->sample_bytes;
}

/* A frame of a held field, or its crop in the sample with that key. */
static void put_frame(const struct dataset *dataset, size_t f, uint64_t frame, uint64_t key,
                      unsigned char *to)
{
    const struct dataset_field *field = &dataset->fields[f];
    const unsigned char *from = dataset_held_sample(dataset, f, frame);
    if (field->crop)
        crop_copy(field->crop, to, from + crop_begin(field->crop, key));
    else
        memcpy(to, from, field->frame_bytes);
}

static void put_held(const struct dataset *dataset, size_t f, const struct ring_field *to,
                     const struct samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        put_frame(dataset, f, samples->frames[i], samples->keys[i], place(samples, to, i));
}

/* One step of a sample of a held field. */
static void put_step(const struct dataset *dataset, size_t f, struct anchors_episode episode,
                     int64_t frame, uint64_t key, unsigned char *to)
{
    const struct dataset_field *field = &dataset->fields[f];
    int64_t nearest = frame < (int64_t)episode.first  ? (int64_t)episode.first
                      : frame >= (int64_t)episode.end ? (int64_t)episode.end - 1
                                                      : frame;
    if (frame != nearest && field->fill == SAMPLES_FILL_ZERO)
        memset(to, 0, field->sample_bytes / field->step_count);
    else
        put_frame(dataset, f, (uint64_t)nearest, key, to);
}

static void put_held_steps(const struct dataset *dataset, size_t f, const struct ring_field *to,
                           const struct samples *samples)
{
    const struct dataset_field *field = &dataset->fields[f];
    for (size_t i = 0; i < samples->count; i++) {
        struct anchors_episode episode = anchors_episode_of(dataset->anchors, samples->frames[i]);
        unsigned char *step = place(samples, to, i);
        for (size_t k = 0; k < field->step_count;
             k++, step += field->sample_bytes / field->step_count)
            put_step(dataset, f, episode, (int64_t)samples->frames[i] + field->steps[k],
                     samples->keys[i], step);
    }
}

static void make(const struct dataset *dataset, size_t f, const struct ring_field *to,
                 const struct samples *samples)
{
    for (size_t i = 0; i < samples->count; i++)
        dataset_make(dataset, f, samples->frames[i], samples->keys[i], place(samples, to, i));
}

/* The fields of samples of one source. */
static void dress_fields(const struct dataset *dataset, const struct ring_layout *layout,
                         const struct samples *samples)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        if (field->ragged)
            continue; /* see run/trailers.h */
        if (field->source == FIELD_MADE)
            make(dataset, f, &layout->fields[f], samples);
        else if (field->source == FIELD_HELD && field->step_count > 0)
            put_held_steps(dataset, f, &layout->fields[f], samples);
        else if (field->source == FIELD_HELD)
            put_held(dataset, f, &layout->fields[f], samples);
    }
}

/* Keys of a mix, whose samples have a source and a pass each: those of one window together. */
static void put_keys(const struct round_run *run, uint64_t *ret_keys)
{
    uint16_t members[ROUND_RUN_MOST];
    uint64_t frames[ROUND_RUN_MOST], keys[ROUND_RUN_MOST];
    bool is_done[ROUND_RUN_MOST] = {false};
    for (size_t first = 0; first < run->count; first++) {
        const struct window *window = run->windows[first];
        size_t count = 0;
        if (is_done[first])
            continue;
        for (size_t i = first; i < run->count; i++)
            if (run->windows[i] == window) {
                members[count] = (uint16_t)i;
                frames[count++] = run->frames[i];
            }
        plan_sample_keys(window->epoch.plan.seed, window->epoch.epoch, frames, count, keys);
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
    const struct ring_layout *layout = &round->job->setup.layout;
    for (size_t i = 0, end; i < run->count; i = end) {
        const struct window *window = run->windows[i];
        for (end = i + 1; end < run->count && run->windows[end] == window;)
            end++;
        const struct samples samples = {run->slot, run->batch_index + (uint32_t)i, run->frames + i,
                                        keys + i, end - i};
        dress_fields(dataset_source(dataset, window->source), layout, &samples);
    }
}

void round_dress(const struct round *round, const struct round_run *run)
{
    const struct ring_layout *layout = &round->job->setup.layout;
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
    plan_sample_keys(epoch->plan.seed, epoch->epoch, run->frames, run->count, keys);
    const struct samples samples = {run->slot, run->batch_index, run->frames, keys, run->count};
    dress_fields(round->job->dataset, layout, &samples);
}
