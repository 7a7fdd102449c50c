/* `penstock synth`: writes a dataset to try things with. Main thread; see synth.h for its parts. */
#include "cli/synth.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/options.h"
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

static void parse_layout(void *input, const struct argp_state *state, const char *option,
                         char *argument)
{
    struct options *options = input;
    if (strcmp(argument, "latents") == 0)
        options->layout = LAYOUT_LATENTS;
    else if (strcmp(argument, "plain") == 0)
        options->layout = LAYOUT_PLAIN;
    else
        argp_error(state, "%s '%s': the layouts are latents and plain", option, argument);
}

static void parse_dtype(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    enum dtype dtype = dtype_by_name(argument);
    bool is_float = dtype == DTYPE_FLOAT16 || dtype == DTYPE_FLOAT32 || dtype == DTYPE_FLOAT64;
    if (!is_float && !dtype_is_integer(dtype))
        argp_error(state, "%s '%s': not an integer or float type such as uint8 or float32", option,
                   argument);
    options->dtype = dtype;
}

static void parse_shape(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    char *number;
    options->rank = 0;
    while ((number = strsep(&argument, ","))) {
        if (options->rank == ZARR_MAX_RANK - 1)
            argp_error(state, "%s: more than %d numbers", option, ZARR_MAX_RANK - 1);
        options->shape[options->rank++] = cli_count(state, option, number, 1, MAX_SIDE);
    }
}

static void parse_level(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    bool negative = argument[0] == '-'; /* zstd has fast levels below zero */
    int level = (int)cli_count(state, option, argument + negative, 0, 100);
    options->dataset.level = negative ? -level : level;
}

static void parse_format(void *input, const struct argp_state *state, const char *option,
                         char *argument)
{
    struct options *options = input;
    options->dataset.format = (enum zarr_format)cli_count(state, option, argument, 2, 3);
}

static const struct cli_option option_table[] = {
    {"layout", 0, "NAME", "latents (default) or plain, see below", CLI_OWN(parse_layout)},
    {"samples", 'n', "N", "samples to write (5000)", CLI_COUNT(samples, 1, MAX_SAMPLES)},
    {"videos", 0, "V", "latents: videos that the samples are from (N/10)",
     CLI_COUNT(videos, 1, MAX_SAMPLES)},
    {"chunk", 'k', "K", "samples in one chunk (1)", CLI_COUNT(chunk, 1, MAX_SAMPLES)},
    {"shape", 0, "A,B,...", "plain: shape of a sample (3,32,32)", CLI_OWN(parse_shape)},
    {"dtype", 0, "TYPE", "plain: int8 to uint64, float16 to float64 (float32)",
     CLI_OWN(parse_dtype)},
    {"format", 0, "2|3", "Zarr format (2)", CLI_OWN(parse_format)},
    {"codec", 0, "CODEC",
     "blosc-zstd (default), blosc-lz4, blosc-zlib, zstd, gzip, zlib, lz4 or none; "
     "with --format 3 also several in a row, as in zstd+crc32c",
     CLI_TEXT(dataset.codec)},
    {"level", 0, "L", "compression level (the codec's default; blosc: 5)", CLI_OWN(parse_level)},
    {"shuffle", 0, "KIND", "shuffle of blosc: shuffle (default), bitshuffle or noshuffle",
     CLI_TEXT(dataset.shuffle)},
    {"seed", 0, "S", "same seed, same bytes (0)", CLI_COUNT(seed, 0, UINT64_MAX)},
    {"threads", 'j', "T", "threads that write, or auto (one per core)",
     CLI_THREADS(dataset.thread_count, TOPOLOGY_MAX_WORKERS)},
    {"overwrite", 0, NULL, "replace a dataset that is there already", CLI_FLAG(dataset.overwrite)},
};

static const char help[] =
    "Write a synthetic Zarr dataset to DIR, to try and to measure things with."
    "\v"
    "Layout 'latents' looks like training data of a video model, made by an autoencoder:\n"
    "  base_frames       (N, 20, 4, 32, 32)  float16  160 KiB a sample\n"
    "  clip_emb          (V, 512)            float16  a text embedding of each video\n"
    "  segment_to_video  (N)                 int64    the video of each sample\n"
    "Layout 'plain' is one array 'data' (N, A, B, ...) of random numbers.\n"
    "\n"
    "Examples:\n"
    "  penstock synth latents.zarr                  5,000 samples, 782 MiB decoded\n"
    "  penstock synth small.zarr -n 200 --format 3  quick, in the newer format\n"
    "  penstock synth rows.zarr -n 20000 --chunk 8  8 samples in a chunk\n"
    "  penstock synth tiny.zarr --layout plain -n 1000 --shape 16 --codec none\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "DIR",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, dataset.directory)},
    .argument_count = 1,
    .missing = "DIR is missing: which directory shall the dataset go to?",
};

/* The number of cores; 1 on a machine that hides its cores. */
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
    cli_parse(&command, argc, argv, &options);
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
