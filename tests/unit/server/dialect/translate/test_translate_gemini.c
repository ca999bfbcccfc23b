/* test_translate_gemini.c - calls for Gemini, and its replies told in the dialects of clients.
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
#define G DIALECT_GEMINI

static const char *reply(struct dialect_case *c, enum dialect client, const char *text)
{
    return dialect_reply(c, G, client, dialect_plain(client), text);
}

static const char *stream(struct dialect_case *c, enum dialect client, const char *text)
{
    return dialect_stream(c, G, client, dialect_plain(client), text, 0, SIZE_MAX);
}

#define CHUNK(parts, more) "data: {'candidates':[{'content':{'parts':[" parts "]}" more "}]}\n\n"

#define BUSY "data: {'error':{'code':503,'status':'UNAVAILABLE','message':'busy'}}\n\n"
#define LAST_USAGE "data: {'usageMetadata':{'promptTokenCount':3,'candidatesTokenCount':4}}\r\n"

#define LOOP(id)                                                                               \
    "{'model':'m','messages':[{'role':'system','content':'s'},{'role':'user','content':'go'}," \
    "{'role':'assistant','content':'','tool_calls':["                                          \
    "{'id':'" id "','type':'function','function':{'name':'f','arguments':'{\\'a\\':1}'}},"     \
    "{'id':'b','type':'function','function':{'name':'g','arguments':''}}]},"                   \
    "{'role':'tool','tool_call_id':'b','content':'two'},"                                      \
    "{'role':'tool','tool_call_id':'" id "','content':'one'}],"                                \
    "'max_tokens':50,'stop':'x','seed':7,'n':2,'reasoning_effort':'low'}"

/* ---- Requests -------------------------------------------------------------------------------- */

static void results_are_one_content_in_the_order_of_the_calls(void **state)
{
    const char *text = dialect_request(*state, C, G, LOOP("a"));

    expect_has(text, "'systemInstruction':{'parts':[{'text':'s'}]},'contents':["
                     "{'role':'user','parts':[{'text':'go'}]},{'role':'model','parts':["
                     "{'functionCall':{'id':'a','name':'f','args':{'a':1}}");
    expect_has(text, "{'functionCall':{'id':'b','name':'g','args':{}}}]},{'role':'user','parts':["
                     "{'functionResponse':{'id':'a','name':'f','response':{'output':'one'}}},"
                     "{'functionResponse':{'id':'b','name':'g','response':{'output':'two'}}}]}]");
    expect_has(text, "'generationConfig':{'maxOutputTokens':50,'seed':7,'candidateCount':2,"
                     "'stopSequences':['x'],'thinkingConfig':{'thinkingLevel':'LOW'}}");
}

static void a_call_carries_its_signature_or_the_value_that_skips_the_check(void **state)
{
    struct dialect_case *c = *state;

    expect_has(dialect_request(c, C, G, LOOP("a")),
               "'args':{'a':1}},'thoughtSignature':'skip_thought_signature_validator'}");
    /* The id brings along what the reply packed into it. */
    const char *text = dialect_request(c, C, G, LOOP("tg1g1_aQUI-_w"));
    expect_has(text, "'id':'a','name':'f','args':{'a':1}},'thoughtSignature':'QUI+/w=='}");
    expect_has(text, "{'functionResponse':{'id':'a','name':'f','response':{'output':'one'}}}");
    c->target.thinking = THINKING_BUDGET;
    expect_lacks(dialect_request(c, C, G, LOOP("a")), "thoughtSignature");
    expect_has(c->text, "'thinkingConfig':{'thinkingBudget':1024}");
    c->target.thinking = THINKING_ADAPTIVE;
}

static void schemas_go_into_the_field_that_takes_them_all(void **state)
{
    const char *text = dialect_request(
        *state, A, G,
        "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':[{'type':'image',"
        "'source':{'type':'url','url':'https://x.example/a.png?q=1'}},{'type':'image','source':{"
        "'type':'base64','media_type':'image/png','data':'QQ=='}}]}],'tools':[{'name':'f',"
        "'input_schema':{'$schema':'s','type':'object','properties':{'a':{'const':1}},"
        "'additionalProperties':false}},{'name':'1.g','input_schema':{}}],'tool_choice':{'type':"
        "'tool','name':'f'},'top_k':3,'output_config':{'format':{'type':'json_schema','schema':"
        "{'type':'object'}}}}");

    expect_has(text, "'parametersJsonSchema':{'$schema':'s','type':'object','properties':{'a':{"
                     "'const':1}},'additionalProperties':false}");
    expect_lacks(text, "'parameters'");
    expect_has(text, "'mode':'ANY','allowedFunctionNames':['f']");
    expect_has(text, "'name':'__g_"); /* names begin with a letter or _ */
    expect_has(text, "'topK':3");
    expect_has(text, "'responseMimeType':'application/json','responseJsonSchema':{'type':");
    expect_has(text, "{'fileData':{'mimeType':'image/png','fileUri':'https://x.example/a.png?");
    expect_has(text, "{'inlineData':{'mimeType':'image/png','data':'QQ=='}}");
    expect_lacks(text, "'model'");
}

static void what_gemini_cannot_is_named(void **state)
{
    struct dialect_case *c = *state;

    assert_non_null(dialect_request(
        c, C, G,
        "{'model':'m','messages':[{'role':'user','content':[{'type':'text','text':'x'},{'type':"
        "'image_url','image_url':{'url':'https://x.example/picture'}}]}],'verbosity':'low',"
        "'parallel_tool_calls':false,'tools':[{'type':'function','function':{'name':'f'}}]}"));
    assert_string_equal(c->dropped.names, "image_url, parallel_tool_calls, verbosity");
    /* It is reserved as an image. */
    expect_lacks(dialect_request(c, C, G,
                                 "{'model':'m','messages':[{'role':'user','content':[{'type':"
                                 "'text','text':'x'},{'type':'image_url','image_url':{'url':"
                                 "'https://x.example/a.pdf'}}]}]}"),
                 "fileData");
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void cached_tokens_are_within_the_prompt(void **state)
{
    expect_has(reply(*state, A,
                     "{'candidates':[{'content':{'parts':[{'text':'x'}]},'finishReason':'STOP'}],"
                     "'usageMetadata':{'promptTokenCount':262960,'cachedContentTokenCount':257955,"
                     "'candidatesTokenCount':5,'totalTokenCount':262965}}"),
               "'usage':{'input_tokens':5005,'cache_creation_input_tokens':0,"
               "'cache_read_input_tokens':257955");
}

static void thoughts_are_output_beside_the_candidates(void **state)
{
    expect_has(reply(*state, C,
                     "{'candidates':[{'content':{'parts':[{'text':'t','thought':true},"
                     "{'text':'x'}]},'finishReason':'STOP'}],'usageMetadata':{'promptTokenCount':20"
                     ",'candidatesTokenCount':151,'thoughtsTokenCount':382,'totalTokenCount':553}"
                     "}"),
               "'prompt_tokens':20,'completion_tokens':533,'total_tokens':553");
    expect_has(((struct dialect_case *)*state)->text, "'reasoning_tokens':382");
    expect_has(((struct dialect_case *)*state)->text,
               "'content':'x','refusal':null,'reasoning_content':'t'");
}

static void two_calls_of_one_chunk_are_two(void **state)
{
    const char *text = stream(*state, C,
                              CHUNK("{'functionCall':{'name':'f','args':{'a':1}}},"
                                    "{'functionCall':{'name':'f','args':{}}}",
                                    "")
                                  CHUNK("{'text':''}", ",'finishReason':'STOP'"));

    expect_has(text, "{'index':0,'function':{'arguments':'{\\'a\\':1}'}}");
    expect_has(text, "{'index':1,'function':{'arguments':'{}'}}");
    expect_has(text, "{'index':0,'id':'call_000000000000002a_0'");
    expect_has(text, "{'index':1,'id':'call_000000000000002a_1'");
}

static void a_stop_behind_a_call_is_a_call(void **state)
{
    expect_has(stream(*state, C,
                      CHUNK("{'functionCall':{'name':'f','args':{}}}", "")
                          CHUNK("{'text':''}", ",'finishReason':'STOP'")),
               "'finish_reason':'tool_calls'");
}

static void signatures_travel_in_the_id_of_the_call(void **state)
{
    static const char text[] =
        CHUNK("{'functionCall':{'id':'a','name':'f','args':{}},'thoughtSignature':'QUI+/w=='}",
              ",'finishReason':'STOP'");

    expect_has(stream(*state, C, text), "'id':'tg1g1_aQUI-_w'");
    expect_has(stream(*state, A, text), "'id':'tg1g1_aQUI-_w'");
}

static void a_blocked_prompt_is_a_filter_and_keeps_its_usage(void **state)
{
    static const char text[] = "{'promptFeedback':{'blockReason':'SAFETY'},'usageMetadata':"
                               "{'promptTokenCount':9,'totalTokenCount':9}}";

    expect_has(reply(*state, C, text), "'finish_reason':'content_filter'");
    expect_has(((struct dialect_case *)*state)->text, "'prompt_tokens':9");
    expect_has(reply(*state, A, text), "'content':[],'stop_reason':'refusal'");
}

static void streams_without_finish_were_cut(void **state)
{
    const char *text = stream(*state, C, CHUNK("{'text':'x'}", ""));

    expect_has(text, "data: {'error':{");
    expect_lacks(text, "[DONE]");
    expect_has(stream(*state, A, CHUNK("{'text':'x'}", "") BUSY),
               "event: error\ndata: {'type':'error','error':{'type':'overloaded_error','message':"
               "'busy'}}");
    expect_has(reply(*state, A,
                     "{'candidates':[{'content':{},'finishReason':'MALFORMED_FUNCTION_CALL'}]}"),
               "500 {'type':'error'");
}

/* The index stands behind the content, and a chunk may have one candidate alone. */
static void candidates_are_told_by_their_index(void **state)
{
    const char *text = stream(
        *state, C,
        CHUNK("{'text':'a0'}", ",'index':0") CHUNK("{'text':'b1'}", ",'index':1")
            CHUNK("{'text':'c1'}", ",'index':1,'finishReason':'STOP'")
                CHUNK("{'text':'d0'}", ",'finishReason':'MAX_TOKENS','index':0") LAST_USAGE);

    expect_has(text, "{'index':0,'delta':{'content':'a0'}");
    expect_has(text, "{'index':1,'delta':{'content':'b1'}");
    expect_has(text, "{'index':1,'delta':{'content':'c1'}");
    expect_has(text, "{'index':1,'delta':{},'finish_reason':'stop'}");
    expect_has(text, "{'index':0,'delta':{'content':'d0'}");
    expect_has(text, "{'index':0,'delta':{},'finish_reason':'length'}");
    expect_has(text, "[DONE]");
    text = reply(*state, C,
                 "{'candidates':[{'content':{'parts':[{'text':'b'}]},'finishReason':'STOP',"
                 "'index':1},{'content':{'parts':[{'text':'a'}]},'index':0,"
                 "'finishReason':'STOP'}]}");
    expect_has(text, "'choices':[{'index':0,'message':{'role':'assistant','content':'a'");
}

static void every_cut_gives_the_same_bytes(void **state)
{
    static const char text[] =
        CHUNK("{'text':'th\xc3\xa9','thought':true}", "")
            CHUNK("{'text':'hel'}", "") CHUNK("{'text':'lo'}", "")
                CHUNK("{'functionCall':{'name':'f','args':{'a':[1, 2]}}}", "")
                    CHUNK("{'text':''}", ",'finishReason':'STOP'")
                        LAST_USAGE;
    static const enum dialect clients[] = {C, A};
    struct dialect_case *c = *state;

    for (size_t k = 0; k < COUNT_OF(clients); k++) {
        const char *body = dialect_plain(clients[k]);
        char *whole = strdup(dialect_stream(c, G, clients[k], body, text, 0, SIZE_MAX));
        expect_lacks(whole, "error");
        for (size_t cut = 1; cut < strlen(text); cut++)
            assert_string_equal(dialect_stream(c, G, clients[k], body, text, cut, SIZE_MAX),
                                whole);
        assert_string_equal(dialect_stream(c, G, clients[k], body, text, 1, 1), whole);
        free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_titled("19 results are one content, in the order of the calls",
                         results_are_one_content_in_the_order_of_the_calls),
        unit_test_titled("25 a call carries its signature, or the value that skips the check",
                         a_call_carries_its_signature_or_the_value_that_skips_the_check),
        unit_test_titled("37 schemas go into the field that takes them all",
                         schemas_go_into_the_field_that_takes_them_all),
        cmocka_unit_test(what_gemini_cannot_is_named),
        unit_test_titled("3 cached tokens are within the prompt",
                         cached_tokens_are_within_the_prompt),
        unit_test_titled("4 thoughts are output beside the candidates",
                         thoughts_are_output_beside_the_candidates),
        unit_test_titled("12 two calls of one chunk are two", two_calls_of_one_chunk_are_two),
        unit_test_titled("13 a stop behind a call is a call", a_stop_behind_a_call_is_a_call),
        unit_test_titled("25 signatures travel in the id of the call",
                         signatures_travel_in_the_id_of_the_call),
        unit_test_titled("35 a blocked prompt is a filter, and keeps its usage",
                         a_blocked_prompt_is_a_filter_and_keeps_its_usage),
        unit_test_titled("33 streams without finish were cut", streams_without_finish_were_cut),
        cmocka_unit_test(candidates_are_told_by_their_index),
        cmocka_unit_test(every_cut_gives_the_same_bytes),
    };

    return cmocka_run_group_tests_name("translate_gemini", tests, dialect_open, dialect_close);
}
