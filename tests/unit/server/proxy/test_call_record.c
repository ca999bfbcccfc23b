/* test_call_record.c - what a recording has of a call's money and keys: each operation once, in its
 * order, with what was asked and what was answered.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 4096 };

#define RESERVE "reserve\",\"money\":170,\"most\":170,\"to\":\"reserved\",\"reserved\":170\n"
#define KEY "key\",\"provider\":\"p\",\"model\":\"first\",\"tokens\":15,\"asked\":15"
#define HINT "key\",\"provider\":\"p\",\"model\":\"first\",\"hint\":true,\"tokens\":15"
#define NO_KEY ",\"to\":\"refused\",\"reason\":\"no_key\",\"retry_after\":0\n"

static void record(const struct call_kit_config *config)
{
    begin(config);
    call_kit_record();
}

static void call_and_reply(int status)
{
    call_client_ask(&client, CALL_KIT_BODY);
    if (client.status == 0)
        call_out_reply(call_kit_out(), status, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
}

/* The operations on keys and money, a line each, with a K for the key that the ring drew. Those of
 * the gates are tested with the recorder. */
static const char *ops(void)
{
    static char text[OPS_MAX];
    const char *at = strstr(call_kit_recorded(), "\"ops\":[");
    long long last = 0;
    size_t n = 0;

    assert_non_null(at);
    while ((at = strstr(at, "{\"q\":")) != NULL) {
        long long number = atoll(at + strlen("{\"q\":"));
        const char *op = strstr(at, "\"op\":\"") + strlen("\"op\":\"");
        const char *stop = strchr(op, '}');

        assert_true(number > last);
        last = number;
        at = stop;
        if (strncmp(op, "check", 5) == 0 || strncmp(op, "admit", 5) == 0 ||
            strncmp(op, "resume", 6) == 0 || strncmp(op, "release", 7) == 0)
            continue;
        for (; op < stop; op++) {
            assert_true(n + 2 < sizeof text);
            if (strncmp(op, "\"k1\"", 4) == 0 || strncmp(op, "\"k2\"", 4) == 0) {
                text[n++] = 'K';
                op += 3;
            } else {
                text[n++] = *op;
            }
        }
        text[n++] = '\n';
    }
    text[n] = '\0';
    return text;
}

static void a_call_reserves_draws_a_key_and_settles(void **state)
{
    (void)state;
    record(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(40);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    assert_string_equal(ops(), RESERVE KEY
                        ",\"to\":\"key\",\"key\":K\n"
                        "key_end\",\"outcome\":\"ok\",\"sent\":true,\"tokens\":8,\"latency\":40\n"
                        "settle\",\"spent\":11\n");
    end();
}

static void a_retry_says_what_was_tried(void **state)
{
    const struct call_kit_config config = {.first = "retries: 1", .key = "rpm: 100"};

    (void)state;
    record(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_kit_pass(5);
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    call_kit_pass(2000);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_kit_pass(5);
    call_out_data(call_kit_out(), CHUNK);
    call_client_gone(&client, HTTP_HANGUP);
    /* The attempt may have cost all that was reserved: what is not known of it is uncertain. */
    const char *text = ops();
    expect_in(text, RESERVE KEY ",\"to\":\"key\",\"key\":K\n"
                                "key_end\",\"outcome\":\"limited\",\"sent\":true,\"latency\":5\n"
                                "settle\",\"spent\":0\n" HINT ",\"tried\":[K]" NO_KEY);
    expect_in(text, RESERVE KEY ",\"tried\":[K],\"to\":\"key\",\"key\":K\n"
                                "first_byte\",\"at\":\"slot\",\"sample\":");
    expect_in(text, "first_byte\",\"at\":\"gate\",\"sample\":");
    expect_in(text, "key_end\",\"outcome\":\"cancelled\",\"sent\":true,\"tokens\":15,\"latency\":");
    expect_in(text, "\nsettle\",\"spent\":25,\"uncertain\":145\n");
    end();
}

static void the_stores_answers_are_kept(void **state)
{
    const struct call_kit_config config = {.remote = true};
    const char *refused = "settle\",\"spent\":0\n";

    (void)state;
    record(&config);
    call_and_reply(200);
    assert_string_equal(ops(), RESERVE
                        "store\",\"at\":\"money\",\"to\":\"reserved\",\"reserved\":170\n" KEY
                        ",\"to\":\"key\",\"key\":K\n"
                        "key_end\",\"outcome\":\"ok\",\"sent\":true,\"tokens\":8,\"latency\":0\n"
                        "settle\",\"spent\":11\n");

    call_kit.money = REMOTE_SAYS_NO;
    call_and_reply(200);
    expect_in(ops(), RESERVE "store\",\"at\":\"money\",\"to\":\"refused\",\"reason\":\"budget\"\n");
    expect_in(ops(), refused);
    call_kit.money_no.contended = true;
    call_and_reply(200);
    expect_in(ops(),
              "store\",\"at\":\"money\",\"to\":\"refused\",\"reason\":\"budget_contended\"\n");
    call_kit.money = REMOTE_FAILS;
    call_and_reply(200);
    expect_in(ops(), RESERVE "store\",\"at\":\"money\",\"to\":\"failed\"\nsettle\",\"spent\":0\n");

    call_kit.money = REMOTE_SAYS_YES;
    call_kit.key = REMOTE_FAILS;
    call_and_reply(200);
    expect_in(ops(), "store\",\"at\":\"key\",\"to\":\"failed\"\n"
                     "key_end\",\"outcome\":\"cancelled\",\"sent\":false\nsettle\",\"spent\":0\n");
    call_kit_close();
}

static void a_budget_that_refuses_is_recorded(void **state)
{
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 0.0001, per: total}]"};

    (void)state;
    record(&config);
    call_and_reply(200);
    assert_string_equal(
        ops(), "reserve\",\"money\":170,\"most\":170,\"to\":\"refused\",\"reason\":\"budget\"\n");
    end();
}

static void outcomes_of_keys_are_recorded(void **state)
{
    static const struct {
        int status;
        const char *outcome;
    } rows[] = {{200, "ok"}, {500, "failed"}, {401, "refused"}, {400, "rejected"}};
    const struct call_kit_config config = {.first = "retries: 0"};
    char text[100];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        record(&config);
        call_and_reply(rows[i].status);
        snprintf(text, sizeof text, "key_end\",\"outcome\":\"%s\",\"sent\":true", rows[i].outcome);
        expect_in(ops(), text);
        call_kit_close();
    }
    record(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
    call_client_gone(&client, HTTP_DONE);
    expect_in(ops(), "key_end\",\"outcome\":\"failed\",\"sent\":false\n");
    call_kit_close();
}

static void a_key_that_rests_is_recorded_until_when(void **state)
{
    const struct call_kit_config config = {.first = "retries: 0"};
    char text[100];

    (void)state;
    record(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_says("retry-after", "7");
    call_out_reply(call_kit_out(), 429, JSON, "{}");
    call_client_gone(&client, HTTP_DONE);
    snprintf(text, sizeof text, "\"latency\":0,\"cool_until\":%lld\n",
             (long long)(call_kit.now + 7000));
    expect_in(ops(), text);
    call_kit_close();
}

static void keys_without_room_are_recorded(void **state)
{
    const struct call_kit_config full = {.first = "retries: 0", .key = "rpm: 1"};
    const struct call_kit_config small = {.first = "retries: 0", .key = "tpm: 1"};

    (void)state;
    record(&full);
    for (int i = 0; i < 3; i++)
        call_and_reply(200);
    expect_in(ops(), ",\"to\":\"refused\",\"reason\":\"no_key\",\"retry_after\":6");
    expect_not_in(ops(), ",\"key\":");
    expect_not_in(ops(), "key_end");
    call_kit_close();

    record(&small);
    call_and_reply(200);
    expect_in(ops(), ",\"to\":\"refused\",\"reason\":\"too_large\",\"retry_after\":");
    call_kit_close();

    record(&(struct call_kit_config){.first = "retries: 0"});
    call_out_says("retry-after", "7");
    for (int i = 0; i < 3; i++)
        call_and_reply(429);
    expect_in(ops(), ",\"to\":\"refused\",\"reason\":\"keys_cooling\",\"retry_after\":7000\n");
    call_kit_close();
}

/* What a client chose to be known by is its own business. */
static void affinity_is_recorded_as_a_hash(void **state)
{
    static const char *const names[] = {"abcdefgh", "abcdefgh", "other"};
    char body[300], hash[3][17];

    (void)state;
    record(NULL);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],"
                 "\"max_tokens\":10,\"prompt_cache_key\":\"%s\"}",
                 names[i]);
        call_client_ask(&client, body);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        const char *at = strstr(ops(), "\"affinity\":\"");
        assert_non_null(at);
        snprintf(hash[i], sizeof hash[i], "%s", at + strlen("\"affinity\":\""));
        assert_int_equal(strspn(hash[i], "0123456789abcdef"), 16);
        expect_not_in(call_kit_recorded(), names[i]);
    }
    assert_string_equal(hash[0], hash[1]);
    assert_string_not_equal(hash[0], hash[2]);
    call_kit_close();
}

static void a_response_that_goes_on_prefers_its_key(void **state)
{
    const struct call_kit_config config = {.first = "context: 8000"};

    (void)state;
    record(&config);
    call_client_ask_at(&client, "/v1/responses",
                       "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10}");
    reply_and_end(200, JSON,
                  "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\","
                  "\"output\":[],\"usage\":{\"input_tokens\":5,\"output_tokens\":3}}");
    expect_not_in(ops(), "prefer");
    call_client_ask_at(&client, "/v1/responses",
                       "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":10,"
                       "\"previous_response_id\":\"resp_1\"}");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    expect_in(ops(), ",\"prefer\":K,\"to\":\"key\",\"key\":K\n");
    call_kit_close();
}

/* A passthrough has a provider and no model. */
static void a_passthrough_is_recorded_without_a_model(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    record(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    reply_and_end(200, "audio/mpeg", "sound");
    expect_in(ops(), "reserve\",\"money\":33,");
    expect_in(ops(), "key\",\"provider\":\"p\",\"tokens\":");
    expect_in(ops(), "settle\",\"spent\":33\n");
    call_kit_close();
}

static void nothing_is_recorded_unless_it_is_asked_for(void **state)
{
    (void)state;
    begin(NULL);
    call_kit_observe(true);
    call_and_reply(200);
    assert_string_equal(call_kit_recorded(), "");
    call_kit_close();
}

/* Times of the provider are the wall clock's; those of a recording are the gate's. */
static void what_a_provider_says_of_its_room_is_recorded(void **state)
{
    const struct call_kit_config config = {
        .providers = "  s: {api: openai, base_url: \"http://127.0.0.1:1\", "
                     "keys: [{name: s1, secret: \"${CALL_KIT_SECRET}\"}]}\n",
        .models = "  single: {provider: s, price: {input: 1, output: 2}, "
                  "max_output_tokens: 4096}\n"};
    char text[100];

    (void)state;
    record(&config);
    call_out_says("x-ratelimit-remaining-requests", "3");
    call_out_says("x-ratelimit-reset-requests", "10s");
    call_client_ask(&client, "{\"model\":\"single\",\"messages\":[],\"max_tokens\":9}");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    snprintf(text, sizeof text, "room\",\"room\":3,\"until\":%lld\n",
             (long long)(call_kit.now + 10000));
    expect_in(ops(), text);
    call_kit_close();
}

static void a_key_that_others_have_used_up_is_recorded(void **state)
{
    const struct call_kit_config config = {.remote = true};
    char text[200];

    (void)state;
    record(&config);
    call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_answer_key(REMOTE_SAYS_NO);
    call_kit_answer_key(REMOTE_SAYS_YES);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    snprintf(text, sizeof text,
             ",\"to\":\"key\",\"key\":K\n"
             "key_held\",\"why\":\"busy\",\"of_group\":false,\"until\":%lld,\"room\":-1\n",
             (long long)(call_kit.now + 1000));
    expect_in(ops(), text);
    call_kit_close();
}

/* A recording of a call is bounded. What finds no room in it is counted, nothing of it is written,
 * and the call goes on. */
static void operations_that_find_no_room_are_counted(void **state)
{
    static char long_text[RECORD_TRAIL_MAX + 1];
    const struct call_kit_config config = {.remote = true, .first = "retries: 1"};

    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    record(&config);
    call_kit.key = REMOTE_SAYS_LATER;
    call_client_begin(&client, (int64_t)strlen(CALL_KIT_STREAM));
    call_client_body(&client, CALL_KIT_STREAM);
    struct record_trail *trail = &client.call->trail;
    assert_true(record_op(trail, 1, call_kit.now, "long"));
    record_word(trail, "text", long_text);
    record_op_end(trail);
    size_t written = trail->out.text.size;
    call_client_end(&client);
    call_kit_answer_key(REMOTE_SAYS_NO);
    uint64_t lost = trail->lost;
    assert_true(lost > 0);
    call_kit_answer_key(REMOTE_SAYS_YES);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), ERROR_EVENT);
    expect_state(CALL_PAUSING);
    assert_true(trail->lost > lost);
    call_kit.key = REMOTE_FAILS;
    call_kit_pass(200);
    expect_state(CALL_OVER);
    assert_int_equal(trail->out.text.size, written);
    call_client_gone(&client, HTTP_DONE);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_reserves_draws_a_key_and_settles),
        cmocka_unit_test(a_retry_says_what_was_tried),
        cmocka_unit_test(the_stores_answers_are_kept),
        cmocka_unit_test(a_budget_that_refuses_is_recorded),
        cmocka_unit_test(outcomes_of_keys_are_recorded),
        cmocka_unit_test(a_key_that_rests_is_recorded_until_when),
        cmocka_unit_test(keys_without_room_are_recorded),
        cmocka_unit_test(affinity_is_recorded_as_a_hash),
        cmocka_unit_test(a_response_that_goes_on_prefers_its_key),
        cmocka_unit_test(a_passthrough_is_recorded_without_a_model),
        cmocka_unit_test(nothing_is_recorded_unless_it_is_asked_for),
        cmocka_unit_test(what_a_provider_says_of_its_room_is_recorded),
        cmocka_unit_test(a_key_that_others_have_used_up_is_recorded),
        cmocka_unit_test(operations_that_find_no_room_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
