/* Fuzz target for chunks that are images by codec png: see fuzz_image.h. */
#define FUZZ_IMAGE "png"
#include "fuzz_image.h"
