/* Chains and data for the codec tests. */
#ifndef PENSTOCK_TESTS_UNIT_CODEC_CHAINS_H
#define PENSTOCK_TESTS_UNIT_CODEC_CHAINS_H

#include "base/random.h"
#include "codec/codec.h"

#include <json-c/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Adds one codec written as v3 does: {"name": ..., "configuration": {...}}. */
static inline void add_codec(struct codec_chain *chain, struct json_object *codec)
{
    struct json_object *name = NULL, *configuration = NULL;
    struct error err;
    json_object_object_get_ex(codec, "name", &name);
    json_object_object_get_ex(codec, "configuration", &configuration);
    if (codec_chain_add(chain, CODEC_ZARR_V3, json_object_get_string(name), configuration, 2,
                        &err) != STATUS_OK)
        fail_msg("%s: %s", json_object_to_json_string(codec), err.message);
}

/* The chain of a v3 list of codecs, "[{...}, ...]". */
static inline struct codec_chain chain_of(const char *list)
{
    struct codec_chain chain = {0};
    struct json_object *codecs = json_tokener_parse(list);
    if (!json_object_is_type(codecs, json_type_array))
        fail_msg("not a list: %s", list);
    for (size_t i = 0; i < json_object_array_length(codecs); i++)
        add_codec(&chain, json_object_array_get_idx(codecs, i));
    json_object_put(codecs);
    return chain;
}

static inline struct codec_context *context_of(const struct codec_chain *chain, size_t bytes)
{
    struct codec_context *context = NULL;
    assert_int_equal(codec_context_new(&chain, 1, bytes, &context, NULL), STATUS_OK);
    return context;
}

/* Data that compresses, if `noise_bits` is small, and does not, if it is 8. Returned, malloc'ed. */
static inline uint8_t *make_data(size_t size, unsigned noise_bits, uint64_t seed)
{
    uint8_t *data = malloc(size + 1);
    assert_non_null(data);
    uint64_t noise = 0;
    for (size_t i = 0; i < size; i++, noise >>= 8) {
        if (i % 8 == 0)
            noise = random_u64(seed, 0, i);
        data[i] = (uint8_t)(i / 64 + (noise & ((1u << noise_bits) - 1)));
    }
    return data;
}

/* Encodes into exactly as much memory as it takes, so that sanitizers see reads beyond it.
 * Returned. */
static inline uint8_t *encode(const struct codec_chain *chain, const uint8_t *data, size_t size,
                              size_t *ret_stored_size)
{
    struct error err;
    size_t capacity = codec_chain_stored_bound(chain, size), stored_size = 0;
    uint8_t *room = malloc(capacity + 1);
    assert_non_null(room);
    if (codec_encode(chain, data, size, room, capacity, &stored_size, &err) != STATUS_OK)
        fail_msg("encode %zu bytes: %s", size, err.message);
    uint8_t *stored = realloc(room, stored_size > 0 ? stored_size : 1);
    assert_non_null(stored);
    *ret_stored_size = stored_size;
    return stored;
}

#endif
