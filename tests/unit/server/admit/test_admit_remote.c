/* test_admit_remote.c - decisions for callers when rate and cost are in Redis, for two gateways. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "net_admit_kit.h"
#include "net_redis.h"
#include "server/admit/admit_internal.h"
#include "server/remote/remote.h"
#include "server/runtime/gateway.h"

static struct net_redis redis;
static struct admit_kit one, two;

static void open_with(const char *failure, const char *limits)
{
    char yaml[1000];
    /* Each decision is Redis' own, unless a test says otherwise. */
    const char *strict = strstr(failure, "two_tier") ? "" : "\ntwo_tier: {enabled: false}";

    net_redis_start(&redis, NULL);
    snprintf(yaml, sizeof yaml,
             "store: redis://127.0.0.1:%d\n"
             "store_failure: {%s%s\n" KIT_GATE "%s",
             redis.port, failure, strict, limits);
    kit_open(&one, yaml);
    kit_open(&two, yaml);
}

static void open_both(const char *limits)
{
    open_with("limits: closed}", limits);
}

static void close_both(void)
{
    kit_close(&one);
    kit_close(&two);
    net_redis_free(&redis);
}

static void turn(void)
{
    kit_turn(&one);
    kit_turn(&two);
}

/* Until it is so. What never becomes so ends with the test's time. */
#define await(condition) \
    do                   \
        turn();          \
    while (!(condition))

static void asked(struct admit_kit *kit, size_t worker, int64_t cost, bool limits_only,
                  struct kit_answer *answer)
{
    struct admit_ask ask;

    admit_ask_init(&ask);
    ask.cost = cost;
    ask.limits_only = limits_only;
    kit_ask(kit, worker, "none", &ask, answer);
    await(answer->told);
}

/* A connection takes a moment: until then a question is an error. */
static void connected(struct admit_kit *kit)
{
    struct kit_answer answer;

    for (size_t worker = 0; worker < 2; worker++)
        do
            asked(kit, worker, 0, true, &answer);
        while (answer.reply.status == ADMIT_UNAVAILABLE);
}

static bool grant(struct admit_kit *kit, size_t worker, int64_t cost, bool limits_only)
{
    struct kit_answer answer;

    asked(kit, worker, cost, limits_only, &answer);
    assert_int_equal(answer.reply.status, ADMIT_DECIDED);
    return answer.reply.allowed;
}

#define TEN "  cost: {strategy: token_bucket, capacity: 10, refill: 0.00001}\n"

static void gateways_count_together(void **state)
{
    (void)state;
    open_both(TEN);
    connected(&one);
    connected(&two);
    assert_true(grant(&one, 0, 4, true));
    assert_true(grant(&two, 1, 4, false));
    assert_false(grant(&one, 1, 4, false));
    assert_false(grant(&two, 0, 4, true));
    assert_true(grant(&one, 1, 2, true));
    assert_int_equal(kit_stats(&one).in_flight, 0);
    assert_int_equal(kit_stats(&two).in_flight, 1);
    close_both();
}

/* The longest that a configuration may have. */
static void a_long_prefix_is_that_of_all_keys(void **state)
{
    char prefix[129], failure[200];

    (void)state;
    memset(prefix, 'p', 128);
    prefix[128] = '\0';
    snprintf(failure, sizeof failure, "limits: closed}\nstore_prefix: %s", prefix);
    open_with(failure, TEN);
    connected(&one);
    connected(&two);
    assert_true(grant(&one, 0, 6, true));
    assert_false(grant(&two, 0, 6, true));
    assert_int_equal(net_redis_integer(&redis, "EVAL %s 0 %s",
                                       "return #redis.call('KEYS', ARGV[1] .. ':cost:*')", prefix),
                     1);
    close_both();
}

static void settle(struct admit_kit *kit, size_t worker, const struct kit_answer *answer,
                   int64_t actual)
{
    struct admit_caller caller;
    struct tg_release release;
    struct admit_reply error;
    bool found = false;

    tg_release_init(&release);
    release.actual = actual;
    assert_true(kit_caller(kit, "none", &caller));
    admit_release(&kit->workers[worker], &caller,
                  (struct slice){answer->reply.lease, answer->reply.lease_bytes}, &release, &found,
                  &error);
    assert_true(found);
    assert_int_equal(admit_count_bound(kit->gateway), 0);
}

static void what_was_used_is_settled_by_whichever_worker(void **state)
{
    struct kit_answer answer;

    (void)state;
    open_both(TEN);
    connected(&one);
    connected(&two);
    for (size_t worker = 0; worker < 2; worker++) {
        asked(&one, 0, 5 - (int64_t)worker, false, &answer);
        assert_true(answer.reply.allowed);
        assert_int_equal(admit_count_bound(one.gateway), 1);
        settle(&one, worker, &answer, 1);
        await(LIST_EMPTY(&one.workers[0].admit->accounts));
    }
    await(grant(&two, 0, 8, true)); /* ten, less one and one: as soon as Redis has it */
    assert_false(grant(&two, 0, 1, true));
    close_both();
}

static void who_leaves_while_redis_is_asked_has_taken_nothing(void **state)
{
    struct kit_answer answer;
    struct admit_ask ask;

    (void)state;
    open_both(TEN);
    connected(&one);
    connected(&two);
    admit_ask_init(&ask);
    ask.cost = 10;
    for (int limits_only = 0; limits_only < 2; limits_only++) {
        ask.limits_only = limits_only;
        kit_ask(&one, 0, "none", &ask, &answer);
        assert_non_null(answer.pending);
        admit_cancel(answer.pending);
        assert_int_equal(kit_stats(&one).in_flight, 0);
        assert_int_equal(kit_stats(&one).leases, 0);
    }
    asked(&one, 0, 0, true, &answer); /* what was on its way has come back by now */
    await(grant(&one, 0, 10, true));
    assert_false(answer.pending != NULL);
    close_both();
}

/* The struct of a question is used again; what it held before is not its any more. */
static void who_leaves_takes_nobody_elses_lease_along(void **state)
{
    struct kit_answer holds, leaves;
    struct admit_ask ask;

    (void)state;
    open_both("  rate: {strategy: gcra, limit: 100, period: 24h}\n");
    connected(&one);
    asked(&one, 0, 1, false, &holds);
    assert_true(holds.reply.allowed);
    admit_ask_init(&ask);
    ask.limits_only = true;
    kit_ask(&one, 0, "none", &ask, &leaves);
    assert_non_null(leaves.pending);
    admit_cancel(leaves.pending);
    assert_int_equal(kit_stats(&one).in_flight, 1);
    assert_true(kit_release(&one, 0, "none", &holds));
    close_both();
}

static void an_account_ends_with_the_time_of_its_lease(void **state)
{
    struct kit_answer answer;

    (void)state;
    open_both(TEN);
    connected(&one);
    asked(&one, 0, 5, false, &answer);
    assert_false(LIST_EMPTY(&one.workers[0].admit->accounts));
    kit_pass(&one, ADMIT_TTL_DEFAULT);
    assert_int_equal(admit_count_bound(one.gateway), 0);
    await(LIST_EMPTY(&one.workers[0].admit->accounts));
    assert_int_equal(kit_stats(&one).leases, 0);
    asked(&one, 0, 1, false, &answer); /* and one that is there at the end ends with it */
    assert_false(LIST_EMPTY(&one.workers[0].admit->accounts));
    close_both();
}

/* ---- answers that come when their call has been decided ---- */

/* What is left in the one bucket that there is; below 0 is what is owed. */
static long long left_in_redis(void)
{
    return net_redis_integer(&redis, "EVAL %s 0",
                             "local key = redis.call('KEYS', '*:cost:*')[1] "
                             "local left = struct.unpack('<d', redis.call('GET', key)) "
                             "return math.floor(left + 0.5)");
}

static bool nothing_is_under_way(void)
{
    return remote_limits_in_flight(one.workers[0].port->limits) == 0;
}

/* Redis has nothing left, and is late with saying so: this gateway lets a call in, by its share. */
static void be_granted_by_a_share(struct kit_answer *answer)
{
    struct admit_ask ask;

    open_with("limits: local}\nstore_timeout: 10s", TEN);
    await(remote_health_of(one.gateway->remote) == REMOTE_WELL &&
          remote_health_of(two.gateway->remote) == REMOTE_WELL);
    assert_true(grant(&two, 0, 10, true));
    net_redis_pause(&redis);
    admit_ask_init(&ask);
    ask.cost = 4;
    kit_ask(&one, 0, "none", &ask, answer);
    assert_false(answer->told);
    kit_pass(&one, 10001);
    await(answer->told);
    assert_true(answer->reply.allowed);
}

static void a_late_no_is_owed_by_a_call_that_was_let_in(void **state)
{
    (void)state;
    for (int before = 0; before <= 1; before++) { /* it ends before the no comes, or after */
        struct kit_answer answer;

        be_granted_by_a_share(&answer);
        if (before)
            settle(&one, 0, &answer, 6);
        net_redis_resume(&redis);
        await(nothing_is_under_way());
        assert_int_equal(left_in_redis(), before ? -6 : 0);
        if (!before)
            settle(&one, 0, &answer, 6);
        await(nothing_is_under_way() && left_in_redis() != 0);
        assert_int_equal(left_in_redis(), -6);
        close_both();
    }
}

static void without_redis_there_is_no_answer(void **state)
{
    struct kit_answer answer;

    (void)state;
    open_both(TEN);
    connected(&one);
    net_redis_kill(&redis);
    for (int limits_only = 0; limits_only < 2; limits_only++) {
        asked(&one, 0, 1, limits_only, &answer);
        assert_int_equal(answer.reply.status, ADMIT_UNAVAILABLE);
        assert_int_equal(kit_stats(&one).leases, 0);
    }
    close_both();
}

/* ---- looking without taking ---- */

static void peeked(struct admit_kit *kit, size_t worker, int64_t cost, bool limits_only,
                   struct kit_answer *answer)
{
    struct admit_ask ask;

    admit_ask_init(&ask);
    ask.cost = cost;
    ask.limits_only = limits_only;
    kit_peek(kit, worker, "none", &ask, answer);
    await(answer->told);
}

static const struct tg_decision *cost_of(const struct kit_answer *answer)
{
    assert_int_equal(answer->reply.status, ADMIT_DECIDED);
    assert_true(answer->reply.axes.present & 1u << TG_AXIS_COST);
    return &answer->reply.axes.decision[TG_AXIS_COST];
}

/* Peek says what Admit itself would answer, which is then asked. */
static void expect_what_an_admit_is_told(struct admit_kit *kit, int64_t cost, bool limits_only)
{
    struct kit_answer seen, told;

    peeked(kit, 0, cost, limits_only, &seen);
    asked(kit, 0, cost, limits_only, &told);
    assert_int_equal(seen.reply.status, told.reply.status);
    assert_string_equal(seen.reply.message, told.reply.message);
    assert_int_equal(seen.reply.lease_bytes, 0);
    if (told.reply.status != ADMIT_DECIDED)
        return;
    assert_int_equal(seen.reply.allowed, told.reply.allowed);
    assert_int_equal(seen.reply.reason, told.reply.reason);
    assert_int_equal(seen.reply.axes.present, told.reply.axes.present);
    if (told.reply.axes.present & 1u << TG_AXIS_COST)
        assert_int_equal(cost_of(&seen)->remaining, cost_of(&told)->remaining);
}

static void a_peek_sees_what_another_gateway_has_charged(void **state)
{
    struct kit_answer answer;

    (void)state;
    open_both(TEN);
    connected(&one);
    connected(&two);
    assert_true(grant(&one, 0, 4, true));
    for (int i = 0; i < 5; i++) { /* and takes nothing */
        peeked(&two, i & 1, 6, i > 1, &answer);
        assert_true(answer.reply.allowed);
        assert_int_equal(cost_of(&answer)->remaining, 0);
        assert_int_equal(answer.reply.lease_bytes, 0);
        peeked(&two, i & 1, 7, i > 1, &answer);
        assert_false(answer.reply.allowed);
        assert_int_equal(answer.reply.reason, TG_REASON_COST);
        assert_int_equal(cost_of(&answer)->remaining, 6);
    }
    assert_int_equal(kit_stats(&two).in_flight, 0);
    expect_what_an_admit_is_told(&two, 6, true);
    expect_what_an_admit_is_told(&one, 1, true);
    close_both();
}

/* What the other holds of it beyond its call depends on how fast that was. */
static void so_does_one_of_two_tiers(void **state)
{
    struct kit_answer answer;

    (void)state;
    open_with("limits: closed}\ntwo_tier: {enabled: true}", TEN);
    await(remote_health_of(one.gateway->remote) == REMOTE_WELL &&
          remote_health_of(two.gateway->remote) == REMOTE_WELL);
    assert_true(grant(&one, 0, 4, true));
    for (int i = 0; i < 5; i++) {
        peeked(&two, 0, 7, false, &answer);
        assert_false(answer.reply.allowed);
        assert_int_equal(answer.reply.reason, TG_REASON_COST);
        assert_true(cost_of(&answer)->remaining <= 6);
    }
    close_both();
}

static void a_stage_that_refuses_leaves_redis_unasked(void **state)
{
    struct kit_answer answer;
    struct admit_ask ask;

    (void)state;
    open_both(TEN);
    connected(&one);
    for (int i = 0; i < 4; i++)
        assert_true(grant(&one, 0, 1, false));
    admit_ask_init(&ask);
    kit_peek(&one, 0, "none", &ask, &answer);
    assert_true(answer.told);
    assert_int_equal(answer.reply.reason, TG_REASON_CONCURRENCY);
    close_both();
}

static void who_leaves_a_peek_leaves_nothing_behind(void **state)
{
    struct kit_answer answer;
    struct admit_ask ask;

    (void)state;
    open_both(TEN);
    connected(&one);
    admit_ask_init(&ask);
    ask.cost = 10;
    for (int i = 0; i < 20; i++) {
        ask.limits_only = i & 1;
        kit_peek(&one, 0, "none", &ask, &answer);
        assert_non_null(answer.pending);
        admit_cancel(answer.pending);
    }
    await(nothing_is_under_way());
    assert_false(answer.told);
    assert_int_equal(kit_stats(&one).leases, 0);
    assert_true(grant(&one, 0, 10, true));
    kit_peek(&one, 0, "none", &ask, &answer); /* and one that is there at the end */
    admit_cancel(answer.pending);
    close_both();
}

static void without_redis_a_peek_is_told_what_an_admit_is(void **state)
{
    static const char *const modes[] = {
        "limits: local}", "limits: open}", "limits: closed}",
        "limits: local}\ntwo_tier: {enabled: true}", "limits: closed}\ntwo_tier: {enabled: true}"};

    (void)state;
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++)
        for (int heard = 0; heard <= 1; heard++) { /* whether Redis has spoken of the limit */
            open_with(modes[mode], TEN);
            await(remote_health_of(one.gateway->remote) == REMOTE_WELL);
            if (heard)
                assert_true(grant(&one, 0, 3, true));
            net_redis_kill(&redis);
            await(remote_health_of(one.gateway->remote) == REMOTE_DOWN);
            for (int64_t cost = 1; cost <= 4; cost++) {
                expect_what_an_admit_is_told(&one, cost, true);
                expect_what_an_admit_is_told(&one, cost, false);
            }
            close_both();
        }
}

static void a_peek_waits_no_longer_than_an_admit(void **state)
{
    static const struct {
        const char *failure;
        enum admit_status status;
        unsigned present;
    } modes[] = {{"limits: local}", ADMIT_DECIDED, 1u << TG_AXIS_COST},
                 {"limits: open}", ADMIT_DECIDED, 0},
                 {"limits: closed}", ADMIT_UNAVAILABLE, 0}};

    (void)state;
    for (size_t mode = 0; mode < COUNT_OF(modes); mode++) {
        struct kit_answer answer;
        struct admit_ask ask;

        open_with(modes[mode].failure, TEN);
        await(remote_health_of(one.gateway->remote) == REMOTE_WELL);
        net_redis_pause(&redis);
        admit_ask_init(&ask);
        ask.limits_only = true;
        kit_peek(&one, 0, "none", &ask, &answer);
        assert_false(answer.told);
        kit_pass(&one, 10001); /* store_timeout of the kit */
        await(answer.told);
        assert_int_equal(answer.reply.status, modes[mode].status);
        assert_int_equal(answer.reply.allowed, modes[mode].status == ADMIT_DECIDED);
        if (modes[mode].status == ADMIT_DECIDED)
            assert_int_equal(answer.reply.axes.present, modes[mode].present);
        net_redis_resume(&redis);
        await(nothing_is_under_way()); /* what comes late is nobody's */
        close_both();
    }
}

/* ---- a Redis of no use ---- */

static void what_a_server_says_is_why_it_is_of_no_use(void **state)
{
    struct remote_port *beats;
    struct tg_problem problem;
    char why[240];

    (void)state;
    open_with("limits: local}", TEN);
    assert_true(remote_port_new(one.gateway->remote, one.workers[0].loop, true, &beats, &problem));
    await(remote_health_of(one.gateway->remote) == REMOTE_WELL);
    assert_true(grant(&one, 0, 1, true));
    net_redis_do(&redis, "EVAL %s 0",
                 "local key = redis.call('KEYS', '*:cost:*')[1] redis.call('DEL', key) "
                 "redis.call('RPUSH', key, 'none of ours')");
    while (remote_health_of(one.gateway->remote) != REMOTE_DEGRADED) {
        for (int i = 0; i < 20; i++)
            grant(&one, 0, 1, true);
        kit_pass(&one, 1000);
    }
    remote_problem(one.gateway->remote, why, sizeof why);
    assert_non_null(strstr(why, "WRONGTYPE"));
    remote_port_free(beats);
    close_both();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gateways_count_together),
        cmocka_unit_test(a_long_prefix_is_that_of_all_keys),
        cmocka_unit_test(what_was_used_is_settled_by_whichever_worker),
        cmocka_unit_test(who_leaves_while_redis_is_asked_has_taken_nothing),
        cmocka_unit_test(who_leaves_takes_nobody_elses_lease_along),
        cmocka_unit_test(an_account_ends_with_the_time_of_its_lease),
        cmocka_unit_test(a_late_no_is_owed_by_a_call_that_was_let_in),
        cmocka_unit_test(without_redis_there_is_no_answer),
        cmocka_unit_test(a_peek_sees_what_another_gateway_has_charged),
        cmocka_unit_test(so_does_one_of_two_tiers),
        cmocka_unit_test(a_stage_that_refuses_leaves_redis_unasked),
        cmocka_unit_test(who_leaves_a_peek_leaves_nothing_behind),
        cmocka_unit_test(without_redis_a_peek_is_told_what_an_admit_is),
        cmocka_unit_test(a_peek_waits_no_longer_than_an_admit),
        cmocka_unit_test(what_a_server_says_is_why_it_is_of_no_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
