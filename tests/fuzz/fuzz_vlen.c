/* Fuzz target for values of variable length: any bytes are refused with a message, or are values
 * whose items all lie in the chunk. */
#include "fuzz.h"

#include "codec/vlen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint64_t count = take_byte(&input), items = 0;
    size_t item_bytes = 1 + take_byte(&input) % 8, left = size < 2 ? 0 : size - 2;
    struct error err;
    uint32_t *counts = malloc((count + 1) * sizeof *counts); /* of just that size */
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    unsigned char *chunk = malloc(left ? left : 1), *copy = malloc(left + 1);
    CHECK(counts && offsets && chunk && copy);
    if (left > 0)
        memcpy(chunk, input.at, left);
    enum status status = vlen_measure(chunk, left, count, item_bytes, counts, &err);
    if (status == STATUS_OK) {
        for (uint64_t i = 0; i < count; i++)
            offsets[i + 1] = items += counts[i];
        CHECK(vlen_begin(count, items * item_bytes) == left);
        CHECK(vlen_check(chunk, left, count, item_bytes, offsets, count, &err) == STATUS_OK);
        offsets[count]++;
        CHECK(count == 0 ||
              vlen_check(chunk, left, count, item_bytes, offsets, count, &err) == STATUS_CORRUPT);
        CHECK(vlen_copy(chunk, count, copy) == copy + items * item_bytes);
    } else {
        CHECK(err.status == (int32_t)status && err.message[0]);
        CHECK(vlen_check(chunk, left, count, item_bytes, offsets, 0, NULL) == status);
    }
    free(counts);
    free(offsets);
    free(chunk);
    free(copy);
    return 0;
}
