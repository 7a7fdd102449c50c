/* Values of a zip archive. Any thread. Stored entries are read where they lie. A deflated
 * entry is inflated whole: into the caller's buffer if the whole value is wanted, else into memory
 * that further parts are read from (inflated.h). The stored bytes are in memory meanwhile, and
 * both count in what callers reserve (store_reserve()). A value that is read whole is checked
 * against its CRC-32. Only the entries' data offsets change after opening: the first read of an
 * entry looks its offset up.
 */
#include "store/zip/zip_internal.h"

#include <inttypes.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { LOCAL_BYTES = 30 };
/* Deflated values are held whole: what is larger was not made for reading in pieces. */
#define MOST_INFLATED_BYTES (UINT64_C(4) << 30)

size_t zip_find_from(const struct zip *zip, const char *name, size_t bytes)
{
    size_t low = 0, high = zip->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct zip_entry *entry = &zip->entries[middle];
        if (store_key_compare(entry->name, entry->name_bytes, name, bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const char *method_name(const struct zip_entry *entry)
{
    switch (entry->method) {
    case 9:
        return "deflate64";
    case 12:
        return "bzip2";
    case 14:
        return "lzma";
    case 93:
        return "zstd";
    case 95:
        return "xz";
    default:
        return "an unknown method";
    }
}

static bool is_below(const struct zip_entry *entry, const char *folder, size_t bytes)
{
    return entry->name_bytes > bytes && entry->name[bytes] == '/' &&
           memcmp(entry->name, folder, bytes) == 0;
}

enum status zip_find_entry(const struct zip *zip, const char *key, struct zip_entry **ret_entry,
                           struct error *err)
{
    size_t bytes = strlen(key), i = zip_find_from(zip, key, bytes);
    struct zip_entry *entry = &zip->entries[i];
    if (i == zip->count || entry->name_bytes != bytes || memcmp(entry->name, key, bytes) != 0)
        return i < zip->count && is_below(entry, key, bytes)
                   ? error_set(err, STATUS_IO, "'%s' in '%s' is a folder, and should be a value",
                               key, zip->path)
                   : error_set(err, STATUS_NOT_FOUND, "'%s' has no '%s'", zip->path, key);
    if (entry->is_link)
        return error_set(
            err, STATUS_IO,
            "'%s' in '%s' is a symbolic link: pack the archive with its links followed "
            "(zip without -y)",
            key, zip->path);
    if (entry->encrypted)
        return error_set(err, STATUS_UNSUPPORTED, "'%s' in '%s' is encrypted: unpack the archive",
                         key, zip->path);
    if (entry->method != ZIP_STORED && entry->method != ZIP_DEFLATED)
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%s' in '%s' is compressed by %s (method %u): write the archive with "
                         "stored entries, as Zarr libraries do, or unpack it",
                         key, zip->path, method_name(entry), entry->method);
    if (entry->method == ZIP_STORED && entry->stored_bytes != entry->bytes)
        return error_set(err, STATUS_CORRUPT,
                         "'%s' in '%s' is not compressed, and yet has two different sizes", key,
                         zip->path);
    *ret_entry = entry;
    return STATUS_OK;
}

/* Behind the local header, which has a length of its own. */
enum status zip_find_data(const struct zip *zip, const char *key, struct zip_entry *entry,
                          bool may_wait, uint64_t *ret_offset, struct error *err)
{
    unsigned char local[LOCAL_BYTES];
    uint64_t offset = entry->data_offset;
    if (offset == 0 && !may_wait) {
        *ret_offset = 0;
        return STATUS_OK;
    }
    if (offset == 0) {
        if (zip->file_bytes < LOCAL_BYTES || entry->header_offset > zip->file_bytes - LOCAL_BYTES)
            return error_set(err, STATUS_CORRUPT, "'%s' lies beyond the end of '%s'", key,
                             zip->path);
        enum status status =
            zip_read_at((void *)zip, entry->header_offset, local, sizeof local, err);
        if (status != STATUS_OK)
            return status;
        uint32_t method = local[8] | (uint32_t)local[9] << 8;
        uint64_t skip =
            (local[26] | (uint32_t)local[27] << 8) + (local[28] | (uint32_t)local[29] << 8);
        if (memcmp(local, "PK\3\4", 4) != 0 || method != entry->method)
            return error_set(err, STATUS_CORRUPT, "'%s' is not where the directory of '%s' has it",
                             key, zip->path);
        offset = entry->header_offset + LOCAL_BYTES + skip;
    }
    if (offset > zip->file_bytes || entry->stored_bytes > zip->file_bytes - offset)
        return error_set(err, STATUS_CORRUPT, "'%s' lies beyond the end of '%s'", key, zip->path);
    entry->data_offset = offset;
    *ret_offset = offset;
    return STATUS_OK;
}

enum status zip_check(const struct zip *zip, const char *key, const struct zip_entry *entry,
                      const void *value, struct error *err)
{
    return libdeflate_crc32(0, value, entry->bytes) == entry->crc
               ? STATUS_OK
               : error_set(err, STATUS_CORRUPT, "'%s' in '%s' fails its CRC-32", key, zip->path);
}

static enum status inflate_entry(const struct zip *zip, const char *key,
                                 const struct zip_entry *entry, uint64_t offset, void *buffer,
                                 struct error *err)
{
    void *stored = malloc(entry->stored_bytes ? entry->stored_bytes : 1);
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    enum status status = STATUS_OK;
    if (!stored || !decompressor)
        status =
            error_set(err, STATUS_NO_MEMORY, "no memory to inflate '%s' of '%s'", key, zip->path);
    if (status == STATUS_OK)
        status = zip_read_at((void *)zip, offset, stored, entry->stored_bytes, err);
    if (status == STATUS_OK &&
        libdeflate_deflate_decompress(decompressor, stored, entry->stored_bytes, buffer,
                                      entry->bytes, NULL) != LIBDEFLATE_SUCCESS)
        status =
            error_set(err, STATUS_CORRUPT, "'%s' in '%s' does not inflate to its %" PRIu64 " bytes",
                      key, zip->path, entry->bytes);
    libdeflate_free_decompressor(decompressor);
    free(stored);
    return status;
}

/* The whole value to `buffer`, which holds it. A deflated value takes its stored bytes besides,
 * which the caller has taken. */
static enum status read_entry(const struct zip *zip, const char *key, struct zip_entry *entry,
                              void *buffer, struct error *err)
{
    uint64_t offset;
    enum status status = zip_find_data(zip, key, entry, true, &offset, err);
    if (status != STATUS_OK)
        return status;
    status = entry->method == ZIP_STORED
                 ? zip_read_at((void *)zip, offset, buffer, entry->bytes, err)
                 : inflate_entry(zip, key, entry, offset, buffer, err);
    return status == STATUS_OK ? zip_check(zip, key, entry, buffer, err) : status;
}

/* The whole value to `buffer`, from memory if the value lies inflated there. */
static enum status read_whole(const struct zip *zip, const char *key, struct zip_entry *entry,
                              void *buffer, struct error *err)
{
    if (entry->method == ZIP_STORED)
        return read_entry(zip, key, entry, buffer, err);
    const unsigned char *value = inflated_find_or_take(zip->inflated, entry, entry->stored_bytes);
    if (value) {
        memcpy(buffer, value, entry->bytes);
        inflated_unpin(zip->inflated, entry);
        return STATUS_OK;
    }
    enum status status = read_entry(zip, key, entry, buffer, err);
    inflated_give_back(zip->inflated, entry->stored_bytes);
    return status;
}

static enum status too_long(const struct zip *zip, const char *key, const struct zip_entry *entry,
                            uint64_t capacity, struct error *err)
{
    return error_set(err, STATUS_CORRUPT,
                     "'%s' in '%s' has %" PRIu64 " bytes, at most %" PRIu64 " can be right", key,
                     zip->path, entry->bytes, capacity);
}

enum status zip_get(const struct store *store, const char *key, store_begins *begins, void *buffer,
                    size_t capacity, size_t *ret_size, struct error *err)
{
    const struct zip *zip = zip_of(store);
    struct zip_entry *entry;
    (void)begins;
    enum status status = zip_find_entry(zip, key, &entry, err);
    if (status == STATUS_OK && entry->bytes > capacity)
        status = too_long(zip, key, entry, capacity, err);
    if (status == STATUS_OK)
        status = read_whole(zip, key, entry, buffer, err);
    if (status == STATUS_OK)
        *ret_size = entry->bytes;
    return status;
}

struct making {
    const struct zip *zip;
    const char *key;
    struct zip_entry *entry;
};

static enum status make_value(void *context, void *memory, struct error *err)
{
    const struct making *making = context;
    return read_entry(making->zip, making->key, making->entry, memory, err);
}

/* Pieces of a deflated value: of all of it, inflated. */
static enum status cut_ranges(const struct zip *zip, const char *key, struct zip_entry *entry,
                              const struct store_range *ranges, size_t count, struct error *err)
{
    struct making making = {zip, key, entry};
    const unsigned char *whole;
    if (entry->bytes > MOST_INFLATED_BYTES)
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%s' in '%s' is deflated, and too large to read parts of: "
                         "write the archive with stored entries",
                         key, zip->path);
    enum status status = inflated_pin(zip->inflated, entry, entry->bytes, entry->stored_bytes,
                                      make_value, &making, &whole, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        if (ranges[i].size > 0)
            memcpy(ranges[i].buffer, whole + ranges[i].offset, ranges[i].size);
    inflated_unpin(zip->inflated, entry);
    return STATUS_OK;
}

enum status zip_get_ranges(const struct store *store, const char *key,
                           const struct store_range *ranges, size_t count, uint64_t total,
                           struct error *err)
{
    const struct zip *zip = zip_of(store);
    struct zip_entry *entry;
    uint64_t offset = 0;
    enum status status = zip_find_entry(zip, key, &entry, err);
    if (status == STATUS_OK && total != STORE_ANY_TOTAL && entry->bytes != total)
        status = error_set(err, STATUS_CORRUPT,
                           "'%s' in '%s' has %" PRIu64 " bytes instead of %" PRIu64
                           ": it was cut short, or written for another array",
                           key, zip->path, entry->bytes, total);
    if (status == STATUS_OK)
        status = zip_find_data(zip, key, entry, true, &offset, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        if (ranges[i].offset > entry->bytes || ranges[i].size > entry->bytes - ranges[i].offset)
            status = error_set(err, STATUS_CORRUPT,
                               "'%s' in '%s' has %" PRIu64 " bytes, more are needed: it was cut "
                               "short",
                               key, zip->path, entry->bytes);
    if (status == STATUS_OK && entry->method == ZIP_DEFLATED)
        return cut_ranges(zip, key, entry, ranges, count, err);
    return status == STATUS_OK ? zip_read_ranges(zip, offset, ranges, count, err) : status;
}

enum status zip_get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                           uint64_t *ret_total, struct error *err)
{
    const struct zip *zip = zip_of(store);
    struct zip_entry *entry;
    enum status status = zip_find_entry(zip, key, &entry, err);
    if (status == STATUS_OK && entry->bytes < size)
        status = error_set(err, STATUS_CORRUPT,
                           "'%s' in '%s' has %" PRIu64 " bytes, %zu are needed: it was cut short",
                           key, zip->path, entry->bytes, size);
    if (status == STATUS_OK)
        status =
            zip_get_ranges(store, key, &(struct store_range){entry->bytes - size, size, buffer}, 1,
                           STORE_ANY_TOTAL, err);
    if (status == STATUS_OK)
        *ret_total = entry->bytes;
    return status;
}

enum status zip_get_text(const struct store *store, const char *key, size_t limit, char **ret_text,
                         size_t *ret_size, struct error *err)
{
    const struct zip *zip = zip_of(store);
    struct zip_entry *entry;
    enum status status = zip_find_entry(zip, key, &entry, err);
    if (status == STATUS_OK && entry->bytes > limit)
        status = too_long(zip, key, entry, limit, err);
    if (status != STATUS_OK)
        return status;
    char *text = malloc(entry->bytes + 1);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "no memory for '%s' of '%s'", key, zip->path);
    status = read_whole(zip, key, entry, text, err);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    text[entry->bytes] = '\0';
    *ret_text = text;
    *ret_size = entry->bytes;
    return STATUS_OK;
}
