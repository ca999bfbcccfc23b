/* test_call_errors.c - errors of a provider: which pass, which another attempt may cure, what they
 * say of their key.
 */
#include "net_call_case.h"

#include <string.h>

/* Which errors of a provider another attempt may cure, and what each says of its key. */
static void an_error_is_judged_by_its_status(void **state)
{
    static const struct {
        int status;
        enum tg_key_outcome outcome;
        int told; /* to the client; 0: the same */
        const char *reason;
    } rows[] = {
        {200, TG_KEY_OK, 0, ""},
        {299, TG_KEY_OK, 0, ""},
        {300, TG_KEY_FAILED, 502, "upstream_error"},
        {302, TG_KEY_FAILED, 502, "upstream_error"},
        {399, TG_KEY_FAILED, 502, "upstream_error"},
        {400, TG_KEY_REJECTED, 0, ""},
        {401, TG_KEY_REFUSED, 502, "upstream_credentials"},
        {402, TG_KEY_LIMITED, 429, "no_key"},
        {403, TG_KEY_REFUSED, 502, "upstream_credentials"},
        {404, TG_KEY_REJECTED, 0, ""},
        {408, TG_KEY_FAILED, 502, "upstream_error"},
        {409, TG_KEY_REJECTED, 0, ""},
        {422, TG_KEY_REJECTED, 0, ""},
        {429, TG_KEY_LIMITED, 429, "no_key"},
        {499, TG_KEY_REJECTED, 0, ""},
        {500, TG_KEY_FAILED, 0, "upstream_error"},
        {502, TG_KEY_FAILED, 0, "upstream_error"},
        {503, TG_KEY_FAILED, 0, "upstream_error"},
        {504, TG_KEY_FAILED, 0, "upstream_error"},
        {524, TG_KEY_FAILED, 0, "upstream_error"},
        {529, TG_KEY_FAILED, 0, "upstream_error"},
    };
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), rows[i].status, JSON, "{\"error\":{}}");
        expect_state(CALL_OVER);
        assert_int_equal(client.status, rows[i].told ? rows[i].told : rows[i].status);
        assert_string_equal(client.reason, rows[i].reason);
        assert_int_equal(call_kit.report.outcome, rows[i].outcome);
        assert_true(call_kit.report.sent);
        assert_int_equal(client.call->spent > 0, rows[i].status < 300);
        if (rows[i].status >= 300) /* what ran out of time may have run */
            assert_int_equal(client.call->uncertain > 0,
                             rows[i].status == 408 || rows[i].status == 504 ||
                                 rows[i].status == 524);
        if (rows[i].told == 0)
            assert_string_equal(client.body, "{\"error\":{}}");
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* The error of a provider goes out as its own, with our name for the call. */
static void an_error_that_nothing_cures_is_the_providers(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0",
                                           .providers = ANTHROPIC_PROVIDER,
                                           .models = "  opus: {provider: q, retries: 0, "
                                                     "price: {input: 1, output: 2}}\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(500, JSON, "{\"error\":{}}");
    expect_in(client.head, "content-type: application/json\n");
    expect_in(client.head, "x-tollgate-reason: upstream_error\n");
    expect_in(client.head, "x-request-id: req_");
    assert_int_equal(client.call->reason, REPLY_UPSTREAM_ERROR);
    assert_int_equal(client.call->bytes_out, client.body_n);
    call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
    reply_and_end(529, JSON, "{\"error\":{}}");
    assert_int_equal(client.status, 529);
    expect_in(client.head, "request-id: req_");
    expect_not_in(client.head, "x-request-id");
    call_kit_close();
}

/* A page of some machine on the way, an empty or an encoded body: the error is ours. */
static void an_error_that_no_sdk_reads_is_replaced(void **state)
{
    static const char *const bodies[] = {"<html>", "", "{}", "upstream connect error", "~", "["};
    const struct call_kit_config config = {
        .first = "retries: 0",
        .providers = ANTHROPIC_PROVIDER,
        .models = "  opus: {provider: q, price: {input: 1, output: 2}, retries: 0}\n"};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(bodies); i++) {
        bool is_foreign = i % 2 == 1;
        if (is_foreign && bodies[i / 2][0] == '[')
            continue; /* there are providers whose errors are lists */
        begin(&config);
        if (bodies[i / 2][0] == '{')
            call_out_says("content-encoding", "gzip");
        call_client_ask(&client, is_foreign ? CHAT_WITH_OPUS : CALL_KIT_BODY);
        reply_and_end(503, JSON, bodies[i / 2]);
        assert_int_equal(client.status, 502);
        expect_in(client.body, "the provider failed");
        call_kit_close();
    }
}

/* Errors are kept up to 64 KiB; a 400 of more passes as it comes. */
static void an_error_is_kept_up_to_64_kib(void **state)
{
    enum { KEPT = 64 * 1024 };
    static char text[KEPT + 2];
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t n = KEPT - 1; n <= KEPT + 1; n++) {
        memset(text, 'x', n);
        text[0] = '{';
        text[n] = '\0';
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_head(call_kit_out(), 503, JSON);
        call_out_data(call_kit_out(), "{");
        call_out_data(call_kit_out(), text + 1);
        call_out_end(call_kit_out());
        assert_int_equal(client.status, 503);
        assert_int_equal(client.body_n, n <= KEPT ? n : KEPT);
        assert_memory_equal(client.body, text, client.body_n);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_head(call_kit_out(), 400, JSON);
        call_out_data(call_kit_out(), "{");
        call_out_data(call_kit_out(), text + 1);
        expect_state(n <= KEPT ? CALL_ASKING : CALL_ANSWERING);
        client.queued = HTTP_OUTPUT_HIGH + 1; /* nothing is left that could be paused */
        call_out_end(call_kit_out());
        assert_int_equal(client.status, 400);
        assert_memory_equal(client.body, text, n);
        assert_int_equal(client.body_n, n);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* What was kept of one attempt is not a part of the next one's. */
static void each_attempt_keeps_its_own_error(void **state)
{
    const struct call_kit_config config = {.first = "retries: 1"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 503, JSON, "{\"first\":\"much longer than the other\"}");
    call_kit_pass(1000);
    reply_and_end(502, JSON, "{\"second\":1}");
    assert_int_equal(client.status, 502);
    assert_string_equal(client.body, "{\"second\":1}");
    call_kit_close();
}

static void an_encoded_400_is_not_read(void **state)
{
    (void)state;
    begin(NULL);
    call_out_says("content-encoding", "br");
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 400, JSON);
    expect_state(CALL_ANSWERING);
    call_out_data(call_kit_out(), "insufficient_quota");
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A reply that says that it is not encoded is read. */
static void identity_is_no_encoding(void **state)
{
    (void)state;
    begin(NULL);
    call_out_says("content-encoding", "Identity");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_kit_close();
}

/* An account without money: waiting does not help, so its key rests for as long as one may. Other
 * errors may quote anything. */
static void a_key_without_money_rests_for_long(void **state)
{
    static const struct {
        int status;
        const char *body;
        tg_ms rests;
        enum tg_key_outcome outcome;
    } rows[] = {
        {402, "{}", 600000, TG_KEY_LIMITED},
        {429, "{\"error\":{\"code\":\"insufficient_quota\"}}", 600000, TG_KEY_LIMITED},
        {400, "{\"error\":{\"code\":\"insufficient_quota\"}}", 600000, TG_KEY_LIMITED},
        {429, "{\"error\":{\"code\":\"rate_limit_exceeded\"}}", 20000, TG_KEY_LIMITED},
        {500, "{\"error\":{\"code\":\"insufficient_quota\"}}", 20000, TG_KEY_FAILED},
        {401, "{\"error\":{\"code\":\"insufficient_quota\"}}", 20000, TG_KEY_REFUSED},
    };
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_out_says("retry-after", "20");
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), rows[i].status, JSON, rows[i].body);
        assert_int_equal(call_kit.report.outcome, rows[i].outcome);
        assert_int_equal(call_kit.report.cool_until, call_kit.now + rows[i].rests);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_judged_by_its_status),
        cmocka_unit_test(an_error_that_nothing_cures_is_the_providers),
        cmocka_unit_test(an_error_that_no_sdk_reads_is_replaced),
        cmocka_unit_test(an_error_is_kept_up_to_64_kib),
        cmocka_unit_test(each_attempt_keeps_its_own_error),
        cmocka_unit_test(an_encoded_400_is_not_read),
        cmocka_unit_test(identity_is_no_encoding),
        cmocka_unit_test(a_key_without_money_rests_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
