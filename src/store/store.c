/* See store.h: the calls of stores. Checks keys, tries again, and calls the operations of the kind
 * (store_internal.h). Any thread. */
#include "store/kind/store_internal.h"

#include "base/clock.h"
#include "base/random.h"
#include "store/kind/inflated.h"
#include "store/kind/watch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum status check_key(const struct store *store, const char *key, struct error *err)
{
    if (store_key_is_well_formed(key))
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "store '%s': key '%s' is not a relative path without empty, '.' and '..' parts", store->uri,
        key);
}

/* The store that really has `*key`, and its key there; that must be well-formed, or the root. */
static enum status reach(const struct store **store, const char **key, bool may_be_root,
                         struct error *err)
{
    *store = store_resolve(*store, key, err);
    if (!*store)
        return STATUS_INVALID;
    return may_be_root && **key == '\0' ? STATUS_OK : check_key(*store, *key, err);
}

const struct store *store_innermost(const struct store *store)
{
    while (store->inner)
        store = store->inner;
    return store;
}

/* Causes that may pass by themselves: a file server that is being restarted, a link that is down.
 * What is not there, or not allowed, stays so. */
static bool may_pass(const struct error *cause)
{
    static const int numbers[] = {EIO,          ESTALE,    EINTR,        EAGAIN,    ETIMEDOUT,
                                  ECONNRESET,   ENOTCONN,  ESHUTDOWN,    ENETDOWN,  ENETUNREACH,
                                  ECONNABORTED, EHOSTDOWN, EHOSTUNREACH, EREMOTEIO, ENFILE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (cause->status == STATUS_IO && cause->system_errno == numbers[i])
            return true;
    return false;
}

bool store_retry(const struct store *store, uint32_t attempt, const struct error *cause)
{
    enum { FIRST_MS = 100, MOST_DOUBLINGS = 6 };
    if (attempt >= store->retries)
        return false;
    store_watch_retried(store->watch, cause);
    uint32_t doublings = 2 * attempt < MOST_DOUBLINGS ? 2 * attempt : MOST_DOUBLINGS;
    uint64_t now_ns = clock_now_ns();
    uint64_t pause_ns = (UINT64_C(1000000) * FIRST_MS) << doublings;
    /* Half to one and a half times as long. */
    clock_sleep_ns(pause_ns / 2 +
                   random_below(random_u64(now_ns, attempt, (uintptr_t)&now_ns), pause_ns));
    return true;
}

/* A call that is made until it succeeds, fails for good, or has been tried often enough. */
struct attempts {
    const struct store *store; /* once it has begun: that really has the key */
    const char *key;           /* once it has begun: in that store */
    bool has_begun;
    enum status status; /* of the last try, or the outcome */
    uint32_t count;     /* that failed */
    int call;           /* in the watch */
    struct error cause;
};

/* True: try again. Otherwise *err has the cause, if the status is one. */
static bool attempt_again(struct attempts *attempts, struct error *err)
{
    const struct store *store = attempts->store;
    enum status status = attempts->status;
    store_watch_end(store->watch, attempts->call);
    if (status == STATUS_OK)
        return false;
    bool passing = may_pass(&attempts->cause);
    if (passing && store_retry(store, attempts->count, &attempts->cause)) {
        attempts->count++;
        return true;
    }
    if (passing && attempts->count > 0)
        error_prepend(&attempts->cause, status, "tried %u times: ", attempts->count + 1);
    if (err)
        *err = attempts->cause;
    return false;
}

/* Whether there is a try to make, the first or another; if not, `status`, with *err, is the
 * outcome. The try is to leave its status there, and its error in `cause`. */
static bool attempt(struct attempts *attempts, struct error *err)
{
    store_may_wait();
    if (attempts->has_begun) {
        if (!attempt_again(attempts, err))
            return false;
    } else {
        attempts->status = reach(&attempts->store, &attempts->key, false, err);
        if (attempts->status != STATUS_OK)
            return false;
        attempts->has_begun = true;
    }
    attempts->call = store_watch_begin(attempts->store->watch, attempts->store->uri, attempts->key);
    return true;
}

enum status store_get_packed(const struct store *store, const char *key, store_begins *begins,
                             struct fetched *fetched, void *buffer, size_t capacity,
                             size_t *ret_size, struct error *err)
{
    struct attempts a = {.store = store, .key = key};
    while (attempt(&a, err))
        if (!fetched_get(fetched, a.store, a.key, buffer, capacity, ret_size, &a.status, &a.cause))
            a.status = a.store->operations->get(a.store, a.key, begins, buffer, capacity, ret_size,
                                                &a.cause);
    return a.status;
}

enum status store_get(const struct store *store, const char *key, void *buffer, size_t capacity,
                      size_t *ret_size, struct error *err)
{
    return store_get_packed(store, key, NULL, NULL, buffer, capacity, ret_size, err);
}

/* Takes the ranges that were fetched, and asks the store for the others: so many at once that
 * nothing has to be allocated. */
static enum status get_rest(const struct attempts *attempts, const struct store_range *ranges,
                            size_t count, uint64_t total, struct fetched *fetched,
                            struct error *err)
{
    const struct store *store = attempts->store;
    struct store_range asked[STORE_RANGES_AT_ONCE];
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK;) {
        size_t used = 0;
        for (; i < count && used < STORE_RANGES_AT_ONCE && status == STATUS_OK; i++)
            if (!fetched_get_range(fetched, store, attempts->key, &ranges[i], &status, err))
                asked[used++] = ranges[i];
        if (used > 0 && status == STATUS_OK)
            status = store->operations->get_ranges(store, attempts->key, asked, used, total, err);
    }
    return status;
}

static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct fetched *fetched, struct error *err)
{
    struct attempts a = {.store = store, .key = key};
    while (attempt(&a, err))
        a.status =
            fetched && a.store->operations->fetch
                ? get_rest(&a, ranges, count, total, fetched, &a.cause)
                : a.store->operations->get_ranges(a.store, a.key, ranges, count, total, &a.cause);
    return a.status;
}

enum status store_get_ranges(const struct store *store, const char *key,
                             const struct store_range *ranges, size_t count,
                             struct fetched *fetched, struct error *err)
{
    return get_ranges(store, key, ranges, count, STORE_ANY_TOTAL, fetched, err);
}

enum status store_get_range(const struct store *store, const char *key,
                            const struct store_range *range, uint64_t total,
                            struct fetched *fetched, struct error *err)
{
    return get_ranges(store, key, range, 1, total, fetched, err);
}

bool store_lend(const struct store *store, const char *key, const struct store_range *range,
                size_t capacity, struct fetched *fetched, const void **ret_bytes, size_t *ret_size)
{
    if (!fetched || reach(&store, &key, false, NULL) != STATUS_OK)
        return false;
    return fetched_lend(fetched, store, key, range, capacity, ret_bytes, ret_size);
}

enum status store_get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                             uint64_t *ret_total, struct error *err)
{
    struct attempts a = {.store = store, .key = key};
    while (attempt(&a, err))
        a.status =
            a.store->operations->get_suffix(a.store, a.key, buffer, size, ret_total, &a.cause);
    return a.status;
}

enum status store_get_text(const struct store *store, const char *key, size_t limit,
                           char **ret_text, size_t *ret_size, struct error *err)
{
    struct attempts a = {.store = store, .key = key};
    while (attempt(&a, err))
        a.status =
            a.store->operations->get_text(a.store, a.key, limit, ret_text, ret_size, &a.cause);
    return a.status;
}

enum status store_stat(const struct store *store, const char *key, struct store_info *ret_info,
                       struct error *err)
{
    struct attempts a = {.store = store, .key = key};
    while (attempt(&a, err)) {
        const struct store *inner = store_innermost(a.store);
        a.status = inner->operations->stat(inner, a.key, ret_info, &a.cause);
    }
    return a.status;
}

enum status store_put(const struct store *store, const char *key, const void *data, size_t size,
                      struct error *err)
{
    enum status status = reach(&store, &key, false, err);
    if (status != STATUS_OK)
        return status;
    store = store_innermost(store);
    if (store->operations->put)
        return store->operations->put(store, key, data, size, err);
    return error_set(err, STATUS_UNSUPPORTED,
                     "write '%s/%s': only directories are written: write to a directory",
                     store->uri, key);
}

/* Listings are watched, and not tried again: what was visited was visited. */
enum status store_list(const struct store *store, const char *prefix, store_visit *visit,
                       void *argument, struct error *err)
{
    store_may_wait();
    enum status status = reach(&store, &prefix, true, err);
    if (status != STATUS_OK)
        return status;
    int call = store_watch_begin(store->watch, store->uri, prefix);
    const struct store *inner = store_innermost(store);
    status = inner->operations->list(inner, prefix, visit, argument, err);
    store_watch_end(store->watch, call);
    return status;
}

struct name_visit {
    store_visit_name *visit;
    void *argument;
};

static enum status visit_as_name(const char *name, bool is_prefix, void *argument,
                                 struct error *err)
{
    const struct name_visit *visit = argument;
    (void)is_prefix;
    return visit->visit(name, 0, visit->argument, err);
}

enum status store_names(const struct store *store, const char *prefix, store_visit_name *visit,
                        void *argument, struct error *err)
{
    struct name_visit by_list = {visit, argument};
    store_may_wait();
    enum status status = reach(&store, &prefix, true, err);
    if (status != STATUS_OK)
        return status;
    int call = store_watch_begin(store->watch, store->uri, prefix);
    const struct store *inner = store_innermost(store);
    status = inner->operations->names
                 ? inner->operations->names(inner, prefix, visit, argument, err)
                 : inner->operations->list(inner, prefix, visit_as_name, &by_list, err);
    store_watch_end(store->watch, call);
    return status;
}

enum status store_stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                        struct error *err)
{
    store_may_wait();
    enum status status = reach(&store, &prefix, true, err);
    if (status != STATUS_OK)
        return status;
    int call = store_watch_begin(store->watch, store->uri, prefix);
    const struct store *inner = store_innermost(store);
    uint64_t stamp = 0;
    if (inner->operations->stamp)
        status = inner->operations->stamp(inner, prefix, &stamp, err);
    store_watch_end(store->watch, call);
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        *ret_stamp = status == STATUS_OK ? stamp : 0;
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

enum status store_usage(const struct store *store, const char *prefix, uint64_t most,
                        struct store_usage *ret_usage, struct error *err)
{
    store_may_wait();
    enum status status = reach(&store, &prefix, true, err);
    store = status != STATUS_OK ? NULL : store_innermost(store);
    return status != STATUS_OK ? status
                               : store->operations->usage(store, prefix, most, ret_usage, err);
}

enum status store_identify(const struct store *store, struct text *out, struct error *err)
{
    store = store_innermost(store);
    return store->operations->identify(store, out, err);
}

struct store_inflate store_inflate_below(const struct store *store, const char *prefix)
{
    if (store->join)
        return joined_inflate_below(store, prefix);
    store = store_innermost(store);
    return store->operations->inflate_below ? store->operations->inflate_below(store, prefix)
                                            : (struct store_inflate){0};
}

enum status store_catalogue_below(const struct store *store, const char *prefix,
                                  struct store_catalogue *ret_catalogue, struct error *err)
{
    store_may_wait();
    if (store->join)
        return joined_catalogue_below(store, prefix, ret_catalogue, err);
    store = store_innermost(store);
    *ret_catalogue = (struct store_catalogue){0};
    return store->operations->catalogue_below
               ? store->operations->catalogue_below(store, prefix, ret_catalogue, err)
               : STATUS_OK;
}

void store_reserve(const struct store *store, int64_t bytes)
{
    const struct store *inner = store_innermost(store);
    struct inflated *inflated = store->join                   ? joined_inflated(store)
                                : inner->operations->inflated ? *inner->operations->inflated(inner)
                                                              : NULL;
    if (inflated)
        inflated_reserve(inflated, bytes);
}

const char *store_pinned_uri(const struct store *store)
{
    const struct store *inner = store_innermost(store);
    return inner->operations->pinned ? inner->operations->pinned(inner) : store->uri;
}

const char *store_snapshot(const struct store *store)
{
    store = store_innermost(store);
    return store->operations->snapshot ? store->operations->snapshot(store) : NULL;
}

uint64_t store_directory_bytes(const struct store *store)
{
    if (store->join)
        return joined_directory_bytes(store);
    store = store_innermost(store);
    return store->operations->directory_bytes ? store->operations->directory_bytes(store) : 0;
}

bool store_is_archive(const struct store *store)
{
    return store_innermost(store)->operations->inflate_below != NULL;
}

bool store_is_remote(const struct store *store)
{
    return store->join ? joined_is_remote(store) : store->operations->fetch != NULL;
}

void fetch_start(const struct store *store, struct fetch *fetch)
{
    fetch->status = reach(&store, &fetch->key, false, &fetch->error);
    fetch->own.store = store;
    if (fetch->status == STATUS_OK)
        store->operations->fetch(store, fetch);
    else
        fetch->done(fetch);
}

void fetch_stop(const struct store *store)
{
    if (store->operations->fetch_stop)
        store->operations->fetch_stop(store);
}

const char *store_uri(const struct store *store)
{
    return store->uri;
}

void store_free(struct store *store)
{
    store_close(store);
}
