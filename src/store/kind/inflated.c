/* See inflated.h. Values are large and few, so they are searched one after another, under one
 * mutex, which nobody holds while a value is made. Where only whole values are read, there is none
 * to be searched. */
#include "store/kind/inflated.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/size.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { MOST_VALUES = 1024 };

struct value {
    const void *of;        /* NULL: the place is free */
    unsigned char *memory; /* NULL: being made */
    uint64_t bytes;        /* of the mapping */
    uint64_t used;         /* when, as inflated.now counts */
    uint32_t pins;
};

struct inflated {
    pthread_mutex_t mutex;
    pthread_cond_t changed;    /* a value was made or unpinned, or memory was given back */
    uint32_t holders, waiting; /* threads that wait for `changed` */
    size_t end;                /* places from here on are free */
    uint64_t reserved_bytes, taken_bytes, now;
    struct value values[MOST_VALUES];
};

struct inflated *inflated_new(void)
{
    struct inflated *inflated = calloc(1, sizeof *inflated);
    if (!inflated)
        return NULL;
    pthread_mutex_init(&inflated->mutex, NULL);
    pthread_cond_init(&inflated->changed, NULL);
    inflated->holders = 1;
    return inflated;
}

static void clear_value(struct inflated *inflated, struct value *value)
{
    *value = (struct value){0};
    while (inflated->end > 0 && !inflated->values[inflated->end - 1].of)
        inflated->end--;
}

static void drop(struct inflated *inflated, struct value *value)
{
    memory_unmap(value->memory, value->bytes);
    inflated->taken_bytes -= value->bytes;
    clear_value(inflated, value);
}

void inflated_free(struct inflated *inflated)
{
    if (!inflated || --inflated->holders > 0)
        return;
    while (inflated->end > 0)
        drop(inflated, &inflated->values[inflated->end - 1]);
    pthread_cond_destroy(&inflated->changed);
    pthread_mutex_destroy(&inflated->mutex);
    free(inflated);
}

void inflated_join(struct inflated **own, struct inflated *with)
{
    if (*own == with)
        return;
    with->holders++; /* stores are opened by one thread */
    with->reserved_bytes = max_u64(with->reserved_bytes, (*own)->reserved_bytes);
    inflated_free(*own);
    *own = with;
}

static struct value *find(struct inflated *inflated, const void *of)
{
    for (size_t i = 0; i < inflated->end; i++)
        if (inflated->values[i].of == of)
            return &inflated->values[i];
    return NULL;
}

static struct value *find_free(struct inflated *inflated)
{
    struct value *value = find(inflated, NULL);
    return value || inflated->end == MOST_VALUES ? value : &inflated->values[inflated->end];
}

/* The value that was unused for longest; NULL: all are in use. */
static struct value *find_oldest(struct inflated *inflated)
{
    struct value *oldest = NULL;
    for (size_t i = 0; i < inflated->end; i++) {
        struct value *value = &inflated->values[i];
        if (value->of && value->pins == 0 && (!oldest || value->used < oldest->used))
            oldest = value;
    }
    return oldest;
}

/* Drops old values until there is room for `bytes` more, and a free place. False: what is in use
 * has to end first. */
static bool make_room(struct inflated *inflated, uint64_t bytes)
{
    struct value *oldest;
    for (;;) {
        bool fits = inflated->taken_bytes == 0 ||
                    (inflated->taken_bytes <= inflated->reserved_bytes &&
                     bytes <= inflated->reserved_bytes - inflated->taken_bytes);
        if (fits && find_free(inflated))
            return true;
        if (!(oldest = find_oldest(inflated)))
            return false;
        drop(inflated, oldest);
    }
}

static void await_change(struct inflated *inflated)
{
    inflated->waiting++;
    pthread_cond_wait(&inflated->changed, &inflated->mutex);
    inflated->waiting--;
}

/* Under the mutex, as all that follows. */
static void give_back(struct inflated *inflated, uint64_t bytes)
{
    inflated->taken_bytes -= bytes;
    while (inflated->taken_bytes > inflated->reserved_bytes) {
        struct value *oldest = find_oldest(inflated);
        if (!oldest)
            break;
        drop(inflated, oldest);
    }
    if (inflated->waiting > 0)
        pthread_cond_broadcast(&inflated->changed);
}

void inflated_reserve(struct inflated *inflated, int64_t bytes)
{
    pthread_mutex_lock(&inflated->mutex);
    inflated->reserved_bytes += (uint64_t)bytes;
    give_back(inflated, 0);
    pthread_mutex_unlock(&inflated->mutex);
}

/* Finds the value, or takes a place and `bytes` for a value that is to be made, which is pinned:
 * *ret_make. */
static struct value *claim(struct inflated *inflated, const void *of, uint64_t bytes, uint64_t more,
                           bool *ret_make)
{
    for (;;) {
        struct value *value = find(inflated, of);
        *ret_make = false;
        if (value && value->memory)
            return value;
        if (!value && make_room(inflated, bytes + more)) {
            inflated->taken_bytes += bytes + more;
            value = find_free(inflated);
            assert(value); /* there is room */
            inflated->end = max_u64(inflated->end, (uint64_t)(value - inflated->values) + 1);
            *value = (struct value){.of = of, .bytes = bytes};
            *ret_make = true;
            return value;
        }
        await_change(inflated);
    }
}

static enum status make_value(uint64_t bytes, inflated_make *make, void *context, void **ret_memory,
                              struct error *err)
{
    enum status status = memory_map(bytes, "an inflated value", ret_memory, err);
    if (status != STATUS_OK)
        return status;
    status = make(context, *ret_memory, err);
    if (status != STATUS_OK)
        memory_unmap(*ret_memory, bytes);
    return status;
}

enum status inflated_pin(struct inflated *inflated, const void *of, uint64_t bytes, uint64_t more,
                         inflated_make *make, void *context, const unsigned char **ret_value,
                         struct error *err)
{
    enum status status = STATUS_OK;
    void *memory = NULL;
    bool is_new;
    bytes = size_round_up(bytes ? bytes : 1, MEMORY_PAGE_BYTES);
    pthread_mutex_lock(&inflated->mutex);
    struct value *value = claim(inflated, of, bytes, more, &is_new);
    value->pins++;
    if (is_new) {
        pthread_mutex_unlock(&inflated->mutex);
        status = make_value(bytes, make, context, &memory, err);
        pthread_mutex_lock(&inflated->mutex);
        value->memory = memory;
        if (status != STATUS_OK) /* who waits tries for itself */
            clear_value(inflated, value);
        give_back(inflated, more + (status != STATUS_OK ? bytes : 0));
    }
    if (status == STATUS_OK) {
        value->used = ++inflated->now;
        *ret_value = value->memory;
    }
    pthread_mutex_unlock(&inflated->mutex);
    return status;
}

const unsigned char *inflated_find(struct inflated *inflated, const void *of)
{
    pthread_mutex_lock(&inflated->mutex);
    struct value *value = find(inflated, of);
    const unsigned char *memory = value ? value->memory : NULL;
    if (memory) {
        value->pins++;
        value->used = ++inflated->now;
    }
    pthread_mutex_unlock(&inflated->mutex);
    return memory;
}

const unsigned char *inflated_find_or_take(struct inflated *inflated, const void *of,
                                           uint64_t bytes)
{
    struct value *value;
    pthread_mutex_lock(&inflated->mutex);
    while (!(value = find(inflated, of)) || !value->memory) {
        if (make_room(inflated, bytes)) {
            inflated->taken_bytes += bytes;
            value = NULL;
            break;
        }
        await_change(inflated);
    }
    const unsigned char *memory = value ? value->memory : NULL;
    if (value) {
        value->pins++;
        value->used = ++inflated->now;
    }
    pthread_mutex_unlock(&inflated->mutex);
    return memory;
}

void inflated_unpin(struct inflated *inflated, const void *of)
{
    pthread_mutex_lock(&inflated->mutex);
    struct value *value = find(inflated, of);
    assert(value && value->pins > 0);
    value->pins--;
    give_back(inflated, 0);
    pthread_mutex_unlock(&inflated->mutex);
}

void inflated_give_back(struct inflated *inflated, uint64_t bytes)
{
    pthread_mutex_lock(&inflated->mutex);
    give_back(inflated, bytes);
    pthread_mutex_unlock(&inflated->mutex);
}
