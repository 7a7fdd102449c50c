/* Attributes of a group, read from the store when they are asked for. Blocks on the store; one
 * thread, while opening. */
#ifndef PENSTOCK_ZARR_HIERARCHY_GROUP_ATTRIBUTES_H
#define PENSTOCK_ZARR_HIERARCHY_GROUP_ATTRIBUTES_H

#include "base/error.h"
#include "store/store.h"
#include "zarr/metadata/array.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads the attributes of the group at `path` ("" is the root). *ret_root is the document, the
 * caller's, and *ret_attributes is borrowed from it; both are NULL if there is none. CORRUPT: the
 * document is not valid. Other errors as of store_get_text(). */
struct json_object;
MUST_USE enum status group_attributes_read(const struct store *store, enum zarr_format format,
                                           const char *path, struct json_object **ret_root,
                                           struct json_object **ret_attributes, struct error *err);

/* An attribute as texts: those of a list, or one. Numbers are as written. */
struct zarr_texts {
    bool is_there; /* the attribute: a text, a number or a list of these */
    size_t count;
    char **items; /* [count], owned */
};

/* Takes the texts of a value; of a value that has none, *ret_texts stays empty. NO_MEMORY: what was
 * taken is to be freed all the same. */
MUST_USE enum status zarr_texts_take(struct json_object *value, struct zarr_texts *ret_texts,
                                     struct error *err);

/* Reads the attribute `name` of a group. Errors as of group_attributes_read(), and NO_MEMORY. */
MUST_USE enum status zarr_group_texts(const struct store *store, enum zarr_format format,
                                      const char *path, const char *name,
                                      struct zarr_texts *ret_texts, struct error *err);
void zarr_texts_done(struct zarr_texts *texts);

#endif
