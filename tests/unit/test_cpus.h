/* Comparing a cpuset with the list that it is printed as. */
#ifndef PENSTOCK_TESTS_CPUS_H
#define PENSTOCK_TESTS_CPUS_H

#include "topology/cpuset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline void check_cpus(struct cpuset set, const char *list, const char *file, int line)
{
    struct text printed = {0};
    cpuset_print(&set, &printed);
    _assert_string_equal(printed.data ? printed.data : "", list, file, line);
    text_done(&printed);
}

#define assert_cpus(set, list) check_cpus(set, list, __FILE__, __LINE__)

#endif
