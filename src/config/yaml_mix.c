/* See yaml_internal.h: the sources of a mix, a list of maps:
 *
 *     mix:
 *       sources:
 *         - {config: a.yaml, weight: 0.7}
 *         - {config: {dataset: {uri: b.zarr}}, weight: 0.3}
 */
#include "config/yaml_internal.h"

#include <stdlib.h>

static enum status refuse_item(struct yaml_reader *reader, const yaml_node_t *node,
                               struct error *err)
{
    return at_node(reader, node,
                   error_set(err, STATUS_INVALID,
                             "mix.sources must be a list of maps such as {config: FILE, weight: "
                             "0.5}"),
                   err);
}

/* What a source's map has. */
struct source_map {
    yaml_node_t *config;
    const yaml_node_t *weight, *name;
};

static enum status take_key(struct yaml_reader *reader, struct source_map *map,
                            const yaml_node_t *key_node, yaml_node_t *value, struct error *err)
{
    const char *key = scalar_text(key_node);
    if (key && strcmp(key, "config") == 0)
        map->config = value;
    else if (key && strcmp(key, "weight") == 0)
        map->weight = value;
    else if (key && strcmp(key, "name") == 0)
        map->name = value;
    else
        return at_node(reader, key_node,
                       error_set(err, STATUS_INVALID,
                                 "mix.sources: unknown key '%.63s': a source has config, weight "
                                 "and name",
                                 key ? key : "?"),
                       err);
    return STATUS_OK;
}

static enum status take_map(struct yaml_reader *reader, const yaml_node_t *node,
                            struct source_map *ret_map, struct error *err)
{
    if (node->type != YAML_MAPPING_NODE)
        return refuse_item(reader, node, err);
    enum status status = yaml_check_keys(reader, node, NULL, err);
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top && status == STATUS_OK; pair++)
        status = take_key(reader, ret_map, node_at(reader, pair->key), node_at(reader, pair->value),
                          err);
    if (status != STATUS_OK)
        return status;
    if (!ret_map->config || (ret_map->weight && !scalar_text(ret_map->weight)) ||
        (ret_map->name && !scalar_text(ret_map->name)))
        return refuse_item(reader, node, err);
    return STATUS_OK;
}

/* A file's path, where it is relative to the folder of the file that names it; malloc'ed. */
static char *path_of(const struct yaml_reader *reader, const char *file)
{
    struct text path = {0};
    if (file[0] == '/')
        return strdup(file);
    text_append(&path, "%s/%s", reader->folder, file);
    return path.data;
}

static enum status read_source_file(struct yaml_reader *reader, const yaml_node_t *node,
                                    struct config *config, struct error *err)
{
    const char *file = scalar_text(node);
    if (!file || !*file || !reader->folder)
        return refuse_item(reader, node, err);
    char *path = path_of(reader, file);
    enum status status = path ? yaml_read_file(config, path, true, err)
                              : error_set(err, STATUS_NO_MEMORY, "out of memory");
    free(path);
    return status != STATUS_OK ? at_node(reader, node, status, err) : STATUS_OK;
}

/* A map of sections, as a file has them. */
static enum status read_source_map(struct yaml_reader *reader, yaml_node_t *node,
                                   struct config *config, struct error *err)
{
    struct yaml_reader inner = {.document = reader->document,
                                .name = reader->name,
                                .folder = reader->folder,
                                .config = config,
                                .is_source = true};
    return yaml_read_sections(&inner, node, err);
}

/* What messages call the source: its name, its file, or its dataset. */
static const char *name_of(const struct source_map *map)
{
    if (map->name)
        return scalar_text(map->name);
    return map->config->type == YAML_MAPPING_NODE ? "" : scalar_text(map->config);
}

static enum status read_source(struct yaml_reader *reader, const yaml_node_t *node,
                               struct error *err)
{
    struct source_map map = {0};
    struct config_source source;
    enum status status = take_map(reader, node, &map, err);
    if (status != STATUS_OK)
        return status;
    const char *name = name_of(&map);
    status =
        mix_new_source(name ? name : "", map.weight ? scalar_text(map.weight) : "", &source, err);
    if (status == STATUS_OK)
        status = mix_add(reader->config, source, err);
    if (status != STATUS_OK)
        return at_node(reader, node, status, err);
    if (map.config->type != YAML_MAPPING_NODE)
        return read_source_file(reader, map.config, source.config, err);
    status = read_source_map(reader, map.config, source.config, err);
    if (status != STATUS_OK || (name && *name))
        return status;
    struct config_source *added = &reader->config->sources[reader->config->source_count - 1];
    char *uri = strdup(source.config->uri);
    if (!uri)
        return error_set(err, STATUS_NO_MEMORY, "mix.sources: out of memory");
    free(added->name);
    added->name = uri;
    return STATUS_OK;
}

enum status yaml_read_sources(struct yaml_reader *reader, const yaml_node_t *list,
                              struct error *err)
{
    enum status status = STATUS_OK;
    if (list->type != YAML_SEQUENCE_NODE)
        return refuse_item(reader, list, err);
    mix_clear(reader->config);
    yaml_node_item_t *at = list->data.sequence.items.start;
    for (; at < list->data.sequence.items.top && status == STATUS_OK; at++)
        status = read_source(reader, node_at(reader, *at), err);
    if (status != STATUS_OK)
        return status;
    status = mix_settle(reader->config, err);
    return status != STATUS_OK ? at_node(reader, list, status, err) : STATUS_OK;
}
