/* penstock-bench-ingest: FFmpeg's own decoder on the segments that penstock ingest video would cut.
 *
 * Plans segments as ingest does, then decodes each from its keyframe to its last frame, with
 * threads that have a decoder each. Nothing is scaled and nothing is written. Prints one JSON
 * object: segments/s.
 */
#include "base/clock.h"
#include "scan/team.h"
#include "workshop/ingest/video_plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct bench {
    struct video_list list;
    struct segment_wish wish;
    struct video_plan plan;
};

/* A thread's. */
struct decoder {
    struct video *video;
    size_t number;
};

static enum status start(void *argument, void **ret_state, struct error *err)
{
    (void)argument;
    *ret_state = calloc(1, sizeof(struct decoder));
    return *ret_state ? STATUS_OK : error_set(err, STATUS_NO_MEMORY, "no memory for a decoder");
}

static void stop(void *argument, void *state)
{
    struct decoder *decoder = state;
    (void)argument;
    video_close(decoder->video);
    free(decoder);
}

static enum status drain(struct video *video, struct error *err)
{
    bool taken = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && taken)
        status = video_take(video, &taken, err);
    return status;
}

static enum status decode(struct video *video, const struct video_segment *segment,
                          struct error *err)
{
    bool more = true;
    uint64_t left = 0;
    enum status status = video_seek(video, segment->key_pts, err);
    avcodec_flush_buffers(video->decoder);
    while (status == STATUS_OK && more) {
        status = video_read(video, &more, err);
        if (status == STATUS_OK && more && left == 0 && video->packet->pts == segment->key_pts)
            left = segment->packet_count;
        if (left == 0)
            continue;
        if (status == STATUS_OK)
            status = video_send(video, more ? video->packet : NULL, err);
        if (status == STATUS_OK)
            status = drain(video, err);
        if (--left == 0)
            break;
    }
    if (status == STATUS_OK && more)
        status = video_send(video, NULL, err);
    return status != STATUS_OK ? status : drain(video, err);
}

static enum status run(void *argument, void *state, uint64_t number, struct error *err)
{
    const struct bench *bench = argument;
    struct decoder *decoder = state;
    size_t video = 0;
    while (bench->plan.first_segments[video + 1] <= number)
        video++;
    enum status status = STATUS_OK;
    if (!decoder->video || decoder->number != video) {
        video_close(decoder->video);
        decoder->video = NULL;
        decoder->number = video;
        status = video_open(bench->list.videos[video].path, &decoder->video, err);
    }
    const struct video_segments *segments = &bench->plan.videos[video].segments;
    return status != STATUS_OK
               ? status
               : decode(decoder->video, &segments->list[number - bench->plan.first_segments[video]],
                        err);
}

static enum status measure(struct bench *bench, const char *folder, uint32_t thread_count,
                           struct error *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status status = video_plan_settle(fd, "bench", &bench->list, &bench->wish, thread_count,
                                           true, &bench->plan, err);
    close(fd);
    if (status != STATUS_OK)
        return status;
    const struct team team = {
        .thread_count = thread_count,
        .work_count = bench->plan.segment_count,
        .label = "decoding",
        .unit = "segments",
        .argument = bench,
        .start = start,
        .run = run,
        .stop = stop,
    };
    uint64_t start_ns = clock_now_ns();
    status = team_run(&team, err);
    double seconds = (double)(clock_now_ns() - start_ns) / 1e9;
    if (status == STATUS_OK)
        printf("{\"segments\": %.3f}\n", (double)bench->plan.segment_count / seconds);
    return status;
}

int main(int argc, char **argv)
{
    struct bench bench = {.wish = {.seconds = 5, .fps = 4, .frame_count = 20}};
    struct error err;
    if (argc != 5) {
        fprintf(stderr, "Usage: %s LIST EMPTY-FOLDER SEGMENTS THREADS\n", argv[0]);
        return 64;
    }
    bench.wish.most = strtoull(argv[3], NULL, 10);
    video_start_logging();
    enum status status = video_list_read(argv[1], &bench.list, &err);
    if (status == STATUS_OK)
        status = measure(&bench, argv[2], (uint32_t)strtoul(argv[4], NULL, 10), &err);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", argv[0], err.message);
    video_plan_done(&bench.plan);
    video_list_done(&bench.list);
    return status != STATUS_OK ? EXIT_FAILURE : EXIT_SUCCESS;
}
