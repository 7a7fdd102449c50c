/* The directory of a zip archive: foreign bytes. zip.c makes a store of it.
 *
 * Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64).
 */
#ifndef PENSTOCK_STORE_ZIP_DIRECTORY_H
#define PENSTOCK_STORE_ZIP_DIRECTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds on what a foreign archive can make us hold. */
#define ZIP_MOST_DIRECTORY_BYTES (UINT64_C(1) << 30)
enum { ZIP_MOST_ENTRIES = 1 << 23, ZIP_TAIL_BYTES = 65536 + 22 + 20 };

enum zip_method { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

struct zip_entry {
    const char *name; /* not NUL-terminated; borrowed from the directory's bytes */
    uint32_t name_bytes, order;
    uint32_t crc;
    uint16_t method;
    bool encrypted;
    uint64_t stored_bytes, bytes;
    uint64_t header_offset;       /* of the local header, in the file */
    _Atomic uint64_t data_offset; /* 0: not looked up yet */
};

/* Where the directory lies in a file. */
struct zip_extent {
    uint64_t offset, bytes, entry_count;
    uint64_t shift; /* that all offsets are off by: bytes put before the archive */
};

/* Finds the directory by the file's last bytes: `tail` is the last `tail_bytes` (at most
 * ZIP_TAIL_BYTES) of `file_bytes`. `read` gets 56 bytes at an offset for zip64's end record.
 * CORRUPT: no archive, or cut off. UNSUPPORTED: in several parts, or beyond the bounds. */
typedef enum status zip_read(void *context, uint64_t offset, void *buffer, size_t size,
                             struct error *err);
MUST_USE enum status zip_find_directory(const unsigned char *tail, size_t tail_bytes,
                                        uint64_t file_bytes, zip_read *read, void *context,
                                        struct zip_extent *ret_extent, struct error *err);

/* Takes the directory's bytes apart into `entries` ([entry_count]): values alone, in order of name
 * ('/' before all other bytes), the last of each name, without the folder that all of a hierarchy
 * may lie in. CORRUPT. */
MUST_USE enum status zip_read_directory(const unsigned char *bytes, const struct zip_extent *extent,
                                        struct zip_entry *entries, size_t *ret_count,
                                        struct error *err);

/* The order of entries: below, at or above 0. */
int zip_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

#endif
