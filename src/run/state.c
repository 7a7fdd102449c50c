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

/* What the value of a key is. */
enum kind { VERSION, NUMBER, COUNT, HEX, BOOLEAN, LAST, PLACEMENT };
static const struct {
    enum json_type type;
    const char *text;
} kinds[] = {
    [VERSION] = {json_type_int, "a whole number"},   [NUMBER] = {json_type_int, "a whole number"},
    [COUNT] = {json_type_int, "a whole number"},     [HEX] = {json_type_string, "a text"},
    [LAST] = {json_type_string, "a text"},           [PLACEMENT] = {json_type_string, "a text"},
    [BOOLEAN] = {json_type_boolean, "true or false"}};

/* Name, kind, member of struct run_state, and the first version that has it; behind the version.
 */
#define STATE_KEYS(KEY)                             \
    KEY(dataset, HEX, order.fingerprint, 1)         \
    KEY(seed, NUMBER, order.seed, 1)                \
    KEY(epoch, NUMBER, epoch, 1)                    \
    KEY(step, NUMBER, step, 1)                      \
    KEY(global_batch, COUNT, order.global_batch, 1) \
    KEY(order_id, HEX, order.id, 2)                 \
    KEY(row_length, COUNT, order.row_length, 2)     \
    KEY(window_rows, COUNT, order.window_rows, 2)   \
    KEY(shuffle, BOOLEAN, order.shuffle, 2)         \
    KEY(last, LAST, order.last, 2)                  \
    KEY(placement, PLACEMENT, order.locality, 2)

/* json_read() clamps what does not fit. A negative number shows when printed; one beyond 64 bits
 * becomes the largest, which run_state_check() refuses as epoch, step and batch, and as a seed that
 * is not the run's. A count is 1 to 2^32-1. */
static enum status read_number(const char *key, enum kind kind, struct json_object *value,
                               uint64_t *ret_number, struct error *err)
{
    uint64_t number = json_object_get_uint64(value);
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    if (strcmp(digits, json_object_to_json_string(value)) != 0)
        return error_set(err, STATUS_INVALID, "resume state: '%s' %s is not from 0 to 2^64-1", key,
                         json_object_to_json_string(value));
    if (kind == COUNT && (number < 1 || number > UINT32_MAX))
        return error_set(err, STATUS_INVALID,
                         "resume state: '%s' %" PRIu64 " is not from 1 to 2^32-1", key, number);
    if (kind == VERSION && (number < OLDEST_VERSION || number > ORDER_STATE_VERSION))
        return error_set(err, STATUS_UNSUPPORTED,
                         "resume state: version %" PRIu64 ", this release reads versions %d to %d",
                         number, OLDEST_VERSION, ORDER_STATE_VERSION);
    *ret_number = number;
    return STATUS_OK;
}

static enum status read_hex(const char *key, struct json_object *value, uint64_t *ret_number,
                            struct error *err)
{
    const char *text = json_object_get_string(value);
    if (json_object_get_string_len(value) != HEX_DIGITS ||
        strspn(text, "0123456789abcdefABCDEF") != HEX_DIGITS)
        return error_set(err, STATUS_INVALID, "resume state: '%s' is not %d hex digits", key,
                         HEX_DIGITS);
    *ret_number = strtoull(text, NULL, 16);
    return STATUS_OK;
}

static int find_placement(const char *name)
{
    static const char *const names[] = {PLAN_PLACEMENT_NAMES};
    return strcmp(name, names[PLAN_FIXED]) == 0   ? PLAN_FIXED
           : strcmp(name, names[PLAN_LOCAL]) == 0 ? PLAN_LOCAL
                                                  : -1;
}

static enum status read_word(const char *key, enum kind kind, struct json_object *value,
                             uint64_t *ret_number, struct error *err)
{
    const char *word = json_object_get_string(value);
    int number = kind == LAST ? order_find_last(word) : find_placement(word);
    if (number < 0)
        return error_set(err, STATUS_INVALID, "resume state: '%s' is none of %s", key,
                         kind == LAST ? "drop, pad and partial" : "fixed and local");
    *ret_number = (uint64_t)number;
    return STATUS_OK;
}

/* A state without a placement is of a run with order.placement fixed. */
static enum status read_key(struct json_object *object, const char *key, enum kind kind,
                            uint64_t *ret_number, struct error *err)
{
    struct json_object *value;
    bool has = json_object_object_get_ex(object, key, &value);
    if (!has && kind != PLACEMENT)
        return error_set(err, STATUS_INVALID, "resume state: it has no '%s'", key);
    if (has && !json_object_is_type(value, kinds[kind].type))
        return error_set(err, STATUS_INVALID, "resume state: '%s' is not %s", key,
                         kinds[kind].text);
    if (has && kinds[kind].type == json_type_int)
        return read_number(key, kind, value, ret_number, err);
    if (has && kind == HEX)
        return read_hex(key, value, ret_number, err);
    if (has && kind != BOOLEAN)
        return read_word(key, kind, value, ret_number, err);
    *ret_number = has ? json_object_get_boolean(value) != 0 : PLAN_FIXED;
    return STATUS_OK;
}

static enum status read_object(struct json_object *object, struct run_state *ret_state,
                               struct error *err)
{
    struct run_state state = {0};
    uint64_t number = 0;
    enum status status = read_key(object, "version", VERSION, &state.version, err);
#define READ(key, kind, member, since)                       \
    if (!status && state.version >= (since)) {               \
        status = read_key(object, #key, kind, &number, err); \
        state.member = (typeof(state.member))number;         \
    }
    STATE_KEYS(READ)
#undef READ
    if (status == STATUS_OK && state.order.locality == PLAN_LOCAL) {
        status = read_key(object, "locality", COUNT, &number, err);
        state.order.locality = (uint32_t)number;
    }
    if (status == STATUS_OK)
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
    if (status != STATUS_OK && !ferror(file))
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
    if (order_check_same(&saved, now, err) != STATUS_OK)
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
