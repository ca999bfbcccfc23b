/* test_gate_charge.c - calls are charged what calls like them have used, within bounds.
 *
 * The promise over all spans is in tests/prop/test_charge.c.
 */
#include <stdio.h>
#include <string.h>

#include <math.h>

#include "draw.h"
#include "gate_kit.h"
#include "lib/admission/gate.h"

enum { NOW = 1000000,
       STORE_BYTES = 1 << 22 };

struct kit {
    struct gate_log log;
    struct tg_store *store;
    struct tg_gate_config config;
    struct tg_gate *gate;
    tg_limits set;
    struct tg_scope scope;
    struct tg_call call;
};

static void open_kit(struct kit *kit, const char *spec, int64_t overdraft, int64_t max_learned)
{
    struct tg_limit limit = limit_on(TG_AXIS_COST, spec);

    *kit = (struct kit){.store = must_store(STORE_BYTES, 1)};
    limit.overdraft = overdraft;
    kit->set = must_define(kit->store, &limit, 1);
    kit->scope = scope_of(kit->set, "tenant");
    kit->config = gate_config(&kit->log);
    kit->config.store = kit->store;
    kit->config.max_learned = max_learned;
    kit->gate = must_gate(&kit->config);
    kit->call = call_of(TG_PRIORITY_NORMAL);
    kit->call.debit = debit_of(&kit->scope, 1000);
    call_set_tenant(&kit->call, "tenant", 1);
    kit->call.like = "model";
    kit->call.like_bytes = 5;
}

static void close_kit(struct kit *kit)
{
    expect_idle(kit->gate);
    tg_gate_free(kit->gate);
    tg_store_free(kit->store);
}

static struct tg_expectation expected(const struct kit *kit)
{
    struct tg_expectation expectation;

    assert_int_equal(tg_gate_expect(kit->gate, &kit->call, &expectation), TG_OK);
    return expectation;
}

/* Calls of `asked` that use `used`, one after the other. */
static void teach(struct kit *kit, int n, int64_t asked, int64_t used)
{
    struct tg_call call = kit->call;

    call.debit.cost = asked;
    for (int i = 0; i < n; i++)
        assert_true(finish_settled(kit->gate, must_allow(kit->gate, &call, NOW), NOW, used));
}

static void expect_factor(const struct kit *kit, double want)
{
    double got = expected(kit).factor;

    if (got < want - 0.004 || got > want + 0.004)
        fail_msg("the factor is %g, not %g", got, want);
}

static const char LARGE[] = "fixed_window:limit=1000000000000000,window=1000000000";

static void the_mean_is_learned_from_a_start_of_one(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    expect_factor(&kit, 1);
    assert_true(finish(kit.gate, must_allow(kit.gate, &kit.call, NOW), NOW)); /* nobody knows */
    assert_int_equal(must_admit(kit.gate, &kit.call, NOW).charge, 1000);
    tg_gate_tick(kit.gate, NOW + 600000);
    teach(&kit, 1, 1000, 100);
    expect_factor(&kit, (4 + 0.1) / 5);
    assert_int_equal(expected(&kit).charge, 820);
    teach(&kit, 59, 1000, 100);
    expect_factor(&kit, (4 + 6.0) / 64);
    teach(&kit, 400, 1000, 100);
    expect_factor(&kit, 0.1);
    struct tg_answer answer = must_admit(kit.gate, &kit.call, NOW);
    assert_in_range(answer.charge, 100, 101);
    assert_true(finish(kit.gate, answer.lease, NOW));
    teach(&kit, 1000, 1000, 1);
    expect_factor(&kit, TG_FACTOR_MIN);
    teach(&kit, 1000, 1000, 100000);
    expect_factor(&kit, TG_FACTOR_MAX);
    close_kit(&kit);
}

/* The sum of what is charged is what is used, not the mean of what each has used. */
static void calls_count_by_what_they_ask_for(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    for (int i = 0; i < 200; i++) {
        teach(&kit, 1, 2000, 1900);
        teach(&kit, 1, 1000, 100);
    }
    expect_factor(&kit, 2000.0 / 3000);
    close_kit(&kit);
}

/* The mean of calls that are alike, as charge.h describes it. */
struct mean {
    double asked, factor;
    int samples;
};

static void mean_learn(struct mean *mean, double start, double asked, double used)
{
    if (mean->samples == 0)
        *mean = (struct mean){asked, start, 4};
    double all = mean->asked, sum = mean->factor * all;
    double counted = fmin(asked, 4 * all);
    used = fmin(used, TG_FACTOR_MAX * asked) * counted / asked;
    mean->samples += mean->samples < 64;
    sum += (used - sum) / mean->samples;
    mean->asked = all + (counted - all) / mean->samples;
    mean->factor = sum / mean->asked;
}

/* A key on whose overdraft calls in flight draw is known, but nothing is known of what they use. */
static void calls_in_flight_teach_nothing(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 100000, 100);
    kit.call.like = NULL;
    kit.call.factor = (struct tg_factor){0.5, TG_FACTOR_MIN, TG_FACTOR_MAX};
    tg_lease leases[3];
    for (int i = 0; i < 3; i++) {
        struct tg_answer answer = must_admit(kit.gate, &kit.call, NOW);
        assert_int_equal(answer.charge, 500);
        assert_true(answer.factor >= 0.5 && answer.factor <= 0.5);
        leases[i] = answer.lease;
    }
    for (int i = 0; i < 3; i++)
        assert_true(finish_as(kit.gate, leases[i], NOW, TG_OUTCOME_CANCELLED));
    close_kit(&kit);
}

/* Calls of all sizes, which use more than they ask for, or little, or fail; and any start. */
static void the_mean_is_what_its_formula_says(void **state)
{
    struct draw draw = draw_stream(draw_seed("gate_charge"), 1);
    (void)state;

    for (int life = 0; life < 40; life++) {
        struct mean mean = {.samples = 0};
        struct kit kit;
        /* A ticket keeps the start in so many parts. */
        double start = (double)draw_between(&draw, 1000, 30000) / 16384;
        open_kit(&kit, LARGE, 0, 100);
        kit.call.factor = (struct tg_factor){start, TG_FACTOR_MIN, TG_FACTOR_MAX};
        for (int i = 0; i < 200; i++) {
            double want = mean.samples > 0 ? mean.factor : start;
            double got = expected(&kit).factor;
            want = fmin(fmax(want, TG_FACTOR_MIN), TG_FACTOR_MAX);
            if (fabs(got - want) > 1e-5 * want)
                fail_msg("life %d, call %d: the factor is %g, not %g", life, i, got, want);
            int64_t asked = draw_magnitude(&draw, 100000);
            int64_t used = draw_chance(&draw, 10) ? 0 : draw_between(&draw, 0, 4 * asked);
            teach(&kit, 1, asked, used);
            if (used > 0)
                mean_learn(&mean, start, (double)asked, (double)used);
        }
        close_kit(&kit);
    }
}

static void one_call_changes_little_whatever_it_says(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    teach(&kit, 400, 1000, 500);
    expect_factor(&kit, 0.5);
    teach(&kit, 1, 1000, 900000000);
    expect_factor(&kit, 0.5 + 2.5 / 64);
    teach(&kit, 400, 1000, 500);
    teach(&kit, 1, 900000000, 1);
    expect_factor(&kit, 0.5 * 63 / 67);
    teach(&kit, 100, 1000, 0); /* it failed, and says nothing */
    expect_factor(&kit, 0.5 * 63 / 67);
    close_kit(&kit);
}

static void nobody_teaches_the_gate_about_others(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    teach(&kit, 400, 1000, 100);
    call_set_tenant(&kit.call, "other", 1);
    expect_factor(&kit, 1);
    call_set_tenant(&kit.call, "tenant", 1);
    kit.call.like = "other";
    expect_factor(&kit, 1);
    kit.call.like = NULL; /* like the first scope */
    expect_factor(&kit, 1);
    teach(&kit, 400, 1000, 200);
    expect_factor(&kit, 0.2);
    kit.call.factor = (struct tg_factor){0.9, 0.8, 1.2};
    expect_factor(&kit, 0.8);
    kit.call.factor = (struct tg_factor){1, 1, 1};
    assert_int_equal(expected(&kit).charge, 1000);
    kit.call.factor = (struct tg_factor){0.5, 0.6, 1};
    struct tg_answer answer;
    assert_int_equal(tg_gate_admit(kit.gate, &kit.call, 0, NOW, &answer), TG_ERR_INVALID);
    close_kit(&kit);
}

static void new_settings_keep_what_was_learned(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    teach(&kit, 400, 1000, 100);
    kit.config.lease_ttl = 5;
    must_reconfigure(kit.gate, &kit.config, NOW);
    expect_factor(&kit, 0.1);
    close_kit(&kit);
}

static void as_many_kinds_are_remembered_as_there_may_be(void **state)
{
    struct kit kit;
    char name[20];
    int known = 0;
    (void)state;

    open_kit(&kit, LARGE, 0, 0);
    teach(&kit, 100, 1000, 100);
    expect_factor(&kit, 1);
    close_kit(&kit);
    open_kit(&kit, LARGE, 0, 50);
    kit.call.like = name;
    kit.call.like_bytes = sizeof name;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 1000; i++) {
            memset(name, 0, sizeof name);
            snprintf(name, sizeof name, "model-%d", i);
            if (pass == 0)
                teach(&kit, 1, 1000, 100);
            else
                known += expected(&kit).factor < 1;
        }
    assert_in_range(known, 25, 50);
    close_kit(&kit);
}

static void bounds_of_a_factor_that_are_none_are_an_error(void **state)
{
    static const struct tg_factor wrong[] = {
        {0.5, 0.6, 1},
        {1.5, 0.6, 1.2},
        {1, TG_FACTOR_MIN / 2, 1.2},
        {1, 0.6, TG_FACTOR_MAX * 2},
    };
    struct kit kit;
    struct tg_expectation expectation;
    struct tg_answer answer;
    (void)state;

    open_kit(&kit, LARGE, 0, 100);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        kit.call.factor = wrong[i];
        assert_int_equal(tg_gate_expect(kit.gate, &kit.call, &expectation), TG_ERR_INVALID);
        assert_int_equal(tg_gate_admit(kit.gate, &kit.call, 0, NOW, &answer), TG_ERR_INVALID);
    }
    close_kit(&kit);
}

/* Two overdrafts need two places in a table of three that is full of what was learned. */
static void the_table_never_holds_more_than_it_may(void **state)
{
    struct kit kit;
    struct tg_scope scopes[2];
    (void)state;

    open_kit(&kit, LARGE, 1000000, 3);
    scopes[0] = kit.scope;
    scopes[1] = scope_of(kit.set, "parent");
    static const char *const names[] = {"one", "two", "model"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        kit.call.like = names[i];
        kit.call.like_bytes = strlen(names[i]);
        teach(&kit, 1, 1000, 100);
    }
    assert_int_equal(kit.gate->charges.table.n, 3);
    kit.call.debit = (struct tg_debit){.scopes = scopes, .n_scopes = 2, .cost = 1000};
    tg_lease lease = must_allow(kit.gate, &kit.call, NOW);
    assert_int_equal(charges_drawn(&kit.gate->charges), 2 * 180); /* 1000 - 820, of each */
    assert_in_range(kit.gate->charges.table.n, 2, 3);
    assert_true(finish(kit.gate, lease, NOW));
    assert_int_equal(charges_drawn(&kit.gate->charges), 0);
    close_kit(&kit);
}

/* The one place is the tenant's, whose call is under way: another one learns nothing meanwhile. */
static void what_is_drawn_on_is_not_forgotten(void **state)
{
    struct kit kit;
    struct tg_scope other;
    (void)state;

    open_kit(&kit, LARGE, 1000000, 1);
    kit.call.like = NULL;
    teach(&kit, 1, 1000, 100);
    expect_factor(&kit, 0.82);
    tg_lease lease = must_allow(kit.gate, &kit.call, NOW);
    assert_int_equal(charges_drawn(&kit.gate->charges), 180);
    other = scope_of(kit.set, "other");
    kit.call.debit = debit_of(&other, 1000);
    teach(&kit, 1, 1000, 100);
    expect_factor(&kit, 1);
    kit.call.debit = debit_of(&kit.scope, 1000);
    expect_factor(&kit, 0.82);
    assert_true(finish(kit.gate, lease, NOW));
    kit.call.debit = debit_of(&other, 1000);
    teach(&kit, 1, 1000, 100); /* now it may */
    expect_factor(&kit, 0.82);
    close_kit(&kit);
}

static int64_t left(const struct kit *kit)
{
    return must_peek(kit->store, kit->set, "tenant", 0, NOW).remaining;
}

/* A release that was not initialized, but set to zeros: a zero is not given, and so the charge and
 * the sample stand. What was given counts. */
static void zeros_of_a_release_say_nothing(void **state)
{
    struct tg_release release, zeros = {.outcome = TG_OUTCOME_OK};
    struct kit kit;
    (void)state;

    tg_release_init(&release);
    assert_int_equal(release.outcome, TG_OUTCOME_OK);
    assert_true(release.sample_ms == -1);
    assert_int_equal(release.actual, -1);
    assert_int_equal(release.work, -1);
    open_kit(&kit, LARGE, 0, 0);
    int64_t all = left(&kit);
    assert_true(tg_gate_release(kit.gate, must_allow(kit.gate, &kit.call, NOW), NOW, &zeros));
    assert_int_equal(left(&kit), all - 1000);
    zeros.actual = 300;
    assert_true(tg_gate_release(kit.gate, must_allow(kit.gate, &kit.call, NOW), NOW, &zeros));
    assert_int_equal(left(&kit), all - 1300);
    tg_lease lease = must_allow(kit.gate, &kit.call, NOW);
    release.struct_size = 1;
    assert_false(tg_gate_release(kit.gate, lease, NOW, &release)); /* the lease stays */
    assert_true(tg_gate_release(kit.gate, lease, NOW, NULL));
    assert_int_equal(left(&kit), all - 2300);
    close_kit(&kit);
}

/* Whoever has brought his factor down gets no more at once than the overdraft says. */
static void a_burst_is_bounded_by_the_overdraft(void **state)
{
    static const struct {
        int64_t overdraft, most;
    } cases[] = {{-1, 10}, {1, 10}, {5000, 15}, {100000, 110}, {0, 200}};
    (void)state;

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        static tg_lease leases[300];
        struct kit kit;
        int64_t n = 0;

        open_kit(&kit, "token_bucket:capacity=10000,refill=1000000", cases[i].overdraft, 100);
        for (int k = 0; k < 2000; k++) { /* each a moment later, when all is there again */
            tg_lease lease = must_allow(kit.gate, &kit.call, NOW + 20 * k);
            assert_true(finish_settled(kit.gate, lease, NOW + 20 * k, 40));
        }
        n = fill_gate(kit.gate, &kit.call, NOW + 60000, leases, 300);
        if (n < cases[i].most - 1 || n > cases[i].most)
            fail_msg("overdraft %lld: %lld calls of 1000 at once, and not %lld",
                     (long long)cases[i].overdraft, (long long)n, (long long)cases[i].most);
        for (int64_t k = 0; k < n; k++)
            assert_true(finish_settled(kit.gate, leases[k], NOW + 60000, 1000));
        close_kit(&kit);
    }
}

static void never_is_said_by_what_is_asked_for(void **state)
{
    struct kit kit;
    (void)state;

    open_kit(&kit, "token_bucket:capacity=1500,refill=1000000", 0, 100);
    for (int k = 0; k < 400; k++)
        assert_true(finish_settled(kit.gate, must_allow(kit.gate, &kit.call, NOW + 5000 * k),
                                   NOW + 5000 * k, 2900));
    assert_in_range(expected(&kit).expected, 2850, 2950);
    assert_int_equal(expected(&kit).charge, 1500); /* all that there can be, not never */
    for (int k = 400; k < 2000; k++)
        assert_true(finish_settled(kit.gate, must_allow(kit.gate, &kit.call, NOW + 5000 * k),
                                   NOW + 5000 * k, 10));
    kit.call.debit.cost = 1501;
    assert_true(expected(&kit).expected < 100);
    struct tg_answer answer =
        must_refuse(kit.gate, &kit.call, NOW + 5000 * 2001, TG_REASON_COST);
    assert_int_equal(answer.decision.retry_after_ms, TG_UNSATISFIABLE);
    close_kit(&kit);
}

/* Lasting demand, calls that use a part of what they ask for and take ten seconds, and a bucket
 * that holds half of what it gets meanwhile: it is used to 95 % and more, and never beyond. */
static void a_limit_is_used_in_full(void **state)
{
    static const int parts[] = {50, 100, 300, 1000};
    enum { REFILL = 1000,
           HOLD = 10000,
           STEP = 50,
           SPAN = 600000,
           WARM = 200000,
           SLOTS = 4096 };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        static struct {
            tg_lease lease;
            tg_ms ends_at;
        } running[SLOTS];
        struct kit kit;
        size_t first = 0, n = 0;
        double used = 0;

        open_kit(&kit, "token_bucket:capacity=5000,refill=1000", 0, 100);
        kit.call.debit.cost = 500;
        int64_t each = 500 * parts[i] / 1000;
        for (tg_ms t = 0; t < WARM + SPAN; t += STEP) {
            struct tg_answer answer;
            for (; first < n && running[first % SLOTS].ends_at <= t; first++)
                assert_true(
                    finish_settled(kit.gate, running[first % SLOTS].lease, NOW + t, each));
            while ((answer = must_admit(kit.gate, &kit.call, NOW + t)).decision.allowed) {
                assert_true(n - first < SLOTS);
                running[n % SLOTS].lease = answer.lease;
                running[n++ % SLOTS].ends_at = t + HOLD;
                used += t >= WARM ? (double)each : 0;
            }
        }
        for (; first < n; first++)
            assert_true(finish_settled(kit.gate, running[first % SLOTS].lease, NOW + 900000, each));
        double use = used / ((double)REFILL * SPAN / 1000);
        if (use < 0.95 || use > 1.01)
            fail_msg("%d of 1000 used of what is asked for: %.3f of the limit", parts[i], use);
        close_kit(&kit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_is_learned_from_a_start_of_one),
        cmocka_unit_test(calls_count_by_what_they_ask_for),
        cmocka_unit_test(calls_in_flight_teach_nothing),
        cmocka_unit_test(the_mean_is_what_its_formula_says),
        cmocka_unit_test(one_call_changes_little_whatever_it_says),
        cmocka_unit_test(nobody_teaches_the_gate_about_others),
        cmocka_unit_test(new_settings_keep_what_was_learned),
        cmocka_unit_test(as_many_kinds_are_remembered_as_there_may_be),
        cmocka_unit_test(bounds_of_a_factor_that_are_none_are_an_error),
        cmocka_unit_test(the_table_never_holds_more_than_it_may),
        cmocka_unit_test(what_is_drawn_on_is_not_forgotten),
        cmocka_unit_test(zeros_of_a_release_say_nothing),
        cmocka_unit_test(a_burst_is_bounded_by_the_overdraft),
        cmocka_unit_test(never_is_said_by_what_is_asked_for),
        cmocka_unit_test(a_limit_is_used_in_full),
    };
    return cmocka_run_group_tests_name("gate_charge", tests, NULL, NULL);
}
