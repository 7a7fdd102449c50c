/* See azure_sign.h. */
#include "store/remote/azure_sign.h"

#include "store/http/url.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 16 };

static void add_decoded(const char *at, size_t length, struct text *out)
{
    for (const char *end = at + length; at < end; at++) {
        char c = *at;
        bool escape = url_is_escape(at, &c);
        text_append_bytes(out, &c, 1);
        at += escape ? 2 : 0;
    }
}

static int by_name(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    size_t one = strcspn(*left, "=&"), two = strcspn(*right, "=&");
    int order = strncmp(*left, *right, one < two ? one : two);
    return order ? order : one < two ? -1 : one > two;
}

/* The parts of the query, decoded, in order of name; names have small letters here. */
static void add_query(const char *query, struct text *out)
{
    const char *parts[PARTS_MOST];
    size_t count = 0;
    for (const char *at = query; *at && count < PARTS_MOST;) {
        parts[count++] = at;
        at += strcspn(at, "&");
        at += *at == '&';
    }
    qsort(parts, count, sizeof *parts, by_name);
    for (size_t i = 0; i < count; i++) {
        size_t all = strcspn(parts[i], "&"), name = strcspn(parts[i], "=&");
        text_append(out, "\n%.*s:", (int)name, parts[i]);
        if (name < all)
            add_decoded(parts[i] + name + 1, all - name - 1, out);
    }
}

void azure_to_sign(const struct azure_request *request, struct text *out)
{
    /* Encoding, language, length, MD5, type, date, and two of four conditions: not sent. */
    text_append(out, "%s\n\n\n\n\n\n\n\n%s\n\n%s\n%s\n%s/%s%s", request->method, request->if_match,
                request->unmodified_since, request->range, request->headers, request->account,
                request->path);
    add_query(request->query, out);
}

enum status azure_authorize(const struct azure_request *request, const char *key, struct text *out,
                            struct error *err)
{
    unsigned char secret[256], hash[EVP_MAX_MD_SIZE], encoded[4 * EVP_MAX_MD_SIZE];
    unsigned hash_bytes = 0;
    struct text text = {0};
    size_t length = strlen(key), padding = length - strcspn(key, "=");
    int size = length < sizeof secret
                   ? EVP_DecodeBlock(secret, (const unsigned char *)key, (int)length)
                   : -1;
    if (size <= 0 || padding > 2)
        return error_set(err, STATUS_INVALID, "the account's key is no base64");
    azure_to_sign(request, &text);
    HMAC(EVP_sha256(), secret, size - (int)padding, (const unsigned char *)text.data, text.length,
         hash, &hash_bytes);
    EVP_EncodeBlock(encoded, hash, (int)hash_bytes);
    text_append(out, "SharedKey %s:%s", request->account, (const char *)encoded);
    explicit_bzero(secret, sizeof secret);
    text_done(&text);
    return STATUS_OK;
}
