/* report_notes.h - what is noted of a request on its way, for the report that is made at its end.
 *
 *     service: begin --> notes ... --> struct report --> log, recording, metrics, traces
 *                          `--> at the moment of a refusal --> watch
 *
 * Each service fills in the report of its own requests (call_report.c, protect_report.c,
 * admit_report.c). The notes keep what the report needs and nothing else in a request would keep,
 * and report_tell() is the one place that hands a report on, so that no two listeners differ about
 * what happened.
 *
 * On the request's thread. A gateway that is not observed (observe.h) has no log, no watch and no
 * trace: then nobody is told.
 */
#ifndef TG_RUNTIME_REPORT_NOTES_H
#define TG_RUNTIME_REPORT_NOTES_H

#include "io/http/http.h"
#include "server/dialect/replies.h"
#include "server/obs/log.h"
#include "server/obs/trace_parent.h"

struct gateway;
struct report;
struct trace_server;
struct watch_entry;
struct worker;

/* The limit that refused a call. Texts are UTF-8. */
struct report_limit {
    char of[128];         /* "tenant dept", "model small"; "": not known */
    char group[80];       /* "users of tenant dept": who have such a limit each, by names that
                             clients choose; "": it is the one of its kind */
    char rule[80];        /* "6 calls a minute"; "": it has none */
    int64_t size, left;   /* its ceiling, and what was left of it; negative: not known. Of a
                             budget, in micro-dollars */
    tg_ms reset_at;       /* when it is replenished; 0: not known */
    tg_ms retry_after_ms; /* after this wait it may pass; 0: not known; TG_UNSATISFIABLE: never */
};

void report_limit_init(struct report_limit *limit);

/* Finds out which limit an answer that is a refusal speaks of; all empty if there is none. */
void report_limit_find(const struct tg_call *call, const struct tg_answer *answer,
                       struct report_limit *limit);

/* Copies it into the report, which then points into it. */
void report_limit_fill(const struct report_limit *limit, struct report *report);

struct report_notes {
    struct trace_ids trace;
    unsigned would_deny;      /* REPORT_WOULD(...) */
    const char *fallback_why; /* why a fallback was taken; static; null: none was */

    /* What a refusal says: */
    enum tg_axis axis;
    tg_ms retry_after_ms;      /* the wait that the client was told; negative: none */
    struct report_limit limit; /* the one that refused */
    struct log_refusal refusal;

    int64_t estimated_input, max_output; /* tokens; negative: the body was not read */
    int64_t clamped;                     /* the bound that we put on each choice; 0: none */
    int64_t reasoning;                   /* tokens of its usage; negative: not known */
    tg_micro reserved;                   /* money reserved by the last attempt; negative: none */
    int64_t upstream_ms;                 /* how long the last attempt took; negative: none */

    /* Nanoseconds of a clock that does not step; 0: not yet. */
    int64_t ready_ns;    /* when its body was complete */
    int64_t parked_ns;   /* when it began to wait; 0: it does not wait */
    int64_t waited_ns;   /* the sum of all its waits */
    int64_t overhead_us; /* our own time until its first attempt was sent; negative: none was */
    bool decided;        /* it was admitted or refused: it is known how long it waited */
    bool for_watch;      /* its refusal goes to the watch, */
    bool for_tenant;     /* and to those of its tenant */

    char changed[160];    /* fields that rules put in, with commas; "": none */
    char upstream_id[64]; /* the id in the reply where it is the provider's; "": our own */
    char peer[96];  /* a name out of the head, which is freed before its call; "": the tenant's */
    char path[128]; /* a protected route's: "GET /api/x" */
};

/* A request has come. */
void report_notes_begin(struct report_notes *notes, struct worker *worker,
                        const struct http_head *head);

/* Keeps "GET /api/x", without its query. */
void report_notes_path(struct report_notes *notes, const struct http_head *head);

/* ---- on its way ---- */

void report_notes_ready(struct report_notes *notes);
void report_notes_park(struct report_notes *notes);
void report_notes_unpark(struct report_notes *notes);
void report_notes_sent(struct report_notes *notes);

/* The client gets a reply with an id that its provider has chosen. */
void report_notes_upstream_id(struct report_notes *notes, struct slice id);

/* A gate has decided about the request. */
void report_notes_answer(struct report_notes *notes, struct tg_gate *gate,
                         const struct tg_call *call, const struct tg_answer *answer);

/* The field `traceparent` of what is sent on; empty: what the client sent goes on unchanged. */
struct slice report_notes_traceparent(const struct report_notes *notes, const struct worker *worker,
                                      char text[TRACE_PARENT_BYTES]);

/* ---- a refusal ---- */

/* The request is refused with this reply; `share` is its tenant's, null: it is nobody's. True: a
 * report_denial() of it is wanted. */
struct tenant_share;
bool report_notes_refused(struct report_notes *notes, struct worker *worker,
                          struct tenant_share *share, const struct refusal *why,
                          const struct reply *reply, tg_ms now);

/* Whether a refusal is to go to the watch, which gets as many as anybody can read: 500 a second of
 * each worker. The others are counted there, and their texts need not be made. */
bool report_is_watched(struct worker *worker, tg_ms now);

/* The same, or to its tenant, which keeps ten a second of its own (recent_refusals.h). */
bool report_is_wanted(struct report_notes *notes, struct worker *worker, struct tenant_share *share,
                      tg_ms now);

/* A refusal for those who want it: `entry` has when, who and what, the rest is filled in here. */
void report_denial(struct gateway *gateway, struct tenant_share *share,
                   const struct report_notes *notes, const struct refusal *why,
                   struct watch_entry *entry);

/* ---- its end ---- */

/* Copies the notes into the report. */
void report_notes_fill(const struct report_notes *notes, struct report *report);

/* Hands the report on to everybody who listens. */
void report_tell(struct worker *worker, const struct report *report,
                 const struct report_notes *notes, const struct trace_server *server);

/* A connection was refused before there was a request: its bytes are not HTTP, or too many, or too
 * late. */
void report_no_request(struct worker *worker, int status, const char *text);

static inline struct slice report_text(const char *text)
{
    return text != NULL ? slice_of(text) : (struct slice){NULL, 0};
}

#endif
