/* See synth_documents.h. The names that go into documents are ours and need no escaping. */
#include "workshop/synth/synth_documents.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char attributes[] = "{\"title\": \"synthetic data, written by penstock synth\"}";

static void append_shape(const struct synth_array *array, int rank, uint64_t first,
                         struct text *out)
{
    text_append(out, "[%" PRIu64, first);
    for (int i = 1; i < rank; i++)
        text_append(out, ", %" PRIu64, array->shape[i]);
    text_append(out, "]");
}

/* "float16" as v2 says it: "<f2"; its letters for our kinds are the first ones of their names. */
static void append_v2_dtype(enum dtype dtype, struct text *out)
{
    const char *name = dtype_name(dtype);
    text_append(out, "\"%c%c%zu\"", dtype_bytes(dtype) > 1 ? '<' : '|', name[0],
                dtype_bytes(dtype));
}

/* The names of the axes, as members of a JSON list. */
static void append_dimensions(const struct synth_array *array, struct text *out)
{
    char names[128];
    snprintf(names, sizeof names, "%s", array->dimensions);
    char *rest = names, *name;
    const char *before = "";
    while ((name = strsep(&rest, " "))) {
        text_append(out, "%s\"%s\"", before, name);
        before = ", ";
    }
}

/* xarray's convention for v2 is an attribute; v3 has a member of its own. */
static void append_attributes(const struct synth_array *array, enum zarr_format format,
                              struct text *out)
{
    bool dimensions = array->dimensions && format == ZARR_V2;
    text_append(out, "{%s", array->attributes ? array->attributes : "");
    if (dimensions) {
        text_append(out, "%s\"_ARRAY_DIMENSIONS\": [", array->attributes ? ", " : "");
        append_dimensions(array, out);
        text_append(out, "]");
    }
    text_append(out, "}");
}

/* xarray takes a fill value for a missing one. */
static void append_v2(const struct synth_array *array, bool as_text,
                      const struct codec_chain *codecs, struct text *out)
{
    int rank = array->rank - as_text;
    text_append(out, "{\"zarr_format\": 2, \"shape\": ");
    append_shape(array, rank, array->shape[0], out);
    text_append(out, ", \"chunks\": ");
    append_shape(array, rank, array->chunk_length, out);
    text_append(out, ", \"dtype\": ");
    if (as_text)
        text_append(out, "\"<U%" PRIu64 "\"", array->shape[1]);
    else
        append_v2_dtype(array->dtype, out);
    text_append(out, ", \"compressor\": ");
    codec_chain_write_json(codecs, CODEC_ZARR_V2, out);
    text_append(out,
                ", \"fill_value\": %s, \"order\": \"C\", \"filters\": null, "
                "\"dimension_separator\": \".\"}",
                array->dimensions ? "null" : "0");
}

static void append_v3(const struct synth_array *array, bool as_text,
                      const struct codec_chain *codecs, struct text *out)
{
    int rank = array->rank - as_text;
    text_append(out, "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": ");
    append_shape(array, rank, array->shape[0], out);
    if (as_text)
        text_append(out,
                    ", \"data_type\": {\"name\": \"fixed_length_utf32\", \"configuration\": "
                    "{\"length_bytes\": %" PRIu64 "}}",
                    4 * array->shape[1]);
    else
        text_append(out, ", \"data_type\": \"%s\"", dtype_name(array->dtype));
    text_append(out, ", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": "
                     "{\"chunk_shape\": ");
    append_shape(array, rank, array->chunk_length, out);
    text_append(out,
                "}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": "
                "{\"separator\": \"/\"}}, \"fill_value\": %s, \"codecs\": [{\"name\": "
                "\"bytes\"",
                as_text                      ? "\"\""
                : array->dtype == DTYPE_BOOL ? "false"
                                             : "0");
    if (dtype_bytes(array->dtype) > 1)
        text_append(out, ", \"configuration\": {\"endian\": \"little\"}");
    text_append(out, "}");
    codec_chain_write_json(codecs, CODEC_ZARR_V3, out);
    text_append(out, "], \"attributes\": ");
    append_attributes(array, ZARR_V3, out);
    if (array->dimensions && array->text == as_text) {
        text_append(out, ", \"dimension_names\": [");
        append_dimensions(array, out);
        text_append(out, "]");
    }
    text_append(out, "}");
}

void synth_array_document(const struct synth_array *array, bool as_text, enum zarr_format format,
                          const struct codec_chain *codecs, struct text *out)
{
    if (format == ZARR_V2)
        append_v2(array, as_text, codecs, out);
    else
        append_v3(array, as_text, codecs, out);
}

static enum status put_text(const struct store *store, const char *key, const char *text,
                            struct error *err)
{
    return store_put(store, key, text, strlen(text), err);
}

static const char *group_document(enum zarr_format format)
{
    return format == ZARR_V2 ? "{\"zarr_format\": 2}"
                             : "{\"zarr_format\": 3, \"node_type\": \"group\"}";
}

enum status synth_put_group(const struct store *store, enum zarr_format format, struct error *err)
{
    if (format == ZARR_V3)
        return put_text(store, "zarr.json", group_document(format), err);
    enum status status = put_text(store, ".zgroup", group_document(format), err);
    return status ? status : put_text(store, ".zattrs", attributes, err);
}

static enum status put_array(const struct store *store, enum zarr_format format,
                             const struct synth_array *array, const char *document,
                             struct error *err)
{
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%s/%s", array->name, format == ZARR_V2 ? ".zarray" : "zarr.json");
    enum status status = put_text(store, key, document, err);
    if (status || format == ZARR_V3)
        return status;
    struct text attributes_text = {0};
    append_attributes(array, format, &attributes_text);
    snprintf(key, sizeof key, "%s/.zattrs", array->name);
    status = put_text(store, key, attributes_text.data, err);
    text_done(&attributes_text);
    return status;
}

/* The document of arrays[i]'s group; in v2 attributes have a document of their own. */
static void append_group(const struct synth_dataset *dataset, size_t i, struct text *out)
{
    bool has_attributes = i == 0 && dataset->group_attributes[0];
    if (dataset->format == ZARR_V3 && has_attributes)
        text_append(out, "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": %s}",
                    dataset->group_attributes);
    else
        text_append(out, "%s", group_document(dataset->format));
}

/* The length of the name of arrays[i]'s group, where the group is the first array's of its own; or
 * 0. */
static int new_group(const struct synth_dataset *dataset, size_t i)
{
    const char *name = dataset->arrays[i].name, *slash = strchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) + 1 : 0;
    for (size_t j = 0; j < i; j++)
        if (strncmp(dataset->arrays[j].name, name, length) == 0)
            return 0;
    return length ? (int)length - 1 : 0;
}

static enum status put_group(const struct store *store, const struct synth_dataset *dataset,
                             size_t i, int length, struct error *err)
{
    const char *name = dataset->arrays[i].name;
    struct text document = {0};
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%.*s/%s", length, name,
             dataset->format == ZARR_V2 ? ".zgroup" : "zarr.json");
    append_group(dataset, i, &document);
    enum status status = put_text(store, key, document.data, err);
    text_done(&document);
    if (status || dataset->format == ZARR_V3 || i > 0 || !dataset->group_attributes[0])
        return status;
    snprintf(key, sizeof key, "%.*s/.zattrs", length, name);
    return put_text(store, key, dataset->group_attributes, err);
}

static enum status put_groups(const struct store *store, const struct synth_dataset *dataset,
                              struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->array_count && !status; i++) {
        int length = new_group(dataset, i);
        if (length > 0)
            status = put_group(store, dataset, i, length, err);
    }
    return status;
}

static void append_consolidated_v2(const struct synth_dataset *dataset,
                                   const struct text *documents, struct text *out)
{
    text_append(out,
                "{\"zarr_consolidated_format\": 1, \"metadata\": {\".zattrs\": %s, "
                "\".zgroup\": {\"zarr_format\": 2}",
                attributes);
    for (size_t i = 0; i < dataset->array_count; i++) {
        const char *name = dataset->arrays[i].name;
        int group = new_group(dataset, i);
        if (group)
            text_append(out, ", \"%.*s/.zgroup\": %s", group, name, group_document(ZARR_V2));
        if (group && i == 0 && dataset->group_attributes[0])
            text_append(out, ", \"%.*s/.zattrs\": %s", group, name, dataset->group_attributes);
        text_append(out, ", \"%s/.zarray\": %s, \"%s/.zattrs\": ", name, documents[i].data, name);
        append_attributes(&dataset->arrays[i], ZARR_V2, out);
    }
    text_append(out, "}}");
}

static void append_consolidated_v3(const struct synth_dataset *dataset,
                                   const struct text *documents, struct text *out)
{
    text_append(out,
                "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": %s, "
                "\"consolidated_metadata\": {\"kind\": \"inline\", \"must_understand\": false, "
                "\"metadata\": {",
                attributes);
    for (size_t i = 0; i < dataset->array_count; i++) {
        const char *name = dataset->arrays[i].name;
        int group = new_group(dataset, i);
        if (group) {
            text_append(out, "%s\"%.*s\": ", i ? ", " : "", group, name);
            append_group(dataset, i, out);
        }
        text_append(out, "%s\"%s\": %s", i || group ? ", " : "", name, documents[i].data);
    }
    text_append(out, "}}}");
}

enum status synth_put_metadata(const struct store *store, const struct synth_dataset *dataset,
                               const struct text *documents, struct error *err)
{
    enum status status = put_groups(store, dataset, err);
    for (size_t i = 0; i < dataset->array_count && !status; i++)
        status = put_array(store, dataset->format, &dataset->arrays[i], documents[i].data, err);
    if (status)
        return status;
    struct text root = {0};
    if (dataset->format == ZARR_V2)
        append_consolidated_v2(dataset, documents, &root);
    else
        append_consolidated_v3(dataset, documents, &root);
    const char *key = dataset->format == ZARR_V2 ? ".zmetadata" : "zarr.json";
    status = put_text(store, key, root.data, err);
    text_done(&root);
    return status;
}
