/* call_attempt.c - one try at a provider: money, then a key, then the request; and what if it
 * fails.
 *
 * Money comes before the key: a call that cannot be paid must not occupy a key, not even for a
 * moment. Both are taken anew for each attempt and given back before the next, so that nothing
 * scarce is held while a call pauses.
 *
 * After a failure the same key is tried once more, then others, then the next fallback; each within
 * the caller's deadline, the route's number of retries and the retry budget of all. A key that was
 * limited or turned away is not tried again for this call. Nothing is tried again once a byte of a
 * reply has gone to the client.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/core/num.h"
#include "server/proxy/call.h"

enum {
    PAUSE_MIN = 50, /* ms, doubled with each attempt */
    PAUSE_MAX = 200,
    TARGET_MAX = 32 * 1024, /* bytes: the longest that is taken, and what providers add to it */
};

/* ---- the request to the provider ---- */

#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
static const struct slice NOT_FORWARDED[] = {
    NAME("authorization"),       NAME("x-api-key"),      NAME("api-key"),         NAME("cookie"),
    NAME("openai-organization"), NAME("openai-project"), NAME("accept-encoding"),
};
#undef NAME

static bool has_prefix(struct slice text, struct slice prefix)
{
    return text.n >= prefix.n && memcmp(text.at, prefix.at, prefix.n) == 0;
}

/* What concerns us alone, or must not reach a provider. Replies are read, so none may be packed. */
static bool is_forwarded(const struct http_hops *hops, const struct config_provider *provider,
                         struct slice auth, struct slice name)
{
    if (http_hops_has(hops, name) || slice_equal(name, auth) ||
        has_prefix(name, SLICE("x-tollgate-")) || has_prefix(name, SLICE("x-deriva-")))
        return false;
    for (size_t i = 0; i < sizeof NOT_FORWARDED / sizeof NOT_FORWARDED[0]; i++)
        if (slice_equal(name, NOT_FORWARDED[i]))
            return false;
    for (size_t i = 0; i < provider->drop_headers.n; i++)
        if (slice_equal(name, slice_of(provider->drop_headers.names[i])))
            return false;
    for (size_t i = 0; i < provider->set_headers.n; i++)
        if (slice_equal(name, slice_of(provider->set_headers.list[i].name)))
            return false;
    return true;
}

/* "Bearer " and the key, in memory that is wiped after use. */
struct credential {
    size_t n;
    char at[8192 + 64];
};

static bool write_credential(const struct config_provider *provider,
                             const struct config_provider_key *key, struct credential *to)
{
    size_t prefix = strlen(provider->auth_prefix);

    to->n = prefix + key->secret.size;
    if (key->secret.bytes == NULL || to->n > sizeof to->at)
        return false;
    memcpy(to->at, provider->auth_prefix, prefix);
    memcpy(to->at + prefix, key->secret.bytes, key->secret.size);
    return true;
}

static bool collect_fields(const struct http_head *from, const struct config_provider *provider,
                           const struct credential *credential, struct slice traceparent,
                           struct http_fields *to)
{
    const struct http_hops hops = http_hops_of(from);
    struct slice trace = SLICE("traceparent"), auth = slice_of(provider->auth_header);
    bool fine = true;

    http_fields_init(to);
    for (size_t i = 0; i < from->n_fields; i++)
        if (is_forwarded(&hops, provider, auth, from->fields[i].name) &&
            (traceparent.n == 0 || !slice_equal(from->fields[i].name, trace)))
            fine = fine && http_fields_add(to, from->fields[i].name, from->fields[i].value);
    for (size_t i = 0; i < provider->set_headers.n; i++)
        fine = fine && http_fields_add(to, slice_of(provider->set_headers.list[i].name),
                                       slice_of(provider->set_headers.list[i].value));
    if (traceparent.n > 0)
        fine = fine && http_fields_add(to, trace, traceparent);
    fine = fine && http_fields_add(to, SLICE("accept-encoding"), SLICE("identity"));
    return fine && http_fields_add(to, auth, (struct slice){credential->at, credential->n});
}

static void call_attempt_put(char *text, size_t size, size_t *n, struct slice more, bool *fits)
{
    *fits = *fits && more.n <= size - *n;
    if (!*fits || more.n == 0)
        return;
    memcpy(text + *n, more.at, more.n);
    *n += more.n;
}

/* The provider's path, the endpoint's, the client's query and the provider's own. */
static bool write_target(const struct call *call, const struct config_provider *provider,
                         char *text, size_t size, size_t *n)
{
    struct slice target = call->in->head.target;
    bool query = memchr(target.at, '?', target.n) != NULL;
    bool fits = true;

    *n = 0;
    call_attempt_put(text, size, n, slice_of(provider->base.path), &fits);
    call_attempt_put(text, size, n, slice_of(provider->path_prefix), &fits);
    call_attempt_put(text, size, n, target, &fits);
    for (size_t i = 0; i < provider->query.n; i++) {
        call_attempt_put(text, size, n, query ? SLICE("&") : SLICE("?"), &fits);
        call_attempt_put(text, size, n, slice_of(provider->query.list[i].name), &fits);
        call_attempt_put(text, size, n, SLICE("="), &fits);
        call_attempt_put(text, size, n, slice_of(provider->query.list[i].value), &fits);
        query = true;
    }
    return fits;
}

/* The body with what has to be changed in it. */
static bool edit_body(struct call *call, int64_t most_output)
{
    struct body_edit *edit = &call->attempt.edit;
    const struct route *route = call->route;
    struct slice asked = ask_slice(&call->ask.model);
    const char *upstream = route->config->upstream_model; /* null: as it was asked for */

    body_edit_init(edit);
    if (upstream && !slice_equal(asked, slice_of(upstream)) &&
        !body_edit_model(edit, &call->ask, slice_of(upstream)))
        return false;
    if (most_output >= 0 && !body_edit_bound(edit, &call->ask, most_output))
        return false;
    if (route->provider->config->inject_usage)
        call->attempt.injected = body_edit_include_usage(edit, &call->ask);
    return true;
}

static struct provider *provider_of(const struct call *call)
{
    if (call->route)
        return call->route->provider;
    return &call->generation->providers[call->passthrough->provider];
}

/* 0 for a time that is none. */
static tg_ms left_until(const struct call *call, tg_ms at)
{
    return at > 0 ? num_max(1, at - call_now(call)) : 0;
}

static void timeouts_of(const struct call *call, struct http_timeouts *timeouts)
{
    *timeouts = (struct http_timeouts){.connect = 5000, .first_byte = 120000, .idle = 60000};
    if (call->route)
        *timeouts = (struct http_timeouts){.connect = call->route->config->timeouts.connect,
                                           .first_byte = call->route->config->timeouts.first_byte,
                                           .idle = call->route->config->timeouts.idle};
    timeouts->total = left_until(call, call->ends_at);
    timeouts->head = left_until(call, call->deadline);
}

static bool send_request(struct call *call, int64_t most_output)
{
    struct provider *provider = provider_of(call);
    struct slice slices[BODY_SLICES_MAX] = {{call->body.bytes, call->body.n}};
    size_t n = call->body.n > 0, total = call->body.n;
    struct http_timeouts timeouts;
    struct http_fields fields;
    struct credential credential;
    char target[TARGET_MAX], trace[TRACE_PARENT_BYTES];
    struct http_head head = {.method = call->in->head.method, .target = {.at = target}};

    if (!write_target(call, provider->config, target, sizeof target, &head.target.n))
        return false;
    if (call->route) {
        if (!edit_body(call, most_output))
            return false;
        n = body_edit_slices(&call->attempt.edit, call->body.bytes, call->body.n, slices, &total);
    }
    timeouts_of(call, &timeouts);
    if (!write_credential(provider->config, call->attempt.owner->config, &credential))
        return false;
    struct slice traceparent = report_notes_traceparent(&call->notes, call->worker, trace);
    if (collect_fields(&call->in->head, provider->config, &credential, traceparent, &fields)) {
        head.fields = fields.list;
        head.n_fields = fields.n;
        head.length = (int64_t)total;
        call->attempt.out = http_send(call->worker->client, provider->origin, &head, &timeouts,
                                      &call_client_ops, call);
    }
    OPENSSL_cleanse(credential.at, credential.n); /* a byte at a time: not all the room */
    if (call->attempt.out == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        http_outbound_write(call->attempt.out, slices[i]);
    if (total > 0)
        http_outbound_finish(call->attempt.out);
    return true;
}

/* ---- money ---- */

static void describe_money(const struct call *call, struct spending_call *spending)
{
    *spending = (struct spending_call){.tenant = call_tenant(call)->name,
                                       .hint = call->tenant,
                                       .user = {call->user.at, call->user.n}};
}

bool call_money_left(const struct call *call, struct slice user, tg_micro *left, double *part)
{
    struct gateway *gateway = call->gateway;
    struct spending_call spending;

    describe_money(call, &spending);
    spending.user = (struct ledger_text){user.at, user.n};
    return (gateway->remote
                ? remote_money_left(gateway->remote->money, &spending, call_now(call), left, part)
                : spending_left(gateway->spending, &spending, call_now(call), left, part)) == TG_OK;
}

/* Of each of its choices; below 1: not even the prompt, or nothing more. */
static int64_t affordable_output(const struct call *call, tg_micro left)
{
    return tg_price_affordable(&call->route->config->price, call->attempt.prompt, left) /
           call->ask.choices;
}

/* What the call may write at most, if it does not say: -1: it says, or nothing is to be done. */
static bool bound_output(struct call *call, int64_t *most, bool *up_to)
{
    const struct config_model *model = call->route->config;
    struct refusal why;
    tg_micro left;

    *most = -1;
    *up_to = false;
    if (!estimate_has_output(call->endpoint) || call->ask.max_output >= 0)
        return true;
    if (model->on_unbounded == CONFIG_ALLOW) {
        *up_to = true;
        return true;
    }
    if (model->on_unbounded == CONFIG_REFUSE) {
        refusal_init(&why, REPLY_INVALID_REQUEST,
                     "this model's calls have to say how many tokens they may write");
        snprintf(why.param, sizeof why.param, "max_tokens");
        call_refuse_admitted(call, &why);
        return false;
    }
    if (!call_money_left(call, call->user, &left, NULL) || left == TG_MONEY_MAX)
        return true; /* nobody's budget depends on it */
    *most = num_min(model->max_output_tokens, num_max(affordable_output(call, left), 1));
    call->attempt.output = *most * call->ask.choices;
    return true;
}

static void refuse_money(struct call *call, enum tg_err err, const struct tg_money_answer *answer)
{
    struct refusal why;

    if (err == TG_ERR_UNKNOWN) {
        refusal_init(&why, REPLY_INVALID_API_KEY, "the tenant of this key has been removed");
    } else if (err) {
        refusal_init(&why, REPLY_STORE_UNAVAILABLE,
                     "what calls cost cannot be recorded at the moment");
    } else {
        refusal_init(&why, answer->contended ? REPLY_BUDGET_CONTENDED : REPLY_BUDGET,
                     answer->contended
                         ? "the rest of the budget is reserved by calls that are running"
                         : "the budget for this %s is spent",
                     tg_per_name(answer->per));
        why.retry_after_ms = answer->contended ? 1000 : TG_UNSATISFIABLE;
        why.reset_at = answer->per == TG_PER_TOTAL ? 0 : answer->reset_at;
    }
    call_refuse_admitted(call, &why);
}

static void find_key(struct call *call);

/* At this gateway, or at all of them. */
static void money_answered(struct call *call, enum tg_err err, const struct tg_money_answer *answer)
{
    if (!err && answer->would_deny > 0)
        call->notes.would_deny |= REPORT_WOULD(REPORT_BUDGET);
    if (!err && answer->reservation != 0) {
        call->notes.reserved = answer->reserved;
        find_key(call);
        return;
    }
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    refuse_money(call, err, answer);
}

/* A call that we have bounded, by what was known here of all gateways' spending, was refused; with
 * that came what is left indeed. Once, and if both waits together take no longer than one for
 * limits and one for money may. */
static bool can_do_with_less(const struct call *call)
{
    const struct attempt *attempt = &call->attempt;
    tg_micro left;

    if (attempt->most_output < 0 || attempt->asked_less ||
        call->store_ms > call->generation->config.store.timeout ||
        !call_money_left(call, call->user, &left, NULL))
        return false;
    int64_t most = affordable_output(call, left);
    return most >= 1 && most < attempt->most_output;
}

static void call_attempt_reserve(struct call *call);

static void remote_reservation_answered(struct remote_reservation *money, enum tg_err err,
                                        const struct tg_money_answer *answer)
{
    char *at = (char *)money - offsetof(struct call, attempt.remote_reservation);
    struct call *call = (struct call *)(void *)at;

    call->store_ms += call_now(call) - call->asked_at;
    if (!err && answer->reservation == 0 && can_do_with_less(call)) {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
        call->attempt.asked_less = true;
        call_attempt_reserve(call);
        return;
    }
    money_answered(call, err, answer);
}

/* What the attempt may cost. False: the call has been answered. */
static bool price_attempt(struct call *call, struct spending_call *spending)
{
    struct attempt *attempt = &call->attempt;

    describe_money(call, spending);
    attempt->most_output = -1;
    if (call->route == NULL) {
        spending->money = call->passthrough->per_call;
        return true;
    }
    attempt->prompt = estimate_prompt(&call->ask, &call->route->estimate);
    attempt->output = estimate_output(&call->ask, call->route->config->max_output_tokens);
    if (!bound_output(call, &attempt->most_output, &spending->up_to))
        return false;
    spending->money = tg_price_bound(&call->route->config->price, attempt->prompt, attempt->output);
    return true;
}

/* Reserves it: in this gateway's own books, then where all of them are added up. */
static void call_attempt_reserve(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    struct spending_call spending;
    struct tg_money_answer answer;

    if (!price_attempt(call, &spending))
        return;
    enum tg_err err = spending_reserve(call->gateway->spending, &spending, call_now(call),
                                       &attempt->money, &answer);
    if (err || attempt->money.reservation == 0) {
        attempt->money.reservation = 0;
        answer.reservation = 0;
    } else if (call->gateway->remote) {
        spending.money = answer.reserved;
        call->state = CALL_AT_STORE;
        call->asked_at = call_now(call);
        if (!remote_reserve(call->worker->port, &attempt->remote_reservation,
                            &call->generation->remote, &spending, remote_reservation_answered, &err,
                            &answer))
            return;
    }
    money_answered(call, err, &answer);
}

/* ---- a key ---- */

static void affinity_of(const struct call *call, struct tg_key_call *key)
{
    unsigned by = call->route->config->affinity_by;
    const struct ask_text *text = NULL;

    if (by & CONFIG_BY_PREVIOUS_RESPONSE && call->ask.previous_response_id.n > 0)
        text = &call->ask.previous_response_id;
    else if (by & CONFIG_BY_PROMPT_CACHE_KEY && call->ask.prompt_cache_key.n > 0)
        text = &call->ask.prompt_cache_key;
    else if (by & CONFIG_BY_USER && call->ask.user.n > 0)
        text = &call->ask.user;
    if (text) {
        key->affinity = text->at;
        key->affinity_bytes = text->n;
    }
}

static struct tg_pool *pool_of(const struct call *call)
{
    return call->route ? call->route->pool : provider_of(call)->pool;
}

static void acquire(struct call *call, struct tg_key_answer *answer)
{
    struct attempt *attempt = &call->attempt;
    struct tg_key_call key;

    tg_key_call_init(&key);
    if (call->route) {
        attempt->tokens =
            tg_overbook_apply(&call->route->overbook, num_add(attempt->prompt, attempt->output));
        affinity_of(call, &key);
    }
    key.tokens = attempt->tokens;
    if (call->same_key)
        key.prefer = call->last_key;
    memcpy(key.tried, call->tried, sizeof key.tried);
    key.n_tried = call->n_tried;
    tg_pool_acquire(pool_of(call), &key, call_now(call), answer);
    attempt->key = answer->lease;
    attempt->owner = answer->owner;
}

/* How long until a key can serve a new call like this one, for which none has been tried. */
static tg_ms wait_of_keys(struct call *call)
{
    struct tg_key_report report;
    struct tg_key_answer answer;
    struct tg_key_call key;

    tg_key_call_init(&key);
    key.tokens = call->attempt.tokens;
    tg_pool_acquire(pool_of(call), &key, call_now(call), &answer);
    if (answer.lease == 0)
        return answer.retry_after_ms;
    tg_key_report_init(&report);
    report.outcome = TG_KEY_CANCELLED;
    report.sent = false;
    tg_keyring_release(call->gateway->ring, answer.lease, call_now(call), &report);
    return 0;
}

/* What is said when nothing more is tried. */
static void answer_failure(struct call *call, enum call_failure failure)
{
    struct refusal why;

    if (failure == FAILURE_SERVER && call_answer_held(call))
        return;
    switch (failure) {
    case FAILURE_LIMITED:
        refusal_init(&why, REPLY_KEYS_COOLING, NULL);
        why.retry_after_ms = wait_of_keys(call);
        break;
    case FAILURE_CREDENTIALS:
        refusal_init(&why, REPLY_UPSTREAM_CREDENTIALS, NULL);
        break;
    case FAILURE_TIMEOUT:
        refusal_init(&why, REPLY_UPSTREAM_TIMEOUT, NULL);
        break;
    default:
        refusal_init(&why, REPLY_UPSTREAM_ERROR, NULL);
    }
    call_refuse(call, &why);
}

/* What the last attempt met is what the client is told, if the keys that are left are no better. */
static void no_key(struct call *call, struct tg_key_answer *answer)
{
    struct refusal why;

    if (!answer->too_large && call_admit_fallback(call, "no_key"))
        return;
    if (call->n_tried > 0 && call->failure != FAILURE_LIMITED && !answer->all_cooling) {
        answer_failure(call, call->failure);
        return;
    }
    if (call->n_tried > 0)
        answer->retry_after_ms = wait_of_keys(call);
    refusal_of_keys(answer, &why);
    call_refuse_admitted(call, &why);
}

/* ---- the attempt ---- */

/* A key may be of a newer generation than its call: see generation.h. */
static void hold_key(struct call *call)
{
    struct generation *of = call->attempt.owner->generation;
    struct generation *last = call->key_generation;

    call->last_key = call->attempt.owner;
    if (of == last || (last == NULL && of == call->generation))
        return;
    generation_hold(of, call->worker->number);
    call->key_generation = of;
    if (last)
        generation_drop(last, call->worker->number);
}

/* Money and a key are there. */
static void begin_attempt(struct call *call)
{
    struct refusal why;

    call->state = CALL_ASKING;
    if (call->attempts++ == 0)
        call_report_admitted(call);
    call->route_attempts++;
    call->attempt.began_at = call_now(call);
    if (send_request(call, call->attempt.most_output)) {
        call->attempt.unsent = false;
        report_notes_sent(&call->notes);
        return;
    }
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    refusal_init(&why, REPLY_INTERNAL, "the request to the provider could not be made");
    call_refuse_admitted(call, &why);
}

static void key_answered(struct remote_key_claim *key, enum tg_err err,
                         const struct tg_key_hold *hold);

/* How often a key is looked for, while others have taken what the last one had left. */
enum { KEY_ROUNDS_MAX = 8 };

/* Two answers that were late are what a call waits for at most. Its key is then this gateway's own
 * word. */
static bool wait_timed_out(const struct call *call)
{
    return call->attempt.remote_reservation.away || call->debit.mode >= REMOTE_LOCAL;
}

/* What is left for its key, of the time that limits and budget take if both are late. */
static tg_ms patience_of(const struct call *call)
{
    tg_ms timeout = call->generation->config.store.timeout;

    return timeout + remote_reservation_timeout(timeout) - call->store_ms;
}

/* The ring of this gateway chooses; whether the key has room for all gateways together, Redis
 * knows. If it has none, the ring is told, and chooses among the others. */
static void find_key(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    struct tg_key_answer answer;
    enum tg_err err = TG_OK;

    acquire(call, &answer);
    if (answer.lease == 0) {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
        no_key(call, &answer);
        return;
    }
    hold_key(call);
    if (call->gateway->remote && !wait_timed_out(call)) {
        call->state = CALL_AT_STORE;
        call->asked_at = call_now(call);
        if (!remote_key_claim_take(call->worker->port, &attempt->remote_key_claim,
                                   &call->generation->remote, call->gateway->ring, answer.lease,
                                   &attempt->owner->asked_at, patience_of(call), key_answered,
                                   &err))
            return;
        key_answered(&attempt->remote_key_claim, err, NULL);
        return;
    }
    begin_attempt(call);
}

static void refuse_key(struct call *call, struct refusal *why)
{
    call_settle(call, TG_KEY_CANCELLED, CHARGE_NOTHING);
    call_refuse_admitted(call, why);
}

static void key_answered(struct remote_key_claim *key, enum tg_err err,
                         const struct tg_key_hold *hold)
{
    char *at = (char *)key - offsetof(struct call, attempt.remote_key_claim);
    struct call *call = (struct call *)(void *)at;
    struct attempt *attempt = &call->attempt;
    struct refusal why;

    call->store_ms += call_now(call) - call->asked_at;
    if (err) {
        refusal_init(&why, REPLY_STORE_UNAVAILABLE,
                     "how much gateways use of the provider's keys cannot be known at the moment");
        refuse_key(call, &why);
    } else if (hold != NULL) {
        tg_keyring_hold_off(call->gateway->ring, attempt->key, call_now(call), hold);
        attempt->key = 0;
        if (++attempt->key_rounds < KEY_ROUNDS_MAX) {
            find_key(call);
            return;
        }
        refusal_init(&why, REPLY_NO_KEY, NULL);
        why.retry_after_ms = wait_of_keys(call);
        refuse_key(call, &why);
    } else {
        begin_attempt(call);
    }
}

void call_attempt(struct call *call)
{
    memset(&call->attempt, 0, offsetof(struct attempt, edit));
    call->attempt.unsent = true;
    if (call->attempts > 0)
        call->store_ms = 0;
    call_attempt_reserve(call);
}

const char *call_failure_name(enum call_failure failure)
{
    switch (failure) {
    case FAILURE_LIMITED:
        return "limited";
    case FAILURE_CREDENTIALS:
        return "credentials";
    case FAILURE_SERVER:
        return "server";
    case FAILURE_NETWORK:
        return "network";
    case FAILURE_TIMEOUT:
        return "timeout";
    default:
        return NULL;
    }
}

static void abandon_key(struct call *call)
{
    if (call->n_tried < CALL_TRIED_MAX)
        call->tried[call->n_tried++] = call->last_key;
    call->same_key = false;
}

static tg_ms pause_ms(struct call *call)
{
    unsigned doublings = call->route_attempts > 6 ? 6 : call->route_attempts - 1;

    return (tg_ms)(random_between(&call->worker->random, PAUSE_MIN, PAUSE_MAX) *
                   (double)(1U << doublings));
}

/* Whether nobody waits for a further attempt that begins after a pause: it would be charged. */
static bool is_over(const struct call *call, tg_ms pause)
{
    return call->in == NULL || (call->deadline > 0 && call_now(call) + pause >= call->deadline);
}

/* Whether a retry on this route makes sense and is affordable. */
static bool may_retry(struct call *call, tg_ms pause)
{
    int64_t retries = call->route ? call->route->config->retries : 0;

    return !is_over(call, pause) && (int64_t)call->route_attempts <= retries &&
           retry_budget_take(&call->gateway->retries, &call->generation->config, call_now(call));
}

void call_attempt_again(struct call *call)
{
    call->replaced = true;
    call->route_attempts--;
    call->same_key = true;
    call_attempt(call);
}

void call_attempt_failed(struct call *call, enum call_failure failure)
{
    bool same =
        (failure == FAILURE_SERVER || failure == FAILURE_NETWORK) && call->route_attempts == 1;
    tg_ms pause = same ? pause_ms(call) : 1;

    call->failure = failure;
    call->failed_status = call->attempt.status;
    call->same_key = same;
    if (!same)
        abandon_key(call);
    call->state = CALL_PAUSING;
    if (may_retry(call, pause)) {
        atomic_fetch_add_explicit(&call->gateway->counts.retries, 1, memory_order_relaxed);
        net_timer_set(call->worker->loop, &call->timer, pause);
    } else if (is_over(call, 0) ||
               !retry_budget_take(&call->gateway->retries, &call->generation->config,
                                  call_now(call)) ||
               !call_admit_fallback(call, call_failure_name(failure))) {
        answer_failure(call, failure);
    }
}
