/* call_step.c - the machine of a call: which event moves it where. See call.h for the drawing.
 *
 * Two functions are the whole course of a call. call_step() says what each event means, and
 * call_proceed() is the way to the provider, from top to bottom: slot, gate, money, key, token,
 * request. The stages themselves are in the other files of the room; they return what became of
 * them, and never call one another.
 */
#include <assert.h>
#include <stdio.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/proxy/call.h"
#include "server/runtime/object_owners.h"

/* ---- the way to the provider ---- */

/* From stage to stage, in the order of the states, as long as nothing has to be waited for.
 * `verdict` is what became of the stage `at`. */
static void call_proceed(struct call *call, enum call_state at, enum call_verdict verdict)
{
    while (verdict == CALL_PASSES || verdict == CALL_FALLS_BACK || verdict == CALL_TRIES_AGAIN) {
        if (verdict == CALL_FALLS_BACK)
            at = CALL_READING;
        else if (verdict == CALL_TRIES_AGAIN)
            at = CALL_PAUSING;
        switch (at) {
        case CALL_READING:
        case CALL_PARSING:
            at = CALL_AT_OBJECTS;
            verdict = call_objects_ask(call);
            break;
        case CALL_AT_OBJECTS:
            at = CALL_TRANSLATING;
            verdict = call->route ? call_translate(call) : CALL_PASSES;
            break;
        case CALL_TRANSLATING:
            at = CALL_AT_SLOT;
            verdict = call->route ? call_take_slot(call) : CALL_PASSES;
            break;
        case CALL_AT_SLOT:
            at = CALL_AT_GATE;
            verdict = call_is_admitted(call) ? CALL_PASSES : call_enter_gate(call);
            break;
        case CALL_AT_GATE:
        case CALL_AT_LIMITS:
        case CALL_PAUSING:
            at = CALL_AT_MONEY;
            verdict =
                call_is_estimated(call) ? call_answer_estimate(call) : call_reserve_money(call);
            break;
        case CALL_AT_MONEY:
            at = CALL_AT_KEY;
            verdict = call_take_key(call);
            break;
        case CALL_AT_KEY:
            at = CALL_AT_TOKEN;
            verdict = call_take_token(call);
            break;
        case CALL_AT_TOKEN:
            at = CALL_BOUNDING;
            verdict = call_bound(call);
            break;
        case CALL_BOUNDING:
            at = CALL_ASKING;
            verdict = call_send(call);
            break;
        default:
            assert(false && "a stage on the way to the provider");
            return;
        }
    }
    if (verdict == CALL_WAITS)
        call_move(call, call->gate.state == ADMISSION_ASKING ? CALL_AT_LIMITS : at);
    assert(verdict != CALL_ANSWERED || call->state == CALL_OVER);
}

/* An attempt has failed, and nothing of its reply has gone to the client. */
static void call_fail(struct call *call, enum call_failure failure)
{
    bool ours = failure == FAILURE_MEMORY; /* it has come, and there is no room for it here */

    call_settle(call, ours ? TG_KEY_CANCELLED : call_answer_outcome(failure),
                ours ? CHARGE_USED : CHARGE_NOTHING);
    if (call->in != NULL)
        call_proceed(call, CALL_PAUSING, call_after_failure(call, failure));
}

/* ---- events ---- */

/* Whether the exchange has ended at a time that the caller chose, before ours. */
static bool is_callers_deadline(const struct call *call, const struct http_outbound *out,
                                enum http_why why)
{
    tg_ms at = out->head_seen ? call->ends_at : call->deadline;

    return why == HTTP_LATE_TOTAL && (call->total_at == 0 || at < call->total_at);
}

/* For the report and the metrics. What a certificate is refused for is said, too; other texts may
 * name addresses. */
static void note_cause(struct call *call, enum http_cause cause, const char *text)
{
    const char *name = http_cause_name(cause);

    call->attempt.cause = cause;
    if (cause == HTTP_CAUSE_CERTIFICATE && text != NULL)
        name = text;
    snprintf(call->cause, sizeof call->cause, "%s", name != NULL ? name : "");
}

/* There is no reply, or it broke off. What the caller brought about, by its deadline or by reading
 * slowly, moves no breaker and no law: they are everybody's. */
static void call_reply_failed(struct call *call, const struct call_input *with)
{
    const enum http_why why = with->why;
    const struct http_outbound *out = call->attempt.out;
    bool late = why == HTTP_LATE_CONNECT || why == HTTP_LATE_FIRST_BYTE || why == HTTP_LATE_IDLE ||
                why == HTTP_LATE_TOTAL;
    bool whole = late && call->route != NULL && !call->ask.stream && call->attempt.status == 0;
    bool stale = why == HTTP_RESET && out->reused && !out->head_seen;
    bool theirs = is_callers_deadline(call, out, why) || call->attempt.slowed;
    bool ours = why == HTTP_NO_MEMORY; /* nor does our own lack of memory */

    call->attempt.unsent = !out->sent;
    call->attempt.out = NULL;
    call_request_forget(call);
    if (!theirs && !(stale && !call->replaced))
        note_cause(call, out->cause, with->text);
    theirs = theirs || ours;
    if (call->state != CALL_ASKING) {
        call_settle(call, theirs ? TG_KEY_CANCELLED : TG_KEY_FAILED, CHARGE_USED);
        call_answer_broken(call, theirs ? TG_OUTCOME_CANCELLED : TG_OUTCOME_DROPPED);
    } else if (stale && !call->replaced) {
        /* The connection was closed while the request was on its way, most likely for having been
         * idle. Once in a call that is no failure. */
        call_settle(call, TG_KEY_CANCELLED, CHARGE_UNCERTAIN);
        call->replaced = true;
        call->same_key = true;
        assert(call->route_attempts > 0);
        call->route_attempts--;
        call_proceed(call, CALL_PAUSING, CALL_PASSES);
    } else {
        /* A request that was sent, and had no answer in time or only the head of one, may well have
         * run. One whose connection the provider closed has more likely failed. How long a whole
         * reply takes is for its caller to choose, so its lateness says nothing about the key. */
        whole = whole && !call->attempt.unsent;
        call_settle(call, theirs || whole ? TG_KEY_CANCELLED : TG_KEY_FAILED,
                    late || call->attempt.status != 0 ? CHARGE_USED : CHARGE_UNCERTAIN);
        call_proceed(call, CALL_PAUSING,
                     call_after_failure(call, ours     ? FAILURE_MEMORY
                                              : theirs ? FAILURE_DEADLINE
                                              : whole  ? FAILURE_LATE_REPLY
                                              : late   ? FAILURE_TIMEOUT
                                                       : FAILURE_NETWORK));
    }
}

/* Whether a reply is read on for its usage after its client has left: where that is configured, and
 * by default where the provider writes on, and bills it, anyway. What was never sent is not. */
static bool is_drained(const struct call *call)
{
    return call->attempt.out != NULL && call->route != NULL && route_drains(call->route) &&
           http_outbound_sent(call->attempt.out);
}

/* The client's side has ended. Draining lasts as long as the call might have. */
static void call_gone(struct call *call, enum http_why why)
{
    call->in = NULL;
    call->ended = why;
    call->left_in = call->state;
    if (call->state != CALL_OVER && why != HTTP_DONE)
        atomic_fetch_add_explicit(&call->gateway->counts.hangups, 1, memory_order_relaxed);
    if (is_drained(call)) {
        call_move(call, CALL_DRAINING);
        call->attempt.paused = false;
        call->env->out_resume(call->attempt.out);
        assert(call->ends_at > 0); /* a model has a time-out */
        call->env->timer_set(call->worker->loop, &call->timer, call->ends_at - call_now(call));
        call_forget_body(call);
    } else {
        call_settle(call, TG_KEY_CANCELLED, CHARGE_USED);
    }
    /* A thread that has begun to read the body needs it to the end. */
    if (call->parse.out && call->env->job_cancel(call->gateway->pool, &call->parse.job))
        call->parse.out = false;
}

void call_step(struct call *call, enum call_event event, const struct call_input *with)
{
    const enum call_state from = call->state;
    enum call_failure failure = FAILURE_NONE;

    assert(call_may_come(from, event));
    switch (event) {
    case CALL_ON_HEAD:
        call_in_head(call);
        break;
    case CALL_ON_BODY:
        if (from == CALL_READING) /* else it is the rest of what was refused */
            call_in_body(call, with->bytes);
        break;
    case CALL_ON_BODY_END:
        if (from == CALL_READING)
            call_proceed(call, CALL_PARSING, call_in_read(call));
        break;
    case CALL_ON_PARSED:
        call->parse.out = false;
        if (call->in != NULL)
            call_proceed(call, from,
                         from == CALL_PARSING       ? call_in_parsed(call)
                         : from == CALL_TRANSLATING ? call_translated(call)
                                                    : call_bounded(call));
        break;
    case CALL_ON_WOKEN:
    case CALL_ON_TIMER:
        if (from == CALL_AT_SLOT)
            call_proceed(call, CALL_AT_SLOT, call_slot_woken(call));
        else if (from == CALL_AT_GATE)
            call_proceed(call, CALL_AT_GATE, call_gate_woken(call));
        else if (from == CALL_AT_TOKEN)
            call_proceed(call, CALL_AT_TOKEN, call_token_woken(call));
        else if (from == CALL_PAUSING)
            call_proceed(call, CALL_PAUSING, CALL_PASSES);
        else
            call_settle(call, TG_KEY_CANCELLED, CHARGE_USED); /* drained for long enough */
        break;
    case CALL_ON_LIMITS:
        call_proceed(call, CALL_AT_LIMITS, call_limits_answered(call, with));
        break;
    case CALL_ON_MONEY:
        call_proceed(call, CALL_AT_MONEY, call_money_answered(call, with));
        break;
    case CALL_ON_KEY:
        call_proceed(call, CALL_AT_KEY, call_key_answered(call, with));
        break;
    case CALL_ON_OBJECTS:
        call_proceed(call, CALL_AT_OBJECTS, call_objects_answered(call, with->known));
        break;
    case CALL_ON_REQUEST_ROOM:
        call_request_write(call);
        break;
    case CALL_ON_REPLY_HEAD:
        call_answer_head(call, with->head);
        break;
    case CALL_ON_REPLY_DATA:
        failure = call_answer_data(call, with->bytes);
        break;
    case CALL_ON_REPLY_END:
        failure = call_answer_end(call);
        break;
    case CALL_ON_REPLY_FAILED:
        call_reply_failed(call, with);
        break;
    case CALL_ON_ROOM:
        call_answer_room(call);
        break;
    case CALL_ON_GONE:
        call_gone(call, with->why);
        break;
    case CALL_ON_WORKER_END:
        if (call->parse.out)
            call->env->job_end(call->gateway->pool, &call->parse.job);
        call->parse.out = false;
        call_settle(call, TG_KEY_CANCELLED, CHARGE_USED);
        break;
    case CALL_EVENT_COUNT:
        break;
    }
    if (failure != FAILURE_NONE)
        call_fail(call, failure);
    if (call->in == NULL && call->attempt.out == NULL && !call->parse.out) {
        assert(call_may_follow(from, event, CALL_FREED));
        call_free(call);
    } else {
        assert(call_may_follow(from, event, call->state));
        call_check(call);
    }
}

/* ---- where events come from ---- */

void call_timer_fires(void *call)
{
    call_step(call, CALL_ON_TIMER, NULL);
}

void call_woken(void *call)
{
    call_step(call, CALL_ON_WOKEN, NULL);
}

void call_parsed(void *call)
{
    call_step(call, CALL_ON_PARSED, NULL);
}

void call_limits_decided(struct remote_claim *debit, enum tg_err err, const struct tg_axes *axes)
{
    call_step(container_of(debit, struct call, debit), CALL_ON_LIMITS,
              &(struct call_input){.err = err, .axes = axes});
}

void call_money_decided(struct remote_reservation *money, enum tg_err err,
                        const struct tg_money_answer *answer)
{
    call_step(container_of(money, struct call, attempt.remote_reservation), CALL_ON_MONEY,
              &(struct call_input){.err = err, .money = answer});
}

void call_key_decided(struct remote_key_claim *key, enum tg_err err, const struct tg_key_hold *hold)
{
    call_step(container_of(key, struct call, attempt.remote_key_claim), CALL_ON_KEY,
              &(struct call_input){.err = err, .hold = hold});
}

static void call_object_found(void *context, const struct remote_object *object)
{
    struct call *call = context;

    object_owners_learn(call->gateway->owners, object->hash, (enum object_kind)object->kind,
                        object->tenant, object->provider, object->key, call->objects.at);
}

static void call_objects_known(void *call, bool known)
{
    call_step(call, CALL_ON_OBJECTS, &(struct call_input){.known = known});
}

const struct remote_objects_ops call_objects_ops = {.found = call_object_found,
                                                    .over = call_objects_known};

static void call_request_room_comes(struct http_outbound *out)
{
    call_step(out->owner, CALL_ON_REQUEST_ROOM, NULL);
}

static void call_reply_head_comes(struct http_outbound *out, const struct http_head *head)
{
    call_step(out->owner, CALL_ON_REPLY_HEAD, &(struct call_input){.head = head});
}

static void call_reply_data_comes(struct http_outbound *out, struct slice bytes)
{
    call_step(out->owner, CALL_ON_REPLY_DATA, &(struct call_input){.bytes = bytes});
}

static void call_reply_ends(struct http_outbound *out)
{
    call_step(out->owner, CALL_ON_REPLY_END, NULL);
}

static void call_reply_fails(struct http_outbound *out, enum http_why why, const char *text)
{
    call_step(out->owner, CALL_ON_REPLY_FAILED, &(struct call_input){.why = why, .text = text});
}

const struct http_client_ops call_client_ops = {.room = call_request_room_comes,
                                                .head = call_reply_head_comes,
                                                .data = call_reply_data_comes,
                                                .end = call_reply_ends,
                                                .failed = call_reply_fails};

const struct call_env call_env = {
    .reply = &call_client_ops,
    .limits_decided = call_limits_decided,
    .money_decided = call_money_decided,
    .key_decided = call_key_decided,
    .objects = &call_objects_ops,
    .parsed = call_parsed,
    .job_put = net_pool_put,
    .job_cancel = net_pool_cancel,
    .job_end = net_pool_end,
    .now = net_loop_now,
    .timer_set = net_timer_set,
    .timer_stop = net_timer_stop,
    .send = http_send,
    .out_write = http_outbound_write,
    .out_finish = http_outbound_finish_with,
    .out_pause = http_outbound_pause,
    .out_resume = http_outbound_resume,
    .out_cancel = http_outbound_cancel_with,
    .limits_refused = remote_is_refused,
    .limits_take = remote_take,
    .limits_settle = remote_claim_settle,
    .limits_refund = remote_claim_refund,
    .money_take = remote_reserve,
    .money_settle = remote_reservation_settle,
    .key_take = remote_key_claim_take,
    .key_give = remote_key_claim_give,
    .objects_find = remote_port_find_objects,
    .objects_cancel = remote_objects_cancel,
    .objects_put = remote_port_put_object,
    .objects_drop = remote_port_drop_object,
};
