/* gateway.c - what the workers share: made once, in steps, and unmade.
 *
 * Each step leaves a gateway that gateway_free() can take: on an error, what there is so far is
 * freed and the step's message is handed on.
 */
#include "server/runtime/gateway.h"
#include "lib/core/num.h"
#include "lib/core/problem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "io/http/http_client.h"
#include "io/net/work_pool.h"
#include "io/posix/zone.h"
#include "io/text/json_read.h"
#include "server/dialect/prefix.h"
#include "server/ledger/ledger_blob.h"
#include "server/ledger/ledger_export.h"
#include "server/obs/metrics.h"
#include "server/remote/remote.h"
#include "server/runtime/expected_cost.h"
#include "server/runtime/generation_internal.h"
#include "server/runtime/inherited.h"
#include "server/runtime/jwks.h"
#include "server/runtime/object_owners.h"
#include "server/runtime/service.h"
#include "server/runtime/worker.h"

enum { FLUSH_MS = 50 }; /* how often what was spent is moved from the journal to the database */

struct gateway_zone {
    char *name;
    struct tg_zone zone;
    SLIST_ENTRY(gateway_zone) link;
};

/* ---- zones ---- */

const struct tg_zone *gateway_zone(struct gateway *gateway, const char *name,
                                   struct tg_problem *problem)
{
    struct gateway_zone *zone;
    struct tg_problem why = {"no memory"};

    SLIST_FOREACH(zone, &gateway->zones, link)
        if (strcmp(zone->name, name) == 0)
            return &zone->zone;
    zone = calloc(1, sizeof *zone);
    if (zone != NULL)
        zone->name = strdup(name);
    if (zone == NULL || zone->name == NULL || zone_read(name, &zone->zone, &why)) {
        problem_fail(problem, "budgets: %s", why.text);
        free(zone ? zone->name : NULL);
        free(zone);
        return NULL;
    }
    SLIST_INSERT_HEAD(&gateway->zones, zone, link);
    return &zone->zone;
}

static void free_zones(struct gateway *gateway)
{
    struct gateway_zone *zone;

    while ((zone = SLIST_FIRST(&gateway->zones)) != NULL) {
        SLIST_REMOVE_HEAD(&gateway->zones, link);
        zone_fini(&zone->zone);
        free(zone->name);
        free(zone);
    }
}

/* ---- gates ---- */

void gateway_wake(void *context, void *waiter)
{
    (void)context;
    waiter_wake(waiter);
}

bool gateway_set_gate(struct gateway *gateway, const struct generation *generation, tg_ms now,
                      struct tg_problem *problem)
{
    struct tg_gate_config config;
    struct tg_problem why;

    scopes_gate_config(&generation->config.gate, &config);
    config.remote_store = gateway->remote != NULL || gateway->is_told;
    config.store = config.remote_store ? NULL : gateway->store;
    config.seed = gateway->seed;
    config.policy = generation->policy->policy;
    config.chance = gateway->chance;
    config.wake = gateway->wake;
    remote_divide_law(gateway->remote, &generation->config.gate.concurrency,
                      &config.concurrency.law);
    enum tg_err err = gateway->gate ? tg_gate_reconfigure(gateway->gate, &config, now, &why)
                                    : tg_gate_new(&config, &gateway->gate, &why);
    return err == TG_OK || problem_fail(problem, "gate: %s", why.text);
}

/* ---- generations ---- */

static void free_generation(void *arg)
{
    struct generation *generation = arg;

    assert(generation != gateway_newest(generation->gateway)); /* requests that come need it */
    LIST_REMOVE(generation, link);
    generation_free(generation);
}

void gateway_generation_over(struct gateway *gateway, struct generation *generation)
{
    if (gateway->control == NULL)
        return; /* it goes with the gateway */
    net_post_init(&generation->freeing, free_generation, generation);
    net_loop_post(gateway->control, &generation->freeing);
}

/* ---- all together ---- */

static bool make_store(struct gateway *gateway, struct tg_problem *problem)
{
    struct tg_store_config config;
    struct tg_problem why = {"no memory"};

    tg_store_config_init(&config);
    config.seed = gateway->seed;
    if (tg_store_new(&config, &gateway->store, &why) ||
        (gateway->book = limit_book_new(gateway->store)) == NULL)
        return problem_fail(problem, "limits: %s", why.text);
    return true;
}

static bool make_remote(struct gateway *gateway, const struct config *config,
                        struct tg_problem *problem)
{
    const struct remote_setup setup = {
        .node = gateway->node_id, .seed = gateway->seed, .store = gateway->store};

    return remote_new(&setup, config, &gateway->remote, problem);
}

static bool make_metrics(struct gateway *gateway, struct tg_problem *problem)
{
    struct metrics_config config;

    metrics_config_init(&config);
    config.shards = gateway->n_threads;
    config.seed = gateway->seed;
    gateway->metrics = metrics_new(&config);
    return gateway->metrics != NULL || problem_fail(problem, "metrics: no memory");
}

/* Tables of 12 KiB, for the tenants that there are, and some that may come. */
enum { PREFIX_TENANTS_MIN = 64, PREFIX_TENANTS_MAX = 4096 };

static bool open_memories(struct gateway *gateway, const struct config *config,
                          struct tg_problem *problem)
{
    int64_t tenants = num_max(PREFIX_TENANTS_MIN, 2 * (int64_t)config->n_tenants);

    gateway->prefixes = prefix_memory_new((size_t)num_min(tenants, PREFIX_TENANTS_MAX));
    gateway->expected = expected_cost_new(gateway->seed);
    gateway->failures = key_failures_new();
    gateway->owners = object_owners_new(OBJECT_OWNERS_MAX);
    gateway->jwks = jwks_new();
    return (gateway->prefixes != NULL && gateway->expected != NULL && gateway->failures != NULL &&
            gateway->owners != NULL && gateway->jwks != NULL) ||
           problem_fail(problem, "gateway: no memory");
}

static bool open_ledger(struct gateway *gateway, const struct config_ledger *config,
                        struct tg_problem *problem)
{
    struct ledger_config ledger;

    ledger_config_init(&ledger);
    ledger.path = config->path;
    ledger.detail = config->detail;
    if (gateway->inherited != NULL)
        ledger.lock_fd = gateway->inherited->lock_fd;
    if (!ledger_open(&ledger, &gateway->ledger, problem) ||
        !object_owners_load(gateway->owners, gateway->ledger,
                            clock_wall_of(&gateway->clock, clock_now_ms(&gateway->clock)), problem))
        return false;
    gateway->left_behind = ledger_left_behind(gateway->ledger);
    ledger_set_chore(gateway->ledger, object_owners_flush, gateway->owners);
    if (config->export != NULL && !ledger_export_to(gateway->ledger, config->export))
        return problem_fail(problem, "gateway: no memory");
    return ledger_keep(gateway->ledger, &gateway->clock, FLUSH_MS, problem);
}

/* Numbers and names that nobody can guess. */
static bool draw(struct gateway *gateway, struct tg_problem *problem)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    uint8_t bytes[GATEWAY_NODE_BYTES];

    if (gateway->inherited != NULL && gateway->inherited->has_seed)
        gateway->seed = gateway->inherited->seed; /* what it has hashed is known by its hash */
    else if (getrandom(&gateway->seed, sizeof gateway->seed, 0) != sizeof gateway->seed)
        return problem_fail(problem, "gateway: the system provides no random numbers");
    if (getrandom(&gateway->chance, sizeof gateway->chance, 0) != sizeof gateway->chance ||
        getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return problem_fail(problem, "gateway: the system provides no random numbers");
    gateway->chance = (gateway->chance & (uint64_t)TG_NUMBER_MAX) | 1; /* a number of JSON, not 0 */
    for (size_t i = 0; i < GATEWAY_NODE_BYTES; i++)
        gateway->node_id[i] = letters[bytes[i] % (sizeof letters - 1)];
    return true;
}

static bool open_services(struct gateway *gateway, struct tg_problem *problem)
{
    for (; gateway->n_open < gateway->services->n; gateway->n_open++) {
        const struct service *service = gateway->services->list[gateway->n_open];
        if (service->open != NULL && !service->open(gateway, problem))
            return false;
    }
    return true;
}

static void close_services(struct gateway *gateway)
{
    while (gateway->n_open > 0) {
        const struct service *service = gateway->services->list[--gateway->n_open];
        if (service->close != NULL)
            service->close(gateway);
    }
}

/* What the policy has learned is kept in the ledger under this name. */
static const char POLICY_BLOB[] = "policy";

static struct tg_policy *newest_policy(const struct gateway *gateway)
{
    const struct generation *newest = gateway_newest(gateway);

    return newest && newest->policy ? newest->policy->policy : NULL;
}

/* Before the first call. What is kept and does not fit, since its budgets were others, is left. */
static void recall_policy(struct gateway *gateway)
{
    struct tg_policy *policy = newest_policy(gateway);
    size_t n = 0;
    void *bytes = policy ? ledger_blob_get(gateway->ledger, POLICY_BLOB, &n) : NULL;

    gateway->policy_recalled =
        bytes && tg_bid_load(policy, bytes, n, clock_now_ms(&gateway->clock)) == TG_OK;
    if (bytes && !gateway->policy_recalled)
        fprintf(stderr, "tollgate: what the policy had learned cannot be used with its new "
                        "budgets; it starts afresh\n");
    free(bytes);
}

/* After the last, and before another process takes over. */
void gateway_keep_policy(struct gateway *gateway)
{
    struct tg_policy *policy = newest_policy(gateway);
    size_t n = policy && gateway->ledger ? tg_bid_save(policy, NULL, 0) : 0;
    void *bytes = n > 0 ? malloc(n) : NULL;
    struct tg_problem problem;

    if (bytes && tg_bid_save(policy, bytes, n) == n &&
        !ledger_blob_put(gateway->ledger, POLICY_BLOB, bytes, n, &problem))
        fprintf(stderr, "tollgate: ledger: %s\n", problem.text);
    free(bytes);
}

static void *make_reader(void)
{
    return json_reader_new();
}

static void free_reader(void *reader)
{
    json_reader_free(reader);
}

/* Two threads at least, so that one tenant does not have them all. */
static bool make_pool(struct gateway *gateway, struct tg_problem *problem)
{
    static const struct net_pool_scratch scratch = {make_reader, free_reader};

    gateway->pool = net_pool_new(gateway->n_threads / 2 < 2 ? 2 : gateway->n_threads / 2, &scratch);
    return gateway->pool != NULL || problem_fail(problem, "gateway: no memory");
}

/* Takes over the configuration. */
static bool make_first(struct gateway *gateway, struct config *config, struct tg_problem *problem)
{
    struct generation *first;

    if (!generation_new(gateway, config, NULL, &first, problem))
        return false;
    LIST_INSERT_HEAD(&gateway->generations, first, link);
    recall_policy(gateway);
    gateway->began_at = clock_now_ms(&gateway->clock);
    return generation_apply(first, NULL, gateway->began_at, problem);
}

void gateway_set_census(struct gateway *gateway, const struct config *config)
{
    const struct config_server_limits *limits = &config->limits;
    long long quarter = limits->connections / 4 < 16 ? 16 : limits->connections / 4;

    atomic_store(&gateway->census.max, limits->connections);
    atomic_store(&gateway->census.per_address,
                 limits->connections_per_address > 0 ? limits->connections_per_address : quarter);
}

bool gateway_new(const struct service_table *services, struct config *config,
                 const struct clock *clock, size_t n_threads, struct gateway **made,
                 struct tg_problem *problem)
{
    return gateway_new_from(services, config, clock, n_threads, NULL, made, problem);
}

bool gateway_new_from(const struct service_table *services, struct config *config,
                      const struct clock *clock, size_t n_threads, struct inherited *inherited,
                      struct gateway **made, struct tg_problem *problem)
{
    struct gateway *gateway = calloc(1, sizeof *gateway);
    bool fine = gateway != NULL || problem_fail(problem, "gateway: no memory");

    if (fine) {
        gateway->services = services;
        gateway->wake = gateway_wake;
        gateway->clock = *clock;
        gateway->n_threads = n_threads;
        gateway->inherited = inherited;
        pthread_mutex_init(&gateway->ring_changes, NULL);
        fine = draw(gateway, problem) && open_services(gateway, problem);
    }
    fine = fine && make_pool(gateway, problem) && make_store(gateway, problem) &&
           make_remote(gateway, config, problem) && make_metrics(gateway, problem) &&
           open_memories(gateway, config, problem) &&
           open_ledger(gateway, &config->ledger, problem) &&
           disabled_keys_load(&gateway->disabled, gateway->ledger, problem);
    if (fine) {
        gateway->census.seed = gateway->seed;
        gateway_set_census(gateway, config);
        atomic_store(&gateway->drain_ms, config->drain);
        fine = make_first(gateway, config, problem);
    } else {
        config_free(config);
    }
    if (!fine) {
        gateway_free(gateway);
        return false;
    }
    *made = gateway;
    return true;
}

bool gateway_new_virtual(struct config *config, const struct clock *clock, tg_ms now,
                         uint64_t chance, bool is_told, void (*wake)(void *context, void *waiter),
                         struct gateway **made, struct tg_problem *problem)
{
    static const struct service_table nothing = {.n = 0};
    struct gateway *gateway = calloc(1, sizeof *gateway);
    struct generation *first;

    if (gateway == NULL) {
        config_free(config);
        return problem_fail(problem, "gateway: no memory");
    }
    gateway->services = &nothing;
    gateway->wake = wake;
    gateway->clock = *clock;
    gateway->chance = gateway->seed = chance;
    gateway->is_told = is_told;
    gateway->n_threads = 1;
    pthread_mutex_init(&gateway->ring_changes, NULL);
    if (!make_store(gateway, problem) || !make_metrics(gateway, problem) ||
        !open_memories(gateway, config, problem)) {
        config_free(config);
        gateway_free(gateway);
        return false;
    }
    bool fine = generation_new(gateway, config, NULL, &first, problem);
    if (fine) {
        LIST_INSERT_HEAD(&gateway->generations, first, link);
        fine = generation_apply(first, NULL, now, problem);
    }
    if (!fine) {
        gateway_free(gateway);
        return false;
    }
    *made = gateway;
    return true;
}

void gateway_free(struct gateway *gateway)
{
    struct tg_problem problem;
    struct generation *generation;

    if (gateway == NULL)
        return;
    net_pool_free(gateway->pool);
    remote_free(gateway->remote);
    spending_free(gateway->spending);
    http_origin_unref(gateway->successor);
    http_origin_unref(gateway->grpc_successor);
    if (!atomic_load(&gateway->handing_over)) /* else another process has learned since */
        gateway_keep_policy(gateway);
    if (gateway->ledger && !ledger_close(gateway->ledger, &problem))
        fprintf(stderr, "tollgate: ledger: %s\n", problem.text);
    free_zones(gateway);
    prefix_memory_free(gateway->prefixes);
    object_owners_free(gateway->owners);
    jwks_free(gateway->jwks);
    expected_cost_free(gateway->expected);
    key_failures_free(gateway->failures);
    tg_keyring_free(gateway->ring);
    tg_gate_free(gateway->gate);
    while ((generation = gateway_newest(gateway)) != NULL) {
        LIST_REMOVE(generation, link);
        generation_free(generation);
    }
    close_services(gateway);
    assert(atomic_load(&gateway->working) == 0 && atomic_load(&gateway->counts.open) == 0);
    limit_book_free(gateway->book);
    tg_store_free(gateway->store);
    metrics_free(gateway->metrics);
    disabled_keys_fini(&gateway->disabled);
    pthread_mutex_destroy(&gateway->ring_changes);
    free(gateway);
}
