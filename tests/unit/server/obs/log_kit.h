/* log_kit.h - a log into a file that can be read back, and a report with everything in it. */
#ifndef LOG_KIT_H
#define LOG_KIT_H

#include "check.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/obs/log.h"

#define ENOUGH_MS 30000 /* for whatever must end */

struct log_kit {
    struct log_options options;
    struct clock clock;
    struct log *log;
    FILE *file;
    char text[1 << 20];
};

static inline void kit_init(struct log_kit *kit)
{
    memset(kit, 0, sizeof *kit);
    log_options_init(&kit->options);
    kit->file = tmpfile();
    assert_non_null(kit->file);
    kit->options.fd = fileno(kit->file);
    clock_init(&kit->clock);
    kit->options.clock = &kit->clock;
}

static inline void kit_open(struct log_kit *kit)
{
    assert_int_equal(log_new(&kit->options, &kit->log), TG_OK);
}

static inline size_t kit_read(FILE *file, char *text, size_t size)
{
    rewind(file);
    size_t n = fread(text, 1, size - 1, file);
    text[n] = 0;
    return n;
}

/* Everything is written, and can be read in `text`. */
static inline void kit_close(struct log_kit *kit)
{
    assert_true(log_close(kit->log, ENOUGH_MS));
    kit_read(kit->file, kit->text, sizeof kit->text);
    fclose(kit->file);
}

static inline size_t count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

/* A call that went well, with everything that can be known of it. */
static inline void full_report(struct report *report)
{
    report_init(report);
    report->began_at = 1699999999620;
    report->at = 1700000000120;
    report->id = 0xabc;
    report->upstream_id = SLICE("chatcmpl-1");
    report->generation = 3;
    report->kind = "chat";
    report->tenant = SLICE("team a");
    report->key = SLICE("prod");
    report->user = SLICE("u\"1\"\n");
    report->peer = SLICE("team a");
    report->priority = "normal";
    report->model_asked = SLICE("fast");
    report->model = SLICE("demo-small");
    report->model_served = SLICE("demo-large");
    report->provider = SLICE("demo");
    report->provider_key = SLICE("k1");
    report->fallback_why = "limited";
    report->status = 200;
    report->upstream_status = 200;
    report->would_deny = REPORT_WOULD(REPORT_RATE) | REPORT_WOULD(REPORT_BUDGET);
    report->ended = "done";
    report->client_retry = true;
    report->attempts = 2;
    report->waited_ms = 3;
    report->overhead_us = 45;
    report->ttfb_ms = 40;
    report->upstream_ms = 480;
    report->total_ms = 500;
    report->stream = true;
    report->estimated_input = 8;
    report->max_output = 100;
    report->has_usage = true;
    report->usage_reported = true;
    report->usage = (struct tg_usage){.input = 7, .cached_input = 1, .output = 9};
    report->reasoning_tokens = 4;
    report->value = 1.5;
    report->reserved = 30;
    report->spent = 11;
    report->bytes_in = 234;
    report->bytes_out = 600;
    report->trace_id[0] = 0x4b;
    report->trace_id[15] = 0x36;
    report->span_id[7] = 0xb7;
    report->sampled = true;
}

/* One that was refused. */
static inline void refused_report(struct report *report, const char *reason)
{
    report_init(report);
    report->at = report->began_at = 1700000000120;
    report->id = 0xdef;
    report->kind = "chat";
    report->tenant = SLICE("team-a");
    report->peer = SLICE("node 7");
    report->priority = "low";
    report->status = 429;
    report->reason = reason;
    report->ended = "done";
    report->attempts = 0;
    report->retry_after_ms = 100;
}

#endif
