/* test_call_step.c - every event in every state of a call: what may come leads where the table says
 * and leaves nothing behind, what cannot come is an assertion that fails.
 */
#include "net_call_case.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The provider of `opus` speaks another dialect than the clients here. */
#define FOREIGN_MODELS                                                                          \
    .models = ANTHROPIC_MODEL,                                                                  \
    .providers = "  q: {api: anthropic, base_url: \"http://127.0.0.1:1/base\", on_disconnect: " \
                 "drain, keys: [{name: a1, secret: \"${CALL_KIT_SECRET}\"}]}\n"
#define FOREIGN        \
    {                  \
        FOREIGN_MODELS \
    }

/* Where a state can be reached in several ways, each is one. */
static const struct way {
    const char *name;
    enum call_state state;
    struct call_kit_config config;
} ways[] = {
    {"a head that nobody has read", CALL_NEW, {.first = NULL}},
    {"a body that arrives", CALL_READING, {.first = NULL}},
    {"a long body waits for a thread", CALL_PARSING, {.first = NULL}},
    {"a thread reads a long body", CALL_PARSING, {.second = "retries: 0"}},
    {"whose an object is is asked for",
     CALL_AT_OBJECTS,
     {.remote = true, .first = "context: 8000"}},
    {"a long body waits to be translated", CALL_TRANSLATING, FOREIGN},
    {"a thread translates a long body", CALL_TRANSLATING, {FOREIGN_MODELS, .second = "retries: 0"}},
    {"nothing has come of a foreign reply", CALL_ASKING, FOREIGN},
    {"the head of a foreign stream has come",
     CALL_ASKING,
     {FOREIGN_MODELS, .provider = "    on_disconnect: drain"}},
    {"a foreign stream is translated",
     CALL_ANSWERING,
     {FOREIGN_MODELS, .provider = "    on_disconnect: drain"}},
    {"the client of a foreign reply has left",
     CALL_DRAINING,
     {FOREIGN_MODELS, .provider = "    on_disconnect: drain"}},
    {"no slot of the route is free", CALL_AT_SLOT, {.first = ONE_SLOT, .gate = "  " LONG_WAIT}},
    {"no slot of the gate is free", CALL_AT_GATE, {.gate = "  " ONE_SLOT "\n  " LONG_WAIT}},
    {"limits are asked for", CALL_AT_LIMITS, {.remote = true}},
    {"money is asked for", CALL_AT_MONEY, {.remote = true}},
    {"a key is asked for", CALL_AT_KEY, {.remote = true}},
    {"a token is waited for", CALL_AT_TOKEN, {.first = NULL}},
    {"nothing has come of the reply", CALL_ASKING, {.first = NULL}},
    {"the head of a stream has come", CALL_ASKING, {.provider = "    on_disconnect: drain"}},
    {"a failed attempt", CALL_PAUSING, {.first = NULL}},
    {"a reply that passes", CALL_ANSWERING, {.first = NULL}},
    {"a stream that passes", CALL_ANSWERING, {.provider = "    on_disconnect: drain"}},
    {"the client has left", CALL_DRAINING, {.provider = "    on_disconnect: drain"}},
    {"the client has left before the reply",
     CALL_DRAINING,
     {.provider = "    on_disconnect: drain", .first = "retries: 0"}},
    {"it was refused", CALL_OVER, {.first = NULL}},
    {"it was answered", CALL_OVER, {.provider = "    on_disconnect: drain"}},
    {"it has ended", CALL_FREED, {.first = NULL}},
};

static bool is_stream(const struct way *way)
{
    return way->config.provider != NULL;
}

static bool is_foreign(const struct way *way)
{
    return way->config.models != NULL;
}

/* The client leaves before the head of the reply has come. */
static bool is_early(const struct way *way)
{
    return way->state == CALL_DRAINING && way->config.first != NULL;
}

/* Opens the kit and brings `client` into the state. */
static void reach(const struct way *way)
{
    call_kit_open(&way->config);
    memset(&other, 0, sizeof other);
    switch (way->state) {
    case CALL_NEW:
        call_client_new(&client);
        break;
    case CALL_READING:
        call_client_begin(&client, -1);
        call_client_body(&client, CALL_KIT_BODY);
        break;
    case CALL_PARSING:
        call_client_ask(&client, call_kit_long_body());
        call_kit.job_runs = way->config.second != NULL;
        break;
    case CALL_AT_OBJECTS:
        call_client_ask_at(&client, "/v1/responses", CALL_KIT_NAMES);
        break;
    case CALL_TRANSLATING:
        call_client_ask(&client, call_kit_large_body());
        call_kit.job_runs = way->config.second != NULL;
        break;
    case CALL_AT_SLOT:
    case CALL_AT_GATE:
        call_client_ask(&other, CALL_KIT_BODY);
        assert_int_equal(other.call->state, CALL_ASKING);
        call_client_ask(&client, CALL_KIT_BODY);
        break;
    case CALL_AT_LIMITS:
        call_kit.limits = REMOTE_SAYS_LATER;
        call_client_ask(&client, CALL_KIT_BODY);
        break;
    case CALL_AT_MONEY:
        call_kit.money = REMOTE_SAYS_LATER;
        call_client_ask(&client, CALL_KIT_BODY);
        break;
    case CALL_AT_KEY:
        call_kit.key = REMOTE_SAYS_LATER;
        call_client_ask(&client, CALL_KIT_BODY);
        break;
    case CALL_AT_TOKEN:
        call_kit_want_token();
        call_client_ask(&client, CALL_KIT_BODY);
        break;
    case CALL_FREED:
        call_client_ask(&client, CALL_KIT_BODY);
        call_client_gone(&client, HTTP_HANGUP);
        break;
    default:
        if (is_foreign(way))
            call_client_ask(&client, is_stream(way) ? STREAM_OF_OPUS : CHAT_WITH_OPUS);
        else
            call_client_ask(&client, is_stream(way) ? CALL_KIT_STREAM : CALL_KIT_BODY);
        if (is_early(way))
            call_kit_out()->out.sent = true;
        else if (way->state == CALL_PAUSING)
            call_out_fail(call_kit_out(), HTTP_UNREACHABLE);
        else if (is_stream(way))
            call_out_head(call_kit_out(), 200, EVENT_STREAM);
        else if (way->state == CALL_ANSWERING)
            call_out_head(call_kit_out(), 200, JSON);
        else if (way->state == CALL_OVER)
            call_out_reply(call_kit_out(), 404, JSON, "{}");
        if (is_stream(way) && way->state != CALL_ASKING && !is_early(way))
            call_out_data(call_kit_out(), is_foreign(way) ? MESSAGE_START : CHUNK);
        if (is_stream(way) && way->state == CALL_OVER)
            call_out_end(call_kit_out());
        if (way->state == CALL_DRAINING)
            call_client_gone(&client, HTTP_HANGUP);
    }
    assert_string_equal(call_state_name(client.call->state), call_state_name(way->state));
}

/* ---- events ---- */

/* What the remote store answers with the variant that was chosen last. */
static enum call_remote remote_says;

/* What may come with an event: the nth of its variants, or nothing after the last. */
static bool input_of(enum call_event event, int nth, struct call_input *input)
{
    static struct http_field fields[2];
    static struct http_head head;
    static const struct tg_axes axes;
    static const struct tg_money_answer money;
    static const int statuses[] = {200, 200, 400, 429, 503, 302};
    static const char *const texts[] = {CHUNK, ERROR_EVENT, "{", ":\n\n",
                                        MESSAGE_START, MESSAGE_STOP, MESSAGE_ERROR, MESSAGE};
    static const enum http_why whys[] = {HTTP_RESET, HTTP_LATE_FIRST_BYTE, HTTP_UNREACHABLE};
    static const enum http_why ends[] = {HTTP_HANGUP, HTTP_DONE, HTTP_ABORTED};

    *input = (struct call_input){.err = TG_OK};
    switch (event) {
    case CALL_ON_BODY:
        input->bytes = slice_of(nth == 0 ? "{" : CALL_KIT_BODY);
        return nth < 2;
    case CALL_ON_LIMITS:
    case CALL_ON_MONEY:
    case CALL_ON_KEY:
    case CALL_ON_OBJECTS:
        input->axes = &axes;
        input->money = &money;
        remote_says = (enum call_remote)nth;
        return nth < REMOTE_SAYS_LATER;
    case CALL_ON_REPLY_HEAD:
        if (nth >= (int)COUNT_OF(statuses))
            return false;
        fields[0] = (struct http_field){SLICE("content-type"),
                                        slice_of(nth == 1 ? EVENT_STREAM : JSON)};
        head = (struct http_head){
            .status = statuses[nth], .fields = fields, .n_fields = 1, .length = -1};
        input->head = &head;
        return true;
    case CALL_ON_REPLY_DATA:
        input->bytes = slice_of(nth < (int)COUNT_OF(texts) ? texts[nth] : "");
        return nth < (int)COUNT_OF(texts);
    case CALL_ON_REPLY_FAILED:
        input->why = nth < (int)COUNT_OF(whys) ? whys[nth] : HTTP_DONE;
        return nth < (int)COUNT_OF(whys);
    case CALL_ON_GONE:
        input->why = nth < (int)COUNT_OF(ends) ? ends[nth] : HTTP_DONE;
        return nth < (int)COUNT_OF(ends);
    default:
        return nth < 1;
    }
}

/* Sends it like the world around a call: with what the world knows of it, too. */
static void send_event(enum call_event event, const struct call_input *input)
{
    struct call_out *out = call_kit.n_outs > 0 ? call_kit_out() : NULL;

    switch (event) {
    case CALL_ON_PARSED:
        call_kit_parse();
        break;
    case CALL_ON_WORKER_END:
        if (client.call->state == CALL_PARSING || client.call->state == CALL_TRANSLATING)
            call_client_gone(&client, HTTP_HANGUP);
        if (client.call->state != CALL_FREED)
            call_step(client.call, event, input);
        break;
    case CALL_ON_TIMER:
        call_kit_pass(2 * 3600 * 1000);
        break;
    case CALL_ON_LIMITS:
        call_kit_answer_limits(remote_says);
        break;
    case CALL_ON_MONEY:
        call_kit_answer_money(remote_says);
        break;
    case CALL_ON_KEY:
        call_kit_answer_key(remote_says);
        break;
    case CALL_ON_OBJECTS:
        call_kit_answer_objects(remote_says);
        break;
    case CALL_ON_REPLY_HEAD:
        out->out.sent = out->out.head_seen = true;
        call_step(client.call, event, input);
        break;
    case CALL_ON_REPLY_END:
    case CALL_ON_REPLY_FAILED:
        out->out.sent = true;
        call_step(client.call, event, input);
        out->over = true;
        break;
    default:
        call_step(client.call, event, input);
    }
}

/* Ends whatever is left of both calls, and counts. */
static void finish(void)
{
    struct call *calls[2];
    size_t n = 0;

    if (client.call->state != CALL_FREED && client.call->in != NULL)
        call_client_gone(&client, HTTP_HANGUP);
    if (client.call->state == CALL_PARSING || client.call->state == CALL_TRANSLATING)
        call_kit_parse();
    if (client.call->state == CALL_DRAINING)
        call_step(client.call, CALL_ON_WORKER_END, NULL);
    calls[n++] = client.call;
    if (other.call != NULL) {
        call_client_gone(&other, HTTP_HANGUP);
        calls[n++] = other.call;
    }
    call_kit_expect_idle(calls, n);
    call_kit_close();
}

static void what_may_come_leads_where_the_table_says(void **state)
{
    struct call_input input;
    int steps = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ways); i++)
        for (enum call_event event = 0; event < CALL_EVENT_COUNT; event++) {
            bool has_head = is_stream(&ways[i]) && !is_early(&ways[i]);
            if (!call_may_come(ways[i].state, event))
                continue;
            /* One head, and nothing of a body before it: the client of HTTP promises that. */
            if ((ways[i].state == CALL_ASKING || ways[i].state == CALL_DRAINING) &&
                (has_head ? event == CALL_ON_REPLY_HEAD
                          : event == CALL_ON_REPLY_DATA || event == CALL_ON_REPLY_END))
                continue;
            for (int nth = 0; input_of(event, nth, &input); nth++) {
                reach(&ways[i]);
                send_event(event, &input);
                enum call_state to = client.call->state;
                if (!call_may_follow(ways[i].state, event, to))
                    fail_msg("%s (%s): %s leads to %s", call_state_name(ways[i].state),
                             ways[i].name, call_event_name(event), call_state_name(to));
                finish();
                steps++;
            }
        }
    assert_true(steps > 60);
}

/* Whether it aborts the process. */
static bool aborts(enum call_event event, const struct call_input *input)
{
    int status;

    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(3);
        call_step(client.call, event, input);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void what_cannot_come_asserts(void **state)
{
    struct call_input input;
    int asserted = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        reach(&ways[i]);
        for (enum call_event event = 0; event < CALL_EVENT_COUNT; event++) {
            if (call_may_come(ways[i].state, event))
                continue;
            input_of(event, 0, &input);
            if (!aborts(event, &input))
                fail_msg("%s (%s): %s is taken", call_state_name(ways[i].state), ways[i].name,
                         call_event_name(event));
            asserted++;
        }
        if (ways[i].state == CALL_NEW)
            call_step(client.call, CALL_ON_HEAD, NULL);
        finish();
    }
    assert_true(asserted > 150);
}

/* The states that are drawn, and what leads out of each of them. */
static void every_state_can_be_reached_and_left(void **state)
{
    (void)state;
    for (enum call_state at = CALL_READING; at < CALL_STATE_COUNT; at++) {
        bool entered = false, left = at == CALL_FREED;
        for (enum call_event event = 0; event < CALL_EVENT_COUNT; event++)
            for (enum call_state with = 0; with < CALL_STATE_COUNT; with++) {
                entered |= with != at && call_may_follow(with, event, at);
                left |= with != at && call_may_follow(at, event, with);
            }
        if (!entered || !left)
            fail_msg("%s", call_state_name(at));
    }
    for (enum call_event event = 0; event < CALL_EVENT_COUNT; event++)
        assert_false(call_may_come(CALL_FREED, event));
    assert_string_equal(call_state_name(CALL_FREED), "FREED");
    assert_string_equal(call_event_name(CALL_ON_WORKER_END), "WORKER_END");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_come_leads_where_the_table_says),
        cmocka_unit_test(what_cannot_come_asserts),
        cmocka_unit_test(every_state_can_be_reached_and_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
