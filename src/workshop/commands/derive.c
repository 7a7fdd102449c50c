/* `penstock derive`: an array that a program makes of a dataset's arrays. Main thread;
 * workshop/encode/derive.h does the work. */
#include "workshop/encode/derive.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "workshop/commands/commands.h"
#include "workshop/commands/making_options.h"
#include "workshop/making/rechunk.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct derive_options derive;
    struct cli_settings settings;
};

static void parse_field(void *options, const struct argp_state *state, const char *option,
                        char *argument)
{
    if (!*argument || *argument == '.' || strlen(argument) >= 64 || strpbrk(argument, "/\\ \t\n"))
        argp_error(state, "%s '%s': no name of an array in the root group", option, argument);
    ((struct options *)options)->derive.field = argument;
}

static void check(const void *input, const struct argp_state *state)
{
    const struct options *options = input;
    if (!options->derive.encoding.command)
        argp_error(state, "--run CMD is missing: which program makes the array?");
    if (!options->derive.field)
        argp_error(state, "--field NAME is missing: what is the array's name?");
}

static const struct cli_option option_table[] = {
    {"run", 'r', "CMD", "the program that makes the array, as a shell command",
     CLI_TEXT(derive.encoding.command)},
    {"field", 'f', "NAME", "the array's name", CLI_OWN(parse_field)},
    {"from", 0, "A,B,...", "arrays of SRC that CMD gets (the one with the most bytes)",
     CLI_OWN_IN(derive.inputs, cli_making_names)},
    {"with", 0, "A,B,...", "arrays of SRC that DST has, too (none)",
     CLI_OWN_IN(derive.copies, cli_making_names)},
    CLI_ENCODING_OPTIONS(derive.encoding),
    {"chunk", 'c', "N", "samples of a chunk (about 1 MiB of them)",
     CLI_COUNT(derive.chunk, 1, INT64_MAX / 2)},
    {"shard", 's', "N", "samples of a shard, rounded up to whole chunks (no shards)",
     CLI_COUNT(derive.shard, 1, INT64_MAX / 2)},
    CLI_CODEC_OPTIONS(derive),
    CLI_MAKING_OPTIONS(derive.making),
};

static const char help[] =
    "Have a program make an array of arrays of the Zarr dataset SRC, and write it as the dataset "
    "DST."
    "\v"
    "CMD is a shell command. N processes of it get the samples of SRC in order, as trainers do, "
    "and "
    "give an array for each batch: penstock.Encoder in Python, penstock_give() in C. The first "
    "result tells dtype and shape of a sample. CMD runs in the environment of a trainer: "
    "PENSTOCK_RUN_DIR, RANK, WORLD_SIZE, LOCAL_RANK.\n"
    "\n"
    "DST has the array, with a sample for each of SRC, and the arrays of --with as SRC has them: "
    "indices, labels, embeddings. A run trains on DST alone.\n"
    "\n"
    "After an interruption, the same command goes on with the samples that are not written. "
    "Another "
    "command, source or option is refused. Under mpirun or srun each process writes its part with "
    "N "
    "processes of its own, as of penstock rechunk.\n"
    "\n" CLI_MAKING_EXIT_CODES "a source that cannot be read.\n"
    "\n"
    "Examples:\n"
    "  penstock derive frames.zarr latents.zarr --field latents --run 'python3 encode.py' --with "
    "segment_to_video,text_emb\n"
    "  penstock derive frames.zarr depth.zarr --field depth --from base_frames --run ./depth "
    "--encoders 4 --batch 8\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "SRC DST",
    .options = option_table,
    .option_count = sizeof option_table / sizeof option_table[0],
    .argument_offsets = {offsetof(struct options, derive.source),
                         offsetof(struct options, derive.making.destination)},
    .argument_count = 2,
    .missing = "SRC or DST is missing: which dataset, and where to?",
    .check = check,
    .configured = true,
    .long_only = true,
    .settings_offset = offsetof(struct options, settings),
};

int cli_derive(int argc, char **argv)
{
    struct options options = {
        .derive = {.making = {.label = "deriving", .verify = true},
                   .encoding = ENCODING_DEFAULTS,
                   .codec = "zstd",
                   .level = 1},
    };
    struct store *source = NULL;
    struct making_result result;
    struct error err;
    cli_parse(&command, argc, argv, &options);
    enum status status = cli_making_settle(&options.derive.making, &err);
    if (status == STATUS_OK)
        status = cli_settings_open_store(&options.settings, options.derive.source, &source, &err);
    if (status == STATUS_OK)
        status = derive_run(&options.derive, source, &result, &err);
    int code = status != STATUS_OK ? cli_fail(argv[0], &err) : EXIT_SUCCESS;
    if (status == STATUS_OK)
        cli_making_tell(&options.derive.making, &result, ", and reads as it was written");
    store_free(source);
    free(options.derive.inputs.names);
    free(options.derive.copies.names);
    cli_settings_done(&options.settings);
    return code;
}
