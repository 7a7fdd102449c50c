/* Other users, and strange files in the run directory: refused on both sides. */
#include "delivery_raw.h"

#include "delivery/ring/protocol.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { STRANGER = 54321 }; /* a user's number that nobody has */

/* Runs `act` in a child that is another user; returns its exit code. */
static int as_a_stranger(int (*act)(void *argument), void *argument)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool other = setgroups(0, NULL) == 0 && setgid(STRANGER) == 0 && setuid(STRANGER) == 0;
        _exit(other ? act(argument) : 99);
    }
    int outcome;
    assert_int_equal(waitpid(child, &outcome, 0), child);
    assert_true(WIFEXITED(outcome));
    return WEXITSTATUS(outcome);
}

/* Connects to a socket and says hello; 0 if what comes is a refusal that names the user. */
static int connect_as_stranger(void *argument)
{
    struct protocol_message reply;
    struct error error;
    int dir = *(int *)argument, fd;
    if (rundir_connect(dir, 0, &fd, &error) != STATUS_OK)
        return strstr(error.message, "Permission denied") ? 1 : 2;
    for (int i = 0; i < 5000; i++) {
        if (protocol_receive(fd, &reply, NULL, NULL) == STATUS_OK)
            return reply.type == PROTOCOL_FAIL && reply.fail.status == STATUS_REFUSED &&
                           strstr(reply.fail.message, "of user 54321")
                       ? 0
                       : 3;
        clock_sleep_ns(1000000);
    }
    return 4;
}

static void *pump_thread(void *argument)
{
    struct server *server = argument;
    for (int i = 0; i < 500; i++) {
        progress(server); /* a stranger is nobody's business but its own */
        clock_sleep_ns(1000000);
    }
    return NULL;
}

static void strangers_are_told_and_dropped(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); /* nobody else can become another user */
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    char socket_path[96];
    int dir;
    assert_int_equal(rundir_open(folder.path, false, &dir, NULL), STATUS_OK);
    assert_int_equal(as_a_stranger(connect_as_stranger, &dir), 1); /* 0700 */

    /* Someone has opened it to the world. */
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    assert_int_equal(chmod(folder.path, 0711), 0);
    assert_int_equal(chmod(socket_path, 0777), 0);
    char parent[sizeof folder.path];
    snprintf(parent, sizeof parent, "%s", folder.path);
    *strrchr(parent, '/') = '\0';
    assert_int_equal(chmod(parent, 0711), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, pump_thread, server), 0);
    assert_int_equal(as_a_stranger(connect_as_stranger, &dir), 0);
    pthread_join(thread, NULL);
    assert_int_equal(server_trainer_count(server), 0);
    close(dir);
    server_free(server);
    run_folder_done(&folder);
}

static int listen_as_stranger(void *argument)
{
    return listen(*(int *)argument, 4) == 0 ? 0 : 1;
}

/* Someone else listens at a reader's socket: a trainer does not talk to them. */
static void a_strangers_service_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct run_folder folder = run_folder_new();
    int dir, lock, listener;
    assert_int_equal(rundir_open(folder.path, true, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_claim(dir, 0, NULL, &lock, NULL), STATUS_OK);
    assert_int_equal(rundir_bind(dir, 0, &listener, NULL), STATUS_OK);
    assert_int_equal(as_a_stranger(listen_as_stranger, &listener), 0);
    struct penstock_options options = {.run_dir = folder.path, .world_size = 1, .timeout_ms = 2000};
    struct penstock *client;
    char message[PENSTOCK_MESSAGE_BYTES];
    assert_int_equal(penstock_connect(&options, &client, message), PENSTOCK_REFUSED);
    assert_non_null(strstr(message, "of user 54321"));
    rundir_leave(dir, 0);
    close(dir), close(lock), close(listener);
    assert_int_equal(rmdir(folder.path), 0);
    run_folder_done(&folder);
}

/* What stands where the lock or the socket of a reader should. A link is never followed. */
static void strange_files_in_the_run_directory(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    char lock_path[96], socket_path[96], target[96];
    int dir, lock, fd;
    struct error error;
    struct stat info;
    snprintf(lock_path, sizeof lock_path, "%s/reader-0.lock", folder.path);
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    snprintf(target, sizeof target, "%s/target", folder.path);
    assert_int_equal(rundir_open(folder.path, true, &dir, NULL), STATUS_OK);
    fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);

    assert_int_equal(symlink(target, lock_path), 0);
    assert_int_equal(rundir_claim(dir, 0, NULL, &lock, &error), STATUS_IO);
    assert_non_null(strstr(error.message, "reader-0.lock"));
    unlink(lock_path);
    assert_int_equal(mkdir(lock_path, 0700), 0);
    assert_int_equal(rundir_claim(dir, 0, NULL, &lock, &error), STATUS_IO);
    rmdir(lock_path);

    fd = open(lock_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); /* of a dead reader, or nonsense */
    assert_int_equal(write(fd, "99999999999999999999 \n\n", 23), 23);
    close(fd);
    assert_int_equal(symlink(target, socket_path), 0);
    assert_int_equal(rundir_claim(dir, 0, NULL, &lock, NULL), STATUS_OK);
    assert_int_equal(lstat(socket_path, &info), -1); /* the link is gone, what it named is not */
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_size, 4);
    close(lock);

    assert_int_equal(mkdir(socket_path, 0700), 0);
    assert_int_equal(rundir_claim(dir, 0, NULL, &lock, &error), STATUS_IO);
    assert_non_null(strstr(error.message, "reader-0.sock"));
    rmdir(socket_path);
    unlink(target), unlink(lock_path);
    close(dir);
    assert_int_equal(rmdir(folder.path), 0);
    run_folder_done(&folder);
}

/* A socket that was replaced by a file, a link to nowhere or a folder is a service that is not
 * there, said within the timeout. */
static void a_replaced_socket_is_no_service(void **state)
{
    (void)state;
    struct run_folder folder = run_folder_new();
    struct server *server = support_server(folder.path, 1, SUPPORT_SLOTS, 0);
    char socket_path[96];
    snprintf(socket_path, sizeof socket_path, "%s/reader-0.sock", folder.path);
    for (int kind = 0; kind < 3; kind++) {
        remove(socket_path);
        if (kind == 0)
            close(open(socket_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        else
            assert_int_equal(
                kind == 1 ? symlink("/nonexistent", socket_path) : mkdir(socket_path, 0700), 0);
        struct penstock_options options = {
            .run_dir = folder.path, .world_size = 1, .timeout_ms = 100};
        struct penstock *client;
        char message[PENSTOCK_MESSAGE_BYTES];
        enum penstock_status status = penstock_connect(&options, &client, message);
        assert_true(status == PENSTOCK_NOT_FOUND || status == PENSTOCK_IO);
        assert_non_null(strstr(message, "reader-0.sock"));
    }
    remove(socket_path);
    server_free(server);
    run_folder_done(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_told_and_dropped),
        cmocka_unit_test(a_strangers_service_is_refused),
        cmocka_unit_test(strange_files_in_the_run_directory),
        cmocka_unit_test(a_replaced_socket_is_no_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
