/* test_key_shared.c - what a ring learns of others that use its keys, and what it tells them. */
#include "keys_kit.h"

#define NOW 1000000

static bool hold_off(struct keys_kit *kit, tg_key_lease lease, tg_ms now, struct tg_key_hold hold)
{
    return tg_keyring_hold_off(kit->ring, lease, now, &hold);
}

static void a_lease_says_what_it_is_of(void **state)
{
    struct keys_kit kit;
    struct tg_key_terms terms;
    (void)state;

    keys_init(&kit, 1, (struct tg_key_limits){.rpm = 3, .tpm = 4000, .concurrency = 5});
    kit.keys[0].group = "g";
    kit.group.limits = (struct tg_key_limits){.rpm = 7};
    kit.pool_spec.breaker_failures = 4;
    kit.pool_spec.breaker_open = 900;
    keys_open(&kit);
    tg_key_lease lease = keys_acquire(&kit, 11, NOW);
    assert_true(tg_keyring_terms(kit.ring, lease, &terms));
    assert_string_equal(terms.provider, "p");
    assert_string_equal(terms.model, "m");
    assert_string_equal(terms.name, "k0");
    assert_string_equal(terms.group, "g");
    assert_int_equal(terms.limits.rpm, 3);
    assert_int_equal(terms.limits.tpm, 4000);
    assert_int_equal(terms.limits.concurrency, 5);
    assert_int_equal(terms.group_limits.rpm, 7);
    assert_int_equal(terms.breaker_failures, 4);
    assert_int_equal(terms.breaker_open, 900);
    assert_int_equal(terms.tokens, 11);
    keys_end(&kit, lease, NOW, TG_KEY_OK);
    assert_false(tg_keyring_terms(kit.ring, lease, &terms));
    keys_close(&kit);
}

/* Who asks about keys without a lease is told the same, of those that could serve. */
static void keys_that_could_serve_are_told_with_their_terms(void **state)
{
    struct keys_kit kit;
    struct tg_key_terms terms[4];
    struct tg_key_call call;
    void *owners[4];
    (void)state;

    keys_init(&kit, 4, (struct tg_key_limits){.rpm = 30, .tpm = 4000});
    kit.keys[1].limits.tpm = 10; /* too small for the call */
    kit.keys[3].group = "g";
    kit.group.limits = (struct tg_key_limits){.rpm = 70};
    keys_open(&kit);
    tg_key_call_init(&call);
    call.tokens = 11;
    call.tried[0] = kit.keys[0].owner;
    call.n_tried = 1;
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 4), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ptr_equal(owners[i], kit.keys[2 + i].owner);
        assert_string_equal(terms[i].name, kit.keys[2 + i].name);
        assert_string_equal(terms[i].provider, "p");
        assert_int_equal(terms[i].limits.tpm, 4000);
        assert_int_equal(terms[i].tokens, 11);
    }
    assert_null(terms[0].group);
    assert_int_equal(terms[1].group_limits.rpm, 70);
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 1), 1);
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 0), 0);
    call.tokens = -1;
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 4), 0);
    assert_int_equal(keys_metrics(&kit, 2, NOW).in_flight, 0);
    keys_close(&kit);
}

static void a_latency_is_a_moving_mean(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    keys_end_ok(&kit, keys_acquire(&kit, 1, NOW), NOW + 40, 40);
    assert_true(keys_metrics(&kit, 0, NOW + 40).latency_ms == 40);
    keys_end_ok(&kit, keys_acquire(&kit, 1, NOW + 50), NOW + 130, 80);
    assert_true(keys_metrics(&kit, 0, NOW + 130).latency_ms == 45);
    keys_close(&kit);
}

/* Zeros that nobody has initialized say nothing: the estimate stands, and there is no latency. */
static void a_report_of_zeros_leaves_the_estimate(void **state)
{
    struct keys_kit kit;
    const struct tg_key_report zeros = {.outcome = TG_KEY_OK};
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 6000});
    tg_key_lease lease = keys_acquire(&kit, 500, NOW);
    assert_true(tg_keyring_release(kit.ring, lease, NOW + 40, &zeros));
    assert_int_equal(keys_metrics(&kit, 0, NOW + 40).tpm_remaining, 5500);
    assert_true(keys_metrics(&kit, 0, NOW + 40).latency_ms == 0);
    keys_close(&kit);
}

/* The first thing that is wrong is told, and what follows does not hide it. */
static void a_wrong_group_is_refused_whatever_follows(void **state)
{
    struct keys_kit kit;
    struct tg_group_spec groups[2];
    struct tg_problem problem = {""};
    (void)state;

    keys_init(&kit, 1, NO_LIMITS);
    groups[0] = groups[1] = kit.group;
    groups[1].name = "h";
    groups[0].limits.rpm = -1;
    kit.spec.groups = groups;
    kit.spec.n_groups = 2;
    assert_int_equal(tg_keyring_new(&kit.spec, &kit.ring, &problem), TG_ERR_INVALID);
    kit.spec.n_groups = 0;
    kit.keys[0].group = "g"; /* there is none of that name */
    assert_int_equal(tg_keyring_new(&kit.spec, &kit.ring, &problem), TG_ERR_INVALID);
}

static void an_ending_says_what_it_led_to(void **state)
{
    struct keys_kit kit;
    struct tg_key_ending ending;
    struct tg_key_report report;
    (void)state;

    keys_init(&kit, 1, NO_LIMITS);
    kit.pool_spec.breaker_failures = 2;
    kit.pool_spec.breaker_open = 500;
    keys_open(&kit);
    tg_key_report_init(&report);
    assert_true(
        tg_keyring_end(kit.ring, keys_acquire(&kit, 1, NOW), NOW, &report, &ending));
    assert_int_equal(ending.cool_until, 0);
    assert_int_equal(ending.open_until, 0);

    report.outcome = TG_KEY_FAILED;
    tg_keyring_end(kit.ring, keys_acquire(&kit, 1, NOW), NOW, &report, &ending);
    assert_int_equal(ending.open_until, 0);
    tg_keyring_end(kit.ring, keys_acquire(&kit, 1, NOW), NOW, &report, &ending);
    assert_int_equal(ending.open_until, NOW + 500);

    report.outcome = TG_KEY_LIMITED; /* and does not say for how long */
    tg_keyring_end(kit.ring, keys_acquire(&kit, 1, NOW + 500), NOW + 500, &report, &ending);
    assert_int_equal(ending.cool_until, NOW + 500 + kit.spec.cooldown);
    assert_int_equal(ending.open_until, 0);
    keys_close(&kit);
}

static void a_key_that_others_made_cool_cools(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_COOLING, .until = NOW + 3000};
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 1});
    tg_key_lease lease = keys_acquire(&kit, 1, NOW);
    assert_true(hold_off(&kit, lease, NOW, hold));
    assert_false(hold_off(&kit, lease, NOW, hold));
    assert_int_equal(keys_metrics(&kit, 0, NOW).cool_down_until, NOW + 3000);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    assert_true(kit.answer.all_cooling);
    assert_int_equal(kit.answer.retry_after_ms, 3000);
    /* Nothing was sent: its only call of the minute is still there. */
    keys_end(&kit, keys_acquire(&kit, 1, NOW + 3000), NOW + 3000, TG_KEY_OK);
    keys_close(&kit);
}

static void a_group_that_others_made_cool_cools_whole(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_COOLING, .until = NOW + 3000, .of_group = true};
    struct keys_kit kit;
    (void)state;

    keys_init(&kit, 3, NO_LIMITS);
    kit.keys[0].group = kit.keys[1].group = "g";
    keys_open(&kit);
    hold_off(&kit, keys_take(&kit, 0, 1, NOW), NOW, hold);
    for (int i = 0; i < 20; i++) {
        keys_end(&kit, keys_acquire(&kit, 1, NOW), NOW, TG_KEY_OK);
        assert_int_equal(keys_got(&kit), 2);
    }
    keys_close(&kit);
}

static void the_next_key_is_another_one(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY, .until = NOW + 500, .room = -1};
    struct keys_kit kit;
    bool seen[3] = {false, false, false};
    (void)state;

    keys_start(&kit, 3, NO_LIMITS);
    for (int i = 0; i < 3; i++) {
        tg_key_lease lease = keys_acquire(&kit, 1, NOW);
        assert_false(seen[keys_got(&kit)]);
        seen[keys_got(&kit)] = true;
        assert_true(hold_off(&kit, lease, NOW, hold));
    }
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    assert_false(kit.answer.all_cooling);
    assert_int_equal(kit.answer.retry_after_ms, 500);
    assert_int_equal(keys_acquire(&kit, 1, NOW + 499), 0);
    keys_end(&kit, keys_acquire(&kit, 1, NOW + 500), NOW + 500, TG_KEY_OK);
    keys_close(&kit);
}

static void a_busy_key_serves_what_is_small_enough(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY, .until = NOW + 500, .room = 100};
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 1000});
    hold_off(&kit, keys_acquire(&kit, 101, NOW), NOW, hold);
    assert_int_equal(keys_acquire(&kit, 101, NOW), 0);
    assert_int_equal(kit.answer.retry_after_ms, 500);
    keys_end(&kit, keys_acquire(&kit, 100, NOW), NOW, TG_KEY_OK);
    keys_end(&kit, keys_acquire(&kit, 101, NOW + 500), NOW + 500, TG_KEY_OK);
    keys_close(&kit);
}

static void a_busy_key_is_tried_again_after_a_second_but_says_the_truth(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY, .until = NOW + 40000, .room = -1};
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    hold_off(&kit, keys_acquire(&kit, 1, NOW), NOW, hold);
    assert_int_equal(keys_acquire(&kit, 1, NOW + 999), 0);
    assert_int_equal(kit.answer.retry_after_ms, 40000 - 999);
    keys_end(&kit, keys_acquire(&kit, 1, NOW + 1000), NOW + 1000, TG_KEY_OK);
    keys_close(&kit);
}

static void a_breaker_that_others_opened_is_open(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_BROKEN, .until = NOW + 800};
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    tg_key_lease before = keys_acquire(&kit, 1, NOW);
    hold_off(&kit, keys_acquire(&kit, 1, NOW), NOW, hold);
    assert_int_equal(keys_metrics(&kit, 0, NOW).breaker, TG_BREAKER_OPEN);
    assert_int_equal(keys_acquire(&kit, 1, NOW + 799), 0);
    keys_end(&kit, before, NOW + 799, TG_KEY_OK); /* began before: it closes nothing */
    assert_int_equal(keys_acquire(&kit, 1, NOW + 799), 0);
    tg_key_lease probe = keys_acquire(&kit, 1, NOW + 800);
    assert_int_not_equal(probe, 0);
    assert_int_equal(keys_acquire(&kit, 1, NOW + 800), 0);
    keys_end(&kit, probe, NOW + 800, TG_KEY_OK);
    assert_int_equal(keys_metrics(&kit, 0, NOW + 800).breaker, TG_BREAKER_CLOSED);
    keys_close(&kit);
}

static void a_moment_that_has_passed_holds_nothing(void **state)
{
    struct tg_key_hold hold = {.until = NOW, .room = -1};
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    for (int why = TG_HOLD_COOLING; why <= TG_HOLD_BUSY; why++) {
        hold.why = (enum tg_hold)why;
        tg_key_lease lease = keys_acquire(&kit, 1, NOW);
        assert_int_not_equal(lease, 0);
        hold_off(&kit, lease, NOW, hold);
    }
    keys_attempt(&kit, 0, NOW, TG_KEY_OK);
    keys_close(&kit);
}

static void a_key_that_was_taken_out_is_freed_by_its_last_lease(void **state)
{
    struct tg_key_hold hold = {.why = TG_HOLD_BUSY, .until = NOW + 800, .room = -1};
    struct keys_kit kit;
    (void)state;

    keys_init(&kit, 2, NO_LIMITS);
    kit.keys[1].group = "g";
    keys_open(&kit);
    tg_key_lease lease = keys_take(&kit, 1, 1, NOW);
    kit.pool_spec.n_keys = 1;
    kit.spec.n_groups = 0;
    keys_change(&kit, NOW);
    assert_true(hold_off(&kit, lease, NOW, hold));
    assert_false(hold_off(&kit, lease, NOW, hold));
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lease_says_what_it_is_of),
        cmocka_unit_test(keys_that_could_serve_are_told_with_their_terms),
        cmocka_unit_test(a_latency_is_a_moving_mean),
        cmocka_unit_test(a_report_of_zeros_leaves_the_estimate),
        cmocka_unit_test(a_wrong_group_is_refused_whatever_follows),
        cmocka_unit_test(an_ending_says_what_it_led_to),
        cmocka_unit_test(a_key_that_others_made_cool_cools),
        cmocka_unit_test(a_group_that_others_made_cool_cools_whole),
        cmocka_unit_test(the_next_key_is_another_one),
        cmocka_unit_test(a_busy_key_serves_what_is_small_enough),
        cmocka_unit_test(a_busy_key_is_tried_again_after_a_second_but_says_the_truth),
        cmocka_unit_test(a_breaker_that_others_opened_is_open),
        cmocka_unit_test(a_moment_that_has_passed_holds_nothing),
        cmocka_unit_test(a_key_that_was_taken_out_is_freed_by_its_last_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
