/* See config.h: defaults, single assignments, the environment, checks. Reading YAML is in yaml.c,
 * fields of the dataset are in fields.c. */
#include "config/config.h"

#include "base/address.h"
#include "base/number.h"
#include "base/text.h"
#include "config/options.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char FIELDS_PREFIX[] = "dataset.fields.", CUTS_PREFIX[] = "dataset.cuts.";

enum status config_init(struct config *ret_config, struct error *err)
{
    struct config config = {0};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        enum status status = option_store(&config, &options[i], options[i].preset, err);
        if (status != STATUS_OK) {
            config_done(&config);
            return status;
        }
    }
    *ret_config = config;
    return STATUS_OK;
}

void config_done(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        option_done(config, &options[i]);
    for (size_t i = 0; i < config->field_count; i++)
        config_free_field(&config->fields[i]);
    free(config->fields);
    config_free_cuts(config);
    mix_clear(config);
    *config = (struct config){0};
}

/* `key` is "NAME.PROPERTY". */
static enum status set_cut(struct config *config, char *key, const char *value, struct error *err)
{
    char *dot = strrchr(key, '.');
    if (!dot)
        return error_set(err, STATUS_INVALID,
                         "dataset.cuts.%s is a map: write dataset.cuts.%s.over, .order or .split",
                         key, key);
    *dot = '\0';
    return config_put_cut(config, key, dot + 1, value, err);
}

static enum status set_key(struct config *config, char *key, char *value, struct error *err)
{
    size_t prefix = sizeof FIELDS_PREFIX - 1;
    if (strncmp(key, FIELDS_PREFIX, prefix) == 0)
        return config_set_field(config, key + prefix, value, err);
    if (strncmp(key, CUTS_PREFIX, sizeof CUTS_PREFIX - 1) == 0)
        return set_cut(config, key + sizeof CUTS_PREFIX - 1, value, err);
    if (strcmp(key, "mix.sources") == 0)
        return mix_set(config, value, err);
    const struct option *option = option_find(key);
    return option ? option_store(config, option, value, err) : option_unknown(key, err);
}

enum status config_set(struct config *config, const char *assignment, struct error *err)
{
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return error_set(err, STATUS_INVALID, "--set %s: write section.key=value", assignment);
    char *copy = strdup(assignment);
    if (!copy)
        return error_set(err, STATUS_NO_MEMORY, "--set %s: out of memory", assignment);
    copy[equals - assignment] = '\0';
    enum status status = set_key(config, copy, copy + (equals - assignment) + 1, err);
    free(copy);
    if (status == STATUS_OK)
        return STATUS_OK;
    /* The value is shown unless it may be a secret; as much of it as leaves the message room. */
    enum { MOST_SHOWN = 200 };
    int shown = option_is_secret(assignment) || strstr(assignment, "://") || strchr(assignment, '@')
                    ? (int)(equals - assignment)
                    : (int)strlen(assignment);
    return error_prefix(err, status, "--set %.*s: ", shown < MOST_SHOWN ? shown : MOST_SHOWN,
                        assignment);
}

/* "order.seed" -> "PENSTOCK_ORDER_SEED". */
static void environment_name(const char *key, char *ret_name, size_t capacity)
{
    snprintf(ret_name, capacity, "PENSTOCK_%s", key);
    for (char *c = ret_name; *c; c++)
        *c = *c == '.' ? '_' : (char)toupper((unsigned char)*c);
}

/* "PENSTOCK_ORDER_SED=3" -> "order.sed"; false for what names no section, and for an empty value.
 */
static bool environment_key(const char *variable, char *ret_key, size_t capacity)
{
    static const char prefix[] = "PENSTOCK_";
    size_t length = strcspn(variable, "=");
    if (strncmp(variable, prefix, sizeof prefix - 1) != 0 || length < sizeof prefix ||
        !variable[length] || !variable[length + 1])
        return false;
    char key[2 * OPTION_KEY_BYTES];
    snprintf(key, sizeof key, "%.*s", (int)(length - (sizeof prefix - 1)),
             variable + sizeof prefix - 1);
    for (char *c = key; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    char *underscore = strchr(key, '_');
    if (!underscore)
        return false;
    *underscore = '\0';
    if (!option_section_exists(key))
        return false;
    *underscore = '.';
    snprintf(ret_key, capacity, "%s", key);
    return true;
}

/* Whether all of `text` is `start`, and something of digits, capitals and '_' behind if `open`. */
static bool is_suffix(const char *text, const char *start, bool open)
{
    size_t length = strlen(start);
    if (strncmp(text, start, length) != 0)
        return false;
    text += length;
    return open ? strspn(text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == strcspn(text, "=")
                : *text == '=';
}

/* "_PORT_9400_TCP=", "_PORT_9400_UDP_ADDR=" */
static bool is_port_suffix(const char *text)
{
    static const char *const protocols[] = {"_TCP", "_UDP", "_SCTP"};
    const char *digits = text + strlen("_PORT_");
    bool found = false;
    if (strncmp(text, "_PORT_", strlen("_PORT_")) != 0)
        return false;
    const char *behind = digits + strspn(digits, "0123456789");
    for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++)
        found |= is_suffix(behind, protocols[i], true);
    return behind > digits && found;
}

/* Kubernetes puts the services of a namespace into the environment of its pods: of a service named
 * penstock-metrics PENSTOCK_METRICS_SERVICE_HOST, PENSTOCK_METRICS_PORT=tcp://10.96.0.17:9400, and
 * more. */
static bool is_of_kubernetes(const char *variable)
{
    for (const char *at = strchr(variable, '_'); at && at < strchr(variable, '=');
         at = strchr(at + 1, '_'))
        if (is_suffix(at, "_SERVICE_HOST", false) || is_suffix(at, "_SERVICE_PORT", true) ||
            is_port_suffix(at) || (is_suffix(at, "_PORT", false) && strstr(at, "://")))
            return true;
    return false;
}

/* Refuses a slip like PENSTOCK_ORDER_SED, which would go unnoticed. */
static enum status check_environment(struct error *err)
{
    for (char **variable = environ; *variable; variable++) {
        char key[2 * OPTION_KEY_BYTES];
        if (!environment_key(*variable, key, sizeof key) || option_find(key) ||
            strcmp(key, "mix.sources") == 0 || is_of_kubernetes(*variable))
            continue;
        enum status status = option_unknown(key, err);
        return error_prefix(err, status,
                            "environment variable %.*s: ", (int)strcspn(*variable, "="), *variable);
    }
    return STATUS_OK;
}

static enum status read_mix_variable(struct config *config, struct error *err)
{
    const char *value = getenv("PENSTOCK_MIX_SOURCES");
    enum status status = value && *value ? mix_set(config, value, err) : STATUS_OK;
    return status != STATUS_OK
               ? error_prefix(err, status, "environment variable PENSTOCK_MIX_SOURCES: ")
               : STATUS_OK;
}

enum status config_read_environment(struct config *config, struct error *err)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char name[OPTION_KEY_BYTES + 16];
        environment_name(options[i].key, name, sizeof name);
        const char *value = getenv(name);
        if (!value || !*value)
            continue;
        enum status status = option_store(config, &options[i], value, err);
        if (status != STATUS_OK)
            return error_prefix(err, status, "environment variable %s: ", name);
    }
    enum status status = read_mix_variable(config, err);
    return status != STATUS_OK ? status : check_environment(err);
}

static enum status check_global_batch(unsigned long long global_batch, const struct config *config,
                                      struct error *err)
{
    unsigned long long trainers = config_group_count(config);
    if (global_batch >= trainers)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "batch.global_size %llu is less than %s %llu: a step has a sample for each; "
                     "raise it to at least %llu",
                     global_batch, *config->mesh ? "delivery.mesh's groups," : "delivery.trainers",
                     trainers, trainers);
}

static enum status check_uris(const char *list, struct error *err)
{
    struct text uri = {0};
    bool empty = false;
    const char *at = list;
    while (text_list_take(&at, &uri))
        empty = empty || uri.length == 0;
    text_done(&uri);
    if (!empty)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "dataset.uri '%s' has an empty item: a comma separates stores, and \\, is one "
                     "in a name",
                     list);
}

static enum status check_crops(const struct config *config, struct error *err)
{
    for (size_t i = 0; i < config->field_count; i++) {
        const struct dataset_field_spec *field = &config->fields[i];
        if (field->crop_group > 0 && field->crop_at != CROP_RANDOM)
            return error_set(err, STATUS_INVALID,
                             "dataset.fields.%s.crop.group is for crops with at: random",
                             field->name);
        if ((field->crop_count > 0) != (field->crop_at != CROP_NONE))
            return error_set(err, STATUS_INVALID,
                             "dataset.fields.%s.crop: write lengths of axes and where they are cut "
                             "out: {lat: 64, lon: 64, at: random}, or at: center",
                             field->name);
    }
    return STATUS_OK;
}

static enum status check_matches(const struct config *config, struct error *err)
{
    for (size_t i = 0; i < config->field_count; i++)
        if (config->fields[i].match != MATCH_EXACT && !config->fields[i].align)
            return error_set(err, STATUS_INVALID,
                             "dataset.fields.%s.method is set without align, the array of "
                             "coordinates that the method is for",
                             config->fields[i].name);
    return STATUS_OK;
}

static enum status check_metrics(const struct config *config, struct error *err)
{
    struct address address;
    if (*config->metrics_listen &&
        address_parse(config->metrics_listen, &address, err) != STATUS_OK)
        return error_prefix(err, STATUS_INVALID, "metrics.listen: ");
    if (*config->metrics_file && config->metrics_file[0] != '/')
        return error_set(err, STATUS_INVALID,
                         "metrics.file '%s' is relative: name the file, which each node has its "
                         "own of, by its absolute path",
                         config->metrics_file);
    return STATUS_OK;
}

enum status config_check_dataset(const struct config *config, struct error *err)
{
    if (!*config->uri)
        return error_set(
            err, STATUS_INVALID,
            "dataset.uri is not set: name the dataset in the YAML file (-c), or with --set "
            "dataset.uri=PATH");
    enum status status = check_uris(config->uri, err);
    if (status == STATUS_OK)
        status = config_check_samples(config, err);
    if (status == STATUS_OK)
        status = check_matches(config, err);
    return status != STATUS_OK ? status : check_crops(config, err);
}

/* "512,1024,2048" */
static enum status parse_buckets(const struct config *config, struct length_bounds *ret_bounds,
                                 struct error *err)
{
    const char *at = config->budget_buckets;
    struct text item = {0};
    bool fine = true;
    *ret_bounds = (struct length_bounds){0};
    while (fine && text_list_take(&at, &item)) {
        const char *digits = item.data ? item.data : "";
        digits += strspn(digits, " ");
        uint64_t bound = 0, last = 0;
        if (ret_bounds->count > 0)
            last = ret_bounds->of[ret_bounds->count - 1];
        fine = number_parse(digits, last + 1, config->budget_items, &bound) &&
               ret_bounds->count < LENGTHS_MAX_BOUNDS;
        if (fine)
            ret_bounds->of[ret_bounds->count++] = bound;
    }
    text_done(&item);
    if (fine)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "batch.budget_buckets '%s': write up to %d lengths from 1 to "
                     "batch.budget_items, %" PRIu64 ", that rise: [512, 1024, 2048]",
                     config->budget_buckets, LENGTHS_MAX_BOUNDS, config->budget_items);
}

static enum status check_budget(const struct config *config, struct error *err)
{
    bool named = *config->budget_field != '\0';
    if (named != (config->budget_items > 0))
        return error_set(err, STATUS_INVALID,
                         "batch.budget_field and batch.budget_items belong together: set both, or "
                         "none");
    if (named && config->last == PLAN_PAD)
        return error_set(err, STATUS_INVALID,
                         "batch.last pad: with batch.budget_field each sample comes once, and "
                         "steps have unequal numbers of samples; leave batch.last out");
    if (!named && *config->budget_buckets)
        return error_set(err, STATUS_INVALID,
                         "batch.budget_buckets belongs to batch.budget_field, which is not set");
    struct length_bounds bounds;
    return parse_buckets(config, &bounds, err);
}

enum status config_check_beside(const struct config *config, struct error *err)
{
    enum status status = mix_check(config, err);
    if (status == STATUS_OK)
        status = check_budget(config, err);
    if (status == STATUS_OK && config->source_count == 0)
        status = config_check_dataset(config, err);
    if (status != STATUS_OK)
        return status;
    if (*config->cache_dir && config->cache_dir[0] != '/')
        return error_set(err, STATUS_INVALID,
                         "readers.cache_dir '%s' is relative: name the directory, which each node "
                         "has its own of, by its absolute path",
                         config->cache_dir);
    status = check_metrics(config, err);
    if (status == STATUS_OK && !*config->transform_run &&
        (config->transform_processes > 0 || *config->transform_fields))
        status =
            error_set(err, STATUS_INVALID,
                      "delivery.transform has no `run`: give the command of the program, as in "
                      "transform: {run: python3 augment.py}");
    if (status != STATUS_OK)
        return status;
    struct store_settings settings;
    return config_store_settings(config, &settings, err);
}

enum status config_check(const struct config *config, struct error *err)
{
    enum status status = config_check_beside(config, err);
    if (status == STATUS_OK)
        status = config_check_mesh(config, err);
    return status != STATUS_OK ? status : check_global_batch(config->global_batch, config, err);
}

/* "403,404" */
static enum status parse_missing(struct store_settings *settings, const char *text,
                                 struct error *err)
{
    uint32_t count = 0;
    uint16_t missing[STORE_MISSING_MOST];
    const char *at = text;
    for (;;) {
        uint64_t status;
        at += strspn(at, " ");
        const char *end = at + strspn(at, "0123456789");
        if (!number_parse_part(at, (size_t)(end - at), 400, 499, &status) ||
            count == STORE_MISSING_MOST)
            break;
        missing[count++] = (uint16_t)status;
        end += strspn(end, " ");
        if (*end == '\0') {
            settings->missing_count = count;
            memcpy(settings->missing, missing, sizeof missing[0] * count);
            return STATUS_OK;
        }
        if (*end != ',')
            break;
        at = end + 1;
    }
    return error_set(err, STATUS_INVALID,
                     "store.missing_status: '%s': write one to %d HTTP statuses from 400 to 499, "
                     "separated by commas: \"403,404\"",
                     text, STORE_MISSING_MOST);
}

static enum status copy_text(char *out, size_t capacity, const char *text, const char *key,
                             struct error *err)
{
    if (strlen(text) >= capacity)
        return error_set(err, STATUS_INVALID, "%s: more than %zu bytes", key, capacity - 1);
    strcpy(out, text);
    return STATUS_OK;
}

static enum status copy_setting(char out[STORE_TEXT_BYTES], const char *text, const char *key,
                                struct error *err)
{
    return copy_text(out, STORE_TEXT_BYTES, text, key, err);
}

enum status config_store_settings(const struct config *config, struct store_settings *ret_settings,
                                  struct error *err)
{
    struct store_settings settings = {.requests = (uint32_t)config->store_requests,
                                      .timeout_s = (uint32_t)config->store_timeout_s,
                                      .fetch_bytes = config->store_fetch_bytes,
                                      .hedge = config->store_hedge,
                                      .direct = config->store_direct,
                                      .anonymous = config->store_anonymous,
                                      .metadata = config->store_metadata,
                                      .addressing = (uint8_t)config->s3_addressing};
    enum status status = parse_missing(&settings, config->store_missing, err);
    if (status == STATUS_OK)
        status = copy_setting(settings.ca_file, config->store_ca_file, "store.ca_file", err);
    if (status == STATUS_OK)
        status = copy_setting(settings.endpoint, config->store_endpoint, "store.endpoint", err);
    if (status == STATUS_OK)
        status = copy_setting(settings.region, config->s3_region, "store.s3_region", err);
    if (status == STATUS_OK)
        status = copy_setting(settings.headers, config->store_headers, "store.headers", err);
    if (status == STATUS_OK)
        status = copy_setting(settings.proxy, config->store_proxy, "store.proxy", err);
    if (status == STATUS_OK)
        status =
            copy_setting(settings.payer, config->store_requester_pays, "store.requester_pays", err);
    if (status == STATUS_OK)
        status = copy_text(settings.virtual_prefixes, STORE_LIST_BYTES, config->virtual_prefixes,
                           "store.virtual", err);
    if (status == STATUS_OK)
        *ret_settings = settings;
    return status;
}

static struct dataset_samples_spec samples_spec(const struct config *config)
{
    return (struct dataset_samples_spec){.episodes_ends = config->episodes_ends,
                                         .episodes_id = config->episodes_id,
                                         .episodes_jumps = config->episodes_jumps,
                                         .continuous = config->continuous,
                                         .stride = config->stride,
                                         .pad_before = config->pad_before,
                                         .pad_after = config->pad_after,
                                         .fill = config->fill,
                                         .missing = config->missing,
                                         .where = config->where,
                                         .weight = config->weight,
                                         .draws = config->draws,
                                         .split_part = config->split_part,
                                         .split_by = config->split_by,
                                         .split_parts = config->split_parts.parts,
                                         .split_part_count = config->split_parts.count,
                                         .split_seed = config->split_seed,
                                         .split_begin = config->split_range.begin,
                                         .split_end = config->split_range.end,
                                         .split_range = config->split_range.text,
                                         .split_gap = config->split_gap,
                                         .segments = config->segments,
                                         .row_chunks = config->row_chunks};
}

struct dataset_options config_dataset_options(const struct config *config,
                                              struct store_watch *watch)
{
    struct store_settings settings = {0}; /* the default ones, where nobody checked */
    struct length_bounds bounds;
    (void)!config_store_settings(config, &settings, NULL);
    (void)!parse_buckets(config, &bounds, NULL);
    return (struct dataset_options){.uri = config->uri,
                                    .group = config->group,
                                    .exclude = config->exclude,
                                    .sample_axis = config->sample_axis,
                                    .multiscale = config->multiscale,
                                    .fields = config->fields,
                                    .field_count = config->field_count,
                                    .samples = samples_spec(config),
                                    .constants = config->constants,
                                    .length_field =
                                        *config->budget_field ? config->budget_field : NULL,
                                    .length_bounds = bounds,
                                    .hold_limit_bytes = config->hold_limit_bytes,
                                    .cache_dir = config->cache_dir,
                                    .cache_dir_bytes = config->cache_dir_bytes,
                                    .mask = config->bad_sample == BAD_SAMPLE_MASK,
                                    .missing_is_bad = config->missing_chunk == MISSING_CHUNK_FAIL,
                                    .fills_empty = config->missing_chunk == MISSING_CHUNK_FILL,
                                    .retries = (uint32_t)config->store_retries,
                                    .index_cache_bytes = config->index_cache_bytes,
                                    .coalesce_gap_bytes = config->coalesce_gap_bytes,
                                    .coalesce_bytes = config->coalesce_bytes,
                                    .store = settings,
                                    .watch = watch};
}

uint64_t config_epochs(const struct config *config)
{
    return config->epochs ? config->epochs : CONFIG_ENDLESS_EPOCHS;
}

bool config_may_keep_stored(const struct config *config)
{
    return config_epochs(config) > 1 &&
           (config->cache == CACHE_AUTO || config->cache == CACHE_STORED);
}
