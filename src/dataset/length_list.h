/* A list of lengths, which all ranks have: how many items each entry of a ragged field has, where
 * no array says so. A length takes bytes of 7 bits, lowest first, with the eighth set but in the
 * last one, so that those of a hundred million cells take about as many bytes. Any thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_LENGTH_LIST_H
#define PENSTOCK_DATASET_LENGTH_LIST_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeros: an empty list. */
struct length_list {
    unsigned char *bytes; /* [size], owned; room for more */
    size_t size, room;
};

/* Appends a length. NO_MEMORY. */
MUST_USE enum status length_list_put(struct length_list *list, uint64_t length, struct error *err);

/* Makes an empty list a copy of those bytes. NO_MEMORY. */
MUST_USE enum status length_list_copy(struct length_list *list, const void *bytes, size_t size,
                                      struct error *err);

/* Takes the next length, at byte *at, which moves on. 0: no length is left, and *at is beyond the
 * list. */
uint64_t length_list_take(const struct length_list *list, size_t *at);

/* Makes offsets [count + 1], from 0, of the next `count` lengths. */
void length_list_offsets(const struct length_list *list, size_t *at, uint64_t count,
                         uint64_t *offsets);

/* Whether all lengths were taken, and no more. */
bool length_list_is_taken(const struct length_list *list, size_t at);

#endif
