/* See plan_dataset.h. */
#include "cli/inspect/dataset_text.h"

#include "base/size.h"
#include "zarr/metadata/array.h"

#include <inttypes.h>
#include <string.h>

static const char *source_text(const struct dataset_field *field)
{
    if (field->source == FIELD_RAGGED && field->ragged->is_held)
        return "held in memory";
    return field->source == FIELD_ROW      ? "read row by row"
           : field->source == FIELD_RAGGED ? "read row by row, in pages"
           : field->source == FIELD_HELD   ? "held in memory"
                                           : "made for each sample";
}

static void describe_convert(const struct dataset *dataset, size_t f, struct text *out)
{
    struct convert convert = dataset_field_convert(dataset, f);
    if (convert.to == DTYPE_NONE)
        return;
    text_append(out, ", from %s", dtype_name(convert.from));
    if (convert.scale < 1.0 || convert.scale > 1.0)
        text_append(out, " * %g", convert.scale);
    if (convert.offset < 0.0 || convert.offset > 0.0)
        text_append(out, " + %g", convert.offset);
}

static void describe_steps(const struct dataset_field *field, struct text *out)
{
    if (field->step_count == 0 || field->source == FIELD_MADE)
        return;
    text_append(out, ", %zu step%s from %" PRId32 " to %" PRId32, field->step_count,
                count_plural(field->step_count), field->steps[0],
                field->steps[field->step_count - 1]);
    for (size_t i = 0; i < field->phase_count; i++)
        text_append(out, "%s%zu from epoch %" PRIu64 "%s", i == 0 ? " (the first " : ", ",
                    field->phases[i].step_count, field->phases[i].epoch,
                    i + 1 == field->phase_count ? ")" : "");
}

/* What is read again and again, and what is read for another field already. */
static void describe_reads(const struct dataset *dataset, size_t f, struct text *out)
{
    const struct dataset_field *field = &dataset->fields[f];
    if (field->source != FIELD_ROW)
        return;
    if (field->row_leader != f)
        text_append(out, " with %s", dataset->fields[field->row_leader].name);
    else if (field->halo_before + field->halo_after > 0)
        text_append(out, ", with halos of %zu and %zu frames", field->halo_before,
                    field->halo_after);
    if (field->row_leader == f && field->halo_before + field->halo_after > 0 &&
        field->decode_amplification > 1.0)
        text_append(out, ": each chunk is decoded %.3g times, or less often where episodes end",
                    field->decode_amplification);
}

static void describe_store(const struct dataset *dataset, size_t f, struct text *out)
{
    const char *store = dataset_field_store(dataset, f);
    if (store)
        text_append(out, ", of the store '%s'", text_shown(store).text);
}

static void describe_matches(const struct dataset *dataset, size_t f, struct text *out)
{
    const int64_t *matches = dataset_field_matches(dataset, f);
    uint64_t count = 0;
    for (uint64_t t = 0; matches && t < dataset->frame_count; t++)
        count += matches[t] >= 0;
    if (matches)
        text_append(out, ", aligned by '%s': %s of %s frame%s have one",
                    text_shown(dataset_field_index_array(dataset, f)->path).text,
                    count_format(count).text, count_format(dataset->frame_count).text,
                    count_plural(dataset->frame_count));
}

static void describe_fields(const struct dataset *dataset, struct text *out)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        text_append(out, "%-11s%s %s", f == 0 ? "fields" : "", field->name,
                    dtype_name(field->dtype));
        for (int d = 0; d < field->rank; d++)
            text_append(out, "%s%" PRIu64 "%s", d == 0 ? " (" : ", ", field->shape[d],
                        d + 1 == field->rank ? ")" : "");
        describe_convert(dataset, f, out);
        describe_steps(field, out);
        bool items = field->source == FIELD_RAGGED && ragged_has_item_shape(field->ragged);
        text_append(out, ", %s %s, %s", size_format(field->sample_bytes).text,
                    items ? "an item" : "a sample", source_text(field));
        describe_reads(dataset, f, out);
        describe_store(dataset, f, out);
        describe_matches(dataset, f, out);
        text_append(out, "\n");
    }
}

/* A reason why frames are no samples. */
static void describe_reason(uint64_t count, const char *reason, struct text *out)
{
    if (count > 0)
        text_append(out, ", %s %s", count_format(count).text, reason);
}

static uint64_t rows_without(const struct dataset *dataset)
{
    uint64_t count = 0;
    for (uint64_t row = 0; row < dataset->row_count; row++)
        count += anchors_row_samples(dataset->anchors, row) == 0;
    return count;
}

void plan_describe_samples(const struct dataset *dataset, const char *before, struct text *out)
{
    struct anchors_counts counts = dataset_anchor_counts(dataset);
    if (!dataset->anchors)
        return;
    text_append(out, "%sat %s of %s frame%s, in %s episode%s; the others are: %s", before,
                count_format(counts.samples).text, count_format(counts.frames).text,
                count_plural(counts.frames), count_format(counts.episodes).text,
                count_plural(counts.episodes), counts.samples == counts.frames ? "none" : "");
    struct text reasons = {0};
    describe_reason(counts.off_stride, "not at the stride", &reasons);
    describe_reason(counts.at_ends, "too near an end of their episode", &reasons);
    describe_reason(counts.blocked, "with a step that is missing or outside the split's part",
                    &reasons);
    describe_reason(counts.unwanted,
                    anchors_are_weighted(dataset->anchors) ? "of weight 0 or not in samples.where"
                                                           : "not in samples.where",
                    &reasons);
    if (reasons.data)
        text_append(out, "%s", reasons.data + strlen(", "));
    text_done(&reasons);
    if (counts.short_episodes > 0)
        text_append(out, "; %s episode%s too short for any",
                    count_format(counts.short_episodes).text,
                    counts.short_episodes == 1 ? " is" : "s are");
    text_append(out, "\n");
}

/* Parts of single frames are in nearly all chunks. */
static void describe_split(const struct config *config, const struct dataset *dataset,
                           struct text *out)
{
    uint64_t left = dataset->row_count - rows_without(dataset);
    if (*config->split_part && strcmp(config->split_by, "sample") == 0)
        text_append(out,
                    "%-11ssingle frames: %s of %s chunk rows have samples of this part, and are "
                    "read for 1 in %.3g of their frames\n",
                    "split", count_format(left).text, count_format(dataset->row_count).text,
                    (double)dataset->frame_count / (double)dataset->sample_count);
}

/* ", 40 to 159, 2019-01-01 to 2019-12-31": of a range its frames, and the dates of any part. */
static void describe_dates(const struct dataset *dataset, const struct dataset_part *part,
                           struct text *out)
{
    char first[DATASET_DATE_BYTES] = "", last[DATASET_DATE_BYTES] = "";
    if (part->frames > 0) {
        dataset_date(dataset, part->array, part->first, first);
        dataset_date(dataset, part->array, part->end - 1, last);
    }
    if (part->pieces > 0)
        text_append(out, ", %s to %s", count_format(part->first).text,
                    count_format(part->end - 1).text);
    if (part->pieces > 1)
        text_append(out, " in %s runs", count_format(part->pieces).text);
    text_append(out, "%s%s%s%s\n", *first ? ", " : "", first, *first && *last ? " to " : "", last);
}

/* Numbers of frames that look like years. */
static void doubt_years(const struct config *config, const struct dataset *dataset,
                        struct text *out)
{
    const struct config_range *range = &config->split_range;
    bool is_first = range->begin == 0 || (range->begin > 1800 && range->begin < 2200);
    bool is_last = range->end == UINT64_MAX || (range->end > 1800 && range->end < 2200);
    char date[DATASET_DATE_BYTES];
    if (!is_first || !is_last || (range->begin == 0 && range->end == UINT64_MAX))
        return;
    dataset_date(dataset, NULL, 0, date);
    if (*date)
        text_append(out,
                    "%-11snote: these are numbers of frames; years are written with the "
                    "array's name: time=2015:2016\n",
                    "");
}

/* "split      val: 3 episodes, 120 of 1,000 frames, 40 to 159, 2019-01-01 to 2019-12-31" for each
 * part; of missing and wanted frames a line for each of the first ranges. */
static void describe_parts(const struct config *config, const struct dataset *dataset,
                           struct text *out)
{
    static const char *const labels[] = {
        [DATASET_SPLIT] = "split", [DATASET_MISSING] = "missing", [DATASET_WHERE] = "where"};
    enum { MOST_RANGES = 10 };
    size_t count, shown[DATASET_WHERE + 1] = {0};
    const struct dataset_part *parts = dataset_parts(dataset, &count);
    bool by_episode = strcmp(config->split_by, "episode") == 0 || !*config->split_part;
    for (size_t p = 0; p < count; p++) {
        const struct dataset_part *part = &parts[p];
        bool is_split = part->kind == DATASET_SPLIT;
        bool is_last = p + 1 == count || parts[p + 1].kind != part->kind;
        const char *label = shown[part->kind]++ == 0 ? labels[part->kind] : "";
        if (!is_split && shown[part->kind] > MOST_RANGES && is_last)
            text_append(out, "%-11sand %s more\n", "",
                        count_format(shown[part->kind] - MOST_RANGES).text);
        if (!is_split && shown[part->kind] > MOST_RANGES)
            continue;
        text_append(out, "%-11s%s%s: %s %s%s, %s of %s frame%s", label,
                    *part->name ? text_shown(part->name).text : "range",
                    is_split && *part->name && strcmp(part->name, config->split_part) == 0
                        ? " (this run)"
                        : "",
                    count_format(part->runs).text, by_episode || !is_split ? "episode" : "run",
                    count_plural(part->runs), count_format(part->frames).text,
                    count_format(dataset->frame_count).text, count_plural(dataset->frame_count));
        describe_dates(dataset, part, out);
        if (is_split && !*part->name && !part->array)
            doubt_years(config, dataset, out);
    }
}

static void describe_rows(const struct dataset *dataset, struct text *out)
{
    const char *unit = dataset->anchors ? "frame" : "sample";
    text_append(out, "%-11s%s of %s %s%s", "chunk rows", count_format(dataset->row_count).text,
                count_format(dataset->row_length).text, unit, count_plural(dataset->row_length));
    if (dataset->row_chunks > 1)
        text_append(out, ", which are %s chunks (samples.row_chunks)",
                    count_format(dataset->row_chunks).text);
    text_append(out, ", %s each\n", size_format(dataset->row_bytes).text);
}

static void describe_source(const struct config *config, const struct dataset *mix,
                            const struct plan *plan, uint32_t d, struct text *out)
{
    const struct config_source *source = &config->sources[d];
    const struct dataset *dataset = dataset_source(mix, d);
    bool by_steps = plan->cuts.items > 0;
    double share = plan_mean_share(plan, d);
    text_append(out,
                "source %-3" PRIu32 " %s: %.3g%% of the %s%s: %.3g passes an epoch over its %s "
                "sample%s\n",
                d, source->name, 100 * share, by_steps ? "steps" : "samples",
                plan_entry_count(plan) > 0 ? " on average" : "", plan_epoch_passes(plan, d),
                count_format(dataset->sample_count).text, count_plural(dataset->sample_count));
    plan_describe_samples(dataset, "           ", out);
    describe_parts(source->config, dataset, out);
    text_append(out, "%-11s%s row%s of %s frame%s, %s each\n", "",
                count_format(dataset->row_count).text, count_plural(dataset->row_count),
                count_format(dataset->row_length).text, count_plural(dataset->row_length),
                size_format(dataset->row_bytes).text);
}

static void describe_mix(const struct config *config, const struct dataset *mix,
                         const struct plan *plan, struct text *out)
{
    bool by_steps = plan->cuts.items > 0;
    uint64_t samples = config->mix_samples ? config->mix_samples : mix->sample_count;
    text_append(out,
                "%-11sof %" PRIu32 " source%s: %s%s sample%s an epoch, of %s, fingerprint "
                "%016" PRIx64 "\n",
                "mix", mix->source_count, count_plural(mix->source_count), by_steps ? "about " : "",
                count_format(samples).text, count_plural(samples),
                size_format(mix->sample_bytes).text, mix->fingerprint);
    for (uint32_t d = 0; d < mix->source_count; d++)
        describe_source(config, mix, plan, d, out);
    describe_fields(dataset_source(mix, 0), out);
}

void plan_describe_dataset(const struct config *config, const struct dataset *dataset,
                           const struct plan *plan, struct text *out)
{
    if (dataset->source_count > 0) {
        describe_mix(config, dataset, plan, out);
        return;
    }
    text_append(out, "%-11s%s: %s sample%s of %s, fingerprint %016" PRIx64 "\n", "dataset",
                config->uri, count_format(dataset->sample_count).text,
                count_plural(dataset->sample_count), size_format(dataset->sample_bytes).text,
                dataset->fingerprint);
    if (dataset->store_count > 1)
        text_append(out, "%-11s%zu, one after another\n", "stores", dataset->store_count);
    plan_describe_samples(dataset, "samples    ", out);
    describe_parts(config, dataset, out);
    if (dataset->anchors)
        describe_split(config, dataset, out);
    describe_fields(dataset, out);
    describe_rows(dataset, out);
}
