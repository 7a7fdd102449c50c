/* See options.h: the sources of a mix, and opening a mix. */
#include "config/options.h"

#include "config/yaml_internal.h"

#include <stdlib.h>

bool mix_is_own(const struct option *option)
{
    return (strncmp(option->key, "dataset.", 8) == 0 &&
            strcmp(option->key, "dataset.hold_limit") != 0) ||
           strncmp(option->key, "samples.", 8) == 0 || strcmp(option->key, "order.shuffle") == 0 ||
           strcmp(option->key, "order.window_rows") == 0;
}

enum status mix_refuse_nested(struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "a mix within a mix: list all sources, with their weights, in one mix");
}

/* Sources
 * ---------------------------------------------------------------------------------------------- */

void mix_free_source(struct config_source *source)
{
    if (source->config)
        config_done(source->config);
    free(source->config);
    free(source->name);
    free(source->weight_text);
    *source = (struct config_source){0};
}

void mix_clear(struct config *config)
{
    for (uint32_t i = 0; i < config->source_count; i++)
        mix_free_source(&config->sources[i]);
    free(config->sources);
    config->sources = NULL;
    config->source_count = 0;
}

enum status mix_new_source(const char *name, const char *weight, struct config_source *ret_source,
                           struct error *err)
{
    struct config_source source = {.name = strdup(name),
                                   .weight_text = strdup(weight),
                                   .config = calloc(1, sizeof *source.config)};
    enum status status = source.name && source.weight_text && source.config
                             ? config_init(source.config, err)
                             : error_set(err, STATUS_NO_MEMORY, "mix.sources: out of memory");
    if (status != STATUS_OK)
        mix_free_source(&source);
    else
        *ret_source = source;
    return status;
}

enum status mix_add(struct config *config, struct config_source source, struct error *err)
{
    struct config_source *sources = NULL;
    enum status status = STATUS_OK;
    if (config->source_count == DATASET_MAX_SOURCES)
        status = error_set(err, STATUS_INVALID, "mix.sources: more than %d", DATASET_MAX_SOURCES);
    else if (!(sources = realloc(config->sources, (config->source_count + 1) * sizeof *sources)))
        status = error_set(err, STATUS_NO_MEMORY, "mix.sources: out of memory");
    if (status != STATUS_OK) {
        mix_free_source(&source);
        return status;
    }
    config->sources = sources;
    config->sources[config->source_count++] = source;
    return STATUS_OK;
}

enum status mix_settle(struct config *config, struct error *err)
{
    struct mix_weight weights[DATASET_MAX_SOURCES];
    uint64_t ratio[DATASET_MAX_SOURCES] = {0};
    uint32_t given = 0;
    if (config->source_count == 0)
        return error_set(err, STATUS_INVALID, "mix.sources has no source");
    for (uint32_t i = 0; i < config->source_count; i++) {
        weights[i] = (struct mix_weight){config->sources[i].name, config->sources[i].weight_text};
        given += *weights[i].text != '\0';
    }
    enum status status =
        given > 0 ? mix_parse_ratio("mix.sources", weights, config->source_count, false, ratio, err)
                  : STATUS_OK; /* mix_check() */
    for (uint32_t i = 0; i < config->source_count && status == STATUS_OK; i++)
        config->sources[i].weight = (uint32_t)ratio[i];
    return status;
}

/* Assignments, checks, text
 * ---------------------------------------------------------------------------------------------- */

/* "FILE:WEIGHT". */
static enum status add_item(struct config *config, const char *item, struct error *err)
{
    const char *colon = strrchr(item, ':');
    if (!colon || colon == item || !colon[1])
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a file and a weight: write \"a.yaml:0.7,b.yaml:0.3\"", item);
    struct config_source source;
    char *name = strndup(item, (size_t)(colon - item));
    enum status status = name ? mix_new_source(name, colon + 1, &source, err)
                              : error_set(err, STATUS_NO_MEMORY, "out of memory");
    if (status == STATUS_OK)
        status = mix_add(config, source, err);
    if (status == STATUS_OK)
        status = yaml_read_file(source.config, name, true, err);
    free(name);
    return status;
}

enum status mix_set(struct config *config, const char *value, struct error *err)
{
    struct text item = {0};
    enum status status = STATUS_OK;
    mix_clear(config);
    while (status == STATUS_OK && text_list_take(&value, &item))
        status = add_item(config, item.data, err);
    text_done(&item);
    return status != STATUS_OK ? status : mix_settle(config, err);
}

/* Whether the option has another value than by default. */
static bool is_set(const struct config *config, const struct config *preset,
                   const struct option *option)
{
    struct text text = {0}, by_default = {0};
    option_print(config, option, &text);
    option_print(preset, option, &by_default);
    bool differs = strcmp(text.data, by_default.data) != 0;
    text_done(&text);
    text_done(&by_default);
    return differs;
}

static enum status refuse_outer(const char *key, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "%s is set beside mix.sources: each source has its own, in its own "
                     "configuration",
                     key);
}

/* The options that sources have are not set in the configuration that has the mix. */
static enum status check_outer(const struct config *config, struct error *err)
{
    struct config preset;
    enum status status = config_init(&preset, err);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < OPTION_COUNT && status == STATUS_OK; i++)
        if (mix_is_own(&options[i]) && is_set(config, &preset, &options[i]))
            status = refuse_outer(options[i].key, err);
    config_done(&preset);
    if (status == STATUS_OK && config->field_count > 0)
        status = refuse_outer("dataset.fields", err);
    return status;
}

enum status mix_check(const struct config *config, struct error *err)
{
    struct config_weights weights[CONFIG_MAX_WEIGHTS];
    uint32_t count;
    const char *of_mix = config->mix_samples > 0 ? "mix.samples"
                         : *config->mix_schedule ? "mix.schedule"
                         : !config->mix_repeat   ? "mix.repeat"
                                                 : NULL;
    if (config->source_count == 0 && of_mix)
        return error_set(err, STATUS_INVALID, "%s is set without mix.sources, which are mixed",
                         of_mix);
    if (config->source_count == 0)
        return STATUS_OK;
    enum status status = check_outer(config, err);
    for (uint32_t i = 0; i < config->source_count && status == STATUS_OK; i++) {
        status = config_check_dataset(config->sources[i].config, err);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "mix.sources: '%s': ", config->sources[i].name);
    }
    return status != STATUS_OK ? status : config_mix_weights(config, weights, &count, err);
}

/* Appends the lines of `text`, each behind blanks. */
static void indent(const char *text, int blanks, struct text *out)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        text_append(out, "%*s%.*s\n", blanks, "", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

void mix_print(const struct config *config, struct text *out)
{
    if (config->source_count > 0)
        text_append(out, "  sources:\n");
    for (uint32_t i = 0; i < config->source_count; i++) {
        const struct config_source *source = &config->sources[i];
        struct text own = {0};
        text_append(out, "    - name: ");
        print_quoted(source->name, out);
        if (*source->weight_text)
            text_append(out, "\n      weight: %s", source->weight_text);
        text_append(out, "\n      config:\n");
        config_print_some(source->config, mix_is_own, &own);
        indent(own.data, 8, out);
        text_done(&own);
    }
}

/* Opening
 * ---------------------------------------------------------------------------------------------- */

/* The source's own options; those of stores, caches and errors are the mix's. */
static struct dataset_options source_options(const struct dataset_options *outer,
                                             const struct config_source *source)
{
    struct dataset_options own = config_dataset_options(source->config, NULL);
    own.length_field = outer->length_field;
    own.length_bounds = outer->length_bounds;
    own.hold_limit_bytes = outer->hold_limit_bytes;
    own.cache_dir = outer->cache_dir;
    own.cache_dir_bytes = outer->cache_dir_bytes;
    own.mask = outer->mask;
    own.missing_is_bad = outer->missing_is_bad;
    own.fills_empty = outer->fills_empty;
    own.retries = outer->retries;
    own.index_cache_bytes = outer->index_cache_bytes;
    own.coalesce_gap_bytes = outer->coalesce_gap_bytes;
    own.coalesce_bytes = outer->coalesce_bytes;
    own.store = outer->store;
    own.watch = outer->watch;
    return own;
}

enum status config_open_dataset(const struct config *config, bool caches, struct store_watch *watch,
                                struct dataset **ret_dataset, struct error *err)
{
    struct dataset_mix_source sources[DATASET_MAX_SOURCES];
    struct dataset_options all = config_dataset_options(config, watch);
    if (!caches)
        all.cache_dir = NULL;
    if (config->source_count == 0)
        return dataset_open(&all, ret_dataset, err);
    for (uint32_t i = 0; i < config->source_count; i++)
        sources[i] = (struct dataset_mix_source){
            .name = config->sources[i].name, .options = source_options(&all, &config->sources[i])};
    return dataset_open_mix(sources, config->source_count, ret_dataset, err);
}
