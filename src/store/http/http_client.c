/* See http_client.h and http_client_internal.h: the client's threads. */
#include "store/http/http_client_internal.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/number.h"
#include "base/size.h"
#include "base/thread.h"
#include "store/kind/watch.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECOND_BYTES = 16 << 20 };
static const uint64_t second_ns = 1000000000;

size_t http_client_expected_bytes(const struct fetch *fetch)
{
    return fetch->kind == FETCH_RANGE || fetch->kind == FETCH_SUFFIX ? fetch->size
                                                                     : fetch->capacity;
}

uint64_t http_client_deadline_ns(const struct http_client *client, const struct fetch *fetch)
{
    /* The error here says more than the watchdog's. */
    return fetch->own.start_ns + client->settings.timeout_s * second_ns / 20 * 19;
}

/* A thread
 * ---------------------------------------------------------------------------------------------- */

/* Moves what has paused long enough to the front. */
static void resume_paused(struct http_thread *thread, uint64_t now_ns)
{
    struct fetch_list paused = thread->paused;
    thread->paused = (struct fetch_list){0};
    while (paused.first) {
        struct fetch *fetch = fetch_list_take(&paused);
        if (fetch->own.due_ns <= now_ns)
            http_client_push_first(thread->client, fetch);
        else
            fetch_list_append(&thread->paused, fetch);
    }
}

/* When the next paused fetch is due; UINT64_MAX: there is none. */
static uint64_t next_due_ns(const struct http_thread *thread)
{
    uint64_t next_ns = UINT64_MAX;
    for (const struct fetch *fetch = thread->paused.first; fetch; fetch = fetch->own.next)
        next_ns = fetch->own.due_ns < next_ns ? fetch->own.due_ns : next_ns;
    return next_ns;
}

/* Sends a fetch's request on a transfer; NULL: there is no memory for one. */
static void start_fetch(struct http_thread *thread, struct fetch *fetch, struct transfer *transfer)
{
    struct http_client *client = thread->client;
    uint64_t now_ns = clock_now_ns();
    enum status status = STATUS_NO_MEMORY;
    if (fetch->own.start_ns == 0) {
        fetch->own.start_ns = now_ns;
        fetch->own.call = store_watch_begin(client->watch, client->uri,
                                            fetch->kind == FETCH_QUERY ? "" : fetch->key);
        http_redirects_use(&client->redirects, fetch);
    }
    fetch->own.tries++;
    if (transfer) {
        transfer->second = false;
        transfer->out = fetch->buffer;
        transfer->capacity = http_client_expected_bytes(fetch);
        status = http_client_send(transfer, fetch, now_ns, &fetch->error);
    } else {
        error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
    }
    if (status == STATUS_OK) {
        fetch->own.transfer = transfer;
        return;
    }
    http_client_let_go(thread);
    if (status == STATUS_IO) /* credentials cannot be had now */
        http_client_again(thread, fetch, HTTP_AGAIN, 0);
    else
        http_client_finish(client, fetch, status);
}

static void start_waiting(struct http_thread *thread)
{
    for (;;) {
        struct transfer *transfer = http_client_take_transfer(thread);
        if (!transfer && thread->busy > 0)
            return; /* later */
        struct fetch *fetch = http_client_take(thread);
        if (!fetch) {
            if (transfer)
                http_client_put_transfer(transfer);
            return;
        }
        start_fetch(thread, fetch, transfer);
    }
}

static bool has_work(void *argument)
{
    bool stopping;
    return http_client_has_work(argument, &stopping);
}

static bool is_stopping(struct http_thread *thread)
{
    bool stopping;
    (void)http_client_has_work(thread, &stopping);
    return stopping;
}

static void end_fetch(struct http_client *client, struct fetch *fetch)
{
    http_client_finish(client, fetch,
                       error_set(&fetch->error, STATUS_LOST, "the store was closed"));
}

static void end_all(struct http_thread *thread)
{
    for (uint32_t i = 0; i < thread->transfer_count; i++)
        if (thread->transfers[i]->fetch)
            end_fetch(thread->client, thread->transfers[i]->fetch);
    while (thread->paused.first)
        end_fetch(thread->client, fetch_list_take(&thread->paused));
    for (struct fetch *fetch; (fetch = http_client_drain(thread->client));)
        end_fetch(thread->client, fetch);
}

static void *serve(void *argument)
{
    struct http_thread *thread = argument;
    void *transfer;
    CURLcode code;
    while (!is_stopping(thread)) {
        resume_paused(thread, clock_now_ns());
        start_waiting(thread); /* which may pause some, too */
        uint64_t due_ns = next_due_ns(thread);
        http_client_wake_another(thread);
        if (thread->client->settings.hedge)
            http_client_hedge(thread, clock_now_ns());
        uint64_t look_ns = http_client_hedge_ns(thread, clock_now_ns());
        http_multi_run(&thread->multi, look_ns < due_ns ? look_ns : due_ns, has_work, thread);
        while (http_multi_next_ended(&thread->multi, &transfer, &code))
            http_client_judge(transfer, code);
    }
    end_all(thread);
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
    fetch->all = false;
    if (client->target.no_end && fetch->kind == FETCH_SUFFIX) {
        fetch->own.ends = true;
        fetch->kind = FETCH_STAT;
    }
    if (!http_client_push(client, fetch))
        end_fetch(client, fetch);
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

void http_headers_forget(struct curl_slist *headers)
{
    for (struct curl_slist *line = headers; line; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(headers);
}

/* Decrypting takes a core for about two gigabytes a second: a thread for every two cores, but not
 * many, since decoding takes more. Without that, one thread is enough. */
static uint32_t choose_thread_count(const struct http_client *client)
{
    enum { MOST_THREADS = 4 };
    if (client->settings.threads > 0)
        return client->settings.threads;
    return client->target.encrypts ? min_u32((cpu_count() + 1) / 2, MOST_THREADS) : 1;
}

static enum status set_up_thread(struct http_client *client, struct http_thread *thread,
                                 struct error *err)
{
    thread->client = client;
    thread->transfer_most =
        (uint32_t)size_divide_up(client->pace.most, client->thread_count) + HTTP_MOST_SECONDS;
    thread->transfers = calloc(thread->transfer_most, sizeof *thread->transfers);
    if (!thread->transfers)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", client->uri);
    return http_multi_init(&thread->multi, thread->transfer_most, client->uri, err);
}

/* All threads are there before the first runs: each may wake any. */
static enum status set_up_client(struct http_client *client, struct error *err)
{
    uint32_t count = choose_thread_count(client);
    enum status status = STATUS_OK;
    client->threads = calloc(count, sizeof *client->threads);
    if (!client->threads)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", client->uri);
    client->thread_count = count;
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = set_up_thread(client, &client->threads[i], err);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        struct http_thread *thread = &client->threads[i];
        thread->is_started = thread_start("store", serve, thread, &thread->thread);
        if (!thread->is_started)
            status = error_set_errno(err, STATUS_IO, "start a thread for '%s'", client->uri);
    }
    return status;
}

/* Without the threads, or after them. */
static void release(struct http_client *client)
{
    for (uint32_t i = 0; i < client->thread_count; i++) {
        struct http_thread *thread = &client->threads[i];
        for (uint32_t j = 0; j < thread->transfer_count; j++)
            http_transfer_free(thread->transfers[j]);
        if (thread->multi.curl)
            http_multi_done(&thread->multi);
        free(thread->transfers);
    }
    http_redirects_done(&client->redirects);
    pthread_mutex_destroy(&client->mutex);
    free(client->threads);
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
    http_redirects_init(&client->redirects);
    http_pace_init(&client->pace, client->settings.requests);
    enum status status = set_up_client(client, err);
    if (status != STATUS_OK) {
        http_client_free(client);
        return status;
    }
    *ret_client = client;
    return STATUS_OK;
}

void http_client_stop(struct http_client *client)
{
    pthread_mutex_lock(&client->mutex);
    client->stopping = true;
    pthread_mutex_unlock(&client->mutex);
    for (uint32_t i = 0; i < client->thread_count; i++) {
        struct http_thread *thread = &client->threads[i];
        if (!thread->is_started)
            continue;
        http_multi_wake(&thread->multi);
        pthread_join(thread->thread, NULL);
        thread->is_started = false;
    }
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    http_client_stop(client);
    release(client);
}
