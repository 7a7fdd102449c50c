/* See overview.h. */
#include "account/overview.h"

#include "base/size.h"
#include "metrics/overview.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ASK = 1, TAG_ANSWER };

static const uint64_t tick_ns = 10000000;
enum { TICKS = 40 }; /* in which each reader is looked after once */

/* A reader of another node, as rank 0 knows it. */
struct peer {
    int rank;
    int asked; /* times */
    bool pending;
    MPI_Request ask, answer;
};

struct overview {
    const struct comm *comm;
    size_t bytes; /* of the longest snapshot */
    uint64_t last_ns;
    bool elsewhere; /* this rank is on another node than rank 0 */
    /* Rank 0: */
    struct metrics_overview file;
    bool watched;
    uint32_t tick;
    struct peer *peers; /* [peer_count] */
    uint32_t peer_count;
    unsigned char *answers; /* [peer_count] of `bytes` */
    /* The others: */
    int answered; /* times */
    MPI_Request incoming, outgoing;
    struct metrics_snapshot *own; /* as it is sent */
};

/* Ranks of the world that are not on this node: *ret_ranks, which the caller frees. */
static enum status find_others(const struct comm *comm, int **ret_ranks, struct error *err)
{
    int *world_ranks = calloc((size_t)comm->size, sizeof *world_ranks);
    int *node_ranks = calloc((size_t)comm->size, sizeof *node_ranks);
    if (!world_ranks || !node_ranks) {
        free(world_ranks);
        free(node_ranks);
        return error_set(err, STATUS_NO_MEMORY, "no memory for the overview of %d readers",
                         comm->size);
    }
    MPI_Group world, node;
    MPI_Comm_group(comm->world, &world);
    MPI_Comm_group(comm->node, &node);
    for (int rank = 0; rank < comm->size; rank++)
        world_ranks[rank] = rank;
    MPI_Group_translate_ranks(world, comm->size, world_ranks, node, node_ranks);
    MPI_Group_free(&world);
    MPI_Group_free(&node);
    int count = 0;
    for (int rank = 0; rank < comm->size; rank++)
        if (node_ranks[rank] == MPI_UNDEFINED)
            world_ranks[count++] = rank;
    free(node_ranks);
    *ret_ranks = world_ranks; /* comm->size - comm->node_size of them */
    return STATUS_OK;
}

static enum status make_root(struct overview *overview, const int *others, int dir,
                             uint32_t most_trainers, struct error *err)
{
    uint32_t count = overview->peer_count;
    overview->peers = calloc(count, sizeof *overview->peers);
    overview->answers = calloc(count, overview->bytes);
    if (!overview->peers || !overview->answers)
        return error_set(err, STATUS_NO_MEMORY,
                         "no memory for an overview of %s: metrics of %u readers",
                         size_format(count * overview->bytes).text, count);
    for (uint32_t p = 0; p < count; p++)
        overview->peers[p] =
            (struct peer){.rank = others[p], .ask = MPI_REQUEST_NULL, .answer = MPI_REQUEST_NULL};
    return metrics_overview_create(dir, (uint32_t)overview->comm->size, most_trainers,
                                   &overview->file, err);
}

static enum status make(struct overview *overview, int dir, uint32_t most_trainers,
                        struct error *err)
{
    const struct comm *comm = overview->comm;
    int *others;
    enum status status = find_others(comm, &others, err);
    if (status != STATUS_OK)
        return status;
    overview->elsewhere = others[0] == 0;
    if (comm->rank == 0) {
        overview->peer_count = (uint32_t)(comm->size - comm->node_size);
        status = make_root(overview, others, dir, most_trainers, err);
    } else if (overview->elsewhere) {
        overview->own = calloc(1, overview->bytes);
        if (!overview->own)
            status = error_set(err, STATUS_NO_MEMORY, "no memory for a copy of metrics");
    }
    free(others);
    return status;
}

enum status overview_new(const struct comm *comm, int dir, uint32_t most_trainers,
                         struct overview **ret_overview, struct error *err)
{
    *ret_overview = NULL;
    if (comm->size == comm->node_size)
        return STATUS_OK;
    struct overview *overview = calloc(1, sizeof *overview);
    if (!overview)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the overview");
    *overview = (struct overview){.comm = comm,
                                  .bytes = metrics_snapshot_bytes(most_trainers),
                                  .file = {.fd = -1},
                                  .incoming = MPI_REQUEST_NULL,
                                  .outgoing = MPI_REQUEST_NULL};
    enum status status = make(overview, dir, most_trainers, err);
    if (status != STATUS_OK) {
        overview_free(overview);
        return status;
    }
    *ret_overview = overview;
    return STATUS_OK;
}

static void expect_ask(struct overview *overview)
{
    MPI_Irecv(NULL, 0, MPI_BYTE, 0, TAG_ASK, overview->comm->overview, &overview->incoming);
}

void overview_begin(struct overview *overview)
{
    if (overview && overview->elsewhere)
        expect_ask(overview);
}

/* Answers if rank 0 has asked; it has the answer before, then, so that the copy is free. */
static bool answer(struct overview *overview, const struct metrics_snapshot *snapshot)
{
    int asked = 0;
    MPI_Test(&overview->incoming, &asked, MPI_STATUS_IGNORE);
    if (!asked)
        return false;
    comm_wait(overview->comm, &overview->outgoing);
    size_t bytes = metrics_snapshot_bytes(snapshot->trainer_count);
    memcpy(overview->own, snapshot, bytes);
    MPI_Isend(overview->own, (int)bytes, MPI_BYTE, 0, TAG_ANSWER, overview->comm->overview,
              &overview->outgoing);
    overview->answered++;
    expect_ask(overview);
    return true;
}

static unsigned char *answer_of(const struct overview *overview, const struct peer *peer)
{
    return overview->answers + (size_t)(peer - overview->peers) * overview->bytes;
}

static void ask(struct overview *overview, struct peer *peer)
{
    MPI_Irecv(answer_of(overview, peer), (int)overview->bytes, MPI_BYTE, peer->rank, TAG_ANSWER,
              overview->comm->overview, &peer->answer);
    MPI_Isend(NULL, 0, MPI_BYTE, peer->rank, TAG_ASK, overview->comm->overview, &peer->ask);
    peer->pending = true;
    peer->asked++;
}

static void take_answer(struct overview *overview, struct peer *peer)
{
    comm_wait(overview->comm, &peer->ask); /* it was answered */
    metrics_overview_put(&overview->file, (const void *)answer_of(overview, peer));
    peer->pending = false;
}

static void look_after(struct overview *overview, struct peer *peer)
{
    int complete = 0;
    if (peer->pending) {
        MPI_Test(&peer->answer, &complete, MPI_STATUS_IGNORE);
        if (!complete)
            return;
        take_answer(overview, peer);
    }
    if (overview->watched)
        ask(overview, peer);
}

/* Each tick a part of the readers. */
static void look_after_some(struct overview *overview)
{
    uint32_t tick = overview->tick;
    overview->tick = (tick + 1) % TICKS;
    if (tick == 0)
        overview->watched = metrics_overview_is_watched(&overview->file);
    for (uint32_t p = tick; p < overview->peer_count; p += TICKS)
        look_after(overview, &overview->peers[p]);
}

void overview_keep(struct overview *overview, uint64_t now_ns,
                   const struct metrics_snapshot *snapshot)
{
    if (!overview || now_ns - overview->last_ns < tick_ns)
        return;
    overview->last_ns = now_ns;
    if (overview->comm->rank == 0)
        look_after_some(overview);
    else if (overview->elsewhere)
        answer(overview, snapshot);
}

/* What readers say at the end, for whoever looks. */
static void ask_all(struct overview *overview, int *asked)
{
    bool watched = metrics_overview_is_watched(&overview->file);
    for (uint32_t p = 0; p < overview->peer_count; p++) {
        struct peer *peer = &overview->peers[p];
        if (watched && !peer->pending)
            ask(overview, peer);
        asked[peer->rank] = peer->asked;
    }
}

/* Tells each rank how often rank 0 has asked it. */
static int share_asked(struct overview *overview)
{
    const struct comm *comm = overview->comm;
    int *asked = NULL, mine = 0;
    if (comm->rank == 0) {
        asked = calloc((size_t)comm->size, sizeof *asked);
        if (!asked)
            MPI_Abort(MPI_COMM_WORLD, 1); /* some KiB at the end of a session */
        else
            ask_all(overview, asked);
    }
    MPI_Request request;
    MPI_Iscatter(asked, 1, MPI_INT, &mine, 1, MPI_INT, 0, comm->overview, &request);
    comm_wait(comm, &request);
    free(asked);
    return mine;
}

void overview_end(struct overview *overview, const struct metrics_snapshot *snapshot)
{
    if (!overview)
        return;
    const struct comm *comm = overview->comm;
    int asked = share_asked(overview);
    for (uint32_t p = 0; p < overview->peer_count; p++)
        if (overview->peers[p].pending) {
            comm_wait(comm, &overview->peers[p].answer);
            take_answer(overview, &overview->peers[p]);
        }
    if (!overview->elsewhere)
        return;
    for (unsigned idle = 0; overview->answered < asked; comm_back_off(&idle)) {
        comm_heed_signals(comm);
        answer(overview, snapshot);
    }
    comm_wait(comm, &overview->outgoing);
    MPI_Cancel(&overview->incoming);
    comm_wait(comm, &overview->incoming);
}

void overview_free(struct overview *overview)
{
    if (!overview)
        return;
    metrics_overview_close(&overview->file);
    free(overview->peers);
    free(overview->answers);
    free(overview->own);
    free(overview);
}
