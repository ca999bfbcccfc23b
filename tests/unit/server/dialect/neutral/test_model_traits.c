/* test_model_traits.c - models take what is known of their names, wherever the names stand. */
#include "check.h"

#include "server/dialect/neutral/model_traits.h"

static void a_model_is_known_by_its_name(void **state)
{
    static const struct {
        const char *name;
        enum neutral_thinking thinking;
        bool fixed;
    } names[] = {
        {"claude-3-5-haiku-20241022", THINKING_NONE, false},
        {"claude-3-7-sonnet-latest", THINKING_BUDGET, false},
        {"claude-sonnet-4-20250514", THINKING_BUDGET, false},
        {"claude-sonnet-4-5", THINKING_BUDGET, false},
        {"claude-sonnet-4-5@20250929", THINKING_BUDGET, false},
        {"claude-haiku-4-5-20251001", THINKING_BUDGET, false},
        {"us.anthropic.claude-opus-4-5-20251101-v1:0", THINKING_BUDGET, false},
        {"claude-opus-4-6", THINKING_ADAPTIVE, false},
        {"claude-opus-4-7", THINKING_ADAPTIVE, true},
        {"anthropic.claude-opus-4-8-v1:0", THINKING_ADAPTIVE, true},
        {"claude-sonnet-5", THINKING_ADAPTIVE, true},
        {"anthropic/claude-sonnet-4.5", THINKING_BUDGET, false},
        {"anthropic/claude-opus-4.7", THINKING_ADAPTIVE, true},
        {"gemini-2.0-flash", THINKING_NONE, false},
        {"gemini-2.5-pro", THINKING_BUDGET, false},
        {"models/gemini-3-pro-preview", THINKING_ADAPTIVE, false},
        {"gpt-4o", THINKING_NONE, false},
        {"gpt-4.1-mini", THINKING_NONE, false},
        {"gpt-5", THINKING_ADAPTIVE, false},
        {"o3", THINKING_ADAPTIVE, false},
        {"openai.gpt-oss-120b-1:0", THINKING_ADAPTIVE, false},
        {"deepseek-chat", THINKING_ADAPTIVE, false},
        {"", THINKING_ADAPTIVE, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct model_traits traits = model_traits_of(names[i].name);
        if (traits.thinking != names[i].thinking || traits.fixed_sampling != names[i].fixed)
            fail_msg("%s", names[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_is_known_by_its_name),
    };

    return cmocka_run_group_tests_name("model_traits", tests, NULL, NULL);
}
