/* Azure's storage of blobs: az://, abfs://, abfss://, and https:// of a storage account. See
 * remote_internal.h.
 *
 * Source: Microsoft, "Blob service REST API" (Get Blob, List Blobs). There are no ranges from the
 * end of a value, and without x-ms-version ranges are ignored.
 */
#include "store/credentials/azure.h"
#include "store/credentials/s3_sign.h"
#include "store/http/http_judge.h"
#include "store/remote/azure_sign.h"
#include "store/remote/remote_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char version[] = "2021-12-02";

struct azure {
    struct origin origin;
    char account[64];
    char *host;      /* "https://ACCOUNT.blob.core.windows.net", or "http://HOST:PORT" */
    char *container; /* path of the container, encoded: "/container", or "/account/container" */
};

/* Requests
 * ---------------------------------------------------------------------------------------------- */

static enum status sign(const struct azure *azure, const struct credentials *now,
                        const struct fetch *fetch, const char *path, const char *date,
                        struct curl_slist **headers, struct error *err)
{
    char asked[HTTP_RANGE_BYTES], range[HTTP_RANGE_BYTES + 8] = "", lines[128];
    struct http_conditions conditions;
    struct text authorization = {0};
    http_range(fetch, asked);
    if (asked[0])
        snprintf(range, sizeof range, "bytes=%s", asked);
    snprintf(lines, sizeof lines, "x-ms-date:%s\nx-ms-version:%s\n", date, version);
    struct azure_request request = {.method = http_asks_head(fetch) ? "HEAD" : "GET",
                                    .account = azure->account,
                                    .path = path,
                                    .query = fetch->kind == FETCH_QUERY ? fetch->key : "",
                                    .range = range,
                                    .if_match = conditions.if_match,
                                    .unmodified_since = conditions.unmodified_since,
                                    .headers = lines};
    enum status status = http_conditions_of(fetch, &conditions, err);
    if (status == STATUS_OK)
        status = azure_authorize(&request, now->secret, &authorization, err);
    if (status == STATUS_OK)
        status = http_header(headers, err, "Authorization: %s", authorization.data);
    text_done(&authorization);
    return status;
}

static enum status add_credentials(const struct azure *azure, const struct credentials *now,
                                   const struct fetch *fetch, const char *path,
                                   struct curl_slist **headers, struct error *err)
{
    char date[64];
    time_t seconds = time(NULL);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    enum status status = http_header(headers, err, "x-ms-date: %s", date);
    if (status == STATUS_OK)
        status = http_header(headers, err, "x-ms-version: %s", version);
    if (status != STATUS_OK || !now->found || now->kind == CREDENTIALS_QUERY)
        return status;
    return now->kind == CREDENTIALS_BEARER ? origin_bearer(now, headers, err)
                                           : sign(azure, now, fetch, path, date, headers, err);
}

static enum status prepare(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err)
{
    const struct azure *azure = context;
    struct credentials now;
    enum status status = credentials_take(azure->origin.provider, &now, err);
    if (status != STATUS_OK)
        return status;
    text_append(url, "%s%s", azure->host, azure->container);
    if (fetch->kind != FETCH_QUERY) {
        text_append(url, "/");
        s3_encode(azure->origin.prefix, true, url);
        s3_encode(fetch->key, true, url);
    }
    status = add_credentials(azure, &now, fetch, url->data + strlen(azure->host), headers, err);
    const char *mark = "?";
    if (fetch->kind == FETCH_QUERY) {
        text_append(url, "?%s", fetch->key);
        mark = "&";
    }
    if (now.found && now.kind == CREDENTIALS_QUERY)
        text_append(url, "%s%s", mark, now.token);
    credentials_done(&now);
    return status;
}

static void add_query(const char *prefix, bool folders, const char *mark, struct text *out)
{
    text_append(out, "comp=list&%s%s", folders ? "delimiter=%2F&" : "", *mark ? "marker=" : "");
    s3_encode(mark, false, out);
    text_append(out, "%smaxresults=%d&prefix=", *mark ? "&" : "", PAGE_ENTRIES);
    s3_encode(prefix, false, out);
    text_append(out, "&restype=container");
}

static void explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err)
{
    const struct azure *azure = context;
    const struct error before = *err;
    char source[CREDENTIAL_BYTES];
    (void)fetch;
    credentials_source(azure->origin.provider, source);
    if (answer->status == 401 || answer->status == 403 || answer->status == 409)
        error_set(err, (enum status)before.status, "%.600s (container '%s'; %s%s)", before.message,
                  azure->container + 1,
                  source[0] ? "asked with " : "requests are not signed: store.anonymous", source);
    else if (strcmp(answer->code, "ContainerNotFound") == 0 ||
             strcmp(answer->code, "ResourceNotFound") == 0)
        error_set(err, (enum status)before.status,
                  "%.600s (there is no container '%s' at %s, or it is not public: check its name, "
                  "and the account's)",
                  before.message, azure->container + 1, azure->host);
}

static void release(struct origin *origin)
{
    struct azure *azure = (struct azure *)origin;
    free(azure->host);
    free(azure->container);
    free(azure);
}

static const struct origin_kind azure_kind = {.prepare = prepare,
                                              .explain = explain,
                                              .no_end = true,
                                              .is_coded = true,
                                              .query = add_query,
                                              .format = &page_azure,
                                              .free = release};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

/* Where storage accounts are, in Azure's clouds. */
static const char *const hosts[] = {".core.windows.net", ".core.chinacloudapi.cn",
                                    ".core.usgovcloudapi.net"};

/* The account of "ACCOUNT.blob.core.windows.net", or of ".dfs.": its length; 0: it is none. */
static size_t account_length(const char *host, size_t length, const char **ret_end)
{
    size_t account = strcspn(host, ".");
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        size_t end = strlen(hosts[i]), kind = length - end - account;
        const char *at = host + account;
        if (length > end && account > 0 && account < length - end &&
            strncmp(host + length - end, hosts[i], end) == 0 &&
            ((kind == 5 && strncmp(at, ".blob", 5) == 0) ||
             (kind == 4 && strncmp(at, ".dfs", 4) == 0))) {
            *ret_end = hosts[i];
            return account;
        }
    }
    return 0;
}

bool azure_is(const char *uri)
{
    const char *end;
    return strncmp(uri, "https://", 8) == 0 &&
           account_length(uri + 8, strcspn(uri + 8, "/?#"), &end) > 0;
}

struct parts {
    const char *container, *path; /* of the uri */
    size_t container_length;
    const char *account, *end; /* of the host; "": not said */
    size_t account_length;
};

static enum status take_apart(const char *uri, struct parts *parts, struct error *err)
{
    const char *rest = strstr(uri, "://") + 3;
    size_t first = strcspn(rest, "/");
    const char *at = memchr(rest, '@', first);
    bool is_https = strncmp(uri, "https:", 6) == 0;
    *parts = (struct parts){
        .container = rest, .container_length = first, .account = "", .end = hosts[0]};
    if (at || is_https) {
        parts->account = is_https ? rest : at + 1;
        parts->account_length =
            account_length(parts->account, first - (size_t)(parts->account - rest), &parts->end);
        parts->container_length = (size_t)(at ? at - rest : 0);
        if (parts->account_length == 0)
            return error_set(
                err, STATUS_INVALID,
                "store '%s': write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH", uri);
    }
    parts->path = rest + first;
    if (is_https) {
        parts->container = rest + first + (rest[first] == '/');
        parts->container_length = strcspn(parts->container, "/");
        parts->path = parts->container + parts->container_length;
    }
    parts->path += *parts->path == '/';
    size_t plain = strspn(parts->container, "abcdefghijklmnopqrstuvwxyz0123456789-$");
    if (parts->container_length == 0 || plain != parts->container_length)
        return error_set(err, STATUS_INVALID, "store '%s': no name of a container in it", uri);
    return STATUS_OK;
}

static enum status settle_account(struct azure *azure, const struct parts *parts, struct error *err)
{
    const char *name = "AZURE_STORAGE_ACCOUNT_NAME";
    if (!*credentials_variable(name))
        name = "AZURE_STORAGE_ACCOUNT";
    const char *account = parts->account_length ? parts->account : credentials_variable(name);
    size_t length = parts->account_length ? parts->account_length : strlen(account);
    if (length == 0)
        return error_set(err, STATUS_INVALID,
                         "which storage account? Set AZURE_STORAGE_ACCOUNT_NAME, or write "
                         "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH");
    if (length >= sizeof azure->account ||
        strspn(account, "abcdefghijklmnopqrstuvwxyz0123456789") < length)
        return error_set(err, STATUS_INVALID, "'%.*s' is not the name of a storage account",
                         (int)(length < 100 ? length : 100), account);
    snprintf(azure->account, sizeof azure->account, "%.*s", (int)length, account);
    return STATUS_OK;
}

static enum status settle_address(struct azure *azure, const struct parts *parts,
                                  const char *endpoint, struct error *err)
{
    struct text host = {0}, container = {0};
    enum status status = STATUS_OK;
    if (*endpoint) {
        status = origin_endpoint("store.endpoint", endpoint, &host, err);
        text_append(&container, "/%s", azure->account); /* as Azurite wants it */
    } else {
        text_append(&host, "https://%s.blob%s", azure->account, parts->end);
    }
    text_append(&container, "/%.*s", (int)parts->container_length, parts->container);
    azure->host = host.data;
    azure->container = container.data;
    if (status == STATUS_OK &&
        (asprintf(&azure->origin.prefix, "%s%s", parts->path, *parts->path ? "/" : "") < 0 ||
         asprintf(&azure->origin.identity, "%s%s", azure->host, azure->container) < 0))
        status = error_set(err, STATUS_NO_MEMORY, "no memory to open the store");
    return status;
}

static enum status settle(struct azure *azure, const char *uri,
                          const struct store_settings *settings, struct error *err)
{
    struct parts parts;
    char source[CREDENTIAL_BYTES];
    enum status status = take_apart(uri, &parts, err);
    if (status == STATUS_OK)
        status = settle_account(azure, &parts, err);
    if (status == STATUS_OK)
        status = settle_address(azure, &parts, settings->endpoint, err);
    if (status == STATUS_OK)
        status = origin_look(&azure->origin, azure_look, settings, azure->host, err);
    if (status != STATUS_OK)
        return status;
    azure->origin.encrypts = strncmp(azure->host, "https:", 6) == 0;
    credentials_source(azure->origin.provider, source);
    if (source[0] || settings->anonymous || strncmp(uri, "https:", 6) == 0)
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "no credentials: set AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_ACCOUNT_KEY; "
                     "for a public container, store.anonymous: true%s",
                     settings->metadata ? ""
                                        : "; for a managed or a workload identity, "
                                          "store.metadata: true");
}

enum status azure_new(const char *uri, const struct store_settings *settings,
                      struct origin **ret_origin, struct error *err)
{
    struct azure *azure = calloc(1, sizeof *azure);
    if (!azure)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    azure->origin.kind = &azure_kind;
    enum status status = settle(azure, uri, settings, err);
    if (status != STATUS_OK) {
        origin_free(&azure->origin);
        return error_prefix(err, status, "store '%s': ", uri);
    }
    *ret_origin = &azure->origin;
    return STATUS_OK;
}
