/* Byte order. Safe from any thread. */
#include "codec/codec.h"

#include "base/convert.h"

void bytes_swap(void *data, size_t size, size_t unit_bytes)
{
    convert_swap(data, size, unit_bytes);
}
