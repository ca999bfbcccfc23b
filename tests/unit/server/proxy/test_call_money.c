/* test_call_money.c - what a call reserves before it is sent: money, then a key; here and at the
 * remote store.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNBOUNDED "{\"model\":\"first\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}"
#define BIG_REPLY                                                                \
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":50," \
    "\"total_tokens\":150}}"
enum { BIG_MICRO = 100 * 1 + 50 * 2 };

/* The number behind "name: " in a head; -1: it has no such field. */
static int64_t field_of(const struct call_client *of, const char *name)
{
    char part[64];

    snprintf(part, sizeof part, "%s: ", name);
    const char *at = strstr(of->head, part);
    return at != NULL ? strtoll(at + strlen(part), NULL, 10) : -1;
}

/* ---- refusals ---- */

static void a_budget_that_is_spent_says_until_when(void **state)
{
    static const struct {
        enum tg_per per;
        const char *text, *rule;
        bool dated;
    } rows[] = {
        {TG_PER_DAY, "budget of tenant one: 50 USD a day, asked 0.00017, left 1.20",
         "50 USD a day", true},
        {TG_PER_MONTH, "budget of tenant one: 50 USD a month, asked 0.00017, left 1.20",
         "50 USD a month", true},
        {TG_PER_TOTAL, "budget of tenant one: 50 USD in total, asked 0.00017, left 1.20",
         "50 USD in total", false},
    };
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit.money = REMOTE_SAYS_NO;
        call_kit.money_no =
            (struct tg_money_answer){.per = rows[i].per,
                                     .reset_at = call_kit.now + 5000,
                                     .amount = 50000000,
                                     .used = 48800000};
        call_client_ask(&client, CALL_KIT_BODY);
        assert_int_equal(client.status, 402);
        assert_string_equal(client.reason, "budget");
        expect_in(client.body, rows[i].text);
        expect_in(client.head, "x-should-retry: false\n");
        expect_not_in(client.head, "x-ratelimit-"); /* none of those limits refused it */
        assert_int_equal(strstr(client.head, "x-tollgate-reset-at") != NULL, rows[i].dated);
        assert_int_equal(field_of(&client, "retry-after-ms"), -1);
        const struct report_limit *limit = &client.call->notes.limit;
        assert_string_equal(limit->rule, rows[i].rule);
        assert_string_equal(limit->of, "tenant one");
        assert_int_equal(limit->size, 50000000);
        assert_int_equal(limit->left, 1200000);
        assert_int_equal(limit->reset_at, rows[i].dated ? call_kit.now + 5000 : 0);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* The budget that refused is named by who has it, among others of the same amount or period. */
static void a_refusal_by_money_names_whose_budget_it_is(void **state)
{
    static const struct {
        const char *top, *tenant, *text;
        bool dated;
    } rows[] = {
        {"budgets: [{usd: 0.0001, per: day}]\n", "budgets: [{usd: 9, per: day}]",
         "budget of everyone: 0.0001 USD a day, asked 0.00017, left 0.0001, which this call can "
         "never fit into",
         false},
        {"budgets: [{usd: 9, per: week}]\n", "budgets: [{usd: 0.0002, per: week}]",
         "budget of tenant one: 0.0002 USD a week, asked 0.00017, left 0.00003", true},
        {"budgets: [{usd: 9, per: total}]\n", "budgets: [{usd: 0.0002, per: total}]",
         "budget of tenant one: 0.0002 USD in total, asked 0.00017, left 0.00003", false},
        {"budgets: [{usd: 0.0002, per: month}]\n", "budgets: [{usd: 0.0002, per: total}]",
         "budget of everyone: 0.0002 USD a month, asked 0.00017, left 0.00003", true},
        {"budgets: [{usd: 0.0002, per: total}]\n", "budgets: [{usd: 0.0003, per: total}]",
         "budget of everyone: 0.0002 USD in total, asked 0.00017, left 0.00003", false},
        {"", "users: {from: \"header:x-user\", each: {budgets: [{usd: 0.0002, per: day}]}}",
         "budget of user u of tenant one: 0.0002 USD a day, asked 0.00017, left 0.00003", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.top = rows[i].top, .tenant = rows[i].tenant};
        begin(&config);
        call_client_says("x-user", "u");
        if (strstr(rows[i].text, "never") == NULL) {
            call_client_ask(&other, CALL_KIT_BODY);
            call_out_reply(call_kit_out(), 200, JSON,
                           "{\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":150,"
                           "\"completion_tokens\":10,\"total_tokens\":160}}");
            call_client_gone(&other, HTTP_DONE);
        }
        call_client_ask(&client, CALL_KIT_BODY);
        expect_in(client.body, rows[i].text);
        assert_int_equal(strstr(client.head, "x-tollgate-reset-at") != NULL, rows[i].dated);
        const struct report_limit *limit = &client.call->notes.limit; /* for log and watch */
        char told[sizeof limit->of + sizeof limit->rule + 20];
        snprintf(told, sizeof told, "budget of %s: %s, asked ", limit->of, limit->rule);
        expect_in(rows[i].text, told);
        call_client_gone(&client, HTTP_DONE);
        call_kit_close();
    }
}

/* A user may have a name of 200 bytes, and a refusal has to hold more than that. */
static void a_refusal_by_money_names_a_user_by_64_bytes(void **state)
{
    const struct call_kit_config config = {
        .tenant = "users: {from: \"header:x-user\", each: {budgets: [{usd: 0.0001, per: day}]}}"};
    char name[201], expected[128];

    (void)state;
    memset(name, 'u', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(expected, sizeof expected, "budget of user %.64s of tenant one: ", name);
    begin(&config);
    call_client_says("x-user", name);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(client.body, expected);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* Not even one token would fit: nothing is suggested. */
static void a_refusal_suggests_nothing_that_does_not_fit(void **state)
{
    static const struct {
        const char *tenant;
        bool fits;
    } rows[] = {{"budgets: [{usd: 0.00015, per: total}]", false},
                {"budgets: [{usd: 0.000151, per: total}]", false},
                {"budgets: [{usd: 0.000152, per: total}]", true}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&(struct call_kit_config){.tenant = rows[i].tenant});
        call_client_ask(&client, CALL_KIT_BODY); /* 150 for its input, and 2 a token */
        assert_int_equal(client.status, 400);
        assert_int_equal(strstr(client.body, "; max_tokens of 1 would fit") != NULL, rows[i].fits);
        if (!rows[i].fits)
            expect_not_in(client.body, "would fit");
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void a_budget_that_others_have_reserved_may_be_asked_again(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.money = REMOTE_SAYS_NO;
    call_kit.money_no = (struct tg_money_answer){.per = TG_PER_DAY, .contended = true};
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.status, 429);
    assert_string_equal(client.reason, "budget_contended");
    expect_in(client.body, "the rest is reserved by calls that are running");
    assert_in_range(field_of(&client, "retry-after-ms"), 1000, 1100);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The remote store says how large the budget is that refused, and for how long, and may not say
 * whose: the name is that of whoever has such a budget. */
static void a_budget_that_the_store_refuses_is_named_by_whose_it_is(void **state)
{
    static const struct {
        enum tg_per per;
        tg_micro amount;
        const char *text;
    } rows[] = {
        {TG_PER_DAY, 70000000, "budget of everyone: 70 USD a day"},
        {TG_PER_DAY, 9000000, "budget of tenant one: 9 USD a day"},
        {TG_PER_WEEK, 5000000, "budget of user u of tenant one: 5 USD a week"},
        {TG_PER_WEEK, 6000000, "budget of tenant one: 6 USD a week"}, /* changed a moment ago */
        {TG_PER_WEEK, 9000000, "budget of user u of tenant one: 9 USD a week"},
        {TG_PER_MONTH, 9000000, "budget of everyone: 9 USD a month"},
    };
    const struct call_kit_config config = {
        .remote = true,
        .top = "budgets: [{usd: 70, per: day}, {usd: 9, per: month}]\n",
        .tenant = "budgets: [{usd: 9, per: day}], users: {from: \"header:x-user\", "
                  "each: {budgets: [{usd: 5, per: week}, {usd: 9, per: week}]}}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_says("x-user", "u");
        call_kit.money = REMOTE_SAYS_NO;
        call_kit.money_no = (struct tg_money_answer){
            .per = rows[i].per, .amount = rows[i].amount, .used = rows[i].amount};
        call_client_ask(&client, CALL_KIT_BODY);
        expect_in(client.body, rows[i].text);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void money_that_cannot_be_reserved_is_explained(void **state)
{
    static const struct {
        enum tg_err err;
        int status;
        const char *text;
    } rows[] = {
        {TG_ERR_UNKNOWN, 401, "this key has been removed"},
        {TG_ERR_STORE, 503, "what calls cost cannot be recorded at the moment"},
    };
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit.money = REMOTE_FAILS;
        call_kit.failure = rows[i].err;
        call_client_ask(&client, CALL_KIT_BODY);
        assert_int_equal(client.status, rows[i].status);
        expect_in(client.body, rows[i].text);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* The gate's own error says whether the store or the gateway failed. */
static void limits_that_cannot_be_checked_are_explained(void **state)
{
    static const struct {
        enum tg_err err;
        const char *reason;
    } rows[] = {{TG_ERR_STORE, "store_unavailable"},
                {TG_ERR_FULL, "store_unavailable"},
                {TG_ERR_MEMORY, "memory_pressure"}};
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit.limits = REMOTE_FAILS;
        call_kit.failure = rows[i].err;
        call_client_ask(&client, CALL_KIT_BODY);
        assert_int_equal(client.status, 503);
        assert_string_equal(client.reason, rows[i].reason);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* A refusal before the first attempt costs nothing at all; what was tried counts as a call. */
static void a_call_that_is_refused_by_its_budget_keeps_no_rate(void **state)
{
    const struct call_kit_config config = {.tenant = "budgets: [{usd: 0.000001, per: total}]"};
    const struct call_kit_config remote = {.remote = true};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit_rate_used(client.call), 0);
    assert_int_equal(call_kit_cost_used(client.call), 0);
    call_client_gone(&client, HTTP_DONE);
    end();
    begin(&remote);
    call_kit.money = REMOTE_SAYS_NO;
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit.limits_refunded, 1);
    assert_int_equal(call_kit.limits_settled, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The same for a client that leaves while the store is asked; one that leaves later has called. */
static void a_client_that_leaves_at_the_store_keeps_no_rate(void **state)
{
    static const struct {
        enum call_state state;
        bool refunded;
    } rows[] = {{CALL_AT_MONEY, true}, {CALL_AT_KEY, true}, {CALL_ASKING, false}};
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_kit.money = rows[i].state == CALL_AT_MONEY ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
        call_kit.key = rows[i].state == CALL_AT_KEY ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
        call_client_ask(&client, CALL_KIT_BODY);
        expect_state(rows[i].state);
        call_client_gone(&client, HTTP_HANGUP);
        assert_int_equal(call_kit.limits_refunded, rows[i].refunded);
        assert_int_equal(call_kit.limits_settled, !rows[i].refunded);
        end();
    }
}

/* A retry asks the store again; leaving there does not undo the attempt that was made. */
static void a_client_that_leaves_at_the_store_during_a_retry_has_called(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit.money = REMOTE_SAYS_LATER;
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_pass(1000);
    expect_state(CALL_AT_MONEY);
    call_client_gone(&client, HTTP_HANGUP);
    assert_int_equal(call_kit.limits_settled, 1);
    assert_int_equal(call_kit.limits_refunded, 0);
    assert_int_equal(call_kit.limits_actual, 0);
    end();
}

/* ---- what is reserved ---- */

static void the_store_is_asked_for_what_was_reserved_here(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.money = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(call_kit.money_asked->call.money, client.call->attempt.bound.input + 2 * 10);
    assert_string_equal(call_kit.money_asked->call.tenant, "one");
    assert_ptr_equal(call_kit.money_asked->terms, &client.call->generation->remote);
    call_kit_answer_money(REMOTE_SAYS_YES);
    assert_int_equal(client.call->notes.reserved, client.call->attempt.bound.input + 2 * 10);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(call_kit.money_settled, CALL_KIT_MICRO);
    assert_int_equal(call_kit.limits_actual, CALL_KIT_USED);
    call_kit_close();
}

/* A call without a bound is reserved as all that its model can write, and sent as it is. */
static void an_unbounded_call_is_reserved_in_full(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 1000",
                                           .tenant = "budgets: [{usd: 0.003, per: total}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, UNBOUNDED);
    expect_state(CALL_ASKING);
    assert_string_equal(call_kit_out()->body, UNBOUNDED);
    assert_int_equal(client.call->notes.reserved, client.call->attempt.bound.input + 2 * 1000);
    call_client_ask(&other, UNBOUNDED); /* there is no room for two of them */
    assert_string_equal(other.reason, "budget_contended");
    call_client_gone(&other, HTTP_DONE);
    call_out_reply(call_kit_out(), 200, JSON, BIG_REPLY);
    assert_int_equal(client.call->spent, BIG_MICRO);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What the model writes at most is not known, and there is a budget to keep: 400. Without one, or
 * where nothing costs anything, an estimate will do. */
static void what_cannot_be_bounded_is_refused_under_a_budget(void **state)
{
    static const struct {
        const char *tenant;
        const char *price;
        bool served;
    } rows[] = {
        {"budgets: [{usd: 100, per: total}]", "price: {output: 1}", false},
        {"budgets: [{usd: 100, per: total}]", "price: {}", true},
        {"budgets: [{usd: 100, per: total, reserve: expected}]", "price: {output: 1}", true},
        {"budgets: [{usd: 100, per: total, mode: shadow}]", "price: {output: 1}", true},
        {"priority: normal", "price: {output: 1}", true},
    };
    char model[100];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.models = model, .tenant = rows[i].tenant};
        snprintf(model, sizeof model, "  third: {provider: p, %s}\n", rows[i].price);
        begin(&config);
        call_client_ask(&client, "{\"model\":\"third\",\"messages\":[]}");
        expect_state(rows[i].served ? CALL_ASKING : CALL_OVER);
        if (!rows[i].served) {
            assert_int_equal(client.status, 400);
            expect_in(client.body, "max_tokens");
        }
        call_client_gone(&client, HTTP_HANGUP);
        call_kit_close();
    }
}

/* The number after a text in the reply. */
static int64_t number_after(const char *text)
{
    const char *at = strstr(client.body, text);

    return at != NULL ? strtoll(at + strlen(text), NULL, 10) : -1;
}

/* Whatever is told to fit does: in an untouched budget, and in one that has been spent in part. */
static void a_refusal_says_which_max_tokens_would_fit(void **state)
{
    static const char format[] = "{\"model\":\"first\",\"n\":%d,\"max_tokens\":%lld,"
                                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    const struct call_kit_config config = {.first = "max_output_tokens: 100000",
                                           .tenant = "budgets: [{usd: 0.003, per: day}]"};
    char body[300];

    (void)state;
    for (int n = 1; n <= 3; n += 2)
        for (int spent = 0; spent < 2; spent++) {
            begin(&config);
            if (spent) {
                call_client_ask(&client, CALL_KIT_BODY);
                reply_and_end(200, JSON, BIG_REPLY);
            }
            snprintf(body, sizeof body, format, n, spent ? 1400LL / n : 5000LL);
            call_client_ask(&client, body);
            assert_int_equal(client.status, spent ? 402 : 400);
            assert_string_equal(client.reason, spent ? "budget" : "request_exceeds_limit");
            expect_in(client.body, "budget of tenant one: 0.003 USD a day, asked ");
            expect_in(client.body, spent ? ", left 0.0028" : ", left 0.003");
            int64_t fits = number_after("max_tokens of ");
            assert_true(fits > 100);
            call_client_gone(&client, HTTP_DONE);
            snprintf(body, sizeof body, format, n, (long long)fits + 1);
            call_client_ask(&client, body);
            assert_int_equal(client.call->attempts, 0);
            call_client_gone(&client, HTTP_DONE);
            snprintf(body, sizeof body, format, n, (long long)fits);
            call_client_ask(&client, body);
            expect_state(CALL_ASKING);
            reply_and_end(200, JSON, CALL_KIT_REPLY);
            call_kit_close();
        }
}

/* A turn of a conversation that the provider has counted before is reserved with its count, and
 * not by its bytes; a reply that did not say does not help. */
static void a_conversation_is_reserved_with_what_was_counted_of_it(void **state)
{
    static char body[24000], text[10001];
    const struct call_kit_config config = {.first = "context: 128000"};
    tg_micro reserved[3];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    begin(&config);
    for (int turn = 0; turn < 3; turn++) {
        snprintf(body, sizeof body,
                 "{\"model\":\"first\",\"max_tokens\":10,\"messages\":[{\"role\":\"user\","
                 "\"content\":\"%s\"}%s]}",
                 text,
                 turn < 2 ? ""
                          : ",{\"role\":\"assistant\",\"content\":\"b\"},{\"role\":\"user\","
                            "\"content\":\"c\"}");
        call_client_ask(&client, body);
        reserved[turn] = client.call->notes.reserved;
        reply_and_end(200, JSON,
                      turn == 0 ? "{\"choices\":[]}"
                                : "{\"choices\":[],\"usage\":{\"prompt_tokens\":1260,"
                                  "\"completion_tokens\":3}}");
    }
    assert_true(reserved[0] > 10000 && reserved[1] == reserved[0]);
    assert_true(reserved[2] > 1260 && reserved[2] < 2000);
    call_kit_close();
}

/* A count of the output alone says nothing of the prompt. */
static void an_estimate_of_input_is_not_remembered(void **state)
{
    static char body[24000], text[10001];
    const struct call_kit_config config = {.first = "context: 128000"};

    (void)state;
    memset(text, 'a', sizeof text - 1);
    begin(&config);
    snprintf(body, sizeof body,
             "{\"model\":\"first\",\"max_tokens\":10,\"messages\":[{\"role\":\"user\","
             "\"content\":\"%s\"}]}",
             text);
    for (int turn = 0; turn < 2; turn++) {
        call_client_ask(&client, body);
        assert_true(client.call->notes.reserved > 10000);
        reply_and_end(200, JSON, "{\"choices\":[],\"usage\":{\"completion_tokens\":3}}");
    }
    call_kit_close();
}

/* What this gateway has seen of an earlier response is reserved for it, and not the context. */
static void an_earlier_response_is_reserved_with_what_was_counted_of_it(void **state)
{
    static const char *const replies[][2] = {
        {JSON, "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"output\":[],"
               "\"usage\":{\"input_tokens\":50,\"output_tokens\":10}}"},
        {"text/event-stream",
         "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n"
         "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\","
         "\"usage\":{\"input_tokens\":50,\"output_tokens\":10}}}\n\n"},
    };
    const struct call_kit_config config = {.first = "context: 128000"};
    char body[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        begin(&config);
        for (int turn = 0; turn < 2; turn++) {
            snprintf(body, sizeof body,
                     "{\"model\":\"first\",\"max_output_tokens\":10,\"input\":\"a\"%s%s}",
                     i == 1 ? ",\"stream\":true" : "",
                     turn == 1 ? ",\"previous_response_id\":\"resp_1\"" : "");
            call_client_ask_at(&client, "/v1/responses", body);
            assert_in_range(client.call->notes.reserved, 100, turn == 0 ? 200 : 300);
            reply_and_end(200, replies[i][0], replies[i][1]);
        }
        /* Nothing is known of another one. */
        call_client_ask_at(&client, "/v1/responses",
                           "{\"model\":\"first\",\"max_output_tokens\":10,\"input\":\"a\","
                           "\"previous_response_id\":\"resp_2\"}");
        if (client.call != NULL) {
            assert_true(client.call->notes.reserved > 100000);
            reply_and_end(200, replies[i][0], replies[i][1]);
        }
        call_kit_close();
    }
}

/* Attack 2: each prompt of an array is an answer. */
static void attack_2_an_array_of_prompts_is_reserved_as_many_answers(void **state)
{
    const struct call_kit_config config = {.first = "max_output_tokens: 4096",
                                           .tenant = "budgets: [{usd: 1, per: day}]"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/completions",
                       "{\"model\":\"first\",\"max_tokens\":1000,"
                       "\"prompt\":[\"a\",\"b\",\"c\",\"d\"]}");
    assert_true(client.call->notes.reserved >= 2 * 4 * 1000);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* Attack 3: what is not in the body is reserved as the context, a bound of 0 as none. */
static void attack_3_input_that_is_not_in_the_body_is_reserved_as_the_context(void **state)
{
    static const struct {
        const char *target, *body;
        tg_micro least;
    } rows[] = {
        {"/v1/responses",
         "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":16,"
         "\"previous_response_id\":\"r\"}",
         200000},
        {"/v1/responses",
         "{\"model\":\"first\",\"input\":\"hi\",\"max_output_tokens\":16,"
         "\"conversation\":\"c\"}",
         200000},
        {"/v1/responses",
         "{\"model\":\"first\",\"max_output_tokens\":16,\"input\":[{\"role\":\"user\","
         "\"content\":[{\"type\":\"input_file\",\"file_id\":\"f\"}]}]}",
         200000},
        {"/v1/chat/completions",
         "{\"model\":\"first\",\"max_tokens\":0,\"messages\":[{\"role\":\"user\","
         "\"content\":\"hi\"}]}",
         2 * 4096},
    };
    const struct call_kit_config config = {.first = "context: 200000, max_output_tokens: 4096",
                                           .tenant = "budgets: [{usd: 1, per: day}]"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask_at(&client, rows[i].target, rows[i].body);
        expect_state(CALL_ASKING);
        assert_true(client.call->notes.reserved >= rows[i].least);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

/* What tollgate_budget_overdraft_usd_total counts. */
static tg_micro overdrafts(void)
{
    struct tg_bank_stats stats;

    tg_bank_get_stats(spending_bank(call_kit.gateway->spending), &stats);
    assert_int_equal(stats.overshoots, stats.overshot > 0);
    return stats.overshot;
}

/* Where all budgets say `expected`, calls reserve their bound until 16 have ended, and then what 95
 * of 100 of them cost; what one costs above that is charged and counted. A single `bound` among
 * them keeps the bound. */
static void what_calls_cost_is_reserved_where_all_budgets_say_so(void **state)
{
#define SAYS(word) "budgets: [{usd: 100, per: total, reserve: " word "}]"
#define USERS(word) ", users: {from: \"header:x-user\", each: {" SAYS(word) "}}"
    static const struct {
        const char *top, *tenant;
        bool expected;
    } rows[] = {
        {NULL, SAYS("expected"), true},
        {SAYS("expected") "\n", SAYS("expected") USERS("expected"), true},
        {SAYS("expected") "\n", "priority: normal", true},
        {NULL, SAYS("bound"), false},
        {SAYS("bound") "\n", SAYS("expected"), false},
        {NULL, SAYS("expected") USERS("bound"), false},
        {NULL, "budgets: [{usd: 9, per: day, reserve: expected}, {usd: 99, per: total}]", false},
    };
    enum { CALLS = 16 };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct call_kit_config config = {.top = rows[i].top, .tenant = rows[i].tenant};
        begin(&config);
        for (int n = 0; n < CALLS; n++) {
            call_client_ask(&client, CALL_KIT_BODY);
            assert_int_equal(client.call->notes.reserved, client.call->attempt.most);
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        }
        assert_int_equal(overdrafts(), 0);
        call_kit_reload(&config); /* what was learned stays */
        call_client_ask(&client, CALL_KIT_BODY);
        tg_micro most = client.call->attempt.most, reserved = client.call->notes.reserved;
        if (!rows[i].expected) {
            assert_int_equal(reserved, most);
            reply_and_end(200, JSON, CALL_KIT_REPLY);
            assert_int_equal(overdrafts(), 0);
        } else {
            assert_true(reserved >= CALL_KIT_MICRO && reserved < most);
            assert_true(reserved <= CALL_KIT_MICRO + most / 1000 + 1);
            assert_true(reserved < BIG_MICRO);
            reply_and_end(200, JSON, BIG_REPLY);
            assert_int_equal(overdrafts(), BIG_MICRO - reserved);
        }
        assert_int_equal(call_kit_money_settled(),
                         CALLS * CALL_KIT_MICRO +
                             (rows[i].expected ? BIG_MICRO : CALL_KIT_MICRO));
        call_kit_close();
    }
#undef USERS
#undef SAYS
}

/* An attempt that failed has cost nothing, or nobody knows what: it says nothing of those that are
 * answered. */
static void what_failed_says_nothing_of_what_calls_cost(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 0", .tenant = "budgets: [{usd: 100, per: total, reserve: expected}]"};

    (void)state;
    begin(&config);
    for (int n = 0; n < 45; n++) { /* every third is answered: 15 */
        call_client_ask(&client, CALL_KIT_BODY);
        assert_int_equal(client.call->notes.reserved, client.call->attempt.most);
        if (n % 3 == 0) {
            reply_and_end(200, JSON, CALL_KIT_REPLY);
        } else if (n % 3 == 1) {
            reply_and_end(400, JSON, "{\"error\":{\"message\":\"no\"}}");
        } else {
            call_kit_out()->out.sent = true;
            call_out_fail(call_kit_out(), HTTP_RESET);
            call_client_gone(&client, HTTP_DONE);
            call_kit_expect_released(&client);
        }
        call_kit_pass(60000); /* the breaker has closed */
    }
    call_client_ask(&client, CALL_KIT_BODY); /* the 16th */
    assert_int_equal(client.call->notes.reserved, client.call->attempt.most);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_true(client.call->notes.reserved < client.call->attempt.most);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What is told to fit does, by what is expected. */
static void a_refusal_of_what_is_expected_says_what_fits(void **state)
{
    static const char format[] = "{\"model\":\"first\",\"max_tokens\":%lld,"
                                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";
    const struct call_kit_config config = {
        .first = "max_output_tokens: 1000000",
        .tenant = "budgets: [{usd: 0.02, per: day, reserve: expected}]"};
    char body[300];

    (void)state;
    begin(&config);
    for (int n = 0; n < 16; n++) {
        snprintf(body, sizeof body, format, 1000LL);
        call_client_ask(&client, body);
        reply_and_end(200, JSON, BIG_REPLY);
    }
    snprintf(body, sizeof body, format, 500000LL);
    call_client_ask(&client, body);
    assert_int_equal(client.status, 400);
    expect_in(client.body, "which this call can never fit into");
    int64_t fits = number_after("max_tokens of ");
    call_client_gone(&client, HTTP_DONE);
    assert_true(2 * fits > 20000); /* more than the budget would hold by the bound */
    snprintf(body, sizeof body, format, (long long)fits + 1);
    call_client_ask(&client, body);
    assert_string_equal(client.reason, "request_exceeds_limit");
    call_client_gone(&client, HTTP_DONE);
    snprintf(body, sizeof body, format, (long long)fits);
    call_client_ask(&client, body);
    assert_string_equal(client.reason, "budget"); /* no longer: some of it is spent */
    fits = number_after("max_tokens of ");
    call_client_gone(&client, HTTP_DONE);
    snprintf(body, sizeof body, format, (long long)fits);
    call_client_ask(&client, body);
    expect_state(CALL_ASKING);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What a rule allows and nothing prices costs what it costs without it, under a budget, too. */
static void what_a_rule_allows_needs_no_factor(void **state)
{
    static const char *const fields[] = {"service_tier", "speed", "inference_geo"};
    char first[200], body[300];
    tg_micro plain;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct call_kit_config config = {.first = first};
        snprintf(first, sizeof first, "rules: [{field: %s, allow: [\"\", swift]}]", fields[i]);
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        plain = client.call->notes.reserved;
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        snprintf(body, sizeof body, "{\"%s\":\"swift\",%s", fields[i], &CALL_KIT_BODY[1]);
        call_client_ask(&client, body);
        expect_state(CALL_ASKING);
        assert_int_equal(client.call->notes.reserved, plain);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
        call_kit_close();
    }
}

/* A passthrough has its price a call, and cannot do with less. */
static void a_passthrough_that_is_refused_does_not_ask_again(void **state)
{
    const struct call_kit_config config = {
        .remote = true,
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    begin(&config);
    call_kit.money = REMOTE_SAYS_LATER;
    call_client_ask_at(&client, "/v1/audio", "{}");
    assert_int_equal(call_kit.money_asked->call.money, 33);
    assert_false(call_kit.money_asked->call.up_to);
    call_kit_answer_money(REMOTE_SAYS_NO);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "budget");
    assert_null(call_kit.money_asked);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A budget in shadow refuses nothing, but says that it would have. */
static void a_budget_in_shadow_is_counted(void **state)
{
    const struct call_kit_config local = {
        .tenant = "budgets: [{usd: 0.000001, per: total, mode: shadow}]"};
    const struct call_kit_config remote = {.remote = true};

    (void)state;
    for (int at_store = 0; at_store < 2; at_store++) {
        begin(at_store ? &remote : &local);
        call_kit.money_no.would_deny = 1;
        call_client_ask(&client, CALL_KIT_BODY);
        expect_state(CALL_ASKING);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        call_client_gone(&client, HTTP_DONE);
        call_kit_expect_metric(
            "tollgate_shadow_denied_total{tenant=\"one\",reason=\"budget\"} 1");
        end();
    }
}

/* ---- less ---- */

/* A call that we have bounded by what was known here of the budget of all gateways. Meanwhile
 * another one has cost more than it had reserved, and the store says no. */
static void bound_and_refuse(tg_ms waited, const char *reply)
{
    static const struct call_kit_config config = {
        .remote = true,
        .first = "max_output_tokens: 150, on_unbounded: clamp",
        .tenant = "budgets: [{usd: 0.000630, per: total}]"};

    begin(&config);
    call_client_ask(&other, CALL_KIT_BODY);
    call_kit.money = REMOTE_SAYS_LATER;
    call_client_ask(&client, UNBOUNDED);
    assert_int_equal(call_kit.money_asked->call.money, client.call->attempt.bound.input + 2 * 150);
    call_out_reply(call_kit_out(), 200, JSON, reply);
    call_kit_pass(waited);
    call_kit_answer_money(REMOTE_SAYS_NO);
}

static void a_call_does_with_less_than_it_asked_for(void **state)
{
    (void)state;
    bound_and_refuse(200, BIG_REPLY);
    expect_state(CALL_AT_MONEY);
    int64_t most = (630 - BIG_MICRO - client.call->attempt.bound.input) / 2;
    assert_int_equal(call_kit.money_asked->call.money, client.call->attempt.bound.input + 2 * most);
    call_kit_answer_money(REMOTE_SAYS_YES);
    expect_state(CALL_ASKING);
    char bound[60];
    snprintf(bound, sizeof bound, "\"max_tokens\":%d,", (int)most);
    expect_in(call_kit_out()->body, bound);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_DONE);
    end();
}

static void a_call_asks_for_less_once(void **state)
{
    (void)state;
    bound_and_refuse(0, BIG_REPLY);
    expect_state(CALL_AT_MONEY);
    call_kit_answer_money(REMOTE_SAYS_NO);
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "budget");
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_DONE);
    end();
}

/* Both waits together take no longer than one for limits and one for money may. */
static void a_call_that_has_waited_long_does_not_ask_again(void **state)
{
    (void)state;
    bound_and_refuse(201, BIG_REPLY);
    expect_state(CALL_OVER);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_DONE);
    end();
}

/* Less than one token would fit: there is nothing to ask for. */
static void a_call_that_can_do_with_nothing_does_not_ask_again(void **state)
{
    (void)state;
    bound_and_refuse(0, "{\"choices\":[],\"usage\":{\"prompt_tokens\":600,"
                        "\"completion_tokens\":1,\"total_tokens\":601}}");
    expect_state(CALL_OVER);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_DONE);
    end();
}

/* What the client has bounded itself is not made shorter, nor is what is affordable as it is. */
static void a_bound_of_the_client_is_not_made_shorter(void **state)
{
    const struct call_kit_config config = {.remote = true};
    static const char *const bodies[] = {CALL_KIT_BODY, UNBOUNDED};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        begin(&config);
        call_kit.money = REMOTE_SAYS_LATER;
        call_client_ask(&client, bodies[i]);
        call_kit_answer_money(REMOTE_SAYS_NO);
        expect_state(CALL_OVER);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* ---- keys at the store ---- */

/* What is left for the key of the time that limits and money may take, 200 and 160 ms. */
static void a_key_is_waited_for_as_long_as_there_is_time(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.limits = call_kit.money = call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(3);
    call_kit_answer_limits(REMOTE_SAYS_YES);
    call_kit_pass(4);
    call_kit_answer_money(REMOTE_SAYS_YES);
    assert_int_equal(call_kit.patience, 200 + 160 - 3 - 4);
    call_kit_pass(5);
    call_kit_answer_key(REMOTE_SAYS_NO); /* and another key: */
    assert_int_equal(call_kit.patience, 200 + 160 - 3 - 4 - 5);
    call_kit_answer_key(REMOTE_SAYS_YES);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_pass(call_kit.last_timer); /* a new attempt has its whole time */
    call_kit_answer_money(REMOTE_SAYS_YES);
    assert_int_equal(call_kit.patience, 200 + 160);
    call_client_gone(&client, HTTP_HANGUP);
    end();
}

/* Two answers that were late are what a call waits for at most. */
static void a_call_whose_store_was_late_takes_its_own_key(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    for (int which = 0; which < 3; which++) {
        begin(&config);
        call_kit.limits = call_kit.money = call_kit.key = REMOTE_SAYS_LATER;
        call_client_ask(&client, CALL_KIT_BODY);
        if (which == 1)
            call_kit.limits_asked->mode = REMOTE_LOCAL;
        call_kit_answer_limits(REMOTE_SAYS_YES);
        call_kit.money_asked->away = which == 2;
        call_kit_answer_money(REMOTE_SAYS_YES);
        expect_state(which == 0 ? CALL_AT_KEY : CALL_ASKING);
        assert_int_equal(call_kit.key_asked != NULL, which == 0);
        call_client_gone(&client, HTTP_HANGUP);
        end();
    }
}

static void other_gateways_may_take_eight_keys_away(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.key = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    for (int i = 0; i < 8; i++) {
        expect_state(CALL_AT_KEY);
        call_kit_pass(1001); /* the other key has room again, as far as is known */
        call_kit_answer_key(REMOTE_SAYS_NO);
    }
    expect_state(CALL_OVER);
    assert_string_equal(client.reason, "no_key");
    assert_int_equal(client.status, 503);
    assert_int_equal(call_kit.limits_refunded, 1);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void a_key_that_nobody_knows_of_is_explained(void **state)
{
    const struct call_kit_config config = {.remote = true};

    (void)state;
    begin(&config);
    call_kit.key = REMOTE_FAILS;
    call_client_ask(&client, CALL_KIT_BODY);
    expect_in(client.body, "how much the gateways use the provider's keys is not known");
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* ---- no key ---- */

/* Tokens of a key's window; -1: the key is not among those of the model. */
static int64_t tokens_left(size_t nth)
{
    struct tg_key_metrics keys[2];

    tg_pool_get_keys(gateway_newest(call_kit.gateway)->routes[0].pool, call_kit.now, 0, keys, 2);
    return keys[nth].tpm_remaining;
}

static void keys_are_asked_for_the_tokens_of_the_call(void **state)
{
    const struct call_kit_config config = {.key = "tpm: 100", .first = "overbook: {start: 2.0}"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t asked = client.call->attempt.prompt + 10;
    assert_int_equal(client.call->attempt.tokens, 2 * asked);
    assert_int_equal(tokens_left(0) + tokens_left(1), 200 - 2 * asked);
    assert_int_equal(client.call->gate_call.debit.cost, asked);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(tokens_left(0) + tokens_left(1), 200 - CALL_KIT_USED);
    call_kit_close();
}

/* A provider that counts what is asked for does so whatever was learned, and gives nothing back. */
static void a_provider_may_count_what_is_asked_for(void **state)
{
    const struct call_kit_config config = {.key = "tpm: 100",
                                           .first = "overbook: {start: 2.0}, tpm_counts: asked"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t asked = client.call->attempt.prompt + 10;
    assert_int_equal(tokens_left(0) + tokens_left(1), 200 - asked);
    assert_true(CALL_KIT_USED < asked);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(tokens_left(0) + tokens_left(1), 200 - asked);
    call_kit_close();
}

/* No key can ever serve it, and no other model is asked: the client has to ask for less. */
static void a_call_that_is_larger_than_every_key_is_refused(void **state)
{
    const struct call_kit_config config = {.key = "tpm: 10", .first = "fallback: [second]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.status, 400);
    assert_string_equal(client.reason, "request_exceeds_limit");
    assert_int_equal(call_kit_rate_used(client.call), 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The client is told when a key can serve it, for which none has been tried: with or without a
 * retry, and looking does not use anything up. */
static void a_client_is_told_when_keys_have_rested(void **state)
{
    static const char *const firsts[] = {"retries: 0", "retries: 1", "retries: 2"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        const struct call_kit_config config = {.first = firsts[i], .key = "rpm: 10"};
        begin(&config);
        call_out_says("retry-after", "20");
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(1);
        if (call_kit.n_outs == 2) {
            call_out_reply(call_kit_out(), 429, JSON, "{}");
            call_kit_pass(1);
        }
        expect_state(CALL_OVER);
        assert_int_equal(client.status, 429);
        if (call_kit.n_outs == 2)
            assert_in_range(field_of(&client, "retry-after-ms"), 19990, 22000);
        else
            assert_int_equal(field_of(&client, "retry-after-ms"), -1); /* another key is free */
        struct tg_key_metrics keys[2];
        tg_pool_get_keys(gateway_newest(call_kit.gateway)->routes[0].pool, call_kit.now, 0, keys,
                         2);
        assert_int_equal(keys[0].rpm_remaining + keys[1].rpm_remaining,
                         20 - (int)call_kit.n_outs);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* With no retry left that helps, the client is told what the last attempt met. */
static void the_last_failure_is_told_when_no_key_is_left(void **state)
{
    const struct call_kit_config config = {.key = "rpm: 1", .first = "retries: 5"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    for (int i = 0; i < 2; i++) { /* two keys, and each may be asked once */
        call_kit_out()->out.sent = true;
        call_out_fail(call_kit_out(), HTTP_LATE_FIRST_BYTE);
        call_kit_pass(call_kit.last_timer);
    }
    expect_state(CALL_OVER);
    assert_int_equal(call_kit.n_outs, 2);
    assert_int_equal(client.status, 504);
    assert_string_equal(client.reason, "upstream_timeout");
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The other key is in use: what the first one met is told, or how long it rests. */
static void one_key_that_was_tried_is_told_like_all(void **state)
{
    static const struct {
        int status; /* 0: a timeout */
        int told;
        const char *reason;
    } rows[] = {{0, 504, "upstream_timeout"},
                {401, 502, "upstream_credentials"},
                {429, 503, "no_key"}};
    const struct call_kit_config config = {.key = "concurrency: 1",
                                           .first = "breaker: {failures: 1}"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&other, CALL_KIT_BODY);
        call_client_ask(&client, CALL_KIT_BODY);
        if (rows[i].status != 0)
            call_out_reply(call_kit_out(), rows[i].status, JSON, "{}");
        else
            call_out_fail(call_kit_out(), HTTP_LATE_FIRST_BYTE);
        call_kit_pass(call_kit.last_timer);
        expect_state(CALL_OVER);
        assert_int_equal(client.status, rows[i].told);
        assert_string_equal(client.reason, rows[i].reason);
        call_client_gone(&client, HTTP_DONE);
        call_client_gone(&other, HTTP_HANGUP);
        end();
    }
}

/* ... unless the provider has limited all keys meanwhile, which is worth waiting for. */
static void keys_that_all_rest_are_told_before_the_last_failure(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    struct call_out *slow = call_kit_out();
    call_out_says("retry-after", "20");
    call_client_ask(&other, CALL_KIT_BODY);
    for (int i = 0; i < 2; i++) {
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(1);
    }
    assert_int_equal(other.status, 429);
    call_out_fail(slow, HTTP_LATE_FIRST_BYTE);
    call_kit_pass(1);
    expect_state(CALL_OVER);
    assert_int_equal(client.status, 429);
    assert_string_equal(client.reason, "no_key");
    assert_in_range(field_of(&client, "retry-after-ms"), 19900, 22000);
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_DONE);
    end();
}

/* Without any attempt, a client is told when a window has room. */
static void a_client_is_told_when_a_window_has_room(void **state)
{
    const struct call_kit_config config = {.key = "rpm: 1"};

    (void)state;
    begin(&config);
    for (int i = 0; i < 2; i++) {
        call_client_ask(&client, CALL_KIT_BODY);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.status, 503);
    assert_string_equal(client.reason, "no_key");
    assert_in_range(field_of(&client, "retry-after-ms"), 50000, 61000);
    struct tg_pool_metrics pool;
    tg_pool_get_metrics(gateway_newest(call_kit.gateway)->routes[0].pool, &pool);
    assert_int_equal(pool.no_key, 1); /* the keys were asked once */
    assert_int_equal(pool.acquired, 2);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A budget of the smallest amount there is can be what a call can never fit into, and one in shadow
 * cannot. */
static void only_budgets_that_refuse_say_what_never_fits(void **state)
{
    static const struct {
        const char *budgets, *reason;
    } rows[] = {
        {"{usd: 0.000001, per: day}", "request_exceeds_limit"},
        {"{usd: 0, per: day}", "budget"},
        {"{usd: 0.0001, per: week, mode: shadow}, {usd: 0, per: day}", "budget"},
    };
    char tenant[200];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(tenant, sizeof tenant, "budgets: [%s]", rows[i].budgets);
        begin(&(struct call_kit_config){.tenant = tenant});
        call_client_ask(&client, CALL_KIT_BODY);
        assert_string_equal(client.reason, rows[i].reason);
        assert_int_equal(strstr(client.body, "never fit") != NULL,
                         strcmp(rows[i].reason, "budget") != 0);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* What no budget in shadow would have refused is not counted. */
static void what_a_shadow_allows_is_not_counted(void **state)
{
    const struct call_kit_config config = {
        .tenant = "budgets: [{usd: 9, per: total, mode: shadow}]"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_int_equal(client.call->notes.would_deny, 0);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_kit_close();
}

/* What only looks, deletes or cancels costs nothing, whatever a call of the path costs. */
static void only_what_starts_work_has_the_price_of_its_path(void **state)
{
    static const struct {
        const char *method, *path;
        tg_micro asked;
    } rows[] = {
        {"POST", "/v1/jobs/a", 33},
        {"PUT", "/v1/jobs/a", 33},
        {"GET", "/v1/jobs/a", 0},
        {"HEAD", "/v1/jobs/a", 0},
        {"DELETE", "/v1/jobs/a", 0},
        {"OPTIONS", "/v1/jobs/a", 0},
        {"POST", "/v1/jobs/cancel", 0},
        {"POST", "/v1/jobs/cancel/x", 33},
    };
    const struct call_kit_config config = {
        .top = "passthrough: [{path: \"/v1/jobs/*\", provider: p, per_call: 0.000033}]\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_begin_at(&client, rows[i].method, rows[i].path, 0);
        call_client_end(&client);
        expect_state(CALL_ASKING);
        assert_int_equal(client.call->attempt.asked, rows[i].asked);
        reply_and_end(200, JSON, "{}");
        call_kit_close();
    }
}

/* What this gateway's own books refuse, the store is not asked for. */
static void what_is_refused_here_is_not_asked_elsewhere(void **state)
{
    const struct call_kit_config config = {.remote = true,
                                           .tenant = "budgets: [{usd: 0.0001, per: total}]"};

    (void)state;
    begin(&config);
    call_kit.money = REMOTE_SAYS_LATER;
    call_client_ask(&client, CALL_KIT_BODY);
    assert_null(call_kit.money_asked);
    assert_int_equal(client.status, 400);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The client is told of the key that will have rested first. */
static void a_client_is_told_of_the_key_that_rests_least(void **state)
{
    static const char *const rests[][2] = {{"20", "40"}, {"40", "20"}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rests); i++) {
        begin(&(struct call_kit_config){.first = "retries: 1"});
        call_out_says("retry-after", rests[i][0]);
        call_client_ask(&client, CALL_KIT_BODY);
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        call_kit_pass(1);
        call_kit.n_reply = 0;
        call_out_says("retry-after", rests[i][1]);
        call_out_reply(call_kit_out(), 429, JSON, "{}");
        assert_int_equal(client.status, 429);
        assert_in_range(field_of(&client, "retry-after-ms"), 19990, 22000);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* A call that never fits is told so, though others hold what is left. */
static void what_never_fits_need_not_ask_again(void **state)
{
    begin(&(struct call_kit_config){.tenant = "budgets: [{usd: 0.00018, per: day}]"});

    (void)state;
    call_client_ask(&other, CALL_KIT_BODY); /* 170 of 180 are reserved */
    call_client_ask(&client, "{\"model\":\"first\",\"max_tokens\":40,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(client.status, 400);
    assert_string_equal(client.reason, "request_exceeds_limit");
    expect_in(client.body, "which this call can never fit into; max_tokens of 15 would fit");
    assert_int_equal(field_of(&client, "retry-after-ms"), -1);
    expect_not_in(client.head, "x-tollgate-reset-at");
    call_client_gone(&client, HTTP_DONE);
    call_client_gone(&other, HTTP_HANGUP);
    call_kit_close();
}

/* A key whose provider counts what was asked for is told what was used, if that is more. */
static void a_key_that_counts_what_is_asked_for_is_told_of_more(void **state)
{
    const struct call_kit_config config = {.key = "tpm: 1000", .first = "tpm_counts: asked"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    int64_t asked = client.call->attempt.tokens;
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_true(CALL_KIT_USED < asked);
    assert_int_equal(call_kit.report.tokens, -1);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, BIG_REPLY);
    assert_int_equal(call_kit.report.tokens, 150);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_that_is_spent_says_until_when),
        cmocka_unit_test(a_refusal_by_money_names_whose_budget_it_is),
        cmocka_unit_test(a_refusal_by_money_names_a_user_by_64_bytes),
        cmocka_unit_test(a_refusal_suggests_nothing_that_does_not_fit),
        cmocka_unit_test(a_budget_that_others_have_reserved_may_be_asked_again),
        cmocka_unit_test(a_budget_that_the_store_refuses_is_named_by_whose_it_is),
        cmocka_unit_test(money_that_cannot_be_reserved_is_explained),
        cmocka_unit_test(limits_that_cannot_be_checked_are_explained),
        cmocka_unit_test(a_call_that_is_refused_by_its_budget_keeps_no_rate),
        cmocka_unit_test(a_client_that_leaves_at_the_store_keeps_no_rate),
        cmocka_unit_test(a_client_that_leaves_at_the_store_during_a_retry_has_called),
        cmocka_unit_test(the_store_is_asked_for_what_was_reserved_here),
        cmocka_unit_test(an_unbounded_call_is_reserved_in_full),
        cmocka_unit_test(what_cannot_be_bounded_is_refused_under_a_budget),
        cmocka_unit_test(a_refusal_says_which_max_tokens_would_fit),
        cmocka_unit_test(a_conversation_is_reserved_with_what_was_counted_of_it),
        cmocka_unit_test(an_estimate_of_input_is_not_remembered),
        cmocka_unit_test(an_earlier_response_is_reserved_with_what_was_counted_of_it),
        cmocka_unit_test(attack_2_an_array_of_prompts_is_reserved_as_many_answers),
        cmocka_unit_test(attack_3_input_that_is_not_in_the_body_is_reserved_as_the_context),
        cmocka_unit_test(what_calls_cost_is_reserved_where_all_budgets_say_so),
        cmocka_unit_test(what_failed_says_nothing_of_what_calls_cost),
        cmocka_unit_test(a_refusal_of_what_is_expected_says_what_fits),
        cmocka_unit_test(what_a_rule_allows_needs_no_factor),
        cmocka_unit_test(a_passthrough_that_is_refused_does_not_ask_again),
        cmocka_unit_test(a_budget_in_shadow_is_counted),
        cmocka_unit_test(a_call_does_with_less_than_it_asked_for),
        cmocka_unit_test(a_call_asks_for_less_once),
        cmocka_unit_test(a_call_that_has_waited_long_does_not_ask_again),
        cmocka_unit_test(a_call_that_can_do_with_nothing_does_not_ask_again),
        cmocka_unit_test(a_bound_of_the_client_is_not_made_shorter),
        cmocka_unit_test(a_key_is_waited_for_as_long_as_there_is_time),
        cmocka_unit_test(a_call_whose_store_was_late_takes_its_own_key),
        cmocka_unit_test(other_gateways_may_take_eight_keys_away),
        cmocka_unit_test(a_key_that_nobody_knows_of_is_explained),
        cmocka_unit_test(keys_are_asked_for_the_tokens_of_the_call),
        cmocka_unit_test(a_provider_may_count_what_is_asked_for),
        cmocka_unit_test(a_call_that_is_larger_than_every_key_is_refused),
        cmocka_unit_test(a_client_is_told_when_keys_have_rested),
        cmocka_unit_test(the_last_failure_is_told_when_no_key_is_left),
        cmocka_unit_test(one_key_that_was_tried_is_told_like_all),
        cmocka_unit_test(keys_that_all_rest_are_told_before_the_last_failure),
        cmocka_unit_test(a_client_is_told_when_a_window_has_room),
        cmocka_unit_test(only_budgets_that_refuse_say_what_never_fits),
        cmocka_unit_test(what_a_shadow_allows_is_not_counted),
        cmocka_unit_test(only_what_starts_work_has_the_price_of_its_path),
        cmocka_unit_test(what_is_refused_here_is_not_asked_elsewhere),
        cmocka_unit_test(a_client_is_told_of_the_key_that_rests_least),
        cmocka_unit_test(what_never_fits_need_not_ask_again),
        cmocka_unit_test(a_key_that_counts_what_is_asked_for_is_told_of_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
