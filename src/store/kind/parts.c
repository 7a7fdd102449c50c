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

void store_close(struct store *store)
{
    if (!store)
        return;
    free(store->uri);
    store->operations->free(store);
}
