/* test_call_rules.c - what rules refuse and put in, what changes prices, and who may be a user. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define CHAT(more) "{\"model\":\"first\",\"messages\":[]" more "}"
/* One that refuses nothing: the kit counts in it. */
#define NO_BUDGET "budgets: [{usd: 100, per: total, mode: shadow}]"

/* Bodies are written with ' for ". */
static const char *quoted(const char *text)
{
    static char body[2048];

    snprintf(body, sizeof body, "%s", text);
    for (char *at = body; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    return body;
}

static void expect_rule(int status, const char *reason, const char *part)
{
    if (client.status != status || strcmp(client.reason, reason) != 0 ||
        strstr(client.body, part) == NULL)
        fail_msg("%d %s %s, not %s", client.status, client.reason, client.body, part);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_idle(NULL, 0);
}

/* ---- refusals ---- */

static void a_rule_refuses_and_says_whose_it_is_and_what_is_allowed(void **state)
{
    static const struct {
        const char *rules, *more, *part;
    } rows[] = {
        {"{field: service_tier, allow: [default]}", ",'service_tier':'priority'",
         "'service_tier' is \\\"priority\\\"; allowed: default (rule of tenant one)"},
        {"{field: max_tokens, max: 8000}", ",'max_completion_tokens':8001",
         "'max_tokens' is 8001; at most 8000 is allowed (rule of tenant one)"},
        {"{field: max_tokens, max: 8000}", ",'max_tokens':8001,'max_completion_tokens':1",
         "'max_tokens' is 8001"},
        {"{field: max_tokens, min: 5}", ",'max_tokens':4", "at least 5 is allowed"},
        {"{field: n, max: 1}", ",'n':2", "'n' is 2; at most 1"},
        {"{field: logprobs, max: 1}", ",'logprobs':true", "'logprobs' must be a number"},
        {"{field: metadata.team, require: true}", "", "'metadata.team' is missing"},
        {"{field: metadata.team, require: true}", ",'metadata':{'team':null}", "is missing"},
        {"{field: tools, deny: true}", ",'tools':[]", "'tools' is not allowed"},
        {"{field: tools.type, deny: [web_search]}",
         ",'tools':[{'type':'function'},{'type':'web_search'}]",
         "is web_search, which is not allowed"},
        {"{field: store, allow: [false]}", ",'store':true", "'store' is true; allowed: false"},
        {"{field: seed, allow: [1, 2]}", ",'seed':3", "'seed' is 3; allowed: 1, 2"},
        {"{field: seed, allow: [1, 2]}", ",'seed':'1'", "'seed' is \\\"1\\\""},
        {"{field: logit_bias, allow: [a]}", ",'logit_bias':{'x':1}", "'logit_bias' is {"},
        {"{header: x-a, allow: [b, c]}", "", NULL},
        {"{header: x-a, require: true}", "", "the header 'x-a' is missing"},
        {"{field: ignore_eos, deny: [true]}, {field: min_tokens, max: 0}", ",'ignore_eos':true",
         "'ignore_eos' is true"},
    };
    char tenant[400], body[500];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.tenant = tenant};
        snprintf(tenant, sizeof tenant, NO_BUDGET ", rules: [%s]", rows[i].rules);
        snprintf(body, sizeof body, "{'model':'first','messages':[]%s}", rows[i].more);
        begin(&config);
        call_client_ask(&client, quoted(body));
        if (rows[i].part != NULL)
            expect_rule(400, "field_rule", rows[i].part);
        else
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

static void what_rules_allow_passes_unchanged(void **state)
{
    const struct call_kit_config config = {
        .first = "rules: [{field: service_tier, allow: [default, auto]}]",
        .tenant = NO_BUDGET ", rules: [{field: max_tokens, max: 8000}, {field: n, max: 1}, "
                            "{header: x-a, allow: [b, c]}]"};
    const char *body = CHAT(",\"max_tokens\":8000,\"n\":1.0,\"service_tier\":\"auto\"");

    (void)state;
    begin(&config);
    call_client_says("x-a", "c, b");
    call_client_ask(&client, body);
    assert_string_equal(call_kit_out()->body, body);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_not_in(client.head, "x-tollgate-changed");
    call_kit.n_more = 0;
    call_client_says("x-a", "b, d");
    call_client_ask(&client, body);
    expect_rule(400, "field_rule", "the header 'x-a' is d; allowed: b, c");
    call_kit_close();
}

static void rules_of_parents_and_of_the_model_hold_too(void **state)
{
    const struct call_kit_config config = {
        .first = "rules: [{field: n, max: 2}]",
        .tenant = NO_BUDGET ", parent: dept",
        .top = "  - {name: dept, parent: firm, rules: [{field: seed, deny: true}]}\n"
               "  - {name: firm, rules: [{field: max_tokens, max: 10}]}\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CHAT(",\"seed\":1"));
    expect_rule(400, "field_rule", "(rule of tenant dept)");
    call_client_ask(&client, CHAT(",\"max_tokens\":11"));
    expect_rule(400, "field_rule", "(rule of tenant firm)");
    call_client_ask(&client, CHAT(",\"n\":3"));
    expect_rule(400, "field_rule", "(rule of model first)");
    call_client_ask(&client, CHAT(",\"n\":2,\"max_tokens\":10"));
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void anthropic_is_refused_in_its_own_form(void **state)
{
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models = ANTHROPIC_MODEL,
        .tenant = NO_BUDGET ", rules: [{field: max_tokens, max: 5}, {field: n, require: true}]"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
    expect_in(client.body, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\"");
    expect_rule(400, "field_rule", "at most 5");
    call_kit_close();
}

/* ---- what is put in ---- */

static void set_and_default_change_what_is_sent_and_say_so(void **state)
{
    static const struct {
        const char *rules, *more, *sent, *changed;
    } rows[] = {
        {"{field: service_tier, set: flex}", "",
         "{'service_tier':'flex','model':'first','messages':[]}", "service_tier"},
        {"{field: service_tier, set: flex}", ",'service_tier':'auto'",
         "{'model':'first','messages':[],'service_tier':'flex'}", "service_tier"},
        {"{field: service_tier, set: flex}", ",'service_tier':'flex'", NULL, NULL},
        {"{field: service_tier, default: flex}", ",'service_tier':'auto'", NULL, NULL},
        {"{field: service_tier, default: flex}", ",'service_tier':null",
         "{'model':'first','messages':[],'service_tier':'flex'}", "service_tier"},
        {"{field: max_tokens, default: 100}", "",
         "{'max_tokens':100,'model':'first','messages':[]}", "max_tokens"},
        {"{field: max_tokens, default: 100}", ",'max_tokens':7", NULL, NULL},
        {"{field: max_tokens, default: 100}", ",'max_tokens':null",
         "{'model':'first','messages':[],'max_tokens':100}", "max_tokens"},
        {"{field: max_tokens, set: 100}", ",'max_tokens':7,'max_completion_tokens':900",
         "{'model':'first','messages':[],'max_tokens':100,'max_completion_tokens':100}",
         "max_tokens"},
        {"{field: metadata.team, set: \"4711\"}", "",
         "{'metadata':{'team':'4711'},'model':'first','messages':[]}", "metadata.team"},
        {"{field: metadata.team, set: a}, {field: metadata.x, set: b}", ",'metadata':{}",
         "{'model':'first','messages':[],'metadata':{'team':'a','x':'b'}}",
         "metadata.team, metadata.x"},
        {"{field: metadata.team, set: a}, {field: metadata.x, set: b}", ",'metadata':{'x':'c'}",
         "{'model':'first','messages':[],'metadata':{'team':'a','x':'b'}}",
         "metadata.team, metadata.x"},
        {"{field: metadata.team, set: a}, {field: metadata.x, set: b}", ",'metadata':null",
         "{'model':'first','messages':[],'metadata':{'team':'a','x':'b'}}",
         "metadata.team, metadata.x"},
        {"{field: metadata.team, set: a}, {field: metadata.x, default: b}", ",'metadata':{'y':1}",
         "{'model':'first','messages':[],'metadata':{'team':'a','x':'b','y':1}}",
         "metadata.team, metadata.x"},
        {"{field: store, set: false}, {field: temperature, default: 0.5}", "",
         "{'store':false,'temperature':0.5,'model':'first','messages':[]}", "store, temperature"},
        {"{header: x-a, set: b}", "", NULL, "x-a"},
    };
    char tenant[400], body[500];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.tenant = tenant};
        snprintf(tenant, sizeof tenant, NO_BUDGET ", rules: [%s]", rows[i].rules);
        snprintf(body, sizeof body, "{'model':'first','messages':[]%s}", rows[i].more);
        begin(&config);
        call_kit_observe(false);
        call_client_says("x-a", "mine");
        call_client_ask(&client, quoted(body));
        if (client.status != 0)
            fail_msg("row %zu: %s", i, client.body);
        assert_string_equal(call_kit_out()->body, quoted(rows[i].sent ? rows[i].sent : body));
        if (rows[i].rules[1] == 'h') {
            expect_in(call_kit_out()->request, "x-a: b\n");
            expect_not_in(call_kit_out()->request, "x-a: mine\n");
        }
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        char told[200];
        snprintf(told, sizeof told, "x-tollgate-changed: %s\n",
                 rows[i].changed ? rows[i].changed : "");
        (rows[i].changed ? expect_in : expect_not_in)(client.head,
                                                      rows[i].changed ? told : "changed");
        snprintf(told, sizeof told, "\"changed\":\"%s\"", rows[i].changed ? rows[i].changed : "");
        (rows[i].changed ? expect_in : expect_not_in)(call_kit_line(),
                                                      rows[i].changed ? told : "\"changed\"");
        call_kit_close();
    }
}

static void what_is_put_in_is_what_is_reserved_and_checked(void **state)
{
    const struct call_kit_config config = {
        .first = "max_output_tokens: 5000, rules: [{field: max_tokens, max: 50}]",
        .tenant = NO_BUDGET ", rules: [{field: max_tokens, default: 20}, {field: n, set: 2}, "
                            "{field: service_tier, set: flex}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CHAT(""));
    assert_int_equal(client.call->ask.max_output, 20);
    assert_int_equal(client.call->ask.choices, 2);
    assert_string_equal(client.call->ask.service_tier.at, "flex");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CHAT(",\"max_tokens\":51"));
    expect_rule(400, "field_rule", "'max_tokens' is 51; at most 50");
    call_kit_close();
}

/* Each field that prices depend on is known by its name alone, whatever else rules put in. */
static void a_priced_field_that_is_put_in_is_the_one_that_is_priced(void **state)
{
    const struct call_kit_config config = {
        .first = "max_output_tokens: 5000",
        .tenant = NO_BUDGET ", rules: [{field: speed, set: fast}, {field: inference_geo, set: us}, "
                            "{field: user, set: u}, {field: frequency_penalty, set: x}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CHAT(""));
    assert_string_equal(client.call->ask.speed.at, "fast");
    assert_string_equal(client.call->ask.inference_geo.at, "us");
    assert_string_equal(client.call->ask.service_tier.at, "");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void the_rules_of_a_fallback_are_those_of_its_own(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 0, fallback: [second, third], rules: [{field: max_tokens, set: 7}]",
        .second = "rules: [{field: seed, deny: true}]",
        .models = "  third: {provider: p, price: {input: 1, output: 2}, retries: 0, "
                  "rules: [{field: user, default: u}]}\n",
        .tenant = NO_BUDGET};

    (void)state;
    begin(&config);
    call_client_ask(&client, CHAT(",\"seed\":1,\"max_tokens\":9"));
    expect_in(call_kit_out()->body, "\"max_tokens\":7");
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_turn();
    expect_in(call_kit_out()->body, "\"model\":\"third\"");
    expect_in(call_kit_out()->body, "\"max_tokens\":9");
    expect_in(call_kit_out()->body, "\"user\":\"u\"");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(client.head, "x-tollgate-changed: user\n");
    call_kit_close();
}

/* ---- attack 4: what changes prices ---- */

static void attack_4_tiers_are_refused_under_a_budget_unless_priced_or_allowed(void **state)
{
    static const struct {
        const char *first, *tenant, *more;
        const char *part; /* null: it passes */
    } rows[] = {
        {NULL, NULL, ",'service_tier':'priority'", "'service_tier' is \\\"priority\\\""},
        {NULL, NULL, ",'service_tier':'flex'", "'service_tier' is"},
        {NULL, NULL, ",'speed':'fast'", "'speed' is \\\"fast\\\""},
        {NULL, NULL, ",'inference_geo':'us'", "'inference_geo' is \\\"us\\\""},
        {NULL, NULL, ",'service_tier':'default'", NULL},
        {NULL, NULL, ",'service_tier':'auto','speed':'standard'", NULL},
        {NULL, NULL, ",'service_tier':null", NULL},
        {NULL, NO_BUDGET, ",'service_tier':'priority'", NULL},
        {"rules: [{field: service_tier, allow: [priority]}]", NULL, ",'service_tier':'priority'",
         NULL},
        {"rules: [{field: service_tier, set: flex}]", NULL, ",'service_tier':'priority'", NULL},
        {"rules: [{field: service_tier, allow: [priority]}]", NULL,
         ",'service_tier':'ultrafast'", "allowed: priority"},
    };
    char body[500];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = rows[i].first, .tenant = rows[i].tenant};
        snprintf(body, sizeof body, "{'model':'first','max_tokens':5,'messages':[]%s}",
                 rows[i].more);
        begin(&config);
        call_client_ask(&client, quoted(body));
        if (rows[i].part != NULL) {
            expect_rule(400, "field_rule", rows[i].part);
        } else {
            if (client.status != 0)
                fail_msg("row %zu: %s", i, client.body);
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        }
        call_kit_close();
    }
}

static void attack_4_a_tier_with_a_factor_is_priced(void **state)
{
    const struct call_kit_config config = {
        .models = "  tiered: {provider: p, price: {input: 1, output: 2, factors: "
                  "{service_tier: {priority: 2.0}}}}\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, "{\"model\":\"tiered\",\"max_tokens\":5,\"messages\":[],"
                             "\"service_tier\":\"priority\"}");
    assert_int_equal(client.call->state, CALL_ASKING);
    call_client_gone(&client, HTTP_HANGUP);
    call_client_ask(&client, "{\"model\":\"tiered\",\"max_tokens\":5,\"messages\":[],"
                             "\"service_tier\":\"fast\"}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "price.factors");
    call_client_gone(&client, HTTP_DONE);
    call_client_ask(&client, "{\"model\":\"tiered\",\"max_tokens\":5,\"messages\":[],"
                             "\"service_tier\":[\"priority\"]}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "must be a string, not an array");
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

static void attack_4_betas_need_a_rule_under_a_budget(void **state)
{
    static const struct {
        const char *tenant, *name, *value;
        const char *part;
    } rows[] = {
        {NULL, "anthropic-beta", "compact-2026-01-12", "'anthropic-beta' is compact-2026-01-12"},
        {NULL, "anthropic-beta", "pdfs-2024-09-25, fast-mode", "'anthropic-beta' is fast-mode"},
        {NULL, "anthropic-beta", "interleaved-thinking-2025-05-14", NULL},
        {NULL, "openai-beta", "x=1", "'openai-beta' is x=1"},
        {NULL, "x-vertex-ai-llm-request-type", "shared", "'x-vertex-ai-llm-request-type' is"},
        {NO_BUDGET, "anthropic-beta", "compact-2026-01-12", NULL},
        {"budgets: [{usd: 100, per: total}], rules: [{header: anthropic-beta, allow: [fast-mode]}]",
         "anthropic-beta", "fast-mode", NULL},
        {"budgets: [{usd: 100, per: total}], rules: [{header: x-vertex-ai-llm-request-type, "
         "allow: [dedicated]}]",
         "x-vertex-ai-llm-request-type", "dedicated", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.tenant = rows[i].tenant};
        begin(&config);
        call_client_says(rows[i].name, rows[i].value);
        call_client_ask(&client, CALL_KIT_BODY);
        if (rows[i].part != NULL)
            expect_rule(400, "field_rule", rows[i].part);
        else
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

static void headers_of_a_passthrough_have_rules(void **state)
{
    const struct call_kit_config config = {
        .tenant = NO_BUDGET ", rules: [{header: x-a, deny: true}, {field: n, require: true}, "
                            "{header: x-b, set: c}]",
        .top = "passthrough: [{path: /v1/other, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/other", "{}");
    expect_in(call_kit_out()->request, "x-b: c\n");
    reply_and_end(200, JSON, "x");
    call_client_says("x-a", "b");
    call_client_ask_at(&client, "/v1/other", "{}");
    expect_rule(400, "field_rule", "the header 'x-a' is not allowed");
    call_kit_close();
}

/* ---- attack 7: users ---- */

static void attack_7_more_users_than_the_maximum_are_refused(void **state)
{
    const struct call_kit_config config = {
        .tenant = NO_BUDGET ", users: {from: \"header:x-user\", max: 2}"};
    static const struct {
        const char *user;
        int status;
    } rows[] = {{"anna", 0}, {"berta", 0}, {"carla", 429}, {"dora", 429}, {"anna", 0}};

    (void)state;
    begin(&config);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit.n_more = 0;
        call_client_says("x-user", rows[i].user);
        call_client_begin(&client, -1);
        if (client.status != rows[i].status)
            fail_msg("row %zu: %d %s", i, client.status, client.body);
        if (client.status == 429) {
            expect_in(client.body, "user limit of tenant one: 2 users have called today");
            expect_in(client.head, "x-should-retry: false\n");
            expect_in(client.head, "x-tollgate-reset-at: ");
            expect_in(client.head, "x-tollgate-reason: user_limit\n");
        }
        call_client_gone(&client, HTTP_DONE);
    }
    call_kit_reload(&config); /* what is counted outlasts a configuration */
    call_kit.n_more = 0;
    call_client_says("x-user", "carla");
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 429);
    call_client_gone(&client, HTTP_DONE);
    call_kit_pass(24 * 3600 * 1000); /* and begins anew with the day */
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

static void attack_7_a_call_without_its_user_is_refused_where_it_is_required(void **state)
{
    const struct call_kit_config config = {
        .tenant = NO_BUDGET ", users: {from: \"header:x-user\", required: true}"};

    (void)state;
    begin(&config);
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "x-user");
    call_client_gone(&client, HTTP_DONE);
    call_client_says("x-user", "");
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_kit.n_more = 0;
    call_client_says("x-user", "anna");
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

/* A header that a rule puts in takes the place of the client's; the others stay. */
static void a_header_that_is_put_in_leaves_the_others(void **state)
{
    const struct call_kit_config config = {
        .tenant = NO_BUDGET ", rules: [{header: x-b, set: ours}]"};

    (void)state;
    begin(&config);
    call_client_says("x-b", "theirs");
    call_client_says("x-c", "kept");
    call_client_ask(&client, CHAT(""));
    expect_in(call_kit_out()->request, "x-b: ours\n");
    expect_in(call_kit_out()->request, "x-c: kept\n");
    expect_not_in(call_kit_out()->request, "theirs");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What a rule bounds needs no bound of a budget, and is told as the rule's. */
static void a_bound_that_is_put_in_is_no_clamp(void **state)
{
    const struct call_kit_config config = {
        .first = "on_unbounded: clamp, clamp_to: 77",
        .tenant = "budgets: [{usd: 100, per: total}], rules: [{field: max_tokens, default: 50}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CHAT(""));
    expect_in(call_kit_out()->body, "\"max_tokens\":50");
    expect_not_in(call_kit_out()->body, "77");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(client.head, "x-tollgate-changed: max_tokens\n");
    expect_not_in(client.head, "x-tollgate-clamped");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.clamped), 0);
    call_kit_close();
}

/* A name that only begins like those of a provider's tiers is none of them. */
static void a_header_that_is_no_tier_needs_no_price(void **state)
{
    (void)state;
    begin(&(struct call_kit_config){.tenant = "budgets: [{usd: 100, per: total}]"});
    call_client_says("x-vertex-ai-llm-", "x");
    call_client_says("x-vertex-ai-lln-tier", "x");
    call_client_ask(&client, CHAT(""));
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_refuses_and_says_whose_it_is_and_what_is_allowed),
        cmocka_unit_test(what_rules_allow_passes_unchanged),
        cmocka_unit_test(rules_of_parents_and_of_the_model_hold_too),
        cmocka_unit_test(anthropic_is_refused_in_its_own_form),
        cmocka_unit_test(set_and_default_change_what_is_sent_and_say_so),
        cmocka_unit_test(what_is_put_in_is_what_is_reserved_and_checked),
        cmocka_unit_test(a_priced_field_that_is_put_in_is_the_one_that_is_priced),
        cmocka_unit_test(the_rules_of_a_fallback_are_those_of_its_own),
        cmocka_unit_test(attack_4_tiers_are_refused_under_a_budget_unless_priced_or_allowed),
        cmocka_unit_test(attack_4_a_tier_with_a_factor_is_priced),
        cmocka_unit_test(attack_4_betas_need_a_rule_under_a_budget),
        cmocka_unit_test(headers_of_a_passthrough_have_rules),
        cmocka_unit_test(attack_7_more_users_than_the_maximum_are_refused),
        cmocka_unit_test(attack_7_a_call_without_its_user_is_refused_where_it_is_required),
        cmocka_unit_test(a_header_that_is_put_in_leaves_the_others),
        cmocka_unit_test(a_bound_that_is_put_in_is_no_clamp),
        cmocka_unit_test(a_header_that_is_no_tier_needs_no_price),
    };

    return cmocka_run_group_tests_name("call_rules", tests, NULL, NULL);
}
