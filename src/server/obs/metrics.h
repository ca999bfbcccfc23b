/* metrics.h - what is counted of requests, by tenant, model and provider: exact, and bounded.
 *
 *     metrics_config_init(&config);
 *     config.shards = workers + 1;
 *     metrics_new(&config, &metrics);
 *
 *     metrics_admitted(shard, TG_PRIORITY_NORMAL, waited_ms);     when it goes upstream first
 *     metrics_attempt(shard, &attempt);                           when an attempt has ended
 *     metrics_request(shard, &report);                            when the request has
 *
 *     metrics_write(metrics, &text);                              when somebody asks
 *
 * Each thread that counts has a shard of its own. To count is to find some numbers and to add to
 * counters that no other thread writes: no lock, no cache line that two threads write, and nothing
 * is allocated but for a name that is seen for the first time. Whoever reads adds the shards up.
 * Counters never fall.
 *
 * Labels are bounded: so many tenants, models and providers have a number of their own, all others
 * are `other` (metrics_names.h); and so are their combinations (metrics_series.h). Of the tenants
 * and models a quarter is kept for those that turn out to be heavy.
 *
 * Threads: a shard belongs to one. The rest may be called by any.
 */
#ifndef TG_OBS_METRICS_H
#define TG_OBS_METRICS_H

#include "io/http/http.h"
#include "server/obs/exposition.h"
#include "server/obs/report.h"

struct metrics;
struct metrics_shard;

struct metrics_config {
    size_t shards;      /* threads that count; 1 or more; no default */
    uint32_t tenants;   /* with a number of their own; 4 to 10000; default 200 */
    uint32_t models;    /* the same; default 100 */
    uint32_t providers; /* the same; 4 to 500; default 50 */
    uint32_t peers;     /* the same, of those that are no tenants; 4 to 10000; default 100 */
    uint32_t limits;    /* the same, of those whose limits refused; default 200 */
    uint32_t requests;  /* combinations of tenant, model, provider, code and reason with a number
                           of their own; 1 to 1000000, as the next two; default 3000 */
    uint32_t uses;      /* the same of tenant and model; default 1000 */
    uint32_t routes;    /* the same of provider and model; default 150 */
    uint64_t seed;      /* secret, random: seeds the hash; default 0 */
};

void metrics_config_init(struct metrics_config *config);

/* Null when there is no memory. */
struct metrics *metrics_new(const struct metrics_config *config);
void metrics_free(struct metrics *metrics);

struct metrics_shard *metrics_shard(struct metrics *metrics, size_t number);

/* A call has passed every stage and goes upstream for the first time. To be called exactly once
 * for each call whose report has attempts. */
/* A peer that is no tenant has been given a place: from now on it is shown. Empty: it is one. */
void metrics_note_peer(struct metrics_shard *shard, struct slice peer);

void metrics_admitted(struct metrics_shard *shard, enum tg_priority priority, int64_t waited_ms);

struct metrics_attempt {
    struct slice provider, model;
    enum tg_key_outcome outcome;
    int64_t ttfb_ms;       /* to the first byte of the reply; negative: there was none */
    enum http_cause cause; /* why its connection failed; none: it did not */
};

void metrics_attempt(struct metrics_shard *shard, const struct metrics_attempt *attempt);

void metrics_request(struct metrics_shard *shard, const struct report *report);

/* All that was counted, in the text format. */
void metrics_write(struct metrics *metrics, struct exposition *text);

/* ---- for other pages ---- */

/* What a tenant has done since the start. */
struct metrics_tenant {
    const char *name;           /* good as long as the metrics; "other": all that have no number */
    uint64_t requests;          /* requests that have ended */
    uint64_t refused;           /* those among them that a stage of admission refused */
    uint64_t tokens, micro_usd; /* what they used and cost */
};

/* Fills in up to `room`, in no order, and says how many there are: at most as many as have a
 * number of their own, and two. */
size_t metrics_get_tenants(struct metrics *metrics, struct metrics_tenant *tenants, size_t room);

struct metrics_totals {
    uint64_t admitted, rejected;
    uint64_t would_deny[REPORT_STAGES]; /* requests that a limit in shadow would have refused */
};

void metrics_get_totals(struct metrics *metrics, struct metrics_totals *totals);

/* Calls fn for the peers that are no tenants, as far as they have a number. */
void metrics_each_peer(struct metrics *metrics, void (*fn)(void *context, const char *peer),
                       void *context);

#endif
