/* See jwt.h. */
#include "store/credentials/jwt.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

/* Without '=' at the end, and with two other letters than base64 (RFC 4648 section 5). */
static void add_base64(const void *bytes, size_t size, struct text *out)
{
    unsigned char *encoded = malloc(4 * (size / 3 + 1) + 1);
    if (!encoded)
        abort(); /* as text_append() */
    int length = EVP_EncodeBlock(encoded, bytes, (int)size);
    for (int i = 0; i < length; i++)
        encoded[i] = encoded[i] == '+' ? '-' : encoded[i] == '/' ? '_' : encoded[i];
    while (length > 0 && encoded[length - 1] == '=')
        length--;
    text_append_bytes(out, encoded, (size_t)length);
    free(encoded);
}

/* Keys that want a passphrase are refused, not asked for at the terminal. */
static int no_passphrase(char *text, int size, int writes, void *argument)
{
    (void)text;
    (void)size;
    (void)writes;
    (void)argument;
    return -1;
}

enum status jwt_sign(const char *pem, const char *header, const char *claims, struct text *out,
                     struct error *err)
{
    unsigned char signature[1024];
    size_t size = sizeof signature;
    struct text text = {0};
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL) : NULL;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    add_base64(header, strlen(header), &text);
    text_append(&text, ".");
    add_base64(claims, strlen(claims), &text);
    bool good = key && context && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
                EVP_PKEY_get_size(key) <= (int)sizeof signature &&
                EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestSign(context, signature, &size, (const unsigned char *)text.data,
                               text.length) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    BIO_free(bio);
    if (good) {
        text_append(out, "%s.", text.data);
        add_base64(signature, size, out);
    }
    text_done(&text);
    return good ? STATUS_OK
                : error_set(err, STATUS_INVALID, "the private key is no RSA key in PEM format");
}
