/* SpatialData: images and labels of OME-Zarr, tables of AnnData, and points and shapes in Parquet.
 */
#include "cli/kinds/kinds_internal.h"

#include "zarr/hierarchy/group_attributes.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static bool is_spatial(const struct kind_look *look)
{
    struct json_object *root, *attributes;
    if (group_attributes_read(look->store, look->hierarchy->format, look->group, &root, &attributes,
                              NULL) != STATUS_OK)
        return false;
    bool found = json_object_is_type(attributes, json_type_object) &&
                 json_object_object_get_ex(attributes, "spatialdata_attrs", NULL);
    json_object_put(root);
    return found;
}

/* The names in the folder `element`, such as tables, that have arrays: "a, b". The first is left in
 * `ret_first`. */
static void list_elements(const struct kind_look *look, const char *element, struct text *ret_first,
                          struct text *out)
{
    struct text last = {0};
    size_t length = strlen(element);
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const char *path = kind_path(look, &look->hierarchy->nodes[i]);
        if (!path || strncmp(path, element, length) != 0 || path[length] != '/')
            continue;
        size_t name = strcspn(path + length + 1, "/");
        if (last.data && strlen(last.data) == name &&
            strncmp(last.data, path + length + 1, name) == 0)
            continue;
        text_done(&last);
        text_append(&last, "%.*s", (int)name, path + length + 1);
        text_append(out, "%s%s", out->data ? ", " : "", text_shown(last.data).text);
        if (!ret_first->data)
            text_append(ret_first, "%s%s%s/%s", look->group, *look->group ? "/" : "", element,
                        last.data);
    }
    text_done(&last);
}

/* Of a table, or else of an image, as a group of its own. */
static bool put_element(const struct kind_look *look, const char *group, kind_function *kind,
                        struct kind_finding *finding)
{
    struct kind_look inside = *look;
    struct kind_finding found = {0};
    inside.group = group;
    if (!group || !kind(&inside, &found))
        return false;
    text_append(&finding->about, " The configuration is for %s: %s", text_shown(group).text,
                found.about.data);
    text_append(&finding->group, "%s", group);
    finding->dataset = found.dataset;
    finding->rest = found.rest;
    text_done(&found.about);
    return true;
}

bool kind_spatialdata(const struct kind_look *look, struct kind_finding *finding)
{
    static const char *const elements[] = {"tables", "images", "labels"};
    enum { ELEMENTS = sizeof elements / sizeof elements[0] };
    struct text firsts[ELEMENTS] = {{0}};
    if (!is_spatial(look))
        return false;
    text_append(&finding->about, "This is a store of SpatialData:");
    for (size_t i = 0; i < ELEMENTS; i++) {
        struct text names = {0};
        list_elements(look, elements[i], &firsts[i], &names);
        text_append(&finding->about, "%s %s %s", i > 0 ? ";" : "", elements[i],
                    names.data ? names.data : "none");
        text_done(&names);
    }
    text_append(&finding->about, ". Points and shapes are Parquet, and are not read. Each element "
                                 "is a dataset of its own, by dataset.group.");
    bool found = put_element(look, firsts[0].data, kind_anndata, finding) ||
                 put_element(look, firsts[1].data, kind_ome, finding) ||
                 put_element(look, firsts[2].data, kind_ome, finding);
    finding->name = found ? "SpatialData" : NULL;
    for (size_t i = 0; i < ELEMENTS; i++)
        text_done(&firsts[i]);
    if (!found)
        kind_finding_done(finding);
    return found;
}
