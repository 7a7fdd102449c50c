/* See loader.h, and ring.h for how the two ends wake each other. */
#include "client/loader.h"

#include "base/clock.h"
#include "client/cursor_file.h"
#include "delivery/cursor_page.h"
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

/* What a slot holds. The stamp is 2s+1 while the batch of sequence s is leased and 2s+2 once it is
 * released, so that a slot's lives are never confused. Epoch and step are atomic only for a wrong
 * caller's sake: one that releases a batch twice may do so while the slot gets its next one. */
struct lease {
    _Atomic uint64_t stamp;
    _Atomic uint64_t epoch, step;
};

/* A ring and what is leased of it. */
struct attached_ring {
    struct connection connection; /* of an old one, the ring alone */
    uint64_t start;               /* cursor of its first slot */
    uint64_t first;               /* cursor of the first that was not passed over */
    struct lease *leases;         /* [slot_count] */
    uint32_t spare_slots;         /* of slot_count */
    _Atomic uint32_t leased;      /* slots */
    bool vacated; /* nothing comes any more: what is not leased has been given back */
    struct attached_ring *older; /* that something is leased of still */
};

struct loader {
    struct dial_options options;      /* strings are owned */
    char state[PROTOCOL_STATE_BYTES]; /* that the reader is told */
    struct ring_header header;        /* of the first reader; checked private copy */
    uint64_t end;                     /* the cursor behind the last step: a cursor is epoch *
                                         steps_per_epoch + step */
    _Atomic uint64_t cursor;          /* of the next batch for the trainer */
    uint64_t expected;                /* cursor of the next slot in the ring, at most `cursor` */
    uint64_t taken;                   /* slots of the ring seen so far */
    uint64_t reconnect_ms;
    bool lost;    /* the reader is gone: there is no more than what is published */
    bool dialing; /* for another one */
    bool ended;   /* END came: what is published is all there is */
    bool said_done;
    struct dial dial;
    struct cursor_page page;         /* that readers see */
    struct cursor_file *cursor_file; /* NULL: none */
    struct error final;              /* status is OK as long as batches may come */
    int wake_fd;                     /* eventfd: loader_leave() was called */
    _Atomic bool left;
    struct error failure; /* why it has left, if it has failed; set before `left` */
    pthread_mutex_t lock; /* on `attached` for all but loader_next()'s reading it, on older ones,
                             and on leaving */
    struct attached_ring *attached;
};

static void attached_ring_free(struct attached_ring *attached)
{
    if (!attached)
        return;
    connection_done(&attached->connection);
    free(attached->leases);
    free(attached);
}

static uint64_t cursor_of(const struct ring_service *service, uint64_t epoch, uint64_t step)
{
    return epoch * service->steps_per_epoch + step;
}

struct protocol_welcome loader_cursor(const struct loader *loader)
{
    uint64_t cursor = atomic_load(&loader->cursor), steps = loader->header.service.steps_per_epoch;
    return (struct protocol_welcome){.epoch = cursor / steps, .step = cursor % steps};
}

/* A goodbye, or why there is none. Under the lock. */
static void send_farewell(struct loader *loader)
{
    struct protocol_welcome cursor = loader_cursor(loader);
    struct protocol_message farewell = {.type = PROTOCOL_GOODBYE,
                                        .goodbye = {.epoch = cursor.epoch, .step = cursor.step}};
    if (loader->failure.status)
        farewell = (struct protocol_message){.type = PROTOCOL_FAIL, .fail = loader->failure};
    enum status status = protocol_send(loader->attached->connection.socket, &farewell, NULL, NULL);
    (void)status; /* a service that is gone needs none */
}

/* The cursor behind the last batch that was released, in order: older rings have earlier batches,
 * and stay only as long as something is leased of them. Under the lock. */
static uint64_t released_cursor(const struct loader *loader)
{
    const struct attached_ring *oldest = loader->attached;
    while (oldest->older)
        oldest = oldest->older;
    uint64_t cursor = oldest->start + atomic_load(&oldest->connection.ring.control->tail);
    return cursor > oldest->first ? cursor : oldest->first;
}

/* Tells the reader, or the next one, and the file of that cursor. Under the lock. */
static void note_released(struct loader *loader)
{
    struct attached_ring *attached = loader->attached;
    uint64_t cursor = released_cursor(loader);
    cursor_file_note(loader->cursor_file, cursor); /* before anybody hears of it */
    if (atomic_load(loader->page.cursor) >= cursor)
        return;
    atomic_store(loader->page.cursor, cursor);
    if (attached->connection.release_fd >= 0 &&
        atomic_load(&attached->connection.ring.control->reader_waits))
        wakeup_signal(attached->connection.release_fd);
}

/* Makes a new ring the current one. Slots leased of the one before stay mapped. */
static enum status attach(struct loader *loader, struct connection *connection,
                          const struct connection_terms *terms, struct error *err)
{
    const struct ring_service *service = &terms->header.service;
    struct attached_ring *attached = calloc(1, sizeof *attached);
    struct lease *leases = calloc(terms->header.layout.slot_count, sizeof *leases);
    if (!attached || !leases) {
        free(attached);
        free(leases);
        connection_done(connection);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a connection");
    }
    *attached = (struct attached_ring){
        .connection = *connection,
        .start = cursor_of(service, service->start_epoch, service->start_step),
        .first = atomic_load(&loader->cursor),
        .leases = leases,
        .spare_slots = terms->header.layout.spare_slots};
    loader->reconnect_ms = terms->reconnect_ms;
    loader->expected = attached->start;
    loader->taken = 0;
    loader->lost = loader->ended = loader->said_done = false;
    pthread_mutex_lock(&loader->lock);
    struct attached_ring *old = loader->attached;
    loader->attached = attached;
    if (old && atomic_load(&old->leased) > 0) {
        connection_hang_up(&old->connection);
        attached->older = old;
    } else if (old) {
        attached->older = old->older;
        attached_ring_free(old);
    }
    note_released(loader);
    if (atomic_load(&loader->left))
        send_farewell(loader);
    pthread_mutex_unlock(&loader->lock);
    return STATUS_OK;
}

static enum status check_start(const struct connection_terms *terms, uint64_t cursor,
                               struct error *err)
{
    const struct ring_service *service = &terms->header.service;
    const struct protocol_welcome *welcome = &terms->welcome;
    uint64_t start = cursor_of(service, service->start_epoch, service->start_step);
    if (service->epochs > UINT64_MAX / service->steps_per_epoch || start > cursor ||
        cursor != cursor_of(service, welcome->epoch, welcome->step) ||
        cursor > cursor_of(service, service->epochs, 0))
        return error_set(err, STATUS_PROTOCOL,
                         "the service starts at epoch %" PRIu64 " step %" PRIu64
                         " and this trainer at epoch %" PRIu64 " step %" PRIu64
                         ", not where it should",
                         service->start_epoch, service->start_step, welcome->epoch, welcome->step);
    return STATUS_OK;
}

/* What penstock_describe() says is constant, so a service that differs is not the same one. */
static enum status check_same(const struct ring_header *before, const struct ring_header *now,
                              struct error *err)
{
    const struct ring_layout *a = &before->layout, *b = &now->layout;
    const struct ring_service *s = &before->service, *t = &now->service;
    const char *what = NULL;
    if (order_check_same(&s->order, &t->order, err))
        return error_prefix(err, STATUS_REFUSED,
                            "the service that came back is not the one that was lost: ");
    if (a->field_count != b->field_count ||
        memcmp(a->fields, b->fields, a->field_count * sizeof a->fields[0]) != 0)
        what = "other fields";
    else if (a->batch_size != b->batch_size)
        what = "another batch size";
    else if (a->slot_count - a->spare_slots != b->slot_count - b->spare_slots)
        what = "another delivery.slots";
    else if (s->steps_per_epoch != t->steps_per_epoch || s->epochs != t->epochs)
        what = "another number of steps or epochs";
    if (what)
        return error_set(err, STATUS_REFUSED,
                         "the service that came back is not the one that was lost: it has %s; "
                         "restart the trainers, too",
                         what);
    return STATUS_OK;
}

/* The trainer asks for more than there is: it may hold its last batches still, but does not come
 * again for them. The others may not be so far. */
static void say_done(struct loader *loader)
{
    struct protocol_message done = {.type = PROTOCOL_DONE};
    if (atomic_load(&loader->cursor) < loader->end || loader->lost || loader->said_done)
        return;
    loader->said_done = true;
    enum status status = protocol_send(loader->attached->connection.socket, &done, NULL, NULL);
    (void)status; /* a reader that is gone is found when it is heard */
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

/* A process that comes fresh goes on where one before it was, if that can still be told. */
static bool take_up_cursor(struct loader *loader)
{
    struct ring_service service;
    uint64_t cursor;
    if (loader->options.wish != WISH_FRESH || !loader->options.cursors ||
        !cursor_file_read(loader->options.cursors, loader->options.rank, &service, &cursor))
        return false;
    order_print_state(&service.order, cursor / service.steps_per_epoch,
                      cursor % service.steps_per_epoch, loader->state, sizeof loader->state);
    loader->options.state = loader->state;
    loader->options.wish = WISH_CONTINUE;
    atomic_store(loader->page.cursor, cursor);
    return true;
}

static enum status connect_first(struct loader *loader, struct error *err)
{
    bool over, found = take_up_cursor(loader);
    struct connection connection;
    struct connection_terms terms;
    dial_begin(&loader->dial, &loader->options);
    enum status status =
        dial_continue(&loader->dial, UINT64_MAX, -1, &over, &connection, &terms, err);
    if (status == STATUS_REFUSED && found)
        return error_prefix(err, status,
                            "with the cursor in '%s%" PRIu32 "': ", loader->options.cursors,
                            loader->options.rank);
    if (status)
        return status;
    const struct ring_service *service = &terms.header.service;
    uint64_t cursor = cursor_of(service, terms.welcome.epoch, terms.welcome.step);
    status = check_start(&terms, cursor, err);
    if (status) {
        connection_done(&connection);
        return status;
    }
    loader->header = terms.header;
    loader->end = cursor_of(service, service->epochs, 0);
    atomic_store(&loader->cursor, cursor);
    if (loader->options.cursors)
        loader->cursor_file =
            cursor_file_open(loader->options.cursors, loader->options.rank, service, cursor);
    return attach(loader, &connection, &terms, err);
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
        status = connect_first(loader, err);
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

/* No more batches. TIMEOUT would say that there may be. */
static void set_final(struct loader *loader, const struct error *error)
{
    loader->final = *error;
    if (error->status == STATUS_TIMEOUT)
        loader->final.status = STATUS_LOST;
}

/* The socket is closed: the reader is gone, or wants us to come again. */
static void lose_reader(struct loader *loader)
{
    loader->lost = loader->reconnect_ms > 0;
    if (!loader->lost)
        error_set(&loader->final, STATUS_LOST,
                  "the reader on this node went away without an end or an error: it crashed or "
                  "was killed; see its output, and restart with --resume");
}

/* All trainers of the run have their last batch: nobody can get one again. */
static void hear_end(struct loader *loader)
{
    loader->ended = true;
    if (atomic_load(&loader->cursor) >= loader->end)
        cursor_file_note(loader->cursor_file, loader->end);
}

/* Reads what the service said. Final statuses are kept in loader->final. */
static void hear_service(struct loader *loader)
{
    while (!loader->ended && !loader->lost && loader->final.status == STATUS_OK) {
        struct protocol_message message;
        struct error error;
        enum status status =
            protocol_receive(loader->attached->connection.socket, &message, NULL, &error);
        if (status == STATUS_TIMEOUT)
            return;
        if (status == STATUS_LOST)
            lose_reader(loader);
        else if (status)
            set_final(loader, &error);
        else if (message.type == PROTOCOL_END)
            hear_end(loader);
        else if (message.type == PROTOCOL_FAIL)
            set_final(loader, &message.fail);
        else if (message.type != PROTOCOL_WAIT)
            error_set(&loader->final, STATUS_PROTOCOL,
                      "the service sent message %" PRIu32 " during delivery", message.type);
    }
}

/* Steps come one after another. In a full step every trainer's share begins at its rank's offset.
 */
static enum status check_slot(const struct loader *loader, const struct slot_header *slot,
                              struct error *err)
{
    const struct ring_layout *layout = &loader->header.layout;
    const struct ring_service *service = &loader->header.service;
    if (slot->sample_count > layout->batch_size || slot->step >= service->steps_per_epoch)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: a batch of %" PRIu32 " samples at epoch %" PRIu64 " step %" PRIu64
                         "; at most %" PRIu32 " samples and %" PRIu64 " steps are possible",
                         slot->sample_count, slot->epoch, slot->step, layout->batch_size,
                         service->steps_per_epoch);
    if (slot->epoch >= service->epochs ||
        cursor_of(service, slot->epoch, slot->step) != loader->expected)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the batch of epoch %" PRIu64 " step %" PRIu64
                         " came where that of epoch %" PRIu64 " step %" PRIu64 " should",
                         slot->epoch, slot->step, loader->expected / service->steps_per_epoch,
                         loader->expected % service->steps_per_epoch);
    uint64_t first = (uint64_t)service->rank * layout->batch_size;
    if (slot->step + 1 < service->steps_per_epoch && slot->first_position != first)
        return error_set(err, STATUS_PROTOCOL,
                         "ring: the batch of epoch %" PRIu64 " step %" PRIu64
                         " begins at position %" PRIu32 " of the step, not at %" PRIu64,
                         slot->epoch, slot->step, slot->first_position, first);
    return STATUS_OK;
}

static bool published(const struct loader *loader)
{
    return atomic_load(&loader->attached->connection.ring.control->head) != loader->taken;
}

/* Takes the next slot if one is published. */
static bool take_slot(struct loader *loader, struct loader_batch *ret_batch)
{
    struct ring *ring = &loader->attached->connection.ring;
    uint64_t head = atomic_load(&ring->control->head);
    if (head == loader->taken)
        return false;
    uint64_t sequence = loader->taken;
    struct loader_batch batch = {.memory = ring_slot(ring, sequence),
                                 .slot = (uint32_t)(sequence % ring->slot_count)};
    struct error error = {0};
    if (head < sequence || head - sequence > ring->slot_count) {
        error_set(&error, STATUS_PROTOCOL,
                  "ring: head is %" PRIu64 " where %" PRIu64 " batches were taken", head, sequence);
    } else {
        memcpy(&batch.header, batch.memory, sizeof batch.header);
        enum status status = check_slot(loader, &batch.header, &error);
        (void)status; /* it is in error */
    }
    if (error.status) {
        loader->final = error;
        return false;
    }
    loader->taken++;
    loader->expected++;
    *ret_batch = batch;
    return true;
}

/* Moves the tail over everything that is released. Any number of threads; each slot is passed by
 * exactly one. */
static void advance_tail(struct attached_ring *attached)
{
    struct ring *ring = &attached->connection.ring;
    _Atomic uint64_t *shared_tail = &ring->control->tail;
    bool moved = false;
    for (;;) {
        uint64_t tail = atomic_load(shared_tail);
        struct lease *oldest = &attached->leases[tail % ring->slot_count];
        if (atomic_load(&oldest->stamp) != 2 * tail + 2)
            break;
        moved |= atomic_compare_exchange_strong(shared_tail, &tail, tail + 1);
    }
    if (moved && attached->connection.release_fd >= 0 && atomic_load(&ring->control->reader_waits))
        wakeup_signal(attached->connection.release_fd);
}

/* A batch that the trainer had before: nobody is to wait for it. */
static void pass_over(struct loader *loader, struct lease *lease, uint64_t sequence)
{
    pthread_mutex_lock(&loader->lock);
    atomic_store(&lease->stamp, 2 * sequence + 2);
    advance_tail(loader->attached);
    pthread_mutex_unlock(&loader->lock);
}

/* Takes the next slot for the trainer; passes over those that it does not need again. */
static bool take(struct loader *loader, struct loader_batch *ret_batch)
{
    struct loader_batch batch;
    struct attached_ring *attached = loader->attached;
    while (take_slot(loader, &batch)) {
        uint64_t sequence = loader->taken - 1;
        struct lease *lease = &attached->leases[batch.slot];
        if (loader->expected <= atomic_load(&loader->cursor)) {
            pass_over(loader, lease, sequence);
            continue;
        }
        atomic_store_explicit(&lease->epoch, batch.header.epoch, memory_order_relaxed);
        atomic_store_explicit(&lease->step, batch.header.step, memory_order_relaxed);
        atomic_fetch_add(&attached->leased, 1);
        atomic_store(&lease->stamp, 2 * sequence + 1);
        atomic_store(&loader->cursor, loader->expected);
        *ret_batch = batch;
        return true;
    }
    return false;
}

/* Sleeps until a publish, a word from the service, or the deadline (UINT64_MAX: none). */
static enum status sleep_until(struct loader *loader, uint64_t deadline, struct error *err)
{
    struct connection *connection = &loader->attached->connection;
    enum status status = STATUS_OK;
    atomic_store(&connection->ring.control->trainer_waits, 1);
    if (!published(loader)) {
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

/* The slots that a trainer may count on. */
static uint32_t slots_to_lease(const struct loader *loader)
{
    return loader->attached->connection.ring.slot_count - loader->attached->spare_slots;
}

/* The batch that keeps the ring from moving, even when later ones are released: the oldest leased
 * one, if as many batches have been taken since as a trainer may hold, and more are to come. NULL
 * if there is none. */
static const struct lease *obstacle(const struct loader *loader)
{
    if (loader->lost || atomic_load(&loader->cursor) == loader->end)
        return NULL;
    const struct ring *ring = &loader->attached->connection.ring;
    uint64_t tail = atomic_load(&ring->control->tail);
    const struct lease *oldest = &loader->attached->leases[tail % ring->slot_count];
    bool leased = atomic_load(&oldest->stamp) == 2 * tail + 1;
    return leased && loader->taken - tail >= slots_to_lease(loader) ? oldest : NULL;
}

static enum status all_leased(const struct loader *loader, const struct lease *oldest,
                              struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "all %" PRIu32 " slots are taken and the oldest batch, epoch %" PRIu64
                     " step %" PRIu64 ", is not released: release it before asking for another, or "
                     "raise delivery.slots",
                     slots_to_lease(loader), atomic_load(&oldest->epoch),
                     atomic_load(&oldest->step));
}

/* All that was published has been taken, and the reader makes another ring once it has heard of all
 * trainers: what is not leased makes room for that. */
static void vacate(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    struct attached_ring *attached = loader->attached;
    attached->vacated = true;
    for (uint32_t slot = 0; slot < attached->connection.ring.slot_count; slot++)
        if (atomic_load(&attached->leases[slot].stamp) % 2 == 0)
            ring_give_back(&attached->connection.ring, slot);
    pthread_mutex_unlock(&loader->lock);
}

/* Looks for a reader again. OK: there is one, or there was no time, or loader_leave() was called;
 * otherwise the error is final. */
static enum status find_reader(struct loader *loader, uint64_t deadline, struct error *err)
{
    if (!loader->dialing) {
        vacate(loader);
        struct protocol_welcome cursor = loader_cursor(loader);
        order_print_state(&loader->header.service.order, cursor.epoch, cursor.step, loader->state,
                          sizeof loader->state);
        loader->options.state = loader->state;
        loader->options.wish = WISH_CONTINUE;
        loader->options.timeout_ms = (int64_t)loader->reconnect_ms;
        dial_begin(&loader->dial, &loader->options);
        loader->dialing = true;
    }
    bool over;
    struct connection connection;
    struct connection_terms terms;
    enum status status =
        dial_continue(&loader->dial, deadline, loader->wake_fd, &over, &connection, &terms, err);
    if (!over)
        return STATUS_OK;
    loader->dialing = false;
    if (status == STATUS_NOT_FOUND)
        status = STATUS_LOST;
    if (status)
        return error_prefix(err, status, "the reader on this node went away: ");
    status = check_same(&loader->header, &terms.header, err);
    if (!status)
        status = check_start(&terms, atomic_load(&loader->cursor), err);
    if (status) {
        connection_done(&connection);
        return status;
    }
    return attach(loader, &connection, &terms, err);
}

/* One turn of loader_next() where nothing could be taken: sleeps until something may have changed.
 * A failure is final, unless INVALID. */
static enum status wait_for_more(struct loader *loader, uint64_t deadline, struct error *err)
{
    if (loader->lost) {
        struct error error;
        bool had_all = atomic_load(&loader->cursor) == loader->end;
        if (find_reader(loader, deadline, &error)) {
            loader->ended = had_all; /* it looked for a reader for the others' sake */
            if (!had_all)
                set_final(loader, &error);
        }
        return STATUS_OK;
    }
    const struct lease *oldest = obstacle(loader);
    return oldest ? all_leased(loader, oldest, err) : sleep_until(loader, deadline, err);
}

static void say_end(struct loader *loader)
{
    struct protocol_welcome cursor = loader_cursor(loader);
    if (atomic_load(&loader->cursor) >= loader->end)
        error_set(&loader->final, STATUS_ENDED, "all epochs are consumed");
    else
        error_set(&loader->final, STATUS_ENDED,
                  "the service was told to stop, and has, for all trainers, before epoch %" PRIu64
                  " step %" PRIu64,
                  cursor.epoch, cursor.step);
}

enum status loader_next(struct loader *loader, int64_t timeout_ms, struct loader_batch *ret_batch,
                        struct error *err)
{
    uint64_t deadline = clock_deadline_ns(timeout_ms);
    for (bool waited = false;; waited = true) {
        hear_service(loader);
        if (atomic_load(&loader->left) && !loader->final.status)
            error_set(&loader->final, STATUS_ENDED, "this trainer has said goodbye");
        if (!loader->final.status && take(loader, ret_batch))
            return STATUS_OK;
        if (!loader->final.status && loader->ended)
            say_end(loader);
        if (!loader->final.status)
            say_done(loader);
        if (loader->final.status) {
            if (err)
                *err = loader->final;
            return (enum status)loader->final.status;
        }
        bool late = deadline != UINT64_MAX && clock_now_ns() >= deadline;
        if (late && (waited || !loader->lost)) {
            const struct lease *oldest = obstacle(loader);
            return oldest ? all_leased(loader, oldest, err)
                          : error_set(
                                err, STATUS_TIMEOUT, "no batch within %" PRId64 " ms%s", timeout_ms,
                                loader->lost ? ": the reader went away, and is not back yet" : "");
        }
        enum status status = wait_for_more(loader, deadline, err);
        if (status)
            return status;
    }
}

/* False: this ring's slot does not hold the batch. */
static bool give_up(struct attached_ring *attached, uint32_t slot, uint64_t epoch, uint64_t step)
{
    if (slot >= attached->connection.ring.slot_count)
        return false;
    struct lease *lease = &attached->leases[slot];
    uint64_t stamp = atomic_load(&lease->stamp);
    bool ours =
        stamp % 2 == 1 && atomic_load(&lease->epoch) == epoch && atomic_load(&lease->step) == step;
    if (!ours || !atomic_compare_exchange_strong(&lease->stamp, &stamp, stamp + 1))
        return false;
    advance_tail(attached);
    if (attached->vacated)
        ring_give_back(&attached->connection.ring, slot);
    atomic_fetch_sub(&attached->leased, 1);
    return true;
}

enum status loader_release(struct loader *loader, uint32_t slot, uint64_t epoch, uint64_t step,
                           struct error *err)
{
    pthread_mutex_lock(&loader->lock);
    struct attached_ring **at = &loader->attached, *done = NULL;
    while (*at && !give_up(*at, slot, epoch, step))
        at = &(*at)->older;
    bool found = *at != NULL;
    if (found && *at != loader->attached && atomic_load(&(*at)->leased) == 0) {
        done = *at;
        *at = done->older;
    }
    if (found)
        note_released(loader);
    pthread_mutex_unlock(&loader->lock);
    attached_ring_free(done);
    if (found)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "the batch of epoch %" PRIu64 " step %" PRIu64
                     " is not leased: it was released before",
                     epoch, step);
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
        send_farewell(loader);
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
