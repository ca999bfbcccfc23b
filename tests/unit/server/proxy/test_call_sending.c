/* test_call_sending.c - the body of a request goes out as its provider takes it. */
#include "net_call_case.h"

#include <string.h>

#define TWICE_CHANGED "{\"max_tokens\":9, \"model\":\"theirs\", \"messages\":[ ] }"

static const struct call_kit_config TWICE = {
    .first = "upstream_model: theirs, max_output_tokens: 9, on_unbounded: clamp"};

static void ask_slow_provider(void)
{
    begin(&TWICE);
    call_kit.is_full = true;
    call_client_ask(&client, "{ \"model\":\"first\", \"messages\":[ ] }");
    assert_int_equal(call_kit_out()->finished, 0);
    assert_true(call_kit_out()->body_n < strlen(TWICE_CHANGED));
}

static long long buffered(void)
{
    return atomic_load(&call_kit.gateway->counts.buffered);
}

/* What a provider does not take yet is not copied for it. */
static void a_body_is_written_as_the_provider_takes_it(void **state)
{
    (void)state;
    ask_slow_provider();
    while (call_kit_out()->finished == 0)
        call_out_room(call_kit_out());
    assert_string_equal(call_kit_out()->body, TWICE_CHANGED);
    assert_int_equal(call_kit_out()->length, call_kit_out()->body_n);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* A provider may reply before it has read all, and read on. */
static void a_body_stays_until_it_is_written(void **state)
{
    (void)state;
    ask_slow_provider();
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), "data: {}\n\n");
    assert_int_equal(client.status, 200);
    assert_true(buffered() > 0);
    while (call_kit_out()->finished == 0)
        call_out_room(call_kit_out());
    assert_string_equal(call_kit_out()->body, TWICE_CHANGED);
    assert_int_equal(buffered(), 0);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Or end its reply, and read none of it. */
static void a_body_that_is_never_written_is_given_back(void **state)
{
    (void)state;
    ask_slow_provider();
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(buffered(), 0);
    call_kit_close();
}

/* The next attempt begins with the first byte. */
static void a_body_that_was_written_in_part_is_sent_again_whole(void **state)
{
    (void)state;
    ask_slow_provider();
    call_kit.is_full = false;
    call_out_fail(call_kit_out(), HTTP_RESET);
    call_kit_pass(1000);
    assert_int_equal(call_kit.n_outs, 2);
    assert_string_equal(call_kit_out()->body, TWICE_CHANGED);
    assert_int_equal(call_kit_out()->finished, 1);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_written_as_the_provider_takes_it),
        cmocka_unit_test(a_body_stays_until_it_is_written),
        cmocka_unit_test(a_body_that_is_never_written_is_given_back),
        cmocka_unit_test(a_body_that_was_written_in_part_is_sent_again_whole),
    };

    return cmocka_run_group_tests_name("call_sending", tests, NULL, NULL);
}
