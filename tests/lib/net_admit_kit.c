/* net_admit_kit.c - a gateway with callers and two workers, for tests of the Admit service. */
#include "net_admit_kit.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "server/serve/services.h"
#include "server/tenancy/virtual_key.h"

static const struct {
    const char *name, *may;
} callers[] = {{"all", "tenant, peer, priority, value"}, {"none", ""}, {"other", "tenant"}};

static size_t put_callers(char *yaml, size_t size)
{
    size_t n = (size_t)snprintf(yaml, size, "callers:\n");

    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        uint8_t hash[VIRTUAL_KEY_HASH];
        char hex[VIRTUAL_KEY_HEX + 1];
        assert_true(virtual_key_hash(slice_of(callers[i].name), hash));
        virtual_key_hex(hash, hex);
        n += (size_t)snprintf(yaml + n, size - n, "  - {name: %s, token_sha256: %s, may: [%s]}\n",
                              callers[i].name, hex, callers[i].may);
    }
    return n;
}

void kit_open(struct admit_kit *kit, const char *more)
{
    struct config_problems problems;
    struct tg_problem trouble;
    struct tg_problem problem;
    struct config config;
    char yaml[4000];
    size_t n;

    memset(kit, 0, sizeof *kit);
    clock_init(&kit->clock);
    n = (size_t)snprintf(yaml, sizeof yaml,
                         "listen: {gateway: \"127.0.0.1:0\"}\n"
                         "ledger: {path: \":memory:\"}\n"
                         "log: {level: error}\n");
    n += put_callers(yaml + n, sizeof yaml - n);
    n += (size_t)snprintf(yaml + n, sizeof yaml - n, "%s%s",
                          strstr(more, "gate:") != NULL ? "" : KIT_GATE, more);
    assert_true(n < sizeof yaml);
    if (config_parse(NULL, yaml, n, &config, &problems) != CONFIG_READ)
        fail_msg("%s", problems.list[0].text);
    config_problems_free(&problems);
    config.store.timeout = 10000; /* more than the schema allows: a slow machine is no failure */
    if (!gateway_new(&services, &config, &kit->clock, COUNT_OF(kit->workers), &kit->gateway,
                     &trouble))
        fail_msg("%s", trouble.text);
    for (size_t i = 0; i < COUNT_OF(kit->workers); i++)
        if (!worker_init(&kit->workers[i], kit->gateway, i, &kit->workers[0], &problem))
            fail_msg("%s", problem.text);
}

void kit_close(struct admit_kit *kit)
{
    for (size_t i = 0; i < COUNT_OF(kit->workers); i++)
        worker_fini(&kit->workers[i]);
    gateway_free(kit->gateway);
}

void kit_turn(struct admit_kit *kit)
{
    for (size_t i = 0; i < COUNT_OF(kit->workers); i++)
        net_loop_turn(kit->workers[i].loop, false);
}

void kit_pass(struct admit_kit *kit, tg_ms ms)
{
    tg_ms then = worker_now(&kit->workers[0]) + ms;

    kit->gateway->clock.epoch_ns += ms * 1000000;
    do /* a loop looks at the clock when its own has moved */
        kit_turn(kit);
    while (worker_now(&kit->workers[0]) < then || worker_now(&kit->workers[1]) < then);
    tg_gate_tick(kit->gateway->gate, worker_now(&kit->workers[0]));
    admit_tick(kit->gateway, worker_now(&kit->workers[0]));
    kit_turn(kit);
}

bool kit_caller(struct admit_kit *kit, const char *token, struct admit_caller *caller)
{
    const struct http_field field = {SLICE("x-api-key"), slice_of(token)};
    const struct http_head head = {.fields = &field, .n_fields = 1};

    return admit_authenticate(&kit->workers[0], &head, caller, NULL);
}

static void told(void *context, const struct admit_reply *reply)
{
    struct kit_answer *answer = context;

    assert_false(answer->told);
    answer->told = true;
    answer->reply = *reply;
    answer->pending = NULL;
}

void kit_ask(struct admit_kit *kit, size_t worker, const char *token, const struct admit_ask *ask,
             struct kit_answer *answer)
{
    struct admit_caller caller;

    memset(answer, 0, sizeof *answer);
    assert_true(kit_caller(kit, token, &caller));
    answer->pending = admit_start(&kit->workers[worker], &caller, ask, told, answer);
    assert_true(answer->told == (answer->pending == NULL));
}

void kit_peek(struct admit_kit *kit, size_t worker, const char *token, const struct admit_ask *ask,
              struct kit_answer *answer)
{
    struct admit_caller caller;

    memset(answer, 0, sizeof *answer);
    assert_true(kit_caller(kit, token, &caller));
    answer->pending = admit_peek(&kit->workers[worker], &caller, ask, told, answer);
    assert_true(answer->told == (answer->pending == NULL));
}

bool kit_admit(struct admit_kit *kit, const char *token, struct kit_answer *answer)
{
    struct admit_ask ask;

    admit_ask_init(&ask);
    kit_ask(kit, 0, token, &ask, answer);
    return answer->told && answer->reply.allowed;
}

bool kit_release(struct admit_kit *kit, size_t worker, const char *token,
                 const struct kit_answer *answer)
{
    const struct slice lease = {answer->reply.lease, answer->reply.lease_bytes};
    struct admit_caller caller;
    struct admit_reply error;
    struct tg_release release;
    bool found;

    tg_release_init(&release);
    assert_true(kit_caller(kit, token, &caller));
    assert_int_equal(admit_release(&kit->workers[worker], &caller, lease, &release, &found, &error),
                     ADMIT_DECIDED);
    return found;
}

struct tg_gate_stats kit_stats(const struct admit_kit *kit)
{
    struct tg_gate_stats stats;

    tg_gate_get_stats(kit->gateway->gate, &stats);
    return stats;
}

int64_t kit_queued(const struct admit_kit *kit)
{
    struct tg_gate_stats stats = kit_stats(kit);

    return stats.queued[TG_PRIORITY_HIGH] + stats.queued[TG_PRIORITY_NORMAL] +
           stats.queued[TG_PRIORITY_LOW];
}
