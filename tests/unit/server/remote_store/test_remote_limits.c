/* test_remote_limits.c - asking Redis for rate and cost: each ask is decided once, whatever happens
 * to it, and what nobody wants any more is given back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keyed.h"
#include "net_redis_kit.h"
#include "redis_group.h"
#include "server/remote_store/remote_limits.h"

/* A client, limits of ten calls and a hundred units that stay spent, and a key of one tenant. */
struct desk {
    struct redis_kit kit;
    struct remote_limits *limits;
    struct tg_limit two[2];
    struct remote_scope scope;
    struct remote_debit debit;
};

struct got {
    int decided;
    enum tg_err err;
    struct tg_axes axes;
    struct remote_charge charge;
};

static void on_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_charge *charge)
{
    struct got *got = context;

    got->decided++;
    got->err = err;
    assert_int_equal(axes != NULL, err == TG_OK);
    assert_int_equal(charge != NULL, err == TG_OK);
    if (err == TG_OK) {
        got->axes = *axes;
        got->charge = *charge;
    }
}

static void open_limits(struct desk *desk)
{
    struct remote_limits_options options;

    redis_kit_open_up(&desk->kit);
    remote_limits_options_init(&options);
    options.redis = desk->kit.redis;
    options.prefix = "t";
    assert_int_equal(remote_limits_new(&options, &desk->limits), TG_OK);
    desk->two[0] = limit_on(TG_AXIS_RATE, "fixed_window:limit=10,window=9007199254740991");
    desk->two[1] = limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=9007199254740991");
    desk->scope = (struct remote_scope){SLICE("tenant/a"), SLICE("a"), desk->two, 2};
    desk->debit = (struct remote_debit){
        .root = SLICE("root"), .scopes = &desk->scope, .n_scopes = 1, .cost = 20};
}

static void open_desk(struct desk *desk)
{
    net_redis_do(&server, "FLUSHALL");
    redis_kit_init_server(&desk->kit, &server);
    open_limits(desk);
}

static void close_desk(struct desk *desk)
{
    redis_free(desk->kit.redis);
    desk->kit.redis = NULL;
    assert_int_equal(remote_limits_in_flight(desk->limits), 0);
    remote_limits_free(desk->limits);
    redis_kit_free(&desk->kit);
}

static struct remote_limits_ask *take(struct desk *desk, struct got *got)
{
    memset(got, 0, sizeof *got);
    struct remote_limits_ask *ask =
        remote_limits_take(desk->limits, &desk->debit, 0, on_decided, got);
    assert_non_null(ask);
    assert_int_equal(got->decided, 0); /* never from inside */
    return ask;
}

static void take_now(struct desk *desk, struct got *got)
{
    take(desk, got);
    kit_until(&desk->kit.kit, got->decided > 0);
    assert_int_equal(got->decided, 1);
}

/* Until nothing is on its way any more. */
static void settle_down(struct desk *desk)
{
    kit_until(&desk->kit.kit, remote_limits_in_flight(desk->limits) == 0);
}

static void expect_left(struct desk *desk, int64_t rate, int64_t cost)
{
    struct remote_debit peeked = desk->debit;
    struct got got = {.decided = 0};

    settle_down(desk);
    peeked.cost = 0;
    assert_non_null(remote_limits_peek(desk->limits, &peeked, 0, on_decided, &got));
    kit_until(&desk->kit.kit, got.decided > 0);
    assert_int_equal(got.err, TG_OK);
    /* A peek at the rate shows what would be left after one call. */
    const struct tg_decision *seen = &got.axes.decision[TG_AXIS_RATE];
    assert_int_equal(seen->remaining + seen->allowed, rate);
    assert_int_equal(got.axes.decision[TG_AXIS_COST].remaining, cost);
}

/* ---- */

static void a_take_is_decided_by_the_servers_clock(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    tg_ms before = (tg_ms)net_redis_integer(&server, "EVAL %s 0",
                                            "local t = redis.call('TIME') return t[1] * 1000");
    take_now(&desk, &got);
    assert_int_equal(got.err, TG_OK);
    assert_true(got.axes.decision[TG_AXIS_RATE].allowed);
    assert_int_equal(got.axes.decision[TG_AXIS_RATE].remaining, 9);
    assert_int_equal(got.axes.decision[TG_AXIS_COST].remaining, 80);
    assert_in_range(got.charge.at, before, before + 600000);
    expect_left(&desk, 9, 80);
    close_desk(&desk);
}

static void a_thousand_at_once_are_each_decided_once(void **state)
{
    enum { N = 1000 };
    struct got *got = calloc(N, sizeof *got);
    struct desk desk;
    int allowed = 0;

    (void)state;
    assert_non_null(got);
    open_desk(&desk);
    desk.debit.cost = 1;
    for (int i = 0; i < N; i++)
        take(&desk, &got[i]);
    settle_down(&desk);
    for (int i = 0; i < N; i++) {
        assert_int_equal(got[i].decided, 1);
        assert_int_equal(got[i].err, TG_OK);
        allowed += tg_axes_binding(&got[i].axes) == TG_AXIS_NONE;
    }
    assert_int_equal(allowed, 10);
    expect_left(&desk, 0, 90);
    close_desk(&desk);
    free(got);
}

/* Nobody keeps what a debit points to. */
static void a_debit_may_be_forgotten_at_once(void **state)
{
    struct desk desk;
    struct got got;
    char root[] = "root", name[] = "tenant/a", key[] = "a";
    struct tg_limit limits[2];

    (void)state;
    open_desk(&desk);
    memcpy(limits, desk.two, sizeof limits);
    struct remote_scope scope = {slice_of(name), slice_of(key), limits, 2};
    struct remote_debit debit = {
        .root = slice_of(root), .scopes = &scope, .n_scopes = 1, .cost = 20};
    memset(&got, 0, sizeof got);
    struct remote_limits_ask *ask =
        remote_limits_take(desk.limits, &debit, 0, on_decided, &got);
    memset(root, 'x', sizeof root);
    memset(name, 'x', sizeof name);
    memset(key, 'x', sizeof key);
    memset(limits, 0, sizeof limits);
    memset(&scope, 0, sizeof scope);
    remote_limits_cancel(ask);
    settle_down(&desk);
    assert_int_equal(got.decided, 0);
    expect_left(&desk, 10, 100);
    close_desk(&desk);
}

static void a_cancelled_yes_is_given_back(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    take_now(&desk, &got);
    remote_limits_cancel(take(&desk, &got));
    settle_down(&desk);
    assert_int_equal(got.decided, 0);
    expect_left(&desk, 9, 80);
    close_desk(&desk);
}

/* By per-axis charging cost may refuse what rate has charged. */
static void a_cancelled_no_gives_back_what_rate_took(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    desk.debit.charging = TG_CHARGE_PER_AXIS;
    desk.debit.cost = 101;
    remote_limits_cancel(take(&desk, &got));
    expect_left(&desk, 10, 100);
    take_now(&desk, &got);
    assert_int_equal(tg_axes_binding(&got.axes), TG_AXIS_COST);
    expect_left(&desk, 9, 100);
    close_desk(&desk);
}

static void a_yes_that_comes_too_late_is_given_back(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    net_redis_pause(&server);
    redis_set_timeout(desk.kit.redis, 10);
    take(&desk, &got);
    kit_until(&desk.kit.kit, got.decided > 0);
    assert_int_equal(got.err, TG_ERR_STORE);
    assert_int_equal(remote_limits_in_flight(desk.limits), 1);
    redis_set_timeout(desk.kit.redis, 20000);
    net_redis_resume(&server);
    settle_down(&desk);
    kit_until(&desk.kit.kit, redis_is_up(desk.kit.redis, NULL));
    assert_int_equal(got.decided, 1);
    expect_left(&desk, 10, 100);
    close_desk(&desk);
}

/* Decided late, and goes on all the same. */
struct going {
    struct got got;
    struct remote_limits_ask *ask;
    int kept;
    bool charged;
    struct remote_charge charge;
};

static void on_kept(void *context, const struct remote_charge *charge)
{
    struct going *going = context;

    going->kept++;
    going->charged = charge != NULL;
    if (charge != NULL)
        going->charge = *charge;
}

static void keep_on(void *context, enum tg_err err, const struct tg_axes *axes,
                    const struct remote_charge *charge)
{
    struct going *going = context;

    on_decided(&going->got, err, axes, charge);
    assert_true(remote_limits_keep(going->ask, on_kept));
}

static void be_late(struct desk *desk, struct going *going)
{
    *going = (struct going){.kept = 0};
    net_redis_pause(&server);
    redis_set_timeout(desk->kit.redis, 10);
    going->ask = remote_limits_take(desk->limits, &desk->debit, 0, keep_on, going);
    assert_non_null(going->ask);
    kit_until(&desk->kit.kit, going->got.decided > 0);
    redis_set_timeout(desk->kit.redis, 20000);
}

static void come_back(struct desk *desk)
{
    net_redis_resume(&server);
    settle_down(desk);
    kit_until(&desk->kit.kit, redis_is_up(desk->kit.redis, NULL));
}

static void a_late_yes_that_is_kept_says_what_it_charged(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk);
    be_late(&desk, &going);
    come_back(&desk);
    assert_int_equal(going.kept, 1);
    assert_true(going.charged);
    expect_left(&desk, 9, 80);
    remote_limits_settle(desk.limits, &desk.debit, 0, &going.charge, 5);
    expect_left(&desk, 9, 95);
    close_desk(&desk);
}

static void a_late_yes_may_be_given_back_or_left_before_it_comes(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk);
    be_late(&desk, &going);
    remote_limits_cancel(going.ask);
    come_back(&desk);
    expect_left(&desk, 10, 100);
    be_late(&desk, &going);
    remote_limits_leave(going.ask, -1, true);
    come_back(&desk);
    assert_int_equal(going.kept, 0);
    expect_left(&desk, 9, 80);
    close_desk(&desk);
}

static void what_is_owed_is_told_when_the_server_is_back(void **state)
{
    enum { CALLS = 200 };
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk);
    desk.two[0] = limit_on(TG_AXIS_RATE, "fixed_window:limit=1000,window=9007199254740991");
    desk.debit.cost = 0;
    be_late(&desk, &going); /* from then on it is not asked */
    remote_limits_cancel(going.ask);
    for (int i = 0; i < CALLS; i++)
        remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    come_back(&desk);
    expect_left(&desk, 1000 - CALLS, 100);
    close_desk(&desk);
}

static void what_is_owed_is_forgotten_when_its_limit_would_have_made_it_good(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk);
    desk.two[0] = limit_on(TG_AXIS_RATE, "gcra:limit=1000,period=9007199254740991,burst=10");
    desk.debit.cost = 20;
    be_late(&desk, &going);
    remote_limits_cancel(going.ask);
    desk.two[0] = limit_on(TG_AXIS_RATE, "gcra:limit=10,period=10");
    desk.scope.n = 1;
    for (int i = 0; i < 50; i++)
        remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    desk.scope.n = 2;
    kit_until(&desk.kit.kit, remote_limits_in_flight(desk.limits) == 1); /* the late one */
    come_back(&desk);
    expect_left(&desk, 10, 100);
    close_desk(&desk);
}

static void a_peek_charges_nothing(void **state)
{
    struct desk desk;

    (void)state;
    open_desk(&desk);
    expect_left(&desk, 10, 100);
    expect_left(&desk, 10, 100);
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 0);
    close_desk(&desk);
}

static void refunds_and_settlements_find_their_charge(void **state)
{
    struct desk desk;
    struct got first, second;

    (void)state;
    open_desk(&desk);
    take_now(&desk, &first);
    take_now(&desk, &second);
    expect_left(&desk, 8, 60);
    remote_limits_refund(desk.limits, &desk.debit, 0, &first.charge);
    expect_left(&desk, 9, 80);
    remote_limits_settle(desk.limits, &desk.debit, 0, &second.charge, 5);
    expect_left(&desk, 9, 95);
    /* The estimate was right: there is nothing to be sent. */
    remote_limits_settle(desk.limits, &desk.debit, 0, &second.charge, 20);
    assert_int_equal(remote_limits_in_flight(desk.limits), 0);
    take_now(&desk, &first);
    remote_limits_settle(desk.limits, &desk.debit, 0, &first.charge, 500);
    expect_left(&desk, 8, 0);
    close_desk(&desk);
}

/* Limits in shadow: charged where they allow, not where they would not, and given back so. */
static void what_shadow_did_not_charge_is_not_given_back(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    desk.two[1].mode = TG_SHADOW;
    desk.debit.cost = 70;
    take_now(&desk, &got);
    assert_int_equal(got.charge.uncharged[0], 0);
    struct remote_charge first = got.charge;
    take_now(&desk, &got);
    assert_int_equal(tg_axes_binding(&got.axes), TG_AXIS_NONE);
    assert_int_equal(got.axes.would_deny, 1u << TG_AXIS_COST);
    assert_int_equal(got.charge.uncharged[0], 1u << 1);
    remote_limits_refund(desk.limits, &desk.debit, 0, &got.charge);
    expect_left(&desk, 9, 30);
    remote_limits_refund(desk.limits, &desk.debit, 0, &first);
    expect_left(&desk, 10, 100);
    close_desk(&desk);
}

static void scripts_that_the_server_forgot_are_sent_again(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    take_now(&desk, &got);
    net_redis_do(&server, "SCRIPT FLUSH");
    take_now(&desk, &got);
    assert_int_equal(got.err, TG_OK);
    net_redis_do(&server, "SCRIPT FLUSH");
    remote_limits_refund(desk.limits, &desk.debit, 0, &got.charge);
    expect_left(&desk, 9, 80);
    close_desk(&desk);
}

/* ---- what goes wrong ---- */

static void a_state_that_is_none_is_an_error_and_charges_nothing(void **state)
{
    struct desk desk;
    struct got got;

    (void)state;
    open_desk(&desk);
    const char *rate = "t:rate:{root}:tenant/a:a:fixed_window=9007199254740991";
    const char *cost = "t:cost:{root}:tenant/a:a:fixed_window=9007199254740991";
    net_redis_do(&server, "LPUSH %s x", cost); /* a key of another type */
    take_now(&desk, &got);
    assert_int_equal(got.err, TG_ERR_STORE);
    assert_int_equal(net_redis_integer(&server, "EXISTS %s", rate), 0);
    net_redis_do(&server, "SET %s short", cost);
    take_now(&desk, &got);
    assert_int_equal(got.err, TG_ERR_STORE);
    assert_int_equal(net_redis_integer(&server, "EXISTS %s", rate), 0);
    net_redis_do(&server, "DEL %s", cost);
    take_now(&desk, &got);
    assert_int_equal(got.err, TG_OK);
    close_desk(&desk);
}

static void without_a_server_there_is_no_decision_and_no_wait(void **state)
{
    struct net_redis own = {.pid = 0};
    struct desk desk;
    struct got got[3];

    (void)state;
    net_redis_start(&own, NULL);
    redis_kit_init_server(&desk.kit, &own);
    open_limits(&desk);
    take_now(&desk, &got[0]);
    assert_int_equal(got[0].err, TG_OK);
    net_redis_kill(&own);
    take(&desk, &got[0]);
    take(&desk, &got[1]);
    remote_limits_cancel(take(&desk, &got[2]));
    settle_down(&desk);
    assert_int_equal(got[0].decided, 1);
    assert_int_equal(got[0].err, TG_ERR_STORE);
    assert_int_equal(got[1].err, TG_ERR_STORE);
    assert_int_equal(got[2].decided, 0);
    take_now(&desk, &got[0]);
    assert_int_equal(got[0].err, TG_ERR_STORE);
    remote_limits_refund(desk.limits, &desk.debit, 0, &got[0].charge);
    assert_int_equal(remote_limits_in_flight(desk.limits), 1); /* the one that waits */
    net_redis_again(&own);
    kit_until(&desk.kit.kit, redis_is_up(desk.kit.redis, NULL));
    settle_down(&desk);
    take_now(&desk, &got[0]);
    assert_int_equal(got[0].err, TG_OK);
    close_desk(&desk);
    net_redis_free(&own);
}

static void the_end_of_the_client_decides_what_is_on_its_way(void **state)
{
    struct desk desk;
    struct got got[2];

    (void)state;
    open_desk(&desk);
    take(&desk, &got[0]);
    remote_limits_cancel(take(&desk, &got[1]));
    close_desk(&desk);
    assert_int_equal(got[0].decided, 1);
    assert_int_equal(got[0].err, TG_ERR_STORE);
    assert_int_equal(got[1].decided, 0);
}

static void what_cannot_be_a_debit_is_not_asked(void **state)
{
    struct desk desk;
    struct got got = {.decided = 0};

    (void)state;
    open_desk(&desk);
    desk.debit.cost = -1;
    assert_null(remote_limits_take(desk.limits, &desk.debit, 0, on_decided, &got));
    desk.debit.cost = 1;
    desk.debit.n_scopes = 0;
    assert_null(remote_limits_take(desk.limits, &desk.debit, 0, on_decided, &got));
    desk.debit.n_scopes = TG_SCOPES_MAX + 1;
    assert_null(remote_limits_take(desk.limits, &desk.debit, 0, on_decided, &got));
    desk.debit.n_scopes = 1;
    assert_null(remote_limits_take(desk.limits, &desk.debit, -1, on_decided, &got));
    /* A limiter of an embedder's own: Redis does not know its table. */
    struct tg_limiter_ops own = *desk.two[0].limiter.ops;
    char name[] = "own";
    own.name = name;
    desk.two[0].limiter.ops = &own;
    assert_null(remote_limits_take(desk.limits, &desk.debit, 0, on_decided, &got));
    assert_int_equal(remote_limits_in_flight(desk.limits), 0);
    close_desk(&desk);
}

/* ---- names ---- */

static void names_of_others_stay_in_their_slot(void **state)
{
    struct desk desk;
    struct got got;
    const struct slice odd[] = {SLICE("}{"), SLICE("a:b"), SLICE(""), SLICE("%7D"),
                                SLICE("two words"), SLICE("\xc3\xa4")};

    (void)state;
    open_desk(&desk);
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        desk.debit.root = desk.scope.name = desk.scope.key = odd[i];
        take_now(&desk, &got);
        assert_int_equal(got.axes.decision[TG_AXIS_RATE].remaining, 9);
    }
    redisReply *keys = net_redis_ask(&server, "KEYS t:*");
    assert_int_equal(keys->elements, 2 * COUNT_OF(odd));
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        assert_int_equal(strspn(key, "t:raecos"), strchr(key, '{') - key);
        assert_ptr_equal(strchr(key, '{'), strrchr(key, '{'));
        assert_ptr_equal(strchr(key, '}'), strrchr(key, '}'));
        assert_true(strchr(key, '}') - strchr(key, '{') > 1);
    }
    freeReplyObject(keys);
    close_desk(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_take_is_decided_by_the_servers_clock),
        cmocka_unit_test(a_thousand_at_once_are_each_decided_once),
        cmocka_unit_test(a_debit_may_be_forgotten_at_once),
        cmocka_unit_test(a_cancelled_yes_is_given_back),
        cmocka_unit_test(a_cancelled_no_gives_back_what_rate_took),
        cmocka_unit_test(a_yes_that_comes_too_late_is_given_back),
        cmocka_unit_test(a_late_yes_that_is_kept_says_what_it_charged),
        cmocka_unit_test(a_late_yes_may_be_given_back_or_left_before_it_comes),
        cmocka_unit_test(what_is_owed_is_told_when_the_server_is_back),
        cmocka_unit_test(what_is_owed_is_forgotten_when_its_limit_would_have_made_it_good),
        cmocka_unit_test(a_peek_charges_nothing),
        cmocka_unit_test(refunds_and_settlements_find_their_charge),
        cmocka_unit_test(what_shadow_did_not_charge_is_not_given_back),
        cmocka_unit_test(scripts_that_the_server_forgot_are_sent_again),
        cmocka_unit_test(a_state_that_is_none_is_an_error_and_charges_nothing),
        cmocka_unit_test(without_a_server_there_is_no_decision_and_no_wait),
        cmocka_unit_test(the_end_of_the_client_decides_what_is_on_its_way),
        cmocka_unit_test(what_cannot_be_a_debit_is_not_asked),
        cmocka_unit_test(names_of_others_stay_in_their_slot),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
