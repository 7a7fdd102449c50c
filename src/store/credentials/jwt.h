/* JSON Web Tokens, signed with RSA and SHA-256 (RFC 7515, RFC 7518 section 3.3). Pure. */
#ifndef PENSTOCK_STORE_CREDENTIALS_JWT_H
#define PENSTOCK_STORE_CREDENTIALS_JWT_H

#include "base/text.h"

/* Appends "HEADER.CLAIMS.SIGNATURE" in base64url. `header` and `claims` are JSON, `pem` a private
 * key. INVALID: it is none of RSA. */
MUST_USE enum status jwt_sign(const char *pem, const char *header, const char *claims,
                              struct text *out, struct error *err);

#endif
