/* See books.h. */
#include "account/books.h"

#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "job/job_internal.h"
#include "store/cache/disk_cache.h"
#include "store/kind/watch.h"

#include <stdio.h>
#include <string.h>

/* The progress line goes on to another epoch, of which `step` steps are published. */
static void show_epoch(struct books *books, uint64_t epoch, uint64_t step)
{
    const struct ring_service *span = &books->job->setup.service;
    books->progress_epoch = epoch;
    if (books->job->config.epochs == 0)
        snprintf(books->progress_label, sizeof books->progress_label, "epoch %llu",
                 (unsigned long long)epoch);
    else
        snprintf(books->progress_label, sizeof books->progress_label, "epoch %llu of %llu",
                 (unsigned long long)epoch, (unsigned long long)span->epochs);
    progress_part(&books->progress, books->progress_label, step, span->steps_per_epoch);
}

void books_open(struct books *books, const struct session *session, struct windows *windows,
                struct rounds *rounds, struct service_summary *summary, bool quiet)
{
    const struct job *job = session->job;
    uint64_t now_ns = clock_now_ns();
    *books = (struct books){.job = job,
                            .session = session,
                            .windows = windows,
                            .rounds = rounds,
                            .summary = summary,
                            .now_ns = now_ns,
                            .published = job_cursor(job, session->start_epoch, session->start_step),
                            .epoch = session->start_epoch,
                            .epoch_start_ns = now_ns,
                            .epoch_cpu_ns = clock_process_cpu_ns(),
                            .show_progress = job->comm.rank == 0 && !quiet};
    if (summary->session_count++ == 0)
        summary->first_epoch = session->start_epoch;
    progress_init(&books->progress, "", "steps", 0);
    show_epoch(books, session->start_epoch, session->start_step);
}

struct epoch_stats *books_epoch(struct service_summary *summary, uint64_t epoch)
{
    uint64_t index = epoch > summary->first_epoch ? epoch - summary->first_epoch : 0;
    if (index >= SERVICE_MAX_EPOCH_STATS)
        index = SERVICE_MAX_EPOCH_STATS - 1;
    if (index >= summary->epoch_count)
        summary->epoch_count = index + 1;
    return &summary->epochs[index];
}

struct recent_epoch *books_recent(struct service_summary *summary, uint64_t epoch)
{
    struct recent_epoch *recent = &summary->recent[epoch % BOOKS_RECENT_EPOCHS];
    if (recent->epoch != epoch)
        *recent = (struct recent_epoch){.epoch = epoch};
    return recent;
}

void books_forget_recent(struct service_summary *summary)
{
    memset(summary->recent, 0, sizeof summary->recent);
}

static struct epoch_stats *stats_of(struct books *books, uint64_t epoch)
{
    return books_epoch(books->summary, epoch);
}

void books_announce(struct books *books, uint64_t epoch, uint64_t samples)
{
    struct recent_epoch *recent = books_recent(books->summary, epoch);
    double elapsed = (double)recent->duration_ns / 1e9;
    recent->duration_ns = 0;
    if (!books->show_progress || samples == 0) /* of epochs behind which all have left: none */
        return;
    progress_done(&books->progress);
    const char *also = books->job->also;
    fprintf(stderr, "%s%s%sepoch %llu delivered: %s sample%s in %.2f s%s\n", also ? "run '" : "",
            also ? also : "", also ? "': " : "", (unsigned long long)epoch,
            count_format(samples).text, count_plural(samples), elapsed,
            rate_format_count(samples, "samples", elapsed).text);
}

/* What the disk cache has to tell, as soon as an epoch has ended. */
static void tell_warnings(const struct job *job)
{
    uint32_t count = job->dataset->source_count > 0 ? job->dataset->source_count : 1;
    for (uint32_t d = 0; d < count; d++) {
        struct disk_cache *cache = dataset_disk_cache(dataset_source(job->dataset, d));
        struct error warning;
        while (cache && disk_cache_take_warning(cache, &warning))
            fprintf(stderr, "penstock-reader: warning: reader %d on %s: %s\n", job->comm.rank,
                    job->comm.node_name, warning.message);
    }
}

void books_durations(const struct epoch_stats *epochs, uint64_t readers, uint64_t count,
                     uint64_t *ret_durations_ns)
{
    memset(ret_durations_ns, 0, count * sizeof *ret_durations_ns);
    for (uint64_t r = 0; r < readers; r++) {
        uint64_t end_ns = 0;
        for (uint64_t i = 0; i < count; i++) {
            end_ns += epochs[r * count + i].duration_ns;
            ret_durations_ns[i] = max_u64(ret_durations_ns[i], end_ns);
        }
    }
    for (uint64_t i = count; i > 1; i--)
        ret_durations_ns[i - 1] -= ret_durations_ns[i - 2];
}

/* Whether workers are held up by a call to the store. */
static bool store_is_slow(const struct job *job)
{
    const uint64_t slow_ns = 100000000;
    struct store_watch_call call;
    return store_watch_oldest(job->watch, &call) && call.age_ns > slow_ns;
}

/* Divides the time that rounds have waited for rows: see books_update(). */
static void divide_rows_wait(struct books *books, struct epoch_stats *stats, uint64_t read_ns,
                             uint64_t decode_ns)
{
    uint64_t wait_ns = books->rows_wait_ns;
    if (wait_ns == 0)
        return;
    if (read_ns + decode_ns == 0 && !store_is_slow(books->job))
        return;
    double share = read_ns + decode_ns ? (double)read_ns / (double)(read_ns + decode_ns) : 1;
    uint64_t storage_ns = (uint64_t)(share * (double)wait_ns);
    stats->blocked_storage_ns += storage_ns;
    stats->blocked_decode_ns += wait_ns - storage_ns;
    books->rows_wait_ns = 0;
}

/* Closes the books of the epoch under way and opens the next one's. */
static void turn_epoch(struct books *books, uint64_t next_epoch)
{
    const struct job *job = books->job;
    struct epoch_stats *stats = stats_of(books, books->epoch);
    struct pool_stats pool, work;
    pool_stats(job->pool, &pool);
    work = pool;
    counters_subtract(&work, &books->summary->counted, sizeof work);
    struct rounds_times times = rounds_times(books->rounds);
    uint64_t cpu_ns = clock_process_cpu_ns();
    uint64_t passed_ns = books->now_ns - books->epoch_start_ns;
    stats->duration_ns += passed_ns;
    books_recent(books->summary, books->epoch)->duration_ns += passed_ns;
    struct window_counts counts = windows_take_counts(books->windows, books->epoch);
    stats->rows_read += counts.rows_read;
    stats->foreseen_samples += counts.exchanged_samples;
    counters_add(&stats->work, &work, sizeof work);
    divide_rows_wait(books, stats, work.read.read_ns, work.read.decode_ns);
    stats->plan_ns += times.plan_ns - books->epoch_times.plan_ns;
    stats->fill_ns += times.fill_ns - books->epoch_times.fill_ns;
    stats->scatter_ns += times.scatter_ns - books->epoch_times.scatter_ns;
    stats->exchange_ns += times.exchange_ns - books->epoch_times.exchange_ns;
    stats->cpu_ns += cpu_ns - books->epoch_cpu_ns;
    struct rounds_sent sent = rounds_take_sent(books->rounds, books->epoch);
    stats->moved_samples += sent.records;
    stats->sent_bytes += sent.bytes;
    stats->further_passes += sent.further_passes;
    tell_warnings(job);
    books->epoch = next_epoch;
    books->epoch_start_ns = books->now_ns;
    books->epoch_cpu_ns = cpu_ns;
    books->summary->counted = pool;
    books->epoch_times = times;
}

/* Tells a supervisor, which reads our standard output, that the session's first batch is there. */
static void say_serving(struct books *books, uint64_t epoch, uint64_t step)
{
    const struct job *job = books->job;
    const struct session *session = books->session;
    if (!job_tells_supervisor(job) || job->comm.rank != 0 || books->said_serving ||
        (epoch == session->start_epoch && step == session->start_step))
        return;
    books->said_serving = true;
    printf("serving epoch %llu step %llu\n", (unsigned long long)session->start_epoch,
           (unsigned long long)session->start_step);
    fflush(stdout);
}

void books_update(struct books *books)
{
    if (!books->finished)
        turn_epoch(books, books->epoch);
}

/* Adds to what the oldest round waits for. */
static void count_wait(struct books *books, enum round_block block, uint64_t passed_ns)
{
    const struct job *job = books->job;
    struct epoch_stats *stats = stats_of(books, books->epoch);
    stats->blocked_ns[block] += passed_ns;
    if (block != BLOCK_ROWS)
        return;
    if (job->fetches && !pool_is_reading(job->pool))
        stats->blocked_storage_ns += passed_ns;
    else
        books->rows_wait_ns += passed_ns;
}

void books_keep(struct books *books)
{
    uint64_t now = clock_now_ns();
    uint64_t epoch = 0, step = 0;
    uint64_t passed_ns = now - books->now_ns;
    books->now_ns = now;
    if (books->finished)
        return;
    enum round_block block = rounds_blocked(books->rounds, &epoch, &step);
    count_wait(books, block, passed_ns);
    say_serving(books, epoch, step);
    while (books->epoch < epoch)
        turn_epoch(books, books->epoch + 1);
    books->published = job_cursor(books->job, epoch, step);
    if (!books->show_progress || books->job->also) /* a terminal has room for one line */
        return;
    if (epoch != books->progress_epoch)
        show_epoch(books, epoch, 0);
    progress_update(&books->progress, step,
                    (step - books->progress.first) * plan_mean_samples(&books->job->setup.plan) *
                        dataset_sample_bytes_in(job_whole(books->job), epoch));
}

void books_finish(struct books *books)
{
    uint64_t epoch, step;
    rounds_end(books->rounds, &epoch, &step);
    books->finished = true;
    while (books->epoch < epoch)
        turn_epoch(books, books->epoch + 1);
    if (step > 0)
        turn_epoch(books, epoch + 1);
    books->published = job_cursor(books->job, epoch, step);
}

void books_break_off(struct books *books)
{
    if (books->finished)
        return;
    books_keep(books);
    turn_epoch(books, books->epoch);
    for (uint64_t i = 1; i <= windows_capacity(books->windows); i++) {
        uint64_t rows = windows_take_counts(books->windows, books->epoch + i).rows_read;
        if (rows > 0)
            stats_of(books, books->epoch + i)->rows_read += rows;
    }
}

void books_count_turn(struct books *books, uint64_t duration_ns)
{
    static const uint64_t most_ns[BOOKS_TURN_BINS - 1] = {100000, 300000, 1000000, 3000000,
                                                          10000000};
    int bin = 0;
    while (bin < BOOKS_TURN_BINS - 1 && duration_ns > most_ns[bin])
        bin++;
    stats_of(books, books->epoch - books->finished)->turns[bin]++;
}

void books_count_stall(struct books *books)
{
    stats_of(books, books->epoch - books->finished)->stall_count++;
}

void books_close(struct books *books)
{
    progress_done(&books->progress);
}
