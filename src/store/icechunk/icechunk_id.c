/* See icechunk_id.h. */
#include "store/icechunk/icechunk_id.h"

#include <string.h>

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/* The five bits from bit `5 * i` on, of which those behind the end are 0. */
static unsigned bits_at(const unsigned char *id, int i)
{
    int bit = 5 * i, byte = bit / 8;
    unsigned next = byte + 1 < ICECHUNK_ID_BYTES ? id[byte + 1] : 0;
    return ((unsigned)id[byte] << 8 | next) >> (11 - bit % 8) & 31;
}

void icechunk_id_print(const unsigned char id[ICECHUNK_ID_BYTES],
                       char ret_text[ICECHUNK_ID_TEXT_BYTES])
{
    for (int i = 0; i < ICECHUNK_ID_TEXT_BYTES - 1; i++)
        ret_text[i] = alphabet[bits_at(id, i)];
    ret_text[ICECHUNK_ID_TEXT_BYTES - 1] = '\0';
}

bool icechunk_id_parse(const char *text, unsigned char ret_id[ICECHUNK_ID_BYTES])
{
    unsigned char id[ICECHUNK_ID_BYTES + 1] = {0};
    for (int i = 0; i < ICECHUNK_ID_TEXT_BYTES - 1; i++) {
        const char *found = text[i] ? strchr(alphabet, text[i]) : NULL;
        if (!found)
            return false;
        unsigned bits = (unsigned)(found - alphabet) << (11 - 5 * i % 8);
        id[5 * i / 8] |= (unsigned char)(bits >> 8);
        id[5 * i / 8 + 1] |= (unsigned char)bits;
    }
    if (text[ICECHUNK_ID_TEXT_BYTES - 1] != '\0' || id[ICECHUNK_ID_BYTES] != 0)
        return false;
    memcpy(ret_id, id, ICECHUNK_ID_BYTES);
    return true;
}
