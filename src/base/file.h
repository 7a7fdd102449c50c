/* Whole files, written so that a reader finds either the old content or the new one, also after a
 * crash of the program or of the machine. For states and reports; blocks on the disk. Safe from any
 * thread.
 */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Makes `data` the content of the file `path`: written to a temporary name in the same folder,
 * flushed, renamed, and the folder flushed. What is not a regular file (/dev/stderr, a
 * pipe) is written to as it is. A file that is replaced keeps its mode; a new one is 0666 less the
 * umask. IO: with the path and what failed; the old content is untouched then, and no temporary
 * file stays. */
MUST_USE enum status file_replace(const char *path, const void *data, size_t size,
                                  struct error *err);

/* Whether file_replace() will probably work: makes a temporary file beside `path` and removes it.
 * To be asked before a run that ends in writing. IO: as above. */
MUST_USE enum status file_check_writable(const char *path, struct error *err);

#endif
