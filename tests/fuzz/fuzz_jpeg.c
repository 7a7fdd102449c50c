/* Fuzz target for chunks that are images by codec jpeg: see fuzz_image.h. */
#define FUZZ_IMAGE "jpeg"
#include "fuzz_image.h"
