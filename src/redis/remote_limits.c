/* remote_limits.c - rate and cost decided by Redis. See remote_limits.h.
 *
 * An ask is one script on its way. It owns the words it was sent with, so that whoever asked may
 * forget everything at once, and a yes that nobody waits for any more can be given back from here:
 *
 *     WANTED ---- answered ----> (pool)     decided()
 *        |
 *        | late or cancelled
 *        v
 *     UNWANTED -- answered ----> RETURNING  it has charged something, which is to go back
 *                         \----> (pool)     it has not
 *
 *     RETURNING - Redis is up -> RETURNED - answered --> (pool)     never sent: RETURNING again
 *
 *     KEPT ------ answered ----> (pool)     kept(): late, and its call went on all the same
 *
 *     SENT ------ answered ----> (pool)     refunds and settlements; and takes that were left
 *
 * A server that was late is not asked anything for a while (redis.h), so what is to go back to it
 * waits until it is up again, for a minute at most.
 *
 * Asks are pooled with their memory: once as many were in flight as ever will be, nothing is
 * allocated.
 */
#include "redis/remote_limits.h"

#include <stdlib.h>

#include "core/num.h"
#include "redis/redis_inside.h"
#include "redis/remote_limits_words.h"
#include "redis/scripts.h"

/* How often, and how long, it is tried to give back what came too late, and how much of it at once:
 * a server that has just come back has calls to answer. */
enum { OWED_MAX = 20000, RETURN_AT_ONCE = 128 };
static const tg_ms RETURN_EVERY = 20, RETURN_WITHIN = 60000;

struct remote_limits_ask {
    struct redis_ask ask; /* first: the client knows it by this */
    struct remote_limits *limits;
    enum { ASK_WANTED, ASK_UNWANTED, ASK_KEPT, ASK_RETURNING, ASK_RETURNED, ASK_SENT } state;
    bool charges;     /* a take: what it did may have to be undone */
    bool owes;        /* of one that returns: it is to be charged, not given back */
    tg_ms charged_at; /* of one that returns */
    tg_ms until;      /* then it is given up */
    struct limits_clock clock;
    struct limits_words words;
    remote_limits_decided *decided;
    remote_limits_kept *kept;
    void *context;
    struct remote_limits_ask *next; /* in the pool, or among those that return */
};

struct remote_limits {
    struct redis *redis;
    struct net_loop *loop; /* the client's */
    char *prefix;
    bool callers_clock;
    tg_ms ttl_floor;
    struct remote_limits_ask *pool;
    struct remote_limits_ask *returning; /* while Redis is away */
    struct net_timer timer;              /* while somebody is */
    size_t in_flight;                    /* asks that are not in the pool */
    struct limits_call call;             /* what is being sent */
};

void remote_limits_options_init(struct remote_limits_options *options)
{
    *options = (struct remote_limits_options){.prefix = "tg", .ttl_floor = 3600000};
}

static void return_all(void *arg);

enum tg_err remote_limits_new(const struct remote_limits_options *options,
                              struct remote_limits **limits)
{
    struct remote_limits *made = calloc(1, sizeof *made);
    size_t bytes = strlen(options->prefix) + 1;

    if (made == NULL)
        return TG_ERR_MEMORY;
    made->prefix = malloc(bytes);
    if (made->prefix == NULL) {
        free(made);
        return TG_ERR_MEMORY;
    }
    memcpy(made->prefix, options->prefix, bytes);
    made->redis = options->redis;
    made->loop = options->redis->loop;
    net_timer_init(&made->timer, return_all, made);
    made->callers_clock = options->callers_clock;
    made->ttl_floor = options->ttl_floor;
    *limits = made;
    return TG_OK;
}

static void free_all(struct remote_limits_ask *ask)
{
    while (ask != NULL) {
        struct remote_limits_ask *next = ask->next;
        limits_words_fini(&ask->words);
        free(ask);
        ask = next;
    }
}

void remote_limits_free(struct remote_limits *limits)
{
    if (limits == NULL)
        return;
    if (limits->returning != NULL)
        net_timer_stop(limits->loop, &limits->timer);
    free_all(limits->returning);
    free_all(limits->pool);
    free(limits->prefix);
    free(limits);
}

/* ---- asks ---- */

static void put_back(struct remote_limits_ask *ask)
{
    ask->next = ask->limits->pool;
    ask->limits->pool = ask;
    ask->limits->in_flight--;
}

static struct remote_limits_ask *get_ask(struct remote_limits *limits)
{
    struct remote_limits_ask *ask = limits->pool;

    if (ask != NULL) {
        limits->pool = ask->next;
    } else {
        ask = calloc(1, sizeof *ask);
        if (ask == NULL)
            return NULL;
        ask->limits = limits;
        limits_words_init(&ask->words);
    }
    limits->in_flight++;
    return ask;
}

/* An ask with the words of a debit. Null: no memory, or it cannot be one. */
static struct remote_limits_ask *prepare(struct remote_limits *limits,
                                         const struct remote_debit *debit, tg_ms now)
{
    struct remote_limits_ask *ask = num_in_range(now) ? get_ask(limits) : NULL;

    if (ask == NULL)
        return NULL;
    ask->clock = (struct limits_clock){limits->callers_clock, now, limits->ttl_floor};
    if (limits_words_set(&ask->words, limits->prefix, debit) != TG_OK) {
        put_back(ask);
        return NULL;
    }
    return ask;
}

static void answered(struct redis_ask *redis_ask, const struct redisReply *reply);
static void late(struct redis_ask *redis_ask);

static void send_script(struct remote_limits_ask *ask, const struct redis_script *script)
{
    struct remote_limits *limits = ask->limits;
    const struct limits_call *call = &limits->call;

    redis_ask_init(&ask->ask, answered, late);
    redis_eval(limits->redis, &ask->ask, script, call->keys, call->n_keys, call->args,
               call->n_args);
}

size_t remote_limits_in_flight(const struct remote_limits *limits)
{
    return limits->in_flight;
}

/* ---- answers ---- */

static void decide(struct remote_limits_ask *ask, const struct redisReply *reply)
{
    struct tg_axes axes;
    struct remote_charge charge;

    if (reply != NULL && limits_words_read(&ask->words, &ask->clock, reply, &axes, &charge))
        ask->decided(ask->context, TG_OK, &axes, &charge);
    else
        ask->decided(ask->context, TG_ERR_STORE, NULL, NULL);
}

static void return_later(struct remote_limits_ask *ask)
{
    struct remote_limits *limits = ask->limits;

    ask->state = ASK_RETURNING;
    if (limits->returning == NULL)
        net_timer_set(limits->loop, &limits->timer, RETURN_EVERY);
    ask->next = limits->returning;
    limits->returning = ask;
}

/* Now if Redis can be asked, or when it can be again. */
static void give_back(struct remote_limits_ask *ask)
{
    struct remote_limits *limits = ask->limits;
    struct slice key = limits_words_key(&ask->words, 0);

    if (redis_is_up(limits->redis, &key)) {
        ask->state = ASK_RETURNED;
        if (ask->owes)
            limits_words_take(&ask->words, &ask->clock, "f", &limits->call);
        else
            limits_words_undo(&ask->words, &ask->clock, ask->charged_at, &limits->call);
        send_script(ask, ask->owes ? &script_take : &script_refund);
        return;
    }
    return_later(ask);
}

static void return_all(void *arg)
{
    struct remote_limits *limits = arg;
    struct remote_limits_ask *ask = limits->returning;
    tg_ms now = net_loop_now(limits->loop);
    size_t room = RETURN_AT_ONCE;

    limits->returning = NULL;
    while (ask != NULL) {
        struct remote_limits_ask *next = ask->next;
        if (now >= ask->until)
            put_back(ask);
        else if (room == 0)
            return_later(ask);
        else {
            room--;
            give_back(ask);
        }
        ask = next;
    }
}

/* Nobody wants it any more. Of what it has charged nothing is to stay. Of a reply that never came
 * or makes no sense nobody knows what it has charged: that stands. */
static void undo(struct remote_limits_ask *ask, const struct redisReply *reply)
{
    struct tg_axes axes;
    struct remote_charge charge;

    if (!ask->charges || reply == NULL ||
        !limits_words_read(&ask->words, &ask->clock, reply, &axes, &charge) ||
        !limits_words_undo(&ask->words, &ask->clock, charge.at, &ask->limits->call)) {
        put_back(ask);
        return;
    }
    ask->charged_at = charge.at;
    ask->owes = false;
    ask->until = net_loop_now(ask->limits->loop) + RETURN_WITHIN;
    give_back(ask);
}

/* Late, but its call wants to know what it owes. */
static void tell_kept(struct remote_limits_ask *ask, const struct redisReply *reply)
{
    struct tg_axes axes;
    struct remote_charge charge;
    bool yes = reply != NULL &&
               limits_words_read(&ask->words, &ask->clock, reply, &axes, &charge) &&
               tg_axes_binding(&axes) == TG_AXIS_NONE;

    ask->kept(ask->context, yes ? &charge : NULL);
}

/* Whether it is known that nothing was done. */
static bool was_never_sent(const struct redis_ask *ask, const struct redisReply *reply)
{
    return reply == NULL && (ask->lost == REDIS_AWAY || ask->lost == REDIS_FULL);
}

static void answered(struct redis_ask *redis_ask, const struct redisReply *reply)
{
    struct remote_limits_ask *ask = (struct remote_limits_ask *)redis_ask;

    if (ask->state == ASK_UNWANTED) {
        undo(ask, reply);
    } else if (ask->state == ASK_RETURNED && was_never_sent(redis_ask, reply)) {
        give_back(ask);
    } else {
        if (ask->state == ASK_WANTED)
            decide(ask, reply);
        else if (ask->state == ASK_KEPT)
            tell_kept(ask, reply);
        put_back(ask);
    }
}

static void late(struct redis_ask *redis_ask)
{
    struct remote_limits_ask *ask = (struct remote_limits_ask *)redis_ask;

    if (ask->state != ASK_WANTED)
        return;
    ask->state = ASK_UNWANTED;
    ask->decided(ask->context, TG_ERR_STORE, NULL, NULL);
}

/* ---- asking ---- */

static struct remote_limits_ask *ask_for(struct remote_limits *limits,
                                         const struct remote_debit *debit, tg_ms now, bool charges,
                                         remote_limits_decided *decided, void *context)
{
    struct remote_limits_ask *ask = prepare(limits, debit, now);

    if (ask == NULL)
        return NULL;
    ask->state = ASK_WANTED;
    ask->charges = charges;
    ask->decided = decided;
    ask->context = context;
    limits_words_take(&ask->words, &ask->clock, charges ? "" : "p", &limits->call);
    send_script(ask, &script_take);
    return ask;
}

struct remote_limits_ask *remote_limits_take(struct remote_limits *limits,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_limits_decided *decided, void *context)
{
    return ask_for(limits, debit, now, true, decided, context);
}

struct remote_limits_ask *remote_limits_peek(struct remote_limits *limits,
                                             const struct remote_debit *debit, tg_ms now,
                                             remote_limits_decided *decided, void *context)
{
    return ask_for(limits, debit, now, false, decided, context);
}

void remote_limits_cancel(struct remote_limits_ask *ask)
{
    ask->state = ASK_UNWANTED;
}

bool remote_limits_keep(struct remote_limits_ask *ask, remote_limits_kept *kept)
{
    bool flies = ask->state == ASK_UNWANTED;

    if (flies) {
        ask->state = ASK_KEPT;
        ask->kept = kept;
    }
    return flies;
}

void remote_limits_leave(struct remote_limits_ask *ask)
{
    ask->state = ASK_SENT;
}

static void send_or_not(struct remote_limits_ask *ask, const struct redis_script *script,
                        bool something)
{
    ask->state = ASK_SENT;
    if (something)
        send_script(ask, script);
    else
        put_back(ask);
}

/* So long a charge is felt, if no other follows. */
static double felt_for(const struct tg_limiter_config *config)
{
    switch (config->strategy) {
    case TG_GCRA:
        return (double)config->period * (double)config->burst / (double)config->limit;
    case TG_TOKEN_BUCKET:
        return (double)config->limit / config->refill * 1000;
    default:
        return (double)config->period;
    }
}

/* When it is too late to charge it: the limit that forgets first has made what it took anew. A
 * server that was away for a minute must not be told of its calls as if they had come at once. */
static tg_ms pointless_at(const struct remote_debit *debit, tg_ms now)
{
    double least = (double)RETURN_WITHIN;

    for (size_t i = 0; i < debit->n_scopes; i++)
        for (size_t k = 0; k < debit->scopes[i].n; k++) {
            double felt = felt_for(&debit->scopes[i].limits[k].limiter.config);
            least = felt < least ? felt : least;
        }
    return now + (tg_ms)least;
}

void remote_limits_owe(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now)
{
    struct remote_limits_ask *ask =
        limits->in_flight < OWED_MAX ? prepare(limits, debit, now) : NULL;

    if (ask == NULL)
        return;
    ask->owes = true;
    ask->until = pointless_at(debit, net_loop_now(limits->loop));
    give_back(ask);
}

void remote_limits_refund(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge)
{
    struct remote_limits_ask *ask = prepare(limits, debit, now);

    if (ask != NULL)
        send_or_not(ask, &script_refund,
                    limits_words_refund(&ask->words, &ask->clock, charge, &limits->call));
}

void remote_limits_settle(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge, int64_t actual)
{
    struct remote_limits_ask *ask = num_in_range(actual) ? prepare(limits, debit, now) : NULL;

    if (ask != NULL)
        send_or_not(ask, &script_settle,
                    limits_words_settle(&ask->words, &ask->clock, charge, actual, &limits->call));
}
