/* The table of options at run time, and the fields of the dataset. All sources of configuration use
 * both.
 *
 * Internal to src/config. A value is always given as text; option_store() checks it against the
 * option's type and range. Pure but for allocating strings; one thread.
 */
#ifndef PENSTOCK_CONFIG_OPTIONS_H
#define PENSTOCK_CONFIG_OPTIONS_H

#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_type {
    OPTION_STRING,
    OPTION_LIST,
    OPTION_U64,
    OPTION_SIZE,
    OPTION_AUTO_U64,
    OPTION_AUTO_SIZE,
    OPTION_BOOL,
    OPTION_SHARES,
    OPTION_RANGE,
    OPTION_CHOICE_FILL,
    OPTION_CHOICE_LAST,
    OPTION_CHOICE_PLACEMENT,
    OPTION_CHOICE_BIND,
    OPTION_CHOICE_CACHE,
    OPTION_CHOICE_WAY,
    OPTION_CHOICE_BAD_SAMPLE,
    OPTION_CHOICE_MISSING_CHUNK,
    OPTION_CHOICE_ADDRESSING,
    OPTION_CHOICE_EARLY_LEAVE,
};

struct option {
    const char *key; /* "order.seed" */
    enum option_type type;
    const char *preset; /* the default, as text */
    uint64_t low, high; /* of numbers */
    enum config_order order;
    const char *help;
    size_t offset; /* of the member in struct config */
};

#define OPTION_COUNT_ONE(key, member, type, preset, low, high, order, help) +1
enum { OPTION_COUNT = 0 CONFIG_TABLE(OPTION_COUNT_ONE), OPTION_KEY_BYTES = 64 };
#undef OPTION_COUNT_ONE

extern const struct option options[OPTION_COUNT];

/* The option of that key, NULL if there is none. */
const struct option *option_find(const char *key);

/* Whether an unknown key (up to a '=') looks like the name of a secret. The value of such a key is
 * never shown. */
bool option_is_secret(const char *key);

/* Whether options' keys begin with `key` and a '_': such a key is a map in YAML. */
bool option_begins(const char *key);

/* The key that was probably meant; NULL: none is near. */
const char *option_nearest(const char *key);

/* Bytes of the part of a key before its dot. */
size_t option_section_length(const char *key);
bool option_section_exists(const char *section);

/* Parses and stores a value. INVALID: wrong type or out of range; the message starts with the key.
 * NO_MEMORY. */
MUST_USE enum status option_store(struct config *config, const struct option *option,
                                  const char *text, struct error *err);

/* Frees what the value owns. */
void option_done(struct config *config, const struct option *option);

/* Appends the value as option_store() reads it; strings in double quotes. */
void option_print(const struct config *config, const struct option *option, struct text *out);

/* Appends the values that the option takes, for people: "1 to 512, or auto". */
void option_describe_values(const struct option *option, struct text *out);

/* INVALID: unknown key 'x', with the key (or section, for a text without a dot) that was probably
 * meant, or else the keys of its section. */
enum status option_unknown(const char *key, struct error *err);

/* Appends a YAML double-quoted scalar. */
void print_quoted(const char *string, struct text *out);

/* Values of several numbers: values.c
 * ---------------------------------------------------------------------------------------------- */

/* INVALID: not a range, not a list of parts; the message does not name the option. NO_MEMORY. To be
 * freed by config_free_range(). */
MUST_USE enum status config_parse_range(const char *text, struct config_range *ret_range,
                                        struct error *err);
void config_print_range(const struct config_range *range, struct text *out);
void config_free_range(struct config_range *range);

/* To be freed by config_free_shares(). */
MUST_USE enum status config_parse_shares(const char *text, struct config_shares *ret_parts,
                                         struct error *err);
void config_free_shares(struct config_shares *parts);

/* Steps: "a:b", those from a on and before b; or "[a,b,...]", in rising order, brackets optional.
 * *ret_steps is malloc'ed. */
MUST_USE enum status config_parse_steps(const char *text, int32_t **ret_steps, size_t *ret_count,
                                        struct error *err);
void config_print_steps(const int32_t *steps, size_t count, struct text *out);

/* Appends a number in the fewest digits that give the same number again. */
void config_print_real(double number, struct text *out);

/* samples.c: INVALID: options of `samples` that contradict one another, a list that is none. */
MUST_USE enum status config_check_samples(const struct config *config, struct error *err);

/* The sources of a mix, and their weights: mix_options.c, mix_weights.c
 * ---------------------------------------------------------------------------------------------- */

/* Whether a source of a mix has a value of its own of the option. All other options are those of
 * the configuration that has the mix. */
bool mix_is_own(const struct option *option);

/* Weights as a ratio of whole numbers without common divisor: ret_ratio[count]. `where` begins
 * messages. INVALID: a weight is no decimal number, or is 0 and may not be; all are 0; the weights
 * neither are whole numbers nor sum to 1; their ratio is too fine. */
struct mix_weight {
    const char *name, *text; /* of its source */
};
MUST_USE enum status mix_parse_ratio(const char *where, const struct mix_weight *weights,
                                     uint32_t count, bool may_be_0, uint64_t *ret_ratio,
                                     struct error *err);

/* A source with default options and this weight, both texts copied; to be freed by
 * mix_free_source(). NO_MEMORY. */
MUST_USE enum status mix_new_source(const char *name, const char *weight,
                                    struct config_source *ret_source, struct error *err);
void mix_free_source(struct config_source *source);

/* Adds a source, which is the configuration's then, also after a failure. INVALID: too many.
 * NO_MEMORY. */
MUST_USE enum status mix_add(struct config *config, struct config_source source, struct error *err);

/* Settles the ratio of the sources' weights, if any has one. INVALID: as of mix_parse_ratio(). */
MUST_USE enum status mix_settle(struct config *config, struct error *err);

/* mix.sources of --set: "FILE:WEIGHT,...", which replaces all sources. Errors as of
 * config_read_file() and mix_settle(). */
MUST_USE enum status mix_set(struct config *config, const char *value, struct error *err);

/* Removes all sources. */
void mix_clear(struct config *config);

/* INVALID: something is wrong across options of a source, or is set where the sources have it. */
MUST_USE enum status mix_check(const struct config *config, struct error *err);

/* INVALID: a source is a mix. */
enum status mix_refuse_nested(struct error *err);

/* Appends mix.sources as YAML, each with the options of its own. */
void mix_print(const struct config *config, struct text *out);

/* config.c: the checks of config_check() of what a source has of its own. */
MUST_USE enum status config_check_dataset(const struct config *config, struct error *err);

/* print.c: appends the options, and the fields, for which `wanted` is true (NULL: for all). */
void config_print_some(const struct config *config, bool (*wanted)(const struct option *option),
                       struct text *out);

/* The fields of the dataset: fields.c
 * ---------------------------------------------------------------------------------------------- */

void config_free_field(struct dataset_field_spec *field);

/* Sets a field as --set does: `name` is "NAME" or "NAME.PROPERTY"; `value` "ARRAY", "ARRAY[INDEX]"
 * or a property's. Both are cut up. Errors as below. */
MUST_USE enum status config_set_field(struct config *config, char *name, char *value,
                                      struct error *err);

/* What a property is in YAML: one value; a value or a list; a map, whose keys follow the property's
 * name as "slice.AXIS", of values or lists; or such a map or a value; or such a map, a value or a
 * list. */
enum property_kind {
    PROPERTY_VALUE,
    PROPERTY_LIST,
    PROPERTY_MAP,
    PROPERTY_MAP_OR_VALUE,
    PROPERTY_MAP_OR_LIST,
};
enum property_kind config_property_kind(const char *property);

/* phases.c: sets the steps that samples have from an epoch on. Of all phases' lists, each begins
 * with the shorter ones. INVALID: not so; no epoch, no steps; too many epochs. NO_MEMORY. */
MUST_USE enum status config_put_phase(struct dataset_field_spec *field, const char *epoch,
                                      const char *value, struct error *err);

/* INVALID: a field has no such property, or a map without a key. */
MUST_USE enum status config_check_property(const char *name, const char *property,
                                           struct error *err);

/* Sets one property of the field `name`, which is added, with the array of its name, if there is
 * none. INVALID: as below; no such property; a value that makes no sense. NO_MEMORY. */
MUST_USE enum status config_put_field_property(struct config *config, const char *name,
                                               const char *property, const char *value,
                                               struct error *err);

/* Adds the field or replaces the one of the same name; `index` may be NULL; all copied. INVALID: an
 * empty or too long name, no array, more than DATASET_MAX_FIELDS. NO_MEMORY. */
MUST_USE enum status config_put_field(struct config *config, const char *name, const char *array,
                                      const char *index, struct error *err);

/* The mesh, cuts and shares: cuts.c
 * ---------------------------------------------------------------------------------------------- */

/* Sets one property of a cut, which is added if there is none of that name. INVALID: a cut has no
 * such property; the name is empty; there are too many. NO_MEMORY. */
MUST_USE enum status config_put_cut(struct config *config, const char *name, const char *property,
                                    const char *value, struct error *err);

/* Sets an entry of a field's `cut` or `only`: `property` is "cut.AXIS" or "only.AXIS". NO_MEMORY.
 */
MUST_USE enum status config_put_share(struct config *config, const char *field,
                                      const char *property, const char *value, struct error *err);

/* Whether a property is one of these. */
bool config_is_share(const char *property);

/* Forgets what was set of a field; frees all. */
void config_forget_shares(struct config *config, const char *field);
void config_free_cuts(struct config *config);

/* INVALID: the mesh, a cut or a share makes no sense; the message says where. */
MUST_USE enum status config_check_mesh(const struct config *config, struct error *err);

/* Append dataset.cuts, and what of a field follows its other properties. */
void config_print_cuts(const struct config *config, struct text *out);
void config_print_shares(const struct config *config, const char *field, struct text *out);

/* INVALID: there is a secret in a value, which whoever prints the configuration would tell. */
enum status config_refuse_secret(struct error *err);

/* Replaces an owned text (NULL: none) by a copy of `value`. INVALID, as
 * config_refuse_secret(). NO_MEMORY. */
MUST_USE enum status config_put_text(const char **member, const char *value, struct error *err);

#endif
