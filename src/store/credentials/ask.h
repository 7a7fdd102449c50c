/* One question to a server that gives credentials: a token endpoint, or a cloud's metadata
 * endpoint. Blocks, for 5 s a request at most; a server that is busy (429, 5xx) is asked three
 * times. Redirects are not followed. Answers are secret.
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_ASK_H
#define PENSTOCK_STORE_CREDENTIALS_ASK_H

#include "base/text.h"
#include "store/credentials/credentials.h"

struct json_object;

struct ask {
    const char *method;     /* "GET", "PUT" or "POST" */
    const char *url;        /* https, or of this machine */
    const char *headers[4]; /* "Name: value"; those that are NULL are not sent */
    const char *form;       /* of a POST: its encoded body */
    bool is_metadata; /* any host of plain HTTP will do, and no proxy: store.metadata is set */
};

/* The caller forgets *ret_answer with text_forget(). `what` begins messages, such as the variable
 * that the url is from. INVALID: the url is none that url_parse() takes, or neither https nor of
 * this machine. IO: no answer, or another status than 200; the message has what is before a '?' of
 * the url, and the word that the server has for the error. NO_MEMORY. */
MUST_USE enum status ask_server(const struct ask *ask, const char *what,
                                const struct store_settings *settings, struct text *ret_answer,
                                struct error *err);

/* As ask_server(), for an answer that is a JSON object: the caller puts it. */
MUST_USE enum status ask_json(const struct ask *ask, const char *what,
                              const struct store_settings *settings, struct json_object **ret_root,
                              struct error *err);

/* Copies a string member. False: there is none, or it is too long or has a control character. */
bool ask_member(struct json_object *root, const char *name, char *out, size_t capacity);

/* A time: a member with seconds from now (`from_now`) or since 1970, a number or its text. 0: none.
 */
time_t ask_seconds(struct json_object *root, const char *name, bool from_now);

/* "2030-01-02T03:04:05Z"; 0: it is none. */
time_t ask_date(const char *text);

/* Sets *err for an answer that lacks what was asked for; the value is IO. */
enum status ask_not_expected(const char *url, struct error *err);

/* Appends "name=value" to a form or query, percent-encoded, with '&' in between. */
void ask_form(struct text *form, const char *name, const char *value);

/* Asks for a bearer token, with the answer that OAuth has for one; Azure's says also when it ends.
 * Sets token, expiry and kind. Errors of ask_server(). */
MUST_USE enum status ask_token(const struct ask *ask, const char *what,
                               const struct store_settings *settings, struct credentials *found,
                               struct error *err);

#endif
