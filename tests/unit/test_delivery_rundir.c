/* The run directory: who may use it, and how sockets of dead readers are found and taken. */
#include "delivery/client/dial.h"
#include "delivery/ring/rundir.h"

#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char parent[] = "/tmp/penstock-test-XXXXXX";
static char path[PATH_MAX];

static int make_parent(void **state)
{
    (void)state;
    strcpy(parent + strlen(parent) - 6, "XXXXXX");
    if (!mkdtemp(parent))
        return -1;
    snprintf(path, sizeof path, "%s/run", parent);
    return 0;
}

static int remove_parent(void **state)
{
    (void)state;
    rmdir(path);
    return rmdir(parent);
}

static void it_is_made_private(void **state)
{
    (void)state;
    int dir;
    struct error error;
    assert_int_equal(rundir_open(path, false, &dir, NULL), STATUS_NOT_FOUND);
    mode_t mask = umask(0);
    assert_int_equal(rundir_open(path, true, &dir, NULL), STATUS_OK);
    umask(mask);
    struct stat info;
    assert_int_equal(fstat(dir, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    close(dir);
    assert_int_equal(chmod(path, 0750), 0);
    assert_int_equal(rundir_open(path, true, &dir, &error), STATUS_REFUSED);
    assert_non_null(strstr(error.message, "0750"));
    assert_int_equal(rundir_open(path, false, &dir, &error), STATUS_REFUSED);
    assert_int_equal(chmod(path, 0700), 0);
    char deep[PATH_MAX + 8];
    snprintf(deep, sizeof deep, "%s/a/b", path);
    assert_int_equal(rundir_open(deep, true, &dir, &error), STATUS_IO);
}

static void links_and_files_are_refused(void **state)
{
    (void)state;
    int dir;
    char link[64];
    snprintf(link, sizeof link, "%s/link", parent);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(rundir_open(link, true, &dir, NULL), STATUS_REFUSED);
    strcat(link, "/"); /* which opens what the link points to */
    assert_int_equal(rundir_open(link, true, &dir, NULL), STATUS_REFUSED);
    link[strlen(link) - 1] = '\0';
    unlink(link);
    close(open(link, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(rundir_open(link, true, &dir, NULL), STATUS_REFUSED);
    unlink(link);
}

static void a_name_ends_without_slashes(void **state)
{
    (void)state;
    char name[16];
    assert_int_equal(rundir_name("/tmp/run//", NULL, name, sizeof name), 8);
    assert_string_equal(name, "/tmp/run");
    assert_int_equal(rundir_name("/tmp/run/", "val", name, sizeof name), 12);
    assert_string_equal(name, "/tmp/run.val");
    assert_int_equal(rundir_name("/", NULL, name, sizeof name), 1);
    assert_int_equal(rundir_name("/tmp/run", "validation", name, sizeof name), 19);
}

static void a_lock_names_what_has_started_its_owner(void **state)
{
    (void)state;
    int dir, lock;
    char long_mark[2 * RUNDIR_MARK_BYTES], text[2 * RUNDIR_MARK_BYTES] = "", wanted[64];
    assert_int_equal(rundir_open(path, true, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_claim(dir, 0, "n1-7-3", &lock, NULL), STATUS_OK);
    snprintf(wanted, sizeof wanted, "%ld\nn1-7-3\n", (long)getpid());
    assert_int_equal(pread(lock, text, sizeof text, 0), strlen(wanted));
    assert_string_equal(text, wanted);
    close(lock);
    memset(long_mark, 'x', sizeof long_mark);
    long_mark[sizeof long_mark - 1] = '\0';
    assert_int_equal(rundir_claim(dir, 0, long_mark, &lock, NULL), STATUS_OK);
    rundir_leave(dir, 0);
    close(lock);
    close(dir);
}

static void another_users_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* nobody else can give a directory away */
    int dir;
    struct error error;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 12345, (gid_t)-1), 0);
    assert_int_equal(rundir_open(path, true, &dir, &error), STATUS_REFUSED);
    assert_non_null(strstr(error.message, "12345"));
}

static void a_socket_has_one_live_owner(void **state)
{
    (void)state;
    int dir, lock, listener, second;
    assert_int_equal(rundir_open(path, true, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_claim(dir, 3, NULL, &lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(dir, 3, &listener, NULL), STATUS_OK);
    struct error error;
    assert_int_equal(rundir_claim(dir, 3, NULL, &second, &error), STATUS_REFUSED);
    char pid[32];
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_non_null(strstr(error.message, pid));

    uint32_t readers[4];
    assert_int_equal(rundir_readers(dir, readers, 4), 1);
    assert_int_equal(readers[0], 3);
    int client;
    assert_int_equal(rundir_connect(dir, 3, &client, NULL), STATUS_NOT_FOUND);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(rundir_connect(dir, 3, &client, NULL), STATUS_OK);
    close(client);

    close(lock); /* as if it had died: its socket is still there */
    close(listener);
    assert_int_equal(rundir_readers(dir, readers, 4), 0);
    assert_int_equal(rundir_connect(dir, 3, &client, NULL), STATUS_NOT_FOUND);
    assert_int_equal(rundir_claim(dir, 3, NULL, &lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(dir, 3, &listener, NULL), STATUS_OK);
    rundir_leave(dir, 3);
    close(lock);
    close(listener);
    close(dir);
}

static void readers_are_listed_by_number(void **state)
{
    (void)state;
    static const uint32_t numbers[] = {12, 0, 100, 7};
    int dir, locks[4], sockets[4];
    assert_int_equal(rundir_open(path, true, &dir, NULL), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rundir_claim(dir, numbers[i], NULL, &locks[i], NULL), STATUS_OK);
        assert_int_equal(rundir_bind(dir, numbers[i], &sockets[i], NULL), STATUS_OK);
    }
    static const char *const strangers[] = {"reader-.sock", "reader-7x.sock", "reader-07.sock",
                                            "reader-99999999999.sock", "other"};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        close(openat(dir, strangers[i], O_CREAT | O_WRONLY, 0600));
    uint32_t readers[8];
    assert_int_equal(rundir_readers(dir, readers, 8), 4);
    static const uint32_t sorted[] = {0, 7, 12, 100};
    assert_memory_equal(readers, sorted, sizeof sorted);
    assert_int_equal(rundir_readers(dir, readers, 2), 2);
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++)
        unlinkat(dir, strangers[i], 0);
    for (int i = 0; i < 4; i++) {
        rundir_leave(dir, numbers[i]);
        close(locks[i]);
        close(sockets[i]);
    }
    close(dir);
}

static void trainers_are_shared_out(void **state)
{
    (void)state;
    assert_int_equal(dial_reader_of(0, 8, 2), 0);
    assert_int_equal(dial_reader_of(3, 8, 2), 0);
    assert_int_equal(dial_reader_of(4, 8, 2), 1);
    assert_int_equal(dial_reader_of(7, 8, 2), 1);
    assert_int_equal(dial_reader_of(1, 2, 3), 1);
    assert_int_equal(dial_reader_of(0, 1, 5), 0);
    assert_int_equal(dial_reader_of(9, 4, 2), 0); /* nonsense: the first */
    assert_int_equal(dial_reader_of(0, 0, 2), 0);
}

int main(void)
{
#define FRESH(test) cmocka_unit_test_setup_teardown(test, make_parent, remove_parent)
    const struct CMUnitTest tests[] = {
        FRESH(it_is_made_private),
        FRESH(links_and_files_are_refused),
        FRESH(another_users_is_refused),
        FRESH(a_socket_has_one_live_owner),
        FRESH(readers_are_listed_by_number),
        cmocka_unit_test(a_name_ends_without_slashes),
        FRESH(a_lock_names_what_has_started_its_owner),
        cmocka_unit_test(trainers_are_shared_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
