/* Where a reader's workers and trainers sit, among the readers of its node. See job_internal.h. */
#include "job/job_internal.h"

#include "base/size.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t job_first_trainer(const struct job *job, int reader)
{
    return (uint32_t)size_divide_up((uint64_t)reader * job->config.trainers,
                                    (uint64_t)job->comm.size);
}

uint32_t job_expected_trainers(const struct job *job)
{
    return job_first_trainer(job, job->comm.rank + 1) - job_first_trainer(job, job->comm.rank);
}

/* What the readers of a node tell one another for their placements. */
struct seat_note {
    struct cpuset allowed;
    uint32_t trainers;
    char visible_gpus[COMM_NODE_NAME_BYTES]; /* of the node's first reader counts for all */
    bool has_visible_gpus;
};

static void write_note(const struct job *job, const struct topology *topology,
                       struct seat_note *ret_note)
{
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    struct seat_note note = {.allowed = topology_cpus(topology),
                             .trainers = job_expected_trainers(job),
                             .has_visible_gpus = gpus != NULL};
    if (gpus && strlen(gpus) < sizeof note.visible_gpus)
        snprintf(note.visible_gpus, sizeof note.visible_gpus, "%s", gpus);
    *ret_note = note;
}

/* Readers that a launcher has bound to cpus of their own have placements each by itself, all others
 * together. */
static enum status placement_among(struct job *job, const struct topology *topology,
                                   const struct seat_note *notes, struct placement_group *groups,
                                   struct error *err)
{
    struct placement_request request = {.groups = groups,
                                        .thread_count = (uint32_t)job->config.threads,
                                        .bind = job->config.bind,
                                        .visible_gpus =
                                            notes->has_visible_gpus ? notes->visible_gpus : NULL};
    for (int i = 0; i < job->comm.node_size; i++) {
        const struct cpuset *own = &notes[job->comm.node_rank].allowed;
        if (i == job->comm.node_rank)
            request.reader = request.reader_count;
        if (i == job->comm.node_rank || cpuset_intersects(&notes[i].allowed, own))
            groups[request.reader_count++] = (struct placement_group){
                .first = request.node_trainers, .count = notes[i].trainers};
        request.node_trainers += notes[i].trainers;
    }
    return topology_reader_placement(topology, &request, &job->placement, err);
}

enum status job_settle_placement(struct job *job, struct error *err)
{
    struct topology *topology = NULL;
    struct seat_note mine;
    struct seat_note *notes = calloc((size_t)job->comm.node_size, sizeof *notes);
    struct placement_group *groups = calloc((size_t)job->comm.node_size, sizeof *groups);
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status == STATUS_OK && (!notes || !groups))
        status = error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    status = comm_agree(&job->comm, status, err);
    if (status == STATUS_OK) {
        assert(notes && groups); /* comm_agree() returns OK only where every rank came with it */
        write_note(job, topology, &mine);
        MPI_Request request;
        MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, notes, sizeof mine, MPI_BYTE, job->comm.node,
                       &request);
        comm_wait(&job->comm, &request);
        job->core_count = topology_core_count(topology);
        status = comm_agree(&job->comm, placement_among(job, topology, notes, groups, err), err);
    }
    topology_free(topology);
    free(groups);
    free(notes);
    return status;
}

bool job_divides_by_numa(const struct job *job)
{
    enum { LEAST_BYTES = 128 * 1024 };
    return job->placement.numa_count > 1 && job->setup.record_bytes >= LEAST_BYTES;
}

struct placement_memory job_ring_memory(const struct job *job, uint32_t rank)
{
    uint32_t first = job_first_trainer(job, job->comm.rank);
    return topology_memory_of(&job->placement,
                              rank - first < job_expected_trainers(job) ? rank - first : rank);
}
