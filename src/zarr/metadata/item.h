/* The type of an array's items, in NumPy's terms, for both formats. Inside src/zarr. Pure; any
 * thread.
 *
 * A type without a dtype of ours is read as a simpler type: dates and durations as int64, strings
 * and raw bytes as uint8, floats of a byte and smaller items as uint8, unicode strings as uint32
 * code points. A structured dtype makes an array of each member.
 */
#ifndef PENSTOCK_ZARR_METADATA_ITEM_H
#define PENSTOCK_ZARR_METADATA_ITEM_H

#include "zarr/metadata/array.h"

#include <json-c/json.h>

/* The type of an item. */
struct item {
    enum dtype dtype;
    uint64_t length; /* as in struct zarr_array */
    size_t bytes;
    bool little_endian;
    char kind;                  /* NumPy's: 'f', 'S', 'M' */
    char text[ZARR_TYPE_BYTES]; /* "" where `dtype` says everything */
};

/* Reads NumPy's text of a type, but not of a structured dtype: "<f4", "|S10", "<M8[ns]".
 * UNSUPPORTED: a type that is not read. CORRUPT: not a type. Messages have the text. */
MUST_USE enum status item_by_text(const char *text, struct item *ret_item, struct error *err);

/* A type of small_item.h by its name. False: there is no such type. */
bool item_by_small_name(const char *name, struct item *ret_item);

/* Sets the array's items: of each record of `record_bytes`, the item at `offset`. CORRUPT: the
 * array's size overflows. */
MUST_USE enum status item_set(struct zarr_array *array, const struct item *item,
                              size_t record_bytes, size_t offset, struct error *err);

/* Says that items of the type `text` are too long. */
enum status item_too_long(const char *text, struct error *err);

/* Reads the name of a structured dtype's member, borrowed from `json`. The name becomes part of a
 * path and of messages. CORRUPT: the name has a control character or '/', or nothing but dots. */
MUST_USE enum status structure_member_name(struct json_object *json, const char **ret_name,
                                           struct error *err);

/* A structured dtype. Members are added one after another, without gaps except members without a
 * name. Then structure_settle() makes the array that of its member_index. Names are borrowed.
 * UNSUPPORTED: too many members, or a path that is too long. CORRUPT: there is no such member. */
struct structure {
    size_t record_bytes, offset, member_count;
    const char *wanted_name;
    struct item wanted;
};
MUST_USE enum status structure_add(struct structure *structure, const struct zarr_array *array,
                                   const char *name, const struct item *item, struct error *err);
MUST_USE enum status structure_settle(const struct structure *structure, struct zarr_array *array,
                                      struct error *err);

/* Reads the fill value of an array that is otherwise settled; `value` NULL: JSON's null. CORRUPT:
 * not a value of the type. */
MUST_USE enum status item_parse_fill(struct json_object *value, struct zarr_array *array,
                                     struct error *err);

#endif
