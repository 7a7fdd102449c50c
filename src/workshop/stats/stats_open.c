/* Which fields of a configuration there are statistics of, and the dataset of these alone. See
 * stats.h. */
#include "workshop/stats/stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields that stay, of all that the configuration has. */
struct choice {
    struct dataset_options options; /* of all fields */
    struct dataset_field_spec all[DATASET_MAX_FIELDS];
    char labels[DATASET_MAX_FIELDS][DATASET_NAME_BYTES + sizeof "labels/"]; /* arrays of `all` */
    size_t count; /* of `all`; 0: the dataset's default */
    bool stays[DATASET_MAX_FIELDS];
};

static void append_name(struct text *out, const char *name)
{
    text_append(out, "%s'%s'", out->data ? ", " : "", text_shown(name).text);
}

/* Adds a default field as dataset_options.fields has it: of images of OME-Zarr, the image that is
 * the group, or labels in it. */
static void add_default(struct choice *choice, const char *name)
{
    bool is_ome = choice->options.multiscale && *choice->options.multiscale;
    char *label = choice->labels[choice->count];
    snprintf(label, sizeof choice->labels[0], "labels/%.63s", name);
    choice->all[choice->count++] =
        (struct dataset_field_spec){.name = name,
                                    .array = !is_ome                      ? name
                                             : strcmp(name, "image") == 0 ? ""
                                                                          : label};
}

static size_t find(const struct choice *choice, const char *name)
{
    size_t i = 0;
    while (i < choice->count && strcmp(choice->all[i].name, name) != 0)
        i++;
    return i;
}

static enum status choose(struct choice *choice, const char *const *names, size_t name_count,
                          struct error *err)
{
    struct text known = {0};
    const char *unknown = NULL;
    for (size_t i = 0; i < choice->count; i++) {
        append_name(&known, choice->all[i].name);
        choice->stays[i] = name_count == 0;
    }
    for (size_t n = 0; n < name_count && !unknown; n++) {
        size_t i = find(choice, names[n]);
        unknown = i == choice->count ? names[n] : NULL;
        if (!unknown)
            choice->stays[i] = true;
    }
    if (unknown)
        error_set(err, STATUS_INVALID, "--fields: there is no field '%s'; there are %s",
                  text_shown(unknown).text, known.data);
    text_done(&known);
    return unknown ? STATUS_INVALID : STATUS_OK;
}

/* The steps of the fields that go: they say, too, which frames are samples, if any field has steps.
 * NULL: no memory. */
static int32_t *keep_steps(const struct choice *choice, size_t *ret_count)
{
    size_t most = 0, count = 0;
    for (size_t i = 0; i < choice->count; i++)
        most += choice->all[i].step_count + 1;
    int32_t *steps = calloc(most, sizeof *steps);
    for (size_t i = 0; steps && i < choice->count; i++) {
        const struct dataset_field_spec *spec = &choice->all[i];
        if (choice->stays[i])
            continue;
        for (size_t k = 0; k < spec->step_count; k++)
            steps[count++] = spec->steps[k];
        count += spec->step_count == 0; /* the anchor */
    }
    *ret_count = most > choice->count ? count : 0;
    return steps;
}

/* Opens what stays. */
static enum status open_choice(const struct choice *choice, struct dataset **ret_dataset,
                               struct error *err)
{
    struct dataset_field_spec specs[DATASET_MAX_FIELDS];
    struct dataset_options options = choice->options;
    bool has_segments = false;
    if (choice->count == 0)
        return dataset_open(&options, ret_dataset, err);
    options.fields = specs;
    options.field_count = 0;
    for (size_t i = 0; i < choice->count; i++)
        if (choice->stays[i]) {
            has_segments = has_segments || choice->all[i].segments;
            specs[options.field_count++] = choice->all[i];
        }
    if (options.field_count == 0)
        return error_set(err, STATUS_INVALID, "no field has numbers");
    if (!has_segments)
        options.samples.segments = NULL;
    int32_t *steps = keep_steps(choice, &options.samples.more_step_count);
    if (!steps)
        return error_set(err, STATUS_NO_MEMORY, "no memory for steps");
    options.samples.more_steps = steps;
    enum status status = dataset_open(&options, ret_dataset, err);
    free(steps);
    return status;
}

static bool has_numbers(const struct dataset *dataset, const char *name)
{
    for (size_t f = 0; f < dataset->field_count; f++)
        if (strcmp(dataset->fields[f].name, name) == 0)
            return stats_has_numbers(dataset, f);
    return false;
}

/* Names the default fields, as far as they have numbers. */
static void name_default(const struct dataset *dataset, struct choice *choice)
{
    for (size_t f = 0; f < dataset->field_count; f++) {
        const char *name = dataset->fields[f].name;
        if (dataset->fields[f].source == FIELD_MADE)
            continue;
        choice->stays[choice->count] = true;
        add_default(choice, name);
    }
}

/* Drops fields without numbers from the choice. Appends their names to `dropped`. */
static void drop(const struct dataset *dataset, struct choice *choice, struct text *dropped)
{
    for (size_t i = 0; i < choice->count; i++)
        if (choice->stays[i] && !has_numbers(dataset, choice->all[i].name)) {
            choice->stays[i] = false;
            append_name(dropped, choice->all[i].name);
        }
}

/* Opens the dataset anew, if some of its fields have no numbers. */
static enum status reopen(struct choice *choice, bool are_named, struct dataset **dataset,
                          struct text *notes, struct error *err)
{
    struct dataset *whole = *dataset;
    struct text dropped = {0};
    enum status status = STATUS_OK;
    if (choice->count == 0)
        name_default(whole, choice);
    drop(whole, choice, &dropped);
    if (dropped.data && are_named)
        status = error_set(err, STATUS_INVALID,
                           "--fields: statistics are of numbers; ragged or without numbers: %s",
                           dropped.data);
    else if (dropped.data)
        text_append(notes, "left out, since ragged or without numbers: %s\n", dropped.data);
    if (dropped.data && status == STATUS_OK)
        status = open_choice(choice, dataset, err);
    if (dropped.data && status == STATUS_OK)
        dataset_free(whole);
    text_done(&dropped);
    return status;
}

enum status stats_open(const struct config *config, const char *const *names, size_t name_count,
                       struct text *notes, struct dataset **ret_dataset, struct error *err)
{
    if (config->source_count > 0)
        return error_set(err, STATUS_INVALID,
                         "the configuration is a mix: give that of each source by itself");
    struct choice *choice = calloc(1, sizeof *choice);
    struct dataset *dataset = NULL;
    if (!choice)
        return error_set(err, STATUS_NO_MEMORY, "no memory for fields");
    choice->options = config_dataset_options(config, NULL);
    choice->options.cache_dir = choice->options.constants = choice->options.length_field = NULL;
    choice->count = config->field_count;
    for (size_t i = 0; i < choice->count; i++)
        choice->all[i] = config->fields[i];
    for (size_t n = 0; config->field_count == 0 && n < name_count && n < DATASET_MAX_FIELDS; n++)
        add_default(choice, names[n]);
    enum status status = choose(choice, names, name_count, err);
    if (status == STATUS_OK)
        status = open_choice(choice, &dataset, err);
    if (status == STATUS_OK)
        status = reopen(choice, name_count > 0, &dataset, notes, err);
    free(choice);
    if (status != STATUS_OK)
        dataset_free(dataset);
    else
        *ret_dataset = dataset;
    return status;
}
