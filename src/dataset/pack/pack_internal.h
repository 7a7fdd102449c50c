/* What the files of packing share: texts, real numbers and runs of items of packed datasets, and
 * what pack.c, mix_pack.c and ragged_pack.c have for each other. Inside src/dataset. */
#ifndef PENSTOCK_DATASET_PACK_PACK_INTERNAL_H
#define PENSTOCK_DATASET_PACK_PACK_INTERNAL_H

#include "dataset/dataset_internal.h"
#include "zarr/hierarchy/packed.h"

#include <stdlib.h>
#include <string.h>

static inline void pack_string(struct text *out, const char *string)
{
    packed_put_run(out, string, strlen(string));
}

/* The uri of the store that a field has of its own; "" for none. */
static inline void pack_own_store(struct text *out, const struct dataset *dataset, size_t own_store)
{
    const char *name;
    pack_string(out, own_store > 0
                         ? store_uri(store_joined_at(dataset->private->store, own_store, &name))
                         : "");
}

/* A string; NULL for "". */
static inline bool unpack_text(struct packed *packed, const char **ret_text)
{
    if (!packed_take_string(packed, ret_text))
        return false;
    if (!**ret_text)
        *ret_text = NULL;
    return true;
}

static inline void pack_real(struct text *out, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    packed_put_number(out, bits);
}

static inline bool unpack_real(struct packed *packed, double *ret_number)
{
    uint64_t bits;
    if (!packed_take_number(packed, &bits))
        return false;
    memcpy(ret_number, &bits, sizeof *ret_number);
    return true;
}

/* A copy of a run of items of `item_bytes`, malloc'ed; NULL if there are none. */
static inline bool unpack_items(struct packed *packed, size_t item_bytes, void **ret_items,
                                size_t *ret_count)
{
    const char *bytes;
    size_t size;
    if (!packed_take_run(packed, &bytes, &size) || size % item_bytes != 0)
        return false;
    void *items = size > 0 ? malloc(size) : NULL;
    if (size > 0 && !items)
        return false;
    if (items)
        memcpy(items, bytes, size);
    *ret_items = items;
    *ret_count = size / item_bytes;
    return true;
}

/* pack.c: dataset_unpack(), of a source of a mix, or with `mix` NULL. */
MUST_USE enum status dataset_unpack_source(const void *bytes, size_t size,
                                           const struct dataset_narrowing *narrowing,
                                           struct store_watch *watch, struct dataset *mix,
                                           uint32_t source, struct dataset **ret_dataset,
                                           struct error *err);

/* mix_pack.c: dataset_pack() and dataset_unpack() of a mix; and whether the bytes are one. */
void mix_pack(const struct dataset *mix, struct text *out);
bool mix_is_packed(const void *bytes, size_t size);
MUST_USE enum status mix_unpack(const void *bytes, size_t size, struct store_watch *watch,
                                struct dataset **ret_mix, struct error *err);

/* ragged_pack.c: packs the ragged fields, as settled; and appends their specs to those of other
 * fields. A spec's steps and lengths are malloc'ed, the caller's, on failure too. False: the bytes
 * are not valid, or there is no memory. */
void ragged_pack(struct text *out, const struct dataset *dataset);
bool ragged_unpack(struct packed *packed, struct dataset_field_spec *specs, uint64_t *count);

#endif
