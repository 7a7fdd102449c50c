/* See headers.h. */
#include "store/credentials/headers.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* Whether a line of `length` bytes is a header that may be given. */
static bool is_header(const char *line, size_t length)
{
    static const char *const own[] = {"range", "host", "accept-encoding", "content-length",
                                      "connection"};
    size_t name = strcspn(line, ":");
    if (name == 0 || name >= length)
        return false;
    for (size_t i = 0; i < name; i++)
        if (line[i] <= ' ' || line[i] > '~')
            return false;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strlen(own[i]) == name && strncasecmp(own[i], line, name) == 0)
            return false;
    return true;
}

static enum status check(const struct credentials *found, struct error *err)
{
    int number = 1;
    for (const char *at = found->token; *at; number++) {
        size_t length = strcspn(at, "\r\n");
        if (!is_header(at, length))
            return error_set(err, STATUS_INVALID,
                             "%s: line %d is no header 'Name: value', or one that Penstock makes "
                             "itself",
                             found->source, number);
        at += length;
        at += strspn(at, "\r\n");
    }
    return STATUS_OK;
}

enum status headers_look(const struct store_settings *settings, struct credentials *ret_found,
                         struct error *err)
{
    struct credentials found = {.kind = CREDENTIALS_HEADERS};
    const char *from = settings->headers;
    const char *name = strncmp(from, "env:", 4) == 0 ? from + 4 : NULL;
    enum status status = STATUS_OK;
    if (!*from) {
        *ret_found = found;
        return STATUS_OK;
    }
    snprintf(found.source, sizeof found.source, "store.headers '%.200s'", from);
    if (name && strlen(credentials_variable(name)) < sizeof found.token)
        strcpy(found.token, credentials_variable(name));
    else if (!name && from[0] == '/')
        status = credentials_read_file(from, true, found.token, err);
    else
        status = error_set(
            err, STATUS_INVALID,
            "store.headers: '%s': write env:VARIABLE, or the absolute path of a file", from);
    found.from_file = !name;
    found.found = status == STATUS_OK && found.token[0];
    if (status == STATUS_OK && !found.found)
        status = error_set(err, STATUS_INVALID, "store.headers: '%s' is not set", name);
    if (status == STATUS_OK)
        status = check(&found, err);
    if (status == STATUS_OK)
        *ret_found = found;
    credentials_done(&found);
    return status;
}

enum status hub_look(const struct store_settings *settings, struct credentials *ret_found,
                     struct error *err)
{
    struct credentials found = {.kind = CREDENTIALS_BEARER};
    const char *token = credentials_variable("HF_TOKEN");
    const char *path = credentials_variable("HF_TOKEN_PATH"),
               *home = credentials_variable("HF_HOME");
    struct text file = {0};
    enum status status = STATUS_OK;
    if (*path)
        text_append(&file, "%s", path);
    else if (*home)
        text_append(&file, "%s/token", home);
    else
        credentials_home_path(".cache/huggingface/token", &file);
    found.from_file = !*token;
    if (!settings->anonymous && *token)
        status = credentials_copy(found.token, sizeof found.token, token, "HF_TOKEN", err);
    else if (!settings->anonymous && (*path || access(file.data, R_OK) == 0))
        status = credentials_read_file(file.data, false, found.token, err);
    snprintf(found.source, sizeof found.source, "%s%.200s", *token ? "HF_TOKEN" : "the token in ",
             *token ? "" : file.data);
    found.found = status == STATUS_OK && found.token[0];
    if (status == STATUS_OK)
        *ret_found = found;
    credentials_done(&found);
    text_done(&file);
    return status;
}
