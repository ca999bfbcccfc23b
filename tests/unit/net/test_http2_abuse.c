/* test_http2_abuse.c - clients of HTTP/2 that mean harm: each is ended, or slowed down, within
 * bounds that are counted here, and a client beside it is served all the while.
 */
#include "net_frames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "net/http2_server.h"

/* An attacker, and somebody else. */
struct scene {
    struct kit kit;
    struct frames *bad, *good;
    uint32_t next_good;
};

static void answer(struct kit_in *in)
{
    kit_reply(in, 200, "fine");
}

static void scene_init(struct scene *scene)
{
    kit_init(&scene->kit);
    scene->kit.options.http2 = true;
    scene->kit.on_end = answer;
    scene->next_good = 1;
}

static void scene_start(struct scene *scene)
{
    kit_listen(&scene->kit);
    scene->good = frames_client(&scene->kit);
    frames_until(scene->good, scene->good->acks > 0);
    scene->bad = frames_client(&scene->kit);
    frames_until(scene->bad, scene->bad->acks > 0);
}

/* The other client gets its reply. */
static void expect_service(struct scene *scene)
{
    uint32_t id = scene->next_good;

    scene->next_good += 2;
    frames_post(scene->good, id, true);
    frames_until(scene->good, frames_at(scene->good, id)->ended);
    assert_int_equal(frames_at(scene->good, id)->status, 200);
}

static void scene_fini(struct scene *scene)
{
    expect_service(scene);
    frames_free(scene->bad);
    frames_free(scene->good);
    kit_fini(&scene->kit);
}

/* The attacker's connection, which came last; null: it has ended. */
static struct http2_server *bad_server(struct scene *scene)
{
    return scene->kit.listener->n_conns == 2 ? scene->kit.listener->conns->http2 : NULL;
}

static void expect_calm(struct scene *scene)
{
    frames_until(scene->bad, scene->bad->goaway);
    assert_int_equal(scene->bad->goaway_code, HTTP2_ENHANCE_YOUR_CALM);
    frames_until(scene->bad, scene->bad->raw->eof || scene->bad->raw->reset);
    kit_hang_up(scene->bad->raw);
    kit_until(&scene->kit, http_listener_open(scene->kit.listener) == 1);
}

/* ---- Exchanges that are given up ------------------------------------------------------------- */

static void rapid_resets_end_the_connection(void **state)
{
    struct scene scene;
    uint32_t id = 1;

    (void)state;
    scene_init(&scene);
    scene.kit.on_end = NULL;
    scene.kit.options.limits.resets = 100;
    scene.kit.options.limits.resets_per_s = 1;
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
    frames_until(scene.bad, frames_at(scene.bad, 1)->ended);
    assert_int_equal(frames_at(scene.bad, 1)->status, 431);
    assert_non_null(strstr(frames_at(scene.bad, 1)->text, "application/json"));
    frames_post(scene.bad, 3, true); /* the connection goes on */
    frames_until(scene.bad, frames_at(scene.bad, 3)->ended);
    assert_int_equal(frames_at(scene.bad, 3)->status, 200);
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
    frames_until(scene.bad, frames_at(scene.bad, 1)->ended);
    assert_int_equal(frames_at(scene.bad, 1)->status, 431);
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
            if (server == NULL || server->link.flows == NULL)
                continue;
            assert_true(server->link.flows->head.words.capacity <= 128 << 10);
        }
        assert_true(sent < 100);
        frames_until(scene.bad, scene.bad->raw->eof || scene.bad->raw->reset);
        kit_hang_up(scene.bad->raw);
        kit_until(&scene.kit, http_listener_open(scene.kit.listener) == 1);
        assert_int_equal(scene.kit.n_ins, 0);
        scene_fini(&scene);
    }
}

/* ---- Slowness -------------------------------------------------------------------------------- */

static void half_a_beginning_ends_in_time(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit);
    kit.options.http2 = true;
    kit.options.limits.header_ms = 300;
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
    /* A header block that stops. */
    struct frames *frames = frames_client(&kit);
    frames_post(frames, 1, false);
    frames_put(frames, FRAME_HEADERS, 0, 3, "\x82", 1);
    frames_until(frames, frames->goaway);
    assert_int_equal(frames->goaway_code, HTTP2_ENHANCE_YOUR_CALM);
    kit_until(&kit, kit.n_ins == 1 && kit.ins[0].gone);
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
    frames_until(scene.bad, frames_at(scene.bad, 1)->ended);
    assert_int_equal(frames_at(scene.bad, 1)->status, 408);
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
    frames_until(scene.bad, frames_at(scene.bad, 3)->ended);
    assert_int_equal(frames_at(scene.bad, 3)->status, 200);
    scene_fini(&scene);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rapid_resets_end_the_connection),
        cmocka_unit_test(errors_count_as_resets),
        cmocka_unit_test(who_takes_replies_may_give_up_others),
        cmocka_unit_test(exchanges_beyond_the_limit_are_not_begun),
        cmocka_unit_test(floods_of_frames_end_the_connection),
        cmocka_unit_test(headers_for_what_has_ended_are_paid_for),
        cmocka_unit_test(priority_of_no_exchange_is_an_error),
        cmocka_unit_test(acknowledgements_that_nobody_reads_are_bounded),
        cmocka_unit_test(a_large_header_is_431_and_a_huge_one_the_end),
        cmocka_unit_test(too_many_fields_are_431),
        cmocka_unit_test(a_header_bomb_ends_the_connection),
        cmocka_unit_test(a_header_without_an_end_ends_the_connection),
        cmocka_unit_test(half_a_beginning_ends_in_time),
        cmocka_unit_test(a_body_without_an_end_is_408),
        cmocka_unit_test(a_patient_owner_waits),
        cmocka_unit_test(a_window_of_nothing_is_given_up),
        cmocka_unit_test(a_window_of_one_is_not_enough),
        cmocka_unit_test(a_refusal_that_nobody_takes_is_given_up),
        cmocka_unit_test(paused_bodies_hold_a_window_each),
        cmocka_unit_test(a_refused_body_does_not_stay),
        cmocka_unit_test(a_refused_body_without_an_end_is_stopped),
        cmocka_unit_test(a_client_that_does_not_read_is_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
