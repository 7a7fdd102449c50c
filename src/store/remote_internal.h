/* What http and s3 stores share; inside src/store. */
#ifndef PENSTOCK_STORE_REMOTE_INTERNAL_H
#define PENSTOCK_STORE_REMOTE_INTERNAL_H

#include "store/http_client.h"
#include "store/store_internal.h"

struct s3;

struct remote {
    struct store store;
    struct http_client *client;
    char *uri;     /* owned, without a '/' at its end */
    struct s3 *s3; /* NULL: plain http */
};

/* Starts the fetches and waits until all are done; their statuses are in them. */
void remote_run(const struct remote *remote, struct fetch *fetches, size_t count);

/* s3.c */

/* For "s3://bucket/prefix". INVALID: not such a uri, an endpoint that makes no sense; no
 * credentials. */
MUST_USE enum status s3_new(const char *uri, const struct store_settings *settings,
                            struct s3 **ret_s3, struct error *err);
void s3_free(struct s3 *s3);

/* The target's functions (http_client.h); `context` is the struct s3. */
enum status s3_prepare(void *context, const struct fetch *fetch, struct text *url,
                       struct curl_slist **headers, struct error *err);
bool s3_refresh(void *context);
void s3_explain(void *context, const struct fetch *fetch, const struct http_answer *answer,
                struct error *err);

/* Appends where the bucket lies, for store_identify(). */
void s3_identify(const struct s3 *s3, struct text *out);

/* In front of all keys of the store: "" or "prefix/"; borrowed. */
const char *s3_prefix(const struct s3 *s3);

/* s3_list.c: operations of the kind. */
enum status s3_list(const struct remote *remote, const char *prefix, store_visit *visit,
                    void *argument, struct error *err);
enum status s3_usage(const struct remote *remote, const char *prefix, uint64_t most,
                     struct store_usage *ret_usage, struct error *err);

#endif
