/* What the files of remote/ share: where a store's values are, and how requests for them are made.
 * Inside src/store.
 *
 *     web.c      http://, https://, hf://      values by their urls
 *     s3.c       s3://, gs://                  the protocol of S3
 *     azure.c    az://, abfs[s]://, https:// of a storage account
 */
#ifndef PENSTOCK_STORE_REMOTE_REMOTE_INTERNAL_H
#define PENSTOCK_STORE_REMOTE_REMOTE_INTERNAL_H

#include "store/credentials/credentials.h"
#include "store/http/http_client.h"
#include "store/kind/relay.h"
#include "store/remote/page.h"

struct origin;

/* A kind of server. The client's threads call the functions of struct http_target, whose context is
 * the origin. */
struct origin_kind {
    enum status (*prepare)(void *context, const struct fetch *fetch, struct text *url,
                           struct curl_slist **headers, struct error *err);
    void (*explain)(void *context, const struct fetch *fetch, const struct http_answer *answer,
                    struct error *err);                             /* NULL */
    bool (*moved)(void *context, const struct http_answer *answer); /* NULL */
    bool no_end, is_coded;                                          /* as in http_target */
    /* Of listings: appends the query of a page of what starts with `prefix`. `mark` is "" for the
     * first page. NULL: there are no listings. */
    void (*query)(const char *prefix, bool folders, const char *mark, struct text *out);
    const struct page_format *format;
    void (*free)(struct origin *origin); /* all but the members below, the origin itself included */
};

/* A kind embeds it as its first member. */
struct origin {
    const struct origin_kind *kind;
    struct credentials_provider *provider; /* owned; NULL: none are looked for */
    char *identity; /* owned: the server and the bucket, for store_identify(); NULL: the uri says */
    char *prefix;   /* owned: what keys have in front in listings: "" or "prefix/" */
    bool encrypts;
};

/* A store behind a network. */
struct remote {
    struct store store;
    struct http_client *client; /* owned */
    char *uri;                  /* owned, without a '/' at its end */
    struct origin *origin;      /* owned */
};

/* web.c, s3.c, azure.c: for a uri without a '/' at its end. `settings` is not kept. May block, as
 * credentials_look() does. INVALID: the uri, the region or the endpoint is malformed, or there are
 * no credentials; NO_MEMORY; and the errors of credentials_look(). */
MUST_USE enum status web_new(const char *uri, const struct store_settings *settings,
                             struct origin **ret_origin, struct error *err);
MUST_USE enum status s3_new(const char *uri, const struct store_settings *settings,
                            struct origin **ret_origin, struct error *err);
MUST_USE enum status azure_new(const char *uri, const struct store_settings *settings,
                               struct origin **ret_origin, struct error *err);

/* azure.c: whether an https:// uri is of a storage account. */
bool azure_is(const char *uri);

/* origin.c: NULL is fine. The client must have ended. */
void origin_free(struct origin *origin);

/* origin.c: checks an endpoint that was given: "http://HOST[:PORT]". Appends it to `out` without a
 * '/' or the usual port at its end. `what` names where it is from. INVALID. */
MUST_USE enum status origin_endpoint(const char *what, const char *endpoint, struct text *out,
                                     struct error *err);

/* origin.c: looks for credentials. INVALID also: secrets that would go over plain HTTP to another
 * machine at `base`, which are all but keys. */
MUST_USE enum status origin_look(struct origin *origin, credentials_look *look,
                                 const struct store_settings *settings, const char *base,
                                 struct error *err);

/* origin.c: adds "Authorization: Bearer ..." */
MUST_USE enum status origin_bearer(const struct credentials *now, struct curl_slist **headers,
                                   struct error *err);

/* listing.c: operations of the kind, with the contracts of store_list() and store_usage(). */
enum status remote_list(const struct remote *remote, const char *prefix, store_visit *visit,
                        void *argument, struct error *err);
enum status remote_usage(const struct remote *remote, const char *prefix, uint64_t most,
                         struct store_usage *ret_usage, struct error *err);

#endif
