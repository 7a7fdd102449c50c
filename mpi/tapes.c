/* See tapes.h. */
#include "tapes.h"

#include "base/memory.h"

#include <stdlib.h>

enum { TAG = 0 };

/* A tape that is expected; its index is the buffer's number. */
struct reception {
    int32_t row_buffer;
    bool arrived; /* and its row is not handed to the workers yet */
    int bytes;
    uint64_t *rows_read;
};

/* How many messages: one for each reader. */
struct tape_counts {
    uint64_t sent;     /* to it */
    uint64_t expected; /* from it */
};

struct tapes {
    struct job *job;
    int capacity; /* bytes of a buffer */
    unsigned char *memory;
    size_t memory_bytes;
    uint32_t send_count, receive_count; /* buffers */
    MPI_Request *sends, *receives;      /* [send_count], [receive_count] */
    uint32_t *free_sends;               /* [send_count] */
    uint32_t free_send_count;
    struct reception *receptions; /* [receive_count] */
    uint32_t expected_count;      /* receptions under way */
    uint32_t arrived_count;
    int *indices;                      /* [of the larger count], for MPI_Testsome() */
    MPI_Status *statuses;              /* likewise */
    struct tape_counts *mine, *theirs; /* [readers] theirs: when a session ends */
    MPI_Request settle, sink;          /* of these counts; of a message that nobody expected */
    bool settling, settled;
};

static unsigned char *send_memory(const struct tapes *tapes, uint32_t slot)
{
    return tapes->memory + (size_t)slot * (size_t)tapes->capacity;
}

static enum status allocate(struct tapes *tapes, struct error *err)
{
    size_t readers = (size_t)tapes->job->comm.size;
    size_t most =
        tapes->send_count > tapes->receive_count ? tapes->send_count : tapes->receive_count;
    tapes->sends = calloc(tapes->send_count, sizeof *tapes->sends);
    tapes->receives = calloc(tapes->receive_count, sizeof *tapes->receives);
    tapes->free_sends = calloc(tapes->send_count, sizeof *tapes->free_sends);
    tapes->receptions = calloc(tapes->receive_count, sizeof *tapes->receptions);
    tapes->indices = calloc(most, sizeof *tapes->indices);
    tapes->statuses = calloc(most, sizeof *tapes->statuses);
    tapes->mine = calloc(readers, sizeof *tapes->mine);
    tapes->theirs = calloc(readers, sizeof *tapes->theirs);
    if (!tapes->sends || !tapes->receives || !tapes->free_sends || !tapes->receptions ||
        !tapes->indices || !tapes->statuses || !tapes->mine || !tapes->theirs)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the tables of tapes");
    void *memory;
    tapes->memory_bytes = (tapes->send_count + 1) * (size_t)tapes->capacity;
    enum status status = memory_map(tapes->memory_bytes, "tapes to send", &memory, err);
    if (status != STATUS_OK)
        return status;
    tapes->memory = memory;
    memory_touch(memory, tapes->memory_bytes);
    return STATUS_OK;
}

enum status tapes_new(struct job *job, struct tapes **ret_tapes, struct error *err)
{
    struct tapes *tapes = calloc(1, sizeof *tapes);
    if (!tapes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for tapes");
    tapes->job = job;
    tapes->capacity = (int)job->setup.demand.tape_bytes;
    tapes->send_count = (uint32_t)job->setup.budget.tape_buffers;
    tapes->receive_count = received_tapes_count(job->received);
    tapes->settle = tapes->sink = MPI_REQUEST_NULL;
    enum status status = allocate(tapes, err);
    if (status != STATUS_OK) {
        tapes_free(tapes);
        return status;
    }
    for (uint32_t i = 0; i < tapes->send_count; i++) {
        tapes->sends[i] = MPI_REQUEST_NULL;
        tapes->free_sends[tapes->free_send_count++] = i;
    }
    for (uint32_t i = 0; i < tapes->receive_count; i++)
        tapes->receives[i] = MPI_REQUEST_NULL;
    *ret_tapes = tapes;
    return STATUS_OK;
}

void tapes_free(struct tapes *tapes)
{
    if (!tapes)
        return;
    memory_unmap(tapes->memory, tapes->memory_bytes);
    free(tapes->theirs);
    free(tapes->mine);
    free(tapes->statuses);
    free(tapes->indices);
    free(tapes->receptions);
    free(tapes->free_sends);
    free(tapes->receives);
    free(tapes->sends);
    free(tapes);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Synchronous: memory is free once the message is matched, so that MPI holds no more messages than
 * there are buffers. */
static void send(struct tapes *tapes, uint32_t to, uint32_t slot, size_t bytes)
{
    MPI_Issend(send_memory(tapes, slot), (int)bytes, MPI_BYTE, (int)to, TAG, tapes->job->comm.tapes,
               &tapes->sends[slot]);
    tapes->mine[to].sent++;
}

bool tapes_send(struct tapes *tapes, uint32_t to, uint64_t row, uint64_t *ret_bytes)
{
    if (tapes->free_send_count == 0)
        return false;
    uint32_t slot = tapes->free_sends[--tapes->free_send_count];
    size_t bytes = stored_rows_copy(tapes->job->stored, row, send_memory(tapes, slot),
                                    (size_t)tapes->capacity);
    send(tapes, to, slot, bytes);
    *ret_bytes = bytes;
    return true;
}

static bool test_sends(struct tapes *tapes)
{
    int count = 0;
    if (tapes->free_send_count == tapes->send_count)
        return false;
    MPI_Testsome((int)tapes->send_count, tapes->sends, &count, tapes->indices, tapes->statuses);
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++)
        tapes->free_sends[tapes->free_send_count++] = (uint32_t)tapes->indices[i];
    return count != MPI_UNDEFINED && count > 0;
}

/* --- receiving -------------------------------------------------------------------------------- */

bool tapes_may_expect(const struct tapes *tapes)
{
    return received_tapes_has_free(tapes->job->received);
}

void tapes_expect(struct tapes *tapes, uint32_t from, int32_t row_buffer, uint64_t *rows_read)
{
    struct job *job = tapes->job;
    uint32_t numa = row_buffer == ROW_NONE ? 0 : row_store_numa(job->store, row_buffer);
    int32_t buffer = received_tapes_take(job->received, numa);
    tapes->receptions[buffer] =
        (struct reception){.row_buffer = row_buffer, .rows_read = rows_read};
    MPI_Irecv(received_tapes_memory(job->received, buffer), tapes->capacity, MPI_BYTE, (int)from,
              TAG, job->comm.tapes, &tapes->receives[buffer]);
    tapes->mine[from].expected++;
    tapes->expected_count++;
}

/* Notes which tapes have arrived. */
static bool test_receives(struct tapes *tapes)
{
    int count = 0;
    if (tapes->expected_count == 0)
        return false;
    MPI_Testsome((int)tapes->receive_count, tapes->receives, &count, tapes->indices,
                 tapes->statuses);
    for (int i = 0; count != MPI_UNDEFINED && i < count; i++) {
        struct reception *reception = &tapes->receptions[tapes->indices[i]];
        MPI_Get_count(&tapes->statuses[i], MPI_BYTE, &reception->bytes);
        reception->arrived = true;
        tapes->arrived_count++;
        tapes->expected_count--;
    }
    return count != MPI_UNDEFINED && count > 0;
}

/* Begins the load of a row whose tape has arrived. False: the workers' queue is full. */
static bool load(struct tapes *tapes, int32_t buffer)
{
    struct job *job = tapes->job;
    const struct reception *reception = &tapes->receptions[buffer];
    if (reception->row_buffer != ROW_NONE && reception->bytes > 0)
        return row_store_load_tape(job->store, reception->row_buffer, buffer,
                                   (uint64_t)reception->bytes);
    if (reception->row_buffer != ROW_NONE) {
        if (!row_store_load(job->store, reception->row_buffer))
            return false;
        ++*reception->rows_read;
    }
    received_tapes_give_back(job->received, buffer);
    return true;
}

static bool load_arrived(struct tapes *tapes)
{
    bool active = false;
    for (uint32_t i = 0; tapes->arrived_count > 0 && i < tapes->receive_count; i++) {
        if (!tapes->receptions[i].arrived || !load(tapes, (int32_t)i))
            continue;
        tapes->receptions[i].arrived = false;
        tapes->arrived_count--;
        active = true;
    }
    return active;
}

bool tapes_progress(struct tapes *tapes)
{
    bool active = test_sends(tapes);
    active |= test_receives(tapes);
    return load_arrived(tapes) || active;
}

bool tapes_hold_up(const struct tapes *tapes, int32_t row_buffer)
{
    if (row_buffer == ROW_NONE)
        return !tapes_may_expect(tapes);
    for (uint32_t i = 0; tapes->expected_count > 0 && i < tapes->receive_count; i++)
        if (tapes->receives[i] != MPI_REQUEST_NULL && tapes->receptions[i].row_buffer == row_buffer)
            return true;
    return false;
}

bool tapes_under_way(const struct tapes *tapes)
{
    return tapes->expected_count > 0 || tapes->free_send_count < tapes->send_count;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void give_up_arrived(struct tapes *tapes)
{
    struct job *job = tapes->job;
    for (uint32_t i = 0; tapes->arrived_count > 0 && i < tapes->receive_count; i++) {
        struct reception *reception = &tapes->receptions[i];
        if (!reception->arrived)
            continue;
        if (reception->row_buffer != ROW_NONE)
            row_store_drop(job->store, reception->row_buffer);
        received_tapes_give_back(job->received, (int32_t)i);
        reception->arrived = false;
        tapes->arrived_count--;
    }
}

/* Tells each reader how many messages were sent to it, and are expected of it. True: all have told.
 */
static bool settle(struct tapes *tapes)
{
    int complete = 0;
    enum { NUMBERS = sizeof(struct tape_counts) / sizeof(uint64_t) };
    if (!tapes->settling)
        MPI_Ialltoall(tapes->mine, NUMBERS, MPI_UINT64_T, tapes->theirs, NUMBERS, MPI_UINT64_T,
                      tapes->job->comm.tapes, &tapes->settle);
    tapes->settling = true;
    if (!tapes->settled)
        MPI_Test(&tapes->settle, &complete, MPI_STATUS_IGNORE);
    tapes->settled = tapes->settled || complete;
    return tapes->settled;
}

/* Sends a reader what it expects: nothing. */
static bool make_up_sends(struct tapes *tapes, int reader)
{
    while (tapes->mine[reader].sent < tapes->theirs[reader].expected) {
        if (tapes->free_send_count == 0)
            return false;
        send(tapes, (uint32_t)reader, tapes->free_sends[--tapes->free_send_count], 0);
    }
    return true;
}

/* Receives what a reader has sent beyond what was expected, one message at a time. */
static bool make_up_receives(struct tapes *tapes, int reader)
{
    while (tapes->mine[reader].expected < tapes->theirs[reader].sent) {
        int complete = 0;
        if (tapes->sink == MPI_REQUEST_NULL)
            MPI_Irecv(send_memory(tapes, tapes->send_count), tapes->capacity, MPI_BYTE, reader, TAG,
                      tapes->job->comm.tapes, &tapes->sink);
        MPI_Test(&tapes->sink, &complete, MPI_STATUS_IGNORE);
        if (!complete)
            return false;
        tapes->mine[reader].expected++;
    }
    return true;
}

bool tapes_drain(struct tapes *tapes)
{
    test_sends(tapes);
    test_receives(tapes);
    give_up_arrived(tapes);
    if (!settle(tapes))
        return false;
    bool made_up = true;
    for (int reader = 0; reader < tapes->job->comm.size; reader++)
        made_up &= make_up_sends(tapes, reader);
    /* Also while sends wait for a buffer: others may wait in the same way for what is sunk here. */
    for (int reader = 0; reader < tapes->job->comm.size; reader++)
        if (!make_up_receives(tapes, reader))
            return false; /* there is one sink */
    return made_up && !tapes_under_way(tapes);
}
