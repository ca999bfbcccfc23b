/* test_remote_limits_told.c - what Redis is told of limits arrives, once, whatever breaks: refunds,
 * settlements, and what was admitted without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/redis/redis_internal.h"
#include "keyed.h"
#include "net_redis_kit.h"
#include "redis_group.h"
#include "server/remote_store/remote_limits.h"
#include "server/remote_store/scripts.h"

/* A client, a limit of cost that stays spent, and one of rate. */
struct desk {
    struct redis_kit kit;
    bool patient; /* with a server that is stopped: the connection lasts */
    struct remote_limits *limits;
    struct tg_limit two[2];
    struct remote_scope scope;
    struct remote_debit debit;
};

struct going {
    struct remote_limits_ask *ask;
    bool keeps;
    int decided, kept;
    enum tg_err err;
    bool charged; /* what kept() said */
    struct remote_charge charge;
};

static const char RATE[] = "t:rate:{root}:tenant/a:a:fixed_window=9007199254740991";
static const char COST[] = "t:cost:{root}:tenant/a:a:fixed_window=9007199254740991";

/* A server that does not know a script does nothing, and says so: to a connection that is gone,
 * that is a command which was not done. */
static void teach(bool knows)
{
    const struct redis_script *scripts[] = {&script_take, &script_refund, &script_settle,
                                            &script_owe};

    net_redis_do(&server, "SCRIPT FLUSH");
    for (size_t i = 0; knows && i < COUNT_OF(scripts); i++)
        freeReplyObject(net_redis_ask(&server, "SCRIPT LOAD %b", scripts[i]->text.at,
                                      scripts[i]->text.n));
}

static void open_desk(struct desk *desk, const char *holder)
{
    struct remote_limits_options options;

    net_redis_do(&server, "FLUSHALL");
    teach(true);
    redis_kit_init_server(&desk->kit, &server);
    desk->patient = false;
    desk->kit.options.health = 40; /* so often it is looked whether the connection is good */
    redis_kit_open_up(&desk->kit);
    remote_limits_options_init(&options);
    options.redis = desk->kit.redis;
    options.prefix = "t";
    options.holder = holder;
    assert_int_equal(remote_limits_new(&options, &desk->limits), TG_OK);
    desk->two[0] = limit_on(TG_AXIS_RATE, "fixed_window:limit=10,window=9007199254740991");
    desk->two[1] = limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=9007199254740991");
    desk->scope = (struct remote_scope){SLICE("tenant/a"), SLICE("a"), desk->two, 2};
    desk->debit = (struct remote_debit){
        .root = SLICE("root"), .scopes = &desk->scope, .n_scopes = 1, .cost = 20};
}

/* A connection to a server that does not answer because it is stopped is soon given up; one to a
 * server that is slow is not, however busy the machine. */
static void stop_server(struct desk *desk)
{
    net_redis_pause(&server);
    if (!desk->patient)
        desk->kit.redis->options.patience = 60;
}

static void continue_server(struct desk *desk)
{
    desk->kit.redis->options.patience = 60000;
    net_redis_resume(&server);
}

static void close_desk(struct desk *desk)
{
    redis_free(desk->kit.redis);
    desk->kit.redis = NULL;
    remote_limits_free(desk->limits);
    redis_kit_free(&desk->kit);
}

static struct remote_limits_stats told_of(const struct desk *desk)
{
    struct remote_limits_stats stats;

    remote_limits_get_stats(desk->limits, &stats);
    return stats;
}

static void on_kept(void *context, const struct remote_charge *charge)
{
    struct going *going = context;

    going->kept++;
    going->charged = charge != NULL;
    if (charge != NULL)
        going->charge = *charge;
}

static void on_decided(void *context, enum tg_err err, const struct tg_axes *axes,
                       const struct remote_charge *charge)
{
    struct going *going = context;

    (void)axes;
    going->decided++;
    going->err = err;
    if (err == TG_OK)
        going->charge = *charge;
    else if (going->keeps)
        assert_true(remote_limits_keep(going->ask, on_kept));
}

static void take(struct desk *desk, struct going *going)
{
    *going = (struct going){.decided = 0};
    going->ask = remote_limits_take(desk->limits, &desk->debit, 0, on_decided, going);
    assert_non_null(going->ask);
    redis_kit_until(&desk->kit, going->decided > 0);
    assert_int_equal(going->err, TG_OK);
}

/* A server that is stopped, which the client knows from a question that is late. It is kept on. */
static void be_late(struct desk *desk, struct going *going)
{
    stop_server(desk);
    redis_set_timeout(desk->kit.redis, 5);
    *going = (struct going){.keeps = true};
    going->ask = remote_limits_take(desk->limits, &desk->debit, 0, on_decided, going);
    assert_non_null(going->ask);
    redis_kit_until(&desk->kit, going->decided > 0);
    assert_int_equal(going->err, TG_ERR_STORE);
    redis_set_timeout(desk->kit.redis, 20000);
}

static void come_back(struct desk *desk)
{
    continue_server(desk);
    redis_kit_until(&desk->kit, remote_limits_in_flight(desk->limits) == 0);
    redis_kit_until(&desk->kit, redis_is_up(desk->kit.redis, NULL));
}

/* A charge in a window that never ends. */
static long long used_of(const char *key)
{
    return net_redis_integer(&server, "EVAL %s 1 %s",
                             "local s = redis.call('GET', KEYS[1]) if not s then return 0 end "
                             "local _, used = struct.unpack('<dd', s) return used",
                             key);
}

static void expect_used(long long rate, long long cost)
{
    assert_int_equal(used_of(RATE), rate);
    assert_int_equal(used_of(COST), cost);
}

/* ---- */

static void what_is_told_while_redis_is_away_arrives_when_it_is_back(void **state)
{
    struct desk desk;
    struct going refunded, settled, late;

    (void)state;
    open_desk(&desk, "h");
    take(&desk, &refunded);
    take(&desk, &settled);
    be_late(&desk, &late);
    /* The connection breaks: nobody knows of the late one. The others are never sent. */
    redis_kit_until(&desk.kit, late.kept > 0);
    assert_false(late.charged);
    remote_limits_refund(desk.limits, &desk.debit, 0, &refunded.charge);
    remote_limits_settle(desk.limits, &desk.debit, 0, &settled.charge, 7);
    assert_int_equal(told_of(&desk).waiting, 2);
    come_back(&desk);
    /* One that was settled, and the late one, which the server had got and has charged. */
    expect_used(2, 27);
    assert_int_equal(told_of(&desk).waiting, 0);
    assert_int_equal(told_of(&desk).dropped, 0);
    close_desk(&desk);
}

/* The server has got it, and does it when it goes on, if it can: the connection is gone then. */
static void break_the_connection(struct desk *desk)
{
    redis_kit_until(&desk->kit, told_of(desk).waiting == 1);
    come_back(desk);
    assert_int_equal(told_of(desk).dropped, 0);
}

static void refund_in_doubt(struct desk *desk, bool is_done)
{
    struct going first, second;

    take(desk, &first);
    take(desk, &second);
    teach(is_done);
    stop_server(desk);
    remote_limits_refund(desk->limits, &desk->debit, 0, &first.charge);
    break_the_connection(desk);
    expect_used(1, 20);
}

static void settle_in_doubt(struct desk *desk, bool is_done)
{
    struct going going;

    take(desk, &going);
    take(desk, &going);
    teach(is_done);
    stop_server(desk);
    remote_limits_settle(desk->limits, &desk->debit, 0, &going.charge, 15);
    break_the_connection(desk);
    expect_used(2, 35);
    teach(is_done);
    stop_server(desk);
    remote_limits_settle(desk->limits, &desk->debit, 0, &going.charge, 50);
    break_the_connection(desk);
    expect_used(2, 65);
}

static void owe_in_doubt(struct desk *desk, bool is_done)
{
    teach(is_done);
    stop_server(desk);
    remote_limits_add_debt(desk->limits, &desk->debit, 0, net_loop_now(desk->kit.kit.loop));
    break_the_connection(desk);
    expect_used(1, 20);
}

static void what_is_in_doubt_is_told_again_and_done_once(void **state)
{
    typedef void in_doubt(struct desk * desk, bool is_done);
    static in_doubt *const kinds[] = {refund_in_doubt, settle_in_doubt, owe_in_doubt};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        for (int is_done = 0; is_done <= 1; is_done++) {
            struct desk desk;
            open_desk(&desk, "h");
            kinds[i](&desk, is_done);
            close_desk(&desk);
        }
}

/* What the first one did was lost with the data, and so was its mark. */
static void what_is_told_again_to_a_server_that_forgot_is_done(void **state)
{
    struct desk desk;

    (void)state;
    open_desk(&desk, "h");
    stop_server(&desk);
    remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    redis_kit_until(&desk.kit, told_of(&desk).waiting == 1);
    desk.kit.redis->options.patience = 60000;
    net_redis_kill(&server);
    net_redis_again(&server);
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    expect_used(1, 20);
    close_desk(&desk);
}

static void many_of_one_tenant_are_each_done(void **state)
{
    enum { CALLS = 1500 };
    struct desk desk;

    (void)state;
    open_desk(&desk, "h");
    for (int i = 0; i < CALLS; i++)
        remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    expect_used(CALLS, 20 * CALLS);
    /* Marks are few: one for 512 calls. */
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 2 + CALLS / 512 + 1);
    close_desk(&desk);
}

static void two_workers_do_not_take_each_others_marks_for_theirs(void **state)
{
    struct desk one, two;

    (void)state;
    open_desk(&one, "one");
    open_desk(&two, "two");
    remote_limits_add_debt(one.limits, &one.debit, 0, net_loop_now(one.kit.kit.loop));
    redis_kit_until(&one.kit, remote_limits_in_flight(one.limits) == 0);
    remote_limits_add_debt(two.limits, &two.debit, 0, net_loop_now(two.kit.kit.loop));
    redis_kit_until(&two.kit, remote_limits_in_flight(two.limits) == 0);
    expect_used(2, 40);
    close_desk(&one);
    close_desk(&two);
}

static void without_a_holder_what_is_in_doubt_is_dropped_and_counted(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk, NULL);
    take(&desk, &going);
    stop_server(&desk);
    remote_limits_refund(desk.limits, &desk.debit, 0, &going.charge);
    redis_kit_until(&desk.kit, told_of(&desk).dropped == 1);
    come_back(&desk);
    expect_used(0, 0); /* the server had got it */
    close_desk(&desk);
}

/* The window is over when the connection breaks: nobody misses it. */
static void what_is_pointless_by_then_is_not_counted_as_dropped(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk, NULL);
    desk.two[0] = limit_on(TG_AXIS_RATE, "fixed_window:limit=10,window=50");
    desk.two[1] = limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=50");
    take(&desk, &going);
    stop_server(&desk);
    remote_limits_refund(desk.limits, &desk.debit, 0, &going.charge);
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    assert_int_equal(told_of(&desk).dropped, 0);
    come_back(&desk);
    close_desk(&desk);
}

static void what_the_server_cannot_do_is_dropped_and_counted(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk, "h");
    take(&desk, &going);
    net_redis_do(&server, "DEL %s", COST);
    net_redis_do(&server, "LPUSH %s x", COST);
    remote_limits_settle(desk.limits, &desk.debit, 0, &going.charge, 7);
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    assert_int_equal(told_of(&desk).dropped, 1);
    close_desk(&desk);
}

static void a_server_without_room_is_told_when_it_has_some(void **state)
{
    struct desk desk;
    struct going going;

    (void)state;
    open_desk(&desk, "h");
    take(&desk, &going);
    net_redis_do(&server, "CONFIG SET maxmemory 1");
    remote_limits_refund(desk.limits, &desk.debit, 0, &going.charge);
    redis_kit_until(&desk.kit, told_of(&desk).waiting == 1);
    expect_used(1, 20);
    net_redis_do(&server, "CONFIG SET maxmemory 0");
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    expect_used(0, 0);
    assert_int_equal(told_of(&desk).dropped, 0);
    close_desk(&desk);
}

static void of_too_many_the_oldest_is_dropped_and_counted(void **state)
{
    enum { MOST = 20000 };
    struct desk desk;
    struct going late;

    (void)state;
    open_desk(&desk, "h");
    be_late(&desk, &late);
    redis_kit_until(&desk.kit, late.kept > 0);
    remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    desk.debit.cost = 0;
    for (int i = 0; i < MOST; i++)
        remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    assert_int_equal(told_of(&desk).waiting, MOST);
    assert_int_equal(told_of(&desk).dropped, 1);
    continue_server(&desk);
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) < MOST);
    redis_kit_until(&desk.kit, used_of(RATE) > 1);
    assert_int_equal(used_of(COST), 20); /* the units of the late one */
    close_desk(&desk);
}

static void what_waits_at_the_end_is_freed(void **state)
{
    struct desk desk;
    struct going late;

    (void)state;
    open_desk(&desk, "h");
    be_late(&desk, &late);
    for (int i = 0; i < 10; i++)
        remote_limits_add_debt(desk.limits, &desk.debit, 0, net_loop_now(desk.kit.kit.loop));
    assert_int_equal(told_of(&desk).waiting, 10);
    close_desk(&desk);
    net_redis_resume(&server);
}

/* ---- late answers ---- */

static void fill(struct desk *desk, int64_t cost)
{
    struct going going;

    desk->debit.cost = cost;
    take(desk, &going);
    desk->debit.cost = 20;
}

/* Unlike the other tests, here the connection lasts. */
static void be_late_for_a_moment(struct desk *desk, struct going *going)
{
    be_late(desk, going);
    continue_server(desk);
}

static void open_patient_desk(struct desk *desk)
{
    open_desk(desk, "h");
    desk->patient = true;
}

static void a_late_no_that_is_kept_has_charged_nothing(void **state)
{
    for (int charging = TG_CHARGE_ATOMIC; charging <= TG_CHARGE_PER_AXIS; charging++) {
        struct desk desk;
        struct going going;

        (void)state;
        open_patient_desk(&desk);
        fill(&desk, 90);
        desk.debit.charging = (enum tg_charging)charging;
        be_late_for_a_moment(&desk, &going);
        redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
        assert_int_equal(going.kept, 1);
        assert_false(going.charged);
        expect_used(1, 90);
        close_desk(&desk);
    }
}

/* The call has ended before the answer comes: then what it used is charged, all of it and once. */
static void a_call_that_left_is_charged_what_it_used(void **state)
{
    static const struct {
        int64_t before, actual;
        bool owes;
        long long rate, cost;
    } rows[] = {
        {10, 7, true, 2, 17},   /* a yes is settled */
        {10, 30, true, 2, 40},  /* also to more */
        {10, -1, true, 2, 30},  /* or stands */
        {90, 7, true, 2, 97},   /* a no is owed */
        {90, 30, true, 2, 120}, /* whatever there is */
        {90, -1, true, 2, 110}, /* used what was estimated */
        {90, 0, true, 2, 90},   /* and it was a call */
        {90, 7, false, 1, 90},  /* unless there was no limit then */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int charging = TG_CHARGE_ATOMIC; charging <= TG_CHARGE_PER_AXIS; charging++) {
            struct desk desk;
            struct going going;

            open_patient_desk(&desk);
            fill(&desk, rows[i].before);
            desk.debit.charging = (enum tg_charging)charging;
            be_late(&desk, &going);
            remote_limits_leave(going.ask, rows[i].actual, rows[i].owes);
            come_back(&desk);
            assert_int_equal(going.kept, 0);
            /* By per-axis charging a no has charged the rate, and that may stand. */
            long long more = !rows[i].owes && charging == TG_CHARGE_PER_AXIS;
            expect_used(rows[i].rate + more, rows[i].cost);
            close_desk(&desk);
        }
}

static void what_is_old_is_charged_to_its_window_or_not_at_all(void **state)
{
    struct desk desk;

    (void)state;
    open_desk(&desk, "h");
    desk.two[0] = limit_on(TG_AXIS_RATE, "gcra:limit=1,period=3600000,burst=100");
    tg_ms now = net_loop_now(desk.kit.kit.loop);
    remote_limits_add_debt(desk.limits, &desk.debit, 0, now - 61000);
    redis_kit_until(&desk.kit, remote_limits_in_flight(desk.limits) == 0);
    /* A minute is too long for a rate, and nothing for a window without an end. */
    assert_int_equal(used_of(COST), 20);
    assert_int_equal(net_redis_integer(&server, "DBSIZE"), 2); /* the key, and a mark */
    desk.two[1] = limit_on(TG_AXIS_COST, "fixed_window:limit=100,window=60000");
    remote_limits_add_debt(desk.limits, &desk.debit, 0, now - 61000);
    assert_int_equal(remote_limits_in_flight(desk.limits), 0); /* the window is over */
    close_desk(&desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_told_while_redis_is_away_arrives_when_it_is_back),
        cmocka_unit_test(what_is_in_doubt_is_told_again_and_done_once),
        cmocka_unit_test(what_is_told_again_to_a_server_that_forgot_is_done),
        cmocka_unit_test(many_of_one_tenant_are_each_done),
        cmocka_unit_test(two_workers_do_not_take_each_others_marks_for_theirs),
        cmocka_unit_test(without_a_holder_what_is_in_doubt_is_dropped_and_counted),
        cmocka_unit_test(what_is_pointless_by_then_is_not_counted_as_dropped),
        cmocka_unit_test(what_the_server_cannot_do_is_dropped_and_counted),
        cmocka_unit_test(a_server_without_room_is_told_when_it_has_some),
        cmocka_unit_test(of_too_many_the_oldest_is_dropped_and_counted),
        cmocka_unit_test(what_waits_at_the_end_is_freed),
        cmocka_unit_test(a_late_no_that_is_kept_has_charged_nothing),
        cmocka_unit_test(a_call_that_left_is_charged_what_it_used),
        cmocka_unit_test(what_is_old_is_charged_to_its_window_or_not_at_all),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
