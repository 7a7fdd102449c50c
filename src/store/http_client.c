/* See http_client.h and http_client_internal.h: the client's thread, and fetches that wait. */
#include "store/http_client_internal.h"

#include "base/clock.h"
#include "store/watch.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND_BYTES = 16 << 20 };
static const uint64_t second_ns = 1000000000;

/* Lists
 * ---------------------------------------------------------------------------------------------- */

void fetch_list_append(struct fetch_list *list, struct fetch *fetch)
{
    fetch->own.next = NULL;
    if (list->last)
        list->last->own.next = fetch;
    else
        list->first = fetch;
    list->last = fetch;
}

void fetch_list_prepend(struct fetch_list *list, struct fetch *fetch)
{
    fetch->own.next = list->first;
    list->first = fetch;
    if (!list->last)
        list->last = fetch;
}

struct fetch *fetch_list_take(struct fetch_list *list)
{
    struct fetch *fetch = list->first;
    list->first = fetch->own.next;
    if (!list->first)
        list->last = NULL;
    return fetch;
}

size_t http_client_expected_bytes(const struct fetch *fetch)
{
    return fetch->kind == FETCH_RANGE || fetch->kind == FETCH_TAIL ? fetch->size : fetch->capacity;
}

uint64_t http_client_deadline_ns(const struct http_client *client, const struct fetch *fetch)
{
    /* The error here says more than the watchdog's. */
    return fetch->own.start_ns + client->settings.timeout_s * second_ns / 20 * 19;
}

/* The thread
 * ---------------------------------------------------------------------------------------------- */

static bool take_incoming(struct http_client *client)
{
    pthread_mutex_lock(&client->mutex);
    struct fetch_list incoming = client->incoming;
    bool stopping = client->stopping;
    client->incoming = (struct fetch_list){0};
    pthread_mutex_unlock(&client->mutex);
    while (incoming.first)
        fetch_list_append(&client->waiting, fetch_list_take(&incoming));
    return !stopping;
}

/* Moves what has paused long enough to the front; returns when the next one is due (UINT64_MAX:
 * none). */
static uint64_t resume_paused(struct http_client *client, uint64_t now_ns)
{
    struct fetch_list paused = client->paused;
    uint64_t next_ns = UINT64_MAX;
    client->paused = (struct fetch_list){0};
    while (paused.first) {
        struct fetch *fetch = fetch_list_take(&paused);
        if (fetch->own.due_ns <= now_ns) {
            fetch_list_prepend(&client->waiting, fetch);
            continue;
        }
        fetch_list_append(&client->paused, fetch);
        if (fetch->own.due_ns < next_ns)
            next_ns = fetch->own.due_ns;
    }
    return next_ns;
}

static void start_waiting(struct http_client *client)
{
    while (client->waiting.first && client->in_flight - client->seconds < client->pace.limit) {
        struct transfer *transfer = http_client_take_transfer(client);
        if (!transfer && client->in_flight > 0)
            return; /* later */
        struct fetch *fetch = fetch_list_take(&client->waiting);
        uint64_t now_ns = clock_now_ns();
        enum status status = STATUS_NO_MEMORY;
        if (fetch->own.start_ns == 0) {
            fetch->own.start_ns = now_ns;
            fetch->own.call = store_watch_begin(client->watch, client->uri,
                                                fetch->kind == FETCH_QUERY ? "" : fetch->key);
        }
        fetch->own.tries++;
        if (transfer) {
            transfer->second = false;
            transfer->out = fetch->buffer;
            transfer->capacity = http_client_expected_bytes(fetch);
            status = http_client_send(client, transfer, fetch, now_ns, &fetch->error);
        } else {
            error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
        }
        if (status == STATUS_OK)
            fetch->own.transfer = transfer;
        else
            http_client_finish(client, fetch, status);
    }
}

static bool has_incoming(void *argument)
{
    struct http_client *client = argument;
    pthread_mutex_lock(&client->mutex);
    bool has = client->incoming.first || client->stopping;
    pthread_mutex_unlock(&client->mutex);
    return has;
}

static void end_all(struct http_client *client)
{
    for (uint32_t i = 0; i < client->transfer_count; i++) {
        struct fetch *fetch = client->transfers[i]->fetch;
        if (!fetch)
            continue;
        http_client_finish(client, fetch,
                           error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    }
    while (client->paused.first)
        fetch_list_append(&client->waiting, fetch_list_take(&client->paused));
    while (client->waiting.first) {
        struct fetch *fetch = fetch_list_take(&client->waiting);
        http_client_finish(client, fetch,
                           error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    }
}

static void *serve(void *argument)
{
    struct http_client *client = argument;
    void *transfer;
    CURLcode code;
    while (take_incoming(client)) {
        uint64_t due_ns = resume_paused(client, clock_now_ns());
        start_waiting(client);
        if (client->settings.hedge)
            http_client_hedge(client, clock_now_ns());
        uint64_t look_ns = http_client_hedge_ns(client, clock_now_ns());
        http_multi_run(&client->multi, look_ns < due_ns ? look_ns : due_ns, has_incoming, client);
        while (http_multi_next_ended(&client->multi, &transfer, &code))
            http_client_judge(client, transfer, code);
    }
    end_all(client);
    return NULL;
}

/* From outside
 * ---------------------------------------------------------------------------------------------- */

void http_client_start(struct http_client *client, struct fetch *fetch)
{
    const struct store *store = fetch->own.store;
    memset(&fetch->own, 0, sizeof fetch->own);
    fetch->own.store = store;
    fetch->got = 0;
    fetch->total = fetch->version = 0;
    pthread_mutex_lock(&client->mutex);
    bool stopping = client->stopping;
    if (!stopping)
        fetch_list_append(&client->incoming, fetch);
    pthread_mutex_unlock(&client->mutex);
    if (stopping)
        http_client_finish(client, fetch,
                           error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    else
        http_multi_wake(&client->multi);
}

enum status http_header(struct curl_slist **headers, struct error *err, const char *format, ...)
{
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    struct curl_slist *longer =
        length < (int)sizeof line ? curl_slist_append(*headers, line) : NULL;
    explicit_bzero(line, sizeof line);
    if (!longer)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a request's headers");
    *headers = longer;
    return STATUS_OK;
}

/* Signals belong to others. */
static int start_thread(struct http_client *client)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&client->thread, NULL, serve, client);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_setname_np(client->thread, "store");
    return failed;
}

static enum status set_up_client(struct http_client *client, struct error *err)
{
    client->transfer_most = client->pace.most + HTTP_MOST_SECONDS;
    client->transfers = calloc(client->transfer_most, sizeof *client->transfers);
    if (!client->transfers)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", client->uri);
    enum status status = http_multi_init(&client->multi, client->transfer_most, client->uri, err);
    if (status != STATUS_OK)
        return status;
    int failed = start_thread(client);
    if (!failed)
        return STATUS_OK;
    return error_set(err, STATUS_IO, "start a thread for '%s': %s", client->uri, strerror(failed));
}

/* Without the thread, or after it. */
static void release(struct http_client *client)
{
    for (uint32_t i = 0; i < client->transfer_count; i++)
        http_transfer_free(client->transfers[i]);
    if (client->multi.curl)
        http_multi_done(&client->multi);
    pthread_mutex_destroy(&client->mutex);
    free(client->transfers);
    free(client);
}

enum status http_client_new(const struct http_target *target, const struct store_options *options,
                            const char *uri, struct http_client **ret_client, struct error *err)
{
    struct http_client *client = calloc(1, sizeof *client);
    if (!client)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", uri);
    client->target = *target;
    client->settings = *options->settings;
    client->retries = options->retries;
    client->watch = options->watch;
    client->uri = uri;
    client->own_room = SECOND_BYTES;
    client->room = options->second_room ? options->second_room : &client->own_room;
    pthread_mutex_init(&client->mutex, NULL);
    http_pace_init(&client->pace, client->settings.requests);
    enum status status = set_up_client(client, err);
    if (status != STATUS_OK) {
        release(client);
        return status;
    }
    *ret_client = client;
    return STATUS_OK;
}

void http_client_stop(struct http_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool stopped = client->stopping;
    client->stopping = true;
    pthread_mutex_unlock(&client->mutex);
    if (stopped)
        return;
    http_multi_wake(&client->multi);
    pthread_join(client->thread, NULL);
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    http_client_stop(client);
    release(client);
}
