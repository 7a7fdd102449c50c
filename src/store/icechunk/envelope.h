/* The files of an Icechunk repository, as bytes: a header of 39 bytes, and a FlatBuffer, compressed
 * by zstd mostly. Its frames do not say how much they hold, so that is found out first. Pure; any
 * thread. Messages do not name the file.
 *
 * Source: Icechunk's specification, "Metadata files".
 */
#ifndef PENSTOCK_STORE_ICECHUNK_ENVELOPE_H
#define PENSTOCK_STORE_ICECHUNK_ENVELOPE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum envelope_kind { ENVELOPE_SNAPSHOT = 1, ENVELOPE_MANIFEST = 2, ENVELOPE_REPOSITORY = 6 };

/* The most that a foreign file can make us hold. */
#define ENVELOPE_MOST_MANIFEST_BYTES (UINT64_C(1) << 30)
#define ENVELOPE_MOST_BYTES          (UINT64_C(256) << 20)

/* How many bytes the file's FlatBuffer has. CORRUPT: no such file, damaged, or more than `most`
 * bytes. UNSUPPORTED: a later format than 2. NO_MEMORY. */
MUST_USE enum status envelope_measure(const void *stored, size_t size, enum envelope_kind kind,
                                      uint64_t most, uint64_t *ret_bytes, struct error *err);

/* Writes the FlatBuffer of a file that was measured to `out`, [bytes]. CORRUPT: damaged. NO_MEMORY.
 */
MUST_USE enum status envelope_decode(const void *stored, size_t size, void *out, uint64_t bytes,
                                     struct error *err);

#endif
