/* `penstock import`: other formats become Zarr datasets. pyarrow reads Parquet, so that this
 * command hands over to a Python program, python/penstock/import_FORMAT.py. Main thread. */
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "workshop/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs the module of the format that the first argument names, or says what is missing. */
static const char program[] =
    "import importlib, sys\n"
    "name = sys.argv.pop(1)\n"
    "try:\n"
    "    main = importlib.import_module(f'penstock.import_{name}').main\n"
    "except ImportError as error:\n"
    "    needs = '' if sys.version_info >= (3, 9) else ', which is older than 3.9'\n"
    "    print(f'penstock import {name}: {sys.executable}{needs}: {error}: install Penstock for "
    "'\n"
    "          'Python with pyarrow, zarr 3 or later and NumPy (pip install pyarrow zarr), or "
    "'\n"
    "          'name a Python that has them in PENSTOCK_PYTHON', file=sys.stderr)\n"
    "    sys.exit(4)\n"
    "sys.exit(main())\n";

static const char *const formats[] = {"parquet", "lerobot"};

struct options {
    const char *format;
};

static const char help[] =
    "Write files of another format as a Zarr dataset for training."
    "\v"
    "FORMAT is parquet: files or folders of Parquet. A row is a sample, or, with --window KEY, all "
    "rows that follow one another with the same KEY are. Or FORMAT is lerobot: the folder of a "
    "LeRobot dataset (v3), whose columns become arrays, and whose videos arrays of pictures, as "
    "the program ffmpeg decodes them. 'penstock import FORMAT --help' lists the options.\n"
    "\n"
    "Python does the work, with pyarrow and zarr 3 or later: pip install pyarrow zarr. The "
    "interpreter is python3, or PENSTOCK_PYTHON where that is set.\n"
    "\n"
    "After an interruption the same command goes on. DST is there once it is whole.\n"
    "\n"
    "Exit code: 0 done; 1 failed, and the same command can go on; 4 failed, and will fail again.\n"
    "\n"
    "Examples:\n"
    "  penstock import parquet documents.parquet documents.zarr\n"
    "  penstock import parquet recordings/ events.zarr --window window_id --group events "
    "--cast x=uint16,y=uint16\n"
    "  penstock import lerobot pusht/ pusht.zarr\n";

static const struct cli_command command = {
    .help = help,
    .arguments = "FORMAT FILE... DST",
    .argument_offsets = {offsetof(struct options, format)},
    .argument_count = 1,
    .missing = "which format? There are parquet and lerobot",
};

/* Returns only where Python does not start. */
static int run_python(int argc, char **argv)
{
    const char *chosen = getenv("PENSTOCK_PYTHON");
    char option[] = "-c", text[sizeof program];
    char *python = strdup(chosen && *chosen ? chosen : "python3");
    char **arguments = calloc((size_t)argc + 4, sizeof *arguments);
    struct error err;
    if (python && arguments) {
        memcpy(text, program, sizeof text);
        arguments[0] = python;
        arguments[1] = option;
        arguments[2] = text;
        memcpy(arguments + 3, argv, (size_t)argc * sizeof *arguments);
        execvp(python, arguments);
        error_set_errno(&err, STATUS_INVALID, "the Python '%s' does not start", python);
    } else {
        error_set(&err, STATUS_NO_MEMORY, "no memory for %d arguments", argc);
    }
    free(arguments);
    free(python);
    return cli_fail("penstock import", &err);
}

int cli_import(int argc, char **argv)
{
    struct options options = {0};
    struct error err;
    for (size_t i = 0; argc > 1 && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(argv[1], formats[i]) == 0)
            return run_python(argc - 1, argv + 1);
    cli_parse(&command, argc, argv, &options);
    error_set(&err, STATUS_INVALID, "the format '%s' is not known: there are parquet and lerobot",
              options.format);
    return cli_fail("penstock import", &err);
}
