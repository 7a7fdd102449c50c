/* See google_internal.h. Source: Google, "Workload identity federation", AIP-4117. */
#include "store/credentials/google_internal.h"

#include "store/credentials/ask.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

enum { MOST_HEADERS = 4 };

static struct json_object *object(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;
    json_object_object_get_ex(root, name, &value);
    return json_object_is_type(value, json_type_object) ? value : NULL;
}

/* The subject's token out of what its source has: the text, or a member of a JSON object. */
static enum status take_subject(struct json_object *source, const char *text,
                                char out[CREDENTIAL_TOKEN_BYTES], struct error *err)
{
    struct json_object *format = object(source, "format");
    const char *type = google_member(format, "type");
    const char *name = google_member(format, "subject_token_field_name");
    if (!type || strcmp(type, "text") == 0)
        return credentials_copy(out, CREDENTIAL_TOKEN_BYTES, text, "the subject's token", err);
    if (strcmp(type, "json") != 0 || !name)
        return error_set(err, STATUS_INVALID,
                         "credential_source.format is neither text nor json with a "
                         "subject_token_field_name");
    struct json_object *root = json_tokener_parse(text);
    bool taken = root && ask_member(root, name, out, CREDENTIAL_TOKEN_BYTES);
    json_object_put(root);
    return taken
               ? STATUS_OK
               : error_set(err, STATUS_INVALID,
                           "what credential_source leads to is no JSON object with '%.60s'", name);
}

static enum status ask_source(struct json_object *source, const char *url,
                              const struct store_settings *settings,
                              char out[CREDENTIAL_TOKEN_BYTES], struct error *err)
{
    struct ask ask = {.method = "GET", .url = url, .is_metadata = true};
    struct json_object *headers = object(source, "headers");
    struct text lines[MOST_HEADERS] = {{0}}, answer = {0};
    int count = headers ? json_object_object_length(headers) : 0;
    if (!settings->metadata)
        return error_set(err, STATUS_INVALID,
                         "its token is had from '%.200s', which only store.metadata: true allows",
                         url);
    if (count > MOST_HEADERS)
        return error_set(err, STATUS_UNSUPPORTED, "credential_source has more than %d headers",
                         MOST_HEADERS);
    if (headers) {
        struct json_object_iterator at = json_object_iter_begin(headers);
        for (int i = 0; i < count; i++, json_object_iter_next(&at)) {
            text_append(&lines[i], "%s: %s", json_object_iter_peek_name(&at),
                        json_object_get_string(json_object_iter_peek_value(&at)));
            ask.headers[i] = lines[i].data;
        }
    }
    enum status status = ask_server(&ask, "credential_source.url", NULL, &answer, err);
    if (status == STATUS_OK)
        status = take_subject(source, answer.data ? answer.data : "", out, err);
    for (int i = 0; i < count; i++)
        text_done(&lines[i]);
    text_forget(&answer);
    return status;
}

static enum status find_subject(struct json_object *source, const struct store_settings *settings,
                                char out[CREDENTIAL_TOKEN_BYTES], struct error *err)
{
    const char *path = google_member(source, "file"), *url = google_member(source, "url");
    char text[CREDENTIAL_TOKEN_BYTES];
    if (google_member(source, "environment_id") || object(source, "executable") || (!path && !url))
        return error_set(err, STATUS_UNSUPPORTED,
                         "its credential_source is neither a file nor a url: such ones are not "
                         "read; use a service account's file");
    if (!path)
        return ask_source(source, url, settings, out, err);
    enum status status = credentials_read_file(path, true, text, err);
    if (status == STATUS_OK)
        status = take_subject(source, text, out, err);
    explicit_bzero(text, sizeof text);
    return status;
}

/* The token of the service account that found->token may stand in for. */
static enum status become_account(const char *url, const struct store_settings *settings,
                                  struct credentials *found, struct error *err)
{
    struct text bearer = {0}, body = {0};
    struct json_object *root = NULL;
    char date[64];
    text_append(&bearer, "Authorization: Bearer %s", found->token);
    text_append(&body, "{\"scope\":[\"%s\"],\"lifetime\":\"3600s\"}", google_scope);
    struct ask ask = {.method = "POST",
                      .url = url,
                      .headers = {bearer.data, "Content-Type: application/json"},
                      .form = body.data};
    enum status status = ask_json(&ask, "service_account_impersonation_url", settings, &root, err);
    if (status == STATUS_OK) {
        found->expires = ask_member(root, "expireTime", date, sizeof date) ? ask_date(date) : 0;
        if (!ask_member(root, "accessToken", found->token, sizeof found->token))
            status = ask_not_expected(url, err);
    }
    json_object_put(root);
    text_forget(&bearer);
    text_done(&body);
    return status;
}

enum status google_ask_external(struct json_object *root, const struct store_settings *settings,
                                struct credentials *found, struct error *err)
{
    const char *audience = google_member(root, "audience");
    const char *type = google_member(root, "subject_token_type");
    const char *token_url = google_member(root, "token_url");
    const char *account = google_member(root, "service_account_impersonation_url");
    struct json_object *source = object(root, "credential_source");
    char subject[CREDENTIAL_TOKEN_BYTES];
    struct text form = {0};
    if (!audience || !type || !token_url || !source)
        return google_lacks("audience, subject_token_type, token_url or credential_source", err);
    enum status status = find_subject(source, settings, subject, err);
    if (status != STATUS_OK)
        return status;
    ask_form(&form, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    ask_form(&form, "audience", audience);
    ask_form(&form, "scope",
             account ? "https://www.googleapis.com/auth/cloud-platform" : google_scope);
    ask_form(&form, "requested_token_type", "urn:ietf:params:oauth:token-type:access_token");
    ask_form(&form, "subject_token", subject);
    ask_form(&form, "subject_token_type", type);
    explicit_bzero(subject, sizeof subject);
    struct ask ask = {.method = "POST", .url = token_url, .form = form.data};
    status = ask_token(&ask, "token_url", settings, found, err);
    text_forget(&form);
    return status == STATUS_OK && account ? become_account(account, settings, found, err) : status;
}
