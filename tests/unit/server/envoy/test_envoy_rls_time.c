/* test_envoy_rls_time.c - Envoy's rate limit service over time, over reloads, and asked oddly. */
#include "net_envoy_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"

/* ---- time ---- */

static void there_are_no_borders(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: few, rate_limit: {unit: minute, requests_per_unit: 20}}\n"
        "  - {key: many, rate_limit: {unit: minute, requests_per_unit: 90}}\n";
    static const struct {
        const char *descriptor;
        int limit;
        tg_ms full; /* after which all of it is there again, to the ms */
    } rows[] = {{"few=x", 20, 60000}, {"many=x", 90, 62000}, {"few=y [90/minute]", 90, 62000}};
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        /* A fixed window would admit all of it twice within a second. */
        world.now = ENVOY_NOW + 59500;
        assert_int_equal(envoy_admitted(&world, "d", rows[i].descriptor, 999), rows[i].limit);
        world.now = ENVOY_NOW + 60500;
        assert_int_equal(envoy_admitted(&world, "d", rows[i].descriptor, 999), 0);
        world.now = ENVOY_NOW + 59500 + rows[i].full - 1600;
        assert_int_equal(envoy_admitted(&world, "d", rows[i].descriptor, 999), 0);
        world.now = ENVOY_NOW + 59500 + rows[i].full;
        assert_int_equal(envoy_admitted(&world, "d", rows[i].descriptor, 999), rows[i].limit);
    }
    envoy_close(&world);
}

/* Random bursts and pauses against a list of all that was admitted. */
static void no_span_of_a_unit_ever_holds_more(void **state)
{
    enum { ASKS = 4000 };
    static const int limits[] = {1, 3, 20, 21, 50, 333};
    static tg_ms at[ASKS];
    static int hits[ASKS];
    uint64_t seed = draw_seed("test_envoy_rls_time");

    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct draw draw = draw_stream(seed, i);
        struct envoy_world world;
        char rules[200];
        size_t n = 0, first = 0;
        int held = 0, total = 0;

        snprintf(rules, sizeof rules,
                 "domain: d\ndescriptors:\n"
                 "  - {key: k, rate_limit: {unit: second, requests_per_unit: %d}}\n",
                 limits[i]);
        envoy_open(&world, rules);
        for (int k = 0; k < ASKS; k++) {
            int wanted = (int)draw_between(&draw, 1, 1 + limits[i] / 10);
            world.now += draw_chance(&draw, 70) ? 0 : draw_magnitude(&draw, 1500);
            for (; first < n && at[first] <= world.now - 1000; first++)
                held -= hits[first];
            bool admit = envoy_ask_hits(&world, "d", "k=v", (uint64_t)wanted)->overall ==
                         ENVOY_RLS_OK;
            if (admit && held + wanted > limits[i])
                fail_msg("seed %" PRIu64 ": %d of %d within a second", seed, held + wanted,
                         limits[i]);
            /* The exact one refuses nothing that fits. */
            if (!admit && limits[i] <= 20 && held + wanted <= limits[i])
                fail_msg("seed %" PRIu64 ": refused with %d of %d", seed, held, limits[i]);
            if (admit) {
                at[n] = world.now;
                hits[n++] = wanted;
                held += wanted;
                total += wanted;
            }
        }
        assert_true(total >= limits[i] * 10);
        envoy_close(&world);
    }
}

/* Whoever asks all the time gets nearly all of it. */
static void a_busy_key_gets_what_it_may(void **state)
{
    static const struct {
        const char *descriptor;
        int least, most; /* in 100 units: (N - 1) 40 / 41, N and once more at the start */
    } rows[] = {{"few=x", 2000, 2000},
                {"few=y [21/second]", 1951, 2121},
                {"many=x", 9658, 10100},
                {"few=y [100/second]", 9658, 10100}};
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: few, rate_limit: {unit: second, requests_per_unit: 20}}\n"
        "  - {key: many, rate_limit: {unit: second, requests_per_unit: 100}}\n";
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int n = 0;
        for (int ms = 0; ms < 100 * 1000; ms += 5, world.now += 5)
            n += envoy_ask(&world, "d", rows[i].descriptor)->overall == ENVOY_RLS_OK;
        if (n < rows[i].least || n > rows[i].most)
            fail_msg("%s: %d", rows[i].descriptor, n);
    }
    envoy_close(&world);
}

static void who_waits_as_long_as_told_is_admitted(void **state)
{
    static const char *const descriptors[] = {"few=x", "many=x", "few=y [90/minute]"};
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: few, rate_limit: {unit: second, requests_per_unit: 3}}\n"
        "  - {key: many, rate_limit: {unit: week, requests_per_unit: 50}}\n";
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    for (size_t i = 0; i < COUNT_OF(descriptors); i++)
        for (int round = 0; round < 20; round++) {
            (void)envoy_admitted(&world, "d", descriptors[i], 999);
            assert_int_equal(world.reply.overall, ENVOY_RLS_OVER_LIMIT);
            assert_true(world.reply.statuses[0].until_reset > 0);
            world.now += world.reply.statuses[0].until_reset;
            envoy_expect(&world, "d", descriptors[i], "O:O");
            world.now += 137;
        }
    envoy_close(&world);
}

static void every_unit_is_as_long_as_it_is(void **state)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } rows[] = {
        {"second", 1},
        {"Minute", 60},
        {"HOUR", 3600},
        {"day", 86400},
        {"week", 604800},
        {"month", 2592000},
        {"year", 31536000},
    };
    struct envoy_world world;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char rules[200];
        snprintf(rules, sizeof rules,
                 "domain: d\ndescriptors:\n"
                 "  - {key: k, rate_limit: {unit: %s, requests_per_unit: 1}}\n",
                 rows[i].name);
        envoy_open(&world, rules);
        assert_int_equal(envoy_unit_ms(envoy_unit_find(rows[i].name)), rows[i].seconds * 1000);
        envoy_expect(&world, "d", "k=v", "O:O");
        assert_int_equal(world.reply.statuses[0].until_reset, rows[i].seconds * 1000);
        world.now += rows[i].seconds * 1000 - 1;
        envoy_expect(&world, "d", "k=v", "X:X");
        /* A ms, told as a second: who rounds down would not wait at all. */
        assert_int_equal(world.reply.statuses[0].until_reset, 1000);
        world.now++;
        envoy_expect(&world, "d", "k=v", "O:O");
        envoy_close(&world);
    }
}

/* ---- reading again ---- */

static void counts_go_on_over_a_reload(void **state)
{
    static const char other[] =
        "domain: mail\n"
        "descriptors:\n"
        "  - {key: new, rate_limit: {unit: day, requests_per_unit: 1}}\n"
        "  - {key: to, rate_limit: {unit: day, requests_per_unit: 10}}\n";
    struct envoy_world world;
    struct envoy_rls_counts counts;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 7);
    envoy_reload(&world, envoy_mail);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 0);
    /* With another number, three more. */
    envoy_reload(&world, other);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 3);
    envoy_expect(&world, "mail", "address=10.0.0.5", "-:O");
    assert_true(envoy_rls_get_counts(world.rls, 1, &counts));
    assert_int_equal(counts.within, 10);
    assert_int_equal(counts.over, 3);
    envoy_reload(&world, envoy_mail);
    envoy_expect(&world, "mail", "to=1", "X:X");
    envoy_expect(&world, "mail", "address=10.0.0.5", "X:X");
    envoy_close(&world);
}

/* ---- odd requests ---- */

static void what_makes_no_sense_is_an_error_that_says_why(void **state)
{
    struct envoy_world world;
    struct envoy_asked request;
    struct envoy_rls_descriptor many[ENVOY_RLS_DESCRIPTORS_MAX + 1];

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_ask(&world, "", "to=1")->result, ENVOY_RLS_INVALID);
    assert_string_equal(world.reply.message, "domain is empty; it must name a set of rules");
    assert_int_equal(envoy_ask(&world, "mail", "")->result, ENVOY_RLS_INVALID);
    assert_string_equal(world.reply.message, "descriptors is empty; there must be one at least");
    envoy_parse(&request, "mail", "to=1|to=2 [1/minute]");
    request.descriptors[1].unit = 8;
    envoy_rls_take(world.rls, world.store, &request.request, ENVOY_NOW, &world.reply);
    assert_int_equal(world.reply.result, ENVOY_RLS_INVALID);
    assert_string_equal(world.reply.message,
                        "descriptors[1].limit.unit is not a unit; it must be a number from 1 "
                        "(second) to 7 (week)");
    request.descriptors[1].unit = ENVOY_MINUTE;
    request.descriptors[1].unit_multiplier = 5;
    envoy_rls_take(world.rls, world.store, &request.request, ENVOY_NOW, &world.reply);
    assert_int_equal(world.reply.result, ENVOY_RLS_INVALID);
    assert_string_equal(world.reply.message,
                        "descriptors[1].limit.unit_multiplier is 5; the period must be one second, "
                        "minute, hour, day, week, month or year");
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = request.descriptors[0];
    request.request.descriptors = many;
    request.request.n_descriptors = COUNT_OF(many);
    envoy_rls_take(world.rls, world.store, &request.request, ENVOY_NOW, &world.reply);
    assert_string_equal(world.reply.message, "descriptors has 129 items; at most 128 are taken");
    request.request.n_descriptors = ENVOY_RLS_DESCRIPTORS_MAX;
    envoy_rls_take(world.rls, world.store, &request.request, ENVOY_NOW, &world.reply);
    assert_int_equal(world.reply.n_statuses, ENVOY_RLS_DESCRIPTORS_MAX);
    assert_int_equal(world.reply.overall, ENVOY_RLS_OVER_LIMIT);
    /* Nothing of all this was charged. */
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 7);
    envoy_close(&world);
}

static struct envoy_rls_reply *ask_entries(struct envoy_world *world,
                                           const struct envoy_rls_entry *entries, size_t n,
                                           bool brought)
{
    struct envoy_rls_descriptor descriptor = {.entries = entries,
                                              .n_entries = n,
                                              .has_limit = brought,
                                              .requests_per_unit = 2,
                                              .unit = ENVOY_HOUR};
    struct envoy_rls_request request = {
        .domain = SLICE("mail"), .descriptors = &descriptor, .n_descriptors = 1};

    envoy_rls_take(world->rls, world->store, &request, world->now, &world->reply);
    assert_int_equal(world->reply.result, ENVOY_RLS_DECIDED);
    return &world->reply;
}

/* Whoever sends a long header must not get around its limit by it. */
static void a_value_may_be_any_bytes_of_any_length(void **state)
{
    enum { LONG = 200000 };
    char *text = calloc(1, LONG + 1);
    struct envoy_world world;

    (void)state;
    assert_non_null(text);
    envoy_open(&world, envoy_mail);
    for (size_t n = 1; n <= LONG; n = n * 7 + 1) {
        struct envoy_rls_entry entry = {SLICE("to"), {text, n}};
        for (int i = 0; i < 7; i++)
            assert_int_equal(ask_entries(&world, &entry, 1, false)->overall, ENVOY_RLS_OK);
        assert_int_equal(ask_entries(&world, &entry, 1, false)->overall, ENVOY_RLS_OVER_LIMIT);
        assert_int_equal(ask_entries(&world, &entry, 1, true)->overall, ENVOY_RLS_OK);
        assert_int_equal(ask_entries(&world, &entry, 1, true)->overall, ENVOY_RLS_OK);
        assert_int_equal(ask_entries(&world, &entry, 1, true)->overall, ENVOY_RLS_OVER_LIMIT);
    }
    /* Zeros end no name. */
    struct envoy_rls_entry zero = {SLICE("address"), SLICE("10.0.0.5\0")};
    assert_int_equal(ask_entries(&world, &zero, 1, false)->statuses[0].requests_per_unit, 4);
    envoy_close(&world);
    free(text);
}

static void no_two_descriptors_share_a_count_by_chance_of_writing(void **state)
{
    static const char *const apart[] = {"a=b c=d [1/hour]", "a=bc =d [1/hour]", "a= bc=d [1/hour]",
                                        "ab= c=d [1/hour]", "a=b cd= [1/hour]", "a=bcd [1/hour]",
                                        "abc=d [1/hour]", "a=b c= d= [1/hour]"};
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    for (size_t i = 0; i < COUNT_OF(apart); i++) {
        if (envoy_admitted(&world, "mail", apart[i], 99) != 1)
            fail_msg("%s", apart[i]);
    }
    envoy_close(&world);
}

static void deep_descriptors_match_nothing_and_may_bring_a_limit(void **state)
{
    struct envoy_rls_entry entries[1000];
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    for (size_t i = 0; i < COUNT_OF(entries); i++)
        entries[i] = (struct envoy_rls_entry){SLICE("to"), SLICE("1")};
    assert_false(ask_entries(&world, entries, COUNT_OF(entries), false)->statuses[0].has_limit);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ask_entries(&world, entries, COUNT_OF(entries), true)->overall,
                         ENVOY_RLS_OK);
    assert_int_equal(ask_entries(&world, entries, COUNT_OF(entries), true)->overall,
                     ENVOY_RLS_OVER_LIMIT);
    assert_int_equal(ask_entries(&world, entries, 0, false)->overall, ENVOY_RLS_OK);
    envoy_close(&world);
}

static void a_full_store_is_an_error_and_charges_nothing(void **state)
{
    struct tg_store_stats stats;
    struct envoy_world world;
    char text[64];
    int i = 0;

    (void)state;
    envoy_open_with(&world, "", envoy_mail, (size_t)64 << 10);
    do {
        snprintf(text, sizeof text, "to=%d", i++);
    } while (i < 100000 && envoy_ask(&world, "mail", text)->result == ENVOY_RLS_DECIDED);
    assert_int_equal(world.reply.result, ENVOY_RLS_UNAVAILABLE);
    assert_string_equal(world.reply.message, tg_strerror(TG_ERR_FULL));
    assert_int_equal(world.reply.n_statuses, 0);
    tg_store_get_stats(world.store, &stats);
    assert_true(stats.memory_bytes <= (size_t)64 << 10);
    /* The first one that was charged got it back. */
    snprintf(text, sizeof text, "to=0|to=%d", i);
    assert_int_equal(envoy_ask(&world, "mail", text)->result, ENVOY_RLS_UNAVAILABLE);
    assert_int_equal(envoy_admitted(&world, "mail", "to=0", 99), 6);
    /* A day later there is room. */
    world.now += 86400001;
    assert_int_equal(envoy_ask(&world, "mail", text)->result, ENVOY_RLS_DECIDED);
    envoy_close(&world);
}

/* ---- headers, names ---- */

static void headers_tell_of_the_tightest_limit(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, rate_limit: {name: first, unit: minute, requests_per_unit: 3}}\n"
        "  - {key: b, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
        "  - {key: c}\n";
    static const struct {
        const char *descriptors, *headers;
    } rows[] = {
        {"a=1|b=1|c=1", "limit=2 remaining=1 reset=3600 "},
        {"a=1", "limit=3 remaining=1 reset=60 "},
        {"c=1", ""},
        {"a=1|b=1", "limit=3 remaining=0 reset=60 "},
        {"b=1|a=1", "limit=2 remaining=0 reset=3600 "}, /* both have none; both refuse */
        {"a=2|b=1", "limit=2 remaining=0 reset=3600 "},
    };
    struct envoy_world world;

    (void)state;
    envoy_open_with(&world,
                    "headers: true, limit_header: Limit, remaining_header: remaining, "
                    "reset_header: reset",
                    rules, (size_t)4 << 20);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char got[200] = "";
        (void)envoy_ask(&world, "d", rows[i].descriptors);
        for (size_t k = 0; k < world.reply.n_headers; k++) {
            const struct envoy_rls_header *header = &world.reply.headers[k];
            size_t used = strlen(got);
            snprintf(got + used, sizeof got - used, "%.*s=%.*s ", (int)header->name.n,
                     header->name.at, (int)header->value.n, header->value.at);
        }
        assert_string_equal(got, rows[i].headers);
    }
    assert_true(slice_equal(envoy_ask(&world, "d", "a=9")->statuses[0].name, SLICE("first")));
    envoy_close(&world);
}

static void headers_are_off_unless_asked_for(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_ask(&world, "mail", "to=1")->n_headers, 0);
    envoy_close(&world);
}

static void without_rules_everything_is_free(void **state)
{
    static const char text[] = "version: 1\n";
    struct envoy_rls_counts counts;
    struct envoy_world world = {.now = ENVOY_NOW};
    struct tg_store_config store;

    (void)state;
    assert_int_equal(config_parse(NULL, text, sizeof text - 1, &world.config, &world.problems),
                     CONFIG_READ);
    tg_store_config_init(&store);
    assert_int_equal(tg_store_new(&store, &world.store, NULL), TG_OK);
    world.book = limit_book_new(world.store);
    envoy_make(&world);
    envoy_expect(&world, "mail", "to=1|to=1 [0/day]", "--:O");
    assert_false(envoy_rls_get_counts(world.rls, 0, &counts));
    envoy_rls_free(world.rls);
    limit_book_free(world.book);
    tg_store_free(world.store);
    config_free(&world.config);
    config_problems_free(&world.problems);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_no_borders),
        cmocka_unit_test(no_span_of_a_unit_ever_holds_more),
        cmocka_unit_test(a_busy_key_gets_what_it_may),
        cmocka_unit_test(who_waits_as_long_as_told_is_admitted),
        cmocka_unit_test(every_unit_is_as_long_as_it_is),
        cmocka_unit_test(counts_go_on_over_a_reload),
        cmocka_unit_test(what_makes_no_sense_is_an_error_that_says_why),
        cmocka_unit_test(a_value_may_be_any_bytes_of_any_length),
        cmocka_unit_test(no_two_descriptors_share_a_count_by_chance_of_writing),
        cmocka_unit_test(deep_descriptors_match_nothing_and_may_bring_a_limit),
        cmocka_unit_test(a_full_store_is_an_error_and_charges_nothing),
        cmocka_unit_test(headers_tell_of_the_tightest_limit),
        cmocka_unit_test(headers_are_off_unless_asked_for),
        cmocka_unit_test(without_rules_everything_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
