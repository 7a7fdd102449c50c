/* The arrays that an ingest writes. See ingest_internal.h. */
#include "workshop/ingest/ingest_internal.h"

#include "base/number.h"
#include "base/size.h"

#include <string.h>

/* Small arrays: few files. */
static const uint64_t table_chunk_bytes = 256 << 10;

static struct target_wish wish_of(const struct ingest *ingest, const char *path, enum dtype dtype,
                                  uint64_t count)
{
    const struct ingest_options *options = ingest->options;
    return (struct target_wish){
        .path = path,
        .dtype = dtype,
        .rank = 1,
        .shape = {count},
        .codec = options->codec,
        .level = options->level,
        .shuffle = options->shuffle,
        .attributes = "{}",
    };
}

/* Along the axis of segments. */
static void set_chunks(const struct ingest_options *options, struct target_wish *wish)
{
    memcpy(wish->chunk, wish->shape, sizeof wish->chunk);
    memcpy(wish->value, wish->shape, sizeof wish->value);
    wish->chunk[0] = min_u64(options->chunk, wish->shape[0]);
    wish->value[0] = wish->chunk[0];
    if (options->shard > 0)
        wish->value[0] = size_round_up(min_u64(options->shard, wish->shape[0]), wish->chunk[0]);
}

static enum status add_frames(struct ingest *ingest, struct targets *targets, struct error *err)
{
    const struct ingest_options *options = ingest->options;
    struct target_wish wish =
        wish_of(ingest, "base_frames", options->dtype, ingest->plan.segment_count);
    const uint64_t last[] = {options->size, options->size, 3};
    const uint64_t first[] = {3, options->size, options->size};
    wish.rank = 5;
    wish.shape[1] = ingest->wish.frame_count;
    memcpy(&wish.shape[2], options->channels_first ? first : last, sizeof last);
    set_chunks(options, &wish);
    return targets_add(targets, &wish, err);
}

/* base_frames as encoders make it of the frames. */
static enum status add_encoded(struct ingest *ingest, const char *request, struct error *err)
{
    const struct ingest_options *options = ingest->options;
    struct target_wish wish =
        wish_of(ingest, "base_frames", DTYPE_NONE, ingest->plan.segment_count);
    struct text attributes = {0};
    enum status status = add_frames(ingest, &ingest->frames, err);
    if (status != STATUS_OK)
        return status;
    ingest->encoders = (struct encoding_plan){.options = &options->encoding,
                                              .memory_bytes = options->making.memory_bytes,
                                              .inner = ingest_source(ingest),
                                              .inputs = ingest->frames.arrays,
                                              .input_count = 1,
                                              .output = "base_frames"};
    status = encoding_new(&ingest->encoders, &ingest->encoding, err);
    if (status == STATUS_OK)
        status = encoding_settle(ingest->encoding, ingest->folder_fd, request, &wish, err);
    if (status != STATUS_OK)
        return status;
    text_append(&attributes, "{\"encoder\":");
    text_append_json(&attributes, options->encoding.command);
    text_append(&attributes, "}");
    wish.attributes = attributes.data;
    set_chunks(options, &wish);
    status = targets_add(&ingest->targets, &wish, err);
    text_done(&attributes);
    if (status == STATUS_OK)
        encoding_cut(&options->encoding, &ingest->targets.arrays[ingest->targets.count - 1]);
    return status;
}

/* `length`: numbers of a row, 0: one, along no axis. */
static enum status add_table(struct ingest *ingest, const char *path, enum dtype dtype,
                             uint64_t count, uint64_t length, struct error *err)
{
    struct target_wish wish = wish_of(ingest, path, dtype, count);
    uint64_t row_bytes = dtype_bytes(dtype) * max_u64(length, 1);
    if (strcmp(path, "video_name") == 0) {
        wish.text_length = length;
    } else if (length > 0) {
        wish.rank = 2;
        wish.shape[1] = length;
    }
    memcpy(wish.chunk, wish.shape, sizeof wish.chunk);
    wish.chunk[0] = min_u64(count, max_u64(table_chunk_bytes / row_bytes, 1));
    memcpy(wish.value, wish.chunk, sizeof wish.value);
    wish.late = strcmp(path, "segment_valid") == 0;
    return targets_add(&ingest->targets, &wish, err);
}

static void measure_names(struct ingest *ingest)
{
    ingest->name_length = 1;
    for (size_t i = 0; i < ingest->list.count; i++)
        ingest->name_length = max_u64(ingest->name_length, strlen(ingest->list.videos[i].name));
    ingest->name_length = min_u64(ingest->name_length, ZARR_MAX_ITEM_BYTES / 4);
}

static enum status add_root(struct ingest *ingest, const char *request, struct error *err)
{
    const struct ingest_options *options = ingest->options;
    struct text attributes = {0};
    text_append(&attributes,
                "{\"penstock_ingest\":{\"request\":\"%s\",\"seed\":%llu,\"seconds\":%.17g,"
                "\"fps\":%.17g}}",
                request, (unsigned long long)options->seed, options->seconds, options->fps);
    enum status status = targets_add_group(&ingest->targets, "", 0, attributes.data, err);
    text_done(&attributes);
    return status;
}

enum status ingest_make_targets(struct ingest *ingest, const char *request, struct error *err)
{
    uint64_t segments = ingest->plan.segment_count, videos = ingest->list.count;
    measure_names(ingest);
    enum status status = add_root(ingest, request, err);
    if (status == STATUS_OK && ingest->options->encoding.command)
        status = add_encoded(ingest, request, err);
    else if (status == STATUS_OK)
        status = add_frames(ingest, &ingest->targets, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "segment_start", DTYPE_FLOAT64, segments, 0, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "segment_to_video", DTYPE_INT64, segments, 0, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "segment_valid", DTYPE_BOOL, segments, 0, err);
    if (status == STATUS_OK && ingest->text.count > 0)
        status =
            add_table(ingest, "text_emb", ingest->text.dtype, videos, ingest->text.length, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "video_duration", DTYPE_FLOAT64, videos, 0, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "video_fps", DTYPE_FLOAT64, videos, 0, err);
    if (status == STATUS_OK)
        status = add_table(ingest, "video_name", DTYPE_UINT32, videos, ingest->name_length, err);
    if (status != STATUS_OK)
        return status;
    targets_make_root(&ingest->targets);
    text_append(&ingest->targets.plan, "penstock ingest 1\n%s\n%s\n", request,
                ingest->targets.root_document.data);
    ingest->targets.source =
        ingest->encoding ? encoding_source(ingest->encoding) : ingest_source(ingest);
    return STATUS_OK;
}
