/* A dataset's fingerprint: 44 bits of everything that decides which bytes sample i is, and in which
 * order samples come, but not of where they lie. Then come 4 bits of each aspect that may differ,
 * so that two fingerprints alone mostly tell which aspect differs.
 *
 *     | hash of all 44 | fields 4 | samples 4 | shapes 4 | dtypes 4 | chunks 4 |
 */
#include "dataset/open/open.h"

#include "dataset/fields/slices.h"
#include "dataset/panel.h"

#include <inttypes.h>
#include <xxhash.h>

enum { ASPECT_COUNT = 5, ASPECT_BITS = 4 };

/* In order of the bits, lowest last. */
static const char *const aspect_names[ASPECT_COUNT] = {
    "names of fields or arrays",
    "number or choice of samples",
    "shapes or steps of samples",
    "dtypes or scaling",
    "chunk shapes",
};

static void append_shape(const uint64_t *shape, int first, int rank, struct text *out)
{
    for (int i = first; i < rank; i++)
        text_append(out, " %" PRIu64, shape[i]);
    text_append(out, "\n");
}

static void append_steps(const struct field_origin *origin, struct text *out)
{
    for (size_t i = 0; i < origin->step_count; i++)
        text_append(out, i ? ",%" PRId32 : " steps %" PRId32, origin->steps[i]);
    for (size_t i = 0; i < origin->phase_count; i++)
        text_append(out, " from %" PRIu64 " %zu", origin->phases[i].epoch,
                    origin->phases[i].step_count);
}

/* The random crop of a field; nothing where there is none. */
static void append_crop(const struct dataset_crop *crop, struct text *out)
{
    for (int k = 0; crop && k < crop->axis_count; k++)
        text_append(out, " crop %" PRIu64 "/%" PRIu64 " of group %" PRIu32, crop->lengths[k],
                    crop->choices[k], crop->group);
}

/* A field with a store of its own: the first field that has the store, wherever that lies, and
 * which items frames have. */
static void append_own_store(const struct dataset *dataset, size_t own_store,
                             const int64_t *matches, struct text *text)
{
    const struct field_origin *first = dataset->private->origins;
    if (own_store == 0)
        return;
    while (own_store != (first->ragged ? first->ragged->own_store : first->own_store))
        first++;
    text_append(text, " of the store of '%s'", first->name);
    if (matches)
        text_append(text, " matches %016" PRIx64,
                    XXH3_64bits(matches, dataset->frame_count * sizeof *matches));
}

static void append_array(const struct zarr_array *array, struct text *aspects)
{
    append_shape(array->shape, 1, array->rank, &aspects[2]);
    text_append(&aspects[3], "%s%s\n", dtype_name(array->dtype), array->stored_type);
    if (array->convert.to != DTYPE_NONE)
        text_append(&aspects[3], "%s %a %a\n", dtype_name(array->convert.from),
                    array->convert.scale, array->convert.offset);
    append_shape(array->chunk_shape, 0, array->rank, &aspects[4]);
}

/* How trainers get it, which settles shapes and what is in them. */
static void append_form(const struct ragged *ragged, struct text *out)
{
    text_append(out, " form %d pad %" PRIu64 " truncate %d combine %d dense", (int)ragged->form,
                ragged->pad_items, (int)ragged->truncates, (int)ragged->combine);
    if (ragged->multiple > 0)
        text_append(out, " multiple %" PRIu64, ragged->multiple);
    append_shape(ragged->dense_shape, 0, ragged->dense_rank, out);
}

/* The panel counts by the numbers of its columns, not by names. */
static void append_panel(const struct ragged_origin *origin, struct text *out)
{
    struct text columns = {0};
    if (!origin->panel)
        return;
    slices_put(&origin->panel->slice, &columns);
    text_append(out, " panel of %zu %016" PRIx64 " %016" PRIx64, origin->panel->column,
                XXH3_64bits(columns.data, columns.length), origin->lengths->panel_hash);
    text_done(&columns);
}

static void append_ragged(const struct dataset *dataset, size_t r, struct text *aspects)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    text_append(&aspects[0], "ragged '%s' by '%s'", origin->name, origin->offsets.node->array.path);
    text_append(&aspects[1], " offsets %016" PRIx64, origin->lengths->offsets_hash);
    append_form(&dataset->ragged[r], &aspects[2]);
    append_panel(origin, &aspects[2]);
    text_append(&aspects[3], "%s ", dtype_name(origin->cell));
    for (size_t c = 0; c < origin->column_count; c++) {
        text_append(&aspects[0], " '%s'", origin->columns[c].node->array.path);
        append_array(&origin->columns[c].views[0], aspects);
    }
    if (origin->index.node) {
        text_append(&aspects[0], "['%s']", origin->index.node->array.path);
        append_array(&origin->index.views[0], aspects);
    }
}

static void describe_aspects(const struct dataset *dataset, struct text *aspects)
{
    text_append(&aspects[1], "%" PRIu64, dataset->sample_count);
    if (dataset->anchors)
        text_append(&aspects[1], " at %016" PRIx64, anchors_hash(dataset->anchors));
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        append_steps(origin, &aspects[2]);
        append_crop(dataset->fields[i].crop, &aspects[2]);
        if (!origin->array)
            continue;
        text_append(&aspects[0], "'%s' '%s'", origin->name, origin->array->array.path);
        append_own_store(dataset, origin->own_store, NULL, &aspects[0]);
        append_array(&origin->store_fields[0].array, aspects);
        if (!origin->index)
            continue;
        text_append(&aspects[0], "['%s']", origin->index->array.path);
        append_array(&origin->store_fields[0].index, aspects);
    }
    for (size_t r = 0; r < dataset->ragged_count; r++)
        append_ragged(dataset, r, aspects);
}

/* What one store adds; of the first it is as it was before there could be several. */
static void describe_store(const struct field_origin *origin, size_t store, struct text *text)
{
    text_append(text, store == 0 ? "array '%s' " : " then '%s' ", origin->array->array.path);
    zarr_array_identify(&origin->store_fields[store].array, text);
    if (origin->index) {
        text_append(text, " index '%s' ", origin->index->array.path);
        zarr_array_identify(&origin->store_fields[store].index, text);
    }
    if (origin->matches)
        text_append(text, " match %d ", (int)origin->match);
}

/* Which frames are samples, and what stands at missing steps. */
static void describe_samples(const struct dataset *dataset, struct text *text)
{
    const struct dataset_private *private = dataset->private;
    text_append(text, "anchors %016" PRIx64 " fill %d\n", anchors_hash(dataset->anchors),
                (int)private->fill);
    if (private->document_count > 0)
        text_append(text, "documents %016" PRIx64 "\n",
                    XXH3_64bits(private->document_ends,
                                private->document_count * sizeof *private->document_ends));
}

/* The offsets count as what they say, however they are stored. */
static void describe_ragged(const struct dataset *dataset, size_t r, struct text *text)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    text_append(text, "ragged '%s' indices %zu values %d cell %s offsets %016" PRIx64, origin->name,
                origin->index_count, (int)origin->has_values, dtype_name(origin->cell),
                origin->lengths->offsets_hash);
    append_form(&dataset->ragged[r], text);
    append_panel(origin, text);
    for (size_t k = 0; k < origin->step_count; k++)
        text_append(text, k ? ",%" PRId32 : "steps %" PRId32, origin->steps[k]);
    for (size_t c = 0; c < origin->column_count; c++)
        for (size_t s = 0; s < dataset->store_count; s++) {
            text_append(text, " column '%s' ", origin->columns[c].node->array.path);
            zarr_array_identify(&origin->columns[c].views[s], text);
        }
    for (size_t s = 0; origin->index.node && s < dataset->store_count; s++) {
        text_append(text, " index '%s' ", origin->index.node->array.path);
        zarr_array_identify(&origin->index.views[s], text);
    }
    append_own_store(dataset, origin->own_store, NULL, text);
    text_append(text, "\n");
}

/* Of stores that have snapshots, which one is read. */
static void describe_snapshots(const struct dataset *dataset, struct text *text)
{
    const char *name;
    for (size_t i = 0; i < dataset->private->store_count; i++) {
        const char *id = store_snapshot(store_joined_at(dataset->private->store, i, &name));
        if (id)
            text_append(text, "store %zu at snapshot %s\n", i, id);
    }
}

static void describe_all(const struct dataset *dataset, struct text *text)
{
    text_append(text, "penstock dataset 2\nsamples %" PRIu64 " rows of %" PRIu64 "%s\n",
                dataset->sample_count, dataset->row_length,
                dataset->private->store_count > 1 ? " of each store" : "");
    for (size_t i = 0; i < dataset->field_count; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (dataset->fields[i].source == FIELD_MADE && origin->made == MADE_SOURCE)
            continue; /* alone, the dataset has no such field */
        text_append(text, "field '%s' ", origin->name);
        for (size_t store = 0; origin->array && store < dataset->private->store_count; store++)
            describe_store(origin, store, text);
        append_own_store(dataset, origin->own_store, origin->matches, text);
        append_steps(origin, text);
        append_crop(dataset->fields[i].crop, text);
        text_append(text, "\n");
    }
    for (size_t r = 0; r < dataset->ragged_count; r++)
        describe_ragged(dataset, r, text);
    if (dataset->anchors)
        describe_samples(dataset, text);
    describe_snapshots(dataset, text);
}

/* The highest `bits` of the text's hash; empties the text. */
static uint64_t take_hash(struct text *text, int bits)
{
    uint64_t hash = XXH3_64bits(text->data, text->length) >> (64 - bits);
    text_done(text);
    return hash;
}

static uint64_t join_hashes(struct text *all, struct text aspects[ASPECT_COUNT])
{
    uint64_t fingerprint = take_hash(all, 64 - ASPECT_COUNT * ASPECT_BITS);
    for (int i = 0; i < ASPECT_COUNT; i++)
        fingerprint = fingerprint << ASPECT_BITS | take_hash(&aspects[i], ASPECT_BITS);
    return fingerprint;
}

uint64_t fingerprint_of(const struct dataset *dataset)
{
    struct text all = {0}, aspects[ASPECT_COUNT] = {0};
    describe_all(dataset, &all);
    describe_aspects(dataset, aspects);
    return join_hashes(&all, aspects);
}

/* All sources' bits of each aspect together. */
uint64_t fingerprint_of_mix(const struct dataset *mix)
{
    struct text all = {0}, aspects[ASPECT_COUNT] = {0};
    for (uint32_t d = 0; d < mix->source_count; d++) {
        uint64_t source = mix->sources[d]->fingerprint;
        text_append(&all, "%016" PRIx64 "\n", source);
        for (int i = 0; i < ASPECT_COUNT; i++)
            text_append(&aspects[i], "%" PRIx64,
                        source >> (ASPECT_COUNT - 1 - i) * ASPECT_BITS & ((1 << ASPECT_BITS) - 1));
    }
    return join_hashes(&all, aspects);
}

void dataset_compare_fingerprints(uint64_t a, uint64_t b, struct text *out)
{
    bool named = false;
    for (int i = 0; i < ASPECT_COUNT; i++) {
        int shift = (ASPECT_COUNT - 1 - i) * ASPECT_BITS;
        if (((a ^ b) >> shift & ((1 << ASPECT_BITS) - 1)) == 0)
            continue;
        text_append(out, "%s%s", named ? ", " : "", aspect_names[i]);
        named = true;
    }
    if (!named)
        text_append(out, "probably codecs, fill values, slices or the snapshot of an Icechunk "
                         "repository");
}
