/* Opening the hierarchy of one store: the arrays that fields name, and no others. Called while
 * opening, by one thread. */
#include "dataset/fields/select_internal.h"

#include <assert.h>
#include <stdlib.h>

/* Paths of arrays that are wanted. */
struct wanted {
    struct select_path *paths; /* [most], owned */
    const char **texts;        /* [most], owned */
    size_t count, most;
};

static void want(const struct choice *choice, const char *path, struct wanted *wanted)
{
    assert(wanted->count < wanted->most);
    wanted->paths[wanted->count] = select_full_path(choice, path);
    wanted->texts[wanted->count] = wanted->paths[wanted->count].text;
    wanted->count++;
}

/* Mistakes in the keys of ragged fields. */
static enum status check_ragged_keys(const struct dataset_options *options, struct error *err)
{
    struct ragged_paths paths;
    for (size_t i = 0; i < options->field_count; i++) {
        const struct dataset_field_spec *spec = &options->fields[i];
        if (ragged_has_keys(spec) && ragged_list_paths(spec, &paths, err) != STATUS_OK)
            return error_prefix(err, STATUS_INVALID, "field '%s': ", spec->name);
    }
    return STATUS_OK;
}

static void want_ragged(const struct choice *choice, const struct dataset_field_spec *spec,
                        struct wanted *wanted)
{
    struct ragged_paths paths;
    if (ragged_list_paths(spec, &paths, NULL) != STATUS_OK)
        return;
    want(choice, paths.offsets, wanted);
    for (size_t i = 0; i < paths.column_count; i++)
        want(choice, paths.columns[i], wanted);
}

/* The coordinate or index by which frames of the dataset's stores find a field's items. */
static void want_index(const struct choice *choice, const struct dataset_field_spec *spec,
                       struct wanted *wanted)
{
    if (choice->store == 0 && (spec->index || spec->align))
        want(choice, spec->align ? spec->align : spec->index, wanted);
}

/* With a hierarchy in the choice, also the arrays of sparse groups of the names of arrays that are
 * not there. Returns whether there is such a name. */
static bool want_all(const struct choice *choice, const struct dataset_options *options,
                     struct wanted *wanted)
{
    size_t fields =
        options->field_count < DATASET_MAX_FIELDS ? options->field_count : DATASET_MAX_FIELDS;
    bool found = false;
    for (size_t i = 0; i < fields; i++) {
        const struct dataset_field_spec *spec = &options->fields[i];
        want_index(choice, spec, wanted);
        if (dataset_own_store(choice->dataset, spec->store) != choice->store)
            continue;
        bool is_group =
            choice->hierarchy && !ragged_has_keys(spec) && !select_has(choice, spec->array);
        found = found || is_group;
        if (is_group || ragged_has_keys(spec))
            want_ragged(choice, spec, wanted);
        if (!ragged_has_keys(spec))
            want(choice, spec->array, wanted);
    }
    return found;
}

/* Opens what is named. Names that no array has may be those of sparse groups. */
static enum status open_named(struct choice *choice, const struct dataset_options *options,
                              const struct store *store, struct wanted *wanted,
                              struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    static const struct zarr_hierarchy nothing;
    struct zarr_hierarchy *first = NULL;
    (void)want_all(choice, options, wanted);
    struct zarr_wanted some = {.paths = wanted->texts, .path_count = wanted->count};
    enum status status = zarr_hierarchy_open_wanted(store, &some, &first, err);
    if (status != STATUS_OK && status != STATUS_NOT_FOUND)
        return status;
    choice->hierarchy = first ? first : &nothing;
    wanted->count = 0;
    if (want_all(choice, options, wanted)) {
        struct zarr_hierarchy *second;
        some.path_count = wanted->count;
        if (zarr_hierarchy_open_wanted(store, &some, &second, NULL) == STATUS_OK) {
            zarr_hierarchy_free(first);
            first = second;
        }
    }
    if (!first)
        return status;
    *ret_hierarchy = first;
    return STATUS_OK;
}

static bool has_field_without_store(const struct dataset_options *options)
{
    for (size_t i = 0; i < options->field_count; i++)
        if (!options->fields[i].store)
            return true;
    return options->field_count == 0;
}

enum status select_open(const struct dataset *dataset, const struct dataset_options *options,
                        size_t store, struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    const char *name;
    const struct store *from = store_joined_at(dataset->private->store, store, &name);
    struct choice choice;
    enum status status = select_begin(options, &choice, err);
    if (status != STATUS_OK)
        return status;
    choice.dataset = dataset;
    choice.store = store < dataset->store_count ? 0 : store;
    if (choice.store > 0)
        choice.group[0] = '\0';
    if (!options->fields)
        return zarr_hierarchy_open_wanted(from, &(struct zarr_wanted){.group = choice.group},
                                          ret_hierarchy, err);
    if (!has_field_without_store(options))
        return error_set(
            err, STATUS_INVALID,
            "dataset.fields: all fields have a store of their own: frames are those of "
            "dataset.uri, of which one field at least is to be read");
    status = check_ragged_keys(options, err);
    if (status != STATUS_OK)
        return status;
    struct wanted wanted = {.most = (RAGGED_MOST_ARRAYS + 2) * (options->field_count + 1)};
    wanted.paths = calloc(wanted.most, sizeof *wanted.paths);
    wanted.texts = calloc(wanted.most, sizeof *wanted.texts);
    if (!wanted.paths || !wanted.texts)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the names of arrays");
    else
        status = open_named(&choice, options, from, &wanted, ret_hierarchy, err);
    free(wanted.paths);
    free(wanted.texts);
    return status;
}

enum status select_open_arrays(const struct dataset_options *options, const struct store *store,
                               const char *const *paths, size_t count,
                               struct zarr_hierarchy **ret_hierarchy, struct error *err)
{
    struct select_path full[SELECT_MOST_ARRAYS];
    const char *wanted[SELECT_MOST_ARRAYS];
    struct choice choice;
    enum status status = select_begin(options, &choice, err);
    assert(count <= SELECT_MOST_ARRAYS);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        full[i] = select_full_path(&choice, paths[i]);
        wanted[i] = full[i].text;
    }
    return zarr_hierarchy_open_wanted(
        store, &(struct zarr_wanted){.paths = wanted, .path_count = count}, ret_hierarchy, err);
}
