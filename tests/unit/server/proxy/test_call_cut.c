/* test_call_cut.c - calls that end without their provider's word: whoever leaves, whenever, the
 * books have no less than what the provider can bill, and no more than was reserved.
 *
 * The provider here counts the most input that the call can have, and writes as fast as the
 * configuration says it can, from the moment at which the request is sent; one whose models
 * `cut: stops` ends when it is cut off, up to a second later, others write all that they may.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#define TOKENS_PER_S 50
#define MAX_TOKENS 1000

/* ---- the ways of being cut ---- */

enum moment {
    BEFORE_HEAD,   /* the request has been sent */
    WITHIN_STREAM, /* the first event has come */
    WITHIN_HEAD,   /* the head of a stream has come, and no event */
    WITHIN_WHOLE,  /* a part of a reply that comes whole has come */
    MOMENTS
};

enum cutter { CLIENT,
              TIMEOUT,
              RESET,
              WORKER,
              DRAIN_OVER,
              CUTTERS };

struct cut {
    enum moment moment;
    enum cutter by;
    bool runs, drains;
    int64_t choices;
    tg_ms after;        /* ms since it was sent */
    bool input_told;    /* the stream says how much input there was */
    int64_t learned_at; /* tokens a second that calls before it wrote; 0: there were none */
};

static bool is_stream(const struct cut *cut)
{
    return cut->moment == WITHIN_STREAM || cut->moment == WITHIN_HEAD;
}

/* The provider closes instead of answering: it has more likely failed than run. */
static bool has_failed(const struct cut *cut)
{
    return cut->by == RESET && cut->moment == BEFORE_HEAD;
}

/* Whom nobody drains is not cut while it is drained. */
static bool is_possible(const struct cut *cut)
{
    if ((cut->by == WORKER || cut->by == DRAIN_OVER) && !cut->drains)
        return false;
    if (cut->by == CLIENT && cut->drains)
        return false;
    return !cut->input_told || cut->moment == WITHIN_STREAM;
}

static void begin_cut(const struct cut *cut)
{
    char model[200], provider[64];
    const struct call_kit_config config = {.first = model, .provider = provider};

    snprintf(model, sizeof model,
             "retries: 0, most_tokens_per_s: %d, cut: %s, context: 100000, timeouts: {total: 1h}",
             TOKENS_PER_S, cut->runs ? "runs" : "stops");
    snprintf(provider, sizeof provider, "    on_disconnect: %s", cut->drains ? "drain" : "abort");
    begin(&config);
    struct output_speed *speed = gateway_newest(call_kit.gateway)->routes[0].speed;
    for (int i = 0; i < 400 && cut->learned_at > 0; i++)
        output_speed_add(speed, (uint32_t)i, cut->learned_at * 100, 100 * 1000);
}

static void ask(const struct cut *cut)
{
    char body[256];

    snprintf(body, sizeof body,
             "{\"model\":\"first\",\"stream\":%s,\"n\":%d,\"max_tokens\":%d,"
             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
             is_stream(cut) ? "true" : "false", (int)cut->choices, MAX_TOKENS);
    call_client_ask(&client, body);
    expect_state(CALL_ASKING);
}

static void answer_in_part(const struct cut *cut, int64_t input)
{
    char usage[256];
    struct call_out *out = call_kit_out();

    out->out.sent = true;
    switch (cut->moment) {
    case WITHIN_HEAD:
        call_out_head(out, 200, EVENT_STREAM);
        break;
    case WITHIN_STREAM:
        snprintf(usage, sizeof usage,
                 "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],"
                 "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\n",
                 (int)input);
        call_out_head(out, 200, EVENT_STREAM);
        call_out_data(out, cut->input_told ? usage : CHUNK);
        break;
    case WITHIN_WHOLE:
        call_out_head(out, 200, JSON);
        call_out_data(out, "{\"choices\":[{\"message\":{\"content\":\"hel");
        break;
    default:
        break;
    }
}

static void cut_off(const struct cut *cut)
{
    struct call_out *out = call_kit_out();

    if (cut->by == WORKER || cut->by == DRAIN_OVER) {
        call_client_gone(&client, HTTP_HANGUP);
        expect_state(CALL_DRAINING);
    }
    call_kit_pass(cut->after);
    switch (cut->by) {
    case CLIENT:
        call_client_gone(&client, HTTP_HANGUP);
        break;
    case TIMEOUT:
        call_out_fail(out, HTTP_LATE_IDLE);
        break;
    case RESET:
        call_out_fail(out, HTTP_RESET);
        break;
    case WORKER:
        call_step(client.call, CALL_ON_WORKER_END, NULL);
        break;
    default:
        call_kit_pass(3600 * 1000 - cut->after);
        break;
    }
    if (client.call->state == CALL_OVER)
        call_client_gone(&client, HTTP_DONE);
    expect_state(CALL_FREED);
}

/* Micro-dollars: input costs one a token, output two. */
static tg_micro bill_of_provider(const struct cut *cut, int64_t input, tg_ms took)
{
    int64_t output = cut->runs ? MAX_TOKENS : (took + 1000) * TOKENS_PER_S / 1000;

    return input + 2 * (output < MAX_TOKENS ? output : MAX_TOKENS) * cut->choices;
}

static void try_cut(const struct cut *cut)
{
    begin_cut(cut);
    ask(cut);
    const struct tg_usage_bound bound = client.call->attempt.bound;
    tg_micro reserved = client.call->attempt.reserved;
    answer_in_part(cut, bound.input);
    cut_off(cut);

    tg_ms took = cut->by == DRAIN_OVER ? 3600 * 1000 : cut->after;
    tg_micro billed = bill_of_provider(cut, bound.input, took);
    tg_micro booked = client.call->spent, uncertain = client.call->uncertain;
    const struct ledger_entry entry = call_kit_entry(1);
    if (booked + uncertain < billed || booked + uncertain > reserved || uncertain < 0)
        fail_msg("moment %d, cut by %d, %s, %s, n %d, after %d ms, %s, learned %d: booked %lld + "
                 "uncertain %lld, billed %lld, reserved %lld",
                 cut->moment, cut->by, cut->runs ? "runs" : "stops",
                 cut->drains ? "drain" : "abort", (int)cut->choices, (int)cut->after,
                 cut->input_told ? "input told" : "no usage", (int)cut->learned_at,
                 (long long)booked, (long long)uncertain, (long long)billed, (long long)reserved);
    call_kit_expect_entries(1);
    assert_int_equal(entry.micro, booked);
    assert_int_equal(entry.uncertain, uncertain);
    assert_true(entry.flags & LEDGER_ESTIMATED);
    /* Limits are settled with what is booked. */
    assert_int_equal(client.call->used, entry.usage.input + entry.usage.output);
    assert_int_equal(booked, entry.usage.input + 2 * entry.usage.output);
    /* At a steady provider, half of its rate is learned to be twice as fast at most. */
    if (cut->learned_at > 0 && cut->after >= 5000 && !cut->runs && !has_failed(cut)) {
        int64_t likely = cut->learned_at * cut->choices * took / 1000;
        if (likely > MAX_TOKENS * cut->choices)
            likely = MAX_TOKENS * cut->choices;
        assert_true(entry.usage.output >= likely && entry.usage.output <= 2 * likely);
    }
    end();
}

/* booked + uncertain >= what a provider bills that writes at the stated rate, <= the reservation,
 * exactly once: for every state in which a call can be cut. Each combination takes two of the
 * times, its neighbours the next: a gateway is made for each case. */
static void the_books_have_no_less_than_the_bill(void **state)
{
    static const tg_ms times[] = {0, 1, 137, 1000, 5000, 19000, 600000};
    int tried = 0;

    (void)state;
    for (unsigned i = 0; i < MOMENTS * CUTTERS * 2 * 2 * 2 * 2 * 2; i++)
        for (size_t j = 0; j < 2; j++) {
            const struct cut cut = {.moment = i / 32 % MOMENTS,
                                    .by = i / 32 / MOMENTS,
                                    .runs = i & 1,
                                    .drains = i & 2,
                                    .input_told = i & 4,
                                    .choices = i & 8 ? 3 : 1,
                                    .learned_at = i & 16 ? TOKENS_PER_S / 2 : 0,
                                    .after = times[(2 * i + j) % COUNT_OF(times)]};
            if (!is_possible(&cut))
                continue;
            try_cut(&cut);
            tried++;
        }
    assert_true(tried > 300);
}

/* A provider that says it ran out of time: nothing is booked, because it most likely bills nothing;
 * what it can have billed until then is held, and a further attempt reserves its own. */
static void a_provider_that_ran_out_of_time_may_have_billed(void **state)
{
    static const struct {
        int status;
        const char *type, *body;
    } rows[] = {
        {504, JSON, "{\"error\":{\"type\":\"timeout_error\"}}"},
        {408, JSON, "{}"},
        {524, "text/html", "<html>"},
        {200, EVENT_STREAM, "data: {\"error\":{\"type\":\"timeout_error\"}}\n\n"},
    };
    const struct call_kit_config config = {
        .first = "retries: 1, most_tokens_per_s: 50, context: 100000"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_STREAM);
        tg_micro input = client.call->attempt.bound.input;
        tg_micro reserved = client.call->attempt.reserved;
        call_kit_pass(3000);
        call_out_head(call_kit_out(), rows[i].status, rows[i].type);
        call_out_data(call_kit_out(), rows[i].body);
        if (client.call->state == CALL_ASKING)
            call_out_end(call_kit_out());
        expect_state(CALL_PAUSING);
        const struct ledger_entry entry = call_kit_entry(1);
        tg_micro billed = input + 2 * 50 * 4;
        assert_int_equal(entry.micro, 0);
        assert_int_equal(entry.uncertain, billed < reserved ? billed : reserved);
        assert_true(entry.flags & LEDGER_ESTIMATED && entry.flags & LEDGER_UNCERTAIN);
        call_kit_pass(200);
        expect_state(CALL_ASKING);
        assert_int_equal(client.call->attempt.reserved, reserved);
        call_out_reply(call_kit_out(), 200, JSON, CALL_KIT_REPLY);
        assert_int_equal(call_kit_entry(2).micro, CALL_KIT_MICRO);
        assert_int_equal(client.call->spent, CALL_KIT_MICRO);
        assert_int_equal(client.call->uncertain, entry.uncertain);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

/* ---- attacks ---- */

/* Attack 2: each of several prompts is answered as fast as a single one. */
static void attack_2_each_of_several_prompts_is_written_at_once(void **state)
{
    const struct call_kit_config config = {.first = "most_tokens_per_s: 100, context: 200000"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/completions",
                       "{\"model\":\"first\",\"max_tokens\":5000,\"n\":2,"
                       "\"prompt\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}");
    call_kit_out()->out.sent = true;
    call_kit_pass(4000);
    call_client_gone(&client, HTTP_HANGUP);
    assert_true(client.call->spent >= 2 * 2 * 5 * 5 * 100);
    expect_state(CALL_FREED);
    end();
}

/* Attack 1: the provider thinks for a minute, shows ten words, and the client leaves before the
 * usage. */
static void attack_1_hanging_up_before_the_usage_is_not_free(void **state)
{
    const struct call_kit_config config = {
        .first = "most_tokens_per_s: 300, context: 200000, max_output_tokens: 64000"};

    (void)state;
    begin(&config);
    call_client_ask(&client, "{\"model\":\"first\",\"stream\":true,\"max_tokens\":50000,"
                             "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}");
    call_kit_pass(60000); /* hidden reasoning: 18,000 tokens */
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    for (int i = 0; i < 10; i++)
        call_out_data(call_kit_out(), CHUNK);
    call_client_gone(&client, HTTP_HANGUP);
    assert_true(client.call->spent >= 2 * 60 * 300);
    assert_true(client.call->used >= 60 * 300); /* and limits of tokens are not evaded */
    assert_true(call_kit.report.tokens >= 60 * 300);
    end();
}

/* The same where providers go on: read to the end by default, charged what it reports. */
static void attack_1_a_provider_that_runs_on_is_drained(void **state)
{
    const struct call_kit_config config = {.first = "cut: runs"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_STREAM);
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(), CHUNK);
    call_client_gone(&client, HTTP_HANGUP);
    expect_state(CALL_DRAINING);
    call_kit_pass(33000); /* it used to be cut after half a minute */
    expect_state(CALL_DRAINING);
    call_out_data(call_kit_out(), "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
                                  "\"completion_tokens\":9}}\n\n" DONE);
    call_out_end(call_kit_out());
    assert_int_equal(client.call->spent, 5 + 2 * 9);
    assert_int_equal(client.call->uncertain, 0);
    end();
}

/* Some providers count in every chunk. What was counted by the moment at which the client left is
 * not the last word. */
static void a_count_in_every_chunk_is_no_last_word(void **state)
{
    const struct call_kit_config config = {.first = "most_tokens_per_s: 5"};
    static const char counted[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],"
        "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":0}}\n\n";

    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        begin(&config);
        call_client_ask(&client, CALL_KIT_STREAM);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), counted);
        call_kit_pass(1000);
        if (whole) {
            call_out_data(call_kit_out(), DONE);
            call_out_end(call_kit_out());
        }
        call_client_gone(&client, whole ? HTTP_DONE : HTTP_HANGUP);
        assert_int_equal(client.call->usage.input, 4);
        assert_int_equal(client.call->usage.output, whole ? 0 : 10);
        assert_int_equal(client.call->usage_reported, whole);
        end();
    }
}

/* ---- reports that cannot be ---- */

/* Attack 17: one lie of a provider charges no more than the reservation, and the log has the
 * figure. */
static void attack_17_a_report_that_cannot_be_charges_the_reservation(void **state)
{
    static const char *const reports[] = {
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":999999999,\"completion_tokens\":1}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":60000}}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":-5,\"completion_tokens\":3}}",
    };
    const struct call_kit_config config = {
        .first = "context: 128000, max_output_tokens: 16000"};
    char charged[64];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(reports); i++) {
        begin(&config);
        call_kit_observe(false);
        call_client_ask(&client, CALL_KIT_BODY);
        tg_micro reserved = client.call->attempt.reserved;
        reply_and_end(200, JSON, reports[i]);
        assert_true(reserved > 0);
        assert_int_equal(client.call->spent, reserved);
        assert_int_equal(call_kit_entry(1).micro, reserved);
        assert_true(call_kit_entry(1).flags & LEDGER_ABSURD);
        snprintf(charged, sizeof charged, "\"micro_usd\":%lld", (long long)reserved);
        expect_in(call_kit_line(), charged);
        expect_in(call_kit_line(), "\"usage\":\"absurd\"");
        call_kit_close();
    }
}

/* What the model can have used is believed, even above what the call asked for. */
static void a_report_within_the_context_is_believed(void **state)
{
    const struct call_kit_config config = {
        .first = "context: 128000, max_output_tokens: 16000"};

    (void)state;
    begin(&config);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON,
                  "{\"choices\":[],\"usage\":{\"prompt_tokens\":900,\"completion_tokens\":16000}}");
    assert_int_equal(client.call->spent, 900 + 2 * 16000);
    assert_int_equal(call_kit_entry(1).flags, 0);
    call_kit_close();
}

/* Searches without a bound on their number read the context again and again: 90,000 tokens are
 * seven times that. Where no budget keeps the bound such
 * calls pass, and cost what the provider says. */
static void a_report_of_what_nothing_bounds_is_believed(void **state)
{
    const struct call_kit_config config = {
        .providers = ANTHROPIC_PROVIDER,
        .models = "  opus: {provider: q, price: {input: 1, output: 2}, context: 12800, "
                  "max_output_tokens: 1600}\n",
        .tenant = "budgets: [{usd: 100, per: total, reserve: expected}]"};

    (void)state;
    begin(&config);
    call_client_ask_at(&client, "/v1/messages",
                       "{\"model\":\"opus\",\"max_tokens\":10,\"tools\":[{\"type\":"
                       "\"web_search_20250305\",\"name\":\"web_search\"}],\"messages\":[{\"role\":"
                       "\"user\",\"content\":\"hi\"}]}");
    assert_int_equal(client.call->attempt.bound.input, 10 * 12800); /* `rounds` of them */
    reply_and_end(200, JSON, "{\"usage\":{\"input_tokens\":90000,\"output_tokens\":30000}}");
    assert_int_equal(client.call->spent, 90000 + 2 * 30000);
    assert_int_equal(call_kit_entry(1).flags, 0);
    call_kit_close();
}

/* A token has 128 bytes at most: a text of 1,280 bytes was not made of one token. */
static void a_report_below_what_was_written_is_raised(void **state)
{
    char text[1281], reply[2000];

    (void)state;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(reply, sizeof reply,
             "{\"choices\":[{\"message\":{\"content\":\"%s\"}}],\"usage\":{\"prompt_tokens\":5,"
             "\"completion_tokens\":1}}",
             text);
    begin(NULL);
    call_client_ask(&client, CALL_KIT_BODY);
    reply_and_end(200, JSON, reply);
    assert_int_equal(client.call->usage.output, 10);
    assert_int_equal(client.call->spent, 5 + 2 * 10);
    call_kit_close();
}

/* Where a call may answer in several kinds, what is not known of its output is of the dearest. */
static void what_is_not_known_is_of_the_dearest_kind(void **state)
{
    static const struct {
        const char *ask, *price;
        tg_micro each;
    } rows[] = {
        {"", "audio_output: 20, image_output: 30", 2},
        {"\"modalities\":[\"text\",\"audio\"],", "audio_output: 20", 20},
        {"\"modalities\":[\"text\",\"audio\"],", "audio_output: 1", 2},
        {"\"modalities\":[\"text\",\"image\"],", "image_output: 30", 30},
        {"\"modalities\":[\"audio\",\"image\"],", "audio_output: 20, image_output: 30", 30},
        {"\"modalities\":[\"audio\",\"image\"],", "audio_output: 30, image_output: 20", 30},
    };
    char models[200], body[300];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        snprintf(models, sizeof models,
                 "  m: {provider: p, most_tokens_per_s: 1000, price: {input: 1, output: 2, %s}}\n",
                 rows[i].price);
        snprintf(body, sizeof body,
                 "{\"model\":\"m\",\"stream\":true,\"max_tokens\":10,%s"
                 "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
                 rows[i].ask);
        begin(&(struct call_kit_config){.models = models});
        call_client_ask(&client, body);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(),
                      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],"
                      "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\n");
        call_client_gone(&client, HTTP_HANGUP);
        if (client.call->spent + client.call->uncertain != 4 + 10 * rows[i].each)
            fail_msg("row %zu: %d + %d", i, (int)client.call->spent, (int)client.call->uncertain);
        assert_int_equal(client.call->spent, 4 + 10 * 2);
        end();
    }
}

/* Whoever streams responses says what was used when they are complete. */
static void a_count_before_the_end_of_a_response_is_no_last_word(void **state)
{
    (void)state;
    begin(NULL);
    call_client_ask_at(&client, "/v1/responses",
                       "{\"model\":\"first\",\"stream\":true,\"input\":\"hi\","
                       "\"max_output_tokens\":10}");
    call_out_head(call_kit_out(), 200, EVENT_STREAM);
    call_out_data(call_kit_out(),
                  "data: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"resp_1\","
                  "\"usage\":{\"input_tokens\":4,\"output_tokens\":1,\"total_tokens\":5}}}\n\n");
    call_out_end(call_kit_out());
    assert_false(client.call->usage_reported);
    call_client_gone(&client, HTTP_DONE);
    end();
}

/* A stream that ends is counted by its last chunk, whether it says that it has ended or not. */
static void the_last_count_of_a_whole_stream_is_the_last_word(void **state)
{
    static const char counted[] =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}],"
        "\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\n";

    (void)state;
    for (int says_so = 0; says_so < 2; says_so++) {
        begin(&(struct call_kit_config){.first = "most_tokens_per_s: 1000"});
        call_client_ask(&client, CALL_KIT_STREAM);
        call_out_head(call_kit_out(), 200, EVENT_STREAM);
        call_out_data(call_kit_out(), counted);
        if (says_so)
            call_out_data(call_kit_out(), DONE);
        call_out_end(call_kit_out());
        assert_true(client.call->usage_reported);
        assert_int_equal(client.call->spent, 4 + 2 * 1);
        call_client_gone(&client, HTTP_DONE);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_books_have_no_less_than_the_bill),
        cmocka_unit_test(a_provider_that_ran_out_of_time_may_have_billed),
        cmocka_unit_test(attack_2_each_of_several_prompts_is_written_at_once),
        cmocka_unit_test(attack_1_hanging_up_before_the_usage_is_not_free),
        cmocka_unit_test(attack_1_a_provider_that_runs_on_is_drained),
        cmocka_unit_test(a_count_in_every_chunk_is_no_last_word),
        cmocka_unit_test(attack_17_a_report_that_cannot_be_charges_the_reservation),
        cmocka_unit_test(a_report_within_the_context_is_believed),
        cmocka_unit_test(a_report_of_what_nothing_bounds_is_believed),
        cmocka_unit_test(a_report_below_what_was_written_is_raised),
        cmocka_unit_test(what_is_not_known_is_of_the_dearest_kind),
        cmocka_unit_test(a_count_before_the_end_of_a_response_is_no_last_word),
        cmocka_unit_test(the_last_count_of_a_whole_stream_is_the_last_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
