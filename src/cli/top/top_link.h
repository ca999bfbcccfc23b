/* top_link.h - the admin listener as `tollgate top` asks it: one GET at a time, on a loop.
 *
 *     top_link_open(&link, loop, &address, done, context, &problem)
 *     top_link_fetch(&link);                 done() comes once, from the loop
 *     top_link_close(&link);                 whatever is under way is dropped
 */
#ifndef TG_TOP_TOP_LINK_H
#define TG_TOP_TOP_LINK_H

#include <stdbool.h>

#include "io/http/http_client.h"

#define TOP_URL_DEFAULT "http://127.0.0.1:9090"
#define TOP_TOKEN_MAX 1024

struct top_address {
    const char *url;   /* "http://host:port", perhaps with a path before /api */
    const char *ca;    /* PEM file for https; null: the system's */
    const char *cert;  /* PEM file of what we show for https; null: nothing */
    const char *key;   /* its key */
    const char *token; /* null: none is sent */
};

/* What came of a fetch. `body` is the listener's, whole, and valid during the call; JSON_PADDING
 * bytes after it may be read. */
struct top_reply {
    int status; /* HTTP status; 0: there was no reply, and `why` says why */
    struct slice body;
    const char *why;
};

typedef void top_link_done(void *context, const struct top_reply *reply);

struct top_link {
    struct net_loop *loop;
    struct http_client *client;
    struct http_origin *origin;
    struct http_outbound *out; /* null: nothing is under way */
    top_link_done *done;
    void *context;
    char *targets[2]; /* path before /api and all: of this gateway, of the fleet */
    bool fleet;
    char *authorization; /* null: none */
    int status;
    char *body;
    size_t n, capacity;
    bool too_long;
};

/* False: the address is none, or there is no memory; `problem` says what. Nothing is sent yet. */
bool top_link_open(struct top_link *link, struct net_loop *loop, const struct top_address *address,
                   top_link_done *done, void *context, struct tg_problem *problem);
void top_link_close(struct top_link *link);

/* Asks for the snapshot of all gateways, or of this one, unless a question is under way. */
void top_link_fetch(struct top_link *link, bool fleet);

#endif
