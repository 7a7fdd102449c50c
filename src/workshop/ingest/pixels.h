/* Pictures as items of an array: bytes, or normalised floats; colours last or first. Pure. */
#ifndef PENSTOCK_WORKSHOP_INGEST_PIXELS_H
#define PENSTOCK_WORKSHOP_INGEST_PIXELS_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct pixel_table {
    enum dtype dtype;
    bool channels_first;
    union {
        uint8_t u8;
        uint16_t u16;
        float f32;
    } values[3][256]; /* of each colour and byte */
};

/* `dtype` is uint8, float16, bfloat16 or float32; of a float, (byte / 255 - mean) / std. */
void pixel_table_fill(struct pixel_table *table, enum dtype dtype, bool channels_first,
                      const double mean[3], const double std[3]);

/* Puts a picture of 3 * size * size bytes, RGB, at `ret_items`. */
void pixels_put(const struct pixel_table *table, uint32_t size, const unsigned char *rgb,
                void *ret_items);

#endif
