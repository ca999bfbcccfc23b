/* test_mock_dialects.c - what the mock says in each API, read by the dialects of the gateway.
 *
 * The mock writes without them, so that neither hides a mistake of the other. Whatever a reply is
 * made of, its stream means the same as the whole.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "io/text/json_read.h"
#include "lab/mock/mock_reply.h"
#include "net_dialect_kit.h"

static const struct api {
    enum dialect dialect;
    const char *path, *stream_path, *body;
} apis[] = {
    {DIALECT_CHAT, "/v1/chat/completions", "/v1/chat/completions",
     "{\"model\":\"m\",\"stream\":%s,\"stream_options\":{\"include_usage\":true},\"messages\":[{"
     "\"role\":\"user\",\"content\":\"x\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
     "\"name\":\"f\",\"parameters\":{\"name\":\"no\"}}}]%s}"},
    {DIALECT_RESPONSES, "/v1/responses", "/v1/responses",
     "{\"model\":\"m\",\"stream\":%s,\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":"
     "\"f\"}]%s}"},
    {DIALECT_ANTHROPIC, "/v1/messages", "/v1/messages",
     "{\"model\":\"m\",\"stream\":%s,\"max_tokens\":500,\"messages\":[{\"role\":\"user\","
     "\"content\":\"x\"}],\"tools\":[{\"name\":\"f\",\"input_schema\":{}}]%s}"},
    {DIALECT_GEMINI, "/v1beta/models/m:generateContent",
     "/v1beta/models/m:streamGenerateContent?alt=sse",
     "{\"stream\":%s,\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}],\"tools\":[{"
     "\"functionDeclarations\":[{\"name\":\"f\"}]}]%s}"},
};

static struct dialect_case c;
static struct json_reader *reader;

static int setup(void **state)
{
    (void)state;
    dialect_case_init(&c);
    reader = json_reader_new();
    return reader == NULL;
}

static int teardown(void **state)
{
    (void)state;
    dialect_case_fini(&c);
    json_reader_free(reader);
    return 0;
}

static void read_ask(struct mock_ask *ask, const struct api *api, bool stream, const char *more)
{
    struct http_head head = {.method = SLICE("POST")};
    char body[1024];

    head.target = slice_of(stream ? api->stream_path : api->path);
    snprintf(body, sizeof body, api->body, stream ? "true" : "false", more);
    mock_ask_head(ask, &head);
    assert_true(ask->method_ok);
    assert_null(mock_ask_body(ask, reader, body, strlen(body), strlen(body)));
    assert_int_equal(ask->stream, stream);
    assert_false(ask->in_array);
    assert_int_equal(ask->n_tools, 1);
    assert_string_equal(ask->tools[0], "f");
}

/* The reply as the mock writes it, with a 0. */
static void say(const struct api *api, bool stream, const char *more,
                const struct mock_action *action, struct text_out *out)
{
    struct mock_ask ask;
    struct mock_reply reply = {0};

    text_out_clear(out);
    read_ask(&ask, api, stream, more);
    mock_reply_init(&reply, &ask, action);
    if (!stream)
        mock_reply_body(&reply, SLICE(""), out);
    for (int64_t i = 0; stream && i < reply.events; i++)
        mock_reply_event(&reply, i, out);
    text_out_put(out, "", 1);
    assert_false(out->failed);
    mock_reply_fini(&reply);
}

/* Told to a client of the responses API, whose last event repeats the whole reply. */
static void check_same(const struct api *api, const char *more, const struct mock_action *action)
{
    const char *client = dialect_plain(DIALECT_RESPONSES);
    struct text_out said = {0};
    char whole[8192];

    say(api, false, more, action, &said);
    snprintf(whole, sizeof whole, "%s",
             dialect_reply(&c, api->dialect, DIALECT_RESPONSES, client, said.bytes));
    expect_has(whole, "'object':'response'");
    say(api, true, more, action, &said);
    expect_has(dialect_stream(&c, api->dialect, DIALECT_RESPONSES, client, said.bytes, 0, SIZE_MAX),
               whole);
    if (action->thinking)
        expect_has(whole, "'type':'reasoning'");
    if (action->tool_calls > 0)
        expect_has(whole, "'type':'function_call'");
    text_out_fini(&said);
}

static struct mock_action action_of(int64_t calls, bool thinking, bool scripted)
{
    struct mock_base base;

    mock_base_init(&base);
    base.action.tool_calls = calls;
    base.action.thinking = thinking;
    base.action.reasoning = thinking ? 4 : 0;
    base.action.tokens = 17;
    base.action.cached = 0;
    if (scripted) {
        base.action.text = "{\"h\xc3\xa9llo\": \"w\\u00f6rld, and some more\"}";
        base.action.arguments = "{\"city\": \"M\xc3\xbcnchen\", \"n\": 1.50}";
    }
    return base.action;
}

static void streams_mean_what_the_whole_means(void **state)
{
    (void)state;
    for (size_t api = 0; api < COUNT_OF(apis); api++)
        for (int64_t calls = 0; calls <= 3; calls++)
            for (int kind = 0; kind < 4; kind++) {
                struct mock_action action = action_of(calls, kind % 2 == 1, kind / 2 == 1);
                check_same(&apis[api], "", &action);
            }
}

/* Each in its own API's words. */
static void calls_are_forced_forbidden_and_alone(void **state)
{
    static const struct {
        const char *forced, *forbidden, *alone;
    } rows[] = {
        {",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}",
         ",\"tool_choice\":\"none\"", ",\"parallel_tool_calls\":false"},
        {",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
         "\"function\",\"name\":\"f\"}]}",
         ",\"tool_choice\":\"none\"", ",\"parallel_tool_calls\":false"},
        {",\"tool_choice\":{\"type\":\"tool\",\"name\":\"f\"}",
         ",\"tool_choice\":{\"type\":\"none\"}",
         ",\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}"},
        {",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"ANY\",\"allowedFunctionNames\":["
         "\"f\"]}}",
         ",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"NONE\"}}",
         ",\"toolConfig\":{\"functionCallingConfig\":{\"mode\":\"AUTO\"}}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(apis); i++) {
        struct mock_action action = action_of(0, false, false);
        struct mock_reply reply = {0};
        struct mock_ask ask;

        read_ask(&ask, &apis[i], false, rows[i].forced);
        mock_reply_init(&reply, &ask, &action);
        assert_true(reply.tool);
        action.tool_calls = 2;
        read_ask(&ask, &apis[i], false, rows[i].forbidden);
        mock_reply_init(&reply, &ask, &action);
        assert_false(reply.tool);
        read_ask(&ask, &apis[i], false, rows[i].alone);
        mock_reply_init(&reply, &ask, &action);
        assert_true(reply.tool);
        assert_int_equal(reply.calls, apis[i].dialect == DIALECT_GEMINI ? 2 : 1);
        mock_reply_fini(&reply);
    }
    /* Allowed tools that may be left alone. */
    struct mock_action none = action_of(0, false, false);
    struct mock_reply reply = {0};
    struct mock_ask ask;
    read_ask(&ask, &apis[1], false,
             ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":"
             "\"function\",\"name\":\"f\"}]}");
    mock_reply_init(&reply, &ask, &none);
    assert_false(reply.tool);
    mock_reply_fini(&reply);
}

/* Packages write the choice before the tools, and behind them. */
static void a_choice_before_the_tools_is_understood(void **state)
{
    static const char body[] =
        "{\"model\":\"m\",\"messages\":[],\"tool_choice\":\"required\",\"tools\":[{\"type\":"
        "\"function\",\"function\":{\"name\":\"f\"}}]}";
    struct http_head head = {.method = SLICE("POST"), .target = SLICE("/v1/chat/completions")};
    struct mock_ask ask;

    (void)state;
    mock_ask_head(&ask, &head);
    assert_null(mock_ask_body(&ask, reader, body, strlen(body), strlen(body)));
    assert_true(ask.forced);
    assert_int_equal(ask.n_tools, 1);
    assert_string_equal(ask.tools[0], "f");
}

static void refusals_are_told_in_each_apis_words(void **state)
{
    struct mock_action action = action_of(0, false, false);
    struct text_out said = {0};

    (void)state;
    action.refuse = true;
    action.text = "I will not.";
    for (size_t i = 0; i < COUNT_OF(apis); i++) {
        say(&apis[i], false, "", &action, &said);
        const char *text = dialect_reply(&c, apis[i].dialect, DIALECT_ANTHROPIC,
                                         dialect_plain(DIALECT_ANTHROPIC), said.bytes);
        expect_has(text, "'stop_reason':'refusal'");
        check_same(&apis[i], "", &action);
    }
    text_out_fini(&said);
}

static void stop_sequences_end_a_text(void **state)
{
    static const char *const stops[] = {",\"stop\":\"END\"", NULL,
                                        ",\"stop_sequences\":[\"no\",\"END\"]",
                                        ",\"generationConfig\":{\"stopSequences\":[\"END\"]}"};
    struct mock_action action = action_of(0, false, false);
    struct text_out said = {0};

    (void)state;
    action.tokens = 100;
    action.text = "one and two END three";
    for (size_t i = 0; i < COUNT_OF(apis); i++) {
        if (stops[i] == NULL)
            continue;
        say(&apis[i], false, stops[i], &action, &said);
        const char *text = dialect_reply(&c, apis[i].dialect, DIALECT_ANTHROPIC,
                                         dialect_plain(DIALECT_ANTHROPIC), said.bytes);
        expect_has(text, "'text':'one and two '");
        expect_lacks(text, "three");
        if (apis[i].dialect == DIALECT_ANTHROPIC)
            expect_has(text, "'stop_reason':'stop_sequence','stop_sequence':'END'");
        check_same(&apis[i], stops[i], &action);
    }
    text_out_fini(&said);
}

static void usage_is_the_same_in_every_api(void **state)
{
    struct text_out said = {0};
    struct mock_action action = action_of(0, true, false);

    (void)state;
    action.tokens = 20;
    action.reasoning = 6;
    for (size_t i = 0; i < COUNT_OF(apis); i++) {
        say(&apis[i], false, "", &action, &said);
        const char *text = dialect_reply(&c, apis[i].dialect, DIALECT_CHAT,
                                         dialect_plain(DIALECT_CHAT), said.bytes);
        expect_has(text, "'completion_tokens':20,");
        if (apis[i].dialect != DIALECT_ANTHROPIC) /* which the mock's does not tell */
            expect_has(text, "'reasoning_tokens':6");
    }
    text_out_fini(&said);
}

/* A client of either API is told the same class. */
static void errors_have_the_form_of_their_api(void **state)
{
    static const int statuses[] = {400, 401, 403, 404, 429, 500, 503};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(apis); i++)
        for (size_t k = 0; k < COUNT_OF(statuses); k++) {
            struct mock_action action = action_of(0, false, false);
            struct text_out body = {0};
            struct mock_ask ask;
            char want[8];

            action.retry_after_ms = 1500;
            read_ask(&ask, &apis[i], false, "");
            mock_error_body(&ask, &action, statuses[k], NULL, &body);
            text_out_put(&body, "", 1);
            snprintf(want, sizeof want, "%d ", statuses[k]);
            expect_has(dialect_error(&c, DIALECT_CHAT, statuses[k], body.bytes), want);
            if (apis[i].dialect == DIALECT_GEMINI)
                assert_non_null(strstr(body.bytes, "\"retryDelay\":\"1.5s\""));
            text_out_fini(&body);
        }
}

static void without_sse_a_stream_of_geminis_is_an_array(void **state)
{
    static const char path[] = "/v1/projects/p/locations/l/publishers/google/models/"
                               "m:streamGenerateContent";
    struct http_head head = {.method = SLICE("POST"), .target = SLICE(path)};
    static const char body[] = "{\"contents\":[],\"generationConfig\":{\"candidateCount\":2,"
                               "\"maxOutputTokens\":3}}";
    struct mock_action action = action_of(0, false, false);
    struct mock_reply reply = {0};
    struct text_out out = {0};
    struct json_value root;
    struct mock_ask ask;

    (void)state;
    mock_ask_head(&ask, &head);
    assert_null(mock_ask_body(&ask, reader, body, strlen(body), strlen(body)));
    assert_string_equal(ask.model, "m");
    assert_true(ask.in_array && ask.stream);
    mock_reply_init(&reply, &ask, &action);
    assert_int_equal(reply.events, 2 * 3 + 2);
    for (int64_t i = 0; i < reply.events; i++)
        mock_reply_event(&reply, i, &out);
    assert_true(json_begin(reader, out.bytes, out.size, out.size, &root));
    assert_int_equal(root.kind, JSON_ARRAY);
    assert_true(json_end(reader));
    text_out_put(&out, "", 1);
    assert_non_null(strstr(out.bytes, "\"finishReason\":\"MAX_TOKENS\",\"index\":1"));
    text_out_fini(&out);
    mock_reply_fini(&reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_mean_what_the_whole_means),
        cmocka_unit_test(calls_are_forced_forbidden_and_alone),
        cmocka_unit_test(a_choice_before_the_tools_is_understood),
        cmocka_unit_test(refusals_are_told_in_each_apis_words),
        cmocka_unit_test(stop_sequences_end_a_text),
        cmocka_unit_test(usage_is_the_same_in_every_api),
        cmocka_unit_test(errors_have_the_form_of_their_api),
        cmocka_unit_test(without_sse_a_stream_of_geminis_is_an_array),
    };

    return cmocka_run_group_tests_name("mock_dialects", tests, setup, teardown);
}
