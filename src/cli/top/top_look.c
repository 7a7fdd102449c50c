/* See top_look.h. */
#include "cli/top/top_look.h"

#include "base/clock.h"
#include "delivery/ring/rundir.h"

#include <stdlib.h>

void top_look_done(struct top_look *look)
{
    for (size_t i = 0; i < look->count; i++)
        free(look->snapshots[i]);
    look->count = 0;
}

static int by_rank(const void *left, const void *right)
{
    const struct metrics_snapshot *a = *(void *const *)left, *b = *(void *const *)right;
    return (a->reader > b->reader) - (a->reader < b->reader);
}

/* A reader may end at any time. */
static enum status look_here(const struct top_watch *watch, struct top_look *look,
                             struct error *err)
{
    static uint32_t readers[TOP_MOST_READERS];
    size_t count = rundir_readers(watch->dir, readers, TOP_MOST_READERS);
    for (size_t i = 0; i < count; i++) {
        enum status status =
            metrics_file_read(watch->dir, readers[i], &look->snapshots[look->count], err);
        if (status == STATUS_OK)
            look->count++;
        else if (status != STATUS_NOT_FOUND)
            return status;
    }
    if (look->count == 0)
        return error_set(err, STATUS_NOT_FOUND, "no reader of this node runs here");
    return STATUS_OK;
}

static uint32_t others_count(const struct top_watch *watch)
{
    uint32_t count = watch->others.fd < 0 ? 0 : watch->others.reader_count;
    return count < TOP_MOST_READERS ? count : TOP_MOST_READERS;
}

/* Readers of other nodes that have answered since the watch began. */
static enum status look_elsewhere(const struct top_watch *watch, struct top_look *look,
                                  struct error *err)
{
    for (uint32_t r = 0; r < others_count(watch) && look->count < TOP_MOST_READERS; r++) {
        struct metrics_snapshot *snapshot;
        enum status status = metrics_overview_get(&watch->others, r, &snapshot, err);
        if (status == STATUS_NOT_FOUND)
            continue;
        if (status != STATUS_OK)
            return status;
        if (snapshot->now_ms == watch->old_ms[r])
            free(snapshot);
        else
            look->snapshots[look->count++] = snapshot;
    }
    return STATUS_OK;
}

enum status top_look_take(const struct top_watch *watch, struct top_look *ret_look,
                          struct error *err)
{
    ret_look->count = 0;
    enum status status = look_here(watch, ret_look, err);
    if (status == STATUS_OK)
        status = look_elsewhere(watch, ret_look, err);
    if (status != STATUS_OK) {
        top_look_done(ret_look);
        return status;
    }
    qsort(ret_look->snapshots, ret_look->count, sizeof ret_look->snapshots[0], by_rank);
    return STATUS_OK;
}

static enum status note_old(struct top_watch *watch, struct error *err)
{
    for (uint32_t r = 0; r < others_count(watch); r++) {
        struct metrics_snapshot *snapshot;
        enum status status = metrics_overview_get(&watch->others, r, &snapshot, err);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            return status;
        watch->old_ms[r] = status == STATUS_OK ? snapshot->now_ms : 0;
        if (status == STATUS_OK)
            free(snapshot);
    }
    return STATUS_OK;
}

enum status top_watch_begin(struct top_watch *watch, int dir, struct error *err)
{
    const uint64_t patience_ns = 3000000000, pause_ns = 50000000;
    static struct top_look look;
    watch->dir = dir;
    watch->others.fd = -1;
    enum status status = metrics_overview_watch(dir, &watch->others, err);
    if (status == STATUS_NOT_FOUND)
        status = STATUS_OK;
    if (status == STATUS_OK)
        status = note_old(watch, err);
    for (uint64_t start_ns = clock_now_ns(); status == STATUS_OK; clock_sleep_ns(pause_ns)) {
        status = top_look_take(watch, &look, err);
        bool all = status != STATUS_OK || watch->others.fd < 0 ||
                   look.count >= look.snapshots[0]->reader_count;
        top_look_done(&look);
        if (all || clock_now_ns() - start_ns > patience_ns)
            break;
    }
    return status;
}

void top_watch_end(struct top_watch *watch)
{
    metrics_overview_close(&watch->others);
}

void top_look_pair(const struct top_look *before, const struct top_look *now,
                   struct metrics_pair *pairs)
{
    for (size_t i = 0, k = 0; i < now->count; i++) {
        pairs[i] = (struct metrics_pair){now->snapshots[i], now->snapshots[i]};
        while (k < before->count && before->snapshots[k]->reader < now->snapshots[i]->reader)
            k++;
        if (k < before->count && before->snapshots[k]->reader == now->snapshots[i]->reader &&
            before->snapshots[k]->pid == now->snapshots[i]->pid)
            pairs[i].before = before->snapshots[k];
    }
}
