/* test_server.c - the server of the scenarios: who is served when, first come or shared. */
#include <math.h>

#include "check.h"
#include "lab/scenario/server.h"

/* Advances to the end of the next service. */
static struct server_call *next(struct server *server)
{
    server_advance(server, server_next_ms(server));
    return server_end_service(server);
}

static void expect_end(struct server *server, const struct server_call *call, double at)
{
    assert_ptr_equal(next(server), call);
    assert_true(fabs(server->now_ms - at) <= 1e-9);
}

static void first_come_first_served(void **state)
{
    struct server_call calls[3] = {{.service_ms = 10}, {.service_ms = 4}, {.service_ms = 5}};
    struct server server;

    (void)state;
    server_init(&server, false);
    server.workers = 2;
    for (int i = 0; i < 3; i++)
        server_enter(&server, &calls[i]);
    expect_end(&server, &calls[1], 4);
    expect_end(&server, &calls[2], 9);
    expect_end(&server, &calls[0], 10);
    assert_true(fabs(calls[2].started_ms - 4) <= 0);
    assert_true(isinf(server_next_ms(&server)));
    server_fini(&server);
}

static void the_next_to_start_does_the_work_of_refusals(void **state)
{
    struct server_call calls[2] = {{.service_ms = 10}, {.service_ms = 10}};
    struct server server;

    (void)state;
    server_init(&server, false);
    server.workers = 1;
    server_enter(&server, &calls[0]);
    server_add_work(&server, 1);
    server_add_work(&server, 2);
    server_enter(&server, &calls[1]);
    expect_end(&server, &calls[0], 10);
    expect_end(&server, &calls[1], 23);
    server_fini(&server);
}

static void workers_that_fail_finish_first(void **state)
{
    struct server_call calls[4] = {
        {.service_ms = 5}, {.service_ms = 6}, {.service_ms = 7}, {.service_ms = 8}};
    struct server server;

    (void)state;
    server_init(&server, false);
    server.workers = 2;
    for (int i = 0; i < 4; i++)
        server_enter(&server, &calls[i]);
    server.workers = 1;
    expect_end(&server, &calls[0], 5);
    assert_int_equal(server.busy, 1);
    expect_end(&server, &calls[1], 6);
    expect_end(&server, &calls[2], 13);
    expect_end(&server, &calls[3], 21);
    server_fini(&server);
}

/* Two workers and three calls: each gets two thirds of one, until one has ended. */
static void shared_workers_serve_all_evenly(void **state)
{
    struct server_call calls[3] = {{.service_ms = 4}, {.service_ms = 8}, {.service_ms = 8}};
    struct server server;

    (void)state;
    server_init(&server, true);
    server.workers = 2;
    for (int i = 0; i < 3; i++)
        server_enter(&server, &calls[i]);
    expect_end(&server, &calls[0], 6);
    expect_end(&server, &calls[1], 10);
    expect_end(&server, &calls[2], 10);
    server_fini(&server);
}

static void an_agenda_keeps_the_order_of_one_instant(void **state)
{
    struct agenda agenda = {0};

    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        assert_true(agenda_add(&agenda, (double)(i % 3), NULL, i));
    for (uint64_t i = 0, before = 0; i < 100; i++) {
        struct agenda_item item = agenda_take(&agenda);
        uint64_t key = (uint64_t)item.at * 1000 + item.detail;
        assert_true(i == 0 || key > before);
        before = key;
    }
    agenda_fini(&agenda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_come_first_served),
        cmocka_unit_test(the_next_to_start_does_the_work_of_refusals),
        cmocka_unit_test(workers_that_fail_finish_first),
        cmocka_unit_test(shared_workers_serve_all_evenly),
        cmocka_unit_test(an_agenda_keeps_the_order_of_one_instant),
    };

    return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
