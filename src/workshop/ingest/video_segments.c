/* See video_segments.h. */
#include "workshop/ingest/video_segments.h"

#include "base/number.h"
#include "base/random.h"
#include "workshop/ingest/keyframe.h"
#include "workshop/ingest/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A packet of the stream, in the file's order. */
struct seen_packet {
    int64_t pts, duration;
    bool is_key, begins, is_shown; /* begins: decoding can begin there */
};

struct seen {
    size_t count, capacity, time_count;
    struct seen_packet *packets;
    int64_t *times; /* of frames, sorted */
    bool timed;     /* all packets have timestamps */
};

static enum status no_memory(struct error *err)
{
    return error_set(err, STATUS_NO_MEMORY, "no memory for the timestamps of a video");
}

/* Packets
 * ------------------------------------------------------------------------------------------- */

static enum status note_packet(struct seen *seen, const struct seen_packet *packet,
                               struct error *err)
{
    if (seen->count == seen->capacity) {
        size_t capacity = seen->capacity ? 2 * seen->capacity : 1024;
        struct seen_packet *packets = realloc(seen->packets, capacity * sizeof *packets);
        if (!packets)
            return no_memory(err);
        seen->packets = packets;
        seen->capacity = capacity;
    }
    seen->packets[seen->count++] = *packet;
    return STATUS_OK;
}

static enum status read_packets(struct video *video, struct seen *seen, struct error *err)
{
    bool more = true;
    enum status status = STATUS_OK;
    seen->timed = true;
    while (status == STATUS_OK && more) {
        status = video_read(video, &more, err);
        if (status != STATUS_OK || !more)
            break;
        const AVPacket *packet = video->packet;
        struct seen_packet noted = {packet->pts, packet->duration, packet->flags & AV_PKT_FLAG_KEY,
                                    keyframe_of(video) != KEYFRAME_NONE,
                                    !(packet->flags & AV_PKT_FLAG_DISCARD)};
        seen->timed = seen->timed && (packet->pts != AV_NOPTS_VALUE || !noted.is_shown);
        status = note_packet(seen, &noted, err);
    }
    if (status == STATUS_OK && seen->count == 0)
        status = error_set(err, STATUS_CORRUPT, "the video stream has no frames");
    return status;
}

/* An index that knows of more packets than there are: the file was cut. */
static enum status check_index(const struct video *video, const struct seen *seen,
                               struct error *err)
{
    int64_t promised = video->stream->nb_frames;
    if (promised <= (int64_t)seen->count)
        return STATUS_OK;
    return error_set(err, STATUS_CORRUPT,
                     "the file ends early: its index has %lld frames, and %zu are there",
                     (long long)promised, seen->count);
}

/* Times
 * ------------------------------------------------------------------------------------------- */

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

size_t video_segments_sort(int64_t *times, size_t count)
{
    size_t kept = 0;
    qsort(times, count, sizeof *times, compare_times);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || times[kept - 1] != times[i])
            times[kept++] = times[i];
    return kept;
}

static void take_times(struct seen *seen)
{
    for (size_t i = 0; i < seen->count; i++)
        if (seen->packets[i].is_shown)
            seen->times[seen->time_count++] = seen->packets[i].pts;
}

/* Takes the times of all frames that the decoder has. */
static enum status drain(struct video *video, struct seen *seen, struct error *err)
{
    bool taken = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && taken) {
        status = video_take(video, &taken, err);
        if (status == STATUS_OK && taken && seen->time_count < seen->count &&
            video->frame->pts != AV_NOPTS_VALUE)
            seen->times[seen->time_count++] = video->frame->pts;
    }
    return status;
}

static enum status decode_times(struct video *video, struct seen *seen, struct error *err)
{
    bool more = true;
    enum status status = video_rewind(video, err);
    while (status == STATUS_OK && more) {
        status = video_read(video, &more, err);
        if (status == STATUS_OK)
            status = video_send(video, more ? video->packet : NULL, err);
        if (status == STATUS_OK)
            status = drain(video, seen, err);
    }
    return status;
}

static enum status find_times(struct video *video, struct seen *seen, struct error *err)
{
    seen->times = malloc(seen->count * sizeof *seen->times);
    if (!seen->times)
        return no_memory(err);
    enum status status = STATUS_OK;
    if (seen->timed)
        take_times(seen);
    else
        status = decode_times(video, seen, err);
    seen->time_count = video_segments_sort(seen->times, seen->time_count);
    if (status == STATUS_OK && seen->time_count == 0)
        status = error_set(err, STATUS_CORRUPT,
                           "no frame has a time, as in streams without a container; convert the "
                           "video: ffmpeg -r RATE -i VIDEO VIDEO.mp4");
    return status;
}

/* Ticks that the last frame is shown: what its packet says, or as long as the others on average. */
static int64_t last_duration(const struct seen *seen)
{
    int64_t span = seen->times[seen->time_count - 1] - seen->times[0];
    for (size_t i = 0; i < seen->count; i++)
        if (seen->packets[i].pts == seen->times[seen->time_count - 1] &&
            seen->packets[i].duration > 0)
            return seen->packets[i].duration;
    return seen->time_count > 1 ? span / (int64_t)(seen->time_count - 1) : 0;
}

/* Segments
 * ------------------------------------------------------------------------------------------- */

/* The moment of frame k, in ticks. */
static int64_t moment(const struct video_segments *segments, int64_t start,
                      const struct segment_wish *wish, uint32_t k)
{
    double ticks = (double)k * segments->time_base.den / (wish->fps * segments->time_base.num);
    return segments->begin + start + llrint(ticks);
}

void video_segments_choose(const int64_t *times, size_t count,
                           const struct video_segments *segments, int64_t start,
                           const struct segment_wish *wish, int64_t *ret_chosen)
{
    size_t at = 0;
    for (uint32_t k = 0; k < wish->frame_count; k++) {
        int64_t when = moment(segments, start, wish, k);
        while (at + 1 < count && times[at + 1] <= when)
            at++;
        ret_chosen[k] = times[at];
    }
}

static bool is_chosen(const int64_t *chosen, uint32_t count, int64_t pts)
{
    return bsearch(&pts, chosen, count, sizeof *chosen, compare_times) != NULL;
}

/* The last keyframe that decoding can begin at, else the first one, and the packets from there to
 * the last that is needed. */
static enum status find_packets(const struct seen *seen, const int64_t *chosen, uint32_t count,
                                struct video_segment *segment, struct error *err)
{
    size_t first = seen->count, last = 0, key = seen->count;
    for (size_t i = 0; i < seen->count; i++)
        if (seen->packets[i].is_shown && is_chosen(chosen, count, seen->packets[i].pts)) {
            first = first < i ? first : i;
            last = i;
        }
    for (size_t i = 0; i <= first && i < seen->count; i++)
        if (seen->packets[i].is_key && seen->packets[i].pts != AV_NOPTS_VALUE &&
            seen->packets[i].pts <= chosen[0] && (seen->packets[i].begins || key == seen->count))
            key = i;
    if (key == seen->count)
        return error_set(err, STATUS_CORRUPT, "there is no keyframe before its frames");
    segment->key_pts = seen->packets[key].pts;
    segment->packet_count = last - key + 1;
    return STATUS_OK;
}

static enum status plan_segment(const struct seen *seen, const struct video_segments *segments,
                                const struct segment_wish *wish, struct video_segment *segment,
                                struct error *err)
{
    int64_t *chosen = malloc(wish->frame_count * sizeof *chosen);
    if (!chosen)
        return no_memory(err);
    video_segments_choose(seen->times, seen->time_count, segments, segment->start, wish, chosen);
    enum status status = STATUS_OK;
    if (seen->timed) {
        status = find_packets(seen, chosen, wish->frame_count, segment, err);
        free(chosen);
    } else {
        segment->times = chosen;
        segment->packet_count = seen->count;
    }
    return status;
}

/* Starts in [0, room], each in an equal part of it. */
static int64_t choose_start(const struct segment_wish *wish, uint64_t number, uint64_t i,
                            uint64_t count, uint64_t room)
{
    unsigned __int128 all = (unsigned __int128)room + 1;
    uint64_t low = (uint64_t)(all * i / count), high = (uint64_t)(all * (i + 1) / count);
    uint64_t width = high > low ? high - low : 1;
    return (int64_t)min_u64(room, low + random_below(random_u64(wish->seed, number, i), width));
}

static enum status plan_segments(const struct seen *seen, uint64_t number,
                                 const struct segment_wish *wish, struct video_segments *segments,
                                 struct error *err)
{
    double tick = av_q2d(segments->time_base);
    int64_t shown = last_duration(seen);
    int64_t span = seen->times[seen->time_count - 1] - segments->begin + shown;
    int64_t length = llrint(wish->seconds / tick), room = span - length;
    segments->duration = (double)span * tick;
    segments->fps = span > 0 ? (double)seen->time_count / segments->duration : 0;
    if (room < 0 && -room > shown / 2) /* else it is rounding */
        return error_set(err, STATUS_INVALID, "the video has %.2f s, and a segment %.2f s",
                         segments->duration, wish->seconds);
    room = room > 0 ? room : 0;
    uint64_t fit = (uint64_t)(segments->duration / wish->seconds + 1e-6);
    segments->count = min_u64(wish->most, max_u64(fit, 1));
    segments->list = calloc(segments->count, sizeof *segments->list);
    if (!segments->list)
        return no_memory(err);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < segments->count && status == STATUS_OK; i++) {
        struct video_segment *segment = &segments->list[i];
        segment->start = choose_start(wish, number, i, segments->count, (uint64_t)room);
        status = plan_segment(seen, segments, wish, segment, err);
    }
    return status;
}

/* All of it
 * ------------------------------------------------------------------------------------------- */

/* Decodes from the start until there is a frame. */
static enum status try_decoder(struct video *video, struct video_segments *segments,
                               struct error *err)
{
    bool more = true, taken = false;
    enum status status = video_rewind(video, err);
    while (status == STATUS_OK && more && !taken) {
        status = video_read(video, &more, err);
        if (status == STATUS_OK)
            status = video_send(video, more ? video->packet : NULL, err);
        if (status == STATUS_OK)
            status = video_take(video, &taken, err);
    }
    if (status == STATUS_OK && !taken)
        status = error_set(err, STATUS_CORRUPT, "no frame can be decoded");
    if (status != STATUS_OK)
        return status;
    AVRational shape = av_guess_sample_aspect_ratio(video->format, video->stream, video->frame);
    segments->width = video->frame->width;
    segments->height = video->frame->height;
    segments->ratio = picture_ratio(video->frame, shape);
    return picture_check_ratio(video->frame, shape, PICTURE_MOST_RATIO, err);
}

enum status video_segments_read(struct video *video, uint64_t number,
                                const struct segment_wish *wish,
                                struct video_segments *ret_segments, struct error *err)
{
    struct seen seen = {0};
    struct video_segments segments = {.time_base = video->stream->time_base};
    enum status status = read_packets(video, &seen, err);
    if (status == STATUS_OK)
        status = check_index(video, &seen, err);
    if (status == STATUS_OK)
        status = find_times(video, &seen, err);
    if (status == STATUS_OK) {
        segments.begin = seen.times[0];
        status = plan_segments(&seen, number, wish, &segments, err);
    }
    if (status == STATUS_OK)
        status = try_decoder(video, &segments, err);
    free(seen.packets);
    free(seen.times);
    if (status != STATUS_OK)
        video_segments_done(&segments);
    else
        *ret_segments = segments;
    return status;
}

void video_segments_done(struct video_segments *segments)
{
    for (size_t i = 0; segments->list && i < segments->count; i++)
        free(segments->list[i].times);
    free(segments->list);
    *segments = (struct video_segments){0};
}
