/* The submissions of encoders, and what was given for them. See encoders.h; encoders_service.c has
 * the thread. */
#include "workshop/encode/encoders.h"

#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "delivery/ring/sealed.h"
#include "workshop/encode/encoders_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum status encoders_new(const struct encoders_options *options, struct encoders **ret_encoders,
                         struct error *err)
{
    struct encoders *encoders = calloc(1, sizeof *encoders);
    if (!encoders)
        return error_set(err, STATUS_NO_MEMORY, "no memory for encoders");
    encoders->options = *options;
    encoders->layout.slot_count = ENCODERS_SLOTS;
    encoders->layout.member_count = 1;
    encoders->layout.batch_size = options->batch;
    encoders->layout.field_count = options->field_count;
    memcpy(encoders->layout.fields, options->fields,
           options->field_count * sizeof *options->fields);
    encoders->wake_fd = -1;
    enum status status = ring_layout_settle(&encoders->layout, err);
    if (status != STATUS_OK) {
        free(encoders);
        return error_prefix(err, status, "what encoders get: ");
    }
    pthread_mutex_init(&encoders->mutex, NULL);
    pthread_cond_init(&encoders->changed, NULL);
    *ret_encoders = encoders;
    return STATUS_OK;
}

uint64_t encoders_bytes(const struct encoders *encoders)
{
    return encoders->layout.total_bytes * encoders->options.count;
}

void encoders_fail(struct encoders *encoders, const struct error *error)
{
    if (encoders->error.status == STATUS_OK)
        encoders->error = *error;
    pthread_cond_broadcast(&encoders->changed);
}

/* The encoder with a free submission that has the least to do; NULL: none has. */
static struct encoder *choose(struct encoders *encoders)
{
    struct encoder *best = NULL;
    for (uint32_t i = 0; encoders->serving && i < encoders->options.count; i++) {
        struct encoder *encoder = &encoders->all[i];
        const struct submission *submission =
            &encoder->submissions[encoder->reserved % ENCODERS_SLOTS];
        if (submission->state == SUBMISSION_FREE &&
            server_slot_free(encoders->server, encoder->trainer, encoder->reserved) &&
            (!best || encoder->reserved - encoder->given < best->reserved - best->given))
            best = encoder;
    }
    return best;
}

enum status encoders_reserve(struct encoders *encoders, struct encoders_submission *ret_submission,
                             struct error *err)
{
    struct encoder *encoder = NULL;
    pthread_mutex_lock(&encoders->mutex);
    encoders_start(encoders);
    while (encoders->error.status == STATUS_OK && !(encoder = choose(encoders)))
        pthread_cond_wait(&encoders->changed, &encoders->mutex);
    enum status status = (enum status)encoders->error.status;
    if (status != STATUS_OK && err)
        *err = encoders->error;
    if (status == STATUS_OK) {
        *ret_submission = (struct encoders_submission){
            .encoder = (uint32_t)(encoder - encoders->all),
            .sequence = encoder->reserved,
            .slot = server_slot(encoders->server, encoder->trainer, encoder->reserved),
        };
        encoder->submissions[encoder->reserved++ % ENCODERS_SLOTS] =
            (struct submission){.state = SUBMISSION_RESERVED, .memfd = -1};
    }
    pthread_mutex_unlock(&encoders->mutex);
    return status;
}

void *encoders_field(const struct encoders *encoders, const struct encoders_submission *submission,
                     uint32_t field)
{
    return submission->slot + encoders->layout.fields[field].slot_offset;
}

static struct submission *find_submission(struct encoders *encoders,
                                          const struct encoders_submission *submission)
{
    return &encoders->all[submission->encoder].submissions[submission->sequence % ENCODERS_SLOTS];
}

void encoders_submit(struct encoders *encoders, const struct encoders_submission *submission,
                     uint64_t begin, uint32_t count)
{
    const struct ring_layout *layout = &encoders->layout;
    struct slot_header *header = (void *)submission->slot;
    uint64_t *indices = (void *)(submission->slot + layout->indices_offset);
    *header = (struct slot_header){.step = submission->sequence, .sample_count = count};
    for (uint32_t i = 0; i < count; i++)
        indices[i] = begin + i;
    memset(submission->slot + layout->keys_offset, 0, count * sizeof *indices);
    memset(submission->slot + layout->valid_offset, 1, count);
    pthread_mutex_lock(&encoders->mutex);
    struct submission *own = find_submission(encoders, submission);
    own->state = SUBMISSION_SUBMITTED;
    own->begin = begin;
    own->count = count;
    pthread_mutex_unlock(&encoders->mutex);
    wakeup_signal(encoders->wake_fd);
}

void encoders_abandon(struct encoders *encoders, const struct error *error)
{
    pthread_mutex_lock(&encoders->mutex);
    encoders_fail(encoders, error);
    pthread_mutex_unlock(&encoders->mutex);
}

/* Maps what the encoder made. Its size is sealed, or it is refused. */
static enum status map_given(const struct protocol_give *give, int memfd, uint32_t count,
                             struct encoded *ret_encoded, struct error *err)
{
    uint64_t bytes = dtype_bytes((enum dtype)give->dtype), size = 0;
    if (bytes == 0)
        return error_set(err, STATUS_INVALID, "gave an array of an unknown dtype (%" PRIu32 ")",
                         give->dtype);
    if (give->shape[0] != count)
        return error_set(err, STATUS_INVALID,
                         "gave an array for %" PRIu64 " samples, and had got %" PRIu32,
                         give->shape[0], count);
    for (uint32_t d = 0; d < give->rank; d++)
        if (!size_multiply(bytes, give->shape[d], &bytes))
            bytes = UINT64_MAX;
    if (bytes == 0 || !sealed_check(memfd, &size) || size != bytes)
        return error_set(err, STATUS_PROTOCOL, "gave memory that is not of its array's size");
    void *data = mmap(NULL, bytes, PROT_READ, MAP_SHARED, memfd, 0);
    if (data == MAP_FAILED)
        return error_set_errno(err, STATUS_NO_MEMORY, "map %s that it gave",
                               size_format(bytes).text);
    *ret_encoded = (struct encoded){
        .dtype = (enum dtype)give->dtype, .rank = (int)give->rank, .data = data, .bytes = bytes};
    memcpy(ret_encoded->shape, give->shape, sizeof ret_encoded->shape);
    return STATUS_OK;
}

enum status encoders_collect(struct encoders *encoders,
                             const struct encoders_submission *submission,
                             struct encoded *ret_encoded, struct error *err)
{
    struct submission *own = find_submission(encoders, submission), given = {.memfd = -1};
    pthread_mutex_lock(&encoders->mutex);
    while (encoders->error.status == STATUS_OK && own->state != SUBMISSION_GIVEN)
        pthread_cond_wait(&encoders->changed, &encoders->mutex);
    enum status status = (enum status)encoders->error.status;
    if (status != STATUS_OK && err)
        *err = encoders->error;
    if (status == STATUS_OK) {
        given = *own;
        *own = (struct submission){.state = SUBMISSION_FREE, .memfd = -1};
        pthread_cond_broadcast(&encoders->changed);
    }
    pthread_mutex_unlock(&encoders->mutex);
    if (status != STATUS_OK)
        return status;
    status = map_given(&given.give, given.memfd, given.count, ret_encoded, err);
    close(given.memfd);
    return status != STATUS_OK
               ? error_prefix(err, status,
                              "encoder %" PRIu32 ", samples %" PRIu64 " to %" PRIu64 ": it ",
                              submission->encoder, given.begin, given.begin + given.count - 1)
               : STATUS_OK;
}

void encoded_done(struct encoded *encoded)
{
    if (encoded->data)
        munmap((void *)(uintptr_t)encoded->data, encoded->bytes);
    encoded->data = NULL;
}

const char *encoded_describe(enum dtype dtype, int rank, const uint64_t *shape)
{
    static _Thread_local char text[256];
    size_t at = (size_t)snprintf(text, sizeof text, "%s [", dtype_name(dtype));
    for (int d = 0; d < rank; d++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRIu64, d ? ", " : "", shape[d]);
    snprintf(text + at, sizeof text - at, "]");
    return text;
}
