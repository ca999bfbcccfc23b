/* admit_authz.c - a request that a proxy holds, as a question: see admit_authz.h.
 *
 * The decision is by rate and cost alone: a proxy tells nobody when a request has ended, so there
 * is no slot that it could give back.
 */
#include "server/admit/admit_authz.h"

#include <string.h>

#include "server/tenancy/callers.h"
#include "server/tenancy/trust.h"
#include "server/tenancy/virtual_key.h"

const struct config_caller *admit_authz_entry(const struct config *config)
{
    return config->authz.present ? &config->authz.entry : NULL;
}

void admit_authz_caller(struct worker *worker, struct admit_caller *caller)
{
    *caller = (struct admit_caller){.entry = admit_authz_entry(&worker->generation->config),
                                    .generation = worker->generation->number,
                                    .is_authz = true};
}

bool admit_authz_may_ask(struct worker *worker, struct slice token)
{
    const struct config *config = &worker->generation->config;
    uint8_t hash[VIRTUAL_KEY_HASH];

    if (config->authz.auth == CONFIG_AUTHZ_ANYBODY)
        return true;
    return token.n > 0 && virtual_key_hash(token, hash) && caller_find(config, hash) != NULL;
}

/* ---- who sends it ---- */

static bool find_by_key(struct worker *worker, const struct http_head *head, struct slice *tenant,
                        struct identity *identity, struct refusal *why)
{
    const struct generation *generation = worker->generation;

    if (!identity_find(worker, generation, head, worker_now(worker), identity, why))
        return false;
    *tenant = slice_of(generation->config.tenants[identity->tenant].name);
    return true;
}

/* The value of a field that says who somebody is; empty: it is absent. False: it is there twice,
 * with two values. A proxy that adds its field to those of a client would let the client choose. */
static bool find_one(const struct http_head *head, const char *name, struct slice *value,
                     struct refusal *why)
{
    bool is_found = false;

    *value = (struct slice){NULL, 0};
    for (size_t i = 0; i < head->n_fields; i++) {
        if (!slice_equal(head->fields[i].name, slice_of(name)))
            continue;
        if (is_found && !slice_equal(head->fields[i].value, *value)) {
            refusal_init(why, REPLY_INVALID_REQUEST,
                         "the header %.60s is there twice, with two values; `ext_authz` reads it",
                         name);
            return false;
        }
        *value = head->fields[i].value;
        is_found = true;
    }
    return true;
}

static bool find_tenant(struct worker *worker, struct admit_authz_request *request,
                        struct slice *tenant, struct refusal *why)
{
    const struct config_authz *authz = &worker->generation->config.authz;

    switch (authz->known_by) {
    case CONFIG_AUTHZ_BY_KEY:
        return find_by_key(worker, request->head, tenant, &request->identity, why);
    case CONFIG_AUTHZ_BY_HEADER:
        if (!find_one(request->head, authz->tenant_header, tenant, why))
            return false;
        if (tenant->n > 0)
            return true;
        refusal_init(why, REPLY_INVALID_API_KEY,
                     "the header %.60s is missing; `ext_authz` knows by it who sends a request",
                     authz->tenant_header);
        return false;
    default:
        *tenant = request->address;
        if (address_client(tenant->at, tenant->n, request->client))
            *tenant = slice_of(request->client);
        if (tenant->n > 0)
            return true;
        refusal_init(why, REPLY_INVALID_REQUEST,
                     "the address is missing; `ext_authz` knows by it who sends a request");
        return false;
    }
}

/* The header that the section names, else the one by which the tenant's own calls name users. */
static bool find_user(struct worker *worker, const struct http_head *head, struct slice tenant,
                      struct slice *user, struct refusal *why)
{
    const struct config *config = &worker->generation->config;
    const struct config_tenant *known = config_tenant(config, tenant.at, tenant.n);
    const char *header = config->authz.user_header;

    if (header == NULL && known != NULL && known->users.present)
        header = known->users.header;
    return header == NULL || find_one(head, header, user, why);
}

bool admit_authz_read(struct worker *worker, struct admit_authz_request *request,
                      struct admit_ask *ask, struct refusal *why)
{
    const struct config_authz *authz = &worker->generation->config.authz;

    admit_ask_init(ask);
    ask->limits_only = true;
    ask->enforce = true;
    ask->tenant = request->tenant;
    request->identity.user[0] = 0;
    request->identity.key = NULL;
    if (ask->tenant.n == 0 && !find_tenant(worker, request, &ask->tenant, why))
        return false;
    ask->key = request->identity.key;
    ask->user = request->user;
    if (ask->user.n == 0)
        ask->user = slice_of(request->identity.user);
    if (ask->user.n == 0 && !find_user(worker, request->head, ask->tenant, &ask->user, why))
        return false;
    ask->model = request->model;
    if (ask->model.n == 0 && authz->model_header != NULL &&
        !find_one(request->head, authz->model_header, &ask->model, why))
        return false;
    ask->cost = request->cost >= 0 ? request->cost : authz->cost;
    return true;
}

struct slice admit_authz_address(struct worker *worker, const struct http_inbound *in,
                                 char room[INET6_ADDRSTRLEN])
{
    const struct sockaddr *peer = http_inbound_peer(in);
    struct slice last = {NULL, 0};

    if (trust_covers(&worker->generation->config, peer))
        for (size_t i = 0; i < in->head.n_fields; i++)
            if (slice_equal(in->head.fields[i].name, SLICE("x-forwarded-for")))
                last = in->head.fields[i].value;
    /* The proxy appends what it sees; what stands before it was sent by who knows whom. */
    for (size_t i = last.n; i-- > 0;)
        if (last.at[i] == ',') {
            last = (struct slice){last.at + i + 1, last.n - i - 1};
            break;
        }
    while (last.n > 0 && last.at[0] == ' ')
        last.at++, last.n--;
    while (last.n > 0 && last.at[last.n - 1] == ' ')
        last.n--;
    char client[ADDRESS_CLIENT_BYTES];
    if (address_client(last.at, last.n, client))
        return last;
    room[0] = '\0';
    if (peer != NULL)
        address_text(peer, room);
    return slice_of(room);
}
