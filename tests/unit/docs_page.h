/* A page of docs/ that is made from a table in the code: compared, or with PENSTOCK_UPDATE_DOCS=1
 * written anew. Included after cmocka's headers. */
#ifndef PENSTOCK_TESTS_DOCS_PAGE_H
#define PENSTOCK_TESTS_DOCS_PAGE_H

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

static inline void docs_page_write(const char *path, const struct text *page)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(page->data, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void docs_page_compare(const char *path, const struct text *page)
{
    if (getenv("PENSTOCK_UPDATE_DOCS"))
        docs_page_write(path, page);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char *found = calloc(1, page->length + 2);
    assert_non_null(found);
    size_t size = fread(found, 1, page->length + 1, file);
    fclose(file);
    assert_string_equal(found, page->data);
    assert_int_equal(size, page->length);
    free(found);
}

#endif
