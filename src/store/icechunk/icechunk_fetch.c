/* Fetches of an Icechunk repository of which anything is behind a network (kind/relay.h). A fetch
 * of a chunk becomes a fetch of a range of the object that has the chunk. What has to wait first,
 * for a manifest or for a file, is done by the relays' threads.
 *
 *     icechunk_fetch() --> manifest in memory --> relay --> the other store --> done()
 *                   \--> queue --> threads, which read the manifest ^
 */
#include "store/icechunk/icechunk_internal.h"

#include <string.h>

/* A fetch of the other store's. */
struct chunk_relay {
    struct relay relay;
    struct icechunk *icechunk;
    struct chunk_ref ref;
    char key[ICECHUNK_KEY_BYTES];
};

static void on_done(struct fetch *fetch)
{
    struct chunk_relay *relay = fetch->argument;
    struct fetch *outer = relay->relay.outer;
    enum status status = fetch->status;
    if (status != STATUS_OK) {
        outer->error = fetch->error;
        status = icechunk_explain(&relay->ref, status, &outer->error);
        status = error_prefix(&outer->error, status, "'%s': chunk '%s': ", relay->icechunk->uri,
                              outer->key);
    }
    relay_put(relay->icechunk->relays, &relay->relay);
    relay_finish(outer, status);
}

/* Starts a relay for a chunk in an object; or reads the object here, of a store that is not remote,
 * if the caller may wait. False: the caller may not, and has to. */
static bool send(struct icechunk *icechunk, struct fetch *fetch, const struct chunk_ref *ref,
                 uint64_t offset, size_t size, bool may_wait)
{
    const struct store *store;
    struct chunk_relay *relay = (struct chunk_relay *)relay_take(icechunk->relays);
    enum status status =
        relay ? icechunk_object(icechunk, ref, &store, relay->key, &fetch->error)
              : error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
    if (status == STATUS_OK && store->operations->fetch) {
        relay->relay.outer = fetch;
        relay->icechunk = icechunk;
        relay->ref = *ref;
        relay->relay.fetch = (struct fetch){.kind = FETCH_RANGE,
                                            .key = relay->key,
                                            .offset = ref->offset + offset,
                                            .size = size,
                                            .buffer = fetch->buffer,
                                            .done = on_done,
                                            .argument = relay,
                                            .etag = relay->ref.etag,
                                            .modified_s = ref->etag[0] ? 0 : ref->modified_s};
        relay->relay.fetch.own.store = store;
        store->operations->fetch(store, &relay->relay.fetch);
        return true;
    }
    if (relay)
        relay_put(icechunk->relays, &relay->relay);
    if (status == STATUS_OK && !may_wait)
        return false;
    if (status == STATUS_OK)
        status = icechunk_read_object(icechunk, ref, offset, size, fetch->buffer, &fetch->error);
    if (status != STATUS_OK)
        status =
            error_prefix(&fetch->error, status, "'%s': chunk '%s': ", icechunk->uri, fetch->key);
    relay_finish(fetch, status);
    return true;
}

/* A value whose bytes are here, or that has an error. */
static void give(struct fetch *fetch, const unsigned char *bytes, uint64_t length, uint64_t version)
{
    uint64_t offset;
    size_t size;
    enum status status = relay_choose(fetch, length, &offset, &size);
    fetch->version = version;
    if (status == STATUS_OK && size > 0)
        memcpy(fetch->buffer, bytes + offset, size);
    relay_finish(fetch, status);
}

/* Gives what was found; false as of send(). */
static bool give_chunk(struct icechunk *icechunk, struct fetch *fetch, struct icechunk_chunk *chunk,
                       bool may_wait)
{
    uint64_t offset;
    size_t size;
    struct chunk_ref ref = chunk->ref;
    uint64_t version = fetch->kind == FETCH_STAT ? icechunk_content(&ref) : 0;
    if (ref.kind == CHUNK_INLINE) { /* done() may read others, with nothing pinned */
        enum status status = relay_choose(fetch, ref.length, &offset, &size);
        if (status == STATUS_OK && size > 0)
            memcpy(fetch->buffer, ref.bytes + offset, size);
        icechunk_let_go(icechunk, chunk);
        fetch->version = version;
        relay_finish(fetch, status);
        return true;
    }
    icechunk_let_go(icechunk, chunk);
    enum status status = relay_choose(fetch, ref.length, &offset, &size);
    fetch->version = version;
    if (status == STATUS_OK && size > 0)
        return send(icechunk, fetch, &ref, offset, size, may_wait);
    relay_finish(fetch, status);
    return true;
}

/* False: it has to wait, and may not. */
static bool begin(struct icechunk *icechunk, struct fetch *fetch, bool may_wait)
{
    struct icechunk_key key;
    struct icechunk_chunk chunk = {0};
    bool absent = false;
    icechunk_read_key(icechunk, fetch->key, &key);
    if (!key.node) {
        relay_finish(fetch, error_set(&fetch->error, STATUS_NOT_FOUND, "'%s' has no '%s'",
                                      icechunk->uri, fetch->key));
        return true;
    }
    if (key.is_document) {
        give(fetch, key.node->document, key.node->document_bytes, key.node->document_bytes);
        return true;
    }
    enum status status =
        icechunk_find(icechunk, &key, may_wait, may_wait ? NULL : &absent, &chunk, &fetch->error);
    if (status == STATUS_OK && absent)
        return false;
    if (status == STATUS_OK)
        return give_chunk(icechunk, fetch, &chunk, may_wait);
    if (status != STATUS_NOT_FOUND)
        status =
            error_prefix(&fetch->error, status, "'%s': chunk '%s': ", icechunk->uri, fetch->key);
    relay_finish(fetch, status);
    return true;
}

static void answer(const struct store *store, struct fetch *fetch)
{
    (void)begin(icechunk_of(store), fetch, true);
}

void icechunk_fetch(const struct store *store, struct fetch *fetch)
{
    struct icechunk *icechunk = icechunk_of(store);
    if (relays_begin(icechunk->relays, fetch) && !begin(icechunk, fetch, false))
        relays_queue(icechunk->relays, fetch);
}

enum status icechunk_relays_new(struct icechunk *icechunk, struct error *err)
{
    return relays_new("icechunk", &icechunk->store, sizeof(struct chunk_relay), answer,
                      &icechunk->relays, err);
}

static void stop_store(const struct store *store)
{
    if (store->operations->fetch_stop)
        store->operations->fetch_stop(store);
}

/* Ends what waits for other stores first: the relays' threads may, too. */
void icechunk_fetch_stop(const struct store *store)
{
    struct icechunk *icechunk = icechunk_of(store);
    if (!icechunk->relays)
        return;
    relays_stop(icechunk->relays);
    stop_store(icechunk->base);
    for (size_t i = 0; i < icechunk->prefix_count; i++)
        stop_store(icechunk->prefixes[i].store);
    relays_join(icechunk->relays);
}
