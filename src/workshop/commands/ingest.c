/* `penstock ingest video`: videos become a dataset. Main thread; workshop/ingest/ingest.h does the
 * work, where Penstock was built with FFmpeg's libraries. */
#include "workshop/ingest/ingest.h"

#include "base/number.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/common/cli.h"
#include "workshop/commands/commands.h"
#include "workshop/commands/making_options.h"
#include "workshop/making/rechunk.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct ingest_options ingest;
    uint64_t size;
};

static void parse_seconds(void *options, const struct argp_state *state, const char *option,
                          char *argument)
{
    ((struct options *)options)->ingest.seconds = cli_real(state, option, argument, 1e-6, 1e6);
}

static void parse_fps(void *options, const struct argp_state *state, const char *option,
                      char *argument)
{
    ((struct options *)options)->ingest.fps = cli_real(state, option, argument, 1e-6, 1e6);
}

static void parse_dtype(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    options->ingest.dtype = dtype_by_name(argument);
    if (options->ingest.dtype != DTYPE_UINT8 && options->ingest.dtype != DTYPE_FLOAT16 &&
        options->ingest.dtype != DTYPE_BFLOAT16 && options->ingest.dtype != DTYPE_FLOAT32)
        argp_error(state, "%s '%s': neither uint8, float16, bfloat16 nor float32", option,
                   argument);
}

static void parse_layout(void *input, const struct argp_state *state, const char *option,
                         char *argument)
{
    struct options *options = input;
    options->ingest.channels_first = strcmp(argument, "tchw") == 0;
    if (!options->ingest.channels_first && strcmp(argument, "thwc") != 0)
        argp_error(state, "%s '%s': neither thwc nor tchw", option, argument);
}

static void parse_bad(void *input, const struct argp_state *state, const char *option,
                      char *argument)
{
    struct options *options = input;
    options->ingest.bad_is_error = strcmp(argument, "error") == 0;
    if (!options->ingest.bad_is_error && strcmp(argument, "skip") != 0)
        argp_error(state, "%s '%s': neither skip nor error", option, argument);
}

/* One number for all colours, or three, from low to 1e6: as floats they are none of 0 and infinity.
 */
static void parse_colours(double values[3], const struct argp_state *state, const char *option,
                          const char *argument, double low)
{
    char copy[128], *rest = copy, *part;
    int count = 0;
    bool fine = snprintf(copy, sizeof copy, "%s", argument) < (int)sizeof copy;
    while (fine && (part = strsep(&rest, ",")))
        fine = count < 3 && number_parse_real(part, low, 1e6, &values[count++]);
    if (!fine || (count != 1 && count != 3))
        argp_error(state, "%s '%s': one number from %g to 1e6, or three with commas", option,
                   argument, low);
    if (count == 1)
        values[1] = values[2] = values[0];
}

static void parse_mean(void *options, const struct argp_state *state, const char *option,
                       char *argument)
{
    parse_colours(((struct options *)options)->ingest.mean, state, option, argument, -1e6);
}

static void parse_std(void *input, const struct argp_state *state, const char *option,
                      char *argument)
{
    parse_colours(((struct options *)input)->ingest.std, state, option, argument, 1e-6);
}

static const struct cli_option option_table[] = {
    {"segments", 'n', "N", "segments of a video, at most (10)",
     CLI_COUNT(ingest.segments, 1, 1000000)},
    {"seconds", 0, "S", "length of a segment (5)", CLI_OWN(parse_seconds)},
    {"fps", 0, "F", "frames of a segment, a second (4)", CLI_OWN(parse_fps)},
    {"size", 0, "PIXELS", "sides of a frame (256)", CLI_COUNT(size, 8, 8192)},
    {"seed", 0, "N", "of the segments' starts and of the crops (0)",
     CLI_COUNT(ingest.seed, 0, UINT64_MAX)},
    {"dtype", 0, "TYPE",
     "uint8, or float16, bfloat16 or float32: (value / 255 - mean) / std (uint8)",
     CLI_OWN(parse_dtype)},
    {"mean", 0, "M[,M,M]", "of floats, for each colour (0.5)", CLI_OWN(parse_mean)},
    {"std", 0, "S[,S,S]", "of floats, for each colour (0.5)", CLI_OWN(parse_std)},
    {"layout", 0, "AXES", "of a segment: thwc, colours last, or tchw (thwc)",
     CLI_OWN(parse_layout)},
    {"text", 0, "FILE", "an embedding for each video of LIST: .npy or .csv (none)",
     CLI_TEXT(ingest.text)},
    {"encode", 0, "CMD",
     "write as base_frames what CMD makes of the frames: see below (the frames)",
     CLI_TEXT(ingest.encoding.command)},
    CLI_ENCODING_OPTIONS(ingest.encoding),
    {"bad", 0, "HOW",
     "videos that cannot be used: skip leaves them out and names them, error ends (skip)",
     CLI_OWN(parse_bad)},
    {"report", 0, "FILE", "write what was left out, and why, as JSON", CLI_TEXT(ingest.report)},
    {"chunk", 'c', "N", "segments of a chunk (1)", CLI_COUNT(ingest.chunk, 1, INT64_MAX / 2)},
    {"shard", 's', "N", "segments of a shard, rounded up to whole chunks (no shards)",
     CLI_COUNT(ingest.shard, 1, INT64_MAX / 2)},
    CLI_CODEC_OPTIONS(ingest),
    CLI_MAKING_OPTIONS(ingest.making),
};

static const char help[] =
    "Cut segments out of the videos of LIST, and write their frames as the Zarr dataset DST."
    "\v"
    "LIST is a text file with a path a line, a CSV file with a column 'path' (and 'name'), or a "
    "folder. Paths are relative to the list's folder. Of each video up to N segments of S seconds "
    "are taken. Their starts are spread over the video: one in each of N equal parts, at random "
    "there. A frame is what the video shows at that moment. The frame is turned as the video "
    "says, scaled so that the short side has PIXELS, and cut to a square, at the same random place "
    "in all frames of a segment.\n"
    "\n"
    "DST has base_frames, segment_start, segment_to_video and segment_valid for each segment, and "
    "video_duration, video_fps, video_name and text_emb (--text) for each video. Seed, list and "
    "options decide all bytes, whatever the number of threads and processes is.\n"
    "\n"
    "A video that cannot be used is named with the reason: not a video, damaged, shorter than a "
    "segment, a codec that FFmpeg lacks, a missing file. The frames of a segment that cannot be "
    "decoded are 0, and the segment is not valid: train with samples.where: segment_valid.\n"
    "\n"
    "With --encode, N processes of the shell command CMD get frames as trainers do, and give an "
    "array for each batch: penstock.Encoder in Python, penstock_give() in C. The first result "
    "tells "
    "dtype and shape. CMD runs in the environment of a trainer: RANK, WORLD_SIZE, LOCAL_RANK.\n"
    "\n"
    "After an interruption, the same command goes on. Under mpirun or srun each process writes its "
    "part, as of penstock rechunk.\n"
    "\n" CLI_MAKING_EXIT_CODES "a list that cannot be used.\n"
    "\n"
    "Examples:\n"
    "  penstock ingest video recordings/ frames.zarr\n"
    "  penstock ingest video list.csv frames.zarr --segments 4 --text clip.npy --report "
    "report.json\n"
    "  mpirun -np 16 penstock ingest video list.txt frames.zarr --dtype bfloat16 --layout tchw\n"
    "  penstock ingest video recordings/ latents.zarr --encode 'python3 encode.py' --batch 4\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "video LIST DST",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, ingest.list),
                         offsetof(struct options, ingest.making.destination)},
    .argument_count = 2,
    .missing = "LIST or DST is missing: which videos, and where to?",
    .long_only = true,
};

static enum status run(const struct ingest_options *options, struct ingest_result *ret_result,
                       struct error *err)
{
#ifdef PENSTOCK_HAS_INGEST
    return ingest_run(options, ret_result, err);
#else
    (void)options;
    *ret_result = (struct ingest_result){0};
    return error_set(err, STATUS_UNSUPPORTED,
                     "this Penstock was built without FFmpeg's libraries; install libavformat-dev, "
                     "libavcodec-dev, libswscale-dev and libavutil-dev, and build Penstock anew");
#endif
}

static void tell(const struct ingest_result *result)
{
    if (result->making.already_complete || result->making.slabs_left > 0)
        return;
    printf("%s segment%s of %s video%s", count_format(result->segment_count).text,
           count_plural(result->segment_count),
           count_format(result->video_count - result->bad_video_count).text,
           count_plural(result->video_count - result->bad_video_count));
    if (result->bad_video_count > 0)
        printf("; %s of %s videos left out", count_format(result->bad_video_count).text,
               count_format(result->video_count).text);
    if (result->bad_segment_count > 0)
        printf("; %s segment%s not valid", count_format(result->bad_segment_count).text,
               count_plural(result->bad_segment_count));
    printf("\n");
}

enum { USUAL_BATCH = 64 };

/* A configuration that trains on what was made. */
static void tell_configuration(const struct ingest_options *options,
                               const struct ingest_result *result)
{
    struct text out = {0};
    uint64_t valid = result->segment_count - result->bad_segment_count;
    if (result->making.already_complete || result->making.slabs_left > 0 || valid == 0)
        return;
    text_append(&out, "dataset:\n  uri: ");
    text_append_json(&out, options->making.destination);
    text_append(&out, "\n  fields:\n    %s: {array: base_frames}\n",
                options->encoding.command ? "latents" : "frames");
    if (options->text)
        text_append(&out, "    text: {array: text_emb, index: segment_to_video}\n");
    text_append(&out, "samples: {where: segment_valid}\nbatch: {global_size: %" PRIu64 "}\n",
                min_u64(valid, USUAL_BATCH));
    printf("%sorder: {seed: 17}\n", out.data);
    text_done(&out);
}

static int ingest_video(int argc, char **argv)
{
    struct options options = {
        .ingest = {.making = {.label = "ingesting", .verify = true},
                   .encoding = ENCODING_DEFAULTS,
                   .segments = 10,
                   .seconds = 5,
                   .fps = 4,
                   .dtype = DTYPE_UINT8,
                   .mean = {0.5, 0.5, 0.5},
                   .std = {0.5, 0.5, 0.5},
                   .chunk = 1,
                   .codec = "zstd",
                   .level = 1},
        .size = 256,
    };
    struct ingest_result result;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    options.ingest.size = (uint32_t)options.size;
    if (cli_making_settle(&options.ingest.making, &err) != STATUS_OK ||
        run(&options.ingest, &result, &err) != STATUS_OK)
        return cli_fail(argv[0], &err);
    tell(&result);
    cli_making_tell(&options.ingest.making, &result.making, ", and reads as it was written");
    tell_configuration(&options.ingest, &result);
    return EXIT_SUCCESS;
}

int cli_ingest(int argc, char **argv)
{
    struct error err;
    if (argc > 1 && strcmp(argv[1], "video") == 0) {
        argv[1] = argv[0];
        return ingest_video(argc - 1, argv + 1);
    }
    if (argc < 2 || argv[1][0] == '-')
        return ingest_video(argc, argv);
    error_set(&err, STATUS_INVALID, "'%s' is not known: there is video", argv[1]);
    return cli_fail(argv[0], &err);
}
