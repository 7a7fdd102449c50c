/* `gen` of references: references made by counting, one for each product of some dimensions'
 * values. And keys, which these have in common with other references. Foreign bytes. One thread.
 */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCE_GEN_H
#define PENSTOCK_STORE_REFERENCES_REFERENCE_GEN_H

#include "store/references/reference_table.h"
#include "store/references/reference_template.h"

/* The key that stores use: "x/" is the chunk of an array without axes, "x/0". CORRUPT: it is too
 * long, or no relative path without empty, "." and ".." parts. */
MUST_USE enum status reference_key(const char *given, char ret_key[REFERENCE_KEY_BYTES],
                                   struct error *err);

/* Adds the references of a list (borrowed). CORRUPT, UNSUPPORTED, NO_MEMORY: as of
 * reference_json_read(). */
MUST_USE enum status reference_gen_read(struct json_object *list,
                                        const struct template_names *names,
                                        struct reference_table *table, struct error *err);

#endif
