/* Fetches of a store of which anything is behind a network. A fetch of a value becomes a fetch of
 * the object, or the range of it, that has the value. What has to wait first, for the list or for a
 * file, is done by threads of this room, so that fetch_start() does not block.
 *
 *     virtual_fetch() --> list in memory --> relay --> the other store --> done()
 *                  \--> queue --> loaders, which read the list ^
 */
#include "store/virtual/virtual.h"

#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* A fetch of the other store's. */
struct relay {
    struct fetch fetch;
    struct fetch *outer; /* borrowed until its done() */
    struct virtual_store *store;
    struct relay *next; /* free ones */
    struct virtual_value value;
    char key[VIRTUAL_LOCATION_BYTES];
};

struct virtual_fetches {
    struct virtual_store *store;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct relay *free;          /* owned */
    struct fetch *first, **last; /* the queue; by own.next */
    bool stopping;
    pthread_t threads[VIRTUAL_LOADERS];
    size_t thread_count;
};

static void finish(struct fetch *fetch, enum status status)
{
    fetch->status = status;
    fetch->done(fetch);
}

/* Relays
 * ---------------------------------------------------------------------------------------------- */

static struct relay *take_relay(struct virtual_fetches *fetches)
{
    pthread_mutex_lock(&fetches->mutex);
    struct relay *relay = fetches->free;
    if (relay)
        fetches->free = relay->next;
    pthread_mutex_unlock(&fetches->mutex);
    return relay ? relay : malloc(sizeof *relay);
}

static void put_relay(struct virtual_fetches *fetches, struct relay *relay)
{
    pthread_mutex_lock(&fetches->mutex);
    relay->next = fetches->free;
    fetches->free = relay;
    pthread_mutex_unlock(&fetches->mutex);
}

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
    struct relay *relay = fetch->argument;
    struct fetch *outer = relay->outer;
    enum status status = fetch->status;
    if (relay->value.is_whole)
        pass_results(fetch, outer);
    if (status != STATUS_OK) {
        outer->error = fetch->error;
        status = virtual_explain(relay->store, &relay->value, status, &outer->error);
        status = tell(relay->store, outer, status);
    }
    put_relay(relay->store->fetches, relay);
    finish(outer, status);
}

/* Which piece of the value is wanted: sets the fetch's results as if it had been read. */
static enum status choose_piece(struct fetch *fetch, uint64_t length, uint64_t *ret_offset,
                                size_t *ret_size)
{
    fetch->total = length;
    *ret_offset = 0;
    *ret_size = 0;
    switch (fetch->kind) {
    case FETCH_WHOLE:
        if (length > fetch->capacity)
            return error_set(&fetch->error, STATUS_CORRUPT,
                             "it has %llu bytes, at most %zu can be right",
                             (unsigned long long)length, fetch->capacity);
        *ret_size = length;
        break;
    case FETCH_RANGE:
        *ret_offset = fetch->offset;
        *ret_size = fetch->size;
        break;
    case FETCH_SUFFIX:
        *ret_offset = length - (fetch->size <= length ? fetch->size : length);
        *ret_size = fetch->size;
        break;
    default:
        return STATUS_OK;
    }
    if (*ret_offset > length || *ret_size > length - *ret_offset)
        return error_set(&fetch->error, STATUS_CORRUPT,
                         "it has %llu bytes, more are needed: it was cut short",
                         (unsigned long long)length);
    fetch->got = *ret_size;
    return STATUS_OK;
}

/* What the other store is asked for: the same of a whole object, else a range. */
static struct fetch make_inner(struct relay *relay, uint64_t offset, size_t size)
{
    const struct virtual_value *value = &relay->value;
    const struct fetch *outer = relay->outer;
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

static void start_relay(struct relay *relay, const struct store *store, uint64_t offset,
                        size_t size)
{
    relay->fetch = make_inner(relay, offset, size);
    relay->fetch.key = relay->key;
    relay->fetch.buffer = relay->outer->buffer;
    relay->fetch.done = on_done;
    relay->fetch.argument = relay;
    relay->fetch.own.store = store;
    store->operations->fetch(store, &relay->fetch);
}

/* Starts a relay for a value in an object; or reads the object here, of a store that is not remote,
 * if the caller may wait. False: the caller may not, and has to. */
static bool send(struct virtual_store *virtual, struct fetch *fetch,
                 const struct virtual_value *value, uint64_t offset, size_t size, bool may_wait)
{
    const struct store *store;
    struct relay *relay = take_relay(virtual->fetches);
    enum status status =
        relay ? virtual_object(virtual, value, &store, relay->key, &fetch->error)
              : error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
    if (status == STATUS_OK && store->operations->fetch) {
        relay->outer = fetch;
        relay->store = virtual;
        relay->value = *value;
        start_relay(relay, store, offset, size);
        return true;
    }
    if (relay)
        put_relay(virtual->fetches, relay);
    if (status == STATUS_OK && !may_wait)
        return false;
    if (status == STATUS_OK)
        status = value->is_whole
                     ? virtual_read_whole(virtual, value, fetch, &fetch->error)
                     : virtual_read_object(virtual, value,
                                           &(struct store_range){offset, size, fetch->buffer}, 1,
                                           &fetch->error);
    finish(fetch, status == STATUS_OK ? STATUS_OK : tell(virtual, fetch, status));
    return true;
}

/* Gives what was found; false as of send(). */
static bool give(struct virtual_store *virtual, struct fetch *fetch, struct virtual_value *value,
                 bool may_wait)
{
    uint64_t offset = 0;
    size_t size = 0;
    enum status status =
        value->is_whole ? STATUS_OK : choose_piece(fetch, value->length, &offset, &size);
    bool is_elsewhere = status == STATUS_OK && !value->bytes && (size > 0 || value->is_whole);
    fetch->version = value->version;
    if (status == STATUS_OK && value->bytes && size > 0)
        memcpy(fetch->buffer, value->bytes + offset, size);
    virtual_let_go(virtual, value); /* done() may read others, with nothing pinned */
    if (is_elsewhere)
        return send(virtual, fetch, value, offset, size, may_wait);
    finish(fetch, status);
    return true;
}

/* False: it has to wait, and may not. */
static bool begin(struct virtual_store *virtual, struct fetch *fetch, bool may_wait)
{
    struct virtual_value value = {0};
    bool absent = false;
    enum status status = virtual->kind->find(virtual, fetch->key, may_wait, &absent, &value,
                                             &fetch->error);
    if (status == STATUS_OK && absent)
        return false;
    if (status == STATUS_OK)
        return give(virtual, fetch, &value, may_wait);
    finish(fetch, status == STATUS_NOT_FOUND ? status : tell(virtual, fetch, status));
    return true;
}

/* Loaders
 * ---------------------------------------------------------------------------------------------- */

static void *run_loader(void *argument)
{
    struct virtual_fetches *fetches = argument;
    pthread_mutex_lock(&fetches->mutex);
    for (;;) {
        struct fetch *fetch = fetches->first;
        if (!fetch && fetches->stopping)
            break;
        if (!fetch) {
            pthread_cond_wait(&fetches->work, &fetches->mutex);
            continue;
        }
        fetches->first = fetch->own.next;
        if (!fetches->first)
            fetches->last = &fetches->first;
        bool stopping = fetches->stopping;
        pthread_mutex_unlock(&fetches->mutex);
        if (stopping)
            finish(fetch, error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped",
                                    fetches->store->uri));
        else
            (void)begin(fetches->store, fetch, true);
        pthread_mutex_lock(&fetches->mutex);
    }
    pthread_mutex_unlock(&fetches->mutex);
    return NULL;
}

void virtual_fetch(const struct store *store, struct fetch *fetch)
{
    struct virtual_store *virtual = virtual_of(store);
    struct virtual_fetches *fetches = virtual->fetches;
    fetch->got = 0;
    fetch->total = fetch->version = 0;
    fetch->encoded = false;
    fetch->own.next = NULL;
    pthread_mutex_lock(&fetches->mutex);
    bool stopping = fetches->stopping;
    pthread_mutex_unlock(&fetches->mutex);
    if (stopping) {
        finish(fetch,
               error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped", virtual->uri));
        return;
    }
    if (begin(virtual, fetch, false))
        return;
    pthread_mutex_lock(&fetches->mutex);
    stopping = fetches->stopping;
    if (!stopping) {
        *fetches->last = fetch;
        fetches->last = &fetch->own.next;
        pthread_cond_signal(&fetches->work);
    }
    pthread_mutex_unlock(&fetches->mutex);
    if (stopping)
        finish(fetch,
               error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped", virtual->uri));
}

enum status virtual_fetches_new(struct virtual_store *store, struct error *err)
{
    struct virtual_fetches *fetches = calloc(1, sizeof *fetches);
    if (!fetches)
        return error_set(err, STATUS_NO_MEMORY, "no memory for requests");
    pthread_mutex_init(&fetches->mutex, NULL);
    pthread_cond_init(&fetches->work, NULL);
    fetches->store = store;
    fetches->last = &fetches->first;
    store->fetches = fetches;
    while (fetches->thread_count < VIRTUAL_LOADERS &&
           thread_start("virtual", run_loader, fetches, &fetches->threads[fetches->thread_count]))
        fetches->thread_count++;
    return fetches->thread_count > 0 ? STATUS_OK
                                     : error_set(err, STATUS_IO, "no thread for requests");
}

static void stop_store(const struct store *store)
{
    if (store->operations->fetch_stop)
        store->operations->fetch_stop(store);
}

/* Ends what waits for other stores first: loaders may, too. */
void virtual_fetch_stop(const struct store *store)
{
    struct virtual_store *virtual = virtual_of(store);
    struct virtual_fetches *fetches = virtual->fetches;
    if (!fetches)
        return;
    pthread_mutex_lock(&fetches->mutex);
    fetches->stopping = true;
    pthread_cond_broadcast(&fetches->work);
    pthread_mutex_unlock(&fetches->mutex);
    if (virtual->base)
        stop_store(virtual->base);
    for (size_t i = 0; i < virtual->prefix_count; i++)
        stop_store(virtual->prefixes[i].store);
    for (size_t i = 0; i < fetches->thread_count; i++)
        pthread_join(fetches->threads[i], NULL);
    fetches->thread_count = 0;
}

void virtual_fetches_free(struct virtual_fetches *fetches)
{
    if (!fetches)
        return;
    while (fetches->free) {
        struct relay *next = fetches->free->next;
        free(fetches->free);
        fetches->free = next;
    }
    pthread_cond_destroy(&fetches->work);
    pthread_mutex_destroy(&fetches->mutex);
    free(fetches);
}
