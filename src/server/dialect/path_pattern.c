/* path_pattern.c - paths with stars. See path_pattern.h. */
#include "server/dialect/path_pattern.h"

#include <string.h>

bool path_next(struct slice *rest, struct slice *segment)
{
    if (rest->n == 0 || rest->at[0] != '/')
        return false;
    const char *begin = rest->at + 1;
    const char *end = rest->n > 1 ? memchr(begin, '/', rest->n - 1) : NULL;
    size_t n = end != NULL ? (size_t)(end - begin) : rest->n - 1;
    *segment = (struct slice){begin, n};
    *rest = (struct slice){begin + n, rest->n - 1 - n};
    return true;
}

struct slice path_of_target(struct slice target)
{
    const char *query = target.n > 0 ? memchr(target.at, '?', target.n) : NULL;

    return (struct slice){target.at, query != NULL ? (size_t)(query - target.at) : target.n};
}

static bool is_plain_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-._~:@!$'()+,=", c) != NULL);
}

static bool is_dots(struct slice segment)
{
    return slice_equal(segment, SLICE(".")) || slice_equal(segment, SLICE(".."));
}

static bool is_star(struct slice segment)
{
    return segment.n == 1 && segment.at[0] == '*';
}

static bool is_plain_segment(struct slice segment)
{
    for (size_t i = 0; i < segment.n; i++)
        if (!is_plain_byte(segment.at[i]))
            return false;
    return segment.n > 0 && !is_dots(segment);
}

bool path_is_plain(struct slice path)
{
    struct slice segment;

    if (path.n == 0)
        return false;
    while (path_next(&path, &segment))
        if (!is_plain_segment(segment))
            return false;
    return path.n == 0;
}

const char *path_pattern_problem(const char *pattern)
{
    struct slice rest = {pattern, strlen(pattern)}, segment;

    if (rest.n == 0 || rest.at[0] != '/')
        return "a path that begins with /";
    while (path_next(&rest, &segment)) {
        if (is_star(segment) || is_plain_segment(segment))
            continue;
        if (segment.n > 0 && memchr(segment.at, '*', segment.n) != NULL)
            return "a path in which * is a whole segment, such as /v1/files/* or "
                   "/v1/threads/*/runs";
        return "a path without a query, escapes, empty segments and dots, such as /v1/files/*; "
               "calls of any other are refused";
    }
    return NULL;
}

bool path_pattern_matches(const char *pattern, struct slice path)
{
    struct slice rest = {pattern, strlen(pattern)}, wanted, segment;

    if (!path_is_plain(path))
        return false;
    while (path_next(&rest, &wanted)) {
        if (is_star(wanted) && rest.n == 0)
            return true;
        if (!path_next(&path, &segment) || !(is_star(wanted) || slice_equal(wanted, segment)))
            return false;
    }
    return path.n == 0;
}

bool path_pattern_covers(const char *a, const char *b)
{
    struct slice all = {a, strlen(a)}, some = {b, strlen(b)}, x = {0}, y = {0};

    while (path_next(&all, &x)) {
        if (is_star(x) && all.n == 0)
            return true;
        if (!path_next(&some, &y) || (is_star(y) && some.n == 0))
            return false;
        if (!is_star(x) && (is_star(y) || !slice_equal(x, y)))
            return false;
    }
    return some.n == 0;
}

bool path_pattern_overlaps(const char *a, const char *b)
{
    struct slice left = {a, strlen(a)}, right = {b, strlen(b)}, x = {0}, y = {0};

    for (;;) {
        bool more_left = path_next(&left, &x), more_right = path_next(&right, &y);
        if ((more_left && is_star(x) && left.n == 0) || (more_right && is_star(y) && right.n == 0))
            return true;
        if (!more_left || !more_right)
            return more_left == more_right;
        if (!is_star(x) && !is_star(y) && !slice_equal(x, y))
            return false;
    }
}
