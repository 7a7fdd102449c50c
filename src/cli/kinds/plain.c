/* Arrays that share a first axis: the default fields of any group, with what is joined to them. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"

#include <string.h>

static void put_joined(const struct kind_look *look, struct text *out)
{
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        const char *path = kind_path(look, node), *index = kind_path(look, look->index);
        if (!look->joined[i] || !path || !index)
            continue;
        kind_put_field("", kind_leaf(path), path, out);
        text_append(out, ", index: ");
        kind_put_scalar(index, out);
        text_append(out, "}    # sample i has the item at the index's entry i\n");
    }
}

bool kind_plain(const struct kind_look *look, struct kind_finding *finding)
{
    const struct dataset *dataset = look->dataset;
    if (!dataset)
        return false;
    finding->name = "arrays";
    text_append(
        &finding->about,
        "These are arrays that share a first axis: a sample is an index along this axis, of "
        "%s, in %zu field%s.",
        count_format(dataset->frame_count).text, dataset->field_count,
        count_plural(dataset->field_count));
    text_append(&finding->dataset,
                "  fields:    # those of a run without such a list; remove what you do not need\n");
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct zarr_array *array = dataset_field_array(dataset, f);
        if (!array)
            continue;
        bool is_group = strcmp(array->path, look->group) == 0; /* an array, and no group */
        struct text path = {0};
        size_t before = *look->group && !is_group ? strlen(look->group) + 1 : 0;
        text_append(&path, "%s%s", is_group ? "/" : "", array->path + before);
        kind_put_field("", dataset->fields[f].name, path.data, &finding->dataset);
        text_done(&path);
        text_append(&finding->dataset, "}\n");
    }
    if (look->index && look->joined)
        put_joined(look, &finding->dataset);
    if (look->ends && kind_path(look, look->ends)) {
        text_append(&finding->rest, "samples: {episodes: {ends: ");
        kind_put_scalar(kind_path(look, look->ends), &finding->rest);
        text_append(&finding->rest, "}}    # matters to fields with steps\n");
    }
    return true;
}
