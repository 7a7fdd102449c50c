/* See http_client_internal.h: what becomes of a fetch whose request has ended. */
#include "store/http/http_client_internal.h"

#include "base/clock.h"
#include "base/random.h"
#include "store/kind/watch.h"

#include <stdlib.h>
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
    if (fetch->own.ends)
        fetch->kind = FETCH_SUFFIX;
    http_redirect_forget(fetch);
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

void http_client_again(struct http_thread *thread, struct fetch *fetch, enum http_verdict verdict,
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

/* The size of a value is known, of which the end is wanted. */
static void ask_for_end(struct http_client *client, struct fetch *fetch)
{
    struct error *err = &fetch->error;
    enum status status = STATUS_OK;
    if (fetch->encoded)
        status = error_set(err, STATUS_UNSUPPORTED,
                           "'%s': the server does not say how long this value is without its "
                           "Content-Encoding: store the value without one",
                           fetch->key);
    else if (fetch->total < fetch->size)
        status =
            error_set(err, STATUS_CORRUPT, "'%s' has %llu bytes, %zu are needed: it was cut short",
                      fetch->key, (unsigned long long)fetch->total, fetch->size);
    if (status != STATUS_OK) {
        http_client_finish(client, fetch, status);
        return;
    }
    if (fetch->own.transfer)
        http_client_end_transfer(fetch->own.transfer);
    if (fetch->own.second)
        http_client_end_transfer(fetch->own.second);
    fetch->kind = FETCH_RANGE;
    fetch->offset = fetch->total - fetch->size;
    fetch->own.form = 0;
    http_client_push_first(client, fetch);
}

/* What the target's own functions make of an answer that is none: whether to ask once more. */
static enum http_verdict ask_target(struct http_client *client, const struct transfer *transfer,
                                    enum http_verdict verdict)
{
    const struct http_target *target = &client->target;
    struct fetch *fetch = transfer->fetch;
    int status = transfer->answer.status;
    bool fails = (verdict == HTTP_FAILED || verdict == HTTP_EXPIRED) && status >= 300;
    if (fails && http_redirects_drop(&client->redirects, fetch, status))
        return HTTP_OTHERWISE;
    if (fails && !fetch->own.away && !fetch->own.moved && target->moved &&
        target->moved(target->context, &transfer->answer)) {
        fetch->own.moved = true;
        return HTTP_OTHERWISE;
    }
    if (verdict != HTTP_EXPIRED)
        return verdict;
    if (fetch->own.away || fetch->own.refreshed || !target->refresh)
        return HTTP_FAILED;
    fetch->own.refreshed = true;
    return target->refresh(target->context, transfer->start_ns) ? HTTP_OTHERWISE : HTTP_FAILED;
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
    bool alone = !(fetch->own.transfer && fetch->own.second);
    note_pace(client, transfer, verdict, (enum status)err.status, now_ns);
    if (verdict == HTTP_GOOD) {
        if (transfer->made.form & HTTP_FORM_GET)
            client->no_head = true;
        http_redirects_keep(&client->redirects, client, fetch);
        if (fetch->own.ends && fetch->kind == FETCH_STAT) {
            ask_for_end(client, fetch);
            return;
        }
        take_value(transfer);
        http_client_finish(client, fetch, STATUS_OK);
        return;
    }
    bool other_decides = transfer->answer.status >= 300; /* what may be asked for again */
    if (!alone && (verdict != HTTP_FAILED || other_decides)) {
        http_client_end_transfer(transfer);
        return;
    }
    verdict = ask_target(client, transfer, verdict);
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
    if (now_ns >= http_client_deadline_ns(client, fetch)) {
        http_client_finish(client, fetch,
                           error_prefix(&fetch->error, STATUS_TIMEOUT,
                                        "no answer within store.timeout (%u s), the last try: ",
                                        client->settings.timeout_s));
    } else {
        http_client_again(thread, fetch, verdict, retry_after_s);
    }
}
