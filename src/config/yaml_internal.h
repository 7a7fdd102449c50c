/* Reading YAML, inside src/config: what yaml.c (the file, its sections and keys), yaml_check.c
 * (bounds, and keys given twice), yaml_mix.c (the sources of a mix) and yaml_schedule.c (their
 * weights by step) share. A reader belongs to
 * one document and one thread. */
#ifndef PENSTOCK_CONFIG_YAML_INTERNAL_H
#define PENSTOCK_CONFIG_YAML_INTERNAL_H

#include "config/options.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct yaml_reader {
    yaml_document_t document;
    const char *name;   /* of the file, for messages */
    const char *folder; /* for relative URIs and files; NULL leaves URIs, and no file is named */
    struct config *config;
    bool seen[OPTION_COUNT];
    bool seen_fields;
    bool is_source; /* the map that is read is a source of a mix */
};

/* Puts "name:line: " in front of the message. */
static inline enum status at_line(const struct yaml_reader *reader, size_t line, enum status status,
                                  struct error *err)
{
    return error_prefix(err, status, "%s:%zu: ", reader->name, line + 1);
}

static inline enum status at_node(const struct yaml_reader *reader, const yaml_node_t *node,
                                  enum status status, struct error *err)
{
    return at_line(reader, node->start_mark.line, status, err);
}

static inline yaml_node_t *node_at(struct yaml_reader *reader, int index)
{
    return yaml_document_get_node(&reader->document, index);
}

/* A scalar's text; NULL for other nodes and for text with a NUL in it. */
static inline const char *scalar_text(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL;
}

/* "key:" with nothing after it. */
static inline bool is_empty(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0 &&
           node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

static inline enum status yaml_given_twice(const struct yaml_reader *reader, const char *key,
                                           const yaml_node_t *key_node, struct error *err)
{
    return at_node(reader, key_node, error_set(err, STATUS_INVALID, "'%s' is given twice", key),
                   err);
}

/* The key of an entry of the map at `path`: "order" in the file (""), "order.seed" in a section,
 * "order.window_rows" in the map of a key; `name` alone without a path (NULL). Cut if it is longer
 * than any key. */
struct yaml_full_key {
    char text[2 * OPTION_KEY_BYTES];
};
static inline struct yaml_full_key yaml_full_key(const char *path, const char *name)
{
    struct yaml_full_key key;
    const char *joint = !path || !*path ? "" : strchr(path, '.') ? "_" : ".";
    snprintf(key.text, sizeof key.text, "%.63s%s%.63s", path ? path : "", joint, name);
    return key;
}

/* yaml_check.c: checks that the document, which has a root, is not too large or too deep with its
 * aliases written out. INVALID: it is. Linear in the file, and in the bound. */
MUST_USE enum status yaml_check_size(struct yaml_reader *reader, struct error *err);

/* yaml_check.c: checks that no key of a map is given twice, by an alias neither; `path` as above.
 * INVALID, NO_MEMORY. */
MUST_USE enum status yaml_check_keys(struct yaml_reader *reader, const yaml_node_t *map,
                                     const char *path, struct error *err);

/* yaml.c: reads a map of sections into reader->config. */
MUST_USE enum status yaml_read_sections(struct yaml_reader *reader, yaml_node_t *map,
                                        struct error *err);

/* yaml.c: as config_read_file(); with `is_source` a mix is refused. */
MUST_USE enum status yaml_read_file(struct config *config, const char *path, bool is_source,
                                    struct error *err);

/* yaml_schedule.c: reads mix.schedule, a list of maps, as text. */
MUST_USE enum status yaml_read_schedule(struct yaml_reader *reader, const struct option *option,
                                        const yaml_node_t *list, struct error *err);

/* yaml_mix.c: reads mix.sources, a list of maps. */
MUST_USE enum status yaml_read_sources(struct yaml_reader *reader, const yaml_node_t *list,
                                       struct error *err);

#endif
