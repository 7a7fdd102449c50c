/* The one place that knows credentials: what stores of every cloud prove who they are with, from
 * the places where other programs have it. Credentials are never logged, and never in a message.
 *
 * A cloud has one function that looks for credentials (aws.h, google.h, azure.h, headers.h). A
 * provider calls that function when the store is opened, again before what it found runs out, and
 * when a server says that it has run out. What is from files, and says no time, is looked for again
 * every 30 s. While new credentials cannot be had, the old ones are used until their time is over;
 * then reads fail with what is in the way, and are tried again as the store's options say.
 *
 * The client's threads make requests. The first one to notice that credentials run out asks for new
 * ones, while the others wait.
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_CREDENTIALS_H
#define PENSTOCK_STORE_CREDENTIALS_CREDENTIALS_H

#include "base/text.h"
#include "store/store.h"

#include <time.h>

enum { CREDENTIAL_BYTES = 256, CREDENTIAL_TOKEN_BYTES = 6144 };

enum credentials_kind {
    CREDENTIALS_KEYS,    /* requests are signed with access_key and secret; `token` may go along */
    CREDENTIALS_BEARER,  /* `token` goes into the Authorization header */
    CREDENTIALS_QUERY,   /* `token` is a query that is appended to urls (Azure's SAS) */
    CREDENTIALS_HEADERS, /* `token` has lines "Name: value" */
};

struct credentials {
    enum credentials_kind kind;
    bool found;                         /* those of the kind are set */
    bool from_file;                     /* may be other ones without a word */
    char access_key[CREDENTIAL_BYTES];  /* of Azure: the account */
    char secret[CREDENTIAL_BYTES];      /* of a pair of keys */
    char token[CREDENTIAL_TOKEN_BYTES]; /* "": none */
    time_t expires;                     /* 0: not known, or never */
    char source[CREDENTIAL_BYTES];      /* where they were found, for messages */
    char region[CREDENTIAL_BYTES];      /* of AWS: "": not given */
    char endpoint[CREDENTIAL_BYTES];    /* of AWS: "": not given */
};

/* Looks for credentials. If there are none, or settings->anonymous is set, the status is OK and
 * `found` is false. Blocks on files and servers. Reads the environment, which no other thread may
 * change meanwhile. INVALID: what is there cannot be right; UNSUPPORTED; IO: a file cannot be read,
 * or a server does not answer as it should. */
typedef enum status credentials_look(const struct store_settings *settings,
                                     struct credentials *ret_found, struct error *err);

struct credentials_provider;

/* Looks for the first time. Copies *settings. Errors are those of `look`; NO_MEMORY. */
MUST_USE enum status credentials_provider_new(credentials_look *look,
                                              const struct store_settings *settings,
                                              struct credentials_provider **ret_provider,
                                              struct error *err);

/* NULL is fine. */
void credentials_provider_free(struct credentials_provider *provider);

/* Copies the credentials that a request is to be made with now; the caller ends the copy with
 * credentials_done(). Any thread. May look for new ones, and so block. IO: the old ones have run
 * out, and new ones cannot be had. */
MUST_USE enum status credentials_take(struct credentials_provider *provider,
                                      struct credentials *ret_now, struct error *err);

/* Looks for new credentials, after a server has refused those of a request that was made at
 * `sent_ns`. True: there are newer ones than then. Any thread; may block. */
bool credentials_renew(struct credentials_provider *provider, uint64_t sent_ns);

/* Where the credentials of now are from; "": requests are not signed. Any thread. */
void credentials_source(struct credentials_provider *provider, char ret_source[CREDENTIAL_BYTES]);

/* Overwrites the struct with zeros. */
void credentials_done(struct credentials *credentials);

/* For functions that look. Copies a value: INVALID, with `name` and without the value, if the value
 * is too long or has a control character. */
MUST_USE enum status credentials_copy(char *out, size_t capacity, const char *value,
                                      const char *name, struct error *err);

/* The value of a variable of the environment; "": it is not set. */
const char *credentials_variable(const char *name);

/* Appends the path of a file below the user's home directory. */
void credentials_home_path(const char *name, struct text *out);

/* Reads a file of at most CREDENTIAL_TOKEN_BYTES - 1 bytes, without white space at its ends. IO: it
 * cannot be read; INVALID: it is empty, or has more bytes or a control character but for line ends
 * with `lines`. Messages have the path. */
MUST_USE enum status credentials_read_file(const char *path, bool lines,
                                           char ret_text[CREDENTIAL_TOKEN_BYTES],
                                           struct error *err);

#endif
