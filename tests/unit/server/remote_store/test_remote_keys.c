/* test_remote_keys.c - keys that two nodes share: taken, given back, renewed, lost. */
#include "server/remote_store/remote_keys.h"

#include "keys_kit.h"
#include "net_remote_kit.h"
#include "redis_group.h"

struct node {
    struct remote_kit kit;
    struct remote_keys *keys;
};

struct answer {
    int n;
    enum tg_err err;
    bool taken;
    struct tg_key_hold hold;
};

static void decided(void *context, enum tg_err err, const struct tg_key_hold *hold)
{
    struct answer *answer = context;

    answer->n++;
    answer->err = err;
    answer->taken = err == TG_OK && hold == NULL;
    if (hold)
        answer->hold = *hold;
}

static void open_node(struct node *node, struct net_loop *loop, const char *holder, tg_ms ttl)
{
    struct remote_keys_options options;

    remote_kit_open(&node->kit, loop, &server);
    remote_keys_options_init(&options);
    options.loop = node->kit.loop;
    options.redis = node->kit.redis;
    options.holder = holder;
    options.ttl = ttl;
    assert_int_equal(remote_keys_new(&options, &node->keys), TG_OK);
}

static void kill_node(struct node *node)
{
    remote_kit_cut(&node->kit);
    remote_keys_free(node->keys);
}

/* Two nodes on one loop, and an empty server. */
static void open_two(struct node *a, struct node *b)
{
    net_redis_do(&server, "FLUSHALL");
    open_node(a, NULL, "a.0", 30000);
    open_node(b, a->kit.loop, "b.0", 30000);
}

static void close_two(struct node *a, struct node *b)
{
    kill_node(a);
    kill_node(b);
    net_loop_free(a->kit.loop);
}

static struct tg_key_terms terms_of(const char *key, int64_t tokens, struct tg_key_limits limits)
{
    return (struct tg_key_terms){.provider = "p{x}",
                                 .model = "m:1",
                                 .name = key,
                                 .limits = limits,
                                 .breaker_failures = 5,
                                 .breaker_open = 30000,
                                 .tokens = tokens};
}

static struct remote_key *take(struct node *node, const struct tg_key_terms *terms,
                               struct answer *answer)
{
    *answer = (struct answer){.n = 0};
    struct remote_key *key = remote_keys_take(node->keys, terms, decided, answer);
    assert_non_null(key);
    assert_int_equal(answer->n, 0); /* never from inside */
    remote_until(&node->kit, answer->n > 0);
    return key;
}

static void give(struct remote_key *key, enum tg_key_outcome outcome)
{
    struct tg_key_ending ending = {0, 0};
    struct tg_key_report report;

    tg_key_report_init(&report);
    report.outcome = outcome;
    remote_keys_give(key, &report, &ending);
}

static void a_limit_of_calls_at_once_is_that_of_all_nodes(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, (struct tg_key_limits){.concurrency = 1});
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    struct remote_key *key = take(&a, &terms, &answer);
    assert_true(answer.taken);
    take(&b, &terms, &answer);
    assert_int_equal(answer.err, TG_OK);
    assert_false(answer.taken);
    assert_int_equal(answer.hold.why, TG_HOLD_BUSY);
    assert_true(answer.hold.until > net_loop_now(a.kit.loop) - 1);
    give(key, TG_KEY_OK);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    key = take(&b, &terms, &answer);
    assert_true(answer.taken);
    give(key, TG_KEY_OK);
    remote_until(&a.kit, remote_keys_count(b.keys) == 0);
    close_two(&a, &b);
}

static void a_peek_sees_what_the_other_node_holds_and_takes_nothing(void **state)
{
    struct tg_key_terms terms = terms_of("k1", 10, (struct tg_key_limits){.concurrency = 1});
    struct node a, b;
    struct answer seen = {.n = 0}, said;
    (void)state;

    open_two(&a, &b);
    for (int i = 0; i < 2; i++) {
        seen.n = 0;
        assert_non_null(remote_keys_peek(b.keys, &terms, decided, &seen));
        remote_until(&b.kit, seen.n == 1);
        assert_true(seen.taken);
        assert_int_equal(remote_keys_count(b.keys), 0);
    }
    struct remote_key *key = take(&a, &terms, &said);
    assert_true(said.taken);
    seen.n = 0;
    assert_non_null(remote_keys_peek(b.keys, &terms, decided, &seen));
    remote_until(&b.kit, seen.n == 1);
    assert_false(seen.taken);
    assert_int_equal(seen.hold.why, TG_HOLD_BUSY);
    seen.n = 0;
    remote_keys_cancel(remote_keys_peek(b.keys, &terms, decided, &seen));
    remote_until(&b.kit, remote_keys_count(b.keys) == 0);
    assert_int_equal(seen.n, 0);
    give(key, TG_KEY_OK);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    close_two(&a, &b);
}

static void a_cooldown_that_one_node_met_reaches_the_ring_of_the_other(void **state)
{
    struct tg_key_report report;
    struct tg_key_ending ending;
    struct tg_key_terms terms;
    struct keys_kit rings[2];
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    tg_ms now = net_loop_now(a.kit.loop);
    for (int i = 0; i < 2; i++) {
        keys_init(&rings[i], 2, NO_LIMITS);
        rings[i].keys[0].group = "g";
        keys_open(&rings[i]);
    }
    tg_key_lease lease = keys_take(&rings[0], 0, 1, now);
    assert_true(tg_keyring_terms(rings[0].ring, lease, &terms));
    struct remote_key *key = take(&a, &terms, &answer);
    assert_true(answer.taken);
    tg_key_report_init(&report);
    report.outcome = TG_KEY_LIMITED;
    report.cool_until = now + 50000;
    assert_true(tg_keyring_end(rings[0].ring, lease, now, &report, &ending));
    remote_keys_give(key, &report, &ending);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);

    lease = keys_take(&rings[1], 0, 1, now);
    assert_true(tg_keyring_terms(rings[1].ring, lease, &terms));
    take(&b, &terms, &answer);
    assert_false(answer.taken);
    assert_int_equal(answer.hold.why, TG_HOLD_COOLING);
    assert_true(tg_keyring_hold_off(rings[1].ring, lease, now, &answer.hold));
    assert_true(keys_metrics(&rings[1], 0, now).cool_down_until > now + 40000);
    lease = keys_acquire(&rings[1], 1, now);
    assert_int_equal(keys_got(&rings[1]), 1);
    keys_end(&rings[1], lease, now, TG_KEY_OK);
    keys_close(&rings[0]);
    keys_close(&rings[1]);
    close_two(&a, &b);
}

static void a_cooldown_is_told_even_of_a_key_that_was_not_taken_here(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, NO_LIMITS);
    struct tg_key_report report;
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    struct tg_key_ending ending = {.cool_until = net_loop_now(a.kit.loop) + 50000};
    tg_key_report_init(&report);
    report.outcome = TG_KEY_LIMITED;
    remote_keys_tell(a.keys, &terms, &report, &ending);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    take(&b, &terms, &answer);
    assert_false(answer.taken);
    assert_int_equal(answer.hold.why, TG_HOLD_COOLING);
    close_two(&a, &b);
}

static void failures_of_two_nodes_are_one_run(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, NO_LIMITS);
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    for (int i = 0; i < 5; i++) {
        struct remote_key *key = take(i % 2 ? &a : &b, &terms, &answer);
        assert_true(answer.taken);
        give(key, TG_KEY_FAILED);
    }
    remote_until(&a.kit, remote_keys_count(a.keys) + remote_keys_count(b.keys) == 0);
    take(&a, &terms, &answer);
    assert_int_equal(answer.hold.why, TG_HOLD_BROKEN);
    close_two(&a, &b);
}

static void a_suspension_is_seen_by_all_and_lifted(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, NO_LIMITS);
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    remote_keys_suspend(a.keys, terms.provider, terms.name, terms.group, true);
    remote_until(&a.kit, net_redis_integer(&server, "DBSIZE") == 1);
    take(&b, &terms, &answer);
    assert_false(answer.taken);
    assert_int_equal(answer.hold.why, TG_HOLD_BUSY);
    remote_keys_suspend(a.keys, terms.provider, terms.name, terms.group, false);
    take(&a, &terms, &answer); /* after it, on the same connection */
    assert_true(answer.taken);
    close_two(&a, &b);
}

/* When the only lease ends, by its own time. */
static double lease_end(void)
{
    redisReply *reply = net_redis_ask(
        &server, "EVAL %s 0",
        "return redis.call('ZRANGE', redis.call('KEYS', '*:l')[1], 0, 0, 'WITHSCORES')[2]");

    assert_non_null(reply->str);
    double end = strtod(reply->str, NULL);
    freeReplyObject(reply);
    return end;
}

static void a_lease_of_a_node_that_lives_is_renewed(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, (struct tg_key_limits){.concurrency = 1});
    struct answer answer;
    struct node a, b;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "a.0", 3000);
    open_node(&b, a.kit.loop, "b.0", 3000);
    take(&a, &terms, &answer);
    assert_true(answer.taken);
    for (double first = lease_end(); lease_end() <= first;) {
        take(&b, &terms, &answer);
        assert_false(answer.taken);
    }
    close_two(&a, &b);
}

static void what_a_node_held_that_died_is_free_when_its_time_is_over(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, (struct tg_key_limits){.concurrency = 1});
    struct remote_key *key;
    struct answer answer;
    struct node a, b;
    (void)state;

    net_redis_do(&server, "FLUSHALL");
    open_node(&a, NULL, "a.0", 90);
    open_node(&b, a.kit.loop, "b.0", 30000);
    take(&a, &terms, &answer);
    assert_true(answer.taken);
    kill_node(&a);
    do
        key = take(&b, &terms, &answer);
    while (!answer.taken);
    give(key, TG_KEY_OK);
    remote_until(&b.kit, remote_keys_count(b.keys) == 0);
    kill_node(&b);
    net_loop_free(a.kit.loop);
}

/* The first alone, the others when that is answered, 33 in a script. */
static void keys_that_are_given_back_at_once_go_together(void **state)
{
    struct tg_key_limits limits = {.concurrency = 80, .rpm = 160};
    struct tg_key_terms terms = terms_of("k", 5, limits), other = terms_of("l", 5, limits);
    struct remote_key *keys[80];
    struct redis_stats before, after;
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    for (size_t i = 0; i < 80; i++) {
        keys[i] = take(&a, i < 70 ? &terms : &other, &answer);
        assert_true(answer.taken);
    }
    redis_get_stats(a.kit.redis, &before);
    for (size_t i = 0; i < 80; i++)
        give(keys[i], i == 40 ? TG_KEY_FAILED : TG_KEY_OK);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    redis_get_stats(a.kit.redis, &after);
    assert_int_equal(after.commands - before.commands, 4 + 2);
    /* All are free for the other, and counted in their minute. */
    for (size_t i = 0; i < 80; i++) {
        keys[i] = take(&b, &terms, &answer);
        assert_true(answer.taken);
    }
    take(&b, &terms, &answer);
    assert_false(answer.taken);
    for (size_t i = 0; i < 80; i++)
        give(keys[i], TG_KEY_OK);
    remote_until(&b.kit, remote_keys_count(b.keys) == 0);
    for (size_t i = 0; i < 10; i++) {
        keys[i] = take(&b, &terms, &answer);
        assert_true(answer.taken);
    }
    take(&b, &terms, &answer);
    assert_false(answer.taken);
    close_two(&a, &b);
}

static void a_yes_that_nobody_waits_for_is_given_back(void **state)
{
    struct tg_key_limits one = {.concurrency = 1, .rpm = 1};
    struct tg_key_terms terms = terms_of("k", 5, one);
    struct answer answer = {.n = 0};
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    remote_keys_cancel(remote_keys_take(a.keys, &terms, decided, &answer));
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    assert_int_equal(answer.n, 0);
    take(&b, &terms, &answer);
    assert_true(answer.taken);
    close_two(&a, &b);
}

static void a_yes_that_comes_too_late_is_given_back(void **state)
{
    struct tg_key_limits one = {.concurrency = 1, .rpm = 1};
    struct tg_key_terms terms = terms_of("k", 5, one);
    struct answer answer = {.n = 0};
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    remote_kit_hasten(&a.kit, 5);
    net_redis_pause(&server);
    take(&a, &terms, &answer);
    assert_int_equal(answer.err, TG_ERR_STORE);
    net_redis_resume(&server);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    assert_int_equal(answer.n, 1);
    take(&b, &terms, &answer);
    assert_true(answer.taken);
    close_two(&a, &b);
}

/* An attempt that was made without waiting for the answer counts, however it ends, if Redis says
 * yes later: before the attempt has ended, or after. */
static void a_late_yes_is_for_the_attempt_that_was_made(void **state)
{
    struct tg_key_limits one = {.rpm = 1};
    struct tg_key_ending ending = {0, 0};
    struct tg_key_report report;
    (void)state;

    for (int sent = 0; sent < 2; sent++) {
        struct tg_key_terms terms = terms_of("k", 5, one);
        struct answer answer = {.n = 0};
        struct node a, b;
        open_two(&a, &b);
        remote_kit_hasten(&a.kit, 5);
        net_redis_pause(&server);
        struct remote_key *key = take(&a, &terms, &answer);
        assert_int_equal(answer.err, TG_ERR_STORE);
        assert_true(remote_keys_keep(key));
        tg_key_report_init(&report);
        report.sent = sent;
        remote_keys_end(key, &report, &ending);
        net_redis_resume(&server);
        remote_until(&a.kit, remote_keys_count(a.keys) == 0);
        take(&b, &terms, &answer);
        assert_int_equal(answer.taken, !sent);
        close_two(&a, &b);
    }
}

/* A key that was used on a node's own word is charged when its attempt has ended: after a no
 * that came late, and where nobody was asked. */
static void what_was_used_without_redis_is_charged_at_its_end(void **state)
{
    struct tg_key_terms one = terms_of("k", 5, (struct tg_key_limits){.rpm = 1});
    struct tg_key_terms two = terms_of("k", 5, (struct tg_key_limits){.rpm = 2});
    struct tg_key_terms four = terms_of("k", 5, (struct tg_key_limits){.rpm = 4});
    struct tg_key_ending ending = {0, 0};
    struct tg_key_report report;
    struct answer answer;
    atomic_llong asked_at = 77;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    give(take(&a, &one, &answer), TG_KEY_OK);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    remote_kit_hasten(&b.kit, 5);
    net_redis_pause(&server);
    struct remote_key *key = take(&b, &one, &answer);
    assert_int_equal(answer.err, TG_ERR_STORE);
    assert_true(remote_keys_keep(key));
    remote_keys_watch(key, &asked_at);
    net_redis_resume(&server);
    remote_until(&b.kit, atomic_load(&asked_at) == 0); /* the no */
    tg_key_report_init(&report);
    remote_until(&b.kit, redis_is_up(b.kit.redis, NULL));
    remote_keys_end(key, &report, &ending);
    remote_until(&b.kit, remote_keys_count(b.keys) == 0);
    take(&a, &two, &answer);
    assert_false(answer.taken);
    remote_keys_owe(a.keys, &one, &report, &ending);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    give(take(&a, &four, &answer), TG_KEY_OK);
    assert_true(answer.taken);
    take(&a, &four, &answer);
    assert_false(answer.taken);
    close_two(&a, &b);
}

/* Who is never answered has nothing to give back. */
static void an_attempt_without_any_answer_leaves_nothing(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, NO_LIMITS);
    struct tg_key_ending ending = {0, 0};
    struct tg_key_report report;
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    remote_kit_hasten(&a.kit, 5);
    net_redis_pause(&server);
    struct remote_key *key = take(&a, &terms, &answer);
    assert_true(remote_keys_keep(key));
    net_redis_kill(&server);
    remote_until(&a.kit, !redis_is_up(a.kit.redis, NULL));
    tg_key_report_init(&report);
    remote_keys_end(key, &report, &ending);
    net_redis_again(&server);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    close_two(&a, &b);
}

static void without_a_server_there_is_no_answer_and_nothing_is_left(void **state)
{
    struct tg_key_terms terms = terms_of("k", 5, NO_LIMITS);
    struct answer answer;
    struct node a, b;
    (void)state;

    open_two(&a, &b);
    struct remote_key *key = take(&a, &terms, &answer);
    assert_true(answer.taken);
    net_redis_kill(&server);
    remote_until(&a.kit, !redis_is_up(a.kit.redis, NULL));
    struct answer lost;
    take(&a, &terms, &lost);
    assert_int_equal(lost.err, TG_ERR_STORE);
    give(key, TG_KEY_OK);
    net_redis_again(&server);
    remote_until(&a.kit, remote_keys_count(a.keys) == 0);
    close_two(&a, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_of_calls_at_once_is_that_of_all_nodes),
        cmocka_unit_test(a_peek_sees_what_the_other_node_holds_and_takes_nothing),
        cmocka_unit_test(a_cooldown_that_one_node_met_reaches_the_ring_of_the_other),
        cmocka_unit_test(a_cooldown_is_told_even_of_a_key_that_was_not_taken_here),
        cmocka_unit_test(failures_of_two_nodes_are_one_run),
        cmocka_unit_test(a_suspension_is_seen_by_all_and_lifted),
        cmocka_unit_test(keys_that_are_given_back_at_once_go_together),
        cmocka_unit_test(a_lease_of_a_node_that_lives_is_renewed),
        cmocka_unit_test(what_a_node_held_that_died_is_free_when_its_time_is_over),
        cmocka_unit_test(a_yes_that_nobody_waits_for_is_given_back),
        cmocka_unit_test(a_yes_that_comes_too_late_is_given_back),
        cmocka_unit_test(a_late_yes_is_for_the_attempt_that_was_made),
        cmocka_unit_test(what_was_used_without_redis_is_charged_at_its_end),
        cmocka_unit_test(an_attempt_without_any_answer_leaves_nothing),
        cmocka_unit_test(without_a_server_there_is_no_answer_and_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
