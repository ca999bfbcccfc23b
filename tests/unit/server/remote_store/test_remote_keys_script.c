/* test_remote_keys_script.c - the scripts of keys decide as a ring does, and once for each lease.
 *
 * One node is a case of many: for one key in one group, and the same calls at the same times, the
 * scripts must say yes exactly where a ring in memory does. Time is an argument, so minutes pass in
 * no time.
 */
#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "keys_kit.h"
#include "redis_group.h"
#include "server/remote_store/scripts.h"

#define BEGIN INT64_C(1700000000000)
#define TTL 30000

enum { LEASES = 40,
       STEPS = 3500,
       STATE_BYTES = 16384 };

static void flush(void)
{
    net_redis_do(&server, "FLUSHALL");
}

#define KEY "tg:key:{p}:k:m:k0"
#define GROUP "tg:key:{p}:g:g"
#define SUSPENDED "tg:key:{p}:s:k0"

struct answer {
    long long why, wait, room, of_group;
};

static long long integer_at(const redisReply *reply, size_t i)
{
    return i < reply->elements ? reply->element[i]->integer : -7;
}

static struct answer take_raw(const char *id, tg_ms now, long long tokens,
                              struct tg_key_limits limits, struct tg_key_limits group)
{
    redisReply *reply = net_redis_ask(
        &server,
        "EVAL %s 5 " KEY " " KEY ":l " SUSPENDED " " GROUP " " GROUP
        ":l %lld %s %d %lld %lld %lld %lld %lld %lld %lld",
        script_key_take.text.at, (long long)now, id, TTL, tokens, (long long)limits.rpm,
        (long long)limits.tpm, (long long)limits.concurrency, (long long)group.rpm,
        (long long)group.tpm, (long long)group.concurrency);

    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply->str);
    struct answer answer = {integer_at(reply, 0), integer_at(reply, 1), integer_at(reply, 2),
                            integer_at(reply, 3)};
    freeReplyObject(reply);
    return answer;
}

/* All that is stored, as bytes. */
static void read_state(char state[4][STATE_BYTES], size_t n[4])
{
    static const char *const NAMES[] = {KEY, KEY ":l", GROUP, GROUP ":l"};

    for (int i = 0; i < 4; i++) {
        redisReply *reply = net_redis_ask(&server, "DUMP %s", NAMES[i]);
        n[i] = reply->type == REDIS_REPLY_NIL ? 0 : reply->len;
        assert_true(n[i] <= STATE_BYTES);
        if (n[i] > 0)
            memcpy(state[i], reply->str, n[i]);
        freeReplyObject(reply);
    }
}

/* Each take is peeked at first: that has the same answer, and writes nothing. */
static struct answer take_id(const char *id, tg_ms now, long long tokens,
                             struct tg_key_limits limits, struct tg_key_limits group)
{
    static char before[4][STATE_BYTES], after[4][STATE_BYTES];
    size_t n_before[4], n_after[4];

    read_state(before, n_before);
    struct answer seen = take_raw("", now, tokens, limits, group);
    read_state(after, n_after);
    assert_memory_equal(n_before, n_after, sizeof n_before);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(before[i], after[i], n_before[i]);
    struct answer said = take_raw(id, now, tokens, limits, group);
    if (said.why == 4)
        seen.wait = said.wait; /* a suspension ends by the server's own clock */
    if (memcmp(&seen, &said, sizeof seen) != 0)
        fail_msg("at %lld, %lld tokens: the peek says %lld (%lld, %lld, %lld), the take %lld "
                 "(%lld, %lld, %lld)",
                 (long long)(now - BEGIN), tokens, seen.why, seen.wait, seen.room, seen.of_group,
                 said.why, said.wait, said.room, said.of_group);
    return said;
}

struct giving {
    int sent;
    long long used;
    int outcome; /* 0 answered, 1 failed, 2 says nothing */
    long long cool_for, opened_for;
};

static long long give_id(const char *id, tg_ms now, struct giving giving)
{
    return net_redis_integer(&server,
                             "EVAL %s 4 " KEY " " KEY ":l " GROUP " " GROUP
                             ":l %lld %s %d %lld %d %lld %lld 5 30000",
                             script_key_give.text.at, (long long)now, id, giving.sent, giving.used,
                             giving.outcome, giving.cool_for, giving.opened_for);
}

static long long renew_id(const char *id, tg_ms now, long long tokens)
{
    return net_redis_integer(&server,
                             "EVAL %s 4 " KEY " " KEY ":l " GROUP " " GROUP ":l %lld %s %d %lld",
                             script_key_renew.text.at, (long long)now, id, TTL, tokens);
}

static const struct giving SENT = {1, -1, 0, 0, 0};
static const struct giving FAILED = {1, -1, 1, 0, 0};
static const struct giving UNSENT = {0, -1, 2, 0, 0};

static bool taken(struct answer answer)
{
    return answer.why == 0;
}

/* ---- the same as a ring ---- */

struct twin {
    struct draw draw;
    struct keys_kit kit;
    tg_ms now;
    tg_key_lease leases[LEASES]; /* 0: none */
    char ids[LEASES][24];
    unsigned last;
    size_t yes, no;
};

static void begin_one(struct twin *twin, size_t i)
{
    int64_t tokens = draw_magnitude(&twin->draw, 700);
    struct tg_key_call call;
    struct tg_key_terms terms;
    void *owner;

    tg_key_call_init(&call);
    call.tokens = tokens;
    size_t able = tg_pool_peek_terms(twin->kit.pool, &call, twin->now, &terms, &owner, 1);
    tg_key_lease lease = keys_acquire(&twin->kit, tokens, twin->now);

    assert_int_equal(able, lease != 0); /* peeked at, it says what it will lease */
    snprintf(twin->ids[i], sizeof twin->ids[i], "n-%u", ++twin->last);
    struct answer answer = take_id(twin->ids[i], twin->now, tokens, twin->kit.keys[0].limits,
                                   twin->kit.group.limits);
    if (taken(answer) != (lease != 0))
        fail_msg("at %lld, %lld tokens: the ring says %s, the script %lld (wait %lld, room %lld)",
                 (long long)(twin->now - BEGIN), (long long)tokens, lease ? "yes" : "no",
                 answer.why, answer.wait, answer.room);
    twin->leases[i] = lease;
    *(lease ? &twin->yes : &twin->no) += 1;
}

static void end_one(struct twin *twin, size_t i)
{
    static const int WORDS[] = {0, 0, 1, 0, 0, 2}; /* by tg_key_outcome */
    struct tg_key_report report;
    struct tg_key_ending ending = {0, 0};
    struct giving giving = {0};

    tg_key_report_init(&report);
    report.outcome =
        (enum tg_key_outcome)(draw_chance(&twin->draw, 20) ? TG_KEY_FAILED
                                                           : draw_between(&twin->draw, 0, 5));
    /* A probe would suspend, which is told by other means. */
    if (report.outcome == TG_KEY_REFUSED)
        report.outcome = TG_KEY_REJECTED;
    report.sent = draw_chance(&twin->draw, 80);
    report.tokens = draw_between(&twin->draw, -1, 900);
    if (report.outcome == TG_KEY_LIMITED)
        report.cool_until = twin->now + draw_between(&twin->draw, 1, 3000);
    assert_true(
        tg_keyring_end(twin->kit.ring, twin->leases[i], twin->now, &report, &ending));
    giving.sent = report.sent;
    giving.used = report.tokens;
    giving.outcome = WORDS[report.outcome];
    giving.cool_for = ending.cool_until > twin->now ? ending.cool_until - twin->now : 0;
    /* The ring's own breaker is left to be found by the script itself. */
    assert_int_equal(give_id(twin->ids[i], twin->now, giving), 1);
    assert_int_equal(give_id(twin->ids[i], twin->now, giving), 0);
    twin->leases[i] = 0;
}

static void pass_time(struct twin *twin)
{
    int64_t most = draw_chance(&twin->draw, 5) ? 20000 : 3000;

    twin->now += draw_between(&twin->draw, 0, most);
    /* A call that runs is renewed before its lease ends. */
    for (size_t i = 0; i < LEASES; i++)
        if (twin->leases[i])
            renew_id(twin->ids[i], twin->now, 0);
}

static void one_node_decides_as_its_ring(void **state)
{
    static struct twin twin;
    (void)state;

    flush();
    twin.draw = draw_stream(draw_seed("test_remote_keys_script"), 0);
    twin.now = BEGIN;
    keys_init(&twin.kit, 1, (struct tg_key_limits){.rpm = 60, .tpm = 9000, .concurrency = 12});
    twin.kit.keys[0].group = "g";
    twin.kit.group.limits = (struct tg_key_limits){.rpm = 70, .tpm = 8000, .concurrency = 14};
    keys_open(&twin.kit);
    for (int step = 0; step < STEPS; step++) {
        size_t i = (size_t)draw_between(&twin.draw, 0, LEASES - 1);
        if (draw_chance(&twin.draw, 20))
            pass_time(&twin);
        else if (twin.leases[i] == 0)
            begin_one(&twin, i);
        else
            end_one(&twin, i);
    }
    for (size_t i = 0; i < LEASES; i++)
        if (twin.leases[i])
            end_one(&twin, i);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " n"), 0);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " held"), 0);
    assert_int_equal(net_redis_integer(&server, "ZCARD " GROUP ":l"), 0);
    assert_true(twin.yes > 150 && twin.no > 150);
    keys_close(&twin.kit);
}

/* ---- one by one ---- */

static const struct tg_key_limits NONE = {0, 0, 0};

static void a_take_that_is_asked_twice_is_taken_once(void **state)
{
    (void)state;
    flush();
    for (int i = 0; i < 2; i++)
        assert_true(
            taken(take_raw("a", BEGIN, 10, (struct tg_key_limits){.concurrency = 1}, NONE)));
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " n"), 1);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " calls"), 1);
}

static void leases_of_a_dead_node_end_and_their_charge_stays(void **state)
{
    struct tg_key_limits one = {.concurrency = 1, .rpm = 2};
    (void)state;

    flush();
    assert_true(taken(take_id("dead", BEGIN, 10, one, NONE)));
    struct answer no = take_id("b", BEGIN + TTL - 1, 10, one, NONE);
    assert_int_equal(no.why, 3);
    assert_true(taken(take_id("b", BEGIN + TTL, 10, one, NONE)));
    assert_int_equal(give_id("dead", BEGIN + TTL, SENT), 0);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " n"), 1);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " calls"), 2);
    give_id("b", BEGIN + TTL, SENT);
    assert_int_equal(take_id("c", BEGIN + TTL, 10, one, NONE).why, 3);
}

static void a_renewed_lease_lives_on(void **state)
{
    struct tg_key_limits one = {.concurrency = 1};
    (void)state;

    flush();
    assert_true(taken(take_id("a", BEGIN, 10, one, NONE)));
    assert_int_equal(renew_id("a", BEGIN + TTL - 1, 10), 1);
    assert_int_equal(take_id("b", BEGIN + TTL + 1, 10, one, NONE).why, 3);
    assert_int_equal(give_id("a", BEGIN + TTL + 1, SENT), 1);
    assert_true(taken(take_id("b", BEGIN + TTL + 1, 10, one, NONE)));
}

static void what_a_server_forgot_is_in_flight_again_after_a_renewal(void **state)
{
    struct tg_key_limits one = {.concurrency = 1};
    (void)state;

    flush();
    assert_true(taken(take_id("a", BEGIN, 10, one, NONE)));
    flush();
    assert_int_equal(renew_id("a", BEGIN + 10, 10), 0);
    assert_int_equal(take_id("b", BEGIN + 20, 10, one, NONE).why, 3);
    assert_int_equal(give_id("a", BEGIN + 30, SENT), 1);
    assert_int_equal(net_redis_integer(&server, "HGET " KEY " held"), 0);
    assert_true(taken(take_id("b", BEGIN + 30, 10, one, NONE)));
}

static void a_limit_of_tokens_says_how_many_would_fit(void **state)
{
    struct tg_key_limits limits = {.tpm = 100};
    (void)state;

    flush();
    assert_true(taken(take_id("a", BEGIN, 70, limits, NONE)));
    struct answer no = take_id("b", BEGIN + 500, 31, limits, NONE);
    assert_int_equal(no.why, 3);
    assert_int_equal(no.room, 30);
    assert_int_equal(no.wait, 61000 - 500);
    assert_int_equal(no.of_group, 0);
    assert_true(taken(take_id("b", BEGIN + 500, 30, limits, NONE)));
}

static void a_cooldown_of_the_group_holds_for_all_and_the_later_wins(void **state)
{
    struct giving limited = {1, -1, 0, 5000, 0}, earlier = {1, -1, 0, 10, 0};
    (void)state;

    flush();
    assert_true(taken(take_id("a", BEGIN, 1, NONE, NONE)));
    assert_true(taken(take_id("b", BEGIN, 1, NONE, NONE)));
    give_id("a", BEGIN, limited);
    give_id("b", BEGIN, earlier);
    struct answer no = take_id("c", BEGIN + 1000, 1, NONE, NONE);
    assert_int_equal(no.why, 1);
    assert_int_equal(no.wait, 4000);
    net_redis_do(&server, "DEL " KEY);
    no = take_id("c", BEGIN + 1000, 1, NONE, NONE);
    assert_int_equal(no.why, 1);
    assert_int_equal(no.of_group, 1);
    assert_true(taken(take_id("c", BEGIN + 5000, 1, NONE, NONE)));
}

static void fail_five(const char *prefix, tg_ms now)
{
    char id[16];

    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "%s%d", prefix, i);
        assert_true(taken(take_id(id, now, 1, NONE, NONE)));
        give_id(id, now, FAILED);
    }
}

static void failures_of_several_nodes_open_one_breaker(void **state)
{
    (void)state;
    flush();
    fail_five("x", BEGIN);
    struct answer no = take_id("a", BEGIN + 29999, 1, NONE, NONE);
    assert_int_equal(no.why, 2);
    assert_int_equal(no.wait, 1);
}

static void a_half_open_breaker_lets_one_call_of_all_nodes_through(void **state)
{
    tg_ms then = BEGIN + 30000;
    (void)state;

    flush();
    fail_five("x", BEGIN);
    assert_true(taken(take_id("probe", then, 1, NONE, NONE)));
    assert_int_equal(take_id("other", then, 1, NONE, NONE).why, 2);
    give_id("probe", then, UNSENT);
    assert_true(taken(take_id("second", then, 1, NONE, NONE)));
    give_id("second", then, FAILED);
    assert_int_equal(take_id("other", then + 1, 1, NONE, NONE).why, 2);
    assert_true(taken(take_id("third", then + 30000, 1, NONE, NONE)));
    give_id("third", then + 30000, SENT);
    assert_true(taken(take_id("a", then + 30000, 1, NONE, NONE)));
    assert_true(taken(take_id("b", then + 30000, 1, NONE, NONE)));
}

static void the_probe_of_a_dead_node_makes_place_for_the_next(void **state)
{
    tg_ms then = BEGIN + 30000;
    (void)state;

    flush();
    fail_five("x", BEGIN);
    assert_true(taken(take_id("probe", then, 1, NONE, NONE)));
    assert_int_equal(take_id("next", then + TTL - 1, 1, NONE, NONE).why, 2);
    assert_true(taken(take_id("next", then + TTL, 1, NONE, NONE)));
}

static void a_breaker_that_a_node_opened_is_open_for_all(void **state)
{
    struct giving opened = {1, -1, 1, 0, 7000};
    (void)state;

    flush();
    assert_true(taken(take_id("a", BEGIN, 1, NONE, NONE)));
    give_id("a", BEGIN, opened);
    struct answer no = take_id("b", BEGIN, 1, NONE, NONE);
    assert_int_equal(no.why, 2);
    assert_int_equal(no.wait, 7000);
}

static void a_suspended_key_is_taken_by_nobody(void **state)
{
    (void)state;
    flush();
    net_redis_do(&server, "SET " SUSPENDED " 1 PX 60000");
    struct answer no = take_id("a", BEGIN, 1, NONE, NONE);
    assert_int_equal(no.why, 4);
    assert_true(no.wait > 0 && no.wait <= 60000);
    net_redis_do(&server, "DEL " SUSPENDED);
    assert_true(taken(take_id("a", BEGIN, 1, NONE, NONE)));
}

static void everything_expires(void **state)
{
    (void)state;
    flush();
    assert_true(taken(take_id("a", BEGIN, 1, NONE, NONE)));
    assert_true(net_redis_integer(&server, "PTTL " KEY) > 0);
    assert_true(net_redis_integer(&server, "PTTL " KEY ":l") > 0);
    assert_true(net_redis_integer(&server, "PTTL " GROUP) > 0);
    assert_true(net_redis_integer(&server, "PTTL " GROUP ":l") > 0);
    give_id("a", BEGIN, SENT);
    assert_true(net_redis_integer(&server, "PTTL " KEY) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_decides_as_its_ring),
        cmocka_unit_test(a_take_that_is_asked_twice_is_taken_once),
        cmocka_unit_test(leases_of_a_dead_node_end_and_their_charge_stays),
        cmocka_unit_test(a_renewed_lease_lives_on),
        cmocka_unit_test(what_a_server_forgot_is_in_flight_again_after_a_renewal),
        cmocka_unit_test(a_limit_of_tokens_says_how_many_would_fit),
        cmocka_unit_test(a_cooldown_of_the_group_holds_for_all_and_the_later_wins),
        cmocka_unit_test(failures_of_several_nodes_open_one_breaker),
        cmocka_unit_test(a_half_open_breaker_lets_one_call_of_all_nodes_through),
        cmocka_unit_test(the_probe_of_a_dead_node_makes_place_for_the_next),
        cmocka_unit_test(a_breaker_that_a_node_opened_is_open_for_all),
        cmocka_unit_test(a_suspended_key_is_taken_by_nobody),
        cmocka_unit_test(everything_expires),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
