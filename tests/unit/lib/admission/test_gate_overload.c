/* test_gate_overload.c - priority and fairness under lasting overload, with calls of seconds and
 * waits that the gate derives: the real gate, in virtual time.
 *
 * Each row prints what it measured. The seeds are fixed, and so are the results.
 */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "gate_load.h"

enum { WARM_MS = 100000,
       SEED = 17 };

static const int64_t all_slots[] = {4, 16, 64, 256};

static struct tg_gate_config config_auto(int64_t slots)
{
    struct tg_gate_config config;

    tg_gate_config_init(&config);
    config.concurrency.on = true;
    config.concurrency.law.law = TG_LAW_FIXED;
    config.concurrency.law.min = 1;
    config.concurrency.law.initial = slots;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = TG_WAIT_AUTO;
    return config;
}

/* About as many calls with few slots as with many. */
static void run(const char *what, int64_t slots, struct load_source *sources, size_t n,
                double slot_seconds)
{
    struct tg_gate_config config = config_auto(slots);
    double all = 0;

    load_run(&config, sources, n, SEED, WARM_MS,
             WARM_MS + (tg_ms)(slot_seconds * 1000 / (double)slots));
    for (size_t i = 0; i < n; i++)
        all += sources[i].slot_ms;
    for (size_t i = 0; i < n; i++) {
        struct load_source *s = &sources[i];
        double offered = (double)s->offered / 100;
        s->slot_share = s->slot_ms / all;
        printf("# %s, %lld slots: %s %s: %lld calls, admitted %.2f %%, refused at the door "
               "%.1f %%, after a wait %.1f %%; waited %.0f ms; slot time %.1f %%\n",
               what, (long long)slots, tg_priority_name(s->priority), s->tenant,
               (long long)s->offered, (double)s->admitted / offered,
               (double)s->at_the_door / offered, (double)s->in_vain / offered,
               s->waited_ms / fmax(1, (double)s->admitted), 100 * s->slot_share);
    }
}

/* ---- classes ---- */

/* One source for each class, which offers this part of what the slots can do, in calls of 5 s. */
static void offer(struct load_source sources[TG_PRIORITY_COUNT], int64_t slots,
                  enum load_times times, const double load[TG_PRIORITY_COUNT])
{
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        sources[p] = (struct load_source){.priority = (enum tg_priority)p,
                                          .tenant = "t",
                                          .per_s = load[p] * (double)slots / 5,
                                          .mean_ms = 5000,
                                          .times = times};
}

static void high_is_served_whatever_the_others_send(void **state)
{
    static const double load[] = {0.31, 1.19, 0.5};
    struct load_source sources[TG_PRIORITY_COUNT];
    (void)state;

    for (size_t i = 0; i < 4; i++)
        for (int times = LOAD_EXPONENTIAL; times <= LOAD_LOGNORMAL; times++) {
            offer(sources, all_slots[i], (enum load_times)times, load);
            run("high at 31 % of twice the load", all_slots[i], sources, 3, 40000);
            assert_true(load_admitted(&sources[TG_PRIORITY_HIGH]) >= 0.99);
            assert_true(sources[TG_PRIORITY_NORMAL].slot_share > 0.58);
        }
}

/* They get 0.2 and 0.05 of each grant above them. With 4 slots a class has a turn so seldom that
 * nobody may be waiting for it: low's wait would be 50 s, and ends after 30 s. */
static void below_a_high_that_overloads_the_others_have_their_shares(void **state)
{
    static const double load[] = {2, 0.7, 0.3};
    struct load_source sources[TG_PRIORITY_COUNT];
    (void)state;

    for (size_t i = 0; i < 4; i++)
        for (int times = LOAD_EXPONENTIAL; times <= LOAD_LOGNORMAL; times++) {
            offer(sources, all_slots[i], (enum load_times)times, load);
            run("high alone overloads", all_slots[i], sources, 3, 40000);
            double high = (double)sources[0].admitted, normal = (double)sources[1].admitted;
            assert_true(normal >= (all_slots[i] == 4 ? 0.17 : 0.19) * high);
            assert_true((double)sources[2].admitted >=
                        (all_slots[i] == 4 ? 0.03 : 0.046) * (high + normal));
        }
}

/* ---- tenants ---- */

/* One that sends three times what all slots can do, in calls of 5 s, and four that use a part of
 * their share, which is a fifth of the slots. */
static void mice_beside(const char *what, double part, double mouse_ms, double least)
{
    static const char *const names[] = {"elephant", "mouse 1", "mouse 2", "mouse 3", "mouse 4"};
    struct load_source sources[5];

    for (size_t i = 1; i < 4; i++) {
        double slots = (double)all_slots[i];
        for (int t = 0; t < 5; t++)
            sources[t] = (struct load_source){.priority = TG_PRIORITY_NORMAL,
                                              .tenant = names[t],
                                              .per_s = t > 0 ? part / 5 * slots * 1000 / mouse_ms
                                                             : 3 * slots / 5,
                                              .mean_ms = t > 0 ? mouse_ms : 5000,
                                              .times = LOAD_EXPONENTIAL};
        run(what, all_slots[i], sources, 5, mouse_ms < 1000 ? 5000 : 40000);
        struct load_source mice = {.offered = 0};
        for (int t = 1; t < 5; t++) {
            mice.offered += sources[t].offered;
            mice.admitted += sources[t].admitted;
        }
        if (load_admitted(&mice) < least)
            fail_msg("%s: mice have %.2f %%", what, 100 * load_admitted(&mice));
    }
}

static void mice_are_served_beside_an_elephant(void **state)
{
    (void)state;
    mice_beside("mice at 1/4 of their share, 5 s", 0.25, 5000, 0.999);
    mice_beside("mice at 1/2 of their share, 5 s", 0.5, 5000, 0.995);
    mice_beside("mice at 1/4 of their share, 0.2 s", 0.25, 200, 0.985);
}

/* Two tenants that both overload the gate. */
static void share_two(const char *what, struct load_source sources[2], int64_t slots, double first)
{
    for (int t = 0; t < 2; t++) {
        sources[t].priority = TG_PRIORITY_NORMAL;
        sources[t].tenant = t ? "second" : "first";
        sources[t].per_s = 2 * (double)slots * 1000 / sources[t].mean_ms;
        sources[t].times = LOAD_EXPONENTIAL;
    }
    run(what, slots, sources, 2, 8000);
    assert_true(fabs(sources[0].slot_share - first) <= 0.05);
}

static void long_and_short_calls_have_the_same_slot_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct load_source sources[2] = {{.mean_ms = 2000}, {.mean_ms = 100}};
        share_two("long against short", sources, all_slots[i], 0.5);
        double a = sources[0].slot_share, b = sources[1].slot_share;
        assert_true((a + b) * (a + b) / (2 * (a * a + b * b)) >= 0.98); /* Jain's index */
    }
}

static void weights_count_in_slot_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct load_source sources[2] = {{.mean_ms = 2000, .weight = 3}, {.mean_ms = 100}};
        share_two("long with weight 3", sources, all_slots[i], 0.75);
    }
}

/* The second one's calls do four times as much in a ms: it has a fifth of the time. */
static void stated_work_counts_instead_of_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct load_source sources[2] = {{.mean_ms = 500, .work_per_ms = 1},
                                         {.mean_ms = 500, .work_per_ms = 4}};
        share_two("work of 1 and 4 in a ms", sources, all_slots[i], 0.8);
    }
}

/* It has its half while it sends, and not more when it comes back: together a quarter. */
static void who_was_silent_for_a_while_gets_no_more_later(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct load_source sources[2] = {{.mean_ms = 500, .on_ms = 20000, .off_ms = 20000},
                                         {.mean_ms = 500}};
        share_two("silent half of the time", sources, all_slots[i], 0.25);
        assert_true(sources[0].slot_share <= 0.27);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(high_is_served_whatever_the_others_send),
        cmocka_unit_test(below_a_high_that_overloads_the_others_have_their_shares),
        cmocka_unit_test(mice_are_served_beside_an_elephant),
        cmocka_unit_test(long_and_short_calls_have_the_same_slot_time),
        cmocka_unit_test(weights_count_in_slot_time),
        cmocka_unit_test(stated_work_counts_instead_of_time),
        cmocka_unit_test(who_was_silent_for_a_while_gets_no_more_later),
    };
    return cmocka_run_group_tests_name("gate_overload", tests, NULL, NULL);
}
