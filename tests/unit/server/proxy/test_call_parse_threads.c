/* test_call_parse_threads.c - bodies that are read on the pool, while their clients leave.
 */
#include "net_call_case.h"

#include <string.h>

#include "lib/core/random.h"

enum { CALLS = 300 };

static struct call_env env;

/* The long body has a field that nobody knows, which may bring in as much as the model takes. */
static void begin_real(void)
{
    static const struct call_kit_config config = {.first = "context: 1000000"};

    begin(&config);
    env = call_kit_env;
    env.job_put = net_pool_put;
    env.job_cancel = net_pool_cancel;
    env.job_end = net_pool_end;
}

/* A request with a long body, which waits for a thread or is read by one. */
static void ask_long(struct call_client *who)
{
    call_client_begin(who, -1);
    who->call->env = &env;
    call_client_body(who, call_kit_long_body());
    call_client_end(who);
    assert_int_equal(who->call->state, CALL_PARSING);
}

static void long_bodies_are_read(void **state)
{
    (void)state;
    begin_real();
    for (int i = 0; i < 20; i++) {
        ask_long(&client);
        while (client.call->state == CALL_PARSING)
            net_loop_turn(call_kit.worker.loop, true);
        expect_state(CALL_ASKING);
        reply_and_end(200, JSON, CALL_KIT_REPLY);
    }
    call_kit_close();
}

/* Whenever the client leaves, nothing is left of the call, and no thread touches it any more. */
static void clients_leave_while_their_bodies_are_read(void **state)
{
    static struct call_client clients[8];
    struct random random;

    (void)state;
    begin_real();
    random_init(&random, 1018, 1);
    for (int i = 0; i < CALLS; i++) {
        struct call_client *who = &clients[random_bits(&random) % COUNT_OF(clients)];
        if (who->call != NULL && who->call->in == NULL) {
            net_loop_turn(call_kit.worker.loop, false); /* its thread has not ended */
        } else if (who->call != NULL) {
            struct call *call = who->call;
            call_client_gone(who, HTTP_HANGUP);
            if (call->state == CALL_FREED)
                who->call = NULL;
        } else if (random_bits(&random) % 2 != 0) {
            memset(who, 0, sizeof *who);
            ask_long(who);
        }
        if (random_bits(&random) % 3 == 0)
            net_loop_turn(call_kit.worker.loop, false);
        for (size_t k = 0; k < COUNT_OF(clients); k++) {
            if (clients[k].call != NULL && clients[k].call->state == CALL_ASKING)
                call_client_gone(&clients[k], HTTP_HANGUP);
            if (clients[k].call != NULL && clients[k].call->state == CALL_FREED)
                clients[k].call = NULL;
        }
        call_kit.n_outs = 0;
    }
    /* The worker ends while some are being read. */
    for (size_t k = 0; k < COUNT_OF(clients); k++)
        if (clients[k].call == NULL) {
            memset(&clients[k], 0, sizeof clients[k]);
            ask_long(&clients[k]);
        }
    for (size_t k = 0; k < COUNT_OF(clients); k++)
        if (clients[k].call->in != NULL)
            call_client_gone(&clients[k], HTTP_HANGUP);
    call_kit_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_bodies_are_read),
        cmocka_unit_test(clients_leave_while_their_bodies_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
