/* What every fuzz target defines, for libFuzzer and for replay.c. It returns 0 and aborts on a
 * finding. */
#ifndef PENSTOCK_TESTS_FUZZ_FUZZ_H
#define PENSTOCK_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

__attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
