/* See walk.h. */
#include "dataset/walk.h"

void walk_init(struct walk *walk, uint64_t count)
{
    *walk = (struct walk){.count = count, .status = STATUS_OK};
    pthread_mutex_init(&walk->mutex, NULL);
    pthread_cond_init(&walk->changed, NULL);
}

bool walk_take(struct walk *walk, uint64_t *ret_piece)
{
    pthread_mutex_lock(&walk->mutex);
    bool found = walk->status == STATUS_OK && walk->taken < walk->count;
    *ret_piece = walk->taken;
    walk->taken += found;
    pthread_mutex_unlock(&walk->mutex);
    return found;
}

bool walk_turn(struct walk *walk, uint64_t piece)
{
    pthread_mutex_lock(&walk->mutex);
    while (walk->ended < piece)
        pthread_cond_wait(&walk->changed, &walk->mutex);
    bool is_fine = walk->status == STATUS_OK;
    pthread_mutex_unlock(&walk->mutex);
    return is_fine;
}

void walk_end(struct walk *walk, uint64_t piece, enum status status, const struct error *error)
{
    pthread_mutex_lock(&walk->mutex);
    if (status != STATUS_OK && (walk->status == STATUS_OK || piece < walk->failed)) {
        walk->status = status;
        walk->error = *error;
        walk->failed = piece;
    }
    walk->ended++;
    pthread_cond_broadcast(&walk->changed);
    pthread_mutex_unlock(&walk->mutex);
}

enum status walk_done(struct walk *walk, struct error *err)
{
    pthread_mutex_destroy(&walk->mutex);
    pthread_cond_destroy(&walk->changed);
    if (walk->status != STATUS_OK && err)
        *err = walk->error;
    return walk->status;
}
