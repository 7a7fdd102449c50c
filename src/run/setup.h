/* The numbers of a run: plan, rounds, memory and rings, settled from configuration, dataset and the
 * shape of the machine. Every rank of penstock-reader calls run_setup_settle(), and `penstock plan`
 * prints the result. Nothing here reads data, or allocates but for the plan of a mix. The members
 * of `struct run_shape` must be the same on all ranks (the least memory and the most threads of
 * any): then all ranks have the same results, and no rank keeps rows that another rank has no room
 * for.
 */
#ifndef PENSTOCK_RUN_SETUP_H
#define PENSTOCK_RUN_SETUP_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "delivery/ring/board.h"
#include "delivery/ring/layout.h"
#include "plan/assign/assign.h"
#include "plan/budget/budget.h"
#include "plan/order/mix.h"
#include "plan/order/plan.h"
#include "plan/rounds/round.h"
#include "run/partitions.h"
#include "run/shares.h"
#include "run/state.h"

struct run_shape {
    uint32_t reader_count;
    uint32_t readers_on_node;      /* most on any node */
    uint32_t trainers_served;      /* most that one reader serves */
    uint32_t ring_count;           /* of these, most groups; settled here, as is: */
    uint32_t copies;               /* most readers that one group has trainers at */
    uint32_t worker_count;         /* most threads of any reader */
    uint64_t node_available_bytes; /* memory_available_bytes(), least of any node; UINT64_MAX: not
                                      known, and not to be looked at */
    uint64_t also_bytes;           /* less: what other runs of --also take there; not in
                                      node_available_bytes any more */
    uint32_t auto_divisor;     /* readers.memory_limit "auto" is this part of node_available_bytes;
                                  0: half */
    const char *least_node;    /* that node's name, borrowed; NULL: this machine */
    uint64_t stored_row_bytes; /* of a row in the store, on average; 0: not known */
    uint64_t stored_row_cost;  /* memory that a row takes that is kept as stored; 0: not known */
    const struct board_shape
        *transform; /* what delivery.transform makes, borrowed; NULL: nothing */
    /* The fetch stage (read/fetch_stage.h) that run_fetch_memory() has room for: */
    uint64_t fetch_bytes;        /* its memory; 0: there is none */
    uint64_t fetch_rows;         /* that it has on their way at most */
    uint64_t fetch_row_bytes;    /* of its memory, for each of these rows */
    uint64_t fetch_row_requests; /* that each of these rows takes at most */
};

struct run_setup {
    uint32_t partition_count; /* 1: readers are not divided into partitions (run/partitions.h) */
    struct partitions_cost partitions;
    struct shares shares; /* borrows from configuration, dataset and transform */
    struct plan plan;     /* its trainers are groups of trainers */
    uint32_t most_groups; /* of any session: rings and memory are those that fewest or most need */
    struct round_shape shape;
    struct budget_demand
        demand; /* what `budget` was settled from; demand.plan is NULL: set it to use it */
    struct budget budget;
    uint64_t fetch_bytes;      /* of budget.fetch_bytes, for the fetch stage */
    uint64_t second_bytes;     /* of budget.fetch_bytes, for values that are requested a second time
                                * (dataset_bound_seconds()) */
    uint64_t stored_row_bytes; /* of a row in the store, on average; 0: not known */
    uint64_t record_bytes;     /* of a sample, as it is sent, without trailer; on average */
    struct ring_layout layout; /* settled */
    struct ring_service service; /* group 0's; start_epoch and start_step from `resume` */
};

/* Settles the plan alone, which does not depend on the machine. Of a mix ret_plan->mix is for
 * plan_mix_free(), which takes NULL, too. INVALID: as of plan_init() and plan_mix_new(). */
MUST_USE enum status run_plan_settle(const struct config *config, const struct dataset *dataset,
                                     struct plan *ret_plan, struct error *err);

/* Settles everything. Of a mix ret_setup->plan.mix is for plan_mix_free(). Fetches get less memory
 * than run_fetch_memory() where all rows stay in memory only so, and enough requests can still be
 * under way. `resume` NULL starts at epoch 0, step 0. readers.memory_limit "auto" is half of what
 * the node has available, shared by its readers. INVALID: the plan, the rounds or the rings cannot
 * be as configured; the state to resume from is of another order, or lies beyond the last epoch.
 * NO_MEMORY: the limit is too low, or higher than what a node has available for its readers, and
 * used; the message lists the sizes. */
MUST_USE enum status run_setup_settle(const struct config *config, const struct dataset *dataset,
                                      const struct run_shape *shape, const struct run_state *resume,
                                      struct run_setup *ret_setup, struct error *err);

/* With partitions, what a reader reads instead of the whole dataset, and the shares for that: both
 * with trainers in blocks. *ret_partition is the reader's partition. Errors as of dataset_narrow(),
 * and NO_MEMORY.
 */
MUST_USE enum status run_setup_narrow(const struct run_setup *setup, const struct dataset *whole,
                                      uint32_t reader_count, uint32_t reader,
                                      struct store_watch *watch, struct dataset **ret_dataset,
                                      struct shares *ret_shares, uint32_t *ret_partition,
                                      struct error *err);

/* Between sessions: the run goes on with another number of trainers. The order, the rounds' shape
 * and the memory stay; with order.placement local, the locality has to be settled. False: it cannot
 * have so many (delivery.trainers_least). Allocates nothing. */
bool run_setup_resize(struct run_setup *setup, uint32_t least_trainers, uint32_t trainers);

/* The layout of rings for the trainers that there are now. `dataset` as of run_setup_settle(). Not
 * settled. */
void run_setup_lay_out(const struct run_setup *setup, const struct dataset *dataset,
                       struct ring_layout *ret_layout);

/* The most trainers that one reader serves: with trainers spread evenly, or more if the
 * configuration says so. */
uint32_t run_trainers_served(const struct config *config, uint64_t reader_count);

/* The locality of a run with order.placement local, before it is known who is where: as many
 * trainers on each node, in blocks. */
uint32_t run_locality(const struct run_shape *shape, uint32_t trainer_count);

/* The options of rank 0's assigner. The setup and `reader_of_group` ([groups * copies]) are
 * borrowed while the assigner lives. */
void run_setup_assigner(const struct run_setup *setup, const uint32_t *reader_of_group,
                        struct assigner_options *ret_options);

/* How many of a ring's slots are set aside for trainers that skip steps, and still lease a batch
 * from before: see server_options.reserve_slots. Where epochs are endless, trainers abandon some.
 * Readers differ in what they have published by the rounds in flight at most: these come again, and
 * then the round that is wanted.
 */
uint32_t run_reserve_slots(const struct config *config, struct round_shape shape);

/* All readers, of all partitions. */
static inline uint32_t run_setup_readers(const struct run_setup *setup)
{
    return setup->demand.reader_count * setup->partition_count;
}

/* The memory of all readers of a node, as settled. */
uint64_t run_setup_node_bytes(const struct run_shape *shape, const struct run_setup *setup);

/* The memory one reader may take: readers.memory_limit, or what "auto" stands for. */
uint64_t run_memory_limit(const struct config *config, const struct run_shape *shape);

/* The most of run_memory_limit() for the fetch stage: store.fetch_memory, and a quarter of the
 * limit at most. With store.hedge an eighth is set aside for values that are requested a second
 * time. */
uint64_t run_fetch_memory(const struct config *config, const struct run_shape *shape);

/* Appends a line if readers.memory_limit is more than a node has for its readers, and the readers
 * will take less because the dataset is small. */
void run_setup_warn_limit(const struct config *config, const struct run_shape *shape,
                          const struct run_setup *setup, struct text *out);

/* Appends a line if samples are so long that a step of them has fewer than there are trainers. */
void run_setup_warn_scarce(const struct config *config, const struct run_setup *setup,
                           struct text *out);

/* Appends "windows of 64 rows"; of a mix "windows of 64 rows of source 0, 12 of source 1 (not
 * shuffled)". */
void run_setup_describe_windows(const struct run_setup *setup, struct text *out);

/* "3 epochs", or "endless epochs". */
void run_describe_epochs(const struct config *config, struct text *out);

/* "all of 400 rows stay for later epochs, decoded" */
void run_setup_describe_cache(const struct run_setup *setup, struct text *out);

/* Memory by purpose, one line each, against the limit: budget_describe() of this setup. */
void run_setup_describe_memory(const struct run_setup *setup, struct text *out);

/* Appends the memory by purpose in bytes, as a JSON object. */
void run_setup_memory_json(const struct run_setup *setup, struct text *out);

#endif
