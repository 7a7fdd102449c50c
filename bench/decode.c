/* The limit of a first epoch: reading and decoding, nothing else. See limit.h.
 *
 * Workers take rows from one counter. There is no queue, no order of completion and no consumer;
 * the decoded row is overwritten by the next. decode_thread() runs on the pool's workers, the rest
 * on the main thread.
 */
#include "limit.h"

#include "base/clock.h"
#include "base/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A worker's memory for the pages of a row. */
struct pages {
    struct dataset_pages pages; /* first: page_at() finds the rest by it */
    unsigned char *base;
    size_t page_bytes;
};

struct decode {
    const struct dataset *dataset;
    struct plan_epoch epoch;
    unsigned char *rows; /* where row r is kept at r * row_bytes; NULL: it is not */
    void *buffers;       /* a worker's row buffer, and the pages of a row behind */
    size_t buffer_bytes, buffers_bytes;
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

bool decode_next(struct decode *decode, struct pool_worker *worker)
{
    const struct dataset *dataset = decode->dataset;
    uint64_t position = atomic_fetch_add(&decode->next, 1);
    if (position >= decode->epoch.plan.row_count)
        return false;
    uint64_t row = plan_row_at(&decode->epoch, position);
    unsigned char *own = (unsigned char *)decode->buffers + worker->index * decode->buffer_bytes;
    const struct pages pages = {{page_at}, own + dataset->row_bytes, dataset->page_bytes};
    struct error err;
    if (dataset_read_row_with(worker->reader, row,
                              decode->rows ? decode->rows + row * dataset->row_bytes : own,
                              &pages.pages, NULL, NULL, &worker->stats, &err) == STATUS_OK)
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

enum status decode_open(const struct limit *limit, unsigned char *rows, struct decode **ret_decode,
                        struct error *err)
{
    const struct dataset *dataset = limit->dataset;
    size_t buffer_bytes =
        dataset->row_bytes + dataset_most_row_pages(dataset) * dataset->page_bytes;
    struct decode *decode = calloc(1, sizeof *decode);
    if (!decode)
        return error_set(err, STATUS_NO_MEMORY, "no memory to decode rows");
    *decode = (struct decode){.dataset = dataset,
                              .rows = rows,
                              .buffer_bytes = buffer_bytes,
                              .buffers_bytes = pool_worker_count(limit->pool) * buffer_bytes,
                              .mutex = PTHREAD_MUTEX_INITIALIZER};
    enum status status = memory_map(decode->buffers_bytes, "row buffers", &decode->buffers, err);
    if (status == STATUS_OK)
        status = hold_offsets(decode, limit->dataset, err);
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

enum status decode_rows(const struct limit *limit, unsigned char *rows,
                        struct limit_result *ret_result, struct error *err)
{
    struct decode *decode;
    enum status status = decode_open(limit, rows, &decode, err);
    if (status != STATUS_OK)
        return status;
    run_decode(decode, limit, ret_result);
    return decode_close(decode, err);
}
