/* test_http2_slow.c - clients of HTTP/2 that do not go on: with what they send, or with reading
 * what they are sent. Each holds a bounded amount for a bounded time, and a client beside it is
 * served all the while.
 */
#include "http2_scene.h"

#include <string.h>
#include <sys/socket.h>

/* ---- Towards us ------------------------------------------------------------------------------ */

static void half_a_beginning_ends_in_time(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.http2 = true;
    kit.options.limits.header_ms = 100;
    kit_listen(&kit);
    /* Nothing, some of the preface, and all of it without settings. */
    struct kit_raw *raws[4];
    static const char *const begins[] = {"", "PR", "PRI * HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    for (size_t i = 0; i < COUNT_OF(raws); i++) {
        raws[i] = kit_connect(&kit);
        kit_put(&kit, raws[i], begins[i]);
    }
    for (size_t i = 0; i < COUNT_OF(raws); i++)
        kit_until(&kit, raws[i]->eof || raws[i]->reset);
    kit_fini(&kit);
}

static void half_a_header_block_ends_in_time(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.http2 = true;
    kit_listen(&kit);
    struct frames *frames = frames_client(&kit);
    frames_post(frames, 1, false);
    kit_until(&kit, kit.n_ins == 1);
    /* From now on: what came before may have taken any time. */
    kit.listener->limits.header_ms = 30;
    frames_put(frames, FRAME_HEADERS, 0, 3, "\x82", 1);
    frames_until(frames, frames->goaway);
    assert_int_equal(frames->goaway_code, HTTP2_ENHANCE_YOUR_CALM);
    kit_until(&kit, kit.ins[0].gone);
    frames_free(frames);
    kit_fini(&kit);
}

static void a_body_without_an_end_is_408(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.body_ms = 30;
    scene_start(&scene);
    frames_post(scene.bad, 1, false);
    frames_put(scene.bad, FRAME_DATA, 0, 1, "x", 1);
    frames_expect_status(scene.bad, 1, 408);
    assert_true(scene.kit.ins[0].gone);
    assert_int_equal(scene.kit.ins[0].why, HTTP_TIMEOUT);
    scene_fini(&scene);
}

static void be_patient(struct kit_in *in)
{
    in->in->patient = true;
}

/* An owner that has its own idea of time: a conversation may rest. */
static void a_patient_owner_waits(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.body_ms = 20;
    scene_start(&scene);
    frames_post(scene.bad, 1, false); /* which tells that time has passed */
    kit_until(&scene.kit, scene.kit.n_ins == 1);
    scene.kit.on_begin = be_patient;
    frames_post(scene.bad, 3, false);
    kit_until(&scene.kit, scene.kit.n_ins == 2);
    kit_until(&scene.kit, scene.kit.ins[0].gone);
    scene.kit.on_begin = NULL;
    frames_post(scene.bad, 5, false);
    kit_until(&scene.kit, scene.kit.n_ins == 3 && scene.kit.ins[2].gone);
    assert_false(scene.kit.ins[1].gone);
    frames_put(scene.bad, FRAME_DATA, FLAG_END_STREAM, 3, "x", 1);
    frames_expect_status(scene.bad, 3, 200);
    scene_fini(&scene);
}

/* ---- From us --------------------------------------------------------------------------------- */

static void stream_without_an_end(struct kit_in *in)
{
    static const char piece[32768];
    struct http_head head = {.status = 200, .length = -1};

    http_inbound_reply(in->in, &head);
    while (http_inbound_write(in->in, (struct slice){piece, sizeof piece}) <= HTTP_OUTPUT_HIGH)
        ;
}

static void stream_on(struct kit_in *in)
{
    static const char piece[32768];

    while (http_inbound_write(in->in, (struct slice){piece, sizeof piece}) <= HTTP_OUTPUT_HIGH)
        ;
}

static size_t queued_in_all(struct scene *scene)
{
    size_t n = 0;

    for (size_t i = 0; i < scene->kit.n_ins; i++)
        if (scene->kit.ins[i].in != NULL)
            n += http_inbound_queued(scene->kit.ins[i].in);
    return n;
}

/* Windows of nothing: each exchange holds what its owner wrote up to its mark, and then ends. */
static void a_window_of_nothing_is_given_up(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.write_ms = 100;
    scene_start(&scene);
    frames_put_setting(scene.bad, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    scene.kit.on_end = stream_without_an_end;
    for (uint32_t id = 1; id <= 19; id += 2)
        frames_post(scene.bad, id, true);
    kit_until(&scene.kit, scene.kit.n_ins == 10 && scene.kit.ins[9].ended);
    assert_true(queued_in_all(&scene) <= 10 * (HTTP_OUTPUT_HIGH + 32768));
    scene.kit.on_end = answer;
    expect_service(&scene);
    for (size_t i = 0; i < 10; i++) {
        kit_until(&scene.kit, scene.kit.ins[i].gone);
        assert_int_equal(scene.kit.ins[i].why, HTTP_TIMEOUT);
    }
    frames_until(scene.bad, frames_at(scene.bad, 19)->reset);
    assert_int_equal(frames_at(scene.bad, 19)->code, HTTP2_CANCEL);
    assert_int_equal(frames_at(scene.bad, 19)->data_bytes, 0);
    scene_fini(&scene);
}

/* A byte now and then is not reading, either; and stops nobody, on this connection or another. */
static void a_window_of_one_is_not_enough(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.write_ms = 500;
    scene_start(&scene);
    frames_put_setting(scene.bad, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1);
    scene.kit.on_end = stream_without_an_end;
    frames_post(scene.bad, 1, true);
    frames_until(scene.bad, frames_at(scene.bad, 1)->data_bytes == 1);
    scene.kit.on_end = answer;
    /* Another on the same connection, with a window of its own. */
    frames_post(scene.bad, 3, true);
    frames_put_u32(scene.bad, FRAME_WINDOW, 3, 100);
    frames_until(scene.bad, frames_at(scene.bad, 3)->ended);
    size_t given = 1;
    while (!scene.kit.ins[0].gone) {
        frames_put_u32(scene.bad, FRAME_WINDOW, 1, 1);
        given++;
        frames_until(scene.bad, frames_at(scene.bad, 1)->data_bytes == given ||
                                    scene.kit.ins[0].gone);
        assert_true(queued_in_all(&scene) <= HTTP_OUTPUT_HIGH + 32768);
        if (given % 16 == 0 && scene.next_good < 200)
            expect_service(&scene);
    }
    assert_int_equal(scene.kit.ins[0].why, HTTP_TIMEOUT);
    scene_fini(&scene);
}

/* So is a refusal that the client does not take. */
static void a_refusal_that_nobody_takes_is_given_up(void **state)
{
    static const char *const two[] = {":method", "GET", ":scheme", "http", ":path", "/",
                                      ":authority", "a", "host", "b", NULL};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.write_ms = 30;
    scene_start(&scene);
    frames_put_setting(scene.bad, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0);
    frames_put_head(scene.bad, FLAG_END_STREAM, 1, two);
    frames_until(scene.bad, frames_at(scene.bad, 1)->reset);
    assert_int_equal(frames_at(scene.bad, 1)->status, 400);
    kit_until(&scene.kit, bad_server(&scene)->link.n_flows == 0);
    scene_fini(&scene);
}

/* A socket that takes nothing, whatever the windows say. */
static void a_client_that_does_not_read_is_ended(void **state)
{
    struct scene scene;
    int small = 4096;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.write_ms = 100;
    scene_start(&scene);
    setsockopt(scene.bad->raw->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    frames_put_setting(scene.bad, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0x7fffffff);
    frames_put_u32(scene.bad, FRAME_WINDOW, 0, 0x7fff0000 - 65535);
    scene.kit.on_end = stream_without_an_end;
    scene.kit.on_room = stream_on;
    scene.bad->raw->stuck = true;
    for (uint32_t id = 1; id <= 19; id += 2)
        frames_post(scene.bad, id, true);
    kit_until(&scene.kit, scene.kit.n_ins == 10 && scene.kit.ins[9].ended);
    scene.kit.on_end = answer;
    expect_service(&scene);
    for (size_t i = 0; i < 10; i++) {
        kit_until(&scene.kit, scene.kit.ins[i].gone);
        assert_int_equal(scene.kit.ins[i].why, HTTP_TIMEOUT);
    }
    kit_until(&scene.kit, http_listener_open(scene.kit.listener) == 1);
    scene_fini(&scene);
}

/* ---- Bodies that nobody reads ---------------------------------------------------------------- */

static void pause_it(struct kit_in *in)
{
    http_inbound_pause(in->in);
}

/* An owner that does not read: each exchange holds its window; who sends more breaks the rules. */
static void paused_bodies_hold_a_window_each(void **state)
{
    static const char piece[16000];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene_start(&scene);
    scene.kit.on_begin = pause_it;
    for (uint32_t id = 1; id <= 19; id += 2)
        frames_post(scene.bad, id, false);
    kit_until(&scene.kit, scene.kit.n_ins == 10);
    for (uint32_t id = 1; id <= 19; id += 2)
        for (int k = 0; k < 4; k++)
            frames_put(scene.bad, FRAME_DATA, 0, id, piece, sizeof piece);
    kit_calm(&scene.kit);
    assert_int_equal(bad_server(&scene)->link.held_bytes, 10 * 64000);
    frames_put(scene.bad, FRAME_DATA, 0, 1, piece, sizeof piece);
    frames_until(scene.bad, scene.bad->goaway || frames_at(scene.bad, 1)->reset);
    scene.kit.on_begin = NULL;
    scene_fini(&scene);
}

/* What was held for an owner that then refuses is dropped, and the rest may come. */
static void a_refused_body_does_not_stay(void **state)
{
    static const char piece[16000];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.linger_ms = 100000;
    scene_start(&scene);
    scene.kit.on_begin = pause_it;
    frames_post(scene.bad, 1, false);
    for (int k = 0; k < 4; k++)
        frames_put(scene.bad, FRAME_DATA, 0, 1, piece, sizeof piece);
    kit_until(&scene.kit, scene.kit.n_ins == 1);
    kit_calm(&scene.kit);
    frames_read(scene.bad);
    size_t windows = scene.bad->seen[FRAME_WINDOW];
    assert_int_equal(bad_server(&scene)->link.held_bytes, 64000);
    kit_reply(&scene.kit.ins[0], 429, "no");
    frames_until(scene.bad, scene.bad->seen[FRAME_WINDOW] > windows);
    assert_int_equal(bad_server(&scene)->link.held_bytes, 0);
    for (int k = 0; k < 4; k++)
        frames_put(scene.bad, FRAME_DATA, k == 3, 1, piece, sizeof piece);
    kit_until(&scene.kit, bad_server(&scene)->link.n_flows == 0);
    frames_read(scene.bad);
    assert_false(frames_at(scene.bad, 1)->reset);
    assert_int_equal(scene.kit.ins[0].why, HTTP_DONE);
    scene.kit.on_begin = NULL;
    scene_fini(&scene);
}

/* And who never ends is told to stop: the reply has come, so it is no error. */
static void a_refused_body_without_an_end_is_stopped(void **state)
{
    static const char piece[16000];
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.linger_bytes = 100000;
    scene_start(&scene);
    scene.kit.on_begin = answer;
    frames_post(scene.bad, 1, false);
    for (int k = 0; k < 100 && !frames_at(scene.bad, 1)->reset; k++) {
        frames_put(scene.bad, FRAME_DATA, 0, 1, piece, sizeof piece);
        kit_calm(&scene.kit);
        frames_read(scene.bad);
    }
    assert_true(frames_at(scene.bad, 1)->reset && frames_at(scene.bad, 1)->ended);
    assert_int_equal(frames_at(scene.bad, 1)->code, HTTP2_NO_ERROR);
    assert_int_equal(frames_at(scene.bad, 1)->status, 200);
    assert_int_equal(scene.kit.ins[0].why, HTTP_DONE);
    /* The same by time. */
    frames_post(scene.bad, 3, false);
    scene.kit.listener->limits.linger_ms = 20;
    frames_post(scene.bad, 5, false);
    frames_until(scene.bad, frames_at(scene.bad, 5)->reset);
    assert_int_equal(frames_at(scene.bad, 5)->code, HTTP2_NO_ERROR);
    scene.kit.on_begin = NULL;
    scene_fini(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_beginning_ends_in_time),
        cmocka_unit_test(half_a_header_block_ends_in_time),
        cmocka_unit_test(a_body_without_an_end_is_408),
        cmocka_unit_test(a_patient_owner_waits),
        cmocka_unit_test(a_window_of_nothing_is_given_up),
        cmocka_unit_test(a_window_of_one_is_not_enough),
        cmocka_unit_test(a_refusal_that_nobody_takes_is_given_up),
        cmocka_unit_test(a_client_that_does_not_read_is_ended),
        cmocka_unit_test(paused_bodies_hold_a_window_each),
        cmocka_unit_test(a_refused_body_does_not_stay),
        cmocka_unit_test(a_refused_body_without_an_end_is_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
