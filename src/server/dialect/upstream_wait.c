/* upstream_wait.c - how long a provider wants us to wait, in all the ways they say it.
 *
 * Providers differ, and what they send is not to be trusted with a key: a wait of a year would
 * retire it, one of 0 would hammer them. So every answer is within UPSTREAM_WAIT_MIN and _MAX, and
 * what is no wait at all (negative, not a number, a date that is none) is passed over for the next
 * form.
 *
 * Headers that say when a quota is full again are the last resort. Of requests it counts only when
 * none remain, because one call needs one; of tokens always, because we do not know how many were
 * missing.
 */
#include "server/dialect/upstream_wait.h"

#include <assert.h>
#include <string.h>

#include "lib/budget/civil.h"
#include "lib/core/num.h"

#define SECOND INT64_C(1000)
#define DAY_S INT64_C(86400)

/* ---- Reading pieces of text ------------------------------------------------------------------ */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct slice find_header(const struct http_field *fields, size_t n, const char *name)
{
    struct slice wanted = slice_of(name);

    for (size_t i = 0; i < n; i++)
        if (slice_equal_nocase(fields[i].name, wanted))
            return fields[i].value;
    return (struct slice){NULL, 0};
}

/* Takes digits, perhaps with a point and more of them, off the front: their value in thousandths,
 * rounded up; -1 if there is none. Large values stay at TG_NUMBER_MAX. */
static int64_t take_decimal(struct slice *text)
{
    int64_t value = 0;
    int64_t unit = 100;
    bool rest = false;
    size_t i = 0;

    for (; i < text->n && is_digit(text->at[i]); i++)
        value = num_min(value * 10 + (text->at[i] - '0') * SECOND, TG_NUMBER_MAX / 16);
    if (i == 0)
        return -1;
    if (i + 1 < text->n && text->at[i] == '.' && is_digit(text->at[i + 1]))
        for (i++; i < text->n && is_digit(text->at[i]); i++, unit /= 10) {
            value += unit * (text->at[i] - '0');
            rest |= unit == 0 && text->at[i] != '0';
        }
    text->at += i;
    text->n -= i;
    return value + rest;
}

/* Exactly so many digits, or -1. */
static int take_digits(struct slice *text, size_t n)
{
    int value = 0;

    if (text->n < n)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(text->at[i]))
            return -1;
        value = value * 10 + (text->at[i] - '0');
    }
    text->at += n;
    text->n -= n;
    return value;
}

static bool take_word(struct slice *text, const char *word)
{
    size_t n = strlen(word);

    if (!slice_begins_nocase(*text, slice_of(word)))
        return false;
    text->at += n;
    text->n -= n;
    return true;
}

/* ---- Dates ----------------------------------------------------------------------------------- */

struct moment {
    int year, month, day, hour, minute, second;
};

static tg_ms moment_ms(const struct moment *at)
{
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool date = at->year >= 1970 && at->month >= 1 && at->month <= 12 && at->day >= 1 &&
                at->day <= days[at->month - 1];
    bool time = at->hour >= 0 && at->hour <= 23 && at->minute >= 0 && at->minute <= 59 &&
                at->second >= 0 && at->second <= 60; /* 60: a leap second */

    if (!date || !time)
        return -1;
    int64_t s = civil_to_day(at->year, at->month, at->day) * DAY_S + at->hour * 3600 +
                at->minute * 60 + at->second;
    return s * SECOND;
}

static int take_month(struct slice *text)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

    for (int i = 0; i < 12; i++)
        if (take_word(text, months[i]))
            return i + 1;
    return -1;
}

static bool take_clock(struct slice *text, struct moment *at)
{
    at->hour = take_digits(text, 2);
    if (!take_word(text, ":"))
        return false;
    at->minute = take_digits(text, 2);
    if (!take_word(text, ":"))
        return false;
    at->second = take_digits(text, 2);
    return true;
}

/* "06 Nov 1994 08:49:37 GMT" and, with dashes, "06-Nov-94 08:49:37 GMT". A year of two digits that
 * lies more than 50 years ahead is one of the past (RFC 9110). */
static bool take_day_first(struct slice *text, tg_ms now, struct moment *at)
{
    at->day = take_digits(text, 2);
    bool dashes = take_word(text, "-");
    if (!dashes && !take_word(text, " "))
        return false;
    at->month = take_month(text);
    if (!take_word(text, dashes ? "-" : " "))
        return false;
    at->year = take_digits(text, dashes ? 2 : 4);
    if (dashes && at->year >= 0) {
        int this_year = (int)civil_from_day(now / (DAY_S * SECOND)).year;
        at->year += this_year - this_year % 100;
        if (at->year > this_year + 50)
            at->year -= 100;
    }
    return take_word(text, " ") && take_clock(text, at) && take_word(text, " GMT");
}

/* "Nov  6 08:49:37 1994" */
static bool take_month_first(struct slice *text, struct moment *at)
{
    at->month = take_month(text);
    if (!take_word(text, " "))
        return false;
    at->day = take_word(text, " ") ? take_digits(text, 1) : take_digits(text, 2);
    if (!take_word(text, " ") || !take_clock(text, at) || !take_word(text, " "))
        return false;
    at->year = take_digits(text, 4);
    return true;
}

tg_ms upstream_date(struct slice text, tg_ms now)
{
    struct moment at = {0, 0, 0, 0, 0, 0};
    size_t letters = 0;

    while (letters < text.n && is_letter(text.at[letters]))
        letters++;
    if (letters < 3 || now < 0 || now > TG_NUMBER_MAX)
        return -1;
    text.at += letters;
    text.n -= letters;
    bool good = take_word(&text, ", ") ? take_day_first(&text, now, &at)
                                       : take_word(&text, " ") && take_month_first(&text, &at);
    return good && text.n == 0 ? moment_ms(&at) : -1;
}

/* "2027-12-31T00:00:00Z", perhaps with a fraction; -1 for any other. */
static tg_ms rfc3339(struct slice text)
{
    struct moment at = {0, 0, 0, 0, 0, 0};

    at.year = take_digits(&text, 4);
    if (!take_word(&text, "-"))
        return -1;
    at.month = take_digits(&text, 2);
    if (!take_word(&text, "-"))
        return -1;
    at.day = take_digits(&text, 2);
    if (!take_word(&text, "T") || !take_clock(&text, &at))
        return -1;
    if (take_word(&text, ".")) /* to the next second: never too short */
        for (at.second++; text.n > 0 && is_digit(text.at[0]); text.at++, text.n--)
            ;
    at.second = at.second > 60 ? 60 : at.second;
    return take_word(&text, "Z") && text.n == 0 ? moment_ms(&at) : -1;
}

/* ---- Forms of a wait: ms, or -1 -------------------------------------------------------------- */

static tg_ms wait_number(struct slice text, tg_ms unit_ms)
{
    int64_t thousandths = text.n > 0 ? take_decimal(&text) : -1;

    if (thousandths < 0 || text.n > 0)
        return -1;
    return unit_ms == SECOND ? thousandths : (thousandths + SECOND - 1) / SECOND;
}

static tg_ms wait_after(struct slice text, tg_ms now)
{
    tg_ms wait = wait_number(text, SECOND);
    tg_ms at = wait < 0 && text.n > 0 ? upstream_date(text, now) : -1;

    return at >= 0 ? num_less(at, now) : wait;
}

/* "6m0s", "1h2m3.5s", "120ms", "1d"; a number without a unit is seconds. */
static tg_ms wait_duration(struct slice text)
{
    tg_ms sum = wait_number(text, SECOND);

    if (sum >= 0 || text.n == 0)
        return sum;
    for (sum = 0; text.n > 0;) {
        int64_t thousandths = take_decimal(&text);
        if (thousandths < 0)
            return -1;
        tg_ms part;
        if (take_word(&text, "ms"))
            part = (thousandths + SECOND - 1) / SECOND;
        else if (take_word(&text, "s"))
            part = thousandths;
        else if (take_word(&text, "m"))
            part = num_min(thousandths, TG_NUMBER_MAX / 60) * 60;
        else if (take_word(&text, "h"))
            part = num_min(thousandths, TG_NUMBER_MAX / 3600) * 3600;
        else if (take_word(&text, "d"))
            part = num_min(thousandths, TG_NUMBER_MAX / DAY_S) * DAY_S;
        else
            return -1;
        sum = num_add(sum, num_min(part, TG_NUMBER_MAX));
    }
    return sum;
}

/* ---- Quotas ---------------------------------------------------------------------------------- */

static bool some_left(struct slice text)
{
    return text.n > 0 && take_decimal(&text) > 0;
}

static tg_ms wait_for_quotas(const struct http_field *fields, size_t n, tg_ms now)
{
    static const char *const anthropic[][2] = {
        {"anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"},
        {"anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"},
        {"anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"},
        {"anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"},
    };
    tg_ms wait = wait_duration(find_header(fields, n, "x-ratelimit-reset-tokens"));

    if (!some_left(find_header(fields, n, "x-ratelimit-remaining-requests")))
        wait = num_max(wait, wait_duration(find_header(fields, n, "x-ratelimit-reset-requests")));
    for (size_t i = 0; i < sizeof anthropic / sizeof anthropic[0]; i++)
        if (!some_left(find_header(fields, n, anthropic[i][0]))) {
            tg_ms at = rfc3339(find_header(fields, n, anthropic[i][1]));
            wait = num_max(wait, at >= 0 ? num_less(at, now) : -1);
        }
    return wait;
}

/* Whether any field can be one of those below: most replies have none, and are asked every time. */
static bool may_say(const struct http_field *fields, size_t n)
{
    static const struct slice begins[] = {
        {"retry-after", 11}, {"x-ms-retry-", 11}, {"x-ratelimit", 11}, {"anthropic-r", 11}};

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof begins / sizeof begins[0] && fields[i].name.n >= 11; k++)
            if (slice_equal_nocase((struct slice){fields[i].name.at, 11}, begins[k]))
                return true;
    return false;
}

tg_ms upstream_wait(const struct http_field *fields, size_t n, tg_ms now)
{
    if (!may_say(fields, n))
        return 0;
    tg_ms wait = wait_number(find_header(fields, n, "retry-after-ms"), 1);

    if (!num_in_range(now))
        return 0;
    if (wait < 0)
        wait = wait_number(find_header(fields, n, "x-ms-retry-after-ms"), 1);
    if (wait < 0)
        wait = wait_after(find_header(fields, n, "retry-after"), now);
    if (wait < 0)
        wait = wait_for_quotas(fields, n, now);
    if (wait < 0)
        return 0;
    assert(num_in_range(wait));
    return num_add(now, num_max(UPSTREAM_WAIT_MIN, num_min(wait, UPSTREAM_WAIT_MAX)));
}

/* ---- What no wait brings back ---------------------------------------------------------------- */

/* Whether a text member of an error says what is looked for. */
typedef bool error_says(struct json_text key, struct json_text text);

static bool is_exhausted_word(struct json_text word)
{
    static const char *const words[] = {
        "insufficient_quota",   "billing_hard_limit_reached", "billing_not_active",
        "billing_error",        "credit_balance_too_low",     "insufficient_credits",
        "insufficient_balance", "account_deactivated",        "exceeded_current_quota_error"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (json_text_is(word, words[i]))
            return true;
    return false;
}

/* Anthropic has no code for this. */
static bool says_exhausted(struct json_text key, struct json_text text)
{
    if (json_text_is(key, "code") || json_text_is(key, "type"))
        return is_exhausted_word(text);
    return json_text_is(key, "message") && json_text_begins(text, "Your credit balance is too low");
}

/* Nobody has a code for this: OpenAI's words, and Anthropic's. */
static bool says_too_large(struct json_text key, struct json_text text)
{
    return json_text_is(key, "message") &&
           (json_text_begins(text, "Request too large for ") ||
            json_text_begins(text, "Extra usage is required for long context requests"));
}

static bool read_error(struct json_reader *reader, error_says *says)
{
    struct json_text key;
    struct json_value value;
    bool said = false;

    if (!json_enter(reader))
        return false;
    while (json_next(reader, &key, &value))
        if (value.kind == JSON_STRING)
            said |= says(key, value.string);
    return said;
}

static bool body_says(struct json_reader *reader, const char *body, size_t n, size_t readable,
                      error_says *says)
{
    struct json_text key;
    struct json_value value;
    bool said = false;

    if (!json_begin(reader, body, n, readable, &value) || value.kind != JSON_OBJECT ||
        !json_enter(reader))
        return false;
    while (json_next(reader, &key, &value))
        if (json_text_is(key, "error") && value.kind == JSON_OBJECT)
            said |= read_error(reader, says);
    return json_end(reader) && said;
}

bool upstream_quota_exhausted(struct json_reader *reader, const char *body, size_t n,
                              size_t readable)
{
    return body_says(reader, body, n, readable, says_exhausted);
}

bool upstream_too_large(struct json_reader *reader, const char *body, size_t n, size_t readable)
{
    return body_says(reader, body, n, readable, says_too_large);
}

bool upstream_room(const struct http_field *fields, size_t n, tg_ms now, int64_t *room,
                   tg_ms *until)
{
    if (!num_in_range(now) || !may_say(fields, n))
        return false;
    struct slice left = find_header(fields, n, "x-ratelimit-remaining-requests");
    tg_ms wait = wait_duration(find_header(fields, n, "x-ratelimit-reset-requests"));

    if (left.n == 0) {
        tg_ms at = rfc3339(find_header(fields, n, "anthropic-ratelimit-requests-reset"));
        left = find_header(fields, n, "anthropic-ratelimit-requests-remaining");
        wait = at >= 0 ? num_less(at, now) : -1;
    }
    int64_t thousandths = left.n > 0 ? take_decimal(&left) : -1;
    if (thousandths < 0 || left.n > 0 || wait < 0)
        return false;
    *room = thousandths / 1000;
    *until = num_add(now, wait);
    return true;
}
