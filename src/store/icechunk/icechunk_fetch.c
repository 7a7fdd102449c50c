/* Fetches of an Icechunk repository of which anything is behind a network. A fetch of a chunk
 * becomes a fetch of a range of the object that has the chunk. What has to wait first, for a
 * manifest or for a file, is done by threads of this room, so that fetch_start() does not block.
 *
 *     icechunk_fetch() --> manifest in memory --> relay --> the other store --> done()
 *                   \--> queue --> loaders, which read the manifest ^
 */
#include "store/icechunk/icechunk_internal.h"

#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* A fetch of the other store's. */
struct relay {
    struct fetch fetch;
    struct fetch *outer; /* borrowed until its done() */
    struct icechunk *icechunk;
    struct relay *next; /* free ones */
    struct chunk_ref ref;
    char key[ICECHUNK_KEY_BYTES];
};

struct icechunk_fetches {
    struct icechunk *icechunk;
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct relay *free;          /* owned */
    struct fetch *first, **last; /* the queue; by own.next */
    bool stopping;
    pthread_t threads[ICECHUNK_LOADS];
    size_t thread_count;
};

static void finish(struct fetch *fetch, enum status status)
{
    fetch->status = status;
    fetch->done(fetch);
}

/* Relays
 * ---------------------------------------------------------------------------------------------- */

static struct relay *take_relay(struct icechunk_fetches *fetches)
{
    pthread_mutex_lock(&fetches->mutex);
    struct relay *relay = fetches->free;
    if (relay)
        fetches->free = relay->next;
    pthread_mutex_unlock(&fetches->mutex);
    return relay ? relay : malloc(sizeof *relay);
}

static void put_relay(struct icechunk_fetches *fetches, struct relay *relay)
{
    pthread_mutex_lock(&fetches->mutex);
    relay->next = fetches->free;
    fetches->free = relay;
    pthread_mutex_unlock(&fetches->mutex);
}

static void on_done(struct fetch *fetch)
{
    struct relay *relay = fetch->argument;
    struct fetch *outer = relay->outer;
    enum status status = fetch->status;
    if (status != STATUS_OK) {
        outer->error = fetch->error;
        status = icechunk_explain(&relay->ref, status, &outer->error);
        status = error_prefix(&outer->error, status, "'%s': chunk '%s': ", relay->icechunk->uri,
                              outer->key);
    }
    put_relay(relay->icechunk->fetches, relay);
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

/* Starts a relay for a chunk in an object; or reads the object here, of a store that is not remote,
 * if the caller may wait. False: the caller may not, and has to. */
static bool send(struct icechunk *icechunk, struct fetch *fetch, const struct chunk_ref *ref,
                 uint64_t offset, size_t size, bool may_wait)
{
    const struct store *store;
    struct relay *relay = take_relay(icechunk->fetches);
    enum status status =
        relay ? icechunk_object(icechunk, ref, &store, relay->key, &fetch->error)
              : error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
    if (status == STATUS_OK && store->operations->fetch) {
        relay->outer = fetch;
        relay->icechunk = icechunk;
        relay->ref = *ref;
        relay->fetch = (struct fetch){.kind = FETCH_RANGE,
                                      .key = relay->key,
                                      .offset = ref->offset + offset,
                                      .size = size,
                                      .buffer = fetch->buffer,
                                      .done = on_done,
                                      .argument = relay,
                                      .etag = relay->ref.etag,
                                      .modified_s = ref->etag[0] ? 0 : ref->modified_s};
        relay->fetch.own.store = store;
        store->operations->fetch(store, &relay->fetch);
        return true;
    }
    if (relay)
        put_relay(icechunk->fetches, relay);
    if (status == STATUS_OK && !may_wait)
        return false;
    if (status == STATUS_OK)
        status = icechunk_read_object(
            icechunk, ref, &(struct store_range){offset, size, fetch->buffer}, 1, &fetch->error);
    if (status != STATUS_OK)
        status =
            error_prefix(&fetch->error, status, "'%s': chunk '%s': ", icechunk->uri, fetch->key);
    finish(fetch, status);
    return true;
}

/* A value whose bytes are here, or that has an error. */
static void give(struct fetch *fetch, const unsigned char *bytes, uint64_t length, uint64_t version)
{
    uint64_t offset;
    size_t size;
    enum status status = choose_piece(fetch, length, &offset, &size);
    fetch->version = version;
    if (status == STATUS_OK && size > 0)
        memcpy(fetch->buffer, bytes + offset, size);
    finish(fetch, status);
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
        enum status status = choose_piece(fetch, ref.length, &offset, &size);
        if (status == STATUS_OK && size > 0)
            memcpy(fetch->buffer, ref.bytes + offset, size);
        icechunk_let_go(icechunk, chunk);
        fetch->version = version;
        finish(fetch, status);
        return true;
    }
    icechunk_let_go(icechunk, chunk);
    enum status status = choose_piece(fetch, ref.length, &offset, &size);
    fetch->version = version;
    if (status == STATUS_OK && size > 0)
        return send(icechunk, fetch, &ref, offset, size, may_wait);
    finish(fetch, status);
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
        finish(fetch, error_set(&fetch->error, STATUS_NOT_FOUND, "'%s' has no '%s'", icechunk->uri,
                                fetch->key));
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
    finish(fetch, status);
    return true;
}

/* Loaders
 * ---------------------------------------------------------------------------------------------- */

static void *run_loader(void *argument)
{
    struct icechunk_fetches *fetches = argument;
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
                                    fetches->icechunk->uri));
        else
            (void)begin(fetches->icechunk, fetch, true);
        pthread_mutex_lock(&fetches->mutex);
    }
    pthread_mutex_unlock(&fetches->mutex);
    return NULL;
}

void icechunk_fetch(const struct store *store, struct fetch *fetch)
{
    struct icechunk *icechunk = icechunk_of(store);
    struct icechunk_fetches *fetches = icechunk->fetches;
    fetch->got = 0;
    fetch->total = fetch->version = 0;
    fetch->encoded = false;
    fetch->own.next = NULL;
    pthread_mutex_lock(&fetches->mutex);
    bool stopping = fetches->stopping;
    pthread_mutex_unlock(&fetches->mutex);
    if (stopping) {
        finish(fetch,
               error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped", icechunk->uri));
        return;
    }
    if (begin(icechunk, fetch, false))
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
               error_set(&fetch->error, STATUS_LOST, "'%s': the store was stopped", icechunk->uri));
}

enum status icechunk_fetches_new(struct icechunk *icechunk, struct error *err)
{
    struct icechunk_fetches *fetches = calloc(1, sizeof *fetches);
    if (!fetches)
        return error_set(err, STATUS_NO_MEMORY, "no memory for requests");
    pthread_mutex_init(&fetches->mutex, NULL);
    pthread_cond_init(&fetches->work, NULL);
    fetches->icechunk = icechunk;
    fetches->last = &fetches->first;
    icechunk->fetches = fetches;
    while (fetches->thread_count < ICECHUNK_LOADS &&
           thread_start("icechunk", run_loader, fetches, &fetches->threads[fetches->thread_count]))
        fetches->thread_count++;
    return fetches->thread_count > 0
               ? STATUS_OK
               : error_set(err, STATUS_IO, "no thread to read an Icechunk repository's manifests");
}

static void stop_store(const struct store *store)
{
    if (store->operations->fetch_stop)
        store->operations->fetch_stop(store);
}

/* Ends what waits for other stores first: loaders may, too. */
void icechunk_fetch_stop(const struct store *store)
{
    struct icechunk *icechunk = icechunk_of(store);
    struct icechunk_fetches *fetches = icechunk->fetches;
    if (!fetches)
        return;
    pthread_mutex_lock(&fetches->mutex);
    fetches->stopping = true;
    pthread_cond_broadcast(&fetches->work);
    pthread_mutex_unlock(&fetches->mutex);
    stop_store(icechunk->base);
    for (size_t i = 0; i < icechunk->prefix_count; i++)
        stop_store(icechunk->prefixes[i].store);
    for (size_t i = 0; i < fetches->thread_count; i++)
        pthread_join(fetches->threads[i], NULL);
    fetches->thread_count = 0;
}

void icechunk_fetches_free(struct icechunk_fetches *fetches)
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
