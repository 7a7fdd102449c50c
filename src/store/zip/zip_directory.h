/* The directory of a zip archive: foreign bytes. Pure. zip.c makes a store of the directory.
 *
 * Source: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64).
 */
#ifndef PENSTOCK_STORE_ZIP_ZIP_DIRECTORY_H
#define PENSTOCK_STORE_ZIP_ZIP_DIRECTORY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most that a foreign archive can make us hold. ZIP_TAIL_BYTES: the longest comment, the end
 * record and zip64's locator. */
#define ZIP_MOST_DIRECTORY_BYTES (UINT64_C(1) << 30)
enum { ZIP_MOST_ENTRIES = 1 << 23, ZIP_TAIL_BYTES = 65536 + 22 + 20 };

enum zip_method { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

struct zip_entry {
    const char *name; /* not NUL-terminated; borrowed from the directory's bytes */
    uint32_t name_bytes;
    uint32_t order;  /* index in the directory */
    uint32_t crc;    /* CRC-32 of the value */
    uint16_t method; /* enum zip_method, or a method that is not read */
    bool encrypted;
    bool is_link;        /* the value is a path: a symbolic link that was packed as such */
    bool has_descriptor; /* sizes follow the stored bytes once more */
    uint32_t
        local_bytes; /* of the local header, if it has the extra fields that the directory has */
    uint64_t stored_bytes;        /* of the value as stored */
    uint64_t bytes;               /* of the value */
    uint64_t header_offset;       /* of the local header, in the file */
    _Atomic uint64_t data_offset; /* of the stored bytes; 0: not looked up yet */
};

/* Where the directory lies in a file. */
struct zip_extent {
    uint64_t offset, bytes, entry_count;
    uint64_t shift; /* bytes put before the archive, which all its offsets leave out */
};

/* Reads `size` bytes at `offset` of the file. */
typedef enum status zip_read(void *context, uint64_t offset, void *buffer, size_t size,
                             struct error *err);

/* Finds the directory in a file of `file_bytes`. `tail` is the file's last `tail_bytes`: all of the
 * file, or ZIP_TAIL_BYTES. read() is called for the 56 bytes of zip64's end record. CORRUPT: the
 * file is no archive, or is cut off. UNSUPPORTED: the archive is in several parts, or beyond the
 * bounds. Or the error of read(). */
MUST_USE enum status zip_find_directory(const unsigned char *tail, size_t tail_bytes,
                                        uint64_t file_bytes, zip_read *read, void *context,
                                        struct zip_extent *ret_extent, struct error *err);

/* Takes the directory's bytes apart into `entries` ([extent->entry_count]). *ret_count is how many
 * entries are values. `bytes` must outlive the entries, whose names point there. Folders are left
 * out, and so is what macOS adds (__MACOSX, .DS_Store). Of entries with one name, the last one
 * counts. If all values lie in one folder with Zarr metadata, names begin behind the folder.
 * Entries are in order of store_key_compare(). CORRUPT: an entry is not valid. */
MUST_USE enum status zip_read_directory(const unsigned char *bytes, const struct zip_extent *extent,
                                        struct zip_entry *entries, size_t *ret_count,
                                        struct error *err);

/* Sets the data offsets that the directory alone tells: where all bytes from an entry's header to
 * the next one, or to the directory, are accounted for by a local header with the same extra
 * fields, and with zip64's or without, the stored bytes, and a descriptor if there is one. So it is
 * in what common writers write. `headers` is [extent->entry_count + 1], and is overwritten. */
void zip_settle_entries(const unsigned char *bytes, const struct zip_extent *extent,
                        struct zip_entry *entries, size_t count, uint64_t *headers);

#endif
