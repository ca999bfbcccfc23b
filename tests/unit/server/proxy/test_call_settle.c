/* test_call_settle.c - what a call leaves behind: in the ledger, at its key and at its route. */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define USAGE(input, output) \
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":" input ",\"completion_tokens\":" output "}}"

#define A16 "aaaaaaaaaaaaaaaa"
#define A64 A16 A16 A16 A16

static void expect_text(struct ledger_text text, const char *expected)
{
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.size > 0 ? text.bytes : "", expected, text.size);
}

/* ---- the ledger ---- */

static void an_entry_says_who_paid_for_what(void **state)
{
    const struct call_kit_config config = {
        .first = "upstream_model: theirs",
        .tenant = "users: {from: \"header:x-user\"}, budgets: [{usd: 100, per: total}]"};

    (void)state;
    begin(&config);
    call_client_says("x-user", "anna");
    call_client_ask(&client, CALL_KIT_BODY);
    tg_ms reserved_at = call_kit.now;
    call_kit_pass(70);
    const char *key = client.call->last_key->config->name;
    reply_and_end(200, JSON,
                  "{\"choices\":[],\"usage\":{\"prompt_tokens\":15,\"completion_tokens\":3,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":4}}}");
    struct ledger_entry entry = call_kit_entry(1);
    call_kit_expect_entries(1);
    assert_int_equal(entry.reserved_at, reserved_at);
    assert_int_equal(entry.settled_at, reserved_at + 70);
    assert_int_equal(entry.usage.input, 11);
    assert_int_equal(entry.usage.cached_input, 4);
    assert_int_equal(entry.usage.output, 3);
    assert_int_equal(entry.micro, 15 + 2 * 3);
    assert_int_equal(entry.flags, 0);
    expect_text(entry.user, "anna");
    expect_text(entry.model, "first");
    expect_text(entry.provider, "p");
    expect_text(entry.key, key);
    assert_int_equal(client.call->used, 18);
    call_kit_close();
}

/* Every attempt has an entry, and the call costs the sum of what they cost. */
static void a_call_costs_the_sum_of_its_attempts(void **state)
{
    const struct call_kit_config config = {.first = "retries: 1, most_tokens_per_s: 3"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    int64_t prompt = client.call->attempt.prompt;
    call_kit_out()->out.sent = true;
    call_out_fail(call_kit_out(), HTTP_LATE_IDLE); /* it may have run */
    call_kit_pass(call_kit.last_timer);
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    assert_int_equal(client.call->spent, prompt + 2 * 3 + CALL_KIT_MICRO);
    assert_int_equal(client.call->used, prompt + 3 + CALL_KIT_USED);
    assert_int_equal(call_kit_entry(1).micro, prompt + 2 * 3);
    assert_int_equal(call_kit_entry(1).flags, LEDGER_ESTIMATED | LEDGER_UNCERTAIN);
    assert_int_equal(call_kit_entry(2).micro, CALL_KIT_MICRO);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What the ledger has heard of calls that are sent. */
static struct {
    int sent, settled;
    tg_micro micro;
    size_t requests; /* how many had gone out when it last heard of one */
} heard;

static void hear(void *context, const struct spending_event *event)
{
    (void)context;
    heard.settled += event->kind == SPENDING_SETTLED;
    if (event->kind != SPENDING_SENT)
        return;
    heard.sent++;
    heard.micro = event->micro;
    heard.requests = call_kit.n_outs;
}

static void expect_heard(int sent, int settled)
{
    assert_int_equal(heard.sent, sent);
    assert_int_equal(heard.settled, settled);
    assert_int_equal(heard.micro, client.call->attempt.reserved);
    assert_int_equal(heard.requests, call_kit.n_outs - 1);
}

/* The ledger knows of the money before a request goes out, so that a crash leaves it as uncertain:
 * with each attempt, and whatever is asked for. What providers do not charge for is in no book. */
static void money_is_in_the_ledger_before_a_request_goes_out(void **state)
{
    const struct call_kit_config config = {
        .first = "retries: 1",
        .providers = ANTHROPIC_PROVIDER,
        .models = ANTHROPIC_MODEL,
        .top = "passthrough: [{path: /v1/things, provider: p, per_call: 0.001}]\n"};

    (void)state;
    begin(&config);
    memset(&heard, 0, sizeof heard);
    spending_follow(call_kit.gateway->spending, hear, NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    expect_heard(1, 0);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    call_kit_pass(call_kit.last_timer);
    expect_heard(2, 1);
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    call_client_ask_at(&client, "/v1/things", "{}");
    expect_heard(3, 2);
    reply_and_end(200, JSON, "{}");
    call_client_ask_at(&client, "/v1/messages/count_tokens",
                       "{\"model\":\"opus\",\"messages\":[{\"role\":\"user\","
                       "\"content\":\"hi\"}]}");
    expect_state(CALL_ASKING);
    assert_int_equal(heard.sent, 3);
    reply_and_end(200, JSON, "{\"input_tokens\":5}");
    spending_follow(call_kit.gateway->spending, NULL, NULL);
    call_kit_close();
}

/* Requests that are too late, by what has become of them. */
static void a_late_request_is_charged_if_it_was_sent(void **state)
{
    static const struct {
        enum http_why why;
        bool sent;
        bool charged;
        bool held;
        int status;
    } rows[] = {
        {HTTP_LATE_CONNECT, false, false, false, 504},
        {HTTP_LATE_FIRST_BYTE, true, true, true, 504},
        {HTTP_LATE_IDLE, true, true, true, 504},
        {HTTP_LATE_TOTAL, true, true, true, 504},
        {HTTP_RESET, true, false, true, 502}, /* it has failed, but it may have run before */
        {HTTP_RESET, false, false, false, 502},
        {HTTP_GARBAGE, true, false, true, 502},
        {HTTP_UNREACHABLE, false, false, false, 502},
    };
    const struct call_kit_config config = {.first = "retries: 0, most_tokens_per_s: 3"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_STREAM);
        int64_t prompt = client.call->attempt.prompt;
        int64_t input = client.call->attempt.bound.input;
        call_kit_out()->out.sent = rows[i].sent;
        call_out_fail(call_kit_out(), rows[i].why);
        assert_int_equal(client.status, rows[i].status);
        assert_int_equal(client.call->spent, rows[i].charged ? prompt + 2 * 3 : 0);
        assert_int_equal(client.call->spent + client.call->uncertain,
                         rows[i].held ? input + 2 * 3 : 0);
        assert_int_equal(call_kit.report.outcome, TG_KEY_FAILED);
        assert_int_equal(call_kit.report.sent, rows[i].sent);
        assert_int_equal(call_kit.report.tokens, rows[i].charged ? prompt + 3 : -1);
        assert_true(call_kit.report.latency_ms < 0);
        call_kit_expect_metric(
            "tollgate_upstream_total{provider=\"p\",model=\"first\",class=\"failed\"} 1");
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* 100 x 1 + 10 x 2 = 120 at the plain price; factors are those of what the reply says was served,
 * and of nothing that it does not price. Fees are not multiplied. */
static void a_call_is_billed_by_the_tier_that_was_served(void **state)
{
    static const struct {
        const char *served;
        int64_t micro;
    } rows[] = {
        {"", 120},
        {",\"service_tier\":\"default\"", 120},
        {",\"service_tier\":\"priority\"", 240},
        {",\"service_tier\":\"flex\"", 60},
        {",\"output\":[{\"type\":\"web_search_call\",\"action\":{\"type\":\"search\"}}],"
         "\"service_tier\":\"priority\"",
         240 + 10000},
    };
    const struct call_kit_config config = {
        .models = "  m: {provider: p, price: {input: 1, output: 2, per_tool_call: 0.01, factors: "
                  "{service_tier: {priority: 2.0, flex: 0.5}}}}\n"};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reply[400];
        snprintf(reply, sizeof reply,
                 "{\"usage\":{\"input_tokens\":100,\"output_tokens\":10}%s}", rows[i].served);
        begin(&config);
        call_client_ask_at(&client, "/v1/responses",
                           "{\"model\":\"m\",\"input\":\"hi\",\"max_output_tokens\":50}");
        reply_and_end(200, JSON, reply);
        assert_int_equal(call_kit_entry(1).micro, rows[i].micro);
        call_kit_close();
    }
}

/* Whatever its place. Own: 100 x 1 + 10 x 2 = 120. The other: 5 x 100 + 1 x 200 = 700, and that of
 * a name that nobody knows costs what the dearest of the provider does. */
static void a_pass_of_another_model_costs_what_that_costs(void **state)
{
    static const struct {
        const char *said; /* what its pass says of its model */
        int64_t micro;
    } rows[] = {
        {"\"type\":\"advisor_message\",\"model\":\"dear\",", 120 + 700},
        {"\"model\":\"dear-20260801\",\"type\":\"fallback_message\",", 120 + 700},
        {"\"type\":\"advisor_message\",\"model\":\"cheap\",", 120 + 35},
        {"\"type\":\"advisor_message\",\"model\":\"who-is-that\",", 120 + 700},
        {"\"type\":\"advisor_message\",\"model\":\"" A64 "\",", 120 + 700},
        {"\"type\":\"advisor_message\",\"model\":\"\",", 120 + 700},
        {"\"type\":\"advisor_message\",", 120 + 700},
        {"\"type\":\"compaction\",", 120 + 7},
        {"\"type\":\"message\",\"model\":\"opus-20260801\",", 120 + 7},
    };
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models = ANTHROPIC_MODEL "  d: {provider: q, upstream_model: dear, price: {input: 100, "
                                  "output: 200, per_call: 1}}\n"
                                  "  c: {provider: q, upstream_model: cheap, price: {input: 5, "
                                  "output: 10}}\n"
                                  "  e: {provider: p, upstream_model: dearer, price: {input: 900, "
                                  "output: 900}}\n"};

    (void)state;
    for (size_t i = 0; i < 6 * COUNT_OF(rows); i++) {
        const char *said = rows[i / 6].said;
        bool stream = i % 2 == 1;
        char reply[900], pass[3][150];
        size_t place = i / 2 % 3, own = place == 0;
        snprintf(pass[place], sizeof pass[0], "%s\"input_tokens\":5,\"output_tokens\":1", said);
        snprintf(pass[own], sizeof pass[0],
                 "\"type\":\"message\",\"model\":\"opus\",\"input_tokens\":60,"
                 "\"output_tokens\":4");
        snprintf(pass[3 - place - own], sizeof pass[0],
                 "\"type\":\"message\",\"input_tokens\":40,\"output_tokens\":6");
        snprintf(reply, sizeof reply,
                 "%s\"usage\":{\"input_tokens\":100,\"output_tokens\":10,\"iterations\":["
                 "{%s},{%s},{%s}]}}%s",
                 stream ? "event: message_delta\ndata: {\"type\":\"message_delta\"," : "{",
                 pass[0], pass[1], pass[2],
                 stream ? "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n" : "");
        begin(&config);
        call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
        reply_and_end(200, stream ? EVENT_STREAM : JSON, reply);
        if (call_kit_entry(1).micro != rows[i / 6].micro)
            fail_msg("%s at %zu: %lld", said, place, (long long)call_kit_entry(1).micro);
        assert_int_equal(client.call->used, 105 + 11);
        assert_int_equal(call_kit_entry(1).flags, 0);
        call_kit_close();
    }
}

/* A call with tools of the provider's reports the sum of its passes, none of which can have been
 * longer than the context: the price of longer ones is not asked. */
static void a_sum_of_passes_is_not_one_long_pass(void **state)
{
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models = "  opus: {provider: q, context: 10000, max_output_tokens: 100, "
                  "price: {input: 1, output: 2, factors: {above_tokens: {10000: 2.0}}}}\n"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages",
                       "{\"model\":\"opus\",\"max_tokens\":10,\"tools\":[{\"type\":"
                       "\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":1}],"
                       "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    reply_and_end(200, JSON, "{\"usage\":{\"input_tokens\":12000,\"output_tokens\":10}}");
    assert_int_equal(client.call->spent, 12000 + 10 * 2);
    call_kit_close();
}

/* It counts for limits all the same. */
static void a_refusal_before_any_output_costs_nothing(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages",
                       "{\"model\":\"opus\",\"max_tokens\":9,\"messages\":[{\"role\":\"user\","
                       "\"content\":\"hi\"}]}");
    reply_and_end(200, JSON,
                  "{\"content\":[],\"stop_reason\":\"refusal\","
                  "\"usage\":{\"input_tokens\":5,\"output_tokens\":0}}");
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(client.call->used, 5);
    call_kit_close();
}

static void counting_tokens_costs_nothing(void **state)
{
    const struct call_kit_config config = {.providers = ANTHROPIC_PROVIDER,
                                           .models = ANTHROPIC_MODEL};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages/count_tokens",
                       "{\"model\":\"opus\",\"messages\":[{\"role\":\"user\","
                       "\"content\":\"hi\"}]}");
    reply_and_end(200, JSON, "{\"input_tokens\":5}");
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(client.call->used, 0);
    call_kit_expect_entries(0);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.usage_missing), 0);
    call_kit_close();
}

/* The reply is here before the work is done, so what it may write at most is charged. */
static void a_background_response_is_charged_with_its_bound(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask_at(&client, "/v1/responses",
                       "{\"model\":\"first\",\"input\":\"hi\",\"background\":true,"
                       "\"max_output_tokens\":50}");
    int64_t prompt = client.call->attempt.prompt;
    reply_and_end(200, JSON, "{\"id\":\"r\",\"status\":\"queued\",\"output\":[]}");
    assert_int_equal(client.call->usage.input, prompt);
    assert_int_equal(client.call->usage.output, 50);
    assert_int_equal(call_kit_entry(1).flags, LEDGER_ESTIMATED | LEDGER_UNCERTAIN);
    call_kit_close();
}

/* What is no JSON after all cannot be read, and is charged like what is encoded. */
static void a_reply_that_is_no_json_is_charged_with_its_bound(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, "]");
    assert_int_equal(client.call->usage.output, 10);
    call_kit_close();
}

static void an_encoded_stream_is_charged_with_its_bound(void **state)
{
    (void)state;
    begin(NULL);
    call_out_says("content-encoding", "gzip");
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    expect_state(CALL_ANSWERING); /* there are no events in it that anybody could read */
    call_out_data(call_kit_out(), CHUNK);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->usage.output, 10);
    call_client_gone(&client, HTTP_DONE);
    end();
}

static void embeddings_have_no_output(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask_at(&client, "/v1/embeddings", "{\"model\":\"first\",\"input\":\"hi you\"}");
    int64_t prompt = client.call->attempt.prompt;
    reply_and_end(200, JSON, "{\"data\":[{\"embedding\":\"long enough for some tokens\"}]}");
    assert_int_equal(client.call->usage.input, prompt);
    assert_int_equal(client.call->usage.output, 0);
    call_kit_close();
}

/* ---- streams that are cut ---- */

#define START(output)                                                                 \
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":" \
    "{\"input_tokens\":7,\"output_tokens\":" output "}}}\n\n"
#define DELTA(text)                                                                    \
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0," \
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"" text "\"}}\n\n"

/* Messages begin with a count of their output, which is a lower bound until they end: what has
 * arrived counts if it is more, and so does what can have been written in the first second. */
static void a_cut_stream_is_charged_with_what_has_arrived(void **state)
{
    static const struct {
        const char *start, *delta;
        int output;
        uint32_t flags;
    } rows[] = {
        {START("1"), DELTA("sixteen bytes...sixteen bytes..."), 8, LEDGER_ESTIMATED},
        {START("9"), DELTA("four"), 9, LEDGER_ESTIMATED},
        {START("1"), DELTA("four"), 2, LEDGER_ESTIMATED},
    };
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models =
            "  opus: {provider: q, price: {input: 1, output: 2}, most_tokens_per_s: 2}\n"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask_at(&client, "/v1/messages", MESSAGES_BODY);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), rows[i].start);
        call_out_data(call_kit_out(), rows[i].delta);
        call_client_gone(&client, HTTP_HANGUP);
        assert_int_equal(client.call->usage.input, 7); /* which was reported */
        assert_int_equal(client.call->usage.output, rows[i].output);
        assert_int_equal(call_kit_entry(1).flags, rows[i].flags | LEDGER_CANCELLED);
        assert_int_equal(call_kit.report.tokens, 7 + rows[i].output);
        end();
    }
}

/* ---- hang-ups ---- */

/* A client that leaves before anything was sent has used nothing; afterwards the prompt counts, and
 * what can have been written since. */
/* The input that a stream reports is that of one pass. Where there may be others, of a provider's
 * tool or to compact the context, what they may have read is held. */
static void a_cut_stream_of_several_passes_holds_them_all(void **state)
{
    static const struct {
        const char *fields;
        bool several;
    } rows[] = {
        {"", false},
        {"\"tools\":[{\"type\":\"web_search_20250305\",\"name\":\"web_search\","
         "\"max_uses\":1}],",
         true},
        {"\"context_management\":{\"edits\":[{\"type\":\"compact_20260112\"}]},", true},
    };
    const struct call_kit_config config = {
        .tenant = "budgets: [{usd: 100, per: total, mode: shadow}]",
        .providers = ANTHROPIC_PROVIDER,
        .models = "  opus: {provider: q, price: {input: 1, output: 2}, context: 10000, "
                  "max_output_tokens: 100, most_tokens_per_s: 1}\n"};
    char body[400];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        snprintf(body, sizeof body,
                 "{\"model\":\"opus\",\"max_tokens\":10,%s"
                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                 rows[i].fields);
        call_client_ask_at(&client, "/v1/messages", body);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), START("1"));
        call_client_gone(&client, HTTP_HANGUP);
        assert_int_equal(client.call->usage.input, 7);
        if ((client.call->uncertain > 5000) != rows[i].several)
            fail_msg("row %zu: %lld are held", i, (long long)client.call->uncertain);
        end();
    }
}

static void a_hang_up_is_charged_if_the_request_was_sent(void **state)
{
    const struct call_kit_config config = {.first = "most_tokens_per_s: 3"};

    (void)state;
    for (unsigned sent = 0; sent < 2; sent++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_BODY);
        int64_t prompt = client.call->attempt.prompt;
        call_kit_out()->out.sent = sent;
        call_client_gone(&client, HTTP_HANGUP);
        assert_int_equal(call_kit_out()->cancelled, 1);
        assert_int_equal(client.call->spent, sent ? prompt + 2 * 3 : 0);
        assert_int_equal(call_kit.report.outcome, TG_KEY_CANCELLED);
        assert_int_equal(call_kit.report.sent, sent);
        call_kit_expect_entries(sent);
        if (sent) {
            assert_int_equal(call_kit_entry(1).flags,
                             LEDGER_ESTIMATED | LEDGER_CANCELLED | LEDGER_UNCERTAIN);
            call_kit_expect_metric("tollgate_upstream_total{provider=\"p\",model=\"first\","
                                   "class=\"cancelled\"} 1");
        }
        end();
    }
}

/* An error is not drained for its usage: it has none. */
/* Calls that were cut are booked by it: it is of replies that ended, said how much they wrote, and
 * were written as fast as the provider can. */
static void how_fast_a_model_writes_is_learned_from_whole_replies(void **state)
{
    static const struct {
        const char *body, *usage;
        bool breaks, slow;
        double tokens_per_s; /* 0: nothing is learned */
    } rows[] = {
        {CALL_KIT_STREAM, "\"prompt_tokens\":5,\"completion_tokens\":300", false, false, 30},
        {"{\"model\":\"first\",\"stream\":true,\"n\":2,\"messages\":[]}",
         "\"prompt_tokens\":5,\"completion_tokens\":600", false, false, 30},
        {CALL_KIT_STREAM, "\"prompt_tokens\":5,\"completion_tokens\":300", true, false, 0},
        {CALL_KIT_STREAM, "\"prompt_tokens\":5,\"completion_tokens\":300", false, true, 0},
        {CALL_KIT_STREAM, "\"x\":1", false, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char usage[200];
        begin(NULL);
        struct output_speed *speed = gateway_newest(call_kit.gateway)->routes[0].speed;
        for (uint32_t other_tenant = 0; other_tenant < OUTPUT_SPEED_ENOUGH - 1; other_tenant++)
            output_speed_add(speed, other_tenant, OUTPUT_SPEED_TOKENS, 1000000);
        call_client_ask(&client, rows[i].body);
        struct call_out *out = call_kit_out();
        call_out_head(out, 200, EVENT_STREAM);
        client.queued = rows[i].slow ? HTTP_OUTPUT_HIGH + 1 : 0;
        call_out_data(out, CHUNK);
        snprintf(usage, sizeof usage, "data: {\"choices\":[],\"usage\":{%s}}\n\n", rows[i].usage);
        call_kit_pass(10000);
        call_out_data(out, usage);
        if (rows[i].breaks) {
            call_out_fail(out, HTTP_RESET);
        } else {
            call_out_data(out, DONE);
            call_out_end(out);
        }
        double expected = rows[i].tokens_per_s > 0 ? 1.25 * rows[i].tokens_per_s : 1000;
        assert_true(output_speed_of(speed, 1000) == expected);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

static void an_error_that_nobody_reads_costs_nothing(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_out_head(call_kit_out(), 503, JSON);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    call_out_data(call_kit_out(), "{}");
    call_out_end(call_kit_out());
    expect_state(CALL_FREED);
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(call_kit.report.outcome, TG_KEY_FAILED);
    end();
}

/* What was sent is read on, whether the reply has begun or not; a passthrough is not. */
static void a_request_that_was_sent_is_drained(void **state)
{
    const struct call_kit_config config = {
        .provider = "    on_disconnect: drain",
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0}]\n"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_out()->out.sent = false;
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_FREED);
    call_kit_expect_released(&client);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_out()->out.sent = true;
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    assert_int_equal(atomic_load(&call_kit.gateway->counts.buffered), 0); /* its body is gone */
    call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
    expect_state(CALL_FREED);
    assert_int_equal(client.call->spent, CALL_KIT_MICRO);
    assert_int_equal(client.call->uncertain, 0);
    call_kit_expect_released(&client);
    call_client_ask_at(&client, "/v1/audio", "{}"); /* nor is one whose usage nobody reads */
    call_out_head(call_kit_out(), 200, JSON);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_FREED);
    end();
}

static void a_drained_reply_that_breaks_is_charged_with_what_has_arrived(void **state)
{
    const struct call_kit_config config = {.provider = "    on_disconnect: drain",
                                           .first = "most_tokens_per_s: 1"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_client_gone(&client, HTTP_HANGUP);
    call_out_data(call_kit_out(), CHUNK CHUNK CHUNK CHUNK); /* five bytes, by four a token */
    call_out_fail(call_kit_out(), HTTP_RESET);
    expect_state(CALL_FREED);
    assert_int_equal(client.call->usage.output, 2);
    assert_int_equal(call_kit_entry(1).flags, LEDGER_ESTIMATED | LEDGER_UNCERTAIN);
    assert_int_equal(call_kit.report.outcome, TG_KEY_FAILED);
    end();
}

/* ---- the key ---- */

static void a_key_is_told_what_was_used_and_how_fast_it_was(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(30);
    call_out_head(call_kit_out(), 200, JSON);
    call_kit_pass(12);
    call_out_data(call_kit_out(), "{\"choices\":[],");
    call_kit_pass(100);
    call_out_data(call_kit_out(), "\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}");
    call_out_end(call_kit_out());
    assert_int_equal(call_kit.report.outcome, TG_KEY_OK);
    assert_true(call_kit.report.sent);
    assert_int_equal(call_kit.report.tokens, CALL_KIT_USED);
    assert_true(call_kit.report.latency_ms == 42);
    assert_int_equal(call_kit.report.cool_until, 0);
    assert_int_equal(client.call->notes.upstream_ms, 142);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A passthrough is not read: its key keeps the estimate. */
static void a_passthrough_tells_its_key_nothing_of_tokens(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0.000033}]\n"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    reply_and_end(200, JSON, CALL_KIT_REPLY);
    assert_int_equal(call_kit.report.tokens, -1);
    assert_int_equal(call_kit.report.outcome, TG_KEY_OK);
    assert_int_equal(call_kit_entry(1).flags, 0);
    assert_int_equal(call_kit_entry(1).usage.input, 0);
    call_client_ask_at(&client, "/v1/audio", "{}");
    reply_and_end(500, JSON, "<html>");
    assert_int_equal(client.call->spent, 0);
    assert_int_equal(client.status, 502);
    assert_int_equal(client.call->attempts, 1); /* nobody knows whether it may be sent again */
    call_kit_close();
}

/* ---- what is learned ---- */

static double overbook_after(const char *reply)
{
    const struct call_kit_config config = {.first = "overbook: {start: 1.0, min: 0.05, max: 3.0}"};

    begin(&config);
    for (int i = 0; i < 20; i++) {
        call_client_ask(&client, CALL_KIT_BODY); /* 15 tokens are estimated */
        reply_and_end(200, JSON, reply);
    }
    double factor = atomic_load(&gateway_newest(call_kit.gateway)->routes[0].charged);
    call_kit_close();
    return factor;
}

/* Calls are charged what calls like them have used, as reported, else as written: but no more than
 * was asked for by a guess at how many tokens a text has. */
static void calls_are_charged_what_others_have_used(void **state)
{
    (void)state;
    assert_true(overbook_after(USAGE("15", "15")) > 1);
    assert_true(overbook_after(USAGE("5", "3")) < 1);
    assert_true(overbook_after(USAGE("10", "5")) == 1);
    assert_true(overbook_after("{\"choices\":[{\"message\":{\"content\":\"0123\"}}]}") < 1);
    assert_true(overbook_after("{\"choices\":[{\"message\":{\"content\":\""
                               "0123456789012345678901234567890123456789012345678901234567890"
                               "\"}}]}") == 1);
}

/* The time to the first byte is a sample for the law of the route; a reply without one is none. */
static void a_first_byte_is_a_sample_for_the_route(void **state)
{
    struct tg_gate_stats stats;

    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    struct tg_gate *slots = client.call->slot.gate;
    call_kit_pass(40);
    call_out_head(call_kit_out(), 200, JSON);
    call_kit_pass(2);
    call_out_data(call_kit_out(), CALL_KIT_REPLY);
    call_kit_pass(500);
    call_out_end(call_kit_out());
    tg_gate_get_stats(slots, &stats);
    assert_true(stats.last_ms == 42);
    call_client_gone(&client, HTTP_DONE);
    call_kit_expect_released(&client);
    double learned = atomic_load(&gateway_newest(call_kit.gateway)->routes[0].hold_s);
    assert_true(learned > 0.5419 && learned < 0.5421);
    call_client_ask(&client, CALL_KIT_BODY);
    assert_true(client.call->gate_call.hold_s == learned); /* what the policy is told, ... */
    assert_true(client.call->slot_call.hold_s == learned); /* ... and who says how long to wait */
    call_kit_pass(9);
    call_out_head(call_kit_out(), 200, JSON);
    call_out_end(call_kit_out()); /* without a body */
    tg_gate_get_stats(slots, &stats);
    assert_true(stats.last_ms == 42);
    assert_true(atomic_load(&gateway_newest(call_kit.gateway)->routes[0].hold_s) == learned);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* What passes through is of all kinds: the gate learns how long it took as a whole. */
static void a_first_byte_of_a_passthrough_is_no_sample(void **state)
{
    const struct call_kit_config config = {
        .top = "passthrough: [{path: /v1/audio, provider: p, per_call: 0}]\n"};
    struct tg_gate_stats stats;

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/audio", "{}");
    call_kit_pass(40);
    call_out_head(call_kit_out(), 200, "audio/mpeg");
    call_out_data(call_kit_out(), "sound");
    call_kit_pass(500);
    call_out_end(call_kit_out());
    tg_gate_get_stats(call_kit.gateway->gate, &stats);
    assert_true(stats.last_ms == 540);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* The law hears of a stream when it begins, and not again when it ends. */
static void a_stream_is_a_sample_when_it_begins(void **state)
{
    struct tg_gate_stats stats;

    (void)state;
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    struct tg_gate *slots = client.call->slot.gate;
    call_kit_pass(40);
    call_out_head(call_kit_out(), 200, "text/event-stream");
    call_kit_pass(2);
    call_out_data(call_kit_out(), "data: {}\n\n");
    tg_gate_get_stats(slots, &stats);
    assert_true(stats.last_ms == 42);
    assert_int_equal(stats.in_flight, 1);
    call_kit_pass(500);
    call_out_data(call_kit_out(), "data: [DONE]\n\n");
    call_out_end(call_kit_out());
    tg_gate_get_stats(slots, &stats);
    assert_true(stats.last_ms == 42);
    assert_int_equal(stats.in_flight, 0);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A stream that breaks off says that the route has too much to do, like a timeout; a client that
 * asks for nonsense says nothing. */
static void a_route_is_judged_by_how_calls_end(void **state)
{
    static const struct {
        int how;
        bool asked_less;
    } rows[] = {{0, true}, {1, true}, {2, false}, {3, false}, {4, false}, {5, true}};
    const struct call_kit_config config = {
        .first = "retries: 0, concurrency: {law: aimd, initial: 10, min: 1, max: 20}"};
    struct tg_law_metrics law;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_STREAM);
        call_kit_pass(100);
        if (rows[i].how == 0) { /* it breaks off */
            call_out_head(call_kit_out(), 200, EVENT_STREAM);
            call_out_data(call_kit_out(), CHUNK);
            call_out_fail(call_kit_out(), HTTP_RESET);
        } else if (rows[i].how == 1) { /* it never begins */
            call_out_fail(call_kit_out(), HTTP_LATE_FIRST_BYTE);
        } else if (rows[i].how == 2) { /* it is refused */
            call_out_reply(call_kit_out(), 404, JSON, "{}");
        } else if (rows[i].how == 3) { /* the connection fails */
            call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
        } else {
            call_out_head(call_kit_out(), 200, EVENT_STREAM);
            call_out_data(call_kit_out(), CHUNK);
            call_out_data(call_kit_out(), rows[i].how == 4
                                              ? "data: {\"error\":{\"type\":\"rate_limit_error\"}}"
                                                "\n\n"
                                              : ERROR_EVENT);
            call_out_end(call_kit_out());
        }
        call_client_gone(&client, HTTP_DONE);
        tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
        if ((law.limit < 10) != rows[i].asked_less)
            fail_msg("row %zu: the limit is %d", i, (int)law.limit);
        end();
    }
}

/* Nor is a route judged by a client that has left, or by the failure of another route. */
static void a_route_is_judged_by_its_own_failures(void **state)
{
#define AIMD "concurrency: {law: aimd, initial: 10, min: 1, max: 20}"
    const struct call_kit_config config = {
        .remote = true, .first = "retries: 0, fallback: [second], " AIMD, .second = AIMD};
    const struct call_kit_config patient = {.first = AIMD};
    struct tg_law_metrics law;

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(100);
    call_kit.money = REMOTE_SAYS_NO;
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    expect_state(CALL_OVER); /* no money for the second model */
    tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
    assert_true(law.limit < 10);
    tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[1].slots->gate, &law);
    assert_int_equal(law.limit, 10);
    assert_int_equal(call_kit.limits_settled, 1); /* it has called */
    call_client_gone(&client, HTTP_DONE);
    end();
    begin(&patient);
    call_client_ask(&client, CALL_KIT_BODY);
    call_kit_pass(100);
    call_out_reply(call_kit_out(), 503, JSON, "{}");
    expect_state(CALL_PAUSING);
    call_client_gone(&client, HTTP_HANGUP);
    tg_gate_get_law(gateway_newest(call_kit.gateway)->routes[0].slots->gate, &law);
    assert_int_equal(law.limit, 10);
    end();
#undef AIMD
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entry_says_who_paid_for_what),
        cmocka_unit_test(a_call_costs_the_sum_of_its_attempts),
        cmocka_unit_test(money_is_in_the_ledger_before_a_request_goes_out),
        cmocka_unit_test(a_late_request_is_charged_if_it_was_sent),
        cmocka_unit_test(a_call_is_billed_by_the_tier_that_was_served),
        cmocka_unit_test(a_pass_of_another_model_costs_what_that_costs),
        cmocka_unit_test(a_sum_of_passes_is_not_one_long_pass),
        cmocka_unit_test(a_refusal_before_any_output_costs_nothing),
        cmocka_unit_test(counting_tokens_costs_nothing),
        cmocka_unit_test(a_background_response_is_charged_with_its_bound),
        cmocka_unit_test(a_reply_that_is_no_json_is_charged_with_its_bound),
        cmocka_unit_test(an_encoded_stream_is_charged_with_its_bound),
        cmocka_unit_test(embeddings_have_no_output),
        cmocka_unit_test(a_cut_stream_is_charged_with_what_has_arrived),
        cmocka_unit_test(a_cut_stream_of_several_passes_holds_them_all),
        cmocka_unit_test(a_hang_up_is_charged_if_the_request_was_sent),
        cmocka_unit_test(how_fast_a_model_writes_is_learned_from_whole_replies),
        cmocka_unit_test(an_error_that_nobody_reads_costs_nothing),
        cmocka_unit_test(a_request_that_was_sent_is_drained),
        cmocka_unit_test(a_drained_reply_that_breaks_is_charged_with_what_has_arrived),
        cmocka_unit_test(a_key_is_told_what_was_used_and_how_fast_it_was),
        cmocka_unit_test(a_passthrough_tells_its_key_nothing_of_tokens),
        cmocka_unit_test(calls_are_charged_what_others_have_used),
        cmocka_unit_test(a_first_byte_is_a_sample_for_the_route),
        cmocka_unit_test(a_first_byte_of_a_passthrough_is_no_sample),
        cmocka_unit_test(a_stream_is_a_sample_when_it_begins),
        cmocka_unit_test(a_route_is_judged_by_how_calls_end),
        cmocka_unit_test(a_route_is_judged_by_its_own_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
