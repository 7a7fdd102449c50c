/* An ingest from start to end. See ingest.h. */
#include "workshop/ingest/ingest.h"

#include "base/clock.h"
#include "base/file.h"
#include "workshop/ingest/ingest_internal.h"
#include "workshop/making/journal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The request
 * ------------------------------------------------------------------------------------------- */

static void append_options(const struct ingest_options *options, struct text *out)
{
    text_append(out, "penstock ingest 1\n%" PRIu64 " %" PRIu64 " %.17g %.17g %u %s %d %d\n",
                options->seed, options->segments, options->seconds, options->fps, options->size,
                dtype_name(options->dtype), options->channels_first, options->bad_is_error);
    for (int i = 0; i < 3; i++)
        text_append(out, "%.17g %.17g\n", options->mean[i], options->std[i]);
    text_append(out, "%" PRIu64 " %" PRIu64 " %s %d %s\n", options->chunk, options->shard,
                options->codec, options->level, options->shuffle ? options->shuffle : "");
}

/* A file that has changed since has another size or another time. */
static void append_videos(const struct video_list *list, struct text *out)
{
    for (size_t i = 0; i < list->count; i++) {
        struct stat info = {0};
        bool is_there = stat(list->videos[i].path, &info) == 0;
        text_append(out, "%s\n%s\n%d %lld %lld.%09ld\n", list->videos[i].path, list->videos[i].name,
                    is_there, (long long)info.st_size, (long long)info.st_mtim.tv_sec,
                    info.st_mtim.tv_nsec);
    }
}

static void append_encoders(const struct encoding_options *encoding, struct text *out)
{
    text_append(out, "encode %" PRIu64 " %s\n", encoding->batch, encoding->command);
}

/* `with_encoders`: what encoders make of the frames is part of the request. */
static struct digest_text make_request(const struct ingest *ingest, bool with_encoders)
{
    struct text text = {0};
    append_options(ingest->options, &text);
    if (with_encoders && ingest->options->encoding.command)
        append_encoders(&ingest->options->encoding, &text);
    append_videos(&ingest->list, &text);
    if (ingest->text.count > 0) {
        text_append(&text, "%" PRIu64 " %s\n", ingest->text.length, dtype_name(ingest->text.dtype));
        text_append_bytes(&text, ingest->text.values,
                          ingest->text.count * ingest->text.length *
                              dtype_bytes(ingest->text.dtype));
    }
    struct digest_text request = digest_of_text(text.data, text.length);
    text_done(&text);
    return request;
}

/* Report
 * ------------------------------------------------------------------------------------------- */

enum { NAMED_MOST = 20 };

static void name_bad_videos(const struct ingest *ingest)
{
    size_t named = 0;
    for (size_t i = 0; i < ingest->plan.count; i++) {
        const char *reason = ingest->plan.videos[i].reason;
        if (!reason)
            continue;
        if (named++ < NAMED_MOST)
            fprintf(stderr, "left out: '%s': %s\n", text_shown(ingest->list.videos[i].path).text,
                    reason);
    }
    if (named > NAMED_MOST)
        fprintf(stderr, "left out: %zu more videos (--report FILE names all)\n",
                named - NAMED_MOST);
}

/* Calls for each line "<segment> <reason>". */
static void append_bad_segments(const struct ingest *ingest, bool as_json, struct text *out)
{
    uint64_t named = 0;
    const char *line = ingest->bad.reasons.data;
    for (; line && *line; line = strchr(line, '\n') + 1) {
        char *reason = NULL;
        uint64_t segment = strtoull(line, &reason, 10);
        size_t length = strcspn(++reason, "\n");
        char *copy = strndup(reason, length);
        if (as_json) {
            text_append(out, "%s{\"segment\":%" PRIu64 ",\"reason\":", named ? "," : "", segment);
            text_append_json(out, copy ? copy : "");
            text_append(out, "}");
        } else if (named < NAMED_MOST) {
            text_append(out, "segment %" PRIu64 " is not valid: %s\n", segment, copy ? copy : "");
        }
        named++;
        free(copy);
    }
}

static void append_report(const struct ingest *ingest, const struct ingest_result *result,
                          struct text *out)
{
    size_t named = 0;
    text_append(out, "{\"videos\":%zu,\"segments\":%" PRIu64 ",\"frames_per_segment\":%u,",
                ingest->plan.count, ingest->plan.segment_count, ingest->wish.frame_count);
    text_append(out, "\"digest\":\"%s\",\"bad_videos\":[", result->making.digest.text);
    for (size_t i = 0; i < ingest->plan.count; i++) {
        if (!ingest->plan.videos[i].reason)
            continue;
        text_append(out, "%s{\"video\":%zu,\"path\":", named++ ? "," : "", i);
        text_append_json(out, ingest->list.videos[i].path);
        text_append(out, ",\"reason\":");
        text_append_json(out, ingest->plan.videos[i].reason);
        text_append(out, "}");
    }
    text_append(out, "],\"bad_segments\":[");
    append_bad_segments(ingest, true, out);
    text_append(out, "]}\n");
}

/* Names what was left out on standard error, and writes the report where one is wanted. IO. */
static enum status write_report(const struct ingest *ingest, const struct ingest_result *result,
                                struct error *err)
{
    struct text out = {0};
    enum status status = STATUS_OK;
    if (result->making.slabs_left > 0 || result->making.already_complete)
        return STATUS_OK; /* another part reports */
    name_bad_videos(ingest);
    append_bad_segments(ingest, false, &out);
    if (out.data)
        fputs(out.data, stderr);
    text_done(&out);
    if (ingest->options->report) {
        append_report(ingest, result, &out);
        status = file_replace(ingest->options->report, out.data, out.length, err);
        text_done(&out);
    }
    return status;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

static enum status prepare(struct ingest *ingest, struct error *err)
{
    const struct ingest_options *options = ingest->options;
    double frames = rint(options->seconds * options->fps);
    if (frames > SEGMENT_MOST_FRAMES)
        return error_set(
            err, STATUS_INVALID,
            "a segment of %.7g seconds with %.7g frames a second has %.0f frames: %d at "
            "most",
            options->seconds, options->fps, frames, SEGMENT_MOST_FRAMES);
    ingest->wish = (struct segment_wish){
        .seed = options->seed,
        .most = options->segments,
        .seconds = options->seconds,
        .fps = options->fps,
        .frame_count = frames > 1 ? (uint32_t)frames : 1,
    };
    ingest->targets.work = "ingest";
    ingest->targets.folder = ".penstock-ingest";
    pixel_table_fill(&ingest->pixels, options->dtype, options->channels_first, options->mean,
                     options->std);
    video_start_logging();
    enum status status = making_path(options->making.destination, &ingest->path, err);
    if (status == STATUS_OK)
        status = video_list_read(options->list, &ingest->list, err);
    if (status == STATUS_OK && options->text)
        status = text_rows_read(options->text, ingest->list.count, &ingest->text, err);
    if (status == STATUS_OK && options->report)
        status = file_check_writable(options->report, err);
    return status;
}

/* Nothing is left where there was nothing. */
static void remove_folder(const struct ingest *ingest)
{
    char path[4096];
    if (ingest->options->making.part_count > 1 ||
        faccessat(ingest->folder_fd, "videos", F_OK, 0) == 0)
        return;
    unlinkat(ingest->folder_fd, "videos.lock", 0);
    snprintf(path, sizeof path, "%s/%s", ingest->path, ingest->targets.folder);
    if (rmdir(path) == 0)
        rmdir(ingest->path);
}

static enum status plan_videos(struct ingest *ingest, const char *request, struct error *err)
{
    const struct ingest_options *options = ingest->options;
    struct digest_text videos = make_request(ingest, false);
    enum status status =
        journal_open_folder(ingest->path, &ingest->targets, &ingest->folder_fd, err);
    if (status != STATUS_OK)
        return status;
    status =
        video_plan_settle(ingest->folder_fd, videos.text, &ingest->list, &ingest->wish,
                          options->making.thread_count, options->bad_is_error, &ingest->plan, err);
    if (status != STATUS_OK)
        remove_folder(ingest);
    if (status == STATUS_OK)
        status = bad_segments_start(&ingest->bad, ingest->folder_fd, options->making.part,
                                    ingest->plan.segment_count, err);
    return status != STATUS_OK ? status : ingest_make_targets(ingest, request, err);
}

static bool has_ended(const struct ingest *ingest, const char *request)
{
    return making_has_ended(ingest->path, ingest->targets.folder, request);
}

static enum status ingest_all(struct ingest *ingest, struct ingest_result *result,
                              struct error *err)
{
    const struct making_options *making = &ingest->options->making;
    enum status status = prepare(ingest, err);
    if (status != STATUS_OK)
        return status;
    struct digest_text request = make_request(ingest, true);
    bool shared = making->part_count > 1;
    if (!shared || !has_ended(ingest, request.text))
        status = plan_videos(ingest, request.text, err);
    else
        result->making.already_complete = true;
    if (status != STATUS_OK && shared && has_ended(ingest, request.text)) {
        result->making.already_complete = true; /* in this very moment */
        status = STATUS_OK;
    }
    if (status == STATUS_OK && !result->making.already_complete)
        status = ingest->encoding ? encoding_make(ingest->encoding, making, &ingest->targets,
                                                  &result->making, err)
                                  : making_run(making, &ingest->targets, &result->making, err);
    result->video_count = ingest->list.count;
    result->bad_video_count = ingest->plan.bad_count;
    result->segment_count = ingest->plan.segment_count;
    result->bad_segment_count = ingest->bad.count;
    return status != STATUS_OK ? status : write_report(ingest, result, err);
}

enum status ingest_run(const struct ingest_options *options, struct ingest_result *ret_result,
                       struct error *err)
{
    struct ingest ingest = {.options = options, .folder_fd = -1};
    struct ingest_result result = {0};
    uint64_t start_ns = clock_now_ns();
    enum status status = ingest_all(&ingest, &result, err);
    result.making.elapsed_ns = clock_now_ns() - start_ns;
    if (status == STATUS_OK)
        *ret_result = result;
    if (ingest.folder_fd >= 0)
        close(ingest.folder_fd);
    encoding_free(ingest.encoding);
    targets_done(&ingest.frames);
    bad_segments_done(&ingest.bad);
    targets_done(&ingest.targets);
    video_plan_done(&ingest.plan);
    text_rows_done(&ingest.text);
    video_list_done(&ingest.list);
    free(ingest.path);
    return status;
}
