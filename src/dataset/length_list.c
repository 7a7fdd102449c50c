/* See length_list.h. */
#include "dataset/length_list.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 10 }; /* of a length */

enum status length_list_put(struct length_list *list, uint64_t length, struct error *err)
{
    if (list->size + MOST_BYTES > list->room) {
        size_t more = list->room + list->room / 2 + 4096;
        unsigned char *bytes = realloc(list->bytes, more);
        if (!bytes)
            return error_set(err, STATUS_NO_MEMORY, "no memory for the lengths of samples");
        list->bytes = bytes;
        list->room = more;
    }
    for (; length >= 0x80; length >>= 7)
        list->bytes[list->size++] = (unsigned char)(length | 0x80);
    list->bytes[list->size++] = (unsigned char)length;
    return STATUS_OK;
}

enum status length_list_copy(struct length_list *list, const void *bytes, size_t size,
                             struct error *err)
{
    if (size == 0)
        return STATUS_OK;
    unsigned char *copy = malloc(size);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the lengths of samples");
    memcpy(copy, bytes, size);
    *list = (struct length_list){.bytes = copy, .size = size, .room = size};
    return STATUS_OK;
}

uint64_t length_list_take(const struct length_list *list, size_t *at)
{
    uint64_t length = 0;
    unsigned shift = 0;
    if (*at >= list->size) {
        *at = list->size + 1;
        return 0;
    }
    for (; *at + 1 < list->size && list->bytes[*at] >= 0x80 && shift < 63; shift += 7)
        length |= (uint64_t)(list->bytes[(*at)++] & 0x7f) << shift;
    return length | (uint64_t)(list->bytes[(*at)++] & 0x7f) << shift;
}

void length_list_offsets(const struct length_list *list, size_t *at, uint64_t count,
                         uint64_t *offsets)
{
    offsets[0] = 0;
    for (uint64_t i = 0; i < count; i++)
        offsets[i + 1] = offsets[i] + length_list_take(list, at);
}

bool length_list_is_taken(const struct length_list *list, size_t at)
{
    return at == list->size;
}
