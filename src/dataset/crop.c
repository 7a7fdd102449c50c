/* See crop.h. */
#include "dataset/crop.h"

#include "base/random.h"

#include <assert.h>
#include <string.h>

void crop_lay_out(struct dataset_crop *ret_crop, uint32_t group, int rank, const uint64_t *shape,
                  const uint64_t *wanted, size_t item_bytes)
{
    struct dataset_crop crop = {.group = group};
    size_t strides[CROP_MAX_AXES] = {0}, stride = item_bytes;
    int last = rank - 1;
    assert(rank <= CROP_MAX_AXES);
    for (int axis = rank - 1; axis >= 0; axis--) {
        strides[axis] = stride;
        stride *= shape[axis];
    }
    while (last > 0 && wanted[last] == 0)
        last--;
    for (int axis = 0; axis <= last; axis++) {
        if (axis < last) {
            crop.box.counts[crop.box.loop_count] = wanted[axis] > 0 ? wanted[axis] : shape[axis];
            crop.box.strides[crop.box.loop_count++] = strides[axis];
        }
        if (wanted[axis] == 0)
            continue;
        crop.lengths[crop.axis_count] = wanted[axis];
        crop.choices[crop.axis_count] = shape[axis] - wanted[axis] + 1;
        crop.axis_strides[crop.axis_count++] = strides[axis];
    }
    crop.box.bytes = crop.box.line_bytes = wanted[last] * strides[last];
    for (int i = 0; i < crop.box.loop_count; i++)
        crop.box.bytes *= crop.box.counts[i];
    *ret_crop = crop;
}

static uint64_t origin(const struct dataset_crop *crop, uint64_t key, int k)
{
    return random_below(random_u64(key, crop->group, (uint64_t)k), crop->choices[k]);
}

size_t crop_begin(const struct dataset_crop *crop, uint64_t key)
{
    size_t begin = 0;
    for (int k = 0; k < crop->axis_count; k++)
        begin += origin(crop, key, k) * crop->axis_strides[k];
    return begin;
}

void crop_box_copy(const struct crop_box *box, unsigned char *to, const unsigned char *from)
{
    uint64_t position[CROP_MAX_LOOPS] = {0};
    int inner = box->loop_count - 1, axis;
    do {
        uint64_t lines = inner >= 0 ? box->counts[inner] : 1;
        size_t stride = inner >= 0 ? box->strides[inner] : 0;
        for (uint64_t i = 0; i < lines; i++, to += box->line_bytes)
            memcpy(to, from + i * stride, box->line_bytes);
        for (axis = inner - 1; axis >= 0; axis--) {
            from += box->strides[axis];
            if (++position[axis] < box->counts[axis])
                break;
            from -= box->counts[axis] * box->strides[axis];
            position[axis] = 0;
        }
    } while (axis >= 0);
}

void crop_origins(const struct dataset_crop *crop, uint64_t key, int32_t *ret_origins)
{
    for (int k = 0; k < crop->axis_count; k++)
        ret_origins[k] = (int32_t)origin(crop, key, k);
}
