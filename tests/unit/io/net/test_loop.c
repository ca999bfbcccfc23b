/* test_loop.c - timers fire in time and in order, whatever is set, moved and stopped; posts run. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "io/net/buf.h"

#define TIMERS 200

static uint64_t seed;

struct model {
    struct net_timer timers[TIMERS];
    tg_ms at[TIMERS]; /* when it should fire; 0: not set */
};

static void never(void *arg)
{
    (void)arg;
}

/* The wheel against a list that is searched: what is due fires, nothing else, at most 1 ms late. */
static void check_due(struct model *model, struct wheel *wheel, tg_ms now)
{
    struct net_timer *timer;

    while ((timer = wheel_due(wheel, now)) != NULL) {
        size_t i = (size_t)(timer - model->timers);

        assert_true(model->at[i] != 0 && model->at[i] <= now);
        assert_false(net_timer_is_set(timer));
        model->at[i] = 0;
    }
    for (size_t i = 0; i < TIMERS; i++)
        assert_true(model->at[i] == 0 || model->at[i] >= now);
    tg_ms next;
    if (wheel_next(wheel, &next))
        for (size_t i = 0; i < TIMERS; i++)
            assert_true(model->at[i] == 0 || model->at[i] >= next - 1);
    else
        for (size_t i = 0; i < TIMERS; i++)
            assert_true(model->at[i] == 0);
}

static void the_wheel_agrees_with_a_list(void **state)
{
    (void)state;
    for (uint64_t stream = 0; stream < 20; stream++) {
        static struct model model;
        static struct wheel wheel;
        struct draw draw = draw_stream(seed, stream);
        tg_ms now = draw_between(&draw, 0, INT64_C(1) << 42);

        memset(&model, 0, sizeof model);
        for (size_t i = 0; i < TIMERS; i++)
            net_timer_init(&model.timers[i], never, NULL);
        wheel_init(&wheel, now);
        for (int step = 0; step < 3000; step++) {
            size_t i = (size_t)draw_between(&draw, 0, TIMERS - 1);

            if (draw_chance(&draw, 60)) {
                model.at[i] = now + draw_magnitude(&draw, INT64_C(1) << 24);
                wheel_set(&wheel, &model.timers[i], model.at[i]);
            } else if (draw_chance(&draw, 50)) {
                wheel_remove(&wheel, &model.timers[i]);
                model.at[i] = 0;
            } else {
                now += draw_magnitude(&draw, INT64_C(1) << 16);
                check_due(&model, &wheel, now);
            }
        }
        now += INT64_C(1) << 25;
        check_due(&model, &wheel, now);
    }
}

/* ---- On a loop ------------------------------------------------------------------------------- */

struct bench {
    struct clock clock;
    struct net_loop *loop;
    char said[64];
};

struct word {
    struct bench *bench;
    const char *text;
    struct net_timer timer, *stops;
    struct net_post post;
    int again;
};

static void bench_init(struct bench *bench)
{
    memset(bench, 0, sizeof *bench);
    clock_init(&bench->clock);
    assert_int_equal(net_loop_new(&bench->clock, &bench->loop), TG_OK);
}

static void say(void *arg)
{
    struct word *word = arg;

    strcat(word->bench->said, word->text);
    if (word->stops != NULL)
        net_timer_stop(word->bench->loop, word->stops);
    if (word->again-- > 0)
        net_timer_set(word->bench->loop, &word->timer, 1);
}

static void timers_fire_in_order(void **state)
{
    struct bench bench;
    struct word a = {.bench = &bench, .text = "a", .again = 2}, b = {.bench = &bench, .text = "b"},
                c = {.bench = &bench, .text = "c"}, d = {.bench = &bench, .text = "d"};

    (void)state;
    bench_init(&bench);
    net_timer_init(&a.timer, say, &a);
    net_timer_init(&b.timer, say, &b);
    net_timer_init(&c.timer, say, &c);
    net_timer_init(&d.timer, say, &d);
    b.stops = &c.timer;
    net_timer_set(bench.loop, &d.timer, 90);
    net_timer_set(bench.loop, &c.timer, 70);
    net_timer_set(bench.loop, &b.timer, 40);
    net_timer_set(bench.loop, &a.timer, INT64_MAX);
    net_timer_set(bench.loop, &a.timer, 1);
    while (net_timer_is_set(&d.timer) || net_timer_is_set(&a.timer))
        net_loop_turn(bench.loop, true);
    /* On a slow machine all are due before the first turn: then the others come between the a's. */
    const char *at = bench.said;
    assert_int_equal(*at, 'a');
    char rest[8] = "";
    for (size_t n = 0; *at != '\0'; at++)
        if (*at != 'a')
            rest[n++] = *at;
    assert_string_equal(rest, "bd");
    assert_int_equal(strlen(bench.said), 5);
    net_loop_free(bench.loop);
}

static void post_again(void *arg)
{
    struct word *word = arg;

    strcat(word->bench->said, word->text);
    if (word->again-- > 0)
        net_loop_post(word->bench->loop, &word->post);
}

static void posts_run_once_in_order_and_can_be_taken_back(void **state)
{
    struct bench bench;
    struct word words[4];

    (void)state;
    bench_init(&bench);
    for (int i = 0; i < 4; i++) {
        static const char *const texts[] = {"a", "b", "c", "d"};

        words[i] = (struct word){.bench = &bench, .text = texts[i], .again = i == 0};
        net_post_init(&words[i].post, post_again, &words[i]);
        net_loop_post(bench.loop, &words[i].post);
        net_loop_post(bench.loop, &words[i].post); /* waits already */
    }
    net_loop_unpost(bench.loop, &words[1].post);
    net_loop_unpost(bench.loop, &words[3].post);
    while (strlen(bench.said) < 3)
        net_loop_turn(bench.loop, true);
    net_loop_turn(bench.loop, false);
    assert_string_equal(bench.said, "aca");
    net_loop_post(bench.loop, &words[3].post); /* never runs: the loop is freed */
    net_loop_free(bench.loop);
}

static void a_stop_before_the_run_counts(void **state)
{
    struct bench bench;

    (void)state;
    bench_init(&bench);
    net_loop_stop(bench.loop);
    net_loop_run(bench.loop);
    assert_true(net_loop_now(bench.loop) > 0);
    net_loop_free(bench.loop);
}

static void a_queue_takes_no_larger_block_than_it_needs(void **state)
{
    static const struct {
        size_t bytes, capacity;
    } steps[] = {{1, NET_SMALL_BYTES},
                 {NET_SMALL_BYTES - 1, NET_SMALL_BYTES},
                 {1, NET_LARGE_BYTES},
                 {NET_LARGE_BYTES - NET_SMALL_BYTES - 1, NET_LARGE_BYTES},
                 {1, 2 * NET_LARGE_BYTES},
                 {3 * NET_LARGE_BYTES - 1, 4 * NET_LARGE_BYTES}};
    struct bench bench;
    struct buf buf = {0}, second = {0};
    char sent[8 * NET_LARGE_BYTES];
    size_t n = 0;

    (void)state;
    bench_init(&bench);
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)('a' + i % 23);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        assert_true(buf_append(bench.loop, &buf, sent + n, steps[i].bytes));
        n += steps[i].bytes;
        assert_int_equal(buf.capacity, steps[i].capacity);
        assert_int_equal(buf_bytes(&buf), n);
        assert_memory_equal(buf_first(&buf), sent, n);
    }
    buf_consume(bench.loop, &buf, n);
    assert_null(buf.at);

    /* One that begins large takes a large block at once, and what was given back is used again. */
    assert_true(buf_append(bench.loop, &buf, sent, NET_SMALL_BYTES + 1));
    assert_int_equal(buf.capacity, NET_LARGE_BYTES);
    assert_true(buf_append(bench.loop, &second, sent, 1));
    const char *large = buf.at, *small = second.at;
    buf_release(bench.loop, &buf);
    buf_release(bench.loop, &second);
    assert_true(buf_append(bench.loop, &buf, sent, 1));
    assert_true(buf_append(bench.loop, &second, sent, NET_LARGE_BYTES));
    assert_ptr_equal(buf.at, small);
    assert_ptr_equal(second.at, large);
    buf_release(bench.loop, &buf);
    buf_release(bench.loop, &second);
    net_loop_free(bench.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wheel_agrees_with_a_list),
        cmocka_unit_test(timers_fire_in_order),
        cmocka_unit_test(posts_run_once_in_order_and_can_be_taken_back),
        cmocka_unit_test(a_stop_before_the_run_counts),
        cmocka_unit_test(a_queue_takes_no_larger_block_than_it_needs),
    };

    seed = draw_seed("test_loop");
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
