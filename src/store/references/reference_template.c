/* See reference_template.h. Values are read from left to right, by a function for each level of
 * binding. */
#include "store/references/reference_template.h"

#include <ctype.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 16, SHOWN_BYTES = 80 };

/* Where reading is, between a text's braces. */
struct reader {
    const char *format, *at, *end;
    const struct template_names *names;
    uint32_t depth; /* of parentheses, and of signs */
    bool is_inner;  /* the text is a template, with its arguments */
    struct error *err;
};

static enum status read_sum(struct reader *reader, struct template_value *ret_value);

static enum status not_read(const struct reader *reader)
{
    return error_set(reader->err, STATUS_UNSUPPORTED,
                     "'%.*s' has something of Jinja that is not read, at '%.*s': names, "
                     "NAME(ARGUMENT='text'), and + - * // %% of whole numbers are: write the "
                     "references anew without templates",
                     SHOWN_BYTES, reader->format, (int)(reader->end - reader->at), reader->at);
}

static enum status too_long(struct error *err)
{
    return error_set(err, STATUS_CORRUPT, "a template makes a text of more than %d bytes",
                     TEMPLATE_TEXT_BYTES - 1);
}

static void skip_blanks(struct reader *reader)
{
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at))
        reader->at++;
}

/* Whether `sign` comes next; moves behind it. */
static bool take(struct reader *reader, const char *sign)
{
    size_t bytes = strlen(sign);
    skip_blanks(reader);
    if ((size_t)(reader->end - reader->at) < bytes || memcmp(reader->at, sign, bytes) != 0)
        return false;
    reader->at += bytes;
    return true;
}

/* The bytes of the name that comes next; 0: none does. */
static size_t name_bytes(const struct reader *reader)
{
    size_t bytes = 0;
    while (reader->at + bytes < reader->end &&
           (isalpha((unsigned char)reader->at[bytes]) || reader->at[bytes] == '_' ||
            (bytes > 0 && isdigit((unsigned char)reader->at[bytes]))))
        bytes++;
    return bytes;
}

static enum status take_name(struct reader *reader, char ret_name[TEMPLATE_NAME_BYTES])
{
    skip_blanks(reader);
    size_t bytes = name_bytes(reader);
    if (bytes == 0 || bytes >= TEMPLATE_NAME_BYTES)
        return not_read(reader);
    memcpy(ret_name, reader->at, bytes);
    ret_name[bytes] = '\0';
    reader->at += bytes;
    return STATUS_OK;
}

/* Names
 * ---------------------------------------------------------------------------------------------- */

bool template_is_text(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) &&
           strlen(json_object_get_string(value)) == (size_t)json_object_get_string_len(value);
}

/* A template's text; NULL: there is none. */
static const char *find_template(const struct reader *reader, const char *name)
{
    struct json_object *text;
    if (!reader->names->templates ||
        !json_object_object_get_ex(reader->names->templates, name, &text) ||
        !template_is_text(text))
        return NULL;
    return json_object_get_string(text);
}

/* "A='text', B=1)": behind the parenthesis. */
static enum status read_arguments(struct reader *reader, struct template_variable *variables,
                                  size_t *ret_count)
{
    size_t count = 0;
    if (take(reader, ")"))
        return *ret_count = 0, STATUS_OK;
    do {
        if (count == TEMPLATE_MOST_VARIABLES)
            return not_read(reader);
        enum status status = take_name(reader, variables[count].name);
        if (status == STATUS_OK && !take(reader, "="))
            status = not_read(reader);
        if (status == STATUS_OK)
            status = read_sum(reader, &variables[count].value);
        if (status != STATUS_OK)
            return status;
        count++;
    } while (take(reader, ","));
    *ret_count = count;
    return take(reader, ")") ? STATUS_OK : not_read(reader);
}

static enum status render(const char *format, const struct template_names *names, bool is_inner,
                          char ret_text[TEMPLATE_TEXT_BYTES], struct error *err);

/* A template with arguments has no other names: nothing of it leads to a further template. */
static enum status call(struct reader *reader, const char *text, struct template_value *ret_value)
{
    struct template_names names = {0};
    struct template_variable *variables = calloc(TEMPLATE_MOST_VARIABLES, sizeof *variables);
    if (!variables)
        return error_set(reader->err, STATUS_NO_MEMORY, "no memory for a template");
    enum status status = read_arguments(reader, variables, &names.count);
    names.variables = variables;
    ret_value->is_number = false;
    if (status == STATUS_OK)
        status = render(text, &names, true, ret_value->text, reader->err);
    free(variables);
    return status;
}

static enum status read_name(struct reader *reader, struct template_value *ret_value)
{
    char name[TEMPLATE_NAME_BYTES];
    const struct template_names *names = reader->names;
    enum status status = take_name(reader, name);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->variables[i].name, name) == 0) {
            *ret_value = names->variables[i].value;
            return STATUS_OK;
        }
    const char *text = find_template(reader, name);
    if (!text)
        return error_set(reader->err, STATUS_CORRUPT,
                         "'%.*s' uses '%s', which is neither a template nor %s", SHOWN_BYTES,
                         reader->format, name, reader->is_inner ? "an argument" : "a dimension");
    if (take(reader, "("))
        return call(reader, text, ret_value);
    ret_value->is_number = false;
    return render(text, &(struct template_names){0}, true, ret_value->text, reader->err);
}

/* Values
 * ---------------------------------------------------------------------------------------------- */

static enum status read_text(struct reader *reader, char quote, struct template_value *ret_value)
{
    const char *begin = reader->at;
    size_t bytes = 0;
    while (begin + bytes < reader->end && begin[bytes] != quote && begin[bytes] != '\\')
        bytes++;
    if (begin + bytes == reader->end || begin[bytes] == '\\')
        return not_read(reader);
    if (bytes >= TEMPLATE_TEXT_BYTES)
        return too_long(reader->err);
    ret_value->is_number = false;
    memcpy(ret_value->text, begin, bytes);
    ret_value->text[bytes] = '\0';
    reader->at = begin + bytes + 1;
    return STATUS_OK;
}

static enum status beyond(const struct reader *reader)
{
    return error_set(reader->err, STATUS_CORRUPT,
                     "'%.*s' has a number beyond 64 bits, or is "
                     "divided by 0",
                     SHOWN_BYTES, reader->format);
}

static enum status read_number(struct reader *reader, struct template_value *ret_value)
{
    int64_t number = 0;
    for (; reader->at < reader->end && isdigit((unsigned char)*reader->at); reader->at++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *reader->at - '0', &number))
            return beyond(reader);
    if (reader->at < reader->end && (*reader->at == '.' || isalpha((unsigned char)*reader->at)))
        return not_read(reader);
    ret_value->is_number = true;
    ret_value->number = number;
    return STATUS_OK;
}

static enum status read_primary(struct reader *reader, struct template_value *ret_value)
{
    enum status status = STATUS_OK;
    if (reader->depth == MOST_DEPTH)
        return not_read(reader);
    reader->depth++;
    if (take(reader, "(")) {
        status = read_sum(reader, ret_value);
        if (status == STATUS_OK && !take(reader, ")"))
            status = not_read(reader);
    } else if (take(reader, "-")) {
        status = read_primary(reader, ret_value);
        if (status == STATUS_OK && !ret_value->is_number)
            status = not_read(reader);
        else if (status == STATUS_OK &&
                 __builtin_sub_overflow(0, ret_value->number, &ret_value->number))
            status = beyond(reader);
    } else if (take(reader, "'") || take(reader, "\""))
        status = read_text(reader, reader->at[-1], ret_value);
    else if (reader->at < reader->end && isdigit((unsigned char)*reader->at))
        status = read_number(reader, ret_value);
    else
        status = read_name(reader, ret_value);
    reader->depth--;
    return status;
}

/* Division rounds down, and the rest has the sign of `b`, as in Python. */
static void divide_down(int64_t a, int64_t b, int64_t *ret_whole, int64_t *ret_rest)
{
    bool down = a % b != 0 && (a % b < 0) != (b < 0);
    *ret_whole = a / b - down;
    *ret_rest = a % b + (down ? b : 0);
}

static enum status reckon(const struct reader *reader, char sign, int64_t a, int64_t b,
                          int64_t *ret_number)
{
    bool bad = false;
    int64_t whole, rest;
    switch (sign) {
    case '+':
        bad = __builtin_add_overflow(a, b, ret_number);
        break;
    case '-':
        bad = __builtin_sub_overflow(a, b, ret_number);
        break;
    case '*':
        bad = __builtin_mul_overflow(a, b, ret_number);
        break;
    default:
        bad = b == 0 || (a == INT64_MIN && b == -1);
        if (!bad) {
            divide_down(a, b, &whole, &rest);
            *ret_number = sign == '/' ? whole : rest;
        }
    }
    return bad ? beyond(reader) : STATUS_OK;
}

/* Values with one of the signs between them; those of `read` bind more closely. */
static enum status read_chain(struct reader *reader, const char *const *signs, size_t sign_count,
                              enum status (*read)(struct reader *, struct template_value *),
                              struct template_value *ret_value)
{
    struct template_value right;
    enum status status = read(reader, ret_value);
    while (status == STATUS_OK) {
        size_t i = 0;
        skip_blanks(reader);
        const char *sign = reader->at;
        while (i < sign_count && !take(reader, signs[i]))
            i++;
        if (i == sign_count)
            break;
        if (!ret_value->is_number) {
            reader->at = sign;
            return not_read(reader);
        }
        status = read(reader, &right);
        if (status == STATUS_OK && !right.is_number)
            status = not_read(reader);
        if (status == STATUS_OK)
            status =
                reckon(reader, signs[i][0], ret_value->number, right.number, &ret_value->number);
    }
    return status;
}

static enum status read_product(struct reader *reader, struct template_value *ret_value)
{
    static const char *const signs[] = {"//", "*", "%"};
    return read_chain(reader, signs, sizeof signs / sizeof signs[0], read_primary, ret_value);
}

static enum status read_sum(struct reader *reader, struct template_value *ret_value)
{
    static const char *const signs[] = {"+", "-"};
    return read_chain(reader, signs, sizeof signs / sizeof signs[0], read_product, ret_value);
}

/* Texts
 * ---------------------------------------------------------------------------------------------- */

/* Appends to a text of `*length` bytes. */
static bool append(char text[TEMPLATE_TEXT_BYTES], size_t *length, const char *more, size_t bytes)
{
    if (bytes >= TEMPLATE_TEXT_BYTES - *length)
        return false;
    memcpy(text + *length, more, bytes);
    *length += bytes;
    text[*length] = '\0';
    return true;
}

static enum status append_value(char text[TEMPLATE_TEXT_BYTES], size_t *length,
                                const struct template_value *value, struct error *err)
{
    char digits[32];
    if (value->is_number)
        snprintf(digits, sizeof digits, "%" PRId64, value->number);
    const char *more = value->is_number ? digits : value->text;
    return append(text, length, more, strlen(more)) ? STATUS_OK : too_long(err);
}

static enum status evaluate(struct reader *reader, char text[TEMPLATE_TEXT_BYTES], size_t *length)
{
    struct template_value value = {.is_number = false};
    enum status status = read_sum(reader, &value);
    skip_blanks(reader);
    if (status == STATUS_OK && reader->at != reader->end)
        status = not_read(reader);
    return status == STATUS_OK ? append_value(text, length, &value, reader->err) : status;
}

/* Jinja's statements and remarks. */
static bool has_statement(const char *format)
{
    return strstr(format, "{%") || strstr(format, "{#");
}

static enum status render(const char *format, const struct template_names *names, bool is_inner,
                          char ret_text[TEMPLATE_TEXT_BYTES], struct error *err)
{
    size_t length = 0;
    const char *at = format, *open;
    ret_text[0] = '\0';
    for (; (open = strstr(at, "{{")) != NULL;) {
        const char *close = strstr(open, "}}");
        struct reader reader = {format, open + 2, close, names, 0, is_inner, err};
        if (!close)
            return error_set(err, STATUS_CORRUPT, "'%.*s' has '{{' without '}}'", SHOWN_BYTES,
                             format);
        if (!append(ret_text, &length, at, (size_t)(open - at)))
            return too_long(err);
        enum status status = evaluate(&reader, ret_text, &length);
        if (status != STATUS_OK)
            return status;
        at = close + 2;
    }
    return append(ret_text, &length, at, strlen(at)) ? STATUS_OK : too_long(err);
}

enum status template_render(const char *format, const struct template_names *names,
                            char ret_text[TEMPLATE_TEXT_BYTES], struct error *err)
{
    if (has_statement(format))
        return error_set(err, STATUS_UNSUPPORTED,
                         "'%.*s' has a statement of Jinja, which is not read: write the references "
                         "anew without templates",
                         SHOWN_BYTES, format);
    return render(format, names, false, ret_text, err);
}
