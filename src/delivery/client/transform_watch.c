/* A process of a transform that hangs notices nothing of its reader's end. See
 * transform_internal.h. */
#include "delivery/client/transform_internal.h"

#include "base/clock.h"
#include "base/thread.h"

#include <poll.h>
#include <signal.h>

/* The reader put this process into a group of its own. Cancelled in poll() or asleep. */
static void *watch(void *argument)
{
    const struct penstock_transform *t = argument;
    struct pollfd fd = {.fd = t->socket}; /* POLLHUP alone */
    while (poll(&fd, 1, -1) <= 0 || !(fd.revents & POLLHUP))
        continue;
    clock_sleep_ns(UINT64_C(2000000000));
    kill(0, SIGKILL);
    return NULL;
}

void transform_watch(struct penstock_transform *t)
{
    t->is_watched = thread_start("reader-watch", watch, t, &t->watch);
}

void transform_watch_end(struct penstock_transform *t)
{
    if (!t->is_watched)
        return;
    pthread_cancel(t->watch);
    pthread_join(t->watch, NULL);
}
