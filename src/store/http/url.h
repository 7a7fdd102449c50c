/* Urls of servers, taken apart by libcurl, as its requests will. So a check of a host sees the host
 * that gets the request. Pure; any thread.
 */
#ifndef PENSTOCK_STORE_HTTP_URL_H
#define PENSTOCK_STORE_HTTP_URL_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { URL_HOST_BYTES = 256, URL_SHOWN_BYTES = 128 };

struct url {
    bool encrypts;             /* https */
    bool has_path;             /* more than '/' follows the host */
    bool has_query;            /* a '?' or '#' */
    char host[URL_HOST_BYTES]; /* in lower case, numbers in full ("127.0.0.1"), without a port */
};

/* Takes an http:// or https:// url apart. `what` begins messages, such as the name of the variable
 * that the url is from. INVALID: another scheme, a user or password, spaces, or no url at all; the
 * message has url_show()'s part of the url. NO_MEMORY. */
MUST_USE enum status url_parse(const char *what, const char *url, struct url *ret_url,
                               struct error *err);

/* Whether the host is this machine: 127.0.0.1, [::1] or localhost. */
bool url_is_local(const struct url *url);

/* Appends a url that paths are put behind: without a '/' at its end, or the port that is meant
 * without it, which libcurl sends to no server. */
struct text;
void url_append_base(const char *url, struct text *out);

/* Whether '%' and two hexadecimal digits are at `at`; if so, *ret_byte is what they stand for. */
bool url_is_escape(const char *at, char *ret_byte);

/* The certificates that this system trusts, if they are not where libcurl looks for them: a wheel
 * has the libcurl of another system. NULL: they are there, or nowhere. */
const char *url_system_ca_file(void);

/* Writes what messages may show of a url, or of the start of one: what is before a '?' or '#', cut
 * to `capacity`. If a user or password may be in the url: "...", behind the scheme if there is one.
 */
void url_show(char *text, size_t capacity, const char *url);

#endif
