/* What tells one state of a dataset from another, for caches that outlive the run. Once, at
 * opening.
 *
 * Chunks are not looked at: that would cost a question to the store for each of them. What writes a
 * dataset anew (any Zarr library with mode "w") writes its metadata documents anew, and then their
 * versions differ even where their text does not. Chunks changed in place, under metadata that
 * stays as it is, are not noticed.
 */
#include "dataset/dataset_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

/* The version of the document `name` at `path`; nothing where there is none: consolidated metadata
 * may stand alone. */
static enum status append_version(const struct store *store, const char *path, const char *name,
                                  struct text *out, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    struct store_info info;

    snprintf(key, sizeof key, "%s%s%s", path, path[0] ? "/" : "", name);
    enum status status = store_stat(store, key, &info, err);
    if (status == STATUS_OK)
        text_append(out, "version %" PRIu64 "\n", info.version);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status dataset_identify(const struct store *store, const struct zarr_hierarchy *hierarchy,
                             uint64_t *ret_identity, struct error *err)
{
    bool is_v3 = hierarchy->format == ZARR_V3;
    struct text text = {0};
    enum status status = store_identify(store, &text, err);

    if (status == STATUS_OK)
        status = append_version(store, "", is_v3 ? "zarr.json" : ".zmetadata", &text, err);
    for (size_t i = 0; status == STATUS_OK && i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];

        text_append(&text, "array '%s'\n%s\n", node->array.path, node->document);
        status =
            append_version(store, node->array.path, is_v3 ? "zarr.json" : ".zarray", &text, err);
    }
    if (status == STATUS_OK)
        *ret_identity = XXH3_64bits(text.data, text.length);
    text_done(&text);
    return status;
}
