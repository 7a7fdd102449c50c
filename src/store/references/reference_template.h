/* Texts with "{{...}}" in them, as kerchunk's references have them for urls. What may stand between
 * the braces, of the much larger language Jinja:
 *
 *     NAME                      a template, or a dimension of `gen`
 *     NAME(A='text', B=i + 1)   a template, in which A and B are names
 *     12, 'text', + - * // % ( )   whole numbers and texts; only numbers are reckoned with
 *
 * Everything else is refused. A template has only its own arguments as names, so templates do not
 * call one another. Foreign bytes. Pure.
 *
 * Source: fsspec/kerchunk docs/source/spec.rst; fsspec/implementations/reference.py.
 */
#ifndef PENSTOCK_STORE_REFERENCES_REFERENCE_TEMPLATE_H
#define PENSTOCK_STORE_REFERENCES_REFERENCE_TEMPLATE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_object;

enum {
    TEMPLATE_MOST_VARIABLES = 16,
    TEMPLATE_NAME_BYTES = 64,
    TEMPLATE_TEXT_BYTES = 2048, /* of a text that was made, with its NUL */
};

/* A text, or a number. */
struct template_value {
    bool is_number;
    int64_t number;
    char text[TEMPLATE_TEXT_BYTES]; /* unless it is a number */
};

struct template_variable {
    char name[TEMPLATE_NAME_BYTES];
    struct template_value value;
};

/* The names that a text may use. */
struct template_names {
    struct json_object *templates;             /* borrowed; an object of texts; NULL: none */
    const struct template_variable *variables; /* [count], borrowed */
    size_t count;
};

/* Whether a value is a text without a NUL in it; NULL is none. */
bool template_is_text(struct json_object *value);

/* Makes the text that `format` stands for, as bytes without a NUL in them. UNSUPPORTED: something
 * of Jinja that is not read, which the message shows. CORRUPT: an unknown name; a text that is cut,
 * or too long; numbers beyond 64 bits. */
MUST_USE enum status template_render(const char *format, const struct template_names *names,
                                     char ret_text[TEMPLATE_TEXT_BYTES], struct error *err);

#endif
