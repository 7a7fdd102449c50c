/* See azure.h. */
#include "store/credentials/azure.h"

#include "store/credentials/ask.h"
#include "store/http/url.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

/* The part of a signature's query that says when it ends ("se=2030-01-01T00%3A00%3A00Z"). */
static time_t end_of(const char *sas)
{
    const char *at = strncmp(sas, "se=", 3) == 0 ? sas : strstr(sas, "&se=");
    char text[64];
    size_t used = 0;
    if (!at)
        return 0;
    for (at = strchr(at, '=') + 1; *at && *at != '&' && used + 1 < sizeof text; at++) {
        bool colon = strncasecmp(at, "%3a", 3) == 0;
        text[used++] = colon ? ':' : *at;
        at += colon ? 2 : 0;
    }
    text[used] = '\0';
    return ask_date(text);
}

static enum status look_for_sas(struct credentials *found, struct error *err)
{
    static const char name[] = "AZURE_STORAGE_SAS_TOKEN";
    const char *path = credentials_variable("AZURE_STORAGE_SAS_TOKEN_FILE");
    found->from_file = *path;
    enum status status = *path ? credentials_read_file(path, false, found->token, err)
                               : credentials_copy(found->token, sizeof found->token,
                                                  credentials_variable(name), name, err);
    if (found->token[0] == '?')
        memmove(found->token, found->token + 1, strlen(found->token));
    found->kind = CREDENTIALS_QUERY;
    snprintf(found->source, sizeof found->source, "%s%s of the environment", name,
             *path ? "_FILE" : "");
    if (status != STATUS_OK && *path)
        return error_prefix(err, status, "%s_FILE: ", name);
    if (status != STATUS_OK || !found->token[0])
        return status;
    if (!strstr(found->token, "sig=") || strpbrk(found->token, " #"))
        return error_set(err, STATUS_INVALID,
                         "%s has no signature as Azure's portal gives it: 'sv=...&sig=...'",
                         found->source);
    found->expires = end_of(found->token);
    found->found = true;
    return STATUS_OK;
}

static enum status look_for_key(struct credentials *found, struct error *err)
{
    const char *name = "AZURE_STORAGE_ACCOUNT_KEY";
    if (!*credentials_variable(name))
        name = "AZURE_STORAGE_KEY";
    const char *key = credentials_variable(name);
    enum status status = credentials_copy(found->secret, sizeof found->secret, key, name, err);
    size_t length = strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    if (status == STATUS_OK && *key &&
        (strlen(key) % 4 || strspn(key + length, "=") > 2 ||
         key[length + strspn(key + length, "=")]))
        return error_set(err, STATUS_INVALID, "%s is no base64, as an account's key is", name);
    found->kind = CREDENTIALS_KEYS;
    found->found = status == STATUS_OK && *key;
    snprintf(found->source, sizeof found->source, "%s of the environment", name);
    return status;
}

static enum status use_workload(const struct store_settings *settings, struct credentials *found,
                                struct error *err)
{
    const char *client = credentials_variable("AZURE_CLIENT_ID");
    const char *tenant = credentials_variable("AZURE_TENANT_ID");
    const char *host = credentials_variable("AZURE_AUTHORITY_HOST");
    char token[CREDENTIAL_TOKEN_BYTES];
    struct text url = {0}, form = {0};
    if (!*client || !*tenant)
        return error_set(err, STATUS_INVALID,
                         "AZURE_FEDERATED_TOKEN_FILE needs AZURE_CLIENT_ID and AZURE_TENANT_ID");
    enum status status = credentials_read_file(credentials_variable("AZURE_FEDERATED_TOKEN_FILE"),
                                               false, token, err);
    if (status != STATUS_OK)
        return status;
    host = *host ? host : "https://login.microsoftonline.com";
    url_append_base(host, &url);
    text_append(&url, "/%s/oauth2/v2.0/token", tenant);
    ask_form(&form, "client_id", client);
    ask_form(&form, "scope", "https://storage.azure.com/.default");
    ask_form(&form, "client_assertion_type",
             "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    ask_form(&form, "client_assertion", token);
    ask_form(&form, "grant_type", "client_credentials");
    explicit_bzero(token, sizeof token);
    struct ask ask = {.method = "POST", .url = url.data, .form = form.data};
    status = ask_token(&ask, "AZURE_AUTHORITY_HOST", settings, found, err);
    strcpy(found->source, "the workload identity by AZURE_FEDERATED_TOKEN_FILE");
    text_forget(&form);
    text_done(&url);
    return status;
}

static enum status ask_machine(struct credentials *found, struct error *err)
{
    static const char variable[] = "AZURE_POD_IDENTITY_AUTHORITY_HOST";
    const char *host = credentials_variable(variable);
    const char *client = credentials_variable("AZURE_CLIENT_ID");
    struct text url = {0}, query = {0};
    host = *host ? host : "http://169.254.169.254";
    ask_form(&query, "api-version", "2019-08-01");
    ask_form(&query, "resource", "https://storage.azure.com");
    if (*client)
        ask_form(&query, "client_id", client);
    url_append_base(host, &url);
    text_append(&url, "/metadata/identity/oauth2/token?%s", query.data);
    struct ask ask = {
        .method = "GET", .url = url.data, .headers = {"Metadata: true"}, .is_metadata = true};
    enum status status = ask_token(&ask, variable, NULL, found, err);
    strcpy(found->source, "the managed identity of this machine");
    text_done(&query);
    text_done(&url);
    return status;
}

enum status azure_look(const struct store_settings *settings, struct credentials *ret_found,
                       struct error *err)
{
    struct credentials found = {0};
    bool wanted = !settings->anonymous;
    enum status status = wanted ? look_for_sas(&found, err) : STATUS_OK;
    if (status == STATUS_OK && wanted && !found.found)
        status = look_for_key(&found, err);
    if (status == STATUS_OK && wanted && !found.found && settings->metadata)
        status = *credentials_variable("AZURE_FEDERATED_TOKEN_FILE")
                     ? use_workload(settings, &found, err)
                     : ask_machine(&found, err);
    if (status == STATUS_OK)
        *ret_found = found;
    credentials_done(&found);
    return status;
}
