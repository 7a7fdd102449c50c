/* A reader's job: everything that is settled before the first batch.
 *
 * Built in the order of the members by job_start(), taken apart in reverse by job_done(). Batches
 * are delivered in sessions: job_gather() waits for all trainers and settles where the session
 * starts, service_run() serves it, and after the loss of a trainer that is to be waited for
 * job_scatter() makes way for the next one. What a session changes is marked so below. The main
 * thread owns all of it; what its members allow to other threads is said in their own headers.
 */
#ifndef PENSTOCK_MPI_JOB_H
#define PENSTOCK_MPI_JOB_H

#include "base/waker.h"
#include "children.h"
#include "comm.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "masks.h"
#include "plan/assign.h"
#include "read/pool.h"
#include "read/row_store.h"
#include "run/setup.h"
#include "server/server.h"
#include "watchdog.h"

/* What the command line says. */
struct job_options {
    const char *config_path; /* NULL: none */
    char *const *settings;   /* --set arguments */
    size_t setting_count;
    const char *resume;   /* a file with a state, or the state: "{...}"; NULL: from the start */
    char *const *command; /* trainers to spawn, NULL-terminated; NULL: they are started elsewhere */
    bool quiet;           /* no tables and no progress on rank 0 */
    bool verbose;         /* all tables at the start, not only four lines */
    bool supervised;      /* somebody starts the readers again: SIGTERM is no end for trainers */
    const char *left_path; /* where trainers had stopped when a job before this one died: see
                            * left.h; NULL: nothing is known */
};

/* Where a reader's threads and trainers sit, as it is printed. */
enum { JOB_SEAT_BYTES = 4096, JOB_WARNING_BYTES = 256 };
struct job_seats {
    char node[COMM_NODE_NAME_BYTES];
    char seats[JOB_SEAT_BYTES];      /* lines */
    char warning[JOB_WARNING_BYTES]; /* of the first of the readers that share cores; "": none */
};

/* A trainer that this reader serves, in order of rank. */
struct job_trainer {
    uint32_t rank;
    uint32_t peer; /* its index in the server */
    uint32_t numa; /* of the pool, whose workers copy to its ring */
};

enum { JOB_RUN_DIR_BYTES = 256 };

struct job {
    struct comm comm;
    bool supervised, verbose; /* see struct job_options */
    struct config config;
    struct store_watch *watch;
    struct watchdog *watchdog;
    struct dataset *dataset;
    struct masks *masks; /* NULL: bad samples are not masked */
    struct placement placement;
    uint32_t core_count;                   /* that this process may use */
    char least_node[COMM_NODE_NAME_BYTES]; /* that has the least memory */
    struct run_shape shape;
    struct job_seats *seats; /* [readers] where each of them sits; rank 0 only */
    struct run_setup setup;  /* session: where it starts */
    void *held;              /* held arrays, shared by the readers of a node */
    char run_dir[JOB_RUN_DIR_BYTES];
    struct server *server;
    bool listening;       /* on all ranks: trainers hear how the run ends */
    uint64_t reconnect_s; /* how long readers and trainers wait for one another; 0: they do not */
    struct children *children; /* NULL: none */
    struct waker waker;        /* wakes the main thread */
    struct pool *pool;
    bool stuck; /* a worker or the lister hangs: what it uses is left to it */
    struct row_store *store;
    struct stored_rows *stored;  /* NULL: rows are not kept as stored */
    struct fetch_stage *fetches; /* NULL: the dataset is not remote */
    uint64_t stored_row_bytes;   /* of a row in the store, on average */
    uint64_t session_count;
    uint64_t old_states;  /* that this rank has read, and that do not say all of the order */
    bool told_of_states;  /* that there are such, on all ranks */
    int stopped_by;       /* the signal that a session ended of in good order; 0: none */
    uint64_t stop_cursor; /* then: what comes before, every trainer has had, and nothing else */
    bool over;          /* no session follows: all trainers that came back have their last batch */
    uint64_t ended_ns;  /* when the last session did */
    uint64_t *left_off; /* [trainers] cursor + 1 at which one that is gone stopped, or 0 */
    uint64_t *given;    /* [trainers] cursor up to which this reader has counted for each of them */
    struct assigner *assigner;             /* rank 0 only; from the first session on */
    uint32_t *reader_of_trainer;           /* session; [trainers] */
    struct job_trainer *trainers;          /* session */
    uint32_t trainer_count;                /* session; of this reader */
    uint64_t ring_pages[RING_PAGES_COUNT]; /* session; how many rings of all readers have which */
};

/* Collective: brings `job`, whose comm is initialised and whose rest is zero, to where
 * job_gather() can be called. Prints on rank 0 what the run will do and take. On failure every rank
 * returns the same error, trainers are told, and job_done() is still to be called. */
MUST_USE enum status job_start(struct job *job, const struct job_options *options,
                               struct error *err);

/* Collective: waits for all trainers, settles where they go on, and gives them their rings, so that
 * service_run() can serve. A session starts at the least cursor that any trainer asks for: at
 * --resume, or the beginning, if none does. TIMEOUT: some did not come; they are named. But if all
 * who came only want to hear of the end, the others have heard of it, and job->over is set: soon
 * where the readers before these have told that all had everything, else after the timeout.
 * REFUSED: trainers have states of different steps; they are named. Otherwise as job_start(). */
MUST_USE enum status job_gather(struct job *job, bool quiet, struct error *err);

/* Collective, after service_run() said that another session follows: lets trainers go to come
 * again, and starts those that died and are ours. Rows that are kept stay, and their homes with
 * them; rows on their way go on. LOST: one was started as often as it may. */
MUST_USE enum status job_scatter(struct job *job, struct error *err);

/* Whether a trainer that was lost can be waited for: children of ours that may be started again, or
 * anybody's where delivery.reconnect_timeout is set. */
bool job_may_restart(const struct job *job);

/* Where the ring of the trainer of that rank lies. */
struct placement_memory job_ring_memory(const struct job *job, uint32_t rank);

/* Notes that all trainers of this reader have their last batch: should readers die before trainers
 * know of the end, the next ones need not wait for those that do. */
void job_note_end(struct job *job);

/* Ends what workers do, once no session follows; what hangs is waited for a few seconds, and then
 * left behind: `stuck`. */
void job_drain_workers(struct job *job);

/* Waits until the children have ended by themselves, `grace_ms` at most, or until a signal comes;
 * then ends them. */
void job_stop_children(struct job *job, uint64_t grace_ms);

/* Tells trainers the outcome, stops children after delivery.grace, frees everything but comm. Not
 * collective. */
void job_done(struct job *job, const struct error *outcome);

#endif
