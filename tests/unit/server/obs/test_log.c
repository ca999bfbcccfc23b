/* test_log.c - a log as those who read it see it: lines, events, what is left out and what is lost.
 */
#include "log_kit.h"

#include <fcntl.h>
#include <stdlib.h>

#include "io/text/json_read.h"

static struct log_kit kit;

static void a_request_is_a_line_with_all_that_is_known(void **state)
{
    struct report report;

    (void)state;
    full_report(&report);
    kit_init(&kit);
    kit_open(&kit);
    log_request(log_lane_new(kit.log), &report, NULL);
    kit_close(&kit);
    assert_string_equal(
        kit.text,
        "{\"time\":\"2023-11-14T22:13:20.120Z\",\"level\":\"info\",\"msg\":\"request\","
        "\"id\":\"req_0000000000000abc\",\"upstream_id\":\"chatcmpl-1\",\"endpoint\":\"chat\","
        "\"tenant\":\"team a\","
        "\"key\":\"prod\",\"user\":\"u\\\"1\\\"\\u000a\",\"peer\":\"team a\","
        "\"priority\":\"normal\",\"model\":\"fast\",\"served_by\":\"demo-large\","
        "\"provider\":\"demo\",\"provider_key\":\"k1\",\"fallback_from\":\"demo-small\","
        "\"fallback_why\":\"limited\",\"status\":200,\"upstream_status\":200,"
        "\"would_deny\":\"rate,budget\",\"ended\":\"done\",\"client_retry\":true,\"attempts\":2,"
        "\"retries\":1,\"waited_ms\":3,\"overhead_us\":45,\"ttfb_ms\":40,\"upstream_ms\":480,"
        "\"total_ms\":500,\"stream\":true,\"estimated_input_tokens\":8,\"max_output_tokens\":100,"
        "\"reserved_micro_usd\":30,\"input_tokens\":7,\"cached_input_tokens\":1,"
        "\"cache_write_tokens\":0,\"output_tokens\":9,\"reasoning_tokens\":4,"
        "\"usage\":\"reported\",\"micro_usd\":11,\"bytes_in\":234,\"bytes_out\":600,"
        "\"generation\":3,\"trace_id\":\"4b000000000000000000000000000036\"}\n");
}

static void a_line_of_text_has_the_same(void **state)
{
    struct report report;

    (void)state;
    full_report(&report);
    report.has_usage = false;
    report.ended = "hangup_answering";
    kit_init(&kit);
    kit.options.json = false;
    kit_open(&kit);
    log_request(log_lane_new(kit.log), &report, NULL);
    kit_close(&kit);
    assert_string_equal(
        kit.text,
        "time=2023-11-14T22:13:20.120Z level=info msg=request id=req_0000000000000abc "
        "upstream_id=chatcmpl-1 endpoint=chat tenant=\"team a\" key=prod "
        "user=\"u\\\"1\\\"\\u000a\" peer=\"team a\" "
        "priority=normal model=fast served_by=demo-large provider=demo provider_key=k1 "
        "fallback_from=demo-small fallback_why=limited status=200 upstream_status=200 "
        "would_deny=rate,budget ended=hangup_answering phase=answering client_retry=true "
        "attempts=2 retries=1 waited_ms=3 overhead_us=45 ttfb_ms=40 upstream_ms=480 total_ms=500 "
        "stream=true estimated_input_tokens=8 max_output_tokens=100 reserved_micro_usd=30 "
        "bytes_in=234 bytes_out=600 generation=3 trace_id=4b000000000000000000000000000036\n");
}

static void what_is_not_known_is_left_out(void **state)
{
    struct report report;

    (void)state;
    report_init(&report);
    kit_init(&kit);
    kit_open(&kit);
    log_request(log_lane_new(kit.log), &report, NULL);
    kit_close(&kit);
    assert_string_equal(kit.text, "{\"time\":\"1970-01-01T00:00:00.000Z\",\"level\":\"info\","
                                  "\"msg\":\"request\",\"id\":\"req_0000000000000000\"}\n");
}

/* Every name as long and as hard to escape as can be, every number as large. */
static void the_longest_line_is_still_whole(void **state)
{
    struct json_reader *reader = json_reader_new();
    struct json_value root;
    struct report report;
    char hard[2000];
    struct slice name = {hard, sizeof hard};

    (void)state;
    full_report(&report);
    memset(hard, '\x01', sizeof hard);
    report.at = TG_NUMBER_MAX;
    report.id = report.generation = INT64_MAX;
    report.upstream_id = name;
    report.tenant = report.key = report.user = report.peer = report.route = report.path = name;
    report.model = report.model_asked = report.model_served = name;
    report.provider = report.provider_key = name;
    report.reason = report.failure = "upstream_first_byte_timeout";
    report.ended = "hangup_answering";
    report.axis = "concurrency";
    report.would_deny = (1u << REPORT_STAGES) - 1;
    report.attempts = report.waited_ms = report.ttfb_ms = report.total_ms = INT64_MAX;
    report.overhead_us = report.upstream_ms = report.retry_after_ms = INT64_MAX;
    report.estimated_input = report.max_output = report.reasoning_tokens = INT64_MAX;
    report.usage = (struct tg_usage){.input = INT64_MAX,
                                     .cached_input = INT64_MAX,
                                     .cache_write = INT64_MAX,
                                     .output = INT64_MAX};
    report.reserved = report.spent = report.bytes_in = report.bytes_out = INT64_MAX;
    kit_init(&kit);
    kit_open(&kit);
    log_request(log_lane_new(kit.log), &report, NULL);
    kit_close(&kit);
    size_t n = strlen(kit.text);
    assert_true(n <= 4096);
    assert_int_equal(count_of(kit.text, "\n"), 1);
    assert_null(strchr(kit.text, '\x01'));
    assert_non_null(strstr(kit.text, "\"trace_id\":\"4b000000000000000000000000000036\"}\n"));
    json_begin(reader, kit.text, n, n, &root);
    assert_true(json_end(reader));
    json_reader_free(reader);
}

/* A report of which nothing is unknown, and what its line says of it. */
static void write_everything(void)
{
    const struct log_refusal refusal = {.peer_calls = 1, .peer_limit = 1};
    struct report report;

    full_report(&report);
    report.route = report.path = SLICE("x");
    report.reason = "peer_limit";
    report.axis = "rate";
    report.failure = "server";
    report.retry_after_ms = 1;
    report.ended = "hangup_asking";
    kit_init(&kit);
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    log_request(lane, &report, NULL);
    report.attempts = 0;
    for (int i = 0; i < 200; i++) /* so that one stands for others */
        log_request(lane, &report, &refusal);
    kit_close(&kit);
}

static void every_field_is_in_the_documentation(void **state)
{
    static char doc[1 << 16];
    FILE *file = fopen("docs/logs.md", "r");
    char name[64];
    size_t fields = 0;

    (void)state;
    assert_non_null(file);
    kit_read(file, doc, sizeof doc);
    fclose(file);
    write_everything();
    for (const char *at = kit.text; (at = strstr(at, "\":")) != NULL; at += 2, fields++) {
        const char *from = at;
        while (from[-1] != '"')
            from--;
        snprintf(name, sizeof name, "`%.*s`", (int)(at - from), from);
        if (strstr(doc, name) == NULL)
            fail_msg("docs/logs.md does not say what %s is", name);
    }
    assert_true(fields > 100);
}

/* ---- events ---- */

static void the_two_refusals_of_admission_have_their_words(void **state)
{
    const struct log_refusal memory = {.memory_used = 0.9604}, peer = {.peer_calls = 65,
                                                                       .peer_limit = 64};
    struct report report;

    (void)state;
    kit_init(&kit);
    kit.options.level = LOG_WARN; /* the events without the lines of requests */
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    refused_report(&report, "memory_pressure");
    log_request(lane, &report, &memory);
    refused_report(&report, "peer_limit");
    log_request(lane, &report, &peer);
    refused_report(&report, "rate");
    log_request(lane, &report, &peer);
    kit_close(&kit);
    assert_string_equal(kit.text,
                        "{\"time\":\"2023-11-14T22:13:20.120Z\",\"level\":\"warn\","
                        "\"msg\":\"request rejected: memory pressure\",\"priority\":\"low\","
                        "\"peer\":\"node 7\",\"memory\":\"96.0%\","
                        "\"id\":\"req_0000000000000def\"}\n"
                        "{\"time\":\"2023-11-14T22:13:20.120Z\",\"level\":\"warn\","
                        "\"msg\":\"request rejected: peer limit exceeded\",\"peer\":\"node 7\","
                        "\"current\":65,\"limit\":64,\"id\":\"req_0000000000000def\"}\n");
}

static void an_adjustment_of_vegas_has_its_words(void **state)
{
    const struct log_adjustment adjustment = {.gate = "demo/demo-small",
                                              .old_limit = 128,
                                              .new_limit = 127,
                                              .queue_estimate = 8.26,
                                              .avg_latency_ms = 12.9,
                                              .min_latency_ms = 10};

    (void)state;
    kit_init(&kit);
    kit_open(&kit);
    log_vegas_adjustment(kit.log, &adjustment); /* not at info */
    log_configure(kit.log, LOG_DEBUG, true);
    log_vegas_adjustment(kit.log, &adjustment);
    kit_close(&kit);
    assert_int_equal(count_of(kit.text, "\n"), 1);
    assert_non_null(strstr(kit.text, "\"level\":\"debug\",\"msg\":\"vegas concurrency adjustment\","
                                     "\"old_limit\":128,\"new_limit\":127,"
                                     "\"queue_estimate\":\"8.3\",\"avg_latency_ms\":12,"
                                     "\"min_latency_ms\":10,\"gate\":\"demo/demo-small\"}\n"));
}

static void levels_leave_out_what_is_below_them(void **state)
{
    const struct log_field fields[] = {LOG_TEXT("what", "x y"), LOG_NUMBER("n", -3)};

    (void)state;
    kit_init(&kit);
    kit.options.level = LOG_ERROR;
    kit.options.json = false;
    kit_open(&kit);
    assert_true(log_is_on(kit.log, LOG_ERROR));
    assert_false(log_is_on(kit.log, LOG_WARN));
    log_event(kit.log, LOG_WARN, "hidden", fields, 2);
    log_event(kit.log, LOG_ERROR, "shown", fields, 2);
    log_configure(kit.log, LOG_DEBUG, false);
    log_event(kit.log, LOG_DEBUG, "now", NULL, 0);
    kit_close(&kit);
    assert_null(strstr(kit.text, "hidden"));
    assert_non_null(strstr(kit.text, "level=error msg=shown what=\"x y\" n=-3\n"));
    assert_non_null(strstr(kit.text, "level=debug msg=now\n"));
}

static void an_audit_line_is_written_at_any_level(void **state)
{
    (void)state;
    kit_init(&kit);
    kit.options.level = LOG_ERROR;
    kit_open(&kit);
    log_audit(kit.log, "api", "put_tenant", "team\na", "done");
    kit_close(&kit);
    assert_non_null(strstr(kit.text, "\"msg\":\"audit\",\"who\":\"api\",\"action\":\"put_tenant\","
                                     "\"object\":\"team\\u000aa\",\"outcome\":\"done\"}\n"));
}

/* ---- many refusals ---- */

static void many_refusals_leave_few_lines_that_stand_for_all(void **state)
{
    struct report report;
    size_t lines = 0, sum = 0;

    (void)state;
    refused_report(&report, "rate");
    kit_init(&kit);
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    for (int i = 0; i < 10000; i++)
        log_request(lane, &report, NULL);
    full_report(&report);
    log_request(lane, &report, NULL); /* those that were served are all written */
    log_request(lane, &report, NULL);
    kit_close(&kit);
    for (char *at = strtok(kit.text, "\n"); at; at = strtok(NULL, "\n"), lines++) {
        const char *sampled = strstr(at, "\"sampled\":");
        if (strstr(at, "\"reason\":\"rate\""))
            sum += sampled ? strtoul(sampled + 10, NULL, 10) : 1;
        else
            sum++;
    }
    assert_int_equal(sum, 10002);
    assert_int_equal(lines, 10 + 99 + 1 + 2); /* 90 that are left are told at the end */
}

/* ---- recording ---- */

static void arrivals_go_to_their_own_file(void **state)
{
    FILE *record = tmpfile();
    struct report report;
    char text[8192];

    (void)state;
    full_report(&report);
    kit_init(&kit);
    kit.options.record_fd = dup(fileno(record));
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    log_record(lane, &report);
    log_request(lane, &report, NULL);
    log_record(lane, &report);
    kit_close(&kit);
    kit_read(record, text, sizeof text);
    fclose(record);
    assert_int_equal(count_of(text, "\"t\":1699999999620"), 2);
    assert_int_equal(count_of(text, "\n"), 2);
    assert_int_equal(count_of(kit.text, "\n"), 1);
    assert_null(strstr(kit.text, "\"t\":"));
}

/* ---- a reader that does not read ---- */

static void fill_pipe(int ends[2])
{
    char bytes[4096] = {0};

    assert_int_equal(pipe(ends), 0);
    int flags = fcntl(ends[1], F_GETFL);
    fcntl(ends[1], F_SETFL, flags | O_NONBLOCK);
    while (write(ends[1], bytes, sizeof bytes) > 0)
        ;
    fcntl(ends[1], F_SETFL, flags);
}

static void wait_for_dropped(struct log *log, uint64_t n)
{
    struct log_counts counts;

    do
        log_get_counts(log, &counts);
    while (counts.dropped < n);
}

/* The last lines are those that were dropped; a line says so, when somebody reads again. */
static void a_stalled_reader_costs_lines_and_they_are_counted(void **state)
{
    struct log_counts counts;
    struct report report;
    char text[1 << 16];
    int ends[2];

    (void)state;
    full_report(&report);
    fill_pipe(ends);
    kit_init(&kit);
    kit.options.fd = ends[1];
    kit.options.lane_bytes = 8192;
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    for (int i = 0; i < 1000; i++)
        log_request(lane, &report, NULL);
    log_get_counts(kit.log, &counts);
    assert_int_equal(counts.written, 0);
    assert_true(counts.dropped > 980 && counts.dropped < 1000);
    uint64_t dropped = counts.dropped;

    /* It is read again: what fitted comes, then how many did not. */
    size_t n = 0;
    while (memchr(text, '\n', n) == NULL || strstr(text, "log lines dropped") == NULL ||
           text[n - 1] != '\n') {
        ssize_t got = read(ends[0], text + n, sizeof text - n - 1);
        assert_true(got > 0);
        size_t zeros = 0; /* what the pipe was filled with */
        while (zeros < (size_t)got && text[n + zeros] == 0)
            zeros++;
        memmove(text + n, text + n + zeros, (size_t)got - zeros);
        n += (size_t)got - zeros;
        text[n] = 0;
    }
    assert_int_equal(count_of(text, "\"msg\":\"request\""), 1000 - dropped);
    char want[64];
    snprintf(want, sizeof want, "\"msg\":\"log lines dropped\",\"lines\":%d}", (int)dropped);
    assert_non_null(strstr(text, want));
    wait_for_dropped(kit.log, dropped);
    assert_true(log_close(kit.log, ENOUGH_MS));
    close(ends[0]);
    close(ends[1]);
    fclose(kit.file);
}

static void an_end_does_not_wait_for_a_stalled_reader(void **state)
{
    struct report report;
    int ends[2];

    (void)state;
    full_report(&report);
    fill_pipe(ends);
    kit_init(&kit);
    kit.options.fd = ends[1];
    kit_open(&kit);
    log_request(log_lane_new(kit.log), &report, NULL);
    assert_false(log_close(kit.log, 1)); /* the line is lost, and that is said */
    close(ends[0]);
    close(ends[1]);
    fclose(kit.file);
}

/* While stderr stands still the arrivals go on. */
static void one_sink_that_stalls_does_not_stop_the_other(void **state)
{
    FILE *record = tmpfile();
    struct log_counts counts = {0};
    struct report report;
    int ends[2];

    (void)state;
    full_report(&report);
    fill_pipe(ends);
    kit_init(&kit);
    kit.options.fd = ends[1];
    kit.options.record_fd = dup(fileno(record));
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    log_request(lane, &report, NULL);
    log_record(lane, &report);
    while (counts.recorded == 0)
        log_get_counts(kit.log, &counts);
    assert_int_equal(counts.written, 0);
    assert_false(log_close(kit.log, 1));
    close(ends[0]);
    close(ends[1]);
    fclose(record);
    fclose(kit.file);
}

static void a_sink_that_fails_costs_lines_and_nothing_else(void **state)
{
    struct log_counts counts = {0};
    struct report report;
    int full = open("/dev/full", O_WRONLY);

    (void)state;
    if (full < 0)
        skip();
    full_report(&report);
    kit_init(&kit);
    kit.options.fd = full;
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    log_request(lane, &report, NULL);
    wait_for_dropped(kit.log, 1);
    log_request(lane, &report, NULL);
    wait_for_dropped(kit.log, 2);
    log_get_counts(kit.log, &counts);
    assert_int_equal(counts.written, 0);
    assert_true(log_close(kit.log, ENOUGH_MS));
    close(full);
    fclose(kit.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_a_line_with_all_that_is_known),
        cmocka_unit_test(a_line_of_text_has_the_same),
        cmocka_unit_test(what_is_not_known_is_left_out),
        cmocka_unit_test(the_longest_line_is_still_whole),
        cmocka_unit_test(every_field_is_in_the_documentation),
        cmocka_unit_test(the_two_refusals_of_admission_have_their_words),
        cmocka_unit_test(an_adjustment_of_vegas_has_its_words),
        cmocka_unit_test(levels_leave_out_what_is_below_them),
        cmocka_unit_test(an_audit_line_is_written_at_any_level),
        cmocka_unit_test(many_refusals_leave_few_lines_that_stand_for_all),
        cmocka_unit_test(arrivals_go_to_their_own_file),
        cmocka_unit_test(a_stalled_reader_costs_lines_and_they_are_counted),
        cmocka_unit_test(an_end_does_not_wait_for_a_stalled_reader),
        cmocka_unit_test(one_sink_that_stalls_does_not_stop_the_other),
        cmocka_unit_test(a_sink_that_fails_costs_lines_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
