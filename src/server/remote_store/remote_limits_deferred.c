/* remote_limits_deferred.c - deferred updates of limits: refunds, settlements, debts.
 *
 * Nobody waits for these updates, and a limit may be one of a month: none is lost because a
 * connection was. While Redis is down they are queued in the order in which they came, 20,000 at
 * most; then the oldest is dropped, and counted. When Redis is back they are sent little by little,
 * since it has calls to answer.
 *
 * When a connection breaks between a command and its reply, nobody knows whether it was executed,
 * and a refund must not be done twice. So each update has a number, and the script leaves a mark
 * (once.lua): a bit in a string of 512, which belongs to this worker and to the slot of the limits.
 * Numbers are dealt out in lanes by root, so that those of one root are close together and share
 * their strings. Marks live for ten minutes: an update in doubt is dropped after half of that.
 *
 * A debt that comes late is charged to the window in which the call came. A limiter without windows
 * refills: there the debt is dropped after a minute, or earlier if it would have been refilled by
 * then. A tenant must not be shut out for units that nobody was short of.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/redis/resp.h"
#include "lib/core/array.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_limits_internal.h"
#include "server/remote_store/scripts.h"

enum { WAITING_MAX = 20000, AT_ONCE = 128, BITS = 512 };

static const tg_ms TICK_EVERY = 20;
static const tg_ms FADES_WITHIN = 60000;

/* ---- the queue ---- */

static void remote_limits_deferred_tick(void *arg);

void limits_deferred_init(struct remote_limits *limits)
{
    TAILQ_INIT(&limits->unsent);
    net_timer_init(&limits->timer, remote_limits_deferred_tick, limits);
}

void limits_deferred_fini(struct remote_limits *limits)
{
    struct remote_limits_ask *ask;

    if (limits->waiting > 0)
        net_timer_stop(limits->loop, &limits->timer);
    while ((ask = TAILQ_FIRST(&limits->unsent)) != NULL) {
        TAILQ_REMOVE(&limits->unsent, ask, list);
        limits_codec_fini(&ask->words);
        free(ask);
    }
    free(limits->mark);
}

static void remote_limits_deferred_remove(struct remote_limits_ask *ask)
{
    struct remote_limits *limits = ask->limits;

    assert(ask->state == ASK_WAITING && limits->waiting > 0);
    if (limits->next == ask)
        limits->next = TAILQ_NEXT(ask, list);
    TAILQ_REMOVE(&limits->unsent, ask, list);
    ask->state = ASK_PREPARED;
    limits->waiting--;
}

static void drop(struct remote_limits_ask *ask)
{
    ask->limits->dropped++;
    limits_put_back(ask);
}

static void wait(struct remote_limits_ask *ask)
{
    struct remote_limits *limits = ask->limits;

    if (limits->waiting >= WAITING_MAX) {
        struct remote_limits_ask *oldest = TAILQ_FIRST(&limits->unsent);
        remote_limits_deferred_remove(oldest);
        drop(oldest);
    }
    if (limits->waiting == 0)
        net_timer_set(limits->loop, &limits->timer, TICK_EVERY);
    ask->state = ASK_WAITING;
    TAILQ_INSERT_TAIL(&limits->unsent, ask, list);
    limits->waiting++;
    assert(limits->waiting <= WAITING_MAX && limits->waiting <= limits->in_flight);
    assert(net_timer_is_set(&limits->timer));
}

/* ---- numbers and marks ---- */

/* Null: it is not marked, for want of a holder or of memory. Good until the next. */
static const struct limits_once *mark_of(struct remote_limits_ask *ask, struct limits_once *once)
{
    struct remote_limits *limits = ask->limits;
    struct slice tag = limits_codec_tag(&ask->words, limits->prefix);

    if (limits->holder == NULL ||
        !array_reserve(&limits->mark, &limits->mark_capacity,
                       strlen(limits->prefix) + tag.n + strlen(limits->holder) + 40))
        return NULL;
    if (ask->number == 0)
        ask->number = ++limits->lanes[XXH3_64bits(tag.at, tag.n) % LIMITS_LANES];
    int n = snprintf(limits->mark, limits->mark_capacity, "%s:told:%.*s:%s:%" PRIu64,
                     limits->prefix, (int)tag.n, tag.at, limits->holder, ask->number / BITS);
    assert(n > 0 && (size_t)n < limits->mark_capacity);
    *once = (struct limits_once){{limits->mark, (size_t)n}, (unsigned)(ask->number % BITS)};
    return once;
}

/* ---- sending ---- */

static const struct redis_script *encode_update(struct remote_limits_ask *ask,
                                                const struct limits_once *once)
{
    struct limits_call *call = &ask->limits->call;
    tg_ms age = net_loop_now(ask->limits->loop) - ask->since;

    switch (ask->update) {
    case UPDATE_REFUND:
        return limits_codec_undo(&ask->words, &ask->clock, once, ask->charge.at, call)
                   ? &script_refund
                   : NULL;
    case UPDATE_SETTLE:
        return limits_codec_settle(&ask->words, &ask->clock, once, &ask->charge, ask->actual, call)
                   ? &script_settle
                   : NULL;
    default:
        return limits_codec_debt(&ask->words, &ask->clock, once, age, FADES_WITHIN, call)
                   ? &script_owe
                   : NULL;
    }
}

static void remote_limits_deferred_send(struct remote_limits_ask *ask)
{
    struct limits_once room;
    const struct redis_script *script = encode_update(ask, mark_of(ask, &room));

    ask->state = ASK_SENT;
    if (script != NULL)
        limits_send(ask, script);
    else
        limits_put_back(ask);
}

static bool can_be_sent(const struct remote_limits_ask *ask)
{
    struct slice key = limits_codec_key(&ask->words, 0);

    return redis_is_up(ask->limits->redis, &key);
}

static tg_ms pointless_at(const struct remote_limits_ask *ask)
{
    return num_add(ask->since, limits_codec_lifetime(&ask->words));
}

void limits_defer(struct remote_limits_ask *ask)
{
    assert(ask->state != ASK_WAITING && ask->state != ASK_SENT);
    ask->number = 0;
    ask->until = pointless_at(ask);
    /* A caller's clock stands still while Redis is down. */
    if (ask->limits->callers_clock || can_be_sent(ask))
        remote_limits_deferred_send(ask);
    else if (encode_update(ask, NULL) != NULL)
        wait(ask);
    else
        limits_put_back(ask);
}

static void remote_limits_deferred_expire(struct remote_limits_ask *ask, tg_ms now)
{
    if (now < pointless_at(ask))
        drop(ask);
    else
        limits_put_back(ask);
}

static void remote_limits_deferred_tick(void *arg)
{
    struct remote_limits *limits = arg;
    tg_ms now = net_loop_now(limits->loop);

    for (size_t i = 0, n = limits->waiting; i < n && i < AT_ONCE; i++) {
        struct remote_limits_ask *ask = limits->next ? limits->next : TAILQ_FIRST(&limits->unsent);
        limits->next = TAILQ_NEXT(ask, list);
        if (now < ask->until && !can_be_sent(ask))
            continue;
        remote_limits_deferred_remove(ask);
        if (now < ask->until)
            remote_limits_deferred_send(ask);
        else
            remote_limits_deferred_expire(ask, now);
    }
    if (limits->waiting > 0)
        net_timer_set(limits->loop, &limits->timer, TICK_EVERY);
}

/* ---- the answer ---- */

/* Whether an error is temporary and means that nothing was executed: a server that cannot serve
 * refuses the first write of a script, which is the mark. */
static bool passes(const struct redisReply *reply)
{
    switch (resp_error_of(reply)) {
    case RESP_UNWELL:
    case RESP_READONLY:
    case RESP_NOAUTH:
    case RESP_CLUSTERDOWN:
    case RESP_NOSCRIPT: /* these, after five turns */
    case RESP_MOVED:
    case RESP_ASK:
    case RESP_TRYAGAIN:
        return true;
    default:
        return false;
    }
}

/* Whether it may have been executed: then it can be sent again only as long as its mark lives. */
static bool is_in_doubt(const struct redis_ask *ask, const struct redisReply *reply)
{
    return reply == NULL && ask->lost == REDIS_BROKE;
}

void limits_deferred_answered(struct remote_limits_ask *ask, const struct redisReply *reply)
{
    struct remote_limits *limits = ask->limits;
    tg_ms now = net_loop_now(limits->loop);
    bool in_doubt = is_in_doubt(&ask->ask, reply);

    assert(ask->state == ASK_SENT);
    if (!redis_reply_is_error(reply)) {
        limits_put_back(ask);
        return;
    }
    if (in_doubt)
        ask->until = num_min(ask->until, ask->ask.sent_at + LIMITS_DOUBT_WITHIN);
    bool again = reply != NULL ? passes(reply) : !in_doubt || ask->number != 0;
    if (again && !limits->callers_clock && !redis_is_freeing(limits->redis) && now < ask->until)
        wait(ask);
    else
        remote_limits_deferred_expire(ask, now);
}
