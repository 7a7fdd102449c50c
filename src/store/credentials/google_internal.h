/* What google.c and google_external.c share. */
#ifndef PENSTOCK_STORE_CREDENTIALS_GOOGLE_INTERNAL_H
#define PENSTOCK_STORE_CREDENTIALS_GOOGLE_INTERNAL_H

#include "store/credentials/credentials.h"

struct json_object;

/* The right to read objects. */
extern const char google_scope[];

/* A string member that is not empty, borrowed from `root`; NULL: there is none. `root` may be NULL.
 */
const char *google_member(struct json_object *root, const char *name);

/* INVALID: the file lacks `what`. */
enum status google_lacks(const char *what, struct error *err);

/* Workload identity federation: a file of type external_account. The token of another provider,
 * which lies in a file, or is had from a url where store.metadata allows that, is exchanged for one
 * of Google's (RFC 8693), and that one for a service account's where the file names one. INVALID:
 * the file lacks what is needed; UNSUPPORTED: a source that is a program, or AWS; others as of
 * ask_server(). */
MUST_USE enum status google_ask_external(struct json_object *root,
                                         const struct store_settings *settings,
                                         struct credentials *found, struct error *err);

#endif
