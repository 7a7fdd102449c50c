/* The end of a page of docs/ that is made from a table in the code: compared, or with
 * PENSTOCK_UPDATE_DOCS=1 written anew. Included after cmocka's headers. */
#ifndef PENSTOCK_TESTS_DOCS_PAGE_H
#define PENSTOCK_TESTS_DOCS_PAGE_H

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands alone on the line before the table. What is above it, people write. */
static const char docs_page_mark[] = "\n<!-- made from the code -->\n\n";

enum { DOCS_PAGE_BYTES = 1 << 20 };

static inline char *docs_page_read(const char *path)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *page = calloc(1, DOCS_PAGE_BYTES);
    assert_non_null(page);
    assert_true(fread(page, 1, DOCS_PAGE_BYTES - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    return page;
}

static inline void docs_page_write(const char *path, const char *above, const struct text *table)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fprintf(file, "%s%s", above, table->data) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void docs_page_compare(const char *path, const struct text *table)
{
    char *page = docs_page_read(path);
    char *mark = strstr(page, docs_page_mark);
    assert_non_null(mark);
    char *below = mark + strlen(docs_page_mark);
    if (getenv("PENSTOCK_UPDATE_DOCS")) {
        *below = '\0';
        docs_page_write(path, page, table);
    } else {
        assert_string_equal(below, table->data);
    }
    free(page);
}

#endif
