/* zone_rule.c - the rule at the end of a zone's file: when clocks change in years to come.
 *
 * The text is that of POSIX's TZ variable, with what RFC 8536 adds: names in angle brackets, and
 * times of the day from -167 to 167 hours. West of Greenwich is positive there; here it is
 * negative, as everywhere else.
 */
#include "io/posix/zone_rule.h"

#include <stddef.h>
#include <string.h>

#include "lib/budget/civil.h"

/* ---- reading ---- */

/* Each of these moves the text on behind what it has read; false: that was not there. */

static bool zone_rule_read_number(const char **text, int low, int high, int *number)
{
    int read = 0;
    const char *at = *text;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (read > 9999)
            return false;
        read = read * 10 + (*at - '0');
    }
    if (at == *text || read < low || read > high)
        return false;
    *text = at;
    *number = read;
    return true;
}

static bool read_char(const char **text, char wanted)
{
    if (**text != wanted)
        return false;
    (*text)++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "CET", or "<+0330>". What it says does not matter. */
static bool skip_name(const char **text)
{
    const char *begin = *text;

    if (*begin == '<') {
        const char *end = strchr(begin, '>');
        *text = end ? end + 1 : begin;
        return end != NULL;
    }
    while (is_letter(**text))
        (*text)++;
    return *text - begin >= 3;
}

/* "1", "-5:45", "167:59:59". */
static bool read_time(const char **text, int hours_max, int32_t *seconds)
{
    int hours, minutes = 0, rest = 0;
    int sign = 1;

    if (read_char(text, '-'))
        sign = -1;
    else
        (void)read_char(text, '+');
    if (!zone_rule_read_number(text, 0, hours_max, &hours))
        return false;
    if (read_char(text, ':')) {
        if (!zone_rule_read_number(text, 0, 59, &minutes))
            return false;
        if (read_char(text, ':') && !zone_rule_read_number(text, 0, 59, &rest))
            return false;
    }
    *seconds = sign * (hours * 3600 + minutes * 60 + rest);
    return true;
}

static bool read_month_form(const char **text, struct zone_date *date)
{
    date->form = 'M';
    return zone_rule_read_number(text, 1, 12, &date->month) && read_char(text, '.') &&
           zone_rule_read_number(text, 1, 5, &date->week) && read_char(text, '.') &&
           zone_rule_read_number(text, 0, 6, &date->day);
}

static bool read_date(const char **text, struct zone_date *date)
{
    bool good;

    if (read_char(text, 'M')) {
        good = read_month_form(text, date);
    } else if (read_char(text, 'J')) {
        date->form = 'J';
        good = zone_rule_read_number(text, 1, 365, &date->day);
    } else {
        date->form = 'N';
        good = zone_rule_read_number(text, 0, 365, &date->day);
    }
    date->time_s = 2 * 3600;
    return good && (!read_char(text, '/') || read_time(text, 167, &date->time_s));
}

static bool read_offset(const char **text, int32_t *east_s)
{
    int32_t west_s;

    if (!read_time(text, 24, &west_s))
        return false;
    *east_s = -west_s;
    return true;
}

bool zone_rule_parse(struct zone_rule *rule, const char *text)
{
    *rule = (struct zone_rule){0};
    if (!skip_name(&text) || !read_offset(&text, &rule->standard_s))
        return false;
    if (*text == '\0')
        return true;
    rule->has_summer = true;
    rule->summer_s = rule->standard_s + 3600;
    if (!skip_name(&text))
        return false;
    if (*text != ',' && !read_offset(&text, &rule->summer_s))
        return false;
    return read_char(&text, ',') && read_date(&text, &rule->to_summer) && read_char(&text, ',') &&
           read_date(&text, &rule->to_standard) && *text == '\0';
}

/* ---- reckoning ---- */

/* 1970-01-01 was a Thursday. */
static int weekday_of(int64_t day)
{
    return (int)((day + 7 * 1000000 + 4) % 7);
}

static int64_t day_of_month_form(const struct zone_date *date, int year)
{
    int64_t first = civil_to_day(year, date->month, 1);
    int64_t next_month = civil_to_day(year, date->month + 1, 1);
    int64_t day = first + (date->day - weekday_of(first) + 7) % 7 + 7 * (date->week - 1);

    return day < next_month ? day : day - 7;
}

static int64_t day_of(const struct zone_date *date, int year)
{
    int64_t january = civil_to_day(year, 1, 1);

    if (date->form == 'M')
        return day_of_month_form(date, year);
    if (date->form == 'N')
        return january + date->day;
    bool leap = civil_to_day(year, 3, 1) - january == 60;
    return january + date->day - 1 + (leap && date->day >= 60);
}

int64_t zone_rule_to_summer(const struct zone_rule *rule, int year)
{
    const struct zone_date *date = &rule->to_summer;

    return day_of(date, year) * 86400 + date->time_s - rule->standard_s;
}

int64_t zone_rule_to_standard(const struct zone_rule *rule, int year)
{
    const struct zone_date *date = &rule->to_standard;

    return day_of(date, year) * 86400 + date->time_s - rule->summer_s;
}
