/* See aws.h: roles, of the Security Token Service. */
#include "store/credentials/ask.h"
#include "store/credentials/aws.h"
#include "store/credentials/s3_sign.h"
#include "store/http/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char what[] =
    "the endpoint for roles (AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL or the profile's)";

static bool element(const char *text, const char *name, char *out, size_t capacity)
{
    char open[40];
    snprintf(open, sizeof open, "<%s>", name);
    const char *at = strstr(text, open);
    if (!at)
        return false;
    at += strlen(open);
    size_t length = strcspn(at, "<&");
    if (length == 0 || length >= capacity || at[length] != '<')
        return false;
    memcpy(out, at, length);
    out[length] = '\0';
    return strspn(out, " \r\n\t") == 0;
}

static enum status take(const struct text *answer, const char *url, struct credentials *credentials,
                        struct error *err)
{
    char expires[64] = "";
    struct credentials *c = credentials;
    bool good = element(answer->data, "AccessKeyId", c->access_key, sizeof c->access_key) &&
                element(answer->data, "SecretAccessKey", c->secret, sizeof c->secret) &&
                element(answer->data, "SessionToken", c->token, sizeof c->token) &&
                element(answer->data, "Expiration", expires, sizeof expires);
    c->expires = good ? ask_date(expires) : 0;
    c->found = good;
    return good ? STATUS_OK : ask_not_expected(url, err);
}

static const char *session_of(const struct aws_role *role)
{
    return *role->session ? role->session : "penstock";
}

static const char *region_of(const struct aws_role *role)
{
    return *role->region ? role->region : "us-east-1";
}

/* The host goes into the signature as it stands. */
static void add_endpoint(const struct aws_role *role, struct text *url)
{
    const char *end = strncmp(region_of(role), "cn-", 3) == 0 ? ".cn" : "";
    if (!*role->endpoint)
        text_append(url, "https://sts.%s.amazonaws.com%s", region_of(role), end);
    else
        url_append_base(role->endpoint, url);
}

static void add_role(const struct aws_role *role, const char *action, const char *token,
                     struct text *form)
{
    ask_form(form, "Action", action);
    ask_form(form, "DurationSeconds", *role->duration ? role->duration : "3600");
    if (*role->external_id)
        ask_form(form, "ExternalId", role->external_id);
    ask_form(form, "RoleArn", role->arn);
    ask_form(form, "RoleSessionName", session_of(role));
    ask_form(form, "Version", "2011-06-15");
    if (token)
        ask_form(form, "WebIdentityToken", token);
}

enum status aws_role_by_token(const struct aws_role *role, const char *token_file,
                              const struct store_settings *settings,
                              struct credentials *credentials, struct error *err)
{
    char token[CREDENTIAL_TOKEN_BYTES];
    struct text url = {0}, form = {0}, answer = {0};
    enum status status = credentials_read_file(token_file, false, token, err);
    if (status != STATUS_OK)
        return error_prefix(err, status, "the token for the role '%s': ", role->arn);
    add_endpoint(role, &url);
    add_role(role, "AssumeRoleWithWebIdentity", token, &form);
    explicit_bzero(token, sizeof token);
    text_append(&url, "/");
    struct ask ask = {.method = "POST", .url = url.data, .form = form.data};
    status = ask_server(&ask, what, settings, &answer, err);
    if (status == STATUS_OK)
        status = take(&answer, url.data, credentials, err);
    text_forget(&form);
    text_forget(&answer);
    text_done(&url);
    return status;
}

static void sign(const struct aws_role *role, const struct credentials *with, const char *host,
                 const char *form, struct text headers[4])
{
    char stamp[S3_TIME_BYTES], hash[S3_HASH_BYTES];
    struct s3_request request = {.method = "POST",
                                 .host = host,
                                 .path = "/",
                                 .query = "",
                                 .token = with->token[0] ? with->token : NULL,
                                 .region = region_of(role),
                                 .service = "sts",
                                 .hash = hash,
                                 .time = time(NULL)};
    s3_hash(form, hash);
    s3_time(request.time, stamp);
    text_append(&headers[0], "Authorization: ");
    s3_authorize(&request, with->access_key, with->secret, &headers[0]);
    text_append(&headers[1], "x-amz-date: %s", stamp);
    text_append(&headers[2], "x-amz-content-sha256: %s", hash);
    if (request.token)
        text_append(&headers[3], "x-amz-security-token: %s", request.token);
}

enum status aws_role_assume(const struct aws_role *role, const struct credentials *with,
                            const struct store_settings *settings, struct credentials *credentials,
                            struct error *err)
{
    struct text url = {0}, form = {0}, answer = {0}, headers[4] = {{0}};
    struct url parts;
    add_endpoint(role, &url);
    enum status status = url_parse(what, url.data, &parts, err);
    if (status == STATUS_OK && (parts.has_path || parts.has_query))
        status = error_set(err, STATUS_INVALID, "%s: write http://HOST:PORT or https://HOST", what);
    if (status == STATUS_OK) {
        add_role(role, "AssumeRole", NULL, &form);
        sign(role, with, strstr(url.data, "://") + 3, form.data, headers);
        text_append(&url, "/");
        struct ask ask = {
            .method = "POST",
            .url = url.data,
            .headers = {headers[0].data, headers[1].data, headers[2].data, headers[3].data},
            .form = form.data};
        status = ask_server(&ask, what, settings, &answer, err);
    }
    if (status == STATUS_OK)
        status = take(&answer, url.data, credentials, err);
    if (status != STATUS_OK)
        status = error_prefix(err, status, "the role '%s': ", role->arn);
    for (int i = 0; i < 4; i++)
        text_forget(&headers[i]);
    text_forget(&answer);
    text_done(&form);
    text_done(&url);
    return status;
}
