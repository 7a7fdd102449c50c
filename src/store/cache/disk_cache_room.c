/* See disk_cache_internal.h: room for values.
 *
 * A process reserves room in the table for several values at once, and hands it out without the
 * table's lock. What it has reserved ahead is a small part of the room that is left, so that other
 * processes find theirs. Nothing is removed for the sake of room ahead.
 *
 * The table counts the processes that have room ahead. Those that end return what they did not use.
 * Of those that died the number stays: room_recount() then adds up what really lies there.
 */
#include "store/cache/disk_cache_internal.h"

#include "base/clock.h"
#include "base/number.h"

enum { AHEAD_VALUES = 63, AHEAD_SHARE = 16 }; /* at most a 16th of the room that is left */
#define AHEAD_MOST ((uint64_t)32 << 20)

static const uint64_t full_pause_ns = 10000000000; /* before room is looked for again */

static bool take_ahead(struct disk_cache *cache, uint64_t bytes)
{
    uint64_t ahead = cache->ahead_bytes;
    while (ahead >= bytes)
        if (atomic_compare_exchange_weak(&cache->ahead_bytes, &ahead, ahead - bytes))
            return true;
    return false;
}

/* What to reserve beyond `bytes`, which fit. Under the table's lock. */
static uint64_t choose_ahead(const struct disk_cache *cache, uint64_t bytes)
{
    uint64_t used = table_sum(cache) + bytes;
    uint64_t left = used < cache->limit_bytes ? cache->limit_bytes - used : 0;
    uint64_t ahead = min_u64(AHEAD_VALUES * bytes, min_u64(AHEAD_MOST, left / AHEAD_SHARE));
    return ahead / BLOCK_BYTES * BLOCK_BYTES;
}

/* Under the table's lock, removing what nobody uses if that makes room. */
static bool reserve(struct disk_cache *cache, uint64_t bytes)
{
    struct table_entry *entry = table_find(cache, cache->dataset); /* or removed by hand */
    bool room = entry && clean_unused(cache, bytes);
    if (room) {
        uint64_t ahead = choose_ahead(cache, bytes);
        entry->bytes += bytes + ahead;
        entry->writers += !cache->is_writer;
        room = table_write(cache, entry);
        if (room)
            cache->is_writer = true;
        cache->ahead_bytes += room ? ahead : 0;
    } else if (bytes <= cache->limit_bytes) {
        cache->full_until_ns = clock_now_ns() + full_pause_ns;
    }
    cache->used_bytes = table_sum(cache);
    return room;
}

bool room_take(struct disk_cache *cache, uint64_t bytes)
{
    if (take_ahead(cache, bytes))
        return true;
    if (clock_now_ns() < cache->full_until_ns || !table_lock(cache))
        return false;
    bool room = take_ahead(cache, bytes) /* another thread has reserved meanwhile */
                || reserve(cache, bytes);
    table_unlock(cache);
    return room;
}

void room_put_back(struct disk_cache *cache, uint64_t bytes)
{
    cache->ahead_bytes += bytes;
}

void room_leave(struct disk_cache *cache)
{
    if (!cache->is_writer || !table_lock(cache))
        return;
    struct table_entry *entry = table_find(cache, cache->dataset);
    if (entry) {
        entry->writers -= entry->writers > 0;
        table_give_back(cache, cache->dataset, atomic_exchange(&cache->ahead_bytes, 0));
    }
    cache->is_writer = false;
    table_unlock(cache);
}

bool room_may_be_lost(const struct disk_cache *cache, const struct table_entry *entry)
{
    return entry->writers > cache->limit_bytes / 100 / AHEAD_MOST;
}

void room_recount(struct disk_cache *cache, struct table_entry *entry)
{
    char name[FOLDER_NAME_BYTES];
    folder_name(entry->dataset, name);
    clean_partial_of(cache, entry->dataset);
    entry->bytes = folder_sum(cache, name);
    entry->writers = 0;
    table_write(cache, entry);
}
