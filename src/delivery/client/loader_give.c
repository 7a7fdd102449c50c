/* Results of an encoder: memory of its own for each, which the service maps. */
#include "delivery/client/loader_internal.h"

#include "base/dtype.h"
#include "base/size.h"
#include "delivery/ring/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static enum status check(const struct loader_result *result, uint64_t *ret_bytes, struct error *err)
{
    uint64_t bytes = dtype_bytes(result->dtype);
    if (bytes == 0)
        return error_set(err, STATUS_INVALID, "give: %d is no dtype", (int)result->dtype);
    if (result->rank < 1 || result->rank > PROTOCOL_GIVE_MAX_RANK)
        return error_set(err, STATUS_INVALID,
                         "give: an array of %d axes; there may be 1 to %d, and the first one is "
                         "that of the batch's samples",
                         result->rank, PROTOCOL_GIVE_MAX_RANK);
    if (result->shape[0] != result->sample_count)
        return error_set(err, STATUS_INVALID,
                         "give: a result for %" PRIu64 " samples of a batch that has %" PRIu32,
                         result->shape[0], result->sample_count);
    for (int32_t d = 0; d < result->rank; d++)
        if (!size_multiply(bytes, result->shape[d], &bytes) || bytes == 0 || bytes > INT64_MAX)
            return error_set(err, STATUS_INVALID, "give: axis %d has a length of %" PRIu64, d,
                             result->shape[d]);
    *ret_bytes = bytes;
    return STATUS_OK;
}

static enum status fill(int memfd, const unsigned char *data, uint64_t bytes, struct error *err)
{
    for (uint64_t at = 0; at < bytes;) {
        ssize_t put = pwrite(memfd, data + at, bytes - at, (off_t)at);
        if (put < 0 && errno != EINTR)
            return error_set_errno(err, STATUS_NO_MEMORY, "give: make %s for the result",
                                   size_format(bytes).text);
        at += put > 0 ? (uint64_t)put : 0;
    }
    return sealed_make(memfd, err);
}

/* A service that is gone has perhaps said why. */
static enum status explain(struct loader *loader, enum status status, struct error *err)
{
    if (status != STATUS_LOST)
        return status;
    loader_hear(loader);
    if (loader->final.status != STATUS_OK && err)
        *err = loader->final;
    return loader->final.status != STATUS_OK ? (enum status)loader->final.status : status;
}

enum status loader_give(struct loader *loader, const struct loader_result *result,
                        struct error *err)
{
    uint64_t bytes = 0;
    enum status status = check(result, &bytes, err);
    if (status != STATUS_OK)
        return status;
    struct lease *lease =
        attached_ring_find(loader->attached, result->slot, result->epoch, result->step);
    if (!lease)
        return error_set(err, STATUS_INVALID,
                         "give: the batch of step %" PRIu64 " is not leased: give before release",
                         result->step);
    if (lease->given == atomic_load(&lease->stamp))
        return error_set(err, STATUS_INVALID,
                         "give: the batch of step %" PRIu64 " has a result already", result->step);
    if (loader->final.status != STATUS_OK)
        return error_set(err, (enum status)loader->final.status, "%s", loader->final.message);
    if (loader->lost)
        return error_set(err, STATUS_LOST, "give: the service went away");
    int memfd = memfd_create("penstock-result", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memfd < 0)
        return error_set_errno(err, STATUS_IO, "give: create shared memory");
    status = fill(memfd, result->data, bytes, err);
    struct protocol_message message = {.type = PROTOCOL_GIVE,
                                       .give = {.epoch = result->epoch,
                                                .step = result->step,
                                                .dtype = (uint32_t)result->dtype,
                                                .rank = (uint32_t)result->rank}};
    memcpy(message.give.shape, result->shape, (size_t)result->rank * sizeof *result->shape);
    if (status == STATUS_OK)
        status = protocol_send(loader->attached->connection.socket, &message, &memfd, err);
    close(memfd);
    if (status == STATUS_OK)
        lease->given = atomic_load(&lease->stamp);
    return explain(loader, status, err);
}
