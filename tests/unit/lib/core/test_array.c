/* test_array.c - what array.h and container_of.h of src/lib/core promise. */
#include <string.h>

#include "check.h"
#include "failing_malloc.h"
#include "lib/core/array.h"
#include "lib/core/container_of.h"

struct list {
    struct pair {
        int64_t a, b;
    } * items;
    size_t n, capacity;
};

static void what_was_added_stays(void **state)
{
    struct list list = {0};
    size_t grown = 0;
    (void)state;

    for (int64_t i = 0; i < 10000; i++) {
        size_t before = list.capacity;
        assert_true(array_reserve(&list.items, &list.capacity, list.n + 1));
        assert_true(list.capacity > list.n);
        grown += list.capacity != before;
        list.items[list.n++] = (struct pair){i, -i};
    }
    for (int64_t i = 0; i < 10000; i++)
        assert_true(list.items[i].a == i && list.items[i].b == -i);
    assert_true(grown == 12); /* 8, 16, ... 16384 */
    free(list.items);
}

static void what_is_needed_at_once_is_there_at_once(void **state)
{
    struct list list = {0};
    (void)state;

    assert_true(array_reserve(&list.items, &list.capacity, 0));
    assert_null(list.items);
    assert_true(array_reserve(&list.items, &list.capacity, 1000));
    assert_int_equal(list.capacity, 1000);
    assert_true(array_reserve(&list.items, &list.capacity, 1001));
    assert_int_equal(list.capacity, 2000);
    free(list.items);
}

static void an_absurd_size_is_a_failure_of_memory(void **state)
{
    struct list list = {0};
    (void)state;

    assert_false(array_reserve(&list.items, &list.capacity, SIZE_MAX));
    assert_false(array_reserve(&list.items, &list.capacity, SIZE_MAX / sizeof *list.items + 1));
    assert_false(array_reserve(&list.items, &list.capacity, PTRDIFF_MAX / sizeof *list.items + 1));
    assert_true(list.items == NULL && list.capacity == 0);
}

static void without_memory_nothing_changes(void **state)
{
    struct list list = {0};
    (void)state;

    need_allocator();
    assert_true(array_reserve(&list.items, &list.capacity, 8));
    struct pair *items = list.items;
    list.items[7] = (struct pair){7, 8};
    fail_at(0);
    assert_false(array_reserve(&list.items, &list.capacity, 9));
    assert_ptr_equal(list.items, items);
    assert_int_equal(list.capacity, 8);
    assert_int_equal(list.items[7].b, 8);
    free(list.items);
}

struct owner {
    char name[8];
    struct pair pair;
    int numbers[3];
};

static void the_container_is_found_from_any_member(void **state)
{
    struct owner owner = {.name = "owner"};
    const struct pair *pair = &owner.pair;
    (void)state;

    assert_ptr_equal(container_of(pair, struct owner, pair), &owner);
    assert_ptr_equal(container_of(&owner.numbers, struct owner, numbers), &owner);
    assert_ptr_equal(container_of(&owner.name, struct owner, name), &owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_stays),
        cmocka_unit_test(what_is_needed_at_once_is_there_at_once),
        cmocka_unit_test(an_absurd_size_is_a_failure_of_memory),
        cmocka_unit_test(without_memory_nothing_changes),
        cmocka_unit_test(the_container_is_found_from_any_member),
    };
    return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
