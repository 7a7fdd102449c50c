/* Where the values of an ingest's arrays come from. See ingest_internal.h. */
#include "workshop/ingest/ingest_internal.h"

#include "base/number.h"
#include "workshop/ingest/segment.h"
#include "zarr/metadata/array.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Frames
 * ------------------------------------------------------------------------------------------- */

/* A thread's. */
struct reader {
    struct ingest *ingest;
    struct segment_reader *segments;
};

/* Beside a decoder's frames, of at most 8 bytes a pixel, and scaled ones: packets of a segment, and
 * tables. */
static const uint64_t packets_bytes = 32 << 20;
enum { DECODER_FRAMES = 18, TURNED_AND_SCALED = 2 };

/* How many segments share a pass of the decoder. */
static uint32_t at_once(const struct ingest *ingest)
{
    return (uint32_t)min_u64(max_u64(ingest->plan.most_shared, 1), SEGMENTS_AT_ONCE);
}

static uint64_t reader_bytes(const void *argument, const struct target *target)
{
    const struct ingest *ingest = argument;
    uint64_t size = ingest->options->size;
    if (strcmp(target->array.path, "base_frames") != 0)
        return 0;
    double ratio = fmax(ingest->plan.most_ratio, SEGMENT_RATIO);
    uint64_t scaled = (uint64_t)(ratio * (double)(size * size * 3));
    return packets_bytes + at_once(ingest) * ingest->wish.frame_count * size * size * 3 +
           TURNED_AND_SCALED * scaled + ingest->plan.most_pixels * 3 / 2 * DECODER_FRAMES;
}

static enum status open_reader(void *argument, void **ret_reader, struct error *err)
{
    struct ingest *ingest = argument;
    struct reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a thread");
    reader->ingest = ingest;
    enum status status = segment_reader_new(&ingest->wish, ingest->options->size, at_once(ingest),
                                            &reader->segments, err);
    if (status != STATUS_OK)
        free(reader);
    else
        *ret_reader = reader;
    return status;
}

static void close_reader(void *argument)
{
    struct reader *reader = argument;
    segment_reader_free(reader->segments);
    free(reader);
}

static enum status read_segment(struct reader *reader, uint64_t segment, unsigned char *items,
                                size_t bytes, struct error *err)
{
    struct ingest *ingest = reader->ingest;
    const struct ingest_options *options = ingest->options;
    size_t number = find_last_u64(ingest->plan.first_segments, 0, ingest->plan.count, segment);
    uint64_t i = segment - ingest->plan.first_segments[number];
    const char *path = ingest->list.videos[number].path;
    const unsigned char *pictures;
    enum status status = segment_reader_use(reader->segments, path, number,
                                            &ingest->plan.videos[number].segments, err);
    if (status != STATUS_OK) /* the plan says that the video is good */
        return error_prefix(err, STATUS_IO, "video '%s', which could be read before: ", path);
    status = segment_read(reader->segments, i, &pictures, err);
    if (status != STATUS_OK && (options->bad_is_error || !video_is_bad(status)))
        return error_prefix(err, status, "video '%s', segment %" PRIu64 ": ", path, i);
    if (status != STATUS_OK) {
        memset(items, 0, bytes);
        return bad_segments_add(&ingest->bad, segment, err->message, err);
    }
    size_t picture_bytes = (size_t)options->size * options->size * 3;
    for (uint32_t k = 0; k < ingest->wish.frame_count; k++)
        pixels_put(&ingest->pixels, options->size, pictures + k * picture_bytes,
                   items + k * (bytes / ingest->wish.frame_count));
    return STATUS_OK;
}

static enum status read_frames(struct reader *reader, const struct target *target, uint64_t begin,
                               uint64_t end, unsigned char *samples, struct error *err)
{
    size_t bytes = zarr_array_sample_bytes(&target->array);
    enum status status = STATUS_OK;
    for (uint64_t i = begin; i < end && status == STATUS_OK; i++)
        status = read_segment(reader, i, samples + (i - begin) * bytes, bytes, err);
    return status;
}

/* Tables
 * ------------------------------------------------------------------------------------------- */

static size_t video_of(const struct ingest *ingest, uint64_t segment)
{
    return find_last_u64(ingest->plan.first_segments, 0, ingest->plan.count, segment);
}

static void put_start(const struct ingest *ingest, uint64_t i, void *item)
{
    size_t number = video_of(ingest, i);
    const struct video_segments *segments = &ingest->plan.videos[number].segments;
    uint64_t at = i - ingest->plan.first_segments[number];
    *(double *)item = (double)segments->list[at].start * av_q2d(segments->time_base);
}

static void put_video(const struct ingest *ingest, uint64_t i, void *item)
{
    *(int64_t *)item = (int64_t)video_of(ingest, i);
}

static void put_valid(const struct ingest *ingest, uint64_t i, void *item)
{
    *(uint8_t *)item = !ingest->bad.are_bad[i];
}

static void put_text(const struct ingest *ingest, uint64_t i, void *item)
{
    size_t bytes = ingest->text.length * dtype_bytes(ingest->text.dtype);
    memcpy(item, ingest->text.values + i * bytes, bytes);
}

static void put_duration(const struct ingest *ingest, uint64_t i, void *item)
{
    *(double *)item = ingest->plan.videos[i].segments.duration;
}

static void put_fps(const struct ingest *ingest, uint64_t i, void *item)
{
    *(double *)item = ingest->plan.videos[i].segments.fps;
}

/* UTF-8 in code points; a byte that is none stands for itself. */
static void put_name(const struct ingest *ingest, uint64_t i, void *item)
{
    const unsigned char *at = (const unsigned char *)ingest->list.videos[i].name;
    uint32_t *points = item;
    memset(points, 0, ingest->name_length * sizeof *points);
    for (uint64_t k = 0; k < ingest->name_length && *at; k++) {
        int more = *at >= 0xf0 ? 3 : *at >= 0xe0 ? 2 : *at >= 0xc2 ? 1 : 0;
        uint32_t point = *at < 0x80 ? *at : *at & (0x3fu >> more);
        for (int byte = 1; byte <= more; byte++)
            if ((at[byte] & 0xc0) != 0x80)
                more = 0;
        if (more == 0)
            point = *at;
        for (int byte = 1; byte <= more; byte++)
            point = point << 6 | (at[byte] & 0x3f);
        points[k] = point;
        at += 1 + more;
    }
}

static const struct {
    const char *path;
    void (*put)(const struct ingest *ingest, uint64_t i, void *item);
} tables[] = {
    {"segment_start", put_start}, {"segment_to_video", put_video},  {"segment_valid", put_valid},
    {"text_emb", put_text},       {"video_duration", put_duration}, {"video_fps", put_fps},
    {"video_name", put_name},
};

static enum status read_samples(void *argument, const struct target *target, uint64_t begin,
                                uint64_t end, void *samples, struct error *err)
{
    struct reader *reader = argument;
    size_t bytes = zarr_array_sample_bytes(&target->array);
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        if (strcmp(tables[t].path, target->array.path) != 0)
            continue;
        for (uint64_t i = begin; i < end; i++)
            tables[t].put(reader->ingest, i, (unsigned char *)samples + (i - begin) * bytes);
        return STATUS_OK;
    }
    return read_frames(reader, target, begin, end, samples, err);
}

static enum status before_late(void *argument, struct error *err)
{
    struct ingest *ingest = argument;
    return bad_segments_read(&ingest->bad, ingest->plan.segment_count, err);
}

struct sample_source ingest_source(struct ingest *ingest)
{
    return (struct sample_source){
        .argument = ingest,
        .reader_bytes = reader_bytes,
        .open = open_reader,
        .read = read_samples,
        .close = close_reader,
        .before_late = before_late,
    };
}
