/* test_estimate.c - tokens before they are counted: rounded up,
    and never beyond what a number holds. */
#include "check.h"

#include <math.h>

#include "server/dialect/estimate.h"

static void prompt_is_the_sum_of_its_parts(void **state)
{
    static const struct {
        struct ask ask;
        double bytes_per_token;
        int64_t want;
    } rows[] = {
        {{.text_bytes = 0}, 4, 0},
        {{.text_bytes = 1}, 4, 1},
        {{.text_bytes = 8}, 4, 2},
        {{.text_bytes = 9}, 4, 3},
        {{.text_bytes = 9}, 3.5, 3},
        {{.text_bytes = 8, .messages = 3}, 4, 2 + 12},
        {{.text_bytes = 8, .images = 1, .audios = 1, .files = 1}, 4, 2 + 4500},
        {{.files = 1, .file_bytes = 150000}, 4, 1500},
        {{.files = 1, .file_bytes = 1000000}, 4, 10000},
        {{.files = 9, .file_bytes = 1000000, .media_bytes = 9000000}, 4, 13500},
        {{.files = 1, .file_bytes = INT64_MAX}, 4, TG_NUMBER_MAX / 100},
        {{.token_ids = 7}, 4, 7},
        {{.text_bytes = 9}, 0, 3},
        {{.text_bytes = 9}, -1, 3},
        {{.text_bytes = INT64_MAX}, 4, (TG_NUMBER_MAX + 3) / 4},
        {{.text_bytes = INT64_MAX}, 1e-9, TG_NUMBER_MAX},
        {{.images = INT64_MAX}, 4, TG_NUMBER_MAX},
        {{.token_ids = INT64_MAX, .messages = INT64_MAX}, 4, TG_NUMBER_MAX},
        {{.text_bytes = -5}, 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct estimate_rule rule = {rows[i].bytes_per_token, 1500};
        int64_t got = estimate_prompt(&rows[i].ask, &rule);
        if (got != rows[i].want)
            fail_msg("row %zu: %lld", i, (long long)got);
    }
    struct estimate_rule odd = {NAN, -5};
    assert_int_equal(estimate_prompt(&(struct ask){.text_bytes = 8, .images = 3}, &odd), 2);
    struct estimate_rule rule;
    estimate_rule_init(&rule);
    assert_int_equal(estimate_text(10, &rule), 3);
    assert_int_equal(rule.image, 1500);
}

static void output_is_the_bound_of_all_choices(void **state)
{
    static const struct {
        enum endpoint endpoint;
        int64_t max_output, choices, assumed, want;
    } rows[] = {
        {ENDPOINT_CHAT, 100, 1, 4096, 100},
        {ENDPOINT_CHAT, 100, 3, 4096, 300},
        {ENDPOINT_CHAT, -1, 2, 4096, 8192},
        {ENDPOINT_MESSAGES, 0, 1, 4096, 0},
        {ENDPOINT_RESPONSES, -1, 1, -7, 0},
        {ENDPOINT_EMBEDDINGS, -1, 1, 4096, 0},
        {ENDPOINT_COUNT_TOKENS, 5, 1, 4096, 0},
        {ENDPOINT_COMPLETIONS, TG_NUMBER_MAX, TG_NUMBER_MAX, 0, TG_NUMBER_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask ask = {.endpoint = rows[i].endpoint, .choices = rows[i].choices};
        ask.max_output = rows[i].max_output;
        assert_int_equal(estimate_output(&ask, rows[i].assumed), rows[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_is_the_sum_of_its_parts),
        cmocka_unit_test(output_is_the_bound_of_all_choices),
    };

    return cmocka_run_group_tests_name("estimate", tests, NULL, NULL);
}
