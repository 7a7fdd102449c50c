/* See faulty.h. */
#include "store/faulty.h"

#include "base/clock.h"
#include "base/random.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct rates {
    double error, shorter, delay, corrupt, broken;
};

enum { KEY_COUNTS = 4096 };

struct faulty {
    struct store store;
    uint64_t seed;
    double delay_ms, hang_ms, broken_reads;
    struct rates rates;
    char hang[768];
    _Atomic uint64_t reads;
    _Atomic uint32_t reads_of[KEY_COUNTS]; /* broken keys, by their hash */
};

enum { DRAW_KEY_CORRUPT = 1, DRAW_KEY_BROKEN, DRAW_READ };

static struct faulty *faulty_of(const struct store *store)
{
    return (struct faulty *)store;
}

static double draw(const struct faulty *faulty, uint64_t what, uint64_t which)
{
    return (double)random_u64(faulty->seed, what, which) / 0x1p64;
}

static bool key_drawn(const struct faulty *faulty, uint64_t what, const char *key, double rate)
{
    return draw(faulty, what, XXH3_64bits(key, strlen(key))) < rate;
}

/* Chunks are named by numbers; metadata documents are not. */
static bool is_chunk(const char *key)
{
    size_t length = strlen(key);
    return length > 0 && key[length - 1] >= '0' && key[length - 1] <= '9';
}

static void hang(const struct faulty *faulty)
{
    while (faulty->hang_ms == 0)
        pause();
    clock_sleep_ns((uint64_t)(faulty->hang_ms * 1e6));
}

static bool still_broken(struct faulty *faulty, const char *key)
{
    uint64_t hash = XXH3_64bits(key, strlen(key));
    uint32_t before = atomic_fetch_add(&faulty->reads_of[hash % KEY_COUNTS], 1);
    return faulty->broken_reads == 0 || before < faulty->broken_reads;
}

/* What befalls a read before it gets to the store. */
static enum status befall(struct faulty *faulty, const char *key, uint64_t number,
                          struct error *err)
{
    if (strcmp(key, faulty->hang) == 0)
        hang(faulty);
    if (draw(faulty, DRAW_READ, 4 * number) < faulty->rates.delay)
        clock_sleep_ns((uint64_t)(faulty->delay_ms * 1e6));
    errno = EIO;
    if (is_chunk(key) && key_drawn(faulty, DRAW_KEY_BROKEN, key, faulty->rates.broken) &&
        still_broken(faulty, key))
        return error_set_errno(err, STATUS_IO, "read '%s' (broken on purpose)", key);
    errno = EIO;
    if (draw(faulty, DRAW_READ, 4 * number + 1) < faulty->rates.error)
        return error_set_errno(err, STATUS_IO, "read '%s' (failing on purpose)", key);
    return STATUS_OK;
}

static void damage(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < 32; i++)
        bytes[i] ^= 0xa5;
}

static enum status get(const struct store *store, const char *key, store_begins *begins,
                       void *buffer, size_t capacity, size_t *ret_size, struct error *err)
{
    struct faulty *faulty = faulty_of(store);
    uint64_t number = atomic_fetch_add(&faulty->reads, 1);
    enum status status = befall(faulty, key, number, err);
    if (status == STATUS_OK)
        status = store->inner->operations->get(store->inner, key, begins, buffer, capacity,
                                               ret_size, err);
    if (status != STATUS_OK || !is_chunk(key))
        return status;
    if (draw(faulty, DRAW_READ, 4 * number + 2) < faulty->rates.shorter)
        *ret_size /= 2;
    if (key_drawn(faulty, DRAW_KEY_CORRUPT, key, faulty->rates.corrupt))
        damage(buffer, *ret_size);
    return STATUS_OK;
}

/* Pieces are those of chunks: a short read of one is told as what it is. */
static enum status get_ranges(const struct store *store, const char *key,
                              const struct store_range *ranges, size_t count, uint64_t total,
                              struct error *err)
{
    struct faulty *faulty = faulty_of(store);
    uint64_t number = atomic_fetch_add(&faulty->reads, 1);
    enum status status = befall(faulty, key, number, err);
    if (status == STATUS_OK)
        status = store->inner->operations->get_ranges(store->inner, key, ranges, count, total, err);
    if (status != STATUS_OK)
        return status;
    if (draw(faulty, DRAW_READ, 4 * number + 2) < faulty->rates.shorter)
        return error_set(err, STATUS_CORRUPT, "'%s' was cut short on purpose", key);
    if (key_drawn(faulty, DRAW_KEY_CORRUPT, key, faulty->rates.corrupt))
        for (size_t i = 0; i < count; i++)
            damage(ranges[i].buffer, ranges[i].size);
    return STATUS_OK;
}

static enum status get_suffix(const struct store *store, const char *key, void *buffer, size_t size,
                              uint64_t *ret_total, struct error *err)
{
    struct faulty *faulty = faulty_of(store);
    enum status status = befall(faulty, key, atomic_fetch_add(&faulty->reads, 1), err);
    if (status == STATUS_OK)
        status =
            store->inner->operations->get_suffix(store->inner, key, buffer, size, ret_total, err);
    if (status == STATUS_OK && key_drawn(faulty, DRAW_KEY_CORRUPT, key, faulty->rates.corrupt))
        damage(buffer, size);
    return status;
}

static enum status get_text(const struct store *store, const char *key, size_t limit,
                            char **ret_text, size_t *ret_size, struct error *err)
{
    struct faulty *faulty = faulty_of(store);
    enum status status = befall(faulty, key, atomic_fetch_add(&faulty->reads, 1), err);
    if (status != STATUS_OK)
        return status;
    return store->inner->operations->get_text(store->inner, key, limit, ret_text, ret_size, err);
}

static void free_faulty(struct store *store)
{
    struct faulty *faulty = faulty_of(store);
    store->inner->operations->free(store->inner);
    free(faulty);
}

static const struct store_operations operations = {
    .get = get,
    .get_ranges = get_ranges,
    .get_suffix = get_suffix,
    .get_text = get_text,
    .free = free_faulty,
};

/* One "name=value"; false if it is none of ours. */
static bool take_setting(struct faulty *faulty, const char *setting)
{
    const struct {
        const char *name;
        double *value;
    } numbers[] = {
        {"error=", &faulty->rates.error},     {"short=", &faulty->rates.shorter},
        {"delay=", &faulty->rates.delay},     {"delay_ms=", &faulty->delay_ms},
        {"corrupt=", &faulty->rates.corrupt}, {"broken=", &faulty->rates.broken},
        {"hang_ms=", &faulty->hang_ms},       {"broken_reads=", &faulty->broken_reads},
    };
    char *end = NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(setting, numbers[i].name, length) != 0)
            continue;
        *numbers[i].value = strtod(setting + length, &end);
        return end != setting + length && *end == '\0';
    }
    if (strncmp(setting, "seed=", 5) == 0) {
        faulty->seed = strtoull(setting + 5, &end, 10);
        return end != setting + 5 && *end == '\0';
    }
    if (strncmp(setting, "hang=", 5) != 0)
        return false;
    snprintf(faulty->hang, sizeof faulty->hang, "%s", setting + 5);
    return true;
}

enum status faulty_wrap(struct store *inner, const char *spec, struct store **ret_store,
                        struct error *err)
{
    struct faulty *faulty = calloc(1, sizeof *faulty);
    char *copy = strdup(spec), *rest = NULL;
    enum status status = STATUS_OK;
    if (!faulty || !copy) {
        status = error_set(err, STATUS_NO_MEMORY, "no memory for a faulty store");
    } else {
        faulty->store = *inner; /* what is told of it is told of the inner one */
        faulty->store.operations = &operations;
        faulty->store.inner = inner;
    }
    for (char *setting = copy; status == STATUS_OK; setting = NULL) {
        setting = strtok_r(setting, ",", &rest);
        if (!setting)
            break;
        if (!take_setting(faulty, setting))
            status = error_set(err, STATUS_INVALID,
                               "PENSTOCK_FAULTS: '%s' is not a setting that faulty stores have",
                               setting);
    }
    free(copy);
    if (status != STATUS_OK) {
        inner->operations->free(inner);
        free(faulty);
        return status;
    }
    *ret_store = &faulty->store;
    return STATUS_OK;
}
