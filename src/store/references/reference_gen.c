/* See reference_gen.h. */
#include "store/references/reference_gen.h"

#include "base/number.h"
#include "store/kind/store_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status reference_key(const char *given, char ret_key[REFERENCE_KEY_BYTES], struct error *err)
{
    size_t bytes = strlen(given);
    bool ends = bytes > 0 && given[bytes - 1] == '/';
    int needed = snprintf(ret_key, REFERENCE_KEY_BYTES, "%s%s", given, ends ? "0" : "");
    if (needed < 0 || needed >= REFERENCE_KEY_BYTES)
        return error_set(err, STATUS_CORRUPT, "its key has more than %d bytes",
                         REFERENCE_KEY_BYTES - 1);
    return store_key_is_well_formed(ret_key)
               ? STATUS_OK
               : error_set(err, STATUS_CORRUPT,
                           "its key is not a relative path without empty, '.' and '..' parts");
}

/* A dimension: values in a list, or counted. */
struct dimension {
    struct json_object *list; /* borrowed; NULL: counted */
    int64_t start, step;
    uint64_t count;
};

struct gen {
    struct json_object *key, *url, *offset, *length; /* borrowed; the last two may be NULL */
    struct dimension dimensions[TEMPLATE_MOST_VARIABLES];
    struct template_variable *variables; /* owned; one for each dimension */
    size_t count;
};

/* Dimensions
 * ---------------------------------------------------------------------------------------------- */

static bool read_number(struct json_object *map, const char *name, int64_t preset,
                        int64_t *ret_number)
{
    struct json_object *value;
    *ret_number = preset;
    if (!json_object_object_get_ex(map, name, &value))
        return strcmp(name, "stop") != 0;
    *ret_number = json_object_get_int64(value);
    return json_object_is_type(value, json_type_int) && *ret_number > -(INT64_C(1) << 60) &&
           *ret_number < INT64_C(1) << 60;
}

/* As Python's range(). */
static bool read_range(struct json_object *map, struct dimension *dimension)
{
    int64_t stop;
    if (!json_object_is_type(map, json_type_object) ||
        !read_number(map, "start", 0, &dimension->start) || !read_number(map, "stop", 0, &stop) ||
        !read_number(map, "step", 1, &dimension->step) || dimension->step == 0)
        return false;
    int64_t span = dimension->step > 0 ? stop - dimension->start : dimension->start - stop;
    uint64_t step = (uint64_t)llabs(dimension->step);
    dimension->count = span > 0 ? ((uint64_t)span + step - 1) / step : 0;
    return true;
}

static bool read_dimension(struct json_object *given, struct dimension *dimension)
{
    if (!json_object_is_type(given, json_type_array))
        return read_range(given, dimension);
    dimension->list = given;
    dimension->count = json_object_array_length(given);
    for (size_t i = 0; i < dimension->count; i++) {
        struct json_object *item = json_object_array_get_idx(given, i);
        if (!json_object_is_type(item, json_type_int) && !template_is_text(item))
            return false;
        if (strlen(json_object_get_string(item)) >= TEMPLATE_TEXT_BYTES)
            return false;
    }
    return true;
}

static enum status read_dimensions(struct json_object *map, struct gen *gen, struct error *err)
{
    if (!json_object_is_type(map, json_type_object) || json_object_object_length(map) == 0 ||
        json_object_object_length(map) > TEMPLATE_MOST_VARIABLES)
        return error_set(err, STATUS_CORRUPT, "'dimensions' is no object of 1 to %d dimensions",
                         TEMPLATE_MOST_VARIABLES);
    json_object_object_foreach(map, name, given)
    {
        if (strlen(name) >= TEMPLATE_NAME_BYTES ||
            !read_dimension(given, &gen->dimensions[gen->count]))
            return error_set(err, STATUS_CORRUPT,
                             "dimension '%.64s' is neither {\"start\": A, \"stop\": B, \"step\": "
                             "C} nor a list of whole numbers and texts",
                             name);
        strcpy(gen->variables[gen->count++].name, name);
    }
    return STATUS_OK;
}

/* Value `i` of a dimension. */
static void set_value(const struct dimension *dimension, uint64_t i, struct template_value *value)
{
    value->is_number = true;
    value->number = dimension->start + (int64_t)i * dimension->step;
    if (!dimension->list)
        return;
    struct json_object *item = json_object_array_get_idx(dimension->list, i);
    value->is_number = json_object_is_type(item, json_type_int);
    value->number = json_object_get_int64(item);
    if (!value->is_number)
        strcpy(value->text, json_object_get_string(item));
}

/* References
 * ---------------------------------------------------------------------------------------------- */

/* A number of bytes: given, or what a text comes to. */
static enum status make_number(struct json_object *given, const struct template_names *names,
                               uint64_t *ret_number, struct error *err)
{
    char text[TEMPLATE_TEXT_BYTES], *end;
    enum status status = template_render(json_object_get_string(given), names, text, err);
    if (status != STATUS_OK)
        return status;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return error_set(err, STATUS_CORRUPT,
                         "'%.80s' comes to '%.80s', which is no number of "
                         "bytes",
                         json_object_get_string(given), text);
    return STATUS_OK;
}

static enum status add_product(const struct gen *gen, const struct template_names *names,
                               struct reference_table *table, struct error *err)
{
    char text[TEMPLATE_TEXT_BYTES], key[REFERENCE_KEY_BYTES];
    uint64_t offset = 0, length = REFERENCE_WHOLE;
    enum status status = template_render(json_object_get_string(gen->key), names, text, err);
    if (status == STATUS_OK)
        status = reference_key(text, key, err);
    if (status == STATUS_OK && gen->offset)
        status = make_number(gen->offset, names, &offset, err);
    if (status == STATUS_OK && gen->offset)
        status = make_number(gen->length, names, &length, err);
    if (status == STATUS_OK && gen->offset && offset + length < offset)
        status = error_set(err, STATUS_CORRUPT, "its offset and length exceed 64 bits");
    if (status == STATUS_OK)
        status = template_render(json_object_get_string(gen->url), names, text, err);
    return status == STATUS_OK ? reference_table_add(table, key, text, offset, length, err)
                               : status;
}

/* The last dimension's values change first. */
static enum status add_products(const struct gen *gen, const struct template_names *names,
                                struct reference_table *table, struct error *err)
{
    uint64_t count = 1;
    for (size_t k = 0; k < gen->count; k++)
        count = mul_sat(count, gen->dimensions[k].count);
    if (count > reference_table_room(table))
        return error_set(err, STATUS_UNSUPPORTED,
                         "it makes %" PRIu64 " references, which are too many: split them into "
                         "several stores",
                         count);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = i;
        for (size_t k = gen->count; k-- > 0; rest /= gen->dimensions[k].count)
            set_value(&gen->dimensions[k], rest % gen->dimensions[k].count,
                      &gen->variables[k].value);
        enum status status = add_product(gen, names, table, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static enum status take_members(struct json_object *entry, struct gen *gen, struct error *err)
{
    (void)json_object_object_get_ex(entry, "key", &gen->key);
    (void)json_object_object_get_ex(entry, "url", &gen->url);
    (void)json_object_object_get_ex(entry, "offset", &gen->offset);
    (void)json_object_object_get_ex(entry, "length", &gen->length);
    if (!template_is_text(gen->key) || !template_is_text(gen->url) || !gen->offset != !gen->length)
        return error_set(err, STATUS_CORRUPT,
                         "it has no texts 'key' and 'url', or only one of 'offset' and 'length'");
    return STATUS_OK;
}

static enum status read_entry(struct json_object *entry, const struct template_names *outer,
                              struct reference_table *table, struct error *err)
{
    struct gen gen = {0};
    struct json_object *dimensions = NULL;
    if (!json_object_is_type(entry, json_type_object))
        return error_set(err, STATUS_CORRUPT, "it is no object");
    gen.variables = calloc(TEMPLATE_MOST_VARIABLES, sizeof *gen.variables);
    if (!gen.variables)
        return error_set(err, STATUS_NO_MEMORY, "no memory for its dimensions");
    (void)json_object_object_get_ex(entry, "dimensions", &dimensions);
    enum status status = take_members(entry, &gen, err);
    if (status == STATUS_OK)
        status = read_dimensions(dimensions, &gen, err);
    if (status == STATUS_OK) {
        const struct template_names names = {outer->templates, gen.variables, gen.count};
        status = add_products(&gen, &names, table, err);
    }
    free(gen.variables);
    return status;
}

enum status reference_gen_read(struct json_object *list, const struct template_names *names,
                               struct reference_table *table, struct error *err)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        enum status status = read_entry(json_object_array_get_idx(list, i), names, table, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "'gen', entry %zu: ", i);
    }
    return STATUS_OK;
}
