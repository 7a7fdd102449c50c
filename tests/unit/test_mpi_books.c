/* The books of a session: a reader's rows that are sent as stored count in the epoch they are for,
 * also when the reader sends them late. Windows, rounds and the pool are made up. */
#include "books.h"

#include "store/disk_cache.h"
#include "store/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { EPOCHS = 3, STEPS = 10, RECORD_BYTES = 48 };

/* What the session does, as the books ask for it. */
static struct {
    uint64_t epoch, step;               /* of the oldest round */
    uint64_t tape_bytes[EPOCHS + 2];    /* sent, and not taken */
    uint64_t moved_samples[EPOCHS + 2]; /* likewise */
} session;

static uint64_t take(uint64_t *numbers, uint64_t epoch)
{
    assert_true(epoch < EPOCHS + 2);
    uint64_t number = numbers[epoch];
    numbers[epoch] = 0;
    return number;
}

uint64_t windows_take_tape_bytes(struct windows *windows, uint64_t epoch)
{
    (void)windows;
    return take(session.tape_bytes, epoch);
}

struct rounds_sent rounds_take_sent(struct rounds *rounds, uint64_t epoch)
{
    (void)rounds;
    uint64_t records = take(session.moved_samples, epoch);
    return (struct rounds_sent){records, records * RECORD_BYTES};
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

struct window_ways windows_take_ways(struct windows *windows, uint64_t epoch)
{
    (void)windows, (void)epoch;
    return (struct window_ways){0};
}

uint64_t windows_take_rows_read(struct windows *windows, uint64_t epoch)
{
    (void)windows, (void)epoch;
    return 0;
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

/* A session of rank 1 from epoch 0 on. */
struct scene {
    struct job job;
    struct dataset dataset;
    struct service_summary summary;
    struct books books;
};

static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    memset(&session, 0, sizeof session);
    scene->job.comm.rank = 1;
    scene->job.dataset = &scene->dataset;
    scene->job.setup.service = (struct ring_service){.steps_per_epoch = STEPS, .epochs = EPOCHS};
    books_open(&scene->books, &scene->job, NULL, NULL, &scene->summary, true);
}

/* The oldest round is this step's now. */
static void go_to(struct scene *scene, uint64_t epoch, uint64_t step)
{
    session.epoch = epoch;
    session.step = step;
    books_keep(&scene->books);
}

static void assert_sent(const struct scene *scene, uint64_t epoch, uint64_t tapes, uint64_t records)
{
    const struct epoch_stats *stats = &scene->summary.epochs[epoch];
    assert_int_equal(stats->tape_bytes, tapes);
    assert_int_equal(stats->sent_bytes, tapes + records * RECORD_BYTES);
    assert_int_equal(stats->moved_samples, records);
}

/* Others wait for a row longer than this reader for its own: it is in the next epoch by then. */
static void a_tape_of_the_epoch_before_counts_there(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    session.tape_bytes[0] = 100;
    session.moved_samples[0] = 7;
    go_to(&scene, 1, 0);
    assert_sent(&scene, 0, 100, 7);
    session.tape_bytes[0] = 20;
    session.tape_bytes[1] = 3;
    session.moved_samples[1] = 5;
    go_to(&scene, 1, 4);
    books_update(&scene.books); /* as for metrics, within the epoch */
    assert_sent(&scene, 0, 120, 7);
    assert_sent(&scene, 1, 3, 5);
    session.tape_bytes[0] = 1;
    session.tape_bytes[1] = 4;
    go_to(&scene, 2, 0);
    assert_sent(&scene, 0, 121, 7);
    assert_sent(&scene, 1, 7, 5);
    assert_sent(&scene, 2, 0, 0);
    books_close(&scene.books);
}

/* The last epoch is over for this reader, and its books are closed. */
static void a_tape_after_the_last_epoch_counts(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    go_to(&scene, EPOCHS - 1, 0);
    session.tape_bytes[EPOCHS - 1] = 100;
    go_to(&scene, EPOCHS, 0);
    books_finish(&scene.books);
    assert_sent(&scene, EPOCHS - 1, 100, 0);
    session.tape_bytes[EPOCHS - 1] = 11;
    books_update(&scene.books);
    books_keep(&scene.books);
    books_close(&scene.books);
    assert_sent(&scene, EPOCHS - 1, 111, 0);
    assert_int_equal(scene.summary.epoch_count, EPOCHS);
    for (int i = 0; i < EPOCHS + 2; i++)
        assert_int_equal(session.tape_bytes[i], 0);
}

/* The run ends within an epoch, and a row is sent while readers settle how it ends. */
static void a_tape_at_an_early_end_counts(void **state)
{
    (void)state;
    static struct scene scene;
    open_scene(&scene);
    go_to(&scene, 1, 3);
    session.tape_bytes[0] = 5;
    session.tape_bytes[1] = 50;
    books_break_off(&scene.books);
    assert_sent(&scene, 0, 5, 0);
    assert_sent(&scene, 1, 50, 0);
    session.tape_bytes[1] = 6;
    books_close(&scene.books);
    assert_sent(&scene, 1, 56, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tape_of_the_epoch_before_counts_there),
        cmocka_unit_test(a_tape_after_the_last_epoch_counts),
        cmocka_unit_test(a_tape_at_an_early_end_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
