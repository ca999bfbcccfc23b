/* limit_headers.c - what a success says about limits, and how each API writes time.
 *
 * Where both a requests and a tokens limit apply, clients pace themselves by these before anything
 * is refused. OpenAI's reset is how long from now, Anthropic's is when: both are of the same
 * reset_at.
 */
#include <assert.h>
#include <string.h>

#include "lib/budget/civil.h"
#include "lib/core/num.h"
#include "server/dialect/replies.h"

#define DAY_MS INT64_C(86400000)

/* The end of the year 9999, after which RFC 3339 has no dates. */
#define DATE_MAX INT64_C(253402300799999)

/* So many digits, and a byte behind them. */
static char *put_digits(char *to, int digits, int64_t number, char behind)
{
    for (int i = digits; i-- > 0; number /= 10)
        to[i] = (char)('0' + number % 10);
    to[digits] = behind;
    return to + digits + 1;
}

size_t reply_date(tg_ms at, char text[REPLY_DATE_MAX])
{
    int64_t ms = num_max(0, num_min(at, DATE_MAX));
    struct civil day = civil_from_day(ms / DAY_MS);
    int64_t rest = ms % DAY_MS;
    char *to = text;

    to = put_digits(to, 4, day.year, '-');
    to = put_digits(to, 2, day.month, '-');
    to = put_digits(to, 2, day.day, 'T');
    to = put_digits(to, 2, rest / 3600000, ':');
    to = put_digits(to, 2, rest / 60000 % 60, ':');
    to = put_digits(to, 2, rest / 1000 % 60, rest % 1000 != 0 ? '.' : 'Z');
    if (rest % 1000 != 0)
        to = put_digits(to, 3, rest % 1000, 'Z');
    *to = '\0';
    assert(to < text + REPLY_DATE_MAX);
    return (size_t)(to - text);
}

size_t reply_id(uint64_t id, char text[REPLY_ID_MAX])
{
    static const char digits[] = "0123456789abcdef";

    memcpy(text, "req_", 4);
    for (size_t i = REPLY_ID_MAX; i-- > 4; id >>= 4)
        text[i] = digits[id & 15];
    return REPLY_ID_MAX;
}

static size_t put_unit(char *text, int64_t number, char unit)
{
    size_t n = http_put_number(text, number);

    text[n] = unit;
    return n + 1;
}

/* Seconds with as many digits behind the point as are needed. */
static size_t put_seconds(char *text, int ms)
{
    size_t n = http_put_number(text, ms / 1000);

    if (ms % 1000 != 0)
        text[n++] = '.';
    for (int rest = ms % 1000; rest != 0; rest = rest % 100 * 10)
        text[n++] = (char)('0' + rest / 100);
    memcpy(text + n, "s", 2);
    return n + 1;
}

size_t reply_duration(tg_ms ms, char text[REPLY_DURATION_MAX])
{
    int64_t left = num_max(0, num_min(ms, TG_NUMBER_MAX));
    size_t n = 0;

    if (left > 0 && left < 1000) {
        n = put_unit(text, left, 'm');
        memcpy(text + n, "s", 2);
        return n + 1;
    }
    if (left >= 3600000)
        n = put_unit(text, left / 3600000, 'h');
    if (left >= 60000)
        n += put_unit(text + n, left / 60000 % 60, 'm');
    return n + put_seconds(text + n, (int)(left % 60000));
}

static void limit_headers_add(struct reply_limits *limits, const char *name, size_t n)
{
    assert(limits->n_fields < REPLY_LIMITS_MAX && limits->used + n <= sizeof limits->room);
    limits->fields[limits->n_fields++] =
        (struct http_field){slice_of(name), {limits->room + limits->used, n}};
    limits->used += n;
}

static void limit_headers_add_number(struct reply_limits *limits, const char *name, int64_t number)
{
    limit_headers_add(limits, name, http_put_number(limits->room + limits->used, number));
}

struct names {
    const char *limit, *remaining, *reset;
};

static const struct names names[2][2] = {
    [WIRE_OPENAI] = {{"x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
                      "x-ratelimit-reset-requests"},
                     {"x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
                      "x-ratelimit-reset-tokens"}},
    [WIRE_ANTHROPIC] = {{"anthropic-ratelimit-requests-limit",
                         "anthropic-ratelimit-requests-remaining",
                         "anthropic-ratelimit-requests-reset"},
                        {"anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining",
                         "anthropic-ratelimit-tokens-reset"}},
};

static void add_axis(struct reply_limits *limits, const struct tg_decision *decision,
                     const struct names *named, enum wire_api api, tg_ms now, tg_ms wall)
{
    char *at;

    limit_headers_add_number(limits, named->limit, decision->limit);
    limit_headers_add_number(limits, named->remaining, decision->remaining);
    at = limits->room + limits->used;
    if (api == WIRE_ANTHROPIC)
        limit_headers_add(limits, named->reset,
                          reply_date(num_add(wall, num_less(decision->reset_at, now)), at));
    else
        limit_headers_add(limits, named->reset,
                          reply_duration(num_less(decision->reset_at, now), at));
}

void reply_limits_write(const struct tg_axes *axes, enum wire_api api, tg_ms now, tg_ms wall,
                        struct reply_limits *limits)
{
    enum wire_api form = api == WIRE_ANTHROPIC ? WIRE_ANTHROPIC : WIRE_OPENAI;

    limits->n_fields = 0;
    limits->used = 0;
    if ((axes->present >> TG_AXIS_RATE & 1) != 0)
        add_axis(limits, &axes->named[TG_AXIS_RATE].decision, &names[form][0], form, now, wall);
    if ((axes->present >> TG_AXIS_COST & 1) != 0)
        add_axis(limits, &axes->named[TG_AXIS_COST].decision, &names[form][1], form, now, wall);
}
