/* test_sized.c - structs of callers that are older or newer than the library. */
#include <string.h>

#include "check.h"

#include "lib/core/sized.h"

struct first {
    size_t struct_size;
    int64_t a;
};

struct now {
    size_t struct_size;
    int64_t a, b;
};

struct later {
    size_t struct_size;
    int64_t a, b, c;
};

#define FIRST SIZED_TO(struct now, a)

static const struct now defaults = {.a = 1, .b = 2};

static void an_older_caller_gets_no_more_than_it_has_room_for(void **state)
{
    struct {
        struct first own;
        int64_t behind;
    } old = {.behind = 77};
    struct now read;
    (void)state;

    sized_init(&old.own, sizeof old.own, &defaults, sizeof defaults, FIRST);
    assert_int_equal(old.own.struct_size, sizeof old.own);
    assert_int_equal(old.own.a, 1);
    assert_int_equal(old.behind, 77);
    assert_true(sized_read(&read, sizeof read, &old.own, FIRST));
    assert_int_equal(read.a, 1);
    assert_int_equal(read.b, 0);

    sized_give(&old.own, sizeof old.own, &(struct now){5, 6, 7}, sizeof(struct now));
    assert_int_equal(old.own.a, 6);
    assert_int_equal(old.behind, 77);
}

static void a_newer_caller_is_served_if_it_uses_nothing_new(void **state)
{
    struct later later = {9, 9, 9, 9};
    struct tg_problem problem;
    struct now read;
    (void)state;

    sized_init(&later, sizeof later, &defaults, sizeof defaults, FIRST);
    assert_int_equal(later.struct_size, sizeof later);
    assert_int_equal(later.b, 2);
    assert_int_equal(later.c, 0);
    assert_true(sized_read(&read, sizeof read, &later, FIRST));
    later.c = 1;
    assert_false(sized_read(&read, sizeof read, &later, FIRST));
    assert_int_equal(sized_check(&read, sizeof read, &later, FIRST, "tg_x", &problem),
                     TG_ERR_UNINITIALIZED);
    assert_non_null(strstr(problem.text, "not known to this library"));
    sized_give(&later, sizeof later, &(struct now){5, 6, 7}, sizeof(struct now));
    assert_int_equal(later.c, 0);
}

static void what_this_library_does_not_know_is_zero_to_the_end(void **state)
{
    struct {
        struct now own;
        int64_t later[10];
    } much_later;
    (void)state;

    memset(&much_later, 9, sizeof much_later);
    sized_give(&much_later, sizeof much_later, &(struct now){5, 6, 7}, sizeof(struct now));
    assert_int_equal(much_later.own.b, 7);
    for (int i = 0; i < 10; i++)
        assert_int_equal(much_later.later[i], 0);
    memset(&much_later, 9, sizeof much_later);
    sized_init(&much_later, sizeof much_later, &defaults, sizeof defaults, FIRST);
    assert_int_equal(much_later.own.b, 2);
    for (int i = 0; i < 10; i++)
        assert_int_equal(much_later.later[i], 0);
}

/* 64 KiB is the largest that a struct of any version may be. */
static void a_struct_may_be_as_large_as_none_will_be(void **state)
{
    static struct {
        struct now own;
        char later[65536 - sizeof(struct now)];
        char behind;
    } largest;
    const size_t size = offsetof(__typeof__(largest), behind);
    struct tg_problem problem = {""};
    struct now read;
    (void)state;

    assert_int_equal(size, 65536);
    largest.behind = 5;
    sized_init(&largest, size, &defaults, sizeof defaults, FIRST);
    assert_int_equal(largest.own.struct_size, size);
    assert_true(sized_read(&read, sizeof read, &largest, FIRST));
    assert_int_equal(read.b, 2);
    largest.later[sizeof largest.later - 1] = 1;
    assert_int_equal(sized_check(&read, sizeof read, &largest, FIRST, "tg_x", &problem),
                     TG_ERR_UNINITIALIZED);
    assert_non_null(strstr(problem.text, "not known to this library"));
    sized_give(&largest, size, &defaults, sizeof defaults);
    assert_int_equal(largest.later[sizeof largest.later - 1], 0);

    memset(&largest, 7, sizeof largest);
    sized_init(&largest, size + 1, &defaults, sizeof defaults, FIRST);
    assert_int_equal(largest.own.a, INT64_C(0x0707070707070707));
    largest.own.struct_size = size + 1;
    assert_false(sized_read(&read, sizeof read, &largest, FIRST));
    assert_int_equal(sized_check(&read, sizeof read, &largest, FIRST, "tg_x", &problem),
                     TG_ERR_UNINITIALIZED);
    assert_non_null(strstr(problem.text, "tg_x_init()"));
    sized_give(&largest, size + 1, &defaults, sizeof defaults);
    assert_int_equal(largest.own.a, INT64_C(0x0707070707070707));
    assert_int_equal(largest.behind, 7);
}

static void what_was_not_initialized_is_refused(void **state)
{
    static const size_t wrong[] = {0, 1, sizeof(struct first) - 1, SIZE_MAX, (size_t)1 << 40};
    struct tg_problem problem;
    struct now given = {0}, read;
    (void)state;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        given.struct_size = wrong[i];
        assert_int_equal(sized_check(&read, sizeof read, &given, FIRST, "tg_x", &problem),
                         TG_ERR_UNINITIALIZED);
        assert_non_null(strstr(problem.text, "tg_x_init()"));
    }
    assert_int_equal(sized_check(&read, sizeof read, NULL, FIRST, "tg_x", &problem), TG_ERR_NULL);
    assert_non_null(strstr(problem.text, "tg_x"));

    memset(&given, 0x55, sizeof given);
    sized_init(&given, sizeof(size_t), &defaults, sizeof defaults, FIRST); /* too small: none */
    assert_int_equal(given.struct_size, 0);
    assert_int_equal(given.a, INT64_C(0x5555555555555555));
    sized_init(NULL, sizeof given, &defaults, sizeof defaults, FIRST);
    sized_give(NULL, sizeof given, &defaults, sizeof defaults);
    sized_give(&given, SIZE_MAX, &defaults, sizeof defaults); /* no size of a struct */
    sized_give(&given, (size_t)1 << 40, &defaults, sizeof defaults);
    assert_int_equal(given.a, INT64_C(0x5555555555555555));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_caller_gets_no_more_than_it_has_room_for),
        cmocka_unit_test(a_newer_caller_is_served_if_it_uses_nothing_new),
        cmocka_unit_test(what_this_library_does_not_know_is_zero_to_the_end),
        cmocka_unit_test(a_struct_may_be_as_large_as_none_will_be),
        cmocka_unit_test(what_was_not_initialized_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
