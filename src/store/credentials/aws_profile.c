/* See aws.h: sections of ~/.aws/credentials and ~/.aws/config. */
#include "base/text.h"
#include "store/credentials/aws.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct reading {
    const char *kind, *name; /* of the section */
    bool is_config;          /* of ~/.aws/config, where sections are called "KIND NAME" */
    struct aws_profile *profile;
};

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool is_section(const struct reading *reading, char *line)
{
    char *end = strchr(line, ']');
    size_t kind = strlen(reading->kind);
    if (end)
        *end = '\0';
    line = trim(line + 1);
    bool has_kind =
        strncmp(line, reading->kind, kind) == 0 && line[kind] && strchr(" \t", line[kind]);
    if (reading->is_config && has_kind)
        line = trim(line + kind);
    else if (strcmp(reading->kind, "profile") != 0)
        return false;
    return strcmp(line, reading->name) == 0;
}

static enum status take_setting(struct aws_profile *p, const char *key, const char *value,
                                struct error *err)
{
#define TAKE(member, name, bytes)                \
    if (strcmp(key, name) == 0 && !p->member[0]) \
        return credentials_copy(p->member, sizeof p->member, value, key, err);
    AWS_PROFILE_TABLE(TAKE)
#undef TAKE
    return STATUS_OK;
}

/* Indented lines belong to a setting with parts of its own: none that is looked for. */
static enum status read_lines(FILE *file, const struct reading *reading, struct error *err)
{
    char line[CREDENTIAL_TOKEN_BYTES + 128];
    bool inside = false;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && fgets(line, sizeof line, file)) {
        if (line[0] == '[') {
            inside = is_section(reading, line);
            reading->profile->seen = reading->profile->seen || inside;
            continue;
        }
        char *equals = strchr(line, '=');
        if (!inside || !equals || strchr(" \t#;", line[0]))
            continue;
        *equals = '\0';
        status = take_setting(reading->profile, trim(line), trim(equals + 1), err);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

static enum status read_file(const char *variable, const char *name, const struct reading *reading,
                             struct error *err)
{
    struct text path = {0};
    const char *given = credentials_variable(variable);
    enum status status = STATUS_OK;
    if (*given)
        text_append(&path, "%s", given);
    else
        credentials_home_path(name, &path);
    FILE *file = fopen(path.data, "re");
    if (!file && errno != ENOENT && errno != ENOTDIR && (*given || errno != EACCES))
        status = error_set_errno(err, STATUS_IO, "open '%s'", path.data);
    if (file) {
        status = read_lines(file, reading, err);
        fclose(file);
        if (status != STATUS_OK)
            status = error_prefix(err, status, "'%s': ", path.data);
    }
    text_done(&path);
    return status;
}

enum status aws_profile_read(const char *kind, const char *name, struct aws_profile *profile,
                             struct error *err)
{
    struct reading reading = {.kind = kind, .name = name, .profile = profile};
    enum status status =
        read_file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials", &reading, err);
    reading.is_config = true;
    return status != STATUS_OK ? status
                               : read_file("AWS_CONFIG_FILE", ".aws/config", &reading, err);
}
