/* Made fields: what a sample says of the steps of another field. See dataset.h. */
#include "dataset/open/settle.h"

#include "dataset/fields/select.h"

#include "base/number.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const suffixes[] = {
    [MADE_VALID] = "valid", [MADE_SEGMENT] = "segment", [MADE_POSITION] = "position",
    [MADE_CROP] = "crop",   [MADE_OFFSETS] = "offsets", [MADE_LENGTH] = "length"};

static const char source_name[] = "source";

/* Adds NAME.valid, say, that is made for the field `of`. */
static enum status add(struct dataset *dataset, const struct field_origin *of, const char *of_name,
                       enum field_made made, struct error *err)
{
    struct field_origin *origin = &dataset->private->origins[dataset->field_count];
    char name[DATASET_NAME_BYTES + 16];
    if (dataset->field_count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "more than %d fields, with '%s.%s'",
                         DATASET_MAX_FIELDS, of_name, suffixes[made]);
    *origin = (struct field_origin){.made = made};
    if (made != MADE_CROP) {
        origin->steps = of->steps;
        origin->step_count = of->step_count;
        origin->phase_count = of->phase_count;
        memcpy(origin->phases, of->phases, sizeof origin->phases);
    }
    memcpy(origin->made_for, of->name, sizeof origin->made_for);
    snprintf(name, sizeof name, "%s.%s", of_name, suffixes[made]);
    dataset->field_count++;
    return select_set_name(origin, name, err);
}

static enum status add_for(struct dataset *dataset, size_t i, struct error *err)
{
    const struct field_origin *origin = &dataset->private->origins[i];
    enum status status = STATUS_OK;
    if (origin->step_count > 0 && dataset->private->pad_before + dataset->private->pad_after > 0)
        status = add(dataset, origin, origin->name, MADE_VALID, err);
    if (status == STATUS_OK && origin->is_cropped)
        status = add(dataset, origin, origin->name, MADE_CROP, err);
    if (status == STATUS_OK && origin->segments)
        status = add(dataset, origin, origin->name, MADE_SEGMENT, err);
    if (status == STATUS_OK && origin->segments)
        status = add(dataset, origin, origin->name, MADE_POSITION, err);
    return status;
}

/* The field that tells the sources of a mix apart. */
static enum status add_source(struct dataset *dataset, struct error *err)
{
    struct field_origin *origin = &dataset->private->origins[dataset->field_count];
    for (size_t i = 0; i < dataset->field_count; i++)
        if (strcmp(dataset->private->origins[i].name, source_name) == 0)
            return error_set(err, STATUS_INVALID,
                             "a field is named '%s', as is the field of a mix that says which "
                             "source a sample is of: give the field another name in dataset.fields",
                             source_name);
    if (dataset->field_count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "more than %d fields, with '%s'", DATASET_MAX_FIELDS,
                         source_name);
    *origin = (struct field_origin){.made = MADE_SOURCE};
    memcpy(origin->made_for, source_name, sizeof source_name);
    dataset->field_count++;
    return select_set_name(origin, source_name, err);
}

/* The first column, or the tensor, of a ragged field. */
static const struct field_origin *find_items(const struct dataset *dataset,
                                             const struct ragged_origin *ragged)
{
    const struct field_origin *origin = dataset->private->origins;
    while (origin->ragged != ragged)
        origin++;
    return origin;
}

/* A field that says something of a ragged field. */
static enum status add_ragged(struct dataset *dataset, const struct ragged_origin *ragged,
                              enum field_made made, struct error *err)
{
    struct field_origin of = *find_items(dataset, ragged);
    struct field_origin *origin = &dataset->private->origins[dataset->field_count];
    of.steps = ragged->steps;
    of.step_count = made == MADE_OFFSETS ? 0 : ragged->step_count;
    enum status status = add(dataset, &of, ragged->name, made, err);
    if (status == STATUS_OK && made != MADE_VALID)
        origin->ragged = ragged;
    return status;
}

static enum status add_for_ragged(struct dataset *dataset, const struct ragged_origin *ragged,
                                  struct error *err)
{
    enum status status = STATUS_OK;
    if (ragged->deliver.form == RAGGED_CSR)
        status = add_ragged(dataset, ragged, MADE_OFFSETS, err);
    bool has_lengths = ragged->deliver.form == RAGGED_PAD || ragged->deliver.form == RAGGED_BOUND ||
                       ragged->deliver.multiple > 0;
    if (status == STATUS_OK && has_lengths)
        status = add_ragged(dataset, ragged, MADE_LENGTH, err);
    if (status == STATUS_OK && ragged->step_count > 0 &&
        dataset->private->pad_before + dataset->private->pad_after > 0)
        status = add_ragged(dataset, ragged, MADE_VALID, err);
    return status;
}

enum status made_fields_add(struct dataset *dataset, struct error *err)
{
    size_t count = dataset->field_count;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        if (!dataset->private->origins[i].ragged)
            status = add_for(dataset, i, err);
    for (size_t r = 0; status == STATUS_OK && r < dataset->ragged_count; r++)
        status = add_for_ragged(dataset, &dataset->private->ragged_origins[r], err);
    if (status == STATUS_OK && dataset->private->mix)
        status = add_source(dataset, err);
    if (status == STATUS_OK && dataset->field_count > count)
        status = select_sort(dataset->private->origins, dataset->field_count, err);
    return status;
}

static void make_valid(const struct dataset_field *field, uint64_t frame,
                       struct anchors_episode episode, unsigned char *out)
{
    for (size_t i = 0; i < field->step_count; i++) {
        uint64_t at = frame + (uint64_t)(int64_t)field->steps[i]; /* wraps below 0 */
        out[i] = at >= episode.first && at < episode.end;
    }
}

/* Documents and positions are counted anew in each sample: the first document begins with the
 * sample's first real step. */
static void make_documents(const struct dataset *dataset, const struct dataset_field *field,
                           uint64_t frame, struct anchors_episode episode, int32_t *out)
{
    const struct dataset_private *private = dataset->private;
    uint64_t begin = 0, end = 0; /* of the document that the step is in */
    int32_t segment = 0;
    for (size_t i = 0; i < field->step_count; i++) {
        uint64_t at = frame + (uint64_t)(int64_t)field->steps[i];
        if (at < episode.first || at >= episode.end) {
            out[i] = 0;
            continue;
        }
        if (at >= end) {
            size_t document = count_up_to_u64(private->document_ends, private->document_count, at);
            begin = segment > 0 ? private->document_ends[document - 1] : at;
            end = private->document_ends[document];
            segment++;
        }
        out[i] = field->made == MADE_SEGMENT ? segment : (int32_t)(at - begin);
    }
}

static void make_lengths(const struct dataset *dataset, const struct ragged *ragged, uint64_t frame,
                         int32_t *out)
{
    size_t count = ragged->step_count > 0 ? ragged->step_count : 1;
    struct anchors_episode episode = {0};
    if (ragged->step_count > 0)
        episode = anchors_episode_of(dataset->anchors, frame);
    for (size_t k = 0; k < count; k++) {
        struct ragged_span span = ragged_step(ragged, &episode, frame, k);
        out[k] = (int32_t)(span.end - span.begin);
    }
}

void dataset_make(const struct dataset *dataset, size_t field, uint64_t frame, uint64_t key,
                  void *out)
{
    const struct dataset_field *made = &dataset->fields[field];
    assert(made->source == FIELD_MADE && dataset->source_count == 0);
    if (made->made == MADE_SOURCE) {
        *(int32_t *)out = (int32_t)dataset->source;
        return;
    }
    if (made->made == MADE_CROP) {
        crop_origins(dataset->fields[made->made_for].crop, key, out);
        return;
    }
    assert(made->made != MADE_OFFSETS); /* of all samples of a batch together */
    if (made->made == MADE_LENGTH) {
        make_lengths(dataset, made->ragged, frame, out);
        return;
    }
    struct anchors_episode episode = anchors_episode_of(dataset->anchors, frame);
    if (made->made == MADE_VALID)
        make_valid(made, frame, episode, out);
    else
        make_documents(dataset, made, frame, episode, out);
}
