/* test_upstream_wait.c - how long a provider wants us to wait, in all the ways they say it. */
#include "check.h"

#include <string.h>

#include "server/dialect/upstream_wait.h"

#define NOW INT64_C(784111777000) /* Sun, 06 Nov 1994 08:49:37 GMT */

static int setup(void **state)
{
    *state = json_reader_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    json_reader_free(*state);
    return 0;
}

/* Up to three headers. */
struct headers {
    const char *pairs[6];
};

static size_t fields_of(const struct headers *headers, struct http_field fields[3])
{
    size_t n = 0;

    for (; n < 3 && headers->pairs[2 * n] != NULL; n++)
        fields[n] = (struct http_field){slice_of(headers->pairs[2 * n]),
                                        slice_of(headers->pairs[2 * n + 1])};
    return n;
}

static tg_ms wait_of(const struct headers *headers)
{
    struct http_field fields[3];
    size_t n = fields_of(headers, fields);
    tg_ms until = upstream_wait(fields, n, NOW);
    return until == 0 ? -1 : until - NOW;
}

static void every_form_is_understood(void **state)
{
    static const struct {
        struct headers headers;
        tg_ms wait; /* -1: none */
    } rows[] = {
        {{{NULL}}, -1},
        {{{"content-type", "5"}}, -1},
        {{{"retry-after-ms", "1500"}}, 1500},
        {{{"Retry-After-Ms", "1500.2"}}, 1501},
        {{{"x-ms-retry-after-ms", "250"}}, 250},
        {{{"retry-after", "3"}}, 3000},
        {{{"retry-after", "0.25"}}, 250},
        {{{"retry-after", "1.0001"}}, 1001},
        {{{"retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"}}, 10000},
        {{{"retry-after", "Sunday, 06-Nov-94 08:49:47 GMT"}}, 10000},
        {{{"retry-after", "Sun Nov  6 08:49:47 1994"}}, 10000},
        /* the most exact comes first, and what is none is passed over */
        {{{"retry-after", "9", "retry-after-ms", "1500"}}, 1500},
        {{{"retry-after-ms", "soon", "x-ms-retry-after-ms", "-5", "retry-after", "2"}}, 2000},
        {{{"retry-after", "soon", "x-ratelimit-reset-tokens", "2s"}}, 2000},
        {{{"retry-after", ""}}, -1},
        {{{"retry-after", "-1"}}, -1},
        {{{"retry-after", "5 s"}}, -1},
        {{{"retry-after", "nan"}}, -1},
        {{{"retry-after", "1e3"}}, -1},
        {{{"retry-after", "."}}, -1},
        {{{"retry-after", "5."}}, -1},
        /* bounds */
        {{{"retry-after-ms", "0"}}, UPSTREAM_WAIT_MIN},
        {{{"retry-after", "Sun, 06 Nov 1994 08:49:00 GMT"}}, UPSTREAM_WAIT_MIN},
        {{{"retry-after", "31536000"}}, UPSTREAM_WAIT_MAX},
        {{{"retry-after", "99999999999999999999999999999999"}}, UPSTREAM_WAIT_MAX},
        {{{"retry-after", "Fri, 31 Dec 9999 23:59:59 GMT"}}, UPSTREAM_WAIT_MAX},
        /* quotas */
        {{{"x-ratelimit-reset-requests", "120ms"}}, 120},
        {{{"x-ratelimit-reset-tokens", "6m0s"}}, 360000},
        {{{"x-ratelimit-reset-tokens", "1m2.5s"}}, 62500},
        {{{"x-ratelimit-reset-tokens", "7"}}, 7000},
        {{{"x-ratelimit-reset-tokens", "1d"}}, UPSTREAM_WAIT_MAX},
        {{{"x-ratelimit-reset-tokens", "9999999999999999999h"}}, UPSTREAM_WAIT_MAX},
        {{{"x-ratelimit-reset-tokens", "5x"}}, -1},
        {{{"x-ratelimit-reset-tokens", "m"}}, -1},
        {{{"x-ratelimit-reset-tokens", ""}}, -1},
        {{{"x-ratelimit-reset-requests", "9s", "x-ratelimit-reset-tokens", "2s"}}, 9000},
        {{{"x-ratelimit-reset-requests", "9s", "x-ratelimit-reset-tokens", "2s",
           "x-ratelimit-remaining-requests", "1"}},
         2000},
        {{{"x-ratelimit-reset-requests", "9s", "x-ratelimit-remaining-requests", "0"}}, 9000},
        {{{"anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:40Z"}}, 3000},
        {{{"anthropic-ratelimit-tokens-reset", "1994-11-06T08:49:40.2Z"}}, 4000},
        {{{"anthropic-ratelimit-requests-reset", "1994-11-06T08:49:40Z",
           "anthropic-ratelimit-requests-remaining", "0"}},
         3000},
        {{{"anthropic-ratelimit-requests-reset", "1994-11-06T08:49:40Z",
           "anthropic-ratelimit-requests-remaining", "3"}},
         -1},
        {{{"anthropic-ratelimit-tokens-reset", "1994-11-06 08:49:40"}}, -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        tg_ms got = wait_of(&rows[i].headers);
        if (got != rows[i].wait)
            fail_msg("row %zu, %s: %s: %lld", i, rows[i].headers.pairs[0],
                     rows[i].headers.pairs[1], (long long)got);
    }
}

static void dates_are_checked(void **state)
{
    static const char *const wrong[] = {
        "",
        "Sun",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 32 Nov 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nox 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 06 08:49:37 94",
        "Sun Nov  66 08:49:37 1994",
        "Sun Nov",
        "Sun Nov  6 08:49:37 1994 GMT",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (upstream_date(slice_of(wrong[i]), NOW) != -1)
            fail_msg("'%s' is a date", wrong[i]);
    assert_int_equal(upstream_date(SLICE("Sun Nov 16 08:49:37 1994"), NOW),
                     NOW + 10 * INT64_C(86400000));
    assert_int_equal(upstream_date(SLICE("Thu, 29 Feb 2024 00:00:00 GMT"), NOW),
                     INT64_C(1709164800000));
    /* Two digits: not more than 50 years ahead. */
    assert_int_equal(upstream_date(SLICE("Saturday, 06-Nov-93 08:49:37 GMT"), NOW),
                     NOW - 365 * INT64_C(86400000));
    assert_int_equal(upstream_date(SLICE("Wednesday, 01-Jan-70 00:00:00 GMT"), NOW), 0);
    assert_int_equal(upstream_date(SLICE("Sunday, 06-Nov-94 08:49:37 GMT"),
                                   INT64_C(1700000000000)),
                     NOW);
    assert_int_equal(upstream_date(SLICE("Wednesday, 31-Dec-25 00:00:00 GMT"),
                                   INT64_C(1700000000000)),
                     INT64_C(1767139200000));
}

static void quota_that_is_gone_is_known(void **state)
{
    static const struct {
        const char *body;
        bool gone;
    } rows[] = {
        {"{\"error\":{\"message\":\"You exceeded your current quota\",\"type\":"
         "\"insufficient_quota\",\"param\":null,\"code\":\"insufficient_quota\"}}",
         true},
        {"{\"error\":{\"code\":\"billing_hard_limit_reached\"}}", true},
        {"{\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"x\"}}", true},
        {"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\","
         "\"message\":\"Your credit balance is too low to access the API.\"}}",
         true},
        {"{\"error\":{\"message\":\"Rate limit reached\",\"type\":\"requests\","
         "\"code\":\"rate_limit_exceeded\"}}",
         false},
        {"{\"error\":{\"message\":\"insufficient_quota\"}}", false},
        {"{\"code\":\"insufficient_quota\"}", false},
        {"{\"error\":\"insufficient_quota\"}", false},
        {"{\"error\":{\"code\":429}}", false},
        {"{\"error\":{\"code\":\"insufficient_quota\"}", false},
        {"<html>", false},
        {"", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (upstream_quota_exhausted(*state, rows[i].body, strlen(rows[i].body),
                                     strlen(rows[i].body)) != rows[i].gone)
            fail_msg("%s", rows[i].body);
}

/* Not what is limited for a while, nor what quotes these words. */
static void a_call_that_is_too_large_is_known(void **state)
{
    static const struct {
        const char *body;
        bool large;
    } rows[] = {
        {"{\"error\":{\"message\":\"Request too large for gpt-4o in organization org-1 on tokens "
         "per min (TPM): Limit 30000, Requested 31538. The input or output tokens must be reduced "
         "in order to run successfully.\",\"type\":\"tokens\",\"param\":null,"
         "\"code\":\"rate_limit_exceeded\"}}",
         true},
        {"{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\","
         "\"message\":\"Extra usage is required for long context requests.\"}}",
         true},
        {"{\"error\":{\"message\":\"Rate limit reached for gpt-4 on tokens per min (TPM): "
         "Limit 10000, Used 8554, Requested 3082. Please try again in 9.8s.\","
         "\"code\":\"rate_limit_exceeded\"}}",
         false},
        {"{\"error\":{\"message\":\"You said: Request too large for \"}}", false},
        {"{\"error\":{\"code\":\"Request too large for \"}}", false},
        {"{\"message\":\"Request too large for \"}", false},
        {"{\"error\":{\"message\":\"Request too large for \"}", false},
        {"", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (upstream_too_large(*state, rows[i].body, strlen(rows[i].body), strlen(rows[i].body)) !=
            rows[i].large)
            fail_msg("%s", rows[i].body);
}

static void room_is_what_a_provider_says(void **state)
{
    static const struct {
        struct headers headers;
        int64_t room; /* -1: it does not say */
        tg_ms wait;
    } rows[] = {
        {{{NULL}}, -1, 0},
        {{{"x-ratelimit-remaining-requests", "7"}}, -1, 0}, /* until when? */
        {{{"x-ratelimit-remaining-requests", "7", "x-ratelimit-reset-requests", "120ms"}}, 7, 120},
        {{{"X-RateLimit-Reset-Requests", "6m0s", "X-RateLimit-Remaining-Requests", "0"}},
         0,
         360000},
        {{{"x-ratelimit-remaining-tokens", "7", "x-ratelimit-reset-tokens", "1s"}}, -1, 0},
        {{{"x-ratelimit-remaining-requests", "many", "x-ratelimit-reset-requests", "1s"}}, -1, 0},
        {{{"x-ratelimit-remaining-requests", "7x", "x-ratelimit-reset-requests", "1s"}}, -1, 0},
        {{{"x-ratelimit-remaining-requests", "-7", "x-ratelimit-reset-requests", "1s"}}, -1, 0},
        {{{"anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset",
           "1994-11-06T08:49:47Z"}},
         49,
         10000},
        {{{"anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset",
           "1994-11-06T08:49:27Z"}},
         49,
         0},
        {{{"anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset",
           "soon"}},
         -1,
         0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_field fields[3];
        size_t n = fields_of(&rows[i].headers, fields);
        int64_t room = -1;
        tg_ms until = NOW;
        bool says = upstream_room(fields, n, NOW, &room, &until);
        if (says != (rows[i].room >= 0) || room != rows[i].room || until - NOW != rows[i].wait)
            fail_msg("row %zu: room %lld", i, (long long)room);
        assert_false(upstream_room(fields, n, -1, &room, &until));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_is_understood),
        cmocka_unit_test(dates_are_checked),
        cmocka_unit_test(quota_that_is_gone_is_known),
        cmocka_unit_test(a_call_that_is_too_large_is_known),
        cmocka_unit_test(room_is_what_a_provider_says),
    };

    return cmocka_run_group_tests_name("upstream_wait", tests, setup, teardown);
}
