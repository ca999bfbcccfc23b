/* envoy_rls.h - Envoy's rate limit service without its wire: descriptors in, codes out.
 *
 *     gRPC  envoy.service.ratelimit.v3.RateLimitService (rpc_envoy.c) --.
 *     POST /json (envoy_rls_http.c, envoy_rls_message.c)              --+--> envoy_rls_decide.c
 *                                                                               |
 *     envoy_rls.c             the rules, and the limiter of each                v
 *     envoy_rls_plan.c        what a request asks of each rule, and the reply   the store, here
 *     envoy_rls_take.c        decides at the store in this process              or in Redis
 *     envoy_rls_metadata.c    dynamic metadata
 *     envoy_metrics.c         rules on the page of metrics
 *
 * The rules are files in the format of envoyproxy/ratelimit (envoy_rules.h), the limiters are
 * ours: in no span of a unit, wherever it begins, are more than `requests_per_unit` hits admitted
 * (envoy_rls.c). docs/envoy.md tells users the same.
 *
 *   all descriptors of a request are limited; one that is over its limit refuses it
 *   statuses have the length and the order of the descriptors
 *   a descriptor that no rule with a limit matches is OK, and has no limit
 *
 * Who is charged. A request is one question: where it is refused, none of its descriptors is
 * charged, so that whoever runs against its own limit uses up nobody else's. Its descriptors are
 * keys of different roots, each decided in a critical section of its own: they are charged one
 * after the other, and a refusal gives back what had been charged before it. So for some hundred ns
 * others may see units as taken that are about to come back: that can refuse one of them, and never
 * admits one too many.
 *
 * A descriptor that states hits of its own is a meter: what it states has been used, or will be,
 * whatever the others say. It is charged by itself, and what crosses the limit is charged whole,
 * though it is refused; only where nothing is left at all is nothing charged. Hits of 0 ask whether
 * anything is left. So a proxy can ask before a call, and report its tokens after it.
 *
 * Hits that are to be given back are not: a limit counts each hit at its own time, and nobody says
 * when these were taken. To forget newer ones in their place could admit too many, so they leave
 * when their time has passed. They are not charged either, and refuse nothing.
 *
 * Threads: a worker's functions are for its own thread; envoy_rls_take() is for any.
 */
#ifndef TG_ENVOY_ENVOY_RLS_H
#define TG_ENVOY_ENVOY_RLS_H

#include "io/text/slice.h"
#include "server/config/config.h"
#include "server/config/envoy_rules.h"
#include "server/runtime/service.h"
#include "server/tenancy/limit_book.h"
#include "tollgate.h"

struct worker;

#define ENVOY_RLS_DESCRIPTORS_MAX 128 /* in one request; more: ENVOY_RLS_INVALID */
#define ENVOY_RLS_MESSAGE_MAX 160
#define ENVOY_RLS_HEADERS_MAX 3

/* ---- Asking ---- */

struct envoy_rls_descriptor {
    const struct envoy_rls_entry *entries;
    size_t n_entries;
    bool has_hits; /* it states its own: see above */
    uint64_t hits;
    bool negative;  /* the hits are to be given back: see above */
    bool has_limit; /* brought along, in place of the rule's */
    uint32_t requests_per_unit;
    uint32_t unit;            /* enum envoy_unit, unchecked */
    uint32_t unit_multiplier; /* 0: 1 */
};

/* Borrowed until done(). */
struct envoy_rls_request {
    struct slice domain;
    const struct envoy_rls_descriptor *descriptors;
    size_t n_descriptors;
    uint64_t hits; /* 0: 1 */
};

/* ---- Answers ---- */

/* The numbers are those of the wire. */
enum envoy_rls_code { ENVOY_RLS_UNKNOWN, ENVOY_RLS_OK, ENVOY_RLS_OVER_LIMIT };

/* The answer to one descriptor. */
struct envoy_rls_status {
    enum envoy_rls_code code;
    bool quota; /* its rule has quota_mode: OK, and named in the metadata if it is over */
    bool quota_over;
    bool has_limit; /* otherwise neither a limit nor a duration is stated */
    uint32_t requests_per_unit;
    enum envoy_unit unit;
    struct slice name;        /* the name of the rule's limit; perhaps empty */
    uint32_t limit_remaining; /* hits; UINT32_MAX where the rule says `unlimited` */
    /* Whole seconds, since Envoy truncates. For a refusal: after which the same hits are admitted,
     * if there is no other traffic; otherwise until what is counted now begins to come back. */
    tg_ms until_reset;
};

struct envoy_rls_header {
    struct slice name, value;
};

enum envoy_rls_result {
    ENVOY_RLS_DECIDED,
    ENVOY_RLS_INVALID,     /* the request makes no sense; INVALID_ARGUMENT, 400 */
    ENVOY_RLS_UNAVAILABLE, /* no decision could be made, nothing is charged; UNAVAILABLE, 503 */
};

/* Valid until done() returns. */
struct envoy_rls_reply {
    enum envoy_rls_result result;
    char message[ENVOY_RLS_MESSAGE_MAX]; /* unless it was decided: why not; else "" */
    enum envoy_rls_code overall;
    size_t n_statuses; /* one for each descriptor */
    struct envoy_rls_status statuses[ENVOY_RLS_DESCRIPTORS_MAX];
    const struct envoy_rls_request
        *metadata;    /* dynamic_metadata tell of it; null: there are none */
    size_t n_headers; /* for the response to Envoy's client: response_headers_to_add */
    struct envoy_rls_header headers[ENVOY_RLS_HEADERS_MAX];
    char header_text[ENVOY_RLS_HEADERS_MAX][24];
};

typedef void envoy_rls_done(void *context, const struct envoy_rls_reply *reply);

/* A request that waits for its store. */
struct envoy_rls_pending;

/* Asks, under the rules of the worker's generation. Calls done() exactly once, unless it is
 * cancelled: from inside, and then the answer is null, or later from the worker's loop. */
struct envoy_rls_pending *envoy_rls_decide(struct worker *worker,
                                           const struct envoy_rls_request *request,
                                           envoy_rls_done *done, void *context);

/* Whoever asked is gone: what is charged meanwhile is refunded. Not after done(). */
void envoy_rls_cancel(struct envoy_rls_pending *pending);

/* ---- The rules of a generation ---- */

struct envoy_rls;

/* Wants the limits of the configuration's rules in the book, by names that are the same at the next
 * reading. The configuration is borrowed. `before`, unless null, is what there was: its counts go
 * on. Without `envoy_rls` in the configuration, it has no domains. */
TG_MUST_CHECK enum tg_err envoy_rls_new(const struct config *config, struct limit_book *book,
                                        const struct envoy_rls *before, struct envoy_rls **rls,
                                        struct tg_problem *problem);
void envoy_rls_free(struct envoy_rls *rls);

/* The decision itself, with a store in this process. Allocates nothing, but for a descriptor of
 * more than a KiB. */
void envoy_rls_take(const struct envoy_rls *rls, struct tg_store *store,
                    const struct envoy_rls_request *request, tg_ms now,
                    struct envoy_rls_reply *reply);

/* What has been counted for a rule with a limit, over all readings. */
struct envoy_rls_counts {
    const char *domain;
    const char *rule; /* "message_type_marketing.to_number" */
    uint64_t within;  /* hits that were admitted, */
    uint64_t over;    /* and refused, */
    uint64_t shadow;  /* and would have been */
};

/* The counts of rule i, in the order of the files; false: there are fewer. */
bool envoy_rls_get_counts(const struct envoy_rls *rls, size_t i, struct envoy_rls_counts *counts);

/* ---- The service ---- */

struct http_head;

extern const struct service envoy_service;

/* Whether whoever sent this head may ask, over either wire: where `envoy_rls.auth` is `callers`, it
 * has to bring the token of one. */
bool envoy_rls_may_ask(struct worker *worker, const struct http_head *head);

#endif
