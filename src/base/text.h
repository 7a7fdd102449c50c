/* A growable string, for messages, reports and packed documents; not for the batch path.
 *
 * Zero-initialise, append, then text_done(). A failed allocation ends the program with a message:
 * these strings are small, made at start or at the end, and half of one is worse than none. Only
 * programs have them: libpenstock, which must not end its program, links text_shown.c alone. Owned
 * by one thread.
 */
#ifndef PENSTOCK_BASE_TEXT_H
#define PENSTOCK_BASE_TEXT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct text {
    char *data;    /* NUL-terminated once anything was appended, else NULL */
    size_t length; /* without the NUL */
    size_t capacity;
};

void text_append(struct text *text, const char *format, ...) PRINTF_LIKE(2, 3);
void text_append_bytes(struct text *text, const void *data, size_t size);

/* Text from outside (names, dtypes, keys and attributes of datasets) as it may be shown on a
 * terminal, in a log or in JSON: characters in valid UTF-8 stay as they are; control characters,
 * line ends, those that turn the direction of writing, and bytes that are no UTF-8 are spelled out:
 * "\\x1b", "\\u202e". Shown text that is shown again does not change. */
void text_append_shown(struct text *text, const char *foreign);

/* Text from outside as one word of a shell's command that is printed to be copied: in quotes if it
 * needs them. */
void text_append_word(struct text *text, const char *foreign);

/* Like text_append_shown(), as a string of JSON in quotes. */
void text_append_json(struct text *text, const char *foreign);

/* The text behind the byte order mark that some programs begin UTF-8 with; or all of the text. */
char *text_after_mark(char *text);

/* Like text_append_shown(), into `text` of `capacity` bytes; a text that is too long is cut between
 * characters. `foreign` and `text` must not overlap. */
void text_show(char *text, size_t capacity, const char *foreign);

/* Like text_show(), returned by value for use in a printf. */
struct shown_text {
    char text[1024];
};
struct shown_text text_shown(const char *foreign);

/* Whether text_show() would leave the text as it is. */
bool text_is_plain(const char *foreign);

/* Shows the first character of `foreign`, which is not "", at `out`, without a NUL. Returns the
 * bytes there; *ret_taken is the bytes of `foreign` that they stand for. */
enum { TEXT_CHARACTER_BYTES = 8 };
size_t text_show_character(const char *foreign, char out[TEXT_CHARACTER_BYTES], size_t *ret_taken);

/* Lists of strings in one string: "a,b", where "\\," is a comma and "\\\\" a backslash of an item.
 * Adds an item; takes the first item from *at, which moves on, to `ret_item` (which is emptied
 * before; empty items are items), or is false where nothing is left. *at is NULL or "" in the end.
 */
void text_list_put(struct text *list, const char *item);
bool text_list_take(const char **at, struct text *ret_item);

/* Whether a uri in `text` (one, a list of them, or anything else) has a user or password in it,
 * also such that are not encoded as they should be: "https://me:a/b@host". "//me@host", as a
 * redirect may say, counts, too. */
bool text_has_password(const char *text);

/* Whether text_has_password(), or a uri has a query with what signs a request, or stands for a
 * user: "https://host/x?X-Amz-Signature=...", "?sig=...", "?token=...". */
bool text_has_secret(const char *text);

/* Frees the content and leaves an empty text; text_forget() overwrites a secret before. */
void text_done(struct text *text);
void text_forget(struct text *text);

#endif
