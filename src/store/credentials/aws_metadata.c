/* See aws.h: the endpoints that clouds have for their containers and instances. */
#include "store/credentials/ask.h"
#include "store/credentials/aws.h"
#include "store/http/url.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static const char container_host[] = "http://169.254.170.2";
static const char instance_host[] = "http://169.254.169.254";

bool aws_take(struct json_object *root, const char *token, struct credentials *credentials)
{
    char expires[64];
    struct credentials *c = credentials;
    if (!root || !json_object_is_type(root, json_type_object) ||
        !ask_member(root, "AccessKeyId", c->access_key, sizeof c->access_key) ||
        !ask_member(root, "SecretAccessKey", c->secret, sizeof c->secret))
        return false;
    if (!ask_member(root, token, c->token, sizeof c->token))
        c->token[0] = '\0';
    c->expires = ask_member(root, "Expiration", expires, sizeof expires) ? ask_date(expires) : 0;
    c->found = true;
    return true;
}

static enum status take_credentials(const char *url, const struct text *answer,
                                    struct credentials *credentials, struct error *err)
{
    struct json_object *root = json_tokener_parse(answer->data);
    bool good = aws_take(root, "Token", credentials);
    json_object_put(root);
    return good ? STATUS_OK : ask_not_expected(url, err);
}

/* `header` may be NULL. */
static enum status ask_plainly(const char *method, const char *url, const char *header,
                               struct text *ret_answer, struct error *err)
{
    struct ask ask = {.method = method, .url = url, .headers = {header}, .is_metadata = true};
    return ask_server(&ask, "the metadata endpoint", NULL, ret_answer, err);
}

/* This machine, and the endpoints of containers (ECS, EKS). */
static bool is_allowed(const struct url *url)
{
    static const char *const hosts[] = {"169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (strcmp(url->host, hosts[i]) == 0)
            return true;
    return url->encrypts || url_is_local(url);
}

static enum status add_token(struct text *header, struct error *err)
{
    const char *token = credentials_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *path = credentials_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char line[CREDENTIAL_TOKEN_BYTES];
    enum status status = *path ? credentials_read_file(path, false, line, err)
                               : credentials_copy(line, sizeof line, token,
                                                  "AWS_CONTAINER_AUTHORIZATION_TOKEN", err);
    if (status == STATUS_OK && line[0])
        text_append(header, "Authorization: %s", line);
    explicit_bzero(line, sizeof line);
    return status;
}

static enum status ask_container(const char *what, const char *url, struct credentials *credentials,
                                 struct error *err)
{
    struct text header = {0}, answer = {0};
    struct url parts;
    enum status status = url_parse(what, url, &parts, err);
    if (status == STATUS_OK && !is_allowed(&parts))
        status = error_set(err, STATUS_INVALID, "%s is neither https nor on this machine", what);
    if (status == STATUS_OK)
        status = add_token(&header, err);
    if (status == STATUS_OK)
        status = ask_plainly("GET", url, header.data, &answer, err);
    if (status == STATUS_OK)
        status = take_credentials(url, &answer, credentials, err);
    text_forget(&header);
    text_forget(&answer);
    return status;
}

static enum status ask_instance(const char *host, struct credentials *credentials,
                                struct error *err)
{
    struct text token = {0}, role = {0}, answer = {0}, url = {0}, header = {0};
    text_append(&url, "%s/latest/api/token", host);
    enum status status =
        ask_plainly("PUT", url.data, "X-aws-ec2-metadata-token-ttl-seconds: 300", &token, err);
    if (status == STATUS_OK) {
        text_append(&header, "X-aws-ec2-metadata-token: %s", token.data);
        url.length = 0;
        text_append(&url, "%s/latest/meta-data/iam/security-credentials/", host);
        status = ask_plainly("GET", url.data, header.data, &role, err);
    }
    if (status == STATUS_OK) {
        role.data[strcspn(role.data, "\r\n")] = '\0';
        text_append(&url, "%s", role.data);
        status = ask_plainly("GET", url.data, header.data, &answer, err);
    }
    if (status == STATUS_OK)
        status = take_credentials(url.data, &answer, credentials, err);
    text_forget(&token);
    text_forget(&header);
    text_forget(&answer);
    text_done(&role);
    text_done(&url);
    return status;
}

enum status aws_metadata(struct credentials *credentials, struct error *err)
{
    static const char full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    static const char relative[] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    static const char instance[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    const char *path = credentials_variable(relative), *host = credentials_variable(instance);
    struct text url = {0};
    struct url parts;
    if (*credentials_variable(full))
        return ask_container(full, credentials_variable(full), credentials, err);
    if (!*path) {
        enum status status = *host ? url_parse(instance, host, &parts, err) : STATUS_OK;
        return status != STATUS_OK ? status
                                   : ask_instance(*host ? host : instance_host, credentials, err);
    }
    text_append(&url, "%s%s%s", container_host, *path == '/' ? "" : "/", path);
    enum status status = ask_container(relative, url.data, credentials, err);
    text_done(&url);
    return status;
}
