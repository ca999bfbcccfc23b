/* jwt.c - a JSON Web Token, signed with RS256. See jwt.h. */
#include "io/sign/jwt.h"

#include <limits.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdint.h>
#include <stdlib.h>

#include "io/text/base64url.h"

enum { KEY_BITS_MIN = 2048, SIGNATURE_MAX = 2048 };

static void put_base64url(struct text_out *out, struct slice bytes)
{
    if (!text_out_reserve(out, BASE64URL_CHARACTERS(bytes.n) + 1))
        return;
    base64url_write(bytes.at, bytes.n, out->bytes + out->size);
    out->size += BASE64URL_CHARACTERS(bytes.n);
}

static bool read_base64url(struct text_out *out, struct slice text)
{
    size_t n;

    if (!text_out_reserve(out, text.n + 1) ||
        !base64url_read(text, (uint8_t *)out->bytes + out->size, text.n, &n))
        return false;
    out->size += n;
    return true;
}

/* Nobody is asked for the password of a key that has one. */
static int no_password(char *buffer, int size, int writing, void *arg)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static EVP_PKEY *read_key(struct slice pem, bool is_private)
{
    EVP_PKEY *key = NULL;
    BIO *bio = pem.n <= INT_MAX ? BIO_new_mem_buf(pem.at, (int)pem.n) : NULL;

    if (bio != NULL)
        key = is_private ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL)
                         : PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    BIO_free(bio);
    return key;
}

static bool is_rsa(const EVP_PKEY *key)
{
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) >= KEY_BITS_MIN;
}

bool jwt_is_key(struct slice pem)
{
    EVP_PKEY *key = read_key(pem, true);
    bool good = key != NULL && is_rsa(key);

    EVP_PKEY_free(key);
    return good;
}

static bool sign(EVP_PKEY *key, struct slice text, struct text_out *out)
{
    unsigned char signature[SIGNATURE_MAX];
    size_t n = sizeof signature;
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    bool fine = digest != NULL && EVP_PKEY_get_size(key) <= SIGNATURE_MAX &&
                EVP_DigestSignInit(digest, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestSign(digest, signature, &n, (const unsigned char *)text.at, text.n) == 1;

    EVP_MD_CTX_free(digest);
    if (fine)
        put_base64url(out, (struct slice){(const char *)signature, n});
    return fine;
}

bool jwt_sign(struct slice pem, struct slice header, struct slice claims, struct text_out *out)
{
    EVP_PKEY *key = read_key(pem, true);
    size_t begin = out->size;

    put_base64url(out, header);
    text_out_char(out, '.');
    put_base64url(out, claims);
    struct text_out signature = {0};
    bool fine = key != NULL && is_rsa(key) && !out->failed &&
                sign(key, (struct slice){out->bytes + begin, out->size - begin}, &signature);
    text_out_char(out, '.');
    text_out_slice(out, text_out_written(&signature));
    fine = fine && !signature.failed && !out->failed;
    text_out_fini(&signature);
    EVP_PKEY_free(key);
    return fine;
}

bool jwt_verify(struct slice pem, struct slice token, struct text_out *claims)
{
    const char *end = token.at + token.n;
    const char *first = token.n > 0 ? memchr(token.at, '.', token.n) : NULL;
    const char *second = first != NULL ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;
    EVP_PKEY *key = read_key(pem, true);
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    struct text_out signature = {0};

    if (key == NULL)
        key = read_key(pem, false);
    bool good =
        second != NULL && key != NULL && is_rsa(key) && digest != NULL &&
        read_base64url(&signature, (struct slice){second + 1, (size_t)(end - second - 1)}) &&
        signature.size > 0 && EVP_DigestVerifyInit(digest, NULL, EVP_sha256(), NULL, key) == 1 &&
        EVP_DigestVerify(digest, (const unsigned char *)signature.bytes, signature.size,
                         (const unsigned char *)token.at, (size_t)(second - token.at)) == 1 &&
        read_base64url(claims, (struct slice){first + 1, (size_t)(second - first - 1)});
    text_out_fini(&signature);
    EVP_MD_CTX_free(digest);
    EVP_PKEY_free(key);
    return good;
}
