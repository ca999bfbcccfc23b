/* test_config_values.c - durations, sizes, money, times, addresses, patterns. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/config/config.h"
#include "server/config/config_values.h"

enum { NONE = -1 };

struct row {
    const char *text;
    int64_t want; /* NONE: not one */
};

typedef bool reader(const char *text, int64_t *value);

static void expect_rows(const char *what, reader *read, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int64_t value = NONE;
        bool good = read(rows[i].text, &value);
        if (good != (rows[i].want != NONE) || value != rows[i].want)
            fail_msg("%s \"%s\" is %lld, wanted %lld", what, rows[i].text, (long long)value,
                     (long long)rows[i].want);
    }
}

static void counts(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"007", 7},
        {"9007199254740991", TG_NUMBER_MAX},
        {"9007199254740992", NONE},
        {"99999999999999999999", NONE},
        {"", NONE},
        {"-1", NONE},
        {"+1", NONE},
        {" 1", NONE},
        {"1 ", NONE},
        {"1.0", NONE},
        {"1e3", NONE},
        {"1_000", NONE},
        {"0x10", NONE},
    };

    (void)state;
    expect_rows("count", value_count, rows, COUNT_OF(rows));
}

static void durations_have_a_unit(void **state)
{
    static const struct row rows[] = {
        {"10ms", 10},
        {"5s", 5000},
        {"2m", 120000},
        {"1h", 3600000},
        {"30d", INT64_C(2592000000)},
        {"0ms", 0},
        {"9007199254740991ms", TG_NUMBER_MAX},
        {"9007199254740992ms", NONE},
        {"9007199254741s", NONE},
        {"104249991d", INT64_C(9007199222400000)},
        {"104249992d", NONE},
        {"5", NONE},
        {"s", NONE},
        {"5 s", NONE},
        {"1.5s", NONE},
        {"5S", NONE},
        {"1h30m", NONE},
        {"-5s", NONE},
        {"5us", NONE},
        {"", NONE},
    };

    (void)state;
    expect_rows("duration", value_duration, rows, COUNT_OF(rows));
}

static void sizes_have_a_unit(void **state)
{
    static const struct row rows[] = {
        {"64KiB", 65536},
        {"32MiB", 33554432},
        {"1GiB", 1073741824},
        {"1TiB", INT64_C(1) << 40},
        {"5B", 5},
        {"5", NONE},
        {"5KB", NONE},
        {"5k", NONE},
        {"8192TiB", NONE},
        {"KiB", NONE},
    };

    (void)state;
    expect_rows("size", value_size, rows, COUNT_OF(rows));
}

static void money_is_exact(void **state)
{
    static const struct row rows[] = {
        {"0", 0},
        {"50", 50000000},
        {"0.15", 150000},
        {"0.000001", 1},
        {"1.100000", 1100000},
        {"0.1875", 187500},
        {"9007199254.740991", TG_NUMBER_MAX},
        {"9007199254.740992", NONE},
        {"0.0000001", NONE},
        {"1.", NONE},
        {".5", NONE},
        {"-1", NONE},
        {"1e3", NONE},
        {"$1", NONE},
        {"9007199255", NONE},
    };

    (void)state;
    expect_rows("money", value_usd, rows, COUNT_OF(rows));
}

static void factors_have_three_decimals(void **state)
{
    static const struct row rows[] = {
        {"2", 2000},
        {"0.5", 500},
        {"1.75", 1750},
        {"0.001", 1},
        {"1.10", 1100},
        {"0.0010", 1},
        {"1.0005", NONE},
        {"-1", NONE},
        {"1.", NONE},
        {".5", NONE},
        {"2x", NONE},
        {"1e3", NONE},
        {"", NONE},
    };

    (void)state;
    expect_rows("factor", value_factor, rows, COUNT_OF(rows));
}

static void times_are_rfc_3339(void **state)
{
    static const struct row rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2027-12-31T00:00:00Z", INT64_C(1830211200000)},
        {"2000-02-29T12:34:56.789Z", INT64_C(951827696789)},
        {"2024-01-01T02:00:00+02:00", INT64_C(1704067200000)},
        {"2023-12-31T19:30:00-04:30", INT64_C(1704067200000)},
        {"2024-01-01T00:00:00.123456Z", INT64_C(1704067200123)},
        {"9999-12-31T23:59:59Z", INT64_C(253402300799000)},
        {"1969-12-31T23:59:59Z", NONE},
        {"1970-01-01T00:00:00+00:01", NONE},
        {"2023-02-29T00:00:00Z", NONE},
        {"2100-02-29T00:00:00Z", NONE},
        {"2024-13-01T00:00:00Z", NONE},
        {"2024-00-01T00:00:00Z", NONE},
        {"2024-01-01T24:00:00Z", NONE},
        {"2024-01-01 00:00:00Z", NONE},
        {"2024-01-01T00:00:00", NONE},
        {"2024-01-01T00:00:00.Z", NONE},
        {"2024-01-01", NONE},
        {"", NONE},
    };

    (void)state;
    expect_rows("time", value_time, rows, COUNT_OF(rows));
}

static void numbers_are_finite_decimals(void **state)
{
    static const char *const good[] = {"0", "-1.5", "2.0", "1e-3", "1E+3", "00.5"};
    static const char *const bad[] = {"", "-", ".5", "1.", "1e", "inf", "nan", "0x1p3", "1e999",
                                      " 1", "1 ", "+1", "1,5"};
    double number;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_true(value_number(good[i], &number));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (value_number(bad[i], &number))
            fail_msg("\"%s\" is a number", bad[i]);
}

static bool is_network(const char *text)
{
    struct config_range range;

    return value_network(text, &range);
}

static bool is_url(const char *text)
{
    struct value_url url;

    return value_url(text, &url);
}

static void texts_have_their_form(void **state)
{
    static const struct {
        const char *what;
        bool (*is)(const char *text);
        const char *good[6], *bad[8];
    } rows[] = {
        {"name",
         value_is_name,
         {"a", "team a", "ü"},
         {"", "a\nb", "\x7f", "\xff", "a\xc2\x85", "\xc3"}},
        {"line", value_is_line, {"", "Bearer ", "ü"}, {"a\rb", "a\nb", "\t", "\xff", "\xc2\x80"}},
        {"path", value_is_path, {"/", "/v1", "/a/b/"}, {"", "v1", "/a?b", "/a#", "/a b", "/ü"}},
        {"field", value_is_field, {"x-y", "API-Key", "!"}, {"", "a b", "a:", "ü", "a\r\nb"}},
        {"zone", value_is_zone, {"UTC", "Europe/Berlin", "Etc/GMT+1"}, {"", "/etc", "../x", "a b"}},
        {"address",
         value_is_address,
         {"127.0.0.1:8080", "[::1]:80", "localhost:0", "0.0.0.0:65535", "*:80", "unix:/run/x"},
         {"", ":80", "host", "host:", "host:65536", "[::1:80", "*:x", "unix:"}},
        {"network",
         is_network,
         {"10.0.0.0/8", "127.0.0.1/32", "::1", "fd00::/8", "10.0.0.1"},
         {"", "10.0.0.0/33", "10.0.0", "::1/129", "10.0.0.0/", "host"}},
        {"url",
         is_url,
         {"http://h", "https://api.openai.com", "http://127.0.0.1:9099/v1?x", "http://[::1]:80/"},
         {"", "ftp://h", "http://", "http:///x", "http://h:0", "http://u:p@h/", "http://h:",
          "http://h h"}},
        {"store",
         value_is_store,
         {"memory", "redis://h:1/0", "rediss://u:p@h:1", "redis+cluster://a:1,b:2",
          "redis+sentinel://m@h:1"},
         {"", "redis://", "postgres://h", "Memory", "redis:h"}},
        {"pattern", value_is_pattern, {"demo-*", "!demo-large", "*"}, {"", "!"}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (size_t k = 0; k < COUNT_OF(rows[i].good) && rows[i].good[k] != NULL; k++)
            if (!rows[i].is(rows[i].good[k]))
                fail_msg("%s: \"%s\" is none", rows[i].what, rows[i].good[k]);
        for (size_t k = 0; k < COUNT_OF(rows[i].bad) && rows[i].bad[k] != NULL; k++)
            if (rows[i].is(rows[i].bad[k]))
                fail_msg("%s: \"%s\" is one", rows[i].what, rows[i].bad[k]);
    }
}

static void urls_come_apart(void **state)
{
    static const struct {
        const char *text, *host, *path;
        bool tls, has_query;
        int port;
    } rows[] = {
        {"https://api.openai.com", "api.openai.com", "", true, false, 443},
        {"http://h/", "h", "", false, false, 80},
        {"http://h:9099/v1/", "h", "/v1", false, false, 9099},
        {"https://[::1]:1/a//", "::1", "/a", true, false, 1},
        {"http://[fd00::2]", "fd00::2", "", false, false, 80},
        {"http://h?a=b", "h", "", false, true, 80},
        {"http://h/x#y", "h", "/x", false, true, 80},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct value_url url;
        char host[64], path[64];

        assert_true(value_url(rows[i].text, &url));
        snprintf(host, sizeof host, "%.*s", (int)url.host_bytes, url.host);
        snprintf(path, sizeof path, "%.*s", (int)url.path_bytes, url.path);
        assert_string_equal(host, rows[i].host);
        assert_string_equal(path, rows[i].path);
        assert_int_equal(url.tls, rows[i].tls);
        assert_int_equal(url.has_query, rows[i].has_query);
        assert_int_equal(url.port, rows[i].port);
    }
}

static void networks_are_cut_to_their_prefix(void **state)
{
    static const struct {
        const char *text;
        struct config_range want;
    } rows[] = {
        {"10.1.2.3/8", {AF_INET, {10}, 8}},
        {"10.1.2.3", {AF_INET, {10, 1, 2, 3}, 32}},
        {"192.168.255.1/17", {AF_INET, {192, 168, 128}, 17}},
        {"0.0.0.0/0", {AF_INET, {0}, 0}},
        {"fd12:3456::1/12", {AF_INET6, {0xfd, 0x10}, 12}},
        {"::1", {AF_INET6, {[15] = 1}, 128}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct config_range range;

        assert_true(value_network(rows[i].text, &range));
        assert_int_equal(range.family, rows[i].want.family);
        assert_int_equal(range.bits, rows[i].want.bits);
        assert_memory_equal(range.address, rows[i].want.address, sizeof range.address);
    }
}

static void the_last_pattern_that_matches_decides(void **state)
{
    static const struct {
        const char *patterns[4];
        const char *name;
        bool want;
    } rows[] = {
        {{NULL}, "x", true},
        {{"demo-*", "!demo-large"}, "demo-small", true},
        {{"demo-*", "!demo-large"}, "demo-large", false},
        {{"demo-*", "!demo-large"}, "other", false},
        {{"!demo-large", "demo-*"}, "demo-large", true},
        {{"!demo-large"}, "demo-large", false},
        {{"!demo-large"}, "other", true},
        {{"a"}, "a", true},
        {{"a"}, "ab", false},
        {{"a"}, "", false},
        {{"*"}, "", true},
        {{"*"}, "any", true},
        {{"a*b*c"}, "aXbYbZc", true},
        {{"a*b*c"}, "aXcYb", false},
        {{"*a*a*a*a*a*a*a*b"}, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {{"**x"}, "x", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct config_names names = {(const char **)rows[i].patterns, 0};
        while (names.n < COUNT_OF(rows[i].patterns) && rows[i].patterns[names.n] != NULL)
            names.n++;
        if (config_patterns_match(&names, rows[i].name, strlen(rows[i].name)) != rows[i].want)
            fail_msg("row %zu: %s", i, rows[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(durations_have_a_unit),
        cmocka_unit_test(sizes_have_a_unit),
        cmocka_unit_test(money_is_exact),
        cmocka_unit_test(factors_have_three_decimals),
        cmocka_unit_test(times_are_rfc_3339),
        cmocka_unit_test(numbers_are_finite_decimals),
        cmocka_unit_test(texts_have_their_form),
        cmocka_unit_test(urls_come_apart),
        cmocka_unit_test(networks_are_cut_to_their_prefix),
        cmocka_unit_test(the_last_pattern_that_matches_decides),
    };

    return cmocka_run_group_tests_name("config values", tests, NULL, NULL);
}
