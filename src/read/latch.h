/* A latch: the owner waits until others have counted down to 0. */
#ifndef PENSTOCK_READ_LATCH_H
#define PENSTOCK_READ_LATCH_H

#include <pthread.h>
#include <stdint.h>

struct latch {
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    uint32_t left;
};

/* A latch that `count` steps count down. */
void latch_init(struct latch *latch, uint32_t count);

/* Nobody may use the latch any more. */
void latch_done(struct latch *latch);

/* Counts down `count` steps. Any thread; at most as many steps in all as latch_init() was given. */
void latch_count_down(struct latch *latch, uint32_t count);

/* The owner: blocks until all steps are counted down. */
void latch_wait(struct latch *latch);

#endif
