/* The limit of a first epoch: reading and decoding, nothing else; or also to copy each ragged item
 * once. See limit.h.
 *
 * Workers take rows from one counter. There is no queue, no order of completion and no consumer;
 * the decoded row is overwritten by the next, or by that after KEPT_ROWS. decode_thread() runs on
 * the pool's workers, the rest on the main thread.
 */
#include "limit.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "run/ragged_items.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A worker's memory for the pages of a row. */
struct pages {
    struct dataset_pages pages; /* first: page_at() finds the rest by it */
    unsigned char *base;
    size_t page_bytes;
};

/* Rows that a worker keeps until their items are copied: more than its part of the last cache. */
enum { KEPT_ROWS = 4 };

enum { RAGGED_SLOTS = 40 }; /* of delivery.slots "auto" with small ragged batches */

/* A worker's copies of ragged items. */
struct copies {
    uint64_t rows[KEPT_ROWS]; /* whose pages lie in each buffer */
    uint64_t decoded, copied; /* rows */
    unsigned char *ring;      /* what they go to, again and again */
    size_t at;
};

struct decode {
    const struct dataset *dataset;
    struct plan_epoch epoch;
    unsigned char *rows; /* where row r is kept at r * row_bytes; NULL: it is not */
    void *buffers; /* a worker's `kept` buffers: a row buffer, and the pages of a row behind */
    size_t buffer_bytes, buffers_bytes;
    size_t kept;           /* of a worker */
    struct copies *copies; /* of each worker; NULL: nothing is copied */
    void *rings;           /* of all workers; NULL likewise */
    size_t ring_bytes, rings_bytes;
    void *held; /* offsets of ragged fields; NULL: there are none */
    _Atomic uint64_t next;
    pthread_mutex_t mutex; /* guards what follows */
    enum status status;    /* of the first that failed */
    struct error err;
};

static void fail(struct decode *decode, const struct error *err)
{
    pthread_mutex_lock(&decode->mutex);
    if (decode->status == STATUS_OK) {
        decode->err = *err;
        decode->status = (enum status)err->status;
    }
    pthread_mutex_unlock(&decode->mutex);
    atomic_store(&decode->next, decode->dataset->row_count); /* the others need not go on */
}

static unsigned char *page_at(const struct dataset_pages *of, uint32_t page)
{
    const struct pages *pages = (const struct pages *)of;
    return pages->base + page * pages->page_bytes;
}

static unsigned char *buffer_of(const struct decode *decode, const struct pool_worker *worker,
                                uint64_t turn)
{
    size_t index = worker->index * decode->kept + turn % decode->kept;
    return (unsigned char *)decode->buffers + index * decode->buffer_bytes;
}

static struct pages pages_of(const struct dataset *dataset, unsigned char *buffer)
{
    return (struct pages){{page_at}, buffer + dataset->row_bytes, dataset->page_bytes};
}

static struct ragged_items items_of(const struct ragged *ragged, const struct ragged_row *lies,
                                    const struct pages *pages, uint64_t frame)
{
    struct ragged_span span = ragged_frame(ragged, frame);
    return (struct ragged_items){.count = span.end - span.begin,
                                 .pages = &pages->pages,
                                 .page_item = span.begin - lies->page_begin,
                                 .first_page = lies->first_page};
}

static void copy_frame(const struct decode *decode, const struct ragged *ragged,
                       const struct ragged_row *lies, const struct pages *pages, uint64_t frame,
                       uint64_t next, struct copies *copies)
{
    struct ragged_items items = items_of(ragged, lies, pages, frame);
    struct ragged_items after = items_of(ragged, lies, pages, next);
    struct ragged_piece piece, ahead = {0};
    if (after.count > 0)
        ragged_items_piece(ragged, &after, 0, &ahead);
    for (uint64_t at = 0; at < items.count; at += piece.count) {
        ragged_items_piece(ragged, &items, at, &piece);
        for (size_t c = 0; c < ragged->column_count; c++) {
            size_t item_bytes = ragged->columns[c].item_bytes, bytes = piece.count * item_bytes;
            if (copies->at + bytes > decode->ring_bytes)
                copies->at = 0;
            ragged_piece_copy(ragged, c, &piece, copies->ring + copies->at, &ahead);
            copies->at += bytes;
        }
    }
}

/* The items of the oldest row that is kept, to the ring: frame by frame in no order. */
static void copy_oldest(const struct decode *decode, const struct pool_worker *worker)
{
    const uint64_t stride = 7919; /* a prime */
    const struct dataset *dataset = decode->dataset;
    struct copies *copies = &decode->copies[worker->index];
    uint64_t row = copies->rows[copies->copied % KEPT_ROWS];
    uint64_t first = dataset_row_first(dataset, row), count = dataset_row_frames(dataset, row);
    struct pages pages = pages_of(dataset, buffer_of(decode, worker, copies->copied));
    for (size_t f = 0; f < dataset->ragged_count; f++) {
        struct ragged_row lies = dataset_ragged_row(dataset, f, row);
        for (uint64_t i = 0; i < count && !dataset->ragged[f].is_held; i++)
            copy_frame(decode, &dataset->ragged[f], &lies, &pages, first + i * stride % count,
                       first + (i + 1) * stride % count, copies);
    }
    copies->copied++;
}

bool decode_next(struct decode *decode, struct pool_worker *worker)
{
    const struct dataset *dataset = decode->dataset;
    struct copies *copies = decode->copies ? &decode->copies[worker->index] : NULL;
    uint64_t position = atomic_fetch_add(&decode->next, 1);
    if (position >= decode->epoch.plan.row_count) {
        while (copies && copies->copied < copies->decoded)
            copy_oldest(decode, worker);
        return false;
    }
    uint64_t row = plan_row_at(&decode->epoch, position), turn = 0;
    if (copies) {
        if (copies->decoded - copies->copied == KEPT_ROWS)
            copy_oldest(decode, worker);
        turn = copies->decoded++;
        copies->rows[turn % KEPT_ROWS] = row;
    }
    unsigned char *own = buffer_of(decode, worker, turn);
    const struct pages pages = pages_of(dataset, own);
    struct error err;
    if (dataset_read_row_with(worker->reader, row,
                              decode->rows ? decode->rows + row * dataset->row_bytes : own,
                              &pages.pages, NULL, NULL, &worker->stats.read, &err) == STATUS_OK)
        return true;
    fail(decode, &err);
    return false;
}

static void decode_thread(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    while (decode_next(argument, worker))
        continue;
}

double decode_share(const struct decode *decode)
{
    return (double)atomic_load(&decode->next) / (double)decode->epoch.plan.row_count;
}

static uint64_t cpu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void run_decode(struct decode *decode, const struct limit *limit,
                       struct limit_result *ret_result)
{
    struct pool_stats before, after;
    pool_stats(limit->pool, &before);
    uint64_t start_ns = clock_now_ns(), start_cpu_ns = cpu_now_ns();
    pool_run_on_workers(limit->pool, decode_thread, decode);
    uint64_t end_ns = clock_now_ns(), end_cpu_ns = cpu_now_ns();
    (void)!pool_drain(limit->pool, UINT32_MAX); /* makes the numbers exact */
    pool_stats(limit->pool, &after);
    *ret_result =
        (struct limit_result){.samples = decode->dataset->sample_count,
                              .duration_ns = end_ns - start_ns,
                              .cpu_ns = end_cpu_ns - start_cpu_ns,
                              .stored_bytes = after.read.stored_bytes - before.read.stored_bytes,
                              .read_ns = after.read.read_ns - before.read.read_ns,
                              .decode_ns = after.read.decode_ns - before.read.decode_ns};
}

static void release(struct decode *decode)
{
    if (decode->held)
        memory_unmap(decode->held, decode->dataset->held_bytes);
    if (decode->rings)
        memory_unmap(decode->rings, decode->rings_bytes);
    free(decode->copies);
    if (decode->buffers)
        memory_unmap(decode->buffers, decode->buffers_bytes);
    free(decode);
}

/* Rows of ragged fields are cut by what the offsets say, which are held. */
static enum status hold_offsets(struct decode *decode, struct dataset *dataset, struct error *err)
{
    if (dataset->ragged_count == 0)
        return STATUS_OK;
    enum status status = memory_map(dataset->held_bytes, "held arrays", &decode->held, err);
    return status == STATUS_OK ? dataset_hold(dataset, decode->held, err) : status;
}

static size_t buffer_bytes_of(const struct dataset *dataset)
{
    return dataset->row_bytes + dataset_most_row_pages(dataset) * dataset->page_bytes;
}

/* As large together as one reader's ring of batches. */
static enum status make_rings(struct decode *decode, const struct limit *limit, uint32_t workers,
                              struct error *err)
{
    const struct dataset *dataset = decode->dataset;
    uint64_t slots = limit->config.slots ? limit->config.slots : RAGGED_SLOTS, bytes = 0, frame = 0;
    for (size_t f = 0; f < dataset->ragged_count; f++) {
        frame = max_u64(frame, dataset->ragged[f].most_frame_items *
                                   ragged_item_bytes(&dataset->ragged[f]));
        bytes += ragged_most_items(&dataset->ragged[f], limit->plan.global_batch) *
                 ragged_item_bytes(&dataset->ragged[f]);
    }
    decode->ring_bytes = max_u64(slots * bytes / workers, frame);
    decode->rings_bytes = decode->ring_bytes * workers;
    decode->copies = calloc(workers, sizeof *decode->copies);
    if (!decode->copies)
        return error_set(err, STATUS_NO_MEMORY, "no memory to copy items");
    enum status status = memory_map(decode->rings_bytes, "rings", &decode->rings, err);
    if (status != STATUS_OK)
        return status;
    memory_touch(decode->rings, decode->rings_bytes);
    for (uint32_t w = 0; w < workers; w++)
        decode->copies[w].ring = (unsigned char *)decode->rings + w * decode->ring_bytes;
    return STATUS_OK;
}

enum status decode_open(const struct limit *limit, unsigned char *rows, bool copies_items,
                        struct decode **ret_decode, struct error *err)
{
    const struct dataset *dataset = limit->dataset;
    uint32_t workers = pool_worker_count(limit->pool);
    size_t kept = copies_items ? KEPT_ROWS : 1, buffer_bytes = buffer_bytes_of(dataset);
    struct decode *decode = calloc(1, sizeof *decode);
    if (!decode)
        return error_set(err, STATUS_NO_MEMORY, "no memory to decode rows");
    *decode = (struct decode){.dataset = dataset,
                              .rows = rows,
                              .buffer_bytes = buffer_bytes,
                              .buffers_bytes = workers * kept * buffer_bytes,
                              .kept = kept,
                              .mutex = PTHREAD_MUTEX_INITIALIZER};
    enum status status = memory_map(decode->buffers_bytes, "row buffers", &decode->buffers, err);
    if (status == STATUS_OK)
        status = hold_offsets(decode, limit->dataset, err);
    if (status == STATUS_OK && copies_items)
        status = make_rings(decode, limit, workers, err);
    if (status != STATUS_OK) {
        release(decode);
        return status;
    }
    memory_touch(decode->buffers, decode->buffers_bytes);
    plan_epoch_init(&decode->epoch, &limit->plan, 0);
    *ret_decode = decode;
    return STATUS_OK;
}

enum status decode_close(struct decode *decode, struct error *err)
{
    enum status status = decode->status;
    if (status != STATUS_OK && err)
        *err = decode->err;
    release(decode);
    return status;
}

enum status decode_rows(const struct limit *limit, unsigned char *rows, bool copies_items,
                        struct limit_result *ret_result, struct error *err)
{
    struct decode *decode;
    enum status status = decode_open(limit, rows, copies_items, &decode, err);
    if (status != STATUS_OK)
        return status;
    run_decode(decode, limit, ret_result);
    return decode_close(decode, err);
}
