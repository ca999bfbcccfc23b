/* test_config_rules.c - rules for fields and headers: how they are read, and what is refused. */
#include "config_kit.h"

#include <stdio.h>

#define PROVIDERS "providers: {p: {base_url: \"http://127.0.0.1:1\", api: openai}}\n"
#define MODEL "models: {m: {provider: p, price: {input: 1, output: 2}"

static void rules_are_read_of_models_and_tenants(void **state)
{
    struct read read;

    (void)state;
    must_read(&read, PROVIDERS MODEL
              ", rules: [{field: service_tier, allow: [default, \"auto\"]}]}}\n"
              "tenants:\n"
              "  - name: a\n"
              "    rules: [{field: max_completion_tokens, max: 8000, min: 1},\n"
              "      {field: metadata.team, require: true}, {header: Anthropic-Beta, deny: true},\n"
              "      {field: n, deny: [2, 3.5, true, \"2\"]}, {field: temperature, default: 0.5},\n"
              "      {field: store, set: false}, {header: x-a, set: \"1, 2\"}]\n");
    const struct field_rules *rules = &read.config.tenants[0].rules;
    const struct field_rule *model = &read.config.models[0].rules.list[0];

    assert_int_equal(read.config.models[0].rules.n, 1);
    assert_string_equal(model->name, "service_tier");
    assert_true(model->has_allow && !model->deny_all && model->change == RULE_KEEPS);
    assert_int_equal(model->field, read.config.tiers[0].field);
    assert_int_equal(model->allow & ~read.config.tiers[0].plain, 0);
    assert_string_equal(model->allowed, "default, auto");
    assert_int_equal(rules->n, 7);
    assert_string_equal(rules->list[0].name, "max_tokens");
    assert_true(rules->list[0].has_max && equal(rules->list[0].max, 8000));
    assert_true(rules->list[0].has_min && equal(rules->list[0].min, 1));
    assert_true(rules->list[1].require);
    assert_string_equal(rules->list[2].name, "anthropic-beta");
    assert_true(rules->list[2].is_header && rules->list[2].deny_all);
    assert_int_equal(__builtin_popcountll(rules->list[3].deny), 4);
    assert_int_equal(rules->list[4].change, RULE_DEFAULT);
    assert_string_equal(rules->list[4].text, "0.5");
    assert_int_equal(rules->list[5].change, RULE_SET);
    assert_string_equal(rules->list[5].text, "false");
    assert_string_equal(rules->list[6].text, "1, 2");
    done(&read);
}

static void mistakes_are_named_with_their_place(void **state)
{
    static const struct {
        const char *rules;
        size_t column;
        const char *text;
    } rows[] = {
        {"{field: n}", 26, "says nothing of n"},
        {"{max: 1}", 26, "has no field"},
        {"{field: n, header: x, max: 1}", 26, "a field and a header"},
        {"{field: a b, max: 1}", 34, "a key such as service_tier"},
        {"{field: a..b, max: 1}", 34, "there can be no rule for"},
        {"{field: a.b.c.d.e, max: 1}", 34, "there can be no rule for"},
        {"{header: \"a b\", deny: true}", 35, "the name of a header"},
        {"{field: n, min: 3, max: 2}", 42, "min must not be above max"},
        {"{field: n, max: \"2\"}", 42, "in quotes"},
        {"{field: n, allow: []}", 44, "allows no value"},
        {"{field: n, allow: [1], deny: [1]}", 44, "allows no value"},
        {"{field: n, allow: [1, 2], deny: [1]}", 58, "allows and denies the same value"},
        {"{field: n, deny: false}", 43, "true, or a list of values"},
        {"{field: n, deny: true, max: 2}", 43, "denies n whatever it is"},
        {"{field: n, deny: true, require: true}", 43, "denies n whatever it is"},
        {"{field: n, set: 1, default: 2}", 54, "set and default"},
        {"{field: n, set: 1, require: true}", 54, "requires n, and puts it in"},
        {"{field: n, set: 3, max: 2}", 42, "that it does not allow"},
        {"{field: n, set: x, max: 2}", 42, "that it does not allow"},
        {"{field: service_tier, default: a, allow: [b]}", 57, "that it does not allow"},
        {"{field: service_tier, set: [a]}", 53, "a text, a number"},
        {"{field: model, set: x}", 46, "cannot be put into a call"},
        {"{field: stream_options.include_usage, set: true}", 69, "cannot be put into a call"},
        {"{field: reasoning.mode, set: pro}", 55, "cannot be put into a call"},
        {"{field: a.b.c, set: x}", 46, "cannot be put into a call"},
        {"{field: max_tokens, set: 0}", 51, "a whole number from 1 up"},
        {"{field: max_tokens, set: 1.5}", 51, "a whole number from 1 up"},
        {"{header: x, max: 2}", 26, "a header has no min and max"},
        {"{field: n, sets: 2}", 37, "has no key \"sets\""},
        {"{field: n, max: 2}, {field: n, min: 3}", 46, "contradicts rules[0] of the same list"},
        {"{field: n, set: 2}, {field: n, set: 3}", 46, "puts in another value"},
        {"{field: x, allow: [a]}, {field: x, allow: [b]}", 50, "allows none of the same values"},
        {"{field: x, deny: true}, {field: x, require: true}", 50, "says the opposite"},
        {"{field: x, set: a}, {field: x, allow: [b]}", 46, "does not allow what is set"},
        {"{field: x, set: a}, {field: x, deny: [a]}", 46, "does not allow what is set"},
    };
    char text[1000];
    struct read read;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text, "tenants:\n  - {name: abcd, rules: [%s]}\n", rows[i].rules);
        if (parse(&read, text) != CONFIG_WRONG || read.problems.list[0].line != 2 ||
            read.problems.list[0].column != rows[i].column ||
            strstr(read.problems.list[0].text, rows[i].text) == NULL)
            fail_msg("row %zu: %zu:%zu %s", i, read.problems.n ? read.problems.list[0].line : 0,
                     read.problems.n ? read.problems.list[0].column : 0,
                     read.problems.n ? read.problems.list[0].text : "");
        done(&read);
    }
}

static void a_tenant_must_not_contradict_its_parents(void **state)
{
    struct read read;

    (void)state;
    assert_int_equal(parse(&read, "tenants:\n"
                                  "  - {name: c, parent: b, rules: [{field: n, min: 3}]}\n"
                                  "  - {name: b, parent: a}\n"
                                  "  - {name: a, rules: [{field: n, max: 2}]}\n"),
                     CONFIG_WRONG);
    assert_int_equal(read.problems.list[0].line, 2);
    assert_non_null(strstr(read.problems.list[0].text, "contradicts rules[0] of the tenant a"));
    done(&read);
}

static void rules_have_an_end(void **state)
{
    char text[8000];
    struct read read;
    size_t n = 0;

    (void)state;
    n += (size_t)snprintf(text, sizeof text, "tenants:\n  - {name: a, rules: [{field: x, deny: [");
    for (int i = 0; i <= ASK_WATCH_VALUES_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i > 0 ? ", " : "", i);
    snprintf(text + n, sizeof text - n, "]}]}\n");
    assert_int_equal(parse(&read, text), CONFIG_WRONG);
    assert_non_null(strstr(read.problems.list[0].text, "too many values"));
    done(&read);
    n = (size_t)snprintf(text, sizeof text, "tenants:\n  - {name: a, rules: [");
    for (int i = 0; i < ASK_WATCH_FIELDS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{field: x%d, deny: true}",
                              i > 0 ? ", " : "", i);
    snprintf(text + n, sizeof text - n, "]}\n");
    assert_int_equal(parse(&read, text), CONFIG_WRONG);
    assert_non_null(strstr(read.problems.list[0].text, "at most 40 fields and headers"));
    done(&read);
    n = (size_t)snprintf(text, sizeof text, "tenants:\n  - {name: a, rules: [");
    for (int i = 0; i <= RULE_CHANGES_MAX / 2; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s{field: x%d, set: 1}",
                              i > 0 ? ", " : "", i);
    snprintf(text + n, sizeof text - n, "]}\n");
    assert_int_equal(parse(&read, text), CONFIG_WRONG);
    assert_non_null(strstr(read.problems.list[0].text, "at most 8 may"));
    done(&read);
}

static void budgets_that_refuse_are_known(void **state)
{
    static const struct {
        const char *text;
        bool hard, bound;
    } rows[] = {
        {"tenants: [{name: a}]\n", false, false},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day}]}]\n", true, true},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, mode: shadow}]}]\n", false, false},
        {"tenants: [{name: a, mode: shadow, budgets: [{usd: 1, per: day}]}]\n", false, false},
        {"budgets: [{usd: 1, per: day}]\ntenants: [{name: a}]\n", true, true},
        {"tenants: [{name: a, parent: b}, {name: b, budgets: [{usd: 1, per: day}]}]\n", true, true},
        {"tenants: [{name: a, users: {from: \"header:u\", each: {budgets: [{usd: 1, per: day}]}}}]",
         true, true},
        {"tenants: [{name: a, users: {from: \"header:u\", each: {mode: shadow, "
         "budgets: [{usd: 1, per: day}]}}}]",
         false, false},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: bound}]}]\n", true, true},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: expected}]}]\n", true, false},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: expected}, "
         "{usd: 9, per: week}]}]\n",
         true, true},
        {"budgets: [{usd: 1, per: day}]\n"
         "tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: expected}]}]\n",
         true, true},
        {"budgets: [{usd: 1, per: day, reserve: expected}]\n"
         "tenants: [{name: a, parent: b, users: {from: \"header:u\", each: {budgets: "
         "[{usd: 1, per: day, reserve: expected}]}}}, "
         "{name: b, budgets: [{usd: 1, per: day, reserve: expected}]}]\n",
         true, false},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: expected}], users: "
         "{from: \"header:u\", each: {budgets: [{usd: 1, per: day}]}}}]\n",
         true, true},
        {"tenants: [{name: a, parent: b, budgets: [{usd: 1, per: day, reserve: expected}]}, "
         "{name: b, budgets: [{usd: 1, per: day}]}]\n",
         true, true},
        {"tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: expected}, "
         "{usd: 1, per: week, mode: shadow}]}]\n",
         true, false},
    };
    struct read read;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        must_read(&read, rows[i].text);
        if (read.config.tenants[0].hard_budget != rows[i].hard ||
            read.config.tenants[0].bound_budget != rows[i].bound)
            fail_msg("row %zu", i);
        done(&read);
    }
    assert_int_equal(
        parse(&read, "tenants: [{name: a, budgets: [{usd: 1, per: day, reserve: most}]}]\n"),
        CONFIG_WRONG);
    assert_int_equal(read.problems.list[0].line, 1);
    assert_int_equal(read.problems.list[0].column, 59);
    assert_non_null(strstr(read.problems.list[0].text, "bound"));
    assert_non_null(strstr(read.problems.list[0].text, "expected"));
    done(&read);
    must_read(&read, PROVIDERS "models: {m: {provider: p, price: {input: 1, output: 2, factors: "
                               "{service_tier: {priority: 2.0}, speed: {fast: 2.0}}}}}\n");
    assert_int_equal(__builtin_popcountll(read.config.models[0].priced[0]), 1);
    assert_int_equal(read.config.models[0].priced[0] & read.config.tiers[0].plain, 0);
    assert_int_equal(__builtin_popcountll(read.config.models[0].priced[1]), 1);
    assert_int_equal(read.config.models[0].priced[2], 0);
    done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_of_models_and_tenants),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(a_tenant_must_not_contradict_its_parents),
        cmocka_unit_test(rules_have_an_end),
        cmocka_unit_test(budgets_that_refuse_are_known),
    };

    return cmocka_run_group_tests_name("config_rules", tests, NULL, NULL);
}
