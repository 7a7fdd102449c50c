/* A set of cpus: a bitmap of fixed size, which is copied, compared and sent by value. Only printing
 * and command lines have the set as a string. Pure.
 */
#ifndef PENSTOCK_TOPOLOGY_CPUSET_H
#define PENSTOCK_TOPOLOGY_CPUSET_H

#include "base/error.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { CPUSET_MAX_CPUS = 4096 }; /* cpus are numbered below this */

/* A zero-initialised set is empty. The words are those of sched_setaffinity(). */
struct cpuset {
    uint64_t words[CPUSET_MAX_CPUS / 64];
};

static inline bool cpuset_has(const struct cpuset *set, uint32_t cpu)
{
    return cpu < CPUSET_MAX_CPUS && set->words[cpu / 64] >> cpu % 64 & 1;
}

/* `cpu` is below CPUSET_MAX_CPUS. */
static inline void cpuset_add(struct cpuset *set, uint32_t cpu)
{
    set->words[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool cpuset_equal(const struct cpuset *a, const struct cpuset *b);
bool cpuset_intersects(const struct cpuset *a, const struct cpuset *b);
void cpuset_unite(struct cpuset *set, const struct cpuset *with);

/* The first cpu of the set at `from` or behind it; CPUSET_MAX_CPUS if there is none. */
uint32_t cpuset_next(const struct cpuset *set, uint32_t from);

/* Appends the list that taskset -c takes: "0-3,8"; of every second cpu "0-54:2". Nothing of an
 * empty set. */
void cpuset_print(const struct cpuset *set, struct text *out);

/* Reads the list of cpuset_print(). INVALID: the text is no such list, or an empty one.
 * UNSUPPORTED: a cpu at CPUSET_MAX_CPUS or beyond. */
MUST_USE enum status cpuset_parse(const char *list, struct cpuset *ret_set, struct error *err);

#endif
