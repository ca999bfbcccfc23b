/* top_model.h - a snapshot of the admin API, as `tollgate top` keeps it.
 *
 *     top_link.c --GET /api/v1/snapshot--> JSON --top_model.c--> snapshot
 *                                                                     |
 *     top_term.c <--one write-- top_paper.c <--cells-- top_tables.c <--top_view.c: one frame
 *       `--keys, size--> cmd_top.c: what is shown, and how often
 *
 * What docs/openapi.yaml calls Snapshot, as far as it is shown. Texts are cut to their room and
 * hold printable ASCII alone: a client may have chosen them, and a terminal does what it is told.
 * Numbers that are null are TOP_NONE, or NaN.
 */
#ifndef TG_TOP_TOP_MODEL_H
#define TG_TOP_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/text/json_read.h"
#include "io/text/slice.h"

#define TOP_NONE INT64_MIN
#define TOP_REASONS_MAX 32
#define TOP_GATES_MAX 64
#define TOP_ROUTES_MAX 200
#define TOP_KEYS_MAX_SHOWN 500
#define TOP_BUDGETS_MAX 100
#define TOP_TENANTS_MAX 20
#define TOP_DENIALS_MAX 50
#define TOP_GATEWAYS_MAX 64

typedef char top_word[24];  /* a value from a fixed list: states, laws, reasons */
typedef char top_name[64];  /* the name of a tenant, a model, a key */
typedef char top_text[256]; /* a line for people */

struct top_reason {
    top_name reason;
    double value;
};

struct top_by_reason {
    struct top_reason list[TOP_REASONS_MAX];
    size_t n;
};

struct top_by_class {
    int64_t high, normal, low;
};

struct top_gate {
    top_word name, law, mode;
    int64_t limit, in_flight;
    struct top_by_class queued;
};

struct top_route {
    top_name model, provider;
    top_word law, mode;
    int64_t limit, in_flight;
    struct top_by_class queued;
    double first_byte_ms;
    int64_t keys, keys_ready;
};

struct top_window {
    int64_t limit, used;
};

struct top_key {
    top_name provider, model, name;
    top_word status;
    int64_t cooldown_until, breaker_until, failures, in_flight;
    struct top_window rpm, tpm;
    double latency_ms;
};

struct top_budget {
    top_name tenant; /* empty: of everyone together */
    top_name key;    /* a virtual key of the tenant; empty: of the tenant */
    top_word per, mode;
    int64_t limit_micro_usd, used_micro_usd, reserved_micro_usd;
    int64_t left_micro_usd; /* for all gateways */
    double used_ratio;
    int64_t reset_at;
};

struct top_tenant {
    top_name name;
    int64_t calls, refused;
    double calls_per_s, refused_per_s;
};

struct top_denial {
    int64_t at;
    top_name tenant, model, reason;
    top_text text;
};

/* One of a fleet. What it says of itself is none where it has not answered. */
struct top_gateway {
    top_name name;
    top_word program, answer, store_state;
    int64_t silent_ms, uptime_ms;
    bool ready, draining;
    double calls_per_s, refused_per_s;
    struct top_gate gates[1]; /* the one of all calls */
    size_t n_gates;
};

struct top_snapshot {
    top_word version, scope; /* "fleet": of all gateways */
    bool complete;           /* all of them that live have answered */
    bool store_away;
    int64_t now, uptime_ms;
    bool ready, draining;
    top_text unready_reason;

    struct {
        int64_t generation;
        struct {
            int64_t at, errors; /* at TOP_NONE: there was no reload */
            bool ok;
            top_word why;
        } last_reload;
    } config;
    struct {
        int64_t calls, admitted, refused, retries, fallbacks, hangups;
        struct top_by_reason refused_by_reason, would_deny_by_reason;
    } counters;
    struct {
        double calls, admitted, refused;
        struct top_by_reason refused_by_reason;
    } rates;
    struct {
        double used_ratio;
        top_word state;
    } memory;
    struct {
        top_word kind, state;
    } store;
    struct {
        top_word state; /* empty: it shares no store */
        int64_t version, gateways, behind;
    } fleet;
    struct {
        top_word state; /* empty: there is none */
        int64_t waiting, lost;
    } ledger;
    struct {
        double rate, cost, concurrency; /* NaN: there is no policy */
    } prices;
    int64_t connections, tenants_total;

    struct top_gate gates[TOP_GATES_MAX];
    struct top_route routes[TOP_ROUTES_MAX];
    struct top_key keys[TOP_KEYS_MAX_SHOWN];
    struct top_budget budgets[TOP_BUDGETS_MAX];
    struct top_tenant tenants[TOP_TENANTS_MAX];
    struct top_denial denials[TOP_DENIALS_MAX];
    struct top_gateway gateways[TOP_GATEWAYS_MAX];
    size_t n_gates, n_routes, n_keys, n_budgets, n_tenants, n_denials, n_gateways;
};

/* Reads a snapshot, after which JSON_PADDING bytes may be read, and sorts what has an order: what
 * needs a look first. False: it is none; `why` says so, and `into` holds anything. */
bool top_snapshot_read(struct json_reader *reader, struct slice body, struct top_snapshot *into,
                       char *why, size_t why_bytes);

/* Whether what it says of itself is there. */
bool top_gateway_answered(const struct top_gateway *of);

/* The message of an error's body, printable; empty if there is none. */
void top_error_read(struct json_reader *reader, struct slice body, char *message, size_t bytes);

#endif
