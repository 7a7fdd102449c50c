/* See containers.h. */
#include "store/icechunk/containers.h"

#include <stdint.h>
#include <string.h>

/* FlexBuffers' types that are read here. */
enum { FLEX_STRING = 5, FLEX_MAP = 9 };

/* A value: what lies at `at` in items of `width` bytes, as `type` says. Of a map: its values. */
struct flex {
    const unsigned char *bytes;
    size_t size;
    uint64_t at;
    uint32_t width;
    int type; /* 0: absent, or not in the buffer */
};

static bool has(const struct flex *flex, uint64_t at, uint64_t bytes)
{
    return at <= flex->size && bytes <= flex->size - at;
}

/* A number of `width` bytes; false: it lies outside. */
static bool read_number(const struct flex *flex, uint64_t at, uint32_t width, uint64_t *ret_number)
{
    *ret_number = 0;
    if (!has(flex, at, width))
        return false;
    for (uint32_t i = width; i-- > 0;)
        *ret_number = *ret_number << 8 | flex->bytes[at + i];
    return true;
}

/* The value of a packed type at `at`, of a parent with items of `parent_width` bytes. */
static struct flex make_value(const struct flex *parent, uint64_t at, uint32_t parent_width,
                              unsigned packed)
{
    struct flex value = {parent->bytes, parent->size, 0, 1u << (packed & 3), (int)(packed >> 2)};
    uint64_t back;
    bool leads = value.type == FLEX_STRING || value.type == FLEX_MAP;
    if (!leads || !read_number(parent, at, parent_width, &back) || back > at)
        return (struct flex){.bytes = parent->bytes, .size = parent->size};
    value.at = at - back;
    return value;
}

static struct flex read_root(const unsigned char *bytes, size_t size)
{
    struct flex whole = {bytes, size, 0, 0, 0};
    uint32_t width = size >= 3 ? bytes[size - 1] : 0;
    if (width == 0 || width > 8 || size < 2 + width)
        return whole;
    return make_value(&whole, size - 2 - width, width, bytes[size - 2]);
}

/* How many items a map has; 0 also of what is none. */
static uint64_t count_items(const struct flex *map)
{
    uint64_t count;
    if (map->type != FLEX_MAP || map->at < 3 * (uint64_t)map->width ||
        !read_number(map, map->at - map->width, map->width, &count) || count > map->size ||
        !has(map, map->at, count * map->width + count))
        return 0;
    return count;
}

static struct flex item_of(const struct flex *map, uint64_t count, uint64_t i)
{
    return make_value(map, map->at + i * map->width, map->width,
                      map->bytes[map->at + count * map->width + i]);
}

/* Whether key `i` of a map is `name`. */
static bool is_key(const struct flex *map, uint64_t i, const char *name)
{
    uint64_t back, width, keys = map->at - 3 * (uint64_t)map->width, at, length = strlen(name) + 1;
    if (!read_number(map, keys, map->width, &back) || back > keys ||
        !read_number(map, keys + map->width, map->width, &width) || width == 0 || width > 8)
        return false;
    at = keys - back + i * width;
    return read_number(map, at, (uint32_t)width, &back) && back <= at &&
           has(map, at - back, length) && memcmp(map->bytes + (at - back), name, length) == 0;
}

static struct flex find_item(const struct flex *map, const char *name)
{
    uint64_t count = count_items(map);
    for (uint64_t i = 0; i < count; i++)
        if (is_key(map, i, name))
            return item_of(map, count, i);
    return (struct flex){.bytes = map->bytes, .size = map->size};
}

static bool read_text(const struct flex *value, struct container_text *ret_text)
{
    uint64_t bytes;
    if (value->type != FLEX_STRING || value->at < value->width ||
        !read_number(value, value->at - value->width, value->width, &bytes) ||
        !has(value, value->at, bytes))
        return false;
    *ret_text = (struct container_text){(const char *)value->bytes + value->at, bytes};
    return true;
}

bool containers_find(const unsigned char *config, size_t size, const char *name, size_t name_bytes,
                     struct container_text *ret_prefix)
{
    struct flex root = read_root(config, size);
    struct flex all = find_item(&root, "virtual_chunk_containers");
    uint64_t count = count_items(&all);
    for (uint64_t i = 0; i < count; i++) {
        struct flex container = item_of(&all, count, i);
        struct flex own_name = find_item(&container, "name"),
                    prefix = find_item(&container, "url_prefix");
        struct container_text text;
        if (read_text(&own_name, &text) && text.bytes == name_bytes &&
            memcmp(text.text, name, name_bytes) == 0)
            return read_text(&prefix, ret_prefix);
    }
    return false;
}
