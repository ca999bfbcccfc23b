/* regret_hog.c - the suite `hog`: some calls hold a slot for long, and the slots are few.
 *
 * One arrival a second, of a type drawn by weight. A call needs a slot, a unit of rate and its
 * cost, and gives its slot back when its hold is over; nothing else comes back. As in the gate, the
 * slot is taken first: who finds none is refused, and no policy is asked.
 *
 *     A   what is scarce is slot-seconds alone: two axes cannot see it, three can
 *     B   nothing is scarce but the rate, and that hardly
 *     C   the hog is exactly at the margin: a threshold takes it always, and it fills the slots
 */
#include <assert.h>
#include <stdlib.h>

#include "lab/regret/contestant.h"
#include "lab/regret/regret_suites.h"

#define TYPES 2
#define SAMPLE_WINDOW 200

struct hog_world {
    const char *name, *about;
    struct mixture_type types[TYPES];
    size_t arrivals;
    struct window_budget budgets;
    int64_t slots;
};

static const struct hog_world worlds[] = {
    {"A",
     "slot-seconds are scarce, nothing else is",
     {{{100, 10, 15}, 1800}, {{100, 10, 200}, 200}},
     2000,
     {2000, 1000000000},
     10},
    {"B",
     "nothing is scarce",
     {{{10, 1, 1}, 1000}, {{10, 5, 100}, 1000}},
     2000,
     {2000, 10000000},
     100000},
    {"C",
     "slot-seconds are scarce, and the long type is at the margin",
     {{{100, 2, 1}, 1000}, {{20, 6, 80}, 1000}},
     2000,
     {1500, 120000},
     12},
};
#define N_WORLDS (sizeof worlds / sizeof worlds[0])

enum who { MARGINAL, TWO_AXIS, THREE_AXIS, ADAPTIVE, ONLINE, GUARDED, N_WHOS };

/* ---- The contestants ------------------------------------------------------------------------- */

struct hog_workload {
    struct tg_type types[TYPES];
    struct tg_workload workload;
};

static const struct tg_workload *expect(struct hog_workload *of, const struct hog_world *world,
                                        bool with_hold)
{
    for (size_t i = 0; i < TYPES; i++) {
        tg_type_init(&of->types[i]);
        of->types[i].cost = (double)world->types[i].arrival.cost;
        of->types[i].value = world->types[i].arrival.value;
        of->types[i].weight = world->types[i].weight;
        if (with_hold)
            of->types[i].hold_s = world->types[i].arrival.hold_s;
    }
    tg_workload_init(&of->workload);
    of->workload.types = of->types;
    of->workload.n_types = TYPES;
    of->workload.arrivals = (double)world->arrivals;
    of->workload.rate_budget = (double)world->budgets.calls;
    of->workload.cost_budget = (double)world->budgets.cost;
    if (with_hold)
        of->workload.conc_budget_s = (double)world->slots * (double)world->arrivals;
    return &of->workload;
}

static enum tg_err regret_hog_enter(enum who who, const struct hog_world *world,
                                    struct contestant *contestant)
{
    static const enum tg_prices prices[N_WHOS] = {
        [TWO_AXIS] = TG_PRICES_WORKLOAD, [THREE_AXIS] = TG_PRICES_WORKLOAD,
        [ADAPTIVE] = TG_PRICES_ADAPTIVE, [ONLINE] = TG_PRICES_ONLINE,
        [GUARDED] = TG_PRICES_ONLINE,
    };
    struct hog_workload of;
    struct tg_bid_config config;

    *contestant = contestant_greedy();
    if (who == MARGINAL)
        return TG_OK;
    tg_bid_config_init(&config);
    config.prices = prices[who];
    config.workload = *expect(&of, world, who != TWO_AXIS);
    config.sample_window = SAMPLE_WINDOW;
    config.online.window = (tg_ms)world->arrivals * 1000;
    config.online.rate_budget = config.workload.rate_budget;
    config.online.cost_budget = config.workload.cost_budget;
    config.online.conc_budget_s = config.workload.conc_budget_s;
    config.online.guard = who == GUARDED;
    return contestant_bid(&config, contestant);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The calls that hold a slot, and who wants to know when they no longer do. */
struct holders {
    struct tg_policy *policy;
    struct held {
        struct arrival arrival;
        tg_ms admitted_at, until;
    } * held;
    size_t n;
};

static void holders_release(struct holders *holders, tg_ms now)
{
    size_t kept = 0;

    for (size_t i = 0; i < holders->n; i++) {
        struct held held = holders->held[i];
        if (held.until > now) {
            holders->held[kept++] = held;
            continue;
        }
        struct tg_spent spent = {held.admitted_at, held.arrival.cost, held.arrival.cost,
                                 held.arrival.hold_s, held.arrival.hold_s};
        if (holders->policy != NULL && holders->policy->released != NULL)
            holders->policy->released(holders->policy, &spent, now);
    }
    holders->n = kept;
}

/* `held` has room for all arrivals. */
static double regret_hog_earn(struct tg_policy *policy, const struct hog_world *world,
                              uint32_t seed, struct held *held)
{
    struct mulberry mulberry = mixture_begin(seed);
    struct holders holders = {policy, held, 0};
    struct window_budget left = world->budgets;
    double sum = 0;

    for (size_t t = 0; t < world->arrivals; t++) {
        tg_ms now = (tg_ms)t * 1000;
        const struct arrival *arrival =
            &world->types[mixture_draw(&mulberry, world->types, TYPES)].arrival;
        holders_release(&holders, now);
        if ((int64_t)holders.n >= world->slots ||
            !window_budget_offer(&left, policy, arrival, (int64_t)holders.n + 1, now))
            continue;
        assert((int64_t)holders.n < world->slots && holders.n < world->arrivals);
        held[holders.n++] = (struct held){*arrival, now, now + (tg_ms)(arrival->hold_s * 1000)};
        sum += arrival->value;
    }
    return sum;
}

static enum tg_err run_row(const struct regret_options *options, const struct hog_world *world,
                           struct held *held, struct regret_row *row)
{
    struct hog_workload of;
    struct tg_duals duals;
    double optimum;
    enum tg_err err = tg_fluid_solve(expect(&of, world, true), &duals, NULL, &optimum, NULL);

    for (int who = 0; who < N_WHOS && !err; who++) {
        double sum = 0;
        if (options->leave_out >> who & 1)
            continue;
        for (size_t k = 0; k < options->seeds && !err; k++) {
            struct contestant contestant;
            err = regret_hog_enter((enum who)who, world, &contestant);
            if (err)
                break;
            uint32_t seed = (uint32_t)(options->seed - 1 + k);
            sum += 1 - regret_hog_earn(contestant.policy, world, seed, held) / optimum;
            contestant_free(&contestant);
        }
        row->percent[who] = 100 * sum / (double)options->seeds;
    }
    return err;
}

static enum tg_err run_hog(const struct regret_options *options, struct regret_table *table)
{
    enum tg_err err = TG_OK;

    for (size_t i = 0; i < N_WORLDS && !err; i++) {
        struct held *held = calloc(worlds[i].arrivals, sizeof *held);
        struct regret_row *row = table_row(table);
        row->world = worlds[i].name;
        row->about = worlds[i].about;
        err = held != NULL ? run_row(options, &worlds[i], held, row) : TG_ERR_MEMORY;
        free(held);
        options_progress(options, i + 1, N_WORLDS);
    }
    return err;
}

const struct regret_suite regret_hog = {
    .name = "hog",
    .title = "Types that hold slots for short and for long, three axes",
    .denominator = "the fluid optimum",
    .policies = {"marginal", "two_axis", "three_axis", "adaptive", "online", "guarded"},
    .seeds = 30,
    .run = run_hog,
};
