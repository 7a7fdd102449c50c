/* See latch.h. */
#include "read/latch.h"

void latch_init(struct latch *latch, uint32_t count)
{
    pthread_mutex_init(&latch->mutex, NULL);
    pthread_cond_init(&latch->reached, NULL);
    latch->left = count;
}

void latch_done(struct latch *latch)
{
    pthread_mutex_destroy(&latch->mutex);
    pthread_cond_destroy(&latch->reached);
}

void latch_count_down(struct latch *latch, uint32_t count)
{
    pthread_mutex_lock(&latch->mutex);
    latch->left -= count;
    if (latch->left == 0)
        pthread_cond_signal(&latch->reached);
    pthread_mutex_unlock(&latch->mutex);
}

void latch_wait(struct latch *latch)
{
    pthread_mutex_lock(&latch->mutex);
    while (latch->left > 0)
        pthread_cond_wait(&latch->reached, &latch->mutex);
    pthread_mutex_unlock(&latch->mutex);
}
