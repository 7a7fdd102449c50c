/* See cf.h. */
#include "zarr/hierarchy/cf.h"

#include "zarr/hierarchy/attributes.h"
#include "zarr/metadata/document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* An array that is looked at: its document, and what was found so far. */
struct look {
    const struct zarr_array *array;
    struct json_object *root, *attributes; /* `attributes` is NULL if there are none */
    bool is_cut;                           /* null stands for attributes that were too large */
    struct zarr_cf *cf;
};

static enum status refuse(const struct look *look, const char *key, struct json_object *value,
                          const char *why, struct error *err)
{
    return error_set(err, STATUS_INVALID, "attribute %s of array '%s' is %.80s: %s", key,
                     look->array->path,
                     json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), why);
}

/* The attribute, borrowed; NULL: there is none, or null. */
static enum status get(const struct look *look, const char *key, struct json_object **ret_value,
                       struct error *err)
{
    *ret_value = NULL;
    if (look->attributes && json_object_object_get_ex(look->attributes, key, ret_value) &&
        !*ret_value && look->is_cut)
        return refuse(look, key, NULL, "it is too large to be read, or null: remove it", err);
    return STATUS_OK;
}

static bool is_number(struct json_object *value)
{
    return json_object_is_type(value, json_type_int) ||
           json_object_is_type(value, json_type_double);
}

/* A list of one is what is in it. */
static struct json_object *only(struct json_object *value)
{
    return json_object_is_type(value, json_type_array) && json_object_array_length(value) == 1
               ? json_object_array_get_idx(value, 0)
               : value;
}

/* Scale and offset
 * ------------------------------------------------------------------------------------------- */

static enum status take_factor(const struct look *look, const char *key, double *number,
                               struct error *err)
{
    struct json_object *value;
    enum status status = get(look, key, &value, err);
    char *end = "no";
    if (status != STATUS_OK || !value)
        return status;
    struct json_object *one = only(value);
    if (is_number(one))
        *number = json_object_get_double(one);
    else if (!json_object_is_type(one, json_type_string))
        return refuse(look, key, value, "cf takes one number", err);
    else
        *number = strtod(json_object_get_string(one), &end);
    if (!is_number(one) && (*end || end == json_object_get_string(one)))
        return refuse(look, key, value, "cf takes one number", err);
    if (!isfinite(*number))
        return refuse(look, key, value, "cf takes a finite number", err);
    return STATUS_OK;
}

/* Missing values
 * ------------------------------------------------------------------------------------------- */

static double rounded_to(enum dtype dtype, double number)
{
    const struct convert there = {.from = DTYPE_FLOAT64, .to = dtype, .scale = 1.0};
    const struct convert back = {.from = dtype, .to = DTYPE_FLOAT64, .scale = 1.0};
    unsigned char item[DTYPE_MAX_BYTES];
    convert_items(&there, &number, 1, item);
    convert_items(&back, item, 1, &number);
    return number;
}

static bool same(double a, double b)
{
    return !(a < b) && !(a > b);
}

/* Adds a number that is not NaN. One that no item can be equal to adds nothing. */
static enum status add_number(const struct look *look, const char *key, struct json_object *value,
                              double number, struct error *err)
{
    struct zarr_cf *cf = look->cf;
    if (dtype_is_floating(cf->from) && !same(rounded_to(cf->from, number), number))
        return refuse(
            look, key, value,
            "the array's dtype has no such number, and xarray finds no item that is equal "
            "to it: write the number as the items have it",
            err);
    if (!dtype_is_floating(cf->from) &&
        (!same(trunc(number), number) ||
         (normal_work_type(cf->from) == DTYPE_FLOAT32 && !same((double)(float)number, number))))
        return STATUS_OK;
    if (cf->missing_count == NORMAL_MAX_MISSING)
        return refuse(look, key, value, "there are more missing values than cf takes (16)", err);
    cf->missing[cf->missing_count++] = number;
    return STATUS_OK;
}

/* Integers of `dtype` are those from *ret_lowest to *ret_highest. */
static void bounds_of(enum dtype dtype, double *ret_lowest, double *ret_highest)
{
    int bits = (int)(8 * dtype_bytes(dtype));
    bool is_signed = dtype <= DTYPE_INT64 && dtype != DTYPE_BOOL;
    *ret_lowest = is_signed ? -ldexp(1.0, bits - 1) : 0.0;
    *ret_highest = dtype == DTYPE_BOOL ? 1.0 : ldexp(1.0, bits - is_signed) - 1.0;
}

/* A number that is stored, read with the other sign: of _FillValue, as xarray has it. Any other
 * attribute would have to have such a number already. */
static enum status turn_sign(const struct look *look, const char *key, struct json_object *value,
                             double *number, struct error *err)
{
    double lowest, highest;
    bounds_of(look->cf->from, &lowest, &highest);
    if (look->cf->from == look->array->dtype || (*number >= lowest && *number <= highest))
        return STATUS_OK;
    if (strcmp(key, "_FillValue") != 0)
        return refuse(look, key, value,
                      "_Unsigned makes other numbers of the items, and xarray compares these: "
                      "write the number as it is then",
                      err);
    *number += *number < lowest ? highest - lowest + 1.0 : lowest - highest - 1.0;
    return STATUS_OK;
}

/* "AAAAAADgbsA=": a float64. */
static bool decode_real(const char *text, double *ret_number)
{
    enum { BASE64_BYTES = 12 };
    struct json_object *json = strlen(text) == BASE64_BYTES ? json_object_new_string(text) : NULL;
    bool decoded = json && fill_parse_record(json, sizeof *ret_number, 0, sizeof *ret_number,
                                             (unsigned char *)ret_number, NULL) == STATUS_OK;
    json_object_put(json);
    return decoded;
}

static enum status add_value(const struct look *look, const char *key, struct json_object *value,
                             struct error *err)
{
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : NULL;
    double number = NAN;
    if (is_number(value))
        number = json_object_get_double(value);
    else if (json_object_is_type(value, json_type_boolean))
        number = json_object_get_boolean(value);
    else if (value && !text)
        return refuse(look, key, value, "cf takes a number, or a list of numbers", err);
    else if (text && !(dtype_is_floating(look->array->dtype) && decode_real(text, &number)) &&
             strcasecmp(text, "nan") != 0 && strcasecmp(text, "-nan") != 0)
        return refuse(look, key, value, "cf takes a number, not a text", err);
    if (isnan(number))
        return STATUS_OK; /* NaN is missing already, and compares with nothing */
    enum status status = turn_sign(look, key, value, &number, err);
    return status != STATUS_OK ? status : add_number(look, key, value, number, err);
}

static enum status add_attribute(const struct look *look, const char *key, struct error *err)
{
    struct json_object *value;
    enum status status = get(look, key, &value, err);
    if (status != STATUS_OK || !json_object_is_type(value, json_type_array))
        return status != STATUS_OK || !value ? status : add_value(look, key, value, err);
    for (size_t i = 0; i < json_object_array_length(value) && status == STATUS_OK; i++)
        status = add_value(look, key, json_object_array_get_idx(value, i), err);
    return status;
}

/* Whether xarray takes the fill value of a v2 array, which has one. */
static bool takes_fill(const struct look *look, struct json_object **ret_fill)
{
    return look->array->format == ZARR_V2 && look->array->member_count == 0 &&
           json_object_object_get_ex(look->root, "fill_value", ret_fill) && *ret_fill &&
           convert_is_possible(look->array->dtype, DTYPE_FLOAT64) &&
           (json_object_object_get_ex(look->attributes, "_ARRAY_DIMENSIONS", NULL) ||
            json_object_object_get_ex(look->root, "_NCZARR_ARRAY", NULL));
}

/* The fill value takes the place of _FillValue, and has to say the same. */
static enum status add_fill(const struct look *look, struct json_object *fill, struct error *err)
{
    const struct convert convert = {.from = look->array->dtype, .to = DTYPE_FLOAT64, .scale = 1.0};
    struct zarr_cf *cf = look->cf;
    struct json_object *attribute = NULL;
    double number;
    convert_items(&convert, look->array->fill, 1, &number);
    if (!isnan(number)) {
        enum status status = turn_sign(look, "_FillValue", fill, &number, err);
        if (status != STATUS_OK)
            return status;
    }
    for (int i = 0; i < cf->missing_count; i++)
        if (isnan(number) || !same(cf->missing[i], number)) {
            json_object_object_get_ex(look->attributes, "_FillValue", &attribute);
            return refuse(look, "_FillValue", attribute,
                          "its fill_value is another, which xarray takes instead of the "
                          "attribute, so that items of this value are data: make both the same",
                          err);
        }
    cf->zero_is_fill = cf->missing_count == 0 && fpclassify(number) == FP_ZERO;
    cf->missing_count = 0;
    return isnan(number) ? STATUS_OK : add_number(look, "_FillValue", fill, number, err);
}

static enum status find_missing(const struct look *look, struct error *err)
{
    struct json_object *fill;
    enum status status = add_attribute(look, "_FillValue", err);
    if (status == STATUS_OK && takes_fill(look, &fill))
        status = add_fill(look, fill, err);
    return status != STATUS_OK ? status : add_attribute(look, "missing_value", err);
}

/* Sign and range
 * ------------------------------------------------------------------------------------------- */

static enum status find_sign(const struct look *look, struct error *err)
{
    struct json_object *value;
    enum status status = get(look, "_Unsigned", &value, err);
    enum dtype dtype = look->array->dtype;
    look->cf->from = dtype;
    if (status != STATUS_OK || !value || !dtype_is_integer(dtype))
        return status; /* xarray passes over it, too, where items are no integers */
    const char *text =
        json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
        return refuse(look, "_Unsigned", value, "cf and xarray take \"true\" or \"false\"", err);
    if ((text[0] == 't') == (dtype <= DTYPE_INT64))
        look->cf->from = dtype_other_sign(dtype);
    return STATUS_OK;
}

/* Bounds of the valid items, as far as attributes say them: the last one that is there counts. */
static enum status take_bounds(const struct look *look, const char *key, double *bounds[2],
                               struct json_object **ret_value, struct error *err)
{
    struct json_object *value;
    enum status status = get(look, key, &value, err);
    if (status != STATUS_OK || !value)
        return status;
    *ret_value = value;
    size_t count = (bounds[0] != NULL) + (bounds[1] != NULL);
    for (size_t i = 0; i < count; i++) {
        struct json_object *one = count == 1 ? only(value)
                                  : json_object_is_type(value, json_type_array) &&
                                          json_object_array_length(value) == count
                                      ? json_object_array_get_idx(value, i)
                                      : NULL;
        *bounds[bounds[0] ? i : 1] = is_number(one) ? json_object_get_double(one) : NAN;
    }
    return STATUS_OK;
}

/* How many integers of the dtype are outside of a range and not missing. */
static double count_outside(const struct zarr_cf *cf, double lowest, double highest)
{
    double first, last, count = 0.0;
    bounds_of(cf->from, &first, &last);
    if (isnan(lowest) || isnan(highest) || lowest > highest)
        return 1.0;
    count = fmax(lowest - first, 0.0) + fmax(last - highest, 0.0);
    for (int i = 0; i < cf->missing_count; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen = seen || same(cf->missing[k], cf->missing[i]);
        count -= !seen && ((cf->missing[i] < lowest && cf->missing[i] >= first) ||
                           (cf->missing[i] > highest && cf->missing[i] <= last));
    }
    return count;
}

/* A range is not looked at, which does no harm if every other item is missing anyway. */
static enum status check_range(const struct look *look, struct error *err)
{
    double lowest = -INFINITY, highest = INFINITY;
    const struct {
        const char *key;
        double *bounds[2];
    } attributes[] = {{"valid_min", {&lowest, NULL}},
                      {"valid_max", {NULL, &highest}},
                      {"valid_range", {&lowest, &highest}}};
    const char *key = NULL;
    struct json_object *value = NULL;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
        struct json_object *found = NULL;
        double *bounds[2] = {attributes[i].bounds[0], attributes[i].bounds[1]};
        enum status status = take_bounds(look, attributes[i].key, bounds, &found, err);
        if (status != STATUS_OK)
            return status;
        key = found ? attributes[i].key : key;
        value = found ? found : value;
    }
    if (!key || (dtype_is_integer(look->cf->from) && dtype_bytes(look->cf->from) < 8 &&
                 count_outside(look->cf, lowest, highest) <= 0.0))
        return STATUS_OK;
    return refuse(look, key, value,
                  "items outside are missing by CF, and are data to cf and to xarray: remove the "
                  "attribute if all items are valid, or give the field scale and offset instead "
                  "of cf, and mask in the trainer",
                  err);
}

/* xarray makes bool of items whose attribute dtype says so, as it wrote them. */
static enum status check_dtype(const struct look *look, struct error *err)
{
    struct json_object *value;
    enum status status = get(look, "dtype", &value, err);
    if (status != STATUS_OK || look->array->dtype == DTYPE_BOOL ||
        !json_object_is_type(value, json_type_string) ||
        strcmp(json_object_get_string(value), "bool") != 0)
        return status;
    return refuse(look, "dtype", value,
                  "cf makes no bool of items: leave cf out, so that they come as stored", err);
}

static enum status read_all(const struct look *look, struct error *err)
{
    enum status status = find_sign(look, err);
    if (status == STATUS_OK)
        status = take_factor(look, "scale_factor", &look->cf->scale, err);
    if (status == STATUS_OK)
        status = take_factor(look, "add_offset", &look->cf->offset, err);
    if (status == STATUS_OK)
        status = find_missing(look, err);
    if (status == STATUS_OK)
        status = check_range(look, err);
    return status != STATUS_OK ? status : check_dtype(look, err);
}

enum status zarr_node_cf(const struct zarr_node *node, struct zarr_cf *ret_cf, struct error *err)
{
    struct zarr_cf cf = {.scale = 1.0};
    struct look look = {.array = &node->array, .cf = &cf};
    enum status status = document_parse(node->document, node->document_bytes, &look.root, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "array '%s': ", node->array.path);
    json_object_object_get_ex(look.root, "attributes", &look.attributes);
    if (!json_object_is_type(look.attributes, json_type_object))
        look.attributes = NULL;
    look.is_cut = json_object_object_get_ex(look.root, ZARR_ATTRIBUTES_LEFT_OUT, NULL);
    status = read_all(&look, err);
    json_object_put(look.root);
    if (status == STATUS_OK)
        *ret_cf = cf;
    return status;
}
