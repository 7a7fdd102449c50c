/* Small pictures as PNG in base64, for use within an SVG. */
#ifndef PENSTOCK_CLI_SAMPLES_PNG_H
#define PENSTOCK_CLI_SAMPLES_PNG_H

#include "base/error.h"
#include "base/text.h"

#include <stdint.h>

/* Appends a picture of `rgb` ([height, width, 3], both at most 4096). NO_MEMORY. */
MUST_USE enum status png_append_base64(const unsigned char *rgb, uint32_t width, uint32_t height,
                                       struct text *out, struct error *err);

#endif
