/* test_log_allocations.c - a log asks for memory when it begins, and never for a line. */
#include "log_kit.h"

#include "failing_malloc.h"
#include "server/obs/traces.h"
#include "server/obs/watch.h"

static struct log_kit kit;

static void a_line_a_span_and_a_denial_need_no_memory(void **state)
{
    const struct log_refusal refusal = {.memory_used = 0.9};
    struct watch *watch = watch_new(4);
    struct trace *trace = trace_new(TRACE_LANE_BYTES);
    struct trace_lane *spans = trace_lane_new(trace);
    struct report report, refused;
    struct watch_entry entry;

    (void)state;
    full_report(&report);
    refused_report(&refused, "memory_pressure");
    watch_entry_init(&entry);
    kit_init(&kit);
    kit.options.record_fd = dup(kit.options.fd);
    kit_open(&kit);
    struct log_lane *lane = log_lane_new(kit.log);
    long before = allocations;
    for (int i = 0; i < 100; i++) {
        log_request(lane, &report, NULL);
        log_request(lane, &refused, &refusal);
        log_record(lane, &report);
        log_audit(kit.log, "api", "reload", "tollgate.yaml", "done");
        trace_request(spans, &report, NULL, NULL);
        watch_put(watch, &entry);
    }
    assert_int_equal(allocations, before);
    assert_true(log_close(kit.log, ENOUGH_MS));
    trace_free(trace);
    watch_free(watch);
    fclose(kit.file);
}

static void without_memory_there_is_no_log_and_nothing_is_kept(void **state)
{
    struct log *log;

    (void)state;
    need_allocator();
    kit_init(&kit);
    for (long i = 0; i < 3; i++) {
        long before = live;
        until_failure = i;
        enum tg_err err = log_new(&kit.options, &log);
        until_failure = -1;
        assert_int_equal(err, TG_ERR_MEMORY);
        assert_int_equal(live, before);
    }
    fclose(kit.file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_a_span_and_a_denial_need_no_memory),
        cmocka_unit_test(without_memory_there_is_no_log_and_nothing_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
