/* test_settlement.c - settlement is retroactive: a limiter against the history, charged anew.
 *
 * The model remembers every call that was admitted. Whenever it is asked, it charges all of them
 * again to an empty limiter, at the times of their admission, with what they used where that is
 * known and with what they were charged where it is not. The limiter, which remembers a few
 * numbers, must never have more left than that, and never admit what the model would refuse; how
 * often both are equal is printed. Charges are settled late and in any order, at less and at more
 * than was charged, and the clock steps back and forth.
 *
 * Where the clock has stepped back, a window or a bucket counts at the latest time that it knows.
 */
#include <math.h>

#include "check.h"
#include "walk.h"

#define STEPS 120

static uint64_t seed;

struct past_call {
    tg_ms at;      /* by the clock */
    tg_ms counted; /* where the limiter's time stood */
    int64_t charged, units;
    bool open; /* not settled yet */
};

struct history {
    struct past_call calls[STEPS];
    size_t n;
    tg_ms latest;    /* the limiter's latest time */
    bool steps_back; /* its clock does; then nobody knows when it was whom nothing was charged */
};

/* How well it did. */
static struct tally {
    long states, exact, looser;
    bool strict; /* looser is a failure */
} tally;

/* ---- the model ---- */

static double gcra_left(const struct tg_limiter_config *config, const struct history *history,
                        tg_ms now)
{
    double interval = (double)config->period / (double)config->limit, tat = 0;

    for (size_t i = 0; i < history->n; i++)
        if (history->calls[i].units > 0)
            tat = fmax(tat, (double)history->calls[i].at) +
                  interval * (double)history->calls[i].units;
    return fmin((double)config->burst, (double)config->burst - (tat - (double)now) / interval);
}

static double bucket_left(const struct tg_limiter_config *config, const struct history *history,
                          tg_ms now)
{
    double capacity = (double)config->limit, level = capacity, rise = config->refill / 1000;
    tg_ms last = 0;

    for (size_t i = 0; i < history->n; i++) {
        tg_ms at = history->calls[i].counted > last ? history->calls[i].counted : last;
        if (history->calls[i].units == 0)
            continue;
        level = fmin(capacity, level + (double)(at - last) * rise);
        level -= (double)history->calls[i].units;
        last = at;
    }
    tg_ms at = now > history->latest ? now : history->latest;
    return fmin(capacity, level + (double)(at > last ? at - last : 0) * rise);
}

static double window_left(const struct tg_limiter_config *config, const struct history *history,
                          tg_ms now)
{
    tg_ms at = now > history->latest ? now : history->latest;
    int64_t used = 0;

    for (size_t i = 0; i < history->n; i++)
        if (history->calls[i].counted / config->period == at / config->period)
            used += history->calls[i].units;
    return (double)(config->limit - used);
}

static double sliding_left(const struct tg_limiter_config *config, const struct history *history,
                           tg_ms now)
{
    double width = (double)config->period / (double)config->buckets;
    tg_ms at = now > history->latest ? now : history->latest;
    int64_t tick = (int64_t)((double)at / width), full = 0, oldest = 0;

    for (size_t i = 0; i < history->n; i++) {
        int64_t age = tick - (int64_t)((double)history->calls[i].counted / width);
        full += age < config->buckets ? history->calls[i].units : 0;
        oldest += age == config->buckets ? history->calls[i].units : 0;
    }
    double inside = fmax((double)now - (double)tick * width, 0);
    return (double)config->limit -
           ((double)full + (double)oldest * fmax((width - inside) / width, 0));
}

static double log_left(const struct tg_limiter_config *config, const struct history *history,
                       tg_ms now)
{
    tg_ms at = now > history->latest ? now : history->latest;
    int64_t used = 0;

    for (size_t i = 0; i < history->n; i++)
        if (history->calls[i].counted > at - config->period)
            used += history->calls[i].units;
    return (double)(config->limit - used);
}

static double model_left(const struct walk *walk, const struct history *history, tg_ms now)
{
    const struct tg_limiter_config *config = &walk->subject.limiter.config;

    switch (config->strategy) {
    case TG_GCRA:
        return gcra_left(config, history, now);
    case TG_TOKEN_BUCKET:
        return bucket_left(config, history, now);
    case TG_SLIDING_WINDOW:
        return sliding_left(config, history, now);
    case TG_SLIDING_LOG:
        return log_left(config, history, now);
    default:
        return window_left(config, history, now);
    }
}

/* ---- comparing ---- */

static double whole(double left)
{
    return left > 0 ? floor(left) : 0;
}

/* Where arithmetic rounds, a unit or a millisecond too early does not count. */
static void compare(struct walk *walk, const struct history *history)
{
    double got = (double)subject_balance(&walk->subject, walk->now).remaining;
    double left = model_left(walk, history, walk->now);
    double grace = walk->subject.exact ? 0 : 1e-6 * (fabs(left) + 1);
    double soon = walk->subject.exact ? left : model_left(walk, history, walk->now + 1);
    bool looser = got > whole(fmax(left, soon) + grace);

    tally.states++;
    tally.exact += got >= whole(left - grace) && got <= whole(left + grace);
    tally.looser += looser;
    walk_check(walk, !looser || !tally.strict, "%.0f left; charged anew %.9g", got, left);
}

/* ---- what happens ---- */

static bool counts_in_ms(const struct walk *walk)
{
    return walk->subject.limiter.config.strategy != TG_GCRA;
}

static void note_time(const struct walk *walk, struct history *history, tg_ms at)
{
    if (counts_in_ms(walk) && at > history->latest)
        history->latest = at;
}

/* The wait that a refusal hints at is long enough, whatever was settled before. */
static void check_hint(struct walk *walk, int64_t cost, struct tg_decision refused)
{
    tg_ms then = walk->now + refused.retry_after_ms;

    walk_check(walk,
               refused.retry_after_ms == TG_UNSATISFIABLE || then > TG_NUMBER_MAX ||
                   subject_peek(&walk->subject, then, cost).allowed,
               "%lld refused for %lld ms, and after them", (long long)cost,
               (long long)refused.retry_after_ms);
}

static void admit(struct walk *walk, struct history *history)
{
    int64_t cost = draw_chance(&walk->draw, 10) ? 0 : subject_cost(&walk->subject, &walk->draw);
    double left = model_left(walk, history, walk->now + !walk->subject.exact);
    struct tg_decision decision = subject_peek(&walk->subject, walk->now, cost);

    if (!decision.allowed) {
        check_hint(walk, cost, decision);
        return;
    }
    bool meter = walk->subject.limiter.config.strategy == TG_TOKEN_BUDGET;
    bool fits = cost == 0 || (meter ? left > 0 : (double)cost <= left + (left + 1) * 1e-6);
    tally.looser += !fits;
    walk_check(walk, fits || !tally.strict, "%lld admitted, charged anew %.9g", (long long)cost,
               left);
    if (cost > 0)
        subject_take(&walk->subject, walk->now, cost);
    /* Who is charged nothing leaves no trace: should it cost something, it counts by its clock. */
    note_time(walk, history, cost > 0 ? walk->now : 0);
    tg_ms counted = cost > 0 && history->latest > walk->now ? history->latest : walk->now;
    history->calls[history->n++] = (struct past_call){
        walk->now, counted, cost, cost, history->n % 4 != 3 && (cost > 0 || !history->steps_back)};
}

/* Settles one of the calls that are open, the oldest or any other. */
static void settle(struct walk *walk, struct history *history)
{
    struct past_call *open[STEPS];
    size_t n = 0;

    for (size_t i = 0; i < history->n; i++)
        if (history->calls[i].open)
            open[n++] = &history->calls[i];
    if (n == 0)
        return;
    size_t chosen =
        draw_chance(&walk->draw, 30) ? 0 : (size_t)draw_between(&walk->draw, 0, (int64_t)n - 1);
    struct past_call *call = open[chosen];
    struct tg_charge charge = {call->at, call->charged};
    int64_t choice = draw_between(&walk->draw, 0, 99);

    call->open = false;
    if (choice < 20 || (choice < 70 && call->charged == 0)) {
        call->units = 0;
        subject_refund(&walk->subject, walk->now, charge, call->charged);
    } else if (choice < 70) {
        call->units = draw_between(&walk->draw, 0, call->charged);
        subject_settle(&walk->subject, walk->now, charge, call->units);
    } else {
        call->units = call->charged + draw_magnitude(&walk->draw, 3 * call->charged + 5);
        subject_settle(&walk->subject, walk->now, charge, call->units);
    }
    if (walk->subject.limiter.config.strategy == TG_TOKEN_BUCKET)
        note_time(walk, history, (tg_ms)((const double *)walk->subject.state)[1]); /* its `last` */
    else if (call->charged == 0 && call->units > 0)
        note_time(walk, history, call->at);
}

enum pace { FORWARD, STEPPING, CROWDED };

static void live(struct walk *walk, enum pace pace)
{
    struct history history = {.steps_back = pace == STEPPING};

    for (int i = 0; i < STEPS; i++) {
        if (pace == CROWDED)
            walk->now += draw_between(&walk->draw, 0, walk->subject.scale / 10);
        else if (pace == STEPPING && draw_chance(&walk->draw, 15))
            walk_astray(walk);
        else
            walk_forward(walk);
        if (draw_chance(&walk->draw, 55))
            admit(walk, &history);
        else
            settle(walk, &history);
        compare(walk, &history);
    }
}

static void live_forward(struct walk *walk)
{
    subject_make_settled(&walk->subject);
    live(walk, FORWARD);
}

static void live_crowded(struct walk *walk)
{
    subject_make_settled(&walk->subject);
    live(walk, CROWDED);
}

static void live_astray(struct walk *walk)
{
    subject_make_settled(&walk->subject);
    live(walk, STEPPING);
}

static void run(const char *promise, void (*visit)(struct walk *walk))
{
    for (int strategy = 0; strategy < TG_STRATEGY_COUNT; strategy++) {
        tally = (struct tally){.strict = true};
        walk_all(promise, seed, 1u << strategy, 900, visit);
        print_message("    %s: exact in %.1f %% of %ld states\n",
                      tg_strategy_name((enum tg_strategy)strategy),
                      100.0 * (double)tally.exact / (double)tally.states, tally.states);
    }
}

static void never_looser_than_history_charged_anew(void **state)
{
    (void)state;
    run("never looser than the history charged anew", live_forward);
}

static void never_looser_under_lasting_demand(void **state)
{
    (void)state;
    run("never looser under lasting demand", live_crowded);
}

static void never_looser_where_the_clock_steps(void **state)
{
    (void)state;
    run("never looser where the clock steps back and forth", live_astray);
}

/* A call of 50 has long been paid for when a debt of 50 comes, of one that was charged nothing:
 * settling the first must not forgive the second. */
static void a_debt_is_not_forgiven_by_an_older_settlement(void **state)
{
    static const char *const specs[] = {"gcra:limit=10,period=1000,burst=100",
                                        "token_bucket:capacity=100,refill=10"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        struct tg_limiter limiter = limiter_of(specs[i]);
        struct subject subject = subject_new(&limiter);
        subject_make_settled(&subject);
        subject_take(&subject, 0, 50);
        subject_settle(&subject, 10000, (struct tg_charge){10000, 0}, 50);
        subject_settle(&subject, 10000, (struct tg_charge){0, 50}, 0);
        assert_int_equal(subject_balance(&subject, 10000).remaining, 50);
        subject_free(&subject);
    }
}

/* ---- that the comparison can fail ---- */

static struct tg_limiter plain;
static const struct tg_limiter_ops *settled_ops;

static void settle_forgetfully(const struct tg_limiter *limiter, void *state, tg_ms now,
                               struct tg_charge charge, int64_t actual)
{
    if (actual > charge.cost)
        plain.ops->settle(&plain, state, now, charge, actual);
    else
        settled_ops->settle(limiter, state, now, charge, actual);
}

static void live_forgetfully(struct walk *walk)
{
    struct tg_limiter_ops ops;

    plain = walk->subject.limiter;
    subject_make_settled(&walk->subject);
    settled_ops = walk->subject.limiter.ops;
    ops = *settled_ops;
    ops.settle = settle_forgetfully;
    walk->subject.limiter.ops = &ops;
    live(walk, CROWDED);
}

/* A debt is charged when it is known, and so needs a minimum before it, as every charge does. */
static void a_minimum_forgotten_before_a_debt_is_found_out(void **state)
{
    (void)state;
    tally = (struct tally){.strict = false};
    walk_all("debts without a minimum", seed, 1u << TG_GCRA | 1u << TG_TOKEN_BUCKET, 900,
             live_forgetfully);
    print_message("    looser in %ld of %ld states\n", tally.looser, tally.states);
    assert_true(tally.looser > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_looser_than_history_charged_anew),
        cmocka_unit_test(never_looser_under_lasting_demand),
        cmocka_unit_test(never_looser_where_the_clock_steps),
        cmocka_unit_test(a_debt_is_not_forgiven_by_an_older_settlement),
        cmocka_unit_test(a_minimum_forgotten_before_a_debt_is_found_out),
    };

    seed = draw_seed("test_settlement");
    return cmocka_run_group_tests_name("settlement", tests, NULL, NULL);
}
