/* A latch: counts down to the moment that its owner waits for. */
#ifndef PENSTOCK_READ_LATCH_H
#define PENSTOCK_READ_LATCH_H

#include <pthread.h>
#include <stdint.h>

struct latch {
    pthread_mutex_t mutex;
    pthread_cond_t reached;
    uint32_t left;
};

void latch_init(struct latch *latch, uint32_t count);
void latch_done(struct latch *latch);

/* Any thread. */
void latch_count_down(struct latch *latch, uint32_t count);

/* The owner; blocks until all `count` are counted down. */
void latch_wait(struct latch *latch);

#endif
