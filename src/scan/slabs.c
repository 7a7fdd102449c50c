/* See slabs.h. */
#include "scan/slabs.h"

#include "base/number.h"
#include "base/size.h"

#include <assert.h>

uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b, product;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return size_multiply(a / x, b, &product) ? product : UINT64_MAX;
}

static uint64_t bytes_of(const struct slabs_demand *demand, uint64_t length)
{
    uint64_t bytes;
    length = min_u64(length, demand->sample_count);
    return size_multiply(length, demand->sample_bytes, &bytes) ? bytes : UINT64_MAX;
}

uint64_t slabs_whole_bytes(const struct slabs_demand *demand)
{
    return bytes_of(demand, demand->period);
}

uint64_t slabs_least_bytes(const struct slabs_demand *demand)
{
    return bytes_of(demand, demand->granule);
}

/* Samples of whole periods, as many as `bytes` hold; at least one period. */
static uint64_t whole_periods(const struct slabs_demand *demand, uint64_t bytes)
{
    uint64_t period_bytes = slabs_whole_bytes(demand), length;
    uint64_t count = bytes / period_bytes > 1 ? bytes / period_bytes : 1;
    if (!size_multiply(count, demand->period, &length))
        return demand->sample_count;
    return min_u64(length, size_round_up(demand->sample_count, demand->granule));
}

struct slabs slabs_cut(const struct slabs_demand *demand, uint64_t limit_bytes)
{
    struct slabs slabs = {.sample_count = demand->sample_count, .slabs_in_a_group = 1};
    if (demand->sample_count == 0)
        return slabs;
    assert(limit_bytes >= slabs_least_bytes(demand));
    slabs.group_length = whole_periods(demand, min_u64(demand->wanted_bytes, limit_bytes));
    slabs.slab_length = slabs.group_length;
    if (bytes_of(demand, slabs.group_length) > limit_bytes) {
        uint64_t length = limit_bytes / demand->sample_bytes;
        slabs.slab_length = length / demand->granule * demand->granule;
        slabs.slabs_in_a_group = size_divide_up(slabs.group_length, slabs.slab_length);
    }
    uint64_t groups = demand->sample_count / slabs.group_length;
    uint64_t rest = demand->sample_count % slabs.group_length;
    slabs.count = groups * slabs.slabs_in_a_group + size_divide_up(rest, slabs.slab_length);
    return slabs;
}

bool slabs_range(const struct slabs *slabs, uint64_t number, uint64_t *ret_begin, uint64_t *ret_end)
{
    uint64_t group = number / slabs->slabs_in_a_group, in_group = number % slabs->slabs_in_a_group;
    uint64_t start = group * slabs->group_length;
    uint64_t group_left = min_u64(slabs->group_length, slabs->sample_count - start);
    uint64_t begin = in_group * slabs->slab_length;
    *ret_begin = start + begin;
    *ret_end = start + min_u64(begin + slabs->slab_length, group_left);
    return in_group == 0;
}

enum status share_memory(uint64_t memory_bytes, uint64_t whole_bytes, uint64_t least_bytes,
                         uint32_t *thread_count, uint64_t *ret_share, struct error *err)
{
    uint64_t fitting = memory_bytes / (whole_bytes ? whole_bytes : 1);
    if (least_bytes > memory_bytes)
        return error_set(err, STATUS_NO_MEMORY,
                         "one thread takes at least %s, and --memory is %s: raise it",
                         size_format(least_bytes).text, size_format(memory_bytes).text);
    if (fitting < *thread_count)
        *thread_count = fitting ? (uint32_t)fitting : 1;
    *ret_share = memory_bytes / *thread_count;
    return STATUS_OK;
}
