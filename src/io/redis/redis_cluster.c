/* redis_cluster.c - which servers are masters, and of which slots: a map, read anew when in doubt.
 *
 * Any node knows the whole map (CLUSTER SLOTS). It is read when the first node greets, every ten
 * seconds, and soon after anything contradicts it: a MOVED, a slot that nobody serves, a link that
 * failed, is suspected or unwell; then four times a second until it is whole. Reads are a tenth of
 * a second apart at least, however many asks are sent on. A MOVED is believed at once, for its
 * slot.
 *
 * There is a link to every master, from the moment it is on the map: decisions do not wait for a
 * connection. Links to other nodes are retired. When no node answers any more, those of the options
 * are tried again.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/redis/redis_internal.h"

#define READ_MS 10000       /* between two readings of a map that is whole */
#define READ_SOON_MS 250    /* between two readings of one that is not */
#define READ_AT_MOST_MS 100 /* between any two */

static void set_owner(struct redis_cluster *cluster, unsigned slot, size_t place)
{
    assert(slot < REDIS_SLOTS);
    assert(place < REDIS_LINKS_MAX || place == LINK_NONE);
    if (cluster->owner[slot] == LINK_NONE)
        cluster->without--;
    cluster->owner[slot] = (uint8_t)place;
    if (place == LINK_NONE)
        cluster->without++;
    assert(cluster->without <= REDIS_SLOTS);
}

static struct redis_link *owner_of(const struct redis *redis, unsigned slot)
{
    uint8_t place = redis->cluster->owner[slot];

    assert(slot < REDIS_SLOTS);
    assert(place == LINK_NONE || redis->links[place] != NULL); /* a link that ends owns no slot */
    return place != LINK_NONE ? redis->links[place] : NULL;
}

/* A node that is so, beginning at a place; null: none. */
static struct redis_link *any_node(const struct redis *redis, size_t from,
                                   bool (*is)(const struct redis_link *link))
{
    for (size_t i = 0; i < redis->n_links; i++) {
        struct redis_link *link = redis->links[(from + i) % redis->n_links];

        if (is(link))
            return link;
    }
    return NULL;
}

struct redis_link *redis_cluster_link(const struct redis *redis, int slot)
{
    if (slot < 0)
        return any_node(redis, 0, link_is_ready);
    return owner_of(redis, (unsigned)slot);
}

bool redis_cluster_is_whole(const struct redis *redis)
{
    if (!redis->cluster->known || redis->cluster->without > 0)
        return false;
    for (size_t i = 0; i < redis->n_links; i++)
        if (redis->links[i] != NULL && redis->links[i]->wanted && !link_is_ready(redis->links[i]))
            return false;
    return true;
}

/* The link to a node; made if there is none. Null: no memory, or too many. */
static struct redis_link *link_to(struct redis *redis, struct slice name, int port,
                                  const struct redis_link *from)
{
    struct redis_host host = {.port = port};

    if (name.n == 0) /* the node does not say: where it was asked */
        name = slice_of(from->host.name);
    if (name.n >= sizeof host.name || slice_equal(name, SLICE("?")) || port < 1 || port > 65535)
        return NULL;
    memcpy(host.name, name.at, name.n);
    struct redis_link *link = link_find(redis, host.name, port);
    return link != NULL ? link : link_new(redis, LINK_NODE, &host);
}

/* ---- The map --------------------------------------------------------------------------------- */

/* One row: first slot, last slot, master, replicas. False: it makes no sense, or has no master. */
static bool read_row(struct redis *redis, const struct redisReply *row, size_t *masters)
{
    const struct redisReply *node = redis_reply_at(row, 2);
    int64_t first = redis_reply_integer(redis_reply_at(row, 0), -1);
    int64_t last = redis_reply_integer(redis_reply_at(row, 1), -1);
    int64_t port = redis_reply_integer(redis_reply_at(node, 1), -1);

    if (first < 0 || last < first || last >= REDIS_SLOTS || port < 1 || port > 65535)
        return false;
    struct redis_link *link =
        link_to(redis, redis_reply_text(redis_reply_at(node, 0)), (int)port, redis->cluster->asked);
    if (link == NULL || (!link->wanted && *masters >= REDIS_MASTERS_MAX))
        return false;
    *masters += !link->wanted;
    link->wanted = true;
    for (int64_t slot = first; slot <= last; slot++)
        set_owner(redis->cluster, (unsigned)slot, link->place);
    return true;
}

static void forget_map(struct redis *redis)
{
    struct redis_cluster *cluster = redis->cluster;

    memset(cluster->owner, LINK_NONE, sizeof cluster->owner);
    cluster->without = REDIS_SLOTS;
    for (size_t i = 0; i < redis->n_links; i++)
        if (redis->links[i] != NULL)
            redis->links[i]->wanted = false;
}

static void read_map(struct redis *redis, const struct redisReply *reply)
{
    size_t masters = 0;

    forget_map(redis);
    for (size_t i = 0; i < redis_reply_n(reply); i++)
        if (!read_row(redis, redis_reply_at(reply, i), &masters))
            redis_note_problem(redis, &redis->cluster->asked->host,
                               "a part of the map of slots is not usable");
    redis->cluster->known = masters > 0;
    for (size_t i = 0; i < redis->n_links && masters > 0; i++)
        if (redis->links[i] != NULL && !redis->links[i]->wanted && !redis->links[i]->retired)
            link_retire(redis->links[i]);
    redis_poll(redis);
}

static void plan(struct redis *redis)
{
    net_timer_set(redis->loop, &redis->cluster->timer,
                  redis_cluster_is_whole(redis) ? READ_MS : READ_SOON_MS);
}

static void redis_cluster_answered(struct redis_ask *ask, const struct redisReply *reply)
{
    struct redis *redis = ask->redis;

    if (redis->freeing)
        return;
    if (redis_reply_is_error(reply)) {
        if (reply != NULL)
            redis_note_problem(redis, &redis->cluster->asked->host, reply->str);
        redis_cluster_hurry(redis);
        return;
    }
    read_map(redis, reply);
    plan(redis);
}

/* Nobody is left to ask: from the beginning. */
static void begin_anew(struct redis *redis)
{
    for (size_t i = 0; i < redis->options.n_hosts; i++) {
        const struct redis_host *host = &redis->options.hosts[i];

        if (link_find(redis, host->name, host->port) == NULL)
            (void)link_new(redis, LINK_NODE, host);
    }
}

static void ask_now(void *arg)
{
    struct redis *redis = arg;
    struct redis_cluster *cluster = redis->cluster;
    struct slice words[] = {SLICE("CLUSTER"), SLICE("SLOTS")};
    struct redis_link *link = any_node(redis, cluster->next, link_answers);

    plan(redis);
    if (cluster->ask.link != NULL)
        return;
    if (link == NULL) {
        begin_anew(redis);
        return;
    }
    assert(!cluster->ask.is_pending);
    cluster->next = link->place + 1;
    cluster->asked = link;
    cluster->asked_at = net_loop_now(redis->loop);
    if (redis_write_ask(redis, &cluster->ask, words, 2))
        link_send(link, &cluster->ask);
}

void redis_cluster_hurry(struct redis *redis)
{
    struct redis_cluster *cluster = redis->cluster;
    tg_ms since = net_loop_now(redis->loop) - cluster->asked_at;

    if (!redis->freeing)
        net_timer_set(redis->loop, &cluster->timer,
                      since < READ_AT_MOST_MS ? READ_AT_MOST_MS - since : 1);
}

/* ---- What happens to it ---------------------------------------------------------------------- */

bool redis_cluster_begin(struct redis *redis)
{
    struct redis_cluster *cluster = calloc(1, sizeof *cluster);

    if (cluster == NULL)
        return false;
    redis->cluster = cluster;
    redis_ask_init(&cluster->ask, redis_cluster_answered, NULL);
    net_timer_init(&cluster->timer, ask_now, redis);
    forget_map(redis);
    begin_anew(redis);
    plan(redis);
    return redis->n_links > 0;
}

void redis_cluster_free(struct redis *redis)
{
    if (redis->cluster == NULL)
        return;
    net_timer_stop(redis->loop, &redis->cluster->timer);
    free(redis->cluster);
    redis->cluster = NULL;
}

void redis_cluster_link_up(struct redis_link *link)
{
    if (!redis_cluster_is_whole(link->redis))
        redis_cluster_hurry(link->redis);
}

void redis_cluster_link_gone(struct redis *redis, size_t place)
{
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (redis->cluster->owner[slot] == place)
            set_owner(redis->cluster, slot, LINK_NONE);
}

void redis_cluster_lost_slot(struct redis *redis, int slot)
{
    if (redis->cluster == NULL || slot < 0)
        return;
    set_owner(redis->cluster, (unsigned)slot, LINK_NONE);
    redis_cluster_hurry(redis);
    redis_poll(redis);
}

struct redis_link *redis_cluster_follow(struct redis *redis, struct redis_link *from,
                                        const struct redisReply *reply, bool moved)
{
    unsigned slot;
    struct slice name;
    int port;

    if (!resp_read_redirect(reply, &slot, &name, &port))
        return NULL;
    struct redis_link *link = link_to(redis, name, port, from);
    if (moved)
        redis_cluster_hurry(redis);
    if (link == NULL || !moved)
        return link;
    link->wanted = true;
    set_owner(redis->cluster, slot, link->place);
    redis_poll(redis);
    return link;
}
