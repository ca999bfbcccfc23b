/* test_envoy_rls.c - Envoy's rate limit service: which rule, which status, who is charged. Tables
 * of what the format of envoyproxy/ratelimit promises, on data of our own.
 */
#include "net_envoy_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which rule ---- */

static void the_most_specific_rule_of_the_same_depth_holds(void **state)
{
    static const struct {
        const char *descriptor;
        int limit;      /* -1: no limit */
        const char *of; /* unit */
    } rows[] = {
        {"to=1", 7, "DAY"},
        {"kind=offer to=1", 3, "DAY"},
        {"kind=offer", -1, NULL},      /* a rule without a limit, and deeper ones */
        {"kind=news to=1", -1, NULL},  /* no such value, and no rule without one */
        {"to=1 kind=offer", -1, NULL}, /* the order of entries counts */
        {"to=1 more=2", -1, NULL},     /* deeper than the rules are */
        {"TO=1", -1, NULL},            /* case counts */
        {"address=10.0.0.1", 4, "SECOND"},
        {"address=10.0.0.5", 0, "SECOND"},
        {"address=10.0.0.6", -1, NULL}, /* a free pass */
        {"address=", 4, "SECOND"},      /* an empty value is any value */
        {"path=/files/one", 5, "MINUTE"},
        {"path=/files/two", 2, "MINUTE"},
        {"path=/files/", 2, "MINUTE"},
        {"path=/files/bigone", 2, "MINUTE"}, /* the first star that fits */
        {"path=/file", 9, "MINUTE"},
        {"path=/files/*", 2, "MINUTE"},
        {"level=top", 6, "HOUR"},
        {"level=top user=anna", 2, "HOUR"},
        {"level=top user=bob", -1, NULL}, /* no way back to the rule without a value */
        {"level=low user=bob", 8, "HOUR"},
        {"level=low user=anna", 8, "HOUR"},
        {"level=low", -1, NULL},
        {"level_top=x", -1, NULL}, /* a key is not a key and a value */
        {"level=top_x", -1, NULL},
    };
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct envoy_rls_status *status = world.reply.statuses;
        (void)envoy_ask(&world, "mail", rows[i].descriptor);
        assert_int_equal(world.reply.n_statuses, 1);
        if (status->has_limit != (rows[i].limit >= 0) ||
            (status->has_limit &&
             (status->requests_per_unit != (uint32_t)rows[i].limit ||
              strcmp(envoy_unit_name(status->unit), rows[i].of) != 0)))
            fail_msg("%s: %d, %u", rows[i].descriptor, status->has_limit,
                     status->requests_per_unit);
    }
    envoy_close(&world);
}

static void an_unknown_domain_has_no_limits(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    for (int i = 0; i < 10; i++)
        envoy_expect(&world, "post", "address=10.0.0.5|to=1|to=1 [1/minute]", "---:O");
    envoy_close(&world);
}

static void unlimited_is_told_as_such(void **state)
{
    struct envoy_world world;
    struct envoy_rls_counts counts;

    (void)state;
    envoy_open(&world, envoy_mail);
    const struct envoy_rls_status *status = envoy_ask(&world, "mail", "inside=x")->statuses;
    assert_false(status->has_limit);
    assert_int_equal(status->code, ENVOY_RLS_OK);
    assert_int_equal(status->limit_remaining, UINT32_MAX);
    assert_int_equal(envoy_ask(&world, "mail", "nowhere=x")->statuses[0].limit_remaining, 0);
    for (size_t i = 0; envoy_rls_get_counts(world.rls, i, &counts); i++)
        if (strcmp(counts.rule, "inside") == 0)
            assert_int_equal(counts.within, 1);
    envoy_close(&world);
}

static void each_value_of_a_rule_without_one_has_its_own_count(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_admitted(&world, "mail", "kind=offer to=1", 99), 3);
    assert_int_equal(envoy_admitted(&world, "mail", "kind=offer to=2", 99), 3);
    assert_int_equal(envoy_admitted(&world, "mail", "path=/files/a", 99), 2);
    assert_int_equal(envoy_admitted(&world, "mail", "path=/files/b", 99), 2);
    /* Another rule is another count, of the same number. */
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 7);
    envoy_close(&world);
}

static void a_shared_threshold_is_one_count_for_all_values(void **state)
{
    static const char rules[] = "domain: d\n"
                                "descriptors:\n"
                                "  - key: path\n"
                                "    value: /a/*\n"
                                "    share_threshold: true\n"
                                "    rate_limit: {unit: hour, requests_per_unit: 3}\n"
                                "    descriptors:\n"
                                "      - key: user\n"
                                "        rate_limit: {unit: hour, requests_per_unit: 2}\n"
                                "  - key: path\n"
                                "    value: /b/*\n"
                                "    rate_limit: {unit: hour, requests_per_unit: 3}\n";
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    envoy_expect(&world, "d", "path=/a/1", "O:O");
    envoy_expect(&world, "d", "path=/a/2", "O:O");
    envoy_expect(&world, "d", "path=/a/3", "O:O");
    envoy_expect(&world, "d", "path=/a/4", "X:X");
    /* Below it, the value that is shared is, and the others are not. */
    envoy_expect(&world, "d", "path=/a/1 user=u", "O:O");
    envoy_expect(&world, "d", "path=/a/2 user=u", "O:O");
    envoy_expect(&world, "d", "path=/a/3 user=u", "X:X");
    envoy_expect(&world, "d", "path=/a/3 user=v", "O:O");
    assert_int_equal(envoy_admitted(&world, "d", "path=/b/1", 99), 3);
    assert_int_equal(envoy_admitted(&world, "d", "path=/b/2", 99), 3);
    envoy_close(&world);
}

static void a_key_with_a_star_and_no_value_is_a_pattern(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: team_a, value: x*, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
        "  - {key: team_*, rate_limit: {unit: hour, requests_per_unit: 2}}\n"
        "  - {key: team_a, value: y*, rate_limit: {unit: hour, requests_per_unit: 3}}\n"
        "  - {key: team_a, value: z, rate_limit: {unit: hour, requests_per_unit: 4}}\n"
        "  - {key: team_a, rate_limit: {unit: hour, requests_per_unit: 5}}\n"
        "  - {key: s*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 6}}\n"
        "  - {key: v*, value: w, rate_limit: {unit: hour, requests_per_unit: 7}}\n";
    static const struct {
        const char *descriptor;
        int limit; /* 0: none */
    } rows[] = {
        {"team_a=x1", 1}, /* the first of the patterns */
        {"team_a=y1", 2}, /* a pattern of a key, also before one of a value */
        {"team_a=z", 4},  /* the same key and value go first */
        {"team_a=q", 2},  /* any pattern goes before a key without a value */
        {"team_b=", 2},
        {"team_=1", 2},
        {"team=1", 0},
        {"vw=w", 0},
        {"v*=w", 7},
    };
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct envoy_rls_status *status = world.reply.statuses;
        (void)envoy_ask(&world, "d", rows[i].descriptor);
        if (status->requests_per_unit != (uint32_t)rows[i].limit)
            fail_msg("%s: %u", rows[i].descriptor, status->requests_per_unit);
    }
    /* Each key and value has its own count; where they share, the values of a key do. */
    assert_int_equal(envoy_admitted(&world, "d", "team_c=1", 99), 2);
    assert_int_equal(envoy_admitted(&world, "d", "team_c=2", 99), 2);
    assert_int_equal(envoy_admitted(&world, "d", "s1=1", 4), 4);
    assert_int_equal(envoy_admitted(&world, "d", "s1=2", 99), 2);
    assert_int_equal(envoy_admitted(&world, "d", "s2=2", 99), 6);
    envoy_close(&world);
}

/* ---- several descriptors ---- */

static void one_that_is_over_refuses_all_and_statuses_keep_their_order(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_expect(&world, "mail", "kind=offer to=1|nothing=1|to=1|address=10.0.0.9", "O-OO:O");
    envoy_expect(&world, "mail", "to=1|kind=offer to=1", "OO:O");
    envoy_expect(&world, "mail", "address=10.0.0.5|to=1", "XO:X");
    envoy_expect(&world, "mail", "to=1|address=10.0.0.5", "OX:X");
    envoy_expect(&world, "mail", "kind=offer to=1|to=1", "OO:O");
    envoy_expect(&world, "mail", "to=1|nothing=1|kind=offer to=1|address=10.0.0.5", "O-XX:X");
    envoy_close(&world);
}

static void a_refused_request_is_charged_nothing(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    for (int i = 0; i < 50; i++) {
        /* Whichever comes first. */
        envoy_expect(&world, "mail", "to=1|kind=offer to=1|address=10.0.0.5", "OOX:X");
        envoy_expect(&world, "mail", "address=10.0.0.5|to=1|kind=offer to=1", "XOO:X");
    }
    /* And what is told is what is there. */
    assert_int_equal(world.reply.statuses[1].limit_remaining, 7);
    envoy_expect(&world, "mail", "to=1|address=10.0.0.5", "OX:X");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 7);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 7);
    assert_int_equal(envoy_admitted(&world, "mail", "kind=offer to=1", 99), 3);
    envoy_close(&world);
}

static void the_same_descriptor_twice_is_charged_twice(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_expect(&world, "mail", "kind=offer to=1|kind=offer to=1", "OO:O");
    envoy_expect(&world, "mail", "kind=offer to=1|kind=offer to=1", "OX:X");
    assert_int_equal(envoy_admitted(&world, "mail", "kind=offer to=1", 99), 1);
    envoy_close(&world);
}

/* ---- replaces ---- */

static const char replacing[] = "domain: d\n"
                                "descriptors:\n"
                                "  - key: read\n"
                                "    descriptors:\n"
                                "      - key: user\n"
                                "        rate_limit:\n"
                                "          {name: usual, unit: hour, requests_per_unit: 2}\n"
                                "  - key: page\n"
                                "    descriptors:\n"
                                "      - key: user\n"
                                "        value: ann\n"
                                "        rate_limit:\n"
                                "          unit: hour\n"
                                "          requests_per_unit: 4\n"
                                "          replaces: [{name: usual}, {name: other}]\n"
                                "  - key: free\n"
                                "    rate_limit: {unlimited: true, replaces: [{name: usual}]}\n"
                                "  - key: other\n"
                                "    rate_limit: {name: other, unit: hour, requests_per_unit: 1}\n";

static void a_limit_that_is_replaced_neither_holds_nor_counts(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, replacing);
    envoy_expect(&world, "d", "read=r user=ann|page=p user=ann", "-O:O");
    envoy_expect(&world, "d", "page=p user=ann|read=r user=ann|other=x", "O--:O");
    envoy_expect(&world, "d", "page=p user=ann|read=r user=ann", "O-:O");
    envoy_expect(&world, "d", "read=r user=ann|page=p user=ann", "-O:O");
    envoy_expect(&world, "d", "read=r user=ann|page=p user=ann", "-X:X");
    envoy_expect(&world, "d", "free=x|read=r user=ann", "--:O");
    assert_int_equal(envoy_admitted(&world, "d", "read=r user=ann", 99), 2);
    envoy_expect(&world, "d", "read=r user=ann|page=p user=bob", "X-:X");
    envoy_close(&world);
}

/* ---- shadow ---- */

static const char shady[] = "domain: d\n"
                            "descriptors:\n"
                            "  - key: service\n"
                            "    descriptors:\n"
                            "      - key: user\n"
                            "        value: ann\n"
                            "        shadow_mode: true\n"
                            "        rate_limit: {unit: second, requests_per_unit: 2}\n"
                            "      - key: user\n"
                            "        value: bob\n"
                            "        rate_limit: {unit: second, requests_per_unit: 2}\n";

static void a_rule_in_shadow_counts_and_refuses_nothing(void **state)
{
    struct envoy_world world;
    struct envoy_rls_counts counts;

    (void)state;
    envoy_open(&world, shady);
    for (int i = 0; i < 5; i++)
        envoy_expect(&world, "d", "service=s user=ann", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 0);
    assert_int_equal(envoy_admitted(&world, "d", "service=s user=bob", 99), 2);
    /* It takes nothing from who stands beside it. */
    envoy_expect(&world, "d", "service=s user=ann|service=t user=bob", "OO:O");
    assert_true(envoy_rls_get_counts(world.rls, 0, &counts));
    assert_string_equal(counts.rule, "service.user_ann");
    assert_string_equal(counts.domain, "d");
    assert_int_equal(counts.within, 2);
    assert_int_equal(counts.shadow, 4);
    assert_int_equal(counts.over, 0);
    assert_true(envoy_rls_get_counts(world.rls, 1, &counts));
    assert_int_equal(counts.within, 3);
    assert_int_equal(counts.over, 1);
    assert_false(envoy_rls_get_counts(world.rls, 2, &counts));
    envoy_close(&world);
}

static void a_quota_counts_and_refuses_nothing(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: q, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}\n"
        "  - {key: n, rate_limit: {unit: hour, requests_per_unit: 2}}\n";
    struct envoy_world world;
    struct envoy_rls_counts counts;

    (void)state;
    envoy_open(&world, rules);
    envoy_expect(&world, "d", "q=1", "O:O");
    envoy_expect(&world, "d", "q=1|n=1", "OO:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 0);
    assert_int_equal(world.reply.statuses[1].limit_remaining, 1);
    envoy_expect(&world, "d", "q=1|n=1|n=1", "OOX:X");
    assert_true(envoy_rls_get_counts(world.rls, 0, &counts));
    assert_int_equal(counts.within, 1);
    assert_int_equal(counts.shadow, 2);
    envoy_close(&world);
}

static void a_service_in_shadow_says_what_would_be_and_refuses_nothing(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open_with(&world, "mode: shadow", shady, (size_t)4 << 20);
    envoy_expect(&world, "d", "service=s user=bob", "O:O");
    envoy_expect(&world, "d", "service=s user=bob", "O:O");
    envoy_expect(&world, "d", "service=s user=bob|service=t user=bob", "XO:O");
    envoy_close(&world);
}

/* ---- hits ---- */

static enum envoy_rls_code overall_of(struct envoy_world *world, const char *text, uint64_t hits)
{
    return envoy_ask_hits(world, "mail", text, hits)->overall;
}

static void hits_of_the_request_count_for_each_descriptor(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(overall_of(&world, "to=1|kind=offer to=1", 3), ENVOY_RLS_OK);
    assert_int_equal(world.reply.statuses[0].limit_remaining, 4);
    assert_int_equal(world.reply.statuses[1].limit_remaining, 0);
    /* More than there is: nothing is charged, and what is there is told. */
    assert_int_equal(overall_of(&world, "to=1", 5), ENVOY_RLS_OVER_LIMIT);
    assert_int_equal(world.reply.statuses[0].limit_remaining, 4);
    assert_int_equal(overall_of(&world, "to=1", 4), ENVOY_RLS_OK);
    assert_int_equal(overall_of(&world, "to=2", UINT64_MAX), ENVOY_RLS_OVER_LIMIT);
    assert_int_equal(envoy_admitted(&world, "mail", "to=2", 99), 7);
    envoy_close(&world);
}

static void none_at_all_is_one(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_ask_hits(&world, "mail", "to=1", 0)->statuses[0].limit_remaining, 6);
    assert_int_equal(envoy_ask_hits(&world, "mail", "to=1", 1)->statuses[0].limit_remaining, 5);
    envoy_close(&world);
}

/* Asked with 0 before a call, told of its tokens after it. */
static void a_meter_is_charged_whole_and_asks_with_none(void **state)
{
    static const char rules[] =
        "domain: d\n"
        "descriptors:\n"
        "  - {key: small, rate_limit: {unit: hour, requests_per_unit: 10}}\n"
        "  - {key: tokens, rate_limit: {unit: hour, requests_per_unit: 1000}}\n"
        "  - {key: daily, rate_limit: {unit: day, requests_per_unit: 5000}}\n";
    static const char *const meters[] = {"small=u [+0]", "small=u [+4]", "small=u [+9]"};
    struct envoy_world world;

    (void)state;
    envoy_open(&world, rules);
    for (int i = 0; i < 20; i++)
        envoy_expect(&world, "d", "tokens=u [+0]", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 1000);
    envoy_expect(&world, "d", "tokens=u [+600]|daily=u [+600]", "OO:O");
    envoy_expect(&world, "d", "tokens=u [+0]", "O:O");
    /* It crosses the limit: refused, and charged all the same, here and beside it. */
    envoy_expect(&world, "d", "tokens=u [+700]|daily=u [+700]", "XO:X");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 0);
    assert_int_equal(world.reply.statuses[1].limit_remaining, 5000 - 1300);
    envoy_expect(&world, "d", "tokens=u [+0]", "X:X");
    /* Nothing is left: nothing more is charged there. */
    envoy_expect(&world, "d", "tokens=u [+50]|daily=u [+50]", "XO:X");
    assert_int_equal(world.reply.statuses[1].limit_remaining, 5000 - 1350);
    world.now += 3600 * 1000 * 21 / 20;
    envoy_expect(&world, "d", "tokens=u [+0]", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 1000);
    /* The other limiter does the same. */
    envoy_expect(&world, "d", meters[1], "O:O");
    envoy_expect(&world, "d", meters[2], "X:X");
    envoy_expect(&world, "d", meters[0], "X:X");
    world.now += 3600 * 1000;
    envoy_expect(&world, "d", meters[0], "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 10);
    envoy_close(&world);
}

static void a_refusal_does_not_give_back_what_a_meter_was_charged(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_expect(&world, "mail", "to=1 [+2]|to=2|address=10.0.0.5", "OOX:X");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 5);
    assert_int_equal(world.reply.statuses[1].limit_remaining, 7);
    envoy_expect(&world, "mail", "address=10.0.0.5|to=1 [+2]", "XO:X");
    assert_int_equal(world.reply.statuses[1].limit_remaining, 3);
    envoy_close(&world);
}

/* ---- limits that are brought along ---- */

static void hits_to_be_given_back_are_not_charged_and_refuse_nothing(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_expect(&world, "mail", "to=1 [+5]", "O:O");
    envoy_expect(&world, "mail", "to=1 [-3]", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 2);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 2);
    /* Nothing is left, or ever was: there is nothing to refuse all the same. */
    envoy_expect(&world, "mail", "to=1 [-3]|address=10.0.0.5 [-1]", "OO:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 0);
    envoy_expect(&world, "mail", "to=1 [-3]|address=10.0.0.5", "OX:X");
    assert_int_equal(envoy_admitted(&world, "mail", "what=ever [2/hour]", 99), 2);
    envoy_expect(&world, "mail", "what=ever [2/hour] [-1]", "O:O");
    envoy_expect(&world, "mail", "what=ever [2/hour]", "X:X");
    /* With the hits of the request, too. */
    struct envoy_asked asked;
    envoy_parse(&asked, "mail", "to=2");
    asked.descriptors[0].negative = true;
    asked.request.hits = 4;
    envoy_rls_take(world.rls, world.store, &asked.request, world.now, &world.reply);
    assert_int_equal(world.reply.overall, ENVOY_RLS_OK);
    assert_int_equal(world.reply.statuses[0].limit_remaining, 7);
    envoy_close(&world);
}

static void a_multiple_of_a_unit_may_be_another_unit(void **state)
{
    struct envoy_asked asked;
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_parse(&asked, "mail", "what=ever [2/second]");
    asked.descriptors[0].unit_multiplier = 60;
    envoy_rls_take(world.rls, world.store, &asked.request, world.now, &world.reply);
    assert_int_equal(world.reply.statuses[0].unit, ENVOY_MINUTE);
    /* The same count as that of the minute. */
    assert_int_equal(envoy_admitted(&world, "mail", "what=ever [2/minute]", 99), 1);
    assert_int_equal(envoy_admitted(&world, "mail", "what=ever [2/second]", 99), 2);
    asked.descriptors[0].unit_multiplier = UINT32_MAX;
    envoy_rls_take(world.rls, world.store, &asked.request, world.now, &world.reply);
    assert_int_equal(world.reply.result, ENVOY_RLS_INVALID);
    envoy_close(&world);
}

static void a_limit_brought_along_holds_in_place_of_the_rules(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1 [2/minute]", 99), 2);
    assert_int_equal(world.reply.statuses[0].requests_per_unit, 2);
    assert_int_equal(world.reply.statuses[0].unit, ENVOY_MINUTE);
    assert_int_equal(world.reply.statuses[0].limit_remaining, 0);
    assert_int_equal(world.reply.statuses[0].name.n, 0);
    /* What was counted counts under another number; the rule's own count is another. */
    assert_int_equal(envoy_admitted(&world, "mail", "to=1 [5/minute]", 99), 3);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1 [5/hour]", 99), 5);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1", 99), 7);
    /* Where no rule is, and where one refuses all. */
    assert_int_equal(envoy_admitted(&world, "mail", "what=ever more=x [30/second]", 99), 30);
    assert_int_equal(envoy_admitted(&world, "mail", "address=10.0.0.5 [1/day]", 99), 1);
    assert_int_equal(envoy_admitted(&world, "mail", "to=1 [0/day]", 99), 0);
    envoy_close(&world);
}

static void a_limit_brought_along_is_charged_as_others_are(void **state)
{
    struct envoy_world world;

    (void)state;
    envoy_open(&world, envoy_mail);
    envoy_expect(&world, "mail", "x=1 [5/hour]|address=10.0.0.5", "OX:X");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 5);
    envoy_expect(&world, "mail", "x=1 [5/hour] [+3]", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 2);
    assert_int_equal(overall_of(&world, "x=1 [5/hour]", 3), ENVOY_RLS_OVER_LIMIT);
    assert_int_equal(world.reply.statuses[0].limit_remaining, 2);
    envoy_expect(&world, "mail", "x=1 [5/hour] [+0]", "O:O");
    envoy_expect(&world, "mail", "x=1 [5/hour] [+4]", "X:X");
    envoy_expect(&world, "mail", "x=1 [5/hour] [+0]", "X:X");
    envoy_expect(&world, "mail", "x=1 [5/hour] [+1]", "X:X");
    world.now += world.reply.statuses[0].until_reset;
    envoy_expect(&world, "mail", "x=1 [5/hour] [+0]", "O:O");
    assert_int_equal(world.reply.statuses[0].limit_remaining, 5);
    envoy_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_specific_rule_of_the_same_depth_holds),
        cmocka_unit_test(an_unknown_domain_has_no_limits),
        cmocka_unit_test(unlimited_is_told_as_such),
        cmocka_unit_test(each_value_of_a_rule_without_one_has_its_own_count),
        cmocka_unit_test(a_shared_threshold_is_one_count_for_all_values),
        cmocka_unit_test(a_key_with_a_star_and_no_value_is_a_pattern),
        cmocka_unit_test(one_that_is_over_refuses_all_and_statuses_keep_their_order),
        cmocka_unit_test(a_refused_request_is_charged_nothing),
        cmocka_unit_test(the_same_descriptor_twice_is_charged_twice),
        cmocka_unit_test(a_limit_that_is_replaced_neither_holds_nor_counts),
        cmocka_unit_test(a_rule_in_shadow_counts_and_refuses_nothing),
        cmocka_unit_test(a_quota_counts_and_refuses_nothing),
        cmocka_unit_test(a_service_in_shadow_says_what_would_be_and_refuses_nothing),
        cmocka_unit_test(hits_of_the_request_count_for_each_descriptor),
        cmocka_unit_test(none_at_all_is_one),
        cmocka_unit_test(a_meter_is_charged_whole_and_asks_with_none),
        cmocka_unit_test(a_refusal_does_not_give_back_what_a_meter_was_charged),
        cmocka_unit_test(hits_to_be_given_back_are_not_charged_and_refuse_nothing),
        cmocka_unit_test(a_multiple_of_a_unit_may_be_another_unit),
        cmocka_unit_test(a_limit_brought_along_holds_in_place_of_the_rules),
        cmocka_unit_test(a_limit_brought_along_is_charged_as_others_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
