/* test_translate_replies.c - replies and streams in one dialect, told in another.
 *
 * Many of these were got wrong by others: each test is named for what is right.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_dialect_kit.h"

#define C DIALECT_CHAT
#define A DIALECT_ANTHROPIC

static const char *reply(struct dialect_case *c, enum dialect provider, enum dialect client,
                         const char *text)
{
    return dialect_reply(c, provider, client, dialect_plain(client), text);
}

static const char *stream(struct dialect_case *c, enum dialect provider, enum dialect client,
                          const char *text)
{
    return dialect_stream(c, provider, client, dialect_plain(client), text, 0, SIZE_MAX);
}

/* How often a text has another. */
static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

#define CHUNK(choices) "data: {'id':'x','choices':[" choices "]}\n\n"
#define DELTA(delta) CHUNK("{'index':0,'delta':" delta ",'finish_reason':null}")
#define FINISH(reason) CHUNK("{'index':0,'delta':{},'finish_reason':'" reason "'}")
#define USAGE(input, output) \
    "data: {'choices':[],'usage':{'prompt_tokens':" #input ",'completion_tokens':" #output "}}\n\n"
#define DONE "data: [DONE]\n\n"

#define EVENT(type, more) "event: " type "\ndata: {'type':'" type "'" more "}\n\n"
#define START                                                                          \
    EVENT("message_start", ",'message':{'id':'msg_1','content':[],'stop_reason':null," \
                           "'usage':{'input_tokens':15,'output_tokens':1}}")
#define BLOCK(i, block) EVENT("content_block_start", ",'index':" #i ",'content_block':" block)
#define ADD(i, delta) EVENT("content_block_delta", ",'index':" #i ",'delta':" delta)
#define CLOSE(i) EVENT("content_block_stop", ",'index':" #i)
#define STOP(reason, usage)                                                        \
    EVENT("message_delta", ",'delta':{'stop_reason':'" reason "'},'usage':" usage) \
    EVENT("message_stop", "")

/* ---- Usage ----------------------------------------------------------------------------------- */

static void cache_writes_are_counted_once(void **state)
{
    const char *text = reply(*state, A, C,
                             "{'content':[{'type':'text','text':'x'}],'stop_reason':'end_turn',"
                             "'usage':{'input_tokens':3,'cache_creation_input_tokens':12304,"
                             "'output_tokens':1}}");

    expect_has(text, "'prompt_tokens':12307,'completion_tokens':1,'total_tokens':12308,"
                     "'prompt_tokens_details':{'cached_tokens':0,'cache_write_tokens':12304");
    text = reply(*state, A, A,
                 "{'content':[{'type':'text','text':'x'}],'stop_reason':'end_turn',"
                 "'usage':{'input_tokens':3,'cache_creation_input_tokens':12304,"
                 "'output_tokens':1}}");
    expect_has(text, "'input_tokens':3,'cache_creation_input_tokens':12304");
}

static void input_that_excludes_the_cache_becomes_one_that_includes_it_and_back(void **state)
{
    expect_has(reply(*state, A, C,
                     "{'content':[{'type':'text','text':'x'}],'stop_reason':'end_turn','usage':{"
                     "'input_tokens':100,'cache_read_input_tokens':200,"
                     "'cache_creation_input_tokens':700,'output_tokens':5}}"),
               "'prompt_tokens':1000,'completion_tokens':5,'total_tokens':1005,"
               "'prompt_tokens_details':{'cached_tokens':200,'cache_write_tokens':700");
    expect_has(reply(*state, C, A,
                     "{'choices':[{'index':0,'message':{'content':'x'},'finish_reason':'stop'}],"
                     "'usage':{'prompt_tokens':1000,'completion_tokens':5,'prompt_tokens_details':"
                     "{'cached_tokens':200,'cache_write_tokens':700},'completion_tokens_details':"
                     "{'reasoning_tokens':4}}}"),
               "'usage':{'input_tokens':100,'cache_creation_input_tokens':700,"
               "'cache_read_input_tokens':200,");
    expect_has(((struct dialect_case *)*state)->text,
               "'output_tokens':5,'output_tokens_details':{'thinking_tokens':4}");
}

static void usage_of_the_last_event_replaces_and_zero_is_absent(void **state)
{
    static const char *const usages[] = {"{'input_tokens':15,'output_tokens':7}",
                                         "{'input_tokens':0,'output_tokens':7}",
                                         "{'output_tokens':7}"};
    static const char head[] = START BLOCK(0, "{'type':'text','text':''}")
        ADD(0, "{'type':'text_delta','text':'x'}") CLOSE(0);
    char text[2048];

    for (size_t i = 0; i < COUNT_OF(usages); i++) {
        snprintf(text, sizeof text,
                 "%sevent: message_delta\ndata: {'type':'message_delta','delta':{'stop_reason':"
                 "'end_turn'},'usage':%s}\n\n%s",
                 head, usages[i], EVENT("message_stop", ""));
        expect_has(stream(*state, A, C, text), "'prompt_tokens':15,'completion_tokens':7");
    }
}

static void streams_name_an_estimate_first_and_the_truth_last(void **state)
{
    const char *text = stream(*state, C, A,
                              DELTA("{'role':'assistant','content':'hi'}") FINISH("stop")
                                  USAGE(1234, 5) DONE);

    expect_has(text, "'content':[],'stop_reason':null,'stop_sequence':null,"
                     "'usage':{'input_tokens':77,");
    expect_has(text, "'delta':{'stop_reason':'end_turn','stop_sequence':null},"
                     "'usage':{'input_tokens':1234,");
    /* Without a usage the estimate is not overwritten by a zero. */
    text = stream(*state, C, A, DELTA("{'content':'hi'}") FINISH("stop") DONE);
    expect_has(text, "'stop_sequence':null},'usage':{'output_tokens':0}");
}

static void usage_behind_the_finish_reason_is_read(void **state)
{
    expect_has(stream(*state, C, C, DELTA("{'content':'hi'}") FINISH("stop") USAGE(9, 3) DONE),
               "'choices':[],'usage':{'prompt_tokens':9,'completion_tokens':3,'total_tokens':12");
}

static void chunks_without_choices_are_passed_over(void **state)
{
    const char *text = stream(*state, C, A,
                              CHUNK("") DELTA("{'content':'hi'}") CHUNK("") FINISH("stop")
                                  USAGE(9, 3) DONE);

    assert_int_equal(count(text, "event: message_start"), 1);
    expect_has(text, "'text_delta','text':'hi'");
    expect_has(text, "'input_tokens':9,");
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void reasoning_and_text_are_two_blocks_of_one_message(void **state)
{
    const char *text = stream(*state, C, A,
                              DELTA("{'role':'assistant','reasoning_content':'th'}")
                                  DELTA("{'reasoning_content':'ink'}") DELTA("{'content':'say'}")
                                      FINISH("stop") DONE);

    assert_int_equal(count(text, "event: message_start"), 1);
    assert_int_equal(count(text, "event: content_block_start"), 2);
    assert_int_equal(count(text, "event: content_block_stop"), 2);
    expect_has(text, "'index':0,'content_block':{'type':'thinking'");
    expect_has(text, "'index':0,'delta':{'type':'thinking_delta','thinking':'ink'}");
    expect_has(text, "'index':1,'content_block':{'type':'text'");
    expect_has(text, "'index':1,'delta':{'type':'text_delta','text':'say'}");
}

static void interleaved_calls_are_serialised_and_all_closed(void **state)
{
    const char *text =
        stream(*state, C, A,
               DELTA("{'tool_calls':[{'index':0,'id':'a','type':'function','function':{'name':'f',"
                     "'arguments':''}}]}")
                   DELTA("{'tool_calls':[{'index':1,'id':'b','type':'function','function':{'name':"
                         "'f','arguments':'{\\'x\\''}}]}")
                       DELTA("{'tool_calls':[{'index':0,'function':{'arguments':'{\\'y\\''}}]}")
                           DELTA("{'tool_calls':[{'index':1,'function':{'arguments':':1}'}}]}")
                               DELTA("{'tool_calls':[{'index':0,'function':{'arguments':':2}'}}]}")
                                   DELTA("{'tool_calls':[{'index':2,'id':'c','function':{'name':"
                                         "'f'}}]}") FINISH("tool_calls") DONE);

    assert_int_equal(count(text, "event: content_block_start"), 3);
    assert_int_equal(count(text, "event: content_block_stop"), 3);
    const char *first_stop = strstr(text, "content_block_stop");
    const char *second_start = strstr(text, "'id':'b'");
    assert_true(first_stop != NULL && second_start != NULL && first_stop < second_start);
    expect_has(text, "'index':1,'delta':{'type':'input_json_delta','partial_json':"
                     "'{\\'x\\':1}'}");
    expect_has(text, "'index':2,'content_block':{'type':'tool_use','id':'c','name':'f'");
    expect_has(text, "'stop_reason':'tool_use'");
}

static void calls_under_one_index_with_other_ids_are_two(void **state)
{
    const char *text =
        stream(*state, C, C,
               DELTA("{'tool_calls':[{'index':0,'id':'a','function':{'name':'f','arguments':"
                     "'{}'}}]}")
                   DELTA("{'tool_calls':[{'index':0,'id':'b','function':{'name':'f','arguments':"
                         "'{}'}}]}") FINISH("tool_calls") DONE);

    expect_has(text, "'tool_calls':[{'index':0,'id':'a'");
    expect_has(text, "'tool_calls':[{'index':1,'id':'b'");
}

static void a_cut_call_is_not_executed(void **state)
{
    expect_has(stream(*state, C, A,
                      DELTA("{'tool_calls':[{'index':0,'id':'a','function':{'name':'f','arguments':"
                            "'{\\'x'}}]}") FINISH("length") DONE),
               "'stop_reason':'max_tokens'");
    expect_has(reply(*state, C, A,
                     "{'choices':[{'index':0,'message':{'content':null,'tool_calls':[{'id':'a',"
                     "'type':'function','function':{'name':'f','arguments':'{\\'x'}}]},"
                     "'finish_reason':'length'}]}"),
               "'stop_reason':'max_tokens'");
}

static void calls_without_arguments_have_an_empty_object(void **state)
{
    const char *text =
        stream(*state, A, C,
               START BLOCK(0, "{'type':'tool_use','id':'toolu_1','name':'f','input':{}}") CLOSE(0)
                   STOP("tool_use", "{'output_tokens':3}"));

    expect_has(text, "'tool_calls':[{'index':0,'function':{'arguments':'{}'}}]");
    expect_has(text, "'finish_reason':'tool_calls'");
    expect_has(reply(*state, A, C,
                     "{'content':[{'type':'tool_use','id':'t','name':'f','input':{ }}],"
                     "'stop_reason':'tool_use'}"),
               "'function':{'name':'f','arguments':'{}'}");
}

/* Vercel's client reads a list, or nothing, but no null. */
static void a_text_without_citations_does_not_name_them(void **state)
{
    const char *text =
        dialect_reply(*state, C, A, dialect_plain(A),
                      "{'choices':[{'message':{'content':'hi'},'finish_reason':'stop'}]}");

    expect_has(text, "'content':[{'type':'text','text':'hi'}]");
}

static void names_that_were_cut_are_restored(void **state)
{
    char body[1024], text[1024], name[84];
    const char *request;

    memset(name, 'n', 83);
    name[83] = '\0';
    snprintf(body, sizeof body,
             "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'}],"
             "'tools':[{'name':'%s','input_schema':{'type':'object'}}]}",
             name);
    request = dialect_request(*state, A, C, body);
    char cut[65] = "";
    memcpy(cut, strstr(request, "'name':'") + 8, 64);
    snprintf(text, sizeof text,
             "{'choices':[{'index':0,'message':{'content':null,'tool_calls':[{'id':'a','type':"
             "'function','function':{'name':'%s','arguments':'{}'}}]},'finish_reason':'tool_calls'}"
             "]}",
             cut);
    expect_has(dialect_reply(*state, C, A, body, text), name);
}

static void arguments_that_are_no_object_are_an_error_where_one_is_owed(void **state)
{
    expect_has(reply(*state, C, A,
                     "{'choices':[{'index':0,'message':{'tool_calls':[{'id':'a','type':'function',"
                     "'function':{'name':'f','arguments':'{\\'a\\':}'}}]},'finish_reason':"
                     "'tool_calls'}]}"),
               "500 {'type':'error','error':{'type':'api_error'");
}

static void texts_for_free_tools_are_unwrapped(void **state)
{
    static const char body[] =
        "{'model':'m','messages':[{'role':'user','content':'x'}],'stream':true,"
        "'tools':[{'type':'custom','custom':{'name':'patch'}}]}";

    expect_has(dialect_reply(*state, A, C, body,
                             "{'content':[{'type':'tool_use','id':'t','name':'patch','input':"
                             "{'input':'a\\n\\u00e9\\ud83d\\ude00\\\\'}}],'stop_reason':"
                             "'tool_use'}"),
               "'type':'custom','custom':{'name':'patch','input':'a\\n\xc3\xa9\xf0\x9f\x98\x80"
               "\\\\'}");
    expect_has(dialect_stream(*state, A, C, body,
                              START BLOCK(0, "{'type':'tool_use','id':'t','name':'patch','input':{}"
                                             "}") ADD(0, "{'type':'input_json_delta',"
                                                         "'partial_json':'{\\'inp'}")
                                  ADD(0, "{'type':'input_json_delta','partial_json':"
                                         "'ut\\': \\'*** x\\'}'}") CLOSE(0)
                                      STOP("tool_use", "{'output_tokens':3}"),
                              0, SIZE_MAX),
               "'custom':{'input':'*** x'}");
}

static void legacy_functions_are_answered_as_such(void **state)
{
    static const char body[] = "{'model':'m','messages':[{'role':'user','content':'x'}],"
                               "'functions':[{'name':'f','parameters':{'type':'object'}}]}";

    expect_has(dialect_reply(*state, A, C, body,
                             "{'content':[{'type':'tool_use','id':'t','name':'f','input':{'a':1}}],"
                             "'stop_reason':'tool_use'}"),
               "'function_call':{'name':'f','arguments':'{\\'a\\':1}'}},'logprobs':null,"
               "'finish_reason':'function_call'");
}

static void signatures_stay_with_their_thinking(void **state)
{
    static const char text[] =
        START BLOCK(0, "{'type':'thinking','thinking':'','signature':''}")
            ADD(0, "{'type':'signature_delta','signature':'SIG'}") CLOSE(0)
                BLOCK(1, "{'type':'redacted_thinking','data':'RED'}") CLOSE(1)
                    BLOCK(2, "{'type':'text','text':''}")
                        ADD(2, "{'type':'text_delta','text':'x'}") CLOSE(2)
                            STOP("end_turn", "{'output_tokens':3}");
    const char *got = stream(*state, A, A, text);

    expect_has(got, "'index':0,'delta':{'type':'signature_delta','signature':'SIG'}");
    expect_has(got, "'index':1,'content_block':{'type':'redacted_thinking','data':'RED'}");
    /* Another dialect's reasoning is marked, so that Anthropic is never shown it. */
    expect_has(reply(*state, C, A,
                     "{'choices':[{'index':0,'message':{'reasoning':'r','content':'x'},"
                     "'finish_reason':'stop'}]}"),
               "{'type':'thinking','thinking':'r','signature':'tg1.openai-chat.none.prov.'}");
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void stops_are_told_in_the_clients_words(void **state)
{
    static const struct {
        const char *messages, *chat, *back;
    } rows[] = {
        {"end_turn", "stop", "end_turn"},
        {"max_tokens", "length", "max_tokens"},
        {"stop_sequence", "stop", "end_turn"},
        {"refusal", "stop", "end_turn"},
        {"model_context_window_exceeded", "length", "max_tokens"},
        {"something_new", "stop", "end_turn"},
    };
    char text[512], want[64];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(text, sizeof text,
                 "{'content':[{'type':'text','text':'x'}],'stop_reason':'%s'}", rows[i].messages);
        snprintf(want, sizeof want, "'finish_reason':'%s'", rows[i].chat);
        expect_has(reply(*state, A, C, text), want);
        snprintf(text, sizeof text,
                 "{'choices':[{'index':0,'message':{'content':'x'},'finish_reason':'%s'}]}",
                 rows[i].chat);
        snprintf(want, sizeof want, "'stop_reason':'%s'", rows[i].back);
        expect_has(reply(*state, C, A, text), want);
    }
    expect_has(reply(*state, C, A,
                     "{'choices':[{'index':0,'message':{'content':null,'refusal':'no'},"
                     "'finish_reason':'stop'}]}"),
               "'stop_reason':'refusal'");
    expect_has(reply(*state, A, C,
                     "{'content':[],'stop_reason':'refusal','stop_details':{'category':'c',"
                     "'explanation':'why'}}"),
               "'content':null,'refusal':'why'");
    expect_has(reply(*state, A, A,
                     "{'content':[{'type':'text','text':'x'}],'stop_reason':'stop_sequence',"
                     "'stop_sequence':'END'}"),
               "'stop_reason':'stop_sequence','stop_sequence':'END'");
}

static void streams_that_were_cut_end_in_an_error(void **state)
{
    const char *text = stream(*state, C, A, DELTA("{'content':'hi'}"));

    expect_has(text, "event: error\ndata: {'type':'error'");
    expect_lacks(text, "message_stop");
    text = stream(*state, A, C, START BLOCK(0, "{'type':'text','text':'x'}"));
    expect_has(text, "data: {'error':{");
    expect_lacks(text, "[DONE]");
    text = stream(*state, A, C,
                  START EVENT("error", ",'error':{'type':'overloaded_error','message':'busy'}"));
    expect_has(text, "data: {'error':{'type':'server_error','message':'busy','param':null,"
                     "'code':'overloaded'}}");
    expect_lacks(text, "[DONE]");
    text = stream(*state, C, A, DELTA("{'content':'hi'}") "data: {'error':{'message':'m',"
                                                          "'type':'server_error'}}\n\n");
    expect_has(text, "event: error\ndata: {'type':'error','error':{'type':'api_error',"
                     "'message':'m'}}");
    expect_has(stream(*state, C, A, DELTA("{'content':'hi'}") "data: {nonsense\n\n"),
               "event: error");
    /* OpenRouter's code is a number, and comes with 200. */
    expect_has(reply(*state, C, A, "{'error':{'code':429,'message':'slow down'}}"),
               "429 {'type':'error','error':{'type':'rate_limit_error','message':'slow down'}}");
}

static void the_mark_ends_the_reply_without_waiting_for_the_end_of_the_bytes(void **state)
{
    struct dialect_case *c = *state;
    struct neutral_request request;
    struct translation translation;
    struct reply_terms terms;
    struct json_writer out;
    static const char text[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},"
                               "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

    neutral_request_init(&request);
    json_writer_init(&out);
    assert_true(reply_terms_init(&terms, &request, C, SLICE(""), SLICE("m"), 0, 1, 0));
    translation_init(&translation, c->json, &terms, dialect_find(A), true);
    assert_true(translation_feed(&translation, text, sizeof text - 1 - 14, &out));
    assert_false(translation_ended(&translation));
    assert_true(translation_feed(&translation, text + sizeof text - 1 - 14, 14, &out));
    assert_true(translation_ended(&translation));
    assert_true(translation_feed(&translation, text, sizeof text - 1, &out)); /* and no more */
    text_out_char(&out.text, '\0');
    assert_int_equal(count(out.text.bytes, "message_start\n"), 1);
    translation_fini(&translation);
    reply_terms_fini(&terms);
    json_writer_fini(&out);
}

static void choices_are_kept_apart(void **state)
{
    const char *text = reply(*state, C, C,
                             "{'choices':[{'index':1,'message':{'content':'b'},'finish_reason':"
                             "'length'},{'index':0,'message':{'content':'a'},'finish_reason':"
                             "'stop'}]}");

    expect_has(text, "'index':0,'message':{'role':'assistant','content':'a'");
    expect_has(text, "'index':1,'message':{'role':'assistant','content':'b'");
    expect_has(text, "'finish_reason':'length'}],'usage'");
}

/* ---- Cuts ------------------------------------------------------------------------------------ */

static void every_cut_gives_the_same_bytes(void **state)
{
    static const struct {
        enum dialect provider;
        const char *text;
    } rows[] = {
        {C, ": OPENROUTER PROCESSING\n\n" CHUNK("") DELTA("{'role':'assistant','content':''}")
                DELTA("{'content':'h\xc3\xa9\xf0\x9f\x98\x80 \\u00e9'}")
                    DELTA("{'tool_calls':[{'index':0,'id':'a','function':{'name':'f','arguments':"
                          "'{\\'a\\':'}},{'index':1,'id':'b','function':{'name':'f','arguments':"
                          "'{}'}}]}")
                        DELTA("{'tool_calls':[{'index':0,'function':{'arguments':'1}'}}]}")
                            FINISH("tool_calls") USAGE(10, 20) DONE},
        {A, START EVENT("ping", "") BLOCK(0, "{'type':'thinking','thinking':'','signature':''}")
                ADD(0, "{'type':'thinking_delta','thinking':'t'}")
                    ADD(0, "{'type':'signature_delta','signature':'s'}") CLOSE(0)
                        BLOCK(1, "{'type':'tool_use','id':'t','name':'f','input':{}}")
                            ADD(1, "{'type':'input_json_delta','partial_json':'{}'}") CLOSE(1)
                                STOP("tool_use", "{'output_tokens':3}")},
    };
    static const enum dialect clients[] = {C, A};
    struct dialect_case *c = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t k = 0; k < COUNT_OF(clients); k++) {
            const char *body = dialect_plain(clients[k]);
            char *whole = strdup(dialect_stream(c, rows[i].provider, clients[k], body,
                                                rows[i].text, 0, SIZE_MAX));
            for (size_t cut = 1; cut < strlen(rows[i].text); cut++)
                assert_string_equal(dialect_stream(c, rows[i].provider, clients[k], body,
                                                   rows[i].text, cut, SIZE_MAX),
                                    whole);
            assert_string_equal(
                dialect_stream(c, rows[i].provider, clients[k], body, rows[i].text, 1, 1), whole);
            free(whole);
        }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void errors_keep_their_class(void **state)
{
    static const struct {
        int status;
        const char *body, *chat, *messages;
    } rows[] = {
        {401, "{'type':'error','error':{'type':'authentication_error','message':'m'}}",
         "401 {'error':{'type':'invalid_request_error','message':'m','param':null,'code':"
         "'invalid_api_key'}}",
         "401 {'type':'error','error':{'type':'authentication_error'"},
        {529, "{'type':'error','error':{'type':'overloaded_error','message':'m'}}", "503 ",
         "529 {'type':'error','error':{'type':'overloaded_error'"},
        {429, "{'error':{'message':'m','type':'insufficient_quota','code':'insufficient_quota'}}",
         "429 {'error':{'type':'insufficient_quota'",
         "402 {'type':'error','error':{'type':'billing_error'"},
        {400,
         "[{'error':{'code':400,'message':'API key not valid','status':'INVALID_ARGUMENT',"
         "'details':[{'@type':'x','reason':'API_KEY_INVALID'}]}}]",
         "401 ", "401 "},
        {429,
         "{'error':{'code':429,'message':'m','status':'RESOURCE_EXHAUSTED','details':[{'@type':'x',"
         "'violations':[{'quotaId':'GenerateRequestsPerDayPerProject'}]}]}}",
         "429 {'error':{'type':'insufficient_quota'", "402 "},
        {400,
         "{'error':{'message':'m','type':'invalid_request_error','param':'x','code':'y'}}",
         "400 {'error':{'type':'invalid_request_error','message':'m','param':'x','code':null}}",
         "400 {'type':'error','error':{'type':'invalid_request_error'"},
        {404, "{'error':{'code':404,'message':'m','status':'NOT_FOUND'}}",
         "404 ", "404 {'type':'error','error':{'type':'not_found_error'"},
        {503, "<html>", "503 {'error':{'type':'server_error','message':'The provider answered",
         "529 "},
        {502, "{}", "500 ", "500 "},
        {400, "{'error':{'code':'content_filter','message':'m'}}",
         "400 {'error':{'type':'invalid_request_error','message':'m','param':null,'code':"
         "'content_policy_violation'}}",
         "400 "},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        expect_has(dialect_error(*state, C, rows[i].status, rows[i].body), rows[i].chat);
        expect_has(dialect_error(*state, A, rows[i].status, rows[i].body), rows[i].messages);
    }
}

static void an_overflow_of_the_context_is_told_in_the_clients_form(void **state)
{
    static const char *const texts[] = {
        "This model s maximum context length is 128000 tokens, your messages have 130001.",
        "prompt is too long: 130001 tokens > 128000 maximum",
        "The input token count (130001) exceeds the maximum number of tokens allowed (128000).",
    };
    char body[512];

    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        snprintf(body, sizeof body, "{'error':{'message':'%s'}}", texts[i]);
        expect_has(dialect_error(*state, C, 400, body), "'code':'context_length_exceeded'");
        expect_has(dialect_error(*state, A, 400, body),
                   "400 {'type':'error','error':{'type':'invalid_request_error','message':"
                   "'prompt is too long: 130001 tokens > 128000 maximum");
    }
    expect_has(dialect_error(*state, A, 400,
                             "{'error':{'message':'Input is too long for requested model'}}"),
               "'message':'prompt is too long: Input is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_titled("1 cache writes are counted once", cache_writes_are_counted_once),
        unit_test_titled("2 input that excludes the cache becomes one that includes it, and back",
                         input_that_excludes_the_cache_becomes_one_that_includes_it_and_back),
        unit_test_titled("5 usage of the last event replaces, and zero is absent",
                         usage_of_the_last_event_replaces_and_zero_is_absent),
        unit_test_titled("6 streams name an estimate first and the truth last",
                         streams_name_an_estimate_first_and_the_truth_last),
        unit_test_titled("7 usage behind the finish reason is read",
                         usage_behind_the_finish_reason_is_read),
        unit_test_titled("8 chunks without choices are passed over",
                         chunks_without_choices_are_passed_over),
        unit_test_titled("9, 10 reasoning and text are two blocks of one message",
                         reasoning_and_text_are_two_blocks_of_one_message),
        unit_test_titled("11 interleaved calls are serialised, and all closed",
                         interleaved_calls_are_serialised_and_all_closed),
        cmocka_unit_test(calls_under_one_index_with_other_ids_are_two),
        unit_test_titled("14 a cut call is not executed", a_cut_call_is_not_executed),
        unit_test_titled("15 calls without arguments have an empty object",
                         calls_without_arguments_have_an_empty_object),
        cmocka_unit_test(a_text_without_citations_does_not_name_them),
        unit_test_titled("18 names that were cut are restored", names_that_were_cut_are_restored),
        cmocka_unit_test(arguments_that_are_no_object_are_an_error_where_one_is_owed),
        unit_test_titled("29 texts for free tools are unwrapped",
                         texts_for_free_tools_are_unwrapped),
        cmocka_unit_test(legacy_functions_are_answered_as_such),
        unit_test_titled("23 signatures stay with their thinking",
                         signatures_stay_with_their_thinking),
        cmocka_unit_test(stops_are_told_in_the_clients_words),
        unit_test_titled("33 streams that were cut end in an error",
                         streams_that_were_cut_end_in_an_error),
        unit_test_titled("34 the mark ends the reply",
                         the_mark_ends_the_reply_without_waiting_for_the_end_of_the_bytes),
        cmocka_unit_test(choices_are_kept_apart),
        cmocka_unit_test(every_cut_gives_the_same_bytes),
        cmocka_unit_test(errors_keep_their_class),
        cmocka_unit_test(an_overflow_of_the_context_is_told_in_the_clients_form),
    };

    return cmocka_run_group_tests_name("translate_replies", tests, dialect_open, dialect_close);
}
