/* docs/configuration.md lists the options as the table in config.h has them. Run with
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

static const char path[] = PENSTOCK_SOURCE_DIR "/docs/configuration.md";

static const char introduction[] =
    "# Configuration\n"
    "\n"
    "This page lists every option. An option may be set in `run.yaml`, in the environment\n"
    "(`PENSTOCK_SECTION_KEY=value`), and by `--set section.key=value`. Later ones of these win. "
    "An unknown key is an error.\n"
    "Sizes have units: `64KiB`, `1.5GiB`, `32GB`.\n"
    "In YAML, a map under a key is keys joined by `_`: `order: {window: {rows: 3}}` is "
    "`order.window_rows: 3`.\n"
    "\n"
    "`dataset.fields` is a map in YAML. On a command line a field is "
    "`--set dataset.fields.NAME=ARRAY` or\n"
    "`--set 'dataset.fields.NAME=ARRAY[INDEX]'`. A property of a field is\n"
    "`--set dataset.fields.NAME.PROPERTY=VALUE`. [datasets.md](datasets.md#fields) shows fields in "
    "use.\n"
    "\n"
    "The table below is made from the table in `src/config/config.h`.\n"
    "\n";

static void expected_page(struct text *page)
{
    text_append(page, "%s", introduction);
    config_help_markdown(page);
}

static void page_lists_the_table(void **state)
{
    (void)state;
    struct text page = {0};
    expected_page(&page);
    docs_page_compare(path, &page);
    text_done(&page);
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
