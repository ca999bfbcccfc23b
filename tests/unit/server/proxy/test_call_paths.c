/* test_call_paths.c - what becomes of a call on the ways that it can take, to the millisecond and
 * the micro-dollar, and that nothing of it is left.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

/* ---- the way that meets no obstacle ---- */

static void a_call_is_charged_with_what_its_reply_reports(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    assert_string_equal(call_kit_out()->target, "/v1/chat/completions");
    assert_string_equal(call_kit_out()->authorization, "Bearer provider-secret");
    assert_string_equal(call_kit_out()->body, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->finished, 1);
    call_kit_pass(100);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 200);
    assert_string_equal(client.body, CALL_KIT_REPLY);
    assert_int_equal(client.finished, 1);
    assert_int_equal(client.call->used, CALL_KIT_USED);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_stream_passes_as_it_comes(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    expect_state(CALL_ASKING); /* an error may still come in place of an answer */
    assert_int_equal(client.status, 0);
    call_out_data(call_kit_out(), CHUNK);
    expect_state(CALL_ANSWERING);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.buffered), 0); /* no retry from here */
    assert_string_equal(client.body, CHUNK);
    call_out_data(call_kit_out(), DONE);
    call_out_end(call_kit_out());
    assert_string_equal(client.body, CHUNK DONE);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_slow_client_pauses_its_provider(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    client.queued = HTTP_OUTPUT_HIGH + 1;
    call_out_data(call_kit_out(), CHUNK);
    call_out_data(call_kit_out(), CHUNK);
    assert_int_equal(call_kit_out()->paused, 1);
    call_step(client.call, CALL_ON_ROOM, NULL);
    assert_int_equal(call_kit_out()->paused, 0);
    client.queued = 0;
    call_step(client.call, CALL_ON_ROOM, NULL);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- waits ---- */

static void a_call_waits_for_a_slot_of_its_route_uncharged(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  " LONG_WAIT};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_SLOT);
    assert_int_equal(call_kit_rate_used(client.call), 1); /* the unit of the other call */
    assert_int_equal(call_kit.n_outs, 1);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_kit_turn();
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit.n_timers, 0);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&other, HTTP_DONE);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_wait_ends_at_its_deadline(void **state)
{
    const struct call_kit_config config = {.gate = "  " ONE_SLOT
                                                   "\n  queue: {wait: {normal: 70ms}}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_GATE);
    assert_int_equal(call_kit.last_timer, 70);
    call_kit_pass(69);
    expect_state(CALL_AT_GATE);
    call_kit_pass(1);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 429);
    assert_string_equal(client.reason, "concurrency");
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* The gate wakes it in the same turn in which its time is over: one of the two decides. */
static void a_wake_and_a_deadline_at_one_instant_are_one_decision(void **state)
{
    const struct call_kit_config config = {.gate = "  " ONE_SLOT
                                                   "\n  queue: {wait: {normal: 70ms}}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit.now += 70;
    call_client_gone(&other, HTTP_HANGUP); /* posts the wake */
    call_kit_pass(0);
    enum call_state after = client.call->state;
    assert_true(after == CALL_ASKING || after == CALL_OVER);
    call_kit_turn();
    expect_state(after);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_turn();
    end();
}

/* A wake that brings nothing: the call waits on, until the same moment, and both waits count. */
static void a_call_that_is_woken_too_early_waits_on(void **state)
{
    const struct call_kit_config slot = {.first = ONE_SLOT,
                                         .gate = "  queue: {wait: {normal: 70ms}}"};
    const struct call_kit_config gate = {.gate = "  " ONE_SLOT "\n  queue: {wait: {normal: 70ms}}"};

    (void)state;
    for (int at_gate = 0; at_gate < 2; at_gate++) {
        begin(at_gate ? &gate : &slot);
        call_client_ask(&other, CALL_KIT_BODY);
        call_client_ask(&client, CALL_KIT_BODY);
        client.call->notes.parked_ns -= INT64_C(3000000000);
        call_kit_pass(30);
        call_step(client.call, CALL_ON_WOKEN, NULL);
        expect_state(at_gate ? CALL_AT_GATE : CALL_AT_SLOT);
        assert_int_equal(call_kit.last_timer, 40);
        assert_true(client.call->notes.parked_ns > 0);
        assert_true(client.call->notes.waited_ns >= INT64_C(3000000000));
        call_kit_pass(40);
        expect_state(CALL_OVER);
        assert_string_equal(client.reason, "concurrency");
        assert_true(client.call->notes.decided);
        assert_int_equal(client.call->notes.parked_ns, 0);
        assert_int_equal(call_kit_rate_used(client.call), 1); /* the other's */
        call_client_gone(&client, HTTP_DONE);
        call_client_gone(&other, HTTP_HANGUP);
        end();
    }
}

/* ---- the remote store ---- */

static void the_remote_store_is_asked_for_limits_money_and_key(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.limits = call_kit.money = call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_LIMITS);
    call_kit_pass(3);
    call_kit_answer_limits(REMOTE_SAYS_YES);
    expect_state(CALL_AT_MONEY);
    call_kit_pass(4);
    call_kit_answer_money(REMOTE_SAYS_YES);
    expect_state(CALL_AT_KEY);
    call_kit_pass(5);
    call_kit_answer_key(REMOTE_SAYS_YES);
    expect_state(CALL_ASKING);
    assert_int_equal(client.call->store_ms, 12);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_int_equal(call_kit.money_settled, CALL_KIT_MICRO);
    assert_int_equal(call_kit.limits_settled, 1);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_remote_no_is_a_refusal_and_gives_everything_back(void **state)
{
    static const struct {
        enum call_remote limits, money, key;
        const char *reason;
        int status;
    } rows[] = {
        {REMOTE_SAYS_NO, REMOTE_SAYS_YES, REMOTE_SAYS_YES, "rate", 429},
        {REMOTE_FAILS, REMOTE_SAYS_YES, REMOTE_SAYS_YES, "store_unavailable", 503},
        {REMOTE_SAYS_YES, REMOTE_SAYS_NO, REMOTE_SAYS_YES, "budget", 402},
        {REMOTE_SAYS_YES, REMOTE_FAILS, REMOTE_SAYS_YES, "store_unavailable", 503},
        {REMOTE_SAYS_YES, REMOTE_SAYS_YES, REMOTE_FAILS, "store_unavailable", 503},
    };
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int late = 0; late < 2; late++) {
            begin(&config);
            call_kit.limits = late ? REMOTE_SAYS_LATER : rows[i].limits;
            call_kit.money = late ? REMOTE_SAYS_LATER : rows[i].money;
            call_kit.key = late ? REMOTE_SAYS_LATER : rows[i].key;
            call_client_ask(&client, CALL_KIT_BODY);
            if (call_kit.limits_asked)
                call_kit_answer_limits(rows[i].limits);
            if (call_kit.money_asked)
                call_kit_answer_money(rows[i].money);
            if (call_kit.key_asked)
                call_kit_answer_key(rows[i].key);
            expect_state(CALL_OVER);
            assert_string_equal(client.reason, rows[i].reason);
            assert_int_equal(client.status, rows[i].status);
            assert_int_equal(call_kit.n_outs, 0);
            call_client_gone(&client, HTTP_DONE);
            end();
        }
}

/* Other gateways have taken what a key had left: the ring chooses another, and then there is none.
 */
static void a_key_without_room_is_replaced_by_another(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->attempt.owner;
    call_kit_answer_key(REMOTE_SAYS_NO);
    expect_state(CALL_AT_KEY);
    assert_ptr_not_equal(client.call->attempt.owner, first);
    call_kit_answer_key(REMOTE_SAYS_NO);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "no_key");
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- hang-ups ---- */

/* The flags of the only line there is. */
static uint32_t flags_in_ledger(void)
{
    call_kit_expect_entries(1);
    return call_kit_entry(1).flags;
}

static void the_ledger_says_that_the_client_hung_up(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(call_kit_out()->cancelled, 1);
    assert_true(client.call->spent > 0);
    assert_int_equal(flags_in_ledger(), LEDGER_CANCELLED | LEDGER_ESTIMATED | LEDGER_UNCERTAIN);
    end();
}

static void the_ledger_says_nothing_of_the_kind_otherwise(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(flags_in_ledger(), 0);
    end();
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_client_gone(&client, HTTP_HANGUP); /* before anything was sent */
    call_kit_expect_entries(0);
    end();
}

static void a_drained_reply_is_charged_with_what_it_reports(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    assert_int_equal(call_kit.last_timer, 30 * 60 * 1000); /* what its total leaves */
    call_out_data(call_kit_out(), CALL_KIT_REPLY);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_int_equal(flags_in_ledger(), 0);
    end();
}

static void draining_ends_after_its_time(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain",
                                           .first = "timeouts: {total: 40s}"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(10000);
    call_out_head(call_kit_out(), 200, JSON);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_pass(29999);
    expect_state(CALL_DRAINING);
    call_kit_pass(1);
    expect_state(CALL_FREED);
    assert_int_equal(call_kit_out()->cancelled, 1);
    end();
}

/* ---- what is learned ---- */

/* How long a route's calls take is a moving mean with a weight of 1/16, not the last of them: the
 * policy's price depends on it. */
static void the_hold_time_of_a_route_is_a_moving_mean(void **state)
{
    static const tg_ms took_ms[] = {1000, 3000, 200, 9000};
    double mean = 0;

    (void)state;
    begin(NULL);
    for (size_t i = 0; i < COUNT_OF(took_ms); i++) {
        double held = (double)took_ms[i] / 1000;
        call_client_ask(&client, CALL_KIT_BODY);
        call_kit_pass(took_ms[i]);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        call_client_gone(&client, HTTP_DONE);
        mean = i == 0 ? held : mean + (held - mean) / 16;
        double learned = atomic_load(&gateway_newest(call_kit.gateway)->routes[0].hold_s);
        assert_true(learned > mean - 1e-9 && learned < mean + 1e-9);
    }
    assert_int_equal(call_kit_cost_used(client.call), CALL_KIT_USED * (int)COUNT_OF(took_ms));
    call_kit_close();
}

/* A route that says that it has too much to do is asked less; one that merely fails is not. */
static void an_overloaded_route_is_asked_less(void **state)
{
    static const struct {
        int status;
        bool overloaded;
    } rows[] = {{500, false}, {502, false}, {503, true}, {504, true}, {529, true}, {429, false}};
    const struct call_kit_config config = {
        .first = "retries: 0, concurrency: {law: aimd, initial: 10, min: 1, max: 20}"};
    struct tg_law_metrics law;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        call_kit_pass(100);
        call_out_reply(call_kit_out(), rows[i].status, JSON, "{}");
        call_client_gone(&client, HTTP_DONE);
        tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
        assert_int_equal(law.limit < 10, rows[i].overloaded);
        end();
    }
}

static void a_slow_reply_that_nobody_waited_for_says_nothing_of_the_route(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 0, concurrency: {law: aimd, initial: 10, min: 1, max: 20}"};
    struct tg_law_metrics law;

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(100000);
    call_client_gone(&client, HTTP_HANGUP);
    tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
    assert_int_equal(law.limit, 10);
    end();
}

/* Leases of calls that take long are renewed: else their slots would be given to others. */
static void a_renewed_call_keeps_its_slots(void **state)
{
    const struct call_kit_config config = {.gate = "  lease_ttl: 10s",
                                           .first = ONE_SLOT ", timeouts: {total: 1h}"};
    struct tg_gate_stats stats;

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    struct tg_gate *slots = client.call->slot.gate;
    for (int i = 0; i < 4; i++) {
        call_kit_pass(6000);
        proxy_service.renew(&call_kit.worker);
        tg_gate_tick(call_kit.gateway->gate, call_kit.now);
        tg_gate_tick(slots, call_kit.now);
    }
    tg_gate_get_stats(slots, &stats);
    assert_int_equal(stats.in_flight, 1);
    assert_int_equal(stats.expired, 0);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- refusals ---- */

static void what_is_refused_before_its_body_costs_nothing(void **state)
{
    static const struct {
        const char *method, *target;
        int64_t length;
        int status;
    } rows[] = {
        {"POST", "/v1/nothing", 10, 404},
        {"GET", "/v1/chat/completions", 0, 405},
        {"POST", "/v1/chat/completions", INT64_C(1) << 40, 413},
        {"GET", "/v1/models", 0, 200},
        {"GET", "/v1/models/first", 0, 200},
        {"GET", "/v1/models/third", 0, 404},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_begin_at(&client, rows[i].method, rows[i].target, rows[i].length);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, rows[i].status);
        call_client_body(&client, "more"); /* nobody reads it */
        call_client_end(&client);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void a_body_that_cannot_be_read_is_refused(void **state)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {
        {"{", 400},
        {"{\"model\":\"third\",\"messages\":[]}", 404},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_ask(&client, rows[i].body);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, rows[i].status);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void without_money_no_key_is_taken(void **state)
{
    const struct call_kit_config config = {
        .tenant = "budgets: [{usd: 0.000001, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "request_exceeds_limit"); /* it can never fit */
    struct tg_pool_metrics pool;
    tg_pool_get_metrics(gateway_newest(call_kit.gateway)->routes[0].pool, &pool);
    assert_int_equal(pool.acquired, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void without_memory_for_the_request_nothing_is_charged(void **state)
{
    (void)state;
    begin(NULL);
    call_kit.send_fails = true;
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 503);
    assert_string_equal(client.reason, "memory_pressure");
    assert_int_equal(client.call->used, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_charged_with_what_its_reply_reports),
        cmocka_unit_test(a_stream_passes_as_it_comes),
        cmocka_unit_test(a_slow_client_pauses_its_provider),
        cmocka_unit_test(a_call_waits_for_a_slot_of_its_route_uncharged),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_wake_and_a_deadline_at_one_instant_are_one_decision),
        cmocka_unit_test(a_call_that_is_woken_too_early_waits_on),
        cmocka_unit_test(the_remote_store_is_asked_for_limits_money_and_key),
        cmocka_unit_test(a_remote_no_is_a_refusal_and_gives_everything_back),
        cmocka_unit_test(a_key_without_room_is_replaced_by_another),
        cmocka_unit_test(the_ledger_says_that_the_client_hung_up),
        cmocka_unit_test(the_ledger_says_nothing_of_the_kind_otherwise),
        cmocka_unit_test(a_drained_reply_is_charged_with_what_it_reports),
        cmocka_unit_test(draining_ends_after_its_time),
        cmocka_unit_test(the_hold_time_of_a_route_is_a_moving_mean),
        cmocka_unit_test(an_overloaded_route_is_asked_less),
        cmocka_unit_test(a_slow_reply_that_nobody_waited_for_says_nothing_of_the_route),
        cmocka_unit_test(a_renewed_call_keeps_its_slots),
        cmocka_unit_test(what_is_refused_before_its_body_costs_nothing),
        cmocka_unit_test(a_body_that_cannot_be_read_is_refused),
        cmocka_unit_test(without_money_no_key_is_taken),
        cmocka_unit_test(without_memory_for_the_request_nothing_is_charged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
