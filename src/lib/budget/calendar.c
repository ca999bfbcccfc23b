/* calendar.c - where the window of a moment begins and ends.
 *
 * Windows follow from the clock at each look: there is no job that resets anything, so none can be
 * late, run twice or forget an account. The system's own calendar is not used: it reads files and
 * keeps the zone in a global variable.
 *
 * A zone is a row of spans with one offset each. The day D begins at the first moment at which the
 * clocks of the place show D, 00:00 or later:
 *
 *     begin(D) = min { t : t + offset(t) >= D }
 *
 * Where clocks skip midnight that is the moment of the change; where they show it twice, the first
 * time, and the day before is over even though clocks go back to it for a while; a day that is
 * skipped whole is empty. begin() never falls from one day to the next, so windows that begin and
 * end with a day tile time without gap or overlap (test_zone.c, with real zones).
 */
#include "lib/budget/calendar.h"

#include "lib/budget/civil.h"
#include "lib/core/num.h"

#define DAY_MS INT64_C(86400000)
#define OFFSET_MAX_MS (ZONE_OFFSET_MAX_S * INT64_C(1000))

static const char *const per_names[TG_PER_COUNT] = {"day", "week", "month", "total"};

const char *tg_per_name(enum tg_per per)
{
    return (unsigned)per < TG_PER_COUNT ? per_names[per] : NULL;
}

/* ---- zones ---- */

static bool offset_is_good(int32_t offset_s)
{
    return offset_s >= -ZONE_OFFSET_MAX_S && offset_s <= ZONE_OFFSET_MAX_S;
}

const char *zone_complaint(const struct tg_zone *zone)
{
    if (!zone)
        return NULL;
    if (zone->n > 0 && !zone->changes)
        return "has no changes where it says so";
    if (!offset_is_good(zone->base_s))
        return "has an offset of 26 hours or more";
    for (size_t i = 0; i < zone->n; i++) {
        if (!offset_is_good(zone->changes[i].offset_s))
            return "has an offset of 26 hours or more";
        if (!num_in_range(zone->changes[i].at))
            return "has a change at a time that is not within 0 to 2^53 - 1 ms";
        if (i > 0 && zone->changes[i].at <= zone->changes[i - 1].at)
            return "has changes that do not ascend";
    }
    return NULL;
}

/* Span 0 is the one before the first change. The number of changes up to `at`. */
static size_t span_at(const struct tg_zone *zone, tg_ms at)
{
    size_t low = 0, high = zone->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static tg_ms span_begin(const struct tg_zone *zone, size_t span)
{
    return span == 0 ? INT64_MIN : zone->changes[span - 1].at;
}

/* An offset that no place can have counts as the nearest that one could. */
static tg_ms span_offset(const struct tg_zone *zone, size_t span)
{
    int64_t offset_s = span == 0 ? zone->base_s : zone->changes[span - 1].offset_s;

    return num_min(num_max(offset_s * 1000, -OFFSET_MAX_MS), OFFSET_MAX_MS);
}

/* ---- days ---- */

static tg_ms day_begin(const struct tg_zone *zone, int64_t day)
{
    tg_ms midnight = day * DAY_MS;

    if (!zone)
        return midnight;
    /* No clock is so far ahead that it could show the day before that span. */
    for (size_t span = span_at(zone, midnight - OFFSET_MAX_MS);; span++) {
        tg_ms begin = num_max(span_begin(zone, span), midnight - span_offset(zone, span));
        if (span >= zone->n || begin < span_begin(zone, span + 1))
            return begin;
    }
}

static int64_t day_of(const struct tg_zone *zone, tg_ms at)
{
    if (!zone)
        return at / DAY_MS;
    /* Two days more and less, since a clock may be behind the epoch and division rounds to 0. */
    int64_t day = (at + span_offset(zone, span_at(zone, at)) + 2 * DAY_MS) / DAY_MS - 2;
    /* Clocks have gone back over a midnight: that day has begun. */
    while (day_begin(zone, day + 1) <= at)
        day++;
    return day;
}

/* 1970-01-01 was a Thursday. */
static int64_t monday_of(int64_t day)
{
    return day - (day + 7 + 3) % 7;
}

/* ---- windows ---- */

void tg_window_of(enum tg_per per, const struct tg_zone *zone, tg_ms at, tg_ms *begin, tg_ms *end)
{
    if (!begin || !end)
        return;
    at = num_min(num_max(at, 0), TG_NUMBER_MAX);
    *begin = 0;
    *end = TG_NUMBER_MAX;
    if ((unsigned)per >= TG_PER_TOTAL)
        return;

    int64_t first = day_of(zone, at), next = first + 1;
    if (per == TG_PER_WEEK) {
        first = monday_of(first);
        next = first + 7;
    } else if (per == TG_PER_MONTH) {
        struct civil date = civil_from_day(first);
        first = civil_to_day(date.year, date.month, 1);
        next = civil_to_day(date.year, date.month + 1, 1);
    }
    *begin = num_max(day_begin(zone, first), 0);
    *end = num_min(day_begin(zone, next), TG_NUMBER_MAX);
}
