/* test_key_reset.c - a key that an operator has reset serves at once, whatever kept it out. */
#include "keys_kit.h"

#define NOW 1000000

static void reset(struct keys_kit *kit, tg_ms now)
{
    assert_true(tg_keyring_reset(kit->ring, "p", "k0", now));
}

static void a_cooldown_ends(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    keys_cool(&kit, keys_acquire(&kit, 1, NOW), NOW, NOW + 50000);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    reset(&kit, NOW);
    assert_int_equal(keys_metrics(&kit, 0, NOW).cool_down_until, 0);
    tg_key_lease lease = keys_acquire(&kit, 1, NOW);
    assert_int_not_equal(lease, 0);
    keys_end(&kit, lease, NOW, TG_KEY_OK);
    keys_close(&kit);
}

static void the_whole_group_serves_again(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_init(&kit, 2, NO_LIMITS);
    kit.keys[0].group = kit.keys[1].group = "g";
    keys_open(&kit);
    keys_cool(&kit, keys_take(&kit, 0, 1, NOW), NOW, NOW + 50000);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    reset(&kit, NOW);
    keys_end(&kit, keys_take(&kit, 0, 1, NOW), NOW, TG_KEY_OK);
    keys_end(&kit, keys_take(&kit, 1, 1, NOW), NOW, TG_KEY_OK);
    keys_close(&kit);
}

static void a_breaker_closes(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    tg_key_lease before = keys_acquire(&kit, 1, NOW);
    while (keys_metrics(&kit, 0, NOW).breaker == TG_BREAKER_CLOSED)
        keys_attempt(&kit, 0, NOW, TG_KEY_FAILED);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    reset(&kit, NOW);
    assert_int_equal(keys_metrics(&kit, 0, NOW).breaker, TG_BREAKER_CLOSED);
    assert_int_equal(keys_metrics(&kit, 0, NOW).consecutive_fails, 0);
    /* One that began before says nothing about the key as it is now. */
    keys_end(&kit, before, NOW, TG_KEY_FAILED);
    assert_int_equal(keys_metrics(&kit, 0, NOW).consecutive_fails, 0);
    keys_attempt(&kit, 0, NOW, TG_KEY_OK);
    keys_close(&kit);
}

/* Also if the breaker never opened: a reset begins anew. */
static void attempts_from_before_a_reset_count_for_nothing(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    tg_key_lease before = keys_acquire(&kit, 1, NOW);
    reset(&kit, NOW);
    keys_end(&kit, before, NOW, TG_KEY_FAILED);
    assert_int_equal(keys_metrics(&kit, 0, NOW).consecutive_fails, 0);
    keys_attempt(&kit, 0, NOW, TG_KEY_FAILED);
    assert_int_equal(keys_metrics(&kit, 0, NOW).consecutive_fails, 1);
    keys_close(&kit);
}

static void a_suspension_is_lifted_and_no_old_probe_brings_it_back(void **state)
{
    struct keys_kit kit;
    struct tg_probe probe, other;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    keys_attempt(&kit, 0, NOW, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, NOW, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, NOW);
    assert_int_equal(keys_metrics(&kit, 0, NOW).state, TG_KEY_SUSPENDED);
    tg_ms due = tg_keyring_next_deadline(kit.ring);
    assert_true(tg_keyring_next_probe(kit.ring, due, &probe));
    reset(&kit, due);
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, due);
    assert_int_equal(keys_metrics(&kit, 0, due).state, TG_KEY_HEALTHY);
    assert_int_equal(tg_keyring_next_deadline(kit.ring), INT64_MAX);
    assert_false(tg_keyring_next_probe(kit.ring, due, &other));
    /* The next refusal has it probed again. */
    keys_attempt(&kit, 0, due + 1, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, due + 1, &probe));
    keys_close(&kit);
}

static void what_was_counted_stays(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 2});
    keys_attempt(&kit, 0, NOW, TG_KEY_OK);
    keys_attempt(&kit, 0, NOW, TG_KEY_OK);
    reset(&kit, NOW);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    keys_close(&kit);
}

static void a_key_that_was_turned_off_stays_off(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    assert_true(tg_keyring_enable(kit.ring, "p", "k0", false, NOW));
    reset(&kit, NOW);
    assert_int_equal(keys_acquire(&kit, 1, NOW), 0);
    keys_close(&kit);
}

static void what_is_not_there_is_not_found(void **state)
{
    struct keys_kit kit;
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    assert_false(tg_keyring_reset(kit.ring, "p", "k1", NOW));
    assert_false(tg_keyring_reset(kit.ring, "q", "k0", NOW));
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cooldown_ends),
        cmocka_unit_test(the_whole_group_serves_again),
        cmocka_unit_test(a_breaker_closes),
        cmocka_unit_test(attempts_from_before_a_reset_count_for_nothing),
        cmocka_unit_test(a_suspension_is_lifted_and_no_old_probe_brings_it_back),
        cmocka_unit_test(what_was_counted_stays),
        cmocka_unit_test(a_key_that_was_turned_off_stays_off),
        cmocka_unit_test(what_is_not_there_is_not_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
