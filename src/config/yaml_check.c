/* See yaml_internal.h: bounds of a document, and keys that are given twice. An alias is as large as
 * what it stands for: a small file may mean gigabytes, or contain itself. */
#include "config/yaml_internal.h"

#include <stdlib.h>

enum {
    MOST_EXPANDED_BYTES = 4 << 20, /* of texts, and NODE_BYTES for each node */
    NODE_BYTES = 4,
    MOST_LEVELS = 32,
};

/* Bounds
 * ------------------------------------------------------------------------------------------- */

/* Takes what the node expands to from *left. False: that is too much, or too deep. */
static bool fits(struct yaml_reader *reader, int index, int level, size_t *left)
{
    const yaml_node_t *node = node_at(reader, index);
    size_t bytes = NODE_BYTES + (node->type == YAML_SCALAR_NODE ? node->data.scalar.length : 0);
    bool fitting = level < MOST_LEVELS && bytes <= *left;
    *left -= fitting ? bytes : 0;
    if (node->type == YAML_SEQUENCE_NODE)
        for (yaml_node_item_t *at = node->data.sequence.items.start;
             fitting && at < node->data.sequence.items.top; at++)
            fitting = fits(reader, *at, level + 1, left);
    if (node->type == YAML_MAPPING_NODE)
        for (yaml_node_pair_t *at = node->data.mapping.pairs.start;
             fitting && at < node->data.mapping.pairs.top; at++)
            fitting =
                fits(reader, at->key, level + 1, left) && fits(reader, at->value, level + 1, left);
    return fitting;
}

enum status yaml_check_size(struct yaml_reader *reader, struct error *err)
{
    size_t left = MOST_EXPANDED_BYTES;
    enum { ROOT = 1 }; /* libyaml counts nodes from 1 on */
    if (fits(reader, ROOT, 0, &left))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: with its aliases written out the configuration has more than %d MiB, or "
                     "more than %d levels: use fewer aliases",
                     reader->name, MOST_EXPANDED_BYTES >> 20, MOST_LEVELS);
}

/* Keys
 * ------------------------------------------------------------------------------------------- */

/* A key, and the index of its entry in the map: an alias of a key is the same node. */
struct map_key {
    const char *key;
    size_t index;
};

static int compare(const void *a, const void *b)
{
    const struct map_key *left = a, *right = b;
    int order = strcmp(left->key, right->key);
    return order ? order : (left->index > right->index) - (left->index < right->index);
}

/* The first key that stands in the map already; `none` if there is no such key. */
static size_t first_repeated(struct map_key *keys, size_t count, size_t none)
{
    size_t first = none;
    qsort(keys, count, sizeof *keys, compare);
    for (size_t i = 1; i < count; i++)
        if (strcmp(keys[i - 1].key, keys[i].key) == 0 && keys[i].index < first)
            first = keys[i].index;
    return first;
}

enum status yaml_check_keys(struct yaml_reader *reader, const yaml_node_t *map, const char *path,
                            struct error *err)
{
    const yaml_node_pair_t *pairs = map->data.mapping.pairs.start;
    size_t all = (size_t)(map->data.mapping.pairs.top - pairs), count = 0;
    struct map_key *keys = calloc(all + 1, sizeof *keys);
    if (!keys)
        return error_set(err, STATUS_NO_MEMORY, "%s: out of memory", reader->name);
    for (size_t i = 0; i < all; i++) {
        const char *key = scalar_text(node_at(reader, pairs[i].key));
        if (key)
            keys[count++] = (struct map_key){key, i};
    }
    size_t first = first_repeated(keys, count, all);
    free(keys);
    if (first == all)
        return STATUS_OK;
    const yaml_node_t *node = node_at(reader, pairs[first].key);
    return yaml_given_twice(reader, yaml_full_key(path, scalar_text(node)).text, node, err);
}
