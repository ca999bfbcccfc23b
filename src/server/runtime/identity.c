/* identity.c - who sends a request. See identity.h. */
#include "server/runtime/identity.h"

#include <string.h>

#include "server/runtime/generation.h"
#include "server/runtime/jwks.h"
#include "server/tenancy/virtual_key.h"

enum { AGAIN_MS = 1000 }; /* keys of tokens are on their way */

_Static_assert(JWT_CLAIM_MAX <= LEDGER_NAME_MAX, "a user's name in a token fits into the ledger");

/* What logs and the ledger call the key of a caller that has a token. */
static const struct config_key TOKEN = {.name = "jwt", .not_after = CONFIG_NEVER, .token = true};

static bool refuse_token(struct refusal *why, const char *text)
{
    refusal_init(why, REPLY_INVALID_API_KEY, "the token names nobody: %s", text);
    return false;
}

static bool find_by_token(struct worker *worker, const struct generation *generation,
                          struct slice token, tg_ms now, struct identity *identity,
                          struct refusal *why)
{
    const struct config_callers_jwt *config = &generation->config.callers_jwt;
    const struct jwt_terms terms = {.issuer = config->issuer,
                                    .audience = config->audience,
                                    .tenant_claim = config->tenant,
                                    .user_claim = config->user,
                                    .algorithms = config->algorithms,
                                    .leeway = config->leeway};
    struct jwt_claims claims;
    enum jwt_verdict verdict;

    if (jwks_check(worker->gateway->jwks, &terms, worker->reader, token, now,
                   clock_wall_of(&worker->gateway->clock, now), &verdict, &claims) == JWKS_AWAY) {
        refusal_init(why, REPLY_IDENTITY_UNAVAILABLE, NULL);
        why->retry_after_ms = AGAIN_MS;
        return false;
    }
    if (verdict == JWT_NO_MEMORY) {
        refusal_of_memory(why);
        return false;
    }
    if (verdict != JWT_GOOD)
        return refuse_token(why, jwt_verdict_text(verdict));
    const struct config_tenant *tenant =
        config_tenant(&generation->config, claims.tenant, strlen(claims.tenant));
    if (tenant == NULL) {
        refusal_init(why, REPLY_INVALID_API_KEY,
                     "the token names nobody: there is no tenant of the name that its claim "
                     "%.60s has",
                     config->tenant);
        return false;
    }
    if (tenant->blocked)
        return refuse_token(why, "the tenant is blocked");
    identity->tenant = (size_t)(tenant - generation->config.tenants);
    identity->key = &TOKEN;
    strcpy(identity->user, claims.user);
    return true;
}

bool identity_find(struct worker *worker, const struct generation *generation,
                   const struct http_head *head, tg_ms now, struct identity *identity,
                   struct refusal *why)
{
    uint8_t hash[VIRTUAL_KEY_HASH];
    struct slice key;

    identity->tenant = CONFIG_NONE;
    identity->key = NULL;
    identity->user[0] = 0;
    switch (virtual_key_find(head->fields, head->n_fields, &key)) {
    case VIRTUAL_KEY_CONFLICT:
        refusal_init(why, REPLY_CONFLICTING_API_KEYS, NULL);
        return false;
    case VIRTUAL_KEY_NONE:
        refusal_init(why, REPLY_INVALID_API_KEY,
                     "no API key: send one as 'Authorization: Bearer KEY' or 'x-api-key: KEY'");
        return false;
    default:
        break;
    }
    if (generation->config.callers_jwt.present && jwt_has_form(key))
        return find_by_token(worker, generation, key, now, identity, why);
    if (virtual_key_hash(key, hash))
        identity->tenant = generation_tenant_of_key(generation, hash, now, &identity->key);
    if (identity->tenant != CONFIG_NONE)
        return true;
    refusal_init(why, REPLY_INVALID_API_KEY, NULL);
    return false;
}

size_t identity_tenant(struct worker *worker, const struct generation *generation,
                       const struct http_head *head, tg_ms now, struct identity *identity)
{
    struct refusal unused;

    identity_find(worker, generation, head, now, identity, &unused);
    return identity->tenant;
}
