/* test_translate_memory.c - translations whose allocations fail, one after the other.
 *
 * Each says that there was no memory, or gives what it gives with enough of it; nothing is left
 * behind.
 */
#include "failing_malloc.h"

#include <string.h>

#include "server/dialect/translate/translation.h"

static struct json_reader *json;

struct request_case {
    enum dialect from, to;
    const char *body;
};

/* Escapes make copies, and several of everything make arrays grow. */
static const struct request_case requests[] = {
    {DIALECT_CHAT, DIALECT_ANTHROPIC,
     "{\"model\":\"m\\u0031\",\"messages\":[{\"role\":\"system\",\"content\":\"s\\n\"},"
     "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\\t\"},"
     "{\"type\":\"image_url\","
     "\"image_url\":{\"url\":\"data:image/png;base64,AAAA\"}}]},{\"role\":\"assistant\","
     "\"tool_calls\":[{\"id\":\"a.b\",\"type\":\"function\",\"function\":{\"name\":\"f\","
     "\"arguments\":\"{\\\"x\\\":1}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a.b\","
     "\"content\":\"r\"}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
     "\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}}"},
    {DIALECT_ANTHROPIC, DIALECT_CHAT,
     "{\"model\":\"m\",\"max_tokens\":5,\"messages\":[{\"role\":\"user\",\"content\":\"x\\n\"},"
     "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"tg1g1_aQUJD\",\"name\":"
     "\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\","
     "\"tool_use_id\":\"a\",\"content\":[{\"type\":\"search_result\",\"title\":\"t\",\"source\":"
     "\"s\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]},{\"type\":\"image\",\"source\":{"
     "\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"QQ==\"}}]}]}]}"},
    {DIALECT_RESPONSES, DIALECT_RESPONSES,
     "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
     "\"text\":\"a\\n\"}]},{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\","
     "\"text\":\"s\"},{\"type\":\"summary_text\",\"text\":\"t\"}]},{\"type\":"
     "\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"},{"
     "\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"},{\"type\":"
     "\"mcp_call\"}],\"tools\":[{\"type\":\"mcp\"},{\"type\":\"function\",\"name\":\"f\"}],"
     "\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"},\"x\":1}"},
};

static long translate_request(const struct request_case *row)
{
    struct neutral_request request;
    struct neutral_target target;
    struct neutral_dropped dropped = {.n = 0};
    struct ask_problem problem;
    struct json_writer out;
    size_t n = strlen(row->body);
    long errors = 0;

    neutral_request_init(&request);
    neutral_target_init(&target);
    json_writer_init(&out);
    if (!dialect_find(row->from)->read_request(json, row->body, n, n, &request, &problem) ||
        !dialect_find(row->to)->write_request(json, &request, &target, &out, &dropped, &problem)) {
        assert_true(problem.no_memory);
        errors++;
    }
    json_writer_fini(&out);
    neutral_request_fini(&request);
    return errors;
}

struct stream_case {
    enum dialect provider, client;
    const char *text;
};

#define CHUNK(delta) "data: {\"choices\":[{\"index\":0,\"delta\":" delta "}]}\n\n"
#define LAST_CHUNK                                                                          \
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n" \
    "data: [DONE]\n\n"

static const struct stream_case streams[] = {
    {DIALECT_CHAT, DIALECT_ANTHROPIC,
     CHUNK("{\"reasoning\":\"r\"}") CHUNK("{\"content\":\"c\"}")
         CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\","
               "\"arguments\":\"{\"}},{\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"f\","
               "\"arguments\":\"{}\"}}]}")
             CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"}\"}}]}")
                 LAST_CHUNK},
    {DIALECT_ANTHROPIC, DIALECT_CHAT,
     "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{}}}\n\n"
     "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
     "\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n"
     "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{"
     "\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"input\\\":\\\"x\\\"}\"}}\n\n"
     "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
     "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
     "\"tool_use\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
    {DIALECT_RESPONSES, DIALECT_CHAT,
     "event: response.output_item.added\ndata: {\"type\":\"response.output_item.adde"
     "d\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"a\","
     "\"name\":\"f\"}}\n\n"
     "data: {\"type\":\"response.function_call_arguments.delta\",\"output_index\":0,"
     "\"delta\":\"{}\"}\n\n"
     "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
     "\"output\":[]}}\n\n"},
    {DIALECT_GEMINI, DIALECT_CHAT,
     "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"},{\"functionCa"
     "ll\":{\"name\":\"f\",\"args\":{}}}]},\"index\":1,\"finishReason\":\"STOP\"}]}"
     "\n\n"},
    {DIALECT_CHAT, DIALECT_RESPONSES,
     CHUNK("{\"reasoning\":\"r\"}") CHUNK("{\"content\":\"c\"}")
         CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\"}}]}")
             LAST_CHUNK},
};

static long translate_stream(const struct stream_case *row, bool whole)
{
    struct neutral_tool tool = {.name = SLICE("f"), .free = row->client == DIALECT_CHAT};
    struct neutral_request request = {.tools = &tool, .n_tools = 1};
    struct translation translation;
    struct reply_terms terms;
    struct json_writer out;
    size_t n = strlen(row->text);

    if (!reply_terms_init(&terms, &request, row->provider, SLICE("p"), SLICE("m"), 0, 1, 1))
        return 1;
    json_writer_init(&out);
    translation_init(&translation, json, &terms, dialect_find(row->client), !whole);
    bool enough = true;
    for (size_t at = 0; at < n && enough; at += 100)
        enough = translation_feed(&translation, row->text + at, n - at < 100 ? n - at : 100, &out);
    enough = enough && translation_end(&translation, &out);
    /* An event for which sse had no memory ends the stream in an error. */
    bool told = translation_error(&translation) != NULL;
    assert_true(!enough || translation_ended(&translation));
    translation_fini(&translation);
    reply_terms_fini(&terms);
    json_writer_fini(&out);
    return !enough || told;
}

static long live_once(long nth)
{
    long errors = 0;

    fail_at(nth);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        errors += translate_request(&requests[i]);
    for (size_t i = 0; i < COUNT_OF(streams); i++) {
        errors += translate_stream(&streams[i], false);
        errors += translate_stream(&streams[i], true);
    }
    until_failure = -1;
    return errors;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    need_allocator();
    json = json_reader_new();
    assert_non_null(json);
    assert_int_equal(live_once(-1), 0); /* the reader is warm then */
    expect_survival(live_once, false, 30, 20);
    expect_survival(live_once, true, 30, 20);
    json_reader_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests_name("translate_memory", tests, NULL, NULL);
}
