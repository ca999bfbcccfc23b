/* test_key_failures.c - which failures count against a key that several tenants use. */
#include "check.h"

#include "server/upstream/key_failures.h"

enum { KEY = 1,
       OTHER_KEY = 2 };
enum { ANNA = 10,
       BEN = 20,
       CLEO = 30 };

static const tg_ms START = 1800000000000;
static struct key_failures *failures;
static tg_ms now;

static int set_up(void **state)
{
    (void)state;
    failures = key_failures_new();
    now = START;
    return failures == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    key_failures_free(failures);
    return 0;
}

static bool fails(uint64_t tenant)
{
    return key_failures_failed(failures, KEY, tenant, now);
}

static void is_served(uint64_t tenant)
{
    key_failures_served(failures, KEY, tenant, now);
}

/* A breaker of one tenant is what it always was. */
static void each_failure_of_one_who_is_alone_counts(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_true(fails(ANNA));
    is_served(ANNA);
    assert_true(fails(ANNA));
    assert_true(fails(ANNA));
}

static void failures_of_one_do_not_count_while_others_are_served(void **state)
{
    (void)state;
    is_served(BEN);
    for (int i = 0; i < 1000; i++) {
        now += 500;
        assert_false(fails(ANNA));
    }
    is_served(ANNA); /* makes it no other */
    assert_false(fails(ANNA));
}

/* The newest that was served, and the newest other one: however often who of three is served. */
static void whoever_was_served_is_an_other_to_the_rest(void **state)
{
    (void)state;
    is_served(ANNA);
    assert_true(fails(ANNA));
    is_served(BEN);
    is_served(ANNA);
    is_served(ANNA);
    assert_false(fails(ANNA));
    now += KEY_FAILURES_FAILED_MS + 1;
    assert_false(fails(BEN));
    now += KEY_FAILURES_FAILED_MS + 1;
    is_served(CLEO);
    assert_false(fails(CLEO));
}

/* An outage meets everybody: what fails in turn counts, all of it but the first. */
static void failures_of_two_in_turn_count(void **state)
{
    (void)state;
    is_served(ANNA);
    is_served(BEN);
    assert_false(fails(ANNA));
    assert_true(fails(BEN));
    assert_true(fails(ANNA));
    assert_true(fails(BEN));
    assert_false(fails(BEN)); /* nothing new */
    assert_true(fails(CLEO));
}

static void what_was_long_ago_is_forgotten(void **state)
{
    (void)state;
    is_served(BEN);
    assert_false(fails(CLEO));
    now += KEY_FAILURES_FAILED_MS;
    assert_true(fails(ANNA)); /* Cleo has just failed */
    now += KEY_FAILURES_FAILED_MS + 1;
    assert_false(fails(CLEO));
    now = START + KEY_FAILURES_SERVED_MS;
    assert_false(fails(ANNA));
    assert_false(fails(ANNA));
    now++;
    assert_true(fails(ANNA));
    assert_true(fails(ANNA));
}

static void keys_are_told_apart(void **state)
{
    (void)state;
    is_served(BEN);
    assert_true(key_failures_failed(failures, OTHER_KEY, ANNA, now));
    assert_false(fails(ANNA));
    for (uint64_t key = 100; key < 300; key++)
        key_failures_served(failures, key, BEN, now);
    for (uint64_t key = 100; key < 300; key++) {
        assert_false(key_failures_failed(failures, key, ANNA, now));
        assert_true(key_failures_failed(failures, key, CLEO, now));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_failure_of_one_who_is_alone_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_of_one_do_not_count_while_others_are_served,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_was_served_is_an_other_to_the_rest, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(failures_of_two_in_turn_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_long_ago_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_told_apart, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("key failures", tests, NULL, NULL);
}
