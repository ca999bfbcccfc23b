/* misuse.c - what embedders get wrong, and what the library makes of it.
 *
 *     misuse NAME        runs one case; exits 0 if the library was right, or said what is wrong
 *     misuse             lists them
 *
 * Built by tests/api/misuse.sh against the static and the shared library.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tollgate.h>

#define NOW 1000000

static int failures;

static void expect(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

#define EXPECT(condition) expect(condition, #condition)

/* ---- zeroed structs ---- */

/* A gate with a budget of 100 units a day for its one scope. */
static struct tg_gate *gate_of_100(struct tg_store **store, tg_limits *set)
{
    struct tg_store_config store_config;
    struct tg_gate_config config;
    struct tg_limiter_config limiter;
    struct tg_limit limit = {.axis = TG_AXIS_COST};
    struct tg_gate *gate = NULL;

    tg_store_config_init(&store_config);
    tg_gate_config_init(&config);
    if (tg_store_new(&store_config, store, NULL) ||
        tg_limiter_config_parse(&limiter, "fixed_window:limit=100,window=86400000", NULL) ||
        tg_limiter_init(&limit.limiter, &limiter, NULL) ||
        tg_store_define(*store, &limit, 1, set, NULL))
        return NULL;
    config.store = *store;
    return tg_gate_new(&config, &gate, NULL) ? NULL : gate;
}

/* It used to say "used 0 units": 1000 of 1000 calls of 50 units were admitted. */
static void zeroed_release(void)
{
    struct tg_store *store;
    struct tg_release zeroed = {0}, half = {.actual = 10}, *forms[] = {&zeroed, NULL, &half};
    static const int most[] = {2, 2,
                               6}; /* 50, 50, and no more; with 10 each, 50 fit until 50 are used */
    tg_limits set;

    for (int form = 0; form < 3; form++) {
        struct tg_gate *gate = gate_of_100(&store, &set);
        struct tg_scope scope = {.limits = set, .key = "a", .key_bytes = 1};
        struct tg_call call;
        struct tg_answer answer;
        int admitted = 0;

        tg_call_init(&call);
        call.factor.start = call.factor.min = call.factor.max = 1;
        call.debit.scopes = &scope;
        call.debit.n_scopes = 1;
        call.debit.cost = 50;
        for (int i = 0; i < 1000; i++) {
            EXPECT(tg_gate_admit(gate, &call, 0, NOW, &answer) == TG_OK);
            admitted += answer.decision.allowed;
            if (answer.decision.allowed)
                EXPECT(tg_gate_release(gate, answer.lease, NOW, forms[form]));
        }
        expect(admitted == most[form], "as many calls are admitted as the budget allows");
        tg_gate_free(gate);
        tg_store_free(store);
    }
}

/* It used to say "nothing was sent": a key of 2 calls a minute was leased 1000 times in one ms. */
static void zeroed_key_report(void)
{
    struct tg_key_report zeroed = {0}, *forms[] = {&zeroed, NULL};
    struct tg_key_spec key = {.name = "k", .limits = {.rpm = 2}};
    struct tg_keyring_spec spec;
    struct tg_pool_spec pool;

    tg_pool_spec_init(&pool);
    tg_keyring_spec_init(&spec);
    pool.provider = "p";
    pool.model = "m";
    pool.keys = &key;
    pool.n_keys = 1;
    spec.pools = &pool;
    spec.n_pools = 1;
    for (int form = 0; form < 2; form++) {
        struct tg_keyring *ring;
        struct tg_key_call call = {0};
        struct tg_key_answer answer;
        int leased = 0;

        if (tg_keyring_new(&spec, &ring, NULL)) {
            failures++;
            return;
        }
        for (int i = 0; i < 1000; i++) {
            tg_pool_acquire(tg_keyring_pool(ring, "p", "m"), &call, NOW, &answer);
            leased += answer.lease != 0;
            if (answer.lease)
                EXPECT(tg_keyring_release(ring, answer.lease, NOW, forms[form]));
        }
        EXPECT(leased == 2);
        tg_keyring_free(ring);
    }
}

/* Cached tokens used to be free. */
static void price_without_init(void)
{
    struct tg_price price = {.input = 2000000, .output = 8000000};
    struct tg_usage usage = {.cached_input = 1000000};
    struct tg_price wrong = {.struct_size = 3, .input = 1};

    EXPECT(tg_price_of(&price, &usage) == 2000000);
    EXPECT(tg_price_of(&wrong, &usage) == TG_MONEY_MAX);
    tg_price_init(&price);
    price.input = 2000000;
    price.cached_input = 0;
    EXPECT(tg_price_of(&price, &usage) == 0);
}

static bool says(const struct tg_problem *problem, const char *init)
{
    return strstr(problem->text, init) != NULL;
}

static void zeroed_configurations(void)
{
    struct tg_store_config store_config = {0};
    struct tg_gate_config gate_config = {0};
    struct tg_bid_config bid_config = {0};
    struct tg_bank_config bank_config = {0};
    struct tg_keyring_spec ring_spec = {0};
    struct tg_pool_spec pool_spec = {.provider = "p", .model = "m"};
    struct tg_limiter_config limiter_config = {0};
    struct tg_law_config law_config = {0};
    struct tg_call call = {0};
    struct tg_problem problem;
    struct tg_store *store;
    struct tg_gate *gate;
    struct tg_policy *policy;
    struct tg_bank *bank;
    struct tg_keyring *ring;
    struct tg_limiter limiter;
    struct tg_answer answer;

    EXPECT(tg_store_new(&store_config, &store, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_store_config_init()"));
    EXPECT(tg_gate_new(&gate_config, &gate, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_gate_config_init()"));
    EXPECT(tg_bid_new(&bid_config, &policy, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_bid_config_init()"));
    EXPECT(tg_bank_new(&bank_config, &bank, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_bank_config_init()"));
    EXPECT(tg_keyring_new(&ring_spec, &ring, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_keyring_spec_init()"));
    tg_keyring_spec_init(&ring_spec);
    ring_spec.pools = &pool_spec;
    ring_spec.n_pools = 1;
    EXPECT(tg_keyring_new(&ring_spec, &ring, &problem) == TG_ERR_UNINITIALIZED);
    EXPECT(says(&problem, "tg_pool_spec_init()"));
    EXPECT(tg_limiter_init(&limiter, &limiter_config, &problem) == TG_ERR_INVALID);
    EXPECT(tg_law_config_check(&law_config, &problem) == TG_ERR_INVALID);
    tg_gate_config_init(&gate_config);
    if (tg_gate_new(&gate_config, &gate, NULL)) {
        failures++;
        return;
    }
    EXPECT(tg_gate_admit(gate, &call, 0, NOW, &answer) == TG_ERR_UNINITIALIZED);
    tg_gate_free(gate);
}

/* ---- null ---- */

/* Every function of the interface, with null for each pointer that it needs. */
static void null(void)
{
    struct tg_store *store;
    tg_limits set;
    struct tg_gate *gate = gate_of_100(&store, &set);
    struct tg_problem problem;
    struct tg_decision decision;
    struct tg_answer answer;
    struct tg_call call;
    struct tg_debit debit = {.n_scopes = 1}, keyless;
    struct tg_scope scope = {.limits = set, .key_bytes = 3};
    struct tg_limit_metrics limits[TG_LIMITS_MAX];
    struct tg_expectation expectation;
    struct tg_axes axes = {.present = 0};
    struct tg_duals duals;
    struct tg_keyring_spec spec;
    struct tg_keyring *ring;
    struct tg_pool_spec pool;
    struct tg_key_call key_call = {0};
    struct tg_key_answer key_answer;
    struct tg_key_terms terms;
    void *owner;
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY};
    struct tg_key_ending ending;
    struct tg_key_metrics keys[1];
    struct tg_probe probe;
    struct tg_bank_config bank_config;
    struct tg_bank *bank;
    struct tg_money_answer money;
    struct tg_budget_metrics budgets[TG_BUDGETS_MAX];
    struct tg_price price = {0};
    struct tg_usage usage = {0};
    struct tg_usage_bound bound = {0};
    tg_account account;
    tg_micro left;
    tg_ms at;
    enum tg_err err = TG_OK;
    char text[64];

    tg_call_init(&call);
    EXPECT(tg_store_new(NULL, &store, &problem) == TG_ERR_NULL);
    EXPECT(tg_store_define(NULL, NULL, 0, &set, &problem) == TG_ERR_NULL);
    EXPECT(tg_store_define(store, NULL, 1, &set, &problem) == TG_ERR_NULL);
    EXPECT(tg_store_redefine(NULL, NULL, 1, NOW, &problem) == TG_ERR_NULL);
    EXPECT(tg_store_take(NULL, &debit, NOW, &decision, NULL) == TG_ERR_NULL);
    EXPECT(tg_store_take(store, NULL, NOW, &decision, NULL) == TG_ERR_NULL);
    EXPECT(tg_store_take(store, &debit, NOW, NULL, NULL) == TG_ERR_NULL);
    EXPECT(tg_store_take(store, &debit, NOW, &decision, NULL) == TG_ERR_INVALID);
    keyless = (struct tg_debit){.scopes = &scope, .n_scopes = 1};
    EXPECT(tg_store_take(store, &keyless, NOW, &decision, NULL) == TG_ERR_NULL);
    EXPECT(tg_store_peek(NULL, &debit, NOW, &decision, NULL) == TG_ERR_NULL);
    EXPECT(tg_store_peek_scope(NULL, &debit, 0, NOW, limits) == 0);
    EXPECT(tg_store_peek_scope(store, &debit, 0, NOW, NULL) == 0);
    tg_store_take_many(NULL, &debit, 1, NOW, &decision, &err);
    EXPECT(err == TG_ERR_NULL);
    tg_store_take_many(store, &debit, 1, NOW, &decision, NULL);
    EXPECT(tg_store_refund(NULL, &debit, NOW, NOW) == TG_ERR_NULL);
    EXPECT(tg_store_settle(store, NULL, NOW, NOW, 0) == TG_ERR_NULL);
    EXPECT(tg_store_sweep(NULL, NOW) == 0);
    tg_store_get_stats(NULL, NULL);
    tg_store_get_stats(store, NULL);

    tg_limiter_config_init(NULL, TG_GCRA);
    EXPECT(tg_limiter_config_parse(NULL, "gcra", &problem) == TG_ERR_NULL);
    EXPECT(tg_limiter_init(NULL, NULL, &problem) == TG_ERR_NULL);
    tg_limiter_make_settled(NULL);
    tg_limiter_describe(NULL, NULL, text, sizeof text);
    EXPECT(text[0] == 0);
    tg_law_config_init(NULL);
    tg_law_config_choose(NULL, TG_LAW_AUTO);
    EXPECT(tg_law_config_check(NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_axes_binding(NULL) == TG_AXIS_NONE);
    EXPECT(tg_axes_combine(NULL).allowed);
    EXPECT(tg_axes_refusing(NULL) == NULL);
    EXPECT(tg_decision_fold(NULL, 3).allowed);

    tg_gate_config_init(NULL);
    tg_call_init(NULL);
    tg_release_init(NULL);
    EXPECT(tg_gate_new(NULL, &gate, &problem) == TG_ERR_NULL);
    EXPECT(tg_gate_reconfigure(NULL, NULL, NOW, &problem) == TG_ERR_NULL);
    tg_gate_set_memory(NULL, 1);
    EXPECT(tg_gate_precheck(NULL, &call, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_precheck(gate, NULL, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_admit(NULL, &call, 0, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_admit(gate, NULL, 0, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_admit(gate, &call, 0, NOW, NULL) == TG_ERR_NULL);
    EXPECT(tg_gate_resume(gate, 1, NULL, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_store_answered(NULL, 1, TG_OK, &axes, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_store_answered(gate, 1, TG_OK, NULL, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_peek(gate, NULL, NOW, &answer) == TG_ERR_NULL);
    EXPECT(tg_gate_expect(gate, NULL, &expectation) == TG_ERR_NULL);
    EXPECT(!tg_gate_release(NULL, 1, NOW, NULL));
    EXPECT(!tg_gate_release(gate, 1, NOW, NULL));
    EXPECT(!tg_gate_first_byte(NULL, 1, NOW));
    EXPECT(!tg_gate_renew(NULL, 1, NOW, 1));
    tg_gate_set_room(NULL, 1, NOW, NOW);
    EXPECT(tg_gate_next_deadline(NULL) == INT64_MAX);
    tg_gate_tick(NULL, NOW);
    tg_gate_get_stats(NULL, NULL);
    tg_gate_get_stats(gate, NULL);
    tg_gate_get_law(gate, NULL);
    EXPECT(tg_gate_peer_calls(gate, NULL, 3) == 0);
    tg_answer_describe(NULL, NULL, text, sizeof text);
    EXPECT(text[0] == 0);

    tg_type_init(NULL);
    tg_workload_init(NULL);
    tg_bid_config_init(NULL);
    EXPECT(tg_fluid_solve(NULL, &duals, NULL, NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_bid_new(NULL, NULL, &problem) == TG_ERR_NULL);
    tg_bid_get_duals(NULL, &duals);
    tg_bid_get_guard(NULL, NULL);
    EXPECT(tg_bid_save(NULL, NULL, 0) == 0);
    EXPECT(tg_bid_load(NULL, NULL, 0, NOW) == TG_ERR_NULL);

    tg_pool_spec_init(NULL);
    tg_keyring_spec_init(NULL);
    tg_key_call_init(NULL);
    tg_key_report_init(NULL);
    EXPECT(tg_keyring_new(NULL, &ring, &problem) == TG_ERR_NULL);
    tg_pool_spec_init(&pool);
    tg_keyring_spec_init(&spec);
    pool.provider = "p";
    pool.model = "m";
    spec.pools = &pool;
    spec.n_pools = 1;
    EXPECT(tg_keyring_new(&spec, NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_keyring_new(&spec, &ring, &problem) == TG_OK);
    EXPECT(tg_keyring_change(NULL, &spec, NOW, &problem) == TG_ERR_NULL);
    EXPECT(tg_keyring_change(ring, NULL, NOW, &problem) == TG_ERR_NULL);
    EXPECT(tg_keyring_pool(NULL, "p", "m") == NULL);
    EXPECT(tg_keyring_pool(ring, NULL, "m") == NULL);
    tg_pool_acquire(NULL, &key_call, NOW, &key_answer);
    EXPECT(key_answer.lease == 0 && key_answer.retry_after_ms == TG_UNSATISFIABLE);
    tg_pool_acquire(tg_keyring_pool(ring, "p", "m"), NULL, NOW, &key_answer);
    EXPECT(key_answer.lease == 0);
    tg_pool_acquire(tg_keyring_pool(ring, "p", "m"), &key_call, NOW, NULL);
    tg_pool_peek(NULL, &key_call, NOW, &key_answer);
    EXPECT(tg_pool_peek_terms(NULL, &key_call, NOW, &terms, &owner, 1) == 0);
    EXPECT(tg_pool_peek_terms(tg_keyring_pool(ring, "p", "m"), NULL, NOW, &terms, &owner, 1) == 0);
    EXPECT(!tg_keyring_release(NULL, 1, NOW, NULL));
    EXPECT(!tg_keyring_release(ring, 1, NOW, NULL));
    EXPECT(!tg_keyring_end(ring, 1, NOW, NULL, NULL));
    EXPECT(!tg_keyring_end(NULL, 1, NOW, NULL, &ending));
    EXPECT(!tg_keyring_terms(NULL, 1, &terms));
    EXPECT(!tg_keyring_hold_off(ring, 1, NOW, NULL));
    EXPECT(!tg_keyring_hold_off(NULL, 1, NOW, &hold));
    EXPECT(!tg_keyring_next_probe(NULL, NOW, &probe));
    tg_keyring_probed(ring, NULL, TG_PROBE_GOOD, NOW);
    EXPECT(tg_keyring_next_deadline(NULL) == INT64_MAX);
    EXPECT(!tg_keyring_enable(ring, NULL, "k", true, NOW));
    EXPECT(!tg_keyring_reset(ring, "p", NULL, NOW));
    EXPECT(tg_pool_get_keys(NULL, NOW, 0, keys, 1) == 0);
    tg_pool_get_metrics(NULL, NULL);

    tg_bank_config_init(NULL);
    EXPECT(tg_bank_new(NULL, &bank, &problem) == TG_ERR_NULL);
    tg_bank_config_init(&bank_config);
    EXPECT(tg_bank_new(&bank_config, &bank, &problem) == TG_OK);
    EXPECT(tg_bank_open(NULL, 0, "a", 1, NULL, 0, NOW, &account, NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_bank_open(bank, 0, "a", 1, NULL, 0, NOW, NULL, NULL, &problem) == TG_ERR_NULL);
    EXPECT(tg_bank_find(NULL, 0, "a", 1) == 0);
    EXPECT(tg_bank_change(NULL, 1, NULL, 0, NOW, &problem) == TG_ERR_NULL);
    tg_bank_close(NULL, 1);
    EXPECT(tg_bank_restore(NULL, 1, 0, 0, NOW) == TG_ERR_NULL);
    EXPECT(tg_bank_reserve(NULL, 1, 1, false, NOW, &money) == TG_ERR_NULL);
    EXPECT(tg_bank_reserve(bank, 1, 1, false, NOW, NULL) == TG_ERR_NULL);
    EXPECT(tg_bank_reserve_beside(NULL, 1, 2, 1, false, NOW, &money) == TG_ERR_NULL);
    EXPECT(!tg_bank_settle(NULL, 1, 1, NULL));
    EXPECT(tg_bank_ask(NULL, 1, 1, NOW, &money) == TG_ERR_NULL);
    EXPECT(tg_bank_left(bank, 1, NOW, NULL, NULL) == TG_ERR_NULL);
    EXPECT(tg_bank_left(NULL, 1, NOW, &left, NULL) == TG_ERR_NULL);
    EXPECT(tg_bank_get_budgets(NULL, 1, NOW, budgets) == 0);
    tg_bank_get_stats(NULL, NULL);
    tg_bank_get_stats(bank, NULL);
    tg_window_of(TG_PER_DAY, NULL, NOW, &at, NULL);

    tg_price_init(NULL);
    EXPECT(tg_price_of(NULL, &usage) == TG_MONEY_MAX);
    EXPECT(tg_price_of(&price, NULL) == TG_MONEY_MAX);
    EXPECT(tg_price_bound(NULL, &bound) == TG_MONEY_MAX);
    EXPECT(tg_price_affordable(NULL, &bound, 1) == -1);
    EXPECT(tg_usage_input(NULL) == 0 && tg_usage_output(NULL) == 0);
    tg_usage_fold(NULL);
    EXPECT(tg_usage_absurd(NULL) && tg_usage_exceeds(NULL, NULL));

    tg_bank_free(bank);
    tg_keyring_free(ring);
    tg_gate_free(gate);
    tg_store_free(store);
    tg_bank_free(NULL);
    tg_keyring_free(NULL);
    tg_gate_free(NULL);
    tg_store_free(NULL);
    tg_bid_free(NULL);
}

/* ---- time and threads ---- */

static int woken;

static void count_wake(void *context, void *waiter)
{
    (void)context;
    (void)waiter;
    woken++;
}

/* A gate of one slot, which is held. */
static struct tg_gate *full_gate(void (*wake)(void *context, void *waiter),
                                 struct tg_gate **context)
{
    struct tg_gate_config config;
    struct tg_gate *gate = NULL;
    struct tg_answer answer;
    struct tg_call call;

    tg_gate_config_init(&config);
    tg_call_init(&call);
    config.concurrency.on = true;
    tg_law_config_choose(&config.concurrency.law, TG_LAW_FIXED);
    config.concurrency.law.min = config.concurrency.law.initial = 1;
    config.lease_ttl = 86400000; /* longer than any clock is ahead here */
    config.wake = wake;
    config.context = context;
    EXPECT(tg_gate_new(&config, &gate, NULL) == TG_OK);
    EXPECT(tg_gate_admit(gate, &call, 0, NOW, &answer) == TG_OK && answer.decision.allowed);
    return gate;
}

/* A waiter used to wait for as long as the clock was ahead once. */
static void clock_ahead_once(void)
{
    struct tg_gate *gate = full_gate(count_wake, NULL);
    struct tg_answer answer;
    struct tg_call call;
    tg_ms at = NOW + 10;

    tg_call_init(&call);
    call.priority = TG_PRIORITY_LOW;
    EXPECT(tg_gate_admit(gate, &call, 0, NOW + 3600000, &answer) == TG_OK);
    call.priority = TG_PRIORITY_NORMAL;
    EXPECT(tg_gate_admit(gate, &call, 0, at, &answer) == TG_OK && answer.step == TG_WAITING);
    EXPECT(answer.deadline == at + 50);
    while (woken == 0 && at < NOW + 2010)
        tg_gate_tick(gate, ++at);
    EXPECT(woken == 1 && at == NOW + 60);
    tg_gate_free(gate);
}

static enum tg_err told;

static void call_back(void *context, void *waiter)
{
    struct tg_gate *gate = *(struct tg_gate **)context;
    struct tg_answer answer;
    struct tg_call call;

    (void)waiter;
    tg_call_init(&call);
    told = tg_gate_admit(gate, &call, 0, NOW, &answer);
    woken++;
}

/* It used to hang for ever. */
static void wake_that_calls_back(void)
{
    static struct tg_gate *gate;
    struct tg_answer answer;
    struct tg_call call;

    gate = full_gate(call_back, &gate);
    tg_call_init(&call);
    EXPECT(tg_gate_admit(gate, &call, 0, NOW, &answer) == TG_OK && answer.step == TG_WAITING);
    tg_gate_tick(gate, answer.deadline);
    EXPECT(woken == 1 && told == TG_ERR_REENTERED);
    EXPECT(tg_gate_admit(gate, &call, 0, NOW + 1, &answer) == TG_OK);
    tg_gate_free(gate);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"zeroed_release", zeroed_release},
    {"zeroed_key_report", zeroed_key_report},
    {"price_without_init", price_without_init},
    {"zeroed_configurations", zeroed_configurations},
    {"null", null},
    {"clock_ahead_once", clock_ahead_once},
    {"wake_that_calls_back", wake_that_calls_back},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (argc == 1) {
            puts(cases[i].name);
        } else if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return failures != 0;
        }
    return argc != 1;
}
