/* test_call_translate_money.c - what is reserved and charged for calls that are translated.
 *
 * The reservation is read from what the client wrote, and the provider bills what we have written
 * from it: the second must never be more than the first.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define GEMINI_PROVIDER                                     \
    "  g: {api: gemini, base_url: \"http://127.0.0.1:2\", " \
    "keys: [{name: g1, secret: \"${CALL_KIT_SECRET}\"}]}\n"
#define GEMINI_REPLY                                                                       \
    "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"hello\"}]}," \
    "\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5,"               \
    "\"candidatesTokenCount\":3,\"totalTokenCount\":8}}"
#define DEAR_TIERS "{input: 1, output: 2, factors: {service_tier: {priority: 2, flex: 0.5}}}"
#define FUNCTION_F "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"

/* A provider of each dialect, and a tenant with a budget. */
static const struct call_kit_config foreign = {
    .providers = ANTHROPIC_PROVIDER GEMINI_PROVIDER,
    .models = "  opus: {provider: q, price: {input: 1, output: 2}, translate: lossy}\n"
              "  flash: {provider: g, price: " DEAR_TIERS "}\n"
              "  chatty: {provider: p, price: " DEAR_TIERS "}\n",
    .tenant = "budgets: [{usd: 100, per: total}]",
};

/* What is reserved for a chat with this model, of which these are the other members. */
static tg_micro reserved_for(const char *model, const char *fields)
{
    char body[8192];

    snprintf(body, sizeof body, "{\"model\":\"%s\",\"max_tokens\":10,%s}", model, fields);
    call_client_ask(&client, body);
    expect_state(CALL_ASKING);
    tg_micro reserved = client.call->notes.reserved;
    reply_and_end(200, JSON, strcmp(model, "flash") == 0 ? GEMINI_REPLY : MESSAGE);
    return reserved;
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

static void tools_at_anthropic_bring_a_prompt_along_whoever_asks(void **state)
{
    (void)state;
    begin(&foreign);
    tg_micro without = reserved_for("opus", HI);
    assert_true(reserved_for("opus", HI "," FUNCTION_F) >= without + 900);
    assert_true(reserved_for("flash", HI "," FUNCTION_F) < without + 900);
    call_kit_close();
}

/* A result is written into an object that the model is shown as JSON. */
static void escapes_of_a_text_within_json_are_reserved(void **state)
{
    char body[8192], odd[601] = "";

    (void)state;
    for (int i = 0; i < 100; i++)
        memcpy(odd + 6 * i, "\\u0001", 7);
    snprintf(body, sizeof body,
             "\"messages\":[{\"role\":\"user\",\"content\":\"go\"},{\"role\":\"assistant\","
             "\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":{\"name\":\"f\","
             "\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"a\","
             "\"content\":\"%s\"}]",
             odd);
    begin(&foreign);
    assert_true(reserved_for("flash", body) >= 600);
    call_kit_close();
}

static void marks_of_a_cache_in_openais_words_are_reserved_as_writes(void **state)
{
    struct call_kit_config config = foreign;
    const char *format = "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\","
                         "\"text\":\"hi\"%s}]}]";
    const char *const marks[] = {"", ",\"prompt_cache_breakpoint\":{}",
                                 ",\"prompt_cache_breakpoint\":{\"ttl\":\"1h\"}"};
    tg_micro reserved[3];
    char fields[512];

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, cache_write: 10, cache_write_1h: 20, "
                    "output: 2}}\n";
    begin(&config);
    for (size_t i = 0; i < 3; i++) {
        snprintf(fields, sizeof fields, format, marks[i]);
        reserved[i] = reserved_for("opus", fields);
    }
    assert_true(reserved[1] > 9 * (reserved[0] - 20) && reserved[2] > 19 * (reserved[0] - 20));
    call_kit_close();
}

/* One provider writes that it takes no notice, another that there is no bound. */
static void a_cache_is_warmed_nowhere_else(void **state)
{
    struct call_kit_config config = foreign;

    (void)state;
    config.first = "translate: lossy";
    begin(&config);
    call_client_ask_at(&client, "/v1/messages", "{\"model\":\"first\",\"max_tokens\":0," HI "}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "max_tokens: 0");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void headers_that_choose_a_tier_need_a_rule_whatever_the_clients_dialect(void **state)
{
    (void)state;
    begin(&foreign);
    call_client_says("x-vertex-ai-llm-request-type", "shared");
    call_client_ask(&client, "{\"model\":\"flash\",\"max_tokens\":10," HI "}");
    assert_int_equal(client.status, 400);
    expect_in(client.body, "x-vertex-ai-llm-request-type");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* Anthropic's clients know no such tier, so it is not sent on. */
static void a_cheaper_tier_is_not_reserved_before_it_was_served(void **state)
{
    static const char *const tiers[] = {"auto", "flex"};
    tg_micro reserved[2];
    char body[512];

    (void)state;
    begin(&foreign);
    for (size_t i = 0; i < COUNT_OF(tiers); i++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"chatty\",\"max_tokens\":10,\"service_tier\":\"%s\"," HI "}",
                 tiers[i]);
        call_client_ask_at(&client, "/v1/messages", body);
        expect_state(CALL_ASKING);
        reserved[i] = client.call->notes.reserved;
        call_client_gone(&client, HTTP_DONE);
    }
    assert_int_equal(reserved[0], reserved[1]);
    call_kit_close();
}

/* What was served is charged, wherever the reply says it. */
static void the_tier_that_was_served_is_charged(void **state)
{
    static const struct {
        const char *tier;
        tg_micro spent;
    } rows[] = {{"priority", 22}, {"default", 11}, {"flex", 6}};
    char reply[512];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&foreign);
        call_client_ask(&client, "{\"model\":\"flash\",\"max_tokens\":10,"
                                 "\"service_tier\":\"priority\"," HI "}");
        expect_in(call_kit_out()->body, "\"serviceTier\":\"priority\"");
        snprintf(reply, sizeof reply,
                 "{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":"
                 "\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":5,\"candidatesTokenCount\":3,"
                 "\"serviceTier\":\"%s\"}}",
                 rows[i].tier);
        reply_and_end(200, JSON, reply);
        assert_int_equal(client.call->spent, rows[i].spent);
        snprintf(reply, sizeof reply,
                 "{\"id\":\"x\",\"service_tier\":\"%s\",\"choices\":[{\"index\":0,\"message\":{"
                 "\"role\":\"assistant\",\"content\":\"hello\"},\"finish_reason\":\"stop\"}],"
                 "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}",
                 rows[i].tier);
        call_client_ask_at(&client, "/v1/messages",
                           "{\"model\":\"chatty\",\"max_tokens\":10," HI "}");
        reply_and_end(200, JSON, reply);
        assert_int_equal(client.call->spent, rows[i].spent);
        call_kit_close();
    }
}

/* A beginning of the reply that is left out of one prompt is within the next one. */
static void a_prompt_that_was_sent_in_part_is_not_remembered(void **state)
{
    static char body[40000], text[10001];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    begin(&foreign);
    for (int turn = 0; turn < 2; turn++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"opus\",\"max_tokens\":10,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"%s\"},{\"role\":\"assistant\",\"content\":\"%s\"}%s]}",
                 text, text, turn == 0 ? "" : ",{\"role\":\"user\",\"content\":\"go on\"}");
        call_client_ask(&client, body);
        expect_state(CALL_ASKING);
        assert_true(client.call->notes.reserved > 20000);
        reply_and_end(200, JSON, MESSAGE);
    }
    call_kit_close();
}

/* What the provider owns up to is not billed. A time-out, and an error without a name, may be of a
 * call that runs on: what it may cost is held. */
static void an_error_in_a_foreign_stream_is_held_unless_the_provider_owns_up(void **state)
{
    static const struct {
        const char *error;
        bool held;
    } rows[] = {
        {"\"type\":\"overloaded_error\",\"message\":\"m\"", false},
        {"\"type\":\"api_error\",\"message\":\"m\"", false},
        {"\"type\":\"timeout_error\",\"message\":\"m\"", true},
        {"\"message\":\"m\"", true},
    };
    struct call_kit_config config = foreign;
    char event[256];

    (void)state;
    config.models = "  opus: {provider: q, price: {input: 1, output: 2}, retries: 0}\n";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, STREAM_OF_OPUS);
        int64_t most = client.call->attempt.most;
        call_kit_out()->out.sent = true;
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        snprintf(event, sizeof event,
                 "event: error\ndata: {\"type\":\"error\",\"error\":{%s}}\n\n", rows[i].error);
        call_out_data(call_kit_out(), event);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, 502);
        assert_int_equal(client.call->spent, 0);
        assert_int_equal(client.call->uncertain, rows[i].held ? most : 0);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tools_at_anthropic_bring_a_prompt_along_whoever_asks),
        cmocka_unit_test(escapes_of_a_text_within_json_are_reserved),
        cmocka_unit_test(marks_of_a_cache_in_openais_words_are_reserved_as_writes),
        cmocka_unit_test(a_cache_is_warmed_nowhere_else),
        cmocka_unit_test(headers_that_choose_a_tier_need_a_rule_whatever_the_clients_dialect),
        cmocka_unit_test(a_cheaper_tier_is_not_reserved_before_it_was_served),
        cmocka_unit_test(the_tier_that_was_served_is_charged),
        cmocka_unit_test(a_prompt_that_was_sent_in_part_is_not_remembered),
        cmocka_unit_test(an_error_in_a_foreign_stream_is_held_unless_the_provider_owns_up),
    };

    return cmocka_run_group_tests_name("call_translate_money", tests, NULL, NULL);
}
