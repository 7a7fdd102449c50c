/* penstock.h: what a trainer links.
 *
 * A trainer is an ordinary process. It connects to the Penstock reader of its own node, and from
 * then on finds each of its batches finished in shared memory:
 *
 *     struct penstock *p;
 *     char message[PENSTOCK_MESSAGE_BYTES];
 *     if (penstock_connect(NULL, &p, message) != PENSTOCK_OK)
 *         fail(message);
 *     struct penstock_batch batch;
 *     while (penstock_next(p, &batch, -1) == PENSTOCK_OK) {
 *         train(batch.data[0], batch.sample_count);
 *         penstock_release(p, &batch);
 *     }
 *     penstock_close(p);
 *
 * Batches come in the order of their steps, the same on every run with the same dataset, seed and
 * global batch. All trainers of a run see equally many steps. A batch's memory belongs to the
 * trainer (it may be written) from penstock_next() until penstock_release(); several batches may be
 * leased at once, up to the ring's slots, and released in any order.
 *
 * When the reader goes away and the service is one that comes back (delivery.reconnect_timeout),
 * penstock_next() looks for it and goes on with the batch after the last one that it returned: a
 * trainer sees the sequence of an undisturbed run, only later. A new process that starts from a
 * checkpoint gives its state (struct penstock_options), and is served from there.
 *
 * Threads: one thread at a time may call penstock_next(); penstock_release(), penstock_state(),
 * penstock_leave(), penstock_fail() and penstock_close() may be called from any thread; everything
 * else belongs to the thread that calls penstock_next(). Several connections of one process are
 * independent. A process that is forked from one that has connected may not use the connection: it
 * can only close it, which concerns nobody but itself. The library starts no threads, installs no
 * signal handlers, writes nothing to standard output or error, and never exits.
 */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))

#define PENSTOCK_VERSION_MAJOR 0
#define PENSTOCK_VERSION_MINOR 1
#define PENSTOCK_VERSION_PATCH 0

enum {
    PENSTOCK_MESSAGE_BYTES = 1024, /* holds any message of this library, NUL included */
    PENSTOCK_MAX_RANK = 8,         /* most dimensions of a field's sample */
};

/* What a call came to. The message of penstock_last_error() says why. */
enum penstock_status {
    PENSTOCK_OK = 0,
    PENSTOCK_INVALID = 1,     /* an argument or environment variable makes no sense */
    PENSTOCK_NOT_FOUND = 2,   /* no service in that directory */
    PENSTOCK_IO = 3,          /* a system call failed */
    PENSTOCK_CORRUPT = 4,     /* the dataset is damaged; the message names array and chunk */
    PENSTOCK_UNSUPPORTED = 5, /* service and library speak different versions */
    PENSTOCK_NO_MEMORY = 6,
    PENSTOCK_PROTOCOL = 7,     /* the other side sent nonsense */
    PENSTOCK_REFUSED = 8,      /* the service refused this trainer: rank, world size or user */
    PENSTOCK_TIMEOUT = 9,      /* nothing came in time; try again */
    PENSTOCK_ENDED = 10,       /* all epochs are consumed, or the service was told to stop */
    PENSTOCK_LOST = 11,        /* the service went away */
    PENSTOCK_INTERRUPTED = 12, /* the service was stopped by a signal */
    PENSTOCK_MPI = 13,         /* the service failed in MPI */
};

/* Element types. The names are those of NumPy and Zarr v3. */
enum penstock_dtype {
    PENSTOCK_BOOL = 1,
    PENSTOCK_INT8 = 2,
    PENSTOCK_INT16 = 3,
    PENSTOCK_INT32 = 4,
    PENSTOCK_INT64 = 5,
    PENSTOCK_UINT8 = 6,
    PENSTOCK_UINT16 = 7,
    PENSTOCK_UINT32 = 8,
    PENSTOCK_UINT64 = 9,
    PENSTOCK_FLOAT16 = 10,
    PENSTOCK_BFLOAT16 = 11,
    PENSTOCK_FLOAT32 = 12,
    PENSTOCK_FLOAT64 = 13,
    PENSTOCK_COMPLEX64 = 14,
    PENSTOCK_COMPLEX128 = 15,
};

/* Where and as whom to connect. Zero-initialise; zero means "from the environment" throughout:
 *   run_dir           PENSTOCK_RUN_DIR: the service's run directory on this node
 *   rank, world_size  the first of these pairs that is set as a whole, else 0 of 1:
 *                       RANK, WORLD_SIZE                             torchrun, penstock-reader
 *                       OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE   Open MPI
 *                       PMI_RANK, PMI_SIZE                           MPICH and its kin
 *                       SLURM_PROCID, SLURM_STEP_NUM_TASKS           srun
 * Set `world_size` to use `rank` and `world_size` as they stand here.
 *
 * Where several readers serve a node, PENSTOCK_READER names the one to connect to by its number;
 * without it the readers found in run_dir are shared out by the trainer's local rank, the
 * first of these pairs that is set as a whole: LOCAL_RANK, LOCAL_WORLD_SIZE;
 * OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE; MPI_LOCALRANKID, MPI_LOCALNRANKS;
 * SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE.
 *
 * `state`, or PENSTOCK_STATE, is where to go on: what penstock_state() gave, as it was saved with a
 * checkpoint. The variable holds it, or the name of a file with it. Without, this trainer goes on
 * where the service does: at its start, or where a trainer of this rank that died has left off. All
 * trainers that give a state must give the same one. */
struct penstock_options {
    const char *run_dir;
    int32_t rank;
    int32_t world_size;
    int64_t timeout_ms; /* how long to wait for the service to appear and answer; 0: 60 s; -1: for
                         * ever. A service that waits for other trainers says so again and again,
                         * and each time this starts anew: delivery.connect_timeout bounds it. One
                         * that goes away meanwhile, and is to come back, is waited for as long as
                         * delivery.reconnect_timeout says. */
    const char *state;  /* JSON, at most 2047 bytes; may be freed after the call */
};

/* One field of a sample, e.g. "latents": float16 [20, 4, 32, 32]. */
struct penstock_field {
    const char *name; /* borrowed: valid until penstock_close() */
    enum penstock_dtype dtype;
    int32_t rank;                      /* dimensions of one sample; 0: a scalar */
    uint64_t shape[PENSTOCK_MAX_RANK]; /* of one sample */
    uint64_t item_bytes;               /* of one element */
    uint64_t sample_bytes;             /* of one sample */
};

/* What this service delivers. Constant from penstock_connect() to penstock_close(). */
struct penstock_info {
    const struct penstock_field *fields; /* borrowed, in order of name */
    uint32_t field_count;
    uint32_t slot_count; /* batches that may be leased or waiting at once */
    uint32_t batch_size; /* most samples in a batch: global batch / trainers */
    uint32_t rank;       /* this trainer's */
    uint32_t world_size;
    uint64_t global_batch_size; /* samples of one step, over all trainers */
    uint64_t dataset_samples;
    uint64_t steps_per_epoch;
    uint64_t epochs;
    uint64_t start_epoch, start_step; /* of the first batch that comes here; 0, 0 unless resumed */
    uint64_t seed;
    uint64_t fingerprint; /* of the dataset's fields, shapes and layout */
    uint64_t order_id;    /* of all that decides which sample stands where */
};

/* One trainer's samples of one step, its local batch. Arrays are in native byte order, C order,
 * without padding: data[f] is [sample_count, fields[f].shape...]. */
struct penstock_batch {
    uint64_t epoch, step;
    uint32_t sample_count;   /* batch_size; less, or 0, in a short last step */
    uint32_t slot;           /* for penstock_release(): which of the ring's slots it lies in */
    uint64_t first_position; /* of the first sample in the global batch; others follow */
    const uint64_t *indices; /* [sample_count] index of each sample along axis 0 of the dataset */
    const uint64_t *keys;    /* [sample_count] random: a function of seed, epoch, index */
    const uint8_t *valid;    /* [sample_count] 1; 0 where a sample only pads the last step, or could
                              * not be read and is zero (errors.bad_sample: mask) */
    void *data[64];          /* [field_count] */
};

struct penstock; /* a connection */

/* Connects and waits until the service is ready to deliver. `options` may be NULL.
 * `message`, NULL or of PENSTOCK_MESSAGE_BYTES, receives the reason of a failure.
 * INVALID: no run_dir, or a rank that is not below the world size. NOT_FOUND: nobody listens there
 * within the timeout. TIMEOUT: somebody does, but said nothing, or nothing more, for that long.
 * REFUSED: the service has another world size, the rank is taken, or belongs to another user; or
 * it is of another order than the state. LOST: the service went away before it delivered.
 * UNSUPPORTED: another protocol version. ENDED: instead of one that died after its last batch:
 * there is nothing more to do. Other statuses: the service failed at start and says why. */
PENSTOCK_API enum penstock_status penstock_connect(const struct penstock_options *options,
                                                   struct penstock **ret_connection, char *message);

/* What the service delivers. Never fails; borrowed until penstock_close(). */
PENSTOCK_API const struct penstock_info *penstock_describe(const struct penstock *connection);

/* The next batch, as pointers into shared memory. Blocks up to `timeout_ms` (0: not at all,
 * negative: no limit) without using CPU. Allocates nothing but when it reconnects. TIMEOUT: none
 * yet. ENDED: all epochs are consumed by all trainers, or the service was told to stop and did so
 * for all trainers before the same step (penstock_state() has it), or another thread called
 * penstock_leave(), penstock_fail() or penstock_close(). LOST: the service died, and was not back
 * in time if it was to come back. INVALID: all slots are leased by this trainer, so that none can
 * ever come until one is released; or this process is a fork of the one that connected. Any other
 * status: the service stopped; the message says why and where, rank and node included. Every status
 * but OK, TIMEOUT and INVALID is final. */
PENSTOCK_API enum penstock_status
penstock_next(struct penstock *connection, struct penstock_batch *ret_batch, int64_t timeout_ms);

/* Gives the batch's slot back; its memory must not be touched any more. From any thread, in any
 * order, never blocks. INVALID: this batch is not leased (released twice, for example). */
PENSTOCK_API enum penstock_status penstock_release(struct penstock *connection,
                                                   const struct penstock_batch *batch);

/* The state to resume from after the last batch that penstock_next() returned, as one line of JSON:
 *   {"version":2,"dataset":"<fingerprint>","order_id":"…","seed":…,"epoch":…,"step":…,
 *    "global_batch":…,"row_length":…,"window_rows":…,"shuffle":…,"last":"…"}
 * Save it with the checkpoint; hand it to penstock_connect() or penstock-reader --resume, which
 * refuse a run of another order. Writes at most `size` bytes, NUL included; 256 suffice. INVALID:
 * `size` is too small. */
PENSTOCK_API enum penstock_status penstock_state(const struct penstock *connection, char *buffer,
                                                 size_t size);

/* Why the last penstock_next() failed; "" if it did not. Borrowed until the next one. */
PENSTOCK_API const char *penstock_last_error(const struct penstock *connection);

/* The text of a status: "no more batches". */
PENSTOCK_API const char *penstock_status_text(enum penstock_status status);

/* The NumPy name of a dtype: "float16"; "none" if it is not one. */
PENSTOCK_API const char *penstock_dtype_name(enum penstock_dtype dtype);

/* "0.1.0": the library that is loaded, which may differ from the header. */
PENSTOCK_API const char *penstock_version(void);

/* Says goodbye to the service, but leaves the memory of batches that are leased until
 * penstock_close(); for language bindings, whose arrays may outlive the loop. After the end (ENDED)
 * leased batches stay as they are; before it the service may overwrite them. penstock_next() then
 * returns ENDED, also one that is waiting in another thread. Twice is fine. */
PENSTOCK_API void penstock_leave(struct penstock *connection);

/* penstock_leave() for a trainer that has failed: instead of a goodbye it says why. The service
 * then names this trainer and `reason` (one line; it may be freed after the call, and is cut at
 * some 700 bytes), and does as if the trainer had died: waits for another instead, or ends the
 * run with that error. A trainer that just closes its connection before the end counts as one that
 * wanted to stop. After penstock_leave(), and twice: nothing. */
PENSTOCK_API void penstock_fail(struct penstock *connection, const char *reason);

/* Says goodbye, if penstock_leave() did not, and unmaps the ring: memory of batches still leased is
 * gone after this. Waits for a penstock_next() under way in another thread, which ends with ENDED;
 * that thread must not use the connection any more. NULL is fine. */
PENSTOCK_API void penstock_close(struct penstock *connection);

#ifdef __cplusplus
}
#endif

#endif
