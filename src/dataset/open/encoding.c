/* The attributes of fields' arrays (zarr/hierarchy/attributes.h): checks that stores agree, and
 * says what the user should hear of before a run. Called while opening or later, by one thread. */
#include "dataset/open/settle.h"

#include "dataset/frames/frames.h"
#include "zarr/chunk/separator.h"
#include "zarr/hierarchy/attributes.h"
#include "zarr/hierarchy/cf.h"

#include <string.h>

enum { MANY_STORES = 16 }; /* those behind are not asked about names of chunks */

static const char *or_none(const char *value)
{
    return value[0] ? value : "none";
}

/* Fill values of v2 arrays, and lists too long to be compared as text. */
static enum status check_cf(const struct dataset *dataset, size_t store,
                            const struct field_origin *origin, const struct zarr_node *node,
                            struct error *err)
{
    struct zarr_cf first, here;
    enum status status = zarr_node_cf(origin->array, &first, err);
    if (status == STATUS_OK)
        status = zarr_node_cf(node, &here, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "field '%s': store %s: ", origin->name,
                            dataset_store_text(dataset, store).text);
    if (first.missing_count == here.missing_count &&
        memcmp(first.missing, here.missing, sizeof first.missing) == 0)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "field '%s': cf: other values are missing in its array in the store %s than in "
        "%s (_FillValue, missing_value, or the fill_value of v2): write one of them "
        "anew, or leave the field out",
        origin->name, dataset_store_text(dataset, store).text, dataset_store_text(dataset, 0).text);
}

enum status encoding_check(const struct dataset *dataset, size_t store,
                           const struct field_origin *origin, const struct zarr_node *node,
                           struct error *err)
{
    struct zarr_encoding first, here;
    const char *a, *b;
    zarr_node_encoding(origin->array, &first);
    zarr_node_encoding(node, &here);
    const char *property = zarr_encoding_conflict(&first, &here, &a, &b);
    if (!property && origin->is_cf)
        return check_cf(dataset, store, origin, node, err);
    if (!property)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "field '%s': attribute %s of its array is %s in the store %s, %s in %s: values "
        "of joined stores mean the same; write one of them anew, or leave the field out",
        origin->name, property, or_none(a), dataset_store_text(dataset, 0).text, or_none(b),
        dataset_store_text(dataset, store).text);
}

/* Values that xarray would convert, and a run does not, unless the field says something of it. */
static void describe_encoding(const struct field_origin *origin, struct text *out)
{
    struct zarr_encoding encoding;
    struct zarr_cf cf;
    if (origin->is_cf && zarr_node_cf(origin->array, &cf, NULL) == STATUS_OK && cf.zero_is_fill)
        text_append(out,
                    "warning: field '%s': cf takes 0 for missing, as xarray does, since the "
                    "fill_value of array '%s' is 0: write null there if 0 is data\n",
                    text_shown(origin->name).text, text_shown(origin->array->array.path).text);
    zarr_node_encoding(origin->array, &encoding);
    if (origin->scale_is_given || !zarr_encoding_changes(&encoding))
        return;
    text_append(out, "warning: field '%s': array '%s' has ", text_shown(origin->name).text,
                text_shown(origin->array->array.path).text);
    zarr_encoding_describe(&encoding, out);
    text_append(out,
                " (as xarray writes them), and comes as it is stored: set cf: true of the field "
                "to convert it, or scale: 1 if this is meant (dataset.fields)\n");
}

static void describe_names(const struct dataset *dataset, const struct zarr_array *array,
                           struct text *out)
{
    char own[ZARR_KEY_BYTES], other[ZARR_KEY_BYTES];
    if (!zarr_finds_other_separator(dataset->private->store, array, own, other))
        return;
    text_append(out, "warning: array '%s': ", text_shown(array->path).text);
    zarr_describe_other_separator(own, other, out);
    text_append(out, "\n");
}

/* Attributes that trainers do not get. */
static void describe_attributes(const struct field_origin *origin, struct text *out)
{
    struct text attributes = {0}, left_out = {0};
    zarr_node_attributes(origin->array, &attributes, &left_out);
    if (left_out.length > 0)
        text_append(out,
                    "warning: field '%s': trainers do not get these attributes of array '%s', "
                    "which are null, larger than %d bytes, or behind the first %d KiB: %s\n",
                    text_shown(origin->name).text, text_shown(origin->array->array.path).text,
                    ZARR_TOLD_BYTES, ZARR_TOLD_ALL_BYTES / 1024, text_shown(left_out.data).text);
    text_done(&left_out);
    text_done(&attributes);
}

void dataset_field_attributes(const struct dataset *dataset, size_t field, struct text *out)
{
    const struct field_origin *origin = &dataset_source(dataset, 0)->private->origins[field];
    const struct ragged_origin *ragged = origin->is_items ? origin->ragged : NULL;
    if (origin->array)
        zarr_node_attributes(origin->array, out, NULL);
    else if (ragged && origin->column < ragged->column_count)
        zarr_node_attributes(ragged->columns[origin->column].node, out, NULL);
    else
        text_append(out, "{}");
}

void dataset_describe_doubts(const struct dataset *dataset, struct text *out)
{
    for (uint32_t d = 0; d < dataset->source_count; d++)
        dataset_describe_doubts(dataset->sources[d], out);
    if (dataset->source_count == 0)
        dataset_describe_snapshots(dataset, out);
    for (size_t i = 0; i < dataset->field_count && dataset->source_count == 0; i++) {
        const struct field_origin *origin = &dataset->private->origins[i];
        if (!origin->array)
            continue;
        describe_encoding(origin, out);
        describe_attributes(origin, out);
        for (size_t s = 0; s < dataset->private->store_count && s < MANY_STORES; s++)
            describe_names(dataset, &origin->store_fields[s].array, out);
    }
    if (dataset->source_count == 0)
        time_doubts_describe(dataset, out);
}
