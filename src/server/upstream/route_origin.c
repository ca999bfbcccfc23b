/* route_origin.c - where requests of a configuration go. See route_origin.h. */
#include "server/upstream/route_origin.h"

#include <string.h>

#include "io/net/tls.h"

bool route_origin_new(const struct config_url *url, struct route_trust trust, const char *proxy,
                      enum http2_use http2, struct http_origin **origin, struct tg_problem *why)
{
    struct http_origin_options options;
    struct tls_context *tls = NULL;

    http_origin_options_init(&options);
    options.host = url->host;
    options.port = url->port;
    options.proxy = proxy;
    options.http2 = http2;
    if (url->tls && tls_client_new(trust.ca, trust.cert, trust.key, &tls, why))
        return false;
    options.tls = tls;
    enum tg_err err = http_origin_new(&options, origin, why);
    tls_context_unref(tls);
    return err == TG_OK;
}

bool route_origin_of(const struct config_url *url, const struct config_provider *provider,
                     struct http_origin **origin, struct tg_problem *why)
{
    return route_origin_new(url, (struct route_trust){.ca = provider->ca}, provider->proxy,
                            HTTP2_NEVER, origin, why);
}

/* With a file of authorities it is made anew, since the file may say something else by now. */
bool route_origin_same(const struct config_url *a, const struct config_provider *of_a,
                       const struct config_url *b, const struct config_provider *of_b)
{
    return text_same(a->host, b->host) && a->port == b->port && a->tls == b->tls &&
           text_same(of_a->proxy, of_b->proxy) && text_same(of_a->ca, of_b->ca) &&
           (!a->tls || of_a->ca == NULL || strcmp(of_a->ca, "system") == 0);
}
