/* What an item of an array is, in NumPy's terms, for both formats. Internal to src/zarr; pure.
 *
 * What has no dtype here comes as what it is made of: dates and durations as int64, strings and raw
 * bytes as uint8, unicode strings as uint32 code points. A structured dtype makes an array of each
 * member.
 */
#ifndef PENSTOCK_ZARR_ITEM_H
#define PENSTOCK_ZARR_ITEM_H

#include "zarr/array.h"

#include <json-c/json.h>

/* What an item is, as the text of a dtype says. */
struct item {
    enum dtype dtype;
    uint64_t length; /* as in struct zarr_array */
    size_t bytes;
    bool little_endian;
    char kind;                  /* NumPy's: 'f', 'S', 'M' */
    char text[ZARR_TYPE_BYTES]; /* "" where `dtype` says it all */
};

/* By NumPy's text, any but a structured one: "<f4", "|S10", "<M8[ns]". UNSUPPORTED, CORRUPT: by
 * name. */
MUST_USE enum status item_by_text(const char *text, struct item *ret_item, struct error *err);

/* Makes an item of the array's items: of records of `record_bytes`, what lies at `offset`. CORRUPT:
 * the array's size overflows. */
MUST_USE enum status item_set(struct zarr_array *array, const struct item *item,
                              size_t record_bytes, size_t offset, struct error *err);

/* Says that items of the type `text` are too long. */
enum status item_too_long(const char *text, struct error *err);

/* The name of a structured dtype's member, which becomes part of a path and of messages: borrowed
 * from `json`. CORRUPT: a control character or '/' in it, or nothing but dots. */
MUST_USE enum status structure_member_name(struct json_object *json, const char **ret_name,
                                           struct error *err);

/* A structured dtype, without gaps but for members without a name: one member after another, then
 * the array becomes that of its member_index. Names are borrowed. UNSUPPORTED: too many members, or
 * a path that is too long. CORRUPT: no such member. */
struct structure {
    size_t record_bytes, offset, member_count;
    const char *wanted_name;
    struct item wanted;
};
MUST_USE enum status structure_add(struct structure *structure, const struct zarr_array *array,
                                   const char *name, const struct item *item, struct error *err);
MUST_USE enum status structure_settle(const struct structure *structure, struct zarr_array *array,
                                      struct error *err);

/* The fill value of an array that is otherwise settled; `value` may be NULL. CORRUPT: none of the
 * type. */
MUST_USE enum status item_parse_fill(struct json_object *value, struct zarr_array *array,
                                     struct error *err);

#endif
