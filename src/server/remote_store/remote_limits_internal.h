/* remote_limits_internal.h - what remote_limits consists of.
 *
 *     remote_limits.c            takes and peeks, and their replies
 *     remote_limits_deferred.c   deferred updates: refunds, settlements, debts
 *     remote_limits_codec.c      arguments of the scripts, and their replies
 *
 * An ask is one script in flight, or one that waits to be sent. It owns the arguments it was sent
 * with, so that whoever asked may forget everything at once:
 *
 *     WANTED ---- answered ----> (pool)     decided()
 *        |
 *        | late or cancelled
 *        v
 *     UNWANTED -- answered ----> WAITING    it has charged something, which is refunded
 *                         \----> (pool)     it has not
 *
 *     KEPT ------ answered ----> (pool)     kept(): late, and its call continued all the same
 *     LEFT ------ answered ----> WAITING    the call has ended meanwhile, and is settled
 *
 *     WAITING --- Redis is up -> SENT ----- answered ----> (pool)
 *        ^                        |
 *        '---- nobody knows ------'         until it is pointless
 *
 * Asks are pooled with their memory: once as many were in flight as ever will be, nothing is
 * allocated.
 */
#ifndef TG_REMOTE_STORE_REMOTE_LIMITS_INTERNAL_H
#define TG_REMOTE_STORE_REMOTE_LIMITS_INTERNAL_H

#include <sys/queue.h>

#include "io/redis/redis.h"
#include "server/remote_store/remote_limits.h"
#include "server/remote_store/remote_limits_codec.h"

enum { LIMITS_LANES = 1024 };

enum limits_update {
    UPDATE_REFUND, /* what a take has charged goes back */
    UPDATE_SETTLE, /* it is replaced by what was used */
    UPDATE_DEBT,   /* what was admitted elsewhere is charged */
};

struct remote_limits_ask {
    struct redis_ask ask;
    struct remote_limits *limits;
    enum {
        ASK_POOLED,
        ASK_PREPARED,
        ASK_WANTED,
        ASK_UNWANTED,
        ASK_KEPT,
        ASK_LEFT,
        ASK_WAITING,
        ASK_SENT
    } state;
    bool charges; /* a take: what it did may have to be undone */
    bool owes;    /* LEFT: if the reply is no yes, the call is charged as a debt */
    struct limits_clock clock;
    struct limits_codec words;
    remote_limits_decided *decided;
    remote_limits_kept *kept;
    void *context;
    tg_ms since; /* loop's time: when it was asked */

    /* LEFT, WAITING and SENT: */
    enum limits_update update;
    struct remote_charge charge;
    int64_t actual;
    uint64_t number; /* in its lane; 0: it was never sent */
    tg_ms until;     /* loop's time: then it is dropped */

    TAILQ_ENTRY(remote_limits_ask) list; /* in the pool, or WAITING */
};

TAILQ_HEAD(limits_list, remote_limits_ask);

struct remote_limits {
    struct redis *redis;
    struct net_loop *loop; /* the client's */
    char *prefix;
    char *holder; /* null: nothing is sent twice */
    bool callers_clock;
    tg_ms ttl_floor;
    struct limits_list pool;
    size_t in_flight;        /* asks that are not in the pool */
    struct limits_call call; /* what is being sent */

    /* remote_limits_deferred.c: */
    struct limits_list unsent;      /* WAITING, the oldest first */
    struct remote_limits_ask *next; /* which of them is tried next; null: the first */
    struct net_timer timer;         /* while one is WAITING */
    size_t waiting;                 /* how many are */
    uint64_t dropped;
    uint64_t lanes[LIMITS_LANES]; /* the last number of each */
    char *mark;                   /* the name of a mark is written here */
    size_t mark_capacity;
};

/* Sends what is in limits->call. */
void limits_send(struct remote_limits_ask *ask, const struct redis_script *script);

/* The ask is of no use any more. */
void limits_put_back(struct remote_limits_ask *ask);

/* Sends the update, now or when Redis is up; `update`, and what belongs to that, are set. */
void limits_defer(struct remote_limits_ask *ask);

/* The reply to an update; null: there is none, and `lost` of the ask says why. */
void limits_deferred_answered(struct remote_limits_ask *ask, const struct redisReply *reply);

void limits_deferred_init(struct remote_limits *limits);
void limits_deferred_fini(struct remote_limits *limits);

#endif
