/* See options.h: the fields of the dataset, dataset.fields.NAME, and their properties. */
#include "config/options.h"

#include "base/number.h"
#include "base/spelling.h"
#include "config/ragged_options.h"

#include <ctype.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

static void free_slice(struct dataset_slice_spec *slice)
{
    free((char *)slice->axis);
    free((char *)slice->indices);
}

void config_free_field(struct dataset_field_spec *field)
{
    free((char *)field->name);
    free((char *)field->array);
    free((char *)field->store);
    free((char *)field->index);
    free((char *)field->align);
    free((char *)field->sample_axis);
    free((char *)field->mean);
    free((char *)field->std);
    free((char *)field->stats);
    free((char *)field->scale_at);
    free((char *)field->offset_at);
    free((int32_t *)field->steps);
    for (size_t i = 0; i < field->slice_count; i++)
        free_slice(&field->slices[i]);
    for (size_t i = 0; i < field->crop_count; i++)
        free((char *)field->crops[i].axis);
    config_free_ragged(field);
}

static enum status check_field(const char *name, const char *array, const char *index,
                               struct error *err)
{
    if (!*name || strlen(name) >= DATASET_NAME_BYTES)
        return error_set(err, STATUS_INVALID,
                         "dataset.fields: '%.80s' is no name for a field: 1 to %d bytes", name,
                         DATASET_NAME_BYTES - 1);
    for (const char *c = name; *c; c++)
        if (iscntrl((unsigned char)*c))
            return error_set(err, STATUS_INVALID,
                             "dataset.fields: a field's name holds a control character");
    if (!*array || (index && !*index))
        return error_set(err, STATUS_INVALID, "dataset.fields.%s: the name of its %s is empty",
                         name, *array ? "index" : "array");
    return STATUS_OK;
}

static struct dataset_field_spec *find_field(struct config *config, const char *name)
{
    for (size_t i = 0; i < config->field_count; i++)
        if (strcmp(config->fields[i].name, name) == 0)
            return &config->fields[i];
    return NULL;
}

/* Room for one more field at fields[field_count]. */
static enum status grow_fields(struct config *config, struct error *err)
{
    if (config->field_count == DATASET_MAX_FIELDS)
        return error_set(err, STATUS_INVALID, "dataset.fields: more than %d fields",
                         DATASET_MAX_FIELDS);
    size_t bytes = (config->field_count + 1) * sizeof *config->fields;
    struct dataset_field_spec *fields = realloc(config->fields, bytes);
    if (!fields)
        return error_set(err, STATUS_NO_MEMORY, "dataset.fields: out of memory");
    config->fields = fields;
    return STATUS_OK;
}

enum status config_put_field(struct config *config, const char *name, const char *array,
                             const char *index, struct error *err)
{
    enum status status = check_field(name, array, index, err);
    if (status != STATUS_OK)
        return status;
    struct dataset_field_spec *old = find_field(config, name);
    if (!old) {
        status = grow_fields(config, err);
        if (status != STATUS_OK)
            return status;
    }
    struct dataset_field_spec field = {0};
    status = config_put_text(&field.name, name, err);
    if (status == STATUS_OK)
        status = config_put_text(&field.array, array, err);
    if (status == STATUS_OK && index)
        status = config_put_text(&field.index, index, err);
    if (status != STATUS_OK) {
        config_free_field(&field);
        return error_prefix(err, status, "dataset.fields.%s: ", name);
    }
    if (old) {
        config_forget_shares(config, name);
        config_free_field(old);
        *old = field;
    } else {
        config->fields[config->field_count++] = field;
    }
    return STATUS_OK;
}

enum { FIELD_PROPERTIES = 22 };
static const char *const field_properties[FIELD_PROPERTIES] = {
    "array",   "index", "cast",      "scale", "offset", "sample_axis", "cf",       "mean",
    "std",     "stats", "normalise", "steps", "slice",  "crop",        "segments", "ragged",
    "deliver", "cut",   "only",      "align", "method", "store"};

enum property_kind config_property_kind(const char *property)
{
    if (strcmp(property, "slice") == 0 || strcmp(property, "crop") == 0 ||
        strcmp(property, "ragged") == 0 || strcmp(property, "cut") == 0 ||
        strcmp(property, "only") == 0)
        return PROPERTY_MAP;
    if (strcmp(property, "deliver") == 0)
        return PROPERTY_MAP_OR_VALUE;
    if (strcmp(property, "steps") == 0)
        return PROPERTY_MAP_OR_LIST;
    bool takes_list = strcmp(property, "mean") == 0 || strcmp(property, "std") == 0;
    return takes_list ? PROPERTY_LIST : PROPERTY_VALUE;
}

static enum status put_number(double *member, const char *value, bool zero_is_fine,
                              struct error *err)
{
    double number = 0.0;
    bool parsed = number_parse_real(value, -DBL_MAX, DBL_MAX, &number);
    bool is_zero = !(number < 0.0 || number > 0.0);
    if (!parsed || (is_zero && !zero_is_fine))
        return error_set(err, STATUS_INVALID, "'%s' is not a finite number%s", value,
                         zero_is_fine ? "" : " other than 0");
    *member = number;
    return STATUS_OK;
}

/* A number, or where the number stands. */
static enum status put_scale(double *number, const char **at, const char *value, bool zero_is_fine,
                             struct error *err)
{
    char *end;
    (void)strtod(value, &end);
    if (*end)
        return config_put_text(at, value, err);
    free((char *)*at);
    *at = NULL;
    return put_number(number, value, zero_is_fine, err);
}

static enum status put_form(enum dataset_stats_form *form, const char *value, struct error *err)
{
    bool is_range = strcmp(value, "min/max") == 0;
    if (!is_range && strcmp(value, "mean/std") != 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a choice; it takes mean/std or min/max",
                         value);
    *form = is_range ? STATS_MIN_MAX : STATS_MEAN_STD;
    return STATUS_OK;
}

static enum status put_match(enum dataset_match *match, const char *value, struct error *err)
{
    static const char *const names[] = {DATASET_MATCH_NAMES};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(value, names[i]) == 0) {
            *match = (enum dataset_match)i;
            return STATUS_OK;
        }
    return error_set(err, STATUS_INVALID,
                     "'%s' is not a choice; it takes exact, nearest or previous", value);
}

/* Integers are for dense tensors of ragged fields alone, as dataset_open() checks. */
static enum status put_cast(enum dtype *member, const char *value, struct error *err)
{
    enum dtype dtype = dtype_by_name(value);
    if (!convert_is_possible(DTYPE_FLOAT32, dtype) && !dtype_is_integer(dtype))
        return error_set(err, STATUS_INVALID,
                         "'%s': items can become float16, bfloat16, float32 or float64", value);
    *member = dtype;
    return STATUS_OK;
}

static enum status put_bool(bool *member, const char *value, struct error *err)
{
    bool is_true = strcmp(value, "true") == 0;
    if (!is_true && strcmp(value, "false") != 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a truth value; it takes true or false",
                         value);
    *member = is_true;
    return STATUS_OK;
}

static enum status put_steps(struct dataset_field_spec *field, const char *value, struct error *err)
{
    int32_t *steps;
    size_t count;
    enum status status = config_parse_steps(value, &steps, &count, err);
    if (status != STATUS_OK)
        return status;
    free((int32_t *)field->steps);
    field->steps = steps;
    field->step_count = count;
    field->phase_count = 0;
    return STATUS_OK;
}

/* Adds the indices along an axis, or replaces those of the same one. */
static enum status put_slice(struct dataset_field_spec *field, const char *axis,
                             const char *indices, struct error *err)
{
    size_t i = 0;
    if (!*axis || strlen(axis) >= OPTION_KEY_BYTES)
        return error_set(err, STATUS_INVALID, "an axis has a number or a name of 1 to %d bytes",
                         OPTION_KEY_BYTES - 1);
    while (i < field->slice_count && strcmp(field->slices[i].axis, axis) != 0)
        i++;
    if (i == DATASET_MAX_RANK)
        return error_set(err, STATUS_INVALID, "slices of more than %d axes", DATASET_MAX_RANK);
    struct dataset_slice_spec slice = {0};
    enum status status = config_put_text(&slice.axis, axis, err);
    if (status == STATUS_OK)
        status = config_put_text(&slice.indices, indices, err);
    if (status != STATUS_OK) {
        free_slice(&slice);
        return status;
    }
    if (i < field->slice_count)
        free_slice(&field->slices[i]);
    else
        field->slice_count++;
    field->slices[i] = slice;
    return STATUS_OK;
}

static enum status put_crop_at(struct dataset_field_spec *field, const char *value,
                               struct error *err)
{
    bool is_random = strcmp(value, "random") == 0;
    if (!is_random && strcmp(value, "center") != 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a choice; it takes random or center",
                         value);
    field->crop_at = is_random ? CROP_RANDOM : CROP_CENTER;
    return STATUS_OK;
}

static enum status put_crop_group(struct dataset_field_spec *field, const char *value,
                                  struct error *err)
{
    uint64_t group;
    if (!number_parse(value, 0, 999999999, &group))
        return error_set(err, STATUS_INVALID, "'%s' is not a number from 0 to 999999999", value);
    field->crop_group = (uint32_t)group;
    return STATUS_OK;
}

/* Adds the crop of an axis, or replaces that of the same one. */
static enum status put_crop(struct dataset_field_spec *field, const char *axis, const char *value,
                            struct error *err)
{
    uint64_t length;
    size_t i = 0;
    if (strcmp(axis, "at") == 0)
        return put_crop_at(field, value, err);
    if (strcmp(axis, "group") == 0)
        return put_crop_group(field, value, err);
    if (!*axis || strlen(axis) >= OPTION_KEY_BYTES)
        return error_set(err, STATUS_INVALID, "an axis has a number or a name of 1 to %d bytes",
                         OPTION_KEY_BYTES - 1);
    if (!number_parse(value, 1, UINT64_C(1) << 48, &length))
        return error_set(err, STATUS_INVALID, "'%s' is not a number of indices above 0", value);
    while (i < field->crop_count && strcmp(field->crops[i].axis, axis) != 0)
        i++;
    if (i == DATASET_MAX_RANK)
        return error_set(err, STATUS_INVALID, "crops of more than %d axes", DATASET_MAX_RANK);
    if (i == field->crop_count) {
        enum status status = config_put_text(&field->crops[i].axis, axis, err);
        if (status != STATUS_OK)
            return status;
        field->crop_count++;
    }
    field->crops[i].length = length;
    return STATUS_OK;
}

static enum status put_property(struct dataset_field_spec *field, const char *property,
                                const char *value, struct error *err)
{
    bool is_array = strcmp(property, "array") == 0;
    if (!*value)
        return error_set(err, STATUS_INVALID, "the value is empty");
    if (is_array || strcmp(property, "index") == 0)
        return config_put_text(is_array ? &field->array : &field->index, value, err);
    if (strcmp(property, "store") == 0)
        return config_put_text(&field->store, value, err);
    if (strcmp(property, "align") == 0)
        return config_put_text(&field->align, value, err);
    if (strcmp(property, "method") == 0)
        return put_match(&field->match, value, err);
    if (strcmp(property, "sample_axis") == 0)
        return config_put_text(&field->sample_axis, value, err);
    if (strcmp(property, "cast") == 0)
        return put_cast(&field->cast, value, err);
    if (strcmp(property, "mean") == 0 || strcmp(property, "std") == 0)
        return config_put_text(property[0] == 'm' ? &field->mean : &field->std, value, err);
    if (strcmp(property, "stats") == 0)
        return config_put_text(&field->stats, value, err);
    if (strcmp(property, "normalise") == 0)
        return put_form(&field->stats_form, value, err);
    if (strcmp(property, "cf") == 0)
        return put_bool(&field->cf, value, err);
    if (strcmp(property, "steps") == 0)
        return put_steps(field, value, err);
    if (strncmp(property, "steps.", 6) == 0)
        return config_put_phase(field, property + 6, value, err);
    if (strcmp(property, "segments") == 0)
        return put_bool(&field->segments, value, err);
    if (strncmp(property, "crop.", 5) == 0)
        return put_crop(field, property + 5, value, err);
    if (strncmp(property, "slice.", 6) == 0)
        return put_slice(field, property + 6, value, err);
    if (strncmp(property, "ragged.", 7) == 0 || strncmp(property, "deliver", 7) == 0)
        return config_put_ragged(field, property, value, err);
    if (strcmp(property, "scale") == 0)
        return put_scale(&field->scale, &field->scale_at, value, false, err);
    return put_scale(&field->offset, &field->offset_at, value, true, err);
}

enum status config_check_property(const char *name, const char *property, struct error *err)
{
    const char *nearest = spelling_nearest(property, field_properties, FIELD_PROPERTIES);
    size_t length = strcspn(property, ".");
    for (size_t i = 0; i < FIELD_PROPERTIES; i++) {
        if (strlen(field_properties[i]) != length ||
            memcmp(property, field_properties[i], length) != 0)
            continue;
        enum property_kind kind = config_property_kind(field_properties[i]);
        bool is_map =
            kind == PROPERTY_MAP || kind == PROPERTY_MAP_OR_VALUE || kind == PROPERTY_MAP_OR_LIST;
        if (kind == PROPERTY_MAP && !property[length])
            return error_set(err, STATUS_INVALID,
                             "dataset.fields.%s.%s is a map: write it in the YAML file, or one key "
                             "at a time as dataset.fields.%s.%s.KEY",
                             name, property, name, property);
        if (is_map || !property[length])
            return STATUS_OK;
    }
    if (nearest)
        return error_set(err, STATUS_INVALID,
                         "unknown key 'dataset.fields.%s.%s': did you mean '%s'?", name, property,
                         nearest);
    return error_set(err, STATUS_INVALID,
                     "unknown key 'dataset.fields.%s.%s': a field has array, index, cast, scale, "
                     "offset, sample_axis, cf, mean, std, stats, normalise, steps, slice, crop, "
                     "segments, ragged, deliver, cut, only, align, method, store",
                     name, property);
}

enum status config_put_field_property(struct config *config, const char *name, const char *property,
                                      const char *value, struct error *err)
{
    enum status status = config_check_property(name, property, err);
    if (status == STATUS_OK && !find_field(config, name))
        status = config_put_field(config, name, name, NULL, err);
    if (status != STATUS_OK)
        return status;
    if (config_is_share(property))
        status = config_put_share(config, name, property, value, err);
    else
        status = put_property(find_field(config, name), property, value, err);
    return status != STATUS_OK ? error_prefix(err, status, "dataset.fields.%s.%s: ", name, property)
                               : STATUS_OK;
}

/* The property of "NAME.slice.AXIS", or of another map, cut off: "slice.AXIS". */
static const char *cut_map(char *name)
{
    static const char *const maps[] = {".slice.",   ".crop.", ".ragged.", ".steps.",
                                       ".deliver.", ".cut.",  ".only."};
    char *found = NULL;
    for (size_t i = 0; !found && i < sizeof maps / sizeof maps[0]; i++)
        found = strstr(name, maps[i]);
    if (!found || found == name)
        return NULL;
    *found = '\0';
    return found + 1;
}

/* The property of "NAME.PROPERTY", cut off; NULL where it ends in no property's name. */
static const char *cut_property(char *name)
{
    const char *map = cut_map(name);
    if (map)
        return map;
    char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && dot > name && i < FIELD_PROPERTIES; i++)
        if (strcmp(dot + 1, field_properties[i]) == 0) {
            *dot = '\0';
            return field_properties[i];
        }
    return NULL;
}

enum status config_set_field(struct config *config, char *name, char *value, struct error *err)
{
    const char *property = cut_property(name);
    if (property)
        return config_put_field_property(config, name, property, value, err);
    char *bracket = strchr(value, '[');
    if (!bracket)
        return config_put_field(config, name, value, NULL, err);
    size_t length = strlen(value);
    if (value[length - 1] != ']')
        return error_set(err, STATUS_INVALID,
                         "dataset.fields.%s: '%s' is neither ARRAY nor ARRAY[INDEX]", name, value);
    value[length - 1] = '\0';
    *bracket = '\0';
    return config_put_field(config, name, value, bracket + 1, err);
}
