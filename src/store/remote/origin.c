/* See remote_internal.h: what all kinds of origins share. */
#include "store/http/url.h"
#include "store/remote/remote_internal.h"

#include <stdlib.h>
#include <string.h>

void origin_free(struct origin *origin)
{
    if (!origin)
        return;
    credentials_provider_free(origin->provider);
    free(origin->identity);
    free(origin->prefix);
    origin->kind->free(origin);
}

enum status origin_endpoint(const char *what, const char *endpoint, struct text *out,
                            struct error *err)
{
    char shown[URL_SHOWN_BYTES];
    struct url url;
    enum status status = url_parse(what, endpoint, &url, err);
    if (status != STATUS_OK)
        return status;
    if (url.has_path || url.has_query) {
        url_show(shown, sizeof shown, endpoint);
        return error_set(err, STATUS_INVALID, "%s is '%s': write http://HOST:PORT or https://HOST",
                         what, shown);
    }
    url_append_base(endpoint, out);
    return STATUS_OK;
}

enum status origin_look(struct origin *origin, credentials_look *look,
                        const struct store_settings *settings, const char *base, struct error *err)
{
    struct credentials now;
    struct url url;
    enum status status = credentials_provider_new(look, settings, &origin->provider, err);
    if (status == STATUS_OK)
        status = credentials_take(origin->provider, &now, err);
    if (status != STATUS_OK)
        return status;
    bool is_open = now.found && now.kind != CREDENTIALS_KEYS && strncmp(base, "http:", 5) == 0;
    credentials_done(&now);
    if (is_open)
        status = url_parse("store", base, &url, err);
    if (status == STATUS_OK && is_open && !url_is_local(&url))
        return error_set(err, STATUS_INVALID,
                         "tokens and headers are sent over https alone, and '%s' is not", base);
    return status;
}

enum status origin_bearer(const struct credentials *now, struct curl_slist **headers,
                          struct error *err)
{
    return http_header(headers, err, "Authorization: Bearer %s", now->token);
}
