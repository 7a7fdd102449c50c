/* Metadata documents: foreign JSON, read with suspicion. Inside src/zarr. Pure; any thread.
 *
 * json.h reads them: no comments, no trailing bytes, bounded depth, exact 64-bit integers. Bare NaN
 * and Infinity are accepted, since v2 writers produce them. An integer beyond 64 bits becomes the
 * nearest bound, so callers refuse the bounds where they would matter.
 */
#ifndef PENSTOCK_ZARR_METADATA_DOCUMENT_H
#define PENSTOCK_ZARR_METADATA_DOCUMENT_H

#include "base/error.h"
#include "zarr/metadata/array.h"

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOCUMENT_MAX_DEPTH = 32 };

/* Parses an object, returned: the caller calls json_object_put(). CORRUPT: the text is not JSON, or
 * not an object. */
MUST_USE enum status document_parse(const char *text, size_t size, struct json_object **ret_root,
                                    struct error *err);

/* Finds the member `name`, borrowed from `object`. CORRUPT: there is no such member, or its type is
 * not `type`; the message has the name. */
MUST_USE enum status document_member(struct json_object *object, const char *name,
                                     enum json_type type, struct json_object **ret_member,
                                     struct error *err);

/* Checks that the member `name` is the integer `value` ("zarr_format": 3). CORRUPT: the member is
 * missing or another. */
MUST_USE enum status document_expect(struct json_object *object, const char *name, int64_t value,
                                     struct error *err);

/* Reads one of v3's named configurations: "name", {"name": "name"} or {"name": "name",
 * "configuration": {...}}. *ret_configuration is NULL if there is none. Both results are borrowed
 * from `object`. `what` names the place in messages. CORRUPT. */
MUST_USE enum status document_named(struct json_object *object, const char *what,
                                    const char **ret_name, struct json_object **ret_configuration,
                                    struct error *err);

/* Reads the shape: 1 to 8 lengths, each 0 to 2^63-2; of none, is_scalar; if one is 0, is_empty.
 * total_bytes stays 0. */
MUST_USE enum status document_shape(struct json_object *root, struct zarr_array *array,
                                    struct error *err);

/* INVALID: the message names the first axis of length 0. */
enum status document_refuse_empty(const struct zarr_array *array, struct error *err);

/* Reads one length for each axis from `list`, each 1 to 2^63-2. A 0 along an axis of length 0 is
 * taken for 1. */
MUST_USE enum status document_lengths(struct json_object *list, const struct zarr_array *array,
                                      uint64_t ret_lengths[ZARR_MAX_RANK], struct error *err);

/* Sets chunk_counts and chunk_bytes from chunk_shape. The dtype must be set. */
MUST_USE enum status document_set_chunks(struct zarr_array *array, struct error *err);

/* Reads the chunk shape from `list`, and calls document_set_chunks(): for a grid whose chunks are
 * values. */
MUST_USE enum status document_chunk_shape(struct json_object *list, struct zarr_array *array,
                                          struct error *err);

/* Fits the codecs to the chunks, once both are settled: codec_chain_settle(). */
MUST_USE enum status document_settle_codecs(struct zarr_array *array, struct error *err);

/* Sets the dtype, and the members that follow from dtype and shape. */
MUST_USE enum status document_set_dtype(struct zarr_array *array, enum dtype dtype,
                                        bool little_endian, struct error *err);

/* Reads the separator of chunk keys: "." or "/". CORRUPT: anything else. */
MUST_USE enum status document_separator(struct json_object *value, char *ret_separator,
                                        struct error *err);

/* The two formats' parsers behind zarr_array_parse(). */
MUST_USE enum status metadata_v2_parse(struct json_object *root, struct zarr_array *array,
                                       struct error *err);
MUST_USE enum status metadata_v3_parse(struct json_object *root, struct zarr_array *array,
                                       struct error *err);

/* Parses the document of an array of values of variable length, as of zarr_array.is_vlen, which
 * changes the document. *ret_is_vlen is false, and nothing is done, for any other array.
 * `array` has its format and path. Never OK for such an array: UNSUPPORTED, or CORRUPT. */
MUST_USE enum status metadata_vlen_parse(struct json_object *root, bool *ret_is_vlen,
                                         struct zarr_array *array, struct error *err);

/* For metadata_v3_parse(): 'chunk_grid', which gives chunk_shape: of shards, until the codecs are
 * read. */
MUST_USE enum status metadata_v3_grid(struct json_object *root, struct zarr_array *array,
                                      struct error *err);

/* For metadata_v3_parse(): 'codecs', levels of shards included, and the chunk grid that comes of
 * them. */
MUST_USE enum status metadata_v3_codecs(struct json_object *root, struct zarr_array *array,
                                        struct error *err);

/* For metadata_v3_parse(): 'data_type', all but the byte order, which is not known before the
 * codecs are read. */
MUST_USE enum status metadata_v3_dtype(struct json_object *root, struct zarr_array *array,
                                       struct error *err);

/* For metadata_v3_parse(): the fill value of a raw type, a list of the item's bytes. */
MUST_USE enum status metadata_v3_raw_fill(struct json_object *value, struct zarr_array *array,
                                          struct error *err);

/* Reads one item of `dtype`, in native byte order, from a fill_value (`value` NULL: JSON's null).
 * v2 takes null as zero, and numbers as strings. v3 takes hexadecimal strings as bits. `ret_item`
 * has room for DTYPE_MAX_BYTES; bytes behind the item are set to zero. CORRUPT: not a value of that
 * type. */
MUST_USE enum status fill_parse(enum zarr_format format, enum dtype dtype,
                                struct json_object *value, unsigned char *ret_item,
                                struct error *err);

/* Reads the bytes [offset, offset + item_bytes) of a record of `record_bytes` from v2's base64
 * text, in stored byte order. A record that ends early ends in zeros, as NumPy's strings do.
 * `value` NULL or 0: zeros. CORRUPT: not base64, or too long. */
MUST_USE enum status fill_parse_record(struct json_object *value, size_t record_bytes,
                                       size_t offset, size_t item_bytes, unsigned char *ret_item,
                                       struct error *err);

/* Reads a text as `length` code points of 4 bytes, in native byte order, with zeros behind the
 * text. CORRUPT: not a text, or too long. */
MUST_USE enum status fill_parse_unicode(struct json_object *value, size_t length,
                                        unsigned char *ret_item, struct error *err);

#endif
