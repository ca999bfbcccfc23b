/* test_bound.c - the most that a call can use: a test for each row of the table from what a request
 * has to what it can cost, or to its refusal under a budget. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/bound.h"

#define CONTEXT 100000
#define MOST 5000

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

static struct bound_facts facts_of_a_model(void)
{
    struct bound_facts facts;

    bound_facts_init(&facts);
    facts.context = CONTEXT;
    facts.most_output = MOST;
    facts.form = BOUND_BYTES;
    facts.image.most = 1600;
    return facts;
}

/* Bodies are written with ' for ", and without the model and the brackets. */
static struct ask read_ask(struct json_reader *reader, enum endpoint endpoint, const char *fields)
{
    struct ask ask;
    struct ask_problem problem;
    size_t size = strlen(fields) + 64;
    char *body = malloc(size);
    size_t n = (size_t)snprintf(body, size, "{'model':'m'%s%s}", *fields != '\0' ? "," : "",
                                fields);

    for (size_t i = 0; i < n; i++)
        body[i] = body[i] == '\'' ? '"' : body[i];
    if (!ask_read(reader, endpoint, body, n, n, &ask, &problem))
        fail_msg("%s: %s: %s", fields, problem.param, problem.text);
    free(body);
    return ask;
}

static struct tg_usage_bound bound_with(struct json_reader *reader, enum endpoint endpoint,
                                        const char *fields, const struct bound_facts *facts)
{
    struct ask ask = read_ask(reader, endpoint, fields);
    struct tg_usage_bound bound;
    struct ask_problem problem;

    if (!bound_of(&ask, facts, true, &bound, &problem))
        fail_msg("%s: %s: %s", fields, problem.param, problem.text);
    assert_true(bound.longest <= bound.input);
    return bound;
}

static struct tg_usage_bound bound_it(struct json_reader *reader, enum endpoint endpoint,
                                      const char *fields)
{
    struct bound_facts facts = facts_of_a_model();

    return bound_with(reader, endpoint, fields, &facts);
}

/* Under a hard budget the call is refused and the field named; without one it is not. */
static void expect_refused(struct json_reader *reader, enum endpoint endpoint, const char *fields,
                           const char *param, const char *words)
{
    struct bound_facts facts = facts_of_a_model();
    struct ask ask = read_ask(reader, endpoint, fields);
    struct tg_usage_bound bound;
    struct ask_problem problem = {.text = ""};

    if (bound_of(&ask, &facts, true, &bound, &problem))
        fail_msg("%s: was bounded", fields);
    if (strcmp(problem.param, param) != 0 || strstr(problem.text, words) == NULL)
        fail_msg("%s: '%s': %s", fields, problem.param, problem.text);
    assert_true(bound_of(&ask, &facts, false, &bound, &problem));
}

/* ---- Text ------------------------------------------------------------------------------------ */

#define HELLO "'messages':[{'role':'user','content':'hello'}],'max_tokens':10"

static void text_is_its_bytes_in_the_form_of_its_tokenizer(void **state)
{
    struct bound_facts facts = facts_of_a_model();
    static const struct {
        const char *text;
        int64_t bytes, nfc, nfkc;
    } rows[] = {
        {"hello", 5, 5, 5},
        {"\xef\xb7\xba", 3, 3, 33},        /* U+FDFA */
        {"\xe0\xbe\xa2", 3, 6, 6},         /* U+0FA2 */
        {"\\u0fa2\\ufdfa", 6, 9, 39},      /* decoded first */
        {"\xc3\xa9\xe4\xb8\xad", 5, 5, 5}, /* ordinary text does not grow */
    };
    char fields[200];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(fields, sizeof fields, "'messages':[{'role':'user','content':'%s'}]",
                 rows[i].text);
        int64_t frame = 128 + 16 + 4; /* a call, a message, "user" */
        facts.form = BOUND_BYTES;
        assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input,
                         frame + rows[i].bytes);
        facts.form = BOUND_NFC;
        assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input,
                         frame + rows[i].nfc);
        facts.form = BOUND_NFKC;
        assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input,
                         frame + rows[i].nfkc);
    }
}

static void messages_parts_tools_and_schemas_have_overheads(void **state)
{
    int64_t one = bound_it(*state, ENDPOINT_CHAT, HELLO).input;

    assert_int_equal(one, 128 + 16 + 4 + 5);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'messages':[{},{},{}]").input, 128 + 3 * 16);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT,
                              "'messages':[{'content':[{'text':'a'},{'text':'b'}]}]")
                         .input,
                     128 + 16 + 2 * 8 + 2);
    /* "[{},{}]": 7 bytes, and for each object two lines of 1 + 4 and a blank */
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'functions':[{'name':'f'}]").input -
                         bound_it(*state, ENDPOINT_CHAT, "'functions':[]").input,
                     64 + 14 - 2 + (2 * 5 + 1) + (9 + 1));
    assert_true(bound_it(*state, ENDPOINT_CHAT, "'response_format':{}").input >= 128 + 64);
    assert_true(bound_it(*state, ENDPOINT_MESSAGES, "'tools':[{'name':'f'}]").input >=
                128 + 900 + 64);
    assert_true(bound_it(*state, ENDPOINT_MESSAGES,
                         "'tools':[{'type':'browser_toolset_20260801','name':'f'}]")
                    .input >= 128 + 900 + 64 + 7550);
}

static void names_roles_and_ids_count(void **state)
{
    int64_t plain = bound_it(*state, ENDPOINT_CHAT, "'messages':[{'content':'a'}]").input;

    assert_int_equal(bound_it(*state, ENDPOINT_CHAT,
                              "'messages':[{'content':'a','role':'12345','id':'678','name':'9'}]")
                         .input,
                     plain + 9);
}

/* ensure_ascii and an indent of 4: Python's json.dumps of the same tools, which no tokenizer makes
 * more tokens of than it has bytes. */
/* Where texts belong a template may write whatever it finds, keys too. */
static void numbers_and_keys_in_messages_count(void **state)
{
    static const struct {
        const char *content;
        int64_t least;
    } rows[] = {
        {"[123456789012,123456789012]", 24},
        {"[1.5e300,-2.5e-300]", 14},
        {"{'long_key_of_a_client':7}", 22},
        {"{'a':{'b':{'c':true}}}", 7},
        {"[true,false,null]", 13},
        {"{'ï·º':1}", 34},
    };
    struct bound_facts facts = facts_of_a_model();
    char fields[200];

    facts.form = BOUND_NFKC;
    int64_t empty = bound_with(*state, ENDPOINT_CHAT, "'messages':[{'content':[]}],'max_tokens':1",
                               &facts)
                        .input;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(fields, sizeof fields, "'messages':[{'content':%s}],'max_tokens':1",
                 rows[i].content);
        int64_t input = bound_with(*state, ENDPOINT_CHAT, fields, &facts).input;
        if (input < empty + rows[i].least)
            fail_msg("%s: %lld above %lld", rows[i].content, (long long)input, (long long)empty);
    }
}

static void schemas_are_as_long_as_with_an_indent_of_four(void **state)
{
    const char *tools = "'tools':[{'type':'function','function':{'name':'f','parameters':{"
                        "'enum':[1,2,3,1e15],'x':{'y':{'z':[]}}}}}]";
    /* len(json.dumps(tools, indent=4)) */
    assert_true(bound_it(*state, ENDPOINT_CHAT, tools).input - 128 - 64 >= 417);

    /* Numbers are written in full: 1000000000000000.0. */
    char numbers[200] = "'tools':[{'name':'f','parameters':{'enum':[1e15";
    for (int i = 1; i < 20; i++)
        strcat(numbers, ",1e15");
    strcat(numbers, "]}}]");
    assert_true(bound_it(*state, ENDPOINT_CHAT, numbers).input - 128 - 64 >= 825);

    struct bound_facts facts = facts_of_a_model();
    const char *accents = "'tools':[{'name':'\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9'}]";
    int64_t hosted = bound_with(*state, ENDPOINT_CHAT, accents, &facts).input;
    facts.self_hosted = true;
    assert_true(bound_with(*state, ENDPOINT_CHAT, accents, &facts).input >= hosted + 2 * 12);
}

static void deeply_nested_schemas_are_refused(void **state)
{
    char fields[400] = "'tools':[{'name':";

    for (int i = 0; i < 70; i++)
        strcat(fields, "[");
    for (int i = 0; i < 70; i++)
        strcat(fields, "]");
    strcat(fields, "}]");
    expect_refused(*state, ENDPOINT_CHAT, fields, "tools", "64 deep");
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void output_is_what_the_call_allows(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *fields;
        int64_t output;
    } rows[] = {
        {ENDPOINT_CHAT, "'max_tokens':10", 10},
        {ENDPOINT_CHAT, "'max_tokens':10,'max_completion_tokens':20", 20},
        {ENDPOINT_CHAT, "'max_tokens':1000000000", MOST},
        {ENDPOINT_RESPONSES, "'max_output_tokens':30", 30},
        {ENDPOINT_MESSAGES, "'max_tokens':40,'thinking':{'budget_tokens':9000}", 40},
        {ENDPOINT_EMBEDDINGS, "'input':'a'", 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (bound_it(*state, rows[i].endpoint, rows[i].fields).output != rows[i].output)
            fail_msg("%s", rows[i].fields);
}

static void output_without_a_limit_is_the_models_most(void **state)
{
    struct bound_facts facts = facts_of_a_model();

    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "").output, MOST);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'max_tokens':null").output, MOST);
    facts.most_output = 0;
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, "", &facts).output, CONTEXT);
    facts.context = 0;
    struct ask ask = read_ask(*state, ENDPOINT_CHAT, "");
    struct ask_problem problem;
    struct tg_usage_bound bound;
    assert_false(bound_of(&ask, &facts, true, &bound, &problem));
    assert_string_equal(problem.param, "max_tokens");
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, "'max_tokens':7", &facts).output, 7);
}

static void max_tokens_of_0_is_no_limit_but_for_anthropic(void **state)
{
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'max_tokens':0").output, MOST);
    assert_int_equal(bound_it(*state, ENDPOINT_RESPONSES, "'max_output_tokens':0").output, MOST);
    assert_int_equal(bound_it(*state, ENDPOINT_MESSAGES, "'max_tokens':0").output, 0);
}

/* DeepSeek, among others, reads max_tokens alone, and passes over the other. */
static void a_bound_that_is_not_read_is_none(void **state)
{
    static const struct {
        const char *fields;
        int64_t all, one; /* output where both are read, and where max_tokens alone is */
    } rows[] = {
        {"'max_completion_tokens':10", 10, MOST},
        {"'max_tokens':10", 10, 10},
        {"'max_completion_tokens':10,'max_tokens':7", 10, 10},
        {"'stream':true", MOST, MOST},
    };
    struct bound_facts facts = facts_of_a_model();

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        facts.only_max_tokens = false;
        assert_int_equal(bound_with(*state, ENDPOINT_CHAT, rows[i].fields, &facts).output,
                         rows[i].all);
        facts.only_max_tokens = true;
        assert_int_equal(bound_with(*state, ENDPOINT_CHAT, rows[i].fields, &facts).output,
                         rows[i].one);
    }
}

static void choices_and_prompts_multiply_the_output(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *fields;
        int64_t times;
    } rows[] = {
        {ENDPOINT_CHAT, "'max_tokens':10,'n':3", 3},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'n':2,'best_of':5", 5},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'prompt':'a'", 1},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'prompt':[]", 1},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'prompt':['a','b','c']", 3},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'prompt':[1,2,3,4]", 1},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'prompt':[[1,2],[3]]", 2},
        {ENDPOINT_COMPLETIONS, "'max_tokens':10,'n':4,'prompt':[[1,2],[3]]", 8},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (bound_it(*state, rows[i].endpoint, rows[i].fields).output != 10 * rows[i].times)
            fail_msg("%s", rows[i].fields);
    expect_refused(*state, ENDPOINT_CHAT, "'n':129", "n", "128");
}

static void each_prompt_has_a_context_of_its_own(void **state)
{
    char *fields = malloc(3 * CONTEXT);
    size_t n = (size_t)sprintf(fields, "'input':[");

    for (int i = 0; i < 5; i++) {
        n += (size_t)sprintf(fields + n, "%s'", i > 0 ? "," : "");
        memset(fields + n, 'a', CONTEXT / 2);
        n += CONTEXT / 2;
        n += (size_t)sprintf(fields + n, "'");
    }
    strcpy(fields + n, "]");
    struct tg_usage_bound bound = bound_it(*state, ENDPOINT_EMBEDDINGS, fields);
    assert_true(bound.input >= 5 * CONTEXT / 2 && bound.input <= 5 * CONTEXT);
    assert_int_equal(bound.longest, CONTEXT);
    assert_int_equal(bound_it(*state, ENDPOINT_EMBEDDINGS, "'input':[1,2,3]").input, 128 + 3);
    free(fields);
}

static void predictions_may_be_billed_as_output(void **state)
{
    const char *fields = "'max_tokens':10,'prediction':{'type':'content','content':'123456789'}";

    assert_true(bound_it(*state, ENDPOINT_CHAT, fields).output >= 10 + 9);
}

static void pro_mode_is_refused(void **state)
{
    expect_refused(*state, ENDPOINT_RESPONSES, "'reasoning':{'effort':'high','mode':'pro'}",
                   "reasoning.mode", "standard");
    bound_it(*state, ENDPOINT_RESPONSES, "'reasoning':{'effort':'high','mode':'standard'}");
}

/* ---- Caches ---------------------------------------------------------------------------------- */

static void cache_control_makes_writes(void **state)
{
    struct bound_facts facts = facts_of_a_model();
    static const struct {
        enum endpoint endpoint;
        const char *fields;
        unsigned kinds;
    } rows[] = {
        {ENDPOINT_MESSAGES, "'messages':[]", 0},
        {ENDPOINT_MESSAGES, "'system':[{'type':'text','text':'a','cache_control':{'type':"
                            "'ephemeral'}}]",
         TG_INPUT_WRITE},
        {ENDPOINT_MESSAGES, "'cache_control':{'type':'ephemeral','ttl':'5m'}", TG_INPUT_WRITE},
        {ENDPOINT_MESSAGES, "'tools':[{'name':'f','cache_control':{'ttl':'1h'}}]",
         TG_INPUT_WRITE | TG_INPUT_WRITE_LONG},
        {ENDPOINT_MESSAGES, "'messages':[{'content':[{'type':'tool_result','content':[{'type':"
                            "'text','text':'','cache_control':{'ttl':'1h'}}]}]}]",
         TG_INPUT_WRITE | TG_INPUT_WRITE_LONG},
        {ENDPOINT_CHAT, "'prompt_cache_options':{'ttl':'30m'}", TG_INPUT_WRITE},
        {ENDPOINT_RESPONSES, "'prompt_cache_options':{'ttl':'12h'}",
         TG_INPUT_WRITE | TG_INPUT_WRITE_LONG},
        {ENDPOINT_RESPONSES, "'prompt_cache_retention':'in_memory'", 0},
        {ENDPOINT_CHAT, "'messages':[{'content':[{'prompt_cache_breakpoint':{}}]}]",
         TG_INPUT_WRITE},
        {ENDPOINT_RESPONSES, "'input':[{'content':[{'prompt_cache_breakpoint':{'ttl':'12h'}}]}]",
         TG_INPUT_WRITE | TG_INPUT_WRITE_LONG},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (bound_it(*state, rows[i].endpoint, rows[i].fields).kinds != rows[i].kinds)
            fail_msg("%s", rows[i].fields);
    facts.cache_write_implicit = true;
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, HELLO, &facts).kinds, TG_INPUT_WRITE);
}

/* ---- Media ----------------------------------------------------------------------------------- */

/* The head of a PNG of 1024 x 1024, and of an image. */
#define PNG_1024 "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAIAAADwf7zUAAAACklEQVR4AWNgAAAAAgABc3UBGAAA"
#define IMAGE(url) "'messages':[{'content':[{'type':'image_url','image_url':{'url':'" url "'}}]}]"

static void images_inline_cost_what_their_size_says(void **state)
{
    struct bound_facts facts = facts_of_a_model();
    const char *fields = IMAGE("data:image/png;base64," PNG_1024);
    int64_t around = bound_it(*state, ENDPOINT_CHAT, IMAGE("https://a")).input - 1600;

    facts.image = (struct bound_image){BOUND_IMAGE_CLAUDE, 4784, 0, 0, 0, 0};
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input, around + 37 * 37);
    facts.image = (struct bound_image){BOUND_IMAGE_TILES, 1445, 85, 170, 0, 0};
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input, around + 765);
    facts.image = (struct bound_image){BOUND_IMAGE_PATCHES, 2489, 0, 0, 1536, 1620};
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, fields, &facts).input, around + 1659);
    assert_true(bound_with(*state, ENDPOINT_CHAT, fields, &facts).kinds & TG_INPUT_IMAGE);
}

static void rules_of_images_are_those_of_the_documents(void **state)
{
    static const struct bound_image tiles = {BOUND_IMAGE_TILES, 1445, 85, 170, 0, 0};
    static const struct bound_image patches = {BOUND_IMAGE_PATCHES, 30000, 0, 0, 2500, 0};
    static const struct bound_image claude = {BOUND_IMAGE_CLAUDE, 4784, 0, 0, 0, 0};
    static const struct bound_image gemini = {BOUND_IMAGE_GEMINI, 0, 0, 0, 0, 0};
    static const struct {
        const struct bound_image *rule;
        struct ask_image image;
        int64_t tokens;
    } rows[] = {
        {&tiles, {1024, 1024, ASK_DETAIL_NONE, 1}, 765},
        {&tiles, {1024, 1024, ASK_DETAIL_LOW, 1}, 85},
        {&tiles, {2048, 4096, ASK_DETAIL_HIGH, 1}, 1105},
        {&tiles, {8596, 4296, ASK_DETAIL_HIGH, 1}, 1445}, /* 1536.7 wide in the end: 4 tiles */
        {&tiles, {20000, 1, ASK_DETAIL_HIGH, 1}, 1445},
        {&claude, {200, 200, ASK_DETAIL_NONE, 1}, 64},
        {&claude, {1000, 1000, ASK_DETAIL_NONE, 1}, 1296},
        {&claude, {8000, 8000, ASK_DETAIL_NONE, 1}, 4784},
        {&patches, {6000, 6000, ASK_DETAIL_HIGH, 1}, 2500},
        {&patches, {3200, 3200, ASK_DETAIL_ORIGINAL, 1}, 10000},
        {&gemini, {384, 384, ASK_DETAIL_NONE, 1}, 258},
        {&gemini, {1024, 768, ASK_DETAIL_NONE, 1}, 258 * 4},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (bound_image(rows[i].rule, &rows[i].image) != rows[i].tokens)
            fail_msg("row %zu: %lld", i, (long long)bound_image(rows[i].rule, &rows[i].image));
}

static void images_without_a_size_are_the_most(void **state)
{
    int64_t around = 128 + 16 + 8 + 8 + 9; /* a message, a part and what is in it, its type */

    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, IMAGE("https://a")).input, around + 1600);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, IMAGE("data:image/png;base64,AAAA")).input,
                     around + 1600);
    /* two images where one belongs: neither size counts */
    assert_true(bound_it(*state, ENDPOINT_CHAT,
                         "'messages':[{'content':[{'type':'image_url','image_url':{'url':'data:"
                         "image/png;base64," PNG_1024 "'},'url':'data:image/png;base64," PNG_1024
                         "'}]}]")
                    .input >= 1600);
    struct bound_facts facts = facts_of_a_model();
    facts.image.most = 0;
    assert_int_equal(bound_with(*state, ENDPOINT_CHAT, IMAGE("https://a"), &facts).input, CONTEXT);
}

static void what_is_not_in_the_body_is_the_context(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *fields;
    } rows[] = {
        {ENDPOINT_RESPONSES, "'previous_response_id':'resp_1','input':'hi'"},
        {ENDPOINT_RESPONSES, "'conversation':'conv_1'"},
        {ENDPOINT_RESPONSES, "'conversation':{'id':'conv_1'}"},
        {ENDPOINT_RESPONSES, "'prompt':{'id':'pmpt_1'}"},
        {ENDPOINT_RESPONSES, "'input':[{'type':'item_reference','id':'msg_1'}]"},
        {ENDPOINT_RESPONSES, "'input':[{'content':[{'type':'input_file','file_id':'f'}]}]"},
        {ENDPOINT_RESPONSES, "'input':[{'content':[{'type':'input_file','file_url':'https:"
                             "//a'}]}]"},
        {ENDPOINT_MESSAGES, "'thread':{'type':'continue','id':'t'}"},
        {ENDPOINT_MESSAGES, "'container':'c'"},
        {ENDPOINT_MESSAGES, "'messages':[{'content':[{'type':'document','source':{'type':'file',"
                            "'file_id':'f'}}]}]"},
        {ENDPOINT_MESSAGES, "'messages':[{'content':[{'type':'container_upload','file_id':'f'}]}]"},
        {ENDPOINT_CHAT, "'cachedContent':'cachedContents/1'"},
        {ENDPOINT_CHAT, "'messages':[{'content':[{'type':'input_audio','input_audio':{'data':"
                        "'AAAA','format':'ogg'}}]}]"},
        {ENDPOINT_CHAT, "'messages':[{'content':[{'type':'video_url','video_url':{'url':'u'}}]}]"},
        {ENDPOINT_CHAT, "'messages':[{'role':'assistant','audio':{'id':'audio_1'}}]"},
        /* a server may take it for what it is, whatever its type */
        {ENDPOINT_CHAT, "'messages':[{'content':[{'image_url':{'url':'https://a'}}]}]"},
        {ENDPOINT_CHAT, "'messages':[{'content':[{'type':'hologram','data':'x'}]}]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (bound_it(*state, rows[i].endpoint, rows[i].fields).input != CONTEXT)
            fail_msg("%s", rows[i].fields);
}

/* What was thought or found stays with the provider, and is an item's id here: as much as one reply
 * can have written. */
static void items_of_replies_are_the_most_that_one_has(void **state)
{
    static const struct {
        const char *input;
        int64_t times;
    } rows[] = {
        {"{'type':'reasoning','id':'rs_1','summary':[]}", 1},
        {"{'id':'rs_1','summary':[],'type':'reasoning'},{'type':'reasoning','id':'rs_2'}", 2},
        {"{'type':'reasoning','id':'rs_1','encrypted_content':'abc'}", 0},
        {"{'type':'web_search_call','id':'ws_1','action':{'type':'search'}}", 1},
        {"{'type':'message','role':'assistant','content':'hi'}", 0},
    };
    char fields[300];

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(fields, sizeof fields, "'input':[%s]", rows[i].input);
        int64_t input = bound_it(*state, ENDPOINT_RESPONSES, fields).input;
        if (input < rows[i].times * MOST || input > rows[i].times * MOST + 400)
            fail_msg("%s: %lld", fields, (long long)input);
    }
}

static void pdf_inline_is_the_context(void **state)
{
    const char *fields = "'messages':[{'content':[{'type':'document','source':{'type':'base64',"
                         "'media_type':'application/pdf','data':'JVBERi0xLjcKAAAA'}}]}]";

    assert_int_equal(bound_it(*state, ENDPOINT_MESSAGES, fields).input, CONTEXT);
    /* a document that is plain text is text */
    assert_true(bound_it(*state, ENDPOINT_MESSAGES,
                         "'messages':[{'content':[{'type':'document','source':{'type':'text',"
                         "'media_type':'text/plain','data':'12345'}}]}]")
                    .input < 300);
}

#define PNG_URL "'data:image/png;base64," PNG_1024 "'"
#define CONTENT(name, part) "'" name "':[{'content':[{" part "}]}]"
#define IN_CHAT(inner, more) \
    CONTENT("messages", "'type':'image_url','image_url':{'url':" PNG_URL inner "}" more)
#define IN_RESPONSE(more) \
    CONTENT("input", "'type':'input_image','image_url':" PNG_URL more)
#define IN_MESSAGE(inner)                                                           \
    CONTENT("messages",                                                             \
            "'type':'image','detail':'low','source':{'type':'base64','media_type':" \
            "'image/png','data':'" PNG_1024 "'" inner "}")
#define LOW ",'detail':'low'"

/* Elsewhere nobody reads it, and the image costs what it costs without. */
static void a_detail_counts_where_the_api_looks_for_it(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *fields;
        bool counts;
    } rows[] = {
        {ENDPOINT_CHAT, IN_CHAT(LOW, ""), true},
        {ENDPOINT_CHAT, IN_CHAT("", LOW), false},
        {ENDPOINT_CHAT, IN_CHAT(",'detail':'high'", LOW), false},
        {ENDPOINT_RESPONSES, IN_RESPONSE(LOW), true},
        {ENDPOINT_RESPONSES, IN_RESPONSE("}],'role':'user','detail':'low','more':[{"), false},
        {ENDPOINT_MESSAGES, IN_MESSAGE(LOW), false},
    };
    struct bound_facts facts = facts_of_a_model();

    facts.image = (struct bound_image){.rule = BOUND_IMAGE_TILES, .base = 1, .tile = 10000};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((bound_with(*state, rows[i].endpoint, rows[i].fields, &facts).input < 10000) !=
            rows[i].counts)
            fail_msg("%s", rows[i].fields);
}

/* Google takes any media in the place of an image. */
static void other_media_in_the_place_of_an_image_are_the_context(void **state)
{
    static const char *const types[] = {"video/mp4", "application/pdf", "IMAGE/png", ""};
    char fields[256];

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        snprintf(fields, sizeof fields, IMAGE("data:%s;base64," PNG_1024), types[i]);
        assert_int_equal(bound_it(*state, ENDPOINT_CHAT, fields).input, CONTEXT);
    }
    assert_true(bound_it(*state, ENDPOINT_CHAT, IMAGE("data:image/png;base64," PNG_1024)).input <
                CONTEXT);
}

static void recordings_cost_by_their_length(void **state)
{
    struct bound_facts facts = facts_of_a_model();
    /* a WAV of 16000 samples a second, 1 channel, 16 bits */
    const char *fields = "'messages':[{'content':[{'type':'input_audio','input_audio':{'data':"
                         "'UklGRiQAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQAAAAAAAAAA',"
                         "'format':'wav'}}]}]";
    struct tg_usage_bound bound = bound_with(*state, ENDPOINT_CHAT, fields, &facts);

    assert_true(bound.input < 400);
    assert_int_equal(bound.kinds, TG_INPUT_AUDIO);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'modalities':['text','audio']").kinds,
                     TG_OUTPUT_AUDIO);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'modalities':['image']").kinds,
                     TG_OUTPUT_IMAGE);
}

/* ---- Tools of the provider ------------------------------------------------------------------- */

static void tools_of_the_provider_need_a_bound_on_uses(void **state)
{
    expect_refused(*state, ENDPOINT_RESPONSES, "'tools':[{'type':'web_search'}]", "max_tool_calls",
                   "max_tool_calls");
    expect_refused(*state, ENDPOINT_MESSAGES,
                   "'tools':[{'type':'web_search_20250305','name':'web_search'}]", "tools",
                   "max_uses");
    expect_refused(*state, ENDPOINT_MESSAGES,
                   "'tools':[{'type':'web_search_20250305','max_uses':2},{'type':"
                   "'web_fetch_20250910'}]",
                   "tools", "max_uses");
    expect_refused(*state, ENDPOINT_CHAT, "'tools':[{'type':'web_search','max_uses':1}]", "tools",
                   "functions");
}

static void each_use_is_a_pass_over_the_context(void **state)
{
    struct tg_usage_bound bound =
        bound_it(*state, ENDPOINT_RESPONSES,
                 "'tools':[{'type':'web_search'},{'type':'mcp','server_url':'https://a'}],"
                 "'max_tool_calls':3,'max_output_tokens':50");

    assert_int_equal(bound.input, 4 * CONTEXT);
    assert_int_equal(bound.longest, CONTEXT);
    assert_int_equal(bound.tool_calls, 3);
    assert_int_equal(bound.output, 50); /* the whole response has one bound */
    bound = bound_it(*state, ENDPOINT_MESSAGES,
                     "'tools':[{'type':'web_search_20250305','max_uses':2}],'max_tokens':50");
    assert_int_equal(bound.input, 3 * CONTEXT);
    assert_int_equal(bound.output, 3 * 50);
    bound = bound_it(*state, ENDPOINT_MESSAGES,
                     "'tools':[{'type':'web_search_20250305','max_uses':200}],'max_tokens':50");
    assert_int_equal(bound.input, 10 * CONTEXT); /* the loop of the server ends there */
    assert_int_equal(bound.tool_calls, 200);
    /* Its description, or a remote server's list of tools, is there though it may not be used. */
    bound = bound_it(*state, ENDPOINT_RESPONSES,
                     "'tools':[{'type':'web_search'}],'max_tool_calls':0,'max_output_tokens':50");
    assert_int_equal(bound.input, CONTEXT);
    assert_int_equal(bound.tool_calls, 0);
}

static void tools_that_the_client_runs_make_no_passes(void **state)
{
    struct tg_usage_bound bound = bound_it(
        *state, ENDPOINT_MESSAGES,
        "'tools':[{'name':'f','input_schema':{}},{'type':'bash_20250124','name':'bash'}]");

    assert_int_equal(bound.tool_calls, 0);
    assert_true(bound.input < 2000);
    bound_it(*state, ENDPOINT_CHAT, "'tools':[{'type':'function','function':{'name':'f'}}]");
    bound_it(*state, ENDPOINT_RESPONSES, "'tools':[{'type':'custom','name':'f'}]");
}

static void what_nothing_bounds_is_refused(void **state)
{
    static const struct {
        enum endpoint endpoint;
        const char *fields, *param;
    } rows[] = {
        {ENDPOINT_MESSAGES, "'tools':[{'type':'advisor_20260301','model':'x'}]", "tools"},
        {ENDPOINT_MESSAGES, "'fallbacks':[{'model':'x'}]", "fallbacks"},
        {ENDPOINT_MESSAGES, "'fallbacks':'default'", "fallbacks"},
        {ENDPOINT_RESPONSES, "'tools':[{'type':'code_interpreter','container':{}}],"
                             "'max_tool_calls':1",
         "tools"},
        {ENDPOINT_MESSAGES, "'tools':[{'type':'code_execution_20250825'}]", "tools"},
        {ENDPOINT_RESPONSES, "'tools':[{'type':'image_generation'}],'max_tool_calls':1", "tools"},
        {ENDPOINT_MESSAGES, "'mcp_servers':[{'url':'https://a'}]", "mcp_servers"},
        {ENDPOINT_CHAT, "'web_search_options':{}", "web_search_options"},
        {ENDPOINT_CHAT, "'tools':[{'google_search':{}}]", "tools"},
        {ENDPOINT_CHAT, "'tools':[{'type':'teleport'}]", "tools"},
        {ENDPOINT_CHAT, "'models':['a','b']", "models"},
        {ENDPOINT_CHAT, "'plugins':[{'id':'web'}]", "models"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        expect_refused(*state, rows[i].endpoint, rows[i].fields, rows[i].param, "budget");
}

static void compactions_are_passes_of_their_own(void **state)
{
    struct tg_usage_bound bound =
        bound_it(*state, ENDPOINT_RESPONSES,
                 "'context_management':[{'type':'compaction','compact_threshold':1000}],'input':"
                 "'hello','max_output_tokens':3000");

    /* one before the pass, and one for each 1024 tokens that it may write */
    assert_true(bound.input >= 3 * CONTEXT);
    assert_int_equal(bound.output, 3000 + 3 * MOST);
    bound = bound_it(*state, ENDPOINT_MESSAGES,
                     "'context_management':{'edits':[{'type':'compact_20260112'}]},'max_tokens':9");
    assert_int_equal(bound.output, 9 + MOST);
    bound = bound_it(*state, ENDPOINT_MESSAGES,
                     "'context_management':{'edits':[{'type':'clear_tool_uses_20250919'}]},"
                     "'max_tokens':9");
    assert_int_equal(bound.output, 9);
}

/* ---- Factors --------------------------------------------------------------------------------- */

static void tier_speed_and_region_multiply(void **state)
{
    struct bound_facts facts = facts_of_a_model();

    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, HELLO).factor_milli, 1000);
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, "'service_tier':'flex'").factor_milli, 1000);
    facts.tier_milli = 2500;
    assert_int_equal(
        bound_with(*state, ENDPOINT_CHAT, "'service_tier':'priority'", &facts).factor_milli, 2500);
    facts.speed_milli = 2000;
    facts.geo_milli = 1100;
    assert_int_equal(bound_with(*state, ENDPOINT_MESSAGES,
                                "'service_tier':'auto','speed':'fast','inference_geo':'us'", &facts)
                         .factor_milli,
                     5500);
}

static void tier_without_a_price_is_refused(void **state)
{
    expect_refused(*state, ENDPOINT_CHAT, "'service_tier':'priority'", "service_tier", "priority");
    expect_refused(*state, ENDPOINT_MESSAGES, "'speed':'fast'", "speed", "standard");
    expect_refused(*state, ENDPOINT_MESSAGES, "'inference_geo':'us'", "inference_geo", "global");
}

static void background_reserves_in_full(void **state)
{
    assert_int_equal(bound_it(*state, ENDPOINT_RESPONSES, "'background':true").output, MOST);
}

static void unknown_key_reserves_the_most_of_all(void **state)
{
    struct bound_facts facts = facts_of_a_model();

    facts.dearest_milli = 6000;
    struct tg_usage_bound bound = bound_with(*state, ENDPOINT_CHAT, "'max_tokens':1,'warp':9",
                                             &facts);
    assert_int_equal(bound.input, CONTEXT);
    assert_int_equal(bound.output, MOST);
    assert_int_equal(bound.factor_milli, 6000);
    facts.context = 0;
    struct ask ask = read_ask(*state, ENDPOINT_CHAT, "'max_tokens':1,'warp':9");
    struct ask_problem problem;
    assert_false(bound_of(&ask, &facts, true, &bound, &problem));
    assert_string_equal(problem.param, "warp");
}

static void no_bound_is_above_the_context(void **state)
{
    char *fields = malloc(3 * CONTEXT);
    size_t n = (size_t)sprintf(fields, "'messages':[{'content':'");

    memset(fields + n, 'a', 2 * CONTEXT);
    strcpy(fields + n + 2 * CONTEXT, "'}]");
    assert_int_equal(bound_it(*state, ENDPOINT_CHAT, fields).input, CONTEXT);
    free(fields);
}

/* docs/money.md, "What is reserved for a call". */
static void example_of_the_documents(void **state)
{
    const char *tool = "{'name':'search','description':'Searches the handbook and returns the best "
                       "passages, with their titles.','input_schema':{'type':'object','properties':"
                       "{'query':{'type':'string','description':'What to look for, in plain "
                       "words.'},'limit':{'type':'integer','minimum':1,'maximum':20}},'required':"
                       "['query']}}";
    struct bound_facts facts;
    struct tg_price price;
    char fields[4096];

    assert_int_equal(strlen(tool), 302);
    snprintf(fields, sizeof fields,
             "'max_tokens':1000,'system':[{'type':'text','text':'%02000d','cache_control':{'type':"
             "'ephemeral'}}],'tools':[%s],'messages':[{'role':'user','content':'%0500d'}]",
             0, tool, 0);
    bound_facts_init(&facts);
    facts.context = 1000000;
    facts.most_output = 128000;
    struct tg_usage_bound bound = bound_with(*state, ENDPOINT_MESSAGES, fields, &facts);
    assert_int_equal(bound.input, 2517 + 668 + 1132);
    assert_int_equal(bound.output, 1000);
    tg_price_init(&price);
    price.input = 2000000;
    price.cache_write = 2500000;
    price.output = 10000000;
    assert_int_equal(tg_price_bound(&price, &bound), 20793);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_its_bytes_in_the_form_of_its_tokenizer),
        cmocka_unit_test(messages_parts_tools_and_schemas_have_overheads),
        cmocka_unit_test(names_roles_and_ids_count),
        cmocka_unit_test(numbers_and_keys_in_messages_count),
        cmocka_unit_test(schemas_are_as_long_as_with_an_indent_of_four),
        cmocka_unit_test(deeply_nested_schemas_are_refused),
        cmocka_unit_test(output_is_what_the_call_allows),
        cmocka_unit_test(output_without_a_limit_is_the_models_most),
        cmocka_unit_test(max_tokens_of_0_is_no_limit_but_for_anthropic),
        cmocka_unit_test(a_bound_that_is_not_read_is_none),
        cmocka_unit_test(choices_and_prompts_multiply_the_output),
        cmocka_unit_test(each_prompt_has_a_context_of_its_own),
        cmocka_unit_test(predictions_may_be_billed_as_output),
        cmocka_unit_test(pro_mode_is_refused),
        cmocka_unit_test(cache_control_makes_writes),
        cmocka_unit_test(images_inline_cost_what_their_size_says),
        cmocka_unit_test(rules_of_images_are_those_of_the_documents),
        cmocka_unit_test(images_without_a_size_are_the_most),
        cmocka_unit_test(what_is_not_in_the_body_is_the_context),
        cmocka_unit_test(items_of_replies_are_the_most_that_one_has),
        cmocka_unit_test(pdf_inline_is_the_context),
        cmocka_unit_test(a_detail_counts_where_the_api_looks_for_it),
        cmocka_unit_test(other_media_in_the_place_of_an_image_are_the_context),
        cmocka_unit_test(recordings_cost_by_their_length),
        cmocka_unit_test(tools_of_the_provider_need_a_bound_on_uses),
        cmocka_unit_test(each_use_is_a_pass_over_the_context),
        cmocka_unit_test(tools_that_the_client_runs_make_no_passes),
        cmocka_unit_test(what_nothing_bounds_is_refused),
        cmocka_unit_test(compactions_are_passes_of_their_own),
        cmocka_unit_test(tier_speed_and_region_multiply),
        cmocka_unit_test(tier_without_a_price_is_refused),
        cmocka_unit_test(background_reserves_in_full),
        cmocka_unit_test(unknown_key_reserves_the_most_of_all),
        cmocka_unit_test(no_bound_is_above_the_context),
        cmocka_unit_test(example_of_the_documents),
    };

    return cmocka_run_group_tests_name("bound", tests, setup, teardown);
}
