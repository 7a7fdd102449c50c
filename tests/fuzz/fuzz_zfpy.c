/* Fuzz target for chunks by codec zfpy: see fuzz_image.h. libzfp is not instrumented: what it reads
 * behind its input is seen by valgrind replay_zfpy. */
#define FUZZ_IMAGE "numcodecs.zfpy"
#define FUZZ_DTYPES DTYPE_INT32, DTYPE_INT64, DTYPE_FLOAT32, DTYPE_FLOAT64
#include "fuzz_image.h"
