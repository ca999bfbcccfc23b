/* test_law_traces.c - every law that moves, on a few servers in virtual time, to the digit.
 *
 * Each number of a law moves one of these. A change of a law is meant to change its rows, and
 * nothing else is; gcc and clang, with and without optimisation, get the same ones. To see what the
 * rows are now: TG_SHOW_TRACE=1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "law_world.h"

enum { POINTS = 10,
       SERVERS = 10 };

static const struct law_server servers[SERVERS] = {
    {.name = "full", .base_ms = 10, .spread = 0.5, .capacity = 16, .offered = 64},
    {.name = "roomy", .base_ms = 10, .spread = 0.5, .capacity = 600, .offered = 300},
    {.name = "shrinks",
     .base_ms = 10,
     .spread = 0.5,
     .capacity = 64,
     .offered = 100,
     .changes_at = 10000,
     .capacity_to = 16,
     .slower = 1},
    {.name = "slow dependency",
     .base_ms = 10,
     .spread = 0.5,
     .capacity = 400,
     .offered = 100,
     .changes_at = 10000,
     .capacity_to = 400,
     .slower = 5,
     .step = 500},
    {.name = "streams",
     .base_ms = 4000,
     .spread = 0.9,
     .capacity = 64,
     .offered = 200,
     .first_byte = 300},
    {.name = "drops",
     .base_ms = 50,
     .spread = 0.2,
     .capacity = 32,
     .offered = 200,
     .drop_percent = 20},
    {.name = "grows",
     .base_ms = 20,
     .spread = 0.7,
     .capacity = 16,
     .offered = 300,
     .changes_at = 8000,
     .capacity_to = 120,
     .slower = 0.5},
    {.name = "stalls while it is not full",
     .base_ms = 10,
     .spread = 0.5,
     .capacity = 64,
     .offered = 40,
     .changes_at = 10000,
     .capacity_to = 4,
     .slower = 8},
    {.name = "noisy",
     .base_ms = 30,
     .spread = 0.95,
     .capacity = 24,
     .offered = 60,
     .changes_at = 6000,
     .capacity_to = 48,
     .slower = 1,
     .drop_percent = 5},
    {.name = "slow calls",
     .base_ms = 700,
     .spread = 0.8,
     .capacity = 20,
     .offered = 90,
     .changes_at = 7000,
     .capacity_to = 10,
     .slower = 1.5},
};

/* The limit after each tenth of the run. */
static const struct {
    enum tg_law law;
    const char *rows[SERVERS];
} golden[] = {
    {TG_LAW_AUTO,
     {"23 23 23 23 23 23 23 23 23 23",
      "361 593 873 1024 1024 1024 1024 1024 1024 1024",
      "93 95 95 39 22 22 22 22 22 22",
      "127 187 261 316 316 316 316 316 316 316",
      "67 67 68 68 66 66 67 65 67 67",
      "26 26 32 32 33 24 26 24 26 24",
      "22 22 172 176 176 179 179 179 171 171",
      "57 85 122 141 141 141 141 141 141 141",
      "20 20 32 32 32 32 51 32 32 31",
      "28 28 28 28 28 28 28 28 45 45"}},
    {TG_LAW_VEGAS,
     {"129 129 129 129 129 129 129 129 129 129",
      "130 133 136 139 142 145 148 151 154 157",
      "130 133 136 137 134 131 128 125 122 119",
      "130 133 136 137 134 131 128 125 122 119",
      "44 91 101 115 128 155 88 151 98 98",
      "126 123 120 117 114 111 108 105 102 99",
      "128 125 125 126 129 130 130 130 131 131",
      "128 128 128 128 125 122 119 116 113 110",
      "126 123 120 117 114 111 108 105 102 99",
      "128 125 122 119 116 114 111 108 106 103"}},
    {TG_LAW_GRADIENT2,
     {"128 128 128 128 128 128 128 128 128 128",
      "200 200 200 200 200 200 200 200 200 200",
      "200 200 200 200 200 200 200 200 200 200",
      "200 200 200 200 200 200 200 200 200 200",
      "8 195 13 8 191 8 10 167 8 8",
      "85 96 188 43 116 87 140 60 100 72",
      "26 20 200 200 200 200 200 200 200 200",
      "81 81 81 81 81 81 81 81 81 81",
      "28 19 51 24 61 42 40 17 21 11",
      "92 180 180 180 180 180 180 180 180 180"}},
    {TG_LAW_AIMD,
     {"129 129 129 129 129 129 129 129 129 129",
      "200 200 200 200 200 200 200 200 200 200",
      "200 200 200 200 200 200 200 200 200 200",
      "200 200 200 200 200 200 200 200 200 200",
      "121 8 9 158 8 8 117 8 8 99",
      "31 25 33 45 44 35 65 31 27 46",
      "8 34 200 200 200 200 200 200 200 200",
      "81 81 81 9 8 8 8 8 8 12",
      "10 9 12 19 23 24 17 23 11 15",
      "79 148 37 12 8 8 8 17 42 66"}},
};

static void run(enum tg_law kind, const struct law_server *server, char *rows, size_t size)
{
    static struct law_world world;
    struct tg_law_config config;
    size_t at = 0;

    tg_law_config_init(&config);
    tg_law_config_choose(&config, kind);
    law_world_open(&world, &config, server);
    for (int i = 0; i < POINTS; i++) {
        law_world_run(&world, server->first_byte > 0 ? 60000 : 3000);
        at += (size_t)snprintf(rows + at, size - at, "%s%lld", at > 0 ? " " : "",
                               (long long)law_limit(&world.law));
    }
    law_world_close(&world);
}

static void limits_are_those_of_the_trace(void **state)
{
    char rows[128];
    int wrong = 0;
    (void)state;

    for (size_t l = 0; l < COUNT_OF(golden); l++)
        for (size_t s = 0; s < SERVERS; s++) {
            run(golden[l].law, &servers[s], rows, sizeof rows);
            if (getenv("TG_SHOW_TRACE") != NULL)
                print_message("%s, %s: \"%s\"\n", tg_law_name(golden[l].law),
                              servers[s].name, rows);
            if (strcmp(rows, golden[l].rows[s]) != 0) {
                print_error("%s, %s: %s\n                and not %s\n", tg_law_name(golden[l].law),
                            servers[s].name, rows, golden[l].rows[s]);
                wrong++;
            }
        }
    assert_int_equal(wrong, 0);
}

/* ---- servers that change all the time ---- */

enum { SEEDS = 16,
       CHANGES = 30 };

/* Another server every second or three, and other crowds in front of it. */
static uint64_t limits_on_changing_servers(enum tg_law kind, uint64_t seed)
{
    static struct law_world world;
    struct draw draw = draw_stream(seed, 7);
    struct law_server server = {.name = "changes",
                                .base_ms = 4 + 200 * draw_unit(&draw) * draw_unit(&draw),
                                .spread = draw_unit(&draw),
                                .capacity = 4 + (int64_t)(draw_unit(&draw) * 100),
                                .offered = 200,
                                .slower = 1,
                                .drop_percent = draw_chance(&draw, 25) ? 10 : 0};
    struct tg_law_config config;
    uint64_t hash = UINT64_C(14695981039346656037);

    tg_law_config_init(&config);
    tg_law_config_choose(&config, kind);
    law_world_open(&world, &config, &server);
    for (int i = 0; i < CHANGES; i++) {
        world.server.offered = 1 + (int64_t)(draw_unit(&draw) * draw_unit(&draw) * 400);
        if (draw_chance(&draw, 33))
            world.server.capacity = 4 + (int64_t)(draw_unit(&draw) * 100);
        if (draw_chance(&draw, 25))
            world.server.base_ms = server.base_ms * (0.5 + 3 * draw_unit(&draw));
        for (int part = 0; part < 10; part++) {
            law_world_run(&world, 100 + (tg_ms)(draw_unit(&draw) * 200));
            hash = (hash ^ (uint64_t)law_limit(&world.law)) * UINT64_C(1099511628211);
        }
    }
    law_world_close(&world);
    return hash;
}

/* All limits of a run in one number: what is left out above is in here. */
static void limits_on_servers_that_change_are_those_of_the_trace(void **state)
{
    static const uint64_t expected[SEEDS] = {
        UINT64_C(0x1b066f7dea250312), UINT64_C(0xe9eb10405cfcc7c4), UINT64_C(0x66339c01500921ba),
        UINT64_C(0xfe298921dafcb61b), UINT64_C(0x7b3e074597c6a4f8), UINT64_C(0xaf75189751ce1e28),
        UINT64_C(0xd9658252c4c186e9), UINT64_C(0xc807ebbbe82c6ea9), UINT64_C(0x0684d39348e2d0ee),
        UINT64_C(0x4bdc80bf04597872), UINT64_C(0xff063011b229a1dc), UINT64_C(0xec90e3242dd34fdc),
        UINT64_C(0x7e5ef75049b81d56), UINT64_C(0xb97a83b8da1f2d97), UINT64_C(0xc143d6070e6f46d1),
        UINT64_C(0xbf3d63810c054c57)};
    int wrong = 0;
    (void)state;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        uint64_t hash = limits_on_changing_servers(TG_LAW_AUTO, seed);
        if (getenv("TG_SHOW_TRACE") != NULL)
            print_message("UINT64_C(0x%016llx),\n", (unsigned long long)hash);
        wrong += hash != expected[seed];
    }
    assert_int_equal(wrong, 0);
}

/* The same of all laws, and more runs in one number. */
static void whole_runs_follow_the_trace(void **state)
{
    static const struct {
        enum tg_law law;
        uint64_t runs, hash;
    } rows[] = {
        {TG_LAW_AUTO, 40, UINT64_C(0xabfd889645589641)},
        {TG_LAW_VEGAS, 12, UINT64_C(0xc867ab9bf8ee1343)},
        {TG_LAW_GRADIENT2, 12, UINT64_C(0xc48f6c1f63eb50b7)},
        {TG_LAW_AIMD, 12, UINT64_C(0x84dbc5d4d59dccb2)},
    };
    int wrong = 0;
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t hash = 0;
        for (uint64_t run = 0; run < rows[i].runs; run++)
            hash = hash * 31 + limits_on_changing_servers(
                                   rows[i].law, rows[i].law == TG_LAW_AUTO ? SEEDS + run : run);
        if (getenv("TG_SHOW_TRACE") != NULL)
            print_message("%s UINT64_C(0x%016llx)\n", tg_law_name(rows[i].law),
                          (unsigned long long)hash);
        wrong += hash != rows[i].hash;
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_the_trace),
        cmocka_unit_test(limits_on_servers_that_change_are_those_of_the_trace),
        cmocka_unit_test(whole_runs_follow_the_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
