/* route_origin.h - where requests of a configuration go: its addresses, with their trust. */
#ifndef TG_UPSTREAM_ROUTE_ORIGIN_H
#define TG_UPSTREAM_ROUTE_ORIGIN_H

#include "io/http/http_client.h"
#include "server/config/config.h"

/* Whom we trust there, and who we are; each null where nothing is said. */
struct route_trust {
    const char *ca, *cert, *key;
};

/* An address, through a proxy or straight (null). False: `why` says what is wrong. */
bool route_origin_new(const struct config_url *url, struct route_trust trust, const char *proxy,
                      enum http2_use http2, struct http_origin **origin, struct tg_problem *why);

/* The same with the trust and the proxy of a provider. */
bool route_origin_of(const struct config_url *url, const struct config_provider *provider,
                     struct http_origin **origin, struct tg_problem *why);

/* Whether connections to the one may go on being used for the other. */
bool route_origin_same(const struct config_url *a, const struct config_provider *of_a,
                       const struct config_url *b, const struct config_provider *of_b);

#endif
