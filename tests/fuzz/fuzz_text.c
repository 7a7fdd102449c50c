/* Fuzz target for short texts from command lines and the environment. The first byte says which
 * parser gets the rest:
 *
 *     0  a size, "1.5 GiB"
 *     1  a setting, "order.seed=3"
 *     2  a trainer's environment, one NAME=VALUE a line
 */
#include "fuzz.h"

#include "base/size.h"
#include "config/config.h"
#include "delivery/client/environment.h"

static void parse_size(const char *text)
{
    uint64_t bytes = 0;
    struct error err;
    enum status status = size_parse(text, &bytes, &err);
    CHECK(status != STATUS_OK ? err.message[0] : bytes <= UINT64_C(1) << 63);
}

static void parse_setting(const char *text)
{
    struct config config;
    struct error err;
    CHECK(config_init(&config, NULL) == STATUS_OK);
    enum status status = config_set(&config, text, &err);
    if (status != STATUS_OK)
        CHECK(err.status == (int32_t)status && err.message[0]);
    config_done(&config);
}

/* Those alone that the library looks at: nothing else of this process may be changed. */
static void set_variable(char *line)
{
    static const char *const known[] = {
        "PENSTOCK_RUN_DIR",     "PENSTOCK_READER",      "RANK",
        "WORLD_SIZE",           "LOCAL_RANK",           "LOCAL_WORLD_SIZE",
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",        "SLURM_STEP_TASKS_PER_NODE",
        "SLURM_NODEID",         "PALS_RANKID",          "FLUX_TASK_RANK",
        "FLUX_JOB_SIZE",        "FLUX_TASK_LOCAL_ID",   "FLUX_JOB_NNODES",
    };
    char *value = strchr(line, '=');
    if (!value)
        return;
    *value++ = '\0';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(line, known[i]) == 0)
            setenv(line, value, 1);
}

static void parse_environment(char *text)
{
    struct dial_options options = {0};
    struct error err;
    CHECK(clearenv() == 0);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        set_variable(line);
    enum status status = environment_fill(&options, &err);
    if (status != STATUS_OK)
        CHECK(err.status == (int32_t)status && err.message[0]);
    else
        CHECK(options.run_dir && options.rank < options.world_size && options.reader >= -1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    uint8_t parser = take_byte(&input);
    char *text = take_text(&input);
    if (parser % 3 == 0)
        parse_size(text);
    else if (parser % 3 == 1)
        parse_setting(text);
    else
        parse_environment(text);
    free(text);
    return 0;
}
