/* report.h - what is known of a request when it has ended: the one source of logs, metrics, traces
 * and recordings.
 *
 * The gateway fills one in when a request is over and hands it to each of them, so that no two can
 * differ about what happened. It points into the request's own storage and is good for the time of
 * the call only. There is no prompt in it and no secret, and there must never be.
 *
 * Empty slices, null texts and negative numbers say: not known, or does not apply.
 *
 * The room, from a report to whoever reads it:
 *
 *     report.h ---> log.h              a line of the log, and of a recording (record.h)
 *              ---> metrics.h          counters by tenant, model, provider; exposition.h: the page
 *              ---> traces.h           a span of OpenTelemetry; trace_parent.h: whose trace it is
 *     watch.h                          the latest denials, for the dashboard
 */
#ifndef TG_OBS_REPORT_H
#define TG_OBS_REPORT_H

#include "io/text/slice.h"
#include "tollgate.h"

/* Limits in shadow that would have refused: bits of `would_deny`. */
#define REPORT_WOULD(stage) (1u << (unsigned)(stage))

enum report_stage { /* in the order they are asked */
                    REPORT_MEMORY,
                    REPORT_PEER,
                    REPORT_CONCURRENCY,
                    REPORT_POLICY,
                    REPORT_RATE,
                    REPORT_COST,
                    REPORT_BUDGET,
                    REPORT_STAGES
};

struct report {
    tg_ms began_at, at; /* epoch ms: its head was there; it ended */
    uint64_t id;
    struct slice upstream_id; /* the provider's name for it, where the client was told that one */
    uint64_t generation;      /* the configuration it ran under */

    const char *kind;         /* "chat", "messages", ..., "passthrough", "protect" */
    struct slice tenant;      /* a name of the configuration */
    struct slice key;         /* the name of the virtual key */
    struct slice counted_key; /* the same where what it uses is counted under it; not of tokens */
    struct slice tags;        /* those of the virtual key: "cost_centre=4711\nteam=b" */
    struct slice user, peer;  /* what was stated */
    const char *priority;     /* "high", "normal", "low" */
    struct slice route;       /* a protected route: its prefix */
    struct slice path;        /* a protected route: METHOD /path without its query */

    struct slice model_asked;  /* what the client wrote: anything */
    struct slice model;        /* the same, after aliases, if there is one of that name */
    struct slice model_served; /* the model of the last attempt */
    struct slice provider, provider_key;
    const char *fallback_why; /* "limited", "server", "network", "timeout", "no_key": why it left
                                 `model` for another; null: it did not */

    int status;            /* what the client got; 0: none */
    int upstream_status;   /* what the last attempt got; 0: none */
    const char *reason;    /* why it was refused or failed, in the words of the replies */
    const char *axis;      /* the binding axis: "concurrency", "rate", "cost" */
    struct slice limit_of; /* whose limit refused: "tenant dept", "user bob of tenant dept" */
    struct slice
        limit_group; /* the same without names that clients choose: "users of tenant dept" */
    struct slice limit_rule; /* how much in what time: "6 calls a minute" */
    int64_t limit, left;     /* its ceiling, and what was left of it; of a budget, micro-dollars */
    unsigned would_deny;     /* REPORT_WOULD(...) */
    tg_ms retry_after_ms;    /* what the client was told; negative: nothing */
    const char *failure;     /* how the upstream failed: "timeout", "reset" */
    struct slice cause;      /* the same of its connection: "refused", "certificate: expired" */
    const char *ended;       /* "done", "hangup_queued", ... */
    bool client_retry;       /* it says that it is one */
    int64_t attempts;        /* made upstream */

    int64_t waited_ms;   /* for slots */
    int64_t overhead_us; /* ours, between the end of the body and the first byte upstream, without
                            the waiting */
    int64_t ttfb_ms;     /* from its head to the first byte of a reply's body */
    int64_t total_ms;
    int64_t upstream_ms; /* the last attempt, from its beginning to the end of its reply */

    struct slice changed; /* fields and headers that rules put in */
    bool stream;
    int64_t estimated_input, max_output; /* tokens it was admitted with */
    int64_t clamped;                     /* the bound that we put on each choice; 0: none */
    bool has_usage;                      /* then: */
    bool usage_reported;                 /* by the provider; else it is estimated */
    bool usage_absurd; /* what was reported cannot be: the reservation was charged */
    struct tg_usage usage;
    int64_t reasoning_tokens; /* a part of usage.output */
    double value;             /* its worth to the policy */
    tg_micro reserved, spent, uncertain;
    int64_t bytes_in, bytes_out;

    struct slice ops;  /* what was done for it at gates, keys and budgets: a JSON array, of a
                          recording alone */
    uint64_t lost_ops; /* operations that are not in it */

    struct slice traceparent; /* what the client sent */
    uint8_t trace_id[16], span_id[8];
    bool sampled;
};

/* Nothing is known. */
void report_init(struct report *report);

/* The reason that a refusal by this stage has. */
const char *report_stage_name(enum report_stage stage);

#endif
