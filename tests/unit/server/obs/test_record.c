/* test_record.c - an arrival as a line: its names are what replay and the simulator read. */
#include "log_kit.h"

#include <math.h>

#include "server/obs/record.h"

static void expect_record(const struct report *report, const char *want)
{
    struct log_line line;

    record_line(report, &line);
    line.out.bytes[line.out.size] = 0;
    assert_string_equal(line.out.bytes, want);
}

static void an_arrival_has_its_time_its_size_and_its_end(void **state)
{
    struct report report;

    (void)state;
    full_report(&report);
    expect_record(&report,
                  "{\"t\":1699999999620,\"id\":\"req_0000000000000abc\","
                  "\"tenant\":\"team a\",\"model\":\"demo-small\",\"generation\":3,"
                  "\"user\":\"u\\\"1\\\"\\u000a\",\"peer\":\"team a\",\"priority\":\"normal\","
                  "\"input_tokens\":8,"
                  "\"max_output_tokens\":100,\"output_tokens\":9,\"stream\":true,\"cost\":108,"
                  "\"value\":1.5,\"status\":200,\"latency_ms\":500,\"ttfb_ms\":40,"
                  "\"kind\":\"chat\",\"served\":\"demo-large\",\"provider_key\":\"k1\","
                  "\"attempts\":2,\"waited_ms\":3,\"ended\":\"done\",\"used_input_tokens\":8,"
                  "\"used_output_tokens\":9,\"reserved_micro_usd\":30,\"spent_micro_usd\":11}\n");
}

/* Before its body was read: nobody knows how large it was. */
static void one_that_was_refused_at_once_has_no_size(void **state)
{
    struct report report;

    (void)state;
    refused_report(&report, "peer_limit");
    expect_record(&report, "{\"t\":1700000000120,\"id\":\"req_0000000000000def\","
                           "\"tenant\":\"team-a\",\"peer\":\"node 7\",\"priority\":\"low\","
                           "\"stream\":false,\"status\":429,\"reason\":\"peer_limit\","
                           "\"kind\":\"chat\",\"attempts\":0,\"ended\":\"done\"}\n");
}

static void without_a_tenant_the_peer_is_the_key(void **state)
{
    struct report report;

    (void)state;
    refused_report(&report, "memory_pressure");
    report.tenant = (struct slice){NULL, 0};
    report.value = NAN;
    expect_record(&report, "{\"t\":1700000000120,\"id\":\"req_0000000000000def\","
                           "\"key\":\"node 7\",\"peer\":\"node 7\",\"priority\":\"low\","
                           "\"stream\":false,\"status\":429,\"reason\":\"memory_pressure\","
                           "\"kind\":\"chat\",\"attempts\":0,\"ended\":\"done\"}\n");
}

static void costs_do_not_overflow(void **state)
{
    struct report report;
    struct log_line line;

    (void)state;
    full_report(&report);
    report.estimated_input = report.max_output = TG_NUMBER_MAX;
    record_line(&report, &line);
    line.out.bytes[line.out.size] = 0;
    assert_non_null(strstr(line.out.bytes, "\"cost\":9007199254740991,"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_arrival_has_its_time_its_size_and_its_end),
        cmocka_unit_test(one_that_was_refused_at_once_has_no_size),
        cmocka_unit_test(without_a_tenant_the_peer_is_the_key),
        cmocka_unit_test(costs_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
