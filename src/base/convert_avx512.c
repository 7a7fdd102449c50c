/* The loops of convert.h for machines with AVX-512; nothing for others. */
#ifdef __x86_64__
#define CONVERT_LOOPS convert_avx512
#include "base/convert_loops.h"
#else
typedef int nothing; /* ISO C wants a declaration */
#endif
