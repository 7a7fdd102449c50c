/* What stores that are made of others need of these. Any thread. */
#include "store/kind/store_internal.h"

#include <stdlib.h>
#include <string.h>

bool store_key_is_well_formed(const char *key)
{
    for (;;) {
        size_t length = strcspn(key, "/");
        if (length == 0 || (length == 1 && key[0] == '.') ||
            (length == 2 && key[0] == '.' && key[1] == '.'))
            return false;
        if (key[length] == '\0')
            return true;
        key += length + 1;
    }
}

static int rank_of(char c)
{
    return c == '/' ? -1 : (unsigned char)c;
}

int store_key_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t least = a_bytes < b_bytes ? a_bytes : b_bytes;
    for (size_t i = 0; i < least; i++)
        if (a[i] != b[i])
            return rank_of(a[i]) - rank_of(b[i]);
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    free(store->uri);
    store->operations->free(store);
}
