/* The command line of a subcommand as a table. A row is an option, with the member of the
 * subcommand's `struct options` that the option sets. Main thread.
 *
 * A subcommand describes itself in a static `struct cli_command` and calls cli_parse(). Wrong usage
 * ends the program with a message and EXIT_FINAL: so does a second value of an option that has one.
 * Commands that take a run's configuration (settings.h) get --config and --set without rows of
 * their own.
 */
#ifndef PENSTOCK_CLI_COMMON_OPTIONS_H
#define PENSTOCK_CLI_COMMON_OPTIONS_H

#include "cli/common/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct argp_state;

enum cli_kind {
    CLI_KIND_FLAG,    /* bool: true where the option is given */
    CLI_KIND_OFF,     /* bool: false where the option is given */
    CLI_KIND_TEXT,    /* const char *, borrowed from argv */
    CLI_KIND_COUNT,   /* uint64_t from low to high */
    CLI_KIND_THREADS, /* uint32_t from 1 to high; "auto": 0 */
    CLI_KIND_BYTES,   /* uint64_t, a size such as 4GiB; "auto": 0 */
    CLI_KIND_OWN,     /* parse() reads the text */
    CLI_KIND_EACH,    /* likewise, and the option may come again, as help says */
};

/* Reads `argument` into the subcommand's `options`, or into the member that CLI_OWN_IN() names, or
 * calls argp_error(); `option` is "--name". */
typedef void cli_parse_argument(void *options, const struct argp_state *state, const char *option,
                                char *argument);

struct cli_option {
    const char *name;
    char letter;          /* of the short option; 0: none */
    const char *argument; /* as help names it; NULL: a flag */
    const char *help;
    enum cli_kind kind;
    size_t offset; /* of the value in the subcommand's `struct options` */
    uint64_t low, high;
    cli_parse_argument *parse;
};

/* The end of a row: the kind of the value, and the member of the file's `struct options`. */
#define CLI_FLAG(member) CLI_KIND_FLAG, offsetof(struct options, member), 0, 0, NULL
#define CLI_OFF(member)  CLI_KIND_OFF, offsetof(struct options, member), 0, 0, NULL
#define CLI_TEXT(member) CLI_KIND_TEXT, offsetof(struct options, member), 0, 0, NULL
#define CLI_COUNT(member, low, high) \
    CLI_KIND_COUNT, offsetof(struct options, member), low, high, NULL
#define CLI_THREADS(member, high) CLI_KIND_THREADS, offsetof(struct options, member), 1, high, NULL
#define CLI_BYTES(member)         CLI_KIND_BYTES, offsetof(struct options, member), 0, 0, NULL
#define CLI_OWN(parse)            CLI_KIND_OWN, 0, 0, 0, parse
#define CLI_EACH(parse)           CLI_KIND_EACH, 0, 0, 0, parse
#define CLI_OWN_IN(member, parse) CLI_KIND_OWN, offsetof(struct options, member), 0, 0, parse

enum { CLI_MAX_OPTIONS = 32, CLI_MAX_ARGUMENTS = 2 };

struct cli_command {
    const char *help;      /* as argp's: what it does, \v, the rest */
    const char *arguments; /* "URI [ARRAY...]"; NULL: none */
    const struct cli_option *options;
    size_t option_count;

    /* Members for arguments without an option's name (const char *, borrowed). All of them are
     * required, unless `missing` is NULL. Further arguments go to `more`; NULL: there may be none.
     */
    size_t argument_offsets[CLI_MAX_ARGUMENTS];
    size_t argument_count;
    const char *missing; /* the question where one is missing */
    cli_parse_argument *more;

    /* After the last argument: what options must be to each other. NULL: nothing. */
    void (*check)(const void *options, const struct argp_state *state);

    size_t settings_offset; /* of a struct cli_settings, if `configured` */
    bool configured;        /* takes --config and --set */
    bool long_only;         /* the letters -c and -s are other options' */
};

/* Fills `options`, the subcommand's own struct, which has the defaults. cli_settings_done() frees
 * its settings. */
void cli_parse(const struct cli_command *command, int argc, char **argv, void *options);

/* Of a row --also NAME=FILE: adds the run to the settings. */
void cli_add_also(struct cli_settings *settings, const struct argp_state *state,
                  const char *argument);

/* A whole number from low to high; any other text is wrong usage of `option`. */
uint64_t cli_count(const struct argp_state *state, const char *option, const char *text,
                   uint64_t low, uint64_t high);

/* A finite number from low to high, likewise. */
double cli_real(const struct argp_state *state, const char *option, const char *text, double low,
                double high);

/* Names with commas between, which stay in `argument`; the list is the caller's to free. A name
 * that comes twice is wrong usage. */
char **cli_names(const struct argp_state *state, const char *option, char *argument,
                 size_t *ret_count);

#endif
