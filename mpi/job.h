/* A reader's job: everything that is settled before the first batch and stays constant until the
 * last.
 *
 * Built in the order of the members by job_start(), taken apart in reverse by job_done(). The main
 * thread owns it; what its members allow to other threads is said in their own headers.
 */
#ifndef PENSTOCK_MPI_JOB_H
#define PENSTOCK_MPI_JOB_H

#include "base/waker.h"
#include "children.h"
#include "comm.h"
#include "config/config.h"
#include "dataset/dataset.h"
#include "delivery/server.h"
#include "masks.h"
#include "plan/assign.h"
#include "read/pool.h"
#include "read/row_store.h"
#include "run/setup.h"
#include "watchdog.h"

/* What the command line says. */
struct job_options {
    const char *config_path; /* NULL: none */
    char *const *settings;   /* --set arguments */
    size_t setting_count;
    const char *resume_path; /* NULL: from the start */
    char *const *command; /* trainers to spawn, NULL-terminated; NULL: they are started elsewhere */
    bool quiet;           /* no tables and no progress on rank 0 */
};

/* A trainer that this reader serves, in order of rank. */
struct job_trainer {
    uint32_t rank;
    uint32_t peer; /* its index in the server */
};

struct job {
    struct comm comm;
    struct config config;
    struct store_watch *watch;
    struct watchdog *watchdog;
    struct dataset *dataset;
    struct masks *masks; /* NULL: bad samples are not masked */
    struct placement placement;
    uint32_t core_count; /* that this process may use */
    struct run_shape shape;
    struct run_setup setup;
    void *held; /* held arrays, shared by the readers of a node */
    char run_dir[256];
    struct server *server;
    struct children *children; /* NULL: none */
    struct waker waker;        /* wakes the main thread */
    struct pool *pool;
    bool stuck; /* a worker hangs in the store: what it uses is left to it */
    struct row_store *store;
    struct stored_rows *stored;  /* NULL: rows are not kept as stored */
    uint64_t stored_row_bytes;   /* of a row in the store, on average */
    struct assigner *assigner;   /* rank 0 only */
    uint32_t *reader_of_trainer; /* [trainers] */
    struct job_trainer *trainers;
    uint32_t trainer_count; /* of this reader */
};

/* Collective: brings `job`, whose comm is initialised and whose rest is zero, to where
 * service_run() can start. Prints on rank 0 what the run will do and take. On failure every rank
 * returns the same error, trainers are told, and job_done() is still to be called. */
MUST_USE enum status job_start(struct job *job, const struct job_options *options,
                               struct error *err);

/* Stops children (`grace_ms` as in children_stop()), tells trainers the outcome, frees everything
 * but comm. Not collective. */
void job_done(struct job *job, const struct error *outcome, uint32_t grace_ms);

#endif
