/* See synth_documents.h. The names that go into documents are ours and need no escaping. */
#include "cli/synth_documents.h"

#include "base/dtype.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char attributes[] = "{\"title\": \"synthetic data, written by penstock synth\"}";

static void append_shape(const struct synth_array *array, uint64_t first, struct text *out)
{
    text_append(out, "[%" PRIu64, first);
    for (int i = 1; i < array->rank; i++)
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

static void append_v2(const struct synth_array *array, const struct codec_chain *codecs,
                      struct text *out)
{
    text_append(out, "{\"zarr_format\": 2, \"shape\": ");
    append_shape(array, array->shape[0], out);
    text_append(out, ", \"chunks\": ");
    append_shape(array, array->chunk_length, out);
    text_append(out, ", \"dtype\": ");
    append_v2_dtype(array->dtype, out);
    text_append(out, ", \"compressor\": ");
    codec_chain_write_json(codecs, CODEC_ZARR_V2, out);
    text_append(out, ", \"fill_value\": 0, \"order\": \"C\", \"filters\": null, "
                     "\"dimension_separator\": \".\"}");
}

static void append_v3(const struct synth_array *array, const struct codec_chain *codecs,
                      struct text *out)
{
    text_append(out, "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": ");
    append_shape(array, array->shape[0], out);
    text_append(out, ", \"data_type\": \"%s\"", dtype_name(array->dtype));
    text_append(out, ", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": "
                     "{\"chunk_shape\": ");
    append_shape(array, array->chunk_length, out);
    text_append(out, "}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": "
                     "{\"separator\": \"/\"}}, \"fill_value\": 0, \"codecs\": [{\"name\": "
                     "\"bytes\"");
    if (dtype_bytes(array->dtype) > 1)
        text_append(out, ", \"configuration\": {\"endian\": \"little\"}");
    text_append(out, "}");
    codec_chain_write_json(codecs, CODEC_ZARR_V3, out);
    text_append(out, "], \"attributes\": {}}");
}

void synth_array_document(const struct synth_array *array, enum zarr_format format,
                          const struct codec_chain *codecs, struct text *out)
{
    if (format == ZARR_V2)
        append_v2(array, codecs, out);
    else
        append_v3(array, codecs, out);
}

static enum status put_text(const struct store *store, const char *key, const char *text,
                            struct error *err)
{
    return store_put(store, key, text, strlen(text), err);
}

enum status synth_put_group(const struct store *store, enum zarr_format format, struct error *err)
{
    if (format == ZARR_V3)
        return put_text(store, "zarr.json", "{\"zarr_format\": 3, \"node_type\": \"group\"}", err);
    enum status status = put_text(store, ".zgroup", "{\"zarr_format\": 2}", err);
    return status ? status : put_text(store, ".zattrs", attributes, err);
}

static enum status put_array(const struct store *store, enum zarr_format format, const char *name,
                             const char *document, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    snprintf(key, sizeof key, "%s/%s", name, format == ZARR_V2 ? ".zarray" : "zarr.json");
    enum status status = put_text(store, key, document, err);
    if (status || format == ZARR_V3)
        return status;
    snprintf(key, sizeof key, "%s/.zattrs", name);
    return put_text(store, key, "{}", err);
}

static void append_consolidated_v2(const struct synth_dataset *dataset,
                                   const struct text *documents, struct text *out)
{
    text_append(out,
                "{\"zarr_consolidated_format\": 1, \"metadata\": {\".zattrs\": %s, "
                "\".zgroup\": {\"zarr_format\": 2}",
                attributes);
    for (size_t i = 0; i < dataset->array_count; i++)
        text_append(out, ", \"%s/.zarray\": %s, \"%s/.zattrs\": {}", dataset->arrays[i].name,
                    documents[i].data, dataset->arrays[i].name);
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
    for (size_t i = 0; i < dataset->array_count; i++)
        text_append(out, "%s\"%s\": %s", i ? ", " : "", dataset->arrays[i].name, documents[i].data);
    text_append(out, "}}}");
}

enum status synth_put_metadata(const struct store *store, const struct synth_dataset *dataset,
                               const struct text *documents, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->array_count && !status; i++)
        status = put_array(store, dataset->format, dataset->arrays[i].name, documents[i].data, err);
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
