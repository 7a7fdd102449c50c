/* Fuzz target for a store's metadata as a whole, and for the packed form in which rank 0 sends it.
 *
 *     byte 0      odd: the rest is a packed hierarchy; even: keys and values of a store, each ended
 *                 by a NUL: ".zmetadata", "zarr.json", "group/.zarray", ...
 *
 * What opens is packed, unpacked, and packed again to the same bytes. */
#include "memory_store.h"

#include "zarr/hierarchy/cf.h"
#include "zarr/hierarchy/hierarchy.h"

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
