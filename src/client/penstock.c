/* The public API, see penstock.h: options and environment in front, a session (src/delivery)
 * behind. */
#include "penstock.h"

#include "base/dtype.h"
#include "base/error.h"
#include "client/environment.h"
#include "delivery/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_TIMEOUT_MS = 60000 };

#define SAME_STATUS(name, value, text) \
    _Static_assert((int)PENSTOCK_##name == value, "penstock.h and base/error.h must agree");
STATUS_TABLE(SAME_STATUS)
#define SAME_DTYPE(name, value, text, item_bytes, swap_bytes) \
    _Static_assert((int)PENSTOCK_##name == value, "penstock.h and base/dtype.h must agree");
DTYPE_TABLE(SAME_DTYPE)
_Static_assert((int)PENSTOCK_MESSAGE_BYTES >= (int)ERROR_MESSAGE_BYTES, "any message fits");
_Static_assert((int)PENSTOCK_MAX_RANK == (int)RING_MAX_RANK, "any shape fits");
_Static_assert(sizeof((struct penstock_batch){0}.data) / sizeof(void *) == RING_MAX_FIELDS,
               "any field fits");

struct penstock {
    struct session *session;
    struct penstock_info info;
    struct penstock_field fields[RING_MAX_FIELDS];
    uint64_t next_epoch, next_step; /* of the batch after the last one taken */
    struct error error;             /* of the last call that failed */
};

static struct penstock_field field_of(const struct ring_field *field)
{
    struct penstock_field public = {.name = field->name,
                                    .dtype = (enum penstock_dtype)field->dtype,
                                    .rank = (int32_t)field->rank,
                                    .item_bytes = dtype_bytes((enum dtype)field->dtype),
                                    .sample_bytes = field->sample_bytes};
    for (uint32_t d = 0; d < field->rank; d++)
    public.shape[d] = field->shape[d];
    return public;
}

static void fill_info(struct penstock *connection)
{
    const struct ring_header *header = session_header(connection->session);
    const struct ring_layout *layout = &header->layout;
    const struct ring_service *service = &header->service;
    for (uint32_t f = 0; f < layout->field_count; f++)
        connection->fields[f] = field_of(&layout->fields[f]);
    connection->info =
        (struct penstock_info){.fields = connection->fields,
                               .field_count = layout->field_count,
                               .slot_count = layout->slot_count - layout->spare_slots,
                               .batch_size = layout->batch_size,
                               .rank = service->rank,
                               .world_size = service->world_size,
                               .global_batch_size = service->global_batch_size,
                               .dataset_samples = service->dataset_samples,
                               .steps_per_epoch = service->steps_per_epoch,
                               .epochs = service->epochs,
                               .start_epoch = service->start_epoch,
                               .start_step = service->start_step,
                               .seed = service->seed,
                               .fingerprint = service->fingerprint};
    connection->next_epoch = service->start_epoch;
    connection->next_step = service->start_step;
}

static enum status settle_options(const struct penstock_options *given,
                                  struct connect_options *ret_options, struct error *err)
{
    static const struct penstock_options from_environment;
    const struct penstock_options *options = given ? given : &from_environment;
    if (options->rank < 0 || options->world_size < 0 || options->timeout_ms < -1)
        return error_set(err, STATUS_INVALID,
                         "options: rank %" PRId32 ", world_size %" PRId32 ", timeout_ms %" PRId64
                         "; none may be negative but a timeout of -1",
                         options->rank, options->world_size, options->timeout_ms);
    struct connect_options settled = {.run_dir = options->run_dir,
                                      .rank = (uint32_t)options->rank,
                                      .world_size = (uint32_t)options->world_size,
                                      .timeout_ms = options->timeout_ms ? options->timeout_ms
                                                                        : DEFAULT_TIMEOUT_MS};
    enum status status = environment_fill(&settled, err);
    if (status)
        return status;
    *ret_options = settled;
    return STATUS_OK;
}

enum penstock_status penstock_connect(const struct penstock_options *options,
                                      struct penstock **ret_connection, char *message)
{
    struct error error = {0};
    struct connect_options settled;
    struct penstock *connection = calloc(1, sizeof *connection);
    enum status status = connection ? settle_options(options, &settled, &error)
                                    : error_set(&error, STATUS_NO_MEMORY, "no memory to connect");
    if (!status)
        status = session_open(&settled, &connection->session, &error);
    if (message)
        snprintf(message, PENSTOCK_MESSAGE_BYTES, "%s", error.message);
    if (status) {
        free(connection);
        return (enum penstock_status)status;
    }
    fill_info(connection);
    *ret_connection = connection;
    return PENSTOCK_OK;
}

const struct penstock_info *penstock_describe(const struct penstock *connection)
{
    return &connection->info;
}

static void count_batch(struct penstock *connection, const struct slot_header *slot)
{
    bool last = slot->step + 1 == connection->info.steps_per_epoch;
    connection->next_epoch = slot->epoch + last;
    connection->next_step = last ? 0 : slot->step + 1;
}

enum penstock_status penstock_next(struct penstock *connection, struct penstock_batch *ret_batch,
                                   int64_t timeout_ms)
{
    struct session_batch taken;
    error_clear(&connection->error);
    enum status status = session_next(connection->session, timeout_ms, &taken, &connection->error);
    if (status)
        return (enum penstock_status)status;
    const struct ring_layout *layout = &session_header(connection->session)->layout;
    ret_batch->epoch = taken.header.epoch;
    ret_batch->step = taken.header.step;
    ret_batch->sample_count = taken.header.sample_count;
    ret_batch->first_position = taken.header.first_position;
    ret_batch->slot = taken.slot;
    ret_batch->indices = (const uint64_t *)(taken.memory + layout->indices_offset);
    ret_batch->keys = (const uint64_t *)(taken.memory + layout->keys_offset);
    ret_batch->valid = taken.memory + layout->valid_offset;
    for (uint32_t f = 0; f < layout->field_count; f++)
        ret_batch->data[f] = taken.memory + layout->fields[f].slot_offset;
    count_batch(connection, &taken.header);
    return PENSTOCK_OK;
}

/* Leaves connection->error alone: it belongs to the thread that calls penstock_next(). */
enum penstock_status penstock_release(struct penstock *connection,
                                      const struct penstock_batch *batch)
{
    return (enum penstock_status)session_release(connection->session, batch->slot, batch->epoch,
                                                 batch->step, NULL);
}

enum penstock_status penstock_state(const struct penstock *connection, char *buffer, size_t size)
{
    const struct penstock_info *info = &connection->info;
    char text[256];
    int length =
        snprintf(text, sizeof text,
                 "{\"version\":1,\"dataset\":\"%016" PRIx64 "\",\"seed\":%" PRIu64
                 ",\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"global_batch\":%" PRIu64 "}",
                 info->fingerprint, info->seed, connection->next_epoch, connection->next_step,
                 info->global_batch_size);
    if ((size_t)length >= size)
        return PENSTOCK_INVALID;
    memcpy(buffer, text, (size_t)length + 1);
    return PENSTOCK_OK;
}

const char *penstock_last_error(const struct penstock *connection)
{
    return connection->error.message;
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
    session_leave(connection->session, connection->next_epoch, connection->next_step);
}

void penstock_close(struct penstock *connection)
{
    if (!connection)
        return;
    penstock_leave(connection);
    session_close(connection->session);
    free(connection);
}
