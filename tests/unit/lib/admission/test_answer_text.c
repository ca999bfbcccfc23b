/* test_answer_text.c - a refusal says which limit refused, whose it is, and when it may pass. */
#include <string.h>

#include "check.h"

static struct tg_store *store;
static struct tg_gate *gate;

static int open_all(void **state)
{
    struct tg_store_config config;
    struct tg_gate_config settings;

    (void)state;
    tg_store_config_init(&config);
    assert_int_equal(tg_store_new(&config, &store, NULL), TG_OK);
    tg_gate_config_init(&settings);
    settings.store = store;
    assert_int_equal(tg_gate_new(&settings, &gate, NULL), TG_OK);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    tg_gate_free(gate);
    tg_store_free(store);
    return 0;
}

static struct tg_limit limit_of(enum tg_axis axis, const char *spec)
{
    struct tg_limiter_config config;
    struct tg_limit limit = {.axis = axis};

    assert_int_equal(tg_limiter_config_parse(&config, spec, NULL), TG_OK);
    assert_int_equal(tg_limiter_init(&limit.limiter, &config, NULL), TG_OK);
    return limit;
}

static tg_limits define(enum tg_axis axis, const char *spec)
{
    struct tg_limit limit = limit_of(axis, spec);
    tg_limits set;

    assert_int_equal(tg_store_define(store, &limit, 1, &set, NULL), TG_OK);
    return set;
}

static struct tg_answer admit(const struct tg_call *call, tg_ms now)
{
    struct tg_answer answer;

    assert_int_equal(tg_gate_admit(gate, call, 0, now, &answer), TG_OK);
    return answer;
}

static void assert_says(const struct tg_answer *answer, const struct tg_call *call,
                        const char *want)
{
    char text[256];

    tg_answer_describe(answer, call, text, sizeof text);
    assert_string_equal(text, want);
}

/* A department with 6 calls a minute, and two of its tenants with 5 each. */
static void a_parent_that_refuses_is_named_with_its_own_numbers(void **state)
{
    tg_limits dept = define(TG_AXIS_RATE, "gcra:limit=6,period=60000");
    tg_limits each = define(TG_AXIS_RATE, "gcra:limit=5,period=60000");
    struct tg_scope bot[] = {{.limits = each, .key = "hr-bot", .key_bytes = 6, .kind = "tenant"},
                             {.limits = dept, .key = "dept", .key_bytes = 4, .kind = "tenant"}};
    struct tg_scope legal[] = {{.limits = each, .key = "legal", .key_bytes = 5, .kind = "tenant"},
                               bot[1]};
    struct tg_call call;
    (void)state;

    tg_call_init(&call);
    call.debit = (struct tg_debit){
        .scopes = bot, .n_scopes = 2, .cost = 1, .root = "dept", .root_bytes = 4};
    for (int i = 0; i < 5; i++)
        assert_true(admit(&call, 0).decision.allowed);
    call.debit.scopes = legal;
    assert_true(admit(&call, 0).decision.allowed);
    struct tg_answer answer = admit(&call, 1400);
    const struct tg_limit_answer *named = tg_axes_refusing(&answer.axes);
    assert_false(answer.decision.allowed);
    assert_int_equal(answer.decision.limit, 5); /* the combination stays what it was */
    assert_non_null(named);
    assert_int_equal(named->scope, 1);
    assert_int_equal(named->limit, 0);
    assert_int_equal(named->limiter->config.limit, 6);
    assert_int_equal(named->decision.limit, 6);
    assert_int_equal(named->decision.remaining, 0);
    assert_int_equal(named->decision.retry_after_ms, 8600);
    assert_says(&answer, &call,
                "rate limit of tenant dept: 6 calls a minute, 0 left, next in 8.6 s");
}

static void of_two_that_refuse_the_longest_to_pass_is_named(void **state)
{
    struct tg_limit both[] = {limit_of(TG_AXIS_RATE, "gcra:limit=60,period=60000,burst=1"),
                              limit_of(TG_AXIS_RATE, "fixed_window:limit=1,window=3600000")};
    struct tg_scope scope = {.key = "a", .key_bytes = 1, .kind = "user", .suffix = " of tenant t"};
    struct tg_call call;
    (void)state;

    assert_int_equal(tg_store_define(store, both, 2, &scope.limits, NULL), TG_OK);
    tg_call_init(&call);
    call.debit = (struct tg_debit){.scopes = &scope, .n_scopes = 1, .cost = 1};
    assert_true(admit(&call, 0).decision.allowed);
    struct tg_answer answer = admit(&call, 500);
    assert_int_equal(tg_axes_refusing(&answer.axes)->limit, 1);
    assert_says(&answer, &call,
                "rate limit of user a of tenant t: 1 call in each hour, 0 left, next in 1 h");
}

static void an_allow_speaks_of_the_least_left_in_proportion(void **state)
{
    struct tg_limit both[] = {limit_of(TG_AXIS_RATE, "gcra:limit=3,period=60000"),
                              limit_of(TG_AXIS_RATE, "gcra:limit=100,period=60000")};
    struct tg_scope scope = {.key = "p", .key_bytes = 1};
    struct tg_scope two[2];
    tg_limits many = define(TG_AXIS_RATE, "fixed_window:limit=10,window=60000");
    struct tg_call call;
    (void)state;

    assert_int_equal(tg_store_define(store, both, 2, &scope.limits, NULL), TG_OK);
    two[0] = scope;
    two[1] = (struct tg_scope){.limits = many, .key = "q", .key_bytes = 1};
    tg_call_init(&call);
    call.debit = (struct tg_debit){
        .scopes = &two[1], .n_scopes = 1, .cost = 1, .root = "r", .root_bytes = 1};
    for (int i = 0; i < 7; i++)
        assert_true(admit(&call, 0).decision.allowed);
    call.debit.scopes = two;
    call.debit.n_scopes = 2;
    struct tg_answer answer = admit(&call, 0); /* 2 of 3, 99 of 100, 2 of 10 */
    assert_true(answer.decision.allowed);
    assert_int_equal(answer.decision.limit, 3);
    assert_int_equal(answer.axes.named[TG_AXIS_RATE].scope, 1);
    assert_int_equal(answer.axes.named[TG_AXIS_RATE].decision.limit, 10);
    assert_int_equal(answer.axes.named[TG_AXIS_RATE].decision.remaining, 2);
    assert_null(tg_axes_refusing(&answer.axes));
}

/* Rate may pass in a second, but the bucket needs ten for so much: to come back after one would be
 * in vain. */
static void charging_per_axis_hints_at_cost_too(void **state)
{
    struct tg_limit both[] = {limit_of(TG_AXIS_RATE, "gcra:limit=1,period=1000"),
                              limit_of(TG_AXIS_COST, "token_bucket:capacity=100,refill=10")};
    struct tg_scope scope = {.key = "x", .key_bytes = 1, .kind = "tenant"};
    struct tg_call call;
    (void)state;

    assert_int_equal(tg_store_define(store, both, 2, &scope.limits, NULL), TG_OK);
    tg_call_init(&call);
    call.factor = (struct tg_factor){1, 1, 1};
    call.debit = (struct tg_debit){
        .scopes = &scope, .n_scopes = 1, .cost = 100, .charging = TG_CHARGE_PER_AXIS};
    assert_true(admit(&call, 0).decision.allowed);
    struct tg_answer answer = admit(&call, 0);
    assert_int_equal(answer.axes.present, 1u << TG_AXIS_RATE);
    assert_int_equal(answer.axes.decision[TG_AXIS_RATE].retry_after_ms, 1000);
    assert_int_equal(answer.decision.retry_after_ms, 10000);
    assert_int_equal(answer.decision.reset_at, 10000);
    assert_int_equal(answer.decision.limit, 1); /* cost was not asked */
    assert_says(&answer, &call, "rate limit of tenant x: 1 call a second, 0 left, next in 1 s");
    assert_true(admit(&call, 10000).decision.allowed);
    call.debit.cost = 101;
    answer = admit(&call, 10000);
    assert_int_equal(answer.decision.retry_after_ms, TG_UNSATISFIABLE);
    assert_says(&answer, &call, "a cost limit can never admit this call");
    call.debit.charging = TG_CHARGE_ATOMIC;
    call.unit = "tokens";
    answer = admit(&call, 10000);
    assert_int_equal(answer.reason, TG_REASON_RATE);
    assert_says(&answer, &call,
                "cost limit of tenant x: 10 tokens a second, at most 100, can never admit this "
                "call");
}

static void a_limiter_says_how_much_in_what_time(void **state)
{
    static const struct {
        const char *spec, *want;
    } rows[] = {
        {"gcra:limit=6,period=60000", "6 u a minute"},
        {"gcra:limit=6,period=60000,burst=2", "6 u a minute, at most 2 at once"},
        {"gcra:limit=10,period=2500", "10 u every 2.5 s"},
        {"gcra:limit=20000,period=86400000", "20000 u a day"},
        {"gcra:limit=2,period=120", "2 u every 120 ms"},
        {"token_bucket:capacity=50000,refill=833.3333333333334", "50000 u a minute"},
        /* A 60th of 31 is no number of binary digits: 60 of it are 31 and 4e-15. */
        {"token_bucket:capacity=31,refill=0.5166666666666667", "31 u a minute"},
        {"token_bucket:capacity=100000,refill=1667", "1667 u a second, at most 100000"},
        {"token_bucket:capacity=5,refill=0.12345", "0.12345 u a second, at most 5"},
        {"token_bucket:capacity=5,refill=0.0000123", "1.23e-05 u a second, at most 5"},
        {"token_bucket:capacity=10,refill=5", "5 u a second, at most 10"},
        {"token_bucket:capacity=10,refill=1", "1 u a second, at most 10"},
        {"token_bucket:capacity=100,refill=0.002777777777777778", "10 u an hour, at most 100"},
        {"token_bucket:capacity=9,refill=0.00005787037037037037", "5 u a day, at most 9"},
        {"gcra:limit=7,period=3600000", "7 u an hour"},
        {"fixed_window:limit=5,window=3600000", "5 u in each hour"},
        {"sliding_window:limit=5,window=60000", "5 u in any minute"},
        {"sliding_log:limit=5,window=5400000", "5 u in any 1 h 30 min"},
        {"token_budget:budget=900,window=604800000", "900 u in each 7 days"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_limit limit = limit_of(TG_AXIS_COST, rows[i].spec);
        char text[80];
        tg_limiter_describe(&limit.limiter, "u", text, sizeof text);
        assert_string_equal(text, rows[i].want);
        tg_limiter_describe(&limit.limiter, "u", text, 4); /* cut, and ended */
        assert_int_equal(strlen(text), 3);
        tg_limiter_describe(&limit.limiter, "u", text, 0);
    }
}

/* How a limiter counts that is none of ours is not known, only how much it lets through. */
static void another_limiter_says_how_much_alone(void **state)
{
    struct tg_limit limit = limit_of(TG_AXIS_COST, "gcra:limit=6,period=60000");
    struct tg_limiter_ops own = *limit.limiter.ops;
    char text[80];
    (void)state;

    own.name = "own";
    limit.limiter.ops = &own;
    tg_limiter_describe(&limit.limiter, "calls", text, sizeof text);
    assert_string_equal(text, "at most 6 calls");
}

static void a_want_of_slots_says_whose_and_a_peer_how_many(void **state)
{
    struct tg_answer answer = {.reason = TG_REASON_CONCURRENCY};
    struct tg_call call;
    (void)state;

    tg_call_init(&call);
    call.gate_kind = "model";
    call.gate_name = "small";
    call.peer = "bob";
    call.peer_bytes = 3;
    answer.axes.present = 1u << TG_AXIS_CONCURRENCY;
    answer.axes.decision[TG_AXIS_CONCURRENCY] = (struct tg_decision){false, 8, 0, 0, 1250};
    answer.decision = answer.axes.decision[TG_AXIS_CONCURRENCY];
    answer.client_wait_ms = 4820;
    assert_null(tg_axes_refusing(&answer.axes));
    assert_says(&answer, &call,
                "server overloaded: concurrency limit of model small: 8 calls at once, try "
                "again in 4.9 s");
    answer.reason = TG_REASON_PEER_LIMIT;
    answer.decision.limit = 64;
    assert_says(&answer, &call, "peer bob exceeded per-peer limit: 64 calls at once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_parent_that_refuses_is_named_with_its_own_numbers,
                                        open_all, close_all),
        cmocka_unit_test_setup_teardown(of_two_that_refuse_the_longest_to_pass_is_named, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(an_allow_speaks_of_the_least_left_in_proportion, open_all,
                                        close_all),
        cmocka_unit_test_setup_teardown(charging_per_axis_hints_at_cost_too, open_all, close_all),
        cmocka_unit_test(a_limiter_says_how_much_in_what_time),
        cmocka_unit_test(another_limiter_says_how_much_alone),
        cmocka_unit_test(a_want_of_slots_says_whose_and_a_peer_how_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
