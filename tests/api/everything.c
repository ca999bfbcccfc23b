/* everything.c - every struct of the interface that can grow, initialized, passed in and filled in.
 *
 * Bytes behind each struct are watched: nobody but this program may write there. Built by
 * tests/api/grown.sh for one header, and run with the library of another. Exits 0 if all is right.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tollgate.h>

#define NOW 1000000
#define GUARDED(type)                                                                              \
    struct {                                                                                       \
        struct type own;                                                                           \
        unsigned char behind[64];                                                                  \
    }
#define GUARD(x) memset((x).behind, 0xa5, sizeof(x).behind)

static int failures;

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition)

static void intact(const unsigned char *behind, const char *what)
{
    for (size_t i = 0; i < 64; i++)
        if (behind[i] != 0xa5) {
            expect(false, what);
            return;
        }
}

#define INTACT(x) intact((x).behind, "nothing is written behind " #x)

static void through_a_gate(void)
{
    GUARDED(tg_store_config) store_config;
    GUARDED(tg_gate_config) config;
    GUARDED(tg_call) call;
    GUARDED(tg_release) release;
    GUARDED(tg_answer) answer;
    GUARDED(tg_gate_stats) stats;
    GUARDED(tg_law_metrics) law;
    GUARDED(tg_store_stats) store_stats;
    struct {
        struct tg_limit_metrics own[2];
        unsigned char behind[64];
    } limits;
    struct tg_limit both[2] = {{.axis = TG_AXIS_RATE}, {.axis = TG_AXIS_COST}};
    struct tg_limiter_config limiter;
    struct tg_store *store;
    struct tg_gate *gate;
    tg_limits set;

    GUARD(store_config), GUARD(config), GUARD(call), GUARD(release), GUARD(answer), GUARD(stats);
    GUARD(law), GUARD(store_stats), GUARD(limits);
    tg_store_config_init(&store_config.own);
    tg_gate_config_init(&config.own);
    tg_call_init(&call.own);
    tg_release_init(&release.own);
    EXPECT(store_config.own.memory_bytes == (size_t)64 << 20);
    EXPECT(config.own.lease_ttl == 600000 && config.own.max_learned == 65536);
    if (tg_store_new(&store_config.own, &store, NULL) ||
        tg_limiter_config_parse(&limiter, "gcra:limit=10,period=1000", NULL) ||
        tg_limiter_init(&both[0].limiter, &limiter, NULL) ||
        tg_limiter_config_parse(&limiter, "token_bucket:capacity=1000,refill=1", NULL) ||
        tg_limiter_init(&both[1].limiter, &limiter, NULL) ||
        tg_store_define(store, both, 2, &set, NULL)) {
        failures++;
        return;
    }
    config.own.store = store;
    config.own.concurrency.on = true;
    config.own.concurrency.queue_size = 0;
    tg_law_config_choose(&config.own.concurrency.law, TG_LAW_FIXED);
    config.own.concurrency.law.min = config.own.concurrency.law.initial = 5;
    if (tg_gate_new(&config.own, &gate, NULL)) {
        failures++;
        return;
    }
    struct tg_scope scope = {.limits = set, .key = "a", .key_bytes = 1};
    call.own.debit.scopes = &scope;
    call.own.debit.n_scopes = 1;
    call.own.debit.cost = 100;
    EXPECT(tg_gate_admit(gate, &call.own, 0, NOW, &answer.own) == TG_OK);
    EXPECT(answer.own.decision.allowed && answer.own.decision.remaining == 4);
    EXPECT(tg_store_peek_scope(store, &call.own.debit, 0, NOW, limits.own) == 2);
    EXPECT(limits.own[0].axis == TG_AXIS_RATE && limits.own[0].decision.remaining == 9);
    EXPECT(limits.own[1].axis == TG_AXIS_COST && limits.own[1].decision.remaining == 900);
    release.own.actual = 40;
    EXPECT(tg_gate_release(gate, answer.own.lease, NOW, &release.own));
    EXPECT(tg_store_peek_scope(store, &call.own.debit, 0, NOW, limits.own) == 2);
    EXPECT(limits.own[1].decision.remaining == 960);
    config.own.concurrency.law.initial = 7;
    EXPECT(tg_gate_reconfigure(gate, &config.own, NOW, NULL) == TG_OK);
    tg_gate_get_stats(gate, &stats.own);
    EXPECT(stats.own.limit == 7 && stats.own.admitted == 1 && stats.own.slot_ms >= 0);
    tg_gate_get_law(gate, &law.own);
    EXPECT(law.own.law == TG_LAW_FIXED && law.own.limit == 7 && law.own.baseline_ms <= 0);
    tg_store_get_stats(store, &store_stats.own);
    EXPECT(store_stats.own.keys == 1 && store_stats.own.refused == 0);
    INTACT(store_config), INTACT(config), INTACT(call), INTACT(release), INTACT(answer);
    INTACT(stats), INTACT(law), INTACT(store_stats), INTACT(limits);
    tg_gate_free(gate);
    tg_store_free(store);
}

static void through_a_ring(void)
{
    GUARDED(tg_keyring_spec) spec;
    GUARDED(tg_key_call) call;
    GUARDED(tg_key_report) report;
    GUARDED(tg_key_answer) answer;
    GUARDED(tg_pool_metrics) metrics;
    struct {
        struct tg_pool_spec own[3]; /* the library has to find the second and the third */
        unsigned char behind[64];
    } pools;
    struct {
        struct tg_key_metrics own[2];
        unsigned char behind[64];
    } seen;
    struct tg_key_spec keys[2] = {{.name = "one", .limits = {.rpm = 2}},
                                  {.name = "two", .limits = {.rpm = 2}}};
    static const char *const models[3] = {"a", "b", "c"};
    struct tg_keyring *ring;

    GUARD(spec), GUARD(call), GUARD(report), GUARD(answer), GUARD(metrics), GUARD(pools);
    GUARD(seen);
    tg_keyring_spec_init(&spec.own);
    tg_key_call_init(&call.own);
    tg_key_report_init(&report.own);
    EXPECT(spec.own.cooldown_max == 3600000 && report.own.sent && report.own.tokens == -1);
    for (int i = 0; i < 3; i++) {
        tg_pool_spec_init(&pools.own[i]);
        EXPECT(pools.own[i].breaker_open == 30000 && pools.own[i].affinity_ttl == 600000);
        pools.own[i].provider = "p";
        pools.own[i].model = models[i];
        pools.own[i].keys = keys;
        pools.own[i].n_keys = 2;
    }
    spec.own.pools = pools.own;
    spec.own.n_pools = 3;
    if (tg_keyring_new(&spec.own, &ring, NULL)) {
        failures++;
        return;
    }
    for (int i = 0; i < 3; i++) {
        struct tg_pool *pool = tg_keyring_pool(ring, "p", models[i]);
        int leased = 0;
        for (int k = 0; k < 6; k++) {
            tg_pool_acquire(pool, &call.own, NOW, &answer.own);
            leased += answer.own.lease != 0;
            if (answer.own.lease)
                EXPECT(tg_keyring_release(ring, answer.own.lease, NOW, &report.own));
        }
        EXPECT(leased == 4);
        EXPECT(tg_pool_get_keys(pool, NOW, 0, seen.own, 2) == 2);
        EXPECT(seen.own[0].rpm_limit == 2 && seen.own[1].rpm_limit == 2);
        EXPECT(seen.own[0].rpm_remaining == 0 && seen.own[1].rpm_remaining == 0);
        tg_pool_get_metrics(pool, &metrics.own);
        EXPECT(metrics.own.acquired == 4 && metrics.own.no_key == 2 && metrics.own.n_keys == 2);
    }
    INTACT(spec), INTACT(call), INTACT(report), INTACT(answer), INTACT(metrics), INTACT(pools);
    INTACT(seen);
    tg_keyring_free(ring);
}

static void through_a_bank(void)
{
    GUARDED(tg_bank_config) config;
    GUARDED(tg_bank_stats) stats;
    GUARDED(tg_money_answer) answer;
    GUARDED(tg_price) price;
    struct {
        struct tg_budget_metrics own[2];
        unsigned char behind[64];
    } seen;
    const struct tg_budget budgets[2] = {{.amount = 1000, .per = TG_PER_DAY},
                                         {.amount = 5000, .per = TG_PER_TOTAL}};
    struct tg_usage usage = {.input = 500000, .cached_input = 500000};
    struct tg_bank *bank;
    tg_account account;

    GUARD(config), GUARD(stats), GUARD(answer), GUARD(price), GUARD(seen);
    tg_bank_config_init(&config.own);
    tg_price_init(&price.own);
    EXPECT(config.own.max_accounts == 1048576 && price.own.image_output == -1);
    price.own.input = 2000;
    EXPECT(tg_price_of(&price.own, &usage) == 2000);
    price.own.cached_input = 0;
    EXPECT(tg_price_of(&price.own, &usage) == 1000);
    if (tg_bank_new(&config.own, &bank, NULL) ||
        tg_bank_open(bank, 0, "a", 1, budgets, 2, NOW, &account, NULL, NULL)) {
        failures++;
        return;
    }
    EXPECT(tg_bank_reserve(bank, account, 400, false, NOW, &answer.own) == TG_OK);
    EXPECT(answer.own.reservation != 0 && answer.own.reserved == 400);
    EXPECT(tg_bank_get_budgets(bank, account, NOW, seen.own) == 2);
    EXPECT(seen.own[0].amount == 1000 && seen.own[0].outstanding == 400);
    EXPECT(seen.own[1].amount == 5000 && seen.own[1].per == TG_PER_TOTAL);
    tg_bank_get_stats(bank, &stats.own);
    EXPECT(stats.own.accounts == 1 && stats.own.reservations == 1 && stats.own.anomalies == 0);
    INTACT(config), INTACT(stats), INTACT(answer), INTACT(price), INTACT(seen);
    tg_bank_free(bank);
}

static void through_a_policy(void)
{
    GUARDED(tg_bid_config) config;
    GUARDED(tg_bid_guard) guard;
    struct tg_policy *policy;

    GUARD(config), GUARD(guard);
    tg_bid_config_init(&config.own);
    EXPECT(config.own.sample_window == 500 && config.own.online.guard);
    config.own.prices = TG_PRICES_ONLINE;
    config.own.online.rate_budget = 10;
    if (tg_bid_new(&config.own, &policy, NULL)) {
        failures++;
        return;
    }
    tg_bid_get_guard(policy, &guard.own);
    EXPECT(guard.own.on && guard.own.factor > 0.99 && guard.own.factor < 1.01);
    INTACT(config), INTACT(guard);
    tg_bid_free(policy);
}

int main(void)
{
    through_a_gate();
    through_a_ring();
    through_a_bank();
    through_a_policy();
    return failures != 0;
}
