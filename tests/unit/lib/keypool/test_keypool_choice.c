/* test_keypool_choice.c - which key a call gets: evenly, the faster of two, and never none while
 * one can serve.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "keys_kit.h"
#include "lib/keypool/keyring.h"

static struct keys_kit kit;

/* Acquires and releases `calls` times, all with one latency, and counts who served. */
static void serve(size_t calls, tg_ms now, double latency_ms, size_t *counts)
{
    for (size_t i = 0; i < calls; i++) {
        tg_key_lease lease = keys_acquire(&kit, 10, now);
        assert_true(lease != 0);
        counts[keys_got(&kit)]++;
        keys_end_ok(&kit, lease, now, latency_ms);
    }
}

static void expect_even(const size_t *counts, size_t n, size_t calls)
{
    for (size_t i = 0; i < n; i++)
        assert_in_range(counts[i], calls / n * 9 / 10, calls / n * 11 / 10);
}

static void ten_keys_share_evenly(void **state)
{
    size_t counts[10] = {0};
    (void)state;
    keys_start(&kit, 10, NO_LIMITS);
    serve(100000, 0, 50, counts);
    expect_even(counts, 10, 100000);
    keys_close(&kit);
}

static void seven_of_ten_cooling_share_evenly(void **state)
{
    size_t counts[10] = {0};
    (void)state;
    keys_start(&kit, 10, NO_LIMITS);
    for (size_t i = 0; i < 7; i++) /* the first seven in a row: what spoils a scan */
        keys_cool(&kit, keys_take(&kit, i, 0, 0), 0, 1000000);
    serve(100000, 0, 50, counts);
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(counts[i], 0);
    expect_even(&counts[7], 3, 100000);
    keys_close(&kit);
}

/* Latencies of one kind, that vary: by nothing that could be measured, by a fifth, and as much as
 * those of real calls, with calls that overlap. Chance must not keep a key from its share. */
static void equal_keys_with_varying_latencies_share_evenly(void **state)
{
    static const double varies[] = {1e-9, 0.2, 5};
    struct draw draw = draw_stream(draw_seed("test_keypool_choice"), 0);
    struct {
        tg_key_lease lease;
        double latency_ms;
    } running[16] = {{0, 0}};
    (void)state;

    for (size_t v = 0; v < COUNT_OF(varies); v++) {
        size_t counts[10] = {0};
        keys_start(&kit, 10, NO_LIMITS);
        for (size_t i = 0; i < 7; i++)
            keys_cool(&kit, keys_take(&kit, i, 0, 0), 0, 3600000);
        for (size_t i = 0; i < 100000; i++) {
            tg_ms now = (tg_ms)i / 10;
            size_t place = i % COUNT_OF(running);
            if (i >= COUNT_OF(running))
                keys_end_ok(&kit, running[place].lease, now, running[place].latency_ms);
            running[place].lease = keys_acquire(&kit, 0, now);
            running[place].latency_ms = 100 * exp(varies[v] * (draw_unit(&draw) - 0.5));
            counts[keys_got(&kit)]++;
        }
        expect_even(&counts[7], 3, 100000);
        keys_close(&kit);
    }
}

static void keys_of_groups_and_keys_without_share_evenly(void **state)
{
    struct tg_group_spec groups[] = {{"p", "a", {.rpm = 1000000}}, {"p", "b", {.tpm = 1000000000}}};
    size_t counts[12] = {0};
    (void)state;
    keys_init(&kit, 12, NO_LIMITS);
    kit.spec.groups = groups;
    kit.spec.n_groups = 2;
    for (size_t i = 0; i < 7; i++)
        kit.keys[i].group = i < 2 ? "a" : "b";
    keys_open(&kit);
    serve(120000, 0, 50, counts);
    expect_even(counts, 12, 120000);
    keys_close(&kit);
}

/* All have different rests, and the call fits into half of them. */
static void keys_with_enough_tokens_left_share_evenly(void **state)
{
    size_t counts[100] = {0};
    (void)state;
    keys_init(&kit, 100, NO_LIMITS);
    for (size_t i = 0; i < 100; i++)
        kit.keys[i].limits.tpm = 1000 + (int64_t)(i * 37 % 100);
    keys_open(&kit);
    for (size_t i = 0; i < 100000; i++) {
        tg_key_lease lease = keys_acquire(&kit, 1050, 0);
        assert_true(lease != 0);
        assert_true(kit.keys[keys_got(&kit)].limits.tpm >= 1050);
        counts[keys_got(&kit)]++;
        keys_unsent(&kit, lease, 0);
    }
    for (size_t i = 0; i < 100; i++) {
        if (kit.keys[i].limits.tpm >= 1050)
            assert_in_range(counts[i], 1800, 2200);
        else
            assert_int_equal(counts[i], 0);
    }
    keys_close(&kit);
}

static void fifteen_of_twenty_full_still_finds_a_key(void **state)
{
    (void)state;
    keys_start(&kit, 20, (struct tg_key_limits){.tpm = 1000, .rpm = 1000});
    for (size_t i = 0; i < 15; i++)
        (void)keys_take(&kit, i, 950, 0);
    for (int i = 0; i < 4; i++)
        for (size_t k = 15; k < 20; k++) {
            assert_true(keys_acquire(&kit, 250, 0) != 0);
            assert_true(keys_got(&kit) >= 15);
        }
    assert_int_equal(keys_acquire(&kit, 250, 0), 0);
    assert_true(keys_acquire(&kit, 50, 0) != 0);
    keys_close(&kit);
}

static void a_key_full_by_calls_is_passed_over(void **state)
{
    (void)state;
    keys_init(&kit, 2, (struct tg_key_limits){.tpm = 100000});
    kit.keys[0].limits.rpm = 1;
    keys_open(&kit);
    (void)keys_take(&kit, 0, 1, 0);
    for (int i = 0; i < 100; i++) {
        assert_true(keys_acquire(&kit, 1, 0) != 0);
        assert_int_equal(keys_got(&kit), 1);
    }
    keys_close(&kit);
}

/* One free key of a thousand, and the full ones full in every way, is found each time. */
static void one_free_key_of_a_thousand_is_found(void **state)
{
    (void)state;
    keys_init(&kit, 1000, NO_LIMITS);
    kit.group.limits.concurrency = 200;
    for (size_t i = 0; i < 1000; i++) {
        static const struct tg_key_limits limits[] = {
            {.rpm = 1}, {.tpm = 1000}, {.concurrency = 1}, {0, 0, 0}, {0, 0, 0}};
        kit.keys[i].limits = limits[i % 5];
        if (i % 5 == 3)
            kit.keys[i].group = "g";
    }
    keys_open(&kit);
    for (size_t i = 0; i < 1000; i++)
        if (i % 5 == 4 && i != 444)
            keys_cool(&kit, keys_take(&kit, i, 0, 0), 0, 1000000);
        else if (i != 444)
            (void)keys_take(&kit, i, 301, 0); /* 699 are left where tokens are counted */
    for (int i = 0; i < 1000; i++) {
        assert_true(keys_acquire(&kit, 700, 0) != 0);
        assert_int_equal(keys_got(&kit), 444);
    }
    keys_close(&kit);
}

static void the_faster_of_two_is_taken(void **state)
{
    size_t counts[2] = {0};
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    keys_end_ok(&kit, keys_take(&kit, 0, 0, 0), 0, 100);
    keys_end_ok(&kit, keys_take(&kit, 1, 0, 0), 0, 90);
    for (int i = 0; i < 100; i++) {
        tg_key_lease lease = keys_acquire(&kit, 0, 0);
        counts[keys_got(&kit)]++;
        keys_end(&kit, lease, 0, TG_KEY_OK); /* without a sample */
    }
    assert_int_equal(counts[1], 100);
    keys_close(&kit);
}

/* How many of 400 draws between two keys with these averages the second one wins. */
static int wins_of_the_second(double first_ms, double second_ms, double spread_ms)
{
    int wins = 0;

    keys_start(&kit, 2, NO_LIMITS);
    struct key *const *keys = kit.pool->roster.keys;
    keys[0]->latency_ms = first_ms;
    keys[1]->latency_ms = second_ms;
    keys[0]->spread_ms = spread_ms;
    for (int i = 0; i < 400; i++) {
        tg_key_lease lease = keys_acquire(&kit, 1, 0);
        wins += keys_got(&kit) == 1;
        keys_end(&kit, lease, 0, TG_KEY_CANCELLED);
    }
    keys_close(&kit);
    return wins;
}

/* Two averages are equal that are no further apart than twice the larger of their spreads. */
static void averages_within_two_spreads_are_equal(void **state)
{
    (void)state;
    assert_in_range(wins_of_the_second(100, 115, 10), 150, 250);
    assert_in_range(wins_of_the_second(100, 120, 10), 150, 250);
    assert_int_equal(wins_of_the_second(100, 120.1, 10), 0);
    assert_in_range(wins_of_the_second(120, 100, 10), 150, 250);
    assert_int_equal(wins_of_the_second(120.1, 100, 10), 400);
    assert_int_equal(wins_of_the_second(100, 100.001, 0), 0);
}

static void one_fast_key_gets_no_more_than_its_draws(void **state)
{
    size_t counts[10] = {0};
    (void)state;
    keys_start(&kit, 10, NO_LIMITS);
    for (size_t i = 0; i < 10; i++)
        keys_end_ok(&kit, keys_take(&kit, i, 0, 0), 0, i == 0 ? 1 : 100);
    for (int i = 0; i < 10000; i++) {
        tg_key_lease lease = keys_acquire(&kit, 0, 0);
        counts[keys_got(&kit)]++;
        keys_end(&kit, lease, 0, TG_KEY_OK);
    }
    assert_in_range(counts[0], 1800, 2200); /* 2 of 10 draws have it */
    keys_close(&kit);
}

static void a_key_without_a_sample_is_tried_once_at_a_time(void **state)
{
    size_t counts[2] = {0};
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    keys_end_ok(&kit, keys_take(&kit, 0, 0, 0), 0, 5);
    assert_true(keys_acquire(&kit, 0, 0) != 0);
    assert_int_equal(keys_got(&kit), 1); /* at once */
    for (int i = 0; i < 1000; i++) {
        tg_key_lease lease = keys_acquire(&kit, 0, 0);
        counts[keys_got(&kit)]++;
        keys_end(&kit, lease, 0, TG_KEY_CANCELLED);
    }
    assert_in_range(counts[0], 400, 600); /* then nobody knows */
    keys_close(&kit);
}

static void a_slow_key_is_tried_again_now_and_then(void **state)
{
    size_t counts[2] = {0};
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    keys_end_ok(&kit, keys_take(&kit, 1, 0, 0), 0, 1700);
    for (tg_ms now = 0; now < 600000; now += 100) {
        tg_key_lease lease = keys_acquire(&kit, 0, now);
        counts[keys_got(&kit)]++;
        keys_end_ok(&kit, lease, now + 50, keys_got(&kit) == 1 ? 1700 : 100);
    }
    /* 1700 is below 100 after five halvings of 10 s: 12 times in 10 minutes */
    assert_in_range(counts[1], 11, 12);
    keys_close(&kit);
}

static void a_slow_key_that_has_become_fast_is_found_out(void **state)
{
    size_t counts[2] = {0};
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    keys_end_ok(&kit, keys_take(&kit, 1, 0, 0), 0, 300);
    for (tg_ms now = 0; now < 1800000; now += 100) {
        tg_key_lease lease = keys_acquire(&kit, 0, now);
        counts[keys_got(&kit)]++;
        keys_end_ok(&kit, lease, now, keys_got(&kit) == 1 ? 50 : 100);
    }
    assert_true(counts[1] > counts[0]);
    keys_close(&kit);
}

static void a_quick_failure_does_not_make_a_key_look_fast(void **state)
{
    struct tg_key_report report;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    keys_end_ok(&kit, keys_take(&kit, 0, 0, 0), 0, 100);
    for (int outcome = TG_KEY_LIMITED; outcome <= TG_KEY_CANCELLED; outcome++) {
        tg_key_report_init(&report);
        report.outcome = (enum tg_key_outcome)outcome;
        report.latency_ms = 1;
        report.cool_until = 1;
        assert_true(tg_keyring_release(kit.ring, keys_take(&kit, 0, 0, 1), 1, &report));
    }
    assert_true(keys_metrics(&kit, 0, 1).latency_ms >= 100);
    keys_close(&kit);
}

static void nonsense_is_not_a_latency(void **state)
{
    static const double wrong[] = {-1, -1e300, 1e300};
    volatile double zero = 0;
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        keys_end_ok(&kit, keys_acquire(&kit, 0, 0), 0, wrong[i]);
    keys_end_ok(&kit, keys_acquire(&kit, 0, 0), 0, zero / zero);
    keys_end_ok(&kit, keys_acquire(&kit, 0, 0), 0, 1 / zero);
    assert_true(keys_metrics(&kit, 0, 0).latency_ms <= 0);
    keys_close(&kit);
}

/* ---- tried, preferred, familiar ---- */

static struct tg_key_call call_with(const char *affinity)
{
    struct tg_key_call call;

    tg_key_call_init(&call);
    call.affinity = affinity;
    call.affinity_bytes = affinity ? strlen(affinity) : 0;
    return call;
}

static void tried_keys_are_not_taken_and_the_others_evenly(void **state)
{
    static const size_t sizes[] = {3, 12, 40};
    struct tg_key_call call = call_with(NULL);
    (void)state;

    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        size_t n = sizes[s], counts[40] = {0}, tried = n < 8 ? 2 : 8;
        keys_start(&kit, n, NO_LIMITS);
        for (size_t i = 0; i < tried; i++)
            call.tried[i] = kit.names[i];
        call.n_tried = tried;
        for (size_t i = 0; i < n * 2000; i++) {
            tg_key_lease lease = keys_call(&kit, &call, 0);
            assert_true(keys_got(&kit) >= tried);
            counts[keys_got(&kit)]++;
            keys_end_ok(&kit, lease, 0, 50);
        }
        expect_even(&counts[tried], n - tried, n * 2000);
        keys_close(&kit);
    }
}

static void if_all_were_tried_there_is_none_and_no_time_helps(void **state)
{
    struct tg_key_call call = call_with(NULL);
    (void)state;
    keys_start(&kit, 2, NO_LIMITS);
    call.tried[0] = kit.names[0];
    call.tried[1] = kit.names[1];
    call.n_tried = 2;
    call.prefer = kit.names[0];
    assert_int_equal(keys_call(&kit, &call, 0), 0);
    assert_int_equal(kit.answer.retry_after_ms, TG_UNSATISFIABLE);
    assert_false(kit.answer.all_cooling);
    keys_cool(&kit, keys_take(&kit, 0, 0, 0), 0, 1000);
    keys_cool(&kit, keys_take(&kit, 1, 0, 0), 0, 1000);
    assert_int_equal(keys_call(&kit, &call, 0), 0);
    assert_true(kit.answer.all_cooling);
    keys_close(&kit);
}

static void more_tried_than_there_is_place_for_is_no_harm(void **state)
{
    struct tg_key_call call = call_with(NULL);
    (void)state;
    keys_start(&kit, 1, NO_LIMITS);
    call.n_tried = SIZE_MAX;
    assert_true(keys_call(&kit, &call, 0) != 0);
    keys_close(&kit);
}

static void a_conversation_stays_with_its_key(void **state)
{
    struct tg_key_call call = call_with("conversation");
    (void)state;
    keys_start(&kit, 20, (struct tg_key_limits){.concurrency = 2});
    tg_key_lease first = keys_call(&kit, &call, 0);
    size_t key = keys_got(&kit);
    keys_end(&kit, first, 0, TG_KEY_OK);
    for (tg_ms now = 0; now < 6000000; now += 600000) { /* each use begins the time anew */
        keys_end(&kit, keys_call(&kit, &call, now), now, TG_KEY_OK);
        assert_int_equal(keys_got(&kit), key);
    }
    tg_key_lease a = keys_take(&kit, key, 0, 6000000), b = keys_take(&kit, key, 0, 6000000);
    tg_key_lease c = keys_call(&kit, &call, 6000000); /* only if it can serve */
    size_t next = keys_got(&kit);
    assert_true(next != key);
    keys_end(&kit, a, 6000000, TG_KEY_OK);
    keys_end(&kit, b, 6000000, TG_KEY_OK);
    keys_end(&kit, c, 6000000, TG_KEY_OK);
    keys_end(&kit, keys_call(&kit, &call, 6000000), 6000000, TG_KEY_OK);
    assert_int_equal(keys_got(&kit), next); /* the one that the last call had */
    keys_close(&kit);
}

static void an_affinity_ends_with_its_time(void **state)
{
    size_t same = 0;
    (void)state;
    keys_start(&kit, 100, NO_LIMITS);
    for (int i = 0; i < 100; i++) {
        char name[8] = {(char)('0' + i / 10), (char)('0' + i % 10)};
        struct tg_key_call call = call_with(name);
        tg_ms now = i * INT64_C(10000000);
        keys_end(&kit, keys_call(&kit, &call, now), now, TG_KEY_OK);
        size_t key = keys_got(&kit);
        keys_end(&kit, keys_call(&kit, &call, now + 600001), now + 600001, TG_KEY_OK);
        same += keys_got(&kit) == key;
    }
    assert_true(same < 20); /* by chance 1 of 100 */
    keys_close(&kit);
}

static void the_oldest_affinity_makes_room(void **state)
{
    size_t keys[101], same = 0;
    (void)state;
    keys_start(&kit, 1000, NO_LIMITS); /* and places for 100 */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < 101; i++) {
            char name[8] = {(char)('0' + i / 10), (char)('0' + i % 10)};
            struct tg_key_call call = call_with(name);
            size_t n = round ? 100 - i : i; /* the second time the newest first */
            name[0] = (char)('0' + n / 10);
            name[1] = (char)('0' + n % 10);
            keys_end(&kit, keys_call(&kit, &call, 5), 5, TG_KEY_OK);
            if (round)
                same += keys[n] == keys_got(&kit);
            keys[n] = keys_got(&kit);
        }
    assert_in_range(same, 100, 101); /* all but the first, unless by chance */
    keys_close(&kit);
}

static void without_a_time_nothing_is_remembered(void **state)
{
    size_t counts[2] = {0};
    struct tg_key_call call = call_with("conversation");
    (void)state;
    keys_init(&kit, 2, NO_LIMITS);
    kit.pool_spec.affinity_ttl = 0;
    keys_open(&kit);
    for (int i = 0; i < 1000; i++) {
        tg_key_lease lease = keys_call(&kit, &call, 0);
        counts[keys_got(&kit)]++;
        keys_end_ok(&kit, lease, 0, 5);
    }
    assert_in_range(counts[0], 400, 600);
    keys_close(&kit);
}

static void the_same_seed_chooses_the_same_keys(void **state)
{
    size_t first[200];
    (void)state;
    for (int round = 0; round < 2; round++) {
        keys_start(&kit, 30, (struct tg_key_limits){.tpm = 5000});
        for (size_t i = 0; i < 200; i++) {
            keys_end_ok(&kit, keys_acquire(&kit, 100, (tg_ms)i), (tg_ms)i, (double)(i % 13));
            if (round == 0)
                first[i] = keys_got(&kit);
            else
                assert_int_equal(keys_got(&kit), first[i]);
        }
        keys_close(&kit);
    }
}

/* A call whose size is that of no version gets the same answer, whichever way it asks. */
static void a_peek_reads_a_call_as_an_acquire_does(void **state)
{
    static const size_t sizes[] = {1, 3, sizeof(struct tg_key_call) + 8, (size_t)1 << 40};
    struct {
        struct tg_key_call own;
        char later[64];
    } call;
    struct tg_key_answer peeked, acquired;
    (void)state;

    keys_start(&kit, 1, (struct tg_key_limits){.tpm = 100});
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        memset(&call, 1, sizeof call);
        call.own.struct_size = sizes[i];
        memset(&peeked, 0, sizeof peeked);
        memset(&acquired, 0, sizeof acquired);
        tg_pool_peek(kit.pool, &call.own, 0, &peeked);
        tg_pool_acquire(kit.pool, &call.own, 0, &acquired);
        assert_int_equal(acquired.lease, 0);
        assert_memory_equal(&peeked, &acquired, sizeof peeked);
    }
    keys_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_keys_share_evenly),
        cmocka_unit_test(seven_of_ten_cooling_share_evenly),
        cmocka_unit_test(equal_keys_with_varying_latencies_share_evenly),
        cmocka_unit_test(keys_of_groups_and_keys_without_share_evenly),
        cmocka_unit_test(keys_with_enough_tokens_left_share_evenly),
        cmocka_unit_test(fifteen_of_twenty_full_still_finds_a_key),
        cmocka_unit_test(a_key_full_by_calls_is_passed_over),
        cmocka_unit_test(one_free_key_of_a_thousand_is_found),
        cmocka_unit_test(the_faster_of_two_is_taken),
        cmocka_unit_test(averages_within_two_spreads_are_equal),
        cmocka_unit_test(one_fast_key_gets_no_more_than_its_draws),
        cmocka_unit_test(a_key_without_a_sample_is_tried_once_at_a_time),
        cmocka_unit_test(a_slow_key_is_tried_again_now_and_then),
        cmocka_unit_test(a_slow_key_that_has_become_fast_is_found_out),
        cmocka_unit_test(a_quick_failure_does_not_make_a_key_look_fast),
        cmocka_unit_test(nonsense_is_not_a_latency),
        cmocka_unit_test(tried_keys_are_not_taken_and_the_others_evenly),
        cmocka_unit_test(if_all_were_tried_there_is_none_and_no_time_helps),
        cmocka_unit_test(more_tried_than_there_is_place_for_is_no_harm),
        cmocka_unit_test(a_conversation_stays_with_its_key),
        cmocka_unit_test(an_affinity_ends_with_its_time),
        cmocka_unit_test(the_oldest_affinity_makes_room),
        cmocka_unit_test(without_a_time_nothing_is_remembered),
        cmocka_unit_test(the_same_seed_chooses_the_same_keys),
        cmocka_unit_test(a_peek_reads_a_call_as_an_acquire_does),
    };
    return cmocka_run_group_tests_name("keypool_choice", tests, NULL, NULL);
}
