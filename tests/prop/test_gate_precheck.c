/* test_gate_precheck.c - a precheck that peeks at the limits refuses nobody whom admit would admit
 * at the same time, gives the same reason, and leaves no trace.
 *
 * Random limits, in force and in shadow, on both axes and in several scopes, under either way of
 * charging. Two gates live the same life; before each of its calls one of them prechecks it.
 */
#include <string.h>

#include "draw.h"
#include "gate_kit.h"

enum { LIVES = 400, CALLS = 300, KEYS = 3 };

static uint64_t seed;

static const char *const RATES[] = {
    "gcra:limit=5,period=1000,burst=3",
    "fixed_window:limit=4,window=500",
    "sliding_window:limit=6,window=800,buckets=4",
    "sliding_log:limit=3,window=400",
    "token_bucket:capacity=4,refill=7",
};
static const char *const COSTS[] = {
    "token_bucket:capacity=60,refill=90", "gcra:limit=100,period=1000,burst=40",
    "fixed_window:limit=70,window=700",   "sliding_window:limit=80,window=900,buckets=3",
    "token_budget:budget=50,window=600",
};

struct life {
    struct draw draw;
    struct tg_store *stores[2]; /* the first prechecks */
    struct tg_gate *gates[2];
    size_t n_sets;
    tg_limits sets[2][KEYS]; /* by gate */
    enum tg_charging charging;
    bool exact; /* calls are charged what they ask for */
    tg_ms now;
    long peeks, refusals;
};

/* One or two limits: a rate, a cost, or both; each may be in shadow. */
static size_t draw_limits(struct draw *draw, struct tg_limit limits[2])
{
    size_t n = 0;
    int64_t kind = draw_between(draw, 0, 2);

    if (kind != 1)
        limits[n++] = limit_on(TG_AXIS_RATE, RATES[draw_between(draw, 0, COUNT_OF(RATES) - 1)]);
    if (kind != 0)
        limits[n++] = limit_on(TG_AXIS_COST, COSTS[draw_between(draw, 0, COUNT_OF(COSTS) - 1)]);
    for (size_t i = 0; i < n; i++)
        limits[i].mode = draw_chance(draw, 20) ? TG_SHADOW : TG_ENFORCE;
    return n;
}

static void life_open(struct life *life, uint64_t number)
{
    memset(life, 0, sizeof *life);
    life->draw = draw_stream(seed, number);
    life->now = 1000;
    life->charging = draw_chance(&life->draw, 30) ? TG_CHARGE_PER_AXIS : TG_CHARGE_ATOMIC;
    life->exact = draw_chance(&life->draw, 50);
    life->n_sets = (size_t)draw_between(&life->draw, 1, KEYS);
    for (int i = 0; i < 2; i++)
        life->stores[i] = must_store((size_t)64 * 1024, 1);
    for (size_t k = 0; k < life->n_sets; k++) {
        struct tg_limit limits[2];
        size_t n = draw_limits(&life->draw, limits);
        for (int i = 0; i < 2; i++)
            life->sets[i][k] = must_define(life->stores[i], limits, n);
    }
    for (int i = 0; i < 2; i++) {
        struct tg_gate_config config = gate_config(NULL);
        config.store = life->stores[i];
        config.seed = number;
        config.peers.on = true;
        config.peers.limit = 1000;
        life->gates[i] = must_gate(&config);
    }
}

static void life_close(struct life *life)
{
    for (int i = 0; i < 2; i++) {
        tg_gate_free(life->gates[i]);
        tg_store_free(life->stores[i]);
    }
}

static void one_call(struct life *life)
{
    static const char *const names[] = {"a", "b", "c"};
    struct tg_scope scopes[2][KEYS];
    struct tg_call calls[2];
    struct tg_answer answers[2], checked;
    int64_t guess = draw_between(&life->draw, 0, 80);
    int64_t cost = draw_chance(&life->draw, 10) ? 0 : draw_between(&life->draw, 1, 60);

    life->now += draw_between(&life->draw, 0, 60);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < life->n_sets; k++)
            scopes[i][k] = scope_of(life->sets[i][k], names[k]);
        calls[i] = call_from(TG_PRIORITY_NORMAL, "peer");
        calls[i].debit = (struct tg_debit){.scopes = scopes[i],
                                           .n_scopes = life->n_sets,
                                           .cost = cost,
                                           .charging = life->charging};
        if (life->exact)
            calls[i].factor = (struct tg_factor){1, 1, 1};
    }
    calls[0].peek = true;
    if (cost > 0) /* it is not known yet */
        calls[0].debit.cost = guess;
    checked = must_precheck(life->gates[0], &calls[0], life->now);
    calls[0].debit.cost = cost;
    bool refused = checked.reason != TG_REASON_NONE;
    tg_lease lease = checked.lease;
    assert_int_equal(checked.would_deny, 0); /* admit counts what is in shadow */
    if (refused)
        lease = 0;
    answers[0] = must_admit_checked(life->gates[0], &calls[0], lease, life->now);
    answers[1] = must_admit(life->gates[1], &calls[1], life->now);
    /* It has charged nothing, and learned nothing. */
    assert_int_equal(answers[0].reason, answers[1].reason);
    assert_int_equal(answers[0].axes.present, answers[1].axes.present);
    for (int axis = 0; axis < TG_AXIS_COUNT; axis++)
        if (answers[1].axes.present & 1u << axis)
            expect_decision("after a precheck", answers[0].axes.decision[axis],
                            answers[1].axes.decision[axis]);
    if (refused) {
        if (answers[1].reason == TG_REASON_NONE)
            fail_msg("a call of cost %lld was refused by a precheck, and is admitted (seed %llu)",
                     (long long)cost, (unsigned long long)seed);
        assert_int_equal(checked.reason, answers[1].reason);
        assert_int_equal(tg_axes_binding(&checked.axes), tg_axes_binding(&answers[1].axes));
        /* What can never fit, nobody knows before it is read; else it is the same to the hint. */
        if (life->exact && cost == guess && answers[1].decision.retry_after_ms < TG_UNSATISFIABLE)
            expect_decision("of a precheck", checked.decision, answers[1].decision);
    }
    life->peeks++;
    life->refusals += refused;
    tg_ms later = life->now + draw_between(&life->draw, 0, 30);
    int64_t actual = draw_between(&life->draw, 0, 80);
    for (int i = 0; i < 2; i++)
        if (answers[i].lease != 0)
            finish_settled(life->gates[i], answers[i].lease, later, actual);
}

static void a_precheck_refuses_nobody_whom_admit_would_admit(void **state)
{
    long peeks = 0, refusals = 0;

    (void)state;
    for (uint64_t number = 0; number < LIVES; number++) {
        struct life life;
        life_open(&life, number);
        for (int i = 0; i < CALLS; i++)
            one_call(&life);
        peeks += life.peeks;
        refusals += life.refusals;
        life_close(&life);
    }
    assert_true(refusals > peeks / 10 && refusals < peeks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_precheck_refuses_nobody_whom_admit_would_admit),
    };

    seed = draw_seed("test_gate_precheck");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
