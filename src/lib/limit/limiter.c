/* limiter.c - the registry of strategies, and what makes a configuration a limiter.
 *
 * Every check of a setting's range is here and works from the tables of the strategies; what
 * depends on several settings together is checked by the strategy itself.
 */
#include "lib/core/problem.h"
#include "lib/limit/limit.h"

#include <math.h>
#include <string.h>

static const struct limit_strategy *const strategies[TG_STRATEGY_COUNT] = {
#define STRATEGY_ROW(upper, lower) [TG_##upper] = &limit_##lower,
    TG_STRATEGIES(STRATEGY_ROW)
#undef STRATEGY_ROW
};

const struct limit_strategy *limit_strategy_of(enum tg_strategy strategy)
{
    return (unsigned)strategy < TG_STRATEGY_COUNT ? strategies[strategy] : NULL;
}

const char *tg_strategy_name(enum tg_strategy strategy)
{
    const struct limit_strategy *found = limit_strategy_of(strategy);

    return found ? found->ops.name : NULL;
}

void tg_limiter_config_init(struct tg_limiter_config *config, enum tg_strategy strategy)
{
    if (!config)
        return;
    memset(config, 0, sizeof *config);
    config->strategy = strategy;
}

int64_t *limit_field_integer(struct tg_limiter_config *config, const struct limit_field *field)
{
    return (int64_t *)(void *)((char *)config + field->offset);
}

double *limit_field_double(struct tg_limiter_config *config, const struct limit_field *field)
{
    return (double *)(void *)((char *)config + field->offset);
}

static enum tg_err check_double(const struct limit_strategy *strategy,
                                const struct limit_field *field, double value,
                                struct tg_problem *problem)
{
    if (isfinite(value) && value > 0 && value <= (double)field->max)
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "%s: %s is %g; it must be above 0 and at most %lld",
                       strategy->ops.name, field->name, value, (long long)field->max);
}

static enum tg_err check_integer(const struct limit_strategy *strategy,
                                 const struct limit_field *field, int64_t value,
                                 struct tg_problem *problem)
{
    if (value >= 1 && value <= field->max)
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID,
                       "%s: %s is %lld; it must be a whole number from 1 to %lld",
                       strategy->ops.name, field->name, (long long)value, (long long)field->max);
}

/* Checks the fields the strategy has and moves them into `clean`, defaults filled in. */
static enum tg_err take_fields(const struct limit_strategy *strategy,
                               struct tg_limiter_config *given, struct tg_limiter_config *clean,
                               struct tg_problem *problem)
{
    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name; i++) {
        const struct limit_field *field = &strategy->fields[i];
        enum tg_err err;

        if (field->unit == LIMIT_PER_SECOND) {
            double *value = limit_field_double(given, field);
            err = check_double(strategy, field, *value, problem);
            *limit_field_double(clean, field) = *value;
            *value = 0;
        } else {
            int64_t *value = limit_field_integer(given, field);
            if (*value == 0 && field->otherwise)
                *value = field->otherwise > 0 ? field->otherwise : clean->limit;
            err = check_integer(strategy, field, *value, problem);
            *limit_field_integer(clean, field) = *value;
            *value = 0;
        }
        if (err)
            return err;
    }
    return TG_OK;
}

/* After take_fields() only fields of other strategies can be left. Null if none is. */
static const char *left_over(const struct tg_limiter_config *given)
{
    if (given->limit)
        return "limit";
    if (given->period)
        return "period";
    if (given->burst)
        return "burst";
    if (given->buckets)
        return "buckets";
    return given->refill >= 0 && given->refill <= 0 ? NULL : "refill";
}

enum tg_err tg_limiter_init(struct tg_limiter *limiter, const struct tg_limiter_config *config,
                            struct tg_problem *problem)
{
    struct tg_limiter made;
    enum tg_err err;

    if (!limiter || !config)
        return problem_say(problem, TG_ERR_NULL, "limiter: %s", tg_strerror(TG_ERR_NULL));
    const struct limit_strategy *strategy = limit_strategy_of(config->strategy);
    struct tg_limiter_config given = *config;
    if (!strategy)
        return problem_say(problem, TG_ERR_UNKNOWN, "%d is not the number of a strategy",
                           (int)config->strategy);
    memset(&made, 0, sizeof made);
    made.ops = &strategy->ops;
    made.config.strategy = config->strategy;
    err = take_fields(strategy, &given, &made.config, problem);
    if (!err && left_over(&given))
        err = problem_say(problem, TG_ERR_INVALID,
                          "%s: %s is given, a setting of other strategies; it must be 0",
                          strategy->ops.name, left_over(&given));
    if (!err)
        err = strategy->prepare(&made, problem);
    if (!err)
        *limiter = made;
    return err;
}

void tg_limiter_make_settled(struct tg_limiter *limiter)
{
    const struct limit_strategy *strategy =
        limiter ? limit_strategy_of(limiter->config.strategy) : NULL;

    if (!strategy || limiter->ops != &strategy->ops || limiter->settled)
        return;
    limiter->settled = true;
    limiter->state_bytes += strategy->settled_bytes;
    if (strategy->settled_ops)
        limiter->ops = strategy->settled_ops;
}
