/* For tests: datasets that cannot be opened. */
#ifndef PENSTOCK_TESTS_UNIT_DATASET_REFUSAL_H
#define PENSTOCK_TESTS_UNIT_DATASET_REFUSAL_H

#include "dataset/dataset.h"
#include "zarr_fixture.h"

/* Opening fails with that status, and a message that has `words`. */
static inline void refuse_options(const struct dataset_options *options, enum status expected,
                                  const char *words)
{
    struct dataset *dataset = NULL;
    struct error err;
    error_clear(&err);
    enum status status = dataset_open(options, &dataset, &err);
    if (status != expected || !strstr(err.message, words))
        fail_msg("got '%s' (%s), expected '%s'", err.message, status_text(status), words);
    assert_null(dataset);
}

#endif
