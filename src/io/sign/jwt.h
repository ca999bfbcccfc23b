/* jwt.h - a JSON Web Token: how it is signed, and whether it is signed by a key (RFC 7515, 7518).
 *
 * A service account asks for an access token with one that it has signed by RS256 (RFC 7523), and
 * callers are known by tokens that their identity provider has signed: jwt_check.h of
 * server/tenancy. Pure: what a token claims and when is the caller's to write and to judge. Checked
 * against RFC 7515 A.2 by tests/unit/io/sign/test_jwt.c, and all algorithms by
 * tests/unit/server/tenancy/test_jwt_check.c.
 */
#ifndef TG_SIGN_JWT_H
#define TG_SIGN_JWT_H

#include <openssl/types.h>

#include "io/text/text_out.h"

/* ---- Signing, by RS256 ---- */

/* Appends header.claims.signature. `pem` is a private key, PKCS #8 or #1. False: it is none, or
 * there is no memory. */
bool jwt_sign(struct slice pem, struct slice header, struct slice claims, struct text_out *out);

/* Whether a text is such a private key, RSA and of at least 2048 bits. */
bool jwt_is_key(struct slice pem);

/* Takes a token apart and checks its signature; `pem` is the private key or its public half.
 * `claims` is appended to: the JSON. False: it is not signed with the key. */
bool jwt_verify(struct slice pem, struct slice token, struct text_out *claims);

/* ---- Whether it is signed, by any algorithm ---- */

enum jwt_algorithm {
    JWT_RS256,
    JWT_RS384,
    JWT_RS512,
    JWT_PS256,
    JWT_PS384,
    JWT_PS512,
    JWT_ES256,
    JWT_ES384,
    JWT_EDDSA, /* Ed25519 */
    JWT_ALGORITHMS,
};

extern const char *const jwt_algorithm_names[JWT_ALGORITHMS]; /* "RS256" */

/* A token's three parts, in base64url. They point into it. */
struct jwt_parts {
    struct slice header, claims, signature;
    struct slice is_signed; /* header and claims with the dot between them */
};

/* False: there are not three of them. */
bool jwt_split(struct slice token, struct jwt_parts *parts);

/* Whether the key has signed it by the algorithm, whose kind the key is of. */
bool jwt_is_signed_by(const struct jwt_parts *parts, enum jwt_algorithm algorithm, EVP_PKEY *key);

#endif
