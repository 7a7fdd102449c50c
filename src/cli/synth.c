/* `penstock synth`: writes a dataset to try things with. Main thread; see synth.h for its parts. */
#include "cli/synth.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "cli/cli.h"
#include "topology/topology.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum layout { LAYOUT_LATENTS, LAYOUT_PLAIN };

struct options {
    struct synth_dataset dataset;
    enum layout layout;
    uint64_t samples, videos, chunk, seed;
    enum dtype dtype;
    int rank; /* of a sample, with shape */
    uint64_t shape[ZARR_MAX_RANK - 1];
};

enum { MAX_SAMPLES = 1000000000, MAX_SIDE = 1 << 20 };

enum option_key {
    OPTION_SAMPLES = 'n',
    OPTION_CHUNK = 'k',
    OPTION_THREADS = 'j',
    OPTION_LAYOUT = 0x100,
    OPTION_VIDEOS,
    OPTION_FORMAT,
    OPTION_CODEC,
    OPTION_LEVEL,
    OPTION_SHUFFLE,
    OPTION_SEED,
    OPTION_SHAPE,
    OPTION_DTYPE,
    OPTION_OVERWRITE,
};

static const struct argp_option option_table[] = {
    {"layout", OPTION_LAYOUT, "NAME", 0, "latents (default) or plain, see below", 0},
    {"samples", OPTION_SAMPLES, "N", 0, "samples to write (5000)", 0},
    {"videos", OPTION_VIDEOS, "V", 0, "latents: videos that the samples are from (N/10)", 0},
    {"chunk", OPTION_CHUNK, "K", 0, "samples in one chunk (1)", 0},
    {"shape", OPTION_SHAPE, "A,B,...", 0, "plain: shape of a sample (3,32,32)", 0},
    {"dtype", OPTION_DTYPE, "TYPE", 0, "plain: int8 to uint64, float16 to float64 (float32)", 0},
    {"format", OPTION_FORMAT, "2|3", 0, "Zarr format (2)", 0},
    {"codec", OPTION_CODEC, "CODEC", 0,
     "blosc-zstd (default), blosc-lz4, blosc-zlib, zstd, gzip, zlib, lz4 or none; "
     "with --format 3 also two in a row, as in zstd+crc32c",
     0},
    {"level", OPTION_LEVEL, "L", 0, "compression level (the codec's default; blosc: 5)", 0},
    {"shuffle", OPTION_SHUFFLE, "KIND", 0, "blosc: shuffle (default), bitshuffle or noshuffle", 0},
    {"seed", OPTION_SEED, "S", 0, "same seed, same bytes (0)", 0},
    {"threads", OPTION_THREADS, "T", 0, "threads that write, or auto (one per core)", 0},
    {"overwrite", OPTION_OVERWRITE, NULL, 0, "replace a dataset that is there already", 0},
    {0},
};

static const char help[] =
    "Write a synthetic Zarr dataset to DIR, to try and to measure things with."
    "\v"
    "Layout 'latents' is what video models train on, made by an autoencoder:\n"
    "  base_frames       (N, 20, 4, 32, 32)  float16  160 KiB a sample\n"
    "  clip_emb          (V, 512)            float16  a text embedding a video\n"
    "  segment_to_video  (N)                 int64    the video of a sample\n"
    "Layout 'plain' is one array 'data' (N, A, B, ...) of random numbers.\n"
    "\n"
    "Examples:\n"
    "  penstock synth latents.zarr                  5,000 samples, 782 MiB decoded\n"
    "  penstock synth small.zarr -n 200 --format 3  quick, in the newer format\n"
    "  penstock synth rows.zarr -n 20000 --chunk 8  8 samples in a chunk\n"
    "  penstock synth tiny.zarr --layout plain -n 1000 --shape 16 --codec none\n";

static void parse_layout(struct options *options, const struct argp_state *state, const char *text)
{
    if (strcmp(text, "latents") == 0)
        options->layout = LAYOUT_LATENTS;
    else if (strcmp(text, "plain") == 0)
        options->layout = LAYOUT_PLAIN;
    else
        argp_error(state, "--layout '%s': there are latents and plain", text);
}

static void parse_dtype(struct options *options, const struct argp_state *state, const char *text)
{
    enum dtype dtype = dtype_by_name(text);
    bool is_float = dtype == DTYPE_FLOAT16 || dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64;
    if (!is_float && !dtype_is_integer(dtype))
        argp_error(state, "--dtype '%s': not an integer or float type such as uint8 or float32",
                   text);
    options->dtype = dtype;
}

static void parse_shape(struct options *options, const struct argp_state *state, char *text)
{
    char *number;
    options->rank = 0;
    while ((number = strsep(&text, ","))) {
        if (options->rank == ZARR_MAX_RANK - 1)
            argp_error(state, "--shape: more than %d numbers", ZARR_MAX_RANK - 1);
        options->shape[options->rank++] = cli_count(state, "--shape", number, 1, MAX_SIDE);
    }
}

static int parse_level(const struct argp_state *state, const char *text)
{
    bool negative = text[0] == '-'; /* zstd has fast levels below zero */
    int level = (int)cli_count(state, "--level", text + negative, 0, 100);
    return negative ? -level : level;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    struct synth_dataset *dataset = &options->dataset;
    switch (key) {
    case OPTION_LAYOUT:
        parse_layout(options, state, argument);
        return 0;
    case OPTION_SAMPLES:
        options->samples = cli_count(state, "--samples", argument, 1, MAX_SAMPLES);
        return 0;
    case OPTION_VIDEOS:
        options->videos = cli_count(state, "--videos", argument, 1, MAX_SAMPLES);
        return 0;
    case OPTION_CHUNK:
        options->chunk = cli_count(state, "--chunk", argument, 1, MAX_SAMPLES);
        return 0;
    case OPTION_SHAPE:
        parse_shape(options, state, argument);
        return 0;
    case OPTION_DTYPE:
        parse_dtype(options, state, argument);
        return 0;
    case OPTION_FORMAT:
        dataset->format = (enum zarr_format)cli_count(state, "--format", argument, 2, 3);
        return 0;
    case OPTION_CODEC:
        dataset->codec = argument;
        return 0;
    case OPTION_LEVEL:
        dataset->level = parse_level(state, argument);
        return 0;
    case OPTION_SHUFFLE:
        dataset->shuffle = argument;
        return 0;
    case OPTION_SEED:
        options->seed = cli_count(state, "--seed", argument, 0, UINT64_MAX);
        return 0;
    case OPTION_THREADS:
        if (strcmp(argument, "auto") != 0)
            dataset->thread_count =
                (uint32_t)cli_count(state, "--threads", argument, 1, TOPOLOGY_MAX_WORKERS);
        return 0;
    case OPTION_OVERWRITE:
        dataset->overwrite = true;
        return 0;
    case ARGP_KEY_ARG:
        if (dataset->directory)
            argp_error(state, "one directory, please: '%s' is the second", argument);
        dataset->directory = argument;
        return 0;
    case ARGP_KEY_END:
        if (!dataset->directory)
            argp_error(state, "which directory shall the dataset go to?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* One thread a core; a machine that hides its cores gets one thread. */
static uint32_t core_count(void)
{
    struct topology *topology = NULL;
    if (topology_load(NULL, NULL, &topology, NULL) != STATUS_OK)
        return 1;
    uint32_t count = topology_core_count(topology);
    topology_free(topology);
    return min_u32(count, TOPOLOGY_MAX_WORKERS);
}

static void add_array(struct options *options, struct synth_array array)
{
    struct synth_dataset *dataset = &options->dataset;
    array.seed = options->seed;
    array.stream = dataset->array_count;
    array.entry_items = 1;
    for (int i = 1; i < array.rank; i++)
        array.entry_items *= array.shape[i];
    if (array.chunk_length > array.shape[0])
        array.chunk_length = array.shape[0];
    dataset->arrays[dataset->array_count++] = array;
}

static void add_latents(struct options *options)
{
    uint64_t videos = options->videos ? options->videos : size_divide_up(options->samples, 10);
    add_array(options, (struct synth_array){.name = "base_frames",
                                            .dtype = DTYPE_FLOAT16,
                                            .rank = 5,
                                            .shape = {options->samples, 20, 4, 32, 32},
                                            .chunk_length = options->chunk,
                                            .fill = synth_fill_latents});
    add_array(options, (struct synth_array){.name = "clip_emb",
                                            .dtype = DTYPE_FLOAT16,
                                            .rank = 2,
                                            .shape = {videos, 512},
                                            .chunk_length = 1024,
                                            .fill = synth_fill_embedding});
    add_array(options, (struct synth_array){.name = "segment_to_video",
                                            .dtype = DTYPE_INT64,
                                            .rank = 1,
                                            .shape = {options->samples},
                                            .chunk_length = 65536,
                                            .range = videos,
                                            .fill = synth_fill_index});
}

static void add_plain(struct options *options)
{
    struct synth_array array = {.name = "data",
                                .dtype = options->dtype,
                                .rank = 1 + options->rank,
                                .shape = {options->samples},
                                .chunk_length = options->chunk,
                                .fill = synth_fill_noise};
    memcpy(&array.shape[1], options->shape, sizeof options->shape);
    add_array(options, array);
}

static void print_summary(const struct options *options, const struct synth_result *result,
                          uint64_t duration_ns)
{
    double seconds = (double)duration_ns / 1e9;
    printf("%s: %s sample%s in %s chunk%s, Zarr v%d\n", options->dataset.directory,
           count_format(options->samples).text, count_plural(options->samples),
           count_format(result->chunk_count).text, count_plural(result->chunk_count),
           (int)options->dataset.format);
    printf("%s decoded, %s stored (ratio %.2f), %.1f s, %s/s decoded\n",
           size_format(result->decoded_bytes).text, size_format(result->stored_bytes).text,
           (double)result->decoded_bytes / (double)result->stored_bytes, seconds,
           size_format((uint64_t)((double)result->decoded_bytes / seconds)).text);
    printf("next: penstock inspect %s\n", options->dataset.directory);
}

int cli_synth(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse_option, "DIR", help, NULL, NULL, NULL};
    struct options options = {
        .dataset = {.format = ZARR_V2,
                    .codec = "blosc-zstd",
                    .shuffle = "shuffle",
                    .level = SYNTH_LEVEL_AUTO},
        .samples = 5000,
        .chunk = 1,
        .dtype = DTYPE_FLOAT32,
        .rank = 3,
        .shape = {3, 32, 32},
    };
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    if (options.dataset.thread_count == 0)
        options.dataset.thread_count = core_count();
    if (options.layout == LAYOUT_LATENTS)
        add_latents(&options);
    else
        add_plain(&options);

    struct synth_result result;
    struct error err;
    uint64_t start_ns = clock_now_ns();
    if (synth_write(&options.dataset, &result, &err) != STATUS_OK)
        return cli_fail(argv[0], &err);
    print_summary(&options, &result, clock_now_ns() - start_ns);
    return EXIT_SUCCESS;
}
