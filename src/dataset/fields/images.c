/* See images.h. */
#include "dataset/fields/images.h"

#include "zarr/hierarchy/multiscale.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* dataset.multiscale: "2", or "y=0.5". */
struct wish {
    bool by_scale;
    uint64_t level;
    char axis[64];
    double scale;
};

static enum status read_wish(const char *text, struct wish *ret_wish, struct error *err)
{
    struct wish wish = {0};
    const char *equal = strchr(text, '=');
    char *end = NULL;
    size_t digits = strspn(text, "0123456789");
    bool is_valid = !equal && digits > 0 && digits < 10 && text[digits] == '\0';
    if (is_valid)
        wish.level = strtoull(text, NULL, 10);
    if (equal && equal > text && (size_t)(equal - text) < sizeof wish.axis) {
        wish.by_scale = true;
        memcpy(wish.axis, text, (size_t)(equal - text));
        wish.scale = strtod(equal + 1, &end);
        is_valid = end > equal + 1 && *end == '\0' && isfinite(wish.scale) && wish.scale > 0;
    }
    if (!is_valid)
        return error_set(err, STATUS_INVALID,
                         "dataset.multiscale '%s' is neither the number of a level (0) nor a scale "
                         "along an axis (y=0.5)",
                         text_shown(text).text);
    *ret_wish = wish;
    return STATUS_OK;
}

/* Messages
 * ---------------------------------------------------------------------------------------------- */

/* The levels, with lengths and scales of axes. */
static void describe_levels(const struct store *store, const struct zarr_multiscale *image,
                            struct text *out)
{
    const char *paths[MULTISCALE_MAX_LEVELS];
    struct zarr_hierarchy *hierarchy = NULL;
    for (size_t i = 0; i < image->level_count; i++)
        paths[i] = image->levels[i].path;
    const struct zarr_wanted wanted = {.paths = paths, .path_count = image->level_count};
    if (zarr_hierarchy_open_wanted(store, &wanted, &hierarchy, NULL) != STATUS_OK)
        hierarchy = NULL;
    zarr_multiscale_describe(image, hierarchy, out);
    zarr_hierarchy_free(hierarchy);
}

static enum status refuse_level(const struct store *store, const struct zarr_multiscale *image,
                                const char *path, const char *text, struct error *err)
{
    struct text levels = {0};
    describe_levels(store, image, &levels);
    error_set(err, STATUS_NOT_FOUND,
              "dataset.multiscale: image '%s' has no level '%s'; its levels are %s",
              *path ? path : "/", text_shown(text).text, levels.data);
    text_done(&levels);
    return STATUS_NOT_FOUND;
}

/* Groups that have images in them. */
static const char *images_within(const struct store *store, const char *path)
{
    static const struct {
        const char *attribute, *advice;
    } kinds[] = {{"plate", ": it is a plate: its images are WELL/FIELD, such as A/1/0"},
                 {"well", ": it is a well: its images are its fields, such as 0"},
                 {"labels", ": its images are its groups"},
                 {"bioformats2raw.layout", ": its images are 0, 1 and so on"}};
    const char *advice = "";
    for (int format = ZARR_V2; format <= ZARR_V3; format++) {
        struct json_object *root, *ome;
        if (zarr_ome_attributes(store, (enum zarr_format)format, path, &root, &ome, NULL) !=
            STATUS_OK)
            continue;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            if (json_object_is_type(ome, json_type_object) &&
                json_object_object_get_ex(ome, kinds[i].attribute, NULL))
                advice = kinds[i].advice;
        json_object_put(root);
    }
    return advice;
}

static enum status refuse_group(const struct store *store, const char *path, struct error *err)
{
    return error_set(err, STATUS_NOT_FOUND,
                     "dataset.multiscale is set, and '%s' is no image of OME-Zarr, whose attribute "
                     "multiscales lists levels%s",
                     *path ? path : "/", images_within(store, path));
}

/* Choosing
 * ---------------------------------------------------------------------------------------------- */

static enum status read_image(const struct store *store, const char *path,
                              struct zarr_multiscale *image, struct error *err)
{
    enum status status = zarr_multiscale_read(store, ZARR_V3, path, image, err);
    return status == STATUS_OK && !image->is_there
               ? zarr_multiscale_read(store, ZARR_V2, path, image, err)
               : status;
}

/* The number of the level; level_count: there is none. Of two scales as near the finer one. */
static size_t find_level(const struct zarr_multiscale *image, const struct wish *wish)
{
    size_t best = image->level_count;
    int axis = 0;
    if (!wish->by_scale)
        return wish->level < image->level_count ? (size_t)wish->level : image->level_count;
    while (axis < image->axis_count && strcmp(image->axes.names[axis], wish->axis) != 0)
        axis++;
    for (size_t i = 0; axis < image->axis_count && i < image->level_count; i++) {
        double scale = image->levels[i].scale[axis];
        if (scale > 0 && (best == image->level_count ||
                          fabs(log(scale / wish->scale)) <
                              fabs(log(image->levels[best].scale[axis] / wish->scale))))
            best = i;
    }
    return best;
}

/* The level of the image at `path`, from the root; is_image is false where there is no image. */
static enum status choose_level(const struct store *store, const char *path, const char *text,
                                struct image_level *ret_level, struct error *err)
{
    struct zarr_multiscale image;
    struct wish wish;
    enum status status = read_wish(text, &wish, err);
    if (status == STATUS_OK)
        status = read_image(store, path, &image, err);
    if (status != STATUS_OK || !image.is_there)
        return status;
    size_t level = find_level(&image, &wish);
    if (level == image.level_count)
        return refuse_level(store, &image, path, text, err);
    snprintf(ret_level->path, sizeof ret_level->path, "/%s", image.levels[level].path);
    ret_level->is_image = true;
    ret_level->axis_count = image.axis_count;
    ret_level->axes = image.axes;
    return STATUS_OK;
}

static const struct store *store_of(const struct dataset *dataset, const char *uri)
{
    const char *name;
    return store_joined_at(dataset->private->store, dataset_own_store(dataset, uri), &name);
}

static enum status choose_configured(const struct dataset *dataset, struct images *images,
                                     struct error *err)
{
    const struct dataset_options *options = &images->options;
    size_t count = options->field_count, found = 0;
    enum status status = STATUS_OK;
    const char *first = NULL;
    if (count > DATASET_MAX_FIELDS)
        return STATUS_OK; /* which is refused later */
    for (size_t i = 0; status == STATUS_OK && i < count; i++) {
        struct image_level *level = &images->levels[i];
        images->specs[i] = options->fields[i];
        const char *own = images->specs[i].store;
        struct select_path path =
            own ? select_path(&(struct dataset_options){0}, images->specs[i].array)
                : select_path(options, images->specs[i].array);
        status = choose_level(store_of(dataset, own), path.text, options->multiscale, level, err);
        if (level->is_image)
            images->specs[i].array = level->path;
        found += level->is_image;
        first = i == 0 ? options->fields[i].array : first;
        if (status != STATUS_OK)
            return error_prefix(err, status, "field '%s': ", images->specs[i].name);
    }
    if (found == 0 && first)
        return refuse_group(store_of(dataset, options->fields[0].store),
                            select_path(options, first).text, err);
    images->options.fields = images->specs;
    return STATUS_OK;
}

/* Adds a field of the image at `path`, if it is one. */
static enum status add_default(const struct store *store, struct images *images, const char *path,
                               const char *name, struct error *err)
{
    struct dataset_options *options = &images->options;
    struct image_level *level = &images->levels[options->field_count];
    if (options->field_count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID,
                         "the image has more than %d labels: list "
                         "dataset.fields",
                         DATASET_MAX_FIELDS - 1);
    enum status status = choose_level(store, path, options->multiscale, level, err);
    if (status != STATUS_OK || !level->is_image)
        return status;
    snprintf(level->name, sizeof level->name, "%.511s", name);
    images->specs[options->field_count++] =
        (struct dataset_field_spec){.name = level->name, .array = level->path};
    return STATUS_OK;
}

static enum status choose_default(const struct dataset *dataset, struct images *images,
                                  struct error *err)
{
    const struct store *store = store_of(dataset, NULL);
    struct select_path group = select_path(&images->options, "");
    struct zarr_texts labels = {0};
    enum status status = add_default(store, images, group.text, "image", err);
    if (status == STATUS_OK && images->options.field_count == 0)
        return refuse_group(store, group.text, err);
    if (status == STATUS_OK)
        status = zarr_multiscale_labels(store, ZARR_V3, group.text, &labels, err);
    if (status == STATUS_OK && !labels.is_there)
        status = zarr_multiscale_labels(store, ZARR_V2, group.text, &labels, err);
    for (size_t i = 0; status == STATUS_OK && i < labels.count; i++) {
        char path[3 * ZARR_PATH_BYTES];
        snprintf(path, sizeof path, "%s%slabels/%s", group.text, group.text[0] ? "/" : "",
                 labels.items[i]);
        status = add_default(store, images, path, labels.items[i], err);
    }
    zarr_texts_done(&labels);
    images->options.fields = images->specs;
    return status;
}

enum status images_choose(const struct dataset *dataset, const struct dataset_options *options,
                          struct images **ret_images, struct error *err)
{
    struct images *images = calloc(1, sizeof *images);
    enum status status = STATUS_OK;
    if (!images)
        return error_set(err, STATUS_NO_MEMORY, "no memory for fields");
    images->options = *options;
    if (options->multiscale && *options->multiscale)
        status = options->fields ? choose_configured(dataset, images, err)
                                 : choose_default(dataset, images, err);
    if (status != STATUS_OK) {
        free(images);
        return status;
    }
    *ret_images = images;
    return STATUS_OK;
}

static enum status name_axes(struct zarr_hierarchy *hierarchy, const struct image_level *level,
                             struct error *err)
{
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        struct zarr_node *node = &hierarchy->nodes[i];
        if (strcmp(node->array.path, level->path + 1) != 0 || node->array.rank == 0)
            continue;
        if (node->array.rank != level->axis_count)
            return error_set(err, STATUS_CORRUPT,
                             "array '%s' has %d axes, and the attribute multiscales of its image "
                             "names %d",
                             node->array.path, node->array.rank, level->axis_count);
        return zarr_node_name_axes(node, &level->axes, err);
    }
    return STATUS_OK;
}

enum status images_name_axes(const struct dataset *dataset, const struct images *images,
                             struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < images->options.field_count && i < DATASET_MAX_FIELDS; i++) {
        if (!images->levels[i].is_image)
            continue;
        size_t own = dataset_own_store(dataset, images->specs[i].store);
        for (size_t s = 0; status == STATUS_OK && s < dataset_part_count(dataset, own); s++)
            status = name_axes(dataset->private->hierarchies[dataset_store_at(own, s)],
                               &images->levels[i], err);
    }
    return status;
}
