/* penstock.h: the C interface of libpenstock, which a trainer links.
 *
 * A trainer is an ordinary process. It connects to a Penstock reader of its own node, and then
 * finds each of its batches finished in shared memory:
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
 * Batches come in the order of their steps. The order of samples is the same on every run with the
 * same dataset, seed, shuffle, windows, global batch and batch.last. All trainers of a run see
 * equally many steps. From penstock_next() until penstock_release() a batch's memory belongs to the
 * trainer, which may write to it (but see penstock_info.is_shared): the batch is leased. A trainer
 * may lease up to penstock_info.slot_count batches at once, and may release them in any order.
 *
 * A reader may go away although its service is to come back (delivery.reconnect_timeout). In this
 * case penstock_next() looks for a reader again, and goes on with the batch after the last one that
 * it returned. The trainer sees the sequence of an undisturbed run, only later. A new process that
 * starts from a checkpoint gives the checkpoint's state (struct penstock_options), and goes on at
 * that state's step.
 *
 * A ragged field has another number of items in each sample: events, points, tokens, the values of
 * a sparse row. Its data are the items of all samples, one sample after another, and another field,
 * "F.offsets", says where each sample's items begin:
 *
 *     const struct penstock_info *info = penstock_describe(p);
 *     const struct penstock_field *field = &info->fields[f];
 *     const int64_t *offsets = batch.data[field->offsets_field];
 *     const char *items = batch.data[f];
 *     for (uint32_t i = 0; i < batch.sample_count; i++)
 *         use(items + offsets[i] * field->sample_bytes, offsets[i + 1] - offsets[i]);
 *
 * The batch has penstock_item_count(info, &batch, f) items. A field with steps has items of its own
 * in each step: those of step k of sample i begin at offsets[i * field->steps + k].
 *
 * Threads: one thread at a time may call penstock_next(), penstock_skip() and penstock_give(), and
 * then penstock_last_error(): a second thread gets INVALID. Any thread may call every other
 * function, at any time between penstock_connect() and penstock_close(). Several connections of one
 * process are independent.
 *
 * Signals: penstock_connect() and penstock_next() wait on after a signal's handler has run (there
 * is no EINTR). A program that has to look at what a handler has noted waits in turns: with the
 * timeout of penstock_next(), and with penstock_connect_continue(). A handler may call none of the
 * functions.
 *
 * Forks: a process that was forked after penstock_connect() may only close the connection, or leave
 * it open. Closing frees the child's copy, and the parent does not notice.
 *
 * The library starts no threads, installs no signal handlers, writes nothing to standard output or
 * error, and never exits.
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
    PENSTOCK_STATE_BYTES = 320,    /* holds any state of penstock_state(), NUL included */
    PENSTOCK_MAX_RANK = 8,         /* most dimensions of a field's sample */
    PENSTOCK_MAX_CUTS = 2,         /* most axes along which a field is cut */
    PENSTOCK_MAX_AXES = 8,         /* most axes of a mesh of trainers */
};

/* The outcome of a call. The reason of a failure: of penstock_connect() in `message`, of
 * penstock_next(), penstock_skip() and penstock_give() in penstock_last_error(). The other
 * functions give no reason. */
enum penstock_status {
    PENSTOCK_OK = 0,
    PENSTOCK_INVALID = 1,     /* an argument, an environment variable or the call itself is wrong */
    PENSTOCK_NOT_FOUND = 2,   /* no service in that directory */
    PENSTOCK_IO = 3,          /* a system call failed */
    PENSTOCK_CORRUPT = 4,     /* the dataset is damaged: the message names array and chunk */
    PENSTOCK_UNSUPPORTED = 5, /* service and library speak different versions */
    PENSTOCK_NO_MEMORY = 6,
    PENSTOCK_PROTOCOL = 7,     /* the other side sent an impossible message */
    PENSTOCK_REFUSED = 8,      /* the service refused this trainer: rank, world size, user or state
                                */
    PENSTOCK_TIMEOUT = 9,      /* nothing came in time: try again */
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

/* Which service to connect to, and as which trainer. Zero-initialise the struct: a member that is 0
 * or NULL is taken from the environment, as follows.
 *   run_dir           PENSTOCK_RUN_DIR: the service's run directory on this node
 *   rank, world_size  the launcher's variables: the first row of the table in
 *                     docs/run/launching.md whose two variables are set, as RANK and WORLD_SIZE of
 *                     torchrun and penstock-reader. Without a launcher 0 of 1. A launcher that
 *                     tells a rank and no world size is an error (WORLD_SIZE is missing)
 * Where `world_size` is not 0, `rank` and `world_size` count, and the environment does not.
 *
 * Where several readers serve a node, PENSTOCK_READER is the number (MPI rank) of the reader to
 * connect to. Where PENSTOCK_READER is not set, the node's trainers are spread over the readers in
 * run_dir by local rank, which the same table has.
 *
 * `state` says where to go on: the text that penstock_state() wrote, as it was saved with a
 * checkpoint. Where `state` is NULL or "", PENSTOCK_STATE holds the state, or the name of a file
 * with the state. A trainer without a state goes on where the service starts, or where a trainer of
 * the same rank that died has left off. All trainers that give a state must give the same one.
 *
 * With PENSTOCK_TRACE=FILE, the first of penstock_leave(), penstock_fail() and penstock_close()
 * writes FILE.RANK: when the last 4,096 calls of penstock_next() began and how long they took, in
 * Chrome's trace format, for Perfetto. `penstock trace merge` puts the file beside a trace of the
 * readers and one of torch.profiler. A file that cannot be written is a warning. */
struct penstock_options {
    const char *run_dir;
    int32_t rank;
    int32_t world_size;
    int64_t timeout_ms;       /* how long to wait for a reader to listen and answer; 0: 60 s; -1: no
                               * limit. The time starts anew whenever the service says that it waits for
                               * other trainers: delivery.connect_timeout limits that wait. Where a reader
                               * goes away during the wait and the service is to come back, the limit is
                               * delivery.reconnect_timeout. */
    const char *state;        /* JSON of at most 2047 bytes; borrowed during the call */
    int32_t wait_for_release; /* 1: where the trainer leases all batches that it may,
                               * penstock_next() waits until another thread releases the oldest one.
                               * 0: it fails with INVALID, since a trainer with one thread would
                               * wait for itself */
    const char *name;         /* of another run for the same trainers, as --also NAME=FILE has named
                               * it; its run directory is run_dir with a dot and the name behind.
                               * PENSTOCK_STATE is not for it. NULL or "": the run that is trained
                               * on; borrowed during the call */
    const char *coordinates;  /* in the mesh of trainers (delivery.mesh), "pp=0,dp=1,tp=1": of a
                               * program that places its ranks itself. The trainer is the rank at
                               * these coordinates, whatever its launcher's rank is; where some axes
                               * are left out, the others have to be those of that rank. "pp=0/2"
                               * tells the axis's size, too, which is compared. NULL or "": the
                               * coordinates of the rank; borrowed during the call */
};

/* One axis along which a field is cut (dataset.cuts), and the part of it that this trainer has. The
 * field's shape has the length of the part. Of a ragged field each step of a sample has `whole`
 * pieces of equally many items, and begin and second are pieces: see penstock_own_items(). */
struct penstock_cut {
    uint32_t axis;           /* of a sample */
    uint64_t whole;          /* the axis' length in a whole sample */
    uint64_t begin;          /* the first index of the part */
    uint64_t second;         /* UINT64_MAX; with order: zigzag the index at which the second half of
                              * the part begins */
    uint32_t is_torch_chunk; /* 1: all parts are those of torch.chunk(), and of DTensor */
    uint32_t over_count;
    uint32_t over[PENSTOCK_MAX_AXES]; /* [over_count] the axes of the mesh whose ranks have the
                                       * parts, by their numbers; the last one is fastest */
};

/* One field of a sample, e.g. "latents": float16 [20, 4, 32, 32]. The first dimension of a field
 * with steps is that of its steps. Besides the fields that the configuration names there are fields
 * that say something of these:
 *   "F.valid"     bool [steps]: 1 where the step of F is real, 0 where it lies outside the sample's
 *                 episode (samples.pad)
 *   "F.segment"   int32 [steps]: the document of each step of F, from 1 on in each sample; 0
 *                 outside (samples.segments)
 *   "F.position"  int32 [steps]: the place of each step of F in its document, from 0 on; in the
 *                 sample's first document from the sample's first step of the document on
 *   "F.crop"      int32 [axes]: where the random crop of F begins along each axis that is cropped
 *   "F.offsets"   int64 [steps]: where the items of each step of each sample of the ragged field F
 *                 begin, and one number more than those: the number of items
 *   "F.COLUMN"    another column of the ragged field F, such as the indices of its values
 *   "F.length"    int32 [steps]: how many items of F are real; zeros are behind (deliver: pad, or
 *                 pad_to_multiple_of)
 *
 * A field with deliver: {pad: bound} has samples of [batch.bound, shape...], and `is_padded`.
 * Another ragged field, and each of its columns, has a number of items in each sample (deliver:
 * csr). The shape is then that of one item. The items of all columns belong together.
 */
struct penstock_field {
    const char *name; /* borrowed until penstock_close() */
    enum penstock_dtype dtype;
    int32_t rank;                      /* dimensions of one sample; 0: a scalar */
    uint64_t shape[PENSTOCK_MAX_RANK]; /* of one sample; of one item where the field is ragged */
    uint64_t item_bytes;               /* of one element */
    uint64_t sample_bytes;             /* of one sample; of one item where the field is ragged */
    const char *attributes; /* of the field's array, as the store has them: a JSON object, borrowed
                             * like `name`. "units", "long_name" and others, "{}" if there are
                             * none. An attribute of more than 4096 bytes of JSON is null, and
                             * those behind the first 64 KiB are left out. A NaN is bare. An array
                             * of strings of variable length has "encoding": "utf-8", and one of
                             * byte strings "bytes", unless the store has "encoding" itself */
    uint64_t most_items;    /* of a ragged field: no batch has more items; 0: it is not ragged */
    uint64_t steps;         /* of a ragged field and of its offsets: steps of one sample, 1 or more,
                             * each with items of its own; of other fields 0 */
    uint32_t offsets_field; /* of a ragged field: the index of its field "F.offsets" */
    uint32_t is_padded; /* 1: each sample has as many items as the batch's `bound` says (deliver:
                         * {pad: bound}); `shape` is that of one item, and there are no offsets */
    uint32_t cut_count; /* 0: the field is whole */
    struct penstock_cut cuts[PENSTOCK_MAX_CUTS]; /* [cut_count] */
};

/* How many items of a ragged field this trainer has before an offset of "F.offsets", which counts
 * those of whole samples: all, unless the field is cut. */
static inline uint64_t penstock_own_items(const struct penstock_field *field, int64_t offset)
{
    const struct penstock_cut *cut = &field->cuts[0];
    if (field->cut_count == 0)
        return (uint64_t)offset;
    return (uint64_t)offset / cut->whole * (cut->second == UINT64_MAX ? 1 : 2);
}

/* An axis of the mesh of trainers (delivery.mesh), and where this trainer is along the axis. */
struct penstock_axis {
    const char *name; /* borrowed until penstock_close() */
    uint32_t size, coordinate;
    uint32_t divides; /* 1: the batch is divided along this axis; 0: it repeats */
};

/* An array that all samples share: dataset.constants. */
struct penstock_constant {
    const char *name; /* the array's path in the dataset; borrowed like all here until
                       * penstock_close() */
    enum penstock_dtype dtype;
    int32_t rank;
    uint64_t shape[PENSTOCK_MAX_RANK];
    uint64_t item_bytes; /* of one element */
    uint64_t bytes;      /* of all */
    const void *data;    /* in native byte order and C order; read-only memory, which the trainers
                          * of a reader share */
    const char *attributes; /* as of struct penstock_field */
};

/* What the service delivers to this trainer. Constant from penstock_connect() to penstock_close().
 */
struct penstock_info {
    const struct penstock_field *fields; /* [field_count], in order of name; borrowed */
    uint32_t field_count;
    uint32_t slot_count; /* batches that the trainer may lease at once: delivery.slots */
    uint32_t batch_size; /* most samples in a batch: global_batch_size / group_count, rounded up */
    uint32_t rank;       /* this trainer's */
    uint32_t world_size;
    uint64_t global_batch_size; /* samples of one step, over all trainers */
    uint64_t dataset_samples;   /* of an epoch; of a mix by batch.budget, on average */
    uint64_t steps_per_epoch;
    uint64_t epochs;
    uint64_t start_epoch, start_step; /* of this trainer's first batch; 0 and 0 unless the run is
                                       * resumed */
    uint64_t seed;
    uint64_t fingerprint;                      /* of the dataset's fields, shapes and layout */
    uint64_t order_id;                         /* tells two orders of samples apart */
    const struct penstock_constant *constants; /* [constant_count], in the order of
                                                * dataset.constants; borrowed */
    uint32_t constant_count;
    uint32_t group, group_count; /* trainers of a group get the same samples; without a mesh each
                                  * trainer is a group of its own */
    uint32_t is_shared;          /* 1: the group has several trainers. Batches are read-only memory,
                                  * which these share: a process that writes there gets SIGSEGV */
    uint32_t axis_count;         /* of the mesh; 0: there is none */
    struct penstock_axis axes[PENSTOCK_MAX_AXES]; /* [axis_count], outermost first */
};

/* One trainer's samples of one step, its local batch. The arrays are in native byte order and C
 * order, without padding. All pointers are borrowed until penstock_release(). */
struct penstock_batch {
    uint64_t epoch, step;
    uint32_t sample_count;   /* batch_size; one less in some groups if these do not divide
                              * global_batch_size; less, or 0, in a short last step */
    uint32_t slot;           /* index of the ring's slot that holds the batch, for
                              * penstock_release() */
    uint64_t first_position; /* of the first sample within the step's global batch; the other
                              * samples follow. With order.placement local, of their destinations
                              * (docs/inside/order.md) */
    const uint64_t *indices; /* [sample_count] index of each sample along the sample axis, over all
                              * stores of the dataset, one after another; of a sample with steps
                              * that of its anchor */
    const uint64_t *keys;    /* [sample_count] a random number for each sample: a function of seed,
                              * epoch and index */
    const uint8_t *valid;    /* [sample_count] 1, or 0. 0: the sample repeats another one to fill
                              * the last step (batch.last: pad), or could not be read and is zero in
                              * all fields (errors.bad_sample: mask) */
    void *data[64];          /* [field_count]; data[f] is [sample_count, fields[f].shape...] of
                              * fields[f].dtype. Of a ragged field: [items, fields[f].shape...]. Of
                              * its offsets: [sample_count * steps + 1], from 0 to the number of
                              * items, and never falling, which penstock_next() has checked. Of a
                              * field that is padded: [sample_count, bound, fields[f].shape...] */
    uint64_t bound;     /* of the lengths of the step's samples, over all trainers, with batches
                         * by budget (batch.budget_field); else 0 */
    uint32_t steps[64]; /* [field_count] of a field whose steps differ from epoch to epoch: how many
                         * samples of this epoch have, the first ones. data[f] is [sample_count,
                         * steps[f], the rest of fields[f].shape...], and fields[f].shape[0] is the
                         * most steps. Of another field 0 */
};

/* How many of shape fields[f].shape data[f] has: samples, or items where the field is ragged. */
static inline uint64_t penstock_item_count(const struct penstock_info *info,
                                           const struct penstock_batch *batch, uint32_t f)
{
    const struct penstock_field *field = &info->fields[f];
    if (field->most_items == 0)
        return batch->sample_count;
    if (field->is_padded)
        return batch->sample_count * batch->bound;
    const int64_t *offsets = (const int64_t *)batch->data[field->offsets_field];
    return (uint64_t)offsets[batch->sample_count * field->steps];
}

/* The bytes of each of these in this batch: fields[f].sample_bytes, or less in an epoch in which
 * samples have fewer steps. */
static inline uint64_t penstock_sample_bytes(const struct penstock_info *info,
                                             const struct penstock_batch *batch, uint32_t f)
{
    const struct penstock_field *field = &info->fields[f];
    return batch->steps[f] > 0 ? field->sample_bytes / field->shape[0] * batch->steps[f]
                               : field->sample_bytes;
}

/* What a connection has done so far, and where it stands. */
struct penstock_stats {
    uint64_t batches, samples, bytes; /* that penstock_next() has returned; bytes of all fields */
    uint64_t waits;                   /* calls of penstock_next() that had to sleep */
    uint64_t wait_ns;                 /* how long they slept, nanoseconds */
    uint64_t reconnects;              /* how often another reader was found */
    uint32_t ready;                   /* batches that are published and not taken yet */
    uint32_t leased;                  /* batches that the trainer leases */
};

/* The memory of a ring, for a program that registers it with a device (cudaHostRegister() and its
 * kin). All batches lie in rings. */
struct penstock_ring {
    void *base;          /* on a page */
    uint64_t bytes;      /* whole pages */
    uint64_t generation; /* 1 for the connection's first ring, then one more each */
};

/* Who is told of rings. `attached`: the ring is mapped, and no batch of it was returned yet.
 * `detaching`: the ring will be unmapped once the call has returned; none of its batches is leased,
 * but for penstock_close(). A ring whose reader is gone is told of as soon as the trainer needs it
 * no more, and before there is another ring. Either may be NULL. The library holds no lock
 * meanwhile, and may call from two threads at once, of different rings. The functions must not call
 * the library. `ring` is borrowed during the call. */
struct penstock_ring_watch {
    void (*attached)(void *user, const struct penstock_ring *ring);
    void (*detaching)(void *user, const struct penstock_ring *ring);
    void *user;
};

struct penstock; /* a connection, made by penstock_connect() and freed by penstock_close() */

/* Connects, and waits until the service is ready to deliver. `options` may be NULL: all from the
 * environment. `message` is NULL, or PENSTOCK_MESSAGE_BYTES bytes that receive the reason of a
 * failure. On failure *ret_connection is untouched.
 *
 * INVALID: no run_dir, a negative option, a rank that is not below the world size, a variable that
 * is not a number, RANK or WORLD_SIZE set alone with no other pair, or a state that is too long or
 * cannot be read. NOT_FOUND: within the timeout no reader listened in run_dir; or
 * readers do, and there is no run of that name. TIMEOUT: a reader took the connection, and said
 * nothing for that long, or said nothing more. REFUSED: run_dir is a symbolic link, belongs to
 * another user or is open to others; the reader is another user's; the service has another world
 * size; the coordinates are not of the service's mesh; the rank is taken; or the state is of
 * another order. LOST: the service went away before delivery started. UNSUPPORTED: the service
 * speaks another protocol version. ENDED: all trainers have their last batch, so that there is
 * nothing more to do. NO_MEMORY, IO: in this process. PROTOCOL: the reader sent an impossible
 * message or ring. Any status: the service failed at its start, and the message says why. */
PENSTOCK_API enum penstock_status penstock_connect(const struct penstock_options *options,
                                                   struct penstock **ret_connection, char *message);

/* penstock_connect() in turns, for a program that has to look after something else meanwhile, as an
 * interpreter after signals. Settles the options, and waits for nothing: the options' timeout_ms
 * begins with the first penstock_connect_continue(). Until that one has said that it is connected,
 * no other function but penstock_close() may be called, which says nothing to the service then.
 * Statuses as penstock_connect(). */
PENSTOCK_API enum penstock_status penstock_connect_begin(const struct penstock_options *options,
                                                         struct penstock **ret_connection,
                                                         char *message);

/* Goes on with what penstock_connect_begin() began, for up to `wait_ms` (negative: no limit). OK
 * with *ret_connected 0: call again to go on. OK with 1: it is connected. After any other status,
 * and to give up, there is penstock_close(). One thread. Statuses as penstock_connect(). */
PENSTOCK_API enum penstock_status penstock_connect_continue(struct penstock *connection,
                                                            int64_t wait_ms, int32_t *ret_connected,
                                                            char *message);

/* What the service delivers. Never fails. Borrowed until penstock_close(). */
PENSTOCK_API const struct penstock_info *penstock_describe(const struct penstock *connection);

/* The next batch, as pointers into shared memory. Blocks up to `timeout_ms` (0: not at all;
 * negative: no limit) without using CPU. Allocates memory only when it reconnects.
 *
 * TIMEOUT: no batch came in time. INVALID: this trainer leases as many batches as it may and has to
 * release the oldest one first (unless options.wait_for_release), or this process is a fork of the
 * process that connected. ENDED: all
 * trainers have consumed all epochs; or the service was told to stop, and all trainers stop before
 * the same step (penstock_state() has the step); or penstock_leave(), penstock_fail() or
 * penstock_close() was called. LOST: the service died, and did not come back in time where it was
 * to come back. Any other status: the service stopped; the message says why and where, with rank
 * and node. OK, TIMEOUT and INVALID allow another call. Every other status is final: later calls
 * return the same status and message. */
PENSTOCK_API enum penstock_status
penstock_next(struct penstock *connection, struct penstock_batch *ret_batch, int64_t timeout_ms);

/* Goes on at `step` of `epoch`, which comes later: batches before that step are not returned, and
 * penstock_state() is of that step from now on. For an epoch that is abandoned: at its next epoch,
 * step 0, the trainer begins anew. Once all trainers of the run have skipped, readers leave out the
 * steps that no trainer wants: they read no more for these than the windows under way. Until then
 * readers deliver all steps, and this function's caller passes over those that it does not want. So
 * trainers may skip at different times, and to different steps. Leased batches stay leased: release
 * them before the next skip, and, where epochs are not endless, before the next penstock_next(),
 * which is INVALID once a leased batch keeps all slots. For the thread that calls penstock_next().
 * Waits for nobody.
 *
 * INVALID: the step is before the one that comes next, or behind the last epoch; a batch is leased
 * since before the last skip; or this process is a fork. TIMEOUT: the reader does not read its
 * socket; nothing has changed. Else OK. The reason of a failure is in penstock_last_error(). */
PENSTOCK_API enum penstock_status penstock_skip(struct penstock *connection, uint64_t epoch,
                                                uint64_t step);

/* Gives the batch's slot back: nobody may touch the batch's memory any more. Any thread, any order
 * of batches. Waits for no other process. INVALID: the batch is not leased (released twice, for
 * example), or this process is a fork of the process that connected. */
PENSTOCK_API enum penstock_status penstock_release(struct penstock *connection,
                                                   const struct penstock_batch *batch);

/* Says that the program is done with all batches before `step` of `epoch`. For a program that gives
 * a batch back before it has trained on the batch, since it has copied the batch to a device: a
 * process that takes its place without a state (delivery.restarts, delivery.reconnect_timeout) goes
 * on behind the batches that are released in order, and, once this function was called, at that
 * step at the latest. A skip counts as a call. To be called before the first release, with the
 * first batch's step, and then after each batch, with the step behind it. Such a program asks for
 * no batch behind the last of all before it is done with that one. Any thread. Waits for nobody.
 * INVALID: the step is before that of the last call, or behind the one that comes next; or this
 * process is a fork. */
PENSTOCK_API enum penstock_status penstock_trained(struct penstock *connection, uint64_t epoch,
                                                   uint64_t step);

/* Gives the service what an encoder has made of a batch: `data`, an array of `shape` in C order and
 * native byte order, whose first axis is that of the batch's samples. Borrowed during the call.
 * Encoders are trainers that `penstock ingest --encode` and `penstock derive` start. An encoder
 * gives one result for each batch, before it releases the batch and asks for the next one, and
 * results of the same dtype and shape for all samples. For the thread that calls penstock_next().
 *
 * INVALID: the batch is not leased, or has a result already; the dtype is none of penstock_dtype;
 * `rank` is not 1 to PENSTOCK_MAX_RANK; shape[0] is not the batch's number of samples, or another
 * length is 0; or this process is a fork. NO_MEMORY. LOST, or the status with which the service
 * stopped: no result is wanted any more. TIMEOUT: the service does not read its socket; another
 * try may succeed. IO: a system call failed. The reason is in penstock_last_error(). A trainer of a
 * run, which takes no results, is told so by its next penstock_next(), and its run by this
 * trainer's failure. */
PENSTOCK_API enum penstock_status penstock_give(struct penstock *connection,
                                                const struct penstock_batch *batch,
                                                enum penstock_dtype dtype, int32_t rank,
                                                const uint64_t *shape, const void *data);

/* The state to resume from after the last batch that penstock_next() returned, as one line of JSON:
 *   {"version":2,"dataset":"<fingerprint>","order_id":"…","seed":…,"epoch":…,"step":…,
 *    "global_batch":…,"row_length":…,"window_rows":…,"shuffle":…,"last":"…"}
 * Save the state with the checkpoint, and give it to penstock_connect() or to penstock-reader
 * --resume, which refuse a run of another order. `buffer` has `size` bytes;
 * PENSTOCK_STATE_BYTES suffice, and 256 without order.placement local. Any thread. INVALID: `size`
 * is too small; `buffer` is untouched. */
PENSTOCK_API enum penstock_status penstock_state(const struct penstock *connection, char *buffer,
                                                 size_t size);

/* Fills *ret_stats, of whose members the first `size` bytes: sizeof *ret_stats. Any thread; costs
 * no system call. Numbers are of one moment each, not of the same. */
PENSTOCK_API void penstock_stats(const struct penstock *connection,
                                 struct penstock_stats *ret_stats, size_t size);

/* Has *watch (copied) told of the connection's rings: at once of the one that is there, later of
 * each that comes or goes. penstock_next() attaches rings. penstock_next(), penstock_release() and
 * penstock_close() detach rings, each in its own thread. To be called before the first
 * penstock_next(), once. INVALID: it was called before, or a batch was returned already, or this
 * process is a fork. */
PENSTOCK_API enum penstock_status penstock_watch_rings(struct penstock *connection,
                                                       const struct penstock_ring_watch *watch);

/* Why this thread's last penstock_next(), penstock_skip() or penstock_give() failed; "" if it did
 * not fail. Borrowed until the next call of any of these. */
PENSTOCK_API const char *penstock_last_error(const struct penstock *connection);

/* The text of a status, for example "no more batches". A constant string. */
PENSTOCK_API const char *penstock_status_text(enum penstock_status status);

/* The NumPy name of a dtype, for example "float16"; "none" for a number that is no dtype. A
 * constant string. */
PENSTOCK_API const char *penstock_dtype_name(enum penstock_dtype dtype);

/* The version of the library that is loaded, for example "0.1.0". It may differ from the header's.
 */
PENSTOCK_API const char *penstock_version(void);

/* Says goodbye to the service. Leased batches stay mapped until penstock_close(): language bindings
 * have arrays that outlive the loop. If penstock_next() has returned ENDED, leased batches stay as
 * they are; before the end the service may overwrite them. From now on penstock_next() returns
 * ENDED, also to another thread that waits in it. Any thread. Twice is fine. */
PENSTOCK_API void penstock_leave(struct penstock *connection);

/* penstock_leave() for a trainer that has failed: tells the service `reason` instead of a goodbye.
 * `reason` is one line, borrowed during the call, and cut at some 700 bytes; NULL or "": no reason.
 * The service names this trainer and the reason, and goes on as after a trainer's death: it waits
 * for another process of this rank, or ends the run with this error. A trainer that calls
 * penstock_close() alone counts as one that wanted to stop. Any thread. Does nothing after
 * penstock_leave() or penstock_fail(). */
PENSTOCK_API void penstock_fail(struct penstock *connection, const char *reason);

/* Says goodbye, unless penstock_leave() or penstock_fail() was called, then frees the connection
 * and unmaps the memory of all batches, leased ones too. Any thread. If another thread is in
 * penstock_next(), waits until that call has returned ENDED; the other thread must not use the
 * connection any more. NULL is fine. */
PENSTOCK_API void penstock_close(struct penstock *connection);

#ifdef __cplusplus
}
#endif

#endif
