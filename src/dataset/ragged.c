/* See ragged.h: lengths, rows and tails of ragged fields. Pure; any thread. */
#include "dataset/ragged.h"

#include "dataset/dataset.h"

#include <assert.h>

/* No dataset has ragged fields yet. */
static void expect_none(const struct dataset *dataset)
{
    assert(dataset->ragged_count == 0);
    (void)dataset;
}

uint64_t ragged_most_items(const struct ragged *ragged, uint64_t samples)
{
    (void)samples;
    return ragged->item_count;
}

struct ragged_row dataset_ragged_row(const struct dataset *dataset, size_t ragged, uint64_t row)
{
    (void)ragged;
    (void)row;
    expect_none(dataset);
    return (struct ragged_row){0};
}

uint32_t dataset_row_pages(const struct dataset *dataset, uint64_t row)
{
    (void)row;
    expect_none(dataset);
    return 0;
}

uint64_t dataset_most_row_pages(const struct dataset *dataset)
{
    expect_none(dataset);
    return 0;
}

uint64_t dataset_most_pages(const struct dataset *dataset, uint64_t rows)
{
    (void)rows;
    expect_none(dataset);
    return 0;
}

size_t dataset_tail_bytes(const struct dataset *dataset, uint64_t frame)
{
    (void)frame;
    expect_none(dataset);
    return 0;
}

uint64_t dataset_most_tail(const struct dataset *dataset, uint64_t samples)
{
    (void)samples;
    expect_none(dataset);
    return 0;
}
