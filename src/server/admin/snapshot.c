/* snapshot.c - everything that moves, at one moment. See snapshot.h; its lists are in
 * snapshot_lists.c. */
#include "server/admin/snapshot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/admin/admin_internal.h"
#include "server/admin/snapshot_internal.h"
#include "server/fleet/fleet.h"
#include "server/probe/probe_pages.h"
#include "server/remote/remote.h"

/* ---- what was counted ---- */

/* A call is admitted when it goes upstream, and not yet when a gate lets it pass: then it may still
 * be refused for money or a key. */
static void count_calls(struct snapshot_counts *counts, const struct snapshot_sources *of)
{
    const struct gateway_counts *from = &of->gateway->counts;
    struct metrics_totals totals = {0};

    if (of->metrics != NULL)
        metrics_get_totals(of->metrics, &totals);
    counts->calls = atomic_load_explicit(&from->calls, memory_order_relaxed);
    for (int i = 0; i < REPLY_COUNT; i++)
        counts->refused[i] = atomic_load_explicit(&from->refused[i], memory_order_relaxed);
    counts->admitted = totals.admitted;
    memcpy(counts->would_deny, totals.would_deny, sizeof counts->would_deny);
}

static void count_all(struct snapshot_counts *counts, const struct snapshot_sources *of, tg_ms now)
{
    counts->at = now;
    count_calls(counts, of);
    counts->n_tenants = 0;
    if (of->metrics != NULL)
        counts->n_tenants = metrics_get_tenants(of->metrics, counts->tenants, SNAPSHOT_SEEN_MAX);
    if (counts->n_tenants > SNAPSHOT_SEEN_MAX)
        counts->n_tenants = SNAPSHOT_SEEN_MAX;
}

bool snapshot_memory_init(struct snapshot_memory *memory, const struct snapshot_sources *of,
                          const struct generation *generation, tg_ms now)
{
    *memory = (struct snapshot_memory){.of = *of,
                                       .started_at = now,
                                       .loaded_at = now,
                                       .generation = generation->number,
                                       .counts = calloc(3, sizeof *memory->counts)};
    if (memory->counts == NULL)
        return false;
    count_all(&memory->counts[0], of, now);
    memory->counts[1] = memory->counts[0];
    return true;
}

void snapshot_memory_fini(struct snapshot_memory *memory)
{
    free(memory->counts);
    memory->counts = NULL;
}

void snapshot_sample(struct snapshot_memory *memory, const struct generation *generation, tg_ms now)
{
    memory->newest = 1 - memory->newest;
    count_all(&memory->counts[memory->newest], &memory->of, now);
    if (generation->number != memory->generation) {
        memory->generation = generation->number;
        memory->loaded_at = now;
    }
}

/* ---- counters and rates ---- */

/* Some reasons have one name: each is written once, with the sum. */
static void write_reasons(struct json_writer *out, const char *key, const uint64_t *now,
                          const uint64_t *before, double seconds)
{
    json_write_key(out, key);
    json_write_object(out);
    for (int i = 0; i < REPLY_COUNT; i++) {
        const char *name = reply_reason_name((enum reply_reason)i);
        uint64_t sum = 0;
        bool earlier = false;
        for (int k = 0; k < REPLY_COUNT; k++)
            if (strcmp(reply_reason_name((enum reply_reason)k), name) == 0) {
                sum += now[k] - (before != NULL ? before[k] : 0);
                earlier = earlier || k < i;
            }
        if (earlier || sum == 0)
            continue;
        if (before != NULL)
            json_member_real(out, name, (double)sum / seconds);
        else
            json_member_number(out, name, (int64_t)sum);
    }
    json_write_object_end(out);
}

static uint64_t sum_of(const uint64_t *refused)
{
    uint64_t sum = 0;

    for (int i = 0; i < REPLY_COUNT; i++)
        sum += refused[i];
    return sum;
}

static void write_would_deny(struct json_writer *out, const uint64_t *would_deny)
{
    json_write_key(out, "would_deny_by_reason");
    json_write_object(out);
    for (int i = 0; i < REPORT_STAGES; i++)
        if (would_deny[i] > 0)
            json_member_number(out, report_stage_name((enum report_stage)i),
                               (int64_t)would_deny[i]);
    json_write_object_end(out);
}

static void write_count(struct json_writer *out, const char *key, const atomic_ullong *count)
{
    json_member_number(out, key, (int64_t)atomic_load_explicit(count, memory_order_relaxed));
}

/* The values of this moment: the sample that rates are made of may be a second old. */
static void write_counters(struct json_writer *out, const struct snapshot_memory *memory)
{
    const struct gateway_counts *counts = &memory->of.gateway->counts;
    struct snapshot_counts *scratch = &memory->counts[2];

    count_calls(scratch, &memory->of);
    json_write_key(out, "counters");
    json_write_object(out);
    json_member_number(out, "calls", (int64_t)scratch->calls);
    json_member_number(out, "admitted", (int64_t)scratch->admitted);
    json_member_number(out, "refused", (int64_t)sum_of(scratch->refused));
    write_reasons(out, "refused_by_reason", scratch->refused, NULL, 1);
    write_would_deny(out, scratch->would_deny);
    write_count(out, "retries", &counts->retries);
    write_count(out, "fallbacks", &counts->fallbacks);
    write_count(out, "hangups", &counts->hangups);
    write_count(out, "usage_missing", &counts->usage_missing);
    json_write_object_end(out);
}

static void write_rates(struct json_writer *out, const struct snapshot_memory *memory)
{
    const struct snapshot_counts *now = &memory->counts[memory->newest];
    const struct snapshot_counts *before = &memory->counts[1 - memory->newest];
    double seconds = now->at > before->at ? (double)(now->at - before->at) / 1000 : 1;
    uint64_t refused = sum_of(now->refused) - sum_of(before->refused);

    json_write_key(out, "rates");
    json_write_object(out);
    json_member_real(out, "calls", (double)(now->calls - before->calls) / seconds);
    json_member_real(out, "admitted", (double)(now->admitted - before->admitted) / seconds);
    json_member_real(out, "refused", (double)refused / seconds);
    write_reasons(out, "refused_by_reason", now->refused, before->refused, seconds);
    json_write_object_end(out);
}

/* ---- gates ---- */

void snapshot_write_queued(struct json_writer *out, const struct tg_gate_stats *stats)
{
    json_write_key(out, "queued");
    json_write_object(out);
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        json_member_number(out, tg_priority_name((enum tg_priority)p), stats->queued[p]);
    json_write_object_end(out);
}

static void write_gate(struct json_writer *out, const char *name, struct tg_gate *gate,
                       const struct config_concurrency *config)
{
    struct tg_gate_stats stats;
    struct tg_law_metrics law;

    tg_gate_get_stats(gate, &stats);
    tg_gate_get_law(gate, &law);
    json_write_object(out);
    json_member_text(out, "name", name);
    json_member_text(out, "law", tg_law_name(law.law));
    json_member_text(out, "mode", config->mode == CONFIG_SHADOW ? "shadow" : "enforce");
    json_member_unless(out, "limit", stats.limit, TG_NUMBER_MAX);
    json_member_number(out, "in_flight", stats.in_flight);
    snapshot_write_queued(out, &stats);
    json_member_number(out, "peers", stats.peers);
    json_member_number(out, "admitted", (int64_t)stats.admitted);
    json_write_key(out, "refused_by_reason");
    json_write_object(out);
    for (int r = TG_REASON_NONE + 1; r < TG_REASON_COUNT; r++)
        if (stats.refused[r] > 0)
            json_member_number(out, tg_reason_name((enum tg_reason)r), (int64_t)stats.refused[r]);
    json_write_object_end(out);
    json_member_number(out, "expired", (int64_t)stats.expired);
    json_write_object_end(out);
}

/* The one that all calls pass first; the slots of models are among the routes. */
static void write_gates(struct json_writer *out, struct gateway *gateway,
                        const struct generation *generation)
{
    char name[SLOTS_NAME_MAX];

    json_write_key(out, "gates");
    json_write_array(out);
    write_gate(out, "all", gateway->gate, &generation->config.gate.concurrency);
    for (size_t i = 0; i < generation->n_slots; i++)
        if (generation->slots[i].owner != SLOTS_MODEL) {
            slots_name(&generation->slots[i], name);
            write_gate(out, name, generation->slots[i].slots->gate, generation->slots[i].config);
        }
    json_write_array_end(out);
}

/* ---- memory, store, ledger ---- */

/* Resident bytes of this process; -1: not known. */
static int64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long long pages = -1;

    if (file == NULL)
        return -1;
    if (fscanf(file, "%*s %lld", &pages) != 1)
        pages = -1;
    fclose(file);
    return pages < 0 ? -1 : (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static const char *memory_state(const struct config_memory *config, double used)
{
    if (!config->present)
        return "off";
    if (isnan(used))
        return "unknown";
    if (used > config->limit)
        return "limit";
    if (used > config->critical)
        return "critical";
    return used > config->pressure ? "pressure" : "ok";
}

static void write_memory(struct json_writer *out, struct gateway *gateway,
                         const struct generation *generation)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(gateway->gate, &stats);
    json_write_key(out, "memory");
    json_write_object(out);
    json_member_real(out, "used_ratio", stats.memory_used); /* null where it is not known */
    json_member_unless(out, "process_bytes", resident_bytes(), -1);
    json_member_number(out, "buffered_bytes",
                       atomic_load_explicit(&gateway->counts.buffered, memory_order_relaxed));
    json_member_text(out, "state",
                     memory_state(&generation->config.gate.memory, stats.memory_used));
    json_write_object_end(out);
}

static void write_store(struct json_writer *out, struct gateway *gateway)
{
    struct tg_store_stats stats;

    tg_store_get_stats(gateway->store, &stats);
    json_write_key(out, "store");
    json_write_object(out);
    json_member_text(out, "kind", gateway->remote ? "redis" : "memory");
    json_member_text(out, "state", remote_health_name(remote_health_of(gateway->remote)));
    json_member_number(out, "keys", (int64_t)stats.keys);
    json_member_number(out, "memory_bytes", (int64_t)stats.memory_bytes);
    json_member_number(out, "forgotten", (int64_t)stats.forgotten);
    json_member_number(out, "refused", (int64_t)stats.refused);
    json_write_object_end(out);
}

/* How many were heard of lately, and how many of them are not where the store is. */
void snapshot_write_fleet(struct json_writer *out, struct gateway *gateway)
{
    struct fleet_view view;
    int64_t alive = 0, behind = 0;

    if (gateway->fleet == NULL) {
        json_member_null(out, "fleet");
        return;
    }
    fleet_get_view(gateway->fleet, &view);
    for (size_t i = 0; i < view.n_reports; i++) {
        bool lives = view.reports[i].silent <= FLEET_SILENT_MS;
        alive += lives;
        behind += lives && view.reports[i].version < view.stored_version;
    }
    json_write_key(out, "fleet");
    json_write_object(out);
    json_member_text(out, "state", view.evicts ? "store_evicts" : fleet_state_name(view.state));
    json_member_number(out, "version", view.mark.version);
    json_member_unless(out, "stored_version", view.stored_version, -1);
    json_member_number(out, "gateways", alive);
    json_member_number(out, "behind", behind);
    json_member_text(out, "problem", view.problem);
    json_write_object_end(out);
}

static void write_ledger(struct json_writer *out, struct gateway *gateway)
{
    static const char *const HEALTH[] = {
        [LEDGER_WELL] = "well", [LEDGER_LATE] = "late", [LEDGER_FULL] = "full"};
    struct spending_stats spending;
    struct ledger_state state;

    if (gateway->ledger == NULL) {
        json_member_null(out, "ledger");
        return;
    }
    spending_get_stats(gateway->spending, &spending);
    ledger_get_state(gateway->ledger, &state);
    json_write_key(out, "ledger");
    json_write_object(out);
    json_member_text(out, "state", HEALTH[state.health]);
    json_member_text(out, "reason", *state.reason != '\0' ? state.reason : NULL);
    json_member_number(out, "waiting", (int64_t)state.waiting);
    json_member_number(out, "room", (int64_t)state.room);
    json_member_number(out, "lost", (int64_t)spending.lost);
    json_member_number(out, "uncertain_micro_usd", spending.uncertain);
    json_member_number(out, "interrupted", (int64_t)state.interrupted);
    json_member_number(out, "interrupted_micro_usd", state.interrupted_micro);
    json_write_object_end(out);
}

static void write_prices(struct json_writer *out, const struct generation *generation)
{
    struct tg_duals duals;
    struct tg_bid_guard guard;

    if (generation->policy == NULL || generation->policy->policy == NULL) {
        json_member_null(out, "prices");
        return;
    }
    tg_bid_get_duals(generation->policy->policy, &duals);
    tg_bid_get_guard(generation->policy->policy, &guard);
    json_write_key(out, "prices");
    json_write_object(out);
    json_member_real(out, "rate", duals.rate);
    json_member_real(out, "cost", duals.cost);
    json_member_real(out, "concurrency", duals.concurrency);
    json_member_number(out, "guarded", (int64_t)guard.acted);
    json_member_real(out, "earned", guard.earned);
    json_member_real(out, "without_policy", guard.shadow);
    json_write_object_end(out);
}

/* ---- denials ---- */

void snapshot_write_denial(struct json_writer *out, const struct watch_entry *entry)
{
    char id[REPLY_ID_MAX];
    size_t n = reply_id(entry->id, id);

    json_write_object(out);
    json_member_number(out, "at", entry->at);
    json_write_key(out, "id");
    json_write_string(out, id, n);
    json_member_text(out, "tenant", *entry->tenant != '\0' ? entry->tenant : NULL);
    json_member_text(out, "model", *entry->model != '\0' ? entry->model : NULL);
    json_member_text(out, "user", *entry->user != '\0' ? entry->user : NULL);
    json_member_unless(out, "max_tokens", entry->max_tokens < 0 ? -1 : entry->max_tokens, -1);
    json_member_unless(out, "prompt_bytes", entry->prompt_bytes < 0 ? -1 : entry->prompt_bytes, -1);
    json_member_text(out, "reason", entry->reason);
    json_member_text(out, "axis", *entry->axis != '\0' ? entry->axis : NULL);
    json_member_unless(out, "retry_after_ms",
                       entry->retry_after_ms < 0 ? -1 : entry->retry_after_ms, -1);
    json_member_text(out, "limit_of", *entry->limit_of != '\0' ? entry->limit_of : NULL);
    json_member_text(out, "limit_rule", *entry->limit_rule != '\0' ? entry->limit_rule : NULL);
    json_member_unless(out, "limit", entry->limit < 0 ? -1 : entry->limit, -1);
    json_member_unless(out, "remaining", entry->remaining < 0 ? -1 : entry->remaining, -1);
    json_member_text(out, "text", entry->text);
    json_write_object_end(out);
}

static void write_denials(struct json_writer *out, const struct watch *watch, size_t most)
{
    struct watch_entry *entries = calloc(SNAPSHOT_DENIALS_MAX, sizeof *entries);
    size_t n = entries != NULL && watch != NULL ? watch_recent(watch, entries, most) : 0;

    json_write_key(out, "denials");
    json_write_array(out);
    for (size_t i = 0; i < n; i++)
        snapshot_write_denial(out, &entries[i]);
    json_write_array_end(out);
    json_member_number(out, "denials_dropped", watch != NULL ? (int64_t)watch_dropped(watch) : 0);
    free(entries);
}

/* ---- the whole ---- */

static void write_last_reload(struct json_writer *out, const struct last_reload *last)
{
    if (last->at == 0) {
        json_member_null(out, "last_reload");
        return;
    }
    json_write_key(out, "last_reload");
    json_write_object(out);
    json_member_number(out, "at", last->at);
    json_member_flag(out, "ok", last->ok);
    json_member_text(out, "why", last->why);
    json_member_number(out, "errors", (int64_t)last->errors);
    json_write_object_end(out);
}

static void write_config(struct json_writer *out, const struct generation *generation,
                         const struct snapshot_memory *memory)
{
    json_write_key(out, "config");
    json_write_object(out);
    json_member_number(out, "generation", (int64_t)generation->number);
    json_member_text(out, "hash", generation->config.hash);
    json_member_number(out, "loaded_at",
                       clock_wall_of(&memory->of.gateway->clock, memory->loaded_at));
    write_last_reload(out, &memory->of.gateway->last_reload);
    json_write_object_end(out);
}

void snapshot_write(struct json_writer *out, const struct snapshot_memory *memory,
                    const struct generation *generation, tg_ms now)
{
    snapshot_write_within(out, memory, generation, now, &SNAPSHOT_BOUNDS);
}

void snapshot_write_within(struct json_writer *out, const struct snapshot_memory *memory,
                           const struct generation *generation, tg_ms now,
                           const struct snapshot_bounds *bounds)
{
    struct gateway *gateway = memory->of.gateway;
    const char *unready = probe_unready(gateway, &generation->config);

    json_write_object(out);
    json_member_text(out, "version", tg_version());
    json_member_text(out, "scope", "gateway");
    json_member_number(out, "now", clock_wall_of(&gateway->clock, now));
    json_member_number(out, "started_at", clock_wall_of(&gateway->clock, memory->started_at));
    json_member_number(out, "uptime_ms", now - memory->started_at);
    json_member_flag(out, "ready", unready == NULL);
    json_member_text(out, "unready_reason", unready);
    json_member_flag(out, "draining",
                     atomic_load_explicit(&gateway->draining, memory_order_relaxed));
    write_config(out, generation, memory);
    write_counters(out, memory);
    write_rates(out, memory);
    write_gates(out, gateway, generation);
    snapshot_write_routes(out, generation, now, bounds->routes);
    snapshot_write_keys(out, generation, now, bounds->keys);
    snapshot_write_budgets(out, gateway, generation, now, bounds->budgets);
    snapshot_write_tenants(out, memory, generation, bounds->tenants);
    json_member_number(out, "tenants_total", (int64_t)generation->config.n_tenants);
    write_denials(out, memory->of.watch, bounds->denials);
    json_member_number(out, "connections",
                       atomic_load_explicit(&gateway->census.open, memory_order_relaxed));
    write_memory(out, gateway, generation);
    write_store(out, gateway);
    snapshot_write_fleet(out, gateway);
    write_ledger(out, gateway);
    write_prices(out, generation);
    json_write_object_end(out);
}
