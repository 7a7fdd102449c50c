/* What remote.c, s3.c and s3_list.c share. Inside src/store. */
#ifndef PENSTOCK_STORE_REMOTE_REMOTE_INTERNAL_H
#define PENSTOCK_STORE_REMOTE_REMOTE_INTERNAL_H

#include "store/http/http_client.h"
#include "store/kind/store_internal.h"

struct s3;

/* A store behind a network. */
struct remote {
    struct store store;
    struct http_client *client; /* owned */
    char *uri;                  /* owned, without a '/' at its end */
    struct s3 *s3;              /* owned; NULL: plain HTTP */
};

/* Starts [count] fetches and waits until all are done. Sets their done() and argument. Their
 * statuses are in the fetches. Any thread but the client's own. */
void remote_run(const struct remote *remote, struct fetch *fetches, size_t count);

/* s3.c: for "s3://bucket/prefix". `settings` is not kept. May block, as credentials_find() does.
 * INVALID: the bucket's name, the region or the endpoint is malformed, or there are no credentials;
 * NO_MEMORY; and the errors of credentials_find(). */
MUST_USE enum status s3_new(const char *uri, const struct store_settings *settings,
                            struct s3 **ret_s3, struct error *err);

/* NULL is fine. The client must have ended. */
void s3_free(struct s3 *s3);

/* s3.c: the functions of struct http_target (http_client.h). `context` is the struct s3. */
enum status s3_prepare(void *context, const struct fetch *fetch, struct text *url,
                       struct curl_slist **headers, struct error *err);
bool s3_refresh(void *context, uint64_t sent_ns);
void s3_explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                struct error *err);

/* s3.c: whether requests go over TLS. */
bool s3_encrypts(const struct s3 *s3);

/* s3.c: appends the server and the bucket, for store_identify(). */
void s3_identify(const struct s3 *s3, struct text *out);

/* s3.c: what the keys of the store have in front on the server: "" or "prefix/"; borrowed. */
const char *s3_prefix(const struct s3 *s3);

/* s3_list.c: operations of the kind, with the contracts of store_list() and store_usage(). */
enum status s3_list(const struct remote *remote, const char *prefix, store_visit *visit,
                    void *argument, struct error *err);
enum status s3_usage(const struct remote *remote, const char *prefix, uint64_t most,
                     struct store_usage *ret_usage, struct error *err);

#endif
