/* Fetches of a zip archive behind a network (kind/relay.h). A fetch of a stored entry becomes a
 * fetch of a range of the archive. Where an entry begins is told by the directory as a rule
 * (zip_settle_entries()): if not, its local header is read first, by the relays' threads. They also
 * read what is deflated: whole, in memory that inflated.h counts.
 *
 *     zip_fetch() --> stored, its place known --> relay --> the remote store --> done()
 *                \--> queue --> threads, which read its header or inflate it ^
 */
#include "store/zip/zip_internal.h"

/* A fetch of the remote store's. */
struct entry_relay {
    struct relay relay;
    const struct zip *zip;
    const struct zip_entry *entry;
};

static enum status explain(const struct zip *zip, const struct fetch *fetch, enum status status,
                           struct error *err)
{
    return error_prefix(err, status, "'%s' in '%s': ", fetch->key, zip->path);
}

static void on_done(struct fetch *fetch)
{
    struct entry_relay *relay = fetch->argument;
    const struct zip *zip = relay->zip;
    struct fetch *outer = relay->relay.outer;
    enum status status = zip_judge(zip, fetch, &outer->error);
    if (status != STATUS_OK)
        status = explain(zip, outer, status, &outer->error);
    else if (outer->kind == FETCH_WHOLE)
        status = zip_check(zip, outer->key, relay->entry, outer->buffer, &outer->error);
    relay_put(zip->relays, &relay->relay);
    relay_finish(outer, status);
}

static void send(const struct zip *zip, const struct zip_entry *entry, struct fetch *fetch,
                 uint64_t offset, size_t size)
{
    struct entry_relay *relay = (struct entry_relay *)relay_take(zip->relays);
    if (!relay) {
        relay_finish(fetch, error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request"));
        return;
    }
    relay->zip = zip;
    relay->entry = entry;
    relay->relay.outer = fetch;
    relay->relay.fetch = zip_ask(zip, offset, size, fetch->buffer);
    relay->relay.fetch.done = on_done;
    relay->relay.fetch.argument = relay;
    relay->relay.fetch.own.store = zip->base;
    zip->base->operations->fetch(zip->base, &relay->relay.fetch);
}

/* What is deflated: the value, or a piece of it. Waits. */
static void inflate(const struct zip *zip, struct fetch *fetch, uint64_t offset, size_t size)
{
    struct store_range range = {offset, size, fetch->buffer};
    enum status status =
        fetch->kind == FETCH_WHOLE
            ? zip_get(&zip->store, fetch->key, NULL, fetch->buffer, fetch->capacity, &size,
                      &fetch->error)
            : zip_get_ranges(&zip->store, fetch->key, &range, 1, STORE_ANY_TOTAL, &fetch->error);
    relay_finish(fetch, status);
}

/* False: it has to wait, and may not. */
static bool begin(const struct store *store, struct fetch *fetch, bool may_wait)
{
    const struct zip *zip = zip_of(store);
    struct zip_entry *entry;
    uint64_t piece = 0, data = 0;
    size_t size = 0;
    enum status status = zip_find_entry(zip, fetch->key, &entry, &fetch->error);
    if (status == STATUS_OK) {
        status = relay_choose(fetch, entry->bytes, &piece, &size);
        if (status != STATUS_OK)
            status = explain(zip, fetch, status, &fetch->error);
        else if (fetch->kind == FETCH_STAT)
            fetch->version = zip_content(entry);
    }
    if (status == STATUS_OK && size > 0 && entry->method == ZIP_DEFLATED) {
        if (may_wait)
            inflate(zip, fetch, piece, size);
        return may_wait;
    }
    if (status == STATUS_OK && size > 0)
        status = zip_find_data(zip, fetch->key, entry, may_wait, &data, &fetch->error);
    if (status != STATUS_OK || size == 0)
        relay_finish(fetch, status);
    else if (data > 0)
        send(zip, entry, fetch, data + piece, size);
    return status != STATUS_OK || size == 0 || data > 0;
}

void zip_fetch(const struct store *store, struct fetch *fetch)
{
    relays_fetch(zip_of(store)->relays, fetch);
}

enum status zip_relays_new(struct zip *zip, struct error *err)
{
    return relays_new("zip", &zip->store, sizeof(struct entry_relay), begin, &zip->relays, err);
}

/* Ends what waits for the remote store first: the relays' threads may, too. */
void zip_fetch_stop(const struct store *store)
{
    struct zip *zip = zip_of(store);
    if (!zip->relays)
        return;
    relays_stop(zip->relays);
    zip->base->operations->fetch_stop(zip->base);
    relays_join(zip->relays);
}
