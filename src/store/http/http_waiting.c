/* See http_client_internal.h: fetches that wait, and which of the client's threads takes them. */
#include "store/http/http_client_internal.h"

#include "base/number.h"
#include "base/size.h"

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

/* Shares. Under the mutex
 * ---------------------------------------------------------------------------------------------- */

/* Below the limit, some thread has less than an equal share of what may be under way: that one may
 * take what waits. */
static bool may_take(const struct http_thread *thread)
{
    const struct http_client *client = thread->client;
    uint32_t wanted = min_u32(client->in_flight + client->waiting_count, client->pace.limit);
    return client->waiting.first && client->in_flight < client->pace.limit &&
           thread->in_flight < size_divide_up(wanted, client->thread_count);
}

/* The thread with the fewest of those that may take what waits; NULL: none. */
static struct http_thread *who_takes(const struct http_client *client)
{
    struct http_thread *least = NULL;
    for (uint32_t i = 0; i < client->thread_count; i++) {
        struct http_thread *thread = &client->threads[i];
        if (may_take(thread) && (!least || thread->in_flight < least->in_flight))
            least = thread;
    }
    return least;
}

/* Waiting
 * ---------------------------------------------------------------------------------------------- */

bool http_client_push(struct http_client *client, struct fetch *fetch)
{
    pthread_mutex_lock(&client->mutex);
    bool stopping = client->stopping;
    if (!stopping) {
        fetch_list_append(&client->waiting, fetch);
        client->waiting_count++;
    }
    struct http_thread *thread = who_takes(client);
    pthread_mutex_unlock(&client->mutex);
    if (!stopping && thread)
        http_multi_wake(&thread->multi);
    return !stopping;
}

void http_client_push_first(struct http_client *client, struct fetch *fetch)
{
    pthread_mutex_lock(&client->mutex);
    fetch_list_prepend(&client->waiting, fetch);
    client->waiting_count++;
    pthread_mutex_unlock(&client->mutex);
}

struct fetch *http_client_take(struct http_thread *thread)
{
    struct http_client *client = thread->client;
    struct fetch *fetch = NULL;
    pthread_mutex_lock(&client->mutex);
    if (may_take(thread)) {
        fetch = fetch_list_take(&client->waiting);
        client->waiting_count--;
        client->in_flight++;
        thread->in_flight++;
    }
    pthread_mutex_unlock(&client->mutex);
    return fetch;
}

struct fetch *http_client_drain(struct http_client *client)
{
    struct fetch *fetch = NULL;
    pthread_mutex_lock(&client->mutex);
    if (client->waiting.first) {
        fetch = fetch_list_take(&client->waiting);
        client->waiting_count--;
    }
    pthread_mutex_unlock(&client->mutex);
    return fetch;
}

void http_client_let_go(struct http_thread *thread)
{
    pthread_mutex_lock(&thread->client->mutex);
    thread->client->in_flight--;
    thread->in_flight--;
    pthread_mutex_unlock(&thread->client->mutex);
}

void http_client_wake_another(const struct http_thread *thread)
{
    struct http_client *client = thread->client;
    pthread_mutex_lock(&client->mutex);
    struct http_thread *other = who_takes(client);
    pthread_mutex_unlock(&client->mutex);
    if (other && other != thread)
        http_multi_wake(&other->multi);
}

bool http_client_has_work(struct http_thread *thread, bool *ret_stopping)
{
    struct http_client *client = thread->client;
    pthread_mutex_lock(&client->mutex);
    *ret_stopping = client->stopping;
    bool has = client->stopping || may_take(thread);
    pthread_mutex_unlock(&client->mutex);
    return has;
}
