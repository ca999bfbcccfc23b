/* call_answer.c - a provider's reply, on its way to the client.
 *
 * The bytes of a reply pass through as they come. Three things are kept back: the head of a stream
 * until its first event, so that an error in place of an answer can still be tried elsewhere; a
 * reply that is an error which another attempt may cure; and the chunk with the usage, where we
 * and not the client asked for it. What passes is read along the way for what was used.
 *
 * We ask for replies that are not encoded. One that is all the same passes through, and is charged
 * as what it may have been at most.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/dialect/upstream_wait.h"
#include "server/proxy/call_translation.h"

enum { HELD_MAX = 64 * 1024 }; /* bytes of a reply that are kept back; the rest is dropped */

/* ---- what is kept back ---- */

static void call_answer_hold(struct call *call, struct slice bytes)
{
    assert(call->held_n <= HELD_MAX && call->state != CALL_ANSWERING);
    if (call->held_n + bytes.n > HELD_MAX)
        bytes.n = HELD_MAX - call->held_n;
    if (call->held_n + bytes.n > call->held_room) {
        size_t room = 4096;
        while (room < call->held_n + bytes.n)
            room *= 2;
        char *held = realloc(call->held, room);
        if (held == NULL)
            return;
        call->held = held;
        call->held_room = room;
    }
    memcpy(call->held + call->held_n, bytes.at, bytes.n);
    call->held_n += bytes.n;
}

/* ---- to the client ---- */

void call_answer_pass(struct call *call, struct slice bytes)
{
    if (call->in == NULL || bytes.n == 0)
        return;
    assert(call->state == CALL_ANSWERING);
    call->bytes_out += (int64_t)bytes.n;
    size_t queued = http_inbound_write(call->in, bytes);
    if (queued > HTTP_OUTPUT_HIGH && call->attempt.out && !call->attempt.paused) {
        call->attempt.paused = call->attempt.slowed = true;
        call->env->out_pause(call->attempt.out);
    }
}

/* What is left of a list. */
static void pass_listed(void *call, struct slice bytes)
{
    call_answer_pass(call, bytes);
}

void call_answer_room(struct call *call)
{
    if (call->attempt.paused) {
        call->attempt.paused = false;
        call->env->out_resume(call->attempt.out);
    }
}

/* What says something about our keys and accounts is not for tenants. */
static bool is_shown(const struct http_hops *hops, struct slice name)
{
#define NAME(text)                                                                                 \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
    static const struct slice HIDDEN[] = {
        NAME("set-cookie"),     NAME("openai-organization"),       NAME("openai-project"),
        NAME("retry-after-ms"), NAME("anthropic-organization-id"), NAME("retry-after"),
        NAME("x-should-retry"),
    };
    static const struct slice HIDDEN_PREFIX[] = {NAME("x-ratelimit-"), NAME("anthropic-ratelimit-"),
                                                 NAME("x-tollgate-")};
#undef NAME

    if (http_hops_has(hops, name))
        return false;
    for (size_t i = 0; i < sizeof HIDDEN / sizeof HIDDEN[0]; i++)
        if (slice_equal(name, HIDDEN[i]))
            return false;
    for (size_t i = 0; i < sizeof HIDDEN_PREFIX / sizeof HIDDEN_PREFIX[0]; i++)
        if (slice_begins(name, HIDDEN_PREFIX[i]))
            return false;
    return true;
}

/* The head of the provider's reply, with ours added. The body of the request is not needed any
 * more: nothing is tried again from here on. */
void call_answer_begin(struct call *call, const struct http_head *from)
{
    struct slice id_name =
        call->api == WIRE_ANTHROPIC ? SLICE("request-id") : SLICE("x-request-id");
    const struct http_hops hops = http_hops_of(from);
    struct reply_limits limits;
    struct http_fields fields;
    char id[REPLY_ID_MAX];

    assert(call->in != NULL && call->status == 0);
    call_move(call, CALL_ANSWERING);
    call->status = from->status;
    http_fields_init(&fields);
    size_t n = reply_id(call->id, id);
    struct slice theirs = http_find(from, id_name);
    if (theirs.at == NULL)
        http_fields_add(&fields, id_name, (struct slice){id, n});
    else
        report_notes_upstream_id(&call->notes, theirs);
    reply_limits_write(&call->axes, call->api, call_now(call), call_wall(call), &limits);
    for (size_t i = 0; i < limits.n_fields; i++)
        http_fields_add(&fields, limits.fields[i].name, limits.fields[i].value);
    if (call->route && call->model != CONFIG_NONE &&
        call->route != &call->generation->routes[call->model])
        http_fields_add(&fields, SLICE("x-tollgate-model"), slice_of(call->route->config->name));
    if (call->notes.changed[0] != '\0')
        http_fields_add(&fields, SLICE("x-tollgate-changed"), slice_of(call->notes.changed));
    if (call->translation != NULL && call->translation->dropped.n > 0)
        http_fields_add(&fields, SLICE("x-tollgate-dropped"),
                        slice_of(call->translation->dropped.names));
    char clamped[64];
    if (call->attempt.clamped != NULL) {
        int bytes = snprintf(clamped, sizeof clamped, "%s=%" PRId64, call->attempt.clamped,
                             call->attempt.most_output);
        http_fields_add(&fields, SLICE("x-tollgate-clamped"),
                        (struct slice){clamped, (size_t)bytes});
    }
    /* Ours went first: what finds no room is the provider's. */
    for (size_t i = 0; i < from->n_fields; i++)
        if (is_shown(&hops, from->fields[i].name))
            http_fields_add(&fields, from->fields[i].name, from->fields[i].value);
    struct http_head head = {.status = from->status,
                             .fields = fields.list,
                             .n_fields = fields.n,
                             .length =
                                 call->attempt.injected || call->objects.lists ? -1 : from->length};
    http_inbound_reply(call->in, &head);
    call_answer_pass(call, (struct slice){call->held, call->held_n});
    call->held_n = 0;
    call_forget_body(call);
}

/* ---- the reply's head ---- */

/* Money of the provider's is a limit of its key: no matter of the tenant's, and another may have
 * some. */
static enum call_failure failure_of(int status)
{
    if (status == 429 || status == 402)
        return FAILURE_LIMITED;
    if (status == 401 || status == 403)
        return FAILURE_CREDENTIALS;
    /* A redirect is not for us to follow, nor for a client to be sent to with its key in hand. */
    if (status == 408 || status >= 500 || (status >= 300 && status < 400))
        return FAILURE_SERVER;
    return FAILURE_NONE;
}

/* The provider has waited for too long; 524 is said by a proxy that has waited for a server. */
static bool is_timeout(int status)
{
    return status == 408 || status == 504 || status == 524;
}

enum tg_key_outcome call_answer_outcome(enum call_failure failure)
{
    switch (failure) {
    case FAILURE_LIMITED:
        return TG_KEY_LIMITED;
    case FAILURE_LARGE:
        return TG_KEY_REJECTED;
    case FAILURE_CREDENTIALS:
        return TG_KEY_REFUSED;
    default:
        assert(failure != FAILURE_NONE);
        return TG_KEY_FAILED;
    }
}

static bool is_packed(const struct http_head *head)
{
    struct slice coding = http_find(head, SLICE("content-encoding"));

    return coding.n > 0 && !slice_equal_nocase(coding, SLICE("identity"));
}

static void tell_room(struct call *call, int64_t room, tg_ms until, tg_ms now)
{
    uint64_t number = call_record_enter(call);

    tg_gate_set_room(call->slot.gate, room, until, now);
    call_record_room(call, number, room, until);
}

/* Tells the law of the route what the provider says: how many calls it will take until its quota is
 * full again, or that it has too much to do, and for how long. A quota belongs to a key: where
 * there are several, one that is used up says nothing about the others, and the pool passes it
 * over. */
static void state_room(struct call *call, const struct http_head *from)
{
    const struct attempt *attempt = &call->attempt;
    tg_ms now = call_now(call), wall = call_wall(call), until;
    int64_t room;

    if (call->slot.state != ADMISSION_ADMITTED)
        return;
    const struct config_model *model = call->route->config;
    size_t keys = model->n_keys > 0 ? model->n_keys : call->route->provider->config->n_keys;
    if (attempt->status == 529 || attempt->status == 503 || (attempt->status == 429 && keys == 1)) {
        if (attempt->cool_until > now)
            tell_room(call, -1, attempt->cool_until, now);
    } else if (attempt->status < 300 && keys == 1 &&
               upstream_room(from->fields, from->n_fields, wall, &room, &until)) {
        tell_room(call, room, until - wall + now, now);
    }
}

void call_answer_head(struct call *call, const struct http_head *from)
{
    struct attempt *attempt = &call->attempt;

    assert(attempt->status == 0);
    attempt->status = from->status;
    attempt->gave_up = is_timeout(from->status);
    attempt->packed = is_packed(from);
    attempt->events =
        from->status < 300 && !attempt->packed &&
        slice_begins_nocase(http_find(from, SLICE("content-type")), SLICE("text/event-stream"));
    attempt->passes =
        failure_of(from->status) == FAILURE_NONE &&
        (call->translation != NULL ? from->status < 300 : from->status != 400 || attempt->packed);
    /* Their dates are the wall clock's, and keys go by the steady one. */
    tg_ms until = upstream_wait(from->fields, from->n_fields, call_wall(call));
    attempt->cool_until = until > 0 ? until - call_wall(call) + call_now(call) : 0;
    if (attempt->status != 429) /* its body says what is limited */
        state_room(call, from);
    call->held_n = 0;
    call->held_foreign = call->translation != NULL;
    sse_fini(&call->sse);
    sse_init(&call->sse);
    if (!attempt->events && call->translation == NULL)
        call_take_scan(call);
    meter_init(&call->meter, call->endpoint);
    call_objects_reply(call, from->status, pass_listed);
    attempt->head = from;
    if (call->translation != NULL) {
        call_translated_head(call);
    } else if (attempt->passes && !attempt->events && call->in != NULL) {
        call_answer_begin(call, from);
    }
}

/* ---- its body ---- */

/* One event. A failure: the attempt has ended with it. */
static enum call_failure take_event(struct call *call, const struct sse_event *event)
{
    struct meter_event seen;

    meter_take(&call->meter, call->worker->reader, event, &seen);
    call_objects_event(call);
    if (call->state == CALL_ASKING) {
        call->attempt.gave_up = seen.timed_out;
        if (seen.error && seen.retryable)
            return seen.limited ? FAILURE_LIMITED : FAILURE_SERVER;
        if (event->kind == SSE_BLANK) {
            call_answer_hold(call, event->raw);
            return FAILURE_NONE;
        }
        call_answer_begin(call, call->attempt.head);
    }
    if (!(call->attempt.injected && seen.usage_only))
        call_answer_pass(call, event->raw);
    return FAILURE_NONE;
}

/* A stream has begun: to the law that is all there is to learn of it. */
static void tell_first_byte(struct call *call, const struct admission_run *run)
{
    const struct attempt *attempt = &call->attempt;
    double sample_ms = (double)(attempt->first_at - attempt->began_at);

    if (run->state != ADMISSION_ADMITTED || run->lease == 0)
        return;
    uint64_t number = call_record_enter(call);
    tg_gate_first_byte_after(run->gate, run->lease, attempt->first_at, sample_ms);
    call_record_first_byte(call, run, number, attempt->first_at, sample_ms);
}

/* The client has been told that its reply ends in an error, or has to be: nothing more is read. */
static void end_early(struct call *call)
{
    bool theirs = translation_error(&call->translation->translation) != NULL;

    call_settle(call, theirs ? TG_KEY_FAILED : TG_KEY_CANCELLED, CHARGE_USED);
    call_answer_broken(call, theirs ? TG_OUTCOME_DROPPED : TG_OUTCOME_CANCELLED);
}

enum call_failure call_answer_data(struct call *call, struct slice bytes)
{
    struct attempt *attempt = &call->attempt;
    enum call_failure failure = FAILURE_NONE;
    struct sse_event event;

    assert(attempt->status != 0);
    if (attempt->first_at == 0) {
        attempt->first_at = call_now(call);
        if (attempt->events) {
            tell_first_byte(call, &call->slot);
            tell_first_byte(call, &call->gate);
        }
    }
    if (call->translation != NULL && attempt->passes) {
        failure = call_translated_data(call, bytes);
        if (call->state == CALL_ANSWERING && call_translated_is_lost(call))
            end_early(call);
    } else if (attempt->events) {
        sse_feed(&call->sse, bytes.at, bytes.n);
        while (failure == FAILURE_NONE && sse_next(&call->sse, &event))
            failure = take_event(call, &event);
    } else if (attempt->passes) {
        if (call->scan != NULL)
            usage_scan_feed(call->scan, bytes.at, bytes.n);
        if (!call_objects_data(call, bytes))
            call_answer_pass(call, bytes);
    } else if (attempt->status == 400 && call->state == CALL_ASKING && !call->held_foreign &&
               bytes.n > HELD_MAX - call->held_n) {
        attempt->passes = true; /* no provider needs so many words to ask for money */
        call_answer_begin(call, attempt->head);
        call_answer_pass(call, bytes);
    } else if (!attempt->packed) {
        call_answer_hold(call, bytes);
    }
    return failure;
}

/* ---- its end ---- */

/* An error that nothing will cure, as the provider put it; in the client's form, where it is in
 * another. */
static void answer_held(struct call *call)
{
    const enum dialect form = call->api == WIRE_ANTHROPIC ? DIALECT_ANTHROPIC : DIALECT_CHAT;
    struct slice body = {call->held, call->held_n};
    struct neutral_error error;
    struct json_writer out;
    char id[REPLY_ID_MAX];

    json_writer_init(&out);
    assert(call->in != NULL && call->status == 0);
    struct http_field fields[] = {
        {SLICE("content-type"), SLICE("application/json")},
        {SLICE("x-tollgate-reason"), SLICE("upstream_error")},
        {call->api == WIRE_ANTHROPIC ? SLICE("request-id") : SLICE("x-request-id"),
         {id, reply_id(call->id, id)}},
    };
    struct http_head reply = {.status = call->failed_status, .fields = fields, .n_fields = 3};

    if (call->held_foreign) {
        neutral_error_read(call->worker->reader, call->failed_status, body, &error);
        neutral_error_write(&error, form, &out);
        reply.status = neutral_error_status(&error, form);
        body = text_out_written(&out.text);
    }
    call->status = reply.status;
    call->reason = REPLY_UPSTREAM_ERROR;
    call->bytes_out = (int64_t)body.n;
    assert(call->state != CALL_OVER);
    http_inbound_send(call->in, &reply, body);
    json_writer_fini(&out);
    call_release(call, TG_OUTCOME_CANCELLED);
    call_move(call, CALL_OVER);
}

/* A page of some machine on the way is not what an SDK looks for in an error. */
bool call_answer_held(struct call *call)
{
    if (call->failed_status < 500 || call->held_n == 0 ||
        (call->held[0] != '{' && !(call->held_foreign && call->held[0] == '[')))
        return false;
    answer_held(call);
    return true;
}

/* Waiting does not bring back money: such a key is out for as long as a provider may ask for. There
 * are providers that say so by a 400, which is otherwise the call's own fault. A 429 may be that,
 * too: then no other call has to stay away from the key. */
static enum call_failure judge_held(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    bool may_be = attempt->status == 400 || attempt->status == 429;
    bool broke = attempt->status == 402 ||
                 (may_be && upstream_quota_exhausted(call->worker->reader, call->held, call->held_n,
                                                     call->held_n));

    if (broke) {
        attempt->cool_until = call_now(call) + UPSTREAM_WAIT_MAX;
        return FAILURE_LIMITED;
    }
    if (attempt->status != 429)
        return failure_of(attempt->status);
    if (upstream_too_large(call->worker->reader, call->held, call->held_n, call->held_n))
        return FAILURE_LARGE;
    state_room(call, attempt->head);
    return FAILURE_LIMITED;
}

/* What a reply that went to the client says of its key. */
static enum tg_key_outcome outcome_of_reply(const struct call *call)
{
    if (call->attempt.status >= 400)
        return TG_KEY_REJECTED;
    if (call->translation != NULL || !call->attempt.events || !call->meter.failed)
        return TG_KEY_OK;
    return call->meter.limited ? TG_KEY_LIMITED : TG_KEY_FAILED;
}

/* What the provider has against the request, in the client's form. */
static bool answer_foreign_error(struct call *call)
{
    struct neutral_error error;

    neutral_error_read(call->worker->reader, call->attempt.status,
                       (struct slice){call->held, call->held_n}, &error);
    call->held_n = 0;
    return call_translated_error(call, &error);
}

enum call_failure call_answer_end(struct call *call)
{
    struct attempt *attempt = &call->attempt;
    enum call_failure failure = FAILURE_NONE;
    struct sse_event event;

    /* The last event of a stream that does not end its last line. */
    if (attempt->events && sse_end(&call->sse, &event))
        failure = take_event(call, &event);
    attempt->out = NULL;
    call_request_forget(call);
    attempt->ended = true;
    if (!attempt->passes)
        failure = judge_held(call);
    else if (call->translation != NULL)
        failure = call_translated_end(call);
    if (failure != FAILURE_NONE)
        return failure;
    if (call->state == CALL_ANSWERING && call_translated_is_lost(call)) {
        end_early(call);
        return FAILURE_NONE;
    }
    if (call->state == CALL_ASKING && call->held_foreign) {
        if (!answer_foreign_error(call))
            return FAILURE_MEMORY;
    } else if (call->state == CALL_ASKING) {
        call_answer_begin(call, attempt->head); /* a 400, or a stream without any event */
    }
    enum tg_key_outcome outcome = outcome_of_reply(call);
    call_settle(call, outcome, CHARGE_USED);
    call_release(call, outcome == TG_KEY_OK       ? TG_OUTCOME_OK
                       : outcome == TG_KEY_FAILED ? TG_OUTCOME_DROPPED
                                                  : TG_OUTCOME_CANCELLED);
    if (call->in)
        http_inbound_finish(call->in);
    call_move(call, CALL_OVER);
    return FAILURE_NONE;
}

/* After the first byte nothing is tried again: the client is told in the way that is left. */
void call_answer_broken(struct call *call, enum tg_outcome outcome)
{
    struct refusal why;
    struct reply reply;

    assert(call->state == CALL_ANSWERING || call->state == CALL_DRAINING);
    call->reason = REPLY_UPSTREAM_ERROR;
    if (call->in && call->translation != NULL) {
        call_translated_broken(call);
    } else if (call->in && call->attempt.events) {
        refusal_init(&why, REPLY_UPSTREAM_ERROR, "the provider broke off its answer");
        http_inbound_write(call->in, reply_event(&why, call->api, &reply));
        http_inbound_finish(call->in);
    } else if (call->in) {
        http_inbound_abort(call->in);
    }
    call_release(call, outcome);
    call_move(call, CALL_OVER);
}
