/* test_call_in.c - what a client asks for: who it is, which model, by when; and what is refused
 * before its body is read.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "lib/core/num.h"

static void expect_refused(int status, const char *reason)
{
    expect_state(CALL_OVER);
    assert_int_equal(client.status, status);
    assert_string_equal(client.reason, reason);
    assert_int_equal(call_kit.n_outs, 0);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
}

/* ---- who ---- */

static void two_keys_that_differ_are_refused(void **state)
{
    (void)state;
    begin(NULL);
    call_client_says("x-api-key", "another");
    call_client_begin(&client, -1);
    expect_refused(401, "conflicting_api_keys");
    expect_in(client.body, "two API keys that differ");
    call_kit.n_more = 0;
    call_client_says("x-api-key", CALL_KIT_KEY); /* the same one twice */
    call_client_begin(&client, -1);
    expect_state(CALL_READING);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

static void a_missing_key_is_explained(void **state)
{
    (void)state;
    begin(NULL);
    call_client_new(&client);
    client.fields[0] = (struct http_field){SLICE("x-other"), SLICE("x")};
    call_step(client.call, CALL_ON_HEAD, NULL);
    expect_in(client.body, "no API key: send one as 'Authorization: Bearer KEY'");
    expect_in(client.head, "www-authenticate: Bearer\n");
    expect_refused(401, "invalid_api_key");
    call_kit_close();
}

/* ---- the wall clock ---- */

/* Attack 14: what has a date goes by the wall clock, as it is set now. */
static void a_key_ends_by_the_wall_clock(void **state)
{
    const struct call_kit_config config = {.virtual_key = "not_after: \"2100-01-01T00:00:00Z\""};
    const tg_ms end_at = INT64_C(4102444800000);

    (void)state;
    begin(&config);
    for (int i = 0; i < 5; i++) {
        const tg_ms walls[] = {call_kit.now, end_at - 1, end_at, end_at + 1, call_kit.now};
        atomic_store(&call_kit.gateway->clock.ahead_ms, walls[i] - call_kit.now);
        call_client_begin(&client, -1);
        if (walls[i] < end_at) {
            expect_state(CALL_READING);
            call_client_gone(&client, HTTP_HANGUP);
            call_kit_expect_released(&client);
        } else {
            expect_refused(401, "invalid_api_key");
        }
    }
    call_kit_close();
}

/* A budget's day ends when it does on the wall; what limits have counted stays counted. */
static void a_day_of_a_budget_is_the_wall_clocks(void **state)
{
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 0.0004, per: day}]"};
    const tg_ms day = 86400000;
    char date[REPLY_DATE_MAX], line[80];

    (void)state;
    begin(&config);
    call_kit_observe(false);
    for (int ahead = 0; ahead < 20; ahead += 10) {
        tg_ms wall = call_kit.now + ahead * day;
        atomic_store(&call_kit.gateway->clock.ahead_ms, ahead * day);
        call_client_ask(&client, CALL_KIT_BODY);
        expect_state(CALL_ASKING); /* another day, another budget */
        call_out_reply(call_kit_out(), 200, JSON,
                       "{\"usage\":{\"prompt_tokens\":200,\"completion_tokens\":100}}");
        call_client_gone(&client, HTTP_DONE);
        call_client_ask(&client, CALL_KIT_BODY);
        expect_state(CALL_OVER);
        assert_string_equal(client.reason, "budget");
        reply_date((wall / day + 1) * day, date);
        snprintf(line, sizeof line, "x-tollgate-reset-at: %s\n", date);
        expect_in(client.head, line);
        call_client_gone(&client, HTTP_DONE);
        reply_date(wall, date);
        date[13] = '\0'; /* the hour */
        expect_in(call_kit_line(), date);
    }
    call_kit_close();
}

static void a_tenant_has_a_priority_and_is_its_own_peer(void **state)
{
    const struct call_kit_config config = {
        .tenant = "priority: high, weight: 3, budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->gate_call.priority, TG_PRIORITY_HIGH);
    assert_int_equal(client.call->slot_call.priority, TG_PRIORITY_HIGH);
    assert_true(client.call->slot_call.weight == 3);
    assert_int_equal(client.call->slot_call.tenant_bytes, 3);
    assert_memory_equal(client.call->slot_call.tenant, "one", 3);
    assert_int_equal(tg_gate_peer_calls(call_kit.gateway->gate, "one", 3), 1);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* A tenant that asks for far more than it uses must not wait for tokens that nobody writes. */
static void turns_are_paid_for_with_what_calls_like_it_use(void **state)
{
    static const char LARGE[] = "{\"model\":\"first\",\"messages\":[{\"role\":\"user\","
                                "\"content\":\"hi\"}],\"max_tokens\":1000}";
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    for (int i = 0; i < 100; i++) {
        call_client_ask(&client, LARGE);
        if (i == 0)
            assert_int_equal(client.call->slot_call.work, client.call->gate_call.debit.cost);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    call_client_ask(&client, LARGE);
    assert_true(client.call->gate_call.debit.cost >= 1000);
    assert_in_range(client.call->slot_call.work, 40, 200);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_peer_has_a_limit_before_its_body_is_read(void **state)
{
    const struct call_kit_config config = {
        .tenant = "concurrency: 1, budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    call_client_begin(&other, -1);
    call_client_begin(&client, -1);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 429);
    assert_string_equal(client.reason, "peer_limit");
    assert_int_equal(client.call->notes.refusal.peer_limit, 1);
    assert_int_equal(client.call->notes.refusal.peer_calls, 1);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.refused[REPLY_PEER_LIMIT]), 1);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

static void under_memory_pressure_bodies_are_not_read(void **state)
{
    const struct call_kit_config config = {.gate = "  memory: {limit: 0.98}"};

    (void)state;
    begin(&config);
    tg_gate_set_memory(call_kit.gateway->gate, 0.99);
    call_client_begin(&client, -1);
    expect_refused(503, "memory_pressure");
    call_kit_close();
}

/* ---- limits and budgets that are used up ---- */

static uint64_t refused_by_gate(enum tg_reason reason)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(call_kit.gateway->gate, &stats);
    return stats.refused[reason];
}

static void use_up(const char *usage)
{
    char reply[256];

    snprintf(reply, sizeof reply, "{\"choices\":[],\"usage\":{%s}}", usage);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_ASKING);
    reply_and_end(200, JSON, reply);
}

/* There is nothing of the call but its head. */
static void expect_refused_at_the_head(int status, const char *reason)
{
    call_client_begin(&client, 32 << 20);
    assert_int_equal(client.call->bytes_in, 0);
    expect_refused(status, reason);
}

static void a_tenant_over_its_rate_has_no_body_read(void **state)
{
    (void)state;
    begin(NULL);
    for (int i = 0; i < 1000; i++) /* what the kit's limit allows in a day */
        use_up("\"prompt_tokens\":1,\"completion_tokens\":1");
    expect_refused_at_the_head(429, "rate");
    expect_in(client.head, "x-tollgate-binding-axis: rate");
    assert_int_equal(refused_by_gate(TG_REASON_RATE), 1); /* counted once */
    call_client_begin_at(&client, "GET", "/v1/models", 0);
    assert_int_equal(client.status, 200);
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

static void a_tenant_over_its_cost_has_no_body_read(void **state)
{
    (void)state;
    begin(NULL);
    use_up("\"prompt_tokens\":5,\"completion_tokens\":999995");
    expect_refused_at_the_head(429, "cost");
    expect_in(client.head, "x-tollgate-binding-axis: cost");
    assert_int_equal(refused_by_gate(TG_REASON_COST), 1);
    call_kit_close();
}

static void a_tenant_out_of_money_has_no_body_read(void **state)
{
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 0.001, per: day}]"};

    (void)state;
    begin(&config);
    use_up("\"prompt_tokens\":400,\"completion_tokens\":300");
    expect_refused_at_the_head(402, "budget");
    expect_in(client.head, "x-should-retry: false");
    call_kit_close();
}

/* Where only calls that run are in the way, it is worth another try. */
static void money_that_is_reserved_is_worth_another_try(void **state)
{
    const struct call_kit_config config = {
        .tenant = "budgets: [{usd: 0.0003, per: day}]",
        .first = "max_output_tokens: 1000, on_unbounded: clamp"};

    (void)state;
    begin(&config);
    call_client_ask(&other, "{\"model\":\"first\",\"messages\":[]}"); /* up to all there is */
    assert_int_equal(other.call->state, CALL_ASKING);
    call_client_begin(&client, 32 << 20);
    assert_string_equal(client.reason, "budget_contended");
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* It has come with its head, so nothing is saved, and the refusal is exact. */
static void a_small_body_is_read_before_it_is_refused(void **state)
{
    static const struct {
        int64_t length;
        const char *expect;
        bool read;
    } rows[] = {
        {16384, NULL, true},
        {16385, NULL, false},
        {-1, NULL, false},
        {100, "100-continue", false},
    };
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 0.001, per: day}]"};

    (void)state;
    begin(&config);
    use_up("\"prompt_tokens\":400,\"completion_tokens\":300");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].expect != NULL)
            call_client_says("expect", rows[i].expect);
        call_client_begin(&client, rows[i].length);
        assert_int_equal(client.call->state, rows[i].read ? CALL_READING : CALL_OVER);
        call_client_gone(&client, HTTP_HANGUP);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

static void what_is_in_shadow_refuses_nobody_at_the_head(void **state)
{
    const struct call_kit_config config = {
        .tenant = "mode: shadow, budgets: [{usd: 0.0001, per: day, mode: shadow}]"};

    (void)state;
    begin(&config);
    use_up("\"prompt_tokens\":5,\"completion_tokens\":999995");
    call_client_begin(&client, 32 << 20);
    expect_state(CALL_READING);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

/* What Redis said a moment ago is known here, and it is not asked. */
static void a_remote_refusal_is_remembered_at_the_head(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.limits = REMOTE_SAYS_LATER;
    call_kit.limits_known = true;
    call_client_begin(&client, 32 << 20);
    assert_null(call_kit.limits_asked);
    assert_int_equal(refused_by_gate(TG_REASON_RATE), 1);
    expect_refused(429, "rate");
    call_kit_close();
}

static void a_user_may_have_a_name_of_1_to_200_bytes(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\"}, budgets: [{usd: 100, per: total}]"};
    static const size_t sizes[] = {1, LEDGER_NAME_MAX};
    char name[LEDGER_NAME_MAX + 1];

    (void)state;
    begin(&config);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        call_kit.n_more = 0;
        memset(name, 'a', sizes[i]);
        name[sizes[i]] = '\0';
        call_client_says("x-user", name);
        call_client_ask(&client, CALL_KIT_BODY);
        expect_state(CALL_ASKING);
        memset(name, 'b', sizes[i]); /* the head may be freed before the call */
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        assert_int_equal(call_kit_entry(i + 1).user.size, sizes[i]);
        assert_int_equal(call_kit_entry(i + 1).user.bytes[sizes[i] - 1], 'a');
    }
    call_kit.n_more = 0;
    call_client_ask(&client, CALL_KIT_BODY); /* without a name */
    assert_int_equal(client.call->user.n, 0);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(call_kit_entry(3).user.size, 0);
    call_kit_close();
}

static void each_user_has_limits_of_its_own(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\", each: {rpd: 1}}"};
    static const struct {
        const char *name;
        int status;
    } rows[] = {{"a", 200}, {"b", 200}, {"a", 429}, {"bc", 200}, {"b", 429}};

    (void)state;
    begin(&config);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit.n_more = 0;
        call_client_says("x-user", rows[i].name);
        call_client_ask(&client, CALL_KIT_BODY);
        if (rows[i].status == 200)
            call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        assert_int_equal(client.status, rows[i].status);
        call_client_gone(&client, HTTP_DONE);
    }
    call_kit_close();
}

/* ---- what ---- */

static void a_gateway_that_shuts_down_takes_no_calls(void **state)
{
    (void)state;
    begin(NULL);
    atomic_store(&call_kit.gateway->draining, true);
    call_client_begin(&client, -1);
    expect_refused(503, "shutting_down");
    call_kit_close();
}

static void a_wrong_method_is_told_the_right_one(void **state)
{
    (void)state;
    begin(NULL);
    call_client_begin_at(&client, "GET", "/v1/chat/completions", 0);
    expect_in(client.head, "allow: POST\n");
    expect_refused(405, "method_not_allowed");
    call_kit_close();
}

static void a_list_of_models_has_the_form_of_its_client(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_client_begin_at(&client, "GET", "/v1/models", 0);
    assert_int_equal(client.status, 200);
    expect_in(client.head, "content-type: application/json\n");
    expect_in(client.body, "\"object\":\"list\"");
    expect_in(client.body, "\"first\"");
    expect_in(client.body, "\"opus\""); /* its provider speaks the other API */
    assert_int_equal(client.call->bytes_out, client.body_n);
    assert_int_equal(client.call->status, 200);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_says("anthropic-version", "2023-06-01");
    call_client_begin_at(&client, "GET", "/v1/models", 0);
    expect_in(client.body, "\"has_more\":false");
    expect_in(client.body, "\"opus\"");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_begin_at(&client, "GET", "/v1/models/nobody", 0);
    expect_in(client.body, "\"type\":\"not_found_error\"");
    expect_in(client.head, "request-id: req_");
    expect_not_in(client.head, "x-request-id");
    expect_refused(404, "model_not_found");
    call_kit_close();
}

static void a_model_that_is_not_listed_may_go_to_the_first_provider(void **state)
{
    static const char body[] = "{\"model\":\"new-1\",\"messages\":[{\"role\":\"user\","
                               "\"content\":\"hi\"}]}";
    static const struct {
        const char *top, *tenant;
        bool served;
    } rows[] = {
        {"unknown_model: allow\n", "budgets: [{usd: 100, per: total}]", true},
        {"unknown_model: allow\n", "models: [\"new-*\"], budgets: [{usd: 100, per: total}]", true},
        {"unknown_model: allow\n", "models: [first], budgets: [{usd: 100, per: total}]", false},
        {"unknown_model: refuse\n", "budgets: [{usd: 100, per: total}]", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.top = rows[i].top, .tenant = rows[i].tenant};
        begin(&config);
        call_client_ask(&client, body);
        if (!rows[i].served) {
            expect_in(client.body, "there is no model 'new-1' here");
            expect_in(client.body, "\"param\":\"model\"");
            expect_refused(404, "model_not_found");
        } else {
            expect_state(CALL_ASKING);
            assert_string_equal(call_kit_out()->body, body); /* its own name, without a bound */
            assert_int_equal(client.call->gate_call.debit.cost,
                             client.call->notes.estimated_input + 4096);
            reply_and_end(200, JSON, CALL_KIT_REPLY);
            assert_int_equal(client.call->spent, 0); /* nobody knows its price */
            assert_string_equal(client.model, "");
        }
        call_kit_close();
    }
}

/* An unknown model has no fallback: there is nothing to fall back from. */
static void a_model_that_is_not_listed_has_no_fallback(void **state)
{
    const struct call_kit_config config = {.top = "unknown_model: allow\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, "{\"model\":\"new-1\",\"messages\":[]}");
    for (int i = 0; i < 3; i++) {
        call_out_reply(call_kit_out(), 500, JSON, "[]");
        call_kit_pass(1000);
    }
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 502);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_model_may_be_for_others(void **state)
{
    const struct call_kit_config config = {
        .tenant = "models: [second], budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(client.body, "this key may not use the model 'first'");
    expect_refused(403, "model_not_allowed");
    call_kit_close();
}

static void a_path_without_a_counterpart_is_refused(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/embeddings", "{\"model\":\"opus\",\"input\":\"hi\"}");
    expect_in(client.body, "model 'opus' cannot be called at this path");
    expect_refused(400, "wrong_api_for_model");
    call_kit_close();
}

/* At the threshold there is still enough; nobody is sent to a model that is not for them. */
static void a_cheaper_model_serves_below_the_threshold_only(void **state)
{
    static const struct {
        const char *tenant;
        bool cheaper;
    } rows[] = {
        {"allow_cheaper: 0.97, budgets: [{usd: 0.000400, per: total}]", false}, /* 389 of 400 */
        {"allow_cheaper: 0.98, budgets: [{usd: 0.000400, per: total}]", true},
        {"allow_cheaper: 0, budgets: [{usd: 0.000400, per: total}]", false},
        {"allow_cheaper: 1, models: [first], budgets: [{usd: 0.000400, per: total}]", false},
    };
    static const char body[] = "{\"model\":\"first\",\"messages\":[],\"max_tokens\":1}";

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.first = "cheaper: second",
                                               .tenant = rows[i].tenant};
        begin(&config);
        call_client_ask(&client, body);
        expect_in(call_kit_out()->body, "\"first\"");
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        assert_int_equal(client.call->spent, 11);
        call_client_ask(&client, body);
        expect_in(call_kit_out()->body, rows[i].cheaper ? "\"second\"" : "\"first\"");
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

/* ---- its body ---- */

static void a_body_may_be_as_large_as_the_limit(void **state)
{
    const struct call_kit_config config = {.top = "limits: {body: 2KiB}\n"};
    static char body[2049];

    (void)state;
    memset(body, ' ', 2048);
    memcpy(body, CALL_KIT_BODY, strlen(CALL_KIT_BODY));
    begin(&config);
    call_client_ask(&client, body); /* its length is stated */
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit_out()->length, 2048);
    assert_int_equal(client.call->bytes_in, 2048);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_begin(&client, 2049);
    expect_in(client.body, "the body has 2049 bytes; at most 2048 are taken");
    expect_refused(413, "payload_too_large");
    call_client_begin(&client, -1);
    call_client_body(&client, body);
    expect_state(CALL_READING);
    call_client_body(&client, " ");
    expect_in(client.body, "the body has more than 2048 bytes");
    expect_refused(413, "payload_too_large");
    call_kit_close();
}

static void bodies_share_their_memory(void **state)
{
    const struct call_kit_config config = {.top = "limits: {body: 4KiB, buffered_total: 8KiB}\n"};
    static char body[4097];

    (void)state;
    memset(body, ' ', 4096);
    begin(&config);
    call_client_begin(&other, -1);
    call_client_body(&other, body);
    assert_int_equal(other.call->state, CALL_READING);
    call_client_begin(&client, -1);
    expect_state(CALL_READING);
    call_client_body(&client, body);
    call_client_gone(&other, HTTP_HANGUP);
    other.call = NULL;
    expect_in(client.body, "the bodies of tenant one take all the memory that one may");
    expect_refused(503, "memory_pressure");
    call_kit_close();
}

/* Attack 9: what takes longer than a turn is read elsewhere, and others go on meanwhile. */
static void a_long_body_is_read_on_a_thread(void **state)
{
    const struct call_kit_config config = {.first = "context: 100000"};
    static char large[300 << 10];

    (void)state;
    begin(&config);
    call_client_ask(&client, call_kit_long_body()); /* many values */
    expect_state(CALL_PARSING);
    assert_int_equal(client.call->ask.model.n, 5); /* it was read that far in place */
    assert_int_equal(call_kit.job->takes, strlen(call_kit_long_body()) * JSON_READER_FACTOR);
    assert_int_equal(call_kit.job->room, /* a quarter of what bodies may take */
                     client.call->generation->config.limits.buffered_total / 4);
    call_client_ask(&other, CALL_KIT_BODY);
    assert_int_equal(other.call->state, CALL_ASKING);
    call_client_gone(&other, HTTP_HANGUP);
    other.call = NULL;
    call_kit.n_outs = 0;
    call_kit_parse();
    expect_state(CALL_ASKING);
    assert_int_equal(call_kit_out()->length, (int64_t)strlen(call_kit_long_body()));
    call_client_gone(&client, HTTP_HANGUP);

    memset(large, ' ', sizeof large - 1); /* many bytes, and then no JSON */
    call_client_ask(&client, large);
    expect_state(CALL_PARSING);
    call_kit_parse();
    assert_int_equal(client.status, 400);
    expect_in(client.body, "the body cannot be read");
    call_client_gone(&client, HTTP_DONE);
    call_kit_close();
}

static void without_a_thread_a_long_body_is_read_in_place(void **state)
{
    const struct call_kit_config config = {.first = "context: 100000"};

    (void)state;
    begin(&config);
    call_kit.no_threads = true;
    call_client_ask(&client, call_kit_long_body());
    expect_state(CALL_ASKING);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

static void a_body_says_what_it_is(void **state)
{
    static const struct {
        const char *type; /* null: it does not say */
        int status;
    } rows[] = {
        {NULL, 0},
        {"application/json \t", 0},
        {"application/json", 0},
        {"application/jso", 415},
        {"application/jsonx", 415},
        {"application/json,x", 415},
        {"", 415},
    };

    (void)state;
    begin(NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_client_new(&client);
        if (rows[i].type != NULL)
            client.fields[1].value = slice_of(rows[i].type);
        else
            client.fields[1].name = slice_of("x-other");
        call_step(client.call, CALL_ON_HEAD, NULL);
        assert_int_equal(client.status, rows[i].status);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

/* What is passed through is not read, so it may be anything. */
static void a_passthrough_may_be_anything(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/other, provider: p, per_call: 0},\n"
               "  {path: /v1/audio, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_new(&client);
    client.in.head.target = slice_of("/v1/audio?voice=a");
    client.in.head.method = slice_of("PUT");
    client.fields[1].value = slice_of("audio/wav");
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_body(&client, "raw");
    call_client_end(&client);
    assert_string_equal(call_kit_out()->target, "/v1/audio?voice=a");
    expect_in(call_kit_out()->request, "content-type: audio/wav\n");
    reply_and_end(200, "audio/mpeg", "sound");
    call_client_begin_at(&client, "POST", "/v1/audi", -1);
    expect_refused(404, "not_found");
    call_kit_close();
}

/* D7 (b): to a tenant that does not name it, a passthrough is not there. */
static void d7_a_passthrough_is_for_tenants_that_name_it(void **state)
{
    const struct call_kit_config config = {
        .tenant = "endpoints: [\"/v1/files/*\", \"!/v1/files/x/*\"]",
        .top = "passthrough: [{path: \"/*\", provider: p}]\n"};
    static const struct {
        const char *target;
        bool served;
    } rows[] = {
        {"/v1/files", true},
        {"/v1/files/a/content?b=c", true},
        {"/v1/files/x", false},
        {"/v1/files/x/y", false},
        {"/v1/images/generations", false},
        {"/v1/files/a%2f..", false},
        {"/v1/files/../a", false},
        {"/V1/files", false},
    };

    (void)state;
    call_kit_open(&config);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_client_begin_at(&client, "GET", rows[i].target, -1);
        if (!rows[i].served) {
            expect_refused(404, "not_found");
            continue;
        }
        assert_int_equal(client.status, 0);
        call_client_gone(&client, HTTP_HANGUP);
        call_kit_expect_released(&client);
    }
    call_kit_close();
}

/* D7 (c): under a budget a path needs a price, and one above 0 where work goes on after a reply. */
static void d7_a_path_needs_a_price_under_a_budget(void **state)
{
    static const struct {
        const char *method, *target;
        bool budget, served;
    } rows[] = {
        {"POST", "/v1/free", true, true},
        {"POST", "/v1/unpriced", true, false},
        {"POST", "/v1/unpriced", false, true},
        {"GET", "/v1/unpriced", true, true},
        {"DELETE", "/v1/unpriced", true, true},
        {"POST", "/v1/batches", true, false},
        {"POST", "/v1/batches", false, true},
        {"GET", "/v1/batches/b", true, true},
        {"POST", "/v1/batches/b/cancel", true, true},
        {"POST", "/v1/priced/batches", true, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {
            .tenant = rows[i].budget ? "budgets: [{usd: 1, per: day}]" : "weight: 1",
            .top = "passthrough: [{path: /v1/free, provider: p, per_call: 0},\n"
                   "  {path: /v1/unpriced, provider: p},\n"
                   "  {path: \"/v1/batches/*\", provider: p, per_call: 0},\n"
                   "  {path: \"/v1/priced/*\", provider: p, per_call: 0.5}]\n"};
        call_kit_open(&config);
        call_client_begin_at(&client, rows[i].method, rows[i].target, -1);
        if (rows[i].served) {
            assert_int_equal(client.status, 0);
            call_client_gone(&client, HTTP_HANGUP);
            call_kit_expect_released(&client);
        } else {
            expect_refused(403, "endpoint_unpriced");
        }
        call_kit_close();
    }
}

static void what_is_no_json_is_refused_before_it_is_read(void **state)
{
    static const struct {
        const char *type, *coding;
        int status;
    } rows[] = {{"application/json; charset=utf-8", "identity", 0},
                {"APPLICATION/JSON ;x", "", 0},
                {"text/plain", "", 415},
                {"application/json", "gzip", 415}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit_open(NULL);
        call_client_new(&client);
        client.fields[1].value = slice_of(rows[i].type);
        client.fields[2] =
            (struct http_field){SLICE("content-encoding"), slice_of(rows[i].coding)};
        client.in.head.n_fields = 3;
        call_step(client.call, CALL_ON_HEAD, NULL);
        assert_int_equal(client.status, rows[i].status);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_kit_close();
    }
}

/* Attack 6: of two such headers one program takes the first, another the last. */
static void attack_6_headers_that_are_there_twice_are_refused(void **state)
{
    static const struct {
        const char *name, *first, *second;
        int status;
    } rows[] = {{"content-type", "application/json", "application/json", 415},
                {"content-type", "application/json; charset=utf-7", "text/plain", 415},
                {"content-encoding", "identity", "gzip", 415},
                {"content-encoding", "identity", "", 415},
                {"x-user", "anna", "berta", 400},
                {"x-stainless-timeout", "1", "100", 400},
                {"x-request-timeout-ms", "1", "1", 400},
                {"x-tollgate-priority", "high", "low", 400},
                {"anthropic-beta", "a", "b", 0}};
    const struct call_kit_config config = {.tenant = "users: {from: \"header:x-user\"}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit_open(&config);
        call_client_new(&client);
        size_t at = strcmp(rows[i].name, "content-type") == 0 ? 1 : 2;
        client.fields[at] = (struct http_field){slice_of(rows[i].name), slice_of(rows[i].first)};
        client.fields[at + 1] =
            (struct http_field){slice_of(rows[i].name), slice_of(rows[i].second)};
        client.in.head.n_fields = at + 2;
        call_step(client.call, CALL_ON_HEAD, NULL);
        if (client.status != rows[i].status)
            fail_msg("row %zu: %d", i, client.status);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_kit_close();
    }
}

static void a_key_that_nobody_has_is_refused(void **state)
{
    static const char *const keys[] = {"Bearer nobody", "Bearer", ""};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        call_kit_open(NULL);
        call_client_new(&client);
        client.fields[0].value = slice_of(keys[i]);
        call_step(client.call, CALL_ON_HEAD, NULL);
        assert_int_equal(client.status, 401);
        assert_string_equal(client.reason, "invalid_api_key");
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_released(&client);
        call_kit_close();
    }
}

/* ---- by when ---- */

static void the_client_may_state_its_deadline(void **state)
{
    static const struct {
        const char *timeout_ms, *stainless_s; /* null: not stated */
        tg_ms total, head;
    } rows[] = {
        {NULL, NULL, 44000, 44000},
        {"500", NULL, 500, 500},
        {"60000", NULL, 44000, 44000}, /* the model's own time is sooner */
        {"500", "1", 500, 500},        /* the first is of the whole call */
        {NULL, "7", 44000, 7000},      /* the SDK's is of the head alone */
        {NULL, "90", 44000, 44000},
        {"0", NULL, 44000, 44000}, /* which is no time */
        {"0", "7", 44000, 7000},
        {"000000500", NULL, 500, 500},
        {"0000000500", NULL, 44000, 44000}, /* ten digits are none */
        {"5x", NULL, 44000, 44000},
        {"-5", NULL, 44000, 44000},
        {"5/", NULL, 44000, 44000},
        {"5:", NULL, 44000, 44000},
        {"109", NULL, 109, 109},
    };
    const struct call_kit_config config = {.first = "timeouts: {total: 44s}"};

    (void)state;
    begin(&config);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        call_kit.n_more = 0;
        if (rows[i].timeout_ms != NULL)
            call_client_says("x-request-timeout-ms", rows[i].timeout_ms);
        if (rows[i].stainless_s != NULL)
            call_client_says("x-stainless-timeout", rows[i].stainless_s);
        call_client_ask(&client, CALL_KIT_BODY);
        assert_int_equal(call_kit_out()->timeouts.total, rows[i].total);
        assert_int_equal(call_kit_out()->timeouts.head, rows[i].head);
        assert_int_equal(client.call->gate_call.deadline, call_kit.now + rows[i].head);
        assert_int_equal(client.call->slot_call.deadline, call_kit.now + rows[i].head);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    call_kit_close();
}

/* The time that its body took is a part of it. What is over is not 0, which would be no time. */
static void a_deadline_counts_from_the_head_of_the_request(void **state)
{
    (void)state;
    begin(NULL);
    call_client_says("x-request-timeout-ms", "500");
    for (tg_ms took = 200; took <= 600; took += 400) {
        call_client_begin(&client, -1);
        call_kit_pass(took);
        call_client_body(&client, CALL_KIT_BODY);
        call_client_end(&client);
        if (call_kit.n_outs > 0) {
            assert_int_equal(call_kit_out()->timeouts.total, num_max(1, 500 - took));
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        } else {
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
    }
    call_kit_close();
}

static void a_passthrough_has_times_of_its_own(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    assert_int_equal(call_kit_out()->timeouts.connect, 5000);
    assert_int_equal(call_kit_out()->timeouts.first_byte, 120000);
    assert_int_equal(call_kit_out()->timeouts.idle, 60000);
    assert_int_equal(call_kit_out()->timeouts.total, 0); /* none */
    assert_int_equal(call_kit_out()->timeouts.head, 0);
    reply_and_end(200, "audio/mpeg", "sound");
    call_client_says("x-request-timeout-ms", "500");
    call_client_ask_at(&client, "/v1/audio", "{}");
    assert_int_equal(call_kit_out()->timeouts.total, 500);
    assert_int_equal(call_kit_out()->timeouts.head, 500);
    reply_and_end(200, "audio/mpeg", "sound");
    call_client_ask_at(&client, "/v1/audio", "{}");
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_LATE_TOTAL); /* which is the client's own time */
    assert_int_equal(client.status, 504);
    assert_string_equal(call_failure_name(client.call->failure), "deadline");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* ---- retries of the client ---- */

/* A call earns a part of a retry; one that is a retry itself earns none. */
static void retries_are_earned_by_calls(void **state)
{
    static const struct {
        const char *count;
        bool earned;
    } rows[] = {{NULL, true}, {"0", true}, {"1", false}, {"2", false}, {"", true}};
    const struct call_kit_config config = {.top = "retry_budget: {ratio: 1, min_per_s: 0}\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        if (rows[i].count != NULL)
            call_client_says("x-stainless-retry-count", rows[i].count);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
        expect_state(rows[i].earned ? CALL_PAUSING : CALL_OVER);
        assert_int_equal(atomic_load(&call_kit.gateway->counts.retries), rows[i].earned);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* What is not there is told in the words of the API whose path it is like. */
static void what_is_not_there_is_told_in_the_form_of_its_api(void **state)
{
    static const struct {
        const char *path;
        bool anthropic;
    } rows[] = {{"/v1/messages/batches", true},
                {"/v1/messages/", true},
                {"/v1/message", false},
                {"/v1/nothing/there", false}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(NULL);
        call_client_begin_at(&client, "POST", rows[i].path, 0);
        assert_int_equal(strstr(client.body, "\"type\":\"error\"") != NULL, rows[i].anthropic);
        assert_int_equal(strstr(client.head, "x-request-id: req_") == NULL, rows[i].anthropic);
        expect_in(client.head, "request-id: req_");
        expect_refused(404, "not_found");
        call_kit_close();
    }
}

/* A thread that has no memory to read says so. */
static void a_thread_without_memory_is_no_fault_of_the_client(void **state)
{
    (void)state;
    begin(&(struct call_kit_config){.first = "context: 100000"});
    call_client_ask(&client, call_kit_long_body());
    expect_state(CALL_PARSING);
    struct net_job *job = call_kit.job;
    call_kit.job = NULL;
    job->run(job, NULL);
    job->done.run(job->done.arg);
    expect_refused(503, "memory_pressure");
    call_kit_close();
}

/* A call that goes to a model of ours needs no row among the tenant's endpoints. */
static void endpoints_are_of_passthroughs_alone(void **state)
{
    const struct call_kit_config config = {
        .tenant = "endpoints: [/v1/other], budgets: [{usd: 100, per: total}]",
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0},\n"
               "  {path: /v1/other, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask_at(&client, "/v1/audio", "{}");
    expect_refused(404, "not_found");
    call_kit_close();
}

/* Without a remote store there is nobody who could know of a refusal. */
static void nobody_is_asked_for_refusals_of_others_without_a_store(void **state)
{
    (void)state;
    begin(NULL);
    call_kit.limits_known = true;
    call_client_begin(&client, 20000);
    expect_state(CALL_READING);
    call_client_gone(&client, HTTP_HANGUP);
    call_kit_close();
}

/* A body may have a single byte. */
static void a_body_of_one_byte_is_sent_whole(void **state)
{
    (void)state;
    begin(&(struct call_kit_config){
        .top = "passthrough: [{path: /v1/other, provider: p, per_call: 0}]\n"});
    call_client_new(&client);
    client.in.head.target = slice_of("/v1/other");
    client.fields[1].value = slice_of("audio/wav");
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_body(&client, "x");
    call_client_end(&client);
    assert_string_equal(call_kit_out()->body, "x");
    assert_int_equal(call_kit_out()->length, 1);
    assert_int_equal(call_kit_out()->finished, 1);
    reply_and_end(200, JSON, "{}");
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_keys_that_differ_are_refused),
        cmocka_unit_test(a_missing_key_is_explained),
        cmocka_unit_test(a_key_ends_by_the_wall_clock),
        cmocka_unit_test(a_day_of_a_budget_is_the_wall_clocks),
        cmocka_unit_test(a_tenant_has_a_priority_and_is_its_own_peer),
        cmocka_unit_test(turns_are_paid_for_with_what_calls_like_it_use),
        cmocka_unit_test(a_peer_has_a_limit_before_its_body_is_read),
        cmocka_unit_test(under_memory_pressure_bodies_are_not_read),
        cmocka_unit_test(a_tenant_over_its_rate_has_no_body_read),
        cmocka_unit_test(a_tenant_over_its_cost_has_no_body_read),
        cmocka_unit_test(a_tenant_out_of_money_has_no_body_read),
        cmocka_unit_test(money_that_is_reserved_is_worth_another_try),
        cmocka_unit_test(a_small_body_is_read_before_it_is_refused),
        cmocka_unit_test(what_is_in_shadow_refuses_nobody_at_the_head),
        cmocka_unit_test(a_remote_refusal_is_remembered_at_the_head),
        cmocka_unit_test(a_user_may_have_a_name_of_1_to_200_bytes),
        cmocka_unit_test(each_user_has_limits_of_its_own),
        cmocka_unit_test(a_gateway_that_shuts_down_takes_no_calls),
        cmocka_unit_test(a_wrong_method_is_told_the_right_one),
        cmocka_unit_test(a_list_of_models_has_the_form_of_its_client),
        cmocka_unit_test(a_model_that_is_not_listed_may_go_to_the_first_provider),
        cmocka_unit_test(a_model_that_is_not_listed_has_no_fallback),
        cmocka_unit_test(a_model_may_be_for_others),
        cmocka_unit_test(a_path_without_a_counterpart_is_refused),
        cmocka_unit_test(a_cheaper_model_serves_below_the_threshold_only),
        cmocka_unit_test(a_body_may_be_as_large_as_the_limit),
        cmocka_unit_test(bodies_share_their_memory),
        cmocka_unit_test(a_long_body_is_read_on_a_thread),
        cmocka_unit_test(without_a_thread_a_long_body_is_read_in_place),
        cmocka_unit_test(a_body_says_what_it_is),
        cmocka_unit_test(a_passthrough_may_be_anything),
        cmocka_unit_test(d7_a_passthrough_is_for_tenants_that_name_it),
        cmocka_unit_test(d7_a_path_needs_a_price_under_a_budget),
        cmocka_unit_test(what_is_no_json_is_refused_before_it_is_read),
        cmocka_unit_test(attack_6_headers_that_are_there_twice_are_refused),
        cmocka_unit_test(a_key_that_nobody_has_is_refused),
        cmocka_unit_test(the_client_may_state_its_deadline),
        cmocka_unit_test(a_deadline_counts_from_the_head_of_the_request),
        cmocka_unit_test(a_passthrough_has_times_of_its_own),
        cmocka_unit_test(retries_are_earned_by_calls),
        cmocka_unit_test(what_is_not_there_is_told_in_the_form_of_its_api),
        cmocka_unit_test(a_thread_without_memory_is_no_fault_of_the_client),
        cmocka_unit_test(endpoints_are_of_passthroughs_alone),
        cmocka_unit_test(nobody_is_asked_for_refusals_of_others_without_a_store),
        cmocka_unit_test(a_body_of_one_byte_is_sent_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
