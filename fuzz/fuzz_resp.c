/* fuzz_resp.c - any bytes as what a server of Redis answers: each ask is answered once, whatever
 * comes.
 *
 * The first byte chooses who is spoken to (a master, a sentinel, a node of a cluster), the second
 * how the rest is cut into pieces. The link is up from the start for some inputs, and has to be
 * greeted in others. Between pieces owners ask, as far as the client takes it. Nothing is
 * connected: the wire has no socket, and the loop does not turn.
 */
#include <stdlib.h>

#include "insist.h"
#include "io/redis/redis_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ASKS 64

struct owner {
    struct redis_ask ask;
    int answered;
};

static uint64_t walk(const struct redisReply *reply, int depth)
{
    uint64_t sum = (uint64_t)redis_reply_integer(reply, 7) + redis_reply_text(reply).n;

    insist(depth < 16);
    for (size_t i = 0; i < redis_reply_n(reply); i++) {
        insist(redis_reply_at(reply, i) != NULL);
        sum += walk(redis_reply_at(reply, i), depth + 1);
    }
    return sum;
}

static void answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct owner *owner = (struct owner *)(void *)ask;

    insist(owner->answered++ == 0);
    insist((reply == NULL) == (ask->lost != REDIS_ANSWERED));
    if (reply != NULL)
        (void)walk(reply, 0);
}

static void ask_more(struct redis *redis, struct owner *owners, size_t *n)
{
    static const struct redis_script script = {
        "fuzz", {"return 1", 8}, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"};
    struct slice key = SLICE("a"), words[] = {SLICE("GET"), key};

    for (int i = 0; i < 2 && *n < ASKS; i++) {
        struct owner *owner = &owners[(*n)++];

        *owner = (struct owner){.answered = 0};
        redis_ask_init(&owner->ask, answered, NULL);
        if (i == 0)
            redis_eval(redis, &owner->ask, &script, &key, 1, &key, 1);
        else
            redis_command(redis, &owner->ask, words, 2, 1);
        insist(owner->answered == 0);
    }
}

/* The state in which the first link has connected. */
static struct redis_link *connect_first(struct redis *redis, bool greeted)
{
    struct redis_link *link = redis->links[0];

    net_timer_stop(redis->loop, &link->timer);
    insist(wire_accept(&link->wire, redis->loop, &redis_wire_ops, -1, NULL));
    link->state = LINK_CONNECTING;
    link_dial_up(link);
    if (greeted && link->state == LINK_GREETING)
        link_is_up(link);
    if (greeted && redis->cluster != NULL) { /* the first reply is the map */
        net_timer_stop(redis->loop, &redis->cluster->timer);
        redis->cluster->timer.fire(redis->cluster->timer.arg);
    }
    return link;
}

/* A map of the cluster may drop the link, and with it its memory. */
static bool still_heard(const struct redis *redis, const struct redis_link *link)
{
    return redis->n_links > 0 && redis->links[0] == link &&
           (link->state == LINK_GREETING || link->state == LINK_UP);
}

static void run(struct net_loop *loop, enum redis_kind kind, bool greeted, const char *bytes,
                size_t n, size_t piece)
{
    struct redis_options options;
    struct redis *redis;
    struct owner owners[ASKS];
    size_t n_owners = 0;

    redis_options_init(&options);
    options.kind = kind;
    options.hosts[0] = (struct redis_host){"127.0.0.1", 6379};
    options.n_hosts = 1;
    strcpy(options.master, "main");
    insist(redis_new(loop, &options, &redis, NULL) == TG_OK);
    struct redis_link *link = connect_first(redis, greeted);
    for (size_t at = 0; at < n && still_heard(redis, link); at += piece) {
        size_t now = piece < n - at ? piece : n - at;
        char *exact = malloc(now);

        ask_more(redis, owners, &n_owners);
        memcpy(exact, bytes + at, now);
        wire_feed(&link->wire, exact, now);
        free(exact);
    }
    redis_free(redis);
    net_loop_settle(loop);
    for (size_t i = 0; i < n_owners; i++)
        insist(owners[i].answered == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct clock clock;
    static struct net_loop *loop;

    if (loop == NULL) {
        clock_init(&clock);
        insist(net_loop_new(&clock, &loop) == TG_OK);
    }
    if (size < 2)
        return 0;
    run(loop, (enum redis_kind)(data[0] % 3), data[0] & 128, (const char *)data + 2, size - 2,
        1u + data[1] % 64u * 16u);
    return 0;
}
