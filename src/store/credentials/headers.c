/* See headers.h. */
#include "store/credentials/headers.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* The header that Penstock sets itself; NULL: the line is no such one. */
static const char *own_header(const char *line)
{
    static const char *const own[] = {"Range", "Host", "Accept-Encoding", "Content-Length",
                                      "Connection"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncasecmp(own[i], line, strlen(own[i])) == 0 && line[strlen(own[i])] == ':')
            return own[i];
    return NULL;
}

/* Whether a line of `length` bytes is a header. */
static bool is_header(const char *line, size_t length)
{
    size_t name = strcspn(line, ":");
    if (name == 0 || name >= length)
        return false;
    for (size_t i = 0; i < name; i++)
        if (line[i] <= ' ' || line[i] > '~')
            return false;
    return true;
}

static enum status check(const struct credentials *found, struct error *err)
{
    int number = 1;
    for (const char *at = found->token; *at; number++) {
        size_t length = strcspn(at, "\r\n");
        const char *own = own_header(at);
        if (own)
            return error_set(err, STATUS_INVALID, "%s: line %d sets %s, which Penstock sets itself",
                             found->source, number, own);
        if (!is_header(at, length))
            return error_set(err, STATUS_INVALID,
                             "%s: line %d is no header: write 'Name: value', one a line",
                             found->source, number);
        at += length;
        at += strspn(at, "\r\n");
    }
    return STATUS_OK;
}

static enum status read_lines(const char *from, struct credentials *found, struct error *err)
{
    bool is_variable = strncmp(from, "env:", 4) == 0 && from[4];
    const char *value = is_variable ? credentials_variable(from + 4) : "";
    found->from_file = !is_variable;
    if (!is_variable && from[0] == '/') {
        enum status status = credentials_read_file(from, true, found->token, err);
        return status != STATUS_OK ? error_prefix(err, status, "store.headers: ") : STATUS_OK;
    }
    if (is_variable && *value && strlen(value) < sizeof found->token) {
        strcpy(found->token, value);
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "%s: %s", found->source,
                     !is_variable ? "write env:VARIABLE, or the absolute path of a file"
                     : *value     ? "the variable is too long"
                                  : "the variable is not set");
}

enum status headers_look(const struct store_settings *settings, struct credentials *ret_found,
                         struct error *err)
{
    struct credentials found = {.kind = CREDENTIALS_HEADERS};
    const char *from = settings->headers;
    enum status status = STATUS_OK;
    if (*from) {
        snprintf(found.source, sizeof found.source, "store.headers '%.200s'", from);
        status = read_lines(from, &found, err);
        if (status == STATUS_OK)
            status = check(&found, err);
        found.found = status == STATUS_OK;
    }
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
