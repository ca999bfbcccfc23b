/* keyring_check.c - whether a spec makes a ring: every number in its range, every name given once,
 * every group there. The first thing that is wrong is named, with its place.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/core/allocator.h"
#include "lib/core/problem.h"
#include "lib/keypool/keyring.h"

enum { FAILURES_MAX = 1000, AFFINITY_MAX = 1 << 26 };

int pair_compare(const char *provider, const char *name, const struct pair *with)
{
    int order = strcmp(provider, with->provider);

    return order ? order : strcmp(name, with->name);
}

int pair_order(const void *a, const void *b)
{
    const struct pair *x = a;

    return pair_compare(x->provider, x->name, b);
}

struct pair *pairs_find(struct pair *const *list, size_t n, const char *provider, const char *name)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = pair_compare(provider, name, list[middle]);
        if (order == 0)
            return list[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool keyring_check_is_name(const char *text)
{
    return text && *text;
}

/* ---- numbers ---- */

static enum tg_err check_limits(const struct tg_key_limits *limits, const char *what,
                                const char *provider, const char *name, struct tg_problem *problem)
{
    const struct {
        const char *name;
        int64_t value;
    } fields[] = {{"rpm", limits->rpm}, {"tpm", limits->tpm}, {"concurrency", limits->concurrency}};

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (!num_in_range(fields[i].value))
            return problem_say(problem, TG_ERR_INVALID,
                               "%s %s of %s: %s is %lld; 0 (none) to %lld is allowed", what, name,
                               provider, fields[i].name, (long long)fields[i].value,
                               (long long)TG_NUMBER_MAX);
    return TG_OK;
}

static enum tg_err check_number(int64_t value, int64_t least, int64_t most, const char *field,
                                struct tg_problem *problem)
{
    if (value >= least && value <= most)
        return TG_OK;
    return problem_say(problem, TG_ERR_INVALID, "%s is %lld; %lld to %lld is allowed", field,
                       (long long)value, (long long)least, (long long)most);
}

static enum tg_err check_ring_numbers(const struct tg_keyring_spec *spec,
                                      struct tg_problem *problem)
{
    enum tg_err err = check_number(spec->cooldown, 1, TG_NUMBER_MAX, "cooldown", problem);

    if (!err)
        err = check_number(spec->cooldown_max, 1, TG_NUMBER_MAX, "cooldown_max", problem);
    if (!err)
        err = check_number(spec->probe_every, 1, TG_NUMBER_MAX, "probe_every", problem);
    if (!err && spec->max_affinity > AFFINITY_MAX)
        err = problem_say(problem, TG_ERR_INVALID, "max_affinity is %zu; 0 to %d is allowed",
                          spec->max_affinity, (int)AFFINITY_MAX);
    return err;
}

static enum tg_err check_pool_numbers(const struct tg_pool_spec *pool, struct tg_problem *problem)
{
    enum tg_err err =
        check_number(pool->breaker_failures, 1, FAILURES_MAX, "breaker_failures", problem);

    if (!err)
        err = check_number(pool->breaker_open, 1, TG_NUMBER_MAX, "breaker_open", problem);
    if (!err)
        err = check_number(pool->affinity_ttl, 0, TG_NUMBER_MAX, "affinity_ttl", problem);
    if (!err && pool->n_keys > KEYS_MAX)
        err = problem_say(problem, TG_ERR_INVALID, "pool %s of %s has %zu keys; %d are allowed",
                          pool->model, pool->provider, pool->n_keys, (int)KEYS_MAX);
    return err;
}

/* ---- names ---- */

/* Sorts, and finds two that are the same. */
static enum tg_err check_twice(struct pair *pairs, size_t n, const char *what,
                               struct tg_problem *problem)
{
    qsort(pairs, n, sizeof *pairs, pair_order);
    for (size_t i = 1; i < n; i++)
        if (pair_order(&pairs[i - 1], &pairs[i]) == 0)
            return problem_say(problem, TG_ERR_INVALID, "%s %s of %s is given twice", what,
                               pairs[i].name, pairs[i].provider);
    return TG_OK;
}

static enum tg_err check_groups(const struct tg_keyring_spec *spec, struct pair *pairs,
                                struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; !err && i < spec->n_groups; i++) {
        const struct tg_group_spec *group = &spec->groups[i];
        if (!keyring_check_is_name(group->provider) || !keyring_check_is_name(group->name))
            return problem_say(problem, TG_ERR_INVALID, "group %zu: it needs a provider and a name",
                               i + 1);
        err = check_limits(&group->limits, "group", group->provider, group->name, problem);
        pairs[i] = (struct pair){group->provider, group->name};
    }
    return err ? err : check_twice(pairs, spec->n_groups, "group", problem);
}

/* `groups` is sorted; `names` has room for the keys. */
static enum tg_err check_keys(const struct tg_pool_spec *pool, const struct pair *groups,
                              size_t n_groups, struct pair *names, struct tg_problem *problem)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; !err && i < pool->n_keys; i++) {
        const struct tg_key_spec *key = &pool->keys[i];
        if (!keyring_check_is_name(key->name))
            return problem_say(problem, TG_ERR_INVALID, "pool %s of %s: key %zu has no name",
                               pool->model, pool->provider, i + 1);
        struct pair group = {pool->provider, key->group};
        if (key->group &&
            (n_groups == 0 || !bsearch(&group, groups, n_groups, sizeof group, pair_order)))
            return problem_say(problem, TG_ERR_INVALID,
                               "key %s in pool %s of %s: there is no group %s", key->name,
                               pool->model, pool->provider, key->group);
        err = check_limits(&key->limits, "key", pool->provider, key->name, problem);
        names[i] = (struct pair){pool->model, key->name};
    }
    return err ? err : check_twice(names, pool->n_keys, "key", problem);
}

static enum tg_err check_pool(const struct tg_keyring_spec *spec, size_t i,
                              const struct pair *groups, struct pair *pool_id,
                              struct tg_problem *problem)
{
    const struct tg_pool_spec *pool = &spec->pools[i];

    if (!keyring_check_is_name(pool->provider) || !keyring_check_is_name(pool->model))
        return problem_say(problem, TG_ERR_INVALID, "pool %zu: it needs a provider and a model",
                           i + 1);
    if (pool->n_keys > 0 && !pool->keys)
        return problem_say(problem, TG_ERR_INVALID, "pool %s of %s: %zu keys, and keys is null",
                           pool->model, pool->provider, pool->n_keys);
    *pool_id = (struct pair){pool->provider, pool->model};
    enum tg_err err = check_pool_numbers(pool, problem);
    if (err)
        return err;
    struct pair *names = mem_calloc(pool->n_keys + 1, sizeof *names);
    if (!names)
        return problem_say(problem, TG_ERR_MEMORY, "no memory for the keys of pool %s of %s",
                           pool->model, pool->provider);
    err = check_keys(pool, groups, spec->n_groups, names, problem);
    mem_free(names);
    return err;
}

enum tg_err keyring_check(const struct tg_keyring_spec *spec, struct tg_problem *problem)
{
    if ((spec->n_groups > 0 && !spec->groups) || (spec->n_pools > 0 && !spec->pools))
        return problem_say(problem, TG_ERR_INVALID, "%zu groups and %zu pools, and null for them",
                           spec->n_groups, spec->n_pools);
    if (spec->n_groups > KEYS_MAX || spec->n_pools > KEYS_MAX)
        return problem_say(problem, TG_ERR_INVALID, "%zu groups and %zu pools; %d are allowed",
                           spec->n_groups, spec->n_pools, (int)KEYS_MAX);
    struct pair *groups = mem_calloc(spec->n_groups + 1, sizeof *groups);
    struct pair *pools = mem_calloc(spec->n_pools + 1, sizeof *pools);
    enum tg_err err = groups && pools
                          ? check_ring_numbers(spec, problem)
                          : problem_say(problem, TG_ERR_MEMORY,
                                        "no memory to check a ring of %zu pools", spec->n_pools);
    if (!err)
        err = check_groups(spec, groups, problem);
    for (size_t i = 0; !err && i < spec->n_pools; i++)
        err = check_pool(spec, i, groups, &pools[i], problem);
    if (!err)
        err = check_twice(pools, spec->n_pools, "pool", problem);
    mem_free(groups);
    mem_free(pools);
    return err;
}
