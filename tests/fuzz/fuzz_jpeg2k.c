/* Fuzz target for chunks that are images by codec jpeg2k: see fuzz_image.h. */
#define FUZZ_IMAGE "jpeg2k"
#include "fuzz_image.h"
