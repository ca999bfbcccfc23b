/* test_metrics_names.c - numbers for names and combinations, and who is heavy among the rest. */
#include "check.h"

#include <stdio.h>

#include "draw.h"
#include "server/obs/metrics_heavy.h"
#include "server/obs/metrics_names.h"
#include "server/obs/metrics_series.h"

static uint32_t number(struct names *names, const char *text, bool heavy)
{
    struct slice name = slice_of(text);
    uint64_t hash = names_hash(names, name);
    int32_t found = names_find(names, name, hash);

    return found != NAME_MISSING ? (uint32_t)found : names_add(names, name, hash, heavy);
}

static void a_name_keeps_its_number(void **state)
{
    struct names names;
    (void)state;

    assert_true(names_init(&names, 4, 1, 7));
    uint32_t a = number(&names, "a", false), b = number(&names, "b", false);
    assert_true(a > NAME_OTHER && b > NAME_OTHER && a != b);
    assert_int_equal(number(&names, "a", false), a);
    assert_string_equal(names_text(&names, a), "a");
    assert_string_equal(names_text(&names, NAME_OTHER), "other");
    assert_null(names_text(&names, NAME_NONE));
    assert_null(names_text(&names, names_numbers(&names)));
    names_fini(&names);
}

static void who_comes_late_is_other_unless_a_number_is_kept_for_it(void **state)
{
    struct names names;
    (void)state;

    assert_true(names_init(&names, 4, 1, 7));
    assert_true(number(&names, "a", false) > NAME_OTHER);
    assert_true(number(&names, "b", false) > NAME_OTHER);
    assert_true(number(&names, "c", false) > NAME_OTHER);
    assert_int_equal(number(&names, "d", false), NAME_OTHER);
    uint32_t heavy = number(&names, "d", true);
    assert_true(heavy > NAME_OTHER);
    assert_int_equal(number(&names, "d", false), heavy);
    assert_int_equal(number(&names, "e", true), NAME_OTHER);
    assert_int_equal(number(&names, "f", false), NAME_OTHER);
    names_fini(&names);
}

static void what_no_page_can_show_is_other(void **state)
{
    char longer[NAME_BYTES_MAX + 2];
    struct names names;
    (void)state;

    assert_true(names_init(&names, 8, 0, 7));
    memset(longer, 'x', sizeof longer);
    longer[NAME_BYTES_MAX + 1] = '\0';
    assert_int_equal(number(&names, longer, false), NAME_OTHER);
    longer[NAME_BYTES_MAX] = '\0';
    assert_true(number(&names, longer, false) > NAME_OTHER);
    assert_int_equal(number(&names, "\xff", false), NAME_OTHER);
    assert_int_equal(number(&names, "other", false), NAME_OTHER);
    assert_int_equal(number(&names, "", false), NAME_NONE);
    names_fini(&names);
}

/* Names that fall on one place, and a table that is as full as it gets. */
static void as_many_names_as_there_are_numbers(void **state)
{
    struct names names;
    char text[24];
    uint32_t n = 0, seen[100];
    (void)state;

    assert_true(names_init(&names, 100, 0, 7));
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "name-%d", i);
        uint32_t got = number(&names, text, false);
        if (got == NAME_OTHER)
            continue;
        for (uint32_t k = 0; k < n; k++)
            assert_int_not_equal(seen[k], got);
        seen[n++] = got;
        assert_string_equal(names_text(&names, got), text);
    }
    assert_int_equal(n, 100);
    names_fini(&names);
}

static void combinations_are_numbered_up_to_their_bound(void **state)
{
    struct series series;
    int32_t n = 0;
    (void)state;

    assert_true(series_init(&series, 50, 2));
    for (uint64_t key = 1; key <= 1000; key++) {
        int32_t got = series_number(&series, key, false);
        n += got != SERIES_FULL;
        assert_int_equal(got != SERIES_FULL, key <= 50);
        if (got != SERIES_FULL)
            assert_int_equal(series_key(&series, (uint32_t)got), key);
    }
    assert_int_equal(n, 50);
    assert_int_equal(series_number(&series, 50, false), series_number(&series, 50, true));
    int32_t coarse = series_number(&series, 2000, true);
    assert_int_not_equal(coarse, SERIES_FULL);
    assert_int_equal(series_number(&series, 2000, false), coarse);
    assert_int_not_equal(series_number(&series, 2001, true), SERIES_FULL);
    assert_int_equal(series_number(&series, 2002, true), SERIES_FULL);
    series_fini(&series);
}

/* Among 10,000 names, one that makes up a twentieth is found; no other is ever called heavy. */
static void the_heavy_one_is_found_and_no_other(void **state)
{
    static struct heavy heavy;
    uint64_t seed = draw_seed("test_metrics_names");
    struct draw draw = draw_stream(seed, 0);
    bool found = false;
    (void)state;

    for (int i = 0; i < 100000; i++) {
        bool is_heavy = draw_between(&draw, 1, 20) == 1;
        uint64_t name = is_heavy ? 7 : (uint64_t)draw_between(&draw, 1000, 10999);
        bool called = heavy_add(&heavy, name);
        if (called && name != 7)
            fail_msg("seed %llu: %llu is called heavy", (unsigned long long)seed,
                     (unsigned long long)name);
        found = found || called;
    }
    assert_true(found);
}

/* A thousand equals are none of them heavy, however long it goes on. */
static void equals_are_not_heavy(void **state)
{
    static struct heavy heavy;
    (void)state;

    for (int i = 0; i < 300000; i++)
        assert_false(heavy_add(&heavy, 1 + (uint64_t)i % 1000));
}

/* One that comes after millions of others is found as soon as one that comes early. */
static void it_is_about_of_late(void **state)
{
    static struct heavy heavy;
    int n = 0;
    (void)state;

    for (int i = 0; i < 1000000; i++)
        heavy_add(&heavy, 1000 + (uint64_t)i % 997);
    while (!heavy_add(&heavy, 7) && n++ < HEAVY_WINDOW)
        heavy_add(&heavy, 1000 + (uint64_t)n % 997);
    assert_true(n < HEAVY_WINDOW / HEAVY_COUNTERS * 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_keeps_its_number),
        cmocka_unit_test(who_comes_late_is_other_unless_a_number_is_kept_for_it),
        cmocka_unit_test(what_no_page_can_show_is_other),
        cmocka_unit_test(as_many_names_as_there_are_numbers),
        cmocka_unit_test(combinations_are_numbered_up_to_their_bound),
        cmocka_unit_test(the_heavy_one_is_found_and_no_other),
        cmocka_unit_test(equals_are_not_heavy),
        cmocka_unit_test(it_is_about_of_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
