/* remote_nodes.c - beats, and what comes back. See remote_nodes.h.
 *
 * One beat at a time: if Redis is slow, the next one waits for it, and if it is away, the pause
 * between two is that between two beats. The count is read by other threads while the loop writes
 * it: one number, with nothing else that would have to be seen with it, so relaxed is enough.
 */
#include "server/remote_store/remote_nodes.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/core/container_of.h"
#include "lib/core/num.h"
#include "server/remote_store/remote_name.h"
#include "server/remote_store/scripts.h"

enum { NAME_MAX_BYTES = 512 };

/* A client that has no connection says so at once: so one that has just been made, or has just come
 * back, need not wait for the next beat. */
static const tg_ms RETRY = 100;

struct remote_nodes {
    struct remote_nodes_options options;
    struct net_timer timer;
    struct redis_ask beat, leaving;
    atomic_size_t count, index;
    tg_ms asked_at; /* when the beat in flight was sent; loop's time */
    tg_ms least, most;
    bool in_flight, gone, knows_time;
    void (*left)(void *context);
    void *left_context;
    size_t key_bytes, node_bytes;
    char key[NAME_MAX_BYTES], node[NAME_MAX_BYTES];
};

void remote_nodes_options_init(struct remote_nodes_options *options)
{
    *options = (struct remote_nodes_options){.prefix = "tg", .every = 1000, .ttl = 5000};
}

static struct remote_nodes *of_beat(struct redis_ask *ask)
{
    return container_of(ask, struct remote_nodes, beat);
}

static struct remote_nodes *of_leaving(struct redis_ask *ask)
{
    return container_of(ask, struct remote_nodes, leaving);
}

static void beat(struct remote_nodes *nodes)
{
    char ttl[24];
    struct slice key = {nodes->key, nodes->key_bytes};
    struct slice args[2] = {{nodes->node, nodes->node_bytes}, {ttl, 0}};

    if (nodes->in_flight || nodes->gone)
        return;
    args[1].n = (size_t)snprintf(ttl, sizeof ttl, "%lld", (long long)nodes->options.ttl);
    nodes->in_flight = true;
    nodes->asked_at = net_loop_now(nodes->options.loop);
    redis_eval(nodes->options.redis, &nodes->beat, &script_node_beat, &key, 1, args, 2);
}

static void remote_nodes_learn(struct remote_nodes *nodes, int64_t count, int64_t index, tg_ms time)
{
    size_t n = count < 1 ? 1 : (size_t)count, i = index < 0 ? 0 : (size_t)index;
    bool same = n == remote_nodes_count(nodes) && i == remote_nodes_index(nodes);

    /* The script ran between asking and now. */
    nodes->most = time + 1 - nodes->asked_at;
    nodes->least = time - net_loop_now(nodes->options.loop) - 1;
    nodes->knows_time = true;
    atomic_store_explicit(&nodes->count, n, memory_order_relaxed);
    atomic_store_explicit(&nodes->index, i, memory_order_relaxed);
    if (!same && nodes->options.changed)
        nodes->options.changed(nodes->options.context, n, i);
}

static void remote_nodes_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_nodes *nodes = of_beat(ask);

    nodes->in_flight = false;
    if (!reply && !nodes->gone)
        net_timer_set(nodes->options.loop, &nodes->timer, num_min(nodes->options.every, RETRY));
    if (nodes->gone || redis_reply_is_error(reply) || redis_reply_n(reply) != 4)
        return;
    if (nodes->knows_time && redis_reply_integer(redis_reply_at(reply, 3), 1) == 0 &&
        nodes->options.forgotten)
        nodes->options.forgotten(nodes->options.context);
    remote_nodes_learn(nodes, redis_reply_integer(redis_reply_at(reply, 0), 1),
                       redis_reply_integer(redis_reply_at(reply, 1), 0),
                       redis_reply_integer(redis_reply_at(reply, 2), 0));
}

static void fire(void *arg)
{
    struct remote_nodes *nodes = arg;

    beat(nodes);
    net_timer_set(nodes->options.loop, &nodes->timer, nodes->options.every);
}

static void has_left(struct redis_ask *ask, const struct redisReply *reply)
{
    struct remote_nodes *nodes = of_leaving(ask);

    (void)reply;
    if (nodes->left)
        nodes->left(nodes->left_context);
}

static bool write_names(struct remote_nodes *nodes)
{
    struct remote_text key = {nodes->key, sizeof nodes->key, 0};
    struct remote_text node = {nodes->node, sizeof nodes->node, 0};

    remote_text_put(&key, slice_of(nodes->options.prefix));
    remote_text_put(&key, SLICE(":node:{nodes}"));
    remote_text_put(&node, slice_of(nodes->options.node));
    nodes->key_bytes = key.n;
    nodes->node_bytes = node.n;
    return remote_text_fits(&key) && remote_text_fits(&node);
}

enum tg_err remote_nodes_new(const struct remote_nodes_options *options, struct remote_nodes **made)
{
    if (!options->node || !*options->node || options->every < 1 || options->ttl < 1)
        return TG_ERR_INVALID;
    struct remote_nodes *nodes = calloc(1, sizeof *nodes);
    if (!nodes)
        return TG_ERR_MEMORY;
    nodes->options = *options;
    if (!write_names(nodes)) {
        free(nodes);
        return TG_ERR_INVALID;
    }
    atomic_init(&nodes->count, 1);
    atomic_init(&nodes->index, 0);
    redis_ask_init(&nodes->beat, remote_nodes_answered, NULL);
    redis_ask_init(&nodes->leaving, has_left, NULL);
    net_timer_init(&nodes->timer, fire, nodes);
    fire(nodes);
    *made = nodes;
    return TG_OK;
}

void remote_nodes_free(struct remote_nodes *nodes)
{
    if (!nodes)
        return;
    net_timer_stop(nodes->options.loop, &nodes->timer);
    free(nodes);
}

void remote_nodes_leave(struct remote_nodes *nodes, void (*left)(void *context), void *context)
{
    struct slice words[3] = {
        SLICE("ZREM"), {nodes->key, nodes->key_bytes}, {nodes->node, nodes->node_bytes}};

    if (nodes->gone)
        return;
    nodes->gone = true;
    nodes->left = left;
    nodes->left_context = context;
    net_timer_stop(nodes->options.loop, &nodes->timer);
    redis_command(nodes->options.redis, &nodes->leaving, words, 3, 1);
}

size_t remote_nodes_count(const struct remote_nodes *nodes)
{
    return atomic_load_explicit(&nodes->count, memory_order_relaxed);
}

size_t remote_nodes_index(const struct remote_nodes *nodes)
{
    return atomic_load_explicit(&nodes->index, memory_order_relaxed);
}

bool remote_nodes_offset(const struct remote_nodes *nodes, tg_ms *least, tg_ms *most)
{
    *least = nodes->least;
    *most = nodes->most;
    return nodes->knows_time;
}
