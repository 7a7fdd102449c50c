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

struct decode {
    const struct dataset *dataset;
    struct plan_epoch epoch;
    unsigned char *rows;    /* where row r is kept at r * row_bytes; NULL: it is not */
    unsigned char *buffers; /* a row buffer a worker */
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

static void decode_thread(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    struct decode *decode = argument;
    const struct dataset *dataset = decode->dataset;
    for (;;) {
        uint64_t position = atomic_fetch_add(&decode->next, 1);
        if (position >= decode->epoch.plan.row_count)
            return;
        uint64_t row = plan_row_at(&decode->epoch, position);
        unsigned char *buffer = decode->rows ? decode->rows + row * dataset->row_bytes
                                             : decode->buffers + worker->index * dataset->row_bytes;
        struct error err;
        if (dataset_read_row(worker->reader, row, buffer, &worker->stats, &err) != STATUS_OK) {
            fail(decode, &err);
            return;
        }
    }
}

static uint64_t cpu_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static enum status run_decode(struct decode *decode, const struct limit *limit,
                              struct limit_result *ret_result, struct error *err)
{
    struct pool_stats before, after;
    pool_stats(limit->pool, &before);
    uint64_t start_ns = clock_now_ns(), start_cpu_ns = cpu_now_ns();
    pool_run_on_workers(limit->pool, decode_thread, decode);
    uint64_t end_ns = clock_now_ns(), end_cpu_ns = cpu_now_ns();
    (void)!pool_drain(limit->pool, UINT32_MAX); /* makes the numbers exact */
    pool_stats(limit->pool, &after);
    if (decode->status != STATUS_OK) {
        if (err)
            *err = decode->err;
        return decode->status;
    }
    *ret_result =
        (struct limit_result){.samples = decode->dataset->sample_count,
                              .duration_ns = end_ns - start_ns,
                              .cpu_ns = end_cpu_ns - start_cpu_ns,
                              .stored_bytes = after.read.stored_bytes - before.read.stored_bytes,
                              .read_ns = after.read.read_ns - before.read.read_ns,
                              .decode_ns = after.read.decode_ns - before.read.decode_ns};
    return STATUS_OK;
}

enum status decode_rows(const struct limit *limit, unsigned char *rows,
                        struct limit_result *ret_result, struct error *err)
{
    size_t buffers_bytes = pool_worker_count(limit->pool) * limit->dataset->row_bytes;
    void *buffers;
    enum status status = memory_map(buffers_bytes, "row buffers", &buffers, err);
    if (status != STATUS_OK)
        return status;
    memory_touch(buffers, buffers_bytes);
    struct decode decode = {.dataset = limit->dataset,
                            .rows = rows,
                            .buffers = buffers,
                            .mutex = PTHREAD_MUTEX_INITIALIZER};
    plan_epoch_init(&decode.epoch, &limit->plan, 0);
    status = run_decode(&decode, limit, ret_result, err);
    memory_unmap(buffers, buffers_bytes);
    return status;
}
