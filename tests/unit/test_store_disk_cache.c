/* The disk cache: what is written is read again or not at all, whatever happens to the files, to
 * writers and to room. Runs in a temporary folder; other processes are forked ones. */
#include "disk_cache_support.h"

#include "base/clock.h"
#include "base/random.h"

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

static void test_values_come_back(void **state)
{
    const struct fixture *fixture = *state;
    static const size_t sizes[] = {0, 1, 4031, 4032, 4033, BIG_BYTES};
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_false(get_value(cache, i, sizes[i]));
    for (int again = 0; again < 2; again++)
        for (uint64_t i = 0; i < COUNT; i++)
            put_value(cache, i, sizes[i]);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(get_value(cache, i, sizes[i]));
    struct disk_cache_stats stats = stats_of(cache);
    assert_int_equal(stats.hit_count, COUNT);
    assert_int_equal(stats.written_count, COUNT);
    assert_int_equal(stats.unwritten_count, 0);
    assert_int_equal(stats.corrupt_count, 0);
    disk_cache_free(cache);
    look_at_disk(fixture);
    assert_int_equal(disk_values, COUNT);
    assert_int_equal(disk_partial, 0);

    struct disk_cache *later = open_cache(fixture, 7, PLENTY),
                      *other = open_cache(fixture, 8, PLENTY);
    assert_int_equal(stats_of(later).used_bytes, disk_bytes);
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_true(get_value(later, i, sizes[i]));
        assert_false(get_value(other, i, sizes[i]));
    }
    disk_cache_free(later);
    disk_cache_free(other);
}

static void test_a_value_longer_than_expected(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    char buffer[101] = {0};
    size_t size = 99;
    put_value(cache, 1, 100);
    buffer[99] = 'x';
    assert_false(disk_cache_get(cache, "a/c/1", buffer, 99, &size));
    assert_int_equal(buffer[99], 'x');
    assert_int_equal(size, 99);
    assert_true(get_value(cache, 1, 100));
    assert_int_equal(stats_of(cache).corrupt_count, 0);
    disk_cache_free(cache);
}

static void test_it_is_private(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    struct stat info;
    put_value(cache, 1, 100);
    assert_int_equal(stat(fixture->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(stat(value_path(fixture, 0), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    disk_cache_free(cache);
}

static void test_directories_that_are_refused(void **state)
{
    const struct fixture *fixture = *state;
    char path[160], target[192];
    snprintf(path, sizeof path, "%s/none/below", fixture->root);
    refuse(path, STATUS_IO, "No such file or directory");
    snprintf(path, sizeof path, "%s/file", fixture->root);
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    refuse(path, STATUS_REFUSED, "not a directory");
    snprintf(target, sizeof target, "%s/target", fixture->root);
    snprintf(path, sizeof path, "%s/link", fixture->root);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink("target", path), 0);
    refuse(path, STATUS_REFUSED, "symbolic link");
    snprintf(path, sizeof path, "%s/open", fixture->root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0770), 0);
    refuse(path, STATUS_REFUSED, "others may write to it (mode 0770)");
    assert_int_equal(chmod(path, 0500), 0);
    if (geteuid() != 0) {
        refuse(path, STATUS_IO, "Permission denied");
    } else {
        assert_int_equal(chmod(path, 0700), 0);
        assert_int_equal(chown(path, 65534, 65534), 0);
        refuse(path, STATUS_REFUSED, "it belongs to user 65534");
    }
    refuse("/proc/self/penstock", STATUS_IO, "No such file or directory");
    snprintf(path, sizeof path, "%s/inside", fixture->root);
    snprintf(target, sizeof target, "%s/partial", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink("/tmp", target), 0);
    refuse(path, STATUS_REFUSED, "symbolic link");
}

/* Whatever is done to the file of a value: it is not used, and made anew. */
enum damage {
    FLIP_HEADER,
    FLIP_LENGTH,
    FLIP_BYTE,
    CUT_HEADER,
    CUT_BYTES,
    CUT_ALL,
    ZERO,
    APPEND,
    DAMAGES
};

static void damage_file(const char *path, enum damage damage)
{
    static const off_t flips[] = {[FLIP_HEADER] = 5, [FLIP_LENGTH] = 32, [FLIP_BYTE] = 64 + 2999};
    static const off_t cuts[] = {[CUT_HEADER] = 40, [CUT_BYTES] = 64 + 2999, [CUT_ALL] = 0};
    int fd = open(path, O_RDWR);
    struct stat info;
    char byte = 0;
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    if (damage <= FLIP_BYTE) {
        assert_int_equal(pread(fd, &byte, 1, flips[damage]), 1);
        byte ^= 1;
        assert_int_equal(pwrite(fd, &byte, 1, flips[damage]), 1);
    } else if (damage <= CUT_ALL) {
        assert_int_equal(ftruncate(fd, cuts[damage]), 0);
    } else if (damage == ZERO) { /* as after a crash of the machine */
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(ftruncate(fd, info.st_size), 0);
    } else {
        assert_int_equal(pwrite(fd, &byte, 1, info.st_size), 1);
    }
    assert_int_equal(close(fd), 0);
}

static void test_damaged_values_are_read_again(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    struct error warning;
    for (enum damage damage = 0; damage < DAMAGES; damage++) {
        put_value(cache, 1, 3000);
        assert_true(get_value(cache, 1, 3000));
        damage_file(value_path(fixture, 0), damage);
        assert_false(get_value(cache, 1, 3000));
        assert_int_equal(stats_of(cache).corrupt_count, damage + 1);
        look_at_disk(fixture);
        assert_int_equal(disk_values, 0);
        assert_int_equal(disk_cache_take_warning(cache, &warning), damage == 0);
        assert_non_null(strstr(warning.message, "damaged value"));
        assert_non_null(strstr(warning.message, fixture->path));
    }
    put_value(cache, 1, 3000);
    assert_true(get_value(cache, 1, 3000));
    disk_cache_free(cache);
}

/* A value under another one's name is damage, too. */
static void test_exchanged_files(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    char first[256];
    put_value(cache, 1, 3000);
    put_value(cache, 2, 3000);
    snprintf(first, sizeof first, "%s", value_path(fixture, 0));
    assert_int_equal(rename(first, value_path(fixture, 1)), 0);
    assert_false(get_value(cache, 1, 3000));
    assert_false(get_value(cache, 2, 3000));
    assert_int_equal(stats_of(cache).corrupt_count, 1);
    disk_cache_free(cache);
}

static void write_until_killed(const struct fixture *fixture, uint64_t seed)
{
    struct disk_cache *cache = try_open(fixture, 7, PLENTY);
    if (!cache)
        _exit(1);
    for (uint64_t i = 0;; i++) {
        uint64_t key = random_u64(seed, 1, i) % 5000;
        put_value(cache, key, 1000 + key * 17);
    }
}

/* Processes are killed in the middle of writing, again and again. */
static void test_writers_that_die(void **state)
{
    const struct fixture *fixture = *state;
    uint64_t left_behind = 0, found = 0;
    for (uint64_t round = 0; round < 25; round++) {
        pid_t children[2];
        for (uint64_t i = 0; i < 2; i++) {
            children[i] = fork();
            if (children[i] == 0)
                write_until_killed(fixture, 2 * round + i);
        }
        clock_sleep_ns(10000000 + random_u64(5, 0, round) % 10000000);
        for (int i = 0; i < 2; i++) {
            kill(children[i], SIGKILL);
            reap(children[i], true);
        }
        look_at_disk(fixture);
        left_behind += disk_partial;
        struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
        look_at_disk(fixture);
        assert_int_equal(disk_partial, 0);
        assert_true(stats_of(cache).used_bytes >= disk_bytes);
        assert_true(stats_of(cache).used_bytes <= disk_bytes + (round + 1) * 2 * BIG_BYTES);
        for (uint64_t key = 0; key < 5000; key += 7)
            found += get_value(cache, key, 1000 + key * 17);
        assert_int_equal(stats_of(cache).corrupt_count, 0);
        disk_cache_free(cache);
    }
    assert_true(found > 0);
    assert_true(left_behind > 0); /* or nobody was killed in the middle */
}

/* Files of writers that may be alive are left alone for an hour. */
static void test_partial_files_of_others(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    char young[160], old[160];
    snprintf(young, sizeof young, "%s/partial/0000000000000007-1", fixture->path);
    snprintf(old, sizeof old, "%s/partial/0000000000000007-2", fixture->path);
    close(open(young, O_CREAT | O_WRONLY, 0600));
    close(open(old, O_CREAT | O_WRONLY, 0600));
    struct timespec times[2] = {{time(NULL) - 4000, 0}, {time(NULL) - 4000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, old, times, 0), 0);
    struct disk_cache *second = open_cache(fixture, 8, PLENTY);
    assert_int_equal(access(young, F_OK), 0);
    assert_int_equal(access(old, F_OK), -1);
    disk_cache_free(second);
    disk_cache_free(cache);
    disk_cache_free(open_cache(fixture, 8, PLENTY));
    assert_int_equal(access(young, F_OK), -1);
}

/* A disk that takes no more: files beyond 64 KiB are refused by the kernel. */
static void write_too_much(const struct fixture *fixture)
{
    struct rlimit limit = {65536, 65536};
    struct disk_cache *cache = try_open(fixture, 7, PLENTY);
    struct error warning;
    signal(SIGXFSZ, SIG_IGN);
    bool ok = cache && setrlimit(RLIMIT_FSIZE, &limit) == 0;
    if (!ok)
        _exit(1);
    put_value(cache, 1, 3000);
    ok = !disk_cache_take_warning(cache, &warning);
    put_value(cache, 2, 100000);
    put_value(cache, 3, 3000);
    put_value(cache, 4, 100000);
    ok = ok && get_value(cache, 1, 3000) && !get_value(cache, 2, 100000) &&
         !get_value(cache, 3, 3000) && stats_of(cache).unwritten_count == 3 &&
         stats_of(cache).written_count == 1;
    ok = ok && disk_cache_take_warning(cache, &warning) && warning.system_errno == EFBIG &&
         strstr(warning.message, "nothing more is written") &&
         !disk_cache_take_warning(cache, &warning);
    disk_cache_free(cache);
    _exit(!ok);
}

static void test_a_disk_that_fails(void **state)
{
    const struct fixture *fixture = *state;
    pid_t child = fork();
    if (child == 0)
        write_too_much(fixture);
    reap(child, false);
    look_at_disk(fixture);
    assert_int_equal(disk_partial, 0);
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    assert_int_equal(stats_of(cache).used_bytes, disk_bytes);
    disk_cache_free(cache);
}

static void test_removed_while_in_use(void **state)
{
    const struct fixture *fixture = *state;
    struct disk_cache *cache = open_cache(fixture, 7, PLENTY);
    struct error warning;
    put_value(cache, 1, 3000);
    remove_tree(fixture->path);
    assert_false(get_value(cache, 1, 3000));
    put_value(cache, 2, 3000);
    assert_false(get_value(cache, 2, 3000));
    assert_true(disk_cache_take_warning(cache, &warning));
    disk_cache_free(cache);
    assert_int_equal(access(fixture->path, F_OK), -1);
}

/* Threads and processes at once
 * ------------------------------------------------------------------------------------------ */

enum { THREADS = 4, KEYS = 120, TURNS = 300 };

struct worker {
    struct disk_cache *cache;
    uint64_t seed, found;
};

static size_t size_of(uint64_t key)
{
    return 500 + key * 67;
}

static void *use_cache(void *argument)
{
    struct worker *worker = argument;
    for (uint64_t i = 0; i < TURNS; i++) {
        uint64_t key = random_u64(worker->seed, 9, i) % KEYS;
        if (get_value(worker->cache, key, size_of(key)))
            worker->found++;
        else
            put_value(worker->cache, key, size_of(key));
    }
    return NULL;
}

/* Uses the cache by several threads; true if that went well. */
static bool use_by_threads(const struct fixture *fixture, uint64_t dataset, uint64_t limit_bytes,
                           uint64_t seed)
{
    struct disk_cache *cache = try_open(fixture, dataset, limit_bytes);
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    uint64_t found = 0;
    if (!cache)
        return false;
    for (uint64_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){cache, seed + i, 0};
        if (pthread_create(&threads[i], NULL, use_cache, &workers[i]) != 0)
            return false;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        found += workers[i].found;
    }
    struct disk_cache_stats stats = stats_of(cache);
    struct error warning;
    bool ok = stats.hit_count == found && stats.corrupt_count == 0 &&
              !disk_cache_take_warning(cache, &warning);
    disk_cache_free(cache);
    return ok;
}

static void run_processes(const struct fixture *fixture, const uint64_t *datasets, uint64_t count,
                          uint64_t limit_bytes)
{
    pid_t children[8];
    for (uint64_t i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(!use_by_threads(fixture, datasets[i], limit_bytes, 100 * i));
    }
    for (uint64_t i = 0; i < count; i++)
        reap(children[i], false);
}

static uint64_t table_bytes(const struct fixture *fixture)
{
    struct disk_cache *cache = open_cache(fixture, 99, PLENTY);
    uint64_t used = stats_of(cache).used_bytes;
    disk_cache_free(cache);
    return used;
}

static void test_two_jobs_on_one_dataset(void **state)
{
    const struct fixture *fixture = *state;
    static const uint64_t datasets[] = {7, 7, 7};
    run_processes(fixture, datasets, 3, PLENTY);
    look_at_disk(fixture);
    assert_int_equal(disk_values, KEYS);
    assert_int_equal(disk_partial, 0);
    assert_int_equal(table_bytes(fixture), disk_bytes);
    assert_true(use_by_threads(fixture, 7, PLENTY, 5000));
}

/* Four jobs on three datasets in a cache that holds one and a half of them, over one that nobody
 * uses any more. */
static void test_jobs_that_crowd_each_other(void **state)
{
    const struct fixture *fixture = *state;
    static const uint64_t old[] = {1}, datasets[] = {2, 3, 4, 2};
    uint64_t one = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        one += block_bytes(HEADER_BYTES + size_of(key));
    run_processes(fixture, old, 1, PLENTY);
    look_at_disk(fixture);
    assert_int_equal(disk_bytes, one);
    for (int round = 0; round < 3; round++) {
        run_processes(fixture, datasets, 4, one * 3 / 2);
        look_at_disk(fixture);
        assert_true(disk_bytes <= one * 3 / 2);
        assert_true(disk_bytes > one);
        assert_int_equal(disk_partial, 0);
        assert_int_equal(table_bytes(fixture), disk_bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_values_come_back),
        TEST(test_a_value_longer_than_expected),
        TEST(test_it_is_private),
        TEST(test_directories_that_are_refused),
        TEST(test_damaged_values_are_read_again),
        TEST(test_exchanged_files),
        TEST(test_writers_that_die),
        TEST(test_partial_files_of_others),
        TEST(test_a_disk_that_fails),
        TEST(test_removed_while_in_use),
        TEST(test_two_jobs_on_one_dataset),
        TEST(test_jobs_that_crowd_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
