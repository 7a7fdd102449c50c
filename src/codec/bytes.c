/* Byte order. Plain loops that compilers turn into vector code where the target has byte shuffles;
 * compiled with -O3 for that. Safe from any thread. */
#include "codec/codec.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Data need not be aligned: memcpy is a load or a store here. */
#define DEFINE_SWAP(bits)                                           \
    static void swap_##bits(uint8_t *data, size_t size)             \
    {                                                               \
        for (size_t i = 0; i < size; i += sizeof(uint##bits##_t)) { \
            uint##bits##_t value;                                   \
            memcpy(&value, data + i, sizeof value);                 \
            value = __builtin_bswap##bits(value);                   \
            memcpy(data + i, &value, sizeof value);                 \
        }                                                           \
    }

DEFINE_SWAP(16)
DEFINE_SWAP(32)
DEFINE_SWAP(64)

static void swap_128(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i += 16) {
        uint64_t low, high;
        memcpy(&low, data + i, 8);
        memcpy(&high, data + i + 8, 8);
        low = __builtin_bswap64(low);
        high = __builtin_bswap64(high);
        memcpy(data + i, &high, 8);
        memcpy(data + i + 8, &low, 8);
    }
}

void bytes_swap(void *data, size_t size, size_t unit_bytes)
{
    assert(unit_bytes > 0 && size % unit_bytes == 0);
    switch (unit_bytes) {
    case 1:
        return;
    case 2:
        swap_16(data, size);
        return;
    case 4:
        swap_32(data, size);
        return;
    case 8:
        swap_64(data, size);
        return;
    case 16:
        swap_128(data, size);
        return;
    default:
        assert(!"a unit has 1, 2, 4, 8 or 16 bytes");
    }
}
