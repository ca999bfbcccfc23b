/* test_call_report.c - what is reported of a call: its line of the log, its arrival, the denial on
 * the dashboard, metrics, the trace.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "server/obs/traces.h"
#include "server/obs/watch.h"

#define DRAIN "    on_disconnect: drain"

/* The line of the log has `"name":value`. */
static void expect_logged(const char *field)
{
    char part[200];
    const char *line = call_kit_line();

    snprintf(part, sizeof part, ",%s,", field);
    if (strstr(line, part) == NULL)
        fail_msg("%s\nis not in\n%s", field, line);
}

static void expect_number(const char *name, int64_t number)
{
    char field[100];

    snprintf(field, sizeof field, "\"%s\":%lld", name, (long long)number);
    expect_logged(field);
}

static void expect_not_logged(const char *name)
{
    expect_not_in(call_kit_line(), name);
}

static void begin_observed(const struct call_kit_config *config)
{
    begin(config);
    call_kit_observe(false);
}

/* ---- the line of a call ---- */

static void a_line_says_who_called_and_what_came_of_it(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\"}, budgets: [{usd: 100, per: total}]"};
    char key[60], id[60];

    (void)state;
    begin_observed(&config);
    call_client_says("x-user", "anna");
    call_client_says("x-stainless-retry-count", "1");
    call_client_begin(&client, -1);
    call_kit_pass(7); /* its body takes a while */
    call_client_body(&client, CALL_KIT_BODY);
    call_client_end(&client);
    int64_t prompt = client.call->attempt.prompt;
    call_kit_pass(20);
    call_out_head(call_kit_out(), 200, JSON);
    call_kit_pass(3);
    call_out_data(call_kit_out(), CALL_KIT_REPLY);
    call_kit_pass(50);
    call_out_end(call_kit_out());
    call_kit_pass(1000);
    call_client_gone(&client, HTTP_DONE);
    snprintf(id, sizeof id, "\"id\":\"req_%016llx\"", (unsigned long long)client.call->id);
    expect_logged(id);
    expect_logged("\"endpoint\":\"chat\"");
    expect_logged("\"tenant\":\"one\"");
    expect_logged("\"key\":\"main\"");
    expect_logged("\"user\":\"anna\"");
    expect_logged("\"peer\":\"one\"");
    expect_logged("\"priority\":\"normal\"");
    expect_logged("\"model\":\"first\"");
    expect_logged("\"served_by\":\"first\"");
    expect_logged("\"provider\":\"p\"");
    snprintf(key, sizeof key, "\"provider_key\":\"%s\"", client.call->last_key->config->name);
    expect_logged(key);
    expect_number("status", 200);
    expect_number("upstream_status", 200);
    expect_logged("\"ended\":\"done\"");
    expect_logged("\"client_retry\":true");
    expect_number("attempts", 1);
    expect_number("waited_ms", 0);
    expect_number("ttfb_ms", 30);     /* from its head */
    expect_number("upstream_ms", 73); /* from its request to the provider */
    expect_number("total_ms", 1080);
    expect_number("estimated_input_tokens", prompt);
    expect_number("max_output_tokens", 10);
    expect_number("reserved_micro_usd", client.call->attempt.most);
    expect_number("input_tokens", 5);
    expect_number("output_tokens", 3);
    expect_logged("\"usage\":\"reported\"");
    expect_number("micro_usd", CALL_KIT_MICRO);
    expect_number("bytes_in", (int64_t)strlen(CALL_KIT_BODY));
    expect_number("bytes_out", (int64_t)strlen(CALL_KIT_REPLY));
    expect_in(call_kit_line(), "\"generation\":1}");
    expect_not_logged("\"reason\"");
    expect_not_logged("\"failure\"");
    expect_not_logged("fallback");
    expect_not_logged("\"stream\"");
    expect_not_logged("upstream_id");
    call_kit_expect_metric("admission_total{result=\"admitted\"} 1");
    call_kit_expect_metric("tollgate_requests_total{tenant=\"one\",model=\"first\",provider=\"p\","
                           "code=\"200\",reason=\"none\"} 1");
    call_kit_expect_metric("tollgate_client_retries_total{tenant=\"one\"} 1");
    call_kit_expect_metric(
        "tollgate_upstream_total{provider=\"p\",model=\"first\",class=\"ok\"} 1");
    call_kit_expect_metric(
        "tollgate_upstream_ttfb_seconds_sum{provider=\"p\",model=\"first\"} 0.023");
    call_kit_expect_metric("tollgate_ttft_seconds_sum{model=\"first\"} 0.030");
    call_kit_expect_metric("tollgate_spend_usd_total{tenant=\"one\",model=\"first\"} 0.000011");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.calls), 1);
    end();
}

static void a_line_of_a_stream_says_so(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_says("x-stainless-retry-count", "0"); /* which is no retry */
    call_out_says("x-request-id", "theirs");
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_out_end(call_kit_out());
    call_client_gone(&client, HTTP_DONE);
    expect_logged("\"stream\":true");
    expect_logged("\"usage\":\"estimated\"");
    expect_logged("\"upstream_id\":\"theirs\"");
    expect_not_logged("client_retry");
    expect_not_logged("\"user\"");
    end();
}

static void reasoning_tokens_are_reported(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":9,"
                  "\"completion_tokens_details\":{\"reasoning_tokens\":4}}}");
    expect_number("reasoning_tokens", 4);
    call_kit_close();
}

static void a_passthrough_has_a_provider_and_no_model(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    begin_observed(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    reply_and_end(200, "audio/mpeg", "sound");
    expect_logged("\"endpoint\":\"passthrough\"");
    expect_logged("\"provider\":\"p\"");
    expect_number("micro_usd", 33);
    expect_not_logged("model");
    expect_not_logged("served_by");
    call_kit_expect_metric("tollgate_upstream_total{provider=\"p\",class=\"ok\"} 1");
    assert_int_equal(call_kit_entry(1).micro, 33);
    assert_int_equal(call_kit_entry(1).provider.size, 1);
    assert_memory_equal(call_kit_entry(1).provider.bytes, "p", 1);
    assert_int_equal(call_kit_entry(1).model.size, 0);
    call_kit_close();
}

static void a_request_without_a_tenant_is_nobodys(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_new(&client);
    client.fields[0].value = slice_of("Bearer nobody");
    call_step(client.call, CALL_ON_HEAD, NULL);
    call_client_gone(&client, HTTP_DONE);
    expect_logged("\"reason\":\"invalid_api_key\"");
    expect_number("status", 401);
    expect_number("attempts", 0);
    expect_not_logged("tenant");
    expect_not_logged("peer");
    expect_not_logged("priority");
    expect_not_logged("provider");
    expect_not_logged("usage");
    end();
}

static void a_fallback_is_served_by_another_model(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0, fallback: [second]"};

    (void)state;
    begin_observed(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 500, JSON, "{}");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_logged("\"model\":\"first\"");
    expect_logged("\"served_by\":\"second\"");
    expect_logged("\"fallback_from\":\"first\"");
    expect_logged("\"fallback_why\":\"server\"");
    expect_number("attempts", 2);
    expect_not_logged("\"failure\""); /* in the end there was none */
    call_kit_expect_metric(
        "tollgate_fallback_total{from=\"first\",to=\"second\",why=\"server\"} 1");
    call_kit_expect_metric(
        "tollgate_upstream_total{provider=\"p\",model=\"first\",class=\"failed\"} 1");
    call_kit_expect_metric(
        "tollgate_upstream_total{provider=\"p\",model=\"second\",class=\"ok\"} 1");
    call_kit_close();
}

/* A call that was never sent has been served by no model. */
static void a_refused_call_is_served_by_nobody(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  queue: {size: 0}"};

    (void)state;
    begin_observed(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    call_client_gone(&client, HTTP_DONE);
    expect_logged("\"reason\":\"concurrency\"");
    expect_logged("\"axis\":\"concurrency\"");
    expect_logged("\"provider\":\"p\"");
    expect_number("bytes_out", (int64_t)client.body_n);
    expect_not_logged("served_by");
    expect_not_logged("provider_key");
    expect_not_logged("ttfb_ms");
    expect_not_logged("upstream_ms");
    expect_not_logged("upstream_status");
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* ---- failures ---- */

static void a_line_names_the_failure_of_the_provider(void **state)
{
    static const struct {
        int status; /* 0: the connection fails instead */
        enum http_why why;
        const char *name;
        int told;
    } rows[] = {
        {429, HTTP_DONE, "\"failure\":\"limited\"", 429},
        {401, HTTP_DONE, "\"failure\":\"credentials\"", 502},
        {500, HTTP_DONE, "\"failure\":\"server\"", 502},
        {0, HTTP_UNREACHABLE, "\"failure\":\"network\"", 502},
        {0, HTTP_LATE_FIRST_BYTE, "\"failure\":\"timeout\"", 504},
    };
    const struct call_kit_config config = {.first = "retries: 0"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin_observed(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        if (rows[i].status != 0)
            call_out_reply(call_kit_out(), rows[i].status, JSON, "[]");
        else
            call_out_fail(call_kit_out(), rows[i].why);
        assert_int_equal(client.status, rows[i].told);
        call_client_gone(&client, HTTP_DONE);
        expect_logged(rows[i].name);
        if (rows[i].status != 0)
            expect_number("upstream_status", rows[i].status);
        else
            expect_not_logged("upstream_status");
        end();
    }
}

/* An error that passes keeps the failure that came before it. */
static void a_failure_before_an_error_of_the_client_is_reported(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_pass(1000);
    reply_and_end(400, JSON, "{}");
    expect_number("status", 400);
    expect_number("upstream_status", 400);
    expect_logged("\"failure\":\"server\"");
    call_kit_close();
}

/* The client leaves while the second attempt has no reply yet: the first one's status is known. */
static void a_failed_attempt_leaves_its_status(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_pass(1000);
    expect_state(CALL_ASKING);
    call_client_gone(&client, HTTP_HANGUP);
    expect_number("upstream_status", 503);
    expect_logged("\"failure\":\"server\"");
    expect_logged("\"phase\":\"asking\"");
    expect_number("retries", 1);
    expect_not_logged("\"status\"");
    end();
}

/* ---- hang-ups ---- */

static void hang_up_in(enum call_state at)
{
    call_kit.limits = at == CALL_AT_LIMITS ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
    call_kit.money = at == CALL_AT_MONEY ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
    call_kit.key = at == CALL_AT_KEY ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
    if (at == CALL_AT_SLOT || at == CALL_AT_GATE)
        call_client_ask(&other, CALL_KIT_BODY);
    if (at == CALL_READING)
        call_client_begin(&client, -1);
    else
        call_client_ask(&client, at == CALL_OVER ? "{" : CALL_KIT_BODY);
    if (at == CALL_PAUSING)
        call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    if (at == CALL_ANSWERING)
        call_out_head(call_kit_out(), 200, JSON);
    expect_state(at);
    call_client_gone(&client, HTTP_HANGUP);
}

static void a_line_says_where_the_client_hung_up(void **state)
{
    static const struct {
        enum call_state state;
        const char *ended;
        bool counted; /* among clients that have left */
        struct call_kit_config config;
    } rows[] = {
        {CALL_READING, "hangup_reading", true, {0}},
        {CALL_AT_SLOT, "hangup_queued", true, {.first = ONE_SLOT, .gate = "  " LONG_WAIT}},
        {CALL_AT_GATE, "hangup_queued", true, {.gate = "  " ONE_SLOT "\n  " LONG_WAIT}},
        {CALL_AT_LIMITS, "hangup_at_store", true, {.remote = true}},
        {CALL_AT_MONEY, "hangup_at_store", true, {.remote = true}},
        {CALL_AT_KEY, "hangup_at_store", true, {.remote = true}},
        {CALL_ASKING, "hangup_asking", true, {0}},
        {CALL_PAUSING, "hangup_pausing", true, {0}},
        {CALL_ANSWERING, "hangup_answering", true, {0}},
        {CALL_OVER, "hangup_over", false, {0}},
    };
    char field[60];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin_observed(&rows[i].config);
        hang_up_in(rows[i].state);
        snprintf(field, sizeof field, "\"ended\":\"%s\"", rows[i].ended);
        expect_logged(field);
        assert_int_equal(atomic_load(&call_kit.gateway->counts.hangups), rows[i].counted);
        if (other.call != NULL)
            call_client_gone(&other, HTTP_HANGUP);
        end();
    }
}

static void a_line_says_how_else_the_client_ended(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_client_gone(&client, HTTP_TIMEOUT);
    char field[100];
    snprintf(field, sizeof field, "\"ended\":\"%s\"", http_why_text(HTTP_TIMEOUT));
    expect_logged(field);
    expect_not_logged("phase");
    assert_int_equal(atomic_load(&call_kit.gateway->counts.hangups), 1);
    end();
}

/* ---- waits ---- */

/* How long a call has waited is real time, so the test puts its beginning into the past. */
static void a_wait_is_counted_with_its_class(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  " LONG_WAIT};

    (void)state;
    begin_observed(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_state(CALL_AT_SLOT);
    assert_true(client.call->notes.parked_ns > 0);
    client.call->notes.parked_ns -= INT64_C(3000000000);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_kit_turn();
    expect_state(CALL_ASKING);
    assert_in_range(client.call->notes.waited_ns, INT64_C(3000000000), INT64_C(3900000000));
    call_kit_expect_metric("admission_total{result=\"admitted\"} 2");
    call_kit_expect_metric(
        "admission_queue_wait_ms_bucket{priority=\"normal\",le=\"1000\"} 1"); /* the other's */
    call_kit_expect_metric("admission_queue_wait_ms_bucket{priority=\"normal\",le=\"5000\"} 2");
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    expect_in(call_kit_line(), ",\"waited_ms\":3");
    call_client_gone(&other, HTTP_DONE);
    end();
}

static void a_call_that_leaves_while_it_waits_has_waited(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  " LONG_WAIT};

    (void)state;
    begin_observed(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_client_ask(&client, CALL_KIT_BODY);
    client.call->notes.parked_ns -= INT64_C(3000000000);
    call_client_gone(&client, HTTP_HANGUP);
    expect_in(call_kit_line(), ",\"waited_ms\":3");
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

/* ---- denials ---- */

static void the_watch_gets_denials(void **state)
{
    const struct call_kit_config config = {.first = ONE_SLOT, .gate = "  queue: {size: 0}"};
    struct watch_entry entry;

    (void)state;
    begin_observed(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_kit_pass(5);
    call_client_ask(&client, CALL_KIT_BODY);
    uint64_t id = client.call->id;
    assert_int_equal(watch_recent(call_kit.gateway->watch, &entry, 1), 1);
    assert_int_equal(entry.at, call_kit.now);
    assert_int_equal(entry.id, id);
    assert_int_equal(entry.status, 429);
    assert_string_equal(entry.reason, "concurrency");
    assert_string_equal(entry.axis, "concurrency");
    assert_string_equal(entry.tenant, "one");
    assert_string_equal(entry.model, "first");
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    end();
}

static void the_watch_gets_no_mistakes_of_clients(void **state)
{
    (void)state;
    begin_observed(NULL);
    call_client_ask(&client, "{");
    assert_int_equal(client.status, 400);
    assert_int_equal(watch_total(call_kit.gateway->watch), 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- what a trusted client states ---- */

static void an_arrival_is_recorded_as_it_was_stated(void **state)
{
    const struct call_kit_config config = {.top = "trust_headers_from: [127.0.0.0/8]\n"};

    (void)state;
    begin(&config);
    call_kit_observe(true);
    call_kit.has_address = true;
    call_client_says("x-tollgate-priority", "low");
    call_client_says("x-deriva-node-id", "node-7");
    call_client_says("x-tollgate-value", "2.5");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_string_equal(client.call->notes.peer, "node-7");
    assert_int_equal(tg_gate_peer_calls(call_kit.gateway->gate, "node-7", 6), 1);
    int64_t prompt = client.call->attempt.prompt;
    char cost[60];
    call_kit_pass(40);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_logged("\"peer\":\"node-7\"");
    expect_logged("\"priority\":\"low\"");
    expect_logged("\"tenant\":\"one\"");
    expect_logged("\"model\":\"first\"");
    expect_logged("\"value\":2.5");
    snprintf(cost, sizeof cost, "\"cost\":%d", (int)prompt + 10);
    expect_logged(cost);
    expect_logged("\"stream\":false");
    expect_logged("\"latency_ms\":40");
    expect_not_logged("\"reason\"");
    call_kit_expect_metric("admission_queue_wait_ms_count{priority=\"low\"} 1");
    call_kit_close();
}

/* The same headers from somebody else, and values that are none. */
static void what_a_stranger_states_does_not_count(void **state)
{
    static const struct {
        bool trusted;
        const char *value;
        double worth;
    } rows[] = {
        {false, "2.5", 1},
        {true, "-1", 1},
        {true, "0", 0},
        {true, "nan", 1},
        {true, "1e300", 1},
        {true, "", 1},
        {true, "3.25", 3.25},
        {true, "1.0000000000000000000000000000", 1},  /* 30 bytes */
        {true, "2.00000000000000000000000000000", 2}, /* 31 */
        {true, "2.000000000000000000000000000000", 1},
    };
    const struct call_kit_config config = {.top = "trust_headers_from: [127.0.0.0/8]\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit.has_address = rows[i].trusted;
        call_client_says("x-tollgate-value", rows[i].value);
        call_client_says("x-tollgate-priority", rows[i].trusted ? "nonsense" : "high");
        if (!rows[i].trusted)
            call_client_says("x-deriva-node-id", "node-7");
        call_client_begin(&client, -1);
        assert_true(client.call->gate_call.value == rows[i].worth);
        assert_int_equal(client.call->gate_call.priority, TG_PRIORITY_NORMAL);
        assert_int_equal(tg_gate_peer_calls(call_kit.gateway->gate, "one", 3), 1);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

/* ---- traces ---- */

static void a_trace_goes_on_at_the_provider(void **state)
{
    static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const struct call_kit_config config = {.top = "otlp: {endpoint: \"http://127.0.0.1:1\"}\n"};
    static struct trace_batch batch;

    (void)state;
    begin_observed(&config);
    call_client_says("traceparent", parent);
    call_client_ask(&client, CALL_KIT_BODY);
    const char *sent = call_kit_out()->request;
    expect_in(sent, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-"); /* the same trace, */
    expect_not_in(sent, "b7ad6b7169203331");                              /* but our own span */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(call_kit_line(), "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\"");
    assert_true(trace_batch_fill(call_kit.gateway->trace, "test", &batch));
    assert_int_equal(batch.spans, 1);
    assert_true(batch.n < sizeof batch.text);
    batch.text[batch.n] = '\0';
    expect_in(batch.text, "\"server.address\",\"value\":{\"stringValue\":\"127.0.0.1\"}");
    expect_in(batch.text, "\"server.port\",\"value\":{\"intValue\":\"1\"}");
    expect_in(batch.text, "b7ad6b7169203331"); /* its parent */
    call_kit_close();
}

static void without_traces_what_the_client_sent_goes_on(void **state)
{
    static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    (void)state;
    begin(NULL);
    call_client_says("traceparent", parent);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->request, parent);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Who looks at denials sees what the client asked for, not what a rule put in. */
static void the_watch_gets_what_the_client_asked_for(void **state)
{
    static const struct {
        const char *more;
        int64_t max_tokens;
    } rows[] = {{"", -1}, {",\"max_tokens\":7", 7}};
    const struct call_kit_config config = {
        .tenant = "budgets: [{usd: 0.000001, per: total}], "
                  "rules: [{field: max_tokens, set: 50}]"};
    struct watch_entry entry;
    char body[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin_observed(&config);
        snprintf(body, sizeof body,
                 "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]%s}",
                 rows[i].more);
        call_client_ask(&client, body);
        assert_int_equal(client.call->ask.max_output, 50);
        assert_int_equal(watch_recent(call_kit.gateway->watch, &entry, 1), 1);
        assert_int_equal(entry.max_tokens, rows[i].max_tokens);
        assert_int_equal(entry.prompt_bytes, strlen("hello"));
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_who_called_and_what_came_of_it),
        cmocka_unit_test(a_line_of_a_stream_says_so),
        cmocka_unit_test(reasoning_tokens_are_reported),
        cmocka_unit_test(a_passthrough_has_a_provider_and_no_model),
        cmocka_unit_test(a_request_without_a_tenant_is_nobodys),
        cmocka_unit_test(a_fallback_is_served_by_another_model),
        cmocka_unit_test(a_refused_call_is_served_by_nobody),
        cmocka_unit_test(a_line_names_the_failure_of_the_provider),
        cmocka_unit_test(a_failure_before_an_error_of_the_client_is_reported),
        cmocka_unit_test(a_failed_attempt_leaves_its_status),
        cmocka_unit_test(a_line_says_where_the_client_hung_up),
        cmocka_unit_test(a_line_says_how_else_the_client_ended),
        cmocka_unit_test(a_wait_is_counted_with_its_class),
        cmocka_unit_test(a_call_that_leaves_while_it_waits_has_waited),
        cmocka_unit_test(the_watch_gets_denials),
        cmocka_unit_test(the_watch_gets_no_mistakes_of_clients),
        cmocka_unit_test(an_arrival_is_recorded_as_it_was_stated),
        cmocka_unit_test(what_a_stranger_states_does_not_count),
        cmocka_unit_test(a_trace_goes_on_at_the_provider),
        cmocka_unit_test(without_traces_what_the_client_sent_goes_on),
        cmocka_unit_test(the_watch_gets_what_the_client_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
