/* What a v3 copy of an array keeps of its meaning to xarray: names of dimensions, and which values
 * are missing. See targets.h. Pure. */
#include "workshop/making/targets.h"

#include "base/convert.h"
#include "workshop/making/rechunk_internal.h"

#include <json-c/json.h>
#include <math.h>
#include <string.h>

static const char fill_key[] = "_FillValue", missing_key[] = "missing_value";

struct json_object *target_take_dimensions(const struct zarr_array *source, int rank,
                                           struct json_object *document,
                                           struct json_object *attributes)
{
    struct json_object *holder = source->format == ZARR_V2 ? attributes : document;
    const char *key = source->format == ZARR_V2 ? "_ARRAY_DIMENSIONS" : "dimension_names";
    struct json_object *names = NULL;
    if (!json_object_object_get_ex(holder, key, &names) ||
        !json_object_is_type(names, json_type_array) ||
        json_object_array_length(names) != (size_t)(source->is_scalar ? 0 : source->rank))
        return NULL;
    json_object_get(names);
    if (source->format == ZARR_V2)
        json_object_object_del(attributes, key);
    if (rank > source->rank)
        json_object_array_add(names, NULL);
    return names;
}

/* _FillValue
 * ------------------------------------------------------------------------------------------- */

static bool is_complex(enum dtype dtype)
{
    return dtype == DTYPE_COMPLEX64 || dtype == DTYPE_COMPLEX128;
}

static struct json_object *real_json(double number)
{
    return target_base64((const unsigned char *)&number, sizeof number);
}

/* The fill value of the source, which is of numbers. */
static struct json_object *item_json(const struct zarr_array *source)
{
    enum dtype part = source->dtype == DTYPE_COMPLEX64    ? DTYPE_FLOAT32
                      : source->dtype == DTYPE_COMPLEX128 ? DTYPE_FLOAT64
                                                          : source->dtype;
    const struct convert convert = {.from = part, .to = DTYPE_FLOAT64, .scale = 1.0};
    double numbers[2];
    if (!is_complex(source->dtype) && !dtype_is_floating(source->dtype))
        return target_value_json(source->dtype, source->fill);
    convert_items(&convert, source->fill, is_complex(source->dtype) ? 2 : 1, numbers);
    if (!is_complex(source->dtype))
        return real_json(numbers[0]);
    struct json_object *pair = json_object_new_array();
    json_object_array_add(pair, real_json(numbers[0]));
    json_object_array_add(pair, real_json(numbers[1]));
    return pair;
}

/* A number of an attribute; NULL: xarray reads none of v3, or compares it with no item of v2. */
static struct json_object *number_json(enum dtype dtype, struct json_object *value)
{
    double number = json_object_get_double(value);
    bool is_flag = json_object_is_type(value, json_type_boolean);
    if (!is_flag && !json_object_is_type(value, json_type_int) &&
        !json_object_is_type(value, json_type_double))
        return NULL;
    if (dtype_is_floating(dtype))
        return real_json(is_flag ? json_object_get_boolean(value) : number);
    if (is_complex(dtype) ||
        (!json_object_is_type(value, json_type_int) && !is_flag &&
         (!isfinite(number) || trunc(number) < number || trunc(number) > number)))
        return NULL;
    return json_object_get(value);
}

/* Several values are missing_value's: v3 has one _FillValue. */
static void move_list(struct json_object *attributes, struct json_object *values)
{
    struct json_object *missing = NULL, *list = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(values); i++)
        json_object_array_add(list, json_object_get(json_object_array_get_idx(values, i)));
    json_object_object_get_ex(attributes, missing_key, &missing);
    if (json_object_is_type(missing, json_type_array))
        for (size_t i = 0; i < json_object_array_length(missing); i++)
            json_object_array_add(list, json_object_get(json_object_array_get_idx(missing, i)));
    else if (missing)
        json_object_array_add(list, json_object_get(missing));
    json_object_object_add(attributes, missing_key, list);
}

/* Of an attribute: as v3 has it. What cannot be said in v3 leaves a copy of v2, where it says
 * nothing, and stays in a copy of v3. */
static void translate_attribute(const struct zarr_array *source, struct json_object *attributes,
                                struct json_object *value)
{
    struct json_object *written = NULL;
    if (json_object_is_type(value, json_type_array) && !is_complex(source->dtype)) {
        if (json_object_array_length(value) == 1)
            written = number_json(source->dtype, json_object_array_get_idx(value, 0));
        else
            move_list(attributes, value);
    } else {
        written = number_json(source->dtype, value);
        if (!written && source->format == ZARR_V3)
            return;
    }
    if (written)
        json_object_object_add(attributes, fill_key, written);
    else
        json_object_object_del(attributes, fill_key);
}

void target_translate_fill(const struct zarr_array *source, bool has_dimensions,
                           struct json_object *document, struct json_object *attributes)
{
    struct json_object *value = NULL, *fill = NULL;
    bool is_v2 = source->format == ZARR_V2;
    bool of_numbers = source->item_length == 0 && !source->stored_type[0];
    json_object_object_get_ex(document, "fill_value", &fill);
    json_object_object_get_ex(attributes, fill_key, &value);
    if (!of_numbers) {
        if (is_v2)
            json_object_object_del(attributes, fill_key);
    } else if (is_v2 && has_dimensions && fill && source->member_count == 0) {
        json_object_object_add(attributes, fill_key, item_json(source));
    } else if (value) {
        translate_attribute(source, attributes, value);
    }
}
