/* See group_attributes.h. */
#include "zarr/hierarchy/group_attributes.h"

#include "zarr/hierarchy/hierarchy.h"
#include "zarr/metadata/document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status group_attributes_read(const struct store *store, enum zarr_format format,
                                  const char *path, struct json_object **ret_root,
                                  struct json_object **ret_attributes, struct error *err)
{
    bool is_v3 = format == ZARR_V3;
    struct json_object *root;
    char key[ZARR_KEY_BYTES];
    char *text;
    size_t size;
    snprintf(key, sizeof key, "%.511s%s%s", path, *path ? "/" : "",
             is_v3 ? "zarr.json" : ".zattrs");
    *ret_root = *ret_attributes = NULL;
    enum status status = store_get_text(store, key, ZARR_MAX_CONSOLIDATED_BYTES, &text, &size, err);
    if (status == STATUS_NOT_FOUND)
        return STATUS_OK;
    if (status != STATUS_OK)
        return status;
    status = document_parse(text, size, &root, err);
    free(text);
    if (status != STATUS_OK)
        return error_prefix(err, status, "'%s': ", key);
    *ret_root = *ret_attributes = root;
    if (is_v3)
        json_object_object_get_ex(root, "attributes", ret_attributes);
    return STATUS_OK;
}

/* NULL: neither a text nor a number. */
static const char *text_of(struct json_object *value)
{
    bool taken = json_object_is_type(value, json_type_string) ||
                 json_object_is_type(value, json_type_int) ||
                 json_object_is_type(value, json_type_double);
    return taken ? json_object_get_string(value) : NULL;
}

enum status zarr_texts_take(struct json_object *value, struct zarr_texts *texts, struct error *err)
{
    bool is_list = json_object_is_type(value, json_type_array);
    size_t count = is_list ? json_object_array_length(value) : 1;
    if (!is_list && !text_of(value))
        return STATUS_OK;
    texts->items = calloc(count + 1, sizeof *texts->items);
    for (; texts->items && texts->count < count; texts->count++) {
        const char *text =
            text_of(is_list ? json_object_array_get_idx(value, texts->count) : value);
        if (!text)
            return STATUS_OK; /* a list of other things */
        if (!(texts->items[texts->count] = strdup(text)))
            break;
    }
    if (!texts->items || texts->count < count)
        return error_set(err, STATUS_NO_MEMORY, "no memory for attributes");
    texts->is_there = true;
    return STATUS_OK;
}

enum status zarr_group_texts(const struct store *store, enum zarr_format format, const char *path,
                             const char *name, struct zarr_texts *ret_texts, struct error *err)
{
    struct json_object *root, *attributes, *value;
    struct zarr_texts texts = {0};
    enum status status = group_attributes_read(store, format, path, &root, &attributes, err);
    if (status != STATUS_OK)
        return status;
    if (attributes && json_object_object_get_ex(attributes, name, &value))
        status = zarr_texts_take(value, &texts, err);
    json_object_put(root);
    if (status != STATUS_OK || !texts.is_there)
        zarr_texts_done(&texts);
    if (status == STATUS_OK)
        *ret_texts = texts;
    return status;
}

void zarr_texts_done(struct zarr_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct zarr_texts){0};
}
