/* See google.h. */
#include "store/credentials/google.h"

#include "store/credentials/ask.h"
#include "store/credentials/google_internal.h"
#include "store/credentials/jwt.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char google_scope[] = "https://www.googleapis.com/auth/devstorage.read_only";
static const char default_token_uri[] = "https://oauth2.googleapis.com/token";
static const char token_server[] = "the server of tokens (token_uri)";

static enum status look_for_keys(struct credentials *found, struct error *err)
{
    const char *key = credentials_variable("GS_ACCESS_KEY_ID");
    const char *secret = credentials_variable("GS_SECRET_ACCESS_KEY");
    if (!*key != !*secret)
        return error_set(err, STATUS_INVALID,
                         "set both GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY, or neither");
    enum status status =
        credentials_copy(found->access_key, sizeof found->access_key, key, "GS_ACCESS_KEY_ID", err);
    if (status == STATUS_OK)
        status = credentials_copy(found->secret, sizeof found->secret, secret,
                                  "GS_SECRET_ACCESS_KEY", err);
    found->found = status == STATUS_OK && *key;
    found->kind = CREDENTIALS_KEYS;
    strcpy(found->source, "GS_ACCESS_KEY_ID of the environment");
    return status;
}

/* Application default credentials
 * ---------------------------------------------------------------------------------------------- */

const char *google_member(struct json_object *root, const char *name)
{
    struct json_object *value;
    const char *text = json_object_object_get_ex(root, name, &value) &&
                               json_object_is_type(value, json_type_string)
                           ? json_object_get_string(value)
                           : NULL;
    return text && *text ? text : NULL;
}

enum status google_lacks(const char *what, struct error *err)
{
    return error_set(err, STATUS_INVALID, "it lacks %s", what);
}

static enum status ask_for_account(struct json_object *root, const char *token_uri,
                                   const struct store_settings *settings, struct credentials *found,
                                   struct error *err)
{
    const char *email = google_member(root, "client_email"),
               *key = google_member(root, "private_key");
    const char *id = google_member(root, "private_key_id");
    struct text header = {0}, claims = {0}, assertion = {0}, form = {0};
    long long now = (long long)time(NULL);
    if (!email || !key)
        return google_lacks("client_email or private_key", err);
    text_append(&header, "{\"alg\":\"RS256\",\"typ\":\"JWT\"");
    if (id) {
        text_append(&header, ",\"kid\":");
        text_append_json(&header, id);
    }
    text_append(&header, "}");
    text_append(&claims, "{\"iss\":");
    text_append_json(&claims, email);
    text_append(&claims, ",\"scope\":\"%s\",\"aud\":", google_scope);
    text_append_json(&claims, token_uri);
    text_append(&claims, ",\"iat\":%lld,\"exp\":%lld}", now, now + 3600);
    enum status status = jwt_sign(key, header.data, claims.data, &assertion, err);
    if (status == STATUS_OK) {
        ask_form(&form, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
        ask_form(&form, "assertion", assertion.data);
        struct ask ask = {.method = "POST", .url = token_uri, .form = form.data};
        status = ask_token(&ask, token_server, settings, found, err);
    }
    text_done(&header);
    text_done(&claims);
    text_forget(&assertion);
    text_forget(&form);
    return status;
}

static enum status ask_for_user(struct json_object *root, const char *token_uri,
                                const struct store_settings *settings, struct credentials *found,
                                struct error *err)
{
    static const char *const names[] = {"client_id", "client_secret", "refresh_token"};
    struct text form = {0};
    enum status status = STATUS_OK;
    ask_form(&form, "grant_type", "refresh_token");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == STATUS_OK; i++) {
        const char *value = google_member(root, names[i]);
        if (value)
            ask_form(&form, names[i], value);
        else
            status = google_lacks(names[i], err);
    }
    struct ask ask = {.method = "POST", .url = token_uri, .form = form.data};
    if (status == STATUS_OK)
        status = ask_token(&ask, token_server, settings, found, err);
    text_forget(&form);
    return status;
}

static enum status use_file(const char *path, const struct store_settings *settings,
                            struct credentials *found, struct error *err)
{
    struct json_object *root = json_object_from_file(path);
    const char *type = root ? google_member(root, "type") : NULL;
    const char *token_uri = root ? google_member(root, "token_uri") : NULL;
    enum status status;
    if (!token_uri)
        token_uri = default_token_uri;
    if (!type)
        status = error_set(err, STATUS_INVALID, "it is no JSON object with a type");
    else if (strcmp(type, "service_account") == 0)
        status = ask_for_account(root, token_uri, settings, found, err);
    else if (strcmp(type, "authorized_user") == 0)
        status = ask_for_user(root, token_uri, settings, found, err);
    else if (strcmp(type, "external_account") == 0)
        status = google_ask_external(root, settings, found, err);
    else
        status = error_set(err, STATUS_UNSUPPORTED,
                           "its type '%.60s' is not supported: use a service account's file, or "
                           "`gcloud auth application-default login`",
                           type);
    snprintf(found->source, sizeof found->source, "'%.200s'", path);
    json_object_put(root);
    return status != STATUS_OK ? error_prefix(err, status, "'%s': ", path) : STATUS_OK;
}

static enum status look_for_file(const struct store_settings *settings, struct credentials *found,
                                 struct error *err)
{
    const char *given = credentials_variable("GOOGLE_APPLICATION_CREDENTIALS");
    const char *config = credentials_variable("CLOUDSDK_CONFIG");
    struct text path = {0};
    if (*given)
        text_append(&path, "%s", given);
    else if (*config)
        text_append(&path, "%s/application_default_credentials.json", config);
    else
        credentials_home_path(".config/gcloud/application_default_credentials.json", &path);
    enum status status = STATUS_OK;
    if (access(path.data, R_OK) == 0)
        status = use_file(path.data, settings, found, err);
    else if (*given)
        status =
            error_set_errno(err, STATUS_IO, "GOOGLE_APPLICATION_CREDENTIALS: open '%s'", given);
    text_done(&path);
    return status;
}

static enum status ask_metadata(struct credentials *found, struct error *err)
{
    const char *host = credentials_variable("GCE_METADATA_HOST");
    struct text url = {0};
    text_append(&url, "http://%s/computeMetadata/v1/instance/service-accounts/default/token",
                *host ? host : "metadata.google.internal");
    struct ask ask = {.method = "GET",
                      .url = url.data,
                      .headers = {"Metadata-Flavor: Google"},
                      .is_metadata = true};
    enum status status = ask_token(&ask, token_server, NULL, found, err);
    strcpy(found->source, "the cloud's metadata endpoint");
    text_done(&url);
    return status;
}

enum status google_look(const struct store_settings *settings, struct credentials *ret_found,
                        struct error *err)
{
    struct credentials found = {0};
    enum status status = settings->anonymous ? STATUS_OK : look_for_keys(&found, err);
    if (status == STATUS_OK && !settings->anonymous && !found.found)
        status = look_for_file(settings, &found, err);
    if (status == STATUS_OK && !settings->anonymous && !found.found && settings->metadata)
        status = ask_metadata(&found, err);
    if (status == STATUS_OK)
        *ret_found = found;
    credentials_done(&found);
    return status;
}
