/* test_redefine_faults.c - limits that change without memory: all or nothing, and nothing is lost.
 */
#include "failing_malloc.h"

#include "keyed.h"

enum { MEMORY = 1 << 20,
       KEYS = 300,
       SHARDS = 8 };

static void expect_counts(struct tg_store *store, const tg_limits sets[2], int64_t limit)
{
    for (uint64_t i = 0; i < KEYS; i++) {
        for (int k = 0; k < 2; k++) {
            struct tg_decision decision;
            assert_int_equal(take_numbered(store, sets[k], i, 0, 1000, &decision), TG_OK);
            assert_int_equal(decision.limit, limit);
            assert_int_equal(decision.remaining, limit - 1 - (int64_t)(i % 9));
        }
    }
}

/* Two sets change together, from states in their slots to states that need memory of their own, and
 * back; each allocation fails once. */
static void each_failing_allocation_changes_nothing(void **state)
{
    (void)state;
    if (!OWN_ALLOCATOR)
        skip();

    struct tg_store *store = must_store(MEMORY, SHARDS);
    const tg_limits sets[2] = {
        must_define_one(store, TG_AXIS_COST, "sliding_log:limit=9,window=86400000"),
        must_define_one(store, TG_AXIS_COST, "sliding_log:limit=9,window=86400000")};
    struct tg_limit larger = limit_on(TG_AXIS_COST, "sliding_log:limit=18,window=86400000");
    struct tg_redefinition change[2] = {{sets[0], &larger, 1}, {sets[1], &larger, 1}};
    struct tg_decision decision;
    enum tg_err err;
    long failed = 0;

    for (uint64_t i = 0; i < KEYS; i++)
        for (int k = 0; k < 2; k++)
            assert_int_equal(
                take_numbered(store, sets[k], i, 1 + (int64_t)(i % 9), 1000, &decision), TG_OK);
    size_t used = stats_of(store).memory_bytes;
    do {
        long before = live;
        until_failure = failed;
        err = tg_store_redefine(store, change, 2, 1000, NULL);
        bool reached = until_failure < 0;
        until_failure = -1;
        if (!err)
            break;
        assert_true(reached);
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_int_equal(live, before);
        assert_int_equal(stats_of(store).memory_bytes, used);
        if (failed % 50 == 0)
            expect_counts(store, sets, 9);
        failed++;
    } while (true);
    /* The list, the places, two sets with their fresh states, two rows of blocks, the blocks. */
    assert_int_equal(failed, 2 + 2 * 2 + 2 + 2 * KEYS);
    expect_counts(store, sets, 18);
    assert_true(stats_of(store).memory_bytes > used);
    tg_store_free(store);
    assert_int_equal(live, 0);
}

/* A set that is named twice, or not there, undoes those before it. */
static void a_wrong_change_leaves_nothing_behind(void **state)
{
    struct tg_store *store = must_store(MEMORY, SHARDS);
    tg_limits set = must_define_one(store, TG_AXIS_COST, "gcra:limit=9,period=1000");
    struct tg_limit other = limit_on(TG_AXIS_COST, "gcra:limit=18,period=1000");
    struct tg_redefinition twice[2] = {{set, &other, 1}, {set, &other, 1}};
    struct tg_redefinition unknown[2] = {{set, &other, 1}, {set + 1, &other, 1}};
    (void)state;

    long before = live;
    assert_int_equal(tg_store_redefine(store, twice, 2, 1000, NULL), TG_ERR_INVALID);
    assert_int_equal(tg_store_redefine(store, unknown, 2, 1000, NULL), TG_ERR_UNKNOWN);
    assert_int_equal(live, before);
    assert_int_equal(must_peek(store, set, "key", 0, 1000).limit, 9);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failing_allocation_changes_nothing),
        cmocka_unit_test(a_wrong_change_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("redefine_faults", tests, NULL, NULL);
}
