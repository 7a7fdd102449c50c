/* `penstock rechunk`: writes a dataset anew, for training. Main thread; tools/rechunk.h does the
 * work. */
#include "tools/rechunk.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/size.h"
#include "cli/cli.h"
#include "cli/options.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct rechunk_options rechunk;
    char **paths;
    bool part_given, no_verify;
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

static void parse_paths(void *input, const struct argp_state *state, const char *option,
                        char *argument)
{
    struct options *options = input;
    size_t count = 1;
    for (const char *comma = argument; (comma = strchr(comma, ',')); comma++)
        count++;
    free(options->paths);
    options->paths = calloc(count, sizeof *options->paths);
    if (!options->paths) {
        argp_error(state, "%s: no memory for %zu names", option, count);
        return;
    }
    options->rechunk.paths = (const char *const *)options->paths;
    options->rechunk.path_count = 0;
    for (char *rest = argument, *name; (name = strsep(&rest, ","));)
        options->paths[options->rechunk.path_count++] = name;
}

static void parse_part(void *input, const struct argp_state *state, const char *option,
                       char *argument)
{
    struct options *options = input;
    char *slash = strchr(argument, '/');
    if (!slash) {
        argp_error(state, "%s '%s': write a part as 0/4", option, argument);
        return;
    }
    *slash = '\0';
    struct rechunk_options *rechunk = &options->rechunk;
    rechunk->part_count = (uint32_t)cli_count(state, option, slash + 1, 1, UINT32_MAX);
    rechunk->part =
        (uint32_t)cli_count(state, option, argument, 0, (uint64_t)rechunk->part_count - 1);
    options->part_given = true;
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

static void parse_level(void *options, const struct argp_state *state, const char *option,
                        char *argument)
{
    ((struct options *)options)->rechunk.level = (int)cli_count(state, option, argument, 0, 22);
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
    {"level", 0, "N", "the codec's level (3; gzip 5)", CLI_OWN(parse_level)},
    {"shuffle", 0, "HOW", "shuffle of blosc: noshuffle, shuffle or bitshuffle (shuffle)",
     CLI_OWN(parse_shuffle)},
    {"format", 0, "3", "the Zarr version to write: 3", CLI_OWN(parse_format)},
    {"arrays", 0, "A,B,...", "only these arrays (all)", CLI_OWN(parse_paths)},
    {"no-verify", 0, NULL, "do not read the written chunks back", CLI_FLAG(no_verify)},
    {"threads", 'j', "N", "threads, or auto (one per CPU)",
     CLI_THREADS(rechunk.thread_count, 1024)},
    {"memory", 'm', "SIZE",
     "most memory of this process, or auto (half of the node's free memory, shared by its "
     "processes)",
     CLI_BYTES(rechunk.memory_bytes)},
    {"part", 0, "I/N", "write part I (0 to N-1) of N parts, whatever the launcher says",
     CLI_OWN(parse_part)},
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
    "Under mpirun or srun each process writes its part (by OMPI_COMM_WORLD_RANK, PMI_RANK or "
    "SLURM_PROCID). The processes need only a common file system; the last one to end writes the "
    "metadata. With other launchers, start each process with --part.\n"
    "\n"
    "Exit code: 0 this part is done; 1 failed, and the same command can go on; 4 failed, and will "
    "fail again: wrong usage, or a source that cannot be read.\n"
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
                         offsetof(struct options, rechunk.destination)},
    .argument_count = 2,
    .missing = "SRC or DST is missing: which dataset, and where to?",
    .configured = true,
    .long_only = true,
    .settings_offset = offsetof(struct options, settings),
};

/* A whole number from the environment; false: there is none. */
static bool from_environment(const char *name, uint32_t *ret_value)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (!text || !*text)
        return false;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

/* Reads rank, size, and the number of processes on this node from the launcher's variables. A Slurm
 * batch script has SLURM_PROCID, too; only srun sets the size of a step. */
static void ask_launcher(struct rechunk_options *rechunk, uint32_t *ret_local)
{
    static const char *const names[][3] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint32_t rank, size;
        if (!from_environment(names[i][0], &rank) || !from_environment(names[i][1], &size) ||
            rank >= size)
            continue;
        rechunk->part = rank;
        rechunk->part_count = size;
        /* Not known: as if all were on this node. */
        if (!from_environment(names[i][2], ret_local) || *ret_local == 0)
            *ret_local = size;
        return;
    }
}

static void settle(struct options *options)
{
    struct rechunk_options *rechunk = &options->rechunk;
    uint32_t local = 1;
    rechunk->verify = !options->no_verify;
    if (!options->part_given)
        ask_launcher(rechunk, &local);
    uint32_t cores = cpu_count();
    if (rechunk->thread_count == 0)
        rechunk->thread_count = cores / local > 0 ? cores / local : 1;
    if (rechunk->memory_bytes == 0)
        rechunk->memory_bytes = memory_available_bytes() / 2 / local;
}

static void tell(const struct rechunk_options *options, const struct rechunk_result *result)
{
    double seconds = (double)result->elapsed_ns / 1e9;
    char part[48] = "";
    if (options->part_count > 1)
        snprintf(part, sizeof part, "part %u of %u: ", options->part, options->part_count);
    if (result->slab_count > 0)
        printf("%s%s in %.1f s, %s/s; %u thread%s, at most %s", part,
               size_format(result->decoded_bytes).text, seconds,
               size_format((uint64_t)((double)result->decoded_bytes / seconds)).text,
               result->thread_count, count_plural(result->thread_count),
               size_format(result->memory_bytes).text);
    if (result->slabs_found > 0)
        printf("; %s of %s slab%s were there already", count_format(result->slabs_found).text,
               count_format(result->slab_count).text, count_plural(result->slab_count));
    if (result->slab_count > 0)
        printf("\n");
    if (result->already_complete)
        printf("%s%s is complete already\n", part, options->destination);
    else if (result->slabs_left > 0)
        printf("%s%s slabs are left to other parts\n", part, count_format(result->slabs_left).text);
    else
        printf("%s%s is complete%s\ndigest %s\n", part, options->destination,
               options->verify ? ", and reads as the source does" : "", result->digest.text);
}

static enum status run(struct options *options, struct rechunk_result *ret_result,
                       struct error *err)
{
    struct config config;
    struct store *source;
    enum status status = cli_settings_read(&options->settings, &config, err);
    if (!status)
        status = cli_open_store(&config, options->rechunk.source, &source, err);
    config_done(&config);
    if (status)
        return status;
    status = rechunk_run(&options->rechunk, source, ret_result, err);
    store_free(source);
    return status;
}

int cli_rechunk(int argc, char **argv)
{
    struct options options = {
        .rechunk = {.codec = "blosc-zstd", .level = RECHUNK_LEVEL_AUTO, .part_count = 1},
    };
    struct rechunk_result result;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    settle(&options);
    int code = EXIT_SUCCESS;
    if (run(&options, &result, &err) != STATUS_OK)
        code = cli_fail(argv[0], &err);
    else
        tell(&options.rechunk, &result);
    free(options.paths);
    cli_settings_done(&options.settings);
    return code;
}
