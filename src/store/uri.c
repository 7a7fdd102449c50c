/* See uri.h. */
#include "store/uri.h"

#include "base/text.h"
#include "store/http/url.h"
#include "store/icechunk/icechunk_uri.h"
#include "store/references/references.h"
#include "store/store.h"
#include "store/zip/zip_uri.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of servers; `signs`: requests may have a signature with the time in it. */
static const struct {
    const char *start;
    bool signs;
} remote[] = {{"http://", false}, {"https://", false}, {"hf://", false},  {"s3://", true},
              {"gs://", true},    {"az://", true},     {"abfs://", true}, {"abfss://", true}};

/* Schemes that other libraries read, and what to write instead. */
static const struct {
    const char *scheme, *instead;
} others[] = {
    {"gs", "write gs:// in small letters"},
    {"gcs", "write gs://BUCKET/PATH"},
    {"az", "write az://CONTAINER/PATH, with AZURE_STORAGE_ACCOUNT_NAME, or "
           "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"},
    {"s3", "write s3:// in small letters"},
    {"http", "write http:// in small letters"},
    {"https", "write https:// in small letters"},
    {"s3a", "write s3://BUCKET/PATH"},
    {"memory", "it lies in the memory of one program: write it to a directory"},
    {"hf", "write hf:// in small letters"},
    {"github", "write https://raw.githubusercontent.com/USER/REPOSITORY/BRANCH/PATH"},
    {"zip", "write the path or the uri of the archive alone: FILE.zip, s3://BUCKET/FILE.zip"},
    {"ftp", "copy it to a directory"},
};

static const struct {
    const char *scheme, *same;
} aliases[] = {{"abfs", "az"},    {"abfss", "az"},    {"adl", "az"},   {"azure", "az"},
               {"wasb", "az"},    {"wasbs", "az"},    {"s3n", "s3a"},  {"tar", "zip"},
               {"sftp", "ftp"},   {"ftps", "ftp"},    {"ssh", "ftp"},  {"scp", "ftp"},
               {"hdfs", "ftp"},   {"webhdfs", "ftp"}, {"smb", "ftp"},  {"nfs", "ftp"},
               {"webdav", "ftp"}, {"gdrive", "ftp"},  {"dbfs", "ftp"}, {"dropbox", "ftp"},
               {"ipfs", "ftp"}};

/* fsspec's, which go before another uri: "simplecache::gs://...". */
static const char *const chains[] = {"zip",        "tar",       "simplecache", "filecache",
                                     "blockcache", "reference", "cached",      "dir"};

static bool is_scheme(const char *uri, size_t length, const char *scheme)
{
    return strlen(scheme) == length && strncasecmp(uri, scheme, length) == 0;
}

/* The letters of "scheme:" that a uri begins with; 0: it begins with none. */
static size_t scheme_length(const char *uri)
{
    size_t length = 0;
    while (isalnum((unsigned char)uri[length]) ||
           (length > 0 && strchr("+.-", uri[length]) && uri[length]))
        length++;
    return uri[length] == ':' ? length : 0;
}

static bool is_chain(const char *uri, size_t length)
{
    for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
        if (is_scheme(uri, length, chains[i]) && strncmp(uri + length, "::", 2) == 0)
            return true;
    return false;
}

static enum status refuse_scheme(const char *uri, size_t length, struct error *err)
{
    const char *scheme = uri, *instead = NULL;
    size_t bytes = length;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (is_scheme(uri, length, aliases[i].scheme)) {
            scheme = aliases[i].same;
            bytes = strlen(scheme);
        }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (is_scheme(scheme, bytes, others[i].scheme))
            instead = others[i].instead;
    return error_set(err, STATUS_UNSUPPORTED,
                     "store '%s': %.*s stores are not supported%s%s; supported are directories, "
                     "zip archives, http(s)://, s3://, gs://, az://, abfs[s]:// and hf://, and "
                     "icechunk://, icechunk+SCHEME://, reference:// and reference+SCHEME:// of "
                     "these",
                     uri, (int)length, uri, instead ? ": " : "", instead ? instead : "");
}

/* Percent-decodes in place. False: a '%' without two digits, or a NUL. */
static bool decode(char *text)
{
    char *out = text;
    for (; *text; text++) {
        char c = *text;
        if (c == '%' && (!url_is_escape(text, &c) || c == '\0'))
            return false;
        text += *text == '%' ? 2 : 0;
        *out++ = c;
    }
    *out = '\0';
    return true;
}

/* "file:///path", "file://localhost/path" and "file:/path" (RFC 8089). */
static enum status parse_file(const char *uri, char **ret_path, struct error *err)
{
    const char *path = uri + strlen("file:");
    if (strncmp(path, "//", 2) == 0) {
        size_t host = strcspn(path + 2, "/");
        if (host > 0 && !is_scheme(path + 2, host, "localhost"))
            return error_set(err, STATUS_INVALID,
                             "store '%s': '%.*s' is a host: a file:// uri needs an absolute path "
                             "of this machine (file:///...)",
                             uri, (int)host, path + 2);
        path += 2 + host;
    }
    if (path[0] != '/')
        return error_set(err, STATUS_INVALID,
                         "store '%s': a file: uri needs an absolute path (file:///...): write a "
                         "relative path without file:",
                         uri);
    char *decoded = strdup(path);
    if (!decoded)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    if (decode(decoded)) {
        *ret_path = decoded;
        return STATUS_OK;
    }
    free(decoded);
    return error_set(err, STATUS_INVALID,
                     "store '%s': in a file: uri two hexadecimal digits other than 00 follow each "
                     "'%%': write %%25 for a '%%' of the name, or write the path without file://",
                     uri);
}

/* Of a file: uri: whether a user stands where a host would; the path may have any letters. */
static bool names_user(const char *file)
{
    const char *rest = file + strlen("file:");
    if (strncmp(rest, "//", 2) == 0)
        rest += 2;
    return rest[0] != '/' && strchr(rest, '@');
}

/* "me:password@host/x", as of who forgets the scheme; "./a:b@c" is a path. */
static bool has_bare_password(const char *uri)
{
    size_t user = strcspn(uri, ":@/"),
           password = uri[user] == ':' ? strcspn(uri + user + 1, "@/") : 0;
    return user > 0 && password > 0 && uri[user + 1 + password] == '@';
}

bool store_uri_is_remote(const char *uri, bool *ret_signs)
{
    const char *inside = icechunk_uri_inside(uri);
    if (!inside)
        inside = references_uri_inside(uri);
    if (!inside)
        inside = zip_uri_inside(uri);
    const char *of = inside ? inside : uri;
    for (size_t i = 0; i < sizeof remote / sizeof remote[0]; i++)
        if (strncmp(of, remote[i].start, strlen(remote[i].start)) == 0) {
            *ret_signs = remote[i].signs;
            return true;
        }
    *ret_signs = false;
    return false;
}

enum status uri_parse(const char *uri, char **ret_path, struct error *err)
{
    size_t length = scheme_length(uri);
    bool signs, is_file = length == 4 && strncasecmp(uri, "file", length) == 0;
    if (is_file ? names_user(uri) : text_has_secret(uri) || has_bare_password(uri))
        return error_set(
            err, STATUS_INVALID,
            "the store's uri has a user, a password or a signature in it: credentials "
            "are taken from the environment and files alone%s (see docs/use/clouds.md)",
            strncmp(uri, "http", 4) == 0 ? ", of web servers by store.headers" : "");
    if (is_file)
        return parse_file(uri, ret_path, err);
    if (store_uri_is_remote(uri, &signs)) {
        *ret_path = NULL;
        return STATUS_OK;
    }
    if (is_chain(uri, length))
        return error_set(err, STATUS_UNSUPPORTED,
                         "store '%s': chained uris are not supported: write the last part alone, "
                         "as a path or a uri of one scheme, or zip+SCHEME://... of an archive",
                         uri);
    if (length > 0 && strncmp(uri + length, "://", 3) == 0)
        return refuse_scheme(uri, length, err);
    if (!*uri)
        return error_set(err, STATUS_INVALID,
                         "the store's uri is empty: name a directory, a zip archive or a uri");
    *ret_path = strdup(uri);
    return *ret_path ? STATUS_OK
                     : error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
}
