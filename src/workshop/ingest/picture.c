/* See picture.h. */
#include "workshop/ingest/picture.h"

#include "base/random.h"

#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <math.h>
#include <string.h>

/* Turning
 * ------------------------------------------------------------------------------------------- */

/* A plane of pixels of `step` bytes. */
struct plane {
    const uint8_t *from;
    uint8_t *to;
    int from_stride, to_stride, width, height, step; /* width and height of `to` */
};

static void turn_plane(const struct plane *plane, const struct orientation *turn)
{
    for (int y = 0; y < plane->height; y++)
        for (int x = 0; x < plane->width; x++) {
            int across = turn->flip_x ? plane->width - 1 - x : x;
            int down = turn->flip_y ? plane->height - 1 - y : y;
            int row = turn->transpose ? across : down, column = turn->transpose ? down : across;
            memcpy(plane->to + (ptrdiff_t)y * plane->to_stride + (ptrdiff_t)x * plane->step,
                   plane->from + (ptrdiff_t)row * plane->from_stride +
                       (ptrdiff_t)column * plane->step,
                   (size_t)plane->step);
        }
}

static bool is_turned(const struct orientation *turn)
{
    return turn->transpose || turn->flip_x || turn->flip_y;
}

/* Whether pixels can be moved before colours are converted: whole bytes, and as much colour across
 * as down where both change places. */
static bool can_turn(const AVPixFmtDescriptor *layout, const struct orientation *turn)
{
    uint64_t others = AV_PIX_FMT_FLAG_PAL | AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_HWACCEL;
    bool is_packed_yuv = layout->log2_chroma_w > 0 && !(layout->flags & AV_PIX_FMT_FLAG_PLANAR);
    return !(layout->flags & others) && !is_packed_yuv &&
           (!turn->transpose || layout->log2_chroma_w == layout->log2_chroma_h);
}

static enum status turn_frame(struct picture_maker *maker, const AVFrame *frame,
                              const struct orientation *turn, struct error *err)
{
    const AVPixFmtDescriptor *layout = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    int steps[4] = {0};
    if (!maker->turned)
        maker->turned = av_frame_alloc();
    if (!maker->turned)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a frame");
    av_frame_unref(maker->turned);
    av_frame_copy_props(maker->turned, frame);
    maker->turned->format = frame->format;
    maker->turned->width = turn->transpose ? frame->height : frame->width;
    maker->turned->height = turn->transpose ? frame->width : frame->height;
    if (av_frame_get_buffer(maker->turned, 0) < 0)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a frame");
    av_image_fill_max_pixsteps(steps, NULL, layout);
    for (int i = 0; i < 4 && frame->data[i]; i++) {
        bool is_colour = i == 1 || i == 2;
        int shift_x = is_colour ? layout->log2_chroma_w : 0;
        int shift_y = is_colour ? layout->log2_chroma_h : 0;
        const struct plane plane = {
            .from = frame->data[i],
            .to = maker->turned->data[i],
            .from_stride = frame->linesize[i],
            .to_stride = maker->turned->linesize[i],
            .width = AV_CEIL_RSHIFT(maker->turned->width, shift_x),
            .height = AV_CEIL_RSHIFT(maker->turned->height, shift_y),
            .step = steps[i],
        };
        turn_plane(&plane, turn);
    }
    return STATUS_OK;
}

/* Scaling
 * ------------------------------------------------------------------------------------------- */

/* As ffmpeg's scale filter has it: chroma of 4:2:0 lies as in MPEG-2. */
static enum status open_scaler(struct picture_maker *maker, const AVFrame *frame, struct error *err)
{
    static const int flags = SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_BITEXACT;
    sws_freeContext(maker->scaler);
    maker->scaler = sws_alloc_context();
    if (!maker->scaler)
        return error_set(err, STATUS_NO_MEMORY, "no memory for scaling");
    av_opt_set_int(maker->scaler, "srcw", frame->width, 0);
    av_opt_set_int(maker->scaler, "srch", frame->height, 0);
    av_opt_set_int(maker->scaler, "src_format", frame->format, 0);
    av_opt_set_int(maker->scaler, "dstw", maker->width, 0);
    av_opt_set_int(maker->scaler, "dsth", maker->height, 0);
    av_opt_set_int(maker->scaler, "dst_format", AV_PIX_FMT_RGB24, 0);
    av_opt_set_int(maker->scaler, "sws_flags", flags, 0);
    if (frame->format == AV_PIX_FMT_YUV420P)
        av_opt_set_int(maker->scaler, "src_v_chr_pos", 128, 0);
    if (sws_init_context(maker->scaler, NULL, NULL) < 0)
        return error_set(err, STATUS_UNSUPPORTED, "frames of %d x %d pixels (%s) cannot be scaled",
                         frame->width, frame->height,
                         av_get_pix_fmt_name((enum AVPixelFormat)frame->format));
    maker->from_width = frame->width;
    maker->from_height = frame->height;
    maker->from_format = frame->format;
    return STATUS_OK;
}

/* The matrix and the range that the frame names; without a name, those of ffmpeg (BT.601). */
static void set_colours(struct picture_maker *maker, const AVFrame *frame)
{
    int *inverse, *table, full = 0, to_full, brightness, contrast, saturation;
    int space = frame->colorspace;
    if (space < 1 || space > 10 || space == 8)
        space = SWS_CS_DEFAULT;
    const int *named = sws_getCoefficients(space);
    if (sws_getColorspaceDetails(maker->scaler, &inverse, &full, &table, &to_full, &brightness,
                                 &contrast, &saturation) < 0)
        return;
    if (frame->color_range != AVCOL_RANGE_UNSPECIFIED)
        full = frame->color_range == AVCOL_RANGE_JPEG;
    sws_setColorspaceDetails(maker->scaler, named, full, named, to_full, brightness, contrast,
                             saturation);
}

/* In pixels of the frame's height. */
static double shown_width(const AVFrame *frame, AVRational shape)
{
    return shape.num > 0 && shape.den > 0 ? frame->width * av_q2d(shape) : frame->width;
}

double picture_ratio(const AVFrame *frame, AVRational shape)
{
    double width = shown_width(frame, shape), height = frame->height;
    return fmax(width, height) / fmin(width, height);
}

enum status picture_check_ratio(const AVFrame *frame, AVRational shape, double most,
                                struct error *err)
{
    if (picture_ratio(frame, shape) <= most)
        return STATUS_OK;
    return error_set(
        err, STATUS_UNSUPPORTED,
        "frames are shown as %.6g x %d pixels; sides may differ by a factor of %.3g at "
        "most",
        shown_width(frame, shape), frame->height, most);
}

static void settle_size(const AVFrame *frame, AVRational shape, uint32_t size, int *ret_width,
                        int *ret_height)
{
    double width = shown_width(frame, shape), height = frame->height;
    double scale = size / fmin(width, height);
    *ret_width = width < height ? (int)size : (int)llrint(width * scale);
    *ret_height = width < height ? (int)llrint(height * scale) : (int)size;
}

static enum status scale_frame(struct picture_maker *maker, const AVFrame *frame, AVRational shape,
                               uint32_t size, struct error *err)
{
    int width, height;
    settle_size(frame, shape, size, &width, &height);
    bool same = maker->scaler && maker->width == width && maker->height == height &&
                maker->from_width == frame->width && maker->from_height == frame->height &&
                maker->from_format == frame->format;
    if (!same) {
        maker->width = width;
        maker->height = height;
        enum status status = open_scaler(maker, frame, err);
        if (status != STATUS_OK)
            return status;
        av_frame_free(&maker->scaled);
        maker->scaled = av_frame_alloc();
        if (!maker->scaled)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a frame");
        maker->scaled->format = AV_PIX_FMT_RGB24;
        maker->scaled->width = width;
        maker->scaled->height = height;
        if (av_frame_get_buffer(maker->scaled, 0) < 0)
            return error_set(err, STATUS_NO_MEMORY, "no memory for a frame");
    }
    set_colours(maker, frame);
    int got = sws_scale(maker->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0,
                        frame->height, maker->scaled->data, maker->scaled->linesize);
    return got < 0 ? error_set(err, STATUS_CORRUPT, "a frame cannot be scaled") : STATUS_OK;
}

/* Pictures
 * ------------------------------------------------------------------------------------------- */

static void cut(const AVFrame *frame, uint32_t size, const struct picture_crop *crop,
                unsigned char *ret_pixels)
{
    uint64_t x = random_below(crop->x, (uint64_t)frame->width - size + 1);
    uint64_t y = random_below(crop->y, (uint64_t)frame->height - size + 1);
    for (uint32_t row = 0; row < size; row++)
        memcpy(ret_pixels + (size_t)row * size * 3,
               frame->data[0] + (y + row) * (size_t)frame->linesize[0] + x * 3, (size_t)size * 3);
}

enum status picture_make(struct picture_maker *maker, const AVFrame *frame,
                         const struct orientation *orientation, AVRational shape, uint32_t size,
                         const struct picture_crop *crop, unsigned char *ret_pixels,
                         struct error *err)
{
    const AVPixFmtDescriptor *layout = av_pix_fmt_desc_get((enum AVPixelFormat)frame->format);
    bool turned = is_turned(orientation);
    bool early = turned && layout && can_turn(layout, orientation);
    enum status status = STATUS_OK;
    if (early) {
        status = turn_frame(maker, frame, orientation, err);
        frame = maker->turned;
        if (orientation->transpose)
            shape = av_inv_q(shape);
    }
    if (status == STATUS_OK)
        status = scale_frame(maker, frame, shape, size, err);
    frame = maker->scaled;
    if (status == STATUS_OK && turned && !early) {
        status = turn_frame(maker, maker->scaled, orientation, err);
        frame = maker->turned;
    }
    if (status == STATUS_OK)
        cut(frame, size, crop, ret_pixels);
    return status;
}

void picture_maker_done(struct picture_maker *maker)
{
    sws_freeContext(maker->scaler);
    av_frame_free(&maker->turned);
    av_frame_free(&maker->scaled);
}
