/* See meter.h. */
#include "account/meter.h"

#include "account/overview.h"
#include "account/scrape.h"
#include "account/textfile.h"
#include "base/address.h"
#include "base/clock.h"
#include "base/file.h"
#include "delivery/ring/rundir.h"
#include "job/job_internal.h"
#include "metrics/metrics_file.h"
#include "store/kind/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const uint64_t period_ns = 250000000;

struct meter {
    const struct job *job;
    const struct session *session;
    int dir, page; /* owned; -1: none */
    struct scrape *scrape;
    struct textfile *textfile;
    struct overview *overview;
    uint64_t written_ns;
    uint64_t published_before;         /* steps, in earlier sessions */
    uint64_t session_start;            /* cursor */
    struct waits_seen *seen;           /* [capacity] of this session's rings, as last read */
    uint32_t capacity;                 /* trainers that this reader may serve */
    struct metrics_snapshot *snapshot; /* with room for as many trainers */
    struct series series;              /* since the first session began */
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void write_page(struct meter *meter)
{
    meter->snapshot->now_ms = now_ms();
    metrics_file_write(meter->page, meter->snapshot);
}

/* What does not change during a run. */
static void fill_constants(struct meter *meter)
{
    const struct job *job = meter->job;
    struct metrics_snapshot *snapshot = meter->snapshot;
    const struct ring_service *service = &job->setup.service;
    snapshot->pid = (uint64_t)getpid();
    snapshot->reader = (uint32_t)job->comm.rank;
    snapshot->reader_count = (uint32_t)job->comm.size;
    snapshot->order_id = service->order.id;
    snapshot->seed = service->order.seed;
    text_show(snapshot->node, sizeof snapshot->node, job->comm.node_name);
    snprintf(snapshot->run, sizeof snapshot->run, "%s", job->also ? job->also : "");
    text_show(snapshot->version, sizeof snapshot->version, PENSTOCK_VERSION_TEXT);
    struct text dataset = {0};
    job_name_dataset(&job->config, &dataset);
    text_show(snapshot->dataset, sizeof snapshot->dataset, dataset.data);
    text_done(&dataset);
    struct metrics_values *values = &snapshot->values;
    values->start_ms = now_ms();
    values->epochs = job->config.epochs;
    values->steps_per_epoch = service->steps_per_epoch;
    values->workers = job->placement.worker_count;
    values->memory_limit = job->setup.demand.limit_bytes;
    values->memory_planned = job->setup.budget.total_bytes;
    values->dataset_rows = job->dataset->row_count;
}

/* Readers of a node listen at one port after the other. */
static enum status start_scrape(struct meter *meter, struct error *err)
{
    const struct job *job = meter->job;
    struct address address;
    enum status status = address_parse(job->config.metrics_listen, &address, err);
    if (status != STATUS_OK)
        return status;
    uint32_t port = address_port(&address);
    if (port > 0)
        port += (uint32_t)job->comm.node_rank;
    if (port > UINT16_MAX)
        return error_set(err, STATUS_INVALID,
                         "metrics.listen '%s': the readers of this node take one port each, and "
                         "reader %d's would be %" PRIu32 ": choose a lower one",
                         job->config.metrics_listen, job->comm.rank, port);
    address_set_port(&address, (uint16_t)port);
    status = scrape_new(meter->dir, meter->snapshot->reader, &address, &meter->scrape, err);
    if (status != STATUS_OK)
        return status;
    address = scrape_address(meter->scrape);
    snprintf(meter->snapshot->listen, sizeof meter->snapshot->listen, "%s",
             address_print(&address).text);
    return STATUS_OK;
}

/* For Prometheus' file_sd_configs. */
static enum status write_target(const struct meter *meter, struct error *err)
{
    char path[64];
    struct text json = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d/reader-%" PRIu32 ".json", meter->dir,
             meter->snapshot->reader);
    text_append(&json, "[{\"targets\":[\"%s\"],\"labels\":{\"job\":\"penstock\"}}]\n",
                meter->snapshot->listen);
    enum status status = file_replace(path, json.data, json.length, err);
    text_done(&json);
    return status;
}

/* metrics.file with {rank} filled in. */
static enum status start_textfile(struct meter *meter, struct error *err)
{
    static const char mark[] = "{rank}";
    const struct job *job = meter->job;
    const char *pattern = job->config.metrics_file, *at = strstr(pattern, mark);
    if (!at && job->comm.node_size > 1)
        return error_set(err, STATUS_INVALID,
                         "metrics.file '%s': the %d readers of node %s would write to one file: "
                         "put {rank} into the name, which stands for the reader's rank",
                         pattern, job->comm.node_size, job->comm.node_name);
    struct text path = {0};
    if (at)
        text_append(&path, "%.*s%d%s", (int)(at - pattern), pattern, job->comm.rank,
                    at + sizeof mark - 1);
    else
        text_append(&path, "%s", pattern);
    enum status status =
        textfile_new(meter->dir, meter->snapshot->reader, path.data, &meter->textfile, err);
    text_done(&path);
    return status;
}

static enum status make(struct meter *meter, struct error *err)
{
    const struct config *config = &meter->job->config;
    enum status status = rundir_open(meter->job->run_dir, false, &meter->dir, err);
    if (status == STATUS_OK)
        status =
            metrics_file_create(meter->dir, (uint32_t)meter->job->comm.rank, &meter->page, err);
    if (status != STATUS_OK)
        return status;
    fill_constants(meter);
    if (*config->metrics_listen)
        status = start_scrape(meter, err);
    if (status == STATUS_OK && meter->scrape)
        status = write_target(meter, err);
    write_page(meter);
    if (status == STATUS_OK && *config->metrics_file)
        status = start_textfile(meter, err);
    if (status == STATUS_OK)
        status =
            overview_new(&meter->job->comm, meter->dir, meter->capacity, &meter->overview, err);
    return status;
}

enum status meter_new(const struct session *session, struct meter **ret_meter, struct error *err)
{
    uint32_t capacity = session->job->shape.trainers_served;
    struct meter *meter = calloc(1, sizeof *meter);
    struct waits_seen *seen = calloc(capacity, sizeof *seen);
    struct metrics_snapshot *snapshot = calloc(1, metrics_snapshot_bytes(capacity));
    if (!meter || !seen || !snapshot) {
        free(meter);
        free(seen);
        free(snapshot);
        return error_set(err, STATUS_NO_MEMORY, "no memory for metrics of %" PRIu32 " trainers",
                         capacity);
    }
    *meter = (struct meter){.job = session->job,
                            .session = session,
                            .dir = -1,
                            .page = -1,
                            .seen = seen,
                            .capacity = capacity,
                            .snapshot = snapshot};
    enum status status = make(meter, err);
    if (status != STATUS_OK) {
        meter_free(meter);
        return status;
    }
    *ret_meter = meter;
    return STATUS_OK;
}

const char *meter_address(const struct meter *meter)
{
    return meter->snapshot->listen;
}

/* Figures of a trainer that is there again go on from where they were. */
void meter_begin(struct meter *meter)
{
    const struct job *job = meter->job;
    struct metrics_snapshot *snapshot = meter->snapshot;
    uint32_t count = meter->session->trainer_count < meter->capacity ? meter->session->trainer_count
                                                                     : meter->capacity;
    struct metrics_trainer *old = calloc(meter->capacity, sizeof *old);
    uint32_t old_count = old ? snapshot->trainer_count : 0;
    for (uint32_t i = 0; i < old_count; i++)
        old[i] = snapshot->trainers[i];
    for (uint32_t i = 0; i < count; i++) {
        snapshot->trainers[i] = (struct metrics_trainer){.rank = meter->session->trainers[i].rank};
        for (uint32_t k = 0; k < old_count; k++)
            if (old[k].rank == meter->session->trainers[i].rank)
                snapshot->trainers[i] = old[k];
    }
    free(old);
    memset(meter->seen, 0, meter->capacity * sizeof meter->seen[0]);
    snapshot->trainer_count = count;
    snapshot->values.sessions++;
    snapshot->state = METRICS_SERVING;
    meter->session_start = job_cursor(job, meter->session->start_epoch, meter->session->start_step);
    overview_begin(meter->overview);
}

/* What the ring says now, less what it said before: its 32-bit numbers wrap around. */
static void add_trainer(struct meter *meter, uint32_t index)
{
    const struct job *job = meter->job;
    uint32_t peer = meter->session->trainers[index].peer;
    struct server_ring_view view = server_trainer_ring(job->server, peer);
    struct metrics_trainer *trainer = &meter->snapshot->trainers[index];
    struct waits_seen *seen = &meter->seen[index];
    trainer->connected =
        server_trainer_state(job->server, peer, NULL) == SERVER_PEER_CONNECTED ? 1 : 0;
    struct metrics_trainer_values *values = &trainer->values;
    for (int b = 0; b < METRICS_BUCKETS; b++) {
        uint32_t more = view.waits.buckets[b] - seen->buckets[b];
        trainer->wait_buckets[b] += more;
        values->batches += more;
    }
    values->wait += view.waits.wait_ns - seen->wait_ns;
    if (view.waits.released_ms > 0)
        values->released_ms = view.waits.released_ms;
    values->waiting = view.waiting;
    values->ready = view.ready_slots;
    values->held = view.leased_slots;
    values->slots = view.slots;
    *seen = view.waits;
}

/* All epochs of a run, those of earlier sessions included. */
static void add_epochs(const struct service_summary *summary, struct metrics_values *values)
{
    struct epoch_stats sum = {0};
    for (uint64_t i = 0; i < summary->epoch_count; i++)
        counters_add(&sum, &summary->epochs[i], sizeof sum);
#define SHOW_READ(name, member, ...)  values->member = sum.work.read.member;
#define SHOW_WORK(name, member, ...)  values->member = sum.work.member;
#define SHOW_EPOCH(name, member, ...) values->member = sum.member;
    COUNTER_TABLE(SHOW_READ, SHOW_WORK, SHOW_EPOCH, COUNTER_NONE)
    values->blocked_memory_ns = sum.blocked_ns[BLOCK_COPY];
    values->blocked_network_ns = sum.blocked_ns[BLOCK_EXCHANGE];
    values->blocked_transform_ns = sum.blocked_ns[BLOCK_TRANSFORM];
    values->blocked_trainers_ns = sum.blocked_ns[BLOCK_SLOTS];
    values->blocked_planning_ns = sum.blocked_ns[BLOCK_PLAN];
}

static uint64_t cached_rows(const struct job *job)
{
    struct stored_rows_stats stored = {0};
    if (job->stored)
        stored_rows_stats(job->stored, &stored);
    return stored.recorded_rows + row_store_kept_count(job->store);
}

static void take(struct meter *meter, struct books *books, struct tally *tally)
{
    const struct job *job = meter->job;
    struct metrics_values *values = &meter->snapshot->values;
    struct error last;
    books_update(books);
    tally_count(tally, books->published);
    add_epochs(books->summary, values);
    uint64_t steps = job->setup.service.steps_per_epoch;
    values->epoch = books->published / steps;
    values->step = books->published % steps;
    values->transform_ns = job->transform ? transform_spent_ns(job->transform) : 0;
    values->steps_published = meter->published_before + books->published - meter->session_start;
    values->trainers = meter->session->trainer_count;
    values->bad_samples = masks_samples(job->masks);
    values->store_retries = store_watch_retries(job->watch, &last);
    values->cached_rows = cached_rows(job);
    values->cpu_ns = clock_process_cpu_ns();
    for (uint32_t i = 0; i < meter->snapshot->trainer_count; i++)
        add_trainer(meter, i);
    series_add(&meter->series, books->now_ns, values);
    write_page(meter);
}

void meter_keep(struct meter *meter, struct books *books, struct tally *tally)
{
    overview_keep(meter->overview, books->now_ns, meter->snapshot);
    if (books->now_ns - meter->written_ns < period_ns)
        return;
    meter->written_ns = books->now_ns;
    take(meter, books, tally);
}

void meter_end(struct meter *meter, struct books *books, struct tally *tally)
{
    meter->snapshot->state = METRICS_GATHERING;
    take(meter, books, tally);
    overview_end(meter->overview, meter->snapshot);
    meter->published_before = meter->snapshot->values.steps_published;
}

const struct metrics_values *meter_values(const struct meter *meter)
{
    return &meter->snapshot->values;
}

const struct series *meter_series(const struct meter *meter)
{
    return &meter->series;
}

struct metrics_trainer meter_longest_wait(const struct meter *meter)
{
    struct metrics_trainer most = {0};
    for (uint32_t i = 0; i < meter->snapshot->trainer_count; i++)
        if (i == 0 || meter->snapshot->trainers[i].values.wait > most.values.wait)
            most = meter->snapshot->trainers[i];
    return most;
}

void meter_leave(struct meter *meter)
{
    if (meter)
        textfile_remove(meter->textfile);
}

void meter_free(struct meter *meter)
{
    if (!meter)
        return;
    scrape_free(meter->scrape);
    textfile_free(meter->textfile);
    overview_free(meter->overview);
    if (meter->page >= 0)
        close(meter->page);
    if (meter->dir >= 0)
        close(meter->dir);
    free(meter->seen);
    free(meter->snapshot);
    free(meter);
}
