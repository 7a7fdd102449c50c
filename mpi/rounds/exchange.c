/* See exchange.h. */
#include "rounds/exchange.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"
#include "base/tables.h"
#include "plan/budget/budget.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>

enum {
    SENDS_AT_ONCE = 64,
    TAG = 0,
};

/* Receives of a lane, all posted at once; the first `done` are complete. */
struct receives {
    MPI_Request *requests; /* [capacity] */
    uint64_t capacity, count, done;
};

/* Sends of a lane, in order; the first `done` are complete, those up to `started` under way. MPI
 * libraries get slow where thousands are: some look at each of them again and again. */
struct message {
    const unsigned char *memory;
    int bytes, peer;
};
_Static_assert(sizeof(struct message) == BUDGET_SEND_BYTES, "counted in the budget");
_Static_assert(sizeof(MPI_Request) <= BUDGET_RECEIVE_BYTES, "counted in the budget");
struct sends {
    struct message *messages; /* [capacity] */
    uint64_t capacity, count, started, done;
    MPI_Request requests[SENDS_AT_ONCE];
};

/* What travels in one MPI_Ialltoallv. */
struct packed {
    unsigned char *send, *receive;
    struct exchange_counts counts;
    MPI_Request request;
};

struct lane {
    struct packed parts[EXCHANGE_PARTS];
    struct sends sends;
    struct receives receives;
    uint64_t *discards; /* [size] messages of each peer that are still to be forgotten */
};

struct exchange {
    const struct comm *comm;
    struct exchange_sizes sizes;
    MPI_Datatype types[EXCHANGE_PARTS]; /* of a unit of records, and of trailers */
    unsigned char *buffers;             /* of all lanes, in one mapping, so that huge pages fit */
    size_t buffers_bytes;
    unsigned char *sink; /* where discarded messages go */
    size_t sink_bytes;
    MPI_Request sink_request; /* of sink_lane */
    uint32_t sink_lane;
    uint32_t lane_count;
    struct tables tables; /* of the lanes, and */
    int *counts;          /* backing of all lanes' counts: [lanes][parts][4][size] */
    uint64_t *discards;   /* backing of all lanes' discards */
    struct lane lanes[];
};

static MPI_Datatype type_of(uint64_t bytes)
{
    MPI_Datatype unit, type;
    MPI_Type_contiguous(EXCHANGE_UNIT_BYTES, MPI_BYTE, &unit);
    MPI_Type_contiguous((int)(bytes / EXCHANGE_UNIT_BYTES), unit, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&unit);
    return type;
}

static enum status map(size_t bytes, unsigned char **ret_memory, struct error *err)
{
    if (bytes == 0)
        return STATUS_OK;
    void *memory;
    enum status status = memory_map(bytes, "exchange buffers", &memory, err);
    if (status == STATUS_OK)
        *ret_memory = memory;
    return status;
}

static enum status check_sizes(const struct exchange_sizes *sizes, struct error *err)
{
    uint64_t units = sizes->unit_bytes > 0 ? sizes->record_bytes / sizes->unit_bytes : 1;
    if (mul_sat(max_u64(sizes->send_samples, sizes->receive_samples), units) > INT_MAX)
        return error_set(err, STATUS_INVALID,
                         "a round of %llu records is too large for MPI: lower "
                         "exchange.steps_per_round or exchange.buffer_limit",
                         (unsigned long long)sizes->send_samples);
    if (max_u64(sizes->send_trailer_bytes, sizes->receive_trailer_bytes) / EXCHANGE_UNIT_BYTES >
        INT_MAX)
        return error_set(
            err, STATUS_INVALID,
            "a round may have %s of ragged fields, and MPI takes 32 GiB at most: lower "
            "exchange.steps_per_round or batch.global_size",
            size_format(max_u64(sizes->send_trailer_bytes, sizes->receive_trailer_bytes)).text);
    if (sizes->record_bytes / EXCHANGE_UNIT_BYTES > INT_MAX)
        return error_set(err, STATUS_INVALID, "a sample of %s is too large for MPI",
                         size_format(sizes->record_bytes).text);
    return STATUS_OK;
}

static size_t send_bytes(const struct exchange_sizes *sizes, enum exchange_part part)
{
    size_t bytes = part == EXCHANGE_RECORDS ? sizes->send_samples * sizes->record_bytes
                                            : sizes->send_trailer_bytes;
    return size_round_up(bytes, MEMORY_PAGE_BYTES);
}

static size_t receive_bytes(const struct exchange_sizes *sizes, enum exchange_part part)
{
    size_t bytes = part == EXCHANGE_RECORDS ? sizes->receive_samples * sizes->record_bytes
                                            : sizes->receive_trailer_bytes;
    return size_round_up(bytes, MEMORY_PAGE_BYTES);
}

static size_t lane_bytes(const struct exchange_sizes *sizes)
{
    size_t bytes = 0;
    for (enum exchange_part part = 0; part < EXCHANGE_PARTS; part++)
        bytes += send_bytes(sizes, part) + receive_bytes(sizes, part);
    return bytes;
}

/* Whether all ranks post the part. */
static bool travels(const struct exchange *exchange, enum exchange_part part)
{
    return part == EXCHANGE_RECORDS ? exchange->sizes.record_bytes > 0
                                    : exchange->sizes.send_trailer_bytes > 0;
}

static enum status lane_init(struct exchange *exchange, uint32_t index, struct error *err)
{
    struct lane *lane = &exchange->lanes[index];
    const struct exchange_sizes *sizes = &exchange->sizes;
    size_t size = (size_t)exchange->comm->size;
    size_t bytes;
    unsigned char *buffer = exchange_buffers(exchange, index, &bytes);
    for (enum exchange_part part = 0; part < EXCHANGE_PARTS; part++) {
        int *counts = exchange->counts + (index * EXCHANGE_PARTS + part) * 4 * size;
        struct packed *packed = &lane->parts[part];
        packed->counts = (struct exchange_counts){.send_counts = counts,
                                                  .send_displacements = counts + size,
                                                  .receive_counts = counts + 2 * size,
                                                  .receive_displacements = counts + 3 * size};
        packed->request = MPI_REQUEST_NULL;
        if (!travels(exchange, part))
            continue;
        packed->send = buffer;
        packed->receive = buffer + send_bytes(sizes, part);
        buffer = packed->receive + receive_bytes(sizes, part);
    }
    lane->discards = exchange->discards + index * size;
    lane->sends.capacity = sizes->send_samples * sizes->sample_messages;
    lane->sends.messages =
        tables_take(&exchange->tables, lane->sends.capacity, sizeof *lane->sends.messages);
    lane->receives.capacity = sizes->receive_samples * sizes->sample_messages;
    lane->receives.requests =
        tables_take(&exchange->tables, lane->receives.capacity, sizeof(MPI_Request));
    return exchange->tables.failed
               ? error_set(err, STATUS_NO_MEMORY, "no memory for a round of %llu messages",
                           (unsigned long long)(lane->sends.capacity + lane->receives.capacity))
               : STATUS_OK;
}

enum status exchange_new(const struct comm *comm, uint32_t lane_count,
                         const struct exchange_sizes *sizes, struct exchange **ret_exchange,
                         struct error *err)
{
    assert(lane_count <= COMM_LANES);
    enum status status = check_sizes(sizes, err);
    if (status != STATUS_OK)
        return status;
    struct exchange *exchange = calloc(1, sizeof *exchange + lane_count * sizeof(struct lane));
    if (!exchange)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the exchange");
    exchange->comm = comm;
    exchange->lane_count = lane_count;
    exchange->sizes = *sizes;
    exchange->types[EXCHANGE_RECORDS] = type_of(sizes->unit_bytes);
    exchange->types[EXCHANGE_TRAILERS] = type_of(EXCHANGE_UNIT_BYTES);
    exchange->sink_request = MPI_REQUEST_NULL;
    exchange->buffers_bytes = lane_count * lane_bytes(sizes);
    size_t all = (size_t)lane_count * (size_t)comm->size;
    exchange->counts = tables_take(&exchange->tables, all * EXCHANGE_PARTS * 4, sizeof(int));
    exchange->discards = tables_take(&exchange->tables, all, sizeof(uint64_t));
    if (exchange->tables.failed)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the exchange's tables");
    exchange->sink_bytes = sizes->message_bytes;
    if (status == STATUS_OK)
        status = map(exchange->buffers_bytes, &exchange->buffers, err);
    if (status == STATUS_OK)
        status = map(exchange->sink_bytes, &exchange->sink, err);
    if (status == STATUS_OK)
        memory_touch(exchange->sink, exchange->sink_bytes);
    for (uint32_t i = 0; i < lane_count && status == STATUS_OK; i++)
        status = lane_init(exchange, i, err);
    if (status != STATUS_OK) {
        exchange_free(exchange);
        return status;
    }
    *ret_exchange = exchange;
    return STATUS_OK;
}

void exchange_free(struct exchange *exchange)
{
    if (!exchange)
        return;
    memory_unmap(exchange->buffers, exchange->buffers_bytes);
    memory_unmap(exchange->sink, exchange->sink_bytes);
    for (enum exchange_part part = 0; part < EXCHANGE_PARTS; part++)
        MPI_Type_free(&exchange->types[part]);
    tables_done(&exchange->tables);
    free(exchange);
}

unsigned char *exchange_send_buffer(const struct exchange *exchange, uint32_t lane,
                                    enum exchange_part part)
{
    return exchange->lanes[lane].parts[part].send;
}

const unsigned char *exchange_receive_buffer(const struct exchange *exchange, uint32_t lane,
                                             enum exchange_part part)
{
    return exchange->lanes[lane].parts[part].receive;
}

unsigned char *exchange_buffers(const struct exchange *exchange, uint32_t lane, size_t *ret_bytes)
{
    *ret_bytes = lane_bytes(&exchange->sizes);
    return exchange->buffers ? exchange->buffers + lane * *ret_bytes : NULL;
}

struct exchange_counts exchange_counts(const struct exchange *exchange, uint32_t lane,
                                       enum exchange_part part)
{
    return exchange->lanes[lane].parts[part].counts;
}

void exchange_open(struct exchange *exchange, uint32_t lane_index)
{
    struct lane *lane = &exchange->lanes[lane_index];
    lane->sends.count = lane->sends.started = lane->sends.done = 0;
    lane->receives.count = lane->receives.done = 0;
}

void exchange_receive(struct exchange *exchange, uint32_t lane, int peer, void *piece,
                      uint64_t piece_bytes)
{
    struct receives *receives = &exchange->lanes[lane].receives;
    unsigned char *to = piece;
    for (uint64_t at = 0; at < piece_bytes; at += ROUND_MESSAGE_BYTES) {
        assert(receives->count < receives->capacity);
        MPI_Irecv(to + at, (int)min_u64(piece_bytes - at, ROUND_MESSAGE_BYTES), MPI_BYTE, peer, TAG,
                  exchange->comm->lanes[lane], &receives->requests[receives->count++]);
    }
}

/* Whether the oldest request is complete. Behind one that is, the next one is tested at once: it
 * often is, too, and then MPI says so without looking at its connections. */
static bool is_complete(const struct exchange *exchange, MPI_Request *request, bool behind_another)
{
    int complete = 0;
    if (!behind_another)
        return comm_test(exchange->comm, request);
    MPI_Test(request, &complete, MPI_STATUS_IGNORE);
    return complete;
}

static bool test_receives(const struct exchange *exchange, struct receives *receives)
{
    uint64_t before = receives->done;
    while (receives->done < receives->count &&
           is_complete(exchange, &receives->requests[receives->done], receives->done > before))
        receives->done++;
    return receives->done == receives->count;
}

static void start_sends(const struct exchange *exchange, uint32_t lane, struct sends *sends)
{
    for (; sends->started < sends->count && sends->started < sends->done + SENDS_AT_ONCE;
         sends->started++) {
        const struct message *message = &sends->messages[sends->started];
        MPI_Isend(message->memory, message->bytes, MPI_BYTE, message->peer, TAG,
                  exchange->comm->lanes[lane], &sends->requests[sends->started % SENDS_AT_ONCE]);
    }
}

static bool test_sends(const struct exchange *exchange, uint32_t lane, struct sends *sends)
{
    uint64_t before = sends->done;
    while (
        sends->done < sends->started &&
        is_complete(exchange, &sends->requests[sends->done % SENDS_AT_ONCE], sends->done > before))
        sends->done++;
    start_sends(exchange, lane, sends);
    return sends->done == sends->count;
}

void exchange_send(struct exchange *exchange, uint32_t lane, int peer, const void *piece,
                   uint64_t piece_bytes)
{
    struct sends *sends = &exchange->lanes[lane].sends;
    const unsigned char *from = piece;
    for (uint64_t at = 0; at < piece_bytes; at += ROUND_MESSAGE_BYTES) {
        int bytes = (int)min_u64(piece_bytes - at, ROUND_MESSAGE_BYTES);
        assert(sends->count < sends->capacity);
        sends->messages[sends->count++] =
            from ? (struct message){.memory = from + at, .bytes = bytes, .peer = peer}
                 : (struct message){.peer = peer};
    }
    start_sends(exchange, lane, sends);
}

uint64_t exchange_sent(struct exchange *exchange, uint32_t lane)
{
    struct sends *sends = &exchange->lanes[lane].sends;
    (void)test_sends(exchange, lane, sends);
    return sends->done;
}

void exchange_discard(struct exchange *exchange, uint32_t lane, int peer, uint64_t messages)
{
    exchange->lanes[lane].discards[peer] += messages;
}

/* One message of one lane at a time, since there is one sink: those that wait are with their
 * senders. */
static bool discard(struct exchange *exchange, uint32_t lane)
{
    for (int peer = 0; peer < exchange->comm->size; peer++) {
        uint64_t *left = &exchange->lanes[lane].discards[peer];
        while (*left > 0) {
            if (exchange->sink_request == MPI_REQUEST_NULL) {
                MPI_Irecv(exchange->sink, (int)exchange->sink_bytes, MPI_BYTE, peer, TAG,
                          exchange->comm->lanes[lane], &exchange->sink_request);
                exchange->sink_lane = lane;
            }
            if (exchange->sink_lane != lane)
                return false;
            if (!comm_test(exchange->comm, &exchange->sink_request))
                return false;
            --*left;
        }
    }
    return true;
}

void exchange_post(struct exchange *exchange, uint32_t lane)
{
    for (enum exchange_part part = 0; part < EXCHANGE_PARTS; part++) {
        struct packed *packed = &exchange->lanes[lane].parts[part];
        const struct exchange_counts *counts = &packed->counts;
        if (travels(exchange, part))
            MPI_Ialltoallv(packed->send, counts->send_counts, counts->send_displacements,
                           exchange->types[part], packed->receive, counts->receive_counts,
                           counts->receive_displacements, exchange->types[part],
                           exchange->comm->rounds, &packed->request);
    }
}

static bool test_packed(const struct exchange *exchange, struct lane *lane)
{
    bool records = comm_test(exchange->comm, &lane->parts[EXCHANGE_RECORDS].request);
    bool trailers = comm_test(exchange->comm, &lane->parts[EXCHANGE_TRAILERS].request);
    return records && trailers;
}

bool exchange_test(struct exchange *exchange, uint32_t lane_index)
{
    struct lane *lane = &exchange->lanes[lane_index];
    bool complete = test_packed(exchange, lane);
    bool received = test_receives(exchange, &lane->receives);
    bool sent = test_sends(exchange, lane_index, &lane->sends);
    bool discarded = discard(exchange, lane_index); /* peers may wait for this one */
    return complete && sent && received && discarded;
}
