/* Values by their urls: http://, https://, and Hugging Face's hub (hf://), whose urls redirect.
 *
 * Source: Hugging Face, "Hub API Endpoints" and "hf:// URLs" of huggingface_hub.
 */
#include "store/credentials/headers.h"
#include "store/credentials/s3_sign.h"
#include "store/http/http_judge.h"
#include "store/http/url.h"
#include "store/remote/remote_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct web {
    struct origin origin;
    char *base; /* owned: what urls begin with, without a '/' at its end */
    char *tree; /* owned: what urls of listings begin with, likewise; NULL: there are none */
};

static enum status add_lines(const struct credentials *now, struct curl_slist **headers,
                             struct error *err)
{
    enum status status = STATUS_OK;
    for (const char *at = now->token; *at && status == STATUS_OK;) {
        size_t length = strcspn(at, "\r\n");
        status = http_header(headers, err, "%.*s", (int)length, at);
        at += length;
        at += strspn(at, "\r\n");
    }
    return status;
}

static enum status prepare(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err)
{
    const struct web *web = context;
    struct credentials now;
    if (fetch->kind == FETCH_QUERY) {
        text_append(url, "%s%s", web->tree, fetch->key);
    } else {
        text_append(url, "%s/", web->base);
        s3_encode(fetch->key, true, url);
    }
    enum status status = credentials_take(web->origin.provider, &now, err);
    if (status != STATUS_OK)
        return status;
    if (now.found)
        status = now.kind == CREDENTIALS_BEARER ? origin_bearer(&now, headers, err)
                                                : add_lines(&now, headers, err);
    credentials_done(&now);
    return status;
}

static void explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err)
{
    const struct web *web = context;
    const struct error before = *err;
    char source[CREDENTIAL_BYTES];
    (void)fetch;
    credentials_source(web->origin.provider, source);
    if (source[0] && (answer->status == 401 || answer->status == 403))
        error_set(err, (enum status)before.status, "%.600s (asked with %s)", before.message,
                  source);
}

static void release(struct origin *origin)
{
    struct web *web = (struct web *)origin;
    free(web->base);
    free(web->tree);
    free(web);
}

/* The hub lists a folder, or all that is below one. */
static void add_query(const char *prefix, bool folders, const char *mark, struct text *out)
{
    size_t length = strlen(prefix);
    char *path = strndup(prefix, length > 0 ? length - 1 : 0);
    text_append(out, "%s", length > 0 ? "/" : "");
    s3_encode(path ? path : "", true, out);
    free(path);
    text_append(out, "?recursive=%s%s%s", folders ? "false" : "true", *mark ? "&cursor=" : "",
                mark);
}

static const struct origin_kind web_kind = {
    .prepare = prepare, .explain = explain, .free = release};
static const struct origin_kind hub_kind = {.prepare = prepare,
                                            .explain = explain,
                                            .is_coded = true,
                                            .query = add_query,
                                            .format = &page_hub,
                                            .free = release};

/* Opening
 * ---------------------------------------------------------------------------------------------- */

/* Keys are put behind the uri as it stands. */
static enum status check_uri(const char *uri, struct error *err)
{
    char shown[URL_SHOWN_BYTES];
    struct url url;
    enum status status = url_parse("store", uri, &url, err);
    if (status != STATUS_OK || !strpbrk(uri, "?#"))
        return status;
    url_show(shown, sizeof shown, uri);
    return error_set(err, STATUS_INVALID,
                     "store '%s': its uri goes on with '?' or '#': signatures and other queries "
                     "cannot be part of a store's uri",
                     shown);
}

/* Bytes of a revision; those that the hub makes itself have slashes. */
static size_t revision_length(const char *at)
{
    size_t length = strcspn(at, "/");
    bool special = strncmp(at, "refs/pr/", 8) == 0 || strncmp(at, "refs/convert/", 13) == 0;
    if (special) {
        length = at[5] == 'p' ? 8 : 13;
        length += strcspn(at + length, "/");
    }
    return length;
}

/* "hf://[datasets/|spaces/]OWNER/NAME[@REVISION][/PATH]": urls of values, of listings, and what
 * keys of listings begin with. */
static enum status hub_bases(const char *uri, const char *endpoint, struct text *base,
                             struct text *tree, struct text *prefix, struct error *err)
{
    const char *rest = uri + strlen("hf://");
    size_t kind = strncmp(rest, "datasets/", 9) == 0 ? 9 : strncmp(rest, "spaces/", 7) == 0 ? 7 : 0;
    size_t owner = strcspn(rest + kind, "/@");
    const char *name = rest + kind + owner + 1;
    size_t name_length = rest[kind + owner] == '/' ? strcspn(name, "/@") : 0;
    if (owner == 0 || name_length == 0 || strpbrk(uri, "?#"))
        return error_set(err, STATUS_INVALID,
                         "store '%s': write hf://datasets/OWNER/NAME@REVISION/PATH, or "
                         "hf://OWNER/NAME/PATH for a model",
                         uri);
    const char *path = name + name_length;
    struct text revision = {0};
    if (*path == '@') {
        size_t length = revision_length(path + 1);
        for (const char *c = path + 1; c < path + 1 + length; c++)
            text_append(&revision, *c == '/' ? "%%2F" : "%c", *c);
        path += 1 + length;
    } else {
        text_append(&revision, "main");
    }
    int bytes = (int)(kind + owner + 1 + name_length);
    text_append(base, "%s/%.*s/resolve/%s", endpoint, bytes, rest, revision.data);
    text_append(tree, "%s/api/%s%.*s/tree/%s", endpoint, kind ? "" : "models/", bytes, rest,
                revision.data);
    s3_encode(path, true, base);
    text_append(prefix, "%s%s", *path ? path + 1 : "", *path ? "/" : "");
    text_done(&revision);
    return STATUS_OK;
}

static enum status settle(struct web *web, const char *uri, const struct store_settings *settings,
                          struct error *err)
{
    static const char what[] = "the endpoint of the hub (store.endpoint or HF_ENDPOINT)";
    bool is_hub = strncmp(uri, "hf:", 3) == 0;
    struct text endpoint = {0}, base = {0}, tree = {0}, prefix = {0};
    const char *given =
        settings->endpoint[0] ? settings->endpoint : credentials_variable("HF_ENDPOINT");
    web->origin.kind = is_hub ? &hub_kind : &web_kind;
    enum status status = is_hub ? STATUS_OK : check_uri(uri, err);
    if (is_hub)
        status = origin_endpoint(what, *given ? given : "https://huggingface.co", &endpoint, err);
    if (status == STATUS_OK && is_hub)
        status = hub_bases(uri, endpoint.data, &base, &tree, &prefix, err);
    if (status == STATUS_OK && !is_hub)
        text_append(&base, "%s", uri);
    if (status == STATUS_OK)
        status =
            origin_look(&web->origin, is_hub ? hub_look : headers_look, settings, base.data, err);
    web->origin.encrypts = base.data && strncmp(base.data, "https:", 6) == 0;
    web->origin.identity = is_hub ? endpoint.data : NULL;
    web->origin.prefix = prefix.data;
    web->base = base.data;
    web->tree = tree.data;
    if (!is_hub)
        text_done(&endpoint);
    return status;
}

enum status web_new(const char *uri, const struct store_settings *settings,
                    struct origin **ret_origin, struct error *err)
{
    struct web *web = calloc(1, sizeof *web);
    if (!web)
        return error_set(err, STATUS_NO_MEMORY, "store '%s': no memory to open it", uri);
    enum status status = settle(web, uri, settings, err);
    if (status != STATUS_OK) {
        origin_free(&web->origin);
        return status;
    }
    *ret_origin = &web->origin;
    return STATUS_OK;
}
