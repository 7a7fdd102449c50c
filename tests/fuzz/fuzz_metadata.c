/* Fuzz target for metadata: any bytes as a v2 and as a v3 document are refused or give an array
 * whose sizes and grid agree, so that nothing behind the parser has to check them again. */
#include "fuzz.h"

#include "zarr/metadata/array.h"

#include <stdlib.h>
#include <string.h>

static void check_array(const struct zarr_array *array)
{
    uint64_t chunk_index[ZARR_MAX_RANK], total_bytes = array->item_bytes;
    size_t chunk_bytes = array->stored_item_bytes;
    char key[ZARR_KEY_BYTES];
    struct text text = {0};
    CHECK(array->rank >= 1 && array->rank <= ZARR_MAX_RANK);
    CHECK(array->item_bytes > 0 && array->item_bytes <= ZARR_MAX_ITEM_BYTES);
    CHECK(array->item_bytes ==
          dtype_bytes(array->dtype) * (array->item_length > 0 ? array->item_length : 1));
    CHECK(array->item_offset + array->item_bytes <= array->stored_item_bytes);
    for (int i = 0; i < array->rank; i++) {
        CHECK(array->shape[i] > 0 && array->chunk_shape[i] > 0 && array->chunk_counts[i] > 0);
        CHECK((array->shape[i] - 1) / array->chunk_shape[i] == array->chunk_counts[i] - 1);
        CHECK(!__builtin_mul_overflow(total_bytes, array->shape[i], &total_bytes));
        CHECK(!__builtin_mul_overflow(chunk_bytes, array->chunk_shape[i], &chunk_bytes));
        chunk_index[i] = array->chunk_counts[i] - 1;
    }
    CHECK(total_bytes == array->total_bytes);
    CHECK(chunk_bytes == array->chunk_bytes && chunk_bytes <= ZARR_MAX_CHUNK_BYTES);
    CHECK(zarr_array_sample_bytes(array) > 0 && zarr_array_chunk_count(array) > 0);
    zarr_chunk_key(array, chunk_index, key);
    CHECK(strlen(key) < sizeof key);
    zarr_array_identify(array, &text);
    text_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (enum zarr_format format = ZARR_V2; format <= ZARR_V3; format++) {
        struct zarr_array array;
        struct error err;
        enum status status =
            zarr_array_parse(format, "group/array", (const char *)data, size, &array, &err);
        if (status == STATUS_OK)
            check_array(&array);
        else
            CHECK(err.status == (int32_t)status && err.message[0] != '\0');
    }
    return 0;
}
