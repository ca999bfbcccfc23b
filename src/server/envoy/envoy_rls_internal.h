/* envoy_rls_internal.h - the rules in force, and a request that is being decided: for envoy_rls*.c
 * alone. */
#ifndef TG_ENVOY_ENVOY_RLS_INTERNAL_H
#define TG_ENVOY_ENVOY_RLS_INTERNAL_H

#include <stdatomic.h>

#include "io/text/yaml_arena.h"
#include "server/envoy/envoy_rls.h"

/* ---- Rules ---- */

/* What was counted for a rule, shared by all readings that have it. */
struct rls_tally {
    atomic_int refs;
    atomic_ullong within, over, shadow; /* hits */
};

struct rls_limit {
    const struct envoy_rule *rule;
    tg_limits set; /* 0: there is nothing to count, since all is allowed, or nothing */
    struct rls_tally *tally;
};

struct envoy_rls {
    const struct config_envoy *config;
    struct rls_limit *limits; /* by envoy_limit.number */
    size_t n_limits;
    tg_limits brought[ENVOY_UNITS]; /* for limits that a request brings along: by unit */
    struct config_index *index;     /* from a rule's name to its place in `limits` */
    struct arena *arena;
};

/* The ceiling of a `brought` set: it counts, and the request's own limit decides. */
#define RLS_BROUGHT_MAX INT64_C(4294967295)

/* ---- A request ---- */

/* What is asked of one descriptor, and the answer. */
struct rls_ask {
    const struct envoy_rls_descriptor *descriptor;
    const struct rls_limit *limit; /* null: none, or it was brought along */
    bool limited;                  /* there is something to decide */
    bool unlimited;                /* by its rule */
    bool shadow;
    tg_limits set; /* 0: the limit is 0, and there is nothing to count */
    int64_t ceiling;
    enum envoy_unit unit;
    int64_t hits;

    bool over;
    bool charged;
    int64_t remaining;
    tg_ms until_reset;
};

/* One request that is being decided. */
struct rls_work {
    const struct envoy_rls *rls;
    const struct envoy_rls_request *request;
    tg_ms now;
    size_t n;
    struct rls_ask asks[ENVOY_RLS_DESCRIPTORS_MAX];
};

/* A descriptor that states hits of its own. */
static inline bool rls_is_meter(const struct rls_ask *ask)
{
    return ask->descriptor->has_hits || ask->descriptor->negative;
}

/* The answer of a limit of 0, which has no set. */
void rls_shut_out(struct rls_ask *ask);

/* Whether the request makes sense; if not, the reply says why. Call rls_reply_init() first. */
void rls_reply_init(struct envoy_rls_reply *reply);
bool rls_is_sound(const struct envoy_rls_request *request, struct envoy_rls_reply *reply);

/* False, with a reason. */
bool rls_fail(struct envoy_rls_reply *reply, enum envoy_rls_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fills in the asks, of a request that is sound; rls and request are set. */
void rls_plan(struct rls_work *work);

/* A limit that was brought along is not the set's, which only counts: so it is held against what
 * the set has counted. The answer is as the set's would be with that limit, but for the wait, which
 * is until nothing is counted any more. */
void rls_hold_against(const struct rls_ask *ask, int64_t hits, struct tg_decision *answer);

/* What there is now: after an allow, without these hits. */
int64_t rls_left_now(const struct tg_decision *answer, int64_t hits);

/* Notes the answer to an ask. */
void rls_note(struct rls_ask *ask, const struct tg_decision *answer, int64_t remaining, tg_ms now);

/* Whether an ask that has been answered refuses the request. */
bool rls_refuses(const struct rls_work *work, const struct rls_ask *ask);

/* Writes the reply when all asks have been answered, and counts them. */
void rls_reply(const struct rls_work *work, bool refused, struct envoy_rls_reply *reply);

/* ---- Keys ---- */

enum { RLS_KEY_SMALL = 1024 };

/* What the hits of a descriptor are counted under: domain, keys and values, each with its length
 * before it, so that no two descriptors have the same bytes. */
struct rls_key {
    char *bytes; /* in `small`, unless it is longer */
    size_t n;
    char small[RLS_KEY_SMALL];
};

/* The key of an ask that is limited. False: no memory. */
bool rls_key_make(struct rls_key *key, struct slice domain, const struct rls_ask *ask);
void rls_key_free(struct rls_key *key);

/* ---- The service ---- */

struct exposition;
struct generation;
struct grpc_service;

extern const struct grpc_service rpc_envoy;

/* See write_metrics() of struct service. */
size_t envoy_metrics_write(struct exposition *text, const struct generation *generation,
                           size_t most);

#endif
