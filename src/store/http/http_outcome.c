/* See http_client_internal.h: what becomes of a fetch whose request has ended. */
#include "store/http/http_client_internal.h"

#include "base/clock.h"
#include "base/random.h"
#include "store/kind/watch.h"

#include <string.h>

static const uint64_t ms_ns = 1000000, second_ns = 1000000000;

void http_client_finish(struct http_client *client, struct fetch *fetch, enum status status)
{
    if (fetch->own.transfer)
        http_client_end_transfer(fetch->own.transfer);
    if (fetch->own.second)
        http_client_end_transfer(fetch->own.second);
    if (fetch->own.start_ns)
        store_watch_end(client->watch, fetch->own.call);
    fetch->status = status;
    fetch->done(fetch);
}

static void pause_for(struct http_thread *thread, struct fetch *fetch, uint64_t now_ns,
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
    fetch_list_append(&thread->paused, fetch);
}

/* Tries again, or gives up. */
static void again(struct http_thread *thread, struct fetch *fetch, enum http_verdict verdict,
                  uint32_t retry_after_s)
{
    struct http_client *client = thread->client;
    uint64_t now_ns = clock_now_ns(), deadline_ns = http_client_deadline_ns(client, fetch);
    bool in_time = now_ns + (retry_after_s + 1) * second_ns / 2 < deadline_ns &&
                   now_ns + retry_after_s * second_ns < deadline_ns;
    fetch->own.failures += verdict != HTTP_THROTTLED;
    bool allowed =
        verdict == HTTP_THROTTLED ? client->retries > 0 : fetch->own.failures <= client->retries;
    if (allowed && in_time) {
        store_watch_retried(client->watch, &fetch->error);
        pause_for(thread, fetch, now_ns, retry_after_s);
        return;
    }
    enum status status = (enum status)fetch->error.status;
    if (fetch->own.tries > 1)
        status = error_prefix(&fetch->error, status, "tried %u times: ", fetch->own.tries);
    if (allowed && retry_after_s > 0)
        status = error_prefix(
            &fetch->error, status,
            "the server asks for a pause of %u s, which store.timeout does not allow: ",
            retry_after_s);
    http_client_finish(client, fetch, status);
}

static void take_value(struct transfer *transfer)
{
    struct fetch *fetch = transfer->fetch;
    if (transfer->second && transfer->made.got > 0)
        memcpy(fetch->buffer, transfer->out, transfer->made.got);
    fetch->got = transfer->made.got;
}

/* What the answer says of the server's pace. */
static void note_pace(struct http_client *client, const struct transfer *transfer,
                      enum http_verdict verdict, enum status status, uint64_t now_ns)
{
    pthread_mutex_lock(&client->mutex);
    if (verdict == HTTP_GOOD || status == STATUS_NOT_FOUND)
        http_pace_answered(&client->pace, now_ns, now_ns - transfer->start_ns,
                           http_client_expected_bytes(transfer->fetch),
                           client->waiting.first != NULL);
    if (verdict == HTTP_THROTTLED)
        http_pace_throttled(&client->pace, now_ns);
    pthread_mutex_unlock(&client->mutex);
}

/* A transfer that failed while the fetch's other one goes on is let go without a word. */
void http_client_judge(struct transfer *transfer, CURLcode code)
{
    struct http_thread *thread = transfer->thread;
    struct http_client *client = thread->client;
    struct fetch *fetch = transfer->fetch;
    struct error err;
    uint64_t now_ns = clock_now_ns();
    enum http_verdict verdict = http_transfer_judge(transfer, code, &err);
    uint32_t retry_after_s = transfer->answer.retry_after_s;
    uint64_t sent_ns = transfer->start_ns;
    bool alone = !(fetch->own.transfer && fetch->own.second);
    note_pace(client, transfer, verdict, (enum status)err.status, now_ns);
    if (verdict == HTTP_GOOD) {
        if (transfer->made.form & HTTP_FORM_GET)
            client->no_head = true;
        take_value(transfer);
        http_client_finish(client, fetch, STATUS_OK);
        return;
    }
    if (!alone && verdict != HTTP_FAILED) {
        http_client_end_transfer(transfer);
        return;
    }
    if (verdict == HTTP_FAILED && transfer->answer.status >= 300 && client->target.explain)
        client->target.explain(client->target.context, fetch, &transfer->answer, &err);
    fetch->error = err;
    if (verdict == HTTP_FAILED) {
        http_client_finish(client, fetch, (enum status)err.status);
        return;
    }
    http_client_end_transfer(transfer);
    if (verdict == HTTP_OTHERWISE) {
        fetch->own.tries--;
        http_client_push_first(client, fetch);
        return;
    }
    if (verdict == HTTP_EXPIRED && !fetch->own.refreshed && client->target.refresh) {
        fetch->own.refreshed = true;
        if (client->target.refresh(client->target.context, sent_ns)) {
            http_client_push_first(client, fetch);
            return;
        }
    }
    if (verdict == HTTP_EXPIRED) {
        http_client_finish(client, fetch, (enum status)err.status);
    } else if (now_ns >= http_client_deadline_ns(client, fetch)) {
        http_client_finish(client, fetch,
                           error_prefix(&fetch->error, STATUS_TIMEOUT,
                                        "no answer within store.timeout (%u s), the last try: ",
                                        client->settings.timeout_s));
    } else {
        again(thread, fetch, verdict, retry_after_s);
    }
}
