/* jwt.c - signatures of JSON Web Tokens. See jwt.h. */
#include "io/sign/jwt.h"

#include <limits.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
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

/* ---- Whether it is signed ---- */

const char *const jwt_algorithm_names[JWT_ALGORITHMS] = {
    [JWT_RS256] = "RS256", [JWT_RS384] = "RS384", [JWT_RS512] = "RS512",
    [JWT_PS256] = "PS256", [JWT_PS384] = "PS384", [JWT_PS512] = "PS512",
    [JWT_ES256] = "ES256", [JWT_ES384] = "ES384", [JWT_EDDSA] = "EdDSA",
};

bool jwt_split(struct slice token, struct jwt_parts *parts)
{
    const char *first = memchr(token.at, '.', token.n);
    const char *end = token.at + token.n;
    const char *second = first != NULL ? memchr(first + 1, '.', (size_t)(end - first - 1)) : NULL;

    if (second == NULL || memchr(second + 1, '.', (size_t)(end - second - 1)) != NULL)
        return false;
    parts->header = (struct slice){token.at, (size_t)(first - token.at)};
    parts->claims = (struct slice){first + 1, (size_t)(second - first - 1)};
    parts->signature = (struct slice){second + 1, (size_t)(end - second - 1)};
    parts->is_signed = (struct slice){token.at, (size_t)(second - token.at)};
    return true;
}

static const EVP_MD *digest_of(enum jwt_algorithm algorithm)
{
    switch (algorithm) {
    case JWT_RS384:
    case JWT_PS384:
    case JWT_ES384:
        return EVP_sha384();
    case JWT_RS512:
    case JWT_PS512:
        return EVP_sha512();
    case JWT_EDDSA:
        return NULL;
    default:
        return EVP_sha256();
    }
}

/* The two numbers of a signature on a curve stand one behind the other in a token, and in DER for
 * the library. */
static bool curve_signature(const uint8_t *bytes, size_t n, size_t number, uint8_t **der,
                            size_t *der_bytes)
{
    ECDSA_SIG *pair = n == 2 * number ? ECDSA_SIG_new() : NULL;
    BIGNUM *r, *s;
    int length = -1;

    if (pair == NULL)
        return false;
    r = BN_bin2bn(bytes, (int)number, NULL);
    s = BN_bin2bn(bytes + number, (int)number, NULL);
    if (r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s)) {
        r = s = NULL;
        length = i2d_ECDSA_SIG(pair, der);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    *der_bytes = length > 0 ? (size_t)length : 0;
    return length > 0;
}

static bool verify(EVP_PKEY *key, enum jwt_algorithm algorithm, struct slice text,
                   const uint8_t *signature, size_t n)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options; /* the context's */
    bool salted = algorithm >= JWT_PS256 && algorithm <= JWT_PS512;
    bool good = context != NULL &&
                EVP_DigestVerifyInit(context, &options, digest_of(algorithm), NULL, key) > 0;

    if (good && salted)
        good = EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) > 0 &&
               EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) > 0;
    good = good && EVP_DigestVerify(context, signature, n, (const uint8_t *)text.at, text.n) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

bool jwt_is_signed_by(const struct jwt_parts *parts, enum jwt_algorithm algorithm, EVP_PKEY *key)
{
    uint8_t bytes[SIGNATURE_MAX];
    uint8_t *der = NULL;
    size_t n, der_bytes;
    bool good;

    if (!base64url_read(parts->signature, bytes, sizeof bytes, &n) || n == 0)
        return false;
    if (algorithm != JWT_ES256 && algorithm != JWT_ES384)
        return verify(key, algorithm, parts->is_signed, bytes, n);
    good = curve_signature(bytes, n, algorithm == JWT_ES256 ? 32 : 48, &der, &der_bytes) &&
           verify(key, algorithm, parts->is_signed, der, der_bytes);
    OPENSSL_free(der);
    return good;
}

bool jwt_verify(struct slice pem, struct slice token, struct text_out *claims)
{
    EVP_PKEY *key = read_key(pem, true);
    struct jwt_parts parts;

    if (key == NULL)
        key = read_key(pem, false);
    bool good = key != NULL && is_rsa(key) && jwt_split(token, &parts) &&
                jwt_is_signed_by(&parts, JWT_RS256, key) && read_base64url(claims, parts.claims);
    EVP_PKEY_free(key);
    return good;
}
