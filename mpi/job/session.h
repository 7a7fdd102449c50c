/* What changes while a job delivers: where its sessions start and end, and which trainers they
 * serve.
 *
 * Batches are delivered in sessions. session_gather() waits for all trainers, and settles where the
 * session starts; service_run() serves the session; after the loss of a trainer that may come
 * again, session_scatter() prepares the next session. The main thread owns a session; workers read
 * what session_gather() has settled.
 */
#ifndef PENSTOCK_MPI_JOB_SESSION_H
#define PENSTOCK_MPI_JOB_SESSION_H

#include "job/job.h"

#include "base/waker.h"
#include "plan/assign/assign.h"

/* A trainer that this reader serves, in order of rank. */
struct job_trainer {
    uint32_t rank;
    uint32_t peer; /* its index in the server */
};

/* A ring of this reader, in order of group. */
struct job_ring {
    uint32_t group; /* for the plan, a trainer */
    uint32_t ring;  /* its number in the server */
    uint32_t numa;  /* index of the pool's NUMA node whose workers copy there */
};

/* Which readers of a partition have a ring for each group: of group g those from g * most on, and
 * behind them the same again. */
struct group_readers {
    uint32_t *readers; /* [groups * most] */
    uint32_t *counts;  /* [groups] of different ones */
    uint32_t most;     /* as settled before: budget_demand.copies */
};

/* Who gives out the rows of a partition, to its readers by their numbers there. */
struct partition_assigner {
    struct assigner *assigner;
    uint32_t *numbers;           /* [readers] of each reader of the partition: its number */
    uint16_t *readers;           /* [readers of the partition] by number */
    struct group_readers groups; /* by number */
};

struct session {
    const struct job *job;    /* borrowed */
    struct waker waker;       /* wakes the main thread */
    struct requests requests; /* of the job's comm: what the service loop looks at */

    /* Settled by session_gather(). */
    uint64_t session_count;           /* sessions so far, this one included */
    uint64_t start_epoch, start_step; /* where it starts */
    uint32_t *reader_of_trainer;      /* [trainers] */
    struct group_readers groups;      /* of this reader's partition */
    struct job_trainer *trainers;
    uint32_t trainer_count; /* of this reader */
    struct job_ring *rings;
    uint32_t ring_count;                   /* likewise */
    uint32_t *ring_of_group;               /* [groups] 1 + index in rings; 0: there is none here */
    struct need_classes needs;             /* of all readers */
    struct ring_layout layout;             /* of this reader's rings */
    struct partition_assigner *assigners;  /* [partitions] rank 0 only; from the first session on */
    uint64_t ring_pages[RING_PAGES_COUNT]; /* how many rings of all readers have each kind of pages
                                            */

    /* What is known of trainers, also from one session to the next. */
    uint64_t *left_off;      /* [trainers] cursor + 1 where a trainer of this rank stopped that is
                              * gone; 0: none is known */
    uint64_t *given;         /* [trainers] cursor up to which this reader has counted each trainer's
                              * samples (tally.h) */
    bool resized;            /* this session has another number of trainers than the one before */
    uint32_t told_trainers;  /* of the session before, as a supervisor knows; 0: it does not */
    uint32_t known_locality; /* locality_number() of the run that goes on; 0: none is known */
    uint32_t *localities;    /* [trainers] what the last trainer of this rank that went on had,
                              * before the first session; 0: none is known */
    uint64_t old_states;     /* how many states of version 1, which do not say all of the order,
                              * this rank has read */
    bool told_of_states;     /* on all ranks: the warning about such states was given */

    /* The end's. */
    int stopped_by;       /* the signal that ended a session in good order; 0: none */
    uint64_t stop_cursor; /* with stopped_by: every trainer has had all batches before this cursor,
                           * and none behind it */
    bool begins_anew;     /* of --also: all trainers have left, and may come again */
    bool over;         /* no session follows: all trainers that came back have their last batch */
    bool finishing;    /* delivery has ended, however it did: SIGUSR2 asks for no more */
    uint64_t ended_ns; /* when the last session ended */
    bool stuck;        /* a worker or the lister hangs: the memory that it uses is not freed */
};

/* Collective: waits for all trainers, settles where they go on, and gives them their rings, so that
 * service_run() can serve. The session starts at the least cursor that a trainer asks for; where no
 * trainer asks for one, at the state of --resume, or at the beginning. session->over is set
 * instead, with OK, if all trainers that came have had their last batch: the missing ones have
 * heard of the end. This takes the whole timeout, unless the readers before these have noted that
 * all trainers had everything. The first session settles the locality of `job`. The same error on
 * all ranks. TIMEOUT: trainers did not come; the message names them. REFUSED: trainers have states
 * of different steps; the message names them. Other statuses: as job_start(). */
MUST_USE enum status session_gather(struct job *job, struct session *session, bool quiet,
                                    struct error *err);

/* Collective. To be called when service_run() has set *ret_again: disconnects trainers, so that
 * they connect again, and starts dead children again. Kept rows stay in memory, and so does the
 * home table. Rows being loaded go on. The same error on all ranks. LOST: a child was started as
 * often as it may. */
MUST_USE enum status session_scatter(struct session *session, struct error *err);

/* Notes for a supervisor that all trainers of this reader have their last batch. If the readers die
 * before all trainers know of the end, the next readers need not wait for trainers that know. */
void session_note_end(struct session *session);

/* Rank 0: rows are given out anew, from another window on. On other ranks nothing happens. */
void session_assign_anew(const struct session *session);

/* Frees what session_gather() has made. */
void session_free_assigners(struct session *session);

/* Ends the workers' tasks, when no session follows. Waits a few seconds for a worker that hangs,
 * then leaves it behind and sets session->stuck. */
void session_drain_workers(struct session *session);

#endif
