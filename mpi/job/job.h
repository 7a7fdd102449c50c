/* A reader's job: everything that is settled before the first batch.
 *
 * job_start() and job_make_ready() build the members in their order, and job_done() frees them.
 * Meanwhile others take a job as const: only the locality is settled later, by the first session.
 * What changes is in struct session (session.h). The main thread owns a job. The members' own
 * headers say what other threads may do.
 */
#ifndef PENSTOCK_MPI_JOB_JOB_H
#define PENSTOCK_MPI_JOB_JOB_H

#include "config/config.h"
#include "dataset/dataset.h"
#include "delivery/server/server.h"
#include "job/watchdog.h"
#include "ranks/comm.h"
#include "ranks/masks.h"
#include "ranks/siblings.h"
#include "read/pool.h"
#include "read/row_store.h"
#include "run/setup.h"
#include "trainers/children.h"
#include "transform/transform.h"

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
    struct dataset *whole; /* with partitions (run/partitions.h): of which `dataset` is this
                            * reader's part; else NULL */
    struct need_classes partitions; /* likewise: readers by partition; zero: there is one */
    uint32_t partition;             /* this reader's */
    struct masks *masks;            /* NULL: bad samples are not masked */
    struct placement placement;
    uint32_t core_count;                   /* that this process may use */
    char least_node[COMM_NODE_NAME_BYTES]; /* the node with the least memory */
    struct run_shape shape;
    struct job_seats *seats; /* [readers] where each reader sits; rank 0 only */
    struct run_setup setup;  /* service: where the first session starts, if nobody knows better */
    void *held;              /* held arrays, shared by the readers of a node */
    char run_dir[JOB_RUN_DIR_BYTES];
    struct server *server;
    struct tracing *tracing; /* main.c's */
    struct meter *meter;     /* likewise */
    bool listening;          /* on all ranks: trainers can connect, and hear how the run ends */
    uint64_t reconnect_s; /* how long readers and trainers wait for one another after a loss; 0: not
                           * at all */
    struct children *children;   /* NULL: none */
    struct board_shape *made;    /* what the transform makes, the same on all ranks; NULL: there is
                                  * none */
    struct transform *transform; /* likewise */
    char **environment;          /* of its processes; owned */
    char **through;              /* words that start them; owned */
    char name[64 + COMM_NODE_NAME_BYTES]; /* "reader 0 on n1"; set with the transform */
    struct pool *pool;
    struct row_store *store;
    struct stored_rows *stored;  /* NULL: rows are not kept as stored */
    struct fetch_stage *fetches; /* NULL: the dataset is not remote */
};

struct session;

/* Collective. Settles everything, and opens the server. `job` has an initialised comm, `session`
 * has its job, and both are zero otherwise. Prints on rank 0 what the run will do, and the memory
 * that it will take. On failure every rank returns the same error, with the cause of the rank that
 * failed; the caller still calls job_end(), which tells trainers. */
MUST_USE enum status job_start(struct job *job, struct session *session,
                               const struct job_options *options, struct error *err);

/* Collective, after job_start(): prepares `job` for session_gather(). Starts trainers, takes all
 * memory, and loads held arrays. `status`, with *err: how what the caller has made since
 * job_start() went. Errors as of job_start(). */
MUST_USE enum status job_make_ready(struct job *job, struct session *session,
                                    const struct job_options *options, enum status status,
                                    struct error *err);

/* The dataset that the order is of. */
static inline const struct dataset *job_whole(const struct job *job)
{
    return job->whole ? job->whole : job->dataset;
}

/* The partition of a reader, and how many there are. */
static inline uint32_t job_partition_of(const struct job *job, uint32_t reader)
{
    return job->partitions.of ? job->partitions.of[reader] : 0;
}
static inline uint32_t job_partition_count(const struct job *job)
{
    return job->partitions.of ? job->partitions.count : 1;
}

/* Whether lost trainers may come again: readers and trainers wait for one another (reconnect_s),
 * and every failed child of this reader may be started again. */
bool job_may_restart(const struct job *job);

/* The NUMA nodes where the ring of the trainer of rank `rank` lies. */
struct placement_memory job_ring_memory(const struct job *job, uint32_t rank);

/* Whether trainers of one reader get samples of rows near their own NUMA node. Then samples of one
 * NUMA node do not come together: not where samples are so small that a piece of copies
 * (rounds/copies.c) would be much smaller than usual. */
bool job_divides_by_numa(const struct job *job);

/* All batches are delivered: tells the trainers, and those that a supervisor starts later. */
void job_finish_well(const struct job *job);

/* Waits until all children have ended, `grace_ms` have passed or a signal has come, then ends the
 * children that are left. Blocks. */
void job_stop_children(const struct job *job, uint64_t grace_ms);

/* Tells trainers `outcome`, stops children after delivery.grace, and ends the workers' tasks.
 * Blocks for the grace; not collective. */
void job_end(struct session *session, const struct error *outcome);

/* Frees all of both but comm. After job_end(). */
void job_done(struct job *job, struct session *session);

#endif
