/* remote.c - the process's share of remote state, and a thread's connection. See remote.h. */
#include "server/remote/remote.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/net/tls.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"
#include "server/remote/remote_internal.h"
#include "server/remote/remote_recent.h"

enum { TICK_MS = 50, DRAIN_MS = 400 };

/* A machine that is busy makes an answer late now and then. So long a Redis may be silent before
 * calls no longer ask it. */
enum { DOUBT_MS = 100 };

/* How often it is checked who decides, and how many decisions without Redis count as many. */
enum { USE_MS = 1000, USELESS_MIN = 10, ERROR_CHECKS = 3 };

/* ---- the process ---- */

static bool read_options(struct remote *remote, const struct config_store *config,
                         struct tg_problem *problem)
{
    struct tg_problem why;

    redis_options_init(&remote->options);
    if (redis_url_read(config->url, &remote->options, &why) != TG_OK)
        return problem_fail(problem, "store: %s", why.text);
    remote->options.timeout = config->timeout;
    /* Whoever waits for longer does not want the connection closed under what is waited for. */
    remote->options.patience = num_max(remote->options.patience, 2 * config->timeout);
    remote->options.doubt = DOUBT_MS;
    remote->options.seed = remote->setup.seed;
    if (remote->options.secure &&
        tls_client_new(config->ca, config->cert, config->key, &remote->options.tls, &why) != TG_OK)
        return problem_fail(problem, "store_tls: %s", why.text);
    snprintf(remote->prefix, sizeof remote->prefix, "%s", config->prefix);
    remote->block = config->block;
    return true;
}

bool remote_new(const struct remote_setup *setup, const struct config *config, struct remote **made,
                struct tg_problem *problem)
{
    *made = NULL;
    if (!config_store_is_remote(&config->store))
        return true;
    struct remote *remote = calloc(1, sizeof *remote);
    if (remote == NULL)
        return problem_fail(problem, "store: no memory");
    remote->setup = *setup;
    atomic_store(&remote->nodes, 1);
    remote->divided = 1;
    pthread_mutex_init(&remote->lock, NULL);
    *made = remote;
    return read_options(remote, &config->store, problem);
}

static bool make_money(struct remote *remote, const struct ledger *ledger,
                       struct tg_problem *problem)
{
    struct remote_money_options options;
    struct tg_problem why;

    remote_money_options_init(&options);
    options.prefix = remote->prefix;
    options.node = remote->setup.node;
    options.ledger = ledger_id(ledger);
    options.shared = true;
    options.timeout = remote_reservation_timeout(remote->options.timeout);
    return remote_money_new(&options, remote->spending, &remote->money, &why) == TG_OK ||
           problem_fail(problem, "store: %s", why.text);
}

bool remote_set_budgets(struct remote *remote, struct spending *spending,
                        const struct ledger *ledger, tg_ms now, struct tg_problem *problem)
{
    if (remote == NULL)
        return true;
    assert(remote->spending == NULL || remote->spending == spending);
    remote->spending = spending;
    if (remote->money == NULL && !make_money(remote, ledger, problem))
        return false;
    return remote_money_adopt(remote->money, now, problem);
}

bool remote_share_ledger(struct remote *remote, bool shared, tg_ms now)
{
    return remote == NULL || remote_money_share(remote->money, shared, now);
}

void remote_retire(struct remote *remote)
{
    if (remote != NULL)
        remote_money_retire(remote->money);
}

void remote_free(struct remote *remote)
{
    if (remote == NULL)
        return;
    remote_money_free(remote->money);
    tls_context_unref(remote->options.tls);
    redis_options_wipe(&remote->options);
    pthread_mutex_destroy(&remote->lock);
    free(remote);
}

enum remote_health remote_health_of(const struct remote *remote)
{
    if (remote == NULL)
        return REMOTE_WELL;
    int up = atomic_load_explicit(&remote->ports_up, memory_order_relaxed);
    if (up >= atomic_load_explicit(&remote->ports, memory_order_relaxed))
        return atomic_load_explicit(&remote->useless, memory_order_relaxed) ? REMOTE_DEGRADED
                                                                            : REMOTE_WELL;
    return up > 0 ? REMOTE_DEGRADED : REMOTE_DOWN;
}

const char *remote_health_name(enum remote_health state)
{
    static const char *const names[] = {"ok", "degraded", "down"};

    assert(state < REMOTE_STATE_COUNT);
    return names[state];
}

void remote_problem(struct remote *remote, char *text, size_t bytes)
{
    pthread_mutex_lock(&remote->lock);
    snprintf(text, bytes, "%s", remote->problem);
    pthread_mutex_unlock(&remote->lock);
}

const char *remote_mode_name(enum remote_mode way)
{
    static const char *const names[] = {
#define REMOTE_MODE_NAME(upper, lower) #lower,
        REMOTE_MODES(REMOTE_MODE_NAME)
#undef REMOTE_MODE_NAME
    };

    assert(way < REMOTE_MODE_COUNT);
    return names[way];
}

const char *remote_kind_name(enum remote_kind what)
{
    static const char *const names[] = {
#define REMOTE_KIND_NAME(upper, lower) #lower,
        REMOTE_KINDS(REMOTE_KIND_NAME)
#undef REMOTE_KIND_NAME
    };

    assert(what < REMOTE_KIND_COUNT);
    return names[what];
}

/* ---- parts ---- */

static int64_t part_of(const struct remote *remote, int64_t whole)
{
    int64_t nodes = (int64_t)atomic_load_explicit(&remote->nodes, memory_order_relaxed);

    return num_max(whole / num_max(nodes, 1), 1);
}

void remote_divide_law(const struct remote *remote, const struct config_concurrency *config,
                       struct tg_law_config *law)
{
    if (remote == NULL || !config->divide)
        return;
    law->max = part_of(remote, law->max);
    law->min = num_min(part_of(remote, law->min), law->max);
    law->initial = num_min(num_max(part_of(remote, law->initial), law->min), law->max);
}

void remote_divide_peer(const struct remote *remote, const struct config_gate *gate,
                        struct tg_call *call)
{
    if (remote != NULL && gate->concurrency.divide && call->peer_limit > 0)
        call->peer_limit = part_of(remote, call->peer_limit);
}

void remote_divide_overdrafts(const struct remote *remote, struct tg_scope *scopes, size_t n)
{
    for (size_t i = 0; remote != NULL && i < n; i++)
        if (scopes[i].overdraft > 0 && scopes[i].overdraft < TG_NUMBER_MAX)
            scopes[i].overdraft = part_of(remote, scopes[i].overdraft);
}

/* ---- a thread ---- */

static void set_problem(struct remote *remote, const char *text)
{
    pthread_mutex_lock(&remote->lock);
    snprintf(remote->problem, sizeof remote->problem, "%s", text);
    pthread_mutex_unlock(&remote->lock);
}

/* Adds what has happened at this port since its last tick to the sums over all ports. */
static void add_to_sums(struct remote_port *port)
{
    struct remote *remote = port->remote;
    struct redis_stats now;
    struct remote_limits_stats limits;

    redis_get_stats(port->redis, &now);
    assert(now.commands >= port->seen.commands && now.errors >= port->seen.errors);
    remote_limits_get_stats(port->limits, &limits);
    atomic_fetch_add_explicit(&remote->commands, now.commands - port->seen.commands,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&remote->late, now.late - port->seen.late, memory_order_relaxed);
    atomic_fetch_add_explicit(&remote->lost, now.broken - port->seen.broken, memory_order_relaxed);
    atomic_fetch_add_explicit(&remote->errors, now.errors - port->seen.errors,
                              memory_order_relaxed);
    /* The difference may be negative: the sum wraps, and is right. */
    atomic_fetch_add_explicit(&remote->waiting, limits.waiting - port->seen_limits.waiting,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&remote->dropped, limits.dropped - port->seen_limits.dropped,
                              memory_order_relaxed);
    port->seen_limits = limits;
    bool again = now.errors != port->seen.errors; /* perhaps with the same text */
    if ((again || strcmp(now.problem, port->seen.problem) != 0) && now.problem[0] != '\0')
        set_problem(remote, now.problem);
    port->seen = now;
}

static void changed(void *context, bool up)
{
    struct remote_port *port = context;

    if (up == port->up)
        return;
    port->up = up;
    assert(up || atomic_load(&port->remote->ports_up) > 0);
    add_to_sums(port); /* whoever sees the new state may ask for the problem */
    if (up)
        atomic_store(&port->remote->met, true);
    atomic_fetch_add(&port->remote->ports_up, up ? 1 : -1);
}

static struct remote_use use_of(const struct remote *remote, tg_ms now)
{
    struct remote_use use = {.at = now,
                             .errors = atomic_load_explicit(&remote->errors, memory_order_relaxed)};

    for (int what = 0; what < REMOTE_KIND_COUNT; what++)
        for (int way = 0; way < REMOTE_MODE_COUNT; way++) {
            bool with = way == REMOTE_REDIS || way == REMOTE_BLOCKS;
            *(with ? &use.with[what] : &use.without[what]) +=
                atomic_load_explicit(&remote->decided[what][way], memory_order_relaxed);
        }
    return use;
}

/* Whether something is decided without Redis for the most part; or, if it was, not yet nearly
 * always with it. */
static bool is_useless(const struct remote_use *before, const struct remote_use *now, bool was)
{
    for (int what = 0; what < REMOTE_KIND_COUNT; what++) {
        unsigned long long with = now->with[what] - before->with[what];
        unsigned long long without = now->without[what] - before->without[what];
        if (was ? without > with / 10 : without >= USELESS_MIN && without > with)
            return true;
    }
    return false;
}

/* Redis may be connected and yet of no use: its replies are late, errors, or make no sense. That
 * shows in who decides. */
static void check_use(struct remote *remote, tg_ms now)
{
    bool was = atomic_load_explicit(&remote->useless, memory_order_relaxed);
    bool up = atomic_load(&remote->ports_up) > 0;
    struct remote_use before = remote->use;

    if (up && now - before.at < USE_MS)
        return;
    remote->use = use_of(remote, now);
    bool is = up && is_useless(&before, &remote->use, was);
    bool errors = remote->use.errors != before.errors;
    /* An error of the server says more, but ports report it only at their next tick. */
    if (is && !was && !errors && before.waited < ERROR_CHECKS) {
        remote->use = before;
        remote->use.waited++;
        return;
    }
    if (is && !was && !errors)
        set_problem(remote, "it is connected, but most of its answers are late or not usable");
    atomic_store(&remote->useless, is);
}

static void remote_port_tick(void *arg)
{
    struct remote_port *port = arg;

    add_to_sums(port);
    if (port->nodes)
        check_use(port->remote, net_loop_now(port->loop));
    remote_blocks_set_holders(port->blocks, remote_holders(port->remote));
    remote_blocks_tick(port->blocks, net_loop_now(port->loop));
    net_timer_set(port->loop, &port->timer, TICK_MS);
}

/* The name under which a thread of this process holds something in Redis. */
struct holder {
    char text[64];
};

static struct holder holder_of(const struct remote_port *port)
{
    struct remote *remote = port->remote;
    struct holder holder;

    snprintf(holder.text, sizeof holder.text, "%s-%d", remote->setup.node,
             atomic_load(&remote->ports));
    return holder;
}

static bool make_keys(struct remote_port *port, const struct holder *holder)
{
    struct remote_keys_options options;

    remote_keys_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.prefix = port->remote->prefix;
    options.holder = holder->text;
    return remote_keys_new(&options, &port->keys) == TG_OK;
}

static bool make_blocks(struct remote_port *port, const struct holder *holder)
{
    struct remote_blocks_options options;

    remote_blocks_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.limits = port->limits;
    options.prefix = port->remote->prefix;
    options.holder = holder->text;
    options.block = port->remote->block;
    options.seed = port->remote->setup.seed;
    return remote_blocks_new(&options, &port->blocks) == TG_OK;
}

static bool make_parts(struct remote_port *port, struct tg_problem *problem)
{
    struct remote *remote = port->remote;
    struct holder holder = holder_of(port);
    struct remote_limits_options limits;

    if (redis_new(port->loop, &remote->options, &port->redis, problem) != TG_OK)
        return false;
    remote_limits_options_init(&limits);
    limits.redis = port->redis;
    limits.prefix = remote->prefix;
    limits.holder = holder.text;
    port->recent = recent_new(remote->setup.seed, RECENT_ENTRIES);
    return port->recent && remote_limits_new(&limits, &port->limits) == TG_OK &&
           make_blocks(port, &holder) && make_keys(port, &holder) &&
           remote_objects_new(port->loop, port->redis, remote->prefix, &port->objects) == TG_OK &&
           remote_money_port_new(remote->money, port->loop, port->redis, &port->money) == TG_OK;
}

/* The number of live gateways has changed: shares are divided by it. */
static void count_nodes(void *context, size_t count, size_t index)
{
    struct remote_port *port = context;

    (void)index;
    atomic_store_explicit(&port->remote->nodes, (long long)count, memory_order_relaxed);
    remote_money_set_nodes(port->remote->money, count);
}

/* The server does not know this gateway any more: it was emptied, with its connections standing. */
static void is_forgotten(void *context)
{
    struct remote_port *port = context;

    remote_money_forgotten(port->remote->money);
}

static bool start_heartbeat(struct remote_port *port)
{
    struct remote_nodes_options options;

    remote_nodes_options_init(&options);
    options.loop = port->loop;
    options.redis = port->redis;
    options.prefix = port->remote->prefix;
    options.node = port->remote->setup.node;
    options.changed = count_nodes;
    options.forgotten = is_forgotten;
    options.context = port;
    return remote_nodes_new(&options, &port->nodes) == TG_OK;
}

bool remote_port_new(struct remote *remote, struct net_loop *loop, bool beats,
                     struct remote_port **made, struct tg_problem *problem)
{
    *made = NULL;
    if (remote == NULL)
        return true;
    struct remote_port *port = calloc(1, sizeof *port);
    if (port == NULL)
        return false;
    *made = port;
    port->remote = remote;
    port->loop = loop;
    problem_fail(problem, "no memory for the store");
    if (!make_parts(port, problem) || (beats && !start_heartbeat(port)))
        return false;
    atomic_fetch_add(&remote->ports, 1);
    redis_on_change(port->redis, changed, port);
    net_timer_init(&port->timer, remote_port_tick, port);
    net_timer_set(loop, &port->timer, TICK_MS);
    return true;
}

/* Whether something has yet to be sent. The port that sends heartbeats speaks for money. */
static bool has_pending_updates(struct remote_port *port)
{
    struct remote_money_stats money = {0};
    struct redis_stats redis;

    redis_get_stats(port->redis, &redis);
    if (port->nodes)
        remote_money_get_stats(port->remote->money, &money);
    return redis.in_flight > 0 || remote_limits_in_flight(port->limits) > 0 ||
           remote_objects_unsent(port->objects) > 0 || money.unacked > 0 || money.untold > 0;
}

/* Returns leases and sends deferred updates before the end: runs the loop for DRAIN_MS at most. */
static void drain(struct remote_port *port)
{
    tg_ms until = net_loop_now(port->loop) + DRAIN_MS;

    if (port->nodes) {
        remote_nodes_leave(port->nodes, NULL, NULL);
        remote_money_leave(port->remote->money);
    }
    if (port->blocks)
        remote_blocks_return(port->blocks, net_loop_now(port->loop), NULL, NULL);
    net_timer_set(port->loop, &port->timer,
                  DRAIN_MS); /* so that the loop does not sleep for longer */
    do
        net_loop_turn(port->loop, true);
    while (port->up && net_loop_now(port->loop) < until && has_pending_updates(port));
    net_timer_stop(port->loop, &port->timer);
}

void remote_port_free(struct remote_port *port)
{
    if (port == NULL)
        return;
    net_timer_stop(port->loop, &port->timer);
    if (port->up)
        drain(port);
    if (port->redis)
        redis_free(port->redis);
    remote_money_port_free(port->money);
    remote_keys_free(port->keys);
    remote_objects_free(port->objects);
    remote_nodes_free(port->nodes);
    remote_blocks_free(port->blocks);
    remote_limits_free(port->limits);
    recent_free(port->recent);
    free(port);
}
