/* See credentials.h. This file reads the environment and files. credentials_endpoint.c asks
 * endpoints. */
#include "store/remote/credentials.h"

#include "store/remote/credentials_endpoint.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

static enum status copy_value(char *out, size_t capacity, const char *value, const char *name,
                              struct error *err)
{
    if (strlen(value) >= capacity)
        return error_set(err, STATUS_INVALID, "%s has more than %zu bytes", name, capacity - 1);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return error_set(err, STATUS_INVALID, "%s holds a control character", name);
    strcpy(out, value);
    return STATUS_OK;
}

/* Profiles
 * ---------------------------------------------------------------------------------------------- */

struct profile {
    const char *name;
    bool is_config; /* of ~/.aws/config, where sections are called "profile NAME" */
    bool keys;      /* they are wanted of it */
    bool seen;
    bool elsewhere; /* credentials come from a role, a login or a program */
    struct credentials *credentials;
};

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t length = strlen(text);
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        text[--length] = '\0';
    return text;
}

static bool is_section(const struct profile *profile, char *line)
{
    char *end = strchr(line, ']');
    if (end)
        *end = '\0';
    line = trim(line + 1);
    if (profile->is_config && strncmp(line, "profile", 7) == 0 && strchr(" \t", line[7]) && line[7])
        line = trim(line + 7);
    return strcmp(line, profile->name) == 0;
}

static enum status take_setting(struct profile *profile, const char *key, const char *value,
                                struct error *err)
{
    static const char *const elsewhere[] = {"role_arn", "sso_session", "sso_start_url",
                                            "credential_process", "web_identity_token_file"};
    struct credentials *c = profile->credentials;
    struct {
        const char *key;
        char *out;
        size_t capacity;
    } known[] = {{"aws_access_key_id", c->access_key, sizeof c->access_key},
                 {"aws_secret_access_key", c->secret, sizeof c->secret},
                 {"aws_session_token", c->token, sizeof c->token},
                 {"region", c->region, sizeof c->region},
                 {"endpoint_url", c->endpoint, sizeof c->endpoint}};
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        profile->elsewhere = profile->elsewhere || strcmp(key, elsewhere[i]) == 0;
    for (size_t i = profile->keys ? 0 : 3; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(key, known[i].key) == 0 && !known[i].out[0])
            return copy_value(known[i].out, known[i].capacity, value, key, err);
    return STATUS_OK;
}

/* Indented lines belong to a setting with parts of its own: none that is looked for. */
static enum status read_lines(FILE *file, struct profile *profile, struct error *err)
{
    char line[CREDENTIAL_TOKEN_BYTES + 128];
    bool inside = false;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && fgets(line, sizeof line, file)) {
        if (line[0] == '[') {
            inside = is_section(profile, line);
            profile->seen = profile->seen || inside;
            continue;
        }
        char *equals = strchr(line, '=');
        if (!inside || !equals || strchr(" \t#;", line[0]))
            continue;
        *equals = '\0';
        status = take_setting(profile, trim(line), trim(equals + 1), err);
    }
    explicit_bzero(line, sizeof line);
    return status;
}

static enum status read_profile(const char *variable, const char *name, struct profile *profile,
                                struct error *err)
{
    char path[4096];
    const char *given = environment(variable), *home = environment("HOME");
    struct passwd *user = *home ? NULL : getpwuid(getuid());
    if (user)
        home = user->pw_dir;
    int length = *given ? snprintf(path, sizeof path, "%s", given)
                        : snprintf(path, sizeof path, "%s/.aws/%s", home, name);
    if (length >= (int)sizeof path)
        return error_set(err, STATUS_INVALID, "%s: the path is too long", variable);
    FILE *file = fopen(path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR || (!*given && errno == EACCES)))
        return STATUS_OK;
    if (!file)
        return error_set_errno(err, STATUS_IO, "open '%s'", path);
    enum status status = read_lines(file, profile, err);
    fclose(file);
    return status != STATUS_OK ? error_prefix(err, status, "'%s': ", path) : STATUS_OK;
}

static enum status find_profile(bool wanted, struct credentials *credentials, struct error *err)
{
    const char *name = environment("AWS_PROFILE");
    struct profile profile = {
        .name = *name ? name : "default", .keys = wanted, .credentials = credentials};
    enum status status = read_profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", &profile, err);
    profile.is_config = true;
    if (status == STATUS_OK)
        status = read_profile("AWS_CONFIG_FILE", "config", &profile, err);
    if (status != STATUS_OK)
        return status;
    if (wanted)
        snprintf(credentials->source, sizeof credentials->source, "the keys of profile '%s'",
                 profile.name);
    if (*name && !profile.seen)
        return error_set(
            err, STATUS_INVALID,
            "AWS_PROFILE is '%s', and neither ~/.aws/credentials nor ~/.aws/config has "
            "it",
            name);
    if (wanted && profile.elsewhere && !credentials->access_key[0])
        return error_set(
            err, STATUS_UNSUPPORTED,
            "the profile '%s' takes its credentials from a role, a login or a program: "
            "put them into the environment, e.g. with `aws configure "
            "export-credentials --format env`",
            profile.name);
    return STATUS_OK;
}

/* The environment
 * ---------------------------------------------------------------------------------------------- */

static enum status find_keys(struct credentials *credentials, struct error *err)
{
    const char *key = environment("AWS_ACCESS_KEY_ID");
    const char *secret = environment("AWS_SECRET_ACCESS_KEY");
    const char *token = environment("AWS_SESSION_TOKEN");
    if (!*key && !*secret)
        return STATUS_OK;
    enum status status = copy_value(credentials->access_key, sizeof credentials->access_key, key,
                                    "AWS_ACCESS_KEY_ID", err);
    if (status == STATUS_OK)
        status = copy_value(credentials->secret, sizeof credentials->secret, secret,
                            "AWS_SECRET_ACCESS_KEY", err);
    if (status == STATUS_OK)
        status = copy_value(credentials->token, sizeof credentials->token, token,
                            "AWS_SESSION_TOKEN", err);
    strcpy(credentials->source, "AWS_ACCESS_KEY_ID of the environment");
    return status;
}

static enum status check_pair(struct credentials *credentials, struct error *err)
{
    bool key = credentials->access_key[0], secret = credentials->secret[0];
    credentials->found = key && secret;
    if (key == secret)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "credentials for S3: there is %s but no %s: set AWS_ACCESS_KEY_ID and "
                     "AWS_SECRET_ACCESS_KEY, or both in the profile",
                     key ? "an access key" : "a secret", key ? "secret" : "access key");
}

/* What the environment says of region and endpoint goes before the profile. */
static enum status find_address(struct credentials *credentials, struct error *err)
{
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
    static const char *const endpoints[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
    enum status status = STATUS_OK;
    for (int i = 1; i >= 0 && status == STATUS_OK; i--) {
        if (*environment(regions[i]))
            status = copy_value(credentials->region, sizeof credentials->region,
                                environment(regions[i]), regions[i], err);
        if (status == STATUS_OK && *environment(endpoints[i]))
            status = copy_value(credentials->endpoint, sizeof credentials->endpoint,
                                environment(endpoints[i]), endpoints[i], err);
    }
    return status;
}

enum status credentials_find(bool wanted, bool metadata, struct credentials *ret_found,
                             struct error *err)
{
    struct credentials found = {0};
    enum status status = wanted ? find_keys(&found, err) : STATUS_OK;
    if (status == STATUS_OK)
        status = check_pair(&found, err);
    if (status == STATUS_OK)
        status = find_profile(wanted && !found.found, &found, err);
    if (status == STATUS_OK && wanted)
        status = check_pair(&found, err);
    if (status == STATUS_OK)
        status = find_address(&found, err);
    if (status == STATUS_OK && wanted && metadata && !found.found) {
        strcpy(found.source, "the keys of the cloud's metadata endpoint");
        status = credentials_ask_endpoint(&found, err);
    }
    if (status == STATUS_OK)
        *ret_found = found;
    explicit_bzero(&found, sizeof found);
    return status;
}

void credentials_done(struct credentials *credentials)
{
    explicit_bzero(credentials, sizeof *credentials);
}
