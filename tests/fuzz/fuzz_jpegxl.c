/* Fuzz target for chunks that are images by codec jpegxl: see fuzz_image.h. */
#define FUZZ_IMAGE "jpegxl"
#include "fuzz_image.h"
