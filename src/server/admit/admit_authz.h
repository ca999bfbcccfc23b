/* admit_authz.h - a request that a proxy holds, as a question: who sends it, by `ext_authz`.
 *
 *     Envoy's ext_authz over gRPC     rpc_authz.c  --.
 *     Envoy's ext_authz over HTTP,                   +-->  admit_authz_read  -->  admit_start
 *     Caddy, Traefik, nginx           admit_api.c  --'
 *
 * What a client sends proves nothing but its key. So its query, and every header that the
 * configuration does not name, is never read as ours; what the operator's proxy states beside the
 * request (the context extensions of a route) goes before what the request says.
 */
#ifndef TG_ADMIT_ADMIT_AUTHZ_H
#define TG_ADMIT_ADMIT_AUTHZ_H

#include <netinet/in.h>

#include "io/net/address.h"
#include "server/admit/admit.h"
#include "server/runtime/identity.h"

/* The header by which a proxy that speaks HTTP proves that it may ask: `authorization` is its
 * client's. */
#define ADMIT_AUTHZ_TOKEN "x-tollgate-caller"

struct admit_authz_request {
    const struct http_head *head;      /* the client's fields, names in lower case */
    struct slice address;              /* the client's; empty: not known */
    struct slice tenant, user, model;  /* stated by the operator; empty: not stated */
    int64_t cost;                      /* the same; negative: not stated */
    struct identity identity;          /* who is known by a key or a token; set by reading */
    char client[ADDRESS_CLIENT_BYTES]; /* room for whom the address stands for */
};

/* The entry that such questions have; null: `ext_authz` is absent. */
const struct config_caller *admit_authz_entry(const struct config *config);

/* Makes `caller` the one that such questions have. */
void admit_authz_caller(struct worker *worker, struct admit_caller *caller);

/* Whether somebody with this token may ask; an empty one is none. */
bool admit_authz_may_ask(struct worker *worker, struct slice token);

/* Fills in the ask, whose texts point into the request. False: `why` says what is missing. */
bool admit_authz_read(struct worker *worker, struct admit_authz_request *request,
                      struct admit_ask *ask, struct refusal *why);

/* The client's address: what a trusted proxy says of it last, if that is one, else that of the
 * connection. */
struct slice admit_authz_address(struct worker *worker, const struct http_inbound *in,
                                 char room[INET6_ADDRSTRLEN]);

#endif
