/* See segment.h.
 *
 * The packets of a segment are read first: their timestamps say which frames are wanted. Then they
 * are decoded until all of these are there. A frame that is not wanted, and that no other frame
 * needs, is not decoded. Where the segment before began at the same keyframe, the decoder goes on.
 */
#include "ingest/segment.h"

#include <stdlib.h>
#include <string.h>

struct segment_reader {
    struct video *video;
    const struct cuts *cuts;
    const struct video_segment *segment;
    const struct segment_wish *wish;
    struct picture_maker *maker;
    uint32_t size;
    const struct picture_crop *crop;
    unsigned char *pixels;

    AVPacket **packets;
    uint64_t packet_count;
    int64_t *chosen; /* [frame_count], rise */
    bool *made;      /* [frame_count] */
    uint32_t made_count;
    bool from_start; /* decoding begins at the file's start, not at the segment's keyframe */
};

/* Packets
 * ------------------------------------------------------------------------------------------- */

static bool is_key(const struct segment_reader *reader)
{
    const AVPacket *packet = reader->video->packet;
    return (packet->flags & AV_PKT_FLAG_KEY) && packet->pts == reader->segment->key_pts;
}

/* Reads on to the keyframe, which is in video->packet then; false: it does not come. */
static enum status read_to_key(struct segment_reader *reader, bool *ret_found, struct error *err)
{
    bool more = true;
    *ret_found = false;
    for (;;) {
        enum status status = video_read(reader->video, &more, err);
        if (status || !more)
            return status;
        *ret_found = is_key(reader);
        const AVPacket *packet = reader->video->packet;
        bool is_later = (packet->flags & AV_PKT_FLAG_KEY) && packet->pts != AV_NOPTS_VALUE &&
                        packet->pts > reader->segment->key_pts;
        if (*ret_found || is_later)
            return STATUS_OK;
    }
}

/* Some formats are sought by other times than those at which frames are shown: if the keyframe is
 * missed, from ever further before it, and from the start in the end. */
static enum status find_key(struct segment_reader *reader, struct error *err)
{
    static const double back_seconds[] = {0, 2, 15};
    bool found = false;
    enum status status = STATUS_OK;
    if (reader->video->untouched)
        status = read_to_key(reader, &found, err);
    for (size_t i = 0; i < 3 && !found && !status; i++) {
        double back = back_seconds[i] / av_q2d(reader->cuts->time_base);
        if (video_seek(reader->video, reader->segment->key_pts - (int64_t)back, err) == STATUS_OK)
            status = read_to_key(reader, &found, err);
    }
    if (!found && !status)
        status = video_rewind(reader->video, err);
    if (!found && !status)
        status = read_to_key(reader, &found, err);
    if (!status && !found)
        status = error_set(err, STATUS_CORRUPT, "the keyframe before a segment is not found");
    return status;
}

static enum status keep_packet(struct segment_reader *reader, struct error *err)
{
    AVPacket *kept = av_packet_clone(reader->video->packet);
    if (!kept)
        return error_set(err, STATUS_NO_MEMORY, "no memory for packets");
    reader->packets[reader->packet_count++] = kept;
    return STATUS_OK;
}

static enum status read_packets(struct segment_reader *reader, struct error *err)
{
    uint64_t wanted = reader->segment->packet_count;
    bool more = true;
    reader->packets = calloc(wanted, sizeof(AVPacket *));
    if (!reader->packets)
        return error_set(err, STATUS_NO_MEMORY, "no memory for packets");
    enum status status = find_key(reader, err);
    if (!status)
        status = keep_packet(reader, err);
    while (!status && reader->packet_count < wanted) {
        status = video_read(reader->video, &more, err);
        if (!status && !more)
            status = error_set(err, STATUS_CORRUPT, "the file ends within a segment");
        if (!status)
            status = keep_packet(reader, err);
    }
    return status;
}

static enum status choose_frames(struct segment_reader *reader, struct error *err)
{
    int64_t *times = malloc(reader->packet_count * sizeof *times);
    size_t count = 0;
    if (!times)
        return error_set(err, STATUS_NO_MEMORY, "no memory for timestamps");
    for (uint64_t i = 0; i < reader->packet_count; i++)
        if (!(reader->packets[i]->flags & AV_PKT_FLAG_DISCARD) &&
            reader->packets[i]->pts >= reader->segment->key_pts)
            times[count++] = reader->packets[i]->pts;
    count = cuts_sort(times, count);
    if (count > 0)
        cuts_choose(times, count, reader->cuts, reader->segment->start, reader->wish,
                    reader->chosen);
    free(times);
    return count > 0 ? STATUS_OK : error_set(err, STATUS_CORRUPT, "a segment has no frames");
}

/* Frames
 * ------------------------------------------------------------------------------------------- */

static bool is_chosen(const struct segment_reader *reader, int64_t pts)
{
    for (uint32_t k = 0; k < reader->wish->frame_count; k++)
        if (reader->chosen[k] == pts)
            return true;
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

static enum status make_pictures(struct segment_reader *reader, struct error *err)
{
    AVFrame *frame = reader->video->frame;
    size_t bytes = (size_t)reader->size * reader->size * 3;
    const unsigned char *first = NULL;
    for (uint32_t k = 0; k < reader->wish->frame_count; k++) {
        unsigned char *pixels = reader->pixels + k * bytes;
        if (reader->chosen[k] != frame->pts || reader->made[k])
            continue;
        if (first) {
            memcpy(pixels, first, bytes);
        } else {
            AVRational shape =
                av_guess_sample_aspect_ratio(reader->video->format, reader->video->stream, frame);
            enum status status = picture_make(reader->maker, frame, &reader->video->orientation,
                                              shape, reader->size, reader->crop, pixels, err);
            if (status)
                return status;
            first = pixels;
        }
        reader->made[k] = true;
        reader->made_count++;
    }
    return STATUS_OK;
}

/* Takes all frames that the decoder has; those before the keyframe may lack others. */
static enum status take_frames(struct segment_reader *reader, struct error *err)
{
    bool taken = true;
    enum status status = STATUS_OK;
    while (!status && reader->made_count < reader->wish->frame_count) {
        status = video_take(reader->video, &taken, err);
        if (status || !taken)
            return status;
        const AVFrame *frame = reader->video->frame;
        bool is_before = !reader->from_start && frame->pts < reader->segment->key_pts;
        bool is_damaged = frame->decode_error_flags || (frame->flags & AV_FRAME_FLAG_CORRUPT);
        if (!is_before && is_damaged)
            status = error_set(err, STATUS_CORRUPT, "a frame is damaged");
        if (!is_before && !status)
            status = make_pictures(reader, err);
    }
    return status;
}

static enum status decode_packet(struct segment_reader *reader, const AVPacket *packet,
                                 struct error *err)
{
    bool skip = packet && can_skip(reader) && !is_chosen(reader, packet->pts);
    reader->video->decoder->skip_frame = skip ? AVDISCARD_NONREF : AVDISCARD_DEFAULT;
    enum status status = video_send(reader->video, packet, err);
    return status ? status : take_frames(reader, err);
}

static bool is_whole(const struct segment_reader *reader)
{
    return reader->made_count == reader->wish->frame_count;
}

/* How many packets of this segment the decoder has had already, from the same keyframe on. 0 where
 * a wanted frame is among them: the segment before may have skipped it. */
static uint64_t packets_decoded(const struct segment_reader *reader)
{
    const struct video *video = reader->video;
    if (video->decoded_key_pts != reader->segment->key_pts ||
        video->decoded_count > reader->packet_count)
        return 0;
    for (uint64_t i = 0; i < video->decoded_count; i++)
        if (reader->packets[i]->pts >= reader->chosen[0])
            return 0;
    return video->decoded_count;
}

static enum status decode_packets(struct segment_reader *reader, struct error *err)
{
    struct video *video = reader->video;
    uint64_t i = packets_decoded(reader);
    enum status status = STATUS_OK;
    if (i > 0) /* frames that the segment before did not want */
        status = take_frames(reader, err);
    else
        avcodec_flush_buffers(video->decoder);
    for (; i < reader->packet_count && !status && !is_whole(reader); i++)
        status = decode_packet(reader, reader->packets[i], err);
    video->decoded_key_pts = reader->segment->key_pts;
    video->decoded_count = i;
    if (!status && !is_whole(reader)) {
        status = decode_packet(reader, NULL, err);
        video->decoded_count = 0;
    }
    return status;
}

/* For packets without timestamps, and keyframes that decoding cannot begin at. */
static enum status decode_from_start(struct segment_reader *reader, struct error *err)
{
    bool more = true;
    reader->from_start = true;
    enum status status = STATUS_OK;
    if (!reader->video->untouched)
        status = video_rewind(reader->video, err);
    while (!status && more && !is_whole(reader)) {
        status = video_read(reader->video, &more, err);
        if (!status)
            status = decode_packet(reader, more ? reader->video->packet : NULL, err);
    }
    return status;
}

/* Segments
 * ------------------------------------------------------------------------------------------- */

static enum status read_all(struct segment_reader *reader, struct error *err)
{
    enum status status = STATUS_OK;
    if (reader->segment->times) {
        memcpy(reader->chosen, reader->segment->times,
               reader->wish->frame_count * sizeof *reader->chosen);
    } else {
        status = read_packets(reader, err);
        if (!status)
            status = choose_frames(reader, err);
        if (!status)
            status = decode_packets(reader, err);
    }
    if (!status && !is_whole(reader))
        status = decode_from_start(reader, err);
    if (!status && !is_whole(reader))
        status =
            error_set(err, STATUS_CORRUPT, "%u of %u frames do not come out of the decoder",
                      reader->wish->frame_count - reader->made_count, reader->wish->frame_count);
    return status;
}

enum status segment_read(struct video *video, const struct cuts *cuts,
                         const struct video_segment *segment, const struct segment_wish *wish,
                         struct picture_maker *maker, uint32_t size,
                         const struct picture_crop *crop, unsigned char *ret_pixels,
                         struct error *err)
{
    struct segment_reader reader = {.video = video,
                                    .cuts = cuts,
                                    .segment = segment,
                                    .wish = wish,
                                    .maker = maker,
                                    .size = size,
                                    .crop = crop,
                                    .pixels = ret_pixels};
    reader.chosen = calloc(wish->frame_count, sizeof *reader.chosen);
    reader.made = calloc(wish->frame_count, sizeof *reader.made);
    enum status status = reader.chosen && reader.made
                             ? read_all(&reader, err)
                             : error_set(err, STATUS_NO_MEMORY, "no memory for a segment");
    for (uint64_t i = 0; i < reader.packet_count; i++)
        av_packet_free(&reader.packets[i]);
    free(reader.packets);
    free(reader.chosen);
    free(reader.made);
    return status;
}
