/* A zip archive as a store: a key is an entry's name. The directory is read once, at opening, and
 * kept (zip_directory.h). zip_read.c reads values. Any thread.
 */
#include "store/zip/zip_internal.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Entries below a prefix: [begin, end) and the bytes that their names have in front. */
static enum status find_below(const struct zip *zip, const char *prefix, size_t *ret_begin,
                              size_t *ret_end, size_t *ret_skip, struct error *err)
{
    size_t bytes = strlen(prefix), skip = bytes ? bytes + 1 : 0;
    size_t begin = bytes ? zip_find_from(zip, prefix, bytes) : 0, end;
    if (begin < zip->count && bytes && zip->entries[begin].name_bytes == bytes)
        begin++; /* a value of that very name */
    for (end = begin; end < zip->count; end++) {
        const struct zip_entry *entry = &zip->entries[end];
        if (bytes && (entry->name_bytes <= skip || memcmp(entry->name, prefix, bytes) != 0 ||
                      entry->name[bytes] != '/'))
            break;
    }
    if (begin == end)
        return error_set(err, STATUS_NOT_FOUND, "'%s' has nothing below '%s'", zip->path, prefix);
    *ret_begin = begin;
    *ret_end = end;
    *ret_skip = skip;
    return STATUS_OK;
}

/* A number that tells values apart. */
static uint64_t content_of(const struct zip_entry *entry)
{
    return (entry->crc ^ entry->bytes << 32) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* By either `visit` or `visit_name`; the other is NULL. */
static enum status each_below(const struct zip *zip, const char *prefix, store_visit *visit,
                              store_visit_name *visit_name, void *argument, struct error *err)
{
    size_t begin, end, skip, before_bytes = 0;
    const char *before = NULL;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    for (size_t i = begin; status == STATUS_OK && i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        const char *at = entry->name + skip, *slash = memchr(at, '/', entry->name_bytes - skip);
        size_t bytes = slash ? (size_t)(slash - at) : entry->name_bytes - skip;
        char name[1024];
        if (slash && before && bytes == before_bytes && memcmp(at, before, bytes) == 0)
            continue;
        before = slash ? at : NULL;
        before_bytes = bytes;
        if (bytes == 0 || bytes >= sizeof name || memchr(at, '\0', bytes))
            continue; /* what no key can reach */
        memcpy(name, at, bytes);
        name[bytes] = '\0';
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        status = visit ? visit(name, slash != NULL, argument, err)
                       : visit_name(name, slash ? 0 : content_of(entry), argument, err);
    }
    return status;
}

static enum status list(const struct store *store, const char *prefix, store_visit *visit,
                        void *argument, struct error *err)
{
    return each_below(zip_of(store), prefix, visit, NULL, argument, err);
}

static enum status names(const struct store *store, const char *prefix, store_visit_name *visit,
                         void *argument, struct error *err)
{
    return each_below(zip_of(store), prefix, NULL, visit, argument, err);
}

/* Entries are in order of their names. */
static enum status stamp(const struct store *store, const char *prefix, uint64_t *ret_stamp,
                         struct error *err)
{
    const struct zip *zip = zip_of(store);
    size_t begin, end, skip;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    if (status != STATUS_OK)
        return status;
    uint64_t sum = 0;
    for (size_t i = begin; i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        for (size_t k = skip; k < entry->name_bytes; k++) /* FNV-1a's step */
            sum = (sum ^ (unsigned char)entry->name[k]) * UINT64_C(0x100000001b3);
        sum = random_u64(sum, content_of(entry), entry->name_bytes);
    }
    *ret_stamp = sum;
    return STATUS_OK;
}

static enum status usage(const struct store *store, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err)
{
    (void)most;
    const struct zip *zip = zip_of(store);
    size_t begin, end, skip;
    uint64_t bytes = 0;
    enum status status = find_below(zip, prefix, &begin, &end, &skip, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = begin; i < end; i++)
        if (__builtin_add_overflow(bytes, zip->entries[i].stored_bytes, &bytes))
            return error_set(err, STATUS_CORRUPT, "the sizes in '%s' exceed 2^64 bytes", zip->path);
    *ret_usage = (struct store_usage){.bytes = bytes, .count = end - begin};
    return STATUS_OK;
}

static enum status stat_entry(const struct store *store, const char *key,
                              struct store_info *ret_info, struct error *err)
{
    struct zip_entry *entry;
    enum status status = zip_find_entry(zip_of(store), key, &entry, err);
    if (status == STATUS_OK)
        *ret_info = (struct store_info){.bytes = entry->bytes, .version = content_of(entry)};
    return status;
}

/* With size and time: archives are written as a whole. */
static enum status identify(const struct store *store, struct text *out, struct error *err)
{
    const struct zip *zip = zip_of(store);
    char *path = realpath(zip->path, NULL);
    if (!path)
        return error_set_errno(err, STATUS_IO, "find the real path of '%s'", zip->path);
    text_append(out, "zip://%s %" PRIu64 " %" PRIu64 "\n", path, zip->file_bytes, zip->modified_ns);
    free(path);
    return STATUS_OK;
}

static struct store_inflate inflate_below(const struct store *store, const char *prefix)
{
    const struct zip *zip = zip_of(store);
    size_t begin = 0, end = 0, skip;
    struct store_inflate inflate = {0};
    (void)!find_below(zip, prefix, &begin, &end, &skip, NULL);
    for (size_t i = begin; i < end; i++) {
        const struct zip_entry *entry = &zip->entries[i];
        uint64_t bytes = size_round_up(entry->bytes, MEMORY_PAGE_BYTES);
        if (entry->method != ZIP_DEFLATED)
            continue;
        inflate.most_bytes = max_u64(inflate.most_bytes, add_sat(bytes, entry->stored_bytes));
        inflate.all_bytes = add_sat(inflate.all_bytes, bytes);
    }
    return inflate;
}

static struct inflated **inflated(const struct store *store)
{
    return &zip_of(store)->inflated;
}

static void release(struct store *store)
{
    struct zip *zip = zip_of(store);
    if (zip->fd >= 0)
        close(zip->fd);
    inflated_free(zip->inflated);
    free(zip->entries);
    free(zip->directory);
    free(zip->path);
    free(zip);
}

static const struct store_operations operations = {
    .get = zip_get,
    .get_ranges = zip_get_ranges,
    .get_suffix = zip_get_suffix,
    .get_text = zip_get_text,
    .list = list,
    .names = names,
    .stamp = stamp,
    .usage = usage,
    .stat = stat_entry,
    .identify = identify,
    .inflate_below = inflate_below,
    .inflated = inflated,
    .free = release,
};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

static enum status open_file(struct zip *zip, struct error *err)
{
    struct stat info;
    zip->fd = open(zip->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (zip->fd < 0)
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "open '%s'",
                               zip->path);
    if (fstat(zip->fd, &info) < 0)
        return error_set_errno(err, STATUS_IO, "stat '%s'", zip->path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "'%s' is not a file", zip->path);
    zip->file_bytes = (uint64_t)info.st_size;
    zip->modified_ns = (uint64_t)info.st_mtim.tv_sec * 1000000000u + (uint64_t)info.st_mtim.tv_nsec;
    return STATUS_OK;
}

static enum status find_directory(struct zip *zip, struct zip_extent *ret_extent, struct error *err)
{
    size_t bytes = zip->file_bytes < ZIP_TAIL_BYTES ? (size_t)zip->file_bytes : ZIP_TAIL_BYTES;
    unsigned char *tail = malloc(bytes ? bytes : 1);
    if (!tail)
        return error_set(err, STATUS_NO_MEMORY, "no memory to open '%s'", zip->path);
    enum status status = zip_read_at(zip, zip->file_bytes - bytes, tail, bytes, err);
    if (status == STATUS_OK)
        status =
            zip_find_directory(tail, bytes, zip->file_bytes, zip_read_at, zip, ret_extent, err);
    free(tail);
    return status;
}

static enum status read_directory(struct zip *zip, struct error *err)
{
    struct zip_extent extent;
    enum status status = find_directory(zip, &extent, err);
    if (status != STATUS_OK)
        return status;
    zip->directory = malloc(extent.bytes ? extent.bytes : 1);
    zip->entries = calloc(extent.entry_count + 1, sizeof *zip->entries);
    if (!zip->directory || !zip->entries)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the directory of '%s'", zip->path);
    status = zip_read_at(zip, extent.offset, zip->directory, extent.bytes, err);
    return status != STATUS_OK
               ? status
               : zip_read_directory(zip->directory, &extent, zip->entries, &zip->count, err);
}

enum status zip_open(const char *path, struct store **ret_store, struct error *err)
{
    struct zip *zip = calloc(1, sizeof *zip);
    if (!zip)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", path);
    zip->store.operations = &operations;
    zip->fd = -1;
    zip->path = strdup(path);
    zip->inflated = inflated_new();
    enum status status =
        zip->path && zip->inflated
            ? open_file(zip, err)
            : error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", path);
    if (status == STATUS_OK) {
        status = read_directory(zip, err);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "zip archive '%s': ", path);
    }
    if (status != STATUS_OK) {
        release(&zip->store);
        return status;
    }
    *ret_store = &zip->store;
    return STATUS_OK;
}
