/* A team of threads does numbered pieces of work, while the caller's thread draws the progress and
 * waits. A thread does pieces that follow one another, in order. A thread that has none left takes
 * half of another one's. The first error stops all threads.
 */
#ifndef PENSTOCK_SCAN_TEAM_H
#define PENSTOCK_SCAN_TEAM_H

#include "base/error.h"

#include <stdatomic.h>
#include <stdint.h>

struct team {
    uint32_t thread_count;
    uint64_t work_count;
    const char *label, *unit;      /* of the progress line */
    const _Atomic uint64_t *bytes; /* so far, for the rate; NULL: none is shown */
    void *argument;                /* of the functions */
    /* Makes a thread's state; the thread itself calls. */
    enum status (*start)(void *argument, void **ret_state, struct error *err);
    /* Does piece `number`, in [0, work_count). */
    enum status (*run)(void *argument, void *state, uint64_t number, struct error *err);
    /* Frees the state; not called where start() failed. */
    void (*stop)(void *argument, void *state);
};

/* Blocks until all is done. Errors of the functions; IO: no thread can be started. */
MUST_USE enum status team_run(const struct team *team, struct error *err);

#endif
