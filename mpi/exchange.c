/* See exchange.h. */
#include "exchange.h"

#include "base/memory.h"
#include "base/size.h"

#include <limits.h>
#include <stdlib.h>

struct lane {
    unsigned char *send, *receive;
    struct exchange_counts counts;
    MPI_Request request;
};

struct exchange {
    const struct comm *comm;
    MPI_Datatype record;
    size_t send_bytes, receive_bytes; /* of one lane's buffers, 0 where there is none */
    uint32_t lane_count;
    int *counts; /* backing of all lanes' counts */
    struct lane lanes[];
};

/* A contiguous type of any size: records are multiples of 16 bytes, so 32 GiB fit an int of units.
 */
static MPI_Datatype record_type(uint64_t record_bytes)
{
    enum { UNIT_BYTES = 16 };
    MPI_Datatype unit, record;
    MPI_Type_contiguous(UNIT_BYTES, MPI_BYTE, &unit);
    MPI_Type_contiguous((int)(record_bytes / UNIT_BYTES), unit, &record);
    MPI_Type_commit(&record);
    MPI_Type_free(&unit);
    return record;
}

static enum status map_touched(size_t bytes, unsigned char **ret_memory, struct error *err)
{
    if (bytes == 0)
        return STATUS_OK;
    void *memory;
    enum status status = memory_map(bytes, "exchange buffers", &memory, err);
    if (status != STATUS_OK)
        return status;
    memory_touch(memory, bytes);
    *ret_memory = memory;
    return STATUS_OK;
}

static void split_counts(struct exchange *exchange)
{
    int size = exchange->comm->size;
    for (uint32_t i = 0; i < exchange->lane_count; i++) {
        int *counts = exchange->counts + (size_t)i * 4 * (size_t)size;
        exchange->lanes[i].counts =
            (struct exchange_counts){.send_counts = counts,
                                     .send_displacements = counts + size,
                                     .receive_counts = counts + 2 * size,
                                     .receive_displacements = counts + 3 * size};
        exchange->lanes[i].request = MPI_REQUEST_NULL;
    }
}

enum status exchange_new(const struct comm *comm, uint32_t lane_count, uint64_t record_bytes,
                         uint64_t send_records, uint64_t receive_records,
                         struct exchange **ret_exchange, struct error *err)
{
    if (send_records > INT_MAX || receive_records > INT_MAX)
        return error_set(err, STATUS_INVALID,
                         "a round of %llu records is too large for MPI: lower "
                         "exchange.steps_per_round or exchange.buffer_limit",
                         (unsigned long long)send_records);
    if (record_bytes / 16 > INT_MAX)
        return error_set(err, STATUS_INVALID, "a sample of %s is too large for MPI",
                         size_format(record_bytes).text);
    struct exchange *exchange = calloc(1, sizeof *exchange + lane_count * sizeof(struct lane));
    int *counts = calloc((size_t)lane_count * 4 * (size_t)comm->size, sizeof *counts);
    if (!exchange || !counts) {
        free(exchange);
        free(counts);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the exchange's tables");
    }
    exchange->comm = comm;
    exchange->lane_count = lane_count;
    exchange->counts = counts;
    exchange->record = record_type(record_bytes);
    exchange->send_bytes = send_records * record_bytes;
    exchange->receive_bytes = receive_records * record_bytes;
    split_counts(exchange);
    for (uint32_t i = 0; i < lane_count; i++) {
        enum status status = map_touched(exchange->send_bytes, &exchange->lanes[i].send, err);
        if (status == STATUS_OK)
            status = map_touched(exchange->receive_bytes, &exchange->lanes[i].receive, err);
        if (status != STATUS_OK) {
            exchange_free(exchange);
            return status;
        }
    }
    *ret_exchange = exchange;
    return STATUS_OK;
}

void exchange_free(struct exchange *exchange)
{
    if (!exchange)
        return;
    for (uint32_t i = 0; i < exchange->lane_count; i++) {
        memory_unmap(exchange->lanes[i].send, exchange->send_bytes);
        memory_unmap(exchange->lanes[i].receive, exchange->receive_bytes);
    }
    MPI_Type_free(&exchange->record);
    free(exchange->counts);
    free(exchange);
}

unsigned char *exchange_send_buffer(const struct exchange *exchange, uint32_t lane)
{
    return exchange->lanes[lane].send;
}

const unsigned char *exchange_receive_buffer(const struct exchange *exchange, uint32_t lane)
{
    return exchange->lanes[lane].receive;
}

struct exchange_counts exchange_counts(const struct exchange *exchange, uint32_t lane)
{
    return exchange->lanes[lane].counts;
}

void exchange_post(struct exchange *exchange, uint32_t lane_index)
{
    struct lane *lane = &exchange->lanes[lane_index];
    MPI_Ialltoallv(lane->send, lane->counts.send_counts, lane->counts.send_displacements,
                   exchange->record, lane->receive, lane->counts.receive_counts,
                   lane->counts.receive_displacements, exchange->record, exchange->comm->rounds,
                   &lane->request);
}

bool exchange_test(struct exchange *exchange, uint32_t lane_index)
{
    int complete = 0;
    MPI_Test(&exchange->lanes[lane_index].request, &complete, MPI_STATUS_IGNORE);
    return complete;
}
