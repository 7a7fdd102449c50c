/* Fetches of a store of which anything is behind a network (kind/relay.h). A fetch of a value
 * becomes a fetch of the object, or the range of it, that has the value. What has to wait first,
 * for the list or for a file, is done by the relays' threads.
 *
 *     virtual_fetch() --> list in memory --> relay --> the other store --> done()
 *                  \--> queue --> threads, which read the list ^
 */
#include "store/virtual/virtual.h"

#include <string.h>

/* A fetch of the other store's. */
struct value_relay {
    struct relay relay;
    struct virtual_store *store;
    struct virtual_value value;
    char key[VIRTUAL_LOCATION_BYTES];
};

static enum status tell(const struct virtual_store *store, struct fetch *fetch, enum status status)
{
    return error_prefix(&fetch->error, status, "'%s': chunk '%s': ", store->uri, fetch->key);
}

/* What a fetch of a whole object found out, which is all of the value. */
static void pass_results(const struct fetch *from, struct fetch *to)
{
    to->got = from->got;
    to->total = from->total;
    to->encoded = from->encoded;
    to->version += from->version;
}

static void on_done(struct fetch *fetch)
{
    struct value_relay *relay = fetch->argument;
    struct fetch *outer = relay->relay.outer;
    enum status status = fetch->status;
    if (relay->value.is_whole)
        pass_results(fetch, outer);
    if (status != STATUS_OK) {
        outer->error = fetch->error;
        status = virtual_explain(relay->store, &relay->value, status, &outer->error);
        status = tell(relay->store, outer, status);
    }
    relay_put(relay->store->relays, &relay->relay);
    relay_finish(outer, status);
}

/* What the other store is asked for: the same of a whole object, else a range. */
static struct fetch make_inner(const struct value_relay *relay, uint64_t offset, size_t size)
{
    const struct virtual_value *value = &relay->value;
    const struct fetch *outer = relay->relay.outer;
    if (value->is_whole)
        return (struct fetch){.kind = outer->kind,
                              .offset = outer->offset,
                              .size = outer->size,
                              .capacity = outer->capacity,
                              .begins = outer->begins};
    return (struct fetch){.kind = FETCH_RANGE,
                          .offset = value->offset + offset,
                          .size = size,
                          .etag = value->etag,
                          .modified_s = value->etag[0] ? 0 : value->modified_s};
}

static void start_relay(struct value_relay *relay, const struct store *store, uint64_t offset,
                        size_t size)
{
    struct fetch *fetch = &relay->relay.fetch;
    *fetch = make_inner(relay, offset, size);
    fetch->key = relay->key;
    fetch->buffer = relay->relay.outer->buffer;
    fetch->done = on_done;
    fetch->argument = relay;
    fetch->own.store = store;
    store->operations->fetch(store, fetch);
}

/* Starts a relay for a value in an object; or reads the object here, of a store that is not remote,
 * if the caller may wait. False: the caller may not, and has to. */
static bool send(struct virtual_store *virtual, struct fetch *fetch,
                 const struct virtual_value *value, uint64_t offset, size_t size, bool may_wait)
{
    const struct store *store;
    struct value_relay *relay = (struct value_relay *)relay_take(virtual->relays);
    enum status status =
        relay ? virtual_object(virtual, value, &store, relay->key, &fetch->error)
              : error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
    if (status == STATUS_OK && store->operations->fetch) {
        relay->relay.outer = fetch;
        relay->store = virtual;
        relay->value = *value;
        start_relay(relay, store, offset, size);
        return true;
    }
    if (relay)
        relay_put(virtual->relays, &relay->relay);
    if (status == STATUS_OK && !may_wait)
        return false;
    if (status == STATUS_OK)
        status = value->is_whole
                     ? virtual_read_whole(virtual, value, fetch, &fetch->error)
                     : virtual_read_object(virtual, value,
                                           &(struct store_range){offset, size, fetch->buffer}, 1,
                                           &fetch->error);
    relay_finish(fetch, status == STATUS_OK ? STATUS_OK : tell(virtual, fetch, status));
    return true;
}

/* Gives what was found; false as of send(). */
static bool give(struct virtual_store *virtual, struct fetch *fetch, struct virtual_value *value,
                 bool may_wait)
{
    uint64_t offset = 0;
    size_t size = 0;
    enum status status =
        value->is_whole ? STATUS_OK : relay_choose(fetch, value->length, &offset, &size);
    bool is_elsewhere = status == STATUS_OK && !value->bytes && (size > 0 || value->is_whole);
    fetch->version = value->version;
    if (status == STATUS_OK && value->bytes && size > 0)
        memcpy(fetch->buffer, value->bytes + offset, size);
    virtual_let_go(virtual, value); /* done() may read others, with nothing pinned */
    if (is_elsewhere)
        return send(virtual, fetch, value, offset, size, may_wait);
    relay_finish(fetch, status);
    return true;
}

/* False: it has to wait, and may not. */
static bool begin(const struct store *store, struct fetch *fetch, bool may_wait)
{
    struct virtual_store *virtual = virtual_of(store);
    struct virtual_value value = {0};
    bool absent = false;
    enum status status = virtual->kind->find(virtual, fetch->key, may_wait, &absent, &value,
                                             &fetch->error);
    if (status == STATUS_OK && absent)
        return false;
    if (status == STATUS_OK)
        return give(virtual, fetch, &value, may_wait);
    relay_finish(fetch, status == STATUS_NOT_FOUND ? status : tell(virtual, fetch, status));
    return true;
}

void virtual_fetch(const struct store *store, struct fetch *fetch)
{
    relays_fetch(virtual_of(store)->relays, fetch);
}

enum status virtual_relays_new(struct virtual_store *virtual, struct error *err)
{
    return relays_new("virtual", &virtual->store, sizeof(struct value_relay), begin,
                      &virtual->relays, err);
}

static void stop_store(const struct store *store)
{
    if (store->operations->fetch_stop)
        store->operations->fetch_stop(store);
}

/* Ends what waits for other stores first: the relays' threads may, too. */
void virtual_fetch_stop(const struct store *store)
{
    struct virtual_store *virtual = virtual_of(store);
    if (!virtual->relays)
        return;
    relays_stop(virtual->relays);
    if (virtual->base)
        stop_store(virtual->base);
    for (size_t i = 0; i < virtual->prefix_count; i++)
        stop_store(virtual->prefixes[i].store);
    relays_join(virtual->relays);
}
