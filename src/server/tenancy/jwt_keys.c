/* jwt_keys.c - the keys of an identity provider, as its JWKS has them. See jwt_check.h.
 *
 * A key of a kind that is not known, or for encryption, is passed over: providers publish several,
 * and one that is new must not make the others unusable. A key whose numbers make no key is passed
 * over, too; a document without any usable key is an error, because following it would lock
 * everybody out.
 */
#include <assert.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/base64url.h"
#include "lib/core/problem.h"
#include "server/tenancy/jwt_internal.h"

enum { NUMBER_MAX_BYTES = 1024 }; /* an RSA modulus of 8192 bits */

/* One key as it is written: the members that are used, still in base64url. */
struct written {
    struct json_text kty, kid, use, alg, crv, n, e, x, y;
    bool private;  /* it has a private part: somebody has published what must not be */
    bool verifies; /* `key_ops`, if there are any, have "verify" */
};

/* ---- one key ---- */

static bool jwk_number(struct json_text text, BIGNUM **number)
{
    uint8_t bytes[NUMBER_MAX_BYTES];
    size_t n;

    if (!base64url_read((struct slice){text.bytes, text.size}, bytes, sizeof bytes, &n) || n == 0)
        return false;
    *number = BN_bin2bn(bytes, (int)n, NULL);
    return *number != NULL;
}

static EVP_PKEY *jwk_make(const char *kind, OSSL_PARAM *params)
{
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, kind, NULL);
    EVP_PKEY *key = NULL;

    if (context == NULL || params == NULL || EVP_PKEY_fromdata_init(context) <= 0 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) <= 0)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    return key;
}

static EVP_PKEY *rsa_key(const struct written *from)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *modulus = NULL, *exponent = NULL;
    OSSL_PARAM *params = NULL;
    EVP_PKEY *key = NULL;

    if (build != NULL && jwk_number(from->n, &modulus) && jwk_number(from->e, &exponent) &&
        BN_num_bits(modulus) >= 2048 && BN_is_odd(exponent) && BN_num_bits(exponent) <= 64 &&
        !BN_is_one(exponent) && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) &&
        (params = OSSL_PARAM_BLD_to_param(build)) != NULL)
        key = jwk_make("RSA", params);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

static EVP_PKEY *curve_key(const struct written *from, const char *group, size_t bytes)
{
    uint8_t point[1 + 2 * 48] = {4}; /* uncompressed */
    char name[16];
    size_t x = 0, y = 0;

    assert(1 + 2 * bytes <= sizeof point && strlen(group) < sizeof name);
    if (!base64url_read((struct slice){from->x.bytes, from->x.size}, point + 1, bytes, &x) ||
        !base64url_read((struct slice){from->y.bytes, from->y.size}, point + 1 + bytes, bytes,
                        &y) ||
        x != bytes || y != bytes)
        return NULL;
    strcpy(name, group);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * bytes),
        OSSL_PARAM_construct_end()};
    EVP_PKEY *key = jwk_make("EC", params);
    EVP_PKEY_CTX *check = key != NULL ? EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL) : NULL;

    if (check == NULL || EVP_PKEY_public_check(check) <= 0) { /* it is not on the curve */
        EVP_PKEY_free(key);
        key = NULL;
    }
    EVP_PKEY_CTX_free(check);
    return key;
}

static EVP_PKEY *edwards_key(const struct written *from)
{
    uint8_t bytes[32];
    size_t n;

    if (!base64url_read((struct slice){from->x.bytes, from->x.size}, bytes, sizeof bytes, &n) ||
        n != sizeof bytes)
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, bytes, n);
}

#define BIT(algorithm) (1u << (algorithm))

/* The algorithms that a key of its kind serves; `alg` leaves one of them, or none. */
static uint32_t algorithms_of(const struct written *from, uint32_t kind)
{
    if (from->alg.size == 0)
        return kind;
    for (int i = 0; i < JWT_ALGORITHMS; i++)
        if (json_text_is(from->alg, jwt_algorithm_names[i]))
            return kind & BIT(i);
    return 0;
}

static bool jwk_read_one(const struct written *from, struct jwt_key *to)
{
    static const uint32_t rsa = BIT(JWT_RS256) | BIT(JWT_RS384) | BIT(JWT_RS512) | BIT(JWT_PS256) |
                                BIT(JWT_PS384) | BIT(JWT_PS512);

    if (from->private || !from->verifies || (from->use.size > 0 && !json_text_is(from->use, "sig")))
        return false;
    if (json_text_is(from->kty, "RSA")) {
        to->algorithms = algorithms_of(from, rsa);
        to->key = to->algorithms != 0 ? rsa_key(from) : NULL;
    } else if (json_text_is(from->kty, "EC") && json_text_is(from->crv, "P-256")) {
        to->algorithms = algorithms_of(from, BIT(JWT_ES256));
        to->key = to->algorithms != 0 ? curve_key(from, "P-256", 32) : NULL;
    } else if (json_text_is(from->kty, "EC") && json_text_is(from->crv, "P-384")) {
        to->algorithms = algorithms_of(from, BIT(JWT_ES384));
        to->key = to->algorithms != 0 ? curve_key(from, "P-384", 48) : NULL;
    } else if (json_text_is(from->kty, "OKP") && json_text_is(from->crv, "Ed25519")) {
        to->algorithms = algorithms_of(from, BIT(JWT_EDDSA));
        to->key = to->algorithms != 0 ? edwards_key(from) : NULL;
    }
    if (to->key == NULL)
        return false;
    to->id_bytes = from->kid.size;
    to->id = malloc(from->kid.size + 1);
    if (to->id == NULL) {
        EVP_PKEY_free(to->key);
        return false;
    }
    memcpy(to->id, from->kid.bytes != NULL ? from->kid.bytes : "", from->kid.size);
    return true;
}

/* ---- the document ---- */

static bool has_verify(struct json_reader *reader)
{
    struct json_text none;
    struct json_value value;
    bool found = false;

    if (json_enter(reader))
        while (json_next(reader, &none, &value))
            found |= value.kind == JSON_STRING && json_text_is(value.string, "verify");
    return found;
}

static void read_key(struct json_reader *reader, struct written *to)
{
    const struct {
        const char *name;
        struct json_text *into;
    } members[] = {{"kty", &to->kty}, {"kid", &to->kid}, {"use", &to->use},
                   {"alg", &to->alg}, {"crv", &to->crv}, {"n", &to->n},
                   {"e", &to->e},     {"x", &to->x},     {"y", &to->y}};
    struct json_text name;
    struct json_value value;

    to->verifies = true;
    while (json_next(reader, &name, &value)) {
        if (json_text_is(name, "key_ops") && value.kind == JSON_ARRAY)
            to->verifies = has_verify(reader);
        to->private |= json_text_is(name, "d") || json_text_is(name, "k");
        for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
            if (json_text_is(name, members[i].name) && value.kind == JSON_STRING)
                *members[i].into = value.string;
    }
}

static void read_keys(struct json_reader *reader, struct jwt_keys *keys)
{
    struct json_text none;
    struct json_value value;

    while (json_next(reader, &none, &value)) {
        struct written written = {0};
        if (value.kind != JSON_OBJECT || !json_enter(reader))
            continue;
        read_key(reader, &written);
        if (keys->n < JWT_KEYS_MAX && jwk_read_one(&written, &keys->keys[keys->n]))
            keys->n++;
    }
}

enum tg_err jwt_keys_read(struct slice document, struct json_reader *reader, struct jwt_keys **made,
                          struct tg_problem *problem)
{
    struct jwt_keys *keys = calloc(1, sizeof *keys);
    struct json_text name;
    struct json_value value;
    bool found = false;

    if (keys == NULL)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the keys");
    if (json_begin(reader, document.at, document.n, document.n, &value) &&
        value.kind == JSON_OBJECT && json_enter(reader))
        while (json_next(reader, &name, &value))
            if (json_text_is(name, "keys") && value.kind == JSON_ARRAY && json_enter(reader)) {
                found = true;
                read_keys(reader, keys);
            }
    ERR_clear_error(); /* what failed here is nothing that a TLS connection should find */
    if (!json_end(reader))
        problem_fail(problem, "the document is not JSON: %.100s",
                     json_reader_problem(reader)->text);
    else if (!found)
        problem_fail(problem, "the document is no JWKS: it has no array `keys`");
    else if (keys->n == 0)
        problem_fail(problem, "no key of the document can verify a signature: wanted are public "
                              "keys of RSA from 2048 bits, P-256, P-384 or Ed25519, with `use` sig "
                              "or without it");
    else {
        *made = keys;
        return TG_OK;
    }
    jwt_keys_free(keys);
    return TG_ERR_INVALID;
}

void jwt_keys_free(struct jwt_keys *keys)
{
    for (size_t i = 0; keys != NULL && i < keys->n; i++) {
        EVP_PKEY_free(keys->keys[i].key);
        free(keys->keys[i].id);
    }
    free(keys);
}

size_t jwt_keys_count(const struct jwt_keys *keys)
{
    return keys->n;
}
