/* test_policy_threads.c - one policy, many threads.
 *
 * Prices that are learned are learned once, and everybody has them from then on; prices that move
 * may be asked and told by any thread. Under TSan this is where their orderings are looked at.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "draw.h"
#include "gate_kit.h"
#include "world_kit.h"

enum { THREADS = 4, CALLS = 8000, WINDOW = 6000 };

static uint64_t seed;

/* Large calls are believed to be worth 200 and are worth 50; a unit is then worth half as much. */
static struct tg_bid_config believed(enum tg_prices prices)
{
    static const struct tg_type types[] = {
        {.cost = 100, .value = 1, .weight = 0.5, .hold_s = TG_NO_HOLD},
        {.cost = 10000, .value = 200, .weight = 0.5, .hold_s = TG_NO_HOLD}};
    struct tg_bid_config config;

    tg_bid_config_init(&config);
    config.prices = prices;
    config.sample_window = WINDOW;
    config.workload.types = types;
    config.workload.n_types = 2;
    config.workload.rate_budget = 1;
    config.workload.cost_budget = 40; /* the small ones alone take 50 */
    return config;
}

/* ---- learned once ---- */

struct learner {
    struct tg_policy *policy;
    pthread_barrier_t *barrier;
    int admitted;      /* small calls */
    bool went_back;    /* one was refused after another was admitted */
    bool odd_prices;   /* neither the prior's nor the learned ones */
    bool large_passed; /* which neither admits */
};

static void *ask_and_read(void *argument)
{
    struct learner *l = argument;
    struct tg_call call;
    struct tg_duals duals;

    tg_call_init(&call);
    pthread_barrier_wait(l->barrier);
    for (int i = 0; i < CALLS; i++) {
        bool large = i % 2 == 0;
        call.debit.cost = large ? 10000 : 100;
        call.value = large ? 50 : 1;
        bool worth = l->policy->worth(l->policy, &call, 0, 0);
        l->large_passed |= large && worth;
        l->went_back |= !large && !worth && l->admitted > 0;
        l->admitted += !large && worth;
        tg_bid_get_duals(l->policy, &duals);
        l->odd_prices |= duals.rate != 0 || (duals.cost != 0.02 && duals.cost != 0.01);
    }
    return NULL;
}

static void learned_prices_come_once_and_for_everybody(void **state)
{
    struct tg_bid_config config = believed(TG_PRICES_ADAPTIVE);
    struct tg_policy *policy = world_bid(&config);
    struct learner learners[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    struct tg_duals duals;
    int admitted = 0;
    (void)state;

    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) {
        learners[t] = (struct learner){.policy = policy, .barrier = &barrier};
        assert_int_equal(pthread_create(&threads[t], NULL, ask_and_read, &learners[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_false(learners[t].went_back);
        assert_false(learners[t].odd_prices);
        assert_false(learners[t].large_passed);
        admitted += learners[t].admitted;
    }
    tg_bid_get_duals(policy, &duals);
    assert_true(duals.cost == 0.01 && duals.rate == 0 && duals.concurrency == 0);
    /* The first WINDOW of all calls were a sample; half of the others are small. */
    print_message("%d of %d small calls were admitted\n", admitted, THREADS * CALLS / 2);
    assert_true(admitted > 0 && admitted <= THREADS * CALLS - WINDOW + 1);
    pthread_barrier_destroy(&barrier);
    tg_bid_free(policy);
}

/* ---- in a gate ---- */

struct caller {
    struct tg_gate *gate;
    atomic_llong *clock;
    const struct tg_scope *scope;
    struct draw draw;
    long admitted, refused;
    bool failed;
};

static void *call_and_end(void *argument)
{
    struct caller *c = argument;

    for (int i = 0; i < CALLS / 2; i++) {
        struct tg_call call;
        struct tg_answer answer;
        tg_ms now = atomic_fetch_add(c->clock, draw_between(&c->draw, 0, 4));
        tg_call_init(&call);
        call.priority = TG_PRIORITY_LOW;
        call.debit = debit_of(c->scope, draw_between(&c->draw, 1, 100));
        call.value = draw_unit(&c->draw) * 10;
        call.hold_s = draw_unit(&c->draw);
        enum tg_err err = tg_gate_admit(c->gate, &call, 0, now, &answer);
        if (err != TG_OK) {
            c->failed = true;
            break;
        }
        c->admitted += answer.decision.allowed;
        c->refused += answer.policy_denied;
        if (answer.decision.allowed && draw_chance(&c->draw, 95))
            c->failed |=
                !finish_settled(c->gate, answer.lease, now + 1, draw_between(&c->draw, -1, 100));
        if (draw_chance(&c->draw, 5))
            tg_gate_tick(c->gate, now);
    }
    return NULL;
}

static void in_a_gate_every_kind_may_be_asked_by_all(enum tg_prices prices)
{
    struct gate_log log = {.n_woken = 0};
    struct tg_bid_config bid = believed(prices);
    struct tg_gate_config config = gate_config_slots(&log, 1000);
    struct tg_store *store = must_store((size_t)1 << 20, 4);
    struct tg_scope scope = scope_of(
        must_define_one(store, TG_AXIS_COST, "token_bucket:capacity=100000000,refill=1"), "t");
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    atomic_llong clock = 1000;
    long admitted = 0, refused = 0;

    bid.duals = (struct tg_duals){1, 0.05, 1};
    bid.online.window = 5000;
    bid.online.cost_budget = 50000;
    bid.online.conc_budget_s = 1000;
    config.policy = world_bid(&bid);
    config.concurrency.low_ratio = 1;
    config.store = store;
    config.lease_ttl = 100000;
    struct tg_gate *gate = must_gate(&config);
    for (int t = 0; t < THREADS; t++) {
        callers[t] = (struct caller){.gate = gate, .clock = &clock, .scope = &scope};
        callers[t].draw = draw_stream(seed, (uint64_t)t);
        assert_int_equal(pthread_create(&threads[t], NULL, call_and_end, &callers[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        assert_false(callers[t].failed);
        admitted += callers[t].admitted;
        refused += callers[t].refused;
    }
    print_message("%s: %ld admitted, %ld refused\n", tg_prices_name(prices), admitted, refused);
    assert_true(admitted > 100 && refused > 100);
    assert_int_equal(stats_of_gate(gate).admitted, admitted);
    tg_gate_tick(gate, 10000000);
    expect_idle(gate);
    tg_gate_free(gate);
    tg_bid_free(config.policy);
    tg_store_free(store);
}

static void given_prices(void **state)
{
    (void)state;
    in_a_gate_every_kind_may_be_asked_by_all(TG_PRICES_DUALS);
}

static void learned_prices(void **state)
{
    (void)state;
    in_a_gate_every_kind_may_be_asked_by_all(TG_PRICES_ADAPTIVE);
}

static void moving_prices(void **state)
{
    (void)state;
    in_a_gate_every_kind_may_be_asked_by_all(TG_PRICES_ONLINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learned_prices_come_once_and_for_everybody),
        cmocka_unit_test(given_prices),
        cmocka_unit_test(learned_prices),
        cmocka_unit_test(moving_prices),
    };
    seed = draw_seed("policy_threads");
    return cmocka_run_group_tests_name("policy_threads", tests, NULL, NULL);
}
