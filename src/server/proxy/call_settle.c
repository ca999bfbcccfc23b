/* call_settle.c - every way out of a call goes through here, whatever has happened.
 *
 * Order: the request to the provider ends, then what was used is known; then the key, then the
 * money, which is in the ledger before the client can see the end of its reply; then the places at
 * the route and the gate, so that whoever is woken by them finds key and money free. Each of these
 * is done if it is held and is then no longer held, so that it can be called in any state and
 * again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "lib/core/num.h"
#include "server/obs/log.h"
#include "server/obs/metrics.h"
#include "server/proxy/call.h"
#include "server/runtime/expected_cost.h"

/* Replies in a row without a usage after which a model is warned of. */
enum { SILENT_REPLIES = 20 };

/* ---- what was used ---- */

static int64_t all_tokens(const struct tg_usage *usage)
{
    return num_add(tg_usage_input(usage), tg_usage_output(usage));
}

/* ---- the attempt ---- */

static struct ledger_text ledger_text_of(const char *text)
{
    return (struct ledger_text){text, strlen(text)};
}

/* Who is asked, and for whom. */
static void name_money(const struct call *call, struct spending_use *use)
{
    const struct attempt *attempt = &call->attempt;

    use->user = (struct ledger_text){call->user.at, call->user.n};
    if (call->route)
        use->model = ledger_text_of(call->route->config->name);
    use->provider = ledger_text_of(call->route ? call->route->provider->config->name
                                               : call_provider(call)->config->name);
    if (attempt->owner)
        use->key = ledger_text_of(attempt->owner->config->name);
}

void call_note_sending(struct call *call)
{
    struct spending_use use = {.spent = 0};

    if (call->endpoint == ENDPOINT_COUNT_TOKENS)
        return; /* providers do not charge for counting */
    name_money(call, &use);
    spending_send(call->gateway->spending, &call->attempt.money, &use, call_now(call));
}

static void settle_money(struct call *call, const struct call_bill *bill)
{
    struct attempt *attempt = &call->attempt;
    struct spending_use use = {.spent = bill->spent,
                               .uncertain = bill->uncertain,
                               .usage = bill->usage,
                               .flags = bill->flags};

    assert(attempt->money.reservation != 0); /* money comes before the key */
    assert(bill->uncertain >= 0 && (bill->spent >= 0 || bill->uncertain == 0));
    tg_usage_fold(&use.usage);
    name_money(call, &use);
    uint64_t number = call_record_enter(call);
    bool settled = spending_settle(call->gateway->spending, &attempt->money, &use, call_now(call));
    call_record_settle(call, number, &use);
    assert(settled); /* once */
    (void)settled;
    call->env->money_settle(&attempt->remote_reservation, spending_use_total(&use));
    attempt->money.reservation = 0;
    call->spent = num_max(call->spent, 0) + (bill->spent >= 0 ? bill->spent : attempt->reserved);
    call->uncertain += bill->uncertain;
}

/* What the key is told. Requests that fail wherever they are sent are no fault of a key: see
 * key_failures.h. What was never sent cannot be one of them. */
static enum tg_key_outcome outcome_of_key(const struct call *call, enum tg_key_outcome outcome)
{
    const struct attempt *attempt = &call->attempt;
    struct key_failures *failures = call->gateway->failures;
    const char *name = call_tenant(call)->name;

    if (outcome != TG_KEY_OK && (outcome != TG_KEY_FAILED || attempt->unsent))
        return outcome;
    uint64_t key = key_failures_id(call_pool(call), attempt->owner->config->name);
    uint64_t tenant = XXH3_64bits(name, strlen(name));
    if (outcome == TG_KEY_OK)
        key_failures_served(failures, key, tenant, call_now(call));
    else if (!key_failures_failed(failures, key, tenant, call_now(call)))
        return TG_KEY_CANCELLED;
    return outcome;
}

static void give_back_key(struct call *call, enum tg_key_outcome outcome, enum call_charge charge)
{
    struct attempt *attempt = &call->attempt;
    struct tg_key_report report;

    if (attempt->key == 0)
        return;
    tg_key_report_init(&report);
    report.outcome = outcome_of_key(call, outcome);
    report.sent = !attempt->unsent;
    report.cool_until = attempt->cool_until;
    /* A provider that turned a call away has counted it all the same: the estimate stands. */
    report.tokens = charge == CHARGE_USED && call->route ? all_tokens(&call->usage) : -1;
    if (call->route && route_counts_asked(call->route) && report.tokens < attempt->tokens)
        report.tokens = -1;
    if (attempt->first_at > 0)
        report.latency_ms = (double)(attempt->first_at - attempt->began_at);
    uint64_t number = call_record_enter(call);
    call->env->key_give(&attempt->remote_key_claim, call->gateway->ring, attempt->key,
                        call_now(call), &report);
    call_record_key_end(call, number, &report);
    attempt->key = 0;
}

/* What was never sent says nothing about the provider. */
static void count_attempt(struct call *call, enum tg_key_outcome outcome)
{
    const struct attempt *attempt = &call->attempt;
    struct metrics_attempt ended = {.outcome = outcome, .ttfb_ms = -1, .cause = attempt->cause};

    if (attempt->unsent && outcome == TG_KEY_CANCELLED)
        return;
    assert(attempt->key != 0);
    if (call->route) {
        ended.provider = slice_of(call->route->provider->config->name);
        ended.model = slice_of(call->route->config->name);
    } else {
        ended.provider = slice_of(call_provider(call)->config->name);
    }
    if (attempt->first_at > 0)
        ended.ttfb_ms = attempt->first_at - attempt->began_at;
    metrics_attempt(metrics_shard(call->gateway->metrics, call->worker->number), &ended);
}

/* Somebody has to be told once: what such calls may have cost fills budgets. */
static void warn_of_silence(const struct call *call)
{
    const struct log_field fields[] = {LOG_TEXT("model", call->route->config->name),
                                       LOG_TEXT("provider", call->route->provider->config->name),
                                       LOG_NUMBER("replies", SILENT_REPLIES)};

    if (call->gateway->log != NULL)
        log_event(call->gateway->log, LOG_WARN,
                  "replies of this model do not say what was used: they are charged by their text, "
                  "and what they may have cost besides is held as uncertain",
                  fields, sizeof fields / sizeof fields[0]);
}

/* The count stops above the number that is told, so that it is told once. */
static void count_missing_usage(struct call *call, enum tg_key_outcome outcome)
{
    struct gateway_counts *counts = &call->gateway->counts;

    if (outcome != TG_KEY_OK || call->route == NULL || call->endpoint == ENDPOINT_COUNT_TOKENS)
        return;
    atomic_int *silent = &call->route->silent;
    int in_a_row = atomic_load_explicit(silent, memory_order_relaxed);
    if (call->usage_reported) {
        if (in_a_row > 0)
            atomic_store_explicit(silent, 0, memory_order_relaxed);
        return;
    }
    atomic_fetch_add_explicit(&counts->usage_missing, 1, memory_order_relaxed);
    if (in_a_row < SILENT_REPLIES &&
        atomic_fetch_add_explicit(silent, 1, memory_order_relaxed) + 1 == SILENT_REPLIES)
        warn_of_silence(call);
}

/* How fast the model writes, by a call that ended and said how much it wrote; not by one whose
 * client was too slow for it. */
static void learn_speed(const struct call *call, enum tg_key_outcome outcome)
{
    const char *tenant = call_tenant(call)->name;

    if (outcome != TG_KEY_OK || call->route == NULL || !call->usage_reported ||
        call->attempt.slowed || !estimate_has_output(call->endpoint))
        return;
    output_speed_add(call->route->speed, (uint32_t)XXH3_64bits(tenant, strlen(tenant)),
                     call->usage.output / ask_outputs(&call->ask),
                     call_now(call) - call->attempt.began_at);
}

/* What part of its bound it cost, where less than that is reserved. */
static void learn_cost(const struct call *call, const struct call_bill *bill)
{
    const struct attempt *attempt = &call->attempt;

    if (attempt->pair != 0 && attempt->most > 0 && bill->spent >= 0)
        expected_cost_add(call->gateway->expected, attempt->pair,
                          num_add(bill->spent, bill->uncertain), attempt->most);
}

/* Providers do not bill what they refuse, nor errors that they own up to. Their time-outs say that
 * they have stopped waiting for the call, or for a machine of theirs that may still run it. */
static enum call_charge charge_of_reply(const struct call *call, enum call_charge charge)
{
    const struct attempt *attempt = &call->attempt;

    if (attempt->unsent || call->endpoint == ENDPOINT_COUNT_TOKENS)
        return CHARGE_NOTHING; /* counting is free */
    if (attempt->gave_up)
        return CHARGE_UNCERTAIN;
    return attempt->status >= 300 ? CHARGE_NOTHING : charge;
}

void call_settle(struct call *call, enum tg_key_outcome outcome, enum call_charge charge)
{
    struct attempt *attempt = &call->attempt;
    struct call_bill bill = {.spent = 0};

    assert(call->state != CALL_OVER || (attempt->key == 0 && attempt->money.reservation == 0));
    if (attempt->out) {
        assert(attempt->out->owner == call);
        attempt->unsent = !http_outbound_sent(attempt->out);
        call->env->out_cancel(attempt->out, HTTP2_CANCEL);
        attempt->out = NULL;
        call_request_forget(call);
    }
    attempt->paused = false;
    call_token_leave(call);
    if (attempt->key == 0 && attempt->money.reservation == 0)
        return;
    if (attempt->began_at > 0)
        call->notes.upstream_ms = call_now(call) - attempt->began_at;
    charge = charge_of_reply(call, charge);
    if (charge != CHARGE_NOTHING) {
        call_bill(call, charge, &bill);
        call->usage_reported = bill.reported;
        call->notes.reasoning = bill.reasoning;
    }
    call->usage = bill.usage;
    if (bill.flags & LEDGER_ABSURD) {
        call->usage_absurd = true;
        atomic_fetch_add_explicit(&call->gateway->counts.usage_absurd, 1, memory_order_relaxed);
    }
    if (call->in == NULL && outcome == TG_KEY_CANCELLED)
        bill.flags |= LEDGER_CANCELLED;
    count_attempt(call, outcome);
    give_back_key(call, outcome, charge);
    settle_money(call, &bill);
    count_missing_usage(call, outcome);
    learn_speed(call, outcome);
    if (charge == CHARGE_USED)
        learn_cost(call, &bill);
    if (outcome == TG_KEY_OK && bill.counted)
        call_remember_counts(call, &bill.usage);
    call->used = num_add(call->used, all_tokens(&bill.usage));
    assert(attempt->out == NULL && attempt->key == 0 && attempt->money.reservation == 0);
}

/* ---- the rest ---- */

/* Whether the last attempt says that the route has too much to do. Other errors of a server do
 * not, nor does a client that has left. */
static bool was_overloaded(const struct call *call)
{
    int status = call->failed_status;

    return call->in != NULL && call->route_attempts > 0 &&
           (call->failure == FAILURE_TIMEOUT ||
            (call->failure == FAILURE_SERVER && (status == 503 || status == 504 || status == 529)));
}

/* What both laws learn of a call: how it ended, and the time to its first byte, which long answers
 * do not change. */
static void release_of(struct call *call, enum tg_outcome outcome, struct tg_release *release)
{
    const struct attempt *attempt = &call->attempt;

    tg_release_init(release);
    release->outcome = outcome;
    if (outcome == TG_OUTCOME_CANCELLED && was_overloaded(call))
        release->outcome = TG_OUTCOME_DROPPED;
    if (outcome == TG_OUTCOME_OK && call->route != NULL && attempt->first_at == 0)
        release->outcome = TG_OUTCOME_CANCELLED;
    /* The sample of an answer that comes whole; a stream gave its own when it began. */
    if (release->outcome == TG_OUTCOME_OK && call->route != NULL)
        release->sample_ms = (double)(attempt->first_at - attempt->began_at);
}

static void learn_hold(struct call *call)
{
    double held = (double)(call_now(call) - call->attempt.began_at) / 1000;
    double mean = atomic_load_explicit(&call->route->hold_s, memory_order_relaxed);

    atomic_store_explicit(&call->route->hold_s, mean > 0 ? mean + (held - mean) / 16 : held,
                          memory_order_relaxed);
}

/* Leaves the route with what release_of() said, and the tokens that it used there. An attempt that
 * used none has held its slot all the same: what it was expected to take stands. */
static void leave_slot(struct call *call, struct tg_release *release)
{
    int64_t used = call->used - call->used_before;

    assert(call->attempt.out == NULL || call->slot.state == ADMISSION_IDLE);
    if (call->slot.state == ADMISSION_IDLE)
        return;
    assert(used >= 0);
    if (release->outcome == TG_OUTCOME_OK)
        learn_hold(call);
    release->work = used > 0 || call->route_attempts == 0 ? used : -1;
    admission_run_end(&call->slot, call_now(call), release);
    release->work = -1;
}

void call_leave_route(struct call *call)
{
    struct tg_release release;

    release_of(call, TG_OUTCOME_CANCELLED, &release);
    leave_slot(call, &release);
}

void call_renew(struct call *call)
{
    tg_ms now = call_now(call);

    admission_run_renew(&call->gate, now);
    admission_run_renew(&call->slot, now);
}

void call_forget_body(struct call *call)
{
    if (call->attempt.sending != NULL)
        return;
    body_buffer_free(&call->body, call->gateway);
    call_translation_forget_body(call);
}

void call_release(struct call *call, enum tg_outcome outcome)
{
    struct tg_release release;

    call_settle(call, TG_KEY_CANCELLED, CHARGE_USED);
    release_of(call, outcome, &release);
    leave_slot(call, &release);
    if (release.outcome != TG_OUTCOME_REFUSED && call->route)
        release.actual = call->used;
    admission_run_end(&call->gate, call_now(call), &release);
    call_forget_body(call);
    call_translation_free(call);
    call_objects_free(call);
    free(call->held);
    call->held = NULL;
    call->held_n = call->held_room = 0;
    assert(call->attempt.key == 0 && call->attempt.money.reservation == 0);
    assert(call->slot.lease == 0 && call->gate.lease == 0 && call->body.bytes == NULL);
    call->env->timer_stop(call->worker->loop, &call->timer);
}

static void answer_refusal(struct call *call, const struct refusal *why)
{
    struct slice id_name =
        call->api == WIRE_ANTHROPIC ? SLICE("request-id") : SLICE("x-request-id");
    struct reply_limits limits;
    struct reply reply;
    struct http_fields fields;
    char id[REPLY_ID_MAX];

    assert(call->in != NULL && call->status == 0 && call->state != CALL_OVER);
    call->reason = why->reason;
    atomic_fetch_add_explicit(&call->gateway->counts.refused[why->reason], 1, memory_order_relaxed);
    reply_write(why, call->api, call_wall(call), random_bits(&call->worker->random), &reply);
    call->status = reply.status;
    call_report_refused(call, why, &reply);
    http_fields_init(&fields);
    for (size_t i = 0; i < reply.n_fields; i++)
        http_fields_add(&fields, reply.fields[i].name, reply.fields[i].value);
    if (why->binding == TG_AXIS_RATE || why->binding == TG_AXIS_COST) {
        reply_limits_write(&call->axes, call->api, call_now(call), call_wall(call), &limits);
        for (size_t i = 0; i < limits.n_fields; i++)
            http_fields_add(&fields, limits.fields[i].name, limits.fields[i].value);
    }
    size_t n = reply_id(call->id, id);
    http_fields_add(&fields, id_name, (struct slice){id, n});
    struct http_head head = {.status = reply.status, .fields = fields.list, .n_fields = fields.n};
    call->bytes_out = (int64_t)reply.body.n;
    http_inbound_send(call->in, &head, reply.body);
    call_move(call, CALL_OVER);
}

void call_refuse(struct call *call, const struct refusal *why)
{
    call_release(call, TG_OUTCOME_CANCELLED);
    answer_refusal(call, why);
}

void call_refuse_admitted(struct call *call, const struct refusal *why)
{
    assert(call->attempt.out == NULL);
    /* Once a provider has been asked, the call has been made, whatever became of it. */
    call_release(call, call->attempts == 0 ? TG_OUTCOME_REFUSED : TG_OUTCOME_CANCELLED);
    answer_refusal(call, why);
}
