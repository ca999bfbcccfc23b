/* http2_scene.h - one server, a client of HTTP/2 that means harm, and another beside it that is to
 * be served all the while.
 */
#ifndef HTTP2_SCENE_H
#define HTTP2_SCENE_H

#include "io/http/http2_server_internal.h"
#include "net_frames.h"

/* An attacker, and somebody else. */
struct scene {
    struct kit kit;
    struct frames *bad, *good;
    uint32_t next_good;
};

static inline void answer(struct kit_in *in)
{
    kit_reply(in, 200, "fine");
}

static inline void scene_init(struct scene *scene)
{
    kit_init(&scene->kit);
    scene->kit.options.http2 = true;
    scene->kit.on_end = answer;
    scene->next_good = 1;
}

static inline void scene_start(struct scene *scene)
{
    kit_listen(&scene->kit);
    scene->good = frames_client(&scene->kit);
    frames_until(scene->good, scene->good->acks > 0);
    scene->bad = frames_client(&scene->kit);
    frames_until(scene->bad, scene->bad->acks > 0);
}

/* The other client gets its reply. */
static inline void expect_service(struct scene *scene)
{
    uint32_t id = scene->next_good;

    scene->next_good += 2;
    frames_post(scene->good, id, true);
    frames_expect_status(scene->good, id, 200);
}

static inline void scene_fini(struct scene *scene)
{
    expect_service(scene);
    frames_free(scene->bad);
    frames_free(scene->good);
    kit_fini(&scene->kit);
}

/* The attacker's connection, which came last; null: it has ended. */
static inline struct http2_server *bad_server(struct scene *scene)
{
    const struct http_listener *listener = scene->kit.listener;

    return listener->n_conns == 2 ? LIST_FIRST(&listener->conns)->http2 : NULL;
}

#endif
