/* See credentials_endpoint.h. */
#include "store/remote/credentials_endpoint.h"

#include "base/text.h"
#include "store/http/url.h"

#include <curl/curl.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 64 << 10, TIMEOUT_S = 5 };

static const char container_host[] = "http://169.254.170.2";
static const char instance_host[] = "http://169.254.169.254";

static size_t on_body(char *bytes, size_t size, size_t count, void *argument)
{
    struct text *answer = argument;
    size *= count;
    if (size > ANSWER_BYTES - answer->length)
        return CURL_WRITEFUNC_ERROR;
    text_append_bytes(answer, bytes, size);
    return size;
}

static void forget(struct text *text)
{
    if (text->data)
        explicit_bzero(text->data, text->length);
    text_done(text);
}

/* `header` may be NULL. The answer is secret. */
static enum status ask(const char *method, const char *url, const char *header,
                       struct text *ret_answer, struct error *err)
{
    struct text answer = {0};
    struct curl_slist *headers = header ? curl_slist_append(NULL, header) : NULL;
    CURL *easy = curl_easy_init();
    long code = 0;
    CURLcode result = CURLE_OUT_OF_MEMORY;
    if (easy && (!header || headers) && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_TIMEOUT, (long)TIMEOUT_S) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &answer) == CURLE_OK)
        result = curl_easy_perform(easy);
    if (result == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    if (result == CURLE_OK && code == 200 && answer.length > 0) {
        *ret_answer = answer;
        return STATUS_OK;
    }
    forget(&answer);
    char shown[URL_SHOWN_BYTES];
    url_show(shown, sizeof shown, url);
    if (result != CURLE_OK)
        return error_set(err, STATUS_IO, "credentials from '%s': %s", shown,
                         curl_easy_strerror(result));
    return error_set(err, STATUS_IO, "credentials from '%s': status %ld", shown, code);
}

static bool take_string(struct json_object *root, const char *name, char *out, size_t capacity)
{
    struct json_object *value;
    const char *text;
    if (!json_object_object_get_ex(root, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return false;
    text = json_object_get_string(value);
    if (strlen(text) >= capacity || strpbrk(text, "\r\n"))
        return false;
    strcpy(out, text);
    return true;
}

static enum status take_credentials(const char *url, const struct text *answer,
                                    struct credentials *credentials, struct error *err)
{
    struct json_object *root = json_tokener_parse(answer->data);
    char expires[64] = "";
    struct tm parts = {0};
    bool good =
        root && json_object_is_type(root, json_type_object) &&
        take_string(root, "AccessKeyId", credentials->access_key, sizeof credentials->access_key) &&
        take_string(root, "SecretAccessKey", credentials->secret, sizeof credentials->secret);
    if (good) {
        (void)take_string(root, "Token", credentials->token, sizeof credentials->token);
        if (take_string(root, "Expiration", expires, sizeof expires) &&
            strptime(expires, "%Y-%m-%dT%H:%M:%S", &parts))
            credentials->expires = timegm(&parts);
        credentials->found = true;
    }
    json_object_put(root);
    if (good)
        return STATUS_OK;
    char shown[URL_SHOWN_BYTES];
    url_show(shown, sizeof shown, url);
    return error_set(err, STATUS_IO, "credentials from '%s': not the answer expected", shown);
}

/* This machine, and the endpoints of containers (ECS, EKS). */
static bool is_allowed(const struct url *url)
{
    static const char *const hosts[] = {"127.0.0.1",     "localhost",      "[::1]",
                                        "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        if (strcmp(url->host, hosts[i]) == 0)
            return true;
    return url->encrypts;
}

static enum status add_token(struct text *header, struct error *err)
{
    const char *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *path = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char line[CREDENTIAL_TOKEN_BYTES] = "";
    if (path && *path) {
        FILE *file = fopen(path, "re");
        if (!file)
            return error_set_errno(err, STATUS_IO, "open '%s'", path);
        if (fgets(line, sizeof line, file))
            line[strcspn(line, "\r\n")] = '\0';
        fclose(file);
        token = line;
    }
    if (token && *token && !strpbrk(token, "\r\n"))
        text_append(header, "Authorization: %s", token);
    explicit_bzero(line, sizeof line);
    return STATUS_OK;
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
        status = ask("GET", url, header.data, &answer, err);
    if (status == STATUS_OK)
        status = take_credentials(url, &answer, credentials, err);
    forget(&header);
    forget(&answer);
    return status;
}

static enum status ask_instance(const char *host, struct credentials *credentials,
                                struct error *err)
{
    struct text token = {0}, role = {0}, answer = {0}, url = {0}, header = {0};
    text_append(&url, "%s/latest/api/token", host);
    enum status status =
        ask("PUT", url.data, "X-aws-ec2-metadata-token-ttl-seconds: 300", &token, err);
    if (status == STATUS_OK) {
        text_append(&header, "X-aws-ec2-metadata-token: %s", token.data);
        url.length = 0;
        text_append(&url, "%s/latest/meta-data/iam/security-credentials/", host);
        status = ask("GET", url.data, header.data, &role, err);
    }
    if (status == STATUS_OK) {
        role.data[strcspn(role.data, "\r\n")] = '\0';
        text_append(&url, "%s", role.data);
        status = ask("GET", url.data, header.data, &answer, err);
    }
    if (status == STATUS_OK)
        status = take_credentials(url.data, &answer, credentials, err);
    forget(&token);
    forget(&header);
    forget(&answer);
    text_done(&role);
    text_done(&url);
    return status;
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

enum status credentials_ask_endpoint(struct credentials *credentials, struct error *err)
{
    static const char full[] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
    static const char relative[] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    static const char instance[] = "AWS_EC2_METADATA_SERVICE_ENDPOINT";
    const char *path = environment(relative), *host = environment(instance);
    struct text url = {0};
    struct url parts;
    if (*environment(full))
        return ask_container(full, environment(full), credentials, err);
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
