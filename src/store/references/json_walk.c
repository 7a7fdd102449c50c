/* See json_walk.h. */
#include "store/references/json_walk.h"

#include "base/number.h"

#include <json-c/json.h>
#include <limits.h>
#include <string.h>

static enum status cut(const struct json_walk *walk, struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "the JSON ends within a value, at byte %zu: it was cut",
                     walk->size);
}

static enum status malformed(const struct json_walk *walk, const char *why, struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "byte %zu: this is not JSON: %s", walk->at, why);
}

static void skip_blanks(struct json_walk *walk)
{
    while (walk->at < walk->size && memchr(" \t\r\n", walk->text[walk->at], 4))
        walk->at++;
}

/* The next character that is no blank; -1 at the end. */
static int look(struct json_walk *walk)
{
    skip_blanks(walk);
    return walk->at < walk->size ? (unsigned char)walk->text[walk->at] : -1;
}

static enum status expect(struct json_walk *walk, char character, const char *why,
                          struct error *err)
{
    int next = look(walk);
    if (next == character) {
        walk->at++;
        return STATUS_OK;
    }
    return next < 0 ? cut(walk, err) : malformed(walk, why, err);
}

/* The value at the place, by json-c. */
static enum status read_value(struct json_walk *walk, struct json_object **ret_value,
                              struct error *err)
{
    skip_blanks(walk);
    size_t rest = min_u64(walk->size - walk->at, INT_MAX);
    json_tokener_reset(walk->tokener);
    struct json_object *value =
        json_tokener_parse_ex(walk->tokener, walk->text + walk->at, (int)rest);
    enum json_tokener_error problem = json_tokener_get_error(walk->tokener);
    if (problem == json_tokener_continue)
        return cut(walk, err);
    if (problem != json_tokener_success)
        return malformed(walk, json_tokener_error_desc(problem), err);
    walk->at += json_tokener_get_parse_end(walk->tokener);
    *ret_value = value;
    return STATUS_OK;
}

enum status json_walk_begin(const char *text, size_t size, struct json_walk *ret_walk,
                            struct error *err)
{
    struct json_walk walk = {.text = text, .size = size};
    enum status status = expect(&walk, '{', "an object of references begins with '{'", err);
    if (status != STATUS_OK)
        return status;
    walk.tokener = json_tokener_new();
    if (!walk.tokener)
        return error_set(err, STATUS_NO_MEMORY, "no memory to read JSON");
    *ret_walk = walk;
    return STATUS_OK;
}

void json_walk_done(struct json_walk *walk)
{
    if (walk->tokener)
        json_tokener_free(walk->tokener);
    json_object_put(walk->key);
    *walk = (struct json_walk){0};
}

static enum status end(struct json_walk *walk, struct error *err)
{
    walk->at++;
    return look(walk) < 0 ? STATUS_OK
                          : malformed(walk, "something is behind the object of references", err);
}

enum status json_walk_next(struct json_walk *walk, const char **ret_key, struct error *err)
{
    enum status status = STATUS_OK;
    json_object_put(walk->key);
    walk->key = NULL;
    *ret_key = NULL;
    if (look(walk) == '}')
        return end(walk, err);
    if (walk->has_begun)
        status = expect(walk, ',', "a ',' or '}' follows a value", err);
    walk->has_begun = true;
    if (status == STATUS_OK && look(walk) >= 0 && look(walk) != '"')
        status = malformed(walk, "a key is a text", err);
    if (status == STATUS_OK)
        status = read_value(walk, &walk->key, err);
    if (status != STATUS_OK)
        return status;
    const char *key = json_object_get_string(walk->key);
    if (strlen(key) != (size_t)json_object_get_string_len(walk->key))
        return malformed(walk, "a key has a NUL in it", err);
    *ret_key = key;
    return expect(walk, ':', "a ':' follows a key", err);
}

enum status json_walk_value(struct json_walk *walk, struct json_object **ret_value,
                            struct json_part *ret_part, struct error *err)
{
    skip_blanks(walk);
    size_t begin = walk->at;
    enum status status = read_value(walk, ret_value, err);
    *ret_part = (struct json_part){walk->text + begin, walk->at - begin};
    return status;
}

/* Behind the text whose quote is at the place. */
static void skip_text(struct json_walk *walk)
{
    for (walk->at++; walk->at < walk->size && walk->text[walk->at] != '"'; walk->at++)
        walk->at += walk->text[walk->at] == '\\';
    walk->at++;
}

enum status json_walk_skip(struct json_walk *walk, struct json_part *ret_part, struct error *err)
{
    size_t begin, depth = 0;
    skip_blanks(walk);
    for (begin = walk->at; walk->at < walk->size; walk->at++) {
        char next = walk->text[walk->at];
        if (next == '"') {
            skip_text(walk);
            walk->at--;
        } else if (next == '{' || next == '[')
            depth++;
        else if (depth == 0 && (next == ',' || next == '}'))
            break;
        else if ((next == '}' || next == ']') && depth > 0)
            depth--;
    }
    if (walk->at >= walk->size) {
        walk->at = walk->size;
        return cut(walk, err);
    }
    *ret_part = (struct json_part){walk->text + begin, walk->at - begin};
    return STATUS_OK;
}
