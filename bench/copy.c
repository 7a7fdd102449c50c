/* The limit of a later epoch: copying samples that lie decoded in memory into batches. See limit.h.
 *
 *     rows in memory  --workers: memcpy-->  ring of slots  --main thread: touches one byte a
 * page-->  free
 *
 * Workers take short runs of positions from one counter, so that all of them work on the same batch
 * and the batches complete in order. The order of samples is looked up in a table made beforehand.
 */
#include "limit.h"

#include "anchors/anchors.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/memory.h"
#include "base/size.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_BYTES = 256 << 10 };

enum { ONE_READERS_SLOTS = 4 }; /* of delivery.slots "auto" */

struct copy {
    const struct dataset *dataset;
    uint64_t batch, slot_count;
    uint64_t steps_per_pass, step_count; /* of one pass, of all */
    uint64_t run;                        /* samples a worker takes at once */
    uint64_t *order;                     /* [steps_per_pass * batch] frame of each position */
    size_t rows_bytes, fresh_bytes, slot_bytes, held_bytes;
    size_t field_offsets[DATASET_MAX_FIELDS]; /* in a slot */
    void *rows, *slots, *held;
    void *fresh;           /* rows that are decoded meanwhile; NULL: none are */
    struct decode *decode; /* of these; likewise */
    bool streams;          /* copies go past the caches where a reader's do */
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t freed, filled;
    uint64_t next;      /* position to copy, over all passes */
    uint64_t tail;      /* steps consumed */
    uint64_t *complete; /* [slot_count] samples in the slot */
};

struct run {
    uint64_t step, first, end; /* samples [first, end) of the step's batch */
};

/* Waits until the next batch has a slot. False when all is copied. */
static bool take_run(struct copy *copy, struct run *ret_run)
{
    pthread_mutex_lock(&copy->mutex);
    while (copy->next / copy->batch < copy->step_count &&
           copy->next / copy->batch >= copy->tail + copy->slot_count)
        pthread_cond_wait(&copy->freed, &copy->mutex);
    uint64_t step = copy->next / copy->batch, first = copy->next % copy->batch;
    uint64_t left = copy->batch - first;
    uint64_t count = left < copy->run ? left : copy->run;
    bool taken = step < copy->step_count;
    if (taken) {
        copy->next += count;
        *ret_run = (struct run){step, first, first + count};
    }
    pthread_mutex_unlock(&copy->mutex);
    return taken;
}

static void complete_run(struct copy *copy, const struct run *run)
{
    uint64_t slot = run->step % copy->slot_count;
    pthread_mutex_lock(&copy->mutex);
    copy->complete[slot] += run->end - run->first;
    if (copy->complete[slot] == copy->batch)
        pthread_cond_signal(&copy->filled);
    pthread_mutex_unlock(&copy->mutex);
}

/* Where step 0 of the field is, of the sample at `frame`. */
static const unsigned char *find_frame(const struct copy *copy, size_t f, uint64_t frame)
{
    const struct dataset *dataset = copy->dataset;
    const struct dataset_field *field = &dataset->fields[f];
    if (field->source == FIELD_HELD)
        return dataset_held_sample(dataset, f, frame);
    return (const unsigned char *)copy->rows + frame / dataset->row_length * dataset->row_bytes +
           field->row_offset + frame % dataset->row_length * field->frame_bytes;
}

static void copy_block(const struct copy *copy, unsigned char *to, const unsigned char *from,
                       size_t bytes)
{
    if (copy->streams && bytes >= COPY_STREAM_BYTES)
        copy_stream(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* The steps of a field: at once where they follow one another, else one by one. Steps outside the
 * episode are its nearest frame. */
static void copy_steps(const struct copy *copy, const struct dataset_field *field,
                       const unsigned char *frame_0, uint64_t frame,
                       const struct anchors_episode *episode, unsigned char *out)
{
    int64_t before = (int64_t)(episode->first - frame), behind = (int64_t)(episode->end - frame);
    int64_t first = field->steps[0], last = field->steps[field->step_count - 1];
    if (first >= before && last < behind && last - first + 1 == (int64_t)field->step_count) {
        copy_block(copy, out, frame_0 + first * (int64_t)field->frame_bytes, field->sample_bytes);
        return;
    }
    for (size_t i = 0; i < field->step_count; i++) {
        int64_t step = field->steps[i];
        step = step < before ? before : step >= behind ? behind - 1 : step;
        memcpy(out + i * field->frame_bytes, frame_0 + step * (int64_t)field->frame_bytes,
               field->frame_bytes);
    }
}

static void copy_sample(const struct copy *copy, uint64_t frame, unsigned char *slot,
                        uint64_t batch_index)
{
    const struct dataset *dataset = copy->dataset;
    struct anchors_episode episode = {.end = dataset->frame_count};
    if (dataset->anchors)
        episode = anchors_episode_of(dataset->anchors, frame);
    for (size_t f = 0; f < dataset->field_count; f++) {
        const struct dataset_field *field = &dataset->fields[f];
        unsigned char *out = slot + copy->field_offsets[f] + batch_index * field->sample_bytes;
        if (field->source == FIELD_MADE)
            dataset_make(dataset, f, frame, 0, out);
        else if (field->step_count > 0)
            copy_steps(copy, field, find_frame(copy, f, frame), frame, &episode, out);
        else
            copy_block(copy, out, find_frame(copy, f, frame), field->sample_bytes);
    }
}

/* Decoding is ahead of the copies by a row, so that both come to their end together. */
static bool decoding_is_due(struct copy *copy)
{
    if (!copy->decode)
        return false;
    pthread_mutex_lock(&copy->mutex);
    double copied = (double)copy->next / (double)(copy->step_count * copy->batch);
    pthread_mutex_unlock(&copy->mutex);
    return decode_share(copy->decode) <= copied;
}

static void copy_thread(struct pool_worker *worker, void *argument, uint64_t begin, uint64_t end)
{
    (void)begin;
    (void)end;
    struct copy *copy = argument;
    struct run run;
    for (;;) {
        if (decoding_is_due(copy) && decode_next(copy->decode, worker))
            continue;
        if (!take_run(copy, &run))
            break;
        const uint64_t *order = copy->order + run.step % copy->steps_per_pass * copy->batch;
        unsigned char *slot =
            (unsigned char *)copy->slots + run.step % copy->slot_count * copy->slot_bytes;
        for (uint64_t batch_index = run.first; batch_index < run.end; batch_index++)
            copy_sample(copy, order[batch_index], slot, batch_index);
        complete_run(copy, &run);
    }
}

/* What `penstock-trainer --touch` does with a batch. */
static void touch(const struct copy *copy, const unsigned char *slot)
{
    static volatile unsigned char sink;
    for (size_t f = 0; f < copy->dataset->field_count; f++) {
        const volatile unsigned char *data = slot + copy->field_offsets[f];
        uint64_t bytes = copy->dataset->fields[f].sample_bytes * copy->batch;
        for (uint64_t offset = 0; offset < bytes; offset += MEMORY_PAGE_BYTES)
            sink = data[offset];
    }
    (void)sink;
}

static void consume(struct copy *copy)
{
    for (uint64_t step = 0; step < copy->step_count; step++) {
        uint64_t slot = step % copy->slot_count;
        pthread_mutex_lock(&copy->mutex);
        while (copy->complete[slot] < copy->batch)
            pthread_cond_wait(&copy->filled, &copy->mutex);
        pthread_mutex_unlock(&copy->mutex);
        touch(copy, (const unsigned char *)copy->slots + slot * copy->slot_bytes);
        pthread_mutex_lock(&copy->mutex);
        copy->complete[slot] = 0;
        copy->tail = step + 1;
        pthread_cond_broadcast(&copy->freed);
        pthread_mutex_unlock(&copy->mutex);
    }
}

static void lay_out_slot(struct copy *copy)
{
    for (size_t f = 0; f < copy->dataset->field_count; f++) {
        copy->field_offsets[f] = copy->slot_bytes;
        copy->slot_bytes +=
            size_round_up(copy->dataset->fields[f].sample_bytes * copy->batch, MEMORY_LINE_BYTES);
    }
    copy->slot_bytes = size_round_up(copy->slot_bytes, MEMORY_PAGE_BYTES);
}

static enum status allocate(struct copy *copy, struct error *err)
{
    const struct dataset *dataset = copy->dataset;
    uint64_t need = copy->rows_bytes + copy->fresh_bytes + copy->slot_bytes * copy->slot_count +
                    copy->held_bytes;
    if (need > memory_available_bytes())
        return error_set(err, STATUS_NO_MEMORY,
                         "decoded dataset and ring take %s, available are %s",
                         size_format(need).text, size_format(memory_available_bytes()).text);
    copy->order = calloc(copy->steps_per_pass * copy->batch, sizeof *copy->order);
    copy->complete = calloc(copy->slot_count, sizeof *copy->complete);
    if (!copy->order || !copy->complete)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the order of samples");
    enum status status = memory_map(copy->rows_bytes, "decoded dataset", &copy->rows, err);
    if (status == STATUS_OK)
        status = memory_map(copy->slot_bytes * copy->slot_count, "ring", &copy->slots, err);
    if (status == STATUS_OK && copy->fresh_bytes)
        status = memory_map(copy->fresh_bytes, "decoded dataset", &copy->fresh, err);
    if (status == STATUS_OK && dataset->held_bytes)
        status = memory_map(copy->held_bytes, "held arrays", &copy->held, err);
    if (status != STATUS_OK)
        return status;
    memory_touch(copy->slots, copy->slot_bytes * copy->slot_count);
    if (copy->fresh)
        memory_touch(copy->fresh, copy->fresh_bytes);
    return STATUS_OK;
}

static enum status copy_init(struct copy *copy, const struct limit *limit, uint32_t passes,
                             bool decodes, struct error *err)
{
    const struct dataset *dataset = limit->dataset;
    uint64_t batch = limit->plan.global_batch;
    uint64_t steps = dataset->sample_count / batch;
    uint64_t run = RUN_BYTES / dataset->sample_bytes;
    uint64_t slots = limit->config.slots;
    *copy = (struct copy){.dataset = dataset,
                          .batch = batch,
                          .slot_count = slots ? slots : ONE_READERS_SLOTS,
                          .steps_per_pass = steps,
                          .step_count = steps * passes,
                          .run = run ? run : 1,
                          .rows_bytes = dataset->row_count * dataset->row_bytes,
                          .fresh_bytes = decodes ? dataset->row_count * dataset->row_bytes : 0,
                          .held_bytes = dataset->held_bytes,
                          .mutex = PTHREAD_MUTEX_INITIALIZER,
                          .freed = PTHREAD_COND_INITIALIZER,
                          .filled = PTHREAD_COND_INITIALIZER};
    if (steps == 0)
        return error_set(err, STATUS_INVALID, "%s samples do not fill a batch of %s",
                         count_format(dataset->sample_count).text, count_format(batch).text);
    lay_out_slot(copy);
    copy->streams = decodes && copy->slot_bytes * copy->slot_count >= COPY_STREAM_RING_BYTES;
    enum status status = allocate(copy, err);
    if (status != STATUS_OK)
        return status;
    struct plan_epoch epoch;
    plan_epoch_init(&epoch, &limit->plan, 0);
    for (uint64_t position = 0; position < steps * batch; position++)
        copy->order[position] = plan_sample_at(&epoch, position);
    return STATUS_OK;
}

static void copy_done(struct copy *copy)
{
    memory_unmap(copy->held, copy->held_bytes);
    memory_unmap(copy->slots, copy->slot_bytes * copy->slot_count);
    memory_unmap(copy->fresh, copy->fresh_bytes);
    memory_unmap(copy->rows, copy->rows_bytes);
    free(copy->complete);
    free(copy->order);
}

/* One task a worker, that lasts until all is copied. The queues are empty and hold that many. */
static void start_workers(struct copy *copy, struct pool *pool)
{
    const struct placement *placement = pool_placement(pool);
    for (uint32_t i = 0; i < placement->worker_count; i++) {
        bool queued =
            pool_submit(pool, placement->workers[i].numa, POOL_NORMAL, copy_thread, copy, 0, 0);
        assert(queued);
        (void)queued;
    }
}

static enum status run_copy(struct copy *copy, const struct limit *limit,
                            struct limit_result *ret_result, struct error *err)
{
    struct limit_result decoded;
    enum status status = decode_rows(limit, copy->rows, false, &decoded, err);
    if (status == STATUS_OK && copy->held)
        status = dataset_hold(limit->dataset, copy->held, err);
    if (status != STATUS_OK)
        return status;
    if (copy->fresh)
        status = decode_open(limit, copy->fresh, false, &copy->decode, err);
    if (status != STATUS_OK)
        return status;
    uint64_t start_ns = clock_now_ns();
    start_workers(copy, limit->pool);
    consume(copy);
    (void)!pool_drain(limit->pool, UINT32_MAX);
    *ret_result = (struct limit_result){.samples = copy->step_count * copy->batch,
                                        .duration_ns = clock_now_ns() - start_ns};
    return copy->decode ? decode_close(copy->decode, err) : STATUS_OK;
}

enum status copy_samples(const struct limit *limit, uint32_t passes, bool decodes,
                         struct limit_result *ret_result, struct error *err)
{
    struct copy copy;
    if (limit->dataset->ragged_count > 0)
        return error_set(err, STATUS_UNSUPPORTED,
                         "warm: copies of ragged fields are not measured here");
    enum status status = copy_init(&copy, limit, passes, decodes, err);
    if (status == STATUS_OK)
        status = run_copy(&copy, limit, ret_result, err);
    copy_done(&copy);
    return status;
}
