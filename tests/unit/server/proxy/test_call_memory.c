/* test_call_memory.c - a call without memory, at each of its allocations in turn.
 *
 * The client gets an answer or is cut off, and nothing is left behind.
 */
#include "failing_malloc.h"

#include <string.h>

#include "net_call_case.h"

#define ERROR_BODY "{\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}"

/* The reply to the last request, if the call has got so far. */
static bool is_asking(void)
{
    return client.call != NULL && client.call->state == CALL_ASKING;
}

static void a_stream(void)
{
    call_client_ask(&client, CALL_KIT_STREAM);
    if (!is_asking())
        return;
    call_out_head(call_kit_out(), 200, "text/event-stream");
    call_out_data(call_kit_out(), ": hello\n\n");
    call_out_data(call_kit_out(), "data: {\"id\":\"x\",\"choices\":[{\"index\":0,"); /* cut */
    if (!call_kit_out()->over)
        call_out_data(call_kit_out(), "\"delta\":{\"content\":\"a\"}}]}\n\n");
    if (!call_kit_out()->over)
        call_out_end(call_kit_out());
}

/* What it does not take waits with the call, and without memory for that in the connection. */
static void a_slow_provider(void)
{
    call_kit.is_full = true;
    call_client_ask(&client, CALL_KIT_STREAM);
    while (is_asking() && call_kit_out()->finished == 0)
        call_out_room(call_kit_out());
    call_kit.is_full = false;
    if (is_asking()) {
        assert_int_equal(call_kit_out()->body_n, call_kit_out()->length);
        call_out_reply(call_kit_out(), 200, "text/event-stream", "data: [DONE]\n\n");
    }
}

static void a_failure_and_a_retry(void)
{
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 3 && is_asking(); i++) {
        call_out_reply(call_kit_out(), 503, JSON, ERROR_BODY);
        call_kit_pass(1000);
    }
}

static void a_fallback(void)
{
    call_client_ask(&client, CALL_KIT_BODY);
    if (is_asking())
        call_out_reply(call_kit_out(), 429, JSON, ERROR_BODY);
    call_kit_pass(1000);
    if (is_asking())
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
}

static void a_translated_reply(void)
{
    call_client_ask(&client, CHAT_WITH_OPUS);
    if (is_asking())
        call_out_reply(call_kit_out(), 200, JSON, MESSAGE);
    if (client.status == 200)
        expect_in(client.body, "\"audio_tokens\":0}}}"); /* it is whole */
}

static void a_translated_stream(void)
{
    call_client_ask(&client, STREAM_OF_OPUS);
    if (!is_asking())
        return;
    call_out_head(call_kit_out(), 200, "text/event-stream");
    call_out_data(call_kit_out(), MESSAGE_START);
    if (!call_kit_out()->over)
        call_out_data(call_kit_out(), MESSAGE_TEXT MESSAGE_STOP);
    if (!call_kit_out()->over)
        call_out_end(call_kit_out());
}

static void a_translated_fallback(void)
{
    call_client_ask(&client, CALL_KIT_BODY);
    if (client.call != NULL) /* without memory it is not said to be impossible */
        assert_int_equal(client.call->uncarried, 0);
    if (is_asking())
        call_out_reply(call_kit_out(), 429, JSON, ERROR_BODY);
    if (is_asking())
        call_out_reply(call_kit_out(), 200, JSON, MESSAGE);
}

static void a_list_of_models(void)
{
    call_client_begin_at(&client, "GET", "/v1/models", 0);
}

static void a_refusal_of_a_remote_store(void)
{
    call_kit.limits = call_kit.money = call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    if (call_kit.limits_asked != NULL)
        call_kit_answer_limits(REMOTE_SAYS_YES);
    if (call_kit.money_asked != NULL)
        call_kit_answer_money(REMOTE_SAYS_YES);
    if (call_kit.key_asked != NULL)
        call_kit_answer_key(REMOTE_SAYS_NO);
    if (call_kit.key_asked != NULL)
        call_kit_answer_key(REMOTE_FAILS);
}

/* One life of a call, whose nth allocation fails, or that and all after it. */
static void live_once(void (*path)(void), long nth)
{
    fail_at(nth);
    path();
    until_failure = -1;
    if (client.call == NULL) { /* there was not even memory for the struct */
        assert_int_equal(client.status, 0);
    } else {
        /* Whatever was missing: an answer, or there was none to be given yet. What is our own fault
         * is neither the client's nor the provider's. */
        assert_true(client.status != 0 || client.call->in != NULL);
        bool failed = client.status == 502 && client.call->failure != FAILURE_SERVER;
        if (client.status == 400 || client.status == 500 || failed)
            fail_msg("%d: %s", client.status, client.body);
        call_client_gone(&client, client.finished ? HTTP_DONE : HTTP_HANGUP);
        call_kit_expect_released(&client);
    }
    call_free_spares(call_kit.worker.proxy);
    call_kit_pass(600000); /* keys that were limited recover */
}

static void survive(const struct call_kit_config *config, void (*path)(void), bool persistently)
{
    long nth = 0;

    call_kit_open(config);
    live_once(path, -1);
    keeps_failing = persistently;
    do {
        live_once(path, nth); /* makes what is made once and kept: counters of this outcome */
        long before = live;
        live_once(path, nth);
        assert_int_equal(live, before);
    } while (allocations > nth++);
    assert_true(nth >= 2);
    call_kit_close();
}

static void a_call_survives_each_of_its_allocations(void **state)
{
    const struct call_kit_config fallback = {.first = "retries: 0, fallback: [second]"};
    const struct call_kit_config remote = {.remote = true};
    const struct call_kit_config foreign = {.first = "retries: 0, fallback: [opus]",
                                            .providers = ANTHROPIC_PROVIDER,
                                            .models = ANTHROPIC_MODEL};

    (void)state;
    need_allocator();
    for (int persistently = 0; persistently < 2; persistently++) {
        survive(NULL, a_stream, persistently);
        survive(NULL, a_slow_provider, persistently);
        survive(NULL, a_failure_and_a_retry, persistently);
        survive(&fallback, a_fallback, persistently);
        survive(&foreign, a_translated_reply, persistently);
        survive(&foreign, a_translated_stream, persistently);
        survive(&foreign, a_translated_fallback, persistently);
        survive(NULL, a_list_of_models, persistently);
        survive(&remote, a_refusal_of_a_remote_store, persistently);
    }
}

static void a_request_without_memory_for_its_call_is_aborted(void **state)
{
    (void)state;
    need_allocator();
    call_kit_open(NULL);
    fail_at(0);
    call_client_begin(&client, -1);
    assert_null(client.call);
    fail_at(0);
    assert_true(proxy_service.begin(&call_kit.worker, &client.in));
    until_failure = -1;
    assert_int_equal(client.aborted, 1);
    assert_null(client.in.owner);
    call_kit_expect_idle(NULL, 0);
    call_kit_close();
}

/* The first call to wait needs memory for its place in the queue: without it, it is refused, and
 * the one that has the slot goes on. */
static void a_call_without_memory_to_wait_is_refused(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  " LONG_WAIT};
    long nth = 0;
    int without = 0;

    (void)state;
    need_allocator();
    do {
        begin(&config);
        call_client_ask(&other, CALL_KIT_BODY);
        call_client_begin(&client, -1);
        call_client_body(&client, CALL_KIT_BODY);
        fail_at(nth);
        call_client_end(&client);
        until_failure = -1;
        if (client.status != 0 && client.call->route != NULL) { /* its body has been read */
            without++;
            expect_state(CALL_OVER);
            assert_int_equal(client.status, 503);
            assert_string_equal(client.reason, "memory_pressure");
            assert_false(client.call->notes.decided); /* no gate has said anything */
        }
        assert_int_equal(other.call->state, CALL_ASKING);
        call_client_gone(&client, client.finished ? HTTP_DONE : HTTP_HANGUP);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        call_client_gone(&other, HTTP_DONE);
        end();
    } while (allocations > nth++);
    assert_true(without > 0);
}

/* Not even an empty body can be read without memory. */
static void a_body_without_memory_is_an_error_of_ours(void **state)
{
    (void)state;
    need_allocator();
    call_kit_open(NULL);
    call_client_begin(&client, -1);
    fail_at(0);
    call_client_end(&client);
    until_failure = -1;
    assert_int_equal(client.status, 503);
    assert_string_equal(client.reason, "memory_pressure");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* Where tokens are estimated here, nobody else is asked who could still answer. */
static void an_estimate_without_memory_is_an_error_of_ours(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};
    long nth = 0;
    int without = 0;

    (void)state;
    need_allocator();
    do {
        begin(&config);
        call_client_begin_at(&client, "POST", "/v1/messages/count_tokens", -1);
        call_client_body(&client, "{\"model\":\"first\",\"messages\":[{\"role\":\"user\","
                                  "\"content\":\"hi\"}]}");
        fail_at(nth);
        call_client_end(&client);
        until_failure = -1;
        expect_state(CALL_OVER);
        if (client.status != 200) {
            without += client.call->route != NULL; /* its body has been read */
            assert_int_equal(client.status, 529);
            assert_string_equal(client.reason, "memory_pressure");
        }
        call_client_gone(&client, HTTP_DONE);
        call_kit_close();
    } while (allocations > nth++);
    assert_true(without > 0);
}

/* Nobody knows what it says, so it is charged like one that is encoded; the client gets it. */
static void a_reply_that_there_is_no_memory_to_read_is_charged_with_its_bound(void **state)
{
    (void)state;
    need_allocator();
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    fail_at(0);
    call_out_head(call_kit_out(), 200, JSON);
    until_failure = -1;
    assert_null(client.call->scan);
    call_out_data(call_kit_out(), CALL_KIT_REPLY);
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 200);
    expect_in(client.body, CALL_KIT_REPLY);
    assert_false(client.call->usage_reported);
    assert_int_equal(client.call->usage.output, 10);
    call_client_gone(&client, HTTP_DONE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_survives_each_of_its_allocations),
        cmocka_unit_test(a_request_without_memory_for_its_call_is_aborted),
        cmocka_unit_test(a_call_without_memory_to_wait_is_refused),
        cmocka_unit_test(a_body_without_memory_is_an_error_of_ours),
        cmocka_unit_test(an_estimate_without_memory_is_an_error_of_ours),
        cmocka_unit_test(a_reply_that_there_is_no_memory_to_read_is_charged_with_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
