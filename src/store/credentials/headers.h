/* What plain HTTP servers want to know their clients by: headers that the configuration points to,
 * and Hugging Face's token. */
#ifndef PENSTOCK_STORE_CREDENTIALS_HEADERS_H
#define PENSTOCK_STORE_CREDENTIALS_HEADERS_H

#include "store/credentials/credentials.h"

/* As credentials_look(): lines "Name: value" of the file or the variable that settings->headers
 * names. INVALID: it is neither "env:NAME" nor an absolute path, the variable is not set, or a line
 * is no header, or one of those that Penstock makes itself (Range, Host). */
MUST_USE enum status headers_look(const struct store_settings *settings,
                                  struct credentials *ret_found, struct error *err);

/* As credentials_look(): the token of Hugging Face's hub: HF_TOKEN, or the file HF_TOKEN_PATH,
 * token in HF_HOME, or ~/.cache/huggingface/token. */
MUST_USE enum status hub_look(const struct store_settings *settings, struct credentials *ret_found,
                              struct error *err);

#endif
