/* See trace_merge.h. */
#include "cli/trace/trace_merge.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct merge {
    struct json_object *out, *events; /* `events` is in `out` in the end */
    struct json_object *seen;         /* pid, as text: the number of the file that has it */
    int64_t base_ns;                  /* of `out` */
};

static enum status read_trace(const char *path, struct json_object **ret_trace, struct error *err)
{
    struct json_object *events;
    if (access(path, R_OK) != 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "open '%s'",
                               path);
    struct json_object *trace = json_object_from_file(path);
    if (json_object_is_type(trace, json_type_object) &&
        json_object_object_get_ex(trace, "traceEvents", &events) &&
        json_object_is_type(events, json_type_array)) {
        *ret_trace = trace;
        return STATUS_OK;
    }
    json_object_put(trace);
    return error_set(err, STATUS_INVALID,
                     "'%s' is no trace: it should be JSON with an array 'traceEvents', as "
                     "--trace and torch.profiler's export_chrome_trace() write",
                     path);
}

static int64_t base_of(struct json_object *trace)
{
    struct json_object *base;
    bool has = json_object_object_get_ex(trace, "baseTimeNanoseconds", &base);
    return has ? json_object_get_int64(base) : 0;
}

/* When an event was, in nanoseconds from its trace's base. False: it names something, and has no
 * time. */
static bool time_of(struct json_object *event, int64_t *ret_ns)
{
    struct json_object *ts, *phase;
    if (!json_object_object_get_ex(event, "ts", &ts) ||
        (json_object_object_get_ex(event, "ph", &phase) &&
         json_object_is_type(phase, json_type_string) &&
         strcmp(json_object_get_string(phase), "M") == 0))
        return false;
    *ret_ns = llround(json_object_get_double(ts) * 1e3);
    return true;
}

/* The first moment of a trace, since 1970. Merged times are counted from there: torch.profiler's
 * base is months ago, and the digits of a double do not hold the nanoseconds of such times, so that
 * spans that follow one another would overlap. */
static int64_t first_ns(struct json_object *trace)
{
    struct json_object *events = json_object_object_get(trace, "traceEvents");
    int64_t first = INT64_MAX, ns;
    for (size_t i = 0; i < json_object_array_length(events); i++)
        if (time_of(json_object_array_get_idx(events, i), &ns) && ns < first)
            first = ns;
    return base_of(trace) + (first == INT64_MAX ? 0 : first);
}

static void move_time(struct json_object *event, int64_t shift_ns)
{
    char text[48];
    int64_t ns;
    if (!time_of(event, &ns))
        return;
    ns += shift_ns;
    snprintf(text, sizeof text, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
    json_object_object_add(event, "ts", json_object_new_double_s((double)ns / 1e3, text));
}

/* A process whose number is another file's gets that number and the file's. */
static void rename_process(struct merge *merge, struct json_object *event, size_t file)
{
    struct json_object *pid, *owner;
    char text[512];
    if (!json_object_object_get_ex(event, "pid", &pid))
        return;
    const char *name = json_object_get_string(pid);
    if (!json_object_object_get_ex(merge->seen, name, &owner)) {
        owner = json_object_new_int64((int64_t)file);
        json_object_object_add(merge->seen, name, owner);
    }
    if (json_object_get_int64(owner) == (int64_t)file)
        return;
    if (json_object_is_type(pid, json_type_int)) {
        const int64_t apart = 10000000;
        int64_t number = json_object_get_int64(pid) + (int64_t)file * apart;
        json_object_object_add(event, "pid", json_object_new_int64(number));
        return;
    }
    snprintf(text, sizeof text, "%.480s #%zu", name, file + 1);
    json_object_object_add(event, "pid", json_object_new_string(text));
}

static void add_trace(struct merge *merge, struct json_object *trace, size_t file)
{
    struct json_object *events = json_object_object_get(trace, "traceEvents");
    int64_t shift_ns = base_of(trace) - merge->base_ns;
    for (size_t i = 0; i < json_object_array_length(events); i++) {
        struct json_object *event = json_object_array_get_idx(events, i);
        if (!json_object_is_type(event, json_type_object))
            continue;
        move_time(event, shift_ns);
        rename_process(merge, event, file);
        json_object_array_add(merge->events, json_object_get(event));
    }
    json_object_object_foreach(trace, key, value)
    {
        if (strcmp(key, "traceEvents") != 0 && !json_object_object_get_ex(merge->out, key, NULL))
            json_object_object_add(merge->out, key, json_object_get(value));
    }
}

static enum status write_merged(struct merge *merge, const char *path, struct error *err)
{
    json_object_object_add(merge->out, "traceEvents", json_object_get(merge->events));
    const char *text = json_object_to_json_string_ext(
        merge->out, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    return file_replace(path, text, strlen(text), err);
}

enum status trace_merge(const char *const *paths, size_t count, const char *out_path,
                        struct error *err)
{
    struct json_object *traces = json_object_new_array();
    struct merge merge = {.out = json_object_new_object(),
                          .events = json_object_new_array(),
                          .seen = json_object_new_object(),
                          .base_ns = INT64_MAX};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        struct json_object *trace;
        status = read_trace(paths[i], &trace, err);
        if (status != STATUS_OK)
            break;
        json_object_array_add(traces, trace);
        if (first_ns(trace) < merge.base_ns)
            merge.base_ns = first_ns(trace);
    }
    if (status == STATUS_OK) {
        json_object_object_add(merge.out, "baseTimeNanoseconds",
                               json_object_new_int64(merge.base_ns));
        for (size_t i = 0; i < count; i++)
            add_trace(&merge, json_object_array_get_idx(traces, i), i);
        status = write_merged(&merge, out_path, err);
    }
    json_object_put(merge.out);
    json_object_put(merge.events);
    json_object_put(merge.seen);
    json_object_put(traces);
    return status;
}
