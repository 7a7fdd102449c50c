/* Shards' indices, and the cache of them. See shard.h.
 *
 * The cache is a table for each array and level: a shard has one line where its index may be, by
 * its number, so that nothing has to be searched, and no order of use be kept. Where all indices
 * fit, each has a line of its own; where they do not, training goes through them in random order,
 * and no choice of what to replace would be much better.
 */
#include "zarr/shard.h"

#include "base/memory.h"
#include "base/size.h"

#include <assert.h>
#include <endian.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Names
 * ------------------------------------------------------------------------------------------- */

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

static uint64_t shard_count(const struct zarr_array *array, int level)
{
    uint64_t count = 1;

    for (int i = 0; i < array->rank; i++)
        count *= size_divide_up(array->chunk_counts[i], array->shard_levels[level].spans[i]);
    return count; /* at most the number of chunks, which fits */
}

/* Indices
 * ------------------------------------------------------------------------------------------- */

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
                                      index->entries, bytes, err);

    _Static_assert(sizeof(struct shard_entry) == 16, "as stored");
    _Static_assert(sizeof(struct begin) <= sizeof(struct shard_entry), "stored bytes have room");
    if (status != STATUS_OK)
        return status;
    if (level->index_swapped)
        bytes_swap(index->entries, bytes, sizeof(uint64_t));
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

/* The cache
 * ------------------------------------------------------------------------------------------- */

enum { LOCKS = 64 };

struct line {
    uint64_t number; /* of the shard, plus one; 0: empty */
    uint64_t shard_bytes;
    bool absent, is_new;
};

/* The lines of one array's shards at one level. Line i is guarded by lock i modulo LOCKS. */
struct table {
    const struct zarr_array *array;
    int level;
    uint64_t line_count;
    size_t entries_bytes; /* of one index */
    size_t offset;        /* of the first index in the cache's memory */
    struct line *lines;
};

struct shard_cache {
    pthread_mutex_t locks[LOCKS];
    unsigned char *memory;
    size_t memory_bytes;
    size_t table_count;
    struct table tables[];
};

static size_t index_cost(const struct zarr_array *array, int level)
{
    return array->shard_levels[level].entry_count * sizeof(struct shard_entry) +
           sizeof(struct line);
}

/* What all indices of the arrays take. */
static double total_cost(const struct zarr_array *const *arrays, size_t array_count,
                         size_t *ret_table_count)
{
    double total = 0;

    *ret_table_count = 0;
    for (size_t i = 0; i < array_count; i++)
        for (int level = 0; level < arrays[i]->shard_level_count; level++) {
            total += (double)shard_count(arrays[i], level) * (double)index_cost(arrays[i], level);
            ++*ret_table_count;
        }
    return total;
}

/* The lines of a table: as many as it has shards, or its fraction of the limit, at least one. */
static uint64_t line_count_of(const struct zarr_array *array, int level, double total, size_t limit)
{
    uint64_t shards = shard_count(array, level);
    double fraction = total <= (double)limit ? 1.0 : (double)limit / total;
    uint64_t lines = (uint64_t)((double)shards * fraction);

    return lines > shards ? shards : lines > 0 ? lines : 1;
}

size_t shard_cache_bytes(const struct zarr_array *const *arrays, size_t array_count,
                         size_t limit_bytes)
{
    size_t table_count, bytes = 0;
    double total = total_cost(arrays, array_count, &table_count);

    for (size_t i = 0; i < array_count; i++)
        for (int level = 0; level < arrays[i]->shard_level_count; level++)
            bytes +=
                line_count_of(arrays[i], level, total, limit_bytes) * index_cost(arrays[i], level);
    return bytes > 0 ? size_round_up(bytes, MEMORY_PAGE_BYTES) : 0;
}

/* Lays the tables out: all lines first, then all indices. Returns the bytes that it comes to. */
static size_t lay_out(struct shard_cache *cache, const struct zarr_array *const *arrays,
                      size_t array_count, double total, size_t limit_bytes)
{
    size_t count = 0, offset = 0;

    for (size_t i = 0; i < array_count; i++)
        for (int level = 0; level < arrays[i]->shard_level_count; level++) {
            uint64_t lines = line_count_of(arrays[i], level, total, limit_bytes);

            offset += lines * sizeof(struct line);
            cache->tables[count++] = (struct table){
                .array = arrays[i],
                .level = level,
                .line_count = lines,
                .entries_bytes = index_cost(arrays[i], level) - sizeof(struct line),
            };
        }
    cache->table_count = count;
    for (size_t i = 0; i < count; i++) {
        cache->tables[i].offset = offset;
        offset += cache->tables[i].line_count * cache->tables[i].entries_bytes;
    }
    return offset;
}

static void lay_out_lines(struct shard_cache *cache)
{
    struct line *lines = (struct line *)(void *)cache->memory;

    for (size_t i = 0; i < cache->table_count; i++) {
        cache->tables[i].lines = lines;
        lines += cache->tables[i].line_count;
    }
}

enum status shard_cache_new(const struct zarr_array *const *arrays, size_t array_count,
                            size_t limit_bytes, struct shard_cache **ret_cache, struct error *err)
{
    size_t table_count;
    double total = total_cost(arrays, array_count, &table_count);
    struct shard_cache *cache = calloc(1, sizeof *cache + table_count * sizeof cache->tables[0]);
    void *memory = NULL;

    if (!cache)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the cache of shard indices");
    cache->memory_bytes = lay_out(cache, arrays, array_count, total, limit_bytes);
    enum status status = STATUS_OK;
    if (cache->memory_bytes > 0)
        status = memory_map(cache->memory_bytes, "cache of shard indices", &memory, err);
    if (status != STATUS_OK) {
        free(cache);
        return status;
    }
    if (memory)
        memory_touch(memory, cache->memory_bytes);
    cache->memory = memory;
    lay_out_lines(cache);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&cache->locks[i], NULL);
    *ret_cache = cache;
    return STATUS_OK;
}

void shard_cache_free(struct shard_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&cache->locks[i]);
    memory_unmap(cache->memory, cache->memory_bytes);
    free(cache);
}

/* A shard's line, and its table's part of the memory, locked. */
struct locked {
    pthread_mutex_t *lock;
    struct line *line;
    struct shard_entry *entries;
    size_t entries_bytes;
};

/* False where the cache was not made for the shard's array. */
static bool lock_line(struct shard_cache *cache, struct shard_name name, struct locked *ret_locked)
{
    for (size_t i = 0; cache && i < cache->table_count; i++) {
        const struct table *table = &cache->tables[i];
        if (table->array != name.array || table->level != name.level)
            continue;
        uint64_t number = name.number % table->line_count;
        void *entries = cache->memory + table->offset + number * table->entries_bytes;
        *ret_locked = (struct locked){&cache->locks[number % LOCKS], &table->lines[number], entries,
                                      table->entries_bytes};
        pthread_mutex_lock(ret_locked->lock);
        return true;
    }
    return false;
}

/* The same, of a shard whose index is there. */
static bool lock_index(struct shard_cache *cache, struct shard_name name, struct locked *ret_locked)
{
    if (!lock_line(cache, name, ret_locked))
        return false;
    if (ret_locked->line->number == name.number + 1)
        return true;
    pthread_mutex_unlock(ret_locked->lock);
    return false;
}

/* What is cached: its entries are the cache's, as long as it is locked. */
static struct shard_index index_of(const struct locked *locked, struct shard_name name)
{
    const struct line *line = locked->line;
    return (struct shard_index){name, line->absent, line->is_new, line->shard_bytes,
                                locked->entries};
}

bool shard_cache_look(struct shard_cache *cache, struct shard_name name, uint64_t number,
                      struct shard_look *ret_look)
{
    struct locked locked;
    if (!lock_index(cache, name, &locked))
        return false;
    struct shard_index index = index_of(&locked, name);
    *ret_look = shard_index_look(&index, number);
    pthread_mutex_unlock(locked.lock);
    return true;
}

bool shard_cache_get(struct shard_cache *cache, struct shard_name name, struct shard_index *index)
{
    struct shard_entry *entries = index->entries;
    struct locked locked;
    if (!lock_index(cache, name, &locked))
        return false;
    *index = index_of(&locked, name);
    index->entries = entries;
    if (!index->absent)
        memcpy(entries, locked.entries, locked.entries_bytes);
    pthread_mutex_unlock(locked.lock);
    return true;
}

void shard_cache_put(struct shard_cache *cache, const struct shard_index *index)
{
    struct locked locked;
    if (!lock_line(cache, index->name, &locked))
        return;
    *locked.line =
        (struct line){index->name.number + 1, index->shard_bytes, index->absent, index->is_new};
    if (!index->absent)
        memcpy(locked.entries, index->entries, locked.entries_bytes);
    pthread_mutex_unlock(locked.lock);
}
