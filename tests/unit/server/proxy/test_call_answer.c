/* test_call_answer.c - what of a reply reaches the client, and what it says of its key. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define USAGE                                                            \
    "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5," \
    "\"completion_tokens\":3,\"total_tokens\":8}}\n\n"

/* ---- to the client ---- */

static void what_says_something_of_our_keys_is_not_shown(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_out_says("x-kept", "yes");
    call_out_says("set-cookie", "secret");
    call_out_says("x-ratelimit-remaining-requests", "77777");
    call_out_says("openai-organization", "org");
    call_out_says("retry-after", "66666");
    call_out_says("x-request-id", "theirs");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(client.head, "x-kept: yes\n");
    expect_in(client.head, "x-request-id: theirs\n");
    expect_not_in(client.head, "cookie");
    expect_not_in(client.head, "77777");
    expect_not_in(client.head, "organization");
    expect_not_in(client.head, "66666");
    assert_string_equal(client.call->notes.upstream_id, "theirs");
    call_kit_close();
}

static void an_injected_usage_is_read_and_not_shown(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    expect_in(call_kit_out()->body, "include_usage");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK USAGE DONE);
    call_out_end(call_kit_out());
    assert_string_equal(client.body, CHUNK DONE);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_true(client.call->usage_reported);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_reply_without_usage_is_charged_by_its_length(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[{\"message\":{\"content\":\"four words of text here\"}}]}");
    assert_false(client.call->usage_reported);
    assert_true(client.call->usage.output > 0);
    assert_int_equal(client.call->usage.input, client.call->attempt.prompt);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_missing), 1);
    call_kit_close();
}

/* They are counted in a row up to 20, which is warned of (odd_replies.mjs); one that reports begins
 * anew. */
static void replies_without_usage_are_counted_in_a_row(void **state)
{
    const int rows[] = {1, 2, 0, 1};
    (void)state;

    call_kit_open(NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 200, JSON, rows[i] == 0 ? CALL_KIT_REPLY : "{}");
        call_client_gone(&client, HTTP_DONE);
        assert_int_equal(atomic_load(&gateway_newest(call_kit.gateway)->routes[0].silent), rows[i]);
    }
    call_kit_close();
}

/* What a whole reply reports counts, however long it is. */
static void a_reported_usage_is_not_replaced_by_an_estimate(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[{\"message\":{\"content\":\"a text that is much longer than "
                  "what is reported of it, as happens with common words\"}}],\"usage\":"
                  "{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_kit_close();
}

static void an_absurd_usage_neither_charges_nor_refunds(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    tg_micro reserved = client.call->notes.reserved;
    call_out_reply(call_kit_out(), 200, JSON,
                   "{\"choices\":[],\"usage\":{\"prompt_tokens\":-5,"
                   "\"completion_tokens\":99999999999,\"total_tokens\":8}}");
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_absurd), 1);
    assert_int_equal(call_kit_money_settled(), reserved);
    call_kit_close();
}

static void an_encoded_reply_is_charged_with_the_most_it_may_be(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_out_says("content-encoding", "gzip");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, "nobody can read this");
    assert_string_equal(client.body, "nobody can read this");
    assert_int_equal(client.call->usage.output, 10);
    call_kit_close();
}

static void an_error_of_the_client_passes_and_costs_nothing(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(400, JSON, "{\"error\":{\"message\":\"wrong\"}}");
    assert_int_equal(client.status, 400);
    assert_string_equal(client.body, "{\"error\":{\"message\":\"wrong\"}}");
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(client.call->attempts, 1);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_missing), 0);
    call_kit_close();
}

static void a_400_of_an_empty_account_is_another_keys_chance(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_out_reply(call_kit_out(), 400, JSON,
                   "{\"error\":{\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}");
    assert_int_equal(client.call->state, CALL_PAUSING);
    call_kit_pass(1);
    assert_ptr_not_equal(client.call->last_key, first);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.status, 200);
    call_kit_close();
}

/* Longer than what is kept back: it cannot be about money, and passes before its end. */
static void a_long_400_passes(void **state)
{
    enum { HALF = 40 * 1024 };
    static char half[HALF + 1];

    (void)state;
    memset(half, 'x', HALF);
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 400, JSON);
    call_out_data(call_kit_out(), half);
    assert_int_equal(client.call->state, CALL_ASKING);
    assert_int_equal(client.call->held_n, HALF);
    call_out_data(call_kit_out(), half);
    assert_int_equal(client.call->state, CALL_ANSWERING);
    assert_int_equal(client.body_n, 2 * HALF);
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* Its dates are the wall clock's, and keys rest by the steady one. */
static void a_provider_says_how_long_its_key_rests(void **state)
{
    static const tg_ms ahead[] = {0, 3600000, -3600000};
    struct tg_key_metrics keys[2];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ahead); i++) {
        begin(NULL);
        atomic_store(&call_kit.gateway->clock.ahead_ms, ahead[i]);
        call_out_says("retry-after", "20");
        call_client_ask(&client, CALL_KIT_BODY);
        tg_ms limited_at = call_kit.now;
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(1);
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(1);
        assert_int_equal(client.status, 429);
        assert_string_equal(client.reason, "no_key");
        struct tg_pool *pool = gateway_newest(call_kit.gateway)->routes[0].pool;
        assert_int_equal(tg_pool_get_keys(pool, call_kit.now, 0, keys, 2), 2);
        for (int k = 0; k < 2; k++)
            assert_in_range(keys[k].cool_down_until, limited_at + 20000, limited_at + 20001);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void a_provider_that_does_not_say_how_long_leaves_it_to_the_ring(void **state)
{
    static const tg_ms ahead[] = {0, 3600000, -3600000};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ahead); i++) {
        begin(&(struct call_kit_config){.remote = true});
        atomic_store(&call_kit.gateway->clock.ahead_ms, ahead[i]);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        assert_int_equal(call_kit.report.outcome, TG_KEY_LIMITED);
        assert_int_equal(call_kit.report.cool_until, 0);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

static void credentials_that_are_refused_are_no_fault_of_the_client(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 2; i++) {
        call_out_reply(call_kit_out(), 401, JSON, "{}");
        call_kit_pass(1);
    }
    assert_int_equal(client.status, 502);
    assert_string_equal(client.reason, "upstream_credentials");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_reply_says_what_is_left_of_our_limits(void **state)
{
    (void)state;
    begin(NULL);
    call_out_says("x-last", "yes");
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t cost = client.call->gate_call.debit.cost;
    char left[80];
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(client.head, "x-request-id: req_");
    expect_in(client.head, "x-ratelimit-limit-requests: 1000\n");
    expect_in(client.head, "x-ratelimit-remaining-requests: 999\n");
    expect_in(client.head, "x-ratelimit-reset-requests: ");
    expect_in(client.head, "x-ratelimit-limit-tokens: 1000000\n");
    snprintf(left, sizeof left, "x-ratelimit-remaining-tokens: %d\n", (int)(1000000 - cost));
    expect_in(client.head, left);
    expect_in(client.head, "x-ratelimit-reset-tokens: ");
    expect_in(client.head, "x-last: yes\n");
    assert_string_equal(client.reason, "");
    assert_string_equal(client.model, "");
    call_kit_close();
}

static void a_reply_of_the_other_api_has_its_names(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_out_says("anthropic-ratelimit-requests-remaining", "77777");
    call_out_says("anthropic-organization-id", "org");
    call_out_says("x-request-id", "not-theirs");
    call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
    reply_and_end(200, JSON, "{\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}");
    expect_in(client.head, "request-id: req_");
    expect_in(client.head, "anthropic-ratelimit-requests-limit: 1000\n");
    expect_not_in(client.head, "77777");
    expect_not_in(client.head, "organization");
    call_client_ask_at(&client, "/v1/messages", "{\"model\":\"opus\"");
    assert_int_equal(client.status, 400);
    expect_in(client.head, "request-id: req_");
    expect_not_in(client.head, "x-request-id");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void more_of_what_is_ours_is_not_shown(void **state)
{
    (void)state;
    begin(NULL);
    call_out_says("openai-project", "secret-1");
    call_out_says("retry-after-ms", "secret-2");
    call_out_says("x-should-retry", "secret-3");
    call_out_says("x-tollgate-reason", "secret-4");
    call_out_says("connection", "x-hop");
    call_out_says("x-hop", "secret-5");
    call_out_says("x-ratelimit-", "secret-6");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_not_in(client.head, "secret");
    call_kit_close();
}

/* Ours come first; what finds no room is the provider's. */
static void a_reply_with_too_many_fields_loses_the_last(void **state)
{
    static struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head = {
        .status = 200, .fields = fields, .n_fields = COUNT_OF(fields), .length = 3};

    (void)state;
    begin(NULL);
    for (size_t i = 0; i < COUNT_OF(fields); i++)
        fields[i] = (struct http_field){SLICE("x"), SLICE("y")};
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_out()->out.sent = call_kit_out()->out.head_seen = true;
    call_kit_out()->out.ops->head(&call_kit_out()->out, &head);
    expect_state(CALL_ANSWERING);
    expect_in(client.head, "x-request-id");
    expect_in(client.head, "x-ratelimit-reset-tokens");
    assert_int_equal(client.length, 3);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The length of what was asked for by us alone is not the length of what the client gets. */
static void a_length_passes_unless_usage_is_taken_out(void **state)
{
    static struct http_field fields[] = {{{"content-type", 12}, {"text/event-stream", 17}}};
    struct http_head head = {.status = 200, .fields = fields, .n_fields = 1, .length = 1000};

    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        begin(NULL);
        call_client_ask(&client, stream ? CALL_KIT_STREAM : CALL_KIT_BODY);
        call_kit_out()->out.sent = call_kit_out()->out.head_seen = true;
        call_kit_out()->out.ops->head(&call_kit_out()->out, &head);
        call_out_data(call_kit_out(), CHUNK);
        assert_int_equal(client.length, stream ? -1 : 1000);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

static void a_usage_that_the_client_asked_for_is_shown(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, "{\"model\":\"first\",\"stream\":true,\"max_tokens\":10,"
                             "\"stream_options\":{\"include_usage\":true},\"messages\":[]}");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK USAGE DONE);
    call_out_end(call_kit_out());
    assert_string_equal(client.body, CHUNK USAGE DONE);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- streams ---- */

static void a_stream_is_known_by_its_type(void **state)
{
    static const struct {
        const char *type;
        bool events;
    } rows[] = {{"text/event-stream", true},
                {"Text/Event-Stream; charset=utf-8", true},
                {"text/event-strea", false},
                {"text/plain", false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_ask(&client, CALL_KIT_STREAM);
        call_out_head(call_kit_out(), 200, rows[i].type);
        expect_state(rows[i].events ? CALL_ASKING : CALL_ANSWERING);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

/* Comments before the first event go out with it: until then an error can be tried elsewhere. */
static void what_comes_before_the_first_event_waits_for_it(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_kit_pass(10);
    call_out_data(call_kit_out(), ": one\n\n");
    call_out_data(call_kit_out(), ": two\n\n");
    expect_state(CALL_ASKING);
    call_kit_pass(10);
    call_out_data(call_kit_out(), CHUNK);
    assert_string_equal(client.body, ": one\n\n: two\n\n" CHUNK);
    assert_int_equal(client.call->bytes_out, client.body_n);
    call_out_data(call_kit_out(), "data: {\"choices\":[]}"); /* its last line does not end */
    call_out_end(call_kit_out());
    assert_string_equal(client.body, ": one\n\n: two\n\n" CHUNK "data: {\"choices\":[]}");
    call_client_gone(&client, HTTP_DONE);
    assert_true(call_kit.report.latency_ms == 10); /* to the first byte, whatever it was */
    end();
}

static void a_stream_without_any_event_is_a_reply(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), ": one\n\n");
    call_out_end(call_kit_out());
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 200);
    assert_string_equal(client.body, ": one\n\n");
    assert_int_equal(client.finished, 1);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* An error in place of an answer: is it worth another attempt, and what does it say of the key? */
static void an_error_event_is_judged(void **state)
{
#define ERROR_OF(type) "data: {\"error\":{\"message\":\"m\",\"type\":\"" type "\"}}\n\n"
    static const struct {
        const char *event;
        bool first; /* nothing has gone to the client before it */
        enum tg_key_outcome outcome;
        const char *failure; /* null: it passes */
    } rows[] = {
        {ERROR_OF("server_error"), true, TG_KEY_FAILED, "server"},
        {ERROR_OF("rate_limit_error"), true, TG_KEY_LIMITED, "limited"},
        {ERROR_OF("invalid_request_error"), true, TG_KEY_OK, NULL},
        {ERROR_OF("server_error"), false, TG_KEY_FAILED, NULL},
        {ERROR_OF("rate_limit_error"), false, TG_KEY_LIMITED, NULL},
        {ERROR_OF("invalid_request_error"), false, TG_KEY_OK, NULL},
    };
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int whole = 0; whole < 2; whole++) {
            char text[200];
            snprintf(text, sizeof text, "%s", rows[i].event);
            if (!whole)
                text[strlen(text) - 2] = '\0'; /* the reply ends before its line does */
            begin(&config);
            call_client_ask(&client, CALL_KIT_STREAM);
            call_out_head(call_kit_out(), 200, EVENT_STREAM);
            if (!rows[i].first)
                call_out_data(call_kit_out(), CHUNK);
            call_out_data(call_kit_out(), text);
            if (!call_kit_out()->over)
                call_out_end(call_kit_out());
            expect_state(CALL_OVER);
            assert_int_equal(call_kit.report.outcome, rows[i].outcome);
            if (rows[i].failure != NULL) {
                assert_string_equal(call_failure_name(client.call->failure), rows[i].failure);
                assert_int_equal(client.call->spent, 0);
                assert_int_equal(client.status, rows[i].outcome == TG_KEY_LIMITED ? 429 : 502);
            } else {
                assert_int_equal(client.status, 200);
                expect_in(client.body, text);
            }
            call_client_gone(&client, HTTP_DONE);
            end();
        }
#undef ERROR_OF
}

static void a_broken_stream_of_the_other_api_ends_in_its_form(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_in(client.body, "event: error\ndata: {\"type\":\"error\"");
    expect_in(client.body, "the provider broke off its answer");
    assert_int_equal(client.call->reason, REPLY_UPSTREAM_ERROR);
    assert_int_equal(call_kit.report.outcome, TG_KEY_FAILED);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What one attempt has begun is no part of the next: its bytes, its errors, what it kept back. */
static void each_attempt_is_read_from_its_beginning(void **state)
{
    static const char *const begun[] = {"data: {\"par", ": kept back\n\n", ERROR_EVENT};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(begun); i++) {
        begin(NULL);
        call_client_ask(&client, CALL_KIT_STREAM);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), begun[i]);
        if (!call_kit_out()->over)
            call_out_fail(call_kit_out(), HTTP_GARBAGE);
        expect_state(CALL_PAUSING);
        call_kit_pass(200);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), CHUNK);
        call_out_end(call_kit_out());
        assert_string_equal(client.body, CHUNK);
        assert_int_equal(call_kit.report.outcome, TG_KEY_OK);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* ---- slow clients ---- */

static void a_provider_is_paused_above_the_mark_only(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    client.queued = HTTP_OUTPUT_HIGH;
    call_out_data(call_kit_out(), "{");
    assert_int_equal(call_kit_out()->paused, 0);
    client.queued = HTTP_OUTPUT_HIGH + 1;
    call_out_data(call_kit_out(), " ");
    assert_int_equal(call_kit_out()->paused, 1);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* Nobody is slow any more when the client has left. */
static void a_drained_reply_is_not_paused(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    client.queued = HTTP_OUTPUT_HIGH + 1;
    call_out_data(call_kit_out(), "{");
    assert_int_equal(call_kit_out()->paused, 1);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    assert_int_equal(call_kit_out()->paused, 0);
    call_out_data(call_kit_out(), " ");
    assert_int_equal(client.body_n, 1);
    call_out_fail(call_kit_out(), HTTP_RESET);
    end();
}

/* ---- what the provider says of its load ---- */

#define ONE_KEY_PROVIDER                                    \
    "  s: {api: openai, base_url: \"http://127.0.0.1:1\", " \
    "keys: [{name: s1, secret: \"${CALL_KIT_SECRET}\"}]}\n"
#define LEARNS                                                            \
    "price: {input: 1, output: 2}, max_output_tokens: 4096, retries: 0, " \
    "concurrency: {law: auto, initial: 10, min: 1, max: 20}"

static int64_t limit_of_route(void)
{
    struct tg_law_metrics law;

    tg_gate_get_law(client.call->slot.gate, &law);
    return law.limit;
}

/* A provider that says how many calls it will take, or that it has too much to do, bounds the law
 * of the route. What is said of one key among several bounds nothing: the pool passes it over. */
static void a_provider_bounds_its_route_by_what_it_says(void **state)
{
    static const struct {
        const char *model;
        int status;
        const char *name, *value;
        int64_t limit;
    } rows[] = {
        {"single", 200, "x-ratelimit-remaining-requests", "3", 4}, /* and the one that runs */
        {"picked", 200, "x-ratelimit-remaining-requests", "3", 4},
        {"double", 200, "x-ratelimit-remaining-requests", "3", 10},
        {"single", 200, "x-unknown", "3", 10},
        {"single", 404, "x-ratelimit-remaining-requests", "3", 10},
        {"single", 429, "retry-after", "5", 1},
        {"picked", 429, "retry-after", "5", 1},
        {"double", 429, "retry-after", "5", 10},
        {"double", 503, "retry-after", "5", 1},
        {"double", 503, "x-unknown", "5", 10},
        {"double", 529, "retry-after", "5", 1},
        {"double", 504, "retry-after", "5", 10},
    };
    const struct call_kit_config config = {
        .providers = ONE_KEY_PROVIDER,
        .models = "  single: {provider: s, " LEARNS "}\n"
                  "  double: {provider: p, " LEARNS "}\n"
                  "  picked: {provider: p, " LEARNS ", "
                  "keys: [{name: own, secret: \"${CALL_KIT_SECRET}\"}]}\n"};
    char body[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        if (strcmp(rows[i].name, "x-ratelimit-remaining-requests") == 0)
            call_out_says("x-ratelimit-reset-requests", "10s");
        call_out_says(rows[i].name, rows[i].value);
        snprintf(body, sizeof body, "{\"model\":\"%s\",\"messages\":[],\"max_tokens\":9}",
                 rows[i].model);
        call_client_ask(&client, body);
        assert_int_equal(limit_of_route(), 10);
        call_out_head(call_kit_out(), rows[i].status, JSON);
        if (rows[i].status == 429) /* which says in its body whom it is for */
            call_out_end(call_kit_out());
        if (limit_of_route() != rows[i].limit)
            fail_msg("row %zu: the limit is %d", i, (int)limit_of_route());
        call_client_gone(&client, HTTP_HANGUP);
        call_kit_close();
    }
}

/* A passthrough has no route whose law could learn, and its stream passes as it comes. */
static void a_stream_of_a_passthrough_passes(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    expect_state(CALL_ANSWERING);
    assert_string_equal(client.body, CHUNK);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->spent, 33);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A type that is shorter than that of a stream is that of none; its letters may be of any case, and
 * parameters may follow. */
static void only_a_stream_of_events_is_read_as_one(void **state)
{
    static const struct {
        const char *type;
        bool events;
    } rows[] = {{"text/event-strea", false},
                {"text/event-stream", true},
                {"Text/Event-Stream;x", true},
                {"text/event_stream", false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_ask(&client, CALL_KIT_STREAM);
        call_out_head(call_kit_out(), 200, rows[i].type);
        assert_int_equal(client.call->attempt.events, rows[i].events);
        call_client_gone(&client, HTTP_HANGUP);
        call_kit_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_says_something_of_our_keys_is_not_shown),
        cmocka_unit_test(an_injected_usage_is_read_and_not_shown),
        cmocka_unit_test(a_reply_without_usage_is_charged_by_its_length),
        cmocka_unit_test(replies_without_usage_are_counted_in_a_row),
        cmocka_unit_test(a_reported_usage_is_not_replaced_by_an_estimate),
        cmocka_unit_test(an_absurd_usage_neither_charges_nor_refunds),
        cmocka_unit_test(an_encoded_reply_is_charged_with_the_most_it_may_be),
        cmocka_unit_test(an_error_of_the_client_passes_and_costs_nothing),
        cmocka_unit_test(a_400_of_an_empty_account_is_another_keys_chance),
        cmocka_unit_test(a_long_400_passes),
        cmocka_unit_test(a_provider_says_how_long_its_key_rests),
        cmocka_unit_test(a_provider_that_does_not_say_how_long_leaves_it_to_the_ring),
        cmocka_unit_test(credentials_that_are_refused_are_no_fault_of_the_client),
        cmocka_unit_test(a_reply_says_what_is_left_of_our_limits),
        cmocka_unit_test(a_reply_of_the_other_api_has_its_names),
        cmocka_unit_test(more_of_what_is_ours_is_not_shown),
        cmocka_unit_test(a_reply_with_too_many_fields_loses_the_last),
        cmocka_unit_test(a_length_passes_unless_usage_is_taken_out),
        cmocka_unit_test(a_usage_that_the_client_asked_for_is_shown),
        cmocka_unit_test(a_stream_is_known_by_its_type),
        cmocka_unit_test(what_comes_before_the_first_event_waits_for_it),
        cmocka_unit_test(a_stream_without_any_event_is_a_reply),
        cmocka_unit_test(an_error_event_is_judged),
        cmocka_unit_test(a_broken_stream_of_the_other_api_ends_in_its_form),
        cmocka_unit_test(each_attempt_is_read_from_its_beginning),
        cmocka_unit_test(a_provider_is_paused_above_the_mark_only),
        cmocka_unit_test(a_drained_reply_is_not_paused),
        cmocka_unit_test(a_provider_bounds_its_route_by_what_it_says),
        cmocka_unit_test(a_stream_of_a_passthrough_passes),
        cmocka_unit_test(only_a_stream_of_events_is_read_as_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
