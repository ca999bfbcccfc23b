/* test_trace.c - spans: their names, batches of them, and what happens when nobody takes them. */
#include "log_kit.h"

#include <stdlib.h>

#include "io/text/json_read.h"
#include "server/obs/traces.h"

static struct trace_batch batch;

#define HEAD                                                                      \
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":["                         \
    "{\"key\":\"service.name\",\"value\":{\"stringValue\":\"tollgate\"}},"        \
    "{\"key\":\"service.version\",\"value\":{\"stringValue\":\"%s\"}},"           \
    "{\"key\":\"service.instance.id\",\"value\":{\"stringValue\":\"host-7\"}}]}," \
    "\"scopeSpans\":[{\"scope\":{\"name\":\"tollgate\",\"version\":\"%s\"},\"spans\":["

#define TEXT(key, text) "{\"key\":\"" key "\",\"value\":{\"stringValue\":\"" text "\"}}"
#define COUNT(key, n) "{\"key\":\"" key "\",\"value\":{\"intValue\":\"" n "\"}}"

#define SPAN                                                                             \
    "{\"traceId\":\"4b000000000000000000000000000036\",\"spanId\":\"00000000000000b7\"," \
    "\"parentSpanId\":\"00f0010000000000\",\"name\":\"chat fast\",\"kind\":3,"           \
    "\"startTimeUnixNano\":\"1699999999620000000\","                                     \
    "\"endTimeUnixNano\":\"1700000000120000000\",\"attributes\":["

/* The document of what is in the lanes. */
static void fill(struct trace *trace)
{
    assert_true(trace_batch_fill(trace, "host-7", &batch));
    assert_true(batch.n < sizeof batch.text);
    batch.text[batch.n] = 0;
}

static void expect_json(void)
{
    struct json_reader *reader = json_reader_new();
    struct json_value root;

    json_begin(reader, batch.text, batch.n, batch.n, &root);
    assert_true(json_end(reader));
    json_reader_free(reader);
}

static void a_call_is_a_span_with_the_names_of_generative_ai(void **state)
{
    const struct trace_server server = {.address = "api.example.com", .port = 443};
    const uint8_t parent[8] = {0, 0xf0, 1};
    static const char *const attributes[] = {
        TEXT("gen_ai.operation.name", "chat"),
        TEXT("gen_ai.provider.name", "demo"),
        TEXT("gen_ai.request.model", "fast"),
        TEXT("gen_ai.response.model", "demo-large"),
        COUNT("gen_ai.request.max_tokens", "100"),
        COUNT("gen_ai.usage.input_tokens", "8"),
        COUNT("gen_ai.usage.output_tokens", "9"),
        COUNT("gen_ai.usage.cache_read.input_tokens", "1"),
        COUNT("gen_ai.usage.cache_creation.input_tokens", "0"),
        COUNT("tollgate.spent_micro_usd", "11"),
        TEXT("server.address", "api.example.com"),
        COUNT("server.port", "443"),
        COUNT("http.response.status_code", "200"),
        TEXT("tollgate.tenant", "team a"),
        TEXT("tollgate.priority", "normal"),
        COUNT("tollgate.attempts", "2"),
        COUNT("tollgate.waited_ms", "3"),
        COUNT("tollgate.ttfb_ms", "40"),
        COUNT("tollgate.generation", "3"),
        TEXT("tollgate.request_id", "req_0000000000000abc"),
    };
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct report report;
    char want[8192];

    (void)state;
    full_report(&report);
    trace_request(trace_lane_new(trace), &report, parent, &server);
    fill(trace);
    size_t n = (size_t)snprintf(want, sizeof want, HEAD SPAN, tg_version(), tg_version());
    for (size_t i = 0; i < COUNT_OF(attributes); i++)
        n += (size_t)snprintf(want + n, sizeof want - n, "%s%s", i > 0 ? "," : "", attributes[i]);
    snprintf(want + n, sizeof want - n, "]}]}]}]}");
    assert_string_equal(batch.text, want);
    assert_int_equal(batch.spans, 1);
    expect_json();
    trace_free(trace);
}

static void a_denial_has_its_reason_and_its_axis(void **state)
{
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct trace_lane *lane = trace_lane_new(trace);
    struct report report;

    (void)state;
    refused_report(&report, "rate");
    report.axis = "rate";
    report.kind = "messages";
    report.sampled = true;
    trace_request(lane, &report, NULL, NULL);
    fill(trace);
    assert_non_null(strstr(batch.text, "\"name\":\"chat\",\"kind\":3"));
    assert_non_null(strstr(batch.text, TEXT("tollgate.binding_axis", "rate")));
    assert_non_null(strstr(batch.text, TEXT("tollgate.reason", "rate")));
    assert_non_null(strstr(batch.text, TEXT("error.type", "rate")));
    assert_non_null(strstr(batch.text, "\"status\":{\"code\":2}"));
    assert_null(strstr(batch.text, "parentSpanId"));
    expect_json();

    report.reason = NULL; /* it was admitted: no axis was binding */
    report.status = 200;
    trace_request(lane, &report, NULL, NULL);
    fill(trace);
    assert_null(strstr(batch.text, "binding_axis"));
    assert_null(strstr(batch.text, "\"status\""));
    trace_free(trace);
}

static void a_protected_route_is_a_server(void **state)
{
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct report report;

    (void)state;
    refused_report(&report, "memory_pressure");
    report.kind = "protect";
    report.route = SLICE("/api");
    report.path = SLICE("GET /api/read");
    report.status = 503;
    report.sampled = true;
    trace_request(trace_lane_new(trace), &report, NULL, NULL);
    fill(trace);
    assert_non_null(strstr(batch.text, "\"name\":\"GET /api\",\"kind\":2"));
    assert_non_null(strstr(batch.text, TEXT("http.route", "/api")));
    assert_null(strstr(batch.text, "gen_ai."));
    expect_json();
    trace_free(trace);
}

static void what_is_not_sampled_is_not_kept(void **state)
{
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct report report;

    (void)state;
    full_report(&report);
    report.sampled = false;
    trace_request(trace_lane_new(trace), &report, NULL, NULL);
    assert_false(trace_batch_fill(trace, "host-7", &batch));
    trace_free(trace);
}

static void the_longest_span_is_still_whole(void **state)
{
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct report report;
    char hard[2000];
    struct slice name = {hard, sizeof hard};

    (void)state;
    full_report(&report);
    memset(hard, '\x01', sizeof hard);
    const struct trace_server server = {.address = "x", .port = 65535};
    report.tenant = report.model_asked = report.model_served = report.provider = name;
    report.reason = report.failure = "upstream_first_byte_timeout";
    report.axis = "concurrency";
    report.status = 503;
    report.began_at = report.at = TG_NUMBER_MAX;
    report.attempts = report.waited_ms = report.ttfb_ms = report.max_output = INT64_MAX;
    report.usage = (struct tg_usage){.input = TG_NUMBER_MAX,
                                     .cached_input = TG_NUMBER_MAX,
                                     .cache_write = TG_NUMBER_MAX,
                                     .output = TG_NUMBER_MAX};
    report.spent = INT64_MAX;
    report.generation = INT64_MAX;
    trace_request(trace_lane_new(trace), &report, NULL, &server);
    fill(trace);
    expect_json();
    assert_non_null(strstr(batch.text, TEXT("tollgate.request_id", "req_0000000000000abc")));
    trace_free(trace);
}

/* However many are waiting, in whichever lane: each comes once, in documents that are bounded. */
static void batches_are_bounded_and_leave_none_out(void **state)
{
    struct trace *trace = trace_new((size_t)4 << 20);
    struct trace_lane *lanes[3];
    struct report report;
    size_t spans = 0, batches = 0;

    (void)state;
    full_report(&report);
    for (size_t i = 0; i < COUNT_OF(lanes); i++)
        lanes[i] = trace_lane_new(trace);
    for (int i = 0; i < 1500; i++)
        trace_request(lanes[i % 3], &report, NULL, NULL);
    while (trace_batch_fill(trace, "host-7", &batch)) {
        assert_true(batch.n <= TRACE_BATCH_BYTES);
        expect_json();
        batch.text[batch.n - 1] = 0;
        assert_int_equal(count_of(batch.text, "\"traceId\""), batch.spans);
        spans += batch.spans;
        batches++;
    }
    assert_int_equal(spans, 1500);
    assert_true(batches > 1);
    trace_free(trace);
}

static void without_a_taker_spans_are_dropped_and_counted(void **state)
{
    struct trace *trace = trace_new(16384);
    struct trace_lane *lane = trace_lane_new(trace);
    struct trace_counts counts;
    struct report report;

    (void)state;
    full_report(&report);
    for (int i = 0; i < 100; i++)
        trace_request(lane, &report, NULL, NULL);
    trace_get_counts(trace, &counts);
    assert_int_equal(counts.taken, 0);
    assert_true(counts.dropped > 80 && counts.dropped < 100);
    uint64_t dropped = counts.dropped;
    fill(trace);
    assert_int_equal(batch.spans, 100 - dropped);
    trace_batch_lost(trace, &batch);
    trace_get_counts(trace, &counts);
    assert_int_equal(counts.taken, 100 - dropped);
    assert_int_equal(counts.dropped, 100);
    trace_free(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_a_span_with_the_names_of_generative_ai),
        cmocka_unit_test(a_denial_has_its_reason_and_its_axis),
        cmocka_unit_test(a_protected_route_is_a_server),
        cmocka_unit_test(what_is_not_sampled_is_not_kept),
        cmocka_unit_test(the_longest_span_is_still_whole),
        cmocka_unit_test(batches_are_bounded_and_leave_none_out),
        cmocka_unit_test(without_a_taker_spans_are_dropped_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
