/* http1_upstream.h - a client of ours, and an upstream that is a socket: it says what the test puts
 * into its mouth.
 */
#ifndef HTTP1_UPSTREAM_H
#define HTTP1_UPSTREAM_H

#include <unistd.h>

#include "net_kit.h"

/* An upstream of plain bytes, and a client. */
struct pair {
    struct kit kit;
    struct http_origin *origin;
    int listening, port;
    struct kit_out out;
};

static inline void pair_init(struct pair *pair)
{
    kit_init(&pair->kit);
    kit_client(&pair->kit);
    pair->listening = kit_raw_listen(&pair->port);
    pair->origin = kit_origin(pair->port, NULL, NULL);
}

static inline void pair_fini(struct pair *pair)
{
    kit_out_fini(&pair->out);
    http_origin_unref(pair->origin);
    close(pair->listening);
    kit_fini(&pair->kit);
}

/* A GET whose request has arrived. */
static inline struct kit_raw *pair_get(struct pair *pair)
{
    kit_send(&pair->kit, &pair->out, pair->origin, "GET", "/x?y", 0);
    struct kit_raw *raw = kit_raw_accept(&pair->kit, pair->listening);
    kit_until(&pair->kit, kit_got(raw, "\r\n\r\n"));
    return raw;
}

#endif
