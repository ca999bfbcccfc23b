/* test_vegas_trace.c - vegas on servers that vary: the limit, the baseline and its error, to the
 * digit.
 *
 * Every number in the law (how many errors lower a baseline, how many probes count together, how
 * long a probe waits) moves one of these digits. A change of the law is meant to change this
 * table, and nothing else is.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "draw.h"
#include "lib/concurrency/laws.h"

enum { CALLS_MAX = 512,
       ROWS = 8 };

/* A server that is as fast as it can be with up to `capacity` calls, and shares beyond that. */
struct server {
    const char *name;
    double base_ms;
    double spread;      /* a call takes from 1 - spread to 1 + spread times the base */
    int64_t capacity;   /* calls */
    int64_t offered;    /* calls that want to run at once */
    int drop_percent;   /* calls that end as dropped while there are more than the capacity */
    int cancel_percent; /* calls that leave without a sample */
    tg_ms pause_every;  /* nothing starts in every other span of this length; 0: never */
    tg_ms slower_from;  /* from then on calls take three times as long; 0: never */
    tg_ms row_every;    /* time between two rows of the table */
    const char *rows[ROWS];
};

struct running {
    tg_ms started_at;
    tg_ms ends_at;
    int64_t in_flight_at_start;
    double sample_ms;
    bool dropped;
    bool cancelled;
};

struct world {
    struct law law;
    struct draw draw;
    struct running calls[CALLS_MAX];
    int64_t n;
};

static void start(struct world *world, const struct server *server, tg_ms now)
{
    struct running *call = &world->calls[world->n++];
    double crowd = fmax(1, (double)world->n / (double)server->capacity);
    double factor = 1 + server->spread * (2 * draw_unit(&world->draw) - 1);
    double slower = server->slower_from && now >= server->slower_from ? 3 : 1;
    double took = server->base_ms * slower * factor * crowd;

    *call = (struct running){
        .started_at = now,
        .ends_at = now + (tg_ms)ceil(took),
        .in_flight_at_start = world->n,
        .sample_ms = took,
        .dropped = crowd > 1 && draw_chance(&world->draw, server->drop_percent),
        .cancelled = draw_chance(&world->draw, server->cancel_percent),
    };
    law_started(&world->law, now, world->n);
}

static void end_due(struct world *world, tg_ms now)
{
    for (int64_t i = 0; i < world->n;) {
        struct running call = world->calls[i];
        if (call.ends_at > now) {
            i++;
            continue;
        }
        struct law_sample sample = {
            .now = now,
            .sample_ms = call.sample_ms,
            .sojourn_ms = (double)(now - call.started_at),
            .in_flight = world->n,
            .in_flight_at_start = call.in_flight_at_start,
            .dropped = call.dropped,
        };
        if (!call.cancelled)
            law_finished(&world->law, &sample);
        world->calls[i] = world->calls[--world->n];
    }
}

static bool is_paused(const struct server *server, tg_ms now)
{
    return server->pause_every && now / server->pause_every % 2 == 1;
}

static void expect_row(const struct server *server, int row, const struct law *law)
{
    const struct vegas *vegas = &law->state.vegas;
    char got[160];

    (void)snprintf(got, sizeof got, "%lld %lld %.4f %.5f %.4f %.4f %d%d%d %lld",
                   (long long)law->limit, (long long)law->learned, vegas->baseline, vegas->error,
                   vegas->mean, vegas->queue, (int)vegas->phase, vegas->firm, vegas->confirmed,
                   (long long)vegas->expires_at);
    if (strcmp(got, server->rows[row] ? server->rows[row] : "") != 0)
        fail_msg("%s, row %d:\n  got  \"%s\"\n  want \"%s\"", server->name, row, got,
                 server->rows[row] ? server->rows[row] : "");
}

static const struct server servers[] = {
    {"equal calls under load",
     20,
     0,
     16,
     64,
     0,
     0,
     0,
     0,
     30000,
     {"34 34 39.4718 0.12386 42.5000 2.3731 010 64917",
      "34 34 39.4718 0.12386 42.5000 2.3731 010 64917",
      "24 24 21.2500 0.00000 30.0000 7.0000 010 123322",
      "24 24 21.2500 0.00000 30.0000 7.0000 010 123322",
      "24 24 20.0000 0.00000 30.0000 8.0000 011 179192",
      "12 24 20.0000 0.00000 30.0000 8.0000 211 179192",
      "24 24 20.0000 0.00000 30.0000 8.0000 011 234828",
      "24 24 20.0000 0.00000 30.0000 7.9993 011 293508"}},
    {"uneven calls under load",
     50,
     0.9,
     32,
     200,
     0,
     0,
     0,
     0,
     30000,
     {"37 37 51.3257 1.02946 57.8692 3.4568 010 58971",
      "19 37 51.3257 1.02946 56.3934 2.9521 210 58971",
      "37 37 49.9273 1.29437 56.0517 3.9525 011 121564",
      "37 37 49.9273 1.29437 57.4655 4.3954 011 121564",
      "37 37 51.5190 0.86508 58.2792 3.0587 011 179888",
      "28 37 51.5190 0.86508 56.3079 2.6386 211 179888",
      "37 37 51.2085 0.67405 56.7760 3.7216 011 235942",
      "37 37 51.1300 0.57970 58.0930 3.9830 011 294102"}},
    {"uneven calls, dropped beyond the capacity",
     40,
     0.5,
     24,
     100,
     20,
     5,
     0,
     0,
     30000,
     {"25 25 40.5161 0.48155 40.0576 0.0000 010 59456",
      "13 25 40.2530 0.49418 39.9518 0.0000 210 59456",
      "24 24 39.7830 0.62430 41.8416 0.9705 011 117408",
      "24 24 40.1950 0.42415 39.5488 0.0000 011 174146",
      "24 24 40.1950 0.42415 41.6947 0.6867 011 174146",
      "24 24 39.9692 0.33749 40.7819 0.3056 011 231149",
      "24 24 39.7310 0.47646 41.3703 0.7640 011 231149",
      "24 24 40.0436 0.28650 41.0714 0.4417 011 297123"}},
    {"few calls",
     300,
     0.6,
     8,
     3,
     0,
     10,
     0,
     0,
     60000,
     {"32 32 318.0094 10.16942 398.0685 0.0000 010 60006",
      "32 32 300.7697 10.63850 308.0753 0.0000 011 124272",
      "32 32 311.4945 21.75126 324.7528 0.0000 011 183836",
      "32 32 310.5705 8.88807 293.6786 0.0000 011 245164",
      "32 32 302.8544 15.46803 306.7013 0.0000 011 303623",
      "32 32 293.0533 16.93260 369.4590 0.0000 011 363923",
      "32 32 290.5215 16.14535 357.0240 0.1693 011 430655",
      "32 32 283.5389 15.06720 238.1746 0.0000 011 493262"}},
    {"calls that come and go",
     80,
     0.7,
     40,
     60,
     1,
     0,
     40000,
     0,
     40000,
     {"43 43 80.8799 1.38169 81.8733 0.0000 010 65879",
      "41 41 80.8799 1.38169 101.3519 3.8616 010 65879",
      "41 41 77.2016 2.00455 77.6902 0.0000 011 136176",
      "42 42 77.2016 2.00455 79.1656 0.3098 011 136176",
      "41 41 78.6702 1.24472 82.5719 1.8656 011 219500",
      "41 41 78.6702 1.24472 84.6854 2.2357 011 219500",
      "41 41 78.9804 0.99008 84.8265 2.3775 011 306927",
      "41 41 78.9804 0.99008 84.4641 2.3180 011 306927"}},
    {"a server that becomes slow",
     60,
     0.4,
     50,
     80,
     0,
     0,
     0,
     90000,
     35000,
     {"54 54 60.4463 0.56314 63.4917 2.8074 010 62777",
      "55 55 60.9035 0.65998 65.6259 3.7674 011 128351",
      "41 41 60.9035 0.65998 177.7078 27.2015 011 128351",
      "26 26 176.0819 5.98126 183.7733 0.5705 010 191313",
      "54 54 176.0819 5.98126 196.0603 3.9480 010 191313",
      "54 54 178.6519 2.73436 196.1084 4.0844 011 257836",
      "54 54 178.6519 2.73436 194.8609 3.8226 011 257836",
      "54 54 180.4828 1.97155 192.6411 3.1603 011 319210"}},
    {"calls longer than a window",
     3000,
     0.5,
     64,
     100,
     0,
     10,
     0,
     0,
     60000,
     {"65 65 3011.2510 83.77369 2748.0142 0.0000 010 108436",
      "36 72 3011.2510 83.77369 3164.7487 0.7277 210 108436",
      "76 76 3154.1005 193.98796 4292.5046 6.6814 011 318507",
      "72 72 3154.1005 193.98796 3160.5302 3.0721 011 318507",
      "78 78 3154.1005 193.98796 3190.8497 0.0000 011 318507",
      "67 67 2919.0532 121.72770 3222.9520 4.9184 011 565551",
      "68 68 2919.0532 121.72770 3014.3613 4.1496 011 565551",
      "70 70 2919.0532 121.72770 2777.4376 0.0000 011 565551"}},
    {"very long calls, half of them cancelled",
     9000,
     0.9,
     16,
     40,
     2,
     60,
     0,
     0,
     150000,
     {"9 9 1781.3779 0.00000 5682.1014 4.8171 000 272578",
      "4 7 1212.3492 0.00000 11751.1238 7.1746 200 272578",
      "8 8 1450.9607 0.00000 6786.9247 6.2897 000 1005894",
      "9 9 1450.9607 0.00000 12582.3247 7.9621 000 1005894",
      "27 27 9944.4112 464.01660 10122.3497 0.0000 010 1005894",
      "21 21 9944.4112 464.01660 23974.3802 13.2372 010 1005894",
      "11 21 9944.4112 464.01660 6764.6131 0.0000 210 1005894",
      "9 9 1203.2496 0.00000 1203.2496 4.0349 000 1475145"}},
};

static void vegas_moves_as_the_trace_says(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(servers); i++) {
        const struct server *server = &servers[i];
        static struct world world;
        struct tg_law_config config;

        tg_law_config_init(&config);
        config.initial = 32;
        config.min = 4;
        config.max = CALLS_MAX;
        world = (struct world){.draw = draw_stream(7, i)};
        assert_int_equal(law_init(&world.law, &config, i, NULL), TG_OK);
        for (tg_ms now = 0; now < ROWS * server->row_every; now++) {
            end_due(&world, now);
            while (!is_paused(server, now) && world.n < server->offered &&
                   world.n < law_limit(&world.law))
                start(&world, server, now);
            if (now % 50 == 0)
                law_tick(&world.law, now);
            if ((now + 1) % server->row_every == 0)
                expect_row(server, (int)(now / server->row_every), &world.law);
        }
        law_fini(&world.law);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vegas_moves_as_the_trace_says),
    };
    return cmocka_run_group_tests_name("vegas_trace", tests, NULL, NULL);
}
