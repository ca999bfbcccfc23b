/* remote_money_kit.h - nodes that share budgets, for the tests of remote money.
 *
 * Each has its books, its client and its port, all on one loop. */
#ifndef REMOTE_MONEY_KIT_H
#define REMOTE_MONEY_KIT_H

#include "net_remote_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/posix/clock.h"
#include "server/remote_store/remote_money_internal.h"

#define KIT __attribute__((unused)) static

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW INT64_C(1790000000000) /* 2026-09-21T14:13:20Z, a Monday */

enum { PRODUCT,
       TEAM_A,
       TEAM_B,
       SOLO,
       TENANTS };

/* Everyone; product over team-a and team-b; solo at the top. team-a has users. */
struct money_world {
    struct tg_budget everyone[2], product[2], team_a[3], team_b[1], solo[1], users[2];
    struct spending_tenant tenants[TENANTS];
    struct spending_tree tree;
};

KIT struct tg_budget budget_of(tg_micro amount, enum tg_per per)
{
    return (struct tg_budget){amount, per, NULL, TG_ENFORCE};
}

/* In its place: the tree points into it. */
KIT void money_world_init(struct money_world *world)
{
    world->everyone[0] = budget_of(100000, TG_PER_MONTH);
    world->everyone[1] = budget_of(60000, TG_PER_DAY);
    world->product[0] = budget_of(50000, TG_PER_WEEK);
    world->product[1] = budget_of(30000, TG_PER_DAY);
    world->team_a[0] = budget_of(10000, TG_PER_DAY);
    world->team_a[1] = budget_of(40000, TG_PER_TOTAL);
    world->team_a[2] = budget_of(5000, TG_PER_DAY); /* the window of the first */
    world->team_a[2].mode = TG_SHADOW;
    world->team_b[0] = budget_of(20000, TG_PER_DAY);
    world->solo[0] = budget_of(15000, TG_PER_DAY);
    world->users[0] = budget_of(2000, TG_PER_DAY);
    world->users[1] = budget_of(6000, TG_PER_WEEK);
    world->tenants[PRODUCT] =
        (struct spending_tenant){"product", SPENDING_TOP, world->product, 2, NULL, 0, NULL, 0};
    world->tenants[TEAM_A] =
        (struct spending_tenant){"team:{a}", PRODUCT, world->team_a, 3, world->users, 2, NULL, 0};
    world->tenants[TEAM_B] =
        (struct spending_tenant){"team-b", PRODUCT, world->team_b, 1, NULL, 0, NULL, 0};
    world->tenants[SOLO] =
        (struct spending_tenant){"solo", SPENDING_TOP, world->solo, 1, NULL, 0, NULL, 0};
    world->tree = (struct spending_tree){world->everyone, 2, world->tenants, TENANTS};
}

KIT struct spending *money_books(struct ledger *ledger, const struct money_world *world, tg_ms now)
{
    struct spending_config config = {.ledger = ledger, .open = true};
    struct tg_problem problem = {""};
    struct spending *spending = NULL;

    tg_bank_config_init(&config.bank);
    if (!spending_new(&config, &world->tree, now, &spending, &problem))
        fail_msg("%s", problem.text);
    return spending;
}

struct money_node {
    struct remote_kit kit;
    struct spending *spending;
    struct remote_money *money;
    struct remote_money_port *port;
    bool blocks; /* its calls are decided by blocks: two tiers */
};

/* Time limits are long and the work beside calls is done often, unless a test says otherwise. */
KIT void money_options(struct remote_money_options *options, const char *id, uint64_t ledger)
{
    remote_money_options_init(options);
    options->node = id;
    options->ledger = ledger;
    options->timeout = 30000;
    options->period = 5;
    options->callers_clock = true;
    options->lease_ttl = HOUR;
}

KIT void money_node_open_with(struct money_node *node, struct net_loop *loop,
                              const struct net_redis *server, struct spending *spending,
                              const struct remote_money_options *options)
{
    struct tg_problem problem;

    memset(node, 0, sizeof *node);
    node->spending = spending;
    remote_kit_open(&node->kit, loop, server);
    if (remote_money_new(options, spending, &node->money, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    assert_int_equal(
        remote_money_port_new(node->money, node->kit.loop, node->kit.redis, &node->port), TG_OK);
}

KIT void money_node_open(struct money_node *node, struct net_loop *loop,
                         const struct net_redis *server, struct spending *spending, const char *id,
                         uint64_t ledger)
{
    struct remote_money_options options;

    money_options(&options, id, ledger);
    money_node_open_with(node, loop, server, spending, &options);
}

/* Ends it like a process that dies; its books go with it. */
KIT void money_node_kill(struct money_node *node)
{
    remote_kit_cut(&node->kit);
    remote_money_port_free(node->port);
    remote_money_free(node->money);
    spending_free(node->spending);
    node->port = NULL;
}

KIT struct remote_money_stats money_stats(struct money_node *node)
{
    struct remote_money_stats stats;

    remote_money_get_stats(node->money, &stats);
    return stats;
}

/* Turns the loop until it is so; there is always a timer, so it is time that says never. */
#define money_until(node, so)                                                       \
    do {                                                                            \
        int64_t money_began = clock_monotonic_ns();                                 \
        while (!(so)) {                                                             \
            if (clock_monotonic_ns() - money_began > INT64_C(30000000000))          \
                fail_msg("%s:%d: it never became so: %s", __FILE__, __LINE__, #so); \
            net_loop_turn((node)->kit.loop, true);                                  \
        }                                                                           \
    } while (0)

/* ---- Calls ---- */

struct money_call {
    struct money_node *node;
    bool decided;
    enum tg_err err;
    struct tg_money_answer answer;
    struct remote_money_ticket *ticket;
    struct remote_money_ask *ask;
};

KIT struct spending_call money_what(size_t tenant, const char *user, tg_micro money)
{
    static const char *const names[] = {
        [PRODUCT] = "product", [TEAM_A] = "team:{a}", [TEAM_B] = "team-b", [SOLO] = "solo"};

    return (struct spending_call){
        .tenant = names[tenant],
        .hint = SPENDING_TOP,
        .user = {user, user ? strlen(user) : 0},
        .money = money,
    };
}

KIT void money_decided(void *context, enum tg_err err, const struct tg_money_answer *answer,
                       struct remote_money_ticket *ticket)
{
    struct money_call *call = context;

    assert_false(call->decided);
    call->decided = true;
    call->err = err;
    call->answer = *answer;
    call->ticket = ticket;
    assert_true((ticket != NULL) == (err == TG_OK && answer->reservation != 0));
}

KIT void money_ask(struct money_call *call, struct money_node *node,
                   const struct spending_call *what, tg_ms now)
{
    *call = (struct money_call){.node = node};
    call->ask = remote_money_reserve(node->port, what, node->blocks, now, money_decided, call);
    assert_non_null(call->ask);
    assert_false(call->decided);
}

/* Asks and waits. */
KIT struct money_call money_must(struct money_node *node, const struct spending_call *what,
                                 tg_ms now)
{
    struct money_call call;

    money_ask(&call, node, what, now);
    money_until(node, call.decided);
    call.ask = NULL;
    return call;
}

KIT struct money_call money_reserve(struct money_node *node, size_t tenant, tg_micro money)
{
    struct spending_call what = money_what(tenant, NULL, money);
    struct money_call call = money_must(node, &what, NOW);

    assert_int_equal(call.err, TG_OK);
    return call;
}

/* ---- What is in Redis ---- */

/* A field of a window of NOW; 0 if there is none. */
KIT long long money_in_redis(struct net_redis *server, const char *account, enum tg_per per,
                             const char *field)
{
    tg_ms begin, end;
    redisReply *reply;
    long long number = 0;

    tg_window_of(per, NULL, NOW, &begin, &end);
    reply = net_redis_ask(server, "HGET tg:money:%s%lld-%lld %s", account, (long long)begin,
                          (long long)end, field);
    if (reply->type == REDIS_REPLY_STRING)
        number = atoll(reply->str);
    freeReplyObject(reply);
    return number;
}

#define EVERYONE "{%}:"
#define OF_PRODUCT "{product}:t:product:"
#define OF_TEAM_A "{product}:t:team%3A%7Ba%7D:"
#define OF_ANN "{product}:u:team%3A%7Ba%7D:ann:"
#define OF_TEAM_B "{product}:t:team-b:"
#define OF_SOLO "{solo}:t:solo:"

#endif
