/* replies.h - what a call is answered when it does not go through, by reason and API.
 *
 *     struct refusal why;
 *     refusal_of_answer(&answer, &call, &why);         or refusal_init(&why, REPLY_NO_KEY, "...")
 *     reply_write(&why, WIRE_OPENAI, now, random, &reply);
 *     ... reply.status, reply.fields, reply.body
 *
 * One table, in replies.c, has the status, the words of both APIs and whether a retry makes sense.
 * Nothing here allocates.
 */
#ifndef TG_DIALECT_REPLIES_H
#define TG_DIALECT_REPLIES_H

#include "io/http/http.h"
#include "server/dialect/ask.h"
#include "tollgate.h"

/* The name is what x-tollgate-reason says. */
#define REPLY_REASONS(X)                                                                           \
    X(MEMORY_PRESSURE, "memory_pressure")                                                          \
    X(PEER_LIMIT, "peer_limit")                                                                    \
    X(CONCURRENCY, "concurrency")                                                                  \
    X(POLICY, "policy")                                                                            \
    X(RATE, "rate")                                                                                \
    X(COST, "cost")                                                                                \
    X(BUDGET, "budget")                                                                            \
    X(BUDGET_CONTENDED, "budget_contended")                                                        \
    X(USER_LIMIT, "user_limit")                                                                    \
    X(NO_KEY, "no_key")                                                                            \
    X(KEYS_COOLING, "no_key") /* every key cools after 429s of the provider: 429 */                \
    X(REQUEST_EXCEEDS_LIMIT, "request_exceeds_limit")                                              \
    X(INVALID_API_KEY, "invalid_api_key")                                                          \
    X(CONFLICTING_API_KEYS, "conflicting_api_keys")                                                \
    X(MODEL_NOT_FOUND, "model_not_found")                                                          \
    X(MODEL_NOT_ALLOWED, "model_not_allowed")                                                      \
    X(ENDPOINT_UNPRICED, "endpoint_unpriced")                                                      \
    X(OBJECT_NOT_FOUND, "object_not_found")                                                        \
    X(FIELD_NOT_ALLOWED, "field_not_allowed")                                                      \
    X(FIELD_RULE, "field_rule")                                                                    \
    X(WRONG_API_FOR_MODEL, "wrong_api_for_model")                                                  \
    X(NOT_FOUND, "not_found")                                                                      \
    X(METHOD_NOT_ALLOWED, "method_not_allowed")                                                    \
    X(PAYLOAD_TOO_LARGE, "payload_too_large")                                                      \
    X(UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")                                            \
    X(INVALID_REQUEST, "invalid_request")                                                          \
    X(REQUEST_TIMEOUT, "request_timeout")                                                          \
    X(UPSTREAM_CREDENTIALS, "upstream_credentials")                                                \
    X(UPSTREAM_ERROR, "upstream_error")                                                            \
    X(UPSTREAM_TIMEOUT, "upstream_timeout")                                                        \
    X(INTERNAL, "internal")                                                                        \
    X(SHUTTING_DOWN, "shutting_down")                                                              \
    X(STORE_UNAVAILABLE, "store_unavailable")                                                      \
    X(IDENTITY_UNAVAILABLE, "identity_unavailable")

enum reply_reason {
#define REPLY_ENUM(upper, text) REPLY_##upper,
    REPLY_REASONS(REPLY_ENUM)
#undef REPLY_ENUM
        REPLY_COUNT
};

const char *reply_reason_name(enum reply_reason reason);

/* 529 instead of 503 for WIRE_ANTHROPIC. */
int reply_status(enum reply_reason reason, enum wire_api api);

#define REPLY_WAIT_MAX 60000 /* ms: a client is not told to come back after more */
#define REPLY_FIELDS_MAX 8
#define REPLY_TEXT_MAX 320 /* bytes of a message */

/* Why a call is refused. */
struct refusal {
    enum reply_reason reason;
    enum tg_axis binding;      /* default TG_AXIS_NONE */
    tg_ms retry_after_ms;      /* 0: not known; TG_UNSATISFIABLE: never; default 0 */
    tg_ms reset_at;            /* when the window ends, or the wait; 0: not known; default 0 */
    const char *allow;         /* METHOD_NOT_ALLOWED: the method that is; default null */
    char param[64];            /* the field that is wrong; default "" */
    char text[REPLY_TEXT_MAX]; /* for people, cut where it is too long */
};

/* With a message as by printf; null: the reason's own. */
void refusal_init(struct refusal *why, enum reply_reason reason, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The refusal by a gate's answer that is not allowed; `call` is the one that was asked for. What
 * can never be admitted becomes REPLY_REQUEST_EXCEEDS_LIMIT. */
void refusal_of_answer(const struct tg_answer *answer, const struct tg_call *call,
                       struct refusal *why);

/* Our own want of memory: nobody else's fault, and it passes. */
void refusal_of_memory(struct refusal *why);

/* There is no decision of a gate. */
void refusal_of_error(enum tg_err err, struct refusal *why);

/* The refusal by a pool that has no key. */
void refusal_of_keys(const struct tg_key_answer *answer, struct refusal *why);

/* The refusal of a body that could not be read. */
void refusal_of_ask(const struct ask_problem *problem, struct refusal *why);

/* "req_00f3...", the name of a call; how long it is. */
#define REPLY_ID_MAX 20
size_t reply_id(uint64_t id, char text[REPLY_ID_MAX]);

/* Points into itself: not to be copied or moved. */
struct reply {
    int status;
    struct http_field fields[REPLY_FIELDS_MAX]; /* content-type and ours; names in lower case */
    size_t n_fields;
    struct slice body;
    size_t used;
    char room[6 * (REPLY_TEXT_MAX + 64) + 1024]; /* every byte of a message escaped, and the rest */
};

/* `random` spreads what clients are told: a hint is never shorter than the truth and at most a
 * tenth longer (and a ms). Any number. */
void reply_write(const struct refusal *why, enum wire_api api, tg_ms now, uint64_t random,
                 struct reply *reply);

/* The error alone, for a stream whose 200 has gone out: a whole event in the form of the API. */
struct slice reply_event(const struct refusal *why, enum wire_api api, struct reply *reply);

/* ---- What a success says about limits -----------------------------------------------------------
 *
 * x-ratelimit-{limit,remaining,reset}-{requests,tokens}, reset as a duration ("6m0s", "120ms"), or
 * anthropic-ratelimit-{requests,tokens}-{limit,remaining,reset}, reset in RFC 3339: of one limit of
 * the rate and one of the cost axis, where they are present (struct tg_axes: `named`). */

#define REPLY_LIMITS_MAX 6

struct reply_limits {
    struct http_field fields[REPLY_LIMITS_MAX];
    size_t n_fields;
    size_t used;
    char room[REPLY_LIMITS_MAX * 40];
};

/* `now` is the clock's by which the limits go, `wall` what a date is written by. */
void reply_limits_write(const struct tg_axes *axes, enum wire_api api, tg_ms now, tg_ms wall,
                        struct reply_limits *limits);

/* "2027-12-31T00:00:00Z", with milliseconds where there are any; years after 9999 are their end. */
#define REPLY_DATE_MAX 32
size_t reply_date(tg_ms at, char text[REPLY_DATE_MAX]);

/* "0s", "120ms", "8.64s", "6m0s", "1h0m0s". */
#define REPLY_DURATION_MAX 40
size_t reply_duration(tg_ms ms, char text[REPLY_DURATION_MAX]);

#endif
