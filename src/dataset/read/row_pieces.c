/* See row_pieces.h. Asks no store, but looks into the disk cache. */
#include "dataset/read/row_pieces.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "codec/codec.h"
#include "codec/vlen.h"
#include "dataset/panel.h"
#include "dataset/read/row_walk.h"

#include <stdlib.h>
#include <string.h>

struct demand {
    uint64_t pieces, bytes;
};

static void add(struct demand *sum, struct demand more)
{
    sum->pieces += more.pieces;
    sum->bytes += more.bytes;
}

static void raise(struct demand *most, struct demand other)
{
    most->pieces = max_u64(most->pieces, other.pieces);
    most->bytes = max_u64(most->bytes, other.bytes);
}

/* The shards of a level that `along` chunks along the sample axis may touch. */
static uint64_t shards_touched(const struct zarr_array *array, int level, uint64_t along)
{
    const uint64_t *spans = array->shard_levels[level].spans;
    uint64_t most = size_divide_up(along - 1, spans[0]) + 1;
    uint64_t all = size_divide_up(array->chunk_counts[0], spans[0]);
    uint64_t count = min_u64(most, all);
    for (int i = 1; i < array->rank; i++)
        count *= min_u64(size_divide_up(array->chunk_counts[i], spans[i]),
                         zarr_array_chunks_along(array, i));
    return count;
}

/* What an array takes of which a row touches `along` chunks along its sample axis: the chunks, or
 * before them the indices of one level, whichever is more. */
static struct demand demand_of(const struct zarr_array *array, uint64_t along)
{
    size_t bytes = codec_chain_is_raw(&array->codecs)
                       ? array->chunk_bytes
                       : codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
    uint64_t count = along;
    for (int i = 1; i < array->rank; i++)
        count *= zarr_array_chunks_along(array, i);
    struct demand most = {count, count * size_round_up(bytes, MEMORY_LINE_BYTES)};
    for (int i = 0; i < array->shard_level_count; i++) {
        uint64_t index = size_round_up(array->shard_levels[i].index_bytes, MEMORY_LINE_BYTES);
        raise(&most, (struct demand){0, shards_touched(array, i, along) * index});
    }
    return most;
}

/* The most chunks along the sample axis that the frames of a row touch, halos included. */
static uint64_t most_along(const struct dataset *dataset, const struct dataset_field *field,
                           const struct zarr_array *array)
{
    uint64_t row = dataset->row_length, chunk = array->chunk_shape[0];
    uint64_t halo = field->halo_before + field->halo_after;
    if (row % chunk == 0 && !dataset->private->continuous)
        return row / chunk + size_divide_up(field->halo_before, chunk) +
               size_divide_up(field->halo_after, chunk);
    return chunk % row == 0 && halo == 0 ? 1 : size_divide_up(row + halo - 1, chunk) + 1;
}

/* The most ends of stores between the frames of a row, halos included. */
static uint64_t most_ends(const struct dataset *dataset, const struct dataset_field *field)
{
    const uint64_t *first = dataset->store_frames;
    uint64_t halo = field->halo_before + field->halo_after, most = 0;
    if (!dataset->private->continuous || halo == 0)
        return 0;
    for (size_t i = 1, k = 1; i < dataset->store_count; i++) {
        while (k + 1 < dataset->store_count && first[k + 1] - first[i] < dataset->row_length + halo)
            k++;
        most = max_u64(most, k - i + 1);
    }
    return most;
}

/* Each end of a store between a row's frames cuts one more chunk in two. */
static struct demand field_demand(const struct dataset *dataset, size_t f)
{
    const struct dataset_private *private = dataset->private;
    const struct dataset_field *field = &dataset->fields[f];
    uint64_t ends = most_ends(dataset, field);
    struct demand most = {0};
    for (size_t s = 0; s < private->store_count; s++) {
        const struct zarr_array *array = &private->origins[f].store_fields[s].array;
        uint64_t along = most_along(dataset, field, array);
        struct demand one = demand_of(array, 1);
        struct demand all =
            demand_of(array, ends > 0 ? along : min_u64(along, array->chunk_counts[0]));
        raise(&most, (struct demand){all.pieces + ends * one.pieces, all.bytes + ends * one.bytes});
    }
    return most;
}

/* Pages that room is made for: twice those of a mean row. The worker asks for the rest of a larger
 * row, so that a giant one does not size the memory of all rows on their way. */
static uint64_t usual_pages(const struct dataset *dataset, const struct ragged *ragged)
{
    const struct lengths *rows = &ragged->lengths->rows;
    if (ragged->panel_count > 0)
        return min_u64(ragged->lengths->most_read_pages,
                       mul_sat(2, size_divide_up(ragged->lengths->read_pages, dataset->row_count)));
    uint64_t mean = size_divide_up(lengths_most(rows, dataset->row_count), dataset->row_count);
    return min_u64(lengths_most(rows, 1), mul_sat(2, mean));
}

/* Of values of variable length, in any store: their chunks along the frames of a row, twice as
 * large as in the mean, and at most as large as the largest. */
static struct demand values_demand(const struct dataset *dataset, size_t r)
{
    const struct ragged_origin *origin = &dataset->private->ragged_origins[r];
    uint64_t halo = origin->halo_before + origin->halo_after;
    struct demand most = {0};
    for (size_t s = 0; s < dataset->store_count; s++) {
        struct zarr_array array = origin->columns[0].views[s];
        uint64_t mean =
            array.total_bytes / array.chunk_counts[0] + vlen_begin(array.chunk_shape[0], 0);
        bool is_whole = halo == 0 && dataset->row_length % array.chunk_shape[0] == 0;
        uint64_t along =
            size_divide_up(dataset->row_length + halo - 1, array.chunk_shape[0]) + !is_whole;
        array.chunk_bytes = min_u64(array.chunk_bytes, 2 * mean);
        raise(&most, demand_of(&array, min_u64(along, array.chunk_counts[0])));
    }
    return most;
}

/* Of a column, in any store. Pages that are no whole chunks cut chunks in two. */
static struct demand column_demand(const struct dataset *dataset, size_t r, size_t c)
{
    const struct ragged *ragged = &dataset->ragged[r];
    uint64_t pages = usual_pages(dataset, ragged);
    struct demand most = {0};
    for (size_t s = 0; s < dataset->store_count; s++) {
        const struct zarr_array *array = &dataset->private->ragged_origins[r].columns[c].views[s];
        uint64_t chunk = array->chunk_shape[0], page = panel_stored(dataset, r)->page_items;
        bool cuts = page % chunk != 0;
        uint64_t most_along = add_sat(array->chunk_counts[0], cuts ? pages : 0);
        raise(&most,
              demand_of(array, min_u64(pages * (size_divide_up(page, chunk) + cuts), most_along)));
    }
    return most;
}

static struct demand row_demand(const struct dataset *dataset)
{
    struct demand sum = {0};
    for (size_t f = 0; f < dataset->field_count; f++)
        if (dataset->fields[f].source == FIELD_ROW && dataset->fields[f].row_leader == f)
            add(&sum, field_demand(dataset, f));
    for (size_t r = 0; r < dataset->ragged_count; r++)
        for (size_t c = 0; c < dataset->ragged[r].column_count && !dataset->ragged[r].is_held; c++)
            add(&sum, dataset->private->ragged_origins[r].is_vlen ? values_demand(dataset, r)
                                                                  : column_demand(dataset, r, c));
    return sum;
}

void dataset_row_demand(const struct dataset *dataset, uint64_t *ret_pieces, uint64_t *ret_bytes)
{
    struct demand most = {0};
    uint32_t count = dataset->source_count > 0 ? dataset->source_count : 1;
    for (uint32_t d = 0; d < count; d++)
        raise(&most, row_demand(dataset_source(dataset, d)));
    *ret_pieces = most.pieces;
    *ret_bytes = most.bytes;
}

struct dataset_lister {
    const struct dataset *dataset;   /* borrowed */
    struct dataset_lister **sources; /* owned, of a mix: a lister of each source, which has all the
                                      * rest */
    struct zarr_chunk_reader *chunks;
    /* of the row that is being listed */
    dataset_piece_visit *visit;
    void *argument;
    bool shares;                 /* the array's chunks are decoded once for several fields */
    char shared[ZARR_KEY_BYTES]; /* the last of such chunks: a reader still has it decoded */
};

static struct zarr_read_options lister_options(const struct dataset *dataset)
{
    struct zarr_read_options options = dataset->private->read;
    options.lists_only = true;
    return options;
}

static size_t mix_lister_bytes(const struct dataset *mix)
{
    size_t bytes = sizeof(struct dataset_lister);
    for (uint32_t d = 0; d < mix->source_count; d++)
        bytes += sizeof(struct dataset_lister *) + dataset_lister_bytes(mix->sources[d]);
    return bytes;
}

size_t dataset_lister_bytes(const struct dataset *dataset)
{
    if (dataset->source_count > 0)
        return mix_lister_bytes(dataset);
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    struct zarr_read_options options = lister_options(dataset);
    size_t count = dataset_row_arrays(dataset, arrays);

    return sizeof(struct dataset_lister) +
           zarr_chunk_reader_bytes_with(dataset->private->store, arrays, count, &options);
}

static enum status new_mix_lister(const struct dataset *mix, struct dataset_lister **ret_lister,
                                  struct error *err)
{
    struct dataset_lister *lister = calloc(1, sizeof *lister);
    enum status status = STATUS_OK;
    if (lister)
        lister->sources = calloc(mix->source_count, sizeof(struct dataset_lister *));
    if (!lister || !lister->sources)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to list what rows are read from");
    else
        lister->dataset = mix;
    for (uint32_t d = 0; d < mix->source_count && status == STATUS_OK; d++)
        status = dataset_lister_new(mix->sources[d], &lister->sources[d], err);
    if (status == STATUS_OK)
        *ret_lister = lister;
    else
        dataset_lister_free(lister);
    return status;
}

enum status dataset_lister_new(const struct dataset *dataset, struct dataset_lister **ret_lister,
                               struct error *err)
{
    if (dataset->source_count > 0)
        return new_mix_lister(dataset, ret_lister, err);
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    struct zarr_read_options options = lister_options(dataset);
    struct dataset_lister *lister = calloc(1, sizeof *lister);
    size_t count = dataset_row_arrays(dataset, arrays);

    if (!lister)
        return error_set(err, STATUS_NO_MEMORY, "no memory to list what rows are read from");
    lister->dataset = dataset;
    enum status status = zarr_chunk_reader_new_with(dataset->private->store, arrays, count,
                                                    &options, &lister->chunks, err);
    if (status != STATUS_OK) {
        free(lister);
        return status;
    }
    zarr_chunk_reader_use_cache(lister->chunks, dataset->private->cache);
    *ret_lister = lister;
    return STATUS_OK;
}

void dataset_lister_free(struct dataset_lister *lister)
{
    if (!lister)
        return;
    for (uint32_t d = 0; lister->sources && d < lister->dataset->source_count; d++)
        dataset_lister_free(lister->sources[d]);
    free(lister->sources);
    zarr_chunk_reader_free(lister->chunks);
    free(lister);
}

static enum status pass_on(void *argument, const struct zarr_piece *piece, struct error *err)
{
    struct dataset_lister *lister = argument;
    const struct store *all = lister->dataset->private->store;
    const char *key = piece->key;
    const struct store *store = store_resolve(all, &key, err);
    if (!store || !store_is_remote(store) || piece->bytes == 0)
        return STATUS_OK;
    if (lister->shares && piece->kind == ZARR_PIECE_VALUE) {
        if (strcmp(piece->key, lister->shared) == 0)
            return STATUS_OK;
        strcpy(lister->shared, piece->key);
    }
    lister->visit(all, piece, lister->argument);
    return STATUS_OK;
}

/* What cannot be listed, since an index makes no sense, is left to whoever reads the row. */
void dataset_row_pieces(struct dataset_lister *lister, uint64_t row, dataset_piece_visit *visit,
                        void *argument)
{
    if (lister->sources)
        lister = lister->sources[dataset_source_of_row(lister->dataset, row, &row)];
    struct row_walk walk = row_begin(lister->dataset, row);
    struct row_span span;

    lister->visit = visit;
    lister->argument = argument;
    lister->shared[0] = '\0';
    while (row_next(lister->dataset, &walk, &span)) {
        lister->shares = zarr_array_is_member(span.array) || span.array->convert.to != DTYPE_NONE;
        (void)!zarr_list_pieces(lister->chunks, span.array, span.begin, span.end, pass_on, lister,
                                NULL);
    }
}

static bool has_array(const struct dataset *dataset, const struct zarr_array *array)
{
    const struct zarr_array *arrays[DATASET_MAX_STORE_FIELDS];
    size_t count = dataset_row_arrays(dataset, arrays), i = 0;
    while (i < count && arrays[i] != array)
        i++;
    return i < count;
}

void dataset_take_index(struct dataset_lister *lister, const struct zarr_piece *piece,
                        const void *bytes, uint64_t value_bytes)
{
    uint32_t source = 0;
    while (lister->sources && !has_array(lister->sources[source]->dataset, piece->array))
        source++;
    if (lister->sources)
        lister = lister->sources[source];
    (void)!zarr_take_index(lister->chunks, piece, bytes, value_bytes, NULL);
}
