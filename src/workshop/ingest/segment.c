/* See segment.h.
 *
 * A pass begins at a keyframe. The packets of a segment are read first: their timestamps say which
 * frames are wanted. Then they are decoded until all of these are there. A frame that is not
 * wanted, and that no other frame needs, is not decoded.
 */
#include "workshop/ingest/segment.h"

#include "base/random.h"
#include "workshop/ingest/pass.h"
#include "workshop/ingest/picture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A segment that takes frames from the pass. */
struct draft {
    bool is_open;
    uint64_t number; /* of the segment */
    const struct video_segment *segment;
    uint64_t first; /* packet of the pass: the segment's keyframe */
    struct picture_crop crop;
    int64_t *chosen;  /* [frame_count], rise */
    int64_t last_pts; /* of all frames that those may refer to */
    bool *made;       /* [frame_count] */
    uint32_t made_count;
    unsigned char *pictures;
};

struct segment_reader {
    const struct segment_wish *wish;
    uint32_t size, at_once;
    struct picture_maker maker;
    uint64_t number; /* of the video */
    struct video *video;
    const struct video_segments *segments;
    struct pass pass;
    int64_t shown;   /* the last pts that came out of the decoder */
    bool from_start; /* decoding begins at the file's start, not at the segment's keyframe */
    bool is_strict;  /* each segment is read alone, by a fresh decoder */
    struct draft drafts[SEGMENTS_AT_ONCE]; /* at_once are used */
};

/* Drafts
 * ------------------------------------------------------------------------------------------- */

static struct draft *find_draft(struct segment_reader *reader, uint64_t number)
{
    for (uint32_t d = 0; d < reader->at_once; d++)
        if (reader->drafts[d].is_open && reader->drafts[d].number == number)
            return &reader->drafts[d];
    return NULL;
}

/* Random numbers of a segment, beside that of its start. */
static struct picture_crop choose_crop(const struct segment_reader *reader, uint64_t number)
{
    uint64_t seed = reader->wish->seed;
    return (struct picture_crop){random_u64(seed, reader->number, number | 1ull << 62),
                                 random_u64(seed, reader->number, number | 1ull << 63)};
}

/* A free draft, or NULL. */
static struct draft *open_draft(struct segment_reader *reader, uint64_t number)
{
    for (uint32_t d = 0; d < reader->at_once; d++) {
        struct draft *draft = &reader->drafts[d];
        if (draft->is_open)
            continue;
        draft->is_open = true;
        draft->number = number;
        draft->segment = &reader->segments->list[number];
        draft->crop = choose_crop(reader, number);
        draft->made_count = 0;
        memset(draft->made, 0, reader->wish->frame_count * sizeof *draft->made);
        return draft;
    }
    return NULL;
}

static void close_drafts_before(struct segment_reader *reader, uint64_t number)
{
    for (uint32_t d = 0; d < reader->at_once; d++)
        if (reader->drafts[d].number < number)
            reader->drafts[d].is_open = false;
}

/* All but `kept`, which may be NULL. */
static void close_drafts(struct segment_reader *reader, const struct draft *kept)
{
    for (uint32_t d = 0; d < reader->at_once; d++)
        if (&reader->drafts[d] != kept)
            reader->drafts[d].is_open = false;
}

static bool is_whole(const struct segment_reader *reader, const struct draft *draft)
{
    return draft->made_count == reader->wish->frame_count;
}

/* Whether all that can be wrong with the draft has shown: a frame may refer to a damaged one that
 * comes out after it. */
static bool is_done(const struct segment_reader *reader, const struct draft *draft)
{
    return is_whole(reader, draft) && reader->shown >= draft->last_pts;
}

static enum status choose_frames(struct segment_reader *reader, struct draft *draft,
                                 struct error *err)
{
    const struct video_segment *segment = draft->segment;
    const int64_t *all = reader->pass.times + draft->first;
    int64_t *times = malloc(segment->packet_count * sizeof *times);
    size_t count = 0;
    if (!times)
        return error_set(err, STATUS_NO_MEMORY, "no memory for timestamps");
    for (uint64_t i = 0; i < segment->packet_count; i++)
        if (all[i] != AV_NOPTS_VALUE && all[i] >= segment->key_pts)
            times[count++] = all[i];
    count = video_segments_sort(times, count);
    if (count > 0) {
        draft->last_pts = times[count - 1];
        video_segments_choose(times, count, reader->segments, segment->start, reader->wish,
                              draft->chosen);
    }
    free(times);
    return count > 0 ? STATUS_OK : error_set(err, STATUS_CORRUPT, "a segment has no frames");
}

/* Whether the decoder had a packet that the draft wants, and may have skipped it. */
static bool is_late(const struct segment_reader *reader, const struct draft *draft)
{
    for (uint64_t i = 0; i < reader->pass.sent; i++)
        if (reader->pass.times[i] >= draft->chosen[0])
            return true;
    return false;
}

/* Lets a segment take part in the pass, if its keyframe is among the first `end` packets.
 * *ret_draft is NULL where this is not so, where the segment is too late, and where there is no
 * room. */
static enum status join(struct segment_reader *reader, uint64_t number, uint64_t end,
                        struct draft **ret_draft, struct error *err)
{
    struct pass *pass = &reader->pass;
    *ret_draft = NULL;
    if (!pass->is_open || number >= reader->segments->count)
        return STATUS_OK;
    const struct video_segment *segment = &reader->segments->list[number];
    uint64_t first = pass_find_key(pass, segment->key_pts);
    struct draft *draft = first < end ? open_draft(reader, number) : NULL;
    if (!draft)
        return STATUS_OK;
    draft->first = first;
    enum status status = pass_read(pass, reader->video, first + segment->packet_count, err);
    if (status == STATUS_OK)
        status = choose_frames(reader, draft, err);
    draft->is_open = status == STATUS_OK && !is_late(reader, draft);
    *ret_draft = draft->is_open ? draft : NULL;
    return status;
}

/* Those that begin before the end of `asked`: no packets are read too early. */
static enum status join_followers(struct segment_reader *reader, const struct draft *asked,
                                  struct error *err)
{
    uint64_t end = asked->first + asked->segment->packet_count, number = asked->number;
    enum status status = STATUS_OK;
    struct draft *draft;
    do {
        draft = find_draft(reader, ++number);
        if (!draft)
            status = join(reader, number, end, &draft, err);
    } while (status == STATUS_OK && draft);
    return status;
}

/* Frames
 * ------------------------------------------------------------------------------------------- */

static bool is_wanted(const struct segment_reader *reader, int64_t pts)
{
    for (uint32_t d = 0; d < reader->at_once; d++) {
        const struct draft *draft = &reader->drafts[d];
        for (uint32_t k = 0; draft->is_open && k < reader->wish->frame_count; k++)
            if (draft->chosen[k] == pts)
                return true;
    }
    return false;
}

/* Codecs in which a frame that says that nobody refers to it is never needed. HEVC's may be needed
 * by frames of other temporal layers. */
static bool can_skip(const struct segment_reader *reader)
{
    switch (reader->video->decoder->codec_id) {
    case AV_CODEC_ID_H264:
    case AV_CODEC_ID_MPEG4:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG1VIDEO:
        return !reader->from_start;
    default:
        return false;
    }
}

static enum status make_pictures(struct segment_reader *reader, struct draft *draft,
                                 struct error *err)
{
    AVFrame *frame = reader->video->frame;
    size_t bytes = (size_t)reader->size * reader->size * 3;
    const unsigned char *first = NULL;
    for (uint32_t k = 0; k < reader->wish->frame_count; k++) {
        unsigned char *picture = draft->pictures + k * bytes;
        if (draft->chosen[k] != frame->pts || draft->made[k])
            continue;
        if (first) {
            memcpy(picture, first, bytes);
        } else {
            AVRational shape =
                av_guess_sample_aspect_ratio(reader->video->format, reader->video->stream, frame);
            double most = fmax(reader->segments->ratio, SEGMENT_RATIO);
            enum status status = picture_check_ratio(frame, shape, most, err);
            if (status == STATUS_OK)
                status = picture_make(&reader->maker, frame, &reader->video->orientation, shape,
                                      reader->size, &draft->crop, picture, err);
            if (status != STATUS_OK)
                return status;
            first = picture;
        }
        draft->made[k] = true;
        draft->made_count++;
    }
    return STATUS_OK;
}

static enum status give_frame(struct segment_reader *reader, struct error *err)
{
    enum status status = STATUS_OK;
    for (uint32_t d = 0; d < reader->at_once && status == STATUS_OK; d++)
        if (reader->drafts[d].is_open)
            status = make_pictures(reader, &reader->drafts[d], err);
    return status;
}

/* Takes frames until the draft is done or the decoder has none; those before the keyframe may lack
 * others. */
static enum status take_frames(struct segment_reader *reader, const struct draft *draft,
                               struct error *err)
{
    const struct pass *pass = &reader->pass;
    bool taken = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !is_done(reader, draft)) {
        status = video_take(reader->video, &taken, err);
        if (status != STATUS_OK || !taken)
            return status;
        const AVFrame *frame = reader->video->frame;
        if (frame->pts > reader->shown)
            reader->shown = frame->pts;
        bool is_before = !reader->from_start && frame->pts < pass->key_pts;
        bool is_damaged = frame->decode_error_flags || (frame->flags & AV_FRAME_FLAG_CORRUPT);
        if (!is_before && is_damaged)
            status = error_set(err, STATUS_CORRUPT, "a frame is damaged");
        if (!is_before && status == STATUS_OK)
            status = give_frame(reader, err);
    }
    return status;
}

static enum status decode_packet(struct segment_reader *reader, const struct draft *draft,
                                 const AVPacket *packet, struct error *err)
{
    bool skip = packet && can_skip(reader) && !is_wanted(reader, packet->pts);
    reader->video->decoder->skip_frame = skip ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
    enum status status = video_send(reader->video, packet, err);
    return status != STATUS_OK ? status : take_frames(reader, draft, err);
}

/* Decodes until the draft is done, with packets of the segments after it where frames come out
 * late; at the pass' last packet the decoder is emptied, and cannot go on. */
static enum status decode_packets(struct segment_reader *reader, struct draft *draft,
                                  struct error *err)
{
    struct pass *pass = &reader->pass;
    enum status status = pass->sent > 0 ? take_frames(reader, draft, err) : STATUS_OK;
    while (status == STATUS_OK && !is_done(reader, draft) && pass->sent < pass->count) {
        AVPacket *packet = pass_next(pass);
        status = decode_packet(reader, draft, packet, err);
        av_packet_free(&packet);
    }
    if (status == STATUS_OK && !is_done(reader, draft)) {
        status = decode_packet(reader, draft, NULL, err);
        close_drafts(reader, draft);
        pass->is_open = false;
    }
    return status;
}

/* Segments
 * ------------------------------------------------------------------------------------------- */

static enum status begin_pass(struct segment_reader *reader, uint64_t number,
                              struct draft **ret_draft, struct error *err)
{
    close_drafts(reader, NULL);
    reader->from_start = false;
    reader->shown = INT64_MIN;
    enum status status =
        pass_begin(&reader->pass, reader->video, reader->segments->list[number].key_pts, err);
    return status != STATUS_OK ? status : join(reader, number, 1, ret_draft, err);
}

static enum status read_alone(struct segment_reader *reader, uint64_t number,
                              struct draft **ret_draft, struct error *err)
{
    enum status status = begin_pass(reader, number, ret_draft, err);
    if (status == STATUS_OK)
        status = decode_packets(reader, *ret_draft, err);
    reader->pass.is_open = false;
    return status;
}

/* Goes on with the pass where that is possible. */
static enum status read_shared(struct segment_reader *reader, uint64_t number,
                               struct draft **ret_draft, struct error *err)
{
    enum status status = STATUS_OK;
    close_drafts_before(reader, number);
    *ret_draft = find_draft(reader, number);
    if (!*ret_draft)
        status = join(reader, number, reader->pass.count, ret_draft, err);
    if (status == STATUS_OK && !*ret_draft)
        status = begin_pass(reader, number, ret_draft, err);
    if (status == STATUS_OK)
        status = join_followers(reader, *ret_draft, err);
    return status != STATUS_OK ? status : decode_packets(reader, *ret_draft, err);
}

/* Once the decoder complained, what it makes of damaged packets may depend on other segments: the
 * rest of the video is read segment by segment. */
static enum status read_timed(struct segment_reader *reader, uint64_t number,
                              struct draft **ret_draft, struct error *err)
{
    enum status status = STATUS_OK;
    if (!reader->is_strict) {
        status = read_shared(reader, number, ret_draft, err);
        if (status == STATUS_OK && is_whole(reader, *ret_draft) && !reader->video->complained)
            return STATUS_OK;
    }
    reader->is_strict = true;
    if (!reader->video->untouched)
        status = video_rewind(reader->video, err);
    reader->video->untouched = false; /* it is faster to seek */
    return status != STATUS_OK ? status : read_alone(reader, number, ret_draft, err);
}

static struct draft *open_untimed(struct segment_reader *reader, uint64_t number)
{
    close_drafts(reader, NULL);
    struct draft *draft = open_draft(reader, number);
    memcpy(draft->chosen, draft->segment->times, reader->wish->frame_count * sizeof *draft->chosen);
    return draft;
}

/* For packets without timestamps, and keyframes that decoding cannot begin at. The draft is the
 * only one. */
static enum status read_from_start(struct segment_reader *reader, const struct draft *draft,
                                   struct error *err)
{
    bool more = true;
    enum status status = STATUS_OK;
    reader->from_start = true;
    reader->shown = INT64_MIN;
    if (!reader->video->untouched)
        status = video_rewind(reader->video, err);
    while (status == STATUS_OK && more && !is_done(reader, draft)) {
        status = video_read(reader->video, &more, err);
        if (status == STATUS_OK)
            status = decode_packet(reader, draft, more ? reader->video->packet : NULL, err);
    }
    if (status == STATUS_OK && !is_whole(reader, draft))
        status =
            error_set(err, STATUS_CORRUPT, "%u of %u frames do not come out of the decoder",
                      reader->wish->frame_count - draft->made_count, reader->wish->frame_count);
    return status;
}

static void close_video(struct segment_reader *reader)
{
    close_drafts(reader, NULL);
    pass_end(&reader->pass);
    video_close(reader->video);
    reader->video = NULL;
}

enum status segment_read(struct segment_reader *reader, uint64_t i,
                         const unsigned char **ret_pictures, struct error *err)
{
    struct draft *draft = NULL;
    enum status status = STATUS_OK;
    if (reader->segments->list[i].times)
        draft = open_untimed(reader, i);
    else
        status = read_timed(reader, i, &draft, err);
    if (status == STATUS_OK && !is_whole(reader, draft))
        status = read_from_start(reader, draft, err);
    if (status != STATUS_OK)
        close_video(reader);
    else
        *ret_pictures = draft->pictures;
    return status;
}

/* The reader
 * ------------------------------------------------------------------------------------------- */

enum status segment_reader_use(struct segment_reader *reader, const char *path, uint64_t number,
                               const struct video_segments *segments, struct error *err)
{
    if (reader->video && reader->number == number)
        return STATUS_OK;
    close_video(reader);
    reader->is_strict = reader->is_strict && reader->number == number;
    reader->number = number;
    reader->segments = segments;
    return video_open(path, &reader->video, err);
}

enum status segment_reader_new(const struct segment_wish *wish, uint32_t size, uint32_t at_once,
                               struct segment_reader **ret_reader, struct error *err)
{
    struct segment_reader *reader = calloc(1, sizeof *reader);
    uint32_t n = wish->frame_count;
    bool has_memory = reader != NULL;
    for (uint32_t d = 0; has_memory && d < at_once; d++) {
        struct draft *draft = &reader->drafts[d];
        draft->chosen = calloc(n, sizeof *draft->chosen);
        draft->made = calloc(n, sizeof *draft->made);
        draft->pictures = malloc((size_t)n * size * size * 3);
        has_memory = draft->chosen && draft->made && draft->pictures;
    }
    if (!has_memory) {
        segment_reader_free(reader);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    }
    reader->wish = wish;
    reader->size = size;
    reader->at_once = at_once;
    *ret_reader = reader;
    return STATUS_OK;
}

void segment_reader_free(struct segment_reader *reader)
{
    if (!reader)
        return;
    close_video(reader);
    picture_maker_done(&reader->maker);
    for (uint32_t d = 0; d < SEGMENTS_AT_ONCE; d++) {
        free(reader->drafts[d].chosen);
        free(reader->drafts[d].made);
        free(reader->drafts[d].pictures);
    }
    pass_done(&reader->pass);
    free(reader);
}
