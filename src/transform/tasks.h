/* The tasks of a session: steps in slots of trainers' rings, or parts of steps, as the board
 * (delivery/ring/board.h) shows them to processes, and what the reader knows of each itself: the
 * board is others' to write to, too. Steps of a ring are counted from the session's begin.
 *
 * Nothing blocks or allocates but tasks_begin() and what says so. Main thread only.
 */
#ifndef PENSTOCK_TRANSFORM_TASKS_H
#define PENSTOCK_TRANSFORM_TASKS_H

#include "base/error.h"
#include "base/text.h"
#include "delivery/ring/board.h"
#include "delivery/ring/ring.h"
#include "transform/mask.h"

#include <stdbool.h>

/* Samples [begin, begin + count) of a slot. */
struct task {
    uint32_t ring, slot, begin, count;
    uint64_t serial;
    uint32_t tries;    /* processes that had it and died */
    int first_ending;  /* of the first of them: process.h */
    uint64_t since_ns; /* when it was first seen taken; 0: it is not */
    bool is_partly;    /* it was seen to be BOARD_PARTLY, before processes were heard last */
};

/* Steps of one ring. */
struct steps {
    uint64_t base, filled, taken; /* base: of sequence 0 */
    uint32_t *left;               /* [slot_count] tasks of the slot's step that are not done */
};

struct tasks {
    uint32_t process_count;
    bool divides;          /* a step may be several tasks */
    struct mask_rule rule; /* for samples that processes call bad */
    /* Of a session: */
    const struct ring **rings; /* [ring_count]; each borrowed */
    struct steps *steps;       /* [ring_count] */
    uint32_t ring_count;
    struct ring_layout layout;
    struct board *board;             /* NULL: there is no session */
    int board_fd, token_fd, done_fd; /* -1: likewise */
    uint32_t part_count;             /* most tasks of a step */
    struct task *all;                /* [count] part p of slot s of ring r:
                                      * (r * slots + s) * parts + p */
    uint32_t count;                  /* as made, and as the board said then */
    uint32_t *live;                  /* [live_count] indices of tasks that are not done */
    uint32_t live_count;
    uint64_t submitted;
    unsigned char *bad; /* [ring_count, slots, batch_size] of tasks that are not done: 1: bad */
};

void tasks_init(struct tasks *tasks, uint32_t process_count, bool divides,
                const struct mask_rule *rule);

/* A session begins, over the one before: `rings` ([count]) are borrowed until tasks_end().
 * NO_MEMORY, IO. */
MUST_USE enum status tasks_begin(struct tasks *tasks, const struct ring *const *rings,
                                 uint32_t count, const struct ring_layout *layout,
                                 struct error *err);

/* The session is over, if there is one. Processes take no more of it. */
void tasks_end(struct tasks *tasks);

/* Processes take no more of what is shown. */
void tasks_withdraw(const struct tasks *tasks);

/* As of transform_cancel(), _slot_free(), _submit(), _done() and _take(). */
bool tasks_cancel(struct tasks *tasks);
bool tasks_slot_free(const struct tasks *tasks, uint32_t ring, uint64_t sequence);
void tasks_submit(struct tasks *tasks, uint32_t ring, uint32_t sample_count);
uint64_t tasks_done(const struct tasks *tasks, uint32_t ring);
void tasks_take(struct tasks *tasks, uint32_t ring);

/* The word of the i-th live task. */
uint64_t tasks_word(const struct tasks *tasks, uint32_t i);

/* Process `process` calls a sample of a slot bad, at a task that it has: the sample is listed, and
 * masked when the task is done. Else nothing happens. Errors of mask_list(). */
MUST_USE enum status tasks_note_bad(struct tasks *tasks, uint32_t process, uint64_t index,
                                    uint32_t sample, const struct error *cause, struct error *err);

/* The i-th live task is done: its bad samples are masked, and it is live no more. Another one takes
 * its place in the list. */
void tasks_finish(struct tasks *tasks, uint32_t i);

/* The i-th live task, which nobody has any more, is for another process. Its token is the caller's
 * to give. */
void tasks_show_again(struct tasks *tasks, uint32_t i);

/* Wakes processes for so many tasks. */
void tasks_give_tokens(const struct tasks *tasks, uint64_t count);

/* Appends "4 samples of epoch 0 step 3, the first with index 17". */
void tasks_append(const struct tasks *tasks, const struct task *task, struct text *out);

/* Appends " at the sample with index 17 (epoch 0 step 3)", or, if `sample` is none of the slot,
 * " at epoch 0 step 3"; nothing if there is no such task. */
void tasks_append_sample(const struct tasks *tasks, uint64_t index, uint32_t sample,
                         struct text *out);

#endif
