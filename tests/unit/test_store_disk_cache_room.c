/* The disk cache's room: its limit, its lock, its table, and whose values go where room is short.
 */
#include "disk_cache_support.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_the_limit_holds(void **state)
{
    const struct fixture *fixture = *state;
    enum { LIMIT = 40 * 4096 };
    struct disk_cache *cache = open_cache(fixture, 7, LIMIT);
    put_value(cache, 1000, LIMIT); /* with its header it does not fit into an empty one */
    assert_int_equal(stats_of(cache).unwritten_count, 1);
    for (uint64_t i = 0; i < 60; i++)
        put_value(cache, i, 4000);
    look_at_disk(fixture);
    assert_int_equal(disk_bytes, LIMIT);
    assert_int_equal(stats_of(cache).used_bytes, LIMIT);
    assert_int_equal(stats_of(cache).written_count, 40);
    assert_int_equal(stats_of(cache).unwritten_count, 21);
    for (uint64_t i = 0; i < 60; i++)
        assert_int_equal(get_value(cache, i, 4000), i < 40);
    struct error warning;
    assert_false(disk_cache_take_warning(cache, &warning)); /* that is what the limit is for */
    disk_cache_free(cache);
}

/* The table's lock is taken once for many values: others may hold it meanwhile. */
static void test_the_lock_is_taken_once_for_many(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    char path[160];
    snprintf(path, sizeof path, "%s/table", fixture->path);
    int other = open(path, O_RDWR);
    assert_true(other >= 0);
    put_value(cache, 0, 4000);
    assert_int_equal(flock(other, LOCK_EX), 0);
    for (uint64_t i = 1; i < 64 && stats_of(cache).unwritten_count == 0; i++)
        put_value(cache, i, 4000);
    put_value(cache, 5, 4000); /* is there already, and takes no room */
    assert_int_equal(stats_of(cache).written_count, 64);
    assert_int_equal(flock(other, LOCK_UN), 0);
    put_value(cache, 64, 4000);
    assert_int_equal(stats_of(cache).written_count, 65);
    look_at_disk(fixture);
    assert_int_equal(stats_of(cache).used_bytes, disk_bytes);
    disk_cache_free(cache);
    close(other);
    cache = open_cache(fixture, 7, PLENTY);
    assert_int_equal(stats_of(cache).used_bytes, disk_bytes);
    disk_cache_free(cache);
}

/* Room that one process has reserved ahead is not missed by others, nor lost when it dies. */
static void test_room_ahead_of_others(void **state)
{
    const struct fixture *fixture = *state;
    enum { BLOCKS = 400, LIMIT = BLOCKS * 4096 };
    for (int dies = 0; dies < 2; dies++) {
        int ready[2], end[2];
        assert_int_equal(pipe(ready) | pipe(end), 0);
        pid_t child = fork();
        if (child == 0) {
            struct disk_cache *own = try_open(fixture, 7, LIMIT);
            char byte = 0;
            if (!own)
                _exit(1);
            put_value(own, 5000, 4000);
            if (write(ready[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 1)
                _exit(1);
            if (!dies)
                disk_cache_free(own);
            _exit(0);
        }
        char byte = 0;
        assert_int_equal(read(ready[0], &byte, 1), 1);
        struct disk_cache *cache = open_cache(fixture, 7, LIMIT);
        for (uint64_t i = 0; i < BLOCKS; i++)
            put_value(cache, i, 4000);
        look_at_disk(fixture);
        assert_in_range(disk_bytes, LIMIT - LIMIT / 16, LIMIT);
        disk_cache_free(cache);
        assert_int_equal(write(end[1], &byte, 1), 1);
        reap(child, false);
        look_at_disk(fixture);
        cache = open_cache(fixture, 7, LIMIT);
        assert_int_equal(stats_of(cache).used_bytes, disk_bytes);
        disk_cache_free(cache);
        for (int i = 0; i < 2; i++) {
            close(ready[i]);
            close(end[i]);
        }
        remove_tree(fixture->path);
    }
}

/* A dataset whose writers died with room ahead: it is counted anew before anything of it is
 * removed, where that was too little to be noticed when the dataset was opened. */
static void test_lost_room_is_found_when_room_is_short(void **state)
{
    const struct fixture *fixture = *state;
    enum { LIMIT = 400 * 4096 };
    pid_t child = fork();
    if (child == 0) {
        struct disk_cache *cache = try_open(fixture, 7, LIMIT);
        if (!cache)
            _exit(1);
        for (uint64_t i = 0; i < 2; i++)
            put_value(cache, i, 4000);
        _exit(0);
    }
    reap(child, false);
    struct disk_cache *cache = open_cache(fixture, 8, LIMIT);
    for (uint64_t i = 0; i < 398; i++)
        put_value(cache, i, 4000);
    assert_int_equal(stats_of(cache).written_count, 398);
    assert_int_equal(stats_of(cache).removed_count, 0);
    put_value(cache, 398, 4000);
    assert_int_equal(stats_of(cache).removed_count, 1);
    look_at_disk(fixture);
    assert_int_equal(disk_bytes, LIMIT);
    disk_cache_free(cache);
}

static void test_auto_limit(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, 0);
    uint64_t before = stats_of(cache).limit_bytes;
    assert_true(before > BIG_BYTES);
    put_value(cache, 1, 100);
    assert_true(get_value(cache, 1, 100));
    disk_cache_free(cache);
}

/* Room is made at the cost of the dataset that was not used for longest; never of one in use. */
static void test_unused_datasets_make_room(void **state)
{
    const struct fixture *fixture = *state;
    enum { LIMIT = 100 * 4096 };
    struct disk_cache *in_use = NULL;
    char path[160];
    for (uint64_t dataset = 1; dataset <= 3; dataset++) {
        struct disk_cache *cache = open_cache(fixture, dataset, LIMIT);
        for (uint64_t i = 0; i < 30; i++)
            put_value(cache, i, 4000);
        if (dataset == 1)
            in_use = cache;
        else
            disk_cache_free(cache);
    }
    assert_non_null(in_use);
    disk_cache_free(open_cache(fixture, 2, LIMIT)); /* now 3 is the one that was used before */
    struct disk_cache *cache = open_cache(fixture, 4, LIMIT);
    for (uint64_t i = 0; i < 25; i++)
        put_value(cache, i, 4000);
    assert_int_equal(stats_of(cache).written_count, 25);
    assert_int_equal(stats_of(cache).removed_count, 15);
    snprintf(path, sizeof path, "%s/0000000000000003", fixture->path);
    look_below(path);
    assert_int_equal(disk_values, 15);
    look_at_disk(fixture);
    assert_int_equal(disk_bytes, LIMIT);
    for (uint64_t i = 25; i < 100; i++)
        put_value(cache, i, 4000);
    assert_int_equal(stats_of(cache).written_count, 70);
    assert_int_equal(stats_of(cache).removed_count, 60);
    assert_int_equal(stats_of(cache).unwritten_count, 30);
    for (uint64_t i = 0; i < 30; i++)
        assert_true(get_value(in_use, i, 4000));
    look_at_disk(fixture);
    assert_int_equal(disk_bytes, LIMIT);
    snprintf(path, sizeof path, "%s/0000000000000002", fixture->path);
    assert_int_equal(access(path, F_OK), -1);
    disk_cache_free(cache);
    disk_cache_free(in_use);
}

/* Sums are made anew where the table is damaged, or folders were removed. */
static void test_the_table_is_repaired(void **state)
{
    const struct fixture *fixture = *state;
    char path[160];
    for (int round = 0; round < 4; round++) {
        for (uint64_t dataset = 1; dataset <= 2; dataset++) {
            struct disk_cache *cache = open_cache(fixture, dataset, PLENTY);
            for (uint64_t i = 0; i < 10; i++)
                put_value(cache, i, 5000);
            disk_cache_free(cache);
        }
        look_at_disk(fixture);
        assert_int_equal(disk_bytes, 2 * 10 * 8192);
        snprintf(path, sizeof path, "%s/table", fixture->path);
        int fd = open(path, O_RDWR);
        assert_true(fd >= 0);
        if (round > 0 && round < 3) /* sums that are not right */
            assert_int_equal(pwrite(fd, "12345678123456781234567812345678", 32, 24), 32);
        if (round == 0)
            assert_int_equal(ftruncate(fd, 1000), 0);
        else if (round == 1)
            assert_int_equal(pwrite(fd, "what", 4, 0), 4); /* the magic */
        else if (round == 2)
            assert_int_equal(pwrite(fd, "what", 4, 8), 4); /* the boot */
        close(fd);
        if (round == 3) {
            snprintf(path, sizeof path, "%s/0000000000000002", fixture->path);
            remove_tree(path);
        }
        struct disk_cache *cache = open_cache(fixture, 1, PLENTY);
        look_at_disk(fixture);
        assert_int_equal(disk_bytes, round == 3 ? 81920 : 163840);
        assert_int_equal(stats_of(cache).used_bytes, disk_bytes);
        disk_cache_free(cache);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_limit_holds),
        TEST(test_the_lock_is_taken_once_for_many),
        TEST(test_room_ahead_of_others),
        TEST(test_lost_room_is_found_when_room_is_short),
        TEST(test_auto_limit),
        TEST(test_unused_datasets_make_room),
        TEST(test_the_table_is_repaired),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
