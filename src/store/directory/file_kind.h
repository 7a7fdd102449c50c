/* What a file is that is no store, by how it begins. Inside src/store. */
#ifndef PENSTOCK_STORE_DIRECTORY_FILE_KIND_H
#define PENSTOCK_STORE_DIRECTORY_FILE_KIND_H

#include <stdbool.h>

/* Whether the file at `path` begins as a zip archive does. Reads a few bytes. */
bool file_is_zip(const char *path);

/* What the file at `path` is, and what to do: "a tar archive: unpack it". NULL: nothing is known
 * of it. Reads the file's start; a file that cannot be read is unknown. */
const char *file_kind(const char *path);

#endif
