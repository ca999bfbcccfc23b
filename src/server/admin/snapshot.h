/* snapshot.h - everything that moves, at one moment, as JSON: for the dashboard, `tollgate top` and
 * whoever asks at night. docs/openapi.yaml has its members.
 *
 * Lists are bounded: what is busiest, or nearest to its limit, comes first, and the document says
 * when there is more. With ten thousand tenants it is some hundred KiB, made in some ms on a thread
 * that carries no calls. It takes the library's own short locks and no other.
 */
#ifndef TG_ADMIN_SNAPSHOT_H
#define TG_ADMIN_SNAPSHOT_H

#include "io/text/json_write.h"
#include "server/obs/metrics.h"
#include "server/obs/watch.h"
#include "server/runtime/gateway.h"

#define SNAPSHOT_ROUTES_MAX 200
#define SNAPSHOT_KEYS_MAX 500
#define SNAPSHOT_BUDGETS_MAX 100
#define SNAPSHOT_TENANTS_MAX 20
#define SNAPSHOT_DENIALS_MAX 50
#define SNAPSHOT_SEEN_MAX 512 /* tenants whose rates are known */

/* How long its lists are. */
struct snapshot_bounds {
    size_t routes, keys, budgets, tenants, denials;
};

#define SNAPSHOT_BOUNDS                                                                            \
    ((struct snapshot_bounds){SNAPSHOT_ROUTES_MAX, SNAPSHOT_KEYS_MAX, SNAPSHOT_BUDGETS_MAX,        \
                              SNAPSHOT_TENANTS_MAX, SNAPSHOT_DENIALS_MAX})

/* What had been counted at one moment. */
struct snapshot_counts {
    tg_ms at;
    uint64_t calls, admitted;
    uint64_t refused[REPLY_COUNT];
    uint64_t would_deny[REPORT_STAGES];
    struct metrics_tenant tenants[SNAPSHOT_SEEN_MAX];
    size_t n_tenants;
};

/* Whom it is about. */
struct snapshot_sources {
    struct gateway *gateway;
    struct metrics *metrics; /* null: no tenants, and nothing was admitted */
    struct watch *watch;     /* null: no denials */
};

/* The last two: rates are between them. */
struct snapshot_memory {
    struct snapshot_sources of;
    tg_ms started_at;
    struct snapshot_counts *counts; /* these two, and one to count in */
    int newest;
    uint64_t generation; /* the last that was seen, and when it was seen first */
    tg_ms loaded_at;
};

/* False: no memory. */
bool snapshot_memory_init(struct snapshot_memory *memory, const struct snapshot_sources *of,
                          const struct generation *generation, tg_ms now);
void snapshot_memory_fini(struct snapshot_memory *memory);

/* To be called every second. */
void snapshot_sample(struct snapshot_memory *memory, const struct generation *generation,
                     tg_ms now);

void snapshot_write(struct json_writer *out, const struct snapshot_memory *memory,
                    const struct generation *generation, tg_ms now);

/* With other bounds: those of budgets and denials at most as above. */
void snapshot_write_within(struct json_writer *out, const struct snapshot_memory *memory,
                           const struct generation *generation, tg_ms now,
                           const struct snapshot_bounds *bounds);

/* ---- Parts, for the rest of the API ---------------------------------------------------------- */

void snapshot_write_denial(struct json_writer *out, const struct watch_entry *entry);

/* The budgets that a tenant (null: everyone) has, or a key of it (null: the tenant itself). Returns
 * how many. */
size_t snapshot_read_account(struct spending *spending, const char *tenant, const char *key,
                             size_t hint, tg_ms now,
                             struct tg_budget_metrics budgets[TG_BUDGETS_MAX]);

/* The members of one of them, in braces. */
void snapshot_write_budget(struct json_writer *out, const char *tenant, const char *key,
                           enum config_reserve reserve, const struct tg_budget_metrics *budget);

/* How the i-th of `n` budgets reserves; CONFIG_RESERVE_BOUND where a reload has fewer. */
enum config_reserve snapshot_reserve(const struct config_budget *budgets, size_t n, size_t i);

#endif
