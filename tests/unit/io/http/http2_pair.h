/* http2_pair.h - both ends of HTTP/2 are ours: a server, a client, and an exchange between them. */
#ifndef HTTP2_PAIR_H
#define HTTP2_PAIR_H

#include "net_kit.h"

struct pair {
    struct kit kit;
    struct http_origin *origin;
    struct kit_out out;
};

static inline void pair_init(struct pair *pair)
{
    kit_init(&pair->kit);
    pair->kit.options.http2 = true;
}

static inline void pair_start(struct pair *pair)
{
    kit_listen(&pair->kit);
    kit_client(&pair->kit);
    pair->origin = kit_origin_http2(pair->kit.port, NULL, NULL, HTTP2_PRIOR);
    pair->out = (struct kit_out){.kit = &pair->kit};
}

static inline void pair_fini(struct pair *pair)
{
    kit_out_fini(&pair->out);
    http_origin_unref(pair->origin);
    kit_fini(&pair->kit);
}

/* An exchange whose request has arrived, as far as it was written. */
static inline struct kit_in *pair_begin(struct pair *pair, const char *method, int64_t length)
{
    size_t before = pair->kit.n_ins;

    kit_send(&pair->kit, &pair->out, pair->origin, method, "/x?y", length);
    kit_until(&pair->kit, pair->kit.n_ins == before + 1);
    return &pair->kit.ins[before];
}

#endif
