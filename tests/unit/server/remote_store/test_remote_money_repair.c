/* test_remote_money_repair.c - whatever Redis forgets is told again: sums and reservations. */
#include "draw.h"
#include "remote_money_kit.h"

#include "redis_group.h"

#include <unistd.h>

enum { NODES = 3,
       OPEN_MAX = 12 };

static struct money_world world;
static uint64_t seed;

static int start(void **state)
{
    seed = draw_seed("test_remote_money_repair");
    return start_redis(state);
}

static void open_nodes(struct money_node *nodes, size_t n)
{
    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    for (size_t i = 0; i < n; i++) {
        struct remote_money_options options;
        char id[24];
        snprintf(id, sizeof id, "n%zu", i);
        money_options(&options, id, 0xa0 + i);
        money_node_open_with(&nodes[i], i > 0 ? nodes[0].kit.loop : NULL, &server,
                             money_books(NULL, &world, NOW), &options);
    }
}

static void close_nodes(struct money_node *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        money_node_kill(&nodes[i]);
    net_loop_free(nodes[0].kit.loop);
}

/* ---- Redis forgets everything ---- */

struct expected {
    long long product, solo, everyone; /* settled */
    long long product_held, solo_held; /* reserved */
};

static bool is_as_expected(const struct expected *expected)
{
    return money_in_redis(&server, OF_PRODUCT, TG_PER_DAY, "s") == expected->product &&
           money_in_redis(&server, OF_PRODUCT, TG_PER_WEEK, "s") == expected->product &&
           money_in_redis(&server, OF_TEAM_B, TG_PER_DAY, "s") == expected->product &&
           money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s") == expected->solo &&
           money_in_redis(&server, EVERYONE, TG_PER_MONTH, "s") == expected->everyone &&
           money_in_redis(&server, OF_PRODUCT, TG_PER_DAY, "o") == expected->product_held &&
           money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o") == expected->solo_held;
}

/* Time goes on, for what is told once a second. */
static void pass(struct money_node *nodes, size_t n, tg_ms now)
{
    for (size_t i = 0; i < n; i++)
        atomic_store(&nodes[i].money->latest, now);
}

static void spend_and_hold(struct money_node *nodes, struct expected *expected)
{
    struct money_call call;

    *expected = (struct expected){0};
    for (size_t i = 0; i < NODES; i++) {
        tg_micro spent = 100 * (tg_micro)(i + 1);
        call = money_reserve(&nodes[i], TEAM_B, 1000);
        remote_money_settle(call.ticket, spent, NOW);
        expected->product += spent;
        call = money_reserve(&nodes[i], SOLO, 1000);
        remote_money_settle(call.ticket, 2 * spent, NOW);
        expected->solo += 2 * spent;
        call = money_reserve(&nodes[i], SOLO, 777);
        assert_non_null(call.ticket);
        expected->solo_held += 777;
        call = money_reserve(&nodes[i], TEAM_B, 333);
        assert_non_null(call.ticket);
        expected->product_held += 333;
    }
    expected->everyone = expected->product + expected->solo;
    pass(nodes, NODES, NOW + 2000);
    money_until(&nodes[0], is_as_expected(expected));
}

/* What was lost with a connection is asked again a moment later. */
static bool is_told_in_time(struct money_node *nodes, const struct expected *expected, tg_ms *now)
{
    pass(nodes, NODES, ++*now);
    return is_as_expected(expected);
}

static void after_a_flush_sums_and_reservations_are_back(void **state)
{
    struct money_node nodes[NODES];
    struct expected expected;
    (void)state;

    open_nodes(nodes, NODES);
    spend_and_hold(nodes, &expected);
    net_redis_do(&server, "FLUSHALL");
    pass(nodes, NODES, NOW + 30 * MINUTE);
    money_until(&nodes[0], is_as_expected(&expected));
    money_until(&nodes[0], money_stats(&nodes[0]).losses > 0);
    close_nodes(nodes, NODES);
}

static void after_a_restart_with_nothing_sums_and_reservations_are_back(void **state)
{
    struct money_node nodes[NODES];
    struct expected expected;
    (void)state;

    open_nodes(nodes, NODES);
    spend_and_hold(nodes, &expected);
    net_redis_kill(&server);
    money_until(&nodes[0], !redis_is_up(nodes[2].kit.redis, NULL));
    net_redis_again(&server);
    tg_ms now = NOW + 30 * MINUTE;
    money_until(&nodes[0], is_told_in_time(nodes, &expected, &now));
    close_nodes(nodes, NODES);
}

/* ---- Random ---- */

static void tell_all(struct money_node *nodes, tg_ms *now)
{
    *now += 30 * MINUTE;
    pass(nodes, NODES, *now);
    for (size_t i = 0; i < NODES; i++)
        money_until(&nodes[0], redis_is_up(nodes[i].kit.redis, NULL) &&
                                   nodes[i].port->lists[MONEY_CLAIM_ENDING].n == 0 &&
                                   money_stats(&nodes[i]).unacked == 0);
}

/* Calls go on while Redis is flushed, killed and restarted empty; what they spent is there at last,
 * and never more. */
static void totals_are_the_sums_of_all_nodes_whatever_happened(void **state)
{
    struct money_node nodes[NODES];
    struct remote_money_ticket *open[OPEN_MAX];
    struct draw draw = draw_stream(seed, 2);
    long long solo = 0;
    size_t n = 0, losses = 0, errors = 0;
    tg_ms now = NOW;
    (void)state;

    open_nodes(nodes, NODES);
    for (int step = 0; step < 600; step++) {
        struct money_node *node = &nodes[draw_between(&draw, 0, NODES - 1)];
        now += 200; /* after a loss nothing is granted for a while */
        if (draw_chance(&draw, 2)) {
            losses++;
            if (draw_chance(&draw, 50)) {
                net_redis_do(&server, "FLUSHALL");
            } else {
                net_redis_kill(&server);
                net_redis_again(&server);
                if (draw_chance(&draw, 70))
                    money_until(node, redis_is_up(node->kit.redis, NULL));
            }
        }
        if (n == OPEN_MAX || (n > 0 && draw_chance(&draw, 45))) {
            tg_micro spent = draw_between(&draw, 0, 60);
            remote_money_settle(open[--n], spent, now);
            solo += spent;
            continue;
        }
        struct spending_call what = money_what(SOLO, NULL, draw_between(&draw, 1, 100));
        struct money_call call = money_must(node, &what, now);
        errors += call.err == TG_ERR_STORE;
        if (call.ticket)
            open[n++] = call.ticket;
        /* Never more than was spent is said to be settled. */
        assert_true(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s") <= solo);
    }
    while (n > 0)
        remote_money_settle(open[--n], 0, now);
    tell_all(nodes, &now);
    /* Those of whom nobody asked anything since may be the last to be missed. */
    pass(nodes, NODES, now + 30 * MINUTE);
    money_until(&nodes[0], money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s") == solo &&
                               money_in_redis(&server, OF_SOLO, TG_PER_DAY, "o") == 0);
    money_until(&nodes[0], money_in_redis(&server, EVERYONE, TG_PER_DAY, "s") == solo);
    print_message("# %lld spent, Redis empty %zu times, %zu calls without an answer\n", solo,
                  losses, errors);
    assert_true(losses > 3 && solo > 0);
    close_nodes(nodes, NODES);
}

/* ---- Ledgers ---- */

static void make_folder(char *folder, size_t bytes)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(folder, bytes - 6, "%.150s/remote-money-", tmp ? tmp : "/tmp");

    memset(folder + n, 'X', 6); /* to be replaced */
    folder[n + 6] = '\0';
    assert_non_null(mkdtemp(folder));
}

static void remove_folder(const char *folder)
{
    static const char *const names[] = {"", ".spend", ".lock", "-wal", "-shm"};
    char path[256];

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/ledger.db%s", folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

static struct ledger *open_ledger(const char *folder)
{
    struct ledger_config config;
    struct tg_problem problem;
    struct ledger *ledger;
    char path[256];

    ledger_config_init(&config);
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    config.path = path;
    config.slots = 64;
    if (!ledger_open(&config, &ledger, &problem))
        fail_msg("%s", problem.text);
    return ledger;
}

static void settle_with_books(struct money_node *node, const struct spending_call *what,
                              tg_micro spent)
{
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    struct spending_use use = {.spent = spent, .user = what->user};

    assert_int_equal(spending_reserve(node->spending, what, NOW, &ticket, &answer), TG_OK);
    assert_true(answer.reservation != 0);
    struct money_call call = money_must(node, what, NOW);
    assert_non_null(call.ticket);
    assert_true(spending_settle(node->spending, &ticket, &use, NOW));
    remote_money_settle(call.ticket, spent, NOW);
    money_until(node, node->port->lists[MONEY_CLAIM_ENDING].n == 0);
}

/* A node restarts, and Redis has lost everything: users and tenants that nobody calls are back. */
static void a_node_that_restarts_tells_what_its_ledger_says(void **state)
{
    char folder[200];
    struct money_node node;
    struct tg_problem problem;
    struct spending_call ann = money_what(TEAM_A, "ann", 500), solo = money_what(SOLO, NULL, 900);
    (void)state;

    make_folder(folder, sizeof folder);
    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    struct ledger *ledger = open_ledger(folder);
    uint64_t id = ledger_id(ledger);
    assert_true(id != 0);
    money_node_open(&node, NULL, &server, money_books(ledger, &world, NOW), "n", id);
    settle_with_books(&node, &ann, 450);
    settle_with_books(&node, &solo, 850);
    money_node_kill(&node);
    net_loop_free(node.kit.loop);
    assert_true(ledger_close(ledger, &problem));

    net_redis_do(&server, "FLUSHALL");
    ledger = open_ledger(folder);
    assert_true(ledger_id(ledger) == id);
    money_node_open(&node, NULL, &server, money_books(ledger, &world, NOW), "m", id);
    assert_true(remote_money_adopt(node.money, NOW, &problem));
    money_until(&node,
                money_in_redis(&server, OF_ANN, TG_PER_DAY, "s") == 450 &&
                    money_in_redis(&server, OF_TEAM_A, TG_PER_TOTAL, "s") == 450 &&
                    money_in_redis(&server, OF_PRODUCT, TG_PER_WEEK, "s") == 450 &&
                    money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s") == 850 &&
                    money_in_redis(&server, EVERYONE, TG_PER_MONTH, "s") == 1300);
    /* The same sums come again with the next call, and count once. */
    settle_with_books(&node, &solo, 50);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 900);
    money_node_kill(&node);
    net_loop_free(node.kit.loop);
    assert_true(ledger_close(ledger, &problem));
    remove_folder(folder);
}

/* A node dies with a call in flight: its reservation in Redis ends by itself, and what was reserved
 * is told as spent by the next process on this ledger, once however many there are. */
static void a_node_that_died_tells_what_it_had_in_flight(void **state)
{
    char folder[200];
    struct money_node node;
    struct tg_problem problem;
    struct spending_call ann = money_what(TEAM_A, "ann", 500);
    const struct spending_use use = {.user = ann.user};
    struct spending_ticket ticket;
    struct tg_money_answer answer;
    (void)state;

    make_folder(folder, sizeof folder);
    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    struct ledger *ledger = open_ledger(folder);
    uint64_t id = ledger_id(ledger);
    money_node_open(&node, NULL, &server, money_books(ledger, &world, NOW), "n", id);
    settle_with_books(&node, &ann, 100);
    assert_int_equal(spending_reserve(node.spending, &ann, NOW, &ticket, &answer), TG_OK);
    struct money_call call = money_must(&node, &ann, NOW);
    assert_non_null(call.ticket);
    spending_send(node.spending, &ticket, &use, NOW);
    assert_int_equal(money_in_redis(&server, OF_ANN, TG_PER_DAY, "o"), 500);
    money_node_kill(&node);
    net_loop_free(node.kit.loop);
    assert_true(ledger_close(ledger, &problem));

    for (int life = 0; life < 3; life++) {
        ledger = open_ledger(folder);
        money_node_open(&node, NULL, &server, money_books(ledger, &world, NOW), "m", id);
        assert_true(remote_money_adopt(node.money, NOW, &problem));
        money_until(&node,
                    money_in_redis(&server, OF_ANN, TG_PER_DAY, "s") == 600 &&
                        money_in_redis(&server, OF_TEAM_A, TG_PER_TOTAL, "s") == 600 &&
                        money_in_redis(&server, EVERYONE, TG_PER_MONTH, "s") == 600);
        money_node_kill(&node);
        net_loop_free(node.kit.loop);
        assert_true(ledger_close(ledger, &problem));
    }
    remove_folder(folder);
}

/* What a ledger has lost, put back from an old copy, Redis still knows; new spend comes on top. */
static void a_ledger_that_forgot_is_reminded_by_redis(void **state)
{
    struct money_node node;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    money_world_init(&world);
    for (int life = 0; life < 3; life++) {
        money_node_open(&node, NULL, &server, money_books(NULL, &world, NOW), "n", 0xa0);
        for (int i = 0; i < 2; i++) {
            struct money_call call = money_reserve(&node, SOLO, 1000);
            remote_money_settle(call.ticket, 1000, NOW);
            money_until(&node, node.port->lists[MONEY_CLAIM_ENDING].n == 0);
        }
        assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_DAY, "s"), 2000 * (life + 1));
        money_node_kill(&node);
        net_loop_free(node.kit.loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_flush_sums_and_reservations_are_back),
        cmocka_unit_test(after_a_restart_with_nothing_sums_and_reservations_are_back),
        cmocka_unit_test(totals_are_the_sums_of_all_nodes_whatever_happened),
        cmocka_unit_test(a_node_that_restarts_tells_what_its_ledger_says),
        cmocka_unit_test(a_node_that_died_tells_what_it_had_in_flight),
        cmocka_unit_test(a_ledger_that_forgot_is_reminded_by_redis),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
