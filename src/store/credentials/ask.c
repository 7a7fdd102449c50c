/* See ask.h. */
#include "store/credentials/ask.h"

#include "base/clock.h"
#include "store/credentials/s3_sign.h"
#include "store/http/url.h"

#include <ctype.h>
#include <curl/curl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER_BYTES = 64 << 10, TIMEOUT_S = 5, TRIES = 3, PAUSE_MS = 200 };

static size_t on_body(char *bytes, size_t size, size_t count, void *argument)
{
    struct text *answer = argument;
    size *= count;
    if (size > ANSWER_BYTES - answer->length)
        return CURL_WRITEFUNC_ERROR;
    text_append_bytes(answer, bytes, size);
    return size;
}

#define SET(easy, option, value) (curl_easy_setopt(easy, option, value) == CURLE_OK)

static bool set_up(CURL *easy, const struct ask *ask, const struct store_settings *settings,
                   struct curl_slist *headers, struct text *answer)
{
    const char *proxy = ask->is_metadata || !settings ? "" : settings->proxy;
    const char *ca_file = settings && *settings->ca_file ? settings->ca_file : url_system_ca_file();
    return SET(easy, CURLOPT_URL, ask->url) &&
           (!ask->form || SET(easy, CURLOPT_POSTFIELDS, ask->form)) &&
           SET(easy, CURLOPT_CUSTOMREQUEST, ask->method) &&
           SET(easy, CURLOPT_HTTPHEADER, headers) &&
           SET(easy, CURLOPT_PROTOCOLS_STR, "http,https") && SET(easy, CURLOPT_PROXY, proxy) &&
           SET(easy, CURLOPT_NOPROXY, "") && (!ca_file || SET(easy, CURLOPT_CAINFO, ca_file)) &&
           SET(easy, CURLOPT_NOSIGNAL, 1L) && SET(easy, CURLOPT_USERAGENT, "penstock") &&
           SET(easy, CURLOPT_TIMEOUT, (long)TIMEOUT_S) &&
           SET(easy, CURLOPT_WRITEFUNCTION, on_body) && SET(easy, CURLOPT_WRITEDATA, answer);
}

/* *ret_code: the status; 0: *ret_result says why there is none. */
static void request(const struct ask *ask, const struct store_settings *settings,
                    struct text *answer, long *ret_code, CURLcode *ret_result)
{
    struct curl_slist *headers = NULL;
    CURL *easy = curl_easy_init();
    bool good = easy != NULL;
    for (size_t i = 0; i < sizeof ask->headers / sizeof ask->headers[0] && good; i++) {
        struct curl_slist *longer =
            ask->headers[i] ? curl_slist_append(headers, ask->headers[i]) : headers;
        good = longer || !ask->headers[i];
        headers = longer ? longer : headers;
    }
    *ret_code = 0;
    *ret_result = CURLE_OUT_OF_MEMORY;
    if (good && set_up(easy, ask, settings, headers, answer))
        *ret_result = curl_easy_perform(easy);
    if (*ret_result == CURLE_OK)
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, ret_code);
    curl_easy_cleanup(easy);
    for (struct curl_slist *line = headers; line; line = line->next)
        explicit_bzero(line->data, strlen(line->data));
    curl_slist_free_all(headers);
}

/* The word that a server has for what is wrong: of letters and '_' alone, so that nothing that was
 * sent comes back in a message. */
static void word_of(const struct text *answer, char ret_word[80])
{
    const char *at = answer->data ? strstr(answer->data, "<Code>") : NULL;
    const char *json = answer->data ? strstr(answer->data, "\"error\"") : NULL;
    ret_word[0] = '\0';
    at = at ? at + 6 : json ? json + 7 + strspn(json + 7, " :\"\n") : "";
    size_t length = 0;
    while (length < 64 && (isalpha((unsigned char)at[length]) || at[length] == '_'))
        length++;
    if (length > 0 && length < 64)
        snprintf(ret_word, 80, ": %.*s", (int)length, at);
}

static enum status check_url(const struct ask *ask, const char *what, struct error *err)
{
    struct url url;
    enum status status = url_parse(what, ask->url, &url, err);
    if (status != STATUS_OK || ask->is_metadata || url.encrypts || url_is_local(&url))
        return status;
    return error_set(err, STATUS_INVALID, "%s is neither https nor on this machine", what);
}

enum status ask_server(const struct ask *ask, const char *what,
                       const struct store_settings *settings, struct text *ret_answer,
                       struct error *err)
{
    struct text answer = {0};
    char shown[URL_SHOWN_BYTES], word[80];
    long code = 0;
    CURLcode result = CURLE_OK;
    enum status status = check_url(ask, what, err);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; i == 0 || (i < TRIES && (code == 429 || code >= 500)); i++) {
        if (i > 0)
            clock_sleep_ns((uint64_t)PAUSE_MS * 1000000 << 2 * i);
        text_forget(&answer);
        request(ask, settings, &answer, &code, &result);
    }
    if (result == CURLE_OK && code == 200 && answer.length > 0) {
        *ret_answer = answer;
        return STATUS_OK;
    }
    word_of(&answer, word);
    text_forget(&answer);
    url_show(shown, sizeof shown, ask->url);
    bool is_proxied = settings && settings->proxy[0] && !ask->is_metadata;
    if (result != CURLE_OK)
        return error_set(err, STATUS_IO, "credentials from '%s': %s%s", shown,
                         curl_easy_strerror(result), is_proxied ? " (through store.proxy)" : "");
    return error_set(err, STATUS_IO, "credentials from '%s': status %ld%s", shown, code, word);
}

enum status ask_not_expected(const char *url, struct error *err)
{
    char shown[URL_SHOWN_BYTES];
    url_show(shown, sizeof shown, url);
    return error_set(err, STATUS_IO, "credentials from '%s': not the answer expected", shown);
}

enum status ask_json(const struct ask *ask, const char *what, const struct store_settings *settings,
                     struct json_object **ret_root, struct error *err)
{
    struct text answer = {0};
    enum status status = ask_server(ask, what, settings, &answer, err);
    if (status != STATUS_OK)
        return status;
    struct json_object *root = json_tokener_parse(answer.data);
    text_forget(&answer);
    if (root && json_object_is_type(root, json_type_object)) {
        *ret_root = root;
        return STATUS_OK;
    }
    json_object_put(root);
    return ask_not_expected(ask->url, err);
}

bool ask_member(struct json_object *root, const char *name, char *out, size_t capacity)
{
    struct json_object *value;
    if (!json_object_object_get_ex(root, name, &value) ||
        !json_object_is_type(value, json_type_string))
        return false;
    const char *text = json_object_get_string(value);
    if (strlen(text) != (size_t)json_object_get_string_len(value))
        return false;
    return credentials_copy(out, capacity, text, name, NULL) == STATUS_OK;
}

time_t ask_seconds(struct json_object *root, const char *name, bool from_now)
{
    struct json_object *value;
    if (!json_object_object_get_ex(root, name, &value))
        return 0;
    int64_t seconds = json_object_get_int64(value); /* of a text, too */
    if (seconds <= 0 || seconds > INT64_MAX / 2)
        return 0;
    return from_now ? time(NULL) + (time_t)seconds : (time_t)seconds;
}

time_t ask_date(const char *text)
{
    struct tm parts = {0};
    return strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? timegm(&parts) : 0;
}

void ask_form(struct text *form, const char *name, const char *value)
{
    text_append(form, "%s%s=", form->length > 0 ? "&" : "", name);
    s3_encode(value, false, form);
}

enum status ask_token(const struct ask *ask, const char *what,
                      const struct store_settings *settings, struct credentials *found,
                      struct error *err)
{
    struct json_object *root = NULL;
    enum status status = ask_json(ask, what, settings, &root, err);
    if (status != STATUS_OK)
        return status;
    found->found =
        ask_member(root, "access_token", found->token, sizeof found->token) && found->token[0];
    found->expires = ask_seconds(root, "expires_on", false);
    if (!found->expires)
        found->expires = ask_seconds(root, "expires_in", true);
    found->kind = CREDENTIALS_BEARER;
    json_object_put(root);
    return found->found ? STATUS_OK : ask_not_expected(ask->url, err);
}
