/* The store with the statistics: Zarr v3, a group for each field, an array for each statistic, with
 * the axes of a frame, of which those that are not kept have the length 1. See stats.h. */
#include "workshop/stats/stats.h"

#include "store/store.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct array {
    const char *name, *dtype;
    const struct stats_field *field; /* NULL: the quantiles themselves */
    bool has_quantiles;
    const void *data;
    size_t bytes;
};

/* "key": [a, b] of quantiles, if there are such, and of the frame's axes. */
static void append_axes(const struct stats *stats, const struct array *array, const char *key,
                        bool names, struct text *out)
{
    const char *comma = "";
    text_append(out, "\"%s\":[", key);
    if (array->has_quantiles) {
        if (names)
            text_append(out, "\"quantile\"");
        else
            text_append(out, "%zu", stats->quantile_count);
        comma = ",";
    }
    for (int axis = 0; array->field && axis < array->field->rank; axis++, comma = ",") {
        uint64_t length = array->field->kept[axis] ? array->field->lengths[axis] : 1;
        text_append(out, "%s", comma);
        if (!names)
            text_append(out, "%" PRIu64, length);
        else if (array->field->axis_names[axis][0])
            text_append_json(out, array->field->axis_names[axis]);
        else
            text_append(out, "null");
    }
    text_append(out, "]");
}

static void append_document(const struct stats *stats, const struct array *array, struct text *out)
{
    text_append(out, "{\"zarr_format\":3,\"node_type\":\"array\",\"data_type\":\"%s\",",
                array->dtype);
    append_axes(stats, array, "shape", false, out);
    text_append(out, ",\"chunk_grid\":{\"name\":\"regular\",\"configuration\":{");
    append_axes(stats, array, "chunk_shape", false, out);
    text_append(out,
                "}},\"chunk_key_encoding\":{\"name\":\"default\",\"configuration\":"
                "{\"separator\":\"/\"}},\"fill_value\":0,\"codecs\":[{\"name\":\"bytes\","
                "\"configuration\":{\"endian\":\"%s\"}}],",
                __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "little" : "big");
    append_axes(stats, array, "dimension_names", true, out);
    text_append(out, ",\"attributes\":{}}\n");
}

static enum status put_array(const struct stats *stats, const struct store *store,
                             const struct array *array, struct error *err)
{
    struct text key = {0}, document = {0};
    int rank = (array->field ? array->field->rank : 0) + array->has_quantiles;
    const char *field = array->field ? array->field->name : "", *slash = array->field ? "/" : "";
    text_append(&key, "%s%s%s/c", field, slash, array->name);
    for (int axis = 0; axis < rank; axis++)
        text_append(&key, "/0");
    enum status status = store_put(store, key.data, array->data, array->bytes, err);
    append_document(stats, array, &document);
    text_done(&key);
    text_append(&key, "%s%s%s/zarr.json", field, slash, array->name);
    if (status == STATUS_OK)
        status = store_put(store, key.data, document.data, document.length, err);
    text_done(&key);
    text_done(&document);
    return status;
}

static double value_of(const struct stats_moments *moments, int what)
{
    if (moments->count == 0)
        return NAN;
    switch (what) {
    case 0:
        return moments->origin + moments->mean;
    case 1:
        return sqrt(moments->squares / (double)moments->count);
    case 2:
        return moments->least;
    default:
        return moments->greatest;
    }
}

static enum status put_moments(const struct stats *stats, const struct store *store,
                               const struct stats_field *field, uint64_t *room, struct error *err)
{
    static const char *const names[] = {"mean", "std", "min", "max"};
    struct array array = {.field = field, .data = room, .bytes = field->entry_count * 8};
    enum status status = STATUS_OK;
    for (int what = 0; what < 4 && status == STATUS_OK; what++) {
        for (uint64_t e = 0; e < field->entry_count; e++)
            ((double *)room)[e] = value_of(&field->moments[e], what);
        array.name = names[what];
        array.dtype = "float64";
        status = put_array(stats, store, &array, err);
    }
    for (uint64_t e = 0; e < field->entry_count; e++)
        room[e] = field->moments[e].count;
    array.name = "count";
    array.dtype = "uint64";
    return status != STATUS_OK ? status : put_array(stats, store, &array, err);
}

static enum status put_quantiles(const struct stats *stats, const struct store *store,
                                 const struct stats_field *field, double *room, struct error *err)
{
    const struct array array = {.name = "quantiles",
                                .dtype = "float64",
                                .field = field,
                                .has_quantiles = true,
                                .data = room,
                                .bytes = field->entry_count * stats->quantile_count * 8};
    for (size_t q = 0; q < stats->quantile_count; q++)
        for (uint64_t e = 0; e < field->entry_count; e++)
            room[q * field->entry_count + e] = stats_quantile(field, e, stats->quantiles[q]);
    return put_array(stats, store, &array, err);
}

static enum status put_group(const struct store *store, const char *name, const char *attributes,
                             struct error *err)
{
    struct text key = {0}, document = {0};
    text_append(&key, "%s%szarr.json", name, *name ? "/" : "");
    text_append(&document, "{\"zarr_format\":3,\"node_type\":\"group\",\"attributes\":{%s}}\n",
                attributes);
    enum status status = store_put(store, key.data, document.data, document.length, err);
    text_done(&key);
    text_done(&document);
    return status;
}

static enum status put_field(const struct stats *stats, const struct store *store,
                             const struct stats_field *field, struct error *err)
{
    double *room = calloc(field->entry_count * (stats->quantile_count + 1), sizeof *room);
    if (!room)
        return error_set(err, STATUS_NO_MEMORY, "no memory for statistics");
    enum status status = put_moments(stats, store, field, (uint64_t *)(void *)room, err);
    if (status == STATUS_OK && stats->quantile_count > 0)
        status = put_quantiles(stats, store, field, room, err);
    free(room);
    return status != STATUS_OK ? status : put_group(store, field->name, "", err);
}

enum status stats_write(const struct stats *stats, const char *path, const char *request,
                        struct error *err)
{
    const struct array quantiles = {.name = "quantile",
                                    .dtype = "float64",
                                    .has_quantiles = true,
                                    .data = stats->quantiles,
                                    .bytes = stats->quantile_count * sizeof *stats->quantiles};
    struct text attributes = {0};
    struct store *store;
    enum status status = store_open(path, &store, err);
    if (status != STATUS_OK)
        return status;
    for (size_t f = 0; f < stats->field_count && status == STATUS_OK; f++)
        status = put_field(stats, store, &stats->fields[f], err);
    if (status == STATUS_OK && stats->quantile_count > 0)
        status = put_array(stats, store, &quantiles, err);
    text_append(&attributes, "\"penstock_stats\":\"%s\"", request);
    if (status == STATUS_OK)
        status = put_group(store, "", attributes.data, err);
    text_done(&attributes);
    store_free(store);
    return status;
}
