/* test_call_failures.c - what a call does when its provider fails: retries, fallbacks, and what the
 * client is told in the end.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "lib/core/random.h"

/* ---- failures ---- */

/* Between attempts at the same key a call pauses 50 to 200 ms. */
static void a_retry_of_the_same_key_backs_off(void **state)
{
    tg_ms least = 1000, most = 0;

    (void)state;
    for (int i = 0; i < 12; i++) {
        begin(NULL);
        random_init(&call_kit.worker.random, (uint64_t)i, 7);
        call_client_ask(&client, CALL_KIT_BODY);
        const struct route_key *first = client.call->last_key;
        call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
        expect_state(CALL_PAUSING);
        tg_ms pause = call_kit.last_timer;
        assert_in_range(pause, 50, 200);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
        call_kit_pass(pause - 1);
        expect_state(CALL_PAUSING);
        assert_int_equal(call_kit.n_outs, 1);
        call_kit_pass(1);
        expect_state(CALL_ASKING);
        assert_int_equal(call_kit.n_outs, 2);
        assert_ptr_equal(client.call->last_key, first);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
    assert_true(least < 90 && most > 160); /* with jitter: not all clients come back at once */
}

/* A failure that is the key's own needs no pause where there is another. */
static void another_key_is_tried_at_once(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    expect_state(CALL_PAUSING);
    assert_int_equal(call_kit.last_timer, 1);
    call_kit_pass(1);
    expect_state(CALL_ASKING);
    assert_ptr_not_equal(client.call->last_key, first);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.status, 200);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void retries_end_with_the_error_of_the_provider(void **state)
{
    const char *error = "{\"error\":{\"message\":\"down\"}}";

    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 3; i++) {
        expect_state(CALL_ASKING);
        call_out_reply(call_kit_out(), 503, JSON, error);
        call_kit_pass(1000);
    }
    expect_state(CALL_OVER);
    assert_int_equal(call_kit.n_outs, 3); /* retries: 2 */
    assert_int_equal(client.status, 503);
    assert_string_equal(client.body, error);
    assert_int_equal(client.call->attempts, 3);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_retry_after_the_deadline_is_not_made(void **state)
{
    const struct call_kit_config config = {.first = "timeouts: {total: 40ms}"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.total, 40);
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A kept connection that its provider closed meanwhile: once, and at once, and at the same key. */
static void a_stale_connection_is_replaced_once(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_kit_out()->out.reused = call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit.n_outs, 2);
    assert_int_equal(client.call->route_attempts, 1);
    assert_ptr_equal(client.call->last_key, first);
    call_kit_out()->out.reused = call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_PAUSING);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* A request that was sent and never answered may have run: what it may have written by then is
 * charged, five tokens in the first second here, and what it can have cost is uncertain. */
static void a_timeout_is_charged_with_what_it_may_have_written(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0, most_tokens_per_s: 5"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t prompt = client.call->attempt.prompt;
    assert_true(prompt > 0);
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_LATE_FIRST_BYTE);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 504);
    assert_int_equal(client.call->used, prompt + 5);
    assert_int_equal(client.call->spent, prompt + 2 * 5);
    assert_int_equal(client.call->uncertain, client.call->attempt.bound.input - prompt);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- what a client brings about ---- */

/* What the failures so far have done to what all tenants share: the keys' breakers, and the law of
 * the route, which is one that steps back at once. */
static void expect_unmoved_keys(bool unmoved)
{
    const struct route *route = &gateway_newest(call_kit.gateway)->routes[0];
    struct tg_key_metrics keys[2];

    assert_int_equal(tg_pool_get_keys(route->pool, call_kit.now, 0, keys, 2), 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(keys[i].breaker, unmoved ? TG_BREAKER_CLOSED : TG_BREAKER_OPEN);
        assert_int_equal(keys[i].consecutive_fails == 0, unmoved);
        assert_int_equal(keys[i].cool_down_until, 0);
    }
}

static void expect_unmoved(bool unmoved)
{
    const struct route *route = &gateway_newest(call_kit.gateway)->routes[0];
    struct tg_gate_stats stats;

    expect_unmoved_keys(unmoved);
    tg_gate_get_stats(route->slots->gate, &stats);
    assert_int_equal(stats.limit == 20, unmoved);
}

#define ONE_KEY "keys: [{name: k1, secret: \"${CALL_KIT_SECRET}\"}]"
#define LAW_THAT_STEPS_BACK "concurrency: {law: aimd, initial: 20, min: 1, max: 20}"

/* Attack 8: five calls for each key with `x-request-timeout-ms: 1` took the keys from everybody. */
static void attack_8_a_clients_deadline_opens_no_breaker(void **state)
{
    static const struct {
        const char *name, *value;
        tg_ms after;
    } rows[] = {{"x-request-timeout-ms", "1", 1},
                {"x-stainless-timeout", "1", 1000},
                {"x-request-timeout-ms", "59999", 59999}};
    const struct call_kit_config config = {
        .first = "retries: 2, fallback: [second], timeouts: {total: 60s}, " LAW_THAT_STEPS_BACK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_says(rows[i].name, rows[i].value);
        for (int n = 0; n < 20; n++) {
            call_client_ask(&client, CALL_KIT_BODY);
            assert_int_equal(call_kit_out()->timeouts.head, rows[i].after);
            call_kit_out()->out.sent = true;
            call_kit_pass(rows[i].after);
            call_out_fail(call_kit_out(), HTTP_LATE_TOTAL);
            expect_state(CALL_OVER); /* nobody waits for another attempt */
            assert_int_equal(client.status, 504);
            assert_string_equal(client.reason, "upstream_timeout");
            assert_int_equal(call_kit.report.outcome, TG_KEY_CANCELLED);
            assert_string_equal(call_failure_name(client.call->failure), "deadline");
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
        expect_unmoved(true);
        call_kit_expect_metric("tollgate_upstream_total{provider=\"p\",model=\"first\","
                               "class=\"cancelled\"} 20");
        call_kit_close();
    }
}

/* Attack 20: requests at which a provider fails, of one tenant, took its keys from everybody. While
 * another is served, they say nothing of the keys, unless the request was never sent. */
static void attack_20_failures_of_one_tenant_open_no_breaker(void **state)
{
    static const struct {
        enum http_why why; /* HTTP_DONE: 500 */
        bool sent, others;
    } rows[] = {
        {HTTP_DONE, true, true},
        {HTTP_LATE_FIRST_BYTE, true, true},
        {HTTP_RESET, true, true},
        {HTTP_LATE_CONNECT, false, true},
        {HTTP_UNREACHABLE, false, true},
        {HTTP_DONE, true, false},
    };
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool unmoved = rows[i].sent && rows[i].others;
        begin(&config);
        const struct route *route = &gateway_newest(call_kit.gateway)->routes[0];
        static const char *const keys[] = {"k1", "k2"};
        for (size_t k = 0; rows[i].others && k < COUNT_OF(keys); k++)
            key_failures_served(call_kit.gateway->failures, key_failures_id(route->pool, keys[k]),
                                2, call_kit.now);
        for (int n = 0; n < 20; n++) {
            call_client_ask(&client, CALL_KIT_BODY);
            if (client.call->state == CALL_ASKING) {
                call_kit_out()->out.sent = rows[i].sent;
                if (rows[i].why == HTTP_DONE)
                    call_out_reply(call_kit_out(), 500, JSON, "{}");
                else
                    call_out_fail(call_kit_out(), rows[i].why);
                assert_int_equal(call_kit.report.outcome,
                                 unmoved ? TG_KEY_CANCELLED : TG_KEY_FAILED);
            }
            expect_state(CALL_OVER);
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
        expect_unmoved_keys(unmoved);
        call_kit_close();
    }
}

/* Attack 21: a call of more tokens than an account ever takes is a 429, too. No key has to rest for
 * it, another may have more room, and its client is told not to come back. */
static void attack_21_a_call_that_is_too_large_rests_no_key(void **state)
{
    const char *error = "{\"error\":{\"message\":\"Request too large for gpt-4o on tokens "
                        "per min (TPM): Limit 1, Requested 2.\",\"type\":\"tokens\"}}";
    const struct call_kit_config config = {
        .first = ONE_KEY ", concurrency: {law: auto, initial: 20, min: 1, max: 20}"};

    struct tg_law_metrics law;

    (void)state;
    begin(NULL);
    call_out_says("retry-after", "20");
    for (int n = 0; n < 8; n++) {
        call_client_ask(&client, CALL_KIT_BODY);
        const struct route_key *first = client.call->last_key;
        call_out_reply(call_kit_out(), 429, JSON, error);
        assert_int_equal(call_kit.report.outcome, TG_KEY_REJECTED);
        expect_state(CALL_PAUSING);
        call_kit_pass(1);
        expect_state(CALL_ASKING);
        assert_ptr_not_equal(client.call->last_key, first);
        call_out_reply(call_kit_out(), 429, JSON, error);
        assert_int_equal(call_kit.report.outcome, TG_KEY_REJECTED);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, 400);
        assert_string_equal(client.reason, "request_exceeds_limit");
        assert_string_equal(call_failure_name(client.call->failure), "too_large");
        assert_int_equal(client.call->spent, 0);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
    }
    expect_unmoved_keys(true);
    call_kit_close();
    begin(&config); /* nor is the route told to wait */
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_says("retry-after", "20");
    call_out_reply(call_kit_out(), 429, JSON, error);
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
    assert_int_equal(law.limit, 20);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* A time-out of ours counts, also for a client that would have waited as long, or longer. */
static void our_own_timeouts_open_the_breaker(void **state)
{
    static const struct {
        const char *said;
        enum http_why why;
    } rows[] = {
        {NULL, HTTP_LATE_TOTAL},
        {"60000", HTTP_LATE_TOTAL},
        {"60001", HTTP_LATE_TOTAL},
        {"1000", HTTP_LATE_CONNECT},
        {"1000", HTTP_LATE_FIRST_BYTE},
        {"1000", HTTP_LATE_IDLE},
    };
    const struct call_kit_config config = {
        .first = "retries: 0, timeouts: {total: 60s}, " LAW_THAT_STEPS_BACK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        if (rows[i].said != NULL)
            call_client_says("x-request-timeout-ms", rows[i].said);
        for (int n = 0; n < 20; n++) {
            call_client_ask(&client, CALL_KIT_BODY);
            if (client.call->state == CALL_ASKING)
                call_out_fail(call_kit_out(), rows[i].why);
            expect_state(CALL_OVER);
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
        expect_unmoved(false);
        call_kit_close();
    }
}

/* The same for a reply that has begun: the client's deadline for the whole of it, and a client that
 * reads so slowly that our time runs out, or that the provider breaks it off. */
static void a_client_that_reads_slowly_opens_no_breaker(void **state)
{
    static const struct {
        const char *said; /* x-request-timeout-ms */
        bool slowly;
        enum http_why why;
        bool unmoved;
    } rows[] = {
        {"1000", false, HTTP_LATE_TOTAL, true},
        {NULL, true, HTTP_LATE_TOTAL, true},
        {NULL, true, HTTP_RESET, true},
        {NULL, false, HTTP_LATE_TOTAL, false},
        {NULL, false, HTTP_RESET, false},
        {"1000", false, HTTP_LATE_IDLE, false},
    };
    const struct call_kit_config config = {
        .first = "retries: 0, timeouts: {total: 60s}, " LAW_THAT_STEPS_BACK};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        if (rows[i].said != NULL)
            call_client_says("x-request-timeout-ms", rows[i].said);
        for (int n = 0; n < 20; n++) {
            call_client_ask(&client, CALL_KIT_BODY);
            if (client.call->state == CALL_ASKING) {
                call_out_head(call_kit_out(), 200, JSON);
                client.queued = rows[i].slowly ? HTTP_OUTPUT_HIGH + 1 : 0;
                call_out_data(call_kit_out(), "{");
                client.queued = 0;
                if (rows[i].slowly)
                    call_step(client.call, CALL_ON_ROOM, NULL);
                call_kit_out()->out.sent = true;
                call_out_fail(call_kit_out(), rows[i].why);
            }
            expect_state(CALL_OVER);
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
        expect_unmoved(rows[i].unmoved);
        call_kit_close();
    }
}

/* Attack 15: our own lack of memory is told as such, and opens no breaker. */
static void attack_15_our_own_lack_of_memory_opens_no_breaker(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 2, fallback: [second], " LAW_THAT_STEPS_BACK};

    (void)state;
    begin(&config);
    for (int n = 0; n < 20; n++) {
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_fail(call_kit_out(), HTTP_NO_MEMORY);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, 503);
        assert_string_equal(client.reason, "memory_pressure");
        expect_in(client.head, "retry-after-ms");
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
    }
    expect_unmoved(true);
    call_kit_close();
}

/* Attack 13: the log line and the metrics say why a provider cannot be reached. */
static void a_failure_tells_its_cause(void **state)
{
    static const struct {
        enum http_why why;
        enum http_cause cause;
        const char *text, *logged, *label;
    } rows[] = {
        {HTTP_UNRESOLVED, HTTP_CAUSE_NAME, "x: unknown", "name_not_found", "name_not_found"},
        {HTTP_UNREACHABLE, HTTP_CAUSE_REFUSED, "10.1.1.1: no", "refused", "refused"},
        {HTTP_UNTRUSTED, HTTP_CAUSE_CERTIFICATE, "certificate: self-signed certificate",
         "certificate: self-signed certificate", "certificate"},
        {HTTP_LATE_CONNECT, HTTP_CAUSE_HANDSHAKE_TIMEOUT, "no", "handshake_timeout",
         "handshake_timeout"},
    };
    const struct call_kit_config config = {.first = "retries: 0"};
    char text[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit_observe(false);
        call_client_ask(&client, CALL_KIT_BODY);
        struct call_out *out = call_kit_out();
        out->out.cause = rows[i].cause;
        out->over = true;
        call_client_ops.failed(&out->out, rows[i].why, rows[i].text);
        expect_state(CALL_OVER);
        call_client_gone(&client, HTTP_DONE);
        snprintf(text, sizeof text, "\"cause\":\"%s\"", rows[i].logged);
        expect_in(call_kit_line(), text);
        expect_not_in(call_kit_line(), "10.1.1.1");
        snprintf(text, sizeof text,
                 "tollgate_upstream_failures_total{provider=\"p\",model=\"first\","
                 "cause=\"%s\"} 1",
                 rows[i].label);
        call_kit_expect_metric(text);
        end();
    }
}

static void a_broken_stream_ends_with_an_error_event(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_OVER);
    assert_non_null(strstr(client.body, "upstream_error"));
    assert_int_equal(client.finished, 1);
    assert_true(client.call->spent > 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_broken_reply_is_cut_off(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    call_out_data(call_kit_out(), "{\"id\":");
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_OVER);
    assert_int_equal(client.aborted, 1);
    call_client_gone(&client, HTTP_ABORTED);
    end();
}

/* Two failures: the same key once more after a pause, and then another one at once. */
static void keys_are_tried_in_order(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    assert_in_range(call_kit.last_timer, 50, 200);
    call_kit_pass(200);
    assert_ptr_equal(client.call->last_key, first);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    assert_in_range(call_kit.last_timer, 100, 400);
    call_kit_pass(400);
    assert_ptr_not_equal(client.call->last_key, first);
    assert_int_equal(client.call->attempts, 3);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.retries), 2);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Where waiting would not help, for the failure is the key's own, another one is asked at once; a
 * slow key is left, too, after a pause. */
static void another_key_is_tried_after_other_failures(void **state)
{
    static const int statuses[] = {402, 429, 401, 403, 0};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        begin(NULL);
        call_client_ask(&client, CALL_KIT_BODY);
        const struct route_key *first = client.call->last_key;
        if (statuses[i] != 0)
            call_out_reply(call_kit_out(), statuses[i], JSON, "{}");
        else
            call_out_fail(call_kit_out(), HTTP_LATE_CONNECT);
        assert_in_range(call_kit.last_timer, statuses[i] ? 1 : 50, statuses[i] ? 1 : 200);
        call_kit_pass(call_kit.last_timer);
        expect_state(CALL_ASKING);
        assert_ptr_not_equal(client.call->last_key, first);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

#define KEY_THAT_STAYS "breaker: {failures: 1000}"

/* Each pause is drawn between 50 and 200 ms, and doubled for each attempt before it. */
static void all_retries_are_made_with_one_key(void **state)
{
    const struct call_kit_config config = {.first = "retries: 8, " ONE_KEY ", " KEY_THAT_STAYS};
    const unsigned most = 6; /* doublings */

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    for (unsigned i = 0; i < 8; i++) {
        expect_state(CALL_ASKING);
        call_out_reply(call_kit_out(), 503, JSON, "{}");
        expect_state(CALL_PAUSING);
        assert_in_range(call_kit.last_timer, 50 << (i < most ? i : most),
                        200 << (i < most ? i : most));
        call_kit_pass(call_kit.last_timer);
    }
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    expect_state(CALL_OVER);
    assert_int_equal(client.call->attempts, 9);
    assert_int_equal(client.status, 503);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The same key, the other key, and then whichever can serve. */
static void all_retries_are_made_with_two_keys(void **state)
{
    const struct call_kit_config config = {.first = "retries: 3, " KEY_THAT_STAYS};
    const struct route_key *keys[4];

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    for (size_t i = 0; i < 4; i++) {
        expect_state(CALL_ASKING);
        keys[i] = client.call->last_key;
        call_out_reply(call_kit_out(), 503, JSON, "{}");
        call_kit_pass(2000);
    }
    expect_state(CALL_OVER);
    assert_ptr_equal(keys[1], keys[0]);
    assert_ptr_not_equal(keys[2], keys[0]);
    assert_non_null(keys[3]);
    assert_int_equal(client.call->attempts, 4);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Nobody is kept waiting for a key that cannot serve by then. */
static void a_retry_needs_a_key_that_can_serve(void **state)
{
    static const struct {
        const char *more;
        int status;
        const char *wait; /* retry-after-ms of the provider */
        unsigned attempts;
        int told;
    } rows[] = {
        {KEY_THAT_STAYS, 429, "60000", 1, 429},        /* it cools for a minute */
        {KEY_THAT_STAYS, 429, "20", 5, 429},           /* it is good again in time */
        {KEY_THAT_STAYS, 401, NULL, 1, 502},           /* it would be turned away again */
        {"breaker: {failures: 2}", 500, NULL, 2, 500}, /* its breaker has opened */
    };
    char first[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = first};
        snprintf(first, sizeof first, "retries: 4, " ONE_KEY ", %s", rows[i].more);
        begin(&config);
        call_kit.n_reply = 0;
        if (rows[i].wait != NULL)
            call_out_says("retry-after-ms", rows[i].wait);
        call_client_ask(&client, CALL_KIT_BODY);
        while (client.call->state == CALL_ASKING) {
            call_out_reply(call_kit_out(), rows[i].status, JSON, "{}");
            call_kit_pass(client.call->state == CALL_PAUSING ? call_kit.last_timer : 0);
        }
        expect_state(CALL_OVER);
        assert_int_equal(client.call->attempts, rows[i].attempts);
        assert_int_equal(client.status, rows[i].told);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* More keys than a call remembers: each attempt has one, and none that was turned away returns. */
static void refused_keys_are_not_tried_again(void **state)
{
    char first[2000];
    size_t n = (size_t)snprintf(first, sizeof first, "retries: 20, " KEY_THAT_STAYS ", keys: [");

    (void)state;
    for (int i = 0; i < 12; i++)
        n += (size_t)snprintf(first + n, sizeof first - n,
                              "%s{name: k%d, secret: \"${CALL_KIT_SECRET}\"}", i ? ", " : "", i);
    snprintf(first + n, sizeof first - n, "]");
    const struct call_kit_config config = {
        .first = first, .top = "retry_budget: {ratio: 1, min_per_s: 100}\n"};
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *refused = client.call->last_key;
    call_out_reply(call_kit_out(), 401, JSON, "{}");
    call_kit_pass(call_kit.last_timer);
    for (int i = 0; i < 14; i++) {
        expect_state(CALL_ASKING);
        assert_ptr_not_equal(client.call->last_key, refused);
        call_out_reply(call_kit_out(), 503, JSON, "{}");
        call_kit_pass(call_kit.last_timer);
    }
    assert_int_equal(client.call->attempts, 16);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* An attempt that would begin at the deadline or after it is not made. */
static void a_retry_has_to_begin_before_the_deadline(void **state)
{
    static const struct {
        const char *first;
        tg_ms fails_after;
        enum call_state then;
    } rows[] = {
        {"timeouts: {total: 100ms}", 98, CALL_PAUSING},
        {"timeouts: {total: 100ms}", 99, CALL_OVER},
        {"retries: 0, fallback: [second], timeouts: {total: 100ms}", 99, CALL_ASKING},
        {"retries: 0, fallback: [second], timeouts: {total: 100ms}", 100, CALL_OVER},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = rows[i].first};
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        call_kit_pass(rows[i].fails_after);
        call_out_reply(call_kit_out(), 401, JSON, "{}");
        expect_state(rows[i].then);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* When a provider fails for everybody, retries are not free. */
static void a_retry_has_to_be_earned(void **state)
{
    const struct call_kit_config config = {.first = "retries: 2",
                                           .top = "retry_budget: {ratio: 0, min_per_s: 0}\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "<html>");
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.retries), 0);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallbacks), 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* It goes where there is no failure yet, and an outage is when it is needed. */
static void a_fallback_need_not_be_earned(void **state)
{
    const struct call_kit_config config = {.first = "retries: 2, fallback: [second]",
                                           .top = "retry_budget: {ratio: 0, min_per_s: 0}\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "<html>");
    expect_state(CALL_ASKING);
    assert_string_equal(client.call->route->config->name, "second");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.retries), 0);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallbacks), 1);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Attack 11: what one tenant says and does takes no retry from another, nor from itself. */
static void attack_11_a_header_drains_nobodys_retries(void **state)
{
    static const struct call_kit_config config = {
        .top = "  - {name: two, keys: [{name: k, sha256: "
               "0000000000000000000000000000000000000000000000000000000000000000}]}\n"};

    (void)state;
    begin(&config);
    call_client_says("x-stainless-retry-count", "3");
    for (int i = 0; i < 2000; i++) { /* for nothing: there is no such model */
        call_client_ask(&client, "{\"model\":\"none\",\"messages\":[]}");
        assert_int_equal(client.status, 404);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
    }
    struct retry_budget *two = &gateway_newest(call_kit.gateway)->shares[1]->retries;
    const struct config *read = &gateway_newest(call_kit.gateway)->config;
    assert_true(retry_budget_take(two, read, call_kit.now));
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    expect_state(CALL_PAUSING);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* What one tenant has used up stays used up when the configuration is read again. */
static void a_reload_keeps_what_is_left_of_retries(void **state)
{
    const struct call_kit_config config = {.first = "retries: 2",
                                           .top = "retry_budget: {ratio: 0, min_per_s: 1}\n"};

    (void)state;
    begin(&config);
    struct retry_budget *before = &gateway_newest(call_kit.gateway)->shares[0]->retries;
    while (retry_budget_take(before, &gateway_newest(call_kit.gateway)->config, call_kit.now))
        continue;
    call_kit_reload(&config);
    assert_ptr_equal(&gateway_newest(call_kit.gateway)->shares[0]->retries, before);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    expect_state(CALL_OVER);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Only a kept connection that was closed before anything came is nobody's failure. */
static void only_a_stale_connection_is_replaced(void **state)
{
    static const struct {
        bool reused, head_seen;
        enum http_why why;
        bool replaced;
    } rows[] = {
        {true, false, HTTP_RESET, true},
        {false, false, HTTP_RESET, false},
        {true, true, HTTP_RESET, false},
        {true, false, HTTP_GARBAGE, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_ask(&client, CALL_KIT_STREAM);
        if (rows[i].head_seen)
            call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_kit_out()->out.reused = rows[i].reused;
        call_kit_out()->out.sent = true;
        call_out_fail(call_kit_out(), rows[i].why);
        expect_state(rows[i].replaced ? CALL_ASKING : CALL_PAUSING);
        assert_int_equal(call_kit.n_outs, rows[i].replaced ? 2 : 1);
        assert_int_equal(call_kit.report.outcome,
                         rows[i].replaced ? TG_KEY_CANCELLED : TG_KEY_FAILED);
        assert_int_equal(client.call->spent > 0, rows[i].head_seen);
        assert_true(client.call->uncertain > 0); /* whoever closed it may have read the request */
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

/* A key may be of a newer configuration than its call: both are held until the call ends. */
static void a_retry_may_take_a_key_of_a_newer_configuration(void **state)
{
    const struct call_kit_config newer = {.first = "retries: 7", .key = "rpm: 50"};

    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    struct generation *old = client.call->generation;
    call_out_reply(call_kit_out(), 401, JSON, "{}");
    call_kit_reload(&newer);
    struct generation *now = gateway_newest(call_kit.gateway);
    assert_ptr_not_equal(now, old);
    call_kit_pass(1);
    expect_state(CALL_ASKING);
    assert_ptr_equal(client.call->generation, old);
    assert_ptr_equal(client.call->last_key->generation, now);
    assert_int_equal(now->refs[0].n, 1);
    assert_int_equal(old->refs[0].n, 1);
    call_kit_out()->out.reused = call_kit_out()->out.sent = true;
    call_kit_reload(NULL);
    call_out_fail(call_kit_out(), HTTP_RESET); /* the same key again, which is newer still */
    struct generation *last = gateway_newest(call_kit.gateway);
    assert_ptr_equal(client.call->last_key->generation, last);
    assert_int_equal(last->refs[0].n, 1);
    assert_int_equal(now->refs[0].n, 0);
    assert_int_equal(old->refs[0].n, 1);
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(last->refs[0].n, 0);
    assert_int_equal(old->refs[0].n, 0);
    call_kit_close();
}

/* ---- fallbacks ---- */

static void a_fallback_serves_when_a_route_fails(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0, fallback: [second]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "server");
    assert_int_equal(client.call->route_attempts, 1);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, "second");
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallbacks), 1);
    end();
}

static void a_fallback_serves_when_no_key_is_free(void **state)
{
    const struct call_kit_config config = {.key = "concurrency: 1", .first = "fallback: [second]"};
    static struct call_client third;

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&third, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY); /* both keys are in use for the first model */
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "no_key");
    call_client_gone(&client, HTTP_HANGUP);
    call_client_gone(&other, HTTP_HANGUP);
    call_client_gone(&third, HTTP_HANGUP);
    struct call *calls[] = {client.call, other.call, third.call};
    call_kit_expect_idle(calls, 3);
    call_kit_close();
}

static void without_a_key_and_a_fallback_a_call_is_refused(void **state)
{
    const struct call_kit_config config = {.key = "rpm: 1", .first = "retries: 0"};

    (void)state;
    begin(&config);
    for (int i = 0; i < 2; i++) {
        call_client_ask(&other, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        call_client_gone(&other, HTTP_DONE);
        call_kit_expect_released(&other);
    }
    other.call = NULL;
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "no_key");
    assert_int_equal(client.call->attempts, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What refused the call was the route that it has left: neither log nor metrics may name that. */
static void a_fallback_forgets_the_axis_that_refused(void **state)
{
    const struct call_kit_config config = {
        .first = ONE_SLOT ", fallback: [second]",
        .gate = "  queue: {size: 0}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "concurrency");
    assert_int_equal(client.call->notes.axis, TG_AXIS_NONE);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(client.call->notes.axis, TG_AXIS_NONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* And without one, the axis is what the log says. */
static void a_refusal_keeps_the_axis_that_refused(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  queue: {size: 0}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "concurrency");
    assert_int_equal(client.call->notes.axis, TG_AXIS_CONCURRENCY);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* Each of the models that it may use is tried, with all its keys; others are passed over. */
static void fallbacks_are_taken_in_order(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 1, fallback: [second, third, fourth]",
        .models = "  third: {provider: p, retries: 1, price: {input: 1, output: 2}}\n"
                  "  fourth: {provider: p, retries: 0, price: {input: 1, output: 2}}\n",
        .tenant = "models: [first, third, fourth], budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 2; i++) { /* both keys are limited */
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(i == 0);
    }
    expect_in(call_kit_out()->body, "\"third\"");
    assert_int_equal(call_kit.n_outs, 3);
    assert_string_equal(client.call->notes.fallback_why, "limited");
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    assert_in_range(call_kit.last_timer, 50, 200); /* its first failure here */
    call_kit_pass(200);
    expect_in(call_kit_out()->body, "\"third\"");
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    expect_in(call_kit_out()->body, "\"fourth\"");
    assert_string_equal(client.call->notes.fallback_why, "network");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallbacks), 2);
    call_out_reply(call_kit_out(), 500, JSON, "<html>"); /* there is no other */
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    assert_int_equal(client.call->attempts, 5);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A call holds a slot of one route at a time. */
static void a_fallback_leaves_the_slot_of_its_route(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT ", retries: 0, fallback: [second]",
                                           .second = ONE_SLOT};
    struct tg_gate_stats stats;

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    expect_state(CALL_ASKING);
    tg_gate_get_stats(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &stats);
    assert_int_equal(stats.in_flight, 0);
    tg_gate_get_stats(gateway_newest(call_kit.gateway)->routes[1].slots->gate, &stats);
    assert_int_equal(stats.in_flight, 1);
    assert_int_equal(call_kit_rate_used(client.call), 1); /* the gate was asked once */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* A reply that comes whole and has not come in time may be on its way still. Another attempt would
 * be written and billed as well, and how long it takes was the caller's choice: a long answer opens
 * no breaker and lowers no law. */
static void a_whole_reply_that_timed_out_is_not_tried_again(void **state)
{
    static const enum http_why whys[] = {HTTP_LATE_FIRST_BYTE, HTTP_LATE_TOTAL};
    const struct call_kit_config config = {
        .first = "retries: 3, fallback: [second], breaker: {failures: 1}, "
                 "concurrency: {law: aimd, initial: 10, min: 1, max: 20}"};
    struct tg_law_metrics law;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(whys); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        call_kit_out()->out.sent = true;
        call_kit_pass(600000);
        call_out_fail(call_kit_out(), whys[i]);
        expect_state(CALL_OVER);
        assert_int_equal(call_kit.n_outs, 1);
        assert_int_equal(client.status, 504);
        assert_string_equal(client.reason, "upstream_timeout");
        assert_int_equal(call_kit.report.outcome, TG_KEY_CANCELLED);
        assert_true(client.call->spent > 0);
        assert_int_equal(call_kit_entry(1).flags & LEDGER_CANCELLED, 0); /* the client is there */
        tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
        assert_int_equal(law.limit, 10);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* What was never sent has not run: it is tried again like any other. */
static void a_whole_reply_that_was_never_asked_for_is_tried_again(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_out()->out.sent = false;
    call_out_fail(call_kit_out(), HTTP_LATE_CONNECT);
    expect_state(CALL_PAUSING);
    call_kit_pass(call_kit.last_timer);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.status, 200);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Each key of a route is tried before one is tried again, but for the first retry after a failure
 * that may pass. */
static void keys_that_were_tried_come_last(void **state)
{
    char first[600];
    size_t n = (size_t)snprintf(first, sizeof first, "retries: 5, keys: [");
    const struct route_key *tried[5];

    (void)state;
    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(first + n, sizeof first - n,
                              "%s{name: k%d, secret: \"${CALL_KIT_SECRET}\"}", i ? ", " : "", i);
    snprintf(first + n, sizeof first - n, "]");
    const struct call_kit_config config = {
        .first = first, .top = "retry_budget: {ratio: 1, min_per_s: 100}\n"};
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    for (size_t i = 0; i < COUNT_OF(tried); i++) {
        expect_state(CALL_ASKING);
        tried[i] = client.call->last_key;
        call_out_reply(call_kit_out(), 500, JSON, "{}");
        call_kit_pass(call_kit.last_timer);
    }
    assert_ptr_equal(tried[0], tried[1]); /* once more */
    for (size_t i = 1; i < COUNT_OF(tried); i++)
        for (size_t j = 1; j < i; j++)
            assert_ptr_not_equal(tried[i], tried[j]);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* More keys may be turned away than a call remembers; it ends with its retries. */
static void more_keys_are_turned_away_than_are_remembered(void **state)
{
    enum { KEYS = CALL_TRIED_MAX + 4 };
    char first[2000];
    size_t n = (size_t)snprintf(first, sizeof first, "retries: %d, keys: [", KEYS - 1);

    (void)state;
    for (int i = 0; i < KEYS; i++)
        n += (size_t)snprintf(first + n, sizeof first - n,
                              "%s{name: k%d, secret: \"${CALL_KIT_SECRET}\"}", i ? ", " : "", i);
    snprintf(first + n, sizeof first - n, "]");
    const struct call_kit_config config = {
        .first = first, .top = "retry_budget: {ratio: 1, min_per_s: 100}\n"};
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < KEYS; i++) {
        expect_state(CALL_ASKING);
        call_out_reply(call_kit_out(), 401, JSON, "{}");
        call_kit_pass(call_kit.last_timer);
    }
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "upstream_credentials");
    assert_int_equal(client.call->attempts, KEYS);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What a certificate is refused for is told; other failures have the text of their cause alone. */
static void the_text_of_a_certificate_is_told(void **state)
{
    static const struct {
        enum http_cause cause;
        const char *text, *told;
    } rows[] = {
        {HTTP_CAUSE_CERTIFICATE, "certificate: expired", "certificate: expired"},
        {HTTP_CAUSE_CERTIFICATE, NULL, "certificate"},
        {HTTP_CAUSE_REFUSED, "10.0.0.1: refused", "refused"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&(struct call_kit_config){.first = "retries: 0"});
        call_client_ask(&client, CALL_KIT_BODY);
        struct call_out *out = call_kit_out();
        out->out.cause = rows[i].cause;
        out->out.ops->failed(&out->out, HTTP_UNREACHABLE, rows[i].text);
        out->over = true;
        assert_string_equal(client.call->cause, rows[i].told);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_retry_of_the_same_key_backs_off),
        cmocka_unit_test(another_key_is_tried_at_once),
        cmocka_unit_test(retries_end_with_the_error_of_the_provider),
        cmocka_unit_test(a_retry_after_the_deadline_is_not_made),
        cmocka_unit_test(a_stale_connection_is_replaced_once),
        cmocka_unit_test(a_timeout_is_charged_with_what_it_may_have_written),
        cmocka_unit_test(attack_8_a_clients_deadline_opens_no_breaker),
        cmocka_unit_test(attack_20_failures_of_one_tenant_open_no_breaker),
        cmocka_unit_test(attack_21_a_call_that_is_too_large_rests_no_key),
        cmocka_unit_test(our_own_timeouts_open_the_breaker),
        cmocka_unit_test(a_client_that_reads_slowly_opens_no_breaker),
        cmocka_unit_test(attack_15_our_own_lack_of_memory_opens_no_breaker),
        cmocka_unit_test(a_failure_tells_its_cause),
        cmocka_unit_test(a_broken_stream_ends_with_an_error_event),
        cmocka_unit_test(a_broken_reply_is_cut_off),
        cmocka_unit_test(keys_are_tried_in_order),
        cmocka_unit_test(another_key_is_tried_after_other_failures),
        unit_test_titled("S4 with one key, a model's retries are as many further attempts",
                         all_retries_are_made_with_one_key),
        unit_test_titled("S4 with two keys, a model's retries are as many further attempts",
                         all_retries_are_made_with_two_keys),
        unit_test_titled("S4 a retry needs a key that can serve by the end of its pause",
                         a_retry_needs_a_key_that_can_serve),
        unit_test_titled("S4 a key that was turned away is not tried again",
                         refused_keys_are_not_tried_again),
        cmocka_unit_test(a_retry_has_to_begin_before_the_deadline),
        cmocka_unit_test(a_retry_has_to_be_earned),
        cmocka_unit_test(a_fallback_need_not_be_earned),
        cmocka_unit_test(attack_11_a_header_drains_nobodys_retries),
        cmocka_unit_test(a_reload_keeps_what_is_left_of_retries),
        cmocka_unit_test(only_a_stale_connection_is_replaced),
        cmocka_unit_test(a_retry_may_take_a_key_of_a_newer_configuration),
        cmocka_unit_test(a_fallback_serves_when_a_route_fails),
        cmocka_unit_test(a_fallback_serves_when_no_key_is_free),
        cmocka_unit_test(without_a_key_and_a_fallback_a_call_is_refused),
        cmocka_unit_test(a_fallback_forgets_the_axis_that_refused),
        cmocka_unit_test(a_refusal_keeps_the_axis_that_refused),
        cmocka_unit_test(fallbacks_are_taken_in_order),
        cmocka_unit_test(a_fallback_leaves_the_slot_of_its_route),
        cmocka_unit_test(a_whole_reply_that_timed_out_is_not_tried_again),
        cmocka_unit_test(a_whole_reply_that_was_never_asked_for_is_tried_again),
        cmocka_unit_test(keys_that_were_tried_come_last),
        cmocka_unit_test(more_keys_are_turned_away_than_are_remembered),
        cmocka_unit_test(the_text_of_a_certificate_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
