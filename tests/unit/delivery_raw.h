/* For tests that play a peer by hand. */
#ifndef PENSTOCK_TESTS_DELIVERY_RAW_H
#define PENSTOCK_TESTS_DELIVERY_RAW_H

#include "delivery_support.h"

#include "delivery/ring/rundir.h"

#include <sys/epoll.h>

/* The lowest free descriptor: the same before and after if none was left open. */
static inline int lowest_free_fd(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

/* A connection that speaks for itself. */
static inline int raw_connect(const char *run_dir)
{
    int dir, fd;
    assert_int_equal(rundir_open(run_dir, false, &dir, NULL), STATUS_OK);
    assert_int_equal(rundir_connect(dir, 0, &fd, NULL), STATUS_OK);
    close(dir);
    return fd;
}

static inline void progress(struct server *server)
{
    bool active;
    struct error error;
    if (server_progress(server, &active, &error) != STATUS_OK)
        fail_msg("server_progress: %s", error.message);
}

#endif
