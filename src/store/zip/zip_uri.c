/* See zip_uri.h. */
#include "store/zip/zip_uri.h"

#include "store/http/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *zip_uri_inside(const char *uri)
{
    static const char scheme[] = "zip+", letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    if (strncmp(uri, scheme, strlen(scheme)) != 0)
        return NULL;
    uri += strlen(scheme);
    size_t length = strspn(uri, letters);
    return length > 0 && uri[length] == ':' ? uri : NULL;
}

/* What stands behind the last '/' of "SCHEME://HOST/PATH"; NULL: there is no path. */
static const char *last_part(const char *uri)
{
    const char *host = strstr(uri, "://"), *slash = host ? strrchr(host + 3, '/') : NULL;
    return slash ? slash + 1 : NULL;
}

bool zip_uri_is_archive(const char *uri)
{
    const char *name = last_part(uri);
    size_t length = name ? strlen(name) : 0;
    return length > 4 && strcasecmp(name + length - 4, ".zip") == 0;
}

/* Keys are encoded anew in requests. */
static void decode(char *text)
{
    char *out = text;
    for (; *text; text++) {
        char c = '\0';
        bool is_code = url_is_escape(text, &c) && c != '\0';
        *out++ = is_code ? c : *text;
        text += is_code ? 2 : 0;
    }
    *out = '\0';
}

enum status zip_uri_split(const char *uri, char **ret_base, char **ret_key, struct error *err)
{
    const char *name = last_part(uri);
    if (!name || !*name)
        return error_set(err, STATUS_INVALID,
                         "it names no value: a zip archive behind a network is one value, as in "
                         "s3://BUCKET/PATH/a.zip");
    char *base = strndup(uri, (size_t)(name - 1 - uri)), *key = strdup(name);
    if (!base || !key) {
        free(base);
        free(key);
        return error_set(err, STATUS_NO_MEMORY, "no memory to open it");
    }
    if (strncmp(uri, "http", 4) == 0)
        decode(key);
    *ret_base = base;
    *ret_key = key;
    return STATUS_OK;
}
