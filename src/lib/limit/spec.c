/* spec.c - a limiter in one line: "gcra:limit=10,period=1000,burst=5".
 *
 * The names are those of the strategies' own tables, so that a spec, a configuration file and a
 * message speak of the same settings by the same words. Numbers are read strictly: a
 * whole number where units or ms are wanted, and nothing after it.
 */
#include "lib/core/problem.h"
#include "lib/limit/limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece of the spec. Printed with %.*s, cut so that a message stays readable. */
struct piece {
    const char *text;
    size_t length;
};

static int spec_shown(struct piece piece)
{
    return piece.length < 40 ? (int)piece.length : 40;
}

static bool piece_is(struct piece piece, const char *word)
{
    return strlen(word) == piece.length && memcmp(word, piece.text, piece.length) == 0;
}

/* Cuts the text up to `stop` off the front of `rest`, and the stop with it. */
static struct piece cut(struct piece *rest, char stop)
{
    const char *end = memchr(rest->text, stop, rest->length);
    struct piece front = {rest->text, end ? (size_t)(end - rest->text) : rest->length};
    size_t used = end ? front.length + 1 : front.length;

    rest->text += used;
    rest->length -= used;
    return front;
}

static enum tg_err unknown_strategy(struct piece name, struct tg_problem *problem)
{
    char known[160] = "";

    for (int i = 0; i < TG_STRATEGY_COUNT; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 tg_strategy_name((enum tg_strategy)i));
    }
    return problem_say(problem, TG_ERR_UNKNOWN, "unknown limiter \"%.*s\"; known are %s",
                       spec_shown(name), name.text, known);
}

static enum tg_err unknown_field(const struct limit_strategy *strategy, struct piece name,
                                 struct tg_problem *problem)
{
    char known[100] = "";

    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                 strategy->fields[i].name);
    }
    return problem_say(problem, TG_ERR_UNKNOWN, "%s has no setting \"%.*s\"; it takes %s",
                       strategy->ops.name, spec_shown(name), name.text, known);
}

static const struct limit_field *spec_find_field(const struct limit_strategy *strategy,
                                                 struct piece name)
{
    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name; i++)
        if (piece_is(name, strategy->fields[i].name))
            return &strategy->fields[i];
    return NULL;
}

enum { NUMBER_LENGTH_MAX = 63, EXPONENT_MAX = 9999 };

/* Digits, with an optional sign; for doubles, a decimal fraction and an exponent. strtod alone
 * would also take spaces, hexadecimal, "inf" and "nan". */
static bool is_number(struct piece piece, bool fraction)
{
    const char *allowed = fraction ? "0123456789+-.eE" : "0123456789-";

    if (piece.length == 0 || piece.length > NUMBER_LENGTH_MAX)
        return false;
    for (size_t i = 0; i < piece.length; i++)
        if (piece.text[i] == '\0' || !strchr(allowed, piece.text[i]))
            return false;
    return true;
}

/* A decimal fraction by strtod(), whatever the locale's decimal point: 12.5e3 is read as 125e2. */
static double read_fraction(struct piece piece, bool *fine)
{
    char digits[NUMBER_LENGTH_MAX + 1] = "", text[NUMBER_LENGTH_MAX + 32], *end;
    size_t n = 0, i = 0;
    long exponent = 0;
    bool point = false;

    for (; i < piece.length && piece.text[i] != 'e' && piece.text[i] != 'E'; i++) {
        if (piece.text[i] != '.')
            digits[n++] = piece.text[i];
        exponent -= point && piece.text[i] != '.';
        *fine = *fine && !(point && strchr(".+-", piece.text[i]));
        point = point || piece.text[i] == '.';
    }
    if (i < piece.length) {
        snprintf(text, sizeof text, "%.*s", (int)(piece.length - i - 1), piece.text + i + 1);
        long given = strtol(text, &end, 10);
        *fine =
            *fine && end != text && *end == 0 && given >= -EXPONENT_MAX && given <= EXPONENT_MAX;
        exponent += *fine ? given : 0;
    }
    snprintf(text, sizeof text, "%se%ld", digits, exponent);
    errno = 0;
    double value = strtod(text, &end);
    *fine = *fine && n > 0 && end != text && *end == 0 && errno != ERANGE;
    return value;
}

static long long spec_read_whole(struct piece piece, bool *fine)
{
    char text[NUMBER_LENGTH_MAX + 1] = "", *end;

    memcpy(text, piece.text, piece.length);
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *fine = *fine && end != text && *end == 0 && errno != ERANGE;
    return value;
}

static enum tg_err spec_read_value(const struct limit_strategy *strategy,
                                   const struct limit_field *field, struct piece piece,
                                   struct tg_limiter_config *config, struct tg_problem *problem)
{
    bool fraction = field->unit == LIMIT_PER_SECOND;
    bool fine = is_number(piece, fraction);
    double real = fine && fraction ? read_fraction(piece, &fine) : 0;
    long long whole = fine && !fraction ? spec_read_whole(piece, &fine) : 0;

    if (!fine)
        return problem_say(
            problem, TG_ERR_INVALID, "%s: %s is \"%.*s\"; it must be a %s up to %lld",
            strategy->ops.name, field->name, spec_shown(piece), piece.text,
            fraction ? "number above 0," : "whole number from 1", (long long)field->max);

    /* 0 means "default" in the struct; whoever writes it in a spec means 0, which is refused. */
    if (fraction ? !(real > 0) : whole <= 0)
        return problem_say(problem, TG_ERR_INVALID,
                           "%s: %s is %.*s; it must be above 0, up to %lld", strategy->ops.name,
                           field->name, spec_shown(piece), piece.text, (long long)field->max);
    if (fraction)
        *limit_field_double(config, field) = real;
    else
        *limit_field_integer(config, field) = whole;
    return TG_OK;
}

static bool is_set(struct tg_limiter_config *config, const struct limit_field *field)
{
    if (field->unit == LIMIT_PER_SECOND)
        return *limit_field_double(config, field) > 0;
    return *limit_field_integer(config, field) != 0;
}

static enum tg_err spec_read_fields(const struct limit_strategy *strategy, struct piece rest,
                                    struct tg_limiter_config *config, struct tg_problem *problem)
{
    bool more = rest.length > 0;

    while (more) {
        more = memchr(rest.text, ',', rest.length) != NULL;
        struct piece value = cut(&rest, ',');
        struct piece name = cut(&value, '=');
        const struct limit_field *field = spec_find_field(strategy, name);

        if (!field)
            return unknown_field(strategy, name, problem);
        if (is_set(config, field))
            return problem_say(problem, TG_ERR_INVALID, "%s: %s is given twice", strategy->ops.name,
                               field->name);
        enum tg_err err = spec_read_value(strategy, field, value, config, problem);
        if (err)
            return err;
    }
    return TG_OK;
}

static enum tg_err check_missing(const struct limit_strategy *strategy,
                                 struct tg_limiter_config *config, struct tg_problem *problem)
{
    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name; i++)
        if (!strategy->fields[i].otherwise && !is_set(config, &strategy->fields[i]))
            return problem_say(problem, TG_ERR_INVALID, "%s: %s is missing", strategy->ops.name,
                               strategy->fields[i].name);
    return TG_OK;
}

enum tg_err tg_limiter_config_parse(struct tg_limiter_config *config, const char *spec,
                                    struct tg_problem *problem)
{
    if (!config || !spec)
        return problem_say(problem, TG_ERR_NULL, "spec: %s", tg_strerror(TG_ERR_NULL));
    struct piece rest = {spec, strlen(spec)};
    struct piece name = cut(&rest, ':');

    for (int i = 0; i < TG_STRATEGY_COUNT; i++) {
        const struct limit_strategy *strategy = limit_strategy_of((enum tg_strategy)i);
        struct tg_limiter_config read;

        if (!piece_is(name, strategy->ops.name))
            continue;
        tg_limiter_config_init(&read, (enum tg_strategy)i);
        enum tg_err err = spec_read_fields(strategy, rest, &read, problem);
        if (!err)
            err = check_missing(strategy, &read, problem);
        if (!err)
            *config = read;
        return err;
    }
    return unknown_strategy(name, problem);
}
