/* test_calendar.c - dates, and windows in UTC and in zones made up for the purpose. */
#include "bank_kit.h"

#include <string.h>

#include "lib/budget/calendar.h"
#include "lib/budget/civil.h"

static void every_day_of_a_thousand_years_is_itself_again(void **state)
{
    struct civil before = civil_from_day(-800);
    (void)state;

    for (int64_t day = -799; day < 365243; day++) {
        struct civil date = civil_from_day(day);
        assert_int_equal(civil_to_day(date.year, date.month, date.day), day);
        bool next_day = date.month == before.month && date.day == before.day + 1;
        bool next_month = date.day == 1 && before.day >= 28 && date.month == before.month % 12 + 1;
        assert_true(next_day || next_month);
        assert_int_equal(date.year - before.year, date.month == 1 && date.day == 1);
        before = date;
    }
}

static void known_dates_have_their_days(void **state)
{
    static const struct {
        int year, month, day;
        int64_t number;
    } rows[] = {
        {1970, 1, 1, 0},
        {1969, 12, 31, -1},
        {1972, 2, 29, 789},
        {2000, 2, 29, 11016},
        {2000, 3, 1, 11017},
        {2026, 11, 15, 20772},
        {2100, 2, 28, 47540},
        {2100, 3, 1, 47541},
        {2400, 2, 29, 157113},
        {2026, 13, 1, 20819},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(civil_to_day(rows[i].year, rows[i].month, rows[i].day), rows[i].number);
}

static void windows_of_utc_are_days_weeks_and_months(void **state)
{
    static const struct {
        enum tg_per per;
        tg_ms at, begin, end;
    } rows[] = {
        {TG_PER_DAY, SUNDAY, SUNDAY, SUNDAY + DAY},
        {TG_PER_DAY, SUNDAY + DAY - 1, SUNDAY, SUNDAY + DAY},
        {TG_PER_WEEK, SUNDAY, SUNDAY - 6 * DAY, SUNDAY + DAY},
        {TG_PER_WEEK, SUNDAY + DAY, SUNDAY + DAY, SUNDAY + 8 * DAY},
        {TG_PER_MONTH, SUNDAY, SUNDAY - 14 * DAY, SUNDAY + 16 * DAY},
        {TG_PER_TOTAL, SUNDAY, 0, TG_NUMBER_MAX},
        /* Time begins with a Thursday, and has an end. */
        {TG_PER_DAY, 0, 0, DAY},
        {TG_PER_WEEK, 0, 0, 4 * DAY},
        {TG_PER_MONTH, 0, 0, 31 * DAY},
        {TG_PER_DAY, -5, 0, DAY},
        {TG_PER_DAY, INT64_MAX, TG_NUMBER_MAX - TG_NUMBER_MAX % DAY, TG_NUMBER_MAX},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tg_ms begin, end;
        tg_window_of(rows[i].per, NULL, rows[i].at, &begin, &end);
        assert_int_equal(begin, rows[i].begin);
        assert_int_equal(end, rows[i].end);
    }
}

static void windows_of_a_zone_begin_at_its_midnight(void **state)
{
    const struct tg_zone east = {.base_s = 5 * 3600 + 45 * 60};
    const struct tg_zone west = {.base_s = -9 * 3600 - 30 * 60};
    tg_ms begin, end;
    (void)state;

    tg_window_of(TG_PER_DAY, &east, SUNDAY, &begin, &end);
    assert_int_equal(begin, SUNDAY - 5 * HOUR - HOUR * 3 / 4);
    tg_window_of(TG_PER_DAY, &west, SUNDAY, &begin, &end);
    assert_int_equal(begin, SUNDAY - DAY + 9 * HOUR + HOUR / 2);
    /* Where time begins, windows do too. */
    tg_window_of(TG_PER_DAY, &west, 0, &begin, &end);
    assert_int_equal(begin, 0);
    assert_int_equal(end, 9 * HOUR + HOUR / 2);
}

/* Half past eleven at night comes twice; then midnight is skipped. */
static void changes_at_midnight_belong_to_one_day(void **state)
{
    const struct tg_zone_change changes[] = {
        {SUNDAY, -1800},              /* 00:00 -> 23:30: the day goes on */
        {SUNDAY + DAY + HOUR / 2, 0}, /* 00:00 -> 00:30: there is no midnight */
    };
    const struct tg_zone zone = {0, COUNT_OF(changes), changes};
    tg_ms begin, end;
    (void)state;

    /* Clocks have not shown midnight when they go back: it comes half an hour later. */
    tg_window_of(TG_PER_DAY, &zone, SUNDAY - 1, &begin, &end);
    assert_int_equal(end, SUNDAY + HOUR / 2);
    tg_window_of(TG_PER_DAY, &zone, SUNDAY, &begin, &end);
    assert_int_equal(begin, SUNDAY - DAY);
    tg_window_of(TG_PER_DAY, &zone, SUNDAY + HOUR / 2, &begin, &end);
    assert_int_equal(begin, SUNDAY + HOUR / 2);
    assert_int_equal(end, SUNDAY + DAY + HOUR / 2);
}

/* Three days in one second, and back: windows still tile. */
static void the_wildest_zone_is_tiled(void **state)
{
    const struct tg_zone_change changes[] = {
        {SUNDAY, 93599}, {SUNDAY + 1000, -93599}, {SUNDAY + 2000, 93599}, {SUNDAY + 3000, 0}};
    const struct tg_zone zone = {0, COUNT_OF(changes), changes};
    tg_ms begin, end, at = SUNDAY - 5 * DAY;
    (void)state;

    tg_window_of(TG_PER_DAY, &zone, at, &at, &end);
    while (at < SUNDAY + 5 * DAY) {
        tg_window_of(TG_PER_DAY, &zone, at, &begin, &end);
        assert_int_equal(begin, at);
        assert_true(end > at);
        tg_window_of(TG_PER_DAY, &zone, end - 1, &begin, &at);
        assert_int_equal(begin < end && at == end, true);
    }
}

/* What no place can have does not overflow. */
static void an_offset_beyond_all_bounds_counts_as_the_largest(void **state)
{
    const struct tg_zone zone = {.base_s = INT32_MAX}, largest = {.base_s = ZONE_OFFSET_MAX_S};
    tg_ms begin, end, begin2, end2;
    (void)state;

    tg_window_of(TG_PER_DAY, &zone, SUNDAY, &begin, &end);
    tg_window_of(TG_PER_DAY, &largest, SUNDAY, &begin2, &end2);
    assert_true(begin == begin2 && end == end2);
}

static void names_of_windows(void **state)
{
    (void)state;
    assert_string_equal(tg_per_name(TG_PER_DAY), "day");
    assert_string_equal(tg_per_name(TG_PER_WEEK), "week");
    assert_string_equal(tg_per_name(TG_PER_MONTH), "month");
    assert_string_equal(tg_per_name(TG_PER_TOTAL), "total");
    assert_null(tg_per_name(TG_PER_COUNT));
}

static void zones_that_cannot_be_are_complained_about(void **state)
{
    const struct tg_zone_change falling[] = {{10, 0}, {10, 3600}};
    const struct tg_zone_change early[] = {{-1, 0}};
    const struct tg_zone_change far[] = {{10, 26 * 3600}};
    const struct {
        struct tg_zone zone;
        const char *says;
    } rows[] = {
        {{0, 2, falling}, "ascend"},
        {{0, 1, early}, "2^53"},
        {{0, 1, far}, "26 hours"},
        {{-26 * 3600, 0, NULL}, "26 hours"},
        {{0, 1, NULL}, "no changes"},
    };
    (void)state;

    assert_null(zone_complaint(NULL));
    assert_null(zone_complaint(&(struct tg_zone){0, 1, falling}));
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_non_null(strstr(zone_complaint(&rows[i].zone), rows[i].says));
}

static void a_window_without_a_place_for_both_ends_is_not_told(void **state)
{
    tg_ms begin = 7, end = 8;
    (void)state;

    tg_window_of(TG_PER_DAY, NULL, 1000, NULL, &end);
    tg_window_of(TG_PER_DAY, NULL, 1000, &begin, NULL);
    tg_window_of(TG_PER_DAY, NULL, 1000, NULL, NULL);
    assert_int_equal(begin, 7);
    assert_int_equal(end, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_day_of_a_thousand_years_is_itself_again),
        cmocka_unit_test(known_dates_have_their_days),
        cmocka_unit_test(windows_of_utc_are_days_weeks_and_months),
        cmocka_unit_test(windows_of_a_zone_begin_at_its_midnight),
        cmocka_unit_test(changes_at_midnight_belong_to_one_day),
        cmocka_unit_test(the_wildest_zone_is_tiled),
        cmocka_unit_test(an_offset_beyond_all_bounds_counts_as_the_largest),
        cmocka_unit_test(names_of_windows),
        cmocka_unit_test(zones_that_cannot_be_are_complained_about),
        cmocka_unit_test(a_window_without_a_place_for_both_ends_is_not_told),
    };
    return cmocka_run_group_tests_name("calendar", tests, NULL, NULL);
}
