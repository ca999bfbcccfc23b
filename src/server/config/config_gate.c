/* config_gate.c - what several keys of the gate say together. */
#include "server/config/config_reader.h"

void config_finish_gate(struct reader *reader, const struct yaml_node *node, void *into)
{
    static const char *const belong[] = {"queue", "low_priority_shed_ratio"};
    const struct config_gate *gate = into;

    for (size_t i = 0; i < sizeof belong / sizeof belong[0]; i++) {
        const struct yaml_node *child = yaml_tree_get(node, belong[i]);
        if (child != NULL && !gate->concurrency.present)
            config_warning(reader, child->key,
                           "%s.%s has no effect without %s.concurrency; add concurrency: {}",
                           reader->path, belong[i], reader->path);
    }
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Defaults make room for what is given: `{law: fixed, initial: 4}` means what it says, although
 * the default of min is above it. What is given stands as it is, and is checked. */
static void fit_defaults(const struct yaml_node *node, struct tg_law_config *law)
{
    bool initial = yaml_tree_get(node, "initial") != NULL;
    bool min = yaml_tree_get(node, "min") != NULL;
    bool max = yaml_tree_get(node, "max") != NULL;

    if (!min && initial)
        law->min = smaller(law->min, law->initial);
    if (!min && max)
        law->min = smaller(law->min, law->max);
    if (!max && initial)
        law->max = larger(law->max, law->initial);
    if (!max && min)
        law->max = larger(law->max, law->min);
    if (!initial && law->min <= law->max)
        law->initial = larger(law->min, smaller(law->initial, law->max));
}

void config_finish_concurrency(struct reader *reader, const struct yaml_node *node, void *into)
{
    struct config_concurrency *concurrency = into;
    struct tg_problem problem;

    fit_defaults(node, &concurrency->law);
    if (tg_law_config_check(&concurrency->law, &problem) != TG_OK)
        config_error(reader, node, "%s: %s", reader->path, problem.text);
}

void config_finish_memory(struct reader *reader, const struct yaml_node *node, void *into)
{
    const struct config_memory *memory = into;

    if (memory->pressure > memory->critical || memory->critical > memory->limit)
        config_error(reader, node,
                     "%s: pressure is %g, critical %g and limit %g; each must be at least the one "
                     "before it",
                     reader->path, memory->pressure, memory->critical, memory->limit);
}
