/* test_call_token.c - calls of a service account's key wait for its token, and not too long. */
#include "net_call_case.h"

static const struct call_kit_config plain = {.first = NULL};

static void a_call_waits_for_the_token_of_its_key(void **state)
{
    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_TOKEN);
    assert_int_equal(call_kit.n_outs, 0);
    call_kit_give_token(true);
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit.n_timers, 0);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING); /* there is one already */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Nothing was sent, so nothing is charged, not even a unit of the rate. */
static void without_a_token_the_client_is_told_502(void **state)
{
    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_TOKEN);
    call_kit_give_token(false);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    assert_string_equal(client.reason, "upstream_credentials");
    assert_int_equal(client.call->attempts, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_ask(&client, CALL_KIT_BODY); /* nobody waits while fetching fails */
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_call_waits_for_a_bounded_time(void **state)
{
    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(4999);
    expect_state(CALL_AT_TOKEN);
    call_kit_pass(6000); /* the other key's token does not come either */
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "upstream_credentials");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_call_does_not_wait_past_its_deadline(void **state)
{
    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_client_says("x-stainless-timeout", "1");
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_TOKEN);
    call_kit_pass(1010);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_client_may_leave_while_it_waits(void **state)
{
    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_client_ask(&client, CALL_KIT_BODY);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_expect_released(&client);
    call_kit_give_token(true);
    call_kit_close();
}

static void a_fallback_serves_where_there_is_no_token(void **state)
{
    static const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                                  .models = ANTHROPIC_MODEL,
                                                  .first = "fallback: [opus]"};

    (void)state;
    begin(&config);
    call_kit_want_token();
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_give_token(false);
    expect_state(CALL_ASKING);
    assert_string_equal(call_kit_out()->target, "/base/v1/messages");
    reply_and_end(200, JSON, MESSAGE);
    assert_string_equal(client.model, "opus");
    call_kit_close();
}

/* The token may have been revoked: another one is fetched, which the next calls take. */
static void a_token_that_was_turned_away_is_doubted(void **state)
{
    struct access_token *token;

    (void)state;
    begin(&plain);
    call_kit_want_token();
    call_kit_give_token(true);
    call_kit_pass(60 * 1000);
    call_client_ask(&client, CALL_KIT_BODY);
    token = client.call->attempt.owner->place->token;
    assert_false(access_token_is_due(token, call_kit.now));
    call_out_reply(call_kit_out(), 401, JSON, "{}");
    assert_true(access_token_is_due(token, call_kit.now));
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* ---- the token itself ---- */

static void a_token_is_renewed_ahead_of_its_end(void **state)
{
    static const struct {
        tg_ms life, renewed, ended;
    } rows[] = {
        {3600000, 3300000, 3590000}, /* five minutes ahead; not sent in its last ten seconds */
        {600000, 450000, 590000},
        {4000, 3000, 3600},
    };
    const tg_ms at = 1000000;
    struct access_token *token;
    char text[ACCESS_TOKEN_MAX];
    size_t n;

    (void)state;
    begin(&plain);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit_want_token();
        token = gateway_newest(call_kit.gateway)->places[0].token;
        assert_true(access_token_is_due(token, at));
        access_token_set(token, SLICE("abc"), at, rows[i].life);
        assert_false(access_token_is_due(token, at + rows[i].renewed - 1));
        assert_true(access_token_is_due(token, at + rows[i].renewed));
        assert_int_equal(
            access_token_take(token, at + rows[i].ended - 1, text, &n), ACCESS_READY);
        assert_int_equal(n, 3);
        assert_memory_equal(text, "abc", 3);
        assert_int_equal(access_token_take(token, at + rows[i].ended, text, &n),
                         ACCESS_NONE);
    }
    call_kit_close();
}

static void a_failure_is_followed_by_longer_and_longer_pauses(void **state)
{
    static const tg_ms pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 64000, 64000};
    struct access_token *token;
    tg_ms now = 1000000;

    (void)state;
    begin(&plain);
    call_kit_want_token();
    token = gateway_newest(call_kit.gateway)->places[0].token;
    for (size_t i = 0; i < COUNT_OF(pauses); i++) {
        access_token_failed(token, now);
        assert_false(access_token_is_due(token, now + pauses[i] - 1));
        now += pauses[i];
        assert_true(access_token_is_due(token, now));
    }
    access_token_set(token, SLICE("abc"), now, 3600000);
    access_token_failed(token, now + 3300000); /* the one that is there goes on being used */
    assert_int_equal(access_token_take(token, now + 3300001, NULL, NULL),
                     ACCESS_READY);
    assert_true(access_token_is_due(token, now + 3301000));
    call_kit_close();
}

static void a_text_that_no_header_carries_is_no_token(void **state)
{
    static char long_text[ACCESS_TOKEN_MAX + 1];
    struct access_token *token;

    (void)state;
    begin(&plain);
    call_kit_want_token();
    token = gateway_newest(call_kit.gateway)->places[0].token;
    memset(long_text, 'a', sizeof long_text);
    access_token_set(token, (struct slice){long_text, sizeof long_text}, 1000, 3600000);
    assert_int_equal(access_token_take(token, 1001, NULL, NULL), ACCESS_NONE);
    access_token_set(token, SLICE(""), 1000, 3600000);
    assert_int_equal(access_token_take(token, 1001, NULL, NULL), ACCESS_NONE);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_waits_for_the_token_of_its_key),
        cmocka_unit_test(without_a_token_the_client_is_told_502),
        cmocka_unit_test(a_call_waits_for_a_bounded_time),
        cmocka_unit_test(a_call_does_not_wait_past_its_deadline),
        cmocka_unit_test(a_client_may_leave_while_it_waits),
        cmocka_unit_test(a_fallback_serves_where_there_is_no_token),
        cmocka_unit_test(a_token_that_was_turned_away_is_doubted),
        cmocka_unit_test(a_token_is_renewed_ahead_of_its_end),
        cmocka_unit_test(a_failure_is_followed_by_longer_and_longer_pauses),
        cmocka_unit_test(a_text_that_no_header_carries_is_no_token),
    };

    return cmocka_run_group_tests_name("call_token", tests, NULL, NULL);
}
