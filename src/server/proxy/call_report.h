/* call_report.h - what became of a request, told once to all who want to know it.
 *
 *     call, guarded --> struct report --> log, recording, metrics, traces
 *                  `--> at the moment of a refusal --> watch
 *
 * One place fills the report in, so that no two of them differ about what happened. What a report
 * needs and nothing else in a request would keep is in its notes.
 *
 * On the request's thread. A gateway that is not observed (gateway/observe.h) has no log, no watch
 * and no trace: then nothing is told.
 */
#ifndef TG_PROXY_CALL_REPORT_H
#define TG_PROXY_CALL_REPORT_H

#include "io/http/http.h"
#include "server/dialect/replies.h"
#include "server/obs/log.h"
#include "server/obs/trace_parent.h"

struct call;
struct gateway;
struct guarded;
struct watch_entry;
struct worker;

struct report_notes {
    struct trace_ids trace;
    unsigned would_deny; /* REPORT_WOULD(...) */
    const char *fallback_why;

    /* Of a refusal: */
    enum tg_axis axis;
    tg_ms retry_after_ms; /* that the client was told; negative: nothing */
    struct tg_decision decision;
    struct log_refusal refusal;

    int64_t estimated_input, max_output; /* tokens; negative: the body was not read */
    int64_t reasoning;                   /* tokens of its usage; negative: not known */
    tg_micro reserved;                   /* by the last attempt; negative: none */
    int64_t upstream_ms;                 /* of the last attempt; negative: none */

    /* Nanoseconds of a clock that does not step; 0: not yet. */
    int64_t ready_ns;    /* its body was there */
    int64_t parked_ns;   /* it began to wait */
    int64_t waited_ns;   /* all its waiting */
    int64_t overhead_us; /* ours, until its first attempt was handed on; negative: there was none */
    bool decided;        /* it has got a place or was refused one: it is known how long it waited */

    char upstream_id[64]; /* the id in the reply, where it is the provider's; "": ours */
    char peer[96];  /* a name out of the head, which goes before its call does; "": the tenant's */
    char path[128]; /* of a protected route: "GET /api/x" */
};

/* A request has come. */
void report_notes_begin(struct report_notes *notes, struct worker *worker,
                        const struct http_head *head);

/* Of a protected route: "GET /api/x", without its query. */
void report_notes_path(struct report_notes *notes, const struct http_head *head);

/* ---- on its way ---- */

void report_notes_ready(struct report_notes *notes);
void report_notes_park(struct report_notes *notes);
void report_notes_unpark(struct report_notes *notes);
void report_notes_sent(struct report_notes *notes);

/* The client gets a reply that has an id of its provider's. */
void report_notes_upstream_id(struct report_notes *notes, struct slice id);

/* A gate has decided about a call of it. */
void report_notes_answer(struct report_notes *notes, struct tg_gate *gate,
                         const struct tg_call *call, const struct tg_answer *answer);

/* The field `traceparent` of what is sent on; empty: what the client sent goes on as it is. */
struct slice report_notes_traceparent(const struct report_notes *notes, const struct worker *worker,
                                      char text[TRACE_PARENT_BYTES]);

/* Whether a refusal is to go to the watch, which gets as many as anybody can look at: 500 a second
 * of each worker. The others are counted there, and their texts need not be made. */
bool report_is_watched(struct worker *worker, tg_ms now);

/* A refusal for the watch: `entry` has when, who and what, the rest is filled in here. */
void report_denial(struct gateway *gateway, const struct report_notes *notes,
                   const struct refusal *why, struct watch_entry *entry);

/* ---- of a call ---- */

/* It goes upstream for the first time. */
void call_report_admitted(struct call *call);

/* It is refused, with this reply. */
void call_report_refused(struct call *call, const struct refusal *why, const struct reply *reply);

/* It has ended. */
void call_report(struct call *call);

/* ---- of what was no request ---- */

/* It was refused before its head was whole, since it is not HTTP, or too large, or too late. */
void worker_report_refused(struct worker *worker, int status, const char *text);

/* ---- of a protected route ---- */

void guarded_report_admitted(struct guarded *guarded);
void guarded_report_refused(struct guarded *guarded, const struct refusal *why,
                            const struct reply *reply);
void guarded_report(struct guarded *guarded, enum http_why why);

#endif
