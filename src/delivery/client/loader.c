/* See loader.h. ring.h says how trainer and reader wake each other. */
#include "delivery/client/loader_internal.h"

#include "base/clock.h"
#include "delivery/ring/protocol.h"
#include "delivery/ring/wakeup.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct protocol_welcome loader_cursor(const struct loader *loader)
{
    uint64_t cursor = atomic_load(&loader->cursor), steps = loader->header.service.steps_per_epoch;
    return (struct protocol_welcome){.epoch = cursor / steps, .step = cursor % steps};
}

static enum status own_options(struct loader *loader, const struct dial_options *options,
                               struct error *err)
{
    loader->options = *options;
    loader->options.run_dir = strdup(options->run_dir);
    if (!loader->options.run_dir)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    if ((size_t)snprintf(loader->coordinates, sizeof loader->coordinates, "%s",
                         options->coordinates ? options->coordinates : "") >=
        sizeof loader->coordinates)
        return error_set(err, STATUS_INVALID, "coordinates have more than %zu bytes",
                         sizeof loader->coordinates - 1);
    loader->options.coordinates = loader->coordinates;
    if (options->state) {
        if ((size_t)snprintf(loader->state, sizeof loader->state, "%s", options->state) >=
            sizeof loader->state)
            return error_set(err, STATUS_INVALID, "the state has %zu bytes; at most %zu are sent",
                             strlen(options->state), sizeof loader->state - 1);
        loader->options.state = loader->state;
    }
    enum status status = cursor_page_new(&loader->page, err);
    loader->options.page_fd = loader->page.memfd;
    return status != STATUS_OK ? status : wakeup_new(&loader->wake_fd, err);
}

/* PENSTOCK_TRACE: what next() did last is written to that file with the rank behind it. */
static void start_trace(struct loader *loader)
{
    char name[24];
    const char *path = getenv("PENSTOCK_TRACE");
    if (!path || !*path)
        return;
    snprintf(name, sizeof name, "trainer-%" PRIu32, loader->options.rank);
    loader->trace_path = strdup(path);
    if (loader->trace_path)
        loader->trace = trace_claim(name);
    loader->trace_start_ns = clock_now_ns();
    trace_start();
}

/* Loaders of one process share a trace. Each writes what all have noted; the others go on. */
static void write_trace(const struct loader *loader)
{
    const uint64_t first_pid =
        1100000000; /* no system's, and no reader's in mpi/account/tracing.c */
    char path[4096], name[48];
    struct error error;
    snprintf(path, sizeof path, "%s.%" PRIu32, loader->trace_path, loader->options.rank);
    snprintf(name, sizeof name, "penstock trainer %" PRIu32, loader->options.rank);
    if (trace_write(path, name, first_pid + loader->options.rank, loader->trace_start_ns, &error) !=
        STATUS_OK)
        fprintf(stderr, "penstock: warning: %s\n", error.message);
    trace_start();
}

enum status loader_new(const struct dial_options *options, struct loader **ret_loader,
                       struct error *err)
{
    struct loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    loader->wake_fd = loader->freed_fd = loader->dial.socket = -1;
    loader->trained = UINT64_MAX;
    pthread_mutex_init(&loader->lock, NULL);
    enum status status = own_options(loader, options, err);
    if (status != STATUS_OK) {
        loader_close(loader);
        return status;
    }
    start_trace(loader);
    *ret_loader = loader;
    return STATUS_OK;
}

const struct ring_header *loader_header(const struct loader *loader)
{
    return &loader->header;
}

uint32_t loader_rank(const struct loader *loader)
{
    return loader->rank;
}

const struct handout *loader_handout(const struct loader *loader)
{
    return &loader->handout;
}

void loader_set_final(struct loader *loader, const struct error *error)
{
    loader->final = *error;
    if (error->status == STATUS_TIMEOUT)
        loader->final.status = STATUS_LOST;
}

/* Sleeps until `fd` is signalled, a word comes from the service, or the deadline (UINT64_MAX:
 * none). */
static enum status sleep_on(struct loader *loader, int fd, uint64_t deadline, struct error *err)
{
    uint64_t start = clock_now_ns();
    uint64_t left = deadline > start ? deadline - start : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                               .tv_nsec = (long)(left % 1000000000u)};
    /* Once the end is known, the socket has nothing to say and may be hung up. */
    int socket = loader->ended ? -1 : loader->attached->connection.socket;
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN},
                           {.fd = loader->wake_fd, .events = POLLIN},
                           {.fd = socket, .events = POLLIN}};
    int count = ppoll(fds, 3, deadline == UINT64_MAX ? NULL : &timeout, NULL);
    atomic_fetch_add_explicit(&loader->wait_ns, clock_now_ns() - start, memory_order_relaxed);
    return count < 0 && errno != EINTR ? error_set_errno(err, STATUS_IO, "poll") : STATUS_OK;
}

static enum status wait_for_publish(struct loader *loader, uint64_t deadline, struct error *err)
{
    struct connection *connection = &loader->attached->connection;
    enum status status = STATUS_OK;
    atomic_store(&connection->ring.control->trainer_waits, 1);
    if (!loader_sees_batch(loader))
        status = sleep_on(loader, connection->publish_fd, deadline, err);
    atomic_store(&connection->ring.control->trainer_waits, 0);
    wakeup_drain(connection->publish_fd);
    return status;
}

static enum status wait_for_release(struct loader *loader, uint64_t deadline, struct error *err)
{
    enum status status = STATUS_OK;
    atomic_store(&loader->wants_release, true);
    if (loader_check_leases(loader, NULL) != STATUS_OK)
        status = sleep_on(loader, loader->freed_fd, deadline, err);
    atomic_store(&loader->wants_release, false);
    wakeup_drain(loader->freed_fd);
    return status;
}

/* One turn of loader_next() where nothing could be taken: sleeps until something may have changed.
 * A failure is final, unless INVALID. */
static enum status wait_for_more(struct loader *loader, uint64_t deadline, struct error *err)
{
    uint64_t start_ns = clock_now_ns();
    if (loader->lost) {
        struct error error;
        bool had_all = atomic_load(&loader->cursor) == loader->end;
        enum status status = loader_reconnect(loader, deadline, &error);
        loader->batch_wait_ns += clock_now_ns() - start_ns;
        if (status != STATUS_OK) {
            loader->ended = had_all; /* it had all its batches, and looked for a reader only so that
                                      * others are not kept waiting */
            if (!had_all)
                loader_set_final(loader, &error);
        }
        return STATUS_OK;
    }
    enum status status = loader_check_leases(loader, err);
    if (status != STATUS_OK && loader->freed_fd >= 0)
        return wait_for_release(loader, deadline, err);
    if (status == STATUS_OK) {
        /* Leases are looked at again when the patience with others that skip is over. */
        uint64_t end = loader->skip_deadline_ns;
        bool patient = end > clock_now_ns() && end < deadline;
        status = wait_for_publish(loader, patient ? end : deadline, err);
        loader->batch_wait_ns += clock_now_ns() - start_ns;
    }
    return status;
}

static void say_end(struct loader *loader)
{
    struct protocol_welcome cursor = loader_cursor(loader);
    if (atomic_load(&loader->cursor) >= loader->end)
        error_set(&loader->final, STATUS_ENDED, "all epochs are consumed");
    else
        error_set(&loader->final, STATUS_ENDED,
                  "the service was told to stop, and all trainers stop before epoch %" PRIu64
                  " step %" PRIu64,
                  cursor.epoch, cursor.step);
}

enum { HEAR_NS = 1000000 };

/* Messages are rare, and to ask for one costs as much as a small batch. */
static void hear_now_and_then(struct loader *loader)
{
    uint64_t now = clock_now_ns();
    if (loader_sees_batch(loader) && now - loader->heard_ns < HEAR_NS)
        return;
    loader->heard_ns = now;
    loader_hear(loader);
}

static enum status next(struct loader *loader, int64_t timeout_ms, struct loader_batch *ret_batch,
                        struct error *err)
{
    uint64_t deadline = clock_deadline_ns(timeout_ms);
    for (bool waited = false;; waited = true) {
        hear_now_and_then(loader);
        if (atomic_load(&loader->left) && loader->final.status == STATUS_OK)
            error_set(&loader->final, STATUS_ENDED, "this trainer has said goodbye");
        if (loader->final.status == STATUS_OK && loader_take(loader, ret_batch))
            return STATUS_OK;
        if (loader->final.status == STATUS_OK && loader->ended)
            say_end(loader);
        if (loader->final.status == STATUS_OK)
            loader_say_done(loader);
        if (loader->final.status != STATUS_OK) {
            if (err)
                *err = loader->final;
            return (enum status)loader->final.status;
        }
        bool late = deadline != UINT64_MAX && clock_now_ns() >= deadline;
        if (late && (waited || !loader->lost)) {
            enum status status =
                loader->freed_fd < 0 ? loader_check_leases(loader, err) : STATUS_OK;
            return status != STATUS_OK
                       ? status
                       : error_set(
                             err, STATUS_TIMEOUT, "no batch within %" PRId64 " ms%s", timeout_ms,
                             loader->lost ? ": the reader went away, and is not back yet" : "");
        }
        if (!waited)
            atomic_fetch_add_explicit(&loader->waits, 1, memory_order_relaxed);
        enum status status = wait_for_more(loader, deadline, err);
        if (status != STATUS_OK)
            return status;
    }
}

enum status loader_next(struct loader *loader, int64_t timeout_ms, struct loader_batch *ret_batch,
                        struct error *err)
{
    if (!loader->trace)
        return next(loader, timeout_ms, ret_batch, err);
    uint64_t start_ns = clock_now_ns();
    enum status status = next(loader, timeout_ms, ret_batch, err);
    trace_note_in(loader->trace, TRACE_NEXT, start_ns, clock_now_ns(),
                  atomic_load(&loader->batches));
    return status;
}

/* A batch from before a skip keeps the ring's slots behind it, however many the trainer passes
 * over. The ring has room for one skip. */
static enum status check_skip(struct loader *loader, struct error *err)
{
    const struct lease *oldest = attached_ring_oldest(loader->attached);
    if (!oldest)
        return STATUS_OK;
    uint64_t epoch = atomic_load(&oldest->epoch), step = atomic_load(&oldest->step);
    if (cursor_of(&loader->header.service, epoch, step) >= loader->skipped_to)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID,
        "epoch %" PRIu64 " step %" PRIu64
        " is leased since before the last skip: release that batch before another skip",
        epoch, step);
}

enum status loader_skip(struct loader *loader, uint64_t epoch, uint64_t step, struct error *err)
{
    const struct ring_service *service = &loader->header.service;
    struct protocol_welcome from = loader_cursor(loader);
    uint64_t before = cursor_of(service, from.epoch, from.step);
    bool exists = epoch <= service->epochs && step < service->steps_per_epoch &&
                  cursor_of(service, epoch, step) <= loader->end;
    if (!exists || cursor_of(service, epoch, step) < before)
        return error_set(err, STATUS_INVALID,
                         "epoch %" PRIu64 " step %" PRIu64
                         " %s; the next batch is that of epoch %" PRIu64 " step %" PRIu64
                         ", and the service has %" PRIu64 " epochs of %" PRIu64 " steps",
                         epoch, step, exists ? "is over" : "does not exist", from.epoch, from.step,
                         service->epochs, service->steps_per_epoch);
    if (cursor_of(service, epoch, step) == before)
        return STATUS_OK;
    pthread_mutex_lock(&loader->lock);
    enum status status = check_skip(loader, err);
    if (status == STATUS_OK) {
        atomic_store(&loader->cursor, cursor_of(service, epoch, step));
        status = loader_say_skip(loader, from, err);
        if (status != STATUS_OK) {
            atomic_store(&loader->cursor, before);
        } else {
            loader->skipped_to = cursor_of(service, epoch, step);
            if (loader->trained != UINT64_MAX)
                loader->trained = loader->skipped_to;
            loader_note_released(loader);
        }
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

enum status loader_wait_for_releases(struct loader *loader, struct error *err)
{
    return wakeup_new(&loader->freed_fd, err);
}

struct loader_stats loader_stats(struct loader *loader)
{
    struct loader_stats stats = {.batches = atomic_load(&loader->batches),
                                 .samples = atomic_load(&loader->samples),
                                 .bytes = atomic_load(&loader->bytes),
                                 .waits = atomic_load(&loader->waits),
                                 .wait_ns = atomic_load(&loader->wait_ns),
                                 .reconnects = atomic_load(&loader->reconnects)};
    pthread_mutex_lock(&loader->lock);
    for (struct attached_ring *at = loader->attached; at; at = at->older) {
        uint64_t head = atomic_load(&at->connection.ring.control->head);
        uint64_t taken = at == loader->attached ? atomic_load(&loader->taken) : head;
        stats.leased += atomic_load(&at->leased);
        stats.ready += head > taken ? (uint32_t)(head - taken) : 0;
    }
    pthread_mutex_unlock(&loader->lock);
    return stats;
}

/* `reason`: NULL, or of a trainer that fails, whom another is to replace. */
static void leave(struct loader *loader, const char *reason)
{
    pthread_mutex_lock(&loader->lock);
    bool before = atomic_load(&loader->left);
    if (!before && reason)
        error_set(&loader->failure, STATUS_LOST, "%s", reason);
    atomic_store(&loader->left, true);
    if (!before && !reason)
        cursor_file_remove(loader->cursor_file);
    if (!before)
        loader_send_farewell(loader);
    pthread_mutex_unlock(&loader->lock);
    if (!before)
        wakeup_signal(loader->wake_fd);
    if (!before && loader->trace) /* a binding may close much later, or never */
        write_trace(loader);
}

void loader_leave(struct loader *loader)
{
    leave(loader, NULL);
}

void loader_fail(struct loader *loader, const char *reason)
{
    leave(loader, reason);
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    trace_release(loader->trace);
    free(loader->trace_path);
    for (struct attached_ring *attached = loader->attached, *older; attached; attached = older) {
        older = attached->older;
        loader_detach(loader, attached);
    }
    dial_done(&loader->dial);
    handout_done(&loader->handout);
    cursor_page_done(&loader->page);
    cursor_file_close(loader->cursor_file);
    if (loader->wake_fd >= 0)
        close(loader->wake_fd);
    if (loader->freed_fd >= 0)
        close(loader->freed_fd);
    pthread_mutex_destroy(&loader->lock);
    free((char *)loader->options.run_dir);
    free(loader);
}
