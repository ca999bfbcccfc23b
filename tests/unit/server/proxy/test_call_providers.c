/* test_call_providers.c - what single providers want: paths, ids, and no fields they refuse. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define KEYS "keys: [{name: k, secret: \"${CALL_KIT_SECRET}\"}]"
#define MISTRAL "  m: {preset: mistral, base_url: \"http://127.0.0.1:3\", " KEYS "}\n"
#define REFUSING                                                                                \
    "  m: {api: openai-chat, base_url: \"http://127.0.0.1:3\", refuses: [parallel_tool_calls, " \
    "verbosity, user], " KEYS "}\n"
#define CLAUDE_ON_VERTEX                                                                           \
    "  m: {preset: vertex, api: anthropic, project: p-1, location: eu, auth: {header: a, prefix: " \
    "\"\"}, base_url: \"http://127.0.0.1:3/x\", " KEYS "}\n"
#define GEMINI_ON_VERTEX                                                                  \
    "  m: {preset: vertex, project: p-1, location: eu, auth: {header: a, prefix: \"\"}, " \
    "base_url: \"http://127.0.0.1:3\", " KEYS "}\n"
#define OWN_ADDRESS                                             \
    "  m: {preset: azure, path_prefix: /p, query: {v: \"1\"}, " \
    "keys: [{name: k, secret: \"${CALL_KIT_SECRET}\", base_url: \"http://127.0.0.1:4/openai\"}]}\n"

#define MODEL                                                                   \
    "  small: {provider: m, upstream_model: \"s@1\", max_output_tokens: 4096, " \
    "price: {input: 1, output: 2}}\n"
#define LOSSY_MODEL \
    "  small: {provider: m, translate: lossy, price: {input: 1, output: 2}}\n"

static struct call_kit_config
with(const char *provider, const char *model)
{
    return (struct call_kit_config){.providers = provider, .models = model};
}

static void open_with(const char *provider, const char *model)
{
    struct call_kit_config config = with(provider, model);

    begin(&config);
}

static void leave(void)
{
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_expect_released(&client);
    call_kit_close();
}

#define SAYS_TOOLS                                                                             \
    "{\"model\":\"small\",\"max_tokens\":10,\"metadata\":{\"user_id\":\"u1\"},"                \
    "\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}],"                     \
    "\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true},"                  \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"                                    \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_0123456789\"," \
    "\"name\":\"f\",\"input\":{}}]},"                                                          \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"               \
    "\"toolu_0123456789\",\"content\":\"42\"}]}]}"

static void mistral_gets_ids_of_nine_characters_and_its_own_bound(void **state)
{
    char id[10] = "", again[10] = "";

    (void)state;
    open_with(MISTRAL, MODEL);
    call_client_ask_at(&client, "/v1/messages", SAYS_TOOLS);
    const char *body = call_kit_out()->body, *at = strstr(body, "\"tool_calls\":[{\"id\":\"");
    expect_in(body, "\"max_tokens\":10");
    expect_in(body, "\"parallel_tool_calls\":false");
    expect_not_in(body, "\"user\":");
    expect_not_in(body, "toolu_");
    assert_non_null(at);
    memcpy(id, at + strlen("\"tool_calls\":[{\"id\":\""), 9);
    assert_int_equal(strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"),
                     9);
    at = strstr(body, "\"tool_call_id\":\"");
    assert_non_null(at);
    memcpy(again, at + strlen("\"tool_call_id\":\""), 9);
    assert_string_equal(id, again);
    leave();
}

static void a_field_that_changes_the_answer_is_refused_by_its_name(void **state)
{
    (void)state;
    open_with(REFUSING, MODEL);
    call_client_ask_at(&client, "/v1/messages", SAYS_TOOLS);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "'parallel_tool_calls' is a field that the model's provider refuses");
    assert_int_equal(call_kit.n_outs, 0);
    leave();
}

static void a_lossy_model_names_what_its_provider_refuses(void **state)
{
    (void)state;
    open_with(REFUSING, LOSSY_MODEL);
    call_client_ask_at(&client, "/v1/messages", SAYS_TOOLS);
    expect_not_in(call_kit_out()->body, "parallel_tool_calls");
    expect_not_in(call_kit_out()->body, "u1");
    reply_and_end(200, JSON,
                  "{\"id\":\"x\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                  "\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\"usage\":{"
                  "\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}");
    expect_in(client.head, "x-tollgate-dropped: parallel_tool_calls\n");
    call_kit_close();
}

/* A call that is not translated is the client's own affair. */
static void a_chat_passes_as_it_came(void **state)
{
    (void)state;
    open_with(REFUSING, MODEL);
    call_client_ask(&client, "{\"model\":\"small\",\"user\":\"u1\",\"parallel_tool_calls\":false,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_string_equal(call_kit_out()->body,
                        "{\"model\":\"s@1\",\"user\":\"u1\",\"parallel_tool_calls\":false,"
                        "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    leave();
}

#define ON_VERTEX "/x/v1/projects/p-1/locations/eu/publishers/anthropic/models/"
#define SMALL_MESSAGE                                                                \
    "{ \"max_tokens\":10, \"model\" : \"small\" , \"messages\":[{\"role\":\"user\"," \
    "\"content\":\"hi\"}]%s}"

static void claude_on_vertex_has_its_model_in_the_path(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        char body[300], sent[300];
        snprintf(body, sizeof body, SMALL_MESSAGE, stream ? ",\"stream\":true" : "");
        snprintf(sent, sizeof sent,
                 "{ \"max_tokens\":10, \"anthropic_version\":\"vertex-2023-10-16\" , "
                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]%s}",
                 stream ? ",\"stream\":true" : "");
        open_with(CLAUDE_ON_VERTEX, MODEL);
        call_client_says("anthropic-version", "2023-06-01");
        call_client_ask_at(&client, "/v1/messages?beta=true", body);
        assert_string_equal(call_kit_out()->target, stream ? ON_VERTEX "s@1:streamRawPredict"
                                                           : ON_VERTEX "s@1:rawPredict");
        assert_string_equal(call_kit_out()->body, sent);
        expect_not_in(call_kit_out()->request, "anthropic-version");
        leave();
    }
}

static void claude_on_vertex_counts_at_a_path_of_its_own(void **state)
{
    (void)state;
    open_with(CLAUDE_ON_VERTEX, MODEL);
    call_client_ask_at(&client, "/v1/messages/count_tokens",
                       "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":"
                       "\"hi\"}]}");
    assert_string_equal(call_kit_out()->target, ON_VERTEX "count-tokens:rawPredict");
    assert_string_equal(call_kit_out()->body,
                        "{\"anthropic_version\":\"vertex-2023-10-16\",\"model\":\"s@1\","
                        "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    reply_and_end(200, JSON, "{\"input_tokens\":7}");
    assert_string_equal(client.body, "{\"input_tokens\":7}");
    call_kit_close();
}

static void a_chat_reaches_claude_on_vertex(void **state)
{
    (void)state;
    open_with(CLAUDE_ON_VERTEX, MODEL);
    call_client_ask(&client, "{\"model\":\"small\",\"max_tokens\":9,\"messages\":[{\"role\":"
                             "\"user\",\"content\":\"hi\"}]}");
    assert_string_equal(call_kit_out()->target, ON_VERTEX "s@1:rawPredict");
    expect_in(call_kit_out()->body, "{\"anthropic_version\":\"vertex-2023-10-16\",");
    expect_not_in(call_kit_out()->body, "\"model\"");
    expect_not_in(call_kit_out()->request, "anthropic-version");
    reply_and_end(200, JSON, MESSAGE);
    expect_in(client.body, "\"model\":\"small\"");
    call_kit_close();
}

static void gemini_on_vertex_generates_and_counts_below_its_project(void **state)
{
    (void)state;
    open_with(GEMINI_ON_VERTEX, MODEL);
    call_client_ask_at(&client, "/v1/messages/count_tokens",
                       "{\"model\":\"small\",\"messages\":[{\"role\":\"user\",\"content\":"
                       "\"hi\"}]}");
    assert_string_equal(call_kit_out()->target,
                        "/v1/projects/p-1/locations/eu/publishers/google/models/s@1:countTokens");
    assert_string_equal(call_kit_out()->body,
                        "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]}]}");
    reply_and_end(200, JSON, "{\"totalTokens\":7}");
    assert_string_equal(client.body, "{\"input_tokens\":7}");
    assert_int_equal(client.call->spent, 0);
    call_kit_close();
}

static void a_key_with_an_address_of_its_own_is_called_there(void **state)
{
    (void)state;
    open_with(OWN_ADDRESS, MODEL);
    call_client_ask(&client, "{\"model\":\"small\",\"max_tokens\":9,\"messages\":[{\"role\":"
                             "\"user\",\"content\":\"hi\"}]}");
    assert_string_equal(call_kit_out()->target, "/openai/p/v1/chat/completions?v=1");
    expect_in(call_kit_out()->request, "api-key: ");
    expect_not_in(call_kit_out()->request, "Bearer");
    leave();
}

/* ---- models ---- */

#define ANTHROPIC "  m: {preset: anthropic, base_url: \"http://127.0.0.1:3\", " KEYS "}\n"
#define GEMINI "  m: {preset: gemini, base_url: \"http://127.0.0.1:3\", " KEYS "}\n"
#define CALLED(upstream, more)                                                            \
    "  small: {provider: m, upstream_model: " upstream ", max_output_tokens: 4096, " more \
    "price: {input: 1, output: 2}}\n"
#define THINK                                                                \
    "{\"model\":\"small\",\"max_tokens\":4000,\"reasoning_effort\":\"low\"," \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

static void a_model_is_asked_to_think_as_it_wants_to_be(void **state)
{
    static const struct {
        const char *provider, *model, *expected; /* null: it is not asked */
    } rows[] = {
        {ANTHROPIC, CALLED("claude-sonnet-4-5", ""), "\"thinking\":{\"type\":\"enabled\","},
        {ANTHROPIC, CALLED("claude-opus-4-8", ""), "\"thinking\":{\"type\":\"adaptive\"}"},
        {ANTHROPIC, CALLED("claude-3-5-haiku", ""), NULL},
        {ANTHROPIC, CALLED("claude-3-5-haiku", "thinking: adaptive, "),
         "\"thinking\":{\"type\":\"adaptive\"}"},
        {GEMINI, CALLED("gemini-2.5-flash", ""), "\"thinkingBudget\":"},
        {GEMINI, CALLED("gemini-3-pro", ""), "\"thinkingLevel\":\"LOW\""},
        {GEMINI, CALLED("gemini-2.0-flash", ""), NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        open_with(rows[i].provider, rows[i].model);
        call_client_ask(&client, THINK);
        if (rows[i].expected != NULL)
            expect_in(call_kit_out()->body, rows[i].expected);
        else
            expect_not_in(call_kit_out()->body, "thinking");
        leave();
    }
}

static void sampling_is_not_carried_to_a_model_that_refuses_it(void **state)
{
    (void)state;
    open_with(ANTHROPIC, CALLED("claude-opus-4-8", ""));
    call_client_ask(&client, "{\"model\":\"small\",\"max_tokens\":9,\"temperature\":0.5,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "'temperature' cannot be carried over");
    leave();
    open_with(ANTHROPIC, CALLED("claude-opus-4-8", "sampling: full, "));
    call_client_ask(&client, "{\"model\":\"small\",\"max_tokens\":9,\"temperature\":0.5,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    expect_in(call_kit_out()->body, "\"temperature\":0.5");
    leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistral_gets_ids_of_nine_characters_and_its_own_bound),
        cmocka_unit_test(a_field_that_changes_the_answer_is_refused_by_its_name),
        cmocka_unit_test(a_lossy_model_names_what_its_provider_refuses),
        cmocka_unit_test(a_chat_passes_as_it_came),
        cmocka_unit_test(claude_on_vertex_has_its_model_in_the_path),
        cmocka_unit_test(claude_on_vertex_counts_at_a_path_of_its_own),
        cmocka_unit_test(a_chat_reaches_claude_on_vertex),
        cmocka_unit_test(gemini_on_vertex_generates_and_counts_below_its_project),
        cmocka_unit_test(a_key_with_an_address_of_its_own_is_called_there),
        cmocka_unit_test(a_model_is_asked_to_think_as_it_wants_to_be),
        cmocka_unit_test(sampling_is_not_carried_to_a_model_that_refuses_it),
    };

    return cmocka_run_group_tests_name("call_providers", tests, NULL, NULL);
}
