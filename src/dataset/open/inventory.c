/* See inventory.h. Threads take one part of one array after another. */
#include "dataset/open/inventory.h"

#include "base/number.h"
#include "base/random.h"
#include "dataset/fields/store_arrays.h"
#include "dataset/ragged/ragged_open.h"
#include "dataset/threads.h"
#include "dataset/walk.h"
#include "zarr/chunk/separator.h"
#include "zarr/chunk/stock.h"
#include "zarr/hierarchy/sparse_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { THREADS = 8, LIST_PARTS = 16, REMOTE_DOCUMENTS = 64 };

/* The arrays
 * ------------------------------------------------------------------------------------------- */

static bool is_same(const struct inventory_array *a, const struct store *store,
                    const struct zarr_array *array)
{
    return a->store == store &&
           strcmp(zarr_array_store_path(a->array).text, zarr_array_store_path(array).text) == 0;
}

/* Adds an array that has the path of `node` in store number `s`, unless it is there. */
static enum status add_array(struct inventory *inventory, const struct dataset *dataset, size_t s,
                             const struct zarr_node *node, const char *field, bool may_be_empty,
                             struct error *err)
{
    const char *name;
    const struct store *store = store_joined_at(dataset->private->store, s, &name);
    const struct zarr_node *here = NULL;
    enum status status = store_fields_find(dataset, s, node->array.path, may_be_empty, &here, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < inventory->count; i++)
        if (is_same(&inventory->arrays[i], store, &here->array))
            return STATUS_OK;
    if ((inventory->count & (inventory->count - 1)) == 0) {
        size_t capacity = inventory->count ? 2 * inventory->count : 1;
        struct inventory_array *more = realloc(inventory->arrays, capacity * sizeof *more);
        if (!more)
            return error_set(err, STATUS_NO_MEMORY, "no memory to list the dataset's arrays");
        inventory->arrays = more;
    }
    inventory->remote_count += store_is_remote(store);
    inventory->arrays[inventory->count++] =
        (struct inventory_array){.store = store,
                                 .array = &here->array,
                                 .uri = store_uri(store),
                                 .path = here->array.path,
                                 .field = field,
                                 .unit = here->array.shard_level_count > 0 ? "shards" : "chunks",
                                 .total = zarr_value_count(&here->array),
                                 .may_be_empty = may_be_empty};
    return STATUS_OK;
}

static enum status add_ragged(struct inventory *inventory, const struct dataset *dataset, size_t s,
                              const struct ragged_origin *origin, struct error *err)
{
    bool empty = !ragged_has_items(origin, s);
    size_t at = dataset_store_at(origin->own_store, s);
    enum status status =
        add_array(inventory, dataset, at, origin->offsets.node, origin->name, empty, err);
    for (size_t c = 0; status == STATUS_OK && c < origin->column_count; c++)
        status =
            add_array(inventory, dataset, at, origin->columns[c].node, origin->name, empty, err);
    if (status == STATUS_OK && origin->index.node)
        status = add_array(inventory, dataset, s, origin->index.node, origin->name, empty, err);
    return status;
}

static enum status add_dataset(struct inventory *inventory, const struct dataset *dataset,
                               struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t d = 0; status == STATUS_OK && d < dataset->source_count; d++)
        status = add_dataset(inventory, dataset->sources[d], err);
    if (dataset->source_count > 0)
        return status;
    for (size_t s = 0; s < dataset->private->store_count; s++) {
        for (size_t i = 0; status == STATUS_OK && i < dataset->field_count; i++) {
            const struct field_origin *origin = &dataset->private->origins[i];
            if (origin->array) {
                size_t at = dataset_store_at(origin->own_store, s);
                bool empty = zarr_sparse_group_is_empty(dataset->private->hierarchies[at],
                                                        &origin->array->array);
                status = add_array(inventory, dataset, at, origin->array, origin->name, empty, err);
            }
            if (status == STATUS_OK && origin->index)
                status = add_array(inventory, dataset, s, origin->index, origin->name, false, err);
        }
        for (size_t r = 0; status == STATUS_OK && r < dataset->ragged_count; r++)
            status = add_ragged(inventory, dataset, s, &dataset->private->ragged_origins[r], err);
    }
    return status;
}

enum status inventory_init(struct inventory *inventory, const struct dataset *dataset,
                           struct error *err)
{
    *inventory = (struct inventory){0};
    return add_dataset(inventory, dataset, err);
}

void inventory_done(struct inventory *inventory)
{
    free(inventory->arrays);
    *inventory = (struct inventory){0};
}

/* Threads
 * ------------------------------------------------------------------------------------------- */

struct work {
    enum status (*body)(struct inventory_array *of, uint32_t part, void *argument,
                        struct error *err);
    void *argument;
    struct inventory_array *arrays;
    uint64_t part_count;                     /* of each array */
    const struct inventory_waiting *waiting; /* NULL: nobody looks */
    struct walk walk;                        /* of the parts of all arrays */
};

static void *run_parts(void *argument)
{
    struct work *work = argument;
    struct error err;
    for (uint64_t i; walk_take(&work->walk, &i);) {
        enum status status = work->body(&work->arrays[i / work->part_count],
                                        (uint32_t)(i % work->part_count), work->argument, &err);
        walk_end(&work->walk, i, status, &err);
    }
    return NULL;
}

static void tell(void *argument)
{
    struct work *work = argument;
    pthread_mutex_lock(&work->walk.mutex);
    uint64_t done = work->walk.ended;
    pthread_mutex_unlock(&work->walk.mutex);
    if (work->waiting)
        work->waiting->call(work->waiting->argument, done, work->walk.count);
}

/* The error is that of the first part that fails, of those that were begun. */
static enum status run(struct work *work, uint64_t total, const struct inventory_waiting *waiting,
                       struct error *err)
{
    pthread_t threads[THREADS];
    work->waiting = waiting;
    walk_init(&work->walk, total);
    uint64_t started =
        threads_start(threads, min_u64(total, THREADS), "inventory", run_parts, work);
    if (started == 0)
        (void)run_parts(work);
    threads_await(threads, started, tell, work);
    return walk_done(&work->walk, err);
}

/* What is asked
 * ------------------------------------------------------------------------------------------- */

static enum status name_array(const struct inventory_array *of, enum status status,
                              struct error *err)
{
    return error_prefix(err, status, "field '%s': array '%s' of the store '%.250s': ", of->field,
                        of->path, of->uri);
}

/* Of the array's folder, and of the one below that has all chunks of v3: another file system may be
 * mounted there. */
static enum status take_stamp(struct inventory_array *of, uint32_t part, void *argument,
                              struct error *err)
{
    char folder[ZARR_KEY_BYTES];
    const struct zarr_path path = zarr_array_store_path(of->array);
    uint64_t stamps[2] = {0};
    enum status status = store_stamp(of->store, path.text, &stamps[0], err);
    (void)part, (void)argument;
    snprintf(folder, sizeof folder, "%s%sc", path.text, path.text[0] ? "/" : "");
    if (status == STATUS_OK && of->array->key_prefixed && of->array->key_separator == '/')
        status = store_stamp(of->store, folder, &stamps[1], err);
    of->stamp = stamps[0] | stamps[1] ? random_u64(1, stamps[0], stamps[1]) : 0;
    return status == STATUS_OK ? STATUS_OK : name_array(of, status, err);
}

enum status inventory_stamp(struct inventory *inventory, const struct inventory_waiting *waiting,
                            struct error *err)
{
    struct work work = {.body = take_stamp, .arrays = inventory->arrays, .part_count = 1};
    enum status status = run(&work, inventory->count, waiting, err);
    inventory->stamp = 0;
    for (size_t i = 0; i < inventory->count; i++)
        inventory->stamp = random_u64(2, inventory->stamp, inventory->arrays[i].stamp);
    return status;
}

static enum status read_document(struct inventory_array *of, uint32_t part, void *argument,
                                 struct error *err)
{
    const struct zarr_path path = zarr_array_store_path(of->array);
    char key[ZARR_KEY_BYTES], *text = NULL;
    size_t size = 0;
    (void)part, (void)argument;
    if (of->is_spared)
        return STATUS_OK;
    snprintf(key, sizeof key, "%s%s%s", path.text, path.text[0] ? "/" : "",
             of->array->format == ZARR_V3 ? "zarr.json" : ".zarray");
    enum status status = store_get_text(of->store, key, ZARR_MAX_DOCUMENT_BYTES, &text, &size, err);
    if (status == STATUS_OK)
        of->document = XXH3_64bits(text, size) | 1;
    free(text);
    return status == STATUS_OK || status == STATUS_NOT_FOUND ? STATUS_OK
                                                             : name_array(of, status, err);
}

/* Those of remote arrays that are read are spread evenly. */
static void spare_documents(struct inventory *inventory)
{
    uint64_t number = 0;
    for (size_t i = 0; i < inventory->count; i++)
        if (store_is_remote(inventory->arrays[i].store))
            inventory->arrays[i].is_spared =
                number++ * REMOTE_DOCUMENTS % inventory->remote_count >= REMOTE_DOCUMENTS;
}

enum status inventory_read_documents(struct inventory *inventory,
                                     const struct inventory_waiting *waiting, struct error *err)
{
    struct work work = {.body = read_document, .arrays = inventory->arrays, .part_count = 1};
    spare_documents(inventory);
    return run(&work, inventory->count, waiting, err);
}

static enum status require(struct inventory_array *of, uint32_t part, void *argument,
                           struct error *err)
{
    (void)part, (void)argument;
    if (of->may_be_empty || zarr_has_stock(of->store, of->array))
        return STATUS_OK;
    return name_array(of, stock_refuse(of->store, of->array, err), err);
}

enum status inventory_require(struct inventory *inventory, const struct inventory_waiting *waiting,
                              struct error *err)
{
    struct work work = {.body = require, .arrays = inventory->arrays, .part_count = 1};
    return run(&work, inventory->count, waiting, err);
}

struct tally {
    uint64_t count, stock;
};

static enum status add_value(uint64_t number, uint64_t content, void *argument, struct error *err)
{
    struct tally *tally = argument;
    (void)err;
    tally->count++;
    tally->stock += XXH3_64bits((uint64_t[]){number, content}, 16); /* in any order */
    return STATUS_OK;
}

static enum status list_part(struct inventory_array *of, uint32_t part, void *argument,
                             struct error *err)
{
    struct tally tally = {0};
    (void)argument;
    if (store_is_remote(of->store))
        return STATUS_OK;
    enum status status =
        zarr_list_stock(of->store, of->array, part, LIST_PARTS, add_value, &tally, err);
    of->value_count += tally.count;
    of->stock += tally.stock;
    return status == STATUS_OK ? STATUS_OK : name_array(of, status, err);
}

enum status inventory_list(struct inventory *inventory, const struct inventory_waiting *waiting,
                           struct error *err)
{
    struct work work = {.body = list_part, .arrays = inventory->arrays, .part_count = LIST_PARTS};
    for (size_t i = 0; i < inventory->count; i++)
        inventory->arrays[i].value_count = inventory->arrays[i].stock = 0;
    return run(&work, inventory->count * LIST_PARTS, waiting, err);
}

void inventory_value_key(const struct inventory_array *of, uint64_t number,
                         char ret_key[INVENTORY_KEY_BYTES])
{
    _Static_assert((int)INVENTORY_KEY_BYTES >= (int)ZARR_KEY_BYTES, "keys fit");
    zarr_value_key(of->array, number, ret_key);
}

struct marks {
    uint64_t first, count;
    _Atomic unsigned char *bits;
};

static enum status mark_value(uint64_t number, uint64_t content, void *argument, struct error *err)
{
    const struct marks *marks = argument;
    uint64_t i = number - marks->first;
    (void)content, (void)err;
    if (number >= marks->first && i < marks->count)
        marks->bits[i / 8] |= (unsigned char)(1u << i % 8);
    return STATUS_OK;
}

static enum status mark_part(struct inventory_array *of, uint32_t part, void *argument,
                             struct error *err)
{
    enum status status =
        zarr_list_stock(of->store, of->array, part, LIST_PARTS, mark_value, argument, err);
    return status == STATUS_OK ? STATUS_OK : name_array(of, status, err);
}

enum status inventory_mark(struct inventory *inventory, size_t i, uint64_t first, uint64_t count,
                           _Atomic unsigned char *bits, const struct inventory_waiting *waiting,
                           struct error *err)
{
    struct marks marks = {first, count, bits};
    struct work work = {.body = mark_part,
                        .argument = &marks,
                        .arrays = &inventory->arrays[i],
                        .part_count = LIST_PARTS};
    return run(&work, LIST_PARTS, waiting, err);
}
