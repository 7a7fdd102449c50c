/* Datasets of anemoi: the array data[dates, variables, ensembles, cells], its dates, names of
 * variables as an attribute, and statistics of each variable. */
#include "cli/kinds/kinds_internal.h"

#include "base/size.h"
#include "zarr/hierarchy/axes.h"
#include "zarr/hierarchy/group_attributes.h"

/* A slice by names, which the attribute has for an axis of this name. */
static void put_variables(const struct kind_look *look, const struct zarr_node *data,
                          struct text *out)
{
    struct zarr_texts names = {0};
    if (zarr_node_axis(data, "variable") != 1 ||
        zarr_group_texts(look->store, look->hierarchy->format, look->group, "variables", &names,
                         NULL) != STATUS_OK ||
        names.count == 0)
        return;
    text_append(out, "      # slice: {variable: [");
    for (size_t i = 0; i < names.count && i < 2; i++) {
        text_append(out, "%s", i > 0 ? ", " : "");
        kind_put_scalar(names.items[i], out);
    }
    text_append(out, "]}    # these variables alone\n");
    zarr_texts_done(&names);
}

bool kind_anemoi(const struct kind_look *look, struct kind_finding *finding)
{
    const struct zarr_node *data = kind_array(look, "data");
    if (!data || data->array.rank != 4 || !kind_array(look, "dates") ||
        !kind_says(look, "", "variables", ""))
        return false;
    const uint64_t *shape = data->array.shape;
    bool normalises = kind_array(look, "mean") && kind_array(look, "stdev");
    const char *mark = look->refused ? "# " : "";
    finding->name = "anemoi";
    text_append(&finding->about,
                "This is a dataset of anemoi: %s date%s of %s variable%s, %s ensemble member%s and "
                "%s cell%s. A sample is at a date, and has the dates at the field's steps from it. "
                "None has a date that the attribute missing_dates names.",
                count_format(shape[0]).text, count_plural(shape[0]), count_format(shape[1]).text,
                count_plural(shape[1]), count_format(shape[2]).text, count_plural(shape[2]),
                count_format(shape[3]).text, count_plural(shape[3]));
    text_append(&finding->dataset, "  fields:\n    data:\n      array: data\n");
    if (shape[0] > 2)
        text_append(&finding->dataset,
                    "      steps: \"-1:2\"    # the date before, the date, the next one; without "
                    "steps a sample is one date\n");
    if (normalises)
        text_append(&finding->dataset,
                    "      %smean: mean    # items become (x - mean) / stdev, variable by "
                    "variable%s%s\n      %sstd: stdev\n",
                    mark, look->refused ? "; refused: " : "",
                    text_shown(look->refused ? look->refused : "").text, mark);
    put_variables(look, data, &finding->dataset);
    text_append(&finding->dataset, "      # cast: bfloat16\n");
    if (kind_array(look, "latitudes") && kind_array(look, "longitudes"))
        text_append(&finding->dataset,
                    "  constants: [latitudes, longitudes]    # each trainer gets them once\n");
    text_append(&finding->rest,
                "# samples: {split: {range: \":2018-12\"}}    # these dates alone\n");
    return true;
}
