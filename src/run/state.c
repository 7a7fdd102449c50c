/* See state.h. json.h does the parsing; here every value is checked before it is believed. */
#include "run/state.h"

#include "base/size.h"
#include "dataset/dataset.h"
#include "plan/order/plan.h"
#include "zarr/metadata/json.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8, HEX_DIGITS = 16, OLDEST_VERSION = 1 };

static enum status get(struct json_object *object, const char *key, enum json_type type,
                       const char *type_text, struct json_object **ret_value, struct error *err)
{
    struct json_object *value;
    if (!json_object_object_get_ex(object, key, &value))
        return error_set(err, STATUS_INVALID, "resume state: it has no '%s'", key);
    if (!json_object_is_type(value, type))
        return error_set(err, STATUS_INVALID, "resume state: '%s' is not %s", key, type_text);
    *ret_value = value;
    return STATUS_OK;
}

/* json_read() clamps what does not fit. A negative number shows when printed; one beyond 64 bits
 * becomes the largest, which run_state_check() refuses as epoch, step and batch, and as a seed that
 * is not the run's. */
static enum status get_u64(struct json_object *object, const char *key, uint64_t *ret_number,
                           struct error *err)
{
    struct json_object *value;
    enum status status = get(object, key, json_type_int, "a whole number", &value, err);
    if (status)
        return status;
    uint64_t number = json_object_get_uint64(value);
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    if (strcmp(digits, json_object_to_json_string(value)) != 0)
        return error_set(err, STATUS_INVALID, "resume state: '%s' %s is not from 0 to 2^64-1", key,
                         json_object_to_json_string(value));
    *ret_number = number;
    return STATUS_OK;
}

/* A count of 1 to 2^32-1. */
static enum status get_count(struct json_object *object, const char *key, uint32_t *ret_count,
                             struct error *err)
{
    uint64_t number = 0;
    enum status status = get_u64(object, key, &number, err);
    if (!status && (number < 1 || number > UINT32_MAX))
        status = error_set(err, STATUS_INVALID,
                           "resume state: '%s' %" PRIu64 " is not from 1 to 2^32-1", key, number);
    if (!status)
        *ret_count = (uint32_t)number;
    return status;
}

static enum status get_hex(struct json_object *object, const char *key, uint64_t *ret_number,
                           struct error *err)
{
    struct json_object *value;
    enum status status = get(object, key, json_type_string, "a text", &value, err);
    if (status)
        return status;
    const char *text = json_object_get_string(value);
    if (json_object_get_string_len(value) != HEX_DIGITS ||
        strspn(text, "0123456789abcdefABCDEF") != HEX_DIGITS)
        return error_set(err, STATUS_INVALID, "resume state: '%s' is not %d hex digits", key,
                         HEX_DIGITS);
    *ret_number = strtoull(text, NULL, 16);
    return STATUS_OK;
}

static enum status get_version(struct json_object *object, uint64_t *ret_version, struct error *err)
{
    enum status status = get_u64(object, "version", ret_version, err);
    if (!status && (*ret_version < OLDEST_VERSION || *ret_version > ORDER_STATE_VERSION))
        return error_set(err, STATUS_UNSUPPORTED,
                         "resume state: version %" PRIu64 ", this release reads versions %d to %d",
                         *ret_version, OLDEST_VERSION, ORDER_STATE_VERSION);
    return status;
}

static enum status get_last(struct json_object *object, uint32_t *ret_last, struct error *err)
{
    struct json_object *value;
    enum status status = get(object, "last", json_type_string, "a text", &value, err);
    if (status)
        return status;
    int last = order_find_last(json_object_get_string(value));
    if (last < 0)
        return error_set(err, STATUS_INVALID,
                         "resume state: 'last' is none of drop, pad and partial");
    *ret_last = (uint32_t)last;
    return STATUS_OK;
}

static enum status get_shuffle(struct json_object *object, uint32_t *ret_shuffle, struct error *err)
{
    struct json_object *value;
    enum status status = get(object, "shuffle", json_type_boolean, "true or false", &value, err);
    if (!status)
        *ret_shuffle = json_object_get_boolean(value) != 0;
    return status;
}

/* A state without a placement is of a run with order.placement fixed. */
static enum status get_locality(struct json_object *object, uint32_t *ret_locality,
                                struct error *err)
{
    static const char *const names[] = {PLAN_PLACEMENT_NAMES};
    struct json_object *value;
    if (!json_object_object_get_ex(object, "placement", &value))
        return STATUS_OK;
    enum status status = get(object, "placement", json_type_string, "a text", &value, err);
    if (status)
        return status;
    const char *name = json_object_get_string(value);
    if (strcmp(name, names[PLAN_LOCAL]) == 0)
        return get_count(object, "locality", ret_locality, err);
    return strcmp(name, names[PLAN_FIXED]) == 0
               ? STATUS_OK
               : error_set(err, STATUS_INVALID,
                           "resume state: 'placement' is none of fixed and local");
}

/* The members that version 1 lacks. */
static enum status read_order(struct json_object *object, struct order *order, struct error *err)
{
    enum status status = get_hex(object, "order_id", &order->id, err);
    if (!status)
        status = get_count(object, "row_length", &order->row_length, err);
    if (!status)
        status = get_count(object, "window_rows", &order->window_rows, err);
    if (!status)
        status = get_shuffle(object, &order->shuffle, err);
    if (!status)
        status = get_last(object, &order->last, err);
    if (!status)
        status = get_locality(object, &order->locality, err);
    return status;
}

static enum status read_object(struct json_object *object, struct run_state *ret_state,
                               struct error *err)
{
    struct run_state state = {0};
    enum status status = get_version(object, &state.version, err);
    if (!status)
        status = get_hex(object, "dataset", &state.order.fingerprint, err);
    if (!status)
        status = get_u64(object, "seed", &state.order.seed, err);
    if (!status)
        status = get_u64(object, "epoch", &state.epoch, err);
    if (!status)
        status = get_u64(object, "step", &state.step, err);
    if (!status)
        status = get_count(object, "global_batch", &state.order.global_batch, err);
    if (!status && state.version > 1)
        status = read_order(object, &state.order, err);
    if (!status)
        *ret_state = state;
    return status;
}

/* How many members the outermost object of a valid document has as it is written. json-c keeps the
 * last of those with one name and says nothing. */
static int count_members(const char *json, size_t size)
{
    int depth = 0, count = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        char c = json[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted)
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        count += !quoted && depth == 1 && c == ':';
    }
    return count;
}

enum status run_state_parse(const char *json, size_t size, struct run_state *ret_state,
                            struct error *err)
{
    if (size > RUN_STATE_MAX_BYTES)
        return error_set(err, STATUS_INVALID, "resume state: %zu bytes; at most %d are read", size,
                         RUN_STATE_MAX_BYTES);
    struct json_object *object = NULL;
    size_t offset = 0;
    const char *problem = json_read(json, size, MAX_DEPTH, &object, &offset);
    enum status status;
    if (problem)
        status = error_set(err, STATUS_INVALID, "resume state: not JSON at byte %zu: %s", offset,
                           problem);
    else if (!json_object_is_type(object, json_type_object))
        status = error_set(err, STATUS_INVALID, "resume state: not a JSON object");
    else if (count_members(json, size) != json_object_object_length(object))
        status = error_set(err, STATUS_INVALID, "resume state: a key is there twice");
    else
        status = read_object(object, ret_state, err);
    json_object_put(object);
    return status;
}

enum status run_state_read_file(const char *path, struct run_state *ret_state, struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                               "open resume state '%s'", path);
    char json[RUN_STATE_MAX_BYTES + 1];
    size_t size = fread(json, 1, sizeof json, file);
    enum status status = ferror(file)
                             ? error_set_errno(err, STATUS_IO, "read resume state '%s'", path)
                             : run_state_parse(json, size, ret_state, err);
    if (status && !ferror(file))
        status = error_prefix(err, status, "'%s': ", path);
    fclose(file);
    return status;
}

void run_state_print(const struct run_state *state, struct text *out)
{
    char text[2 * ORDER_STATE_BYTES]; /* a state from outside may have any numbers */
    order_print_state(&state->order, state->epoch, state->step, text, sizeof text);
    text_append(out, "%s", text);
}

static enum status other_dataset(uint64_t saved, uint64_t now, struct error *err)
{
    struct text what = {0};
    dataset_compare_fingerprints(saved, now, &what);
    enum status status = error_set(err, STATUS_INVALID,
                                   "resume state: it is of dataset %016" PRIx64
                                   ", this run reads %016" PRIx64 ": they differ in: %s",
                                   saved, now, what.data);
    text_done(&what);
    return status;
}

/* The order that the state is of, as far as it says. */
static struct order order_of(const struct run_state *state, const struct order *now)
{
    struct order order = state->version > 1 ? state->order : *now;
    order.fingerprint = state->order.fingerprint;
    order.seed = state->order.seed;
    order.global_batch = state->order.global_batch;
    return order;
}

enum status run_state_check(const struct run_state *state, const struct ring_service *service,
                            struct error *err)
{
    const struct order *now = &service->order, saved = order_of(state, now);
    if (saved.fingerprint != now->fingerprint)
        return other_dataset(saved.fingerprint, now->fingerprint, err);
    if (order_check_same(&saved, now, err))
        return error_prefix(err, STATUS_INVALID, "resume state: ");
    if (state->step > service->steps_per_epoch)
        return error_set(err, STATUS_INVALID,
                         "resume state: step %" PRIu64 " lies beyond an epoch's %" PRIu64 " step%s",
                         state->step, service->steps_per_epoch,
                         count_plural(service->steps_per_epoch));
    uint64_t epochs_over = state->step == service->steps_per_epoch;
    if (state->epoch >= service->epochs || state->epoch + epochs_over >= service->epochs)
        return error_set(err, STATUS_INVALID,
                         "resume state: epoch %" PRIu64 ", step %" PRIu64
                         " lies at or beyond the end of order.epochs %" PRIu64
                         ": raise order.epochs",
                         state->epoch, state->step, service->epochs);
    return STATUS_OK;
}

void run_state_describe_gaps(const struct ring_service *service, struct text *out)
{
    const struct order *order = &service->order;
    text_append(out,
                "the state is of version 1, and does not say order.window_rows, order.shuffle and "
                "batch.last, which are %" PRIu32 ", %s and %s in this run: if they were others in "
                "the run that saved it (its log has the windows), samples are lost and repeated",
                order->window_rows, order->shuffle ? "true" : "false",
                order_last_name(order->last));
}
