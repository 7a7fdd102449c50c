/* See options.h: values of options, from and to text. */
#include "config/options.h"

#include "base/number.h"
#include "base/size.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define OPTION_ROW(key, member, type, preset, low, high, order, help) \
    {key, OPTION_##type, preset, low, high, order, help, offsetof(struct config, member)},
const struct option options[OPTION_COUNT] = {CONFIG_TABLE(OPTION_ROW)};
#undef OPTION_ROW

/* Names in order of their enum's values. */
static const char *const last_names[] = {PLAN_LAST_NAMES, NULL};
static const char *const placement_names[] = {PLAN_PLACEMENT_NAMES, NULL};
static const char *const bind_names[] = {"none", "numa", "core", NULL};
static const char *const cache_names[] = {"auto", "decoded", "stored", "off", NULL};
static const char *const bad_sample_names[] = {"fail", "mask", NULL};
static const char *const missing_chunk_names[] = {"auto", "fill", "fail", NULL};
static const char *const early_leave_names[] = {"fail", "warn", NULL};
static const char *const fill_names[] = {"edge", "zero", NULL};
static const char *const addressing_names[] = {"auto", "path", "virtual", NULL};

_Static_assert(PLAN_DROP == 0 && PLAN_PAD == 1 && PLAN_PARTIAL == 2, "order of last_names");
_Static_assert(PLAN_FIXED == 0 && PLAN_LOCAL == 1, "order of placement_names");
_Static_assert(BIND_NONE == 0 && BIND_NUMA == 1 && BIND_CORE == 2, "order of bind_names");
_Static_assert(CACHE_AUTO == 0 && CACHE_DECODED == 1 && CACHE_STORED == 2 && CACHE_OFF == 3,
               "order of cache_names");
_Static_assert(BAD_SAMPLE_FAIL == 0 && BAD_SAMPLE_MASK == 1, "order of bad_sample_names");
_Static_assert(MISSING_CHUNK_AUTO == 0 && MISSING_CHUNK_FILL == 1 && MISSING_CHUNK_FAIL == 2,
               "order of missing_chunk_names");
_Static_assert(EARLY_LEAVE_FAIL == 0 && EARLY_LEAVE_WARN == 1, "order of early_leave_names");
_Static_assert(SAMPLES_FILL_EDGE == 0 && SAMPLES_FILL_ZERO == 1, "order of fill_names");
_Static_assert(ADDRESSING_AUTO == 0 && ADDRESSING_PATH == 1 && ADDRESSING_VIRTUAL == 2,
               "order of addressing_names");
_Static_assert(sizeof(enum plan_last) == sizeof(unsigned), "choices are stored as unsigned");

static const char *const *choice_names(enum option_type type)
{
    switch (type) {
    case OPTION_CHOICE_LAST:
        return last_names;
    case OPTION_CHOICE_PLACEMENT:
        return placement_names;
    case OPTION_CHOICE_BIND:
        return bind_names;
    case OPTION_CHOICE_CACHE:
        return cache_names;
    case OPTION_CHOICE_BAD_SAMPLE:
        return bad_sample_names;
    case OPTION_CHOICE_MISSING_CHUNK:
        return missing_chunk_names;
    case OPTION_CHOICE_ADDRESSING:
        return addressing_names;
    case OPTION_CHOICE_EARLY_LEAVE:
        return early_leave_names;
    case OPTION_CHOICE_FILL:
        return fill_names;
    default:
        return NULL;
    }
}

static bool takes_auto(const struct option *option)
{
    return option->type == OPTION_AUTO_U64 || option->type == OPTION_AUTO_SIZE;
}

static bool is_size(const struct option *option)
{
    return option->type == OPTION_SIZE || option->type == OPTION_AUTO_SIZE;
}

const struct option *option_find(const char *key)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].key, key) == 0)
            return &options[i];
    return NULL;
}

bool option_begins(const char *key)
{
    size_t length = strlen(key);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strncmp(options[i].key, key, length) == 0 && options[i].key[length] == '_')
            return true;
    return false;
}

size_t option_section_length(const char *key)
{
    return strcspn(key, ".");
}

bool option_section_exists(const char *section)
{
    size_t length = strlen(section);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (option_section_length(options[i].key) == length &&
            memcmp(options[i].key, section, length) == 0)
            return true;
    return false;
}

static void print_number(const struct option *option, uint64_t value, struct text *out)
{
    if (is_size(option))
        text_append(out, "%s", size_format(value).text);
    else
        text_append(out, "%llu", (unsigned long long)value);
}

void option_describe_values(const struct option *option, struct text *out)
{
    const char *const *names = choice_names(option->type);
    if (names) {
        for (size_t i = 0; names[i]; i++)
            text_append(out, "%s%s", i == 0 ? "" : names[i + 1] ? ", " : " or ", names[i]);
    } else if (option->type == OPTION_STRING) {
        text_append(out, "text");
    } else if (option->type == OPTION_LIST) {
        text_append(out, "a list");
    } else if (option->type == OPTION_BOOL) {
        text_append(out, "true or false");
    } else if (option->type == OPTION_RANGE) {
        text_append(out, "a:b, of numbers of frames, or dates; or nothing");
    } else if (option->type == OPTION_SHARES) {
        text_append(out, "names and shares or ranges");
    } else {
        print_number(option, option->low, out);
        text_append(out, " to ");
        print_number(option, option->high, out);
        if (takes_auto(option))
            text_append(out, ", or auto");
    }
}

/* "order.epochs: '0' is <wrong>; it takes 1 to 4294967295". */
static enum status reject(const struct option *option, const char *text, const char *wrong,
                          struct error *err)
{
    struct text values = {0};
    option_describe_values(option, &values);
    enum status status = error_set(err, STATUS_INVALID, "%s: '%s' is %s; it takes %s", option->key,
                                   text, wrong, values.data);
    text_done(&values);
    return status;
}

static enum status parse_number(const struct option *option, const char *text, uint64_t *ret_value,
                                struct error *err)
{
    uint64_t value = 0;
    if (takes_auto(option) && strcmp(text, "auto") == 0) {
        *ret_value = 0;
        return STATUS_OK;
    }
    bool parsed = number_parse(text, 0, UINT64_MAX, &value);
    if (!parsed && is_size(option))
        parsed = size_parse(text, &value, NULL) == STATUS_OK;
    if (!parsed)
        return reject(option, text, is_size(option) ? "not a size" : "not a count", err);
    if (value < option->low || value > option->high)
        return reject(option, text, "out of range", err);
    *ret_value = value;
    return STATUS_OK;
}

static enum status store_string(const char **member, const struct option *option, const char *text,
                                struct error *err)
{
    /* A path may have an '@', an endpoint may not, not even one without its scheme. */
    bool is_endpoint =
        strcmp(option->key, "store.endpoint") == 0 || strcmp(option->key, "store.proxy") == 0;
    enum status status = is_endpoint && strchr(text, '@') ? config_refuse_secret(err)
                                                          : config_put_text(member, text, err);
    return status != STATUS_OK ? error_prefix(err, status, "%s: ", option->key) : STATUS_OK;
}

static enum status store_choice(unsigned *member, const struct option *option, const char *text,
                                struct error *err)
{
    const char *const *names = choice_names(option->type);
    assert(names); /* the option is a choice */
    for (unsigned i = 0; names[i]; i++) {
        if (strcmp(names[i], text) != 0)
            continue;
        *member = i;
        return STATUS_OK;
    }
    return reject(option, text, "not a choice", err);
}

static enum status store_bool(bool *member, const struct option *option, const char *text,
                              struct error *err)
{
    bool value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0)
        return reject(option, text, "not a truth value", err);
    *member = value;
    return STATUS_OK;
}

static enum status store_range(struct config_range *member, const struct option *option,
                               const char *text, struct error *err)
{
    struct config_range range;
    enum status status = config_parse_range(text, &range, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "%s: ", option->key);
    config_free_range(member);
    *member = range;
    return STATUS_OK;
}

static enum status store_shares(struct config_shares *member, const struct option *option,
                                const char *text, struct error *err)
{
    struct config_shares parts;
    enum status status = config_parse_shares(text, &parts, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "%s: ", option->key);
    config_free_shares(member);
    *member = parts;
    return STATUS_OK;
}

void option_done(struct config *config, const struct option *option)
{
    void *member = (char *)config + option->offset;
    if (option->type == OPTION_STRING || option->type == OPTION_LIST)
        free(*(char **)member);
    else if (option->type == OPTION_SHARES)
        config_free_shares(member);
    else if (option->type == OPTION_RANGE)
        config_free_range(member);
}

enum status option_store(struct config *config, const struct option *option, const char *text,
                         struct error *err)
{
    void *member = (char *)config + option->offset;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_LIST:
        return store_string(member, option, text, err);
    case OPTION_BOOL:
        return store_bool(member, option, text, err);
    case OPTION_RANGE:
        return store_range(member, option, text, err);
    case OPTION_SHARES:
        return store_shares(member, option, text, err);
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_AUTO_U64:
    case OPTION_AUTO_SIZE:
        return parse_number(option, text, member, err);
    default:
        return store_choice(member, option, text, err);
    }
}

void option_print(const struct config *config, const struct option *option, struct text *out)
{
    const void *member = (const char *)config + option->offset;
    switch (option->type) {
    case OPTION_STRING:
    case OPTION_LIST:
        print_quoted(*(char *const *)member, out);
        break;
    case OPTION_BOOL:
        text_append(out, "%s", *(const bool *)member ? "true" : "false");
        break;
    case OPTION_RANGE:
        config_print_range(member, out);
        break;
    case OPTION_SHARES:
        print_quoted(((const struct config_shares *)member)->text, out);
        break;
    case OPTION_U64:
    case OPTION_SIZE:
    case OPTION_AUTO_U64:
    case OPTION_AUTO_SIZE:
        if (takes_auto(option) && *(const uint64_t *)member == 0)
            text_append(out, "auto");
        else
            text_append(out, "%llu", (unsigned long long)*(const uint64_t *)member);
        break;
    default:
        text_append(out, "%s", choice_names(option->type)[*(const unsigned *)member]);
    }
}
