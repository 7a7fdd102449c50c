/* See video.h. */
#include "workshop/ingest/video.h"

#include "base/text.h"

#include <errno.h>
#include <libavutil/display.h>
#include <libavutil/log.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Messages
 * ------------------------------------------------------------------------------------------- */

/* What FFmpeg said last on this thread. */
static _Thread_local char said[200];

__attribute__((format(printf, 3, 0))) static void hear(void *context, int level, const char *format,
                                                       va_list arguments)
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

/* Whether the machine has memory for a decoder's frames. If so, it was the video that asked for too
 * much: FFmpeg says the same of both. */
static bool has_memory(void)
{
    static const size_t bytes = 64 << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    munmap(memory, bytes);
    return true;
}

/* Numbers of the C library come from places that mean no call of it; a decoder's bare -1, too. */
static const char *reason_of(int number, char *text, size_t size)
{
    if (number == AVERROR(ENOMEM))
        return "it asks for more memory than a video needs";
    if (number > -4096)
        return "it is damaged, or ends early";
    av_strerror(number, text, size);
    return text;
}

enum status video_check_reads(const struct video *video, struct error *err)
{
    errno = video->reads.failed;
    return errno ? error_set_errno(err, STATUS_IO, "read") : STATUS_OK;
}

enum status video_fail(const struct video *video, int number, const char *what, struct error *err)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    enum status status = video_check_reads(video, err);
    if (status != STATUS_OK)
        return status;
    if (number == AVERROR(ENOMEM) && !has_memory())
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory", what);
    bool is_unknown = number == AVERROR_PATCHWELCOME || number == AVERROR_DECODER_NOT_FOUND;
    return error_set(err, is_unknown ? STATUS_UNSUPPORTED : STATUS_CORRUPT, "%s: %s%s%s%s", what,
                     reason_of(number, text, sizeof text), *said ? " (" : "", said,
                     *said ? ")" : "");
}

bool video_is_bad(enum status status)
{
    return status == STATUS_NOT_FOUND || status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED ||
           status == STATUS_INVALID;
}

/* Opening
 * ------------------------------------------------------------------------------------------- */

/* Local files alone: a playlist in the list of videos fetches nothing. */
static enum status open_format(struct video *video, const char *path, struct error *err)
{
    char *url = NULL;
    video->format = avformat_alloc_context();
    if (!video->format || asprintf(&url, "file:%s", path) < 0)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a video");
    video->format->pb = video->io;
    video_file_serve(video->format, &video->reads);
    int got = avformat_open_input(&video->format, url, NULL, NULL);
    free(url);
    if (got >= 0 && (video->format->ctx_flags & AVFMTCTX_NOHEADER))
        got = avformat_find_stream_info(video->format, NULL);
    return got < 0 ? video_fail(video, got, "not a video that FFmpeg reads", err) : STATUS_OK;
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
    return got < 0 ? video_fail(video, got, "the decoder does not start", err) : STATUS_OK;
}

static enum status open_all(struct video *video, const char *path, struct error *err)
{
    enum status status = video_file_open(path, &video->reads, &video->io, err);
    if (status == STATUS_OK)
        status = open_format(video, path, err);
    if (status == STATUS_OK)
        status = find_stream(video, err);
    if (status == STATUS_OK)
        status = read_orientation(video, err);
    if (status == STATUS_OK)
        status = open_decoder(video, err);
    if (status == STATUS_OK || video_is_bad(status)) {
        enum status reads = video_check_reads(video, err);
        status = reads != STATUS_OK ? reads : status;
    }
    if (status != STATUS_OK)
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
    video_file_close(video->io);
    video->io = NULL;
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
    if (status != STATUS_OK)
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
        bool at_end = avio_feof(video->io);
        enum status status = video_check_reads(video, err);
        if (status != STATUS_OK || got == AVERROR_EOF)
            return status;
        if (got == AVERROR(EIO) && at_end)
            return error_set(err, STATUS_CORRUPT, "the file ends early");
        if (got < 0)
            return video_fail(video, got, "read", err);
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
    enum status status = video_check_reads(video, err);
    if (status == STATUS_OK && got < 0)
        status = error_set(err, STATUS_NOT_FOUND, "nothing to seek to");
    return status;
}

enum status video_send(struct video *video, const AVPacket *packet, struct error *err)
{
    said[0] = '\0';
    int got = avcodec_send_packet(video->decoder, packet);
    video->complained = video->complained || *said;
    return got < 0 && got != AVERROR_EOF ? video_fail(video, got, "decode", err) : STATUS_OK;
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
        return video_fail(video, got, "decode", err);
    if (video->frame->pts == AV_NOPTS_VALUE)
        video->frame->pts = video->frame->best_effort_timestamp;
    return STATUS_OK;
}
