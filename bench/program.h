/* What small benchmark programs share: how they end when they cannot go on, memory, and numbers on
 * the command line. Each function ends the program with a message on failure. */
#ifndef PENSTOCK_BENCH_PROGRAM_H
#define PENSTOCK_BENCH_PROGRAM_H

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void fail(const char *what)
{
    fprintf(stderr, "%s: error: %s\n", program_invocation_short_name, what);
    exit(EXIT_FAILURE);
}

static inline void check(enum status status, const struct error *err)
{
    if (status != STATUS_OK)
        fail(err->message);
}

/* Memory that is zero and present. */
static inline void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        fail("out of memory");
    memory_touch(memory, count * size);
    return memory;
}

/* A number from 1 to `most`; else `usage` is the message. */
static inline uint64_t parse_number(const char *text, uint64_t most, const char *usage)
{
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (*end || number < 1 || number > most)
        fail(usage);
    return number;
}

#endif
