/* jwt_check.h - callers that are known by a signed token: its checks, and the keys that signed it.
 *
 *     jwt_keys_read(document, reader, &keys, &problem)         a JWKS, as its issuer has it
 *     jwt_check(keys, terms, reader, token, wall_now, &claims)   JWT_GOOD: whom the token names
 *
 * A token is a JWS in its compact form (RFC 7515) with claims (RFC 7519). What makes forgeries in
 * other programs is refused by construction: an algorithm has to be on the list of the terms, a
 * key serves one family of algorithms only, `none` and the symmetric ones do not exist here, and
 * nothing in a token says where its key is fetched from (RFC 8725).
 *
 * Claims are read after the signature has been verified, and every reason but JWT_GOOD means that
 * nobody is named.
 */
#ifndef TG_TENANCY_JWT_CHECK_H
#define TG_TENANCY_JWT_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "io/sign/jwt.h"
#include "io/text/json_read.h"
#include "io/text/slice.h"
#include "tollgate.h"

enum {
    JWT_BYTES_MAX = 16 << 10, /* a token; headers of a request may be larger */
    JWT_KEYS_MAX = 64,        /* in one document */
    JWT_CLAIM_MAX = 200,      /* bytes of a name that a claim gives */
};

struct jwt_keys;

/* The keys of a JWKS (RFC 7517) that can verify a signature. Others are passed over, as are all of
 * kinds that are not known. TG_ERR_INVALID: it is no JWKS, or has no usable key. */
TG_MUST_CHECK enum tg_err jwt_keys_read(struct slice document, struct json_reader *reader,
                                        struct jwt_keys **keys, struct tg_problem *problem);
void jwt_keys_free(struct jwt_keys *keys);
size_t jwt_keys_count(const struct jwt_keys *keys);

/* What a token has to say. Borrowed texts. */
struct jwt_terms {
    const char *issuer;
    const char *audience;     /* null: any, or none */
    const char *tenant_claim; /* the claim that names the tenant */
    const char *user_claim;   /* the claim that names the user; null: tokens name none */
    uint32_t algorithms;      /* bits of enum jwt_algorithm */
    tg_ms leeway;             /* by how much the issuer's clock may differ */
};

enum jwt_verdict {
    JWT_GOOD,
    JWT_MALFORMED,   /* no token, or one that says things twice */
    JWT_ALGORITHM,   /* not on the list */
    JWT_UNKNOWN_KEY, /* no key of this id and family */
    JWT_SIGNATURE,
    JWT_ISSUER,
    JWT_AUDIENCE,
    JWT_EXPIRED,
    JWT_NOT_YET, /* not valid before a time that lies ahead, or issued then */
    JWT_NO_EXPIRY,
    JWT_NO_CLAIM, /* the tenant's or the user's claim is absent, empty, too long, or no string */
    JWT_NO_MEMORY,
};

/* Why nobody is named, for a client: "its signature does not match". Static. */
const char *jwt_verdict_text(enum jwt_verdict verdict);

struct jwt_claims {
    char tenant[JWT_CLAIM_MAX + 1];
    char user[JWT_CLAIM_MAX + 1]; /* empty: the terms have no claim for it */
    tg_ms expires_at;             /* by the wall clock, the leeway included */
};

/* Whether a credential is to be read as a token: three parts, the first an object in base64url.
 * Virtual keys have no dots. */
bool jwt_has_form(struct slice credential);

/* By any number of threads, each with a reader of its own. */
enum jwt_verdict jwt_check(const struct jwt_keys *keys, const struct jwt_terms *terms,
                           struct json_reader *reader, struct slice token, tg_ms wall_now,
                           struct jwt_claims *claims);

#endif
