/* See pixels.h. */
#include "workshop/ingest/pixels.h"

#include "base/float16.h"

#include <stddef.h>
#include <string.h>

void pixel_table_fill(struct pixel_table *table, enum dtype dtype, bool channels_first,
                      const double mean[3], const double std[3])
{
    table->dtype = dtype;
    table->channels_first = channels_first;
    for (int colour = 0; colour < 3; colour++)
        for (int byte = 0; byte < 256; byte++) {
            double value = (byte / 255.0 - mean[colour]) / std[colour];
            if (dtype == DTYPE_FLOAT16)
                table->values[colour][byte].u16 = float16_from_double(value);
            else if (dtype == DTYPE_BFLOAT16)
                table->values[colour][byte].u16 = bfloat16_from_double(value);
            else if (dtype == DTYPE_FLOAT32)
                table->values[colour][byte].f32 = (float)value;
            else
                table->values[colour][byte].u8 = (uint8_t)byte;
        }
}

void pixels_put(const struct pixel_table *table, uint32_t size, const unsigned char *rgb,
                void *ret_items)
{
    size_t count = (size_t)size * size;
    size_t step = table->channels_first ? 1 : 3, plane = table->channels_first ? count : 1;
    if (table->dtype == DTYPE_UINT8 && !table->channels_first) {
        memcpy(ret_items, rgb, 3 * count);
        return;
    }
    for (size_t colour = 0; colour < 3; colour++)
        for (size_t i = 0; i < count; i++) {
            unsigned char byte = rgb[3 * i + colour];
            size_t to = colour * plane + i * step;
            if (table->dtype == DTYPE_UINT8)
                ((uint8_t *)ret_items)[to] = table->values[colour][byte].u8;
            else if (table->dtype == DTYPE_FLOAT32)
                ((float *)ret_items)[to] = table->values[colour][byte].f32;
            else
                ((uint16_t *)ret_items)[to] = table->values[colour][byte].u16;
        }
}
