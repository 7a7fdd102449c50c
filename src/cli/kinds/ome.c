/* OME-Zarr: an image, of which one level is read, with its labels; or a plate, or what
 * bioformats2raw has written, which are groups of images: each is a store of its own. */
#include "cli/kinds/kinds_internal.h"

#include "base/dtype.h"
#include "base/size.h"
#include "zarr/hierarchy/multiscale.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

enum { MOST_IMAGES = 256, TILE = 256 };

/* Samples larger than this have a coarser level. */
static const uint64_t most_sample_bytes = 64 << 20;

struct path {
    char text[2 * ZARR_PATH_BYTES];
};

/* From the root of the store. */
static struct path full_path(const struct kind_look *look, const char *path)
{
    struct path full;
    snprintf(full.text, sizeof full.text, "%.511s%s%.511s", look->group,
             *look->group && *path ? "/" : "", path);
    return full;
}

static bool read_image(const struct kind_look *look, const char *path,
                       struct zarr_multiscale *ret_image)
{
    return zarr_multiscale_read(look->store, look->hierarchy->format, full_path(look, path).text,
                                ret_image, NULL) == STATUS_OK &&
           ret_image->is_there;
}

static const struct zarr_node *level_array(const struct kind_look *look,
                                           const struct zarr_multiscale *image, size_t level)
{
    const struct zarr_node *node = zarr_hierarchy_find(look->hierarchy, image->levels[level].path);
    return node && node->status == STATUS_OK && node->array.rank == image->axis_count ? node : NULL;
}

static int find_axis(const struct zarr_multiscale *image, const char *name)
{
    for (int i = 0; i < image->axis_count; i++)
        if (strcmp(image->axes.names[i], name) == 0)
            return i;
    return -1;
}

/* Time if there are several times, else planes, else what comes first. */
static int sample_axis(const struct zarr_multiscale *image, const struct zarr_array *array)
{
    int time = find_axis(image, "t"), plane = find_axis(image, "z");
    if (time >= 0 && array->shape[time] > 1)
        return time;
    if (plane >= 0 && array->shape[plane] > 1)
        return plane;
    return time >= 0 ? time : 0;
}

/* The finest level whose samples are not too large; level_count: none can be read. */
static size_t choose_level(const struct kind_look *look, const struct zarr_multiscale *image)
{
    size_t last = image->level_count;
    for (size_t i = 0; i < image->level_count; i++) {
        const struct zarr_node *node = level_array(look, image, i);
        if (!node)
            continue;
        last = i;
        int axis = sample_axis(image, &node->array);
        if (node->array.total_bytes / node->array.shape[axis] <= most_sample_bytes)
            return i;
    }
    return last;
}

/* ", crop: {y: 256, x: 256, at: random}" of what has large planes. */
static void put_crop(const struct zarr_multiscale *image, const struct zarr_array *array,
                     struct text *out)
{
    int y = find_axis(image, "y"), x = find_axis(image, "x");
    if (y >= 0 && x >= 0 && y != sample_axis(image, array) && array->shape[y] >= 2 * TILE &&
        array->shape[x] >= 2 * TILE)
        text_append(out, ", crop: {y: %d, x: %d, at: random}", TILE, TILE);
}

/* Fields of labels that have the samples' axis. */
static void put_labels(const struct kind_look *look, const char *path, size_t level,
                       const char *samples, struct text *out)
{
    struct zarr_texts labels = {0};
    struct zarr_multiscale image;
    if (zarr_multiscale_labels(look->store, look->hierarchy->format, full_path(look, path).text,
                               &labels, NULL) != STATUS_OK)
        return;
    for (size_t i = 0; i < labels.count; i++) {
        struct path at;
        snprintf(at.text, sizeof at.text, "%s%slabels/%s", path, *path ? "/" : "", labels.items[i]);
        if (!read_image(look, at.text, &image) || level >= image.level_count)
            continue;
        const struct zarr_node *node = level_array(look, &image, level);
        bool fits = node && find_axis(&image, samples) >= 0;
        kind_put_field(fits ? "" : "# ", labels.items[i], at.text + strlen(path) + (*path != '\0'),
                       out);
        if (fits)
            put_crop(&image, &node->array, out);
        text_append(out, "}%s\n", fits ? "    # labels: the same part of each sample" : "");
    }
    zarr_texts_done(&labels);
}

/* Of the image at `path`, which is at `group` in the store that is written down. */
static bool put_image(const struct kind_look *look, const char *path, const char *group,
                      struct kind_finding *finding)
{
    struct zarr_multiscale image;
    if (!read_image(look, path, &image))
        return false;
    size_t level = choose_level(look, &image);
    if (level == image.level_count)
        return false;
    const struct zarr_array *array = &level_array(look, &image, level)->array;
    int axis = sample_axis(&image, array);
    const char *samples = image.axes.names[axis];
    struct text levels = {0}, whole = {0}, *out = &finding->dataset;
    zarr_multiscale_describe(&image, look->hierarchy, &levels);
    text_append(out, "  multiscale: %zu    # or a scale: y=0.5. Levels: %s\n  sample_axis: ", level,
                text_shown(levels.data).text);
    if (*samples)
        kind_put_scalar(samples, out);
    else
        text_append(out, "%d", axis);
    text_append(out, "    # samples lie along this axis\n  fields:\n    image: {array: ");
    text_append(&whole, "/%s", group);
    kind_put_scalar(whole.data, out);
    put_crop(&image, array, out);
    int channels = find_axis(&image, "c");
    text_append(out, "}%s\n",
                channels >= 0 && channels != axis
                    ? "    # slice: {c: [0, 1]} in the braces: these channels alone"
                    : "");
    put_labels(look, path, level, samples, out);
    text_append(&finding->about,
                " A sample is an index along the axis %s, of %s, at level %zu of %zu.",
                *samples ? text_shown(samples).text : "0", count_format(array->shape[axis]).text,
                level, image.level_count);
    if (strcmp(samples, "t") != 0 && strcmp(samples, "z") != 0)
        text_append(&finding->about,
                    " Without times and planes a sample is a part of one image: to "
                    "train on images, write those of one size as one array, images "
                    "first.");
    text_done(&levels);
    text_done(&whole);
    return true;
}

/* Paths of images
 * ---------------------------------------------------------------------------------------------- */

/* Paths, one behind the other as a list (base/text.h). */
struct images {
    struct text list;
    size_t count;
};

static void add_image(const struct kind_look *look, const char *path, struct images *images)
{
    struct zarr_multiscale image;
    if (images->count < MOST_IMAGES && read_image(look, path, &image)) {
        text_list_put(&images->list, path);
        images->count++;
    }
}

static const char *path_of(struct json_object *object)
{
    struct json_object *path;
    return json_object_is_type(object, json_type_object) &&
                   json_object_object_get_ex(object, "path", &path) &&
                   json_object_is_type(path, json_type_string)
               ? json_object_get_string(path)
               : NULL;
}

/* Calls for each path in a list of what a plate or a well has. */
static void each_path(const struct kind_look *look, const char *group, const char *attribute,
                      const char *member, struct images *images,
                      void (*visit)(const struct kind_look *, const char *, struct images *))
{
    struct json_object *root, *ome, *holder, *list;
    if (zarr_ome_attributes(look->store, look->hierarchy->format, full_path(look, group).text,
                            &root, &ome, NULL) != STATUS_OK)
        return;
    if (json_object_is_type(ome, json_type_object) &&
        json_object_object_get_ex(ome, attribute, &holder) &&
        json_object_is_type(holder, json_type_object) &&
        json_object_object_get_ex(holder, member, &list) &&
        json_object_is_type(list, json_type_array))
        for (size_t i = 0; i < json_object_array_length(list) && images->count < MOST_IMAGES; i++) {
            const char *path = path_of(json_object_array_get_idx(list, i));
            struct path full;
            if (path && snprintf(full.text, sizeof full.text, "%s%s%s", group, *group ? "/" : "",
                                 path) < ZARR_PATH_BYTES)
                visit(look, full.text, images);
        }
    json_object_put(root);
}

static void add_well(const struct kind_look *look, const char *path, struct images *images)
{
    each_path(look, path, "well", "images", images, add_image);
}

/* What bioformats2raw writes: groups 0, 1, ... */
static void add_numbered(const struct kind_look *look, struct images *images)
{
    for (size_t before = SIZE_MAX; before != images->count && images->count < MOST_IMAGES;) {
        char path[24];
        before = images->count;
        snprintf(path, sizeof path, "%zu", images->count);
        add_image(look, path, images);
    }
}

/* dataset.uri and the fields of several images; of one, if others are unlike it. */
static bool put_images(const struct kind_look *look, const struct images *images,
                       struct kind_finding *finding)
{
    const char *rest = images->list.data;
    struct text first = {0}, path = {0};
    bool is_one = strncmp(look->uri, "icechunk", strlen("icechunk")) == 0 || look->refused ||
                  store_is_archive(look->store) || *look->group || images->count == 1;
    (void)text_list_take(&(const char *){images->list.data}, &first);
    const struct path full = full_path(look, first.data);
    bool found = put_image(look, first.data, is_one ? full.text : "", finding);
    if (is_one) {
        text_append(&finding->group, "%s", full.text);
        text_append(&finding->about, " The configuration has the first image, %s, alone.",
                    text_shown(first.data).text);
    }
    while (found && !is_one && text_list_take(&rest, &path))
        text_list_put(&finding->members, path.data);
    text_done(&first);
    text_done(&path);
    return found;
}

bool kind_ome(const struct kind_look *look, struct kind_finding *finding)
{
    struct zarr_multiscale image;
    struct images images = {0};
    if (read_image(look, "", &image)) {
        text_append(&finding->about, "This is an image of OME-Zarr.");
        finding->name = put_image(look, "", look->group, finding) ? "OME-Zarr" : NULL;
        if (!finding->name)
            kind_finding_done(finding);
        return finding->name != NULL;
    }
    each_path(look, "", "plate", "wells", &images, add_well);
    if (images.count == 0)
        each_path(look, "", "well", "images", &images, add_image);
    if (images.count == 0)
        add_numbered(look, &images);
    if (images.count > 0) {
        text_append(&finding->about,
                    "These are %s image%s of OME-Zarr, each a store of its own for a run.",
                    count_format(images.count).text, count_plural(images.count));
        finding->name = put_images(look, &images, finding) ? "OME-Zarr images" : NULL;
        if (!finding->name)
            kind_finding_done(finding);
    }
    text_done(&images.list);
    return finding->name != NULL;
}
