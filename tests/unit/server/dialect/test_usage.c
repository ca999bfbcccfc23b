/* test_usage.c - what a reply says was used, found in it however it is cut. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/usage.h"

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

/* Feeds a reply in pieces of at most `piece` bytes, the first one `first` long. ' stands for ". */
static struct usage_reading scan(struct json_reader *reader, const char *text, size_t first,
                                 size_t piece, struct usage_scan *scan)
{
    struct usage_reading reading;
    size_t n = strlen(text);

    usage_scan_init(scan);
    for (size_t at = 0; at < n;) {
        size_t now = at == 0 && first > 0 ? first : piece;
        now = now < n - at ? now : n - at;
        char *exact = malloc(now);
        for (size_t i = 0; i < now; i++)
            exact[i] = text[at + i] == '\'' ? '"' : text[at + i];
        usage_scan_feed(scan, exact, now);
        free(exact);
        at += now;
    }
    usage_scan_end(scan, reader, NULL, &reading);
    return reading;
}

static struct usage_reading scan_whole(struct json_reader *reader, const char *text)
{
    struct usage_scan room;

    return scan(reader, text, 0, SIZE_MAX, &room);
}

/* ---- The object ------------------------------------------------------------------------------ */

static void every_api_is_understood(void **state)
{
    static const struct {
        const char *usage;
        struct tg_usage want;
        int64_t reasoning;
    } rows[] = {
        /* chat */
        {"{'prompt_tokens':19,'completion_tokens':10,'total_tokens':29}",
         {.input = 19, .output = 10},
         0},
        {"{'prompt_tokens':2006,'completion_tokens':300,'total_tokens':2306,"
         "'prompt_tokens_details':{'cached_tokens':1920,'audio_tokens':0},"
         "'completion_tokens_details':{'reasoning_tokens':128,'audio_tokens':0,"
         "'accepted_prediction_tokens':0,'rejected_prediction_tokens':0}}",
         {.input = 86, .cached_input = 1920, .output = 300},
         128},
        {"{'prompt_tokens':100,'completion_tokens':5,'prompt_tokens_details':"
         "{'cached_tokens':60,'cache_write_tokens':30}}",
         {.input = 10, .cached_input = 60, .cache_write = 30, .output = 5},
         0},
        {"{'prompt_tokens':100,'completion_tokens':5,'prompt_tokens_details':null}",
         {.input = 100, .output = 5},
         0},
        {"{'prompt_tokens':100,'completion_tokens':5,'prompt_cache_hit_tokens':90,"
         "'prompt_cache_miss_tokens':10}",
         {.input = 10, .cached_input = 90, .output = 5},
         0},
        /* thinking reported beside the output, with and without its number */
        {"{'prompt_tokens':10,'completion_tokens':5,'total_tokens':45,"
         "'completion_tokens_details':{'reasoning_tokens':30}}",
         {.input = 10, .output = 35},
         30},
        {"{'prompt_tokens':10,'completion_tokens':5,'total_tokens':45}",
         {.input = 10, .output = 35},
         0},
        /* embeddings */
        {"{'prompt_tokens':8,'total_tokens':8}", {.input = 8}, 0},
        {"{'total_tokens':8}", {.input = 8}, 0},
        /* responses */
        {"{'input_tokens':81,'input_tokens_details':{'cached_tokens':16},'output_tokens':1035,"
         "'output_tokens_details':{'reasoning_tokens':832},'total_tokens':1116}",
         {.input = 65, .cached_input = 16, .output = 1035},
         832},
        /* messages */
        {"{'input_tokens':25,'output_tokens':15}", {.input = 25, .output = 15}, 0},
        {"{'input_tokens':21,'cache_creation_input_tokens':188,'cache_read_input_tokens':1000,"
         "'output_tokens':393,'service_tier':'standard','server_tool_use':"
         "{'web_search_requests':1},"
         "'cache_creation':{'ephemeral_5m_input_tokens':100,'ephemeral_1h_input_tokens':88}}",
         {.input = 21,
          .cached_input = 1000,
          .cache_write = 100,
          .cache_write_long = 88,
          .output = 393,
          .tool_calls = 1},
         0},
        {"{'input_tokens':21,'cache_creation':{'ephemeral_5m_input_tokens':1,"
         "'ephemeral_1h_input_tokens':2},'output_tokens':3}",
         {.input = 21, .cache_write = 1, .cache_write_long = 2, .output = 3},
         0},
        /* a total above its parts: 500 - 100 - 88 are kept for 5 minutes, too */
        {"{'input_tokens':21,'cache_creation_input_tokens':500,'output_tokens':3,"
         "'cache_creation':{'ephemeral_5m_input_tokens':100,'ephemeral_1h_input_tokens':88}}",
         {.input = 21, .cache_write = 412, .cache_write_long = 88, .output = 3},
         0},
        /* thinking that is not shown is within the output */
        {"{'input_tokens':10,'output_tokens':900,'output_tokens_details':{'thinking_tokens':880}}",
         {.input = 10, .output = 900},
         880},
        /* pages that are fetched are free, searches and code are not */
        {"{'input_tokens':1,'output_tokens':1,'server_tool_use':{'web_search_requests':3,"
         "'web_fetch_requests':7,'code_execution_requests':2}}",
         {.input = 1, .output = 1, .tool_calls = 5},
         0},
        /* passes that the totals leave out: 100 + 5,000 + 200, 10 + 300 + 20 */
        {"{'input_tokens':300,'output_tokens':30,'cache_read_input_tokens':50,'iterations':["
         "{'type':'message','input_tokens':100,'output_tokens':10,'cache_read_input_tokens':0,"
         "'cache_creation_input_tokens':0},"
         "{'type':'compaction','input_tokens':5000,'output_tokens':300,"
         "'cache_creation_input_tokens':40,'cache_creation':{'ephemeral_1h_input_tokens':40}},"
         "{'type':'message','input_tokens':200,'cache_read_input_tokens':50,'output_tokens':20}],"
         "'server_tool_use':{'web_search_requests':1}}",
         {.input = 5300,
          .cached_input = 50,
          .cache_write_long = 40,
          .output = 330,
          .tool_calls = 1,
          .longest = 5040},
         0},
        /* fewer passes than the totals have are not all of them */
        {"{'input_tokens':300,'output_tokens':30,'iterations':[{'input_tokens':1,"
         "'output_tokens':1}]}",
         {.input = 300, .output = 30},
         0},
        {"{'input_tokens':300,'output_tokens':30,'iterations':[]}",
         {.input = 300, .output = 30},
         0},
        /* responses, writes for 30 minutes and 12 hours within the input: 9000 - 1000 - 6000 */
        {"{'input_tokens':9000,'input_tokens_details':{'cached_tokens':1000,"
         "'cache_write_tokens':6000,'cache_write_tokens_details':{'ttl_30m_tokens':2000,"
         "'ttl_12h_tokens':4000}},'output_tokens':7,'output_tokens_details':"
         "{'reasoning_tokens':0},'total_tokens':9007}",
         {.input = 2000,
          .cached_input = 1000,
          .cache_write = 2000,
          .cache_write_long = 4000,
          .output = 7},
         0},
        /* audio and images are within: 700 - 600 - 40 and 1,300 - 1,200; and cached ones once */
        {"{'prompt_tokens':700,'completion_tokens':1300,'prompt_tokens_details':"
         "{'audio_tokens':600,'image_tokens':40,'text_tokens':60},'completion_tokens_details':"
         "{'audio_tokens':1200,'text_tokens':100}}",
         {.input = 60, .audio_input = 600, .image_input = 40, .output = 100, .audio_output = 1200},
         0},
        {"{'prompt_tokens':700,'completion_tokens':1,'prompt_tokens_details':"
         "{'audio_tokens':600,'cached_tokens':640}}",
         {.cached_input = 100, .audio_input = 600, .output = 1},
         0},
        /* a prediction that was rejected is within the output */
        {"{'prompt_tokens':10,'completion_tokens':500,'total_tokens':510,"
         "'completion_tokens_details':{'rejected_prediction_tokens':450,'reasoning_tokens':0}}",
         {.input = 10, .output = 500},
         0},
        /* Gemini: 1,000 with 300 cached, and 50 of tools' results; 80 and 400 of thinking */
        {"{'promptTokenCount':1000,'cachedContentTokenCount':300,'toolUsePromptTokenCount':50,"
         "'candidatesTokenCount':80,'thoughtsTokenCount':400,'totalTokenCount':1530,"
         "'promptTokensDetails':[{'modality':'TEXT','tokenCount':742},"
         "{'modality':'IMAGE','tokenCount':258}],'trafficType':'ON_DEMAND'}",
         {.input = 492, .cached_input = 300, .image_input = 258, .output = 480},
         400},
        {"{'promptTokenCount':10,'thoughtsTokenCount':9,'totalTokenCount':19,"
         "'candidatesTokensDetails':[{'modality':'IMAGE','tokenCount':4}]}",
         {.input = 10, .output = 5, .image_output = 4},
         5},
        /* both at once, as translating gateways write them */
        {"{'prompt_tokens':100,'completion_tokens':5,'total_tokens':105,'prompt_tokens_details':"
         "{'cached_tokens':60},'cache_read_input_tokens':60,'cache_creation_input_tokens':30}",
         {.input = 10, .cached_input = 60, .cache_write = 30, .output = 5},
         0},
        /* zeros are zeros; whole numbers may have a point */
        {"{'prompt_tokens':0,'completion_tokens':0,'total_tokens':0}", {.input = 0}, 0},
        {"{'prompt_tokens':7.0,'completion_tokens':1e1}", {.input = 7, .output = 10}, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char reply[1024];
        snprintf(reply, sizeof reply, "{'id':'x','usage':%s}", rows[i].usage);
        struct usage_reading got = scan_whole(*state, reply);
        if (!got.found || got.absurd || got.reasoning != rows[i].reasoning ||
            memcmp(&got.usage, &rows[i].want, sizeof got.usage) != 0)
            fail_msg("%s: %lld %lld %lld %lld, %lld", rows[i].usage, (long long)got.usage.input,
                     (long long)got.usage.cached_input, (long long)got.usage.cache_write,
                     (long long)got.usage.output, (long long)got.reasoning);
    }
}

static void nothing_is_not_zero(void **state)
{
    static const char *const replies[] = {
        "",
        "{}",
        "{'usage':null}",
        "{'usage':{}}",
        "{'usage':5}",
        "{'usage':'x'}",
        "[{'usage':{}}]",
        "{'usage':{'prompt_tokens':null,'completion_tokens':null}}",
        "{'a':{'usage':{'prompt_tokens':5}}}",
        "{'usage':{'prompt_tokens':5,'prompt_tokens':6}}",
        "{'usage':{'prompt_tokens':5",
        "{'usage':{'prompt_tokens':05}}",
        "{'usages':{'prompt_tokens':5}}",
        "not JSON",
        "{'text':'\\'usage\\':{\\'prompt_tokens\\':5}'}",
        "{'usage':{'prompt_tokens':5},'usage':null}",
    };

    for (size_t i = 0; i < COUNT_OF(replies); i++)
        if (scan_whole(*state, replies[i]).found)
            fail_msg("%s: something was found", replies[i]);
    struct usage_reading input = scan_whole(*state, "{'usage':{'prompt_tokens':0}}");
    assert_true(input.found && input.has_input && !input.has_output);
    struct usage_reading output = scan_whole(*state, "{'usage':{'output_tokens':0}}");
    assert_true(output.found && output.has_output && !output.has_input);
}

static void what_nobody_can_have_meant_is_absurd(void **state)
{
    static const char *const usages[] = {
        "{'prompt_tokens':-1}",
        "{'prompt_tokens':1.5}",
        "{'prompt_tokens':'5'}",
        "{'prompt_tokens':true}",
        "{'prompt_tokens':1000000001}",
        "{'prompt_tokens':1e300}",
        "{'prompt_tokens':-1e300}",
        "{'prompt_tokens':[]}",
        "{'prompt_tokens':99999999999999999999}",
        "{'prompt_tokens':9223372036854775807}",
        "{'prompt_tokens':5,'prompt_tokens_details':{'cached_tokens':6}}",
        "{'prompt_tokens':5,'prompt_tokens_details':{'cached_tokens':3,'cache_write_tokens':3}}",
        "{'prompt_tokens':5,'completion_tokens':1,'completion_tokens_details':"
        "{'reasoning_tokens':-2}}",
        "{'prompt_tokens':5,'prompt_tokens_details':{'audio_tokens':6}}",
        "{'completion_tokens':5,'completion_tokens_details':{'audio_tokens':3,'image_tokens':3}}",
        "{'input_tokens':1,'iterations':[{'input_tokens':-1}]}",
        "{'input_tokens':1,'server_tool_use':{'web_search_requests':1.5}}",
        "{'promptTokenCount':1,'promptTokensDetails':[{'modality':'AUDIO','tokenCount':-1}]}",
        "{'input_tokens':1,'cache_creation':{'ephemeral_5m_input_tokens':9223372036854775807,"
        "'ephemeral_1h_input_tokens':9223372036854775807}}",
    };
    static const struct tg_usage nothing;

    for (size_t i = 0; i < COUNT_OF(usages); i++) {
        char reply[512];
        snprintf(reply, sizeof reply, "{'usage':%s}", usages[i]);
        struct usage_reading got = scan_whole(*state, reply);
        if (!got.found || !got.absurd || memcmp(&got.usage, &nothing, sizeof nothing) != 0)
            fail_msg("%s is believed", usages[i]);
    }
}

/* ---- Beside the usage ------------------------------------------------------------------------ */

static void what_was_served_is_told(void **state)
{
    static const struct {
        const char *reply, *tier, *speed, *geo;
    } rows[] = {
        {"{'service_tier':'priority','usage':{'prompt_tokens':1}}", "priority", "", ""},
        {"{'usage':{'prompt_tokens':1},'service_tier':'default','x':'y'}", "default", "", ""},
        {"{'usage':{'prompt_tokens':1},'service_tier':null}", "", "", ""},
        {"{'usage':{'input_tokens':1,'service_tier':'standard','speed':'fast',"
         "'inference_geo':'us'}}",
         "standard", "fast", "us"},
        {"{'usageMetadata':{'promptTokenCount':1,'trafficType':'ON_DEMAND_PRIORITY'}}",
         "ON_DEMAND_PRIORITY", "", ""},
        {"{'choices':[{'service_tier':'flex'}],'usage':{'prompt_tokens':1}}", "", "", ""},
        {"{'service_tier':'a tier whose name is far too long','usage':{'prompt_tokens':1}}",
         "a_tier_whose_name_is_fa", "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct usage_reading got = scan_whole(*state, rows[i].reply);
        assert_true(got.found);
        assert_string_equal(got.tier, rows[i].tier);
        assert_string_equal(got.speed, rows[i].speed);
        assert_string_equal(got.geo, rows[i].geo);
    }
}

/* A search is billed, a page that is opened is not. */
static void calls_of_tools_are_counted(void **state)
{
    static const char items[] =
        "'output':[{'type':'web_search_call','action':{'type':'search','sources':[{'type':'url'}],"
        "'query':'q'}},{'type':'web_search_call','action':{'type':'open_page','url':'u'}},"
        "{'type':'web_search_call','action':{'queries':['a'],'type':'search'}},"
        "{'type':'file_search_call','results':[{'type':'search'}]},"
        "{'type':'message','content':[{'type':'search','text':'search'}]}]";
    char reply[1200];

    snprintf(reply, sizeof reply, "{%s,'usage':{'input_tokens':5,'output_tokens':6}}", items);
    assert_int_equal(scan_whole(*state, reply).usage.tool_calls, 3);
    snprintf(reply, sizeof reply,
             "{%s,'tool_usage':{'web_search':{'num_requests':7},'image_gen':{'input_tokens':50,"
             "'output_tokens':1056}},'usage':{'input_tokens':5,'input_tokens_details':"
             "{'cached_tokens':2},'output_tokens':6}}",
             items);
    struct usage_reading got = scan_whole(*state, reply);
    static const struct tg_usage want = {.input = 3,
                                         .cached_input = 2,
                                         .output = 6,
                                         .image_input = 50,
                                         .image_output = 1056,
                                         .tool_calls = 7};
    assert_memory_equal(&got.usage, &want, sizeof want);
    got = scan_whole(*state, "{'usage':{'input_tokens':5},'tool_usage':{'x':{'num_requests':-1}}}");
    assert_true(got.absurd && got.usage.input == 0);
}

static void a_refusal_before_any_output_is_free(void **state)
{
    static const struct {
        const char *reply;
        bool free;
    } rows[] = {
        {"{'content':[],'stop_reason':'refusal','usage':{'input_tokens':9,'output_tokens':0}}",
         true},
        {"{'content':[],'stop_reason':'refusal','usage':{'input_tokens':9,'output_tokens':1}}",
         false},
        {"{'content':[{'type':'text','text':'I'}],'stop_reason':'refusal',"
         "'usage':{'input_tokens':9,'output_tokens':0}}",
         false},
        {"{'content':[],'stop_reason':'end_turn','usage':{'input_tokens':9,'output_tokens':0}}",
         false},
        {"{'content':[{'stop_reason':'refusal'}],'usage':{'input_tokens':9,'output_tokens':0}}",
         false},
    };
    struct usage_scan room;

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t piece = 1; piece < 200; piece += 13) {
            struct usage_reading got = scan(*state, rows[i].reply, 0, piece, &room);
            assert_int_equal(usage_is_free(&got, room.text_bytes), rows[i].free);
            assert_int_equal(got.usage.input, 9);
        }
}

/* ---- The scan -------------------------------------------------------------------------------- */

static const char chat[] =
    "{\n  'id': 'chatcmpl-1', 'object': 'chat.completion', 'model': 'm \\\\', 'error': null,\n"
    "  'choices': [{'index': 0, 'message': {'role': 'assistant', 'content': 'a }{][ \\'usage\\': "
    "{\\'prompt_tokens\\': 1} \\u00e9\\ud83d\\ude00 \xc3\xa9', 'refusal': null, "
    "'tool_calls': [{'id': 'c',"
    "'function': {'name': 'f', 'arguments': '{}'}}], 'usage': {'prompt_tokens': 2}}}],\n"
    "  'us\\u0061ge': { 'prompt_tokens' : 12, 'completion_tokens' : 34, 'x': ['}', "
    "{'usage': 1}] } ,"
    "'system_fingerprint': 'fp' }\n";

static void every_cut_gives_the_same(void **state)
{
    struct usage_scan whole;
    struct usage_scan cut;
    struct usage_reading want = scan(*state, chat, 0, SIZE_MAX, &whole);

    assert_int_equal(want.usage.input, 12);
    assert_int_equal(want.usage.output, 34);
    assert_true(whole.complete && !whole.broken && !whole.error);
    for (size_t first = 0; first < strlen(chat); first++)
        for (size_t piece = 1; piece < 4000; piece = piece * 5 + 2) {
            struct usage_reading got = scan(*state, chat, first, piece, &cut);
            if (memcmp(&got.usage, &want.usage, sizeof want.usage) != 0 ||
                cut.text_bytes != whole.text_bytes || cut.complete != whole.complete)
                fail_msg("cut at %zu, then by %zu", first, piece);
        }
}

static void a_byte_order_mark_is_no_part_of_a_reply(void **state)
{
    static const char marked[] = "\xef\xbb\xbf{'usage':{'prompt_tokens':7,'completion_tokens':8}}";
    struct usage_scan room;

    for (size_t first = 0; first < 8; first++) {
        assert_int_equal(scan(*state, marked, first, SIZE_MAX, &room).usage.input, 7);
        assert_true(room.complete);
    }
    scan(*state, "{\xef\xbb\xbf}", 0, SIZE_MAX, &room);
    assert_true(room.complete); /* like any other word that is none of JSON's */
    scan(*state, "x{}", 0, SIZE_MAX, &room);
    assert_true(room.broken);
    scan(*state, " \xef\xbb\xbf{}", 0, SIZE_MAX, &room);
    assert_true(room.broken);
}

/* "a }{][ ... é😀 é", unescaped, and {} of the arguments. */
static void text_of_the_model_is_counted(void **state)
{
    struct usage_scan room;

    scan(*state, chat, 0, SIZE_MAX, &room);
    assert_int_equal(room.text_bytes, 7 + 9 + 20 + 1 + 2 + 4 + 1 + 2 + 2);
    scan(*state, "{'content':[{'type':'text','text':'abc'},{'type':'tool_use','name':'f','input':"
                 "{'where':'here','deep':{'x':['y']}}}],'role':'assistant','stop':'no'}",
         0, SIZE_MAX, &room);
    assert_int_equal(room.text_bytes, 3 + 4 + 1);
}

static void errors_at_the_top_are_seen(void **state)
{
    struct usage_scan room;

    scan(*state, "{'error':{'message':'x'}}", 0, 1, &room);
    assert_true(room.error && room.complete);
    scan(*state, "{'error':'x'}", 0, 1, &room);
    assert_true(room.error);
    scan(*state, "{'error': null,'a':{'error':1}}", 0, 1, &room);
    assert_false(room.error);
}

static void usage_has_a_bound_and_the_reply_has_none(void **state)
{
    size_t n = 200000;
    char *reply = malloc(n + 400);
    struct usage_scan room;

    /* A large reply around a small usage; then a usage that is too large,
        and one that follows it. */
    strcpy(reply, "{'data':'");
    memset(reply + 9, 'x', n);
    strcpy(reply + 9 + n, "','usage':{'prompt_tokens':3}}");
    assert_int_equal(scan(*state, reply, 0, 999, &room).usage.input, 3);
    strcpy(reply, "{'usage':{'pad':'");
    memset(reply + 17, 'x', n);
    strcpy(reply + 17 + n, "','prompt_tokens':3},'b':1}");
    assert_false(scan(*state, reply, 0, 999, &room).found);
    assert_true(room.too_long && room.complete);
    strcpy(reply + 17 + n, "'},'usage':{'prompt_tokens':4}}");
    assert_int_equal(scan(*state, reply, 0, 999, &room).usage.input, 4);
    assert_false(room.too_long);
    free(reply);
}

static void usage_of_the_greatest_size_is_read(void **state)
{
    static const char head[] = "{'usage':{'prompt_tokens':3,'pad':'";
    char reply[USAGE_VALUE_MAX + 64];
    struct usage_scan room;

    for (int over = 0; over < 2; over++) {
        size_t pad = USAGE_VALUE_MAX + (size_t)over - (sizeof head - 1 - 9) - 2;
        strcpy(reply, head);
        memset(reply + sizeof head - 1, 'x', pad);
        strcpy(reply + sizeof head - 1 + pad, "'}}");
        assert_int_equal(scan(*state, reply, 0, 7, &room).found, !over);
        assert_int_equal(room.too_long, over);
    }
}

static void nesting_without_end_is_broken(void **state)
{
    char reply[600];
    struct usage_scan room;

    memset(reply, '[', sizeof reply);
    memcpy(reply, "{'a':", 5);
    reply[sizeof reply - 1] = '\0';
    scan(*state, reply, 0, SIZE_MAX, &room);
    assert_true(room.broken && !room.complete);
    scan(*state, "{'a':[}", 0, 1, &room);
    assert_true(room.broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_api_is_understood),
        cmocka_unit_test(nothing_is_not_zero),
        cmocka_unit_test(what_nobody_can_have_meant_is_absurd),
        cmocka_unit_test(what_was_served_is_told),
        cmocka_unit_test(calls_of_tools_are_counted),
        cmocka_unit_test(a_refusal_before_any_output_is_free),
        cmocka_unit_test(every_cut_gives_the_same),
        cmocka_unit_test(a_byte_order_mark_is_no_part_of_a_reply),
        cmocka_unit_test(text_of_the_model_is_counted),
        cmocka_unit_test(errors_at_the_top_are_seen),
        cmocka_unit_test(usage_has_a_bound_and_the_reply_has_none),
        cmocka_unit_test(usage_of_the_greatest_size_is_read),
        cmocka_unit_test(nesting_without_end_is_broken),
    };

    return cmocka_run_group_tests_name("usage", tests, setup, teardown);
}
