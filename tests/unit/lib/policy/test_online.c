/* test_online.c - prices that follow what is left and what is still to come. */
#include <math.h>
#include <string.h>

#include "fluid_kit.h"
#include "world_kit.h"

static const tg_ms WINDOW = 60000;

static struct tg_call call_of(int64_t cost, double value, double hold_s)
{
    struct tg_call call;

    tg_call_init(&call);
    call.debit.cost = cost;
    call.value = value;
    call.hold_s = hold_s;
    return call;
}

static bool worth(struct tg_policy *policy, struct tg_call call, tg_ms now)
{
    return policy->worth(policy, &call, 0, now);
}

/* Asks, and takes what is admitted. */
static bool offer(struct tg_policy *policy, struct tg_call call, tg_ms now)
{
    bool is_worth = worth(policy, call, now);

    if (is_worth)
        policy->admitted(policy, &call, now);
    return is_worth;
}

static void release(struct tg_policy *policy, tg_ms admitted_at, int64_t cost, int64_t actual,
                    tg_ms now)
{
    struct tg_spent spent = {admitted_at, cost, actual, 0, 0};

    policy->released(policy, &spent, now);
}

static struct tg_duals duals_of(struct tg_policy *policy)
{
    struct tg_duals duals;

    tg_bid_get_duals(policy, &duals);
    assert_true(isfinite(duals.rate) && duals.rate >= 0);
    assert_true(isfinite(duals.cost) && duals.cost >= 0);
    assert_true(isfinite(duals.concurrency) && duals.concurrency >= 0);
    return duals;
}

static void expect_same_prices(struct tg_policy *one, struct tg_policy *other)
{
    struct tg_duals a = duals_of(one), b = duals_of(other);

    expect_near(a.rate, b.rate, 1e-6 * b.rate);
    expect_near(a.cost, b.cost, 1e-6 * b.cost);
    expect_near(a.concurrency, b.concurrency, 1e-6 * b.concurrency);
}

/* A policy with a window's budget of cost, and no expectations. */
static struct tg_policy *with_cost(double budget, bool steady)
{
    struct world world;

    world_init(&world);
    world.cost_budget = budget;
    world.steady = steady;
    return world_online(&world, NULL);
}

static struct world_result run(const struct world *world, uint64_t stream_number, double *hindsight)
{
    struct draw draw = draw_stream(stream_number, 0);
    struct world_stream stream = world_draw(world, &draw);
    struct tg_policy *policy = world_online(world, NULL);
    struct world_result result = world_run(world, &stream, policy);

    if (hindsight)
        *hindsight = world_hindsight(world, &stream);
    tg_bid_free(policy);
    world_stream_free(&stream);
    return result;
}

/* ---- what is admitted ---- */

/* Room for twice what comes. */
static void where_nothing_is_scarce_everything_is_admitted(void **state)
{
    (void)state;

    for (unsigned axes = 1; axes < 8; axes++)
        for (int steady = 0; steady < 2; steady++) {
            struct world world;
            world_init(&world);
            world.types[0].hold_s = 1;
            world.types[1].hold_s = 3;
            world.rate_budget = axes & 1 ? 1200 : 0;
            world.cost_budget = axes & 2 ? 120000 : 0;
            world.slots = axes & 4 ? 60 : 0;
            world.steady = steady;
            struct world_result result = run(&world, axes, NULL);
            assert_true(result.full == 0);
            if (result.denied > 0)
                fail_msg("axes %u, steady %d: %g are denied", axes, steady, result.denied);
        }
}

/* The example by which the policy is explained: many small calls, worth more a unit than the few
 * large ones that alone would use up everything. */
static void small_calls_are_not_crowded_out_by_large_ones(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        double hindsight;
        struct world world;
        world_init(&world);
        world.types[0].cost = 100;
        world.types[0].value = 1;
        world.types[1].cost = 10000;
        world.types[1].value = 50;
        world.calls_a_window[0] = 1000;
        world.cost_budget = 50000;
        world.steady = steady;
        struct world_result result = run(&world, 1, &hindsight);
        print_message("%.2f %% of hindsight\n", 100 * result.earned / hindsight);
        assert_true(result.earned >= 0.97 * hindsight);
    }
}

/* All of the better type fits, and three tenths of the other. */
static void a_marginal_type_is_rationed_at_its_fraction(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++)
        for (int by_rate = 0; by_rate < 2; by_rate++) {
            struct world world;
            world_init(&world);
            world.cost_budget = by_rate ? 0 : 39000;
            world.rate_budget = by_rate ? 390 : 0;
            world.steady = steady;
            struct world_result result = run(&world, 2, NULL);
            double other = result.admitted[0] / result.came[0];
            double better = result.admitted[1] / result.came[1];
            print_message("%s by %s: %.3f of the better type, %.3f of the other\n",
                          steady ? "steadily" : "by window", by_rate ? "rate" : "cost", better,
                          other);
            assert_true(better > 0.97);
            expect_near(other, 0.3, 0.1);
        }
}

/* Where each type is short of another budget, one is rationed by cost and one by rate: the fluid
 * program takes parts of both, and so does the policy. */
static void two_budgets_ration_two_types(void **state)
{
    struct world world;
    struct tg_type types[WORLD_TYPES_MAX];
    struct tg_duals duals;
    double x[WORLD_TYPES_MAX], hindsight;
    (void)state;

    world_init(&world);
    world.types[0].cost = 10;
    world.types[0].value = 1;
    world.types[1].cost = 100;
    world.types[1].value = 4;
    world.rate_budget = 300;
    world.cost_budget = 16500;
    struct tg_workload mean = world_workload(&world, types);
    assert_int_equal(tg_fluid_solve(&mean, &duals, x, NULL, NULL), TG_OK);
    assert_true(duals.rate > 0 && duals.cost > 0 && x[0] < 0.6 && x[1] < 0.6);
    struct world_result result = run(&world, 3, &hindsight);
    for (int i = 0; i < 2; i++)
        expect_near(result.admitted[i] / result.came[i], x[i], 0.1);
    assert_true(result.earned > 0.97 * hindsight);
}

static void prices_are_those_of_the_fluid_program(void **state)
{
    struct draw draw = draw_stream(4, 0);
    struct world world;
    (void)state;

    world_init(&world);
    world.cost_budget = 39000;
    struct world_stream stream = world_draw(&world, &draw);
    struct tg_policy *policy = world_online(&world, NULL);
    (void)world_run(&world, &stream, policy);
    struct tg_duals duals = duals_of(policy);
    /* At the end of a window it may be any that the futures leave open: of a call worth 1 to 3. */
    assert_true(duals.rate == 0 && duals.concurrency == 0);
    assert_true(duals.cost <= 0.03 * 1.02);
    for (int i = 0; i < 20; i++) /* and at the beginning it is that of the marginal type */
        (void)worth(policy, call_of(100, i % 2 ? 3 : 1, 0), 20 * WINDOW + i * 100);
    expect_near(duals_of(policy).cost, 0.01, 0.002);
    tg_bid_free(policy);
    world_stream_free(&stream);
}

/* Dear calls that are larger than the whole budget come again and again, and nobody can have them.
 */
static void nothing_is_saved_for_calls_that_no_budget_can_hold(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct tg_policy *policy = with_cost(10000, steady);
        int admitted = 0;
        for (tg_ms now = 0; now < 4 * WINDOW; now += 1000) { /* 60 of 100 units in a window */
            if (now % 10000 == 0)
                (void)worth(policy, call_of(10001, 1e6, 0), now);
            admitted += offer(policy, call_of(100, 1, 0), now);
        }
        assert_int_equal(admitted, 240);
        assert_false(worth(policy, call_of(10000, 1, 0), 4 * WINDOW - 1));
        tg_bid_free(policy);
    }
}

/* ---- slots ---- */

/* Calls of 0.1 s worth 2 come now and then; long ones worth 3 would hold all slots for them. */
static void a_long_call_leaves_slots_to_better_short_ones(void **state)
{
    struct world world;
    struct tg_policy *policy;
    (void)state;

    world_init(&world);
    world.cost_budget = 0;
    world.slots = 10;
    policy = world_online(&world, NULL);
    struct tg_call brief = call_of(1, 2, 0.1), hog = call_of(1, 3, 30);
    tg_ms now = 0;
    for (; now < 2 * WINDOW; now += 100) {
        (void)policy->worth(policy, &brief, 1, now);
        (void)policy->worth(policy, &hog, 1, now);
    }
    assert_true(policy->worth(policy, &brief, 10, now)); /* the best may have the last one */
    assert_false(policy->worth(policy, &hog, 10, now));
    assert_true(policy->worth(policy, &hog, 8, now));   /* two are enough to keep: they are brief */
    assert_true(policy->worth(policy, &brief, 0, now)); /* not known: there is no such rule */
    tg_bid_free(policy);
}

/* Slots would be kept for a gain that is not there: those that come are hardly better. */
static void the_nearer_two_kinds_are_the_fewer_slots_are_kept(void **state)
{
    static const double values[] = {18, 4, 1}; /* 20 would be as good as the better ones */
    int64_t kept[COUNT_OF(values)];
    (void)state;

    for (size_t i = 0; i < COUNT_OF(values); i++) {
        struct world world;
        world_init(&world);
        world.cost_budget = 0;
        world.slots = 20;
        struct tg_policy *policy = world_online(&world, NULL);
        struct tg_call brief = call_of(1, 2, 1), longer = call_of(1, values[i], 10);
        tg_ms now = 0;
        for (; now < 2 * WINDOW; now += 100) { /* some 9 of the better ones at once */
            if (now % 1000 != 0)
                (void)offer(policy, brief, now);
            (void)worth(policy, longer, now);
        }
        for (kept[i] = 0; kept[i] < 20; kept[i]++)
            if (policy->worth(policy, &longer, 20 - kept[i], now))
                break;
        tg_bid_free(policy);
    }
    if (!(kept[0] <= 1 && kept[0] < kept[1] && kept[1] < kept[2]))
        fail_msg("kept are %d, %d, %d", (int)kept[0], (int)kept[1], (int)kept[2]);
}

static void where_slots_are_ample_none_are_kept(void **state)
{
    struct world world;
    (void)state;

    world_init(&world);
    world.cost_budget = 0;
    world.slots = 1000;
    struct tg_policy *policy = world_online(&world, NULL);
    struct tg_call brief = call_of(1, 2, 0.1), hog = call_of(1, 3, 30);
    for (tg_ms now = 0; now < 2 * WINDOW; now += 100) {
        (void)policy->worth(policy, &brief, 1, now);
        assert_true(now < WINDOW || policy->worth(policy, &hog, 1000, now));
    }
    tg_bid_free(policy);
}

static void hold_and_value_that_are_none_count_as_0(void **state)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, -3, -0.0};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        struct world world;
        world_init(&world);
        world.slots = 5;
        struct tg_policy *one = world_online(&world, NULL), *other = world_online(&world, NULL);
        for (tg_ms now = 0; now < 3 * WINDOW; now += 90) {
            bool is_odd = now % 4 == 0, of_hold = now % 8 == 0;
            struct tg_call call = call_of(100, 1 + (double)(now % 7), 0.2), same = call;
            if (is_odd)
                *(of_hold ? &call.hold_s : &call.value) = odd[i];
            if (is_odd)
                *(of_hold ? &same.hold_s : &same.value) = 0;
            if (is_odd && !of_hold && odd[i] == INFINITY)
                same.value = (double)TG_NUMBER_MAX; /* so much is known of it */
            assert_int_equal(offer(one, call, now), offer(other, same, now));
        }
        expect_same_prices(one, other);
        tg_bid_free(one);
        tg_bid_free(other);
    }
}

/* ---- what is given back ---- */

/* Makes prices anew, and looks at them. */
static void reprice(struct tg_policy *policy, tg_ms from)
{
    for (int i = 0; i < 40; i++)
        (void)worth(policy, call_of(100, i % 2 ? 3 : 1, 0), from + i * 10);
}

/* Two types of call, too many; half a window. */
static void feed(struct tg_policy *policy, tg_ms from)
{
    for (tg_ms now = 0; now < WINDOW / 2; now += 100)
        (void)worth(policy, call_of(100, now % 200 ? 3 : 1, 0), from + now);
}

static void less_than_reckoned_gives_budget_back(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct tg_policy *never = with_cost(39000, steady), *back = with_cost(39000, steady);
        struct tg_policy *spent = with_cost(39000, steady);
        struct tg_call large = call_of(30000, 1000, 0);
        struct tg_policy *all[] = {never, back, spent};
        for (size_t i = 0; i < 3; i++)
            feed(all[i], 0);
        back->admitted(back, &large, WINDOW / 2);
        spent->admitted(spent, &large, WINDOW / 2);
        release(back, WINDOW / 2, 30000, 0, WINDOW / 2 + 1);
        release(spent, WINDOW / 2, 30000, 30000, WINDOW / 2 + 1);
        for (size_t i = 0; i < 3; i++)
            reprice(all[i], WINDOW / 2 + 200);
        expect_same_prices(back, never);
        assert_true(duals_of(spent).cost > 1.5 * duals_of(never).cost);
        for (size_t i = 0; i < 3; i++)
            tg_bid_free(all[i]);
    }
}

static void more_than_reckoned_is_taken_too(void **state)
{
    struct tg_policy *at_once = with_cost(39000, false), *later = with_cost(39000, false);
    struct tg_call known = call_of(30000, 1000, 0), guessed = call_of(10, 1000, 0);
    (void)state;

    feed(at_once, 0);
    feed(later, 0);
    at_once->admitted(at_once, &known, WINDOW / 2);
    later->admitted(later, &guessed, WINDOW / 2);
    release(later, WINDOW / 2, 10, 30000, WINDOW / 2);
    reprice(at_once, WINDOW / 2 + 200);
    reprice(later, WINDOW / 2 + 200);
    expect_same_prices(at_once, later);
    tg_bid_free(at_once);
    tg_bid_free(later);
}

static void what_belongs_to_a_window_that_is_over_changes_nothing(void **state)
{
    struct tg_policy *quiet = with_cost(39000, false), *late = with_cost(39000, false);
    struct tg_call large = call_of(30000, 1000, 0);
    (void)state;

    feed(quiet, 0);
    feed(late, 0);
    late->admitted(late, &large, WINDOW - 1);
    feed(quiet, WINDOW);
    feed(late, WINDOW);
    release(late, WINDOW - 1, 30000, 0, WINDOW + WINDOW / 2);
    release(late, WINDOW - 1, 10, 1000000, WINDOW + WINDOW / 2);
    reprice(quiet, WINDOW + WINDOW / 2);
    reprice(late, WINDOW + WINDOW / 2);
    expect_same_prices(quiet, late);
    tg_bid_free(quiet);
    tg_bid_free(late);
}

/* A call can be judged in one window and be admitted in the next, when a store elsewhere has
 * answered: the next one pays for it. */
static void who_is_admitted_in_a_window_is_paid_by_it(void **state)
{
    struct tg_policy *before = with_cost(39000, false), *after = with_cost(39000, false);
    struct tg_call large = call_of(30000, 1000, 0);
    (void)state;

    feed(before, 0);
    feed(after, 0);
    before->admitted(before, &large, WINDOW + 5); /* the first it hears of this window */
    (void)worth(after, call_of(100, 3, 0), WINDOW + 5);
    (void)worth(before, call_of(100, 3, 0), WINDOW + 5);
    after->admitted(after, &large, WINDOW + 5);
    feed(before, WINDOW + 10);
    feed(after, WINDOW + 10);
    expect_same_prices(before, after);
    tg_bid_free(before);
    tg_bid_free(after);
}

/* ---- time ---- */

static void a_clock_that_steps_back_is_one_that_stands_still(void **state)
{
    struct draw draw = draw_stream(5, 0);
    tg_ms now = 5 * WINDOW, latest = 0;
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct tg_policy *back = with_cost(39000, steady), *still = with_cost(39000, steady);
        for (int i = 0; i < 3000; i++) {
            struct tg_call call = call_of(draw_between(&draw, 1, 200), draw_unit(&draw) * 5, 0);
            now += draw_chance(&draw, 10) ? draw_between(&draw, -20000, 0) : 150;
            latest = now > latest ? now : latest;
            assert_int_equal(offer(back, call, now), offer(still, call, latest));
        }
        expect_same_prices(back, still);
        tg_bid_free(back);
        tg_bid_free(still);
    }
}

/* A bucket that has stood for a window is full, however scarce things were before. */
static void after_a_silence_the_first_call_is_admitted(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct tg_policy *policy = with_cost(10000, steady);
        tg_ms now = 0;
        for (; now < 5 * WINDOW; now += 50)
            (void)offer(policy, call_of(100, now % 100 ? 3 : 1, 0), now);
        assert_false(worth(policy, call_of(100, 1, 0), now - 50));
        for (int i = 0; i < 20; i++) {
            now += 40 * WINDOW;
            if (!offer(policy, call_of(100, 1, 0), now))
                fail_msg("steady %d: refused as number %d after a silence", steady, i);
        }
        tg_bid_free(policy);
    }
}

static void years_may_pass_between_two_calls(void **state)
{
    (void)state;

    for (int steady = 0; steady < 2; steady++) {
        struct tg_policy *policy = with_cost(10000, steady);
        for (tg_ms now = 0; now < TG_NUMBER_MAX - 1000; now = 2 * now + 86400000) {
            (void)offer(policy, call_of(100, 1, 0), now);
            (void)duals_of(policy);
        }
        assert_true(offer(policy, call_of(1, 1, 0), TG_NUMBER_MAX));
        tg_bid_free(policy);
    }
}

static void the_same_calls_get_the_same_answers(void **state)
{
    struct world world;
    (void)state;

    world_init(&world);
    world.types[0].hold_s = 2;
    world.types[1].hold_s = 1;
    world.rate_budget = 400;
    world.slots = 10;
    struct world_result one = run(&world, 6, NULL), other = run(&world, 6, NULL);
    assert_memory_equal(&one, &other, sizeof one);
    assert_true(one.denied > 0 && one.earned > 0);
}

/* ---- numbers ---- */

static void offer_extremes(struct tg_policy *policy, tg_ms begin)
{
    static const double values[] = {0, 4.9e-324, 1e-300, 1e-9, 1, 1e18, 1e300, INFINITY};
    static const double holds[] = {0, 1e-300, 1, 1e300};
    static const int64_t costs[] = {0, 1, TG_NUMBER_MAX};
    tg_ms now = begin;

    for (int again = 0; again < 3; again++)
        for (size_t v = 0; v < COUNT_OF(values); v++)
            for (size_t h = 0; h < COUNT_OF(holds); h++)
                for (size_t c = 0; c < COUNT_OF(costs); c++) {
                    struct tg_call call = call_of(costs[c], values[v], holds[h]);
                    struct tg_spent spent = {now, costs[c], c ? 0 : TG_NUMBER_MAX, holds[h], 1};
                    bool is_worth = policy->worth(policy, &call, (int64_t)(now % 3), now);
                    if (is_worth || again == 1)
                        policy->admitted(policy, &call, now);
                    if (now % 5 == 0)
                        policy->released(policy, &spent, now);
                    (void)duals_of(policy);
                    now += 200;
                }
}

static void extreme_numbers_leave_it_as_it_was(void **state)
{
    static const double budgets[] = {1e-300, 1e-6, 1, 1e300};
    (void)state;

    for (size_t b = 0; b < COUNT_OF(budgets); b++)
        for (unsigned axes = 1; axes < 16; axes++) {
            struct tg_bid_config config;
            struct tg_policy *policy = NULL;
            struct tg_type type = {1e18, 1e18, 1e18, TG_NO_HOLD};
            tg_bid_config_init(&config);
            config.prices = TG_PRICES_ONLINE;
            config.online.guard = false;
            config.online.rate_budget = axes & 1 ? budgets[b] : 0;
            config.online.cost_budget = axes & 2 ? budgets[b] : 0;
            config.online.conc_budget_s = axes & 4 ? budgets[b] : 0;
            config.online.steady = axes & 8;
            if (axes % 3 == 0) {
                config.workload.types = &type;
                config.workload.n_types = 1;
                config.workload.arrivals = 1e18;
                config.workload.rate_budget = config.workload.cost_budget = 1;
            }
            if ((axes & 7) == 0)
                continue;
            assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
            offer_extremes(policy, 0);
            /* When it has all passed away, usual calls are admitted as ever. */
            for (int i = 0; i < 40; i++)
                (void)offer(policy, call_of(0, 1, 0), 50 * WINDOW + i);
            bool one_fits = !(axes & 1) || budgets[b] >= 1;
            for (int i = 0; i < 20 && one_fits; i++)
                if (!offer(policy, call_of(0, 1, 0), 100 * WINDOW + i * WINDOW))
                    fail_msg("budget %g, axes %u: number %d is refused", budgets[b], axes, i);
            tg_bid_free(policy);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_nothing_is_scarce_everything_is_admitted),
        cmocka_unit_test(small_calls_are_not_crowded_out_by_large_ones),
        cmocka_unit_test(a_marginal_type_is_rationed_at_its_fraction),
        cmocka_unit_test(two_budgets_ration_two_types),
        cmocka_unit_test(prices_are_those_of_the_fluid_program),
        cmocka_unit_test(nothing_is_saved_for_calls_that_no_budget_can_hold),
        cmocka_unit_test(a_long_call_leaves_slots_to_better_short_ones),
        cmocka_unit_test(the_nearer_two_kinds_are_the_fewer_slots_are_kept),
        cmocka_unit_test(where_slots_are_ample_none_are_kept),
        cmocka_unit_test(hold_and_value_that_are_none_count_as_0),
        cmocka_unit_test(less_than_reckoned_gives_budget_back),
        cmocka_unit_test(more_than_reckoned_is_taken_too),
        cmocka_unit_test(what_belongs_to_a_window_that_is_over_changes_nothing),
        cmocka_unit_test(who_is_admitted_in_a_window_is_paid_by_it),
        cmocka_unit_test(a_clock_that_steps_back_is_one_that_stands_still),
        cmocka_unit_test(after_a_silence_the_first_call_is_admitted),
        cmocka_unit_test(years_may_pass_between_two_calls),
        cmocka_unit_test(the_same_calls_get_the_same_answers),
        cmocka_unit_test(extreme_numbers_leave_it_as_it_was),
    };
    return cmocka_run_group_tests_name("online", tests, NULL, NULL);
}
