/* test_guard.c - a guarded policy earns, at every moment, 99 % of what none would, or more.
 *
 * The run without policy is a second one, counted here and not by the guard: the same calls, one
 * budget a window or a bucket, whatever fits is admitted. Calls use what they ask for and end at
 * once, so that the shadow of the guard can know what this run does.
 */
#include <math.h>

#include "check.h"
#include "draw.h"

enum { WORLDS = 60, CALLS = 3000, WINDOW = 1000, BUDGET = 20000 };

static uint64_t seed;

struct bucket {
    tg_ms at;
    double left;
};

static void bucket_advance(struct bucket *bucket, bool steady, tg_ms now)
{
    if (steady)
        bucket->left =
            fmin(BUDGET, bucket->left + (double)BUDGET * (double)(now - bucket->at) / WINDOW);
    else if (now / WINDOW != bucket->at / WINDOW)
        bucket->left = BUDGET;
    bucket->at = now;
}

static bool bucket_take(struct bucket *bucket, int64_t cost)
{
    if (bucket->left < (double)cost)
        return false;
    bucket->left -= (double)cost;
    return true;
}

static struct tg_policy *policy_of(bool steady, bool guard)
{
    struct tg_bid_config config;
    struct tg_policy *policy = NULL;

    tg_bid_config_init(&config);
    assert_true(config.online.guard); /* the default */
    config.prices = TG_PRICES_ONLINE;
    config.online = (__typeof__(config.online)){
        .window = WINDOW, .cost_budget = BUDGET, .steady = steady, .guard = guard};
    assert_int_equal(tg_bid_new(&config, &policy, NULL), TG_OK);
    return policy;
}

/* Offers a call to the policy and to its bucket; what was earned. */
static double offer(struct tg_policy *policy, struct bucket *bucket, const struct tg_call *call,
                    tg_ms now)
{
    struct tg_spent spent = {now, call->debit.cost, call->debit.cost, 0, 0};

    if (!policy->worth(policy, call, 0, now))
        return 0;
    if (!bucket_take(bucket, call->debit.cost)) {
        policy->refused(policy, call, TG_REASON_COST, now);
        return 0;
    }
    policy->admitted(policy, call, now);
    policy->released(policy, &spent, now);
    return call->value;
}

/* Worlds that are hard on a policy: values that fall or rise by the hour, calls as large as a fifth
 * of the budget, silence and bursts. */
static void run_world(uint64_t number, bool steady, double *worst, double *unguarded)
{
    struct draw draw = draw_stream(seed, number);
    struct tg_policy *policies[2] = {policy_of(steady, true), policy_of(steady, false)};
    struct bucket buckets[3] = {{0, BUDGET}, {0, BUDGET}, {0, BUDGET}};
    double earned[3] = {0}, trend = (draw_unit(&draw) - 0.5) * 8, spread = draw_unit(&draw) * 3;
    int64_t gap = draw_between(&draw, 1, 8);
    tg_ms now = 1;

    for (int i = 0; i < CALLS; i++) {
        struct tg_call call;
        tg_call_init(&call);
        now += draw_chance(&draw, 2) ? draw_between(&draw, 0, 500) : draw_between(&draw, 0, gap);
        call.debit.cost = draw_magnitude(&draw, BUDGET / 5);
        double density = trend * (double)(now % WINDOW) / WINDOW + spread * draw_unit(&draw);
        call.value = (double)call.debit.cost * exp(density);
        for (int k = 0; k < 3; k++)
            bucket_advance(&buckets[k], steady, now);
        for (int k = 0; k < 2; k++)
            earned[k] += offer(policies[k], &buckets[k], &call, now);
        if (bucket_take(&buckets[2], call.debit.cost))
            earned[2] += call.value;
        if (earned[2] > 0)
            *worst = fmin(*worst, earned[0] / earned[2]);
        if (earned[2] > 0)
            *unguarded = fmin(*unguarded, earned[1] / earned[2]);
        if (earned[0] < 0.99 * earned[2] * (1 - 1e-9))
            fail_msg("world %llu, steady %d, call %d: earned %.17g, without policy %.17g",
                     (unsigned long long)number, steady, i, earned[0], earned[2]);
    }
    for (int k = 0; k < 2; k++)
        tg_bid_free(policies[k]);
}

static void at_every_moment_it_has_earned_99_percent_of_what_none_would(void **state)
{
    (void)state;
    for (int steady = 0; steady < 2; steady++) {
        double worst = 1, unguarded = 1;
        for (uint64_t world = 0; world < WORLDS; world++)
            run_world(world, steady, &worst, &unguarded);
        print_message("steady %d: worst moment %.4f, without guard %.4f\n", steady, worst,
                      unguarded);
        assert_true(unguarded < 0.9); /* else these worlds would show nothing */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_moment_it_has_earned_99_percent_of_what_none_would),
    };

    seed = draw_seed("test_guard");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
