/* test_admit_lease.c - leases of callers: their ids, their ends, and that nothing is left. */
#include "check.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "net_admit_kit.h"
#include "server/admit/admit_internal.h"

static struct admit_kit kit;

/* ---- ids ---- */

static void of_openssl(const uint8_t key[SIPHASH_KEY], const uint8_t *bytes, size_t n,
                       uint8_t tag[SIPHASH_TAG])
{
    size_t size = SIPHASH_TAG, got = 0;
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                               OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);

    assert_int_equal(EVP_MAC_init(context, key, SIPHASH_KEY, parameters), 1);
    assert_int_equal(EVP_MAC_update(context, bytes, n), 1);
    assert_int_equal(EVP_MAC_final(context, tag, &got, SIPHASH_TAG), 1);
    assert_int_equal(got, SIPHASH_TAG);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
}

static void the_keyed_hash_is_siphash(void **state)
{
    uint8_t key[SIPHASH_KEY], bytes[100], ours[SIPHASH_TAG], theirs[SIPHASH_TAG];

    (void)state;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(i * 17 + 3);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 + 200);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        siphash(key, bytes, n, ours);
        of_openssl(key, bytes, n, theirs);
        assert_memory_equal(ours, theirs, SIPHASH_TAG);
    }
}

static void an_id_says_what_it_was_made_of(void **state)
{
    static const struct admit_lease rows[] = {{1, 1, false},
                                              {UINT64_MAX, ADMIT_TTL_MAX, true},
                                              {UINT64_C(0x0123456789abcdef), 30000, true},
                                              {42, ADMIT_TTL_MAX - 1, false}};
    char text[ADMIT_LEASE_BYTES];
    struct admit_lease lease;

    (void)state;
    kit_open(&kit, "");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        admit_lease_write(kit.gateway, "envoy", &rows[i], text);
        assert_memory_equal(text, kit.gateway->node_id, GATEWAY_NODE_BYTES);
        assert_true(admit_lease_read(kit.gateway, "envoy",
                                     (struct slice){text, sizeof text}, &lease));
        assert_true(lease.lease == rows[i].lease);
        assert_int_equal(lease.ttl, rows[i].ttl);
        assert_int_equal(lease.is_bound, rows[i].is_bound);
    }
    kit_close(&kit);
}

static void an_id_with_any_character_changed_is_none(void **state)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_ =\"\0\n";
    const struct admit_lease made = {7, 30000, false};
    char text[ADMIT_LEASE_BYTES];
    struct admit_lease lease;

    (void)state;
    kit_open(&kit, "");
    admit_lease_write(kit.gateway, "envoy", &made, text);
    for (size_t i = 0; i < sizeof text; i++)
        for (size_t k = 0; k < sizeof alphabet - 1; k++) {
            char was = text[i];
            text[i] = alphabet[k];
            assert_int_equal(admit_lease_read(kit.gateway, "envoy",
                                              (struct slice){text, sizeof text}, &lease),
                             alphabet[k] == was);
            text[i] = was;
        }
    for (size_t n = 0; n < sizeof text; n++)
        assert_false(
            admit_lease_read(kit.gateway, "envoy", (struct slice){text, n}, &lease));
    assert_false(
        admit_lease_read(kit.gateway, "envoY", (struct slice){text, sizeof text}, &lease));
    kit_close(&kit);
}

static void an_id_of_another_process_is_none(void **state)
{
    struct admit_kit elsewhere;
    struct kit_answer answer;
    char node[GATEWAY_NODE_BYTES + 1];

    (void)state;
    kit_open(&kit, "");
    kit_open(&elsewhere, "");
    assert_true(kit_admit(&kit, "all", &answer));
    assert_false(kit_release(&elsewhere, 0, "all", &answer));
    memcpy(node, elsewhere.gateway->node_id, sizeof node);
    memcpy(elsewhere.gateway->node_id, kit.gateway->node_id, sizeof node);
    assert_false(kit_release(&elsewhere, 0, "all", &answer)); /* the name is not the secret */
    assert_true(kit_release(&kit, 0, "all", &answer));
    kit_close(&elsewhere);
    kit_close(&kit);
}

/* ---- ends ---- */

static void a_lease_is_released_once_by_any_worker(void **state)
{
    struct kit_answer answer;

    (void)state;
    kit_open(&kit, "");
    for (size_t worker = 0; worker < 2; worker++) {
        assert_true(kit_admit(&kit, "none", &answer));
        assert_int_equal(answer.reply.lease_bytes, ADMIT_LEASE_BYTES);
        assert_int_equal(kit_stats(&kit).in_flight, 1);
        assert_true(kit_release(&kit, worker, "none", &answer));
        assert_int_equal(kit_stats(&kit).in_flight, 0);
        assert_false(kit_release(&kit, worker, "none", &answer));
    }
    kit_close(&kit);
}

static bool renewed(const char *token, const struct kit_answer *answer, tg_ms *deadline)
{
    const struct slice lease = {answer->reply.lease, answer->reply.lease_bytes};
    struct admit_caller caller;
    struct admit_reply error;
    bool live = false;

    assert_true(kit_caller(&kit, token, &caller));
    assert_int_equal(admit_heartbeat(&kit.workers[1], &caller, &lease, 1, &live, deadline, &error),
                     ADMIT_DECIDED);
    return live;
}

static void a_lease_is_its_callers_alone(void **state)
{
    struct kit_answer answer;
    tg_ms deadline;

    (void)state;
    kit_open(&kit, "");
    assert_true(kit_admit(&kit, "none", &answer));
    assert_false(kit_release(&kit, 0, "all", &answer));
    assert_false(renewed("all", &answer, &deadline));
    assert_int_equal(deadline, 0);
    assert_int_equal(kit_stats(&kit).in_flight, 1);
    assert_true(renewed("none", &answer, &deadline));
    assert_true(kit_release(&kit, 0, "none", &answer));
    kit_close(&kit);
}

static void a_heartbeat_gives_the_time_that_was_asked_for(void **state)
{
    struct kit_answer asked, usual;
    struct admit_ask ask;
    tg_ms deadline;

    (void)state;
    kit_open(&kit, "");
    admit_ask_init(&ask);
    ask.ttl_ms = 2000;
    kit_ask(&kit, 0, "all", &ask, &asked);
    assert_int_equal(asked.reply.lease_expires_at, worker_now(&kit.workers[0]) + 2000);
    assert_true(kit_admit(&kit, "all", &usual));
    assert_int_equal(usual.reply.lease_expires_at,
                     worker_now(&kit.workers[0]) + ADMIT_TTL_DEFAULT);
    for (int i = 0; i < 3; i++) {
        kit_pass(&kit, 1500);
        assert_true(renewed("all", &asked, &deadline));
        assert_int_equal(deadline, worker_now(&kit.workers[1]) + 2000);
    }
    assert_int_equal(kit_stats(&kit).leases, 2);
    kit_pass(&kit, 2000);
    assert_false(renewed("all", &asked, &deadline));
    assert_false(kit_release(&kit, 0, "all", &asked));
    assert_int_equal(kit_stats(&kit).leases, 1);
    kit_pass(&kit, ADMIT_TTL_DEFAULT);
    assert_int_equal(kit_stats(&kit).leases, 0);
    assert_false(kit_release(&kit, 0, "all", &usual));
    kit_close(&kit);
}

#define MANY                                                            \
    "gate:\n"                                                           \
    "  concurrency: {law: fixed, initial: 20000, min: 1, max: 20000}\n" \
    "  peers: {limit: 20000}\n"

static void ten_thousand_that_die_leave_nothing(void **state)
{
    enum { N = 10000 };
    struct kit_answer answer;
    struct admit_ask ask;
    struct tg_gate_stats stats;

    (void)state;
    kit_open(&kit, MANY);
    admit_ask_init(&ask);
    for (int i = 0; i < N; i++) {
        ask.ttl_ms = 1 + i;
        ask.connection = i % 2 == 0 ? 0 : (uint64_t)i / 100 + 1;
        kit_ask(&kit, (size_t)i % 2, "none", &ask, &answer);
        assert_true(answer.reply.allowed);
    }
    stats = kit_stats(&kit);
    assert_int_equal(stats.leases, N);
    assert_int_equal(stats.in_flight, N);
    assert_int_equal(admit_count_bound(kit.gateway), N / 2);
    kit_pass(&kit, N + 1);
    stats = kit_stats(&kit);
    assert_int_equal(stats.leases, 0);
    assert_int_equal(stats.in_flight, 0);
    assert_int_equal(stats.peer_calls, 0);
    assert_int_equal(stats.expired, N);
    assert_int_equal(admit_count_bound(kit.gateway), 0);
    kit_close(&kit);
}

/* ---- ends of connections ---- */

static void tied(uint64_t connection, tg_ms ttl, struct kit_answer *answer)
{
    struct admit_ask ask;

    admit_ask_init(&ask);
    ask.connection = connection;
    ask.ttl_ms = ttl;
    kit_ask(&kit, 0, "all", &ask, answer);
    assert_true(answer->reply.allowed);
}

static void what_is_bound_ends_with_its_connection(void **state)
{
    struct kit_answer a, b, other, released;
    tg_ms deadline;

    (void)state;
    kit_open(&kit, MANY);
    tied(7, 100000, &a);
    tied(7, 600000, &b);
    tied(8, 600000, &other);
    tied(7, 600000, &released);
    assert_true(kit_release(&kit, 1, "all", &released));
    assert_int_equal(admit_count_bound(kit.gateway), 3);
    kit_pass(&kit, 90000);
    assert_true(renewed("all", &a, &deadline)); /* by another worker: the tie lives as long */
    kit_pass(&kit, 90000);
    assert_int_equal(admit_count_bound(kit.gateway), 3);
    admit_connection_closed(&kit.workers[0], 9);
    assert_int_equal(kit_stats(&kit).leases, 3);
    assert_true(admit_connection_is_held(&kit.workers[0], 7));
    assert_true(admit_connection_is_held(&kit.workers[0], 8));
    assert_false(admit_connection_is_held(&kit.workers[0], 9));
    admit_connection_closed(&kit.workers[0], 7);
    assert_false(admit_connection_is_held(&kit.workers[0], 7));
    assert_int_equal(kit_stats(&kit).leases, 1);
    assert_int_equal(admit_count_bound(kit.gateway), 1);
    assert_false(kit_release(&kit, 0, "all", &a));
    assert_false(kit_release(&kit, 0, "all", &b));
    assert_true(kit_release(&kit, 0, "all", &other));
    assert_false(admit_connection_is_held(&kit.workers[0], 8));
    assert_int_equal(admit_count_bound(kit.gateway), 0);
    kit_close(&kit);
}

static uint64_t below(struct draw *draw, int64_t n)
{
    return (uint64_t)draw_between(draw, 0, n - 1);
}

/* What ends first is what is gone first, against a plain list. */
static void bound_leases_are_as_a_list_would_have_them(void **state)
{
    enum { N = 400,
           STEPS = 20000 };
    static struct {
        uint64_t connection;
        tg_ms until; /* 0: not there */
    } model[N + 1];
    uint64_t seed = draw_seed("admit_bound_leases");
    struct draw draw = draw_stream(seed, 0);
    const struct bound_parts none = {0};
    struct bound_leases bound = {0};
    struct bound_parts parts;
    tg_ms now = 1000;

    (void)state;
    memset(model, 0, sizeof model);
    bound_leases_init(&bound);
    for (int step = 0; step < STEPS; step++) {
        size_t lease = 1 + (size_t)below(&draw, N);
        tg_ms until = now + 1 + (tg_ms)below(&draw, 100);
        size_t there = 0;
        switch (below(&draw, 5)) {
        case 0:
        case 1:
            if (model[lease].until != 0)
                break;
            model[lease].connection = 1 + below(&draw, 20);
            model[lease].until = until;
            assert_true(bound_leases_add(&bound, lease, model[lease].connection, &none, until));
            break;
        case 2:
            bound_leases_renew(&bound, lease, now, until);
            if (model[lease].until != 0)
                model[lease].until = until;
            break;
        case 3:
            assert_null(bound_leases_drop(&bound, lease).account);
            model[lease].until = 0;
            break;
        default:
            if (below(&draw, 20) == 0) {
                uint64_t connection = 1 + below(&draw, 20);
                tg_lease taken;
                while ((taken = bound_leases_take(&bound, connection, &parts)) != 0) {
                    assert_true(model[taken].until != 0 && model[taken].connection == connection);
                    model[taken].until = 0;
                }
                for (size_t i = 1; i <= N; i++)
                    assert_false(model[i].until != 0 && model[i].connection == connection);
            }
            for (now++; bound_leases_take_expired(&bound, now, &parts) != 0;)
                assert_true(parts.account == NULL && parts.slots == NULL);
            for (size_t i = 1; i <= N; i++)
                if (model[i].until <= now)
                    model[i].until = 0;
        }
        for (size_t i = 1; i <= N; i++)
            there += model[i].until != 0;
        assert_int_equal(atomic_load(&bound.n), there);
    }
    bound_leases_fini(&bound);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keyed_hash_is_siphash),
        cmocka_unit_test(an_id_says_what_it_was_made_of),
        cmocka_unit_test(an_id_with_any_character_changed_is_none),
        cmocka_unit_test(an_id_of_another_process_is_none),
        cmocka_unit_test(a_lease_is_released_once_by_any_worker),
        cmocka_unit_test(a_lease_is_its_callers_alone),
        cmocka_unit_test(a_heartbeat_gives_the_time_that_was_asked_for),
        cmocka_unit_test(ten_thousand_that_die_leave_nothing),
        cmocka_unit_test(what_is_bound_ends_with_its_connection),
        cmocka_unit_test(bound_leases_are_as_a_list_would_have_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
