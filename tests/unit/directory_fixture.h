/* For tests: a store in a temporary folder. */
#ifndef PENSTOCK_TESTS_UNIT_DIRECTORY_FIXTURE_H
#define PENSTOCK_TESTS_UNIT_DIRECTORY_FIXTURE_H

#include "store/store.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    char path[64];
    struct store *store;
};

static inline int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    strcpy(fixture->path, "/tmp/penstock-store-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    assert_int_equal(store_open(fixture->path, &fixture->store, NULL), STATUS_OK);
    *state = fixture;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline int teardown(void **state)
{
    struct fixture *fixture = *state;
    store_free(fixture->store);
    nftw(fixture->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(fixture);
    return 0;
}

static inline void put(const struct store *store, const char *key, const char *text)
{
    struct error err;
    if (store_put(store, key, text, strlen(text), &err) != STATUS_OK)
        fail_msg("put '%s': %s", key, err.message);
}

static inline const char *join(const struct fixture *fixture, const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", fixture->path, name);
    return path;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
