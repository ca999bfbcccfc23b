/* zone_rule.h - the rule at the end of a zone's file: when clocks change in years to come. */
#ifndef TG_POSIX_ZONE_RULE_H
#define TG_POSIX_ZONE_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* A day of a year, and the time of the change on it. */
struct zone_date {
    char
        form; /* 'J' day 1 to 365 without February 29; 'N' day 0 to 365; 'M' month, week, weekday */
    int day;  /* J and N: the day; M: the weekday, 0 for Sunday */
    int month, week; /* M: month and week; week 5 is the last */
    int32_t time_s;  /* after 00:00 of that day, by the clocks before the change */
};

/* Seconds east of UTC. */
struct zone_rule {
    int32_t standard_s;
    bool has_summer;
    int32_t summer_s;
    struct zone_date to_summer, to_standard;
};

/* Reads a text such as "CET-1CEST,M3.5.0,M10.5.0/3". False: it is none. */
bool zone_rule_parse(struct zone_rule *rule, const char *text);

/* The moments of a year's two changes, in seconds of the epoch. */
int64_t zone_rule_to_summer(const struct zone_rule *rule, int year);
int64_t zone_rule_to_standard(const struct zone_rule *rule, int year);

#endif
