/* config_limiter.c - a limiter in a configuration: a strategy, and the keys that strategy has.
 *
 * Names, ranges and defaults of the settings come from the strategies' own tables, so that a file
 * and a --limiter spec speak of the same things by the same words; only times are written as
 * durations here.
 */
#include "lib/limit/limit.h"
#include "server/config/config_reader.h"

#include <stdio.h>
#include <string.h>

static const struct limit_field *find_limit_field(const struct limit_strategy *strategy,
                                                  const char *name)
{
    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name != NULL; i++)
        if (strcmp(strategy->fields[i].name, name) == 0)
            return &strategy->fields[i];
    return NULL;
}

static void list_fields(const struct limit_strategy *strategy, enum tg_axis axis, char *text,
                        size_t bytes)
{
    snprintf(text, bytes, "strategy");
    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name != NULL; i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, ", %s", strategy->fields[i].name);
    }
    size_t used = strlen(text);
    snprintf(text + used, bytes - used, axis == TG_AXIS_COST ? ", overdraft, mode" : ", mode");
}

/* The setting of a strategy as a row of the schema. */
static struct schema_key key_of(const struct limit_field *field)
{
    static const enum schema_kind kinds[] = {
        [LIMIT_UNITS] = SCHEMA_COUNT,
        [LIMIT_TIME] = SCHEMA_DURATION,
        [LIMIT_PER_SECOND] = SCHEMA_NUMBER,
    };
    bool fraction = field->unit == LIMIT_PER_SECOND;

    return (struct schema_key){.name = field->name,
                               .kind = kinds[field->unit],
                               .above = fraction,
                               .min = fraction ? 0 : 1,
                               .max = (double)field->max};
}

static bool read_word(struct reader *reader, const struct yaml_node *node, const char *name,
                      const char *words, int *word)
{
    const struct schema_key key = {.name = name, .kind = SCHEMA_WORD, .words = words};
    size_t path = config_path_push(reader, name);
    bool good = config_read_value(reader, &key, node, word);

    config_path_pop(reader, path);
    return good;
}

/* Nothing is written as 0, which is kept for what is not written. */
int64_t config_read_overdraft(int64_t units, const struct yaml_node *node)
{
    return units == 0 && yaml_tree_get(node, "overdraft") != NULL ? -1 : units;
}

static bool read_overdraft(struct reader *reader, const struct yaml_node *node,
                           struct config_limiter *limiter)
{
    const struct schema_key key = {.name = "overdraft", .kind = SCHEMA_COUNT, .max = TG_NUMBER_MAX};
    size_t path = config_path_push(reader, key.name);
    bool good = limiter->axis == TG_AXIS_COST;

    if (good)
        good = config_read_value(reader, &key, node, &limiter->overdraft);
    else
        config_error(reader, node, "%s is for limits of tokens; a call is always one call",
                     reader->path);
    config_path_pop(reader, path);
    return good;
}

static bool read_limit_fields(struct reader *reader, const struct limit_strategy *strategy,
                              const struct yaml_node *node, struct config_limiter *limiter)
{
    bool good = true;
    int mode = CONFIG_ENFORCE;

    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const char *name = child->key->text;
        const struct limit_field *field = find_limit_field(strategy, name);
        if (field != NULL) {
            struct schema_key key = key_of(field);
            size_t path = config_path_push(reader, field->name);
            good =
                config_read_value(reader, &key, child, (char *)&limiter->limiter + field->offset) &&
                good;
            config_path_pop(reader, path);
        } else if (strcmp(name, "overdraft") == 0) {
            good = read_overdraft(reader, child, limiter) && good;
        } else if (strcmp(name, "mode") == 0) {
            good = read_word(reader, child, "mode", "enforce|shadow", &mode) && good;
        } else if (strcmp(name, "strategy") != 0) {
            char known[160];
            list_fields(strategy, limiter->axis, known, sizeof known);
            config_error(reader, child->key,
                         "%s has no key \"%.40s\" with the strategy %s; it takes %s", reader->path,
                         name, strategy->ops.name, known);
            good = false;
        }
    }
    limiter->mode = (enum config_mode)mode;
    limiter->overdraft = config_read_overdraft(limiter->overdraft, node);
    return good;
}

static bool check_missing(struct reader *reader, const struct limit_strategy *strategy,
                          const struct yaml_node *node)
{
    bool good = true;

    for (size_t i = 0; i < LIMIT_FIELDS_MAX && strategy->fields[i].name != NULL; i++) {
        const struct limit_field *field = &strategy->fields[i];
        if (field->otherwise == 0 && yaml_tree_get(node, field->name) == NULL) {
            config_error(reader, node, "%s: %s is missing; %s needs it", reader->path, field->name,
                         strategy->ops.name);
            good = false;
        }
    }
    return good;
}

static const struct yaml_node *read_strategy(struct reader *reader, const struct yaml_node *node,
                                             enum tg_strategy *strategy)
{
#define STRATEGY_WORD(upper, lower) #lower "|"
    const struct yaml_node *named = yaml_tree_get(node, "strategy");
    int word;

    if (named == NULL) {
        config_error(reader, node, "%s: strategy is missing; it must be one of %s", reader->path,
                     "gcra | token_bucket | fixed_window | sliding_window | sliding_log | "
                     "token_budget");
        return NULL;
    }
    if (!read_word(reader, named, "strategy", TG_STRATEGIES(STRATEGY_WORD), &word))
        return NULL;
    *strategy = (enum tg_strategy)word;
    return named;
#undef STRATEGY_WORD
}

void config_read_limiter(struct reader *reader, const struct schema_key *key,
                         const struct yaml_node *node, struct config_limiter *into)
{
    struct config_limiter read = {.present = true};
    struct tg_limiter limiter;
    struct tg_problem problem;
    enum tg_strategy strategy;

    if (node->kind != YAML_MAP) {
        config_error(reader, node,
                     "%s is not a limiter; it must be a section with a strategy and its settings",
                     reader->path);
        return;
    }
    const struct yaml_node *named = read_strategy(reader, node, &strategy);
    if (named == NULL)
        return;
    read.axis = strcmp(key->name, "rate") == 0 ? TG_AXIS_RATE : TG_AXIS_COST;
    if (read.axis == TG_AXIS_RATE && strategy == TG_TOKEN_BUDGET)
        config_error(
            reader, named,
            "%s.strategy is \"token_budget\", a meter of cost; on the rate axis it must be "
            "another one",
            reader->path);
    tg_limiter_config_init(&read.limiter, strategy);
    bool good = read_limit_fields(reader, limit_strategy_of(strategy), node, &read);
    good = check_missing(reader, limit_strategy_of(strategy), node) && good;
    if (good && tg_limiter_init(&limiter, &read.limiter, &problem) != TG_OK)
        config_error(reader, node, "%s: %s", reader->path, problem.text);
    if (into != NULL)
        *into = read;
}
