/* test_hints.c - the limit that a refusal names is used up, no other takes longer, and the hint is
 * true: after it, with nobody else coming, the call passes.
 *
 * Random trees: a tenant with up to three parents, a user of each, and lines for a model; each
 * scope has some limits of all six kinds. The test counts for itself: it has a state of its own for
 * every limit, charged when a call is admitted, and for windows the list of charges, which it adds
 * up. Time is virtual.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bank_kit.h"
#include "draw.h"
#include "gate_kit.h"

enum { NAMED = 10000, HINTS = 50000, SCOPES = 6, LIMITS = 3, CHARGES = 4096 };

static uint64_t seed;

/* A limit as the test counts it. */
struct counted {
    struct tg_limit limit;
    void *state;
    size_t n;
    struct tg_charge charges[CHARGES]; /* the last ones; of windows alone */
};

struct tree {
    struct draw draw;
    struct tg_store *store;
    struct tg_gate *gate;
    struct tg_scope scopes[SCOPES];
    size_t n_scopes, n_limits[SCOPES];
    struct counted *counted[SCOPES][LIMITS];
    enum tg_charging charging;
    tg_ms now;
};

/* ---- trees ---- */

static struct tg_limit draw_limit(struct draw *draw, enum tg_axis axis)
{
    int64_t size = axis == TG_AXIS_RATE ? draw_between(draw, 1, 12) : draw_between(draw, 20, 400);
    tg_ms period = draw_between(draw, 50, 4000);
    char spec[120];

    switch (draw_between(draw, 0, axis == TG_AXIS_RATE ? 4 : 5)) {
    case 0:
        (void)snprintf(spec, sizeof spec, "gcra:limit=%lld,period=%lld,burst=%lld", (long long)size,
                       (long long)period, (long long)draw_between(draw, (size + 1) / 2, size + 3));
        break;
    case 1:
        (void)snprintf(spec, sizeof spec, "token_bucket:capacity=%lld,refill=%g", (long long)size,
                       (double)size * 1000 / (double)period);
        break;
    case 2:
        (void)snprintf(spec, sizeof spec, "fixed_window:limit=%lld,window=%lld", (long long)size,
                       (long long)period);
        break;
    case 3:
        (void)snprintf(spec, sizeof spec, "sliding_window:limit=%lld,window=%lld,buckets=%lld",
                       (long long)size, (long long)period, (long long)draw_between(draw, 1, 12));
        break;
    case 4:
        (void)snprintf(spec, sizeof spec, "sliding_log:limit=%lld,window=%lld", (long long)size,
                       (long long)period);
        break;
    default:
        (void)snprintf(spec, sizeof spec, "token_budget:budget=%lld,window=%lld", (long long)size,
                       (long long)period);
    }
    return limit_on(axis, spec);
}

static struct counted *count_limit(const struct tg_limit *limit)
{
    struct counted *counted = calloc(1, sizeof *counted);

    assert_non_null(counted);
    counted->limit = *limit;
    if (limit->axis == TG_AXIS_COST)
        tg_limiter_make_settled(&counted->limit.limiter);
    counted->state = calloc(1, counted->limit.limiter.state_bytes);
    assert_non_null(counted->state);
    counted->limit.limiter.ops->reset(&counted->limit.limiter, counted->state);
    return counted;
}

/* Which trees: all limits on one axis, or on both; charging of all kinds, or per axis alone. */
struct kind {
    enum tg_axis only; /* TG_AXIS_NONE: on either */
    bool per_axis;
};

static void tree_open(struct tree *tree, uint64_t number, struct kind kind)
{
    static const char *const names[SCOPES] = {"legal", "bob", "dept", "ann", "house", "model"};
    struct tg_gate_config config = gate_config(NULL);

    memset(tree, 0, sizeof *tree);
    tree->draw = draw_stream(seed, number);
    tree->now = draw_between(&tree->draw, 1000, 100000);
    tree->charging =
        kind.per_axis || draw_chance(&tree->draw, 30) ? TG_CHARGE_PER_AXIS : TG_CHARGE_ATOMIC;
    tree->store = must_store((size_t)256 * 1024, 1);
    config.store = tree->store;
    tree->gate = must_gate(&config);
    tree->n_scopes = (size_t)draw_between(&tree->draw, 1, SCOPES);
    for (size_t s = 0; s < tree->n_scopes; s++) {
        struct tg_limit limits[LIMITS];
        tree->n_limits[s] = (size_t)draw_between(&tree->draw, 1, LIMITS);
        for (size_t i = 0; i < tree->n_limits[s]; i++) {
            bool rate = kind.only == TG_AXIS_NONE ? draw_chance(&tree->draw, 50)
                                                  : kind.only == TG_AXIS_RATE;
            limits[i] = draw_limit(&tree->draw, rate ? TG_AXIS_RATE : TG_AXIS_COST);
            tree->counted[s][i] = count_limit(&limits[i]);
        }
        tree->scopes[s] = scope_of(must_define(tree->store, limits, tree->n_limits[s]), names[s]);
    }
}

static void tree_close(struct tree *tree)
{
    for (size_t s = 0; s < tree->n_scopes; s++)
        for (size_t i = 0; i < tree->n_limits[s]; i++) {
            free(tree->counted[s][i]->state);
            free(tree->counted[s][i]);
        }
    tg_gate_free(tree->gate);
    tg_store_free(tree->store);
}

/* ---- counting ---- */

static int64_t units_of(const struct counted *counted, int64_t cost)
{
    return counted->limit.axis == TG_AXIS_RATE ? 1 : cost;
}

static struct tg_decision peek(const struct counted *counted, tg_ms now, int64_t cost)
{
    const struct tg_limiter *limiter = &counted->limit.limiter;
    struct tg_decision answer;

    limiter->ops->peek(limiter, counted->state, now, units_of(counted, cost), &answer);
    return answer;
}

/* What a window or a log has of its limit now, added up; -1: it is neither. */
static int64_t used_in_window(const struct counted *counted, tg_ms now)
{
    const struct tg_limiter_config *config = &counted->limit.limiter.config;
    int64_t used = 0;
    tg_ms from;

    if (config->strategy == TG_SLIDING_LOG)
        from = now - config->period + 1;
    else if (config->strategy == TG_FIXED_WINDOW || config->strategy == TG_TOKEN_BUDGET)
        from = now / config->period * config->period;
    else
        return -1;
    assert_true(counted->n <= CHARGES);
    for (size_t i = 0; i < counted->n; i++)
        used += counted->charges[i].at >= from ? counted->charges[i].cost : 0;
    return used;
}

static void charge(struct tree *tree, int64_t cost, unsigned axes)
{
    for (size_t s = 0; s < tree->n_scopes; s++)
        for (size_t i = 0; i < tree->n_limits[s]; i++) {
            struct counted *counted = tree->counted[s][i];
            const struct tg_limiter *limiter = &counted->limit.limiter;
            int64_t units = units_of(counted, cost);
            if (!(axes & 1u << counted->limit.axis) || units == 0)
                continue;
            limiter->ops->take(limiter, counted->state, tree->now, units);
            counted->charges[counted->n++] = (struct tg_charge){tree->now, units};
        }
}

static struct tg_call tree_call(const struct tree *tree, int64_t cost)
{
    struct tg_call call = call_of(TG_PRIORITY_NORMAL);

    call.factor = (struct tg_factor){1, 1, 1};
    call.debit = (struct tg_debit){.scopes = tree->scopes,
                                   .n_scopes = tree->n_scopes,
                                   .cost = cost,
                                   .root = "house",
                                   .root_bytes = 5,
                                   .charging = tree->charging};
    return call;
}

/* Asks at `tree->now`, and counts what was charged. */
static struct tg_answer ask(struct tree *tree, int64_t cost)
{
    const unsigned rate = 1u << TG_AXIS_RATE, both = rate | 1u << TG_AXIS_COST;
    struct tg_call call = tree_call(tree, cost);
    struct tg_answer answer = must_admit(tree->gate, &call, tree->now);

    if (answer.lease != 0)
        finish(tree->gate, answer.lease, tree->now);
    if (answer.decision.allowed)
        charge(tree, cost, both);
    else if (tree->charging == TG_CHARGE_PER_AXIS && answer.reason == TG_REASON_COST)
        charge(tree, cost, rate);
    return answer;
}

/* ---- the promises ---- */

/* The limit that is named refuses by the test's own count, and none of its axis takes longer. */
static void expect_named(const struct tree *tree, const struct tg_answer *answer, int64_t cost)
{
    const struct tg_limit_answer *named = tg_axes_refusing(&answer->axes);
    enum tg_axis axis = tg_axes_binding(&answer->axes);
    tg_ms longest = 0;

    assert_non_null(named);
    assert_true(named->scope < tree->n_scopes && named->limit < tree->n_limits[named->scope]);
    const struct counted *counted = tree->counted[named->scope][named->limit];
    assert_int_equal(counted->limit.axis, axis);
    assert_int_equal(named->limiter->config.limit, counted->limit.limiter.config.limit);
    struct tg_decision own = peek(counted, tree->now, cost);
    assert_false(own.allowed);
    expect_decision("the limit that is named", named->decision, own);
    int64_t used = used_in_window(counted, tree->now), most = counted->limit.limiter.config.limit;
    if (used >= 0 && counted->limit.limiter.config.strategy == TG_TOKEN_BUDGET)
        assert_true(used >= most);
    else if (used >= 0)
        assert_true(used + units_of(counted, cost) > most);
    for (size_t s = 0; s < tree->n_scopes; s++)
        for (size_t i = 0; i < tree->n_limits[s]; i++)
            if (tree->counted[s][i]->limit.axis == axis) {
                own = peek(tree->counted[s][i], tree->now, cost);
                longest = own.retry_after_ms > longest ? own.retry_after_ms : longest;
            }
    assert_int_equal(named->decision.retry_after_ms, longest);
}

/* Alone, the call passes after its hint, and none that can never pass is told to come again. With
 * charging per axis a call that cost refuses has spent its rate, and the hint is true for that. */
static bool waits_and_passes(struct tree *tree, const struct tg_answer *answer, int64_t cost)
{
    if (answer->decision.retry_after_ms == TG_UNSATISFIABLE)
        return true;
    assert_true(answer->decision.retry_after_ms > 0);
    tree->now += answer->decision.retry_after_ms;
    return ask(tree, cost).decision.allowed;
}

/* Asks until so many were refused for this reason (TG_REASON_NONE: any); most are waited for. */
static void run_trees(struct kind kind, enum tg_reason reason, long most)
{
    long refused = 0, never = 0;

    for (uint64_t number = 0; refused < most; number++) {
        struct tree tree;
        tree_open(&tree, (uint64_t)kind.only * 1000000 + number, kind);
        for (int i = 0; i < 400 && refused < most; i++) {
            int64_t cost = draw_chance(&tree.draw, 2) ? 500 : draw_between(&tree.draw, 0, 60);
            tree.now += draw_chance(&tree.draw, 70) ? 0 : draw_between(&tree.draw, 0, 400);
            struct tg_answer answer = ask(&tree, cost);
            if (answer.decision.allowed)
                continue;
            expect_named(&tree, &answer, cost);
            refused += reason == TG_REASON_NONE || answer.reason == reason;
            never += answer.decision.retry_after_ms == TG_UNSATISFIABLE;
            if (draw_chance(&tree.draw, 60) && !waits_and_passes(&tree, &answer, cost))
                fail_msg("a hint of %lld ms was too short: tree %llu, seed %llu",
                         (long long)answer.decision.retry_after_ms, (unsigned long long)number,
                         (unsigned long long)seed);
        }
        tree_close(&tree);
    }
    assert_true(never < refused);
}

static void the_named_limit_is_used_up_and_takes_longest(void **state)
{
    (void)state;
    run_trees((struct kind){TG_AXIS_NONE, false}, TG_REASON_NONE, NAMED);
}

static void hints_of_rate_are_never_too_short(void **state)
{
    (void)state;
    run_trees((struct kind){TG_AXIS_RATE, false}, TG_REASON_RATE, HINTS);
}

static void hints_of_cost_are_never_too_short(void **state)
{
    (void)state;
    run_trees((struct kind){TG_AXIS_COST, false}, TG_REASON_COST, HINTS);
}

/* The axis that did not refuse may be the one that takes longer. */
static void hints_of_rate_are_true_for_cost_too(void **state)
{
    (void)state;
    run_trees((struct kind){TG_AXIS_NONE, true}, TG_REASON_RATE, HINTS);
}

static void hints_of_cost_are_true_for_the_rate_that_was_spent(void **state)
{
    (void)state;
    run_trees((struct kind){TG_AXIS_NONE, true}, TG_REASON_COST, HINTS);
}

/* A budget's hint is the end of its window. What is larger than the budget never passes. */
static void hints_of_budgets_are_never_too_short(void **state)
{
    static const enum tg_per pers[] = {TG_PER_DAY, TG_PER_WEEK, TG_PER_MONTH};
    struct draw draw = draw_stream(seed, 7);
    long refused = 0;

    (void)state;
    while (refused < HINTS) {
        struct tg_bank *bank = must_bank(16);
        tg_ms now = SUNDAY + draw_between(&draw, 0, 40 * DAY);
        tg_micro amount = draw_between(&draw, 10, 1000);
        tg_account top =
            must_open(bank, 0, "top", budget_of(amount, pers[draw_between(&draw, 0, 2)]), now);
        tg_account own = must_open(
            bank, top, "own",
            budget_of(draw_between(&draw, 10, 1000), pers[draw_between(&draw, 0, 2)]), now);
        for (int i = 0; i < 400 && refused < HINTS; i++) {
            tg_micro money = draw_between(&draw, 1, 200);
            struct tg_money_answer answer = must_ask(bank, own, money, false, now);
            for (int turns = 0; answer.reservation == 0 && turns < 2; turns++) {
                refused++;
                if (money > answer.amount)
                    break;
                assert_true(!answer.contended && answer.reset_at > now);
                now = answer.reset_at; /* the other budget may still be spent */
                answer = must_ask(bank, own, money, false, now);
            }
            if (answer.reservation != 0)
                must_spend(bank, answer.reservation, money);
            else
                assert_true(money > answer.amount);
            now += draw_between(&draw, 0, HOUR);
        }
        tg_bank_free(bank);
    }
}

/* ---- slots ---- */

enum { SLOTS_MAX = 16, WAITERS = 64, RUNS = 1000, WARM = 100 };

/* How long calls hold their slots, in ms. */
enum times { SAME, EVEN, EXPONENTIAL, LOGNORMAL, TIMES_COUNT };
static const char *const times_names[] = {"same", "even", "exponential", "lognormal"};

/* What a run is about. */
struct scene {
    enum tg_law law;
    enum times times;
    bool queue; /* calls may wait */
    bool burst; /* all calls that hold slots began at once; else the gate has been full for long */
};

struct held {
    tg_lease lease;
    tg_ms ends;
};

/* A gate whose slots are all held, and calls that wait for one. */
struct crowd {
    struct draw draw;
    struct gate_log log;
    struct tg_gate *gate;
    enum times times;
    int64_t slots; /* the most there may be */
    struct held held[SLOTS_MAX];
    struct tg_call calls[WAITERS];
    tg_lease waiting[WAITERS]; /* 0: it does not wait */
    bool admitted[WAITERS];
};

static tg_ms draw_time(struct draw *draw, enum times times)
{
    static const double MEAN = 1000;
    double u = draw_unit(draw), v = draw_unit(draw);

    switch (times) {
    case SAME:
        return (tg_ms)MEAN;
    case EVEN:
        return (tg_ms)(300 + 1400 * u);
    case EXPONENTIAL:
        return (tg_ms)(-MEAN * log(1 - u)) + 1;
    case LOGNORMAL: /* sigma 1: some calls take ten times as long as most */
    default:
        return (tg_ms)(MEAN * exp(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v) - 0.5)) + 1;
    }
}

static void hold(struct crowd *crowd, tg_lease lease, tg_ms now)
{
    size_t i = 0;

    while (crowd->held[i].lease != 0)
        i++;
    assert_true(i < (size_t)crowd->slots);
    crowd->held[i] = (struct held){lease, now + draw_time(&crowd->draw, crowd->times)};
}

/* Those that were woken continue. */
static void resume_woken(struct crowd *crowd, tg_ms now)
{
    for (int woken; (woken = next_woken(&crowd->log)) >= 0;) {
        if (crowd->waiting[woken] == 0)
            continue;
        struct tg_answer answer =
            must_resume(crowd->gate, crowd->waiting[woken], &crowd->calls[woken], now);
        crowd->waiting[woken] = 0;
        crowd->admitted[woken] = answer.decision.allowed;
        if (answer.lease != 0)
            hold(crowd, answer.lease, now);
    }
}

/* Calls end when their time comes, and nobody new arrives. */
static void pass_until(struct crowd *crowd, tg_ms until)
{
    for (;;) {
        struct held *first = NULL;
        for (size_t i = 0; i < (size_t)crowd->slots; i++)
            if (crowd->held[i].lease != 0 && crowd->held[i].ends <= until &&
                (first == NULL || crowd->held[i].ends < first->ends))
                first = &crowd->held[i];
        if (first == NULL)
            break;
        tg_lease lease = first->lease;
        tg_ms at = first->ends;
        first->lease = 0;
        tg_gate_tick(crowd->gate, at);
        resume_woken(crowd, at);
        assert_true(finish(crowd->gate, lease, at));
        resume_woken(crowd, at);
    }
    tg_gate_tick(crowd->gate, until);
    resume_woken(crowd, until);
}

/* Waiter n asks. Whether it was refused; else it holds a slot, or waits. */
static bool is_refused(struct crowd *crowd, int n, tg_ms now, tg_ms *hint)
{
    crowd->calls[n] = call_waiting(TG_PRIORITY_NORMAL, n);
    struct tg_answer answer;
    assert_int_equal(tg_gate_admit(crowd->gate, &crowd->calls[n], 0, now, &answer), TG_OK);
    if (answer.step == TG_WAITING) {
        crowd->waiting[n] = answer.lease;
        return false;
    }
    crowd->admitted[n] = answer.decision.allowed;
    if (answer.decision.allowed)
        hold(crowd, answer.lease, now);
    else
        assert_true(answer.client_wait_ms >= answer.decision.retry_after_ms);
    *hint = answer.client_wait_ms;
    return !answer.decision.allowed;
}

static int free_waiter(const struct crowd *crowd)
{
    int n = 0;

    while (crowd->waiting[n] != 0)
        n++;
    assert_true(n < WAITERS - 1);
    return n;
}

static void open_crowd(struct crowd *crowd, uint64_t number, struct scene scene)
{
    bool learns = scene.law != TG_LAW_NONE && scene.law != TG_LAW_FIXED;

    memset(crowd, 0, sizeof *crowd);
    crowd->draw = draw_stream(seed, 50000000 + number);
    crowd->times = scene.times;
    crowd->slots = draw_between(&crowd->draw, 1, SLOTS_MAX);
    struct tg_gate_config config = gate_config_slots(&crowd->log, crowd->slots);
    tg_law_config_choose(&config.concurrency.law, scene.law);
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = crowd->slots;
    config.concurrency.law.max = scene.law == TG_LAW_NONE ? crowd->slots : SLOTS_MAX;
    if (learns)
        crowd->slots = SLOTS_MAX;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = scene.queue ? TG_WAIT_AUTO : 0;
    config.concurrency.queue_size = scene.queue ? (int)draw_between(&crowd->draw, 1, 32) : 0;
    crowd->gate = must_gate(&config);
}

/* One run: a gate in use for a while, then so many calls that one is refused. Whether that one,
 * back after its hint, gets a slot. */
static bool finds_a_slot(uint64_t number, struct scene scene)
{
    static struct crowd crowd;
    tg_ms now = 100000, hint = 0;
    struct tg_gate_stats stats;
    bool refused = false;

    open_crowd(&crowd, number, scene);
    for (int i = 0; i < WARM; i++) { /* so that the gate knows how long calls take */
        tg_gate_get_stats(crowd.gate, &stats);
        double pace = scene.burst ? 1.5 : 0.5; /* times what the slots can do */
        now += (tg_ms)(-pace * 1000 / (double)stats.limit * log(1 - draw_unit(&crowd.draw)));
        pass_until(&crowd, now);
        refused = is_refused(&crowd, free_waiter(&crowd), now, &hint);
    }
    if (scene.burst)
        pass_until(&crowd, now += 60000);
    for (refused = refused && !scene.burst; !refused;) {
        if (!scene.burst)
            pass_until(&crowd, now += draw_between(&crowd.draw, 0, 20));
        refused = is_refused(&crowd, free_waiter(&crowd), now, &hint);
    }
    assert_true(hint >= 1);
    pass_until(&crowd, now + hint);
    now += hint;
    bool found = !is_refused(&crowd, WAITERS - 1, now, &hint);
    if (crowd.waiting[WAITERS - 1] != 0) {
        pass_until(&crowd, now + 60000);
        found = crowd.admitted[WAITERS - 1];
    }
    tg_gate_free(crowd.gate);
    return found;
}

/* aimd lowers its limit for each call that takes twice as long as the fastest: with such times most
 * come back to a limit that is not the one they were told of. */
static int of_100(struct scene scene)
{
    bool varied = scene.times == EXPONENTIAL || scene.times == LOGNORMAL;

    return scene.law == TG_LAW_AIMD && varied ? 80 : 95;
}

/* By each law, with a queue and without, in a burst and under lasting overload. */
static void who_comes_back_for_a_slot_finds_one(void **state)
{
    (void)state;
    for (int law = 0; law < TG_LAW_COUNT; law++)
        for (int times = 0; times < TIMES_COUNT; times++)
            for (int kind = 0; kind < 4; kind++) {
                struct scene scene = {(enum tg_law)law, (enum times)times, kind & 1, kind & 2};
                long found = 0;
                for (uint64_t number = 0; number < RUNS; number++)
                    found += finds_a_slot(number, scene);
                if (found < RUNS * of_100(scene) / 100)
                    fail_msg("law %s, %s times, %s, %s: %ld of %d found a slot",
                             tg_law_name(scene.law), times_names[times],
                             scene.queue ? "a queue" : "no queue",
                             scene.burst ? "a burst" : "lasting overload", found, RUNS);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_named_limit_is_used_up_and_takes_longest),
        cmocka_unit_test(hints_of_rate_are_never_too_short),
        cmocka_unit_test(hints_of_cost_are_never_too_short),
        cmocka_unit_test(hints_of_rate_are_true_for_cost_too),
        cmocka_unit_test(hints_of_cost_are_true_for_the_rate_that_was_spent),
        cmocka_unit_test(hints_of_budgets_are_never_too_short),
        cmocka_unit_test(who_comes_back_for_a_slot_finds_one),
    };

    seed = draw_seed("test_hints");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
