/* test_call_walks.c - calls to which anything happens that can, in random order: nothing is left of
 * them.
 */
#include "net_call_case.h"

#include <stdio.h>
#include <string.h>

#include "lib/core/random.h"

/* ---- random walks ---- */

/* Something that can happen to the call now; false: nothing can but that the client leaves. */
static void random_event(struct random *random)
{
    const char *const bodies[] = {CALL_KIT_BODY, CALL_KIT_STREAM, call_kit_long_body(), "{", "x"};
    const char *const foreign[] = {CHAT_WITH_OPUS, STREAM_OF_OPUS, call_kit_large_body(),
                                   call_kit_unbounded_body()};
    static const int statuses[] = {200, 200, 200, 400, 401, 402, 429, 500, 503, 302};
    static const char *const pieces[] = {CHUNK, DONE, ":\n\n", CALL_KIT_REPLY, "{\"error\":1}",
                                         "data: {\"error\":{\"type\":\"server_error\"}}\n\n",
                                         MESSAGE,
                                         MESSAGE_START,
                                         MESSAGE_TEXT,
                                         MESSAGE_STOP,
                                         MESSAGE_ERROR};
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
        if (choice < 8 && call->body.n == 0 && pick % 4 == 0)
            call_client_body(&client, foreign[pick / 4 % COUNT_OF(foreign)]);
        else if (choice < 8)
            call_client_body(&client, bodies[pick % (choice < 2 ? COUNT_OF(bodies) : 3)]);
        else
            call_client_end(&client);
        break;
    case CALL_PARSING:
    case CALL_TRANSLATING:
    case CALL_BOUNDING:
        call_kit.job_runs |= choice % 2 == 0;
        if (choice == 1 && call->in == NULL)
            call_step(call, CALL_ON_WORKER_END, NULL);
        else if (choice > 4)
            call_kit_parse();
        break;
    case CALL_AT_OBJECTS:
        call_kit_answer_objects((enum call_remote)(pick % 3));
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
    case CALL_AT_TOKEN:
        call_kit_give_token(pick % 3 != 0);
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
        {.remote = true, .first = "fallback: [second], context: 8000"},
        {.first = "retries: 0, fallback: [opus]",
         .providers = ANTHROPIC_PROVIDER,
         .models = "  opus: {provider: q, price: {input: 1, output: 2}, fallback: [second], "
                   "max_output_tokens: 77, on_unbounded: clamp, clamp_to: 20}\n"},
        {.remote = true, .key = "concurrency: 1"},
    };
    bool seen[CALL_STATE_COUNT] = {false};

    (void)state;
    for (uint64_t seed = 1; seed <= 32; seed++) {
        struct random random;
        random_init(&random, seed, 3);
        begin(&configs[seed % COUNT_OF(configs)]);
        for (int n = 0; n < 32; n++) {
            int steps = 0;
            if (seed % COUNT_OF(configs) == 1 && n % 4 == 0)
                call_kit_want_token();
            call_kit.limits = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            call_kit.money = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            call_kit.key = random_bits(&random) % 2 ? REMOTE_SAYS_LATER : REMOTE_SAYS_YES;
            if (random_bits(&random) % 4 == 0) {
                call_client_begin_at(&client, "POST", "/v1/responses", -1);
                call_client_body(&client, CALL_KIT_NAMES);
            } else {
                call_client_begin(&client, -1);
            }
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
        cmocka_unit_test(random_walks_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
