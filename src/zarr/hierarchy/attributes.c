/* See attributes.h. */
#include "zarr/hierarchy/attributes.h"

#include "zarr/hierarchy/axes.h"
#include "zarr/metadata/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char dimensions[] = "_ARRAY_DIMENSIONS";

/* Whether Penstock itself reads the attribute. */
static bool is_read(const char *name)
{
#define IS_READ(member, key) || strcmp(name, key) == 0
    return strcmp(name, dimensions) == 0 ZARR_ENCODING_TABLE(IS_READ);
#undef IS_READ
}

/* A copy of the attributes, in their order, within the bounds. The caller's. */
static struct json_object *take(struct json_object *attributes, struct text *left_out)
{
    struct json_object *into = json_object_new_object();
    size_t all_bytes = 0;
    json_object_object_foreach(attributes, name, value)
    {
        size_t bytes = strlen(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
        bool told = value && bytes <= ZARR_TOLD_BYTES;
        if (!is_read(name))
            all_bytes += strlen(name) + (told ? bytes : 0);
        bool fits = is_read(name) || all_bytes <= ZARR_TOLD_ALL_BYTES;
        if (fits)
            json_object_object_add(into, name, told ? json_object_get(value) : NULL);
        if (left_out && !(told && fits))
            text_list_put(left_out, name);
    }
    return into;
}

bool attributes_take(struct json_object *document, struct json_object *attributes)
{
    if (!json_object_is_type(document, json_type_object) ||
        !json_object_is_type(attributes, json_type_object) ||
        json_object_object_length(attributes) == 0)
        return false;
    struct text left_out = {0};
    json_object_object_del(document, "attributes");
    json_object_object_add(document, "attributes", take(attributes, &left_out));
    json_object_object_del(document, ZARR_ATTRIBUTES_LEFT_OUT);
    if (left_out.length > 0)
        json_object_object_add(document, ZARR_ATTRIBUTES_LEFT_OUT,
                               json_object_new_string(left_out.data));
    text_done(&left_out);
    return true;
}

void zarr_node_attributes(const struct zarr_node *node, struct text *out, struct text *left_out)
{
    struct json_object *root, *attributes = NULL, *names = NULL;
    if (document_parse(node->document, node->document_bytes, &root, NULL) != STATUS_OK) {
        text_append(out, "{}");
        return;
    }
    json_object_object_get_ex(root, "attributes", &attributes);
    if (node->array.format == ZARR_V2 && left_out &&
        json_object_object_get_ex(root, ZARR_ATTRIBUTES_LEFT_OUT, &names)) {
        text_append(left_out, "%s", json_object_get_string(names));
        left_out = NULL; /* of those that were taken, none is left out that is not named there */
    }
    bool is_map = json_object_is_type(attributes, json_type_object);
    struct json_object *taken = is_map ? take(attributes, left_out) : json_object_new_object();
    const char *encoding = strcmp(node->array.stored_type, "vlen-utf8") == 0    ? "utf-8"
                           : strcmp(node->array.stored_type, "vlen-bytes") == 0 ? "bytes"
                                                                                : NULL;
    if (node->array.is_vlen && encoding && !json_object_object_get_ex(taken, "encoding", NULL))
        json_object_object_add(taken, "encoding", json_object_new_string(encoding));
    text_append(out, "%s", json_object_to_json_string_ext(taken, JSON_C_TO_STRING_PLAIN));
    json_object_put(taken);
    json_object_put(root);
}

/* Reading them
 * ------------------------------------------------------------------------------------------- */

/* As much of it as there is room for, in whole characters of UTF-8. */
static void copy_start(const char *text, char ret_text[ZARR_ATTRIBUTE_BYTES])
{
    size_t length = strlen(text);
    if (length > ZARR_ATTRIBUTE_BYTES - 1)
        for (length = ZARR_ATTRIBUTE_BYTES - 1; length > 0 && (text[length] & 0xc0) == 0x80;)
            length--;
    memcpy(ret_text, text, length);
    ret_text[length] = '\0';
}

/* A text, "3", "0.01" or "[1,2]"; "" for anything else, and for NaN. A list of one is what is in
 * it. */
static void format_value(struct json_object *value, char ret_text[ZARR_ATTRIBUTE_BYTES])
{
    ret_text[0] = '\0';
    if (json_object_is_type(value, json_type_array) && json_object_array_length(value) == 1)
        value = json_object_array_get_idx(value, 0);
    if (json_object_is_type(value, json_type_string))
        copy_start(json_object_get_string(value), ret_text);
    else if (json_object_is_type(value, json_type_int) ||
             (json_object_is_type(value, json_type_double) &&
              !isnan(json_object_get_double(value))))
        snprintf(ret_text, ZARR_ATTRIBUTE_BYTES, "%s", json_object_to_json_string(value));
    else if (json_object_is_type(value, json_type_array))
        copy_start(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), ret_text);
}

/* Of floating point xarray writes a _FillValue into v3 as base64 of a float64. */
static void decode_fill(char text[ZARR_ATTRIBUTE_BYTES])
{
    enum { BASE64_BYTES = 12 };
    struct json_object *json = strlen(text) == BASE64_BYTES ? json_object_new_string(text) : NULL;
    double value = 0;
    if (json && fill_parse_record(json, sizeof value, 0, sizeof value, (unsigned char *)&value,
                                  NULL) == STATUS_OK)
        snprintf(text, ZARR_ATTRIBUTE_BYTES, "%.17g", value);
    json_object_put(json);
    if (strcasecmp(text, "nan") == 0 || strcasecmp(text, "-nan") == 0)
        text[0] = '\0';
}

/* Of v2 arrays xarray takes the fill value; others write 0 without meaning anything by it. */
static void take_fill(struct json_object *root, struct zarr_encoding *encoding)
{
    struct json_object *fill = NULL;
    json_object_object_get_ex(root, "fill_value", &fill);
    format_value(fill, encoding->fill_value);
    char *end;
    double value = strtod(encoding->fill_value, &end);
    if (end == encoding->fill_value || *end != '\0' || isnan(value) || fpclassify(value) == FP_ZERO)
        encoding->fill_value[0] = '\0';
}

void zarr_node_encoding(const struct zarr_node *node, struct zarr_encoding *ret_encoding)
{
    struct json_object *root, *attributes = NULL, *value;
    *ret_encoding = (struct zarr_encoding){0};
    if (document_parse(node->document, node->document_bytes, &root, NULL) != STATUS_OK)
        return;
    if (json_object_object_get_ex(root, "attributes", &attributes) &&
        json_object_is_type(attributes, json_type_object)) {
#define READ(name, key)                                     \
    if (json_object_object_get_ex(attributes, key, &value)) \
        format_value(value, ret_encoding->name);
        ZARR_ENCODING_TABLE(READ)
#undef READ
        if (dtype_is_floating(node->array.dtype))
            decode_fill(ret_encoding->fill_value);
        bool turns = dtype_is_integer(node->array.dtype) &&
                     strcmp(ret_encoding->is_unsigned,
                            node->array.dtype <= DTYPE_INT64 ? "true" : "false") == 0;
        if (!turns)
            ret_encoding->is_unsigned[0] = '\0';
        if (node->array.format == ZARR_V2 && !ret_encoding->fill_value[0] &&
            json_object_object_get_ex(attributes, dimensions, NULL))
            take_fill(root, ret_encoding);
    }
    json_object_put(root);
}

bool zarr_encoding_changes(const struct zarr_encoding *encoding)
{
    return encoding->scale_factor[0] || encoding->add_offset[0] || encoding->fill_value[0] ||
           encoding->missing_value[0] || encoding->is_unsigned[0];
}

void zarr_encoding_describe(const struct zarr_encoding *encoding, struct text *out)
{
    const struct {
        const char *key, *value;
    } properties[] = {
        {"scale_factor", encoding->scale_factor}, {"add_offset", encoding->add_offset},
        {"_FillValue", encoding->fill_value},     {"missing_value", encoding->missing_value},
        {"_Unsigned", encoding->is_unsigned},
    };
    const char *separator = "";
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        if (!properties[i].value[0])
            continue;
        text_append(out, "%s%s ", separator, properties[i].key);
        text_append_shown(out, properties[i].value);
        separator = ", ";
    }
}

/* "0.5" and "0.50" are the same; "" is `fallback`. */
static bool same_value(const char *a, const char *b, const char *fallback)
{
    char *end_a, *end_b;
    a = *a ? a : fallback;
    b = *b ? b : fallback;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    bool numbers = end_a != a && end_b != b && !*end_a && !*end_b;
    return strcmp(a, b) == 0 || (numbers && !(x < y) && !(x > y));
}

/* One name for a calendar that has two; any other text is what it was. */
static const char *calendar_of(const char *name)
{
    static const char *const synonyms[][2] = {
        {"gregorian", "standard"}, {"365_day", "noleap"}, {"366_day", "all_leap"}};
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++)
        for (int j = 0; j < 2; j++)
            if (strcasecmp(name, synonyms[i][j]) == 0)
                return synonyms[i][1];
    return name;
}

const char *zarr_encoding_conflict(const struct zarr_encoding *a, const struct zarr_encoding *b,
                                   const char **ret_a, const char **ret_b)
{
    const struct {
        const char *key, *a, *b, *fallback;
        bool optional; /* no contradiction where one has none */
    } properties[] = {
        {"scale_factor", a->scale_factor, b->scale_factor, "1", false},
        {"add_offset", a->add_offset, b->add_offset, "0", false},
        {"_FillValue", a->fill_value, b->fill_value, "", false},
        {"missing_value", a->missing_value, b->missing_value, "", false},
        {"_Unsigned", a->is_unsigned, b->is_unsigned, "", false},
        {"units", a->units, b->units, "", true},
        {"calendar", a->calendar, b->calendar, "", true},
    };
    for (size_t i = 0; i < sizeof properties / sizeof properties[0]; i++) {
        if ((properties[i].optional && (!properties[i].a[0] || !properties[i].b[0])) ||
            same_value(calendar_of(properties[i].a), calendar_of(properties[i].b),
                       properties[i].fallback))
            continue;
        *ret_a = properties[i].a;
        *ret_b = properties[i].b;
        return properties[i].key;
    }
    return NULL;
}

bool zarr_node_is_coordinate(const struct zarr_node *node)
{
    const char *slash = strrchr(node->array.path, '/');
    struct zarr_axis_names names;
    struct zarr_encoding encoding;
    zarr_node_encoding(node, &encoding);
    (void)zarr_node_axis_names(node, &names);
    return strstr(encoding.units, " since ") || encoding.calendar[0] ||
           (node->array.rank == 1 &&
            strcmp(names.names[0], slash ? slash + 1 : node->array.path) == 0);
}
