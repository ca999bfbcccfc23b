/* test_call_translate.c - calls whose provider speaks another dialect than their client. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "server/dialect/translate/translation.h"

#define GEMINI_PROVIDER                                     \
    "  g: {api: gemini, base_url: \"http://127.0.0.1:2\", " \
    "keys: [{name: g1, secret: \"${CALL_KIT_SECRET}\"}]}\n"
#define GEMINI_MODEL \
    "  flash: {provider: g, upstream_model: \"flash/2\", price: {input: 3, output: 4}}\n"
#define GEMINI_REPLY                                                                       \
    "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hello\"}]}," \
    "\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5,"               \
    "\"candidatesTokenCount\":3,\"totalTokenCount\":8}}"
#define MESSAGES_OF_FIRST                     \
    "{\"model\":\"first\",\"max_tokens\":10," \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define STREAM_OF_MESSAGES                                    \
    "{\"model\":\"first\",\"max_tokens\":10,\"stream\":true," \
    "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define CHUNK_STOP \
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
#define CHUNK_USAGE                                                                              \
    "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3," \
    "\"total_tokens\":8}}\n\n"

static const struct call_kit_config foreign = {
    .providers = ANTHROPIC_PROVIDER GEMINI_PROVIDER,
    .models = ANTHROPIC_MODEL GEMINI_MODEL,
};

/* `first` with other settings, and the other models. */
static struct call_kit_config with_first(const char *first)
{
    struct call_kit_config config = foreign;

    config.first = first;
    return config;
}

/* ---- the request ---- */

static void a_chat_reaches_a_provider_of_messages(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_says("openai-organization", "org");
    call_client_says("x-stainless-lang", "js");
    call_client_says("x-own", "kept");
    call_client_ask_at(&client, "/v1/chat/completions?key=secret", CHAT_WITH_OPUS);
    const struct call_out *out = call_kit_out();
    assert_string_equal(out->target, "/base/v1/messages");
    expect_in(out->request, "anthropic-version: 2023-06-01\n");
    expect_in(out->request, "content-type: application/json\n");
    expect_in(out->request, "x-api-key: ");
    expect_in(out->request, "x-own: kept\n");
    expect_not_in(out->request, "openai-");
    expect_not_in(out->request, "stainless");
    assert_string_equal(out->body, "{\"model\":\"opus\",\"max_tokens\":10,\"messages\":[{\"role\":"
                                   "\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}");
    assert_int_equal(out->length, out->body_n);
    call_out_says("request-id", "theirs");
    call_out_says("anthropic-x", "theirs");
    reply_and_end(200, JSON, MESSAGE);
    call_kit_close();
}

static void a_reply_has_the_form_of_its_client(void **state)
{
    (void)state;
    begin(&foreign);
    call_out_says("request-id", "theirs");
    call_out_says("anthropic-x", "theirs");
    call_client_ask(&client, CHAT_WITH_OPUS);
    call_out_reply(call_kit_out(), 200, JSON, MESSAGE);
    assert_int_equal(client.status, 200);
    assert_int_equal(client.length, client.body_n);
    expect_in(client.head, "content-type: application/json\n");
    expect_in(client.head, "x-request-id: req_");
    expect_in(client.head, "x-ratelimit-limit-requests: ");
    expect_not_in(client.head, "anthropic");
    expect_not_in(client.head, "theirs");
    assert_string_equal(client.call->notes.upstream_id, "theirs");
    expect_in(client.body, "\"object\":\"chat.completion\"");
    expect_in(client.body, "\"model\":\"opus\"");
    expect_in(client.body, "\"content\":\"hello\"");
    expect_in(client.body, "\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8");
    assert_string_equal(client.model, "");
    assert_true(client.call->usage_reported);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_int_equal(client.finished, 1);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void messages_reach_a_provider_of_chats(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_says("anthropic-version", "2023-06-01");
    call_client_says("anthropic-beta", "fast-mode-2026-02-01");
    call_client_says("x-goog-api-key", "theirs");
    call_client_ask_at(&client, "/v1/messages?beta=true", MESSAGES_OF_FIRST);
    const struct call_out *out = call_kit_out();
    assert_string_equal(out->target, "/v1/chat/completions");
    expect_not_in(out->request, "anthropic");
    expect_not_in(out->request, "x-goog-api-key");
    expect_in(out->body, "\"max_tokens\":10");
    reply_and_end(200, JSON,
                  "{\"id\":\"x\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                  "\"content\":\"hello\"},\"finish_reason\":\"stop\"}],\"usage\":{"
                  "\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}");
    expect_in(client.head, "request-id: req_");
    expect_in(client.body, "\"type\":\"message\"");
    expect_in(client.body, "\"stop_reason\":\"end_turn\"");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_kit_close();
}

static void a_models_most_stands_for_a_bound_that_is_missing(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, max_output_tokens: 77}\n";
    begin(&config);
    call_client_ask(&client, "{\"model\":\"opus\",\"messages\":[{\"role\":\"user\",\"content\":"
                             "\"hi\"}]}");
    expect_in(call_kit_out()->body, "\"max_tokens\":77,");
    assert_int_equal(client.call->attempt.bound.output, 77);
    reply_and_end(200, JSON, MESSAGE);
    call_kit_close();
}

static void a_clamp_uses_the_field_of_the_provider(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, max_output_tokens: 77, "
                    "on_unbounded: clamp, clamp_to: 20}\n"
                    "  flash: {provider: g, price: {input: 1, output: 2}, max_output_tokens: 77, "
                    "on_unbounded: clamp, clamp_to: 30}\n";
    begin(&config);
    call_client_ask(&client, "{\"model\":\"opus\",\"messages\":[{\"role\":\"user\",\"content\":"
                             "\"hi\"}]}");
    expect_in(call_kit_out()->body, "\"max_tokens\":20,");
    reply_and_end(200, JSON, MESSAGE);
    expect_in(client.head, "x-tollgate-clamped: max_tokens=20\n");
    call_client_ask(&client, "{\"model\":\"flash\",\"messages\":[{\"role\":\"user\",\"content\":"
                             "\"hi\"}]}");
    expect_in(call_kit_out()->body, "\"maxOutputTokens\":30");
    reply_and_end(200, JSON, GEMINI_REPLY);
    expect_in(client.head, "x-tollgate-clamped: maxOutputTokens=30\n");
    call_kit_close();
}

/* What a provider of responses is sent, and what its reply becomes. */
static void a_chat_reaches_a_provider_of_responses(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.providers = "  r: {api: openai-responses, base_url: \"http://127.0.0.1:3\", "
                       "keys: [{name: r1, secret: \"${CALL_KIT_SECRET}\"}]}\n";
    config.models = "  resp: {provider: r, price: {input: 1, output: 2}, max_output_tokens: 77, "
                    "on_unbounded: clamp, clamp_to: 40}\n";
    begin(&config);
    call_client_ask(&client, "{\"model\":\"resp\",\"messages\":[{\"role\":\"user\",\"content\":"
                             "\"hi\"}]}");
    assert_string_equal(call_kit_out()->target, "/v1/responses");
    expect_not_in(call_kit_out()->request, "anthropic-version");
    expect_in(call_kit_out()->body, "\"max_output_tokens\":40");
    reply_and_end(200, JSON,
                  "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\","
                  "\"model\":\"resp\",\"output\":[{\"type\":\"message\",\"id\":\"m\","
                  "\"role\":\"assistant\",\"status\":\"completed\",\"content\":[{"
                  "\"type\":\"output_text\",\"text\":\"hello\",\"annotations\":[]}]}],"
                  "\"usage\":{\"input_tokens\":5,\"output_tokens\":3,\"total_tokens\":8}}");
    expect_in(client.head, "x-tollgate-clamped: max_output_tokens=40\n");
    expect_in(client.body, "\"object\":\"chat.completion\"");
    expect_in(client.body, "\"content\":\"hello\"");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_kit_close();
}

static void what_cannot_be_carried_is_refused_by_its_name(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask(&client, "{\"model\":\"opus\",\"logit_bias\":{\"1\":2},\"messages\":[{\"role\":"
                             "\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "'logit_bias' cannot be carried over");
    expect_in(client.body, "\"param\":\"logit_bias\"");
    assert_int_equal(call_kit.n_outs, 0);
    assert_int_equal(client.call->attempts, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_ask_at(&client, "/v1/messages",
                       "{\"model\":\"first\",\"max_tokens\":10,\"top_k\":3,"
                       "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "{\"type\":\"error\"");
    expect_in(client.body, "'top_k' cannot be carried over");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_lossy_model_leaves_it_out_and_says_so(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, translate: lossy}\n";
    begin(&config);
    call_client_ask(&client, "{\"model\":\"opus\",\"logit_bias\":{\"1\":2},\"n\":2,"
                             "\"max_tokens\":9,\"messages\":[{"
                             "\"role\":\"user\",\"content\":\"hi\"}]}");
    expect_not_in(call_kit_out()->body, "logit_bias");
    reply_and_end(200, JSON, MESSAGE);
    expect_in(client.head, "x-tollgate-dropped: ");
    expect_in(client.head, "logit_bias");
    expect_in(client.head, "n");
    call_kit_close();
}

static void what_rules_put_in_is_translated(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, rules: [{field: "
                    "max_tokens, "
                    "set: 7}, {field: temperature, set: 0.5}]}\n";
    begin(&config);
    call_client_ask(&client, CHAT_WITH_OPUS);
    expect_in(call_kit_out()->body, "\"max_tokens\":7,");
    expect_in(call_kit_out()->body, "\"temperature\":0.5");
    reply_and_end(200, JSON, MESSAGE);
    expect_in(client.head, "x-tollgate-changed: ");
    call_kit_close();
}

static void a_long_body_is_translated_on_a_thread(void **state)
{
    (void)state;
    begin(&foreign);
    for (int i = 0; i < 2; i++) {
        call_kit.no_threads = i == 1;
        call_client_ask(&client, call_kit_large_body());
        if (i == 0) {
            expect_state(CALL_TRANSLATING);
            assert_int_equal(client.call->parse.job.takes,
                             translation_takes(client.call->body.n));
            assert_true(client.call->parse.job.room > 0);
            call_kit_parse();
        }
        expect_state(CALL_ASKING);
        assert_true(call_kit_out()->body_n > 66 * 1024);
        reply_and_end(200, JSON, MESSAGE);
    }
    call_kit_close();
}

/* So is its second translation, once it is known what money there is for. */
static void a_long_body_is_bounded_on_a_thread(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, max_output_tokens: 77, "
                    "on_unbounded: clamp, clamp_to: 20}\n";
    begin(&config);
    for (int i = 0; i < 3; i++) {
        call_client_ask(&client, call_kit_unbounded_body());
        call_kit_parse();
        expect_state(CALL_BOUNDING);
        if (i == 0) {
            call_kit_parse();
            expect_state(CALL_ASKING);
            expect_in(call_kit_out()->body, "\"max_tokens\":20,");
            reply_and_end(200, JSON, MESSAGE);
            expect_in(client.head, "x-tollgate-clamped: max_tokens=20\n");
            continue;
        }
        call_kit.job_runs = i == 1; /* who leaves meanwhile was charged nothing */
        call_client_gone(&client, HTTP_HANGUP);
        if (i == 1)
            call_kit_parse();
        assert_int_equal(client.call->attempts, 0);
        assert_int_equal(client.call->spent, 0);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

static void without_memory_for_its_bound_a_call_is_charged_nothing(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, max_output_tokens: 77, "
                    "on_unbounded: clamp, clamp_to: 20}\n";
    begin(&config);
    call_client_ask(&client, call_kit_unbounded_body());
    call_kit_parse();
    expect_state(CALL_BOUNDING);
    struct net_job *job = call_kit.job;
    call_kit.job = NULL;
    job->run(job, NULL);
    job->done.run(job->done.arg);
    assert_int_equal(client.status, 503);
    assert_int_equal(client.call->spent, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_thread_without_memory_is_no_fault_of_the_client(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask(&client, call_kit_large_body());
    expect_state(CALL_TRANSLATING);
    struct net_job *job = call_kit.job;
    call_kit.job = NULL;
    job->run(job, NULL);
    job->done.run(job->done.arg);
    assert_int_equal(client.status, 503);
    assert_string_equal(client.reason, "memory_pressure");
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The bytes of a call whose provider speaks its client's dialect are not looked at. */
static void a_key_in_the_query_is_not_forwarded(void **state)
{
    static const struct {
        const char *target, *sent;
    } rows[] = {
        {"/v1/chat/completions?key=secret", "/v1/chat/completions"},
        {"/v1/chat/completions?a=1&key=secret", "/v1/chat/completions?a=1"},
        {"/v1/chat/completions?%6bey=secret&b=2", "/v1/chat/completions?b=2"},
        {"/v1/chat/completions?key&keys=1&b", "/v1/chat/completions?keys=1&b"},
        {"/v1/chat/completions?a=key=1", "/v1/chat/completions?a=key=1"},
    };

    (void)state;
    begin(&foreign);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_client_ask_at(&client, rows[i].target, CALL_KIT_BODY);
        assert_string_equal(call_kit_out()->target, rows[i].sent);
        assert_string_equal(call_kit_out()->body, CALL_KIT_BODY);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    call_kit_close();
}

/* ---- streams ---- */

static void a_stream_is_translated_as_it_comes(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask(&client, STREAM_OF_OPUS);
    expect_in(call_kit_out()->body, "\"stream\":true");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    expect_state(CALL_ASKING);
    call_out_data(call_kit_out(), "event: mess");
    assert_int_equal(client.status, 0);
    assert_true(atomic_load(&call_kit.gateway->counts.buffered) > 0);
    call_out_data(call_kit_out(), &MESSAGE_START[11]);
    assert_int_equal(client.status, 200);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.buffered), 0); /* no retry needs it */
    expect_in(client.head, "content-type: text/event-stream; charset=utf-8\n");
    expect_in(client.head, "cache-control: no-cache\n");
    expect_in(client.body, "\"role\":\"assistant\"");
    call_out_data(call_kit_out(), MESSAGE_TEXT);
    expect_in(client.body, "\"content\":\"hello\"");
    call_out_data(call_kit_out(), MESSAGE_STOP);
    expect_in(client.body, "\"finish_reason\":\"stop\"");
    assert_string_equal(client.body + client.body_n - 14, "data: [DONE]\n\n");
    expect_not_in(client.body, "\"usage\":{"); /* it was not asked for */
    call_out_end(call_kit_out());
    assert_int_equal(client.finished, 1);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_true(client.call->usage_reported);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void usage_of_a_chat_is_asked_for_and_told_in_messages(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask_at(&client, "/v1/messages", STREAM_OF_MESSAGES);
    expect_in(call_kit_out()->body, "\"include_usage\":true");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK CHUNK_STOP CHUNK_USAGE DONE);
    call_out_end(call_kit_out());
    expect_in(client.head, "request-id: req_");
    expect_in(client.body, "event: message_start\n");
    expect_in(client.body, "\"input_tokens\":5");
    expect_in(client.body, "\"output_tokens\":3");
    expect_in(client.body, "event: message_stop\n");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Like with every stream, nothing has gone out, so another attempt may do better. */
static void an_error_in_place_of_the_first_event_is_tried_again(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask(&client, STREAM_OF_OPUS);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), MESSAGE_ERROR);
    expect_state(CALL_PAUSING);
    assert_int_equal(client.status, 0);
    call_kit_pass(1000);
    expect_state(CALL_ASKING);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), MESSAGE_START MESSAGE_TEXT MESSAGE_STOP);
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 200);
    assert_int_equal(client.call->attempts, 2);
    expect_in(client.body, "[DONE]");
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* However it breaks, the client is told, and never that it is complete. */
static void a_broken_stream_ends_in_an_error_of_the_clients_form(void **state)
{
    (void)state;
    begin(&foreign);
    for (int how = 0; how < 3; how++) {
        call_client_ask(&client, STREAM_OF_OPUS);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), MESSAGE_START MESSAGE_TEXT);
        call_kit_pass(1000);
        if (how == 0)
            call_out_fail(call_kit_out(), HTTP_RESET);
        else if (how == 1)
            call_out_end(call_kit_out());
        else
            call_out_data(call_kit_out(), MESSAGE_ERROR);
        expect_state(CALL_OVER);
        expect_in(client.body, "data: {\"error\":{");
        expect_not_in(client.body, "[DONE]");
        expect_not_in(client.body, "finish_reason\":\"");
        assert_int_equal(client.finished, 1);
        assert_true(client.call->spent > 0);
        assert_false(client.call->usage_reported);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_kit_pass(60000);
    }
    call_kit_close();
}

/* The input is the provider's count, the output by the time that it has had. */
static void a_hang_up_is_billed_by_the_rule_of_cut_calls(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask(&client, STREAM_OF_OPUS);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), MESSAGE_START MESSAGE_TEXT);
    call_kit_out()->out.sent = true;
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(call_kit_out()->cancelled, 1);
    assert_int_equal(client.call->usage.input, 5);
    assert_int_equal(client.call->usage.output, 10); /* the bound of the call */
    assert_int_equal(client.call->spent, 5 + 2 * 10);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_drained_stream_is_billed_by_its_word(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.providers = "  q: {api: anthropic, base_url: \"http://127.0.0.1:1\", on_disconnect: "
                       "drain, "
                       "keys: [{name: a1, secret: \"${CALL_KIT_SECRET}\"}]}\n" GEMINI_PROVIDER;
    begin(&config);
    call_client_ask(&client, STREAM_OF_OPUS);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), MESSAGE_START);
    call_kit_out()->out.sent = true;
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    call_out_data(call_kit_out(), MESSAGE_TEXT MESSAGE_STOP);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_true(client.call->usage_reported);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* ---- errors ---- */

static void errors_have_the_form_of_the_client(void **state)
{
    static const struct {
        const char *target, *body;
        int status;
        const char *error;
        int told;
        const char *expected;
    } rows[] = {
        {"/v1/chat/completions", CHAT_WITH_OPUS, 400,
         "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt "
         "is "
         "too long: 9000 tokens > 8000 maximum\"}}",
         400, "\"code\":\"context_length_exceeded\""},
        {"/v1/chat/completions", CHAT_WITH_OPUS, 404,
         "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"no "
         "such\"}}",
         404,
         "{\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no such\""},
        {"/v1/messages", MESSAGES_OF_FIRST, 400,
         "{\"error\":{\"message\":\"maximum context length is 8000 tokens, you asked for 9000\","
         "\"code\":\"context_length_exceeded\"}}",
         400, "prompt is too long: 9000 tokens > 8000 maximum"},
        {"/v1/messages", MESSAGES_OF_FIRST, 413, "<html>too large</html>", 413,
         "{\"type\":\"error\",\"error\":{\"type\":\"request_too_large\""},
    };

    (void)state;
    begin(&foreign);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_client_ask_at(&client, rows[i].target, rows[i].body);
        call_out_reply(call_kit_out(), rows[i].status, JSON, rows[i].error);
        assert_int_equal(client.status, rows[i].told);
        expect_in(client.body, rows[i].expected);
        assert_int_equal(client.length, client.body_n);
        assert_int_equal(client.call->spent, 0);
        assert_int_equal(client.call->attempts, 1);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

/* However long it is, and though what is kept of it ends somewhere. */
static void a_long_error_has_the_form_of_the_client(void **state)
{
    static char text[70 << 10];

    (void)state;
    memset(text, ' ', sizeof text - 1);
    begin(&foreign);
    call_client_ask_at(&client, "/v1/messages", MESSAGES_OF_FIRST);
    call_out_head(call_kit_out(), 400, JSON);
    call_out_data(call_kit_out(), "{\"error\":{\"message\":\"no\"}}");
    call_out_data(call_kit_out(), text);
    expect_state(CALL_ASKING);
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 400);
    expect_in(client.body, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\"");
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void an_error_that_nothing_cured_is_told_in_the_clients_form(void **state)
{
    const struct call_kit_config config = with_first("retries: 0");

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages", MESSAGES_OF_FIRST);
    call_out_reply(call_kit_out(), 503, JSON,
                   "{\"error\":{\"message\":\"busy\"}}");
    assert_int_equal(client.status, 529);
    expect_in(client.body, "\"type\":\"overloaded_error\",\"message\":\"busy\"");
    assert_string_equal(client.reason, "upstream_error");
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_reply_that_nobody_can_read_is_no_answer(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, retries: 0}\n";
    begin(&config);
    call_client_ask(&client, CHAT_WITH_OPUS);
    call_out_reply(call_kit_out(), 200, JSON, "{\"content\":[");
    assert_int_equal(client.status, 502);
    assert_true(client.call->uncertain > 0); /* it may be billed */
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_out_says("content-encoding", "gzip");
    call_client_ask(&client, CHAT_WITH_OPUS);
    call_out_head(call_kit_out(), 200, JSON);
    int64_t buffered = atomic_load(&call_kit.gateway->counts.buffered);
    call_out_data(call_kit_out(), "nobody can read this");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.buffered), buffered); /* nor keeps it */
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* ---- fallbacks ---- */

static void a_fallback_may_be_of_any_dialect(void **state)
{
    static const struct {
        int status;
        enum http_why why;
    } failures[] = {{503, HTTP_DONE}, {429, HTTP_DONE}, {0, HTTP_LATE_FIRST_BYTE}, {0, HTTP_RESET}};
    struct call_kit_config config = with_first("retries: 0, fallback: [opus, flash]");

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, retries: "
                    "0}\n" GEMINI_MODEL;
    begin(&config);
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        call_client_ask(&client, CALL_KIT_STREAM);
        for (int attempt = 0; attempt < 2; attempt++) {
            expect_in(call_kit_out()->target, attempt == 0 ? "chat/completions" : "messages");
            if (failures[i].status != 0)
                call_out_reply(call_kit_out(), failures[i].status, JSON, "{}");
            else
                call_out_fail(call_kit_out(), failures[i].why);
            expect_state(CALL_ASKING);
        }
        assert_string_equal(call_kit_out()->target,
                            "/v1beta/models/flash%2F2:streamGenerateContent?alt=sse");
        expect_in(call_kit_out()->request, "x-goog-api-key: ");
        expect_not_in(call_kit_out()->request, "authorization");
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), "data: " GEMINI_REPLY "\n\n");
        call_out_end(call_kit_out());
        assert_int_equal(client.status, 200);
        assert_string_equal(client.model, "flash");
        expect_in(client.body, "\"content\":\"hello\"");
        expect_in(client.body, "data: [DONE]\n\n");
        assert_int_equal(client.call->usage.input, 5);
        assert_int_equal(client.call->usage.output, 3);
        if (failures[i].status != 0)
            assert_int_equal(client.call->spent, 5 * 3 + 3 * 4); /* once, at its price */
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_kit_pass(600000);
    }
    call_kit_close();
}

/* Nobody learns it in an outage: it is counted while the first model serves. */
static void a_fallback_that_could_not_serve_is_counted_and_passed_over(void **state)
{
    const struct call_kit_config config = with_first("retries: 0, fallback: [opus, second]");

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallback_uncarried), 0);
    call_client_ask(&client, "{\"model\":\"first\",\"logit_bias\":{\"1\":2},\"messages\":[{"
                             "\"role\":"
                             "\"user\",\"content\":\"hi\"}],\"max_tokens\":10}");
    expect_in(call_kit_out()->body, "logit_bias");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallback_uncarried), 1);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    expect_state(CALL_ASKING);
    expect_in(call_kit_out()->target, "/v1/chat/completions");
    expect_in(call_kit_out()->body, "\"model\":\"second\"");
    expect_in(call_kit_out()->body, "logit_bias");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallback_uncarried), 1);
    call_kit_close();
}

/* The body that goes out is the client's own again. */
static void a_call_comes_back_to_the_dialect_of_its_client(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, retries: 0, "
                    "fallback: [second]}\n";
    begin(&config);
    call_client_ask(&client, CHAT_WITH_OPUS);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    assert_string_equal(call_kit_out()->body,
                        "{\"model\":\"second\",\"max_tokens\":10,"
                        "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.body, CALL_KIT_REPLY);
    assert_string_equal(client.model, "second");
    call_kit_close();
}

/* ---- counting ---- */

static void tokens_are_estimated_where_the_provider_counts_none(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_ask_at(&client, "/v1/messages/count_tokens",
                       "{\"model\":\"first\",\"messages\":[{\"role\":\"user\","
                       "\"content\":\"hi\"}]}");
    assert_int_equal(client.status, 200);
    expect_in(client.head, "x-tollgate-estimated: input_tokens\n");
    expect_in(client.body, "{\"input_tokens\":");
    assert_int_equal(call_kit.n_outs, 0);
    assert_int_equal(client.call->spent, -1);
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(call_kit_money_settled(), 0);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chat_reaches_a_provider_of_messages),
        cmocka_unit_test(a_reply_has_the_form_of_its_client),
        cmocka_unit_test(messages_reach_a_provider_of_chats),
        cmocka_unit_test(a_models_most_stands_for_a_bound_that_is_missing),
        cmocka_unit_test(a_clamp_uses_the_field_of_the_provider),
        cmocka_unit_test(a_chat_reaches_a_provider_of_responses),
        cmocka_unit_test(what_cannot_be_carried_is_refused_by_its_name),
        cmocka_unit_test(a_lossy_model_leaves_it_out_and_says_so),
        cmocka_unit_test(what_rules_put_in_is_translated),
        cmocka_unit_test(a_long_body_is_translated_on_a_thread),
        cmocka_unit_test(a_long_body_is_bounded_on_a_thread),
        cmocka_unit_test(without_memory_for_its_bound_a_call_is_charged_nothing),
        cmocka_unit_test(a_thread_without_memory_is_no_fault_of_the_client),
        cmocka_unit_test(a_key_in_the_query_is_not_forwarded),
        cmocka_unit_test(a_stream_is_translated_as_it_comes),
        cmocka_unit_test(usage_of_a_chat_is_asked_for_and_told_in_messages),
        cmocka_unit_test(an_error_in_place_of_the_first_event_is_tried_again),
        cmocka_unit_test(a_broken_stream_ends_in_an_error_of_the_clients_form),
        cmocka_unit_test(a_hang_up_is_billed_by_the_rule_of_cut_calls),
        cmocka_unit_test(a_drained_stream_is_billed_by_its_word),
        cmocka_unit_test(errors_have_the_form_of_the_client),
        cmocka_unit_test(a_long_error_has_the_form_of_the_client),
        cmocka_unit_test(an_error_that_nothing_cured_is_told_in_the_clients_form),
        cmocka_unit_test(a_reply_that_nobody_can_read_is_no_answer),
        cmocka_unit_test(a_fallback_may_be_of_any_dialect),
        cmocka_unit_test(a_fallback_that_could_not_serve_is_counted_and_passed_over),
        cmocka_unit_test(a_call_comes_back_to_the_dialect_of_its_client),
        cmocka_unit_test(tokens_are_estimated_where_the_provider_counts_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
