/* envoy_rules.c - finds the rule of a descriptor. See envoy_rules.h.
 *
 * A lookup costs one or two hashes an entry, however many rules there are; only rules with a star
 * are tried one by one, in the order of the file. Keys and values are told apart: a key `a_b` is
 * not key `a` with value `b`, as it is where both are glued together before they are looked up.
 */
#include "server/config/envoy_rules.h"

#include <strings.h>

#include "server/config/config_index.h"

/* ---- units ---- */

enum { SECOND_MS = 1000, DAYS_OF_MONTH = 30, DAYS_OF_YEAR = 365 };
#define DAY_MS INT64_C(86400000)

static const struct {
    const char *name;
    int64_t ms;
} units[ENVOY_UNITS] = {
    [ENVOY_SECOND] = {"SECOND", SECOND_MS},
    [ENVOY_MINUTE] = {"MINUTE", INT64_C(60) * SECOND_MS},
    [ENVOY_HOUR] = {"HOUR", INT64_C(3600) * SECOND_MS},
    [ENVOY_DAY] = {"DAY", DAY_MS},
    [ENVOY_MONTH] = {"MONTH", DAYS_OF_MONTH *DAY_MS},
    [ENVOY_YEAR] = {"YEAR", DAYS_OF_YEAR *DAY_MS},
    [ENVOY_WEEK] = {"WEEK", 7 * DAY_MS},
};

int64_t envoy_unit_ms(uint32_t unit)
{
    return unit < ENVOY_UNITS ? units[unit].ms : 0;
}

const char *envoy_unit_name(uint32_t unit)
{
    return unit < ENVOY_UNITS ? units[unit].name : NULL;
}

enum envoy_unit envoy_unit_find(const char *name)
{
    for (unsigned i = ENVOY_SECOND; i < ENVOY_UNITS; i++)
        if (strcasecmp(units[i].name, name) == 0)
            return (enum envoy_unit)i;
    return ENVOY_UNIT_NONE;
}

/* ---- matching ---- */

const struct envoy_domain *envoy_rules_domain(const struct envoy_rules *rules, struct slice name)
{
    size_t number =
        rules != NULL ? config_index_get(rules->index, name.at, name.n) : CONFIG_INDEX_NONE;

    return number != CONFIG_INDEX_NONE ? &rules->domains[number] : NULL;
}

/* Whether a value begins with what stands before the star. */
static bool begins_with(struct slice value, const char *pattern)
{
    size_t stem = strlen(pattern) - 1;

    return value.n >= stem && (stem == 0 || memcmp(value.at, pattern, stem) == 0);
}

/* Those of its key, without patterns of keys; `exact`: it goes before these. */
static const struct envoy_rule *find_of_key(const struct envoy_key *key, struct slice value,
                                            bool *exact)
{
    size_t number = config_index_get(key->values, value.at, value.n);

    *exact = number != CONFIG_INDEX_NONE;
    if (*exact)
        return key->list[number];
    for (size_t i = 0; i < key->n_stems; i++)
        if (begins_with(value, key->stems[i]->value))
            return key->stems[i];
    return key->any;
}

static const struct envoy_rule *envoy_rules_find(const struct envoy_level *level,
                                                 const struct envoy_rls_entry *entry)
{
    size_t number = config_index_get(level->keys, entry->key.at, entry->key.n);
    const struct envoy_rule *found = NULL;
    bool exact = false;

    if (number != CONFIG_INDEX_NONE)
        found = find_of_key(&level->list[number], entry->value, &exact);
    if (exact)
        return found;
    for (size_t i = 0; i < level->n_stems; i++)
        if (begins_with(entry->key, level->stems[i]->key)) {
            const struct envoy_rule *stem = level->stems[i];
            bool later = found != NULL && found->value != NULL && found->order < stem->order;
            return later ? found : stem;
        }
    return found;
}

const struct envoy_rule *envoy_rules_match(const struct envoy_domain *domain,
                                           const struct envoy_rls_entry *entries, size_t n)
{
    const struct envoy_level *level = &domain->top;
    const struct envoy_rule *rule = NULL;

    for (size_t i = 0; i < n; i++) {
        rule = envoy_rules_find(level, &entries[i]);
        if (rule == NULL)
            return NULL;
        level = &rule->below;
    }
    return rule;
}
