/* See http_client.h.
 *
 * Everything but the list of incoming fetches belongs to the client's thread. A fetch is in one of
 * three lists: `waiting` (in order), `paused` (until its due time) or in flight, on one transfer
 * or two. Transfers (http_transfer.h) are made as they are needed and used again. The second of a
 * late fetch writes to memory of its own, which is copied if it is the first to have a good answer,
 * so that two answers never mix.
 *
 *     start() --incoming--> waiting --> transfer --> done()
 *                              ^           |
 *                              +-- paused <+
 */
#include "store/http_client.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/waker.h"
#include "store/http_pace.h"
#include "store/http_transfer.h"
#include "store/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    SECONDS_AT_ONCE = 8, /* second transfers beyond the limit */
    SECOND_BYTES = 16 << 20,
    LOOK_MS = 10,  /* for late transfers */
    SILENT_S = 10, /* without a byte: long, whatever others took */
    EVENTS = 64,
};
static const uint64_t ms_ns = 1000000, second_ns = 1000000000;

struct list {
    struct fetch *first, *last;
};

struct http_client {
    struct http_target target;
    struct store_settings settings;
    uint32_t retries;
    struct store_watch *watch; /* NULL: none */
    const char *uri;           /* borrowed, for the watch */
    pthread_t thread;
    struct waker waker;
    pthread_mutex_t mutex; /* of the next two */
    struct list incoming;
    bool stopping;

    int epoll_fd;
    CURLM *multi;
    uint64_t timer_ns; /* when curl wants to be called; 0: not */
    struct list waiting, paused;
    struct pace pace;
    struct transfer **transfers;
    struct transfer *first_free;
    uint32_t transfer_count, transfer_most, in_flight, seconds;
    uint64_t looked_ns;
    bool no_head;                    /* the server refuses HEAD, and answers GET */
    _Atomic int64_t own_room, *room; /* for values that are asked for twice, bytes that are left */
};

/* Lists
 * ---------------------------------------------------------------------------------------------- */

static void append(struct list *list, struct fetch *fetch)
{
    fetch->own.next = NULL;
    if (list->last)
        list->last->own.next = fetch;
    else
        list->first = fetch;
    list->last = fetch;
}

static void prepend(struct list *list, struct fetch *fetch)
{
    fetch->own.next = list->first;
    list->first = fetch;
    if (!list->last)
        list->last = fetch;
}

static struct fetch *take_first(struct list *list)
{
    struct fetch *fetch = list->first;
    list->first = fetch->own.next;
    if (!list->first)
        list->last = NULL;
    return fetch;
}

/* What a value may have, for telling sizes apart before they are known. */
static size_t expected_bytes(const struct fetch *fetch)
{
    return fetch->kind == FETCH_RANGE || fetch->kind == FETCH_TAIL ? fetch->size : fetch->capacity;
}

static uint64_t deadline_of(const struct http_client *client, const struct fetch *fetch)
{
    /* A little before the watchdog ends the run: the error here says more. */
    return fetch->own.start_ns + client->settings.timeout_s * second_ns / 20 * 19;
}

/* Transfers
 * ---------------------------------------------------------------------------------------------- */

/* A transfer that is free, or a new one; NULL when there is no memory, or too many. */
static struct transfer *take_transfer(struct http_client *client)
{
    struct transfer *transfer = client->first_free;
    if (transfer) {
        client->first_free = transfer->next_free;
        return transfer;
    }
    if (client->transfer_count == client->transfer_most)
        return NULL;
    transfer = http_transfer_new(&client->settings);
    if (!transfer)
        return NULL;
    client->transfers[client->transfer_count++] = transfer;
    return transfer;
}

static void put_back(struct http_client *client, struct transfer *transfer)
{
    transfer->next_free = client->first_free;
    client->first_free = transfer;
}

/* Takes the transfer off its fetch, ended or not. */
static void give_transfer(struct http_client *client, struct transfer *transfer)
{
    struct fetch *fetch = transfer->fetch;
    curl_multi_remove_handle(client->multi, transfer->easy);
    if (transfer->second) {
        free(transfer->out);
        atomic_fetch_add(client->room, (int64_t)transfer->capacity);
        client->seconds--;
        fetch->own.second = NULL;
    } else {
        fetch->own.transfer = NULL;
    }
    http_transfer_end(transfer);
    put_back(client, transfer);
    client->in_flight--;
}

/* Sends a fetch's request on a transfer whose `out` is set. */
static enum status send_request(struct http_client *client, struct transfer *transfer,
                                struct fetch *fetch, uint64_t now_ns, struct error *err)
{
    uint64_t deadline_ns = deadline_of(client, fetch);
    transfer->start_ns = now_ns;
    if (fetch->kind == FETCH_STAT && client->no_head)
        fetch->own.form |= HTTP_FORM_GET;
    enum status status = http_transfer_begin(
        transfer, &client->target, fetch, deadline_ns > now_ns ? deadline_ns - now_ns : ms_ns, err);
    if (status == STATUS_OK && curl_multi_add_handle(client->multi, transfer->easy) != CURLM_OK) {
        status =
            error_set(err, STATUS_NO_MEMORY, "'%s': no memory for the request", transfer->url.data);
        http_transfer_end(transfer);
    }
    if (status != STATUS_OK) {
        put_back(client, transfer);
        return status;
    }
    client->in_flight++;
    return STATUS_OK;
}

/* Answers
 * ---------------------------------------------------------------------------------------------- */

/* Hands the fetch back. Its error is set if `status` is not OK. */
static void finish(struct http_client *client, struct fetch *fetch, enum status status)
{
    if (fetch->own.transfer)
        give_transfer(client, fetch->own.transfer);
    if (fetch->own.second)
        give_transfer(client, fetch->own.second);
    if (client->watch && fetch->own.start_ns)
        store_watch_end(client->watch, fetch->own.call);
    fetch->status = status;
    fetch->done(fetch);
}

static void pause_for(struct http_client *client, struct fetch *fetch, uint64_t now_ns,
                      uint32_t least_s)
{
    enum { FIRST_MS = 100, MOST_DOUBLINGS = 6 };
    uint32_t doublings = 2 * (fetch->own.tries - 1);
    uint64_t pause_ns = FIRST_MS * ms_ns
                        << (doublings < MOST_DOUBLINGS ? doublings : MOST_DOUBLINGS);
    uint64_t bits = random_u64(now_ns, fetch->own.tries, (uintptr_t)fetch);
    /* Half to one and a half times as long; never before the server said. */
    pause_ns = pause_ns / 2 + random_below(bits, pause_ns) + least_s * second_ns;
    fetch->own.due_ns = now_ns + pause_ns;
    append(&client->paused, fetch);
}

/* Tries again, or gives up. */
static void again(struct http_client *client, struct fetch *fetch, enum http_verdict verdict,
                  uint32_t retry_after_s)
{
    uint64_t now_ns = clock_now_ns(), deadline_ns = deadline_of(client, fetch);
    bool in_time = now_ns + (retry_after_s + 1) * second_ns / 2 < deadline_ns &&
                   now_ns + retry_after_s * second_ns < deadline_ns;
    fetch->own.failures += verdict != HTTP_THROTTLED;
    bool allowed =
        verdict == HTTP_THROTTLED ? client->retries > 0 : fetch->own.failures <= client->retries;
    if (allowed && in_time) {
        if (client->watch)
            store_watch_retried(client->watch, &fetch->error);
        pause_for(client, fetch, now_ns, retry_after_s);
        return;
    }
    enum status status = (enum status)fetch->error.status;
    if (fetch->own.tries > 1)
        status = error_prefix(&fetch->error, status, "tried %u times: ", fetch->own.tries);
    if (allowed && retry_after_s > 0)
        status = error_prefix(
            &fetch->error, status,
            "the server says to come back after %u s, beyond store.timeout: ", retry_after_s);
    finish(client, fetch, status);
}

static void take_value(struct transfer *transfer)
{
    struct fetch *fetch = transfer->fetch;
    if (transfer->second && transfer->made.got > 0)
        memcpy(fetch->buffer, transfer->out, transfer->made.got);
    fetch->got = transfer->made.got;
}

/* A transfer that failed while the fetch's other one goes on is let go without a word. */
static void on_end(struct http_client *client, struct transfer *transfer, CURLcode code)
{
    struct fetch *fetch = transfer->fetch;
    struct error err;
    uint64_t now_ns = clock_now_ns();
    enum http_verdict verdict = http_transfer_judge(transfer, code, &err);
    uint32_t retry_after_s = transfer->answer.retry_after_s;
    bool alone = !(fetch->own.transfer && fetch->own.second);
    if (verdict == HTTP_GOOD || err.status == STATUS_NOT_FOUND)
        pace_answered(&client->pace, now_ns, now_ns - transfer->start_ns, expected_bytes(fetch),
                      client->waiting.first != NULL);
    if (verdict == HTTP_THROTTLED)
        pace_throttled(&client->pace, now_ns);
    if (verdict == HTTP_GOOD) {
        client->no_head |= transfer->made.form & HTTP_FORM_GET;
        take_value(transfer);
        finish(client, fetch, STATUS_OK);
        return;
    }
    if (!alone && verdict != HTTP_FAILED) {
        give_transfer(client, transfer);
        return;
    }
    if (verdict == HTTP_FAILED && transfer->answer.status >= 300 && client->target.explain)
        client->target.explain(client->target.context, fetch, &transfer->answer, &err);
    fetch->error = err;
    if (verdict == HTTP_FAILED) {
        finish(client, fetch, (enum status)err.status);
        return;
    }
    give_transfer(client, transfer);
    if (verdict == HTTP_OTHERWISE) {
        fetch->own.tries--;
        prepend(&client->waiting, fetch);
        return;
    }
    if (verdict == HTTP_EXPIRED && !fetch->own.refreshed && client->target.refresh) {
        fetch->own.refreshed = true;
        if (client->target.refresh(client->target.context)) {
            prepend(&client->waiting, fetch);
            return;
        }
    }
    if (verdict == HTTP_EXPIRED) {
        finish(client, fetch, (enum status)err.status);
    } else if (now_ns >= deadline_of(client, fetch)) {
        finish(client, fetch,
               error_prefix(&fetch->error, STATUS_TIMEOUT,
                            "not there within store.timeout (%u s): ", client->settings.timeout_s));
    } else {
        again(client, fetch, verdict, retry_after_s);
    }
}

/* The thread
 * ---------------------------------------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *argument, void *registered)
{
    struct http_client *client = argument;
    struct epoll_event event = {.data.fd = fd};
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(client->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* may be closed already */
        return 0;
    }
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    int failed =
        epoll_ctl(client->epoll_fd, registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (failed && errno == EEXIST)
        failed = epoll_ctl(client->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    else if (failed && errno == ENOENT)
        failed = epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    curl_multi_assign(client->multi, fd, client); /* not NULL: registered */
    return failed ? -1 : 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *argument)
{
    struct http_client *client = argument;
    (void)multi;
    client->timer_ns =
        timeout_ms < 0 ? 0 : clock_now_ns() + (uint64_t)timeout_ms * (uint64_t)ms_ns + 1;
    return 0;
}

static bool take_incoming(struct http_client *client)
{
    pthread_mutex_lock(&client->mutex);
    struct list incoming = client->incoming;
    bool stopping = client->stopping;
    client->incoming = (struct list){0};
    pthread_mutex_unlock(&client->mutex);
    while (incoming.first)
        append(&client->waiting, take_first(&incoming));
    return !stopping;
}

/* Moves what has paused long enough to the front; returns when the next one is due, 0: none. */
static uint64_t resume_paused(struct http_client *client, uint64_t now_ns)
{
    struct list paused = client->paused;
    uint64_t next_ns = 0;
    client->paused = (struct list){0};
    while (paused.first) {
        struct fetch *fetch = take_first(&paused);
        if (fetch->own.due_ns <= now_ns) {
            prepend(&client->waiting, fetch);
            continue;
        }
        append(&client->paused, fetch);
        if (next_ns == 0 || fetch->own.due_ns < next_ns)
            next_ns = fetch->own.due_ns;
    }
    return next_ns;
}

static void start_waiting(struct http_client *client)
{
    while (client->waiting.first && client->in_flight - client->seconds < client->pace.limit) {
        struct transfer *transfer = take_transfer(client);
        if (!transfer && client->in_flight > 0)
            return; /* later */
        struct fetch *fetch = take_first(&client->waiting);
        uint64_t now_ns = clock_now_ns();
        enum status status = STATUS_NO_MEMORY;
        if (fetch->own.start_ns == 0) {
            fetch->own.start_ns = now_ns;
            if (client->watch)
                fetch->own.call = store_watch_begin(client->watch, client->uri,
                                                    fetch->kind == FETCH_QUERY ? "" : fetch->key);
        }
        fetch->own.tries++;
        if (transfer) {
            transfer->second = false;
            transfer->out = fetch->buffer;
            transfer->capacity = fetch->kind == FETCH_RANGE || fetch->kind == FETCH_TAIL
                                     ? fetch->size
                                     : fetch->capacity;
            status = send_request(client, transfer, fetch, now_ns, &fetch->error);
        } else {
            error_set(&fetch->error, STATUS_NO_MEMORY, "no memory for a request");
        }
        if (status == STATUS_OK)
            fetch->own.transfer = transfer;
        else
            finish(client, fetch, status);
    }
}

/* Whether there is room for the value a second time; if so, it is taken. */
static bool take_room(struct http_client *client, size_t bytes)
{
    if (atomic_fetch_sub(client->room, (int64_t)bytes) >= (int64_t)bytes)
        return true;
    atomic_fetch_add(client->room, (int64_t)bytes);
    return false;
}

static void send_second(struct http_client *client, struct fetch *fetch, uint64_t now_ns)
{
    size_t bytes = expected_bytes(fetch);
    if (!take_room(client, bytes))
        return;
    struct transfer *transfer = take_transfer(client);
    void *out = transfer ? malloc(bytes ? bytes : 1) : NULL;
    if (transfer && out) {
        struct error err;
        transfer->second = true;
        transfer->capacity = bytes;
        transfer->out = out;
        if (send_request(client, transfer, fetch, now_ns, &err) == STATUS_OK) {
            client->seconds++;
            fetch->own.second = transfer;
            return;
        }
    } else if (transfer) {
        put_back(client, transfer);
    }
    free(out);
    atomic_fetch_add(client->room, (int64_t)bytes);
}

/* By what others took. So many may be; of those that are silent for long, all. */
static bool is_late(struct http_client *client, const struct transfer *transfer, uint64_t now_ns)
{
    uint64_t late_ns = pace_late_ns(&client->pace, expected_bytes(transfer->fetch));
    uint64_t taken_ns = now_ns - transfer->start_ns;
    bool known = late_ns != UINT64_MAX;
    if (known && taken_ns < late_ns)
        return false;
    if (!transfer->answer.status && taken_ns >= SILENT_S * second_ns)
        return true;
    return known && pace_take_second(&client->pace);
}

/* Asks a second time for what is late. */
static void look_for_late(struct http_client *client, uint64_t now_ns)
{
    if (now_ns - client->looked_ns < LOOK_MS * ms_ns)
        return;
    client->looked_ns = now_ns;
    uint32_t count = client->transfer_count;
    for (uint32_t i = 0; i < count && client->seconds < SECONDS_AT_ONCE; i++) {
        struct transfer *transfer = client->transfers[i];
        struct fetch *fetch = transfer->fetch;
        if (!fetch || transfer->second || fetch->own.second || fetch->kind == FETCH_QUERY ||
            atomic_load(client->room) < (int64_t)expected_bytes(fetch))
            continue;
        if (is_late(client, transfer, now_ns))
            send_second(client, fetch, now_ns);
    }
}

static int wait_ms(const struct http_client *client, uint64_t now_ns, uint64_t due_ns)
{
    uint64_t until_ns = UINT64_MAX;
    if (client->timer_ns && client->timer_ns < until_ns)
        until_ns = client->timer_ns;
    if (due_ns && due_ns < until_ns)
        until_ns = due_ns;
    if (client->settings.hedge && client->in_flight > 0 && now_ns + LOOK_MS * ms_ns < until_ns)
        until_ns = now_ns + LOOK_MS * ms_ns;
    if (until_ns == UINT64_MAX)
        return -1;
    return until_ns <= now_ns ? 0 : (int)((until_ns - now_ns + ms_ns - 1) / ms_ns);
}

static void handle_ended(struct http_client *client)
{
    int left, running;
    CURLMsg *message;
    if (client->timer_ns && client->timer_ns <= clock_now_ns()) {
        client->timer_ns = 0;
        curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    while ((message = curl_multi_info_read(client->multi, &left))) {
        struct transfer *transfer = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
        on_end(client, transfer, code);
    }
}

static bool has_incoming(struct http_client *client)
{
    pthread_mutex_lock(&client->mutex);
    bool has = client->incoming.first || client->stopping;
    pthread_mutex_unlock(&client->mutex);
    return has;
}

/* Sleeps until there is something to do, and has curl do it. */
static void handle_events(struct http_client *client, uint64_t due_ns)
{
    struct epoll_event events[EVENTS];
    int running;
    waker_arm(&client->waker);
    int timeout_ms = has_incoming(client) ? 0 : wait_ms(client, clock_now_ns(), due_ns);
    int count = epoll_wait(client->epoll_fd, events, EVENTS, timeout_ms);
    waker_disarm(&client->waker);
    for (int i = 0; i < count; i++) {
        uint32_t got = events[i].events;
        int mask = (got & EPOLLIN ? CURL_CSELECT_IN : 0) | (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR | CURL_CSELECT_IN : 0);
        if (events[i].data.fd != waker_fd(&client->waker))
            curl_multi_socket_action(client->multi, events[i].data.fd, mask, &running);
    }
}

static void end_all(struct http_client *client)
{
    for (uint32_t i = 0; i < client->transfer_count; i++) {
        struct fetch *fetch = client->transfers[i]->fetch;
        if (!fetch)
            continue;
        finish(client, fetch, error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    }
    while (client->paused.first)
        append(&client->waiting, take_first(&client->paused));
    while (client->waiting.first) {
        struct fetch *fetch = take_first(&client->waiting);
        finish(client, fetch, error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    }
}

static void *serve(void *argument)
{
    struct http_client *client = argument;
    while (take_incoming(client)) {
        uint64_t due_ns = resume_paused(client, clock_now_ns());
        start_waiting(client);
        if (client->settings.hedge)
            look_for_late(client, clock_now_ns());
        handle_events(client, due_ns);
        handle_ended(client);
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
        append(&client->incoming, fetch);
    pthread_mutex_unlock(&client->mutex);
    if (stopping)
        finish(client, fetch, error_set(&fetch->error, STATUS_LOST, "the store was closed"));
    else
        waker_wake(&client->waker);
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

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;

static void start_curl(void)
{
    curl_started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool set_up_multi(struct http_client *client)
{
    client->multi = curl_multi_init();
    return client->multi &&
           curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket) == CURLM_OK &&
           curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client) == CURLM_OK &&
           curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer) == CURLM_OK &&
           curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client) == CURLM_OK &&
           curl_multi_setopt(client->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING) ==
               CURLM_OK &&
           curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)client->transfer_most) ==
               CURLM_OK;
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
    struct epoll_event event = {.events = EPOLLIN};
    pthread_once(&curl_once, start_curl);
    client->transfer_most = client->pace.most + SECONDS_AT_ONCE;
    client->transfers = calloc(client->transfer_most, sizeof *client->transfers);
    if (curl_started != CURLE_OK || !client->transfers || !set_up_multi(client))
        return error_set(err, STATUS_NO_MEMORY, "no memory for a client of '%s'", client->uri);
    enum status status = waker_init(&client->waker, err);
    if (status != STATUS_OK)
        return status;
    event.data.fd = waker_fd(&client->waker);
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll_fd < 0 ||
        epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, event.data.fd, &event) < 0)
        return error_set_errno(err, STATUS_IO, "open a descriptor for '%s'", client->uri);
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
    if (client->multi)
        curl_multi_cleanup(client->multi);
    if (client->epoll_fd >= 0)
        close(client->epoll_fd);
    if (client->waker.fd >= 0)
        waker_done(&client->waker);
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
    client->epoll_fd = client->waker.fd = -1;
    pthread_mutex_init(&client->mutex, NULL);
    pace_init(&client->pace, client->settings.requests);
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
    waker_wake(&client->waker);
    pthread_join(client->thread, NULL);
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    http_client_stop(client);
    release(client);
}
