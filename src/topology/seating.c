/* See seating.h.
 *
 *     1. divide    cores among readers                        | r0 r0 r0 r0 | r1 r1 r1 r1 |
 *     2. swap      shares, towards the GPUs
 *     3. reserve   a core for each trainer, from the end      | .  .  .  T  | .  .  T  T  |
 *     4. take      as many of the others as there are workers | w  w  .  T  | w  .  T  T  |
 *
 * Cores that are left over belong to the trainers, too. A crowded node stops after the second step.
 * Any other node has a core for each thread and each trainer, so that no later step can fail.
 */
#include "topology/seating.h"

#include "base/number.h"

#include <assert.h>
#include <stdlib.h>

enum { AUTO_MAX_WORKERS = 64, NO_CORE = UINT32_MAX };

/* The first core of node `node`, or the number of cores for the node after the last. */
static uint32_t node_first_core(const struct topology *topology, uint32_t node)
{
    uint32_t i = 0;
    while (i < topology->core_count && topology->cores[i].node < node)
        i++;
    return i;
}

/* Workers that each reader has at least. */
static uint32_t least_threads(const struct placement_request *request)
{
    return request->thread_count ? request->thread_count : 1;
}

static struct range whole_nodes(const struct topology *topology, uint32_t reader, uint32_t size)
{
    uint32_t nodes = topology->node_count;
    uint32_t first = node_first_core(topology, part_begin(nodes, reader, size));
    uint32_t end = node_first_core(topology, part_begin(nodes, reader + 1, size));
    return (struct range){.first = first, .count = end - first};
}

/* Whether whole nodes are enough for everybody's threads, or nothing is. */
static bool nodes_suffice(const struct seating *seating)
{
    const struct topology *topology = seating->topology;
    uint32_t size = seating->request->reader_count, least = least_threads(seating->request);
    if (topology->node_count < size)
        return false;
    for (uint32_t reader = 0; reader < size; reader++)
        if (whole_nodes(topology, reader, size).count < least)
            return (uint64_t)size * least > topology->core_count;
    return true;
}

static void divide_cores(struct seating *seating)
{
    const struct topology *topology = seating->topology;
    uint32_t size = seating->request->reader_count, cores = topology->core_count;
    bool whole = nodes_suffice(seating);
    for (uint32_t reader = 0; reader < size; reader++) {
        uint32_t first = part_begin(cores, reader, size);
        uint32_t end = part_begin(cores, reader + 1, size);
        /* more readers than cores take turns: several have the same one */
        seating->shares[reader] =
            whole ? whole_nodes(topology, reader, size)
                  : (struct range){.first = first, .count = end > first ? end - first : 1};
    }
}

uint32_t seating_first_trainer(const struct seating *seating, uint32_t reader)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < reader; i++)
        sum += seating->request->groups[i].count;
    return sum;
}

/* The NUMA node of a trainer's GPU, or ANY_NODE. */
static uint32_t gpu_node(const struct seating *seating, uint32_t trainer)
{
    uint32_t gpu = seating->trainers[trainer].gpu;
    return gpu == NO_GPU ? ANY_NODE : seating->topology->gpus[gpu].node;
}

/* The number of the reader's trainers with a GPU near these cores. */
static uint32_t count_near(const struct seating *seating, uint32_t reader, struct range cores)
{
    uint32_t near = 0, first = seating_first_trainer(seating, reader);
    for (uint32_t i = 0; i < seating->request->groups[reader].count; i++) {
        uint32_t node = gpu_node(seating, first + i);
        for (uint32_t c = cores.first; c < cores.first + cores.count; c++) {
            if (seating->topology->cores[c].node == node) {
                near++;
                break;
            }
        }
    }
    return near;
}

static bool swap_if_better(struct seating *seating, uint32_t a, uint32_t b)
{
    struct range *shares = seating->shares;
    uint32_t now = count_near(seating, a, shares[a]) + count_near(seating, b, shares[b]);
    uint32_t then = count_near(seating, a, shares[b]) + count_near(seating, b, shares[a]);
    if (then <= now)
        return false;
    struct range kept = shares[a];
    shares[a] = shares[b];
    shares[b] = kept;
    return true;
}

/* Readers swap shares as long as that brings more trainers near their GPUs. Ends, for each swap
 * brings at least one. */
static void swap_towards_gpus(struct seating *seating)
{
    bool moved;
    do {
        moved = false;
        for (uint32_t a = 0; a < seating->request->reader_count; a++)
            for (uint32_t b = a + 1; b < seating->request->reader_count; b++)
                moved |= swap_if_better(seating, a, b);
    } while (moved);
}

/* Gives each trainer its GPU. */
static enum status match_gpus(struct seating *seating, struct error *err)
{
    const struct placement_request *request = seating->request;
    uint32_t *visible = calloc((size_t)seating->topology->gpu_count + 1, sizeof *visible);
    if (!visible)
        return error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    uint32_t count = gpus_visible(seating->topology, request->visible_gpus, visible);
    bool enough = count > 0 && count >= request->node_trainers;
    for (uint32_t reader = 0, next = 0; reader < request->reader_count; reader++) {
        const struct placement_group *group = &request->groups[reader];
        for (uint32_t i = 0; i < group->count; i++) {
            bool known = enough && group->first + i < count;
            seating->trainers[next++].gpu = known ? visible[group->first + i] : NO_GPU;
        }
    }
    free(visible);
    if (enough)
        swap_towards_gpus(seating);
    return STATUS_OK;
}

/* Cores of a share that are not reserved for trainers. */
static uint32_t count_open(const struct seating *seating, struct range share)
{
    uint32_t open = 0;
    for (uint32_t i = share.first; i < share.first + share.count; i++)
        open += seating->uses[i] != CORE_RESERVED;
    return open;
}

/* The last open core of a share on `node`, which may be ANY_NODE. */
static uint32_t last_open(const struct seating *seating, struct range share, uint32_t node)
{
    for (uint32_t i = share.first + share.count; i-- > share.first;)
        if (seating->uses[i] == CORE_FREE &&
            (node == ANY_NODE || seating->topology->cores[i].node == node))
            return i;
    return NO_CORE;
}

/* An open core on `node` that its reader can spare: of reader `own`, else of the one that has most
 * to spare. */
static uint32_t spare_core(const struct seating *seating, uint32_t own, uint32_t node)
{
    uint32_t most = 0, best = NO_CORE, least = least_threads(seating->request);
    for (uint32_t reader = 0; reader < seating->request->reader_count; reader++) {
        uint32_t core = last_open(seating, seating->shares[reader], node);
        uint32_t open = count_open(seating, seating->shares[reader]);
        if (core == NO_CORE || open <= least)
            continue;
        if (reader == own)
            return core;
        if (open - least > most) {
            most = open - least;
            best = core;
        }
    }
    return best;
}

/* Reserves a core for each trainer: near its GPU; else where an even spread over its reader's cores
 * puts it; else anywhere. */
static void reserve_cores(struct seating *seating)
{
    const struct placement_request *request = seating->request;
    for (uint32_t reader = 0, trainer = 0; reader < request->reader_count; reader++) {
        uint32_t count = request->groups[reader].count;
        struct range share = seating->shares[reader];
        for (uint32_t i = 0; i < count; i++, trainer++) {
            uint32_t node = gpu_node(seating, trainer);
            if (node == ANY_NODE)
                node =
                    seating->topology->cores[share.first + part_begin(share.count, i, count)].node;
            uint32_t core = spare_core(seating, reader, node);
            if (core == NO_CORE)
                core = spare_core(seating, reader, ANY_NODE);
            assert(core != NO_CORE); /* not crowded: somebody can spare one */
            seating->uses[core] = CORE_RESERVED;
            seating->trainers[trainer].node = seating->topology->cores[core].node;
        }
    }
}

static uint32_t count_threads(const struct seating *seating, uint32_t reader)
{
    const struct placement_request *request = seating->request;
    if (request->thread_count)
        return request->thread_count;
    uint32_t threads = count_open(seating, seating->shares[reader]);
    uint32_t trainers = request->groups[reader].count;
    if (seating->crowded) /* nothing is reserved */
        threads = threads > trainers ? threads - trainers : 1;
    return min_u32(threads, AUTO_MAX_WORKERS);
}

/* The NUMA node of worker `index`: workers are spread evenly over their reader's open cores. */
static uint32_t worker_node(const struct seating *seating, uint32_t reader, uint32_t index)
{
    struct range share = seating->shares[reader];
    uint32_t open = count_open(seating, share);
    uint32_t left = part_begin(open, index, seating->thread_counts[reader]);
    uint32_t core = share.first;
    for (; seating->uses[core] == CORE_RESERVED || left > 0; core++)
        left -= seating->uses[core] != CORE_RESERVED;
    return seating->topology->cores[core].node;
}

static bool has_trainers(const struct seating *seating, uint32_t node)
{
    for (uint32_t i = 0; i < seating->trainer_count && !seating->crowded; i++)
        if (seating->trainers[i].node == node)
            return true;
    return false;
}

struct seating_run seating_run_at(const struct seating *seating, uint32_t reader, uint32_t first)
{
    struct range share = seating->shares[reader];
    struct seating_run run = {.node = worker_node(seating, reader, first)};
    uint32_t index = first;
    while (index < seating->thread_counts[reader] &&
           worker_node(seating, reader, index) == run.node)
        index++;
    run.worker_count = index - first;
    for (uint32_t i = share.first; i < share.first + share.count; i++) {
        if (seating->topology->cores[i].node != run.node)
            continue;
        if (run.cores.count++ == 0)
            run.cores.first = i;
    }
    if (has_trainers(seating, run.node))
        run.cores.count = run.worker_count;
    return run;
}

static void take_cores(struct seating *seating)
{
    for (uint32_t reader = 0; reader < seating->request->reader_count; reader++) {
        for (uint32_t i = 0; i < seating->thread_counts[reader];) {
            struct seating_run run = seating_run_at(seating, reader, i);
            for (uint32_t c = run.cores.first; c < run.cores.first + run.cores.count; c++)
                seating->uses[c] = CORE_TAKEN;
            i += run.worker_count;
        }
    }
}

static enum status allocate(struct seating *seating, struct error *err)
{
    size_t readers = seating->request->reader_count;
    seating->trainers = calloc((size_t)seating->trainer_count + 1, sizeof *seating->trainers);
    seating->shares = calloc(readers, sizeof *seating->shares);
    seating->thread_counts = calloc(readers, sizeof *seating->thread_counts);
    seating->uses = calloc(seating->topology->core_count, sizeof *seating->uses);
    if (!seating->trainers || !seating->shares || !seating->thread_counts || !seating->uses)
        return error_set(err, STATUS_NO_MEMORY, "placement: out of memory");
    return STATUS_OK;
}

enum status seating_init(const struct topology *topology, const struct placement_request *request,
                         struct seating *ret_seating, struct error *err)
{
    struct seating seating = {.topology = topology, .request = request};
    seating.trainer_count = seating_first_trainer(&seating, request->reader_count);
    uint64_t wanted =
        (uint64_t)request->reader_count * least_threads(request) + seating.trainer_count;
    seating.crowded = wanted > topology->core_count;
    enum status status = allocate(&seating, err);
    if (status == STATUS_OK) {
        divide_cores(&seating);
        status = match_gpus(&seating, err);
    }
    if (status != STATUS_OK) {
        seating_done(&seating);
        return status;
    }
    if (!seating.crowded)
        reserve_cores(&seating);
    for (uint32_t reader = 0; reader < request->reader_count; reader++)
        seating.thread_counts[reader] = count_threads(&seating, reader);
    take_cores(&seating);
    *ret_seating = seating;
    return STATUS_OK;
}

void seating_done(struct seating *seating)
{
    free(seating->uses);
    free(seating->thread_counts);
    free(seating->shares);
    free(seating->trainers);
    *seating = (struct seating){0};
}
