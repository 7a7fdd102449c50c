/* See image.h: an image beside the chunk that it is meant to be. Pure; any thread. */
#include "codec/image/image.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>

/* The step's parameters: the chunk's dtype, and its axes but those of length 1. */
enum { IMAGE_DTYPE, IMAGE_RANK, IMAGE_LENGTHS };
_Static_assert(IMAGE_LENGTHS + CODEC_MAX_RANK <= CODEC_PARAMETERS, "lengths fit");

enum status image_parse(struct json_object *configuration, size_t item_bytes,
                        struct codec_step *step, struct error *err)
{
    (void)configuration, (void)item_bytes, (void)step, (void)err;
    return STATUS_OK;
}

enum status image_refuse_setting(struct json_object *configuration, const char *key,
                                 struct error *err)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(configuration, key, &value);
    if (!value)
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED, "%s is set, which is not read: store whole images",
                     key);
}

enum status image_settle(struct codec_step *step, const struct codec_chunk *chunk,
                         struct error *err)
{
    if (chunk->dtype == DTYPE_NONE || chunk->dtype == DTYPE_BOOL || dtype_bytes(chunk->dtype) > 4 ||
        chunk->dtype == DTYPE_BFLOAT16)
        return error_set(err, STATUS_UNSUPPORTED,
                         "images have no such values: store them through blosc or zstd");
    if (chunk->is_swapped)
        return error_set(err, STATUS_UNSUPPORTED,
                         "images have no byte order of their own: write the array with a dtype in "
                         "this machine's");
    step->parameters[IMAGE_DTYPE] = (int)chunk->dtype;
    int count = 0;
    for (int i = 0; i < chunk->rank; i++) {
        if (chunk->lengths[i] > INT_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "images are not as large as these chunks");
        if (chunk->lengths[i] != 1)
            step->parameters[IMAGE_LENGTHS + count++] = (int)chunk->lengths[i];
    }
    step->parameters[IMAGE_RANK] = count;
    return STATUS_OK;
}

/* JPEG takes up to twice as much for noise; profiles and other things come on top. */
size_t image_stored_bound(const struct codec_step *step, size_t decoded_bytes)
{
    const size_t extras = (size_t)256 << 10;
    (void)step;
    return 2 * decoded_bytes + extras;
}

static uint64_t values_of(const struct codec_step *step)
{
    uint64_t values = 1;
    for (int i = 0; i < step->parameters[IMAGE_RANK]; i++)
        values *= (uint64_t)step->parameters[IMAGE_LENGTHS + i]; /* at most ZARR_MAX_CHUNK_BYTES */
    return values;
}

uint64_t image_samples(const struct codec_step *step)
{
    int rank = step->parameters[IMAGE_RANK];
    int last = rank > 0 ? step->parameters[IMAGE_LENGTHS + rank - 1] : 1;
    return last <= 4 ? (uint64_t)last : 1;
}

static bool has_axes(const struct codec_step *step, const uint64_t axes[4])
{
    int count = 0;
    for (int i = 0; i < 4; i++) {
        if (axes[i] == 1)
            continue;
        if (count == step->parameters[IMAGE_RANK] ||
            (uint64_t)step->parameters[IMAGE_LENGTHS + count] != axes[i])
            return false;
        count++;
    }
    return count == step->parameters[IMAGE_RANK];
}

/* Of an image whose frames have `values` values. */
static bool fits(const struct codec_step *step, const struct image *image, uint64_t values,
                 uint64_t *ret_frames)
{
    uint64_t frames = image->frames ? image->frames : values_of(step) / values;
    const uint64_t axes[] = {frames, image->height, image->width, image->samples};
    *ret_frames = frames;
    if (frames == 0 || values_of(step) / values != frames || values_of(step) % values != 0)
        return false;
    if (image->may_fold && (image->samples == 1 || image->samples == image_samples(step)))
        return true;
    return has_axes(step, axes);
}

static enum status refuse(const struct codec_step *step, const struct image *image,
                          struct error *err)
{
    struct text axes = {0};
    for (int i = 0; i < step->parameters[IMAGE_RANK]; i++)
        text_append(&axes, "%s%d", i ? " x " : "", step->parameters[IMAGE_LENGTHS + i]);
    error_set(err, STATUS_CORRUPT,
              "header says %" PRIu64 " x %" PRIu64 " pixels of %" PRIu64 " samples, %s of %" PRIu32
              " bits; the chunk holds %s values of %s: images have their samples last",
              image->height, image->width, image->samples, image->is_float ? "floats" : "integers",
              image->sample_bits, axes.length ? axes.data : "1",
              dtype_name((enum dtype)step->parameters[IMAGE_DTYPE]));
    text_done(&axes);
    return STATUS_CORRUPT;
}

static bool has_type(enum dtype dtype, const struct image *image)
{
    bool is_signed = dtype == DTYPE_INT8 || dtype == DTYPE_INT16 || dtype == DTYPE_INT32;
    return image->is_float == dtype_is_floating(dtype) &&
           (image->is_float || image->is_signed == is_signed) &&
           image->sample_bits == 8 * dtype_bytes(dtype);
}

enum status image_check(const struct codec_step *step, const struct image *image,
                        uint64_t *ret_frames, struct error *err)
{
    const uint64_t most = INT_MAX;
    uint64_t values, frames;
    if (step->parameters[IMAGE_DTYPE] == 0)
        return error_set(err, STATUS_INVALID, "the chain was not settled");
    if (!image->height || !image->width || !image->samples || image->height > most ||
        image->width > most / image->height ||
        image->samples > most / (image->height * image->width) ||
        !has_type((enum dtype)step->parameters[IMAGE_DTYPE], image))
        return refuse(step, image, err);
    values = image->height * image->width * image->samples;
    if (!fits(step, image, values, &frames))
        return refuse(step, image, err);
    if (ret_frames)
        *ret_frames = frames;
    return STATUS_OK;
}
