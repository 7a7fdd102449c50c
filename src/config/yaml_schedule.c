/* See yaml_internal.h and config.h: the weights of a mix by step, a list of maps:
 *
 *     mix:
 *       schedule:
 *         - {step: 0, weights: {a: 1}}
 *         - {step: 10000, weights: {a: 0.3, b: 0.7}, ramp: linear}
 *
 * The option keeps such a list as text, as --set gives it; names of sources count when all sources
 * are there.
 */
#include "config/yaml_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define LARGEST_STEP (UINT64_C(1) << 48)

/* What an entry's map has. */
struct entry {
    const char *step;
    const yaml_node_t *weights; /* a map of names to texts */
    bool ramp;
};

static enum status refuse_entry(const char *what, struct error *err)
{
    return error_set(err, STATUS_INVALID,
                     "mix.schedule: %s: it is a list of maps such as {step: 10000, weights: {a: "
                     "0.3, b: 0.7}, ramp: linear}, ramp optional",
                     what);
}

static enum status check_step(const char *text, struct error *err)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] || digits > 15 || strtoull(text, NULL, 10) > LARGEST_STEP)
        return error_set(err, STATUS_INVALID,
                         "mix.schedule: step '%.40s': it is a whole number, 0 to 2^48, of steps "
                         "from the start of the run",
                         text);
    return STATUS_OK;
}

static enum status check_ramp(const char *text, struct error *err)
{
    if (strcmp(text, "linear") == 0)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "mix.schedule: ramp '%.40s': linear is possible, or no ramp, where weights "
                     "change at once",
                     text);
}

static enum status check_weights(struct yaml_reader *reader, const yaml_node_t *map,
                                 struct error *err)
{
    enum status status = yaml_check_keys(reader, map, NULL, err);
    yaml_node_pair_t *pair = map->data.mapping.pairs.start;
    for (; pair < map->data.mapping.pairs.top && status == STATUS_OK; pair++)
        if (!scalar_text(node_at(reader, pair->key)) || !scalar_text(node_at(reader, pair->value)))
            status = refuse_entry("weights must be a map of sources' names to numbers", err);
    return status;
}

static enum status take_key(struct yaml_reader *reader, struct entry *entry,
                            const yaml_node_t *key_node, const yaml_node_t *value,
                            struct error *err)
{
    const char *key = scalar_text(key_node), *text = scalar_text(value);
    if (key && strcmp(key, "weights") == 0 && value->type == YAML_MAPPING_NODE) {
        entry->weights = value;
        return check_weights(reader, value, err);
    }
    if (key && strcmp(key, "step") == 0 && text) {
        entry->step = text;
        return check_step(text, err);
    }
    if (key && strcmp(key, "ramp") == 0 && text) {
        entry->ramp = true;
        return check_ramp(text, err);
    }
    char what[128];
    snprintf(what, sizeof what, "'%.63s' is no key of an entry, or has the wrong kind of value",
             key ? key : "?");
    return refuse_entry(what, err);
}

static enum status read_entry(struct yaml_reader *reader, const yaml_node_t *node,
                              struct entry *ret_entry, struct error *err)
{
    struct entry entry = {0};
    enum status status = node->type == YAML_MAPPING_NODE ? yaml_check_keys(reader, node, NULL, err)
                                                         : refuse_entry("an item is no map", err);
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; status == STATUS_OK && pair < node->data.mapping.pairs.top; pair++)
        status =
            take_key(reader, &entry, node_at(reader, pair->key), node_at(reader, pair->value), err);
    if (status == STATUS_OK && (!entry.step || !entry.weights))
        status = refuse_entry("an entry lacks step or weights", err);
    if (status == STATUS_OK)
        *ret_entry = entry;
    return status;
}

/* ---- as text ---- */

/* In quotes if YAML might take it for something else. */
static void print_name(const char *name, struct text *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
    if (*name && name[strspn(name, plain)] == '\0')
        text_append(out, "%s", name);
    else
        print_quoted(name, out);
}

static void print_entry(struct yaml_reader *reader, const struct entry *entry, struct text *out)
{
    text_append(out, "{step: %s, weights: {", entry->step);
    const yaml_node_pair_t *first = entry->weights->data.mapping.pairs.start;
    for (const yaml_node_pair_t *pair = first; pair < entry->weights->data.mapping.pairs.top;
         pair++) {
        text_append(out, pair > first ? ", " : "");
        print_name(scalar_text(node_at(reader, pair->key)), out);
        text_append(out, ": ");
        print_name(scalar_text(node_at(reader, pair->value)), out);
    }
    text_append(out, "}%s}", entry->ramp ? ", ramp: linear" : "");
}

enum status yaml_read_schedule(struct yaml_reader *reader, const struct option *option,
                               const yaml_node_t *list, struct error *err)
{
    struct text text = {0};
    enum status status = STATUS_OK;
    const yaml_node_item_t *first = list->data.sequence.items.start;
    text_append(&text, "[");
    for (const yaml_node_item_t *at = first;
         at < list->data.sequence.items.top && status == STATUS_OK; at++) {
        struct entry entry = {0};
        status = read_entry(reader, node_at(reader, *at), &entry, err);
        if (status != STATUS_OK) {
            status = at_node(reader, node_at(reader, *at), status, err);
            break;
        }
        text_append(&text, at > first ? ", " : "");
        print_entry(reader, &entry, &text);
    }
    text_append(&text, "]");
    if (status == STATUS_OK) {
        status = option_store(reader->config, option, text.data, err);
        status = status != STATUS_OK ? at_node(reader, list, status, err) : STATUS_OK;
    }
    text_done(&text);
    return status;
}

/* ---- weights ---- */

/* What entries come to. */
struct schedule {
    const struct config *config;
    struct config_weights *weights;
    uint32_t count;
    bool has_entry; /* else those are the sources' own */
};

/* The one source of that name. */
static enum status find_source(const struct config *config, const char *name, uint32_t *ret_source,
                               struct error *err)
{
    uint32_t found = config->source_count;
    for (uint32_t d = 0; d < config->source_count; d++) {
        if (strcmp(config->sources[d].name, name) != 0)
            continue;
        if (found < config->source_count)
            return error_set(err, STATUS_INVALID,
                             "mix.schedule: two sources are named '%.80s': give each a name of its "
                             "own in mix.sources",
                             name);
        found = d;
    }
    if (found < config->source_count) {
        *ret_source = found;
        return STATUS_OK;
    }
    struct text names = {0};
    for (uint32_t d = 0; d < config->source_count && d < 8; d++)
        text_append(&names, "%s'%.80s'", d > 0 ? ", " : "", config->sources[d].name);
    error_set(err, STATUS_INVALID, "mix.schedule: no source is named '%.80s': there is %s%s", name,
              names.data, config->source_count > 8 ? " and more" : "");
    text_done(&names);
    return STATUS_INVALID;
}

/* Sources that an entry does not name have weight 0. */
static enum status settle_entry(struct yaml_reader *reader, const struct config *config,
                                const struct entry *entry, struct config_weights *ret_weights,
                                struct error *err)
{
    struct config_weights weights = {.step = strtoull(entry->step, NULL, 10), .ramp = entry->ramp};
    struct mix_weight texts[DATASET_MAX_SOURCES];
    char where[80];
    enum status status = STATUS_OK;
    for (uint32_t d = 0; d < config->source_count; d++)
        texts[d] = (struct mix_weight){config->sources[d].name, "0"};
    const yaml_node_pair_t *pair = entry->weights->data.mapping.pairs.start;
    for (; pair < entry->weights->data.mapping.pairs.top && status == STATUS_OK; pair++) {
        uint32_t source = 0;
        status = find_source(config, scalar_text(node_at(reader, pair->key)), &source, err);
        if (status == STATUS_OK)
            texts[source].text = scalar_text(node_at(reader, pair->value));
    }
    snprintf(where, sizeof where, "mix.schedule: step %" PRIu64, weights.step);
    if (status == STATUS_OK)
        status = mix_parse_ratio(where, texts, config->source_count, true, weights.of, err);
    if (status == STATUS_OK)
        *ret_weights = weights;
    return status;
}

static enum status check_order(const struct schedule *schedule, const struct config_weights *next,
                               struct error *err)
{
    uint64_t before = schedule->count > 0 ? schedule->weights[schedule->count - 1].step : 0;
    bool is_first = !schedule->has_entry;
    if (next->step == 0 && next->ramp)
        return error_set(err, STATUS_INVALID,
                         "mix.schedule: the entry for step 0 has a ramp, and there are no weights "
                         "before it: a ramp ends at its entry's step");
    if (next->step > 0 && schedule->count == 0)
        return error_set(err, STATUS_INVALID,
                         "mix.schedule begins at step %" PRIu64 ": give an entry for step 0, or "
                         "the sources weights",
                         next->step);
    if (next->step <= before && !(is_first && next->step == 0))
        return error_set(err, STATUS_INVALID,
                         "mix.schedule: step %" PRIu64 " comes behind step %" PRIu64
                         ": put entries in rising order of their steps, one for each",
                         next->step, before);
    if (schedule->count == CONFIG_MAX_WEIGHTS)
        return error_set(err, STATUS_INVALID, "mix.schedule has more than %d entries",
                         CONFIG_MAX_ENTRIES);
    return STATUS_OK;
}

/* The next entry, behind those that there are. One for step 0 comes instead of sources' weights. */
static enum status add_entry(struct yaml_reader *reader, struct schedule *schedule,
                             const yaml_node_t *node, struct error *err)
{
    struct entry entry = {0};
    struct config_weights next;
    enum status status = read_entry(reader, node, &entry, err);
    if (status == STATUS_OK)
        status = settle_entry(reader, schedule->config, &entry, &next, err);
    if (status == STATUS_OK)
        status = check_order(schedule, &next, err);
    if (status != STATUS_OK)
        return status;
    if (next.step == 0)
        schedule->count = 0;
    schedule->has_entry = true;
    schedule->weights[schedule->count++] = next;
    return STATUS_OK;
}

static enum status read_text(struct yaml_reader *reader, struct schedule *schedule,
                             struct error *err)
{
    const yaml_node_t *list = yaml_document_get_root_node(&reader->document);
    if (!list || list->type != YAML_SEQUENCE_NODE)
        return refuse_entry("it is no list", err);
    enum status status = yaml_check_size(reader, err);
    const yaml_node_item_t *at = list->data.sequence.items.start;
    for (; at < list->data.sequence.items.top && status == STATUS_OK; at++)
        status = add_entry(reader, schedule, node_at(reader, *at), err);
    return status;
}

static enum status parse_text(struct schedule *schedule, struct error *err)
{
    const char *text = schedule->config->mix_schedule;
    struct yaml_reader reader = {.name = "mix.schedule"};
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, STATUS_NO_MEMORY, "mix.schedule: out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    enum status status = STATUS_OK;
    if (!yaml_parser_load(&parser, &reader.document)) {
        status = refuse_entry("it is no YAML", err);
    } else {
        status = read_text(&reader, schedule, err);
        yaml_document_delete(&reader.document);
    }
    yaml_parser_delete(&parser);
    return status;
}

enum status config_mix_weights(const struct config *config, struct config_weights *ret_weights,
                               uint32_t *ret_count, struct error *err)
{
    struct schedule schedule = {.config = config, .weights = ret_weights};
    enum status status = STATUS_OK;
    if (config->sources[0].weight > 0) /* all have */
        ret_weights[schedule.count++] = (struct config_weights){0};
    for (uint32_t d = 0; d < config->source_count && schedule.count > 0; d++)
        ret_weights[0].of[d] = config->sources[d].weight;
    if (*config->mix_schedule)
        status = parse_text(&schedule, err);
    if (status == STATUS_OK && schedule.count == 0)
        status = error_set(err, STATUS_INVALID,
                           "mix.sources: '%s' has no weight: give each source one, or mix.schedule "
                           "weights for step 0",
                           config->sources[0].name);
    if (status == STATUS_OK)
        *ret_count = schedule.count;
    return status;
}
