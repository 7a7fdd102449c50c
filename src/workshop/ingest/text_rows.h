/* Rows of numbers, one for each video: an .npy file of float16, float32 or float64 with two axes,
 * or a .csv file (a first line without numbers is a header). Main thread. */
#ifndef PENSTOCK_WORKSHOP_INGEST_TEXT_ROWS_H
#define PENSTOCK_WORKSHOP_INGEST_TEXT_ROWS_H

#include "base/dtype.h"
#include "base/error.h"

#include <stdint.h>

struct text_rows {
    uint64_t count, length; /* rows, and numbers of a row */
    enum dtype dtype;       /* of a .csv file float32 */
    unsigned char *values;  /* in C order; owned */
};

/* NOT_FOUND, INVALID: the file is not as above, or has other than `wanted` rows. IO, NO_MEMORY. */
MUST_USE enum status text_rows_read(const char *path, uint64_t wanted, struct text_rows *ret_rows,
                                    struct error *err);
void text_rows_done(struct text_rows *rows);

#endif
