/* See links.h. Each reader streams pieces to one of another node. What counts is when pieces are
 * received, from one in the middle of the stream to another: a send may be over long before, and
 * the first pieces come faster from links that let some bytes pass before they slow down. */
#include "links.h"

#include "base/clock.h"
#include "job_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum {
    LEAST_PIECE = 32 << 10, /* bytes */
    MOST_PIECE = 2 << 20,
    UNDER_WAY = 4,
    WARM_UP = 10,            /* pieces */
    COUNTED = 4 * UNDER_WAY, /* pieces may arrive in bunches */
    PIECES = WARM_UP + COUNTED + UNDER_WAY - 1,
    TAG = 0,
};
static const uint64_t LEAST_NS = 30000000; /* of a try that counts */
static const uint64_t MOST_NS = 60000000;  /* of such tries, after which no other one begins */
static const uint64_t SLEEP_NS = 20000;
static const double NO_LINK_BYTE_NS = 1e-3;

/* Pieces on their way to one reader, and from another one. */
struct stream {
    int to, from, piece_bytes;
    unsigned char *memory; /* UNDER_WAY pieces that are received, and one that is sent */
    MPI_Request sends[UNDER_WAY], receives[UNDER_WAY];
    int posted, sent, received; /* pieces; posted: in both directions */
};

static void post(const struct comm *comm, struct stream *stream)
{
    size_t bytes = (size_t)stream->piece_bytes;
    for (; stream->posted < PIECES && stream->posted < stream->sent + UNDER_WAY &&
           stream->posted < stream->received + UNDER_WAY;
         stream->posted++) {
        int lane = stream->posted % UNDER_WAY;
        MPI_Irecv(stream->memory + (size_t)lane * bytes, (int)bytes, MPI_BYTE, stream->from, TAG,
                  comm->pace, &stream->receives[lane]);
        MPI_Isend(stream->memory + UNDER_WAY * bytes, (int)bytes, MPI_BYTE, stream->to, TAG,
                  comm->pace, &stream->sends[lane]);
    }
}

/* Whether the oldest request is complete, of those that are posted. */
static bool test_oldest(const struct stream *stream, MPI_Request *requests, int done)
{
    int complete = 0;
    if (done < stream->posted)
        MPI_Test(&requests[done % UNDER_WAY], &complete, MPI_STATUS_IGNORE);
    return complete;
}

/* Moves all pieces. Returns how long the counted ones took, in ns: as many are under way when they
 * begin as when they are over. */
static uint64_t move(const struct comm *comm, struct stream *stream)
{
    uint64_t warm_ns = 0, counted_ns = 0;
    while (stream->sent < PIECES || stream->received < PIECES) {
        post(comm, stream);
        bool sent = test_oldest(stream, stream->sends, stream->sent);
        bool received = test_oldest(stream, stream->receives, stream->received);
        stream->sent += sent;
        stream->received += received;
        if (received && stream->received == WARM_UP)
            warm_ns = clock_now_ns();
        if (received && stream->received == WARM_UP + COUNTED)
            counted_ns = clock_now_ns();
        if (received || sent)
            continue;
        comm_heed_signals(comm);
        clock_sleep_ns(SLEEP_NS);
    }
    return counted_ns - warm_ns;
}

/* Collective: how long a byte takes, in larger and larger pieces until they take long enough to be
 * measured. Connections are made by the first of them. A try that something else disturbed does not
 * count: the shortest does. */
static double probe(const struct comm *comm, unsigned char *memory)
{
    /* The same on all readers; on another node, where ranks are in blocks. */
    int shift = (int)job_reduce(comm, (uint64_t)comm->node_size, MPI_MAX, comm->world);
    struct stream fresh = {.to = (comm->rank + shift) % comm->size,
                           .from = (comm->rank - shift + comm->size) % comm->size,
                           .piece_bytes = LEAST_PIECE,
                           .memory = memory};
    double byte_ns = INFINITY;
    for (uint64_t all_ns = 0; all_ns < MOST_NS;) {
        struct stream stream = fresh;
        uint64_t took_ns = move(comm, &stream);
        uint64_t longest_ns = job_reduce(comm, took_ns, MPI_MAX, comm->world);
        if (longest_ns < LEAST_NS && fresh.piece_bytes < MOST_PIECE) {
            fresh.piece_bytes *= 2;
            continue;
        }
        byte_ns = fmin(byte_ns, (double)took_ns / COUNTED / fresh.piece_bytes);
        all_ns += longest_ns;
    }
    return byte_ns;
}

enum status links_measure(struct job *job, struct error *err)
{
    const struct comm *comm = &job->comm;
    unsigned char *memory = calloc(UNDER_WAY + 1, MOST_PIECE);
    double *all = calloc((size_t)comm->size, sizeof *all);
    enum status status = STATUS_OK;
    if (!memory || !all)
        status = error_set(err, STATUS_NO_MEMORY, "no memory to measure the links");
    status = comm_agree(comm, status, err);
    if (status == STATUS_OK) {
        /* Within a node there is no link: sending takes processor time alone. */
        double byte_ns = comm->node_size == comm->size ? NO_LINK_BYTE_NS : probe(comm, memory);
        MPI_Request request;
        MPI_Igather(&byte_ns, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, comm->world, &request);
        comm_wait(comm, &request);
    }
    assert(status != STATUS_OK || all); /* comm_agree() says OK only where every rank has it */
    for (int r = 0; status == STATUS_OK && job->assigner && r < comm->size; r++)
        assigner_note_rates(job->assigner, (uint32_t)r, &(struct ways_rates){.byte_ns = all[r]});
    free(all);
    free(memory);
    return status;
}
