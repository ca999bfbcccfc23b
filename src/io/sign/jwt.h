/* jwt.h - a JSON Web Token, signed with RS256: RSASSA-PKCS1-v1_5 and SHA-256 (RFC 7515, 7518).
 *
 * A service account asks for an access token with such a one (RFC 7523). Pure: what it claims and
 * when is the caller's to write. Checked by tests/unit/io/sign/test_jwt.c against RFC 7515 A.2.
 */
#ifndef TG_SIGN_JWT_H
#define TG_SIGN_JWT_H

#include "io/text/text_out.h"

/* Appends header.claims.signature. `pem` is a private key, PKCS #8 or #1. False: it is none, or
 * there is no memory. */
bool jwt_sign(struct slice pem, struct slice header, struct slice claims, struct text_out *out);

/* Whether a text is such a private key, RSA and of at least 2048 bits. */
bool jwt_is_key(struct slice pem);

/* Takes a token apart and checks its signature; `pem` is the private key or its public half.
 * `claims` is appended to: the JSON. False: it is not signed with the key. */
bool jwt_verify(struct slice pem, struct slice token, struct text_out *claims);

#endif
