/* Several traces in Chrome's format as one, on one clock. Main thread. */
#ifndef PENSTOCK_CLI_TRACE_TRACE_MERGE_H
#define PENSTOCK_CLI_TRACE_TRACE_MERGE_H

#include "base/error.h"

#include <stddef.h>

/* Reads the files `paths`, and writes one with all their events to `out_path`: times are counted
 * from the first moment of all, and processes that have one number in two files get two.
 * What else a file has (deviceProperties) is taken from the first file that has it. INVALID: a file
 * is no trace; the message names the file. NOT_FOUND, IO. */
MUST_USE enum status trace_merge(const char *const *paths, size_t count, const char *out_path,
                                 struct error *err);

#endif
