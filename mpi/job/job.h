/* A reader's job: everything that is settled before the first batch.
 *
 * job_start() and job_make_ready() build the members in their order, and job_done() frees them.
 * Batches are delivered in sessions. job_gather() waits for all trainers, and settles where the
 * session starts; service_run() serves the session; after the loss of a trainer that may come
 * again, job_scatter() prepares the next session. Members that a session changes are marked
 * "session". The main thread owns a job. The members' own headers say what other threads may do.
 */
#ifndef PENSTOCK_MPI_JOB_JOB_H
#define PENSTOCK_MPI_JOB_JOB_H

#include "base/waker.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "delivery/server/server.h"
#include "job/watchdog.h"
#include "plan/assign/assign.h"
#include "ranks/comm.h"
#include "ranks/masks.h"
#include "ranks/siblings.h"
#include "read/pool.h"
#include "read/row_store.h"
#include "run/setup.h"
#include "trainers/children.h"

/* What the command line says. The strings are borrowed while the job lives. */
struct job_options {
    const char *config_path; /* NULL: none */
    char *const *settings;   /* --set arguments */
    size_t setting_count;
    const char *resume;   /* a file with a state, or the state: "{...}"; NULL: from the start */
    char *const *command; /* the trainers' program and arguments, NULL-terminated; NULL: trainers
                           * are started elsewhere */
    bool quiet;           /* no tables and no progress on rank 0 */
    bool verbose;         /* all tables at the start, not only four lines */
    bool supervised;      /* a supervisor starts the readers again: a SIGTERM ends the readers, and
                           * trainers stay */
    const char *also; /* the name of a run beside the one that is trained on; NULL: the latter */
    const char *left_path; /* file with the cursors where trainers had stopped when an earlier job
                            * died (left.h); NULL: none */
};

/* Where a reader's threads and trainers sit, as text to print. */
enum { JOB_SEAT_BYTES = 4096, JOB_WARNING_BYTES = 256 };
struct job_seats {
    char node[COMM_NODE_NAME_BYTES];
    char seats[JOB_SEAT_BYTES];      /* lines */
    char warning[JOB_WARNING_BYTES]; /* from the first reader of a node that shares cores; "": none
                                      */
};

/* A trainer that this reader serves, in order of rank. */
struct job_trainer {
    uint32_t rank;
    uint32_t peer; /* its index in the server */
    uint32_t numa; /* index of the pool's NUMA node whose workers copy to the trainer's ring */
};

enum { JOB_RUN_DIR_BYTES = 256 };

struct job {
    struct comm comm;
    bool supervised, verbose;  /* see struct job_options */
    const char *also;          /* likewise */
    bool blamed;               /* the error that ends all runs says whose it is */
    struct siblings *siblings; /* NULL: this is the only run */
    struct config config;
    struct store_watch *watch;
    struct watchdog *watchdog;
    struct dataset *dataset;
    struct masks *masks; /* NULL: bad samples are not masked */
    struct placement placement;
    uint32_t core_count;                   /* that this process may use */
    char least_node[COMM_NODE_NAME_BYTES]; /* the node with the least memory */
    struct run_shape shape;
    struct job_seats *seats; /* [readers] where each reader sits; rank 0 only */
    struct run_setup setup;  /* session: where it starts */
    void *held;              /* held arrays, shared by the readers of a node */
    char run_dir[JOB_RUN_DIR_BYTES];
    struct server *server;
    struct tracing *tracing; /* main.c's */
    struct meter *meter;     /* likewise */
    bool listening;          /* on all ranks: trainers can connect, and hear how the run ends */
    uint64_t reconnect_s; /* how long readers and trainers wait for one another after a loss; 0: not
                           * at all */
    struct children *children; /* NULL: none */
    struct waker waker;        /* wakes the main thread */
    struct pool *pool;
    bool stuck; /* a worker or the lister hangs: the memory that it uses is not freed */
    struct row_store *store;
    struct stored_rows *stored;  /* NULL: rows are not kept as stored */
    struct fetch_stage *fetches; /* NULL: the dataset is not remote */
    uint64_t session_count;
    uint64_t old_states;  /* how many states of version 1, which do not say all of the order, this
                           * rank has read */
    bool told_of_states;  /* on all ranks: the warning about such states was given */
    int stopped_by;       /* the signal that ended a session in good order; 0: none */
    uint64_t stop_cursor; /* with stopped_by: every trainer has had all batches before this cursor,
                           * and none behind it */
    bool begins_anew;     /* of --also: all trainers have left, and may come again */
    bool over;          /* no session follows: all trainers that came back have their last batch */
    bool finishing;     /* delivery has ended, however it did: SIGUSR2 asks for no more */
    uint64_t ended_ns;  /* when the last session ended */
    uint64_t *left_off; /* [trainers] cursor + 1 where a trainer of this rank stopped that is gone;
                         * 0: none is known */
    uint64_t *given;    /* [trainers] cursor up to which this reader has counted each trainer's
                         * samples (tally.h) */
    uint32_t known_locality;      /* locality_number() of the run that goes on; 0: none is known */
    uint32_t *localities;         /* [trainers] what the last trainer of this rank that went on had,
                                   * before the first session; 0: none is known */
    struct assigner *assigner;    /* rank 0 only; from the first session on */
    uint32_t *reader_of_trainer;  /* session; [trainers] */
    struct job_trainer *trainers; /* session */
    uint32_t trainer_count;       /* session; of this reader */
    uint64_t ring_pages[RING_PAGES_COUNT]; /* session; how many rings of all readers have each kind
                                            * of pages */
};

/* Collective. Settles everything, and opens the server. `job` has an initialised comm, and is zero
 * otherwise. Prints on rank 0 what the run will do, and the memory that it will take. On failure
 * every rank returns the same error, with the cause of the rank that failed; the caller still calls
 * job_end(), which tells trainers. */
MUST_USE enum status job_start(struct job *job, const struct job_options *options,
                               struct error *err);

/* Collective, after job_start(): prepares `job` for job_gather(). Starts trainers, takes all
 * memory, and loads held arrays. `status`, with *err: how what the caller has made since
 * job_start() went. Errors as of job_start(). */
MUST_USE enum status job_make_ready(struct job *job, const struct job_options *options,
                                    enum status status, struct error *err);

/* Collective: waits for all trainers, settles where they go on, and gives them their rings, so that
 * service_run() can serve. The session starts at the least cursor that a trainer asks for; where no
 * trainer asks for one, at the state of --resume, or at the beginning. job->over is set instead,
 * with OK, if all trainers that came have had their last batch: the missing ones have heard of the
 * end. This takes the whole timeout, unless the readers before these have noted that all trainers
 * had everything. The same error on all ranks. TIMEOUT: trainers did not come; the message names
 * them. REFUSED: trainers have states of different steps; the message names them. Other statuses:
 * as job_start(). */
MUST_USE enum status job_gather(struct job *job, bool quiet, struct error *err);

/* Collective. To be called when service_run() has set *ret_again: disconnects trainers, so that
 * they connect again, and starts dead children again. Kept rows stay in memory, and so does the
 * home table. Rows being loaded go on. The same error on all ranks. LOST: a child was started as
 * often as it may. */
MUST_USE enum status job_scatter(struct job *job, struct error *err);

/* Whether lost trainers may come again: readers and trainers wait for one another (reconnect_s),
 * and every failed child of this reader may be started again. */
bool job_may_restart(const struct job *job);

/* The NUMA nodes where the ring of the trainer of rank `rank` lies. */
struct placement_memory job_ring_memory(const struct job *job, uint32_t rank);

/* Notes for a supervisor that all trainers of this reader have their last batch. If the readers die
 * before all trainers know of the end, the next readers need not wait for trainers that know. */
void job_note_end(struct job *job);

/* All batches are delivered: tells the trainers, and those that a supervisor starts later. */
void job_finish_well(struct job *job);

/* Ends the workers' tasks, when no session follows. Waits a few seconds for a worker that hangs,
 * then leaves it behind and sets job->stuck. */
void job_drain_workers(struct job *job);

/* Waits until all children have ended, `grace_ms` have passed or a signal has come, then ends the
 * children that are left. Blocks. */
void job_stop_children(struct job *job, uint64_t grace_ms);

/* Tells trainers `outcome`, stops children after delivery.grace, and ends the workers' tasks.
 * Blocks for the grace; not collective. */
void job_end(struct job *job, const struct error *outcome);

/* Frees everything but comm. After job_end(). */
void job_done(struct job *job);

#endif
