/* See children.h. */
#include "trainers/children.h"

#include "base/clock.h"
#include "trainers/spawner.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct child {
    pid_t pid;         /* 0 once reaped */
    pid_t group;       /* that it led and left, and that is being ended; 0: none */
    uint64_t ended_ns; /* when it was reaped */
    uint32_t rank;
    uint64_t restarts_left;
    bool said_failure; /* its trainer did */
    bool failed;       /* and not started again */
    struct error end;  /* of one that failed */
};

struct children {
    struct children_options options;
    uint32_t count; /* started so far */
    struct child child[];
};

/* Starts children [first, end). */
static enum status start_children(struct children *children, uint32_t first, uint32_t end,
                                  struct error *err)
{
    struct spawner spawner;
    enum status status = spawner_init(&spawner, &children->options, err);
    for (uint32_t i = first; i < end && status == STATUS_OK; i++) {
        status = spawner_start(&spawner, i, &children->child[i].pid, err);
        if (status == STATUS_OK && i == children->count)
            children->count++;
    }
    spawner_done(&spawner);
    return status;
}

enum status children_start(const struct children_options *options, struct children **ret_children,
                           struct error *err)
{
    struct children *children = calloc(1, sizeof *children + options->count * sizeof(struct child));
    if (!children)
        return error_set(err, STATUS_NO_MEMORY, "no memory to start trainers");
    children->options = *options;
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* what children leave comes to us, whoever is process 1 */
    for (uint32_t i = 0; i < options->count; i++)
        children->child[i] =
            (struct child){.rank = options->first_rank + i, .restarts_left = options->restarts};
    enum status status = start_children(children, 0, options->count, err);
    if (status == STATUS_OK) {
        *ret_children = children;
    } else {
        children_stop(children);
        children_free(children);
    }
    return status;
}

void children_note(struct children *children, uint32_t rank, bool failed)
{
    uint32_t first = children->options.first_rank;
    if (rank >= first && rank - first < children->count)
        children->child[rank - first].said_failure = failed;
}

bool children_may_restart(const struct children *children)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].failed && children->child[i].restarts_left == 0)
            return false;
    return true;
}

bool children_failed(const struct children *children)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].failed)
            return true;
    return false;
}

enum status children_restart(struct children *children, bool *ret_restarted, uint32_t *ret_rank,
                             struct error *err)
{
    *ret_restarted = false;
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->child[i];
        if (!child->failed)
            continue;
        if (child->restarts_left == 0) {
            if (err)
                *err = child->end;
            return STATUS_LOST;
        }
        if (child->group)
            continue;
        enum status status = start_children(children, i, i + 1, err);
        if (status != STATUS_OK)
            return status;
        child->restarts_left--;
        child->failed = child->said_failure = false;
        *ret_rank = child->rank;
        *ret_restarted = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}

static enum status describe_end(const struct child *child, pid_t pid, bool connected,
                                int wait_status, struct error *err)
{
    bool zero = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
    if (zero && child->said_failure)
        return error_set(err, STATUS_LOST,
                         "trainer %u (pid %d) said that it failed, and ended with exit code 0",
                         child->rank, (int)pid);
    if (zero && connected)
        return STATUS_OK;
    if (zero)
        return error_set(err, STATUS_LOST,
                         "trainer %u (pid %d) ended with exit code 0 before all trainers were "
                         "connected: does it call penstock.connect(), or penstock_connect()?",
                         child->rank, (int)pid);
    if (WIFSIGNALED(wait_status))
        return error_set(err, STATUS_LOST, "trainer %u (pid %d) was killed by signal %d (%s)",
                         child->rank, (int)pid, WTERMSIG(wait_status),
                         strsignal(WTERMSIG(wait_status)));
    return error_set(err, STATUS_LOST, "trainer %u (pid %d) ended with exit code %d", child->rank,
                     (int)pid, WEXITSTATUS(wait_status));
}

/* Asks what a child has left in its group to end; once is not enough where the grace is over. What
 * SIGKILL does not end soon hangs in the kernel. */
static void end_group(const struct children *children, struct child *child)
{
    const uint64_t ms_ns = 1000000, last_ms = CHILDREN_LAST_S * 1000;
    uint64_t passed_ms = (clock_now_ns() - child->ended_ns) / ms_ns;
    while (waitpid(-child->group, NULL, WNOHANG) > 0)
        continue; /* what is dead but not reaped still counts */
    int signal_number = passed_ms < children->options.grace_ms ? 0 : SIGKILL;
    if (kill(-child->group, signal_number) < 0 || passed_ms > children->options.grace_ms + last_ms)
        child->group = 0;
}

/* One has been reaped. */
static void note_end(struct child *child)
{
    child->ended_ns = clock_now_ns();
    child->group = kill(-child->pid, SIGTERM) == 0 ? child->pid : 0;
    child->pid = 0;
}

static bool is_known(const struct children *children, pid_t pid)
{
    for (uint32_t i = 0; i < children->count; i++)
        if (children->child[i].pid == pid)
            return true;
    return children->options.owns(children->options.owner, pid);
}

/* What children leave outside their groups comes to us, too: reaps such as have ended. */
static void reap_strangers(const struct children *children)
{
    siginfo_t ended = {0};
    while (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0 &&
           !is_known(children, ended.si_pid)) {
        waitpid(ended.si_pid, NULL, WNOHANG);
        ended.si_pid = 0;
    }
}

enum status children_poll(struct children *children, bool connected, uint32_t *ret_running,
                          struct error *err)
{
    enum status status = STATUS_OK;
    uint32_t running = 0;
    for (uint32_t i = 0; i < children->count; i++) {
        struct child *child = &children->child[i];
        int wait_status;
        if (child->group)
            end_group(children, child);
        running += child->group != 0;
        if (child->pid == 0)
            continue;
        /* After a failure the rest is only counted: it is reaped, and reported, by the next call.
         */
        if (status != STATUS_OK || waitpid(child->pid, &wait_status, WNOHANG) != child->pid) {
            running++;
            continue;
        }
        status = describe_end(child, child->pid, connected, wait_status, &child->end);
        child->failed =
            status != STATUS_OK &&
            (child->said_failure || !(WIFEXITED(wait_status) && !WEXITSTATUS(wait_status)));
        note_end(child);
        running += child->group != 0;
        if (status != STATUS_OK && err)
            *err = child->end;
    }
    reap_strangers(children);
    *ret_running = running;
    return status;
}

static void signal_all(const struct children *children, int signal_number)
{
    for (uint32_t i = 0; i < children->count; i++) {
        const struct child *child = &children->child[i];
        pid_t group = child->pid ? child->pid : child->group;
        if (group)
            kill(-group, signal_number);
    }
}

static bool wait_until_gone(struct children *children, uint32_t timeout_ms)
{
    uint64_t deadline = clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        uint32_t running = 0;
        enum status ignored = children_poll(children, true, &running, NULL);
        (void)ignored; /* they are being stopped: how they end does not matter */
        if (running == 0)
            return true;
        if (clock_now_ns() >= deadline)
            return false;
        clock_sleep_ns(2000000);
    }
}

void children_stop(struct children *children)
{
    enum { TERM_MS = 300, KILL_MS = 2000 };
    if (!children || wait_until_gone(children, 0))
        return;
    signal_all(children, SIGTERM);
    if (wait_until_gone(children, TERM_MS))
        return;
    signal_all(children, SIGKILL);
    wait_until_gone(children, KILL_MS);
}

void children_free(struct children *children)
{
    free(children);
}
