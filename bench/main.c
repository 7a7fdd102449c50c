/* penstock-bench-limit: command line, setup and output. See limit.h. */
#include "limit.h"

#include "plan/order/tables.h"
#include "run/setup.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SETTINGS = 64, DEFAULT_PASSES = 3 };

struct arguments {
    const char *config_path;
    const char *settings[MAX_SETTINGS];
    size_t setting_count;
    const char *mode;
    uint32_t passes;
};

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0, "the run's configuration (YAML)", 0},
    {"set", 's', "KEY=VALUE", 0, "override one option; may be repeated", 0},
    {"passes", 'p', "N", 0, "warm: how often all samples are copied (3)", 0},
    {0}};

static const char description[] =
    "Measures what bounds a run on this machine and prints one JSON object.\v"
    "cold: read and decode every chunk once, nothing else.\n"
    "warm: copy random samples from memory into a ring of batches, nothing else.\n"
    "both: decode every chunk once and copy every sample once, on the same cores at once.\n\n"
    "  penstock-bench-limit cold --set dataset.uri=latents.zarr --set readers.threads=8";

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'c':
        arguments->config_path = value;
        return 0;
    case 's':
        if (arguments->setting_count == MAX_SETTINGS)
            argp_error(state, "more than %d --set options", MAX_SETTINGS);
        arguments->settings[arguments->setting_count++] = value;
        return 0;
    case 'p': {
        char *end;
        unsigned long passes = strtoul(value, &end, 10);
        if (*end || passes < 1 || passes > 1000)
            argp_error(state, "--passes %s: not a number from 1 to 1000", value);
        arguments->passes = (uint32_t)passes;
        return 0;
    }
    case ARGP_KEY_ARG:
        if (arguments->mode || (strcmp(value, "cold") != 0 && strcmp(value, "warm") != 0 &&
                                strcmp(value, "both") != 0))
            argp_error(state, "'%s': one of cold, warm and both is expected", value);
        arguments->mode = value;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static enum status read_config(const struct arguments *arguments, struct config *config,
                               struct error *err)
{
    enum status status = config_init(config, err);
    if (status == STATUS_OK && arguments->config_path)
        status = config_read_file(config, arguments->config_path, err);
    if (status == STATUS_OK)
        status = config_read_environment(config, err);
    for (size_t i = 0; status == STATUS_OK && i < arguments->setting_count; i++)
        status = config_set(config, arguments->settings[i], err);
    return status == STATUS_OK ? config_check(config, err) : status;
}

static enum status open_dataset(struct limit *limit, struct error *err)
{
    const struct config *config = &limit->config;
    struct dataset_options dataset = config_dataset_options(config, NULL);
    dataset.cache_dir = NULL;
    dataset.mask = false;
    enum status status = dataset_open(&dataset, &limit->dataset, err);
    if (status != STATUS_OK)
        return status;
    status = run_plan_settle(config, limit->dataset, &limit->plan, err);
    return status == STATUS_OK ? plan_tables_new(&limit->plan, 1, 1, err) : status;
}

/* The pool that one reader with these trainers beside it would have. */
static enum status start_pool(struct limit *limit, struct error *err)
{
    const struct config *config = &limit->config;
    struct topology *topology;
    struct placement placement;
    enum status status = topology_load(NULL, NULL, &topology, err);
    if (status != STATUS_OK)
        return status;
    status = topology_placement(topology, 0, 1, (uint32_t)config->trainers,
                                (uint32_t)config->threads, config->bind, &placement, err);
    topology_free(topology);
    if (status == STATUS_OK)
        status =
            pool_new(&placement, limit->dataset, TOPOLOGY_MAX_WORKERS, NULL, &limit->pool, err);
    return status;
}

static void print_result(const char *mode, const struct limit *limit,
                         const struct limit_result *result)
{
    double seconds = (double)result->duration_ns / 1e9;
    printf("{\"mode\":\"%s\",\"threads\":%" PRIu32 ",\"samples\":%" PRIu64
           ",\"sample_bytes\":%zu,\"seconds\":%.6f,\"samples_per_s\":%.3f,\"stored_bytes\":%" PRIu64
           ",\"read_s\":%.6f,\"decode_s\":%.6f,\"cpu_s\":%.6f}\n",
           mode, pool_worker_count(limit->pool), result->samples, limit->dataset->sample_bytes,
           seconds, (double)result->samples / seconds, result->stored_bytes,
           (double)result->read_ns / 1e9, (double)result->decode_ns / 1e9,
           (double)result->cpu_ns / 1e9);
}

static enum status measure(const struct arguments *arguments, struct limit *limit,
                           struct error *err)
{
    struct limit_result result;
    enum status status = read_config(arguments, &limit->config, err);
    if (status == STATUS_OK)
        status = open_dataset(limit, err);
    if (status == STATUS_OK)
        status = start_pool(limit, err);
    if (status != STATUS_OK)
        return status;
    bool both = strcmp(arguments->mode, "both") == 0;
    if (strcmp(arguments->mode, "cold") == 0 || (both && limit->dataset->ragged_count > 0))
        status = decode_rows(limit, NULL, both, &result, err);
    else if (both)
        status = copy_samples(limit, 1, true, &result, err);
    else
        status = copy_samples(limit, arguments->passes, false, &result, err);
    if (status == STATUS_OK)
        print_result(arguments->mode, limit, &result);
    return status;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options, .parser = parse, .args_doc = "cold|warm|both", .doc = description};
    struct arguments arguments = {.passes = DEFAULT_PASSES};
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    static struct limit limit;
    struct error err;
    error_clear(&err);
    enum status status = measure(&arguments, &limit, &err);
    pool_free(limit.pool);
    plan_tables_free(limit.plan.tables);
    dataset_free(limit.dataset);
    config_done(&limit.config);
    if (status == STATUS_OK)
        return EXIT_SUCCESS;
    fprintf(stderr, "penstock-bench-limit: error: %s\n", err.message);
    return EXIT_FAILURE;
}
