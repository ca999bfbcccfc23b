/* test_ledger_blob.c - bytes that are kept by name are there after a restart. */
#include "ledger_kit.h"

#include "server/ledger/ledger_blob.h"

static struct tg_problem problem;

static void expect_kept(struct ledger *ledger, const char *name, const char *want)
{
    size_t n = 0;
    char *bytes = ledger_blob_get(ledger, name, &n);

    if (want == NULL) {
        assert_null(bytes);
        return;
    }
    assert_non_null(bytes);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(bytes, want, n);
    free(bytes);
}

static void what_was_put_last_is_there_after_a_restart(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    (void)state;

    expect_kept(ledger, "policy", NULL); /* there is no table yet */
    assert_true(ledger_blob_put(ledger, "policy", "first", 5, &problem));
    assert_true(ledger_blob_put(ledger, "policy", "second", 6, &problem));
    assert_true(ledger_blob_put(ledger, "other", "x", 1, &problem));
    kit_close(ledger);

    ledger = kit_open(&kit);
    expect_kept(ledger, "policy", "second");
    expect_kept(ledger, "other", "x");
    expect_kept(ledger, "none", NULL);
    kit_close(ledger);
    kit_free(&kit);
}

static void what_is_too_much_is_refused_and_changes_nothing(void **state)
{
    struct kit kit = kit_new();
    struct ledger *ledger = kit_open(&kit);
    char *large = calloc(1, LEDGER_BLOB_MAX + 1);
    (void)state;

    assert_non_null(large);
    assert_true(ledger_blob_put(ledger, "policy", "first", 5, &problem));
    assert_false(ledger_blob_put(ledger, "policy", large, LEDGER_BLOB_MAX + 1, &problem));
    assert_non_null(strstr(problem.text, "policy has 1048577 bytes; at most 1048576 are kept"));
    expect_kept(ledger, "policy", "first");
    free(large);
    kit_close(ledger);
    kit_free(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_last_is_there_after_a_restart),
        cmocka_unit_test(what_is_too_much_is_refused_and_changes_nothing),
    };

    kit_wrap_sqlite();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
