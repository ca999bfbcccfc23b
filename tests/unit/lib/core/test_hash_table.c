/* test_hash_table.c - what src/lib/core/hash_table.c promises, against a table that is searched. */
#include <string.h>

#include "check.h"
#include "draw.h"
#include "failing_malloc.h"
#include "lib/core/hash_table.h"

enum { KEYS = 300,
       STEPS = 40000 };

/* Few different hashes, so that items stand far from home, around the end, and share a hash. */
static uint64_t hash_of(uint64_t key, int spread)
{
    return spread == 0 ? key % 7 : spread == 1 ? key * 13 | UINT64_C(1) << 63
                                               : hash_number(key);
}

/* Every item can be reached from its home: no free slot stands in between. */
static void expect_sound(const struct hash_table *table)
{
    size_t n = 0;

    for (size_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].tag == 0)
            continue;
        n++;
        for (size_t at = (size_t)table->slots[i].tag; (at ^ i) & (table->capacity - 1); at++)
            assert_true(table->slots[at & (table->capacity - 1)].tag != 0);
    }
    assert_int_equal(n, table->n);
    assert_true(4 * n <= 3 * table->capacity);
}

static struct hash_slot *find(const struct hash_table *table, uint64_t key, uint64_t hash)
{
    struct hash_slot *slot = hash_table_find(table, hash);

    while (slot && slot->number != key)
        slot = hash_table_find_next(table, slot);
    return slot;
}

static void expect_same(const struct hash_table *table, const bool inside[KEYS], int spread)
{
    size_t n = 0, seen = 0;

    for (uint64_t key = 0; key < KEYS; key++) {
        assert_true((find(table, key, hash_of(key, spread)) != NULL) == inside[key]);
        n += inside[key];
    }
    assert_int_equal(table->n, n);
    for (struct hash_slot *s = hash_table_first(table); s; s = hash_table_after(table, s)) {
        assert_true(inside[s->number]);
        seen++;
    }
    assert_int_equal(seen, n);
}

static void it_holds_what_a_plain_list_would_hold(void **state)
{
    uint64_t seed = draw_seed("test_hash_table");
    (void)state;

    for (int spread = 0; spread < 3; spread++) {
        struct draw draw = draw_stream(seed, (uint64_t)spread);
        struct hash_table table = {0};
        bool inside[KEYS] = {false};
        for (int step = 0; step < STEPS; step++) {
            uint64_t key = (uint64_t)draw_between(&draw, 0, KEYS - 1);
            uint64_t hash = hash_of(key, spread);
            if (!inside[key]) {
                assert_int_equal(hash_table_reserve(&table, table.n + 1), TG_OK);
                hash_table_insert(&table, hash)->number = key;
            } else {
                hash_table_remove(&table, find(&table, key, hash));
            }
            inside[key] = !inside[key];
            if (step % 50 == 0) {
                expect_sound(&table);
                expect_same(&table, inside, spread);
            }
        }
        hash_table_fini(&table);
        assert_int_equal(table.n, 0);
    }
}

static void an_empty_table_has_nothing(void **state)
{
    struct hash_table table = {0};
    (void)state;

    assert_null(hash_table_find(&table, 0));
    assert_null(hash_table_first(&table));
    hash_table_clear(&table);
    hash_table_fini(&table);
}

static void items_of_one_hash_come_in_their_order(void **state)
{
    struct hash_table table = {0};
    uint64_t next = 0;
    (void)state;

    assert_int_equal(hash_table_reserve(&table, 40), TG_OK);
    for (uint64_t i = 0; i < 20; i++) {
        hash_table_insert(&table, 5)->number = i;
        hash_table_insert(&table, 6)->number = 100 + i;
    }
    for (struct hash_slot *s = hash_table_find(&table, 5); s; s = hash_table_find_next(&table, s))
        assert_int_equal(s->number, next++);
    assert_int_equal(next, 20);
    hash_table_fini(&table);
}

/* Items may be removed while all are walked over: none of the others is missed. */
static void a_walk_that_removes_misses_none(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_hash_table"), 9);
    (void)state;

    for (int round = 0; round < 200; round++) {
        struct hash_table table = {0};
        bool seen[KEYS] = {false};
        int spread = round % 3;
        assert_int_equal(hash_table_reserve(&table, KEYS), TG_OK);
        for (uint64_t key = 0; key < KEYS; key++)
            hash_table_insert(&table, hash_of(key, spread))->number = key;
        for (struct hash_slot *s = hash_table_first(&table); s;) {
            seen[s->number] = true;
            if (draw_chance(&draw, 50)) {
                hash_table_remove(&table, s);
                s = hash_table_at_or_after(&table, s);
            } else {
                s = hash_table_after(&table, s);
            }
        }
        for (size_t key = 0; key < KEYS; key++)
            assert_true(seen[key]);
        expect_sound(&table);
        hash_table_fini(&table);
    }
}

static void a_cleared_table_is_empty_and_keeps_its_room(void **state)
{
    struct hash_table table = {0};
    (void)state;

    assert_int_equal(hash_table_reserve(&table, 100), TG_OK);
    size_t capacity = table.capacity;
    for (uint64_t items = 1; items <= 100; items++) {
        for (uint64_t i = 0; i < items; i++)
            hash_table_insert(&table, hash_number(i))->number = i;
        hash_table_clear(&table);
        assert_int_equal(table.n, 0);
        assert_int_equal(table.capacity, capacity);
        assert_null(hash_table_first(&table));
        assert_null(hash_table_find(&table, hash_number(items - 1)));
    }
    hash_table_fini(&table);
}

static void a_number_is_spread_one_to_one(void **state)
{
    unsigned low = 0;
    (void)state;

    /* 64 counting numbers reach most of 64 homes; the low bits of the numbers alone times 64 are
     * one home. */
    for (uint64_t i = 0; i < 64; i++)
        low |= 1u << (hash_number(i << 6) & 31);
    assert_true(__builtin_popcount(low) >= 20);
    assert_true(hash_number(1) != hash_number(2));
}

static void nothing_is_allocated_once_there_is_room(void **state)
{
    struct hash_table table = {0};
    (void)state;

    need_allocator();
    assert_int_equal(hash_table_reserve(&table, 1000), TG_OK);
    fail_at(0);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_int_equal(hash_table_reserve(&table, table.n + 1), TG_OK);
        hash_table_insert(&table, hash_number(i))->number = i;
    }
    assert_int_equal(allocations, 0);
    until_failure = -1;
    hash_table_fini(&table);
}

static void without_memory_nothing_changes(void **state)
{
    struct hash_table table = {0};
    (void)state;

    need_allocator();
    fail_at(0);
    assert_int_equal(hash_table_reserve(&table, 1), TG_ERR_MEMORY);
    assert_int_equal(table.capacity, 0);
    assert_int_equal(hash_table_reserve(&table, 12), TG_OK);
    for (uint64_t i = 0; i < 12; i++)
        hash_table_insert(&table, i)->number = i;
    fail_at(0);
    assert_int_equal(hash_table_reserve(&table, 13), TG_ERR_MEMORY);
    for (uint64_t i = 0; i < 12; i++)
        assert_non_null(find(&table, i, i));
    expect_sound(&table);
    hash_table_fini(&table);
}

static void an_absurd_number_of_items_is_a_failure_of_memory(void **state)
{
    struct hash_table table = {0};
    (void)state;

    assert_int_equal(hash_table_reserve(&table, SIZE_MAX), TG_ERR_MEMORY);
    assert_int_equal(hash_table_reserve(&table, SIZE_MAX / 8), TG_ERR_MEMORY);
    assert_null(table.slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_what_a_plain_list_would_hold),
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(items_of_one_hash_come_in_their_order),
        cmocka_unit_test(a_walk_that_removes_misses_none),
        cmocka_unit_test(a_cleared_table_is_empty_and_keeps_its_room),
        cmocka_unit_test(a_number_is_spread_one_to_one),
        cmocka_unit_test(nothing_is_allocated_once_there_is_room),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(an_absurd_number_of_items_is_a_failure_of_memory),
    };
    return cmocka_run_group_tests_name("hash_table", tests, NULL, NULL);
}
