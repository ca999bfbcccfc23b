/* test_config_own.c - what virtual keys have of their own, below their tenant: docs/gateway.md. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/config/config.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HASH_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define MODELS                                                        \
    "providers: {p: {base_url: 'http://127.0.0.1:1', api: openai}}\n" \
    "models: {small: {provider: p}, large: {provider: p}}\n"          \
    "passthrough: [{path: '/v1/files/*', provider: p, per_call: 0}]\n"

struct read {
    struct config config;
    struct config_problems problems;
};

static enum config_result parse(struct read *read, const char *yaml,
                                const struct config_extra *extras, size_t n)
{
    return config_parse_with(NULL, yaml, strlen(yaml), extras, n, &read->config, &read->problems);
}

static void must_read(struct read *read, const char *yaml, const struct config_extra *extras,
                      size_t n)
{
    if (parse(read, yaml, extras, n) != CONFIG_READ)
        fail_msg("%s", read->problems.n > 0 ? read->problems.list[0].text : "no problem given");
}

static void done(struct read *read)
{
    config_free(&read->config);
    config_problems_free(&read->problems);
}

/* Warnings are among the problems. */
static const struct config_problem *first_error(const struct config_problems *problems)
{
    for (size_t i = 0; i < problems->n; i++)
        if (!problems->list[i].warning)
            return &problems->list[i];
    return NULL;
}

static const char *const whole =
    MODELS "tenants:\n"
           "  - name: b\n"
           "    models: ['*', '!large']\n"
           "    endpoints: ['/v1/files/*']\n"
           "    keys:\n"
           "      - {name: old, sha256: '" HASH_B "'}\n"
           "      - {name: ci, sha256: '" HASH_A "',\n"
           "         limits: [{rpm: 10}, {models: [small], tpm: 5000}],\n"
           "         budgets: [{usd: 5, per: day, tz: Europe/Berlin, reserve: expected}],\n"
           "         models: ['*'], endpoints: ['!/v1/files/x'],\n"
           "         tags: {team: b, cost_centre: '4711'}}\n";

static void a_key_has_what_is_written(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, whole, NULL, 0);
    const struct config_tenant *tenant = &read.config.tenants[0];
    const struct config_key *ci = &tenant->keys[1];
    assert_ptr_equal(config_find_key(tenant, "ci"), ci);
    assert_null(config_find_key(tenant, "c"));
    assert_int_equal(ci->own.n_limits, 2);
    assert_int_equal(ci->own.limits[0].limiters[0].limiter.limit, 10);
    assert_string_equal(ci->own.limits[1].models.names[0], "small");
    assert_int_equal(ci->own.n_budgets, 1);
    assert_int_equal(ci->own.budgets[0].micro_usd, 5000000);
    assert_string_equal(ci->own.budgets[0].tz, "Europe/Berlin");
    assert_int_equal(ci->own.tags.n, 2);
    assert_string_equal(ci->own.tags.list[0].name, "cost_centre"); /* by name, whatever the file */
    assert_string_equal(ci->own.tags.list[0].value, "4711");
    assert_string_equal(ci->own.tags.list[1].name, "team");
    assert_int_equal(tenant->keys[0].own.n_limits, 0);
    assert_int_equal(ci->not_after, CONFIG_NEVER);
    done(&read);
}

/* A key narrows what its tenant may, and never widens it. */
static void a_key_narrows_and_never_widens(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, whole, NULL, 0);
    const struct config *config = &read.config;
    const struct config_tenant *tenant = &config->tenants[0];
    const struct config_key *old = &tenant->keys[0], *ci = &tenant->keys[1];
    assert_true(config_may_use(config, tenant, NULL, &config->models[0]));
    assert_true(config_may_use(config, tenant, ci, &config->models[0]));
    assert_false(config_may_use(config, tenant, ci, &config->models[1]));
    assert_true(config_may_call(tenant, NULL, SLICE("/v1/files/x")));
    assert_true(config_may_call(tenant, old, SLICE("/v1/files/x")));
    assert_false(config_may_call(tenant, ci, SLICE("/v1/files/x")));
    assert_true(config_may_call(tenant, ci, SLICE("/v1/files/y")));
    assert_false(config_may_call(tenant, ci, SLICE("/v1/other")));
    done(&read);
}

/* A budget of a key is as hard as its tenant's; calls with other keys are no concern of it. */
static void a_budget_of_a_key_is_hard_for_it_alone(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, whole, NULL, 0);
    const struct config_tenant *tenant = &read.config.tenants[0];
    assert_false(config_is_hard(tenant, NULL));
    assert_false(config_is_hard(tenant, &tenant->keys[0]));
    assert_true(config_is_hard(tenant, &tenant->keys[1]));
    assert_false(config_is_bound(tenant, &tenant->keys[1]));
    done(&read);
    must_read(&read,
              "tenants: [{name: a, mode: shadow, keys: [{name: k, sha256: '" HASH_A
              "', budgets: [{usd: 1, per: day}]}]}]\n",
              NULL, 0);
    assert_false(config_is_hard(&read.config.tenants[0], &read.config.tenants[0].keys[0]));
    done(&read);
}

/* While one secret is replaced by the next there are two keys of one name, with one set of limits:
 * either of them says what it is. */
static void keys_of_one_name_have_the_same(void **state)
{
    struct read read;
    (void)state;

    must_read(&read,
              "tenants: [{name: a, keys: [{name: ci, sha256: '" HASH_A "'}, {sha256: '" HASH_B
              "'},\n {name: ci, sha256: '" HASH_C "', limits: [{rpm: 3}]}]}]\n",
              NULL, 0);
    const struct config_key *keys = read.config.tenants[0].keys;
    assert_int_equal(keys[0].own.n_limits, 1);
    assert_int_equal(keys[2].own.n_limits, 1);
    assert_int_equal(keys[1].own.n_limits, 0);
    assert_int_equal(keys[0].first, 0);
    assert_int_equal(keys[1].first, 1);
    assert_int_equal(keys[2].first, 0);
    done(&read);
}

#define KEY(rest) "tenants:\n- {name: a, keys: [{name: k, sha256: '" HASH_A "', " rest "}]}\n"

static void every_error_has_its_place(void **state)
{
    static const struct {
        const char *yaml, *text;
        size_t line;
    } rows[] = {
        {KEY("limits: [{}]"), "limits nothing", 2},
        {KEY("limits: [{rpm: 0}]"), "rpm", 2},
        {KEY("limits: [{rpm: 1, spm: 2}]"), "spm", 2},
        {KEY("budgets: [{per: day}]"), "usd", 2},
        {KEY("budgets: [{usd: 1, per: hour}]"), "one of day | week | month | total", 2},
        {KEY("models: []"), "is empty", 2},
        {KEY("endpoints: []"), "is empty", 2},
        {KEY("tags: {'a=b': x}"), "no name of a tag", 2},
        {KEY("tags: [x]"), "tags", 2},
        {KEY("tags: {a: [x]}"), "a", 2},
        {KEY("tags: {a: 1, a: 2}"), "a", 2},
        {KEY("priority: high"), "priority", 2},
        {KEY("budgets: [{usd: 1, per: day}, {usd: 1, per: day}, {usd: 1, per: day},\n"
             "{usd: 1, per: day}, {usd: 1, per: day}, {usd: 1, per: day}, {usd: 1, per: day},\n"
             "{usd: 1, per: day}, {usd: 1, per: day}]"),
         "9 budgets; at most 8", 2},
        {"tenants: [{name: a, keys: [\n{sha256: '" HASH_A "', limits: [{rpm: 1}]}]}]\n",
         "no name", 2},
        {"tenants: [{name: a, keys: [\n{sha256: '" HASH_A "',\n tags: {x: y}}]}]\n", "no name", 3},
        {"tenants: [{name: a, keys: [{name: k, sha256: '" HASH_A "', limits: [{rpm: 1}]},\n"
         "{name: k, sha256: '" HASH_B "',\n budgets: [{usd: 1, per: day}]}]}]\n",
         "only one of them may", 3},
        {MODELS "tenants: [{name: a, keys: [{name: k, sha256: '" HASH_A "', models: [medium]}]}]\n",
         "the model \"medium\" does not exist", 4},
        {MODELS "tenants: [{name: a, keys: [{name: k, sha256: '" HASH_A
                "', limits: [{models: [medium], rpm: 1}]}]}]\n",
         "the model \"medium\" does not exist", 4},
        {MODELS "tenants: [{name: a, keys: [{name: k, sha256: '" HASH_A
                "', endpoints: [/v1/x]}]}]\n",
         "the endpoint \"/v1/x\" does not exist", 4},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        enum config_result result = parse(&read, rows[i].yaml, NULL, 0);
        const struct config_problem *problem = first_error(&read.problems);
        if (result != CONFIG_WRONG || problem == NULL ||
            strstr(problem->text, rows[i].text) == NULL ||
            problem->line != rows[i].line || problem->column == 0)
            fail_msg("row %zu: %s at %zu:%zu", i, problem != NULL ? problem->text : "no problem",
                     problem != NULL ? problem->line : 0, problem != NULL ? problem->column : 0);
        done(&read);
    }
}

/* More than a call can be asked about is said when it is read, not when it comes. */
static void limits_of_a_key_count_among_those_of_a_call(void **state)
{
    char yaml[2000];
    struct read read;
    size_t n = 0;
    (void)state;

    n += (size_t)snprintf(yaml, sizeof yaml,
                          "tenants:\n- {name: a, limits: [{rpm: 1}],\n"
                          "   keys: [{name: k, sha256: '" HASH_A "', limits: [");
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(yaml + n, sizeof yaml - n, "{rpm: %d}, ", i + 1);
    snprintf(yaml + n, sizeof yaml - n, "]}]}\n");
    assert_int_equal(parse(&read, yaml, NULL, 0), CONFIG_WRONG);
    assert_non_null(strstr(read.problems.list[0].text, "has to clear 17 sets of limits"));
    done(&read);
}

/* ---- keys that stand in no file ---- */

static struct config_extra a_key(const char *name, const char *sha256, const char *text)
{
    return (struct config_extra){.kind = CONFIG_EXTRA_KEY,
                                 .name = "api: key",
                                 .tenant = "b",
                                 .key = name,
                                 .sha256 = sha256,
                                 .not_after = CONFIG_NEVER,
                                 .text = text,
                                 .bytes = text != NULL ? strlen(text) : 0};
}

static void a_key_of_the_api_has_the_same(void **state)
{
    const struct config_extra extra =
        a_key("api", HASH_C,
              "{\"limits\":[{\"rpm\":7}],\"budgets\":[{\"usd\":2,\"per\":\"month\"}],"
              "\"models\":[\"small\"],\"tags\":{\"team\":\"b\"}}");
    struct read read;
    (void)state;

    must_read(&read, whole, &extra, 1);
    const struct config_tenant *tenant = &read.config.tenants[0];
    const struct config_key *key = config_find_key(tenant, "api");
    assert_non_null(key);
    assert_true(key->extra);
    assert_int_equal(key->own.limits[0].limiters[0].limiter.limit, 7);
    assert_int_equal(key->own.budgets[0].micro_usd, 2000000);
    assert_string_equal(key->own.budgets[0].tz, "UTC");
    assert_string_equal(key->own.tags.list[0].value, "b");
    assert_true(config_is_hard(tenant, key));
    /* What it has is nothing of the file's: neither its models nor everyone's budgets. */
    assert_int_equal(read.config.n_models, 2);
    assert_int_equal(read.config.n_budgets, 0);
    done(&read);
}

/* The body of a request is kept as it is, and says these besides. */
static void the_name_and_the_end_of_a_key_of_the_api_stand_beside_its_text(void **state)
{
    static const char *const texts[] = {
        "{\"name\":\"api\",\"limits\":[{\"rpm\":7}],\"not_after\":\"2000-01-01T00:00:00Z\"}",
        "{\"not_after\":5,\"limits\":[{\"rpm\":7}],\"name\":\"api\"}",
        "{\"limits\":[{\"rpm\":7}]}",
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const struct config_extra extra = a_key("api", HASH_C, texts[i]);
        struct read read;
        must_read(&read, whole, &extra, 1);
        const struct config_key *key = config_find_key(&read.config.tenants[0], "api");
        assert_int_equal(key->own.limits[0].limiters[0].limiter.limit, 7);
        assert_true(key->not_after == CONFIG_NEVER);
        done(&read);
    }
}

static void what_is_wrong_with_a_key_of_the_api_is_an_error(void **state)
{
    static const char *const wrong[] = {
        "{\"limits\":[{}]}",
        "{\"name\":\"x\"}",
        "{\"models\":[\"medium\"]}",
        "{\"models\":[]}",
        "[1]",
        "{\"endpoints\":[\"/v1/none\"]}",
        "{\"tags\":{\"a=\":1}}",
        "{",
        "{\"limits\":[{\"models\":[\"no\"],\"rpm\":1}]}",
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const struct config_extra extra = a_key("api", HASH_C, wrong[i]);
        struct read read;
        if (parse(&read, whole, &extra, 1) != CONFIG_WRONG)
            fail_msg("%s was read", wrong[i]);
        assert_string_equal(first_error(&read.problems)->file, "api: key");
        done(&read);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_what_is_written),
        cmocka_unit_test(a_key_narrows_and_never_widens),
        cmocka_unit_test(a_budget_of_a_key_is_hard_for_it_alone),
        cmocka_unit_test(keys_of_one_name_have_the_same),
        cmocka_unit_test(every_error_has_its_place),
        cmocka_unit_test(limits_of_a_key_count_among_those_of_a_call),
        cmocka_unit_test(a_key_of_the_api_has_the_same),
        cmocka_unit_test(the_name_and_the_end_of_a_key_of_the_api_stand_beside_its_text),
        cmocka_unit_test(what_is_wrong_with_a_key_of_the_api_is_an_error),
    };
    return cmocka_run_group_tests_name("config own", tests, NULL, NULL);
}
