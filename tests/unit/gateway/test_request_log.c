/* test_request_log.c - the line that a request leaves: whole, bounded, and safe to print. */
#include "check.h"

#include <string.h>

#include "gateway/request_log.h"
#include "text/json_read.h"

static struct request_line full_line(void)
{
    struct request_line line;

    request_line_init(&line);
    line.at = 1700000000120;
    line.id = 0xabc;
    line.tenant = SLICE("team a");
    line.key = SLICE("prod");
    line.user = SLICE("u\"1\"\n");
    line.endpoint = "chat";
    line.model_asked = SLICE("fast");
    line.model_served = SLICE("demo-small");
    line.provider = SLICE("demo");
    line.provider_key = SLICE("k1");
    line.status = 200;
    line.ended = "done";
    line.attempts = 2;
    line.waited_ms = 3;
    line.ttfb_ms = 40;
    line.total_ms = 500;
    line.has_usage = true;
    line.usage_reported = true;
    line.usage = (struct tg_usage){.input = 7, .cached_input = 1, .output = 9};
    line.micro_usd = 11;
    line.bytes_out = 600;
    return line;
}

static void a_line_is_one_object_of_json(void **state)
{
    struct request_line line = full_line();
    char text[REQUEST_LINE_MAX];
    size_t n = request_line_write(&line, true, text);

    (void)state;
    text[n] = 0;
    assert_string_equal(
        text,
        "{\"time\":\"2023-11-14T22:13:20.120Z\",\"level\":\"info\",\"msg\":\"request\","
        "\"id\":\"req_0000000000000abc\",\"endpoint\":\"chat\",\"tenant\":\"team a\","
        "\"key\":\"prod\",\"user\":\"u\\\"1\\\"\\u000a\",\"model\":\"fast\","
        "\"served_by\":\"demo-small\","
        "\"provider\":\"demo\",\"provider_key\":\"k1\",\"status\":200,\"ended\":\"done\","
        "\"attempts\":2,\"waited_ms\":3,\"ttfb_ms\":40,\"total_ms\":500,\"input_tokens\":7,"
        "\"cached_input_tokens\":1,\"cache_write_tokens\":0,\"output_tokens\":9,"
        "\"usage\":\"reported\",\"micro_usd\":11,\"bytes_out\":600}\n");
}

static void a_line_of_text_quotes_what_is_no_word(void **state)
{
    struct request_line line = full_line();
    char text[REQUEST_LINE_MAX];

    (void)state;
    line.has_usage = false;
    line.reason = "rate";
    size_t n = request_line_write(&line, false, text);
    text[n] = 0;
    assert_string_equal(
        text, "time=2023-11-14T22:13:20.120Z level=info msg=request id=req_0000000000000abc "
              "endpoint=chat tenant=\"team a\" key=prod user=\"u\\\"1\\\"\\u000a\" model=fast "
              "served_by=demo-small provider=demo provider_key=k1 status=200 reason=rate "
              "ended=done "
              "attempts=2 waited_ms=3 ttfb_ms=40 total_ms=500 bytes_out=600\n");
}

static void what_is_not_known_is_left_out(void **state)
{
    struct request_line line;
    char text[REQUEST_LINE_MAX];

    (void)state;
    request_line_init(&line);
    size_t n = request_line_write(&line, true, text);
    text[n] = 0;
    assert_string_equal(text, "{\"time\":\"1970-01-01T00:00:00Z\",\"level\":\"info\","
                              "\"msg\":\"request\",\"id\":\"req_0000000000000000\"}\n");
}

/* Every name as long and as hard to escape as can be, every number as large. */
static void the_longest_line_is_still_whole(void **state)
{
    struct json_reader *reader = json_reader_new();
    struct request_line line = full_line();
    struct json_value root;
    char hard[2000], text[REQUEST_LINE_MAX];
    struct slice name = {hard, sizeof hard};

    (void)state;
    memset(hard, '\x01', sizeof hard);
    line.at = TG_NUMBER_MAX;
    line.id = UINT64_MAX;
    line.tenant = line.key = line.user = line.peer = line.route = line.model_asked = name;
    line.model_served = line.provider = line.provider_key = name;
    line.reason = line.failure = "upstream_first_byte_timeout";
    line.attempts = line.waited_ms = line.ttfb_ms = line.total_ms = INT64_MAX;
    line.usage = (struct tg_usage){INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    line.micro_usd = line.bytes_out = INT64_MAX;
    for (int json = 0; json < 2; json++) {
        size_t n = request_line_write(&line, json, text);
        assert_true(n < REQUEST_LINE_MAX);
        assert_int_equal(text[n - 1], '\n');
        assert_null(memchr(text, '\n', n - 1));
        assert_null(memchr(text, '\x01', n));
        text[n] = 0;
        assert_non_null(strstr(text, json ? "\"bytes_out\":9223372036854775807}"
                                          : "bytes_out=9223372036854775807\n"));
        if (json) {
            json_begin(reader, text, n, n, &root);
            assert_true(json_end(reader));
        }
    }
    json_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_object_of_json),
        cmocka_unit_test(a_line_of_text_quotes_what_is_no_word),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(the_longest_line_is_still_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
