/* test_envoy_rls_read.c - files of rules of Envoy's rate limit service: what is wrong with them,
 * with file, line and column, and several of them at once.
 */
#include "net_envoy_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder with c.yaml and files of rules. */
struct place {
    char folder[ENVOY_FOLDER_MAX];
    struct config config;
    struct config_problems problems;
    enum config_result result;
};

static void put(const struct place *place, const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void begin(struct place *place, const char *section)
{
    char text[200];

    *place = (struct place){.result = CONFIG_UNREADABLE};
    envoy_make_folder(place->folder);
    snprintf(text, sizeof text, "listen: {grpc: \"127.0.0.1:1\"}\nenvoy_rls: {%s}\n", section);
    put(place, "c.yaml", text);
}

static void read_it(struct place *place)
{
    char path[128];

    snprintf(path, sizeof path, "%s/c.yaml", place->folder);
    place->result = config_load(path, &place->config, &place->problems);
}

static void end(struct place *place)
{
    static const char *const names[] = {"c.yaml", "r.yaml", "r.d/a.yaml", "r.d/b.yml",
                                        "r.d/.c.yaml", "r.d/notes.txt"};
    char path[128];

    config_free(&place->config);
    config_problems_free(&place->problems);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", place->folder, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/r.d", place->folder);
    rmdir(path);
    assert_int_equal(rmdir(place->folder), 0);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* The only problem there is. */
static void expect_problem(const struct place *place, bool warning, const char *file, size_t line,
                           size_t column, const char *text)
{
    const struct config_problem *problem = place->problems.list;

    if (place->problems.n != 1 || problem->warning != warning ||
        strcmp(base_name(problem->file), file) != 0 || problem->line != line ||
        problem->column != column || strstr(problem->text, text) != problem->text) {
        for (size_t i = 0; i < place->problems.n; i++)
            print_error("%s:%zu:%zu: %s\n", place->problems.list[i].file,
                        place->problems.list[i].line, place->problems.list[i].column,
                        place->problems.list[i].text);
        fail_msg("wanted %s:%zu:%zu: %s", file, line, column, text);
    }
}

/* Takes the first @ out of a text, and says where it stood. */
static void take_mark(char *text, size_t *line, size_t *column)
{
    char *mark = strchr(text, '@');

    assert_non_null(mark);
    *line = *column = 1;
    for (const char *at = text; at < mark; at++) {
        *line += *at == '\n';
        *column = *at == '\n' ? 1 : *column + 1;
    }
    memmove(mark, mark + 1, strlen(mark));
}

static void each_mistake_is_told_with_its_place(void **state)
{
    static const struct {
        bool warning;
        const char *problem, *rules;
    } rows[] = {
        {false, "domain is missing; it must be the domain", "@descriptors: []\n"},
        {false, "domain is empty; it must be the domain", "domain: @\"\"\n"},
        {false, "the file is empty", "@"},
        {false, "the file is a list", "@[a]\n"},
        {false, "not YAML", "domain: {\n@"},
        {false, "there is no key \"descriptor\"; there are domain, descriptors",
         "domain: d\n@descriptor: []\n"},
        {false, "descriptors is not a list", "domain: d\ndescriptors: @{key: a}\n"},
        {false, "descriptors[0]: key is missing", "domain: d\ndescriptors: [@{value: a}]\n"},
        {false, "descriptors[0].key is empty", "domain: d\ndescriptors: [{key: @\"\"}]\n"},
        {false,
         "descriptors[0] has no key \"values\"; it takes key, value, rate_limit, descriptors, "
         "shadow_mode, quota_mode, share_threshold, detailed_metric, value_to_metric",
         "domain: d\ndescriptors: [{key: a, @values: b}]\n"},
        {false, "descriptors[0].descriptors[1].rate_limit.unit is \"fortnight\"; it must be",
         "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n      - key: c\n"
         "        rate_limit: {unit: @fortnight, requests_per_unit: 1}\n"},
        {false, "descriptors[0].rate_limit: unit is missing; it must be given, or unlimited: true",
         "domain: d\ndescriptors: [{key: a, rate_limit: @{requests_per_unit: 1}}]\n"},
        {false, "descriptors[0].rate_limit: requests_per_unit is missing; it must be given",
         "domain: d\ndescriptors: [{key: a, rate_limit: @{unit: day}}]\n"},
        {false, "descriptors[0].rate_limit.requests_per_unit is \"-1\"; it must be",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: @-1}}]\n"},
        {false, "descriptors[0].rate_limit.requests_per_unit is \"4294967296\"; it must be",
         "domain: d\n"
         "descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: @4294967296}}]\n"},
        {false, "descriptors[0].rate_limit.requests_per_unit is \"1e3\"; it must be",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: @1e3}}]\n"},
        {false, "descriptors[0].rate_limit.requests_per_unit is \"5\" in quotes",
         "domain: d\n"
         "descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: @\"5\"}}]\n"},
        {false, "descriptors[0].rate_limit has no key \"shadow_mode\"; it takes",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1,\n"
         "  @shadow_mode: true}}]\n"},
        {false, "there is no anchor &x before this alias",
         "domain: d\ndescriptors: [{key: a, rate_limit: @*x}]\n"},
        {false, "<< is no map; it must be a map",
         "domain: d\ndescriptors: [{key: a, <<: @b}]\n"},
        {false, "descriptors[0].rate_limit.unit is given beside unlimited",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: @day}}]\n"},
        {false, "descriptors[0].rate_limit.unlimited is \"perhaps\"; it must be",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1,\n"
         "  unlimited: @perhaps}}]\n"},
        {false, "descriptors[0].rate_limit.replaces names its own limit",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1,\n"
         "  name: x, replaces: @[{name: x}]}}]\n"},
        {false, "descriptors[0].rate_limit.replaces[0].name is empty",
         "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1,\n"
         "  replaces: [@{name: \"\"}]}}]\n"},
        {false, "descriptors[0].share_threshold is for a value that ends with a star; this one",
         "domain: d\ndescriptors: [{key: a, share_threshold: @true}]\n"},
        {false, "descriptors[0].share_threshold is for a value that ends with a star; this one",
         "domain: d\ndescriptors: [{key: a, value: b, share_threshold: @true}]\n"},
        {false, "a_b is given twice at one level, first in line 3; once is allowed",
         "domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: a}\n"
         "  - @{key: a, value: b, descriptors: [{key: c}]}\n"},
        {false, "a.c is given twice at one level, first in line 5",
         "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - {key: c}\n"
         "      - @{key: c, value: \"\"}\n"},
        {true, "a replaces \"y\", a name that no limit has",
         "domain: d\ndescriptors:\n  - @{key: a, rate_limit: {unit: day, requests_per_unit: 1,\n"
         "      name: x, replaces: [{name: y}]}}\n"},
        {true, "descriptors[0].rate_limit.requests_per_unit has no meaning beside unlimited",
         "domain: d\n"
         "descriptors: [{key: a, rate_limit: {unlimited: true, requests_per_unit: @3}}]\n"},
        {true, "descriptors[0].shadow_mode has no effect without a rate_limit beside it",
         "domain: d\ndescriptors: [{key: a, shadow_mode: @true, descriptors: [{key: b}]}]\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[600];
        size_t line, column;
        struct place place;

        begin(&place, "config: r.yaml");
        snprintf(text, sizeof text, "%s", rows[i].rules);
        take_mark(text, &line, &column);
        put(&place, "r.yaml", text);
        read_it(&place);
        assert_int_equal(place.result, rows[i].warning ? CONFIG_READ : CONFIG_WRONG);
        expect_problem(&place, rows[i].warning, "r.yaml", line, column, rows[i].problem);
        end(&place);
    }
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml, mode: sometimes");
    put(&place, "r.yaml",
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, rate_limit: {unit: eon, requests_per_unit: many}}\n"
        "  - {rate_limit: {}}\n");
    read_it(&place);
    assert_int_equal(place.result, CONFIG_WRONG);
    assert_int_equal(place.problems.errors, 6);
    assert_string_equal(base_name(place.problems.list[0].file), "c.yaml");
    for (size_t i = 1; i < 6; i++)
        assert_string_equal(base_name(place.problems.list[i].file), "r.yaml");
    end(&place);
}

static void what_is_accepted_without_meaning_is_accepted(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml");
    put(&place, "r.yaml",
        "# A comment.\n"
        "domain: 7\n"
        "descriptors:\n"
        "  - key: 1\n"
        "    value: true\n"
        "    detailed_metric: true\n"
        "    value_to_metric: false\n"
        "    rate_limit: {unit: Day, requests_per_unit: 4294967295, name: \"\", replaces: []}\n"
        "  - key: b\n"
        "    value: ${HOME}\n"
        "  - key: b\n"
        "    value: \"*\"\n"
        "    share_threshold: true\n"
        "    descriptors: []\n");
    read_it(&place);
    assert_int_equal(place.problems.n, 0);
    assert_int_equal(place.result, CONFIG_READ);
    assert_int_equal(place.config.envoy.rules->n_domains, 1);
    assert_int_equal(place.config.envoy.rules->n_limits, 1);
    assert_string_equal(place.config.envoy.rules->limits[0]->path, "1_true");
    end(&place);
}

/* Their reader's YAML is 1.1. */
static void what_may_be_written_in_several_ways_is_read(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml");
    put(&place, "r.yaml",
        "domain: d\n"
        "descriptors:\n"
        "  - {key: a, value: ~, shadow_mode: yes, rate_limit: {unit: day, requests_per_unit: +5}}\n"
        "  - key: b\n"
        "    value:\n"
        "    shadow_mode: Off\n"
        "    rate_limit: {unit: day, requests_per_unit: 1_000, name: , replaces: }\n"
        "    descriptors:\n"
        "  - {key: c, shadow_mode: TRUE, rate_limit: {unit: day, requests_per_unit: 0x10}}\n"
        "  - {key: d, shadow_mode: null, rate_limit: {unit: day, requests_per_unit: 010}}\n"
        "  - {key: e, rate_limit: Null}\n"
        "  - {key: f, value: yes, rate_limit: {unlimited: on}}\n");
    read_it(&place);
    assert_int_equal(place.problems.n, 0);
    const struct envoy_rules *rules = place.config.envoy.rules;
    static const int64_t numbers[] = {5, 1000, 16, 8};
    static const bool shadows[] = {true, false, true, false};
    assert_int_equal(rules->n_limits, 5);
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        assert_int_equal(rules->limits[i]->limit.requests_per_unit, numbers[i]);
        assert_int_equal(rules->limits[i]->shadow, shadows[i]);
        assert_null(rules->limits[i]->value);
    }
    assert_true(rules->limits[4]->limit.unlimited);
    assert_string_equal(rules->limits[4]->path, "f_yes");
    end(&place);
}

static void rules_may_be_aliases_and_take_over_keys(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml");
    put(&place, "r.yaml",
        "domain: d\n"
        "descriptors:\n"
        "  - &one\n"
        "    key: a\n"
        "    rate_limit: &few {unit: day, requests_per_unit: 5}\n"
        "  - {key: b, rate_limit: *few}\n"
        "  - {key: c, rate_limit: {<<: *few, unit: hour}}\n"
        "  - {<<: *one, key: d, shadow_mode: true}\n"
        "  - {key: e, rate_limit: {<<: [{name: n}, *few, {name: m, unit: week}]}}\n"
        "  - {key: f, descriptors: [*one]}\n");
    read_it(&place);
    assert_int_equal(place.problems.n, 0);
    const struct envoy_rules *rules = place.config.envoy.rules;
    static const char *const paths[] = {"a", "b", "c", "d", "e", "f.a"};
    assert_int_equal(rules->n_limits, COUNT_OF(paths));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_string_equal(rules->limits[i]->path, paths[i]);
        assert_int_equal(rules->limits[i]->limit.requests_per_unit, 5);
        assert_int_equal(rules->limits[i]->limit.unit, i == 2 ? ENVOY_HOUR : ENVOY_DAY);
        assert_int_equal(rules->limits[i]->shadow, i == 3);
    }
    assert_string_equal(rules->limits[4]->limit.name, "n");
    end(&place);
}

/* Each of several maps with all that it takes over itself, the first going before the others. */
static void what_was_taken_over_is_taken_over_in_its_turn(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml");
    put(&place, "r.yaml",
        "domain: d\n"
        "descriptors:\n"
        "  - key: a\n"
        "    rate_limit:\n"
        "      <<:\n"
        "        - {<<: {<<: {unit: day}, name: n}}\n"
        "        - {<<: {requests_per_unit: 5}, name: m, unit: hour}\n");
    read_it(&place);
    assert_int_equal(place.problems.n, 0);
    const struct envoy_rules *rules = place.config.envoy.rules;
    assert_int_equal(rules->n_limits, 1);
    assert_int_equal(rules->limits[0]->limit.requests_per_unit, 5);
    assert_int_equal(rules->limits[0]->limit.unit, ENVOY_DAY);
    assert_string_equal(rules->limits[0]->limit.name, "n");
    end(&place);
}

static void a_folder_is_all_rules_in_it_by_name(void **state)
{
    struct place place;
    char path[128];

    (void)state;
    begin(&place, "config: r.d");
    snprintf(path, sizeof path, "%s/r.d", place.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put(&place, "r.d/b.yml", "domain: two\ndescriptors: [{key: b}]\n");
    put(&place, "r.d/a.yaml", "domain: one\ndescriptors: [{key: a}]\n");
    put(&place, "r.d/.c.yaml", "not rules");
    put(&place, "r.d/notes.txt", "not rules");
    read_it(&place);
    expect_problem(&place, true, "c.yaml", 2, 21, "the folder ");
    assert_non_null(strstr(place.problems.list[0].text, "has 1 more files, which are not read"));
    const struct envoy_rules *rules = place.config.envoy.rules;
    assert_int_equal(rules->n_domains, 2);
    assert_string_equal(rules->domains[0].name, "one");
    assert_string_equal(rules->domains[1].name, "two");
    assert_non_null(envoy_rules_domain(rules, SLICE("two")));
    assert_null(envoy_rules_domain(rules, SLICE("three")));
    assert_null(envoy_rules_domain(NULL, SLICE("two")));
    end(&place);
}

static void an_empty_folder_is_warned_of(void **state)
{
    struct place place;
    char path[128];

    (void)state;
    begin(&place, "config: r.d");
    snprintf(path, sizeof path, "%s/r.d", place.folder);
    assert_int_equal(mkdir(path, 0700), 0);
    read_it(&place);
    assert_int_equal(place.result, CONFIG_READ);
    assert_int_equal(place.problems.warnings, 1);
    assert_string_equal(base_name(place.problems.list[0].file), "c.yaml");
    end(&place);
}

static void open_two(struct place *place, const char *section, const char *second)
{
    char path[128];

    begin(place, section);
    snprintf(path, sizeof path, "%s/r.d", place->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    put(place, "r.d/a.yaml", "domain: d\ndescriptors: [{key: a}, {key: c, value: x}]\n");
    put(place, "r.d/b.yml", second);
    read_it(place);
}

static void a_domain_has_one_file_unless_they_may_be_merged(void **state)
{
    struct place place;

    (void)state;
    open_two(&place, "config: r.d", "descriptors: [{key: b}]\ndomain: d\n");
    assert_int_equal(place.result, CONFIG_WRONG);
    expect_problem(&place, false, "b.yml", 2, 9, "the domain \"d\" is also that of ");
    end(&place);

    open_two(&place, "config: r.d, merge_domains: true",
             "domain: d\ndescriptors: [{key: b}, {key: c, value: y}]\n");
    assert_int_equal(place.problems.n, 0);
    const struct envoy_domain *domain = envoy_rules_domain(place.config.envoy.rules, SLICE("d"));
    static const char *const keys[] = {"a=1", "b=1", "c=x", "c=y"};
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct envoy_asked asked;
        envoy_parse(&asked, "d", keys[i]);
        assert_non_null(envoy_rules_match(domain, asked.descriptors[0].entries,
                                          asked.descriptors[0].n_entries));
    }
    end(&place);

    /* The same rule in both is wrong, and is told of where it comes the second time. */
    open_two(&place, "config: r.d, merge_domains: true",
             "domain: d\ndescriptors: [{key: b}, {key: c, value: x}]\n");
    assert_int_equal(place.result, CONFIG_WRONG);
    expect_problem(&place, false, "b.yml", 2, 25, "c_x is given twice at one level");
    end(&place);
}

static bool is_source(const struct config *config, const char *name)
{
    for (size_t i = 0; i < config->n_sources; i++)
        if (config->sources[i].kind != CONFIG_SOURCE_FILE &&
            strcmp(base_name(config->sources[i].path), name) == 0)
            return true;
    return false;
}

static void every_file_is_watched_and_in_the_hash(void **state)
{
    char hash[CONFIG_HASH_HEX + 1];
    struct place place;

    (void)state;
    open_two(&place, "config: r.d", "domain: e\n");
    assert_int_equal(place.problems.n, 0);
    assert_true(is_source(&place.config, "a.yaml"));
    assert_true(is_source(&place.config, "b.yml"));
    assert_true(is_source(&place.config, "r.d"));
    memcpy(hash, place.config.hash, sizeof hash);
    config_free(&place.config);
    config_problems_free(&place.problems);
    put(&place, "r.d/b.yml", "domain: f\n");
    read_it(&place);
    assert_string_not_equal(hash, place.config.hash);
    end(&place);
}

static void a_file_that_is_not_there_is_warned_of(void **state)
{
    struct place place;

    (void)state;
    begin(&place, "config: r.yaml");
    read_it(&place);
    assert_int_equal(place.result, CONFIG_READ);
    assert_true(place.problems.list[0].missing);
    assert_null(place.config.envoy.rules);
    assert_true(place.config.envoy.present);
    end(&place);
}

static void where_no_files_are_looked_at_there_are_no_rules(void **state)
{
    static const char text[] =
        "listen: {grpc: \"127.0.0.1:1\"}\nenvoy_rls: {config: r.yaml}\n";
    struct config_problems problems;
    struct config config;

    (void)state;
    assert_int_equal(config_parse(NULL, text, sizeof text - 1, &config, &problems), CONFIG_READ);
    assert_int_equal(problems.n, 0);
    assert_null(config.envoy.rules);
    config_free(&config);
    config_problems_free(&problems);
}

/* Run from the top of the tree. */
static void the_example_is_right(void **state)
{
    static const struct {
        const char *descriptor;
        int limit; /* -1: none */
    } rows[] = {
        {"remote_address=1.2.3.4", 20},
        {"remote_address=10.0.0.1", -1},
        {"remote_address=10.0.0.2", 0},
        {"team=a", 600},
        {"team=research", 6000},
        {"path=/v1/files/7 team=a", 30},
        {"path=/v1/embeddings", 1000},
        {"path=/v1/chat/completions", -1},
        {"tokens_of_team=a", 1000000},
    };
    struct config_problems problems;
    struct config config;

    (void)state;
    assert_int_equal(config_load("examples/envoy/tollgate.yaml", &config, &problems), CONFIG_READ);
    assert_int_equal(problems.n, 0);
    const struct envoy_domain *domain = envoy_rules_domain(config.envoy.rules, SLICE("edge"));
    assert_non_null(domain);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct envoy_asked asked;
        envoy_parse(&asked, "edge", rows[i].descriptor);
        const struct envoy_rule *rule = envoy_rules_match(domain, asked.descriptors[0].entries,
                                                          asked.descriptors[0].n_entries);
        bool limited = rule != NULL && rule->limit.present;
        assert_int_equal(limited ? rule->limit.requests_per_unit : -1, rows[i].limit);
    }
    config_free(&config);
    config_problems_free(&problems);
}

/* The greatest depth that YAML may have here. */
static void rules_may_be_deep(void **state)
{
    char text[4000] = "domain: d\n", asked[200] = "";
    struct envoy_world world;
    int deepest = 15;

    (void)state;
    for (int i = 0; i < deepest; i++) {
        size_t used = strlen(text), words = strlen(asked);
        snprintf(text + used, sizeof text - used, "%*sdescriptors:\n%*s- key: k%d\n", 2 * i, "",
                 2 * i, "", i);
        snprintf(asked + words, sizeof asked - words, "k%d=v ", i);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "%*srate_limit: {unit: day, requests_per_unit: 1}\n", 2 * deepest, "");
    envoy_open(&world, text);
    envoy_expect(&world, "d", asked, "O:O");
    envoy_expect(&world, "d", asked, "X:X");
    envoy_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_mistake_is_told_with_its_place),
        cmocka_unit_test(all_that_is_wrong_is_told_at_once),
        cmocka_unit_test(what_is_accepted_without_meaning_is_accepted),
        cmocka_unit_test(what_may_be_written_in_several_ways_is_read),
        cmocka_unit_test(rules_may_be_aliases_and_take_over_keys),
        cmocka_unit_test(what_was_taken_over_is_taken_over_in_its_turn),
        cmocka_unit_test(a_folder_is_all_rules_in_it_by_name),
        cmocka_unit_test(an_empty_folder_is_warned_of),
        cmocka_unit_test(a_domain_has_one_file_unless_they_may_be_merged),
        cmocka_unit_test(every_file_is_watched_and_in_the_hash),
        cmocka_unit_test(a_file_that_is_not_there_is_warned_of),
        cmocka_unit_test(where_no_files_are_looked_at_there_are_no_rules),
        cmocka_unit_test(the_example_is_right),
        cmocka_unit_test(rules_may_be_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
