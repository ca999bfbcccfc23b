/* remote_limits_internal.h - what remote_limits consists of.
 *
 *     remote_limits.c         what is asked, and answered
 *     remote_limits_tell.c    what is told: refunds, settlements, debts
 *
 * An ask is one script on its way. It owns the words it was sent with, so that whoever asked may
 * forget everything at once:
 *
 *     WANTED ---- answered ----> (pool)     decided()
 *        |
 *        | late or cancelled
 *        v
 *     UNWANTED -- answered ----> WAITING    it has charged something, which is to go back
 *                         \----> (pool)     it has not
 *
 *     KEPT ------ answered ----> (pool)     kept(): late, and its call went on all the same
 *     LEFT ------ answered ----> WAITING    the call has ended meanwhile: what it used is told
 *
 *     WAITING --- Redis is up -> TOLD ----- answered ----> (pool)
 *        ^                        |
 *        '---- nobody knows ------'         until it is pointless
 *
 * Asks are pooled with their memory: once as many were in flight as ever will be, nothing is
 * allocated.
 */
#ifndef TG_REMOTE_STORE_REMOTE_LIMITS_INTERNAL_H
#define TG_REMOTE_STORE_REMOTE_LIMITS_INTERNAL_H

#include <sys/queue.h>

#include "io/redis/redis_internal.h"
#include "server/remote_store/remote_limits.h"
#include "server/remote_store/remote_limits_codec.h"

enum { LIMITS_LANES = 1024 };

enum limits_tale {
    TALE_UNDO,   /* what a take has charged goes back */
    TALE_SETTLE, /* it is replaced by what was used */
    TALE_OWE,    /* what was admitted elsewhere is charged */
};

struct remote_limits_ask {
    struct redis_ask ask; /* first: the client knows it by this */
    struct remote_limits *limits;
    enum { ASK_WANTED, ASK_UNWANTED, ASK_KEPT, ASK_LEFT, ASK_WAITING, ASK_TOLD } state;
    bool charges; /* a take: what it did may have to be undone */
    bool owes;    /* of one that was left: if it was no yes, it is to be charged */
    struct limits_clock clock;
    struct limits_codec words;
    remote_limits_decided *decided;
    remote_limits_kept *kept;
    void *context;
    tg_ms since; /* loop's time: when it was asked */

    /* Of one that is told, or was left: */
    enum limits_tale tale;
    struct remote_charge charge;
    int64_t actual;
    uint64_t number; /* in its lane; 0: it was never sent */
    tg_ms until;     /* loop's time: then it is given up */

    TAILQ_ENTRY(remote_limits_ask) list; /* in the pool, or WAITING */
};

TAILQ_HEAD(limits_list, remote_limits_ask);

struct remote_limits {
    struct redis *redis;
    struct net_loop *loop; /* the client's */
    char *prefix;
    char *holder; /* null: nothing is told twice */
    bool callers_clock;
    tg_ms ttl_floor;
    struct limits_list pool;
    size_t in_flight;        /* asks that are not in the pool */
    struct limits_call call; /* what is being sent */

    /* remote_limits_tell.c: */
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

/* Tells it, now or when Redis is up; `tale`, and what belongs to that, are set. */
void limits_tell(struct remote_limits_ask *ask);

/* One that was told is answered; null: it was not, `lost` of the ask says how. */
void limits_told(struct remote_limits_ask *ask, const struct redisReply *reply);

void limits_tell_init(struct remote_limits *limits);
void limits_tell_fini(struct remote_limits *limits);

#endif
