/* test_auto.c - the law auto: what it does in each mode, and what holds whatever happens. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "law_world.h"

static struct tg_law_config auto_config(void)
{
    struct tg_law_config config;

    tg_law_config_init(&config);
    tg_law_config_choose(&config, TG_LAW_AUTO);
    return config;
}

static void expect_limit(const struct law_world *world, int64_t low, int64_t high)
{
    int64_t limit = law_limit(&world->law);

    if (limit < low || limit > high)
        fail_msg("%s: the limit is %lld, and not from %lld to %lld", world->server.name,
                 (long long)limit, (long long)low, (long long)high);
}

/* Six times what the server works on, and 20 at least. */
static void while_it_does_not_bind_it_is_a_leash(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {
        .name = "quiet", .base_ms = 10, .spread = 0.5, .capacity = 100, .offered = 10};
    (void)state;

    law_world_open(&world, &config, &server);
    assert_int_equal(law_limit(&world.law), 20);
    law_world_run(&world, 60000);
    expect_limit(&world, 50, 66);
    assert_int_equal(world.law.state.auto_law.mode, AUTO_HOLD);
    world.server.offered = 1; /* it forgets in about a minute */
    law_world_run(&world, 600000);
    expect_limit(&world, 20, 20);
    law_world_close(&world);
}

static void a_full_server_is_found(void **state)
{
    static const int64_t capacities[] = {2, 4, 16, 64, 128};
    struct tg_law_config config = auto_config();
    (void)state;

    for (size_t i = 0; i < COUNT_OF(capacities); i++) {
        static struct law_world world;
        struct law_server server = {.name = "full",
                                    .base_ms = 10,
                                    .spread = 0.5,
                                    .capacity = capacities[i],
                                    .offered = 1000};
        law_world_open(&world, &config, &server);
        law_world_run(&world, 30000);
        expect_limit(&world, capacities[i], 2 * capacities[i] + 1);
        assert_true(world.law.state.auto_law.is_known);
        law_world_close(&world);
    }
}

/* Calls take five times as long, and no fewer workers are free: throughput falls for the moment,
 * and rises again with the limit. */
static void a_slow_dependency_is_not_a_full_server(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {.name = "slow",
                                .base_ms = 10,
                                .spread = 0.5,
                                .capacity = 1000,
                                .offered = 30,
                                .changes_at = 30000,
                                .capacity_to = 1000,
                                .slower = 5};
    (void)state;

    law_world_open(&world, &config, &server);
    law_world_run(&world, 29000);
    world.server.offered = 150; /* the same arrivals, each five times as long */
    law_world_run(&world, 10000);
    expect_limit(&world, 150, 1024);
    law_world_close(&world);
}

static void a_server_that_changes_is_found_again(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {
        .name = "changes", .base_ms = 10, .spread = 0.5, .capacity = 64, .offered = 1000};
    (void)state;

    law_world_open(&world, &config, &server);
    law_world_run(&world, 20000);
    expect_limit(&world, 64, 128);
    world.server.capacity = 16;
    law_world_run(&world, 20000);
    expect_limit(&world, 16, 33);
    world.server.capacity = 96;
    law_world_run(&world, 40000);
    expect_limit(&world, 96, 192);
    law_world_close(&world);
}

/* The limit does not leave the bounds, although the knee lies outside. */
static void bounds_are_kept(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {
        .name = "bounded", .base_ms = 10, .spread = 0.5, .capacity = 64, .offered = 1000};
    (void)state;

    config.max = 30;
    law_world_open(&world, &config, &server);
    law_world_run(&world, 20000);
    expect_limit(&world, 30, 30);
    config.max = 1024;
    assert_true(law_reconfigure(&world.law, &config)); /* keeps what it knows, and finds the rest */
    expect_limit(&world, 30, 30);
    law_world_run(&world, 40000);
    expect_limit(&world, 64, 128);
    config.min = config.initial = 200;
    assert_true(law_reconfigure(&world.law, &config));
    expect_limit(&world, 200, 200);
    law_world_run(&world, 20000);
    expect_limit(&world, 200, 1024);
    law_world_close(&world);
}

/* ---- Dropped calls and ceilings ---- */

static void drop(struct law *law, tg_ms now, int64_t in_flight)
{
    struct law_sample sample = {.now = now,
                                .sample_ms = 10,
                                .sojourn_ms = 10,
                                .in_flight = in_flight,
                                .in_flight_at_start = in_flight,
                                .dropped = true};

    law_finished(law, &sample);
}

static void dropped_calls_lower_the_limit_for_a_while(void **state)
{
    struct tg_law_config config = auto_config();
    struct law law;
    (void)state;

    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    law_started(&law, 0, 10);
    drop(&law, 5, 10);
    assert_int_equal(law_limit(&law), 8); /* a fifth below what ran */
    assert_int_equal(law.learned, 20);
    law_tick(&law, 104);
    assert_int_equal(law_limit(&law), 8);
    law_tick(&law, 105); /* and up by a quarter and one for each 100 ms without one */
    assert_int_equal(law_limit(&law), 11);
    law_tick(&law, 205);
    assert_int_equal(law_limit(&law), 15);
    law_tick(&law, 305);
    law_tick(&law, 405);
    assert_int_equal(law_limit(&law), 20);
    law_fini(&law);
}

/* What the server says holds until the time it says, to the millisecond; the last word counts. */
static void a_ceiling_that_was_said_holds_until_its_time(void **state)
{
    struct tg_law_config config = auto_config();
    struct law law;
    (void)state;

    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    law_started(&law, 1000, 3);
    assert_int_equal(law_limit(&law), 20);
    law_ceiling(&law, 1000, 7, 1500);
    assert_int_equal(law_limit(&law), 7);
    law_tick(&law, 1499);
    assert_int_equal(law_limit(&law), 7);
    law_tick(&law, 1500);
    assert_int_equal(law_limit(&law), 20);
    law_ceiling(&law, 1600, 0, 3000); /* one call at least: else nothing would ever be learned */
    assert_int_equal(law_limit(&law), 1);
    law_ceiling(&law, 1700, 12, 1800);
    assert_int_equal(law_limit(&law), 12);
    law_ceiling(&law, 1750, 5, 1750); /* over at once: nothing is said any more */
    assert_int_equal(law_limit(&law), 20);
    law_ceiling(&law, 1760, 5, 2000);
    law_ceiling(&law, 1770, 5, 1700);
    assert_int_equal(law_limit(&law), 20);
    assert_int_equal(law.learned, 20);
    law_fini(&law);
}

/* ---- First bytes ---- */

/* A test of the throughput is broken off: from here on first bytes say how many calls there are. */
static void a_first_byte_ends_the_test_that_is_under_way(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {
        .name = "full", .base_ms = 10, .spread = 0.5, .capacity = 300, .offered = 1000};
    const struct auto_law *state_of = &world.law.state.auto_law;
    (void)state;

    law_world_open(&world, &config, &server);
    while (state_of->mode != AUTO_UP || law_limit(&world.law) <= (int64_t)state_of->held) {
        law_world_run(&world, 1);
        assert_true(world.now < 60000);
    }
    double held = state_of->held;
    struct law_sample first = {.now = world.now + 1,
                               .sample_ms = 10,
                               .sojourn_ms = 10,
                               .in_flight = world.n,
                               .in_flight_at_start = world.n,
                               .still_runs = true};
    law_first_byte(&world.law, &first, 0);
    assert_int_equal(state_of->mode, AUTO_HOLD);
    assert_true(law_limit(&world.law) <= (int64_t)held);
    law_world_close(&world);
}

/* The limit is as many calls as the server works on, and a little more. */
static void streams_are_steered_by_their_first_bytes(void **state)
{
    static struct law_world world;
    struct tg_law_config config = auto_config();
    struct law_server server = {.name = "streams",
                                .base_ms = 4000,
                                .spread = 0.9,
                                .capacity = 64,
                                .offered = 200,
                                .first_byte = 300};
    (void)state;

    law_world_open(&world, &config, &server);
    law_world_run(&world, 300000);
    expect_limit(&world, 60, 75);
    struct law_times times = law_times(&world.law);
    assert_true(times.first_bytes);
    assert_true(times.base_ms >= 299 && times.base_ms <= 340);
    world.server.capacity = 24;
    law_world_run(&world, 300000);
    expect_limit(&world, 20, 32);
    world.server.capacity = 200;
    law_world_run(&world, 600000);
    expect_limit(&world, 150, 1024);
    law_world_close(&world);
}

/* After a hundred calls in a row without a first byte, their whole time counts. */
static void without_first_bytes_whole_times_count_again(void **state)
{
    struct tg_law_config config = auto_config();
    struct law law;
    tg_ms now = 1000;
    (void)state;

    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    for (int i = 0; i < 50; i++, now += 10) {
        struct law_sample first = {.now = now,
                                   .sample_ms = 300,
                                   .sojourn_ms = 300,
                                   .in_flight = 1,
                                   .in_flight_at_start = 1,
                                   .still_runs = true};
        law_first_byte(&law, &first, 0);
    }
    assert_true(law_times(&law).first_bytes);
    for (int i = 0; i < 100; i++, now += 10) {
        struct law_sample whole = {.now = now,
                                   .sample_ms = 2000,
                                   .sojourn_ms = 2000,
                                   .in_flight = 1,
                                   .in_flight_at_start = 1};
        assert_true(law_times(&law).first_bytes);
        law_finished(&law, &whole);
    }
    assert_false(law_times(&law).first_bytes);
    assert_true(law_times(&law).mean_ms == 2000);
    law_fini(&law);
}

/* ---- Whatever happens ---- */

/* Any event at any time, with clocks that jump: the limit stays in its bounds, and the same events
 * give the same limits. */
static void play(uint64_t seed, int64_t *limits, int n)
{
    struct draw draw = draw_stream(seed, 5);
    struct tg_law_config config = auto_config();
    struct law law;
    int64_t in_flight = 0;
    tg_ms now = (tg_ms)(draw_unit(&draw) * 1e6);

    config.min = 1 + (int64_t)(draw_unit(&draw) * 10);
    config.max = config.min + (int64_t)(draw_unit(&draw) * 100);
    config.initial = config.min;
    assert_int_equal(law_init(&law, &config, 1, NULL), TG_OK);
    for (int i = 0; i < n; i++) {
        double ms = exp(draw_unit(&draw) * 20 - 5);
        struct law_sample sample = {.now = now,
                                    .sample_ms = ms,
                                    .sojourn_ms = ms * draw_unit(&draw),
                                    .in_flight = in_flight + 1,
                                    .in_flight_at_start = 1 + (int64_t)(draw_unit(&draw) * 1e4),
                                    .dropped = draw_chance(&draw, 3)};
        now += draw_chance(&draw, 2) ? (tg_ms)((draw_unit(&draw) - 0.5) * 1e7)
                                     : (tg_ms)(draw_unit(&draw) * 20);
        now = now < 0 ? 0 : now;
        switch ((int)(draw_unit(&draw) * 8)) {
        case 0:
        case 1:
        case 2:
            law_started(&law, now, ++in_flight);
            break;
        case 3:
        case 4:
            law_finished(&law, &sample);
            in_flight = in_flight > 0 ? in_flight - 1 : 0;
            law_left(&law, now, in_flight, -1);
            break;
        case 5:
            law_rejected(&law, now);
            break;
        case 6:
            sample.dropped = false;
            sample.still_runs = true;
            if (seed % 3 == 0)
                law_first_byte(&law, &sample, (uint8_t)(draw_unit(&draw) * FIRST_BYTES_SIZES));
            break;
        default:
            if (draw_chance(&draw, 5))
                law_ceiling(&law, now, (int64_t)(draw_unit(&draw) * 200),
                            now + (tg_ms)(draw_unit(&draw) * 1e4));
            law_tick(&law, now);
        }
        assert_true(law_limit(&law) >= config.min && law_limit(&law) <= config.max);
        struct law_times times = law_times(&law);
        assert_true(times.mean_ms >= 0 && isfinite(times.mean_ms));
        assert_true(times.base_ms >= 0 && isfinite(times.base_ms));
        limits[i] = law_limit(&law);
    }
    law_fini(&law);
}

static void any_events_keep_the_bounds_and_can_be_repeated(void **state)
{
    enum { EVENTS = 20000 };
    static int64_t first[EVENTS], again[EVENTS];
    (void)state;

    for (uint64_t seed = 1; seed <= 60; seed++) {
        play(seed, first, EVENTS);
        play(seed, again, EVENTS);
        if (memcmp(first, again, sizeof first) != 0)
            fail_msg("seed %llu", (unsigned long long)seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_it_does_not_bind_it_is_a_leash),
        cmocka_unit_test(a_full_server_is_found),
        cmocka_unit_test(a_slow_dependency_is_not_a_full_server),
        cmocka_unit_test(a_server_that_changes_is_found_again),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(dropped_calls_lower_the_limit_for_a_while),
        cmocka_unit_test(a_ceiling_that_was_said_holds_until_its_time),
        cmocka_unit_test(a_first_byte_ends_the_test_that_is_under_way),
        cmocka_unit_test(streams_are_steered_by_their_first_bytes),
        cmocka_unit_test(without_first_bytes_whole_times_count_again),
        cmocka_unit_test(any_events_keep_the_bounds_and_can_be_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
