/* test_zone.c - zones read from the system's files, and the windows they make, against libc.
 *
 * libc knows the same files by other code. Its answers are asked for at random moments from 1970 to
 * 2100 in zones that do what zones can do: change by half an hour, at midnight, over midnight,
 * twice around Ramadan, skip a day, have summer in winter.
 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"
#include "io/posix/zone.h"
#include "io/posix/zone_rule.h"
#include "lib/budget/civil.h"
#include "walk.h"

#define HOUR_S 3600
#define DAY_S 86400
#define INSTANTS 4200 /* tried in each zone */

static const char *const names[] = {
    "Europe/Berlin",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "America/New_York",
    "Pacific/Apia",
    "America/St_Johns",
    "Europe/Dublin",
    "Asia/Gaza",
    "Africa/Cairo",
    "Asia/Tehran",
    "America/Havana",
    "America/Asuncion",
    "Asia/Beirut",
    "Antarctica/Troll",
    "Africa/Monrovia",
    "Pacific/Kwajalein",
    "America/Nuuk",
    "Pacific/Chatham",
    "America/Santiago",
    "Asia/Amman",
    "Pacific/Kiritimati",
    "America/Scoresbysund",
};

static uint64_t seed;
static int64_t last_s; /* the end of 2100 */

static struct tg_zone must_read(const char *name)
{
    struct tg_problem problem = {""};
    struct tg_zone zone = {0};

    if (zone_read(name, &zone, &problem) != TG_OK)
        fail_msg("%s", problem.text);
    return zone;
}

/* ---- libc's opinion ---- */

static void libc_zone(const char *name)
{
    char value[100];

    (void)snprintf(value, sizeof value, ":%s", name);
    assert_int_equal(setenv("TZ", value, 1), 0);
    tzset();
}

static struct tm libc_local(int64_t at_s)
{
    time_t at = (time_t)at_s;
    struct tm tm;

    assert_non_null(localtime_r(&at, &tm));
    return tm;
}

static int64_t libc_day(int64_t at_s)
{
    struct tm tm = libc_local(at_s);

    return civil_to_day(tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
}

static int64_t libc_offset(int64_t at_s)
{
    struct tm tm = libc_local(at_s);

    return libc_day(at_s) * DAY_S + tm.tm_hour * HOUR_S + tm.tm_min * 60 + tm.tm_sec - at_s;
}

static int64_t our_offset(const struct tg_zone *zone, int64_t at_s)
{
    int64_t offset_s = zone->base_s;

    for (size_t i = 0; i < zone->n && zone->changes[i].at <= at_s * 1000; i++)
        offset_s = zone->changes[i].offset_s;
    return offset_s;
}

static void offsets_are_those_of_libc(void **state)
{
    long cases = 0;
    (void)state;

    for (size_t z = 0; z < COUNT_OF(names); z++) {
        struct tg_zone zone = must_read(names[z]);
        struct draw draw = draw_stream(seed, z);
        libc_zone(names[z]);
        for (int i = 0; i < INSTANTS; i++, cases++) {
            int64_t at_s = draw_between(&draw, 0, last_s);
            if (our_offset(&zone, at_s) != libc_offset(at_s))
                fail_msg("%s at %" PRId64 ": %" PRId64 " s, libc says %" PRId64, names[z], at_s,
                         our_offset(&zone, at_s), libc_offset(at_s));
        }
        for (size_t i = 0; i < zone.n; i++, cases++) {
            int64_t at_s = zone.changes[i].at / 1000;
            assert_int_equal(libc_offset(at_s), our_offset(&zone, at_s));
            assert_int_equal(libc_offset(at_s - 1), our_offset(&zone, at_s - 1));
        }
        zone_fini(&zone);
    }
    cases_report("offsets are those of libc", cases);
}

/* ---- windows ---- */

static bool is_first_day(enum tg_per per, const struct tm *tm)
{
    return per == TG_PER_DAY || (per == TG_PER_WEEK && tm->tm_wday == 1) ||
           (per == TG_PER_MONTH && tm->tm_mday == 1);
}

/* A border is the first moment of a first day: 00:00, or there was none. */
static void check_border(const char *name, enum tg_per per, tg_ms border)
{
    int64_t at_s = border / 1000;
    struct tm tm = libc_local(at_s);
    bool midnight = tm.tm_hour == 0 && tm.tm_min == 0 && tm.tm_sec == 0;

    if (border == 0)
        return; /* time begins */
    if (border % 1000 != 0 || !is_first_day(per, &tm) || libc_day(at_s - 1) >= libc_day(at_s))
        fail_msg("%s: a %s begins at %" PRId64, name, tg_per_name(per), border);
    if (!midnight && libc_offset(at_s - 1) >= libc_offset(at_s))
        fail_msg("%s: a %s does not begin at the midnight there is: %" PRId64, name,
                 tg_per_name(per), border);
    /* And no clock has shown that day before. */
    assert_true(at_s < HOUR_S || libc_day(at_s - HOUR_S / 2) < libc_day(at_s));
    assert_true(at_s < DAY_S || libc_day(at_s - 2 * HOUR_S) < libc_day(at_s));
}

/* The windows before and after meet this one. */
static void check_tiling(enum tg_per per, const struct tg_zone *zone, tg_ms begin, tg_ms end)
{
    tg_ms b, e;

    tg_window_of(per, zone, begin, &b, &e);
    assert_true(b == begin && e == end);
    tg_window_of(per, zone, end - 1, &b, &e);
    assert_true(b == begin && e == end);
    tg_window_of(per, zone, end, &b, &e);
    assert_true(b == end);
    if (begin > 0) {
        tg_window_of(per, zone, begin - 1, &b, &e);
        assert_true(e == begin);
    }
}

static void check_window(const char *name, enum tg_per per, const struct tg_zone *zone, tg_ms at)
{
    tg_ms begin, end;

    tg_window_of(per, zone, at, &begin, &end);
    if (begin > at || end <= at)
        fail_msg("%s: the %s of %" PRId64 " is %" PRId64 " to %" PRId64, name, tg_per_name(per), at,
                 begin, end);
    check_border(name, per, begin);
    check_border(name, per, end);
    check_tiling(per, zone, begin, end);
    /* The day that clocks show is in the window, unless they went back over its beginning. */
    int64_t day = libc_day(at / 1000);
    assert_true(day < libc_day(end / 1000));
    assert_true(begin == 0 || day >= libc_day(begin / 1000) ||
                libc_offset(at / 1000) < libc_offset(begin / 1000));
}

static void windows_of_real_zones_tile_time_as_libc_reckons(void **state)
{
    long cases = 0;
    (void)state;

    for (size_t z = 0; z < COUNT_OF(names); z++) {
        struct tg_zone zone = must_read(names[z]);
        struct draw draw = draw_stream(seed, 1000 + z);
        libc_zone(names[z]);
        for (int i = 0; i < INSTANTS; i++, cases++) {
            tg_ms at = draw_between(&draw, 0, last_s * 1000);
            /* Half of them near a change, where it matters. */
            if (zone.n > 0 && draw_chance(&draw, 50))
                at = zone.changes[draw_between(&draw, 0, (int64_t)zone.n - 1)].at +
                     draw_between(&draw, -2 * DAY_S * 1000, 2 * DAY_S * 1000);
            if (at < 0)
                at = 0;
            check_window(names[z], (enum tg_per)draw_between(&draw, 0, TG_PER_MONTH), &zone, at);
        }
        zone_fini(&zone);
    }
    cases_report("windows of real zones tile time as libc reckons", cases);
}

/* From one window to the next, through all of time: no gap can hide. */
static void days_follow_each_other_from_1970_to_2100(void **state)
{
    (void)state;
    for (size_t z = 0; z < COUNT_OF(names); z++) {
        struct tg_zone zone = must_read(names[z]);
        tg_ms begin, end, at = 0;
        long days = 0;
        for (; at < last_s * 1000; days++) {
            tg_window_of(TG_PER_DAY, &zone, at, &begin, &end);
            assert_true(begin == at && end > begin);
            assert_true(end - begin <= INT64_C(49) * HOUR_S * 1000);
            at = end;
        }
        assert_in_range(days, 47845, 47848); /* two of the zones have skipped one */
        zone_fini(&zone);
    }
}

static int64_t hours_of_day(const struct tg_zone *zone, int year, int month, int day)
{
    tg_ms begin, end;

    tg_window_of(TG_PER_DAY, zone, (civil_to_day(year, month, day) * DAY_S + DAY_S / 2) * 1000,
                 &begin, &end);
    return (end - begin) / 1000 / HOUR_S;
}

static void a_day_of_a_clock_change_has_23_or_25_hours(void **state)
{
    struct tg_zone zone = must_read("Europe/Berlin");
    (void)state;

    assert_int_equal(hours_of_day(&zone, 2026, 3, 29), 23);
    assert_int_equal(hours_of_day(&zone, 2026, 10, 25), 25);
    assert_int_equal(hours_of_day(&zone, 2026, 10, 26), 24);
    assert_int_equal(hours_of_day(&zone, 2099, 3, 29), 23); /* by the rule, not by the list */
    zone_fini(&zone);
}

static void a_day_without_midnight_begins_at_its_first_moment(void **state)
{
    struct tg_zone zone = must_read("America/Sao_Paulo");
    tg_ms begin, end;
    (void)state;

    /* On 2018-11-04 clocks went from 00:00 to 01:00, at 03:00 UTC. */
    tg_ms change = (civil_to_day(2018, 11, 4) * DAY_S + 3 * HOUR_S) * 1000;
    tg_window_of(TG_PER_DAY, &zone, change + 1, &begin, &end);
    assert_int_equal(begin, change);
    assert_int_equal(end - begin, 23 * HOUR_S * 1000);
    zone_fini(&zone);
}

static void clocks_that_go_back_over_midnight_do_not_reopen_the_day_before(void **state)
{
    struct tg_zone zone = must_read("America/St_Johns");
    tg_ms begin, end, again, ignored;
    (void)state;

    /* On 2010-11-07 clocks went from 00:01 to 23:01 of the day before, at 02:31 UTC. */
    tg_ms change = (civil_to_day(2010, 11, 7) * DAY_S + 2 * HOUR_S + 31 * 60) * 1000;
    tg_window_of(TG_PER_DAY, &zone, change - 30000, &begin, &end);
    assert_int_equal(begin, change - 60000);
    tg_window_of(TG_PER_DAY, &zone, change + 30 * 60000, &again, &ignored);
    assert_int_equal(again, begin);
    zone_fini(&zone);
}

static void a_day_that_is_skipped_is_empty(void **state)
{
    struct tg_zone zone = must_read("Pacific/Apia");
    tg_ms begin, end, noon = (civil_to_day(2011, 12, 30) * DAY_S) * 1000;
    (void)state;

    /* 2011-12-29 was followed by the 31st, at 10:00 UTC of the 30th. */
    tg_window_of(TG_PER_DAY, &zone, noon, &begin, &end);
    assert_int_equal(end, noon + 10 * HOUR_S * 1000);
    tg_window_of(TG_PER_DAY, &zone, end, &begin, &end);
    assert_int_equal(begin, noon + 10 * HOUR_S * 1000);
    assert_int_equal(end - begin, DAY_S * 1000);
    zone_fini(&zone);
}

/* ---- names ---- */

static void utc_needs_no_file(void **state)
{
    struct tg_zone zone;
    (void)state;

    assert_int_equal(setenv("TZDIR", "/nowhere", 1), 0);
    zone = must_read("UTC");
    assert_int_equal(unsetenv("TZDIR"), 0);
    assert_int_equal(zone.n, 0);
    assert_int_equal(zone.base_s, 0);
    zone_fini(&zone);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "/etc/passwd",
        "../etc/passwd",
        "Europe/../../passwd",
        ".",
        "Europe/",
        "Europe/Ber lin",
        "Europe\\Berlin",
        "Europe/Berlin\n",
        ":Europe/Berlin",
        "posixrules.",
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct tg_zone zone = {.base_s = 77};
        struct tg_problem problem = {""};
        assert_int_equal(zone_read(wrong[i], &zone, &problem), TG_ERR_INVALID);
        assert_int_equal(zone.base_s, 77);
        assert_non_null(strstr(problem.text, "a name is like"));
    }
}

static void a_zone_that_is_missing_is_named(void **state)
{
    struct tg_zone zone;
    struct tg_problem problem = {""};
    (void)state;

    assert_int_equal(zone_read("Europe/Atlantis", &zone, &problem), TG_ERR_UNKNOWN);
    assert_non_null(strstr(problem.text, "Europe/Atlantis"));
    assert_non_null(strstr(problem.text, "tzdata"));
    assert_int_equal(zone_read("Europe", &zone, &problem), TG_ERR_STORE); /* a folder */
}

/* ---- files of our own ---- */

/* A folder that is the system's zoneinfo for a while, with one file in it. */
struct own {
    char folder[64];
    char path[100];
};

static void own_open(struct own *own)
{
    (void)snprintf(own->folder, sizeof own->folder, "/tmp/tollgate-zone-%s", "XX"
                                                                             "XX"
                                                                             "XX");
    assert_non_null(mkdtemp(own->folder));
    (void)snprintf(own->path, sizeof own->path, "%s/Own", own->folder);
    assert_int_equal(setenv("TZDIR", own->folder, 1), 0);
}

static void own_close(struct own *own)
{
    assert_int_equal(unsetenv("TZDIR"), 0);
    assert_int_equal(unlink(own->path), 0);
    assert_int_equal(rmdir(own->folder), 0);
}

static void own_write(const struct own *own, const void *bytes, size_t n)
{
    FILE *file = fopen(own->path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A file under construction. */
struct tzif {
    unsigned char bytes[1000];
    size_t n;
};

static void put_number(struct tzif *file, int64_t number, int bytes)
{
    while (bytes-- > 0)
        file->bytes[file->n++] = (unsigned char)((uint64_t)number >> (8 * bytes));
}

static void put_text(struct tzif *file, const char *text)
{
    memcpy(file->bytes + file->n, text, strlen(text));
    file->n += strlen(text);
}

static void put_header(struct tzif *file, char version, int n_leaps, int n_times, int n_types)
{
    put_text(file, "TZif");
    put_number(file, version, 1);
    for (int i = 0; i < 15; i++)
        put_number(file, 0, 1);
    put_number(file, 0, 8); /* no indicators */
    put_number(file, n_leaps, 4);
    put_number(file, n_times, 4);
    put_number(file, n_types, 4);
    put_number(file, 1, 4); /* one byte of names */
}

/* One change at 1000 s, from +1 h to `offset_s`; and a rule. */
static struct tzif small_file(char version, int n_leaps, int kind, int32_t offset_s,
                              const char *rule)
{
    struct tzif file = {.n = 0};

    put_header(&file, version, 0, 0, 1);
    put_number(&file, 0, 7);
    put_header(&file, version, n_leaps, 1, 2);
    put_number(&file, 1000, 8);
    put_number(&file, kind, 1);
    put_number(&file, HOUR_S, 4);
    put_number(&file, 0, 2);
    put_number(&file, offset_s, 4);
    put_number(&file, 0, 3);
    for (int i = 0; i < 3 * n_leaps; i++)
        put_number(&file, 0, 4);
    put_text(&file, rule);
    return file;
}

static enum tg_err read_own(const struct own *own, const struct tzif *file, struct tg_zone *zone,
                            struct tg_problem *problem)
{
    own_write(own, file->bytes, file->n);
    return zone_read("Own", zone, problem);
}

static void tzdir_is_looked_at_first(void **state)
{
    struct own own;
    struct tg_zone zone;
    struct tzif file = small_file('2', 0, 1, 2 * HOUR_S, "\n<+02>-2\n");
    (void)state;

    own_open(&own);
    assert_int_equal(read_own(&own, &file, &zone, NULL), TG_OK);
    assert_int_equal(zone.base_s, HOUR_S);
    assert_int_equal(zone.n, 1);
    assert_int_equal(zone.changes[0].at, 1000000);
    assert_int_equal(zone.changes[0].offset_s, 2 * HOUR_S);
    zone_fini(&zone);
    own_close(&own);
}

static void files_that_are_not_right_are_refused_with_a_reason(void **state)
{
    const struct {
        struct tzif file;
        const char *says;
    } rows[] = {
        {small_file('\0', 0, 1, 0, "\n\n"), "version 2"},
        {small_file('2', 1, 1, 0, "\n\n"), "leap seconds"},
        {small_file('2', 0, 2, 0, "\n\n"), "list of changes"},
        {small_file('2', 0, 1, 30 * HOUR_S, "\n\n"), "26 hours"},
        {small_file('2', 0, 1, 0, ""), "rule for the future is missing"},
        {small_file('2', 0, 1, 0, "\nCET-1"), "rule for the future is missing"},
        {small_file('2', 0, 1, 0, "\nCET-1CEST\n"), "rule for the future cannot"},
    };
    struct own own;
    (void)state;

    own_open(&own);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct tg_zone zone;
        struct tg_problem problem = {""};
        assert_int_equal(read_own(&own, &rows[i].file, &zone, &problem), TG_ERR_STORE);
        if (!strstr(problem.text, rows[i].says) || !strstr(problem.text, "'Own'"))
            fail_msg("'%s' does not say '%s'", problem.text, rows[i].says);
    }
    own_close(&own);
}

/* Every beginning of a file, and every file with one byte changed: read or refused, never more. */
static void damaged_files_do_no_harm(void **state)
{
    struct tzif whole = small_file('2', 0, 1, 2 * HOUR_S, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    struct draw draw = draw_stream(seed, 5000);
    struct tg_zone zone;
    struct own own;
    (void)state;

    own_open(&own);
    for (size_t n = 0; n < whole.n; n++) {
        struct tzif file = whole;
        file.n = n;
        assert_int_not_equal(read_own(&own, &file, &zone, NULL), TG_OK);
    }
    for (int i = 0; i < 500; i++) {
        struct tzif file = whole;
        file.bytes[draw_between(&draw, 0, (int64_t)file.n - 1)] = (unsigned char)draw_bits(&draw);
        if (read_own(&own, &file, &zone, NULL) == TG_OK) {
            tg_ms begin, end;
            tg_window_of(TG_PER_MONTH, &zone, draw_between(&draw, 0, TG_NUMBER_MAX), &begin, &end);
            assert_true(begin < end);
            zone_fini(&zone);
        }
    }
    own_close(&own);
}

/* ---- rules ---- */

static void rules_are_read_as_posix_writes_them(void **state)
{
    static const struct {
        const char *text;
        int year;
        const char *summer, *standard; /* UTC */
    } rows[] = {
        {"CET-1CEST,M3.5.0,M10.5.0/3", 2026, "2026-03-29 01:00", "2026-10-25 01:00"},
        {"EST5EDT,M3.2.0,M11.1.0", 2027, "2027-03-14 07:00", "2027-11-07 06:00"},
        {"<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", 2026, "2026-10-03 15:30", "2026-04-04 15:00"},
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2026, "2026-03-29 01:00", "2026-10-25 01:00"},
        {"EET-2EEST,M3.4.4/50,M10.4.4/50", 2026, "2026-03-28 00:00", "2026-10-23 23:00"},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", 2026, "2026-10-25 01:00", "2026-03-29 01:00"},
        {"AAA0BBB,J60,J365/0", 2024, "2024-03-01 02:00", "2024-12-30 23:00"},
        {"AAA0BBB,59,364/0:30:30", 2024, "2024-02-29 02:00", "2024-12-29 23:30"},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct zone_rule rule;
        assert_true(zone_rule_parse(&rule, rows[i].text));
        for (int k = 0; k < 2; k++) {
            int64_t at_s = k == 0 ? zone_rule_to_summer(&rule, rows[i].year)
                                  : zone_rule_to_standard(&rule, rows[i].year);
            struct civil date = civil_from_day(at_s / DAY_S);
            int rest = (int)(at_s % DAY_S);
            char text[80];
            (void)snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d", (int)date.year,
                           date.month, date.day, rest / HOUR_S, rest % HOUR_S / 60);
            assert_string_equal(text, k == 0 ? rows[i].summer : rows[i].standard);
        }
    }
}

static void texts_that_are_no_rule_are_refused(void **state)
{
    static const char *const wrong[] = {
        "",
        "CE-1",
        "CET",
        "CET-25",
        "CET-1:60",
        "<CET-1",
        "CET-1CEST",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,M3.5.0,M10.5.0/168",
        "CET-1CEST,M3.5.0,M10.5.0x",
        "CET-1CEST,J0,J5",
        "CET-1CEST,1,366",
        "CET-99999999999999",
    };
    struct zone_rule rule;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (zone_rule_parse(&rule, wrong[i]))
            fail_msg("'%s' was read", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_those_of_libc),
        cmocka_unit_test(windows_of_real_zones_tile_time_as_libc_reckons),
        cmocka_unit_test(days_follow_each_other_from_1970_to_2100),
        cmocka_unit_test(a_day_of_a_clock_change_has_23_or_25_hours),
        cmocka_unit_test(a_day_without_midnight_begins_at_its_first_moment),
        cmocka_unit_test(clocks_that_go_back_over_midnight_do_not_reopen_the_day_before),
        cmocka_unit_test(a_day_that_is_skipped_is_empty),
        cmocka_unit_test(utc_needs_no_file),
        cmocka_unit_test(names_that_lead_elsewhere_are_refused),
        cmocka_unit_test(a_zone_that_is_missing_is_named),
        cmocka_unit_test(tzdir_is_looked_at_first),
        cmocka_unit_test(files_that_are_not_right_are_refused_with_a_reason),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(rules_are_read_as_posix_writes_them),
        cmocka_unit_test(texts_that_are_no_rule_are_refused),
    };
    seed = draw_seed("test_zone");
    last_s = civil_to_day(2100, 12, 31) * DAY_S;
    (void)unsetenv("TZDIR");
    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
