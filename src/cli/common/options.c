/* See options.h: makes argp's table out of a command's, and parses. */
#include "cli/common/options.h"

#include "base/number.h"
#include "base/size.h"
#include "base/text.h"

#include <argp.h>
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows without a letter have their index as key, above all letters. */
enum { FIRST_KEY = 0x100, KEY_CONFIG = 0x200, KEY_SET };

struct parse {
    const struct cli_command *command;
    unsigned char *options;
    size_t argument_count; /* so far */
    bool given[CLI_MAX_OPTIONS];
    bool config_given;
};

uint64_t cli_count(const struct argp_state *state, const char *option, const char *text,
                   uint64_t low, uint64_t high)
{
    uint64_t value = low;
    if (!number_parse(text, low, high, &value))
        argp_error(state, "%s '%s': not a whole number from %" PRIu64 " to %" PRIu64, option, text,
                   low, high);
    return value;
}

double cli_real(const struct argp_state *state, const char *option, const char *text, double low,
                double high)
{
    double value = low;
    if (!number_parse_real(text, low, high, &value))
        argp_error(state, "%s '%s': not a number from %g to %g", option, text, low, high);
    return value;
}

char **cli_names(const struct argp_state *state, const char *option, char *argument,
                 size_t *ret_count)
{
    size_t count = 1, at = 0;
    for (const char *comma = argument; (comma = strchr(comma, ',')); comma++)
        count++;
    char **names = calloc(count, sizeof *names);
    if (!names)
        argp_error(state, "%s: no memory for %zu names", option, count);
    for (char *rest = argument, *name; names && (name = strsep(&rest, ","));)
        names[at++] = name;
    for (size_t i = 1; names && i < at; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                argp_error(state, "%s: '%s' is named twice", option, names[i]);
    *ret_count = at;
    return names;
}

void cli_add_also(struct cli_settings *settings, const struct argp_state *state,
                  const char *argument)
{
    struct error err;
    if (also_add(&settings->also, argument, &err) != STATUS_OK)
        argp_error(state, "%s", err.message);
}

static uint64_t parse_bytes(const struct argp_state *state, const char *option, const char *text)
{
    uint64_t bytes = 0;
    struct error err;
    if (size_parse(text, &bytes, &err) != STATUS_OK)
        argp_error(state, "%s: %s", option, err.message);
    return bytes;
}

static void parse_value(const struct cli_option *row, struct parse *parse, char *argument,
                        const struct argp_state *state)
{
    void *value = parse->options + row->offset;
    bool is_auto = argument && strcmp(argument, "auto") == 0;
    char option[32];
    snprintf(option, sizeof option, "--%s", row->name);
    switch (row->kind) {
    case CLI_KIND_FLAG:
        *(bool *)value = true;
        break;
    case CLI_KIND_OFF:
        *(bool *)value = false;
        break;
    case CLI_KIND_TEXT:
        *(const char **)value = argument;
        break;
    case CLI_KIND_COUNT:
        *(uint64_t *)value = cli_count(state, option, argument, row->low, row->high);
        break;
    case CLI_KIND_THREADS:
        *(uint32_t *)value =
            is_auto ? 0 : (uint32_t)cli_count(state, option, argument, row->low, row->high);
        break;
    case CLI_KIND_BYTES:
        *(uint64_t *)value = is_auto ? 0 : parse_bytes(state, option, argument);
        break;
    case CLI_KIND_OWN:
    case CLI_KIND_EACH:
        row->parse(value, state, option, argument);
        break;
    }
}

/* Nobody means to give a value that another one replaces. */
static void note_given(bool *given, const char *name, const struct argp_state *state)
{
    if (*given)
        argp_error(state, "--%s is given twice: give it once", name);
    *given = true;
}

static void take_argument(struct parse *parse, char *argument, const struct argp_state *state)
{
    const struct cli_command *command = parse->command;
    const char *shown = text_has_secret(argument) ? "a uri with a secret in it" : argument;
    size_t index = parse->argument_count++;
    if (index < command->argument_count)
        *(const char **)(parse->options + command->argument_offsets[index]) = argument;
    else if (command->more)
        command->more(parse->options, state, command->arguments, argument);
    else if (command->arguments)
        argp_error(state, "'%s' is one argument too many; the arguments are %s", shown,
                   command->arguments);
    else
        argp_error(state, "'%s' is not an option: name a configuration with -c", shown);
}

static void check_end(const struct parse *parse, const struct argp_state *state)
{
    const struct cli_command *command = parse->command;
    if (parse->argument_count < command->argument_count && command->missing)
        argp_error(state, "%s", command->missing);
    if (command->check)
        command->check(parse->options, state);
}

static int key_of(const struct cli_command *command, size_t index)
{
    char letter = command->options[index].letter;
    return letter ? letter : FIRST_KEY + (int)index;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct parse *parse = state->input;
    const struct cli_command *command = parse->command;
    struct cli_settings *settings = (void *)(parse->options + command->settings_offset);
    for (size_t i = 0; i < command->option_count; i++)
        if (key == key_of(command, i)) {
            if (argument && command->options[i].kind != CLI_KIND_EACH)
                note_given(&parse->given[i], command->options[i].name, state);
            parse_value(&command->options[i], parse, argument, state);
            return 0;
        }
    if (command->configured && key == (command->long_only ? KEY_CONFIG : 'c')) {
        note_given(&parse->config_given, "config", state);
        settings->path = argument;
        return 0;
    }
    if (command->configured && key == (command->long_only ? KEY_SET : 's')) {
        settings->assignments[settings->assignment_count++] = argument;
        return 0;
    }
    if (key == ARGP_KEY_ARG)
        take_argument(parse, argument, state);
    else if (key == ARGP_KEY_END)
        check_end(parse, state);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static void add_settings(const struct cli_command *command, struct argp_option *table)
{
    table[0] = (struct argp_option){.name = "config",
                                    .key = command->long_only ? KEY_CONFIG : 'c',
                                    .arg = "FILE",
                                    .doc = "configuration of a run"};
    table[1] = (struct argp_option){.name = "set",
                                    .key = command->long_only ? KEY_SET : 's',
                                    .arg = "KEY=VALUE",
                                    .doc = "one option, over the file and the environment, "
                                           "such as store.endpoint=URL; may be repeated: the "
                                           "last of one key counts"};
}

void cli_parse(const struct cli_command *command, int argc, char **argv, void *options)
{
    struct argp_option table[CLI_MAX_OPTIONS + 3] = {0}; /* with --config, --set and the end */
    struct parse parse = {.command = command, .options = options};
    assert(command->option_count <= CLI_MAX_OPTIONS);
    for (size_t i = 0; i < command->option_count; i++) {
        const struct cli_option *row = &command->options[i];
        assert(row->kind != CLI_KIND_EACH || strstr(row->help, "may be repeated"));
        table[i] = (struct argp_option){
            .name = row->name, .key = key_of(command, i), .arg = row->argument, .doc = row->help};
    }
    if (command->configured) {
        add_settings(command, &table[command->option_count]);
        cli_settings_init((void *)(parse.options + command->settings_offset), argc);
    }
    const struct argp argp = {.options = table,
                              .parser = parse_option,
                              .args_doc = command->arguments,
                              .doc = command->help};
    argp_parse(&argp, argc, argv, 0, NULL, &parse);
}
