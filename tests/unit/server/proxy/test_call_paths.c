/* test_call_paths.c - what becomes of a call on the ways that it can take, to the millisecond and
 * the micro-dollar, and that nothing of it is left.
 */
#include "net_call_kit.h"

#include <stdio.h>
#include <string.h>

#include "lib/core/random.h"
#include "server/ledger/ledger_internal.h"

#define JSON "application/json"
#define EVENT_STREAM "text/event-stream"
#define CHUNK "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n"
#define LAST "data: [DONE]\n\n"
#define ONE_SLOT "concurrency: {law: fixed, initial: 1, min: 1, max: 1}"
#define LONG_WAIT "queue: {wait: {high: 1h, normal: 1h, low: 1h}}"

static struct call_client client, other;

static void begin(const struct call_kit_config *config)
{
    call_kit_open(config);
    memset(&client, 0, sizeof client);
    memset(&other, 0, sizeof other);
}

/* Both calls have ended, and nothing is held. */
static void end(void)
{
    struct call *calls[] = {client.call, other.call};

    call_kit_expect_idle(calls, other.call != NULL ? 2 : 1);
    call_kit_close();
}

static void expect_state(enum call_state state)
{
    assert_string_equal(call_state_name(client.call->state), call_state_name(state));
}

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
    call_out_data(call_kit_out(), LAST);
    call_out_end(call_kit_out());
    assert_string_equal(client.body, CHUNK LAST);
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

/* ---- failures ---- */

/* Between attempts at the same key a call pauses 50 to 200 ms, doubled with each attempt. */
static void a_retry_of_the_same_key_backs_off(void **state)
{
    tg_ms least = 1000, most = 0;

    (void)state;
    for (int i = 0; i < 40; i++) {
        begin(NULL);
        random_init(&call_kit.worker.random, (uint64_t)i, 7);
        call_client_ask(&client, CALL_KIT_BODY);
        const struct route_key *first = client.call->last_key;
        call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
        expect_state(CALL_PAUSING);
        tg_ms pause = call_kit.last_timer;
        assert_in_range(pause, 50, 200);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
        call_kit_pass(pause - 1);
        expect_state(CALL_PAUSING);
        assert_int_equal(call_kit.n_outs, 1);
        call_kit_pass(1);
        expect_state(CALL_ASKING);
        assert_int_equal(call_kit.n_outs, 2);
        assert_ptr_equal(client.call->last_key, first);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
    assert_true(least < 90 && most > 160); /* with jitter: not all clients come back at once */
}

/* Only the first failure of a route is tried again at the same key; others go on at once. */
static void another_key_is_tried_at_once(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    expect_state(CALL_PAUSING);
    assert_int_equal(call_kit.last_timer, 1);
    call_kit_pass(1);
    expect_state(CALL_ASKING);
    assert_ptr_not_equal(client.call->last_key, first);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.status, 200);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void retries_end_with_the_error_of_the_provider(void **state)
{
    const char *error = "{\"error\":{\"message\":\"down\"}}";

    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 3; i++) {
        expect_state(CALL_ASKING);
        call_out_reply(call_kit_out(), 503, JSON, error);
        call_kit_pass(1000);
    }
    expect_state(CALL_OVER);
    assert_int_equal(call_kit.n_outs, 3); /* retries: 2 */
    assert_int_equal(client.status, 503);
    assert_string_equal(client.body, error);
    assert_int_equal(client.call->attempts, 3);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_retry_after_the_deadline_is_not_made(void **state)
{
    const struct call_kit_config config = {.first = "timeouts: {total: 40ms}"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.total, 40);
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A kept connection that its provider closed meanwhile: once, and at once, and at the same key. */
static void a_stale_connection_is_replaced_once(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_kit_out()->out.reused = call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit.n_outs, 2);
    assert_int_equal(client.call->route_attempts, 1);
    assert_ptr_equal(client.call->last_key, first);
    call_kit_out()->out.reused = call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_PAUSING);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* A request that was sent and never answered may have run: its prompt is charged. */
static void a_timeout_is_charged_with_the_prompt(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t prompt = client.call->attempt.prompt;
    assert_true(prompt > 0);
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_LATE_FIRST_BYTE);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 504);
    assert_int_equal(client.call->used, prompt);
    assert_int_equal(client.call->spent, prompt);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_broken_stream_ends_with_an_error_event(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_OVER);
    assert_non_null(strstr(client.body, "upstream_error"));
    assert_int_equal(client.finished, 1);
    assert_true(client.call->spent > 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_broken_reply_is_cut_off(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 200, JSON);
    call_out_data(call_kit_out(), "{\"id\":");
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_OVER);
    assert_int_equal(client.aborted, 1);
    call_client_gone(&client, HTTP_ABORTED);
    end();
}

/* ---- fallbacks ---- */

static void a_fallback_serves_when_a_route_fails(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0, fallback: [second]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "server");
    assert_int_equal(client.call->route_attempts, 1);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, "second");
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.fallbacks), 1);
    end();
}

static void a_fallback_serves_when_no_key_is_free(void **state)
{
    const struct call_kit_config config = {.key = "concurrency: 1", .first = "fallback: [second]"};
    static struct call_client third;

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&third, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY); /* both keys are in use for the first model */
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "no_key");
    call_client_gone(&client, HTTP_HANGUP);
    call_client_gone(&other, HTTP_HANGUP);
    call_client_gone(&third, HTTP_HANGUP);
    struct call *calls[] = {client.call, other.call, third.call};
    call_kit_expect_idle(calls, 3);
    call_kit_close();
}

static void without_a_key_and_a_fallback_a_call_is_refused(void **state)
{
    const struct call_kit_config config = {.key = "rpm: 1", .first = "retries: 0"};

    (void)state;
    begin(&config);
    for (int i = 0; i < 2; i++) {
        call_client_ask(&other, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        call_client_gone(&other, HTTP_DONE);
        call_kit_expect_released(&other);
    }
    other.call = NULL;
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "no_key");
    assert_int_equal(client.call->attempts, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What refused the call was the route that it has left: neither log nor metrics may name that. */
static void a_fallback_forgets_the_axis_that_refused(void **state)
{
    const struct call_kit_config config = {
        .first = ONE_SLOT ", fallback: [second]",
        .gate = "  queue: {size: 0}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    assert_non_null(strstr(call_kit_out()->body, "\"model\":\"second\""));
    assert_string_equal(client.call->notes.fallback_why, "concurrency");
    assert_int_equal(client.call->notes.axis, TG_AXIS_NONE);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(client.call->notes.axis, TG_AXIS_NONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* And without one, the axis is what the log says. */
static void a_refusal_keeps_the_axis_that_refused(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  queue: {size: 0}"};

    (void)state;
    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "concurrency");
    assert_int_equal(client.call->notes.axis, TG_AXIS_CONCURRENCY);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* ---- hang-ups ---- */

/* The flags of the only line there is. */
static uint32_t flags_in_ledger(void)
{
    struct journal *journal = &call_kit.gateway->ledger->journal;
    struct journal_record record;

    assert_int_equal(journal_read(journal, 2, &record), JOURNAL_NOTHING);
    assert_int_equal(journal_read(journal, 1, &record), JOURNAL_WHOLE);
    return record.entry.flags;
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
    assert_int_equal(flags_in_ledger(), LEDGER_CANCELLED | LEDGER_ESTIMATED);
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
    assert_int_equal(call_kit.last_timer, 30000);
    call_out_data(call_kit_out(), CALL_KIT_REPLY);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_int_equal(flags_in_ledger(), 0);
    end();
}

static void draining_ends_after_its_time(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
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
    assert_string_equal(client.reason, "budget");
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
    assert_int_equal(client.status, 500);
    assert_int_equal(client.call->used, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- random walks ---- */

/* Something that can happen to the call now; false: nothing can but that the client leaves. */
static void random_event(struct random *random)
{
    static const char *const bodies[] = {CALL_KIT_BODY, CALL_KIT_STREAM, "{", "x"};
    static const int statuses[] = {200, 200, 200, 400, 401, 402, 429, 500, 503, 302};
    static const char *const pieces[] = {CHUNK, LAST, ":\n\n", CALL_KIT_REPLY, "{\"error\":1}",
                                         "data: {\"error\":{\"type\":\"server_error\"}}\n\n"};
    static const enum http_why whys[] = {HTTP_RESET, HTTP_LATE_FIRST_BYTE, HTTP_LATE_IDLE,
                                         HTTP_UNREACHABLE, HTTP_GARBAGE};
    struct call *call = client.call;
    uint64_t draw = random_bits(random);
    uint64_t choice = draw % 16;
    size_t pick = (size_t)(draw >> 8);
    struct call_out *out = call->attempt.out ? call_kit_out() : NULL;

    if (choice == 0 && call->in != NULL) {
        call_client_gone(&client, pick % 2 ? HTTP_HANGUP : HTTP_TIMEOUT);
        return;
    }
    switch (call->state) {
    case CALL_READING:
        if (choice < 8)
            call_client_body(&client, bodies[pick % (choice < 2 ? COUNT_OF(bodies) : 2)]);
        else
            call_client_end(&client);
        break;
    case CALL_AT_LIMITS:
        call_kit_answer_limits((enum call_remote)(pick % 3));
        break;
    case CALL_AT_MONEY:
        call_kit_answer_money((enum call_remote)(pick % 3));
        break;
    case CALL_AT_KEY:
        call_kit_answer_key((enum call_remote)(pick % 3));
        break;
    case CALL_ASKING:
    case CALL_ANSWERING:
    case CALL_DRAINING:
        client.queued = choice == 2 ? HTTP_OUTPUT_HIGH + 1 : 0;
        if (choice == 3 && call->state == CALL_DRAINING)
            call_kit_pass(30000);
        else if ((choice == 4 || out->paused) && call->state == CALL_ANSWERING && choice != 5)
            call_step(call, CALL_ON_ROOM, NULL);
        else if (choice == 5) {
            out->out.reused = pick % 2 == 0;
            out->out.sent = out->out.head_seen || pick % 4 < 2;
            call_out_fail(out, whys[pick % COUNT_OF(whys)]);
        } else if (!out->out.head_seen)
            call_out_head(out, statuses[pick % COUNT_OF(statuses)],
                          choice % 2 ? JSON : EVENT_STREAM);
        else if (choice < 12)
            call_out_data(out, pieces[pick % COUNT_OF(pieces)]);
        else
            call_out_end(out);
        break;
    case CALL_OVER:
        if (choice < 4)
            call_step(call, CALL_ON_ROOM, NULL);
        else
            call_client_gone(&client, HTTP_DONE);
        break;
    default:
        call_kit_turn();
        call_kit_pass((tg_ms)(pick % 300));
    }
}

static void random_walks_leave_nothing_behind(void **state)
{
    static const struct call_kit_config configs[] = {
        {.provider = "    on_disconnect: drain", .first = "fallback: [second]"},
        {.first = "retries: 0, fallback: [second]"},
        {.remote = true, .first = "fallback: [second]"},
        {.remote = true, .key = "concurrency: 1"},
    };
    bool seen[CALL_STATE_COUNT] = {false};

    (void)state;
    for (uint64_t seed = 1; seed <= 64; seed++) {
        struct random random;
        random_init(&random, seed, 3);
        begin(&configs[seed % COUNT_OF(configs)]);
        for (int n = 0; n < 32; n++) {
            int steps = 0;
            call_kit.limits = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            call_kit.money = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            call_kit.key = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            call_client_begin(&client, -1);
            while (client.call->state != CALL_FREED && steps++ < 1000) {
                seen[client.call->state] = true;
                random_event(&random);
            }
            if (client.call->state != CALL_FREED)
                fail_msg("seed %llu, call %d: it never ends", (unsigned long long)seed, n);
            call_kit_expect_released(&client);
            call_kit_pass(random_bits(&random) % 2 ? 600000 : 0); /* keys recover, or do not */
        }
        call_kit_close();
    }
    for (enum call_state at = CALL_READING; at < CALL_FREED; at++)
        if (!seen[at] && at != CALL_AT_SLOT && at != CALL_AT_GATE) /* these need another call */
            fail_msg("no walk comes through %s", call_state_name(at));
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
        cmocka_unit_test(the_remote_store_is_asked_for_limits_money_and_key),
        cmocka_unit_test(a_remote_no_is_a_refusal_and_gives_everything_back),
        cmocka_unit_test(a_key_without_room_is_replaced_by_another),
        cmocka_unit_test(a_retry_of_the_same_key_backs_off),
        cmocka_unit_test(another_key_is_tried_at_once),
        cmocka_unit_test(retries_end_with_the_error_of_the_provider),
        cmocka_unit_test(a_retry_after_the_deadline_is_not_made),
        cmocka_unit_test(a_stale_connection_is_replaced_once),
        cmocka_unit_test(a_timeout_is_charged_with_the_prompt),
        cmocka_unit_test(a_broken_stream_ends_with_an_error_event),
        cmocka_unit_test(a_broken_reply_is_cut_off),
        cmocka_unit_test(a_fallback_serves_when_a_route_fails),
        cmocka_unit_test(a_fallback_serves_when_no_key_is_free),
        cmocka_unit_test(without_a_key_and_a_fallback_a_call_is_refused),
        cmocka_unit_test(a_fallback_forgets_the_axis_that_refused),
        cmocka_unit_test(a_refusal_keeps_the_axis_that_refused),
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
        cmocka_unit_test(random_walks_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
