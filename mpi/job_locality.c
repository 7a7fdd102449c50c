/* The locality: where trainers are, as the plan knows. Settled once in a run. See job_internal.h.
 */
#include "job_internal.h"

#include "plan/locality.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum status job_refuse_localities(uint32_t one, uint32_t other, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "trainers go on with different localities (%" PRIu32 ", %" PRIu32
                     "), and samples could be delivered twice: restart all trainers, from the "
                     "state of one checkpoint",
                     one, other);
}

/* Collective: the number that trainers, or a supervisor, have of the run that goes on; 0: nobody
 * has one. INVALID: they have different ones. */
static enum status share_known(const struct job *job, uint32_t *ret_number, struct error *err)
{
    const struct comm *comm = &job->comm;
    uint64_t most = job_reduce(comm, job->known_locality, MPI_MAX, comm->world);
    uint64_t mine = job->known_locality ? job->known_locality : UINT32_MAX;
    uint64_t least = job_reduce(comm, mine, MPI_MIN, comm->world);
    struct locality locality;
    *ret_number = (uint32_t)most;
    if (most > 0 && (least != most ||
                     !locality_of_number(*ret_number, job->setup.plan.trainer_count, &locality)))
        return job_refuse_localities((uint32_t)least, (uint32_t)most, err);
    return STATUS_OK;
}

/* Collective: the node of each trainer, named by the lowest rank there. */
static void share_nodes(const struct job *job, uint32_t *ret_node_of_trainer)
{
    const struct comm *comm = &job->comm;
    uint32_t trainers = job->setup.plan.trainer_count;
    uint32_t node = (uint32_t)job_reduce(comm, (uint64_t)comm->rank, MPI_MIN, comm->node);
    for (uint32_t t = 0; t < trainers; t++)
        ret_node_of_trainer[t] = job->reader_of_trainer[t] == (uint32_t)comm->rank ? node : 0;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, ret_node_of_trainer, (int)trainers, MPI_UINT32_T, MPI_MAX,
                   comm->world, &request);
    comm_wait(comm, &request);
}

/* Collective: the number that fits where the trainers are now. */
static enum status find(const struct job *job, uint32_t *ret_number, struct error *err)
{
    uint32_t trainers = job->setup.plan.trainer_count;
    uint32_t *node_of_trainer = calloc(trainers, sizeof *node_of_trainer);
    enum status status =
        node_of_trainer ? STATUS_OK
                        : error_set(err, STATUS_NO_MEMORY, "no memory for the nodes of trainers");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        share_nodes(job, node_of_trainer);
        *ret_number = locality_find(node_of_trainer, job->reader_of_trainer, trainers);
        if (*ret_number == 0)
            status = error_set(err, STATUS_NO_MEMORY, "no memory for the nodes of trainers");
        status = comm_agree(&job->comm, status, err);
    }
    free(node_of_trainer);
    return status;
}

enum status job_settle_locality(struct job *job, struct error *err)
{
    if (job->setup.plan.locality == 0)
        return STATUS_OK;
    if (job->session_count == 0) {
        uint32_t number;
        enum status status = share_known(job, &number, err);
        if (status == STATUS_OK && number == 0)
            status = find(job, &number, err);
        if (status != STATUS_OK)
            return status;
        job->known_locality = job->setup.plan.locality = number;
        job->setup.service.order.locality = number;
        server_set_locality(job->server, number);
    }
    if (job->supervised && job->comm.rank == 0)
        printf("locality %" PRIu32 "\n", job->known_locality);
    return STATUS_OK;
}
