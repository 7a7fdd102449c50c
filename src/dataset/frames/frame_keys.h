/* Coordinates of frames as keys: integers in the same order, among which ranges are looked up.
 * Inside src/dataset; pure, any thread. */
#ifndef PENSTOCK_DATASET_FRAMES_FRAME_KEYS_H
#define PENSTOCK_DATASET_FRAMES_FRAME_KEYS_H

#include "dataset/frames/frame_coordinate.h"
#include "dataset/ranges.h"

/* Whether the coordinate has keys, those of `before`, of another store (NULL: none), among them.
 * INVALID: a calendar or units that are not read, scaled items, or others than those of `before`.
 */
MUST_USE enum status frame_keys_expect(const struct frame_coordinate *coordinate,
                                       const struct frame_coordinate *before, struct error *err);

/* The key of item `i` of those that are read: of times milliseconds, of integers these, of other
 * numbers their bits. False: NaN or NaT, or a time too far away. */
bool frame_key(const struct frame_coordinate *coordinate, const void *items, uint64_t i,
               int64_t *ret_key);

/* Keys [begin, end). */
struct frame_key_interval {
    int64_t begin, end;
};

/* What an end of a range stands for: a date for all that it names, a number for itself. INVALID:
 * the end is no date of the calendar, or no number. */
MUST_USE enum status frame_key_interval(const struct frame_coordinate *coordinate,
                                        struct range_piece piece,
                                        struct frame_key_interval *ret_interval, struct error *err);

/* How far key `b` is from the smaller one `a`. */
double frame_key_distance(const struct frame_coordinate *coordinate, int64_t a, int64_t b);

/* A key for people: a date or a number. */
struct frame_key_text {
    char text[DATASET_DATE_BYTES];
};
struct frame_key_text frame_key_text(const struct frame_coordinate *coordinate, int64_t key);

#endif
