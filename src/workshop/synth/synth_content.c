/* Numbers for synthetic datasets. Pure, any thread.
 *
 * Every entry has its own random stream, seeded by Philox from (seed, array, index). So any thread
 * can make any entry at any time. All arithmetic up to the last conversion is on integers, so that
 * every machine and compiler gives the same bytes.
 */
#include "base/float16.h"
#include "base/random.h"
#include "workshop/synth/synth.h"

#include <string.h>

/* xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021). */
struct stream {
    uint64_t s[4];
};

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t next(struct stream *stream)
{
    uint64_t *s = stream->s;
    uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static struct stream stream_at(const struct synth_array *array, uint64_t index)
{
    struct stream stream;
    for (uint64_t i = 0; i < 4; i++)
        stream.s[i] = random_u64(array->seed, array->stream, index * 4 + i);
    return stream;
}

/* About Gaussian with mean 0 and standard deviation 37,837: the sum of four 16-bit numbers. */
enum { NOISE_MEAN = 2 * 65535 };
static int32_t noise(struct stream *stream)
{
    uint64_t bits = next(stream);
    uint32_t sum = (uint32_t)(bits & 0xffff) + (uint32_t)(bits >> 16 & 0xffff) +
                   (uint32_t)(bits >> 32 & 0xffff) + (uint32_t)(bits >> 48);
    return (int32_t)sum - NOISE_MEAN;
}

static const float noise_scale = 0x1p-15f; /* brings its standard deviation to 1.15 */

/* The slowly changing part: random values on a coarse grid, interpolated linearly between its
 * nodes. One node every 4 frames and every 8 rows and columns. */
enum {
    FRAME_STEP = 4,
    PIXEL_STEP = 8,
    MAX_SIDE = 32,
    SIDE_NODES = MAX_SIDE / PIXEL_STEP + 1,
    FIELD_SCALE = FRAME_STEP * PIXEL_STEP * PIXEL_STEP,
};
typedef int32_t plane[SIDE_NODES][SIDE_NODES];

static void fill_plane(struct stream *stream, plane ret_plane)
{
    for (int y = 0; y < SIDE_NODES; y++)
        for (int x = 0; x < SIDE_NODES; x++)
            ret_plane[y][x] = noise(stream);
}

static int32_t blend(int32_t a, int32_t b, int32_t part, int32_t parts)
{
    return a * (parts - part) + b * part;
}

/* One frame of one channel: the field between `from` and `to`, and noise on top. */
static void fill_frame(struct stream *stream, plane from, plane to, int part, int height, int width,
                       int32_t grain_percent, uint16_t *ret_frame)
{
    for (int y = 0; y < height; y++) {
        int above = y / PIXEL_STEP, below_part = y % PIXEL_STEP;
        int32_t nodes[SIDE_NODES], row[MAX_SIDE], grain[MAX_SIDE];
        for (int x = 0; x < SIDE_NODES; x++)
            nodes[x] = blend(blend(from[above][x], to[above][x], part, FRAME_STEP),
                             blend(from[above + 1][x], to[above + 1][x], part, FRAME_STEP),
                             below_part, PIXEL_STEP);
        for (int x = 0; x < MAX_SIDE; x++)
            row[x] =
                blend(nodes[x / PIXEL_STEP], nodes[x / PIXEL_STEP + 1], x % PIXEL_STEP, PIXEL_STEP);
        for (int x = 0; x < width; x++)
            grain[x] = noise(stream);
        for (int x = 0; x < width; x++) {
            int32_t value = row[x] / FIELD_SCALE * 5 / 4 + grain[x] * grain_percent / 100;
            ret_frame[y * width + x] = float16_from_float((float)value * noise_scale);
        }
    }
}

void synth_fill_latents(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    struct stream stream = stream_at(array, index);
    int frames = (int)array->shape[1], channels = (int)array->shape[2];
    int height = (int)array->shape[3], width = (int)array->shape[4];
    uint16_t *out = ret_entry;
    for (int channel = 0; channel < channels; channel++) {
        plane from, to;
        fill_plane(&stream, to);
        for (int frame = 0; frame < frames; frame++) {
            int part = frame % FRAME_STEP;
            if (part == 0) {
                memcpy(from, to, sizeof from);
                fill_plane(&stream, to);
            }
            fill_frame(&stream, from, to, part, height, width, (int32_t)array->grain,
                       out + ((size_t)frame * (size_t)channels + (size_t)channel) *
                                 (size_t)(height * width));
        }
    }
}

void synth_fill_embedding(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    struct stream stream = stream_at(array, index);
    uint16_t *out = ret_entry;
    for (uint64_t i = 0; i < array->entry_items; i++)
        out[i] = float16_from_float((float)noise(&stream) * noise_scale * 0x1p-5f);
}

void synth_fill_index(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    int64_t video = (int64_t)((unsigned __int128)index * array->range / array->shape[0]);
    memcpy(ret_entry, &video, sizeof video);
}

static void put_noise(enum dtype dtype, struct stream *stream, void *ret_item)
{
    if (dtype == DTYPE_FLOAT16) {
        uint16_t value = float16_from_float((float)noise(stream) * noise_scale);
        memcpy(ret_item, &value, sizeof value);
    } else if (dtype == DTYPE_FLOAT32) {
        float value = (float)noise(stream) * noise_scale;
        memcpy(ret_item, &value, sizeof value);
    } else if (dtype == DTYPE_FLOAT64) {
        double value = (double)noise(stream) * (double)noise_scale;
        memcpy(ret_item, &value, sizeof value);
    } else {
        uint64_t value = next(stream);
        memcpy(ret_item, &value, dtype_bytes(dtype));
    }
}

void synth_fill_noise(const struct synth_array *array, uint64_t index, void *ret_entry)
{
    struct stream stream = stream_at(array, index);
    size_t item_bytes = dtype_bytes(array->dtype);
    for (uint64_t i = 0; i < array->entry_items; i++)
        put_noise(array->dtype, &stream, (unsigned char *)ret_entry + i * item_bytes);
}
