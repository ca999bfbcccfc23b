/* test_remote_money.c - budgets in Redis: nothing is counted twice, lost, or kept by the dead. */
#include "remote_money_kit.h"

#include "redis_group.h"

static struct money_world world;

/* A fresh Redis and nodes of one loop, without budgets of everyone. */
static void open_nodes(struct money_node *nodes, size_t n)
{
    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    world.tree.n_budgets = 0;
    for (size_t i = 0; i < n; i++) {
        char id[24];
        snprintf(id, sizeof id, "n%zu", i);
        money_node_open(&nodes[i], i > 0 ? nodes[0].kit.loop : NULL, &server,
                        money_books(NULL, &world, NOW), id, 0xa0 + i);
    }
}

static void close_nodes(struct money_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (nodes[i].port)
            money_node_kill(&nodes[i]);
    net_loop_free(nodes[0].kit.loop);
}

static void settle(struct money_call *call, tg_micro spent)
{
    struct remote_money_port *port = call->node->port;

    assert_non_null(call->ticket);
    remote_money_settle(call->ticket, spent, NOW);
    money_until(call->node, port->lists[MONEY_CLAIM_ENDING].n == 0);
}

static void what_one_node_reserves_another_cannot(void **state)
{
    struct money_node nodes[2];
    (void)state;

    open_nodes(nodes, 2);
    struct money_call first = money_reserve(&nodes[0], SOLO, 10000);
    assert_int_equal(first.answer.reserved, 10000);
    struct money_call second = money_reserve(&nodes[1], SOLO, 5001);
    assert_null(second.ticket);
    assert_true(second.answer.contended);
    assert_int_equal(second.answer.amount, 15000);
    assert_int_equal(second.answer.used, 10000);

    settle(&first, 9999);
    second = money_reserve(&nodes[1], SOLO, 5001);
    assert_non_null(second.ticket);
    settle(&second, 5001);
    struct money_call third = money_reserve(&nodes[0], SOLO, 1);
    assert_null(third.ticket);
    assert_false(third.answer.contended);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 15000);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 0);
    close_nodes(nodes, 2);
}

static void what_is_not_known_costs_what_was_asked_for(void **state)
{
    struct money_node node;
    (void)state;

    open_nodes(&node, 1);
    struct money_call call = money_reserve(&node, SOLO, 700);
    settle(&call, -1);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 700);
    close_nodes(&node, 1);
}

static void every_key_ends_by_itself_and_is_in_the_slot_of_its_root(void **state)
{
    struct money_node node;
    redisReply *keys;
    (void)state;

    open_nodes(&node, 1);
    struct spending_call what = money_what(TEAM_A, "ann {1}:", 10);
    struct money_call call = money_must(&node, &what, NOW);
    assert_non_null(call.ticket);
    keys = net_redis_ask(&server, "KEYS *");
    assert_int_equal(keys->elements, 2 * 6); /* six windows, for team-a has two budgets of a day */
    for (size_t i = 0; i < keys->elements; i++) {
        long long ttl = net_redis_integer(&server, "PTTL %s", keys->element[i]->str);
        assert_true(ttl > 0);
        assert_int_equal(redis_slot(slice_of(keys->element[i]->str)),
                         redis_slot(slice_of("{product}")));
    }
    freeReplyObject(keys);
    settle(&call, 3);
    close_nodes(&node, 1);
}

static void a_yes_that_comes_after_a_cancel_is_given_back(void **state)
{
    struct money_node node;
    struct money_call call;
    struct spending_call what = money_what(SOLO, NULL, 15000);
    (void)state;

    open_nodes(&node, 1);
    money_ask(&call, &node, &what, NOW);
    remote_money_cancel(call.ask);
    money_until(&node, money_stats(&node).late_yes == 1);
    money_until(&node, node.port->lists[MONEY_CLAIM_ENDING].n == 0);
    assert_false(call.decided);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 0);
    struct money_call next = money_reserve(&node, SOLO, 15000);
    assert_non_null(next.ticket);
    close_nodes(&node, 1);
}

static void no_answer_in_time_is_an_error_and_a_late_yes_is_given_back(void **state)
{
    struct money_node node;
    struct remote_money_options options;
    struct spending_call what = money_what(SOLO, NULL, 15000);
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    world.tree.n_budgets = 0;
    money_options(&options, "n", 1);
    options.timeout = 20;
    money_node_open_with(&node, NULL, &server, money_books(NULL, &world, NOW), &options);
    net_redis_pause(&server);
    struct money_call call = money_must(&node, &what, NOW);
    assert_int_equal(call.err, TG_ERR_STORE);
    assert_int_equal(money_stats(&node).late, 1);
    net_redis_resume(&server);
    money_until(&node, money_stats(&node).late_yes == 1);
    money_until(&node, node.port->lists[MONEY_CLAIM_ENDING].n == 0);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 0);
    close_nodes(&node, 1);
}

static void a_reservation_whose_answer_was_lost_is_given_back(void **state)
{
    struct money_node nodes[2];
    struct money_call call;
    struct spending_call what = money_what(SOLO, NULL, 15000);
    (void)state;

    open_nodes(nodes, 2);
    net_redis_pause(&server);
    money_ask(&call, &nodes[0], &what, NOW);
    /* It is sent, then all connections end; whether it was done nobody can tell. */
    net_loop_turn(nodes[0].kit.loop, false);
    net_redis_kill(&server);
    money_until(&nodes[0], call.decided);
    assert_int_equal(call.err, TG_ERR_STORE);
    assert_int_equal(nodes[0].port->lists[MONEY_CLAIM_ENDING].n, 1);
    net_redis_again(&server);
    money_until(&nodes[0], nodes[0].port->lists[MONEY_CLAIM_ENDING].n == 0);
    close_nodes(nodes, 2);
}

/* The first node owns the loop: it goes on for the others. */
static void die(struct money_node *node)
{
    remote_kit_cut(&node->kit);
    remote_money_port_free(node->port);
    remote_money_free(node->money);
    spending_free(node->spending);
    node->port = NULL;
}

static tg_ms pass(struct money_node *node, tg_ms now)
{
    atomic_store(&node->money->latest, now);
    net_loop_turn(node->kit.loop, true);
    return now;
}

static void note_block(void *context, struct slice window, struct slice process, tg_micro micro,
                       tg_ms asked_at)
{
    (void)window;
    (void)asked_at;
    assert_true(slice_equal(process, SLICE("00000000000000a0.n0")));
    *(tg_micro *)context += micro;
}

/* A gateway that has become strict gives back what it had leased, though calls go on. */
static void who_becomes_strict_keeps_no_block(void **state)
{
    struct money_node node;
    struct spending_call what = money_what(SOLO, NULL, 10);
    (void)state;

    open_nodes(&node, 1);
    node.blocks = true;
    struct money_call call = money_reserve(&node, SOLO, 1000);
    remote_money_settle(call.ticket, 1000, NOW);
    assert_true(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "b") > 2000);
    node.blocks = false;
    for (tg_ms now = NOW; money_in_redis(&server, OF_SOLO, TG_PER_DAY, "b") > 0;) {
        call = money_must(&node, &what, now);
        assert_non_null(call.ticket);
        settle(&call, 0);
        now = pass(&node, now + 100);
        assert_true(now < NOW + 5000);
    }
    close_nodes(&node, 1);
}

static void what_a_dead_node_held_can_be_written_off(void **state)
{
    struct money_node nodes[2];
    struct spending_call what = money_what(SOLO, NULL, 10000);
    tg_ms now = NOW + 2 * HOUR;
    tg_micro seen = 0, micro;
    (void)state;

    open_nodes(nodes, 2);
    assert_non_null(money_reserve(&nodes[0], SOLO, 6000).ticket);
    die(&nodes[0]);
    assert_true(money_must(&nodes[1], &what, now).answer.contended);
    for (; seen == 0; now = pass(&nodes[1], now + 10))
        remote_money_each_block(nodes[1].money, note_block, &seen);
    assert_int_equal(seen, 6000);
    size_t n = remote_money_write_off(nodes[1].money, SLICE("00000000000000a0.n0"), &micro);
    assert_int_equal(n, 1);
    assert_int_equal(micro, 6000);
    while (money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o") > 0)
        now = pass(&nodes[1], now + 10);
    assert_non_null(money_must(&nodes[1], &what, now).ticket);
    close_nodes(nodes, 2);
}

/* Its calls in flight are billed, whatever became of it. */
static void what_a_dead_node_held_stays_until_its_ledger_has_told(void **state)
{
    struct money_node nodes[2], again;
    (void)state;

    open_nodes(nodes, 2);
    struct money_call held = money_reserve(&nodes[0], SOLO, 6000);
    struct money_call spent = money_reserve(&nodes[0], SOLO, 4000);
    assert_non_null(held.ticket);
    settle(&spent, 4000);
    struct money_call other = money_reserve(&nodes[1], SOLO, 2000);
    assert_non_null(other.ticket);
    die(&nodes[0]);

    struct spending_call what = money_what(SOLO, NULL, 9000);
    struct money_call call = money_must(&nodes[1], &what, NOW + HOUR - 1);
    assert_null(call.ticket);
    assert_true(call.answer.contended);
    /* Its own is renewed meanwhile, that of the dead is not. */
    money_until(&nodes[1], !other.ticket->in_flight && other.ticket->renewed_at > NOW);
    call = money_must(&nodes[1], &what, NOW + 3 * HOUR / 2);
    assert_null(call.ticket);
    assert_true(call.answer.contended);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 8000);

    money_node_open(&again, nodes[0].kit.loop, &server, money_books(NULL, &world, NOW), "n2", 0xa0);
    struct tg_problem problem;
    assert_true(remote_money_adopt(again.money, NOW + 3 * HOUR / 2, &problem));
    money_until(&again, money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o") == 2000);
    call = money_must(&nodes[1], &what, NOW + 3 * HOUR / 2);
    assert_non_null(call.ticket);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 4000);
    money_node_kill(&again);
    money_node_kill(&nodes[1]);
    net_loop_free(nodes[0].kit.loop);
}

static void an_account_without_budgets_asks_nobody(void **state)
{
    struct money_node node;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    world.tree.n_budgets = 0;
    world.tenants[SOLO].n_budgets = 0;
    money_node_open(&node, NULL, &server, money_books(NULL, &world, NOW), "n", 1);
    struct money_call call = money_reserve(&node, SOLO, 123456789);
    assert_non_null(call.ticket);
    assert_int_equal(call.answer.reserved, 123456789);
    remote_money_settle(call.ticket, 5, NOW);
    struct spending_call nobody = {.tenant = "nobody", .hint = SPENDING_TOP, .money = 1};
    struct money_call unknown = money_must(&node, &nobody, NOW);
    assert_int_equal(unknown.err, TG_ERR_UNKNOWN);
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 0);
    close_nodes(&node, 1);
}

static void settlements_belong_to_the_window_of_their_reservation(void **state)
{
    struct money_node node;
    tg_ms begin, end; /* some time after the end Redis is told to forget the window */
    (void)state;

    tg_window_of(TG_PER_DAY, NULL, NOW, &begin, &end);
    open_nodes(&node, 1);
    struct money_call call = money_reserve(&node, SOLO, 5000);
    struct spending_call what = money_what(SOLO, NULL, 15000);
    struct money_call next = money_must(&node, &what, end);
    assert_non_null(next.ticket);
    settle(&call, 4000);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 4000);
    settle(&next, 15000);
    struct money_call last = money_must(&node, &what, end);
    assert_int_equal(last.answer.used, 15000);
    close_nodes(&node, 1);
}

static void calls_that_end_at_once_are_noted_together(void **state)
{
    struct money_node node;
    struct money_call calls[40];
    struct redis_stats before, after;
    (void)state;

    open_nodes(&node, 1);
    for (size_t i = 0; i < 40; i++)
        calls[i] = money_reserve(&node, i < 30 ? SOLO : TEAM_B, 100);
    redis_get_stats(node.kit.redis, &before);
    for (size_t i = 0; i < 40; i++)
        remote_money_settle(calls[i].ticket, 10, NOW);
    money_until(&node, node.port->lists[MONEY_CLAIM_ENDING].n == 0);
    redis_get_stats(node.kit.redis, &after);
    /* The first of each, and the others; beside them, what is asked in turn. */
    assert_true(after.commands - before.commands <= 8);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 300);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 0);
    assert_int_equal(money_in_redis(&server, OF_PRODUCT, TG_PER_DAY, "s"), 100);
    assert_int_equal(money_in_redis(&server, OF_PRODUCT, TG_PER_DAY, "o"), 0);
    close_nodes(&node, 1);
}

static void windows_that_are_long_over_are_forgotten(void **state)
{
    struct money_node node;
    (void)state;

    open_nodes(&node, 1);
    struct money_call call = money_reserve(&node, SOLO, 5000);
    settle(&call, 5000);
    assert_int_equal(money_stats(&node).windows, 1);
    struct spending_call what = money_what(SOLO, NULL, 1);
    call = money_must(&node, &what, NOW + 2 * DAY);
    money_until(&node, money_stats(&node).windows == 1);
    settle(&call, 1);
    close_nodes(&node, 1);
}

static void the_table_is_bounded_and_makes_room(void **state)
{
    struct money_node node;
    struct remote_money_options options;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    world.tree.n_budgets = 0;
    money_options(&options, "n", 1);
    options.max_windows = 10;
    options.period = 1;
    tg_ms now = NOW;
    money_node_open_with(&node, NULL, &server, money_books(NULL, &world, NOW), &options);
    for (int round = 1; round <= 2; round++)
        for (int i = 0; i < 40; i++) {
            char user[16];
            snprintf(user, sizeof user, "user%d", i);
            struct spending_call what = money_what(TEAM_A, user, 10);
            struct money_call call = money_must(&node, &what, now);
            assert_int_equal(call.err, TG_OK);
            settle(&call, 10);
            assert_true(money_stats(&node).windows <= 10);
            /* Where no call has come for a while, it is not heard of either. */
            atomic_store(&node.money->latest, now += 3000);
            money_until(&node, node.money->n_active == 0 && node.port->updates == 0);
        }
    /* Nobody was forgotten: what Redis knew of the ledger counts. */
    assert_int_equal(money_in_redis(&server, "{product}:u:team%3A%7Ba%7D:user7:", TG_PER_DAY, "s"),
                     20);
    assert_int_equal(money_in_redis(&server, OF_TEAM_A, TG_PER_DAY, "s"), 800);
    /* What is told beside calls is pinned meanwhile, and a tick tells some. */
    node.money->period = HOUR;
    money_until(&node, node.port->timer.at > net_loop_now(node.kit.loop) + MINUTE &&
                           node.port->updates == 0 && node.port->asks == 0);
    /* All pinned: no more. */
    struct spending_call ann = money_what(TEAM_A, "ann", 10), bob = money_what(TEAM_A, "bob", 10);
    struct spending_call eve = money_what(TEAM_A, "eve", 10);
    assert_non_null(money_must(&node, &ann, NOW).ticket);
    assert_non_null(money_must(&node, &bob, NOW).ticket);
    assert_non_null(money_must(&node, &eve, NOW).ticket);
    struct spending_call joe = money_what(TEAM_A, "joe", 10);
    assert_int_equal(money_must(&node, &joe, NOW).err, TG_ERR_FULL);
    close_nodes(&node, 1);
}

static void a_redis_without_memory_is_an_error_and_changes_nothing(void **state)
{
    struct money_node nodes[2];
    struct spending_call what = money_what(SOLO, NULL, 1000);
    (void)state;

    open_nodes(nodes, 2);
    struct money_call held = money_reserve(&nodes[0], SOLO, 4000);
    struct money_call other = money_reserve(&nodes[1], SOLO, 500);
    net_redis_do(&server, "CONFIG SET maxmemory 1");
    /* The other's lease has ended by time: what becomes of it must not be done by half either. */
    die(&nodes[1]);
    (void)other;
    struct money_call call = money_must(&nodes[0], &what, NOW + HOUR);
    assert_int_equal(call.err, TG_ERR_STORE);
    remote_money_settle(held.ticket, 3000, NOW + HOUR);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o"), 4500);
    net_redis_do(&server, "CONFIG SET maxmemory 0");
    money_until(&nodes[0], nodes[0].port->lists[MONEY_CLAIM_ENDING].n == 0);
    /* Its own had ended by time, too: it says that it holds nothing. */
    for (tg_ms now = NOW + HOUR; money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o") != 500;)
        now = pass(&nodes[0], now + 10);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 3000);
    close_nodes(nodes, 2);
}

static void a_key_that_is_something_else_is_an_error(void **state)
{
    struct money_node node;
    struct spending_call what = money_what(SOLO, NULL, 1000);
    tg_ms begin, end;
    (void)state;

    open_nodes(&node, 1);
    tg_window_of(TG_PER_DAY, NULL, NOW, &begin, &end);
    net_redis_do(&server, "SET tg:money:{solo}:t:solo:%lld-%lld x", (long long)begin,
                 (long long)end);
    struct money_call call = money_must(&node, &what, NOW);
    assert_int_equal(call.err, TG_ERR_STORE);
    assert_int_equal(money_stats(&node).lost, 1);
    net_redis_do(&server, "FLUSHALL");
    call = money_must(&node, &what, NOW);
    assert_non_null(call.ticket);
    close_nodes(&node, 1);
}

/* Another node may have what is left, and hear Redis. */
static void nothing_is_taken_without_redis_that_is_not_held(void **state)
{
    struct money_node nodes[2];
    struct spending_call what = money_what(SOLO, NULL, 2000);
    struct tg_money_answer answer;
    struct remote_money_ticket *ticket;
    (void)state;

    open_nodes(nodes, 2);
    struct money_call call = money_reserve(&nodes[0], SOLO, 3000);
    settle(&call, 3000);
    call = money_reserve(&nodes[1], SOLO, 1000);
    settle(&call, 1000);
    net_redis_kill(&server);
    call = money_must(&nodes[1], &what, NOW);
    assert_int_equal(call.err, TG_ERR_STORE);
    assert_int_equal(remote_money_local(nodes[1].port, &what, false, false, NOW, &answer, &ticket),
                     TG_ERR_STORE);
    assert_null(ticket);
    /* What is spent for all that is known stays spent. */
    what.money = 11001;
    assert_int_equal(remote_money_local(nodes[1].port, &what, false, false, NOW, &answer, &ticket),
                     TG_OK);
    assert_null(ticket);
    assert_false(answer.contended);
    /* Who lets everything through still counts it. */
    assert_int_equal(remote_money_local(nodes[1].port, &what, false, true, NOW, &answer, &ticket),
                     TG_OK);
    remote_money_settle(ticket, 5501, NOW);
    assert_int_equal(money_stats(&nodes[1]).unacked_micro, 5501);

    net_redis_again(&server);
    for (tg_ms now = NOW; money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s") != 9501; now++) {
        atomic_store(&nodes[0].money->latest, now);
        atomic_store(&nodes[1].money->latest, now);
        money_until(&nodes[0], redis_is_up(nodes[0].kit.redis, NULL) || now > NOW);
        net_loop_turn(nodes[0].kit.loop, true);
    }
    money_until(&nodes[0], money_stats(&nodes[1]).unacked == 0);
    close_nodes(nodes, 2);
}

static void what_is_left_counts_what_others_spent(void **state)
{
    struct money_node nodes[2];
    struct spending_call what = money_what(SOLO, NULL, 0);
    tg_micro left;
    double part;
    (void)state;

    open_nodes(nodes, 2);
    struct money_call call = money_reserve(&nodes[0], SOLO, 3000);
    settle(&call, 3000);
    call = money_reserve(&nodes[1], SOLO, 1000);
    assert_int_equal(remote_money_left(nodes[1].money, &what, NOW, &left, &part), TG_OK);
    assert_int_equal(left, 11000);
    assert_true(part > 0.7332 && part < 0.7334);
    close_nodes(nodes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_node_reserves_another_cannot),
        cmocka_unit_test(what_is_not_known_costs_what_was_asked_for),
        cmocka_unit_test(every_key_ends_by_itself_and_is_in_the_slot_of_its_root),
        cmocka_unit_test(a_yes_that_comes_after_a_cancel_is_given_back),
        cmocka_unit_test(no_answer_in_time_is_an_error_and_a_late_yes_is_given_back),
        cmocka_unit_test(a_reservation_whose_answer_was_lost_is_given_back),
        cmocka_unit_test(what_a_dead_node_held_stays_until_its_ledger_has_told),
        cmocka_unit_test(who_becomes_strict_keeps_no_block),
        cmocka_unit_test(what_a_dead_node_held_can_be_written_off),
        cmocka_unit_test(an_account_without_budgets_asks_nobody),
        cmocka_unit_test(settlements_belong_to_the_window_of_their_reservation),
        cmocka_unit_test(calls_that_end_at_once_are_noted_together),
        cmocka_unit_test(windows_that_are_long_over_are_forgotten),
        cmocka_unit_test(the_table_is_bounded_and_makes_room),
        cmocka_unit_test(a_redis_without_memory_is_an_error_and_changes_nothing),
        cmocka_unit_test(a_key_that_is_something_else_is_an_error),
        cmocka_unit_test(nothing_is_taken_without_redis_that_is_not_held),
        cmocka_unit_test(what_is_left_counts_what_others_spent),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
