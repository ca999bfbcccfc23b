/* admit_check.c - who asks for a decision, and what it may state. See admit.h.
 *
 * A caller is trusted infrastructure: it may say who others are, but only as far as its entry
 * allows, and only within ranges. A field in a message is stated on purpose, so one that may not be
 * stated is an error. A header may just have come along with a request that a proxy forwards, so
 * one that may not be stated is ignored.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/utf8.h"
#include "server/admit/admit_authz.h"
#include "server/admit/admit_internal.h"
#include "server/obs/watch.h"
#include "server/tenancy/callers.h"
#include "server/tenancy/trust.h"
#include "server/tenancy/virtual_key.h"

#define HOLD_MAX 1e9 /* seconds */

/* Clients in many languages reject a protobuf message with a string that is not UTF-8. */
void admit_mend_text(char message[ADMIT_TEXT_MAX])
{
    struct slice text = slice_of(message);

    if (utf8_valid(text.at, text.n) < text.n)
        watch_text(message, ADMIT_TEXT_MAX, text);
}

void admit_fail(struct admit_reply *reply, enum admit_status status, const char *field,
                const char *format, ...)
{
    va_list arguments;

    reply->status = status;
    reply->field = field;
    reply->allowed = false;
    reply->lease_bytes = 0;
    va_start(arguments, format);
    vsnprintf(reply->message, sizeof reply->message, format, arguments);
    va_end(arguments);
    admit_mend_text(reply->message);
}

/* ---- callers ---- */

bool admit_authenticate(struct worker *worker, const struct http_head *head,
                        struct admit_caller *caller, struct refusal *why)
{
    struct refusal unwanted;
    struct slice token;

    if (why == NULL)
        why = &unwanted;
    switch (virtual_key_find(head->fields, head->n_fields, &token)) {
    case VIRTUAL_KEY_CONFLICT:
        refusal_init(why, REPLY_CONFLICTING_API_KEYS,
                     "the request has two tokens that differ; send one");
        return false;
    case VIRTUAL_KEY_NONE:
        refusal_init(why, REPLY_INVALID_API_KEY,
                     "no token: send a caller's as 'Authorization: Bearer TOKEN'");
        return false;
    default:
        break;
    }
    caller->generation = worker->generation->number;
    caller->is_authz = false;
    caller->entry = virtual_key_hash(token, caller->hash)
                        ? caller_find(&worker->generation->config, caller->hash)
                        : NULL;
    if (caller->entry == NULL)
        refusal_init(why, REPLY_INVALID_API_KEY, "the token belongs to none of the `callers`");
    return caller->entry != NULL;
}

const struct config_caller *admit_entry(struct worker *worker, struct admit_caller *caller,
                                        struct admit_reply *reply)
{
    if (caller->generation != worker->generation->number) {
        caller->generation = worker->generation->number;
        caller->entry = caller->is_authz ? admit_authz_entry(&worker->generation->config)
                                         : caller_find(&worker->generation->config, caller->hash);
    }
    if (caller->entry == NULL)
        admit_fail(reply, ADMIT_UNAUTHENTICATED, NULL,
                   "the token belongs to none of the `callers`");
    return caller->entry;
}

/* ---- headers ---- */

void admit_ask_init(struct admit_ask *ask)
{
    *ask =
        (struct admit_ask){.priority = TG_PRIORITY_COUNT, .cost = 1, .at_most = TG_PRIORITY_HIGH};
}

/* The value that a header states; negative: none, or not a number. */
static double worth(const struct http_head *head)
{
    struct slice said = http_find(head, SLICE("x-tollgate-value"));
    char text[32], *end;

    if (said.n == 0 || said.n >= sizeof text)
        return -1;
    memcpy(text, said.at, said.n);
    text[said.n] = 0;
    double value = strtod(text, &end);
    return *end == 0 && value >= 0 && value <= (double)TG_NUMBER_MAX ? value : -1;
}

void admit_ask_head(struct worker *worker, struct admit_caller *caller,
                    const struct http_head *head, struct admit_ask *ask)
{
    struct admit_reply unwanted;
    const struct config_caller *entry = admit_entry(worker, caller, &unwanted);

    if (entry == NULL)
        return;
    if (entry->may_priority && ask->priority != TG_PRIORITY_COUNT)
        ask->at_most = trust_priority(head, TG_PRIORITY_HIGH);
    else if (entry->may_priority)
        ask->priority = trust_priority(head, TG_PRIORITY_COUNT);
    if (entry->may_peer && ask->peer.n == 0)
        ask->peer = trust_node(head);
    if (entry->may_value && !ask->has_value) {
        ask->value = worth(head);
        ask->has_value = ask->value >= 0;
    }
}

/* ---- fields ---- */

static bool forbidden(const struct config_caller *entry, const char *field,
                      struct admit_reply *reply)
{
    admit_fail(reply, ADMIT_FORBIDDEN, field,
               "caller '%.60s' may not state `%s`: it is not in its `may`", entry->name, field);
    return false;
}

static bool may_state(const struct config_caller *entry, const struct admit_ask *ask,
                      struct admit_reply *reply)
{
    if (ask->tenant.n > 0 && !entry->may_tenant)
        return forbidden(entry, "tenant", reply);
    if (ask->peer.n > 0 && !entry->may_peer)
        return forbidden(entry, "peer", reply);
    if (ask->priority != TG_PRIORITY_COUNT && !entry->may_priority)
        return forbidden(entry, "priority", reply);
    return !ask->has_value || entry->may_value || forbidden(entry, "value", reply);
}

/* A zero byte would cut the name off wherever it is shown, so that it reads like another's. */
static bool is_name(struct slice text, const char *field, struct admit_reply *reply)
{
    if (text.n == 0)
        return true;
    if (text.n <= ADMIT_NAME_MAX && memchr(text.at, 0, text.n) == NULL)
        return true;
    if (text.n <= ADMIT_NAME_MAX)
        admit_fail(reply, ADMIT_INVALID, field, "`%s` must have no zero byte in it", field);
    else
        admit_fail(reply, ADMIT_INVALID, field, "`%s` has %zu bytes; at most %d are allowed", field,
                   text.n, ADMIT_NAME_MAX);
    return false;
}

static bool is_within(int64_t number, int64_t from, int64_t to, const char *field,
                      struct admit_reply *reply)
{
    if (number >= from && number <= to)
        return true;
    admit_fail(reply, ADMIT_INVALID, field,
               "`%s` is %" PRId64 "; %" PRId64 " to %" PRId64 " are allowed", field, number, from,
               to);
    return false;
}

static bool is_real(double number, double to, const char *field, struct admit_reply *reply)
{
    if (number >= 0 && number <= to)
        return true;
    admit_fail(reply, ADMIT_INVALID, field, "`%s` is %g; 0 to %g are allowed", field, number, to);
    return false;
}

bool admit_check(const struct worker *worker, const struct config_caller *entry,
                 const struct admit_ask *ask, struct admit_reply *reply)
{
    tg_ms most = worker->generation->config.gate.lease_ttl;

    if (atomic_load_explicit(&worker->gateway->draining, memory_order_relaxed)) {
        admit_fail(reply, ADMIT_DRAINING, NULL, "the gateway is shutting down");
        return false;
    }
    return may_state(entry, ask, reply) && is_name(ask->tenant, "tenant", reply) &&
           is_name(ask->peer, "peer", reply) && is_name(ask->model, "model", reply) &&
           is_name(ask->user, "user", reply) &&
           is_within(ask->cost, 0, TG_NUMBER_MAX, "cost", reply) &&
           (!ask->has_value || is_real(ask->value, (double)TG_NUMBER_MAX, "value", reply)) &&
           is_real(ask->hold_s, HOLD_MAX, "hold_s", reply) &&
           (ask->ttl_ms == 0 ||
            is_within(ask->ttl_ms, 1, most < ADMIT_TTL_MAX ? most : ADMIT_TTL_MAX, "ttl_ms",
                      reply)) &&
           is_within(ask->priority, 0, TG_PRIORITY_COUNT, "priority", reply);
}
