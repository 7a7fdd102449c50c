/* Locality: who gets which sample of a step with order.placement local.
 *
 * The gradient of a step is a sum over the step's samples: which trainer has which sample does not
 * matter. So a sample goes to a trainer of the node that keeps the sample's row, as far as equal
 * shares allow, and only the imbalance travels. (Yang and Cong, "Accelerating Data Loading in Deep
 * Neural Network Training", HiPC 2019, doi 10.1109/HiPC.2019.00037.)
 *
 * Row r is near trainer r mod T, in all epochs. (With anchors it is near trainer floor(T * (r * g
 * mod 2^64) / 2^64), g = 0x9e3779b97f4a7c15: with a stride, the rows that have samples may all be
 * multiples of T. Multiples of the golden ratio are spread evenly whatever the stride. So it is in
 * a mix, too.) Its samples go to trainers of that trainer's reader, then of its node, then of
 * others. So each position of a step has a destination: an index in the step's local batches, one
 * after another. With order.placement fixed, a position is its own destination. The assigner
 * (assign.h) keeps rows at the reader of the trainer that they are near, as far as it can.
 *
 * Destinations depend on the plan and on the run's locality: not on who reads a row, nor on when.
 * So what a trainer gets at a step is the same before and after a death, and nothing is lost or
 * delivered twice. The locality is settled when all trainers are there for the first time. It goes
 * with the order: into rings, states and cursor files. A run that goes on keeps its locality, on
 * other nodes, too: there more bytes travel, and the destinations are the same.
 *
 * Pure; any thread. A matcher belongs to one thread at a time.
 */
#ifndef PENSTOCK_PLAN_ROUNDS_LOCALITY_H
#define PENSTOCK_PLAN_ROUNDS_LOCALITY_H

#include "base/divide.h"
#include "plan/rounds/round.h"

/* Which trainers share a node, and which of those a reader; one that serves trainers of several
 * NUMA nodes may count as several readers. Trainers are spread over the nodes in
 * blocks: trainer t is on node floor(t * nodes / T); or in turn: on node t mod nodes. A node's
 * trainers, in order of rank, are divided among its readers in blocks. */
struct locality {
    uint32_t nodes;   /* 1 .. T */
    uint32_t readers; /* of a node; 1 or more */
    bool in_turn;
};

/* A locality as a number, never 0, which has room for 65535 nodes and 32767 readers; and back.
 * False: no locality of `trainers` trainers has that number. */
enum { LOCALITY_MOST_READERS = 0x7fff, LOCALITY_MOST_NODES = 0xffff };
uint32_t locality_number(struct locality locality);
static inline struct locality locality_unpack(uint32_t number)
{
    return (struct locality){.nodes = number >> 16,
                             .readers = number >> 1 & LOCALITY_MOST_READERS,
                             .in_turn = number & 1};
}
bool locality_of_number(uint32_t number, uint32_t trainers, struct locality *ret_locality);

/* The locality that says most of where trainers are. node_of_trainer and reader_of_trainer:
 * [trainers]; nodes and readers may have any numbers. O(T log T). 0: no memory. */
uint32_t locality_find(const uint32_t *node_of_trainer, const uint32_t *reader_of_trainer,
                       uint32_t trainers);

/* Whether a position may have another destination than itself: not with order.placement fixed, and
 * not where all trainers are one reader's. Items and rounds ask this; memory is counted before the
 * locality is settled, so that a budget asks for plan->locality alone. */
static inline bool locality_matters(const struct plan *plan)
{
    struct locality locality = locality_unpack(plan->locality);
    return locality.nodes > 1 || (locality.readers > 1 && plan->trainer_count > 1);
}

static const uint64_t LOCALITY_GOLDEN = UINT64_C(0x9e3779b97f4a7c15);

/* Which trainers rows are near. */
struct locality_near {
    struct divider trainers;
    bool spread; /* with anchors, or of a mix */
};

static inline struct locality_near locality_near(const struct plan *plan)
{
    return (struct locality_near){divider_of(plan->trainer_count),
                                  plan->anchors != NULL || plan->mix != NULL};
}

/* The trainer that a row is near. */
static inline uint32_t locality_trainer(struct locality_near near, uint64_t row)
{
    if (near.spread)
        return (uint32_t)((unsigned __int128)(row * LOCALITY_GOLDEN) * near.trainers.divisor >> 64);
    return (uint32_t)(row - divide(near.trainers, row) * near.trainers.divisor);
}

/* Rows that are near one trainer, in turn: 0 .. turns - 1. */
static inline uint32_t locality_turn(struct locality_near near, uint64_t row, uint32_t turns)
{
    if (near.spread) /* by the bits that locality_trainer() does not look at */
        return (uint32_t)((unsigned __int128)(row * LOCALITY_GOLDEN * near.trainers.divisor) *
                              turns >>
                          64);
    return (uint32_t)(divide(near.trainers, row) % turns);
}

/* The share of samples that are expected to travel between so many readers, where each has rows of
 * its own: of b samples of a step for each reader sqrt((1 - 1/R) / (2 pi b)). */
double locality_moved(const struct plan *plan, uint32_t reader_count);

/* Tables and counters for finding destinations. */
struct matcher;

/* plan->locality must not be 0. The plan is copied. NULL: no memory. For matcher_free(). */
struct matcher *matcher_new(const struct plan *plan);
void matcher_free(struct matcher *matcher);

/* The most memory of a matcher, whatever the locality. */
uint64_t matcher_bytes(const struct plan *plan);

/* With cuts (cuts.h): the plan of the epoch to match next, of which the steps are borrowed. Without
 * cuts nothing needs to be set. */
void matcher_set_epoch(struct matcher *matcher, const struct plan *plan);

/* Gives destinations to all positions of a step: destinations[i] is the trainer that position i of
 * the step is near, and becomes the position's destination. Each trainer gets its local batch.
 * Where more samples are near a reader than its trainers get, keys choose which ones go elsewhere,
 * and where to. The trainers of one reader share its samples in order of position. O(B + T). */
void matcher_match(struct matcher *matcher, uint64_t epoch, uint64_t step, uint32_t *destinations);

#endif
