/* test_handles.c - what src/lib/core/handles.c promises: an id finds its item until it ends. */
#include <string.h>

#include "check.h"
#include "draw.h"
#include "failing_malloc.h"
#include "lib/core/handles.h"

enum { PLACES = 500,
       STEPS = 40000,
       OLD = 64 };

struct item {
    struct handle handle;
    uint64_t mark;
    uint64_t kept; /* set once, never again */
};

static void ids_find_what_a_plain_list_would_find(void **state)
{
    struct draw draw = draw_stream(draw_seed("test_handles"), 0);
    struct item *held[PLACES];
    uint64_t ended[OLD] = {0};
    size_t n = 0, n_ended = 0;
    struct handles pool;
    (void)state;

    handles_init(&pool, sizeof(struct item), 24, PLACES);
    for (uint64_t step = 1; step <= STEPS; step++) {
        if (n < PLACES && draw_chance(&draw, step % 4000 < 2500 ? 60 : 40)) {
            struct item *item = handles_get(&pool);
            assert_non_null(item);
            assert_true(item->kept == 0 || item->kept == (uintptr_t)item);
            item->kept = (uintptr_t)item;
            item->mark = item->handle.id;
            held[n++] = item;
        } else if (n > 0) {
            size_t i = (size_t)draw_between(&draw, 0, (int64_t)n - 1);
            ended[n_ended++ % OLD] = held[i]->handle.id;
            handles_put(&pool, &held[i]->handle);
            held[i] = held[--n];
        }
        assert_int_equal(pool.used, n);
        if (step % 100 != 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            assert_ptr_equal(handles_find(&pool, held[i]->mark), held[i]);
            assert_null(handles_find(&pool, held[i]->mark + (UINT64_C(1) << 24)));
        }
        for (size_t i = 0; i < OLD && i < n_ended; i++)
            assert_null(handles_find(&pool, ended[i]));
    }
    assert_true(n_ended > OLD && pool.made > 256);
    handles_fini(&pool);
}

/* Whoever guesses the next id of a free item, or its complement, finds nothing. */
static void no_number_finds_a_free_item(void **state)
{
    struct handles pool;
    (void)state;

    for (unsigned bits = 8; bits <= 32; bits += 8) {
        handles_init(&pool, sizeof(struct item), bits, 100);
        struct item *item = handles_get(&pool);
        uint64_t id = item->handle.id;
        assert_int_equal(id, (UINT64_C(1) << bits) + 1);
        assert_null(handles_find(&pool, id + 1)); /* a place that was never made */
        assert_null(handles_find(&pool, 0));
        handles_put(&pool, &item->handle);
        uint64_t next = id + (UINT64_C(1) << bits);
        const uint64_t tries[] = {id, next, ~id, ~next, item->handle.id, UINT64_MAX, 1};
        for (size_t i = 0; i < COUNT_OF(tries); i++)
            assert_null(handles_find(&pool, tries[i]));
        assert_ptr_equal(handles_get(&pool), item);
        assert_int_equal(item->handle.id, next);
        handles_fini(&pool);
    }
}

static void an_id_is_never_used_twice(void **state)
{
    struct handles pool;
    (void)state;

    handles_init(&pool, sizeof(struct item), 32, 2);
    struct item *item = handles_get(&pool);
    item->handle.id |= UINT64_MAX << 32; /* pretends that so many calls have used the place */
    uint64_t last = item->handle.id;
    assert_ptr_equal(handles_find(&pool, last), item);
    handles_put(&pool, &item->handle);
    assert_null(handles_find(&pool, last));
    assert_null(handles_find(&pool, 1));
    uint64_t place = 0;
    assert_null(handles_next(&pool, &place));
    assert_ptr_not_equal(handles_get(&pool), item);
    assert_null(handles_get(&pool));
    assert_int_equal(handles_reserve(&pool), TG_ERR_FULL);
    assert_int_equal(pool.used, 1);
    handles_fini(&pool);
}

static void there_are_no_more_than_the_maximum(void **state)
{
    struct handles pool;
    struct item *last = NULL;
    (void)state;

    handles_init(&pool, sizeof(struct item), 24, 70);
    for (int i = 0; i < 70; i++) {
        assert_int_equal(handles_reserve(&pool), TG_OK);
        assert_non_null(last = handles_get(&pool));
    }
    assert_int_equal(handles_reserve(&pool), TG_ERR_FULL);
    assert_null(handles_get(&pool));
    handles_put(&pool, &last->handle);
    assert_ptr_equal(handles_get(&pool), last);
    handles_fini(&pool);
}

static void items_do_not_move_and_begin_at_zero(void **state)
{
    static struct item *items[5000];
    struct handles pool;
    (void)state;

    handles_init(&pool, sizeof(struct item), 24, 5000);
    for (uint64_t i = 0; i < COUNT_OF(items); i++) {
        items[i] = handles_get(&pool);
        assert_int_equal(items[i]->mark, 0);
        items[i]->mark = i;
        assert_ptr_equal(handles_at(&pool, i), items[i]);
    }
    for (uint64_t i = 0; i < COUNT_OF(items); i++)
        assert_int_equal(items[i]->mark, i);
    handles_fini(&pool);
}

static void a_walk_meets_those_in_use_in_the_order_of_their_places(void **state)
{
    struct handles pool;
    struct item *items[200];
    uint64_t place = 0, n = 0;
    (void)state;

    handles_init(&pool, sizeof(struct item), 24, 200);
    for (size_t i = 0; i < 200; i++)
        items[i] = handles_get(&pool);
    for (size_t i = 0; i < 200; i += 3)
        handles_put(&pool, &items[i]->handle);
    for (struct item *item; (item = handles_next(&pool, &place)); n++)
        assert_ptr_equal(item, items[n / 2 * 3 + 1 + n % 2]);
    assert_int_equal(n, pool.used);
    handles_fini(&pool);
}

static void without_memory_nothing_changes(void **state)
{
    struct handles pool;
    (void)state;

    need_allocator();
    handles_init(&pool, sizeof(struct item), 24, 1000);
    fail_at(0);
    assert_null(handles_get(&pool));
    for (int i = 0; i < 256; i++)
        assert_non_null(handles_get(&pool));
    fail_at(0);
    assert_int_equal(handles_reserve(&pool), TG_ERR_MEMORY);
    assert_int_equal(pool.made, 256);
    assert_non_null(handles_get(&pool));
    handles_fini(&pool);
}

static void an_absurd_size_is_a_failure_of_memory(void **state)
{
    struct handles pool;
    (void)state;

    handles_init(&pool, (size_t)1 << 56, 24, 1000); /* 256 of them are 2^64 bytes */
    assert_int_equal(handles_reserve(&pool), TG_ERR_MEMORY);
    assert_null(handles_get(&pool));
    handles_fini(&pool);
}

/* A pool that has been full once is used without the allocator. */
static void nothing_is_allocated_once_warm(void **state)
{
    struct item *items[700];
    struct handles pool;
    (void)state;

    need_allocator();
    handles_init(&pool, sizeof(struct item), 24, 1000);
    for (int round = 0; round < 3; round++) {
        if (round == 1)
            fail_at(0);
        for (size_t i = 0; i < COUNT_OF(items); i++)
            items[i] = handles_get(&pool);
        for (size_t i = 0; i < COUNT_OF(items); i++)
            handles_put(&pool, &items[i]->handle);
    }
    assert_int_equal(allocations, 0);
    until_failure = -1;
    handles_fini(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_find_what_a_plain_list_would_find),
        cmocka_unit_test(no_number_finds_a_free_item),
        cmocka_unit_test(an_id_is_never_used_twice),
        cmocka_unit_test(there_are_no_more_than_the_maximum),
        cmocka_unit_test(items_do_not_move_and_begin_at_zero),
        cmocka_unit_test(a_walk_meets_those_in_use_in_the_order_of_their_places),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(an_absurd_size_is_a_failure_of_memory),
        cmocka_unit_test(nothing_is_allocated_once_warm),
    };
    return cmocka_run_group_tests_name("handles", tests, NULL, NULL);
}
