/* Shared by encoders.c (submissions) and encoders_service.c (the thread that serves encoders).
 * `mutex` guards all but `options` and `layout`, which do not change; the server is called with it.
 */
#ifndef PENSTOCK_WORKSHOP_ENCODE_ENCODERS_INTERNAL_H
#define PENSTOCK_WORKSHOP_ENCODE_ENCODERS_INTERNAL_H

#include "delivery/ring/wakeup.h"
#include "delivery/server/server.h"
#include "workshop/encode/encoders.h"
#include "workshop/encode/processes.h"

#include <pthread.h>
#include <stdbool.h>

enum submission_state {
    SUBMISSION_FREE,
    SUBMISSION_RESERVED,
    SUBMISSION_SUBMITTED,
    SUBMISSION_PUBLISHED,
    SUBMISSION_GIVEN
};

struct submission {
    enum submission_state state;
    uint64_t begin; /* samples, from SUBMISSION_SUBMITTED on */
    uint32_t count;
    struct protocol_give give; /* with SUBMISSION_GIVEN, and `memfd`, which is owned */
    int memfd;
};

struct encoder {
    struct process process;
    uint32_t trainer;                    /* index in the server's list */
    uint64_t reserved, published, given; /* submissions so far */
    uint64_t since_ns;                   /* when it last got its oldest batch without a result */
    bool asks;   /* it slept in penstock_next(), with all batches taken, before its messages were
                    heard */
    bool warned; /* that it takes long */
    struct submission submissions[ENCODERS_SLOTS];
};

struct encoders {
    struct encoders_options options;
    struct ring_layout layout;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool started, serving, stopping;
    struct server *server;
    int wake_fd;
    char run_dir[256];
    uint64_t start_ns;
    struct keeper keeper;
    struct encoder all[ENCODERS_MOST];
    struct error error; /* the first failure */
};

/* Both with the mutex. */
void encoders_start(struct encoders *encoders);
void encoders_fail(struct encoders *encoders, const struct error *error);

#endif
