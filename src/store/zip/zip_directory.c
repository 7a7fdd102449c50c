/* See zip_directory.h. */
#include "store/zip/zip_directory.h"

#include "base/size.h"
#include "store/kind/store_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    END_BYTES = 22,
    LOCATOR_BYTES = 20,
    END64_BYTES = 56,
    HEADER_BYTES = 46,
    LOCAL_BYTES = 30,
    EXTRA_ZIP64 = 1,
    EXTRA_TIMES =
        0x5455, /* the directory has the first time alone, and bits that say which follow */
    FLAG_ENCRYPTED = 1,
    FLAG_DESCRIPTOR = 8,
    HOST_UNIX = 3, /* who made an entry: its mode is in the external attributes */
};
static const uint32_t end_magic = 0x06054b50, locator_magic = 0x07064b50, end64_magic = 0x06064b50,
                      header_magic = 0x02014b50;

static uint64_t number(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

/* The end record, which is followed by a comment that ends with the file; NULL if there is none. */
static const unsigned char *find_end(const unsigned char *tail, size_t tail_bytes)
{
    for (size_t i = tail_bytes < END_BYTES ? 0 : tail_bytes - END_BYTES + 1; i-- > 0;)
        if (number(tail + i, 4) == end_magic &&
            number(tail + i + 20, 2) <= tail_bytes - i - END_BYTES)
            return tail + i;
    return NULL;
}

/* The numbers of zip64's end record instead of those of the plain one. */
static enum status read_end64(const unsigned char *locator, uint64_t file_bytes, zip_read *read,
                              void *context, struct zip_extent *extent, uint64_t *ret_end,
                              struct error *err)
{
    unsigned char end[END64_BYTES];
    uint64_t offset = number(locator + 8, 8);
    if (file_bytes < END64_BYTES || offset > file_bytes - END64_BYTES)
        return error_set(err, STATUS_CORRUPT, "zip64's end record lies beyond the file");
    enum status status = read(context, offset, end, sizeof end, err);
    if (status != STATUS_OK)
        return status;
    if (number(end, 4) != end64_magic)
        return error_set(err, STATUS_CORRUPT, "zip64's end record is not where it should be");
    if (number(end + 16, 4) != 0 || number(end + 20, 4) != 0)
        return error_set(err, STATUS_UNSUPPORTED, "archives in several parts are not supported");
    extent->entry_count = number(end + 32, 8);
    extent->bytes = number(end + 40, 8);
    extent->offset = number(end + 48, 8);
    *ret_end = offset;
    return STATUS_OK;
}

enum status zip_find_directory(const unsigned char *tail, size_t tail_bytes, uint64_t file_bytes,
                               zip_read *read, void *context, struct zip_extent *ret_extent,
                               struct error *err)
{
    const unsigned char *end = find_end(tail, tail_bytes);
    if (!end)
        return error_set(err, STATUS_CORRUPT,
                         "there is no end record: it was cut off, or is not a zip archive");
    uint64_t end_offset = file_bytes - tail_bytes + (uint64_t)(end - tail);
    struct zip_extent extent = {.entry_count = number(end + 10, 2),
                                .bytes = number(end + 12, 4),
                                .offset = number(end + 16, 4)};
    bool has_locator =
        end - tail >= LOCATOR_BYTES && number(end - LOCATOR_BYTES, 4) == locator_magic;
    if (has_locator) {
        enum status status =
            read_end64(end - LOCATOR_BYTES, file_bytes, read, context, &extent, &end_offset, err);
        if (status != STATUS_OK)
            return status;
    } else if (number(end + 4, 2) != 0 || number(end + 6, 2) != 0) {
        return error_set(err, STATUS_UNSUPPORTED, "archives in several parts are not supported");
    }
    if (extent.bytes > end_offset || extent.offset > end_offset - extent.bytes)
        return error_set(err, STATUS_CORRUPT, "the archive's directory lies beyond its end");
    if (extent.bytes > ZIP_MOST_DIRECTORY_BYTES || extent.entry_count > ZIP_MOST_ENTRIES)
        return error_set(err, STATUS_UNSUPPORTED,
                         "the archive has %" PRIu64
                         " values, and at most %d are supported: unpack it",
                         extent.entry_count, ZIP_MOST_ENTRIES);
    if (extent.entry_count > extent.bytes / HEADER_BYTES)
        return error_set(err, STATUS_CORRUPT,
                         "the archive's directory is too short for its %" PRIu64 " entries",
                         extent.entry_count);
    extent.shift = end_offset - extent.bytes - extent.offset;
    extent.offset += extent.shift;
    *ret_extent = extent;
    return STATUS_OK;
}

/* Replaces the numbers that did not fit into 32 bits. */
static bool read_extra(const unsigned char *at, size_t left, struct zip_entry *entry)
{
    uint64_t *const values[] = {&entry->bytes, &entry->stored_bytes, &entry->header_offset};
    bool missing = false;
    for (int i = 0; i < 3; i++)
        missing = missing || *values[i] == UINT32_MAX;
    while (missing && left >= 4) {
        size_t size = number(at + 2, 2);
        if (size > left - 4)
            return false;
        if (number(at, 2) == EXTRA_ZIP64) {
            size_t used = 0;
            for (int i = 0; i < 3; i++) {
                if (*values[i] != UINT32_MAX)
                    continue;
                if (size - used < 8)
                    return false;
                *values[i] = number(at + 4 + used, 8);
                used += 8;
            }
            return true;
        }
        at += 4 + size;
        left -= 4 + size;
    }
    return true; /* 2^32 - 1 itself */
}

/* What the local header has of extra fields if it has those of the directory, but for zip64's. */
static size_t local_extra(const unsigned char *at, size_t left)
{
    size_t bytes = 0;
    while (left >= 4) {
        size_t id = number(at, 2), size = number(at + 2, 2);
        if (size > left - 4)
            break;
        if (id == EXTRA_TIMES && size > 0)
            bytes += 5 + 4 * (size_t)__builtin_popcount(at[4] & 7);
        else if (id != EXTRA_ZIP64)
            bytes += 4 + size;
        at += 4 + size;
        left -= 4 + size;
    }
    return bytes;
}

/* One entry of the directory; *ret_size is what it takes there, 0 if it is not valid. */
static void read_entry(const unsigned char *at, size_t left, struct zip_entry *entry,
                       size_t *ret_size)
{
    *ret_size = 0;
    if (left < HEADER_BYTES || number(at, 4) != header_magic)
        return;
    size_t name = number(at + 28, 2), extra = number(at + 30, 2), comment = number(at + 32, 2);
    if (name + extra + comment > left - HEADER_BYTES)
        return;
    *entry = (struct zip_entry){
        .name = (const char *)at + HEADER_BYTES,
        .name_bytes = (uint32_t)name,
        .encrypted = number(at + 8, 2) & FLAG_ENCRYPTED,
        .has_descriptor = number(at + 8, 2) & FLAG_DESCRIPTOR,
        .local_bytes =
            (uint32_t)(LOCAL_BYTES + name + local_extra(at + HEADER_BYTES + name, extra)),
        .is_link = number(at + 5, 1) == HOST_UNIX && (number(at + 40, 2) & S_IFMT) == S_IFLNK,
        .method = (uint16_t)number(at + 10, 2),
        .crc = (uint32_t)number(at + 16, 4),
        .stored_bytes = number(at + 20, 4),
        .bytes = number(at + 24, 4),
        .header_offset = number(at + 42, 4)};
    if (read_extra(at + HEADER_BYTES + name, extra, entry))
        *ret_size = HEADER_BYTES + name + extra + comment;
}

static int by_name(const void *left, const void *right)
{
    const struct zip_entry *a = left, *b = right;
    int order = store_key_compare(a->name, a->name_bytes, b->name, b->name_bytes);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static bool is_metadata(const char *name, size_t bytes)
{
    static const char *const names[] = {"zarr.json", ".zgroup", ".zarray", ".zmetadata"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (bytes == strlen(names[i]) && memcmp(name, names[i], bytes) == 0)
            return true;
    return false;
}

/* What macOS puts into archives beside what was packed. */
static bool is_beside(const struct zip_entry *entry)
{
    static const char folder[] = "__MACOSX/", file[] = ".DS_Store";
    size_t bytes = entry->name_bytes;
    return (bytes >= strlen(folder) && memcmp(entry->name, folder, strlen(folder)) == 0) ||
           (bytes >= strlen(file) &&
            memcmp(entry->name + bytes - strlen(file), file, strlen(file)) == 0);
}

/* Bytes of "folder/" where all entries lie in one folder, which is a hierarchy; else 0. */
static size_t common_folder(const struct zip_entry *entries, size_t count)
{
    const char *slash = count > 0 ? memchr(entries[0].name, '/', entries[0].name_bytes) : NULL;
    size_t length = slash ? (size_t)(slash - entries[0].name) + 1 : 0;
    bool found = false;
    for (size_t i = 0; i < count && length > 0; i++) {
        if (entries[i].name_bytes < length || memcmp(entries[i].name, entries[0].name, length) != 0)
            return 0;
        found = found || is_metadata(entries[i].name + length, entries[i].name_bytes - length);
    }
    return found ? length : 0;
}

enum status zip_read_directory(const unsigned char *bytes, const struct zip_extent *extent,
                               struct zip_entry *entries, size_t *ret_count, struct error *err)
{
    size_t count = 0, used = 0, kept = 0, size;
    for (uint64_t i = 0; i < extent->entry_count; i++, used += size) {
        struct zip_entry *entry = &entries[count];
        read_entry(bytes + used, (size_t)extent->bytes - used, entry, &size);
        if (size == 0)
            return error_set(err, STATUS_CORRUPT, "entry %" PRIu64 " of the archive is not valid",
                             i);
        if (__builtin_add_overflow(entry->header_offset, extent->shift, &entry->header_offset))
            return error_set(err, STATUS_CORRUPT, "entry %" PRIu64 " of the archive is not valid",
                             i);
        entry->order = (uint32_t)i;
        bool folder = entry->name_bytes == 0 || entry->name[entry->name_bytes - 1] == '/';
        count += !folder && !is_beside(entry);
    }
    size_t skip = common_folder(entries, count);
    for (size_t i = 0; i < count; i++) {
        entries[i].name += skip;
        entries[i].name_bytes -= (uint32_t)skip;
    }
    if (count > 0)
        qsort(entries, count, sizeof *entries, by_name);
    for (size_t i = 0; i < count; i++) /* the last of each name */
        if (i + 1 == count ||
            store_key_compare(entries[i].name, entries[i].name_bytes, entries[i + 1].name,
                              entries[i + 1].name_bytes) != 0)
            entries[kept++] = entries[i];
    *ret_count = kept;
    return STATUS_OK;
}

static int by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The first of [count] ascending numbers that is above `value`; UINT64_MAX: none. */
static uint64_t first_above(const uint64_t *numbers, size_t count, uint64_t value)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers[middle] <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count ? numbers[low] : UINT64_MAX;
}

/* Where the data of an entry begin, before `next`; 0: there are other ways to fill the gap. */
static uint64_t settle(const struct zip_entry *entry, uint64_t next)
{
    static const uint64_t zip64[] = {0, 20}, descriptors[] = {12, 16, 20, 24};
    uint64_t gap = next - entry->header_offset;
    if (next == UINT64_MAX || entry->stored_bytes > gap ||
        entry->local_bytes > gap - entry->stored_bytes)
        return 0;
    gap -= entry->stored_bytes + entry->local_bytes;
    for (int i = 0; i < 2; i++) { /* no two sums are the same */
        bool fits = !entry->has_descriptor && gap == zip64[i];
        for (int k = 0; entry->has_descriptor && k < 4; k++)
            fits = fits || gap == zip64[i] + descriptors[k];
        if (fits)
            return entry->header_offset + entry->local_bytes + zip64[i];
    }
    return 0;
}

void zip_settle_entries(const unsigned char *bytes, const struct zip_extent *extent,
                        struct zip_entry *entries, size_t count, uint64_t *headers)
{
    size_t used = 0, size = 0;
    for (uint64_t i = 0; i < extent->entry_count; i++, used += size) {
        struct zip_entry entry;
        read_entry(bytes + used, (size_t)extent->bytes - used, &entry, &size);
        headers[i] = entry.header_offset + extent->shift;
    }
    headers[extent->entry_count] = extent->offset;
    qsort(headers, extent->entry_count + 1, sizeof *headers, by_number);
    for (size_t i = 0; i < count; i++)
        entries[i].data_offset = settle(
            &entries[i], first_above(headers, extent->entry_count + 1, entries[i].header_offset));
}
