/* See http_client_internal.h: the requests that an HTTP client has under way.
 *
 * Transfers (http_transfer.h) are made as they are needed, and used again. The second transfer of a
 * late fetch writes to memory of its own, so that two answers never mix. If the second transfer has
 * the first good answer, its bytes are copied to the fetch's buffer.
 */
#include "store/http/http_client_internal.h"

#include <stdlib.h>

enum {
    LOOK_MS = 10,  /* for late transfers */
    SILENT_S = 10, /* without a byte: long, whatever others took */
};
static const uint64_t ms_ns = 1000000, second_ns = 1000000000;

struct transfer *http_client_take_transfer(struct http_thread *thread)
{
    struct transfer *transfer = thread->first_free;
    if (transfer) {
        thread->first_free = transfer->next_free;
        return transfer;
    }
    if (thread->transfer_count == thread->transfer_most)
        return NULL;
    transfer = http_transfer_new(&thread->client->settings);
    if (!transfer)
        return NULL;
    transfer->thread = thread;
    thread->transfers[thread->transfer_count++] = transfer;
    return transfer;
}

void http_client_put_transfer(struct transfer *transfer)
{
    transfer->next_free = transfer->thread->first_free;
    transfer->thread->first_free = transfer;
}

static void count_second(struct http_client *client, int change)
{
    pthread_mutex_lock(&client->mutex);
    client->seconds += (uint32_t)change;
    pthread_mutex_unlock(&client->mutex);
}

void http_client_end_transfer(struct transfer *transfer)
{
    struct http_thread *thread = transfer->thread;
    struct fetch *fetch = transfer->fetch;
    http_multi_remove(&thread->multi, transfer->easy);
    if (transfer->second) {
        free(transfer->out);
        atomic_fetch_add(thread->client->room, (int64_t)transfer->capacity);
        count_second(thread->client, -1);
        fetch->own.second = NULL;
    } else {
        http_client_let_go(thread);
        fetch->own.transfer = NULL;
    }
    http_transfer_end(transfer);
    http_client_put_transfer(transfer);
    thread->busy--;
}

enum status http_client_send(struct transfer *transfer, struct fetch *fetch, uint64_t now_ns,
                             struct error *err)
{
    struct http_thread *thread = transfer->thread;
    const struct http_client *client = thread->client;
    uint64_t deadline_ns = http_client_deadline_ns(client, fetch);
    transfer->start_ns = now_ns;
    if (fetch->kind == FETCH_STAT && client->no_head)
        fetch->own.form |= HTTP_FORM_GET;
    enum status status = http_transfer_begin(
        transfer, &client->target, fetch, deadline_ns > now_ns ? deadline_ns - now_ns : ms_ns, err);
    if (status == STATUS_OK && !http_multi_add(&thread->multi, transfer->easy)) {
        status = error_set(err, STATUS_NO_MEMORY, "'%s': no memory for the request", fetch->key);
        http_transfer_end(transfer);
    }
    if (status != STATUS_OK) {
        http_client_put_transfer(transfer);
        return status;
    }
    thread->busy++;
    return STATUS_OK;
}

/* Late ones
 * ---------------------------------------------------------------------------------------------- */

/* Whether there is room for the value a second time; if so, it is taken. */
static bool take_room(struct http_client *client, size_t bytes)
{
    if (atomic_fetch_sub(client->room, (int64_t)bytes) >= (int64_t)bytes)
        return true;
    atomic_fetch_add(client->room, (int64_t)bytes);
    return false;
}

static void send_second(struct http_thread *thread, struct fetch *fetch, uint64_t now_ns)
{
    struct http_client *client = thread->client;
    size_t bytes = http_client_expected_bytes(fetch);
    if (!take_room(client, bytes))
        return;
    struct transfer *transfer = http_client_take_transfer(thread);
    void *out = transfer ? malloc(bytes ? bytes : 1) : NULL;
    if (transfer && out) {
        struct error err;
        transfer->second = true;
        transfer->capacity = bytes;
        transfer->out = out;
        if (http_client_send(transfer, fetch, now_ns, &err) == STATUS_OK) {
            count_second(client, 1);
            fetch->own.second = transfer;
            return;
        }
    } else if (transfer) {
        http_client_put_transfer(transfer);
    }
    free(out);
    atomic_fetch_add(client->room, (int64_t)bytes);
}

/* By what others took. So many may be; of those that are silent for long, all. Under the mutex. */
static bool is_late(struct http_client *client, const struct transfer *transfer, uint64_t now_ns)
{
    uint64_t late_ns =
        http_pace_late_ns(&client->pace, http_client_expected_bytes(transfer->fetch));
    uint64_t taken_ns = now_ns - transfer->start_ns;
    bool known = late_ns != UINT64_MAX;
    if (known && taken_ns < late_ns)
        return false;
    if (!transfer->answer.status && taken_ns >= SILENT_S * second_ns)
        return true;
    return known && http_pace_take_second(&client->pace);
}

static bool may_send_second(struct http_client *client, const struct transfer *transfer,
                            uint64_t now_ns)
{
    pthread_mutex_lock(&client->mutex);
    bool may = client->seconds < HTTP_MOST_SECONDS && is_late(client, transfer, now_ns);
    pthread_mutex_unlock(&client->mutex);
    return may;
}

void http_client_hedge(struct http_thread *thread, uint64_t now_ns)
{
    struct http_client *client = thread->client;
    if (now_ns - thread->looked_ns < LOOK_MS * ms_ns)
        return;
    thread->looked_ns = now_ns;
    uint32_t count = thread->transfer_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct transfer *transfer = thread->transfers[i];
        struct fetch *fetch = transfer->fetch;
        if (!fetch || transfer->second || fetch->own.second || fetch->kind == FETCH_QUERY ||
            atomic_load(client->room) < (int64_t)http_client_expected_bytes(fetch))
            continue;
        if (may_send_second(client, transfer, now_ns))
            send_second(thread, fetch, now_ns);
    }
}

uint64_t http_client_hedge_ns(const struct http_thread *thread, uint64_t now_ns)
{
    return thread->client->settings.hedge && thread->busy > 0 ? now_ns + LOOK_MS * ms_ns
                                                              : UINT64_MAX;
}
