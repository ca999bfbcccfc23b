/* regret_guard.c - the suite `guard`: worlds in which prices alone lose to no policy at all.
 *
 * Calls ask for more than they use, several tenants have a limit each, one is over a limit of its
 * own, or the window is the first of all and its calls come in an order that nobody can foresee.
 * A limit is a budget a window. As in a gate, it is charged what a call asks for, and when the call
 * ends it gets back what was not used.
 *
 * Regret is what is missing to hindsight: the calls of a window in order of value by what they use,
 * the last one in part. What it shows is whether a guarded policy is ever more than a point worse
 * than greedy over a run.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lab/regret/contestant.h"
#include "lab/regret/regret_suites.h"

#define WINDOW 60000
#define CALLS 1000 /* in a window */
#define DURATION 1000
#define TENANTS_MAX 5
#define MEAN_COST 304.9 /* the mean of the lognormal law below, exp(5 + 1.2 * 1.2 / 2) */

enum who { GREEDY, ONLINE, GUARDED, N_WHOS };

enum order {
    IN_NO_ORDER,
    BEST_FIRST,
    STOPS,      /* after three tenths of the window */
    ALL_AT_ONCE /* within two seconds */
};

struct guard_world {
    const char *name, *about;
    size_t windows;
    double load;     /* what calls use, in budgets */
    double asked;    /* what they ask for, in what they use */
    size_t tenants;  /* with a budget each; 0: one budget for all */
    double own_part; /* above 0: what a tenant of dear calls may use of the budget for all */
    enum order order;
};

static const struct guard_world worlds[] = {
    {"4x-0.77", "calls use a quarter of what they ask for, load 0.77", 20, 0.77, 4, 0, 0, 0},
    {"2x-0.77", "calls use half of what they ask for, load 0.77", 20, 0.77, 2, 0, 0, 0},
    {"4x-1.5", "calls use a quarter of what they ask for, load 1.5", 20, 1.5, 4, 0, 0, 0},
    {"2x-1.5", "calls use half of what they ask for, load 1.5", 20, 1.5, 2, 0, 0, 0},
    {"tenants", "five tenants, each at 0.6 of its limit", 20, 0.6, 1, 5, 0, 0},
    {"own limit", "a tenant of dear calls is ten times over its own limit", 20, 2.4, 1, 0, 0.1, 0},
    {"first", "the first window", 1, 5, 1, 0, 0, 0},
    {"best first", "the first window, the best calls come first", 1, 5, 1, 0, 0, BEST_FIRST},
    {"stops", "the first window, traffic stops at 30 %", 1, 5, 1, 0, 0, STOPS},
    {"stops fits", "the same, and the budget would hold it all", 1, 0.3, 1, 0, 0, STOPS},
    {"2 s", "the first window, all calls come in 2 s", 1, 5, 1, 0, 0, ALL_AT_ONCE},
};
#define N_WORLDS (sizeof worlds / sizeof worlds[0])

struct guard_call {
    tg_ms at;
    int64_t asked, used;
    double value;
    size_t tenant;
};

struct stream {
    struct guard_call *calls;
    struct guard_call *sorted;
    size_t n;
};

/* Budgets of a window, in cost that is left; INFINITY: no such limit. */
struct limits {
    double all, own[TENANTS_MAX];
};

/* ---- Arrivals -------------------------------------------------------------------------------- */

static double normal(struct mulberry *mulberry)
{
    double radius = sqrt(-2 * log(1 - mulberry_unit(mulberry)));

    return radius * cos(2 * 3.14159265358979323846 * mulberry_unit(mulberry));
}

static int by_density(const void *left, const void *right)
{
    const struct guard_call *a = left, *b = right;
    double x = a->value * (double)b->used, y = b->value * (double)a->used;

    if (x != y)
        return x > y ? -1 : 1;
    return a->used != b->used ? (a->used < b->used ? -1 : 1) : (a->at > b->at) - (a->at < b->at);
}

static void draw_call(const struct guard_world *world, struct mulberry *mulberry,
                      struct guard_call *call)
{
    double used = exp(5 + 1.2 * normal(mulberry));
    double density = exp(0.8 * normal(mulberry)) / 100;
    double spread = 0.5 + mulberry_unit(mulberry);
    double tenant = mulberry_unit(mulberry);

    call->used = (int64_t)ceil(used);
    call->asked = world->asked > 1 ? (int64_t)ceil(used * world->asked * spread) : call->used;
    call->asked = call->asked < call->used ? call->used : call->asked;
    call->tenant = (size_t)(tenant * (double)world->tenants);
    if (world->own_part > 0)
        call->tenant = tenant >= 0.42; /* tenant 0: 0.42 of a load of 2.4 is about 1 */
    if (world->own_part > 0 && call->tenant == 0)
        density *= 8;
    call->value = used * density;
}

static void draw_stream(const struct guard_world *world, uint64_t seed, struct stream *stream)
{
    struct mulberry mulberry = {(uint32_t)(seed * 2654435761u + (uint64_t)(world - worlds) * 977)};
    double span = world->order == ALL_AT_ONCE ? 2000 : WINDOW;
    size_t per_window = world->order == STOPS ? CALLS * 3 / 10 : CALLS;

    stream->n = 0;
    for (size_t w = 0; w < world->windows; w++) {
        struct guard_call *window = &stream->calls[stream->n];
        for (size_t i = 0; i < per_window; i++)
            draw_call(world, &mulberry, &window[i]);
        if (world->order == BEST_FIRST)
            qsort(window, per_window, sizeof *window, by_density);
        for (size_t i = 0; i < per_window; i++)
            window[i].at = (tg_ms)(w * WINDOW) + (tg_ms)((double)i * span / CALLS);
        stream->n += per_window;
    }
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static double budget_of(const struct guard_world *world)
{
    double all = CALLS * MEAN_COST / world->load;

    return world->tenants > 0 ? all / (double)world->tenants : all;
}

static struct limits fresh_limits(const struct guard_world *world)
{
    double budget = budget_of(world);
    struct limits limits = {world->tenants > 0 ? INFINITY : budget, {0}};

    for (size_t i = 0; i < TENANTS_MAX; i++)
        limits.own[i] = world->tenants > 0 ? budget : INFINITY;
    if (world->own_part > 0)
        limits.own[0] = world->own_part * budget;
    return limits;
}

static double hindsight(const struct guard_world *world, const struct stream *stream)
{
    double sum = 0;

    for (size_t from = 0, to; from < stream->n; from = to) {
        struct limits left = fresh_limits(world);
        for (to = from;
             to < stream->n && stream->calls[to].at / WINDOW == stream->calls[from].at / WINDOW;
             to++)
            stream->sorted[to - from] = stream->calls[to];
        qsort(stream->sorted, to - from, sizeof stream->sorted[0], by_density);
        for (size_t i = 0; i < to - from; i++) {
            const struct guard_call *call = &stream->sorted[i];
            double *own = &left.own[call->tenant], used = (double)call->used;
            double part = fmin(1, fmin(left.all, *own) / used);
            left.all -= part * used;
            *own -= part * used;
            sum += part * call->value;
        }
    }
    return sum;
}

/* Calls end in the order in which they came: those from `first` on are in flight. */
struct flight {
    size_t *admitted; /* indexes of calls */
    size_t first, n;
};

static void end_calls(struct tg_policy *policy, const struct stream *stream, struct flight *flight,
                      struct limits *left, tg_ms now)
{
    for (; flight->first < flight->n; flight->first++) {
        const struct guard_call *call = &stream->calls[flight->admitted[flight->first]];
        tg_ms ends = call->at + DURATION;
        if (ends > now)
            return;
        if (call->at / WINDOW == now / WINDOW) {
            left->all += (double)(call->asked - call->used);
            left->own[call->tenant] += (double)(call->asked - call->used);
        }
        struct tg_spent spent = {call->at, call->asked, call->used, 0, DURATION / 1000.0};
        if (policy != NULL && policy->released != NULL)
            policy->released(policy, &spent, ends);
    }
}

static double regret_guard_earn(struct tg_policy *policy, const struct guard_world *world,
                                const struct stream *stream, size_t *admitted)
{
    struct limits left = fresh_limits(world);
    struct flight flight = {.admitted = admitted};
    double sum = 0;

    for (size_t i = 0; i < stream->n; i++) {
        const struct guard_call *from = &stream->calls[i];
        struct tg_call call;
        if (i > 0 && from->at / WINDOW != stream->calls[i - 1].at / WINDOW)
            left = fresh_limits(world);
        end_calls(policy, stream, &flight, &left, from->at);
        tg_call_init(&call);
        call.debit.cost = from->asked;
        call.value = from->value;
        if (policy != NULL && !policy->worth(policy, &call, 0, from->at))
            continue;
        if (fmin(left.all, left.own[from->tenant]) < (double)from->asked) {
            if (policy != NULL && policy->refused != NULL)
                policy->refused(policy, &call, TG_REASON_COST, from->at);
            continue;
        }
        left.all -= (double)from->asked;
        left.own[from->tenant] -= (double)from->asked;
        if (policy != NULL && policy->admitted != NULL)
            policy->admitted(policy, &call, from->at);
        flight.admitted[flight.n++] = i;
        sum += from->value;
    }
    assert(flight.n <= stream->n);
    return sum;
}

static enum tg_err regret_guard_enter(enum who who, const struct guard_world *world,
                                      struct contestant *contestant)
{
    struct tg_bid_config config;

    *contestant = contestant_greedy();
    if (who == GREEDY)
        return TG_OK;
    tg_bid_config_init(&config);
    config.prices = TG_PRICES_ONLINE;
    config.online.window = WINDOW;
    /* What is derived from the limits: gate.cost holds for each tenant. */
    config.online.cost_budget = CALLS * MEAN_COST / world->load;
    config.online.guard = who == GUARDED;
    return contestant_bid(&config, contestant);
}

static enum tg_err run_world(const struct regret_options *options, const struct guard_world *world,
                             struct stream *stream, size_t *admitted, struct regret_row *row)
{
    double earned[N_WHOS] = {0}, best = 0;

    for (size_t k = 0; k < options->seeds; k++) {
        draw_stream(world, options->seed + k, stream);
        best += hindsight(world, stream);
        for (int who = 0; who < N_WHOS; who++) {
            struct contestant contestant;
            if (options->leave_out >> who & 1)
                continue;
            enum tg_err err = regret_guard_enter((enum who)who, world, &contestant);
            if (err)
                return err;
            earned[who] += regret_guard_earn(contestant.policy, world, stream, admitted);
            contestant_free(&contestant);
        }
    }
    for (int who = 0; who < N_WHOS; who++)
        if (!(options->leave_out >> who & 1))
            row->percent[who] = 100 * (1 - earned[who] / best);
    return TG_OK;
}

static enum tg_err run_guard(const struct regret_options *options, struct regret_table *table)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < N_WORLDS && !err; i++) {
        size_t most = worlds[i].windows * CALLS;
        struct stream stream = {.calls = calloc(most, sizeof *stream.calls),
                                .sorted = calloc(CALLS, sizeof *stream.sorted)};
        size_t *admitted = calloc(most, sizeof *admitted);
        struct regret_row *row = table_row(table);
        row->world = worlds[i].name;
        row->about = worlds[i].about;
        err = stream.calls != NULL && stream.sorted != NULL && admitted != NULL
                  ? run_world(options, &worlds[i], &stream, admitted, row)
                  : TG_ERR_MEMORY;
        free(stream.calls);
        free(stream.sorted);
        free(admitted);
        options_progress(options, i + 1, N_WORLDS);
    }
    return err;
}

const struct regret_suite regret_guard = {
    .name = "guard",
    .title = "Worlds in which prices alone can lose to no policy",
    .denominator = "what each window could have earned in hindsight",
    .policies = {"greedy", "online", "guarded"},
    .seeds = 15,
    .run = run_guard,
};
