/* test_proxy.c - the service itself: the requests that it is told of, the calls that it keeps. */
#include "net_call_case.h"

#include <stdlib.h>
#include <string.h>

/* Everything that a listener tells a service reaches the call of that request. */
static void a_request_is_told_to_its_call(void **state)
{
    (void)state;
    begin(NULL);
    call_client_new(&client); /* the kit's head, for the service's own call */
    struct http_inbound in = client.in;
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_gone(&client, HTTP_HANGUP);
    client.in = in;
    assert_true(proxy_service.begin(&call_kit.worker, &client.in));
    struct call *call = client.call = client.in.owner;
    assert_ptr_equal(call->service, &proxy_service);
    assert_ptr_equal(call->env, &call_env);
    expect_state(CALL_READING);
    proxy_service.data(&client.in, SLICE("{"));
    proxy_service.data(&client.in, SLICE("x"));
    assert_int_equal(call->bytes_in, 2);
    proxy_service.end(&client.in);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 400);
    proxy_service.room(&client.in);
    expect_state(CALL_OVER);
    proxy_service.gone(&client.in, HTTP_DONE);
    expect_state(CALL_FREED);
    assert_int_equal(call->ended, HTTP_DONE);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.calls), 2);
    end();
}

/* A call of the gateway has everything that a test gives to its own. */
static void the_gateway_has_all_that_a_call_needs(void **state)
{
    void *members[sizeof call_env / sizeof(void *)];

    (void)state;
    memcpy(members, &call_env, sizeof members);
    for (size_t i = 0; i < COUNT_OF(members); i++)
        assert_non_null(members[i]);
    assert_ptr_equal(call_env.reply, &call_client_ops);
}

/* Structs of calls are used again, but a crowd of them is not kept for ever. */
static void ended_calls_are_kept_up_to_a_number(void **state)
{
    enum { KEPT = 256,
           CROWD = KEPT + 2 };
    static struct call_client *crowd[CROWD];

    (void)state;
    begin(NULL);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = calloc(1, sizeof *crowd[i]);
        assert_non_null(crowd[i]);
        call_client_begin_at(crowd[i], "GET", "/v1/nothing", 0);
        assert_int_equal(crowd[i]->status, 404);
    }
    assert_int_equal(atomic_load(&call_kit.gateway->counts.open), CROWD);
    assert_int_equal(call_kit.worker.proxy->n_spare, 0);
    for (int i = 0; i < CROWD; i++) {
        call_client_gone(crowd[i], HTTP_DONE);
        free(crowd[i]);
    }
    assert_int_equal(call_kit.worker.proxy->n_spare, KEPT);
    struct call *spare = call_kit.worker.proxy->spare;
    for (int i = 1; i < KEPT; i++, spare = spare->next_spare)
        assert_non_null(spare->next_spare);
    assert_null(spare->next_spare);
    spare = call_kit.worker.proxy->spare;
    call_client_begin(&client, -1);
    assert_ptr_equal(client.call, spare);
    assert_int_equal(call_kit.worker.proxy->n_spare, KEPT - 1);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* After a reload whose rules name more fields, structs with room for fewer are not used again. */
static void a_call_has_room_for_the_fields_that_its_generation_watches(void **state)
{
    (void)state;
    begin(NULL);
    call_client_begin(&client, -1);
    size_t n = call_kit.worker.generation->config.watch->n_fields;
    assert_true(n > 0);
    assert_int_equal(client.call->n_seen, n);
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(call_kit.worker.proxy->n_spare, 1);
    call_kit.worker.proxy->spare->n_seen = n - 1;
    call_client_begin(&client, -1);
    assert_int_equal(client.call->n_seen, n);
    assert_int_equal(call_kit.worker.proxy->n_spare, 0);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

/* What reads a reply that comes whole is used again, and a stream takes none. */
static void a_stream_holds_no_scan_and_a_whole_reply_gives_it_back(void **state)
{
    const struct proxy_worker *proxy;

    (void)state;
    begin(NULL);
    proxy = call_kit.worker.proxy;
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    const struct usage_scan *scan = client.call->scan;
    assert_non_null(scan);
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(proxy->n_spare_scans, 1);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    assert_null(client.call->scan);
    call_client_gone(&client, HTTP_HANGUP);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    assert_ptr_equal(client.call->scan, scan);
    assert_int_equal(proxy->n_spare_scans, 0);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

/* A struct that was used before says nothing of its last call. */
static void a_new_call_knows_nothing_of_the_last_one(void **state)
{
    (void)state;
    begin(NULL);
    call_client_says("x-stainless-retry-count", "1");
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    uint64_t id = client.call->id;
    call_kit_pass(10);
    call_client_new(&client);
    const struct call *call = client.call;
    assert_int_equal(call->state, CALL_NEW);
    assert_int_equal(call->began_at, call_kit.now);
    assert_true(call->id != id);
    assert_int_equal(call->spent, -1);
    assert_int_equal(call->reason, REPLY_COUNT);
    assert_int_equal(call->tenant, CONFIG_NONE);
    assert_int_equal(call->model, CONFIG_NONE);
    assert_null(call->route);
    assert_int_equal(call->used, 0);
    assert_int_equal(call->attempts, 0);
    assert_int_equal(call->status, 0);
    assert_int_equal(call->bytes_in, 0);
    assert_int_equal(call->bytes_out, 0);
    assert_false(call->is_retry);
    assert_false(call->ask.stream);
    assert_int_equal(call->attempt.status, 0);
    assert_int_equal(call->attempt.first_at, 0);
    assert_false(call->usage_reported);
    assert_null(call->scan);
    assert_int_equal(call->changes.n, 0);
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* Replies that are read on for their usage end with their worker. */
static void a_worker_that_stops_ends_its_calls(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain"};
    struct tg_problem problem;

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    proxy_service.stop(&call_kit.worker);
    assert_null(call_kit.worker.proxy);
    assert_int_equal(call_kit_out()->cancelled, 1);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.open), 0);
    assert_int_equal(call_kit_entry(1).flags,
                     LEDGER_ESTIMATED | LEDGER_CANCELLED | LEDGER_UNCERTAIN);
    assert_true(proxy_service.start(&call_kit.worker, &problem));
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_told_to_its_call),
        cmocka_unit_test(the_gateway_has_all_that_a_call_needs),
        cmocka_unit_test(ended_calls_are_kept_up_to_a_number),
        cmocka_unit_test(a_call_has_room_for_the_fields_that_its_generation_watches),
        cmocka_unit_test(a_stream_holds_no_scan_and_a_whole_reply_gives_it_back),
        cmocka_unit_test(a_new_call_knows_nothing_of_the_last_one),
        cmocka_unit_test(a_worker_that_stops_ends_its_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
