/* The books and the tally of a session: what is read and sent counts in the epoch that it is for,
 * and so do samples, however many epochs there are. An epoch of the report lasts as long as its
 * slowest reader. Windows, rounds, the pool, trainers and MPI are made up. */
#include "account/books.h"

#include "account/tally.h"
#include "store/cache/disk_cache.h"
#include "store/kind/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { EPOCHS = 3, STEPS = 10, RECORD_BYTES = 48, SAMPLES = 4 };

/* What the session does, as the books ask for it. */
static struct {
    uint64_t epoch, step;               /* of the oldest round */
    uint64_t rows_read[EPOCHS + 2];     /* and not taken */
    uint64_t moved_samples[EPOCHS + 2]; /* likewise */
} session;

static uint64_t take(uint64_t *numbers, uint64_t epoch)
{
    assert_true(epoch < EPOCHS + 2);
    uint64_t number = numbers[epoch];
    numbers[epoch] = 0;
    return number;
}

struct rounds_sent rounds_take_sent(struct rounds *rounds, uint64_t epoch)
{
    (void)rounds;
    uint64_t records = take(session.moved_samples, epoch);
    return (struct rounds_sent){records, records * RECORD_BYTES, 0};
}

enum round_block rounds_blocked(const struct rounds *rounds, uint64_t *ret_epoch,
                                uint64_t *ret_step)
{
    (void)rounds;
    *ret_epoch = session.epoch;
    *ret_step = session.step;
    return BLOCK_NONE;
}

void rounds_end(const struct rounds *rounds, uint64_t *ret_epoch, uint64_t *ret_step)
{
    (void)rounds_blocked(rounds, ret_epoch, ret_step);
}

struct rounds_times rounds_times(const struct rounds *rounds)
{
    (void)rounds;
    return (struct rounds_times){0};
}

struct window_counts windows_take_counts(struct windows *windows, uint64_t epoch)
{
    (void)windows;
    return (struct window_counts){.rows_read = take(session.rows_read, epoch)};
}

size_t windows_capacity(const struct windows *windows)
{
    (void)windows;
    return 1;
}

void pool_stats(const struct pool *pool, struct pool_stats *ret_stats)
{
    (void)pool;
    *ret_stats = (struct pool_stats){0};
}

bool pool_is_reading(const struct pool *pool)
{
    (void)pool;
    return false;
}

const struct dataset *dataset_source(const struct dataset *dataset, uint32_t source)
{
    (void)source;
    return dataset;
}

struct disk_cache *dataset_disk_cache(const struct dataset *dataset)
{
    (void)dataset;
    return NULL;
}

bool disk_cache_take_warning(struct disk_cache *cache, struct error *ret_warning)
{
    (void)cache, (void)ret_warning;
    return false;
}

bool store_watch_oldest(struct store_watch *watch, struct store_watch_call *ret_call)
{
    (void)watch, (void)ret_call;
    return false;
}

enum { MOST_TRAINERS = 8 };
static uint64_t trainers[MOST_TRAINERS]; /* their cursors */

uint64_t server_trainer_cursor(const struct server *server, uint32_t trainer)
{
    (void)server;
    return trainers[trainer];
}

uint64_t server_trainer_seen(const struct server *server, uint32_t trainer)
{
    return server_trainer_cursor(server, trainer);
}

enum server_peer server_trainer_state(const struct server *server, uint32_t trainer,
                                      struct error *ret_error)
{
    (void)server, (void)trainer, (void)ret_error;
    return SERVER_PEER_CONNECTED;
}

uint32_t server_trainer_rank(const struct server *server, uint32_t trainer)
{
    (void)server;
    return trainer;
}

void server_trainer_goodbye(const struct server *server, uint32_t trainer, uint64_t *ret_epoch,
                            uint64_t *ret_step)
{
    (void)server, (void)trainer;
    *ret_epoch = *ret_step = 0;
}

struct plan_local_batch plan_local_batch_at(const struct plan *plan, uint64_t step, uint32_t rank)
{
    (void)plan, (void)step, (void)rank;
    return (struct plan_local_batch){.count = SAMPLES};
}

uint64_t plan_mix_cut_before(const struct plan *plan, uint64_t absolute_step)
{
    (void)plan;
    fail_msg("steps are equal here");
    return absolute_step;
}

/* There is one rank, which has its own sums. */
int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation,
                   MPI_Comm comm, MPI_Request *request)
{
    (void)from, (void)to, (void)count, (void)type, (void)operation, (void)comm, (void)request;
    return MPI_SUCCESS;
}

int MPI_Ireduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op operation,
                int root, MPI_Comm comm, MPI_Request *request)
{
    (void)root;
    return MPI_Iallreduce(from, to, count, type, operation, comm, request);
}

bool comm_test(const struct comm *comm, MPI_Request *request)
{
    (void)comm, (void)request;
    return true;
}

void comm_wait(const struct comm *comm, MPI_Request *request)
{
    (void)comm, (void)request;
}

void comm_heed_signals(const struct comm *comm)
{
    (void)comm;
}

void comm_back_off(unsigned *idle)
{
    ++*idle;
}

/* A session of rank 1 from epoch 0 on. */
struct scene {
    struct job job;
    struct session session;
    struct dataset dataset;
    struct service_summary summary;
    struct books books;
};

static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    memset(&session, 0, sizeof session);
    scene->session.job = &scene->job;
    scene->job.comm.rank = 1;
    scene->job.dataset = &scene->dataset;
    scene->job.setup.service = (struct ring_service){.steps_per_epoch = STEPS, .epochs = EPOCHS};
    books_open(&scene->books, &scene->session, NULL, NULL, &scene->summary, true);
}

/* The oldest round is this step's now. */
static void go_to(struct scene *scene, uint64_t epoch, uint64_t step)
{
    session.epoch = epoch;
    session.step = step;
    books_keep(&scene->books);
}

static void assert_counted(const struct scene *scene, uint64_t epoch, uint64_t rows,
                           uint64_t records)
{
    const struct epoch_stats *stats = &scene->summary.epochs[epoch];
    assert_int_equal(stats->rows_read, rows);
    assert_int_equal(stats->sent_bytes, records * RECORD_BYTES);
    assert_int_equal(stats->moved_samples, records);
}

/* Rows are read ahead for the next epoch, which the run does not come to the end of. */
static void work_counts_in_its_epoch(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    session.rows_read[0] = 4;
    session.rows_read[1] = 2;
    session.moved_samples[0] = 7;
    go_to(&scene, 1, 0);
    assert_counted(&scene, 0, 4, 7);
    session.moved_samples[1] = 5;
    go_to(&scene, 1, 4);
    books_update(&scene.books); /* as for metrics, within the epoch */
    assert_counted(&scene, 1, 2, 5);
    session.rows_read[1] = session.rows_read[2] = 3;
    session.moved_samples[1] = 1;
    books_break_off(&scene.books);
    assert_counted(&scene, 0, 4, 7);
    assert_counted(&scene, 1, 5, 6);
    assert_counted(&scene, 2, 3, 0);
    books_close(&scene.books);
}

/* Two trainers of rank 0, in an endless run: the second is `ahead` epochs ahead. The epochs that
 * are told, each once and in order. */
static uint64_t tell_all(struct scene *scene, struct tally *tally, uint64_t to, uint64_t ahead)
{
    uint64_t next = 0, epoch, samples;
    for (uint64_t cursor = 0; cursor <= to * STEPS + 1; cursor++) {
        trainers[0] = cursor;
        trainers[1] = cursor + ahead * STEPS;
        while (tally_progress(tally, UINT64_MAX / 2, &epoch, &samples)) {
            assert_int_equal(epoch, next++);
            assert_int_equal(samples, 2 * STEPS * SAMPLES);
            books_announce(&scene->books, epoch, samples);
        }
    }
    return next;
}

/* Each epoch's line has that epoch's samples, also behind the last entry of the report, where
 * trainers are ahead of what was told, and where they begin anew. */
static void every_epoch_has_its_own_samples(void **state)
{
    (void)state;
    static struct scene scene;
    static uint64_t given[2];
    static const struct job_trainer ranks[2] = {{.rank = 0}, {.rank = 1, .peer = 1}};
    struct tally *tally;
    struct error err;
    open_scene(&scene);
    scene.job.comm.rank = 0;
    scene.job.config.trainers = scene.session.trainer_count = 2;
    scene.session.trainers = (struct job_trainer *)ranks;
    scene.session.given = given;
    scene.session.session_count = 1;
    scene.job.setup.plan.sample_count = 2 * STEPS * SAMPLES;
    for (int times = 0; times < 2; times++) {
        trainers[0] = trainers[1] = 0;
        books_forget_recent(&scene.summary); /* what was not told */
        assert_int_equal(tally_new(&scene.session, &scene.summary, &tally, &err), STATUS_OK);
        tally_begin(tally, false);
        assert_int_equal(tell_all(&scene, tally, 600, 3), 600);
        tally_free(tally);
        books_recent(&scene.summary, 0)->samples += 7;
    }
    assert_int_equal(scene.summary.epoch_count, SERVICE_MAX_EPOCH_STATS);
    books_close(&scene.books);
}

/* By a budget an epoch of 18 samples in 10 steps, for 8 trainers, so that most get none at most
 * steps: counts never fall, and come to what there is. */
static void batches_by_budget_add_up(void **state)
{
    (void)state;
    static struct scene scene;
    static uint64_t given[MOST_TRAINERS];
    static struct job_trainer ranks[MOST_TRAINERS];
    struct tally *tally;
    struct error err;
    uint64_t before = 0;
    open_scene(&scene);
    for (uint32_t t = 0; t < MOST_TRAINERS; t++)
        ranks[t] = (struct job_trainer){.rank = t, .peer = t};
    scene.job.config.trainers = scene.session.trainer_count = MOST_TRAINERS;
    scene.session.trainers = ranks;
    scene.session.given = given;
    scene.job.setup.plan = (struct plan){.sample_count = 18,
                                         .steps_per_epoch = STEPS,
                                         .trainer_count = MOST_TRAINERS,
                                         .cuts = {.items = 1}};
    assert_int_equal(tally_new(&scene.session, &scene.summary, &tally, &err), STATUS_OK);
    for (uint64_t cursor = 1; cursor <= STEPS; cursor++)
        for (uint32_t t = 0; t < MOST_TRAINERS; t++) {
            trainers[t] = cursor;
            tally_count(tally, UINT64_MAX / 2);
            uint64_t counted = books_epoch(&scene.summary, 0)->samples;
            assert_true(counted >= before);
            before = counted;
        }
    assert_int_equal(before, 18);
    tally_free(tally);
    books_close(&scene.books);
}

/* As long as one epoch's time is told, the others' is not in it. */
static void every_epoch_has_its_own_time(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    for (uint64_t epoch = 0; epoch < 600; epoch++) {
        scene.books.now_ns = scene.books.epoch_start_ns; /* none since the epoch began */
        books_recent(&scene.summary, epoch)->duration_ns += 10 + epoch;
        assert_int_equal(books_recent(&scene.summary, epoch)->duration_ns, 10 + epoch);
        books_announce(&scene.books, epoch, 1);
        assert_int_equal(books_recent(&scene.summary, epoch)->duration_ns, 0);
    }
    books_close(&scene.books);
}

/* The second reader is late with the first epoch, and the first one waits for the second in the
 * next one. */
static void an_epoch_lasts_until_its_last_reader_has_ended_it(void **state)
{
    (void)state;
    const uint64_t durations_ns[2][EPOCHS] = {{10, 25, 5}, {30, 5, 10}};
    struct epoch_stats epochs[2][EPOCHS] = {0};
    for (size_t r = 0; r < 2; r++)
        for (size_t i = 0; i < EPOCHS; i++)
            epochs[r][i].duration_ns = durations_ns[r][i];
    uint64_t found_ns[EPOCHS] = {1, 2, 3};
    books_durations(epochs[0], 2, EPOCHS, found_ns);
    assert_int_equal(found_ns[0], 30);
    assert_int_equal(found_ns[1], 5);
    assert_int_equal(found_ns[2], 10);
    books_durations(epochs[0], 1, EPOCHS, found_ns);
    assert_memory_equal(found_ns, durations_ns[0], sizeof found_ns);
    books_durations(epochs[0], 0, 0, found_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_counts_in_its_epoch),
        cmocka_unit_test(every_epoch_has_its_own_samples),
        cmocka_unit_test(batches_by_budget_add_up),
        cmocka_unit_test(every_epoch_has_its_own_time),
        cmocka_unit_test(an_epoch_lasts_until_its_last_reader_has_ended_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
