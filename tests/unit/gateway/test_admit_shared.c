/* test_admit_shared.c - decisions for callers when rate and cost are in Redis, for two gateways. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/shared.h"
#include "net_admit_kit.h"
#include "net_redis.h"

static struct net_redis redis;
static struct admit_kit one, two;

static void open_with(const char *failure, const char *limits)
{
    char yaml[1000];

    net_redis_start(&redis, NULL);
    snprintf(yaml, sizeof yaml,
             "store: redis://127.0.0.1:%d\n"
             "store_failure: {%s\n" KIT_GATE "%s",
             redis.port, failure, limits);
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

static bool let_in(struct admit_kit *kit, size_t worker, int64_t cost, bool limits_only)
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
    assert_true(let_in(&one, 0, 4, true));
    assert_true(let_in(&two, 1, 4, false));
    assert_false(let_in(&one, 1, 4, false));
    assert_false(let_in(&two, 0, 4, true));
    assert_true(let_in(&one, 1, 2, true));
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
    assert_true(let_in(&one, 0, 6, true));
    assert_false(let_in(&two, 0, 6, true));
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
    assert_int_equal(admit_count_ties(kit->gateway), 0);
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
        assert_int_equal(admit_count_ties(one.gateway), 1);
        settle(&one, worker, &answer, 1);
        await(one.workers[0].accounts == NULL);
    }
    await(let_in(&two, 0, 8, true)); /* ten, less one and one: as soon as Redis has it */
    assert_false(let_in(&two, 0, 1, true));
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
    await(let_in(&one, 0, 10, true));
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
    assert_non_null(one.workers[0].accounts);
    kit_pass(&one, ADMIT_TTL_DEFAULT);
    assert_int_equal(admit_count_ties(one.gateway), 0);
    await(one.workers[0].accounts == NULL);
    assert_int_equal(kit_stats(&one).leases, 0);
    asked(&one, 0, 1, false, &answer); /* and one that is there at the end ends with it */
    assert_non_null(one.workers[0].accounts);
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
static void be_let_in_by_a_share(struct kit_answer *answer)
{
    struct admit_ask ask;

    open_with("limits: local}\nstore_timeout: 10s", TEN);
    await(shared_state_of(one.gateway->shared) == SHARED_WELL &&
          shared_state_of(two.gateway->shared) == SHARED_WELL);
    assert_true(let_in(&two, 0, 10, true));
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

        be_let_in_by_a_share(&answer);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
