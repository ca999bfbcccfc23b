/* metrics_gates.c - the gates on the page of metrics: limits, who waits, memory, peers.
 *
 * admission_* are the metrics of a single gate: the one that all calls pass. The queue estimate is
 * the largest of the laws that are vegas, wherever they stand. The slots of models are metrics of
 * their routes (metrics_keys.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/obs/metrics.h"
#include "server/probe/metrics_page_internal.h"

enum { TOP_PEERS = 10 };

struct gate_view {
    char name[SLOTS_NAME_MAX];
    struct tg_gate_stats stats;
    struct tg_law_metrics law;
};

/* The gate of all calls, then the slots of protected routes and callers. */
struct gate_views {
    struct gate_view *list;
    size_t n;
};

static struct expose_labels of_gate(const struct gate_view *view)
{
    return (struct expose_labels){{{"gate", view->name}}};
}

/* ---- by gate ---- */

static int64_t limit_of(const struct gate_view *view)
{
    return view->stats.limit;
}

static int64_t in_flight_of(const struct gate_view *view)
{
    return view->stats.in_flight;
}

static int64_t admitted_of(const struct gate_view *view)
{
    return (int64_t)view->stats.admitted;
}

static int64_t expired_of(const struct gate_view *view)
{
    return (int64_t)view->stats.expired;
}

static void write_numbers(struct exposition *text, const struct gate_views *views)
{
    static const struct {
        const char *name, *type, *help;
        int64_t (*value)(const struct gate_view *view);
    } metrics[] = {
        {"tollgate_concurrency_limit", "gauge", "Calls that may run at once.", limit_of},
        {"tollgate_concurrency_in_flight", "gauge", "Calls that run.", in_flight_of},
        {"tollgate_admitted_total", "counter", "Calls that a gate admitted.", admitted_of},
        {"tollgate_leases_expired_total", "counter", "Leases that ended by their time.",
         expired_of},
    };

    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        expose_begin(text, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < views->n; i++) {
            struct expose_labels labels = of_gate(&views->list[i]);
            expose_line(text, &labels, metrics[m].value(&views->list[i]));
        }
    }
}

/* The bounds of laws that move between two, to recognise a limit that cannot fall any further. */
static void write_minimum(struct exposition *text, const struct gate_views *views)
{
    expose_begin(text, "tollgate_concurrency_limit_min", "gauge",
                 "Below which the law of a gate will not go.");
    for (size_t i = 0; i < views->n; i++) {
        const struct tg_law_metrics *law = &views->list[i].law;
        struct expose_labels labels = of_gate(&views->list[i]);
        if (config_law_learns(law->law) && law->min < law->max)
            expose_line(text, &labels, law->min);
    }
}

static void write_queues(struct exposition *text, const struct gate_views *views)
{
    expose_begin(text, "tollgate_concurrency_queued", "gauge",
                 "Calls that wait for others to end.");
    for (size_t i = 0; i < views->n; i++)
        for (int p = 0; p < TG_PRIORITY_COUNT; p++)
            expose_line(
                text,
                &(struct expose_labels){{{"gate", views->list[i].name},
                                         {"priority", tg_priority_name((enum tg_priority)p)}}},
                views->list[i].stats.queued[p]);
    expose_begin(text, "tollgate_would_deny_total", "counter",
                 "Calls that a stage in shadow would have refused.");
    for (size_t i = 0; i < views->n; i++)
        for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
            expose_line(text,
                        &(struct expose_labels){{{"gate", views->list[i].name},
                                                 {"reason", tg_reason_name((enum tg_reason)r)}}},
                        (int64_t)views->list[i].stats.would_deny[r]);
}

/* ---- of all calls ---- */

static void write_admission(struct exposition *text, const struct gate_views *views)
{
    const struct gate_view *all = &views->list[0];
    bool known = !isnan(all->stats.memory_used);
    double estimate = 0;

    for (size_t i = 0; i < views->n; i++)
        if (views->list[i].law.law == TG_LAW_VEGAS)
            estimate = fmax(estimate, views->list[i].law.queue_estimate);
    expose_single(text, "admission_in_flight", "gauge", "Requests that were admitted and run.",
                  all->stats.in_flight);
    expose_single(text, "admission_concurrency_limit", "gauge",
                  "How many calls may run at once, all together.", all->stats.limit);
    expose_begin(text, "admission_vegas_queue_estimate", "gauge",
                 "Calls that wait behind a gate, as its vegas sees it: the largest of all.");
    expose_real(text, NULL, estimate);
    expose_begin(text, "admission_memory_usage", "gauge",
                 "The part of memory that is used, of the machine or its control group.");
    if (known)
        expose_real(text, NULL, all->stats.memory_used);
    expose_single(text, "tollgate_memory_source_stale", "gauge",
                  "Whether memory cannot be read: then nothing is refused for it.", !known);
}

/* ---- peers ---- */

struct peer {
    const char *name;
    int64_t calls;
};

struct top_peers {
    struct gateway *gateway;
    struct peer list[TOP_PEERS]; /* the highest first */
    size_t n;
};

static void consider(void *context, const char *name)
{
    struct top_peers *top = context;
    size_t bytes = strlen(name), at;
    struct peer peer = {name, tg_gate_peer_calls(top->gateway->gate, name, bytes)};

    if (peer.calls == 0 || (top->n == TOP_PEERS && peer.calls <= top->list[TOP_PEERS - 1].calls))
        return;
    for (size_t i = 0; i < top->n; i++)
        if (strcmp(top->list[i].name, name) == 0)
            return; /* a tenant, and a peer of that name */
    at = top->n < TOP_PEERS ? top->n++ : TOP_PEERS - 1;
    for (; at > 0 && top->list[at - 1].calls < peer.calls; at--)
        top->list[at] = top->list[at - 1];
    top->list[at] = peer;
}

/* The gate knows peers by their hash: names come from the configuration and from what was seen. */
static void write_peers(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, const struct gate_views *views)
{
    struct top_peers top = {.gateway = gateway};
    bool any = views->list[0].stats.peer_calls > 0;

    for (size_t i = 0; any && i < generation->config.n_tenants; i++)
        consider(&top, generation->config.tenants[i].name);
    if (any)
        metrics_each_peer(gateway->metrics, consider, &top);
    expose_begin(text, "admission_peer_in_flight", "gauge",
                 "Calls of the ten peers that have most, waiting or running.");
    for (size_t i = 0; i < top.n; i++)
        expose_line(text, &(struct expose_labels){{{"peer", top.list[i].name}}}, top.list[i].calls);
}

static void view_gate(struct gate_views *views, struct tg_gate *gate)
{
    struct gate_view *view = &views->list[views->n++];

    tg_gate_get_stats(gate, &view->stats);
    tg_gate_get_law(gate, &view->law);
}

/* ---- the policy ---- */

static void write_guard(struct exposition *text, const struct generation *generation)
{
    struct tg_bid_guard guard = {.acted = 0};

    if (generation->policy != NULL && generation->policy->policy != NULL)
        tg_bid_get_guard(generation->policy->policy, &guard);
    expose_single(text, "tollgate_policy_guarded_total", "counter",
                  "Calls that the guard decided differently from the prices.",
                  (int64_t)guard.acted);
}

void metrics_write_gates(struct exposition *text, struct gateway *gateway,
                         const struct generation *generation)
{
    struct gate_views views = {.list = calloc(generation->n_slots + 1, sizeof *views.list)};

    if (views.list == NULL)
        return;
    memcpy(views.list[0].name, "all", sizeof "all");
    view_gate(&views, gateway->gate);
    for (size_t i = 0; i < generation->n_slots; i++)
        if (generation->slots[i].owner != SLOTS_MODEL) {
            slots_name(&generation->slots[i], views.list[views.n].name);
            view_gate(&views, generation->slots[i].slots->gate);
        }
    write_admission(text, &views);
    write_peers(text, gateway, generation, &views);
    write_guard(text, generation);
    write_numbers(text, &views);
    write_minimum(text, &views);
    write_queues(text, &views);
    free(views.list);
}
