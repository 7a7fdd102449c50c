/* `penstock rechunk`: writes a dataset anew, for training. Main thread; workshop/making/rechunk.h
 * does the work. */
#include "workshop/making/rechunk.h"
#include "cli/common/cli.h"
#include "workshop/commands/commands.h"
#include "workshop/commands/making_options.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct rechunk_options rechunk;
    struct cli_settings settings;
};

static struct rechunk_shape parse_shape(const struct argp_state *state, const char *option,
                                        char *argument)
{
    struct rechunk_shape shape = {0};
    char *rest = argument, *number;
    while ((number = strsep(&rest, ",x"))) {
        if (shape.rank == ZARR_MAX_RANK)
            argp_error(state, "%s: more than %d axes", option, ZARR_MAX_RANK);
        shape.lengths[shape.rank++] = cli_count(state, option, number, 1, INT64_MAX / 2);
    }
    return shape;
}

static void parse_shuffle(void *options, const struct argp_state *state, const char *option,
                          char *argument)
{
    if (strcmp(argument, "noshuffle") != 0 && strcmp(argument, "shuffle") != 0 &&
        strcmp(argument, "bitshuffle") != 0)
        argp_error(state, "%s '%s': neither noshuffle, shuffle nor bitshuffle", option, argument);
    ((struct options *)options)->rechunk.shuffle = argument;
}

static void parse_chunk(void *options, const struct argp_state *state, const char *option,
                        char *argument)
{
    ((struct options *)options)->rechunk.chunk = parse_shape(state, option, argument);
}

static void parse_shard(void *options, const struct argp_state *state, const char *option,
                        char *argument)
{
    ((struct options *)options)->rechunk.shard = parse_shape(state, option, argument);
}

static void parse_delta(void *options, const struct argp_state *state, const char *option,
                        char *argument)
{
    ((struct options *)options)->rechunk.delta_axis =
        (int)cli_count(state, option, argument, 1, ZARR_MAX_RANK - 1);
}

static void parse_format(void *options, const struct argp_state *state, const char *option,
                         char *argument)
{
    (void)options;
    if (strcmp(argument, "3") != 0)
        argp_error(state, "%s '%s': datasets are written as Zarr v3", option, argument);
}

static const struct cli_option option_table[] = {
    {"chunk", 'c', "N[,N...]",
     "samples of a chunk (about 1 MiB of them); further numbers are lengths along further axes, "
     "which are whole otherwise",
     CLI_OWN(parse_chunk)},
    {"shard", 's', "N[,N...]",
     "samples of a shard, likewise, rounded up to whole chunks (no shards)", CLI_OWN(parse_shard)},
    {"codec", 0, "NAME",
     "none, zstd, gzip, lz4, blosc-zstd, blosc-lz4, ..., each also with +crc32c (blosc-zstd)",
     CLI_TEXT(rechunk.codec)},
    {"level", 0, "N", "the codec's level (3; gzip 5)", CLI_OWN_IN(rechunk.level, cli_making_level)},
    {"shuffle", 0, "HOW", "shuffle of blosc: noshuffle, shuffle or bitshuffle (shuffle)",
     CLI_OWN(parse_shuffle)},
    {"delta", 0, "AXIS",
     "store integers as differences along this axis, such as 1: frames of a sample; floats stay as "
     "they are (no differences)",
     CLI_OWN(parse_delta)},
    {"format", 0, "3", "the Zarr version to write: 3", CLI_OWN(parse_format)},
    {"arrays", 0, "A,B,...", "only these arrays (all)",
     CLI_OWN_IN(rechunk.paths, cli_making_names)},
    CLI_MAKING_OPTIONS(rechunk.making),
};

static const char help[] =
    "Write the Zarr dataset SRC anew as DST: Zarr v3, in chunks of N samples along axis 0, or in "
    "shards of such chunks."
    "\v"
    "Attributes, groups above arrays, fill values and dimension names are kept; metadata is "
    "consolidated. The number of samples is that of the array with the most bytes, which gets "
    "chunks of N. Arrays with small samples get multiples of N, 64 KiB at least. Arrays of another "
    "length keep their chunks. The written chunks are read back and compared, unless --no-verify "
    "is given. At the end the content's digest is printed: 'penstock verify --digest' prints the "
    "same one for SRC.\n"
    "\n"
    "After an interruption, the same command goes on; another source or other options are refused. "
    "Under a launcher (mpirun, srun, flux run, jsrun; PALS with WORLD_SIZE set) each process "
    "writes "
    "its part. The processes need only a common file system; the last one to end writes the "
    "metadata. With other launchers, start each process with --part.\n"
    "\n" CLI_MAKING_EXIT_CODES "a source that cannot be read.\n"
    "\n"
    "Examples:\n"
    "  penstock rechunk latents.zarr train.zarr --chunk 8\n"
    "  penstock rechunk era5.zarr train.zarr --chunk 1 --shard 64 --codec zstd --level 1\n"
    "  mpirun -np 16 penstock rechunk big.zarr train.zarr --chunk 8 --memory 4GiB\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "SRC DST",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, rechunk.source),
                         offsetof(struct options, rechunk.making.destination)},
    .argument_count = 2,
    .missing = "SRC or DST is missing: which dataset, and where to?",
    .configured = true,
    .long_only = true,
    .settings_offset = offsetof(struct options, settings),
};

int cli_rechunk(int argc, char **argv)
{
    struct options options = {
        .rechunk = {.making = {.label = "rechunking", .verify = true},
                    .codec = "blosc-zstd",
                    .level = RECHUNK_LEVEL_AUTO},
    };
    struct store *source = NULL;
    struct making_result result;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = cli_making_settle(&options.rechunk.making, &err);
    if (status == STATUS_OK)
        status = cli_settings_open_store(&options.settings, options.rechunk.source, &source, &err);
    if (status == STATUS_OK)
        status = rechunk_run(&options.rechunk, source, &result, &err);
    int code = status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
    if (status == STATUS_OK) {
        cli_making_tell(&options.rechunk.making, &result, ", and reads as the source does");
        printf("%s", result.hint);
    }
    store_free(source);
    free(options.rechunk.paths.names);
    cli_settings_done(&options.settings);
    return code;
}
