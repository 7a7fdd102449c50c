/* See keyframe.h. */
#include "workshop/ingest/keyframe.h"

#include "base/number.h"

/* Bytes of the length before each NAL unit of a packet; 0: start codes are between them (ITU-T
 * H.264, annex B). Extradata: ISO/IEC 14496-15, 5.3.3 and 8.3.3. */
static size_t length_bytes(const AVCodecParameters *codec)
{
    int at = codec->codec_id == AV_CODEC_ID_H264 ? 4 : 21;
    bool has_lengths = codec->extradata_size > at && codec->extradata[0] == 1;
    return has_lengths ? (codec->extradata[at] & 3u) + 1 : 0;
}

/* The header of the first NAL unit at *at or after, and *at goes on; NULL: there is none. */
static const uint8_t *next_unit(const uint8_t **at, const uint8_t *end, size_t prefix)
{
    const uint8_t *unit = *at;
    uint64_t length = 0;
    while (prefix == 0 && end - unit > 3 && (unit[0] || unit[1] || unit[2] != 1))
        unit++;
    if (end - unit <= (ptrdiff_t)(prefix ? prefix : 3))
        return NULL;
    for (size_t i = 0; i < prefix; i++)
        length = length << 8 | unit[i];
    unit += prefix ? prefix : 3;
    *at = unit + min_u64(length, (uint64_t)(end - unit));
    return unit;
}

/* Takes an unsigned Exp-Golomb code (H.264, 9.1) of less than 32 bits. */
static uint32_t take_golomb(uint64_t *bits)
{
    int zeros = *bits ? __builtin_clzll(*bits) : 64;
    if (zeros > 15)
        return UINT32_MAX;
    uint32_t value = (uint32_t)(*bits >> (63 - 2 * zeros)) - 1;
    *bits <<= 2 * zeros + 1;
    return value;
}

/* Whether the slice of a header of 1 byte is an I slice: the second number after the header. */
static bool is_intra_slice(const uint8_t *unit, const uint8_t *end)
{
    uint64_t bits = 0;
    for (int i = 1; i <= 8; i++)
        bits = bits << 8 | (unit + i < end ? unit[i] : 0);
    take_golomb(&bits);
    uint32_t type = take_golomb(&bits);
    return type == 2 || type == 7;
}

static enum keyframe keyframe_of_h264(const uint8_t *unit, const uint8_t *end)
{
    if ((*unit & 31) == 5)
        return KEYFRAME_CLEAN;
    return is_intra_slice(unit, end) ? KEYFRAME_BEGINS : KEYFRAME_NONE;
}

static bool is_slice(bool is_h264, uint8_t header)
{
    int type = is_h264 ? header & 31 : header >> 1 & 63;
    return is_h264 ? type >= 1 && type <= 5 : type < 32;
}

enum keyframe keyframe_of(const struct video *video)
{
    const AVCodecParameters *codec = video->stream->codecpar;
    const AVPacket *packet = video->packet;
    bool is_h264 = codec->codec_id == AV_CODEC_ID_H264;
    if (!(packet->flags & AV_PKT_FLAG_KEY) || packet->pts == AV_NOPTS_VALUE)
        return KEYFRAME_NONE;
    if (!is_h264 && codec->codec_id != AV_CODEC_ID_HEVC)
        return KEYFRAME_BEGINS;
    const uint8_t *at = packet->data, *end = packet->data + packet->size, *unit;
    while ((unit = next_unit(&at, end, length_bytes(codec)))) {
        if (!is_slice(is_h264, *unit))
            continue;
        if (is_h264)
            return keyframe_of_h264(unit, end);
        int type = *unit >> 1 & 63;
        return type == 19 || type == 20 ? KEYFRAME_CLEAN : KEYFRAME_BEGINS;
    }
    return KEYFRAME_BEGINS;
}
