/* `penstock synth`: writes a dataset to try things with. Main thread; see synth.h for its parts. */
#include "workshop/synth/synth.h"
#include "base/clock.h"
#include "base/number.h"
#include "base/size.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "topology/topology.h"
#include "workshop/commands/commands.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct synth_dataset dataset;
    const struct synth_layout *layout;
    struct synth_sizes sizes;
};

enum { MAX_SAMPLES = 1000000000, MAX_SIDE = 1 << 20 };

static void parse_layout(void *input, const struct argp_state *state, const char *option,
                         char *argument)
{
    struct options *options = input;
    options->layout = synth_layout_find(argument);
    if (!options->layout)
        argp_error(state, "%s '%s': the layouts are %s", option, argument, synth_layout_names());
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
    options->sizes.dtype = dtype;
}

static void parse_shape(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    char *number;
    struct synth_sizes *sizes = &options->sizes;
    sizes->rank = 0;
    while ((number = strsep(&argument, ","))) {
        if (sizes->rank == ZARR_MAX_RANK - 1)
            argp_error(state, "%s: more than %d numbers", option, ZARR_MAX_RANK - 1);
        sizes->shape[sizes->rank++] = cli_count(state, option, number, 1, MAX_SIDE);
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
    {"layout", 0, "NAME",
     "latents (default), plain, robot, weather, tokens, events, csr or documents, see below",
     CLI_OWN(parse_layout)},
    {"samples", 'n', "N",
     "samples to write: frames, or tokens (5000; tokens: 10000000; events: 200; documents: 20000)",
     CLI_COUNT(sizes.samples, 1, MAX_SAMPLES)},
    {"videos", 0, "V", "latents: videos that the samples are from (N/10)",
     CLI_COUNT(sizes.groups, 1, MAX_SAMPLES)},
    {"grain", 0, "PERCENT",
     "latents: noise of each value, in percent of how far the smooth part spreads (25)",
     CLI_COUNT(sizes.grain, 1, 100)},
    {"episodes", 0, "E", "robot: episodes that the frames are from (N/100)",
     CLI_COUNT(sizes.groups, 1, MAX_SAMPLES)},
    {"documents", 0, "D", "tokens: documents that the tokens are from (N/500)",
     CLI_COUNT(sizes.groups, 1, MAX_SAMPLES)},
    {"items", 0, "M", "items of a sample on average (events: 97000; csr: 1000; documents: 500)",
     CLI_COUNT(sizes.items, 1, MAX_SAMPLES)},
    {"chunk", 'k', "K",
     "samples in one chunk (1; robot: 8; tokens: 65536; events, csr, documents: 131072 items)",
     CLI_COUNT(sizes.chunk, 1, MAX_SAMPLES)},
    {"shape", 0, "A,B,...",
     "shape of a sample: plain (3,32,32), robot's image (96,96,3), "
     "weather's variables, latitudes and longitudes (69,16,32), events' times, rows and columns "
     "(20,360,640), csr's genes (20000)",
     CLI_OWN(parse_shape)},
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
    {"seed", 0, "S", "same seed, same bytes (0)", CLI_COUNT(sizes.seed, 0, UINT64_MAX)},
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
    "Layout 'robot' has demonstrations, as of PushT, in episodes of unequal lengths:\n"
    "  data/img          (N, 96, 96, 3)      uint8    a disc that follows a path, and a block\n"
    "  data/state        (N, 5)              float32  the disc, the block and its angle\n"
    "  data/action       (N, 2)              float32  where the disc goes next\n"
    "  data/episode      (N)                 int64    the episode of each frame\n"
    "  meta/episode_ends (E)                 int64    the frame behind each episode\n"
    "Layout 'weather' has a date every 6 hours, and names of axes as xarray has them:\n"
    "  data              (N, 69, 16, 32)     float32  time, variable, latitude, longitude\n"
    "  mean, std         (69)                float32  of each variable\n"
    "  missing           (N)                 bool     one date in 50; its data are NaN\n"
    "  time, variable, latitude, longitude            coordinates: hours, names, degrees\n"
    "  orography         (16, 32)            float32  constant\n"
    "Layout 'tokens' is text for a language model:\n"
    "  tokens            (N)                 uint16   documents, one after another\n"
    "  document_ends     (D)                 int64    the token behind each document\n"
    "Layouts of samples of unequal lengths, some empty, a few very long:\n"
    "  events    events/offsets (N+1), events/bin, y, x and count of each event, label (N)\n"
    "  csr       X/indptr (N+1), X/indices, X/data, as AnnData has cells and genes\n"
    "  documents tokens/offsets (N+1), tokens/values\n"
    "\n"
    "Examples:\n"
    "  penstock synth latents.zarr                  5,000 samples, 782 MiB decoded\n"
    "  penstock synth small.zarr -n 200 --format 3  quick, in the newer format\n"
    "  penstock synth rows.zarr -n 20000 --chunk 8  8 samples in a chunk\n"
    "  penstock synth tiny.zarr --layout plain -n 1000 --shape 16 --codec none\n"
    "  penstock synth events.zarr --layout events -n 1000\n"
    "  penstock synth pusht.zarr --layout robot --episodes 200 -n 25000\n";

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

static void print_summary(const struct options *options, const struct synth_result *result,
                          uint64_t duration_ns)
{
    double seconds = (double)duration_ns / 1e9;
    printf("%s: %s sample%s in %s chunk%s, Zarr v%d\n", options->dataset.directory,
           count_format(options->sizes.samples).text, count_plural(options->sizes.samples),
           count_format(result->chunk_count).text, count_plural(result->chunk_count),
           (int)options->dataset.format);
    printf("%s decoded, %s stored (ratio %.2f), %.1f s%s\n",
           size_format(result->decoded_bytes).text, size_format(result->stored_bytes).text,
           (double)result->decoded_bytes / (double)result->stored_bytes, seconds,
           rate_format(result->decoded_bytes, seconds).text);
    printf("next: penstock inspect %s\n", options->dataset.directory);
}

int cli_synth(int argc, char **argv)
{
    struct options options = {
        .dataset = {.format = ZARR_V2,
                    .codec = "blosc-zstd",
                    .shuffle = "shuffle",
                    .level = SYNTH_LEVEL_AUTO},
        .layout = synth_layout_find("latents"),
    };
    cli_parse(&command, argc, argv, &options);
    if (options.dataset.thread_count == 0)
        options.dataset.thread_count = core_count();

    struct synth_result result;
    struct error err;
    uint64_t start_ns = clock_now_ns();
    if (synth_layout_add(options.layout, &options.sizes, &options.dataset, &err) != STATUS_OK ||
        synth_write(&options.dataset, &result, &err) != STATUS_OK)
        return cli_fail(argv[0], &err);
    print_summary(&options, &result, clock_now_ns() - start_ns);
    return EXIT_SUCCESS;
}
