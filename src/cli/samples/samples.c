/* `penstock samples`: what one sample is made of. Main thread.
 *
 * Opens the dataset as a run would, and prints for each field of a sample the array, the chunks and
 * the frames, and which steps are missing. Reads no chunks of fields, except to draw them, or to
 * count the items of ragged fields.
 */
#include "anchors/anchors.h"
#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "cli/samples/samples_plot.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "plan/order/plan.h"
#include "run/one_sample.h"
#include "zarr/metadata/array.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct cli_settings settings;
    uint64_t index; /* UINT64_MAX: the first sample */
    uint64_t source;
    bool show;
    const char *plot;
};

static const struct cli_option option_table[] = {
    {"index", 'i', "I", "the sample at frame I (the first sample)",
     CLI_COUNT(index, 0, UINT64_MAX - 1)},
    {"source", 0, "D", "of a mix: the source that has the sample (0)",
     CLI_COUNT(source, 0, DATASET_MAX_SOURCES - 1)},
    {"show", 0, NULL, "draw the frames of each field", CLI_FLAG(show)},
    {"plot", 0, "FILE", "read the sample, and draw it as an SVG picture", CLI_TEXT(plot)},
};

static const char help[] =
    "Show what one sample of a run is made of: stores, arrays, chunks and frames."
    "\v"
    "A frame is one index along the sample axis, over all stores. A sample is at a frame, its "
    "anchor. Trainers get the anchor as the sample's index. The sources of a mix have frames of "
    "their own.\n"
    "\n"
    "Examples:\n"
    "  penstock samples -c run.yaml --index 17\n"
    "  penstock samples -c run.yaml --index 17 --show\n"
    "  penstock samples -c run.yaml --index 17 --plot sample.svg\n"
    "  penstock samples -c mix.yaml --source 2 --index 17\n";

static const struct cli_command command = {
    .help = help,
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .configured = true,
    .settings_offset = offsetof(struct options, settings),
};

/* A sample, and the frames that its windows may have. */
struct sample {
    const struct dataset *dataset;
    uint64_t frame, row, offset;
    size_t store;
    struct anchors_episode episode;
    int width; /* of the column with the fields' names */
};

static size_t store_of(const struct dataset *dataset, uint64_t frame)
{
    size_t store = 0;
    while (dataset->store_frames[store + 1] <= frame)
        store++;
    return store;
}

static uint64_t first_anchor(const struct dataset *dataset)
{
    uint64_t row = 0;
    if (!dataset->anchors)
        return 0;
    while (anchors_row_samples(dataset->anchors, row) == 0)
        row++;
    return anchors_frame_at(dataset->anchors, row, 0);
}

static enum status find_sample(const struct dataset *dataset, uint64_t frame,
                               struct sample *ret_sample, struct error *err)
{
    if (frame >= dataset->frame_count)
        return error_set(err, STATUS_INVALID,
                         "--index %" PRIu64 ": the dataset has frames 0 to %" PRIu64, frame,
                         dataset->frame_count - 1);
    struct one_sample one = one_sample_at(dataset, frame);
    uint64_t offset = dataset->anchors ? anchors_offset_of(dataset->anchors, frame, &one.row) : 0;
    *ret_sample = (struct sample){
        .dataset = dataset,
        .frame = frame,
        .row = one.row,
        .offset = dataset->anchors ? offset : frame - dataset_row_first(dataset, one.row),
        .store = store_of(dataset, frame),
        .episode = one.episode};
    return STATUS_OK;
}

static bool is_real(const struct sample *sample, int64_t step)
{
    int64_t frame = (int64_t)sample->frame + step;
    return frame >= (int64_t)sample->episode.first && frame < (int64_t)sample->episode.end;
}

/* The least and the greatest step of all fields, and how many of them are missing. */
struct reach {
    int64_t least, greatest;
    uint64_t before, after;
};

static struct reach reach_of(const struct sample *sample)
{
    struct reach reach = {0};
    for (size_t f = 0; f < sample->dataset->field_count; f++) {
        const struct dataset_field *field = &sample->dataset->fields[f];
        if (field->step_count == 0)
            continue;
        reach.least = field->steps[0] < reach.least ? field->steps[0] : reach.least;
        int64_t last = field->steps[field->step_count - 1];
        reach.greatest = last > reach.greatest ? last : reach.greatest;
    }
    int64_t first = (int64_t)sample->episode.first - (int64_t)sample->frame;
    int64_t end = (int64_t)sample->episode.end - (int64_t)sample->frame;
    reach.before = reach.least < first ? (uint64_t)(first - reach.least) : 0;
    reach.after = reach.greatest >= end ? (uint64_t)(reach.greatest - end + 1) : 0;
    return reach;
}

/* Why a frame has no sample: what can be told of one frame. */
static enum status refuse(const struct sample *sample, struct error *err)
{
    struct reach reach = reach_of(sample);
    return error_set(err, STATUS_INVALID,
                     "there is no sample at frame %" PRIu64 ", of the episode of frames %" PRIu64
                     " to %" PRIu64 ": its steps reach %" PRIu64
                     " frame%s before the episode and %" PRIu64
                     " behind; samples.pad_before and pad_after say how many steps may be missing; "
                     "samples.stride, missing, where and the split leave frames out, too",
                     sample->frame, sample->episode.first, sample->episode.end - 1, reach.before,
                     count_plural(reach.before), reach.after);
}

/* "16 to 18, 20" of the steps that are real, or are missing. */
static void append_frames(const struct sample *sample, const struct dataset_field *field, bool real,
                          struct text *out)
{
    static const int32_t anchor_alone[] = {0};
    const int32_t *steps = field->step_count > 0 ? field->steps : anchor_alone;
    size_t count = field->step_count > 0 ? field->step_count : 1;
    bool any = false;
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && steps[end] == steps[end - 1] + 1 &&
               is_real(sample, steps[end]) == is_real(sample, steps[i]))
            end++;
        if (is_real(sample, steps[i]) == real) {
            int64_t base = real ? (int64_t)sample->frame : 0;
            text_append(out, "%s%" PRId64, any ? ", " : "", base + steps[i]);
            if (end - i > 1)
                text_append(out, " to %" PRId64, base + steps[end - 1]);
            any = true;
        }
        i = end;
    }
    if (!any)
        text_append(out, "none");
}

/* The chunks along the sample axis from that of the first real step to that of the last. */
static void append_chunks(const struct sample *sample, const struct dataset_field *field,
                          uint64_t chunk_frames, struct text *out)
{
    int64_t first = (int64_t)sample->frame, last = first;
    if (field->step_count > 0) {
        first += field->steps[0];
        last += field->steps[field->step_count - 1];
    }
    uint64_t begin =
        (uint64_t)(first > (int64_t)sample->episode.first ? first : (int64_t)sample->episode.first);
    uint64_t end = min_u64((uint64_t)(last > 0 ? last : 0), sample->episode.end - 1);
    begin = min_u64(begin, end);
    uint64_t store_first = sample->dataset->store_frames[store_of(sample->dataset, begin)];
    uint64_t end_first = sample->dataset->store_frames[store_of(sample->dataset, end)];
    uint64_t first_chunk = (begin - store_first) / chunk_frames;
    uint64_t last_chunk = (end - end_first) / chunk_frames;
    bool one = first_chunk == last_chunk && store_first == end_first;
    text_append(out, one ? "chunk %" PRIu64 : "chunks %" PRIu64, first_chunk);
    if (!one)
        text_append(out, " to %" PRIu64, last_chunk);
    text_append(out, " of %" PRIu64 " frame%s each", chunk_frames, count_plural(chunk_frames));
}

static void append_shape(const struct dataset_field *field, struct text *out)
{
    text_append(out, "%s [", dtype_name(field->dtype));
    for (int d = 0; d < field->rank; d++)
        text_append(out, "%s%" PRIu64, d ? ", " : "", field->shape[d]);
    text_append(out, "]");
}

static bool has_missing(const struct sample *sample, const struct dataset_field *field)
{
    return field->step_count > 0 && (!is_real(sample, field->steps[0]) ||
                                     !is_real(sample, field->steps[field->step_count - 1]));
}

/* How many items a ragged field has in all steps, and of what. */
static void append_items(const struct sample *sample, const struct dataset_field *field,
                         struct text *out)
{
    static const char *const forms[] = {[RAGGED_CSR] = "csr",
                                        [RAGGED_PAD] = "padded",
                                        [RAGGED_DENSE] = "dense",
                                        [RAGGED_BOUND] = "padded by step"};
    const struct one_sample plot = {.frame = sample->frame, .episode = sample->episode};
    uint64_t count = 0, steps = field->step_count > 0 ? field->step_count : 1;
    for (uint64_t k = 0; k < steps; k++) {
        int32_t step = field->step_count > 0 ? field->steps[k] : 0;
        struct ragged_span span = ragged_frame(field->ragged, one_sample_frame_at(&plot, step));
        if (one_sample_step_is_real(&plot, step) || field->fill != SAMPLES_FILL_ZERO)
            count += span.end - span.begin;
    }
    text_append(out, ", %s item%s of ragged field %s, %s, frame%s ", count_format(count).text,
                count_plural(count), field->ragged->name, forms[field->ragged->form],
                steps > 1 ? "s" : "");
}

static void append_missing(const struct sample *sample, const struct dataset_field *field,
                           struct text *out)
{
    if (!has_missing(sample, field))
        return;
    text_append(out, "%-*smissing steps ", sample->width, "");
    append_frames(sample, field, false, out);
    text_append(out, field->fill == SAMPLES_FILL_ZERO ? ": zeros stand there\n"
                                                      : ": the episode's nearest frame stands "
                                                        "there\n");
}

static void describe_field(const struct sample *sample, size_t f, struct text *out)
{
    const struct dataset_field *field = &sample->dataset->fields[f];
    text_append(out, "%-*s", sample->width, field->name);
    append_shape(field, out);
    if (field->source == FIELD_MADE) {
        if (field->made == MADE_SOURCE)
            text_append(out, ", the number of the sample's source: %" PRIu32 "\n",
                        sample->dataset->source);
        else
            text_append(out, ", made for field %s\n",
                        sample->dataset->fields[field->made_for].name);
        return;
    }
    if (field->source == FIELD_RAGGED) {
        append_items(sample, field, out);
        append_frames(sample, field, true, out);
        text_append(out, "\n");
        append_missing(sample, field, out);
        return;
    }
    const struct zarr_array *array = dataset_field_array(sample->dataset, f);
    const int64_t *matches = dataset_field_matches(sample->dataset, f);
    if (matches) {
        text_append(out, ", array %s, item %" PRId64 " at the anchor, by %s, held in memory\n",
                    array->path, matches[sample->frame],
                    dataset_field_index_array(sample->dataset, f)->path);
        return;
    }
    if (dataset_field_index_array(sample->dataset, f)) {
        text_append(out, ", array %s, joined by %s, held in memory\n", array->path,
                    dataset_field_index_array(sample->dataset, f)->path);
        return;
    }
    text_append(out, ", array %s, frame%s ", array->path, field->step_count > 1 ? "s" : "");
    append_frames(sample, field, true, out);
    text_append(out, ", ");
    append_chunks(sample, field, array->chunk_shape[0], out);
    text_append(out, "%s\n", field->source == FIELD_HELD ? ", held in memory" : "");
    append_missing(sample, field, out);
}

static void describe_sample(const struct sample *sample, struct text *out)
{
    const struct dataset *dataset = sample->dataset;
    text_append(out, "%-*s%" PRIu64, sample->width, "index", sample->frame);
    if (dataset->store_count > 1)
        text_append(out, ", frame %" PRIu64 " of store %zu of %zu",
                    sample->frame - dataset->store_frames[sample->store], sample->store + 1,
                    dataset->store_count);
    if (dataset->anchors)
        text_append(out, "\n%-*s%" PRIu64 ", frames %" PRIu64 " to %" PRIu64, sample->width,
                    "episode", sample->episode.number, sample->episode.first,
                    sample->episode.end - 1);
    uint64_t in_row = dataset->anchors ? anchors_row_samples(dataset->anchors, sample->row)
                                       : dataset_row_frames(dataset, sample->row);
    text_append(out, "\n%-*s%" PRIu64 " of %s, with %s sample%s; this is number %" PRIu64 "\n",
                sample->width, "row", sample->row, count_format(dataset->row_count).text,
                count_format(in_row).text, count_plural(in_row), sample->offset);
}

/* One character a frame: what the field has of each. */
static void draw_field(const struct sample *sample, const struct dataset_field *field,
                       struct reach reach, struct text *out)
{
    static const int32_t anchor_alone[] = {0};
    const int32_t *steps = field->step_count > 0 ? field->steps : anchor_alone;
    size_t count = field->step_count > 0 ? field->step_count : 1, next = 0;
    text_append(out, "%-*s", sample->width, field->name);
    for (int64_t step = reach.least; step <= reach.greatest; step++) {
        char mark = is_real(sample, step) ? '.' : ' ';
        if (next < count && steps[next] == step) {
            mark = is_real(sample, step) ? '#' : 'o';
            next++;
        }
        text_append(out, "%c", mark);
    }
    text_append(out, "\n");
}

static void draw(const struct sample *sample, struct text *out)
{
    enum { MOST_COLUMNS = 200 };
    struct reach reach = reach_of(sample);
    if (reach.greatest - reach.least >= MOST_COLUMNS) {
        text_append(out, "\nthe steps reach over %" PRId64 " frames: too many to draw\n",
                    reach.greatest - reach.least + 1);
        return;
    }
    text_append(out, "\n%-*s%*s\n", sample->width, "anchor", (int)(1 - reach.least), "v");
    for (size_t f = 0; f < sample->dataset->field_count; f++)
        if (sample->dataset->fields[f].source != FIELD_MADE)
            draw_field(sample, &sample->dataset->fields[f], reach, out);
    text_append(out,
                "%-*s# a frame of the sample, o a missing step, . another frame of the "
                "episode\n",
                sample->width, "");
}

/* With the key that the sample has in epoch 0. */
static enum status plot(const struct options *options, const struct config *config,
                        const struct sample *sample, struct error *err)
{
    const struct one_sample plot = {.dataset = sample->dataset,
                                    .frame = sample->frame,
                                    .row = sample->row,
                                    .episode = sample->episode,
                                    .key = plan_sample_key(config->seed, 0, sample->frame)};
    return options->plot ? samples_plot(&plot, options->plot, err) : STATUS_OK;
}

/* Fills *ret_held, which is the caller's in any case. */
static enum status hold(struct dataset *dataset, void **ret_held, struct error *err)
{
    size_t bytes = dataset->held_bytes;
    void *held = bytes > 0 ? aligned_alloc(64, size_round_up(bytes, 64)) : NULL;
    if (bytes > 0 && !held)
        return error_set(err, STATUS_NO_MEMORY, "no memory for held arrays of %s",
                         size_format(bytes).text);
    *ret_held = held;
    return held ? dataset_hold(dataset, held, err) : STATUS_OK;
}

static int name_width(const struct dataset *dataset)
{
    size_t width = 14;
    for (size_t f = 0; f < dataset->field_count; f++)
        width = strlen(dataset->fields[f].name) > width ? strlen(dataset->fields[f].name) : width;
    return (int)width + 2;
}

static void describe(const struct sample *sample, bool draws, struct text *out)
{
    describe_sample(sample, out);
    for (size_t f = 0; f < sample->dataset->field_count; f++)
        describe_field(sample, f, out);
    if (draws)
        draw(sample, out);
}

/* Numbers of items are in held memory, and so is what a picture shows. */
static enum status show(const struct options *options, const struct config *config,
                        struct dataset *dataset, struct error *err)
{
    struct sample sample;
    struct text out = {0};
    void *held = NULL;
    uint64_t frame = options->index == UINT64_MAX ? first_anchor(dataset) : options->index;
    enum status status = find_sample(dataset, frame, &sample, err);
    if (status == STATUS_OK && sample.offset == UINT64_MAX)
        status = refuse(&sample, err);
    if (status == STATUS_OK && (options->plot || dataset->ragged_count > 0))
        status = hold(dataset, &held, err);
    if (status == STATUS_OK) {
        sample.width = name_width(dataset);
        describe(&sample, options->show, &out);
        status = plot(options, config, &sample, err);
    }
    if (status == STATUS_OK)
        fputs(out.data, stdout);
    text_done(&out);
    free(held);
    return status;
}

static enum status run(const struct options *options, struct config *config, struct error *err)
{
    struct dataset *dataset;
    enum status status = cli_settings_open(&options->settings, config, &dataset, err);
    if (status != STATUS_OK)
        return status;
    uint32_t count = dataset->source_count > 0 ? dataset->source_count : 1;
    if (options->source >= count)
        status =
            error_set(err, STATUS_INVALID, "--source %" PRIu64 ": there %s %" PRIu32 " source%s",
                      options->source, count == 1 ? "is" : "are", count, count_plural(count));
    else if (dataset->source_count > 0)
        status = show(options, config, dataset->sources[options->source], err);
    else
        status = show(options, config, dataset, err);
    dataset_free(dataset);
    return status;
}

int cli_samples(int argc, char **argv)
{
    struct options options = {.index = UINT64_MAX};
    struct config config;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = run(&options, &config, &err);
    config_done(&config);
    cli_settings_done(&options.settings);
    return status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
}
