/* test_watch.c - the latest denials: in order, the newest kept, and what was missed is told. */
#include "check.h"

#include <string.h>

#include "server/obs/watch.h"

static void put(struct watch *watch, uint64_t id)
{
    struct watch_entry entry;

    watch_entry_init(&entry);
    entry.id = id;
    watch_text(entry.tenant, sizeof entry.tenant, SLICE("team-a"));
    watch_put(watch, &entry);
}

static void a_reader_gets_them_in_order(void **state)
{
    struct watch *watch = watch_new(8);
    struct watch_entry entry;
    watch_place place = watch_end(watch);
    uint64_t lost = 0;

    (void)state;
    assert_false(watch_take(watch, &place, &entry, &lost));
    for (uint64_t i = 0; i < 100; i++) {
        put(watch, i);
        if (i % 3 != 2)
            continue;
        for (uint64_t k = i - 2; k <= i; k++) {
            assert_true(watch_take(watch, &place, &entry, &lost));
            assert_int_equal(entry.id, k);
            assert_string_equal(entry.tenant, "team-a");
            assert_int_equal(entry.retry_after_ms, -1);
        }
        assert_false(watch_take(watch, &place, &entry, &lost));
    }
    assert_int_equal(lost, 0);
    assert_int_equal(watch_total(watch), 100);
    assert_int_equal(watch_dropped(watch), 0);
    watch_free(watch);
}

static void those_that_are_only_counted_take_no_place(void **state)
{
    struct watch *watch = watch_new(8);
    struct watch_entry entry;
    watch_place place = watch_end(watch);
    uint64_t lost = 0;

    (void)state;
    put(watch, 1);
    for (int i = 0; i < 100; i++)
        watch_miss(watch);
    put(watch, 2);
    assert_int_equal(watch_missed(watch), 100);
    for (uint64_t id = 1; id <= 2; id++) {
        assert_true(watch_take(watch, &place, &entry, &lost));
        assert_int_equal(entry.id, id);
    }
    assert_int_equal(lost, 0);
    assert_int_equal(watch_total(watch), 2);
    watch_free(watch);
}

static void a_reader_that_is_late_is_told_what_it_missed(void **state)
{
    struct watch *watch = watch_new(8);
    struct watch_entry entry;
    watch_place place = 0;
    uint64_t lost = 0;

    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        put(watch, i);
    for (uint64_t i = 12; i < 20; i++) {
        assert_true(watch_take(watch, &place, &entry, &lost));
        assert_int_equal(entry.id, i);
    }
    assert_false(watch_take(watch, &place, &entry, &lost));
    assert_int_equal(lost, 12);
    watch_free(watch);
}

static void two_readers_do_not_know_of_each_other(void **state)
{
    struct watch *watch = watch_new(8);
    struct watch_entry entry;
    watch_place one = 0, two = 0;
    uint64_t lost = 0;

    (void)state;
    put(watch, 1);
    assert_true(watch_take(watch, &one, &entry, &lost));
    put(watch, 2);
    assert_true(watch_take(watch, &two, &entry, &lost));
    assert_int_equal(entry.id, 1);
    assert_true(watch_take(watch, &one, &entry, &lost));
    assert_int_equal(entry.id, 2);
    watch_free(watch);
}

static void the_latest_come_newest_first(void **state)
{
    struct watch *watch = watch_new(8);
    struct watch_entry entries[16];

    (void)state;
    assert_int_equal(watch_recent(watch, entries, 16), 0);
    for (uint64_t i = 0; i < 3; i++)
        put(watch, i);
    assert_int_equal(watch_recent(watch, entries, 16), 3);
    assert_int_equal(entries[0].id, 2);
    for (uint64_t i = 3; i < 30; i++)
        put(watch, i);
    assert_int_equal(watch_recent(watch, entries, 16), 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(entries[i].id, 29 - i);
    assert_int_equal(watch_recent(watch, entries, 2), 2);
    watch_free(watch);
}

static void names_are_cut_between_characters(void **state)
{
    char text[6];

    (void)state;
    watch_text(text, sizeof text, SLICE("abcdefgh"));
    assert_string_equal(text, "abcde");
    watch_text(text, sizeof text, SLICE("abcd\xc3\xa9"));
    assert_string_equal(text, "abcd");
    watch_text(text, sizeof text, SLICE("abc\xc3\xa9"));
    assert_string_equal(text, "abc\xc3\xa9");
    watch_text(text, sizeof text, SLICE("a\xff\xfe"));
    assert_string_equal(text, "a??");
    watch_text(text, sizeof text, (struct slice){NULL, 0});
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_gets_them_in_order),
        cmocka_unit_test(those_that_are_only_counted_take_no_place),
        cmocka_unit_test(a_reader_that_is_late_is_told_what_it_missed),
        cmocka_unit_test(two_readers_do_not_know_of_each_other),
        cmocka_unit_test(the_latest_come_newest_first),
        cmocka_unit_test(names_are_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
