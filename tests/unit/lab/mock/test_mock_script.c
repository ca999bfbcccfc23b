/* test_mock_script.c - scripts: what is wrong is said with its place, and who gets which rule. */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "lab/mock/mock_script.h"

struct complaint {
    size_t n;
    char text[500]; /* the first one: "line:column: text" */
};

static void note(void *context, size_t line, size_t column, const char *text)
{
    struct complaint *complaint = context;

    if (complaint->n++ == 0)
        snprintf(complaint->text, sizeof complaint->text, "%zu:%zu: %s", line, column, text);
}

static struct mock_script *script_of(const char *text)
{
    struct complaint complaint = {0};
    struct mock_base base;
    struct mock_script *script;

    mock_base_init(&base);
    script = mock_script_read(&base, text, strlen(text), note, &complaint);
    if (script == NULL)
        fail_msg("%s", complaint.text);
    return script;
}

static size_t match(struct mock_script *script, const char *path, const char *model)
{
    struct mock_sight sight = {slice_of(path), SLICE("k1"), true, model, false};
    size_t next = 0;

    return mock_script_match(script, &sight, &next);
}

static void mistakes_are_told_with_their_place(void **state)
{
    static const struct {
        const char *text, *complaint;
    } rows[] = {
        {"rules:\n- do: {latenzy: 1ms}\n", "2:8: 'latenzy' is not an action"},
        {"rules:\n- when: {modl: x}\n", "2:10: 'modl' is not a condition"},
        {"rules:\n- wenn: {}\n", "2:3: 'wenn' is not part of a rule"},
        {"rules: 3\n", "1:8: rules must be a list"},
        {"roles: []\n", "1:1: 'roles' is not part of a script"},
        {"default: {latency: 20}\n", "1:20: latency must be a duration"},
        {"default: {latency: normal(20ms)}\n", "1:20: latency must be a duration"},
        {"default: {latency: \"lognormal(20ms)\"}\n", "1:20: latency must be a duration"},
        {"default: {status: 99}\n", "1:19: status must be from 200 to 599"},
        {"default: {tokens: -1}\n", "1:19: tokens must be a whole number from 0 to 1000000"},
        {"default: {retry_after_date: 3}\n", "1:29: retry_after_date must be a duration"},
        {"default: {fault: explode}\n", "1:18: fault must be one of none, hang, close"},
        {"default: {usage: some}\n", "1:18: usage must be one of true, missing, null"},
        {"default: {fault: hang, at: middle}\n", "1:28: at must be start, head, event N or byte N"},
        {"default: {fault: error}\n", "1:10: this fault stands inside a stream"},
        {"default: {at: event 3}\n", "1:10: at needs a fault"},
        {"default: {split: 0}\n", "1:18: split must be a size"},
        {"default: {headers: x}\n", "1:20: headers must be a map"},
        {"rules:\n- when: {nth: 0}\n", "2:15: nth must be such as 3, 1-2 or 4-"},
        {"rules:\n- when: {nth: 3-2}\n", "2:15: nth must be"},
        {"rules:\n- when: {chance: 1.5}\n", "2:18: chance must be from 0 to 1"},
        {"rules:\n- when: {model: m}\n  do: {early: true}\n", "2:3: early and read_pause"},
        {"rules: [\n", "2:1: "},
        {"seed: 1\nseed: 2\n", "2:1: "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct complaint complaint = {0};
        struct mock_base base;

        mock_base_init(&base);
        assert_null(
            mock_script_read(&base, rows[i].text, strlen(rows[i].text), note, &complaint));
        if (strncmp(complaint.text, rows[i].complaint, strlen(rows[i].complaint)) != 0)
            fail_msg("row %zu: '%s' is not '%s'", i, complaint.text, rows[i].complaint);
    }
}

static void every_mistake_is_told(void **state)
{
    const char *text = "rules:\n- when: {a: 1, b: 2}\n  do: {c: 3}\n";
    struct complaint complaint = {0};
    struct mock_base base;

    (void)state;
    mock_base_init(&base);
    assert_null(mock_script_read(&base, text, strlen(text), note, &complaint));
    assert_int_equal(complaint.n, 3);
}

static void actions_are_laid_over_the_default(void **state)
{
    struct mock_script *script = script_of("rules:\n"
                                           "- do: {tokens: 5, headers: {a: b, c: \"1\"}}\n"
                                           "- do: {latency: \"lognormal(2s, 0.5)\"}\n"
                                           "default: {latency: 7ms, pace: 2.5, split: [1, 2]}\n"
                                           "seed: 9\n");

    (void)state;
    assert_int_equal(script->seed, 9);
    assert_int_equal(script->otherwise.tokens, 16);
    assert_int_equal(script->rules[0].action.latency_ms, 7);
    assert_int_equal(script->rules[0].action.tokens, 5);
    assert_int_equal(script->rules[0].action.n_split, 2);
    assert_int_equal(script->rules[0].action.n_headers, 2);
    assert_true(slice_equal(script->rules[0].action.headers[1].value, SLICE("1")));
    assert_int_equal(script->rules[1].action.spread, MOCK_LOGNORMAL);
    assert_int_equal(script->rules[1].action.latency_ms, 2000);
    assert_true(script->rules[1].action.sigma == 0.5);
    assert_int_equal(script->rules[1].action.tokens, 16);
    assert_true(script->rules[1].action.pace == 2.5);
    mock_script_free(script);
}

static void json_is_a_script_too(void **state)
{
    struct mock_script *script =
        script_of("{\"rules\": [{\"when\": {\"nth\": \"1-2\"}, \"do\": {\"status\": 503}}]}");

    (void)state;
    assert_int_equal(script->rules[0].when.nth_last, 2);
    assert_int_equal(script->rules[0].action.status, 503);
    mock_script_free(script);
}

static void the_first_rule_that_fits_is_taken(void **state)
{
    struct mock_script *script = script_of("rules:\n"
                                           "- when: {path: /v1/chat/*, model: big}\n"
                                           "- when: {path: /v1/chat/completions}\n"
                                           "- when: {model: demo-*}\n"
                                           "- when: {key: k2}\n");

    (void)state;
    assert_int_equal(match(script, "/v1/chat/completions", "big"), 0);
    assert_int_equal(match(script, "/v1/chat/completions", "bigger"), 1);
    assert_int_equal(match(script, "/v1/messages", "demo-small"), 2);
    assert_int_equal(match(script, "/v1/messages", "demo"), MOCK_RULE_NONE);
    mock_script_free(script);
}

static void nth_counts_what_reaches_the_rule(void **state)
{
    struct mock_script *script = script_of("rules:\n"
                                           "- when: {nth: 1}\n"
                                           "- when: {nth: 1-2}\n"
                                           "- when: {model: m, nth: 2-}\n");
    static const size_t want[] = {0, 1, 1, MOCK_RULE_NONE, 2, 2};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(want); i++)
        assert_int_equal(match(script, "/x", "m"), want[i]);
    assert_int_equal(match(script, "/x", "other"), MOCK_RULE_NONE);
    mock_script_free(script);
}

/* A rule that asks for the model cannot be decided by the head, and what stands above it is not
 * counted a second time when the body is there. */
static void a_rule_may_have_to_wait_for_the_body(void **state)
{
    struct mock_script *script = script_of("rules:\n"
                                           "- when: {nth: 2}\n"
                                           "- when: {stream: true}\n"
                                           "- when: {path: /y}\n");
    struct mock_sight sight = {.path = SLICE("/y"), .key = SLICE("")};
    size_t next = 0;

    (void)state;
    assert_int_equal(mock_script_match(script, &sight, &next), MOCK_RULE_LATER);
    sight.has_body = true;
    sight.model = "m";
    assert_int_equal(mock_script_match(script, &sight, &next), 2);
    assert_int_equal(script->rules[0].reached, 1);
    sight.has_body = false;
    next = 0;
    assert_int_equal(mock_script_match(script, &sight, &next), 0); /* decided by the head */
    mock_script_free(script);
}

static void chance_is_the_same_for_the_same_seed(void **state)
{
    static const char text[] = "seed: 5\nrules:\n- when: {chance: 0.25}\n";
    struct mock_script *a = script_of(text), *b = script_of(text);
    struct mock_script *other = script_of("seed: 6\nrules:\n- when: {chance: 0.25}\n");
    size_t taken = 0, differ = 0;

    (void)state;
    for (size_t i = 0; i < 4000; i++) {
        size_t rule = match(a, "/x", "m");
        assert_int_equal(match(b, "/x", "m"), rule);
        differ += match(other, "/x", "m") != rule;
        taken += rule == 0;
    }
    assert_in_range(taken, 850, 1150); /* 5 deviations */
    assert_in_range(differ, 1000, 2000);
    mock_script_free(a);
    mock_script_free(b);
    mock_script_free(other);
}

static void latencies_have_their_mean_or_median(void **state)
{
    struct mock_action action = {0};
    int64_t sum = 0, below = 0;

    (void)state;
    assert_true(mock_latency_parse("20ms", &action));
    assert_int_equal(mock_latency_draw(&action, 1, 2), 20);
    assert_true(mock_latency_parse("exponential(1s)", &action));
    for (uint64_t i = 0; i < 10000; i++)
        sum += mock_latency_draw(&action, 1, i);
    assert_in_range(sum / 10000, 950, 1050);
    assert_int_equal(mock_latency_draw(&action, 1, 7), mock_latency_draw(&action, 1, 7));
    assert_true(mock_latency_parse("lognormal(1s, 1.0)", &action));
    for (uint64_t i = 0; i < 10000; i++)
        below += mock_latency_draw(&action, 1, i) < 1000;
    assert_in_range(below, 4750, 5250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_told_with_their_place),
        cmocka_unit_test(every_mistake_is_told),
        cmocka_unit_test(actions_are_laid_over_the_default),
        cmocka_unit_test(json_is_a_script_too),
        cmocka_unit_test(the_first_rule_that_fits_is_taken),
        cmocka_unit_test(nth_counts_what_reaches_the_rule),
        cmocka_unit_test(a_rule_may_have_to_wait_for_the_body),
        cmocka_unit_test(chance_is_the_same_for_the_same_seed),
        cmocka_unit_test(latencies_have_their_mean_or_median),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
