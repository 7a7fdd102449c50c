/* See order.h. */
#include "delivery/ring/order.h"

#include "plan/order/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const last_names[] = {PLAN_LAST_NAMES};

static const char *const placement_names[] = {PLAN_PLACEMENT_NAMES};

enum { LAST_COUNT = sizeof last_names / sizeof last_names[0] };

const char *order_last_name(uint32_t last)
{
    return last_names[last];
}

int order_find_last(const char *name)
{
    for (int i = 0; i < LAST_COUNT; i++)
        if (strcmp(last_names[i], name) == 0)
            return i;
    return -1;
}

static const char *shuffle_text(const struct order *order)
{
    return order->shuffle ? "true" : "false";
}

bool order_has_equal_steps(const struct order *order)
{
    return order->last != PLAN_PARTIAL;
}

bool order_makes_sense(const struct order *order)
{
    return order->global_batch > 0 && order->row_length > 0 && order->window_rows > 0 &&
           order->shuffle <= 1 && order->last < LAST_COUNT;
}

static const char *placement_text(const struct order *order)
{
    return placement_names[order->locality ? PLAN_LOCAL : PLAN_FIXED];
}

static enum status differs(const char *what, const char *before, const char *now, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "%s was %s, this run has %s: the order would not continue; use the same %s",
                     what, before, now, what);
}

static enum status compare(const char *what, uint64_t before, uint64_t now, struct error *err)
{
    char texts[2][24];
    if (before == now)
        return STATUS_OK;
    snprintf(texts[0], sizeof texts[0], "%" PRIu64, before);
    snprintf(texts[1], sizeof texts[1], "%" PRIu64, now);
    return differs(what, texts[0], texts[1], err);
}

enum status order_check_same(const struct order *before, const struct order *now, struct error *err)
{
    char texts[2][24];
    if (before->fingerprint != now->fingerprint) {
        snprintf(texts[0], sizeof texts[0], "%016" PRIx64, before->fingerprint);
        snprintf(texts[1], sizeof texts[1], "%016" PRIx64, now->fingerprint);
        return differs("dataset", texts[0], texts[1], err);
    }
    enum status status = compare("order.seed", before->seed, now->seed, err);
    if (status == STATUS_OK)
        status = compare("batch.global_size", before->global_batch, now->global_batch, err);
    if (status == STATUS_OK)
        status = compare("order.window_rows", before->window_rows, now->window_rows, err);
    if (status == STATUS_OK)
        status = compare("chunk row length", before->row_length, now->row_length, err);
    if (status == STATUS_OK && before->shuffle != now->shuffle)
        status = differs("order.shuffle", shuffle_text(before), shuffle_text(now), err);
    if (status == STATUS_OK && before->last != now->last)
        status = differs("batch.last", last_names[before->last], last_names[now->last], err);
    if (status == STATUS_OK && !before->locality != !now->locality)
        status = error_set(err, STATUS_INVALID,
                           "order.placement was %s, this run has %s: trainers would get samples a "
                           "second time; go on with --set order.placement=%s",
                           placement_text(before), placement_text(now), placement_text(before));
    if (status == STATUS_OK && before->id != now->id)
        status = error_set(
            err, STATUS_INVALID,
            "order id was %016" PRIx64 ", this run has %016" PRIx64
            ": the order would not continue: the release of Penstock differs, or, "
            "of a mix, mix.samples, a weight, mix.schedule, the order of the sources, or a "
            "source's window_rows, shuffle, samples or split; use the same",
            before->id, now->id);
    return status;
}

int order_print_state(const struct order *order, uint64_t epoch, uint64_t step, char *buffer,
                      size_t size)
{
    char placement[64] = "";
    if (order->locality)
        snprintf(placement, sizeof placement, ",\"placement\":\"%s\",\"locality\":%" PRIu32,
                 placement_text(order), order->locality);
    return snprintf(buffer, size,
                    "{\"version\":%d,\"dataset\":\"%016" PRIx64 "\",\"order_id\":\"%016" PRIx64
                    "\",\"seed\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"step\":%" PRIu64
                    ",\"global_batch\":%" PRIu32 ",\"row_length\":%" PRIu32
                    ",\"window_rows\":%" PRIu32 ",\"shuffle\":%s,\"last\":\"%s\"%s}",
                    ORDER_STATE_VERSION, order->fingerprint, order->id, order->seed, epoch, step,
                    order->global_batch, order->row_length, order->window_rows, shuffle_text(order),
                    last_names[order->last], placement);
}
