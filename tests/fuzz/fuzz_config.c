/* Fuzz target for run.yaml: any bytes are refused with a message, or give a configuration that,
 * printed, is read back as the same: so do readers get theirs from rank 0. */
#include "fuzz.h"

#include "config/config.h"

static void read_back(const struct config *config)
{
    struct text text = {0}, again = {0};
    struct config copy;
    struct error err;
    config_print(config, &text);
    CHECK(config_init(&copy, NULL) == STATUS_OK);
    CHECK(config_read_text(&copy, text.data, text.length, "printed", NULL, &err) == STATUS_OK);
    config_print(&copy, &again);
    CHECK(strcmp(text.data, again.data) == 0);
    config_done(&copy);
    text_done(&text);
    text_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    struct error err;
    CHECK(config_init(&config, NULL) == STATUS_OK);
    char *yaml = malloc(size ? size : 1);
    CHECK(yaml);
    memcpy(yaml, data, size);
    /* Without a folder no file is read: a source of a mix is a map. */
    enum status status = config_read_text(&config, yaml, size, "run.yaml", NULL, &err);
    free(yaml);
    if (status == STATUS_OK)
        status = config_check(&config, &err);
    if (status != STATUS_OK)
        CHECK(err.status == (int32_t)status && err.message[0]);
    else
        read_back(&config);
    config_done(&config);
    return 0;
}
