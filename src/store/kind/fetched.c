/* See struct fetched in fetch.h: what was fetched before a read, found by key and range. Pure. The
 * thread that reads calls these functions. */
#include "store/kind/store_internal.h"

#include <string.h>

/* The fetch of that key, or of that range of its value, that may still be taken; NULL if there is
 * none. */
static struct fetch *find(const struct fetched *fetched, const struct store *store, const char *key,
                          const struct store_range *range)
{
    for (size_t i = 0; fetched && i < fetched->count; i++) {
        struct fetch *fetch = &fetched->fetches[(fetched->next + i) % fetched->count];
        bool fits = range ? fetch->kind == FETCH_RANGE && fetch->offset == range->offset &&
                                fetch->size == range->size
                          : fetch->kind == FETCH_WHOLE;
        if (fits && fetch->own.store == store && fetch->key && strcmp(fetch->key, key) == 0)
            return fetch;
    }
    return NULL;
}

static struct fetch *take(struct fetched *fetched, const struct store *store, const char *key,
                          const struct store_range *range)
{
    struct fetch *fetch = find(fetched, store, key, range);
    if (!fetch)
        return NULL;
    fetched->next = (size_t)(fetch - fetched->fetches + 1) % fetched->count;
    if (fetch->more_uses > 0)
        fetch->more_uses--;
    else
        fetch->key = NULL;
    return fetch;
}

static enum status outcome(const struct fetch *fetch, struct error *err)
{
    if (fetch->status != STATUS_OK && err)
        *err = fetch->error;
    return fetch->status;
}

bool fetched_get(struct fetched *fetched, const struct store *store, const char *key, void *buffer,
                 size_t capacity, size_t *ret_size, enum status *ret_status, struct error *err)
{
    const struct fetch *fetch = take(fetched, store, key, NULL);
    if (!fetch || (fetch->status == STATUS_OK && fetch->got > capacity))
        return false;
    if (fetch->status == STATUS_OK) {
        if (fetch->got > 0)
            memcpy(buffer, fetch->buffer, fetch->got);
        *ret_size = fetch->got;
    }
    *ret_status = outcome(fetch, err);
    return true;
}

bool fetched_get_range(struct fetched *fetched, const struct store *store, const char *key,
                       const struct store_range *range, enum status *ret_status, struct error *err)
{
    const struct fetch *fetch = take(fetched, store, key, range);
    if (!fetch)
        return false;
    if (fetch->status == STATUS_OK)
        memcpy(range->buffer, fetch->buffer, fetch->size);
    *ret_status = outcome(fetch, err);
    return true;
}

bool fetched_lend(struct fetched *fetched, const struct store *store, const char *key,
                  const struct store_range *range, size_t capacity, const void **ret_bytes,
                  size_t *ret_size)
{
    const struct fetch *fetch = find(fetched, store, key, range);
    if (!fetch || fetch->status != STATUS_OK || (!range && fetch->got > capacity))
        return false;
    fetch = take(fetched, store, key, range);
    *ret_bytes = fetch->buffer;
    *ret_size = range ? fetch->size : fetch->got;
    return true;
}
