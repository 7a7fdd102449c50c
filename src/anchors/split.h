/* Splits: which frames belong to a part of the dataset (train, val, ...).
 *
 * Frames belong to groups: episodes, values of an array, or single frames. A group belongs to one
 * part, as a whole. Each group has a hash, 64 bits of (seed, group), and each part has an interval
 * of hashes as long as its fraction, one part after another. So a group's part does not depend on
 * other groups: a dataset that grows keeps all groups where they are. In return a part has about
 * its fraction of the groups, as if each group were drawn: of 1,000 groups a part of 0.1 has 100,
 * give or take 10 or 20. (Exact numbers would need the groups' ranks, and then groups near a border
 * move when others are added.) Where a part has no group at all, as in a dataset of ten episodes,
 * the borders move to the nearest groups that leave each part one. Only such borders move back when
 * the dataset grows.
 *
 * A group is known by its store and its number in the store, or by its value in all stores:
 *
 *     key     random_u64(seed, 4, 0)
 *     hash    random_u64(key, store, number), or random_u64(key, 2^64 - 1, value)
 *
 * Pure; any thread.
 */
#ifndef PENSTOCK_ANCHORS_SPLIT_H
#define PENSTOCK_ANCHORS_SPLIT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum { SPLIT_MOST_PARTS = 64 };

struct split_part {
    const char *name;
    double fraction; /* above 0; all together at most 1. What is left over is in no part */
};

struct split_options {
    const struct split_part *parts;
    size_t part_count;
    const char *part; /* the one that is wanted */
    uint64_t seed;
};

/* Runs of frames that belong to one group; without ends each frame is a group. */
struct split_groups {
    const uint64_t *store_frames; /* [store_count + 1], as in anchors_options */
    size_t store_count;
    const uint64_t *ends; /* [run_count], never falling, up to the number of frames. NULL: frames */
    size_t run_count;
    const int64_t *values; /* [run_count]: runs of equal values are one group. NULL: each run is a
                            * group, numbered from 0 in the store where it begins */
};

/* A part: the groups whose hashes lie in [first, last], which may be empty (first > last). */
struct split {
    uint64_t key, first, last;
};

/* Looks at groups until each part has one. If a part has none, at all of them.
 * INVALID: fractions, names, a part that does not exist, fewer groups than parts, a part so small
 * that it has none of a million groups. NO_MEMORY. */
MUST_USE enum status split_init(const struct split_options *options,
                                const struct split_groups *groups, struct split *ret,
                                struct error *err);

/* Sets the bit of each frame outside the part; blocked: [frames], as in anchors_options. */
void split_block(const struct split *split, const struct split_groups *groups, uint64_t *blocked);

/* What a part has: runs of groups, their frames, and where the first one begins and the last one
 * ends. */
struct split_content {
    uint64_t runs, frames, first, end;
};
struct split_content split_content(const struct split *split, const struct split_groups *groups);

/* Frames [begin, end), of which the first `gap` are left out unless the range begins at 0: windows
 * of a part before it may reach into these. UINT64_MAX as end: the number of frames. Sets the bits
 * of all other frames.
 * INVALID: no frame is left, or the range ends beyond the frames. */
MUST_USE enum status split_block_range(uint64_t begin, uint64_t end, uint64_t gap, uint64_t frames,
                                       uint64_t *blocked, struct error *err);

#endif
