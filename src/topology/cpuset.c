/* See cpuset.h. */
#include "topology/cpuset.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = CPUSET_MAX_CPUS / 64 };

bool cpuset_equal(const struct cpuset *a, const struct cpuset *b)
{
    return memcmp(a->words, b->words, sizeof a->words) == 0;
}

bool cpuset_intersects(const struct cpuset *a, const struct cpuset *b)
{
    for (int i = 0; i < WORDS; i++)
        if (a->words[i] & b->words[i])
            return true;
    return false;
}

void cpuset_unite(struct cpuset *set, const struct cpuset *with)
{
    for (int i = 0; i < WORDS; i++)
        set->words[i] |= with->words[i];
}

uint32_t cpuset_next(const struct cpuset *set, uint32_t from)
{
    while (from < CPUSET_MAX_CPUS) {
        uint64_t rest = set->words[from / 64] >> from % 64;
        if (rest)
            return from + (uint32_t)__builtin_ctzll(rest);
        from = (from / 64 + 1) * 64;
    }
    return CPUSET_MAX_CPUS;
}

/* The last cpu of those from `first` on that follow each other at `stride`. */
static uint32_t run_end(const struct cpuset *set, uint32_t first, uint32_t stride)
{
    uint32_t last = first;
    while (cpuset_next(set, last + 1) == last + stride && last + stride < CPUSET_MAX_CPUS)
        last += stride;
    return last;
}

void cpuset_print(const struct cpuset *set, struct text *out)
{
    const char *comma = "";
    for (uint32_t cpu = cpuset_next(set, 0); cpu < CPUSET_MAX_CPUS;) {
        uint32_t stride = cpuset_next(set, cpu + 1) - cpu, last = run_end(set, cpu, stride);
        if (stride > 1 && last < cpu + 2 * stride) /* of two apart, the second may begin a run */
            last = cpu;
        text_append(out, "%s%u", comma, cpu);
        if (last > cpu)
            text_append(out, "-%u", last);
        if (last > cpu && stride > 1)
            text_append(out, ":%u", stride);
        comma = ",";
        cpu = cpuset_next(set, last + 1);
    }
}

static bool take_number(const char **at, unsigned long *ret_number)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return false;
    *ret_number = strtoul(*at, &end, 10);
    *at = end;
    return true;
}

/* Takes "3", "0-3" or "0-54:2". */
static bool take_range(const char **at, unsigned long *ret_first, unsigned long *ret_last,
                       unsigned long *ret_stride)
{
    if (!take_number(at, ret_first))
        return false;
    *ret_last = *ret_first;
    *ret_stride = 1;
    if (**at != '-')
        return true;
    ++*at;
    if (!take_number(at, ret_last) || *ret_last < *ret_first)
        return false;
    if (**at != ':')
        return true;
    ++*at;
    return take_number(at, ret_stride) && *ret_stride > 0 && *ret_stride <= CPUSET_MAX_CPUS;
}

enum status cpuset_parse(const char *list, struct cpuset *ret_set, struct error *err)
{
    struct cpuset set = {{0}};
    for (const char *at = list;; at++) {
        unsigned long first, last, stride;
        if (!take_range(&at, &first, &last, &stride) || (*at != ',' && *at != '\0'))
            return error_set(err, STATUS_INVALID, "cpuset '%s': not a list such as 0-3,8", list);
        if (last >= CPUSET_MAX_CPUS)
            return error_set(err, STATUS_UNSUPPORTED,
                             "cpuset '%s': cpu %lu; cpus below %d are supported", list, last,
                             CPUSET_MAX_CPUS);
        for (; first <= last; first += stride)
            cpuset_add(&set, (uint32_t)first);
        if (*at == '\0')
            break;
    }
    *ret_set = set;
    return STATUS_OK;
}
