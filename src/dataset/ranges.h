/* Ranges of frames by their coordinate, as a configuration writes them:
 *
 *     2015-01:2016-06-30T18     dates, by the times of the sample axis; both ends belong to it
 *     2015-01:                  to the last frame; ":2015-01" from the first frame on
 *     2015-06                   one date: all of the month
 *     time=2015:2016            by the array `time`: dates, also years alone
 *     depth=0.5:20              by the array `depth`: numbers
 *
 * Without the name of an array at least one end is a date with a '-', so that "1979:2015" stays
 * numbers of frames. A colon of a time has two digits behind it, and one of a range none, four, or
 * a number. Pure; any thread.
 */
#ifndef PENSTOCK_DATASET_RANGES_H
#define PENSTOCK_DATASET_RANGES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* A part of the text that a range was read from; length 0: left out. */
struct range_piece {
    const char *text;
    size_t length;
};

struct range {
    const char *text;         /* all of it; borrowed */
    struct range_piece array; /* length 0: the times of the sample axis */
    struct range_piece low, high;
};

/* False: the text is no range. The range borrows the text. */
bool range_parse(const char *text, struct range *ret_range);

/* Whether the text begins like a range: like a date with a '-', or a range of an array. Others are
 * names of arrays. */
bool range_is_meant(const char *text);

/* A list of ranges (base/text.h). */
struct range_list {
    struct range *ranges; /* [count], owned */
    char **texts;         /* [count], owned: what the ranges borrow */
    size_t count;
};

/* Reads a list of ranges. A list whose first item is none that is meant gives none: the text is the
 * name of an array, or "". INVALID: an item is no range. NO_MEMORY. */
MUST_USE enum status range_list_read(const char *list, struct range_list *ret_list,
                                     struct error *err);
void range_list_done(struct range_list *list);

#endif
