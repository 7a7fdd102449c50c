/* Sessions: how one begins and ends. See session.h. Every stage that can fail on one rank ends in
 * comm_agree(), so that all ranks take the same way. */
#include "job/session_internal.h"

#include "base/clock.h"
#include "base/size.h"
#include "mesh/mesh.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_rank(const void *left, const void *right)
{
    uint32_t a = ((const struct job_trainer *)left)->rank;
    uint32_t b = ((const struct job_trainer *)right)->rank;
    return (a > b) - (a < b);
}

static int by_group(const void *left, const void *right)
{
    uint32_t a = ((const struct job_ring *)left)->group;
    uint32_t b = ((const struct job_ring *)right)->group;
    return (a > b) - (a < b);
}

/* Trainers that have come to this reader are this reader's: `claims` is 1 for them. */
static void claim_trainers(struct session *session, uint32_t *claims)
{
    const struct job *job = session->job;
    for (uint32_t peer = 0; peer < session->trainer_count; peer++) {
        uint32_t rank = server_trainer_rank(job->server, peer);
        session->trainers[peer] = (struct job_trainer){.rank = rank, .peer = peer};
        session->reader_of_trainer[rank] = (uint32_t)job->comm.rank;
        claims[rank] = 1;
        if (job->children)
            children_note(job->children, rank, false);
    }
    qsort(session->trainers, session->trainer_count, sizeof *session->trainers, by_rank);
}

/* Collective. INVALID: a trainer has not one reader. */
static enum status share_claims(struct session *session, uint32_t *claims, struct error *err)
{
    const struct job *job = session->job;
    size_t total = job->setup.service.world_size;
    MPI_Request requests[2];
    MPI_Iallreduce(MPI_IN_PLACE, session->reader_of_trainer, (int)total, MPI_UINT32_T, MPI_MAX,
                   job->comm.world, &requests[0]);
    MPI_Iallreduce(MPI_IN_PLACE, claims, (int)total, MPI_UINT32_T, MPI_SUM, job->comm.world,
                   &requests[1]);
    comm_wait(&job->comm, &requests[0]);
    comm_wait(&job->comm, &requests[1]);
    for (uint32_t rank = 0; rank < total; rank++)
        if (claims[rank] != 1)
            return error_set(
                err, STATUS_INVALID, "trainer rank %u connected %u time%s: %s must connect once",
                rank, claims[rank], count_plural(claims[rank]), count_each(total, "rank").text);
    return STATUS_OK;
}

void session_free_map(struct session *session)
{
    free(session->reader_of_trainer);
    free(session->groups.readers);
    free(session->groups.counts);
    free(session->trainers);
    free(session->rings);
    free(session->ring_of_group);
    need_classes_done(&session->needs);
}

/* NO_MEMORY. */
static enum status new_map(struct session *session, uint32_t count, struct error *err)
{
    const struct job *job = session->job;
    size_t total = job->setup.service.world_size, groups = job->setup.plan.trainer_count;
    session_free_map(session);
    session->groups.most = job->setup.demand.copies;
    session->reader_of_trainer = calloc(total, sizeof *session->reader_of_trainer);
    session->groups.readers =
        calloc(groups * session->groups.most, sizeof *session->groups.readers);
    session->groups.counts = calloc(groups, sizeof *session->groups.counts);
    session->trainers = calloc(count + 1u, sizeof *session->trainers);
    session->rings = calloc(count + 1u, sizeof *session->rings);
    session->ring_of_group = calloc(groups, sizeof *session->ring_of_group);
    if (!session->reader_of_trainer || !session->groups.readers || !session->groups.counts ||
        !session->trainers || !session->rings || !session->ring_of_group)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %zu trainer%s", total,
                         count_plural(total));
    session->trainer_count = count;
    return STATUS_OK;
}

/* The readers of each group that are of one partition, in order of the group's ranks. REFUSED: more
 * than there are buffers for. */
static enum status map_groups(const struct session *session, uint32_t partition,
                              struct group_readers *groups, struct error *err)
{
    const struct job *job = session->job;
    const struct mesh *mesh = &job->setup.service.mesh;
    memset(groups->counts, 0, job->setup.plan.trainer_count * sizeof *groups->counts);
    for (uint32_t rank = 0; rank < mesh->rank_count; rank++) {
        uint32_t group = mesh_group_of(mesh, rank), reader = session->reader_of_trainer[rank];
        uint32_t *readers = groups->readers + (size_t)group * groups->most, c = 0;
        if (job_partition_of(job, reader) != partition)
            continue;
        while (c < groups->counts[group] && readers[c] != reader)
            c++;
        if (c == groups->most)
            return error_set(err, STATUS_REFUSED,
                             "%s is at reader %" PRIu32 ", and its group is at %" PRIu32
                             " others: start ranks in blocks, one node after another, as "
                             "delivery.mesh has them; with reader %" PRIu32 " those from %" PRIu32
                             " on",
                             mesh_name(mesh, rank).text, reader, groups->most, reader,
                             job_first_trainer(job, (int)reader));
        if (c == groups->counts[group])
            readers[groups->counts[group]++] = reader;
    }
    for (uint32_t group = 0; group < job->setup.plan.trainer_count; group++) {
        uint32_t *readers = groups->readers + (size_t)group * groups->most;
        for (uint32_t c = groups->counts[group]; c > 0 && c < groups->most; c++)
            readers[c] = readers[c - groups->counts[group]];
    }
    return STATUS_OK;
}

/* With partitions: trainers are with the readers that have their parts, and this reader deals with
 * those of its partition alone. REFUSED: they are with others. */
static enum status keep_partition(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    struct need_classes *needs = &session->needs;
    uint32_t readers = (uint32_t)job->comm.size;
    for (uint32_t r = 0; r < readers; r++)
        if (memcmp(&needs->needs[needs->of[r]], &job->partitions.needs[job->partitions.of[r]],
                   sizeof needs->needs[0]) != 0)
            return error_set(err, STATUS_REFUSED,
                             "reader %" PRIu32
                             " has trainers that need other parts of samples than "
                             "it reads: start ranks in blocks, one node after another, as "
                             "delivery.mesh has them; with this reader those from %" PRIu32 " on",
                             r, job_first_trainer(job, (int)r));
    needs->needs[0] = job->partitions.needs[job->partition];
    needs->count = 1;
    memset(needs->of, 0, readers * sizeof *needs->of);
    return STATUS_OK;
}

/* REFUSED: this reader's trainers are of more groups than there is memory for. */
static enum status check_rings(const struct session *session, struct error *err)
{
    const struct job *job = session->job;
    const struct mesh *mesh = &job->setup.service.mesh;
    uint32_t count = 0, me = (uint32_t)job->comm.rank;
    for (uint32_t g = 0; g < job->setup.plan.trainer_count; g++)
        for (uint32_t c = 0; c < session->groups.counts[g]; c++)
            count += session->groups.readers[(size_t)g * session->groups.most + c] == me;
    if (count <= job->setup.demand.ring_count)
        return STATUS_OK;
    return error_set(err, STATUS_REFUSED,
                     "reader %d on %s has trainers of %" PRIu32 " groups, and memory for %" PRIu32
                     ": start ranks in blocks, one node after another, as delivery.mesh has them, "
                     "or set delivery.trainers_per_reader to the most trainers of a reader, which "
                     "are %" PRIu32 " here (of %" PRIu32 ")",
                     job->comm.rank, job->comm.node_name, count, job->setup.demand.ring_count,
                     session->trainer_count, mesh->rank_count);
}

/* What each reader's trainers need, and the layout of this one's rings. REFUSED: it is larger than
 * there is memory for. */
static enum status map_needs(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    const struct run_setup *setup = &job->setup;
    enum status status = need_classes_init(
        &session->needs, &setup->shares, (uint32_t)job->comm.size, session->reader_of_trainer, err);
    if (status == STATUS_OK && job->partitions.of)
        status = keep_partition(session, err);
    if (status == STATUS_OK)
        status = check_rings(session, err);
    if (status != STATUS_OK)
        return status;
    session->layout = setup->layout;
    if (config_least_trainers(&job->config) < job->config.trainers)
        run_setup_lay_out(setup, job->dataset, &session->layout);
    needs_lay_out(&session->needs.needs[session->needs.of[job->comm.rank]], &session->layout);
    status = ring_layout_settle(&session->layout, err);
    if (status == STATUS_OK && session->layout.total_bytes > setup->layout.total_bytes)
        status = error_set(err, STATUS_REFUSED,
                           "trainers of reader %d need rings of %s, and there is memory for %s: "
                           "start ranks in blocks, one node after another, as delivery.mesh has "
                           "them",
                           job->comm.rank, size_format(session->layout.total_bytes).text,
                           size_format(setup->layout.total_bytes).text);
    server_set_layout(job->server, &session->layout);
    return status;
}

/* Settles on every rank who serves which trainer. */
static enum status map_trainers(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    enum status status = new_map(session, server_trainer_count(job->server), err);
    uint32_t *claims = calloc(job->config.trainers, sizeof *claims);
    if (status == STATUS_OK && !claims)
        status = error_set(err, STATUS_NO_MEMORY, "no memory for the trainers");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        assert(claims); /* comm_agree() returns OK only where every rank came with it */
        claim_trainers(session, claims);
        status = share_claims(session, claims, err);
    }
    free(claims);
    if (status == STATUS_OK)
        status = map_groups(session, job->partition, &session->groups, err);
    return status == STATUS_OK ? comm_agree(&job->comm, map_needs(session, err), err) : status;
}

/* This reader's rings, which are there now. */
static void map_rings(struct session *session)
{
    const struct job *job = session->job;
    session->ring_count = server_ring_count(job->server);
    for (uint32_t r = 0; r < session->ring_count; r++) {
        uint32_t first = server_ring_first_trainer(job->server, r);
        uint32_t rank = server_trainer_rank(job->server, first);
        session->rings[r] = (struct job_ring){.group = server_ring_group(job->server, r),
                                              .ring = r,
                                              .numa = job_ring_memory(job, rank).numa};
    }
    qsort(session->rings, session->ring_count, sizeof *session->rings, by_group);
    for (uint32_t r = 0; r < session->ring_count; r++)
        session->ring_of_group[session->rings[r].group] = r + 1;
}

void session_free_assigners(struct session *session)
{
    for (uint32_t p = 0; session->assigners && p < job_partition_count(session->job); p++) {
        struct partition_assigner *partition = &session->assigners[p];
        assigner_free(partition->assigner);
        free(partition->numbers);
        free(partition->readers);
        free(partition->groups.readers);
        free(partition->groups.counts);
    }
    free(session->assigners);
    session->assigners = NULL;
}

/* The readers of a partition, which have numbers there, and room for who serves which group. */
static enum status new_partition(const struct job *job, uint32_t partition,
                                 struct partition_assigner *to, struct error *err)
{
    size_t readers = (size_t)job->comm.size, groups = job->setup.most_groups;
    uint32_t count = 0, most = job->setup.demand.copies;
    *to = (struct partition_assigner){.numbers = calloc(readers, sizeof *to->numbers),
                                      .readers = calloc(readers, sizeof *to->readers),
                                      .groups = {.readers = calloc(groups * most, sizeof(uint32_t)),
                                                 .counts = calloc(groups, sizeof(uint32_t)),
                                                 .most = most}};
    if (!to->numbers || !to->readers || !to->groups.readers || !to->groups.counts)
        return error_set(err, STATUS_NO_MEMORY, "no memory to give out rows");
    for (uint32_t r = 0; r < readers; r++)
        if (job_partition_of(job, r) == partition) {
            to->numbers[r] = count;
            to->readers[count++] = (uint16_t)r;
        }
    return STATUS_OK;
}

/* Tells a partition's assigner who serves which group now. */
static enum status assign_partition(const struct session *session, uint32_t p, struct error *err)
{
    const struct job *job = session->job;
    struct partition_assigner *partition = &session->assigners[p];
    size_t count = (size_t)job->setup.plan.trainer_count * partition->groups.most;
    enum status status = map_groups(session, p, &partition->groups, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        partition->groups.readers[i] = partition->numbers[partition->groups.readers[i]];
    if (status != STATUS_OK)
        return status;
    if (partition->assigner) {
        assigner_set_trainers(partition->assigner, job->setup.plan.trainer_count);
        assigner_go_on(partition->assigner, partition->groups.readers);
        return STATUS_OK;
    }
    struct assigner_options options;
    run_setup_assigner(&job->setup, partition->groups.readers, &options);
    return assigner_new(&options, &partition->assigner, err);
}

/* Rank 0 alone gives out rows, for each partition. What it has given a home has it for the run, as
 * that reader keeps the row. */
static enum status open_assigners(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    uint32_t partitions = job_partition_count(job);
    enum status status = STATUS_OK;
    bool is_first = job->comm.rank == 0 && !session->assigners;
    if (is_first && !(session->assigners = calloc(partitions, sizeof *session->assigners)))
        status = error_set(err, STATUS_NO_MEMORY, "no memory to give out rows");
    for (uint32_t p = 0; status == STATUS_OK && job->comm.rank == 0 && p < partitions; p++) {
        if (is_first)
            status = new_partition(job, p, &session->assigners[p], err);
        if (status == STATUS_OK)
            status = assign_partition(session, p, err);
    }
    return comm_agree(&job->comm, status, err);
}

void session_assign_anew(const struct session *session)
{
    for (uint32_t p = 0; session->assigners && p < job_partition_count(session->job); p++)
        assigner_go_on(session->assigners[p].assigner, session->assigners[p].groups.readers);
}

/* Which pages the rings of all readers have: told once. */
static void tell_pages(struct session *session)
{
    const struct job *job = session->job;
    memset(session->ring_pages, 0, sizeof session->ring_pages);
    for (uint32_t ring = 0; ring < session->ring_count; ring++)
        session->ring_pages[server_ring_pages(job->server, ring)]++;
    comm_reduce(&job->comm, session->ring_pages, RING_PAGES_COUNT, MPI_UINT64_T, MPI_SUM,
                job->comm.world);
    if (!job->verbose || job->comm.rank != 0 || session->session_count > 0)
        return;
    struct text pages = {0};
    ring_memory_describe(&job->setup.layout, session->ring_pages, &pages);
    fprintf(stderr, "rings      %s\n", pages.data);
    text_done(&pages);
}

/* Collective. A trainer that has died may still count with its reader when the process in its place
 * is with another one: some 10 ms later it does not. All ranks find the same. */
static enum status await_and_map(struct job *job, struct session *session, bool quiet,
                                 struct error *err)
{
    enum { TRIES = 100 };
    for (uint32_t tries = 1;; tries++) {
        enum status status = session_await_trainers(session, quiet, err);
        if (status != STATUS_OK || session->over)
            return status;
        session_resize(job, session, session_world_size(session));
        status = map_trainers(session, err);
        if (status != STATUS_INVALID || tries == TRIES)
            return status;
    }
}

enum status session_gather(struct job *job, struct session *session, bool quiet, struct error *err)
{
    session->resized = false;
    enum status status = await_and_map(job, session, quiet, err);
    if (status == STATUS_OK && session->over) {
        job_finish_well(job);
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = session_settle_locality(job, session, err);
    if (status == STATUS_OK)
        status = session_settle_start(session, quiet || job->also, err);
    if (status == STATUS_OK)
        status = open_assigners(session, err);
    if (status == STATUS_OK)
        status = comm_agree(&job->comm, server_start(job->server, err), err);
    if (status == STATUS_OK) {
        map_rings(session);
        tell_pages(session);
        status = comm_agree(&job->comm, job_begin_transform(job, &session->layout, err), err);
    }
    if (status == STATUS_OK && job_tells_supervisor(job) && job->comm.rank == 0) {
        printf("gathered\n");
        fflush(stdout);
    }
    if (status == STATUS_OK && job->comm.rank == 0 && session->session_count > 0 && !job->also)
        fprintf(stderr, "penstock-reader: all trainers are there again after %.2f s\n",
                (double)(clock_now_ns() - session->ended_ns) / 1e9);
    session->session_count++;
    return status;
}

/* For those who come fresh instead of another. */
static void note_cursors(struct session *session)
{
    const struct job *job = session->job;
    for (uint32_t peer = 0; peer < session->trainer_count; peer++) {
        uint64_t epoch, step, cursor = server_trainer_cursor(job->server, peer);
        server_trainer_goodbye(job->server, peer, &epoch, &step);
        if (server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CLOSED)
            cursor = job_cursor(job, epoch, step);
        session_note_cursor(session, server_trainer_rank(job->server, peer), cursor);
    }
    fflush(stdout);
}

/* All trainers of a run of --also have left: those that come again begin anew. */
static void begin_anew(struct session *session)
{
    const struct job *job = session->job;
    uint32_t parted;
    uint64_t cursor;
    for (uint32_t rank = 0; rank < job->config.trainers; rank++)
        server_expect(job->server, rank);
    while (server_take_parted(job->server, &parted, &cursor)) {
    }
    memset(session->left_off, 0, job->config.trainers * sizeof *session->left_off);
    session->start_epoch = session->start_step = 0;
    session->begins_anew = false;
}

enum status session_scatter(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    session->ended_ns = clock_now_ns();
    note_cursors(session);
    row_store_forget_uses(job->store);
    if (job->transform)
        transform_end(job->transform);
    server_restart(job->server);
    if (session->begins_anew)
        begin_anew(session);
    uint32_t restarted;
    return comm_agree(&job->comm, job_restart_children(job, &restarted, err), err);
}
