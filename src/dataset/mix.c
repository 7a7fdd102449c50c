/* A mix of datasets. See dataset.h. */
#include "dataset/dataset_internal.h"

#include <assert.h>

const struct dataset *dataset_source(const struct dataset *dataset, uint32_t source)
{
    assert(source < dataset->source_count || source == 0);
    return dataset->source_count > 0 ? dataset->sources[source] : dataset;
}

uint32_t dataset_source_of_row(const struct dataset *dataset, uint64_t row,
                               uint64_t *ret_row_in_source)
{
    uint32_t low = 0, high = dataset->source_count;

    *ret_row_in_source = row;
    if (high == 0)
        return 0;
    const uint64_t *first = dataset->private->source_rows;
    while (high > low + 1) {
        uint32_t middle = low + (high - low) / 2;

        if (first[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    *ret_row_in_source -= first[low];
    return low;
}
