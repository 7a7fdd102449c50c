/* See aws.h: the order in which credentials are looked for. */
#include "store/credentials/aws.h"

#include <stdio.h>
#include <string.h>

enum { PROFILES_MOST = 8 }; /* in a chain of roles */

struct search {
    const struct store_settings *settings;
    struct credentials *found;
};

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

static enum status take_keys(const char *key, const char *secret, const char *token,
                             struct credentials *out, struct error *err)
{
    enum status status =
        credentials_copy(out->access_key, sizeof out->access_key, key, "AWS_ACCESS_KEY_ID", err);
    if (status == STATUS_OK)
        status =
            credentials_copy(out->secret, sizeof out->secret, secret, "AWS_SECRET_ACCESS_KEY", err);
    if (status == STATUS_OK)
        status = credentials_copy(out->token, sizeof out->token, token, "AWS_SESSION_TOKEN", err);
    return status == STATUS_OK ? check_pair(out, err) : status;
}

static enum status look_in_environment(struct credentials *out, struct error *err)
{
    enum status status = take_keys(credentials_variable("AWS_ACCESS_KEY_ID"),
                                   credentials_variable("AWS_SECRET_ACCESS_KEY"),
                                   credentials_variable("AWS_SESSION_TOKEN"), out, err);
    strcpy(out->source, "AWS_ACCESS_KEY_ID of the environment");
    return status;
}

/* What the environment says of region and endpoint goes before the profile. */
static enum status find_address(const struct aws_profile *profile, struct credentials *out,
                                struct error *err)
{
    const struct {
        const char *name, *other, *else_value;
        char *out;
    } values[] = {{"AWS_REGION", "AWS_DEFAULT_REGION", profile->region, out->region},
                  {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", profile->endpoint, out->endpoint}};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof values / sizeof values[0] && status == STATUS_OK; i++) {
        const char *name = *credentials_variable(values[i].name) ? values[i].name : values[i].other;
        const char *value = credentials_variable(name);
        status = credentials_copy(values[i].out, CREDENTIAL_BYTES,
                                  *value ? value : values[i].else_value, name, err);
    }
    return status;
}

static struct aws_role role_of(const struct aws_profile *profile, const struct credentials *address)
{
    const char *endpoint = credentials_variable("AWS_ENDPOINT_URL_STS");
    if (!*endpoint)
        endpoint = credentials_variable("AWS_ENDPOINT_URL");
    return (struct aws_role){.arn = profile->role,
                             .session = profile->session,
                             .external_id = profile->external_id,
                             .duration = profile->duration,
                             .region = profile->region[0] ? profile->region : address->region,
                             .endpoint = *endpoint ? endpoint : profile->endpoint};
}

/* Profiles
 * ---------------------------------------------------------------------------------------------- */

static enum status look_in_profile(const struct search *search, const char *name, int depth,
                                   struct error *err);

static enum status lacks(const char *name, const char *what, struct error *err)
{
    return error_set(err, STATUS_INVALID, "the profile '%s' has %s", name, what);
}

/* What a profile's role is asked for with. */
static enum status look_for_source(const struct search *search, const char *name,
                                   const struct aws_profile *profile, int depth, struct error *err)
{
    const char *source = profile->credential_source;
    struct credentials *found = search->found;
    if (profile->source_profile[0] && strcmp(profile->source_profile, name) != 0)
        return look_in_profile(search, profile->source_profile, depth + 1, err);
    if (profile->source_profile[0])
        return take_keys(profile->access_key, profile->secret, profile->token, found, err);
    if (strcmp(source, "Environment") == 0)
        return look_in_environment(found, err);
    if (*source && !search->settings->metadata)
        return lacks(name,
                     "a credential_source that is a metadata endpoint: this needs "
                     "store.metadata: true",
                     err);
    return *source ? aws_metadata(found, err)
                   : lacks(name,
                           "a role_arn, and neither source_profile, credential_source nor "
                           "web_identity_token_file",
                           err);
}

static enum status look_for_role(const struct search *search, const char *name,
                                 const struct aws_profile *profile, int depth, struct error *err)
{
    struct credentials with = {0}, *found = search->found;
    struct aws_role role = role_of(profile, found);
    if (profile->token_file[0])
        return aws_role_by_token(&role, profile->token_file, search->settings, found, err);
    struct search of = {search->settings, &with};
    strcpy(with.region, found->region);
    enum status status = look_for_source(&of, name, profile, depth, err);
    if (status == STATUS_OK && !with.found)
        status = lacks(name, "a role, and its source has no credentials", err);
    if (status == STATUS_OK)
        status = aws_role_assume(&role, &with, search->settings, found, err);
    credentials_done(&with);
    return status;
}

static enum status look_in_profile(const struct search *search, const char *name, int depth,
                                   struct error *err)
{
    struct aws_profile profile = {0};
    struct credentials *found = search->found;
    enum status status = aws_profile_read("profile", name, &profile, err);
    if (status == STATUS_OK && depth == PROFILES_MOST)
        status =
            lacks(name, "a source_profile that leads back to itself, or too many of them", err);
    if (status == STATUS_OK && depth > 0 && !profile.seen)
        status = lacks(name, "no section, and is another profile's source_profile", err);
    if (status != STATUS_OK) {
        explicit_bzero(&profile, sizeof profile);
        return status;
    }
    bool is_login = profile.role[0] || profile.sso_session[0] || profile.sso_start_url[0];
    bool is_plain = !is_login && (profile.access_key[0] || profile.secret[0]);
    if (profile.role[0])
        status = look_for_role(search, name, &profile, depth, err);
    else if (is_login)
        status = aws_sso(&profile, search->settings, found, err);
    else if (is_plain)
        status = take_keys(profile.access_key, profile.secret, profile.token, found, err);
    else if (profile.program[0])
        status = aws_program(profile.program, AWS_PROGRAM_S, found, err);
    found->from_file = is_plain;
    snprintf(found->source, sizeof found->source, "profile '%.200s'", name);
    explicit_bzero(&profile, sizeof profile);
    return status;
}

/* All
 * ---------------------------------------------------------------------------------------------- */

/* A role that the environment names, as for pods of a cluster. */
static enum status look_for_web_identity(const struct store_settings *settings,
                                         struct aws_profile *profile, struct credentials *found,
                                         struct error *err)
{
    static const char variable[] = "AWS_WEB_IDENTITY_TOKEN_FILE";
    struct aws_role role = role_of(profile, found);
    role.arn = credentials_variable("AWS_ROLE_ARN");
    role.session = credentials_variable("AWS_ROLE_SESSION_NAME");
    role.external_id = role.duration = "";
    role.region = found->region;
    if (!*role.arn)
        return error_set(err, STATUS_INVALID, "%s is set, and AWS_ROLE_ARN is not", variable);
    snprintf(found->source, sizeof found->source, "the role by %s", variable);
    return aws_role_by_token(&role, credentials_variable(variable), settings, found, err);
}

static enum status look_everywhere(const struct search *search, struct aws_profile *profile,
                                   const char *name, struct error *err)
{
    struct credentials *found = search->found;
    enum status status = look_in_environment(found, err);
    if (status == STATUS_OK && !found->found &&
        *credentials_variable("AWS_WEB_IDENTITY_TOKEN_FILE"))
        return look_for_web_identity(search->settings, profile, found, err);
    if (status == STATUS_OK && !found->found)
        status = look_in_profile(search, name, 0, err);
    if (status == STATUS_OK && !found->found && search->settings->metadata) {
        found->from_file = false;
        strcpy(found->source, "the cloud's metadata endpoint");
        status = aws_metadata(found, err);
    }
    return status;
}

enum status aws_look(const struct store_settings *settings, struct credentials *ret_found,
                     struct error *err)
{
    struct credentials found = {.kind = CREDENTIALS_KEYS};
    struct search search = {settings, &found};
    struct aws_profile profile = {0};
    const char *name = credentials_variable("AWS_PROFILE");
    enum status status = aws_profile_read("profile", *name ? name : "default", &profile, err);
    if (status == STATUS_OK && *name && !profile.seen && !settings->anonymous)
        status = error_set(
            err, STATUS_INVALID,
            "AWS_PROFILE is '%s', and neither ~/.aws/credentials nor ~/.aws/config has it", name);
    if (status == STATUS_OK)
        status = find_address(&profile, &found, err);
    if (status == STATUS_OK && !settings->anonymous)
        status = look_everywhere(&search, &profile, *name ? name : "default", err);
    if (status == STATUS_OK)
        *ret_found = found;
    explicit_bzero(&found, sizeof found);
    explicit_bzero(&profile, sizeof profile);
    return status;
}
