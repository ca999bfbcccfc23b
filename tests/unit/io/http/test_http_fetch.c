/* test_http_fetch.c - one request whose reply is wanted whole, on real sockets. */
#include "net_kit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/http/http_fetch.h"

static const struct http_timeouts TIMEOUTS = {.total = 60000};

struct scene {
    struct kit kit;
    struct http_origin *origin;
    struct http_fetch fetch;
    char reply[8];
    int dones, again;
    char text[200];
};

static void fetch_it(struct scene *scene, struct slice body)
{
    struct http_head head = {.method = body.n > 0 ? SLICE("POST") : SLICE("GET"),
                             .target = SLICE("/x")};

    assert_true(http_fetch_send(&scene->fetch, scene->kit.client, scene->origin, &head, body,
                                &TIMEOUTS));
    assert_true(http_fetch_is_busy(&scene->fetch));
}

static void done(struct http_fetch *fetch)
{
    struct scene *scene = fetch->owner;

    assert_false(http_fetch_is_busy(fetch));
    scene->dones++;
    snprintf(scene->text, sizeof scene->text, "%s", fetch->text);
    if (scene->again > 0) {
        scene->again--;
        fetch_it(scene, SLICE(""));
    }
}

static void open_scene(struct scene *scene)
{
    *scene = (struct scene){.dones = 0};
    kit_init(&scene->kit);
    kit_listen(&scene->kit);
    kit_client(&scene->kit);
    scene->kit.on_end = kit_echo_chunked;
    scene->origin = kit_origin(scene->kit.port, NULL, NULL);
    http_fetch_init(&scene->fetch, done, scene, scene->reply, sizeof scene->reply);
}

static void close_scene(struct scene *scene)
{
    http_fetch_cancel(&scene->fetch);
    http_origin_unref(scene->origin);
    kit_fini(&scene->kit);
}

static void the_reply_comes_whole(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    fetch_it(&scene, SLICE("12345678"));
    kit_until(&scene.kit, scene.dones > 0);
    assert_string_equal(scene.kit.ins[0].line, "POST /x");
    assert_true(scene.fetch.answered);
    assert_int_equal(scene.fetch.status, 200);
    assert_false(scene.fetch.too_long); /* to the last byte of the room */
    assert_int_equal(scene.fetch.n, 8);
    assert_memory_equal(scene.reply, "12345678", 8);
    close_scene(&scene);
}

static void what_does_not_fit_is_left_out(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    fetch_it(&scene, SLICE("123456789"));
    kit_until(&scene.kit, scene.dones > 0);
    assert_true(scene.fetch.answered && scene.fetch.too_long);
    assert_int_equal(scene.fetch.n, 8);
    assert_memory_equal(scene.reply, "12345678", 8);
    /* Without a room only the status is wanted. */
    http_fetch_init(&scene.fetch, done, &scene, NULL, 0);
    fetch_it(&scene, SLICE("1"));
    kit_until(&scene.kit, scene.dones > 1);
    assert_true(scene.fetch.answered && scene.fetch.status == 200);
    assert_int_equal(scene.fetch.n, 0);
    close_scene(&scene);
}

static void it_may_be_sent_again_from_its_end(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    scene.again = 1;
    fetch_it(&scene, SLICE("12345678"));
    kit_until(&scene.kit, scene.dones > 1);
    assert_true(scene.fetch.answered);
    assert_int_equal(scene.fetch.n, 0); /* nothing of the first reply is left */
    close_scene(&scene);
}

static void why_there_is_no_reply_is_told(void **state)
{
    struct scene scene;
    struct kit_raw *raw;
    int port, listening = kit_raw_listen(&port);

    (void)state;
    open_scene(&scene);
    http_origin_unref(scene.origin);
    scene.origin = kit_origin(port, NULL, NULL);
    fetch_it(&scene, SLICE(""));
    raw = kit_raw_accept(&scene.kit, listening);
    kit_until(&scene.kit, kit_got(raw, "GET /x HTTP/1.1\r\n"));
    kit_put(&scene.kit, raw, "no HTTP at all\r\n\r\n");
    kit_until(&scene.kit, scene.dones > 0);
    assert_false(scene.fetch.answered);
    assert_int_equal(scene.fetch.status, 0);
    assert_int_equal(scene.fetch.why, HTTP_GARBAGE);
    close(listening);
    close_scene(&scene);
}

static void nothing_comes_once_it_is_cancelled(void **state)
{
    struct scene scene;

    (void)state;
    open_scene(&scene);
    http_fetch_cancel(&scene.fetch); /* nothing is under way */
    fetch_it(&scene, SLICE("1"));
    http_fetch_cancel(&scene.fetch);
    assert_false(http_fetch_is_busy(&scene.fetch));
    kit_calm(&scene.kit);
    assert_int_equal(scene.dones, 0);
    fetch_it(&scene, SLICE("2"));
    kit_until(&scene.kit, scene.dones > 0);
    assert_memory_equal(scene.reply, "2", 1);
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reply_comes_whole),
        cmocka_unit_test(what_does_not_fit_is_left_out),
        cmocka_unit_test(it_may_be_sent_again_from_its_end),
        cmocka_unit_test(why_there_is_no_reply_is_told),
        cmocka_unit_test(nothing_comes_once_it_is_cancelled),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
