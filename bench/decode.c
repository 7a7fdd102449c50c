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

struct decode {
    const struct dataset *dataset;
    struct plan_epoch epoch;
    unsigned char *rows; /* where row r is kept at r * row_bytes; NULL: it is not */
    void *buffers;       /* a row buffer a worker */
    size_t buffers_bytes;
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

bool decode_next(struct decode *decode, struct pool_worker *worker)
{
    const struct dataset *dataset = decode->dataset;
    uint64_t position = atomic_fetch_add(&decode->next, 1);
    if (position >= decode->epoch.plan.row_count)
        return false;
    uint64_t row = plan_row_at(&decode->epoch, position);
    unsigned char *buffer =
        decode->rows ? decode->rows + row * dataset->row_bytes
                     : (unsigned char *)decode->buffers + worker->index * dataset->row_bytes;
    struct error err;
    if (dataset_read_row(worker->reader, row, buffer, &worker->stats, &err) == STATUS_OK)
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

enum status decode_open(const struct limit *limit, unsigned char *rows, struct decode **ret_decode,
                        struct error *err)
{
    size_t buffers_bytes = pool_worker_count(limit->pool) * limit->dataset->row_bytes;
    struct decode *decode = calloc(1, sizeof *decode);
    if (!decode)
        return error_set(err, STATUS_NO_MEMORY, "no memory to decode rows");
    *decode = (struct decode){.dataset = limit->dataset,
                              .rows = rows,
                              .buffers_bytes = buffers_bytes,
                              .mutex = PTHREAD_MUTEX_INITIALIZER};
    enum status status = memory_map(buffers_bytes, "row buffers", &decode->buffers, err);
    if (status != STATUS_OK) {
        free(decode);
        return status;
    }
    memory_touch(decode->buffers, buffers_bytes);
    plan_epoch_init(&decode->epoch, &limit->plan, 0);
    *ret_decode = decode;
    return STATUS_OK;
}

enum status decode_close(struct decode *decode, struct error *err)
{
    enum status status = decode->status;
    if (status != STATUS_OK && err)
        *err = decode->err;
    memory_unmap(decode->buffers, decode->buffers_bytes);
    free(decode);
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
