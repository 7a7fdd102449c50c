/* The loops of one instruction set. Internal to base/convert*.c. */
#ifndef PENSTOCK_BASE_CONVERT_INTERNAL_H
#define PENSTOCK_BASE_CONVERT_INTERNAL_H

#include "base/convert.h"

enum { CONVERT_DTYPES = DTYPE_COMPLEX128 + 1 };

struct convert_loops {
    /* To the work type, by the dtype that items have: float or double, see work_is_wide(). */
    void (*load[CONVERT_DTYPES])(const void *in, size_t count, void *out);
    /* From float or double, by the dtype that they are to have. */
    void (*store_float[CONVERT_DTYPES])(const void *in, size_t count, void *out);
    void (*store_double[CONVERT_DTYPES])(const void *in, size_t count, void *out);
    /* Of items that have the work type; `in` and `out` may be the same. */
    void (*scale_float)(const void *in, size_t count, float scale, float offset, float *out);
    void (*scale_double)(const void *in, size_t count, double scale, double offset, double *out);
    void (*swap_2)(unsigned char *data, size_t size);
    void (*swap_4)(unsigned char *data, size_t size);
    void (*swap_8)(unsigned char *data, size_t size);
    void (*swap_16)(unsigned char *data, size_t size);
};

extern const struct convert_loops convert_portable;
#ifdef __x86_64__
extern const struct convert_loops convert_avx2, convert_avx512;
#endif

#endif
