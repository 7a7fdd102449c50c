/* See video.h. */
#include "ingest/video.h"

#include "base/text.h"

#include <errno.h>
#include <libavutil/display.h>
#include <libavutil/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Messages
 * ------------------------------------------------------------------------------------------- */

/* What FFmpeg said last on this thread. */
static _Thread_local char said[200];

static void hear(void *context, int level, const char *format, va_list arguments)
{
    (void)context;
    if (level > AV_LOG_ERROR)
        return;
    vsnprintf(said, sizeof said, format, arguments);
    said[strcspn(said, "\r\n")] = '\0';
}

void video_start_logging(void)
{
    av_log_set_callback(hear);
}

static enum status status_of(int number)
{
    switch (number) {
    case AVERROR(ENOMEM):
        return STATUS_NO_MEMORY;
    case AVERROR(ENOENT):
        return STATUS_NOT_FOUND;
    case AVERROR(EIO):
    case AVERROR(EACCES):
    case AVERROR(EPERM):
    case AVERROR(EMFILE):
    case AVERROR(ENFILE):
    case AVERROR(ESTALE):
    case AVERROR(ETIMEDOUT):
        return STATUS_IO;
    case AVERROR_PATCHWELCOME:
    case AVERROR_DECODER_NOT_FOUND:
        return STATUS_UNSUPPORTED;
    default:
        return STATUS_CORRUPT;
    }
}

enum status video_fail(int number, const char *what, struct error *err)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(number, text, sizeof text);
    return error_set(err, status_of(number), "%s: %s%s%s%s", what, text, *said ? " (" : "", said,
                     *said ? ")" : "");
}

bool video_is_bad(enum status status)
{
    return status == STATUS_NOT_FOUND || status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED ||
           status == STATUS_INVALID;
}

/* Opening
 * ------------------------------------------------------------------------------------------- */

static enum status check_file(const char *path, struct error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        bool is_bad_path =
            errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == ENAMETOOLONG;
        return error_set_errno(err, is_bad_path ? STATUS_NOT_FOUND : STATUS_IO, "open");
    }
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_UNSUPPORTED, "this is a %s, and not a file",
                         S_ISDIR(info.st_mode) ? "folder" : "device or a pipe");
    if (info.st_size == 0)
        return error_set(err, STATUS_CORRUPT, "the file is empty");
    return STATUS_OK;
}

/* Local files alone: a playlist in the list of videos fetches nothing. */
static enum status open_format(struct video *video, const char *path, struct error *err)
{
    AVDictionary *options = NULL;
    char *url = NULL;
    if (asprintf(&url, "file:%s", path) < 0)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a path");
    av_dict_set(&options, "protocol_whitelist", "file", 0);
    int got = avformat_open_input(&video->format, url, NULL, &options);
    av_dict_free(&options);
    free(url);
    if (got >= 0 && (video->format->ctx_flags & AVFMTCTX_NOHEADER))
        got = avformat_find_stream_info(video->format, NULL);
    const char *what = status_of(got) == STATUS_IO ? "open" : "not a video that FFmpeg reads";
    return got < 0 ? video_fail(got, what, err) : STATUS_OK;
}

static enum status find_stream(struct video *video, struct error *err)
{
    int number = av_find_best_stream(video->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (number < 0 || (video->format->streams[number]->disposition & AV_DISPOSITION_ATTACHED_PIC))
        return error_set(err, STATUS_UNSUPPORTED, "there is no video stream");
    video->stream = video->format->streams[number];
    for (unsigned i = 0; i < video->format->nb_streams; i++)
        if ((int)i != number)
            video->format->streams[i]->discard = AVDISCARD_ALL;
    return STATUS_OK;
}

static const int32_t *display_matrix(const AVStream *stream)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *data =
        av_packet_side_data_get(stream->codecpar->coded_side_data,
                                stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    return data && data->size >= 9 * sizeof(int32_t) ? (const int32_t *)(const void *)data->data
                                                     : NULL;
#else
    size_t size = 0;
    const uint8_t *data = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
    return data && size >= 9 * sizeof(int32_t) ? (const int32_t *)(const void *)data : NULL;
#endif
}

/* The matrix maps (x, y) to (a x + c y, b x + d y). */
static enum status read_orientation(struct video *video, struct error *err)
{
    const int32_t *matrix = display_matrix(video->stream);
    if (!matrix)
        return STATUS_OK;
    int32_t a = matrix[0], b = matrix[1], c = matrix[3], d = matrix[4];
    if (a && d && !b && !c)
        video->orientation = (struct orientation){false, a < 0, d < 0};
    else if (b && c && !a && !d)
        video->orientation = (struct orientation){true, c < 0, b < 0};
    else if (a || b || c || d)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the video is turned by %.1f degrees, which is no right angle",
                         av_display_rotation_get(matrix));
    return STATUS_OK;
}

static enum status open_decoder(struct video *video, struct error *err)
{
    const AVCodecParameters *parameters = video->stream->codecpar;
    const AVCodec *codec = avcodec_find_decoder(parameters->codec_id);
    if (!codec)
        return error_set(err, STATUS_UNSUPPORTED, "this FFmpeg has no decoder for the codec '%s'",
                         parameters->codec_id == AV_CODEC_ID_NONE
                             ? text_shown(av_fourcc2str(parameters->codec_tag)).text
                             : avcodec_get_name(parameters->codec_id));
    video->decoder = avcodec_alloc_context3(codec);
    if (!video->decoder)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a decoder");
    int got = avcodec_parameters_to_context(video->decoder, parameters);
    video->decoder->pkt_timebase = video->stream->time_base;
    video->decoder->thread_count = 1; /* each of our threads has a decoder */
    if (got >= 0)
        got = avcodec_open2(video->decoder, codec, NULL);
    return got < 0 ? video_fail(got, "the decoder does not start", err) : STATUS_OK;
}

static enum status open_all(struct video *video, const char *path, struct error *err)
{
    enum status status = check_file(path, err);
    if (!status)
        status = open_format(video, path, err);
    if (!status)
        status = find_stream(video, err);
    if (!status)
        status = read_orientation(video, err);
    if (!status)
        status = open_decoder(video, err);
    if (status)
        return status;
    video->packet = av_packet_alloc();
    video->frame = av_frame_alloc();
    if (!video->packet || !video->frame)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a video");
    return STATUS_OK;
}

static void close_all(struct video *video)
{
    av_packet_free(&video->packet);
    av_frame_free(&video->frame);
    avcodec_free_context(&video->decoder);
    avformat_close_input(&video->format);
    video->stream = NULL;
}

enum status video_open(const char *path, struct video **ret_video, struct error *err)
{
    struct video *video = calloc(1, sizeof *video);
    if (video)
        video->path = strdup(path);
    if (!video || !video->path) {
        free(video);
        return error_set(err, STATUS_NO_MEMORY, "no memory for a video");
    }
    said[0] = '\0';
    video->untouched = true;
    enum status status = open_all(video, path, err);
    if (status)
        video_close(video);
    else
        *ret_video = video;
    return status;
}

enum status video_rewind(struct video *video, struct error *err)
{
    close_all(video);
    video->untouched = true;
    video->complained = false;
    return open_all(video, video->path, err);
}

void video_close(struct video *video)
{
    if (!video)
        return;
    close_all(video);
    free(video->path);
    free(video);
}

/* Packets and frames
 * ------------------------------------------------------------------------------------------- */

enum status video_read(struct video *video, bool *ret_read, struct error *err)
{
    *ret_read = false;
    said[0] = '\0';
    video->untouched = false;
    for (;;) {
        av_packet_unref(video->packet);
        int got = av_read_frame(video->format, video->packet);
        bool at_end = video->format->pb && avio_feof(video->format->pb);
        if (got == AVERROR_EOF)
            return STATUS_OK;
        if (got == AVERROR(EIO) && at_end)
            return error_set(err, STATUS_CORRUPT, "the file ends early");
        if (got < 0)
            return video_fail(got, "read", err);
        if (video->packet->stream_index != video->stream->index)
            continue;
        if ((video->packet->flags & AV_PKT_FLAG_CORRUPT) && at_end)
            return error_set(err, STATUS_CORRUPT, "the file ends early");
        *ret_read = true;
        return STATUS_OK;
    }
}

enum status video_seek(struct video *video, int64_t pts, struct error *err)
{
    said[0] = '\0';
    video->untouched = false;
    int got = av_seek_frame(video->format, video->stream->index, pts, AVSEEK_FLAG_BACKWARD);
    if (got < 0)
        return error_set(err, STATUS_NOT_FOUND, "nothing to seek to");
    return STATUS_OK;
}

enum status video_send(struct video *video, const AVPacket *packet, struct error *err)
{
    said[0] = '\0';
    int got = avcodec_send_packet(video->decoder, packet);
    video->complained = video->complained || *said;
    return got < 0 && got != AVERROR_EOF ? video_fail(got, "decode", err) : STATUS_OK;
}

enum status video_take(struct video *video, bool *ret_taken, struct error *err)
{
    said[0] = '\0';
    int got = avcodec_receive_frame(video->decoder, video->frame);
    video->complained = video->complained || *said;
    *ret_taken = got >= 0;
    if (got == AVERROR(EAGAIN) || got == AVERROR_EOF)
        return STATUS_OK;
    if (got < 0)
        return video_fail(got, "decode", err);
    if (video->frame->pts == AV_NOPTS_VALUE)
        video->frame->pts = video->frame->best_effort_timestamp;
    return STATUS_OK;
}
