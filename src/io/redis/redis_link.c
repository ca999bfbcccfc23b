/* redis_link.c - one connection: asks in flight in the order of their replies, its health, its end.
 *
 * Nothing waits on a link that is in doubt. A late ask makes it suspect: new asks are refused until
 * a probe, which went out behind the late one, has come back. A server that says that it cannot
 * serve is unwell until it answers a probe. A link whose oldest ask has waited for `patience` is
 * closed: what it owes is answered with null, and nobody knows what became of it.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/redis/redis_internal.h"
#include "lib/core/container_of.h"

#define STEADY_MS 1000 /* up for so long: the next failure is the first of a row */

static void send_probe(struct redis_link *link);
static void probe_answered(struct redis_ask *ask, const struct redisReply *reply);

static struct redis_link *link_of(struct wire *wire)
{
    return container_of(wire, struct redis_link, wire);
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* A place among the links of the client; n: there is none. */
static size_t free_place(const struct redis *redis)
{
    size_t place = 0;

    while (place < redis->n_links && redis->links[place] != NULL)
        place++;
    return place;
}

struct redis_link *link_new(struct redis *redis, enum link_kind kind, const struct redis_host *host)
{
    size_t place = free_place(redis);
    struct redis_link *link = place < REDIS_LINKS_MAX ? calloc(1, sizeof *link) : NULL;

    if (link == NULL)
        return NULL;
    assert(place <= redis->n_links && redis->links[place] == NULL);
    redis->links[place] = link;
    if (place == redis->n_links)
        redis->n_links++;
    link->redis = redis;
    link->place = place;
    link->kind = kind;
    link->host = *host;
    STAILQ_INIT(&link->asks);
    link->wire = (struct wire){.loop = redis->loop, .fd = -1};
    redis_ask_init(&link->probe, probe_answered, NULL);
    net_timer_init(&link->share, NULL, NULL);
    /* Not from inside: whoever made it may have to say what it is for. */
    net_timer_init(&link->timer, link_dial, link);
    net_timer_set(redis->loop, &link->timer, 1);
    return link;
}

struct redis_link *link_find(struct redis *redis, const char *name, int port)
{
    for (size_t i = 0; i < redis->n_links; i++) {
        struct redis_link *link = redis->links[i];

        if (link != NULL && !link->retired && link->host.port == port &&
            strcmp(link->host.name, name) == 0)
            return link;
    }
    return NULL;
}

/* All that it owes, answered with null. What is asked meanwhile finds it closed. */
static void lose_all(struct redis_link *link)
{
    struct redis_queue asks = STAILQ_HEAD_INITIALIZER(asks);
    struct redis_ask *ask;

    STAILQ_CONCAT(&asks, &link->asks);
    link->in_flight = link->n_late = 0;
    while ((ask = STAILQ_FIRST(&asks)) != NULL) {
        STAILQ_REMOVE_HEAD(&asks, queue);
        assert(ask->link == link);
        ask->link = NULL;
        redis_lose(link->redis, ask, REDIS_BROKE);
    }
}

static void disconnect(struct redis_link *link, enum link_state state)
{
    link_dial_stop(link);
    wire_close(&link->wire);
    resp_reader_free(link->reader);
    link->reader = NULL;
    assert(state == LINK_WAITING || state == LINK_ENDED);
    link->state = state;
    link->suspect = link->unwell = link->cluster_is_down = link->leaving = false;
    link->by_text = link->forbids = false;
}

void link_end(struct redis_link *link)
{
    struct redis *redis = link->redis;

    assert(link->state != LINK_ENDED);
    assert(redis->links[link->place] == link);
    disconnect(link, LINK_ENDED);
    redis->links[link->place] = NULL;
    if (redis->cluster != NULL)
        redis_cluster_link_gone(redis, link->place);
    if (redis->master == link)
        redis->master = NULL;
    lose_all(link);
    tls_ticket_fini(&link->ticket);
    net_loop_bury(redis->loop, &link->grave);
    redis_poll(redis);
}

/* Doubles with every failure, up to a bound; of each, a half is left to chance. */
static tg_ms pause_of(struct redis_link *link)
{
    const struct redis_options *options = &link->redis->options;
    tg_ms pause = options->backoff_min;

    for (unsigned i = 1; i < link->failures && pause < options->backoff_max; i++)
        pause *= 2;
    if (pause > options->backoff_max)
        pause = options->backoff_max;
    return (tg_ms)random_between(&link->redis->random, (double)pause / 2, (double)pause + 1);
}

void link_fail(struct redis_link *link, const char *text)
{
    struct redis *redis = link->redis;
    bool steady = link->state == LINK_UP && net_loop_now(redis->loop) - link->up_at >= STEADY_MS;

    redis_note_problem(redis, &link->host, text); /* before what the text may be part of goes */
    if (link->retired) {
        link_end(link);
        return;
    }
    disconnect(link, LINK_WAITING);
    redis->stats.failed++;
    link->failures = steady ? 1 : link->failures + 1;
    net_timer_init(&link->timer, link_dial, link);
    net_timer_set(redis->loop, &link->timer, pause_of(link));
    lose_all(link);
    if (link->kind == LINK_SENTINEL)
        redis_sentinel_link_down(redis);
    else if (redis->options.kind == REDIS_SENTINEL)
        redis_sentinel_hurry(redis);
    else if (redis->cluster != NULL)
        redis_cluster_hurry(redis);
    redis_poll(redis);
}

/* ---- Health ---------------------------------------------------------------------------------- */

static void schedule_check(struct redis_link *link)
{
    const struct redis_options *options = &link->redis->options;
    tg_ms pause = (options->patience < options->health ? options->patience : options->health) / 2;

    if (link->unwell && pause > REDIS_UNWELL_MS)
        pause = REDIS_UNWELL_MS;
    if (link->leaving && link->in_flight == 0)
        pause = 1;
    net_timer_set(link->redis->loop, &link->timer, pause);
}

static void redis_link_check(void *arg)
{
    struct redis_link *link = arg;
    const struct redis_options *options = &link->redis->options;
    tg_ms now = net_loop_now(link->redis->loop);

    if (link->leaving && link->in_flight == 0) {
        if (link->retired)
            link_end(link);
        else
            link_fail(link, link->text);
        return;
    }
    struct redis_ask *oldest = STAILQ_FIRST(&link->asks);
    if (oldest != NULL && now - oldest->queued_at >= options->patience) {
        link_fail(link, "no answer in time");
        return;
    }
    if (link->forbids && now - link->forbade_at >= REDIS_FORBIDS_MS) {
        link->forbids = false;
        redis_poll(link->redis);
    }
    if (link->unwell || now - link->heard_at >= options->health)
        send_probe(link);
    schedule_check(link);
}

void link_is_up(struct redis_link *link)
{
    struct redis *redis = link->redis;
    tg_ms now = net_loop_now(redis->loop);

    assert(link->state == LINK_GREETING && link->reader != NULL);
    assert(link->in_flight == 0 && STAILQ_EMPTY(&link->asks));
    link->state = LINK_UP;
    link->up_at = link->heard_at = now;
    redis->stats.connects++;
    net_timer_stop(redis->loop, &link->timer);
    net_timer_init(&link->timer, redis_link_check, link);
    schedule_check(link);
    if (link->kind == LINK_SENTINEL)
        redis_sentinel_link_up(redis);
    else if (link->kind == LINK_NODE)
        redis_cluster_link_up(link);
    redis_poll(redis);
}

static void send_probe(struct redis_link *link)
{
    struct slice eval[] = {SLICE("EVAL"), redis_probe_text, SLICE("0")};
    struct slice info[] = {SLICE("CLUSTER"), SLICE("INFO")};
    struct slice ping[] = {SLICE("PING")};
    struct redis *redis = link->redis;
    bool plain = link->plain_probe || link->kind == LINK_SENTINEL;

    if (link->probe.link != NULL || link->state != LINK_UP)
        return;
    if (link->cluster_is_down ? redis_write_ask(redis, &link->probe, info, 2)
        : plain               ? redis_write_ask(redis, &link->probe, ping, 1)
                              : redis_write_ask(redis, &link->probe, eval, 3))
        link_send(link, &link->probe);
}

static void be_well(struct redis_link *link)
{
    link->unwell = link->cluster_is_down = false;
    if (link->n_late == 0)
        link->suspect = false;
    else
        send_probe(link); /* the last one was sent before what is late */
    redis_poll(link->redis);
}

static void probe_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct redis_link *link = container_of(ask, struct redis_link, probe);

    if (reply == NULL)
        return; /* it has failed, of which all is told */
    switch (resp_error_of(reply)) {
    case RESP_UNWELL:
    case RESP_CLUSTERDOWN:
        link_be_unwell(link, link->cluster_is_down, reply->str);
        break;
    case RESP_READONLY:
        link_be_readonly(link, reply->str);
        break;
    case RESP_NOAUTH:
        link_leave(link, reply->str);
        break;
    case RESP_FINE:
        if (!link->cluster_is_down ||
            (reply->type == REDIS_REPLY_STRING && strstr(reply->str, "cluster_state:ok") != NULL))
            be_well(link);
        break;
    default:
        link->plain_probe = true;
        be_well(link);
    }
}

void link_be_unwell(struct redis_link *link, bool cluster_is_down, const char *text)
{
    redis_note_problem(link->redis, &link->host, text);
    link->unwell = true;
    link->cluster_is_down |= cluster_is_down;
    if (link->state == LINK_UP)
        schedule_check(link);
    redis_poll(link->redis);
}

void link_forbids(struct redis_link *link, const char *text)
{
    redis_note_problem(link->redis, &link->host, text);
    link->forbids = true;
    link->forbade_at = net_loop_now(link->redis->loop);
    redis_poll(link->redis);
}

void link_leave(struct redis_link *link, const char *text)
{
    if (link->leaving || link->state != LINK_UP)
        return;
    link->leaving = true;
    snprintf(link->text, sizeof link->text, "%.150s", text);
    schedule_check(link);
    redis_poll(link->redis);
}

void link_be_readonly(struct redis_link *link, const char *text)
{
    if (link->kind != LINK_NODE)
        link_leave(link, text);
    else
        link_be_unwell(link, false, text);
}

void link_retire(struct redis_link *link)
{
    struct redis *redis = link->redis;

    if (redis->master == link)
        redis->master = NULL;
    link->retired = true;
    if (link->state == LINK_UP) {
        link_leave(link, "no longer needed");
        return;
    }
    link_end(link);
}

void link_ask_is_late(struct redis_link *link, struct redis_ask *ask)
{
    assert(ask->link == link && ask->is_late);
    link->n_late++;
    assert(link->n_late <= link->in_flight);
    /* One that has just answered others is busy, not gone. */
    if (net_loop_now(link->redis->loop) - link->heard_at < link->redis->options.doubt)
        return;
    link->suspect = true;
    send_probe(link);
    redis_poll(link->redis);
}

bool link_answers(const struct redis_link *link)
{
    return link != NULL && link->state == LINK_UP && !link->suspect && !link->leaving;
}

bool link_is_ready(const struct redis_link *link)
{
    return link_answers(link) && !link->unwell;
}

bool link_has_room(const struct redis_link *link)
{
    return link->in_flight < link->redis->options.in_flight_max &&
           wire_queued(&link->wire) < REDIS_QUEUED_MAX;
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* EVALSHA and its sum, as they were written, become EVAL and the text; the rest is as it was. */
static void redis_link_write_text(struct redis_link *link, const struct redis_ask *ask)
{
    static const char by_sum[] = "$7\r\nEVALSHA\r\n$40\r\n";
    const char *words = (const char *)memchr(ask->command, '\n', ask->command_bytes) + 1;
    const char *rest = words + sizeof by_sum - 1 + 40 + 2;
    assert(memcmp(words, by_sum, sizeof by_sum - 1) == 0);
    struct slice text = ask->script->text;
    char length[64];
    int n = snprintf(length, sizeof length, "$4\r\nEVAL\r\n$%zu\r\n", text.n);

    wire_write(&link->wire, ask->command, (size_t)(words - ask->command));
    wire_write(&link->wire, length, (size_t)n);
    wire_write(&link->wire, text.at, text.n);
    wire_write(&link->wire, "\r\n", 2);
    wire_write(&link->wire, rest, (size_t)(ask->command + ask->command_bytes - rest));
}

void link_send(struct redis_link *link, struct redis_ask *ask)
{
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    struct net_loop *loop = link->redis->loop;

    assert(ask->is_pending && ask->link == NULL);
    ask->link = link;
    assert(link->state == LINK_UP);
    ask->text |= link->by_text && ask->script != NULL;
    ask->skip = ask->asking ? 1 : 0;
    ask->queued_at = net_loop_now(loop);
    STAILQ_INSERT_TAIL(&link->asks, ask, queue);
    link->in_flight++;
    if (ask->is_late)
        link->n_late++;
    if (!net_timer_is_set(&ask->timer) && !ask->is_late)
        net_timer_set(loop, &ask->timer, link->redis->options.timeout);
    if (ask->asking)
        wire_write(&link->wire, asking, sizeof asking - 1);
    if (ask->text)
        redis_link_write_text(link, ask);
    else
        wire_write(&link->wire, ask->command, ask->command_bytes);
}

/* ---- The wire -------------------------------------------------------------------------------- */

static void take_reply(struct redis_link *link, const struct redisReply *reply)
{
    struct redis_ask *ask = STAILQ_FIRST(&link->asks);

    if (ask == NULL) {
        link_fail(link, "a reply that nobody asked for");
        return;
    }
    link->heard_at = net_loop_now(link->redis->loop);
    if (ask->skip > 0) {
        ask->skip--;
        return;
    }
    STAILQ_REMOVE_HEAD(&link->asks, queue);
    link->in_flight--;
    link->n_late -= ask->is_late;
    ask->link = NULL;
    assert((link->in_flight == 0) == STAILQ_EMPTY(&link->asks));
    assert(link->n_late <= link->in_flight);
    redis_take_reply(link, ask, reply);
    if (link->leaving && link->in_flight == 0)
        schedule_check(link);
}

static void redis_link_on_up(struct wire *wire)
{
    link_dial_up(link_of(wire));
}

static size_t redis_link_on_data(struct wire *wire, const char *bytes, size_t n)
{
    struct redis_link *link = link_of(wire);
    const struct redisReply *reply;

    if (n == 0)
        return 0;
    bool good = resp_reader_feed(link->reader, bytes, n);
    while (good && (good = resp_reader_next(link->reader, &reply)) && reply != NULL) {
        if (link->state == LINK_GREETING)
            link_greet_reply(link, reply);
        else
            take_reply(link, reply);
        if (link->state != LINK_GREETING && link->state != LINK_UP)
            return n; /* it has failed meanwhile, and the reader is gone */
    }
    if (!good)
        link_fail(link, resp_reader_problem(link->reader));
    return n;
}

static void redis_link_on_eof(struct wire *wire)
{
    link_dial_broke(link_of(wire), WIRE_RESET, "closed by the server");
}

static void redis_link_on_wrote(struct wire *wire)
{
    (void)wire;
}

static void redis_link_on_broke(struct wire *wire, enum wire_fault fault, const char *text)
{
    link_dial_broke(link_of(wire), fault, text);
}

const struct wire_ops redis_wire_ops = {
    .up = redis_link_on_up,
    .data = redis_link_on_data,
    .eof = redis_link_on_eof,
    .wrote = redis_link_on_wrote,
    .broke = redis_link_on_broke,
};
