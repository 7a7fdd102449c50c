/* See pass.h. */
#include "workshop/ingest/pass.h"

#include "workshop/ingest/keyframe.h"

#include <stdlib.h>

static bool is_key(const struct pass *pass, const struct video *video)
{
    const AVPacket *packet = video->packet;
    return (packet->flags & AV_PKT_FLAG_KEY) && packet->pts == pass->key_pts;
}

/* Reads on to the keyframe, which is in video->packet then; false: it does not come. */
static enum status read_to_key(struct pass *pass, struct video *video, bool *ret_found,
                               struct error *err)
{
    bool more = true;
    *ret_found = false;
    for (;;) {
        enum status status = video_read(video, &more, err);
        if (status != STATUS_OK || !more)
            return status;
        *ret_found = is_key(pass, video);
        const AVPacket *packet = video->packet;
        bool is_later = (packet->flags & AV_PKT_FLAG_KEY) && packet->pts != AV_NOPTS_VALUE &&
                        packet->pts > pass->key_pts;
        if (*ret_found || is_later)
            return STATUS_OK;
    }
}

/* Some formats are sought by other times than those at which frames are shown: if the keyframe is
 * missed, from ever further before it, and from the start in the end. */
static enum status find_key(struct pass *pass, struct video *video, struct error *err)
{
    static const double back_seconds[] = {0, 2, 15};
    bool found = false;
    enum status status = STATUS_OK;
    if (video->untouched)
        status = read_to_key(pass, video, &found, err);
    for (size_t i = 0; i < 3 && !found && status == STATUS_OK; i++) {
        double back = back_seconds[i] / av_q2d(video->stream->time_base);
        if (video_seek(video, pass->key_pts - (int64_t)back, err) == STATUS_OK)
            status = read_to_key(pass, video, &found, err);
    }
    if (!found && status == STATUS_OK)
        status = video_rewind(video, err);
    if (!found && status == STATUS_OK)
        status = read_to_key(pass, video, &found, err);
    if (status == STATUS_OK && !found)
        status = error_set(err, STATUS_CORRUPT, "the keyframe before a segment is not found");
    return status;
}

/* Packets
 * ------------------------------------------------------------------------------------------- */

static enum status grow(struct pass *pass, struct error *err)
{
    uint64_t capacity = pass->capacity ? 2 * pass->capacity : 1024;
    AVPacket **packets = realloc(pass->packets, capacity * sizeof *packets);
    pass->packets = packets ? packets : pass->packets;
    int64_t *times = realloc(pass->times, capacity * sizeof *times);
    pass->times = times ? times : pass->times;
    int64_t *keys = realloc(pass->keys, capacity * sizeof *keys);
    pass->keys = keys ? keys : pass->keys;
    if (!packets || !times || !keys)
        return error_set(err, STATUS_NO_MEMORY, "no memory for packets");
    pass->capacity = capacity;
    return STATUS_OK;
}

static enum status keep_packet(struct pass *pass, const struct video *video, struct error *err)
{
    const AVPacket *packet = video->packet;
    uint64_t i = pass->count;
    enum status status = i == pass->capacity ? grow(pass, err) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    pass->packets[i] = av_packet_clone(packet);
    if (!pass->packets[i])
        return error_set(err, STATUS_NO_MEMORY, "no memory for packets");
    pass->times[i] = packet->flags & AV_PKT_FLAG_DISCARD ? AV_NOPTS_VALUE : packet->pts;
    pass->keys[i] = i == 0 || keyframe_of(video) == KEYFRAME_CLEAN ? packet->pts : AV_NOPTS_VALUE;
    pass->count++;
    return STATUS_OK;
}

enum status pass_read(struct pass *pass, struct video *video, uint64_t wanted, struct error *err)
{
    bool more = true;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && pass->count < wanted) {
        status = video_read(video, &more, err);
        if (status == STATUS_OK && !more)
            status = error_set(err, STATUS_CORRUPT, "the file ends within a segment");
        if (status == STATUS_OK)
            status = keep_packet(pass, video, err);
    }
    return status;
}

AVPacket *pass_next(struct pass *pass)
{
    AVPacket *packet = pass->packets[pass->sent];
    pass->packets[pass->sent++] = NULL;
    return packet;
}

uint64_t pass_find_key(const struct pass *pass, int64_t key_pts)
{
    uint64_t i = 0;
    while (i < pass->count && pass->keys[i] != key_pts)
        i++;
    return i;
}

/* The pass
 * ------------------------------------------------------------------------------------------- */

void pass_end(struct pass *pass)
{
    for (uint64_t i = pass->sent; i < pass->count; i++)
        av_packet_free(&pass->packets[i]);
    pass->is_open = false;
    pass->count = pass->sent = 0;
}

enum status pass_begin(struct pass *pass, struct video *video, int64_t key_pts, struct error *err)
{
    pass_end(pass);
    pass->key_pts = key_pts;
    enum status status = find_key(pass, video, err);
    avcodec_flush_buffers(video->decoder);
    if (status == STATUS_OK)
        status = keep_packet(pass, video, err);
    pass->is_open = status == STATUS_OK;
    return status;
}

void pass_done(struct pass *pass)
{
    pass_end(pass);
    free(pass->packets);
    free(pass->times);
    free(pass->keys);
}
