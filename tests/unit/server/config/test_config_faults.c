/* test_config_faults.c - no memory, at any moment of reading: it is said, nothing is kept, and
 * nothing is lost.
 *
 * Every allocation fails once, in turn, and then all from there on.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failing_malloc.h"
#include "server/config/config.h"

#define HASH "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct config_extra extras[] = {
    {.kind = CONFIG_EXTRA_TENANT,
     .name = "api: tenant x",
     .tenant = "x",
     .text = "{parent: team-a, limits: [{rpm: 5}], budgets: [{usd: 1, per: day}]}",
     .bytes = 67},
    {.kind = CONFIG_EXTRA_KEY,
     .name = "api: key",
     .tenant = "x",
     .key = "ci",
     .sha256 = HASH,
     .not_after = CONFIG_NEVER},
    {.kind = CONFIG_EXTRA_KEY,
     .name = "api: key",
     .tenant = "team-a",
     .key = "again",
     .sha256 = HASH,
     .not_after = CONFIG_NEVER},
    {.kind = CONFIG_EXTRA_KEY, .name = "api: key", .tenant = "gone", .sha256 = OTHER},
    {.kind = CONFIG_EXTRA_TOPUP,
     .name = "api: top-up",
     .tenant = "x",
     .micro_usd = 1000,
     .per = CONFIG_DAY},
};

/* The reference, and what it includes. */
static enum config_result read_all(struct config *config, struct config_problems *problems)
{
    return config_load_with("examples/reference.yaml", extras, COUNT_OF(extras), config, problems);
}

/* One that fails inside of the YAML reader is told as a mistake of the file, and some are not
 * needed: so all that is asked for is an honest answer. */
static void fail_each(bool from_there_on)
{
    bool failed = true;
    long i = 0;

    for (; failed; i++) {
        struct config config;
        struct config_problems problems;
        long before = live;
        keeps_failing = from_there_on;
        until_failure = i;
        enum config_result result = read_all(&config, &problems);
        failed = until_failure < 0 || (from_there_on && until_failure == 0);
        until_failure = -1;
        assert_int_equal(result == CONFIG_READ, problems.errors == 0);
        if (result == CONFIG_READ)
            assert_int_equal(config.n_tenants, 7);
        else
            assert_null(config.tenants);
        if (!failed)
            assert_int_equal(result, CONFIG_READ);
        config_free(&config);
        config_problems_free(&problems);
        assert_int_equal(live, before);
    }
    assert_true(i > 20);
}

static void one_allocation_that_fails_is_said(void **state)
{
    (void)state;
    need_allocator();
    fail_each(false);
}

static void no_memory_at_all_is_said(void **state)
{
    (void)state;
    need_allocator();
    fail_each(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_allocation_that_fails_is_said),
        cmocka_unit_test(no_memory_at_all_is_said),
    };
    struct config config;
    struct config_problems problems;

    /* What OpenSSL and the C library keep from their first use on is not ours to count. */
    setenv("DEMO_KEY_1", "sk-reference", 1);
    (void)read_all(&config, &problems);
    config_free(&config);
    config_problems_free(&problems);
    return cmocka_run_group_tests_name("config faults", tests, NULL, NULL);
}
