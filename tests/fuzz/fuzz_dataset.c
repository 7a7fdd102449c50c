/* Fuzz target for what follows of a store's metadata: fields, views of their arrays, rows, records
 * and held memory. Sizes that are told add up, without an overflow anywhere on the way.
 *
 *     byte 0      stores: one to three that hold the same
 *     byte 1      number of fields; 0: the default ones
 *     then 5 bytes a field: its array, its index (odd: none), sample axis, cast, scaled or not
 *     the rest    keys and values of a store, each ended by a NUL
 */
#include "memory_store.h"

#include "dataset/dataset_internal.h"
#include "dataset/fields/select.h"
#include "dataset/open/settle.h"
#include "dataset/ragged/ragged_open.h"

enum { STORES = 3, FIELDS = 4 };

struct world {
    struct memory_store memory;
    struct zarr_hierarchy *hierarchies[STORES];
    struct dataset_private private;
    struct dataset dataset;
    uint64_t first_sample[STORES + 1], first_row[STORES + 1];
    char names[FIELDS][2], axes[FIELDS][2];
    struct dataset_field_spec specs[FIELDS];
};

static uint64_t times(uint64_t a, uint64_t b)
{
    CHECK(!__builtin_mul_overflow(a, b, &a));
    return a;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    CHECK(!__builtin_add_overflow(a, b, &a));
    return a;
}

static void check_field(const struct dataset *dataset, size_t i)
{
    const struct dataset_field *field = &dataset->fields[i];
    const struct field_origin *origin = &dataset->private->origins[i];
    uint64_t bytes = dtype_bytes(field->dtype);
    for (int axis = 0; axis < field->rank; axis++)
        bytes = times(bytes, field->shape[axis]);
    CHECK(bytes > 0 && bytes == field->sample_bytes);
    for (size_t s = 0; s < dataset->store_count; s++) {
        const struct zarr_array *array = &origin->store_fields[s].array;
        CHECK(times(array->shape[0], bytes) == array->total_bytes);
        CHECK(array->total_bytes <= INT64_MAX);
    }
    if (field->source == FIELD_ROW) {
        uint64_t row = times(dataset->row_length, bytes);
        CHECK(plus(field->row_offset, row) <= dataset->row_bytes);
    } else {
        uint64_t held = 0;
        for (size_t s = 0; s < dataset->store_count; s++)
            held = plus(held, origin->store_fields[s].array.total_bytes);
        CHECK(plus(origin->held_offset, held) <= dataset->held_bytes);
    }
}

static void check_dataset(const struct dataset *dataset)
{
    uint64_t samples = 0, rows = 0, sample_bytes = 0;
    CHECK(dataset->row_length > 0 && dataset->row_count > 0);
    for (size_t s = 0; s < dataset->store_count; s++) {
        uint64_t count = dataset->store_frames[s + 1] - dataset->store_frames[s];
        samples = plus(samples, count);
        rows = plus(rows, (count - 1) / dataset->row_length + 1);
    }
    CHECK(samples == dataset->sample_count && rows == dataset->row_count);
    for (size_t i = 0; i < dataset->field_count; i++) {
        check_field(dataset, i);
        sample_bytes = plus(sample_bytes, dataset->fields[i].sample_bytes);
    }
    CHECK(sample_bytes == dataset->sample_bytes);
    uint64_t last = dataset_row_frames(dataset, dataset->row_count - 1);
    CHECK(last > 0 && last <= dataset->row_length);
    CHECK(dataset_row_first(dataset, dataset->row_count - 1) + last == dataset->sample_count);
}

static const char *path_of(const struct world *world, uint8_t byte)
{
    const struct zarr_hierarchy *hierarchy = world->hierarchies[0];
    return hierarchy->node_count ? hierarchy->nodes[byte % hierarchy->node_count].array.path : "";
}

/* What the input's head says, once the arrays are known. */
static struct dataset_options choose(struct world *world, struct input head)
{
    struct dataset_options options = {.hold_limit_bytes = 1 << 20};
    take_byte(&head);
    options.field_count = take_byte(&head) % (FIELDS + 1);
    options.fields = options.field_count ? world->specs : NULL;
    for (size_t i = 0; i < options.field_count; i++) {
        struct dataset_field_spec *spec = &world->specs[i];
        world->names[i][0] = (char)('a' + i);
        spec->name = world->names[i];
        spec->array = path_of(world, take_byte(&head));
        uint8_t index = take_byte(&head);
        spec->index = index % 2 ? NULL : path_of(world, index / 2);
        world->axes[i][0] = (char)('0' + take_byte(&head) % 4);
        spec->sample_axis = world->axes[i];
        spec->cast = (enum dtype)(take_byte(&head) % (DTYPE_FLOAT64 + 1));
        spec->scale = take_byte(&head) % 2 ? 0.5 : 0.0;
    }
    return options;
}

static enum status settle(struct world *world, const struct dataset_options *options,
                          struct error *err)
{
    struct dataset *dataset = &world->dataset;
    enum status status = select_fields(dataset, options, err);
    if (status == STATUS_OK)
        status = store_fields_settle(dataset, err);
    if (status == STATUS_OK)
        status = layout_settle_rows(dataset, err);
    return status == STATUS_OK ? layout_settle(dataset, err) : status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world; /* too large for a stack */
    struct input head = {data, size}, input = {data, size};
    struct dataset_private *private = &world.private;
    struct error err;
    size_t skipped;
    memset(&world, 0, sizeof world);
    private->store_count = 1 + take_byte(&input) % STORES;
    take_bytes(&input, take_byte(&input) % (FIELDS + 1) * (size_t)5, &skipped);
    memory_store_fill(&world.memory, &input);
    private->store = &world.memory.store;
    private->opened_count = private->store_count;
    private->hierarchies = world.hierarchies;
    private->first_frame = world.first_sample;
    private->first_row = world.first_row;
    private->hold_limit_bytes = 1 << 20;
    world.dataset = (struct dataset){.private = private,
                                     .fields = private->fields,
                                     .store_count = private->store_count,
                                     .store_frames = world.first_sample,
                                     .store_rows = world.first_row,
                                     .mask = size % 2};
    enum status status = STATUS_OK;
    for (size_t s = 0; status == STATUS_OK && s < private->store_count; s++)
        status = zarr_hierarchy_open(&world.memory.store, &world.hierarchies[s], &err);
    if (status == STATUS_OK) {
        struct dataset_options options = choose(&world, head);
        status = settle(&world, &options, &err);
    }
    if (status == STATUS_OK)
        check_dataset(&world.dataset);
    else
        CHECK(err.status == (int32_t)status && err.message[0]);
    for (size_t i = 0; i < DATASET_MAX_FIELDS; i++)
        free(private->origins[i].store_fields);
    for (size_t r = 0; r < RAGGED_MAX_FIELDS; r++)
        ragged_origin_free(&private->ragged_origins[r]);
    for (size_t s = 0; s < STORES; s++)
        zarr_hierarchy_free(world.hierarchies[s]);
    memory_store_done(&world.memory);
    return 0;
}
