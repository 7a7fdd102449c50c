/* The metrics file: what was written is read, and nothing else is taken for a snapshot. */
#include "metrics/metrics_file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct folder {
    char path[64];
    int dir, page;
};

static struct folder folder_new(void)
{
    struct folder folder = {.path = "/tmp/penstock-test-XXXXXX"};
    assert_non_null(mkdtemp(folder.path));
    folder.dir = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(metrics_file_create(folder.dir, 2, &folder.page, NULL), STATUS_OK);
    return folder;
}

static void folder_done(struct folder *folder)
{
    close(folder->page);
    unlinkat(folder->dir, "reader-2.metrics", 0);
    close(folder->dir);
    assert_int_equal(rmdir(folder->path), 0);
}

static struct metrics_snapshot *make(uint32_t trainers)
{
    struct metrics_snapshot *snapshot = calloc(1, metrics_snapshot_bytes(trainers));
    assert_non_null(snapshot);
    snapshot->trainer_count = trainers;
    snapshot->values.samples = 77;
    for (uint32_t t = 0; t < trainers; t++)
        snapshot->trainers[t].rank = t;
    return snapshot;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct folder folder = folder_new();
    struct metrics_snapshot *written = make(3), *found;
    assert_int_equal(metrics_file_read(folder.dir, 2, &found, NULL), STATUS_NOT_FOUND); /* empty */
    assert_int_equal(metrics_file_read(folder.dir, 1, &found, NULL), STATUS_NOT_FOUND);
    metrics_file_write(folder.page, written);
    assert_int_equal(metrics_file_read(folder.dir, 2, &found, NULL), STATUS_OK);
    assert_memory_equal(found, written, metrics_snapshot_bytes(3));
    free(found);
    written->trainer_count = 1; /* a shorter one over a longer one */
    metrics_file_write(folder.page, written);
    assert_int_equal(metrics_file_read(folder.dir, 2, &found, NULL), STATUS_OK);
    assert_int_equal(found->trainer_count, 1);
    free(found);
    free(written);
    folder_done(&folder);
}

/* Each byte of a page, wrong, or missing. */
static void nothing_else_is_a_snapshot(void **state)
{
    (void)state;
    struct folder folder = folder_new();
    struct metrics_snapshot *written = make(1), *found;
    metrics_file_write(folder.page, written);
    size_t size = sizeof(struct metrics_file_head) + metrics_snapshot_bytes(1);
    unsigned char *page = malloc(size);
    int fd = openat(folder.dir, "reader-2.metrics", O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, page, size, 0), size);
    for (size_t i = 0; i < size; i += i < sizeof(struct metrics_file_head) ? 1 : 97) {
        unsigned char wrong = page[i] ^ 0x40;
        assert_int_equal(pwrite(fd, &wrong, 1, (off_t)i), 1);
        assert_int_not_equal(metrics_file_read(folder.dir, 2, &found, NULL), STATUS_OK);
        assert_int_equal(pwrite(fd, &page[i], 1, (off_t)i), 1);
    }
    assert_int_equal(ftruncate(fd, (off_t)size - 1), 0);
    assert_int_equal(metrics_file_read(folder.dir, 2, &found, NULL), STATUS_CORRUPT);
    close(fd);
    free(page);
    free(written);
    folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_else_is_a_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
