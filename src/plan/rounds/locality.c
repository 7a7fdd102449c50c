/* See locality.h: numbers of localities, and the one that fits a cluster. */
#include "plan/rounds/locality.h"

#include "base/number.h"

#include <math.h>
#include <stdlib.h>

uint32_t locality_number(struct locality locality)
{
    return min_u32(locality.nodes, LOCALITY_MOST_NODES) << 16 |
           min_u32(locality.readers, LOCALITY_MOST_READERS) << 1 | locality.in_turn;
}

bool locality_of_number(uint32_t number, uint32_t trainers, struct locality *ret_locality)
{
    *ret_locality = locality_unpack(number);
    return ret_locality->nodes >= 1 && ret_locality->nodes <= trainers &&
           ret_locality->readers >= 1;
}

double locality_moved(const struct plan *plan, uint32_t reader_count)
{
    double of_reader = (double)plan->global_batch / reader_count;
    return fmin(sqrt((1 - 1.0 / reader_count) / (2 * M_PI * of_reader)), 1);
}

static int ascending(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Nodes with trainers, and the most readers with trainers that one of them has. */
static bool count_nodes(const uint32_t *node_of_trainer, const uint32_t *reader_of_trainer,
                        uint32_t trainers, uint32_t *ret_nodes, uint32_t *ret_readers)
{
    uint64_t *pairs = calloc(trainers, sizeof *pairs);
    if (!pairs)
        return false;
    for (uint32_t t = 0; t < trainers; t++)
        pairs[t] = (uint64_t)node_of_trainer[t] << 32 | reader_of_trainer[t];
    qsort(pairs, trainers, sizeof *pairs, ascending);
    uint32_t nodes = 0, readers = 0, most = 0;
    for (uint32_t t = 0; t < trainers; t++) {
        bool other_node = t == 0 || pairs[t] >> 32 != pairs[t - 1] >> 32;
        nodes += other_node;
        readers = other_node ? 1 : readers + (pairs[t] != pairs[t - 1]);
        most = readers > most ? readers : most;
    }
    free(pairs);
    *ret_nodes = nodes;
    *ret_readers = most;
    return true;
}

/* How many trainers are where the trainer is that the locality puts next to them: in turn, t is
 * with t - nodes; in blocks, with t - 1, unless a block begins there. */
static uint32_t count_neighbours(const uint32_t *node_of_trainer, uint32_t trainers, uint32_t nodes,
                                 bool in_turn)
{
    uint32_t count = 0;
    for (uint32_t t = in_turn ? nodes : 1; t < trainers; t++)
        count += in_turn ? node_of_trainer[t] == node_of_trainer[t - nodes]
                         : (uint64_t)t * nodes / trainers != (t - UINT64_C(1)) * nodes / trainers ||
                               node_of_trainer[t] == node_of_trainer[t - 1];
    return in_turn ? count + nodes - 1 : count;
}

uint32_t locality_find(const uint32_t *node_of_trainer, const uint32_t *reader_of_trainer,
                       uint32_t trainers)
{
    struct locality found = {0};
    if (!count_nodes(node_of_trainer, reader_of_trainer, trainers, &found.nodes, &found.readers))
        return 0;
    found.in_turn = count_neighbours(node_of_trainer, trainers, found.nodes, true) >
                    count_neighbours(node_of_trainer, trainers, found.nodes, false);
    return locality_number(found);
}
