/* report.c - what is known of a request when it has ended. See report.h. */
#include "server/obs/report.h"

#include <assert.h>

void report_init(struct report *report)
{
    *report = (struct report){.limit = -1,
                              .left = -1,
                              .retry_after_ms = -1,
                              .attempts = -1,
                              .waited_ms = -1,
                              .overhead_us = -1,
                              .ttfb_ms = -1,
                              .total_ms = -1,
                              .upstream_ms = -1,
                              .estimated_input = -1,
                              .max_output = -1,
                              .reasoning_tokens = -1,
                              .value = -1,
                              .reserved = -1,
                              .spent = -1,
                              .bytes_in = -1,
                              .bytes_out = -1};
}

const char *report_stage_name(enum report_stage stage)
{
    static const char *const names[REPORT_STAGES] = {[REPORT_MEMORY] = "memory_pressure",
                                                     [REPORT_PEER] = "peer_limit",
                                                     [REPORT_CONCURRENCY] = "concurrency",
                                                     [REPORT_POLICY] = "policy",
                                                     [REPORT_RATE] = "rate",
                                                     [REPORT_COST] = "cost",
                                                     [REPORT_BUDGET] = "budget"};

    assert((unsigned)stage < REPORT_STAGES);
    return names[stage];
}
