/* Lists of indices or names in a file, one a line. Called while opening, by one thread. Inside
 * src/dataset. */
#ifndef PENSTOCK_DATASET_FIELDS_LIST_FILE_H
#define PENSTOCK_DATASET_FIELDS_LIST_FILE_H

#include "base/error.h"
#include "base/text.h"

/* Appends the lines of a file to a list (base/text.h), without spaces around them, and without
 * empty ones. NOT_FOUND, IO: the file cannot be read. INVALID: it has no line, or more than 64 MiB.
 * The list is the caller's. Blocks on the disk. */
MUST_USE enum status list_file_read(const char *path, struct text *list, struct error *err);

#endif
