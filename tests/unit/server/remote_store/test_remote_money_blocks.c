/* test_remote_money_blocks.c - the budget of everyone, leased to nodes in blocks: spent to the last
 * micro-dollar, never beyond, whoever dies. */
#include "draw.h"
#include "remote_money_kit.h"

#include "redis_group.h"

enum { NODES = 4,
       OPEN_MAX = 16 };

static struct money_world world;
static uint64_t seed;

static int start(void **state)
{
    seed = draw_seed("test_remote_money_blocks");
    return start_redis(state);
}

/* Only everyone has budgets. */
static void open_nodes(struct money_node *nodes, size_t n, tg_micro amount)
{
    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    world.tree.n_budgets = 1;
    world.everyone[0].amount = amount;
    for (size_t i = 0; i < TENANTS; i++)
        world.tenants[i].n_budgets = world.tenants[i].n_user_budgets = 0;
    for (size_t i = 0; i < n; i++) {
        struct remote_money_options options;
        char id[24];
        snprintf(id, sizeof id, "n%zu", i);
        money_options(&options, id, 0xa0 + i);
        options.lease_ttl = MINUTE;
        money_node_open_with(&nodes[i], i > 0 ? nodes[0].kit.loop : NULL, &server,
                             money_books(NULL, &world, NOW), &options);
    }
}

static void close_nodes(struct money_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i].port)
            money_node_kill(&nodes[i]);
    net_loop_free(nodes[0].kit.loop);
}

static struct money_call reserve_at(struct money_node *node, tg_micro money, tg_ms now)
{
    struct spending_call what = money_what(SOLO, NULL, money);
    struct money_call call = money_must(node, &what, now);

    assert_int_equal(call.err, TG_OK);
    return call;
}

static long long in_redis(const char *field)
{
    return money_in_redis(&server, EVERYONE, TG_PER_MONTH, field);
}

static void four_nodes_spend_it_to_the_last_micro_dollar(void **state)
{
    struct money_node nodes[NODES];
    struct money_call open[OPEN_MAX];
    struct draw draw = draw_stream(seed, 1);
    size_t n = 0, contended = 0;
    tg_micro held = 0, settled = 0, amount = 1000003;
    tg_ms now = NOW;
    (void)state;

    open_nodes(nodes, NODES, amount);
    while (settled < amount) {
        now += draw_between(&draw, 0, 100);
        if (n == OPEN_MAX || (n > 0 && draw_chance(&draw, 40))) {
            size_t i = (size_t)draw_between(&draw, 0, (int64_t)n - 1);
            tg_micro reserved = open[i].answer.reserved;
            tg_micro spent = draw_chance(&draw, 20) ? 0 : draw_between(&draw, 0, reserved);
            if (draw_chance(&draw, 30))
                spent = reserved;
            remote_money_settle(open[i].ticket, spent, now);
            held -= reserved;
            settled += spent;
            open[i] = open[--n];
            continue;
        }
        struct money_node *node = &nodes[draw_between(&draw, 0, NODES - 1)];
        tg_micro left = amount - settled - held;
        tg_micro ask = draw_magnitude(&draw, left > 5000 ? 5000 : num_max(left, 1));
        struct money_call call = reserve_at(node, ask, now);
        if (call.ticket == NULL) {
            contended += call.answer.contended;
            assert_true(call.answer.contended || settled + ask > amount);
            continue;
        }
        held += ask;
        open[n++] = call;
        assert_true(settled + held <= amount);
    }
    while (n > 0)
        remote_money_settle(open[--n].ticket, 0, now);
    print_message("# %zu times contended\n", contended);
    now += 2000; /* nodes tell what they settled once a second */
    for (size_t i = 0; i < NODES; i++)
        atomic_store(&nodes[i].money->latest, now);
    money_until(&nodes[0], in_redis("s") == 1000003);
    for (size_t i = 0; i < NODES; i++) {
        struct money_call call = reserve_at(&nodes[i], 0, now);
        assert_null(call.ticket);
        assert_false(call.answer.contended);
        assert_int_equal(call.answer.used, amount);
    }
    close_nodes(nodes, NODES);
}

static void most_calls_are_decided_without_redis(void **state)
{
    struct money_node node;
    tg_ms now = NOW;
    (void)state;

    open_nodes(&node, 1, INT64_C(1000000000));
    for (int i = 0; i < 4000; i++, now += 5) {
        struct money_call call = reserve_at(&node, 1000, now);
        assert_non_null(call.ticket);
        remote_money_settle(call.ticket, 900, now);
    }
    /* 20 seconds; it tells what it has settled once a second, and asks when it runs low. */
    print_message("# %llu asks for 4000 calls\n", (unsigned long long)money_stats(&node).blocks);
    assert_true(money_stats(&node).blocks < 80);
    close_nodes(&node, 1);
}

static void an_idle_node_gives_back_what_it_does_not_use(void **state)
{
    struct money_node nodes[2];
    tg_ms now = NOW;
    (void)state;

    open_nodes(nodes, 2, 100000);
    struct money_call held = reserve_at(&nodes[0], 123, now);
    for (int i = 0; i < 100; i++, now += 10) {
        struct money_call call = reserve_at(&nodes[0], 500, now);
        assert_non_null(call.ticket);
        remote_money_settle(call.ticket, 5, now);
    }
    assert_true(money_stats(&nodes[0]).leased > 623);
    /* Nobody calls it; time goes on. */
    for (int i = 0; in_redis("e:00000000000000a0.n0") != 123; i++) {
        assert_true(i < 400);
        now += 100;
        atomic_store(&nodes[0].money->latest, now);
        size_t blocks = money_stats(&nodes[0]).blocks;
        for (int turn = 0; turn < 20 && money_stats(&nodes[0]).blocks == blocks; turn++)
            net_loop_turn(nodes[0].kit.loop, true);
    }
    struct money_call rest = reserve_at(&nodes[1], 100000 - 623, now);
    assert_non_null(rest.ticket);
    struct money_call more = reserve_at(&nodes[0], 1, now);
    assert_null(more.ticket);
    assert_true(more.answer.contended);
    remote_money_settle(held.ticket, 0, now);
    close_nodes(nodes, 2);
}

static void a_node_that_leaves_gives_back_what_it_does_not_use(void **state)
{
    struct money_node node;
    tg_ms now = NOW;
    (void)state;

    open_nodes(&node, 1, 100000);
    for (int i = 0; i < 100; i++, now += 10) {
        struct money_call call = reserve_at(&node, 500, now);
        remote_money_settle(call.ticket, 5, now);
    }
    assert_true(in_redis("e:00000000000000a0.n0") > 500);
    remote_money_leave(node.money);
    money_until(&node, money_stats(&node).untold == 0 && money_stats(&node).unacked == 0);
    assert_int_equal(in_redis("e:00000000000000a0.n0"), 0);
    assert_int_equal(in_redis("s"), 500);
    /* Calls that still come are decided, each by itself. */
    struct money_call call = reserve_at(&node, 500, now);
    assert_non_null(call.ticket);
    close_nodes(&node, 1);
}

static void tick_until_told(struct money_node *node, tg_ms *now)
{
    do {
        *now += 500;
        atomic_store(&node->money->latest, *now);
        net_loop_turn(node->kit.loop, true);
    } while (money_stats(node).unacked > 0 || money_stats(node).untold > 0);
}

/* Calls of the dead are billed, whenever they end: no time gives back what it held. */
static void what_a_dead_node_held_is_spent_until_its_ledger_tells(void **state)
{
    struct money_node nodes[2];
    struct remote_money_options options;
    struct tg_problem problem;
    struct money_call call;
    tg_ms now = NOW + 3 * HOUR;
    (void)state;

    open_nodes(nodes, 2, 100000);
    struct money_call spent = reserve_at(&nodes[1], 20000, NOW);
    remote_money_settle(spent.ticket, 15000, NOW);
    struct money_call held = reserve_at(&nodes[1], 70000, NOW + 1000);
    assert_non_null(held.ticket);
    money_node_kill(&nodes[1]);
    call = reserve_at(&nodes[0], 15001, now);
    assert_null(call.ticket);
    assert_true(call.answer.contended);
    /* It comes back, and its books say 15000: with Redis, or with a journal. */
    money_options(&options, "again", 0xa1);
    options.lease_ttl = MINUTE;
    money_node_open_with(&nodes[1], nodes[0].kit.loop, &server, money_books(NULL, &world, now),
                         &options);
    call = reserve_at(&nodes[1], 0, now);
    remote_money_settle(call.ticket, 0, now);
    assert_true(remote_money_adopt(nodes[1].money, now, &problem));
    tick_until_told(&nodes[1], &now);
    call = reserve_at(&nodes[0], 85001, now + 2000);
    assert_null(call.ticket);
    call = reserve_at(&nodes[0], 85000, now + 4000);
    assert_non_null(call.ticket);
    close_nodes(nodes, 2);
}

/* A node without Redis has its block, and nothing beyond, for the others may have the rest. */
static void a_block_is_good_without_redis_and_nothing_else_is(void **state)
{
    struct money_node node;
    struct spending_call what = money_what(SOLO, NULL, 500), more = money_what(SOLO, NULL, 2001);
    struct tg_money_answer answer;
    struct remote_money_ticket *ticket;
    tg_ms now = NOW;
    (void)state;

    open_nodes(&node, 1, 100000);
    struct money_call call = reserve_at(&node, 500, now);
    remote_money_settle(call.ticket, 500, now);
    assert_int_equal(money_stats(&node).leased, 2500); /* four calls more */
    net_redis_kill(&server);
    money_until(&node, !redis_is_up(node.kit.redis, NULL));
    call = money_must(&node, &what, now + HOUR);
    assert_int_equal(call.err, TG_OK);
    assert_non_null(call.ticket);
    remote_money_settle(call.ticket, 100, now);
    assert_int_equal(
        remote_money_local(node.port, &what, true, false, now + HOUR, &answer, &ticket), TG_OK);
    assert_non_null(ticket);
    remote_money_settle(ticket, 0, now);
    assert_int_equal(
        remote_money_local(node.port, &more, true, false, now + HOUR, &answer, &ticket),
        TG_ERR_STORE);
    call = money_must(&node, &more, now + HOUR);
    assert_int_equal(call.err, TG_ERR_STORE);
    net_redis_again(&server);
    /* Redis is empty, and this node the one that knows: nothing more is granted for a while. */
    money_until(&node, in_redis("s") == 600);
    close_nodes(&node, 1);
}

/* Two loops of one process wait for the same block. */
static void all_loops_of_a_node_share_its_block(void **state)
{
    struct money_node node;
    struct remote_money_port *second;
    struct money_call calls[2];
    struct spending_call what = money_what(SOLO, NULL, 50000);
    (void)state;

    open_nodes(&node, 1, 100000);
    assert_int_equal(
        remote_money_port_new(node.money, node.kit.loop, node.kit.redis, &second), TG_OK);
    struct money_node other = node;
    other.port = second;
    money_ask(&calls[0], &node, &what, NOW);
    money_ask(&calls[1], &other, &what, NOW);
    money_until(&node, calls[0].decided && calls[1].decided);
    assert_non_null(calls[0].ticket);
    assert_non_null(calls[1].ticket);
    struct money_call third = reserve_at(&other, 1, NOW);
    assert_null(third.ticket);
    assert_true(third.answer.contended);
    remote_kit_cut(&node.kit);
    remote_money_port_free(second);
    remote_money_port_free(node.port);
    remote_money_free(node.money);
    spending_free(node.spending);
    net_loop_free(node.kit.loop);
}

/* One loop has asked and then stands still: the other goes on without it, after a while. */
static void a_loop_that_stands_still_does_not_stop_the_others(void **state)
{
    struct money_node node, other;
    struct money_call stuck, call;
    struct spending_call what = money_what(SOLO, NULL, 1000);
    (void)state;

    open_nodes(&node, 1, 100000);
    other = node;
    remote_kit_open(&other.kit, NULL, &server);
    assert_int_equal(
        remote_money_port_new(node.money, other.kit.loop, other.kit.redis, &other.port), TG_OK);
    money_ask(&stuck, &other, &what, NOW);
    money_ask(&call, &node, &what, NOW);
    atomic_store(&node.money->latest, NOW + 2000);
    money_until(&node, call.decided);
    assert_non_null(call.ticket);
    assert_false(stuck.decided);
    money_until(&other, stuck.decided);
    assert_non_null(stuck.ticket);
    remote_kit_cut(&other.kit);
    remote_money_port_free(other.port);
    net_loop_free(other.kit.loop);
    close_nodes(&node, 1);
}

/* One loop has asked, and has not noticed yet that Redis is gone; the other has. */
static void who_knows_that_redis_is_away_does_not_wait_for_a_block(void **state)
{
    struct money_node node, other;
    struct money_call stuck, call;
    struct spending_call what = money_what(SOLO, NULL, 1000);
    (void)state;

    open_nodes(&node, 1, 100000);
    other = node;
    remote_kit_open(&other.kit, NULL, &server);
    assert_int_equal(
        remote_money_port_new(node.money, other.kit.loop, other.kit.redis, &other.port), TG_OK);
    money_ask(&stuck, &other, &what, NOW);
    net_redis_kill(&server);
    money_until(&node, !redis_is_up(node.kit.redis, NULL));
    money_ask(&call, &node, &what, NOW);
    money_until(&node, call.decided);
    assert_int_equal(call.err, TG_ERR_STORE);
    assert_false(stuck.decided);
    net_redis_again(&server);
    money_until(&other, stuck.decided);
    remote_kit_cut(&other.kit);
    remote_money_port_free(other.port);
    net_loop_free(other.kit.loop);
    close_nodes(&node, 1);
}

static void a_budget_that_is_removed_is_not_asked_for_any_more(void **state)
{
    struct money_node node;
    struct tg_problem problem;
    (void)state;

    open_nodes(&node, 1, 100);
    struct money_call call = reserve_at(&node, 100, NOW);
    assert_null(reserve_at(&node, 1, NOW).ticket);
    world.tree.n_budgets = 0;
    assert_true(spending_change(node.spending, &world.tree, NOW, &problem));
    assert_non_null(reserve_at(&node, 1, NOW).ticket);
    /* What was reserved under it still settles. */
    remote_money_settle(call.ticket, 60, NOW);
    money_until(&node, in_redis("s") == 60);
    close_nodes(&node, 1);
}

/* A call used more than it had reserved, beyond the amount: leased, but nobody's to spend. */
static void what_was_used_beyond_the_amount_is_no_room_for_others(void **state)
{
    struct money_node node;
    (void)state;

    open_nodes(&node, 1, 1000);
    struct money_call first = reserve_at(&node, 500, NOW), second = reserve_at(&node, 500, NOW);
    remote_money_settle(first.ticket, 900, NOW);
    atomic_store(&node.money->latest, NOW + 2000);
    money_until(&node, in_redis("s") == 900 && in_redis("e:00000000000000a0.n0") == 500);
    money_until(&node, money_stats(&node).unacked == 0);
    remote_money_settle(second.ticket, 0, NOW + 2000);
    struct money_call call = reserve_at(&node, 101, NOW + 2000);
    assert_null(call.ticket);
    assert_false(call.answer.contended);
    assert_int_equal(call.answer.used, 900);
    call = reserve_at(&node, 100, NOW + 2000);
    assert_non_null(call.ticket);
    close_nodes(&node, 1);
}

static void a_lowered_amount_counts_at_once(void **state)
{
    struct money_node node;
    struct tg_problem problem;
    tg_ms now = NOW;
    (void)state;

    open_nodes(&node, 1, 1000000);
    for (int i = 0; i < 50; i++, now += 10) {
        struct money_call call = reserve_at(&node, 1000, now);
        remote_money_settle(call.ticket, 1000, now);
    }
    assert_true(money_stats(&node).leased > 50000);
    world.everyone[0].amount = 50500;
    assert_true(spending_change(node.spending, &world.tree, now, &problem));
    struct money_call call = reserve_at(&node, 501, now);
    assert_null(call.ticket);
    call = reserve_at(&node, 500, now);
    assert_non_null(call.ticket);
    close_nodes(&node, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_nodes_spend_it_to_the_last_micro_dollar),
        cmocka_unit_test(most_calls_are_decided_without_redis),
        cmocka_unit_test(an_idle_node_gives_back_what_it_does_not_use),
        cmocka_unit_test(a_node_that_leaves_gives_back_what_it_does_not_use),
        cmocka_unit_test(what_a_dead_node_held_is_spent_until_its_ledger_tells),
        cmocka_unit_test(a_block_is_good_without_redis_and_nothing_else_is),
        cmocka_unit_test(all_loops_of_a_node_share_its_block),
        cmocka_unit_test(a_loop_that_stands_still_does_not_stop_the_others),
        cmocka_unit_test(who_knows_that_redis_is_away_does_not_wait_for_a_block),
        cmocka_unit_test(a_budget_that_is_removed_is_not_asked_for_any_more),
        cmocka_unit_test(what_was_used_beyond_the_amount_is_no_room_for_others),
        cmocka_unit_test(a_lowered_amount_counts_at_once),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
