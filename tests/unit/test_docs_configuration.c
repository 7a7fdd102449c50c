/* docs/use/configuration.md lists the options as the table in config.h has them. Run with
 * PENSTOCK_UPDATE_DOCS=1 to write the file anew. */
#include "config/config.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "docs_page.h"

static void page_lists_the_table(void **state)
{
    (void)state;
    struct text table = {0};
    config_help_markdown(&table);
    docs_page_compare(PENSTOCK_SOURCE_DIR "/docs/use/configuration.md", &table);
    text_done(&table);
}

static void accept_file(const char *file)
{
    struct config config;
    struct error err;
    assert_int_equal(config_init(&config, &err), STATUS_OK);
    enum status status = config_read_file(&config, file, &err);
    if (status == STATUS_OK)
        status = config_check(&config, &err);
    if (status != STATUS_OK)
        fail_msg("%s: %s", file, err.message);
    config_done(&config);
}

static void examples_are_accepted(void **state)
{
    (void)state;
    glob_t files;
    assert_int_equal(glob(PENSTOCK_SOURCE_DIR "/configs/*.yaml", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++)
        accept_file(files.gl_pathv[i]);
    globfree(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_lists_the_table),
        cmocka_unit_test(examples_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
