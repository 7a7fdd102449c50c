/* See http_redirect.h. */
#include "store/http/http_redirect.h"

#include "base/clock.h"
#include "store/http/http_client_internal.h"
#include "store/http/url.h"
#include "store/kind/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t keep_ns = UINT64_C(600) * 1000000000;

/* One redirect
 * ---------------------------------------------------------------------------------------------- */

bool http_redirect_is(const struct transfer *transfer)
{
    int status = transfer->answer.status;
    char *url = NULL;
    return (status == 301 || status == 302 || status == 303 || status == 307 || status == 308) &&
           curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &url) == CURLE_OK && url &&
           !transfer->answer.region[0] && /* S3's own, which says a region */
           !strstr(transfer->answer.body, "<Code>");
}

/* "https://host:443/x" and "https://host/y" are of one origin. */
static size_t origin_length(const char *url, const char **ret_port)
{
    size_t host = strcspn(url, ":") + 3;
    size_t length = host + strcspn(url + host, "/?#");
    const char *port = strncmp(url, "https:", 6) == 0 ? ":443" : ":80";
    size_t cut = strlen(port);
    *ret_port = port;
    return length > cut && strncmp(url + length - cut, port, cut) == 0 ? length - cut : length;
}

static bool is_same_origin(const char *a, const char *b)
{
    const char *port;
    size_t length = origin_length(a, &port);
    return origin_length(b, &port) == length && strncasecmp(a, b, length) == 0;
}

static enum http_verdict refuse(const struct transfer *transfer, const char *target,
                                const char *why, struct error *err)
{
    char shown[URL_SHOWN_BYTES];
    url_show(shown, sizeof shown, target);
    error_set(err, STATUS_IO, "%d %s: redirected to '%s': %s", transfer->answer.status,
              transfer->answer.reason, shown, why);
    return HTTP_FAILED;
}

/* Parts of a query may be secret here: only the part before is looked at. */
static bool may_follow(const char *from, const char *target, struct error *err)
{
    struct url old, new;
    char bare[2048];
    if (strcspn(target, "?#") >= sizeof bare)
        return false;
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(target, "?#"), target);
    if (url_parse("redirect", bare, &new, err) != STATUS_OK)
        return false;
    snprintf(bare, sizeof bare, "%.*s", (int)strcspn(from, "?#"), from);
    return new.encrypts || (url_is_local(&new) && url_parse("url", bare, &old, err) == STATUS_OK &&
                            !old.encrypts && url_is_local(&old));
}

enum http_verdict http_redirect_judge(struct transfer *transfer, struct error *err)
{
    struct fetch *fetch = transfer->fetch;
    char *target = NULL;
    curl_easy_getinfo(transfer->easy, CURLINFO_REDIRECT_URL, &target);
    if (fetch->own.transfer && fetch->own.second) {
        error_set(err, STATUS_IO, "redirected");
        return HTTP_AGAIN;
    }
    if (fetch->own.hops == HTTP_REDIRECTS_MOST)
        return refuse(transfer, target, "this is the sixth redirect in a row: a loop?", err);
    if (!may_follow(transfer->url.data, target, err))
        return refuse(transfer, target,
                      "redirects are followed to https alone, without a user or password: name "
                      "the address itself, if it is right",
                      err);
    char *copy = strdup(target);
    if (!copy) {
        error_set(err, STATUS_NO_MEMORY, "no memory for a redirect");
        return HTTP_FAILED;
    }
    fetch->own.away = fetch->own.away || !is_same_origin(transfer->url.data, target);
    fetch->own.hops++;
    http_redirect_forget(fetch);
    fetch->own.target = copy;
    error_set(err, STATUS_IO, "redirected");
    return HTTP_OTHERWISE;
}

void http_redirect_forget(struct fetch *fetch)
{
    if (fetch->own.target)
        explicit_bzero(fetch->own.target, strlen(fetch->own.target));
    free(fetch->own.target);
    fetch->own.target = NULL;
}

void http_redirect_begin(struct transfer *transfer)
{
    const struct fetch *fetch = transfer->fetch;
    transfer->url.length = 0;
    text_append(&transfer->url, "%s", fetch->own.target);
    if (fetch->own.away) {
        http_headers_forget(transfer->headers);
        transfer->headers = NULL;
    }
}

/* Those that are known
 * ---------------------------------------------------------------------------------------------- */

void http_redirects_init(struct http_redirects *redirects)
{
    *redirects = (struct http_redirects){.mutex = PTHREAD_MUTEX_INITIALIZER};
}

static void forget(struct http_known *known)
{
    if (known->target)
        explicit_bzero(known->target, strlen(known->target));
    free(known->target);
    free(known->key);
    *known = (struct http_known){0};
}

void http_redirects_done(struct http_redirects *redirects)
{
    for (size_t i = 0; redirects->known && i < HTTP_REDIRECTS_KNOWN; i++)
        forget(&redirects->known[i]);
    free(redirects->known);
    pthread_mutex_destroy(&redirects->mutex);
}

/* FNV-1a. */
static struct http_known *entry_of(struct http_redirects *redirects, const char *key)
{
    uint32_t hash = 2166136261u;
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    return &redirects->known[hash % HTTP_REDIRECTS_KNOWN];
}

void http_redirects_use(struct http_redirects *redirects, struct fetch *fetch)
{
    if (fetch->kind == FETCH_QUERY)
        return;
    pthread_mutex_lock(&redirects->mutex);
    struct http_known *known = redirects->known ? entry_of(redirects, fetch->key) : NULL;
    if (known && known->key && strcmp(known->key, fetch->key) == 0 &&
        clock_now_ns() < known->until_ns) {
        fetch->own.target = strdup(known->target); /* NULL: asked from the start */
        fetch->own.away = known->away && fetch->own.target;
        fetch->own.remembered = fetch->own.target != NULL;
    }
    pthread_mutex_unlock(&redirects->mutex);
}

/* Under the mutex. */
static void keep(struct http_redirects *redirects, const struct fetch *fetch)
{
    if (!redirects->known)
        redirects->known = calloc(HTTP_REDIRECTS_KNOWN, sizeof *redirects->known);
    if (!redirects->known)
        return;
    struct http_known *known = entry_of(redirects, fetch->key);
    forget(known);
    known->key = strdup(fetch->key);
    known->target = strdup(fetch->own.target);
    known->until_ns = clock_now_ns() + keep_ns;
    known->away = fetch->own.away;
    if (!known->key || !known->target)
        forget(known);
}

void http_redirects_keep(struct http_redirects *redirects, struct http_client *client,
                         const struct fetch *fetch)
{
    struct error note;
    const char *target = fetch->own.target;
    if (!target || fetch->own.remembered || fetch->kind == FETCH_QUERY)
        return;
    pthread_mutex_lock(&redirects->mutex);
    keep(redirects, fetch);
    bool is_first = fetch->own.away && !redirects->is_noted;
    redirects->is_noted = redirects->is_noted || is_first;
    pthread_mutex_unlock(&redirects->mutex);
    if (!is_first)
        return;
    const char *host = strstr(target, "://") + 3;
    error_set(&note, STATUS_IO, "'%s': its values come from '%.*s', where its server redirects to",
              client->uri, (int)strcspn(host, "/?#"), host);
    store_watch_note(client->watch, &note);
}

bool http_redirects_drop(struct http_redirects *redirects, struct fetch *fetch, int status)
{
    bool refuses = status == 401 || status == 403 || status == 404 || status == 410;
    if (!fetch->own.target || fetch->own.resolved || !refuses ||
        (status == 404 && !fetch->own.remembered))
        return false;
    pthread_mutex_lock(&redirects->mutex);
    struct http_known *known = redirects->known ? entry_of(redirects, fetch->key) : NULL;
    if (known && known->key && strcmp(known->key, fetch->key) == 0)
        forget(known);
    pthread_mutex_unlock(&redirects->mutex);
    http_redirect_forget(fetch);
    fetch->own.hops = 0;
    fetch->own.away = fetch->own.remembered = false;
    fetch->own.resolved = true;
    return true;
}
