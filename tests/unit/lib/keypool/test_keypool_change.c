/* test_keypool_change.c - a ring that becomes another one keeps what has the same name, and takes
 * no spec that makes no sense.
 */
#include <string.h>

#include "keys_kit.h"

static struct keys_kit kit;

static void the_same_names_keep_their_state_under_new_limits(void **state)
{
    (void)state;
    keys_start(&kit, 3, (struct tg_key_limits){.rpm = 5, .tpm = 1000});
    keys_end_ok(&kit, keys_take(&kit, 0, 600, 0), 0, 70);
    tg_key_lease held = keys_take(&kit, 0, 100, 0);
    keys_cool(&kit, keys_take(&kit, 1, 0, 0), 0, 50000);
    for (int i = 0; i < 5; i++)
        keys_attempt(&kit, 2, 0, TG_KEY_FAILED);
    /* The other way round, with a new one before them and another owner. */
    struct tg_key_spec old[3];
    memcpy(old, kit.keys, sizeof old);
    for (size_t i = 0; i < 3; i++)
        kit.keys[3 - i] = old[i];
    kit.keys[0] = (struct tg_key_spec){.name = "new", .owner = &held};
    kit.keys[3].limits.tpm = 900;
    kit.keys[3].owner = &kit;
    kit.pool_spec.n_keys = 4;
    keys_change(&kit, 0);
    struct tg_key_metrics first = keys_metrics(&kit, 3, 0);
    assert_string_equal(first.name, "k0");
    assert_ptr_equal(first.owner, &kit);
    assert_int_equal(first.tpm_remaining, 200);
    assert_int_equal(first.tpm_inflight, 100);
    assert_int_equal(first.rpm_remaining, 3);
    assert_true(first.latency_ms > 69 && first.latency_ms < 71);
    assert_int_equal(keys_metrics(&kit, 2, 0).cool_down_until, 50000);
    assert_int_equal(keys_metrics(&kit, 1, 0).breaker, TG_BREAKER_OPEN);
    assert_int_equal(keys_metrics(&kit, 0, 0).in_flight, 0);
    keys_settle(&kit, held, 0, 50);
    assert_int_equal(keys_metrics(&kit, 3, 0).tpm_remaining, 250);
    assert_int_equal(keys_metrics(&kit, 3, 0).tpm_inflight, 0);
    keys_close(&kit);
}

static void a_lower_limit_revokes_nothing_and_admits_nothing(void **state)
{
    tg_key_lease leases[3];
    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.concurrency = 3});
    for (size_t i = 0; i < 3; i++)
        leases[i] = keys_acquire(&kit, 0, 0);
    kit.keys[0].limits.concurrency = 1;
    keys_change(&kit, 0);
    keys_end(&kit, leases[0], 0, TG_KEY_OK);
    keys_end(&kit, leases[1], 0, TG_KEY_OK);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    keys_end(&kit, leases[2], 0, TG_KEY_OK);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    keys_close(&kit);
}

static void a_limit_that_comes_later_knows_the_minute_before(void **state)
{
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_settle(&kit, keys_acquire(&kit, 400, 0), 0, 500);
    kit.keys[0].limits = (struct tg_key_limits){.rpm = 2, .tpm = 1000};
    keys_change(&kit, 10);
    assert_int_equal(keys_metrics(&kit, 0, 10).tpm_remaining, 500);
    assert_int_equal(keys_metrics(&kit, 0, 10).rpm_remaining, 1);
    keys_close(&kit);
}

/* Metrics and probes are read at the time of whoever reads; calls may come with an earlier one. */
static void looking_at_keys_changes_nothing(void **state)
{
    struct tg_probe probe;

    (void)state;
    keys_start(&kit, 1, (struct tg_key_limits){.rpm = 1, .tpm = 1000});
    keys_settle(&kit, keys_acquire(&kit, 400, 0), 0, 500);
    assert_int_equal(keys_metrics(&kit, 0, 30000).rpm_remaining, 0);
    assert_int_equal(keys_metrics(&kit, 0, 70000).rpm_remaining, 1);
    assert_int_equal(keys_metrics(&kit, 0, 70000).tpm_remaining, 1000);
    assert_false(tg_keyring_next_probe(kit.ring, 70000, &probe));
    assert_int_equal(keys_metrics(&kit, 0, 30000).tpm_remaining, 500);
    assert_int_equal(keys_acquire(&kit, 0, 30000), 0);
    assert_true(keys_acquire(&kit, 0, 70000) != 0);
    keys_close(&kit);
}

static void leases_of_keys_that_were_taken_out_stay_good(void **state)
{
    (void)state;
    keys_init(&kit, 3, NO_LIMITS);
    kit.keys[0].group = kit.keys[1].group = "g";
    keys_open(&kit);
    tg_key_lease a = keys_take(&kit, 0, 10, 0), b = keys_take(&kit, 0, 10, 0);
    tg_key_lease c = keys_take(&kit, 1, 10, 0), d = keys_take(&kit, 1, 10, 0);
    kit.spec.n_groups = 0;
    kit.pool_spec.keys = &kit.keys[2];
    kit.pool_spec.n_keys = 1;
    keys_change(&kit, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(keys_acquire(&kit, 0, 0) != 0);
        assert_int_equal(keys_got(&kit), 2);
    }
    keys_cool(&kit, a, 0, 9000);
    keys_end(&kit, b, 0, TG_KEY_REFUSED);
    keys_end(&kit, c, 0, TG_KEY_OK);
    struct tg_key_report report;
    tg_key_report_init(&report);
    assert_false(tg_keyring_release(kit.ring, a, 0, &report));
    /* d is still out when the ring is freed */
    (void)d;
    keys_close(&kit);
}

static void a_key_that_changes_its_group_gives_back_where_it_took(void **state)
{
    struct tg_group_spec groups[] = {{"p", "a", {0, 0, 1}}, {"p", "b", {0, 0, 1}}};
    (void)state;
    keys_init(&kit, 2, NO_LIMITS);
    kit.spec.groups = groups;
    kit.spec.n_groups = 2;
    kit.keys[0].group = kit.keys[1].group = "a";
    keys_open(&kit);
    tg_key_lease first = keys_take(&kit, 0, 5, 0);
    kit.keys[0].group = "b";
    keys_change(&kit, 0);
    tg_key_lease second = keys_take(&kit, 0, 5, 0);
    assert_int_equal(keys_acquire(&kit, 0, 0), 0); /* one of a runs, and one of b */
    keys_end(&kit, first, 0, TG_KEY_OK);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    assert_int_equal(keys_got(&kit), 1);
    keys_end(&kit, second, 0, TG_KEY_OK);
    (void)keys_take(&kit, 0, 0, 0);
    keys_close(&kit);
}

static void a_pool_that_was_taken_out_has_no_keys_until_it_comes_back(void **state)
{
    struct tg_pool_metrics metrics;
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    kit.spec.n_pools = 0;
    keys_change(&kit, 0);
    assert_null(tg_keyring_pool(kit.ring, "p", "m"));
    assert_int_equal(keys_acquire(&kit, 0, 0), 0);
    assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    tg_pool_get_metrics(kit.pool, &metrics);
    assert_int_equal(metrics.n_keys, 0);
    assert_int_equal(metrics.acquired, 1);
    assert_int_equal(metrics.no_key, 1);
    kit.spec.n_pools = 1;
    keys_change(&kit, 0);
    assert_ptr_equal(tg_keyring_pool(kit.ring, "p", "m"), kit.pool);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    keys_close(&kit);
}

static void a_conversation_keeps_its_key_through_a_change(void **state)
{
    struct tg_key_call call;
    (void)state;
    keys_start(&kit, 50, NO_LIMITS);
    tg_key_call_init(&call);
    call.affinity = "c";
    call.affinity_bytes = 1;
    keys_end(&kit, keys_call(&kit, &call, 0), 0, TG_KEY_OK);
    void *owner = kit.answer.owner;
    struct tg_key_spec last = kit.keys[49];
    memmove(&kit.keys[1], &kit.keys[0], 49 * sizeof last);
    kit.keys[0] = last;
    keys_change(&kit, 0);
    assert_true(keys_call(&kit, &call, 0) != 0);
    assert_ptr_equal(kit.answer.owner, owner);
    keys_close(&kit);
}

static void a_probe_on_its_way_survives_the_end_of_its_key(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_attempt(&kit, 0, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    kit.pool_spec.n_keys = 0;
    keys_change(&kit, 0);
    keys_change(&kit, 0);
    assert_string_equal(probe.name, "k0");
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 0);
    assert_int_equal(tg_keyring_next_deadline(kit.ring), INT64_MAX);
    keys_change(&kit, 0);
    keys_close(&kit);
}

static void a_suspension_survives_a_change(void **state)
{
    struct tg_probe probe;
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    keys_attempt(&kit, 1, 0, TG_KEY_REFUSED);
    assert_true(tg_keyring_next_probe(kit.ring, 0, &probe));
    tg_keyring_probed(kit.ring, &probe, TG_PROBE_BAD, 0);
    keys_change(&kit, 0);
    assert_int_equal(keys_metrics(&kit, 1, 0).state, TG_KEY_SUSPENDED);
    assert_int_equal(tg_keyring_next_deadline(kit.ring), 60000);
    keys_close(&kit);
}

/* ---- specs that make no ring ---- */

static void expect_problem(const char *part)
{
    struct tg_keyring *ring = (struct tg_keyring *)&kit;
    struct tg_problem problem = {""};

    assert_int_equal(tg_keyring_new(&kit.spec, &ring, &problem), TG_ERR_INVALID);
    assert_ptr_equal(ring, &kit);
    if (!strstr(problem.text, part))
        fail_msg("'%s' does not say '%s'", problem.text, part);
    assert_int_equal(tg_keyring_new(&kit.spec, &ring, NULL), TG_ERR_INVALID);
}

#define WRONG(statement, part)         \
    do {                               \
        keys_init(&kit, 3, NO_LIMITS); \
        statement;                     \
        expect_problem(part);          \
    } while (0)

static void what_is_wrong_with_a_spec_is_named(void **state)
{
    struct tg_pool_spec pools[2];
    struct tg_group_spec groups[] = {{"p", "g", {0, 0, 0}}, {"p", "g", {0, 0, 0}}};
    (void)state;
    WRONG(kit.keys[1].name = NULL, "key 2 has no name");
    WRONG(kit.keys[1].name = "", "key 2 has no name");
    WRONG(kit.keys[1].name = "k0", "key k0 of m is given twice");
    WRONG(kit.keys[2].group = "h", "there is no group h");
    WRONG(kit.keys[2].limits.rpm = -1, "key k2 of p: rpm is -1");
    WRONG(kit.keys[2].limits.tpm = INT64_MAX, "tpm is 9223372036854775807");
    WRONG(kit.group.limits.concurrency = -7, "group g of p: concurrency is -7");
    WRONG(kit.group.name = NULL, "group 1");
    WRONG((kit.spec.groups = groups, kit.spec.n_groups = 2), "group g of p is given twice");
    WRONG(kit.pool_spec.model = NULL, "pool 1");
    WRONG(kit.pool_spec.keys = NULL, "keys is null");
    WRONG(kit.pool_spec.n_keys = SIZE_MAX / 2, "keys");
    WRONG(kit.pool_spec.breaker_failures = 0, "breaker_failures is 0; 1 to 1000");
    WRONG(kit.pool_spec.breaker_failures = 1001, "breaker_failures is 1001");
    WRONG(kit.pool_spec.breaker_open = 0, "breaker_open is 0");
    WRONG(kit.pool_spec.affinity_ttl = -1, "affinity_ttl is -1");
    WRONG(kit.spec.cooldown = 0, "cooldown is 0");
    WRONG(kit.spec.cooldown_max = TG_NUMBER_MAX + 1, "cooldown_max is");
    WRONG(kit.spec.probe_every = 0, "probe_every is 0");
    WRONG(kit.spec.max_affinity = SIZE_MAX, "max_affinity is");
    WRONG(kit.spec.pools = NULL, "null");
    keys_init(&kit, 1, NO_LIMITS);
    pools[0] = pools[1] = kit.pool_spec;
    kit.spec.pools = pools;
    kit.spec.n_pools = 2;
    expect_problem("pool m of p is given twice");
}

static void expect_bound(int64_t *number, int64_t value, bool accepted)
{
    struct tg_keyring *ring = NULL;
    struct tg_problem problem = {""};
    int64_t before = *number;

    *number = value;
    enum tg_err err = tg_keyring_new(&kit.spec, &ring, &problem);
    if (err != (accepted ? TG_OK : TG_ERR_INVALID))
        fail_msg("%lld: %s (%s)", (long long)value, tg_strerror(err), problem.text);
    assert_true((ring != NULL) == accepted && (problem.text[0] == 0) == accepted);
    tg_keyring_free(ring);
    *number = before;
}

/* One beyond either bound is refused. */
static void a_number_is_accepted_up_to_its_bounds(void **state)
{
    int64_t affinity = 0;
    const struct {
        int64_t *number, least, most;
    } rows[] = {
        {&kit.spec.cooldown, 1, TG_NUMBER_MAX},
        {&kit.spec.cooldown_max, 1, TG_NUMBER_MAX},
        {&kit.spec.probe_every, 1, TG_NUMBER_MAX},
        {&kit.pool_spec.breaker_failures, 1, 1000},
        {&kit.pool_spec.breaker_open, 1, TG_NUMBER_MAX},
        {&kit.pool_spec.affinity_ttl, 0, TG_NUMBER_MAX},
        {&kit.keys[1].limits.rpm, 0, TG_NUMBER_MAX},
        {&kit.keys[1].limits.tpm, 0, TG_NUMBER_MAX},
        {&kit.keys[1].limits.concurrency, 0, TG_NUMBER_MAX},
        {&kit.group.limits.rpm, 0, TG_NUMBER_MAX},
        {&kit.group.limits.tpm, 0, TG_NUMBER_MAX},
        {&kit.group.limits.concurrency, 0, TG_NUMBER_MAX},
    };
    (void)state;

    keys_init(&kit, 2, NO_LIMITS);
    kit.keys[0].group = "g";
    kit.spec.groups = &kit.group;
    kit.spec.n_groups = 1;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_bound(rows[i].number, rows[i].least, true);
        expect_bound(rows[i].number, rows[i].least - 1, false);
        expect_bound(rows[i].number, rows[i].most, true);
        expect_bound(rows[i].number, rows[i].most + 1, false);
    }
    kit.spec.max_affinity = 1 << 26;
    expect_bound(&affinity, 0, true);
    kit.spec.max_affinity++;
    expect_bound(&affinity, 0, false);
}

static void the_defaults_are_those_of_the_header(void **state)
{
    struct tg_keyring_spec spec;
    struct tg_pool_spec pool;
    (void)state;

    tg_keyring_spec_init(&spec);
    assert_int_equal(spec.cooldown, 60000);
    assert_int_equal(spec.cooldown_max, 3600000);
    assert_int_equal(spec.probe_every, 60000);
    assert_int_equal(spec.max_affinity, 65536);
    assert_int_equal(spec.seed, 0);
    assert_int_equal(spec.chance, 0);
    tg_pool_spec_init(&pool);
    assert_int_equal(pool.breaker_failures, 5);
    assert_int_equal(pool.breaker_open, 30000);
    assert_int_equal(pool.affinity_ttl, 600000);
}

static void an_error_changes_nothing(void **state)
{
    struct tg_problem problem;
    (void)state;
    keys_start(&kit, 2, (struct tg_key_limits){.rpm = 2});
    (void)keys_take(&kit, 0, 0, 0);
    kit.keys[0].limits.rpm = -1;
    assert_int_equal(tg_keyring_change(kit.ring, &kit.spec, 0, &problem), TG_ERR_INVALID);
    kit.keys[0].limits.rpm = 9;
    kit.spec.seed = 2;
    assert_int_equal(tg_keyring_change(kit.ring, &kit.spec, 0, &problem), TG_ERR_INVALID);
    assert_non_null(strstr(problem.text, "seed"));
    assert_int_equal(keys_metrics(&kit, 0, 0).rpm_limit, 2);
    assert_int_equal(keys_metrics(&kit, 0, 0).in_flight, 1);
    keys_close(&kit);
}

static void keys_can_be_read_in_parts(void **state)
{
    static struct tg_key_metrics metrics[1000];
    (void)state;
    keys_start(&kit, 1000, NO_LIMITS);
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, 0, metrics, 1000), 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_string_equal(metrics[i].name, kit.names[i]);
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, 990, metrics, 1000), 10);
    assert_string_equal(metrics[0].name, "k990");
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, 100, metrics, 64), 64);
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, 1000, metrics, 64), 0);
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, SIZE_MAX, metrics, 64), 0);
    assert_int_equal(tg_pool_get_keys(kit.pool, 0, 0, metrics, 0), 0);
    assert_null(metrics[0].group);
    assert_int_equal(metrics[0].rpm_remaining, TG_NUMBER_MAX);
    keys_close(&kit);
}

/* Whatever the order in which a spec names them. */
static void pools_are_found_in_any_order(void **state)
{
    static const char *const models[] = {"m", "z", "a", "y", "b", "x", "c", "w"};
    struct tg_pool_spec pools[COUNT_OF(models)];
    struct tg_keyring_spec spec;
    struct tg_keyring *ring = NULL;
    (void)state;

    tg_keyring_spec_init(&spec);
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        tg_pool_spec_init(&pools[i]);
        pools[i].provider = "p";
        pools[i].model = models[i];
    }
    spec.pools = pools;
    spec.n_pools = COUNT_OF(models);
    assert_int_equal(tg_keyring_new(&spec, &ring, NULL), TG_OK);
    struct tg_pool *found[COUNT_OF(models)];
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        found[i] = tg_keyring_pool(ring, "p", models[i]);
        assert_non_null(found[i]);
    }
    /* A pool that is left out is there no more, and is the same one when it comes back. */
    spec.n_pools = 3;
    assert_int_equal(tg_keyring_change(ring, &spec, 0, NULL), TG_OK);
    for (size_t i = 0; i < COUNT_OF(models); i++)
        assert_ptr_equal(tg_keyring_pool(ring, "p", models[i]), i < 3 ? found[i] : NULL);
    spec.pools = &pools[2];
    spec.n_pools = COUNT_OF(models) - 2;
    assert_int_equal(tg_keyring_change(ring, &spec, 0, NULL), TG_OK);
    for (size_t i = 0; i < COUNT_OF(models); i++)
        assert_ptr_equal(tg_keyring_pool(ring, "p", models[i]), i < 2 ? NULL : found[i]);
    assert_null(tg_keyring_pool(ring, "p", "d"));
    tg_keyring_free(ring);
}

static void null_is_freed(void **state)
{
    (void)state;
    tg_keyring_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_names_keep_their_state_under_new_limits),
        cmocka_unit_test(a_lower_limit_revokes_nothing_and_admits_nothing),
        cmocka_unit_test(a_limit_that_comes_later_knows_the_minute_before),
        cmocka_unit_test(looking_at_keys_changes_nothing),
        cmocka_unit_test(leases_of_keys_that_were_taken_out_stay_good),
        cmocka_unit_test(a_key_that_changes_its_group_gives_back_where_it_took),
        cmocka_unit_test(a_pool_that_was_taken_out_has_no_keys_until_it_comes_back),
        cmocka_unit_test(a_conversation_keeps_its_key_through_a_change),
        cmocka_unit_test(a_probe_on_its_way_survives_the_end_of_its_key),
        cmocka_unit_test(a_suspension_survives_a_change),
        cmocka_unit_test(what_is_wrong_with_a_spec_is_named),
        cmocka_unit_test(an_error_changes_nothing),
        cmocka_unit_test(a_number_is_accepted_up_to_its_bounds),
        cmocka_unit_test(the_defaults_are_those_of_the_header),
        cmocka_unit_test(keys_can_be_read_in_parts),
        cmocka_unit_test(pools_are_found_in_any_order),
        cmocka_unit_test(null_is_freed),
    };
    return cmocka_run_group_tests_name("keypool_change", tests, NULL, NULL);
}
