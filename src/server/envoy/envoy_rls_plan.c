/* envoy_rls_plan.c - a request of Envoy's rate limit service: the limit of each descriptor, the key
 * that it is counted under, and the reply. Pure, except for the tally.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/num.h"
#include "server/envoy/envoy_rls_internal.h"

/* ---- keys ---- */

static void put_key_part(struct rls_key *key, struct slice text)
{
    uint64_t n = text.n;

    memcpy(key->bytes + key->n, &n, sizeof n);
    key->n += sizeof n;
    if (text.n > 0)
        memcpy(key->bytes + key->n, text.at, text.n);
    key->n += text.n;
}

/* The value of entry i, or the pattern in its place. `rule` is the rule of the last entry. */
static struct slice value_of(const struct envoy_rls_descriptor *descriptor,
                             const struct envoy_rule *rule, size_t i)
{
    for (size_t k = descriptor->n_entries - 1; rule != NULL && k > i; k--)
        rule = rule->above;
    if (rule == NULL || !rule->share_threshold)
        return descriptor->entries[i].value;
    return slice_of(rule->value != NULL ? rule->value : rule->key);
}

bool rls_key_make(struct rls_key *key, struct slice domain, const struct rls_ask *ask)
{
    const struct envoy_rls_descriptor *descriptor = ask->descriptor;
    const struct envoy_rule *rule = ask->limit != NULL ? ask->limit->rule : NULL;
    size_t room = sizeof(uint64_t) + domain.n;

    for (size_t i = 0; i < descriptor->n_entries; i++)
        room +=
            2 * sizeof(uint64_t) + descriptor->entries[i].key.n + value_of(descriptor, rule, i).n;
    key->n = 0;
    key->bytes = room <= RLS_KEY_SMALL ? key->small : malloc(room);
    if (key->bytes == NULL)
        return false;
    put_key_part(key, domain);
    for (size_t i = 0; i < descriptor->n_entries; i++) {
        put_key_part(key, descriptor->entries[i].key);
        put_key_part(key, value_of(descriptor, rule, i));
    }
    assert(key->n == room); /* every byte that was counted has been written */
    return true;
}

void rls_key_free(struct rls_key *key)
{
    if (key->bytes != key->small)
        free(key->bytes);
}

/* ---- the plan ---- */

/* The unit of a limit that was brought along: several of one unit may be another (60 minutes are an
 * hour). ENVOY_UNIT_NONE: there is no unit of that length. */
static enum envoy_unit unit_of(const struct envoy_rls_descriptor *descriptor)
{
    int64_t ms = envoy_unit_ms(descriptor->unit);
    int64_t times = num_max(descriptor->unit_multiplier, 1);

    for (unsigned i = ENVOY_SECOND; i < ENVOY_UNITS; i++)
        if (envoy_unit_ms(i) % ms == 0 && envoy_unit_ms(i) / ms == times)
            return (enum envoy_unit)i;
    return ENVOY_UNIT_NONE;
}

static void plan_brought(const struct rls_work *work, struct rls_ask *ask)
{
    const struct envoy_rls_descriptor *descriptor = ask->descriptor;

    ask->limited = true;
    ask->ceiling = descriptor->requests_per_unit;
    ask->unit = unit_of(descriptor);
    ask->set = ask->ceiling > 0 ? work->rls->brought[ask->unit] : 0;
}

static void plan_rule(const struct rls_work *work, struct rls_ask *ask,
                      const struct envoy_rule *rule)
{
    const struct envoy_limit *limit = &rule->limit;

    ask->limit = &work->rls->limits[limit->number];
    ask->unlimited = limit->unlimited;
    ask->limited = !limit->unlimited;
    ask->shadow = rule->shadow || rule->quota;
    ask->ceiling = limit->requests_per_unit;
    ask->unit = limit->unit;
    ask->set = ask->limit->set;
}

static int64_t hits_of(const struct envoy_rls_request *request,
                       const struct envoy_rls_descriptor *descriptor)
{
    uint64_t hits = descriptor->has_hits ? descriptor->hits : request->hits > 0 ? request->hits : 1;

    if (descriptor->negative)
        return 0;
    return hits < (uint64_t)TG_NUMBER_MAX ? (int64_t)hits : TG_NUMBER_MAX;
}

static bool replaces(const struct rls_ask *ask, size_t name)
{
    const struct envoy_limit *limit = &ask->limit->rule->limit;

    for (size_t i = 0; i < limit->n_replaces; i++)
        if (limit->replaces[i].number == name)
            return true;
    return false;
}

/* A limit that another one of the request replaces does not apply. One that is replaced still
 * replaces others, so that the order of descriptors makes no difference. */
static void drop_replaced(struct rls_work *work)
{
    for (size_t i = 0; i < work->n; i++) {
        struct rls_ask *ask = &work->asks[i];
        if (!ask->limited || ask->limit == NULL ||
            ask->limit->rule->limit.name_number == ENVOY_NO_NAME)
            continue;
        for (size_t k = 0; k < work->n && ask->limited; k++)
            if (work->asks[k].limit != NULL)
                ask->limited = !replaces(&work->asks[k], ask->limit->rule->limit.name_number);
    }
}

void rls_plan(struct rls_work *work)
{
    const struct envoy_domain *domain =
        envoy_rules_domain(work->rls->config->rules, work->request->domain);

    work->n = work->request->n_descriptors;
    assert(work->n > 0 && work->n <= ENVOY_RLS_DESCRIPTORS_MAX); /* it is sound */
    for (size_t i = 0; i < work->n; i++) {
        const struct envoy_rls_descriptor *descriptor = &work->request->descriptors[i];
        struct rls_ask *ask = &work->asks[i];
        *ask =
            (struct rls_ask){.descriptor = descriptor, .hits = hits_of(work->request, descriptor)};
        if (domain == NULL)
            continue;
        if (descriptor->has_limit) {
            plan_brought(work, ask);
            continue;
        }
        const struct envoy_rule *rule =
            envoy_rules_match(domain, descriptor->entries, descriptor->n_entries);
        if (rule != NULL && rule->limit.present)
            plan_rule(work, ask, rule);
    }
    drop_replaced(work);
}

/* ---- one answer ---- */

void rls_hold_against(const struct rls_ask *ask, int64_t hits, struct tg_decision *answer)
{
    int64_t counted = answer->limit - answer->remaining - (answer->allowed ? hits : 0);
    int64_t left = num_less(ask->ceiling, counted);

    answer->allowed = answer->allowed && hits <= left;
    answer->remaining = answer->allowed ? left - hits : left;
    answer->retry_after_ms = answer->allowed ? 0 : TG_UNSATISFIABLE;
}

int64_t rls_left_now(const struct tg_decision *answer, int64_t hits)
{
    return answer->allowed ? num_add(answer->remaining, hits) : answer->remaining;
}

void rls_note(struct rls_ask *ask, const struct tg_decision *answer, int64_t remaining, tg_ms now)
{
    tg_ms wait = num_less(answer->reset_at, now);

    if (!answer->allowed && answer->retry_after_ms != TG_UNSATISFIABLE)
        wait = answer->retry_after_ms;
    ask->over = !answer->allowed && !ask->descriptor->negative;
    ask->remaining = num_min(remaining, ask->ceiling);
    ask->until_reset = wait;
}

void rls_shut_out(struct rls_ask *ask)
{
    assert(ask->limited && ask->set == 0 && !ask->charged);
    ask->over = !ask->descriptor->negative;
    ask->until_reset = envoy_unit_ms(ask->unit);
}

/* ---- the reply ---- */

bool rls_refuses(const struct rls_work *work, const struct rls_ask *ask)
{
    assert(!ask->over || ask->limited);
    return ask->over && !ask->shadow && work->rls->config->mode == CONFIG_ENFORCE;
}

void rls_reply_init(struct envoy_rls_reply *reply)
{
    reply->message[0] = '\0';
    reply->overall = ENVOY_RLS_UNKNOWN;
    reply->n_statuses = reply->n_headers = 0;
    reply->metadata = NULL;
}

bool rls_fail(struct envoy_rls_reply *reply, enum envoy_rls_result result, const char *format, ...)
{
    va_list args;

    reply->result = result;
    va_start(args, format);
    vsnprintf(reply->message, sizeof reply->message, format, args);
    va_end(args);
    return false;
}

static bool is_known_period(size_t i, const struct envoy_rls_request *request,
                            struct envoy_rls_reply *reply)
{
    const struct envoy_rls_descriptor *descriptor = &request->descriptors[i];

    if (envoy_unit_ms(descriptor->unit) == 0)
        return rls_fail(reply, ENVOY_RLS_INVALID,
                        "descriptors[%zu].limit.unit is not a unit; it must be a number from 1 "
                        "(second) to 7 (week)",
                        i);
    return unit_of(descriptor) != ENVOY_UNIT_NONE ||
           rls_fail(reply, ENVOY_RLS_INVALID,
                    "descriptors[%zu].limit.unit_multiplier is %" PRIu32
                    "; the period must be one second, minute, hour, day, week, month or year",
                    i, descriptor->unit_multiplier);
}

bool rls_is_sound(const struct envoy_rls_request *request, struct envoy_rls_reply *reply)
{
    if (request->domain.n == 0)
        return rls_fail(reply, ENVOY_RLS_INVALID, "domain is empty; it must name a set of rules");
    if (request->n_descriptors == 0)
        return rls_fail(reply, ENVOY_RLS_INVALID,
                        "descriptors is empty; there must be one at least");
    if (request->n_descriptors > ENVOY_RLS_DESCRIPTORS_MAX)
        return rls_fail(reply, ENVOY_RLS_INVALID, "descriptors has %zu items; at most %d are taken",
                        request->n_descriptors, ENVOY_RLS_DESCRIPTORS_MAX);
    for (size_t i = 0; i < request->n_descriptors; i++)
        if (request->descriptors[i].has_limit && !is_known_period(i, request, reply))
            return false;
    return true;
}

static uint32_t as_uint32(int64_t number)
{
    return number < (int64_t)UINT32_MAX ? (uint32_t)num_max(number, 0) : UINT32_MAX;
}

/* Envoy tells its client seconds, and cuts off what is less: 0.9 s would be "at once". */
static tg_ms whole_seconds(tg_ms ms)
{
    tg_ms bounded = num_max(num_min(ms, TG_NUMBER_MAX), 0);

    return (bounded / 1000 + (bounded % 1000 > 0)) * 1000;
}

/* A refusal in shadow shows in the tally alone. */
static void write_status(const struct rls_ask *ask, bool refused, struct envoy_rls_status *status)
{
    int64_t back = refused && ask->charged && !rls_is_meter(ask) ? ask->hits : 0;

    *status = (struct envoy_rls_status){.code = ENVOY_RLS_OK};
    if (ask->unlimited)
        status->limit_remaining = UINT32_MAX;
    if (!ask->limited)
        return;
    if (ask->over && !ask->shadow)
        status->code = ENVOY_RLS_OVER_LIMIT;
    status->quota = ask->limit != NULL && ask->limit->rule->quota;
    status->quota_over = ask->over && status->quota && !ask->limit->rule->shadow;
    status->has_limit = true;
    status->requests_per_unit = (uint32_t)ask->ceiling;
    status->unit = ask->unit;
    if (ask->limit != NULL && ask->limit->rule->limit.name != NULL)
        status->name = slice_of(ask->limit->rule->limit.name);
    status->limit_remaining = as_uint32(num_add(ask->remaining, back));
    status->until_reset = whole_seconds(ask->until_reset);
}

/* Which of two the headers describe: a refusal, or the one that has less left. */
static bool is_tighter(const struct envoy_rls_status *a, const struct envoy_rls_status *b)
{
    if (b == NULL || a->code != b->code)
        return b == NULL || a->code == ENVOY_RLS_OVER_LIMIT;
    return a->limit_remaining < b->limit_remaining;
}

static void add_header(struct envoy_rls_reply *reply, const char *name, int64_t value)
{
    size_t i = reply->n_headers++;
    int n = snprintf(reply->header_text[i], sizeof reply->header_text[i], "%" PRId64,
                     num_max(value, 0));

    assert(i < ENVOY_RLS_HEADERS_MAX && n > 0 && (size_t)n < sizeof reply->header_text[i]);
    reply->headers[i].name = slice_of(name);
    reply->headers[i].value = (struct slice){reply->header_text[i], (size_t)n};
}

static void write_headers(const struct config_envoy *config, struct envoy_rls_reply *reply)
{
    const struct envoy_rls_status *tightest = NULL;

    for (size_t i = 0; i < reply->n_statuses; i++)
        if (reply->statuses[i].has_limit && is_tighter(&reply->statuses[i], tightest))
            tightest = &reply->statuses[i];
    if (!config->headers || tightest == NULL)
        return;
    add_header(reply, config->limit_header, tightest->requests_per_unit);
    add_header(reply, config->remaining_header, tightest->limit_remaining);
    add_header(reply, config->reset_header, tightest->until_reset / 1000);
}

static void tally(const struct rls_work *work, const struct rls_ask *ask)
{
    struct rls_tally *to = ask->limit->tally;
    bool forgiven = ask->shadow || work->rls->config->mode == CONFIG_SHADOW;
    atomic_ullong *count = !ask->over ? &to->within : forgiven ? &to->shadow : &to->over;

    atomic_fetch_add_explicit(count, (unsigned long long)ask->hits, memory_order_relaxed);
}

void rls_reply(const struct rls_work *work, bool refused, struct envoy_rls_reply *reply)
{
    assert(work->n <= ENVOY_RLS_DESCRIPTORS_MAX && work->n == work->request->n_descriptors);
    reply->result = ENVOY_RLS_DECIDED;
    reply->overall = refused ? ENVOY_RLS_OVER_LIMIT : ENVOY_RLS_OK;
    reply->n_statuses = work->n;
    for (size_t i = 0; i < work->n; i++) {
        const struct rls_ask *ask = &work->asks[i];
        write_status(ask, refused, &reply->statuses[i]);
        if (ask->limit != NULL && (ask->limited || ask->unlimited))
            tally(work, ask);
    }
    write_headers(work->rls->config, reply);
    if (work->rls->config->metadata)
        reply->metadata = work->request;
}
