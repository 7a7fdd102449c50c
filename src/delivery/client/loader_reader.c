/* The loader's reader: connects to the first reader, hears its messages, and connects to another
 * one when it is gone. */
#include "delivery/client/loader_internal.h"

#include "base/clock.h"
#include "delivery/ring/protocol.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Makes a new ring the current one. Slots leased of the one before stay mapped. */
static enum status attach(struct loader *loader, struct connection *connection,
                          const struct connection_terms *terms, struct error *err)
{
    const struct ring_service *service = &terms->header.service;
    uint64_t start = cursor_of(service, service->start_epoch, service->start_step);
    struct attached_ring *attached;
    enum status status = attached_ring_new(connection, &terms->header.layout, &attached, err);
    if (status != STATUS_OK)
        return status;
    loader->reconnect_ms = terms->reconnect_ms;
    loader->expected = start;
    loader->lost = loader->ended = loader->said_done = loader->told_skip = false;
    pthread_mutex_lock(&loader->lock);
    struct attached_ring *old = loader->attached, *done = NULL;
    loader->attached = attached;
    atomic_store_explicit(&loader->taken, 0, memory_order_relaxed);
    attached->generation = old ? old->generation + 1 : 1;
    if (old && atomic_load(&old->leased) > 0) {
        connection_hang_up(&old->connection);
        attached->older = old;
    } else if (old) {
        attached->older = old->older;
        done = old;
    }
    loader_note_released(loader);
    if (atomic_load(&loader->left))
        loader_send_farewell(loader);
    pthread_mutex_unlock(&loader->lock);
    loader_detach(loader, done);
    loader_tell_attached(loader);
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
static enum status check_same(const struct loader *loader, const struct connection_terms *terms,
                              struct error *err)
{
    const struct ring_header *before = &loader->header, *now = &terms->header;
    const struct ring_layout *a = &before->layout, *b = &now->layout;
    const struct ring_service *s = &before->service, *t = &now->service;
    const char *what = NULL;
    if (order_check_same(&s->order, &t->order, err) != STATUS_OK)
        return error_prefix(err, STATUS_REFUSED,
                            "the service that came back is not the one that was lost: ");
    if (a->field_count != b->field_count ||
        memcmp(a->fields, b->fields, a->field_count * sizeof a->fields[0]) != 0)
        what = "other fields";
    else if (a->batch_size != b->batch_size)
        what = "another batch size";
    else if (a->slot_count - a->spare_slots != b->slot_count - b->spare_slots)
        what = "another delivery.slots";
    else if (s->order.locality != t->order.locality)
        what = "another locality";
    else if (s->steps_per_epoch != t->steps_per_epoch || s->epochs != t->epochs)
        what = "another number of steps or epochs";
    else if (!handout_same(&loader->handout, &terms->handout))
        what = "other constants or attributes";
    if (what)
        return error_set(err, STATUS_REFUSED,
                         "the service that came back is not the one that was lost: it has %s; "
                         "restart the trainers, too",
                         what);
    return STATUS_OK;
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

/* False: the process that has the cursor file still lives. */
static bool begin_connecting(struct loader *loader, uint64_t until_ns)
{
    enum { DEATH_MS = 5000 };
    const char *cursors = loader->options.cursors;
    if (loader->patience_ns == 0)
        loader->patience_ns = clock_deadline_ns(DEATH_MS);
    uint64_t patience = loader->patience_ns < until_ns ? loader->patience_ns : until_ns;
    if (cursors && !cursor_file_await(cursors, loader->options.rank, patience) &&
        clock_now_ns() < loader->patience_ns)
        return false;
    loader->takes_up = take_up_cursor(loader);
    dial_begin(&loader->dial, &loader->options);
    return loader->dialing = true;
}

/* The first reader has delivered its ring: takes `connection`, and what is owned in `terms`. */
static enum status take_first_ring(struct loader *loader, struct connection *connection,
                                   const struct connection_terms *terms, struct error *err)
{
    const struct ring_service *service = &terms->header.service;
    uint64_t cursor = cursor_of(service, terms->welcome.epoch, terms->welcome.step);
    enum status status = check_start(terms, cursor, err);
    loader->handout = terms->handout; /* freed with the loader */
    if (status != STATUS_OK) {
        connection_done(connection);
        return status;
    }
    loader->header = terms->header;
    loader->rank = terms->rank;
    loader->end = cursor_of(service, service->epochs, 0);
    atomic_store(&loader->cursor, cursor);
    if (loader->options.cursors)
        loader->cursor_file =
            cursor_file_open(loader->options.cursors, loader->options.rank, service, cursor);
    return attach(loader, connection, terms, err);
}

/* Who failed to connect to what, as far as the message does not say so. */
static void name_trainer(const struct dial_options *options, struct error *err)
{
    char rank[32] = "", run_dir[300] = "";
    if (!err)
        return;
    if (!strstr(err->message, "trainer "))
        snprintf(rank, sizeof rank, "trainer %" PRIu32, options->rank);
    if (!strstr(err->message, options->run_dir))
        snprintf(run_dir, sizeof run_dir, "run directory '%s'", options->run_dir);
    if (*rank || *run_dir)
        error_prefix(err, (enum status)err->status, "%s%s%s: ", rank, *rank && *run_dir ? ", " : "",
                     run_dir);
}

enum status loader_connect(struct loader *loader, uint64_t until_ns, bool *ret_connected,
                           struct error *err)
{
    bool over;
    struct connection connection;
    struct connection_terms terms;
    *ret_connected = false;
    if (!loader->dialing && !begin_connecting(loader, until_ns))
        return STATUS_OK;
    enum status status =
        dial_continue(&loader->dial, until_ns, -1, &over, &connection, &terms, err);
    if (!over)
        return STATUS_OK;
    loader->dialing = false;
    if (status == STATUS_REFUSED && loader->takes_up)
        return error_prefix(err, status,
                            "with the cursor in '%s%" PRIu32 "': ", loader->options.cursors,
                            loader->options.rank);
    if (status == STATUS_OK)
        status = take_first_ring(loader, &connection, &terms, err);
    if (status != STATUS_OK && !loader->dial.told)
        name_trainer(&loader->options, err);
    *ret_connected = status == STATUS_OK;
    return status;
}

/* The socket is closed: the reader is gone, or wants the trainer to connect again. */
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

void loader_hear(struct loader *loader)
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
        else if (status != STATUS_OK)
            loader_set_final(loader, &error);
        else if (message.type == PROTOCOL_END)
            hear_end(loader);
        else if (message.type == PROTOCOL_FAIL)
            loader_set_final(loader, &message.fail);
        else if (message.type != PROTOCOL_WAIT)
            error_set(&loader->final, STATUS_PROTOCOL,
                      "the service sent message %" PRIu32 " during delivery", message.type);
    }
}

void loader_say_done(struct loader *loader)
{
    struct protocol_message done = {.type = PROTOCOL_DONE};
    if (atomic_load(&loader->cursor) < loader->end || loader->lost || loader->said_done)
        return;
    loader->said_done = true;
    enum status status = protocol_send(loader->attached->connection.socket, &done, NULL, NULL);
    (void)status; /* a reader that is gone is found when it is heard */
}

enum { SKIP_PATIENCE_MS = 60000 };

enum status loader_say_skip(struct loader *loader, struct protocol_welcome from, struct error *err)
{
    struct protocol_welcome to = loader_cursor(loader);
    struct protocol_message skip = {
        .type = PROTOCOL_SKIP,
        .skip = {
            .from_epoch = from.epoch, .from_step = from.step, .epoch = to.epoch, .step = to.step}};
    if (loader->lost || loader->ended)
        return STATUS_OK;
    enum status status = protocol_send(loader->attached->connection.socket, &skip, NULL, err);
    loader->told_skip |= status == STATUS_OK;
    bool has_reserve = loader->header.service.epochs >= RING_ENDLESS_EPOCHS;
    loader->skip_deadline_ns = has_reserve ? clock_deadline_ns(SKIP_PATIENCE_MS) : 0;
    return status == STATUS_TIMEOUT ? status : STATUS_OK;
}

void loader_send_farewell(struct loader *loader)
{
    struct protocol_welcome cursor = loader_cursor(loader);
    struct protocol_message farewell = {.type = PROTOCOL_GOODBYE,
                                        .goodbye = {.epoch = cursor.epoch, .step = cursor.step}};
    if (loader->failure.status != STATUS_OK)
        farewell = (struct protocol_message){.type = PROTOCOL_FAIL, .fail = loader->failure};
    enum status status = protocol_send(loader->attached->connection.socket, &farewell, NULL, NULL);
    (void)status; /* a service that is gone needs none */
}

/* The trainer asks to go on where it is. */
static void begin_dialing(struct loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    attached_ring_vacate(loader->attached);
    bool leaves = attached_ring_takes_leave(loader->attached);
    pthread_mutex_unlock(&loader->lock);
    if (leaves)
        loader_tell_detaching(loader, loader->attached);
    struct protocol_welcome cursor = loader_cursor(loader);
    order_print_state(&loader->header.service.order, cursor.epoch, cursor.step, loader->state,
                      sizeof loader->state);
    loader->options.state = loader->state;
    loader->options.wish = WISH_CONTINUE;
    loader->options.timeout_ms = (int64_t)loader->reconnect_ms;
    dial_begin(&loader->dial, &loader->options);
    loader->dialing = true;
}

enum status loader_reconnect(struct loader *loader, uint64_t deadline, struct error *err)
{
    if (!loader->dialing)
        begin_dialing(loader);
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
    if (status != STATUS_OK)
        return error_prefix(err, status, "the reader on this node went away: ");
    status = check_same(loader, &terms, err);
    handout_done(&terms.handout); /* the first one stays */
    if (status == STATUS_OK)
        status = check_start(&terms, atomic_load(&loader->cursor), err);
    if (status != STATUS_OK) {
        connection_done(&connection);
        return status;
    }
    atomic_fetch_add(&loader->reconnects, 1);
    return attach(loader, &connection, &terms, err);
}
