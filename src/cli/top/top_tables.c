/* top_tables.c - the tables of `tollgate top`: their columns, and what a row says. */
#include "cli/top/top_tables.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* ---- Values as texts ------------------------------------------------------------------------- */

void top_span_text(int64_t ms, char *text, size_t bytes)
{
    int64_t s = ms > 0 ? ms / 1000 : 0, days = s / 86400;

    if (days > 0)
        snprintf(text, bytes, "%" PRId64 "d %02d:%02d:%02d", days, (int)(s / 3600 % 24),
                 (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(text, bytes, "%02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
}

static void put_integer(char *cell, int64_t value)
{
    if (value == TOP_NONE)
        snprintf(cell, TOP_CELL_BYTES, "-");
    else
        snprintf(cell, TOP_CELL_BYTES, "%" PRId64, value);
}

static void top_tables_put_number(char *cell, double value, const char *unit)
{
    if (isnan(value))
        snprintf(cell, TOP_CELL_BYTES, "-");
    else
        snprintf(cell, TOP_CELL_BYTES, "%.1f%s", value, unit);
}

/* Rounded down: a budget is never shown larger than it is. */
static void put_usd(char *cell, int64_t micro_usd)
{
    if (micro_usd == TOP_NONE)
        snprintf(cell, TOP_CELL_BYTES, "-");
    else
        snprintf(cell, TOP_CELL_BYTES, "%" PRId64 ".%02d", micro_usd / 1000000,
                 (int)(micro_usd % 1000000 / 10000));
}

static void put_queued(char *cell, const struct top_by_class *queued)
{
    snprintf(cell, TOP_CELL_BYTES, "%" PRId64 "/%" PRId64 "/%" PRId64,
             queued->high == TOP_NONE ? 0 : queued->high,
             queued->normal == TOP_NONE ? 0 : queued->normal,
             queued->low == TOP_NONE ? 0 : queued->low);
}

static void put_window(char *cell, const struct top_window *window)
{
    if (window->limit == TOP_NONE)
        snprintf(cell, TOP_CELL_BYTES, "-");
    else
        snprintf(cell, TOP_CELL_BYTES, "%" PRId64 "/%" PRId64,
                 window->used == TOP_NONE ? 0 : window->used, window->limit);
}

static void top_tables_put_text(char *cell, const char *text, const char *instead)
{
    snprintf(cell, TOP_CELL_BYTES, "%s", text[0] != '\0' ? text : instead);
}

/* Until then, in seconds with a tenth while they are few. */
static void put_until(char *cell, int64_t at, int64_t now)
{
    int64_t ms = at == TOP_NONE || at <= now ? 0 : at - now;

    if (ms == 0)
        cell[0] = '\0';
    else if (ms < 60000)
        snprintf(cell, TOP_CELL_BYTES, "%" PRId64 ".%ds", ms / 1000, (int)(ms % 1000 / 100));
    else
        top_span_text(ms, cell, TOP_CELL_BYTES);
}

/* ---- Gates and routes ------------------------------------------------------------------------ */

static const struct top_column route_columns[] = {
    {"MODEL", 16, true, false},     {"PROVIDER", 12, false, true},
    {"LAW", 9, false, true},        {"LIMIT", -6, false, false},
    {"FLIGHT", -7, false, false},   {"QUEUE H/N/L", -12, false, false},
    {"1ST BYTE", -10, false, true}, {"KEYS", -7, false, false},
};

/* The gates come first: what holds for all calls together, or for no model. */
static size_t count_routes(const struct top_snapshot *of)
{
    return of->n_gates + of->n_routes;
}

static enum top_style load_style(int64_t in_flight, int64_t limit)
{
    return limit != TOP_NONE && limit > 0 && in_flight >= limit ? TOP_WARN : TOP_PLAIN;
}

static void put_law(char *cell, const char *law, const char *mode)
{
    snprintf(cell, TOP_CELL_BYTES, "%s%s", law, strcmp(mode, "shadow") == 0 ? "*" : "");
}

static void fill_gate(const struct top_gate *gate, struct top_row *row)
{
    snprintf(row->cells[0], TOP_CELL_BYTES, "(%s)", gate->name);
    put_law(row->cells[2], gate->law, gate->mode);
    put_integer(row->cells[3], gate->limit);
    put_integer(row->cells[4], gate->in_flight);
    put_queued(row->cells[5], &gate->queued);
    row->style = load_style(gate->in_flight, gate->limit);
}

static void fill_route(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_route *route = &of->routes[i - of->n_gates];

    top_tables_put_text(row->cells[0], route->model, "-");
    top_tables_put_text(row->cells[1], route->provider, "-");
    put_law(row->cells[2], route->law, route->mode);
    put_integer(row->cells[3], route->limit);
    put_integer(row->cells[4], route->in_flight);
    put_queued(row->cells[5], &route->queued);
    top_tables_put_number(row->cells[6], route->first_byte_ms, "ms");
    snprintf(row->cells[7], TOP_CELL_BYTES, "%" PRId64 "/%" PRId64,
             route->keys_ready == TOP_NONE ? 0 : route->keys_ready,
             route->keys == TOP_NONE ? 0 : route->keys);
    row->style = route->keys > 0 && route->keys_ready == 0
                     ? TOP_BAD
                     : load_style(route->in_flight, route->limit);
}

static void fill_gate_or_route(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    if (i < of->n_gates)
        fill_gate(&of->gates[i], row);
    else
        fill_route(of, i, row);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static const struct top_column key_columns[] = {
    {"KEY", 12, true, false},     {"PROVIDER", 12, false, true}, {"MODEL", 16, false, true},
    {"STATUS", 10, false, false}, {"FOR", -9, false, false},     {"FLIGHT", -7, false, false},
    {"RPM", -12, false, false},   {"TPM", -15, false, true},     {"LATENCY", -10, false, true},
};

static size_t top_tables_count_keys(const struct top_snapshot *of)
{
    return of->n_keys;
}

static void fill_key(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_key *key = &of->keys[i];
    bool cooling = strcmp(key->status, "cooling") == 0;

    top_tables_put_text(row->cells[0], key->name, "-");
    top_tables_put_text(row->cells[1], key->provider, "-");
    top_tables_put_text(row->cells[2], key->model, "-");
    top_tables_put_text(row->cells[3], key->status, "-");
    put_until(row->cells[4], cooling ? key->cooldown_until : key->breaker_until, of->now);
    put_integer(row->cells[5], key->in_flight);
    put_window(row->cells[6], &key->rpm);
    put_window(row->cells[7], &key->tpm);
    top_tables_put_number(row->cells[8], key->latency_ms, "ms");
    if (strcmp(key->status, "ready") == 0)
        row->style = TOP_PLAIN;
    else
        row->style = strcmp(key->status, "suspended") == 0 || strcmp(key->status, "broken") == 0
                         ? TOP_BAD
                         : TOP_WARN;
}

/* ---- Budgets --------------------------------------------------------------------------------- */

static const struct top_column budget_columns[] = {
    {"BUDGET OF", 14, true, false},     {"PER", 6, false, false},
    {"MODE", 8, false, true},           {"USED", -11, false, false},
    {"RESERVED", -11, false, true},     {"OF USD", -12, false, false},
    {"USED%", -7, false, false},        {"RESETS IN", -13, false, true},
    {"LEFT FOR ALL", -13, false, true},
};

static size_t count_budgets(const struct top_snapshot *of)
{
    return of->n_budgets;
}

static void fill_budget(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_budget *budget = &of->budgets[i];

    top_tables_put_text(row->cells[0], budget->tenant, "(everyone)");
    if (budget->key[0] != '\0')
        snprintf(row->cells[0], TOP_CELL_BYTES, "%s, key %s", budget->tenant, budget->key);
    top_tables_put_text(row->cells[1], budget->per, "-");
    top_tables_put_text(row->cells[2], budget->mode, "-");
    put_usd(row->cells[3], budget->used_micro_usd);
    put_usd(row->cells[4], budget->reserved_micro_usd);
    put_usd(row->cells[5], budget->limit_micro_usd);
    top_tables_put_number(row->cells[6], budget->used_ratio * 100, "%");
    put_until(row->cells[7], budget->reset_at, of->now);
    put_usd(row->cells[8], budget->left_micro_usd);
    row->style = budget->used_ratio >= 1     ? TOP_BAD
                 : budget->used_ratio >= 0.8 ? TOP_WARN
                                             : TOP_PLAIN;
}

/* ---- Tenants --------------------------------------------------------------------------------- */

static const struct top_column tenant_columns[] = {
    {"TENANT", 16, true, false},  {"CALLS/S", -9, false, false},  {"REFUSED/S", -11, false, false},
    {"CALLS", -12, false, false}, {"REFUSED", -10, false, false},
};

static size_t count_tenants(const struct top_snapshot *of)
{
    return of->n_tenants;
}

static void fill_tenant(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_tenant *tenant = &of->tenants[i];

    top_tables_put_text(row->cells[0], tenant->name, "-");
    top_tables_put_number(row->cells[1], tenant->calls_per_s, "");
    top_tables_put_number(row->cells[2], tenant->refused_per_s, "");
    put_integer(row->cells[3], tenant->calls);
    put_integer(row->cells[4], tenant->refused);
    row->style = tenant->refused_per_s > 0 ? TOP_WARN : TOP_PLAIN;
}

/* ---- Denials --------------------------------------------------------------------------------- */

static const struct top_column denial_columns[] = {
    {"REFUSED", 9, false, false}, {"TENANT", 14, false, false}, {"MODEL", 14, false, true},
    {"REASON", 17, false, false}, {"WHY", 12, true, false},
};

static size_t count_denials(const struct top_snapshot *of)
{
    return of->n_denials;
}

/* The hour of the day where this is read, as a clock on its wall has it. */
static void put_clock(char *cell, int64_t at)
{
    time_t seconds = (time_t)(at / 1000);
    struct tm local;

    if (at == TOP_NONE || localtime_r(&seconds, &local) == NULL ||
        strftime(cell, TOP_CELL_BYTES, "%H:%M:%S", &local) == 0)
        snprintf(cell, TOP_CELL_BYTES, "-");
}

static void fill_denial(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_denial *denial = &of->denials[i];

    put_clock(row->cells[0], denial->at);
    top_tables_put_text(row->cells[1], denial->tenant, "-");
    top_tables_put_text(row->cells[2], denial->model, "-");
    top_tables_put_text(row->cells[3], denial->reason, "-");
    top_tables_put_text(row->cells[4], denial->text, "-");
    row->style = TOP_PLAIN;
}

/* ---- Gateways -------------------------------------------------------------------------------- */

static const struct top_column gateway_columns[] = {
    {"GATEWAY", 16, true, false},  {"ANSWER", 10, false, false},    {"HEARD", -9, false, true},
    {"VERSION", 9, false, true},   {"STATE", 9, false, false},      {"STORE", 9, false, true},
    {"CALLS/S", -9, false, false}, {"REFUSED/S", -10, false, true}, {"FLIGHT", -7, false, false},
};

static size_t count_gateways(const struct top_snapshot *of)
{
    return of->n_gateways;
}

static void fill_gateway(const struct top_snapshot *of, size_t i, struct top_row *row)
{
    const struct top_gateway *gateway = &of->gateways[i];
    bool answered = top_gateway_answered(gateway);

    top_tables_put_text(row->cells[0], gateway->name, "-");
    top_tables_put_text(row->cells[1], gateway->answer, "-");
    if (gateway->silent_ms > 0)
        top_span_text(gateway->silent_ms, row->cells[2], TOP_CELL_BYTES);
    top_tables_put_text(row->cells[3], gateway->program, "-");
    if (answered)
        snprintf(row->cells[4], TOP_CELL_BYTES, "%s",
                 gateway->draining ? "draining"
                 : gateway->ready  ? "ready"
                                   : "not ready");
    top_tables_put_text(row->cells[5], gateway->store_state, "-");
    top_tables_put_number(row->cells[6], gateway->calls_per_s, "");
    top_tables_put_number(row->cells[7], gateway->refused_per_s, "");
    put_integer(row->cells[8], gateway->n_gates > 0 ? gateway->gates[0].in_flight : TOP_NONE);
    row->style = !answered ? TOP_BAD : gateway->ready ? TOP_PLAIN : TOP_WARN;
}

const struct top_table top_tables[TOP_TABLES] = {
    {"1 routes", route_columns, COUNT(route_columns), count_routes, fill_gate_or_route},
    {"2 keys", key_columns, COUNT(key_columns), top_tables_count_keys, fill_key},
    {"3 budgets", budget_columns, COUNT(budget_columns), count_budgets, fill_budget},
    {"4 tenants", tenant_columns, COUNT(tenant_columns), count_tenants, fill_tenant},
    {"5 denials", denial_columns, COUNT(denial_columns), count_denials, fill_denial},
    {"6 gateways", gateway_columns, COUNT(gateway_columns), count_gateways, fill_gateway},
};
