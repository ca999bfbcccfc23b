/* test_translate_requests.c - requests in one dialect, written in another.
 *
 * Many of these were got wrong by others: each test is named for what is right.
 */
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "net_dialect_kit.h"
#include "server/dialect/neutral/opaque_pack.h"

#define C DIALECT_CHAT
#define A DIALECT_ANTHROPIC

/* A history with two calls, whose results come in the other order. */
#define CHAT_LOOP(id)                                                                          \
    "{'model':'m','messages':[{'role':'user','content':'go'},"                                 \
    "{'role':'assistant','content':'','tool_calls':["                                          \
    "{'id':'" id "','type':'function','function':{'name':'f','arguments':'{\\'a\\': 1.50}'}}," \
    "{'id':'b','type':'function','function':{'name':'g','arguments':''}}]},"                   \
    "{'role':'tool','tool_call_id':'b','content':'two'},"                                      \
    "{'role':'tool','tool_call_id':'" id "','content':'one'},"                                 \
    "{'role':'user','content':'and now?'}]}"

/* ---- Tool calls ------------------------------------------------------------------------------ */

static void ids_that_the_target_refuses_are_hashed_alike_in_call_and_result(void **state)
{
    const char *text = dialect_request(*state, C, A, CHAT_LOOP("functions.f:0"));
    static const char hash[] = "call_a9f9d9538c8f40a9d07643c5d1de92d7";

    expect_lacks(text, "functions.f:0");
    expect_has(text, "'type':'tool_use','id':'call_a9f9d9538c8f40a9d07643c5d1de92d7'");
    assert_non_null(strstr(strstr(text, hash) + 1, "'tool_use_id':'call_a9f9d9538c8f40a9d07643"));
}

static void ids_of_nine_letters_are_made_where_the_target_wants_them(void **state)
{
    struct dialect_case *c = *state;

    c->target.ids = IDS_ALNUM9;
    const char *text = dialect_request(c, C, C, CHAT_LOOP("call_PTLP8x"));
    const char *id = strstr(text, "'tool_calls':[{'id':'") + strlen("'tool_calls':[{'id':'");
    assert_int_equal(strcspn(id, "'"), 9);
    char result[64] = "'tool_call_id':'";
    strncat(result, id, 9);
    expect_has(text, result);
    neutral_target_init(&c->target);
    c->target.strict = false;
}

static void results_are_paired_by_id_and_come_in_the_order_of_the_calls(void **state)
{
    const char *text = dialect_request(*state, C, A, CHAT_LOOP("a"));

    expect_has(text, "{'role':'user','content':[{'type':'tool_result','tool_use_id':'a',"
                     "'content':[{'type':'text','text':'one'}]},"
                     "{'type':'tool_result','tool_use_id':'b',"
                     "'content':[{'type':'text','text':'two'}]},"
                     "{'type':'text','text':'and now?'}]}");
    text = dialect_request(*state, C, C, CHAT_LOOP("a"));
    expect_has(text, "{'role':'tool','tool_call_id':'a','content':'one'},"
                     "{'role':'tool','tool_call_id':'b','content':'two'}");
}

static void empty_content_beside_calls_makes_no_empty_block(void **state)
{
    const char *text = dialect_request(*state, C, A, CHAT_LOOP("a"));

    expect_has(text, "{'role':'assistant','content':[{'type':'tool_use','id':'a'");
    expect_lacks(text, "'text':''");
}

static void arguments_pass_as_bytes_and_empty_ones_are_an_object(void **state)
{
    const char *text = dialect_request(*state, C, A, CHAT_LOOP("a"));

    expect_has(text, "'input':{'a': 1.50}");
    expect_has(text, "'name':'g','input':{}");
}

static void arguments_that_are_no_object_are_wrapped_in_one(void **state)
{
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':'go'},"
        "{'role':'assistant','tool_calls':[{'id':'a','type':'function',"
        "'function':{'name':'f','arguments':'{\\'a\\': }'}}]},"
        "{'role':'tool','tool_call_id':'a','content':'x'}]}");

    expect_has(text, "'input':{'_raw':'{\\'a\\': }'}");
}

static void calls_without_result_are_refused(void **state)
{
    struct dialect_case *c = *state;

    assert_null(dialect_request(c, C, A,
                                "{'model':'m','messages':[{'role':'user','content':'go'},"
                                "{'role':'assistant','tool_calls':[{'id':'a','type':'function',"
                                "'function':{'name':'f','arguments':'{}'}}]}]}"));
    assert_string_equal(c->problem.param, "messages");
    assert_null(dialect_request(c, C, A,
                                "{'model':'m','messages':[{'role':'user','content':'go'},"
                                "{'role':'tool','tool_call_id':'a','content':'x'}]}"));
    assert_null(dialect_request(c, C, A,
                                "{'model':'m','messages':[{'role':'user','content':'go'},"
                                "{'role':'assistant','tool_calls':[{'id':'a','type':'function',"
                                "'function':{'name':'f','arguments':'{}'}}]},"
                                "{'role':'tool','tool_call_id':'b','content':'x'}]}"));
}

/* Both calls would be given the first result: what a client sends once would be sent for each. */
static void calls_of_a_turn_that_share_an_id_are_refused(void **state)
{
    struct dialect_case *c = *state;
    const char *text = "{'model':'m','messages':[{'role':'user','content':'go'},"
                       "{'role':'assistant','tool_calls':["
                       "{'id':'a','type':'function','function':{'name':'f','arguments':'{}'}},"
                       "{'id':'a','type':'function','function':{'name':'f','arguments':'{}'}}]},"
                       "{'role':'tool','tool_call_id':'a','content':'long'},"
                       "{'role':'tool','tool_call_id':'a','content':''}]}";

    assert_null(dialect_request(c, C, A, text));
    assert_string_equal(c->problem.param, "messages");
    assert_null(dialect_request(c, C, DIALECT_GEMINI, text));
    assert_null(dialect_request(c, C, DIALECT_RESPONSES, text));
}

#define IMAGE_OF(source)                                                          \
    "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':[{'type':'" \
    "image','source':{'type':" source "}}]}]}"

/* It would end the address that it becomes a part of: found by fuzzing. */
static void a_media_type_is_one(void **state)
{
    static const char *const others[] = {
        IMAGE_OF("'base64','media_type':'image/png,','data':'QQ=='"),
        IMAGE_OF("'base64','media_type':'image/png;x=y','data':'QQ=='"),
        IMAGE_OF("'base64','media_type':'image/','data':'QQ=='"),
        IMAGE_OF("'base64','media_type':'/png','data':'QQ=='"),
        IMAGE_OF("'base64','media_type':'image/p/ng','data':'QQ=='"),
    };
    struct dialect_case *c = *state;

    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_null(dialect_request(c, A, C, others[i]));
        assert_string_equal(c->problem.param, "media_type");
    }
}

/* It is reserved as an image, so it has to be one. */
static void an_image_is_an_image(void **state)
{
    static const char *const others[] = {
        IMAGE_OF("'base64','media_type':'video/mp4','data':'QQ=='"),
        IMAGE_OF("'text','media_type':'text/plain','data':'long'"),
    };
    const char *image = IMAGE_OF("'base64','media_type':'image/png','data':'QQ=='");
    struct dialect_case *c = *state;

    for (enum dialect to = 0; to < DIALECT_COUNT; to++) {
        if (to == A)
            continue;
        assert_null(dialect_request(c, A, to, others[0]));
        assert_null(dialect_request(c, A, to, others[1]));
        assert_non_null(dialect_request(c, A, to, image));
    }
}

/* Each tool is looked for among them. */
static void a_choice_names_no_more_tools_than_can_be_looked_for(void **state)
{
    static const char head[] = "{'model':'m','input':'x','tool_choice':{'type':'allowed_tools',"
                               "'mode':'auto','tools':[";
    static char body[64 * NEUTRAL_NAMES_MAX];
    struct dialect_case *c = *state;

    for (int more = 0; more < 2; more++) {
        size_t at = (size_t)snprintf(body, sizeof body, "%s", head);
        for (int i = 0; i < NEUTRAL_NAMES_MAX + more; i++)
            at += (size_t)snprintf(body + at, sizeof body - at, "%s{'type':'function','name':'f'}",
                                   i > 0 ? "," : "");
        snprintf(body + at, sizeof body - at, "]},'tools':[{'type':'function','name':'f'}]}");
        if (more)
            assert_null(dialect_request(c, DIALECT_RESPONSES, A, body));
        else
            assert_non_null(dialect_request(c, DIALECT_RESPONSES, A, body));
    }
    expect_has(c->problem.text, "more than 1024 names");
}

static void long_names_are_cut_and_stay_apart(void **state)
{
    char body[1024], name[84];
    const char *text;

    memset(name, 'n', 83);
    name[83] = '\0';
    snprintf(body, sizeof body,
             "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'}],"
             "'tools':[{'name':'%s','input_schema':{'type':'object'}},"
             "{'name':'%sx','input_schema':{'type':'object'}}]}",
             name, name);
    text = dialect_request(*state, A, C, body);
    const char *one = strstr(text, "'name':'") + 8;
    assert_int_equal(strcspn(one, "'"), 64);
    const char *two = strstr(one, "'name':'") + 8;
    assert_int_equal(strcspn(two, "'"), 64);
    assert_true(strncmp(one, two, 64) != 0);
}

static void parallel_false_alone_leaves_the_choice_to_the_model(void **state)
{
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':'x'}],'parallel_tool_calls':false,"
        "'tools':[{'type':'function','function':{'name':'f'}}]}");

    expect_has(text, "'tool_choice':{'type':'auto','disable_parallel_tool_use':true}");
}

static void choices_of_tools_are_carried(void **state)
{
    static const struct {
        const char *chat, *messages;
    } rows[] = {
        {"'auto'", "{'type':'auto'}"},
        {"'none'", "{'type':'none'}"},
        {"'required'", "{'type':'any'}"},
        {"{'type':'function','function':{'name':'f'}}", "{'type':'tool','name':'f'}"},
    };
    char body[512], want[128];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(body, sizeof body,
                 "{'model':'m','messages':[{'role':'user','content':'x'}],'tool_choice':%s,"
                 "'tools':[{'type':'function','function':{'name':'f'}}]}",
                 rows[i].chat);
        snprintf(want, sizeof want, "'tool_choice':%s", rows[i].messages);
        expect_has(dialect_request(*state, C, A, body), want);
        snprintf(body, sizeof body,
                 "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'}],"
                 "'tool_choice':%s,'tools':[{'name':'f','input_schema':{'type':'object'}}]}",
                 rows[i].messages);
        snprintf(want, sizeof want, "'tool_choice':%s", rows[i].chat);
        expect_has(dialect_request(*state, A, C, body), want);
    }
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':'x'}],'tool_choice':{'type':"
        "'allowed_tools','allowed_tools':{'mode':'required','tools':[{'type':'function',"
        "'function':{'name':'g'}}]}},'tools':[{'type':'function','function':{'name':'f'}},"
        "{'type':'function','function':{'name':'g'}}]}");
    expect_has(text, "'tools':[{'name':'g','input_schema':{'type':'object'}}],"
                     "'tool_choice':{'type':'any'}");
}

static void images_in_results_go_into_a_user_message(void **state)
{
    const char *text = dialect_request(
        *state, A, C,
        "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'},"
        "{'role':'assistant','content':[{'type':'tool_use','id':'a','name':'f','input':{}}]},"
        "{'role':'user','content':[{'type':'tool_result','tool_use_id':'a','is_error':true,"
        "'content':[{'type':'text','text':'r'},{'type':'image','source':{'type':'base64',"
        "'media_type':'image/png','data':'QQ=='}}]}]}]}");

    expect_has(text, "{'role':'tool','tool_call_id':'a','content':'Error: r\\n");
    expect_has(text, "{'role':'user','content':[{'type':'image_url','image_url':"
                     "{'url':'data:image/png;base64,QQ=='}}]}");
}

static void tools_that_take_text_are_wrapped(void **state)
{
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':'x'},{'role':'assistant',"
        "'tool_calls':[{'id':'a','type':'custom','custom':{'name':'patch','input':'*** x'}}]},"
        "{'role':'tool','tool_call_id':'a','content':'ok'}],"
        "'tools':[{'type':'custom','custom':{'name':'patch','description':'d'}}]}");

    expect_has(text, "{'name':'patch','description':'d','input_schema':{'type':'object',"
                     "'properties':{'input':{'type':'string'}},'required':['input']}}");
    expect_has(text, "'name':'patch','input':{'input':'*** x'}");
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void late_instructions_stay_in_place(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] =
        "{'model':'m','messages':[{'role':'system','content':'s1'},{'role':'developer','content':"
        "'s2'},{'role':'user','content':'a'},{'role':'assistant','content':'b'},"
        "{'role':'system','content':'late'},{'role':'user','content':'c'}]}";

    expect_has(dialect_request(c, C, A, body),
               "'system':[{'type':'text','text':'s1'},{'type':'text','text':'s2'}],'messages':["
               "{'role':'user','content':[{'type':'text','text':'a'}]},"
               "{'role':'assistant','content':[{'type':'text','text':'b'}]},"
               "{'role':'user','content':[{'type':'text','text':'late'},"
               "{'type':'text','text':'c'}]}]");
    c->target.late_system = true;
    expect_has(dialect_request(c, C, A, body),
               "{'role':'system','content':[{'type':'text','text':'late'}]},"
               "{'role':'user','content':[{'type':'text','text':'c'}]}]");
    c->target.late_system = false;
}

static void system_may_stand_behind_the_messages(void **state)
{
    const char *text = dialect_request(
        *state, A, C,
        "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':'x'}],'system':'s'}");

    expect_has(text, "'messages':[{'role':'system','content':'s'},{'role':'user','content':'x'}]");
}

static void keys_of_a_block_come_in_any_order(void **state)
{
    const char *text = dialect_request(
        *state, A, C,
        "{'messages':[{'content':'x','role':'user'},{'content':[{'input':{'q':1},'name':'f','id':"
        "'a','type':'tool_use'}],'role':'assistant'},{'content':[{'content':[{'text':'r','type':"
        "'text'}],'tool_use_id':'a','type':'tool_result'}],'role':'user'}],'max_tokens':5,"
        "'model':'m'}");

    expect_has(text, "'function':{'name':'f','arguments':'{\\'q\\':1}'}");
    expect_has(text, "{'role':'tool','tool_call_id':'a','content':'r'}");
}

static void a_last_turn_of_the_model_is_left_out_unless_it_is_continued(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] = "{'model':'m','messages':[{'role':'user','content':'a'},"
                               "{'role':'assistant','content':'b'}]}";

    expect_lacks(dialect_request(c, C, A, body), "'assistant'");
    assert_string_equal(c->dropped.names, "messages");
    c->target.prefill = true;
    expect_has(dialect_request(c, C, A, body), "'assistant'");
    c->target.prefill = false;
}

static void media_are_carried_by_address_and_inside(void **state)
{
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':["
        "{'type':'image_url','image_url':{'url':'https://x.example/a.png','detail':'low'}},"
        "{'type':'image_url','image_url':{'url':'data:image/webp;q=1;base64,QUJD'}},"
        "{'type':'file','file':{'file_data':'data:application/pdf;base64,QUJD','filename':'a.pdf'}}"
        "]}]}");

    expect_has(text, "{'type':'image','source':{'type':'url','url':'https://x.example/a.png'}}");
    expect_has(text, "'source':{'type':'base64','media_type':'image/webp','data':'QUJD'}");
    expect_has(text, "{'type':'document','source':{'type':'base64','media_type':'application/pdf',"
                     "'data':'QUJD'},'title':'a.pdf'}");
}

/* ---- Reasoning ------------------------------------------------------------------------------- */

#define THOUGHT(signature)                                                               \
    "{'model':'m','max_tokens':5000,'thinking':{'type':'enabled','budget_tokens':2000}," \
    "'messages':[{'role':'user','content':'x'},{'role':'assistant','content':["          \
    "{'type':'thinking','thinking':'','signature':'" signature "'},"                     \
    "{'type':'tool_use','id':'a','name':'f','input':{}}]},"                              \
    "{'role':'user','content':[{'type':'tool_result','tool_use_id':'a','content':'r'}]}]}"

static void signed_thinking_comes_back_and_foreign_thinking_turns_it_off(void **state)
{
    struct dialect_case *c = *state;

    c->target.max_output = 8192;
    expect_has(dialect_request(c, A, A, THOUGHT("sig")),
               "{'type':'thinking','thinking':'','signature':'sig'}");
    expect_has(c->text, "'thinking':{'type':'adaptive'}");
    expect_lacks(dialect_request(c, A, A, THOUGHT("tg1.gemini.thought.google.QQ==")),
                 "'signature'");
    expect_has(c->text, "'thinking':{'type':'disabled'}");
    c->target.provider = SLICE("here");
    expect_lacks(dialect_request(c, A, A, THOUGHT("tg1.anthropic.signature.there.QQ")),
                 "'signature'");
    expect_has(dialect_request(c, A, A, THOUGHT("tg1.anthropic.signature.here.QQ")),
               "'signature':'QQ'");
    c->target.provider = (struct slice){"", 0};
    c->target.max_output = 4096;
}

static void thinking_is_never_text_for_another_model(void **state)
{
    static const char body[] =
        "{'model':'m','max_tokens':50,'messages':[{'role':'user','content':'x'},"
        "{'role':'assistant','content':[{'type':'thinking','thinking':'secret','signature':'s'},"
        "{'type':'text','text':'said'}]},{'role':'user','content':'y'}]}";
    struct dialect_case *c = *state;

    expect_lacks(dialect_request(c, A, C, body), "secret");
    c->target.reasoning_field = REASONING_FIELD_CONTENT;
    expect_has(dialect_request(c, A, C, body), "'reasoning_content':'secret'");
    c->target.reasoning_field = REASONING_FIELD_NONE;
}

static void efforts_and_budgets_go_over(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] = "{'model':'m','messages':[{'role':'user','content':'x'}],"
                               "'max_completion_tokens':3000,'reasoning_effort':'high'}";

    expect_has(dialect_request(c, C, A, body), "'thinking':{'type':'adaptive'},"
                                               "'output_config':{'effort':'high'}");
    c->target.thinking = THINKING_BUDGET;
    expect_has(dialect_request(c, C, A, body),
               "'thinking':{'type':'enabled','budget_tokens':2999}");
    c->target.thinking = THINKING_NONE;
    expect_lacks(dialect_request(c, C, A, body), "thinking");
    c->target.thinking = THINKING_ADAPTIVE;
    expect_has(dialect_request(c, A, C,
                               "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':"
                               "'x'}],'thinking':{'type':'enabled','budget_tokens':1024}}"),
               "'reasoning_effort':'low'");
}

/* ---- Bounds, sampling, output ---------------------------------------------------------------- */

static void the_bound_has_the_name_that_the_target_knows(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] = "{'model':'m','max_tokens':50,'messages':[{'role':'user',"
                               "'content':'x'}]}";

    expect_has(dialect_request(c, A, C, body), "'max_completion_tokens':50");
    c->target.max_tokens = true;
    expect_has(dialect_request(c, A, C, body), "'max_tokens':50");
    c->target.max_tokens = false;
    expect_has(dialect_request(c, C, A,
                               "{'model':'m','max_completion_tokens':7,'max_tokens':9,'messages':["
                               "{'role':'user','content':'x'}]}"),
               "'max_tokens':7");
    c->target.max_output = 1234;
    expect_has(dialect_request(c, C, A,
                               "{'model':'m','messages':[{'role':'user','content':'x'}]}"),
               "'max_tokens':1234");
    c->target.max_output = 4096;
}

static void sampling_that_the_model_fixes_is_left_out_and_named(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] = "{'model':'m','messages':[{'role':'user','content':'x'}],"
                               "'temperature':0,'top_p':1}";

    expect_has(dialect_request(c, C, A, body), "'temperature':0");
    c->target.fixed_sampling = true;
    expect_lacks(dialect_request(c, C, A, body), "temperature");
    assert_string_equal(c->dropped.names, "temperature");
    c->target.strict = true;
    assert_null(dialect_request(c, C, A, body));
    assert_string_equal(c->problem.param, "temperature");
    c->target.strict = false;
    c->target.fixed_sampling = false;
}

static void schemas_of_output_are_carried_as_bytes(void **state)
{
    const char *text = dialect_request(
        *state, C, A,
        "{'model':'m','messages':[{'role':'user','content':'x'}],'response_format':{'type':"
        "'json_schema','json_schema':{'name':'n','strict':true,'schema':{'type':'object', "
        "'properties':{'b':{'const':1e2},'a':{}}}}}}");

    expect_has(text, "'output_config':{'format':{'type':'json_schema','schema':{'type':'object', "
                     "'properties':{'b':{'const':1e2},'a':{}}}}}");
    expect_has(dialect_request(*state, A, C,
                               "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':"
                               "'x'}],'output_config':{'format':{'type':'json_schema','schema':"
                               "{'type':'object'}}}}"),
               "'response_format':{'type':'json_schema','json_schema':{'name':'reply','schema':"
               "{'type':'object'},'strict':true}}");
}

static void cache_marks_go_to_who_knows_them_and_never_into_schemas(void **state)
{
    static const char body[] =
        "{'model':'m','max_tokens':5,'cache_control':{'type':'ephemeral'},'system':[{'type':'text',"
        "'text':'s','cache_control':{'type':'ephemeral','ttl':'1h'}}],'messages':[{'role':'user',"
        "'content':'x'}],'tools':[{'name':'f','cache_control':{'type':'ephemeral'},'input_schema':"
        "{'type':'object','properties':{'cache_control':{'type':'string'}}}}]}";
    struct dialect_case *c = *state;

    const char *text = dialect_request(c, A, C, body);
    expect_lacks(text, "ephemeral");
    expect_has(text, "'properties':{'cache_control':{'type':'string'}}");
    assert_string_equal(c->dropped.names, "");
    expect_has(dialect_request(c, A, A, body),
               "'text':'s','cache_control':{'type':'ephemeral','ttl':'1h'}");
}

/* ---- What has no counterpart ----------------------------------------------------------------- */

static void what_changes_the_answer_is_refused_or_named(void **state)
{
    struct dialect_case *c = *state;
    static const char body[] =
        "{'model':'m','messages':[{'role':'user','content':'x'}],'logit_bias':{'5':1},'n':2,"
        "'presence_penalty':1,'seed':5,'user':'u','metadata':{'a':'b'},'store':true,"
        "'prompt_cache_key':'k','new_field':1,'service_tier':'flex'}";

    assert_non_null(dialect_request(c, C, A, body));
    assert_string_equal(c->dropped.names, "logit_bias, new_field, presence_penalty, n");
    c->target.strict = true;
    assert_null(dialect_request(c, C, A, body));
    assert_string_equal(c->problem.param, "logit_bias");
    c->target.strict = false;
}

static void hints_and_defaults_never_fail(void **state)
{
    struct dialect_case *c = *state;

    c->target.strict = true;
    assert_non_null(dialect_request(
        c, C, A,
        "{'model':'m','messages':[{'role':'user','content':'x','name':'bob'}],'n':1,"
        "'presence_penalty':0,'frequency_penalty':0,'seed':5,'user':'u','metadata':{},"
        "'store':false,'temperature':1,'top_p':1,'logprobs':false,'verbosity':'medium',"
        "'modalities':['text'],'prediction':{},'logit_bias':null,'service_tier':'auto'}"));
    assert_string_equal(c->dropped.names, "");
    c->target.strict = false;
}

static void state_that_a_provider_keeps_never_crosses(void **state)
{
    struct dialect_case *c = *state;

    assert_null(dialect_request(c, A, C,
                                "{'model':'m','max_tokens':5,'messages':[{'role':'user','content':"
                                "[{'type':'document','source':{'type':'file','file_id':'f1'}}]}"
                                "]}"));
    assert_string_equal(c->problem.param, "source.file_id");
    assert_null(dialect_request(c, C, A,
                                "{'model':'m','messages':[{'role':'user','content':[{'type':'file',"
                                "'file':{'file_id':'file-1'}}]}]}"));
    assert_string_equal(c->problem.param, "file_id");
}

static void marks_of_other_providers_are_found(void **state)
{
    static const struct {
        const char *body;
        bool found;
    } rows[] = {
        {"", false},
        {"1", false},
        {"tg1", false},
        {"{\"id\":\"call_1\",\"t\":\"atg1.\",\"n\":1}", false},
        {"{\"id\":\"tg1g6_call_aQQ\"}", true},
        {"[1,11,\"tg1.gemini.thought.g.QQ\"]", true},
        {"{\"id\":\"rs_0_tg1\"}", true},
        {"\"tg1", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(opaque_is_in(slice_of(rows[i].body)), rows[i].found);
    assert_false(opaque_is_in((struct slice){NULL, 0}));
}

/* The fuzzer found that such a request went out with no message at all. */
static void a_request_of_which_nothing_is_left_is_refused(void **state)
{
    struct dialect_case *c = *state;

    c->target.strict = false;
    for (enum dialect to = 0; to < DIALECT_COUNT; to++) {
        if (to == C)
            continue;
        assert_null(dialect_request(c, C, to, "{'model':'m','messages':[{'role':'assistant',"
                                              "'content':''}]}"));
        assert_string_equal(c->problem.param, "messages");
    }
    assert_null(dialect_request(c, A, C, "{'model':'m','max_tokens':9,'messages':[{'role':'user',"
                                         "'content':[{'type':'odd'}]}]}"));
    assert_string_equal(c->problem.param, "messages");
    assert_null(dialect_request(c, DIALECT_RESPONSES, C,
                                "{'model':'m','input':[{'role':'user','content':["
                                "{'type':'odd'}]}]}"));
    assert_string_equal(c->problem.param, "input");
}

static void mistakes_are_named(void **state)
{
    static const struct {
        enum dialect from;
        const char *body, *param;
    } rows[] = {
        {C, "[]", ""},
        {C, "{'model':'m'}", "messages"},
        {C, "{'model':1,'messages':[{'role':'user','content':'x'}]}", "model"},
        {C, "{'model':'m','messages':[{'role':'me','content':'x'}]}", "messages.role"},
        {C, "{'model':'m','messages':[{'role':'user','content':5}]}", "messages.content"},
        {C, "{'model':'m','messages':[{'role':'user','content':'x'}],'stream':1}", "stream"},
        {C, "{'model':'m','messages':[{'role':'user','content':'x'}],'temperature':3}",
         "temperature"},
        {C, "{'model':'m','messages':[{'role':'user','content':'x'}],'model':'n'}", ""},
        {A, "{'model':'m','messages':[],'system':'s'}", "messages"},
        {A, "{'model':'m','messages':[{'content':'x'}]}", "messages.role"},
        {A, "{'model':'m','max_tokens':-1,'messages':[{'role':'user','content':'x'}]}",
         "max_tokens"},
        {A, "{'model':'m','messages':[{'role':'user','content':'x'}],'tool_choice':"
            "{'type':'tool'}}",
         "tool_choice.name"},
    };
    struct dialect_case *c = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_null(dialect_request(c, rows[i].from, A, rows[i].body));
        assert_string_equal(c->problem.param, rows[i].param);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_titled("16 ids that the target refuses are hashed alike in call and result",
                         ids_that_the_target_refuses_are_hashed_alike_in_call_and_result),
        unit_test_titled("17 ids of nine letters are made where the target wants them",
                         ids_of_nine_letters_are_made_where_the_target_wants_them),
        unit_test_titled("20, 21 results are paired by id and come in the order of the calls",
                         results_are_paired_by_id_and_come_in_the_order_of_the_calls),
        unit_test_titled("22 empty content beside calls makes no empty block",
                         empty_content_beside_calls_makes_no_empty_block),
        cmocka_unit_test(arguments_pass_as_bytes_and_empty_ones_are_an_object),
        cmocka_unit_test(arguments_that_are_no_object_are_wrapped_in_one),
        cmocka_unit_test(calls_without_result_are_refused),
        cmocka_unit_test(calls_of_a_turn_that_share_an_id_are_refused),
        cmocka_unit_test(a_media_type_is_one),
        cmocka_unit_test(an_image_is_an_image),
        cmocka_unit_test(a_choice_names_no_more_tools_than_can_be_looked_for),
        unit_test_titled("18 long names are cut and stay apart",
                         long_names_are_cut_and_stay_apart),
        unit_test_titled("31 parallel false alone leaves the choice to the model",
                         parallel_false_alone_leaves_the_choice_to_the_model),
        cmocka_unit_test(choices_of_tools_are_carried),
        unit_test_titled("30 images in results go into a user message",
                         images_in_results_go_into_a_user_message),
        cmocka_unit_test(tools_that_take_text_are_wrapped),
        unit_test_titled("32 late instructions stay in place", late_instructions_stay_in_place),
        cmocka_unit_test(system_may_stand_behind_the_messages),
        cmocka_unit_test(keys_of_a_block_come_in_any_order),
        cmocka_unit_test(a_last_turn_of_the_model_is_left_out_unless_it_is_continued),
        cmocka_unit_test(media_are_carried_by_address_and_inside),
        unit_test_titled("23 signed thinking comes back, and foreign thinking turns it off",
                         signed_thinking_comes_back_and_foreign_thinking_turns_it_off),
        unit_test_titled("24 thinking is sent back by the target's own field, and never as text",
                         thinking_is_never_text_for_another_model),
        cmocka_unit_test(efforts_and_budgets_go_over),
        unit_test_titled("38 the bound has the name that the target knows",
                         the_bound_has_the_name_that_the_target_knows),
        unit_test_titled("40 sampling that the model fixes is left out and named",
                         sampling_that_the_model_fixes_is_left_out_and_named),
        cmocka_unit_test(schemas_of_output_are_carried_as_bytes),
        unit_test_titled("36 cache marks go to who knows them, and never into schemas",
                         cache_marks_go_to_who_knows_them_and_never_into_schemas),
        cmocka_unit_test(what_changes_the_answer_is_refused_or_named),
        cmocka_unit_test(hints_and_defaults_never_fail),
        cmocka_unit_test(state_that_a_provider_keeps_never_crosses),
        cmocka_unit_test(marks_of_other_providers_are_found),
        cmocka_unit_test(a_request_of_which_nothing_is_left_is_refused),
        cmocka_unit_test(mistakes_are_named),
    };

    return cmocka_run_group_tests_name("translate_requests", tests, dialect_open, dialect_close);
}
