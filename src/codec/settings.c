/* Settings in codec configurations: typed look-ups in JSON objects. Called while metadata is read,
 * any thread. */
#include "codec/codec_internal.h"

#include <json-c/json.h>
#include <math.h>

/* NULL where the key is absent or null. */
static struct json_object *find(struct json_object *configuration, const char *key)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(configuration, key, &value);
    return value;
}

enum status codec_setting(struct json_object *configuration, const char *key, int fallback, int low,
                          int high, int *ret_value, struct error *err)
{
    struct json_object *json = find(configuration, key);
    if (!json) {
        *ret_value = fallback;
        return STATUS_OK;
    }
    int64_t value = json_object_get_int64(json);
    if (!json_object_is_type(json, json_type_int) || value < low || value > high)
        return error_set(err, STATUS_CORRUPT, "%s is %s, not a whole number from %d to %d", key,
                         json_object_to_json_string(json), low, high);
    *ret_value = (int)value;
    return STATUS_OK;
}

enum status codec_setting_bool(struct json_object *configuration, const char *key, int *ret_value,
                               struct error *err)
{
    struct json_object *json = find(configuration, key);
    if (json && !json_object_is_type(json, json_type_boolean))
        return error_set(err, STATUS_CORRUPT, "%s is %s, not true or false", key,
                         json_object_to_json_string(json));
    *ret_value = json ? json_object_get_boolean(json) : 0;
    return STATUS_OK;
}

enum status codec_setting_real(struct json_object *configuration, const char *key,
                               double *ret_value, struct error *err)
{
    struct json_object *json = find(configuration, key);
    bool is_number =
        json_object_is_type(json, json_type_int) || json_object_is_type(json, json_type_double);
    if (!is_number || !isfinite(json_object_get_double(json)))
        return error_set(err, STATUS_CORRUPT, "%s is %s, not a number", key,
                         json ? json_object_to_json_string(json) : "missing");
    *ret_value = json_object_get_double(json);
    return STATUS_OK;
}

enum status codec_setting_text(struct json_object *configuration, const char *key,
                               const char *fallback, const char **ret_text, struct error *err)
{
    struct json_object *json = find(configuration, key);
    if (json && !json_object_is_type(json, json_type_string))
        return error_set(err, STATUS_CORRUPT, "%s is %s, not a string", key,
                         json_object_to_json_string(json));
    *ret_text = json ? json_object_get_string(json) : fallback;
    return STATUS_OK;
}

void codec_level_describe(const struct codec_step *step, struct text *out)
{
    text_append(out, "(level %d)", step->parameters[0]);
}

void codec_level_write_json(const struct codec_step *step, enum codec_format format,
                            struct text *out)
{
    (void)format;
    text_append(out, "\"level\": %d", step->parameters[0]);
}
