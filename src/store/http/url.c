/* See url.h. */
#include "store/http/url.h"

#include "base/text.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool has_part(CURLU *parts, CURLUPart part)
{
    char *text = NULL;
    if (curl_url_get(parts, part, &text, 0) != CURLUE_OK)
        return false;
    bool found = *text && strcmp(text, "/") != 0;
    curl_free(text);
    return found;
}

static CURLUcode take_apart(CURLU *parts, const char *url, struct url *ret_url)
{
    char *scheme = NULL, *host = NULL;
    CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    if (code == CURLUE_OK)
        code = curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0);
    if (code == CURLUE_OK)
        code = curl_url_get(parts, CURLUPART_HOST, &host, 0);
    if (code == CURLUE_OK && (strlen(host) >= URL_HOST_BYTES || strncmp(scheme, "http", 4) != 0))
        code = CURLUE_UNSUPPORTED_SCHEME;
    if (code == CURLUE_OK) {
        *ret_url = (struct url){.encrypts = strcmp(scheme, "https") == 0,
                                .has_path = has_part(parts, CURLUPART_PATH),
                                .has_query = strpbrk(url, "?#") != NULL};
        for (size_t i = 0; host[i]; i++)
            ret_url->host[i] = (char)(host[i] >= 'A' && host[i] <= 'Z' ? host[i] + 32 : host[i]);
    }
    curl_free(scheme);
    curl_free(host);
    return code;
}

enum status url_parse(const char *what, const char *url, struct url *ret_url, struct error *err)
{
    char shown[URL_SHOWN_BYTES];
    url_show(shown, sizeof shown, url);
    if (text_has_secret(url))
        return error_set(err, STATUS_INVALID,
                         "%s: a url with a user, a password or a signature in it ('%s'): "
                         "credentials are taken from the environment and files alone (see "
                         "docs/use/clouds.md)",
                         what, shown);
    CURLU *parts = curl_url();
    if (!parts)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to read the url", what);
    const char *host = strstr(url, "://"); /* libcurl takes "http:///x" for host x */
    CURLUcode code = host && host[3] == '/' ? CURLUE_NO_HOST
                     : strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0
                         ? CURLUE_UNSUPPORTED_SCHEME
                         : take_apart(parts, url, ret_url);
    curl_url_cleanup(parts);
    if (code == CURLUE_OK)
        return STATUS_OK;
    return error_set(
        err, STATUS_INVALID, "%s: '%s': %s: write http://HOST[:PORT] or https://HOST", what, shown,
        code == CURLUE_UNSUPPORTED_SCHEME ? "no http:// or https:// url" : curl_url_strerror(code));
}

bool url_is_local(const struct url *url)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (strcmp(url->host, hosts[i]) == 0)
            return true;
    return false;
}

void url_append_base(const char *url, struct text *out)
{
    const char *port = strncmp(url, "https:", 6) == 0 ? ":443" : ":80";
    size_t length = strlen(url), cut = strlen(port);
    length -= length > 0 && url[length - 1] == '/';
    if (length > cut && strncmp(url + length - cut, port, cut) == 0)
        length -= cut;
    text_append(out, "%.*s", (int)length, url);
}

static int digit_of(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : (c | 32) - 'a' + 10;
}

bool url_is_escape(const char *at, char *ret_byte)
{
    if (at[0] != '%' || !isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
        return false;
    *ret_byte = (char)(digit_of(at[1]) * 16 + digit_of(at[2]));
    return true;
}

const char *url_system_ca_file(void)
{
    static const char *const files[] = {"/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu */
                                        "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, RHEL */
                                        "/etc/ssl/ca-bundle.pem"};            /* SUSE */
    const char *own = curl_version_info(CURLVERSION_NOW)->cainfo;
    if (!own || access(own, R_OK) == 0)
        return NULL;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return NULL;
}

/* "me:password@host", as of who forgets the scheme. */
static bool has_bare_user(const char *url, size_t length)
{
    return url[0] != '/' && !memmem(url, length, "://", 3) && memchr(url, '@', length);
}

void url_show(char *text, size_t capacity, const char *url)
{
    size_t length = strcspn(url, "?#");
    size_t scheme = strcspn(url, "/?#");
    if (has_bare_user(url, length))
        snprintf(text, capacity, "...");
    else if (text_has_password(url))
        snprintf(text, capacity, "%.*s//...", (int)scheme, url);
    else
        snprintf(text, capacity, "%.*s", (int)length, url);
}
