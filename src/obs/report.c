/* report.c - what is known of a request when it has ended. See report.h. */
#include "obs/report.h"

void report_init(struct report *report)
{
    *report = (struct report){.retry_after_ms = -1,
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
