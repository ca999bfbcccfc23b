/* test_store_room.c - how a store makes room for a key: what grows, what is forgotten, and when. */
#include <string.h>

#include "failing_malloc.h"
#include "keyed.h"
#include "lib/store/store.h"

enum { MEMORY = 1 << 20 };

#define TEN_A_DAY "gcra:limit=10,period=86400000"
#define TEN_A_SECOND "gcra:limit=10,period=1000"
#define LOG_OF_A_DAY "sliding_log:limit=10,window=86400000"

/* Up to 4 of 5 slots are taken, so that a search is short; half of them at least, so that a key
 * takes 64 bytes at most. */
static void a_table_is_from_half_to_four_fifths_full(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define_one(store, TG_AXIS_RATE, TEN_A_DAY);
    const struct table *table = &store->shards[0].table;
    struct tg_decision decision;
    uint32_t fullest = 0;
    (void)state;

    for (uint32_t n = 1; n <= 3000; n++) {
        assert_int_equal(take_numbered(store, set, n, 1, 1000, &decision), TG_OK);
        assert_int_equal(table->n, n);
        assert_true(5 * n <= 4 * table_capacity(table));
        assert_true(n < 4 || 2 * n + 1 >= table_capacity(table));
        fullest += 5 * (n + 1) > 4 * table_capacity(table);
        assert_int_equal(stats_of(store).memory_bytes,
                         sizeof *store + sizeof(struct shard) +
                             (table_capacity(table) * sizeof(struct table_slot) + 63) / 64 * 64);
    }
    assert_in_range(fullest, 10, 20); /* once for each growth by half */
    tg_store_free(store);
}

/* While a table can grow or be filled closer, nothing is looked through. */
static void fresh_keys_stay_while_there_is_room(void **state)
{
    struct tg_store *store = must_store(1 << 16, 1);
    tg_limits set = must_define_one(store, TG_AXIS_RATE, TEN_A_SECOND);
    const struct table *table = &store->shards[0].table;
    struct tg_decision decision;
    uint64_t n = 0;
    (void)state;

    while (stats_of(store).forgotten == 0) { /* each key is fresh when the next one comes */
        n++;
        assert_int_equal(take_numbered(store, set, n, 1, 1000 * (tg_ms)n, &decision), TG_OK);
    }
    assert_int_equal(stats_of(store).forgotten, n - 1);
    /* Fifteen of sixteen slots were taken, in a table that could not grow by half. */
    uint32_t capacity = table_capacity(table);
    assert_in_range(n - 1, capacity - capacity / 16 - 2, capacity - capacity / 16);
    assert_true((size_t)capacity * sizeof(struct table_slot) * 3 / 2 > (1 << 16) - 1024);
    tg_store_free(store);
}

/* Whichever of its scopes is the first to be fresh. */
static void each_scope_of_a_call_is_forgotten_at_its_time(void **state)
{
    static const char *const specs[] = {TEN_A_DAY, TEN_A_SECOND};
    (void)state;

    for (size_t first = 0; first < 2; first++) {
        struct tg_store *store = must_store(MEMORY, 1);
        struct tg_scope scopes[] = {
            scope_of(must_define_one(store, TG_AXIS_COST, specs[first]), "one"),
            scope_of(must_define_one(store, TG_AXIS_COST, specs[1 - first]), "other")};
        struct tg_debit debit = {.scopes = scopes, .n_scopes = 2, .cost = 5};
        struct tg_decision decision;

        assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
        assert_int_equal(tg_store_sweep(store, 1499), 0);
        assert_int_equal(tg_store_sweep(store, 1500), 1);
        assert_int_equal(stats_of(store).keys, 1);
        tg_store_free(store);
    }
}

static void a_key_that_was_settled_for_less_is_fresh_earlier(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    (void)state;

    must_take(store, set, "key", 5, 1000);
    must_settle(store, set, "key", 5, 1000, 1000, 2);
    assert_int_equal(tg_store_sweep(store, 1199), 0);
    assert_int_equal(tg_store_sweep(store, 1200), 1);
    tg_store_free(store);
}

/* Charged by axis, a call that cost refuses spends its rate alone. */
static void a_scope_that_is_not_charged_gets_no_entry(void **state)
{
    struct tg_store *store = must_store(MEMORY, 1);
    struct tg_scope scopes[] = {
        scope_of(must_define_one(store, TG_AXIS_RATE, TEN_A_DAY), "calls"),
        scope_of(must_define_one(store, TG_AXIS_COST, TEN_A_DAY), "tokens")};
    struct tg_debit debit = {
        .scopes = scopes, .n_scopes = 2, .cost = 11, .charging = TG_CHARGE_PER_AXIS};
    struct tg_decision decision;
    (void)state;

    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_OK);
    assert_false(decision.allowed);
    assert_int_equal(stats_of(store).keys, 1);
    assert_int_equal(must_take(store, scopes[0].limits, "calls", 0, 1000).remaining, 8);
    tg_store_free(store);
}

/* In the shard that is looked into first, the key that seemed to become fresh was charged again. */
static void reclaiming_goes_on_until_there_is_memory(void **state)
{
    struct tg_store *store = must_store(MEMORY, 2);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    struct tg_decision decision;
    uint64_t first = 0, second = 0;
    (void)state;

    for (; store->shards[0].table.n == 0; first++)
        assert_int_equal(take_numbered(store, set, first, 1, 1000, &decision), TG_OK);
    tg_store_sweep(store, 2000);
    assert_int_equal(take_numbered(store, set, first - 1, 1, 3000, &decision), TG_OK);
    assert_int_equal(take_numbered(store, set, first - 1, 1, 3050, &decision), TG_OK);
    assert_int_equal(stats_of(store).keys, 1);
    assert_false(store_reclaim(store, NULL, 3150)); /* fresh at 3200 */
    assert_int_equal(take_numbered(store, set, first - 1, 1, 3150, &decision), TG_OK);

    for (; store->shards[1].table.n == 0; second++)
        assert_int_equal(take_numbered(store, set, 1000 + second, 1, 3150, &decision), TG_OK);
    store->shards[0].fresh_from = 3200; /* what a take does not move */
    assert_true(store_reclaim(store, NULL, 3260));
    assert_int_equal(store->shards[1].table.n, 0);
    assert_true(store->shards[0].table.n > 0);
    tg_store_free(store);
}

/* Decisions of those that find no place are untouched. */
static void a_batch_says_nothing_of_what_found_no_place(void **state)
{
    struct tg_store *store = must_store(1 << 16, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    struct tg_decision decisions[2], before;
    enum tg_err errs[2], err = TG_OK;
    struct tg_scope scopes[2];
    struct tg_debit debits[2];
    (void)state;

    must_take(store, set, "known", 1, 1000);
    for (uint64_t n = 0; !err; n++)
        err = take_numbered(store, set, n, 1, 1000, &decisions[0]);
    scopes[0] = scope_of(set, "new");
    scopes[1] = scope_of(set, "known");
    debits[0] = debit_of(&scopes[0], 1);
    debits[1] = debit_of(&scopes[1], 1);
    memset(&before, 0xA5, sizeof before);
    decisions[0] = before;
    tg_store_take_many(store, debits, 2, 1000, decisions, errs);
    assert_int_equal(errs[0], TG_ERR_FULL);
    assert_memory_equal(&decisions[0], &before, sizeof before);
    assert_int_equal(errs[1], TG_OK);
    assert_int_equal(decisions[1].remaining, 8);
    tg_store_free(store);
}

/* ---- without memory ---- */

/* Two keys with states of their own: the second finds no memory. The first has been charged
 * nothing, and is forgotten at once. */
static void an_entry_that_was_made_in_vain_is_forgotten(void **state)
{
    need_allocator();
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits set = must_define_one(store, TG_AXIS_COST, LOG_OF_A_DAY);
    struct tg_scope scopes[] = {scope_of(set, "one"), scope_of(set, "other")};
    struct tg_debit debit = {.scopes = scopes, .n_scopes = 2, .cost = 1};
    struct tg_decision decision;
    (void)state;

    size_t empty = stats_of(store).memory_bytes;
    fail_at(2); /* the table, a block, a block */
    assert_int_equal(tg_store_take(store, &debit, 1000, &decision, NULL), TG_ERR_MEMORY);
    assert_int_equal(stats_of(store).keys, 1);
    assert_int_equal(must_peek(store, set, "one", 0, 1000).remaining, 10);
    assert_int_equal(tg_store_sweep(store, 1000), 1);
    assert_int_equal(stats_of(store).memory_bytes, empty);
    tg_store_free(store);
}

/* No memory of the machine is not the same as a full store: nobody else's key is looked for. */
static void without_memory_no_other_shard_is_swept(void **state)
{
    need_allocator();
    struct tg_store *store = must_store(MEMORY, 8);
    tg_limits brief = must_define_one(store, TG_AXIS_COST, TEN_A_SECOND);
    tg_limits set = must_define_one(store, TG_AXIS_COST, LOG_OF_A_DAY);
    struct tg_scope scope = scope_of(set, "key");
    struct tg_debit debit = debit_of(&scope, 1);
    struct tg_decision decision;
    (void)state;

    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(take_numbered(store, brief, i, 1, 1000, &decision), TG_OK);
    fail_at(0);
    assert_int_equal(tg_store_settle(store, &debit, 9000, 9000, 3), TG_ERR_MEMORY);
    fail_at(0);
    assert_int_equal(tg_store_take(store, &debit, 9000, &decision, NULL), TG_ERR_MEMORY);
    assert_int_equal(stats_of(store).forgotten, 0);
    assert_int_equal(stats_of(store).refused, 0);
    assert_int_equal(tg_store_settle(store, &debit, 9000, 9000, 3), TG_OK);
    assert_int_equal(must_peek(store, set, "key", 0, 9000).remaining, 8);
    tg_store_free(store);
}

/* Keys are forgotten all the same, and the next sweep gives the memory back. */
static void a_table_that_cannot_be_copied_stays_as_large(void **state)
{
    need_allocator();
    struct tg_store *store = must_store(MEMORY, 1);
    tg_limits brief = must_define_one(store, TG_AXIS_RATE, TEN_A_SECOND);
    tg_limits set = must_define_one(store, TG_AXIS_COST, TEN_A_DAY);
    struct tg_decision decision;
    (void)state;

    must_take(store, set, "key", 1, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(take_numbered(store, brief, i, 1, 1000, &decision), TG_OK);
    size_t full = stats_of(store).memory_bytes;
    fail_at(0);
    assert_int_equal(tg_store_sweep(store, 9000), 1000);
    assert_int_equal(stats_of(store).memory_bytes, full);
    assert_int_equal(tg_store_sweep(store, 9000), 0);
    assert_true(stats_of(store).memory_bytes < full / 10);
    assert_int_equal(must_peek(store, set, "key", 0, 9000).remaining, 9);
    tg_store_free(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_from_half_to_four_fifths_full),
        cmocka_unit_test(fresh_keys_stay_while_there_is_room),
        cmocka_unit_test(each_scope_of_a_call_is_forgotten_at_its_time),
        cmocka_unit_test(a_key_that_was_settled_for_less_is_fresh_earlier),
        cmocka_unit_test(a_scope_that_is_not_charged_gets_no_entry),
        cmocka_unit_test(reclaiming_goes_on_until_there_is_memory),
        cmocka_unit_test(a_batch_says_nothing_of_what_found_no_place),
        cmocka_unit_test(an_entry_that_was_made_in_vain_is_forgotten),
        cmocka_unit_test(without_memory_no_other_shard_is_swept),
        cmocka_unit_test(a_table_that_cannot_be_copied_stays_as_large),
    };
    return cmocka_run_group_tests_name("store_room", tests, NULL, NULL);
}
