/* shared.c - the process's part of what is shared, and a thread's connection: see shared.h. */
#include "server/remote/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/tls.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/remote/shared_parts.h"
#include "server/remote/shared_recent.h"
#include "server/runtime/gateway.h"
#include "server/runtime/generation_parts.h"

enum { CHORES_MS = 50, FAREWELL_MS = 400 };

/* A machine that is busy makes an answer late now and then. So long a Redis may be silent before
 * calls no longer ask it. */
enum { DOUBT_MS = 100 };

/* How often it is looked who decides, and how many must have been decided without Redis by then. */
enum { USE_MS = 1000, USELESS_MIN = 10, ERROR_LOOKS = 3 };

/* ---- of the process ---- */

static bool read_options(struct shared *shared, const struct config_store *config,
                         struct tg_problem *problem)
{
    struct tg_problem why;

    redis_options_init(&shared->options);
    if (redis_url_read(config->url, &shared->options, &why) != TG_OK)
        return generation_say(problem, "store", why.text);
    shared->options.timeout = config->timeout;
    /* Whoever waits for longer does not want the connection closed under what is waited for. */
    shared->options.patience = num_max(shared->options.patience, 2 * config->timeout);
    shared->options.doubt = DOUBT_MS;
    shared->options.seed = shared->gateway->seed;
    if (shared->options.secure &&
        tls_client_new(config->ca, config->cert, config->key, &shared->options.tls, &why) != TG_OK)
        return generation_say(problem, "store_tls", why.text);
    snprintf(shared->prefix, sizeof shared->prefix, "%s", config->prefix);
    shared->block = config->block;
    return true;
}

bool shared_new(struct gateway *gateway, const struct config *config, struct shared **made,
                struct tg_problem *problem)
{
    *made = NULL;
    if (!config_store_is_remote(&config->store))
        return true;
    struct shared *shared = calloc(1, sizeof *shared);
    if (shared == NULL)
        return generation_say(problem, "store", "no memory");
    shared->gateway = gateway;
    atomic_store(&shared->nodes, 1);
    shared->divided = 1;
    pthread_mutex_init(&shared->lock, NULL);
    *made = shared;
    return read_options(shared, &config->store, problem);
}

static bool make_money(struct shared *shared, struct tg_problem *problem)
{
    struct gateway *gateway = shared->gateway;
    struct remote_money_options options;
    struct tg_problem why;

    remote_money_options_init(&options);
    options.prefix = shared->prefix;
    options.node = gateway->node_id;
    options.ledger = ledger_id(gateway->ledger);
    options.timeout = shared_money_timeout(shared->options.timeout);
    return remote_money_new(&options, gateway->spending, &shared->money, &why) == TG_OK ||
           generation_say(problem, "store", why.text);
}

bool shared_set_budgets(struct shared *shared, tg_ms now, struct tg_problem *problem)
{
    if (shared == NULL)
        return true;
    if (shared->money == NULL && !make_money(shared, problem))
        return false;
    return remote_money_adopt(shared->money, now, problem);
}

void shared_free(struct shared *shared)
{
    if (shared == NULL)
        return;
    remote_money_free(shared->money);
    tls_context_unref(shared->options.tls);
    redis_options_wipe(&shared->options);
    pthread_mutex_destroy(&shared->lock);
    free(shared);
}

enum shared_state shared_state_of(const struct shared *shared)
{
    if (shared == NULL)
        return SHARED_WELL;
    int up = atomic_load_explicit(&shared->ports_up, memory_order_relaxed);
    if (up >= atomic_load_explicit(&shared->ports, memory_order_relaxed))
        return atomic_load_explicit(&shared->useless, memory_order_relaxed) ? SHARED_DEGRADED
                                                                            : SHARED_WELL;
    return up > 0 ? SHARED_DEGRADED : SHARED_DOWN;
}

const char *shared_state_name(enum shared_state state)
{
    static const char *const names[] = {"ok", "degraded", "down"};

    return names[state];
}

void shared_problem(struct shared *shared, char *text, size_t bytes)
{
    pthread_mutex_lock(&shared->lock);
    snprintf(text, bytes, "%s", shared->problem);
    pthread_mutex_unlock(&shared->lock);
}

const char *shared_way_name(enum shared_way way)
{
    static const char *const names[] = {
#define SHARED_WAY_NAME(upper, lower) #lower,
        SHARED_WAYS(SHARED_WAY_NAME)
#undef SHARED_WAY_NAME
    };

    return names[way];
}

const char *shared_what_name(enum shared_what what)
{
    static const char *const names[] = {
#define SHARED_WHAT_NAME(upper, lower) #lower,
        SHARED_WHATS(SHARED_WHAT_NAME)
#undef SHARED_WHAT_NAME
    };

    return names[what];
}

/* ---- parts ---- */

static int64_t part_of(const struct shared *shared, int64_t whole)
{
    int64_t nodes = (int64_t)atomic_load_explicit(&shared->nodes, memory_order_relaxed);

    return num_max(whole / num_max(nodes, 1), 1);
}

void shared_divide_law(const struct shared *shared, const struct config_concurrency *config,
                       struct tg_law_config *law)
{
    if (shared == NULL || !config->divide)
        return;
    law->max = part_of(shared, law->max);
    law->min = num_min(part_of(shared, law->min), law->max);
    law->initial = num_min(num_max(part_of(shared, law->initial), law->min), law->max);
}

void shared_divide_peer(const struct shared *shared, const struct config_gate *gate,
                        struct tg_call *call)
{
    if (shared != NULL && gate->concurrency.divide && call->peer_limit > 0)
        call->peer_limit = part_of(shared, call->peer_limit);
}

/* ---- of a thread ---- */

static void say_problem(struct shared *shared, const char *text)
{
    pthread_mutex_lock(&shared->lock);
    snprintf(shared->problem, sizeof shared->problem, "%s", text);
    pthread_mutex_unlock(&shared->lock);
}

/* Adds what has happened at this port since the last look to the sums of all. */
static void add_up(struct shared_port *port)
{
    struct shared *shared = port->shared;
    struct redis_stats now;
    struct remote_limits_stats limits;

    redis_get_stats(port->redis, &now);
    remote_limits_get_stats(port->limits, &limits);
    atomic_fetch_add_explicit(&shared->commands, now.commands - port->seen.commands,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&shared->late, now.late - port->seen.late, memory_order_relaxed);
    atomic_fetch_add_explicit(&shared->lost, now.broken - port->seen.broken, memory_order_relaxed);
    atomic_fetch_add_explicit(&shared->errors, now.errors - port->seen.errors,
                              memory_order_relaxed);
    /* One may wait no more: the sum wraps, and is right. */
    atomic_fetch_add_explicit(&shared->waiting, limits.waiting - port->seen_limits.waiting,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&shared->dropped, limits.dropped - port->seen_limits.dropped,
                              memory_order_relaxed);
    port->seen_limits = limits;
    bool again = now.errors != port->seen.errors; /* maybe in the same words */
    if ((again || strcmp(now.problem, port->seen.problem) != 0) && now.problem[0] != '\0')
        say_problem(shared, now.problem);
    port->seen = now;
}

static void changed(void *context, bool up)
{
    struct shared_port *port = context;

    if (up == port->up)
        return;
    port->up = up;
    add_up(port); /* whoever sees the state may ask why */
    if (up)
        atomic_store(&port->shared->met, true);
    atomic_fetch_add(&port->shared->ports_up, up ? 1 : -1);
}

size_t shared_holders(const struct shared *shared)
{
    int workers = atomic_load_explicit(&shared->ports, memory_order_relaxed) - 1;
    long long nodes = atomic_load_explicit(&shared->nodes, memory_order_relaxed);

    return (size_t)(nodes > 0 ? nodes : 1) * (size_t)(workers > 0 ? workers : 1);
}

static struct shared_use use_of(const struct shared *shared, tg_ms now)
{
    struct shared_use use = {.at = now,
                             .errors = atomic_load_explicit(&shared->errors, memory_order_relaxed)};

    for (int what = 0; what < SHARED_WHAT_COUNT; what++)
        for (int way = 0; way < SHARED_WAY_COUNT; way++) {
            bool with = way == SHARED_REDIS || way == SHARED_BLOCKS;
            *(with ? &use.with[what] : &use.without[what]) +=
                atomic_load_explicit(&shared->decided[what][way], memory_order_relaxed);
        }
    return use;
}

/* Whether something is decided without Redis for the most part; or, if it was, not yet nearly
 * always with it. */
static bool is_useless(const struct shared_use *before, const struct shared_use *now, bool was)
{
    for (int what = 0; what < SHARED_WHAT_COUNT; what++) {
        unsigned long long with = now->with[what] - before->with[what];
        unsigned long long without = now->without[what] - before->without[what];
        if (was ? without > with / 10 : without >= USELESS_MIN && without > with)
            return true;
    }
    return false;
}

/* A Redis may be connected, and of no use: its answers come too late, are errors, or make no sense.
 * That shows in who decides. */
static void look_at_use(struct shared *shared, tg_ms now)
{
    bool was = atomic_load_explicit(&shared->useless, memory_order_relaxed);
    bool up = atomic_load(&shared->ports_up) > 0;
    struct shared_use before = shared->use;

    if (up && now - before.at < USE_MS)
        return;
    shared->use = use_of(shared, now);
    bool is = up && is_useless(&before, &shared->use, was);
    bool errors = shared->use.errors != before.errors;
    /* What a server has said itself says more, but ports tell of it only at their next chores. */
    if (is && !was && !errors && before.waited < ERROR_LOOKS) {
        shared->use = before;
        shared->use.waited++;
        return;
    }
    if (is && !was && !errors)
        say_problem(shared, "it is connected, but most of its answers are late or of no use");
    atomic_store(&shared->useless, is);
}

static void do_chores(void *arg)
{
    struct shared_port *port = arg;

    add_up(port);
    if (port->nodes)
        look_at_use(port->shared, net_loop_now(port->loop));
    remote_blocks_set_holders(port->blocks, shared_holders(port->shared));
    remote_blocks_tick(port->blocks, net_loop_now(port->loop));
    net_timer_set(port->loop, &port->chores, CHORES_MS);
}

/* Who holds something in Redis: a thread of this process, and of no other. */
struct holder {
    char text[GATEWAY_NODE_BYTES + 16];
};

static struct holder holder_of(const struct shared_port *port)
{
    struct shared *shared = port->shared;
    struct holder holder;

    snprintf(holder.text, sizeof holder.text, "%s-%d", shared->gateway->node_id,
             atomic_load(&shared->ports));
    return holder;
}

static bool make_keys(struct shared_port *port, const struct holder *holder)
{
    struct remote_keys_options options;

    remote_keys_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.prefix = port->shared->prefix;
    options.holder = holder->text;
    return remote_keys_new(&options, &port->keys) == TG_OK;
}

static bool make_blocks(struct shared_port *port, const struct holder *holder)
{
    struct remote_blocks_options options;

    remote_blocks_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.limits = port->limits;
    options.prefix = port->shared->prefix;
    options.holder = holder->text;
    options.block = port->shared->block;
    options.seed = port->shared->gateway->seed;
    return remote_blocks_new(&options, &port->blocks) == TG_OK;
}

static bool make_parts(struct shared_port *port, struct tg_problem *problem)
{
    struct shared *shared = port->shared;
    struct holder holder = holder_of(port);
    struct remote_limits_options limits;

    if (redis_new(port->loop, &shared->options, &port->redis, problem) != TG_OK)
        return false;
    remote_limits_options_init(&limits);
    limits.redis = port->redis;
    limits.prefix = shared->prefix;
    limits.holder = holder.text;
    port->recent = recent_new(shared->gateway->seed);
    return port->recent && remote_limits_new(&limits, &port->limits) == TG_OK &&
           make_blocks(port, &holder) && make_keys(port, &holder) &&
           remote_money_port_new(shared->money, port->loop, port->redis, &port->money) == TG_OK;
}

/* How many gateways live: what a share is a part of. */
static void count_nodes(void *context, size_t count, size_t index)
{
    struct shared_port *port = context;

    (void)index;
    atomic_store_explicit(&port->shared->nodes, (long long)count, memory_order_relaxed);
}

static bool begin_to_beat(struct shared_port *port)
{
    struct remote_nodes_options options;

    remote_nodes_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.prefix = port->shared->prefix;
    options.node = port->shared->gateway->node_id;
    options.changed = count_nodes;
    options.context = port;
    return remote_nodes_new(&options, &port->nodes) == TG_OK;
}

bool shared_port_new(struct shared *shared, struct net_loop *loop, bool beats,
                     struct shared_port **made, struct tg_problem *problem)
{
    *made = NULL;
    if (shared == NULL)
        return true;
    struct shared_port *port = calloc(1, sizeof *port);
    if (port == NULL)
        return false;
    *made = port;
    port->shared = shared;
    port->loop = loop;
    problem_fail(problem, "no memory for the store");
    if (!make_parts(port, problem) || (beats && !begin_to_beat(port)))
        return false;
    atomic_fetch_add(&shared->ports, 1);
    redis_on_change(port->redis, changed, port);
    net_timer_init(&port->chores, do_chores, port);
    net_timer_set(loop, &port->chores, CHORES_MS);
    return true;
}

/* Whether somebody is still to hear from us: of money the port that beats speaks for all. */
static bool has_more_to_say(struct shared_port *port)
{
    struct remote_money_stats money = {0};
    struct redis_stats redis;

    redis_get_stats(port->redis, &redis);
    if (port->nodes)
        remote_money_get_stats(port->shared->money, &money);
    return redis.in_flight > 0 || remote_limits_in_flight(port->limits) > 0 || money.untold > 0 ||
           money.leased > money.leased_used;
}

/* What others should know before we are gone: the loop is turned for it, for a moment at most. */
static void say_farewell(struct shared_port *port)
{
    tg_ms until = net_loop_now(port->loop) + FAREWELL_MS;

    if (port->nodes) {
        remote_nodes_leave(port->nodes, NULL, NULL);
        remote_money_leave(port->shared->money);
    }
    if (port->blocks)
        remote_blocks_return(port->blocks, net_loop_now(port->loop), NULL, NULL);
    net_timer_set(port->loop, &port->chores, FAREWELL_MS); /* it is not to sleep for longer */
    do
        net_loop_turn(port->loop, true);
    while (port->up && net_loop_now(port->loop) < until && has_more_to_say(port));
    net_timer_stop(port->loop, &port->chores);
}

void shared_port_free(struct shared_port *port)
{
    if (port == NULL)
        return;
    net_timer_stop(port->loop, &port->chores);
    if (port->up)
        say_farewell(port);
    if (port->redis)
        redis_free(port->redis);
    remote_money_port_free(port->money);
    remote_keys_free(port->keys);
    remote_nodes_free(port->nodes);
    remote_blocks_free(port->blocks);
    remote_limits_free(port->limits);
    recent_free(port->recent);
    free(port);
}
