/* Purposes of random keys within src/plan. random_u64(seed, purpose, epoch) is the key of that
 * purpose for an epoch. The numbers are part of the order: never renumber.
 */
#ifndef PENSTOCK_PLAN_ORDER_KEYS_H
#define PENSTOCK_PLAN_ORDER_KEYS_H

enum plan_key {
    KEY_ROWS = 1,    /* the order of rows */
    KEY_WINDOWS = 2, /* random_u64(this, 0, window): the order of samples in a window */
    KEY_SAMPLES = 3, /* random_u64(this, 0, index): the key delivered with a sample */
    KEY_MATCHES = 4, /* random_u64(this, 0, step): see locality.h */
    KEY_DRAWS = 5,   /* random_u64(this, 0, step): the order of a step's draws, of a mix */
    KEY_STEPS = 7,   /* random_u64(this, 0, window): the order of a window's steps, with cuts */
    KEY_WEIGHED_ROWS = 8,    /* how many samples each row has, with weights (weights.h) */
    KEY_WEIGHED_SAMPLES = 9, /* random_u64(this, 0, row): which ones these are */
    KEY_SOURCES = 6,         /* random_u64(seed, this, source) is the seed of a source of a mix */
};

#endif
