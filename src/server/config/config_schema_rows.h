/* config_schema_rows.h - short ways to write the rows of the schema. For the tables alone.
 *
 * Each names a kind; the dotted rest is in the order a reader wants it: key, range, default, place,
 * meaning. `AT(type, member)` is a place in a struct, NOWHERE none.
 */
#ifndef TG_CONFIG_CONFIG_SCHEMA_ROWS_H
#define TG_CONFIG_CONFIG_SCHEMA_ROWS_H

#include "server/config/config.h"
#include "server/config/config_schema.h"

#define AT(type, member) offsetof(struct type, member)
#define NOWHERE SCHEMA_NOWHERE
#define NUMBER_MAX ((double)TG_NUMBER_MAX)

#define COUNT(key, low, high, normally, place, text)                                               \
    {                                                                                              \
        .name = key, .kind = SCHEMA_COUNT, .min = low, .max = high, .otherwise = normally,         \
        .offset = place, .help = text                                                              \
    }
#define NUMBER(key, low, high, normally, place, text)                                              \
    {                                                                                              \
        .name = key, .kind = SCHEMA_NUMBER, .min = low, .max = high, .otherwise = normally,        \
        .offset = place, .help = text                                                              \
    }
/* Above `low`, not equal to it. */
#define POSITIVE(key, low, high, normally, place, text)                                            \
    {                                                                                              \
        .name = key, .kind = SCHEMA_NUMBER, .above = true, .min = low, .max = high,                \
        .otherwise = normally, .offset = place, .help = text                                       \
    }
#define DURATION(key, low, normally, place, text)                                                  \
    {                                                                                              \
        .name = key, .kind = SCHEMA_DURATION, .min = low, .max = NUMBER_MAX,                       \
        .otherwise = normally, .offset = place, .help = text                                       \
    }
#define SIZE(key, low, normally, place, text)                                                      \
    {                                                                                              \
        .name = key, .kind = SCHEMA_SIZE, .min = low, .max = NUMBER_MAX, .otherwise = normally,    \
        .offset = place, .help = text                                                              \
    }
#define USD(key, must, normally, place, text)                                                      \
    {                                                                                              \
        .name = key, .kind = SCHEMA_USD, .required = must, .min = 0, .max = NUMBER_MAX,            \
        .otherwise = normally, .offset = place, .help = text                                       \
    }
#define FACTOR(key, normally, place, text)                                                         \
    {                                                                                              \
        .name = key, .kind = SCHEMA_FACTOR, .min = 1, .max = (double)TG_FACTOR_MILLI_MAX,          \
        .otherwise = normally, .offset = place, .help = text                                       \
    }
#define FACTORS(key, place, text)                                                                  \
    {                                                                                              \
        .name = key, .kind = SCHEMA_FACTOR, .shape = SCHEMA_NAMED, .min = 1,                       \
        .max = (double)TG_FACTOR_MILLI_MAX, .offset = place, .help = text                          \
    }
#define WORD(key, list, normally, place, text)                                                     \
    {                                                                                              \
        .name = key, .kind = SCHEMA_WORD, .words = list, .otherwise = normally, .offset = place,   \
        .help = text                                                                               \
    }
#define SWITCH(key, list, normally, place, text)                                                   \
    {                                                                                              \
        .name = key, .kind = SCHEMA_SWITCH, .words = list, .otherwise = normally, .offset = place, \
        .help = text                                                                               \
    }
/* Any kind that needs no range; `list` is for the kinds that take words instead. */
#define VALUE(key, what, must, list, normally, place, text)                                        \
    {                                                                                              \
        .name = key, .kind = what, .required = must, .words = list, .otherwise = normally,         \
        .offset = place, .help = text                                                              \
    }
#define LIST_OF(key, what, list, place, text)                                                      \
    {                                                                                              \
        .name = key, .kind = what, .shape = SCHEMA_LIST, .words = list, .offset = place,           \
        .help = text                                                                               \
    }
#define NAMED(key, what, list, place, text)                                                        \
    {                                                                                              \
        .name = key, .kind = what, .shape = SCHEMA_NAMED, .words = list, .offset = place,          \
        .help = text                                                                               \
    }
#define SECTION(key, of, place, text)                                                              \
    {                                                                                              \
        .name = key, .kind = SCHEMA_SECTION, .section = of, .offset = place, .help = text          \
    }
#define SECTIONS(key, of, place, count, text)                                                      \
    {                                                                                              \
        .name = key, .kind = SCHEMA_SECTION, .shape = SCHEMA_LIST, .section = of, .offset = place, \
        .count_offset = count, .help = text                                                        \
    }
#define NAMED_SECTIONS(key, of, place, count, text)                                                \
    {                                                                                              \
        .name = key, .kind = SCHEMA_SECTION, .shape = SCHEMA_NAMED, .section = of,                 \
        .offset = place, .count_offset = count, .help = text                                       \
    }
#define LIMITER(key, place, text)                                                                  \
    {                                                                                              \
        .name = key, .kind = SCHEMA_LIMITER, .offset = place, .help = text                         \
    }
#define MODE(place)                                                                                \
    WORD("mode", "enforce|shadow", "enforce", place,                                               \
         "shadow: decides and counts, and refuses nothing")

#define END                                                                                        \
    {                                                                                              \
        .name = NULL                                                                               \
    }

#endif
