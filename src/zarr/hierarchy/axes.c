/* See axes.h. */
#include "zarr/hierarchy/axes.h"

#include "base/text.h"
#include "zarr/metadata/document.h"

#include <stdlib.h>
#include <string.h>

bool zarr_node_axis_names(const struct zarr_node *node, struct zarr_axis_names *ret_names)
{
    bool is_v2 = node->array.format == ZARR_V2;
    struct json_object *root, *holder, *list;
    bool found = false;
    *ret_names = (struct zarr_axis_names){0};
    if (document_parse(node->document, node->document_bytes, &root, NULL) != STATUS_OK)
        return false;
    holder = root;
    if (is_v2)
        json_object_object_get_ex(root, "attributes", &holder);
    if (json_object_object_get_ex(holder, is_v2 ? "_ARRAY_DIMENSIONS" : "dimension_names", &list) &&
        json_object_is_type(list, json_type_array) &&
        json_object_array_length(list) == (size_t)node->array.rank)
        for (int i = 0; i < node->array.rank; i++) {
            struct json_object *item = json_object_array_get_idx(list, (size_t)i);
            const char *name =
                json_object_is_type(item, json_type_string) ? json_object_get_string(item) : "";
            if (*name && strlen(name) < sizeof ret_names->names[i] && text_is_plain(name)) {
                strcpy(ret_names->names[i], name);
                found = true;
            }
        }
    json_object_put(root);
    return found;
}

int zarr_node_axis(const struct zarr_node *node, const char *name)
{
    struct zarr_axis_names names;
    if (*name && zarr_node_axis_names(node, &names))
        for (int i = 0; i < node->array.rank; i++)
            if (strcmp(names.names[i], name) == 0)
                return i;
    return -1;
}

enum status zarr_node_name_axes(struct zarr_node *node, const struct zarr_axis_names *names,
                                struct error *err)
{
    bool is_v2 = node->array.format == ZARR_V2;
    struct zarr_axis_names own;
    struct json_object *root, *holder;
    (void)zarr_node_axis_names(node, &own);
    if (document_parse(node->document, node->document_bytes, &root, NULL) != STATUS_OK)
        return STATUS_OK;
    holder = root;
    if (is_v2 && !(json_object_object_get_ex(root, "attributes", &holder) &&
                   json_object_is_type(holder, json_type_object))) {
        holder = json_object_new_object();
        json_object_object_add(root, "attributes", holder);
    }
    struct json_object *list = json_object_new_array();
    for (int i = 0; i < node->array.rank; i++)
        json_object_array_add(
            list, json_object_new_string(names->names[i][0] ? names->names[i] : own.names[i]));
    json_object_object_add(holder, is_v2 ? "_ARRAY_DIMENSIONS" : "dimension_names", list);
    const char *text = json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN);
    char *document = text ? strdup(text) : NULL;
    json_object_put(root);
    if (!document)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the names of axes");
    free(node->document);
    node->document = document;
    node->document_bytes = strlen(document);
    return STATUS_OK;
}
