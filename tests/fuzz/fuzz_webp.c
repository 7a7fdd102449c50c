/* Fuzz target for chunks that are images by codec webp: see fuzz_image.h. */
#define FUZZ_IMAGE "webp"
#include "fuzz_image.h"
