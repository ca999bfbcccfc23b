/* test_path_pattern.c - which paths a pattern matches, covers and meets. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "draw.h"
#include "server/dialect/ask.h"
#include "server/dialect/path_pattern.h"

/* ---- Paths ----------------------------------------------------------------------------------- */

static void only_a_path_with_one_reading_is_plain(void **state)
{
    static const char *const plain[] = {"/v1/files", "/v1/files/file-Ab_1.x~", "/a:b/c@d,e=f",
                                        "/...", "/a.."};
    static const char *const odd[] = {
        "",
        "/",
        "v1",
        "/v1/",
        "//v1",
        "/v1//files",
        "/v1/./x",
        "/v1/../x",
        "/v1/..",
        "/v1/a%2fb",
        "/v1/a%2Fb",
        "/%66iles",
        "/a\\b",
        "/a;b=c",
        "/a b",
        "/a\tb",
        "/a#b",
        "/a?b",
        "/\xc3\xa9",
        "/a*b",
        "/v1/*",
        "/v1/files/%00",
        "/v1/%2e%2e",
        "/a|b",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        assert_true(path_is_plain(slice_of(plain[i])));
    for (size_t i = 0; i < COUNT_OF(odd); i++)
        if (path_is_plain(slice_of(odd[i])))
            fail_msg("%s is plain", odd[i]);
}

/* S7: a star at the end is a prefix, and not a letter. */
static void a_star_at_the_end_is_any_number_of_segments(void **state)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } rows[] = {
        {"/v1/files/*", "/v1/files", true},
        {"/v1/files/*", "/v1/files/abc", true},
        {"/v1/files/*", "/v1/files/abc/content", true},
        {"/v1/files/*", "/v1/files/", false},
        {"/v1/files/*", "/v1/filesystem", false},
        {"/v1/files/*", "/v1/Files/abc", false},
        {"/v1/files/*", "/v1/files/../models", false},
        {"/v1/files/*", "/v1//files/abc", false},
        {"/v1/files/*", "/v1/files/a%2fb", false},
        {"/v1/files/*", "/v1", false},
        {"/v1/files", "/v1/files", true},
        {"/v1/files", "/v1/files/abc", false},
        {"/v1/threads/*/runs", "/v1/threads/t/runs", true},
        {"/v1/threads/*/runs", "/v1/threads/runs", false},
        {"/v1/threads/*/runs", "/v1/threads/t/u/runs", false},
        {"/v1/threads/*/runs", "/v1/threads/t/runs/r", false},
        {"/v1/threads/*/runs/*", "/v1/threads/t/runs", true},
        {"/v1/threads/*/runs/*", "/v1/threads/t/runs/r/cancel", true},
        {"/*", "/x", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (path_pattern_matches(rows[i].pattern, slice_of(rows[i].path)) != rows[i].matches)
            fail_msg("%s and %s", rows[i].pattern, rows[i].path);
}

static void a_pattern_that_can_match_nothing_is_a_problem(void **state)
{
    static const char *const bad[] = {"", "v1", "/", "/v1/", "/v1//x", "/v1/fi*",
                                      "/v1/*x", "/**", "/v1/a?b", "/v1#x", "/../x", "/a/./b",
                                      "/v1/%41", "*/files"};
    static const char *const good[] = {"/x", "/*", "/v1/files/*", "/v1/*/runs", "/*/*"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (path_pattern_problem(bad[i]) == NULL)
            fail_msg("\"%s\" is good", bad[i]);
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_null(path_pattern_problem(good[i]));
}

/* ---- Two patterns ---------------------------------------------------------------------------- */

enum { DRAWS = 20000,
       LONGEST = 4 };

static void draw_pattern(struct draw *draw, char text[32])
{
    size_t n = 0, segments = 1 + (size_t)draw_between(draw, 0, LONGEST - 2);

    for (size_t i = 0; i < segments; i++) {
        text[n++] = '/';
        text[n++] = "ab*"[draw_between(draw, 0, 2)];
    }
    text[n] = '\0';
}

/* Against every short path there is: what covers matches all that is covered, and so on. */
static void two_patterns_compare_like_the_paths_they_match(void **state)
{
    struct draw draw = draw_stream(draw_seed("path_pattern"), 0);

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        char a[32], b[32], path[2 * (LONGEST + 1) + 1];
        bool covers = true, overlaps = false;
        draw_pattern(&draw, a);
        draw_pattern(&draw, b);
        for (size_t n = 1; n <= LONGEST + 1; n++)
            for (unsigned bits = 0; bits < 1u << n; bits++) {
                for (size_t k = 0; k < n; k++) {
                    path[2 * k] = '/';
                    path[2 * k + 1] = bits >> k & 1 ? 'a' : 'b';
                }
                path[2 * n] = '\0';
                bool in_a = path_pattern_matches(a, slice_of(path));
                bool in_b = path_pattern_matches(b, slice_of(path));
                covers &= !in_b || in_a;
                overlaps |= in_a && in_b;
            }
        /* Two letters are all there is here: a third would tell a star from both. */
        if (path_pattern_covers(a, b) && !covers)
            fail_msg("%s does not cover %s", a, b);
        if (path_pattern_overlaps(a, b) != overlaps)
            fail_msg("%s and %s overlap: %d", a, b, overlaps);
    }
    assert_true(path_pattern_covers("/v1/*", "/v1/files/*"));
    assert_true(path_pattern_covers("/v1/*/x", "/v1/y/x"));
    assert_false(path_pattern_covers("/v1/y/x", "/v1/*/x"));
    assert_false(path_pattern_covers("/v1/*/x", "/v1/*"));
    assert_true(path_pattern_covers("/v1/*", "/v1"));
}

static void work_that_goes_on_is_known_by_its_path(void **state)
{
    (void)state;
    assert_true(endpoint_starts_work(SLICE("/v1/batches")));
    assert_true(endpoint_starts_work(SLICE("/v1/messages/batches")));
    assert_true(endpoint_starts_work(SLICE("/v1/threads/t/runs")));
    assert_true(endpoint_starts_work(SLICE("/v1/fine_tuning/jobs")));
    assert_false(endpoint_starts_work(SLICE("/v1/files")));
    assert_false(endpoint_starts_work(SLICE("/v1/batchesx")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_path_with_one_reading_is_plain),
        cmocka_unit_test(a_star_at_the_end_is_any_number_of_segments),
        cmocka_unit_test(a_pattern_that_can_match_nothing_is_a_problem),
        cmocka_unit_test(two_patterns_compare_like_the_paths_they_match),
        cmocka_unit_test(work_that_goes_on_is_known_by_its_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
