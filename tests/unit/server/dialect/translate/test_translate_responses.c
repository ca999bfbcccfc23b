/* test_translate_responses.c - the responses API, from and to the other dialects.
 *
 * In all texts ' stands for ". Numbers before a title are those of mistakes that others made.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net_dialect_kit.h"

#define C DIALECT_CHAT
#define R DIALECT_RESPONSES
#define A DIALECT_ANTHROPIC
#define G DIALECT_GEMINI

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

#define EVENT(type, more) "event: " type "\ndata: {'type':'" type "'" more "}\n\n"
#define USAGE                                                                 \
    "'usage':{'input_tokens':100,'input_tokens_details':{'cached_tokens':30," \
    "'cache_write_tokens':20},'output_tokens':12,'output_tokens_details':{"   \
    "'reasoning_tokens':5},'total_tokens':112}"
#define ENDED(status, more) \
    EVENT("response." status, ",'response':{'status':'" status "','output':[]," USAGE more "}")
#define BEGUN EVENT("response.created", ",'response':{'status':'in_progress','output':[]}")
#define DELTA(text) \
    EVENT("response.output_text.delta", ",'output_index':0,'content_index':0,'delta':'" text "'")
#define CALL(output, id, name)                                                                 \
    EVENT("response.output_item.added", ",'output_index':" #output ",'item':{'type':"          \
                                        "'function_call','id':'fc_" id "','call_id':'" id "'," \
                                        "'name':'" name "','arguments':''}")
#define ARGS(output, text)                          \
    EVENT("response.function_call_arguments.delta", \
          ",'output_index':" #output ",'delta':'" text "'")

/* ---- Requests -------------------------------------------------------------------------------- */

static void items_become_turns(void **state)
{
    const char *text = dialect_request(
        *state, R, C,
        "{'model':'m','instructions':'be','input':[{'role':'user','content':'hi'},{'type':"
        "'message','role':'assistant','id':'msg_1','content':[{'type':'output_text','text':'a',"
        "'annotations':[]}]},{'type':'function_call','id':'fc_1','call_id':'c1','name':'f',"
        "'arguments':'{\\'x\\':1}'},{'type':'function_call','call_id':'c2','name':'f',"
        "'arguments':''},{'type':'function_call_output','call_id':'c2','output':'two'},{'type':"
        "'function_call_output','call_id':'c1','output':[{'type':'input_text','text':'one'}]},"
        "{'role':'developer','content':'late'},{'role':'user','content':[{'type':'input_text',"
        "'text':'see'},{'type':'input_image','image_url':'https://x.example/a.png','detail':"
        "'low'}]}],'max_output_tokens':9,'temperature':0.5}");

    expect_has(text, "'messages':[{'role':'system','content':'be'},{'role':'user','content':'hi'}");
    expect_has(text, "{'role':'assistant','content':'a','tool_calls':[{'id':'c1','type':'function',"
                     "'function':{'name':'f','arguments':'{\\'x\\':1}'}},{'id':'c2',");
    expect_has(text, "{'role':'tool','tool_call_id':'c1','content':'one'},{'role':'tool',"
                     "'tool_call_id':'c2','content':'two'},{'role':'system','content':'late'}");
    expect_has(text, "{'type':'image_url','image_url':{'url':'https://x.example/a.png',"
                     "'detail':'low'}}");
    expect_has(text, "'max_completion_tokens':9,'temperature':0.5");
}

static void assistant_text_is_output_text(void **state)
{
    const char *text = dialect_request(
        *state, C, R,
        "{'model':'m','messages':[{'role':'system','content':'s'},{'role':'user','content':'a'},"
        "{'role':'assistant','content':'b'},{'role':'user','content':[{'type':'text','text':'c'},"
        "{'type':'file','file':{'file_data':'data:application/pdf;base64,QQ==','filename':'f.pdf'"
        "}}]}],'max_tokens':7}");

    expect_has(text, "'instructions':'s','input':[{'type':'message','role':'user','content':[{"
                     "'type':'input_text','text':'a'}]}");
    expect_has(text, "{'type':'message','role':'assistant','content':[{'type':'output_text',"
                     "'text':'b','annotations':[]}]}");
    expect_has(text, "{'type':'input_file','file_data':'data:application/pdf;base64,QQ==',"
                     "'filename':'f.pdf'}");
    expect_has(text, "'max_output_tokens':7");
    expect_has(text, "'store':false,'include':['reasoning.encrypted_content']");
}

#define PAIR                                                                              \
    "{'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':'t'}]"      \
    "%s},{'type':'function_call','id':'fc_1','call_id':'c','name':'f','arguments':'{}'}," \
    "{'type':'function_call_output','call_id':'c','output':'o'}"

static const char *pair(struct dialect_case *c, const char *encrypted)
{
    char body[1024];

    snprintf(body, sizeof body, "{'model':'m','store':false,'input':[{'role':'user','content':"
                                "'hi'}," PAIR "]}",
             encrypted);
    return dialect_request(c, R, R, body);
}

static void ids_of_items_go_with_their_reasoning_or_not_at_all(void **state)
{
    const char *text = pair(*state, ",'encrypted_content':'XYZ'");

    expect_has(text, "{'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':"
                     "'t'}],'encrypted_content':'XYZ'},{'type':'function_call','id':'fc_1',");
    text = pair(*state, ",'encrypted_content':'tg1.anthropic.signature.p.S'");
    expect_lacks(text, "reasoning'");
    expect_lacks(text, "fc_1");
    expect_has(text, "{'type':'function_call','call_id':'c','name':'f','arguments':'{}'}");
    text = pair(*state, "");
    expect_lacks(text, "rs_1");
    expect_lacks(text, "fc_1");
}

static void thinking_travels_in_encrypted_content(void **state)
{
    struct dialect_case *c = *state;
    const char *text = reply(
        c, A, R,
        "{'content':[{'type':'thinking','thinking':'hm','signature':'SIG'},{'type':"
        "'redacted_thinking','data':'RED'},{'type':'tool_use','id':'t1','name':'f','input':{'a':1}}"
        "],'stop_reason':'tool_use','usage':{'input_tokens':3,'output_tokens':4}}");

    expect_has(text, "'summary':[{'type':'summary_text','text':'hm'}],'encrypted_content':"
                     "'tg1.anthropic.signature.prov.SIG'}");
    expect_has(text, "'summary':[],'encrypted_content':'tg1.anthropic.redacted.prov.RED'}");
    expect_has(text, "{'id':'fc_tg1_");
    expect_has(text, "'type':'function_call','status':'completed','call_id':'t1','name':'f',"
                     "'arguments':'{\\'a\\':1}'}");
    text = dialect_request(
        c, R, A,
        "{'model':'m','reasoning':{'effort':'high'},'input':[{'role':'user','content':'x'},{'type':"
        "'reasoning','summary':[{'type':'summary_text','text':'hm'}],'encrypted_content':"
        "'tg1.anthropic.signature.prov.SIG'},{'type':'reasoning','summary':[],"
        "'encrypted_content':'tg1.anthropic.redacted.prov.RED'},{'type':'function_call','id':"
        "'fc_tg1_0','call_id':'t1','name':'f','arguments':'{}'},{'type':'function_call_output',"
        "'call_id':'t1','output':'o'}]}");
    expect_has(text, "{'role':'assistant','content':[{'type':'thinking','thinking':'hm',"
                     "'signature':'SIG'},{'type':'redacted_thinking','data':'RED'},{'type':"
                     "'tool_use','id':'t1','name':'f','input':{}}]}");
    expect_has(text, "'thinking':{'type':'adaptive'}");
}

static void tools_that_take_text_come_back_as_such(void **state)
{
    static const char body[] =
        "{'model':'m','input':'x','stream':true,'tools':[{'type':'custom','name':'apply_patch',"
        "'description':'d','format':{'type':'grammar','syntax':'lark','definition':'start: x'}}],"
        "'tool_choice':{'type':'custom','name':'apply_patch'}}";
    struct dialect_case *c = *state;
    const char *text = dialect_request(c, R, A, body);

    assert_string_equal(c->dropped.names, "tools.format");
    expect_has(text, "{'name':'apply_patch','description':'d','input_schema':{'type':'object',");
    expect_has(text, "'tool_choice':{'type':'tool','name':'apply_patch'}");
    text = dialect_request(c, R, C, body);
    expect_has(text, "{'type':'custom','custom':{'name':'apply_patch','description':'d','format':"
                     "{'type':'grammar','grammar':{'syntax':'lark','definition':'start: x'}}}}");
    expect_has(text, "'tool_choice':{'type':'custom','custom':{'name':'apply_patch'}}");
    expect_has(dialect_request(c, R, R, body),
               "'format':{'type':'grammar','syntax':'lark','definition':'start: x'}");
    text = dialect_reply(c, A, R, body,
                         "{'content':[{'type':'tool_use','id':'t','name':'apply_patch','input':{"
                         "'input':'a\\nb'}}],'stop_reason':'tool_use'}");
    expect_has(text, "'type':'custom_tool_call','status':'completed','call_id':'t','name':"
                     "'apply_patch','input':'a\\nb'}");
}

static void what_only_responses_know_goes_to_responses_alone(void **state)
{
    static const char body[] =
        "{'model':'m','input':[{'role':'user','content':[{'type':'input_text','text':'x'},{'type':"
        "'input_hologram','data':1}]},{'type':'web_search_call','id':'ws_1','action':{'a':[1, 2]}},"
        "{'role':'user','content':'y'}],'tools':[{'type':'web_search','filters':{}},{'type':"
        "'function','name':'f','parameters':{'type':'object'},'defer_loading':true}],"
        "'truncation':'auto','my_field':{'b':  1}}";
    struct dialect_case *c = *state;
    const char *text = dialect_request(c, R, R, body);

    assert_string_equal(c->dropped.names, "");
    expect_has(text, "{'type':'input_hologram','data':1}");
    expect_has(text, "{'type':'web_search_call','id':'ws_1','action':{'a':[1, 2]}}");
    expect_has(text, "{'type':'web_search','filters':{}}");
    expect_has(text, "'defer_loading':true}");
    expect_has(text, "'truncation':'auto'");
    expect_has(text, "'my_field':{'b':  1}");
    text = dialect_request(c, R, C, body);
    assert_string_equal(c->dropped.names,
                        "truncation, tools, input, tools.defer_loading, my_field");
    expect_lacks(text, "hologram");
    expect_lacks(text, "web_search");
    expect_lacks(text, "my_field");
    c->target.strict = true;
    assert_null(dialect_request(c, R, A, body));
    assert_null(dialect_request(c, R, C, "{'model':'m','input':'x','previous_response_id':'r'}"));
    assert_string_equal(c->problem.param, "previous_response_id");
    c->target.strict = false;
    assert_null(dialect_request(c, R, C, "{'model':'m','input':[{'id':'msg_1'}]}"));
    assert_string_equal(c->problem.param, "item_reference");
}

static void options_have_the_names_of_the_other_api(void **state)
{
    struct dialect_case *c = *state;
    const char *text = dialect_request(
        c, R, C,
        "{'model':'m','input':'x','reasoning':{'effort':'high','summary':'auto'},'text':{'format':"
        "{'type':'json_schema','name':'n','schema':{'a':1e2},'strict':true},'verbosity':'low'},"
        "'parallel_tool_calls':false,'tools':[{'type':'function','name':'f','parameters':{},"
        "'strict':true}],'tool_choice':'required','safety_identifier':'u','user':'v','metadata':{"
        "'k':'v'},'prompt_cache_key':'p','service_tier':'flex','store':true,'background':false,"
        "'truncation':'disabled','include':['reasoning.encrypted_content']}");

    assert_string_equal(c->dropped.names, "");
    expect_has(text, "'tools':[{'type':'function','function':{'name':'f','parameters':{},"
                     "'strict':true}}],'tool_choice':'required','parallel_tool_calls':false");
    expect_has(text, "'response_format':{'type':'json_schema','json_schema':{'name':'n','schema':"
                     "{'a':1e2},'strict':true}}");
    expect_has(text, "'reasoning_effort':'high','verbosity':'low','user':'u','metadata':{'k':'v'},"
                     "'prompt_cache_key':'p','service_tier':'flex'}");
    text = dialect_request(
        c, C, R,
        "{'model':'m','messages':[{'role':'user','content':'x'}],'reasoning_effort':'max',"
        "'stop':['a'],'presence_penalty':1,'frequency_penalty':0,'seed':3,'n':2,'logprobs':true,"
        "'response_format':{'type':'json_object'},'tools':[{'type':'function','function':{'name':"
        "'f'}},{'type':'custom','custom':{'name':'g'}}],'tool_choice':{'type':'allowed_tools',"
        "'allowed_tools':{'mode':'required','tools':[{'type':'custom','custom':{'name':'g'}}]}}}");
    assert_string_equal(c->dropped.names, "stop, presence_penalty, n, logprobs");
    expect_has(text, "'reasoning':{'effort':'xhigh'}");
    expect_has(text, "'text':{'format':{'type':'json_object'}}");
    expect_has(text, "{'type':'function','name':'f','parameters':{'type':'object','properties':{}},"
                     "'strict':false},{'type':'custom','name':'g'}");
    expect_has(text, "'tool_choice':{'type':'allowed_tools','mode':'required','tools':[{'type':"
                     "'custom','name':'g'}]}");
}

static void images_in_results_stay_in_the_result(void **state)
{
    struct dialect_case *c = *state;
    const char *text = dialect_request(
        c, A, R,
        "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'},{'role':'assistant',"
        "'content':[{'type':'tool_use','id':'t','name':'f','input':{'a':1.50}}]},{'role':'user',"
        "'content':[{'type':'tool_result','tool_use_id':'t','is_error':true,'content':[{'type':"
        "'text','text':'bad'},{'type':'image','source':{'type':'base64','media_type':'image/png',"
        "'data':'QQ=='}}]}]}]}");

    expect_has(text, "{'type':'function_call','call_id':'t','name':'f','arguments':'{\\'a\\':1.50}'"
                     "},{'type':'function_call_output','call_id':'t','output':[{'type':"
                     "'input_text','text':'Error:'},{'type':'input_text','text':'bad'},{'type':"
                     "'input_image','image_url':'data:image/png;base64,QQ==','detail':'auto'}]}");
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *body, *param, *text;
    } rows[] = {
        {"{'model':'m'}", "input", "'input' must be a text or have an item."},
        {"{'model':'m','input':[]}", "input", NULL},
        {"{'model':'m','input':5}", "input", "'input' must be an array."},
        {"{'model':'m','input':[{'role':'me','content':'x'}]}", "input.role", NULL},
        {"{'model':'m','input':[{'type':5}]}", "input.type", "'input.type' must be a string."},
        {"{'model':'m','input':'x','temperature':3}", "temperature",
         "'temperature' must be a number from 0 to 2."},
        {"{'model':'m','input':'x','stream':'yes'}", "stream",
         "'stream' must be true or false."},
        {"{'model':'m','input':'x','tools':[{'type':'function'}]}", "tools.name", NULL},
        {"{'model':'m','input':'x','tool_choice':{'type':'function'}}", "tool_choice.name", NULL},
        {"{'model':'m','input':'x','tool_choice':{'type':'allowed_tools','mode':'auto'}}",
         "tool_choice.name", "'tool_choice' names no tool."},
        {"{'model':'m','input':[{'role':'user','content':[{'type':'input_file','file_data':'x'}]}"
         "]}",
         "file_data", NULL},
    };
    struct dialect_case *c = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(dialect_request(c, R, C, rows[i].body));
        assert_string_equal(c->problem.param, rows[i].param);
        if (rows[i].text != NULL)
            assert_string_equal(c->problem.text, rows[i].text);
    }
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void a_response_is_read_whole(void **state)
{
    static const char body[] =
        "{'id':'resp_1','status':'completed','error':null,'incomplete_details':null,'output':[{"
        "'type':'reasoning','id':'rs_1','summary':[{'type':'summary_text','text':'one'},{'type':"
        "'summary_text','text':'two'}],'encrypted_content':'ENC'},{'type':'web_search_call','id':"
        "'ws'},{'type':'message','role':'assistant','content':[{'type':'output_text','text':'hi',"
        "'annotations':[]}]},{'type':'function_call','id':'fc_1','call_id':'c1','name':'f',"
        "'arguments':'{\\'a\\':1}'}]," USAGE "}";
    const char *text = reply(*state, R, A, body);

    expect_has(text, "{'type':'thinking','thinking':'one\\n\\ntwo','signature':"
                     "'tg1.openai-responses.encrypted.prov.ENC'},{'type':'text','text':'hi'");
    expect_has(text, "{'type':'tool_use','id':'c1','name':'f','input':{'a':1}}");
    expect_has(text, "'stop_reason':'tool_use'");
    expect_has(text, "'input_tokens':50,'cache_creation_input_tokens':20,"
                     "'cache_read_input_tokens':30");
    expect_has(text, "'output_tokens':12,'output_tokens_details':{'thinking_tokens':5}");
    text = reply(*state, R, C, body);
    expect_has(text, "'content':'hi','refusal':null,'reasoning_content':'one\\n\\ntwo'");
    expect_has(text, "'finish_reason':'tool_calls'");
    expect_has(text, "'prompt_tokens':100,'completion_tokens':12,'total_tokens':112");
}

static void the_signature_comes_back_to_its_provider(void **state)
{
    expect_has(dialect_request(
                   *state, A, R,
                   "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'},{'role':"
                   "'assistant','content':[{'type':'thinking','thinking':'hm','signature':"
                   "'tg1.openai-responses.encrypted.prov.ENC'},{'type':'text','text':'y'}]},"
                   "{'role':'user','content':'z'}]}"),
               "{'type':'reasoning','summary':[{'type':'summary_text','text':'hm'}],"
               "'encrypted_content':'ENC'},{'type':'message','role':'assistant'");
}

static void stops_are_told(void **state)
{
    static const struct {
        const char *status, *chat, *messages;
    } rows[] = {
        {"'status':'completed'", "'finish_reason':'stop'", "'stop_reason':'end_turn'"},
        {"'status':'incomplete','incomplete_details':{'reason':'max_output_tokens'}",
         "'finish_reason':'length'", "'stop_reason':'max_tokens'"},
        {"'status':'incomplete','incomplete_details':{'reason':'content_filter'}",
         "'finish_reason':'content_filter'", "'stop_reason':'refusal'"},
        {"'status':'incomplete','incomplete_details':{'reason':'steered'}",
         "'finish_reason':'stop'", "'stop_reason':'end_turn'"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char body[512];
        snprintf(body, sizeof body,
                 "{%s,'output':[{'type':'message','content':[{'type':'output_text','text':'x'}]}]}",
                 rows[i].status);
        expect_has(reply(*state, R, C, body), rows[i].chat);
        expect_has(reply(*state, R, A, body), rows[i].messages);
    }
    expect_has(reply(*state, R, C,
                     "{'output':[{'type':'message','content':[{'type':'refusal','refusal':'no'}]}],"
                     "'status':'completed'}"),
               "'content':null,'refusal':'no'");
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void a_stream_of_chunks_becomes_the_full_grammar(void **state)
{
    const char *text = stream(
        *state, C, R,
        "data: {'choices':[{'index':0,'delta':{'role':'assistant','content':'he'}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{'content':'llo'}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'id':'c1','function':{"
        "'name':'f','arguments':''}}]}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{},'finish_reason':'tool_calls'}]}\n\n"
        "data: {'choices':[],'usage':{'prompt_tokens':9,'completion_tokens':4}}\n\n"
        "data: [DONE]\n\n");
    static const char *const types[] = {
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    };
    const char *at = text;

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        char want[128];
        snprintf(want, sizeof want, "event: %s\ndata: {'type':'%s','sequence_number':%zu,",
                 types[i], types[i], i);
        assert_ptr_equal(strstr(at, want), at);
        at = strstr(at, "\n\n") + 2;
    }
    assert_string_equal(at, ""); /* and nothing else: no [DONE] */
    expect_has(text, "'delta':'he','logprobs':[]}");
    expect_has(text, "'output_index':0,'content_index':0,'text':'hello','logprobs':[]}");
    expect_has(text, "'output_index':1,'delta':'{}'}");
    expect_has(text, "'output_index':1,'name':'f','arguments':'{}'}");
    const char *last = strstr(text, "event: response.completed");
    expect_has(last, "'status':'completed','error':null,'incomplete_details':null,'model':'m',"
                     "'output':[{'id':'msg_tg1_");
    expect_has(last, "'content':[{'type':'output_text','text':'hello','annotations':[],");
    expect_has(last, "'type':'function_call','status':'completed','call_id':'c1','name':'f',"
                     "'arguments':'{}'}]");
    expect_has(last, "'usage':{'input_tokens':9,'input_tokens_details':{'cached_tokens':0,"
                     "'cache_write_tokens':0},'output_tokens':4,");
    expect_has(last, "'store':false");
}

static void thinking_and_calls_side_by_side_are_items(void **state)
{
    const char *text = stream(
        *state, C, R,
        "data: {'choices':[{'index':0,'delta':{'reasoning_content':'hm'}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'id':'a','function':{"
        "'name':'f','arguments':'{'}},{'index':1,'id':'b','function':{'name':'f','arguments':"
        "'{\\'x\\''}}]}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{'tool_calls':[{'index':0,'function':{'arguments':"
        "'}'}}]}}]}\n\n"
        "data: {'choices':[{'index':0,'delta':{},'finish_reason':'length'}]}\n\ndata: [DONE]\n\n");

    expect_has(text, "event: response.reasoning_summary_part.added\n");
    expect_has(text, "'output_index':0,'summary_index':0,'delta':'hm'}");
    expect_has(text, "event: response.reasoning_summary_text.done\n");
    expect_has(text, "event: response.reasoning_summary_part.done\n");
    expect_has(text, "'output_index':1,'delta':'}'}");
    expect_has(text, "'status':'completed','call_id':'a','name':'f','arguments':'{}'}");
    /* Half a call must not be run. */
    expect_has(text, "'status':'incomplete','call_id':'b','name':'f','arguments':'{\\'x\\''}");
    expect_lacks(text, "'status':'completed','call_id':'b'");
    expect_has(text, "event: response.incomplete\n");
    expect_has(text, "'incomplete_details':{'reason':'max_output_tokens'}");
}

static void events_become_blocks(void **state)
{
    static const char text[] = BEGUN EVENT("response.output_item.added",
                                           ",'output_index':0,'item':{'type':'message'}")
        DELTA("hel") DELTA("lo")
            EVENT("response.output_text.done", ",'output_index':0,'text':'hello'")
                EVENT("response.output_item.done",
                      ",'output_index':0,'item':{'type':'message','content':[{'type':"
                      "'output_text','text':'hello'}]}")
                    CALL(1, "a", "f") CALL(2, "b", "f") ARGS(2, "{") ARGS(1, "{\\'q\\':1}")
                        ARGS(2, "}")
                            EVENT("response.output_item.done",
                                  ",'output_index':1,'item':{'type':'function_call','call_id':'a',"
                                  "'name':'f','arguments':'{\\'q\\':1}'}") ENDED("completed", "");
    const char *out = stream(*state, R, A, text);

    expect_has(out, "'delta':{'type':'text_delta','text':'hel'}");
    expect_has(out, "'content_block':{'type':'tool_use','id':'a','name':'f','input':{}}");
    expect_has(out, "'content_block':{'type':'tool_use','id':'b','name':'f','input':{}}");
    expect_has(out, "'stop_reason':'tool_use'");
    expect_has(out, "'input_tokens':50");
    expect_has(out, "event: message_stop");
    expect_lacks(out, "hellohello");
    out = stream(*state, R, C, text);
    expect_has(out, "'tool_calls':[{'index':1,'function':{'arguments':'{'}}]");
    expect_has(out, "'finish_reason':'tool_calls'");
    expect_has(out, "[DONE]");
}

static void what_came_in_no_delta_is_taken_from_what_is_done(void **state)
{
    const char *out = stream(
        *state, R, C,
        BEGUN EVENT("response.output_item.done",
                    ",'output_index':0,'item':{'type':'message','content':[{'type':'output_text',"
                    "'text':'hello'}]}") CALL(1, "a", "f")
            EVENT("response.function_call_arguments.done", ",'output_index':1,'arguments':'{}'")
                EVENT("response.output_item.done",
                      ",'output_index':2,'item':{'type':'custom_tool_call','call_id':'b','name':"
                      "'g','input':'txt'}") ENDED("completed", ""));

    expect_has(out, "'delta':{'content':'hello'}");
    expect_has(out, "'function':{'arguments':'{}'}");
    expect_has(out, "'custom':{'input':'txt'}");
    out = stream(*state, R, C,
                 EVENT("response.completed",
                       ",'response':{'status':'completed','output':[{'type':'message','content':[{"
                       "'type':'output_text','text':'all'}]}]}"));
    expect_has(out, "'delta':{'content':'all'}");
    expect_has(out, "[DONE]");
}

static void failures_are_errors_and_never_a_clean_end(void **state)
{
    struct dialect_case *c = *state;
    const char *out =
        stream(c, R, A,
               BEGUN DELTA("x") EVENT("response.failed",
                                      ",'response':{'status':'failed','output':[],'error':{'code':"
                                      "'rate_limit_exceeded','message':'slow'}}"));

    expect_has(out, "event: error\ndata: {'type':'error','error':{'type':'rate_limit_error',"
                    "'message':'slow'}}");
    expect_lacks(out, "message_stop");
    out = stream(c, R, A,
                 BEGUN EVENT("error", ",'code':'server_error','message':'oops','param':null"));
    expect_has(out, "'error':{'type':'api_error','message':'oops'}");
    out = stream(c, R, C, BEGUN DELTA("x"));
    expect_has(out, "data: {'error':{");
    expect_lacks(out, "[DONE]");
    out = stream(c, A, R,
                 EVENT("message_start", ",'message':{'usage':{'input_tokens':3}}")
                     EVENT("error", ",'error':{'type':'overloaded_error','message':'busy'}"));
    expect_has(out, "event: response.failed\n");
    expect_has(out, "'status':'failed','error':{'code':'server_error','message':'busy'}");
    expect_lacks(out, "response.completed");
    expect_has(reply(c, R, C, "{'status':'failed','error':{'code':'server_error','message':'m'}}"),
               "500 {'error':{'type':'server_error','message':'m'");
    expect_has(reply(c, R, C, "{'status':'in_progress','output':[]}"), "500 {'error':");
}

static void every_cut_gives_the_same_bytes(void **state)
{
    static const char text[] = BEGUN EVENT(
        "response.output_item.added", ",'output_index':0,'item':{'type':'reasoning','id':'r'}")
        EVENT("response.reasoning_summary_text.delta",
              ",'output_index':0,'summary_index':0,'delta':'th\xc3\xa9'")
            EVENT("response.reasoning_summary_part.added", ",'output_index':0,'summary_index':1")
                EVENT("response.reasoning_summary_text.delta",
                      ",'output_index':0,'summary_index':1,'delta':'two'")
                    EVENT("response.output_item.done",
                          ",'output_index':0,'item':{'type':'reasoning','encrypted_content':'E'}")
                        CALL(1, "a", "f") ARGS(1, "{}") ENDED("completed", "");
    static const enum dialect clients[] = {C, A, R};
    struct dialect_case *c = *state;

    for (size_t k = 0; k < COUNT_OF(clients); k++) {
        const char *body = dialect_plain(clients[k]);
        char *whole = strdup(dialect_stream(c, R, clients[k], body, text, 0, SIZE_MAX));
        expect_lacks(whole, "'error':{");
        expect_has(whole, "th\xc3\xa9");
        for (size_t cut = 1; cut < strlen(text); cut++)
            assert_string_equal(dialect_stream(c, R, clients[k], body, text, cut, SIZE_MAX), whole);
        assert_string_equal(dialect_stream(c, R, clients[k], body, text, 1, 1), whole);
        free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_become_turns),
        unit_test_titled("26 assistant text is output text", assistant_text_is_output_text),
        unit_test_titled("27 ids of items go with their reasoning or not at all",
                         ids_of_items_go_with_their_reasoning_or_not_at_all),
        cmocka_unit_test(thinking_travels_in_encrypted_content),
        unit_test_titled("29 tools that take text come back as such",
                         tools_that_take_text_come_back_as_such),
        cmocka_unit_test(what_only_responses_know_goes_to_responses_alone),
        cmocka_unit_test(options_have_the_names_of_the_other_api),
        cmocka_unit_test(images_in_results_stay_in_the_result),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(a_response_is_read_whole),
        cmocka_unit_test(the_signature_comes_back_to_its_provider),
        cmocka_unit_test(stops_are_told),
        unit_test_titled("28 a stream of chunks becomes the full grammar",
                         a_stream_of_chunks_becomes_the_full_grammar),
        cmocka_unit_test(thinking_and_calls_side_by_side_are_items),
        cmocka_unit_test(events_become_blocks),
        cmocka_unit_test(what_came_in_no_delta_is_taken_from_what_is_done),
        unit_test_titled("33 failures are errors and never a clean end",
                         failures_are_errors_and_never_a_clean_end),
        cmocka_unit_test(every_cut_gives_the_same_bytes),
    };

    return cmocka_run_group_tests_name("translate_responses", tests, dialect_open, dialect_close);
}
