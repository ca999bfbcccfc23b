/* test_config_reader.c - what `gate` and `tenants` say, in structs: defaults, values, parents. */
#include "config_kit.h"

#include <stdio.h>
#include <stdlib.h>

static void an_absent_stage_is_off_and_has_its_defaults(void **state)
{
    struct read read;
    const struct config_gate *gate = &read.config.gate;

    (void)state;
    must_read(&read, "version: 1\n");
    assert_int_equal(read.config.version, 1);
    assert_int_equal(gate->charging, CONFIG_ATOMIC);
    assert_int_equal(gate->lease_ttl, 600000);
    assert_false(gate->concurrency.present || gate->peers.present || gate->memory.present ||
                 gate->rate.present || gate->cost.present);
    assert_int_equal(gate->peers.limit, 64);
    assert_int_equal(gate->concurrency.queue.size, 1024);
    assert_int_equal(read.config.n_tenants, 0);
    assert_null(config_tenant(&read.config, "a", 1));
    done(&read);
}

static void a_present_stage_takes_its_defaults(void **state)
{
    struct read read;
    const struct config_gate *gate = &read.config.gate;
    struct tg_law_config law;

    (void)state;
    must_read(&read, "gate: {concurrency: {}, peers: {}, memory: {}}\n");
    assert_true(gate->concurrency.present && gate->peers.present && gate->memory.present);
    assert_int_equal(gate->concurrency.queue.size, 1024);
    for (int i = 0; i < CONFIG_PRIORITIES; i++)
        assert_int_equal(gate->concurrency.queue.wait[i], CONFIG_WAIT_ABSENT);
    assert_true(equal(gate->concurrency.queue.shares[0], 0.2));
    assert_true(equal(gate->concurrency.queue.shares[1], 0.05));
    assert_true(equal(gate->concurrency.low_priority_shed_ratio, 0.5));
    assert_int_equal(gate->concurrency.mode, CONFIG_ENFORCE);
    assert_int_equal(gate->peers.limit, 64);
    assert_int_equal(gate->peers.max_peers, 65536);
    assert_true(equal(gate->memory.pressure, 0.85) && equal(gate->memory.critical, 0.95) &&
                equal(gate->memory.limit, 0.98));
    assert_int_equal(gate->memory.poll, 500);

    /* The table's defaults are the library's, but for the law: over all calls together none learns
     * unless it is told to. */
    tg_law_config_init(&law);
    assert_int_equal(gate->concurrency.law.law, TG_LAW_NONE);
    assert_int_equal(gate->concurrency.law.initial, law.initial);
    assert_int_equal(gate->concurrency.law.min, law.min);
    assert_int_equal(gate->concurrency.law.max, law.max);
    assert_int_equal(gate->concurrency.law.window, law.window);
    assert_true(equal(gate->concurrency.law.vegas.alpha, law.vegas.alpha) &&
                equal(gate->concurrency.law.vegas.beta, law.vegas.beta) &&
                equal(gate->concurrency.law.vegas.min_utilisation, law.vegas.min_utilisation));
    assert_true(equal(gate->concurrency.law.gradient2.tolerance, law.gradient2.tolerance) &&
                equal(gate->concurrency.law.gradient2.smoothing, law.gradient2.smoothing));
    assert_int_equal(gate->concurrency.law.gradient2.rtt_window, law.gradient2.rtt_window);
    assert_true(equal(gate->concurrency.law.aimd.tolerance, law.aimd.tolerance) &&
                equal(gate->concurrency.law.aimd.backoff, law.aimd.backoff));
    assert_int_equal(gate->concurrency.law.aimd.rtt_window, law.aimd.rtt_window);
    done(&read);
}

static void every_key_of_the_gate_arrives(void **state)
{
    struct read read;
    const struct config_gate *gate = &read.config.gate;

    (void)state;
    must_read(&read,
              "gate:\n"
              "  charging: per-axis\n"
              "  lease_ttl: 5s\n"
              "  concurrency: {law: aimd, initial: 20, min: 2, max: 30, window: 2s, mode: shadow,\n"
              "    vegas: {alpha: 1, beta: 3, min_utilisation: 0},\n"
              "    gradient2: {tolerance: 1.5, smoothing: 1, rtt_window: 7},\n"
              "    aimd: {tolerance: 3, backoff: 0.5, rtt_window: 9}}\n"
              "  queue: {size: 0, wait: {high: 1s, normal: 2ms, low: 3ms},\n"
              "    shares: {normal: 0, low: 1}}\n"
              "  low_priority_shed_ratio: 1\n"
              "  peers: {limit: 3, max_peers: 10, mode: shadow}\n"
              "  memory: {pressure: 0.1, critical: 0.2, limit: 0.3, poll: 1s, mode: shadow}\n"
              "  rate: {strategy: gcra, limit: 60, period: 60s, burst: 120, mode: shadow}\n"
              "  cost: {strategy: token_bucket, capacity: 100, refill: 0.5}\n");
    assert_int_equal(gate->charging, CONFIG_PER_AXIS);
    assert_int_equal(gate->lease_ttl, 5000);
    assert_int_equal(gate->concurrency.law.law, TG_LAW_AIMD);
    assert_int_equal(gate->concurrency.law.initial, 20);
    assert_int_equal(gate->concurrency.law.min, 2);
    assert_int_equal(gate->concurrency.law.max, 30);
    assert_int_equal(gate->concurrency.law.window, 2000);
    assert_int_equal(gate->concurrency.mode, CONFIG_SHADOW);
    assert_true(equal(gate->concurrency.law.vegas.alpha, 1) &&
                equal(gate->concurrency.law.vegas.beta, 3) &&
                equal(gate->concurrency.law.vegas.min_utilisation, 0));
    assert_true(equal(gate->concurrency.law.gradient2.tolerance, 1.5) &&
                equal(gate->concurrency.law.gradient2.smoothing, 1) &&
                gate->concurrency.law.gradient2.rtt_window == 7);
    assert_true(equal(gate->concurrency.law.aimd.tolerance, 3) &&
                equal(gate->concurrency.law.aimd.backoff, 0.5) &&
                gate->concurrency.law.aimd.rtt_window == 9);
    assert_int_equal(gate->concurrency.queue.size, 0);
    assert_int_equal(gate->concurrency.queue.wait[CONFIG_HIGH], 1000);
    assert_int_equal(gate->concurrency.queue.wait[CONFIG_NORMAL], 2);
    assert_int_equal(gate->concurrency.queue.wait[CONFIG_LOW], 3);
    assert_true(equal(gate->concurrency.queue.shares[0], 0) &&
                equal(gate->concurrency.queue.shares[1], 1));
    assert_true(equal(gate->concurrency.low_priority_shed_ratio, 1));
    assert_int_equal(gate->peers.limit, 3);
    assert_int_equal(gate->peers.max_peers, 10);
    assert_int_equal(gate->peers.mode, CONFIG_SHADOW);
    assert_true(equal(gate->memory.pressure, 0.1) && equal(gate->memory.critical, 0.2) &&
                equal(gate->memory.limit, 0.3));
    assert_int_equal(gate->memory.poll, 1000);
    assert_int_equal(gate->memory.mode, CONFIG_SHADOW);
    assert_true(gate->rate.present && gate->rate.mode == CONFIG_SHADOW);
    assert_int_equal(gate->rate.axis, TG_AXIS_RATE);
    assert_int_equal(gate->rate.limiter.strategy, TG_GCRA);
    assert_int_equal(gate->rate.limiter.limit, 60);
    assert_int_equal(gate->rate.limiter.period, 60000);
    assert_int_equal(gate->rate.limiter.burst, 120);
    assert_true(gate->cost.present && gate->cost.mode == CONFIG_ENFORCE);
    assert_int_equal(gate->cost.axis, TG_AXIS_COST);
    assert_int_equal(gate->cost.limiter.limit, 100);
    assert_true(equal(gate->cost.limiter.refill, 0.5));
    done(&read);
}

static const char priced[] =
    "gate:\n"
    "  concurrency: {}\n"
    "  rate: {strategy: gcra, limit: 9, period: 1s}\n"
    "  cost: {strategy: token_bucket, capacity: 9, refill: 1}\n"
    "  policy:\n"
    "    kind: bid-price\n"
    "    mode: shadow\n"
    "    prices: online\n"
    "    duals: {rate: 1, cost: 0.5, concurrency: 0.25}\n"
    "    workload:\n"
    "      arrivals: 2000\n"
    "      types: [{cost: 7, value: 8, weight: 0.9, hold: 1500ms}, {hold: 0s}]\n"
    "      rate_budget: 100.5\n"
    "      cost_budget: 3000\n"
    "      conc_budget: 20000s\n"
    "    adaptive: {sample_window: 77}\n"
    "    online: {window: 5s, rate_budget: 2, cost_budget: 0.5, conc_budget: 250ms, replenish: "
    "steady, guard: false}\n";

/* gate.cost holds for each tenant at the top that has no limit of its own. */
static void budgets_that_are_not_given_are_those_of_the_limits(void **state)
{
    static const struct {
        const char *text;
        tg_ms window;
        double rate, cost;
        bool steady;
    } rows[] = {
        {"gate: {cost: {strategy: token_bucket, capacity: 20000, refill: 2000},\n"
         "       policy: {kind: bid-price, prices: online}}\n",
         10000, 0, 20000, true},
        {"gate: {cost: {strategy: fixed_window, limit: 600, window: 60s},\n"
         "       rate: {strategy: gcra, limit: 10, period: 1s},\n"
         "       policy: {kind: bid-price, prices: online}}\n"
         "tenants: [{name: a}, {name: b}, {name: c, parent: a},\n"
         "          {name: d, cost: {strategy: fixed_window, limit: 60, window: 1s}}]\n",
         60000, 1800, 4800, false},
        {"gate: {cost: {strategy: fixed_window, limit: 600, window: 60s},\n"
         "       policy: {kind: bid-price, prices: online, online: {window: 30s}}}\n"
         "tenants: [{name: a, limits: [{tpm: 60}, {tpm: 6, models: [m]}]}]\n",
         30000, 0, 30, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct read read;
        const struct tg_bid_config *bid = &read.config.gate.policy.bid;
        must_read(&read, rows[i].text);
        assert_int_equal(bid->online.window, rows[i].window);
        assert_true(equal(bid->online.rate_budget, rows[i].rate));
        assert_true(equal(bid->online.cost_budget, rows[i].cost));
        assert_int_equal(bid->online.steady, rows[i].steady);
        assert_true(bid->online.guard);
        done(&read);
    }
}

static void a_policy_arrives_as_the_library_wants_it(void **state)
{
    struct read read;
    const struct config_policy *policy = &read.config.gate.policy;
    const struct tg_bid_config *bid = &policy->bid;
    const struct tg_workload *workload = &bid->workload;

    (void)state;
    must_read(&read, priced);
    assert_int_equal(policy->kind, CONFIG_BID_PRICE);
    assert_int_equal(policy->mode, CONFIG_SHADOW);
    assert_int_equal(bid->prices, TG_PRICES_ONLINE);
    assert_true(equal(bid->duals.rate, 1) && equal(bid->duals.cost, 0.5));
    assert_true(equal(bid->duals.concurrency, 0.25));
    assert_int_equal(workload->n_types, 2);
    assert_true(equal(workload->types[0].cost, 7) && equal(workload->types[0].value, 8));
    assert_true(equal(workload->types[0].weight, 0.9) && equal(workload->types[0].hold_s, 1.5));
    assert_true(equal(workload->types[1].cost, 1) && equal(workload->types[1].value, 1));
    assert_true(equal(workload->types[1].weight, 1) && equal(workload->types[1].hold_s, 0));
    assert_true(equal(workload->arrivals, 2000) && equal(workload->rate_budget, 100.5));
    assert_true(equal(workload->cost_budget, 3000) && equal(workload->conc_budget_s, 20000));
    assert_int_equal(bid->sample_window, 77);
    assert_int_equal(bid->online.window, 5000);
    assert_true(equal(bid->online.rate_budget, 2) && equal(bid->online.cost_budget, 0.5));
    assert_true(equal(bid->online.conc_budget_s, 0.25) && bid->online.steady);
    assert_false(bid->online.guard);
    done(&read);
}

/* Without conc_budget a type has no hold, and `duals` leaves the workload alone. */
static void a_policy_takes_its_defaults(void **state)
{
    struct read read;
    const struct config_policy *policy = &read.config.gate.policy;
    const struct tg_bid_config *bid = &policy->bid;

    (void)state;
    must_read(&read, "gate: {policy: {}}");
    assert_int_equal(policy->kind, CONFIG_NO_POLICY);
    done(&read);
    must_read(&read, "gate: {cost: {strategy: token_bucket, capacity: 9, refill: 1}, policy: "
                     "{kind: bid-price, workload: {types: [{}], rate_budget: 9, cost_budget: "
                     "0.5}}}");
    assert_int_equal(policy->mode, CONFIG_ENFORCE);
    assert_int_equal(bid->prices, TG_PRICES_WORKLOAD);
    assert_true(equal(bid->workload.types[0].hold_s, TG_NO_HOLD));
    assert_true(equal(bid->workload.arrivals, 0) && equal(bid->workload.conc_budget_s, 0));
    assert_int_equal(bid->sample_window, 500);
    assert_int_equal(bid->online.window, 60000);
    assert_false(bid->online.steady);
    done(&read);
    must_read(&read, "gate: {cost: {strategy: token_bucket, capacity: 9, refill: 1}, policy: "
                     "{kind: bid-price, prices: duals, duals: {cost: 1}, workload: {types: "
                     "[{hold: 3s}]}}}");
    assert_int_equal(bid->workload.n_types, 0);
    done(&read);
}

static void every_strategy_is_read(void **state)
{
    static const struct {
        const char *yaml;
        struct tg_limiter_config want;
    } rows[] = {
        {"{strategy: gcra, limit: 10, period: 1s}", {TG_GCRA, 10, 1000, 0, 0, 0}},
        {"{strategy: token_bucket, capacity: 10, refill: 5}", {TG_TOKEN_BUCKET, 10, 0, 0, 0, 5}},
        {"{strategy: fixed_window, limit: 5, window: 1m}", {TG_FIXED_WINDOW, 5, 60000, 0, 0, 0}},
        {"{strategy: sliding_window, limit: 5, window: 1m, buckets: 6}",
         {TG_SLIDING_WINDOW, 5, 60000, 0, 6, 0}},
        {"{strategy: sliding_log, limit: 5, window: 10ms}", {TG_SLIDING_LOG, 5, 10, 0, 0, 0}},
        {"{strategy: token_budget, budget: 100, window: 1d}",
         {TG_TOKEN_BUDGET, 100, 86400000, 0, 0, 0}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char text[200];
        snprintf(text, sizeof text, "gate: {cost: %s}\n", rows[i].yaml);
        must_read(&read, text);
        const struct tg_limiter_config *got = &read.config.gate.cost.limiter;
        assert_int_equal(got->strategy, rows[i].want.strategy);
        assert_int_equal(got->limit, rows[i].want.limit);
        assert_int_equal(got->period, rows[i].want.period);
        assert_int_equal(got->burst, rows[i].want.burst);
        assert_int_equal(got->buckets, rows[i].want.buckets);
        assert_true(equal(got->refill, rows[i].want.refill));
        done(&read);
    }
}

static void bounds_that_are_left_out_make_room(void **state)
{
    static const struct {
        const char *yaml;
        int64_t initial, min, max;
    } rows[] = {
        {"{}", 128, 8, 1024},
        {"{law: fixed, initial: 1}", 1, 1, 1024},
        {"{law: none, max: 4}", 4, 4, 4},
        {"{initial: 5000}", 5000, 8, 5000},
        {"{min: 2000}", 2000, 2000, 2000},
        {"{min: 200}", 200, 200, 1024},
        {"{max: 64}", 64, 8, 64},
        {"{initial: 2, max: 4}", 2, 2, 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char text[200];
        snprintf(text, sizeof text, "gate: {concurrency: %s}\n", rows[i].yaml);
        must_read(&read, text);
        const struct tg_law_config *law = &read.config.gate.concurrency.law;
        assert_int_equal(law->initial, rows[i].initial);
        assert_int_equal(law->min, rows[i].min);
        assert_int_equal(law->max, rows[i].max);
        done(&read);
    }
}

static void every_key_of_a_tenant_arrives(void **state)
{
    struct read read;

    (void)state;
    must_read(
        &read,
        "tenants:\n"
        "  - name: team-a\n"
        "    parent: product\n"
        "    keys:\n"
        "      - {name: prod, not_after: \"2027-12-31T00:00:00Z\", sha256: "
        "\"5e0c7ed5e3b5ef5a3c4c2f4f7f6b3a2a1d0e9c8b7a6f5e4d3c2b1a0f9e8d7c6b\"}\n"
        "      - {sha256: 3f0a377ba0a4a460ecb616f6507ce0d8cfa3e704025d4fda3ed0c5ca05468728}\n"
        "    models: [\"demo-*\", \"!demo-large\"]\n"
        "    priority: high\n"
        "    weight: 2.5\n"
        "    value: 0\n"
        "    concurrency: 16\n"
        "    rate: {strategy: gcra, limit: 600, period: 60s}\n"
        "    limits:\n"
        "      - {rpd: 20000}\n"
        "      - {models: [\"demo-small\"], tpm: 60000, rpm: 20, mode: shadow}\n"
        "    users: {from: \"header:X-Tollgate-User\", max: 5, each: {rpm: 30,\n"
        "      budgets: [{usd: 1, per: total}]}}\n"
        "    budgets: [{usd: 50, per: day}, {usd: 800.5, per: month, tz: Europe/Berlin}]\n"
        "    allow_cheaper: 0.2\n"
        "    mode: shadow\n"
        "  - name: product\n");
    assert_int_equal(read.config.n_tenants, 2);
    const struct config_tenant *tenant = config_tenant(&read.config, "team-a", 6);
    assert_ptr_equal(tenant, &read.config.tenants[0]);
    assert_int_equal(tenant->parent, 1);
    assert_int_equal(tenant->level, 1);
    assert_int_equal(tenant->line, 2);
    assert_int_equal(tenant->n_keys, 2);
    assert_string_equal(tenant->keys[0].name, "prod");
    assert_int_equal(tenant->keys[0].sha256[0], 0x5e);
    assert_int_equal(tenant->keys[0].sha256[31], 0x6b);
    assert_int_equal(tenant->keys[0].not_after, INT64_C(1830211200000));
    assert_null(tenant->keys[1].name);
    assert_int_equal(tenant->keys[1].not_after, CONFIG_NEVER);
    assert_true(config_patterns_match(&tenant->models, "demo-small", 10));
    assert_false(config_patterns_match(&tenant->models, "demo-large", 10));
    assert_int_equal(tenant->priority, CONFIG_HIGH);
    assert_true(equal(tenant->weight, 2.5) && equal(tenant->value, 0));
    assert_int_equal(tenant->concurrency, 16);
    assert_true(tenant->rate.present);
    assert_false(tenant->cost.present);
    assert_int_equal(tenant->n_limits, 2);
    assert_int_equal(tenant->limits[0].models.n, 0);
    assert_int_equal(tenant->limits[0].n_limiters, 1);
    assert_int_equal(tenant->limits[0].limiters[0].axis, TG_AXIS_RATE);
    assert_int_equal(tenant->limits[0].limiters[0].limiter.strategy, TG_GCRA);
    assert_int_equal(tenant->limits[0].limiters[0].limiter.limit, 20000);
    assert_int_equal(tenant->limits[0].limiters[0].limiter.period, 86400000);
    assert_int_equal(tenant->limits[1].n_limiters, 2);
    assert_int_equal(tenant->limits[1].mode, CONFIG_SHADOW);
    assert_int_equal(tenant->limits[1].limiters[0].limiter.limit, 20);
    assert_int_equal(tenant->limits[1].limiters[0].mode, CONFIG_SHADOW);
    assert_int_equal(tenant->limits[1].limiters[1].axis, TG_AXIS_COST);
    assert_int_equal(tenant->limits[1].limiters[1].limiter.strategy, TG_TOKEN_BUCKET);
    assert_int_equal(tenant->limits[1].limiters[1].limiter.limit, 60000);
    assert_true(equal(tenant->limits[1].limiters[1].limiter.refill, 1000));
    assert_true(tenant->users.present);
    assert_string_equal(tenant->users.header, "x-tollgate-user");
    assert_int_equal(tenant->users.max, 5);
    assert_int_equal(tenant->users.each.n_limiters, 1);
    assert_int_equal(tenant->users.each.limiters[0].limiter.limit, 30);
    assert_int_equal(tenant->users.n_budgets, 1);
    assert_int_equal(tenant->users.budgets[0].per, CONFIG_TOTAL);
    assert_int_equal(tenant->n_budgets, 2);
    assert_int_equal(tenant->budgets[0].micro_usd, 50000000);
    assert_int_equal(tenant->budgets[0].per, CONFIG_DAY);
    assert_string_equal(tenant->budgets[0].tz, "UTC");
    assert_int_equal(tenant->budgets[1].micro_usd, 800500000);
    assert_string_equal(tenant->budgets[1].tz, "Europe/Berlin");
    assert_true(equal(tenant->allow_cheaper, 0.2));
    assert_int_equal(tenant->mode, CONFIG_SHADOW);

    tenant = config_tenant(&read.config, "product", 7);
    assert_int_equal(tenant->parent, CONFIG_NO_PARENT);
    assert_int_equal(tenant->level, 0);
    assert_int_equal(tenant->priority, CONFIG_NORMAL);
    assert_true(equal(tenant->weight, 1) && equal(tenant->value, 1));
    assert_int_equal(tenant->concurrency, 0);
    assert_int_equal(tenant->n_keys + tenant->n_limits + tenant->n_budgets + tenant->models.n, 0);
    assert_false(tenant->users.present);
    assert_null(config_tenant(&read.config, "produc", 6));
    done(&read);
}

/* All in one circle, a chain, and a chain into a circle: each is told once, and none is walked for
 * ever. */
static void parents_in_a_circle_end(void **state)
{
    enum { TENANTS = 20000 };
    char *text = malloc(TENANTS * 40 + 100);
    struct read read;

    (void)state;
    assert_non_null(text);
    size_t used = (size_t)sprintf(text, "tenants:\n");
    for (int i = 0; i < TENANTS; i++)
        used += (size_t)sprintf(text + used, "  - {name: t%d, parent: t%d}\n", i,
                                (i + 1) % TENANTS);
    assert_int_equal(parse(&read, text), CONFIG_WRONG);
    size_t circles = 0;
    for (size_t i = 0; i < read.problems.n; i++)
        circles += strstr(read.problems.list[i].text, "circle") != NULL;
    assert_int_equal(circles, 1);
    assert_true(read.problems.errors > read.problems.n); /* most are too deep, and counted alone */
    done(&read);
    free(text);
}

static void variables_are_put_in_place(void **state)
{
    struct read read;

    (void)state;
    setenv("TG_TEST_PART", "am", 1);
    setenv("TG_TEST_LIMIT", "7", 1);
    unsetenv("TG_TEST_NONE");
    must_read(&read, "gate: {peers: {limit: \"${TG_TEST_LIMIT}\"}}\n"
                     "tenants: [{name: \"te${TG_TEST_PART}-${TG_TEST_LIMIT}\"}]\n");
    assert_int_equal(read.config.gate.peers.limit, 7);
    assert_non_null(config_tenant(&read.config, "team-7", 6));
    assert_int_equal(read.problems.n, 0);
    done(&read);

    must_read(&read, "gate: {peers: {limit: \"${TG_TEST_NONE}\"}}\n"
                     "log: {level: \"${TG_TEST_NONE}\"}\n");
    assert_int_equal(read.config.gate.peers.limit, 64);
    assert_int_equal(read.problems.warnings, 2);
    assert_int_equal(read.problems.unread, 1);
    assert_true(read.problems.list[0].missing && read.problems.list[0].unread);
    assert_true(read.problems.list[1].missing && !read.problems.list[1].unread);
    done(&read);
}

static void what_cannot_be_read_is_an_empty_configuration(void **state)
{
    struct read read;

    (void)state;
    assert_int_equal(config_load("/nonexistent/tollgate.yaml", &read.config, &read.problems),
                     CONFIG_UNREADABLE);
    assert_int_equal(read.problems.n, 1);
    assert_int_equal(read.problems.list[0].line, 0);
    assert_string_equal(read.problems.list[0].file, "/nonexistent/tollgate.yaml");
    done(&read);
    assert_int_equal(parse(&read, "gate: {peer: {}}"), CONFIG_WRONG);
    assert_null(read.config.arena);
    assert_int_equal(read.config.n_tenants, 0);
    done(&read);
    done(&read); /* twice does no harm */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_absent_stage_is_off_and_has_its_defaults),
        cmocka_unit_test(a_present_stage_takes_its_defaults),
        cmocka_unit_test(every_key_of_the_gate_arrives),
        cmocka_unit_test(a_policy_arrives_as_the_library_wants_it),
        cmocka_unit_test(budgets_that_are_not_given_are_those_of_the_limits),
        cmocka_unit_test(a_policy_takes_its_defaults),
        cmocka_unit_test(every_strategy_is_read),
        cmocka_unit_test(bounds_that_are_left_out_make_room),
        cmocka_unit_test(every_key_of_a_tenant_arrives),
        cmocka_unit_test(parents_in_a_circle_end),
        cmocka_unit_test(variables_are_put_in_place),
        cmocka_unit_test(what_cannot_be_read_is_an_empty_configuration),
    };

    return cmocka_run_group_tests_name("config reader", tests, NULL, NULL);
}
