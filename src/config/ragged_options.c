/* See ragged.h. */
#include "config/ragged_options.h"

#include "base/number.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const combine_names[] = {
    [RAGGED_SUM] = "sum", [RAGGED_LAST] = "last", [RAGGED_MAX] = "max"};

static const char multiple_key[] = "pad_to_multiple_of";
/* deliver.pad: that of the step, with batches by budget. */
static const char bound_word[] = "bound";

/* The list without its brackets, and without blanks around its items if it has brackets; malloc'ed,
 * the caller's. NULL: no memory. */
static char *without_brackets(const char *value)
{
    size_t length = strlen(value);
    if (length < 2 || value[0] != '[' || value[length - 1] != ']')
        return strdup(value);
    char *list = strndup(value + 1, length - 2), *end = list;
    bool begins = true; /* an item */
    for (const char *c = list; c && *c; c++) {
        bool blank_follows = c[strspn(c, " ")] == ',' || !c[strspn(c, " ")];
        bool is_escaped = *c == '\\' && (c[1] == ',' || c[1] == '\\');
        if (*c == ' ' && (begins || blank_follows))
            continue;
        begins = *c == ',';
        *end++ = *c;
        if (is_escaped)
            *end++ = *++c;
    }
    if (list)
        *end = '\0';
    return list;
}

static enum status put_list(const char **member, const char *value, struct error *err)
{
    char *list = without_brackets(value);
    if (!list)
        return error_set(err, STATUS_NO_MEMORY, "out of memory");
    enum status status = *list ? config_put_text(member, list, err)
                               : error_set(err, STATUS_INVALID, "the list is empty");
    free(list);
    return status;
}

static enum status put_arrays(struct dataset_ragged_spec *ragged, const char *key,
                              const char *value, struct error *err)
{
    if (strcmp(key, "offsets") == 0)
        return config_put_text(&ragged->offsets, value, err);
    if (strcmp(key, "values") == 0)
        return config_put_text(&ragged->values, value, err);
    if (strcmp(key, "index") == 0)
        return put_list(&ragged->index, value, err);
    if (strcmp(key, "columns") == 0)
        return put_list(&ragged->columns, value, err);
    return error_set(err, STATUS_INVALID,
                     "'%s' is no key of ragged, which has offsets, index, columns and values", key);
}

/* A number from 1 to 2^48. */
static bool parse_count(const char *value, uint64_t *ret_count)
{
    return number_parse(value, 1, UINT64_C(1) << 48, ret_count);
}

static enum status put_pad(struct dataset_deliver_spec *deliver, const char *value,
                           struct error *err)
{
    if (strcmp(value, bound_word) == 0) {
        deliver->form = RAGGED_BOUND;
        return STATUS_OK;
    }
    if (!parse_count(value, &deliver->pad_items) || deliver->pad_items > INT32_MAX)
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a number of items from 1 to %d, nor '%s'", value, INT32_MAX,
                         bound_word); /* lengths are int32 */
    deliver->form = RAGGED_PAD;
    return STATUS_OK;
}

static enum status put_dense(struct dataset_deliver_spec *deliver, const char *value,
                             struct error *err)
{
    char *list = without_brackets(value);
    const char *at = list;
    struct text item = {0};
    uint64_t shape[RAGGED_MAX_RANK];
    int rank = 0;
    bool valid = list != NULL;
    while (valid && text_list_take(&at, &item)) {
        const char *number = item.data ? item.data : "";
        valid = rank < RAGGED_MAX_RANK && parse_count(number + strspn(number, " "), &shape[rank]);
        rank++;
    }
    text_done(&item);
    free(list);
    if (!valid || rank == 0)
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a shape: a list of 1 to %d lengths above 0, such as "
                         "[20, 360, 640]",
                         value, RAGGED_MAX_RANK);
    memcpy(deliver->dense_shape, shape, (size_t)rank * sizeof shape[0]);
    deliver->dense_rank = rank;
    deliver->form = RAGGED_DENSE;
    return STATUS_OK;
}

static enum status put_combine(struct dataset_deliver_spec *deliver, const char *value,
                               struct error *err)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(value, combine_names[i]) == 0) {
            deliver->combine = (enum ragged_combine)i;
            return STATUS_OK;
        }
    return error_set(err, STATUS_INVALID, "'%s' is not a choice; it takes sum, last or max", value);
}

static enum status put_truncate(struct dataset_deliver_spec *deliver, const char *value,
                                struct error *err)
{
    bool is_true = strcmp(value, "true") == 0;
    if (!is_true && strcmp(value, "false") != 0)
        return error_set(err, STATUS_INVALID, "'%s' is not a truth value; it takes true or false",
                         value);
    deliver->truncates = is_true;
    return STATUS_OK;
}

/* `deliver: csr` and `deliver: dense`. */
static enum status put_form(struct dataset_deliver_spec *deliver, const char *value,
                            struct error *err)
{
    bool is_dense = strcmp(value, "dense") == 0;
    if (!is_dense && strcmp(value, "csr") != 0)
        return error_set(err, STATUS_INVALID,
                         "'%s' is not a choice; it takes csr, dense, {pad: N, truncate: false}, "
                         "{pad_to_multiple_of: N} or {dense: [N, ...], combine: sum}",
                         value);
    *deliver = (struct dataset_deliver_spec){.is_given = true,
                                             .form = is_dense ? RAGGED_DENSE : RAGGED_CSR};
    return STATUS_OK;
}

static enum status put_multiple(struct dataset_deliver_spec *deliver, const char *value,
                                struct error *err)
{
    if (!parse_count(value, &deliver->multiple) || deliver->multiple > INT32_MAX)
        return error_set(err, STATUS_INVALID, "'%s' is not a number of items from 1 to %d", value,
                         INT32_MAX);
    return STATUS_OK;
}

static enum status put_deliver(struct dataset_deliver_spec *deliver, const char *key,
                               const char *value, struct error *err)
{
    deliver->is_given = true;
    if (strcmp(key, "pad") == 0)
        return put_pad(deliver, value, err);
    if (strcmp(key, "truncate") == 0)
        return put_truncate(deliver, value, err);
    if (strcmp(key, multiple_key) == 0)
        return put_multiple(deliver, value, err);
    if (strcmp(key, "dense") == 0)
        return put_dense(deliver, value, err);
    if (strcmp(key, "combine") == 0)
        return put_combine(deliver, value, err);
    return error_set(err, STATUS_INVALID,
                     "'%s' is no key of deliver, which has pad, truncate, %s, dense and combine",
                     key, multiple_key);
}

enum status config_put_ragged(struct dataset_field_spec *field, const char *property,
                              const char *value, struct error *err)
{
    if (strncmp(property, "ragged.", 7) == 0)
        return put_arrays(&field->ragged, property + 7, value, err);
    if (strcmp(property, "deliver") == 0)
        return put_form(&field->deliver, value, err);
    return put_deliver(&field->deliver, strchr(property, '.') + 1, value, err);
}

/* Printing
 * ---------------------------------------------------------------------------------------------- */

/* Appends "KEY: " with what separates it from the key before. */
static void begin_key(bool *is_open, const char *map, const char *key, struct text *out)
{
    if (!*is_open)
        text_append(out, ", %s: {", map);
    text_append(out, "%s%s: ", *is_open ? ", " : "", key);
    *is_open = true;
}

static void print_path(bool *is_open, const char *key, const char *path, struct text *out)
{
    if (!path)
        return;
    begin_key(is_open, "ragged", key, out);
    print_quoted(path, out);
}

static void print_list(bool *is_open, const char *key, const char *list, struct text *out)
{
    struct text item = {0};
    const char *at = list;
    bool first = true;
    if (!list)
        return;
    begin_key(is_open, "ragged", key, out);
    for (; text_list_take(&at, &item); first = false) {
        text_append(out, first ? "[" : ", ");
        print_quoted(item.data ? item.data : "", out);
    }
    text_append(out, "]");
    text_done(&item);
}

static void print_deliver(const struct dataset_deliver_spec *deliver, struct text *out)
{
    bool is_open = false;
    bool plain = deliver->pad_items == 0 && deliver->multiple == 0 && deliver->dense_rank == 0 &&
                 deliver->form != RAGGED_BOUND;
    if (!deliver->is_given)
        return;
    if (plain && deliver->combine == RAGGED_SUM && !deliver->truncates) {
        text_append(out, ", deliver: %s", deliver->form == RAGGED_DENSE ? "dense" : "csr");
        return;
    }
    if (deliver->form == RAGGED_BOUND) {
        begin_key(&is_open, "deliver", "pad", out);
        text_append(out, "%s", bound_word);
    }
    if (deliver->pad_items > 0) {
        begin_key(&is_open, "deliver", "pad", out);
        text_append(out, "%" PRIu64, deliver->pad_items);
    }
    if (deliver->multiple > 0) {
        begin_key(&is_open, "deliver", multiple_key, out);
        text_append(out, "%" PRIu64, deliver->multiple);
    }
    if (deliver->dense_rank > 0)
        begin_key(&is_open, "deliver", "dense", out);
    for (int i = 0; i < deliver->dense_rank; i++)
        text_append(out, "%s%" PRIu64, i ? ", " : "[", deliver->dense_shape[i]);
    text_append(out, deliver->dense_rank > 0 ? "]" : "");
    if (deliver->combine != RAGGED_SUM) {
        begin_key(&is_open, "deliver", "combine", out);
        text_append(out, "%s", combine_names[deliver->combine]);
    }
    if (deliver->truncates) {
        begin_key(&is_open, "deliver", "truncate", out);
        text_append(out, "true");
    }
    text_append(out, "}");
}

void config_print_ragged(const struct dataset_field_spec *field, struct text *out)
{
    const struct dataset_ragged_spec *ragged = &field->ragged;
    bool is_open = false;
    print_path(&is_open, "offsets", ragged->offsets, out);
    print_list(&is_open, "index", ragged->index, out);
    print_list(&is_open, "columns", ragged->columns, out);
    print_path(&is_open, "values", ragged->values, out);
    text_append(out, is_open ? "}" : "");
    print_deliver(&field->deliver, out);
}

void config_free_ragged(struct dataset_field_spec *field)
{
    free((char *)field->ragged.offsets);
    free((char *)field->ragged.index);
    free((char *)field->ragged.columns);
    free((char *)field->ragged.values);
}
