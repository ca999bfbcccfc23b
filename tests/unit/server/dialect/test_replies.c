/* test_replies.c - what clients are told, by reason and API. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "server/dialect/replies.h"

#define NOW INT64_C(1700000000000) /* 2023-11-14T22:13:20Z */

static int setup(void **state)
{
    *state = json_reader_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    json_reader_free(*state);
    return 0;
}

/* "" where there is no such field. */
static const char *field(const struct reply *reply, const char *name)
{
    static char value[64];

    for (size_t i = 0; i < reply->n_fields; i++)
        if (strlen(name) == reply->fields[i].name.n && memcmp(name,
                                                              reply->fields[i].name.at,
                                                              strlen(name)) == 0) {
            memcpy(value, reply->fields[i].value.at, reply->fields[i].value.n);
            value[reply->fields[i].value.n] = '\0';
            return value;
        }
    return "";
}

static struct refusal refused(enum reply_reason reason, tg_ms retry_after_ms, tg_ms reset_at)
{
    struct refusal why;

    refusal_init(&why, reason, NULL);
    why.retry_after_ms = retry_after_ms;
    why.reset_at = reset_at;
    return why;
}

static void expect_field(const struct reply *reply, const char *name, const char *want)
{
    const char *got = field(reply, name);

    if (strcmp(got, want) != 0)
        fail_msg("%s: '%s' is not '%s'", name, got, want);
}

/* ---- The table ------------------------------------------------------------------------------- */

static void each_reason_has_its_status(void **state)
{
    static const struct {
        enum reply_reason reason;
        int openai, anthropic;
    } rows[] = {
        {REPLY_MEMORY_PRESSURE, 503, 529},
        {REPLY_PEER_LIMIT, 429, 429},
        {REPLY_CONCURRENCY, 429, 429},
        {REPLY_POLICY, 429, 429},
        {REPLY_RATE, 429, 429},
        {REPLY_COST, 429, 429},
        {REPLY_BUDGET, 402, 402},
        {REPLY_BUDGET_CONTENDED, 429, 429},
        {REPLY_USER_LIMIT, 429, 429},
        {REPLY_NO_KEY, 503, 529},
        {REPLY_KEYS_COOLING, 429, 429},
        {REPLY_REQUEST_EXCEEDS_LIMIT, 400, 400},
        {REPLY_INVALID_API_KEY, 401, 401},
        {REPLY_CONFLICTING_API_KEYS, 401, 401},
        {REPLY_MODEL_NOT_FOUND, 404, 404},
        {REPLY_MODEL_NOT_ALLOWED, 403, 403},
        {REPLY_ENDPOINT_UNPRICED, 403, 403},
        {REPLY_OBJECT_NOT_FOUND, 404, 404},
        {REPLY_FIELD_NOT_ALLOWED, 403, 403},
        {REPLY_FIELD_RULE, 400, 400},
        {REPLY_WRONG_API_FOR_MODEL, 400, 400},
        {REPLY_NOT_FOUND, 404, 404},
        {REPLY_METHOD_NOT_ALLOWED, 405, 405},
        {REPLY_PAYLOAD_TOO_LARGE, 413, 413},
        {REPLY_UNSUPPORTED_MEDIA_TYPE, 415, 415},
        {REPLY_INVALID_REQUEST, 400, 400},
        {REPLY_REQUEST_TIMEOUT, 408, 408},
        {REPLY_UPSTREAM_CREDENTIALS, 502, 502},
        {REPLY_UPSTREAM_ERROR, 502, 502},
        {REPLY_UPSTREAM_TIMEOUT, 504, 504},
        {REPLY_INTERNAL, 500, 500},
        {REPLY_SHUTTING_DOWN, 503, 529},
        {REPLY_STORE_UNAVAILABLE, 503, 529},
        {REPLY_IDENTITY_UNAVAILABLE, 503, 529},
    };

    (void)state;
    assert_int_equal(COUNT_OF(rows), REPLY_COUNT);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(rows[i].reason, i);
        assert_int_equal(reply_status(rows[i].reason, WIRE_OPENAI), rows[i].openai);
        assert_int_equal(reply_status(rows[i].reason, WIRE_ANTHROPIC), rows[i].anthropic);
    }
    assert_string_equal(reply_reason_name(REPLY_KEYS_COOLING), "no_key");
    assert_null(reply_reason_name(REPLY_COUNT));
}

/* Every member of "error", as the reader reads it. */
struct error_body {
    bool openai, anthropic;
    char message[1024], type[64], code[64], param[64];
};

static void keep(char *to, size_t size, const struct json_value *value)
{
    assert_int_equal(value->kind, JSON_STRING);
    assert_true(value->string.size < size);
    memcpy(to, value->string.bytes, value->string.size);
    to[value->string.size] = '\0';
}

static struct error_body read_body(struct json_reader *reader, struct slice body)
{
    struct error_body out = {.openai = true};
    struct json_text key;
    struct json_value value;

    assert_true(json_begin(reader, body.at, body.n, body.n, &value));
    assert_true(json_enter(reader));
    while (json_next(reader, &key, &value)) {
        if (json_text_is(key, "type")) {
            out.anthropic = json_text_is(value.string, "error");
            out.openai = false;
            continue;
        }
        assert_true(json_text_is(key, "error") && json_enter(reader));
        while (json_next(reader, &key, &value)) {
            if (json_text_is(key, "message"))
                keep(out.message, sizeof out.message, &value);
            else if (json_text_is(key, "type"))
                keep(out.type, sizeof out.type, &value);
            else if (json_text_is(key, "code"))
                keep(out.code, sizeof out.code, &value);
            else if (json_text_is(key, "param") && value.kind != JSON_NULL)
                keep(out.param, sizeof out.param, &value);
        }
    }
    assert_true(json_end(reader));
    return out;
}

static void bodies_have_the_form_of_their_api(void **state)
{
    struct reply reply;

    for (int i = 0; i < REPLY_COUNT; i++) {
        struct refusal why = refused((enum reply_reason)i, 1000, 0);
        reply_write(&why, WIRE_OPENAI, NOW, 5, &reply);
        struct error_body body = read_body(*state, reply.body);
        assert_true(body.openai && body.type[0] != '\0' && body.code[0] != '\0');
        assert_string_equal(body.message, why.text);
        expect_field(&reply, "content-type", "application/json");
        expect_field(&reply, "x-tollgate-reason", reply_reason_name((enum reply_reason)i));
        reply_write(&why, WIRE_ANTHROPIC, NOW, 5, &reply);
        body = read_body(*state, reply.body);
        assert_true(body.anthropic && strstr(body.type, "_") != NULL);
        assert_string_equal(body.message, why.text);
        if (reply.status == 529)
            assert_string_equal(body.type, "overloaded_error");
    }
}

static void words_that_clients_know_are_used(void **state)
{
    static const struct {
        enum reply_reason reason;
        const char *type, *code, *anthropic;
    } rows[] = {
        {REPLY_INVALID_API_KEY, "invalid_request_error", "invalid_api_key", "authentication_error"},
        {REPLY_MODEL_NOT_FOUND, "invalid_request_error", "model_not_found", "not_found_error"},
        {REPLY_MODEL_NOT_ALLOWED, "invalid_request_error", "model_not_allowed", "permission_error"},
        {REPLY_RATE, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error"},
        {REPLY_BUDGET, "insufficient_quota", "insufficient_quota", "billing_error"},
        {REPLY_PAYLOAD_TOO_LARGE, "invalid_request_error", "payload_too_large",
         "request_too_large"},
        {REPLY_UPSTREAM_CREDENTIALS, "server_error", "upstream_credentials", "api_error"},
        {REPLY_REQUEST_EXCEEDS_LIMIT, "invalid_request_error", "request_exceeds_limit",
         "invalid_request_error"},
        {REPLY_WRONG_API_FOR_MODEL, "invalid_request_error", "wrong_api_for_model",
         "invalid_request_error"},
    };
    struct reply reply;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct refusal why = refused(rows[i].reason, 0, 0);
        reply_write(&why, WIRE_OPENAI, NOW, 0, &reply);
        struct error_body body = read_body(*state, reply.body);
        assert_string_equal(body.type, rows[i].type);
        assert_string_equal(body.code, rows[i].code);
        reply_write(&why, WIRE_ANTHROPIC, NOW, 0, &reply);
        assert_string_equal(read_body(*state, reply.body).type, rows[i].anthropic);
    }
}

/* ---- When to come back ----------------------------------------------------------------------- */

static void waits_are_told_up_to_a_minute(void **state)
{
    static const struct {
        enum reply_reason reason;
        tg_ms wait, reset_at;
        const char *ms, *s, *retry, *at;
    } rows[] = {
        {REPLY_RATE, 1, NOW + 9, "1", "1", "", ""},
        {REPLY_RATE, 1000, 0, "1000", "1", "", ""},
        {REPLY_RATE, 1001, 0, "1001", "2", "", ""},
        {REPLY_RATE, 60000, 0, "60000", "60", "", ""},
        {REPLY_RATE, 60001, NOW + 999999, "", "", "false", "2023-11-14T22:14:20.001Z"},
        {REPLY_RATE, 0, 0, "", "", "", ""},
        {REPLY_MEMORY_PRESSURE, 100, 0, "100", "1", "", ""},
        {REPLY_NO_KEY, TG_UNSATISFIABLE, 0, "", "", "false", ""},
        {REPLY_NO_KEY, 61000, 0, "61000", "61", "", ""},
        {REPLY_NO_KEY, 61001, 0, "", "", "false", "2023-11-14T22:14:21.001Z"},
        {REPLY_KEYS_COOLING, 60001, 0, "", "", "false", "2023-11-14T22:14:20.001Z"},
        {REPLY_KEYS_COOLING, 5000, 0, "5000", "5", "", ""},
        {REPLY_BUDGET_CONTENDED, 500, 0, "500", "1", "", ""},
        {REPLY_BUDGET, 0, NOW + 1000, "", "", "false", "2023-11-14T22:13:21Z"},
        {REPLY_BUDGET, 5, 0, "", "", "false", "2023-11-14T22:13:20.005Z"},
        {REPLY_BUDGET, TG_UNSATISFIABLE, TG_NUMBER_MAX, "", "", "false", ""},
        {REPLY_POLICY, 0, NOW + 1000, "", "", "false", "2023-11-14T22:13:21Z"},
        {REPLY_POLICY, 0, NOW, "", "", "false", ""},
        {REPLY_REQUEST_EXCEEDS_LIMIT, TG_UNSATISFIABLE, NOW + 1000, "", "", "false", ""},
        {REPLY_UPSTREAM_CREDENTIALS, 0, 0, "", "", "false", ""},
        {REPLY_UPSTREAM_ERROR, 500, 0, "", "", "", ""},
        {REPLY_INVALID_REQUEST, 500, 0, "", "", "", ""},
    };
    struct reply reply;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct refusal why = refused(rows[i].reason, rows[i].wait, rows[i].reset_at);
        reply_write(&why, i % 2 == 0 ? WIRE_OPENAI : WIRE_ANTHROPIC, NOW, 0, &reply);
        expect_field(&reply, "retry-after-ms", rows[i].ms);
        expect_field(&reply, "retry-after", rows[i].s);
        expect_field(&reply, "x-should-retry", rows[i].retry);
        expect_field(&reply, "x-tollgate-reset-at", rows[i].at);
    }
}

static void hints_are_never_too_short(void **state)
{
    uint64_t seed = draw_seed("test_replies");
    struct draw draw = draw_stream(seed, 0);
    struct reply reply;
    tg_ms longest = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        tg_ms wait = draw_magnitude(&draw, REPLY_WAIT_MAX);
        struct refusal why = refused(REPLY_COST, wait, 0);
        reply_write(&why, WIRE_OPENAI, NOW, draw_bits(&draw), &reply);
        tg_ms ms = atoll(field(&reply, "retry-after-ms"));
        tg_ms s = atoll(field(&reply, "retry-after"));
        if (ms < wait || ms > wait + wait / 10 || ms > REPLY_WAIT_MAX ||
            s * 1000 < ms || s * 1000 >= ms + 1000)
            fail_msg("%lld: %lld ms, %lld s", (long long)wait, (long long)ms, (long long)s);
        if (wait <= 30000)
            longest = ms - wait > longest ? ms - wait : longest;
    }
    assert_true(longest > 2000); /* they are spread */
}

static void other_fields_are_where_they_belong(void **state)
{
    struct reply reply;
    struct refusal why = refused(REPLY_METHOD_NOT_ALLOWED, 0, 0);

    (void)state;
    why.allow = "GET";
    reply_write(&why, WIRE_OPENAI, NOW, 0, &reply);
    expect_field(&reply, "allow", "GET");
    expect_field(&reply, "x-tollgate-binding-axis", "");
    why = refused(REPLY_INVALID_API_KEY, 0, 0);
    reply_write(&why, WIRE_ANTHROPIC, NOW, 0, &reply);
    expect_field(&reply, "www-authenticate", "Bearer");
    why = refused(REPLY_COST, 10, 0);
    why.binding = TG_AXIS_COST;
    reply_write(&why, WIRE_OPENAI, NOW, 0, &reply);
    expect_field(&reply, "x-tollgate-binding-axis", "cost");
}

/* ---- What others have written ---------------------------------------------------------------- */

static void names_in_messages_are_escaped(void **state)
{
    struct refusal why;
    struct reply reply;

    refusal_init(&why, REPLY_MODEL_NOT_FOUND, "model '%s'", "\"},\"x\":"
                                                            "{\"\\\n\x01\x7f\xff\xc3\xa9");
    for (int api = 0; api < 2; api++) {
        reply_write(&why, (enum wire_api)api, NOW, 0, &reply);
        assert_string_equal(read_body(*state, reply.body).message,
                            "model '\"},\"x\":{\"\\\n\x01\x7f\xef\xbf\xbd\xc3\xa9'");
        for (size_t i = 0; i < reply.body.n; i++)
            assert_true((unsigned char)reply.body.at[i] >= ' ' && reply.body.at[i] != 0x7f);
    }
}

static void longest_message_has_room(void **state)
{
    struct refusal why;
    struct reply reply;
    char text[2000];

    memset(text, 1, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    refusal_init(&why, REPLY_BUDGET_CONTENDED, "%s", text);
    memset(why.param, 2, sizeof why.param - 1);
    why.retry_after_ms = 60000;
    for (int api = 0; api < 2; api++) {
        reply_write(&why, (enum wire_api)api, NOW, UINT64_MAX, &reply);
        assert_int_equal(strlen(read_body(*state, reply.body).message), REPLY_TEXT_MAX - 1);
        assert_true(reply.used <= sizeof reply.room);
        reply_event(&why, (enum wire_api)api, &reply);
        assert_true(reply.used <= sizeof reply.room);
    }
}

static void field_that_is_wrong_is_named(void **state)
{
    struct ask_problem problem = {.param = "max_tokens",
                                  .text = "'max_tokens' must be a whole number"};
    struct refusal why;
    struct reply reply;

    refusal_of_ask(&problem, &why);
    reply_write(&why, WIRE_OPENAI, NOW, 0, &reply);
    struct error_body body = read_body(*state, reply.body);
    assert_int_equal(reply.status, 400);
    assert_string_equal(body.param, "max_tokens");
    assert_string_equal(body.message, problem.text);
}

static void error_in_a_stream_is_one_event(void **state)
{
    struct refusal why = refused(REPLY_UPSTREAM_ERROR, 0, 0);
    struct reply reply;
    struct slice event = reply_event(&why, WIRE_OPENAI, &reply);

    assert_memory_equal(event.at, "data: {", 7);
    assert_memory_equal(event.at + event.n - 2, "\n\n", 2);
    assert_string_equal(read_body(*state, (struct slice){event.at + 6, event.n - 8}).code,
                        "upstream_error");
    event = reply_event(&why, WIRE_ANTHROPIC, &reply);
    assert_memory_equal(event.at, "event: error\ndata: {", 20);
    assert_string_equal(read_body(*state, (struct slice){event.at + 19,
                                                         event.n - 21})
                            .type,
                        "api_error");
}

/* ---- Of gates and pools ---------------------------------------------------------------------- */

static void answers_of_a_gate_become_refusals(void **state)
{
    struct tg_call call;
    struct tg_answer answer = {.reason = TG_REASON_PEER_LIMIT, .decision = DENIED(64, 0, NOW, 100)};
    struct refusal why;

    (void)state;
    tg_call_init(&call);
    call.peer = "node-7";
    call.peer_bytes = 6;
    refusal_of_answer(&answer, &call, &why);
    assert_int_equal(why.reason, REPLY_PEER_LIMIT);
    assert_string_equal(why.text, "peer node-7 exceeded per-peer limit: 64 calls at once");
    assert_int_equal(why.retry_after_ms, 100);
    assert_int_equal(why.binding, TG_AXIS_NONE);

    answer = (struct tg_answer){.reason = TG_REASON_RATE, .decision = DENIED(5, 0, NOW + 50, 20)};
    answer.axes.present = 1u << TG_AXIS_RATE;
    answer.axes.decision[TG_AXIS_RATE] = answer.decision;
    answer.axes.named[TG_AXIS_RATE].decision = answer.decision;
    refusal_of_answer(&answer, &call, &why);
    assert_int_equal(why.reason, REPLY_RATE);
    assert_int_equal(why.binding, TG_AXIS_RATE);
    assert_string_equal(why.text, "rate limit: at most 5 calls, 0 left, next in 20 ms");

    answer.decision.retry_after_ms = TG_UNSATISFIABLE;
    answer.axes.decision[TG_AXIS_RATE] = answer.decision;
    refusal_of_answer(&answer, &call, &why);
    assert_int_equal(why.reason, REPLY_REQUEST_EXCEEDS_LIMIT);

    answer = (struct tg_answer){.reason = TG_REASON_POLICY, .decision = DENIED(5, 0, NOW, 0)};
    answer.policy_denied = true;
    refusal_of_answer(&answer, &call, &why);
    assert_int_equal(why.reason, REPLY_POLICY);
    assert_int_equal(why.binding, TG_AXIS_NONE);

    answer = (struct tg_answer){.reason = TG_REASON_MEMORY_PRESSURE, .memory_used = 0.96};
    answer.decision = DENIED(0, 0, NOW, 100);
    refusal_of_answer(&answer, &call, &why);
    assert_string_equal(why.text, "memory pressure: 96.0% used");
    answer = (struct tg_answer){.reason = TG_REASON_CONCURRENCY, .decision = DENIED(8, 0, NOW, 30)};
    answer.client_wait_ms = 120;
    refusal_of_answer(&answer, &call, &why);
    assert_string_equal(
        why.text, "server overloaded: concurrency limit: 8 calls at once, try again in 120 ms");
    assert_int_equal(why.retry_after_ms, 120);
    answer.reason = TG_REASON_NONE;
    refusal_of_answer(&answer, &call, &why);
    assert_int_equal(why.reason, REPLY_INTERNAL);
}

static void pools_without_a_key_become_refusals(void **state)
{
    struct tg_key_answer answer = {.retry_after_ms = 700};
    struct refusal why;

    (void)state;
    refusal_of_keys(&answer, &why);
    assert_int_equal(why.reason, REPLY_NO_KEY);
    assert_int_equal(why.retry_after_ms, 700);
    answer.all_cooling = true;
    refusal_of_keys(&answer, &why);
    assert_int_equal(why.reason, REPLY_KEYS_COOLING);
    answer.too_large = true;
    refusal_of_keys(&answer, &why);
    assert_int_equal(why.reason, REPLY_REQUEST_EXCEEDS_LIMIT);
}

/* ---- Successes ------------------------------------------------------------------------------- */

static void successes_say_what_is_left(void **state)
{
    static const char *const openai[][2] = {
        {"x-ratelimit-limit-requests", "60"},
        {"x-ratelimit-remaining-requests", "59"},
        {"x-ratelimit-reset-requests", "1s"},
        {"x-ratelimit-limit-tokens", "9007199254740991"},
        {"x-ratelimit-remaining-tokens", "0"},
        {"x-ratelimit-reset-tokens", "6m0s"},
    };
    static const char *const anthropic[][2] = {
        {"anthropic-ratelimit-requests-limit", "60"},
        {"anthropic-ratelimit-requests-remaining", "59"},
        {"anthropic-ratelimit-requests-reset", "2023-11-14T22:13:21Z"},
        {"anthropic-ratelimit-tokens-limit", "9007199254740991"},
        {"anthropic-ratelimit-tokens-remaining", "0"},
        {"anthropic-ratelimit-tokens-reset", "2023-11-14T22:19:20Z"},
    };
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST};
    struct reply_limits limits;

    (void)state;
    /* The combination of several limits is no limit of anybody: it is not shown. */
    axes.decision[TG_AXIS_RATE] = ALLOWED(5, 4, NOW + 9000);
    axes.named[TG_AXIS_RATE].decision = ALLOWED(60, 59, NOW + 1000);
    axes.named[TG_AXIS_COST].decision = ALLOWED(TG_NUMBER_MAX, 0, NOW + 360000);
    for (int api = 0; api < 2; api++) {
        reply_limits_write(&axes, (enum wire_api)api, NOW, NOW, &limits);
        assert_int_equal(limits.n_fields, 6);
        for (size_t i = 0; i < 6; i++) {
            const char *const *want = api == WIRE_OPENAI ? openai[i] : anthropic[i];
            assert_int_equal(limits.fields[i].name.n, strlen(want[0]));
            assert_memory_equal(limits.fields[i].name.at, want[0], strlen(want[0]));
            assert_int_equal(limits.fields[i].value.n, strlen(want[1]));
            assert_memory_equal(limits.fields[i].value.at, want[1], strlen(want[1]));
        }
    }
    axes.present = 1u << TG_AXIS_COST;
    reply_limits_write(&axes, WIRE_OPENAI, NOW, NOW, &limits);
    assert_int_equal(limits.n_fields, 3);
    axes.present = 1u << TG_AXIS_CONCURRENCY;
    reply_limits_write(&axes, WIRE_OPENAI, NOW, NOW, &limits);
    assert_int_equal(limits.n_fields, 0);
}

static void all_numbers_have_room(void **state)
{
    struct tg_axes axes = {.present = 1u << TG_AXIS_RATE | 1u << TG_AXIS_COST};
    struct reply_limits limits;

    (void)state;
    axes.decision[TG_AXIS_RATE] = ALLOWED(TG_NUMBER_MAX, TG_NUMBER_MAX, TG_NUMBER_MAX);
    axes.decision[TG_AXIS_COST] = axes.decision[TG_AXIS_RATE];
    for (int api = 0; api < 2; api++) {
        reply_limits_write(&axes, (enum wire_api)api, 1, 1, &limits);
        assert_true(limits.used <= sizeof limits.room);
    }
}

static void times_are_written_as_the_apis_do(void **state)
{
    static const struct {
        tg_ms ms;
        const char *duration, *date;
    } rows[] = {
        {0, "0s", "1970-01-01T00:00:00Z"},
        {120, "120ms", "1970-01-01T00:00:00.120Z"},
        {1000, "1s", "1970-01-01T00:00:01Z"},
        {8640, "8.64s", "1970-01-01T00:00:08.640Z"},
        {1005, "1.005s", "1970-01-01T00:00:01.005Z"},
        {60000, "1m0s", "1970-01-01T00:01:00Z"},
        {360000, "6m0s", "1970-01-01T00:06:00Z"},
        {3723500, "1h2m3.5s", "1970-01-01T01:02:03.500Z"},
        {86400000, "24h0m0s", "1970-01-02T00:00:00Z"},
        {INT64_C(1709164800000), "474768h0m0s", "2024-02-29T00:00:00Z"},
        {-5, "0s", "1970-01-01T00:00:00Z"},
        {TG_NUMBER_MAX, "2501999792h59m0.991s", "9999-12-31T23:59:59.999Z"},
    };
    char text[REPLY_DURATION_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(reply_duration(rows[i].ms, text), strlen(rows[i].duration));
        assert_string_equal(text, rows[i].duration);
        assert_int_equal(reply_date(rows[i].ms, text), strlen(rows[i].date));
        assert_string_equal(text, rows[i].date);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reason_has_its_status),
        cmocka_unit_test(bodies_have_the_form_of_their_api),
        cmocka_unit_test(words_that_clients_know_are_used),
        cmocka_unit_test(waits_are_told_up_to_a_minute),
        cmocka_unit_test(hints_are_never_too_short),
        cmocka_unit_test(other_fields_are_where_they_belong),
        cmocka_unit_test(names_in_messages_are_escaped),
        cmocka_unit_test(longest_message_has_room),
        cmocka_unit_test(field_that_is_wrong_is_named),
        cmocka_unit_test(error_in_a_stream_is_one_event),
        cmocka_unit_test(answers_of_a_gate_become_refusals),
        cmocka_unit_test(pools_without_a_key_become_refusals),
        cmocka_unit_test(successes_say_what_is_left),
        cmocka_unit_test(all_numbers_have_room),
        cmocka_unit_test(times_are_written_as_the_apis_do),
    };

    return cmocka_run_group_tests_name("replies", tests, setup, teardown);
}
