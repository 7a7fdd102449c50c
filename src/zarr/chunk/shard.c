/* See shard.h: shards' names, and their indices. Pure. */
#include "zarr/chunk/shard.h"

#include "base/convert.h"
#include "base/size.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

bool shard_is_same(struct shard_name a, struct shard_name b)
{
    return a.array == b.array && a.level == b.level && a.number == b.number;
}

struct shard_name shard_of(const struct zarr_array *array, int level, const uint64_t *chunk_index)
{
    const uint64_t *spans = array->shard_levels[level].spans;
    uint64_t number = 0;
    for (int i = 0; i < array->rank; i++)
        number =
            number * size_divide_up(array->chunk_counts[i], spans[i]) + chunk_index[i] / spans[i];
    return (struct shard_name){array, level, number};
}

uint64_t shard_entry_number(const struct zarr_array *array, int level, const uint64_t *chunk_index)
{
    const struct zarr_shard_level *shard = &array->shard_levels[level];
    uint64_t number = 0;
    for (int i = 0; i < array->rank; i++) {
        int axis = shard->axes[i];
        uint64_t below = shard->spans[axis] / shard->counts[axis];
        number = number * shard->counts[axis] + chunk_index[axis] % shard->spans[axis] / below;
    }
    return number;
}

/* What an entry becomes that shares bytes with another one: no file has a byte there. */
static const struct shard_entry overlapping = {UINT64_MAX - 1, UINT64_MAX - 1};

static bool is_missing(const struct shard_entry *entry)
{
    return entry->offset == SHARD_MISSING && entry->bytes == SHARD_MISSING;
}

/* Whether it takes bytes that another one could share; one that does not lie in the shard has none.
 */
static bool takes_bytes(const struct shard_entry *entry, uint64_t end)
{
    return !is_missing(entry) && entry->bytes > 0 && entry->offset <= end &&
           entry->bytes <= end - entry->offset;
}

static const struct zarr_shard_level *level_of(struct shard_name name)
{
    return &name.array->shard_levels[name.level];
}

/* Where the inner chunks end at the latest; UINT64_MAX: that is not known. */
static uint64_t data_end(const struct zarr_shard_level *level, uint64_t shard_bytes)
{
    bool ends_before = !level->index_at_start && shard_bytes != UINT64_MAX;
    return shard_bytes - (ends_before ? level->index_bytes : 0);
}

/* Whether inner chunks lie in order of number, as most writers put them: then none overlap. */
static bool is_in_order(const struct shard_entry *entries, uint64_t count, uint64_t limit)
{
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!takes_bytes(&entries[i], limit))
            continue;
        if (entries[i].offset < end)
            return false;
        end = entries[i].offset + entries[i].bytes;
    }
    return true;
}

struct begin {
    uint64_t offset, number;
};

static int compare_begins(const void *a, const void *b)
{
    uint64_t left = ((const struct begin *)a)->offset, right = ((const struct begin *)b)->offset;
    return left < right ? -1 : left > right;
}

/* Marks all entries that share bytes. `begins` has room for one of each. */
static void mark_overlaps(struct shard_entry *entries, uint64_t count, uint64_t limit,
                          struct begin *begins)
{
    uint64_t used = 0, end = 0, last = 0;
    for (uint64_t i = 0; i < count; i++)
        if (takes_bytes(&entries[i], limit))
            begins[used++] = (struct begin){entries[i].offset, i};
    qsort(begins, used, sizeof *begins, compare_begins);
    for (uint64_t i = 0; i < used; i++) {
        uint64_t number = begins[i].number, own_end = begins[i].offset + entries[number].bytes;
        if (begins[i].offset < end)
            entries[last] = entries[number] = overlapping;
        if (own_end > end) {
            end = own_end;
            last = number;
        }
    }
}

enum status shard_index_parse(struct shard_index *index, struct codec_context *context,
                              void *stored, struct error *err)
{
    const struct zarr_shard_level *level = level_of(index->name);
    size_t bytes = level->entry_count * sizeof *index->entries;
    enum status status = codec_decode(&level->index_codecs, context, stored, level->index_bytes,
                                      codec_output_of(index->entries, bytes), err);
    _Static_assert(sizeof(struct shard_entry) == 16, "as stored");
    _Static_assert(sizeof(struct begin) <= sizeof(struct shard_entry), "stored bytes have room");
    if (status != STATUS_OK)
        return status;
    if (level->index_swapped)
        convert_swap(index->entries, bytes, sizeof(uint64_t));
    uint64_t end = data_end(level, index->shard_bytes);
    if (!is_in_order(index->entries, level->entry_count, end))
        mark_overlaps(index->entries, level->entry_count, end, stored);
    return STATUS_OK;
}

struct shard_look shard_index_look(const struct shard_index *index, uint64_t number)
{
    struct shard_look look = {.absent = index->absent,
                              .is_new = index->is_new,
                              .shard_bytes = index->shard_bytes,
                              .entry = {SHARD_MISSING, SHARD_MISSING}};
    assert(number < level_of(index->name)->entry_count);
    if (!index->absent)
        look.entry = index->entries[number];
    return look;
}

enum status shard_look_check(struct shard_name name, uint64_t number, const struct shard_look *look,
                             struct error *err)
{
    const struct zarr_shard_level *level = level_of(name);
    const struct shard_entry *entry = &look->entry;
    uint64_t begin = level->index_at_start ? level->index_bytes : 0;
    uint64_t end = data_end(level, look->shard_bytes);
    if (is_missing(entry))
        return STATUS_OK;
    if (entry->offset == overlapping.offset && entry->bytes == overlapping.bytes)
        return error_set(err, STATUS_CORRUPT,
                         "the shard's index is wrong: entry %" PRIu64
                         " has bytes that another one has, too",
                         number);
    if (entry->offset < begin || entry->offset > end || entry->bytes > end - entry->offset)
        return error_set(err, STATUS_CORRUPT,
                         "the shard's index is wrong: entry %" PRIu64 " has %" PRIu64
                         " bytes at byte %" PRIu64 ", and inner chunks lie from byte %" PRIu64
                         " to %" PRIu64,
                         number, entry->bytes, entry->offset, begin, end);
    return STATUS_OK;
}
