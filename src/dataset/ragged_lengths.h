/* Lengths: how many things there are of which length, about, and so how long any number of them
 * are together at most. */
#ifndef PENSTOCK_DATASET_RAGGED_LENGTHS_H
#define PENSTOCK_DATASET_RAGGED_LENGTHS_H

#include <stdint.h>

/* Lengths below 64 have a bucket each; from there on there are 32 buckets for each power of two. */
enum { LENGTHS_EXACT = 64, LENGTHS_BUCKETS = LENGTHS_EXACT + 58 * 32 };

/* Bounds that the user gives instead, rising; zeros: none. */
enum { LENGTHS_MAX_BOUNDS = 64 };
struct length_bounds {
    uint32_t count;
    uint64_t of[LENGTHS_MAX_BOUNDS];
};

/* Zeros: there is none. */
struct lengths {
    struct {
        uint64_t count, most; /* how many, and the longest one of them */
    } buckets[LENGTHS_BUCKETS];
};

/* The bucket of a length, and the greatest length of a bucket. */
unsigned lengths_bucket(uint64_t length);
uint64_t lengths_bound(unsigned bucket);

/* The first of the bounds that is not below the length; `count`: all are. */
static inline uint32_t length_bounds_find(const struct length_bounds *bounds, uint64_t length)
{
    uint32_t k = 0;
    while (k < bounds->count && bounds->of[k] < length)
        k++;
    return k;
}

void lengths_add(struct lengths *lengths, uint64_t length);

/* The most that `count` different ones are together: all of them, if there are fewer. At most 1/32
 * too large; of one alone exact. At most UINT64_MAX. */
uint64_t lengths_most(const struct lengths *lengths, uint64_t count);

/* Adds the `count` longest of `from`, each up to `copies` times; all of them, if there are fewer.
 * Likewise at most 1/32 too long. */
void lengths_add_longest(struct lengths *lengths, const struct lengths *from, uint64_t count,
                         uint64_t copies);

/* What a scan of a ragged field's offsets has found. Travels between ranks as plain bytes. */
struct ragged_lengths {
    uint64_t offsets_hash;     /* of the offsets, numbered through all stores, and of the join */
    uint64_t item_count;       /* of all entries */
    uint64_t frame_items;      /* of all frames together */
    uint64_t most_frame_items; /* no frame has more */
    uint64_t sample_items;     /* of all samples together, all steps */
    uint64_t chunks, decoded;  /* chunks of all columns that rows have, and how often an epoch
                                * decodes one */
    uint64_t hold_room;        /* of values that are held: the most bytes of one chunk on its way */
    struct lengths samples;    /* items, all steps, as delivered */
    struct lengths rows;       /* pages */
    uint64_t panel_hash;       /* of a panel: a hash of its offsets; else 0 */
    uint64_t read_pages, most_read_pages;     /* likewise: pages that rows are read into, of all
                                               * rows, and of any one */
    uint64_t longest_frame;                   /* the anchor of the first of the longest samples */
    struct length_bounds bounds;              /* as in the options */
    uint64_t bounded[LENGTHS_MAX_BOUNDS + 1]; /* samples of each bound */
};

#endif
