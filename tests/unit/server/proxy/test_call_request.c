/* test_call_request.c - what of a request reaches the provider: its target, fields and body. */
#include "net_call_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNBOUNDED "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

/* ---- to the provider ---- */

static void what_concerns_us_alone_is_not_forwarded(void **state)
{
    const struct call_kit_config config = {
        .provider = "    headers: {drop: [x-dropped-1, x-dropped-2], "
                    "set: {x-set-1: ours-1, x-set-2: ours-2, x-set-3: ours-3}}\n"
                    "    query: {api-version: preview}\n"
                    "    path_prefix: /prefix"};

    (void)state;
    call_kit_open(&config);
    call_client_says("x-kept", "yes");
    call_client_says("x-tollgate-user", "somebody");
    call_client_says("cookie", "secret");
    call_client_says("openai-organization", "org");
    call_client_says("accept-encoding", "gzip");
    call_client_says("x-dropped-1", "yes");
    call_client_says("x-dropped-2", "yes");
    call_client_says("x-set-1", "theirs");
    call_client_says("x-set-2", "theirs");
    call_client_says("x-set-3", "theirs");
    call_client_ask(&client, CALL_KIT_BODY);
    const char *sent = call_kit_out()->request;
    assert_string_equal(call_kit_out()->target, "/prefix/v1/chat/completions?api-version=preview");
    expect_in(sent, "x-kept: yes\n");
    expect_in(sent, "content-type: application/json\n");
    expect_in(sent, "x-set-1: ours-1\nx-set-2: ours-2\nx-set-3: ours-3\n");
    expect_in(sent, "accept-encoding: identity\n");
    expect_in(sent, "authorization: Bearer provider-secret\n");
    expect_not_in(sent, "theirs");
    expect_not_in(sent, "tollgate");
    expect_not_in(sent, "cookie");
    expect_not_in(sent, "organization");
    expect_not_in(sent, "gzip");
    expect_not_in(sent, "x-dropped");
    expect_not_in(sent, "tg-virtual-key");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What the configuration sets takes the place of what a dialect wants, wherever it stands. */
static void a_version_that_is_set_is_sent_alone(void **state)
{
    static const char *const sets[] = {"{x-a: b}", "{anthropic-version: \"2031-01-01\"}",
                                       "{x-a: b, anthropic-version: \"2031-01-01\"}"};
    char provider[300];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        snprintf(provider, sizeof provider,
                 "  q: {api: anthropic, base_url: \"http://127.0.0.1:1\", headers: {set: %s}, "
                 "keys: [{name: a1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
                 sets[i]);
        const struct call_kit_config config = {.providers = provider, .models = ANTHROPIC_MODEL};
        call_kit_open(&config);
        call_client_ask(&client, CHAT_WITH_OPUS);
        const char *sent = call_kit_out()->request, *at = strstr(sent, "anthropic-version: ");
        assert_non_null(at);
        assert_null(strstr(at + 1, "anthropic-version: "));
        expect_in(sent, i == 0 ? "anthropic-version: 2023-06-01\n"
                               : "anthropic-version: 2031-01-01\n");
        reply_and_end(200, JSON, MESSAGE);
        call_kit_close();
    }
}

static void a_query_of_the_client_goes_before_ours(void **state)
{
    const struct call_kit_config config = {.provider = "    query: {a: b, c: d}"};

    (void)state;
    call_kit_open(&config);
    call_client_begin_at(&client, "POST", "/v1/chat/completions?x=1", -1);
    call_client_body(&client, CALL_KIT_BODY);
    call_client_end(&client);
    assert_string_equal(call_kit_out()->target, "/v1/chat/completions?x=1&a=b&c=d");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_has_the_name_that_its_provider_knows(void **state)
{
    const struct call_kit_config config = {.first = "upstream_model: theirs"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"model\":\"theirs\"");
    expect_not_in(call_kit_out()->body, "\"first\"");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, ""); /* it is the model that was asked for */
    call_kit_close();
}

static void timeouts_are_the_models_and_the_clients(void **state)
{
    const struct call_kit_config config = {
        .first = "timeouts: {connect: 11ms, first_byte: 22ms, reply: 55ms, idle: 33ms, "
                 "total: 44s}"};

    (void)state;
    call_kit_open(&config);
    call_client_says("x-stainless-timeout", "7");
    call_client_ask(&client, CALL_KIT_STREAM);
    assert_int_equal(call_kit_out()->timeouts.first_byte, 22);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.connect, 11);
    assert_int_equal(call_kit_out()->timeouts.first_byte, 55); /* it comes whole */
    assert_int_equal(call_kit_out()->timeouts.idle, 33);
    assert_int_equal(call_kit_out()->timeouts.total, 44000);
    assert_int_equal(call_kit_out()->timeouts.head, 7000);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit.n_more = 0;
    call_client_says("x-request-timeout-ms", "500");
    call_client_says("x-stainless-timeout", "7");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.total, 500);
    assert_int_equal(call_kit_out()->timeouts.head, 500);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit.n_more = 0;
    call_client_says("x-request-timeout-ms", "5x");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.head, 44000);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* ---- what a call may write ---- */

static void a_call_without_a_bound_gets_what_its_budget_affords(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 1000, on_unbounded: clamp",
                                           .tenant = "budgets: [{usd: 0.000400, per: total}]"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    const struct attempt *attempt = &client.call->attempt;
    int64_t most = (400 - attempt->bound.input) / 2; /* 1 a token of input, 2 of output */
    char bound[64];
    assert_true(most > 10 && most < 200);
    assert_int_equal(attempt->most_output, most);
    snprintf(bound, sizeof bound, "\"max_tokens\":%d", (int)most);
    expect_in(call_kit_out()->body, bound);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Attack 18: the field is one that the provider knows, and nothing is changed silently. */
static void attack_18_a_clamp_uses_the_field_of_the_provider_and_is_told(void **state)
{
    static const struct {
        const char *provider, *sent, *field;
    } rows[] = {
        {NULL, UNBOUNDED, "max_tokens"},
        {"    output_field: max_completion_tokens", UNBOUNDED, "max_completion_tokens"},
        {NULL,
         "{\"model\":\"first\",\"messages\":[],\"max_completion_tokens\":null}",
         "max_completion_tokens"}, /* what the client used */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = "on_unbounded: clamp, clamp_to: 77",
                                               .provider = rows[i].provider};
        char text[80];
        begin(&config);
        call_kit_observe(false);
        call_client_ask(&client, rows[i].sent);
        snprintf(text, sizeof text, "\"%s\":77", rows[i].field);
        expect_in(call_kit_out()->body, text);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        snprintf(text, sizeof text, "x-tollgate-clamped: %s=77\n", rows[i].field);
        expect_in(client.head, text);
        call_client_gone(&client, HTTP_DONE);
        expect_in(call_kit_line(), "\"clamped_max_tokens\":77");
        expect_in(call_kit_line(), "\"max_output_tokens\":77");
        assert_int_equal(atomic_load(&call_kit.gateway->counts.clamped), 1);
        call_kit_close();
    }
}

static void a_bound_is_at_most_that_of_the_model(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: clamp, clamp_to: 77"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.call->attempt.most_output, 77);
    assert_int_equal(client.call->attempt.output, 77);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_may_refuse_calls_without_a_bound(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: refuse"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "max_tokens");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_ask(&client, CALL_KIT_BODY); /* which has one */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_may_leave_calls_without_a_bound(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: allow"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.call->attempt.most_output, -1);
    assert_string_equal(call_kit_out()->body, UNBOUNDED);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* ---- users and prices ---- */

static void a_user_is_named_by_a_header(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\", each: {rpm: 1}}"};
    char name[LEDGER_NAME_MAX + 2];

    (void)state;
    call_kit_open(&config);
    call_client_says("x-user", "anna");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->user.n, 4);
    assert_memory_equal(client.call->user.at, "anna", 4);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.status, 429); /* the second of her calls */
    call_client_gone(&client, HTTP_DONE);
    call_kit.n_more = 0;
    call_client_says("x-user", "berta");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->state, CALL_ASKING);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    call_kit.n_more = 0;
    call_client_says("x-user", name);
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "x-user");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_idle(NULL, 0);
    call_kit_close();
}

static void a_cheaper_model_serves_when_money_runs_short(void **state)
{
    const struct call_kit_config config = {
        .first = "cheaper: second",
        .tenant = "allow_cheaper: 0.95, budgets: [{usd: 0.000200, per: total}]"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"first\""); /* all of it is left */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"second\"");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, "second");
    call_kit_close();
}

static void a_passthrough_costs_its_price_a_call(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    call_kit_open(&config);
    call_client_begin_at(&client, "POST", "/v1/audio", 2);
    call_client_body(&client, "{}");
    call_client_end(&client);
    assert_string_equal(call_kit_out()->body, "{}");
    reply_and_end(200, "audio/mpeg", "sound");
    assert_string_equal(client.body, "sound");
    assert_int_equal(client.call->spent, 33);
    call_client_ask_at(&client, "/v1/audio", "1"); /* one byte is a body, too */
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_client_new(&client);
    client.in.head.target = slice_of("/v1/audio");
    client.fields[1].value = slice_of("audio/wav");
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_body(&client, "1");
    call_client_end(&client);
    assert_string_equal(call_kit_out()->body, "1");
    assert_int_equal(call_kit_out()->length, 1);
    reply_and_end(200, "audio/mpeg", "sound");
    call_kit_close();
}

static void only_what_is_ours_is_left_out(void **state)
{
    (void)state;
    begin(NULL);
    call_client_says("api-key", CALL_KIT_KEY);
    call_client_says("openai-project", "secret-2");
    call_client_says("x-deriva-node-id", "secret-3");
    call_client_says("connection", "x-hop");
    call_client_says("x-hop", "secret-4");
    call_client_says("x-tollgate-", "secret-5");
    call_client_says("x-tollgat", "kept-1");
    call_client_says("cookies", "kept-2");
    call_client_says("x-api-key", CALL_KIT_KEY);
    call_client_ask(&client, CALL_KIT_BODY);
    const char *sent = call_kit_out()->request;
    expect_not_in(sent, "secret-2");
    expect_not_in(sent, "secret-3");
    expect_not_in(sent, "secret-4");
    expect_not_in(sent, "secret-5");
    expect_not_in(sent, CALL_KIT_KEY);
    expect_in(sent, "x-tollgat: kept-1\n");
    expect_in(sent, "cookies: kept-2\n");
    assert_int_equal(call_kit_out()->length, strlen(CALL_KIT_BODY));
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_provider_has_its_own_way_to_authenticate(void **state)
{
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models = ANTHROPIC_MODEL,
        .provider = "    auth: {header: x-their-key, prefix: \"Key \"}"};

    (void)state;
    begin(&config);
    call_client_says("x-their-key", "mine");
    call_client_says("anthropic-version", "2023-06-01");
    call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
    assert_string_equal(call_kit_out()->target, "/base/v1/messages");
    expect_in(call_kit_out()->request, "x-api-key: provider-secret\n");
    expect_in(call_kit_out()->request, "anthropic-version: 2023-06-01\n");
    expect_in(call_kit_out()->request, "x-their-key: mine\n"); /* nothing to this provider */
    expect_not_in(call_kit_out()->request, "authorization");
    assert_string_equal(call_kit_out()->body, MESSAGES_BODY);
    reply_and_end(200, JSON, "{\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->request, "x-their-key: Key provider-secret\n");
    expect_not_in(call_kit_out()->request, "mine");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* A request that would lose a field is not sent, and is no fault of the provider. */
static void a_request_with_too_many_fields_is_not_sent(void **state)
{
    const struct call_kit_config set = {
        .provider = "    headers: {set: {x-set: ours}}",
        .top = "otlp: {endpoint: \"http://127.0.0.1:1\"}\n"};
    static struct http_field fields[HTTP_FIELDS_MAX + 2];

    (void)state;
    for (int with_more = 0; with_more < 2; with_more++)
        for (size_t n = HTTP_FIELDS_MAX - 6; n <= COUNT_OF(fields); n++) {
            begin(with_more ? &set : NULL);
            if (with_more)
                call_kit_observe(false);
            call_client_new(&client);
            memcpy(fields, client.fields, 2 * sizeof fields[0]);
            for (size_t i = 2; i < n; i++)
                fields[i] = (struct http_field){SLICE("x-more"), SLICE("x")};
            client.in.head.fields = fields;
            client.in.head.n_fields = n;
            client.in.head.length = (int64_t)strlen(CALL_KIT_BODY);
            call_step(client.call, CALL_ON_HEAD, NULL);
            call_client_body(&client, CALL_KIT_BODY);
            call_client_end(&client);
            /* Its authorization becomes ours, and accept-encoding is added; or two more are. */
            if (n + 1 + (with_more ? 2 : 0) <= HTTP_FIELDS_MAX) {
                expect_state(CALL_ASKING);
                expect_in(call_kit_out()->request, "authorization: Bearer provider-secret\n");
                reply_and_end(200, JSON, CALL_KIT_REPLY);
            } else {
                expect_state(CALL_OVER);
                assert_int_equal(client.status, 500);
                expect_in(client.body, "the request to the provider could not be made");
                assert_int_equal(call_kit.n_outs, 0);
                assert_int_equal(call_kit.report.outcome, TG_KEY_CANCELLED);
                assert_false(call_kit.report.sent);
                assert_int_equal(client.call->spent, 0);
                call_client_gone(&client, HTTP_DONE);
                call_kit_expect_released(&client);
            }
            call_kit_close();
        }
}

/* The provider's path and query, and the client's, fit into 32 KiB together. */
static void a_target_that_is_too_long_is_not_sent(void **state)
{
    const struct call_kit_config config = {
        .provider = "    query: {a: bb}\n    path_prefix: /pre",
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0}]\n"};
    enum { ROOM = 32 * 1024,
           ADDED = 4 + 5 };
    static char target[ROOM + 2];

    (void)state;
    begin(&config);
    for (size_t n = ROOM - ADDED - 1; n <= ROOM + 1; n++) {
        memset(target, 'x', n);
        memcpy(target, "/v1/audio?", 10);
        target[n] = '\0';
        call_client_ask_at(&client, target, "{}");
        if (n <= ROOM - ADDED) {
            expect_state(CALL_ASKING);
            assert_int_equal(call_kit_out()->target_n, n + ADDED);
            reply_and_end(200, JSON, "{}");
        } else {
            assert_int_equal(client.status, 500);
            assert_int_equal(call_kit.n_outs, 0);
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
    }
    call_kit_close();
}

/* The longest key that a configuration may have, and the longest text before it. */
static void a_credential_is_sent_whole(void **state)
{
    enum { SECRET = 8000,
           PREFIX = 64 };
    static char secret[SECRET + 1], provider[PREFIX + 100], field[PREFIX + SECRET + 20];

    (void)state;
    memset(secret, 's', SECRET);
    assert_int_equal(setenv("CALL_KIT_LONG", secret, 1), 0);
    snprintf(provider, sizeof provider, "    auth: {header: x-key, prefix: \"%0*d\"}", PREFIX, 0);
    snprintf(field, sizeof field, "x-key: %0*d%s\n", PREFIX, 0, secret);
    const struct call_kit_config config = {
        .provider = provider,
        .first = "keys: [{name: long, secret: \"${CALL_KIT_LONG}\"}]"};
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    expect_in(call_kit_out()->request, field);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_request_without_a_body_is_complete_with_its_head(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_begin_at(&client, "GET", "/v1/audio", 0);
    call_client_end(&client);
    assert_int_equal(call_kit_out()->length, 0);
    assert_int_equal(call_kit_out()->finished, 0);
    assert_int_equal(call_kit_out()->body_n, 0);
    reply_and_end(200, JSON, "{}");
    call_kit_close();
}

/* All three changes at once, and nothing else. */
static void a_body_is_changed_where_it_has_to_be(void **state)
{
    const struct call_kit_config config = {
        .first = "upstream_model: theirs, max_output_tokens: 9, on_unbounded: clamp"};

    (void)state;
    begin(&config);
    call_client_ask(&client, "{ \"model\":\"first\", \"stream\":true,\"messages\":[ ] }");
    assert_string_equal(call_kit_out()->body,
                        "{\"max_tokens\":9,"
                        "\"stream_options\":{\"include_usage\":true}, \"model\":\"theirs\", "
                        "\"stream\":true,\"messages\":[ ] }");
    assert_int_equal(call_kit_out()->length, call_kit_out()->body_n);
    assert_int_equal(call_kit_out()->finished, 1);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_provider_may_not_be_asked_for_usage(void **state)
{
    const struct call_kit_config config = {.provider = "    stream_usage: never"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    assert_string_equal(call_kit_out()->body, CALL_KIT_STREAM);
    assert_false(client.call->attempt.injected);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* Each choice may write as much, and all of them are paid. */
static void a_bound_is_shared_by_all_choices(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 1000, on_unbounded: clamp",
                                           .tenant = "budgets: [{usd: 0.000400, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, "{\"model\":\"first\",\"n\":4,\"messages\":[]}");
    int64_t most = (400 - client.call->attempt.bound.input) / 2 / 4;
    assert_true(most >= 10);
    assert_int_equal(client.call->attempt.most_output, most);
    assert_int_equal(client.call->attempt.output, 4 * most);
    assert_int_equal(client.call->notes.reserved, client.call->attempt.bound.input + 2 * 4 * most);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What has no output needs no bound, and what nobody pays for gets none. */
static void a_call_that_costs_nothing_more_is_not_bounded(void **state)
{
    const struct call_kit_config refuse = {.first = "on_unbounded: refuse"};
    const struct call_kit_config free = {.first = "on_unbounded: clamp",
                                         .tenant = "priority: normal"};

    (void)state;
    begin(&refuse);
    call_client_ask_at(&client, "/v1/embeddings", "{\"model\":\"first\",\"input\":\"hi\"}");
    expect_state(CALL_ASKING);
    assert_int_equal(client.call->attempt.most_output, -1);
    reply_and_end(200, JSON, "{\"usage\":{\"prompt_tokens\":5,\"total_tokens\":5}}");
    assert_int_equal(client.call->spent, 5);
    call_kit_close();
    begin(&free); /* without a budget */
    call_client_ask(&client, UNBOUNDED);
    expect_state(CALL_ASKING);
    assert_int_equal(client.call->attempt.most_output, -1);
    assert_int_equal(client.call->attempt.output, 4096);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

/* Where not even one token is affordable, it is asked for, and refused by the budget. */
static void without_money_for_a_token_the_budget_refuses(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: clamp",
                                           .tenant = "budgets: [{usd: 0.000003, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, UNBOUNDED);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "request_exceeds_limit");
    assert_int_equal(client.call->attempt.most_output, 1);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- which key ---- */

/* Sends so many calls one after another; how many keys have served them. */
static int keys_of_calls(const char *format, int n)
{
    const struct route_key *seen[3] = {NULL};
    char body[300];
    int keys = 0;

    for (int i = 0; i < n; i++) {
        snprintf(body, sizeof body, format, i);
        call_client_ask(&client, body);
        const struct route_key *key = client.call->last_key;
        if (key != seen[0] && key != seen[1])
            seen[keys++] = key;
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    return keys;
}

/* Calls that belong together go to the key that has their prompt in its cache. */
static void calls_that_belong_together_stay_at_one_key(void **state)
{
#define ASK(more) "{\"model\":\"first\",\"max_tokens\":1,\"messages\":[]," more "}"
    static const struct {
        const char *first, *body;
        int keys;
    } rows[] = {
        {NULL, ASK("\"top_p\":1,\"seed\":%d"), 2},
        {NULL, ASK("\"prompt_cache_key\":\"a\",\"seed\":%d"), 1},
        {NULL, ASK("\"prompt_cache_key\":\"a%d\""), 2},
        {NULL, ASK("\"user\":\"a\",\"seed\":%d"), 2},
        {"affinity: {by: [user]}", ASK("\"user\":\"a\",\"seed\":%d"), 1},
        {"affinity: {by: [user]}", ASK("\"user\":\"a%d\""), 2},
        {"affinity: {by: [user]}", ASK("\"prompt_cache_key\":\"a\",\"seed\":%d"), 2},
        {"affinity: {by: [prompt_cache_key, user]}",
         ASK("\"prompt_cache_key\":\"a\",\"user\":\"b%d\""), 1},
        {"affinity: {by: []}", ASK("\"prompt_cache_key\":\"a\",\"seed\":%d"), 2},
    };
#undef ASK

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = rows[i].first};
        begin(&config);
        if (keys_of_calls(rows[i].body, 40) != rows[i].keys)
            fail_msg("row %zu", i);
        call_kit_close();
    }
}

static void a_response_stays_at_the_key_of_the_one_before(void **state)
{
    const struct call_kit_config config = {.first = "context: 4000"}; /* what is behind the id */

    (void)state;
    begin(&config);
    for (int i = 0; i < 40; i++) {
        char body[200];
        snprintf(body, sizeof body,
                 "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":16,"
                 "\"previous_response_id\":\"r1\",\"prompt_cache_key\":\"k%d\"}",
                 i);
        call_client_ask_at(&client, "/v1/responses", body);
        static const struct route_key *first;
        first = i == 0 ? client.call->last_key : first;
        assert_ptr_equal(client.call->last_key, first);
        reply_and_end(200, JSON, "{\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}");
    }
    call_kit_close();
}

/* OpenAI's own models know the newer name of a bound; what the file says comes first. */
static void a_bound_has_the_name_that_its_provider_knows(void **state)
{
    static const struct {
        const char *host, *field, *sent;
    } rows[] = {
        {"api.openai.com", NULL, "\"max_completion_tokens\":77"},
        {"api.openai.com", "max_tokens", "\"max_tokens\":77"},
        {"api.example.com", NULL, "\"max_tokens\":77"},
        {"api.example.com", "max_completion_tokens", "\"max_completion_tokens\":77"},
    };
    char provider[300];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(provider, sizeof provider,
                 "  o: {api: openai, base_url: \"https://%s\", %s%s%s"
                 "keys: [{name: o1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
                 rows[i].host, rows[i].field ? "output_field: " : "",
                 rows[i].field ? rows[i].field : "", rows[i].field ? ", " : "");
        const struct call_kit_config config = {
            .providers = provider,
            .models = "  m: {provider: o, price: {input: 1, output: 2}, max_output_tokens: 4096, "
                      "on_unbounded: clamp, clamp_to: 77}\n"};
        begin(&config);
        call_client_ask(&client, "{\"model\":\"m\",\"messages\":[]}");
        expect_in(call_kit_out()->body, rows[i].sent);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_concerns_us_alone_is_not_forwarded),
        cmocka_unit_test(a_version_that_is_set_is_sent_alone),
        cmocka_unit_test(a_query_of_the_client_goes_before_ours),
        cmocka_unit_test(a_model_has_the_name_that_its_provider_knows),
        cmocka_unit_test(timeouts_are_the_models_and_the_clients),
        cmocka_unit_test(a_call_without_a_bound_gets_what_its_budget_affords),
        cmocka_unit_test(attack_18_a_clamp_uses_the_field_of_the_provider_and_is_told),
        cmocka_unit_test(a_bound_is_at_most_that_of_the_model),
        cmocka_unit_test(a_model_may_refuse_calls_without_a_bound),
        cmocka_unit_test(a_model_may_leave_calls_without_a_bound),
        cmocka_unit_test(a_user_is_named_by_a_header),
        cmocka_unit_test(a_cheaper_model_serves_when_money_runs_short),
        cmocka_unit_test(a_passthrough_costs_its_price_a_call),
        cmocka_unit_test(only_what_is_ours_is_left_out),
        cmocka_unit_test(a_provider_has_its_own_way_to_authenticate),
        cmocka_unit_test(a_request_with_too_many_fields_is_not_sent),
        cmocka_unit_test(a_target_that_is_too_long_is_not_sent),
        cmocka_unit_test(a_credential_is_sent_whole),
        cmocka_unit_test(a_request_without_a_body_is_complete_with_its_head),
        cmocka_unit_test(a_body_is_changed_where_it_has_to_be),
        cmocka_unit_test(a_provider_may_not_be_asked_for_usage),
        cmocka_unit_test(a_bound_is_shared_by_all_choices),
        cmocka_unit_test(a_call_that_costs_nothing_more_is_not_bounded),
        cmocka_unit_test(without_money_for_a_token_the_budget_refuses),
        cmocka_unit_test(calls_that_belong_together_stay_at_one_key),
        cmocka_unit_test(a_response_stays_at_the_key_of_the_one_before),
        cmocka_unit_test(a_bound_has_the_name_that_its_provider_knows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
