/* See video_plan.h. The file `videos` has a line of JSON for each video, after a line with the
 * request. */
#include "workshop/ingest/video_plan.h"

#include "base/number.h"
#include "base/text.h"
#include "scan/team.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory for a plan of videos");
}

/* Looking at videos
 * ------------------------------------------------------------------------------------------- */

struct look {
    const struct video_list *list;
    const struct segment_wish *wish;
    struct video_plan *plan;
};

static enum status start(void *argument, void **ret_state, struct error *err)
{
    (void)err;
    *ret_state = argument;
    return STATUS_OK;
}

static void stop(void *argument, void *state)
{
    (void)argument;
    (void)state;
}

static enum status look_at(void *argument, void *state, uint64_t number, struct error *err)
{
    const struct look *look = argument;
    struct planned_video *planned = &look->plan->videos[number];
    struct video *video = NULL;
    (void)state;
    enum status status = video_open(look->list->videos[number].path, &video, err);
    if (status == STATUS_OK)
        status = video_segments_read(video, number, look->wish, &planned->segments, err);
    video_close(video);
    if (status == STATUS_OK)
        return STATUS_OK;
    if (!video_is_bad(status))
        return error_prefix(err, status, "video '%s': ", look->list->videos[number].path);
    planned->reason = strdup(err->message);
    return planned->reason ? STATUS_OK : no_memory(err);
}

static enum status look_at_all(const struct look *look, uint32_t thread_count, struct error *err)
{
    const struct team team = {
        .thread_count = thread_count,
        .work_count = look->list->count,
        .label = "looking at videos",
        .unit = "videos",
        .argument = (void *)(uintptr_t)look,
        .start = start,
        .run = look_at,
        .stop = stop,
    };
    return team_run(&team, err);
}

/* The plan as text
 * ------------------------------------------------------------------------------------------- */

static void append_segment(const struct video_segment *segment, uint32_t frame_count,
                           struct text *out)
{
    text_append(out, "[%" PRId64 ",%" PRId64 ",%" PRIu64, segment->start, segment->key_pts,
                segment->packet_count);
    for (uint32_t k = 0; segment->times && k < frame_count; k++)
        text_append(out, ",%" PRId64, segment->times[k]);
    text_append(out, "]");
}

static void append_video(const struct planned_video *video, uint32_t frame_count, struct text *out)
{
    const struct video_segments *segments = &video->segments;
    if (video->reason) {
        text_append(out, "{\"reason\":");
        text_append_json(out, video->reason);
        text_append(out, "}\n");
        return;
    }
    text_append(out,
                "{\"time_base\":[%d,%d],\"begin\":%" PRId64 ",\"duration\":%.17g,\"fps\":%.17g,"
                "\"width\":%d,\"height\":%d,\"ratio\":%.17g,\"segments\":[",
                segments->time_base.num, segments->time_base.den, segments->begin,
                segments->duration, segments->fps, segments->width, segments->height,
                segments->ratio);
    for (size_t i = 0; i < segments->count; i++) {
        text_append(out, i > 0 ? "," : "");
        append_segment(&segments->list[i], frame_count, out);
    }
    text_append(out, "]}\n");
}

static int64_t number_in(struct json_object *list, size_t i)
{
    return json_object_get_int64(json_object_array_get_idx(list, i));
}

static double member_of(struct json_object *object, const char *name)
{
    struct json_object *member = NULL;
    json_object_object_get_ex(object, name, &member);
    return json_object_get_double(member);
}

static enum status parse_segment(struct json_object *list, uint32_t frame_count,
                                 struct video_segment *segment, struct error *err)
{
    *segment = (struct video_segment){.start = number_in(list, 0),
                                      .key_pts = number_in(list, 1),
                                      .packet_count = (uint64_t)number_in(list, 2)};
    if (json_object_array_length(list) < 3 + (size_t)frame_count)
        return STATUS_OK;
    segment->times = calloc(frame_count, sizeof *segment->times);
    if (!segment->times)
        return no_memory(err);
    for (uint32_t k = 0; k < frame_count; k++)
        segment->times[k] = number_in(list, 3 + k);
    return STATUS_OK;
}

static enum status parse_segments(struct json_object *object, uint32_t frame_count,
                                  struct video_segments *segments, struct error *err)
{
    struct json_object *base = NULL, *begin = NULL, *list = NULL;
    json_object_object_get_ex(object, "time_base", &base);
    json_object_object_get_ex(object, "begin", &begin);
    json_object_object_get_ex(object, "segments", &list);
    if (!json_object_is_type(base, json_type_array) || !json_object_is_type(list, json_type_array))
        return error_set(err, STATUS_CORRUPT, "the plan of videos is damaged");
    segments->time_base = (AVRational){(int)number_in(base, 0), (int)number_in(base, 1)};
    segments->begin = json_object_get_int64(begin);
    segments->duration = member_of(object, "duration");
    segments->fps = member_of(object, "fps");
    segments->width = (int)member_of(object, "width");
    segments->height = (int)member_of(object, "height");
    segments->ratio = member_of(object, "ratio");
    segments->count = json_object_array_length(list);
    segments->list = calloc(segments->count + 1, sizeof *segments->list);
    if (!segments->list)
        return no_memory(err);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < segments->count && status == STATUS_OK; i++)
        status =
            parse_segment(json_object_array_get_idx(list, i), frame_count, &segments->list[i], err);
    return status;
}

static enum status parse_video(const char *line, uint32_t frame_count, struct planned_video *video,
                               struct error *err)
{
    struct json_object *object = json_tokener_parse(line), *reason = NULL;
    enum status status = STATUS_OK;
    if (!object)
        return error_set(err, STATUS_CORRUPT, "the plan of videos is damaged");
    if (json_object_object_get_ex(object, "reason", &reason)) {
        video->reason = strdup(json_object_get_string(reason));
        status = video->reason ? STATUS_OK : no_memory(err);
    } else {
        status = parse_segments(object, frame_count, &video->segments, err);
    }
    json_object_put(object);
    return status;
}

/* The file
 * ------------------------------------------------------------------------------------------- */

static enum status write_plan(int folder_fd, const char *request, const struct video_plan *plan,
                              uint32_t frame_count, struct error *err)
{
    struct text out = {0};
    text_append(&out, "{\"request\":\"%s\"}\n", request);
    for (size_t i = 0; i < plan->count; i++)
        append_video(&plan->videos[i], frame_count, &out);
    int fd = openat(folder_fd, "videos.new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool wrong = !file || fwrite(out.data, 1, out.length, file) != out.length;
    wrong = (file && fclose(file) != 0) || wrong;
    wrong = wrong || renameat(folder_fd, "videos.new", folder_fd, "videos") < 0;
    text_done(&out);
    return wrong ? error_set_errno(err, STATUS_IO, "write the plan of videos") : STATUS_OK;
}

static enum status read_lines(FILE *file, const char *request, uint32_t frame_count,
                              struct video_plan *plan, struct error *err)
{
    char expected[128], *line = NULL;
    size_t room = 0, count = 0;
    enum status status = STATUS_OK;
    snprintf(expected, sizeof expected, "{\"request\":\"%s\"}\n", request);
    if (getline(&line, &room, file) < 0 || strcmp(line, expected) != 0)
        status = error_set(err, STATUS_INVALID,
                           "the destination holds the beginning of another ingest: of other "
                           "videos, of such that have changed since, or with other options; "
                           "remove it to start anew");
    while (status == STATUS_OK && count < plan->count && getline(&line, &room, file) >= 0)
        status = parse_video(line, frame_count, &plan->videos[count++], err);
    if (status == STATUS_OK && count < plan->count)
        status = error_set(err, STATUS_CORRUPT, "the plan of videos is damaged");
    free(line);
    return status;
}

/* False: there is none. */
static bool open_plan(int folder_fd, FILE **ret_file)
{
    int fd = openat(folder_fd, "videos", O_RDONLY | O_CLOEXEC);
    *ret_file = fd < 0 ? NULL : fdopen(fd, "r");
    return *ret_file != NULL;
}

static enum status lock_folder(int folder_fd, int *ret_fd, struct error *err)
{
    int fd = openat(folder_fd, "videos.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                               "make the lock of the plan of videos");
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR) {
            enum status status = error_set_errno(err, STATUS_IO, "lock the plan of videos");
            close(fd);
            return status;
        }
    *ret_fd = fd;
    return STATUS_OK;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

/* The most segments whose keyframes are before the end of the first of them. */
static uint64_t count_shared(const struct video_segments *segments, const struct segment_wish *wish)
{
    uint64_t most = segments->count > 0;
    if (most == 0 || segments->list[0].times)
        return most;
    int64_t length = llrint(wish->seconds / av_q2d(segments->time_base));
    for (size_t i = 0, end = 1; i < segments->count; i++) {
        int64_t last = segments->begin + segments->list[i].start + length;
        while (end < segments->count && segments->list[end].key_pts <= last)
            end++;
        most = max_u64(most, end - i);
    }
    return most;
}

static void count_all(struct video_plan *plan, const struct segment_wish *wish)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct planned_video *video = &plan->videos[i];
        const struct video_segments *segments = &video->segments;
        plan->first_segments[i] = plan->segment_count;
        plan->segment_count += video->reason ? 0 : segments->count;
        plan->bad_count += video->reason != NULL;
        plan->most_pixels =
            max_u64(plan->most_pixels, (uint64_t)segments->width * (uint64_t)segments->height);
        plan->most_ratio = fmax(plan->most_ratio, segments->ratio);
        plan->most_shared = max_u64(plan->most_shared, count_shared(segments, wish));
    }
    plan->first_segments[plan->count] = plan->segment_count;
}

static enum status refuse_bad(const struct video_plan *plan, const struct video_list *list,
                              struct error *err)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->videos[i].reason)
            return error_set(err, STATUS_INVALID,
                             "video '%s': %s (%zu of %zu videos cannot be used; --bad skip leaves "
                             "them out)",
                             list->videos[i].path, plan->videos[i].reason, plan->bad_count,
                             plan->count);
    return STATUS_OK;
}

/* With the lock. */
static enum status make_plan(int folder_fd, const char *request, const struct look *look,
                             uint32_t thread_count, bool bad_is_error, struct error *err)
{
    enum status status = look_at_all(look, thread_count, err);
    if (status != STATUS_OK)
        return status;
    count_all(look->plan, look->wish);
    if (bad_is_error)
        status = refuse_bad(look->plan, look->list, err);
    if (status == STATUS_OK && look->plan->segment_count == 0)
        status = error_set(err, STATUS_INVALID, "no video can be used; '%s': %s",
                           look->list->videos[0].path, look->plan->videos[0].reason);
    if (status == STATUS_OK)
        status = write_plan(folder_fd, request, look->plan, look->wish->frame_count, err);
    return status;
}

static enum status settle(int folder_fd, const char *request, const struct look *look,
                          uint32_t thread_count, bool bad_is_error, struct error *err)
{
    FILE *file = NULL;
    int lock_fd = -1;
    enum status status = lock_folder(folder_fd, &lock_fd, err);
    if (status != STATUS_OK)
        return status;
    if (open_plan(folder_fd, &file)) {
        status = read_lines(file, request, look->wish->frame_count, look->plan, err);
        fclose(file);
        if (status == STATUS_OK)
            count_all(look->plan, look->wish);
    } else {
        status = make_plan(folder_fd, request, look, thread_count, bad_is_error, err);
    }
    close(lock_fd);
    return status;
}

enum status video_plan_settle(int folder_fd, const char *request, const struct video_list *list,
                              const struct segment_wish *wish, uint32_t thread_count,
                              bool bad_is_error, struct video_plan *ret_plan, struct error *err)
{
    struct video_plan plan = {.count = list->count};
    const struct look look = {.list = list, .wish = wish, .plan = &plan};
    plan.videos = calloc(list->count, sizeof *plan.videos);
    plan.first_segments = calloc(list->count + 1, sizeof *plan.first_segments);
    enum status status = plan.videos && plan.first_segments ? STATUS_OK : no_memory(err);
    if (status == STATUS_OK)
        status = settle(folder_fd, request, &look, thread_count, bad_is_error, err);
    if (status != STATUS_OK)
        video_plan_done(&plan);
    else
        *ret_plan = plan;
    return status;
}

void video_plan_done(struct video_plan *plan)
{
    for (size_t i = 0; plan->videos && i < plan->count; i++) {
        free(plan->videos[i].reason);
        video_segments_done(&plan->videos[i].segments);
    }
    free(plan->videos);
    free(plan->first_segments);
    *plan = (struct video_plan){0};
}
