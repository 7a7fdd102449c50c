/* See shard_cache.h: the cache of shards' indices.
 *
 * The cache is a table for each array and level. A shard has one line where its index may be, by
 * the shard's number. So nothing is searched, and no order of use is kept. If all indices fit, each
 * index has a line of its own. If they do not fit, training goes through them in random order, and
 * no other choice of an index to replace would be much better.
 */
#include "zarr/chunk/shard_cache.h"

#include "base/memory.h"
#include "base/size.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static uint64_t shard_count(const struct zarr_array *array, int level)
{
    uint64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= size_divide_up(array->chunk_counts[i], array->shard_levels[level].spans[i]);
    return count; /* at most the number of chunks, which fits */
}

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
