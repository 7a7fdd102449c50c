/* The overview: pages of readers of other nodes, and who looks at them. */
#include "metrics/overview.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { READERS = 3 };

struct folder {
    char path[64];
    int dir;
    struct metrics_overview overview;
};

static struct folder folder_new(void)
{
    struct folder folder = {.path = "/tmp/penstock-test-XXXXXX"};
    struct metrics_overview none;
    assert_non_null(mkdtemp(folder.path));
    folder.dir = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(metrics_overview_watch(folder.dir, &none, NULL), STATUS_NOT_FOUND);
    assert_int_equal(metrics_overview_create(folder.dir, READERS, 2, &folder.overview, NULL),
                     STATUS_OK);
    return folder;
}

static void folder_done(struct folder *folder)
{
    metrics_overview_close(&folder->overview);
    unlinkat(folder->dir, "reader-0.overview", 0);
    close(folder->dir);
    assert_int_equal(rmdir(folder->path), 0);
}

static struct metrics_snapshot *make(uint32_t reader, uint32_t trainers)
{
    struct metrics_snapshot *snapshot = calloc(1, metrics_snapshot_bytes(trainers));
    assert_non_null(snapshot);
    snapshot->reader = reader;
    snapshot->now_ms = 1000 + reader;
    snapshot->trainer_count = trainers;
    for (uint32_t t = 0; t < trainers; t++)
        snapshot->trainers[t].rank = 10 * reader + t;
    return snapshot;
}

static void each_page_is_its_readers(void **state)
{
    (void)state;
    struct folder folder = folder_new();
    struct metrics_overview watch;
    struct metrics_snapshot *found;
    assert_int_equal(metrics_overview_watch(folder.dir, &watch, NULL), STATUS_OK);
    assert_int_equal(watch.reader_count, READERS);
    for (uint32_t r = 1; r < READERS + 1; r++) { /* one of them is none of this run */
        struct metrics_snapshot *written = make(r, 2);
        metrics_overview_put(&folder.overview, written);
        free(written);
    }
    assert_int_equal(metrics_overview_get(&watch, 0, &found, NULL), STATUS_NOT_FOUND);
    for (uint32_t r = 1; r < READERS; r++) {
        assert_int_equal(metrics_overview_get(&watch, r, &found, NULL), STATUS_OK);
        assert_int_equal(found->now_ms, 1000 + r);
        assert_int_equal(found->trainers[1].rank, 10 * r + 1);
        free(found);
    }
    metrics_overview_close(&watch);
    folder_done(&folder);
}

static void who_looks_is_seen(void **state)
{
    (void)state;
    struct folder folder = folder_new();
    struct metrics_overview one, two;
    assert_false(metrics_overview_is_watched(&folder.overview));
    assert_int_equal(metrics_overview_watch(folder.dir, &one, NULL), STATUS_OK);
    assert_int_equal(metrics_overview_watch(folder.dir, &two, NULL), STATUS_OK);
    assert_true(metrics_overview_is_watched(&folder.overview));
    metrics_overview_close(&one);
    assert_true(metrics_overview_is_watched(&folder.overview));
    metrics_overview_close(&two);
    assert_false(metrics_overview_is_watched(&folder.overview));
    folder_done(&folder);
}

/* Other files, files of another version, and pages that lie where another reader's should. */
static void nothing_else_is_an_overview(void **state)
{
    (void)state;
    struct folder folder = folder_new();
    struct metrics_overview watch;
    struct metrics_snapshot *found, *written = make(1, 1);
    metrics_overview_put(&folder.overview, written);
    struct metrics_overview shifted = folder.overview;
    shifted.page_bytes /= 2;
    assert_int_equal(metrics_overview_get(&shifted, 2, &found, NULL), STATUS_CORRUPT);
    struct metrics_overview_head head;
    int fd = folder.overview.fd;
    assert_int_equal(pread(fd, &head, sizeof head, 0), sizeof head);
    struct metrics_overview_head wrong = head;
    wrong.page_bytes = UINT64_MAX / 2;
    assert_int_equal(pwrite(fd, &wrong, sizeof wrong, 0), sizeof wrong);
    assert_int_equal(metrics_overview_watch(folder.dir, &watch, NULL), STATUS_CORRUPT);
    wrong = head;
    wrong.version++;
    assert_int_equal(pwrite(fd, &wrong, sizeof wrong, 0), sizeof wrong);
    assert_int_equal(metrics_overview_watch(folder.dir, &watch, NULL), STATUS_UNSUPPORTED);
    assert_int_equal(ftruncate(fd, 5), 0);
    assert_int_equal(metrics_overview_watch(folder.dir, &watch, NULL), STATUS_CORRUPT);
    free(written);
    folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_page_is_its_readers),
        cmocka_unit_test(who_looks_is_seen),
        cmocka_unit_test(nothing_else_is_an_overview),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
