/* metrics_gates.c - the gates on the page of metrics: limits, who waits, memory, peers.
 *
 * admission_* are the metrics of a single gate, without a label that would tell two apart. So
 * in_flight is of both together, and limit and queue estimate are of the gate whose law learns,
 * that of `protect` routes: the other one has a ceiling and no law.
 */
#include <math.h>
#include <string.h>

#include "server/admin/metrics_page_internal.h"
#include "server/obs/metrics.h"

enum { GATES = 2, TOP_PEERS = 10 };

struct gate_view {
    const char *name;
    struct tg_gate_stats stats;
    struct tg_law_metrics law;
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

static void write_numbers(struct exposition *text, const struct gate_view views[GATES])
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
        for (int i = 0; i < GATES; i++) {
            struct expose_labels labels = of_gate(&views[i]);
            expose_line(text, &labels, metrics[m].value(&views[i]));
        }
    }
}

/* The bounds of laws that move between two, to recognise a limit that cannot fall any further. */
static void write_minimum(struct exposition *text, const struct gate_view views[GATES])
{
    expose_begin(text, "tollgate_concurrency_limit_min", "gauge",
                 "Below which the law of a gate will not go.");
    for (int i = 0; i < GATES; i++) {
        const struct tg_law_metrics *law = &views[i].law;
        struct expose_labels labels = of_gate(&views[i]);
        if (law->law != TG_LAW_NONE && law->law != TG_LAW_FIXED && law->min < law->max)
            expose_line(text, &labels, law->min);
    }
}

static void write_queues(struct exposition *text, const struct gate_view views[GATES])
{
    expose_begin(text, "tollgate_concurrency_queued", "gauge",
                 "Calls that wait for others to end.");
    for (int i = 0; i < GATES; i++)
        for (int p = 0; p < TG_PRIORITY_COUNT; p++)
            expose_line(
                text,
                &(struct expose_labels){
                    {{"gate", views[i].name}, {"priority", tg_priority_name((enum tg_priority)p)}}},
                views[i].stats.queued[p]);
    expose_begin(text, "tollgate_would_deny_total", "counter",
                 "Calls that a stage in shadow would have refused.");
    for (int i = 0; i < GATES; i++)
        for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
            expose_line(text,
                        &(struct expose_labels){{{"gate", views[i].name},
                                                 {"reason", tg_reason_name((enum tg_reason)r)}}},
                        (int64_t)views[i].stats.would_deny[r]);
}

/* ---- of both ---- */

/* Where concurrency is off there are no slots, and leases are what runs. */
static int64_t running(const struct gate_view *view)
{
    return view->stats.limit >= TG_NUMBER_MAX ? view->stats.leases : view->stats.in_flight;
}

static void write_admission(struct exposition *text, const struct gate_view views[GATES])
{
    const struct gate_view *models = &views[0], *protect = &views[1];
    bool known = !isnan(models->stats.memory_used);

    expose_single(text, "admission_in_flight", "gauge", "Requests that were admitted and run.",
                  running(models) + running(protect));
    expose_single(text, "admission_concurrency_limit", "gauge",
                  "What the law allows to run at once (of protected routes).",
                  protect->stats.limit);
    expose_begin(text, "admission_vegas_queue_estimate", "gauge",
                 "Calls that wait behind the gate, as vegas sees it (of protected routes).");
    expose_real(text, NULL, fmax(0, protect->law.queue_estimate));
    expose_begin(text, "admission_memory_usage", "gauge",
                 "The part of memory that is used, of the machine or its control group.");
    if (known)
        expose_real(text, NULL, models->stats.memory_used);
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
    struct peer peer = {name, tg_gate_peer_calls(top->gateway->gate, name, bytes) +
                                  tg_gate_peer_calls(top->gateway->protect_gate, name, bytes)};

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

/* The gates know peers by their hash: names come from the configuration and from what was seen. */
static void write_peers(struct exposition *text, struct gateway *gateway,
                        const struct generation *generation, const struct gate_view views[GATES])
{
    struct top_peers top = {.gateway = gateway};
    bool any = views[0].stats.peer_calls + views[1].stats.peer_calls > 0;

    for (size_t i = 0; any && i < generation->config.n_tenants; i++)
        consider(&top, generation->config.tenants[i].name);
    if (any)
        metrics_each_peer(gateway->metrics, consider, &top);
    expose_begin(text, "admission_peer_in_flight", "gauge",
                 "Calls of the ten peers that have most, waiting or running.");
    for (size_t i = 0; i < top.n; i++)
        expose_line(text, &(struct expose_labels){{{"peer", top.list[i].name}}}, top.list[i].calls);
}

void metrics_write_gates(struct exposition *text, struct gateway *gateway,
                         const struct generation *generation)
{
    struct tg_gate *const gates[GATES] = {gateway->gate, gateway->protect_gate};
    struct gate_view views[GATES] = {{.name = "models"}, {.name = "protect"}};

    for (int i = 0; i < GATES; i++) {
        tg_gate_get_stats(gates[i], &views[i].stats);
        tg_gate_get_law(gates[i], &views[i].law);
    }
    write_admission(text, views);
    write_peers(text, gateway, generation, views);
    write_numbers(text, views);
    write_minimum(text, views);
    write_queues(text, views);
}
