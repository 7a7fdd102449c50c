/* The public API of penstock.h: settles options and environment, and calls a loader. */
#include "penstock.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "delivery/client/describe.h"
#include "delivery/client/environment.h"
#include "delivery/client/loader.h"
#include "delivery/ring/end_marker.h"
#include "mesh/mesh.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 60000 };

#define SAME_STATUS(name, value, text) \
    _Static_assert((int)PENSTOCK_##name == value, "penstock.h and base/error.h must agree");
STATUS_TABLE(SAME_STATUS)
#define SAME_DTYPE(name, value, text, item_bytes, swap_bytes) \
    _Static_assert((int)PENSTOCK_##name == value, "penstock.h and base/dtype.h must agree");
DTYPE_TABLE(SAME_DTYPE)
_Static_assert((int)PENSTOCK_MESSAGE_BYTES >= (int)ERROR_MESSAGE_BYTES, "any message fits");
_Static_assert((int)PENSTOCK_MAX_RANK == (int)RING_MAX_RANK, "any shape fits");
_Static_assert((int)PENSTOCK_MAX_CUTS == (int)RING_MAX_CUT_AXES, "any cut fits");
_Static_assert((int)PENSTOCK_MAX_AXES == (int)MESH_MAX_AXES, "any mesh fits");
_Static_assert(RING_NO_SECOND == UINT64_MAX, "as penstock_cut says");
_Static_assert(sizeof((struct penstock_batch){0}.data) / sizeof(void *) == RING_MAX_FIELDS,
               "any field fits");

struct penstock {
    struct loader *loader;
    struct penstock_info info;
    struct penstock_field fields[RING_MAX_FIELDS];
    struct penstock_constant constants[HANDOUT_MAX_CONSTANTS];
    struct error error; /* of the last penstock_next(), if it failed */
    pid_t pid;          /* of the process that connects: a forked one may not go on */
    bool connected;
    struct penstock_ring_watch watch;
    bool watched;
    pthread_mutex_t lock;
    pthread_cond_t outside; /* nobody is in penstock_next() any more */
    bool inside;
};

/* Whose last call was refused to this thread because another thread was in one. */
static _Thread_local const struct penstock *refused;

/* Offsets of one step have no dimension. */
static uint64_t steps_of(const struct ring_field *fields, const struct ring_field *field)
{
    if (field->kind == RING_SAMPLES || field->kind == RING_PADDED)
        return 0;
    const struct ring_field *offsets =
        field->kind == RING_ITEMS ? &fields[field->offsets_field] : field;
    return offsets->rank > 0 ? offsets->shape[0] : 1;
}

/* A field of a member's layout has one part, its own. */
static void fill_cuts(struct penstock_field *result, const struct ring_field *field,
                      const struct ring_part *part)
{
    for (int k = 0; field->part_count > 0 && k < RING_MAX_CUT_AXES && field->cut_axes[k] > 0; k++) {
        struct penstock_cut *cut = &result->cuts[result->cut_count++];
        *cut = (struct penstock_cut){.axis = field->cut_axes[k] - 1,
                                     .whole = part->wholes[k],
                                     .begin = part->begins[k],
                                     .second = part->seconds[k],
                                     .is_torch_chunk = field->is_torch_chunk[k]};
        for (int a = 0; a < MESH_MAX_AXES && field->cut_over[k][a] > 0; a++)
            cut->over[cut->over_count++] = field->cut_over[k][a] - 1;
    }
}

struct penstock_field describe_field(const struct ring_layout *layout,
                                     const struct ring_field *field)
{
    struct penstock_field result = {.name = field->name,
                                    .dtype = (enum penstock_dtype)field->dtype,
                                    .rank = (int32_t)field->rank,
                                    .item_bytes = dtype_bytes((enum dtype)field->dtype),
                                    .sample_bytes = field->sample_bytes,
                                    .most_items = field->capacity,
                                    .offsets_field = field->offsets_field,
                                    .steps = steps_of(layout->fields, field),
                                    .is_padded = field->kind == RING_PADDED};
    for (uint32_t d = 0; d < field->rank; d++)
        result.shape[d] = field->shape[d];
    fill_cuts(&result, field, &layout->parts[field->first_part]);
    return result;
}

static struct penstock_constant constant_of(const struct handout *handout,
                                            const struct handout_item *item)
{
    struct penstock_constant result = {.name = item->name,
                                       .dtype = (enum penstock_dtype)item->dtype,
                                       .rank = (int32_t)item->rank,
                                       .item_bytes = dtype_bytes((enum dtype)item->dtype),
                                       .bytes = item->data_bytes,
                                       .data = handout->memory + item->data_offset,
                                       .attributes =
                                           (const char *)handout->memory + item->text_offset};
    for (uint32_t d = 0; d < item->rank; d++)
        result.shape[d] = item->shape[d];
    return result;
}

/* Attributes and constants, where the service hands any out. */
static void fill_handout(struct penstock *connection)
{
    const struct handout *handout = loader_handout(connection->loader);
    for (uint32_t f = 0; f < connection->info.field_count; f++)
        connection->fields[f].attributes = "{}";
    connection->info.constants = connection->constants;
    if (!handout->memory)
        return;
    const struct handout_header *header = handout_header(handout);
    for (uint32_t f = 0; f < header->field_count; f++) {
        const struct handout_item *item = handout_item(handout, f);
        for (uint32_t i = 0; i < connection->info.field_count; i++)
            if (strcmp(connection->fields[i].name, item->name) == 0)
                connection->fields[i].attributes =
                    (const char *)handout->memory + item->text_offset;
    }
    for (uint32_t i = 0; i < header->constant_count; i++)
        connection->constants[i] =
            constant_of(handout, handout_item(handout, header->field_count + i));
    connection->info.constant_count = header->constant_count;
}

static void fill_mesh(struct penstock_info *info, const struct ring_header *header)
{
    const struct mesh *mesh = &header->service.mesh;
    uint32_t coordinates[MESH_MAX_AXES];
    mesh_coordinates(mesh, info->rank, coordinates);
    info->group = header->service.group;
    info->group_count = mesh_group_count(mesh);
    info->is_shared = header->layout.member_count > 1;
    info->axis_count = mesh->axis_count;
    for (uint32_t a = 0; a < mesh->axis_count; a++)
        info->axes[a] = (struct penstock_axis){.name = mesh->axes[a].name,
                                               .size = mesh->axes[a].size,
                                               .coordinate = coordinates[a],
                                               .divides = mesh->axes[a].divides};
}

static void fill_info(struct penstock *connection)
{
    const struct ring_header *header = loader_header(connection->loader);
    const struct ring_layout *layout = &header->layout;
    const struct ring_service *service = &header->service;
    for (uint32_t f = 0; f < layout->field_count; f++)
        connection->fields[f] = describe_field(layout, &layout->fields[f]);
    connection->info =
        (struct penstock_info){.fields = connection->fields,
                               .field_count = layout->field_count,
                               .slot_count = layout->slot_count - layout->spare_slots,
                               .batch_size = layout->batch_size,
                               .rank = loader_rank(connection->loader),
                               .world_size = service->world_size,
                               .global_batch_size = service->order.global_batch,
                               .dataset_samples = service->dataset_samples,
                               .steps_per_epoch = service->steps_per_epoch,
                               .epochs = service->epochs,
                               .start_epoch = loader_cursor(connection->loader).epoch,
                               .start_step = loader_cursor(connection->loader).step,
                               .seed = service->order.seed,
                               .fingerprint = service->order.fingerprint,
                               .order_id = service->order.id};
    fill_mesh(&connection->info, header);
    fill_handout(connection);
}

/* What options may point to. */
struct settled_text {
    char state[PROTOCOL_STATE_BYTES]; /* as read from a file */
    char run_dir[256];                /* of a run with a name */
};

static enum status settle_options(const struct penstock_options *given, struct settled_text *text,
                                  struct dial_options *ret_options, struct error *err)
{
    static const struct penstock_options from_environment;
    const struct penstock_options *options = given ? given : &from_environment;
    if (options->rank < 0 || options->world_size < 0 || options->timeout_ms < -1)
        return error_set(err, STATUS_INVALID,
                         "options: rank %" PRId32 ", world_size %" PRId32 ", timeout_ms %" PRId64
                         "; none may be negative but a timeout of -1",
                         options->rank, options->world_size, options->timeout_ms);
    struct dial_options settled = {.run_dir = options->run_dir,
                                   .rank = (uint32_t)options->rank,
                                   .world_size = (uint32_t)options->world_size,
                                   .coordinates = options->coordinates,
                                   .timeout_ms = options->timeout_ms ? options->timeout_ms
                                                                     : DEFAULT_TIMEOUT_MS};
    enum status status = environment_fill(&settled, err);
    bool named = options->name && *options->name;
    if (status == STATUS_OK && named && access(settled.run_dir, F_OK) &&
        end_marker_found(settled.cursors))
        return error_set(err, STATUS_ENDED,
                         "the run of run directory '%s' is over, and any run '%s' beside it: all "
                         "epochs are consumed, and the readers have left",
                         settled.run_dir, options->name);
    if (status == STATUS_OK && named) {
        status = environment_named_run(settled.run_dir, options->name, text->run_dir,
                                       sizeof text->run_dir, err);
        settled.run_dir = text->run_dir;
        settled.cursors = NULL; /* they are the other run's */
    }
    if (status == STATUS_OK && options->state && *options->state)
        settled.state = options->state;
    else if (status == STATUS_OK && !named)
        status = environment_state(text->state, sizeof text->state, &settled.state, err);
    if (status != STATUS_OK)
        return status;
    settled.wish = settled.state ? WISH_STATE : WISH_FRESH;
    *ret_options = settled;
    return STATUS_OK;
}

enum penstock_status penstock_connect_begin(const struct penstock_options *options,
                                            struct penstock **ret_connection, char *message)
{
    struct error error = {0};
    struct dial_options settled;
    struct settled_text text;
    struct penstock *connection = calloc(1, sizeof *connection);
    enum status status = connection ? settle_options(options, &text, &settled, &error)
                                    : error_set(&error, STATUS_NO_MEMORY, "no memory to connect");
    if (status == STATUS_OK)
        status = loader_new(&settled, &connection->loader, &error);
    if (status == STATUS_OK && options && options->wait_for_release)
        status = loader_wait_for_releases(connection->loader, &error);
    if (message)
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "%s", error.message);
    if (status != STATUS_OK) {
        if (connection)
            loader_close(connection->loader);
        free(connection);
        return (enum penstock_status)status;
    }
    connection->pid = getpid();
    pthread_mutex_init(&connection->lock, NULL);
    pthread_cond_init(&connection->outside, NULL);
    *ret_connection = connection;
    return PENSTOCK_OK;
}

enum penstock_status penstock_connect_continue(struct penstock *connection, int64_t wait_ms,
                                               int32_t *ret_connected, char *message)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    if (!connection->connected) {
        status = loader_connect(connection->loader, clock_deadline_ns(wait_ms),
                                &connection->connected, &error);
        if (connection->connected)
            fill_info(connection);
    }
    if (message)
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "%s", error.message);
    *ret_connected = connection->connected;
    return (enum penstock_status)status;
}

enum penstock_status penstock_connect(const struct penstock_options *options,
                                      struct penstock **ret_connection, char *message)
{
    struct penstock *connection = NULL;
    int32_t connected = 0;
    enum penstock_status status = penstock_connect_begin(options, &connection, message);
    while (status == PENSTOCK_OK && !connected)
        status = penstock_connect_continue(connection, -1, &connected, message);
    if (status != PENSTOCK_OK)
        penstock_close(connection);
    else
        *ret_connection = connection;
    return status;
}

const struct penstock_info *penstock_describe(const struct penstock *connection)
{
    return &connection->info;
}

/* A child has the parent's socket and ring: what it did there would be the parent's doing. */
static bool is_forked(const struct penstock *connection)
{
    return getpid() != connection->pid;
}

/* False: another thread is in a call for which threads take turns; `error` is that thread's. */
static bool enter(struct penstock *connection)
{
    pthread_mutex_lock(&connection->lock);
    bool alone = !connection->inside;
    connection->inside = true;
    pthread_mutex_unlock(&connection->lock);
    refused = alone ? NULL : connection;
    if (alone)
        error_clear(&connection->error);
    return alone;
}

/* penstock_close() may free the connection after this. */
static void leave(struct penstock *connection)
{
    pthread_mutex_lock(&connection->lock);
    connection->inside = false;
    pthread_cond_broadcast(&connection->outside);
    pthread_mutex_unlock(&connection->lock);
}

static void fill_batch(const struct penstock *connection, const struct loader_batch *taken,
                       struct penstock_batch *ret_batch)
{
    const struct ring_layout *layout = &loader_header(connection->loader)->layout;
    ret_batch->epoch = taken->header.epoch;
    ret_batch->step = taken->header.step;
    ret_batch->sample_count = taken->header.sample_count;
    ret_batch->first_position = taken->header.first_position;
    ret_batch->slot = taken->slot;
    ret_batch->bound = taken->header.bound;
    ret_batch->indices = (const uint64_t *)(taken->memory + layout->indices_offset);
    ret_batch->keys = (const uint64_t *)(taken->memory + layout->keys_offset);
    ret_batch->valid = taken->memory + layout->valid_offset;
    for (uint32_t f = 0; f < layout->field_count; f++) {
        ret_batch->data[f] = taken->memory + layout->fields[f].slot_offset;
        ret_batch->steps[f] = (uint32_t)ring_field_steps(layout, f, taken->header.epoch);
    }
}

enum penstock_status penstock_next(struct penstock *connection, struct penstock_batch *ret_batch,
                                   int64_t timeout_ms)
{
    struct loader_batch taken;
    if (is_forked(connection))
        return (enum penstock_status)error_set(
            &connection->error, STATUS_INVALID,
            "this process (%ld) was forked by the one that connected (%ld), and may not use its "
            "connection: connect after the fork, or hand over copies of batches",
            (long)getpid(), (long)connection->pid);
    if (!enter(connection))
        return PENSTOCK_INVALID;
    enum status status = loader_next(connection->loader, timeout_ms, &taken, &connection->error);
    if (status == STATUS_OK)
        fill_batch(connection, &taken, ret_batch);
    leave(connection);
    return (enum penstock_status)status;
}

enum penstock_status penstock_skip(struct penstock *connection, uint64_t epoch, uint64_t step)
{
    if (is_forked(connection))
        return (enum penstock_status)error_set(&connection->error, STATUS_INVALID,
                                               "a forked process may not skip batches");
    if (!enter(connection))
        return PENSTOCK_INVALID;
    enum status status = loader_skip(connection->loader, epoch, step, &connection->error);
    leave(connection);
    return (enum penstock_status)status;
}

enum penstock_status penstock_give(struct penstock *connection, const struct penstock_batch *batch,
                                   enum penstock_dtype dtype, int32_t rank, const uint64_t *shape,
                                   const void *data)
{
    const struct loader_result result = {.slot = batch->slot,
                                         .epoch = batch->epoch,
                                         .step = batch->step,
                                         .sample_count = batch->sample_count,
                                         .dtype = (enum dtype)dtype,
                                         .rank = rank,
                                         .shape = shape,
                                         .data = data};
    if (is_forked(connection))
        return (enum penstock_status)error_set(&connection->error, STATUS_INVALID,
                                               "a forked process may not give results");
    if (!enter(connection))
        return PENSTOCK_INVALID;
    enum status status = loader_give(connection->loader, &result, &connection->error);
    leave(connection);
    return (enum penstock_status)status;
}

/* Leaves connection->error alone: it belongs to the thread that calls penstock_next(). */
enum penstock_status penstock_release(struct penstock *connection,
                                      const struct penstock_batch *batch)
{
    if (is_forked(connection))
        return PENSTOCK_INVALID;
    return (enum penstock_status)loader_release(connection->loader, batch->slot, batch->epoch,
                                                batch->step, NULL);
}

enum penstock_status penstock_trained(struct penstock *connection, uint64_t epoch, uint64_t step)
{
    if (is_forked(connection))
        return PENSTOCK_INVALID;
    return (enum penstock_status)loader_trained(connection->loader, epoch, step, NULL);
}

_Static_assert((int)PENSTOCK_STATE_BYTES >= (int)ORDER_STATE_BYTES, "holds any state");

enum penstock_status penstock_state(const struct penstock *connection, char *buffer, size_t size)
{
    struct protocol_welcome cursor = loader_cursor(connection->loader);
    char text[ORDER_STATE_BYTES];
    int length = order_print_state(&loader_header(connection->loader)->service.order, cursor.epoch,
                                   cursor.step, text, sizeof text);
    if ((size_t)length >= size)
        return PENSTOCK_INVALID;
    memcpy(buffer, text, (size_t)length + 1);
    return PENSTOCK_OK;
}

void penstock_stats(const struct penstock *connection, struct penstock_stats *ret_stats,
                    size_t size)
{
    struct loader_stats counts = loader_stats(connection->loader);
    struct penstock_stats stats = {.batches = counts.batches,
                                   .samples = counts.samples,
                                   .bytes = counts.bytes,
                                   .waits = counts.waits,
                                   .wait_ns = counts.wait_ns,
                                   .reconnects = counts.reconnects,
                                   .ready = counts.ready,
                                   .leased = counts.leased};
    memcpy(ret_stats, &stats, size < sizeof stats ? size : sizeof stats);
}

/* The program's watch, told by the loader's. */
static void tell_attached(void *user, const struct loader_ring *ring)
{
    const struct penstock_ring_watch *watch = user;
    struct penstock_ring told = {ring->base, ring->bytes, ring->generation};
    if (watch->attached)
        watch->attached(watch->user, &told);
}

static void tell_detaching(void *user, const struct loader_ring *ring)
{
    const struct penstock_ring_watch *watch = user;
    struct penstock_ring told = {ring->base, ring->bytes, ring->generation};
    if (watch->detaching)
        watch->detaching(watch->user, &told);
}

enum penstock_status penstock_watch_rings(struct penstock *connection,
                                          const struct penstock_ring_watch *watch)
{
    const struct loader_watch through = {tell_attached, tell_detaching, &connection->watch};
    if (is_forked(connection) || connection->watched)
        return PENSTOCK_INVALID;
    connection->watch = *watch;
    enum status status = loader_watch_rings(connection->loader, &through, NULL);
    connection->watched = status == STATUS_OK;
    return (enum penstock_status)status;
}

const char *penstock_last_error(const struct penstock *connection)
{
    return refused == connection ? "another thread is in penstock_next(), penstock_skip() or "
                                   "penstock_give() of this connection: one thread at a time"
                                 : connection->error.message;
}

const char *penstock_status_text(enum penstock_status status)
{
    return status_text((enum status)status);
}

const char *penstock_dtype_name(enum penstock_dtype dtype)
{
    return dtype_name((enum dtype)dtype);
}

#define TEXT_OF(number)  TEXT_OF_(number)
#define TEXT_OF_(number) #number

const char *penstock_version(void)
{
    return TEXT_OF(PENSTOCK_VERSION_MAJOR) "." TEXT_OF(PENSTOCK_VERSION_MINOR) "." TEXT_OF(
        PENSTOCK_VERSION_PATCH);
}

void penstock_leave(struct penstock *connection)
{
    if (!is_forked(connection))
        loader_leave(connection->loader);
}

void penstock_fail(struct penstock *connection, const char *reason)
{
    if (!is_forked(connection))
        loader_fail(connection->loader, reason && *reason ? reason : "it gave no reason");
}

void penstock_close(struct penstock *connection)
{
    if (!connection)
        return;
    if (!is_forked(connection)) {
        if (connection->connected)
            loader_leave(connection->loader);
        pthread_mutex_lock(&connection->lock);
        while (connection->inside)
            pthread_cond_wait(&connection->outside, &connection->lock);
        pthread_mutex_unlock(&connection->lock);
        pthread_cond_destroy(&connection->outside);
        pthread_mutex_destroy(&connection->lock);
    } else {
        connection->watch =
            (struct penstock_ring_watch){0}; /* the parent's rings stay registered */
    }
    loader_close(connection->loader);
    free(connection);
}
