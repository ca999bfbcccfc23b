/* test_remote_money_threads.c - the loops of a node share its sums and its blocks: whatever they do
 * at once, nothing is spent beyond an amount, and Redis is told every micro-dollar once. Runs under
 * TSan too.
 */
#include "crew.h"
#include "draw.h"
#include "remote_money_kit.h"

#include "redis_group.h"

enum { THREADS = 4,
       CALLS = 400,
       OPEN_MAX = 6,
       NODES = 2 };

static uint64_t seed;

static int start(void **state)
{
    seed = draw_seed("test_remote_money_threads");
    return start_redis(state);
}

/* One loop of a node, in a thread of its own. */
struct worker {
    struct money_node node;
    struct market *market;
    struct remote_money_ticket *open[OPEN_MAX];
    tg_micro reserved[OPEN_MAX];
    size_t n;
    bool decided;
};

struct market {
    struct spending *spending[NODES];
    struct remote_money *money[NODES];
    struct worker workers[THREADS];
    tg_ms now;
    _Atomic int64_t used, solo, team; /* used: settled and reserved of everyone's */
    _Atomic int64_t admitted, refused, wrong, done;
    tg_micro amount;
    bool blocks;
};

static void was_decided(void *context, enum tg_err err, const struct tg_money_answer *answer,
                        struct remote_money_ticket *ticket)
{
    struct worker *worker = context;

    worker->decided = true;
    if (err != TG_OK)
        atomic_fetch_add(&worker->market->wrong, 1);
    if (ticket) {
        worker->open[worker->n] = ticket;
        worker->reserved[worker->n++] = answer->reserved;
        if (atomic_fetch_add(&worker->market->used, answer->reserved) + answer->reserved >
            worker->market->amount)
            atomic_fetch_add(&worker->market->wrong, 1);
    }
    atomic_fetch_add(ticket ? &worker->market->admitted : &worker->market->refused, 1);
}

static void settle_one(struct worker *worker, tg_micro spent)
{
    struct market *market = worker->market;
    struct remote_money_ticket *ticket = worker->open[--worker->n];
    tg_micro reserved = worker->reserved[worker->n];
    bool solo = ticket->n_windows == 2; /* everyone's, and its own */

    spent = num_min(spent, reserved);
    /* Before it is given back, for another thread may take it at once. */
    atomic_fetch_sub(&market->used, reserved - spent);
    atomic_fetch_add(solo ? &market->solo : &market->team, spent);
    remote_money_settle(ticket, spent, market->now);
}

static void work(void *context, size_t i, size_t round)
{
    struct market *market = context;
    struct worker *worker = &market->workers[i];
    struct draw draw = draw_stream(seed, i);
    (void)round;

    for (int call = 0; call < CALLS; call++) {
        struct spending_call what = money_what(draw_chance(&draw, 50) ? SOLO : TEAM_B, NULL,
                                               draw_between(&draw, 1, 1000));
        if (worker->n == OPEN_MAX || (worker->n > 0 && draw_chance(&draw, 40)))
            settle_one(worker, draw_between(&draw, 0, 1000));
        worker->decided = false;
        struct remote_money_ask *ask =
            remote_money_reserve(worker->node.port, &what, market->blocks, market->now,
                                 was_decided, worker);
        if (draw_chance(&draw, 5)) {
            remote_money_cancel(ask);
            continue;
        }
        while (!worker->decided)
            net_loop_turn(worker->node.kit.loop, true);
    }
    while (worker->n > 0)
        settle_one(worker, draw_between(&draw, 0, 1000));
    while (worker->node.port->lists[MONEY_CLAIM_ENDING].n +
               worker->node.port->lists[MONEY_CLAIM_ORPHAN].n >
           0)
        net_loop_turn(worker->node.kit.loop, true);
    /* Loops of a node live as long as it does: others may wait for what this one has asked. */
    atomic_fetch_add(&market->done, 1);
    while (atomic_load(&market->done) < THREADS || worker->node.port->asks > 0)
        net_loop_turn(worker->node.kit.loop, true);
}

static void open_market(struct market *market, struct money_world *world, bool blocks)
{
    struct clock clock;

    net_redis_do(&server, "FLUSHALL");
    memset(market, 0, sizeof *market);
    market->blocks = blocks;
    clock_init(&clock);
    market->now = clock_now_ms(&clock);
    market->amount = 250000;
    money_world_init(world);
    world->everyone[0] = budget_of(market->amount, TG_PER_TOTAL);
    world->tree.n_budgets = 1;
    world->solo[0] = budget_of(180000, TG_PER_TOTAL);
    world->team_b[0] = budget_of(190000, TG_PER_TOTAL);
    world->product[0] = budget_of(1000000, TG_PER_TOTAL);
    world->tenants[PRODUCT].n_budgets = 1;
    world->team_a[0] = budget_of(1, TG_PER_TOTAL);
    for (size_t i = 0; i < NODES; i++) {
        struct remote_money_options options;
        struct tg_problem problem;
        market->spending[i] = money_books(NULL, world, market->now);
        money_options(&options, i == 0 ? "n0" : "n1", 0xa0 + i);
        options.callers_clock = false;
        assert_int_equal(
            remote_money_new(&options, market->spending[i], &market->money[i], &problem), TG_OK);
    }
    for (size_t i = 0; i < THREADS; i++) {
        struct worker *worker = &market->workers[i];
        worker->market = market;
        remote_kit_open(&worker->node.kit, NULL, &server);
        worker->node.money = market->money[i % NODES];
        assert_int_equal(remote_money_port_new(worker->node.money, worker->node.kit.loop,
                                               worker->node.kit.redis, &worker->node.port),
                         TG_OK);
    }
}

static void close_market(struct market *market)
{
    for (size_t i = 0; i < THREADS; i++) {
        remote_kit_cut(&market->workers[i].node.kit);
        remote_money_port_free(market->workers[i].node.port);
        net_loop_free(market->workers[i].node.kit.loop);
    }
    for (size_t i = 0; i < NODES; i++) {
        remote_money_free(market->money[i]);
        spending_free(market->spending[i]);
    }
}

static long long total(const char *account)
{
    return money_in_redis(&server, account, TG_PER_TOTAL, "s");
}

static void play(bool blocks)
{
    struct market market;
    struct money_world world;

    open_market(&market, &world, blocks);
    crew_run(THREADS, 1, work, &market);
    assert_int_equal(market.wrong, 0);
    assert_true(market.solo + market.team <= market.amount);
    assert_true(market.solo <= 180000 && market.team <= 190000);
    print_message("# %lld admitted, %lld refused, %lld of %lld spent\n", (long long)market.admitted,
                  (long long)market.refused, (long long)(market.solo + market.team),
                  (long long)market.amount);
    assert_true(market.admitted > THREADS * CALLS / 8);
    for (size_t i = 0; i < NODES; i++)
        money_until(&market.workers[i].node, money_stats(&market.workers[i].node).unacked == 0);
    assert_int_equal(total(OF_SOLO), market.solo);
    assert_int_equal(total(OF_TEAM_B), market.team);
    assert_int_equal(total(EVERYONE), market.solo + market.team);
    /* Nobody calls any more: all that is left is anybody's. */
    for (size_t i = 0; i < NODES; i++)
        remote_money_leave(market.money[i]);
    for (size_t i = 0; i < NODES; i++)
        money_until(&market.workers[i].node, money_stats(&market.workers[i].node).untold == 0);
    assert_int_equal(money_in_redis(&server, EVERYONE, TG_PER_TOTAL, "b"), 0);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_TOTAL, "b"), 0);
    assert_int_equal(money_in_redis(&server, OF_SOLO, TG_PER_TOTAL, "o"), 0);
    close_market(&market);
}

static void loops_of_two_nodes_spend_no_more_than_there_is(void **state)
{
    (void)state;
    play(false);
}

static void so_they_do_with_blocks_of_all_budgets(void **state)
{
    (void)state;
    play(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_of_two_nodes_spend_no_more_than_there_is),
        cmocka_unit_test(so_they_do_with_blocks_of_all_budgets),
    };

    return cmocka_run_group_tests(tests, start, stop_redis);
}
