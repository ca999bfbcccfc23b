/* net_admin_kit.h - a gateway without workers, and the admin API in front of it, asked without a
 * socket.
 *
 * Requests come by a transport that is none: what the API answers is written down. What its threads
 * would do is done in place, and reloads are real, but come from the loop of the test.
 */
#ifndef NET_ADMIN_KIT_H
#define NET_ADMIN_KIT_H

#include "check.h"
#include "server/admin/admin_server.h"
#include "server/explain/explain.h"
#include "server/obs/metrics.h"
#include "server/obs/watch.h"
#include "server/runtime/gateway.h"

#define ADMIN_TOKEN "a-token-of-more-than-16-bytes"

/* One exchange. */
struct admin_exchange {
    struct http_inbound in; /* first */
    struct http_field fields[4];
    size_t queued; /* what queued() says: bytes that the client has not taken */
    int status;    /* 0: no answer yet */
    char type[64], allow[64], challenge[64];
    char *body; /* with a 0 behind it */
    size_t body_n, body_room;
    bool finished;
};

struct admin_kit {
    char folder[200], path[240];
    struct clock clock;
    struct net_loop *loop;
    struct gateway *gateway;
    struct generation *generation;
    struct watch *watch;
    struct metrics *metrics;
    struct admin *admin;
    struct explainer explainer;     /* without workers */
    struct admin_exchange exchange; /* for admin_kit_ask() */
    bool breaks;                    /* the next reload fails, though the files are right */
    bool threads;                   /* changes have threads: the loop waits for them */
    size_t reloads;

    /* A reload that was asked for. */
    struct net_post reload;
    reload_done *done;
    void *context;
};

/* `yaml` is the configuration, to which the ledger in memory and the token are added. */
void admin_kit_open(struct admin_kit *kit, const char *yaml);
void admin_kit_open_with(struct admin_kit *kit, const char *yaml, bool threads);
void admin_kit_close(struct admin_kit *kit);

/* Another text in the file; takes effect with the next reload. */
void admin_kit_write(struct admin_kit *kit, const char *yaml);

/* A request with the right token, from its head to its answer. `body` null: none. The answer is in
 * kit->exchange until the next. */
int admin_kit_ask(struct admin_kit *kit, const char *method, const char *target, const char *body);

/* The same with any token (null: none) and content type (null: none). */
int admin_kit_ask_as(struct admin_kit *kit, const char *token, const char *type, const char *method,
                     const char *target, const char *body);

/* Whether the last answer has this text. */
bool admin_kit_said(const struct admin_kit *kit, const char *text);

/* By hand: an exchange of the caller's, begun and ended; nothing is waited for. */
void admin_exchange_begin(struct admin_kit *kit, struct admin_exchange *exchange,
                          const char *method, const char *target, const char *token);
void admin_exchange_gone(struct admin_exchange *exchange);

/* Lets the loop run what waits. */
void admin_kit_turn(struct admin_kit *kit);

#endif
