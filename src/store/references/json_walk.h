/* Goes through the members of an object of JSON one by one: json-c reads a key or a value, so that
 * there is never a tree of all of them, which would take ten times the text's memory. Foreign
 * bytes. One thread.
 */
#ifndef PENSTOCK_STORE_REFERENCES_JSON_WALK_H
#define PENSTOCK_STORE_REFERENCES_JSON_WALK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct json_tokener;

struct json_walk {
    const char *text; /* borrowed */
    size_t size, at;
    struct json_tokener *tokener; /* owned */
    struct json_object *key;      /* owned: the member's, a text */
    bool has_begun;
};

/* A part of the text. */
struct json_part {
    const char *text;
    size_t size;
};

/* Begins with the object that the text is. CORRUPT: it is none. NO_MEMORY. */
MUST_USE enum status json_walk_begin(const char *text, size_t size, struct json_walk *ret_walk,
                                     struct error *err);
void json_walk_done(struct json_walk *walk);

/* Goes on to the next member, whose value is to be read or skipped next. *ret_key is borrowed until
 * the next call, without a NUL in it; NULL: there are no more members, and nothing is behind the
 * object. CORRUPT: the text is not JSON, or is cut. */
MUST_USE enum status json_walk_next(struct json_walk *walk, const char **ret_key,
                                    struct error *err);

/* Reads the member's value; the caller puts it back. *ret_part is its text. CORRUPT, also: it is
 * nested too deep. */
MUST_USE enum status json_walk_value(struct json_walk *walk, struct json_object **ret_value,
                                     struct json_part *ret_part, struct error *err);

/* Skips the member's value, which may be of any depth; it is not checked. */
MUST_USE enum status json_walk_skip(struct json_walk *walk, struct json_part *ret_part,
                                    struct error *err);

#endif
