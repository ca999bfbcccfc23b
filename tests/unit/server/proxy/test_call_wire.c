/* test_call_wire.c - what of a request reaches the provider, and what of a reply the client.
 *
 * Also what each of them is charged, and what is refused before a provider is asked.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define USAGE                                                            \
    "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":5," \
    "\"completion_tokens\":3,\"total_tokens\":8}}\n\n"
#define UNBOUNDED "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"

/* ---- to the provider ---- */

static void what_concerns_us_alone_is_not_forwarded(void **state)
{
    const struct call_kit_config config = {
        .provider = "    headers: {drop: [x-dropped], set: {x-set: ours}}\n"
                    "    query: {api-version: preview}\n"
                    "    path_prefix: /prefix"};

    (void)state;
    call_kit_open(&config);
    call_client_says("x-kept", "yes");
    call_client_says("x-tollgate-user", "somebody");
    call_client_says("cookie", "secret");
    call_client_says("openai-organization", "org");
    call_client_says("accept-encoding", "gzip");
    call_client_says("x-dropped", "yes");
    call_client_says("x-set", "theirs");
    call_client_ask(&client, CALL_KIT_BODY);
    const char *sent = call_kit_out()->request;
    assert_string_equal(call_kit_out()->target, "/prefix/v1/chat/completions?api-version=preview");
    expect_in(sent, "x-kept: yes\n");
    expect_in(sent, "content-type: application/json\n");
    expect_in(sent, "x-set: ours\n");
    expect_in(sent, "accept-encoding: identity\n");
    expect_in(sent, "authorization: Bearer provider-secret\n");
    expect_not_in(sent, "theirs");
    expect_not_in(sent, "tollgate");
    expect_not_in(sent, "cookie");
    expect_not_in(sent, "organization");
    expect_not_in(sent, "gzip");
    expect_not_in(sent, "x-dropped");
    expect_not_in(sent, "tg-virtual-key");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_query_of_the_client_goes_before_ours(void **state)
{
    const struct call_kit_config config = {.provider = "    query: {a: b, c: d}"};

    (void)state;
    call_kit_open(&config);
    call_client_begin_at(&client, "POST", "/v1/chat/completions?x=1", -1);
    call_client_body(&client, CALL_KIT_BODY);
    call_client_end(&client);
    assert_string_equal(call_kit_out()->target, "/v1/chat/completions?x=1&a=b&c=d");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_has_the_name_that_its_provider_knows(void **state)
{
    const struct call_kit_config config = {.first = "upstream_model: theirs"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"model\":\"theirs\"");
    expect_not_in(call_kit_out()->body, "\"first\"");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, ""); /* it is the model that was asked for */
    call_kit_close();
}

static void timeouts_are_the_models_and_the_clients(void **state)
{
    const struct call_kit_config config = {
        .first = "timeouts: {connect: 11ms, first_byte: 22ms, idle: 33ms, total: 44s}"};

    (void)state;
    call_kit_open(&config);
    call_client_says("x-stainless-timeout", "7");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.connect, 11);
    assert_int_equal(call_kit_out()->timeouts.first_byte, 22);
    assert_int_equal(call_kit_out()->timeouts.idle, 33);
    assert_int_equal(call_kit_out()->timeouts.total, 44000);
    assert_int_equal(call_kit_out()->timeouts.head, 7000);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit.n_more = 0;
    call_client_says("x-request-timeout-ms", "500");
    call_client_says("x-stainless-timeout", "7");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.total, 500);
    assert_int_equal(call_kit_out()->timeouts.head, 500);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit.n_more = 0;
    call_client_says("x-request-timeout-ms", "5x");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_out()->timeouts.head, 44000);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* ---- what a call may write ---- */

static void a_call_without_a_bound_gets_what_its_budget_affords(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 1000",
                                           .tenant = "budgets: [{usd: 0.000120, per: total}]"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    const struct attempt *attempt = &client.call->attempt;
    int64_t most = (120 - attempt->prompt) / 2; /* 1 a token of the prompt, 2 of the output */
    char bound[64];
    assert_true(most > 10 && most < 60);
    assert_int_equal(attempt->most_output, most);
    snprintf(bound, sizeof bound, "\"max_completion_tokens\":%d", (int)most);
    expect_in(call_kit_out()->body, bound);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_bound_is_at_most_that_of_the_model(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 77"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.call->attempt.most_output, 77);
    assert_int_equal(client.call->attempt.output, 77);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_may_refuse_calls_without_a_bound(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: refuse"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "max_tokens");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_client_ask(&client, CALL_KIT_BODY); /* which has one */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

static void a_model_may_leave_calls_without_a_bound(void **state)
{
    const struct call_kit_config config = {.first = "on_unbounded: allow"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(client.call->attempt.most_output, -1);
    assert_string_equal(call_kit_out()->body, UNBOUNDED);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* ---- to the client ---- */

static void what_says_something_of_our_keys_is_not_shown(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_out_says("x-kept", "yes");
    call_out_says("set-cookie", "secret");
    call_out_says("x-ratelimit-remaining-requests", "77777");
    call_out_says("openai-organization", "org");
    call_out_says("retry-after", "66666");
    call_out_says("x-request-id", "theirs");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(client.head, "x-kept: yes\n");
    expect_in(client.head, "x-request-id: theirs\n");
    expect_not_in(client.head, "cookie");
    expect_not_in(client.head, "77777");
    expect_not_in(client.head, "organization");
    expect_not_in(client.head, "66666");
    assert_string_equal(client.call->notes.upstream_id, "theirs");
    call_kit_close();
}

static void an_injected_usage_is_read_and_not_shown(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_STREAM);
    expect_in(call_kit_out()->body, "include_usage");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK USAGE DONE);
    call_out_end(call_kit_out());
    assert_string_equal(client.body, CHUNK DONE);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_true(client.call->usage_reported);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_reply_without_usage_is_charged_by_its_length(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[{\"message\":{\"content\":\"four words of text here\"}}]}");
    assert_false(client.call->usage_reported);
    assert_true(client.call->usage.output > 0);
    assert_int_equal(client.call->usage.input, client.call->attempt.prompt);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_missing), 1);
    call_kit_close();
}

/* What a whole reply reports counts, however long it is. */
static void a_reported_usage_is_not_replaced_by_an_estimate(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[{\"message\":{\"content\":\"a text that is much longer than "
                  "what is reported of it, as happens with common words\"}}],\"usage\":"
                  "{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8}}");
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    call_kit_close();
}

static void an_absurd_usage_neither_charges_nor_refunds(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    tg_micro reserved = client.call->notes.reserved;
    call_out_reply(call_kit_out(), 200, JSON,
                   "{\"choices\":[],\"usage\":{\"prompt_tokens\":-5,"
                   "\"completion_tokens\":99999999999,\"total_tokens\":8}}");
    call_client_gone(&client, HTTP_DONE);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_absurd), 1);
    assert_int_equal(call_kit_money_settled(), reserved);
    call_kit_close();
}

static void an_encoded_reply_is_charged_with_the_most_it_may_be(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_out_says("content-encoding", "gzip");
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, "nobody can read this");
    assert_string_equal(client.body, "nobody can read this");
    assert_int_equal(client.call->usage.output, 10);
    call_kit_close();
}

static void an_error_of_the_client_passes_and_costs_nothing(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(400, JSON, "{\"error\":{\"message\":\"wrong\"}}");
    assert_int_equal(client.status, 400);
    assert_string_equal(client.body, "{\"error\":{\"message\":\"wrong\"}}");
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(client.call->attempts, 1);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_missing), 0);
    call_kit_close();
}

static void a_400_of_an_empty_account_is_another_keys_chance(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    const struct route_key *first = client.call->last_key;
    call_out_reply(call_kit_out(), 400, JSON,
                   "{\"error\":{\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}");
    assert_int_equal(client.call->state, CALL_PAUSING);
    call_kit_pass(1);
    assert_ptr_not_equal(client.call->last_key, first);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.status, 200);
    call_kit_close();
}

/* Longer than what is kept back: it cannot be about money, and passes before its end. */
static void a_long_400_passes(void **state)
{
    enum { HALF = 40 * 1024 };
    static char half[HALF + 1];

    (void)state;
    memset(half, 'x', HALF);
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 400, JSON);
    call_out_data(call_kit_out(), half);
    assert_int_equal(client.call->state, CALL_ASKING);
    assert_int_equal(client.call->held_n, HALF);
    call_out_data(call_kit_out(), half);
    assert_int_equal(client.call->state, CALL_ANSWERING);
    assert_int_equal(client.body_n, 2 * HALF);
    call_out_end(call_kit_out());
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void a_provider_says_how_long_its_key_rests(void **state)
{
    struct tg_key_metrics keys[2];

    (void)state;
    call_kit_open(NULL);
    call_out_says("retry-after", "20");
    call_client_ask(&client, CALL_KIT_BODY);
    tg_ms limited_at = call_kit.now;
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    call_kit_pass(1);
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    call_kit_pass(1);
    assert_int_equal(client.status, 429);
    assert_string_equal(client.reason, "no_key");
    struct tg_pool *pool = gateway_newest(call_kit.gateway)->routes[0].pool;
    assert_int_equal(tg_pool_get_keys(pool, call_kit.now, 0, keys, 2), 2);
    for (int i = 0; i < 2; i++)
        assert_in_range(keys[i].cool_down_until, limited_at + 20000, limited_at + 20001);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

static void credentials_that_are_refused_are_no_fault_of_the_client(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 2; i++) {
        call_out_reply(call_kit_out(), 401, JSON, "{}");
        call_kit_pass(1);
    }
    assert_int_equal(client.status, 502);
    assert_string_equal(client.reason, "upstream_credentials");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
}

/* ---- users and prices ---- */

static void a_user_is_named_by_a_header(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\", each: {rpm: 1}}"};
    char name[LEDGER_NAME_MAX + 2];

    (void)state;
    call_kit_open(&config);
    call_client_says("x-user", "anna");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->user.n, 4);
    assert_memory_equal(client.call->user.at, "anna", 4);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.status, 429); /* the second of her calls */
    call_client_gone(&client, HTTP_DONE);
    call_kit.n_more = 0;
    call_client_says("x-user", "berta");
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->state, CALL_ASKING);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    call_kit.n_more = 0;
    call_client_says("x-user", name);
    call_client_begin(&client, -1);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "x-user");
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_idle(NULL, 0);
    call_kit_close();
}

static void a_cheaper_model_serves_when_money_runs_short(void **state)
{
    const struct call_kit_config config = {
        .first = "cheaper: second",
        .tenant = "allow_cheaper: 0.95, budgets: [{usd: 0.000200, per: total}]"};

    (void)state;
    call_kit_open(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"first\""); /* all of it is left */
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(call_kit_out()->body, "\"second\"");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_string_equal(client.model, "second");
    call_kit_close();
}

static void a_passthrough_costs_its_price_a_call(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    call_kit_open(&config);
    call_client_begin_at(&client, "POST", "/v1/audio", 3);
    call_client_body(&client, "raw");
    call_client_end(&client);
    assert_string_equal(call_kit_out()->body, "raw");
    reply_and_end(200, "audio/mpeg", "sound");
    assert_string_equal(client.body, "sound");
    assert_int_equal(client.call->spent, 33);
    call_kit_close();
}

static void a_model_of_the_other_api_is_refused(void **state)
{
    (void)state;
    call_kit_open(NULL);
    call_client_begin_at(&client, "POST", "/v1/messages", -1);
    call_client_body(&client, CALL_KIT_BODY);
    call_client_end(&client);
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    call_kit_close();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_concerns_us_alone_is_not_forwarded),
        cmocka_unit_test(a_query_of_the_client_goes_before_ours),
        cmocka_unit_test(a_model_has_the_name_that_its_provider_knows),
        cmocka_unit_test(timeouts_are_the_models_and_the_clients),
        cmocka_unit_test(a_call_without_a_bound_gets_what_its_budget_affords),
        cmocka_unit_test(a_bound_is_at_most_that_of_the_model),
        cmocka_unit_test(a_model_may_refuse_calls_without_a_bound),
        cmocka_unit_test(a_model_may_leave_calls_without_a_bound),
        cmocka_unit_test(what_says_something_of_our_keys_is_not_shown),
        cmocka_unit_test(an_injected_usage_is_read_and_not_shown),
        cmocka_unit_test(a_reply_without_usage_is_charged_by_its_length),
        cmocka_unit_test(a_reported_usage_is_not_replaced_by_an_estimate),
        cmocka_unit_test(an_absurd_usage_neither_charges_nor_refunds),
        cmocka_unit_test(an_encoded_reply_is_charged_with_the_most_it_may_be),
        cmocka_unit_test(an_error_of_the_client_passes_and_costs_nothing),
        cmocka_unit_test(a_400_of_an_empty_account_is_another_keys_chance),
        cmocka_unit_test(a_long_400_passes),
        cmocka_unit_test(a_provider_says_how_long_its_key_rests),
        cmocka_unit_test(credentials_that_are_refused_are_no_fault_of_the_client),
        cmocka_unit_test(a_user_is_named_by_a_header),
        cmocka_unit_test(a_cheaper_model_serves_when_money_runs_short),
        cmocka_unit_test(a_passthrough_costs_its_price_a_call),
        cmocka_unit_test(a_model_of_the_other_api_is_refused),
        cmocka_unit_test(what_is_no_json_is_refused_before_it_is_read),
        cmocka_unit_test(a_key_that_nobody_has_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
