/* net_remote_kit.h - a loop with a client of Redis on it: what a worker has, for tests of what is
 * built on it. Several kits in one test are several nodes. */
#ifndef NET_REMOTE_KIT_H
#define NET_REMOTE_KIT_H

#include "io/redis/redis.h"
#include "net_redis.h"

struct remote_kit {
    struct clock clock;
    struct net_loop *loop;
    struct redis *redis; /* null after remote_kit_cut() */
};

/* A loop of its own, or `loop`; connected. Asks have a long time limit: see remote_kit_hasten(). */
void remote_kit_open(struct remote_kit *kit, struct net_loop *loop, const struct net_redis *server);
void remote_kit_open_cluster(struct remote_kit *kit, const struct net_redis_cluster *cluster);
void remote_kit_hasten(struct remote_kit *kit, tg_ms timeout);

/* Frees the client: what is in flight is answered with null. A node that is cut off has died. */
void remote_kit_cut(struct remote_kit *kit);
void remote_kit_close(struct remote_kit *kit);

/* Turns the loop until it is so. */
#define remote_until(kit, so)                                                                      \
    do {                                                                                           \
        for (int remote_rounds = 0; !(so); remote_rounds++)                                        \
            remote_kit_turn(kit, remote_rounds, #so, __FILE__, __LINE__);                          \
    } while (0)
void remote_kit_turn(struct remote_kit *kit, int round, const char *what, const char *file,
                     int line);

#endif
