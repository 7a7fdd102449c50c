/* `penstock inspect`: what a dataset holds, and what a run would make of it. Main thread.
 *
 * Reads metadata and file sizes only, no chunks. Collects everything in a `struct report` first,
 * which is then printed by inspect_text.c or inspect_json.c.
 */
#include "cli/inspect.h"

#include "cli/cli.h"

#include <argp.h>
#include <stdbool.h>
#include <stdlib.h>

struct options {
    const char *uri;
    bool json;
};

/* What dataset.hold_limit is when nobody sets it. */
static const uint64_t default_hold_limit_bytes = UINT64_C(1) << 30;

enum option_key { OPTION_JSON = 0x100 };

static const struct argp_option option_table[] = {
    {"json", OPTION_JSON, NULL, 0, "print one JSON object, for programs", 0},
    {0},
};

static const char help[] =
    "Show the arrays of the Zarr dataset at URI, and the samples that a run would deliver."
    "\v"
    "Reads metadata and sizes of files, no chunks. Arrays that Penstock cannot read are listed "
    "with "
    "the reason: they matter only to runs that use them.\n"
    "\n"
    "Examples:\n"
    "  penstock inspect latents.zarr\n"
    "  penstock inspect latents.zarr --json | python3 -m json.tool\n";

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case OPTION_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (options->uri)
            argp_error(state, "one dataset, please: '%s' is the second", argument);
        options->uri = argument;
        return 0;
    case ARGP_KEY_END:
        if (!options->uri)
            argp_error(state, "which dataset?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status measure_arrays(struct report *report, struct error *err)
{
    size_t count = report->hierarchy->node_count;
    report->stored_bytes = calloc(count + 1, sizeof *report->stored_bytes);
    if (!report->stored_bytes)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory for %zu arrays", report->uri, count);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < count && !status; i++) {
        uint64_t files;
        status = store_usage(report->store, report->hierarchy->nodes[i].array.path,
                             &report->stored_bytes[i], &files, err);
        if (status == STATUS_UNSUPPORTED) { /* a store without listings */
            report->stored_bytes[i] = STORED_UNKNOWN;
            status = STATUS_OK;
        }
    }
    return status;
}

static enum status collect(const char *uri, struct report *report, struct error *err)
{
    report->uri = uri;
    enum status status = store_open(uri, &report->store, err);
    if (!status)
        status = zarr_hierarchy_open(report->store, &report->hierarchy, err);
    if (!status)
        status = measure_arrays(report, err);
    if (status)
        return status;
    struct text list = {0}; /* of one: a comma in the name is no separator */
    text_list_put(&list, uri);
    struct dataset_options options = {.uri = list.data ? list.data : uri,
                                      .hold_limit_bytes = default_hold_limit_bytes};
    if (dataset_open(&options, &report->dataset, &report->dataset_error) == STATUS_OK)
        error_clear(&report->dataset_error);
    text_done(&list);
    return STATUS_OK;
}

static void report_done(struct report *report)
{
    dataset_free(report->dataset);
    free(report->stored_bytes);
    zarr_hierarchy_free(report->hierarchy);
    store_free(report->store);
}

int cli_inspect(int argc, char **argv)
{
    static const struct argp argp = {option_table, parse_option, "URI", help, NULL, NULL, NULL};
    struct options options = {0};
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    struct report report = {0};
    struct error err;
    int code = EXIT_SUCCESS;
    if (collect(options.uri, &report, &err) != STATUS_OK)
        code = cli_fail(argv[0], &err);
    else if (options.json)
        inspect_print_json(&report);
    else
        inspect_print_text(&report);
    report_done(&report);
    return code;
}
