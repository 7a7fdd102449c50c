/* The processes of encoders: how they end, and what ends them when whoever started them is killed.
 */
#include "workshop/encode/processes.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { PATIENCE = 2000 }; /* steps of 10 ms */

static struct process start(const struct keeper *keeper, const char *command)
{
    struct process process = {0};
    struct error error;
    if (process_start(keeper, command, "/nowhere", 0, 1, &process, &error) != STATUS_OK)
        fail_msg("process_start: %s", error.message);
    return process;
}

static void await_end(struct process *process)
{
    for (int i = 0; i < PATIENCE && !process_has_ended(process); i++)
        clock_sleep_ns(10000000);
    assert_true(process_has_ended(process));
}

static void new_folder(char *path)
{
    strcpy(path, "/tmp/penstock-test-XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* The number of a process that has ended is nobody else's until it is reaped. */
static void test_endings(void **state)
{
    static const struct {
        const char *command, *text;
    } cases[] = {
        {"exit 3", "ended with exit code 3"},
        {"kill -s KILL $$", "was killed by signal 9 (Killed)"},
        {"no-such-program-here 2>/dev/null", "ended with exit code 127: the shell found no such"},
    };
    struct keeper keeper;
    char folder[32];
    (void)state;
    new_folder(folder);
    assert_int_equal(keeper_start(folder, &keeper, NULL), STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct process process = start(&keeper, cases[i].command);
        pid_t pid = process.pid;
        await_end(&process);
        assert_non_null(strstr(process_ending(&process), cases[i].text));
        assert_int_equal(kill(pid, 0), 0);
        process_reap(&process);
        assert_int_equal(kill(pid, 0), -1);
    }
    keeper_dismiss(&keeper);
    assert_int_equal(rmdir(folder), 0); /* is there: the keeper removes nothing */
}

static pid_t read_pid(const char *path)
{
    long pid = 0;
    for (int i = 0; i < PATIENCE && pid == 0; i++) {
        FILE *file = fopen(path, "r");
        if (file && fscanf(file, "%ld.", &pid) != 1)
            pid = 0;
        if (file)
            fclose(file);
        clock_sleep_ns(10000000);
    }
    assert_true(pid > 0);
    return (pid_t)pid;
}

/* Its processes are this test's children once it is dead. */
static bool is_gone(pid_t pid)
{
    for (int i = 0; i < PATIENCE; i++) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (kill(pid, 0) < 0)
            return errno == ESRCH;
        clock_sleep_ns(10000000);
    }
    return false;
}

/* Whoever starts two encoders is killed: both end, the one that ignores SIGTERM and what it has
 * started, too, and the folder goes. */
static void test_killed_parent(void **state)
{
    char folder[32], notes[32], command[256], path[64];
    (void)state;
    new_folder(folder);
    new_folder(notes);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct keeper keeper;
        if (keeper_start(folder, &keeper, NULL) != STATUS_OK)
            _exit(1);
        snprintf(command, sizeof command, "echo $$. >%s/a; exec sleep 1000", notes);
        (void)start(&keeper, command);
        snprintf(command, sizeof command,
                 "trap '' TERM; sh -c 'echo $$. >%s/b; sleep 1000; sleep 1000'; true", notes);
        (void)start(&keeper, command);
        pause();
    }
    snprintf(path, sizeof path, "%s/a", notes);
    pid_t polite = read_pid(path);
    unlink(path);
    snprintf(path, sizeof path, "%s/b", notes);
    pid_t stubborn = read_pid(path);
    unlink(path);
    snprintf(path, sizeof path, "%s/file", folder);
    fclose(fopen(path, "w"));
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_true(is_gone(polite));
    assert_true(is_gone(stubborn));
    struct stat info;
    bool is_there = true;
    for (int i = 0; i < PATIENCE && is_there; i++) {
        is_there = stat(folder, &info) == 0;
        clock_sleep_ns(10000000);
    }
    assert_false(is_there);
    assert_int_equal(rmdir(notes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endings),
        cmocka_unit_test(test_killed_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
