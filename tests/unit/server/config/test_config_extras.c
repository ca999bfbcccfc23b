/* test_config_extras.c - tenants, keys and top-ups that stand in no file: read by the one reader,
 * and the file wins.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "server/config/config.h"

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define HASH_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

#define FILE_TEXT                                                                      \
    "budgets: [{usd: 100, per: month}]\n"                                              \
    "tenants:\n"                                                                       \
    "  - {name: top, budgets: [{usd: 10, per: day}, {usd: 20, per: month, tz: UTC},\n" \
    "     {usd: 30, per: month, tz: Europe/Berlin}]}\n"                                \
    "  - {name: a, parent: top, keys: [{name: prod, sha256: \"" HASH_A "\"}]}\n"

struct read {
    struct config config;
    struct config_problems problems;
};

static struct config_extra a_tenant(const char *name, const char *text)
{
    return (struct config_extra){.kind = CONFIG_EXTRA_TENANT,
                                 .name = "api: tenant",
                                 .tenant = name,
                                 .text = text,
                                 .bytes = strlen(text)};
}

static struct config_extra a_key(const char *tenant, const char *name, const char *sha256)
{
    return (struct config_extra){.kind = CONFIG_EXTRA_KEY,
                                 .name = "api: key",
                                 .tenant = tenant,
                                 .key = name,
                                 .sha256 = sha256,
                                 .not_after = CONFIG_NEVER};
}

static struct config_extra a_topup(const char *tenant, int64_t usd, enum config_period per,
                                   const char *tz)
{
    return (struct config_extra){.kind = CONFIG_EXTRA_TOPUP,
                                 .name = "api: top-up",
                                 .tenant = tenant,
                                 .micro_usd = usd * 1000000,
                                 .per = per,
                                 .tz = tz};
}

static enum config_result parse(struct read *read, const struct config_extra *extras, size_t n)
{
    return config_parse_with(NULL, FILE_TEXT, strlen(FILE_TEXT), extras, n, &read->config,
                             &read->problems);
}

static void close_read(struct read *read)
{
    config_free(&read->config);
    config_problems_free(&read->problems);
}

static const struct config_tenant *tenant(const struct read *read, const char *name)
{
    return config_tenant(&read->config, name, strlen(name));
}

/* One problem, in a file of that name, that begins with these words. */
static void must_say(const struct read *read, bool warning, const char *file, const char *words)
{
    assert_int_equal(read->problems.n, 1);
    const struct config_problem *problem = &read->problems.list[0];
    assert_string_equal(problem->file, file);
    assert_int_equal(problem->warning, warning);
    if (strncmp(problem->text, words, strlen(words)) != 0)
        fail_msg("got \"%s\", wanted \"%s\"", problem->text, words);
}

static void must_be_read(enum config_result result, const struct read *read)
{
    if (result != CONFIG_READ || read->problems.n > 0)
        fail_msg("%s", read->problems.n > 0 ? read->problems.list[0].text : "?");
}

/* ---- Tenants ---- */

static void an_extra_tenant_is_one_like_any_other(void **state)
{
    const struct config_extra extras[] = {
        a_tenant("x", "{\"name\": \"x\", \"parent\": \"a\", \"weight\": 2.5,"
                      " \"limits\": [{\"rpm\": 7}], \"budgets\":[{\"usd\":1.5,\"per\":\"day\"}]}"),
        a_tenant("y", "parent: x\nkeys: [{name: k, sha256: " HASH_B "}]\n"),
    };
    struct read read;

    (void)state;
    must_be_read(parse(&read, extras, 2), &read);
    assert_int_equal(read.config.n_tenants, 4);
    const struct config_tenant *x = tenant(&read, "x"), *y = tenant(&read, "y");
    assert_true(x->extra && y->extra && !tenant(&read, "a")->extra);
    assert_string_equal(x->file, "api: tenant");
    assert_true(x->weight > 2.4 && x->weight < 2.6);
    assert_int_equal(x->limits[0].limiters[0].limiter.limit, 7);
    assert_int_equal(x->budgets[0].micro_usd, 1500000);
    assert_int_equal(x->level, 2);
    assert_int_equal(y->level, 3);
    assert_ptr_equal(&read.config.tenants[y->parent], x);
    assert_int_equal(y->n_keys, 1);
    close_read(&read);
}

static void a_tenant_of_a_file_wins(void **state)
{
    const struct config_extra extra = a_tenant("a", "{weight: 9}");
    struct read read;

    (void)state;
    assert_int_equal(parse(&read, &extra, 1), CONFIG_READ);
    must_say(&read, true, "api: tenant",
             "the tenant \"a\" is also defined in (text):5; "
             "the file wins, and this one is ignored");
    assert_int_equal(read.config.n_tenants, 2);
    assert_false(tenant(&read, "a")->extra);
    assert_true(tenant(&read, "a")->weight < 2);
    close_read(&read);
}

static void what_is_wrong_with_a_tenant_is_an_error_with_its_place(void **state)
{
    static const struct {
        const char *text, *words;
        size_t line, column;
    } rows[] = {
        {"{weight: none}", "tenant.weight is \"none\"; it must be a number from", 1, 10},
        {"{wait: 1}", "tenant has no key \"wait\"; it takes name, parent, keys,", 1, 2},
        {"parent: nobody", "the parent \"nobody\" does not exist", 1, 9},
        {"parent: x", "the tenant \"x\" is its own parent", 1, 9},
        {"{name: z}", "tenant.name is \"z\"; it must be \"x\", or absent", 1, 8},
        {"[1]", "tenant is a list; it must be a section", 1, 1},
        {"hello", "tenant is a text; it must be a section", 1, 1},
        {"", "tenant is empty; it must be a section", 1, 1},
        {"{\n a: ]", "not YAML: did not find expected node content", 2, 5},
        {"keys: [{sha256: " HASH_B "},\n {sha256: " HASH_B "}]",
         "the tenant \"x\" has the same key; a key is allowed once", 2, 11},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct config_extra extra = a_tenant("x", rows[i].text);
        struct read read;
        assert_int_equal(parse(&read, &extra, 1), CONFIG_WRONG);
        must_say(&read, false, "api: tenant", rows[i].words);
        assert_int_equal(read.problems.list[0].line, rows[i].line);
        assert_int_equal(read.problems.list[0].column, rows[i].column);
        close_read(&read);
    }
}

static void variables_and_files_are_out_of_reach(void **state)
{
    const struct config_extra extra = a_tenant("x", "{keys: [{name: \"${PATH}\", sha256: " HASH_B
                                                    "}]}");
    struct read read;

    (void)state;
    must_be_read(parse(&read, &extra, 1), &read);
    assert_string_equal(tenant(&read, "x")->keys[0].name, "${PATH}");
    close_read(&read);
}

/* ---- Keys ---- */

static void keys_are_added_to_tenants_of_both_kinds(void **state)
{
    const struct config_extra extras[] = {
        a_key("a", "ci", HASH_B),
        a_tenant("x", "{}"),
        a_key("x", NULL, HASH_C),
    };
    struct read read;

    (void)state;
    must_be_read(parse(&read, extras, 3), &read);
    const struct config_tenant *a = tenant(&read, "a"), *x = tenant(&read, "x");
    assert_int_equal(a->n_keys, 2);
    assert_string_equal(a->keys[0].name, "prod");
    assert_false(a->keys[0].extra);
    assert_string_equal(a->keys[1].name, "ci");
    assert_true(a->keys[1].extra);
    assert_int_equal(a->keys[1].sha256[0], 0xbb);
    assert_true(a->keys[1].not_after == CONFIG_NEVER);
    assert_int_equal(x->n_keys, 1);
    assert_null(x->keys[0].name);
    close_read(&read);
}

static void a_key_gives_way_to_the_file(void **state)
{
    static const struct {
        const char *tenant, *name, *sha256, *words;
    } rows[] = {
        {"a", "ci", HASH_A, "the tenant \"a\" has the same key; the file wins"},
        {"top", "ci", HASH_A, "the tenant \"a\" has the same key; the file wins"},
        {"a", "prod", HASH_B, "the tenant \"a\" has a key \"prod\" already"},
        {"gone", "ci", HASH_B, "the tenant \"gone\" does not exist; this is ignored"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct config_extra extra = a_key(rows[i].tenant, rows[i].name, rows[i].sha256);
        struct read read;
        assert_int_equal(parse(&read, &extra, 1), CONFIG_READ);
        must_say(&read, true, "api: key", rows[i].words);
        assert_int_equal(tenant(&read, "a")->n_keys, 1);
        assert_int_equal(tenant(&read, "a")->keys[0].sha256[0], 0xaa);
        assert_int_equal(tenant(&read, "top")->n_keys, 0);
        close_read(&read);
    }
}

static void the_first_of_two_extra_keys_wins_and_others_stay(void **state)
{
    const struct config_extra extras[] = {
        a_key("a", "one", HASH_B),
        a_key("a", "two", HASH_B),
        a_key("a", "three", HASH_C),
        a_key("top", "four", HASH_A),
    };
    struct read read;

    (void)state;
    assert_int_equal(parse(&read, extras, 4), CONFIG_READ);
    assert_int_equal(read.problems.n, 2);
    const struct config_tenant *a = tenant(&read, "a");
    assert_int_equal(a->n_keys, 3);
    assert_string_equal(a->keys[1].name, "one");
    assert_string_equal(a->keys[2].name, "three");
    assert_int_equal(tenant(&read, "top")->n_keys, 0);
    close_read(&read);
}

static void a_hash_that_is_none_is_an_error(void **state)
{
    const struct config_extra extra = a_key("a", "ci", "bb");
    struct read read;

    (void)state;
    assert_int_equal(parse(&read, &extra, 1), CONFIG_WRONG);
    must_say(&read, false, "api: key", "the hash of the key must be 64 hexadecimal digits");
    close_read(&read);
}

/* ---- Top-ups ---- */

static void a_topup_raises_the_budget_it_is_for(void **state)
{
    const struct config_extra extras[] = {
        a_topup("top", 5, CONFIG_DAY, NULL),
        a_topup("top", 1, CONFIG_DAY, "UTC"),
        a_topup("top", 7, CONFIG_MONTH, "Europe/Berlin"),
        a_topup(NULL, 11, CONFIG_MONTH, NULL),
    };
    struct read read;

    (void)state;
    must_be_read(parse(&read, extras, 4), &read);
    const struct config_budget *budgets = tenant(&read, "top")->budgets;
    assert_int_equal(budgets[0].micro_usd, 16000000);
    assert_int_equal(budgets[0].topped_up, 6000000);
    assert_int_equal(budgets[1].micro_usd, 20000000);
    assert_int_equal(budgets[1].topped_up, 0);
    assert_int_equal(budgets[2].micro_usd, 37000000);
    assert_int_equal(read.config.budgets[0].micro_usd, 111000000);
    close_read(&read);
}

static void a_topup_of_nothing_is_passed_over(void **state)
{
    static const struct {
        const char *tenant;
        enum config_period per;
        const char *tz, *words;
    } rows[] = {
        {"a", CONFIG_DAY, NULL, "there is no budget of a day to top up; this is ignored"},
        {"top", CONFIG_WEEK, NULL, "there is no budget of a week to top up"},
        {"top", CONFIG_DAY, "Asia/Tokyo", "there is no budget of a day in Asia/Tokyo to top up"},
        {"gone", CONFIG_DAY, NULL, "the tenant \"gone\" does not exist"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct config_extra extra = a_topup(rows[i].tenant, 5, rows[i].per, rows[i].tz);
        struct read read;
        assert_int_equal(parse(&read, &extra, 1), CONFIG_READ);
        must_say(&read, true, "api: top-up", rows[i].words);
        assert_int_equal(tenant(&read, "top")->budgets[0].micro_usd, 10000000);
        close_read(&read);
    }
}

static void money_does_not_wrap(void **state)
{
    struct config_extra extras[] = {
        a_topup("top", 0, CONFIG_DAY, NULL),
        a_topup("top", -1, CONFIG_DAY, NULL),
    };
    struct read read;

    (void)state;
    extras[0].micro_usd = TG_NUMBER_MAX;
    must_be_read(parse(&read, extras, 1), &read);
    assert_int_equal(tenant(&read, "top")->budgets[0].micro_usd, TG_NUMBER_MAX);
    close_read(&read);
    assert_int_equal(parse(&read, extras, 2), CONFIG_WRONG);
    must_say(&read, false, "api: top-up", "the top-up must be an amount from 0 up");
    close_read(&read);
}

/* ---- The hash ---- */

static void every_extra_is_in_the_hash(void **state)
{
    const struct config_extra extras[] = {
        a_tenant("x", "{}"),
        a_tenant("x", "{weight: 2}"),
        a_tenant("z", "{}"),
        a_key("a", "ci", HASH_B),
        a_key("a", "cj", HASH_B),
        a_key("a", "ci", HASH_C),
        a_key("top", "ci", HASH_B),
        a_topup("top", 5, CONFIG_DAY, NULL),
        a_topup("top", 6, CONFIG_DAY, NULL),
        a_topup("top", 5, CONFIG_MONTH, NULL),
        a_topup("top", 5, CONFIG_MONTH, "UTC"),
    };
    char hashes[COUNT_OF(extras) + 1][CONFIG_HASH_HEX + 1];
    struct read read;

    (void)state;
    for (size_t i = 0; i <= COUNT_OF(extras); i++) {
        assert_int_equal(parse(&read, &extras[i], i < COUNT_OF(extras)), CONFIG_READ);
        memcpy(hashes[i], read.config.hash, sizeof hashes[i]);
        assert_int_equal(strlen(hashes[i]), CONFIG_HASH_HEX);
        close_read(&read);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hashes[i], hashes[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_extra_tenant_is_one_like_any_other),
        cmocka_unit_test(a_tenant_of_a_file_wins),
        cmocka_unit_test(what_is_wrong_with_a_tenant_is_an_error_with_its_place),
        cmocka_unit_test(variables_and_files_are_out_of_reach),
        cmocka_unit_test(keys_are_added_to_tenants_of_both_kinds),
        cmocka_unit_test(a_key_gives_way_to_the_file),
        cmocka_unit_test(the_first_of_two_extra_keys_wins_and_others_stay),
        cmocka_unit_test(a_hash_that_is_none_is_an_error),
        cmocka_unit_test(a_topup_raises_the_budget_it_is_for),
        cmocka_unit_test(a_topup_of_nothing_is_passed_over),
        cmocka_unit_test(money_does_not_wrap),
        cmocka_unit_test(every_extra_is_in_the_hash),
    };

    return cmocka_run_group_tests_name("config extras", tests, NULL, NULL);
}
