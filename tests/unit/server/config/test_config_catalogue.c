/* test_config_catalogue.c - what models take from a catalogue, and what they do not. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "config_kit.h"

extern const char catalogue_bytes[], catalogue_end[];

#define OPENAI "providers: {o: {base_url: \"https://api.openai.com\", api: openai}}\n"

/* ---- Files ---- */

static char folder[64];

static void write_file(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A configuration beside a catalogue of its own, cat.yaml. */
static enum config_result load(struct read *read, const char *config, const char *catalogue)
{
    const char *in = getenv("TMPDIR");
    char path[128];

    int bytes = snprintf(folder, sizeof folder, "%.40s/cat-", in != NULL ? in : "/tmp");
    memset(folder + bytes, 'X', 6); /* to be replaced */
    folder[bytes + 6] = '\0';
    assert_non_null(mkdtemp(folder));
    write_file("c.yaml", config);
    write_file("cat.yaml", catalogue);
    snprintf(path, sizeof path, "%s/c.yaml", folder);
    enum config_result result = config_load(path, &read->config, &read->problems);
    unlink(path);
    snprintf(path, sizeof path, "%s/cat.yaml", folder);
    unlink(path);
    rmdir(folder);
    return result;
}

static bool says(const struct read *read, const char *words)
{
    for (size_t i = 0; i < read->problems.n; i++)
        if (strstr(read->problems.list[i].text, words) != NULL)
            return true;
    return false;
}

static const struct config_model *only(const struct read *read)
{
    assert_int_equal(read->config.n_models, 1);
    return &read->config.models[0];
}

/* ---- The one in the program ---- */

/* Rows, by the line: each is one. */
static void it_has_the_models_of_the_day(void **state)
{
    size_t rows = 0;
    (void)state;

    for (const char *at = catalogue_bytes; (at = strstr(at, "\n  - {id: ")) != NULL; at++)
        rows++;
    assert_true(rows >= 200);
    assert_int_equal(*catalogue_end, '\0');
}

/* gpt-6.1-sol, as its provider's price list has it: 2, 0.1 and 10, writes at 1.25, everything
 * twice (output 1.5 times) above 272,000. */
static void a_model_takes_what_it_does_not_say(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, OPENAI "models: {gpt-6.1-sol: {provider: o}}\n");
    const struct config_model *model = only(&read);
    assert_true(model->has_price);
    assert_int_equal(model->price.input, 2000000);
    assert_int_equal(model->price.cached_input, 100000);
    assert_int_equal(model->price.cache_write, 2500000);
    assert_int_equal(model->price.cache_write_long, -1);
    assert_int_equal(model->price.output, 10000000);
    assert_int_equal(model->price.per_tool_call, 10000);
    assert_int_equal(model->price.steps[0].above, 272000);
    assert_int_equal(model->price.steps[0].input_milli, 2000);
    assert_int_equal(model->price.steps[0].output_milli, 1500);
    assert_int_equal(config_factor(&model->service_tier, "priority", 8), 2000);
    assert_int_equal(config_factor(&model->service_tier, "ultrafast", 9), 6000);
    assert_int_equal(model->context, 1050000);
    assert_int_equal(model->max_output_tokens, 128000);
    assert_int_equal(config_most_output(model), 128000);
    assert_int_equal(config_assumed_output(model), CONFIG_OUTPUT_ASSUMED);
    assert_int_equal(model->most_tokens_per_s, 4000);
    assert_int_equal(model->tokenizer, CONFIG_TOK_BYTE);
    assert_int_equal(model->cut, CONFIG_CUT_STOPS);
    assert_int_equal(model->image_most, 30000);
    assert_int_equal(model->image.rule, CONFIG_IMAGE_PATCHES);
    assert_int_equal(model->image.budget, 0);
    assert_int_equal(model->image.factor_milli, 1000);
    assert_int_equal(model->tpm_counts, CONFIG_TPM_ASKED);
    assert_true(model->cache_write_implicit);
    assert_non_null(strstr(model->price_from, "builtin of 20"));
    assert_non_null(strstr(model->price_from, "openai gpt-6.1-sol"));
    assert_true(read.config.catalogue_checked_at > 0);
    done(&read);
}

static void rows_are_found_by_the_names_of_the_provider(void **state)
{
    static const struct {
        const char *provider, *model;
        tg_micro input; /* -1: no row */
    } rows[] = {
        {"{base_url: \"https://api.anthropic.com\", api: anthropic}",
         "{provider: p, upstream_model: claude-opus-5-5}", 4000000},
        {"{base_url: \"https://api.anthropic.com/v1\", api: anthropic}",
         "{provider: p, upstream_model: claude-sonnet}", 2000000},
        /* an alias with a date */
        {"{base_url: \"https://api.openai.com\", api: openai}",
         "{provider: p, upstream_model: gpt-4o-2024-08-06}", 2500000},
        /* another's model, and no model */
        {"{base_url: \"https://api.openai.com\", api: openai}",
         "{provider: p, upstream_model: claude-opus-5-5}", -1},
        {"{base_url: \"https://api.openai.com\", api: openai}", "{provider: p}", -1},
        /* the rows of another: Azure has OpenAI's, at a resource's host */
        {"{base_url: \"https://x.openai.azure.com\", api: openai}",
         "{provider: p, upstream_model: gpt-4o}", 2500000},
        /* a region, or a discount */
        {"{base_url: \"https://x.openai.azure.com\", api: openai, price_factor: 1.1}",
         "{provider: p, upstream_model: gpt-4o}", 2750000},
        /* hosts that only look alike */
        {"{base_url: \"https://notapi.openai.com\", api: openai}",
         "{provider: p, upstream_model: gpt-4o}", -1},
        {"{base_url: \"https://api.openai.com.example\", api: openai}",
         "{provider: p, upstream_model: gpt-4o}", -1},
        {"{base_url: \"http://127.0.0.1:9\", api: openai}", "{provider: p, upstream_model: gpt-4o}",
         -1},
        /* said by its provider */
        {"{base_url: \"http://127.0.0.1:9\", api: openai, catalogue: openai}",
         "{provider: p, upstream_model: gpt-4o}", 2500000},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char text[400];
        snprintf(text, sizeof text, "providers: {p: %s}\nmodels: {m: %s}\n", rows[i].provider,
                 rows[i].model);
        must_read(&read, text);
        assert_int_equal(only(&read)->has_price, rows[i].input >= 0);
        assert_int_equal(only(&read)->price.input, rows[i].input < 0 ? 0 : rows[i].input);
        assert_int_equal(says(&read, "has no price"), rows[i].input < 0);
        done(&read);
    }
}

/* What a reply names: the configuration's own price first, then the catalogue's, by all names and
 * by those of dated versions; and the dearest of the provider's for what nobody knows. */
static void passes_of_other_models_have_prices(void **state)
{
    static const struct {
        const char *name;
        tg_micro micro;
    } rows[] = {
        {"claude-opus-5-5", 4 * 3},
        {"claude-opus-5-5-20260801", 4 * 3},
        {"claude-opus-5-5@20260801", 4 * 3},
        {"claude-sonnet-5-5", 7 * 3},
        {"claude-sonnet", 7 * 3},
        {"claude-haiku-5-5-2026", 10 * 3},
        {"no-such-model", 10 * 3},
        {NULL, 10 * 3},
    };
    const struct tg_usage usage = {.input = 1000000};
    struct read read;
    (void)state;

    must_read(&read, "providers: {a: {base_url: \"https://api.anthropic.com\", api: anthropic, "
                     "price_factor: 3, keys: [{name: k, secret: s}]}}\n"
                     "models: {claude-sonnet-5-5: {provider: a, price: {input: 7, output: 8}}}\n");
    const struct config_provider *provider = &read.config.providers[0];
    assert_true(provider->n_pass_prices > 10);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tg_micro got = config_price_of_pass(provider, only(&read), rows[i].name, &usage);
        if (got != rows[i].micro * 1000000)
            fail_msg("%s: %lld", rows[i].name, (long long)got);
    }
    assert_true(config_is_model(provider, only(&read), "claude-sonnet-5-5-20261001"));
    assert_false(config_is_model(provider, only(&read), "claude-sonnet-5"));
    assert_false(config_is_model(provider, only(&read), "claude-opus-5-5"));
    done(&read);
}

static void the_configuration_wins(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, OPENAI "models: {gpt-6.1-sol: {provider: o, price: {input: 7}, context: 9, "
                            "tokenizer: nfkc, tpm_counts: used, max_output_tokens: 5}}\n");
    const struct config_model *model = only(&read);
    assert_int_equal(model->price.input, 7000000);
    assert_int_equal(model->price.cached_input, -1); /* a price is taken whole, or not */
    assert_int_equal(model->price.steps[0].above, 0);
    assert_int_equal(model->service_tier.n, 0);
    assert_int_equal(model->context, 9);
    assert_int_equal(model->max_output_tokens, 5);
    assert_int_equal(model->tokenizer, CONFIG_TOK_NFKC);
    assert_int_equal(model->tpm_counts, CONFIG_TPM_USED);
    assert_int_equal(model->most_tokens_per_s, 4000);
    assert_string_equal(model->price_from, "the configuration");
    assert_int_equal(read.config.catalogue_checked_at, 0);
    done(&read);
    must_read(&read, OPENAI "models: {gpt-6.1-sol: {provider: o}}\ncatalogue: []\n");
    assert_false(only(&read)->has_price);
    assert_int_equal(only(&read)->context, 0);
    done(&read);
}

/* ---- Others ---- */

#define OWN "models: {m: {provider: o, upstream_model: gpt-4o}}\n"

static void the_later_catalogue_wins(void **state)
{
    static const char own[] = "checked: 2999-01-01\n"
                              "providers: {openai: {hosts: [api.openai.com], rounds: 3}}\n"
                              "models:\n"
                              "  - {id: gpt-4o, provider: openai, price: {input: 1}, context: 5}\n";
    struct read read;
    (void)state;

    assert_int_equal(load(&read, OPENAI OWN "catalogue: [builtin, cat.yaml]\n", own), CONFIG_READ);
    assert_int_equal(only(&read)->price.input, 1000000);
    assert_int_equal(only(&read)->context, 5);
    assert_int_equal(only(&read)->rounds, 3);
    assert_non_null(strstr(only(&read)->price_from, "cat.yaml of 2999-01-01"));
    done(&read);
    assert_int_equal(load(&read, OPENAI OWN "catalogue: [cat.yaml, builtin]\n", own), CONFIG_READ);
    assert_int_equal(only(&read)->price.input, 2500000);
    done(&read);
}

static void a_row_holds_between_its_dates(void **state)
{
    static const struct {
        const char *rows;
        tg_micro input; /* -1: none */
    } rows[] = {
        {"  - {id: gpt-4o, provider: openai, price: {input: 1}, until: 2020-01-01}\n"
         "  - {id: gpt-4o, provider: openai, price: {input: 2}, from: 2020-01-01, "
         "until: 2999-01-01}\n"
         "  - {id: gpt-4o, provider: openai, price: {input: 3}, from: 2999-01-01}\n",
         2000000},
        {"  - {id: gpt-4o, provider: openai, price: {input: 1}, until: 2020-01-01}\n", -1},
        {"  - {id: gpt-4o, provider: openai, price: {input: 1}, from: 2999-01-01}\n", -1},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        char text[600];
        snprintf(text, sizeof text,
                 "checked: 2999-01-01\nproviders: {openai: {hosts: [api.openai.com]}}\nmodels:\n%s",
                 rows[i].rows);
        assert_int_equal(load(&read, OPENAI OWN "catalogue: [cat.yaml]\n", text), CONFIG_READ);
        assert_int_equal(only(&read)->has_price, rows[i].input >= 0);
        assert_int_equal(only(&read)->price.input, rows[i].input < 0 ? 0 : rows[i].input);
        assert_int_equal(says(&read, "ended on 2020-01-01; it needs a newer one"), i == 1);
        /* When it ends, the next one is taken. */
        if (i == 0)
            assert_int_equal(read.config.catalogue_until, INT64_C(32472144000000));
        else
            assert_int_equal(read.config.catalogue_until, TG_NUMBER_MAX);
        done(&read);
    }
}

/* DeepSeek bills half of it at other hours. Which moment of a call counts is not published. */
static void a_price_by_the_hour_is_that_of_the_peak(void **state)
{
    struct read read;
    (void)state;

    must_read(&read, "providers: {d: {base_url: \"https://api.deepseek.com\", api: openai}}\n"
                     "models: {deepseek-v4-pro: {provider: d}}\n");
    assert_int_equal(only(&read)->price.input, 1320000);
    assert_int_equal(only(&read)->price.cached_input, 44000);
    assert_int_equal(only(&read)->price.output, 3960000);
    done(&read);
}

static void an_old_catalogue_is_warned_of_once(void **state)
{
    struct read read;
    (void)state;

    assert_int_equal(load(&read,
                          OPENAI "models: {gpt-4o: {provider: o}, x: {provider: o, "
                                 "upstream_model: gpt-4o}}\ncatalogue: [cat.yaml]\n",
                          "checked: 2020-01-01\nproviders: {openai: {hosts: [api.openai.com]}}\n"
                          "models: [{id: gpt-4o, provider: openai, price: {input: 1}}]\n"),
                     CONFIG_READ);
    assert_int_equal(read.problems.warnings, 1);
    assert_true(says(&read, "days ago; prices may have changed"));
    assert_int_equal(read.config.catalogue_checked_at, INT64_C(1577836800000));
    done(&read);
}

static void what_is_wrong_has_a_place(void **state)
{
    static const struct {
        const char *text, *says;
        size_t line, column;
    } rows[] = {
        {"checked: soon\n", "checked is \"soon\"; it must be a date such as 2026-11-30", 1, 10},
        {"models: []\n", "checked is missing", 1, 1},
        {"checked: 2026-01-01\nmodels:\n  - {id: m, provider: p, until: x}\n",
         "models[0].until is \"x\"; it must be a date", 3, 33},
        {"checked: 2026-01-01\nmodels:\n  - {id: m, provider: p, price: {inputs: 1}}\n",
         "has no key \"inputs\"", 3, 34},
        {"checked: [\n", "not YAML", 2, 1},
    };
    (void)state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct read read;
        assert_int_equal(load(&read, OPENAI OWN "catalogue: [cat.yaml]\n", rows[i].text),
                         CONFIG_WRONG);
        assert_true(read.problems.n >= 1);
        if (strstr(read.problems.list[0].text, rows[i].says) == NULL ||
            read.problems.list[0].line != rows[i].line ||
            read.problems.list[0].column != rows[i].column)
            fail_msg("%zu:%zu %s", read.problems.list[0].line, read.problems.list[0].column,
                     read.problems.list[0].text);
        assert_non_null(strstr(read.problems.list[0].file, "cat.yaml"));
        done(&read);
    }
}

/* ---- Budgets ---- */

/* 100,000 x 2.5 (written to a cache) x 2 (above 50,000) + 10,000 x 10 x 2 is 0.7 dollars. */
static void budgets_hold_so_many_of_the_largest_calls(void **state)
{
    struct read read;
    const struct config_model *largest = NULL;
    (void)state;

    must_read(&read, "providers: {p: {base_url: \"http://h\", api: openai}}\n"
                     "models:\n"
                     "  m: {provider: p, context: 100000, max_output_tokens: 10000, price: {input: "
                     "2, cache_write: 2.5, output: 10, factors: {above_tokens: {50000: 2}}}}\n"
                     "  n: {provider: p, price: {input: 1000}}\n"
                     "budgets: [{usd: 2.8, per: day}, {usd: 2.7, per: week}]\n"
                     "tenants: [{name: a, models: [n], budgets: [{usd: 1, per: day}]}]\n");
    const struct config *config = &read.config;
    assert_int_equal(config_largest_call(&config->models[0]), 700000);
    assert_int_equal(config_largest_call(&config->models[1]), 0);
    assert_int_equal(config_budget_fits(config, NULL, &config->budgets[0], &largest), 4);
    assert_ptr_equal(largest, &config->models[0]);
    assert_int_equal(config_budget_fits(config, NULL, &config->budgets[1], &largest), 3);
    assert_int_equal(config_budget_fits(config, &config->tenants[0],
                                        &config->tenants[0].budgets[0], &largest),
                     -1);
    assert_false(says(&read, "$2.8 (day) holds"));
    assert_true(says(&read, "the budget of $2.7 (week) holds 3 of the largest calls of \"m\" at "
                            "once ($0.7 each)"));
    done(&read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_the_models_of_the_day),
        cmocka_unit_test(a_model_takes_what_it_does_not_say),
        cmocka_unit_test(rows_are_found_by_the_names_of_the_provider),
        cmocka_unit_test(passes_of_other_models_have_prices),
        cmocka_unit_test(the_configuration_wins),
        cmocka_unit_test(the_later_catalogue_wins),
        cmocka_unit_test(a_row_holds_between_its_dates),
        cmocka_unit_test(a_price_by_the_hour_is_that_of_the_peak),
        cmocka_unit_test(an_old_catalogue_is_warned_of_once),
        cmocka_unit_test(what_is_wrong_has_a_place),
        cmocka_unit_test(budgets_hold_so_many_of_the_largest_calls),
    };
    return cmocka_run_group_tests_name("config_catalogue", tests, NULL, NULL);
}
