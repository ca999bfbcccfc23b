/* test_meter.c - what a streamed reply has used, in the streams of each API. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "server/dialect/meter.h"

#include <stdio.h>

static int setup(void **state)
{
    *state = json_reader_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    json_reader_free(*state);
    return 0;
}

/* The whole stream, in pieces of `piece` bytes; ' stands for ". `last` is the last "
    "event with an error
 * in it, or the last of all. */
static struct meter run(struct json_reader *reader, enum endpoint endpoint, const char *stream,
                        size_t piece, struct meter_event *last)
{
    struct meter meter;
    struct sse sse;
    struct sse_event event;
    struct meter_event seen;
    size_t n = strlen(stream);
    char *text = malloc(n + 1);

    for (size_t i = 0; i <= n; i++)
        text[i] = stream[i] == '\'' ? '"' : stream[i];
    meter_init(&meter, endpoint);
    sse_init(&sse);
    *last = (struct meter_event){.content = false};
    for (size_t at = 0; at < n; at += piece) {
        sse_feed(&sse, text + at, piece < n - at ? piece : n - at);
        while (sse_next(&sse, &event)) {
            meter_take(&meter, reader, &event, &seen);
            if (!last->error && event.kind == SSE_EVENT)
                *last = seen;
        }
    }
    while (sse_end(&sse, &event)) {
        meter_take(&meter, reader, &event, &seen);
        if (!last->error)
            *last = seen;
    }
    sse_fini(&sse);
    free(text);
    return meter;
}

/* One event of its own. */
static struct meter_event one(struct json_reader *reader, enum endpoint endpoint, const char *data)
{
    char stream[1024] = "data: ";
    struct meter_event seen;

    strcat(stream, data);
    strcat(stream, "\n\n");
    run(reader, endpoint, stream, SIZE_MAX / 2, &seen);
    return seen;
}

/* ---- Whole streams --------------------------------------------------------------------------- */

static const char chat[] =
    "data: {'id':'c','object':'chat.completion.chunk','choices':[{'index':0,'delta':"
    "{'role':'assistant',"
    "'content':''},'finish_reason':null}],'usage':null}\n\n"
    ": keep-alive\n\n"
    "data: {'id':'c','choices':[{'index':0,'delta':{'content':'Hello'},"
    "'finish_reason':null}],'usage':null}\n\n"
    "data: {'id':'c','choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'id':'call_1','type':"
    "'function','function':{'name':'look','arguments':''}}]},'finish_reason':null}],"
    "'usage':null}\n\n"
    "data: {'id':'c','choices':[{'index':0,'delta':{'tool_calls':[{'index':0,"
    "'function':{'arguments':"
    "'{}'}}]},'finish_reason':null}],'usage':null}\n\n"
    "data: {'id':'c','choices':[{'index':0,'delta':{},'finish_reason':'stop'}],'usage':null}\n\n"
    "data: {'id':'c','choices':[],'usage':{'prompt_tokens':20,'completion_tokens':9,"
    "'total_tokens':29,"
    "'prompt_tokens_details':{'cached_tokens':4},'completion_tokens_details':"
    "{'reasoning_tokens':2}}}\n\n"
    "data: [DONE]\n\n";

static const char responses[] =
    "event: response.created\ndata: {'type':'response.created','response':{'id':'r','usage':null,"
    "'error':null}}\n\n"
    "event: response.output_text.delta\ndata: {'type':'response.output_text.delta',"
    "'delta':'Hello'}\n\n"
    "event: response.reasoning_summary_text.delta\ndata: {'delta':'abc','type':"
    "'response.reasoning_summary_text.delta'}\n\n"
    "event: response.function_call_arguments.delta\ndata: {'type':"
    "'response.function_call_arguments.delta','delta':'{}'}\n\n"
    "event: response.output_text.done\ndata: {'type':'response.output_text.done',"
    "'text':'Hello'}\n\n"
    "event: response.completed\ndata: {'type':'response.completed','response':{'id':'r','output':"
    "[{'content':[{'text':'Hello'}]}],'usage':{'input_tokens':30,'input_tokens_details':"
    "{'cached_tokens':10},'output_tokens':12,'output_tokens_details':{'reasoning_tokens':5},"
    "'total_tokens':42}}}\n\n";

static const char messages[] =
    "event: message_start\ndata: {'type':'message_start','message':{'id':'m','content':[],'usage':"
    "{'input_tokens':25,'cache_creation_input_tokens':3,'cache_read_input_tokens':7,"
    "'output_tokens':1}}}\n\n"
    "event: content_block_start\ndata: {'type':'content_block_start','index':0,'content_block':"
    "{'type':'text','text':''}}\n\n"
    "event: ping\ndata: {'type': 'ping'}\n\n"
    "event: content_block_delta\ndata: {'type':'content_block_delta','index':0,'delta':{'type':"
    "'text_delta','text':'Hello'}}\n\n"
    "event: content_block_delta\ndata: {'type':'content_block_delta','index':1,'delta':{'type':"
    "'input_json_delta','partial_json':'{}'}}\n\n"
    "event: content_block_delta\ndata: {'type':'content_block_delta','index':1,'delta':{'type':"
    "'thinking_delta','thinking':'abc'}}\n\n"
    "event: content_block_delta\ndata: {'type':'content_block_delta','index':1,'delta':{'type':"
    "'signature_delta','signature':'AAAA'}}\n\n"
    "event: message_delta\ndata: {'type':'message_delta','delta':{'stop_reason':"
    "'end_turn'},'usage':"
    "{'output_tokens':15}}\n\n"
    "event: message_stop\ndata: {'type':'message_stop'}\n\n";

static const char completions[] =
    "data: {'id':'c','choices':[{'text':'Hel','index':0,'logprobs':{'tokens':['Hel']}}]}\n\n"
    "data: {'id':'c','choices':[{'text':'lo','index':0},{'text':'Hi','index':1}]}\n\n"
    "data: {'id':'c','choices':[],'usage':{'prompt_tokens':5,'completion_tokens':6,"
    "'total_tokens':11}}\n\n"
    "data: [DONE]\n\n";

static void streams_are_metered_the_same_however_cut(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *stream;
        struct tg_usage usage;
        int64_t reasoning, text, events;
    } rows[] = {
        {ENDPOINT_CHAT, chat, {.input = 16, .cached_input = 4, .output = 9}, 2, 5 + 4 + 2, 7},
        {ENDPOINT_COMPLETIONS, completions, {.input = 5, .output = 6}, 0, 7, 4},
        {ENDPOINT_RESPONSES, responses, {.input = 20, .cached_input = 10, .output = 12}, 5, 10, 6},
        {ENDPOINT_MESSAGES,
         messages,
         {.input = 25, .cached_input = 7, .cache_write = 3, .output = 15},
         0,
         10,
         9},
    };
    struct meter_event last;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t piece = 1; piece < 4000; piece += piece < 40 ? 1 : 97) {
            struct meter meter = run(*state, rows[i].endpoint, rows[i].stream, piece, &last);
            assert_memory_equal(&meter.reading.usage, &rows[i].usage, sizeof rows[i].usage);
            assert_int_equal(meter.reading.reasoning, rows[i].reasoning);
            assert_int_equal(meter.text_bytes, rows[i].text);
            assert_int_equal(meter.events, rows[i].events);
            assert_true(meter.content && meter.ended && meter.final && meter.reading.found);
            assert_true(!meter.error && !meter.reading.absurd && meter.unread == 0);
        }
}

/* 5 min and 1 h are told at the start, and the total grows with the rounds of a tool: what is in no
 * part is kept for 5 min, 900 - 300. Compaction is in the iterations alone. */
static void later_usage_supersedes_earlier(void **state)
{
    static const char stream[] =
        "event: message_start\n"
        "data: {'type':'message_start','message':{'usage':{'input_tokens':100,"
        "'cache_creation_input_tokens':500,'cache_creation':{'ephemeral_5m_input_tokens':200,"
        "'ephemeral_1h_input_tokens':300},'cache_read_input_tokens':7,'output_tokens':1,"
        "'service_tier':'standard','inference_geo':'us'}}}\n\n"
        "data: {'type':'message_delta','delta':{'stop_reason':'end_turn'},'usage':{"
        "'input_tokens':150,'cache_creation_input_tokens':900,'output_tokens':40,"
        "'server_tool_use':{'web_search_requests':2}}}\n\n";
    static const struct tg_usage want = {.input = 150,
                                         .cached_input = 7,
                                         .cache_write = 600,
                                         .cache_write_long = 300,
                                         .output = 40,
                                         .tool_calls = 2};
    struct meter_event last;
    struct meter meter = run(*state, ENDPOINT_MESSAGES, stream, 50, &last);

    assert_memory_equal(&meter.reading.usage, &want, sizeof want);
    assert_string_equal(meter.reading.tier, "standard");
    assert_string_equal(meter.reading.geo, "us");
    assert_false(usage_is_free(&meter.reading, meter.text_bytes));
}

static void a_stream_tells_what_was_served(void **state)
{
    static const char served[] =
        "data: {'service_tier':'auto','choices':[{'delta':{'content':'x'}}]}\n\n"
        "data: {'service_tier':'priority','choices':[{'delta':{}}]}\n\n"
        "data: {'service_tier':'priority','choices':[],'usage':{'prompt_tokens':1,"
        "'completion_tokens':1}}\n\n";
    static const char responded[] =
        "data: {'type':'response.output_item.done','item':{'type':'web_search_call','action':{"
        "'type':'search'}}}\n\n"
        "data: {'type':'response.output_item.done','item':{'type':'web_search_call','action':{"
        "'type':'open_page'}}}\n\n"
        "data: {'type':'response.completed','response':{'service_tier':'flex','output':[{"
        "'type':'web_search_call','action':{'type':'search'}},{'type':'web_search_call',"
        "'action':{'type':'search'}}],'usage':{'input_tokens':5,'output_tokens':6}}}\n\n";
    struct meter_event last;
    struct meter meter = run(*state, ENDPOINT_CHAT, served, 50, &last);
    char part[sizeof responded];

    assert_string_equal(meter.reading.tier, "priority");
    meter = run(*state, ENDPOINT_RESPONSES, responded, 50, &last);
    assert_string_equal(meter.reading.tier, "flex");
    assert_int_equal(meter.reading.usage.tool_calls, 2);
    snprintf(part, sizeof part, "%.*s",
             (int)(strstr(responded, "data: {'type':'response.c") - responded), responded);
    meter = run(*state, ENDPOINT_RESPONSES, part, 50, &last); /* cut */
    assert_int_equal(meter.reading.usage.tool_calls, 1);
}

static void a_refusal_before_any_output_is_free(void **state)
{
    static const char refused[] =
        "data: {'type':'message_start','message':{'usage':{'input_tokens':10,'output_tokens':0}}}"
        "\n\n"
        "data: {'type':'message_delta','delta':{'stop_reason':'refusal'},"
        "'usage':{'output_tokens':0}}\n\n"
        "data: {'type':'message_stop'}\n\n";
    struct meter_event last;
    struct meter meter = run(*state, ENDPOINT_MESSAGES, refused, 50, &last);

    assert_true(meter.reading.refused && usage_is_free(&meter.reading, meter.text_bytes));
    assert_false(usage_is_free(&meter.reading, 1));
    assert_int_equal(meter.reading.usage.input, 10);
}

/* Where the stream is cut off, what has been written is known, and what was not said is not. */
static void cut_streams_are_billed_by_what_was_written(void **state)
{
    struct meter_event last;
    char part[sizeof messages];

    size_t n = (size_t)(strstr(messages, "event: message_delta") - messages);
    memcpy(part, messages, n);
    part[n] = '\0';
    struct meter meter = run(*state, ENDPOINT_MESSAGES, part, 50, &last);
    assert_false(meter.final || meter.ended);
    assert_int_equal(meter.reading.usage.input, 25);
    assert_int_equal(meter.reading.usage.cached_input, 7);
    assert_int_equal(meter.text_bytes, 10);

    n = (size_t)(strstr(chat, "data: {'id':'c','choices':[],") - chat);
    memcpy(part, chat, n);
    part[n] = '\0';
    meter = run(*state, ENDPOINT_CHAT, part, 50, &last);
    assert_false(meter.reading.found || meter.final || meter.ended);
    assert_int_equal(meter.text_bytes, 11);
}

/* ---- Single events --------------------------------------------------------------------------- */

static void first_content_is_told_from_what_comes_before(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *data;
        bool content;
    } rows[] = {
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'role':'assistant','content':''}}]}", false},
        {ENDPOINT_CHAT, "{'choices':[],'prompt_filter_results':"
                        "[{'content_filter_results':{}}]}",
         false},
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'content':null,'reasoning_content':'hm'}}]}", true},
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'reasoning':'hm'}}]}", true},
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'refusal':'no'}}]}", true},
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'audio':{'data':'AAAA'}}}]}", true},
        {ENDPOINT_CHAT, "{'choices':[{'delta':{'function_call':{'arguments':'{'}}}]}", true},
        {ENDPOINT_RESPONSES, "{'type':'response.in_progress','response':"
                             "{'instructions':'abc'}}",
         false},
        {ENDPOINT_RESPONSES, "{'type':'response.output_text.done','text':'abc'}", false},
        {ENDPOINT_RESPONSES, "{'type':'response.audio.delta','delta':'AAAA'}", true},
        {ENDPOINT_RESPONSES, "{'type':'response.refusal.delta','delta':'no'}", true},
        {ENDPOINT_MESSAGES, "{'type':'content_block_start','content_block':{'type':"
                            "'text','text':''}}",
         false},
        {ENDPOINT_MESSAGES, "{'type':'content_block_start','content_block':{'type':"
                            "'tool_use','name':'f','input':{}}}",
         true},
        {ENDPOINT_MESSAGES, "{'type':'ping'}", false},
        {ENDPOINT_CHAT, "not JSON", false},
        {ENDPOINT_CHAT, "[DONE]", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (one(*state, rows[i].endpoint, rows[i].data).content != rows[i].content)
            fail_msg("%s", rows[i].data);
}

static void only_a_chunk_of_nothing_but_usage_is_kept_back(void **state)
{
    static const char usage[] = "{'choices':[],'usage':{'prompt_tokens':1,'completion_tokens':2}}";

    assert_true(one(*state, ENDPOINT_CHAT, usage).usage_only);
    assert_true(one(*state, ENDPOINT_COMPLETIONS, usage).usage_only);
    assert_false(one(*state, ENDPOINT_MESSAGES, usage).usage_only);
    assert_false(one(*state, ENDPOINT_CHAT, "{'choices':[],'usage':null}").usage_only);
    assert_false(one(*state, ENDPOINT_CHAT, "{'choices':[],'prompt_filter_results':"
                                            "[]}")
                     .usage_only);
    assert_false(one(*state, ENDPOINT_CHAT, "{'choices':[{'delta':{}}],'usage':"
                                            "{'prompt_tokens':1}}")
                     .usage_only);
    assert_true(one(*state, ENDPOINT_CHAT, "[DONE]").done);
}

static void errors_within_a_stream_are_judged(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *data, *type;
        bool retryable, limited;
    } rows[] = {
        {ENDPOINT_CHAT, "{'error':{'message':'x','type':'server_error','code':null}}",
         "server_error", true, false},
        {ENDPOINT_CHAT, "{'error':{'type':'requests','code':'rate_limit_exceeded'}}",
         "rate_limit_exceeded", true, true},
        {ENDPOINT_CHAT, "{'error':{'type':'invalid_request_error','code':"
                        "'context_length_exceeded'}}",
         "context_length_exceeded", false, false},
        {ENDPOINT_CHAT, "{'error':{'code':'insufficient_quota'}}", "insufficient_quota",
         true, true},
        {ENDPOINT_CHAT, "{'error':{'code':502,'message':'x'}}", "502", true, false},
        {ENDPOINT_CHAT, "{'error':{'code':429,'message':'x'},'choices':[]}", "429", true, true},
        {ENDPOINT_CHAT, "{'error':{'code':400,'type':'BadRequestError'}}",
         "BadRequestError", false, false},
        {ENDPOINT_CHAT, "{'error':'broken'}", "", false, false},
        {ENDPOINT_MESSAGES, "{'type':'error','error':{'type':'overloaded_error',"
                            "'message':'x'}}",
         "overloaded_error", true, false},
        {ENDPOINT_MESSAGES, "{'type':'error','error':{'type':'api_error'}}", "api_error",
         true, false},
        {ENDPOINT_MESSAGES, "{'type':'error','error':{'type':'rate_limit_error'}}",
         "rate_limit_error", true, true},
        {ENDPOINT_MESSAGES, "{'type':'error','error':{'type':'invalid_request_error'}}",
         "invalid_request_error", false, false},
        {ENDPOINT_RESPONSES, "{'type':'response.failed','response':{'error':{'code':"
                             "'server_error'},'usage':null}}",
         "server_error", true, false},
        {ENDPOINT_RESPONSES, "{'type':'response.failed','response':{'error':null}}", "",
         false, false},
        {ENDPOINT_RESPONSES, "{'type':'error','code':'rate_limit_exceeded',"
                             "'message':'x','param':null}",
         "rate_limit_exceeded", true, true},
        {ENDPOINT_RESPONSES, "{'type':'error','code':'a b\\u00e9\\n'}", "a_b___", false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct meter_event seen = one(*state, rows[i].endpoint, rows[i].data);
        if (!seen.error || seen.retryable != rows[i].retryable || seen.limited != rows[i].limited ||
            strcmp(seen.error_type, rows[i].type) != 0)
            fail_msg("%s: '%s' %d %d", rows[i].data, seen.error_type, seen.retryable, seen.limited);
    }
    assert_false(one(*state, ENDPOINT_RESPONSES, "{'type':'response.incomplete',"
                                                 "'response':{'error':null}}")
                     .error);
    assert_false(one(*state, ENDPOINT_CHAT, "{'error':null,'choices':[]}").error);
}

/* Whose fault it was is still known at the end. */
static void an_error_in_the_midst_of_a_stream_is_remembered(void **state)
{
    static const struct {
        const char *stream;
        bool failed, limited;
    } rows[] = {
        {"data: {'choices':[{'delta':{'content':'a'}}]}\n\ndata: [DONE]\n\n", false, false},
        {"data: {'error':{'type':'server_error'}}\n\ndata: [DONE]\n\n", true, false},
        {"data: {'error':{'type':'requests'}}\n\ndata: {'choices':[]}\n\n", true, true},
        {"data: {'error':{'type':'invalid_request_error'}}\n\n", false, false},
    };
    struct meter_event last;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct meter meter = run(*state, ENDPOINT_CHAT, rows[i].stream, 7, &last);
        assert_int_equal(meter.failed, rows[i].failed);
        assert_int_equal(meter.limited, rows[i].limited);
        assert_int_equal(meter.error, i > 0);
    }
}

static void what_cannot_be_read_changes_nothing(void **state)
{
    struct meter_event last;
    struct meter meter = run(*state, ENDPOINT_CHAT,
                             "data: {'choices':[{'delta':{'content':'abc'}}],"
                             "'usage':{'prompt_tokens':5}\n\n"
                             "data: [1]\n\ndata: {'usage':{'prompt_tokens':5,"
                             "'prompt_tokens':6}}\n\ndata:\n\n",
                             1000, &last);

    assert_int_equal(meter.unread, 4);
    assert_int_equal(meter.text_bytes, 0);
    assert_false(meter.content || meter.reading.found || meter.error);
}

static void absurd_counts_stay_absurd(void **state)
{
    struct meter_event last;
    struct meter meter = run(*state, ENDPOINT_MESSAGES,
                             "data: {'type':'message_start','message':{'usage':"
                             "{'input_tokens':-5}}}\n\n"
                             "data: {'type':'message_delta','usage':{'output_tokens':5}}\n\n",
                             1000, &last);

    assert_true(meter.reading.found && meter.reading.absurd);
    assert_int_equal(meter.reading.usage.output, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_metered_the_same_however_cut),
        cmocka_unit_test(later_usage_supersedes_earlier),
        cmocka_unit_test(a_stream_tells_what_was_served),
        cmocka_unit_test(a_refusal_before_any_output_is_free),
        cmocka_unit_test(cut_streams_are_billed_by_what_was_written),
        cmocka_unit_test(first_content_is_told_from_what_comes_before),
        cmocka_unit_test(only_a_chunk_of_nothing_but_usage_is_kept_back),
        cmocka_unit_test(errors_within_a_stream_are_judged),
        cmocka_unit_test(an_error_in_the_midst_of_a_stream_is_remembered),
        cmocka_unit_test(what_cannot_be_read_changes_nothing),
        cmocka_unit_test(absurd_counts_stay_absurd),
    };

    return cmocka_run_group_tests_name("meter", tests, setup, teardown);
}
