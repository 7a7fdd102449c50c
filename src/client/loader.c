/* See loader.h. ring.h says how trainer and reader wake each other. */
#include "client/loader_internal.h"

#include "base/clock.h"
#include "delivery/protocol.h"
#include "delivery/wakeup.h"

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
    if (options->state) {
        if ((size_t)snprintf(loader->state, sizeof loader->state, "%s", options->state) >=
            sizeof loader->state)
            return error_set(err, STATUS_INVALID, "the state has %zu bytes; at most %zu are sent",
                             strlen(options->state), sizeof loader->state - 1);
        loader->options.state = loader->state;
    }
    enum status status = cursor_page_new(&loader->page, err);
    loader->options.page_fd = loader->page.memfd;
    return status ? status : wakeup_new(&loader->wake_fd, err);
}

enum status loader_open(const struct dial_options *options, struct loader **ret_loader,
                        struct error *err)
{
    struct loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    loader->wake_fd = loader->dial.socket = -1;
    pthread_mutex_init(&loader->lock, NULL);
    enum status status = own_options(loader, options, err);
    if (!status)
        status = loader_connect(loader, err);
    if (status) {
        loader_close(loader);
        return status;
    }
    *ret_loader = loader;
    return STATUS_OK;
}

const struct ring_header *loader_header(const struct loader *loader)
{
    return &loader->header;
}

void loader_set_final(struct loader *loader, const struct error *error)
{
    loader->final = *error;
    if (error->status == STATUS_TIMEOUT)
        loader->final.status = STATUS_LOST;
}

/* Sleeps until a publish, a word from the service, or the deadline (UINT64_MAX: none). */
static enum status sleep_until(struct loader *loader, uint64_t deadline, struct error *err)
{
    struct connection *connection = &loader->attached->connection;
    enum status status = STATUS_OK;
    atomic_store(&connection->ring.control->trainer_waits, 1);
    if (!loader_sees_batch(loader)) {
        uint64_t now = clock_now_ns();
        uint64_t left = deadline > now ? deadline - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000u),
                                   .tv_nsec = (long)(left % 1000000000u)};
        /* Once the end is known, the socket has nothing to say and may be hung up. */
        struct pollfd fds[] = {{.fd = connection->publish_fd, .events = POLLIN},
                               {.fd = loader->wake_fd, .events = POLLIN},
                               {.fd = loader->ended ? -1 : connection->socket, .events = POLLIN}};
        if (ppoll(fds, 3, deadline == UINT64_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
            status = error_set_errno(err, STATUS_IO, "poll");
    }
    atomic_store(&connection->ring.control->trainer_waits, 0);
    wakeup_drain(connection->publish_fd);
    return status;
}

/* One turn of loader_next() where nothing could be taken: sleeps until something may have changed.
 * A failure is final, unless INVALID. */
static enum status wait_for_more(struct loader *loader, uint64_t deadline, struct error *err)
{
    if (loader->lost) {
        struct error error;
        bool had_all = atomic_load(&loader->cursor) == loader->end;
        if (loader_reconnect(loader, deadline, &error)) {
            loader->ended = had_all; /* it had all its batches, and looked for a reader only so that
                                      * others are not kept waiting */
            if (!had_all)
                loader_set_final(loader, &error);
        }
        return STATUS_OK;
    }
    enum status status = loader_check_leases(loader, err);
    return status ? status : sleep_until(loader, deadline, err);
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

enum status loader_next(struct loader *loader, int64_t timeout_ms, struct loader_batch *ret_batch,
                        struct error *err)
{
    uint64_t deadline = clock_deadline_ns(timeout_ms);
    for (bool waited = false;; waited = true) {
        loader_hear(loader);
        if (atomic_load(&loader->left) && !loader->final.status)
            error_set(&loader->final, STATUS_ENDED, "this trainer has said goodbye");
        if (!loader->final.status && loader_take(loader, ret_batch))
            return STATUS_OK;
        if (!loader->final.status && loader->ended)
            say_end(loader);
        if (!loader->final.status)
            loader_say_done(loader);
        if (loader->final.status) {
            if (err)
                *err = loader->final;
            return (enum status)loader->final.status;
        }
        bool late = deadline != UINT64_MAX && clock_now_ns() >= deadline;
        if (late && (waited || !loader->lost)) {
            enum status status = loader_check_leases(loader, err);
            return status ? status
                          : error_set(
                                err, STATUS_TIMEOUT, "no batch within %" PRId64 " ms%s", timeout_ms,
                                loader->lost ? ": the reader went away, and is not back yet" : "");
        }
        enum status status = wait_for_more(loader, deadline, err);
        if (status)
            return status;
    }
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
    for (struct attached_ring *attached = loader->attached, *older; attached; attached = older) {
        older = attached->older;
        attached_ring_free(attached);
    }
    dial_done(&loader->dial);
    cursor_page_done(&loader->page);
    cursor_file_close(loader->cursor_file);
    if (loader->wake_fd >= 0)
        close(loader->wake_fd);
    pthread_mutex_destroy(&loader->lock);
    free((char *)loader->options.run_dir);
    free(loader);
}
