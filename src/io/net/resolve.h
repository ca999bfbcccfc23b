/* resolve.h - names to addresses, without waiting: on libuv's threads, remembered for a while.
 *
 * A resolver belongs to one loop. Whoever waits for the same name waits for the same look-up.
 * Failures are not remembered; addresses that were found before are, and are used when a look-up
 * fails or takes long, until one succeeds: a name service that is away for a while is no reason
 * not to connect where we connected a minute ago. The answer that there is no such name is no
 * failure: it is believed.
 */
#ifndef TG_NET_RESOLVE_H
#define TG_NET_RESOLVE_H

#include "io/net/address.h"
#include "io/net/loop_internal.h"

#define RESOLVE_ADDRESSES_MAX 16

struct resolve_answer {
    size_t n;         /* 0: there is none */
    const char *text; /* why there is none */
    struct {
        union address address;
        socklen_t bytes;
    } list[RESOLVE_ADDRESSES_MAX]; /* families in turn, as the system prefers */
};

/* In its owner's storage. */
struct resolve_wait {
    LIST_ENTRY(resolve_wait) among; /* all that wait for the name; le_prev null: it does not */
    void (*done)(struct resolve_wait *wait, const struct resolve_answer *answer);
};

struct resolver {
    struct net_loop *loop;
    tg_ms keep_ms;     /* how long an answer is used */
    tg_ms patience_ms; /* how long a look-up may take before the old answer is used */
    tg_ms again_ms;    /* how long the old answer is used after a look-up that failed */
    SLIST_HEAD(, resolve_name) names;
};

void resolver_init(struct resolver *resolver, struct net_loop *loop, tg_ms keep_ms);

/* Nobody may be waiting. Look-ups that run end on their own, before the loop is freed. */
void resolver_fini(struct resolver *resolver);

/* done() may come from inside, when the answer is known. `host` may be an address in figures. */
void resolve(struct resolver *resolver, const char *host, int port, struct resolve_wait *wait);
void resolve_cancel(struct resolve_wait *wait);

#endif
