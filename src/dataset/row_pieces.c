/* What a row will be read from. See dataset.h; pure, but for a look into the disk cache. */
#include "dataset/dataset_internal.h"

#include "base/memory.h"
#include "base/size.h"

#include <string.h>

void dataset_stop_fetches(const struct dataset *dataset)
{
    fetch_stop(dataset->private->store);
}

struct demand {
    uint64_t pieces, bytes;
};

/* What an array takes of which a row touches `along` chunks along its sample axis. */
static struct demand demand_of(const struct zarr_array *array, uint64_t along)
{
    size_t bytes = codec_chain_is_raw(&array->codecs)
                       ? array->chunk_bytes
                       : codec_chain_stored_bound(&array->codecs, array->chunk_bytes);

    if (array->shard_level_count > 0)
        return (struct demand){0};
    for (int i = 1; i < array->rank; i++)
        along *= array->chunk_counts[i];
    return (struct demand){along, along * size_round_up(bytes, MEMORY_LINE_BYTES)};
}

static void add(struct demand *sum, struct demand more)
{
    sum->pieces += more.pieces;
    sum->bytes += more.bytes;
}

static void raise(struct demand *most, struct demand other)
{
    most->pieces = most->pieces > other.pieces ? most->pieces : other.pieces;
    most->bytes = most->bytes > other.bytes ? most->bytes : other.bytes;
}

/* The most chunks along the sample axis that a row touches. */
static uint64_t most_along(const struct dataset *dataset, const struct zarr_array *array)
{
    uint64_t row = dataset->row_length, chunk = array->chunk_shape[0];
    uint64_t most = row % chunk == 0   ? row / chunk
                    : chunk % row == 0 ? 1
                                       : size_divide_up(row - 1, chunk) + 1;

    return most < array->chunk_counts[0] ? most : array->chunk_counts[0];
}

static struct demand field_demand(const struct dataset *dataset, size_t field)
{
    const struct dataset_private *private = dataset->private;
    struct demand most = {0};

    for (size_t s = 0; s < private->store_count; s++) {
        const struct zarr_array *array = &private->origins[field].parts[s].array;

        raise(&most, demand_of(array, most_along(dataset, array)));
    }
    return most;
}

void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_pieces, uint64_t *ret_bytes)
{
    struct demand most = {0};

    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW)
            add(&most, field_demand(dataset, f));
    *ret_pieces = most.pieces;
    *ret_bytes = most.bytes;
}

/* A row whose pieces are listed. */
struct listing {
    const struct dataset *dataset;
    dataset_piece_visit *visit;
    void *argument;
    bool shares;                 /* the array's chunks are decoded once for several fields */
    char shared[ZARR_KEY_BYTES]; /* the last of such chunks: a reader still has it decoded */
};

static enum status pass_on(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct listing *listing = argument;
    const struct dataset_private *private = listing->dataset->private;
    const char *key = piece->key;
    const struct store *store = store_resolve(private->store, &key, err);

    if (!store || !store_is_remote(store))
        return STATUS_OK;
    if (private->cache && disk_cache_has(private->cache, piece->cache_key))
        return STATUS_OK;
    if (listing->shares && piece->kind == ZARR_PIECE_VALUE) {
        if (strcmp(piece->key, listing->shared) == 0)
            return STATUS_OK;
        strcpy(listing->shared, piece->key);
    }
    listing->visit(private->store, piece, listing->argument);
    return STATUS_OK;
}

/* Arrays without shards can always be listed. */
void dataset_row_pieces(const struct dataset *dataset, uint64_t row, dataset_piece_visit *visit,
                        void *argument)
{
    struct listing listing = {.dataset = dataset, .visit = visit, .argument = argument};
    struct row_cursor cursor = row_begin(dataset, row);
    struct row_span span;
    bool complete;

    while (row_next(dataset, &cursor, &span)) {
        listing.shares = zarr_array_is_member(span.array) || span.array->convert.to != DTYPE_NONE;
        if (span.array->shard_level_count == 0)
            (void)!zarr_list_pieces(NULL, span.array, span.begin, span.end, pass_on, &listing,
                                    &complete, NULL);
    }
}
