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
    return status != STATUS_OK ? status : put_text(store, ".zattrs", attributes, err);
}

/* Writes a document of a node, and appends it to `all`, the members of the consolidated metadata,
 * each with a comma before. `name` is the document's in v2. */
static enum status put_document(const struct store *store, enum zarr_format format,
                                const char *path, const char *name, const char *document,
                                struct text *all, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%s/%s", path, format == ZARR_V2 ? name : "zarr.json");
    text_append(all, ", \"%s\": %s", format == ZARR_V2 ? key : path, document);
    return put_text(store, key, document, err);
}

static enum status put_array(const struct store *store, enum zarr_format format,
                             const struct synth_array *array, const char *document,
                             struct text *all, struct error *err)
{
    enum status status = put_document(store, format, array->name, ".zarray", document, all, err);
    if (status != STATUS_OK || format == ZARR_V3)
        return status;
    struct text attributes_text = {0};
    append_attributes(array, format, &attributes_text);
    status = put_document(store, format, array->name, ".zattrs", attributes_text.data, all, err);
    text_done(&attributes_text);
    return status;
}

/* Whether arrays[i] is the first of its group, whose path is *ret_path; false for the root's. */
static bool begins_group(const struct synth_dataset *dataset, size_t i,
                         char ret_path[ZARR_PATH_BYTES])
{
    const char *name = dataset->arrays[i].name, *slash = strchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) + 1 : 0;
    for (size_t j = 0; j < i; j++)
        if (strncmp(dataset->arrays[j].name, name, length) == 0)
            return false;
    snprintf(ret_path, ZARR_PATH_BYTES, "%.*s", length ? (int)length - 1 : 0, name);
    return length > 0;
}

/* The group of arrays[i], where that is the group's first; in v2 attributes have a document of
 * their own. */
static enum status put_group(const struct store *store, const struct synth_dataset *dataset,
                             size_t i, struct text *all, struct error *err)
{
    char path[ZARR_PATH_BYTES];
    enum zarr_format format = dataset->format;
    const char *own = i == 0 ? dataset->group_attributes : "";
    struct text document = {0};
    if (!begins_group(dataset, i, path))
        return STATUS_OK;
    if (format == ZARR_V3 && *own)
        text_append(&document, "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": %s}",
                    own);
    else
        text_append(&document, "%s", group_document(format));
    enum status status = put_document(store, format, path, ".zgroup", document.data, all, err);
    if (status == STATUS_OK && format == ZARR_V2 && *own)
        status = put_document(store, format, path, ".zattrs", own, all, err);
    text_done(&document);
    return status;
}

static enum status put_consolidated(const struct store *store, enum zarr_format format,
                                    const struct text *all, struct error *err)
{
    struct text root = {0};
    if (format == ZARR_V2)
        text_append(&root,
                    "{\"zarr_consolidated_format\": 1, \"metadata\": {\".zattrs\": %s, "
                    "\".zgroup\": %s%s}}",
                    attributes, group_document(format), all->data);
    else
        text_append(&root,
                    "{\"zarr_format\": 3, \"node_type\": \"group\", \"attributes\": %s, "
                    "\"consolidated_metadata\": {\"kind\": \"inline\", \"must_understand\": false, "
                    "\"metadata\": {%s}}}",
                    attributes, all->data + strlen(", "));
    enum status status =
        put_text(store, format == ZARR_V2 ? ".zmetadata" : "zarr.json", root.data, err);
    text_done(&root);
    return status;
}

enum status synth_put_metadata(const struct store *store, const struct synth_dataset *dataset,
                               const struct text *documents, struct error *err)
{
    struct text all = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->array_count && status == STATUS_OK; i++) {
        status = put_group(store, dataset, i, &all, err);
        if (status == STATUS_OK)
            status = put_array(store, dataset->format, &dataset->arrays[i], documents[i].data, &all,
                               err);
    }
    if (status == STATUS_OK)
        status = put_consolidated(store, dataset->format, &all, err);
    text_done(&all);
    return status;
}
