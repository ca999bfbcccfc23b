/* metrics_internal.h - what metrics.c counts and metrics_write.c reads. For these two alone.
 *
 * A shard is one block of memory that begins on a cache line of its own; its arrays are indexed by
 * the numbers of names and of combinations, which all shards share.
 */
#ifndef TG_OBS_METRICS_INTERNAL_H
#define TG_OBS_METRICS_INTERNAL_H

#include "server/obs/metrics.h"
#include "server/obs/metrics_heavy.h"
#include "server/obs/metrics_names.h"
#include "server/obs/metrics_series.h"

typedef atomic_uint_fast64_t counter;

enum metrics_label {
    LABEL_TENANT,
    LABEL_MODEL,
    LABEL_PROVIDER,
    LABEL_PEER,
    LABEL_LIMIT,  /* whose limit refused */
    LABEL_REASON, /* and why a call fell back */
    LABEL_COUNT
};

/* Reasons of stages, by the words of the replies, and what admission_rejected_reason calls them. */
#define METRICS_REJECTIONS(X)                                                                      \
    X("concurrency", "overload")                                                                   \
    X("memory_pressure", "memory")                                                                 \
    X("peer_limit", "peer_limit")                                                                  \
    X("policy", "policy")                                                                          \
    X("rate", "rate")                                                                              \
    X("cost", "cost")                                                                              \
    X("budget", "budget")                                                                          \
    X("budget_contended", "budget_contended")                                                      \
    X("no_key", "no_key")                                                                          \
    X("request_exceeds_limit", "request_exceeds_limit")

#define METRICS_REJECTIONS_COUNT 10
#define METRICS_OUTCOMES (TG_KEY_CANCELLED + 1)

enum { TOKENS_INPUT, TOKENS_CACHED_INPUT, TOKENS_CACHE_WRITE, TOKENS_OUTPUT, TOKENS_KINDS };

struct tenant_counts {
    counter shadow[REPORT_STAGES];
    counter client_retries;
};

struct model_counts {
    struct histogram ttft;  /* ms */
    struct histogram ratio; /* used to estimated tokens, thousandths */
    counter estimated;      /* tokens */
    counter off;            /* tokens by which the estimates were off */
};

struct use_counts {
    counter tokens[TOKENS_KINDS];
    counter reasoning;
    counter micro, uncertain;
};

struct route_counts {
    counter outcomes[METRICS_OUTCOMES];
    counter causes[HTTP_CAUSES];
    struct histogram ttfb; /* ms */
};

struct metrics_shard {
    struct metrics *metrics;
    counter admitted;
    counter rejected[METRICS_REJECTIONS_COUNT];
    counter axes[TG_AXIS_COUNT];
    struct histogram waits[TG_PRIORITY_COUNT]; /* ms */
    struct histogram overhead;                 /* microseconds */
    struct heavy heavy[LABEL_COUNT];

    counter *requests; /* by combination, as the next two */
    struct use_counts *uses;
    struct route_counts *routes;
    counter *fallbacks;
    counter *limits;               /* by combination of whose limit refused, and the reason */
    struct tenant_counts *tenants; /* by number of the name, as the next */
    struct model_counts *models;
};

struct metrics {
    struct names names[LABEL_COUNT];
    uint32_t rejections[METRICS_REJECTIONS_COUNT]; /* the numbers of these reasons */
    struct series requests, uses, routes, fallbacks, limits;
    size_t n_shards;
    struct metrics_shard **shards;
};

/* ---- combinations ---- */

/* Bit 63 is set, so that none is 0: tenant 16 bits, model 16, provider 11, code 10, reason 10. */
struct request_labels {
    uint32_t tenant, model, provider, code, reason;
};

static inline uint64_t request_pack(struct request_labels l)
{
    assert(l.tenant <= 0xffff && l.model <= 0xffff && l.provider <= 0x7ff && l.code <= 0x3ff &&
           l.reason <= 0x3ff);
    return UINT64_C(1) << 63 | (uint64_t)l.tenant << 47 | (uint64_t)l.model << 31 |
           (uint64_t)l.provider << 20 | (uint64_t)l.code << 10 | l.reason;
}

static inline struct request_labels request_unpack(uint64_t key)
{
    return (struct request_labels){.tenant = key >> 47 & 0xffff,
                                   .model = key >> 31 & 0xffff,
                                   .provider = key >> 20 & 0x7ff,
                                   .code = key >> 10 & 0x3ff,
                                   .reason = key & 0x3ff};
}

/* A combination of up to three names. */
static inline uint64_t triple_pack(uint32_t a, uint32_t b, uint32_t c)
{
    assert(a <= 0xffff && b <= 0xffff && c <= 0xffff);
    return UINT64_C(1) << 63 | (uint64_t)a << 32 | (uint64_t)b << 16 | c;
}

static inline uint32_t triple_at(uint64_t key, int place)
{
    return key >> (32 - 16 * place) & 0xffff;
}

/* An uncommon code is counted by its class, 1 to 5, which is no code. */
#define CODE_CLASS_MAX 5

#endif
