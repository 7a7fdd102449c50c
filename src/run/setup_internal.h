/* What the files of a setup share: setup.c (plan, rounds and service), setup_rings.c (slots and
 * rings), setup_memory.c (the memory of a reader) and setup_text.c (the setup in words). Inside
 * src/run. */
#ifndef PENSTOCK_RUN_SETUP_INTERNAL_H
#define PENSTOCK_RUN_SETUP_INTERNAL_H

#include "run/fragment_sources.h"
#include "run/setup.h"

/* What readers' slots have, with trainers in blocks, and the fragments of samples on their way
 * there. */
struct setup_delivery {
    struct need_classes classes;
    struct fragment_sources *fragments;
    struct dataset *narrowed; /* with partitions: what a reader of the largest one reads; owned */
};

/* setup_cuts.c: the budget of steps, by the lengths of the samples of batch.budget_field in a
 * dataset, or in a source of a mix; zeros if there is no budget. INVALID: there is no such ragged
 * field. */
MUST_USE enum status setup_cuts(const struct config *config, const struct dataset *dataset,
                                struct plan_cuts *ret_cuts, struct error *err);

/* Whether the items of ragged field `number` are what the plan's steps have a budget of: it is the
 * field, or has the same offsets, in all sources. */
bool setup_is_budget(const struct dataset *dataset, const struct plan *plan, size_t number);

/* With a budget: the most items of ragged field `number` that one of `trainers` trainers gets at a
 * step. */
uint64_t setup_cut_items(const struct dataset *dataset, const struct plan *plan, size_t number,
                         uint64_t trainers);

/* The most bytes of the trailers of all samples of a step; 0 without a budget. */
uint64_t setup_step_trailer(const struct dataset *dataset, const struct plan *plan);

/* How a field lies in a slot. `capacity`: of items, for all samples of a batch; looked at where
 * slots have items. Not settled. */
struct ring_field setup_slot_field(const struct dataset_field *from, uint64_t capacity);

/* setup_rings.c: the layout of the largest ring of any reader, for rounds of that shape. INVALID as
 * of ring_layout_settle(). */
MUST_USE enum status setup_settle_layout(const struct config *config, const struct dataset *dataset,
                                         const struct run_setup *setup,
                                         const struct need_classes *classes,
                                         const struct run_shape *run, struct round_shape shape,
                                         struct ring_layout *ret_layout, struct error *err);

/* setup_rings.c: twice the most steps that a round may have with delivery.slots "auto". Of small
 * samples, or with order.placement local, little of a step travels between two readers, and rounds
 * have many steps: with all that such rounds need, the rings of a reader stay within
 * AUTO_RINGS_BYTES (on one node, where no link has to be kept busy, AUTO_NODE_RINGS_BYTES; there,
 * if all of a step travels, caches hold what rounds of few steps have), and within their part of
 * its memory. One reader alone has several steps in a round where they are small: within
 * AUTO_ROUNDS_ALONE rounds, and unless steps_per_round is given whatever the slots are. Errors as
 * of setup_settle_layout(). */
MUST_USE enum status setup_most_slots(const struct config *config, const struct dataset *dataset,
                                      const struct run_shape *shape, const struct run_setup *setup,
                                      const struct need_classes *classes, uint32_t *ret_slots,
                                      struct error *err);

/* setup.c. With fault injection, PENSTOCK_ROUND_CAPACITY=1.05 gives readers room for so many times
 * the mean, so that rounds have passes, and samples of windows are not listed; else 0. */
double setup_times_mean(void);

/* setup_memory.c: the dataset's ragged fields, for the plans of memory and rounds. */
struct plan_ragged setup_ragged(const struct dataset *dataset, const struct plan *plan);

/* setup_memory.c: settles demand, budget, fetch_bytes and second_bytes of a setup that has all but
 * these. NO_MEMORY as of run_setup_settle(). */
MUST_USE enum status setup_settle_memory(const struct config *config, const struct dataset *dataset,
                                         const struct run_shape *shape,
                                         const struct fragment_sources *fragments,
                                         struct run_setup *setup, struct error *err);

#endif
