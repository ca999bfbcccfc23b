/* test_keypool_misuse.c - what is missing, was not initialized or is too much: each function says
 * so, changes nothing and loses nothing.
 */
#include "failing_malloc.h"

#include <string.h>

#include "keys_kit.h"

enum { NOW = 100000,
       KEYS_MAX = 1 << 20 };

static struct keys_kit kit;

/* Nothing has happened since: all keys are as they were made, and no call waits for a probe. */
static void expect_untouched(void)
{
    for (size_t i = 0; i < 2; i++) {
        struct tg_key_metrics metrics = keys_metrics(&kit, i, NOW);
        assert_int_equal(metrics.state, TG_KEY_HEALTHY);
        assert_int_equal(metrics.in_flight, 0);
        assert_int_equal(metrics.rpm_remaining, 10);
    }
    assert_int_equal(tg_keyring_next_deadline(kit.ring), INT64_MAX);
}

static void what_is_missing_is_an_error_and_changes_nothing(void **state)
{
    struct tg_key_answer answer = {.lease = 7};
    struct tg_key_ending ending = {7, 7};
    struct tg_key_report report;
    struct tg_key_terms terms[2];
    struct tg_key_hold hold = {.why = TG_HOLD_COOLING, .until = NOW + 5000};
    struct tg_probe probe;
    struct tg_key_call call;
    void *owners[2];
    (void)state;

    keys_start(&kit, 2, (struct tg_key_limits){.rpm = 10});
    tg_key_report_init(&report);
    tg_key_call_init(&call);
    assert_null(tg_keyring_pool(NULL, "p", "m"));
    assert_null(tg_keyring_pool(kit.ring, NULL, "m"));
    assert_null(tg_keyring_pool(kit.ring, "p", NULL));
    assert_false(tg_keyring_enable(NULL, "p", "k0", false, NOW));
    assert_false(tg_keyring_enable(kit.ring, NULL, "k0", false, NOW));
    assert_false(tg_keyring_enable(kit.ring, "p", NULL, false, NOW));
    assert_false(tg_keyring_reset(NULL, "p", "k0", NOW));
    assert_false(tg_keyring_reset(kit.ring, NULL, "k0", NOW));
    assert_false(tg_keyring_reset(kit.ring, "p", NULL, NOW));
    assert_false(tg_keyring_next_probe(NULL, NOW, &probe));
    assert_false(tg_keyring_next_probe(kit.ring, NOW, NULL));
    tg_keyring_probed(NULL, &probe, TG_PROBE_BAD, NOW);
    tg_keyring_probed(kit.ring, NULL, TG_PROBE_BAD, NOW);
    assert_int_equal(tg_keyring_next_deadline(NULL), INT64_MAX);
    assert_int_equal(tg_pool_peek_terms(NULL, &call, NOW, terms, owners, 2), 0);
    assert_int_equal(tg_pool_peek_terms(kit.pool, NULL, NOW, terms, owners, 2), 0);
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, NULL, owners, 2), 0);
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, NULL, 2), 0);
    tg_pool_acquire(kit.pool, &call, NOW, NULL);
    tg_pool_peek(kit.pool, &call, NOW, NULL);
    for (int i = 0; i < 4; i++) {
        answer = (struct tg_key_answer){.lease = 7, .owner = &answer};
        if (i < 2)
            tg_pool_acquire(i ? kit.pool : NULL, i ? NULL : &call, NOW, &answer);
        else
            tg_pool_peek(i == 3 ? kit.pool : NULL, i == 3 ? NULL : &call, NOW, &answer);
        assert_true(answer.lease == 0 && answer.owner == NULL);
        assert_int_equal(answer.retry_after_ms, TG_UNSATISFIABLE);
    }
    expect_untouched();
    tg_key_lease lease = keys_take(&kit, 0, 1, NOW);
    assert_false(tg_keyring_terms(NULL, lease, terms));
    assert_false(tg_keyring_terms(kit.ring, lease, NULL));
    assert_false(tg_keyring_hold_off(NULL, lease, NOW, &hold));
    assert_false(tg_keyring_hold_off(kit.ring, lease, NOW, NULL));
    assert_false(tg_keyring_end(NULL, lease, NOW, &report, &ending));
    assert_false(tg_keyring_end(kit.ring, lease, NOW, &report, NULL));
    assert_false(tg_keyring_release(NULL, lease, NOW, &report));
    assert_int_equal(tg_pool_get_keys(NULL, NOW, 0, (struct tg_key_metrics *)NULL, 1), 0);
    assert_int_equal(tg_pool_get_keys(kit.pool, NOW, 0, (struct tg_key_metrics *)NULL, 1), 0);
    assert_int_equal(keys_metrics(&kit, 0, NOW).in_flight, 1);
    assert_true(tg_keyring_release(kit.ring, lease, NOW, NULL)); /* how it ended is not known */
    assert_int_equal(keys_metrics(&kit, 0, NOW).in_flight, 0);
    keys_close(&kit);
}

/* A call that nobody has initialized, but set to zeros, asks for nothing in particular; and one
 * whose size is none asks for no key. */
static void zeros_are_a_call_and_a_size_that_is_none_is_not(void **state)
{
    static const size_t wrong[] = {1, 8, 16};
    struct tg_key_call call = {.tokens = 5};
    struct tg_key_answer answer;
    struct tg_key_terms terms[2];
    void *owners[2];
    (void)state;

    keys_start(&kit, 2, (struct tg_key_limits){.rpm = 10, .tpm = 100});
    assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 2), 2);
    assert_int_equal(terms[0].tokens, 5);
    tg_pool_peek(kit.pool, &call, NOW, &answer);
    assert_int_equal(answer.retry_after_ms, 0);
    call.prefer = kit.keys[1].owner;
    for (int i = 0; i < 3; i++) {
        assert_int_not_equal(keys_call(&kit, &call, NOW), 0);
        assert_int_equal(keys_got(&kit), 1);
        keys_end(&kit, kit.answer.lease, NOW, TG_KEY_OK);
    }
    assert_int_equal(keys_metrics(&kit, 1, NOW).tpm_remaining, 85);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        call.struct_size = wrong[i];
        assert_int_equal(tg_pool_peek_terms(kit.pool, &call, NOW, terms, owners, 2), 0);
        tg_pool_peek(kit.pool, &call, NOW, &answer);
        assert_int_equal(answer.retry_after_ms, TG_UNSATISFIABLE);
        assert_int_equal(keys_call(&kit, &call, NOW), 0);
        assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    }
    keys_close(&kit);
}

/* A latency of 0 that nobody has initialized is none: the first that is given is the mean. */
static void a_latency_of_zero_is_none_if_nobody_has_initialized_it(void **state)
{
    struct tg_key_report zeros = {.outcome = TG_KEY_OK};
    (void)state;

    keys_start(&kit, 1, NO_LIMITS);
    assert_true(tg_keyring_release(kit.ring, keys_acquire(&kit, 1, NOW), NOW, &zeros));
    zeros.latency_ms = 0.5;
    assert_true(tg_keyring_release(kit.ring, keys_acquire(&kit, 1, NOW), NOW + 9, &zeros));
    assert_true(keys_metrics(&kit, 0, NOW + 9).latency_ms == 0.5);
    zeros.latency_ms = -3; /* none, either */
    assert_true(tg_keyring_release(kit.ring, keys_acquire(&kit, 1, NOW), NOW + 9, &zeros));
    assert_true(keys_metrics(&kit, 0, NOW + 9).latency_ms == 0.5);
    keys_close(&kit);
}

static void expect_wrong(const char *part)
{
    struct tg_problem problem = {""};
    struct tg_keyring *ring = NULL;

    assert_int_equal(tg_keyring_new(&kit.spec, &ring, &problem), TG_ERR_INVALID);
    assert_null(ring);
    if (!strstr(problem.text, part))
        fail_msg("\"%s\" does not say \"%s\"", problem.text, part);
}

/* Lists are not looked at before it is certain that they are there, and are no longer than any can
 * be; one that is empty need not be there. */
static void a_list_is_looked_at_only_if_it_can_be_one(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        keys_init(&kit, 1, NO_LIMITS);
        if (i == 0)
            kit.spec.groups = NULL;
        else if (i == 1)
            kit.spec.pools = NULL;
        else if (i == 2)
            kit.spec.n_groups = KEYS_MAX + 1;
        else
            kit.spec.n_pools = KEYS_MAX + 1;
        expect_wrong(i < 2 ? "null" : "1048576 are allowed");
    }
    keys_init(&kit, 1, NO_LIMITS);
    kit.spec.groups = NULL;
    kit.spec.n_groups = 0;
    keys_open(&kit);
    keys_close(&kit);
    kit.spec.pools = NULL;
    kit.spec.n_pools = 0;
    assert_int_equal(tg_keyring_new(&kit.spec, &kit.ring, NULL), TG_OK);
    keys_close(&kit);
}

/* Pools and groups are known by two names each; without one of them, there is none. */
static void what_has_no_name_is_refused(void **state)
{
    static const char *const none[] = {NULL, ""};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(none); i++)
        for (int field = 0; field < 4; field++) {
            keys_init(&kit, 1, NO_LIMITS);
            const char **const names[] = {&kit.pool_spec.provider, &kit.pool_spec.model,
                                          &kit.group.provider, &kit.group.name};
            *names[field] = none[i];
            expect_wrong(field < 2 ? "pool 1: it needs a provider and a model"
                                   : "group 1: it needs a provider and a name");
        }
}

/* What was taken out is freed by its last lease: the key with its name, and the group. */
static void the_last_lease_of_what_was_taken_out_frees_it(void **state)
{
    (void)state;
    need_allocator();
    keys_init(&kit, 2, NO_LIMITS);
    kit.keys[1].group = "g";
    keys_open(&kit);
    tg_key_lease first = keys_take(&kit, 1, 1, NOW), second = keys_take(&kit, 1, 1, NOW);
    kit.pool_spec.n_keys = 1;
    kit.spec.n_groups = 0;
    keys_change(&kit, NOW);
    long before = live;
    keys_end(&kit, first, NOW, TG_KEY_OK);
    assert_int_equal(live, before);
    keys_end(&kit, second, NOW, TG_KEY_OK);
    assert_int_equal(live, before - 3);
    keys_close(&kit);
}

/* Keys and groups that were taken out belong to their leases; whoever frees the ring before those
 * end frees them, too. */
static void a_ring_that_is_freed_with_leases_open_loses_no_memory(void **state)
{
    long before = live;
    (void)state;

    need_allocator();
    keys_init(&kit, 4, NO_LIMITS);
    kit.keys[2].group = kit.keys[3].group = "g";
    keys_open(&kit);
    for (size_t i = 0; i < 4; i++) /* one has one lease, the next two, and so on */
        for (size_t n = 0; n <= i; n++)
            (void)keys_take(&kit, i, 1, NOW);
    kit.pool_spec.n_keys = 1;
    kit.spec.n_groups = 0;
    keys_change(&kit, NOW);
    keys_close(&kit);
    assert_int_equal(live, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_an_error_and_changes_nothing),
        cmocka_unit_test(zeros_are_a_call_and_a_size_that_is_none_is_not),
        cmocka_unit_test(a_latency_of_zero_is_none_if_nobody_has_initialized_it),
        cmocka_unit_test(a_list_is_looked_at_only_if_it_can_be_one),
        cmocka_unit_test(what_has_no_name_is_refused),
        cmocka_unit_test(the_last_lease_of_what_was_taken_out_frees_it),
        cmocka_unit_test(a_ring_that_is_freed_with_leases_open_loses_no_memory),
    };
    return cmocka_run_group_tests_name("keypool_misuse", tests, NULL, NULL);
}
