/* The locality: where trainers are, as the plan knows. Settled once in a run. See
 * session_internal.h. */
#include "job/session_internal.h"

#include "base/number.h"
#include "base/size.h"
#include "plan/rounds/locality.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum status refuse_two(uint32_t one, uint32_t other, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "trainers go on with different localities (%" PRIu32 ", %" PRIu32
                     "), and samples could be delivered twice: restart all trainers, from the "
                     "state of one checkpoint",
                     one, other);
}

static enum status check_sound(const struct job *job, uint32_t number, struct error *err)
{
    struct locality locality;
    uint32_t trainers = job->setup.plan.trainer_count;
    if (locality_of_number(number, trainers, &locality))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s cannot have locality %" PRIu32
                     ": restart all trainers, from the state of one checkpoint",
                     count_each(trainers, "trainer").text, number);
}

enum status session_note_locality(struct session *session, uint32_t rank, uint32_t number,
                                  struct error *err)
{
    if (session->job->setup.plan.locality == 0)
        return STATUS_OK;
    enum status status = check_sound(session->job, number, err);
    if (status != STATUS_OK)
        return status;
    if (session->session_count > 0)
        return number == session->known_locality ? STATUS_OK
                                                 : refuse_two(session->known_locality, number, err);
    if (session->localities[rank] && session->localities[rank] != number) {
        session_note_progress(session); /* takes what the server has of the one before */
        session->left_off[rank] = 0;
    }
    session->localities[rank] = number;
    return STATUS_OK;
}

/* Whether trainers that are gone had stopped at different steps. The same on all ranks. */
static bool left_apart(const struct session *session)
{
    uint64_t first = 0;
    for (uint32_t t = 0; t < session->job->setup.service.world_size; t++) {
        first = first ? first : session->left_off[t];
        if (session->left_off[t] && session->left_off[t] != first)
            return true;
    }
    return false;
}

/* Collective: a trainer that is there says which run it is of. One of its rank that was at another
 * reader, with another number, and is gone, was of another run: its cursor is forgotten, too. */
static enum status forget_strangers(struct session *session, struct error *err)
{
    const struct job *job = session->job;
    size_t trainers = job->config.trainers;
    uint32_t *told = calloc(trainers, sizeof *told);
    enum status status =
        told ? STATUS_OK
             : error_set(err, STATUS_NO_MEMORY, "no memory for the localities of trainers");
    status = comm_agree(&job->comm, status, err);
    for (size_t t = 0; status == STATUS_OK && t < trainers; t++)
        if (session->reader_of_trainer[t] == (uint32_t)job->comm.rank)
            told[t] = session->localities[t];
    if (status == STATUS_OK) {
        comm_reduce(&job->comm, told, trainers, MPI_UINT32_T, MPI_MAX, job->comm.world);
        session_note_progress(session); /* takes what the server has of those that are gone */
    }
    for (size_t t = 0; status == STATUS_OK && t < trainers; t++) {
        if (told[t] == 0 || session->localities[t] == 0 || session->localities[t] == told[t])
            continue;
        session->localities[t] = 0;
        session->left_off[t] = 0;
    }
    free(told);
    return status;
}

/* The least and the most of the numbers that are known here. */
static void range_known(const struct session *session, uint32_t *least, uint32_t *most)
{
    for (uint64_t i = 0; i <= session->job->config.trainers; i++) {
        uint32_t number =
            i < session->job->config.trainers ? session->localities[i] : session->known_locality;
        *least = number ? min_u32(*least, number) : *least;
        *most = max_u32(*most, number);
    }
}

/* Collective: the number that trainers, or a supervisor, have of the run that goes on; 0: nobody
 * has one. INVALID: they have different ones, or one that cannot be, or need one. */
static enum status share_known(const struct session *session, uint32_t *ret_number,
                               struct error *err)
{
    const struct comm *comm = &session->job->comm;
    uint32_t least = UINT32_MAX, most = 0;
    range_known(session, &least, &most);
    least = (uint32_t)job_reduce(comm, least, MPI_MIN, comm->world);
    most = (uint32_t)job_reduce(comm, most, MPI_MAX, comm->world);
    *ret_number = most;
    if (most == 0 && left_apart(session))
        return error_set(err, STATUS_INVALID,
                         "--left: cursors differ, and a line 'locality NUMBER' is missing: samples "
                         "could be delivered twice");
    if (most == 0)
        return STATUS_OK;
    if (least != most)
        return refuse_two(least, most, err);
    return check_sound(session->job, *ret_number, err);
}

/* Collective: the place of each group: its first reader, or the NUMA node there where its ring will
 * lie; and the node of that reader, named by the lowest rank there. ret_tables: [2][groups]. */
static void share_places(const struct session *session, uint32_t *ret_tables)
{
    const struct job *job = session->job;
    const struct comm *comm = &job->comm;
    const struct mesh *mesh = &job->setup.service.mesh;
    uint32_t groups = job->setup.plan.trainer_count, me = (uint32_t)comm->rank;
    uint32_t node = (uint32_t)job_reduce(comm, me, MPI_MIN, comm->node);
    for (uint32_t rank = mesh->rank_count; rank-- > 0;) { /* the first one of a group counts */
        uint32_t group = mesh_group_of(mesh, rank);
        if (session->reader_of_trainer[rank] != me ||
            session->groups.readers[(size_t)group * session->groups.most] != me)
            continue;
        ret_tables[group] = me * TOPOLOGY_MAX_WORKERS;
        if (job_divides_by_numa(job))
            ret_tables[group] += job_ring_memory(job, rank).numa;
        ret_tables[groups + group] = node;
    }
    comm_reduce(comm, ret_tables, 2 * (size_t)groups, MPI_UINT32_T, MPI_MAX, comm->world);
}

/* Collective: the number that fits where the trainers are now. */
static enum status find(const struct session *session, uint32_t *ret_number, struct error *err)
{
    const struct job *job = session->job;
    uint32_t groups = job->setup.plan.trainer_count;
    uint32_t *tables = calloc(2 * (size_t)groups, sizeof *tables);
    enum status status =
        tables ? STATUS_OK
               : error_set(err, STATUS_NO_MEMORY, "no memory for the nodes of trainers");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        share_places(session, tables);
        *ret_number = locality_find(tables + groups, tables, groups);
        if (*ret_number == 0)
            status = error_set(err, STATUS_NO_MEMORY, "no memory for the nodes of trainers");
        status = comm_agree(&job->comm, status, err);
    }
    free(tables);
    return status;
}

enum status session_settle_locality(struct job *job, struct session *session, struct error *err)
{
    if (job->setup.plan.locality == 0)
        return STATUS_OK;
    if (session->session_count == 0 || session->resized) {
        uint32_t number;
        enum status status = forget_strangers(session, err);
        if (status == STATUS_OK)
            status = share_known(session, &number, err);
        if (status == STATUS_OK && number == 0)
            status = find(session, &number, err);
        if (status != STATUS_OK)
            return status;
        session->known_locality = number;
        plan_set_locality(&job->setup.plan, number);
        job->setup.service.order.locality = number;
        server_set_locality(job->server, number);
    }
    if (job_tells_supervisor(job) && job->comm.rank == 0)
        printf("locality %" PRIu32 "\n", session->known_locality);
    return STATUS_OK;
}
