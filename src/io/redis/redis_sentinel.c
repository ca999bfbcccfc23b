/* redis_sentinel.c - which server is the master: one sentinel is asked, again and again.
 *
 * A sentinel is asked every second, and ten times as often while there is no master. That is one
 * connection and one command; to subscribe to switches would take a second connection, and the
 * first one all the same, for messages that were lost. What a sentinel says is believed when the
 * server agrees: the greeting of a link asks for its role. A sentinel that cannot be reached, does
 * not know the name, or keeps naming a server that is none, is left for the next in the list.
 */
#include <stdio.h>

#include "io/redis/redis_internal.h"

#define ASK_MS 1000
#define ASK_SOON_MS 100
#define DOUBTS_MAX 10 /* answers in a row that led nowhere */

static void plan(struct redis *redis)
{
    net_timer_set(redis->loop, &redis->sentinel.timer,
                  link_is_ready(redis->master) ? ASK_MS : ASK_SOON_MS);
}

static void ask_now(void *arg)
{
    struct redis *redis = arg;
    struct redis_sentinel *sentinel = &redis->sentinel;
    struct slice words[] = {SLICE("SENTINEL"), SLICE("get-master-addr-by-name"),
                            slice_of(redis->options.master)};

    plan(redis);
    if (sentinel->ask.link != NULL || !link_is_ready(sentinel->link))
        return;
    if (redis_write_ask(redis, &sentinel->ask, words, 3))
        link_send(sentinel->link, &sentinel->ask);
}

/* What it says has led nowhere for a while: another one may know better. */
static void doubt(struct redis *redis)
{
    struct redis_sentinel *sentinel = &redis->sentinel;

    if (link_is_ready(redis->master))
        sentinel->doubts = 0;
    else if (++sentinel->doubts >= DOUBTS_MAX && redis->options.n_hosts > 1)
        link_fail(sentinel->link, "the master that it names cannot be reached");
}

static void adopt(struct redis *redis, const struct redis_host *host)
{
    struct redis_link *old = redis->master;

    if (old != NULL && old->host.port == host->port && strcmp(old->host.name, host->name) == 0) {
        doubt(redis);
        return;
    }
    if (old != NULL)
        link_retire(old);
    redis->master = link_new(redis, LINK_MASTER, host);
    redis_poll(redis);
}

static bool read_port(struct slice text, int *port)
{
    int n = 0;

    if (text.n == 0 || text.n > 5)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        n = n * 10 + (text.at[i] - '0');
    }
    *port = n;
    return n > 0 && n <= 65535;
}

static void redis_sentinel_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct redis *redis = ask->redis;
    struct slice name = redis_reply_text(redis_reply_at(reply, 0));
    struct slice port = redis_reply_text(redis_reply_at(reply, 1));
    struct redis_host host;

    if (reply == NULL)
        return; /* the link has ended */
    if (name.n == 0 || name.n >= sizeof host.name || !read_port(port, &host.port)) {
        char text[160];

        if (reply->type == REDIS_REPLY_ERROR)
            snprintf(text, sizeof text, "%.150s", reply->str);
        else
            snprintf(text, sizeof text, "knows no master '%.100s'", redis->options.master);
        link_fail(redis->sentinel.link, text);
        return;
    }
    memcpy(host.name, name.at, name.n);
    host.name[name.n] = '\0';
    adopt(redis, &host);
    plan(redis);
}

bool redis_sentinel_begin(struct redis *redis)
{
    struct redis_sentinel *sentinel = &redis->sentinel;

    redis_ask_init(&sentinel->ask, redis_sentinel_answered, NULL);
    net_timer_init(&sentinel->timer, ask_now, redis);
    sentinel->link = link_new(redis, LINK_SENTINEL, &redis->options.hosts[0]);
    return sentinel->link != NULL;
}

void redis_sentinel_fini(struct redis *redis)
{
    net_timer_stop(redis->loop, &redis->sentinel.timer);
}

void redis_sentinel_link_up(struct redis *redis)
{
    ask_now(redis);
}

/* The next one, at once until all have been tried. */
void redis_sentinel_link_down(struct redis *redis)
{
    struct redis_sentinel *sentinel = &redis->sentinel;
    struct redis_link *link = sentinel->link;
    size_t n = redis->options.n_hosts;

    sentinel->doubts = 0;
    sentinel->host = (sentinel->host + 1) % n;
    link->host = redis->options.hosts[sentinel->host];
    tls_ticket_fini(&link->ticket);
    if (link->failures % n != 0)
        net_timer_set(redis->loop, &link->timer, 1);
}

void redis_sentinel_hurry(struct redis *redis)
{
    if (redis->options.kind == REDIS_SENTINEL && !redis->freeing)
        net_timer_set(redis->loop, &redis->sentinel.timer, 1);
}
