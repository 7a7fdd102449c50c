/* Tables of an object: taken one by one, given back together.
 *
 * One function takes all tables of the object, a line for each:
 *
 *     thing->rows = tables_take(tables, row_count, sizeof *thing->rows);
 *
 * The same function counts for a budget what the tables take, with tables that only count. Not for
 * what is taken and given back many times. One thread at a time.
 */
#ifndef PENSTOCK_BASE_TABLES_H
#define PENSTOCK_BASE_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Empty if zero. */
struct tables {
    struct table *last; /* owned */
    uint64_t bytes;     /* of all tables; the largest number if they are more */
    bool only_counts;   /* set it before the first: tables_take() returns NULL, and nothing fails */
    bool failed;        /* there was no memory for one, at least */
};

/* A table of `count` members of `size` bytes, which may be none: zeros, with all of its pages
 * present. Borrowed until tables_done(). NULL: no memory. */
void *tables_take(struct tables *tables, uint64_t count, size_t size);

/* Frees all tables. */
void tables_done(struct tables *tables);

#endif
