/* Names of Icechunk's objects: 12 bytes as 20 characters of base32, in Crockford's alphabet, upper
 * case. Zero bits are appended at the end. Pure. */
#ifndef PENSTOCK_STORE_ICECHUNK_ICECHUNK_ID_H
#define PENSTOCK_STORE_ICECHUNK_ICECHUNK_ID_H

#include <stdbool.h>
#include <stdint.h>

enum { ICECHUNK_ID_BYTES = 12, ICECHUNK_NODE_BYTES = 8, ICECHUNK_ID_TEXT_BYTES = 21 };

void icechunk_id_print(const unsigned char id[ICECHUNK_ID_BYTES],
                       char ret_text[ICECHUNK_ID_TEXT_BYTES]);

/* False: `text` is no such name. */
bool icechunk_id_parse(const char *text, unsigned char ret_id[ICECHUNK_ID_BYTES]);

#endif
