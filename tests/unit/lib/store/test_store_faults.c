/* test_store_faults.c - the same life of a store with its 1st, 2nd, 3rd ... allocation failing:
 * it says so, charges nothing, goes on afterwards, and loses no memory.
 *
 * The allocator of this program counts, and fails when told. A sanitizer has an allocator of its
 * own, so there the test is skipped.
 */
#include <stdlib.h>

#include "keyed.h"

#include "failing_malloc.h"

#define SETS 12
#define KEYS 60
#define LIMIT 40

/* What was charged to each key of each set, by the calls that said they did. */
struct books {
    tg_limits sets[SETS];
    int64_t charged[SETS][KEYS];
    long errors;
};

static void define_sets(struct tg_store *store, struct books *books)
{
    static const char *const specs[] = {"fixed_window:limit=40,window=100000",
                                        "sliding_log:limit=40,window=100000"};

    for (size_t i = 0; i < SETS; i++) {
        struct tg_limit limit = limit_on(TG_AXIS_COST, specs[i % 2]);
        while (books->sets[i] == 0) {
            enum tg_err err = tg_store_define(store, &limit, 1, &books->sets[i], NULL);
            assert_true(err == TG_OK || err == TG_ERR_MEMORY);
            books->errors += err != TG_OK;
            if (err != TG_OK)
                until_failure = -1; /* or it would never be defined */
        }
    }
}

/* One call for one key under two sets. */
static void charge(struct tg_store *store, struct books *books, size_t set, uint64_t number)
{
    struct numbered_key key = numbered_key(number);
    struct tg_scope scopes[] = {scope_of(books->sets[set], key.text),
                                scope_of(books->sets[set + 1], key.text)};
    struct tg_debit debit = {.scopes = scopes, .n_scopes = 2, .cost = 1};
    struct tg_decision decision;
    enum tg_err err = tg_store_take(store, &debit, 1000, &decision, NULL);

    assert_true(err == TG_OK || err == TG_ERR_MEMORY);
    books->errors += err != TG_OK;
    if (err != TG_OK)
        return;
    assert_true(decision.allowed);
    books->charged[set][number]++;
    books->charged[set + 1][number]++;
}

static void expect_books(struct tg_store *store, const struct books *books)
{
    for (size_t set = 0; set < SETS; set++) {
        for (uint64_t i = 0; i < KEYS; i++) {
            struct numbered_key key = numbered_key(i);
            struct tg_decision decision = must_peek(store, books->sets[set], key.text, 0, 1000);
            assert_int_equal(decision.remaining, LIMIT - books->charged[set][i]);
        }
    }
}

/* Returns how many errors there were. */
static long live_once(long nth)
{
    struct books books = {.errors = 0};
    struct tg_store *store = NULL;
    struct tg_store_config config;

    fail_at(nth);
    tg_store_config_init(&config);
    config.shards = 2;
    enum tg_err err = tg_store_new(&config, &store, NULL);
    if (err != TG_OK) {
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_null(store);
        return 1;
    }
    define_sets(store, &books);
    for (uint64_t i = 0; i < 3 * KEYS; i++)
        charge(store, &books, (size_t)(i % (SETS - 1)), i % KEYS);
    until_failure = -1;
    expect_books(store, &books);
    tg_store_free(store);
    return books.errors;
}

static void one_failing_allocation_charges_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, false, 50, 20);
}

static void no_memory_from_some_moment_on_charges_nothing_and_is_survived(void **state)
{
    (void)state;
    need_allocator();
    expect_survival(live_once, true, 50, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failing_allocation_charges_nothing_and_is_survived),
        cmocka_unit_test(no_memory_from_some_moment_on_charges_nothing_and_is_survived),
    };
    return cmocka_run_group_tests_name("store_faults", tests, NULL, NULL);
}
