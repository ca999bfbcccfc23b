/* civil.h - days and dates: the Gregorian calendar, carried back before its beginning.
 *
 * A day is a number, 0 for 1970-01-01. Years are counted from March here, so that the day that is
 * sometimes missing is the last one of a year, and the lengths of the months before it follow one
 * line: (153 m + 2) / 5 days lie before month m of such a year.
 *
 * For years from 0 on; the library's time begins in 1970 and ends in 287396.
 */
#ifndef TG_BUDGET_CIVIL_H
#define TG_BUDGET_CIVIL_H

#include <stdint.h>

/* Days from the 1st of March of the year 0 to 1970-01-01. */
#define CIVIL_EPOCH INT64_C(719468)

struct civil {
    int64_t year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
};

/* Days before the 1st of March of a year, from that of the year 0. */
static inline int64_t civil_before(int64_t year)
{
    return 365 * year + year / 4 - year / 100 + year / 400;
}

/* The month may run on beyond 12: month 13 is January of the next year. */
static inline int64_t civil_to_day(int64_t year, int month, int day)
{
    int64_t months = year * 12 + month - 3; /* from that March on */

    return civil_before(months / 12) + (153 * (months % 12) + 2) / 5 + day - 1 - CIVIL_EPOCH;
}

static inline struct civil civil_from_day(int64_t day)
{
    int64_t n = day + CIVIL_EPOCH;
    int64_t year = n * 400 / 146097; /* 400 years have so many days: right, or one too few */

    if (civil_before(year + 1) <= n)
        year++;
    int64_t rest = n - civil_before(year);
    int month = (int)((5 * rest + 2) / 153);
    int first = (153 * month + 2) / 5;
    return (struct civil){month < 10 ? year : year + 1, month < 10 ? month + 3 : month - 9,
                          (int)rest - first + 1};
}

#endif
