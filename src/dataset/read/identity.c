/* A dataset's identity: tells one state of a dataset from another, for caches that outlive the run.
 * Found out once, at opening.
 *
 * Chunks are not looked at, since that would cost a question to the store for each chunk. A program
 * that writes a dataset anew (any Zarr library with mode "w") writes the metadata documents anew.
 * Their versions differ then, even if their text does not. Chunks that are overwritten under
 * unchanged metadata are not noticed. Nor is, during a run from a network, a dataset that was
 * written anew with the same text.
 *
 * All arrays of a store count, whichever the fields are, so that runs with other fields use the
 * same chunks. Of a store with many arrays, or with arrays that cannot be found without their
 * names, only the arrays of the fields count.
 */
#include "dataset/read/identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

static void document_key(const char *path, const char *name, char ret_key[ZARR_KEY_BYTES])
{
    snprintf(ret_key, ZARR_KEY_BYTES, "%s%s%s", path, path[0] ? "/" : "", name);
}

/* The version of the document `name` at `path`; nothing where there is none: consolidated metadata
 * may stand alone. */
static enum status append_version(const struct store *store, const char *path, const char *name,
                                  struct text *out, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    struct store_info info;
    document_key(path, name, key);
    enum status status = store_stat(store, key, &info, err);
    if (status == STATUS_OK)
        text_append(out, "version %" PRIu64 "\n", info.version);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* As a version, a document's text. */
static enum status hash_document(const struct store *store, const char *key, uint64_t *ret_hash,
                                 struct error *err)
{
    char *text = NULL;
    size_t size = 0;
    enum status status = store_get_text(store, key, ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);
    if (status == STATUS_OK)
        *ret_hash = XXH3_64bits(text, size);
    free(text);
    return status;
}

/* Behind a network one name may stand for several servers, of which each has versions of its own:
 * there the text alone counts. 0: there is no such document. */
static enum status find_version(const struct dataset *dataset, const struct zarr_array *array,
                                uint64_t *ret_version, struct error *err)
{
    char key[ZARR_KEY_BYTES];
    const char *own_key = key;
    struct store_info info = {0};
    document_key(zarr_array_store_path(array).text,
                 array->format == ZARR_V3 ? "zarr.json" : ".zarray", key);
    const struct store *store = store_resolve(dataset->private->store, &own_key, err);
    if (!store)
        return STATUS_INVALID;
    enum status status = store_is_remote(store) ? hash_document(store, own_key, &info.version, err)
                                                : store_stat(store, own_key, &info, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    *ret_version = status == STATUS_OK ? info.version : 0;
    return STATUS_OK;
}

static bool has_arrays(const struct dataset *dataset, size_t field)
{
    return dataset->private->origins[field].array;
}

enum status dataset_note_versions(struct dataset *dataset, struct error *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < dataset->field_count; i++)
        for (size_t s = 0;
             has_arrays(dataset, i) && status == STATUS_OK && s < dataset->private->store_count;
             s++) {
            struct store_field *here = &dataset->private->origins[i].store_fields[s];
            status = find_version(dataset, &here->array, &here->version, err);
        }
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        for (size_t c = 0; c < origin->column_count; c++)
            for (size_t s = 0; status == STATUS_OK && s < dataset->private->store_count; s++)
                status = find_version(dataset, &origin->columns[c].views[s],
                                      &origin->columns[c].versions[s], err);
    }
    return status;
}

/* The version of a column's metadata; 0: the array is no column. */
static uint64_t column_version(const struct dataset *dataset, const struct zarr_array *array)
{
    for (size_t r = 0; r < dataset->ragged_count; r++) {
        const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
        for (size_t c = 0; c < origin->column_count; c++)
            for (size_t s = 0; s < dataset->private->store_count; s++)
                if (&origin->columns[c].views[s] == array)
                    return origin->columns[c].versions[s];
    }
    return 0;
}

enum status dataset_check_unchanged(const struct dataset *dataset, const struct zarr_array *array,
                                    struct error *err)
{
    uint64_t version = 0, before = column_version(dataset, array);
    enum status status = find_version(dataset, array, &version, err);
    for (size_t i = 0; i < dataset->field_count; i++)
        for (size_t s = 0; has_arrays(dataset, i) && s < dataset->private->store_count; s++) {
            const struct store_field *here = &dataset->private->origins[i].store_fields[s];
            if (&here->array == array)
                before = here->version;
        }
    if (status != STATUS_OK || version == before)
        return status;
    return error_set(err, STATUS_INVALID,
                     "the dataset was changed during the run: the metadata of array '%s' %s",
                     array->path, version ? "was written anew" : "is gone");
}

static enum status identify_hierarchy(const struct store *store,
                                      const struct zarr_hierarchy *hierarchy, struct text *out,
                                      struct error *err)
{
    bool is_v3 = hierarchy->format == ZARR_V3;
    enum status status = append_version(store, "", is_v3 ? "zarr.json" : ".zmetadata", out, err);
    for (size_t i = 0; status == STATUS_OK && i < hierarchy->node_count; i++) {
        const struct zarr_node *node = &hierarchy->nodes[i];
        text_append(out, "array '%s'\n%s\n", node->array.path, node->document);
        status = append_version(store, zarr_array_store_path(&node->array).text,
                                is_v3 ? "zarr.json" : ".zarray", out, err);
    }
    return status;
}

enum { MANY_ARRAYS = 256 }; /* more are not looked at for a cache */

static enum status identify_store(const struct dataset *dataset, size_t i, struct text *out,
                                  struct error *err)
{
    const struct zarr_wanted wanted = {.most = MANY_ARRAYS};
    const char *name;
    const struct store *store = store_joined_at(dataset->private->store, i, &name);
    struct zarr_hierarchy *all = NULL;
    const struct zarr_hierarchy *found = dataset->private->hierarchies[i];
    bool known =
        zarr_hierarchy_open_wanted(store, &wanted, &all, NULL) == STATUS_OK && !all->incomplete;
    for (size_t k = 0; known && k < found->node_count; k++)
        known = zarr_hierarchy_find(all, found->nodes[k].array.path);
    enum status status = identify_hierarchy(store, known ? all : found, out, err);

    zarr_hierarchy_free(all);
    return status;
}

enum status dataset_identify(const struct dataset *dataset, uint64_t *ret_identity,
                             struct error *err)
{
    const struct dataset_private *private = dataset->private;
    struct text text = {0};
    enum status status = store_identify(private->store, &text, err);
    for (size_t s = 0; status == STATUS_OK && s < private->opened_count; s++)
        status = identify_store(dataset, s, &text, err);
    if (status == STATUS_OK)
        *ret_identity = XXH3_64bits(text.data, text.length);
    text_done(&text);
    return status;
}
