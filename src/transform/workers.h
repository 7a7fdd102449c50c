/* The processes of a transform, each with what it has said and what it has: how they are told of
 * sessions, what is done with what they say, and who is started again. Main thread only.
 */
#ifndef PENSTOCK_TRANSFORM_WORKERS_H
#define PENSTOCK_TRANSFORM_WORKERS_H

#include "transform/process.h"
#include "transform/tasks.h"
#include "transform/transform.h"

struct worker {
    struct transform_process process;
    uint64_t start_ns;
    uint32_t deaths;  /* in a row, without a batch that it did */
    uint64_t gone_ns; /* since when it is being given up; 0: it is not */
    int ending;       /* of one that is being given up, and killed: why */
    bool killed;
    bool starts;       /* it is to be started again */
    uint64_t stuck_ns; /* since when it has had a batch of a session that is over; 0: it has not */
    bool begun;        /* it has been told of the session */
    bool warned;
};

struct workers {
    struct transform_options options;
    struct board_shape shape;
    struct tasks *tasks;
    struct worker *list;           /* [options.count] */
    uint32_t session;              /* the number of the one that is under way */
    struct board_message *message; /* for what is sent and heard */
    uint32_t dead_count;           /* processes that were given up since one did a batch */
    int first_ending;              /* of the first of them */
};

/* Starts the processes. `tasks`: borrowed. To be stopped by workers_done(), also after a failure.
 * IO, NO_MEMORY. */
MUST_USE enum status workers_init(struct workers *workers, const struct transform_options *options,
                                  const struct board_shape *shape, struct tasks *tasks,
                                  struct error *err);

/* Ends all processes. Blocks for a second at most where they end by themselves. */
void workers_done(struct workers *workers);

/* A session is about to end: who still has a batch of it may keep it for as long as a batch may
 * take. Before tasks_end(). */
void workers_end_session(struct workers *workers);

/* A process has done a batch: it is well. */
void workers_note_done(struct workers *workers, uint32_t w);

/* Another session has begun. */
void workers_begin_session(struct workers *workers);

/* Whether a process is one of them. */
bool workers_own(const struct workers *workers, pid_t pid);

/* gone.c: begins to give a process up; `ending` 0: it may take a moment to end by itself. */
void workers_give_up(struct workers *workers, uint32_t w, int ending);

/* Once one that is given up has ended, others get what it had, since until then it may write; and
 * it is started again. Errors as of transform_progress(). */
MUST_USE enum status workers_look_at_gone(struct workers *workers, uint32_t w, bool *active,
                                          struct error *err);

/* Hears all processes, tells them of the session, and looks at the clock: a system call or two for
 * each. Errors as of transform_progress(). */
MUST_USE enum status workers_look(struct workers *workers, bool *active, struct error *err);

#endif
