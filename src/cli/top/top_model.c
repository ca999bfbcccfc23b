/* top_model.c - a snapshot of the admin API, as `tollgate top` keeps it.
 *
 * The document and the struct have the same shape, so a table says which member goes where, and one
 * function reads them all. Members that the table does not know are passed over: a gateway that is
 * newer than this program can still be looked at.
 */
#include "cli/top/top_model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, INTEGER, NUMBER, BOOLEAN, OBJECT, LIST, BY_REASON };

struct field {
    const char *name;
    enum kind kind;
    size_t offset;              /* in the struct of the table it stands in */
    size_t size;                /* bytes of a text, or of an element of a list */
    size_t count_offset, most;  /* for a list: where its length is kept, and its largest length */
    const struct field *inside; /* fields of an object, or of an element of a list */
};

#define TEXT_OF(type, member)                                                                      \
    {                                                                                              \
#member, TEXT, offsetof(struct type, member), sizeof((struct type *)0)->member, 0, 0, NULL \
    }
#define INTEGER_OF(type, member)                                                                   \
    {                                                                                              \
#member, INTEGER, offsetof(struct type, member), 0, 0, 0, NULL                             \
    }
#define NUMBER_OF(type, member)                                                                    \
    {                                                                                              \
#member, NUMBER, offsetof(struct type, member), 0, 0, 0, NULL                              \
    }
#define BOOLEAN_OF(type, member)                                                                   \
    {                                                                                              \
#member, BOOLEAN, offsetof(struct type, member), 0, 0, 0, NULL                             \
    }
#define OBJECT_OF(type, member, table)                                                             \
    {                                                                                              \
#member, OBJECT, offsetof(struct type, member), 0, 0, 0, table                             \
    }
#define LIST_OF(member, most, table)                                                               \
    {                                                                                              \
#member, LIST, offsetof(struct top_snapshot, member),                                      \
            sizeof(((struct top_snapshot *)0)->member[0]),                                         \
            offsetof(struct top_snapshot, n_##member), most, table                                 \
    }
#define END                                                                                        \
    {                                                                                              \
        NULL, TEXT, 0, 0, 0, 0, NULL                                                               \
    }
/* A member of a struct that stands within the snapshot and has no name of its own. */
#define WITHIN(path, name, kind)                                                                   \
    {                                                                                              \
#name, kind, offsetof(struct top_snapshot, path.name),                                     \
            sizeof(((struct top_snapshot *)0)->path.name), 0, 0, NULL                              \
    }

static const struct field by_class[] = {INTEGER_OF(top_by_class, high),
                                        INTEGER_OF(top_by_class, normal),
                                        INTEGER_OF(top_by_class, low), END};
static const struct field window[] = {INTEGER_OF(top_window, limit), INTEGER_OF(top_window, used),
                                      END};
static const struct field gate[] = {TEXT_OF(top_gate, name),
                                    TEXT_OF(top_gate, law),
                                    TEXT_OF(top_gate, mode),
                                    INTEGER_OF(top_gate, limit),
                                    INTEGER_OF(top_gate, in_flight),
                                    OBJECT_OF(top_gate, queued, by_class),
                                    END};
static const struct field route[] = {TEXT_OF(top_route, model),
                                     TEXT_OF(top_route, provider),
                                     TEXT_OF(top_route, law),
                                     TEXT_OF(top_route, mode),
                                     INTEGER_OF(top_route, limit),
                                     INTEGER_OF(top_route, in_flight),
                                     OBJECT_OF(top_route, queued, by_class),
                                     NUMBER_OF(top_route, first_byte_ms),
                                     INTEGER_OF(top_route, keys),
                                     INTEGER_OF(top_route, keys_ready),
                                     END};
static const struct field key[] = {TEXT_OF(top_key, provider),
                                   TEXT_OF(top_key, model),
                                   TEXT_OF(top_key, name),
                                   TEXT_OF(top_key, status),
                                   INTEGER_OF(top_key, cooldown_until),
                                   INTEGER_OF(top_key, breaker_until),
                                   INTEGER_OF(top_key, failures),
                                   INTEGER_OF(top_key, in_flight),
                                   OBJECT_OF(top_key, rpm, window),
                                   OBJECT_OF(top_key, tpm, window),
                                   NUMBER_OF(top_key, latency_ms),
                                   END};
static const struct field budget[] = {TEXT_OF(top_budget, tenant),
                                      TEXT_OF(top_budget, key),
                                      TEXT_OF(top_budget, per),
                                      TEXT_OF(top_budget, mode),
                                      INTEGER_OF(top_budget, limit_micro_usd),
                                      INTEGER_OF(top_budget, used_micro_usd),
                                      INTEGER_OF(top_budget, reserved_micro_usd),
                                      INTEGER_OF(top_budget, left_micro_usd),
                                      NUMBER_OF(top_budget, used_ratio),
                                      INTEGER_OF(top_budget, reset_at),
                                      END};
static const struct field tenant[] = {TEXT_OF(top_tenant, name),
                                      INTEGER_OF(top_tenant, calls),
                                      INTEGER_OF(top_tenant, refused),
                                      NUMBER_OF(top_tenant, calls_per_s),
                                      NUMBER_OF(top_tenant, refused_per_s),
                                      END};
static const struct field denial[] = {INTEGER_OF(top_denial, at), TEXT_OF(top_denial, tenant),
                                      TEXT_OF(top_denial, model), TEXT_OF(top_denial, reason),
                                      TEXT_OF(top_denial, text),  END};

/* What a gateway says of itself stands beside what is said of it. */
static const struct field gateway_store[] = {
    {"state", TEXT, offsetof(struct top_gateway, store_state), sizeof(top_word), 0, 0, NULL}, END};
static const struct field gateway_rates[] = {
    {"calls", NUMBER, offsetof(struct top_gateway, calls_per_s), 0, 0, 0, NULL},
    {"refused", NUMBER, offsetof(struct top_gateway, refused_per_s), 0, 0, 0, NULL},
    END};
static const struct field gateway_snapshot[] = {INTEGER_OF(top_gateway, uptime_ms),
                                                BOOLEAN_OF(top_gateway, ready),
                                                BOOLEAN_OF(top_gateway, draining),
                                                {"store", OBJECT, 0, 0, 0, 0, gateway_store},
                                                {"rates", OBJECT, 0, 0, 0, 0, gateway_rates},
                                                {"gates", LIST, offsetof(struct top_gateway, gates),
                                                 sizeof(struct top_gate),
                                                 offsetof(struct top_gateway, n_gates), 1, gate},
                                                END};
static const struct field gateway[] = {TEXT_OF(top_gateway, name),
                                       TEXT_OF(top_gateway, program),
                                       TEXT_OF(top_gateway, answer),
                                       INTEGER_OF(top_gateway, silent_ms),
                                       {"snapshot", OBJECT, 0, 0, 0, 0, gateway_snapshot},
                                       END};

/* Objects within the snapshot have offsets from the snapshot's beginning: they are at 0. */
static const struct field last_reload[] = {
    WITHIN(config.last_reload, at, INTEGER), WITHIN(config.last_reload, errors, INTEGER),
    WITHIN(config.last_reload, ok, BOOLEAN), WITHIN(config.last_reload, why, TEXT), END};
static const struct field config[] = {
    WITHIN(config, generation, INTEGER), {"last_reload", OBJECT, 0, 0, 0, 0, last_reload}, END};
static const struct field counters[] = {WITHIN(counters, calls, INTEGER),
                                        WITHIN(counters, admitted, INTEGER),
                                        WITHIN(counters, refused, INTEGER),
                                        WITHIN(counters, retries, INTEGER),
                                        WITHIN(counters, fallbacks, INTEGER),
                                        WITHIN(counters, hangups, INTEGER),
                                        WITHIN(counters, refused_by_reason, BY_REASON),
                                        WITHIN(counters, would_deny_by_reason, BY_REASON),
                                        END};
static const struct field rates[] = {WITHIN(rates, calls, NUMBER), WITHIN(rates, admitted, NUMBER),
                                     WITHIN(rates, refused, NUMBER),
                                     WITHIN(rates, refused_by_reason, BY_REASON), END};
static const struct field memory[] = {WITHIN(memory, used_ratio, NUMBER),
                                      WITHIN(memory, state, TEXT), END};
static const struct field store[] = {WITHIN(store, kind, TEXT), WITHIN(store, state, TEXT), END};
static const struct field fleet[] = {WITHIN(fleet, state, TEXT), WITHIN(fleet, version, INTEGER),
                                     WITHIN(fleet, gateways, INTEGER),
                                     WITHIN(fleet, behind, INTEGER), END};
static const struct field ledger[] = {WITHIN(ledger, state, TEXT), WITHIN(ledger, waiting, INTEGER),
                                      WITHIN(ledger, lost, INTEGER), END};
static const struct field prices[] = {WITHIN(prices, rate, NUMBER), WITHIN(prices, cost, NUMBER),
                                      WITHIN(prices, concurrency, NUMBER), END};

static const struct field snapshot[] = {TEXT_OF(top_snapshot, version),
                                        TEXT_OF(top_snapshot, scope),
                                        BOOLEAN_OF(top_snapshot, complete),
                                        BOOLEAN_OF(top_snapshot, store_away),
                                        INTEGER_OF(top_snapshot, now),
                                        INTEGER_OF(top_snapshot, uptime_ms),
                                        BOOLEAN_OF(top_snapshot, ready),
                                        BOOLEAN_OF(top_snapshot, draining),
                                        TEXT_OF(top_snapshot, unready_reason),
                                        INTEGER_OF(top_snapshot, connections),
                                        INTEGER_OF(top_snapshot, tenants_total),
                                        {"config", OBJECT, 0, 0, 0, 0, config},
                                        {"counters", OBJECT, 0, 0, 0, 0, counters},
                                        {"rates", OBJECT, 0, 0, 0, 0, rates},
                                        {"memory", OBJECT, 0, 0, 0, 0, memory},
                                        {"store", OBJECT, 0, 0, 0, 0, store},
                                        {"fleet", OBJECT, 0, 0, 0, 0, fleet},
                                        {"ledger", OBJECT, 0, 0, 0, 0, ledger},
                                        {"prices", OBJECT, 0, 0, 0, 0, prices},
                                        LIST_OF(gates, TOP_GATES_MAX, gate),
                                        LIST_OF(routes, TOP_ROUTES_MAX, route),
                                        LIST_OF(keys, TOP_KEYS_MAX_SHOWN, key),
                                        LIST_OF(budgets, TOP_BUDGETS_MAX, budget),
                                        LIST_OF(tenants, TOP_TENANTS_MAX, tenant),
                                        LIST_OF(denials, TOP_DENIALS_MAX, denial),
                                        LIST_OF(gateways, TOP_GATEWAYS_MAX, gateway),
                                        END};

/* ---- Values ---------------------------------------------------------------------------------- */

static void top_model_copy_text(struct json_text text, char *to, size_t bytes)
{
    size_t n = text.size < bytes ? text.size : bytes - 1;

    assert(bytes > 0 && n < bytes);
    for (size_t i = 0; i < n; i++)
        to[i] = text.bytes[i] >= ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    to[n] = '\0';
}

static double number_of(const struct json_value *value)
{
    if (value->kind == JSON_INTEGER)
        return (double)value->integer;
    return value->kind == JSON_DOUBLE ? value->real : (double)NAN;
}

static int64_t integer_of(const struct json_value *value)
{
    return value->kind == JSON_INTEGER ? value->integer : TOP_NONE;
}

static void read_reasons(struct json_reader *reader, struct top_by_reason *into)
{
    struct json_text name;
    struct json_value value;

    into->n = 0;
    if (!json_enter(reader))
        return;
    while (json_next(reader, &name, &value)) {
        double number = number_of(&value);
        if (!(number > 0) || into->n == TOP_REASONS_MAX)
            continue;
        top_model_copy_text(name, into->list[into->n].reason, sizeof into->list[0].reason);
        into->list[into->n++].value = number;
    }
}

/* ---- Members --------------------------------------------------------------------------------- */

static void *at(void *base, size_t offset)
{
    return (char *)base + offset;
}

/* What a member has that does not come: an object that is null is as empty as an absent one. */
static void top_model_forget(const struct field *table, void *base)
{
    for (const struct field *field = table; field->name != NULL; field++) {
        void *place = at(base, field->offset);
        if (field->kind == INTEGER)
            *(int64_t *)place = TOP_NONE;
        else if (field->kind == NUMBER)
            *(double *)place = (double)NAN;
        else if (field->kind == OBJECT)
            top_model_forget(field->inside, place);
    }
}

static void read_object(struct json_reader *reader, const struct field *table, void *base);

static void read_list(struct json_reader *reader, const struct field *field, void *base)
{
    size_t *n = at(base, field->count_offset);
    struct json_text name;
    struct json_value value;

    *n = 0;
    if (!json_enter(reader))
        return;
    while (json_next(reader, &name, &value)) {
        void *element = at(base, field->offset + *n * field->size);
        if (value.kind != JSON_OBJECT || *n == field->most)
            continue;
        top_model_forget(field->inside, element);
        read_object(reader, field->inside, element);
        ++*n;
        assert(*n <= field->most);
    }
}

static void read_member(struct json_reader *reader, const struct field *field,
                        const struct json_value *value, void *base)
{
    void *place = at(base, field->offset);

    switch (field->kind) {
    case TEXT:
        if (value->kind == JSON_STRING)
            top_model_copy_text(value->string, place, field->size);
        break;
    case INTEGER:
        *(int64_t *)place = integer_of(value);
        break;
    case NUMBER:
        *(double *)place = number_of(value);
        break;
    case BOOLEAN:
        *(bool *)place = value->kind == JSON_BOOL && value->boolean;
        break;
    case OBJECT:
        if (value->kind == JSON_OBJECT)
            read_object(reader, field->inside, place);
        break;
    case LIST:
        if (value->kind == JSON_ARRAY)
            read_list(reader, field, base);
        break;
    case BY_REASON:
        if (value->kind == JSON_OBJECT)
            read_reasons(reader, place);
        break;
    }
}

static void read_object(struct json_reader *reader, const struct field *table, void *base)
{
    struct json_text name;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &name, &value))
        for (const struct field *field = table; field->name != NULL; field++)
            if (json_text_is(name, field->name)) {
                read_member(reader, field, &value, base);
                break;
            }
}

bool top_gateway_answered(const struct top_gateway *of)
{
    return strcmp(of->answer, "self") == 0 || strcmp(of->answer, "answered") == 0;
}

/* ---- Order: what needs attention comes first ------------------------------------------------- */

/* The larger first; what is no number comes last. */
static int by_number(double a, double b)
{
    double left = isnan(a) ? -HUGE_VAL : a, right = isnan(b) ? -HUGE_VAL : b;

    return (left < right) - (left > right);
}

static int order_reasons(const void *a, const void *b)
{
    const struct top_reason *left = a, *right = b;
    int order = by_number(left->value, right->value);

    return order != 0 ? order : strcmp(left->reason, right->reason);
}

static int trouble_of(const char *status)
{
    static const char *const order[] = {"suspended", "broken", "cooling", "probing",
                                        "full",      "ready",  "disabled"};
    int n = sizeof order / sizeof order[0];

    for (int i = 0; i < n; i++)
        if (strcmp(status, order[i]) == 0)
            return i;
    return n;
}

static int order_keys(const void *a, const void *b)
{
    const struct top_key *left = a, *right = b;
    int order = trouble_of(left->status) - trouble_of(right->status);

    if (order == 0)
        order = strcmp(left->provider, right->provider);
    if (order == 0)
        order = strcmp(left->model, right->model);
    return order != 0 ? order : strcmp(left->name, right->name);
}

static int order_routes(const void *a, const void *b)
{
    const struct top_route *left = a, *right = b;
    int order = by_number((double)left->in_flight, (double)right->in_flight);

    return order != 0 ? order : strcmp(left->model, right->model);
}

static int order_budgets(const void *a, const void *b)
{
    const struct top_budget *left = a, *right = b;
    int order = by_number(left->used_ratio, right->used_ratio);

    return order != 0 ? order : strcmp(left->tenant, right->tenant);
}

static int order_tenants(const void *a, const void *b)
{
    const struct top_tenant *left = a, *right = b;
    int order = by_number(left->calls_per_s, right->calls_per_s);

    if (order == 0)
        order = by_number((double)left->calls, (double)right->calls);
    return order != 0 ? order : strcmp(left->name, right->name);
}

static int order_gateways(const void *a, const void *b)
{
    const struct top_gateway *left = a, *right = b;
    int order = top_gateway_answered(left) - top_gateway_answered(right);

    return order != 0 ? order : strcmp(left->name, right->name);
}

static void sort_reasons(struct top_by_reason *reasons)
{
    qsort(reasons->list, reasons->n, sizeof reasons->list[0], order_reasons);
}

static void sort_all(struct top_snapshot *of)
{
    sort_reasons(&of->rates.refused_by_reason);
    sort_reasons(&of->counters.refused_by_reason);
    sort_reasons(&of->counters.would_deny_by_reason);
    qsort(of->keys, of->n_keys, sizeof of->keys[0], order_keys);
    qsort(of->routes, of->n_routes, sizeof of->routes[0], order_routes);
    qsort(of->budgets, of->n_budgets, sizeof of->budgets[0], order_budgets);
    qsort(of->tenants, of->n_tenants, sizeof of->tenants[0], order_tenants);
    qsort(of->gateways, of->n_gateways, sizeof of->gateways[0], order_gateways);
}

/* ---- Documents ------------------------------------------------------------------------------- */

bool top_snapshot_read(struct json_reader *reader, struct slice body, struct top_snapshot *into,
                       char *why, size_t why_bytes)
{
    struct json_value root;

    memset(into, 0, sizeof *into);
    top_model_forget(snapshot, into);
    if (json_begin(reader, body.at, body.n, body.n + JSON_PADDING, &root) &&
        root.kind == JSON_OBJECT)
        read_object(reader, snapshot, into);
    if (!json_end(reader)) {
        snprintf(why, why_bytes, "the reply is not JSON: %s", json_reader_problem(reader)->text);
        return false;
    }
    /* Gateways of a fleet may differ in their generations. */
    if (into->version[0] == '\0' || into->now == TOP_NONE ||
        (into->config.generation == TOP_NONE && strcmp(into->scope, "fleet") != 0)) {
        snprintf(why, why_bytes, "the reply is JSON, but not a snapshot");
        return false;
    }
    assert(into->n_keys <= TOP_KEYS_MAX_SHOWN && into->n_tenants <= TOP_TENANTS_MAX);
    assert(into->rates.refused_by_reason.n <= TOP_REASONS_MAX);
    sort_all(into);
    return true;
}

static void take_message(struct json_reader *reader, char *message, size_t bytes)
{
    struct json_text name;
    struct json_value value;

    if (!json_enter(reader))
        return;
    while (json_next(reader, &name, &value))
        if (json_text_is(name, "message") && value.kind == JSON_STRING)
            top_model_copy_text(value.string, message, bytes);
}

void top_error_read(struct json_reader *reader, struct slice body, char *message, size_t bytes)
{
    struct json_text name;
    struct json_value value;

    message[0] = '\0';
    if (!json_begin(reader, body.at, body.n, body.n + JSON_PADDING, &value) ||
        value.kind != JSON_OBJECT || !json_enter(reader))
        return;
    while (json_next(reader, &name, &value))
        if (json_text_is(name, "error") && value.kind == JSON_OBJECT)
            take_message(reader, message, bytes);
    if (!json_end(reader))
        message[0] = '\0';
}
