/* zfpy: floats and integers of 32 and 64 bits as a stream of zfp with its full header, as numcodecs
 * stores them. See https://zfp.readthedocs.io/en/release1.0.0/algorithm.html.
 *
 * libzfp reads blocks of 4^d values without looking where its input ends. So blocks are decoded one
 * by one from the input as long as the largest block would still fit, and the rest from a copy with
 * room behind it. A stream that is longer than its bytes is found by where it ends. */
#include "codec/codec_internal.h"

#include "base/number.h"

#include <stdlib.h>
#include <string.h>
#include <zfp.h>

enum {
    SIDE = 4, /* of a block */
    MAX_AXES = 4,
    WORD_BYTES = 8,        /* that libzfp reads at once */
    BLOCK_BYTES = 1 << 12, /* no block takes more: headers have its bits in 15 bits */
    MOST_BITS = 8 * (BLOCK_BYTES + WORD_BYTES)
};

/* The step's parameters. */
enum { ZFP_DTYPE, ZFP_VALUES_LOW, ZFP_VALUES_HIGH };

struct state {
    zfp_stream *zfp;
    zfp_field *field;
    bitstream *bits;
    bool is_tail;
    size_t tail_begin; /* in the input */
    uint8_t tail[3 * BLOCK_BYTES] __attribute__((aligned(WORD_BYTES)));
};

static enum status parse(struct json_object *configuration, size_t item_bytes,
                         struct codec_step *step, struct error *err)
{
    (void)configuration, (void)item_bytes, (void)step, (void)err; /* the header has all */
    return STATUS_OK;
}

static enum status settle(struct codec_step *step, const struct codec_chunk *chunk,
                          struct error *err)
{
    uint64_t values = 1;
    for (int i = 0; i < chunk->rank; i++)
        values *= chunk->lengths[i]; /* at most ZARR_MAX_CHUNK_BYTES */
    if (chunk->dtype != DTYPE_INT32 && chunk->dtype != DTYPE_INT64 &&
        chunk->dtype != DTYPE_FLOAT32 && chunk->dtype != DTYPE_FLOAT64)
        return error_set(err, STATUS_UNSUPPORTED,
                         "zfpy: it has int32, int64, float32 and float64 alone");
    if (chunk->is_swapped)
        return error_set(err, STATUS_UNSUPPORTED,
                         "zfpy: values have no byte order of their own: write the array with a "
                         "dtype in this machine's");
    step->parameters[ZFP_DTYPE] = (int)chunk->dtype;
    step->parameters[ZFP_VALUES_LOW] = (int)(values & INT32_MAX);
    step->parameters[ZFP_VALUES_HIGH] = (int)(values >> 31);
    return STATUS_OK;
}

/* Noise takes a little more than its bytes. */
static size_t stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    (void)step;
    return 2 * decoded_bytes + ((size_t)64 << 10);
}

static void state_free(void *opaque)
{
    struct state *state = opaque;
    if (!state)
        return;
    if (state->bits)
        stream_close(state->bits);
    if (state->zfp)
        zfp_stream_close(state->zfp);
    if (state->field)
        zfp_field_free(state->field);
    free(state);
}

static enum status state_new(size_t decoded_bytes, void **ret_state, struct error *err)
{
    (void)decoded_bytes;
    struct state *state = calloc(1, sizeof *state);
    if (state) {
        state->zfp = zfp_stream_open(NULL);
        state->field = zfp_field_alloc();
    }
    if (!state || !state->zfp || !state->field) {
        state_free(state);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a decompressor");
    }
    *ret_state = state;
    return STATUS_OK;
}

static enum status begin(struct state *state, const void *bytes, size_t size, struct error *err)
{
    if (state->bits)
        stream_close(state->bits);
    state->bits = stream_open((void *)(uintptr_t)bytes, size); /* it only reads them */
    if (!state->bits)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a decompressor");
    zfp_stream_set_bit_stream(state->zfp, state->bits);
    return STATUS_OK;
}

static size_t tell(const struct state *state)
{
    return 8 * state->tail_begin + stream_rtell(state->bits);
}

/* Goes on at a bit of the input: in the input itself if the largest block would fit. */
static enum status move_to(struct state *state, struct bytes stored, size_t bit, struct error *err)
{
    state->is_tail = bit + MOST_BITS > 8 * stored.size;
    state->tail_begin = state->is_tail ? bit / (8 * WORD_BYTES) * WORD_BYTES : 0;
    enum status status;
    if (state->is_tail) {
        memset(state->tail, 0, sizeof state->tail);
        memcpy(state->tail, stored.data + state->tail_begin, stored.size - state->tail_begin);
        status = begin(state, state->tail, sizeof state->tail, err);
    } else {
        status = begin(state, stored.data, stored.size, err);
    }
    if (status == STATUS_OK)
        stream_rseek(state->bits, bit - 8 * state->tail_begin);
    return status;
}

static enum dtype dtype_of(zfp_type type)
{
    return type == zfp_type_int32   ? DTYPE_INT32
           : type == zfp_type_int64 ? DTYPE_INT64
           : type == zfp_type_float ? DTYPE_FLOAT32
                                    : DTYPE_FLOAT64;
}

/* The lengths of the axes, innermost first. */
static enum status read_header(const struct codec_step *step, struct state *state,
                               struct bytes stored, size_t lengths[MAX_AXES], struct error *err)
{
    uint64_t wanted = (uint64_t)step->parameters[ZFP_VALUES_HIGH] << 31 |
                      (uint64_t)step->parameters[ZFP_VALUES_LOW];
    uint64_t values = 1;
    enum status status = move_to(state, stored, 0, err);
    if (status != STATUS_OK)
        return status;
    if (zfp_read_header(state->zfp, state->field, ZFP_HEADER_FULL) == 0 ||
        tell(state) > 8 * stored.size)
        return error_set(err, STATUS_CORRUPT, "zfpy: %zu bytes do not begin with a header of zfp",
                         stored.size);
    const zfp_field *field = state->field;
    const size_t told[] = {field->nx, field->ny, field->nz, field->nw};
    for (int i = 0; i < MAX_AXES; i++) {
        lengths[i] = told[i] ? told[i] : 1;
        values = mul_sat(values, lengths[i]);
    }
    if ((int)dtype_of(field->type) != step->parameters[ZFP_DTYPE] || values != wanted)
        return error_set(
            err, STATUS_CORRUPT, "zfpy: header says %llu values of %s, the chunk holds %llu of %s",
            (unsigned long long)values, dtype_name(dtype_of(field->type)),
            (unsigned long long)wanted, dtype_name((enum dtype)step->parameters[ZFP_DTYPE]));
    return STATUS_OK;
}

/* A block that begins at `to`, of n[i] <= SIDE values along axis i, whose stride is s[i]. */
#define DEFINE_BLOCK(type, name)                                                               \
    static void decode_##name(zfp_stream *zfp, int axes, type *to, const size_t n[MAX_AXES],   \
                              const ptrdiff_t s[MAX_AXES])                                     \
    {                                                                                          \
        if (axes == 1)                                                                         \
            zfp_decode_partial_block_strided_##name##_1(zfp, to, n[0], s[0]);                  \
        else if (axes == 2)                                                                    \
            zfp_decode_partial_block_strided_##name##_2(zfp, to, n[0], n[1], s[0], s[1]);      \
        else if (axes == 3)                                                                    \
            zfp_decode_partial_block_strided_##name##_3(zfp, to, n[0], n[1], n[2], s[0], s[1], \
                                                        s[2]);                                 \
        else                                                                                   \
            zfp_decode_partial_block_strided_##name##_4(zfp, to, n[0], n[1], n[2], n[3], s[0], \
                                                        s[1], s[2], s[3]);                     \
    }

DEFINE_BLOCK(int32, int32)
DEFINE_BLOCK(int64, int64)
DEFINE_BLOCK(float, float)
DEFINE_BLOCK(double, double)

static void decode_block(const struct state *state, uint8_t *to, const size_t n[MAX_AXES],
                         const ptrdiff_t s[MAX_AXES])
{
    int axes = (int)zfp_field_dimensionality(state->field);
    void *values = to;
    if (state->field->type == zfp_type_int32)
        decode_int32(state->zfp, axes, values, n, s);
    else if (state->field->type == zfp_type_int64)
        decode_int64(state->zfp, axes, values, n, s);
    else if (state->field->type == zfp_type_float)
        decode_float(state->zfp, axes, values, n, s);
    else
        decode_double(state->zfp, axes, values, n, s);
}

/* The next block's first value, innermost axis first; false: there is no other. */
static bool next_block(size_t at[MAX_AXES], const size_t lengths[MAX_AXES])
{
    for (int i = 0; i < MAX_AXES; i++) {
        at[i] += SIDE;
        if (at[i] < lengths[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static enum status read_blocks(struct state *state, struct bytes stored,
                               const size_t lengths[MAX_AXES], uint8_t *out, struct error *err)
{
    size_t at[MAX_AXES] = {0}, n[MAX_AXES], bit;
    ptrdiff_t strides[MAX_AXES] = {1};
    for (int i = 1; i < MAX_AXES; i++)
        strides[i] = strides[i - 1] * (ptrdiff_t)lengths[i - 1];
    do {
        size_t first = 0;
        bit = tell(state);
        if (!state->is_tail && bit + MOST_BITS > 8 * stored.size) {
            enum status status = move_to(state, stored, bit, err);
            if (status != STATUS_OK)
                return status;
        }
        for (int i = 0; i < MAX_AXES; i++) {
            n[i] = min_u64(SIDE, lengths[i] - at[i]);
            first += at[i] * (size_t)strides[i];
        }
        decode_block(state, out + first * zfp_type_size(state->field->type), n, strides);
        bit = tell(state);
    } while (bit <= 8 * stored.size && next_block(at, lengths));
    if (bit > 8 * stored.size)
        return error_set(err, STATUS_CORRUPT, "zfpy: cut short: %zu bytes are not all",
                         stored.size);
    return STATUS_OK;
}

static enum status decode(const struct codec_step *step, void *opaque, struct bytes stored,
                          struct codec_output room, struct bytes *ret_decoded, struct error *err)
{
    struct state *state = opaque;
    size_t lengths[MAX_AXES], bytes;
    enum status status = read_header(step, state, stored, lengths, err);
    if (status != STATUS_OK)
        return status;
    bytes = zfp_field_size(state->field, NULL) * zfp_type_size(state->field->type);
    if (bytes > room.capacity)
        return error_set(err, STATUS_CORRUPT, "zfpy: decodes to %zu bytes, chunk holds %zu", bytes,
                         room.capacity);
    status = read_blocks(state, stored, lengths, room.data, err);
    if (status == STATUS_OK)
        *ret_decoded = (struct bytes){room.data, bytes};
    return status;
}

const struct codec codec_zfpy = {
    .name = "zfpy",
    .is_image = true,
    .parse = parse,
    .settle = settle,
    .stored_bound = stored_bound,
    .state_new = state_new,
    .state_free = state_free,
    .state_bytes = sizeof(struct state) + 1024,
    .decode = decode,
};
