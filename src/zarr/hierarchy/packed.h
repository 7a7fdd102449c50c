/* Packed documents: runs of bytes with their length in front, which travel between ranks of one
 * job.
 *
 * Numbers are in native byte order: all ranks run the same build. Reading checks bounds all the
 * same.
 */
#ifndef PENSTOCK_ZARR_HIERARCHY_PACKED_H
#define PENSTOCK_ZARR_HIERARCHY_PACKED_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The bytes that are left to read; borrowed. */
struct packed {
    const unsigned char *at;
    size_t left;
};

static inline void packed_put_number(struct text *out, uint64_t number)
{
    text_append_bytes(out, &number, sizeof number);
}

/* Appends a NUL behind the run, so that a reader may use the run as a string. */
static inline void packed_put_run(struct text *out, const void *data, size_t size)
{
    packed_put_number(out, size);
    text_append_bytes(out, data, size);
    text_append_bytes(out, "", 1);
}

/* Takes a number. False: too few bytes are left, and nothing is taken. */
static inline bool packed_take_number(struct packed *packed, uint64_t *ret_number)
{
    if (packed->left < sizeof *ret_number)
        return false;
    memcpy(ret_number, packed->at, sizeof *ret_number);
    packed->at += sizeof *ret_number;
    packed->left -= sizeof *ret_number;
    return true;
}

/* Takes a run (borrowed); *ret_size does not count the NUL. False: no complete run is left, and
 * nothing is taken. */
static inline bool packed_take_run(struct packed *packed, const char **ret_data, size_t *ret_size)
{
    struct packed rest = *packed;
    uint64_t size;
    if (!packed_take_number(&rest, &size) || size >= rest.left || rest.at[size] != '\0')
        return false;
    *ret_data = (const char *)rest.at;
    *ret_size = (size_t)size;
    packed->at = rest.at + size + 1;
    packed->left = rest.left - (size_t)size - 1;
    return true;
}

/* Takes a run that has no NUL inside, as a string (borrowed). False: there is none, and nothing is
 * taken. */
static inline bool packed_take_string(struct packed *packed, const char **ret_string)
{
    struct packed rest = *packed;
    const char *data;
    size_t size;
    if (!packed_take_run(&rest, &data, &size) || strlen(data) != size)
        return false;
    *packed = rest;
    *ret_string = data;
    return true;
}

#endif
