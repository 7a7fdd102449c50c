/* A mix: a run whose samples come from several datasets, by weights.
 *
 * Each dataset is a source, with a plan of its own: rows, windows, short rows, anchors. Each sample
 * that is taken from a source is a draw; a source's draws are numbered from 0 through all epochs of
 * the run. Draws do not end: a source of n samples has them again and again, and one pass over them
 * is an epoch of the source's own plan. Draw m is position m mod n of pass floor(m / n).
 *
 *     positions of the run   0 1 2 3 | 4 5 6 7 | 8 ...        steps of B = 4
 *     source 0, weight 3/4   0   1 2 |   3 4 5 |              its draws
 *     source 1, weight 1/4     0     | 1       |              its draws
 *
 * How many draws a source has before a step follows in closed form from the step's first position:
 * two sources divide n positions as floor(n * a / (a + b)) and the rest, and more sources do so in
 * a binary tree. With a schedule of weights a table has where its pieces begin (mix_pieces.h).
 * Within a step the draws are permuted. So a run may begin at any step.
 *
 * With cuts (cuts.h) all samples of a step are of one source, so that they can be of similar
 * length. There the weights divide steps instead of positions, and a source's steps are those of
 * its passes, one pass after another: with S of them a pass, its step k is step k mod S of pass
 * floor(k / S). Draws are numbered as ever. Step s begins at position s * B, and the positions
 * behind its samples are not in use: so positions follow from steps alone.
 *
 *     steps of the run          0     1     2     3     4
 *     source 0, weight 3/4            0     1     2            its steps
 *     source 1, weight 1/4      0                       1      its steps
 *
 * Positions here are absolute: they count through all epochs of the run, epoch * position_count +
 * position. So do steps. All functions that take a plan take the mix's own or that of a source, and
 * say so where they also take a plan without a mix.
 *
 * Pure, but for plan_mix_new() and the tables; any thread. With cuts a function that is given a
 * step or a draw looks into the tables of the source, which must have the pass; those that say so
 * fill the tables, as plan_epoch_init() does, and on the same thread.
 */
#ifndef PENSTOCK_PLAN_ORDER_MIX_H
#define PENSTOCK_PLAN_ORDER_MIX_H

#include "plan/order/plan.h"

enum { MIX_MAX_SOURCES = 64, MIX_MAX_ENTRIES = 64 };

struct mix_pieces;

struct plan_mix {
    uint32_t source_count;
    uint64_t end_step;         /* absolute; no draw there or behind is of use */
    struct mix_pieces *pieces; /* owned: how sources divide positions */
    struct plan outer;         /* steps, positions and trainers of the mix */
    struct plan sources[];     /* [source_count] */
};

/* Weights from a step of the run on. */
struct plan_mix_entry {
    uint64_t step;           /* absolute; 1 .. 2^48, more than that of the entry before */
    bool ramp;               /* from the entry before to `step` weights go to these in a line */
    const uint64_t *weights; /* [source_count] as those of the options */
};

struct plan_mix_options {
    uint32_t source_count;                /* 1 .. MIX_MAX_SOURCES */
    const struct plan_options *sources;   /* [source_count]; seed, global_batch, window_batch, last,
                                           * trainer_count and locality are not looked at. All have
                                           * cuts, with the same items, or none */
    const uint64_t *weights;              /* [source_count] 0 .. 2^32, not all 0; what counts is
                                           * their ratio */
    const struct plan_mix_entry *entries; /* [entry_count] other weights later in the run */
    uint32_t entry_count;                 /* 0 .. MIX_MAX_ENTRIES */
    uint64_t sample_count; /* samples of an epoch, with cuts on average; 0: as many as the sources
                            * have together */
    uint64_t epochs;       /* of the run; UINT64_MAX: no end */
    uint64_t seed;         /* the rest: as in struct plan_options */
    uint64_t global_batch;
    enum plan_last last; /* with cuts PLAN_PARTIAL */
    uint32_t trainer_count;
    uint32_t locality;
};

/* The plan of a mix. Its sizes are those of the whole: rows are all sources' rows, one source after
 * another; row_length, row_samples, window_rows and window_most are the largest of any source,
 * window_least the smallest, window_count the sum. Windows are the sources': plan_epoch_init() of
 * this plan sets nothing for them. What the options borrow is borrowed for as long as the plan is
 * used. The plan's `mix` is for plan_mix_free(). INVALID: as of plan_init(), with the number of the
 * source; weights out of range; with cuts more than 2^48 positions an epoch. NO_MEMORY. */
MUST_USE enum status plan_mix_new(const struct plan_mix_options *options, struct plan *ret_plan,
                                  struct error *err);

/* A copy of the plan of a mix, with a mix of its own, without tables. NO_MEMORY. */
MUST_USE enum status plan_mix_copy(const struct plan *plan, struct plan *ret_plan,
                                   struct error *err);

/* With the tables of its sources. NULL is fine. */
void plan_mix_free(struct plan_mix *mix);

/* plan_tables_new() for a plan, or for each source of a mix: for runs that plan so many windows of
 * each source at once ([sources]). To be freed with plan_sources_tables_free(). NO_MEMORY. */
MUST_USE enum status plan_sources_tables_new(struct plan *plan, const uint64_t *planned_windows,
                                             struct error *err);
void plan_sources_tables_free(struct plan *plan);

/* Sets the locality of a plan, and of all sources of its mix. */
void plan_set_locality(struct plan *plan, uint32_t locality);

/* Gives a plan another number of trainers, which is at most B, and so its sources' plans. The order
 * stays. */
void plan_set_trainers(struct plan *plan, uint32_t trainers);

/* Also without a mix: one source, which is the plan itself. */
uint32_t plan_source_count(const struct plan *plan);
const struct plan *plan_source(const struct plan *plan, uint32_t source);

/* The weight of a source of a mix at the run's first step. */
uint64_t plan_weight(const struct plan *plan, uint32_t source);

/* The mean share of a source of a mix in the run's positions, or with cuts in its steps. */
double plan_mean_share(const struct plan *plan, uint32_t source);

/* Entries of the schedule of weights of a plan, 0 without one, and what it takes in memory. */
uint32_t plan_entry_count(const struct plan *plan);
uint64_t plan_schedule_bytes(const struct plan *plan);

struct plan_draw {
    uint32_t source;
    uint64_t number;
};

/* Where a draw is in its source: a position of a pass, which is an epoch of the source's plan. */
struct plan_pass {
    uint64_t number, position;
};
struct plan_pass plan_draw_pass(const struct plan *plan, struct plan_draw draw);

/* How many draws each source has before a step: ret_first[source_count]. With cuts it fills the
 * tables for steps within a pass. */
void plan_step_draws(const struct plan *plan, uint64_t absolute_step, uint64_t *ret_first);

/* The most draws of a source among so many positions that follow one another, with cuts of whole
 * steps. Without a mix: all. */
uint64_t plan_most_draws(const struct plan *plan, uint32_t source, uint64_t positions);

/* The same of all sources of a mix, and how often each one's sample may come among its draws:
 * passes follow one another, so that the last draws of one may be the first of the next. */
struct plan_mix_most {
    uint64_t draws[MIX_MAX_SOURCES], copies[MIX_MAX_SOURCES];
};
void plan_mix_most(const struct plan *plan, uint64_t positions, struct plan_mix_most *ret_most);

/* Whether a source's samples may come again within an epoch of the run. */
bool plan_comes_again(const struct plan *plan, uint32_t source);

/* The passes over a source that an epoch of the run comes to on average. Without a mix 1. */
double plan_epoch_passes(const struct plan *plan, uint32_t source);

/* With cuts: which step of which source a step is. */
struct plan_mix_cut {
    uint32_t source;
    uint64_t pass, step; /* `step` of `pass` */
};
struct plan_mix_cut plan_mix_cut_at(const struct plan *plan, uint64_t absolute_step);

/* With cuts: fills the tables for a step. */
void plan_mix_cut_fill(const struct plan *plan, uint64_t absolute_step);

/* With cuts: the samples of a step, and the bound of its longest one. The bound fills the tables,
 * unless plan_window_at() has been called for the step's window. */
uint64_t plan_mix_cut_samples(const struct plan *plan, uint64_t absolute_step);
uint64_t plan_mix_cut_bound(const struct plan *plan, uint64_t absolute_step);

/* The samples that each source gives before a step: ret_samples[source_count]. With cuts all steps
 * of a pass count as equal, so that no table is needed. */
void plan_mix_given(const struct plan *plan, uint64_t absolute_step, uint64_t *ret_samples);

/* With cuts: the same of all sources together. */
uint64_t plan_mix_cut_before(const struct plan *plan, uint64_t absolute_step);

/* One step: what each source gives. About 1 KiB. Not with cuts. */
struct plan_mix_step {
    uint64_t absolute_step;
    uint64_t first_position; /* absolute */
    uint32_t source_count;
    uint64_t first_draws[MIX_MAX_SOURCES];
    uint64_t begins[MIX_MAX_SOURCES + 1]; /* draws of the step that are of the sources before */
    struct permutation permutation;       /* offset in the step -> draw of the step */
};
void plan_mix_step_at(const struct plan *plan, uint64_t absolute_step,
                      struct plan_mix_step *ret_step);

/* The draws at `count` offsets of the step from `first_offset` on. */
void plan_mix_step_draws(const struct plan_mix_step *step, uint32_t first_offset, size_t count,
                         struct plan_draw *ret_draws);

/* The draws at positions of an epoch (not absolute), all of one step. Goes through
 * plan_mix_step_at() each time. */
void plan_draws_at(const struct plan *plan, uint64_t epoch, uint64_t first_position, size_t count,
                   struct plan_draw *ret_draws);

/* The absolute step and position of a draw: UINT64_MAX for a draw so far ahead that no run gets
 * there. The step never falls from a draw to the source's next one; the position may, within a
 * step. With cuts plan_draw_step() fills the tables for a draw within a pass. */
uint64_t plan_draw_step(const struct plan *plan, struct plan_draw draw);
uint64_t plan_draw_position(const struct plan *plan, struct plan_draw draw);

/* The step of a draw, and what the draw's source gives to this step. */
struct plan_source_step {
    uint64_t absolute_step, epoch, step; /* `step` of `epoch` */
    uint64_t first_position;             /* absolute */
    uint64_t first_draw, end_draw;       /* the source's draws in the step */
    uint64_t samples;                    /* of the step */
    uint64_t before;                     /* draws of the sources before it, in the step */
    bool permuted;                       /* not with cuts */
    struct permutation permutation;
};
/* False: no run gets there. */
bool plan_source_step_at(const struct plan *plan, struct plan_draw draw,
                         struct plan_source_step *ret_step);

/* The numbers of draws of the step are replaced by the offsets of their positions in the step. */
void plan_source_step_offsets(const struct plan_source_step *step, uint64_t *numbers, size_t count);

/* The trainer that gets position `position` of an epoch, with order.placement fixed. Of a source's
 * epoch: the position's draw. Also without a mix. `position` must be delivered. */
uint32_t plan_trainer_at(const struct plan_epoch *epoch, uint64_t position);

/* A sample at a position of an epoch: which source's, the epoch of the source's plan, the row and
 * the frame. Also without a mix, where `pass` is the epoch. For printing and checking, as
 * plan_sample_at(). Fills tables. `position` must be a sample's. */
struct plan_found {
    uint32_t source;
    uint64_t pass, row, frame, key;
};
void plan_find(const struct plan *plan, uint64_t epoch, uint64_t position,
               struct plan_found *ret_found);

/* Merging fills tables, with anchors or cuts.
 *
 * The windows of all sources in the order in which a run comes to them: next is the source whose
 * next window has the earliest first step, the first such source on a tie. Also without a mix:
 * window after window. A window's serial is pass * window_count + index. A plain value. */
struct plan_merge {
    const struct plan *plan; /* borrowed */
    uint64_t end_step;
    struct plan_merge_source {
        uint64_t serial;     /* of its next window */
        uint64_t first_draw; /* of that window; not used without a mix */
        uint64_t due;        /* absolute step of that draw; UINT64_MAX: no window of use is left */
    } sources[MIX_MAX_SOURCES];
};

/* Starts with the windows that hold the draws from `first_step` on. Windows whose draws all come at
 * `end_step` or later are left out; without a mix no window of an epoch that has begun is. Calls
 * plan_epoch_init() for each source. */
void plan_merge_start(struct plan_merge *ret_merge, const struct plan *plan, uint64_t first_step,
                      uint64_t end_step);

/* The source of the next window, its sources[source].serial. False: there is none left. */
bool plan_merge_next(const struct plan_merge *merge, uint32_t *ret_source);

/* Goes on behind the next window, which is of `source` and has so many samples. */
void plan_merge_take(struct plan_merge *merge, uint32_t source, uint64_t sample_count);

#endif
