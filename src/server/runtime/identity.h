/* identity.h - who sends a request: the tenant of its virtual key, or of its token.
 *
 *     identity_find(worker, generation, head, now, &identity, &why)
 *
 * One way for all services that know callers by what we gave to them, or by what the issuer of
 * `callers_jwt` did. A credential with the form of a token is a token where that section is there:
 * virtual keys have no dots.
 */
#ifndef TG_RUNTIME_IDENTITY_H
#define TG_RUNTIME_IDENTITY_H

#include "server/dialect/replies.h"
#include "server/runtime/worker.h"
#include "server/tenancy/jwt_check.h"

struct generation;

struct identity {
    size_t tenant;                /* CONFIG_NONE: nobody is known */
    const struct config_key *key; /* one named "jwt" stands for a token; null: nobody is known */
    char user[JWT_CLAIM_MAX + 1]; /* the user that a token names; empty: none */
};

/* False: nobody is known, and `why` says so to the client. `now` is the loop's. */
bool identity_find(struct worker *worker, const struct generation *generation,
                   const struct http_head *head, tg_ms now, struct identity *identity,
                   struct refusal *why);

/* The same for requests that may come without a credential of ours. */
size_t identity_tenant(struct worker *worker, const struct generation *generation,
                       const struct http_head *head, tg_ms now, struct identity *identity);

#endif
