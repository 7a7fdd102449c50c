/* The seating of a node: which core each reader and each trainer of the node gets. Every reader
 * computes the seating of the whole node, with the same result. Internal to topology/.
 */
#ifndef PENSTOCK_TOPOLOGY_SEATING_H
#define PENSTOCK_TOPOLOGY_SEATING_H

#include "topology/machine.h"

enum { NO_GPU = UINT32_MAX };

/* Cores [first, first + count) of topology->cores. */
struct range {
    uint32_t first, count;
};

enum core_use {
    CORE_FREE,
    CORE_RESERVED, /* for a trainer */
    CORE_TAKEN,    /* by workers */
};

struct seating_trainer {
    uint32_t gpu;  /* index into topology->gpus, or NO_GPU */
    uint32_t node; /* index of the NUMA node where it sits; only where not crowded */
};

struct seating {
    const struct topology *topology;         /* borrowed */
    const struct placement_request *request; /* borrowed */
    bool crowded;
    uint32_t trainer_count;
    struct seating_trainer *trainers; /* [trainer_count], reader after reader */
    struct range *shares;             /* [reader_count] cores of each reader */
    uint32_t *thread_counts;          /* [reader_count] */
    enum core_use *uses;              /* [core_count] */
};

/* Workers of one reader that follow one another on one NUMA node. */
struct seating_run {
    uint32_t worker_count;
    uint32_t node;
    struct range cores; /* for workers, of this reader on this node */
};

/* NO_MEMORY. */
MUST_USE enum status seating_init(const struct topology *topology,
                                  const struct placement_request *request,
                                  struct seating *ret_seating, struct error *err);
void seating_done(struct seating *seating);

/* The run that begins with worker `first` of `reader`. */
struct seating_run seating_run_at(const struct seating *seating, uint32_t reader, uint32_t first);

/* Index into trainers of the first one of `reader`. */
uint32_t seating_first_trainer(const struct seating *seating, uint32_t reader);

/* The index-th of `parts` even parts of `count` things begins here. */
static inline uint32_t part_begin(uint32_t count, uint32_t index, uint32_t parts)
{
    return (uint32_t)((uint64_t)count * index / parts);
}

#endif
