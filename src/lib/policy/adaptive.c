/* adaptive.c - prices that are learned once, from a sample, if that is better.
 *
 *     SAMPLING ---- the window's last call ----> LEARNING ---- chosen ----> FROZEN
 *
 * Whoever sets prices for a workload he expects may be wrong. The first `window` calls are judged
 * by his prices and remembered. Then the kinds among them, up to 64 that differ in cost, value or
 * hold, are the workload, and the program is solved for it with the budgets for one arrival. Its
 * prices are adopted if they are strictly better: the sample is gone through again, once with each,
 * as calls would come, admitting what is worth it and fits into the budgets of so many arrivals;
 * what is worth more in sum wins, and a tie goes to the prior. Whatever goes wrong, the prior
 * stays. The choice is final: who needs to follow a drift takes `online`. The call that completes
 * the sample is judged by what was chosen.
 *
 * Memory is the sample, 24 bytes a call, taken when the policy is made.
 *
 * Threads. While SAMPLING, a spinlock covers the sample; it is held for a look through the kinds.
 * The thread that puts the last call in moves on to LEARNING and then alone has the sample, without
 * the lock: solving and going through a large sample takes milliseconds, for which others would
 * have to spin. They are judged by the prior meanwhile, which never changes. `chosen` is written
 * before FROZEN is stored with release, and read after FROZEN was loaded with acquire: so whoever
 * sees FROZEN sees the prices, and the path has no lock any more.
 * tests/thread/test_policy_threads.c runs it under TSan.
 */
#include "lib/policy/adaptive.h"

#include <assert.h>

#include "lib/core/allocator.h"
#include "lib/core/spinlock.h"
#include "lib/policy/bid.h"

enum stage { SAMPLING, LEARNING, FROZEN };

enum { KINDS_MAX = 64 };

struct sampled {
    double cost, value, hold_s;
};

struct adaptive {
    atomic_int stage; /* enum stage */
    struct tg_duals prior;
    struct tg_duals chosen; /* once it is frozen */

    struct spinlock lock;
    struct adaptive_budgets per_arrival;
    int64_t window;
    int64_t seen;
    struct tg_type kinds[KINDS_MAX]; /* `weight` counts the calls */
    size_t n_kinds;
    struct sampled sample[];
};

struct adaptive *adaptive_new(const struct tg_duals *prior, struct adaptive_budgets per_arrival,
                              int64_t window)
{
    struct adaptive *made = mem_calloc(1, sizeof *made + (size_t)window * sizeof made->sample[0]);

    if (!made)
        return NULL;
    made->prior = *prior;
    made->per_arrival = per_arrival;
    made->window = window;
    return made;
}

void adaptive_free(struct adaptive *adaptive)
{
    mem_free(adaptive);
}

/* ---- sampling ---- */

/* Kinds that come after the first 64 are in the sample, and not in the workload. */
static void count_kind(struct adaptive *adaptive, const struct sampled *call)
{
    bool holds = adaptive->per_arrival.conc_s > 0;

    for (size_t i = 0; i < adaptive->n_kinds; i++) {
        struct tg_type *kind = &adaptive->kinds[i];
        if (kind->cost == call->cost && kind->value == call->value &&
            (!holds || kind->hold_s == call->hold_s)) {
            kind->weight++;
            return;
        }
    }
    if (adaptive->n_kinds < KINDS_MAX)
        adaptive->kinds[adaptive->n_kinds++] = (struct tg_type){
            .cost = call->cost,
            .value = call->value,
            .weight = 1,
            .hold_s = holds ? call->hold_s : TG_NO_HOLD,
        };
}

/* True: this was the last one of the sample. */
static bool take_in(struct adaptive *adaptive, const struct sampled *call)
{
    bool is_last = false;

    spin_lock(&adaptive->lock);
    if (atomic_load_explicit(&adaptive->stage, memory_order_relaxed) == SAMPLING) {
        assert(adaptive->seen < adaptive->window);
        adaptive->sample[adaptive->seen++] = *call;
        count_kind(adaptive, call);
        is_last = adaptive->seen == adaptive->window;
        if (is_last) /* relaxed, as the look above: the lock orders them */
            atomic_store_explicit(&adaptive->stage, LEARNING, memory_order_relaxed);
    }
    spin_unlock(&adaptive->lock);
    return is_last;
}

/* ---- learning ---- */

static bool solve(struct adaptive *adaptive, struct tg_duals *duals)
{
    struct tg_workload workload;

    for (size_t i = 0; i < adaptive->n_kinds; i++)
        adaptive->kinds[i].weight /= (double)adaptive->seen;
    tg_workload_init(&workload);
    workload.types = adaptive->kinds;
    workload.n_types = adaptive->n_kinds;
    workload.rate_budget = adaptive->per_arrival.rate;
    workload.cost_budget = adaptive->per_arrival.cost;
    workload.conc_budget_s = adaptive->per_arrival.conc_s;
    return tg_fluid_solve(&workload, duals, NULL, NULL, NULL) == TG_OK;
}

/* What the sample would have been worth by these prices. */
static double revenue(const struct adaptive *adaptive, const struct tg_duals *duals)
{
    double n = (double)adaptive->seen, sum = 0;
    bool holds = adaptive->per_arrival.conc_s > 0;
    struct adaptive_budgets left = {adaptive->per_arrival.rate * n, adaptive->per_arrival.cost * n,
                                    adaptive->per_arrival.conc_s * n};

    for (int64_t i = 0; i < adaptive->seen; i++) {
        const struct sampled *call = &adaptive->sample[i];
        if (left.rate < 1 || left.cost < call->cost || (holds && left.conc_s < call->hold_s) ||
            !bid_pays(duals, call->cost, call->value, call->hold_s))
            continue;
        left.rate -= 1;
        left.cost -= call->cost;
        left.conc_s -= call->hold_s;
        sum += call->value;
    }
    return sum;
}

static void adaptive_learn(struct adaptive *adaptive)
{
    struct tg_duals learned;

    assert(adaptive->seen == adaptive->window);
    adaptive->chosen = adaptive->prior;
    if (solve(adaptive, &learned) &&
        revenue(adaptive, &learned) > revenue(adaptive, &adaptive->prior))
        adaptive->chosen = learned;
    atomic_store_explicit(&adaptive->stage, FROZEN, memory_order_release);
}

/* ---- judging ---- */

static const struct tg_duals *prices(const struct adaptive *adaptive)
{
    bool frozen = atomic_load_explicit(&adaptive->stage, memory_order_acquire) == FROZEN;

    return frozen ? &adaptive->chosen : &adaptive->prior;
}

bool adaptive_worth(struct adaptive *adaptive, double cost, double value, double hold_s)
{
    const struct sampled call = {cost, value, hold_s};

    /* Relaxed: one that has just ended is seen to have under the lock. */
    if (atomic_load_explicit(&adaptive->stage, memory_order_relaxed) == SAMPLING &&
        take_in(adaptive, &call))
        adaptive_learn(adaptive);
    return bid_pays(prices(adaptive), cost, value, hold_s);
}

void adaptive_get_duals(struct adaptive *adaptive, struct tg_duals *duals)
{
    *duals = *prices(adaptive);
}
