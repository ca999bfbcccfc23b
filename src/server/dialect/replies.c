/* replies.c - what a call is answered when it does not go through, by reason and API.
 *
 * The clients are SDKs, and SDKs retry: on 408, 409, 429 and from 500 on, by `retry-after-ms`, then
 * `retry-after`, then a backoff of their own, for as long as they are told, unless `x-should-retry`
 * says no. So every refusal here says one of three things:
 *
 *   come back   the wait is known and at most a minute: it is stated, with jitter upward so that
 *               those who were refused together do not come back together, and never too short
 *   stay away   longer, never, or not worth it: no wait is stated, because clients would sleep it
 *               with all they have open; a moment from which a retry makes sense is stated
 *   nothing     it is not known
 *
 * One table has it all. What a client sees in a message may have been named by another client
 * (peers, models), so it is escaped here, at the one place where bytes become JSON. Nothing is
 * allocated: most refusals happen when there is the least to spare.
 */
#include "server/dialect/replies.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "io/text/text_out.h"
#include "lib/core/num.h"

enum retry {
    RETRY_WAIT, /* after the wait, if it is known */
    RETRY_FREE, /* whenever the client likes */
    RETRY_NO,
};

struct row {
    int status;
    const char *openai_type, *openai_code; /* a null code: the reason's name */
    const char *anthropic_type;
    enum retry retry;
    const char *text;
};

#define INVALID "invalid_request_error"

static const struct row rows[REPLY_COUNT] = {
    [REPLY_MEMORY_PRESSURE] = {503, "server_error", NULL, "overloaded_error", RETRY_WAIT,
                               "memory pressure"},
    [REPLY_PEER_LIMIT] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                          RETRY_WAIT, "peer exceeded per-peer limit"},
    [REPLY_CONCURRENCY] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                           RETRY_WAIT, "server overloaded"},
    [REPLY_POLICY] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", RETRY_NO,
                      "not worth its price at this load"},
    [REPLY_RATE] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", RETRY_WAIT,
                    "rate limit exceeded"},
    [REPLY_COST] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", RETRY_WAIT,
                    "cost limit exceeded"},
    [REPLY_BUDGET] = {402, "insufficient_quota", "insufficient_quota", "billing_error", RETRY_NO,
                      "the budget is spent"},
    [REPLY_BUDGET_CONTENDED] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                                RETRY_WAIT,
                                "what is left of the budget is reserved by other calls"},
    [REPLY_USER_LIMIT] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                          RETRY_NO, "the tenant has as many users as it may have"},
    [REPLY_NO_KEY] = {503, "server_error", NULL, "overloaded_error", RETRY_WAIT,
                      "no key of the provider can serve this call now"},
    [REPLY_KEYS_COOLING] = {429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error",
                            RETRY_WAIT, "the provider is limiting every key"},
    [REPLY_REQUEST_EXCEEDS_LIMIT] =
        {400, INVALID, NULL, INVALID, RETRY_NO,
         "this call is larger than its limit and can never be admitted"},
    [REPLY_INVALID_API_KEY] = {401, INVALID, NULL, "authentication_error", RETRY_FREE,
                               "the API key is missing, unknown or expired"},
    [REPLY_CONFLICTING_API_KEYS] = {401, INVALID, NULL, "authentication_error", RETRY_FREE,
                                    "the request has two API keys that differ; send one"},
    [REPLY_MODEL_NOT_FOUND] = {404, INVALID, NULL, "not_found_error", RETRY_FREE,
                               "there is no such model"},
    [REPLY_MODEL_NOT_ALLOWED] = {403, INVALID, NULL, "permission_error", RETRY_FREE,
                                 "this key may not use this model"},
    [REPLY_ENDPOINT_UNPRICED] = {403, INVALID, NULL, "permission_error", RETRY_NO,
                                 "this path has no price here, so its calls cannot be paid from a "
                                 "budget"},
    [REPLY_OBJECT_NOT_FOUND] = {404, INVALID, NULL, "not_found_error", RETRY_FREE,
                                "there is no such object here"},
    [REPLY_FIELD_NOT_ALLOWED] = {403, INVALID, NULL, "permission_error", RETRY_FREE,
                                 "this caller may not state this field"},
    [REPLY_FIELD_RULE] = {400, INVALID, NULL, INVALID, RETRY_NO,
                          "a rule does not allow this field"},
    [REPLY_WRONG_API_FOR_MODEL] = {400, INVALID, NULL, INVALID, RETRY_FREE,
                                   "this model is served by the other API"},
    [REPLY_NOT_FOUND] = {404, INVALID, NULL, "not_found_error", RETRY_FREE,
                         "there is nothing at this path"},
    [REPLY_METHOD_NOT_ALLOWED] = {405, INVALID, NULL, INVALID, RETRY_FREE,
                                  "this path does not take this method"},
    [REPLY_PAYLOAD_TOO_LARGE] = {413, INVALID, NULL, "request_too_large", RETRY_FREE,
                                 "the body is too large"},
    [REPLY_UNSUPPORTED_MEDIA_TYPE] =
        {415, INVALID, NULL, INVALID, RETRY_FREE,
         "the body must be application/json and not encoded, with one content-type"},
    [REPLY_INVALID_REQUEST] = {400, INVALID, NULL, INVALID, RETRY_FREE, "the request is not valid"},
    [REPLY_REQUEST_TIMEOUT] = {408, INVALID, NULL, "timeout_error", RETRY_FREE,
                               "the request did not arrive in time"},
    [REPLY_UPSTREAM_CREDENTIALS] = {502, "server_error", NULL, "api_error", RETRY_NO,
                                    "the provider does not accept the gateway's credentials"},
    [REPLY_UPSTREAM_ERROR] = {502, "server_error", NULL, "api_error", RETRY_FREE,
                              "the provider failed"},
    [REPLY_UPSTREAM_TIMEOUT] = {504, "server_error", NULL, "timeout_error", RETRY_FREE,
                                "the provider did not answer in time"},
    [REPLY_INTERNAL] = {500, "server_error", NULL, "api_error", RETRY_FREE,
                        "the gateway failed; this is a fault of its own"},
    [REPLY_SHUTTING_DOWN] = {503, "server_error", NULL, "overloaded_error", RETRY_WAIT,
                             "the gateway is shutting down"},
    [REPLY_STORE_UNAVAILABLE] = {503, "server_error", NULL, "overloaded_error", RETRY_WAIT,
                                 "limits cannot be checked now"},
    [REPLY_IDENTITY_UNAVAILABLE] = {503, "server_error", NULL, "overloaded_error", RETRY_WAIT,
                                    "the keys that sign callers' tokens are being fetched"},
};

const char *reply_reason_name(enum reply_reason reason)
{
    static const char *const names[REPLY_COUNT] = {
#define REPLY_NAME(upper, text) text,
        REPLY_REASONS(REPLY_NAME)
#undef REPLY_NAME
    };

    return (unsigned)reason < REPLY_COUNT ? names[reason] : NULL;
}

static const struct row *row_of(enum reply_reason reason)
{
    return &rows[(unsigned)reason < REPLY_COUNT ? reason : REPLY_INTERNAL];
}

int reply_status(enum reply_reason reason, enum wire_api api)
{
    int status = row_of(reason)->status;

    return status == 503 && api == WIRE_ANTHROPIC ? 529 : status;
}

/* ---- Why ------------------------------------------------------------------------------------- */

void refusal_init(struct refusal *why, enum reply_reason reason, const char *format, ...)
{
    va_list arguments;

    *why = (struct refusal){.reason = reason, .binding = TG_AXIS_NONE};
    if (format == NULL) {
        snprintf(why->text, sizeof why->text, "%s", row_of(reason)->text);
        return;
    }
    va_start(arguments, format);
    vsnprintf(why->text, sizeof why->text, format, arguments);
    va_end(arguments);
}

static enum reply_reason reply_reason_of(enum tg_reason reason)
{
    switch (reason) {
    case TG_REASON_MEMORY_PRESSURE:
        return REPLY_MEMORY_PRESSURE;
    case TG_REASON_PEER_LIMIT:
        return REPLY_PEER_LIMIT;
    case TG_REASON_CONCURRENCY:
        return REPLY_CONCURRENCY;
    case TG_REASON_POLICY:
        return REPLY_POLICY;
    case TG_REASON_RATE:
        return REPLY_RATE;
    case TG_REASON_COST:
        return REPLY_COST;
    case TG_REASON_NONE:
    case TG_REASON_COUNT:
        break;
    }
    return REPLY_INTERNAL;
}

void refusal_of_answer(const struct tg_answer *answer, const struct tg_call *call,
                       struct refusal *why)
{
    bool never = answer->decision.retry_after_ms == TG_UNSATISFIABLE;
    enum reply_reason reason = reply_reason_of(answer->reason);

    if (reason == REPLY_INTERNAL) {
        refusal_init(why, reason, NULL);
        return;
    }
    if (never && (reason == REPLY_RATE || reason == REPLY_COST))
        reason = REPLY_REQUEST_EXCEEDS_LIMIT;
    *why = (struct refusal){.reason = reason, .binding = TG_AXIS_NONE};
    tg_answer_describe(answer, call, why->text, sizeof why->text);
    if (!answer->policy_denied)
        why->binding = tg_axes_binding(&answer->axes);
    why->retry_after_ms = num_max(answer->decision.retry_after_ms, answer->client_wait_ms);
    why->reset_at = answer->decision.reset_at;
}

void refusal_of_memory(struct refusal *why)
{
    refusal_init(why, REPLY_MEMORY_PRESSURE, "memory pressure: the gateway has none for this call");
    why->retry_after_ms = 1000;
}

void refusal_of_error(enum tg_err err, struct refusal *why)
{
    if (err == TG_ERR_MEMORY)
        refusal_of_memory(why);
    else
        refusal_init(why,
                     err == TG_ERR_STORE || err == TG_ERR_FULL ? REPLY_STORE_UNAVAILABLE
                                                               : REPLY_INTERNAL,
                     "%s", tg_strerror(err));
}

void refusal_of_keys(const struct tg_key_answer *answer, struct refusal *why)
{
    if (answer->too_large)
        refusal_init(why, REPLY_REQUEST_EXCEEDS_LIMIT,
                     "no key of the provider can ever serve a call with so many tokens");
    else
        refusal_init(why, answer->all_cooling ? REPLY_KEYS_COOLING : REPLY_NO_KEY, NULL);
    why->retry_after_ms = answer->retry_after_ms;
}

void refusal_of_ask(const struct ask_problem *problem, struct refusal *why)
{
    if (problem->no_memory) {
        refusal_of_memory(why);
        return;
    }
    refusal_init(why, problem->not_found ? REPLY_OBJECT_NOT_FOUND : REPLY_INVALID_REQUEST, "%s",
                 problem->text);
    snprintf(why->param, sizeof why->param, "%s", problem->param);
}

/* ---- The head -------------------------------------------------------------------------------- */

static void add_field(struct reply *reply, const char *name, struct slice value)
{
    assert(reply->n_fields < REPLY_FIELDS_MAX);
    reply->fields[reply->n_fields++] = (struct http_field){slice_of(name), value};
}

static void replies_add_number(struct reply *reply, const char *name, int64_t number)
{
    char *at = reply->room + reply->used;
    size_t n = http_put_number(at, number);

    reply->used += n;
    add_field(reply, name, (struct slice){at, n});
}

/* A tenth longer at most, and never above what clients are willing to wait. */
static tg_ms add_jitter(tg_ms wait, tg_ms longest, uint64_t random)
{
    tg_ms more = (tg_ms)(random % ((uint64_t)wait / 10 + 1));

    assert(wait > 0 && wait <= longest);
    return num_min(wait + more, longest);
}

static void say_stay_away(struct reply *reply, const struct refusal *why, tg_ms now)
{
    tg_ms wait = why->retry_after_ms;
    tg_ms at = wait > 0 && wait < TG_UNSATISFIABLE ? num_add(now, wait) : why->reset_at;

    add_field(reply, "x-should-retry", SLICE("false"));
    if (at > now && at < TG_NUMBER_MAX && why->reason != REPLY_REQUEST_EXCEEDS_LIMIT) {
        char *text = reply->room + reply->used;
        size_t n = reply_date(at, text);
        reply->used += n;
        add_field(reply, "x-tollgate-reset-at", (struct slice){text, n});
    }
}

static void say_when(struct reply *reply, const struct refusal *why, tg_ms now, uint64_t random)
{
    enum retry retry = row_of(why->reason)->retry;
    /* A minute. The window of a key that is out of calls or tokens is up to a second longer, and
     * who has to wait for it has not been turned away for good. */
    tg_ms longest = why->reason == REPLY_NO_KEY ? REPLY_WAIT_MAX + 1000 : REPLY_WAIT_MAX;

    if (retry == RETRY_NO || (retry == RETRY_WAIT && why->retry_after_ms > longest)) {
        say_stay_away(reply, why, now);
    } else if (retry == RETRY_WAIT && why->retry_after_ms > 0) {
        tg_ms wait = add_jitter(why->retry_after_ms, longest, random);
        replies_add_number(reply, "retry-after-ms", wait);
        replies_add_number(reply, "retry-after", (wait + 999) / 1000);
    }
}

static void write_fields(const struct refusal *why, tg_ms now, uint64_t random, struct reply *reply)
{
    add_field(reply, "content-type", SLICE("application/json"));
    add_field(reply, "x-tollgate-reason",
              slice_of(reply_reason_name((unsigned)why->reason < REPLY_COUNT ? why->reason
                                                                             : REPLY_INTERNAL)));
    if (tg_axis_name(why->binding) != NULL)
        add_field(reply, "x-tollgate-binding-axis", slice_of(tg_axis_name(why->binding)));
    say_when(reply, why, now, random);
    if (reply->status == 401)
        add_field(reply, "www-authenticate", SLICE("Bearer"));
    if (why->reason == REPLY_METHOD_NOT_ALLOWED && why->allow != NULL)
        add_field(reply, "allow", slice_of(why->allow));
}

/* ---- The body -------------------------------------------------------------------------------- */

static void put_string(struct text_out *out, const char *text, size_t max)
{
    text_out_json_cut(out, (struct slice){text, strnlen(text, max)}, out->capacity);
}

static void put_openai(const struct refusal *why, struct text_out *out)
{
    const struct row *row = row_of(why->reason);
    const char *code = row->openai_code;

    text_out_text(out, "{\"error\":{\"message\":");
    put_string(out, why->text, sizeof why->text);
    text_out_text(out, ",\"type\":\"");
    text_out_text(out, row->openai_type);
    text_out_text(out, "\",\"param\":");
    if (why->param[0] != '\0')
        put_string(out, why->param, sizeof why->param);
    else
        text_out_text(out, "null");
    text_out_text(out, ",\"code\":\"");
    text_out_text(out, code != NULL ? code : reply_reason_name((enum reply_reason)(row - rows)));
    text_out_text(out, "\"}}");
}

static void put_anthropic(const struct refusal *why, struct text_out *out)
{
    text_out_text(out, "{\"type\":\"error\",\"error\":{\"type\":\"");
    text_out_text(out, row_of(why->reason)->anthropic_type);
    text_out_text(out, "\",\"message\":");
    put_string(out, why->text, sizeof why->text);
    text_out_text(out, "}}");
}

/* The body between what stands before and after it, into what is left of the room: it fits, every
 * byte of a message escaped. */
static void put_body(const struct refusal *why, enum wire_api api, const char *before,
                     const char *after, struct reply *reply)
{
    struct text_out out;

    text_out_fixed(&out, reply->room + reply->used, sizeof reply->room - reply->used);
    text_out_text(&out, before);
    if (api == WIRE_ANTHROPIC)
        put_anthropic(why, &out);
    else
        put_openai(why, &out);
    text_out_text(&out, after);
    assert(!out.failed);
    reply->used += out.size;
    reply->body = text_out_written(&out);
}

static void reply_begin(const struct refusal *why, enum wire_api api, struct reply *reply)
{
    reply->status = reply_status(why->reason, api);
    reply->n_fields = 0;
    reply->used = 0;
}

void reply_write(const struct refusal *why, enum wire_api api, tg_ms now, uint64_t random,
                 struct reply *reply)
{
    reply_begin(why, api, reply);
    write_fields(why, now, random, reply);
    put_body(why, api, "", "", reply);
}

struct slice reply_event(const struct refusal *why, enum wire_api api, struct reply *reply)
{
    reply_begin(why, api, reply);
    put_body(why, api, api == WIRE_ANTHROPIC ? "event: error\ndata: " : "data: ", "\n\n", reply);
    return reply->body;
}
