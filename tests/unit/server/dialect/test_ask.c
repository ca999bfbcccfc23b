/* test_ask.c - what is read of a call, what is refused, and how a prompt is measured. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/ask.h"

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

/* Bodies are written with ' for ". From memory that ends where the body ends, so that a "
    "sanitizer sees
 * what is read behind it. */
static bool read_bytes(struct json_reader *reader, enum endpoint endpoint, const char *body,
                       size_t n, struct ask *ask, struct ask_problem *problem)
{
    char *exact = malloc(n > 0 ? n : 1);

    for (size_t i = 0; i < n; i++)
        exact[i] = body[i] == '\'' ? '"' : body[i];
    bool good = ask_read(reader, endpoint, exact, n, n, ask, problem);
    free(exact);
    return good;
}

static struct ask read_good(struct json_reader *reader, enum endpoint endpoint, const char *body)
{
    struct ask ask;
    struct ask_problem problem;

    if (!read_bytes(reader, endpoint, body, strlen(body), &ask, &problem))
        fail_msg("%s: %s: %s", body, problem.param, problem.text);
    return ask;
}

static void expect_text(const struct ask_text *text, const char *want)
{
    if (text->n != strlen(want) || memcmp(text->at, want, text->n) != 0)
        fail_msg("'%.*s' is not '%s'", (int)text->n, text->at, want);
}

static void expect_span(const char *body, struct ask_span span, const char *want)
{
    if (span.n != strlen(want) || memcmp(body + span.at, want, span.n) != 0)
        fail_msg("'%.*s' is not '%s'", (int)span.n, body + span.at, want);
}

/* ---- Endpoints ------------------------------------------------------------------------------- */

static void paths_are_ours_byte_by_byte(void **state)
{
    static const struct {
        const char *method, *target;
        enum endpoint endpoint;
        bool method_ok;
    } rows[] = {
        {"POST", "/v1/chat/completions", ENDPOINT_CHAT, true},
        {"POST", "/v1/chat/completions?api-version=1", ENDPOINT_CHAT, true},
        {"POST", "/v1/completions", ENDPOINT_COMPLETIONS, true},
        {"POST", "/v1/responses", ENDPOINT_RESPONSES, true},
        {"POST", "/v1/embeddings", ENDPOINT_EMBEDDINGS, true},
        {"POST", "/v1/messages", ENDPOINT_MESSAGES, true},
        {"POST", "/v1/messages?beta=true", ENDPOINT_MESSAGES, true},
        {"POST", "/v1/messages/count_tokens", ENDPOINT_COUNT_TOKENS, true},
        {"GET", "/v1/models", ENDPOINT_MODELS, true},
        {"HEAD", "/v1/models", ENDPOINT_MODELS, true},
        {"HEAD", "/v1/messages", ENDPOINT_MESSAGES, false},
        {"GET", "/v1/models/a%2Fb", ENDPOINT_MODEL, true},
        {"GET", "/v1/models/a/b?x", ENDPOINT_MODEL, true},
        {"GET", "/v1/chat/completions", ENDPOINT_CHAT, false},
        {"post", "/v1/chat/completions", ENDPOINT_CHAT, false},
        {"DELETE", "/v1/models/a", ENDPOINT_MODEL, false},
        {"POST", "/v1/models", ENDPOINT_MODELS, false},
        {"POST", "/v1/messages/", ENDPOINT_NONE, true},
        {"POST", "/v1//messages", ENDPOINT_NONE, true},
        {"POST", "/V1/messages", ENDPOINT_NONE, true},
        {"POST", "/v1/message%73", ENDPOINT_NONE, true},
        {"GET", "/v1/models/", ENDPOINT_NONE, true},
        {"POST", "/v1/responses/resp_1/cancel", ENDPOINT_NONE, true},
        {"GET", "", ENDPOINT_NONE, true},
        {"OPTIONS", "*", ENDPOINT_NONE, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct endpoint_match match = endpoint_of(slice_of(rows[i].method),
                                                  slice_of(rows[i].target));
        if (match.endpoint != rows[i].endpoint || match.method_ok != rows[i].method_ok)
            fail_msg("%s %s is %s", rows[i].method, rows[i].target, endpoint_name(match.endpoint));
    }
    assert_int_equal(endpoint_api(ENDPOINT_CHAT), WIRE_OPENAI);
    assert_int_equal(endpoint_api(ENDPOINT_MESSAGES), WIRE_ANTHROPIC);
    assert_int_equal(endpoint_api(ENDPOINT_COUNT_TOKENS), WIRE_ANTHROPIC);
    assert_string_equal(endpoint_of(SLICE("PUT"), SLICE("/v1/models")).allow, "GET");
    assert_string_equal(endpoint_path(ENDPOINT_MESSAGES), "/v1/messages");
}

static void model_in_a_path_is_unescaped(void **state)
{
    struct endpoint_match match = endpoint_of(SLICE("GET"), SLICE("/v1/models/ft%3Aa%2fb?x=1"));
    char text[8];
    size_t n = 0;

    (void)state;
    assert_true(endpoint_unescape(match.model, text, sizeof text, &n));
    assert_int_equal(n, 6);
    assert_memory_equal(text, "ft:a/b", 6);
    assert_false(endpoint_unescape(SLICE("a%"), text, sizeof text, &n));
    assert_false(endpoint_unescape(SLICE("a%4"), text, sizeof text, &n));
    assert_false(endpoint_unescape(SLICE("a%4x"), text, sizeof text, &n));
    assert_false(endpoint_unescape(SLICE("a%00"), text, sizeof text, &n));
    assert_true(endpoint_unescape(SLICE("12345678"), text, sizeof text, &n));
    assert_false(endpoint_unescape(SLICE("123456789"), text, sizeof text, &n));
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static void fields_of_a_chat_are_read(void **state)
{
    const char *body = "{'messages':[{'role':'user','content':'Hello, you'}], 'model' : "
                       "'gpt-\\u0034o',\n"
                       "'stream':true,'stream_options':{'include_usage': false,'x':[1]},'n':3,"
                       "'max_completion_tokens': 100 ,'max_tokens':7,'user':'u1',"
                       "'prompt_cache_key':'k','safety_identifier':'s','metadata':{'user_id':"
                       "'no'}}";
    struct ask ask = read_good(*state, ENDPOINT_CHAT, body);

    expect_text(&ask.model, "gpt-4o");
    expect_span(body, ask.model_span, "'gpt-\\u0034o'");
    assert_true(ask.stream);
    assert_false(ask.include_usage);
    expect_span(body, ask.stream_options, "{");
    expect_span(body, ask.include_usage_span, "false");
    assert_false(ask.stream_options_empty);
    assert_int_equal(ask.choices, 3);
    assert_int_equal(ask.max_output, 100);
    assert_string_equal(ask.bounds[0].name, "max_completion_tokens");
    expect_span(body, ask.bounds[0].span, "100");
    assert_string_equal(ask.bounds[1].name, "max_tokens");
    expect_span(body, ask.bounds[1].span, "7");
    expect_text(&ask.user, "u1");
    expect_text(&ask.prompt_cache_key, "k");
    expect_text(&ask.safety_identifier, "s");
    assert_int_equal(ask.text_bytes, 10);
    assert_int_equal(ask.messages, 1);
    assert_int_equal(ask.root_at, 0);
    assert_int_equal(ask.body_bytes, strlen(body));
}

static void what_a_call_does_not_say_is_told_apart(void **state)
{
    struct ask ask = read_good(*state, ENDPOINT_CHAT, " {'model':'m'}");

    assert_false(ask.stream || ask.include_usage || ask.background);
    assert_int_equal(ask.max_output, -1);
    assert_int_equal(ask.choices, 1);
    assert_null(ask.bounds[0].name);
    assert_int_equal(ask.stream_options.n, 0);
    assert_int_equal(ask.user.n, 0);
    assert_int_equal(ask.root_at, 1);

    const char *nulls = "{'model':'m','stream':null,'stream_options':null,'max_tokens':null,"
                        "'n':null,'user':null}";
    ask = read_good(*state, ENDPOINT_CHAT, nulls);
    assert_false(ask.stream);
    assert_int_equal(ask.max_output, -1);
    assert_int_equal(ask.choices, 1);
    assert_int_equal(ask.bounds[0].value, -1);
    expect_span(nulls, ask.bounds[0].span, "null");
    expect_span(nulls, ask.stream_options, "null");
}

static void each_endpoint_has_its_own_bound(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body;
        int64_t max_output, choices;
    } rows[] = {
        {ENDPOINT_CHAT, "{'model':'m','max_tokens':5}", 5, 1},
        {ENDPOINT_CHAT, "{'model':'m','max_tokens':50,'max_completion_tokens':5}", 50, 1},
        {ENDPOINT_CHAT, "{'model':'m','max_tokens':5,'max_completion_tokens':null}", 5, 1},
        {ENDPOINT_CHAT, "{'model':'m','max_output_tokens':'?','best_of':9}", -1, 1},
        {ENDPOINT_COMPLETIONS, "{'model':'m','max_tokens':5,'n':2,'best_of':4}", 5, 4},
        /* 0 is no bound to many servers; to Anthropic it is one */
        {ENDPOINT_COMPLETIONS, "{'model':'m','n':8,'best_of':4,'max_tokens':0}", -1, 8},
        {ENDPOINT_CHAT, "{'model':'m','max_tokens':0,'max_completion_tokens':50}", -1, 1},
        {ENDPOINT_RESPONSES, "{'model':'m','max_output_tokens':0}", -1, 1},
        {ENDPOINT_MESSAGES, "{'model':'m','max_tokens':0}", 0, 1},
        {ENDPOINT_CHAT, "{'model':'m','candidateCount':6,'n':2}", -1, 6},
        {ENDPOINT_RESPONSES, "{'model':'m','max_output_tokens':6,'max_tokens':true,'n':{}}", 6, 1},
        {ENDPOINT_MESSAGES, "{'model':'m','max_tokens':7,'n':-1}", 7, 1},
        {ENDPOINT_MESSAGES, "{'model':'m','max_tokens':1e3}", 1000, 1},
        {ENDPOINT_MESSAGES, "{'model':'m','max_tokens':64.0}", 64, 1},
        {ENDPOINT_MESSAGES, "{'model':'m','max_tokens':9007199254740991}", 9007199254740991, 1},
        {ENDPOINT_EMBEDDINGS, "{'model':'m','max_tokens':'x','stream':7}", -1, 1},
        {ENDPOINT_COUNT_TOKENS, "{'model':'m'}", -1, 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask ask = read_good(*state, rows[i].endpoint, rows[i].body);
        if (ask.max_output != rows[i].max_output || ask.choices != rows[i].choices)
            fail_msg("%s: %lld x %lld", rows[i].body, (long long)ask.max_output,
                     (long long)ask.choices);
    }
}

static void calls_that_belong_together_are_known(void **state)
{
    struct ask ask = read_good(*state, ENDPOINT_RESPONSES,
                               "{'model':'m','previous_response_id':'resp_1','conversation':"
                               "{'x':1,'id':'conv_1'},'background':true,'input':'abc'}");

    expect_text(&ask.previous_response_id, "resp_1");
    expect_text(&ask.conversation, "conv_1");
    assert_true(ask.background);
    assert_int_equal(ask.text_bytes, 3);
    ask = read_good(*state, ENDPOINT_RESPONSES, "{'model':'m','conversation':'conv_2'}");
    expect_text(&ask.conversation, "conv_2");
    ask = read_good(*state, ENDPOINT_MESSAGES, "{'model':'m','metadata':{'user_id':'u\\u00e9'}}");
    expect_text(&ask.user, "u\xc3\xa9");
    ask = read_good(*state, ENDPOINT_CHAT, "{'model':'m','user':[{'a':1}],'prompt_cache_key':5}");
    assert_int_equal(ask.user.n, 0);
    assert_int_equal(ask.prompt_cache_key.n, 0);
}

static void long_names_that_differ_stay_different(void **state)
{
    char body[2][800];
    struct ask asks[2];

    for (int i = 0; i < 2; i++) {
        snprintf(body[i], sizeof body[i], "{'model':'m','user':'%0400d%d'}", 0, i);
        asks[i] = read_good(*state, ENDPOINT_CHAT, body[i]);
        assert_int_equal(asks[i].user.n, ASK_TEXT_MAX);
    }
    assert_memory_not_equal(asks[0].user.at, asks[1].user.at, ASK_TEXT_MAX);
    snprintf(body[0], sizeof body[0], "{'model':'m','user':'%0256d'}", 0);
    struct ask exact = read_good(*state, ENDPOINT_CHAT, body[0]);
    assert_int_equal(exact.user.at[255], '0');
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void what_could_be_read_in_two_ways_is_refused(void **state)
{
    static const struct {
        const char *body, *param, *words;
    } rows[] = {
        {"", "", "no JSON"},
        {"{", "", "the end"},
        {"{'model':'m'} x", "", "cannot be read"},
        {"[]", "", "an object, not an array"},
        {"'model'", "", "neither an object nor an array"},
        {"{}", "model", "'model' is missing"},
        {"{'model':'m','model':'n'}", "model", "comes twice"},
        {"{'model':'m','mod\\u0065l':'n'}", "model", "comes twice"},
        {"{'model':'m','max_tokens':1,'max_tokens':2}", "max_tokens", "comes twice"},
        {"{'model':'m','other':1,'other':2}", "other", "comes twice"},
        {"{'model':'m','messages':[{'content':'a','content':'b'}]}", "content", "comes twice"},
        {"{'model':'m','x':{'y':[{'z':1,'z':2}]}}", "z", "comes twice"},
        {"{'model':5}", "model", "must be a string, not a number"},
        {"{'model':null}", "model", "must be a string, not null"},
        {"{'model':''}", "model", "1 to 256"},
        {"{'model':'m','stream':'true'}", "stream", "true or false, not a string"},
        {"{'model':'m','stream':1}", "stream", "true or false, not a number"},
        {"{'model':'m','stream_options':[]}", "stream_options", "an object, not an array"},
        {"{'model':'m','stream_options':{'include_usage':1}}", "stream_options.include_usage",
         "true or false"},
        {"{'model':'m','stream_options':{'include_usage':{}}}", "stream_options.include_usage",
         "true or false"},
        {"{'model':'m','max_tokens':-1}", "max_tokens", "from 0 to"},
        {"{'model':'m','max_tokens':1.5}", "max_tokens", "whole number"},
        {"{'model':'m','max_tokens':'5'}", "max_tokens", "not a string"},
        {"{'model':'m','max_tokens':true}", "max_tokens", "not a boolean"},
        {"{'model':'m','max_tokens':9007199254740992}", "max_tokens", "from 0 to 9007199254740991"},
        {"{'model':'m','max_tokens':1e300}", "max_tokens", "from 0 to"},
        {"{'model':'m','max_tokens':-1e300}", "max_tokens", "from 0 to"},
        {"{'model':'m','max_tokens':99999999999999999999999}", "max_tokens", "from 0 to"},
        {"{'model':'m','n':0}", "n", "from 1 to"},
        {"{'model':'m','messages':'abc'}", "messages", "an array, not a string"},
        {"{'model':'m','service_tier':['priority']}", "service_tier", "a string, not an array"},
        {"{'model':'m','speed':{}}", "speed", "a string, not an object"},
        {"{'model':'m','user':'\xff'}", "", "not UTF-8"},
        {"{'model':'m','user':'\xed\xa0\x80'}", "", "not UTF-8"},
        {"{'model':'m','user':'a\nb'}", "", "control character"},
        {"{'model':'m','x':nul}", "", "not a value"},
        {"{'model':'m','x':[1,]}", "", "cannot be read"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask ask;
        struct ask_problem problem;
        if (read_bytes(*state, ENDPOINT_CHAT, rows[i].body, strlen(rows[i].body), &ask, &problem))
            fail_msg("%s was read", rows[i].body);
        if (strcmp(problem.param, rows[i].param) != 0 || strstr(problem.text,
                                                                rows[i].words) == NULL)
            fail_msg("%s: '%s': %s", rows[i].body, problem.param, problem.text);
    }
}

/* Attack 5: Go's encoding/json reads these as model and max_tokens, and takes the last. */
static void attack_5_keys_in_other_letters_are_refused(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body, *param;
    } rows[] = {
        {ENDPOINT_CHAT, "{'model':'m','Model':'dear','messages':[]}", "model"},
        {ENDPOINT_CHAT, "{'MODEL':'dear','messages':[]}", "model"},
        {ENDPOINT_CHAT, "{'model':'m','MAX_TOKENS':100000}", "max_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','max_token\xc5\xbf':100000}", "max_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','max_to\xe2\x84\xaa"
                        "ens':100000}",
         "max_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','max_token\\u017f':100000}", "max_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','max_to\\u212aen\\u017F':100000}", "max_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','\\u004dodel':'dear'}", "model"},
        {ENDPOINT_CHAT, "{'model':'m','\xc4\xb0nput':'x'}", "input"},
        {ENDPOINT_RESPONSES, "{'model':'m','Max_Output_Tokens':9}", "max_output_tokens"},
        {ENDPOINT_CHAT, "{'model':'m','stream_options':{'Include_Usage':false}}", "include_usage"},
        {ENDPOINT_MESSAGES, "{'model':'m','metadata':{'User_ID':'u'}}", "user_id"},
        {ENDPOINT_CHAT, "{'model':'m','messages':[{'content':[{'Type':'image_url'}]}]}",
         "type"},
        {ENDPOINT_RESPONSES, "{'model':'m','tools':[{'TYPE':'web_search'}]}", "type"},
    };
    struct ask ask;
    struct ask_problem problem;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (read_bytes(*state, rows[i].endpoint, rows[i].body, strlen(rows[i].body), &ask,
                       &problem) ||
            strcmp(problem.param, rows[i].param) != 0 ||
            strstr(problem.text, "case of its letters") == NULL)
            fail_msg("row %zu: '%s' '%s'", i, problem.param, problem.text);
}

static void keys_that_clients_choose_may_have_any_letters(void **state)
{
    read_good(*state, ENDPOINT_CHAT, "{'model':'m','metadata':{'Model':'x','TYPE':'y','ID':1}}");
    read_good(*state, ENDPOINT_CHAT,
              "{'model':'m','tools':[{'type':'function','function':{'name':'f','parameters':{"
              "'type':'object','properties':{'Type':{'type':'string'},'URL':{}}}}}]}");
    read_good(*state, ENDPOINT_MESSAGES,
              "{'model':'m','messages':[{'role':'assistant','content':[{'type':'tool_use',"
              "'input':{'Type':1,'URL':2}}]}]}");
    read_good(*state, ENDPOINT_CHAT, "{'model':'m','documents':[{'ID':'1','Data':'x'}]}");
    read_good(*state, ENDPOINT_CHAT, "{'model':'m','chat_template_kwargs':{'Model':1},'X-Y':1}");
}

static void calls_without_a_body_have_none(void **state)
{
    struct ask ask;
    struct ask_problem problem;

    assert_false(read_bytes(*state, ENDPOINT_MODELS, "{'model':'m'}", 13, &ask, &problem));
    assert_false(read_bytes(*state, ENDPOINT_NONE, "{'model':'m'}", 13, &ask, &problem));
}

static bool nested_is_read(struct json_reader *reader, const char *field, int depth)
{
    char body[1024];
    int n = snprintf(body, sizeof body, "{'model':'m','%s':", field);
    struct ask ask;
    struct ask_problem problem;

    memset(body + n, '[', (size_t)depth);
    memset(body + n + depth, ']', (size_t)depth);
    body[n + 2 * depth] = '}';
    bool good = read_bytes(reader, ENDPOINT_CHAT, body, (size_t)(n + 2 * depth + 1), &ask,
                           &problem);
    if (!good)
        assert_non_null(strstr(problem.text, "nested more than 128 deep"));
    return good;
}

static void nesting_ends_at_128(void **state)
{
    static const char *const fields[] = {"x", "messages", "tools", "user"};

    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        assert_true(nested_is_read(*state, fields[i], ASK_DEPTH_MAX - 1));
        assert_false(nested_is_read(*state, fields[i], ASK_DEPTH_MAX));
    }
}

static void longest_model_name_is_read(void **state)
{
    char body[400];

    snprintf(body, sizeof body, "{'model':'%0256d'}", 0);
    assert_int_equal(read_good(*state, ENDPOINT_CHAT, body).model.n, 256);
    snprintf(body, sizeof body, "{'model':'%0257d'}", 0);
    struct ask ask;
    struct ask_problem problem;
    assert_false(read_bytes(*state, ENDPOINT_CHAT, body, strlen(body), &ask, &problem));
}

/* All keys of a body are remembered while it is read, so their number has an end. */
static void keys_have_an_end(void **state)
{
    size_t n = 0;
    char *body = malloc((size_t)(ASK_KEYS_MAX + 2) * 8 + 64);
    struct ask ask;
    struct ask_problem problem;

    n += (size_t)sprintf(body, "{'model':'m','x':[");
    for (int i = 0; i < ASK_KEYS_MAX; i++)
        n += (size_t)sprintf(body + n, "{'a':1},");
    n += (size_t)sprintf(body + n - 1, "]}") - 1;
    assert_false(read_bytes(*state, ENDPOINT_CHAT, body, n, &ask, &problem));
    assert_non_null(strstr(problem.text, "keys"));
    free(body);
}

/* Attack 9: arrays have no keys, and cost as much. */
static void attack_9_values_have_an_end(void **state)
{
    const size_t most = ASK_VALUES_MAX - 2; /* `model` and `x` are two */
    char *body = malloc(most * 2 + 64);
    struct ask ask;
    struct ask_problem problem;

    for (int more = 0; more < 2; more++) {
        size_t n = (size_t)sprintf(body, "{'model':'m','x':[1");
        for (size_t i = 1; i < most + (size_t)more; i++)
            n += (size_t)sprintf(body + n, ",1");
        n += (size_t)sprintf(body + n, "]}");
        assert_int_equal(read_bytes(*state, ENDPOINT_CHAT, body, n, &ask, &problem), more == 0);
        assert_int_equal(problem.too_many, more == 1);
    }
    assert_string_equal(problem.text, "the body has more than 1048576 values");
    free(body);
}

/* Reading ends where the bound is, and the same body can be read again. */
static void a_body_may_be_read_up_to_a_number_of_values(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"x\":[[],{\"a\":[1,2]}]}";
    struct ask_problem problem;
    struct ask ask;

    for (size_t values = 0; values < 9; values++) {
        bool good = ask_read_watching(*state, values, ENDPOINT_CHAT, body, strlen(body),
                                      strlen(body), NULL, NULL, &ask, &problem);
        assert_int_equal(good, values >= 7);
        assert_int_equal(problem.too_many, values < 7);
        json_reader_trim(*state, values % 2 ? 0 : 1 << 20);
    }
}

/* ---- The prompt ------------------------------------------------------------------------------ */

struct prompt {
    enum endpoint endpoint;
    const char *body; /* behind the model */
    int64_t text, tokens, images, audios, files, messages;
};

static void prompts_are_measured(void **state)
{
    static const struct prompt rows[] = {
        /* chat: text, parts, images by url and in base64, recordings, files */
        {ENDPOINT_CHAT, "'messages':[{'role':'system','content':'12345'},{'role':'user',"
                        "'content':'678'}]",
         8, 0, 0, 0, 0, 2},
        {ENDPOINT_CHAT, "'messages':[{'role':'user','content':[{'type':'text','text':'12345'},"
                        "{'type':'image_url','image_url':{'url':'https:"
                        "//example.com/a.png','detail':"
                        "'high'}}]}]",
         5, 0, 1, 0, 0, 1},
        {ENDPOINT_CHAT, "'messages':[{'role':'user','content':[{'image_url':{'url':'data:"
                        "image/png;base64,AAAABBBBCCCC'},'type':'image_url'}]}]",
         0, 0, 1, 0, 0, 1},
        {ENDPOINT_CHAT, "'messages':[{'role':'user','content':[{'type':'input_audio',"
                        "'input_audio':{'data':'AAAABBBB','format':'wav'}},{'type':'file','file':"
                        "{'file_data':'data:application/pdf;base64,AAAA','filename':'a.pdf'}}]}]",
         5, 0, 0, 1,
         1, 1},
        /* a data: URL where text belongs is text */
        {ENDPOINT_CHAT, "'messages':[{'role':'user','content':'data:image/png;base64,AAAA'}]", 26,
         0, 0, 0, 0, 1},
        /* tool calls, their results, refusals */
        {ENDPOINT_CHAT, "'messages':[{'role':'assistant','content':null,'tool_calls':[{'id':"
                        "'call_1','type':'function','function':{'name':'look',"
                        "'arguments':'{\\'q\\':1}'}}]},"
                        "{'role':'tool','tool_call_id':'call_1','content':'ok'},"
                        "{'role':'assistant',"
                        "'refusal':'no'}]",
         4 + 7 + 2 + 2, 0, 0, 0, 0, 3},
        /* tools and schemas count as compact JSON */
        {ENDPOINT_CHAT, "'messages':[],'tools':[ {'type' : 'function', 'function' : {'name':"
                        "'f'}} ]",
         44, 0, 0, 0, 0, 0},
        {ENDPOINT_CHAT, "'response_format':{'type':'text'}", 14, 0, 0, 0, 0, 0},
        /* what is no prompt counts nothing */
        {ENDPOINT_CHAT, "'stop':['aaaa','bbbb'],'logit_bias':{'50256':-100},'metadata':{'long':"
                        "'text'},'service_tier':'auto'",
         0, 0, 0, 0, 0, 0},
        /* completions and embeddings: a text, texts, tokens, lists of tokens */
        {ENDPOINT_COMPLETIONS, "'prompt':'1234','suffix':'56'", 6, 0, 0, 0, 0, 0},
        {ENDPOINT_COMPLETIONS, "'prompt':['1234','56']", 6, 0, 0, 0, 0, 0},
        {ENDPOINT_EMBEDDINGS, "'input':[1,2,3]", 0, 3, 0, 0, 0, 0},
        {ENDPOINT_EMBEDDINGS, "'input':[[1,2],[3,4,5]]", 0, 5, 0, 0, 0, 0},
        {ENDPOINT_EMBEDDINGS, "'input':'h\\u00e9'", 3, 0, 0, 0, 0, 0},
        /* responses */
        {ENDPOINT_RESPONSES, "'instructions':'123','input':'4567'", 7, 0, 0, 0, 0, 0},
        {ENDPOINT_RESPONSES, "'input':[{'role':'user','content':[{'type':'input_text','text':"
                             "'12'},{'type':'input_image','image_url':'data:"
                             "image/png;base64,AAAA','detail':"
                             "'auto'},{'type':'input_file','file_data':'AAAAAAAA',"
                             "'filename':'f'}]}]",
         3, 0, 1, 0,
         1, 1},
        {ENDPOINT_RESPONSES, "'input':[{'type':'function_call','call_id':'c','name':'f',"
                             "'arguments':'{}'},{'type':'function_call_output',"
                             "'call_id':'c','output':'123'}]",
         6,
         0, 0, 0, 0, 2},
        {ENDPOINT_RESPONSES, "'input':[{'result':'AAAA','type':'image_generation_call'},{'type':"
                             "'other','result':'1234567'}]",
         7, 0, 1, 0, 0, 2},
        {ENDPOINT_RESPONSES, "'input':[{'type':'computer_call_output','output':{'type':"
                             "'computer_screenshot','image_url':'data:image/png;base64,AA'}}]",
         0, 0, 1, 0, 0, 1},
        /* messages: system as text and as blocks, images by base64, url and id, documents */
        {ENDPOINT_MESSAGES, "'system':'123','messages':[{'role':'user','content':'45'}]", 5, 0, 0,
         0, 0, 1},
        {ENDPOINT_MESSAGES, "'system':[{'type':'text','text':'123','cache_control':{'type':"
                            "'ephemeral','ttl':'1h'}}]",
         3, 0, 0, 0, 0, 1},
        {ENDPOINT_MESSAGES, "'messages':[{'role':'user','content':[{'type':'image','source':"
                            "{'type':'base64','media_type':'image/png','data':"
                            "'AAAA'}},{'type':'image','source':"
                            "{'type':'url','url':'https://a'}},{'type':'image',"
                            "'source':{'type':'file',"
                            "'file_id':'f'}}]}]",
         0, 0, 3, 0, 0, 1},
        {ENDPOINT_MESSAGES, "'messages':[{'role':'user','content':[{'type':'document','source':"
                            "{'data':'AAAA','media_type':'application/pdf','type':'base64'}}]}]",
         0, 0, 0, 0, 1,
         1},
        {ENDPOINT_MESSAGES, "'messages':[{'role':'user','content':[{'source':{'data':'1234',"
                            "'media_type':'text/plain','type':'text'},'type':"
                            "'document','title':'567'}]}]",
         7, 0,
         0, 0, 0, 1},
        {ENDPOINT_MESSAGES, "'messages':[{'role':'user','content':[{'type':'document','source':"
                            "{'type':'content','content':[{'type':'text','text':'123'}]}}]}]",
         3, 0, 0, 0, 0, 1},
        /* arguments of a tool are data: {"q":"ab"}; an image within a result is one; thoughts are
         * text */
        {ENDPOINT_MESSAGES, "'messages':[{'role':'assistant','content':[{'type':'thinking',"
                            "'thinking':'123','signature':'AAAA'},{'type':"
                            "'tool_use','id':'t','name':'f',"
                            "'input':{'q':'ab'}}]},{'role':'user','content':[{'type':'tool_result',"
                            "'tool_use_id':'t','content':[{'type':'image','source':"
                            "{'type':'base64',"
                            "'media_type':'image/png','data':'AA'}}]}]}]",
         3 + 1 + 9, 0, 1, 0, 0, 2},
        {ENDPOINT_COUNT_TOKENS, "'messages':[{'role':'user','content':'45'}],'tools':[]", 2, 0, 0,
         0, 0, 1},
    };
    char body[2048];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct prompt *row = &rows[i];
        snprintf(body, sizeof body, "{'model':'m',%s}", row->body);
        struct ask ask = read_good(*state, row->endpoint, body);
        struct prompt got = {row->endpoint, row->body, ask.text_bytes, ask.token_ids, ask.images,
                             ask.audios, ask.files, ask.messages};
        if (got.text != row->text || got.tokens != row->tokens || got.images != row->images ||
            got.audios != row->audios ||
            got.files != row->files || got.messages != row->messages)
            fail_msg("%s: text %d, tokens %d, images %d, audios %d, files %d, messages %d",
                     row->body, (int)got.text,
                     (int)got.tokens, (int)got.images, (int)got.audios, (int)got.files,
                     (int)got.messages);
    }
}

/* A file may have pages without number: what is in it is told from pictures and recordings. */
static void payloads_of_files_are_told_from_others(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *body;
        int64_t media, files;
    } rows[] = {
        {ENDPOINT_CHAT,
         "{'model':'m','messages':[{'role':'user','content':[{'type':'file','file':"
         "{'filename':'a','file_data':'12345'}},{'type':'image_url','image_url':{'url':'123'}}]}]}",
         8, 5},
        {ENDPOINT_RESPONSES,
         "{'model':'m','input':[{'role':'user','content':[{'file_data':'1234','type':'input_file'},"
         "{'type':'input_image','image_url':'12'}]}]}",
         6, 4},
        {ENDPOINT_MESSAGES,
         "{'model':'m','messages':[{'role':'user','content':[{'type':'document','source':"
         "{'type':'base64','media_type':'application/pdf','data':'123456'}},{'type':'image',"
         "'source':{'type':'base64','data':'1'}},{'type':'document','source':{'type':'text',"
         "'data':'plain'}}]}]}",
         7, 6},
        {ENDPOINT_CHAT, "{'model':'m','messages':[{'role':'user','content':'12345'}]}", 0, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ask ask = read_good(*state, rows[i].endpoint, rows[i].body);
        if (ask.media_bytes != rows[i].media || ask.file_bytes != rows[i].files)
            fail_msg("row %zu: %d, %d", i, (int)ask.media_bytes, (int)ask.file_bytes);
    }
}

/* A long body keeps where the fields are that its prompt depends on, whatever they are. */
static void fields_of_another_type_are_within_the_body(void **state)
{
    static const char *const fields[] = {
        "'reasoning':    [1,{'a':[2]}]",
        "'modalities':    {'a':[1]}",
        "'reasoning':    7",
    };
    static char body[8192], text[6000];

    memset(text, 'a', sizeof text - 1);
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        struct ask_problem problem;
        struct ask ask;
        size_t n = (size_t)snprintf(body, sizeof body,
                                    "{'model':'m',%s,'messages':[{'role':'user','content':'%s'}]}",
                                    fields[i], text);
        for (size_t k = 0; k < n; k++)
            body[k] = body[k] == '\'' ? '"' : body[k];
        assert_true(ask_read(*state, ENDPOINT_CHAT, body, n, n, &ask, &problem));
        for (size_t k = 0; k < ask.n_frames && k < ASK_FRAMES; k++)
            assert_true(ask.frames[k].at <= n && ask.frames[k].n <= n - ask.frames[k].at);
    }
}

static void five_megabytes_of_image_are_one_image(void **state)
{
    const char *head = "{'model':'m','messages':[{'role':'user','content':[{'type':'image_url',"
                       "'image_url':{'url':'data:image/png;base64,";
    const char *tail = "'}}]}]}";
    size_t image = 5 << 20;
    char *body = malloc(strlen(head) + image + strlen(tail) + JSON_PADDING);
    size_t n = strlen(head);
    struct ask ask;
    struct ask_problem problem;

    memcpy(body, head, n);
    memset(body + n, 'A', image);
    memcpy(body + n + image, tail, strlen(tail));
    n += image + strlen(tail);
    memset(body + n, 0, JSON_PADDING);
    for (char *quote = body; (quote = strchr(quote, '\'')) != NULL;)
        *quote = '"';
    assert_true(ask_read(*state, ENDPOINT_CHAT, body, n, n + JSON_PADDING, &ask, &problem));
    assert_int_equal(ask.images, 1);
    assert_int_equal(ask.text_bytes, 0);
    assert_true(ask.media_bytes >= (int64_t)image);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_ours_byte_by_byte),
        cmocka_unit_test(model_in_a_path_is_unescaped),
        cmocka_unit_test(fields_of_a_chat_are_read),
        cmocka_unit_test(what_a_call_does_not_say_is_told_apart),
        cmocka_unit_test(each_endpoint_has_its_own_bound),
        cmocka_unit_test(calls_that_belong_together_are_known),
        cmocka_unit_test(long_names_that_differ_stay_different),
        cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(attack_5_keys_in_other_letters_are_refused),
        cmocka_unit_test(keys_that_clients_choose_may_have_any_letters),
        cmocka_unit_test(calls_without_a_body_have_none),
        cmocka_unit_test(nesting_ends_at_128),
        cmocka_unit_test(longest_model_name_is_read),
        cmocka_unit_test(keys_have_an_end),
        cmocka_unit_test(attack_9_values_have_an_end),
        cmocka_unit_test(a_body_may_be_read_up_to_a_number_of_values),
        cmocka_unit_test(prompts_are_measured),
        cmocka_unit_test(payloads_of_files_are_told_from_others),
        cmocka_unit_test(fields_of_another_type_are_within_the_body),
        cmocka_unit_test(five_megabytes_of_image_are_one_image),
    };

    return cmocka_run_group_tests_name("ask", tests, setup, teardown);
}
