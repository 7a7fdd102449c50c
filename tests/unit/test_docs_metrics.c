/* docs/run/metrics.md lists the metrics as the table in metrics.h has them. Run with
 * PENSTOCK_UPDATE_DOCS=1 to write the file anew. */
#include "metrics/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "docs_page.h"

static void page_lists_the_table(void **state)
{
    (void)state;
    struct text table = {0};
    metrics_markdown(&table);
    docs_page_compare(PENSTOCK_SOURCE_DIR "/docs/run/metrics.md", &table);
    text_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_lists_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
