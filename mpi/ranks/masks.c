/* See masks.h. */
#include "ranks/masks.h"

#include "base/clock.h"
#include "dataset/read/bad_log.h"
#include "run/bad_list.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { TAG_BAD = 2 }; /* on comm->control, beside the stop notice's */

struct mask_entry {
    struct bad_chunk bad;
    int32_t reader;
    char node[COMM_NODE_NAME_BYTES];
};

struct masks {
    const struct comm *comm;
    struct bad_log *log;
    struct bad_list *list;   /* rank 0 */
    uint64_t written_ns;     /* rank 0: when the list was written last */
    bool write_failed;       /* rank 0: the last time, and that was told */
    struct error excess;     /* rank 0: the first of too many */
    uint64_t sent, received; /* since masks_finish() */
    struct mask_entry outgoing, incoming;
    MPI_Request outgoing_request;
    uint64_t looked_ns; /* for entries: see comm_take() */
};

static enum status open_list(struct masks *masks, const struct config *config,
                             const struct dataset *dataset, struct error *err)
{
    if (masks->comm->rank != 0)
        return STATUS_OK;
    enum status status =
        bad_list_new(config->bad_list, dataset->fingerprint, config->max_bad, &masks->list, err);
    return status != STATUS_OK ? status : bad_list_write(masks->list, err);
}

enum status masks_new(const struct comm *comm, const struct config *config, struct dataset *dataset,
                      struct masks **ret_masks, struct error *err)
{
    *ret_masks = NULL;
    if (!dataset->mask)
        return STATUS_OK;
    struct masks *masks = calloc(1, sizeof *masks);
    enum status status =
        masks ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory to mask bad samples");
    if (status == STATUS_OK) {
        masks->comm = comm;
        masks->outgoing_request = MPI_REQUEST_NULL;
        status = bad_log_new(&masks->log, err);
    }
    if (status == STATUS_OK)
        status = open_list(masks, config, dataset, err);
    status = comm_agree(comm, status, err);
    if (status != STATUS_OK) {
        masks_free(masks);
        return status;
    }
    assert(masks);
    dataset_log_bad(dataset, masks->log);
    *ret_masks = masks;
    return STATUS_OK;
}

struct bad_log *masks_log(const struct masks *masks)
{
    return masks ? masks->log : NULL;
}

/* Rank 0: lists what a reader has found, and remembers the first of too many. */
static void list_entry(struct masks *masks, const struct mask_entry *entry)
{
    struct error err;
    enum status status = bad_list_add(masks->list, &entry->bad, entry->reader, entry->node, &err);
    if (status == STATUS_OK || masks->excess.status != STATUS_OK)
        return;
    masks->excess = err;
    masks->excess.rank = entry->reader;
}

/* Passes on the next chunk of this reader's own log; false: there is none, or the one before is
 * still on its way. */
static bool send_next(struct masks *masks)
{
    const struct comm *comm = masks->comm;
    if (!comm_test(comm, &masks->outgoing_request) ||
        !bad_log_take(masks->log, &masks->outgoing.bad))
        return false;
    masks->outgoing.reader = comm->rank;
    snprintf(masks->outgoing.node, sizeof masks->outgoing.node, "%s", comm->node_name);
    if (comm->rank == 0) {
        list_entry(masks, &masks->outgoing);
        return true;
    }
    MPI_Isend(&masks->outgoing, sizeof masks->outgoing, MPI_BYTE, 0, TAG_BAD, comm->control,
              &masks->outgoing_request);
    masks->sent++;
    return true;
}

/* Rank 0: takes the next entry of another reader, if one is here. */
static bool receive_next(struct masks *masks)
{
    if (!comm_take(masks->comm, masks->comm->control, TAG_BAD, &masks->incoming,
                   sizeof masks->incoming, &masks->looked_ns))
        return false;
    masks->received++;
    list_entry(masks, &masks->incoming);
    return true;
}

static void write_list(struct masks *masks)
{
    struct error err;
    masks->written_ns = clock_now_ns();
    bool failed = bad_list_write(masks->list, &err) != STATUS_OK, told = masks->write_failed;
    masks->write_failed = failed;
    if (!failed || told)
        return;
    fprintf(stderr, "penstock-reader: warning: %s\n", err.message);
}

enum status masks_progress(struct masks *masks, struct error *err)
{
    const uint64_t second_ns = 1000000000u;
    if (!masks)
        return STATUS_OK;
    while (send_next(masks))
        continue;
    if (masks->comm->rank != 0)
        return STATUS_OK;
    while (masks->comm->size > 1 && receive_next(masks))
        continue;
    if (clock_now_ns() - masks->written_ns > second_ns)
        write_list(masks);
    if (masks->excess.status != STATUS_OK)
        *err = masks->excess;
    return (enum status)masks->excess.status;
}

bool masks_sent(const struct masks *masks)
{
    return !masks || masks->outgoing_request == MPI_REQUEST_NULL;
}

/* Rank 0 takes entries until it has all that were sent; how many each has sent is told once it is
 * done. */
static void gather(struct masks *masks)
{
    const struct comm *comm = masks->comm;
    uint64_t sent = 0;
    int told = 0;
    bool flushed = false;
    MPI_Request request = MPI_REQUEST_NULL;
    for (unsigned idle = 0; !told || (comm->rank == 0 && masks->received < sent);) {
        bool moved = !flushed && send_next(masks);
        moved |= comm->rank == 0 && comm->size > 1 && receive_next(masks);
        if (moved)
            continue;
        if (!flushed && masks->outgoing_request == MPI_REQUEST_NULL) {
            flushed = true;
            MPI_Ireduce(&masks->sent, &sent, 1, MPI_UINT64_T, MPI_SUM, 0, comm->control, &request);
        }
        if (flushed && !told)
            MPI_Test(&request, &told, MPI_STATUS_IGNORE);
        comm_heed_signals(comm);
        comm_back_off(&idle);
    }
    masks->sent = masks->received = 0;
}

enum status masks_finish(struct masks *masks, struct error *err)
{
    if (!masks)
        return STATUS_OK;
    gather(masks);
    if (masks->comm->rank == 0)
        write_list(masks);
    *err = masks->excess;
    return comm_agree(masks->comm, (enum status)masks->excess.status, err);
}

bool masks_are_listed(const struct masks *masks)
{
    return masks && !masks->write_failed;
}

uint64_t masks_samples(const struct masks *masks)
{
    return masks && masks->list ? bad_list_samples(masks->list) : 0;
}

void masks_save(struct masks *masks)
{
    if (masks && masks->list)
        write_list(masks);
}

void masks_free(struct masks *masks)
{
    if (!masks)
        return;
    bad_list_free(masks->list);
    bad_log_free(masks->log);
    free(masks);
}
