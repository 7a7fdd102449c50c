/* See split.h. */
#include "anchors/split.h"
#include "anchors/bits.h"

#include "base/random.h"
#include "base/size.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* So many groups at most are sorted to give each part one. */
enum { MOST_SORTED = 1 << 20 };

static const double SUM_TOLERANCE = 1e-9;

/* The runs of groups, one after another. */
struct walk {
    const struct split_groups *groups;
    uint64_t key, first, end, hash; /* the frames of the run that the walk is at, and its hash */
    uint64_t run, store, number;
};

static struct walk walk_begin(uint64_t key, const struct split_groups *groups)
{
    return (struct walk){.groups = groups, .key = key};
}

/* The next run that has frames; runs without frames have numbers all the same. Ends that
 * anchors_build() would refuse do no harm. */
static bool walk_next(struct walk *walk)
{
    const struct split_groups *g = walk->groups;
    uint64_t frames = g->store_frames[g->store_count], number;
    do {
        walk->first = walk->end;
        if (walk->first >= frames || (g->ends && walk->run >= g->run_count))
            return false;
        walk->end =
            g->ends ? max_u64(min_u64(g->ends[walk->run], frames), walk->first) : walk->first + 1;
        while (g->store_frames[walk->store + 1] <= walk->first) {
            walk->store++;
            walk->number = 0;
        }
        number = walk->number++;
        walk->run++;
    } while (walk->end == walk->first);
    walk->hash = g->values ? random_u64(walk->key, UINT64_MAX, (uint64_t)g->values[walk->run - 1])
                           : random_u64(walk->key, walk->store, number);
    return true;
}

static enum status check_parts(const struct split_options *o, size_t *ret_part, struct error *err)
{
    double sum = 0;
    size_t part = SIZE_MAX;
    if (o->part_count == 0 || o->part_count > SPLIT_MOST_PARTS)
        return error_set(err, STATUS_INVALID, "samples.split has %zu parts: 1 to %d are possible",
                         o->part_count, SPLIT_MOST_PARTS);
    for (size_t p = 0; p < o->part_count; p++) {
        sum += o->parts[p].fraction;
        if (!(o->parts[p].fraction > 0) || !isfinite(o->parts[p].fraction))
            return error_set(err, STATUS_INVALID,
                             "samples.split: part '%s' is %g of the groups; it has to be above 0",
                             o->parts[p].name, o->parts[p].fraction);
        for (size_t q = 0; q < p; q++)
            if (strcmp(o->parts[p].name, o->parts[q].name) == 0)
                return error_set(err, STATUS_INVALID, "samples.split has two parts '%s'",
                                 o->parts[p].name);
        if (strcmp(o->parts[p].name, o->part) == 0)
            part = p;
    }
    if (sum > 1 + SUM_TOLERANCE)
        return error_set(err, STATUS_INVALID,
                         "samples.split: the parts sum up to %g, which is more than 1", sum);
    if (part == SIZE_MAX)
        return error_set(err, STATUS_INVALID,
                         "samples.split: there is no part '%s'; the first one is '%s'", o->part,
                         o->parts[0].name);
    *ret_part = part;
    return STATUS_OK;
}

/* borders[p]: the last hash of part p. Fractions that sum up to 1 leave no hash over. */
static void cut_by_fractions(const struct split_options *o, uint64_t *borders)
{
    double sum = 0;
    for (size_t p = 0; p < o->part_count; p++) {
        sum += o->parts[p].fraction;
        borders[p] =
            sum >= 1 - SUM_TOLERANCE ? UINT64_MAX : max_u64((uint64_t)ldexp(sum, 64), 1) - 1;
    }
}

static size_t part_of(const uint64_t *borders, size_t part_count, uint64_t hash)
{
    size_t part = 0;
    while (part < part_count && hash > borders[part])
        part++;
    return part;
}

/* The first part without a group; part_count: each has one. */
static size_t find_empty(const struct split_options *o, const uint64_t *borders, uint64_t key,
                         const struct split_groups *groups)
{
    bool seen[SPLIT_MOST_PARTS + 1] = {false};
    size_t left = o->part_count, empty = 0;
    for (struct walk walk = walk_begin(key, groups); left > 0 && walk_next(&walk);) {
        size_t part = part_of(borders, o->part_count, walk.hash);
        left -= part < o->part_count && !seen[part];
        seen[part] = true;
    }
    while (empty < o->part_count && seen[empty])
        empty++;
    return empty;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The hashes of all groups, rising, each once: at most MOST_SORTED, or SIZE_MAX. */
static size_t sort_hashes(uint64_t key, const struct split_groups *groups, uint64_t *hashes)
{
    size_t count = 0, distinct = 0;
    for (struct walk walk = walk_begin(key, groups); walk_next(&walk);) {
        if (count == MOST_SORTED)
            return SIZE_MAX;
        hashes[count++] = walk.hash;
    }
    qsort(hashes, count, sizeof *hashes, by_value);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || hashes[i] != hashes[i - 1])
            hashes[distinct++] = hashes[i];
    return distinct;
}

/* Moves the borders by as few groups as leave each part one. */
static void cut_by_groups(const uint64_t *hashes, size_t groups, size_t parts, uint64_t *borders)
{
    size_t ends[SPLIT_MOST_PARTS]; /* groups up to the end of the part */
    for (size_t p = 0, end = 0; p < parts; p++) {
        while (end < groups && hashes[end] <= borders[p])
            end++;
        ends[p] = max_u64(end, p > 0 ? ends[p - 1] + 1 : 1);
    }
    for (size_t p = parts; p-- > 0;)
        ends[p] = min_u64(ends[p], p + 1 < parts ? ends[p + 1] - 1 : groups);
    for (size_t p = 0; p < parts; p++)
        borders[p] = ends[p] < groups ? hashes[ends[p]] - 1 : UINT64_MAX;
}

/* Gives each part a group. */
static enum status settle_empty(const struct split_options *o, size_t empty, uint64_t key,
                                const struct split_groups *groups, uint64_t *borders,
                                struct error *err)
{
    uint64_t *hashes = malloc(MOST_SORTED * sizeof *hashes);
    if (!hashes)
        return error_set(err, STATUS_NO_MEMORY, "no memory to split groups");

    enum status status = STATUS_OK;
    size_t count = sort_hashes(key, groups, hashes);
    if (count == SIZE_MAX)
        status = error_set(err, STATUS_INVALID,
                           "samples.split: part '%s', %g of the groups, has none of more than %d; "
                           "take a larger fraction, or another seed",
                           o->parts[empty].name, o->parts[empty].fraction, MOST_SORTED);
    else if (count < o->part_count)
        status = error_set(err, STATUS_INVALID,
                           "samples.split: %zu parts need at least as many groups, but there %s "
                           "%zu; take fewer parts, or split by something finer",
                           o->part_count, count == 1 ? "is" : "are", count);
    else
        cut_by_groups(hashes, count, o->part_count, borders);
    free(hashes);
    return status;
}

enum status split_init(const struct split_options *options, const struct split_groups *groups,
                       struct split *ret, struct error *err)
{
    uint64_t borders[SPLIT_MOST_PARTS], key = random_u64(options->seed, 4, 0);
    size_t part;
    enum status status = check_parts(options, &part, err);
    if (status != STATUS_OK)
        return status;
    cut_by_fractions(options, borders);
    size_t empty = find_empty(options, borders, key, groups);
    if (empty < options->part_count)
        status = settle_empty(options, empty, key, groups, borders, err);
    if (status == STATUS_OK)
        *ret = (struct split){key, part ? borders[part - 1] + 1 : 0, borders[part]};
    return status;
}

static bool is_outside(const struct split *split, uint64_t hash)
{
    return hash < split->first || hash > split->last;
}

/* The frames of a store as groups, many at a time. */
static void block_frames(const struct split *split, uint64_t store, uint64_t first, uint64_t end,
                         uint64_t *blocked)
{
    enum { MANY = 512 };
    uint64_t numbers[MANY];
    for (uint64_t from = first, count; from < end; from += count) {
        count = min_u64(MANY, end - from);
        for (uint64_t i = 0; i < count; i++)
            numbers[i] = from - first + i;
        random_u64_many(split->key, store, numbers, count, numbers);
        for (uint64_t i = 0; i < count; i++)
            blocked[(from + i) / 64] |= (uint64_t)is_outside(split, numbers[i]) << (from + i) % 64;
    }
}

void split_block(const struct split *split, const struct split_groups *groups, uint64_t *blocked)
{
    if (!groups->ends) {
        for (size_t s = 0; s < groups->store_count; s++)
            block_frames(split, s, groups->store_frames[s], groups->store_frames[s + 1], blocked);
        return;
    }
    for (struct walk walk = walk_begin(split->key, groups); walk_next(&walk);)
        if (is_outside(split, walk.hash))
            bits_set(blocked, walk.first, walk.end);
}

struct split_content split_content(const struct split *split, const struct split_groups *groups)
{
    struct split_content content = {0};
    for (struct walk walk = walk_begin(split->key, groups); walk_next(&walk);) {
        if (is_outside(split, walk.hash))
            continue;
        content.first = content.runs ? content.first : walk.first;
        content.end = walk.end;
        content.frames += walk.end - walk.first;
        content.runs++;
    }
    return content;
}

enum status split_block_range(uint64_t begin, uint64_t end, uint64_t gap, uint64_t frames,
                              uint64_t *blocked, struct error *err)
{
    uint64_t stop = end == UINT64_MAX ? frames : end;
    if (stop > frames)
        return error_set(err, STATUS_INVALID,
                         "samples.split_range ends at frame %" PRIu64 ", but there are %" PRIu64
                         " frames",
                         stop, frames);
    uint64_t first = begin ? add_sat(begin, gap) : 0;
    if (first >= stop)
        return error_set(err, STATUS_INVALID,
                         "samples.split_range %" PRIu64 ":%" PRIu64 " with a gap of %" PRIu64
                         " frame%s has no frame",
                         begin, stop, gap, count_plural(gap));
    bits_set(blocked, 0, first);
    bits_set(blocked, stop, frames);
    return STATUS_OK;
}
