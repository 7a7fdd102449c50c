/* See slab_writer.h.
 *
 *     the source -> slab [samples, ...] in C order -> chunk -> stored chunk -> value
 *                        (also what is read back)       |<- a value of one chunk, or shard ->|
 *
 * A chunk whose bytes are one run of the slab is encoded from there.
 */
#include "workshop/making/slab_writer.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "codec/codec.h"
#include "zarr/chunk/chunk.h"
#include "zarr/chunk/shard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct slab_writer {
    const struct store *destination;
    const struct targets *targets;
    uint64_t slab_bytes;
    bool verify;
    const struct target *target; /* that all below but the slab is for; NULL: none yet */
    void *reader;                /* of the targets' source */
    struct zarr_chunk_reader *back;
    void *slab, *buffers;
    size_t buffers_bytes;
    unsigned char *chunk, *value;
    struct shard_entry *index; /* of a shard */
    uint64_t stored_bytes;     /* of the slab that is being written */
};

/* Sizes
 * ------------------------------------------------------------------------------------------- */

static const struct zarr_shard_level *shard_of_target(const struct zarr_array *array)
{
    return array->shard_level_count > 0 ? &array->shard_levels[0] : NULL;
}

/* Sizes of the three buffers, which lie one after another. */
struct buffer_sizes {
    size_t chunk, value, index;
};

static struct buffer_sizes size_buffers(const struct zarr_array *array)
{
    const struct zarr_shard_level *shard = shard_of_target(array);
    size_t stored = codec_chain_stored_bound(&array->codecs, array->chunk_bytes);
    struct buffer_sizes sizes = {.chunk = array->chunk_bytes, .value = stored};
    if (shard) {
        sizes.index = shard->entry_count * sizeof(struct shard_entry);
        sizes.value = stored * shard->entry_count +
                      codec_chain_stored_bound(&shard->index_codecs, sizes.index);
    }
    sizes.chunk = size_round_up(sizes.chunk, MEMORY_LINE_BYTES);
    sizes.value = size_round_up(sizes.value, MEMORY_LINE_BYTES);
    return sizes;
}

static size_t sum_sizes(struct buffer_sizes sizes)
{
    return sizes.chunk + sizes.value + sizes.index;
}

uint64_t target_thread_bytes(const struct targets *targets, const struct target *target,
                             bool verify)
{
    const struct zarr_array *array = &target->array;
    return targets->source.reader_bytes(targets->source.argument, target) +
           (verify ? zarr_chunk_reader_bytes(NULL, &array, 1) : 0) + sum_sizes(size_buffers(array));
}

/* A thread's memory
 * ------------------------------------------------------------------------------------------- */

static void drop_target(struct slab_writer *writer)
{
    zarr_chunk_reader_free(writer->back);
    memory_unmap(writer->buffers, writer->buffers_bytes);
    writer->back = NULL;
    writer->buffers = NULL;
    writer->target = NULL;
}

static enum status use_target(struct slab_writer *writer, const struct target *target,
                              struct error *err)
{
    const struct zarr_array *array = &target->array;
    struct buffer_sizes sizes = size_buffers(array);
    if (writer->target == target)
        return STATUS_OK;
    drop_target(writer);
    enum status status = STATUS_OK;
    if (writer->verify)
        status = zarr_chunk_reader_new(writer->destination, &array, 1, &writer->back, err);
    if (status == STATUS_OK)
        status = memory_map(sum_sizes(sizes), "encoded chunks", &writer->buffers, err);
    if (status != STATUS_OK)
        return status;
    writer->buffers_bytes = sum_sizes(sizes);
    writer->chunk = writer->buffers;
    writer->value = writer->chunk + sizes.chunk;
    writer->index = (struct shard_entry *)(void *)(writer->value + sizes.value);
    writer->target = target;
    return STATUS_OK;
}

enum status slab_writer_new(const struct store *destination, const struct targets *targets,
                            uint64_t slab_bytes, bool verify, struct slab_writer **ret_writer,
                            struct error *err)
{
    struct slab_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    *writer = (struct slab_writer){
        .destination = destination,
        .targets = targets,
        .slab_bytes = slab_bytes,
        .verify = verify,
    };
    enum status status = memory_map(slab_bytes, "samples", &writer->slab, err);
    if (status == STATUS_OK)
        status = targets->source.open(targets->source.argument, &writer->reader, err);
    if (status != STATUS_OK) {
        slab_writer_free(writer);
        return status;
    }
    *ret_writer = writer;
    return STATUS_OK;
}

void slab_writer_free(struct slab_writer *writer)
{
    if (!writer)
        return;
    drop_target(writer);
    if (writer->reader)
        writer->targets->source.close(writer->reader);
    memory_unmap(writer->slab, writer->slab_bytes);
    free(writer);
}

/* From the slab into chunks
 * ------------------------------------------------------------------------------------------- */

/* Samples [begin, end) in C order at `bytes`. */
struct slab {
    const unsigned char *bytes;
    uint64_t begin, end;
};

/* A box of items, and how far apart in bytes two of them are along each axis. */
struct box {
    uint64_t lengths[ZARR_MAX_RANK], from_strides[ZARR_MAX_RANK], to_strides[ZARR_MAX_RANK];
};

static bool is_in_c_order(const struct zarr_array *array)
{
    for (int i = 0; i < array->rank; i++)
        if (array->storage_axes[i] != i)
            return false;
    return true;
}

/* Copies axes [axis, rank) of the box from the slab into the chunk. */
static void copy_box(const struct zarr_array *array, const struct box *box, int axis,
                     const unsigned char *from, unsigned char *to)
{
    uint64_t length = box->lengths[axis];
    uint64_t from_stride = box->from_strides[axis], to_stride = box->to_strides[axis];
    if (axis == array->rank - 1 && to_stride == from_stride) {
        memcpy(to, from, length * array->item_bytes);
        return;
    }
    for (uint64_t i = 0; i < length; i++)
        if (axis == array->rank - 1)
            memcpy(to + i * to_stride, from + i * from_stride, array->item_bytes);
        else
            copy_box(array, box, axis + 1, from + i * from_stride, to + i * to_stride);
}

static void fill_chunk(const struct zarr_array *array, unsigned char *chunk)
{
    for (size_t at = 0; at < array->chunk_bytes; at += array->item_bytes)
        memcpy(chunk + at, array->fill, array->item_bytes);
}

/* The bytes of the chunk at `index`, in the slab or put together in the writer's buffer. */
static const unsigned char *gather(struct slab_writer *writer, const struct slab *slab,
                                   const uint64_t *index)
{
    const struct zarr_array *array = &writer->target->array;
    struct box box;
    uint64_t offset = 0, from_stride = array->item_bytes, to_stride = array->item_bytes;
    bool whole = true, run = is_in_c_order(array);
    for (int i = array->rank - 1; i >= 0; i--) {
        uint64_t start = index[i] * array->chunk_shape[i];
        box.lengths[i] = min_u64(array->shape[i] - start, array->chunk_shape[i]);
        whole = whole && box.lengths[i] == array->chunk_shape[i];
        run = run && (i == 0 || array->chunk_shape[i] == array->shape[i]);
        box.from_strides[i] = from_stride;
        box.to_strides[array->storage_axes[i]] = to_stride;
        offset += (i == 0 ? start - slab->begin : start) * from_stride;
        from_stride *= array->shape[i];
        to_stride *= array->chunk_shape[array->storage_axes[i]];
    }
    if (whole && run)
        return slab->bytes + offset;
    if (!whole)
        fill_chunk(array, writer->chunk);
    copy_box(array, &box, 0, slab->bytes + offset, writer->chunk);
    return writer->chunk;
}

static enum status encode_chunk(struct slab_writer *writer, const struct slab *slab,
                                const uint64_t *index, unsigned char *stored, size_t *ret_size,
                                struct error *err)
{
    const struct zarr_array *array = &writer->target->array;
    const unsigned char *chunk = gather(writer, slab, index);
    return codec_encode(&array->codecs, chunk, array->chunk_bytes, stored,
                        codec_chain_stored_bound(&array->codecs, array->chunk_bytes), ret_size,
                        err);
}

/* Values
 * ------------------------------------------------------------------------------------------- */

/* All chunks of the shard whose first chunk is at `first`, and the index behind them. */
static enum status encode_shard(struct slab_writer *writer, const struct slab *slab,
                                const uint64_t *first, size_t *ret_size, struct error *err)
{
    const struct zarr_array *array = &writer->target->array;
    const struct zarr_shard_level *shard = shard_of_target(array);
    size_t size = 0, index_bytes = shard->entry_count * sizeof *writer->index;
    enum status status = STATUS_OK;
    for (uint64_t entry = 0; entry < shard->entry_count && status == STATUS_OK; entry++) {
        uint64_t index[ZARR_MAX_RANK] = {0}, rest = entry;
        bool inside = true;
        for (int i = array->rank - 1; i >= 0; i--) {
            index[i] = first[i] + rest % shard->counts[i];
            rest /= shard->counts[i];
            inside = inside && index[i] < array->chunk_counts[i];
        }
        writer->index[entry] = (struct shard_entry){SHARD_MISSING, SHARD_MISSING};
        if (!inside)
            continue;
        size_t stored_size = 0;
        status = encode_chunk(writer, slab, index, writer->value + size, &stored_size, err);
        writer->index[entry] = (struct shard_entry){size, stored_size};
        size += stored_size;
    }
    size_t stored_index = 0;
    if (status == STATUS_OK)
        status = codec_encode(
            &shard->index_codecs, writer->index, index_bytes, writer->value + size,
            codec_chain_stored_bound(&shard->index_codecs, index_bytes), &stored_index, err);
    *ret_size = size + stored_index;
    return status;
}

static enum status write_value(struct slab_writer *writer, const struct slab *slab,
                               const uint64_t *first, struct error *err)
{
    const struct zarr_array *array = &writer->target->array;
    char key[ZARR_KEY_BYTES];
    size_t size = 0;
    enum status status = shard_of_target(array)
                             ? encode_shard(writer, slab, first, &size, err)
                             : encode_chunk(writer, slab, first, writer->value, &size, err);
    zarr_chunk_key(array, first, key);
    if (status != STATUS_OK)
        return error_prefix(err, status, "encode '%s': ", key);
    writer->stored_bytes += size;
    if (!writer->destination)
        return STATUS_OK;
    return store_put(writer->destination, key, writer->value, size, err);
}

static enum status write_values(struct slab_writer *writer, const struct slab *slab,
                                struct error *err)
{
    const struct target *target = writer->target;
    const struct zarr_array *array = &target->array;
    uint64_t counts[ZARR_MAX_RANK], total = 1;
    uint64_t first_row = slab->begin / target->value_shape[0];
    assert(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    for (int i = 0; i < array->rank; i++) {
        uint64_t high = i == 0 ? slab->end : array->shape[i];
        counts[i] = size_divide_up(high, target->value_shape[i]) - (i == 0 ? first_row : 0);
        total *= counts[i];
    }
    enum status status = STATUS_OK;
    for (uint64_t number = 0; number < total && status == STATUS_OK; number++) {
        uint64_t first[ZARR_MAX_RANK] = {0}, rest = number;
        for (int i = array->rank - 1; i >= 0; i--) {
            uint64_t value = rest % counts[i] + (i == 0 ? first_row : 0);
            first[i] = value * (target->value_shape[i] / array->chunk_shape[i]);
            rest /= counts[i];
        }
        status = write_value(writer, slab, first, err);
    }
    return status;
}

/* Slabs
 * ------------------------------------------------------------------------------------------- */

static struct digest_sum hash_slab(const struct slab_writer *writer, const struct slab *slab)
{
    struct digest_sum sum = {0};
    digest_add(&sum, zarr_array_sample_bytes(&writer->target->array), slab->begin,
               slab->end - slab->begin, writer->slab);
    return sum;
}

static enum status read_slab(struct slab_writer *writer, const struct slab *slab, void *samples,
                             struct error *err)
{
    return writer->targets->source.read(writer->reader, writer->target, slab->begin, slab->end,
                                        samples, err);
}

/* Reads what was written, over the slab. */
static enum status read_back(struct slab_writer *writer, const struct slab *slab,
                             struct digest_sum *ret_sum, struct error *err)
{
    struct zarr_read_stats stats = {0};
    enum status status = zarr_read_samples(writer->back, &writer->target->array, slab->begin,
                                           slab->end, writer->slab, &stats, err);
    *ret_sum = status != STATUS_OK ? (struct digest_sum){0} : hash_slab(writer, slab);
    return status;
}

static enum status enter_slab(struct slab_writer *writer, uint64_t number, struct slab *ret_slab,
                              struct error *err)
{
    const struct targets *targets = writer->targets;
    const struct target *target = &targets->arrays[targets_find(targets, number)];
    struct slab slab = {.bytes = writer->slab};
    slabs_range(&target->slabs, number - target->first_slab, &slab.begin, &slab.end);
    *ret_slab = slab;
    return use_target(writer, target, err);
}

static bool same_sum(const struct digest_sum *a, const struct digest_sum *b)
{
    return a->low == b->low && a->high == b->high;
}

enum status slab_write(struct slab_writer *writer, uint64_t number, struct digest_sum *ret_sum,
                       struct slab_bytes *ret_bytes, struct error *err)
{
    struct slab slab;
    struct digest_sum sum = {0}, back;
    writer->stored_bytes = 0;
    enum status status = enter_slab(writer, number, &slab, err);
    if (status == STATUS_OK)
        status = read_slab(writer, &slab, writer->slab, err);
    if (status == STATUS_OK) {
        sum = hash_slab(writer, &slab);
        status = write_values(writer, &slab, err);
    }
    if (status == STATUS_OK && writer->verify)
        status = read_back(writer, &slab, &back, err);
    if (status != STATUS_OK)
        return status;
    if (writer->verify && !same_sum(&sum, &back))
        return error_set(err, STATUS_CORRUPT,
                         "array '%s': samples %llu to %llu read otherwise than they were written: "
                         "storage or memory is broken, or somebody else writes there",
                         writer->target->array.path, (unsigned long long)slab.begin,
                         (unsigned long long)slab.end - 1);
    *ret_sum = sum;
    *ret_bytes = (struct slab_bytes){
        .decoded = (slab.end - slab.begin) * zarr_array_sample_bytes(&writer->target->array),
        .stored = writer->stored_bytes,
    };
    return STATUS_OK;
}

enum status slab_read(struct slab_writer *writer, uint64_t number, void *samples, struct error *err)
{
    struct slab slab;
    enum status status = enter_slab(writer, number, &slab, err);
    return status != STATUS_OK ? status : read_slab(writer, &slab, samples, err);
}

enum status slab_encode(struct slab_writer *writer, uint64_t number, const void *samples,
                        struct error *err)
{
    struct slab slab;
    enum status status = enter_slab(writer, number, &slab, err);
    slab.bytes = samples;
    return status != STATUS_OK ? status : write_values(writer, &slab, err);
}

bool slab_is_written(struct slab_writer *writer, uint64_t number, const struct digest_sum *sum)
{
    struct slab slab;
    struct digest_sum back;
    struct error err;
    return enter_slab(writer, number, &slab, &err) == STATUS_OK && writer->back &&
           read_back(writer, &slab, &back, &err) == STATUS_OK && same_sum(sum, &back);
}
