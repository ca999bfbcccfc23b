/* remote_limits.c - rate and cost decided by Redis. See remote_limits.h.
 *
 * What is asked is sent at once, and answered once; remote_limits_internal.h draws how. A yes that
 * nobody waits for any more is given back from here: an ask owns the words it was sent with. A
 * question without a reply is another matter: nobody knows whether it has charged, and what, so
 * that stands.
 */
#include "server/remote_store/remote_limits.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_limits_internal.h"
#include "server/remote_store/scripts.h"

void remote_limits_options_init(struct remote_limits_options *options)
{
    *options = (struct remote_limits_options){.prefix = "tg", .ttl_floor = 3600000};
}

static bool copy(const char *text, char **to)
{
    size_t bytes = strlen(text) + 1;

    *to = malloc(bytes);
    if (*to != NULL)
        memcpy(*to, text, bytes);
    return *to != NULL;
}

enum tg_err remote_limits_new(const struct remote_limits_options *options,
                              struct remote_limits **limits)
{
    struct remote_limits *made = calloc(1, sizeof *made);

    if (made == NULL)
        return TG_ERR_MEMORY;
    if (!copy(options->prefix, &made->prefix) ||
        (options->holder != NULL && !copy(options->holder, &made->holder))) {
        free(made->prefix);
        free(made);
        return TG_ERR_MEMORY;
    }
    TAILQ_INIT(&made->pool);
    made->redis = options->redis;
    made->loop = redis_loop(options->redis);
    limits_deferred_init(made);
    made->callers_clock = options->callers_clock;
    made->ttl_floor = options->ttl_floor;
    *limits = made;
    return TG_OK;
}

void remote_limits_free(struct remote_limits *limits)
{
    if (limits == NULL)
        return;
    limits_deferred_fini(limits);
    for (struct remote_limits_ask *ask = TAILQ_FIRST(&limits->pool), *next; ask; ask = next) {
        next = TAILQ_NEXT(ask, list);
        limits_codec_fini(&ask->words);
        free(ask);
    }
    free(limits->holder);
    free(limits->prefix);
    free(limits);
}

/* ---- asks ---- */

void limits_put_back(struct remote_limits_ask *ask)
{
    assert(ask->state != ASK_POOLED && ask->state != ASK_WAITING);
    assert(ask->limits->in_flight > ask->limits->waiting);
    ask->state = ASK_POOLED;
    TAILQ_INSERT_HEAD(&ask->limits->pool, ask, list);
    ask->limits->in_flight--;
}

static struct remote_limits_ask *get_ask(struct remote_limits *limits)
{
    struct remote_limits_ask *ask = TAILQ_FIRST(&limits->pool);

    if (ask != NULL) {
        TAILQ_REMOVE(&limits->pool, ask, list);
    } else {
        ask = calloc(1, sizeof *ask);
        if (ask == NULL)
            return NULL;
        ask->limits = limits;
        limits_codec_init(&ask->words);
    }
    assert(ask->state == ASK_POOLED);
    ask->state = ASK_PREPARED;
    limits->in_flight++;
    assert(limits->in_flight > limits->waiting);
    return ask;
}

/* An ask with the words of a debit. Null: no memory, or it cannot be one. */
static struct remote_limits_ask *remote_limits_prepare(struct remote_limits *limits,
                                                       const struct remote_debit *debit, tg_ms now)
{
    struct remote_limits_ask *ask = num_in_range(now) ? get_ask(limits) : NULL;

    if (ask == NULL)
        return NULL;
    ask->clock = (struct limits_clock){limits->callers_clock, now, limits->ttl_floor};
    ask->since = net_loop_now(limits->loop);
    if (limits_codec_set(&ask->words, limits->prefix, debit) != TG_OK) {
        limits_put_back(ask);
        return NULL;
    }
    return ask;
}

static void remote_limits_answered(struct redis_ask *redis_ask, const struct redisReply *reply);
static void late(struct redis_ask *redis_ask);

void limits_send(struct remote_limits_ask *ask, const struct redis_script *script)
{
    struct remote_limits *limits = ask->limits;
    const struct limits_call *call = &limits->call;

    redis_ask_init(&ask->ask, remote_limits_answered, late);
    redis_eval(limits->redis, &ask->ask, script, call->keys, call->n_keys, call->args,
               call->n_args);
}

size_t remote_limits_in_flight(const struct remote_limits *limits)
{
    return limits->in_flight;
}

void remote_limits_get_stats(const struct remote_limits *limits, struct remote_limits_stats *stats)
{
    *stats = (struct remote_limits_stats){limits->waiting, limits->dropped};
}

/* ---- answers ---- */

static void remote_limits_answered(struct redis_ask *redis_ask, const struct redisReply *reply)
{
    struct remote_limits_ask *ask = container_of(redis_ask, struct remote_limits_ask, ask);
    struct tg_axes axes;

    if (ask->state == ASK_SENT) {
        limits_deferred_answered(ask, reply);
        return;
    }
    bool makes_sense =
        reply != NULL && limits_codec_read(&ask->words, &ask->clock, reply, &axes, &ask->charge);
    bool yes = makes_sense && tg_axes_binding(&axes) == TG_AXIS_NONE;
    switch (ask->state) {
    case ASK_WANTED:
        if (makes_sense)
            ask->decided(ask->context, TG_OK, &axes, &ask->charge);
        else
            ask->decided(ask->context, TG_ERR_STORE, NULL, NULL);
        limits_put_back(ask);
        return;
    case ASK_KEPT:
        ask->kept(ask->context, yes ? &ask->charge : NULL);
        if (yes) {
            limits_put_back(ask);
            return;
        }
        break;
    case ASK_LEFT:
        if (yes) {
            ask->update = UPDATE_SETTLE;
            limits_defer(ask);
        } else if (ask->owes) {
            ask->update = UPDATE_DEBT;
            ask->words.cost = ask->actual;
            limits_defer(ask);
        } else {
            limits_put_back(ask); /* what a no has charged all the same is not owed */
        }
        return;
    default:
        assert(ask->state == ASK_UNWANTED);
    }
    /* Nobody wants it any more, so nothing that it charged may stay: a yes, or the rate that was
     * charged before the cost refused. */
    if (ask->charges && makes_sense) {
        ask->update = UPDATE_REFUND;
        limits_defer(ask);
    } else {
        limits_put_back(ask);
    }
}

static void late(struct redis_ask *redis_ask)
{
    struct remote_limits_ask *ask = container_of(redis_ask, struct remote_limits_ask, ask);

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
    struct remote_limits_ask *ask = remote_limits_prepare(limits, debit, now);

    if (ask == NULL)
        return NULL;
    ask->state = ASK_WANTED;
    ask->charges = charges;
    ask->decided = decided;
    ask->context = context;
    limits_codec_take(&ask->words, &ask->clock, charges ? "" : "p", &limits->call);
    limits_send(ask, &script_take);
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
    assert(ask->state == ASK_WANTED || ask->state == ASK_KEPT);
    ask->state = ASK_UNWANTED;
}

bool remote_limits_keep(struct remote_limits_ask *ask, remote_limits_kept *kept)
{
    bool in_flight = ask->state == ASK_UNWANTED;

    assert(in_flight || ask->state == ASK_WANTED);
    assert(ask->charges);
    if (in_flight) {
        ask->state = ASK_KEPT;
        ask->kept = kept;
    }
    return in_flight;
}

void remote_limits_leave(struct remote_limits_ask *ask, int64_t actual, bool owes)
{
    assert(ask->state == ASK_KEPT);
    ask->state = ASK_LEFT;
    ask->actual = num_in_range(actual) ? actual : ask->words.cost;
    ask->owes = owes;
}

/* ---- telling ---- */

static struct remote_limits_ask *prepare_update(struct remote_limits *limits,
                                                const struct remote_debit *debit, tg_ms now)
{
    struct remote_limits_ask *ask = remote_limits_prepare(limits, debit, now);

    limits->dropped += ask == NULL;
    return ask;
}

void remote_limits_add_debt(struct remote_limits *limits, const struct remote_debit *debit,
                            tg_ms now, tg_ms since)
{
    struct remote_limits_ask *ask = prepare_update(limits, debit, now);

    if (ask == NULL)
        return;
    ask->update = UPDATE_DEBT;
    ask->since = num_min(since, ask->since);
    limits_defer(ask);
}

void remote_limits_refund(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge)
{
    struct remote_limits_ask *ask = prepare_update(limits, debit, now);

    if (ask == NULL)
        return;
    limits_codec_charged(&ask->words, charge);
    ask->update = UPDATE_REFUND;
    ask->charge = *charge;
    limits_defer(ask);
}

void remote_limits_settle(struct remote_limits *limits, const struct remote_debit *debit, tg_ms now,
                          const struct remote_charge *charge, int64_t actual)
{
    struct remote_limits_ask *ask =
        num_in_range(actual) ? prepare_update(limits, debit, now) : NULL;

    if (ask == NULL)
        return;
    ask->update = UPDATE_SETTLE;
    ask->charge = *charge;
    ask->actual = actual;
    limits_defer(ask);
}
