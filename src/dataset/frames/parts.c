/* See making.h: parts of the frames, by groups, by numbers of frames, or by ranges of their
 * coordinate; and what each has, for people. */
#include "dataset/frames/making.h"

#include "anchors/bits.h"
#include "anchors/split.h"
#include "base/number.h"
#include "base/size.h"
#include "dataset/frames/frame_ranges.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_set(const char *text)
{
    return text && *text;
}

/* Groups
 * ---------------------------------------------------------------------------------------------- */

static enum status use_groups(struct making *making, const struct frame_array *array,
                              struct error *err)
{
    return frame_runs_add_values(&making->groups, array, false, false, err);
}

/* Without an array of episodes, a store is one, or all stores are one. */
static void group_by_episode(const struct making *making, struct split_groups *groups)
{
    const struct dataset *dataset = making->dataset;
    groups->ends = making->episodes.ends;
    groups->run_count = making->episodes.count;
    if (groups->ends)
        return;
    groups->ends = dataset->store_frames + (making->continuous ? dataset->store_count : 1);
    groups->run_count = making->continuous ? 1 : dataset->store_count;
}

static enum status find_groups(struct making *making, struct split_groups *groups,
                               struct error *err)
{
    const char *by = making->spec->split_by;
    if (!is_set(by) || strcmp(by, "episode") == 0) {
        group_by_episode(making, groups);
        return STATUS_OK;
    }
    if (strcmp(by, "sample") == 0)
        return STATUS_OK;
    enum status status = making_use_arrays(making, "samples.split_by", by, use_groups, err);
    groups->ends = making->groups.ends;
    groups->values = making->groups.values;
    groups->run_count = making->groups.count;
    return status;
}

/* What is noted
 * ---------------------------------------------------------------------------------------------- */

/* Copies name and array. */
static enum status add_part(struct dataset_private *private, struct dataset_part part,
                            struct error *err)
{
    struct dataset_part *parts = realloc(private->parts, (private->part_count + 1) * sizeof *parts);
    char *name = strdup(part.name), *array = part.array ? strdup(part.array) : NULL;
    private->parts = parts ? parts : private->parts;
    if (!parts || !name || (part.array && !array)) {
        free(name);
        free(array);
        return error_set(err, STATUS_NO_MEMORY, "no memory for parts of a split");
    }
    part.name = name;
    part.array = array;
    parts[private->part_count++] = part;
    return STATUS_OK;
}

/* Adds the frames [first, end) to what the part has. */
static void count_frames(const struct making *making, uint64_t first, uint64_t end,
                         struct dataset_part *part)
{
    struct split_groups groups = {0};
    group_by_episode(making, &groups);
    size_t run = count_up_to_u64(groups.ends, groups.run_count, first);
    for (uint64_t begin = first; run < groups.run_count && begin < end; run++) {
        part->runs += begin < groups.ends[run];
        begin = groups.ends[run];
    }
    part->first = part->frames > 0 ? part->first : first;
    part->end = end;
    part->frames += end - first;
    part->pieces++;
}

/* What all parts have. A walk over single frames would take as long as the rest of the start. */
static enum status note_parts(struct making *making, const struct split_options *options,
                              const struct split_groups *groups, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t p = 0; p < options->part_count && groups->ends && status == STATUS_OK; p++) {
        struct split_options one = *options;
        struct split split;
        one.part = options->parts[p].name;
        status = split_init(&one, groups, &split, err);
        if (status != STATUS_OK)
            break;
        struct split_content content = split_content(&split, groups);
        status = add_part(making->dataset->private,
                          (struct dataset_part){.name = (char *)one.part,
                                                .runs = content.runs,
                                                .frames = content.frames,
                                                .first = content.first,
                                                .end = content.end},
                          err);
    }
    return status;
}

/* By shares of groups, and by numbers of frames
 * ---------------------------------------------------------------------------------------------- */

static enum status split_by_shares(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    struct split_part parts[SPLIT_MOST_PARTS] = {0};
    struct split_options options = {.parts = parts,
                                    .part_count = spec->split_part_count,
                                    .part = spec->split_part,
                                    .seed = spec->split_seed};
    struct split_groups groups = {.store_frames = making->dataset->store_frames,
                                  .store_count = making->dataset->store_count};
    struct split split;
    for (size_t i = 0; i < spec->split_part_count && i < SPLIT_MOST_PARTS; i++)
        parts[i] = (struct split_part){spec->split_parts[i].name, spec->split_parts[i].fraction};
    enum status status = find_groups(making, &groups, err);
    if (status == STATUS_OK)
        status = split_init(&options, &groups, &split, err);
    if (status != STATUS_OK)
        return status;
    split_block(&split, &groups, making->blocked);
    return note_parts(making, &options, &groups, err);
}

static enum status split_by_numbers(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    uint64_t frames = making->dataset->frame_count;
    struct dataset_part part = {.name = (char *)""};
    enum status status = split_block_range(spec->split_begin, spec->split_end, spec->split_gap,
                                           frames, making->blocked, err);
    if (status != STATUS_OK)
        return status;
    count_frames(making, spec->split_begin ? add_sat(spec->split_begin, spec->split_gap) : 0,
                 min_u64(spec->split_end, frames), &part);
    return is_set(spec->split_part) ? STATUS_OK : add_part(making->dataset->private, part, err);
}

/* By ranges
 * ---------------------------------------------------------------------------------------------- */

bool making_has_ranges(const struct dataset_samples_spec *spec)
{
    return spec->split_part_count > 0 && spec->split_parts[0].range;
}

static int compare_runs(const void *a, const void *b)
{
    const struct frame_range_run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

/* INVALID: two parts have one frame. Sorts the runs by frame. */
static enum status refuse_overlaps(const struct making *making, struct frame_ranges *found,
                                   struct error *err)
{
    const struct samples_part *parts = making->spec->split_parts;
    char date[DATASET_DATE_BYTES];
    qsort(found->runs, found->count, sizeof *found->runs, compare_runs);
    for (size_t i = 1; i < found->count; i++) {
        const struct frame_range_run *run = &found->runs[i], *before = run - 1;
        if (before->end <= run->first)
            continue;
        dataset_date(making->dataset, found->array, run->first, date);
        return error_set(err, STATUS_INVALID,
                         "samples.split_parts: parts '%s' and '%s' both have frame %" PRIu64
                         ", at %s",
                         parts[before->range].name, parts[run->range].name, run->first, date);
    }
    return STATUS_OK;
}

/* Blocks all frames but those of the range `wanted`, and notes each range under its name. */
static enum status take_ranges(struct making *making, const struct frame_ranges *found,
                               size_t wanted, const char *const *names, size_t count,
                               struct error *err)
{
    struct dataset_private *private = making->dataset->private;
    uint64_t open = 0, gap = making->spec->split_gap;
    enum status status = STATUS_OK;
    for (size_t p = 0; status == STATUS_OK && p < count; p++) {
        struct dataset_part part = {.name = (char *)names[p], .array = found->array};
        for (size_t i = 0; i < found->count; i++) {
            const struct frame_range_run *run = &found->runs[i];
            uint64_t first = run->begins ? run->first : add_sat(run->first, gap);
            if (run->range != p || first >= run->end)
                continue;
            count_frames(making, first, run->end, &part);
            if (p != wanted)
                continue;
            bits_set(making->blocked, open, first);
            open = run->end;
        }
        status = add_part(private, part, err);
        if (status == STATUS_OK && part.frames == 0 && p == wanted)
            status =
                error_set(err, STATUS_INVALID,
                          "samples.split%s%s has no frame behind a gap of %" PRIu64 " frame%s",
                          *names[p] ? "_parts: part " : "_range", names[p], gap, count_plural(gap));
    }
    if (status == STATUS_OK)
        bits_set(making->blocked, open, making->dataset->frame_count);
    return status;
}

static enum status split_by_ranges(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    struct range ranges[SPLIT_MOST_PARTS];
    const char *names[SPLIT_MOST_PARTS] = {""};
    bool has_parts = making_has_ranges(spec);
    size_t count = has_parts ? min_u64(spec->split_part_count, SPLIT_MOST_PARTS) : 1, wanted = 0;
    const char *option = has_parts ? "samples.split_parts" : "samples.split_range";
    struct frame_ranges found = {0};
    if (count < spec->split_part_count)
        return error_set(err, STATUS_INVALID, "samples.split has more than %d parts",
                         SPLIT_MOST_PARTS);
    for (size_t p = 0; p < count; p++) {
        const char *text = has_parts ? spec->split_parts[p].range : spec->split_range;
        if (!range_parse(text, &ranges[p]))
            return error_set(err, STATUS_INVALID, "%s: '%s' is no range of dates", option,
                             text_shown(text).text);
        names[p] = has_parts ? spec->split_parts[p].name : "";
        wanted = has_parts && strcmp(names[p], spec->split_part) == 0 ? p : wanted;
    }
    enum status status =
        frame_ranges_find(making->dataset, making->options, option, ranges, count, &found, err);
    if (status == STATUS_OK)
        status = refuse_overlaps(making, &found, err);
    if (status == STATUS_OK)
        status = take_ranges(making, &found, wanted, names, count, err);
    frame_ranges_done(&found);
    return status;
}

enum status making_split(struct making *making, struct error *err)
{
    const struct dataset_samples_spec *spec = making->spec;
    bool has_parts = is_set(spec->split_part), has_range = spec->split_end > 0;
    bool by_ranges = is_set(spec->split_range) || (has_parts && making_has_ranges(spec));
    if (!has_parts && !has_range && !by_ranges)
        return STATUS_OK;
    enum status status = making_bits(making, &making->blocked, err);
    if (status == STATUS_OK && by_ranges)
        return split_by_ranges(making, err);
    if (status == STATUS_OK && has_parts)
        status = split_by_shares(making, err);
    if (status == STATUS_OK && has_range)
        status = split_by_numbers(making, err);
    return status;
}

enum status making_mark(struct making *making, const char *option, const struct range_list *list,
                        enum dataset_part_kind kind, uint64_t *bits, struct error *err)
{
    struct frame_ranges found;
    size_t i = 0;
    enum status status = frame_ranges_find(making->dataset, making->options, option, list->ranges,
                                           list->count, &found, err);
    if (status != STATUS_OK)
        return status;
    for (size_t r = 0; status == STATUS_OK && r < list->count; r++) {
        struct dataset_part part = {kind, .name = list->texts[r], .array = found.array};
        for (; i < found.count && found.runs[i].range == r; i++) {
            bits_set(bits, found.runs[i].first, found.runs[i].end);
            count_frames(making, found.runs[i].first, found.runs[i].end, &part);
        }
        status = add_part(making->dataset->private, part, err);
    }
    frame_ranges_done(&found);
    return status;
}
