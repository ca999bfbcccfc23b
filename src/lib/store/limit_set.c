/* limit_set.c - making and keeping sets of limits. See limit_set.h. */
#include "lib/store/limit_set.h"

#include "lib/core/allocator.h"
#include "lib/core/array.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

/* Far above the largest built-in state (a sliding_log of a million records), and small enough
 * that no sum of sizes can overflow. */
static const size_t STATE_BYTES_MAX = (size_t)1 << 30;

void limit_sets_init(struct limit_sets *sets)
{
    atomic_init(&sets->array, NULL);
    atomic_init(&sets->n, 0);
    sets->capacity = 0;
    sets->outgrown = NULL;
    sets->n_outgrown = sets->outgrown_capacity = 0;
    sets->replaced = NULL;
}

static void set_free(struct limit_set *set)
{
    if (set)
        mem_free(set->fresh);
    mem_free(set);
}

void limit_sets_fini(struct limit_sets *sets)
{
    struct limit_set *_Atomic *array = atomic_load_explicit(&sets->array, memory_order_relaxed);
    uint32_t n = atomic_load_explicit(&sets->n, memory_order_relaxed);

    for (uint32_t i = 0; i < n; i++)
        set_free(atomic_load_explicit(&array[i], memory_order_relaxed));
    while (sets->replaced) {
        struct limit_set *set = sets->replaced;
        sets->replaced = set->next;
        set_free(set);
    }
    for (size_t i = 0; i < sets->n_outgrown; i++)
        mem_free(sets->outgrown[i]);
    mem_free(sets->outgrown);
    mem_free(array);
}

static enum tg_err check_limit(const struct tg_limit *limit, size_t i, struct tg_problem *problem)
{
    const struct tg_limiter *limiter = &limit->limiter;

    if (limit->axis != TG_AXIS_RATE && limit->axis != TG_AXIS_COST)
        return problem_say(problem, TG_ERR_INVALID,
                           "limit %zu: a limiter stands on the rate or the cost axis", i);
    if (limit->mode != TG_ENFORCE && limit->mode != TG_SHADOW)
        return problem_say(problem, TG_ERR_INVALID, "limit %zu: the mode is enforce or shadow", i);
    if (!limiter->ops || !limiter->ops->reset || !limiter->ops->fresh_at || !limiter->ops->peek ||
        !limiter->ops->take || !limiter->ops->refund || !limiter->ops->settle)
        return problem_say(problem, TG_ERR_INVALID,
                           "limit %zu: the limiter's table lacks an operation", i);
    if (limit->axis == TG_AXIS_RATE && limiter->ops->name == tg_strategy_name(TG_TOKEN_BUDGET))
        return problem_say(problem, TG_ERR_INVALID,
                           "limit %zu: token_budget meters a cost; it cannot stand on the rate "
                           "axis",
                           i);
    if (limiter->state_bytes % sizeof(int64_t) || limiter->state_bytes > STATE_BYTES_MAX)
        return problem_say(problem, TG_ERR_INVALID,
                           "limit %zu: a state of %zu bytes; it must be a multiple of %zu and at "
                           "most %zu",
                           i, limiter->state_bytes, sizeof(int64_t), STATE_BYTES_MAX);
    return TG_OK;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

/* The most that the limit can ever hold: a meter has no such bound, and of a limiter of your own
 * nobody knows, unless its settings say so: 0. */
static int64_t ceiling_of(const struct tg_limiter *limiter)
{
    const struct tg_limiter_config *config = &limiter->config;

    if (limiter->ops->name != tg_strategy_name(config->strategy))
        return config->limit;
    if (config->strategy == TG_TOKEN_BUDGET)
        return TG_NUMBER_MAX;
    return config->strategy == TG_GCRA ? config->burst : config->limit;
}

struct limit_bounds limit_bounds(const struct tg_limit *limits, size_t n)
{
    struct limit_bounds bounds = {TG_NUMBER_MAX, TG_NUMBER_MAX};

    for (size_t i = 0; i < n; i++) {
        int64_t overdraft = limits[i].overdraft;

        if (limits[i].axis != TG_AXIS_COST || limits[i].mode == TG_SHADOW)
            continue;
        int64_t ceiling = ceiling_of(&limits[i].limiter);
        int64_t holds = ceiling < TG_NUMBER_MAX ? ceiling : limits[i].limiter.config.limit;
        if (overdraft == 0)
            overdraft =
                holds <= TG_NUMBER_MAX / TG_OVERDRAFT ? holds * TG_OVERDRAFT : TG_NUMBER_MAX;
        bounds.ceiling = num_min(bounds.ceiling, ceiling);
        bounds.overdraft = num_min(bounds.overdraft, num_max(overdraft, 0));
    }
    return bounds;
}

static struct limit_set *set_new(const struct tg_limit *limits, size_t n)
{
    struct limit_set *set = mem_calloc(1, sizeof *set);

    if (!set)
        return NULL;
    set->n = n;
    for (size_t i = 0; i < n; i++) {
        set->limits[i] = limits[i];
        if (limits[i].axis == TG_AXIS_COST) /* what it is charged is an estimate */
            tg_limiter_make_settled(&set->limits[i].limiter);
        set->any_shadow |= limits[i].mode == TG_SHADOW;
        set->shadows |= (uint8_t)((limits[i].mode == TG_SHADOW) << i);
        set->any_cost |= limits[i].axis == TG_AXIS_COST;
        set->offsets[i] = set->state_bytes;
        set->state_bytes += set->limits[i].limiter.state_bytes;
    }
    set->bounds = limit_bounds(limits, n);
    set->in_slot = set->state_bytes <= sizeof(union table_states);
    set->fresh = mem_calloc(1, set->state_bytes ? set->state_bytes : 1);
    if (!set->fresh) {
        set_free(set);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        set->limits[i].limiter.ops->reset(&set->limits[i].limiter,
                                          limit_set_state(set, set->fresh, i));
    set->fresh_is_zero = is_zero(set->fresh, set->state_bytes);
    return set;
}

/* Room for one more, in a larger copy of the array if need be. */
static bool limit_set_make_room(struct limit_sets *sets)
{
    uint32_t n = atomic_load_explicit(&sets->n, memory_order_relaxed);
    struct limit_set *_Atomic *old = atomic_load_explicit(&sets->array, memory_order_relaxed);
    uint32_t capacity = sets->capacity ? sets->capacity * 2 : 8;

    if (n < sets->capacity)
        return true;
    struct limit_set *_Atomic *array = mem_malloc(capacity * sizeof *array);
    if (!array || !array_reserve(&sets->outgrown, &sets->outgrown_capacity, sets->n_outgrown + 1)) {
        mem_free(array);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        atomic_init(&array[i], atomic_load_explicit(&old[i], memory_order_relaxed));
    sets->outgrown[sets->n_outgrown++] = old;
    sets->capacity = capacity;
    atomic_store_explicit(&sets->array, array, memory_order_release);
    return true;
}

enum tg_err limit_sets_make(const struct tg_limit *limits, size_t n, struct limit_set **made,
                            struct tg_problem *problem)
{
    if (n == 0 || n > TG_LIMITS_MAX)
        return problem_say(problem, TG_ERR_INVALID,
                           "a set of %zu limits; it must have from 1 to %d", n, TG_LIMITS_MAX);
    for (size_t i = 0; i < n; i++) {
        enum tg_err err = check_limit(&limits[i], i, problem);
        if (err)
            return err;
    }
    struct limit_set *set = set_new(limits, n);
    if (!set)
        return problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
    *made = set;
    return TG_OK;
}

void limit_sets_unmake(struct limit_set *made)
{
    set_free(made);
}

static void limit_set_put(struct limit_sets *sets, uint32_t place, struct limit_set *set)
{
    struct limit_set *_Atomic *array = atomic_load_explicit(&sets->array, memory_order_relaxed);

    atomic_store_explicit(&array[place], set, memory_order_release);
}

enum tg_err limit_sets_add(struct limit_sets *sets, const struct tg_limit *limits, size_t n,
                           tg_limits *id, struct tg_problem *problem)
{
    uint32_t count = atomic_load_explicit(&sets->n, memory_order_relaxed);
    struct limit_set *set;
    enum tg_err err = limit_sets_make(limits, n, &set, problem);

    if (err)
        return err;
    if (!limit_set_make_room(sets)) {
        set_free(set);
        return problem_say(problem, TG_ERR_MEMORY, "%s", tg_strerror(TG_ERR_MEMORY));
    }
    limit_set_put(sets, count, set);
    atomic_store_explicit(&sets->n, count + 1, memory_order_release);
    *id = count + 1;
    return TG_OK;
}

void limit_sets_replace(struct limit_sets *sets, tg_limits id, struct limit_set *made)
{
    struct limit_set *_Atomic *array = atomic_load_explicit(&sets->array, memory_order_relaxed);
    struct limit_set *old = atomic_load_explicit(&array[id - 1], memory_order_relaxed);

    limit_set_put(sets, id - 1, made);
    old->next = sets->replaced;
    sets->replaced = old;
}

tg_ms limit_set_fresh_at(const struct limit_set *set, const void *states, tg_ms before)
{
    tg_ms latest = 0;

    for (size_t i = 0; i < set->n && latest < before; i++) {
        const struct tg_limiter *limiter = &set->limits[i].limiter;
        const void *state = (const char *)states + set->offsets[i];
        latest = num_max(latest, limiter->ops->fresh_at(limiter, state));
    }
    return latest;
}
