/* Writing whole files: a reader finds either the old content or the new one, even after a crash of
 * the program or of the machine. For states and reports. Blocks on the disk; safe from any thread.
 */
#ifndef PENSTOCK_BASE_FILE_H
#define PENSTOCK_BASE_FILE_H

#include "base/error.h"

#include <stddef.h>

/* Makes `data` the content of the file `path`: written to a temporary name in the same folder,
 * flushed, renamed, and the folder flushed. A path that is no regular file (/dev/stderr, a pipe) is
 * written to directly. A file that is replaced keeps its mode; a new one is 0666 less the umask.
 * IO: the message has the path and the call that failed. After a failure the old content is
 * untouched and no temporary file stays. */
MUST_USE enum status file_replace(const char *path, const void *data, size_t size,
                                  struct error *err);

/* Makes a temporary file beside `path` and removes the file, so that a path that cannot be written
 * is found before a run and not at the end. IO: as above. */
MUST_USE enum status file_check_writable(const char *path, struct error *err);

#endif
