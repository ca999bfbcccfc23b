/* test_keypool_faults.c - the same life of a ring with its 1st, 2nd, 3rd ... allocation failing: it
 * says so, has changed nothing, goes on afterwards, and loses no memory. And once it has seen as
 * many calls at once as there will be, it allocates nothing.
 *
 * The allocator of this program counts, and fails when told. A sanitizer has an allocator of its
 * own, so there the tests are skipped.
 */
#include <stdlib.h>

#include "keys_kit.h"

#include "failing_malloc.h"

enum { KEYS = 70,
       CALLS = 100 };

static struct keys_kit kit;

/* Leases as many as there is memory for; each of the others is told to come again. */
static size_t lease_many(tg_key_lease *leases)
{
    size_t n = 0;

    for (int i = 0; i < CALLS; i++) {
        tg_key_lease lease = keys_acquire(&kit, 5, 0);
        if (lease)
            leases[n++] = lease;
        else
            assert_int_equal(kit.answer.retry_after_ms, 1);
    }
    return n;
}

/* The life of a ring; says how much of it failed. */
static long live_once(long nth)
{
    struct tg_key_metrics metrics[KEYS];
    tg_key_lease leases[CALLS];
    long errors = 0;
    int64_t in_flight = 0;

    fail_at(nth);
    keys_init(&kit, KEYS, (struct tg_key_limits){.tpm = 100000});
    kit.keys[3].group = kit.keys[4].group = "g";
    enum tg_err err = tg_keyring_new(&kit.spec, &kit.ring, NULL);
    if (err) {
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_null(kit.ring);
        return 1;
    }
    kit.pool = tg_keyring_pool(kit.ring, "p", "m");
    size_t n = lease_many(leases);
    errors += CALLS - (long)n;
    kit.pool_spec.n_keys = KEYS - 10;
    kit.keys[0].name = "new";
    err = tg_keyring_change(kit.ring, &kit.spec, 0, NULL);
    assert_true(err == TG_OK || err == TG_ERR_MEMORY);
    errors += err != TG_OK;
    until_failure = -1;
    size_t keys = tg_pool_get_keys(kit.pool, 0, 0, metrics, KEYS);
    assert_int_equal(keys, err ? KEYS : KEYS - 10);
    assert_string_equal(metrics[0].name, err ? "k0" : "new");
    for (size_t i = 0; i < n; i++)
        keys_end(&kit, leases[i], 0, TG_KEY_OK);
    (void)tg_pool_get_keys(kit.pool, 0, 0, metrics, KEYS);
    for (size_t i = 0; i < keys; i++)
        in_flight += metrics[i].in_flight;
    assert_int_equal(in_flight, 0);
    keys_close(&kit);
    return errors;
}

static void one_failing_allocation_changes_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, 200, 200);
}

static void no_memory_from_some_moment_on_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, true, 200, 200);
}

static void a_warm_ring_allocates_nothing(void **state)
{
    tg_key_lease leases[CALLS];
    struct tg_key_call call;
    struct tg_probe probe;
    (void)state;
    need_allocator();
    until_failure = -1;
    keys_start(&kit, KEYS, (struct tg_key_limits){.tpm = 1000, .rpm = 90});
    size_t n = lease_many(leases);
    for (size_t i = 0; i < n; i++)
        keys_end(&kit, leases[i], 0, TG_KEY_OK);
    tg_key_call_init(&call);
    call.affinity = &call.tokens;
    call.affinity_bytes = sizeof call.tokens;
    allocations = 0;
    for (tg_ms now = 0; now < 200000; now += 7) {
        call.tokens = now % 300;
        if (keys_call(&kit, &call, now))
            keys_end(&kit, kit.answer.lease, now, (enum tg_key_outcome)(now % 6));
        if (tg_keyring_next_probe(kit.ring, now, &probe))
            tg_keyring_probed(kit.ring, &probe, TG_PROBE_GOOD, now);
    }
    assert_int_equal(allocations, 0);
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_allocation_changes_nothing_and_is_survived),
        cmocka_unit_test(no_memory_from_some_moment_on_is_survived),
        cmocka_unit_test(a_warm_ring_allocates_nothing),
    };
    return cmocka_run_group_tests_name("keypool_faults", tests, NULL, NULL);
}
