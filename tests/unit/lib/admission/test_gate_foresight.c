/* test_gate_foresight.c - a peek says what tg_gate_admit() then does, and changes nothing. */
#include "draw.h"
#include "gate_kit.h"

enum { GATES = 40,
       STEPS = 500,
       HELD = 64 };

static struct tg_gate_config drawn_config(struct draw *draw, struct gate_log *log)
{
    struct tg_gate_config config = gate_config_slots(log, draw_between(draw, 1, 6));

    config.concurrency.queue_size = draw_between(draw, 0, 3);
    config.concurrency.mode = draw_chance(draw, 15) ? TG_SHADOW : TG_ENFORCE;
    for (int p = 0; p < TG_PRIORITY_COUNT; p++)
        config.concurrency.wait[p] = draw_chance(draw, 50) ? draw_between(draw, 0, 500) : 0;
    config.peers.on = draw_chance(draw, 70);
    config.peers.limit = draw_between(draw, 1, 4);
    config.peers.mode = draw_chance(draw, 15) ? TG_SHADOW : TG_ENFORCE;
    config.memory.on = draw_chance(draw, 50);
    return config;
}

static void compare(const struct tg_answer *said, const struct tg_answer *did)
{
    assert_int_equal(said->step, did->step);
    assert_int_equal(said->reason, did->reason);
    assert_int_equal(said->would_deny, did->would_deny);
    if (did->reason == TG_REASON_CONCURRENCY) {
        assert_int_equal(said->decision.retry_after_ms, did->decision.retry_after_ms);
        assert_int_equal(said->client_wait_ms, did->client_wait_ms);
    }
    if (did->step == TG_WAITING)
        assert_int_equal(said->deadline, did->deadline);
}

static void run_gate(struct draw *draw)
{
    static const char *const PEERS[] = {"a", "b", "c"};
    struct gate_log log = {.n_woken = 0};
    struct tg_gate_config config = drawn_config(draw, &log);
    struct tg_gate *gate = must_gate(&config);
    tg_lease held[HELD];
    size_t n = 0;
    tg_ms now = 0;

    for (int i = 0; i < STEPS; i++) {
        struct tg_call call =
            call_from((enum tg_priority)draw_between(draw, 0, TG_PRIORITY_COUNT - 1),
                      PEERS[draw_between(draw, 0, 2)]);
        struct tg_answer said;
        if (draw_chance(draw, 5))
            tg_gate_set_memory(gate, draw_unit(draw));
        now += draw_between(draw, 0, 20);
        tg_gate_tick(gate, now);
        struct tg_gate_stats before = stats_of_gate(gate);
        assert_int_equal(tg_gate_peek(gate, &call, now, &said), TG_OK);
        struct tg_gate_stats after = stats_of_gate(gate);
        assert_memory_equal(&before, &after, sizeof before);
        struct tg_answer did = must_admit(gate, &call, now);
        compare(&said, &did);
        if (did.lease != 0)
            held[n++] = did.lease;
        if (n == HELD || (n > 0 && draw_chance(draw, 45))) {
            size_t k = (size_t)draw_between(draw, 0, (int64_t)n - 1);
            finish(gate, held[k], now);
            held[k] = held[--n];
        }
    }
    tg_gate_free(gate);
}

static void a_call_does_what_a_peek_has_said(void **state)
{
    uint64_t seed = draw_seed("test_gate_foresight");
    (void)state;

    for (uint64_t i = 0; i < GATES; i++) {
        struct draw draw = draw_stream(seed, i);
        run_gate(&draw);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_does_what_a_peek_has_said),
    };
    return cmocka_run_group_tests_name("gate_foresight", tests, NULL, NULL);
}
