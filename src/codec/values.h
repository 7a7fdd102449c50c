/* Numbers in filters: types as NumPy writes them, conversions as NumPy makes them, and a loop over
 * bytes as numbers. Internal to src/codec; safe from any thread.
 *
 * Integers wrap around. Floats become integers by dropping the fraction. A float out of range
 * becomes some integer, which differs between machines in NumPy, too.
 */
#ifndef PENSTOCK_CODEC_VALUES_H
#define PENSTOCK_CODEC_VALUES_H

#include "base/dtype.h"
#include "codec/codec_internal.h"

enum { VALUES_BLOCK = 1024 }; /* numbers at a time; two blocks of them fit a first-level cache */

/* A type among a step's parameters: a dtype from bool to float64, with its byte order. */
enum { VALUES_SWAPPED = 0x100 };

/* Indices of the parameters that are a filter's types of decoded and of stored numbers. */
enum { VALUES_DECODED, VALUES_STORED };

static inline enum dtype values_dtype(int type)
{
    return (enum dtype)(type & 0xff);
}

/* The type `key`: "<i4", "|u1", ">f8", "float32". `fallback` where it is absent or null; 0: it must
 * be there. CORRUPT: missing, or not a type. UNSUPPORTED: a type that filters do not have here. */
MUST_USE enum status values_parse(struct json_object *configuration, const char *key, int fallback,
                                  int *ret_type, struct error *err);

/* For a codec's table row: the types "dtype" (decoded) and "astype" (stored, "dtype" where it is
 * absent). Errors of values_parse(). */
MUST_USE enum status values_parse_types(struct json_object *configuration, struct codec_step *step,
                                        struct error *err);

/* For a codec's table row: sizes that follow from the two types, and "(<i4 as |i1)". */
size_t values_stored_bound(const struct codec_step *step, size_t decoded_bytes);
size_t values_decoded_unit(const struct codec_step *step);
void values_describe(const struct codec_step *step, struct text *out);

/* For a codec's table row: "dtype" and "astype", as numcodecs writes them. */
void values_write_json(const struct codec_step *step, enum codec_format format, struct text *out);

/* Up to VALUES_BLOCK numbers from one type to another, both aligned and in native byte order. The
 * memory must not overlap. */
void values_convert(enum dtype from, enum dtype to, const void *in, void *out, size_t count);

/* Makes `count` (at most VALUES_BLOCK) numbers of the one type out of numbers of the other, aligned
 * and in native byte order. Called for one block after the other. */
typedef void values_kernel(void *argument, const void *in, void *out, size_t count);

/* Makes numbers of type `to` in `room` out of all of `bytes`, numbers of type `from`. CORRUPT: not
 * a whole number of them, or more than there is room for. */
MUST_USE enum status values_map(struct bytes bytes, int from, struct codec_output room, int to,
                                values_kernel *kernel, void *argument, struct bytes *ret_made,
                                struct error *err);

#endif
