/* test_mock_reply.c - replies: every event is JSON, a stream says what the whole reply says, and
 * the counts follow the request. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/mock/mock_reply.h"

#define PATHS 4

static const char *const paths[PATHS] = {"/v1/chat/completions", "/v1/completions", "/v1/responses",
                                         "/v1/messages"};

static struct json_reader *reader;

static int set_up(void **state)
{
    (void)state;
    reader = json_reader_new();
    return reader != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    json_reader_free(reader);
    return 0;
}

static void ask_of(struct mock_ask *ask, const char *path, const char *body)
{
    struct http_head head = {.method = SLICE("POST"), .target = slice_of(path)};
    const char *problem;

    mock_ask_head(ask, &head);
    problem = mock_ask_body(ask, reader, body, strlen(body), strlen(body));
    if (problem != NULL)
        fail_msg("%s: %s", body, problem);
    ask->hash = 0x1234;
}

static struct mock_action usual(void)
{
    struct mock_base base;

    mock_base_init(&base);
    return base.action;
}

static void expect_json(const char *bytes, size_t n)
{
    struct json_value root;

    json_begin(reader, bytes, n, n, &root);
    if (!json_end(reader))
        fail_msg("%s: %.*s", json_reader_problem(reader)->text, (int)n, bytes);
}

/* The text of every `"KEY":"..."` of an event, one after another. */
static void collect(const char *event, const char *key, char *all, size_t size)
{
    for (const char *at = event; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        size_t n = 0, have = strlen(all);
        while (at[n] != '"' || at[n - 1] == '\\')
            n++;
        assert_true(have + n < size);
        memcpy(all + have, at, n);
        all[have + n] = '\0';
    }
}

/* Checks the form of event i and adds its piece of the answer. */
static void read_event(const struct mock_reply *reply, int64_t i, const char *key, char *all,
                       size_t size)
{
    struct text_out event = {0};
    const char *data;

    mock_reply_event(reply, i, &event);
    text_out_put(&event, "", 1);
    assert_false(event.failed);
    data = strstr(event.bytes, "data: ");
    assert_non_null(data);
    assert_string_equal(event.bytes + event.size - 3, "\n\n");
    assert_true(strchr(event.bytes, '\n') >= data || event.bytes[0] == 'e');
    if (strcmp(data, "data: [DONE]\n\n") != 0)
        expect_json(data + 6, event.size - 3 - (size_t)(data + 6 - event.bytes));
    if (strstr(event.bytes, "response.") == NULL || strstr(event.bytes, ".delta\",") != NULL)
        collect(event.bytes, key, all, size);
    text_out_fini(&event);
}

static const char *key_of(size_t path, bool tool)
{
    static const char *const texts[PATHS] = {"\"content\":\"", "\"text\":\"", "\"delta\":\"",
                                             "\"text\":\""};
    static const char *const tools[PATHS] = {"\"arguments\":\"", "\"text\":\"", "\"delta\":\"",
                                             "\"partial_json\":\""};

    return tool ? tools[path] : texts[path];
}

static void a_stream_says_what_the_whole_says(void **state)
{
    (void)state;
    for (size_t path = 0; path < PATHS; path++) {
        for (int tool = 0; tool < 2; tool++) {
            struct mock_action action = usual();
            struct mock_ask ask;
            struct mock_reply reply = {0};
            struct text_out body = {0};
            char streamed[2000] = "", whole[2000] = "";

            action.tool_calls = tool;
            ask_of(&ask, paths[path],
                   "{\"model\":\"m\\\"1\",\"stream\":true,"
                   "\"tools\":[{\"function\":{\"name\":\"f\"}}]}");
            mock_reply_init(&reply, &ask, &action);
            mock_answer(&reply, 0, 0, &body);
            snprintf(whole, sizeof whole, "%.*s", (int)body.size, body.bytes);
            for (int64_t i = 0; i < reply.events; i++)
                read_event(&reply, i, key_of(path, reply.tool), streamed, sizeof streamed);
            assert_string_equal(streamed, whole);
            text_out_clear(&body);
            mock_reply_body(&reply, SLICE(""), &body);
            expect_json(body.bytes, body.size);
            text_out_fini(&body);
            mock_reply_fini(&reply);
        }
    }
}

static bool body_has(const char *path, const char *request, const struct mock_action *action,
                     const char *words)
{
    struct mock_ask ask;
    struct mock_reply reply = {0};
    struct text_out body = {0};
    bool has;

    ask_of(&ask, path, request);
    mock_reply_init(&reply, &ask, action);
    mock_reply_body(&reply, SLICE("a,b"), &body);
    expect_json(body.bytes, body.size);
    text_out_put(&body, "", 1);
    has = strstr(body.bytes, words) != NULL;
    if (!has)
        print_message("nothing of %s in %s\n", words, body.bytes);
    text_out_fini(&body);
    mock_reply_fini(&reply);
    return has;
}

static void counts_follow_the_request(void **state)
{
    struct mock_action action = usual();

    (void)state;
    action.tokens = 10;
    action.cached = 3;
    action.cache_write = 2;
    action.reasoning = 4;
    /* 40 bytes of text are 10 tokens. */
    assert_true(body_has(paths[0],
                         "{\"model\":\"m\",\"n\":2,\"messages\":"
                         "[\"0123456789012345678901234567890123456789\"]}",
                         &action,
                         "\"prompt_tokens\":10,\"completion_tokens\":20,\"total_tokens\":30,"
                         "\"prompt_tokens_details\":{\"cached_tokens\":3"));
    assert_true(body_has(paths[0], "{\"model\":\"m\",\"max_completion_tokens\":7}", &action,
                         "\"completion_tokens\":7,"));
    assert_true(body_has(paths[2], "{\"model\":\"m\",\"max_output_tokens\":7,"
                                   "\"input\":\"01234567\"}",
                         &action, "\"input_tokens\":2,"
                                  "\"input_tokens_details\":{\"cached_tokens\":2},"
                                  "\"output_tokens\":7,"));
    assert_true(body_has(paths[3],
                         "{\"model\":\"m\",\"max_tokens\":99,\"system\":"
                         "\"0123456789012345678901234567890123456789\"}",
                         &action,
                         "\"input_tokens\":5,\"cache_creation_input_tokens\":2,"
                         "\"cache_read_input_tokens\":3,\"output_tokens\":10,"));
    assert_true(body_has("/v1/embeddings", "{\"model\":\"m\",\"input\":[\"0123456789\"]}", &action,
                         "\"usage\":{\"prompt_tokens\":3,\"total_tokens\":3}"));
    assert_true(body_has("/v1/messages/count_tokens", "{\"model\":\"m\",\"system\":\"0123456789\"}",
                         &action, "{\"input_tokens\":3}"));
}

static void usage_can_be_wrong_in_every_way(void **state)
{
    static const struct {
        enum mock_usage usage;
        const char *openai, *anthropic;
    } rows[] = {
        {MOCK_USAGE_NULL, "\"usage\":null", "\"usage\":null"},
        {MOCK_USAGE_ZERO, "\"prompt_tokens\":0,\"completion_tokens\":0",
         "\"input_tokens\":0,\"cache_creation_input_tokens\":0"},
        {MOCK_USAGE_NEGATIVE, "\"prompt_tokens\":-1,\"completion_tokens\":-1",
         "\"input_tokens\":-1,\"cache_creation_input_tokens\":-1"},
        {MOCK_USAGE_ABSURD, "\"prompt_tokens\":9223372036854775807,",
         "\"input_tokens\":9223372036854775807,"},
        {MOCK_USAGE_MISSING, "\"finish_reason\":\"stop\"}]}", "\"stop_sequence\":null}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct mock_action action = usual();

        action.usage = rows[i].usage;
        assert_true(body_has(paths[0], "{\"model\":\"m\"}", &action, rows[i].openai));
        assert_true(body_has(paths[3], "{\"model\":\"m\"}", &action, rows[i].anthropic));
    }
}

static void the_usage_chunk_comes_if_it_is_asked_for(void **state)
{
    struct mock_action action = usual();
    struct mock_ask ask;
    struct mock_reply reply = {0};
    struct text_out event = {0};

    (void)state;
    ask_of(&ask, paths[0],
           "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    mock_reply_init(&reply, &ask, &action);
    assert_int_equal(reply.events, 1 + 16 + 1 + 1 + 1);
    mock_reply_event(&reply, reply.events - 2, &event);
    text_out_put(&event, "", 1);
    assert_non_null(strstr(event.bytes, "\"choices\":[],\"usage\":{\"prompt_tokens\":1,"));
    action.usage = MOCK_USAGE_MISSING;
    mock_reply_init(&reply, &ask, &action);
    assert_int_equal(reply.events, 1 + 16 + 1 + 1);
    text_out_fini(&event);
    mock_reply_fini(&reply);
}

static void requests_are_read(void **state)
{
    struct mock_ask ask;

    (void)state;
    ask_of(&ask, paths[3],
           "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\","
           "\"source\":{\"data\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}}]}]}");
    assert_int_equal(ask.prompt_bytes, 4 + 5); /* "user", "image" */
    ask_of(&ask, "/v1/embeddings", "{\"model\":\"m\",\"input\":[1,2,3]}");
    assert_int_equal(ask.inputs, 1);
    assert_int_equal(mock_ask_prompt_tokens(&ask), 3);
    ask_of(&ask, "/v1/embeddings?x=1", "{\"model\":\"m\",\"input\":[[1],[2,3]],\"stream\":true}");
    assert_int_equal(ask.inputs, 2);
    assert_false(ask.stream);
}

static void bad_requests_are_refused(void **state)
{
    static const char *const bodies[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"model\":3}",
        "{\"model\":\"m\",\"max_tokens\":0}",
        "{\"model\":\"m\",\"max_tokens\":\"7\"}",
        "{\"model\":\"m\",\"n\":17}",
        "{\"model\":\"m\",\"model\":\"m\"}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        struct http_head head = {.method = SLICE("POST"), .target = slice_of(paths[0])};
        struct mock_ask ask;

        mock_ask_head(&ask, &head);
        assert_non_null(
            mock_ask_body(&ask, reader, bodies[i], strlen(bodies[i]), strlen(bodies[i])));
    }
}

static void errors_have_the_form_of_the_api(void **state)
{
    struct mock_action action = usual();
    struct mock_ask ask = {.api = MOCK_OPENAI};
    struct text_out body = {0};

    (void)state;
    mock_error_body(&ask, &action, 401, NULL, &body);
    text_out_put(&body, "", 1);
    assert_string_equal(body.bytes, "{\"error\":{\"message\":\"The API key is not known\",\"type\":"
                                    "\"invalid_request_error\",\"param\":null,\"code\":"
                                    "\"invalid_api_key\"}}");
    ask.api = MOCK_ANTHROPIC;
    action.message = "say \"no\"";
    text_out_clear(&body);
    mock_error_body(&ask, &action, 529, NULL, &body);
    text_out_put(&body, "", 1);
    assert_string_equal(body.bytes, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                                    "\"message\":\"say \\\"no\\\"\"},\"request_id\":"
                                    "\"req_0000000000000000\"}");
    text_out_fini(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_says_what_the_whole_says),
        cmocka_unit_test(counts_follow_the_request),
        cmocka_unit_test(usage_can_be_wrong_in_every_way),
        cmocka_unit_test(the_usage_chunk_comes_if_it_is_asked_for),
        cmocka_unit_test(requests_are_read),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(errors_have_the_form_of_the_api),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
