/* test_keyring_save.c - what a ring knows of its keys goes on in another one. */
#include "failing_malloc.h"

#include <string.h>

#include "keys_kit.h"
#include "lib/core/allocator.h"
#include "lib/keypool/keyring_save.h"

enum { KEYS = 5,
       NOW = 100000 };

static struct keys_kit old, new;

/* Two rings of the same keys; two of them are in a group with limits of its own. */
static void open_rings(void)
{
    struct keys_kit *kits[] = {&old, &new};

    for (size_t i = 0; i < 2; i++) {
        keys_init(kits[i], KEYS, (struct tg_key_limits){.rpm = 60, .tpm = 6000});
        kits[i]->group.limits = (struct tg_key_limits){.rpm = 30, .tpm = 3000};
        kits[i]->keys[3].group = kits[i]->keys[4].group = "g";
        keys_open(kits[i]);
    }
}

static void close_rings(void)
{
    keys_close(&old);
    keys_close(&new);
}

static void copy_ring(tg_ms now)
{
    char *bytes;
    size_t n;

    assert_int_equal(keyring_save(old.ring, now, &bytes, &n), TG_OK);
    keyring_load(new.ring, bytes, n, now);
    mem_free(bytes);
}

static void expect_same_keys(tg_ms now)
{
    for (size_t i = 0; i < KEYS; i++) {
        struct tg_key_metrics a = keys_metrics(&old, i, now), b = keys_metrics(&new, i, now);
        assert_string_equal(b.name, a.name);
        assert_int_equal(b.tpm_remaining, a.tpm_remaining);
        assert_int_equal(b.rpm_remaining, a.rpm_remaining);
        assert_int_equal(b.cool_down_until, a.cool_down_until);
        assert_int_equal(b.failure_cool_down, a.failure_cool_down);
        assert_int_equal(b.consecutive_fails, a.consecutive_fails);
        assert_int_equal(b.breaker, a.breaker);
        assert_int_equal(b.state, a.state);
        assert_true(b.latency_ms == a.latency_ms);
    }
}

/* Something of each kind: tokens and calls of the minute, a key that cools, one whose breaker is
 * open, latencies, a group that has been used, and one that has been turned away. */
static void use_keys(void)
{
    keys_settle(&old, keys_take(&old, 0, 500, NOW), NOW + 40, 700);
    keys_cool(&old, keys_take(&old, 1, 10, NOW), NOW + 10, NOW + 30000);
    for (int i = 0; i < 20; i++)
        if (keys_metrics(&old, 2, NOW).failure_cool_down == 0)
            keys_attempt(&old, 2, NOW, TG_KEY_FAILED);
    keys_end_ok(&old, keys_take(&old, 3, 100, NOW + 50), NOW + 90, 40);
    keys_attempt(&old, 4, NOW + 60, TG_KEY_REFUSED);
}

static void what_is_known_of_keys_goes_on(void **state)
{
    const struct tg_key_metrics *at_first;
    struct tg_key_metrics before;

    (void)state;
    open_rings();
    before = keys_metrics(&new, 0, NOW);
    at_first = &before;
    use_keys();
    copy_ring(NOW + 100);
    expect_same_keys(NOW + 100);
    assert_true(keys_metrics(&new, 0, NOW + 100).tpm_remaining < at_first->tpm_remaining);
    assert_int_equal(keys_metrics(&new, 1, NOW + 100).cool_down_until, NOW + 30000);
    assert_true(keys_metrics(&new, 2, NOW + 100).failure_cool_down > NOW);
    assert_true(keys_metrics(&new, 3, NOW + 100).latency_ms == 40);
    assert_int_equal(keys_metrics(&new, 4, NOW + 100).state,
                     keys_metrics(&old, 4, NOW + 100).state);
    /* A minute later all that was used has room again, there as here. */
    expect_same_keys(NOW + 61000);
    assert_int_equal(keys_metrics(&new, 0, NOW + 61000).tpm_remaining, at_first->tpm_remaining);
    close_rings();
}

/* Each suspended key is probed there as well, and no other. */
static void all_that_are_suspended_go_on(void **state)
{
    struct tg_probe probe;
    int probed = 0;

    (void)state;
    open_rings();
    for (size_t i = 0; i < 3; i++)
        keys_attempt(&old, i, NOW, TG_KEY_REFUSED);
    while (tg_keyring_next_probe(old.ring, NOW, &probe))
        tg_keyring_probed(old.ring, &probe, TG_PROBE_BAD, NOW);
    copy_ring(NOW + 1);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(keys_metrics(&old, i, NOW + 1).state == TG_KEY_SUSPENDED, i < 3);
    while (tg_keyring_next_probe(new.ring, NOW + 1, &probe)) {
        tg_keyring_probed(new.ring, &probe, TG_PROBE_BAD, NOW + 1);
        probed++;
    }
    assert_int_equal(probed, 3);
    for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(keys_metrics(&new, i, NOW + 1).state == TG_KEY_SUSPENDED, i < 3);
    close_rings();
}

/* Calls in flight end where they began. */
static void calls_in_flight_stay_behind(void **state)
{
    (void)state;
    open_rings();
    tg_key_lease lease = keys_take(&old, 0, 500, NOW);
    copy_ring(NOW + 1);
    assert_int_equal(keys_metrics(&old, 0, NOW + 1).in_flight, 1);
    assert_int_equal(keys_metrics(&new, 0, NOW + 1).in_flight, 0);
    assert_int_equal(keys_metrics(&new, 0, NOW + 1).tpm_inflight, 0);
    keys_end(&old, lease, NOW + 2, TG_KEY_OK);
    close_rings();
}

/* What was cut anywhere says of some keys what is so, and of the others nothing. */
static void bytes_that_are_cut_are_read_as_far_as_they_go(void **state)
{
    char *bytes;
    size_t n, known = 0;

    (void)state;
    open_rings();
    use_keys();
    assert_int_equal(keyring_save(old.ring, NOW + 100, &bytes, &n), TG_OK);
    for (size_t cut = 0; cut <= n; cut += cut + 7 < n ? 7 : 1) {
        size_t same = 0;
        keys_close(&new);
        keys_open(&new);
        char *exact = malloc(cut > 0 ? cut : 1); /* a sanitizer sees what is read beyond */
        assert_non_null(exact);
        memcpy(exact, bytes, cut);
        keyring_load(new.ring, exact, cut, NOW + 100);
        free(exact);
        for (size_t i = 0; i < 3; i++)
            same += keys_metrics(&new, i, NOW + 100).rpm_remaining ==
                    keys_metrics(&old, i, NOW + 100).rpm_remaining;
        assert_true(same >= known);
        known = same;
    }
    assert_int_equal(known, 3);
    mem_free(bytes);
    close_rings();
}

static void keys_that_are_gone_are_passed_over(void **state)
{
    (void)state;
    open_rings();
    use_keys();
    keys_close(&new);
    keys_init(&new, KEYS, (struct tg_key_limits){.rpm = 60, .tpm = 6000});
    strcpy(new.names[0], "another");
    new.keys[0].name = new.names[0];
    new.spec.n_groups = 0;
    keys_open(&new); /* without the group, and without the first key */
    copy_ring(NOW + 100);
    assert_int_equal(keys_metrics(&new, 0, NOW + 100).tpm_remaining, 6000);
    assert_int_equal(keys_metrics(&new, 1, NOW + 100).cool_down_until, NOW + 30000);
    close_rings();
}

/* Names of up to 1023 bytes are found again; what has a longer one starts afresh. */
static void long_names_are_found_again(void **state)
{
    static char names[2][1200];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct keys_kit *kits[] = {&old, &new};
        memset(names[i], 'n', i == 0 ? 1023 : 1024);
        for (size_t k = 0; k < 2; k++) {
            keys_init(kits[k], 1, (struct tg_key_limits){.tpm = 6000});
            kits[k]->keys[0].name = names[i];
            keys_open(kits[k]);
        }
        keys_settle(&old, keys_take(&old, 0, 500, NOW), NOW + 40, 700);
        copy_ring(NOW + 100);
        assert_int_equal(keys_metrics(&new, 0, NOW + 100).tpm_remaining, i == 0 ? 5300 : 6000);
        close_rings();
    }
}

static void without_memory_nothing_is_saved(void **state)
{
    char *bytes = NULL;
    size_t n = 77;
    long nth = 0;

    (void)state;
    need_allocator();
    open_rings();
    use_keys();
    for (;; nth++) {
        long before = live;
        fail_at(nth);
        enum tg_err err = keyring_save(old.ring, NOW + 100, &bytes, &n);
        until_failure = -1;
        if (err == TG_OK)
            break;
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_int_equal(live, before);
        assert_null(bytes);
        assert_int_equal(n, 77);
    }
    assert_true(nth > 0);
    mem_free(bytes);
    close_rings();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_known_of_keys_goes_on),
        cmocka_unit_test(all_that_are_suspended_go_on),
        cmocka_unit_test(calls_in_flight_stay_behind),
        cmocka_unit_test(bytes_that_are_cut_are_read_as_far_as_they_go),
        cmocka_unit_test(keys_that_are_gone_are_passed_over),
        cmocka_unit_test(long_names_are_found_again),
        cmocka_unit_test(without_memory_nothing_is_saved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
