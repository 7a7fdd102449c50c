/* Fuzz target for a store's metadata as a whole, and for the packed form in which rank 0 sends it.
 *
 *     byte 0      odd: the rest is a packed hierarchy; even: keys and values of a store, each ended
 *                 by a NUL: ".zmetadata", "zarr.json", "group/.zarray", ...
 *
 * What opens is packed, unpacked, and packed again to the same bytes. The root may be an image of
 * OME-Zarr: then its levels' axes are named before. */
#include "memory_store.h"

#include "zarr/hierarchy/cf.h"
#include "zarr/hierarchy/hierarchy.h"
#include "zarr/hierarchy/multiscale.h"

#include <math.h>

static void check_hierarchy(const struct zarr_hierarchy *hierarchy)
{
    CHECK(hierarchy->node_count <= ZARR_MAX_ARRAYS);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        CHECK(strlen(node->array.path) < ZARR_PATH_BYTES);
        CHECK((node->status == STATUS_OK) == !node->reason);
        CHECK(strlen(node->document) <= node->document_bytes);
        CHECK(zarr_hierarchy_find(hierarchy, node->array.path) ||
              node->array.path[0] == '/'); /* which a packed one alone may have */
        struct zarr_cf cf;
        if (node->status == STATUS_OK && zarr_node_cf(node, &cf, NULL) == STATUS_OK)
            CHECK(isfinite(cf.scale) && isfinite(cf.offset) && cf.missing_count >= 0 &&
                  cf.missing_count <= NORMAL_MAX_MISSING);
    }
}

static void pack_and_unpack(const struct zarr_hierarchy *hierarchy)
{
    struct text packed = {0}, again = {0};
    struct zarr_hierarchy *copy;
    zarr_hierarchy_pack(hierarchy, &packed);
    CHECK(zarr_hierarchy_unpack(packed.data, packed.length, &copy, NULL) == STATUS_OK);
    check_hierarchy(copy);
    zarr_hierarchy_pack(copy, &again);
    CHECK(again.length == packed.length && memcmp(again.data, packed.data, packed.length) == 0);
    zarr_hierarchy_free(copy);
    text_done(&packed);
    text_done(&again);
}

static void name_axes(const struct zarr_multiscale *image, struct zarr_hierarchy *hierarchy)
{
    struct zarr_axis_names own, names;
    struct text levels = {0};
    zarr_multiscale_describe(image, hierarchy, &levels);
    CHECK(text_is_plain(levels.data));
    text_done(&levels);
    for (size_t i = 0; i < hierarchy->node_count; i++) {
        struct zarr_node *node = &hierarchy->nodes[i];
        if (node->array.rank != image->axis_count)
            continue;
        (void)zarr_node_axis_names(node, &own);
        CHECK(zarr_node_name_axes(node, &image->axes, NULL) == STATUS_OK);
        (void)zarr_node_axis_names(node, &names);
        for (int k = 0; k < image->axis_count; k++) {
            const char *name = image->axes.names[k];
            CHECK(strcmp(names.names[k], *name ? name : own.names[k]) == 0);
        }
    }
}

/* With the paths of levels below the root, whatever the attribute says. */
static void read_image(const struct store *store, struct zarr_hierarchy *hierarchy)
{
    for (int format = ZARR_V2; format <= ZARR_V3; format++) {
        struct zarr_multiscale image;
        struct zarr_texts labels = {0};
        struct error err;
        enum status status =
            zarr_multiscale_read(store, (enum zarr_format)format, "", &image, &err);
        CHECK(status == STATUS_OK || err.message[0]);
        if (status == STATUS_OK && image.is_there) {
            CHECK(image.axis_count > 0 && image.axis_count <= ZARR_MAX_RANK);
            CHECK(image.level_count > 0 && image.level_count <= MULTISCALE_MAX_LEVELS);
            for (size_t i = 0; i < image.level_count; i++)
                CHECK(image.levels[i].path[0] != '/' &&
                      strncmp(image.levels[i].path, "../", 3) != 0 &&
                      !strstr(image.levels[i].path, "/../"));
            if (hierarchy)
                name_axes(&image, hierarchy);
        }
        if (zarr_multiscale_labels(store, (enum zarr_format)format, "", &labels, NULL) == STATUS_OK)
            zarr_texts_done(&labels);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct memory_store memory;
    struct zarr_hierarchy *hierarchy = NULL;
    struct error err;
    enum status status;
    if (take_byte(&input) % 2 == 1) {
        status = zarr_hierarchy_unpack(input.at, input.left, &hierarchy, &err);
    } else {
        memory_store_fill(&memory, &input);
        status = zarr_hierarchy_open(&memory.store, &hierarchy, &err);
        read_image(&memory.store, status == STATUS_OK ? hierarchy : NULL);
        memory_store_done(&memory);
    }
    if (status != STATUS_OK) {
        CHECK(err.status == (int32_t)status && err.message[0]);
        return 0;
    }
    check_hierarchy(hierarchy);
    pack_and_unpack(hierarchy);
    zarr_hierarchy_free(hierarchy);
    return 0;
}
