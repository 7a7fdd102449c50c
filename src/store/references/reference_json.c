/* See reference_json.h. The text is gone through twice: first for the parts of version 1, since
 * templates may come behind the references that use them. */
#include "store/references/reference_json.h"

#include "store/references/json_walk.h"
#include "store/references/reference_gen.h"
#include "store/references/reference_template.h"

#include <json-c/json.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What version 1 has; what is absent is empty. */
struct parts {
    bool is_flat; /* version 0: the whole text is `refs` */
    struct json_part refs, templates, gen, version;
};

static enum status find_parts(const char *text, size_t size, struct parts *ret_parts,
                              struct error *err)
{
    struct parts parts = {0};
    const struct {
        const char *key;
        struct json_part *part;
    } known[] = {{"refs", &parts.refs},
                 {"templates", &parts.templates},
                 {"gen", &parts.gen},
                 {"version", &parts.version}};
    struct json_walk walk;
    const char *key;
    enum status status = json_walk_begin(text, size, &walk, err);
    if (status != STATUS_OK)
        return status;
    for (;;) {
        struct json_part part;
        status = json_walk_next(&walk, &key, err);
        if (status != STATUS_OK || !key)
            break;
        struct json_part *wanted = &part;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (strcmp(key, known[i].key) == 0)
                wanted = known[i].part;
        status = json_walk_skip(&walk, wanted, err);
        if (status != STATUS_OK)
            break;
    }
    json_walk_done(&walk);
    parts.is_flat = !parts.version.text && !parts.refs.text;
    *ret_parts = parts;
    return status;
}

static enum status check_version(const struct parts *parts, struct error *err)
{
    struct json_part version = parts->version;
    while (version.size > 0 && strchr(" \t\r\n", version.text[version.size - 1]))
        version.size--;
    if (!version.text || (version.size == 1 && version.text[0] == '1'))
        return STATUS_OK;
    return error_set(err, STATUS_UNSUPPORTED,
                     "the references are of version %.*s: versions 0 and 1 are read",
                     (int)(version.size < 40 ? version.size : 40), version.text);
}

/* A part as a tree. NULL: there is none. */
static enum status parse_part(const struct json_part *part, const char *name, enum json_type type,
                              struct json_object **ret_tree, struct error *err)
{
    struct json_tokener *tokener;
    if (!part->text)
        return STATUS_OK;
    if (part->size > INT_MAX || !(tokener = json_tokener_new()))
        return error_set(err, STATUS_NO_MEMORY, "no memory for '%s'", name);
    struct json_object *tree = json_tokener_parse_ex(tokener, part->text, (int)part->size);
    json_tokener_free(tokener);
    if (!json_object_is_type(tree, type)) {
        json_object_put(tree);
        return error_set(err, STATUS_CORRUPT, "'%s' is no %s of JSON", name,
                         type == json_type_object ? "object" : "list");
    }
    *ret_tree = tree;
    return STATUS_OK;
}

/* Values
 * ---------------------------------------------------------------------------------------------- */

/* Texts are their bytes, or bytes as base64. */
static enum status add_base64(struct reference_table *table, const char *key, const char *text,
                              size_t size, struct error *err)
{
    enum { MOST_PADDING = 2 };
    size_t padding = 0;
    int got = -1;
    while (size > 0 && strchr("\r\n", text[size - 1]))
        size--;
    while (padding < MOST_PADDING && padding < size && text[size - 1 - padding] == '=')
        padding++;
    unsigned char *bytes = malloc(size / 4 * 3 + 1);
    if (!bytes)
        return error_set(err, STATUS_NO_MEMORY, "no memory for its value");
    if (size % 4 == 0 && size <= INT_MAX)
        got = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)size);
    enum status status =
        got < 0 || (size_t)got < padding
            ? error_set(err, STATUS_CORRUPT, "what is behind 'base64:' is no base64")
            : reference_table_add_value(table, key, bytes, (size_t)got - padding, err);
    free(bytes);
    return status;
}

static enum status add_text(struct reference_table *table, const char *key,
                            struct json_object *value, struct error *err)
{
    static const char base64[] = "base64:";
    const char *text = json_object_get_string(value);
    size_t size = (size_t)json_object_get_string_len(value), mark = strlen(base64);
    return strncmp(text, base64, mark) == 0
               ? add_base64(table, key, text + mark, size - mark, err)
               : reference_table_add_value(table, key, text, size, err);
}

/* A number of bytes. */
static bool take_number(struct json_object *value, uint64_t *ret_number)
{
    if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
        return false;
    *ret_number = json_object_get_uint64(value);
    return true;
}

static enum status add_location(struct reference_table *table, const char *key,
                                struct json_object *list, const struct template_names *names,
                                struct error *err)
{
    size_t count = json_object_array_length(list);
    struct json_object *url = json_object_array_get_idx(list, 0);
    uint64_t offset = 0, length = REFERENCE_WHOLE;
    char location[TEMPLATE_TEXT_BYTES];
    if ((count != 1 && count != 3) || !template_is_text(url) ||
        (count == 3 && (!take_number(json_object_array_get_idx(list, 1), &offset) ||
                        !take_number(json_object_array_get_idx(list, 2), &length))) ||
        (count == 3 && offset + length < offset))
        return error_set(err, STATUS_CORRUPT,
                         "it is neither [URL] nor [URL, OFFSET, LENGTH] with numbers of bytes");
    enum status status = template_render(json_object_get_string(url), names, location, err);
    return status == STATUS_OK ? reference_table_add(table, key, location, offset, length, err)
                               : status;
}

static enum status add_value(struct reference_table *table, const char *key,
                             struct json_object *value, const struct json_part *part,
                             const struct template_names *names, struct error *err)
{
    switch (json_object_get_type(value)) {
    case json_type_string:
        return add_text(table, key, value, err);
    case json_type_object: /* metadata, as it is written */
        return reference_table_add_value(table, key, part->text, part->size, err);
    case json_type_array:
        return add_location(table, key, value, names, err);
    default:
        return error_set(err, STATUS_CORRUPT, "it is neither a text, nor an object, nor a list");
    }
}

static enum status read_refs(const struct json_part *refs, const struct template_names *names,
                             struct reference_table *table, struct error *err)
{
    struct json_walk walk;
    const char *given;
    enum status status = json_walk_begin(refs->text, refs->size, &walk, err);
    if (status != STATUS_OK)
        return status;
    for (;;) {
        char key[REFERENCE_KEY_BYTES];
        struct json_object *value = NULL;
        struct json_part part;
        status = json_walk_next(&walk, &given, err);
        if (status != STATUS_OK || !given)
            break;
        status = reference_key(given, key, err);
        if (status == STATUS_OK)
            status = json_walk_value(&walk, &value, &part, err);
        if (status == STATUS_OK)
            status = add_value(table, key, value, &part, names, err);
        json_object_put(value);
        if (status != STATUS_OK) {
            status = error_prefix(err, status, "reference '%.200s': ", given);
            break;
        }
    }
    json_walk_done(&walk);
    return status;
}

static enum status read_parts(const struct parts *parts, struct reference_table *table,
                              struct error *err)
{
    struct template_names names = {0};
    struct json_object *gen = NULL;
    enum status status =
        parse_part(&parts->templates, "templates", json_type_object, &names.templates, err);
    if (status == STATUS_OK && parts->refs.text)
        status = read_refs(&parts->refs, &names, table, err);
    if (status == STATUS_OK)
        status = parse_part(&parts->gen, "gen", json_type_array, &gen, err);
    if (status == STATUS_OK && gen)
        status = reference_gen_read(gen, &names, table, err);
    json_object_put(gen);
    json_object_put(names.templates);
    return status;
}

/* As writers pack such files, and fsspec unpacks them. */
static enum status check_plain(const char *text, size_t size, struct error *err)
{
    static const struct {
        const char *start, *name;
    } packers[] = {{"\x1f\x8b", "gzip"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"BZh", "bzip2"}};
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i++) {
        size_t bytes = strlen(packers[i].start);
        if (size >= bytes && memcmp(text, packers[i].start, bytes) == 0)
            return error_set(err, STATUS_UNSUPPORTED, "it is packed by %s: unpack it",
                             packers[i].name);
    }
    return STATUS_OK;
}

enum status reference_json_read(const char *text, size_t size, struct reference_table *table,
                                struct error *err)
{
    const struct json_part whole = {text, size};
    const struct template_names none = {0};
    struct parts parts;
    enum status status = check_plain(text, size, err);
    if (status == STATUS_OK)
        status = find_parts(text, size, &parts, err);
    if (status == STATUS_OK)
        status = check_version(&parts, err);
    if (status == STATUS_OK)
        status =
            parts.is_flat ? read_refs(&whole, &none, table, err) : read_parts(&parts, table, err);
    return status == STATUS_OK ? reference_table_sort(table, err) : status;
}
