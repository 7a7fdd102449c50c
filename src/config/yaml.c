/* See config.h: reading a YAML file into a configuration.
 *
 * The file is two levels of maps, section and key. Maps under a key are keys joined by '_': `order:
 * {window: {rows: 3}}` is order.window_rows. Under dataset.fields come names and properties.
 * libyaml makes nodes with line numbers; a node that does not fit is an error at its line. Each
 * message starts "run.yaml:7: ".
 */
#include "config/config.h"

#include "config/yaml_internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { CONFIG_MAX_BYTES = 1 << 20 };

/* Calls `visit` for every entry of a map; `path` names the map in messages. */
typedef enum status entry_function(struct yaml_reader *reader, const char *path, const char *key,
                                   const yaml_node_t *key_node, yaml_node_t *value,
                                   struct error *err);

static enum status each_entry(struct yaml_reader *reader, yaml_node_t *map, const char *path,
                              entry_function *visit, struct error *err)
{
    if (is_empty(map))
        return STATUS_OK;
    if (map->type != YAML_MAPPING_NODE)
        return at_node(reader, map,
                       error_set(err, STATUS_INVALID, "%s must be a map of keys to values",
                                 *path ? path : "the file"),
                       err);
    bool of_names = strcmp(path, "dataset.fields") == 0 || strcmp(path, "dataset.cuts") == 0;
    enum status status = yaml_check_keys(reader, map, of_names ? NULL : path, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        yaml_node_t *key_node = node_at(reader, pair->key);
        const char *key = scalar_text(key_node);
        if (!key)
            return at_node(reader, key_node,
                           error_set(err, STATUS_INVALID, "%s%sa key must be plain text", path,
                                     *path ? ": " : ""),
                           err);
        status = visit(reader, path, key, key_node, node_at(reader, pair->value), err);
    }
    return status;
}

/* Of a URI that is relative to the file's folder, puts the folder in front; returns what goes
 * behind. An Icechunk repository in a folder, and references in a file, have a scheme and a path.
 */
static const char *put_folder(const struct yaml_reader *reader, const char *uri, struct text *path)
{
    static const char *const schemes[] = {"icechunk://", "reference://"};
    size_t scheme = 0;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strncmp(uri, schemes[i], strlen(schemes[i])) == 0)
            scheme = strlen(schemes[i]);
    const char *rest = uri + scheme;
    if (!reader->folder || !*rest || rest[0] == '/' || strstr(rest, "://") ||
        strncasecmp(rest, "file:", 5) == 0)
        return uri;
    text_append(path, "%.*s%s/", (int)scheme, uri, reader->folder);
    return rest;
}

/* A value or a list as text: "[a,b]" of a list. False: it is neither. */
static bool node_text(struct yaml_reader *reader, const yaml_node_t *node, struct text *ret_text)
{
    struct text list = {0};
    bool is_text = node->type == YAML_SEQUENCE_NODE;
    if (!is_text) {
        const char *text = scalar_text(node);
        text_append(ret_text, "%s", text ? text : "");
        return text != NULL;
    }
    yaml_node_item_t *at = node->data.sequence.items.start;
    for (; at < node->data.sequence.items.top && is_text; at++) {
        const char *item = scalar_text(node_at(reader, *at));
        is_text = item && *item;
        text_list_put(&list, is_text ? item : "");
    }
    text_append(ret_text, "[%s]", list.data ? list.data : "");
    text_done(&list);
    return is_text;
}

/* Whether the value of a field's property begins with a store: STORE, or STORE::ARRAY. */
static bool names_store(const char *property, const char *value)
{
    static const char *const may[] = {"mean", "std", "scale", "offset"};
    bool names = strcmp(property, "stats") == 0 || strcmp(property, "store") == 0;
    for (size_t i = 0; i < sizeof may / sizeof may[0]; i++)
        names = names || (strcmp(property, may[i]) == 0 && strstr(value, "::"));
    return names;
}

/* The file of a list, "@panel.txt"; NULL: the value is none. */
static const char *listed_file(const char *property, const char *value)
{
    return strncmp(property, "slice.", 6) == 0 && value[0] == '@' ? value + 1 : NULL;
}

/* `key` is the property, or with a dot between a key of its map. */
static enum status read_property(struct yaml_reader *reader, const char *name, const char *key,
                                 const yaml_node_t *key_node, const yaml_node_t *value,
                                 bool takes_list, struct error *err)
{
    struct text text = {0};
    const char *scalar = scalar_text(value);
    enum status status;
    const char *file = scalar ? listed_file(key, scalar) : NULL;
    if (file)
        text_append(&text, "@");
    const char *path = file ? file : scalar && names_store(key, scalar) ? scalar : NULL;
    if (path)
        text_append(&text, "%s", put_folder(reader, path, &text));
    if ((path || node_text(reader, value, &text)) &&
        (takes_list || value->type != YAML_SEQUENCE_NODE)) {
        status =
            config_put_field_property(reader->config, name, key, text.data ? text.data : "", err);
        status = status != STATUS_OK ? at_node(reader, key_node, status, err) : STATUS_OK;
    } else {
        status = at_node(reader, value,
                         error_set(err, STATUS_INVALID,
                                   "dataset.fields.%.63s.%.63s must be a single value%s", name, key,
                                   takes_list ? " or a list" : ""),
                         err);
    }
    text_done(&text);
    return status;
}

/* A property that is a map: {AXIS: value, ...}. */
static enum status read_property_map(struct yaml_reader *reader, const char *name,
                                     const char *property, const yaml_node_t *map,
                                     struct error *err)
{
    if (map->type != YAML_MAPPING_NODE)
        return at_node(
            reader, map,
            error_set(err, STATUS_INVALID, "dataset.fields.%.63s.%s must be a map", name, property),
            err);
    enum status status = yaml_check_keys(reader, map, NULL, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        const yaml_node_t *key_node = node_at(reader, pair->key);
        const char *text = scalar_text(key_node);
        char key[2 * OPTION_KEY_BYTES];
        if (!text || !*text || strlen(text) >= OPTION_KEY_BYTES)
            return at_node(reader, key_node,
                           error_set(err, STATUS_INVALID,
                                     "dataset.fields.%.63s.%s: a key must be plain text, shorter "
                                     "than %d bytes",
                                     name, property, OPTION_KEY_BYTES),
                           err);
        snprintf(key, sizeof key, "%s.%s", property, text);
        status =
            read_property(reader, name, key, key_node, node_at(reader, pair->value), true, err);
    }
    return status;
}

/* A field's own map: {array: A, index: I, cast: float16, ...}. */
static enum status read_field_properties(struct yaml_reader *reader, const char *name,
                                         const yaml_node_t *map, struct error *err)
{
    enum status status = yaml_check_keys(reader, map, NULL, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        const yaml_node_t *key_node = node_at(reader, pair->key);
        const yaml_node_t *value = node_at(reader, pair->value);
        const char *key = scalar_text(key_node);
        if (!key)
            return at_node(reader, key_node,
                           error_set(err, STATUS_INVALID,
                                     "dataset.fields.%.63s: a key must be plain text", name),
                           err);
        enum property_kind kind = config_property_kind(key);
        bool may_be_map = kind == PROPERTY_MAP_OR_VALUE || kind == PROPERTY_MAP_OR_LIST;
        bool takes_list = kind == PROPERTY_LIST || kind == PROPERTY_MAP_OR_LIST;
        bool is_map = kind == PROPERTY_MAP || (may_be_map && value->type == YAML_MAPPING_NODE);
        status = is_map ? STATUS_OK : config_check_property(name, key, err);
        if (status != STATUS_OK)
            return at_node(reader, key_node, status, err);
        if (is_map)
            status = read_property_map(reader, name, key, value, err);
        else
            status = read_property(reader, name, key, key_node, value, takes_list, err);
    }
    return status;
}

static enum status read_field(struct yaml_reader *reader, const char *path, const char *name,
                              const yaml_node_t *key_node, yaml_node_t *value, struct error *err)
{
    bool is_map = value->type == YAML_MAPPING_NODE;
    const char *array = is_map ? name : scalar_text(value);
    if (!array)
        return at_node(reader, key_node,
                       error_set(err, STATUS_INVALID,
                                 "%s.%.63s must be the name of an array, or a map such as {array: "
                                 "A, index: I, cast: float16}",
                                 path, name),
                       err);
    enum status status = config_put_field(reader->config, name, array, NULL, err);
    if (status != STATUS_OK)
        return at_node(reader, key_node, status, err);
    return is_map ? read_field_properties(reader, name, value, err) : STATUS_OK;
}

static enum status read_fields(struct yaml_reader *reader, const yaml_node_t *key_node,
                               yaml_node_t *value, struct error *err)
{
    if (reader->seen_fields)
        return yaml_given_twice(reader, "dataset.fields", key_node, err);
    reader->seen_fields = true;
    return each_entry(reader, value, "dataset.fields", read_field, err);
}

/* A cut: {over: cp, order: zigzag}. */
static enum status read_cut(struct yaml_reader *reader, const char *path, const char *name,
                            const yaml_node_t *key_node, yaml_node_t *map, struct error *err)
{
    if (map->type != YAML_MAPPING_NODE)
        return at_node(
            reader, key_node,
            error_set(err, STATUS_INVALID, "%s.%.63s must be a map such as {over: cp}", path, name),
            err);
    enum status status = yaml_check_keys(reader, map, NULL, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        const yaml_node_t *at = node_at(reader, pair->key);
        const char *key = scalar_text(at);
        struct text text = {0};
        if (key && node_text(reader, node_at(reader, pair->value), &text))
            status = config_put_cut(reader->config, name, key, text.data ? text.data : "", err);
        else
            status =
                error_set(err, STATUS_INVALID, "%s.%.63s: %.63s must be a single value or a list",
                          path, name, key ? key : "a key");
        text_done(&text);
        if (status != STATUS_OK)
            status = at_node(reader, at, status, err);
    }
    return status;
}

/* Adds an item, of dataset.uri relative to the file's folder. */
static void put_item(const struct yaml_reader *reader, bool is_uri, const char *item,
                     struct text *list)
{
    struct text path = {0};
    text_append(&path, "%s", is_uri ? put_folder(reader, item, &path) : item);
    text_list_put(list, path.data ? path.data : item);
    text_done(&path);
}

/* An item of a list: text, or of axes a map of one, {tp: 2}, as "tp:2". False: it is neither. */
static bool item_text(struct yaml_reader *reader, const struct option *option,
                      const yaml_node_t *node, struct text *ret_item)
{
    const char *text = scalar_text(node), *size = NULL;
    const yaml_node_pair_t *pair = NULL;
    bool is_axis = strcmp(option->key, "delivery.mesh") == 0 && node->type == YAML_MAPPING_NODE;
    if (is_axis && node->data.mapping.pairs.top - node->data.mapping.pairs.start == 1)
        pair = node->data.mapping.pairs.start;
    if (pair) {
        text = scalar_text(node_at(reader, pair->key));
        size = scalar_text(node_at(reader, pair->value));
    }
    if (!text || !*text || (pair && !size))
        return false;
    text_append(ret_item, "%s%s%s", text, size ? ":" : "", size ? size : "");
    return true;
}

/* A list: a YAML sequence, or a scalar with commas between the items. */
static enum status read_list(struct yaml_reader *reader, const struct option *option,
                             const yaml_node_t *value, struct error *err)
{
    bool is_uri = strcmp(option->key, "dataset.uri") == 0;
    const char *text = scalar_text(value);
    struct text list = {0}, item = {0};
    enum status status = STATUS_OK;
    while (text_list_take(&text, &item))
        put_item(reader, is_uri, item.data, &list);
    text_done(&item);
    if (value->type == YAML_SEQUENCE_NODE) {
        yaml_node_item_t *at = value->data.sequence.items.start;
        for (; at < value->data.sequence.items.top && status == STATUS_OK; at++) {
            struct text one = {0};
            if (item_text(reader, option, node_at(reader, *at), &one))
                put_item(reader, is_uri, one.data, &list);
            else
                status = error_set(err, STATUS_INVALID, "%s: an item of the list is no text",
                                   option->key);
            text_done(&one);
        }
    } else if (!scalar_text(value)) {
        status = error_set(err, STATUS_INVALID, "%s must be a single value or a list", option->key);
    }
    if (status == STATUS_OK)
        status = option_store(reader->config, option, list.data ? list.data : "", err);
    text_done(&list);
    return status != STATUS_OK ? at_node(reader, value, status, err) : STATUS_OK;
}

/* {train: 0.9, val: 0.1} is "train:0.9,val:0.1". */
static enum status read_parts(struct yaml_reader *reader, const struct option *option,
                              const yaml_node_t *map, struct error *err)
{
    struct text list = {0}, item = {0};
    enum status status = yaml_check_keys(reader, map, NULL, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    if (status != STATUS_OK)
        return status;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        const char *name = scalar_text(node_at(reader, pair->key));
        const char *share = scalar_text(node_at(reader, pair->value));
        if (!name || !share) {
            status =
                error_set(err, STATUS_INVALID, "%s must be a map of names to shares", option->key);
            break;
        }
        text_append(&item, "%s:%s", name, share);
        text_list_put(&list, item.data);
        text_done(&item);
    }
    if (status == STATUS_OK)
        status = option_store(reader->config, option, list.data ? list.data : "", err);
    text_done(&list);
    return status != STATUS_OK ? at_node(reader, map, status, err) : STATUS_OK;
}

static bool says_none(const yaml_node_t *node)
{
    const char *text = scalar_text(node);
    return text && strcmp(text, "none") == 0;
}

static enum status read_option(struct yaml_reader *reader, const char *path, const char *name,
                               const yaml_node_t *key_node, yaml_node_t *value, struct error *err);

/* A mistake: the key, or the first key in its map, which tells more. */
static enum status refuse_key(struct yaml_reader *reader, const char *key,
                              const yaml_node_t *key_node, const yaml_node_t *value,
                              struct error *err)
{
    const char *first = NULL;
    if (value->type == YAML_MAPPING_NODE && !option_nearest(key) &&
        value->data.mapping.pairs.start < value->data.mapping.pairs.top)
        first = scalar_text(node_at(reader, value->data.mapping.pairs.start->key));
    return at_node(reader, key_node,
                   option_unknown(first ? yaml_full_key(key, first).text : key, err), err);
}

/* A key that is no option: a map whose keys go on, "none" or nothing instead, or a mistake. */
static enum status read_nested(struct yaml_reader *reader, const char *key,
                               const yaml_node_t *key_node, yaml_node_t *value, struct error *err)
{
    if (!option_begins(key))
        return refuse_key(reader, key, key_node, value, err);
    if (is_empty(value) || says_none(value))
        return STATUS_OK;
    if (value->type == YAML_MAPPING_NODE)
        return each_entry(reader, value, key, read_option, err);
    return at_node(
        reader, value,
        error_set(err, STATUS_INVALID, "%s must be a map of keys to values, or none", key), err);
}

/* `path` is a section, or a key that goes on. */
static enum status read_option(struct yaml_reader *reader, const char *path, const char *name,
                               const yaml_node_t *key_node, yaml_node_t *value, struct error *err)
{
    const struct yaml_full_key full = yaml_full_key(path, name);
    const char *key = full.text;
    if (strcmp(key, "dataset.fields") == 0)
        return read_fields(reader, key_node, value, err);
    if (strcmp(key, "dataset.cuts") == 0)
        return each_entry(reader, value, key, read_cut, err);
    if (strcmp(key, "mix.sources") == 0)
        return yaml_read_sources(reader, value, err);
    const struct option *option = option_find(key);
    if (!option)
        return read_nested(reader, key, key_node, value, err);
    if (reader->seen[option - options])
        return yaml_given_twice(reader, key, key_node, err);
    reader->seen[option - options] = true;
    if (value->type == YAML_MAPPING_NODE &&
        (option->type == OPTION_SHARES || strcmp(key, "delivery.mesh") == 0))
        return read_parts(reader, option, value, err);
    if (option->type == OPTION_LIST)
        return read_list(reader, option, value, err);
    if (value->type == YAML_SEQUENCE_NODE && strcmp(key, "mix.schedule") == 0)
        return yaml_read_schedule(reader, option, value, err);
    const char *text = scalar_text(value);
    if (!text)
        return at_node(reader, value,
                       error_set(err, STATUS_INVALID, "%s must be a single value", key), err);
    enum status status = option_store(reader->config, option, text, err);
    return status != STATUS_OK ? at_node(reader, value, status, err) : STATUS_OK;
}

static enum status read_section(struct yaml_reader *reader, const char *path, const char *section,
                                const yaml_node_t *key_node, yaml_node_t *value, struct error *err)
{
    (void)path;
    if (!option_section_exists(section))
        return at_node(reader, key_node, option_unknown(section, err), err);
    if (reader->is_source && strcmp(section, "mix") == 0)
        return at_node(reader, key_node, mix_refuse_nested(err), err);
    return each_entry(reader, value, section, read_option, err);
}

enum status yaml_read_sections(struct yaml_reader *reader, yaml_node_t *map, struct error *err)
{
    return each_entry(reader, map, "", read_section, err);
}

static enum status syntax_error(const yaml_parser_t *parser, const char *name, struct error *err)
{
    return error_set(err, STATUS_INVALID, "%s:%zu: not YAML: %s", name,
                     parser->problem_mark.line + 1,
                     parser->problem ? parser->problem : "out of memory");
}

/* Nothing may follow the first document. */
static enum status check_end(yaml_parser_t *parser, const char *name, struct error *err)
{
    yaml_document_t next;
    if (!yaml_parser_load(parser, &next))
        return syntax_error(parser, name, err);
    const yaml_node_t *root = yaml_document_get_root_node(&next);
    size_t line = root ? root->start_mark.line : 0;
    yaml_document_delete(&next);
    if (!root)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%s:%zu: a second YAML document: there must be one", name,
                     line + 1);
}

static enum status read_document(yaml_parser_t *parser, struct yaml_reader *reader,
                                 struct error *err)
{
    if (!yaml_parser_load(parser, &reader->document))
        return syntax_error(parser, reader->name, err);
    yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    enum status status = STATUS_OK;
    if (root) {
        status = check_end(parser, reader->name, err);
        if (status == STATUS_OK)
            status = yaml_check_size(reader, err);
        if (status == STATUS_OK)
            status = yaml_read_sections(reader, root, err);
    }
    yaml_document_delete(&reader->document);
    return status;
}

static enum status read_yaml(struct yaml_reader *reader, const char *text, size_t size,
                             struct error *err)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, STATUS_NO_MEMORY, "%s: out of memory", reader->name);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    enum status status = read_document(&parser, reader, err);
    yaml_parser_delete(&parser);
    return status;
}

enum status config_read_text(struct config *config, const char *text, size_t size, const char *name,
                             const char *folder, struct error *err)
{
    struct yaml_reader reader = {.name = name, .folder = folder, .config = config};
    return read_yaml(&reader, text, size, err);
}

/* The whole file; *ret_text is malloc'ed. */
static enum status read_whole(FILE *file, const char *path, char **ret_text, size_t *ret_size,
                              struct error *err)
{
    char *text = malloc(CONFIG_MAX_BYTES + 1);
    if (!text)
        return error_set(err, STATUS_NO_MEMORY, "%s: out of memory", path);
    size_t size = fread(text, 1, CONFIG_MAX_BYTES + 1, file);
    enum status status = STATUS_OK;
    if (ferror(file))
        status = error_set_errno(err, STATUS_IO, "read '%s'", path);
    else if (size > CONFIG_MAX_BYTES)
        status = error_set(err, STATUS_INVALID, "%s: a configuration has at most 1 MiB", path);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    *ret_size = size;
    return STATUS_OK;
}

/* A name of an open file: another process has another file of this name, and the file's folder is
 * not the name's. */
static bool is_descriptor(const char *path)
{
    return strcmp(path, "/dev/stdin") == 0 || fnmatch("/dev/fd/*", path, FNM_PATHNAME) == 0 ||
           fnmatch("/proc/*/fd/*", path, FNM_PATHNAME) == 0;
}

bool config_file_is_stream(const char *path)
{
    struct stat stat_of;
    return is_descriptor(path) ||
           (stat(path, &stat_of) == 0 && !S_ISREG(stat_of.st_mode) && !S_ISDIR(stat_of.st_mode));
}

/* The folder of a path, malloc'ed: "a" of "a/b", "." of "b" and of what is in no folder, "/" of
 * "/b". */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || config_file_is_stream(path))
        return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

enum status yaml_read_file(struct config *config, const char *path, bool is_source,
                           struct error *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set_errno(
            err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "open configuration '%s'%s", path,
            config_file_is_stream(path) ? " (a stream is there for one process: write it to a file)"
                                        : "");
    char *text = NULL, *folder = folder_of(path);
    size_t size = 0;
    enum status status = read_whole(file, path, &text, &size, err);
    if (status == STATUS_OK && !folder)
        status = error_set(err, STATUS_NO_MEMORY, "%s: out of memory", path);
    struct yaml_reader reader = {
        .name = path, .folder = folder, .config = config, .is_source = is_source};
    if (status == STATUS_OK)
        status = read_yaml(&reader, text, size, err);
    free(folder);
    free(text);
    fclose(file);
    return status;
}

enum status config_read_file(struct config *config, const char *path, struct error *err)
{
    return yaml_read_file(config, path, false, err);
}
