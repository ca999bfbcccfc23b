/* test_http2_abuse.c - clients of HTTP/2 that send too much of what costs them little: each is
 * ended within bounds that are counted here, and a client beside it is served all the while.
 */
#include "http2_scene.h"

#include <string.h>
#include <sys/socket.h>

static void expect_calm(struct scene *scene)
{
    frames_until(scene->bad, scene->bad->goaway);
    assert_int_equal(scene->bad->goaway_code, HTTP2_ENHANCE_YOUR_CALM);
    frames_until(scene->bad, scene->bad->raw->eof || scene->bad->raw->reset);
    kit_hang_up(scene->bad->raw);
    kit_until(&scene->kit, http_listener_open(scene->kit.listener) == 1);
}

/* ---- Exchanges that are given up ------------------------------------------------------------- */

#define ALL_RAPID_MS INT64_C(3600000) /* whatever the machine is doing */

static void rapid_resets_end_the_connection(void **state)
{
    struct scene scene;
    uint32_t id = 1;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = NULL;
    scene.kit.options.limits.resets = 100;
    scene.kit.options.limits.resets_per_s = 1;
    scene.kit.options.limits.rapid_ms = ALL_RAPID_MS;
    scene_start(&scene);
    for (int i = 0; i < 1000 && bad_server(&scene) != NULL; i++, id += 2) {
        frames_post(scene.bad, id, false);
        frames_put_u32(scene.bad, FRAME_RST, id, HTTP2_CANCEL);
        if (i % 50 == 0)
            kit_calm(&scene.kit);
    }
    expect_calm(&scene);
    assert_in_range(scene.kit.n_ins, 100, 101 + 5);
    for (size_t i = 0; i + 1 < scene.kit.n_ins; i++)
        assert_int_equal(scene.kit.ins[i].why, HTTP_HANGUP);
    assert_int_equal(http_listener_busy(scene.kit.listener), 0);
    scene.kit.on_end = answer;
    scene_fini(&scene);
}

static void put_post_of(struct frames *frames, uint32_t id, const char *length)
{
    const char *const words[] = {":method", "POST", ":scheme", "http",
                                 ":path", "/", ":authority", "a.test",
                                 "content-length", length, NULL};

    frames_put_head(frames, 0, id, words);
}

/* Rules that can be broken when an exchange has begun. */
static void overflow_window(struct frames *frames, uint32_t id)
{
    frames_post(frames, id, false);
    frames_put_u32(frames, FRAME_WINDOW, id, 0x7fffffff);
}

static void say_too_much(struct frames *frames, uint32_t id)
{
    put_post_of(frames, id, "1");
    frames_put(frames, FRAME_DATA, 0, id, "more", 4);
}

static void say_too_little(struct frames *frames, uint32_t id)
{
    put_post_of(frames, id, "5");
    frames_put(frames, FRAME_DATA, FLAG_END_STREAM, id, "less", 4);
}

/* The same, by having us do it: each exchange breaks a rule after it has begun. */
static void errors_count_as_resets(void **state)
{
    static void (*const breaks[])(struct frames * frames, uint32_t id) = {
        overflow_window, say_too_much, say_too_little};

    (void)state;
    for (size_t k = 0; k < COUNT_OF(breaks); k++) {
        struct scene scene;
        uint32_t id = 1;

        scene_init(&scene);
        scene.kit.on_end = NULL;
        scene.kit.options.limits.resets = 100;
        scene.kit.options.limits.resets_per_s = 1;
        scene_start(&scene);
        for (int i = 0; i < 1000 && bad_server(&scene) != NULL; i++, id += 2) {
            breaks[k](scene.bad, id);
            if (i % 20 == 0)
                kit_calm(&scene.kit);
        }
        expect_calm(&scene);
        assert_in_range(scene.kit.n_ins, 100, 101 + 60);
        assert_int_equal(http_listener_busy(scene.kit.listener), 0);
        scene.kit.on_end = answer;
        scene_fini(&scene);
    }
}

/* A busy client that gives up every second exchange and takes the others is no attacker. */
static void who_takes_replies_may_give_up_others(void **state)
{
    struct scene scene;
    uint32_t id = 1;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.resets = 20;
    scene.kit.options.limits.resets_per_s = 0;
    scene_start(&scene);
    for (int i = 0; i < 100; i++, id += 4) {
        frames_post(scene.bad, id, false);
        frames_put_u32(scene.bad, FRAME_RST, id, HTTP2_CANCEL);
        frames_post(scene.bad, id + 2, true);
        frames_until(scene.bad, frames_at(scene.bad, id + 2)->ended);
    }
    assert_false(scene.bad->goaway);
    scene_fini(&scene);
}

static void begin_answer(struct kit_in *in)
{
    const struct http_head head = {.status = 200, .length = -1};

    http_inbound_reply(in->in, &head);
}

/* Nor is one that hangs up on answers that have begun. */
static void answers_that_have_begun_may_be_given_up(void **state)
{
    struct scene scene;
    uint32_t id = 1;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = begin_answer;
    scene.kit.options.limits.resets = 20;
    scene.kit.options.limits.resets_per_s = 0;
    scene.kit.options.limits.rapid_ms = ALL_RAPID_MS;
    scene_start(&scene);
    for (int i = 0; i < 100; i++, id += 2) {
        frames_post(scene.bad, id, true);
        frames_until(scene.bad, frames_at(scene.bad, id)->heads == 1);
        frames_put_u32(scene.bad, FRAME_RST, id, HTTP2_CANCEL);
    }
    kit_until(&scene.kit, http_listener_busy(scene.kit.listener) == 0);
    assert_false(scene.bad->goaway);
    scene.kit.on_end = answer;
    scene_fini(&scene);
}

static void put_expecting(struct frames *frames, uint32_t id)
{
    static const char *const words[] = {":method", "POST", ":scheme", "http",
                                        ":path", "/", ":authority", "a.test",
                                        "expect", "100-continue", NULL};

    frames_put_head(frames, 0, id, words);
}

/* But it has to be an answer: to be told to go on is none. */
static void interim_heads_are_no_answers(void **state)
{
    struct scene scene;
    uint32_t id = 1;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = NULL;
    scene.kit.options.limits.resets = 20;
    scene.kit.options.limits.resets_per_s = 0;
    scene.kit.options.limits.rapid_ms = ALL_RAPID_MS;
    scene_start(&scene);
    for (int i = 0; i < 21; i++, id += 2)
        put_expecting(scene.bad, id);
    frames_until(scene.bad, frames_at(scene.bad, id - 2)->heads == 1);
    assert_int_equal(frames_at(scene.bad, id - 2)->status, 100);
    while (id > 1)
        frames_put_u32(scene.bad, FRAME_RST, id -= 2, HTTP2_CANCEL);
    expect_calm(&scene);
    scene.kit.on_end = answer;
    scene_fini(&scene);
}

/* Nor one whose exchanges stood for a while, here for no time at all. */
static void exchanges_that_stood_may_be_given_up(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = NULL;
    scene.kit.options.limits.resets = 20;
    scene.kit.options.limits.resets_per_s = 0;
    scene.kit.options.limits.rapid_ms = 0;
    scene_start(&scene);
    for (uint32_t id = 1; id < 2 * 100; id += 2)
        frames_post(scene.bad, id, true);
    kit_until(&scene.kit, scene.kit.n_ins == 100);
    for (uint32_t id = 1; id < 2 * 100; id += 2)
        frames_put_u32(scene.bad, FRAME_RST, id, HTTP2_CANCEL);
    kit_until(&scene.kit, http_listener_busy(scene.kit.listener) == 0);
    assert_false(scene.bad->goaway);
    scene.kit.on_end = answer;
    scene_fini(&scene);
}

static void exchanges_beyond_the_limit_are_not_begun(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = NULL;
    scene.kit.options.limits.streams = 10;
    scene_start(&scene);
    assert_int_equal(scene.bad->max_streams, 10);
    frames_put(scene.bad, FRAME_SETTINGS, FLAG_ACK, 0, NULL, 0);
    for (uint32_t id = 1; id < 2 * 50; id += 2)
        frames_post(scene.bad, id, true);
    frames_until(scene.bad, scene.bad->goaway);
    assert_int_equal(scene.kit.n_ins, 10);
    kit_hang_up(scene.bad->raw);
    kit_until(&scene.kit, http_listener_busy(scene.kit.listener) == 0);
    scene.kit.on_end = answer;
    scene_fini(&scene);
}

/* ---- Frames that carry nothing --------------------------------------------------------------- */

static void put_settings(struct frames *frames)
{
    frames_put_setting(frames, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1000);
}

static void put_ping(struct frames *frames)
{
    frames_put(frames, FRAME_PING, 0, 0, "12345678", 8);
}

static void put_priority(struct frames *frames)
{
    frames_put(frames, FRAME_PRIORITY, 0, 1, "\0\0\0\0\20", 5);
}

static void put_window(struct frames *frames)
{
    frames_put_u32(frames, FRAME_WINDOW, 0, 1);
}

static void put_empty_data(struct frames *frames)
{
    frames_put(frames, FRAME_DATA, 0, 1, NULL, 0);
}

static void put_padding(struct frames *frames)
{
    frames_put(frames, FRAME_DATA, FLAG_PADDED, 1, "\3\0\0\0", 4);
}

static void put_goaway(struct frames *frames)
{
    frames_put(frames, FRAME_GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
}

static void put_unknown(struct frames *frames)
{
    frames_put(frames, 0x42, 0, 0, "what", 4);
}

static void put_alternative(struct frames *frames)
{
    frames_put(frames, 0x0a, 0, 1, "\0\0x", 3);
}

static void floods_of_frames_end_the_connection(void **state)
{
    static void (*const floods[])(struct frames * frames) = {
        put_settings, put_ping, put_priority, put_window, put_empty_data,
        put_padding, put_goaway, put_unknown, put_alternative};

    (void)state;
    for (size_t k = 0; k < COUNT_OF(floods); k++) {
        struct scene scene;
        int sent = 0;

        scene_init(&scene);
        scene.kit.options.limits.odd_frames = 500;
        scene_start(&scene);
        frames_post(scene.bad, 1, false);
        for (; sent < 20000 && bad_server(&scene) != NULL; sent++) {
            floods[k](scene.bad);
            if (sent % 100 == 0)
                kit_calm(&scene.kit);
        }
        expect_calm(&scene);
        assert_true(sent < 20000);
        assert_true(scene.bad->acks < 2000);
        scene_fini(&scene);
    }
}

/* Its fields are decoded, and given to nobody who would count them. */
static void headers_for_what_has_ended_are_paid_for(void **state)
{
    static char block[15000];
    struct scene scene;
    int sent = 0;

    (void)state;
    memset(block, 0x82, sizeof block); /* :method: GET, by its number */
    scene_init(&scene);
    scene.kit.options.limits.odd_frames = 500;
    scene_start(&scene);
    frames_post(scene.bad, 1, true);
    frames_until(scene.bad, frames_at(scene.bad, 1)->ended);
    for (; sent < 100 && bad_server(&scene) != NULL; sent++) {
        frames_put(scene.bad, FRAME_HEADERS, FLAG_END_HEADERS, 1, block, sizeof block);
        kit_calm(&scene.kit);
    }
    expect_calm(&scene);
    assert_true(sent < 50); /* it has more when the machine was slow */
    scene_fini(&scene);
}

static void priority_of_no_exchange_is_an_error(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene_start(&scene);
    frames_put(scene.bad, FRAME_PRIORITY, 0, 0, "\0\0\0\0\20", 5);
    frames_until(scene.bad, scene.bad->goaway);
    assert_int_equal(scene.bad->goaway_code, HTTP2_PROTOCOL_ERROR);
    scene_fini(&scene);
}

/* Acknowledgements that the client does not read wait, but not for ever: then it is over. */
static void acknowledgements_that_nobody_reads_are_bounded(void **state)
{
    static char pings[100 * 17];
    struct scene scene;
    size_t most = 0;
    int small = 4096;

    (void)state;
    for (size_t i = 0; i < sizeof pings; i += 17)
        pings[i + 2] = 8, pings[i + 3] = FRAME_PING;
    scene_init(&scene);
    scene.kit.options.limits.odd_frames = 10000000;
    scene_start(&scene);
    scene.bad->raw->stuck = true;
    setsockopt(scene.bad->raw->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    for (int i = 0; i < 20000; i++) {
        kit_put_bytes(&scene.kit, scene.bad->raw, pings, sizeof pings);
        kit_calm(&scene.kit);
        struct http2_server *server = bad_server(&scene);
        if (server == NULL)
            break;
        size_t queued = nghttp2_session_get_outbound_queue_size(server->link.session);
        if (queued > most)
            most = queued;
        assert_true(wire_queued(server->link.wire) <= HTTP_OUTPUT_HIGH + 20000);
    }
    assert_true(most > 0 && most <= 600);
    assert_null(bad_server(&scene));
    scene_fini(&scene);
}

/* ---- Headers --------------------------------------------------------------------------------- */

static void a_large_header_is_431_and_a_huge_one_the_end(void **state)
{
    static char value[3000];
    const char *words[] = {":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a",
                           "x", value, "y", value, NULL};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.header_bytes = 4096;
    scene_start(&scene);
    memset(value, 'v', sizeof value - 1);
    frames_put_head(scene.bad, FLAG_END_STREAM, 1, words);
    frames_expect_status(scene.bad, 1, 431);
    assert_non_null(strstr(frames_at(scene.bad, 1)->text, "application/json"));
    frames_post(scene.bad, 3, true); /* the connection goes on */
    frames_expect_status(scene.bad, 3, 200);
    assert_int_equal(scene.kit.n_ins, 1);
    scene_fini(&scene);
}

static void too_many_fields_are_431(void **state)
{
    const char *words[9 + 2 * 30] = {":method", "GET", ":scheme", "http",
                                     ":path", "/", ":authority", "a"};
    struct scene scene;

    (void)state;
    scene_init(&scene);
    scene.kit.options.limits.fields = 20;
    scene_start(&scene);
    for (size_t i = 8; i < 8 + 2 * 30; i++)
        words[i] = "x";
    frames_put_head(scene.bad, FLAG_END_STREAM, 1, words);
    frames_expect_status(scene.bad, 1, 431);
    scene_fini(&scene);
}

/* One field of four thousand bytes, and then one byte for each time it is meant again. */
static void a_header_bomb_ends_the_connection(void **state)
{
    static char block[16000];
    struct scene scene;
    size_t n = 0;

    (void)state;
    scene_init(&scene);
    scene_start(&scene);
    memcpy(block, "\x82\x86\x84\x41\x01"
                  "a",
           6); /* GET http / a */
    n = 6;
    block[n++] = 0x40; /* to be remembered */
    block[n++] = 1;
    block[n++] = 'x';
    block[n++] = 0x7f; /* 4000 = 127 + 3873 */
    block[n++] = (char)(3873 % 128 + 128);
    block[n++] = 3873 / 128;
    memset(block + n, 'v', 4000);
    n += 4000;
    memset(block + n, 0xbe, sizeof block - n); /* the newest */
    frames_put(scene.bad, FRAME_HEADERS, FLAG_END_HEADERS | FLAG_END_STREAM, 1, block,
               sizeof block);
    expect_calm(&scene);
    assert_int_equal(scene.kit.n_ins, 0);
    scene_fini(&scene);
}

static void a_header_without_an_end_ends_the_connection(void **state)
{
    static char piece[16000];
    struct scene scene;

    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        scene_init(&scene);
        scene_start(&scene);
        size_t n = 0;
        while (n + 100 < sizeof piece) { /* fields that are not to be remembered */
            piece[n++] = 0;
            piece[n++] = 1;
            piece[n++] = 'x';
            piece[n++] = 90;
            memset(piece + n, 'v', 90);
            n += 90;
        }
        frames_put(scene.bad, FRAME_HEADERS, 0, 1, "\x82\x86\x84\x41\x01"
                                                   "a",
                   6);
        int sent = 0;
        for (; sent < 5000 && bad_server(&scene) != NULL; sent++) {
            frames_put(scene.bad, FRAME_CONTINUATION, 0, 1, piece, empty ? 0 : n);
            kit_calm(&scene.kit);
            struct http2_server *server = bad_server(&scene);
            if (server == NULL || LIST_EMPTY(&server->link.flows))
                continue;
            assert_true(LIST_FIRST(&server->link.flows)->head.raw.capacity <= 128 << 10);
        }
        assert_true(sent < 100);
        frames_until(scene.bad, scene.bad->raw->eof || scene.bad->raw->reset);
        kit_hang_up(scene.bad->raw);
        kit_until(&scene.kit, http_listener_open(scene.kit.listener) == 1);
        assert_int_equal(scene.kit.n_ins, 0);
        scene_fini(&scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rapid_resets_end_the_connection),
        cmocka_unit_test(errors_count_as_resets),
        cmocka_unit_test(who_takes_replies_may_give_up_others),
        cmocka_unit_test(answers_that_have_begun_may_be_given_up),
        cmocka_unit_test(interim_heads_are_no_answers),
        cmocka_unit_test(exchanges_that_stood_may_be_given_up),
        cmocka_unit_test(exchanges_beyond_the_limit_are_not_begun),
        cmocka_unit_test(floods_of_frames_end_the_connection),
        cmocka_unit_test(headers_for_what_has_ended_are_paid_for),
        cmocka_unit_test(priority_of_no_exchange_is_an_error),
        cmocka_unit_test(acknowledgements_that_nobody_reads_are_bounded),
        cmocka_unit_test(a_large_header_is_431_and_a_huge_one_the_end),
        cmocka_unit_test(too_many_fields_are_431),
        cmocka_unit_test(a_header_bomb_ends_the_connection),
        cmocka_unit_test(a_header_without_an_end_ends_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
