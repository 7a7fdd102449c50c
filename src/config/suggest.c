/* See options.h: messages about unknown keys, with the key that was probably meant. */
#include "config/options.h"

#include "base/spelling.h"

#include <stdio.h>
#include <string.h>

/* The right key in the wrong section: batch.seed for order.seed. */
static const char *same_name_elsewhere(const char *key)
{
    const char *dot = strrchr(key, '.');
    for (size_t i = 0; dot && i < OPTION_COUNT; i++)
        if (strcmp(options[i].key + option_section_length(options[i].key), dot) == 0)
            return options[i].key;
    return NULL;
}

const char *option_nearest(const char *key)
{
    const char *keys[OPTION_COUNT + 2];
    for (size_t i = 0; i < OPTION_COUNT; i++)
        keys[i] = options[i].key;
    keys[OPTION_COUNT] = "dataset.fields";
    keys[OPTION_COUNT + 1] = "dataset.cuts";
    const char *nearest = spelling_nearest(key, keys, OPTION_COUNT + 2);
    return nearest ? nearest : same_name_elsewhere(key);
}

/* `names` is room for the sections' names, to one of which the result points. */
static const char *nearest_section(const char *section, char names[][OPTION_KEY_BYTES])
{
    const char *sections[OPTION_COUNT];
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        snprintf(names[i], OPTION_KEY_BYTES, "%.*s", (int)option_section_length(options[i].key),
                 options[i].key);
        sections[i] = names[i];
    }
    return spelling_nearest(section, sections, OPTION_COUNT);
}

/* Lists the keys of the section, for a key that is near no other. */
static enum status list_section(const char *key, const char *section, struct error *err)
{
    struct text names = {0};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        size_t length = option_section_length(options[i].key);
        if (strlen(section) == length && memcmp(options[i].key, section, length) == 0)
            text_append(&names, "%s%s", names.length > 0 ? ", " : "", options[i].key + length + 1);
    }
    if (strcmp(section, "dataset") == 0)
        text_append(&names, ", fields, cuts");
    enum status status =
        error_set(err, STATUS_INVALID, "unknown key '%s': %s has: %s", key, section, names.data);
    text_done(&names);
    return status;
}

bool option_is_secret(const char *key)
{
    static const char *const words[] = {"secret",     "password",   "passwd",   "token",
                                        "access_key", "credential", "signature"};
    size_t length = strcspn(key, "=");
    if (option_find(key))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *found = strcasestr(key, words[i]);
        if (found && found < key + length)
            return true;
    }
    return false;
}

enum status option_unknown(const char *key, struct error *err)
{
    if (option_is_secret(key))
        return error_set(err, STATUS_INVALID,
                         "'%s': no secrets in the configuration, which is printed and sent around: "
                         "credentials are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                         "or from ~/.aws/credentials (AWS_PROFILE)",
                         key);
    if (strcmp(key, "dataset.fields") == 0)
        return error_set(err, STATUS_INVALID,
                         "dataset.fields is a map: write it in the YAML file, or one field at a "
                         "time as --set dataset.fields.NAME=ARRAY");
    if (strcmp(key, "dataset.cuts") == 0)
        return error_set(err, STATUS_INVALID,
                         "dataset.cuts is a map: write it in the YAML file, or one property at a "
                         "time as --set dataset.cuts.NAME.over=AXIS");
    char names[OPTION_COUNT][OPTION_KEY_BYTES], section[OPTION_KEY_BYTES];
    const char *nearest = strchr(key, '.') ? option_nearest(key) : nearest_section(key, names);
    if (nearest)
        return error_set(err, STATUS_INVALID, "unknown key '%s': did you mean '%s'?", key, nearest);
    snprintf(section, sizeof section, "%.*s", (int)strcspn(key, "."), key);
    if (option_section_exists(section))
        return list_section(key, section, err);
    return error_set(err, STATUS_INVALID, "unknown key '%s': penstock-reader --help lists all keys",
                     key);
}
