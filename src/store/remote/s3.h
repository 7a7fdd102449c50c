/* What s3.c and s3_address.c share: where a bucket lies. Inside src/store/remote. */
#ifndef PENSTOCK_STORE_REMOTE_S3_H
#define PENSTOCK_STORE_REMOTE_S3_H

#include "store/remote/remote_internal.h"

#include <pthread.h>

struct s3 {
    struct origin origin;
    bool is_google;
    bool is_given; /* the endpoint, which no redirect changes */
    char payer[STORE_TEXT_BYTES];
    char *bucket;          /* path of the bucket, encoded: "" or "/bucket" */
    char *name;            /* of the bucket */
    pthread_mutex_t mutex; /* once the store is open, around: */
    char region[STORE_TEXT_BYTES];
    char *base; /* "https://host" or "http://host:port" */
};

/* Sets region, base, bucket, name and prefix. `uri` begins with "s3://" or "gs://". `found` has
 * region and endpoint of the environment. INVALID, UNSUPPORTED, NO_MEMORY. */
MUST_USE enum status s3_settle(struct s3 *s3, const char *uri,
                               const struct store_settings *settings,
                               const struct credentials *found, struct error *err);

/* As http_target.moved: takes the region that an answer says, and of AWS the host that goes with
 * it. Any thread. */
bool s3_moved(void *context, const struct http_answer *answer);

#endif
